//! Secrets on the path: who is given which, that what was asked with is what is used, and that no value leaves by any
//! way there is.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::{
    CallRequest, Caller, Digest, Envelope, ErrorCode, Mode, Permissions, ResolvedSecret, Role, SecretAllowed,
    SecretPlace, SecretScope, Status, TenantId, ToolError, ToolResult, WorkspaceId,
};
use toolgate_engine::control::Report;
use toolgate_engine::external::LeaseRequest;
use toolgate_engine::runner::{Done, NewAttachment};
use toolgate_engine::{Outcome, Permit};
use toolgate_store::{Change, Scope};
use toolgate_vault::{NewValue, Secret};

use crate::encodings;
use crate::world::{World, error, every_world, request};

/// Long enough for every encoding, with characters that encodings change.
const VALUE: &str = "s3cr3t/Wert+für \"alle\" & <jeden>\\ 0123456789";

/// Everything that others would write for a value, one after the other.
fn spellings(value: &str) -> Vec<String> {
    let mut texts: Vec<String> = encodings::of_text(value).into_iter().map(|(_, text)| text).collect();
    for before in ["", "u", "us"] {
        let encoded = encodings::base64(before.as_bytes(), value.as_bytes(), b":x");
        texts.extend(encoded.into_iter().map(|encoded| encoded.text));
    }
    texts
}

/// What must be nowhere: a spelling that is the value's alone.
#[track_caller]
fn clean(what: &str, text: &str, value: &str) {
    for (name, spelled) in encodings::of_text(value) {
        assert!(!text.contains(&spelled), "{what} holds the value, {name}: {text:.2000}");
    }
    let unwrapped = encodings::without_wraps(text);
    for before in ["", "u", "us"] {
        for encoded in encodings::base64(before.as_bytes(), value.as_bytes(), b":x") {
            assert!(!unwrapped.contains(&encoded.core), "{what} holds the value, {}", encoded.name);
        }
    }
}

/// The runner of a tool that tells whatever it was given, by whichever way its input names.
pub async fn leak(permit: &Permit) -> Outcome {
    let call = permit.call();
    let Some(secret) = permit.secrets().get("KEY") else { return Outcome::structured(json!({"given": false})) };
    let value = secret.expose_text().unwrap();
    let all = spellings(value);
    let joined = all.join("\n|");
    match call.input["sink"].as_str().unwrap() {
        "digest" => Outcome::structured(json!({"digest": Digest::of(value.as_bytes())})),
        "output" => {
            let keys: serde_json::Map<String, Value> =
                all.iter().enumerate().map(|(at, text)| (format!("{at}{text}"), json!([text]))).collect();
            Outcome::structured(json!({"list": all, "keys": keys, "whole": joined}))
        }
        "text" => Outcome::Done(Done { result: ToolResult::text(&joined), ..Done::default() }),
        "padded" => {
            let pad = usize::try_from(call.input["pad"].as_u64().unwrap()).unwrap();
            Outcome::structured(json!(format!("{}{value}", "x".repeat(pad))))
        }
        "tool_error" => {
            let result = ToolResult { is_error: true, ..ToolResult::text(&joined) };
            Outcome::Done(Done { result, ..Done::default() })
        }
        "error" => ToolError::because(ErrorCode::ProviderError, "upstream_4xx", format!("GET https://x/?k={joined}"))
            .with("url", format!("https://x/?k={value}"))
            .with("list", all)
            .into(),
        "reason" => ToolError::because(ErrorCode::ProviderError, value, "a reason of its own").into(),
        "long_error" => {
            let message = format!("{}{value}", "x".repeat(8 * 1024 - 7));
            ToolError::because(ErrorCode::ProviderError, "upstream_4xx", message).into()
        }
        "padded_error" => {
            let pad = usize::try_from(call.input["pad"].as_u64().unwrap()).unwrap();
            let text = format!("{}{value}{}", "x".repeat(pad), "y".repeat(10_000));
            let error = ToolError::because(ErrorCode::ProviderError, "upstream_4xx", text.as_str());
            error.with("body", text.as_str()).with("inner", json!({"list": [text]})).into()
        }
        "unknown" => Outcome::Unknown(joined),
        "attach" => {
            let utf16: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let attachment = |bytes: Vec<u8>| NewAttachment {
                kind: AttachmentKind::Blob,
                content_type: format!("text/{value}"),
                bytes,
            };
            let attachments = vec![attachment(joined.into_bytes()), attachment([b"\xff\xfe".to_vec(), utf16].concat())];
            Outcome::Done(Done { result: ToolResult::structured(json!(1)), attachments, ..Done::default() })
        }
        "stream" => {
            let cuts = call.input["cuts"].as_array().unwrap().iter().map(|cut| cut.as_u64().unwrap());
            let chars: Vec<char> = joined.chars().collect();
            let (mut at, mut cuts) = (0, cuts.cycle());
            let mut pieces = 0;
            while at < chars.len() {
                let length = usize::try_from(cuts.next().unwrap()).unwrap().max(1);
                let end = (at + length).min(chars.len());
                call.output.append(chars[at..end].iter().collect::<String>()).await;
                at = end;
                pieces += 1;
                if pieces % 40 == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                }
            }
            Outcome::structured(json!({"streamed": true}))
        }
        "panic" => panic!("{joined}"),
        other => panic!("no sink {other}"),
    }
}

