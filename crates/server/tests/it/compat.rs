//! The specifications' addresses at the router's edge: lists, functions, changes of tools, and the invocation protocol.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Request, header};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sha2::Sha256;
use tower::ServiceExt as _;

use crate::world::{As, World, every_world, tool};

const SEVENTEEN: [&str; 17] = [
    "id",
    "team_run_id",
    "agent_run_step_id",
    "tool_id",
    "ai_lenser_id",
    "input",
    "output",
    "status",
    "approval_status",
    "approval_required",
    "approval_decided_by",
    "approval_reason",
    "error",
    "cost_estimate",
    "started_at",
    "completed_at",
    "created_at",
];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn items(page: &Value) -> &[Value] {
    page["items"].as_array().unwrap()
}

/// What RFC 8785 makes of small values of plain ASCII, written independently of the product.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            let parts: Vec<_> =
                sorted.iter().map(|(name, member)| format!("\"{name}\":{}", canonical(member))).collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

fn without_signature(value: &Value) -> (String, Vec<u8>) {
    let mut rest = value.clone();
    let signature = rest.as_object_mut().unwrap().shift_remove("signature").unwrap();
    (canonical(&rest), BASE64.decode(signature.as_str().unwrap().as_bytes()).unwrap())
}

async fn call(world: &World, who: &As, tool: &str, input: Value) -> Value {
    world.send(who, "POST", "/api/v1/calls", json!({"tool": tool, "input": input})).await.body
}

#[tokio::test]
async fn invocations_are_listed_in_the_specification_s_columns() {
    every_world(async |world| {
        let agent = world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "builder"})).await.ok();
        let run = world.send(&As::Owner, "POST", "/api/v1/runs", json!({"title": "Team", "agent": "builder"})).await.ok();
        let step = format!("/api/v1/runs/{}/steps", run["id"].as_str().unwrap());
        let step = world.send(&As::Owner, "POST", &step, json!({"title": "Greet"})).await.ok();
        let body = json!({
            "tool": "echo", "input": {"text": "hello"}, "run_id": run["id"], "step_id": step["id"], "agent_id": "builder",
        });
        world.send(&As::Owner, "POST", "/api/v1/calls", body).await.ok();
        call(&world, &As::Owner, "calculator", json!({"expression": "1 / 0"})).await;
        call(&world, &As::Owner, "calculator", json!({"expression": "6 * 7"})).await;

        let list = world.get(&As::Owner, "/api/v1/compat/tool_invocations").await.ok();
        assert_eq!(items(&list).len(), 3);
        for row in items(&list) {
            assert_eq!(keys(row), SEVENTEEN);
        }
        let view = world.get(&As::Owner, "/api/v1/compat/tool_invocations_v?agent=builder").await.ok();
        let [row] = items(&view) else { panic!("{view:#}") };
        assert_eq!(keys(row)[17..], ["tool_key", "tool_name", "egress_class", "step_title"]);
        assert_eq!((&row["team_run_id"], &row["agent_run_step_id"]), (&run["id"], &step["id"]));
        assert_eq!((&row["ai_lenser_id"], &row["step_title"]), (&agent["id"], &json!("Greet")));
        assert_eq!((&row["status"], &row["approval_status"]), (&json!("completed"), &json!("not_required")));

        let failed = world.get(&As::Owner, "/api/v1/compat/tool_invocations?status=failed").await.ok();
        let [row] = items(&failed) else { panic!("{failed:#}") };
        assert!(row["error"].as_str().unwrap().contains(": "), "{row:#}");
        let path = format!("/api/v1/compat/tool_invocations?team_run={}", run["id"].as_str().unwrap());
        assert_eq!(items(&world.get(&As::Owner, &path).await.ok()).len(), 1);

        // Page by page, each once.
        let mut seen = Vec::new();
        let mut path = "/api/v1/compat/tool_invocations?limit=2".to_owned();
        loop {
            let page = world.get(&As::Owner, &path).await.ok();
            seen.extend(items(&page).iter().map(|row| row["id"].as_str().unwrap().to_owned()));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/api/v1/compat/tool_invocations?limit=2&cursor={cursor}");
        }
        let all: Vec<_> = items(&list).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(seen, all);
        world.get(&As::Owner, "/api/v1/compat/tool_invocations?status=cancelled").await.refused(400);

        // Whoever may not read others' calls sees none of them, and an agent's key its agent's.
        let member = world.user("default", "mia", &["member"]).await;
        assert_eq!(items(&world.get(&member, "/api/v1/compat/tool_invocations").await.ok()).len(), 0);
    })
    .await;
}

