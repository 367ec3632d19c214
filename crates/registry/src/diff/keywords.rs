//! The keywords of a schema, with its references followed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema::walk::{for_each_mut, target};

/// References followed and levels entered before two schemas are called incomparable.
pub(super) const DEPTH_MAX: usize = 64;
/// Only readers see these.
pub(super) const PROSE: [&str; 9] =
    ["title", "description", "examples", "$comment", "deprecated", "readOnly", "writeOnly", "$schema", "$id"];

pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)
}

/// Whether equal texts may still mean different things, because they refer to what differs.
pub(super) fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// A schema with its references followed: keywords beside a reference win over those behind it.
pub(super) enum Followed<'a> {
    Boolean(bool),
    Keywords(Keywords<'a>),
}

pub(super) struct Keywords<'a> {
    pub(super) layers: Vec<&'a Map<String, Value>>,
}

impl<'a> Keywords<'a> {
    pub(super) fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.layers.iter().find_map(|layer| layer.get(keyword))
    }

    pub(super) fn map(&self, keyword: &str) -> Option<&'a Map<String, Value>> {
        self.get(keyword).and_then(Value::as_object)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.layers.iter().flat_map(|layer| layer.keys()).map(String::as_str)
    }
}

pub(super) fn follow<'a>(root: &'a Value, schema: &'a Value) -> Option<Followed<'a>> {
    let mut layers = Vec::new();
    let mut schema = schema;
    for _ in 0..=DEPTH_MAX {
        match schema {
            Value::Bool(value) if layers.is_empty() => return Some(Followed::Boolean(*value)),
            Value::Object(keywords) => layers.push(keywords),
            _ => return Some(Followed::Keywords(Keywords { layers })),
        }
        match reference(schema) {
            Some(name) => schema = target(root, name)?,
            None => return Some(Followed::Keywords(Keywords { layers })),
        }
    }
    None
}

/// Only what stands beside the reference.
pub(super) fn alone(schema: &Value) -> Option<Followed<'_>> {
    schema.as_object().map(|keywords| Followed::Keywords(Keywords { layers: vec![keywords] }))
}

pub(super) fn without_prose(schema: &Value) -> Value {
    let mut schema = schema.clone();
    for_each_mut(&mut schema, &mut |keywords| {
        keywords.retain(|keyword, _| !PROSE.contains(&keyword.as_str()) && !keyword.starts_with("x-"));
    });
    schema
}

pub(super) fn required<'a>(keywords: &Keywords<'a>) -> BTreeSet<&'a str> {
    keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn has_default(root: &Value, schema: &Value) -> bool {
    match follow(root, schema) {
        Some(Followed::Keywords(keywords)) => keywords.get("default").is_some(),
        _ => false,
    }
}

/// `number` is `integer` and what has a fraction, so that the two compare.
pub(super) const TYPES: [&str; 7] = ["array", "boolean", "fraction", "integer", "null", "object", "string"];

pub(super) fn in_words(kinds: &BTreeSet<&str>) -> String {
    if kinds.len() == TYPES.len() {
        return "anything".to_owned();
    }
    let number = kinds.contains("fraction");
    let kinds = kinds.iter().copied().filter(|kind| !(number && *kind == "integer"));
    kinds.map(|kind| if kind == "fraction" { "number" } else { kind }).collect::<Vec<_>>().join(" or ")
}

pub(super) fn types(value: Option<&Value>) -> BTreeSet<&str> {
    let names: Vec<&str> = match value {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return TYPES.into(),
    };
    names.into_iter().flat_map(|name| if name == "number" { vec!["integer", "fraction"] } else { vec![name] }).collect()
}
