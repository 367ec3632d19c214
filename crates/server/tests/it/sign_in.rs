//! Passwords, sessions, invitations and new passwords: what each lets in, what it ends, and what guessing costs.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use toolgate_server::proxies::ClientAddress;
use tower::ServiceExt as _;

use crate::world::{Answer, As, World, answer, every_world};

const GOOD: &str = "a lamp in the hall";
const OTHER: &str = "a chair by the door";

/// The cookie that an answer sets.
#[track_caller]
pub fn cookie(answer: &Answer) -> As {
    assert_eq!(answer.status, 204, "{:#}", answer.body);
    As::Cookie(answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned())
}

impl World {
    pub async fn post(&self, who: &As, path: &str, body: Value) -> Answer {
        self.send(who, "POST", path, body).await
    }

    /// Signs in with a password.
    async fn enter(&self, user: &str, password: &str) -> Answer {
        self.post(&As::Nobody, "/api/v1/session/password", json!({"user": user, "password": password})).await
    }

    /// A person with a password: made, and given one by a link.
    pub async fn person(&self, name: &str, email: Option<&str>, roles: &[&str], password: &str) {
        self.post(&As::Owner, "/api/v1/users", json!({"name": name, "email": email, "roles": roles})).await.ok();
        let token = self.reset_token(name).await;
        let set =
            self.post(&As::Nobody, "/api/v1/session/reset/finish", json!({"token": token, "password": password})).await;
        assert_eq!(set.status, 204, "{:#}", set.body);
    }

    async fn reset_token(&self, name: &str) -> String {
        let link = self.post(&As::Owner, &format!("/api/v1/users/{name}/reset"), json!({})).await.ok();
        link["url"].as_str().unwrap().split_once("/reset#").unwrap().1.to_owned()
    }

    async fn entered(&self) -> Vec<String> {
        let tenant = self.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let entries = self.app.store.audit_entries(tenant, 200).await.unwrap();
        entries.iter().rev().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    }

    /// A request from somewhere on the network.
    async fn enter_from(&self, address: &str, user: &str, password: &str) -> Answer {
        let address: IpAddr = address.parse().unwrap();
        let request = Request::post("/api/v1/session/password")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "Lynx/2.8")
            .extension(ClientAddress(address))
            .body(Body::from(json!({"user": user, "password": password}).to_string()))
            .unwrap();
        answer(self.router().oneshot(request).await.unwrap()).await
    }
}

#[tokio::test]
async fn a_password_signs_in_by_name_or_address_and_whoever_is_unknown_is_told_the_same() {
    every_world(async |world| {
        world.person("ada", Some("ada@example.com"), &["member"], GOOD).await;
        for user in ["ada", "ada@example.com", "Ada@Example.COM", " ada "] {
            let session = cookie(&world.enter(user, GOOD).await);
            assert_eq!(world.get(&session, "/api/v1/me").await.ok()["name"], "ada", "{user}");
        }
        let session = world.enter("ada", GOOD).await;
        let set = session.headers["set-cookie"].to_str().unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax") && set.contains("Max-Age=28800"), "{set}");

        let wrong = world.enter("ada", OTHER).await.refused(401);
        for (user, password) in [
            ("nobody", GOOD),
            ("nobody@example.com", GOOD),
            ("admin", GOOD),
            ("ada", ""),
            ("", ""),
            ("ada", &"x".repeat(300)),
        ] {
            assert_eq!(world.enter(user, password).await.refused(401), wrong, "{user}");
        }
        // Neither a service nor somebody who was stopped.
        world.post(&As::Owner, "/api/v1/users", json!({"name": "robot", "kind": "service"})).await.ok();
        world.post(&As::Owner, "/api/v1/users/robot/reset", json!({})).await.refused(409);
        world.send(&As::Owner, "PATCH", "/api/v1/users/ada", json!({"disabled": true})).await.ok();
        assert_eq!(world.enter("ada", GOOD).await.refused(401), wrong);
        world.post(&As::Owner, "/api/v1/users/ada/reset", json!({})).await.refused(409);
        let kept = world.entered().await;
        assert!(kept.contains(&"user.sign_in".to_owned()) && kept.contains(&"user.reset".to_owned()), "{kept:?}");
    })
    .await;
}