#[tokio::test]
async fn tool_runs_and_executions_are_the_specification_s() {
    every_world(async |world| {
        let member = world.user("default", "mia", &["member"]).await;
        let body = json!({"slug": "calculator", "input": {"expression": "6 * 7"}, "source": "agent", "options": {"chatId": "c1"}});
        let done = world.send(&member, "POST", "/api/v1/compat/execute", body).await.ok();
        assert_eq!(keys(&done), ["output", "error", "durationMs", "runId"]);
        assert!(done["error"].is_null() && done["output"].is_object(), "{done:#}");
        let wrong = json!({"slug": "calculator", "input": {"expression": 1}});
        let failed = world.send(&member, "POST", "/api/v1/compat/execute", wrong).await.ok();
        assert!(failed["error"].as_str().unwrap().starts_with("VALIDATION_ERROR: "), "{failed:#}");
        world.send(&member, "POST", "/api/v1/compat/execute", json!({"slug": "nothing", "input": {}})).await.refused(404);

        let runs = world.get(&member, "/api/v1/compat/tool-runs?tool=calculator").await.ok();
        assert_eq!(items(&runs).len(), 2);
        let of = |status: &str| items(&runs).iter().find(|run| run["status"] == status).unwrap();
        let (error, success) = (of("error"), of("success"));
        let members = [
            "id", "tenant_id", "tool_slug", "user_id", "input", "output", "status", "error", "duration_ms", "source",
            "chat_id", "session_id",
        ];
        assert_eq!((keys(error), keys(success)), (members.to_vec(), members.to_vec()));
        assert_eq!((&error["status"], &error["source"]), (&json!("error"), &json!("api")));
        assert_eq!((&success["status"], &success["source"]), (&json!("success"), &json!("agent")));
        assert_eq!((&success["chat_id"], &success["id"]), (&json!("c1"), &done["runId"]));

        let found = world.get(&member, "/api/v1/compat/capabilities?q=calculate").await.ok();
        assert_eq!(keys(&items(&found)[0]), ["name", "description", "kind", "tags"]);
    })
    .await;
}

