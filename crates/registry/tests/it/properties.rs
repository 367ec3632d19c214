//! What holds for every input, asked of a few hundred at random.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_contracts::Definition;
use toolgate_registry::diff::{ChangeClass, compare};
use toolgate_registry::finding::has_errors;
use toolgate_registry::render::{Form, Rendered, one};
use toolgate_registry::schema::{Dialect, Validator, check, convert, fill_defaults, to_draft_07};
use toolgate_registry::search::{Entry, Index};
use toolgate_registry::tool_md::{self, Originals};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..4).prop_map(|n| json!(n)),
        Just(json!(1.5)),
        prop::sample::select(vec!["", "a", "ab", "abc"]).prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), any_value(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn merged(parts: Vec<Value>) -> Value {
    let mut all = Map::new();
    for part in parts {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    Value::Object(all)
}

fn leaf_keywords() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec!["string", "integer", "number", "array", "object", "boolean", "null"])
            .prop_map(|kind| json!({"type": kind})),
        Just(json!({"type": ["string", "integer", "object"]})),
        (0_i64..3).prop_map(|n| json!({"minimum": n})),
        (0_i64..3).prop_map(|n| json!({"maxLength": n})),
        (0_i64..3).prop_map(|n| json!({"minItems": n})),
        (0_i64..3).prop_map(|n| json!({"maxProperties": n})),
        Just(json!({"enum": ["a", 1, null]})),
        Just(json!({"const": "ab"})),
        Just(json!({"pattern": "^a"})),
        Just(json!({"uniqueItems": true})),
        prop::sample::subsequence(NAMES.to_vec(), 0..3).prop_map(|names| json!({"required": names})),
    ]
}

fn named(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), inner, 1..4)
        .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// Keywords that both dialects write alike.
fn shared(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![
        named(inner.clone()).prop_map(|schemas| json!({"properties": schemas})),
        inner.clone().prop_map(|schema| json!({"additionalProperties": schema})),
        inner.clone().prop_map(|schema| json!({"items": schema})),
        inner.clone().prop_map(|schema| json!({"contains": schema})),
        inner.clone().prop_map(|schema| json!({"not": schema})),
        prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| json!({"anyOf": schemas})),
        prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| json!({"allOf": schemas})),
        prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| json!({"oneOf": schemas})),
        (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
        Just(json!({"propertyNames": {"maxLength": 1}})),
    ]
    .boxed()
}

fn schemas(own: impl Fn(BoxedStrategy<Value>) -> BoxedStrategy<Value> + 'static) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => leaf_keywords(), 1 => any::<bool>().prop_map(Value::Bool)];
    leaf.prop_recursive(3, 24, 3, move |inner| {
        let inner = inner.boxed();
        prop::collection::vec(prop_oneof![leaf_keywords(), shared(inner.clone()), own(inner)], 1..4).prop_map(merged)
    })
}

fn draft_07_schema() -> impl Strategy<Value = Value> {
    let part = || {
        schemas(|inner| {
            prop_oneof![
                (prop::collection::vec(inner.clone(), 1..3), inner.clone())
                    .prop_map(|(items, rest)| json!({"items": items, "additionalItems": rest})),
                inner.clone().prop_map(|rest| json!({"additionalItems": rest})),
                prop::collection::vec(inner.clone(), 1..3).prop_map(|items| json!({"items": items})),
                named(inner.clone()).prop_map(|schemas| json!({"dependencies": schemas})),
                Just(json!({"dependencies": {"a": ["b"], "c": ["a", "d"]}})),
                inner.prop_map(|beside| merged(vec![beside, json!({"$ref": "#/definitions/leaf"})])),
                Just(json!({"$ref": "#/definitions/tuple/items/0"})),
                Just(json!({"$ref": "#there"})),
            ]
            .boxed()
        })
    };
    (part(), leaf_keywords(), leaf_keywords()).prop_map(|(main, leaf, anchored)| {
        let definitions = json!({"leaf": leaf, "tuple": {"items": [{"type": "string"}]}, "named": merged(vec![anchored, json!({"$id": "#there"})])});
        merged(vec![main, json!({"definitions": definitions})])
    })
}

fn modern_schema() -> impl Strategy<Value = Value> {
    let part = || {
        schemas(|inner| {
            prop_oneof![
                (prop::collection::vec(inner.clone(), 1..3), inner.clone())
                    .prop_map(|(items, rest)| json!({"prefixItems": items, "items": rest})),
                named(inner.clone()).prop_map(|schemas| json!({"dependentSchemas": schemas})),
                Just(json!({"dependentRequired": {"a": ["b"], "c": ["a", "d"]}})),
                inner.prop_map(|beside| merged(vec![beside, json!({"$ref": "#/$defs/leaf"})])),
                Just(json!({"$ref": "#/$defs/tuple/prefixItems/0"})),
                Just(json!({"$ref": "#there"})),
            ]
            .boxed()
        })
    };
    (part(), leaf_keywords(), leaf_keywords()).prop_map(|(main, leaf, anchored)| {
        let definitions = json!({"leaf": leaf, "tuple": {"prefixItems": [{"type": "string"}]}, "named": merged(vec![anchored, json!({"$anchor": "there"})])});
        merged(vec![main, json!({"$defs": definitions})])
    })
}

