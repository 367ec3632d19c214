//! Where what was recorded and what was replayed part, in words.

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::{RunId, json};
use utoipa::ToSchema;

/// Differences that are told; the first is what the others may follow from.
pub const DIFFERENCES_MAX: usize = 100;
/// Of a value that differs; a longer one is shown as the beginning of its text.
const SHOWN_BYTES_MAX: usize = 2 * 1024;
/// Of two long texts, what stands around the first letter that differs.
const BEFORE_CHARS: usize = 40;
const AROUND_CHARS: usize = 160;

/// One place where both differ.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ReplayDifference)]
pub struct Difference {
    /// JSON Pointer into the bundle.
    pub at: String,
    #[schema(value_type = Value)]
    pub recorded: Value,
    #[schema(value_type = Value)]
    pub replayed: Value,
    /// In words.
    pub told: String,
}

/// A decision of which nobody can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ReplayUnknown)]
pub struct UnknownDecision {
    pub seq: u32,
    pub tool: String,
    pub why: String,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Replayed {
    pub equal: bool,
    pub run: RunId,
    pub agent: String,
    /// Questions to the model, calls and decisions that were compared.
    pub turns: u32,
    pub calls: u32,
    pub decisions: u32,
    /// Of the first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub recorded: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub replayed: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// All of them, the first one first.
    pub differences: Vec<Difference>,
    pub unknown: Vec<UnknownDecision>,
    /// What to know about this result.
    pub notes: Vec<String>,
}

impl Difference {
    /// `None`: both are the same. The pointer goes on to the first member that differs.
    pub(super) fn between(at: String, recorded: &Value, replayed: &Value, told: impl Into<String>) -> Option<Self> {
        let (at, recorded, replayed) = first(at, recorded, replayed)?;
        let (recorded, replayed) = shown(recorded, replayed);
        Some(Self { at, recorded, replayed, told: told.into() })
    }

    pub(super) fn new(at: String, recorded: &Value, replayed: &Value, told: impl Into<String>) -> Self {
        let (recorded, replayed) = shown(recorded, replayed);
        Self { at, recorded, replayed, told: told.into() }
    }
}

/// Where two values part first, in the order of the members. Absent and null differ as members, and read as null here.
fn first<'v>(at: String, recorded: &'v Value, replayed: &'v Value) -> Option<(String, &'v Value, &'v Value)> {
    match (recorded, replayed) {
        _ if recorded == replayed => None,
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let below = format!("{at}/{}", json::escape(name));
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => first(below, one, other),
                    (one, other) => Some((below, one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null))),
                }
            })
        }
        (Value::Array(one), Value::Array(other)) => (0..one.len().max(other.len())).find_map(|index| {
            let below = format!("{at}/{index}");
            match (one.get(index), other.get(index)) {
                (Some(one), Some(other)) => first(below, one, other),
                (one, other) => Some((below, one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null))),
            }
        }),
        _ => Some((at, recorded, replayed)),
    }
}

fn shown(recorded: &Value, replayed: &Value) -> (Value, Value) {
    if let (Value::String(one), Value::String(other)) = (recorded, replayed) {
        let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
        let around = |text: &str| {
            let long = text.chars().count() > AROUND_CHARS;
            let from = if long { same.saturating_sub(BEFORE_CHARS) } else { 0 };
            let part: String = text.chars().skip(from).take(AROUND_CHARS).collect();
            let (before, after) = (from > 0, text.chars().count() > from + AROUND_CHARS);
            Value::from(format!("{}{part}{}", if before { "…" } else { "" }, if after { "…" } else { "" }))
        };
        return (around(one), around(other));
    }
    (shortened(recorded), shortened(replayed))
}

fn shortened(value: &Value) -> Value {
    let text = json::canonical(value);
    if text.len() <= SHOWN_BYTES_MAX {
        return value.clone();
    }
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let check = |recorded: Value, replayed: Value, wanted: Option<(&str, Value, Value)>| {
            let found = Difference::between("/x".to_owned(), &recorded, &replayed, "told");
            let found = found.map(|found| (found.at, found.recorded, found.replayed));
            assert_eq!(found, wanted.map(|(at, one, other)| (at.to_owned(), one, other)), "{recorded} {replayed}");
        };
        check(json!({"a": [1, 2]}), json!({"a": [1, 2]}), None);
        check(json!({"a": [1, 2]}), json!({"a": [1, 3]}), Some(("/x/a/1", json!(2), json!(3))));
        check(json!({"a": [1]}), json!({"a": [1, 3]}), Some(("/x/a/1", json!(null), json!(3))));
        check(json!({"a": 1}), json!({"b/c": 1}), Some(("/x/a", json!(1), json!(null))));
        check(json!({}), json!({"b/c": 1}), Some(("/x/b~1c", json!(null), json!(1))));
        check(json!({"a": null}), json!({}), Some(("/x/a", json!(null), json!(null))));
        check(json!("one"), json!(["one"]), Some(("/x", json!("one"), json!(["one"]))));
    }

    #[test]
    fn long_texts_are_shown_around_where_they_part() {
        let text = |word: &str| Value::from(format!("{}{word}{}", "a".repeat(500), "b".repeat(500)));
        let found = Difference::between(String::new(), &text("one"), &text("two"), "told").unwrap();
        for (value, word) in [(found.recorded, "one"), (found.replayed, "two")] {
            let shown = value.as_str().unwrap();
            assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains(word), "{shown}");
            assert!(shown.chars().count() <= AROUND_CHARS + 2, "{shown}");
        }
        let long = json!(["a".repeat(5_000)]);
        let found = Difference::between(String::new(), &long, &json!(null), "told").unwrap();
        assert!(found.recorded.as_str().unwrap().ends_with("… (5004 bytes)"));
    }
}
