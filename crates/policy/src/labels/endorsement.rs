//! Whether a schema leaves room for words: a result of only numbers, booleans and listed values cannot carry an
//! instruction, so in a workflow it may lose the label `untrusted`.
//!
//! The question is answered `true` whenever it is not certain.

use serde_json::{Map, Value};

const DEPTH_MAX: usize = 32;

/// Whether a value of this schema could hold text that the schema does not list.
pub fn has_free_text(schema: &Value) -> bool {
    !Reader { root: schema }.is_closed(schema, 0)
}

struct Reader<'a> {
    root: &'a Value,
}

impl Reader<'_> {
    fn is_closed(&self, schema: &Value, depth: usize) -> bool {
        let Value::Object(keywords) = schema else { return schema == &Value::Bool(false) };
        if depth > DEPTH_MAX {
            return false;
        }
        // Keywords are a conjunction: one that leaves no room is enough.
        lists_values(keywords)
            || self.is_closed_by_type(keywords, depth)
            || self.is_closed_by_parts(keywords, depth)
            || self.is_closed_by_reference(keywords, depth)
    }

    fn is_closed_by_type(&self, keywords: &Map<String, Value>, depth: usize) -> bool {
        let of = |kind: &Value| match kind.as_str() {
            Some("number" | "integer" | "boolean" | "null") => true,
            Some("array") => self.has_closed_items(keywords, depth),
            Some("object") => self.has_closed_members(keywords, depth),
            _ => false,
        };
        match keywords.get("type") {
            Some(Value::Array(kinds)) => !kinds.is_empty() && kinds.iter().all(of),
            Some(kind) => of(kind),
            None => false,
        }
    }

    fn has_closed_items(&self, keywords: &Map<String, Value>, depth: usize) -> bool {
        let first = match keywords.get("prefixItems") {
            Some(Value::Array(items)) => items.iter().all(|item| self.is_closed(item, depth + 1)),
            Some(_) => false,
            None => true,
        };
        first && keywords.get("items").is_some_and(|items| self.is_closed(items, depth + 1))
    }

    /// A name that the schema does not list would be free text itself.
    fn has_closed_members(&self, keywords: &Map<String, Value>, depth: usize) -> bool {
        // Not `unevaluatedProperties`: what an `allOf` beside it names counts as evaluated. So with items above.
        let no_others = keywords.get("additionalProperties") == Some(&Value::Bool(false));
        let listed = match keywords.get("properties") {
            Some(Value::Object(members)) => members.values().all(|member| self.is_closed(member, depth + 1)),
            Some(_) => false,
            None => true,
        };
        no_others && listed && !keywords.contains_key("patternProperties")
    }

    fn is_closed_by_parts(&self, keywords: &Map<String, Value>, depth: usize) -> bool {
        let parts = |keyword: &str| keywords.get(keyword).and_then(Value::as_array).filter(|parts| !parts.is_empty());
        let closed = |part: &Value| self.is_closed(part, depth + 1);
        parts("anyOf").is_some_and(|parts| parts.iter().all(closed))
            || parts("oneOf").is_some_and(|parts| parts.iter().all(closed))
            || parts("allOf").is_some_and(|parts| parts.iter().any(closed))
    }

    fn is_closed_by_reference(&self, keywords: &Map<String, Value>, depth: usize) -> bool {
        let target = keywords.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        target.and_then(|pointer| self.root.pointer(pointer)).is_some_and(|schema| self.is_closed(schema, depth + 1))
    }
}

fn lists_values(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("const") || keywords.get("enum").is_some_and(Value::is_array)
}
