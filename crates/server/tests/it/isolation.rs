//! Two tenants do not meet: not in lists, look-ups, names, keys, agents or errors.

use serde_json::json;

use crate::world::{As, every_world, tool};

#[tokio::test]
async fn two_tenants_do_not_meet() {
    every_world(async |world| {
        world.tenant("left").await;
        world.tenant("right").await;
        let left = world.user("left", "leonora", &["admin"]).await;
        let right = world.user("right", "rob", &["admin"]).await;
        world.register(&left, tool("secretPlan", json!({}))).await.ok();
        world.send(&left, "POST", "/api/v1/agents", json!({"name": "spy"})).await.ok();
        world.send(&left, "PUT", "/api/v1/profiles/strict", json!({"name": "strict"})).await.ok();
        world.send(&left, "PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})).await.ok();

        for path in ["/tools/secretPlan", "/agents/spy", "/profiles/strict", "/users/leonora", "/agents/spy/tools"] {
            let there = world.get(&right, &format!("/api/v1{path}")).await.refused(404);
            let nowhere = world
                .get(
                    &right,
                    &format!(
                        "/api/v1{}",
                        path.replace("secretPlan", "nothing1")
                            .replace("spy", "nob")
                            .replace("strict", "nothin")
                            .replace("leonora", "nobodys")
                    ),
                )
                .await
                .refused(404);
            assert_eq!(there["title"], nowhere["title"], "unknown and foreign look alike");
        }
        for path in [
            "/tools?limit=500",
            "/agents",
            "/profiles",
            "/users",
            "/keys",
            "/assignments",
            "/tenants",
            "/search?q=secretPlan",
            "/tools?all=true",
        ] {
            let list = world.get(&right, &format!("/api/v1{path}")).await.ok().to_string();
            for word in ["secretPlan", "spy", "strict", "leonora", "\"left\""] {
                assert!(!list.contains(word), "{path} shows {word}: {list}");
            }
        }
        assert!(world.names(&right, "").await.contains(&"echo".to_owned()), "a switch is the tenant's own");
        assert!(!world.names(&left, "").await.contains(&"echo".to_owned()));
        // The same name is free for the other: existence does not leak by a conflict.
        world.register(&right, tool("secretPlan", json!({"timeout_ms": 77}))).await.ok();
        assert!(world.get(&left, "/api/v1/tools/secretPlan").await.ok()["timeout_ms"] != 77);
        world.send(&right, "DELETE", "/api/v1/agents/spy", json!(null)).await.refused(404);
        world.send(&right, "PUT", "/api/v1/tools/secretPlan/state", json!({"state": "blocked"})).await.ok();
        assert_eq!(world.get(&left, "/api/v1/tools/secretPlan").await.ok()["state"], "active");

        // A header does not carry a key into another tenant.
        let As::Key(key) = &right else { unreachable!() };
        let request = axum::http::Request::get("/api/v1/tools")
            .header("authorization", format!("Bearer {key}"))
            .header(toolgate_server::TENANT_HEADER, "left")
            .body(axum::body::Body::empty())
            .unwrap();
        let answer = tower::ServiceExt::oneshot(world.router(), request).await.unwrap();
        assert_eq!(answer.status(), 404);
    })
    .await;
}

#[tokio::test]
async fn a_tool_for_some_tenants_is_nowhere_else() {
    every_world(async |world| {
        world.tenant("ims").await;
        world.tenant("oci").await;
        let system = As::OwnerOf("system");
        world.register(&system, tool("estimateCoverage", json!({"tenants": ["ims"]}))).await.ok();
        assert!(world.names(&As::OwnerOf("ims"), "").await.contains(&"estimateCoverage".to_owned()));
        let member = world.user("oci", "olga", &["admin"]).await;
        world.get(&member, "/api/v1/tools/estimateCoverage").await.refused(404);
        assert!(!world.names(&member, "all=true").await.contains(&"estimateCoverage".to_owned()));
        world
            .send(&member, "PUT", "/api/v1/tools/estimateCoverage/enabled", json!({"enabled": true}))
            .await
            .refused(404);
    })
    .await;
}

#[tokio::test]
async fn system_tools_wait_to_be_enabled_and_global_rows_hold_for_all() {
    every_world(async |world| {
        world.tenant("one").await;
        world.tenant("two").await;
        let system = As::OwnerOf("system");
        world.register(&system, tool("generateImage", json!({"opt_in": true}))).await.ok();
        world.get(&As::OwnerOf("one"), "/api/v1/tools/generateImage").await.refused(404);
        world
            .send(&As::OwnerOf("one"), "PUT", "/api/v1/tools/generateImage/enabled", json!({"enabled": true}))
            .await
            .ok();
        world.get(&As::OwnerOf("one"), "/api/v1/tools/generateImage").await.ok();
        world.get(&As::OwnerOf("two"), "/api/v1/tools/generateImage").await.refused(404);
        world
            .send(&As::Owner, "PUT", "/api/v1/tools/generateImage/enabled", json!({"enabled": true, "everyone": true}))
            .await
            .ok();
        world.get(&As::OwnerOf("two"), "/api/v1/tools/generateImage").await.ok();
        // What a tenant said itself wins over what was said for all.
        world
            .send(&As::OwnerOf("one"), "PUT", "/api/v1/tools/generateImage/enabled", json!({"enabled": false}))
            .await
            .ok();
        world.get(&As::OwnerOf("one"), "/api/v1/tools/generateImage").await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn internal_tools_are_never_offered_outside() {
    every_world(async |world| {
        world.register(&As::Owner, tool("listSecretsInside", json!({"visibility": "internal"}))).await.ok();
        assert!(
            world.names(&As::Owner, "").await.contains(&"listSecretsInside".to_owned()),
            "the owner of the folder is inside"
        );
        let outside = world.user("default", "otto", &["admin"]).await;
        assert!(!world.names(&outside, "").await.contains(&"listSecretsInside".to_owned()));
        world.get(&outside, "/api/v1/tools/listSecretsInside").await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn what_is_hidden_is_hidden_in_every_list() {
    every_world(async |world| {
        world.tenant("acme").await;
        let acme = As::OwnerOf("acme");
        world.register(&As::OwnerOf("system"), tool("sharedByTwo", json!({"tenants": ["acme", "globex"]}))).await.ok();
        world.register(&As::OwnerOf("system"), tool("waitsForEnabling", json!({"opt_in": true}))).await.ok();
        world.register(&acme, tool("insideOnly", json!({"visibility": "internal"}))).await.ok();
        world.register(&acme, tool("mixed", json!({"visibility": "internal", "hosts": ["secret.example.com"], "runner": {"kind": "http", "method": "GET", "url": "https://secret.example.com/{{ id }}"}}))).await.ok();
        world.register(&acme, tool("mixed", json!({}))).await.ok();
        world.send(&acme, "POST", "/api/v1/agents", json!({"name": "bob"})).await.ok();
        world.send(&acme, "PUT", "/api/v1/agents/bob/tools/insideOnly", json!({})).await.ok();
        let viewer = world.user("acme", "vera", &["viewer"]).await;
        world.get(&viewer, "/api/v1/tools/mixed@1.0.0").await.refused(404);
        for path in [
            "/agents/bob/tools", "/assignments", "/tools?limit=500", "/search?q=insideOnly", "/tools/mixed/versions", "/tools/mixed/diff",
            "/tools/sharedByTwo", "/tools/sharedByTwo?as=framework", "/tools/sharedByTwo?as=tool-definition",
        ] {
            let shown = world.get(&viewer, &format!("/api/v1{path}")).await.body.to_string();
            for word in ["insideOnly", "waitsForEnabling", "secret.example.com", "globex"] {
                assert!(!shown.contains(word), "{path} shows {word}: {shown}");
            }
        }
        let author = world.user("acme", "arno", &["author"]).await;
        let taken = world.register(&author, tool("inside_only", json!({}))).await.refused(409);
        assert!(!taken.to_string().contains("insideOnly"), "{taken:#}");
        world.register(&viewer, tool("inside_only", json!({}))).await.refused(403);
    })
    .await;
}