impl World {
    async fn workspace(&self) -> WorkspaceId {
        self.store.workspaces(self.tenant).await.unwrap()[0].id
    }

    /// Keeps a value and gives it to these tools.
    async fn secret_in(&self, tenant: TenantId, place: SecretPlace, value: &str, tools: &[&str]) -> ResolvedSecret {
        let allowed = SecretAllowed {
            tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
            ..SecretAllowed::default()
        };
        let secret = Secret::new("KEY", value.as_bytes().to_vec());
        let new = NewValue { place, secret: &secret, allowed: Some(allowed), by: "local:1000" };
        let info = self.engine.vault().put(tenant, new, |_| Change::new(tenant)).await.unwrap().info;
        ResolvedSecret { name: info.name, scope: info.scope, scope_id: info.scope_id, version: info.version }
    }

    async fn org_secret(&self, value: &str, tools: &[&str]) -> ResolvedSecret {
        self.secret_in(self.tenant, SecretPlace::org(self.tenant), value, tools).await
    }

    /// What everything that is kept says, as text.
    async fn kept(&self) -> String {
        let mut text = String::new();
        for (table, columns) in [
            ("calls", "input, output, error, attachments, decision, metadata, secrets, usage"),
            ("events", "events"),
            ("event_parts", "text"),
            ("audit_leaves", "entry"),
            ("blobs", "content_type"),
            ("secrets", "allowed, created_by"),
        ] {
            for column in columns.split(", ") {
                let sql = format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL");
                let scope = Scope::Everyone("a test reads everything");
                for row in self.store.query(&scope, &sql, vec![]).await.unwrap() {
                    text.push_str(&row.get::<String>(0).unwrap());
                    text.push('\n');
                }
            }
        }
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    text.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
                }
            }
        }
        text
    }

    async fn leak_as(&self, caller: &Caller, tool: &str, sink: &str) -> Envelope {
        self.call_as(caller, tool, json!({"act": "leak", "sink": sink})).await
    }
}

fn digest_of(envelope: &Envelope) -> Value {
    envelope.output.clone().unwrap_or_else(|| panic!("{envelope:?}"))["digest"].clone()
}

fn digest(value: &str) -> Value {
    json!(Digest::of(value.as_bytes()))
}

