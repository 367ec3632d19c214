//! Schemas as people and models meet them: what an argument means, where anything goes, what comes back.

use serde_json::{Map, Value};
use toolgate_contracts::definition::{Definition, Origin};
use toolgate_contracts::json::escape;

use crate::finding::{FINDINGS_MAX, Finding, SUGGESTIONS_MAX, nearest, shown};
use crate::schema::walk::{Place, Step, places, target};
use crate::schema::{Budget, Validator, fill_within};

/// Keywords that make the top level a choice; clients that read `properties` then see no arguments at all.
const UNIONS: [&str; 8] = ["oneOf", "anyOf", "allOf", "not", "if", "$ref", "enum", "const"];

pub(super) fn check(definition: &Definition, origin: Origin, findings: &mut Vec<Finding>) {
    top_level(definition, findings);
    input_less(definition, findings);
    // What others defined is as it is; who writes a definition can say what comes back.
    let own = matches!(origin, Origin::Code | Origin::Tenant | Origin::Bundle);
    if definition.output_schema.is_none() {
        let message = "there is no `output_schema`: nobody can rely on what comes back";
        let fix = "add `output_schema` with `type: object` and what the tool returns";
        findings.push(if own {
            Finding::error("output.missing", "", message, fix)
        } else {
            Finding::warning("output.missing", "", message, fix)
        });
    }
    each_place(&definition.input_schema, "/input_schema", Side::Input, findings);
    if let Some(output) = &definition.output_schema {
        each_place(output, "/output_schema", Side::Output, findings);
    }
}

fn top_level(definition: &Definition, findings: &mut Vec<Finding>) {
    for keyword in UNIONS.into_iter().filter(|keyword| definition.input_schema.get(keyword).is_some()) {
        let message = format!(
            "`{keyword}` at the top level: MCP clients then see a tool without arguments, and Anthropic refuses it"
        );
        let fix = "flatten it: one object with an `action` that is an `enum` and all other members optional, checked by the tool";
        findings.push(Finding::error("schema.union", format!("/input_schema/{keyword}"), message, fix));
    }
}

fn input_less(definition: &Definition, findings: &mut Vec<Finding>) {
    let members = definition.input_schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    let open = matches!(definition.input_schema.get("additionalProperties"), Some(Value::Object(schema)) if !schema.is_empty());
    if members == 0 && !open && !definition.input_less {
        let fix = "describe the arguments under `properties`, or write `input_less: true` if it takes none on purpose";
        findings.push(Finding::error("input.none", "/input_schema", "the tool takes no input", fix));
    }
    if members > 0 && definition.input_less {
        findings.push(Finding::error(
            "input.some",
            "/input_less",
            "`input_less: true`, but the schema has members",
            "remove one of the two",
        ));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

fn each_place(schema: &Value, at: &str, side: Side, findings: &mut Vec<Finding>) {
    let places = places(schema);
    let mut told = 0;
    for place in &places {
        let Value::Object(keywords) = place.schema else { continue };
        let pointer = format!("{at}{}", place.pointer);
        undescribed(schema, place, keywords, &pointer, findings);
        unlisted_requirements(keywords, &pointer, &mut told, findings);
        // What only waits in `$defs` is judged where it is used, if at all; the top level has rules of its own.
        if place.parent.is_some() {
            open_map(keywords, &pointer, side, findings);
        }
    }
}

/// A model fills in an argument by its description.
fn undescribed(
    root: &Value,
    place: &Place<'_>,
    keywords: &Map<String, Value>,
    pointer: &str,
    findings: &mut Vec<Finding>,
) {
    let Some((_, Step::Member(name))) = &place.parent else { return };
    let has_text = |keywords: &Map<String, Value>| {
        keywords.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
    };
    let referred = keywords.get("$ref").and_then(Value::as_str).and_then(|reference| target(root, reference));
    if !has_text(keywords) && !referred.and_then(Value::as_object).is_some_and(has_text) {
        let message = format!("the member `{}` has no description", shown(name));
        findings.push(Finding::warning(
            "schema.undescribed",
            pointer,
            message,
            "add `description:` that says what to put in, with an example",
        ));
    }
}

/// `told` is how many the schema has so far: beyond what is shown, one for each place has to do.
fn unlisted_requirements(keywords: &Map<String, Value>, pointer: &str, told: &mut usize, findings: &mut Vec<Finding>) {
    let Some(properties) = keywords.get("properties").and_then(Value::as_object) else { return };
    let closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !properties.contains_key(*name)) {
        let message = format!("`{}` is required, but not under `properties`", shown(name));
        *told += 1;
        let meant = (*told <= SUGGESTIONS_MAX).then(|| nearest(name, properties.keys().map(String::as_str))).flatten();
        let fix = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "describe it under `properties`, or remove it from `required`".to_owned(),
        };
        let place = format!("{pointer}/required");
        findings.push(if closed {
            Finding::error(
                "schema.required",
                place,
                format!("{message}, and nothing else is allowed: no value can be valid"),
                fix,
            )
        } else {
            Finding::warning("schema.required", place, message, fix)
        });
        if *told >= FINDINGS_MAX {
            return;
        }
    }
}

