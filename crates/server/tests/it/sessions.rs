//! What a browser's session is bound to: the page that began it, somebody being there, one browser, one tenant.

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use toolgate_server::{BACKGROUND_HEADER, PRINCIPAL_HEADER, TENANT_HEADER};
use tower::ServiceExt as _;

use crate::sign_in::cookie;
use crate::world::{Answer, As, World, answer, every_world};

type Headers<'a> = &'a [(&'a str, &'a str)];

const GOOD: &str = "a lamp in the hall";
const OTHER: &str = "a chair by the door";

impl World {
    /// A link's token, made by the owner of the tenant.
    async fn link_token(&self, tenant: &'static str, name: &str) -> String {
        let path = format!("/api/v1/users/{name}/sign-in-link");
        let link = self.post(&As::OwnerOf(tenant), &path, json!({})).await.ok();
        link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned()
    }

    /// A request of a browser with a cookie and some headers.
    async fn browse(&self, who: &As, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let As::Cookie(cookie) = who else { panic!("{who:?} is no browser") };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header(header::COOKIE, cookie)
            .header("sec-fetch-site", "same-origin")
            .header(header::CONTENT_TYPE, "application/json")
            .body(if body.is_null() { Body::empty() } else { Body::from(body.to_string()) })
            .unwrap();
        answer(self.router().oneshot(request).await.unwrap()).await
    }
}

#[tokio::test]
async fn a_link_shows_whom_it_signs_in_and_only_signing_in_spends_it() {
    every_world(async |world| {
        world.post(&As::Owner, "/api/v1/users", json!({"name": "ada", "roles": ["member"]})).await.ok();
        let token = world.link_token("default", "ada").await;
        let show = async |token: &str| world.post(&As::Nobody, "/api/v1/session/link", json!({"token": token})).await;
        let enter = async |token: &str| world.post(&As::Nobody, "/api/v1/sign-in", json!({"token": token})).await;
        for _ in 0..3 {
            let shown = show(&token).await;
            assert!(!shown.headers.contains_key(header::SET_COOKIE));
            let shown = shown.ok();
            assert_eq!((&shown["name"], &shown["tenant"]["slug"]), (&json!("ada"), &json!("default")));
        }
        cookie(&enter(&token).await);
        let spent = enter(&token).await.refused(401);
        assert_eq!(show(&token).await.refused(401), spent);
        assert_eq!(show("a guess").await.refused(401), spent);
        let late = world.link_token("default", "ada").await;
        world.clock.advance(601);
        assert_eq!(show(&late).await.refused(401), spent);
    })
    .await;
}

