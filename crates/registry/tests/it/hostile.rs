//! Schemas that were written to break something.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_contracts::definition::{Definition, Origin};
use toolgate_contracts::json as strict;
use toolgate_registry::finding::{FINDINGS_MAX, Finding, SUGGESTIONS_MAX};
use toolgate_registry::lint;
use toolgate_registry::schema::{VIOLATIONS_MAX, Validator, check, fill_defaults};

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
        chain(6, |next| json!({"anyOf": [next, next]})),
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

/// Returns within the time, on a thread of its own, so that a hang is a failure and not a stuck run.
#[track_caller]
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    answer.recv_timeout(std::time::Duration::from_secs(20)).expect("an answer in time")
}

fn linted(input_schema: Value, examples: Vec<Value>) -> Vec<Finding> {
    let examples: Vec<_> = examples.into_iter().map(|input| json!({"title": "x", "input": input})).collect();
    let definition: Definition = strict::decode(json!({
        "name": "sendReport", "version": "1.0.0", "description": "Send a report.", "input_schema": input_schema,
        "egress_class": "write", "runner": {"kind": "external"}, "examples": examples,
    }))
    .unwrap();
    in_time(move || {
        let names = BTreeSet::new();
        lint::check(&definition, &lint::Context { origin: Origin::Tenant, names: &names, today: None, known: None })
    })
}

fn count(findings: &[Finding], code: &str) -> usize {
    findings.iter().filter(|finding| finding.code == code).count()
}

fn consts(number: usize) -> Value {
    json!({"anyOf": (0..number).map(|n| json!({"const": n})).collect::<Vec<_>>()})
}

#[test]
fn many_alternatives_for_many_items_are_refused_or_bounded() {
    let schema = |number| object(json!({"properties": {"x": {"type": "array", "items": consts(number)}}}));
    let items = |number: usize| json!({"x": vec![json!(-1); number]});
    refuses(&schema(1_900), "schema.explodes");
    assert_eq!(count(&linted(schema(1_900), vec![items(20_000)]), "schema.explodes"), 1);

    assert!(check(&schema(400), "").is_empty());
    let findings = linted(schema(400), vec![items(20_000)]);
    assert_eq!(count(&findings, "example.unchecked"), 1, "{findings:#?}");
    for number in [1, 1_000, 20_000, 500_000] {
        let violations = in_time(move || Validator::new(&schema(400)).unwrap().validate(&items(number)));
        assert!((1..=VIOLATIONS_MAX).contains(&violations.len()));
    }
    let simple = object(json!({"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}));
    assert!(in_time(move || Validator::new(&simple).unwrap().is_valid(&items(500_000))), "a plain list may be long");
}

#[test]
fn large_texts_are_not_copied_for_every_alternative() {
    let schema = object(json!({"properties": {"x": consts(400)}}));
    let violations = in_time(move || Validator::new(&schema).unwrap().validate(&json!({"x": "y".repeat(1_000_000)})));
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].pointer, "", "the general answer");
}

#[test]
fn alternatives_that_multiply_with_depth_are_bounded() {
    let nested = || (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
    let step = |next: Value| json!({"anyOf": [{"properties": {"a": next}, "required": ["b"]}, {"properties": {"a": next}, "required": ["c"]}]});
    let twice = |next: Value| json!({"properties": {"a": {"allOf": [next, next]}}});
    for (schema, fills) in [(chain(60, step), true), (chain(60, twice), false)] {
        let value = json!({"x": nested()});
        let (violations, filled) = in_time(move || {
            let filled = fill_defaults(&schema, &mut value.clone());
            (Validator::new(&schema).unwrap().validate(&value), filled)
        });
        assert_eq!(violations.iter().map(|wrong| wrong.pointer.as_str()).collect::<Vec<_>>(), [""]);
        assert_eq!(filled.is_ok(), fills);
    }
}

#[test]
fn large_defaults_are_not_copied_without_end() {
    let schema =
        object(json!({"properties": {"x": {"items": {"properties": {"d": {"default": "y".repeat(1_000_000)}}}}}}));
    assert!(in_time(move || fill_defaults(&schema, &mut json!({"x": vec![json!({}); 9_000]})).is_err()));
}

#[test]
fn examples_are_few_and_short() {
    let schema = object(json!({}));
    let findings = linted(schema.clone(), vec![json!({"a": 1}); 400]);
    assert_eq!((count(&findings, "example.limit"), count(&findings, "example.input")), (1, 0));
    let findings = linted(schema.clone(), vec![json!({"a": "x".repeat(70_000)})]);
    assert_eq!(count(&findings, "example.limit"), 1);
    assert_eq!(count(&linted(schema, vec![json!({"a": "x"}); 50]), "example.limit"), 0);
}

#[test]
fn mistakes_by_the_thousand_are_told_up_to_a_limit() {
    let properties: Map<String, Value> =
        (0..900).map(|n| (format!("property_{n}"), json!({"type": "string"}))).collect();
    let required: Vec<_> = (0..1_000).map(|n| format!("propertx_{n}x")).collect();
    let findings = linted(object(json!({"properties": properties, "required": required})), Vec::new());
    assert!(findings.len() <= FINDINGS_MAX);

    let unknown: Map<String, Value> = (0..9_000).map(|n| (format!("propertie{n}"), json!(0))).collect();
    let mut schema = object(Value::Object(unknown));
    let findings = check(&schema, "");
    assert_eq!(count(&findings, "schema.unknown-keyword"), FINDINGS_MAX);
    assert!(findings.iter().filter(|finding| finding.fix.starts_with("did you mean")).count() <= SUGGESTIONS_MAX);

    // An error after all of them is still told.
    schema.as_object_mut().unwrap().insert("minProperties".to_owned(), json!("two"));
    refuses(&schema, "schema.invalid");
    schema.as_object_mut().unwrap().insert("required".to_owned(), json!(vec![1; 1_000_000]));
    let findings = in_time(move || check(&schema, ""));
    assert_eq!(count(&findings, "schema.invalid"), 1);
}
