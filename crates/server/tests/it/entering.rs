//! Who is let in by whose word: invitations and who vouches for them, one address in several tenants, what guessing at
//! links costs, and names that others can read.

use std::net::IpAddr;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use toolgate_server::proxies::ClientAddress;
use tower::ServiceExt as _;

use crate::sign_in::cookie;
use crate::world::{Answer, As, World, answer, every_world};

const GOOD: &str = "a lamp in the hall";
const OTHER: &str = "a chair by the door";

/// Asked by nobody in particular, from somewhere on the network.
pub async fn post_from(router: Router, address: &str, path: &str, body: &Value) -> Answer {
    let address: IpAddr = address.parse().unwrap();
    let request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .extension(ClientAddress(address))
        .body(Body::from(body.to_string()))
        .unwrap();
    answer(router.oneshot(request).await.unwrap()).await
}

#[track_caller]
fn token_of(sent: &Value, before: &str) -> String {
    sent["url"].as_str().unwrap().split_once(before).unwrap().1.to_owned()
}

impl World {
    async fn look(&self, token: &str) -> Answer {
        self.post(&As::Nobody, "/api/v1/session/invitation", json!({"token": token})).await
    }

    async fn accept(&self, token: &str, name: &str) -> Answer {
        let body = json!({"token": token, "name": name, "password": GOOD});
        self.post(&As::Nobody, "/api/v1/session/invitation/accept", body).await
    }

    /// A member of a tenant with an address and, where one is given, a password.
    async fn member(&self, tenant: &'static str, email: &str, password: Option<&str>) {
        let owner = As::OwnerOf(tenant);
        let name = format!("ada of {tenant}");
        self.post(&owner, "/api/v1/users", json!({"name": name, "email": email, "roles": ["member"]})).await.ok();
        if let Some(password) = password {
            let path = format!("/api/v1/users/{}/reset", email.replace('@', "%40"));
            let token = token_of(&self.post(&owner, &path, json!({})).await.ok(), "/reset#");
            let body = json!({"token": token, "password": password});
            self.post(&As::Nobody, "/api/v1/session/reset/finish", body).await.ok();
        }
    }

    async fn enter_at(&self, tenant: Option<&str>, user: &str, password: &str) -> Answer {
        let body = json!({"user": user, "password": password, "tenant": tenant});
        self.post(&As::Nobody, "/api/v1/session/password", body).await
    }

    /// The tenant that somebody who was let in is in.
    async fn tenant_of(&self, answer: &Answer) -> Value {
        self.get(&cookie(answer), "/api/v1/me").await.ok()["tenant"].clone()
    }
}

/// Method, path, body of a name and a token, and which member is meant.
type Place = (&'static str, &'static str, fn(&str, &str) -> Value, &'static str);

#[tokio::test]
async fn an_invitation_is_good_while_whoever_sent_it_may_give_what_it_gives() {
    every_world(async |world| {
        let unknown = world.look("guess").await.refused(401);
        let deputy = world.user("default", "deputy", &["admin"]).await;
        let set = async |edit: Value| world.send(&As::Owner, "PATCH", "/api/v1/users/deputy", edit).await.ok();
        let body = json!({"name": "ada", "roles": ["author"]});
        let sent = world.post(&deputy, "/api/v1/invitations", body).await.ok();
        assert!(sent["invitation"].get("inviter").is_none(), "{sent:#}");
        let token = token_of(&sent, "/invite#");
        world.look(&token).await.ok();
        // With fewer rights than it gives, with these rights but without that of inviting, and not in force.
        for edit in [json!({"roles": ["member"]}), json!({"roles": ["author"]}), json!({"roles": []})] {
            set(edit.clone()).await;
            assert_eq!(world.look(&token).await.refused(401), unknown, "{edit}");
            assert_eq!(world.accept(&token, "ada").await.refused(401), unknown, "{edit}");
        }
        set(json!({"roles": ["admin"]})).await;
        world.look(&token).await.ok();
        set(json!({"disabled": true})).await;
        assert_eq!(world.look(&token).await.refused(401), unknown);
        assert_eq!(world.accept(&token, "ada").await.refused(401), unknown);
        // Whoever sends it again vouches for it from then on.
        let path = format!("/api/v1/invitations/{}/resend", sent["invitation"]["id"].as_str().unwrap());
        let again = world.post(&As::Owner, &path, json!({})).await.ok();
        assert_ne!(again["invitation"]["invited_by"], sent["invitation"]["invited_by"]);
        let token = token_of(&again, "/invite#");
        cookie(&world.accept(&token, "ada").await);
        // Spent, revoked, run out and never sent are one answer.
        assert_eq!(world.look(&token).await.refused(401), unknown);
        assert_eq!(world.accept(&token, "ben").await.refused(401), unknown);
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "ben"})).await.ok();
        let (revoked, id) = (token_of(&sent, "/invite#"), sent["invitation"]["id"].as_str().unwrap().to_owned());
        world.send(&As::Owner, "DELETE", &format!("/api/v1/invitations/{id}"), Value::Null).await.ok();
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "ben"})).await.ok();
        let late = token_of(&sent, "/invite#");
        world.clock.advance(7 * 86_400);
        for token in [revoked, late] {
            assert_eq!(world.look(&token).await.refused(401), unknown);
            assert_eq!(world.accept(&token, "ben").await.refused(401), unknown);
        }
    })
    .await;
}

