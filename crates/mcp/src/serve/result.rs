//! From an envelope to the result of `tools/call`, in the words of each revision.

use serde_json::{Map, Value, json};
use toolgate_contracts::call::Attachment;
use toolgate_contracts::{Envelope, ErrorCode, Status, ToolError};

use crate::wire::Revision;

/// Under which a result says which call it is of. A model is not shown it.
pub(super) const CALL: &str = "dev.toolgate/call";

/// What came of a call that has ended.
pub(super) fn of(envelope: &Envelope, revision: Revision) -> Value {
    let (mut content, structured, is_error) = match (&envelope.error, envelope.status) {
        (Some(error), _) => (vec![text(&spoken(error))], None, true),
        (None, Status::Completed) => {
            let (content, structured) = output(envelope.output.as_ref().unwrap_or(&Value::Null), revision);
            (content, structured, false)
        }
        (None, status) => {
            let error = ended_otherwise(status);
            (vec![text(&spoken(&error))], None, true)
        }
    };
    content.extend(envelope.attachments.iter().map(|attachment| link(attachment, revision)));
    let mut result = Map::new();
    result.insert("content".into(), content.into());
    if let Some(structured) = structured.filter(|_| revision.has_structure()) {
        result.insert("structuredContent".into(), structured);
    }
    result.insert("isError".into(), is_error.into());
    result.insert("_meta".into(), json!({ CALL: about(envelope) }));
    Value::Object(result)
}

/// What is answered without a call.
pub(super) fn uncalled(outcome: Result<Value, ToolError>, revision: Revision) -> Value {
    let (content, structured, is_error) = match outcome {
        Ok(value) => {
            let (content, structured) = output(&value, revision);
            (content, structured.filter(|_| revision.has_structure()), false)
        }
        Err(error) => (vec![text(&spoken(&error))], None, true),
    };
    let mut result = json!({"content": content, "isError": is_error});
    if let Some(structured) = structured {
        result["structuredContent"] = structured;
    }
    result
}

/// Under which it says that there is nothing to hand over any more.
pub(super) const DELIVERED: &str = "dev.toolgate/delivered";

/// How a call ended whose result was handed over before.
pub(super) fn delivered(envelope: &Envelope) -> Value {
    let status = json!(envelope.status);
    let told = format!(
        "delivered: `{}` has ended (`{}`), and what came of it was handed over before; nothing is done again. Read it at \
         {} , or call without `requestState` for a call of its own.",
        envelope.name,
        status.as_str().unwrap_or_default(),
        super::resources::call_uri(&envelope.id.to_string()),
    );
    json!({
        "content": [text(&told)],
        "isError": true,
        "_meta": {CALL: about(envelope), DELIVERED: true},
    })
}

/// A call that has not ended when its caller has to be told something: no failure, and nothing to begin anew.
pub(super) fn pending(envelope: &Envelope, address: &str) -> Value {
    let (told, reason) = match envelope.status {
        Status::Pending => (
            format!(
                "pending: `{}` waits until a person has decided; nothing has happened yet. Decide at {address} . Repeat \
                 the same call with the same arguments to get its result; it is not asked about twice.",
                envelope.name
            ),
            "approval_pending",
        ),
        _ => (
            format!(
                "pending: `{}` is still running. Repeat the same call with the same arguments to get its result; it is \
                 not begun twice. Its page is {address} .",
                envelope.name
            ),
            "running",
        ),
    };
    json!({
        "content": [text(&told)],
        "isError": true,
        "_meta": {CALL: about(envelope), "dev.toolgate/pending": {"reason": reason, "url": address}},
    })
}

fn about(envelope: &Envelope) -> Value {
    let mut about = Map::new();
    about.insert("id".into(), json!(envelope.id));
    about.insert("call_id".into(), json!(envelope.call_id));
    about.insert("status".into(), json!(envelope.status));
    if envelope.truncated {
        about.insert("truncated".into(), true.into());
    }
    if !envelope.labels.is_empty() {
        about.insert("labels".into(), json!(envelope.labels));
    }
    if !envelope.warnings.is_empty() {
        about.insert("warnings".into(), json!(envelope.warnings));
    }
    Value::Object(about)
}

/// What a model needs to do better next time: the words, the code, and the details that name the place.
fn spoken(error: &ToolError) -> String {
    let code = json!(error.code);
    let mut told = format!("{}: {}", code.as_str().unwrap_or_default(), error.message);
    if let Some(seconds) = error.retry_after_s {
        told = format!("{told}\nTry again in {seconds} s.");
    }
    if let Some(details) = &error.details {
        told = format!("{told}\n{details}");
    }
    told
}

