//! Secrets and the server's keys over REST: who may set which, and that a value goes in and never comes out.

use serde_json::{Value, json};
use toolgate_store::Scope;

use crate::world::{As, World, every_world};

/// In nothing that anybody is told or that is kept in clear.
const VALUE: &str = "sentinel-5f1e0c77-value";

async fn set(world: &World, who: &As, place: &str, body: Value) -> crate::world::Answer {
    world.send(who, "PUT", &format!("/api/v1/secrets/{place}"), body).await
}

#[tokio::test]
async fn a_value_goes_in_and_never_comes_out() {
    every_world(async |world| {
        let ada = world.user("default", "ada", &["admin"]).await;
        let body = json!({"value": VALUE, "tools": ["signText"], "hosts": ["api.example.com"]});
        let first = set(&world, &ada, "org/SIGNING_KEY", body).await.ok();
        assert_eq!((&first["version"], &first["allowed"]["tools"]), (&json!(1), &json!(["signText"])));
        let second = set(&world, &ada, "org/SIGNING_KEY", json!({"value": VALUE})).await.ok();
        assert_eq!((&second["version"], &second["allowed"]), (&json!(2), &first["allowed"]), "given as before");
        let call = json!({"tool": "signText", "input": {"text": "hello"}});
        let called = world.send(&ada, "POST", "/api/v1/calls", call).await.ok();
        assert_eq!(called["status"], "completed", "{called:#}");

        let mut told = vec![first, second, called];
        for path in [
            "/api/v1/secrets",
            "/api/v1/secrets/which?name=SIGNING_KEY",
            "/api/v1/server-keys",
            "/api/v1/audit/entries?limit=500",
            "/api/v1/calls?limit=500",
            "/api/v1/config",
            "/api/v1/me",
        ] {
            told.push(world.get(&ada, path).await.body);
        }
        let owner = As::Owner;
        told.push(world.get(&owner, "/api/v1/server-keys").await.ok());
        // There is no way to ask for it either.
        told.push(world.get(&ada, "/api/v1/secrets/org/SIGNING_KEY").await.body);
        let allow = json!({"hosts": ["other.example.com"]});
        told.push(world.send(&ada, "POST", "/api/v1/secrets/org/SIGNING_KEY/allow", allow).await.ok());
        told.push(world.send(&ada, "DELETE", "/api/v1/secrets/org/SIGNING_KEY", Value::Null).await.ok());
        for answer in told {
            assert!(!answer.to_string().contains("sentinel"), "{answer:#}");
        }
        let sql = "SELECT entry FROM audit_leaves";
        let rows = world.app.store.query(&Scope::Everyone("a test reads the log"), sql, vec![]).await.unwrap();
        let log: Vec<String> = rows.iter().map(|row| row.get(0).unwrap()).collect();
        assert!(!log.concat().contains("sentinel"));
        for action in ["secret.set", "secret.allowed", "secret.deleted"] {
            assert!(log.iter().any(|entry| entry.contains(action)), "{action} is in the log");
        }
    })
    .await;
}

/// Every way in which a body can be wrong, with the value in it.
#[tokio::test]
async fn no_error_repeats_a_value() {
    every_world(async |world| {
        let ada = world.user("default", "ada", &["admin"]).await;
        let number = 5_550_123_456_u64;
        for (place, body) in [
            ("org/KEY", json!({"value": [VALUE]})),
            ("org/KEY", json!({"value": {VALUE: 1}})),
            ("org/KEY", json!({"value": number})),
            ("org/KEY", json!({"value": VALUE, VALUE: 1})),
            ("org/KEY", json!({"value": VALUE, "tools": VALUE})),
            ("org/KEY", json!({"value": VALUE, "hosts": [format!("https://{VALUE}/")]})),
            ("org/KEY", json!(VALUE)),
            ("org/KEY", json!({"value": VALUE.repeat(2000)})),
            ("org/KEY", json!({"value": ""})),
            ("org/KEY", json!({})),
            ("org/A%20B", json!({"value": VALUE})),
            ("nowhere/KEY", json!({"value": VALUE})),
            ("org/KEY", json!({"value": VALUE, "workspace": "main"})),
            ("workspace/KEY", json!({"value": VALUE, "workspace": "nowhere"})),
            ("org/KEY", json!({"value": VALUE, "tools": ["no_such_tool"]})),
        ] {
            let answer = set(&world, &ada, place, body.clone()).await;
            assert!((400..500).contains(&answer.status), "{place} {body}: {:#}", answer.body);
            let told = answer.body.to_string();
            assert!(!told.contains("sentinel") && !told.contains("5550123456"), "{told}");
        }
        let list = world.get(&ada, "/api/v1/secrets").await.ok();
        assert_eq!(list["items"], json!([]), "and nothing was kept");
    })
    .await;
}