/// Test 33 of the rules: in no sink, in no encoding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_33_no_value_leaves_by_any_sink_in_any_encoding() {
    every_world(async |world| {
        world.org_secret(VALUE, &["secretive", "secretive_note", "secretive_cached"]).await;
        let owner = world.owner();
        for tool in ["secretive", "secretive_note", "secretive_cached"] {
            for sink in [
                "output",
                "text",
                "tool_error",
                "error",
                "reason",
                "long_error",
                "unknown",
                "attach",
                "panic",
                "digest",
            ] {
                let envelope = world.leak_as(&owner, tool, sink).await;
                clean(sink, &serde_json::to_string(&envelope).unwrap(), VALUE);
                clean(sink, &format!("{envelope:?}"), VALUE);
                if matches!(sink, "output" | "text" | "error" | "tool_error") {
                    assert!(format!("{envelope:?}").contains("[secret:KEY]"), "{sink}: {envelope:?}");
                }
            }
        }
        let again = world.leak_as(&owner, "secretive_cached", "output").await;
        assert!(again.cached, "what was kept for the next is as clean");
        clean("the cache", &serde_json::to_string(&again).unwrap(), VALUE);
        clean("what is kept", &world.kept().await, VALUE);
    })
    .await;
}

/// Test 33 of the rules: at whichever places a stream is cut.
#[test]
fn test_33_no_value_leaves_by_a_stream_wherever_it_is_cut() {
    let mut runner = TestRunner::new(Config { cases: 4, failure_persistence: None, ..Config::default() });
    let cuts = prop::collection::vec(1u64..60, 1..20);
    let ran = runner.run(&cuts, |cuts| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(every_world(async |world| {
            world.org_secret(VALUE, &["secretive"]).await;
            let envelope = world.call("secretive", json!({"act": "leak", "sink": "stream", "cuts": cuts})).await;
            assert_eq!(envelope.status, Status::Completed, "{envelope:?}");
            let kept = world.kept().await;
            clean("a stream", &kept, VALUE);
            assert!(kept.contains("[secret:KEY]"), "it was streamed");
        }));
        Ok(())
    });
    ran.unwrap();
}

