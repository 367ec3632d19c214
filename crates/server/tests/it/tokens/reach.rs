//! What whoever shows a token sees and may do: what it was made for (test 17 of `security.md` §11).

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use toolgate_contracts::TokenId;
use tower::ServiceExt as _;

use super::text;
use crate::world::{As, World, every_world, tool, write_tool};

/// A token: its name, its holder, the calls and runs that it sees, and how many approvals.
type Sees<'a> = (&'a str, &'a As, Vec<&'a String>, Vec<&'a String>, usize);

#[tokio::test]
async fn test_17_lists_search_and_calls_agree_under_a_token() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        world.register(&As::Owner, write_tool("writeRecord")).await.ok();
        let all = world.names(&As::Owner, "").await;
        let scopes = [
            json!(["tool:echo"]),
            json!(["tool:echo@^2"]),
            json!(["tool:read_record", "tool:calculator@^1"]),
            json!(["tool:*"]),
        ];
        for scope in scopes {
            let token = world.holder(&As::Owner, json!({"scope": scope})).await;
            let listed = world.names(&token, "").await;
            for name in &all {
                let called = world
                    .send(&token, "POST", "/api/v1/calls", json!({"tool": name, "input": {}, "mode": "dry_run"}))
                    .await;
                assert_eq!(listed.contains(name), called.status != 404, "{scope} {name} {:#}", called.body);
                let page = world.get(&token, &format!("/api/v1/tools/{name}")).await.status;
                assert_eq!(listed.contains(name), page == 200, "{scope} {name}");
                let found = world.get(&token, &format!("/api/v1/search?q={name}&kind=tool&limit=50")).await.ok();
                assert_eq!(listed.contains(name), found.to_string().contains(&format!("\"{name}\"")), "{scope} {name}");
            }
        }
        let one = world.holder(&As::Owner, json!({"scope": ["tool:echo"]})).await;
        assert_eq!(world.names(&one, "").await, ["echo"]);
        world.get(&one, "/api/v1/tools?all=true").await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn a_token_decides_nothing_manages_nothing_and_reads_nobody_else() {
    every_world(async |world| {
        let admin = world.user("default", "ada", &["admin"]).await;
        let token = world.holder(&admin, json!({"scope": ["tool:*"]})).await;
        let refused = [
            ("GET", "/api/v1/users", Value::Null),
            ("GET", "/api/v1/keys", Value::Null),
            ("POST", "/api/v1/keys", json!({"name": "k"})),
            ("POST", "/api/v1/users", json!({"name": "u"})),
            ("POST", "/api/v1/agents", json!({"name": "a"})),
            ("GET", "/api/v1/agents", Value::Null),
            ("PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})),
            ("POST", "/api/v1/tools", json!({"definition": tool("mine", json!({})), "apply": true})),
            ("GET", "/api/v1/secrets", Value::Null),
            ("GET", "/api/v1/server-keys", Value::Null),
            ("GET", "/api/v1/audit/entries", Value::Null),
            ("GET", "/api/v1/config", Value::Null),
            ("GET", "/api/v1/usage", Value::Null),
            ("POST", "/api/v1/kill-switches", json!({"scope": "tenant", "on": true, "reason": "r"})),
        ];
        for (method, path, body) in refused {
            let answer = world.send(&token, method, path, body).await;
            assert!([403, 404, 405].contains(&answer.status), "{method} {path}: {} {:#}", answer.status, answer.body);
        }
        let me = world.get(&token, "/api/v1/me").await.ok();
        assert_eq!(me["signed_in_by"], "token");
        assert_eq!(me["permissions"], json!(["calls.create", "calls.read.own", "tokens.mint", "tools.read"]));
        // What its key may not do, it may not do.
        let key = json!({"name": "mints", "scopes": ["tokens.mint", "tools.read"]});
        let key = world.send(&admin, "POST", "/api/v1/keys", key).await.ok();
        let minted =
            world.holder(&As::Key(key["secret"].as_str().unwrap().to_owned()), json!({"scope": ["tool:*"]})).await;
        world.call(&minted, "echo", json!({})).await.refused(403);
        // Another tenant's name changes nothing.
        let request = Request::get("/api/v1/tools")
            .header(header::AUTHORIZATION, format!("Bearer {}", text(&token)))
            .header(toolgate_server::TENANT_HEADER, "system")
            .body(Body::empty())
            .unwrap();
        assert_eq!(world.router().oneshot(request).await.unwrap().status(), 404);
    })
    .await;
}

#[tokio::test]
async fn invoke_takes_a_token_for_whom_it_was_made() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "helper"})).await.ok();
        let own = world.mint(&As::Owner, json!({"scope": ["tool:calculator"]})).await;
        let agents = world.mint(&As::Owner, json!({"scope": ["tool:calculator"], "agent": "helper"})).await;
        let invoke = async |token: &Value, caller: &str| {
            let body = json!({
                "request_id": TokenId::new(&world.clock, &world.app.rng).to_string(), "caller_id": caller, "capability_token": token["token"],
                "tool_id": "calculator", "function_name": "", "args": {"expression": "6*7"}, "metadata": {},
            });
            world.send(&As::Nobody, "POST", "/invoke", body).await.ok()
        };
        let agent = agents["agent_id"].as_str().unwrap().to_owned();
        let principal = own["principal"].as_str().unwrap().to_owned();
        for (token, caller) in [(&own, &principal), (&agents, &agent)] {
            let answer = invoke(token, caller).await;
            assert_eq!(answer["status"], "ok", "{answer:#}");
        }
        for (token, caller) in [(&own, &agent), (&agents, &principal), (&own, &"me".to_owned())] {
            let answer = invoke(token, caller).await;
            assert_eq!(answer["status"], "denied", "{answer:#}");
            assert!(answer.to_string().contains("AUTH_REQUIRED"), "{answer:#}");
        }
    })
    .await;
}

