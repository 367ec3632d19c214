//! Python that the caller brings, in the sandbox: it computes and reaches nothing.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_runners::Snippets;

use crate::builtin::{Tools, input, invalid};

const CODE_BYTES_MAX: usize = 256 * 1024;
const TIMEOUT_S_MAX: u64 = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    code: String,
    #[serde(default, rename = "input")]
    given: Option<Value>,
    #[serde(default)]
    timeout_s: Option<u64>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    match computed(tools, call).await {
        Ok(output) => Outcome::structured(output),
        Err(error) => error.into(),
    }
}

async fn computed(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let Input { code, given, timeout_s } = input(call)?;
    let bytes = code.len();
    if code.trim().is_empty() || bytes > CODE_BYTES_MAX {
        return Err(invalid("code", format!("it has {bytes} bytes; expected 1 to {CODE_BYTES_MAX}")));
    }
    let wall = match timeout_s {
        None => call.timeout,
        Some(seconds) if (1..=TIMEOUT_S_MAX).contains(&seconds) => Duration::from_secs(seconds).min(call.timeout),
        Some(seconds) => {
            return Err(invalid("timeout_s", format!("{seconds} is not between 1 and {TIMEOUT_S_MAX}")));
        }
    };
    let given = given.unwrap_or_else(|| json!({}));
    let (result, printed) = snippets(tools)?.compute(call, &code, &given, wall).await?;
    Ok(json!({"result": result, "printed": printed}))
}

pub(crate) async fn ready(tools: &Tools, definition: &Definition) -> Result<(), ToolError> {
    snippets(tools)?.enough_for(definition).await
}

fn snippets(tools: &Tools) -> Result<&Snippets, ToolError> {
    tools.snippets.as_deref().ok_or_else(|| {
        let message = "this server has no sandbox for Python; the operator reads why with `toolgate doctor`";
        ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
    })
}