#[tokio::test]
async fn before_the_sign_in_only_our_own_pages_and_what_is_no_browser_are_heard() {
    every_world(async |world| {
        let routes = [
            ("/api/v1/sign-in", json!({"token": "t"})),
            ("/api/v1/session/link", json!({"token": "t"})),
            ("/api/v1/session/password", json!({"user": "ada", "password": GOOD})),
            ("/api/v1/session/oidc", json!({})),
            ("/api/v1/session/reset", json!({"user": "ada"})),
            ("/api/v1/session/reset/finish", json!({"token": "t", "password": GOOD})),
            ("/api/v1/session/invitation", json!({"token": "t"})),
            ("/api/v1/session/invitation/accept", json!({"token": "t", "password": GOOD})),
        ];
        let cases: [(&[(&str, &str)], bool); 11] = [
            (&[], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://localhost")], true),
            (&[("origin", "http://localhost:81")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://localhost")], false),
        ];
        for (path, body) in &routes {
            for (headers, heard) in cases {
                let mut request = Request::post(*path).header(header::HOST, "localhost");
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                let request = request.header(header::CONTENT_TYPE, "application/json");
                let request = request.body(Body::from(body.to_string())).unwrap();
                let answered = answer(world.router().oneshot(request).await.unwrap()).await;
                let elsewhere = answered.status == 403 && answered.body["detail"].to_string().contains("another site");
                assert_eq!(!elsewhere, heard, "{path} {headers:?}: {} {:#}", answered.status, answered.body);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn only_what_somebody_does_keeps_a_session_from_idling_out() {
    every_world(async |world| {
        world.person("ada", None, &["admin"], GOOD).await;
        let enter = async || {
            cookie(&world.post(&As::Nobody, "/api/v1/session/password", json!({"user": "ada", "password": GOOD})).await)
        };
        let by_itself = [(BACKGROUND_HEADER, "1")];
        #[rustfmt::skip]
        let cases: [(&str, &str, Headers<'_>, bool); 5] = [
            ("GET", "/api/v1/me", &[], true),
            ("GET", "/api/v1/me", &by_itself, false),
            ("GET", "/api/v1/session", &by_itself, false),
            ("GET", "/api/v1/session", &[], true),
            // Nobody changes anything without being there.
            ("POST", "/api/v1/lint", &by_itself, true),
        ];
        for (method, path, headers, keeps) in cases {
            let session = enter().await;
            for _ in 0..2 {
                world.clock.advance(14 * 60);
                let body = if method == "POST" { json!({"definition": {}}) } else { Value::Null };
                let answered = world.browse(&session, method, path, headers, body).await;
                assert_ne!(answered.status, 401, "{method} {path}");
            }
            world.clock.advance(3 * 60);
            let status = world.get(&session, "/api/v1/me").await.status;
            assert_eq!(status, if keeps { 200 } else { 401 }, "{method} {path} {headers:?}");
        }
        // What is told about the end is when it comes.
        let session = enter().await;
        let ends = async |headers: &[(&str, &str)]| {
            world.browse(&session, "GET", "/api/v1/session", headers, Value::Null).await.ok()["session"]["idle_ends_at"]
                .clone()
        };
        let first = ends(&[]).await;
        world.clock.advance(600);
        assert_eq!(ends(&by_itself).await, first);
        assert_ne!(ends(&[]).await, first);
    })
    .await;
}

#[tokio::test]
async fn a_stream_keeps_no_session_and_says_when_it_ended() {
    every_world(async |world| {
        world.person("ada", None, &["admin"], GOOD).await;
        let body = json!({"user": "ada", "password": GOOD});
        let session = cookie(&world.post(&As::Nobody, "/api/v1/session/password", body).await);
        let As::Cookie(kept) = &session else { panic!() };
        world.clock.advance(20 * 60);
        let request = Request::get("/api/v1/events")
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, "text/event-stream")
            .header(header::COOKIE, kept)
            .body(Body::empty())
            .unwrap();
        let response = world.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        world.clock.advance(10 * 60 + 1);
        let mut told = String::new();
        let mut chunks = response.into_body().into_data_stream();
        // It ends by itself.
        while let Some(chunk) = chunks.next().await {
            told.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        assert!(told.ends_with("event: session_ended\ndata: {}\n\n"), "{told}");
        world.get(&session, "/api/v1/me").await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn a_browser_has_one_session_whatever_tenant_the_one_before_was_in() {
    every_world(async |world| {
        world.tenant("other").await;
        world.person("ada", None, &["member"], GOOD).await;
        world.post(&As::OwnerOf("other"), "/api/v1/users", json!({"name": "ben", "roles": ["member"]})).await.ok();
        let password = json!({"user": "ada", "password": GOOD});
        let elsewhere = cookie(&world.post(&As::Nobody, "/api/v1/session/password", password.clone()).await);
        let first = cookie(&world.post(&As::Nobody, "/api/v1/session/password", password.clone()).await);
        // A wrong password ends nothing.
        let wrong = json!({"user": "ada", "password": OTHER});
        world.post(&first, "/api/v1/session/password", wrong).await.refused(401);
        world.get(&first, "/api/v1/me").await.ok();
        let second = cookie(&world.post(&first, "/api/v1/session/password", password.clone()).await);
        world.get(&first, "/api/v1/me").await.refused(401);
        let token = world.link_token("other", "ben").await;
        let third = cookie(&world.post(&second, "/api/v1/sign-in", json!({"token": token})).await);
        world.get(&second, "/api/v1/me").await.refused(401);
        assert_eq!(world.get(&third, "/api/v1/me").await.ok()["tenant"], "other");
        let sent = world.post(&As::Owner, "/api/v1/invitations", json!({"name": "cy", "roles": ["member"]})).await.ok();
        let token = sent["url"].as_str().unwrap().split_once("/invite#").unwrap().1.to_owned();
        let body = json!({"token": token, "password": GOOD});
        let fourth = cookie(&world.post(&third, "/api/v1/session/invitation/accept", body).await);
        world.get(&third, "/api/v1/me").await.refused(401);
        world.get(&fourth, "/api/v1/me").await.ok();
        // Another browser's is its own.
        world.get(&elsewhere, "/api/v1/me").await.ok();
        for (tenant, user) in [("default", "ada"), ("other", "ben")] {
            let left = world.get(&As::OwnerOf(tenant), &format!("/api/v1/users/{user}/sessions")).await.ok();
            assert_eq!(left["items"].as_array().unwrap().len(), usize::from(user == "ada"), "{user}");
            let tenant = world.app.registry.snapshot().tenant_by_slug(tenant).unwrap().tenant.id;
            let entries = world.app.store.audit_entries(tenant, 200).await.unwrap();
            let ended = entries.iter().filter(|entry| entry["action"] == "user.sign_out");
            assert_eq!(ended.count(), if user == "ada" { 2 } else { 1 }, "{user}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_of_one_tenant_does_nothing_in_another() {
    every_world(async |world| {
        world.tenant("other").await;
        world.person("ada", None, &["admin"], GOOD).await;
        let body = json!({"user": "ada", "password": GOOD});
        let session = cookie(&world.post(&As::Nobody, "/api/v1/session/password", body).await);
        let agents = async || world.get(&session, "/api/v1/users").await.ok()["items"].as_array().unwrap().len();
        let before = agents().await;
        let make = json!({"name": "ben", "roles": ["member"]});
        for tenant in ["other", "nowhere", "DEFAULT"] {
            for (method, path, body) in [("POST", "/api/v1/users", make.clone()), ("GET", "/api/v1/users", Value::Null)]
            {
                let refused = world.browse(&session, method, path, &[(TENANT_HEADER, tenant)], body).await.refused(409);
                assert_eq!(refused["detail"], "you switched to `default` in another tab");
            }
        }
        // Nor as somebody who signed in since.
        let me = world.get(&session, "/api/v1/me").await.ok()["principal"].as_str().unwrap().to_owned();
        let other = [(PRINCIPAL_HEADER, "user:00000000-0000-7000-8000-000000000001")];
        world.browse(&session, "POST", "/api/v1/users", &other, make.clone()).await.refused(409);
        world.browse(&session, "GET", "/api/v1/me", &[(PRINCIPAL_HEADER, &me)], Value::Null).await.ok();
        assert_eq!(agents().await, before);
        // Who is signed in is told whatever the page thinks.
        let shown = world.browse(&session, "GET", "/api/v1/session", &[(TENANT_HEADER, "other")], Value::Null).await;
        assert_eq!(shown.ok()["me"]["tenant"], "default");
        world.browse(&session, "POST", "/api/v1/users", &[(TENANT_HEADER, "default")], make).await.ok();
        // A key has no tabs: it is told what it was told before.
        let key = world.user("default", "kim", &["admin"]).await;
        let As::Key(key) = key else { panic!() };
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        headers.insert(TENANT_HEADER, "other".parse().unwrap());
        let mut request = Request::get("/api/v1/me").header(header::HOST, "localhost").body(Body::empty()).unwrap();
        request.headers_mut().extend(headers);
        answer(world.router().oneshot(request).await.unwrap()).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn every_spelling_of_a_name_is_one_person_counted_once() {
    every_world(async |world| {
        world.person("Zoe", Some(" Zoe@Example.com "), &["member"], GOOD).await;
        let enter = async |user: &str, password: &str| {
            world.post(&As::Nobody, "/api/v1/session/password", json!({"user": user, "password": password})).await
        };
        let names = ["Zoe", " zoe ", "ZOE", "\u{ff3a}oe", "\u{a0}Zoe\t"];
        let addresses =
            ["zoe@example.com", " Zoe@Example.com", "ZOE\u{ff20}EXAMPLE.COM", "zoe@example.com\n", "zoe@EXAMPLE.com"];
        for spellings in [names, addresses] {
            for spelling in spellings {
                cookie(&enter(spelling, GOOD).await);
            }
            for spelling in spellings {
                enter(spelling, OTHER).await.refused(401);
            }
            for spelling in spellings {
                enter(spelling, GOOD).await.refused(429);
            }
            world.clock.advance(3601);
        }
        // The tenant that is meant anyway is no other count.
        for tenant in [None, Some("default"), None, Some("default"), None] {
            let body = json!({"user": "zoe", "password": OTHER, "tenant": tenant});
            world.post(&As::Nobody, "/api/v1/session/password", body).await.refused(401);
        }
        enter("zoe", GOOD).await.refused(429);
        // Nobody gets a name that reads like another's.
        for name in ["ZOE", "\u{ff3a}oe"] {
            world.post(&As::Owner, "/api/v1/users", json!({"name": name})).await.refused(409);
        }
        assert_eq!(world.get(&As::Owner, "/api/v1/users/ZOE").await.ok()["name"], "Zoe");
    })
    .await;
}

#[tokio::test]
async fn being_right_in_one_tenant_forgives_no_guess_at_another() {
    every_world(async |world| {
        world.tenant("other").await;
        world.person("ada", Some("ada@example.com"), &["member"], GOOD).await;
        // Whoever manages the other tenant takes her address and a password of their own.
        let theirs = As::OwnerOf("other");
        world.post(&theirs, "/api/v1/users", json!({"name": "eve", "email": "ada@example.com"})).await.ok();
        let link = world.post(&theirs, "/api/v1/users/eve/reset", json!({})).await.ok();
        let token = link["url"].as_str().unwrap().split_once("/reset#").unwrap().1.to_owned();
        let finish = json!({"token": token, "password": OTHER});
        world.post(&As::Nobody, "/api/v1/session/reset/finish", finish).await;
        let enter = async |password: &str| {
            let body = json!({"user": "ada@example.com", "password": password});
            world.post(&As::Nobody, "/api/v1/session/password", body).await.status
        };
        let mut told = Vec::new();
        for round in 0..8 {
            for guess in 0..3 {
                told.push(enter(&format!("is it this one {round} {guess}")).await);
            }
            told.push(enter(OTHER).await);
        }
        assert!(told.contains(&429), "{told:?}");
    })
    .await;
}
