//! Runs that really ran here, exported and replayed through the API: equal as they were, told apart where something else is
//! given, refused where a part of them was changed.

use serde_json::{Value, json};
use toolgate_contracts::json as strict;
use toolgate_ledger::{Signer, statement};
use toolgate_registry::schema::Validator;

use crate::world::{As, World, attend, every_world};

const PERMITS: &str = "@id(\"all\")\npermit (principal, action, resource);";

async fn provider(world: &World, name: &str, turns: Value) {
    let spec = json!({"name": name, "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&As::Owner, "PUT", &format!("/api/v1/providers/{name}"), spec).await.ok();
}

/// An agent whose model says these turns and which has these tools; without any, all there are.
async fn agent(world: &World, name: &str, turns: Value, tools: &[&str]) {
    provider(world, name, turns).await;
    let mut spec =
        json!({"name": name, "model": format!("{name}/any"), "instructions": "Be brief.", "toolset": "open"});
    if !tools.is_empty() {
        spec["toolset"] = json!("assigned");
        spec["custom_tools"] = json!(tools.iter().filter(|tool| **tool != "write_file").collect::<Vec<_>>());
    }
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
    if tools.contains(&"write_file") {
        world.send(&As::Owner, "PUT", &format!("/api/v1/agents/{name}/tools/write_file"), json!({})).await.ok();
    }
}

/// Runs it to where it ends or waits for somebody.
async fn run(world: &World, name: &str, limits: Value) -> Value {
    let body = json!({"prompt": "Go.", "limits": limits});
    world.send(&As::Owner, "POST", &format!("/api/v1/agents/{name}/runs?wait=30"), body).await.ok()
}

async fn ends(world: &World, run: &Value) -> Value {
    let path = format!("/api/v1/runs/{}/outputs?wait=1", run["id"].as_str().unwrap());
    for _ in 0..80 {
        let seen = world.get(&As::Owner, &path).await.ok();
        if seen["outputs"].is_object() {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the run never ends: {:#}", world.get(&As::Owner, &path).await.body);
}

async fn decide(world: &World, who: &As, choice: Value) {
    let asked = world.get(who, "/api/v1/approvals?state=open").await.ok();
    let path = format!("/api/v1/approvals/{}/decide", asked["items"][0]["id"].as_str().unwrap());
    world.send(who, "POST", &path, choice).await.ok();
}

fn sum(text: &str) -> Value {
    json!({"tool": "calculator", "input": {"expression": text}})
}

fn write(path: &str) -> Value {
    json!({"tool": "write_file", "input": {"path": path, "text": "hello", "overwrite": true}})
}

/// The published schema, which every bundle of these tests keeps to.
fn schema() -> Validator {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/replay-bundle.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Validator::new(&schema).unwrap()
}

async fn exported(world: &World, run: &Value) -> Value {
    let bundle = world.get(&As::Owner, &format!("/api/v1/runs/{}/bundle", run["id"].as_str().unwrap())).await.ok();
    let violations = schema().validate(&bundle);
    assert!(violations.is_empty(), "the bundle is not what is published: {violations:#?}");
    bundle
}

async fn replayed(world: &World, body: Value) -> Value {
    world.send(&As::Owner, "POST", "/api/v1/replay", body).await.ok()
}

/// As it was: from the run and from its bundle. How many questions, calls and decisions that were.
async fn equal(world: &World, name: &str, run: &Value, compared: (u64, u64, u64)) -> Value {
    let bundle = exported(world, run).await;
    for body in [json!({"run": run["id"]}), json!({"bundle": bundle.to_string()})] {
        let replayed = replayed(world, body).await;
        assert_eq!(replayed["equal"], true, "{name}: {replayed:#}");
        assert_eq!((&replayed["unknown"], &replayed["differences"]), (&json!([]), &json!([])), "{name}: {replayed:#}");
        let of = |member: &str| replayed[member].as_u64().unwrap();
        assert_eq!((of("turns"), of("calls"), of("decisions")), compared, "{name}: {replayed:#}");
    }
    for turn in bundle["turns"].as_array().unwrap() {
        let digest = strict::digest(&turn["request"]).to_string();
        assert_eq!(turn["response"]["asked"], digest, "{name}: what was asked is what the bundle says");
    }
    bundle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_replayed_as_it_was_however_it_went() {
    every_world(async |world| {
        let stop = attend(&world.app);
        // What went well, what a tool failed at, what its schema refused, what does not exist, and what the agent lacks.
        let mixed = json!([
            sum("2 * 21"), sum("1 / 0"), {"tool": "calculator", "input": {"expresion": "1"}},
            {"tool": "noSuchTool", "input": {"a": 1}}, {"tool": "not a name!", "input": {}}, {"tool": "echo", "input": {}},
        ]);
        agent(&world, "mixed", json!([{"say": "Let me see.", "call": mixed}, {"say": "42."}]), &["calculator"]).await;
        let went = run(&world, "mixed", json!({})).await;
        assert_eq!(went["state"], "completed", "{went:#}");
        equal(&world, "mixed", &went, (2, 6, 3)).await;

        for (limits, compared) in [
            (json!({"max_iterations": 1}), (1, 6, 3)),
            (json!({"max_tool_calls": 2}), (1, 3, 3)),
            (json!({"max_tokens": 100}), (0, 0, 0)),
        ] {
            let ended = run(&world, "mixed", limits.clone()).await;
            assert_eq!(ended["state"], "failed", "{ended:#}");
            equal(&world, &limits.to_string(), &ended, compared).await;
        }

        // The provider fails at the second question.
        let turns = json!([{"call": [sum("1 + 1")]}, {"fail": {"status": 400}}]);
        agent(&world, "failing", turns, &["calculator"]).await;
        let ended = run(&world, "failing", json!({})).await;
        assert_eq!(ended["state"], "failed", "{ended:#}");
        equal(&world, "failing", &ended, (1, 1, 1)).await;
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_decided_is_replayed_as_they_decided_it() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let approver = world.user("default", "ben", &["approver"]).await;

        // Its members are not sorted when it is fresh; it is read back when the run is taken up.
        let list = json!({"tool": "list_files", "input": {}});
        let looking = json!([{"call": [list]}, {"call": [write("listed.txt")]}, {"say": "Done."}]);
        agent(&world, "looking", looking, &["list_files", "write_file"]).await;
        let parked = run(&world, "looking", json!({})).await;
        assert_eq!(parked["state"], "waiting_human", "{parked:#}");
        decide(&world, &approver, json!({"decision": "approve"})).await;
        let ended = ends(&world, &parked).await;
        assert_eq!(ended["state"], "completed", "{ended:#}");
        equal(&world, "looking", &ended, (3, 2, 2)).await;

        let turns = |path: &str| json!([{"call": [sum("2 * 21"), write(path)]}, {"say": "Done."}]);
        agent(&world, "scribe", turns("a.txt"), &["calculator", "write_file"]).await;
        let waiting = async || {
            let run = run(&world, "scribe", json!({})).await;
            assert_eq!(run["state"], "waiting_human", "{run:#}");
            run
        };

        // Still open: there is nothing to replay yet.
        let parked = waiting().await;
        let path = format!("/api/v1/runs/{}/bundle", parked["id"].as_str().unwrap());
        let refused = world.get(&As::Owner, &path).await.refused(409);
        assert!(refused["detail"].as_str().unwrap().starts_with("the run is waiting_human"), "{refused:#}");
        world.send(&As::Owner, "POST", "/api/v1/replay", json!({"run": parked["id"]})).await.refused(409);

        decide(&world, &approver, json!({"decision": "approve"})).await;
        let approved = ends(&world, &parked).await;
        let bundle = equal(&world, "approved", &approved, (2, 2, 2)).await;
        assert_eq!(bundle["calls"][1]["envelope"]["output"]["bytes"], 5, "{:#}", bundle["calls"][1]);

        let parked = waiting().await;
        decide(&world, &approver, json!({"decision": "reject", "reason": "not today"})).await;
        let bundle = equal(&world, "rejected", &ends(&world, &parked).await, (2, 2, 2)).await;
        let told = bundle["calls"][1]["result_for_model"]["text"].as_str().unwrap();
        assert!(told.contains("not today"), "{told}");

        // What ran is what a person put there; what was asked for is what the id is made of.
        let parked = waiting().await;
        let edited = json!({"path": "b.txt", "text": "good day", "overwrite": true});
        decide(&world, &approver, json!({"decision": "approve", "input": edited})).await;
        let bundle = equal(&world, "edited", &ends(&world, &parked).await, (2, 2, 2)).await;
        let call = &bundle["calls"][1];
        assert_eq!((&call["envelope"]["input"], &call["decision"]["edited"]), (&edited, &json!(true)), "{call:#}");
        assert_eq!(call["envelope"]["output"]["path"], "b.txt");

        // Another version of the tool says nothing of what a person wrote; a script that asks the same gets it too.
        let tool =
            include_str!("../../../toolbox/tools/write_file/TOOL.md").replace("version: 1.0.0", "version: 2.0.0");
        let under = replayed(&world, json!({"bundle": bundle.to_string(), "tool": tool})).await;
        assert_eq!(under["equal"], true, "{under:#}");
        let script = json!({"version": 1, "turns": turns("a.txt")});
        let under = replayed(&world, json!({"bundle": bundle.to_string(), "script": script})).await;
        assert_eq!(under["equal"], true, "{under:#}");

        // Cancelled while it waited: as far as it came.
        let parked = waiting().await;
        let path = format!("/api/v1/runs/{}/state", parked["id"].as_str().unwrap());
        world.send(&As::Owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        let cancelled = ends(&world, &parked).await;
        // The sum was done; what waited is among them if it was taken back before the run was closed.
        let told = cancelled["outputs"]["tool_order"].as_array().unwrap().len() as u64;
        assert!(told >= 1, "{cancelled:#}");
        equal(&world, "cancelled", &cancelled, (1, told, told)).await;
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_and_the_run_below_it_are_two_bundles() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let ask = json!({"tool": "delegateToAgent", "input": {"agent": "clerk", "prompt": "Count."}});
        let turns = json!([{"call": [ask]}, {"say": "The clerk says: {{ tools.delegateToAgent.response }}"}]);
        agent(&world, "boss", turns, &["delegateToAgent"]).await;
        agent(&world, "clerk", json!([{"call": [sum("40 + 2")]}, {"say": "42."}]), &["calculator"]).await;
        let begun = run(&world, "boss", json!({})).await;
        let ended = ends(&world, &begun).await;
        assert_eq!(ended["outputs"]["response"], "The clerk says: 42.", "{ended:#}");
        let bundle = equal(&world, "above", &ended, (2, 1, 1)).await;
        assert_eq!(bundle["snapshot"]["policy"]["depth"], 0);
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", ended["id"].as_str().unwrap())).await.ok();
        let bundle = equal(&world, "below", &shown["runs"][0], (2, 1, 1)).await;
        assert_eq!(
            (&bundle["run"]["agent"]["name"], &bundle["snapshot"]["policy"]["depth"]),
            (&json!("clerk"), &json!(1))
        );
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_different_is_explained() {
    every_world(async |world| {
        let echo = json!({"tool": "echo", "input": {"text": "hello"}});
        let turns = json!([{"call": [sum("2 * 21"), echo]}, {"say": "42."}]);
        agent(&world, "counting", turns, &["calculator", "echo"]).await;
        let strict = format!(
            "{PERMITS}\n@id(\"no-hello\")\nforbid (principal, action == Action::\"call\", resource == Tool::\"echo\") when {{ context.args.text == \"hello\" }};"
        );
        let allowed = run(&world, "counting", json!({})).await;
        let bundle = equal(&world, "default policies", &allowed, (2, 2, 2)).await.to_string();

        let check = async |body: Value, at: &str, told: &str| {
            let mut body = body;
            body["bundle"] = json!(bundle);
            let replayed = replayed(&world, body).await;
            assert_eq!((&replayed["equal"], &replayed["at"]), (&json!(false), &json!(at)), "{replayed:#}");
            assert!(replayed["told"].as_str().unwrap().starts_with(told), "{replayed:#}");
            replayed
        };
        let denied = "call 1 of `echo` was allowed, and would be denied by the policy `no-hello`";
        let other = check(json!({"policy": strict}), "/calls/1/decision", denied).await;
        assert_eq!(other["differences"].as_array().unwrap().len(), 1, "{other:#}");
        let asks = format!("{PERMITS}\n@id(\"look\")\nforbid (principal, action == Action::\"call_unattended\", resource);");
        let told = "call 0 of `calculator` was allowed, and would be put to a person by the policy `look`";
        check(json!({"policy": asks}), "/calls/0/decision", told).await;

        // Another version of a tool: what it would refuse, and what it would run with.
        let tool = include_str!("../../../toolbox/tools/echo/TOOL.md");
        let version = tool.lines().find(|line| line.starts_with("version:")).unwrap();
        let shorter = tool.replacen(version, "version: 9.0.0", 1).replacen("maxLength: ", "maxLength: 3 # ", 1);
        let told = "call 1 of `echo` was taken by version ";
        check(json!({"tool": shorter}), "/calls/1/envelope/error", told).await;

        // Another model: what it would ask for, say, and where it has nothing to say.
        let script = |turns: Value| json!({"script": {"version": 1, "turns": turns}});
        let told = "the model would make call 0 of `calculator`, and no such call was recorded";
        check(script(json!([{"call": [sum("7 * 6")]}])), "/calls", told).await;
        let told = "the run would give another `response`";
        check(script(json!([{"call": [sum("2 * 21"), echo]}, {"say": "43."}])), "/outputs/response", told).await;
        let told = "question 2 has no answer";
        check(script(json!([{"call": [sum("2 * 21")]}])), "/turns/1/response", told).await;

        // The policies of now, for the run and for its bundle; and a run that those decided.
        world.send(&As::Owner, "POST", "/api/v1/policies", json!({"source": strict})).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/policies/1/activate", json!({})).await.ok();
        check(json!({"against": "now"}), "/calls/1/decision", denied).await;
        assert_eq!(replayed(&world, json!({"bundle": bundle})).await["equal"], true, "it was decided by those of then");
        let refused = run(&world, "counting", json!({})).await;
        assert_eq!(refused["outputs"]["last_tool"]["name"], "calculator", "{refused:#}");
        let bundle = equal(&world, "refused by a policy", &refused, (2, 2, 2)).await;
        assert_eq!(bundle["snapshot"]["policy"]["texts"]["1"], strict);
        let kinder = replayed(&world, json!({"bundle": bundle.to_string(), "policy": PERMITS})).await;
        assert_eq!(kinder["told"], "call 1 of `echo` was denied, and would be allowed", "{kinder:#}");

        for (body, pointer) in [
            (json!({}), "/run"),
            (json!({"run": refused["id"], "bundle": "{}"}), "/run"),
            (json!({"run": refused["id"], "policy": PERMITS, "against": "now"}), "/against"),
            (json!({"run": refused["id"], "policy": "permit ("}), "/policy"),
            (json!({"run": refused["id"], "tool": "no front matter"}), "/tool"),
            (json!({"run": refused["id"], "script": {"version": 1, "turns": [{"sa": 1}]}}), "/script/turns/0/sa"),
        ] {
            let problem = world.send(&As::Owner, "POST", "/api/v1/replay", body.clone()).await.refused(400);
            assert_eq!(problem["pointer"], pointer, "{body}: {problem:#}");
        }
    })
    .await;
}

/// Where the leaves of a value are, at most two of each member of the bundle's members.
fn leaves(value: &Value, at: &str, depth: usize, found: &mut Vec<String>) {
    let before = found.len();
    let mut below = |name: String, member: &Value| {
        if depth < 2 || found.len() < before + 2 {
            leaves(member, &format!("{at}/{name}"), depth + 1, found);
        }
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| below(strict::escape(name), member)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| below(index.to_string(), item)),
        _ => found.push(at.to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_part_of_a_bundle_can_be_changed_unseen() {
    every_world(async |world| {
        agent(&world, "counting", json!([{"call": [sum("2 * 21")]}, {"say": "42."}]), &["calculator"]).await;
        let bundle = exported(&world, &run(&world, "counting", json!({})).await).await;
        let refused = async |bundle: &Value, told: &str| {
            let body = json!({"bundle": bundle.to_string()});
            let problem = world.send(&As::Owner, "POST", "/api/v1/replay", body).await.refused(400);
            assert!(problem["pointer"].as_str().unwrap().starts_with("/bundle/"), "{problem:#}");
            assert!(problem["detail"].as_str().unwrap().starts_with(told), "{problem:#}");
        };
        let mut parts = Vec::new();
        leaves(&bundle, "", 0, &mut parts);
        assert!(parts.len() > 40, "{parts:?}");
        for part in parts.iter().filter(|part| !part.starts_with("/signature") && *part != "/format") {
            let mut changed = bundle.clone();
            let leaf = changed.pointer_mut(part).unwrap();
            *leaf = match &*leaf {
                Value::String(text) => json!(format!("{text}0")),
                Value::Number(number) => json!(number.as_u64().unwrap() + 1),
                Value::Bool(is) => json!(!*is),
                _ => json!("something"),
            };
            refused(&changed, "the bundle was changed after it was made").await;
        }
        // Whoever makes the digest anew has no key to sign it with, or another one.
        let mut forged = bundle.clone();
        forged["outputs"]["response"] = json!("43.");
        let members = forged.as_object_mut().unwrap();
        let (digest, signature) = (members.shift_remove("digest"), members.shift_remove("signature"));
        assert!(digest.is_some());
        let digest = strict::digest(&forged);
        forged["digest"] = json!(digest.to_string());
        forged["signature"] = signature.unwrap();
        refused(&forged, "the signature does not hold").await;
        let signer = Signer::from_seed("toolgate/0000000000000001/default".parse().unwrap(), &[7; 32]);
        let note = statement::sign(&signer, "toolgate/replay/1", &digest).unwrap().to_string();
        forged["signature"] = json!({"key": signer.verifier().to_string(), "note": note});
        refused(&forged, "the signature does not hold").await;
        // Nor is what another tenant's log signed this tenant's.
        world.tenant("other").await;
        let body = json!({"bundle": bundle.to_string()});
        world.send(&As::OwnerOf("other"), "POST", "/api/v1/replay", body).await.refused(400);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_tells_of_the_guardrails_and_the_profile_that_stood_when_the_run_began() {
    every_world(async |world| {
        agent(&world, "counting", json!([{"repeat": 2, "say": "42."}]), &["calculator"]).await;
        let profile = json!({"name": "careful", "max_cost_per_day": "5.00"});
        world.send(&As::Owner, "PUT", "/api/v1/profiles/careful", profile).await.ok();
        let mut spec = json!({"name": "counting", "model": "counting/any", "profile": "careful"});
        world.send(&As::Owner, "PUT", "/api/v1/agents/counting", spec.clone()).await.ok();
        let body = json!({"prompt": "Go."});
        let run = world.send(&As::Owner, "POST", "/api/v1/agents/counting/runs?wait=30", body).await.ok();
        let guardrail = json!({
            "name": "no-urls", "order": 1, "stage": "TOOL_CALL", "on_match": "tripwire",
            "detector": {"kind": "builtin", "name": "secrets"},
        });
        world.send(&As::Owner, "PUT", "/api/v1/guardrails/no-urls", guardrail).await.ok();
        spec["profile"] = Value::Null;
        world.send(&As::Owner, "PUT", "/api/v1/agents/counting", spec).await.ok();
        let path = format!("/api/v1/runs/{}/bundle", run["id"].as_str().unwrap());
        let snapshot = world.get(&As::Owner, &path).await.ok()["snapshot"].clone();
        assert_eq!(snapshot["guardrails"], json!([]), "it came later: {snapshot:#}");
        assert_eq!(snapshot["profile"]["name"], "careful", "it was taken away later: {snapshot:#}");
        let later =
            world.send(&As::Owner, "POST", "/api/v1/agents/counting/runs?wait=30", json!({"prompt": "Go."})).await.ok();
        let path = format!("/api/v1/runs/{}/bundle", later["id"].as_str().unwrap());
        let snapshot = world.get(&As::Owner, &path).await.ok()["snapshot"].clone();
        assert_eq!((&snapshot["guardrails"][0]["name"], &snapshot["profile"]), (&json!("no-urls"), &Value::Null));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_is_for_who_may_read_all_of_its_run() {
    every_world(async |world| {
        agent(&world, "counting", json!([{"call": [sum("2 * 21")]}, {"say": "42."}]), &["calculator"]).await;
        let member = world.user("default", "mona", &["member"]).await;
        let body = json!({"prompt": "Go."});
        let own = world.send(&member, "POST", "/api/v1/agents/counting/runs?wait=30", body).await.ok();
        let path = format!("/api/v1/runs/{}/bundle", own["id"].as_str().unwrap());
        // Their own, without the policies that they may not read; decisions are then by none that are known.
        let bundle = world.get(&member, &path).await.ok();
        assert_eq!(
            (&bundle["snapshot"]["guardrails"], &bundle["snapshot"]["policy"]["texts"]),
            (&json!([]), &Value::Null)
        );
        let other = world.user("default", "otto", &["member"]).await;
        world.get(&other, &path).await.refused(404);
        world.send(&other, "POST", "/api/v1/replay", json!({"run": own["id"]})).await.refused(404);
        world.send(&member, "POST", "/api/v1/replay", json!({"run": own["id"], "against": "now"})).await.refused(403);
        let replayed = world.send(&member, "POST", "/api/v1/replay", json!({"run": own["id"]})).await.ok();
        assert_eq!(replayed["equal"], true, "{replayed:#}");
    })
    .await;
}
