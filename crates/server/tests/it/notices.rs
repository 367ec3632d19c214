//! Who outside is told of what: webhooks over a real connection, mail over a real relay, and what neither may reach.

mod mail;
mod receiver;
mod settings;

use data_encoding::BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use receiver::{Received, Receiver};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_server::deliver::{Courier, RETRY_AFTER_S};

use crate::world::{As, World, every_world};

const SENTINEL: &str = "SENTINEL-argument-7";

impl World {
    /// Lets the server reach the test's own receiver.
    async fn open_host(&self, receiver: &Receiver, extra: Value) -> String {
        let mut spec =
            json!({"host": "127.0.0.1", "port": receiver.port(), "scheme": "http", "reason": "a test's receiver"});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let opening = self.send(&As::Owner, "POST", "/api/v1/egress/openings", spec).await.ok();
        opening["id"].as_str().unwrap().to_owned()
    }

    async fn webhook(&self, who: &As, receiver: &Receiver, types: &[&str]) -> Value {
        let body = json!({"url": receiver.url("/hook"), "types": types});
        self.send(who, "POST", "/api/v1/webhooks", body).await.ok()
    }

    async fn echo(&self, who: &As) -> Value {
        let call = json!({"tool": "echo", "input": {"text": SENTINEL}});
        self.send(who, "POST", "/api/v1/calls", call).await.ok()
    }

    async fn deliver(&self) {
        Courier::new(self.app.clone()).deliver_due().await.map_err(|fault| format!("{fault:?}")).unwrap();
    }

    async fn show_webhook(&self, webhook: &Value) -> Value {
        self.get(&As::Owner, &format!("/api/v1/webhooks/{}", text(webhook, "id"))).await.ok()
    }

    async fn deliveries(&self, webhook: &Value) -> Vec<Value> {
        let path = format!("/api/v1/webhooks/{}/deliveries?limit=500", text(webhook, "id"));
        self.get(&As::Owner, &path).await.ok()["items"].as_array().unwrap().clone()
    }

    async fn act(&self, webhook: &Value, action: &str) -> Value {
        let path = format!("/api/v1/webhooks/{}/{action}", text(webhook, "id"));
        self.send(&As::Owner, "POST", &path, json!({})).await.ok()
    }

    async fn actions(&self) -> Vec<String> {
        let entries = self.get(&As::Owner, "/api/v1/audit/entries?limit=500").await.ok();
        entries["items"].as_array().unwrap().iter().map(|entry| text(&entry["entry"], "action").to_owned()).collect()
    }
}

#[track_caller]
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value:#}"))
}

