//! Why a value does not fit a schema, in words a model can act on: which member, what was expected, what came.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::json::escape;
use utoipa::ToSchema;

use super::walk;
use crate::finding::nearest;

/// How much of the caller's own value is quoted back.
pub const FOUND_BYTES_MAX: usize = 200;
const LISTED_MAX: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Violation {
    /// JSON Pointer into the value.
    pub pointer: String,
    pub expected: String,
    pub found: String,
    pub message: String,
}

impl Violation {
    fn new(pointer: String, expected: impl Into<String>, found: impl Into<String>, advice: &str) -> Self {
        let (expected, found) = (expected.into(), found.into());
        let place = if pointer.is_empty() { "the value".to_owned() } else { format!("`{}`", quoted(&pointer)) };
        let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        let message = format!("{place} must be {expected}, got {found}{advice}");
        Self { pointer, expected, found, message }
    }

    /// For values with so many ways to be wrong that telling them would take too long.
    pub(super) fn unexplained(value: &Value) -> Self {
        let advice = "the value is too large or nested too deep for a closer answer: try a smaller part of it first";
        Self::new(String::new(), "as the schema says", describe(value), advice)
    }

    /// For values that are not judged at all.
    pub(super) fn too_large(value: &Value) -> Self {
        let advice = "checking it against the schema would take too long; send less, or in several calls";
        Self::new(String::new(), "smaller", describe(value), advice)
    }
}

/// One library error becomes one violation, or one per unexpected member.
pub(super) fn explain(error: &ValidationError<'_>, root: &Value) -> Vec<Violation> {
    let pointer = error.instance_path().as_str().to_owned();
    let instance = error.instance();
    let parent = || parent_schema(root, error.schema_path().as_str());
    let one =
        |expected: String, advice: &str| vec![Violation::new(pointer.clone(), expected, describe(instance), advice)];
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let schema = parent().and_then(|schema| schema.get("properties")?.get(name));
            let expected = schema.map_or_else(|| "present".to_owned(), |schema| wanted(schema, root));
            let pointer = format!("{pointer}/{}", escape(name));
            let message = format!("`{}` is missing; it must be {expected}", quoted(&pointer));
            vec![Violation { pointer, expected, found: "nothing".to_owned(), message }]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = parent().map(|schema| known_members(schema)).unwrap_or_default();
            unexpected.iter().take(LISTED_MAX).map(|name| unexpected_member(&pointer, name, &known)).collect()
        }
        Kind::Type { kind } => {
            let types: Vec<String> = match kind {
                TypeKind::Single(one) => vec![one.to_string()],
                TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect(),
            };
            one(any_of(&types), retype(instance, &types))
        }
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let words: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
            let meant = instance.as_str().and_then(|word| nearest(word, words.iter().copied()));
            let advice = meant.map(|meant| format!("did you mean `{}`?", quoted(meant))).unwrap_or_default();
            one(format!("one of {}", list(options)), &advice)
        }
        Kind::Constant { expected_value } => one(clipped(expected_value), ""),
        Kind::Minimum { limit } => one(format!("{limit} or more"), ""),
        Kind::Maximum { limit } => one(format!("{limit} or less"), ""),
        Kind::ExclusiveMinimum { limit } => one(format!("more than {limit}"), ""),
        Kind::ExclusiveMaximum { limit } => one(format!("less than {limit}"), ""),
        Kind::MultipleOf { multiple_of } => one(format!("a multiple of {multiple_of}"), ""),
        Kind::MinLength { limit } => one(format!("text of at least {limit} characters"), ""),
        Kind::MaxLength { limit } => one(format!("text of at most {limit} characters"), "shorten it"),
        Kind::MinItems { limit } => one(format!("a list of at least {limit} items"), ""),
        Kind::MaxItems { limit } => one(format!("a list of at most {limit} items"), "send fewer, or in several calls"),
        Kind::MinProperties { limit } => one(format!("an object with at least {limit} members"), ""),
        Kind::MaxProperties { limit } => one(format!("an object with at most {limit} members"), ""),
        Kind::AdditionalItems { limit } => one(format!("a list of at most {limit} items"), ""),
        Kind::UnevaluatedItems { .. } => one("a list without further items".to_owned(), "remove the last items"),
        Kind::UniqueItems => one("a list without repetitions".to_owned(), "send each item once"),
        Kind::Contains => one("a list that contains a certain kind of item".to_owned(), "see `contains` in the schema"),
        Kind::Pattern { pattern } => one(format!("text that matches `{}`", quoted(pattern)), ""),
        Kind::Format { format } => one(format!("text in the format `{}`", quoted(format)), example_of(format)),
        Kind::PropertyNames { error } => {
            let inner = explain(error, root).into_iter().next();
            let expected = inner.map_or_else(|| "allowed".to_owned(), |inner| inner.expected);
            vec![Violation::new(
                pointer,
                format!("an object whose member names are {expected}"),
                describe(error.instance()),
                "",
            )]
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(&pointer, instance, context, root),
        Kind::OneOfMultipleValid { .. } => {
            one("exactly one of the alternatives".to_owned(), "it fits several: leave out what belongs to the others")
        }
        Kind::FalseSchema => one("absent".to_owned(), "leave it out"),
        Kind::Not { .. } => one("something else".to_owned(), "the schema forbids exactly this (`not`)"),
        Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. }
        | Kind::ContentEncoding { .. }
        | Kind::ContentMediaType { .. }
        | Kind::Custom { .. }
        | Kind::FromUtf8 { .. }
        | Kind::Referencing(_) => one("as the schema says".to_owned(), ""),
    }
}

