//! The specifications' own shapes, exactly: what an existing client of one of them sends and reads.
//!
//! Pure translators from what Toolgate keeps, one file for each contract; a golden file holds every shape with its keys,
//! their order and the form of its numbers. Invariant: nothing of these shapes is ever stored. Deliberately absent: tools
//! as their specifications show them, which the registry renders, and the envelope, which is ours with members left out.

pub mod capability;
pub mod execution;
pub mod invocation;
pub mod tool_layer;
pub mod tool_result;
pub mod tool_run;

use serde_json::{Map, Number, Value, json};
use toolgate_contracts::{Amount, ErrorCode, Principal, Status, ToolError};

/// A failure in one line: `CODE: message`.
pub fn error_text(error: &ToolError) -> String {
    format!("{}: {}", code_word(error.code), error.message)
}

/// A code as it is written.
pub fn code_word(code: ErrorCode) -> String {
    match serde_json::to_value(code) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Why a call has no output, in one line; nothing for one that completed or has not ended.
fn failure_text(status: Status, error: Option<&ToolError>) -> Option<String> {
    match (status, error) {
        (Status::Completed | Status::Running | Status::Pending | Status::Approved, None) => None,
        // Nobody may take it for a failure and try again: it may have happened.
        (Status::OutcomeUnknown, error) => {
            Some(format!("outcome unknown: {}", error.map_or("nobody knows how it ended", |error| &error.message)))
        }
        (_, Some(error)) => Some(error_text(error)),
        (status, None) => Some(format!("the call is {status}")),
    }
}

/// The UUID of a person or service; others have none.
fn uuid_of(principal: &str) -> Option<uuid::Uuid> {
    match principal.parse() {
        Ok(Principal::User(user)) => Some(user.uuid()),
        Ok(Principal::Local(_)) | Err(_) => None,
    }
}

/// An amount as a JSON number with at most six decimals.
#[expect(clippy::cast_precision_loss, reason = "fifteen digits are exact, and nothing is counted with it")]
fn number(amount: Amount) -> Value {
    let micros = amount.micros();
    if micros % 1_000_000 == 0 {
        return (micros / 1_000_000).into();
    }
    Number::from_f64(micros as f64 / 1e6).map_or(Value::Null, Value::Number)
}

/// What must be an object there, and may be any JSON here.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => [("value".to_owned(), other)].into_iter().collect(),
    }
}

/// What waits for a person, as a failure in the words of the contract: for readers who know only done and failed.
fn waiting(status: Status) -> ToolError {
    let message = match status {
        Status::Pending => "the call waits for a person to decide",
        Status::Approved => "the call is approved and begins in a moment",
        _ => "the call has not ended yet",
    };
    ToolError {
        code: ErrorCode::PolicyDenied,
        message: message.to_owned(),
        details: Some(json!({"reason": "approval_pending"})),
        retry_after_s: None,
    }
}