/// HMAC as RFC 2104 writes it down, so that no line of it is the product's.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::digest([block.map(|byte| byte ^ 0x36).as_slice(), message].concat());
    Sha256::digest([block.map(|byte| byte ^ 0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

/// Whether one of the signatures is of this secret, as a receiver checks it.
fn is_signed_with(received: &Received, secret: &str) -> bool {
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    assert_eq!(key.len(), 32);
    let signed =
        format!("{}.{}.{}", received.header("webhook-id"), received.header("webhook-timestamp"), received.body);
    let expected = format!("v1,{}", BASE64.encode(&hmac(&key, signed.as_bytes())));
    received.header("webhook-signature").split(' ').any(|signature| signature == expected)
}

fn is_signed_by(received: &Received, public: &str) -> bool {
    let key = BASE64.decode(public.strip_prefix("whpk_").unwrap().as_bytes()).unwrap();
    let key = VerifyingKey::from_bytes(&key.try_into().unwrap()).unwrap();
    let signed =
        format!("{}.{}.{}", received.header("webhook-id"), received.header("webhook-timestamp"), received.body);
    let of = |text: &str| Signature::from_slice(&BASE64.decode(text.as_bytes()).unwrap()).unwrap();
    let mut signatures = received.header("webhook-signature").split(' ').filter_map(|one| one.strip_prefix("v1a,"));
    signatures.any(|signature| key.verify_strict(signed.as_bytes(), &of(signature)).is_ok())
}

#[tokio::test]
async fn what_happened_arrives_signed_with_ids_and_a_link_and_without_arguments() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed", "tool_run", "call.failed"]).await;
        let call = world.echo(&As::Owner).await;
        world.deliver().await;
        let told = receiver.taken();
        assert_eq!(told.len(), 2, "{told:?}");
        let public = world.get(&As::Owner, "/api/v1/webhooks/keys").await.ok();
        for received in &told {
            assert!(is_signed_with(received, text(&made, "secret")), "{received:?}");
            assert!(is_signed_by(received, text(&public["keys"][0], "public_key")), "{received:?}");
            assert_eq!(received.method_and_path, "POST /hook");
            assert_eq!(received.header("content-type"), "application/json");
            assert_eq!(received.header("webhook-timestamp"), "1794700000");
            let body: Value = serde_json::from_str(&received.body).unwrap();
            assert_eq!((text(&body, "id"), text(&body, "tenant")), (received.header("webhook-id"), "default"));
            let data = &body["data"];
            assert_eq!((&data["call_id"], &data["run_id"]), (&call["id"], &call["run_id"]));
            assert_eq!(text(data, "tool"), "echo");
            let link = format!("{}/calls/{}", world.app.base_url(), text(&call, "id"));
            assert_eq!(text(data, "url"), link);
            let members: Vec<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
            match text(&body, "type") {
                "call.completed" => {
                    assert_eq!(members, ["call_id", "run_id", "tool", "status", "url"]);
                    assert_eq!(text(data, "status"), "completed");
                }
                "tool_run" => {
                    assert_eq!(members, ["call_id", "run_id", "tool", "status", "url", "source", "duration_ms"]);
                    assert_eq!((text(data, "status"), text(data, "source")), ("success", "api"));
                }
                other => panic!("{other} was not asked for, or did not happen"),
            }
            assert!(!format!("{received:?}").contains(SENTINEL), "an argument went out: {received:?}");
            assert!(!format!("{received:?}").contains(text(&made, "secret")));
        }
        let listed = world.deliveries(&made).await;
        assert!(listed.iter().all(|one| one["state"] == "delivered" && one["attempts"] == 1), "{listed:#?}");
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 0, "what arrived is not sent again");
        let actions = world.actions().await;
        assert_eq!(actions.iter().filter(|action| *action == "egress.use").count(), 1, "{actions:?}");
        assert!(actions.iter().any(|action| action == "webhook.create"));
        assert!(!world.get(&As::Owner, "/api/v1/webhooks").await.ok().to_string().contains("whsec_"));
        let trial = world.act(&made, "test").await;
        assert_eq!(trial, json!({"arrived": true}));
        let tested = receiver.taken();
        assert_eq!(serde_json::from_str::<Value>(&tested[0].body).unwrap()["data"]["test"], true);
        assert!(is_signed_with(&tested[0], text(&made, "secret")));
    })
    .await;
}

#[tokio::test]
async fn a_refusal_a_limit_and_a_dry_run_tell_what_they_are() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let types = ["call.completed", "call.failed", "limit.reached", "tool_run"];
        world.webhook(&As::Owner, &receiver, &types).await;
        let dry = json!({"tool": "echo", "input": {"text": SENTINEL}, "mode": "dry_run"});
        world.send(&As::Owner, "POST", "/api/v1/calls", dry).await.ok();
        let limits = json!({"tools": {"echo": {"rate_limit": {"count": 1, "per_s": 3600}}}});
        world.send(&As::Owner, "PUT", "/api/v1/limits", limits).await.ok();
        for _ in 0..3 {
            world.echo(&As::Owner).await;
        }
        world.deliver().await;
        let mut types: Vec<String> = receiver
            .taken()
            .iter()
            .map(|received| {
                let body: Value = serde_json::from_str(&received.body).unwrap();
                let limit = body["data"]["limit"].as_str().map(|limit| format!(" {limit}")).unwrap_or_default();
                format!("{} {}{limit}", text(&body, "type"), text(&body["data"], "status"))
            })
            .collect();
        types.sort();
        assert_eq!(
            types,
            [
                "call.completed completed",
                "call.failed failed",
                "call.failed failed",
                "limit.reached failed rate",
                "tool_run success",
            ],
            "a limit is told once a minute, a refusal is no run, and a dry run is nothing"
        );
        world.clock.advance(61);
        world.echo(&As::Owner).await;
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 2, "the limit again, with the refusal");
    })
    .await;
}