#[tokio::test]
async fn an_address_in_several_tenants_opens_the_one_that_the_password_is_of() {
    every_world(async |world| {
        for tenant in ["alpha", "omega"] {
            world.tenant(tenant).await;
        }
        let address = "ada@example.com";
        // The oldest membership is elsewhere, and its administrator chose its password.
        world.member("alpha", address, Some(OTHER)).await;
        world.clock.advance(60);
        world.member("omega", address, Some(GOOD)).await;
        let enter = async |tenant: Option<&str>, password: &str| world.enter_at(tenant, address, password).await;
        assert_eq!(world.tenant_of(&enter(None, GOOD).await).await, "omega");
        assert_eq!(world.tenant_of(&enter(None, OTHER).await).await, "alpha");
        assert_eq!(world.tenant_of(&enter(Some("omega"), GOOD).await).await, "omega");
        enter(Some("alpha"), GOOD).await.refused(401);
        enter(Some("default"), GOOD).await.refused(401);
        enter(None, "another password").await.refused(401);
        // A membership without a password, or one that was stopped, is in nobody's way.
        world.member("default", address, None).await;
        assert_eq!(world.tenant_of(&enter(None, GOOD).await).await, "omega");
        world
            .send(&As::OwnerOf("alpha"), "PATCH", "/api/v1/users/ada%40example.com", json!({"disabled": true}))
            .await
            .ok();
        enter(None, OTHER).await.refused(401);
        assert_eq!(world.tenant_of(&enter(None, GOOD).await).await, "omega");
        // The same password in two: who has it is asked which.
        let path = "/api/v1/users/ada%40example.com/reset";
        let token = token_of(&world.post(&As::Owner, path, json!({})).await.ok(), "/reset#");
        let body = json!({"token": token, "password": GOOD});
        world.post(&As::Nobody, "/api/v1/session/reset/finish", body).await.ok();
        let asked = enter(None, GOOD).await.refused(409);
        assert_eq!(
            (&asked["pointer"], &asked["details"]),
            (&json!("/tenant"), &json!({"tenants": ["default", "omega"]}))
        );
        assert_eq!(world.tenant_of(&enter(Some("default"), GOOD).await).await, "default");
        assert_eq!(world.tenant_of(&enter(Some("omega"), GOOD).await).await, "omega");
        // A name is one of the tenant that is named, or of the first.
        world.enter_at(None, "ada of omega", GOOD).await.refused(401);
        assert_eq!(world.tenant_of(&world.enter_at(None, "ada of default", GOOD).await).await, "default");
        // In one tenant an address is one user's.
        let twice = json!({"name": "again", "email": address});
        assert_eq!(world.post(&As::Owner, "/api/v1/users", twice).await.refused(409)["pointer"], "/email");
    })
    .await;
}