/// What a list shows, by the ids in it.
async fn listed(world: &World, who: &As, path: &str) -> Vec<String> {
    let list = world.get(who, path).await.ok();
    let mut ids: Vec<String> =
        list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn a_token_reads_the_calls_runs_and_approvals_that_it_was_made_for() {
    every_world(async |world| {
        let ada = world.user("default", "ada", &["member"]).await;
        // One that runs here: nobody is asked about what could not.
        let writes = tool("writeRecord", json!({"egress_class": "write", "runner": {"kind": "external"}}));
        world.register(&As::Owner, writes).await.ok();
        let run = async || {
            let run = world.send(&ada, "POST", "/api/v1/runs", json!({})).await.ok();
            run["id"].as_str().unwrap().to_owned()
        };
        let call = async |tool: &str, input: Value, run: Option<&str>| {
            let body = json!({"tool": tool, "input": input, "run_id": run, "wait": 0});
            let answer = world.send(&ada, "POST", "/api/v1/calls", body).await.ok();
            answer["id"].as_str().unwrap().to_owned()
        };
        let (own, other) = (run().await, run().await);
        let echo = |text: &str| json!({"text": text});
        let inside = call("echo", echo("a"), Some(&own)).await;
        let beside = call("calculator", json!({"expression": "1+1"}), Some(&own)).await;
        let elsewhere = call("echo", echo("b"), Some(&other)).await;
        let lone = call("calculator", json!({"expression": "2+2"}), None).await;
        let waiting = call("writeRecord", json!({"id": "1"}), Some(&own)).await;
        let approvals = listed(&world, &ada, "/api/v1/approvals").await;
        assert_eq!(approvals.len(), 1);

        let by_tool = world.holder(&ada, json!({"scope": ["tool:echo@^1"]})).await;
        let by_run = world.holder(&ada, json!({"scope": ["tool:*"], "run": own})).await;
        let by_both = world.holder(&by_tool, json!({"scope": ["tool:echo"], "run": own})).await;
        let of_another = world.holder(&ada, json!({"scope": ["tool:echo@^7"]})).await;
        let all = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        let every = [&inside, &beside, &elsewhere, &lone, &waiting];
        let cases: [Sees; 5] = [
            ("a tool", &by_tool, vec![&inside, &elsewhere], vec![&own, &other], 0),
            ("a run", &by_run, vec![&inside, &beside, &waiting], vec![&own], 1),
            ("both", &by_both, vec![&inside], vec![&own], 0),
            ("a version that nobody called", &of_another, vec![], vec![&own, &other], 0),
            ("everything", &all, every.to_vec(), vec![&own, &other], 1),
        ];
        for (name, token, calls, runs, asked) in cases {
            let sorted = |ids: &[&String]| {
                let mut ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
                ids.sort_unstable();
                ids
            };
            assert_eq!(listed(&world, token, "/api/v1/calls").await, sorted(&calls), "{name}");
            assert_eq!(listed(&world, token, "/api/v1/runs").await, sorted(&runs), "{name}");
            let compat = world.get(token, "/api/v1/compat/tool_invocations").await.ok();
            assert_eq!(compat["items"].as_array().unwrap().len(), calls.len(), "{name}");
            assert_eq!(listed(&world, token, "/api/v1/approvals").await.len(), asked, "{name}");
            for id in every {
                let answer = world.get(token, &format!("/api/v1/calls/{id}")).await;
                let unknown = TokenId::new(&world.clock, &world.app.rng).to_string();
                let nowhere = world.get(token, &format!("/api/v1/calls/{unknown}")).await;
                assert_eq!(answer.status, if calls.contains(&id) { 200 } else { 404 }, "{name} {:#}", answer.body);
                if answer.status == 404 {
                    let alike = |body: &Value, id: &str| body.to_string().replace(id, "ID");
                    assert_eq!(alike(&answer.body, id), alike(&nowhere.body, &unknown), "{name}");
                }
            }
            for id in [&own, &other] {
                let seen = runs.contains(&id);
                for path in ["", "/events"] {
                    let answer = world.get(token, &format!("/api/v1/runs/{id}{path}")).await;
                    assert_eq!(answer.status, if seen { 200 } else { 404 }, "{name} {path} {:#}", answer.body);
                    // Of calls that it was not made for not even the ids are there.
                    for hidden in every.iter().filter(|id| !calls.contains(*id)) {
                        assert!(!answer.body.to_string().contains(hidden.as_str()), "{name} {path} {:#}", answer.body);
                    }
                }
            }
            let answer = world.get(token, &format!("/api/v1/approvals/{}", approvals[0])).await;
            assert_eq!(answer.status, if asked == 1 { 200 } else { 404 }, "{name} {:#}", answer.body);
        }
        // Nor does a token for one run end another.
        let ends = format!("/api/v1/runs/{other}/state");
        let ended = world.send(&by_run, "PUT", &ends, json!({"state": "completed"})).await;
        assert_eq!(ended.status, 404, "{:#}", ended.body);
    })
    .await;
}

#[tokio::test]
async fn what_is_kept_of_a_person_has_their_tokens_without_the_text() {
    every_world(async |world| {
        let ada = world.user("default", "ada", &["member"]).await;
        let ben = world.user("default", "ben", &["member"]).await;
        let token = world.mint(&ada, json!({"scope": ["tool:echo"]})).await;
        let child = world.mint(&super::shown(&token), json!({"scope": ["tool:echo"]})).await;
        world.mint(&ben, json!({"scope": ["tool:now"]})).await;
        let request = Request::get("/api/v1/users/ada/export")
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, format!("Bearer {}", text(&ada)));
        let answer = world.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        let lines: Vec<Value> =
            std::str::from_utf8(&bytes).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let mut kept: Vec<&str> = lines
            .iter()
            .filter(|line| line["kind"] == "token")
            .map(|line| line["token"]["id"].as_str().unwrap())
            .collect();
        kept.sort_unstable();
        let mut made = [super::id(&token), super::id(&child)];
        made.sort_unstable();
        assert_eq!(kept, made, "{lines:#?}");
        let secret = token["token"].as_str().unwrap();
        assert!(!lines.iter().any(|line| line.to_string().contains(secret)));
    })
    .await;
}
