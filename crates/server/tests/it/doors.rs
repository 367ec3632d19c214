//! What a request must be to be read at all: strict JSON, our own host names, our own pages.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use crate::world::{As, answer, every_world};

#[tokio::test]
async fn a_body_that_reads_two_ways_is_refused_by_its_place() {
    every_world(async |world| {
        let post = async |body: String, kind: &str| {
            let request = Request::post("/api/v1/agents").header("content-type", kind).extension(toolgate_server::LocalCaller { uid: 1 });
            answer(world.router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()).await
        };
        let json = "application/json";
        assert_eq!(post(r#"{"name":"a","name":"b"}"#.into(), json).await.refused(400)["pointer"], "/name");
        assert_eq!(post(r#"{"name":"a","limits":{"max_tool_calls":9007199254740993}}"#.into(), json).await.refused(400)["pointer"], "/limits/max_tool_calls");
        assert_eq!(post(r#"{"name":"a","limits":{"max_calls":1}}"#.into(), json).await.refused(400)["pointer"], "/limits/max_calls");
        assert_eq!(post(r#"{"$serde_json::private::Number":"1"}"#.into(), json).await.refused(400)["status"], 400);
        post("[".repeat(100_000), json).await.refused(400);
        post("{\"name\":".into(), json).await.refused(400);
        post(r#"{"name":"a"}"#.into(), "text/plain").await.refused(400);
        post(format!(r#"{{"name":"{}"}}"#, "x".repeat(5_000_000)), json).await.refused(413);
        assert_eq!(post(r#"{"name":"a","title":null,"limits":{"max_depth":null}}"#.into(), json).await.status, 200, "null is absent");
    })
    .await;
}

#[tokio::test]
async fn another_site_cannot_use_a_session() {
    every_world(async |world| {
        let link = world.send(&As::Owner, "POST", "/api/v1/users/admin/sign-in-link", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
        let answered = world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await;
        let cookie = answered.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let post = async |site: Option<&str>, origin: Option<&str>| {
            let mut request = Request::post("/api/v1/agents")
                .header("host", "localhost:8787")
                .header("cookie", &cookie)
                .header("content-type", "application/json");
            request = site.into_iter().fold(request, |request, site| request.header("sec-fetch-site", site));
            request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            let name = format!("{{\"name\":\"a{}\"}}", site.unwrap_or("o").replace('-', ""));
            answer(world.router().oneshot(request.body(Body::from(name)).unwrap()).await.unwrap()).await.status
        };
        assert_eq!(post(Some("cross-site"), None).await, 403);
        assert_eq!(post(Some("same-site"), None).await, 403);
        assert_eq!(post(None, None).await, 403);
        assert_eq!(post(None, Some("https://evil.test")).await, 403);
        assert_eq!(post(None, Some("http://localhost:8787")).await, 200);
        assert_eq!(post(Some("same-origin"), None).await, 200);
    })
    .await;
}

#[tokio::test]
async fn only_our_own_host_names_are_answered() {
    every_world(async |world| {
        let outer = toolgate_server::outer(&world.app);
        let get = async |path: &str, host: &str| {
            let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
            answer(outer.clone().oneshot(request).await.unwrap()).await
        };
        for (host, status) in [
            ("evil.test", 403),
            ("127.0.0.1.evil.test", 403),
            ("localhost.evil.test:80", 403),
            ("169.254.169.254", 403),
            ("[::2]", 403),
            // None of these names a host.
            ("", 400),
            ("local host", 400),
            ("evil.test:x", 400),
            ("me@localhost", 400),
            ("localhost/x", 400),
        ] {
            for path in ["/", "/healthz", "/api/v1/me", "/openapi.json", "/mcp", "/nothing"] {
                get(path, host).await.refused(status);
            }
        }
        for host in ["localhost", "127.0.0.1:8787", "[::1]:8787", "LOCALHOST:1"] {
            assert_eq!(get("/healthz", host).await.status, 200, "{host}");
        }
        let page = get("/", "localhost").await;
        assert!(page.headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'"));
        assert_eq!(get("/api/v1/nothing", "localhost").await.status, 404);
        get("/api/v1/me", "localhost").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn every_api_route_needs_a_caller() {
    every_world(async |world| {
        let document = serde_json::to_value(toolgate_server::api::document()).unwrap();
        // Of the last two, one has its credential in the body, and the other holds nothing but public keys.
        let open = [
            "/healthz",
            "/readyz",
            "/api/v1/sign-in",
            "/api/v1/session",
            "/api/v1/session/ways",
            "/api/v1/session/password",
            "/api/v1/session/oidc",
            "/oidc/callback",
            "/api/v1/session/link",
            "/api/v1/session/reset",
            "/api/v1/session/reset/finish",
            "/api/v1/session/invitation",
            "/api/v1/session/invitation/accept",
            "/invoke",
            "/.well-known/jwks.json",
            // Of clients that have nothing yet: what is public, and what a code or a token in the body proves.
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource/mcp/{agent}",
            "/oauth/client.json",
            "/oauth/register",
            "/oauth/revoke",
            "/oauth/token",
        ];
        let mut checked = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|_| !open.contains(&path.as_str())) {
                let concrete = path.replace(['{', '}'], "");
                world.send(&As::Nobody, &method.to_uppercase(), &concrete, json!({})).await.refused(401);
                checked += 1;
            }
        }
        assert!(checked > 40, "{checked} routes");
    })
    .await;
}