/// An object in which anything goes gives a model nothing to go by, and strict providers refuse it.
fn open_map(keywords: &Map<String, Value>, pointer: &str, side: Side, findings: &mut Vec<Finding>) {
    let object = match keywords.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => keywords.contains_key("additionalProperties"),
    };
    let described = ["properties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"]
        .iter()
        .any(|keyword| keywords.contains_key(*keyword));
    if !object {
        return;
    }
    let fix = "name the known members under `properties`; `additionalProperties: true` says that it is open on purpose";
    match keywords.get("additionalProperties") {
        Some(Value::Object(schema)) if schema.is_empty() && side == Side::Input => {
            let message = "`additionalProperties: {}` allows anything under any name; OpenAI's strict mode refuses it";
            findings.push(Finding::error("schema.open-map", format!("{pointer}/additionalProperties"), message, fix));
        }
        None if !described && side == Side::Input => {
            let message =
                "an object without `properties` allows anything under any name; OpenAI's strict mode refuses it";
            findings.push(Finding::error("schema.open-map", pointer, message, fix));
        }
        Some(Value::Bool(true)) if side == Side::Input => {
            let message = "an open object: anything goes under any name, and OpenAI's strict mode refuses it";
            findings.push(Finding::warning(
                "schema.open-map",
                format!("{pointer}/additionalProperties"),
                message,
                "name the known members under `properties` if there are any",
            ));
        }
        Some(Value::Object(schema)) if schema.is_empty() => {
            let message = "`additionalProperties: {}` says nothing about what comes back";
            findings.push(Finding::warning("schema.open-map", format!("{pointer}/additionalProperties"), message, fix));
        }
        _ => {}
    }
}

/// Steps that checking all examples and defaults of a definition may take.
const CHECKING_STEPS_MAX: u64 = 2_000_000;

/// Examples and defaults must fit the schemas they illustrate.
pub(super) fn check_values(definition: &Definition, findings: &mut Vec<Finding>) {
    let mut budget = Budget::new(CHECKING_STEPS_MAX);
    if examples(definition, &mut budget, findings).is_none() {
        let message = "checking the examples against the schema takes too long: the rest is not checked";
        let fix = "keep fewer and shorter examples, or describe the data more simply";
        findings.push(Finding::warning("example.unchecked", "/examples", message, fix));
        return;
    }
    let schemas =
        [("/input_schema", Some(&definition.input_schema)), ("/output_schema", definition.output_schema.as_ref())];
    for (at, schema) in schemas {
        let Some(schema) = schema else { continue };
        if illustrations(schema, at, &mut budget, findings).is_none() {
            let message = "checking the examples and defaults in the schema takes too long: the rest is not checked";
            let fix = "keep fewer and shorter ones, or describe the data more simply";
            findings.push(Finding::warning("example.unchecked", at, message, fix));
            return;
        }
    }
}