fn draft_07_accepts(schema: &Value, value: &Value) -> Option<bool> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft7)
        .offline()
        .build(schema)
        .ok()
        .map(|validator| validator.is_valid(value))
}

/// Objects whose members have types, bounds and defaults, closed against others.
fn arguments() -> impl Strategy<Value = Value> {
    let member = prop_oneof![
        (0_i64..4, any::<bool>()).prop_map(|(n, given)| if given {
            json!({"type": "integer", "minimum": n, "default": n})
        } else {
            json!({"type": "integer", "minimum": n})
        }),
        (1_u64..4).prop_map(|n| json!({"type": "string", "maxLength": n})),
        prop::sample::subsequence(vec!["a", "ab", "abc"], 1..4).prop_map(|words| json!({"enum": words})),
        Just(json!({"type": "number"})),
        Just(json!({"type": ["string", "null"]})),
        Just(json!({"type": "array", "items": {"$ref": "#/$defs/n"}})),
        Just(json!({"$ref": "#/$defs/n"})),
    ];
    (named(member), prop::sample::subsequence(NAMES.to_vec(), 0..3), 0_i64..3, any::<bool>()).prop_map(|(members, required, least, closed)| {
        let mut schema = json!({"type": "object", "properties": members, "required": required, "$defs": {"n": {"type": "integer", "minimum": least}}});
        schema["additionalProperties"] = json!(!closed);
        schema
    })
}