fn unexpected_member(parent: &str, name: &str, known: &[&str]) -> Violation {
    let pointer = format!("{parent}/{}", escape(name));
    let expected = if known.is_empty() {
        "absent".to_owned()
    } else {
        format!("one of the members {}", known.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", "))
    };
    let advice = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{}`?", quoted(meant)),
        None if known.is_empty() => "leave it out".to_owned(),
        None => format!(
            "leave it out; known here: {}",
            known.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ")
        ),
    };
    let message = format!("`{}` is not a known member; {advice}", quoted(&pointer));
    Violation { pointer, expected, found: format!("a member `{}`", quoted(name)), message }
}

/// The alternative that came closest speaks for all: the one whose errors lie deepest, then the fewest.
fn alternatives(
    pointer: &str,
    instance: &Value,
    context: &[Vec<ValidationError<'static>>],
    root: &Value,
) -> Vec<Violation> {
    let depth = |errors: &[ValidationError<'_>]| {
        errors.iter().map(|error| error.instance_path().as_str().matches('/').count()).min().unwrap_or(0)
    };
    let closest = context
        .iter()
        .filter(|errors| !errors.is_empty())
        .min_by_key(|errors| (std::cmp::Reverse(depth(errors)), errors.len()));
    let hint = closest.and_then(|errors| errors.first()).and_then(|error| explain(error, root).into_iter().next());
    let advice = hint.map(|hint| format!("in the closest one {}", hint.message)).unwrap_or_default();
    vec![Violation::new(
        pointer.to_owned(),
        format!("one of {} alternatives", context.len()),
        describe(instance),
        &advice,
    )]
}

/// The schema object that holds the failing keyword.
fn parent_schema<'a>(root: &'a Value, keyword: &str) -> Option<&'a Value> {
    keyword.rsplit_once('/').and_then(|(parent, _)| root.pointer(parent))
}

fn known_members(schema: &Value) -> Vec<&str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// What a schema asks for, in a few words.
fn wanted(schema: &Value, root: &Value) -> String {
    let referred = schema.get("$ref").and_then(Value::as_str).and_then(|reference| walk::target(root, reference));
    let schema = referred.filter(|_| schema.get("type").is_none()).unwrap_or(schema);
    let types: Vec<String> = match schema.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let mut text = match schema.get("enum").and_then(Value::as_array) {
        Some(options) => format!("one of {}", list(options)),
        None if types.is_empty() => "present".to_owned(),
        None => any_of(&types),
    };
    if let Some(description) = schema.get("description").and_then(Value::as_str) {
        text = format!("{text} ({})", quoted(description));
    }
    text
}

fn any_of(types: &[String]) -> String {
    types.iter().map(|one| article(one)).collect::<Vec<_>>().join(" or ")
}

fn article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "object" | "array" | "integer" => format!("an {name}"),
        other => format!("a {other}"),
    }
}

fn retype(instance: &Value, types: &[String]) -> &'static str {
    let wants = |name: &str| types.iter().any(|one| one == name);
    match instance {
        Value::String(text) if (wants("object") || wants("array")) && text.trim_start().starts_with(['{', '[']) => {
            "send JSON, not JSON inside a string"
        }
        // As a number it could not have been sent, so quotes are not what is wrong with it.
        Value::String(text) if wants("integer") && is_beyond_numbers(text) => {
            "whole numbers end at 9007199254740991, which is as far as they are exact"
        }
        Value::String(text) if (wants("number") || wants("integer")) && text.parse::<f64>().is_ok() => {
            "send it without quotes"
        }
        Value::String(text) if wants("boolean") && matches!(text.as_str(), "true" | "false") => {
            "send it without quotes"
        }
        Value::Number(_) | Value::Bool(_) if wants("string") => "put it in quotes",
        Value::Null => "leave the member out if there is no value",
        Value::String(_) | Value::Object(_) | Value::Number(_) | Value::Bool(_) if wants("array") => {
            "send a list, even for one item"
        }
        _ => "",
    }
}

/// A whole number that no JSON number carries exactly.
fn is_beyond_numbers(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole && digits.parse::<u64>().map_or(true, |number| number > 9_007_199_254_740_991)
}

fn example_of(format: &str) -> &'static str {
    match format {
        "date" => "for example 2026-01-31",
        "date-time" => "for example 2026-01-31T09:30:00Z",
        "time" => "for example 09:30:00Z",
        "duration" => "for example PT15M",
        "email" => "for example ada@example.com",
        "uri" => "for example https://example.com/page",
        "uuid" => "for example 01890a5d-ac96-774b-bcce-b302099a8057",
        "ipv4" => "for example 192.0.2.1",
        "blob" => "upload the file first and send `blob:ID`",
        _ => "",
    }
}

fn list(options: &[Value]) -> String {
    let mut text = options.iter().take(LISTED_MAX).map(clipped).collect::<Vec<_>>().join(", ");
    if options.len() > LISTED_MAX {
        text.push_str(", …");
    }
    text
}

fn describe(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the text",
        Value::Array(_) => "the list",
        Value::Object(_) => "the object",
    };
    format!("{kind} {}", clipped(value))
}

fn clipped(value: &Value) -> String {
    quoted(&value.to_string())
}

/// At most [`FOUND_BYTES_MAX`] bytes, with what a terminal could take for a command escaped.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let piece =
            if toolgate_contracts::unseen::is_unseen(c) { c.escape_unicode().to_string() } else { c.to_string() };
        if out.len() + piece.len() > FOUND_BYTES_MAX - 20 {
            out.push('…');
            break;
        }
        out.push_str(&piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Validator;
    use super::*;

    #[track_caller]
    fn check(schema: Value, value: Value, expected: &[(&str, &str)]) {
        let violations = Validator::new(&schema).unwrap().validate(&value);
        let found: Vec<_> = violations.iter().map(|v| (v.pointer.as_str(), v.message.as_str())).collect();
        assert_eq!(found, expected);
    }

    fn mail() -> Value {
        json!({"type": "object", "additionalProperties": false, "required": ["to", "subject"], "properties": {
            "to": {"type": "string", "format": "email", "description": "Recipient email"},
            "subject": {"type": "string", "maxLength": 10},
            "priority": {"enum": ["low", "high"]}, "copies": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        }, "$defs": {"tag": {"type": "string", "pattern": "^[a-z]+$"}}})
    }

    #[test]
    fn of_a_number_that_is_too_large_it_is_not_said_that_it_has_quotes() {
        for text in ["9007199254740992", "-9007199254740992", "99999999999999999999999"] {
            let told = format!(
                "`/copies` must be an integer, got the text \"{text}\"; whole numbers end at 9007199254740991, which is as \
                 far as they are exact"
            );
            check(mail(), json!({"to": "a@b.c", "subject": "x", "copies": text}), &[("/copies", &told)]);
        }
    }

    #[test]
    fn a_message_says_which_member_what_was_expected_and_what_came() {
        check(
            mail(),
            json!({"subject": "x", "too": 1}),
            &[
                ("/to", "`/to` is missing; it must be a string (Recipient email)"),
                ("/too", "`/too` is not a known member; did you mean `to`?"),
            ],
        );
        check(
            mail(),
            json!({"to": "x", "subject": "far too long", "priority": "hihg", "copies": "3", "tags": ["a", "B"]}),
            &[
                ("/copies", "`/copies` must be an integer, got the text \"3\"; send it without quotes"),
                (
                    "/priority",
                    "`/priority` must be one of \"low\", \"high\", got the text \"hihg\"; did you mean `high`?",
                ),
                (
                    "/subject",
                    "`/subject` must be text of at most 10 characters, got the text \"far too long\"; shorten it",
                ),
                ("/tags/1", "`/tags/1` must be text that matches `^[a-z]+$`, got the text \"B\""),
                ("/to", "`/to` must be text in the format `email`, got the text \"x\"; for example ada@example.com"),
            ],
        );
        check(mail(), json!([]), &[("", "the value must be an object, got the list []")]);
        check(mail(), json!({"to": "a@b.test", "subject": "x"}), &[]);
    }

    #[test]
    fn the_closest_alternative_speaks_for_all() {
        let schema = json!({"type": "object", "properties": {"shape": {"oneOf": [
            {"type": "string"},
            {"type": "object", "properties": {"radius": {"type": "number"}}, "required": ["radius"]},
        ]}}});
        check(
            schema,
            json!({"shape": {"radius": "big"}}),
            &[(
                "/shape",
                "`/shape` must be one of 2 alternatives, got the object {\"radius\":\"big\"}; in the closest one `/shape/radius` must be a number, got the text \"big\"",
            )],
        );
    }

    #[test]
    fn a_caller_s_value_is_quoted_in_part_only() {
        let violations = Validator::new(&json!({"type": "object"})).unwrap().validate(&json!("é".repeat(5000)));
        assert!(violations[0].found.len() <= FOUND_BYTES_MAX, "{}", violations[0].found.len());
        let violations = Validator::new(&mail()).unwrap().validate(&json!({"to": "\u{202e}\u{1b}[0m", "subject": ""}));
        assert!(!violations[0].message.contains(['\u{202e}', '\u{1b}']));
    }

    #[test]
    fn files_are_named_by_their_blob() {
        let schema = json!({"type": "object", "properties": {"file": {"type": "string", "format": "blob"}}});
        check(schema.clone(), json!({"file": "blob:1"}), &[]);
        check(
            schema,
            json!({"file": "/etc/passwd"}),
            &[(
                "/file",
                "`/file` must be text in the format `blob`, got the text \"/etc/passwd\"; upload the file first and send `blob:ID`",
            )],
        );
    }

    #[test]
    fn deep_recursion_is_answered_at_once() {
        let schema = json!({"type": "object", "properties": {"e": {"$ref": "#/$defs/e"}}, "$defs": {"e": {"anyOf": [
            {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/e"}}},
            {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/e"}, "b": {"type": "string"}}},
            {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/e"}, "c": {"type": "string"}}},
            {"type": "string"},
        ]}}});
        let validator = Validator::new(&schema).unwrap();
        let nested = |depth: usize, end: Value| (0..depth).fold(end, |inner, _| json!({"a": inner}));
        assert_eq!(validator.validate(&json!({"e": nested(60, json!("x"))})), []);
        assert_eq!(validator.validate(&json!({"e": nested(60, json!(1))}))[0].pointer, "");
        assert_eq!(validator.validate(&json!({"e": nested(2, json!(1))}))[0].pointer, "/e");
    }
}
