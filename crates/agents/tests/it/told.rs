//! What a model gets to read of a call.

use serde_json::{Value, json};
use toolgate_agents::told;
use toolgate_contracts::Envelope;

fn envelope(more: Value) -> Envelope {
    let id = "019a8f00-0000-7000-8000-000000000001";
    let mut whole = json!({
        "id": id, "status": "completed", "run_id": id, "call_id": "c_1", "name": "note", "version": "1.0.0",
        "input": {"b": 1, "a": 2}, "t_start": "2026-01-01T00:00:00.000Z", "t_end": "2026-01-01T00:00:00.000Z",
    });
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

#[track_caller]
fn check(more: Value, text: &str, is_error: bool) {
    let answer = told::answer("1".to_owned(), "note".to_owned(), &envelope(more));
    assert_eq!((answer.text.as_str(), answer.is_error), (text, is_error));
}

#[test]
fn what_a_person_changed_is_told_before_what_came_of_it() {
    check(json!({"output": {"bytes": 8}}), r#"{"bytes":8}"#, false);
    let changed = "A person changed the input of this call before approving it. What ran: {\"a\":2,\"b\":1}\n\n";
    check(json!({"output": {"bytes": 8}, "edited": true}), &format!("{changed}{{\"bytes\":8}}"), false);
    let failed = json!({"code": "NETWORK_ERROR", "message": "no way", "details": {"reason": "dns"}});
    let told = format!("{changed}NETWORK_ERROR: no way\n{{\"reason\":\"dns\"}}");
    check(json!({"status": "failed", "error": failed, "edited": true}), &told, true);
    // What is shown of the output is what it would be without, and where it is read on from.
    let much = json!({"text": "x".repeat(20_000)});
    let plain = told::answer("1".to_owned(), "note".to_owned(), &envelope(json!({"output": much})));
    check(json!({"output": much, "edited": true}), &format!("{changed}{}", plain.text), false);
    let long =
        told::answer("1".to_owned(), "note".to_owned(), &envelope(json!({"input": much, "output": 1, "edited": true})));
    assert!(long.text.len() < 3_000 && long.text.ends_with("…\n\n1"), "{}", long.text);
    // Nothing ran.
    let no = json!({"code": "POLICY_DENIED", "message": "not today", "details": {"reason": "rejected"}});
    let told = "POLICY_DENIED: not today\n{\"reason\":\"rejected\"}";
    check(json!({"status": "rejected", "error": no, "edited": true}), told, true);
}

#[test]
fn commands_for_people_are_left_out() {
    let of = |message: &str, details: Value| json!({"status": "failed", "error": {"code": "AUTH_REQUIRED", "message": message, "details": details}});
    check(
        of(
            "`note` needs the secret `KEY`; set it with `toolgate secret set KEY --tool note`",
            json!({"reason": "secret_missing"}),
        ),
        "AUTH_REQUIRED: `note` needs the secret `KEY`\n{\"reason\":\"secret_missing\"}",
        true,
    );
    check(
        of("nobody knows; settle it with `toolgate calls settle`; do not repeat it", json!({})),
        "AUTH_REQUIRED: nobody knows; do not repeat it\n{}",
        true,
    );
    check(
        of("no", json!({"remedy": "mend them: `toolgate policy check`", "reason": "policy_error"})),
        "AUTH_REQUIRED: no\n{\"reason\":\"policy_error\"}",
        true,
    );
    check(of("no", json!({"remedy": "send less"})), "AUTH_REQUIRED: no\n{\"remedy\":\"send less\"}", true);
    check(of("run `toolgate doctor`", json!({})), "AUTH_REQUIRED: run `toolgate doctor`\n{}", true);
}
