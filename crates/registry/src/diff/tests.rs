//! One table: a change, and its class.

use serde_json::{Value, json};
use toolgate_contracts::json as strict;

use super::*;

fn base() -> Value {
    json!({
        "name": "sendReport", "version": "1.2.3", "description": "Send.", "egress_class": "read_only", "risk": "sensitive",
        "input_schema": {"type": "object", "required": ["to"], "additionalProperties": false, "properties": {
            "to": {"type": "string", "maxLength": 100}, "copies": {"type": "integer", "minimum": 1, "default": 1},
            "mode": {"enum": ["draft", "final"]}, "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        }, "$defs": {"part": {"type": "object", "properties": {"text": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}}}}}},
        "output_schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "state": {"enum": ["sent", "queued"]}}},
        "hosts": ["a.test"], "guardrails": ["pii"], "aliases": [{"name": "mailReport", "remove_by": "2027-01-01"}],
        "runner": {"kind": "http", "method": "GET", "url": "https://a.test/"}, "cost": {"per_call": "0.10", "currency": "USD"},
        "labels": {"adds": ["untrusted"]}, "secrets": [{"name": "KEY", "required": false}],
    })
}

fn read(value: Value) -> Definition {
    strict::decode(value).unwrap()
}

#[track_caller]
fn check(pointer: &str, value: Value, expected: ChangeClass) {
    let old = read(base());
    let mut changed = base();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    match (changed.pointer_mut(parent).unwrap(), value) {
        (Value::Object(parent), Value::Null) => drop(parent.remove(member).unwrap()),
        (Value::Object(parent), value) => drop(parent.insert(member.to_owned(), value)),
        (Value::Array(items), value) => items[member.parse::<usize>().unwrap()] = value,
        _ => unreachable!(),
    }
    let difference = compare(&old, &read(changed));
    assert_eq!(difference.class, expected, "{pointer}: {difference:#?}");
}

use ChangeClass::{Breaking, Description, Narrowing, Widening};

#[test]
fn nothing_changed() {
    check("/version", json!("9.9.9"), ChangeClass::None);
    check("/egress_class", json!("read_only"), ChangeClass::None);
    check("/risk", Value::Null, ChangeClass::None);
}

#[test]
fn only_for_readers() {
    check("/description", json!("Send it."), Description);
    check("/input_schema/properties/to/description", json!("whom"), Description);
    check("/input_schema/$defs/part/properties/text/title", json!("Text"), Description);
    check("/input_schema/properties/to/x-entity-type", json!("person"), Description);
    check("/tags", json!(["mail"]), Description);
    check("/input_schema/$defs/unused", json!({"type": "null"}), Description);
    check("/timeout_ms", json!(30_000), Description);
}

#[test]
fn input_accepts_more() {
    check("/input_schema/properties/subject", json!({"type": "string"}), Widening);
    check("/input_schema/properties/mode/enum", json!(["draft", "final", "test"]), Widening);
    check("/input_schema/properties/to/maxLength", json!(200), Widening);
    check("/input_schema/properties/to/maxLength", Value::Null, Widening);
    check("/input_schema/properties/copies/minimum", json!(0), Widening);
    check("/input_schema/properties/copies/type", json!("number"), Widening);
    check("/input_schema/properties/to/type", json!(["string", "null"]), Widening);
    check("/input_schema/additionalProperties", json!(true), Widening);
    check("/input_schema/required", json!([]), Widening);
    check("/input_schema/properties/copies/default", json!(2), Widening);
    check("/input_schema/$defs/part/properties/extra", json!({"type": "string"}), Widening);
    check("/input_schema/required", json!(["to", "copies"]), ChangeClass::Description);
}

#[test]
fn input_accepts_less() {
    check("/input_schema/properties/mode/enum", json!(["final"]), Narrowing);
    check("/input_schema/properties/mode/const", json!("final"), Narrowing);
    check("/input_schema/properties/to/maxLength", json!(10), Narrowing);
    check("/input_schema/properties/to/pattern", json!("@"), Narrowing);
    check("/input_schema/properties/copies/maximum", json!(5), Narrowing);
    check("/input_schema/required", json!(["to", "mode"]), Narrowing);
    check("/input_schema/$defs/part/properties/text/minLength", json!(1), Narrowing);
    check("/input_schema/$defs/part/additionalProperties", json!(false), Narrowing);
    check("/input_schema/anyOf", json!([{"required": ["mode"]}]), Narrowing);
}

#[test]
fn callers_must_change() {
    check("/name", json!("sendMail"), Breaking);
    check("/input_schema/properties/to", Value::Null, Breaking);
    check("/input_schema/properties/to/type", json!("array"), Breaking);
    check("/input_schema/properties/mode/enum", json!(["a", "b"]), Breaking);
    check("/output_schema/properties/state", Value::Null, Breaking);
    check("/output_schema/required", json!([]), Breaking);
    check("/output_schema/properties/id/type", json!(["string", "null"]), Breaking);
    check("/output_schema/properties/state/enum", json!(["sent", "queued", "lost"]), Breaking);
    check("/output_schema", Value::Null, Breaking);
    check("/runner", json!({"kind": "expression", "cel": "1"}), Breaking);
    check("/aliases", json!([]), Breaking);
    let mut required = base();
    required["input_schema"]["properties"]["subject"] = json!({"type": "string"});
    required["input_schema"]["required"] = json!(["to", "subject"]);
    assert_eq!(compare(&read(base()), &read(required)).class, Breaking);
}

#[test]
fn output_promises_more() {
    check("/output_schema/properties/size", json!({"type": "integer"}), Widening);
    check("/output_schema/required", json!(["id", "state"]), Widening);
    check("/output_schema/properties/state/enum", json!(["sent"]), Widening);
    check("/output_schema/properties/id/minLength", json!(1), Widening);
}

#[test]
fn protections() {
    check("/egress_class", json!("write"), Narrowing);
    check("/egress_class", json!("none"), Breaking);
    check("/risk", json!("critical"), Narrowing);
    check("/risk", json!("safe"), Breaking);
    check("/requires_approval", json!(true), Narrowing);
    check("/permission_policy", json!("always_ask"), Narrowing);
    check("/required_permission", json!("reports.send"), Narrowing);
    check("/guardrails", json!([]), Breaking);
    check("/guardrails", json!(["pii", "size"]), Narrowing);
    check("/labels", json!({}), Breaking);
    check("/labels", json!({"adds": ["untrusted"], "clears": ["private"]}), Breaking);
    check("/hosts", json!([]), Breaking);
    check("/hosts", json!(["a.test", "b.test"]), Widening);
    check("/hosts", json!(["b.test"]), Narrowing);
    check("/hitl", json!({"mode": "fire_and_continue"}), Breaking);
    check("/hitl", json!({"approvers": {"need": 2, "from": ["role:approver"]}}), Narrowing);
    check("/sandbox", json!("wasm"), Narrowing);
    check("/changes_state", json!(true), Narrowing);
}

#[test]
fn the_rest() {
    check("/timeout_ms", json!(1_000), Narrowing);
    check("/timeout_ms", json!(60_000), Widening);
    check("/secrets", json!([{"name": "KEY", "required": true}]), Narrowing);
    check("/secrets", json!([]), Widening);
    check("/runner/url", json!("https://a.test/v2"), Widening);
    check("/cost/per_call", json!("0.095"), Widening);
    check("/cost/per_call", json!("0.2"), Narrowing);
    check("/cost/per_call", json!("12"), Narrowing);
    check("/aliases/0", json!({"name": "mailReport", "remove_by": "2026-12-01"}), Narrowing);
    check("/aliases/0", json!({"name": "mailReport"}), Widening);
    check("/visibility", json!("internal"), Breaking);
    check("/tenants", json!(["ims"]), Breaking);
    check("/opt_in", json!(true), Narrowing);
    check("/collaborative", json!(true), Widening);
    check("/group", json!("web"), Widening);
    check("/cache", json!("forever"), Widening);
}

#[test]
fn where_an_operation_and_its_key_go_is_never_a_detail() {
    let operation = |change: Value| {
        let mut runner = json!({
            "kind": "openapi", "document": "shop", "operation": "get", "method": "GET", "server": "https://a.test/v1",
            "path": "/orders/{id}", "parameters": [{"name": "id", "in": "path"}], "auth": {"secret": "KEY", "header": "X-Key"},
        });
        runner.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut definition = base();
        definition["runner"] = runner;
        read(definition)
    };
    for (change, class, told) in [
        (json!({"digest": "0".repeat(64)}), Description, ""),
        (json!({"accept": "application/json"}), Widening, ""),
        (
            json!({"path": "/orders/{order}", "parameters": [{"name": "order", "in": "path", "argument": "id"}]}),
            Widening,
            "",
        ),
        (json!({"method": "HEAD"}), Breaking, "/runner/method: the request went from `GET` to `HEAD`"),
        (
            json!({"server": "https://b.test/v1"}),
            Breaking,
            "/runner/server: the server went from `https://a.test/v1` to `https://b.test/v1`",
        ),
        (json!({"path": "/bills/{id}"}), Breaking, "/runner/path: the path went from `/orders/{}` to `/bills/{}`"),
        (
            json!({"auth": {"secret": "KEY", "query": "key"}}),
            Breaking,
            "/runner/auth: the key went from the header `X-Key` to the parameter `key`",
        ),
        (
            json!({"auth": {"secret": "KEY"}}),
            Breaking,
            "/runner/auth: the key went from the header `X-Key` to the header `Authorization`",
        ),
        (json!({"auth": null}), Breaking, "/runner/auth: the key went from the header `X-Key` to nowhere"),
    ] {
        let difference = compare(&operation(json!({})), &operation(change.clone()));
        assert_eq!(difference.class, class, "{change}: {difference:#?}");
        let first = &difference.changes[0];
        assert!(told.is_empty() || format!("{}: {}", first.pointer, first.message) == told, "{change}: {first:?}");
    }
}

#[test]
fn a_rename_is_recognised() {
    let mut renamed = base();
    let to = renamed["input_schema"]["properties"].as_object_mut().unwrap().remove("to").unwrap();
    renamed["input_schema"]["properties"]["recipient"] = to;
    let difference = compare(&read(base()), &read(renamed));
    assert!(
        difference.changes.iter().any(|change| change.message == "`to` was removed; perhaps renamed to `recipient`"),
        "{difference:#?}"
    );
}

#[test]
fn versions_follow_the_class() {
    let next = |version: &str, class| next_version(&version.parse().unwrap(), class).to_string();
    assert_eq!(next("1.2.3", Breaking), "2.0.0");
    assert_eq!(next("1.2.3", Narrowing), "2.0.0");
    assert_eq!(next("1.2.3", Widening), "1.3.0");
    assert_eq!(next("1.2.3", Description), "1.2.4");
    assert_eq!(next("1.2.3", ChangeClass::None), "1.2.3");
    assert_eq!(next("1.2.3-beta.1+build", Description), "1.2.3");
    assert_eq!(next("0.9.0", Breaking), "1.0.0");
    assert_eq!(first_version().to_string(), "1.0.0");
}

#[test]
fn the_text_is_a_unified_diff_of_both_files() {
    let mut changed = base();
    changed["version"] = json!("2.0.0");
    changed["input_schema"]["properties"]["to"]["maxLength"] = json!(10);
    let text = text(&read(base()), &read(changed));
    assert!(text.starts_with("--- sendReport@1.2.3\n+++ sendReport@2.0.0\n@@"), "{text}");
    assert!(text.contains("\n-      maxLength: 100\n+      maxLength: 10\n"), "{text}");
}

#[test]
fn mutual_recursion_is_compared_once() {
    let graph = |extra: Value| {
        let names: Vec<String> = (0..12).map(|n| format!("n{n}")).collect();
        let links = |names: &[String]| {
            names
                .iter()
                .map(|name| (name.clone(), json!({"$ref": format!("#/$defs/{name}")})))
                .collect::<serde_json::Map<_, _>>()
        };
        let mut defs: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), json!({"type": "object", "properties": links(&names)}))).collect();
        defs["n7"]["properties"]["x"] = extra;
        let mut value = base();
        value["input_schema"] = json!({"type": "object", "properties": links(&names), "$defs": defs});
        read(value)
    };
    assert_eq!(compare(&graph(json!({"type": "string"})), &graph(json!({"type": "number"}))).class, Breaking);
}
