//! Signing in with a provider of identities: a small real one on loopback, and what a hostile one or a hostile browser
//! may try.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use toolgate_contracts::{Clock, Digest, Id, Principal, Rng, Timestamp};
use toolgate_server::proxies::ClientAddress;
use toolgate_server::{App, Config};
use toolgate_store::Change;
use toolgate_store::invitations::{Invitation, InvitationState};
use toolgate_store::sign_in::LinkPurpose;
use toolgate_store::testing::every_migrated;
use tower::ServiceExt as _;

use crate::entering::post_from;
use crate::world::{Answer, As, CODE, answer, send};

const CLIENT: &str = "toolgate at example";
const SECRET: &str = "s3cret/with+odd chars";
const PUBLIC: &str = "http://localhost:8787";

/// How the provider lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Nothing,
    Nonce,
    Issuer,
    Audience,
    Party,
    Unsigned,
    SharedKey,
    ForeignKey,
    UnknownKey,
    Late,
    Early,
    NoSubject,
}

struct Granted {
    challenge: String,
    nonce: String,
    claims: Value,
}

struct Inner {
    clock: Clock,
    issuer: Mutex<String>,
    lie: Mutex<Lie>,
    key: Mutex<(String, Arc<EcdsaKeyPair>)>,
    codes: Mutex<HashMap<String, Granted>>,
    /// Whether its answers name it.
    names_itself: Mutex<bool>,
}

#[derive(Clone)]
struct Provider(Arc<Inner>);

fn new_key() -> Arc<EcdsaKeyPair> {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    Arc::new(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap())
}

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

