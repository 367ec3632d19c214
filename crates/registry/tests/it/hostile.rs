//! Schemas that were written to break something.

use serde_json::{Map, Value, json};
use toolgate_registry::schema::{Validator, check, fill_defaults};

fn object(extra: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    schema
}

#[track_caller]
fn refuses(schema: &Value, code: &str) {
    let findings = check(schema, "/input_schema");
    assert!(findings.iter().any(|finding| finding.code == code), "{code} is not among {findings:#?}");
    assert!(findings.iter().all(|finding| finding.pointer.starts_with("/input_schema") && !finding.fix.is_empty()));
}

fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let reference = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
    let mut defs: Map<String, Value> = (0..length).map(|n| (format!("d{n}"), link(reference(n + 1)))).collect();
    defs.insert(format!("d{length}"), json!({"type": "string"}));
    object(json!({"properties": {"x": reference(0)}, "$defs": defs}))
}

#[test]
fn each_way_to_break_something_has_its_own_answer() {
    refuses(&json!([]), "schema.not-object");
    refuses(&json!(true), "schema.not-object");
    refuses(&json!({"properties": {}}), "schema.top-level");
    refuses(&object(json!({"type": ["object", "null"]})), "schema.top-level");
    refuses(&object(json!({"$schema": "https://json-schema.org/draft/2019-09/schema"})), "schema.dialect");
    refuses(&object(json!({"$ref": "https://evil.test/x.json"})), "schema.remote-ref");
    refuses(&object(json!({"$ref": "file:///etc/passwd"})), "schema.remote-ref");
    refuses(&object(json!({"$ref": "../x.json"})), "schema.remote-ref");
    refuses(&object(json!({"$ref": "#/nowhere"})), "schema.ref-target");
    refuses(&object(json!({"$ref": "#/x-hidden", "x-hidden": {"$ref": "file:///etc/passwd"}})), "schema.ref-target");
    refuses(&object(json!({"$ref": "#"})), "schema.ref-loop");
    refuses(&object(json!({"$defs": {"a": {"$id": "https://evil.test/", "$ref": "#"}}})), "schema.id");
    refuses(&object(json!({"$dynamicRef": "#x"})), "schema.dynamic-ref");
    refuses(&object(json!({"patternProperties": {"(a{1000}){1000}": {}}})), "schema.pattern");
    refuses(&object(json!({"properties": {"a": {"pattern": "^(?=x)"}}})), "schema.pattern");
    refuses(&object(json!({"minProperties": "two"})), "schema.invalid");
    refuses(&object(json!({"properties": {"a": {"items": [{}, {}]}}})), "schema.invalid");
    refuses(&object(json!({"properties": {"a": {"default": {}, "$ref": "#"}}})), "schema.default-loop");
    refuses(&object(json!({"properties": {"x".repeat(300): {}}})), "schema.name-length");
    refuses(&chain(65, |next| next), "schema.ref-chain");
    refuses(&chain(40, |next| json!({"anyOf": [next, next]})), "schema.explodes");
}

#[test]
fn size_is_bounded_before_anything_else() {
    let wide: Map<String, Value> = (0..2_500).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    refuses(&object(json!({"properties": wide})), "schema.too-many");
    let many: Map<String, Value> =
        (0..1_200).map(|n| (format!("p{n}"), json!({"pattern": format!("^x{{{n}}}y*$")}))).collect();
    refuses(&object(json!({"properties": many})), "schema.too-many-patterns");
    refuses(&object(json!({"description": "x".repeat(5_000_000)})), "schema.too-large");
    let deep = (0..200).fold(json!({}), |inner, _| json!({"not": inner}));
    refuses(&object(json!({"properties": {"a": deep}})), "schema.unreadable");
    let keys: Map<String, Value> = (0..20_000).map(|n| (format!("k{n}"), json!(0))).collect();
    refuses(&object(json!({"default": keys})), "schema.unreadable");
}

#[test]
fn what_passes_compiles_and_answers() {
    for schema in [
        object(json!({})),
        chain(60, |next| next),
        chain(8, |next| json!({"anyOf": [next, next]})),
        // Doubling through members costs the value, not the schema.
        chain(50, |next| json!({"type": ["object", "string"], "properties": {"l": next, "r": next}})),
        object(
            json!({"properties": {"tree": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"properties": {"kids": {"items": {"$ref": "#/$defs/t"}}}}}}),
        ),
        object(json!({"$id": "https://example.test/mine", "$schema": "https://json-schema.org/draft/2020-12/schema"})),
        object(json!({"properties": {"f": {"type": "string", "format": "blob", "x-entity-type": "file"}}})),
    ] {
        let errors: Vec<_> = check(&schema, "/input_schema");
        assert!(errors.is_empty(), "{errors:#?}");
        let validator = Validator::new(&schema).unwrap();
        assert!(validator.is_valid(&json!({})));
        assert!(!validator.validate(&json!([])).is_empty());
        fill_defaults(&schema, &mut json!({})).unwrap();
    }
}

#[test]
fn typing_errors_in_keywords_are_pointed_out() {
    let findings = check(&object(json!({"additionalProperty": false, "nullable": true, "x-mine": 1})), "");
    let told: Vec<_> = findings.iter().map(|finding| (finding.code.as_ref(), finding.fix.as_str())).collect();
    assert_eq!(
        told,
        [
            ("schema.unknown-keyword", "did you mean `additionalProperties`?"),
            ("schema.unknown-keyword", "write `type: [string, \"null\"]`"),
        ]
    );
}

#[test]
fn a_validator_never_fetches() {
    assert!(Validator::new(&json!({"$ref": "http://127.0.0.1:1/x"})).is_err());
    assert!(Validator::new(&json!({"$ref": "file:///etc/hostname"})).is_err());
    assert!(
        Validator::new(&json!({"$schema": "http://127.0.0.1:1/meta", "type": "object"})).is_ok(),
        "the name is not looked up"
    );
}
