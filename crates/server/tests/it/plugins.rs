//! Plug-ins through the API: who installs them, what a definition is pinned to, and what stays as long as it is used.

use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use toolgate_server::LocalCaller;
use tower::ServiceExt as _;

use crate::world::{Answer, As, World, answer, every_world};

pub fn built(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/build").join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it with `scripts/plugins`", path.display()))
}

/// The same component with one more section that says nothing: other bytes.
fn padded(name: &str) -> Vec<u8> {
    [built(name), vec![0, 2, 1, b'x']].concat()
}

async fn upload(world: &World, who: &As, query: &str, kind: &str, component: Vec<u8>) -> Answer {
    let mut request = Request::builder().method("POST").uri(format!("/api/v1/plugins{query}"));
    request = match who {
        As::Key(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
        _ => request.extension(LocalCaller { uid: 1000 }),
    };
    let request = request.header(header::HOST, "localhost").header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(component)).unwrap();
    answer(world.router().oneshot(request).await.unwrap()).await
}

async fn install(world: &World, query: &str, component: Vec<u8>) -> Answer {
    upload(world, &As::Owner, query, "application/wasm", component).await
}

async fn measure(world: &World, tool: &str) -> Value {
    let call = json!({"tool": tool, "input": {"text": "one two"}, "wait": 20});
    world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_installs_lists_shows_and_removes() {
    every_world(async |world| {
        let made = install(&world, "", built("analyzeText")).await.ok();
        assert_eq!(
            (&made["name"], &made["version"], &made["world"]),
            (&json!("analyzeText"), &json!("1.0.0"), &json!("tool"))
        );
        assert_eq!((&made["installed"], &made["registration"]), (&json!(true), &Value::Null));
        let tool_md = made["tool_md"].as_str().unwrap();
        let linted = world.send(&As::Owner, "POST", "/api/v1/lint", json!({"tool_md": tool_md})).await.ok();
        let errors: Vec<&Value> =
            linted["findings"].as_array().unwrap().iter().filter(|finding| finding["severity"] == "error").collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(install(&world, "", built("analyzeText")).await.ok()["installed"], json!(false));
        let listed = world.get(&As::Owner, "/api/v1/plugins").await.ok();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        let digest = made["digest"].as_str().unwrap();
        for reference in ["analyzeText", "analyzeText@1.0.0", digest] {
            let shown = world.get(&As::Owner, &format!("/api/v1/plugins/{reference}")).await.ok();
            assert_eq!((&shown["digest"], &shown["tools"]), (&json!(digest), &json!([])));
        }
        world.get(&As::Owner, "/api/v1/plugins/analyzeText@9.0.0").await.refused(404);
        for role in ["viewer", "member", "author", "approver", "admin"] {
            let who = world.user("default", &format!("some-{role}"), &[role]).await;
            upload(&world, &who, "", "application/wasm", built("analyzeText")).await.refused(403);
            world.get(&who, "/api/v1/plugins").await.refused(403);
            world.get(&who, "/api/v1/plugins/analyzeText").await.refused(403);
            world.send(&who, "DELETE", "/api/v1/plugins/analyzeText", Value::Null).await.refused(403);
            let definition = json!({"tool_md": tool_md, "apply": true});
            world.send(&who, "POST", "/api/v1/tools", definition).await.refused(403);
        }
        world.send(&As::Owner, "DELETE", "/api/v1/plugins/analyzeText", Value::Null).await.ok();
        world.get(&As::Owner, "/api/v1/plugins/analyzeText").await.refused(404);
        let log = world.get(&As::OwnerOf("system"), "/api/v1/audit/entries?limit=100").await.ok().to_string();
        assert!(log.contains("plugin.install") && log.contains("plugin.remove"), "{log}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_plug_in_asks_for_is_granted_by_somebody_who_says_so() {
    every_world(async |world| {
        let made = install(&world, "?register=true", built("probe")).await.ok();
        assert_eq!((&made["installed"], &made["registration"]), (&json!(true), &Value::Null), "{made}");
        assert_eq!(made["description"]["hosts"][0]["host"], "api.test");
        let name = made["name"].as_str().unwrap();
        world.get(&As::Owner, &format!("/api/v1/tools/{name}")).await.refused(404);
        let made = install(&world, "?register=true&grant=true", built("probe")).await.ok();
        assert_eq!(made["registration"]["action"], json!("create"), "{made}");
        let shown = world.get(&As::Owner, &format!("/api/v1/tools/{name}")).await.ok();
        assert_eq!(shown["runner"]["hosts"][0]["host"], "api.test", "{shown}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_versions_the_one_that_is_meant_is_named() {
    every_world(async |world| {
        install(&world, "", built("analyzeText")).await.ok();
        let newer = install(&world, "", built("analyzeText2")).await.ok();
        let remove =
            async |name: &str| world.send(&As::Owner, "DELETE", &format!("/api/v1/plugins/{name}"), Value::Null).await;
        let refused = remove("analyzeText").await.refused(409);
        let named = format!("name one: analyzeText@{}", newer["version"].as_str().unwrap());
        let remedy = refused["remedy"].as_str().unwrap();
        assert!(remedy.starts_with("name one: ") && remedy.contains("analyzeText@1.0.0"), "{remedy}");
        assert!(remedy.contains(named.strip_prefix("name one: ").unwrap()), "{remedy}");
        assert_eq!(remove("analyzeText@1.0.0").await.ok()["version"], "1.0.0");
        assert_eq!(remove("analyzeText").await.ok()["version"], newer["version"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_plug_in_is_refused_and_a_version_stays_what_it_is() {
    every_world(async |world| {
        let refused = install(&world, "", b"\0asm nothing".to_vec()).await.refused(400);
        assert!(refused["detail"].as_str().unwrap().contains("cannot be used"), "{refused}");
        install(&world, "", vec![0; toolgate_contracts::plugin::COMPONENT_BYTES_MAX + 1]).await.refused(413);
        upload(&world, &As::Owner, "", "application/json", built("analyzeText")).await.refused(400);
        install(&world, "?name=no%20name", built("analyzeText")).await.refused(400);
        install(&world, "", built("analyzeText")).await.ok();
        let refused = install(&world, "", padded("analyzeText")).await.refused(409);
        assert!(refused["remedy"].as_str().unwrap().contains("raise the version"), "{refused}");
        let refused = install(&world, "?name=other", built("analyzeText")).await.refused(409);
        assert!(refused["detail"].as_str().unwrap().contains("`analyzeText`"), "{refused}");
        install(&world, "?name=other", padded("analyzeText")).await.ok();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_runs_the_bytes_that_it_was_registered_with() {
    every_world(async |world| {
        let made = install(&world, "?register=true", built("analyzeText")).await.ok();
        assert_eq!(made["registration"]["action"], json!("create"));
        let shown = world.get(&As::Owner, "/api/v1/tools/analyzeText").await.ok();
        assert_eq!(shown["runner"]["digest"], made["digest"], "{shown}");
        assert_eq!(measure(&world, "analyzeText").await["output"]["words"], json!(2));

        // A call that a person approves is one of what it was when it was asked for.
        let asking = json!({
            "name": "analyzeSlowly", "description": "Measures a text when somebody has agreed. Use it in tests.",
            "input_schema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
            "egress_class": "none", "requires_approval": true, "runner": {"kind": "wasm", "plugin": "analyzeText"},
        });
        world.register(&As::Owner, asking.clone()).await.ok();
        let call = json!({"tool": "analyzeSlowly", "input": {"text": "one two three"}, "wait": 0});
        let waiting = world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok();
        assert_eq!(waiting["status"], json!("pending"), "{waiting}");

        let newer = install(&world, "", built("analyzeText2")).await.ok();
        assert_ne!(newer["digest"], made["digest"]);
        assert_eq!(measure(&world, "analyzeText").await["output"]["words"], json!(2), "nothing changed yet");

        // Registered anew, the name means the newer bytes: another behaviour, and so another version.
        let again = world.register(&As::Owner, asking).await.ok();
        assert_eq!(again["action"], json!("update"), "{again}");
        let fresh = world.get(&As::Owner, "/api/v1/tools/analyzeSlowly").await.ok();
        assert_eq!(fresh["runner"]["digest"], newer["digest"]);
        let approver = world.user("default", "approver", &["approver"]).await;
        let asked = world.get(&approver, "/api/v1/approvals").await.ok();
        let approval = asked["items"][0]["id"].as_str().unwrap().to_owned();
        let decision = json!({"decision": "approve"});
        let decided = world.send(&approver, "POST", &format!("/api/v1/approvals/{approval}/decide"), decision).await;
        assert!(decided.status < 500, "{decided:?}");
        let path = format!("/api/v1/calls/{}", waiting["id"].as_str().unwrap());
        let mut ended = world.get(&As::Owner, &path).await.ok();
        for _ in 0..200 {
            if !matches!(ended["status"].as_str(), Some("pending" | "approved" | "running")) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            ended = world.get(&As::Owner, &path).await.ok();
        }
        // What was asked for, or nothing: never the newer bytes.
        assert!(ended["output"]["edition"].is_null(), "{ended}");
        assert_eq!((&ended["status"], &ended["output"]["words"]), (&json!("completed"), &json!(3)), "{ended}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plug_in_that_a_tool_names_is_not_removed() {
    every_world(async |world| {
        install(&world, "?register=true", built("analyzeText")).await.ok();
        let remove = async || world.send(&As::Owner, "DELETE", "/api/v1/plugins/analyzeText", Value::Null).await;
        let refused = remove().await.refused(409);
        assert!(refused["detail"].as_str().unwrap().contains("default/analyzeText@1.0.0"), "{refused}");
        let shown = world.get(&As::Owner, "/api/v1/plugins/analyzeText").await.ok();
        assert_eq!(shown["tools"], json!(["default/analyzeText@1.0.0"]));
        world.send(&As::Owner, "DELETE", "/api/v1/tools/analyzeText", Value::Null).await.ok();
        remove().await.ok();
        // And what is not installed is not registered.
        let refused =
            world.send(&As::Owner, "POST", "/api/v1/tools", json!({"tool_md": shown["tool_md"], "apply": true})).await;
        assert!(refused.refused(400).to_string().contains("floor.plugin"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_plug_in_would_like_to_have_is_told() {
    every_world(async |world| {
        let made = install(&world, "", built("probe")).await.ok();
        let definition = json!({
            "name": "probe", "description": "x", "input_schema": {"type": "object"}, "egress_class": "none",
            "runner": {"kind": "wasm", "plugin": "probe"},
        });
        let linted = world.send(&As::Owner, "POST", "/api/v1/lint", json!({"definition": definition})).await.ok();
        let codes: Vec<&str> =
            linted["findings"].as_array().unwrap().iter().filter_map(|finding| finding["code"].as_str()).collect();
        assert!(codes.contains(&"plugin.hosts") && codes.contains(&"plugin.secrets"), "{codes:?}");
        let linted = world.send(&As::Owner, "POST", "/api/v1/lint", json!({"tool_md": made["tool_md"]})).await.ok();
        let found = linted["findings"].to_string();
        assert!(!found.contains("plugin.hosts") && !found.contains("floor."), "{found}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detector_of_a_plug_in_stops_a_call() {
    every_world(async |world| {
        install(&world, "?register=true", built("analyzeText")).await.ok();
        install(&world, "?register=true", built("findCardNumbers")).await.ok();
        let guardrail = |kind: &str, name: &str| {
            json!({"name": "no-cards", "stage": "TOOL_CALL", "tools": ["analyzeText"],
                "detector": {"kind": kind, "name": name}, "on_match": "tripwire"})
        };
        let put =
            async |guardrail: Value| world.send(&As::Owner, "PUT", "/api/v1/guardrails/no-cards", guardrail).await;
        put(guardrail("wasm", "echo")).await.refused(400);
        for kind in ["wasm", "tool"] {
            put(guardrail(kind, "findCardNumbers")).await.ok();
            let send = async |text: &str| {
                let call = json!({"tool": "analyzeText", "input": {"text": text}, "wait": 20});
                world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok()
            };
            let stopped = send("pay with 4111 1111 1111 1111").await;
            assert_eq!(stopped["error"]["code"], json!("POLICY_DENIED"), "{stopped}");
            assert_eq!(stopped["error"]["details"]["paths"], json!(["/text"]));
            assert_eq!(send("pay in cash").await["output"]["words"], json!(3));
        }
    })
    .await;
}
