//! Seed 004's `ToolResult` of a call: what a model reads, and beside it what is for the application alone.

use serde_json::{Value, json};
use toolgate_contracts::{Envelope, Status};

use super::{failure_text, waiting};

/// `{content: [{type: "text", text}], is_error, app_data}`.
pub fn tool_result(envelope: &Envelope) -> Value {
    let error = match envelope.status {
        // It waits, and the model may go on; that is no failure.
        Status::Pending | Status::Approved | Status::Running => None,
        status => failure_text(status, envelope.error.as_ref()),
    };
    let text = match (&error, &envelope.output) {
        (Some(error), _) => error.clone(),
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(output)) => output.to_string(),
        (None, None) if envelope.status.is_final() => format!("the call is {}", envelope.status),
        (None, None) => waiting(envelope.status).message,
    };
    let mut app_data = json!({"id": envelope.id, "call_id": envelope.call_id, "status": envelope.status});
    if !envelope.attachments.is_empty() {
        app_data["attachments"] = json!(envelope.attachments);
    }
    json!({"content": [{"type": "text", "text": text}], "is_error": error.is_some(), "app_data": app_data})
}