#[tokio::test]
async fn guessing_at_invitations_costs_waiting_and_no_hashing() {
    every_world(async |world| {
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "ada"})).await.ok();
        let token = token_of(&sent, "/invite#");
        let accept = "/api/v1/session/invitation/accept";
        let body = |token: &str, name: &str| json!({"token": token, "name": name, "password": GOOD});
        let from = async |address: &str, path: &str, body: Value| post_from(world.router(), address, path, &body).await;
        for number in 0..25 {
            let path = if number % 2 == 0 { accept } else { "/api/v1/session/invitation" };
            let mut sent = body(&format!("guess{number}"), "ada");
            if path != accept {
                sent = json!({"token": sent["token"]});
            }
            from("203.0.113.9", path, sent).await.refused(401);
        }
        let early = from("203.0.113.9", accept, body(&token, "ada")).await;
        assert_eq!(early.headers["retry-after"], "1");
        early.refused(429);
        from("203.0.113.9", "/api/v1/session/invitation", json!({"token": token})).await.refused(429);
        // Whoever has a link asks whose names there are a few times only, and looking at it changes nothing about that.
        for _ in 0..5 {
            from("203.0.113.10", accept, body(&token, "admin")).await.refused(409);
            from("203.0.113.10", "/api/v1/session/invitation", json!({"token": token})).await.ok();
        }
        from("203.0.113.11", accept, body(&token, "admin")).await.refused(429);
        world.clock.advance(1);
        cookie(&from("203.0.113.11", accept, body(&token, "ada")).await);
    })
    .await;
}

#[tokio::test]
async fn a_name_that_others_could_not_read_is_refused_wherever_one_is_taken() {
    every_world(async |world| {
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "ada"})).await.ok();
        let token = token_of(&sent, "/invite#");
        let places: &[Place] = &[
            ("POST", "/api/v1/users", |name, _| json!({"name": name}), "/name"),
            ("POST", "/api/v1/invitations", |name, _| json!({"name": name}), "/name"),
            ("POST", "/api/v1/keys", |name, _| json!({"name": name}), "/name"),
            ("POST", "/api/v1/workspaces", |name, _| json!({"slug": "w", "name": name}), "/name"),
            ("POST", "/api/v1/tenants", |name, _| json!({"slug": "t", "name": name}), "/name"),
            ("POST", "/api/v1/agents", |name, _| json!({"name": "a", "title": name}), "/title"),
            (
                "POST",
                "/api/v1/session/invitation/accept",
                |name, token| json!({"token": token, "name": name, "password": GOOD}),
                "/name",
            ),
            ("POST", "/api/v1/runs", |name, _| json!({"title": name}), "/title"),
            (
                "PUT",
                "/api/v1/kill-switches",
                |name, _| json!({"scope": "tenant", "on": true, "reason": name}),
                "/reason",
            ),
            (
                "POST",
                "/api/v1/egress/openings",
                |name, _| json!({"host": "h.example.com", "port": 443, "reason": name}),
                "/reason",
            ),
        ];
        for name in ["admin\u{202e}", "ad\u{200b}min", "a\u{0}b", "a\u{1b}[2J", "boss\u{e0041}", "\u{2066}boss\u{2069}"]
        {
            for (method, path, body, pointer) in places {
                // Each try of an invitation counts.
                world.clock.advance(60);
                let refused = world.send(&As::Owner, method, path, body(name, &token)).await.refused(400);
                assert_eq!(refused["pointer"], *pointer, "{path} {name:?}");
            }
        }
        // Names are of one line and of plain spaces, too.
        for name in ["a\u{a0}b", "a\nb", " a", "a\u{3000}b"] {
            world.post(&As::Owner, "/api/v1/users", json!({"name": name})).await.refused(400);
        }
        world.post(&As::Owner, "/api/v1/users", json!({"name": "Zoë de la Cruz 日本"})).await.ok();
    })
    .await;
}
