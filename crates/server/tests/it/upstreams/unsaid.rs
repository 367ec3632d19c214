//! A server that says back what it was sent where it fails: nobody is told it, and it is kept nowhere.

use std::sync::{Arc, Mutex};

use axum::response::{IntoResponse as _, Response};

use super::*;

const KEY: &str = "a-key-of-the-server";
/// What is left of it where a text is cut short.
const PART: &str = "a-key-of";

/// A program that has seen nothing yet: whoever has seen secrets and words of others is asked about.
async fn newcomer(world: &World, name: &str) -> As {
    let key = json!({"name": name.replace('/', "-"), "owner": "admin", "scopes": ["tools:execute"]});
    let key = world.send(&As::Owner, "POST", "/keys", key).await.ok();
    As::Key(key["secret"].as_str().unwrap().to_owned())
}

/// How a server fails.
type Way = Arc<Mutex<&'static str>>;

async fn serve(way: Way) -> (u16, tokio::task::JoinHandle<()>) {
    let answer = async move |headers: HeaderMap, Json(message): Json<Value>| -> Response {
        let shown = headers["authorization"].to_str().unwrap().to_owned();
        let method = message["method"].as_str().unwrap();
        let way = *way.lock().unwrap();
        let failed = |said: String| {
            let error = json!({"code": -32000, "message": said, "data": {"shown": [said]}});
            Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response()
        };
        let result = match (method, way) {
            (method, way) if method == way => return failed(format!("I was shown {shown}")),
            // Cut where it is shown, it would be half a secret.
            (method, "long") if method != "initialize" => return failed(format!("{}{shown}", "x".repeat(483))),
            ("tools/call", "refusal") => {
                let challenge = format!("Bearer error=\"{shown}\", resource_metadata=\"https://a.test/{shown}\"");
                return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)], shown).into_response();
            }
            // A host of that name, which a request must not follow to.
            ("tools/call", "elsewhere") => {
                let there = format!("http://{}.test/", shown.trim_start_matches("Bearer "));
                return (StatusCode::TEMPORARY_REDIRECT, [("location", there)]).into_response();
            }
            ("tools/call", "kind") => json!({"content": {"shown": shown}}),
            ("initialize", _) => {
                let version = if way == "version" { shown } else { "2025-06-18".to_owned() };
                json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}})
            }
            ("tools/list", _) => json!({"tools": [tool("say", json!({}))]}),
            ("tools/call", _) => json!({"content": []}),
            _ => return StatusCode::ACCEPTED.into_response(),
        };
        Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
    };
    let router = axum::Router::new().route("/mcp", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_was_sent_is_told_by_no_error_of_it() {
    every_world(async |world| {
        let way = Way::new(Mutex::new(""));
        let (port, serving) = serve(Arc::clone(&way)).await;
        let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "a test"});
        world.send(&As::OwnerOf("system"), "POST", "/egress/openings", opening).await.ok();
        let spec = json!({"name": "web", "era": "2025-06-18",
            "transport": {"kind": "http", "url": format!("http://127.0.0.1:{port}/mcp")},
            "headers": [{"name": "Authorization", "scheme": "Bearer", "secret": "WEB_KEY"}]});
        world.send(&As::Owner, "PUT", "/upstreams/web", spec).await.ok();
        let value = json!({"value": KEY, "hosts": ["127.0.0.1"]});
        world.send(&As::Owner, "PUT", "/secrets/org/WEB_KEY", value).await.ok();
        world.send(&As::Owner, "POST", "/secrets/org/WEB_KEY/allow", json!({"code": ["web"]})).await.ok();
        world.send(&As::Owner, "POST", "/upstreams/web/refresh", json!({})).await.ok();
        world.trust("web.say").await;
        for (fails, is_said) in [
            ("tools/call", true),
            ("long", true),
            ("tools/list", true),
            ("initialize", true),
            ("version", true),
            ("refusal", false),
            ("elsewhere", true),
            ("kind", false),
        ] {
            *way.lock().unwrap() = fails;
            // Its links are begun anew, and it is read again.
            let refreshed = world.send(&As::Owner, "POST", "/upstreams/web/refresh", json!({})).await;
            let called = json!({"tool": "web.say", "input": {}, "wait": 30});
            let done = world.send(&newcomer(world, fails).await, "POST", "/calls", called).await.body;
            assert_eq!(done["status"], json!("failed"), "{fails} {done:#}");
            let kept = world
                .send(&As::Owner, "GET", &format!("/calls/{}", done["id"].as_str().unwrap()), Value::Null)
                .await
                .ok();
            let shown = world.send(&As::Owner, "GET", "/upstreams/web", Value::Null).await.ok();
            let told = format!("{} {done} {kept} {shown}", refreshed.body);
            assert!(!told.contains(PART), "{fails} {told}");
            assert!(!is_said || told.contains("[secret:"), "{fails} {told}");
        }
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_was_given_is_in_no_complaint_of_it() {
    every_world(async |world| {
        world.offer(&[tool("wrong", json!({})), tool("wail", json!({}))]);
        let environment = json!([{"name": "TOKEN", "secret": "FILES_KEY"}]);
        world.save(json!({"environment": environment})).await.ok();
        world.send(&As::Owner, "PUT", "/secrets/org/FILES_KEY", json!({"value": KEY})).await.ok();
        world.send(&As::Owner, "POST", "/secrets/org/FILES_KEY/allow", json!({"code": ["files"]})).await.ok();
        world.refresh().await;
        for name in ["files.wrong", "files.wail"] {
            world.trust(name).await;
            let who = newcomer(world, &name.replace('.', "-")).await;
            let called = json!({"tool": name, "input": {}, "wait": 30});
            let done = world.send(&who, "POST", "/calls", called).await.body;
            assert_eq!(done["status"], json!("failed"), "{name} {done:#}");
            assert!(!done.to_string().contains(PART), "{name} {done:#}");
        }
        for _ in 0..100 {
            let shown = world.show().await;
            if shown["health"]["complaint"].is_string() {
                let told = shown.to_string();
                assert!(told.contains("[secret:FILES_KEY]") && !told.contains(PART), "{shown:#}");
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("it complained of nothing");
    })
    .await;
}
