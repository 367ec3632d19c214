//! Keys and roles: nobody has more than they were given, and what is taken is gone at once.

use serde_json::json;

use crate::world::{As, every_world, tool};

#[tokio::test]
async fn a_key_holds_at_most_its_owner_s_rights() {
    every_world(async |world| {
        let viewer = world.user("default", "vera", &["viewer"]).await;
        let author = world.user("default", "arno", &["author"]).await;
        world.register(&viewer, tool("readRecord", json!({}))).await.refused(403);
        world.register(&author, tool("readRecord", json!({}))).await.ok();
        world.send(&author, "PUT", "/api/v1/tools/readRecord/enabled", json!({"enabled": false})).await.refused(403);
        world.send(&author, "POST", "/api/v1/users", json!({"name": "eve"})).await.refused(403);
        world.get(&author, "/api/v1/config").await.refused(403);

        let wide =
            world.send(&author, "POST", "/api/v1/keys", json!({"name": "k", "scopes": ["admin"]})).await.refused(403);
        assert!(wide["detail"].as_str().unwrap().contains("members.manage"), "{wide:#}");
        let narrow =
            world.send(&author, "POST", "/api/v1/keys", json!({"name": "k", "scopes": ["tools.read"]})).await.ok();
        let narrow = As::Key(narrow["secret"].as_str().unwrap().to_owned());
        world.get(&narrow, "/api/v1/tools").await.ok();
        world.register(&narrow, tool("more", json!({}))).await.refused(403);

        // The owner loses a role: the key loses what it had through it.
        world.send(&As::Owner, "PATCH", "/api/v1/users/arno", json!({"roles": ["viewer"]})).await.ok();
        world.register(&author, tool("more", json!({}))).await.refused(403);
        world.send(&As::Owner, "PATCH", "/api/v1/users/arno", json!({"disabled": true})).await.ok();
        world.get(&author, "/api/v1/me").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn keys_expire_are_revoked_and_are_shown_once() {
    every_world(async |world| {
        let made = world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "short", "days": 1})).await.ok();
        let key = As::Key(made["secret"].as_str().unwrap().to_owned());
        let me = world.get(&key, "/api/v1/me").await.ok();
        assert_eq!(
            me["permissions"],
            json!(["calls.create", "calls.read.own", "tools.read"]),
            "what a key gets by default"
        );
        let list = world.get(&As::Owner, "/api/v1/keys").await.ok();
        assert!(!list.to_string().contains(made["secret"].as_str().unwrap()));
        assert!(list["items"][0]["last_used_at"].is_string());
        world.clock.advance(86_401);
        world.get(&key, "/api/v1/me").await.refused(401);

        let made = world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "long"})).await.ok();
        let key = As::Key(made["secret"].as_str().unwrap().to_owned());
        world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "long"})).await.refused(409);
        world.send(&As::Owner, "DELETE", "/api/v1/keys/long", json!(null)).await.ok();
        world.get(&key, "/api/v1/me").await.refused(401);
        world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "long"})).await.ok();
        for wrong in ["tg_", "tg_x_y", "nonsense", ""] {
            world.get(&As::Key(wrong.to_owned()), "/api/v1/me").await.refused(401);
        }
    })
    .await;
}

#[tokio::test]
async fn nobody_appoints_somebody_above_themselves() {
    every_world(async |world| {
        let admin = world.user("default", "ada", &["admin"]).await;
        world.send(&admin, "POST", "/api/v1/users", json!({"name": "root", "roles": ["operator"]})).await.refused(403);
        world.send(&admin, "PATCH", "/api/v1/users/admin", json!({"roles": []})).await.refused(403);
        world.send(&admin, "POST", "/api/v1/users/admin/sign-in-link", json!({})).await.refused(403);
        world.send(&admin, "POST", "/api/v1/tenants", json!({"slug": "mine"})).await.refused(403);
        world.send(&admin, "POST", "/api/v1/users", json!({"name": "eve", "roles": ["approver"]})).await.ok();
        world.send(&admin, "PATCH", "/api/v1/users/ada", json!({"disabled": true})).await.refused(409);
        world.send(&admin, "PUT", "/api/v1/tools/calculator/state", json!({"state": "blocked"})).await.refused(403);
        world.send(&admin, "PUT", "/api/v1/tools/calculator/enabled", json!({"enabled": false})).await.ok();
        world
            .send(&admin, "PUT", "/api/v1/tools/calculator/enabled", json!({"enabled": false, "everyone": true}))
            .await
            .refused(403);
    })
    .await;
}

