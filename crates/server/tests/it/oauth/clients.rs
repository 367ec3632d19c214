//! Who says to be a client: registrations, requests that are not what they seem, and documents at other addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::{REDIRECT, asking, back, decide, held, listed, person, register, take};
use crate::world::{As, World, every_world, send};

#[tokio::test]
async fn a_registration_names_addresses_that_browsers_may_be_sent_to() {
    every_world(async |world| {
        let check = async |metadata: Value, error: Option<&str>| {
            let answer = world.send(&As::Nobody, "POST", "/oauth/register", metadata.clone()).await;
            let expected = if error.is_some() { 400 } else { 201 };
            assert_eq!((answer.status, answer.body["error"].as_str()), (expected, error), "{metadata}");
        };
        let redirect = |uri: &str| json!({"client_name": "x", "redirect_uris": [uri]});
        check(redirect(REDIRECT), None).await;
        check(redirect("cursor://anysphere.cursor-mcp/oauth/callback"), None).await;
        check(redirect("https://vscode.dev/redirect"), None).await;
        check(json!({"redirect_uris": [REDIRECT]}), None).await;
        for wrong in [
            "javascript:alert(document.cookie)",
            "data:text/html,x",
            "http://evil.example/cb",
            "https://a.example/#x",
            "file:///x",
            "",
        ] {
            check(redirect(wrong), Some("invalid_redirect_uri")).await;
        }
        check(json!({"client_name": "x"}), Some("invalid_redirect_uri")).await;
        check(json!({"client_name": "x", "redirect_uris": []}), Some("invalid_redirect_uri")).await;
        check(json!({"client_name": "x", "redirect_uris": vec![REDIRECT; 17]}), Some("invalid_redirect_uri")).await;
        check(json!({"client_name": "Your\u{202e}Bank", "redirect_uris": [REDIRECT]}), Some("invalid_client_metadata"))
            .await;
        check(json!({"client_name": "x".repeat(81), "redirect_uris": [REDIRECT]}), Some("invalid_client_metadata"))
            .await;
        check(json!([]), Some("invalid_client_metadata")).await;
        check(json!({"x": "y".repeat(20_000)}), Some("invalid_client_metadata")).await;
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_wrong_sends_nobody_anywhere() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT, "https://a.example/cb"]).await;
        let ada = person(app, "ada", &["member"]).await;
        let mut forged = client.clone();
        forged.replace_range(20..21, if &client[20..21] == "A" { "B" } else { "A" });
        let twice = format!("{}&redirect_uri=https%3A%2F%2Fevil.example%2Fcb", asking(&client, &[]));
        let query = |change: &[(&str, &str)]| asking(&client, change);
        for wrong in [
            query(&[("redirect_uri", "https://evil.example/cb")]),
            query(&[("redirect_uri", "https://a.example/cb/../evil")]),
            query(&[("redirect_uri", "https://a.example/cb?next=https://evil.example")]),
            query(&[("redirect_uri", "https://a.example.evil.example/cb")]),
            query(&[("redirect_uri", "http://localhost:3118/other")]),
            query(&[("redirect_uri", "http://127.0.0.1:3118/callback")]),
            query(&[("redirect_uri", "javascript:alert(1)")]),
            query(&[("redirect_uri", "")]),
            query(&[("client_id", &forged)]),
            query(&[("client_id", "somebody")]),
            query(&[("client_id", "")]),
            query(&[("response_type", "token")]),
            query(&[("code_challenge_method", "plain")]),
            query(&[("code_challenge_method", "")]),
            query(&[("code_challenge", "")]),
            query(&[("code_challenge", "dG9vIHNob3J0")]),
            query(&[("resource", "https://evil.example/mcp")]),
            query(&[("resource", "http://localhost")]),
            query(&[("resource", "http://localhost/mcp/../api/v1")]),
            query(&[("resource", "http://localhost/mcpx")]),
            twice,
            String::new(),
        ] {
            for allow in [true, false] {
                let told = decide(app, &ada, &wrong, allow, None).await.refused(400);
                assert!(told.get("redirect").is_none(), "{wrong}");
            }
            world.get(&ada, &format!("/api/v1/oauth/request?{wrong}")).await.refused(400);
        }
        // No address, a slash behind it: the same address is meant.
        for fine in [query(&[("resource", "")]), query(&[("resource", "http://localhost/mcp/")])] {
            decide(app, &ada, &fine, true, None).await.ok();
        }
    })
    .await;
}

/// A site that clients' documents are at.
#[derive(Clone)]
struct Site {
    port: u16,
    asked: Arc<AtomicUsize>,
}