#[tokio::test]
async fn tools_are_changed_and_tried_under_both_addresses() {
    every_world(async |world| {
        let author = world.user("default", "ann", &["author"]).await;
        world.register(&author, tool("readRecord", json!({}))).await.ok();
        let changed = world
            .send(&author, "PATCH", "/api/v1/tools/readRecord", json!({"timeout_ms": 5000, "icon": "book"}))
            .await
            .ok();
        assert_eq!((&changed["timeout_ms"], &changed["icon"]), (&json!(5000), &json!("book")));
        let again = world.send(&author, "PATCH", "/api/tools/readRecord", json!({"icon": null})).await.ok();
        assert_ne!(again["icon"], "book", "{again:#}");
        let versions = world.get(&author, "/api/tools/readRecord/versions").await.ok();
        assert_eq!(items(&versions).len(), 3);
        world.send(&author, "PATCH", "/api/tools/readRecord", json!({"name": "other"})).await.refused(400);
        world.send(&author, "PATCH", "/api/tools/echo", json!({"title": "Say it again"})).await.refused(403);
        let owner = world.send(&As::Owner, "PATCH", "/api/tools/echo", json!({"title": "Say it again"})).await.ok();
        assert_eq!((&owner["title"], &owner["overridden"]), (&json!("Say it again"), &json!(true)));
        let kept = world.send(&As::Owner, "PATCH", "/api/tools/echo", json!({"timeout_ms": 1000})).await.ok();
        assert_eq!((&kept["title"], &kept["timeout_ms"]), (&json!("Say it again"), &json!(1000)));

        let meta = world.get(&author, "/api/tools?view=meta&limit=500").await.ok();
        assert!(items(&meta).iter().any(|tool| tool["slug"] == "readRecord"));
        world.get(&As::Nobody, "/api/tools").await.refused(401);
        world.get(&author, "/api/nothing").await.refused(404);

        let tried = world
            .send(&author, "POST", "/api/tools/calculator/test", json!({"input": {"expression": "6 * 7"}}))
            .await
            .ok();
        assert_eq!(tried["status"], "completed");
        let marked = world.get(&author, "/api/v1/calls?meta=test%3Dtrue").await.ok();
        let found = items(&marked).iter().any(|call| call["id"] == tried["id"]);
        assert!(found || items(&world.get(&author, "/api/v1/calls?meta=test%3D1").await.ok()).len() == 1, "{marked:#}");

        world.send(&author, "DELETE", "/api/tools/readRecord", Value::Null).await.ok();
        world.get(&author, "/api/tools/readRecord").await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_try_is_followed_to_its_end() {
    every_world(async |world| {
        let request = Request::post("/api/tools/calculator/test/stream")
            .extension(toolgate_server::LocalCaller { uid: 1000 })
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(json!({"input": {"expression": "6 * 7"}}).to_string()))
            .unwrap();
        let response = world.router().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        // It ends by itself.
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let events: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(events, ["tool.started", "tool.completed", "result"], "{text}");
        let result = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
        let envelope: Value = serde_json::from_str(result).unwrap();
        assert_eq!(envelope["status"], "completed");
    })
    .await;
}

#[tokio::test]
async fn every_answer_of_the_invocation_protocol_is_signed() {
    every_world(async |world| {
        let body = json!({
            "request_id": "7c5e3f6a-0000-4000-8000-000000000001", "caller_id": "agent-id", "capability_token": "jwt-token",
            "tool_id": "monorepo_cli", "function_name": "run_script",
            "args": {"script_name": "forge:benchmark", "args": ["--target=core"]},
            "metadata": {"dry_run": true, "pr_id": 42},
        });
        let set = world.get(&As::Nobody, "/.well-known/jwks.json").await.ok();
        let answer = world.send(&As::Nobody, "POST", "/invoke", body.clone()).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        assert_eq!(keys(&answer.body), ["request_id", "status", "code", "output", "signature"]);
        assert_eq!((&answer.body["status"], &answer.body["code"]), (&json!("denied"), &json!(5)));
        assert_eq!(answer.body["output"]["error"]["code"], "AUTH_REQUIRED");

        let (text, signature) = without_signature(&answer.body);
        let signed = format!("toolgate/response/v1\n{text}");
        let good = set["keys"].as_array().unwrap().iter().any(|jwk| {
            assert_eq!((&jwk["kty"], &jwk["crv"]), (&json!("OKP"), &json!("Ed25519")));
            let x = BASE64URL_NOPAD.decode(jwk["x"].as_str().unwrap().as_bytes()).unwrap();
            let key = VerifyingKey::from_bytes(&x.try_into().unwrap()).unwrap();
            key.verify_strict(signed.as_bytes(), &Signature::from_slice(&signature).unwrap()).is_ok()
        });
        assert!(good, "{set:#} {:#}", answer.body);

        // A key that decides is refused whatever the token is, and unreadable bodies have nobody to answer to.
        let refused = world.send(&As::Owner, "POST", "/invoke", body.clone()).await;
        assert_eq!(refused.body["code"], 4, "{:#}", refused.body);
        assert!(refused.body["output"]["error"]["details"]["remedy"].as_str().unwrap().contains("toolgate key create"));
        let mut unknown = body.clone();
        unknown["more"] = json!(1);
        for unreadable in [unknown, json!([]), json!({"request_id": "x"})] {
            world.send(&As::Nobody, "POST", "/invoke", unreadable).await.refused(400);
        }
    })
    .await;
}

#[tokio::test]
async fn audit_events_are_signed_and_their_key_rotates() {
    every_world(async |world| {
        let member = world.user("default", "mia", &["member"]).await;
        call(&world, &member, "echo", json!({"text": "hello"})).await;
        let verify = |event: &Value, key: &Value| {
            let (text, signature) = without_signature(event);
            let key = BASE64.decode(key["key"].as_str().unwrap().as_bytes()).unwrap();
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            mac.update(text.as_bytes());
            mac.verify_slice(&signature).is_ok()
        };
        let page = world.get(&As::Owner, "/api/v1/compat/audit-events").await.ok();
        let [event] = items(&page) else { panic!("{page:#}") };
        let members = [
            "event_id",
            "request_id",
            "caller_id",
            "tool_id",
            "function_name",
            "args",
            "result_code",
            "timestamp",
            "signature",
        ];
        assert_eq!(keys(event), members);
        assert_eq!((&event["tool_id"], &event["result_code"]), (&json!("echo"), &json!(0)));
        assert_eq!(event["args"]["text"], "hello");
        let before = world.get(&As::Owner, "/api/v1/compat/audit-event-key").await.ok();
        assert!(verify(event, &before["keys"][0]));
        let mut changed = event.clone();
        changed["result_code"] = json!(1);
        assert!(!verify(&changed, &before["keys"][0]));

        world.clock.advance(60);
        world.send(&As::Owner, "POST", "/api/v1/server-keys/audit_event/rotate", Value::Null).await.ok();
        let rotated = world.get(&As::Owner, "/api/v1/compat/audit-event-key").await.ok();
        assert_eq!(rotated["keys"][1], before["keys"][0], "{rotated:#}");
        // What was signed keeps its signature, whenever it is asked for; what comes is signed by the new key.
        world.clock.advance(60);
        call(&world, &member, "echo", json!({"text": "again"})).await;
        let page = world.get(&As::Owner, "/api/v1/compat/audit-events").await.ok();
        let [newer, older] = items(&page) else { panic!("{page:#}") };
        assert_eq!(older, event);
        assert!(verify(older, &rotated["keys"][1]) && !verify(older, &rotated["keys"][0]));
        assert!(verify(newer, &rotated["keys"][0]) && !verify(newer, &rotated["keys"][1]));
        world.clock.advance(60);
        world.send(&As::Owner, "POST", "/api/v1/server-keys/audit_event/rotate", Value::Null).await.ok();
        let page = world.get(&As::Owner, "/api/v1/compat/audit-events").await.ok();
        assert_eq!(items(&page), [newer.clone(), older.clone()], "whatever is rotated later");
        let rotated = world.get(&As::Owner, "/api/v1/compat/audit-event-key").await.ok();
        let since: Vec<&str> =
            rotated["keys"].as_array().unwrap().iter().map(|key| key["since"].as_str().unwrap()).collect();
        assert!(since.is_sorted_by(|newer, older| newer > older), "{since:?}");

        world.get(&member, "/api/v1/compat/audit-events").await.refused(403);
        world.get(&member, "/api/v1/compat/audit-event-key").await.refused(403);
        // Another tenant has another key and other events.
        world.tenant("acme").await;
        let other = world.get(&As::OwnerOf("acme"), "/api/v1/compat/audit-event-key").await.ok();
        assert_ne!(other["keys"][0]["key"], rotated["keys"][0]["key"]);
        assert_eq!(items(&world.get(&As::OwnerOf("acme"), "/api/v1/compat/audit-events").await.ok()).len(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_invocation_protocol_takes_a_token_and_nothing_else() {
    every_world(async |world| {
        let author = world.user("default", "ann", &["author"]).await;
        let agent = world.send(&author, "POST", "/api/v1/agents", json!({"name": "builder"})).await.ok();
        let caller = agent["id"].as_str().unwrap();
        let external = json!({"egress_class": "write", "runner": {"kind": "external"}});
        world.register(&As::Owner, tool("tickets.close", external)).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/builder/tools/tickets.close", json!({})).await.ok();
        let mint = json!({"scope": ["tool:calculator", "tool:tickets.close"], "agent": "builder"});
        let token = world.send(&author, "POST", "/api/v1/tokens", mint).await.ok()["token"].clone();
        let body = |number: u32, tool: (&str, &str), args: Value| {
            json!({
                "request_id": format!("7c5e3f6a-0000-4000-8000-{number:012}"), "caller_id": caller,
                "capability_token": token, "tool_id": tool.0, "function_name": tool.1, "args": args,
                "metadata": {"pr_id": 42},
            })
        };
        let invoke = async |body: Value| {
            let answer = world.send(&As::Nobody, "POST", "/invoke", body).await;
            assert_eq!(answer.status, 200, "{:#}", answer.body);
            answer.body
        };
        let sum = ("calculator", "");
        let first = body(1, sum, json!({"expression": "6 * 7"}));
        let done = invoke(first.clone()).await;
        assert_eq!((&done["status"], &done["code"]), (&json!("ok"), &json!(0)), "{done:#}");
        let again = invoke(first.clone()).await;
        assert_eq!(again["output"], done["output"]);
        // A UUID has several spellings, and the caller is answered with its own.
        for spelling in [
            "7C5E3F6A-0000-4000-8000-000000000001",
            "{7c5e3f6a-0000-4000-8000-000000000001}",
            "7c5e3f6a000040008000000000000001",
            "urn:uuid:7c5e3f6a-0000-4000-8000-000000000001",
        ] {
            let mut other = first.clone();
            other["request_id"] = json!(spelling);
            other["caller_id"] = json!(caller.to_uppercase());
            let again = invoke(other).await;
            assert_eq!(again["output"], done["output"], "{again:#}");
            assert_eq!(again["request_id"], spelling);
        }
        let calls = world.get(&As::Owner, "/api/v1/calls?meta=pr_id%3D42").await.ok();
        let [call] = items(&calls) else { panic!("one call, however often it is asked for: {calls:#}") };
        assert_eq!((&call["source"], &call["agent_id"]), (&json!("agent"), &agent["id"]));
        let other = invoke(body(1, sum, json!({"expression": "1"}))).await;
        assert_eq!((&other["status"], &other["code"]), (&json!("error"), &json!(1)), "another body: {other:#}");

        let mut dry = body(2, ("tickets", "close"), json!({"id": "7"}));
        dry["metadata"]["dry_run"] = json!(true);
        let dry = invoke(dry).await;
        assert_eq!((&dry["status"], &dry["output"]["would_run"]), (&json!("ok"), &json!(true)), "{dry:#}");

        let write = body(3, ("tickets", "close"), json!({"id": "7"}));
        let parked = invoke(write.clone()).await;
        assert_eq!((&parked["status"], &parked["code"]), (&json!("pending"), &json!(10)), "{parked:#}");
        assert_eq!(parked["output"]["status"], "pending");
        let approver = world.user("default", "boss", &["approver"]).await;
        let decide = format!("/api/v1/approvals/{}/decide", parked["output"]["id"].as_str().unwrap());
        let no = json!({"decision": "reject", "reason": "unsafe egress target"});
        world.send(&approver, "POST", &decide, no).await.ok();
        let rejected = invoke(write).await;
        assert_eq!((&rejected["status"], &rejected["code"]), (&json!("denied"), &json!(11)), "{rejected:#}");

        for (wrong, code) in [
            (json!({"caller_id": "somebody"}), 5),
            (json!({"capability_token": "a.b.c"}), 5),
            (json!({"tool_id": "echo", "function_name": ""}), 4),
            (json!({"args": {"expression": 1}}), 1),
            (json!({"request_id": "not-a-uuid"}), 1),
        ] {
            let mut body = body(9, sum, json!({"expression": "1"}));
            body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            let answer = invoke(body).await;
            assert_eq!(answer["code"], code, "{wrong}: {answer:#}");
            assert!(answer["signature"].is_string() && answer["output"]["error"].is_object(), "{answer:#}");
        }

        // What to do is what this caller can do: the credential is in the body.
        let mut keyed = body(10, sum, json!({"expression": "1"}));
        keyed["capability_token"] = json!("tg_no_token");
        let answer = invoke(keyed).await;
        let details = &answer["output"]["error"]["details"];
        assert_eq!(details["pointer"], "/capability_token", "{answer:#}");
        assert!(!answer.to_string().contains("Authorization"), "{answer:#}");

        let events = world.get(&As::Owner, "/api/v1/compat/audit-events").await.ok();
        let event = items(&events).iter().find(|event| event["request_id"] == first["request_id"]).unwrap();
        assert_eq!((&event["caller_id"], &event["result_code"]), (&json!(caller), &json!(0)));
    })
    .await;
}