fn definition(input_schema: Value, description: &str) -> Definition {
    toolgate_contracts::json::decode(json!({
        "name": "doIt", "version": "1.0.0", "description": description, "input_schema": input_schema, "runner": {"kind": "external"},
    }))
    .unwrap()
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = tool_md::parse(&bytes);
        let _ = tool_md::parse_json(&bytes);
    }

    #[test]
    fn no_yaml_makes_the_reader_panic(front in "([a-z_]{1,12}|[-:&*!|>'\"{}\\[\\],?#%~<@` \n\t]|input_schema|runner|kind|name){0,60}", body in ".{0,20}") {
        let _ = tool_md::parse(format!("---\n{front}\n---\n{body}").as_bytes());
    }

    #[test]
    fn what_is_written_reads_the_same(text in "[\\PC\n]{1,60}", word in "\\PC{0,12}", tags in prop::collection::vec("\\PC{0,8}", 0..4), value in any_value()) {
        let mut written = definition(json!({"type": "object", "properties": {word.clone(): {"description": word, "default": value}}}), &text);
        written.tags = tags;
        written.title = Some(text);
        let file = tool_md::write(&written);
        let read = tool_md::parse(file.as_bytes()).map_err(|findings| TestCaseError::fail(format!("{findings:#?}\n{file}")))?;
        prop_assert_eq!(read.definition, written, "{}", file);
    }

    #[test]
    fn draft_07_and_its_conversion_accept_the_same(schema in draft_07_schema(), values in prop::collection::vec(any_value(), 1..12)) {
        let converted = convert(&schema, Dialect::Draft07, "").map_err(|findings| TestCaseError::fail(format!("{findings:#?}")))?.unwrap().schema;
        let validator = Validator::new(&converted).map_err(|finding| TestCaseError::fail(format!("{finding:?}\n{converted:#}")))?;
        for value in &values {
            prop_assert_eq!(draft_07_accepts(&schema, value), Some(validator.is_valid(value)), "{}\n{:#}\n{:#}", value, schema, converted);
        }
        prop_assert!(convert(&converted, Dialect::Draft07, "").unwrap().is_none());
    }

    #[test]
    fn what_is_told_in_draft_07_accepts_the_same(schema in modern_schema(), values in prop::collection::vec(any_value(), 1..12)) {
        let old = to_draft_07(&schema);
        let validator = Validator::new(&schema).map_err(|finding| TestCaseError::fail(format!("{finding:?}\n{schema:#}")))?;
        for value in &values {
            prop_assert_eq!(draft_07_accepts(&old, value), Some(validator.is_valid(value)), "{}\n{:#}\n{:#}", value, schema, old);
        }
    }

    #[test]
    fn there_is_a_reason_exactly_when_a_value_is_not_valid(schema in modern_schema(), value in any_value()) {
        let validator = Validator::new(&schema).unwrap();
        let violations = validator.validate(&value);
        prop_assert_eq!(violations.is_empty(), validator.is_valid(&value));
        prop_assert!(violations.iter().all(|violation| violation.found.len() <= toolgate_registry::schema::FOUND_BYTES_MAX));
    }

    #[test]
    fn any_json_can_be_judged(schema in any_value(), more in modern_schema()) {
        let _ = check(&schema, "/input_schema");
        let _ = convert(&schema, Dialect::Draft07, "/input_schema");
        let whole = merged(vec![more, json!({"type": "object"}), json!({"properties": {"x": schema}})]);
        if !has_errors(&check(&whole, "")) {
            prop_assert!(Validator::new(&whole).is_ok(), "{:#}", whole);
        }
    }

    #[test]
    fn defaults_are_filled_once(schema in modern_schema(), first in any_value(), second in any_value(), value in any_object()) {
        let with = json!({"properties": {"a": {"default": first, "allOf": [schema]}, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"default": second}}});
        let mut once = value.clone();
        fill_defaults(&with, &mut once).unwrap();
        let mut twice = once.clone();
        fill_defaults(&with, &mut twice).unwrap();
        prop_assert_eq!(&once, &twice);
        for (name, member) in value.as_object().unwrap() {
            if name != "a" {
                prop_assert_eq!(&once[name], member, "what was there stays");
            }
        }
    }

    #[test]
    fn nothing_differs_from_itself(schema in modern_schema(), text in "\\PC{1,20}") {
        let one = definition(schema, &text);
        let difference = compare(&one, &one.clone());
        prop_assert_eq!(difference.class, ChangeClass::None, "{:?}", difference);
        prop_assert!(toolgate_registry::diff::text(&one, &one).is_empty());
    }

    #[test]
    fn what_is_called_widening_refuses_nothing(old in arguments(), new in arguments(), values in prop::collection::vec(any_object(), 1..30)) {
        // New members of an open object may have been sent before, as anything: that much is known and accepted.
        prop_assume!(old["additionalProperties"] == json!(false));
        let difference = compare(&definition(old.clone(), "x"), &definition(new.clone(), "x"));
        if difference.class > ChangeClass::Widening {
            return Ok(());
        }
        let (before, after) = (Validator::new(&old).unwrap(), Validator::new(&new).unwrap());
        for value in values {
            let (mut then, mut now) = (value.clone(), value.clone());
            fill_defaults(&old, &mut then).unwrap();
            fill_defaults(&new, &mut now).unwrap();
            prop_assert!(!before.is_valid(&then) || after.is_valid(&now), "{}\n{:#}\n{:#}\n{:?}", value, old, new, difference);
        }
    }

    #[test]
    fn small_changes_called_widening_refuse_nothing(old in arguments(), name in prop::sample::select(NAMES.to_vec()), keyword in leaf_keywords(), values in prop::collection::vec(any_object(), 1..30)) {
        let mut new = old.clone();
        let Some(member) = new["properties"].get_mut(name) else { return Ok(()) };
        *member = merged(vec![member.clone(), keyword]);
        let difference = compare(&definition(old.clone(), "x"), &definition(new.clone(), "x"));
        if difference.class > ChangeClass::Widening {
            return Ok(());
        }
        let (before, after) = (Validator::new(&old).unwrap(), Validator::new(&new).unwrap());
        for value in values {
            prop_assert!(!before.is_valid(&value) || after.is_valid(&value), "{}\n{:#}\n{:#}\n{:?}", value, old, new, difference);
        }
    }

    #[test]
    fn every_rendering_names_the_tool_as_providers_allow(name in "[A-Za-z][A-Za-z0-9_-]{0,63}(\\.[A-Za-z][A-Za-z0-9_-]{0,63})?", schema in modern_schema()) {
        let mut tool = definition(schema, "x");
        tool.name = name.parse().unwrap();
        for form in Form::ALL {
            let rendered = one(&tool, form, &Originals::default());
            prop_assert_eq!(&rendered, &one(&tool, form, &Originals::default()));
            if let (Form::Anthropic | Form::Gemini | Form::Mcp, Rendered::Json(value)) = (form, &rendered) {
                let wire = value["name"].as_str().unwrap();
                prop_assert!(wire.len() <= 64 && wire.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{}", wire);
            }
        }
    }

    #[test]
    fn any_query_can_be_asked(query in ".{0,80}", names in prop::collection::vec("[a-z]{1,8}(_[a-z]{1,8})?", 0..20), limit in 0_usize..8) {
        let entries: Vec<Entry> = names.iter().map(|name| {
            let mut tool = definition(json!({}), "Some words about it");
            tool.name = name.parse().unwrap();
            Entry::of_tool(&tool)
        }).collect();
        let index = Index::build(entries);
        let hits = index.search(&query, limit, |_, _| true);
        prop_assert!(hits.len() <= limit);
        prop_assert_eq!(&hits, &index.search(&query, limit, |_, _| true));
        for name in &names {
            prop_assert_eq!(&index.search(name, 1, |_, _| true)[0].entry.name, name);
        }
    }
}