#[tokio::test]
async fn a_password_is_of_one_tenant_and_opens_no_other() {
    every_world(async |world| {
        world.tenant("other").await;
        world.person("ada", Some("ada@example.com"), &["member"], GOOD).await;
        // The same person elsewhere, where an administrator may make links for her.
        let there = As::OwnerOf("other");
        world
            .post(&there, "/api/v1/users", json!({"name": "ada", "email": "ada@example.com", "roles": ["admin"]}))
            .await
            .ok();
        let link = world.post(&there, "/api/v1/users/ada/reset", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("/reset#").unwrap().1;
        world.post(&As::Nobody, "/api/v1/session/reset/finish", json!({"token": token, "password": OTHER})).await.ok();

        let enter = async |tenant: Option<&str>, password: &str| {
            let body = json!({"user": "ada@example.com", "password": password, "tenant": tenant});
            world.post(&As::Nobody, "/api/v1/session/password", body).await
        };
        enter(Some("default"), OTHER).await.refused(401);
        enter(Some("other"), GOOD).await.refused(401);
        let here = cookie(&enter(None, GOOD).await);
        let shown = world.get(&here, "/api/v1/session").await.ok();
        assert_eq!(shown["tenants"], json!([{"slug": "default", "name": "Default"}]));
        world.post(&here, "/api/v1/session/tenant", json!({"tenant": "other"})).await.refused(404);
        let there = cookie(&enter(Some("other"), OTHER).await);
        assert_eq!(world.get(&there, "/api/v1/me").await.ok()["tenant"], "other");
    })
    .await;
}

#[tokio::test]
async fn guessing_takes_longer_and_longer_and_locks_nobody_out() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        // Known or not, the fifth wrong one in a row is answered, and the next is too early.
        for user in ["ada", "nobody"] {
            for _ in 0..5 {
                world.enter(user, OTHER).await.refused(401);
            }
            let early = world.enter(user, GOOD).await;
            assert_eq!(early.headers["retry-after"], "1", "{user}");
            assert_eq!(early.refused(429)["details"], json!({"retry_after_s": 1}));
        }
        let mut waited = Vec::new();
        for _ in 0..9 {
            let early = world.enter("ada", OTHER).await.refused(429);
            let seconds = early["details"]["retry_after_s"].as_i64().unwrap();
            waited.push(seconds);
            world.clock.advance(seconds);
            world.enter("ada", OTHER).await.refused(401);
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // Another spelling is the same person.
        world.enter("ADA", GOOD).await.refused(429);
        world.clock.advance(60);
        cookie(&world.enter("ada", GOOD).await);
        // Who was right starts anew.
        for _ in 0..4 {
            world.enter("ada", OTHER).await.refused(401);
        }
        cookie(&world.enter("ada", GOOD).await);
    })
    .await;
}

#[tokio::test]
async fn a_network_that_tries_many_names_waits_as_a_whole() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        for number in 0..25 {
            world.enter_from("2001:db8:1:2::7", &format!("guess{number}"), OTHER).await.refused(401);
        }
        // Anywhere in the same network, and nobody elsewhere.
        world.enter_from("2001:db8:1:2:ffff::1", "ada", GOOD).await.refused(429);
        cookie(&world.enter_from("2001:db8:1:3::1", "ada", GOOD).await);
        cookie(&world.enter_from("203.0.113.9", "ada", GOOD).await);
        // Those who know their password do not slow their neighbours down.
        for _ in 0..40 {
            cookie(&world.enter_from("203.0.113.9", "ada", GOOD).await);
        }
    })
    .await;
}

#[tokio::test]
async fn many_guesses_at_once_count_as_many() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        let tried = futures_util::future::join_all((0..20).map(|_| world.enter("ada", OTHER))).await;
        let judged = tried.iter().filter(|answer| answer.status == 401).count();
        assert_eq!((judged, tried.len() - judged), (5, 15));
    })
    .await;
}

