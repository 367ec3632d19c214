//! Schemas of a document as JSON Schema 2020-12 that is complete in itself.
//!
//! What 3.0 writes its own way (`nullable`, boolean bounds, `example`) is rewritten; what says nothing about a value
//! (`xml`, `discriminator`, extensions) is left out. What is referred to is written out where it is used, unless it
//! refers to itself or would become too large: then it stays a definition of its own.
//!
//! A schema of answers is only as strict as answers are: bounds, patterns, formats and closed objects are left out,
//! since an API that returns one member more has not failed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use toolgate_contracts::json::{DEPTH_MAX, INTEGER_MAX, escape};

use super::document::{Document, Edition, Part};
use super::prose;
use crate::finding::Finding;
use crate::schema::{SUBSCHEMAS_MAX, checks_format};

/// Schemas that are written out; beyond it references stay.
const WRITTEN_OUT_MAX: usize = 300;
const PROSE_CHARS_MAX: usize = 1_000;
const EXAMPLE_BYTES_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// The schemas of one operation, on one side.
pub(super) struct Schemas<'d> {
    document: &'d Document,
    side: Side,
    /// By the pointer in the document.
    names: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    waiting: Vec<(String, Part<'d>)>,
    definitions: BTreeMap<String, Value>,
    count: usize,
}

impl<'d> Schemas<'d> {
    pub fn new(document: &'d Document, side: Side) -> Self {
        Self {
            document,
            side,
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            waiting: Vec::new(),
            definitions: BTreeMap::new(),
            count: 0,
        }
    }

    /// Whether a member is not for this side: the server's own in what is sent, the caller's in what comes back.
    pub fn hides(&self, member: &Part<'d>) -> bool {
        let flag = match self.side {
            Side::Input => "readOnly",
            Side::Output => "writeOnly",
        };
        member.flag(flag) || self.document.resolved(member).is_ok_and(|target| target.flag(flag))
    }

    pub fn convert(&mut self, part: &Part<'d>) -> Result<Value, Finding> {
        self.count += 1;
        if self.count > SUBSCHEMAS_MAX {
            let message = format!("the operation needs more than {SUBSCHEMAS_MAX} schemas");
            let fix = "describe the parts more loosely in the document, or leave the operation out";
            return Err(Finding::error("openapi.too-many", part.pointer.clone(), message, fix));
        }
        let Value::Object(keywords) = part.value else {
            return Ok(if part.value.is_boolean() { part.value.clone() } else { json!({}) });
        };
        let Some(reference) = part.text("$ref") else { return self.keywords(keywords, part) };
        let name = self.reference(reference, part)?;
        let mut converted = Map::new();
        converted.insert("$ref".into(), format!("#/$defs/{name}").into());
        // 3.0 ignores what stands beside a reference; a description there does no harm.
        let beside: Map<String, Value> = keywords
            .iter()
            .filter(|(keyword, _)| {
                keyword.as_str() != "$ref"
                    && (self.document.edition == Edition::JsonSchema || keyword.as_str() == "description")
            })
            .map(|(keyword, value)| (keyword.clone(), value.clone()))
            .collect();
        if !beside.is_empty() {
            // Nothing inside it is looked up by its place, so a copy will do.
            let beside = self.beside(&beside);
            converted.extend(beside);
        }
        Ok(Value::Object(converted))
    }

    /// Words and bounds beside a reference; schemas there are left to what is referred to.
    fn beside(&self, keywords: &Map<String, Value>) -> Map<String, Value> {
        let mut converted = Map::new();
        for (keyword, value) in keywords {
            self.plain_keyword(keyword, value, keywords, &mut converted);
        }
        converted
    }

