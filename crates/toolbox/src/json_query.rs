//! One CEL expression over JSON that the caller has: picking, filtering and counting without code.
//!
//! CEL rather than jq or `JMESPath`: what an evaluation walks and builds is counted and bounded (`crates/expression`), so that no
//! expression holds a thread or fills the memory, and tools, templates and conditions speak the same language.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_expression::{Expression, ExpressionError};

use crate::builtin::{Tools, input, invalid};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    data: Value,
    expression: String,
}

pub(crate) async fn run(_tools: &Tools, call: &Call) -> Outcome {
    let Input { data, expression } = match input(call).and_then(parsed) {
        Ok(input) => input,
        Err(error) => return error.into(),
    };
    let evaluated = tokio::task::spawn_blocking(move || {
        Expression::parse(&expression)
            .map_err(|error| invalid("expression", format!("{error}; it is CEL over `data`")))?
            .evaluate(&[("data", &data)])
            .map_err(|error| told(&error))
    });
    match evaluated.await {
        Ok(Ok(result)) => Outcome::structured(json!({"result": result})),
        Ok(Err(error)) => error.into(),
        Err(_) => invalid("expression", "it could not be evaluated; split it").into(),
    }
}

/// JSON that came as a text, as models pass it on, is read.
fn parsed(Input { data, expression }: Input) -> Result<Input, ToolError> {
    let Value::String(text) = &data else { return Ok(Input { data, expression }) };
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(Input { data, expression });
    }
    let bytes_max = text.len();
    let data = toolgate_contracts::json::read(text.as_bytes(), bytes_max)
        .map_err(|error| invalid("data", format!("it is a text that begins like JSON and is none: {error}")))?;
    Ok(Input { data, expression })
}

fn told(error: &ExpressionError) -> ToolError {
    match error {
        ExpressionError::Exhausted(_) => {
            let message = format!("`expression`: {error}; pick less of `data` first");
            ToolError::because(ErrorCode::SandboxError, "memory", message).with("pointer", "/expression")
        }
        _ => invalid("expression", format!("{error}; what may be absent is asked for with `has(data.member)`")),
    }
}
