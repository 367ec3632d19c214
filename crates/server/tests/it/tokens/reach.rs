//! What whoever shows a token sees and may do: what it was made for (test 17 of `security.md` §11).

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use toolgate_contracts::TokenId;
use tower::ServiceExt as _;

use super::text;
use crate::world::{As, every_world, tool, write_tool};

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
