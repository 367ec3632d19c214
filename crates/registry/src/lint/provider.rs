//! What model providers refuse or ignore. The gate checks the whole schema in any case; these say what a model
//! will not be told, and where a strict mode cannot be switched on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toolgate_contracts::definition::Definition;

use crate::finding::Finding;
use crate::schema::walk::{Step, places};

const OPENAI_DESCRIPTION_CHARS_MAX: usize = 1_024;
const OPENAI_DEPTH_MAX: usize = 10;
const OPENAI_PROPERTIES_MAX: usize = 5_000;
const OPENAI_ENUM_MAX: usize = 1_000;
/// Not part of strict mode.
const OPENAI_UNSUPPORTED: [&str; 17] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "contains",
    "uniqueItems",
    "prefixItems",
];
/// Left out of what Gemini is told; bounds and patterns are left out too, but a model rarely needs them.
const GEMINI_UNTOLD: [&str; 14] = [
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
];
const LISTED_MAX: usize = 5;

pub(super) fn check(definition: &Definition, findings: &mut Vec<Finding>) {
    let length = definition.description.chars().count();
    if length > OPENAI_DESCRIPTION_CHARS_MAX {
        let message =
            format!("OpenAI takes {OPENAI_DESCRIPTION_CHARS_MAX} characters of description, this has {length}");
        findings.push(Finding::warning(
            "provider.openai",
            "/description",
            message,
            "move details into `docs` or into the descriptions of members",
        ));
    }
    let mut collected = Collected::default();
    collect(&definition.input_schema, &mut collected);
    collected.report(findings);
}

/// Reasons, each with the places it holds for.
#[derive(Default)]
struct Collected {
    openai: BTreeMap<String, Vec<String>>,
    anthropic: BTreeMap<String, Vec<String>>,
    gemini: BTreeMap<String, Vec<String>>,
}

fn collect(schema: &Value, collected: &mut Collected) {
    let places = places(schema);
    let mut properties = 0;
    for place in &places {
        let Value::Object(keywords) = place.schema else { continue };
        let pointer = format!("/input_schema{}", place.pointer);
        if let Some((_, Step::Member(name))) = &place.parent {
            properties += 1;
            member_name(name, &pointer, collected);
        }
        openai(keywords, &pointer, collected);
        let depth = place.pointer.matches("/properties/").count();
        if depth > OPENAI_DEPTH_MAX {
            note(&mut collected.openai, format!("nesting deeper than {OPENAI_DEPTH_MAX} levels"), &pointer);
        }
        for keyword in GEMINI_UNTOLD.into_iter().filter(|keyword| keywords.contains_key(*keyword)) {
            note(&mut collected.gemini, format!("`{keyword}`"), &pointer);
        }
    }
    if properties > OPENAI_PROPERTIES_MAX {
        note(&mut collected.openai, format!("more than {OPENAI_PROPERTIES_MAX} members"), "/input_schema");
    }
}

fn member_name(name: &str, pointer: &str, collected: &mut Collected) {
    let fits = |first: &dyn Fn(char) -> bool, rest: &dyn Fn(char) -> bool| {
        (1..=64).contains(&name.chars().count()) && name.starts_with(first) && name.chars().all(rest)
    };
    if !fits(&|_| true, &|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
        note(&mut collected.anthropic, "member names outside `[a-zA-Z0-9_.-]{1,64}`".to_owned(), pointer);
    }
    if !fits(&|c| c.is_ascii_alphabetic() || c == '_', &|c| c.is_ascii_alphanumeric() || c == '_') {
        note(
            &mut collected.gemini,
            "member names that are not a letter followed by letters, digits and `_`".to_owned(),
            pointer,
        );
    }
}

fn openai(keywords: &Map<String, Value>, pointer: &str, collected: &mut Collected) {
    for keyword in OPENAI_UNSUPPORTED.into_iter().filter(|keyword| keywords.contains_key(*keyword)) {
        note(&mut collected.openai, format!("`{keyword}`"), pointer);
    }
    let is_object = keywords.get("type").is_some_and(|name| name == "object") || keywords.contains_key("properties");
    if is_object && keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
        note(&mut collected.openai, "objects without `additionalProperties: false`".to_owned(), pointer);
    }
    let required: BTreeSet<&str> =
        keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let optional = keywords
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .any(|(name, _)| !required.contains(name.as_str()));
    if optional {
        note(&mut collected.openai, "members that are not `required`".to_owned(), pointer);
    }
    if keywords.get("enum").and_then(Value::as_array).is_some_and(|options| options.len() > OPENAI_ENUM_MAX) {
        note(&mut collected.openai, format!("`enum` with more than {OPENAI_ENUM_MAX} values"), pointer);
    }
}

fn note(reasons: &mut BTreeMap<String, Vec<String>>, reason: String, pointer: &str) {
    reasons.entry(reason).or_default().push(pointer.to_owned());
}

impl Collected {
    fn report(self, findings: &mut Vec<Finding>) {
        if let Some((message, pointer)) = told("OpenAI's strict mode cannot be switched on, because of", self.openai) {
            let fix = "for strict mode: `additionalProperties: false` everywhere, every member `required` (optional ones `type: [string, \"null\"]`), `anyOf` as the only choice; nothing to do otherwise";
            findings.push(Finding::note("provider.openai", pointer, message, fix));
        }
        if let Some((message, pointer)) = told("Anthropic refuses", self.anthropic) {
            findings.push(Finding::warning("provider.anthropic", pointer, message, "rename the members"));
        }
        if let Some((message, pointer)) = told("Gemini is not told of", self.gemini) {
            let fix = "say it in the description too; the gate checks it in any case";
            findings.push(Finding::note("provider.gemini", pointer, message, fix));
        }
    }
}

fn told(lead: &str, reasons: BTreeMap<String, Vec<String>>) -> Option<(String, String)> {
    let first = reasons.values().next()?.first()?.clone();
    let parts: Vec<String> = reasons
        .into_iter()
        .map(|(reason, mut pointers)| {
            let more = pointers.len().saturating_sub(LISTED_MAX);
            pointers.truncate(LISTED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{reason} (at {}{more})", pointers.join(", "))
        })
        .collect();
    Some((format!("{lead} {}", parts.join("; ")), first))
}
