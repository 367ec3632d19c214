//! Where schemas stand inside a schema. One table, so that checking, converting, counting, linting and
//! rendering agree about what is a schema and what is only data that looks like one (`enum`, `default`).

use serde_json::{Map, Value};
use toolgate_contracts::json::escape;

/// A schema with more is refused: nobody reads it, and every reader pays for it.
pub const SUBSCHEMAS_MAX: usize = 2_000;
/// Longer property names are refused; pointers to what lies below them would grow without bound.
pub const NAME_BYTES_MAX: usize = 256;

/// Which part of an instance a subschema judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The same value (`allOf`, `not`, `if` …).
    Same,
    /// One named member.
    Member(String),
    /// Any member whose name is not listed.
    EachMember,
    /// One item, or each.
    Items,
    /// The names of members.
    Names,
    /// Nothing by itself: it waits to be referred to.
    Definition,
}

const ONE: [(&str, Step); 12] = [
    ("additionalProperties", Step::EachMember),
    ("unevaluatedProperties", Step::EachMember),
    ("items", Step::Items),
    ("contains", Step::Items),
    ("unevaluatedItems", Step::Items),
    ("propertyNames", Step::Names),
    ("not", Step::Same),
    ("if", Step::Same),
    ("then", Step::Same),
    ("else", Step::Same),
    ("contentSchema", Step::Definition),
    ("additionalItems", Step::Items),
];
const LISTS: [(&str, Step); 4] =
    [("allOf", Step::Same), ("anyOf", Step::Same), ("oneOf", Step::Same), ("prefixItems", Step::Items)];
const MAPS: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// The keywords of 2020-12, for telling a typing error from an extension.
pub(crate) const KEYWORDS: [&str; 60] = [
    "$schema",
    "$id",
    "$ref",
    "$anchor",
    "$defs",
    "$comment",
    "$dynamicRef",
    "$dynamicAnchor",
    "$vocabulary",
    "definitions",
    "type",
    "enum",
    "const",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$recursiveRef",
    "$recursiveAnchor",
];

pub(crate) struct Child<'a> {
    /// Reference tokens from the parent, escaped, with a leading slash.
    pub path: String,
    pub step: Step,
    pub schema: &'a Value,
}

/// The schemas directly inside a schema. Names that are too long are left out; `check` refuses them.
pub(crate) fn children(schema: &Value) -> Vec<Child<'_>> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut found = Vec::new();
    for (keyword, value) in keywords {
        if let Some((_, step)) = ONE.iter().find(|(name, _)| name == keyword) {
            // An array here is draft-07's tuple: no schema in 2020-12.
            if is_schema(value) {
                found.push(Child { path: format!("/{keyword}"), step: step.clone(), schema: value });
            }
        } else if let Some((_, step)) = LISTS.iter().find(|(name, _)| name == keyword) {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            found.extend(items.iter().enumerate().filter(|(_, item)| is_schema(item)).map(|(index, item)| Child {
                path: format!("/{keyword}/{index}"),
                step: step.clone(),
                schema: item,
            }));
        } else if MAPS.contains(&keyword.as_str()) {
            let named = value.as_object().into_iter().flatten();
            found.extend(named.filter(|(name, item)| is_schema(item) && name.len() <= NAME_BYTES_MAX).map(
                |(name, item)| Child {
                    path: format!("/{keyword}/{}", escape(name)),
                    step: match keyword.as_str() {
                        "properties" => Step::Member(name.clone()),
                        "patternProperties" => Step::EachMember,
                        "dependentSchemas" => Step::Same,
                        _ => Step::Definition,
                    },
                    schema: item,
                },
            ));
        }
    }
    found
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

pub(crate) struct Place<'a> {
    pub pointer: String,
    pub schema: &'a Value,
    /// Index of the schema around this one, and how it got here.
    pub parent: Option<(usize, Step)>,
}

/// Every schema in a schema, itself first. At most one more than allowed, so that the caller can tell.
pub(crate) fn places(schema: &Value) -> Vec<Place<'_>> {
    let mut found = vec![Place { pointer: String::new(), schema, parent: None }];
    let mut next = 0;
    while next < found.len() && found.len() <= SUBSCHEMAS_MAX {
        for Child { path, step, schema } in children(found[next].schema) {
            let pointer = format!("{}{path}", found[next].pointer);
            found.push(Place { pointer, schema, parent: Some((next, step)) });
        }
        next += 1;
    }
    found.truncate(SUBSCHEMAS_MAX + 1);
    found
}

/// Visits every schema in a schema, inner ones last, for rewriting; those of draft-07's keywords too.
pub(crate) fn for_each_mut(schema: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(keywords) = schema else { return };
    visit(keywords);
    for (keyword, value) in keywords.iter_mut() {
        match value {
            Value::Object(named) if MAPS.contains(&keyword.as_str()) || keyword == "dependencies" => {
                named.values_mut().for_each(|inner| for_each_mut(inner, visit));
            }
            Value::Array(items) if LISTS.iter().any(|(name, _)| name == keyword) || keyword == "items" => {
                for inner in items {
                    for_each_mut(inner, visit);
                }
            }
            Value::Object(_) if ONE.iter().any(|(name, _)| name == keyword) => for_each_mut(value, visit),
            _ => {}
        }
    }
}

/// The schema a `#…` reference of `root` means, by pointer or by anchor.
pub(crate) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = fragment(reference)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment);
    }
    places(root)
        .into_iter()
        .find(|place| place.schema.get("$anchor").and_then(Value::as_str) == Some(&fragment))
        .map(|place| place.schema)
}

/// The part after `#`, with percent-encoding undone; `None` for anything that leaves the document.
pub(crate) fn fragment(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    percent_encoding::percent_decode_str(fragment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_that_looks_like_a_schema_is_none() {
        let schema = json!({
            "properties": {"a/b": {"items": {"type": "string"}}, "enum": {"enum": [{"type": "x"}]}},
            "default": {"properties": {"x": {}}}, "allOf": [true, {"not": {}}], "items": [{}], "x-more": {"type": "y"},
        });
        let pointers: Vec<_> = places(&schema).into_iter().map(|place| place.pointer).collect();
        assert_eq!(
            pointers,
            [
                "",
                "/properties/a~1b",
                "/properties/enum",
                "/allOf/0",
                "/allOf/1",
                "/properties/a~1b/items",
                "/allOf/1/not"
            ]
        );
    }

    #[test]
    fn references_are_found_by_pointer_and_by_anchor() {
        let schema = json!({"$defs": {"a b": {"$anchor": "here", "type": "string"}}});
        assert_eq!(target(&schema, "#/$defs/a%20b"), target(&schema, "#here"));
        assert!(target(&schema, "#here").is_some());
        assert_eq!(target(&schema, "#"), Some(&schema));
        assert_eq!(target(&schema, "other.json#/x"), None);
        assert_eq!(target(&schema, "#/$defs/missing"), None);
    }
}
