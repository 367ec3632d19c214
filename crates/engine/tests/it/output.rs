//! What becomes of what a tool gives back.

use data_encoding::BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_contracts::{BlobId, Caller, Envelope, ErrorCode, FaultKind, Status, json as strict};

use crate::world::{World, error, every_world};

fn blob_of(url: &str) -> BlobId {
    url.strip_prefix("/api/v1/blobs/").unwrap().parse().unwrap()
}

async fn attached(world: &World, caller: &Caller, envelope: &Envelope, at: usize) -> (String, Vec<u8>) {
    let attachment = &envelope.attachments[at];
    let found = world.engine.attached(caller, blob_of(&attachment.url)).await.unwrap();
    assert_eq!(attachment.content_type.as_ref(), Some(&found.content_type));
    assert_eq!(attachment.bytes, Some(found.bytes.len() as u64));
    (found.content_type, found.bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_does_not_match_fails_a_call_unless_it_changed_something() {
    every_world(async |world| {
        let wrong = json!({"n": 1, "value": {"n": "seven"}});
        let free = world.call("strict", wrong.clone()).await;
        assert_eq!((free.status, error(&free)), (Status::Failed, (ErrorCode::ProviderError, "output_schema")));
        assert_eq!(free.output, None);
        world.check_record(&free).await;
        let note = world.call("strict_note", wrong).await;
        assert_eq!((note.status, error(&note)), (Status::Completed, (ErrorCode::ProviderError, "output_schema")));
        world.check_record(&note).await;
        assert_eq!(world.event_types(note.run_id).await, ["tool.started", "tool.completed"]);
        let right = world.call("strict", json!({"n": 1, "value": {"n": 7, "more": null}})).await;
        assert_eq!((right.status, right.output), (Status::Completed, Some(json!({"n": 7, "more": null}))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_output_is_a_smaller_value_with_the_whole_beside_it() {
    every_world(async |world| {
        let owner = world.owner();
        let text = "ä".repeat(3000);
        let rows: Vec<u32> = (0..2000).collect();
        let cases = [
            ("small", json!(text)),
            ("small", json!({"a": text, "b": [1, 2], "c": {"d": text}})),
            ("small", json!(vec!["x".repeat(40); 200])),
            ("small_list", json!({"rows": rows})),
        ];
        for (tool, value) in cases {
            let envelope = world.call(tool, json!({"value": value})).await;
            assert_eq!((envelope.status, envelope.truncated), (Status::Completed, true), "{tool}");
            let small = envelope.output.clone().unwrap();
            assert!(strict::canonical(&small).len() <= 1000);
            if tool == "small_list" {
                let rows = small["rows"].as_array().unwrap();
                assert!(rows.len() > 10 && rows.iter().all(Value::is_u64), "it still matches the schema: {small}");
            }
            let (content_type, bytes) = attached(&world, &owner, &envelope, 0).await;
            assert_eq!(content_type, "application/json");
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value, "the whole");
            let blob = world.store.blob(world.tenant, blob_of(&envelope.attachments[0].url)).await.unwrap().unwrap();
            let sha256: [u8; 32] = Sha256::digest(&bytes).into();
            assert_eq!(blob.sha256.as_bytes(), &sha256);
            world.check_record(&envelope).await;
        }
        // An agent's own limit is stricter than the tool's, never looser.
        let (_, key) = world.agent("small", json!({"limits": {"max_output_bytes": 100}})).await;
        let envelope = world.call_as(&key, "script", json!({"value": "x".repeat(500)})).await;
        assert!(envelope.truncated && strict::canonical(&envelope.output.unwrap()).len() <= 100);
        let (_, key) = world.agent("large", json!({"limits": {"max_output_bytes": 10_000}})).await;
        assert!(world.call_as(&key, "small", json!({"value": "x".repeat(1500)})).await.truncated);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_and_tables_are_attached() {
    every_world(async |world| {
        let owner = world.owner();
        let pixels: Vec<u8> = (0..=255).collect();
        let result = json!({"content": [
            {"type": "text", "text": "a picture"},
            {"type": "image", "data": BASE64.encode(&pixels), "mime_type": "image/png"},
            {"type": "audio", "data": BASE64.encode(b"la la"), "mime_type": "text/html; <script>"},
            {"type": "image", "data": "not base64!", "mime_type": "image/png"},
        ]});
        let envelope = world.call("script", json!({"act": "result", "result": result})).await;
        assert_eq!(envelope.attachments.len(), 2);
        assert_eq!(envelope.attachments[0].kind.as_str(), "image");
        assert_eq!(attached(&world, &owner, &envelope, 0).await, ("image/png".to_owned(), pixels));
        let (content_type, bytes) = attached(&world, &owner, &envelope, 1).await;
        assert_eq!((content_type.as_str(), bytes.as_slice()), ("application/octet-stream", &b"la la"[..]));
        assert_eq!(envelope.output, Some(json!("a picture\n[image/png: not base64, left out]")));
        world.check_record(&envelope).await;

        let mut rows = vec![json!({"name": "=1+1", "n": 1}), json!({"name": "b", "n": 2})];
        let envelope = world.call("tables", json!({"value": {"rows": rows}})).await;
        assert!(envelope.attachments.is_empty(), "whoever reads it has all of it");
        rows.push(json!({"name": "c".repeat(17_000), "n": 3}));
        let envelope = world.call("tables", json!({"value": {"rows": rows}})).await;
        assert_eq!(envelope.attachments[0].kind.as_str(), "table");
        let (content_type, bytes) = attached(&world, &owner, &envelope, 0).await;
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(content_type, "text/csv");
        assert!(text.starts_with("name,n\r\n'=1+1,1\r\nb,2\r\nccc"), "{}", &text[..40]);

        let envelope = world.call("script", json!({"act": "attach", "bytes": "as it is"})).await;
        assert_eq!(attached(&world, &owner, &envelope, 0).await, ("text/plain".to_owned(), b"as it is".to_vec()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attachment_is_for_whoever_may_read_its_call_and_for_a_while() {
    every_world(async |world| {
        let (member, stranger) = (world.member(), world.member());
        let call = async |caller: &Caller| {
            let envelope = world.call_as(caller, "cached", json!({"act": "attach", "bytes": "mine", "key": "k"})).await;
            blob_of(&envelope.attachments[0].url)
        };
        let blob = call(&member).await;
        let engine = &world.engine;
        for reader in [&member, &world.owner()] {
            assert_eq!(engine.attached(reader, blob).await.unwrap().bytes, b"mine");
        }
        let (_, key) = world.agent("other", json!({})).await;
        let of_same_person = Caller { principal: member.principal, ..key };
        for reader in [&stranger, &world.owner_next_door(), &of_same_person] {
            assert_eq!(engine.attached(reader, blob).await.unwrap_err().kind(), FaultKind::NotFound);
        }
        let nowhere = BlobId::from_uuid(world.tenant.uuid());
        assert_eq!(engine.attached(&member, nowhere).await.unwrap_err().kind(), FaultKind::NotFound);
        // Each call that was given the same result has its own.
        let second = call(&member).await;
        assert_ne!(second, blob);
        let row = world.store.blob(world.tenant, blob).await.unwrap().unwrap();
        world.clock.advance(30 * 24 * 60 * 60 - 1);
        assert!(engine.attached(&member, blob).await.is_ok());
        // A file that is not what its row says is not given out.
        let path = world.folder.path().join("blobs").join(&row.location);
        std::fs::write(&path, b"them").unwrap();
        assert_eq!(engine.attached(&member, blob).await.unwrap_err().kind(), FaultKind::Internal);
        world.clock.advance(1);
        assert_eq!(engine.attached(&member, second).await.unwrap_err().kind(), FaultKind::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_come_back_as_they_were_given() {
    every_world(async |world| {
        let value = json!({
            "most": 9_007_199_254_740_991_i64, "least": -9_007_199_254_740_991_i64, "half": 0.5, "tiny": 5e-324,
            "text": "\u{0000}\u{2028}\"\\", "null": null, "nested": [[[]], {}], "": "empty name", "é": "é", "truth": true,
        });
        let envelope = world.call("script", json!({"value": value})).await;
        assert_eq!(envelope.output, Some(value));
        world.check_record(&envelope).await;
        // What readers of JSON would read differently is not passed on.
        for which in ["odd", "most", "float"] {
            let input = json!({"act": "beyond", "which": which});
            for (tool, status) in [("script", Status::Failed), ("note", Status::Completed)] {
                let envelope = world.call(tool, input.clone()).await;
                assert_eq!((envelope.status, error(&envelope).1), (status, "output_schema"), "{which}");
                assert_eq!(world.check_record(&envelope).await.output, None);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_s_own_error_is_told_and_not_endless() {
    every_world(async |world| {
        for tool in ["script", "note"] {
            let long = format!("no such record {}", "x".repeat(20_000));
            let result =
                json!({"content": [{"type": "text", "text": long}], "is_error": true, "app_data": {"hidden": 1}});
            let envelope = world.call(tool, json!({"act": "result", "result": result})).await;
            assert_eq!((envelope.status, error(&envelope).0), (Status::Failed, ErrorCode::ProviderError), "{tool}");
            let message = &envelope.error.as_ref().unwrap().message;
            assert!(message.starts_with("no such record") && message.len() < 9000, "{}", message.len());
            world.check_record(&envelope).await;
        }
        let quiet = world.call("script", json!({"act": "result", "result": {"is_error": true}})).await;
        assert!(!quiet.error.unwrap().message.is_empty());
        let app = json!({"structured": {"a": 1}, "app_data": {"hidden": "word"}});
        let envelope = world.call("script", json!({"act": "result", "result": app})).await;
        assert_eq!(envelope.output, Some(json!({"a": 1})), "what is for the application is not for the model");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_also_when_its_attachment_cannot_be_kept() {
    every_world(async |world| {
        std::fs::write(world.folder.path().join("blobs"), b"in the way").unwrap();
        let input = json!({"act": "attach", "bytes": "lost", "value": {"n": 1}});
        for (tool, status) in [("script", Status::Failed), ("note", Status::Completed)] {
            let envelope = world.call(tool, input.clone()).await;
            assert_eq!((envelope.status, error(&envelope).1), (status, "interrupted"), "{tool}");
            assert!(envelope.attachments.is_empty());
            world.check_record(&envelope).await;
        }
    })
    .await;
}