fn ended_otherwise(status: Status) -> ToolError {
    match status {
        Status::Rejected => ToolError::because(ErrorCode::PolicyDenied, "rejected", "a person rejected the call"),
        Status::Cancelled => ToolError::because(ErrorCode::PolicyDenied, "cancelled", "the call was cancelled"),
        Status::OutcomeUnknown => ToolError::because(
            ErrorCode::ProviderError,
            "outcome_unknown",
            "nobody knows whether the call took effect; do not repeat it before a person has looked",
        ),
        Status::Pending | Status::Approved | Status::Running | Status::Completed | Status::Failed => {
            ToolError::because(ErrorCode::Unknown, "interrupted", "the call ended without a result")
        }
    }
}

/// Blocks for reading, and the value for programs.
fn output(output: &Value, revision: Revision) -> (Vec<Value>, Option<Value>) {
    match output {
        Value::String(words) => (vec![text(words)], None),
        Value::Array(items) if !items.is_empty() && items.iter().all(is_content) => {
            (items.iter().map(|item| block(item, revision)).collect(), None)
        }
        Value::Array(items) if items.is_empty() => (Vec::new(), None),
        // Older revisions know structured objects only.
        value => {
            let structured = (value.is_object() || revision.is_stateless()).then(|| value.clone());
            (vec![text(&value.to_string())], structured)
        }
    }
}

/// Whether a tool said it in blocks.
fn is_content(item: &Value) -> bool {
    let of = |members: &[&str]| members.iter().all(|member| item.get(*member).is_some());
    match item.get("type").and_then(Value::as_str) {
        Some("text") => of(&["text"]),
        Some("resource_link") => of(&["uri"]),
        Some("json") => of(&["value"]),
        Some("mcp") => of(&["block"]),
        _ => false,
    }
}

fn block(item: &Value, revision: Revision) -> Value {
    let words = |member: &str| item.get(member).and_then(Value::as_str).unwrap_or_default();
    match item.get("type").and_then(Value::as_str) {
        Some("text") => text(words("text")),
        Some("resource_link") => {
            named_link(words("uri"), item.get("name").and_then(Value::as_str), None, None, revision)
        }
        Some("mcp") => item.get("block").cloned().unwrap_or_default(),
        _ => text(&item.get("value").unwrap_or(&Value::Null).to_string()),
    }
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

/// Where a file that belongs to the call is read.
fn link(attachment: &Attachment, revision: Revision) -> Value {
    let id = attachment.url.rsplit('/').next().unwrap_or_default();
    let kind = attachment.content_type.as_deref();
    named_link(&super::resources::blob_uri(id), None, kind, attachment.bytes, revision)
}

fn named_link(uri: &str, name: Option<&str>, kind: Option<&str>, bytes: Option<u64>, revision: Revision) -> Value {
    if !revision.has_structure() {
        return text(&format!("[{} at {uri}]", kind.unwrap_or("a resource")));
    }
    let mut link = Map::new();
    link.insert("type".into(), "resource_link".into());
    link.insert("uri".into(), uri.into());
    link.insert("name".into(), name.unwrap_or_else(|| uri.rsplit('/').next().unwrap_or(uri)).into());
    if let Some(kind) = kind {
        link.insert("mimeType".into(), kind.into());
    }
    if let Some(bytes) = bytes {
        link.insert("size".into(), bytes.into());
    }
    Value::Object(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_told_for_reading_and_where_the_revision_knows_it_for_programs() {
        for (value, content, older, newer) in [
            (json!("hello"), json!([{"type": "text", "text": "hello"}]), None, None),
            (
                json!({"a": 1}),
                json!([{"type": "text", "text": "{\"a\":1}"}]),
                Some(json!({"a": 1})),
                Some(json!({"a": 1})),
            ),
            (json!(3), json!([{"type": "text", "text": "3"}]), None, Some(json!(3))),
            (json!([1, 2]), json!([{"type": "text", "text": "[1,2]"}]), None, Some(json!([1, 2]))),
            (json!([]), json!([]), None, None),
            (
                json!([{"type": "text", "text": "a"}, {"type": "json", "value": {"b": 2}}]),
                json!([{"type": "text", "text": "a"}, {"type": "text", "text": "{\"b\":2}"}]),
                None,
                None,
            ),
        ] {
            for (revision, structured) in [(Revision::V20250618, &older), (Revision::V20260728, &newer)] {
                let (blocks, value_for_programs) = output(&value, revision);
                assert_eq!(
                    (json!(blocks), &value_for_programs),
                    (content.clone(), structured),
                    "{value} in {revision}"
                );
            }
        }
    }
}