impl Provider {
    async fn start(clock: Clock) -> (Self, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let provider = Self(Arc::new(Inner {
            clock,
            issuer: Mutex::new(issuer),
            lie: Mutex::new(Lie::Nothing),
            key: Mutex::new(("first".to_owned(), new_key())),
            codes: Mutex::default(),
            names_itself: Mutex::new(true),
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/jwks", get(jwks))
            .route("/token", post(token))
            .with_state(provider.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (provider, task)
    }

    fn issuer(&self) -> String {
        self.0.issuer.lock().unwrap().clone()
    }

    fn port(&self) -> u16 {
        self.issuer().rsplit(':').next().unwrap().parse().unwrap()
    }

    fn lies(&self, lie: Lie) {
        *self.0.lie.lock().unwrap() = lie;
    }

    /// What the person does at the provider: the code that the browser comes back with.
    fn authorize(&self, url: &str, claims: &Value) -> (String, String) {
        let (at, query) = url.split_once('?').unwrap();
        assert_eq!(at, format!("{}/authorize", self.issuer()));
        let asked: HashMap<String, String> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| {
                let value = value.replace('+', " ");
                (name.to_owned(), percent_encoding::percent_decode_str(&value).decode_utf8().unwrap().into_owned())
            })
            .collect();
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["client_id"], CLIENT);
        assert_eq!(asked["redirect_uri"], format!("{PUBLIC}/oidc/callback"));
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"));
        let mut codes = self.0.codes.lock().unwrap();
        let code = format!("code{}", codes.len());
        let mut claims = claims.clone();
        if asked.contains_key("max_age") && claims.get("auth_time").is_none() {
            claims["auth_time"] = json!(self.seconds());
        }
        let granted = Granted { challenge: asked["code_challenge"].clone(), nonce: asked["nonce"].clone(), claims };
        codes.insert(code.clone(), granted);
        (code, asked["state"].clone())
    }

    fn seconds(&self) -> i64 {
        self.0.clock.now().millis() / 1000
    }

    fn id_token(&self, granted: &Granted) -> String {
        let lie = *self.0.lie.lock().unwrap();
        let now = self.seconds();
        let mut claims = json!({
            "iss": self.issuer(), "aud": CLIENT, "sub": "subject-1", "nonce": granted.nonce, "iat": now, "exp": now + 300,
        });
        claims.as_object_mut().unwrap().extend(granted.claims.as_object().unwrap().clone());
        match lie {
            Lie::Nonce => claims["nonce"] = json!("another"),
            Lie::Issuer => claims["iss"] = json!("https://evil.example"),
            Lie::Audience => claims["aud"] = json!(["somebody else"]),
            Lie::Party => claims["aud"] = json!([CLIENT, "somebody else"]),
            Lie::Late => claims["exp"] = json!(now - 61),
            Lie::Early => claims["iat"] = json!(now + 600),
            Lie::NoSubject => claims["sub"] = json!(""),
            _ => {}
        }
        let (kid, key) = self.0.key.lock().unwrap().clone();
        let (alg, kid) = match lie {
            Lie::Unsigned => ("none", kid),
            Lie::SharedKey => ("HS256", kid),
            Lie::UnknownKey => ("ES256", "unknown".to_owned()),
            _ => ("ES256", kid),
        };
        let signed = format!("{}.{}", part(&json!({"alg": alg, "kid": kid, "typ": "JWT"})), part(&claims));
        let signature = match lie {
            Lie::Unsigned => Vec::new(),
            Lie::SharedKey => {
                let shared = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.public_key().as_ref());
                ring::hmac::sign(&shared, signed.as_bytes()).as_ref().to_vec()
            }
            Lie::ForeignKey => new_key().sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
            _ => key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

async fn discovery(State(provider): State<Provider>) -> Json<Value> {
    let issuer = provider.issuer();
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "authorization_response_iss_parameter_supported": *provider.0.names_itself.lock().unwrap(),
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

async fn jwks(State(provider): State<Provider>) -> Json<Value> {
    let (kid, key) = provider.0.key.lock().unwrap().clone();
    let point = key.public_key().as_ref()[1..].to_vec();
    let (x, y) = point.split_at(32);
    Json(json!({"keys": [
        {"kty": "oct", "k": "AAAA", "kid": kid},
        {"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256",
            "x": BASE64URL_NOPAD.encode(x), "y": BASE64URL_NOPAD.encode(y)},
    ]}))
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: Bytes) -> Response {
    let encoded =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let basic = BASE64.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)).as_bytes());
    assert_eq!(headers[header::AUTHORIZATION], format!("Basic {basic}"));
    let text = String::from_utf8(body.to_vec()).unwrap();
    let form: HashMap<String, String> = text
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| {
            (name.to_owned(), percent_encoding::percent_decode_str(value).decode_utf8().unwrap().into_owned())
        })
        .collect();
    assert_eq!(form["grant_type"], "authorization_code");
    assert_eq!(form["redirect_uri"], format!("{PUBLIC}/oidc/callback"));
    let refused = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response();
    // Once: a code that comes back is refused.
    let Some(granted) = provider.0.codes.lock().unwrap().remove(&form["code"]) else { return refused("invalid_grant") };
    let challenge = BASE64URL_NOPAD.encode(Digest::of(form["code_verifier"].as_bytes()).as_bytes());
    if challenge != granted.challenge {
        return refused("invalid_grant");
    }
    Json(json!({"access_token": "unused", "token_type": "Bearer", "id_token": provider.id_token(&granted)}))
        .into_response()
}

/// An application that people come into by the provider.
struct Scene {
    app: App,
    clock: Clock,
    provider: Provider,
    task: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn every_scene(settings: &[(&'static str, &str)], test: impl AsyncFn(&Scene)) {
    every_migrated(async |database| {
        let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
        let (provider, task) = Provider::start(clock.clone()).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("oidc.secret"), format!("{SECRET}\n")).unwrap();
        let mut flags = vec![
            ("database", database.url.clone()),
            ("public_url", PUBLIC.to_owned()),
            ("oidc_issuer", provider.issuer()),
            ("oidc_client_id", CLIENT.to_owned()),
            ("oidc_client_secret_file", "oidc.secret".to_owned()),
            ("oidc_roles", "staff=member, deciders=approver, chiefs=admin".to_owned()),
            ("oidc_label", "Sign in with Example".to_owned()),
        ];
        flags.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let config = Config::load(None, std::iter::empty(), &flags).unwrap();
        let app = App::open(config, folder.path(), CODE, clock.clone(), Rng::seeded(5)).await;
        let app = app.map_err(|fault| format!("{fault:?}")).unwrap();
        let scene = Scene { app, clock, provider, task, _folder: folder };
        let opening =
            json!({"host": "127.0.0.1", "port": scene.provider.port(), "scheme": "http", "reason": "the provider"});
        scene.send(&As::Owner, "POST", "/api/v1/egress/openings", opening).await.ok();
        test(&scene).await;
    })
    .await;
}

/// What a browser keeps, by name.
#[derive(Clone, Default)]
struct Browser(HashMap<String, String>);

impl Browser {
    fn keep(&mut self, answer: &Answer) {
        for set in answer.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().unwrap();
            assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            if set.contains("Max-Age=0") {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn cookie(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    fn caller(&self) -> As {
        As::Cookie(self.cookie())
    }
}

impl Scene {
    async fn send(&self, who: &As, method: &str, path: &str, body: Value) -> Answer {
        send(self.app.router(), who, method, path, body).await
    }

    async fn begin(&self, browser: &mut Browser, body: Value) -> String {
        let who = browser.caller();
        let begun = self.send(&who, "POST", "/api/v1/session/oidc", body).await;
        browser.keep(&begun);
        begun.ok()["url"].as_str().unwrap().to_owned()
    }

    /// The browser comes back; where it is sent on.
    async fn returns(&self, browser: &mut Browser, query: &str) -> String {
        self.returned(browser, query, Request::builder()).await
    }

    async fn returns_from(&self, browser: &mut Browser, address: &str, query: &str) -> String {
        let address: std::net::IpAddr = address.parse().unwrap();
        self.returned(browser, query, Request::builder().extension(ClientAddress(address))).await
    }

    async fn returned(&self, browser: &mut Browser, query: &str, request: axum::http::request::Builder) -> String {
        let request = request
            .uri(format!("/oidc/callback?{query}"))
            .header(header::HOST, "localhost")
            .header(header::COOKIE, browser.cookie())
            .header("sec-fetch-site", "cross-site")
            .body(Body::empty())
            .unwrap();
        let answer = answer(self.app.router().oneshot(request).await.unwrap()).await;
        assert_eq!(answer.status, 303);
        browser.keep(&answer);
        answer.headers[header::LOCATION].to_str().unwrap().to_owned()
    }

    fn iss(&self) -> String {
        self.provider.issuer().replace(':', "%3A").replace('/', "%2F")
    }

    /// A whole sign-in; where the browser ends up.
    async fn sign_in(&self, browser: &mut Browser, claims: Value) -> String {
        // Entries of the log are told apart by time.
        self.clock.advance(1);
        let url = self.begin(browser, json!({})).await;
        let (code, state) = self.provider.authorize(&url, &claims);
        self.returns(browser, &format!("code={code}&state={state}&iss={}", self.iss())).await
    }

    /// A link to set somebody's password and an invitation, as they were made while there were passwords.
    async fn links_of_before(&self, user: &str) -> (&'static str, &'static str) {
        let (store, now) = (&self.app.store, self.clock.now());
        let tenant = self.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let mut change = Change::new(tenant);
        let until = now.plus_seconds(600);
        change.insert_link(
            LinkPurpose::Reset,
            Digest::of(b"toolgate/token/1\0reset"),
            user.parse().unwrap(),
            now,
            until,
        );
        let invitation = Invitation {
            id: Id::new(&self.clock, &Rng::seeded(9)),
            name: "ben".to_owned(),
            email: None,
            roles: vec![],
            permissions: toolgate_contracts::Permissions::default(),
            workspaces: vec![],
            invited_by: "admin".to_owned(),
            mailed: false,
            created_at: now,
            expires_at: until,
            state: InvitationState::Open,
        };
        change.insert_invitation(&invitation, Principal::Local(1000), Digest::of(b"toolgate/token/1\0invited"));
        store.commit(change).await.unwrap();
        ("reset", "invited")
    }

    async fn me(&self, browser: &Browser) -> Value {
        self.send(&browser.caller(), "GET", "/api/v1/me", Value::Null).await.ok()
    }
}

#[tokio::test]
async fn somebody_new_comes_in_with_the_roles_of_their_groups_and_these_are_followed() {
    every_scene(&[], async |scene| {
        let ways = scene.send(&As::Nobody, "GET", "/api/v1/session/ways", Value::Null).await.ok();
        assert_eq!(ways, json!({"password": true, "oidc": {"label": "Sign in with Example"}}));
        let mut browser = Browser::default();
        let person = |groups: Value| {
            json!({"preferred_username": "ada@corp.example", "email": "Ada@corp.example", "email_verified": true, "groups": groups})
        };
        assert_eq!(scene.sign_in(&mut browser, person(json!(["staff", "others"]))).await, "/");
        let me = scene.me(&browser).await;
        assert_eq!((&me["name"], &me["roles"], &me["tenant"]), (&json!("ada"), &json!(["member"]), &json!("default")));
        let shown = scene.send(&browser.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
        assert_eq!((&shown["session"]["how"], &shown["session"]["step_up_by"]), (&json!("oidc"), &json!(["oidc"])));
        let user = scene.send(&As::Owner, "GET", "/api/v1/users/ada", Value::Null).await.ok();
        assert_eq!((&user["email"], &user["workspaces"]), (&json!("ada@corp.example"), &json!(["main"])));

        // The same person, with other groups and another name.
        let mut again = Browser::default();
        let mut claims = person(json!(["staff", "deciders"]));
        claims["preferred_username"] = json!("lovelace");
        assert_eq!(scene.sign_in(&mut again, claims).await, "/");
        let now = scene.me(&again).await;
        assert_eq!((&now["principal"], &now["roles"]), (&me["principal"], &json!(["approver", "member"])));
        assert_eq!(scene.me(&browser).await["roles"], now["roles"], "also in what was begun before");

        // Out of all groups: nothing is left, here or there.
        let mut out = Browser::default();
        assert_eq!(scene.sign_in(&mut out, person(json!(["others"]))).await, "/sign-in?failed=no_role");
        scene.send(&browser.caller(), "GET", "/api/v1/me", Value::Null).await.refused(401);
        let user = scene.send(&As::Owner, "GET", "/api/v1/users/ada", Value::Null).await.ok();
        assert_eq!(user["roles"], json!([]));

        // Somebody who was stopped here stays out.
        scene.send(&As::Owner, "PATCH", "/api/v1/users/ada", json!({"disabled": true})).await.ok();
        assert_eq!(scene.sign_in(&mut out, person(json!(["staff"]))).await, "/sign-in?failed=disabled");
        let tenant = scene.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let entries = scene.app.store.audit_entries(tenant, 100).await.unwrap();
        let mut actions: Vec<_> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
        actions.retain(|action| action.starts_with("user."));
        actions.sort_unstable();
        // What the provider changed twice, and what was done here.
        assert_eq!(
            actions,
            ["user.create", "user.sign_in", "user.sign_in", "user.update", "user.update", "user.update"]
        );
    })
    .await;
}

#[tokio::test]
async fn an_address_makes_nobody_somebody_else() {
    every_scene(&[("oidc_default_role", "viewer")], async |scene| {
        let local = json!({"name": "boss", "email": "boss@corp.example", "roles": ["admin"]});
        let boss = scene.send(&As::Owner, "POST", "/api/v1/users", local).await.ok();
        let mut browser = Browser::default();
        let claims = json!({"sub": "other", "preferred_username": "boss", "name": "boss", "email": "boss@corp.example", "email_verified": true});
        assert_eq!(scene.sign_in(&mut browser, claims).await, "/");
        let me = scene.me(&browser).await;
        assert_eq!((&me["name"], &me["roles"]), (&json!("boss-2"), &json!(["viewer"])));
        let made = scene.send(&As::Owner, "GET", "/api/v1/users/boss-2", Value::Null).await.ok();
        assert!(made["email"].is_null() && made["id"] != boss["id"], "{made:#}");
        let found = scene.send(&As::Owner, "GET", "/api/v1/users/boss@corp.example", Value::Null).await.ok();
        assert_eq!(found["id"], boss["id"]);
        // An address that the provider does not vouch for is not kept at all.
        let mut other = Browser::default();
        let claims = json!({"sub": "third", "name": "third", "email": "new@corp.example", "email_verified": false});
        assert_eq!(scene.sign_in(&mut other, claims).await, "/");
        scene.send(&As::Owner, "GET", "/api/v1/users/new@corp.example", Value::Null).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_not_the_providers_answer_to_us_lets_nobody_in() {
    every_scene(&[], async |scene| {
        let claims = json!({"groups": ["chiefs"]});
        for lie in [
            Lie::Nonce,
            Lie::Issuer,
            Lie::Audience,
            Lie::Party,
            Lie::Unsigned,
            Lie::SharedKey,
            Lie::ForeignKey,
            Lie::UnknownKey,
            Lie::Late,
            Lie::Early,
            Lie::NoSubject,
        ] {
            scene.provider.lies(lie);
            let mut browser = Browser::default();
            let to = scene.sign_in(&mut browser, claims.clone()).await;
            assert_eq!((to.as_str(), browser.0.len()), ("/sign-in?failed=provider", 0), "{lie:?}");
        }
        let users = scene.send(&As::Owner, "GET", "/api/v1/users", Value::Null).await.ok();
        assert_eq!(users["items"].as_array().unwrap().len(), 1, "nobody was made: {users:#}");
        scene.provider.lies(Lie::Nothing);
        let mut browser = Browser::default();
        assert_eq!(scene.sign_in(&mut browser, claims.clone()).await, "/");
        // The provider changes its key: it is looked for, once a minute at most.
        *scene.provider.0.key.lock().unwrap() = ("second".to_owned(), new_key());
        scene.clock.advance(61);
        assert_eq!(scene.sign_in(&mut Browser::default(), claims.clone()).await, "/");
        *scene.provider.0.key.lock().unwrap() = ("third".to_owned(), new_key());
        assert_eq!(scene.sign_in(&mut Browser::default(), claims).await, "/sign-in?failed=provider");
    })
    .await;
}

#[tokio::test]
async fn an_answer_counts_once_in_the_browser_that_asked_and_from_the_provider_that_was_asked() {
    every_scene(&[], async |scene| {
        let claims = json!({"groups": ["staff"]});
        let iss = scene.iss();
        let begin = async |browser: &mut Browser| {
            let url = scene.begin(browser, json!({"return_to": "/approvals?x=1"})).await;
            scene.provider.authorize(&url, &claims)
        };
        // Another browser, with nothing or with a sign-in of its own under way.
        let mut asked = Browser::default();
        let (code, state) = begin(&mut asked).await;
        let query = format!("code={code}&state={state}&iss={iss}");
        let mut other = Browser::default();
        assert_eq!(scene.returns(&mut other, &query).await, "/sign-in?failed=expired");
        begin(&mut other).await;
        assert_eq!(scene.returns(&mut other, &query).await, "/sign-in?failed=expired");
        // Somebody else's code in this browser's sign-in: the verifier does not fit it.
        let mut victim = Browser::default();
        let (_, own_state) = begin(&mut victim).await;
        let (their_code, _) = begin(&mut Browser::default()).await;
        let mixed = format!("code={their_code}&state={own_state}&iss={iss}");
        assert_eq!(scene.returns(&mut victim, &mixed).await, "/sign-in?failed=provider");
        // Another issuer, or none where the provider says that it names itself.
        for named in ["&iss=https%3A%2F%2Fevil.example", ""] {
            let mut browser = Browser::default();
            let (code, state) = begin(&mut browser).await;
            let to = scene.returns(&mut browser, &format!("code={code}&state={state}{named}")).await;
            assert_eq!(to, "/sign-in?failed=provider", "{named}");
        }
        // The person said no; and nothing of use came back.
        let mut browser = Browser::default();
        let (_, state) = begin(&mut browser).await;
        let to = scene.returns(&mut browser, &format!("error=access_denied&state={state}&iss={iss}")).await;
        assert_eq!(to, "/sign-in?failed=denied");
        assert_eq!(scene.returns(&mut browser, "").await, "/sign-in?failed=expired");
        // Too late.
        let mut browser = Browser::default();
        let (code, state) = begin(&mut browser).await;
        scene.clock.advance(601);
        let to = scene.returns(&mut browser, &format!("code={code}&state={state}&iss={iss}")).await;
        assert_eq!(to, "/sign-in?failed=expired");
        // In time, and once: shown again with the cookie of then, the code is spent.
        let mut browser = Browser::default();
        let (code, state) = begin(&mut browser).await;
        let mut kept = browser.clone();
        let query = format!("code={code}&state={state}&iss={iss}");
        assert_eq!(scene.returns(&mut browser, &query).await, "/approvals?x=1");
        scene.me(&browser).await;
        assert!(!browser.0.contains_key("tg-oidc"), "{:?}", browser.0.keys());
        assert_eq!(scene.returns(&mut kept, &query).await, "/sign-in?failed=provider");
        for path in ["//evil.example", "https://evil.example", "/\\evil.example"] {
            let body = json!({"return_to": path});
            scene.send(&As::Nobody, "POST", "/api/v1/session/oidc", body).await.refused(400);
        }
    })
    .await;
}

#[tokio::test]
async fn who_confirms_at_the_provider_is_fresh_again_and_nobody_else_is() {
    every_scene(&[], async |scene| {
        let claims = json!({"groups": ["staff"]});
        let mut browser = Browser::default();
        scene.sign_in(&mut browser, claims.clone()).await;
        let fresh = async |browser: &Browser| {
            let shown = scene.send(&browser.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
            shown["session"]["fresh_until"].is_string()
        };
        assert!(!fresh(&browser).await, "the provider did not say when they proved who they are");
        let step_up = async |browser: &mut Browser, claims: Value| {
            let url = scene.begin(browser, json!({"step_up": true, "return_to": "/policies"})).await;
            assert!(url.contains("prompt=login") && url.contains("max_age=0"), "{url}");
            let (code, state) = scene.provider.authorize(&url, &claims);
            scene.returns(browser, &format!("code={code}&state={state}&iss={}", scene.iss())).await
        };
        let stale = json!({"groups": ["staff"], "auth_time": scene.provider.seconds() - 3600});
        assert_eq!(step_up(&mut browser, stale).await, "/sign-in?failed=not_fresh");
        let somebody = json!({"groups": ["staff"], "sub": "somebody else"});
        assert_eq!(step_up(&mut browser, somebody).await, "/sign-in?failed=another_person");
        assert!(!fresh(&browser).await);
        let before = browser.caller();
        assert_eq!(step_up(&mut browser, claims.clone()).await, "/policies");
        assert!(fresh(&browser).await);
        scene.send(&before, "GET", "/api/v1/me", Value::Null).await.refused(401);
        // A proof of some minutes ago counts from then on, and lasts no longer than a password's.
        let earlier = json!({"groups": ["staff"], "auth_time": scene.provider.seconds() - 240});
        assert_eq!(step_up(&mut browser, earlier).await, "/policies");
        scene.clock.advance(59);
        assert!(fresh(&browser).await);
        scene.clock.advance(2);
        assert!(!fresh(&browser).await);
        assert_eq!(step_up(&mut Browser::default(), claims).await, "/sign-in?failed=expired");
    })
    .await;
}

#[tokio::test]
async fn only_a_providers_word_opens_another_tenant_that_takes_it() {
    every_scene(&[("oidc_other_tenants", "other")], async |scene| {
        scene.send(&As::Owner, "POST", "/api/v1/tenants", json!({"slug": "other"})).await.ok();
        let claims = json!({"groups": ["staff"], "name": "ada", "email": "ada@corp.example", "email_verified": true});
        let mut browser = Browser::default();
        scene.sign_in(&mut browser, claims).await;
        let member = json!({"name": "ada", "email": "ada@corp.example", "roles": ["viewer"]});
        scene.send(&As::OwnerOf("other"), "POST", "/api/v1/users", member).await.ok();
        let shown = scene.send(&browser.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
        let slugs: Vec<_> = shown["tenants"].as_array().unwrap().iter().map(|tenant| tenant["slug"].clone()).collect();
        assert_eq!(slugs, ["default", "other"]);
        scene.clock.advance(60);
        let moved = scene.send(&browser.caller(), "POST", "/api/v1/session/tenant", json!({"tenant": "other"})).await;
        let before = browser.caller();
        browser.keep(&moved);
        let there = scene.me(&browser).await;
        assert_eq!((&there["tenant"], &there["roles"]), (&json!("other"), &json!(["viewer"])));
        scene.send(&before, "GET", "/api/v1/me", Value::Null).await.refused(401);
        let again = scene.send(&browser.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
        assert_eq!(again["session"]["ends_at"], shown["session"]["ends_at"], "it lasts no longer for it");
        let unknown = json!({"tenant": "system"});
        scene.send(&browser.caller(), "POST", "/api/v1/session/tenant", unknown).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_providers_word_counts_in_no_tenant_that_did_not_ask_for_it() {
    every_scene(&[], async |scene| {
        scene.send(&As::Owner, "POST", "/api/v1/tenants", json!({"slug": "other"})).await.ok();
        let there = As::OwnerOf("other");
        let signed_in = async |name: &str, email: &str| {
            let claims =
                json!({"sub": name, "groups": ["staff"], "name": name, "email": email, "email_verified": true});
            let mut browser = Browser::default();
            assert_eq!(scene.sign_in(&mut browser, claims).await, "/");
            browser
        };
        // A member made there after, and one made there before, somebody with that address came by the provider.
        let ada = signed_in("ada", "ada@corp.example").await;
        for name in ["ada", "ben"] {
            let member = json!({"name": name, "email": format!("{name}@corp.example"), "roles": ["admin"]});
            scene.send(&there, "POST", "/api/v1/users", member).await.ok();
        }
        let ben = signed_in("ben", "ben@corp.example").await;
        let kept = scene.send(&As::Owner, "GET", "/api/v1/users/ben", Value::Null).await.ok();
        assert_eq!(kept["email"], "ben@corp.example", "what is kept here says nothing about who is there");
        for (name, browser) in [("ada", &ada), ("ben", &ben)] {
            let shown = scene.send(&browser.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
            assert_eq!(shown["tenants"], json!([{"slug": "default", "name": "Default"}]), "{name}");
            let to = json!({"tenant": "other"});
            scene.send(&browser.caller(), "POST", "/api/v1/session/tenant", to).await.refused(404);
            // Nor does whoever is a member there learn that the provider knows the address, or confirm with it.
            let link = scene.send(&there, "POST", &format!("/api/v1/users/{name}/sign-in-link"), json!({})).await.ok();
            let token = link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
            let mut member = Browser::default();
            member.keep(&scene.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await);
            let shown = scene.send(&member.caller(), "GET", "/api/v1/session", Value::Null).await.ok();
            assert_eq!(
                (&shown["me"]["tenant"], &shown["session"]["step_up_by"]),
                (&json!("other"), &json!([])),
                "{name}"
            );
            let url = scene.begin(&mut member, json!({"step_up": true})).await;
            let claims = json!({"sub": name, "groups": ["staff"]});
            let (code, state) = scene.provider.authorize(&url, &claims);
            let to = scene.returns(&mut member, &format!("code={code}&state={state}&iss={}", scene.iss())).await;
            assert_eq!(to, "/sign-in?failed=another_person", "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn where_passwords_are_switched_off_none_is_set_asked_for_or_sent_a_link_for() {
    every_scene(&[("password_sign_in", "false")], async |scene| {
        let ways = scene.send(&As::Nobody, "GET", "/api/v1/session/ways", Value::Null).await.ok();
        assert_eq!(ways["password"], false);
        let claims = json!({"groups": ["chiefs"], "name": "ada", "auth_time": scene.provider.seconds()});
        let mut browser = Browser::default();
        assert_eq!(scene.sign_in(&mut browser, claims).await, "/");
        let password = "a lamp in the hall";
        let told = "passwords are switched off here (`password_sign_in`)";
        for (who, method, path, body) in [
            (As::Nobody, "POST", "/api/v1/session/password", json!({"user": "ada", "password": password})),
            (As::Nobody, "POST", "/api/v1/session/reset", json!({"user": "ada"})),
            (As::Owner, "POST", "/api/v1/users/ada/reset", json!({})),
            (browser.caller(), "PUT", "/api/v1/me/password", json!({"password": password})),
            (browser.caller(), "POST", "/api/v1/session/step-up", json!({"password": password})),
        ] {
            let refused = scene.send(&who, method, path, body).await.refused(403);
            assert_eq!(refused["detail"], told, "{path}");
        }
        // Nobody could accept an invitation; links of before are worth nothing either.
        let refused = scene.send(&As::Owner, "POST", "/api/v1/invitations", json!({"name": "ben"})).await.refused(409);
        assert!(refused["remedy"].as_str().unwrap().contains("sign-in-link"), "{refused:#}");
        let user = scene.send(&As::Owner, "GET", "/api/v1/users/ada", Value::Null).await.ok();
        let (reset, invited) = scene.links_of_before(user["id"].as_str().unwrap()).await;
        for (path, body) in [
            ("/api/v1/session/reset/finish", json!({"token": reset, "password": password})),
            ("/api/v1/session/invitation", json!({"token": invited})),
            ("/api/v1/session/invitation/accept", json!({"token": invited, "password": password})),
        ] {
            assert_eq!(scene.send(&As::Nobody, "POST", path, body).await.refused(403)["detail"], told, "{path}");
        }
        // Who has no link is told no more than elsewhere.
        let guess = json!({"token": "guess", "password": password});
        scene.send(&As::Nobody, "POST", "/api/v1/session/invitation/accept", guess).await.refused(401);
    })
    .await;
}

#[tokio::test]
async fn one_network_begins_and_returns_a_bounded_number_of_times() {
    every_scene(&[], async |scene| {
        let begin =
            async |address: &str| post_from(scene.app.router(), address, "/api/v1/session/oidc", &json!({})).await;
        // Those who get in take back what they counted: a whole office may begin its day at once.
        for _ in 0..70 {
            let mut browser = Browser::default();
            let begun = begin("203.0.113.7").await;
            browser.keep(&begun);
            let (code, state) =
                scene.provider.authorize(begun.ok()["url"].as_str().unwrap(), &json!({"groups": ["staff"]}));
            let query = format!("code={code}&state={state}&iss={}", scene.iss());
            assert_eq!(scene.returns_from(&mut browser, "203.0.113.7", &query).await, "/");
        }
        let mut browsers = Vec::new();
        for _ in 0..120 {
            let begun = begin("203.0.113.9").await;
            let mut browser = Browser::default();
            browser.keep(&begun);
            browsers.push((browser, begun.ok()["url"].as_str().unwrap().to_owned()));
        }
        let early = begin("203.0.113.9").await;
        assert_eq!(early.headers["retry-after"], "1");
        early.refused(429);
        begin("203.0.113.10").await.ok();
        // Nor does the same network bring us to ask the provider by coming back.
        let (mut browser, url) = browsers.pop().unwrap();
        let (code, state) = scene.provider.authorize(&url, &json!({"groups": ["staff"]}));
        let query = format!("code={code}&state={state}&iss={}", scene.iss());
        let mut again = browser.clone();
        assert_eq!(scene.returns_from(&mut browser, "203.0.113.9", &query).await, "/sign-in?failed=too_many");
        scene.clock.advance(1);
        assert_eq!(scene.returns_from(&mut again, "203.0.113.9", &query).await, "/");
    })
    .await;
}

#[tokio::test]
async fn the_provider_is_reached_by_the_one_connector_alone() {
    every_scene(&[], async |scene| {
        let openings = scene.send(&As::Owner, "GET", "/api/v1/egress/openings", Value::Null).await.ok();
        let id = openings["items"][0]["id"].as_str().unwrap();
        scene.send(&As::Owner, "DELETE", &format!("/api/v1/egress/openings/{id}"), Value::Null).await.ok();
        // Closed: not even asked for.
        let refused = scene.send(&As::Nobody, "POST", "/api/v1/session/oidc", json!({})).await.refused(503);
        assert!(!refused.to_string().contains("127.0.0.1"), "{refused:#}");
        let opening = json!({"host": "127.0.0.1", "port": scene.provider.port(), "scheme": "http", "reason": "again"});
        scene.send(&As::Owner, "POST", "/api/v1/egress/openings", opening).await.ok();
        let mut browser = Browser::default();
        assert_eq!(scene.sign_in(&mut browser, json!({"groups": ["staff"]})).await, "/");
        let entries = scene.app.store.audit_entries(toolgate_contracts::TenantId::SYSTEM, 100).await.unwrap();
        assert!(entries.iter().any(|entry| entry["action"] == "egress.use"), "{entries:#?}");
        // A provider that calls itself otherwise is not believed.
        scene.clock.advance(3601);
        let own = scene.provider.issuer();
        *scene.provider.0.issuer.lock().unwrap() = "http://127.0.0.1:1/elsewhere".to_owned();
        scene.send(&As::Nobody, "POST", "/api/v1/session/oidc", json!({})).await.refused(503);
        *scene.provider.0.issuer.lock().unwrap() = own;
        assert_eq!(scene.sign_in(&mut browser, json!({"groups": ["staff"]})).await, "/");
    })
    .await;
}
