//! Users, sign-in, erasure and retention, and the trace that each leaves.

use serde_json::json;

use crate::world::{As, every_world};

#[tokio::test]
async fn a_link_signs_in_once_and_a_session_ends() {
    every_world(async |world| {
        let link = world.send(&As::Owner, "POST", "/api/v1/users/admin/sign-in-link", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
        let redeem = async || world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await;
        let answer = redeem().await;
        assert_eq!(answer.status, 204);
        let cookie = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        redeem().await.refused(401);

        let session = As::Cookie(cookie.split(';').next().unwrap().to_owned());
        let me = world.get(&session, "/api/v1/me").await.ok();
        assert_eq!(
            (me["name"].as_str(), me["tenant"].as_str(), me["signed_in_by"].as_str()),
            (Some("admin"), Some("default"), Some("browser"))
        );
        assert_eq!(world.get(&session, "/api/v1/session").await.ok()["me"]["name"], "admin");
        world.clock.advance(20 * 60);
        world.get(&session, "/api/v1/me").await.ok();
        world.clock.advance(31 * 60);
        world.get(&session, "/api/v1/me").await.refused(401);
        assert_eq!(world.get(&session, "/api/v1/session").await.ok(), json!({}));
        world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": "guess"})).await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn a_link_is_too_old_after_ten_minutes_and_sign_out_ends_the_session() {
    every_world(async |world| {
        let link = async || {
            let link = world.send(&As::Owner, "POST", "/api/v1/users/admin/sign-in-link", json!({})).await.ok();
            link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned()
        };
        let old = link().await;
        world.clock.advance(601);
        world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": old})).await.refused(401);
        let answer = world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": link().await})).await;
        let session = As::Cookie(answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned());
        assert_eq!(world.send(&session, "POST", "/api/v1/sign-out", json!({})).await.status, 204);
        world.get(&session, "/api/v1/me").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn one_person_may_be_in_two_tenants_but_not_twice_in_one() {
    every_world(async |world| {
        world.tenant("other").await;
        let create = async |who: As, name: &str| {
            world.send(&who, "POST", "/api/v1/users", json!({"name": name, "email": "Ada@Example.com"})).await
        };
        create(As::Owner, "ada").await.ok();
        create(As::OwnerOf("other"), "ada").await.ok();
        assert_eq!(create(As::Owner, "ada2").await.refused(409)["pointer"], "/email");
        assert_eq!(world.get(&As::Owner, "/api/v1/users/ada@example.com").await.ok()["name"], "ada");
        world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": "x", "email": "nonsense"})).await.refused(400);
        world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": "x\u{7}"})).await.refused(400);
        world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": "x", "roles": ["emperor"]})).await.refused(400);
        world
            .send(&As::Owner, "POST", "/api/v1/users", json!({"name": "x", "workspaces": ["nowhere"]}))
            .await
            .refused(404);
    })
    .await;
}

#[tokio::test]
async fn every_change_of_configuration_leaves_an_entry() {
    every_world(async |world| {
        for (method, path, body) in [
            ("POST", "/api/v1/users", json!({"name": "ada"})),
            ("POST", "/api/v1/keys", json!({"name": "k"})),
            ("PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})),
            ("POST", "/api/v1/agents", json!({"name": "bob"})),
            ("POST", "/api/v1/retention", json!({"older_than_days": 30, "apply": true})),
            ("POST", "/api/v1/users/ada/erase", json!({"apply": true})),
        ] {
            world.clock.advance(1);
            world.send(&As::Owner, method, path, body).await.ok();
        }
        let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let entries = world.app.store.audit_entries(tenant, 100).await.unwrap();
        let actions: Vec<_> = entries.iter().rev().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            actions,
            ["user.create", "key.create", "tool.disable", "agent.create", "retention.delete", "person.erase"]
        );
        assert!(entries.iter().all(|entry| entry["actor"] == "local:1000" && entry["v"] == 1));
        assert!(!format!("{entries:?}").contains("tg_"), "no secret enters the log");
    })
    .await;
}
