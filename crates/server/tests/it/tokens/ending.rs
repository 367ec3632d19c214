//! What ends a token before its time, here and on every replica (tests 5 and 58 of `security.md` §11).

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use toolgate_store::testing::Database;
use toolgate_store::{Change, MIGRATIONS};

use super::{claims_of, forge, header_of, id, shown, text};
use crate::world::{As, every_world, send, two_replicas};

#[tokio::test]
async fn test_5_a_token_ends_with_itself_its_parent_or_its_grandparent() {
    every_world(async |world| {
        for revoked in 0..3 {
            let grandparent = world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await;
            let parent = world.mint(&shown(&grandparent), json!({"scope": ["tool:*"]})).await;
            let token = world.mint(&shown(&parent), json!({"scope": ["tool:*"]})).await;
            world.call(&shown(&token), "echo", json!({"text": "t"})).await.ok();
            let ends = id([&token, &parent, &grandparent][revoked]);
            let told = world.send(&As::Owner, "DELETE", &format!("/api/v1/tokens/{ends}"), Value::Null).await.ok();
            assert_eq!(told["state"], "revoked");
            let refused = world.check_refused(text(&shown(&token)), "revoked").await;
            assert_eq!(refused["details"]["reason"], "token_revoked", "{refused:#}");
            let now = world.get(&As::Owner, &format!("/api/v1/tokens/{}", id(&token))).await.ok();
            assert_eq!(now["state"], "revoked", "those made of it are shown as what they are");
        }
        // By agent.
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "helper"})).await.ok();
        let own = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let agents = world.holder(&As::Owner, json!({"scope": ["tool:*"], "agent": "helper"})).await;
        let child = world.holder(&agents, json!({"scope": ["tool:*"]})).await;
        let told = world.send(&As::Owner, "DELETE", "/api/v1/tokens?agent=helper", Value::Null).await.ok();
        assert_eq!(told, json!({"revoked": 2}));
        for token in [&agents, &child] {
            world.check_refused(text(token), "its agent's were revoked").await;
        }
        world.get(&own, "/api/v1/tools").await.ok();
        world.send(&own, "DELETE", "/api/v1/tokens?agent=helper", Value::Null).await.refused(404);
        // With its key, and with its person.
        let ada = world.user("default", "ada", &["member"]).await;
        let token = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        world.get(&token, "/api/v1/tools").await.ok();
        world.send(&As::Owner, "DELETE", "/api/v1/keys/ada-key", Value::Null).await.ok();
        world.check_refused(text(&token), "its key was revoked").await;
        let ben = world.user("default", "ben", &["member"]).await;
        let token = world.holder(&ben, json!({"scope": ["tool:*"]})).await;
        world.get(&token, "/api/v1/tools").await.ok();
        world.send(&As::Owner, "PATCH", "/api/v1/users/ben", json!({"disabled": true})).await.ok();
        world.check_refused(text(&token), "its person was disabled").await;
    })
    .await;
}