    fn reference(&mut self, reference: &str, part: &Part<'d>) -> Result<String, Finding> {
        let target = self.document.target(reference, &part.pointer)?;
        if let Some(name) = self.names.get(&target.pointer) {
            return Ok(name.clone());
        }
        let last = target.pointer.rsplit('/').next().unwrap_or_default();
        let base: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' })
            .take(60)
            .collect();
        let numbered = (2..).map(|number| format!("{base}{number}"));
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| !name.is_empty() && !self.taken.contains(name))
            .unwrap_or(base);
        self.taken.insert(name.clone());
        self.names.insert(target.pointer.clone(), name.clone());
        self.waiting.push((name.clone(), target));
        Ok(name)
    }

    fn keywords(&mut self, keywords: &'d Map<String, Value>, part: &Part<'d>) -> Result<Value, Finding> {
        let mut converted = Map::new();
        let mut hidden = BTreeSet::new();
        for (keyword, value) in keywords {
            let inner = Part::new(value, format!("{}/{}", part.pointer, escape(keyword)));
            match keyword.as_str() {
                "properties" | "patternProperties" | "dependentSchemas" if value.is_object() => {
                    let mut named = Map::new();
                    for (name, member) in inner.members() {
                        if keyword == "properties" && self.hides(&member) {
                            hidden.insert(name);
                            continue;
                        }
                        named.insert(name.to_owned(), self.convert(&member)?);
                    }
                    converted.insert(keyword.clone(), Value::Object(named));
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" if value.is_array() => {
                    let listed: Result<Vec<Value>, Finding> = inner.items().map(|item| self.convert(&item)).collect();
                    converted.insert(keyword.clone(), Value::Array(listed?));
                }
                "additionalProperties" | "unevaluatedProperties"
                    if self.side == Side::Output && *value == Value::Bool(false) => {}
                "items"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "unevaluatedItems"
                | "contains"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                    if value.is_object() || value.is_boolean() =>
                {
                    converted.insert(keyword.clone(), self.convert(&inner)?);
                }
                _ => self.plain_keyword(keyword, value, keywords, &mut converted),
            }
        }
        if let Some(Value::Array(required)) = converted.get_mut("required") {
            required.retain(|name| name.as_str().is_some_and(|name| !hidden.contains(name)));
            if required.is_empty() {
                converted.shift_remove("required");
            }
        }
        let nullable = self.document.edition == Edition::Own && part.flag("nullable");
        Ok(if nullable { or_null(converted) } else { Value::Object(converted) })
    }

    /// A keyword without schemas in it.
    fn plain_keyword(&self, keyword: &str, value: &Value, all: &Map<String, Value>, to: &mut Map<String, Value>) {
        let own = self.document.edition == Edition::Own;
        let strict = self.side == Side::Input;
        let kept = match keyword {
            "description" | "title" => value.as_str().map(|text| prose::text(text, PROSE_CHARS_MAX).into()),
            "type" => known_types(value),
            "enum" => value.as_array().filter(|values| !values.is_empty()).map(|_| value.clone()),
            "const" => Some(value.clone()),
            "required" => value.as_array().map(|_| value.clone()),
            "minimum" | "maximum" if strict => {
                let exclusive = if keyword == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                let excluded = own && all.get(exclusive) == Some(&Value::Bool(true));
                if let Some(bound) = bound(value) {
                    to.insert(if excluded { exclusive.to_owned() } else { keyword.to_owned() }, bound);
                }
                None
            }
            "exclusiveMinimum" | "exclusiveMaximum" if strict && !own => bound(value),
            "multipleOf" if strict => bound(value).filter(|factor| factor.as_f64().is_some_and(|factor| factor > 0.0)),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains"
                if strict =>
            {
                value.as_u64().map(Value::from)
            }
            "uniqueItems" if strict => value.as_bool().map(Value::from),
            "pattern" if strict => value.as_str().map(Value::from),
            "dependentRequired" if strict && value.is_object() => Some(value.clone()),
            "deprecated" => value.as_bool().map(Value::from),
            "default" if strict => fits(value, all).then(|| value.clone()),
            "format" if strict => match value.as_str() {
                Some("byte") => {
                    to.insert("contentEncoding".into(), "base64".into());
                    None
                }
                Some(format) if checks_format(format) && format != "blob" => Some(value.clone()),
                _ => None,
            },
            "contentEncoding" | "contentMediaType" => value.as_str().map(Value::from),
            "example" => {
                if short(value) {
                    to.insert("examples".into(), json!([value]));
                }
                None
            }
            "examples" => value.as_array().filter(|_| short(value)).map(|_| value.clone()),
            _ => None,
        };
        if let Some(kept) = kept {
            to.insert(keyword.to_owned(), kept);
        }
    }

    /// Everything that was referred to, and the schema that refers to it, as one.
    pub fn complete(mut self, mut root: Value) -> Result<Value, Finding> {
        while let Some((name, part)) = self.waiting.pop() {
            // A reference to a reference is a definition like any other.
            let converted = self.convert(&part)?;
            self.definitions.insert(name, converted);
        }
        let links: BTreeMap<String, BTreeSet<String>> =
            self.definitions.iter().map(|(name, schema)| (name.clone(), referred(schema))).collect();
        let circular: BTreeSet<String> = links.keys().filter(|name| reaches(&links, name)).cloned().collect();
        let mut sizes = BTreeMap::new();
        let mut total = size(&root, &self.definitions, &circular, &mut sizes, 0);
        for name in &circular {
            let own = size(&self.definitions[name], &self.definitions, &circular, &mut sizes, 0);
            total = total.saturating_add(own);
        }
        let mut kept = if total <= WRITTEN_OUT_MAX {
            write_out(&mut root, &self.definitions, &circular);
            let circles = self.definitions.iter().filter(|(name, _)| circular.contains(*name));
            circles
                .map(|(name, schema)| {
                    let mut schema = schema.clone();
                    write_out(&mut schema, &self.definitions, &circular);
                    (name.clone(), schema)
                })
                .collect()
        } else {
            self.definitions
        };
        if let Value::Object(keywords) = &mut root
            && !kept.is_empty()
        {
            kept.retain(|_, schema| !schema.is_null());
            keywords.insert("$defs".into(), Value::Object(kept.into_iter().collect()));
        }
        Ok(root)
    }
}

