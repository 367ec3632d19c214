//! What comes back, as far as a definition can promise it.
//!
//! Only for operations that read: a write that happened must not fail because its answer looks different from what the
//! document says.

use serde_json::{Map, Value};
use toolgate_contracts::json;
use toolgate_contracts::runner::Method;

use super::body::is_json;
use super::document::{Document, Part};
use super::schema::{Schemas, Side};
use crate::finding::{Finding, has_errors};
use crate::schema;

const SCHEMA_BYTES_MAX: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Answer {
    pub schema: Option<Value>,
    /// The media type to ask for.
    pub accept: Option<String>,
}

pub(super) fn read<'d>(
    document: &'d Document,
    method: Method,
    operation: &Part<'d>,
    findings: &mut Vec<Finding>,
) -> Answer {
    let mut answer = Answer::default();
    let Some(responses) = operation.member("responses") else { return answer };
    let good: Vec<Part<'d>> =
        responses.members().filter(|(status, _)| status.starts_with('2')).map(|(_, part)| part).collect();
    let mut found = None;
    for part in &good {
        let Ok(part) = document.resolved(part) else { continue };
        let Some(content) = part.member("content") else { continue };
        if let Some((media, part)) = content.members().find(|(media, _)| is_json(media)) {
            let bare = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            answer.accept = Some(if bare.contains('*') { "application/json".to_owned() } else { bare });
            found = part.member("schema");
            break;
        }
    }
    let (Some(schema), [_], Method::Get) = (found, good.as_slice(), method) else { return answer };
    match held(document, &schema) {
        Ok(held) => answer.schema = held,
        Err(finding) => {
            let message = format!("what comes back is not promised: {}", finding.message);
            let fix = "nothing to do: the answer is passed on as it is";
            findings.push(Finding::note("openapi.output", schema.pointer, message, fix));
        }
    }
    answer
}

/// `None` for an answer that is no object: a tool's output has named members.
fn held<'d>(document: &'d Document, part: &Part<'d>) -> Result<Option<Value>, Finding> {
    let mut schemas = Schemas::new(document, Side::Output);
    let converted = schemas.convert(part)?;
    let mut schema = schemas.complete(converted)?;
    unfold(&mut schema);
    if !is_object(&schema) {
        return Ok(None);
    }
    if let Value::Object(keywords) = &mut schema {
        keywords.insert("type".into(), "object".into());
    }
    let refuse = |message: String| Err(Finding::note("openapi.output", "", message, ""));
    if json::canonical(&schema).len() > SCHEMA_BYTES_MAX {
        return refuse(format!("its schema has more than {SCHEMA_BYTES_MAX} bytes"));
    }
    let findings = schema::check(&schema, "");
    match findings.into_iter().find(|finding| has_errors(std::slice::from_ref(finding))) {
        Some(error) => refuse(error.message),
        None => Ok(Some(schema)),
    }
}

/// A top level that only refers says nothing by itself.
fn unfold(schema: &mut Value) {
    let target =
        schema.get("$ref").and_then(Value::as_str).and_then(|name| schema::walk::target(schema, name)).cloned();
    if let (Value::Object(keywords), Some(Value::Object(target))) = (schema, target)
        && !target.contains_key("$ref")
    {
        keywords.shift_remove("$ref");
        for (keyword, value) in target {
            keywords.entry(keyword).or_insert(value);
        }
    }
}

fn is_object(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let all = |keywords: &Map<String, Value>| {
        let parts = keywords.get("allOf").and_then(Value::as_array);
        parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_object))
    };
    match keywords.get("type") {
        Some(named) => named == "object",
        None => keywords.contains_key("properties") || all(keywords),
    }
}