#[tokio::test]
async fn who_may_set_which_scope() {
    every_world(async |world| {
        let (admin, member) =
            (world.user("default", "ada", &["admin"]).await, world.user("default", "mo", &["member"]).await);
        let viewer = world.user("default", "vi", &["viewer"]).await;
        let body = json!({"value": VALUE});
        for (who, name, allowed) in [
            (&admin, "admin", ["user", "workspace", "org"].as_slice()),
            (&member, "member", &["user"]),
            (&viewer, "viewer", &[]),
        ] {
            for scope in ["user", "workspace", "org"] {
                let place = format!("{scope}/KEY");
                let answer = set(&world, who, &place, body.clone()).await;
                let expected = if allowed.contains(&scope) { 200 } else { 403 };
                assert_eq!(answer.status, expected, "{name} {scope}: {:#}", answer.body);
                if expected == 403 {
                    let path = format!("/api/v1/secrets/{place}");
                    world.send(who, "DELETE", &path, Value::Null).await.refused(403);
                    world.send(who, "POST", &format!("{path}/allow"), json!({})).await.refused(403);
                }
            }
        }
        let names = async |who: &As| -> Vec<String> {
            let list = world.get(who, "/api/v1/secrets").await.ok();
            list["items"].as_array().unwrap().iter().map(|item| item["scope"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&admin).await, ["user", "workspace", "org"], "one's own, not another user's");
        assert_eq!(names(&member).await, ["user"]);
        world.get(&viewer, "/api/v1/secrets").await.refused(403);
        world.send(&member, "POST", "/api/v1/secrets/rotate", json!({})).await.refused(403);
        for (method, path) in [
            ("GET", "/api/v1/server-keys"),
            ("POST", "/api/v1/server-keys/token/rotate"),
            ("POST", "/api/v1/server-keys/rewrap"),
        ] {
            world.send(&admin, method, path, json!({})).await.refused(403);
        }

        // A key made for an agent sets nothing, and is not told what its owner has.
        let agent = json!({"name": "robot", "model": "scripted/one"});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
        let scopes = json!(["calls.create", "tools.read"]);
        let key = json!({"name": "robots", "owner": "ada", "agent": "robot", "scopes": scopes});
        let key = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
        let robot = As::Key(key["secret"].as_str().unwrap().to_owned());
        set(&world, &robot, "user/KEY", body.clone()).await.refused(403);
        for name in ["KEY", "NOTHING"] {
            let refused = world.get(&robot, &format!("/api/v1/secrets/which?name={name}")).await.refused(403);
            assert!(!refused.to_string().contains("\"found\""), "{refused:#}");
        }
        // Who may set none is not told either; who may is.
        world.get(&viewer, "/api/v1/secrets/which?name=KEY").await.refused(403);
        let calls = json!({"name": "calls", "owner": "ada", "scopes": ["calls.create", "tools.read"]});
        let calls = world.send(&As::Owner, "POST", "/api/v1/keys", calls).await.ok();
        let calls = As::Key(calls["secret"].as_str().unwrap().to_owned());
        world.get(&calls, "/api/v1/secrets/which?name=KEY").await.refused(403);
        let which = world.get(&member, "/api/v1/secrets/which?name=KEY&agent=robot").await;
        assert_ne!(which.status, 403, "{:#}", which.body);
    })
    .await;
}

#[tokio::test]
async fn a_neighbour_s_secrets_are_not_there() {
    every_world(async |world| {
        world.tenant("neighbour").await;
        let ours = world.user("default", "ada", &["admin"]).await;
        let theirs = world.user("neighbour", "ada", &["admin"]).await;
        set(&world, &ours, "org/SIGNING_KEY", json!({"value": VALUE, "tools": ["signText"]})).await.ok();
        assert_eq!(world.get(&theirs, "/api/v1/secrets").await.ok()["items"], json!([]));
        let path = "/api/v1/secrets/org/SIGNING_KEY";
        world.send(&theirs, "DELETE", path, Value::Null).await.refused(404);
        world.send(&theirs, "POST", &format!("{path}/allow"), json!({"tools": ["echo"]})).await.refused(404);
        let which = world.get(&theirs, "/api/v1/secrets/which?name=SIGNING_KEY").await.ok();
        assert_eq!(which["found"], Value::Null);
        let call = json!({"tool": "signText", "input": {"text": "hello"}});
        let called = world.send(&theirs, "POST", "/api/v1/calls", call.clone()).await.ok();
        assert_eq!(called["error"]["details"]["reason"], "secret_missing", "{called:#}");
        let called = world.send(&ours, "POST", "/api/v1/calls", call).await.ok();
        assert_eq!(called["status"], "completed");
        world.send(&theirs, "POST", "/api/v1/secrets/rotate", json!({"deep": true})).await.ok();
        let kept = world.get(&ours, "/api/v1/secrets/which?name=SIGNING_KEY").await.ok();
        assert_eq!(kept["found"]["version"], 1);
    })
    .await;
}

#[tokio::test]
async fn keys_are_listed_and_rotated_without_being_shown() {
    every_world(async |world| {
        let owner = As::Owner;
        let rotated = world.send(&owner, "POST", "/api/v1/server-keys/seal/rotate", json!({})).await.ok();
        let again = world.send(&owner, "POST", "/api/v1/server-keys/seal/rotate", json!({})).await.ok();
        assert_ne!(rotated["kids"], again["kids"]);
        let list = world.get(&owner, "/api/v1/server-keys").await.ok();
        let states: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|key| key["kind"] == "seal")
            .map(|key| key["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["active", "retiring"]);
        for kind in ["check", "tenant"] {
            let path = format!("/api/v1/server-keys/{kind}/rotate");
            world.send(&owner, "POST", &path, json!({})).await.refused(409);
        }
        world.send(&owner, "POST", "/api/v1/server-keys/nothing/rotate", json!({})).await.refused(400);
        let rewrapped = world.send(&owner, "POST", "/api/v1/server-keys/rewrap", json!({})).await.ok();
        assert_eq!(rewrapped["rewrapped"], 0);
        set(&world, &owner, "org/KEY", json!({"value": VALUE})).await.ok();
        let deep = world.send(&owner, "POST", "/api/v1/secrets/rotate", json!({"deep": true})).await.ok();
        assert_eq!((&deep["resealed"], &deep["ended"]), (&json!(1), &json!(1)));
    })
    .await;
}
