//! The catalogue and its management as tools: what a caller has and may do, and nothing else.

use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, Permission, Role};
use toolgate_engine::{Call, Lent, Runner as _};
use toolgate_registry::commands::AgentDraft;

use crate::world::{World, error, every_world, output};

fn call_as(world: &World, role: Role, tool: &str, input: Value) -> Call {
    let mut call = world.call(tool, input);
    call.caller.permissions = role.permissions().into();
    call
}

async fn answer(world: &World, role: Role, tool: &str, input: Value) -> Value {
    output(world.run(call_as(world, role, tool, input)).await)
}

fn names(answer: &Value) -> Vec<&str> {
    answer["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_caller_lists_searches_and_reads_what_they_have() {
    every_world(async |world| {
        let all = answer(&world, Role::Member, "listTools", json!({"limit": 200})).await;
        let mut sorted = names(&all);
        sorted.sort_unstable();
        assert_eq!(names(&all), sorted);
        assert!(sorted.contains(&"calculator") && sorted.contains(&"searchTools"), "{sorted:?}");

        let page = answer(&world, Role::Member, "listTools", json!({"limit": 3})).await;
        assert_eq!(names(&page), sorted[..3]);
        let next = json!({"limit": 200, "after": page["next"]});
        assert_eq!(names(&answer(&world, Role::Member, "listTools", next).await), sorted[3..]);

        let found = answer(&world, Role::Member, "searchTools", json!({"query": "add up numbers", "limit": 2})).await;
        assert!(names(&found).contains(&"calculator"), "{found:#}");

        // Whoever is no person at a browser is asked about what always asks, and is told so.
        let asks = |all: &Value, name: &str| {
            let tools = all["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).unwrap()["requires_approval"].clone()
        };
        assert_eq!((asks(&all, "manageTools"), asks(&all, "calculator")), (json!(true), json!(false)));
        let mut at_browser = call_as(&world, Role::Member, "listTools", json!({"limit": 200}));
        at_browser.caller.credential = toolgate_contracts::caller::Credential::BrowserSession(world.new_id());
        assert_eq!(asks(&output(world.run(at_browser).await), "manageTools"), json!(false));

        let whole = answer(&world, Role::Member, "describeTool", json!({"name": "write_file"})).await;
        assert_eq!((&whole["egress_class"], &whole["requires_approval"]), (&json!("write"), &json!(true)));
        assert_eq!(whole["input_schema"]["required"], json!(["path", "text"]));
    })
    .await;
}

#[tokio::test]
async fn who_has_no_rights_to_tools_sees_none() {
    every_world(async |world| {
        for (tool, input) in [("listTools", json!({})), ("searchTools", json!({"query": "number"}))] {
            assert_eq!(output(world.run(world.call(tool, input)).await), json!({"tools": []}), "{tool}");
        }
        let hidden = error(world.run(world.call("describeTool", json!({"name": "echo"}))).await);
        let unknown = error(world.run(world.call("describeTool", json!({"name": "noSuchTool"}))).await);
        assert_eq!(hidden.code, unknown.code);
        assert_eq!(hidden.message.replace("echo", "X"), unknown.message.replace("noSuchTool", "X"));
    })
    .await;
}

fn creating() -> Value {
    json!({
        "action": "create", "slug": "countLetters", "title": "Count letters",
        "description": "Counts the letters of a text. Use it for lengths. Do not use it for words.",
        "inputSchema": {"type": "object", "additionalProperties": false, "required": ["text"],
            "properties": {"text": {"type": "string", "description": "What to count."}}},
        "outputSchema": {"type": "object"},
        "egressClass": "none",
        "runner": {"kind": "expression", "cel": "{'letters': size(input.text)}"}
    })
}

#[tokio::test]
async fn an_author_makes_changes_reads_and_deletes_a_tool() {
    every_world(async |world| {
        let manage = async |input: Value| answer(&world, Role::Author, "manageTools", input).await;
        let made = manage(creating()).await;
        assert_eq!((&made["slug"], &made["version"]), (&json!("countLetters"), &json!("1.0.0")), "{made:#}");
        assert_eq!(names(&manage(json!({"action": "list"})).await), ["countLetters"]);
        let changed = manage(json!({"action": "update", "slug": "countLetters", "title": "Letters"})).await;
        assert_eq!((&changed["version"], &changed["unchanged"]), (&json!("1.0.1"), &json!(false)));
        let read = manage(json!({"action": "get", "slug": "countLetters"})).await;
        assert_eq!((&read["tool"]["title"], &read["tool"]["version"]), (&json!("Letters"), &json!("1.0.1")));
        assert_eq!(read["tool"]["runner"], creating()["runner"]);
        manage(json!({"action": "delete", "slug": "countLetters"})).await;
        assert_eq!(names(&manage(json!({"action": "list"})).await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn what_an_action_needs_is_told_in_the_words_of_the_specification() {
    every_world(async |world| {
        let check = async |role: Role, input: Value, code: ErrorCode, message: &str| {
            let refused = error(world.run(call_as(&world, role, "manageTools", input.clone())).await);
            assert_eq!(refused.code, code, "{input} {refused:?}");
            assert!(refused.message.contains(message), "{input} {refused:?}");
            refused
        };
        let invalid = ErrorCode::ValidationError;
        check(Role::Author, json!({"action": "create"}), invalid, "manageTools.create requires 'slug'").await;
        let mut half = creating();
        half["runner"] = Value::Null;
        check(Role::Author, half, invalid, "manageTools.create requires 'runner'").await;
        for action in ["update", "delete", "get"] {
            let message = format!("manageTools.{action} requires 'slug'");
            check(Role::Author, json!({"action": action}), invalid, &message).await;
        }
        let mut wrong = creating();
        wrong["runner"] = json!({"kind": "expression", "cel": "size("});
        let refused = check(Role::Author, wrong, invalid, "").await;
        assert_eq!(refused.details.unwrap()["findings"][0]["code"], "runner.expression");
        let mut taken = creating();
        taken["slug"] = "echo".into();
        check(Role::Author, taken, invalid, "change it with the action `update`").await;
        let shipped = json!({"action": "update", "slug": "echo", "title": "Mine"});
        check(Role::Author, shipped, invalid, "is not a tool that was made here").await;
        // A caller who may not make tools makes none this way either.
        check(Role::Member, creating(), ErrorCode::PolicyDenied, "`tools.tenant.create`").await;
    })
    .await;
}

/// A call of somebody without the right, as it runs after people with it approved.
fn lent(world: &World, right: Permission, input: Value) -> Call {
    let mut call = call_as(world, Role::Member, "manageTools", input);
    call.lent = Some(Lent { right, approval: world.new_id(), by: vec!["user:granter".to_owned()] });
    call
}

#[tokio::test]
async fn a_right_that_was_lent_makes_the_change_and_the_log_says_whose_it_was() {
    every_world(async |world| {
        let update = json!({"action": "update", "slug": "countLetters", "title": "Letters"});
        let delete = json!({"action": "delete", "slug": "countLetters"});
        let steps = [
            (creating(), Permission::TOOLS_TENANT_CREATE, "tool.register"),
            (update, Permission::TOOLS_TENANT_UPDATE, "tool.register"),
            (delete, Permission::TOOLS_TENANT_DELETE, "tool.delete"),
        ];
        for (input, right, action) in steps {
            // Neither without one nor with another.
            let refused = error(world.run(call_as(&world, Role::Member, "manageTools", input.clone())).await);
            assert_eq!((refused.code, refused.reason()), (ErrorCode::PolicyDenied, "permission"), "{refused:?}");
            let remedy = refused.details.unwrap()["remedy"].to_string();
            assert!(remedy.contains("approves the call"), "{remedy}");
            let other = lent(&world, Permission::KILLSWITCH, input.clone());
            assert_eq!(error(world.run(other).await).code, ErrorCode::PolicyDenied);
            let call = lent(&world, right.clone(), input);
            let (id, approval) = (call.id, call.lent.as_ref().unwrap().approval);
            output(world.run(call).await);
            let entries = world.tools.store.audit_entries(world.tenant, 100).await.unwrap();
            let found = |entry: &&Value| entry["action"] == action && entry["details"]["lent"]["call"] == json!(id);
            let entry = entries.iter().find(found).unwrap();
            let expected = json!({"right": right, "by": ["user:granter"], "approval": approval, "call": id});
            assert_eq!((&entry["actor"], &entry["details"]["lent"]), (&json!("local:0"), &expected));
        }
        // What names the operator's entries needs the operator's own right, which is lent to nobody.
        let mut script = creating();
        script["runner"] = json!({"kind": "script", "entry": "deploy"});
        let refused = error(world.run(lent(&world, Permission::TOOLS_TENANT_CREATE, script)).await);
        assert!(refused.message.contains("`config.edit`"), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn an_agent_is_told_when_it_does_not_have_the_tool_that_it_made_and_who_gives_it() {
    every_world(async |world| {
        let owner = call_as(&world, Role::Admin, "manageTools", json!({})).caller;
        let create = async |agent: &str, toolset: &str, slug: &str, class: &str| {
            let draft = json!({"spec": {"name": agent, "toolset": toolset}, "state": "active"});
            let draft = AgentDraft {
                spec: toolgate_contracts::json::decode(draft["spec"].clone()).unwrap(),
                state: toolgate_contracts::json::decode(draft["state"].clone()).unwrap(),
            };
            let (agent, _) = world.tools.registry.put_agent(&owner, draft).await.unwrap();
            let mut input = creating();
            input["slug"] = slug.into();
            input["egressClass"] = class.into();
            let mut call = lent(&world, Permission::TOOLS_TENANT_CREATE, input);
            call.agent = Some(agent.id);
            output(world.run(call).await)
        };
        // An open set takes what only reads by itself.
        let made = create("open", "open", "countLetters", "none").await;
        assert_eq!((&made["slug"], made.get("next")), (&json!("countLetters"), None));
        for (agent, toolset, slug, class) in
            [("closed", "assigned", "countWords", "none"), ("opener", "open", "countLines", "write")]
        {
            let made = create(agent, toolset, slug, class).await;
            let next = made["next"].as_str().unwrap();
            assert!(next.contains(&format!("`toolgate tool assign --tool {slug} --agent {agent}`")), "{next}");
            assert!(next.contains("`tools.assign`"), "{next}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_would_be_changed_is_told_beforehand_and_what_cannot_be_is_refused() {
    every_world(async |world| {
        let plan = async |role, input| world.runner.plan(&call_as(&world, role, "manageTools", input)).await;
        let planned = plan(Role::Member, creating()).await.unwrap();
        let told = (&planned["slug"], &planned["version"], &planned["needs"]);
        assert_eq!(told, (&json!("countLetters"), &json!("1.0.0"), &json!("tools.tenant.create")));
        assert_eq!(names(&answer(&world, Role::Author, "manageTools", json!({"action": "list"})).await), [""; 0]);
        let mut wrong = creating();
        wrong["runner"] = json!({"kind": "expression", "cel": "size("});
        assert_eq!(plan(Role::Member, wrong).await.unwrap_err().code, ErrorCode::ValidationError);
        answer(&world, Role::Author, "manageTools", creating()).await;
        let update = json!({"action": "update", "slug": "countLetters", "title": "Letters"});
        let planned = plan(Role::Member, update).await.unwrap();
        let difference = planned["difference"].as_str().unwrap();
        assert!(
            difference.contains("-  \"title\": \"Count letters\"") && difference.contains("+  \"title\": \"Letters\"")
        );
        let shipped = json!({"action": "delete", "slug": "echo"});
        assert!(plan(Role::Author, shipped).await.unwrap_err().message.contains("not a tool that was made here"));
        let listed = plan(Role::Member, json!({"action": "list"})).await.unwrap();
        assert_eq!(listed, json!({"would_run": true}), "an answer is not given before it is approved");
    })
    .await;
}
