//! Policies, guardrails and labels over HTTP: what is said of a text, who may change what, and what it changes.

use serde_json::{Value, json};

use crate::world::{As, World, every_world};

const DEFAULTS: &str = "permit (principal, action, resource);";

async fn codes(world: &World, source: &str) -> Vec<(String, u64)> {
    let checked = world.send(&As::Owner, "POST", "/api/v1/policies/check", json!({"source": source})).await.ok();
    let findings = checked["findings"].as_array().unwrap();
    assert_eq!(checked["ok"], json!(findings.iter().all(|finding| finding["gravity"] != "error")));
    let code = |finding: &Value| (finding["code"].as_str().unwrap().to_owned(), finding["line"].as_u64().unwrap());
    findings.iter().map(code).collect()
}

#[tokio::test]
async fn policies_are_checked_saved_activated_and_tried() {
    every_world(async |world| {
        let default = world.get(&As::Owner, "/api/v1/policies/active").await.ok();
        assert_eq!((&default["revision"], &default["active"]), (&json!(0), &json!(true)));
        assert_eq!(default["policies"].as_array().unwrap().len(), 2);
        assert_eq!(world.get(&As::Owner, "/api/v1/policies").await.ok()["items"], json!([]));
        world.get(&As::Owner, "/api/v1/policies/7").await.refused(404);
        world.get(&As::Owner, "/api/v1/policies/nonsense").await.refused(404);

        assert_eq!(codes(&world, DEFAULTS).await, []);
        assert_eq!(codes(&world, "permit (").await.len(), 1);
        let typo = format!("{DEFAULTS}\nforbid (principal, action, resource == Tool::\"ecko\");");
        assert_eq!(codes(&world, &typo).await, [("policy.unknown-tool".to_owned(), 2)]);
        // With an error nothing is saved, and the answer says why.
        let saved = world.send(&As::Owner, "POST", "/api/v1/policies", json!({"source": typo})).await.ok();
        assert_eq!((&saved["saved"], saved["findings"].as_array().unwrap().len()), (&Value::Null, 1));
        assert_eq!(world.get(&As::Owner, "/api/v1/policies").await.ok()["items"], json!([]));

        let call = json!({"tool": "echo", "input": {"text": "hello"}});
        world.send(&As::Owner, "POST", "/api/v1/calls", call.clone()).await.ok();
        let strict = format!(
            "{DEFAULTS}\n@id(\"no-hello\") @reason(\"say it otherwise\")
             forbid (principal, action == Action::\"call\", resource == Tool::\"echo\") when {{ context.args.text == \"hello\" }};"
        );
        let tried = json!({"source": strict, "since": "2026-11-01T00:00:00Z"});
        let tried = world.send(&As::Owner, "POST", "/api/v1/policies/test", tried).await.ok();
        assert_eq!((&tried["calls"], &tried["newly_denied"]), (&json!(1), &json!(1)), "{tried:#}");
        assert_eq!((&tried["changes"][0]["tool"], &tried["changes"][0]["policies"]), (&json!("echo"), &json!(["no-hello"])));
        let wrong = json!({"since": "2026-11-01T00:00:00Z"});
        world.send(&As::Owner, "POST", "/api/v1/policies/test", wrong).await.refused(400);

        let saved = json!({"source": strict, "note": "politer"});
        let saved = world.send(&As::Owner, "POST", "/api/v1/policies", saved).await.ok();
        assert_eq!(saved["saved"]["revision"], 1);
        world.send(&As::Owner, "POST", "/api/v1/calls", call.clone()).await.ok();
        let stale = json!({"expected_active": 3});
        world.send(&As::Owner, "POST", "/api/v1/policies/1/activate", stale).await.refused(409);
        let activated = json!({"expected_active": 0});
        let answer = world.send(&As::Owner, "POST", "/api/v1/policies/1/activate", activated).await;
        assert!(answer.headers.contains_key("toolgate-revision"));
        answer.ok();
        let denied = world.send(&As::Owner, "POST", "/api/v1/calls", call.clone()).await.ok();
        assert_eq!(denied["error"]["details"]["policy"], "no-hello", "{denied:#}");
        let listed = world.get(&As::Owner, "/api/v1/policies").await.ok();
        assert_eq!((&listed["items"][0]["active"], &listed["items"][0]["note"]), (&json!(true), &json!("politer")));
        let shown = world.get(&As::Owner, "/api/v1/policies/active").await.ok();
        assert_eq!((&shown["revision"], &shown["source"]), (&json!(1), &json!(strict)));
        world.send(&As::Owner, "POST", "/api/v1/policies/default/activate", json!({})).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/policies/2/activate", json!({})).await.refused(404);

        // Who does not edit them does none of it; who decides reads them.
        for (role, reads) in [("member", 403), ("author", 403), ("approver", 200), ("viewer", 403), ("service", 403)] {
            let who = world.user("default", role, &[role]).await;
            assert_eq!(world.get(&who, "/api/v1/policies/active").await.status, reads, "{role}");
            assert_eq!(world.get(&who, "/api/v1/policies").await.status, reads, "{role}");
            world.send(&who, "POST", "/api/v1/policies", json!({"source": DEFAULTS})).await.refused(403);
            world.send(&who, "POST", "/api/v1/policies/check", json!({"source": DEFAULTS})).await.refused(403);
            world.send(&who, "POST", "/api/v1/policies/1/activate", json!({})).await.refused(403);
            let tried = json!({"source": DEFAULTS, "since": "2026-11-01T00:00:00Z"});
            world.send(&who, "POST", "/api/v1/policies/test", tried).await.refused(403);
        }
    })
    .await;
}

#[tokio::test]
async fn guardrails_are_set_tried_and_removed() {
    every_world(async |world| {
        let guardrail = json!({
            "name": "no-keys", "stage": "TOOL_CALL", "detector": {"kind": "builtin", "name": "secrets"}, "on_match": "tripwire",
        });
        let tried = json!({"guardrail": guardrail, "value": {"a": "AKIAIOSFODNN7EXAMPLE"}});
        let found = world.send(&As::Owner, "POST", "/api/v1/guardrails/test", tried).await.ok();
        assert_eq!((&found["matched"], &found["paths"]), (&json!(true), &json!(["/a"])));
        assert!(!found.to_string().contains("AKIA"));
        assert_eq!(world.get(&As::Owner, "/api/v1/guardrails").await.ok()["items"], json!([]));
        world.send(&As::Owner, "PUT", "/api/v1/guardrails/other", guardrail.clone()).await.refused(400);
        world.send(&As::Owner, "PUT", "/api/v1/guardrails/no-keys", guardrail.clone()).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/guardrails/no-keys").await.ok();
        assert_eq!((&shown["place"], &shown["guardrail"]["detector"]["name"]), (&json!(1), &json!("secrets")));
        let call = json!({"tool": "echo", "input": {"text": "AKIAIOSFODNN7EXAMPLE"}});
        let stopped = world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok();
        assert_eq!(stopped["error"]["details"]["guardrail"], "no-keys");
        let wrong = json!({"name": "w", "stage": "TOOL_CALL", "detector": {"kind": "wasm", "name": "x"}, "on_match": "ask"});
        let refused = world.send(&As::Owner, "PUT", "/api/v1/guardrails/w", wrong).await.refused(404);
        assert_eq!(refused["pointer"], "/detector/name");
        for role in ["member", "author", "service", "approver"] {
            let who = world.user("default", role, &[role]).await;
            world.send(&who, "PUT", "/api/v1/guardrails/no-keys", guardrail.clone()).await.refused(403);
            world.send(&who, "DELETE", "/api/v1/guardrails/no-keys", json!(null)).await.refused(403);
            let tried = json!({"guardrail": guardrail, "value": 1});
            world.send(&who, "POST", "/api/v1/guardrails/test", tried).await.refused(403);
        }
        world.send(&As::Owner, "DELETE", "/api/v1/guardrails/no-keys", json!(null)).await.ok();
        world.send(&As::Owner, "DELETE", "/api/v1/guardrails/no-keys", json!(null)).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn labels_are_shown_accepted_and_reset_by_whom_it_behoves() {
    every_world(async |world| {
        let call = json!({"tool": "echo", "input": {"text": "a"}, "labels": ["untrusted", "private"]});
        let done = world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok();
        assert_eq!(done["labels"], json!(["untrusted", "private"]));
        let contexts = world.get(&As::Owner, "/api/v1/labels/contexts").await.ok();
        assert_eq!(contexts["items"][0]["labels"], json!(["untrusted", "private"]));
        let context = contexts["items"][0]["context"].clone();
        world.send(&As::Owner, "POST", "/api/v1/labels/reset", json!({"context": context})).await.refused(403);

        let accepted = json!({"tool": "echo", "host": "api.example.com", "accepts": ["private"], "reason": "ours"});
        let kept = world.send(&As::Owner, "POST", "/api/v1/labels/acceptances", accepted.clone()).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/labels/acceptances", accepted.clone()).await.refused(409);
        for wrong in [
            json!({"tool": "ecko", "accepts": ["private"], "reason": "ours"}),
            json!({"tool": "echo", "accepts": [], "reason": "ours"}),
            json!({"tool": "echo", "accepts": ["public"], "reason": "ours"}),
            json!({"tool": "echo", "accepts": ["private"], "reason": ""}),
            json!({"tool": "echo", "host": "not a host", "accepts": ["private"], "reason": "ours"}),
        ] {
            let answer = world.send(&As::Owner, "POST", "/api/v1/labels/acceptances", wrong.clone()).await;
            assert!(matches!(answer.status, 400 | 404), "{wrong}: {}", answer.status);
        }
        let admin = world.user("default", "root", &["admin"]).await;
        world.send(&admin, "POST", "/api/v1/labels/acceptances", accepted).await.refused(403);
        assert_eq!(world.get(&admin, "/api/v1/labels/acceptances").await.ok()["items"].as_array().unwrap().len(), 1);
        let id = kept["id"].as_str().unwrap();
        world.send(&admin, "DELETE", &format!("/api/v1/labels/acceptances/{id}"), json!(null)).await.refused(403);
        world.send(&As::Owner, "DELETE", &format!("/api/v1/labels/acceptances/{id}"), json!(null)).await.ok();
        world.send(&As::Owner, "DELETE", &format!("/api/v1/labels/acceptances/{id}"), json!(null)).await.refused(404);

        let asks = world.get(&admin, "/api/v1/labels/asks?since=2026-11-01T00:00:00Z").await.ok();
        assert_eq!((&asks["asks"], &asks["calls"]), (&json!(0), &json!(1)), "{asks:#}");
        let member = world.user("default", "mia", &["member"]).await;
        world.get(&member, "/api/v1/labels/contexts").await.refused(403);
        world.get(&member, "/api/v1/labels/asks").await.refused(403);
        world.get(&member, "/api/v1/labels/acceptances").await.refused(403);
    })
    .await;
}
