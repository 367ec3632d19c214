//! Model providers over REST: who may write which, what is refused where, and a question by the way that agents ask, to a
//! server on loopback that speaks OpenAI's form.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use toolgate_store::Scope;

use crate::world::{Answer, As, World, every_world};

/// In nothing that anybody is told or that is kept in clear.
const KEY: &str = "sk-sentinel-7c1f0a9b-of-the-organisation";
const OWN_KEY: &str = "sk-sentinel-90ab11fe-of-one-user";

/// What the server says next, and which keys it was shown.
#[derive(Clone, Default)]
struct Vendor {
    next: Arc<Mutex<Vec<Said>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy)]
enum Said {
    Ready,
    /// With its seconds.
    Later(u64),
    /// Quotes the key that it was shown.
    WrongKey,
}

impl Vendor {
    async fn start() -> (Self, SocketAddr) {
        let vendor = Self::default();
        let kept = vendor.clone();
        let answer = move |headers: HeaderMap, Json(body): Json<Value>| {
            let vendor = kept.clone();
            async move { vendor.answer(&headers, &body) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/chat/completions", post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (vendor, address)
    }

    fn answer(&self, headers: &HeaderMap, body: &Value) -> Response {
        let key = headers.get(header::AUTHORIZATION).map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
        self.keys.lock().unwrap().push(key.clone());
        let mut next = self.next.lock().unwrap();
        match if next.is_empty() { Said::Ready } else { next.remove(0) } {
            Said::Ready => {
                let usage = json!({
                    "prompt_tokens": 1000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 400},
                });
                let choice =
                    json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ready"}});
                Json(json!({"id": "c", "model": body["model"], "choices": [choice], "usage": usage})).into_response()
            }
            Said::Later(seconds) => {
                let error = json!({"error": {"type": "rate_limit_error", "message": "slow down"}});
                let headers = [(header::RETRY_AFTER, seconds.to_string())];
                (StatusCode::TOO_MANY_REQUESTS, headers, Json(error)).into_response()
            }
            Said::WrongKey => {
                let message = format!("Incorrect API key provided: {key}");
                let error = json!({"error": {"code": "invalid_api_key", "message": message}});
                (StatusCode::UNAUTHORIZED, Json(error)).into_response()
            }
        }
    }

    fn will_say(&self, next: &[Said]) {
        next.clone_into(&mut self.next.lock().unwrap());
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.keys.lock().unwrap())
    }
}

async fn put(world: &World, who: &As, spec: Value) -> Answer {
    let name = spec["name"].as_str().unwrap().to_owned();
    world.send(who, "PUT", &format!("/api/v1/providers/{name}"), spec).await
}

async fn test(world: &World, who: &As, provider: &str, model: &str) -> Value {
    world.send(who, "POST", &format!("/api/v1/providers/{provider}/test"), json!({"model": model})).await.ok()
}

fn scripted(name: &str) -> Value {
    json!({"name": name, "kind": "scripted", "script": {"version": 1, "turns": [{"say": "ready"}]}})
}