async fn document(State(site): State<Site>, uri: axum::http::Uri) -> Response {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let own = format!("http://127.0.0.1:{}{}", site.port, uri.path());
    let fine =
        json!({"client_id": own, "client_name": "Own Site", "redirect_uris": [REDIRECT, "https://a.example/cb"]});
    match uri.path() {
        "/good.json" => axum::Json(fine).into_response(),
        "/other.json" => {
            axum::Json(json!({"client_id": "https://a.example/c.json", "redirect_uris": [REDIRECT]})).into_response()
        }
        "/moved.json" => (axum::http::StatusCode::FOUND, [("location", "/good.json")]).into_response(),
        "/large.json" => {
            let mut large = fine;
            large["padding"] = json!("x".repeat(10 * 1024 * 1024));
            axum::Json(large).into_response()
        }
        "/text.json" => "no document".into_response(),
        "/script.json" => {
            axum::Json(json!({"client_id": own, "redirect_uris": ["javascript:alert(1)"]})).into_response()
        }
        _ => axum::http::StatusCode::NOT_FOUND.into_response(),
    }
}

async fn site(world: &World) -> (Site, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = Site { port: listener.local_addr().unwrap().port(), asked: Arc::default() };
    let router = Router::new().route("/{document}", get(document)).with_state(site.clone());
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let opening = json!({"host": "127.0.0.1", "port": site.port, "scheme": "http", "reason": "documents of clients"});
    send(world.router(), &As::Owner, "POST", "/api/v1/egress/openings", opening).await.ok();
    (site, task)
}

#[tokio::test]
async fn a_client_is_the_document_at_its_own_address() {
    every_world(async |world| {
        let app = &world.app;
        let (site, task) = site(&world).await;
        let ada = person(app, "ada", &["member"]).await;
        let client = format!("http://127.0.0.1:{}/good.json", site.port);
        let query = asking(&client, &[("redirect_uri", "https://a.example/cb")]);
        let asked = world.get(&ada, &format!("/api/v1/oauth/request?{query}")).await.ok();
        assert_eq!(asked["client"]["name"], "Own Site");
        assert_eq!((&asked["client"]["site"], &asked["client"]["goes_to"]), (&json!("127.0.0.1"), &json!("a.example")));
        let (_, brought) = back(decide(app, &ada, &query, true, None).await);
        let change = [("redirect_uri", "https://a.example/cb")];
        let held = held(take(app, &client, &brought["code"], &change).await);
        listed(app, &held.access, "/mcp").await.ok();
        assert_eq!(site.asked.load(Ordering::SeqCst), 1, "asked for once in a while");
        let log = world.get(&As::Owner, "/api/v1/audit/entries?action=egress.use").await.ok();
        assert_eq!(log["items"].as_array().unwrap().len(), 1, "{log:#}");
        let elsewhere = asking(&client, &[("redirect_uri", "https://evil.example/cb")]);
        decide(app, &ada, &elsewhere, true, None).await.refused(400);
        task.abort();
    })
    .await;
}

#[tokio::test]
async fn a_document_elsewhere_is_refused_without_being_followed_or_read_to_its_end() {
    every_world(async |world| {
        let app = &world.app;
        let (site, task) = site(&world).await;
        let ada = person(app, "ada", &["member"]).await;
        let refused = async |client: &str| {
            let query = asking(client, &[]);
            let told = world.get(&ada, &format!("/api/v1/oauth/request?{query}")).await.refused(400);
            decide(app, &ada, &query, true, None).await.refused(400);
            told["detail"].as_str().unwrap().to_owned()
        };
        for (path, why) in [
            ("other.json", "of another client"),
            ("moved.json", "302"),
            ("large.json", "bytes"),
            ("text.json", "not JSON"),
            ("script.json", "redirect_uris"),
            ("none.json", "404"),
        ] {
            let told = refused(&format!("http://127.0.0.1:{}/{path}", site.port)).await;
            assert!(told.contains(why), "{path}: {told}");
        }
        // Hosts that nobody opened, in whatever spelling, are not even asked.
        let before = site.asked.load(Ordering::SeqCst);
        for client in [
            "https://127.0.0.1/client.json",
            "https://[::1]/client.json",
            "https://[::ffff:127.0.0.1]/client.json",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/client.json",
            "https://metadata.google.internal/client.json",
            "https://localhost/client.json",
            "http://169.254.169.254/latest/meta-data",
            "file:///etc/passwd",
            "https://127.0.0.1:22/client.json",
        ] {
            refused(client).await;
        }
        refused(&format!("https://127.0.0.1:{}/good.json", site.port)).await;
        assert_eq!(site.asked.load(Ordering::SeqCst), before);
        task.abort();
    })
    .await;
}