fn or_null(mut keywords: Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match keywords.get("type") {
        Some(Value::String(name)) => {
            let both = json!([name, "null"]);
            keywords.insert("type".into(), both);
            Value::Object(keywords)
        }
        None if ["allOf", "anyOf", "oneOf", "properties"].iter().any(|keyword| keywords.contains_key(*keyword)) => {
            let description = keywords.shift_remove("description");
            let mut either = Map::new();
            if let Some(description) = description {
                either.insert("description".into(), description);
            }
            either.insert("anyOf".into(), json!([keywords, {"type": "null"}]));
            Value::Object(either)
        }
        // Several types, or none: whatever it is, null is one of them or need not be said.
        _ => Value::Object(keywords),
    }
}

fn known_types(value: &Value) -> Option<Value> {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => (!names.is_empty() && names.iter().all(known)).then(|| value.clone()),
        name => known(name).then(|| name.clone()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is compared with what a double holds exactly")]
fn bound(value: &Value) -> Option<Value> {
    value.as_f64().filter(|number| number.abs() <= INTEGER_MAX as f64).map(|_| value.clone())
}

/// A default is filled into each call, so it has to be one.
fn fits(value: &Value, keywords: &Map<String, Value>) -> bool {
    let listed = keywords.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value));
    let right = match (keywords.get("type").and_then(Value::as_str), value) {
        (Some("string"), Value::String(_)) | (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) => {
            true
        }
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    };
    listed && right
}

fn short(value: &Value) -> bool {
    !value.is_null() && value.to_string().len() <= EXAMPLE_BYTES_MAX
}

fn definition_of(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix("#/$defs/"))
}

/// Visits what can hold a schema; values under `enum`, `const`, `default` and `examples` are data.
fn inner(schema: &Value) -> Vec<&Value> {
    crate::schema::walk::children(schema).into_iter().map(|child| child.schema).collect()
}

fn referred(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        found.extend(schema.as_object().and_then(definition_of).map(str::to_owned));
        open.extend(inner(schema));
    }
    found
}

/// Whether a definition comes back to itself.
fn reaches(links: &BTreeMap<String, BTreeSet<String>>, name: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = links.get(name).into_iter().flatten().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if next == name {
            return true;
        }
        if seen.insert(next) {
            open.extend(links.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

/// How many schemas there are when everything that does not come back to itself is written out.
fn size(
    schema: &Value,
    definitions: &BTreeMap<String, Value>,
    circular: &BTreeSet<String>,
    known: &mut BTreeMap<String, usize>,
    depth: usize,
) -> usize {
    if depth > DEPTH_MAX {
        return usize::MAX;
    }
    let name = schema.as_object().and_then(definition_of).filter(|name| !circular.contains(*name));
    let own = match name.and_then(|name| Some((name, definitions.get(name)?))) {
        None => 1,
        Some((name, _)) if known.contains_key(name) => known[name],
        Some((name, definition)) => {
            let size = size(definition, definitions, circular, known, depth + 1);
            known.insert(name.to_owned(), size);
            size
        }
    };
    let inner = inner(schema).into_iter();
    inner.fold(own, |sum, inner| sum.saturating_add(size(inner, definitions, circular, known, depth + 1)))
}

fn write_out(schema: &mut Value, definitions: &BTreeMap<String, Value>, circular: &BTreeSet<String>) {
    crate::schema::walk::for_each_mut(schema, &mut |keywords| {
        let target = definition_of(keywords).filter(|name| !circular.contains(*name));
        let Some(target) = target.and_then(|name| definitions.get(name)) else { return };
        keywords.shift_remove("$ref");
        let beside = std::mem::take(keywords);
        let mut target = target.clone();
        write_out(&mut target, definitions, circular);
        match target {
            Value::Object(target) => {
                let words = |keyword: &String| matches!(keyword.as_str(), "description" | "title" | "deprecated");
                if beside.keys().all(|keyword| words(keyword) || !target.contains_key(keyword)) {
                    *keywords = target;
                    keywords.extend(beside);
                } else {
                    *keywords = beside;
                    keywords.insert("allOf".into(), json!([target]));
                }
            }
            // `true` says nothing.
            Value::Bool(true) => *keywords = beside,
            _ => {
                *keywords = beside;
                keywords.insert("not".into(), json!({}));
            }
        }
    });
}
