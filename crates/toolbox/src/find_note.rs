//! The probe of `append_note`: whether a call whose end nobody saw has added its line.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{CallId, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_store::notes::Note;

use crate::builtin::{Tools, database, input, invalid};

/// What every probe is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    call: String,
    /// What the call was given. The id alone finds the line.
    #[serde(default, rename = "input")]
    _input: Value,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    let wanted = match input(call).and_then(|input: Input| call_id(&input.call)) {
        Ok(wanted) => wanted,
        Err(error) => return error.into(),
    };
    match tools.store.note_of_call(call.tenant, wanted).await {
        Ok(Some(Note { notebook, line, text: _, created_at: _ })) => {
            Outcome::structured(json!({"happened": true, "output": {"notebook": notebook, "line": line}}))
        }
        Ok(None) => Outcome::structured(json!({"happened": false})),
        Err(error) => database(&error.into()).into(),
    }
}

fn call_id(text: &str) -> Result<CallId, ToolError> {
    text.parse().map_err(|_| invalid("call", "it is not the id of a call; expected a UUID"))
}