async fn log(world: &World) -> Vec<Value> {
    let sql = "SELECT entry FROM audit_leaves";
    let rows = world.app.store.query(&Scope::Everyone("a test reads the log"), sql, vec![]).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(&row.get::<String>(0).unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_are_written_read_and_removed_by_whoever_may() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let reader = world.user("default", "ben", &["viewer"]).await;
        let added = put(&world, &author, scripted("rehearsal")).await.ok();
        assert_eq!(
            (&added["action"], &added["scripted"], &added["revision"]),
            (&json!("created"), &json!(true), &json!(1))
        );
        assert_eq!(put(&world, &author, scripted("rehearsal")).await.ok()["action"], "unchanged");
        let mut priced = scripted("rehearsal");
        priced["prices"] = json!({"*": {"input": "1", "output": "2"}});
        let replaced = world.send(&author, "PUT", "/api/v1/providers/rehearsal?revision=1", priced.clone()).await.ok();
        assert_eq!((&replaced["action"], &replaced["revision"]), (&json!("replaced"), &json!(2)));
        // Whoever saw it before does not overwrite what they did not see.
        world.send(&author, "PUT", "/api/v1/providers/rehearsal?revision=1", scripted("rehearsal")).await.refused(409);
        world.send(&author, "PUT", "/api/v1/providers/none?revision=1", scripted("none")).await.refused(404);
        let listed = world.get(&reader, "/api/v1/providers").await.ok();
        assert_eq!(listed["items"][0]["name"], "rehearsal");
        assert_eq!((&listed["items"][0]["scripted"], &listed["items"][0]["script"]), (&json!(true), &Value::Null));
        let shown = world.get(&reader, "/api/v1/providers/rehearsal").await.ok();
        assert_eq!(shown["script"]["turns"][0]["say"], "ready");
        for (who, status) in [(&reader, 403), (&As::Nobody, 401)] {
            put(&world, who, scripted("other")).await.refused(status);
            world.send(who, "DELETE", "/api/v1/providers/rehearsal", Value::Null).await.refused(status);
            let body = json!({"model": "any"});
            world.send(who, "POST", "/api/v1/providers/rehearsal/test", body).await.refused(status);
        }
        let told = world.send(&author, "PUT", "/api/v1/providers/other", scripted("rehearsal")).await.refused(400);
        assert_eq!(told["pointer"], "/name");
        put(&world, &author, scripted("rehearsa1")).await.refused(409);
        for (changes, pointer) in [
            (json!({"kind": "other"}), "/kind"),
            (json!({"secret": "sk-a real key"}), "/secret"),
            (json!({"base_url": "ftp://example.com"}), "/base_url"),
            (json!({"base_url": "https://me:pass@example.com/v1"}), "/base_url"),
            (json!({"kind": "xml"}), "/base_url"),
            (
                json!({"kind": "scripted", "script": {"version": 1, "turns": [{"say": "{{ prompt"}]}}),
                "/script/turns/0/say",
            ),
            (json!({"kind": "scripted", "script": {"version": 1, "turns": [{"sa": "a"}]}}), "/script/turns/0/sa"),
            (json!({"prices": {"m": {"input": "much", "output": "1"}}}), "/prices/m/input"),
        ] {
            let mut spec = json!({"name": "wrong", "kind": "openai_chat"});
            spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let refused = put(&world, &author, spec).await.refused(400);
            assert_eq!(refused["pointer"], pointer, "{refused:#}");
        }
        let log = log(&world).await;
        let set = log.iter().filter(|entry| entry["action"] == "provider.set");
        assert_eq!(set.count(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_agents_ask_stays_and_an_agent_without_one_is_told() {
    every_world(async |world| {
        let owner = As::Owner;
        let agent = |model: &str| json!({"name": "helper", "model": model, "workspace": "main"});
        let saved = world.send(&owner, "POST", "/api/v1/agents", agent("rehearsal/any")).await.ok();
        assert_eq!(saved["findings"][0]["code"], "agent.provider", "{saved:#}");
        put(&world, &owner, scripted("rehearsal")).await.ok();
        let update = async |model: &str| world.send(&owner, "PUT", "/api/v1/agents/helper", agent(model)).await.ok();
        assert_eq!(update("rehearsal/any").await["findings"], json!([]));
        assert_eq!(update("").await["findings"], json!([]), "one that others run has no model here");
        assert_eq!(update("gpt-5").await["findings"][0]["code"], "agent.model");
        // What writes is assigned, not written down.
        let mut writing = agent("");
        writing["custom_tools"] = json!(["calculator", "write_file"]);
        let told = world.send(&owner, "PUT", "/api/v1/agents/helper", writing.clone()).await.ok();
        assert_eq!(
            (&told["findings"][0]["code"], &told["findings"][0]["pointer"], &told["findings"][1]),
            (&json!("agent.unassigned"), &json!("/custom_tools/1"), &Value::Null)
        );
        world.send(&owner, "PUT", "/api/v1/agents/helper/tools/write_file", json!({})).await.ok();
        assert_eq!(world.send(&owner, "PUT", "/api/v1/agents/helper", writing).await.ok()["findings"], json!([]));
        update("rehearsal/any").await;
        assert_eq!(world.get(&owner, "/api/v1/providers/rehearsal").await.ok()["agents"], json!(["helper"]));
        let refused = world.send(&owner, "DELETE", "/api/v1/providers/rehearsal", Value::Null).await.refused(409);
        assert!(refused["detail"].as_str().unwrap().contains("`helper`"), "{refused:#}");
        assert_eq!(refused["details"]["agents"], json!(["helper"]));
        world.send(&owner, "DELETE", "/api/v1/providers/rehearsal?force=true", Value::Null).await.ok();
        world.get(&owner, "/api/v1/providers/rehearsal").await.refused(404);
        world.send(&owner, "DELETE", "/api/v1/providers/rehearsal", Value::Null).await.refused(404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_goes_out_by_an_opening_with_a_key_that_its_owner_gave() {
    every_world(async |world| {
        let (vendor, address) = Vendor::start().await;
        let author = world.user("default", "ada", &["author"]).await;
        let admin = world.user("default", "eva", &["admin"]).await;
        let prices = json!({"large": {"input": "2.50", "cached_input": "0.25", "output": "10"}});
        let base_url = format!("http://{address}/v1");
        let spec = json!({"name": "ours", "kind": "openai_chat", "base_url": base_url, "prices": prices});
        put(&world, &author, spec.clone()).await.ok();
        let reason = |tested: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&tested["error"]["code"]), text(&tested["error"]["details"]["reason"]))
        };
        let is = |code: &str, reason: &str| (code.to_owned(), reason.to_owned());

        // Loopback is closed until the operator opens it.
        assert_eq!(reason(&test(&world, &author, "ours", "large").await), is("POLICY_DENIED", "egress"));
        assert_eq!(vendor.heard(), Vec::<String>::new());
        let opening = json!({"host": "127.0.0.1", "port": address.port(), "scheme": "http", "reason": "a model here"});
        world.send(&As::Owner, "POST", "/api/v1/egress/openings", opening).await.ok();
        let tested = test(&world, &author, "ours", "large").await;
        assert_eq!((&tested["answer"]["text"], &tested["answer"]["tries"]), (&json!("ready"), &json!(1)), "{tested:#}");
        assert_eq!(tested["answer"]["cost"], "0.0036", "by our table: 600 at 2.50, 400 at 0.25, 200 at 10");
        assert_eq!(test(&world, &author, "ours", "other").await["answer"]["cost"], Value::Null, "nobody knows");
        assert_eq!(vendor.heard(), ["", ""], "no secret is named, none is sent");

        // The key: named, set, given to the provider, allowed to the host.
        let mut keyed = spec.clone();
        keyed["secret"] = json!("MODEL_KEY");
        put(&world, &author, keyed).await.ok();
        assert_eq!(reason(&test(&world, &author, "ours", "large").await), is("AUTH_REQUIRED", "secret_missing"));
        let set = async |who: &As, place: &str, body: Value| {
            world.send(who, "PUT", &format!("/api/v1/secrets/{place}/MODEL_KEY"), body).await
        };
        set(&admin, "org", json!({"value": KEY, "hosts": ["127.0.0.1"]})).await.ok();
        assert_eq!(reason(&test(&world, &author, "ours", "large").await), is("AUTH_REQUIRED", "secret_not_allowed"));
        set(&admin, "org", json!({"value": KEY, "providers": ["ours"]})).await.ok();
        let tested = test(&world, &author, "ours", "large").await;
        assert_eq!(reason(&tested), is("AUTH_REQUIRED", "secret_not_allowed"));
        assert_eq!(tested["error"]["details"]["host"], "127.0.0.1");
        set(&admin, "org", json!({"value": KEY, "providers": ["nobody"]})).await.refused(404);
        assert_eq!(vendor.heard(), Vec::<String>::new());
        let allow = json!({"hosts": ["127.0.0.1"]});
        world.send(&admin, "POST", "/api/v1/secrets/org/MODEL_KEY/allow", allow).await.ok();
        assert_eq!(test(&world, &author, "ours", "large").await["answer"]["text"], "ready");
        assert_eq!(vendor.heard(), [format!("Bearer {KEY}")]);

        // The user's own stands before the organisation's, and only for them.
        let own = json!({"value": OWN_KEY, "providers": ["ours"], "hosts": ["127.0.0.1"]});
        set(&author, "user", own).await.ok();
        test(&world, &author, "ours", "large").await;
        test(&world, &admin, "ours", "large").await;
        assert_eq!(vendor.heard(), [format!("Bearer {OWN_KEY}"), format!("Bearer {KEY}")]);

        // What it says back is shown without the key, and a wait that it asks for is kept or told on.
        vendor.will_say(&[Said::WrongKey]);
        let refused = test(&world, &admin, "ours", "large").await;
        assert_eq!(reason(&refused), is("AUTH_REQUIRED", "upstream"));
        assert!(refused["error"]["details"]["said"].as_str().unwrap().contains("[secret:MODEL_KEY]"), "{refused:#}");
        vendor.will_say(&[Said::Later(0)]);
        let again = test(&world, &admin, "ours", "large").await;
        assert_eq!((&again["answer"]["text"], &again["answer"]["tries"]), (&json!("ready"), &json!(2)), "{again:#}");
        vendor.will_say(&[Said::Later(3600); 8]);
        let later = test(&world, &admin, "ours", "large").await;
        assert_eq!(reason(&later), is("RATE_LIMIT", "upstream"));
        assert_eq!(later["error"]["retry_after_s"], 3600);

        let log = log(&world).await;
        let of = |action: &str| log.iter().filter(|entry| entry["action"] == action).cloned().collect::<Vec<_>>();
        let used = of("secret.use");
        assert_eq!(used.len(), 6, "one for each question with a key, whatever became of it");
        let details = json!({"for": "model", "provider": "ours", "model": "large", "scope": "org", "version": 2});
        assert_eq!((&used[0]["object"], &used[0]["details"]), (&json!("MODEL_KEY"), &details));
        assert!(of("egress.use").iter().any(|entry| entry["details"]["for"] == "model"));
        let told = format!("{log:?}{refused}{again}{later}");
        assert!(!told.contains("sentinel"), "{told}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_s_providers_are_offered_to_all_and_its_secrets_to_nobody() {
    every_world(async |world| {
        let system = As::OwnerOf("system");
        let author = world.user("default", "ada", &["author"]).await;
        let body = json!({"value": KEY});
        world.send(&system, "PUT", "/api/v1/secrets/org/MODEL_KEY", body).await.ok();
        let spec = json!({"name": "shared", "kind": "openai_chat", "secret": "MODEL_KEY"});
        put(&world, &system, spec).await.ok();
        let allow = json!({"providers": ["shared"], "hosts": ["api.openai.com"]});
        world.send(&system, "POST", "/api/v1/secrets/org/MODEL_KEY/allow", allow).await.ok();
        let shown = world.get(&author, "/api/v1/providers/shared").await.ok();
        assert_eq!((&shown["offered"], &shown["saved_by"]), (&json!(true), &json!("operator")));
        let tested = test(&world, &author, "shared", "large").await;
        assert_eq!(tested["error"]["details"]["reason"], "secret_missing", "{tested:#}");
        world.send(&author, "DELETE", "/api/v1/providers/shared", Value::Null).await.refused(409);
        // Its prices are the operator's; one of the tenant's own stands in front of it.
        world.send(&author, "PUT", "/api/v1/providers/shared?revision=1", scripted("shared")).await.refused(409);
        put(&world, &author, scripted("shared")).await.ok();
        let tested = test(&world, &author, "shared", "any").await;
        assert_eq!((&tested["answer"]["text"], &tested["scripted"]), (&json!("ready"), &json!(true)));
        world.send(&author, "DELETE", "/api/v1/providers/shared", Value::Null).await.ok();
        assert_eq!(world.get(&author, "/api/v1/providers/shared").await.ok()["kind"], "openai_chat");
        // What a tenant wrote is its own.
        world.tenant("other").await;
        put(&world, &author, scripted("mine")).await.ok();
        world.get(&As::OwnerOf("other"), "/api/v1/providers/mine").await.refused(404);
        world.get(&As::OwnerOf("other"), "/api/v1/providers/shared").await.ok();
    })
    .await;
}