#[tokio::test]
async fn what_does_not_arrive_is_sent_again_by_the_table_then_the_webhook_is_paused_and_resumed() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
        receiver.answer(503);
        let (first, second) = (world.echo(&As::Owner).await, world.echo(&As::Owner).await);
        let mut ids = Vec::new();
        let attempts = RETRY_AFTER_S.len() + 1;
        for attempt in 0..attempts {
            world.deliver().await;
            world.deliver().await;
            let tried = receiver.taken();
            assert!(!tried.is_empty(), "attempt {attempt}");
            ids.extend(tried.iter().map(|received| received.header("webhook-id").to_owned()));
            let state = world.show_webhook(&made).await;
            if let Some(after) = RETRY_AFTER_S.get(attempt) {
                assert_eq!(state["state"], "active", "attempt {attempt}");
                world.clock.advance(after - 1);
                world.deliver().await;
                assert_eq!(receiver.taken().len(), 0, "sooner than the table says, after attempt {attempt}");
                world.clock.advance(1);
            }
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2, "the same message has the same id, however often it is sent");
        let paused = world.show_webhook(&made).await;
        assert_eq!(paused["state"], "paused");
        assert!(text(&paused, "paused_because").contains("503"), "{paused:#}");
        assert!(world.actions().await.contains(&"webhook.pause".to_owned()));

        world.echo(&As::Owner).await;
        world.clock.advance(7 * 24 * 3600);
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 0, "nothing is sent to a paused webhook");
        assert_eq!(world.deliveries(&made).await.len(), 2, "nor written for it");

        receiver.answer(200);
        assert_eq!(world.act(&made, "resume").await["state"], "active");
        world.deliver().await;
        let mut told: Vec<String> = receiver.taken().iter().map(Received::call).collect();
        told.sort();
        let mut expected = [text(&first, "id").to_owned(), text(&second, "id").to_owned()];
        expected.sort();
        assert_eq!(told, expected);
    })
    .await;
}

#[tokio::test]
async fn a_message_that_is_refused_stands_in_no_other_s_way_and_a_receiver_that_is_gone_is_left_alone() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
        receiver.answer(422);
        world.echo(&As::Owner).await;
        world.deliver().await;
        receiver.answer(200);
        world.clock.advance(1);
        world.echo(&As::Owner).await;
        world.deliver().await;
        let states: Vec<Value> = world.deliveries(&made).await.iter().map(|one| one["state"].clone()).collect();
        assert_eq!(states, ["delivered", "waiting"]);
        receiver.answer(410);
        world.clock.advance(1);
        world.echo(&As::Owner).await;
        world.deliver().await;
        assert_eq!(world.show_webhook(&made).await["state"], "paused", "410 means never again");
    })
    .await;
}

/// Test 60: a webhook is redirected nowhere.
#[tokio::test]
async fn a_notice_that_cannot_be_read_is_given_up_and_the_others_go_on() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
        for _ in 0..3 {
            world.echo(&As::Owner).await;
        }
        let waiting = world.deliveries(&made).await;
        let tenant = world
            .app
            .registry
            .snapshot()
            .tenants()
            .find(|one| one.tenant.slug.as_str() == "default")
            .unwrap()
            .tenant
            .id;
        for (delivery, body) in waiting.iter().zip(["{\"type\": 7", "{\"type\":\"call.completed\",\"id\":\"a\\nb\"}"]) {
            let id: uuid::Uuid = text(delivery, "id").parse().unwrap();
            let mut change = toolgate_store::Change::new(tenant);
            change.then("UPDATE deliveries SET body = $3 WHERE tenant_id = $1 AND id = $2", [id.into(), body.into()]);
            world.app.store.commit(change).await.unwrap();
        }
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 1, "the one that can be read");
        let after = world.deliveries(&made).await;
        let states: Vec<&str> = after.iter().map(|delivery| text(delivery, "state")).collect();
        assert_eq!(states.iter().filter(|state| **state == "failed").count(), 2, "{after:#?}");
        assert!(
            after
                .iter()
                .filter(|one| one["state"] == "failed")
                .all(|one| text(one, "last_error").contains("cannot be read"))
        );
        assert_eq!(world.show_webhook(&made).await["state"], "active", "the receiver did nothing wrong");
        world.echo(&As::Owner).await;
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 1, "and what comes later");
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    every_world(async |world| {
        let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
        world.open_host(&receiver, json!({})).await;
        world.open_host(&elsewhere, json!({})).await;
        for location in [elsewhere.url("/"), "file:///etc/passwd".into(), "unix:/run/x".into(), "data:,x".into()] {
            receiver.redirect(307, &location);
            let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
            world.echo(&As::Owner).await;
            world.deliver().await;
            let last = &world.deliveries(&made).await[0];
            assert_eq!((text(last, "state"), last["attempts"].as_u64()), ("waiting", Some(1)), "{location}");
            assert!(text(last, "last_error").contains("redirects are not followed"), "{last:#}");
            let path = format!("/api/v1/webhooks/{}", text(&made, "id"));
            world.send(&As::Owner, "DELETE", &path, json!({})).await.ok();
        }
        assert_eq!(elsewhere.taken().len(), 0);
    })
    .await;
}