/// Test 34 of the rules: redaction comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_34_what_is_cut_leaves_no_beginning_of_a_value() {
    every_world(async |world| {
        world.org_secret(VALUE, &["secretive_small"]).await;
        for pad in (1000 - VALUE.len() - 4)..1004 {
            let input = json!({"act": "leak", "sink": "padded", "pad": pad});
            let envelope = world.call("secretive_small", input).await;
            let text = serde_json::to_string(&envelope.output).unwrap();
            assert!(!text.contains("s3c"), "pad {pad}: {text}");
        }
        for pad in [8 * 1024 - VALUE.len() - 1, 8 * 1024 - 9, 8 * 1024 - 4, 8 * 1024] {
            let input = json!({"act": "leak", "sink": "padded_error", "pad": pad});
            let error = world.call("secretive_small", input).await.error.unwrap();
            let text = serde_json::to_string(&error).unwrap();
            assert!(!text.contains("s3c"), "pad {pad}: {text}");
            assert!(text.len() < 3 * 9 * 1024, "what is too long for reading is cut: {}", text.len());
        }
        // Ids are letters, too: three of them may be anything.
        assert!(!world.kept().await.contains(&VALUE[..6]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nearest_secret_is_used_and_the_record_says_which() {
    every_world(async |world| {
        let (owner, tools) = (world.owner(), ["secretive"]);
        let missing = world.leak_as(&owner, "secretive", "digest").await;
        assert_eq!(error(&missing), (ErrorCode::AuthRequired, "secret_missing"));
        let message = &missing.error.as_ref().unwrap().message;
        assert!(message.contains("toolgate secret set KEY --tool secretive"), "{message}");
        assert_eq!(world.runner.runs("secretive"), 0, "never an empty text in its place");

        world.org_secret("the org's own", &tools).await;
        let workspace = SecretPlace::workspace(world.workspace().await);
        let mut used = Vec::new();
        for (place, value) in [
            (SecretPlace::org(world.tenant), "the org's new"),
            (workspace, "the workspace's"),
            (SecretPlace::of(owner.principal), "the owner's own"),
        ] {
            let found = world.secret_in(world.tenant, place, value, &tools).await;
            let envelope = world.leak_as(&owner, "secretive", "digest").await;
            assert_eq!(digest_of(&envelope), digest(value));
            let record = world.record(envelope.id).await;
            assert_eq!(record.secrets, Some(json!([found])));
            used.push((found.scope, found.version));
        }
        assert_eq!(used, [(SecretScope::Org, 2), (SecretScope::Workspace, 1), (SecretScope::User, 1)]);

        // Somebody else has no secret of the owner's, and no workspace.
        let member = world.with_key(Permissions::of([Role::Member]));
        let theirs = world.leak_as(&member, "secretive", "digest").await;
        assert_eq!(digest_of(&theirs), digest("the org's new"));
        // An agent has its workspace's.
        let (_, agent) = world.agent("robot", json!({})).await;
        let its = world.leak_as(&agent, "secretive", "digest").await;
        assert_eq!(digest_of(&its), digest("the workspace's"));
        // The neighbours have nothing.
        let next_door = world.leak_as(&world.owner_next_door(), "secretive", "digest").await;
        assert_eq!(error(&next_door), (ErrorCode::AuthRequired, "secret_missing"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_the_owner_did_not_list_gets_nothing() {
    every_world(async |world| {
        world.org_secret("the org's own", &["another"]).await;
        let refused = world.leak_as(&world.owner(), "secretive", "digest").await;
        assert_eq!(error(&refused), (ErrorCode::AuthRequired, "secret_not_allowed"));
        let message = &refused.error.as_ref().unwrap().message;
        assert!(message.contains("toolgate secret allow KEY --scope org --tool secretive"), "{message}");
        assert_eq!(world.runner.runs("secretive"), 0);
        // The nearest wins also where it is not given: nothing falls through to the org.
        world.org_secret("the org's own", &["secretive"]).await;
        let own = SecretPlace::of(world.owner().principal);
        world.secret_in(world.tenant, own, "the owner's own", &[]).await;
        let refused = world.leak_as(&world.owner(), "secretive", "digest").await;
        assert_eq!(error(&refused), (ErrorCode::AuthRequired, "secret_not_allowed"));
        // What it can do without it does without.
        let without = world.leak_as(&world.owner(), "secretive_maybe", "digest").await;
        assert_eq!(without.output, Some(json!({"given": false})));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_plans_gets_none() {
    every_world(async |world| {
        world.org_secret(VALUE, &["secretive"]).await;
        let input = json!({"act": "leak", "sink": "output"});
        let dry =
            world.send(&world.owner(), request("secretive", input, |call| call.mode = Mode::DryRun)).await.unwrap();
        assert_eq!(dry.status, Status::Completed, "{dry:?}");
        assert_eq!((world.runner.plans(), world.runner.runs("secretive")), (1, 0));
        assert_eq!(world.record(dry.id).await.secrets, None);
    })
    .await;
}

/// Test 45 of the rules: what was made with one's secrets is for nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_45_nobody_shares_a_flight_or_a_kept_result_with_another_secret() {
    every_world(async |world| {
        let callers = [world.member(), world.member()];
        for (caller, value) in callers.iter().zip(["value of the first", "value of the second"]) {
            let place = SecretPlace::of(caller.principal);
            world.secret_in(world.tenant, place, value, &["secretive_cached"]).await;
        }
        let input = json!({"act": "leak", "sink": "digest", "key": "flight"});
        let send = |caller: &Caller| {
            let request = CallRequest::new("secretive_cached", input.clone());
            let (engine, caller) = (world.engine.clone(), caller.clone());
            tokio::spawn(async move { engine.submit(&caller, toolgate_contracts::Source::Api, request).await })
        };
        let (first, second) = (send(&callers[0]), send(&callers[1]));
        let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
        assert_eq!(digest_of(&first), digest("value of the first"));
        assert_eq!(digest_of(&second), digest("value of the second"));
        let again = world.call_as(&callers[1], "secretive_cached", input.clone()).await;
        assert!(again.cached && digest_of(&again) == digest("value of the second"));
        // A new version is another result.
        let place = SecretPlace::of(callers[1].principal);
        world.secret_in(world.tenant, place, "a newer value", &["secretive_cached"]).await;
        let newer = world.call_as(&callers[1], "secretive_cached", input).await;
        assert!(!newer.cached && digest_of(&newer) == digest("a newer value"));
    })
    .await;
}

/// Test 43 of the rules: what was approved is this version of this scope's secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_43_a_secret_that_changes_while_a_call_waits_ends_it() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let own = SecretPlace::of(ada.principal);
        let input = json!({"act": "leak", "sink": "digest"});
        let tools = ["secretive_asking"];
        let bound = world.org_secret("the org's own", &tools).await;

        let call = world.park(&ada, "secretive_asking", input.clone()).await;
        assert_eq!(world.record(call).await.secrets, Some(json!([bound])));
        assert_eq!(world.card(&ben, call).await.secrets, Some(json!([bound])), "whoever decides sees as whom");
        world.approve(&ben, call).await.unwrap();
        let ran = world.record(call).await;
        assert_eq!((ran.status, ran.output.unwrap()["digest"].clone()), (Status::Completed, digest("the org's own")));

        let mut ended = Vec::new();
        for change in ["newer", "nearer", "gone"] {
            let call = world.park(&ada, "secretive_asking", input.clone()).await;
            match change {
                "newer" => drop(world.org_secret("a newer value", &tools).await),
                "nearer" => drop(world.secret_in(world.tenant, own, "the caller's own", &tools).await),
                _ => {
                    let mut change = Change::new(world.tenant);
                    change.delete_secret(own, "KEY");
                    world.store.commit(change).await.unwrap();
                }
            }
            world.approve(&ben, call).await.unwrap();
            let record = world.record(call).await;
            assert!(matches!(record.status, Status::Rejected | Status::Failed), "{change}: {record:?}");
            ended.push((change, record.error.map(|error| error.reason().to_owned())));
        }
        let failed = |change| (change, Some("secret_missing".to_owned()));
        assert_eq!(
            ended,
            [failed("newer"), failed("nearer"), failed("gone")],
            "never with another, never by the org's"
        );
        assert_eq!(world.runner.runs("secretive_asking"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_gets_secrets_only_in_the_behaviour_they_were_given_to() {
    every_world(async |world| {
        let worker = world.worker();
        let declared = json!({"secrets": [{"name": "KEY", "purpose": "a key"}]});
        world.external("far", false, declared.clone()).await;
        let lease = async || {
            let request = LeaseRequest { tools: vec!["far".to_owned()], wait: None };
            world.engine.lease(&worker, request).await.unwrap()
        };
        let offer = async || {
            // Long enough to be in nobody's hands but a worker's.
            let call = request("far", json!({"n": 1}), |call| call.wait = Some(1));
            // Somebody new each time, who has seen nothing yet.
            world.send(&world.member(), call).await.unwrap()
        };
        world.org_secret(VALUE, &["far"]).await;
        let listed = offer().await;
        let record = world.ended(listed.id).await;
        assert_eq!(record.error.unwrap().reason(), "secret_not_allowed", "a tool that is code needs its pin");

        let pinned = {
            let snapshot = world.registry.snapshot();
            let registry = snapshot.tenant(world.tenant).unwrap();
            registry.resolve(&"far".parse().unwrap(), "2026-11-15").unwrap().behaviour_digest
        };
        let allowed = SecretAllowed {
            tools: vec!["far".parse().unwrap()],
            code: [("far".parse().unwrap(), pinned)].into(),
            ..SecretAllowed::default()
        };
        let vault = world.engine.vault();
        let sealed = vault.find(world.tenant, SecretPlace::org(world.tenant), "KEY").await.unwrap().unwrap();
        vault.allow(world.tenant, &sealed, &allowed, Change::new(world.tenant)).await.unwrap();
        let call = offer().await;
        assert_eq!(call.status, Status::Running, "{call:?}");
        clean("the answer to whoever asked", &serde_json::to_string(&call).unwrap(), VALUE);
        let leased = lease().await.unwrap();
        clean("a debug print", &format!("{leased:?}"), VALUE);
        assert_eq!(serde_json::to_value(&leased.context).unwrap()["secrets"], json!({"KEY": VALUE}));
        let report = json!({"status": "completed", "output": {"echo": VALUE}});
        let report: Report = serde_json::from_value(report).unwrap();
        let ended = world.engine.complete(&worker, leased.lease_id, report).await.unwrap();
        assert_eq!(ended.output, Some(json!({"echo": "[secret:KEY]"})));

        // The value is replaced while a worker has it: nobody can tell what the report holds.
        let call = offer().await;
        let leased = lease().await.unwrap();
        world.secret_in(world.tenant, SecretPlace::org(world.tenant), "another value", &["far"]).await;
        let report: Report = serde_json::from_value(json!({"status": "completed", "output": {"echo": VALUE}})).unwrap();
        let ended = world.engine.complete(&worker, leased.lease_id, report).await.unwrap();
        assert_eq!((ended.id, ended.status, ended.output.as_ref()), (call.id, Status::Completed, None));
        assert_eq!(error(&ended), (ErrorCode::PolicyDenied, "result_withheld"));
        clean("what is kept", &world.kept().await, VALUE);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preflight_names_what_is_missing() {
    every_world(async |world| {
        let reasons = async || world.engine.preflight(&world.owner(), "secretive").await.unwrap().reasons;
        assert!(reasons().await[0].contains("needs the secret `KEY`"), "{:?}", reasons().await);
        world.org_secret(VALUE, &[]).await;
        assert!(reasons().await[0].contains("is not given to `secretive`"), "{:?}", reasons().await);
        world.org_secret(VALUE, &["secretive"]).await;
        assert_eq!(reasons().await, Vec::<String>::new());
        let found = world.engine.preflight(&world.owner(), "secretive").await.unwrap();
        assert_eq!((found.secrets[0].scope, found.secrets[0].given), (Some(SecretScope::Org), true));
        assert!(found.asks.is_empty(), "nobody is asked");
    })
    .await;
}

#[tokio::test]
async fn preflight_says_of_a_secret_that_it_may_not_go_where_the_request_goes() {
    every_world(async |world| {
        let secret = json!([{"name": "KEY", "purpose": "A key."}]);
        let runner = json!({"kind": "http", "method": "GET", "url": "https://api.example/v1/bill"});
        world.publish("billed", json!({"egress_class": "read_only", "secrets": secret, "runner": runner})).await;
        world.org_secret("given", &["billed"]).await;
        let found = world.engine.preflight(&world.owner(), "billed").await.unwrap();
        assert!(found.reasons.iter().any(|reason| reason.contains("may not go to `api.example`")), "{found:?}");
        assert!(!found.secrets[0].given);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn which_secret_a_name_means_can_be_asked() {
    every_world(async |world| {
        let owner = world.owner();
        let which = async |agent: Option<&str>| world.engine.which_secret(&owner, "KEY", agent).await.unwrap();
        assert!(which(None).await.found.is_none());
        world.org_secret(VALUE, &[]).await;
        let found = which(None).await;
        assert_eq!(found.found.unwrap().scope, SecretScope::Org);
        assert_eq!(found.warnings.len(), 1, "everybody's is worth a warning");
        world.agent("robot", json!({})).await;
        let place = SecretPlace::workspace(world.workspace().await);
        world.secret_in(world.tenant, place, "the workspace's", &[]).await;
        assert_eq!(which(Some("robot")).await.found.unwrap().scope, SecretScope::Workspace);
        world.secret_in(world.tenant, SecretPlace::of(owner.principal), "my own", &[]).await;
        assert_eq!(which(None).await.found.unwrap().scope, SecretScope::User);
        assert!(world.engine.which_secret(&owner, "KEY", Some("nobody")).await.is_err());
    })
    .await;
}
