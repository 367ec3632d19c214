//! Tokens of other issuers: a small real one on loopback, and how it, or whoever shows tokens, may lie.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use toolgate_contracts::Clock;
use toolgate_server::{App, Config};
use toolgate_store::testing::every_migrated;

use super::{RESOURCE, challenged, listed, text};
use crate::world::{As, CODE, send};

struct Inner {
    name: String,
    key: Mutex<(String, Arc<EcdsaKeyPair>)>,
    asked: AtomicUsize,
}

#[derive(Clone)]
struct Issuer(Arc<Inner>);

fn new_key() -> Arc<EcdsaKeyPair> {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    Arc::new(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap())
}

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

async fn about(State(issuer): State<Issuer>) -> Json<Value> {
    let name = &issuer.0.name;
    Json(json!({"issuer": name, "jwks_uri": format!("{name}/keys")}))
}

async fn keys(State(issuer): State<Issuer>) -> Json<Value> {
    issuer.0.asked.fetch_add(1, Ordering::SeqCst);
    let (kid, key) = issuer.0.key.lock().unwrap().clone();
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let (x, y) = (BASE64URL_NOPAD.encode(x), BASE64URL_NOPAD.encode(y));
    Json(json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256", "x": x, "y": y}]}))
}

impl Issuer {
    async fn start() -> (Self, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let key = Mutex::new(("first".to_owned(), new_key()));
        let issuer = Self(Arc::new(Inner { name, key, asked: AtomicUsize::new(0) }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(about))
            .route("/keys", get(keys))
            .with_state(issuer.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (issuer, task)
    }

    fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    fn rotate(&self, kid: &str) {
        *self.0.key.lock().unwrap() = (kid.to_owned(), new_key());
    }

    /// A token, with some of its head and claims changed; `null` leaves one out.
    fn token(&self, clock: &Clock, head: Value, claims: Value) -> As {
        let (kid, key) = self.0.key.lock().unwrap().clone();
        let now = clock.now().millis() / 1000;
        let mut own_head = json!({"alg": "ES256", "kid": kid, "typ": "at+jwt"});
        let mut own = json!({"iss": self.0.name, "aud": RESOURCE, "sub": "subject-1", "client_id": "editor", "scope": "mcp other",
            "email": "ada@example.com", "email_verified": true, "iat": now, "exp": now + 300});
        for (own, change) in [(&mut own_head, head), (&mut own, claims)] {
            let own = own.as_object_mut().unwrap();
            own.extend(change.as_object().unwrap().clone());
            own.retain(|_, value| !value.is_null());
        }
        let signed = format!("{}.{}", part(&own_head), part(&own));
        let signature = match own_head["alg"].as_str() {
            Some("none") => Vec::new(),
            Some("HS256") => {
                let shared = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.public_key().as_ref());
                ring::hmac::sign(&shared, signed.as_bytes()).as_ref().to_vec()
            }
            _ => key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        As::Key(format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

struct Scene {
    app: App,
    clock: Clock,
    issuer: Issuer,
    task: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn every_scene(test: impl AsyncFn(&Scene)) {
    every_migrated(async |database| {
        let clock = Clock::manual(toolgate_contracts::Timestamp::from_millis(1_794_700_000_000));
        let (issuer, task) = Issuer::start().await;
        let folder = tempfile::tempdir().unwrap();
        let issuers = json!([{"issuer": issuer.0.name, "audience": "api://toolgate", "user": "email", "scope": "mcp"}]);
        let flags = [
            ("database", database.url.clone()),
            ("mcp_issuers", issuers.to_string()),
            ("public_url", "http://localhost".to_owned()),
        ];
        let config = Config::load(None, std::iter::empty(), &flags).unwrap();
        let app = App::open(config, folder.path(), CODE, clock.clone(), toolgate_contracts::Rng::seeded(5)).await;
        let app = app.map_err(|fault| format!("{fault:?}")).unwrap();
        let scene = Scene { app, clock, issuer, task, _folder: folder };
        let port: u16 = scene.issuer.0.name.rsplit(':').next().unwrap().parse().unwrap();
        let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "the issuer"});
        scene.send("POST", "/api/v1/egress/openings", opening).await;
        let ada = json!({"name": "ada", "email": "ada@example.com", "roles": ["admin", "approver"]});
        scene.send("POST", "/api/v1/users", ada).await;
        test(&scene).await;
    })
    .await;
}

impl Scene {
    async fn send(&self, method: &str, path: &str, body: Value) -> Value {
        send(self.app.router(), &As::Owner, method, path, body).await.ok()
    }

    fn token(&self, claims: Value) -> As {
        self.issuer.token(&self.clock, json!({}), claims)
    }

    async fn lets_in(&self, token: &As) -> bool {
        let answer = listed(&self.app, token, "/mcp").await;
        if answer.status != 200 {
            assert!(challenged(&answer, 401).contains("error=\"invalid_token\""));
        }
        answer.status == 200
    }
}

#[tokio::test]
async fn a_token_of_a_named_issuer_made_for_this_address_lets_its_person_use_tools_there() {
    every_scene(async |scene| {
        let resource =
            send(scene.app.router(), &As::Nobody, "GET", "/.well-known/oauth-protected-resource", Value::Null);
        let resource = resource.await.ok();
        assert_eq!(resource["authorization_servers"], json!(["http://localhost", scene.issuer.0.name]));
        let token = scene.token(json!({}));
        listed(&scene.app, &token, "/mcp").await.ok();
        for fine in [
            json!({"aud": ["https://other.example", RESOURCE]}),
            json!({"aud": "api://toolgate"}),
            json!({"scope": null, "scp": ["mcp"]}),
            json!({"iat": null}),
        ] {
            assert!(scene.lets_in(&scene.token(fine.clone())).await, "{fine}");
        }
        assert!(scene.lets_in(&scene.issuer.token(&scene.clock, json!({"typ": "JWT"}), json!({}))).await);
        // An agent's rights at most, and at that address alone.
        for path in ["/api/v1/me", "/api/v1/tools", "/api/v1/approvals"] {
            send(scene.app.router(), &token, "GET", path, Value::Null).await.refused(401);
        }
        // One row for each client of a person, whatever was shown how often.
        let keys = scene.send("GET", "/api/v1/keys", Value::Null).await;
        let rows: Vec<&Value> =
            keys["items"].as_array().unwrap().iter().filter(|key| key["client"].is_object()).collect();
        assert_eq!(rows.len(), 1, "{keys:#}");
        assert_eq!((&rows[0]["client"]["name"], &rows[0]["owner_name"]), (&json!("editor"), &json!("ada")));
        // Revoked: what was made before that is worth nothing, what is made later is another matter.
        scene.send("DELETE", &format!("/api/v1/keys/{}", text(&rows[0]["id"])), Value::Null).await;
        assert!(!scene.lets_in(&token).await);
        assert!(!scene.lets_in(&scene.token(json!({"iat": null}))).await);
        scene.clock.advance(10);
        assert!(scene.lets_in(&scene.token(json!({}))).await);
        // Not even now that there is a new row for the same client.
        assert!(!scene.lets_in(&token).await);
        assert!(!scene.lets_in(&scene.token(json!({"iat": null}))).await);
        scene.send("PATCH", "/api/v1/users/ada", json!({"disabled": true})).await;
        assert!(!scene.lets_in(&scene.token(json!({}))).await);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_not_for_here_not_in_force_or_not_signed_is_refused() {
    every_scene(async |scene| {
        let now = scene.clock.now().millis() / 1000;
        for wrong in [
            json!({"aud": "https://other.example/mcp"}),
            json!({"aud": "http://localhost"}),
            json!({"aud": "http://localhost/mcp/helper"}),
            json!({"aud": null}),
            json!({"aud": []}),
            json!({"exp": now - 61}),
            json!({"exp": null}),
            json!({"exp": (now + 300).to_string()}),
            json!({"exp": 1_794_700_300.5}),
            json!({"nbf": now + 120}),
            json!({"iat": now + 120}),
            json!({"sub": null}),
            json!({"email": "nobody@example.com"}),
            json!({"email": null}),
            json!({"email_verified": false}),
            json!({"email_verified": null}),
            json!({"email_verified": "true"}),
            json!({"nonce": "n"}),
            json!({"cnf": {"jkt": "x"}}),
            json!({"iss": "https://other.example"}),
        ] {
            assert!(!scene.lets_in(&scene.token(wrong.clone())).await, "{wrong}");
        }
        for wrong in [
            json!({"alg": "none"}),
            json!({"alg": "HS256"}),
            json!({"alg": "RS256"}),
            json!({"typ": "logout+jwt"}),
            json!({"crit": ["x"]}),
            json!({"kid": "unknown"}),
        ] {
            assert!(!scene.lets_in(&scene.issuer.token(&scene.clock, wrong.clone(), json!({}))).await, "{wrong}");
        }
        // Good, and not enough.
        let answer = listed(&scene.app, &scene.token(json!({"scope": "other"})), "/mcp").await;
        let said = challenged(&answer, 403);
        assert!(said.contains("error=\"insufficient_scope\"") && said.contains("scope=\"mcp\""), "{said}");
        assert!(said.contains("resource_metadata="), "{said}");
    })
    .await;
}

#[tokio::test]
async fn an_issuer_is_asked_for_new_keys_once_in_a_while_whatever_is_shown() {
    every_scene(async |scene| {
        assert!(scene.lets_in(&scene.token(json!({}))).await);
        assert_eq!(scene.issuer.asked(), 1);
        for number in 0..50 {
            let head = json!({"kid": format!("made-up-{number}")});
            assert!(!scene.lets_in(&scene.issuer.token(&scene.clock, head, json!({}))).await);
        }
        assert_eq!(scene.issuer.asked(), 1, "it was asked a moment ago");
        scene.clock.advance(61);
        scene.issuer.rotate("second");
        assert!(scene.lets_in(&scene.token(json!({}))).await, "new keys are found");
        for number in 0..50 {
            let head = json!({"kid": format!("made-up-{number}")});
            assert!(!scene.lets_in(&scene.issuer.token(&scene.clock, head, json!({}))).await);
        }
        assert_eq!(scene.issuer.asked(), 2);
    })
    .await;
}