/// Test 60: no webhook bypasses the connector, neither when it is saved nor when it is sent.
#[tokio::test]
async fn a_webhook_to_a_closed_place_is_refused_when_saved_and_when_sent() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        let port = receiver.port();
        for url in [
            receiver.url("/hook"),
            format!("https://127.0.0.1:{port}/"),
            "https://127.0.0.1/".into(),
            "https://[::1]/".into(),
            "https://[::ffff:127.0.0.1]/".into(),
            "https://2130706433/".into(),
            "https://10.0.0.5/".into(),
            "https://169.254.169.254/latest/meta-data/".into(),
            "https://metadata.google.internal/".into(),
            "http://hooks.example.com/".into(),
            "https://hooks.example.com:8443/".into(),
            "https://me:secret@hooks.example.com/".into(),
            "file:///etc/passwd".into(),
            "unix:/run/docker.sock".into(),
            "data:application/json,{}".into(),
            "hooks.example.com".into(),
            format!("https://hooks.example.com/{}", "x".repeat(3000)),
        ] {
            let answer =
                world.send(&As::Owner, "POST", "/api/v1/webhooks", json!({"url": url, "types": ["call.failed"]})).await;
            assert!(matches!(answer.status, 400 | 403), "{url}: {:#}", answer.body);
            assert_eq!(answer.body["pointer"], "/url", "{url}: {:#}", answer.body);
        }
        let opening = world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
        let closed = world.send(&As::Owner, "DELETE", &format!("/api/v1/egress/openings/{opening}"), json!({})).await;
        assert_eq!(closed.ok()["port"], port);
        world.echo(&As::Owner).await;
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 0, "what was closed since is closed");
        let last = &world.deliveries(&made).await[0];
        assert_eq!((text(last, "state"), last["attempts"].as_u64()), ("waiting", Some(1)));
        let trial = world.act(&made, "test").await;
        assert_eq!(trial["arrived"], false);
        assert_eq!(receiver.taken().len(), 0);
        let edit = json!({"url": "https://127.0.0.1/", "types": ["call.failed"]});
        let path = format!("/api/v1/webhooks/{}", text(&made, "id"));
        world.send(&As::Owner, "PUT", &path, edit).await.refused(403);
        world.open_host(&receiver, json!({})).await;
        world.clock.advance(5);
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 1, "and what is opened again goes out");
    })
    .await;
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_one_before_for_a_day() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        let made = world.webhook(&As::Owner, &receiver, &["call.completed"]).await;
        world.clock.advance(60);
        let rotated = world.act(&made, "rotate").await;
        let (old, new) = (text(&made, "secret"), text(&rotated, "secret"));
        assert_ne!(old, new);
        let signed = async |by_old: bool| {
            world.echo(&As::Owner).await;
            world.deliver().await;
            let received = receiver.taken().remove(0);
            assert!(is_signed_with(&received, new));
            assert_eq!(is_signed_with(&received, old), by_old, "{received:?}");
        };
        signed(true).await;
        world.clock.advance(24 * 3600);
        signed(false).await;
        let again = world.act(&made, "rotate").await;
        world.echo(&As::Owner).await;
        world.deliver().await;
        let received = receiver.taken().remove(0);
        assert!(is_signed_with(&received, text(&again, "secret")) && is_signed_with(&received, new));
        assert!(!is_signed_with(&received, old));
    })
    .await;
}