#[tokio::test]
async fn without_rights_the_set_is_empty() {
    every_world(async |world| {
        let made = world
            .send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "blind", "scopes": ["usage.read"]}))
            .await
            .ok();
        let blind = As::Key(made["secret"].as_str().unwrap().to_owned());
        world.get(&blind, "/api/v1/tools").await.refused(403);
        world.get(&blind, "/api/v1/tools/calculator").await.refused(404);
        world.get(&blind, "/api/v1/search?q=calculator").await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn a_tool_s_own_permission_is_given_by_word_and_by_nothing_else() {
    every_world(async |world| {
        world.register(&As::Owner, tool("paidRecord", json!({"required_permission": "records.paid"}))).await.ok();
        assert!(
            world.names(&As::Owner, "").await.contains(&"paidRecord".to_owned()),
            "the owner of the folder has them all"
        );
        let admin = world.user("default", "ada", &["admin"]).await;
        world.get(&admin, "/api/v1/tools/paidRecord").await.refused(404);
        let edit = async |body| world.send(&admin, "PATCH", "/api/v1/users/ada", body).await;
        edit(json!({"permissions": ["tenants.manage"]})).await.refused(400);
        edit(json!({"permissions": ["records.paid"]})).await.ok();
        world.get(&admin, "/api/v1/tools/paidRecord").await.refused(404);
        let made = world
            .send(&admin, "POST", "/api/v1/keys", json!({"name": "paid", "scopes": ["tools:execute", "records.paid"]}))
            .await;
        made.refused(403);
        let made = world
            .send(
                &As::Owner,
                "POST",
                "/api/v1/keys",
                json!({"name": "paid", "owner": "ada", "scopes": ["tools:execute", "records.paid"]}),
            )
            .await
            .ok();
        let paid = As::Key(made["secret"].as_str().unwrap().to_owned());
        world.get(&paid, "/api/v1/tools/paidRecord").await.ok();
        edit(json!({"permissions": []})).await.ok();
        world.get(&paid, "/api/v1/tools/paidRecord").await.refused(404);
        world
            .send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "own", "scopes": ["folder:owner"]}))
            .await
            .refused(400);
    })
    .await;
}

#[tokio::test]
async fn disabling_ends_sessions_and_keys_for_good() {
    every_world(async |world| {
        let vera = world.user("default", "vera", &["viewer"]).await;
        let edit = async |body| world.send(&As::Owner, "PATCH", "/api/v1/users/vera", body).await.ok();
        edit(json!({"disabled": true})).await;
        edit(json!({"disabled": false})).await;
        world.get(&vera, "/api/v1/me").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn a_service_has_keys_with_a_service_s_rights() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": "bot", "kind": "service"})).await.ok();
        let admin = world.user("default", "ada", &["admin"]).await;
        let made = world
            .send(&admin, "POST", "/api/v1/keys", json!({"name": "k", "owner": "bot", "scopes": ["service"]}))
            .await
            .ok();
        let bot = As::Key(made["secret"].as_str().unwrap().to_owned());
        assert!(world.get(&bot, "/api/v1/me").await.ok()["permissions"].to_string().contains("work.lease"));
        // But nobody lends rights of a person above themselves.
        world
            .send(&admin, "POST", "/api/v1/keys", json!({"name": "k2", "owner": "admin", "scopes": ["admin"]}))
            .await
            .refused(403);
        world.send(&admin, "POST", "/api/v1/keys", json!({"name": "k3", "scopes": ["nope"]})).await.refused(400);
    })
    .await;
}

#[tokio::test]
async fn a_key_for_an_agent_needs_the_right_to_manage_it() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "powerful"})).await.ok();
        let member = world.user("default", "mia", &["member"]).await;
        world.send(&member, "POST", "/api/v1/keys", json!({"name": "via", "agent": "powerful"})).await.refused(404);
        let author = world.user("default", "arno", &["author"]).await;
        world.send(&author, "POST", "/api/v1/agents", json!({"name": "mine"})).await.ok();
        world.send(&author, "POST", "/api/v1/keys", json!({"name": "via", "agent": "mine"})).await.ok();
    })
    .await;
}