#[tokio::test]
async fn test_5_a_token_revoked_here_is_revoked_on_every_replica() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let ([first, second], _folders) = two_replicas(&database).await;
    let mint = async |who: &As, body: Value| send(first.router(), who, "POST", "/api/v1/tokens", body).await.ok();
    let note = json!({"tool": "append_note", "input": {"notebook": "n", "text": "t"}});
    let echo = json!({"tool": "echo", "input": {"text": "t"}});
    for ends in 0..3 {
        let grandparent = mint(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let parent = mint(&shown(&grandparent), json!({"scope": ["tool:*"]})).await;
        let token = mint(&shown(&parent), json!({"scope": ["tool:*"]})).await;
        // The other replica has let it in, and remembers that.
        let there = send(second.router(), &shown(&token), "POST", "/api/v1/calls", note.clone()).await.ok();
        assert_eq!(there["status"], "completed", "{there:#}");
        let ends = format!("/api/v1/tokens/{}", id([&token, &parent, &grandparent][ends]));
        send(first.router(), &As::Owner, "DELETE", &ends, Value::Null).await.ok();
        // What changes something does not run, not even in the second in which it is remembered.
        let there = send(second.router(), &shown(&token), "POST", "/api/v1/calls", note.clone()).await;
        let refused = there.status == 401
            || (there.body["error"]["code"] == "AUTH_REQUIRED"
                && there.body["error"]["details"]["reason"] == "token_revoked");
        assert!(refused, "{} {:#}", there.status, there.body);
        let mut tries = 0;
        while send(second.router(), &shown(&token), "POST", "/api/v1/calls", echo.clone()).await.status != 401 {
            tries += 1;
            assert!(tries < 600, "it is still believed");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn test_58_a_restored_database_brings_no_token_back() {
    every_world(async |world| {
        let (revoked, good) = (
            world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await,
            world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await,
        );
        let (old_kid, old_key) = world.signing_key().await;
        world.send(&As::Owner, "DELETE", &format!("/api/v1/tokens/{}", id(&revoked)), Value::Null).await.ok();
        // Last night's state: the token is not revoked there.
        let unrevoke = async || {
            for tenant in world.app.store.tenants().await.unwrap() {
                let mut change = Change::new(tenant.id);
                change.then("UPDATE tokens SET revoked_at = NULL WHERE tenant_id = $1", []);
                world.app.store.commit(change).await.unwrap();
            }
        };
        unrevoke().await;
        world.app.note_restored("backup.db").await.unwrap();
        unrevoke().await;
        let (kid, key) = world.signing_key().await;
        assert_ne!(kid, old_kid);
        for token in [&revoked, &good] {
            let token = text(&shown(token)).to_owned();
            world.app.tokens.invalidate_all();
            world.check_refused(&token, "minted before").await;
            let claims = claims_of(&token);
            // Not even signed anew: the epoch in it is over.
            let refused = world.check_refused(&forge(&header_of(&kid), &claims, &key), "its epoch").await;
            assert!(refused["detail"].is_string());
            world.check_refused(&forge(&header_of(&old_kid), &claims, &old_key), "the key before").await;
        }
        let new = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        world.get(&new, "/api/v1/tools").await.ok();
    })
    .await;
}

#[tokio::test]
async fn keys_rotate_and_both_are_published_until_the_last_token_has_expired() {
    every_world(async |world| {
        let before = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        world.send(&As::Owner, "POST", "/api/v1/server-keys/token/rotate", json!({})).await.ok();
        let after = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let kid = |token: &As| {
            let header = BASE64URL_NOPAD.decode(text(token).split('.').next().unwrap().as_bytes()).unwrap();
            serde_json::from_slice::<Value>(&header).unwrap()["kid"].as_str().unwrap().to_owned()
        };
        assert_ne!(kid(&before), kid(&after));
        let published = world.get(&As::Nobody, "/.well-known/jwks.json").await.ok();
        for token in [&before, &after] {
            assert!(published.to_string().contains(&kid(token)), "{published:#}");
            world.app.tokens.invalidate_all();
            world.get(token, "/api/v1/tools").await.ok();
        }
        for secret in ["\"d\"", "seed"] {
            assert!(!published.to_string().contains(secret));
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_was_minted_in_a_browser_ends_with_the_session() {
    every_world(async |world| {
        let sign_in = async || {
            let link = world.send(&As::Owner, "POST", "/api/v1/users/admin/sign-in-link", json!({})).await.ok();
            let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1;
            let session = world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await;
            let cookie = session.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
            As::Cookie(cookie)
        };
        let (here, elsewhere) = (sign_in().await, sign_in().await);
        let token = world.holder(&here, json!({"scope": ["tool:*"]})).await;
        let child = world.holder(&token, json!({"scope": ["tool:echo"]})).await;
        let other = world.holder(&elsewhere, json!({"scope": ["tool:*"]})).await;
        for works in [&token, &child, &other] {
            world.get(works, "/api/v1/tools").await.ok();
        }
        let signed_out = world.send(&here, "POST", "/api/v1/sign-out", json!({})).await;
        assert!((200..300).contains(&signed_out.status), "{:#}", signed_out.body);
        world.app.tokens.invalidate_all();
        for ended in [&token, &child] {
            let refused = world.check_refused(text(ended), "its session has ended").await;
            assert_eq!(refused["details"]["reason"], "token_revoked", "{refused:#}");
        }
        world.get(&other, "/api/v1/tools").await.ok();
    })
    .await;
}