#[tokio::test]
async fn one_sees_ones_sessions_and_ends_them_one_by_one_or_all() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        world.person("ben", None, &["member"], GOOD).await;
        let first = cookie(&world.enter_from("203.0.113.9", "ada", GOOD).await);
        world.clock.advance(60);
        let second = cookie(&world.enter("ada", GOOD).await);
        let ben = cookie(&world.enter("ben", GOOD).await);
        let list = world.get(&second, "/api/v1/sessions").await.ok();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!((&items[0]["current"], &items[1]["current"]), (&json!(true), &json!(false)));
        assert_eq!((&items[1]["address"], &items[1]["agent"]), (&json!("203.0.113.9"), &json!("Lynx/2.8")));
        assert_eq!(items[0]["how"], "password");
        assert!(!list.to_string().contains("hash") && !list.to_string().contains("token"), "{list:#}");

        let one = items[1]["id"].as_str().unwrap();
        world.send(&ben, "DELETE", &format!("/api/v1/sessions/{one}"), Value::Null).await.refused(404);
        assert_eq!(world.send(&second, "DELETE", &format!("/api/v1/sessions/{one}"), Value::Null).await.status, 204);
        world.get(&first, "/api/v1/me").await.refused(401);
        world.send(&second, "DELETE", &format!("/api/v1/sessions/{one}"), Value::Null).await.refused(404);

        let third = cookie(&world.enter("ada", GOOD).await);
        let everywhere = world.send(&second, "DELETE", "/api/v1/sessions", Value::Null).await;
        assert!(everywhere.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        for gone in [&second, &third] {
            world.get(gone, "/api/v1/me").await.refused(401);
        }
        world.get(&ben, "/api/v1/me").await.ok();

        // An administrator sees and ends them too; a member does not.
        let ada = cookie(&world.enter("ada", GOOD).await);
        world.get(&ada, "/api/v1/users/ben/sessions").await.refused(403);
        world.send(&ada, "DELETE", "/api/v1/users/ben/sessions", Value::Null).await.refused(403);
        let listed = world.get(&As::Owner, "/api/v1/users/ben/sessions").await.ok();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        assert_eq!(world.send(&As::Owner, "DELETE", "/api/v1/users/ben/sessions", Value::Null).await.status, 204);
        world.get(&ben, "/api/v1/me").await.refused(401);
        // One that is idle too long is no session any more.
        world.clock.advance(31 * 60);
        assert_eq!(world.get(&As::Owner, "/api/v1/users/ada/sessions").await.ok()["items"], json!([]));
        let kept = world.entered().await;
        for action in ["session.end", "session.end_all"] {
            assert!(kept.iter().any(|kept| kept == action), "{kept:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_says_who_how_and_until_when_and_ends_after_eight_hours() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        let session = cookie(&world.enter("ada", GOOD).await);
        let shown = world.get(&session, "/api/v1/session").await.ok();
        assert_eq!(shown["me"]["roles"], json!(["member"]));
        assert!(shown["me"]["permissions"].as_array().unwrap().contains(&json!("calls.create")));
        let about = &shown["session"];
        assert_eq!((&about["how"], &about["step_up_by"]), (&json!("password"), &json!(["password"])));
        for member in ["id", "began_at", "ends_at", "idle_ends_at", "fresh_until"] {
            assert!(about[member].is_string(), "{member} of {about:#}");
        }
        for _ in 0..18 {
            world.clock.advance(25 * 60);
            world.get(&session, "/api/v1/me").await.ok();
        }
        world.clock.advance(29 * 60);
        world.get(&session, "/api/v1/me").await.ok();
        world.clock.advance(61);
        world.get(&session, "/api/v1/me").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn who_confirms_with_the_password_is_fresh_again_under_a_new_secret() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        let old = cookie(&world.enter("ada", GOOD).await);
        world.clock.advance(6 * 60);
        let about = world.get(&old, "/api/v1/session").await.ok();
        assert!(about["session"]["fresh_until"].is_null(), "{about:#}");
        world.post(&old, "/api/v1/session/step-up", json!({"password": OTHER})).await.refused(401);
        let new = cookie(&world.post(&old, "/api/v1/session/step-up", json!({"password": GOOD})).await);
        world.get(&old, "/api/v1/me").await.refused(401);
        let again = world.get(&new, "/api/v1/session").await.ok();
        assert!(again["session"]["fresh_until"].is_string());
        assert_eq!(
            (&again["session"]["id"], &again["session"]["ends_at"]),
            (&about["session"]["id"], &about["session"]["ends_at"])
        );
        for _ in 0..5 {
            world.post(&new, "/api/v1/session/step-up", json!({"password": OTHER})).await.refused(401);
        }
        world.post(&new, "/api/v1/session/step-up", json!({"password": GOOD})).await.refused(429);
        // By a link nobody proves more than that they have a link, where there is a password to ask for.
        let link = world.post(&As::Owner, "/api/v1/users/ada/sign-in-link", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
        let linked = cookie(&world.post(&As::Nobody, "/api/v1/sign-in", json!({"token": token})).await);
        let about = world.get(&linked, "/api/v1/session").await.ok();
        assert_eq!((&about["session"]["how"], &about["session"]["fresh_until"]), (&json!("link"), &Value::Null));
        world.post(&As::Owner, "/api/v1/session/step-up", json!({"password": GOOD})).await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn policies_keys_and_secrets_want_a_fresh_sign_in_of_whoever_can_prove_it() {
    every_world(async |world| {
        world.person("ada", None, &["admin"], GOOD).await;
        let old = cookie(&world.enter("ada", GOOD).await);
        let asked = [
            ("POST", "/api/v1/keys", json!({"name": "k"})),
            ("PUT", "/api/v1/secrets/org/TOKEN", json!({"value": "some value of a secret"})),
            ("DELETE", "/api/v1/secrets/org/TOKEN", Value::Null),
            ("POST", "/api/v1/policies", json!({"source": "@id(\"all\") permit (principal, action, resource);"})),
        ];
        world.clock.advance(301);
        for (method, path, body) in &asked {
            let refused = world.send(&old, method, path, body.clone()).await.refused(403);
            assert_eq!(refused["details"], json!({"step_up": true}), "{path}");
        }
        world.get(&old, "/api/v1/keys").await.ok();
        let fresh = cookie(&world.post(&old, "/api/v1/session/step-up", json!({"password": GOOD})).await);
        for (method, path, body) in asked {
            world.send(&fresh, method, path, body).await.ok();
        }
        // Who has a link and nothing else is not asked for what they do not have; nor is a key.
        world.post(&As::Owner, "/api/v1/users", json!({"name": "ben", "roles": ["admin"]})).await.ok();
        let link = world.post(&As::Owner, "/api/v1/users/ben/sign-in-link", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
        let ben = cookie(&world.post(&As::Nobody, "/api/v1/sign-in", json!({"token": token})).await);
        world.clock.advance(301);
        world.post(&ben, "/api/v1/keys", json!({"name": "k"})).await.ok();
    })
    .await;
}

#[tokio::test]
async fn changing_ones_password_asks_for_the_present_one_and_ends_the_other_sessions() {
    every_world(async |world| {
        world.person("ada", Some("ada.lovelace@example.com"), &["member"], GOOD).await;
        let (here, elsewhere) = (cookie(&world.enter("ada", GOOD).await), cookie(&world.enter("ada", GOOD).await));
        let change = async |who: &As, body: Value| world.send(who, "PUT", "/api/v1/me/password", body).await;
        assert_eq!(change(&here, json!({"password": OTHER})).await.refused(400)["pointer"], "/present");
        let wrong = change(&here, json!({"present": OTHER, "password": OTHER})).await.refused(401);
        assert_eq!(wrong["pointer"], "/present");
        for bad in ["too short", "ada.lovelace", "ada.lovelace@example.com", &"x y".repeat(100)] {
            let refused = change(&here, json!({"present": GOOD, "password": bad})).await.refused(400);
            assert_eq!(refused["pointer"], "/password", "{bad}");
        }
        let now = cookie(&change(&here, json!({"present": GOOD, "password": OTHER})).await);
        for gone in [&here, &elsewhere] {
            world.get(gone, "/api/v1/me").await.refused(401);
        }
        world.get(&now, "/api/v1/me").await.ok();
        world.enter("ada", GOOD).await.refused(401);
        cookie(&world.enter("ada", OTHER).await);
        // A key proves nothing about whoever holds it.
        let key = world.user("default", "kim", &["admin"]).await;
        change(&key, json!({"password": OTHER})).await.refused(403);
        // Who came by a link and has none may choose one.
        let link = world.post(&As::Owner, "/api/v1/users/kim/sign-in-link", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
        let kim = cookie(&world.post(&As::Nobody, "/api/v1/sign-in", json!({"token": token})).await);
        cookie(&change(&kim, json!({"password": OTHER})).await);
        cookie(&world.enter("kim", OTHER).await);
    })
    .await;
}

#[tokio::test]
async fn a_link_for_a_new_password_works_once_within_the_hour_and_ends_all_sessions() {
    every_world(async |world| {
        world.person("ada", Some("ada@example.com"), &["member"], GOOD).await;
        let session = cookie(&world.enter("ada", GOOD).await);
        let finish = async |token: &str, password: &str| {
            let body = json!({"token": token, "password": password});
            world.post(&As::Nobody, "/api/v1/session/reset/finish", body).await
        };
        let (late, spare, token) =
            (world.reset_token("ada").await, world.reset_token("ada").await, world.reset_token("ada").await);
        assert_eq!(finish(&token, "ada@example.com").await.refused(400)["pointer"], "/password");
        // Whatever opens the link changes nothing, and it is no link to sign in with.
        assert!(world.get(&As::Nobody, "/reset").await.status < 500);
        world.post(&As::Nobody, "/api/v1/sign-in", json!({"token": token})).await.refused(401);
        world.get(&session, "/api/v1/me").await.ok();
        assert_eq!(finish(&token, OTHER).await.status, 204);
        finish(&token, GOOD).await.refused(401);
        // One that was made before went with it.
        finish(&spare, GOOD).await.refused(401);
        finish(&late, GOOD).await.refused(401);
        world.get(&session, "/api/v1/me").await.refused(401);
        world.enter("ada", GOOD).await.refused(401);
        cookie(&world.enter("ada", OTHER).await);
        let late = world.reset_token("ada").await;
        world.clock.advance(3601);
        finish(&late, GOOD).await.refused(401);

        // The answer to whoever asks is the same, whoever is meant.
        for user in ["ada", "ada@example.com", "nobody", ""] {
            let asked = world.post(&As::Nobody, "/api/v1/session/reset", json!({"user": user})).await;
            assert_eq!((asked.status, asked.body), (202, json!({})), "{user}");
        }
        for _ in 0..20 {
            let asked = world.post(&As::Nobody, "/api/v1/session/reset", json!({"user": "ada"})).await;
            assert_eq!(asked.status, 202, "not told that it is too often: that would tell who is known");
        }
        // Nobody makes one for somebody with more rights.
        let admin = world.user("default", "deputy", &["admin"]).await;
        world.post(&admin, "/api/v1/users/admin/reset", json!({})).await.refused(403);
        world.post(&admin, "/api/v1/users/ada/reset", json!({})).await.ok();
    })
    .await;
}

#[tokio::test]
async fn an_invitation_lets_one_person_in_once_with_the_rights_it_names() {
    every_world(async |world| {
        let invite = async |who: &As, body: Value| world.post(who, "/api/v1/invitations", body).await;
        let sent = invite(
            &As::Owner,
            json!({"name": "ada", "email": "Ada@Example.com", "roles": ["author"], "permissions": ["crm.read"]}),
        )
        .await
        .ok();
        let token = sent["url"].as_str().unwrap().split_once("/invite#").unwrap().1.to_owned();
        assert_eq!((&sent["invitation"]["state"], &sent["invitation"]["mailed"]), (&json!("open"), &json!(false)));
        let look =
            async |token: &str| world.post(&As::Nobody, "/api/v1/session/invitation", json!({"token": token})).await;
        for _ in 0..3 {
            let shown = look(&token).await.ok();
            assert_eq!(
                (&shown["name"], &shown["email"], &shown["tenant"]["slug"], &shown["roles"]),
                (&json!("ada"), &json!("ada@example.com"), &json!("default"), &json!(["author"]))
            );
        }
        let accept = async |body: Value| world.post(&As::Nobody, "/api/v1/session/invitation/accept", body).await;
        assert_eq!(accept(json!({"token": token, "password": "short"})).await.refused(400)["pointer"], "/password");
        assert_eq!(
            accept(json!({"token": token, "name": "boss@example.com", "password": GOOD})).await.refused(400)["pointer"],
            "/name"
        );
        assert_eq!(
            accept(json!({"token": token, "name": "admin", "password": GOOD})).await.refused(409)["pointer"],
            "/name"
        );
        accept(json!({"token": "guess", "password": GOOD})).await.refused(401);
        let session = cookie(&accept(json!({"token": token, "name": "Ada L", "password": GOOD})).await);
        let me = world.get(&session, "/api/v1/me").await.ok();
        assert_eq!((&me["name"], &me["roles"]), (&json!("Ada L"), &json!(["author"])));
        assert!(me["permissions"].as_array().unwrap().contains(&json!("crm.read")));
        accept(json!({"token": token, "name": "again", "password": GOOD})).await.refused(401);
        look(&token).await.refused(401);
        cookie(&world.enter("ada@example.com", GOOD).await);

        // Who is a member already is not made twice, and the invitation is not spent by the attempt.
        let twice = invite(&As::Owner, json!({"name": "ada2", "email": "ada@example.com"})).await.ok();
        let token = twice["url"].as_str().unwrap().split_once("/invite#").unwrap().1;
        accept(json!({"token": token, "password": GOOD})).await.refused(409);
        look(token).await.ok();
        let kept = world.entered().await;
        assert!(
            kept.iter().any(|kept| kept == "invitation.create") && kept.iter().any(|kept| kept == "invitation.accept")
        );
    })
    .await;
}

#[tokio::test]
async fn invitations_run_out_are_sent_again_and_revoked() {
    every_world(async |world| {
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "ada"})).await.ok();
        let id = sent["invitation"]["id"].as_str().unwrap().to_owned();
        let token_of = |sent: &Value| sent["url"].as_str().unwrap().split_once("/invite#").unwrap().1.to_owned();
        let look =
            async |token: &str| world.post(&As::Nobody, "/api/v1/session/invitation", json!({"token": token})).await;
        let state = async || world.get(&As::Owner, "/api/v1/invitations").await.ok()["items"][0]["state"].clone();
        let first = token_of(&sent);
        world.clock.advance(7 * 86_400);
        look(&first).await.refused(401);
        assert_eq!(state().await, "expired");
        let again = world.post(&As::Owner, &format!("/api/v1/invitations/{id}/resend"), json!({})).await.ok();
        let second = token_of(&again);
        look(&first).await.refused(401);
        look(&second).await.ok();
        let path = format!("/api/v1/invitations/{id}");
        // Another tenant sees nothing of it.
        world.tenant("other").await;
        let there = As::OwnerOf("other");
        assert_eq!(world.get(&there, "/api/v1/invitations").await.ok()["items"], json!([]));
        world.send(&there, "DELETE", &path, Value::Null).await.refused(404);
        assert_eq!(world.send(&As::Owner, "DELETE", &path, Value::Null).await.ok()["state"], "revoked");
        look(&second).await.refused(401);
        world.send(&As::Owner, "DELETE", &path, Value::Null).await.refused(409);
        world.post(&As::Owner, &format!("{path}/resend"), json!({})).await.refused(409);
        assert_eq!(state().await, "revoked");

        // Nobody hands out, sends on or takes back rights beyond their own.
        let admin = world.user("default", "deputy", &["admin"]).await;
        let body = json!({"name": "op", "roles": ["operator"]});
        assert_eq!(world.post(&admin, "/api/v1/invitations", body.clone()).await.refused(403)["pointer"], "/roles");
        let sent = world.post(&As::Owner, "/api/v1/invitations", body).await.ok();
        let path = format!("/api/v1/invitations/{}", sent["invitation"]["id"].as_str().unwrap());
        world.post(&admin, &format!("{path}/resend"), json!({})).await.refused(403);
        world.send(&admin, "DELETE", &path, Value::Null).await.refused(403);
        for wrong in [json!({"name": "s", "roles": ["service"]}), json!({"name": "p", "permissions": ["audit.read"]})] {
            world.post(&As::Owner, "/api/v1/invitations", wrong).await.refused(400);
        }
        let nowhere = json!({"name": "w", "workspaces": ["nowhere"]});
        world.post(&As::Owner, "/api/v1/invitations", nowhere).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn what_signs_in_is_not_sent_from_other_sites() {
    every_world(async |world| {
        world.person("ada", None, &["member"], GOOD).await;
        for path in [
            "/api/v1/session/password",
            "/api/v1/session/oidc",
            "/api/v1/session/reset",
            "/api/v1/session/reset/finish",
            "/api/v1/session/invitation/accept",
        ] {
            let body = match path.rsplit('/').next().unwrap() {
                "password" => json!({"user": "ada", "password": GOOD}),
                "oidc" => json!({}),
                "reset" => json!({"user": "ada"}),
                _ => json!({"token": "t", "password": GOOD}),
            };
            let request = |site: &str, kind: &str| {
                Request::post(path)
                    .header(header::HOST, "localhost")
                    .header(header::CONTENT_TYPE, kind)
                    .header("sec-fetch-site", site)
                    .body(Body::from(body.to_string()))
                    .unwrap()
            };
            let sent = async |request| answer(world.router().oneshot(request).await.unwrap()).await;
            sent(request("cross-site", "application/json")).await.refused(403);
            sent(request("same-origin", "text/plain")).await.refused(400);
        }
        assert_eq!(world.get(&As::Nobody, "/api/v1/session/ways").await.ok(), json!({"password": true}));
        world.post(&As::Nobody, "/api/v1/session/oidc", json!({})).await.refused(404);
    })
    .await;
}