#[tokio::test]
async fn two_tenants_never_meet() {
    every_world(async |world| {
        world.tenant("acme").await;
        let (ours, theirs) = (Receiver::start().await, Receiver::start().await);
        world.open_host(&ours, json!({"tenants": ["default"]})).await;
        world.open_host(&theirs, json!({"tenants": ["acme"]})).await;
        let acme = As::OwnerOf("acme");
        let types = ["call.completed", "tool_run", "audit.checkpoint"];
        let (own, strange) =
            (world.webhook(&As::Owner, &ours, &types).await, world.webhook(&acme, &theirs, &types).await);
        let body = json!({"url": ours.url("/"), "types": ["call.failed"]});
        world.send(&acme, "POST", "/api/v1/webhooks", body).await.refused(403);

        world.echo(&As::Owner).await;
        world.deliver().await;
        assert_eq!((ours.taken().len(), theirs.taken().len()), (2, 0));
        let call = world.echo(&acme).await;
        world.deliver().await;
        assert_eq!(ours.taken().len(), 0);
        let told = theirs.taken();
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|received| received.call() == text(&call, "id")));

        let keys = async |who: &As| world.get(who, "/api/v1/webhooks/keys").await.ok()["keys"][0].clone();
        let (our_key, their_key) = (keys(&As::Owner).await, keys(&acme).await);
        assert_ne!(our_key, their_key);
        assert!(is_signed_by(&told[0], text(&their_key, "public_key")));
        assert!(!is_signed_by(&told[0], text(&our_key, "public_key")), "a notice of one is none of the other's");
        assert!(!is_signed_with(&told[0], text(&own, "secret")));

        let path = format!("/api/v1/webhooks/{}", text(&strange, "id"));
        for (method, path) in [
            ("GET", path.clone()),
            ("DELETE", path.clone()),
            ("GET", format!("{path}/deliveries")),
            ("POST", format!("{path}/test")),
            ("POST", format!("{path}/resume")),
            ("POST", format!("{path}/rotate")),
        ] {
            world.send(&As::Owner, method, &path, json!({})).await.refused(404);
        }
        assert_eq!(world.get(&As::Owner, "/api/v1/webhooks").await.ok()["items"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_new_head_of_the_log_is_told_with_what_a_verifier_needs() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        world.open_host(&receiver, json!({})).await;
        world.webhook(&As::Owner, &receiver, &["audit.checkpoint"]).await;
        world.echo(&As::Owner).await;
        let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let head = world.app.audit.checkpoint(tenant).await.unwrap();
        world.app.engine.tell_of_checkpoint(tenant, &head).await.unwrap();
        world.deliver().await;
        let body: Value = serde_json::from_str(&receiver.taken()[0].body).unwrap();
        let checkpoint = head.checkpoint();
        assert_eq!(body["data"]["size"], checkpoint.size);
        assert_eq!(body["data"]["root"], json!(checkpoint.root));
        assert_eq!(body["data"]["log"], json!(checkpoint.origin));
    })
    .await;
}

#[tokio::test]
async fn only_whoever_edits_webhooks_sees_them_and_nonsense_is_refused_at_the_field() {
    every_world(async |world| {
        for role in ["viewer", "member", "approver", "author", "operator"] {
            let user = world.user("default", &format!("some-{role}"), &[role]).await;
            world.get(&user, "/api/v1/webhooks").await.refused(403);
            let body = json!({"url": "https://hooks.example.com/", "types": ["call.failed"]});
            world.send(&user, "POST", "/api/v1/webhooks", body).await.refused(403);
        }
        let admin = world.user("default", "ada", &["admin"]).await;
        let post = async |body| world.send(&admin, "POST", "/api/v1/webhooks", body).await;
        for (body, pointer) in [
            (json!({"url": "https://hooks.example.com/", "types": []}), "/types"),
            (json!({"url": "https://hooks.example.com/"}), "/types"),
            (json!({"url": "https://hooks.example.com/", "types": ["call.succeeded"]}), "/types/0"),
            (json!({"url": "https://hooks.example.com/", "types": ["call.failed"], "secret": "x"}), "/secret"),
        ] {
            let refused = post(body).await.refused(400);
            assert_eq!(refused["pointer"], pointer, "{refused:#}");
        }
        let made = post(json!({"url": "https://hooks.example.com/x", "types": ["tool_run", "tool_run"]})).await.ok();
        assert_eq!(made["types"], json!(["tool_run"]));
        assert!(text(&made, "secret").starts_with("whsec_"));
        let log = world.get(&As::Owner, "/api/v1/audit/entries?action=webhook.create").await.ok().to_string();
        assert!(log.contains("https://hooks.example.com") && !log.contains("/x\""), "a path may hold a key: {log}");
        for number in 1..50 {
            let body = json!({"url": format!("https://hooks.example.com/{number}"), "types": ["tool_run"]});
            post(body).await.ok();
        }
        post(json!({"url": "https://hooks.example.com/y", "types": ["tool_run"]})).await.refused(409);
        let path = format!("/api/v1/webhooks/{}", text(&made, "id"));
        world.send(&admin, "DELETE", &path, json!({})).await.ok();
        world.get(&admin, &path).await.refused(404);
    })
    .await;
}
