//! A long result, a page at a time, as the text that a model is shown.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_agents::told;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Status, ToolError, ToolResult};
use toolgate_engine::runner::Done;
use toolgate_engine::{Outcome, Permit};

use crate::builtin::{Tools, input, invalid};

/// Half of what a model is shown of one output, so that a page is shown whole however it is escaped.
const LIMIT_DEFAULT: usize = 8 * 1024;
const LIMIT_MAX: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    call_id: String,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    limit: Option<usize>,
}

pub(crate) async fn run(_tools: &Tools, permit: &Permit) -> Outcome {
    match page(permit).await {
        Ok((value, labels)) => Outcome::Done(Done { result: ToolResult::structured(value), labels, ..Done::default() }),
        Err(error) => error.into(),
    }
}

async fn page(permit: &Permit) -> Result<(Value, Vec<Label>), ToolError> {
    let Input { call_id, offset, limit } = input(permit.call())?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LIMIT_MAX}")));
    }
    let envelope = permit.call_beside(&call_id).await.map_err(|fault| ToolError::of(&fault))?;
    if envelope.status != Status::Completed || envelope.error.is_some() {
        return Err(invalid("call_id", format!("the call is {} and has no result to read", envelope.status)));
    }
    let text = told::whole(&envelope);
    if offset > text.len() {
        return Err(invalid("offset", format!("it is {offset}; the result has {} bytes", text.len())));
    }
    let begin = text.floor_char_boundary(offset);
    // At least one letter, so that reading on comes to an end.
    let end = text.floor_char_boundary(begin + limit).max(text.ceil_char_boundary(begin + 1)).min(text.len());
    let mut value = json!({
        "text": text.get(begin..end).unwrap_or_default(), "offset": begin, "bytes": text.len(),
    });
    if end < text.len() {
        value["next"] = end.into();
    }
    Ok((value, envelope.labels))
}