/// `None` once the budget is spent, as below.
fn examples(definition: &Definition, budget: &mut Budget, findings: &mut Vec<Finding>) -> Option<()> {
    if definition.examples.is_empty() {
        return Some(());
    }
    let input = Validator::new(&definition.input_schema).ok();
    let output = definition.output_schema.as_ref().and_then(|schema| Validator::new(schema).ok());
    for (index, example) in definition.examples.iter().enumerate() {
        if let Some(input) = &input {
            let mut filled = example.input.clone();
            // Filling takes from the same budget; what is too large to be filled is not judged either.
            fill_within(&definition.input_schema, &mut filled, &mut budget.left).ok()?;
            report(input, &filled, "example.input", &format!("/examples/{index}/input"), budget, findings)?;
        }
        match (&output, &example.output) {
            (Some(output), Some(value)) => {
                report(output, value, "example.output", &format!("/examples/{index}/output"), budget, findings)?;
            }
            (None, Some(_)) => {
                let message = "the example has an `output`, but there is no `output_schema` to check it";
                findings.push(Finding::warning(
                    "example.unchecked",
                    format!("/examples/{index}/output"),
                    message,
                    "add `output_schema`",
                ));
            }
            _ => {}
        }
    }
    Some(())
}

fn report(
    validator: &Validator,
    value: &Value,
    code: &'static str,
    pointer: &str,
    budget: &mut Budget,
    findings: &mut Vec<Finding>,
) -> Option<()> {
    for wrong in validator.validate_within(value, budget)? {
        let message = format!("the example does not fit the schema: {}", wrong.message);
        findings.push(Finding::error(
            code,
            format!("{pointer}{}", wrong.pointer),
            message,
            "correct the example or the schema",
        ));
    }
    Some(())
}

/// What may be compiled to check defaults and examples; far beyond any real schema.
const ILLUSTRATED_BYTES_MAX: usize = 1024 * 1024;

/// `default` and `examples` inside a schema.
fn illustrations(schema: &Value, at: &str, budget: &mut Budget, findings: &mut Vec<Finding>) -> Option<()> {
    let defs = ["$defs", "definitions"].map(|keyword| (keyword, schema.get(keyword)));
    let defs_bytes: usize = defs.iter().filter_map(|(_, defs)| *defs).map(|defs| defs.to_string().len()).sum();
    let mut left = ILLUSTRATED_BYTES_MAX;
    for place in places(schema) {
        let Value::Object(keywords) = place.schema else { continue };
        if !keywords.contains_key("default") && !keywords.contains_key("examples") {
            continue;
        }
        // The part by itself, with the definitions it may refer to; a part that refers elsewhere is skipped.
        let text = place.schema.to_string();
        let refers = text.contains("\"$ref\"");
        left = left.checked_sub(text.len() + if refers { defs_bytes } else { 0 })?;
        let mut part = keywords.clone();
        let illustrated = (part.shift_remove("default"), part.shift_remove("examples"));
        for (keyword, value) in defs.iter().filter(|_| refers) {
            if let Some(value) = value {
                part.entry(*keyword).or_insert_with(|| (*value).clone());
            }
        }
        let Ok(validator) = Validator::new(&Value::Object(part)) else { continue };
        let pointer = format!("{at}{}", place.pointer);
        if let Some(default) = illustrated.0
            && let Some(wrong) = validator.validate_within(&default, budget)?.into_iter().next()
        {
            let message = format!("the default does not fit its own schema: {}", wrong.message);
            findings.push(Finding::error(
                "schema.default",
                format!("{pointer}/default"),
                message,
                "correct the default: every call that leaves the member out would fail",
            ));
        }
        let examples = illustrated.1.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, value) in examples.iter().enumerate().take(FINDINGS_MAX) {
            if let Some(wrong) = validator.validate_within(value, budget)?.into_iter().next() {
                let message = format!("the example does not fit its own schema: {}", wrong.message);
                findings.push(Finding::warning(
                    "schema.example",
                    format!("{pointer}/examples/{}", escape(&index.to_string())),
                    message,
                    "correct the example",
                ));
            }
        }
    }
    Some(())
}
