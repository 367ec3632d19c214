//! A line in a notebook that the tenant keeps in Toolgate's own database.

use serde::Deserialize;
use serde_json::json;
use toolgate_contracts::{Fault, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_store::Error;
use toolgate_store::notes::NewNote;

use crate::builtin::{Tools, database, input, invalid};

const NOTEBOOK_CHARS_MAX: usize = 64;
const TEXT_CHARS_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "main")]
    notebook: String,
    text: String,
}

fn main() -> String {
    "main".to_owned()
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    let Input { notebook, text } = match input(call).and_then(within_bounds) {
        Ok(input) => input,
        Err(error) => return error.into(),
    };
    let note = NewNote { notebook: &notebook, text: &text, call: call.id, created_at: tools.clock.now() };
    match tools.store.append_note(call.tenant, &note).await {
        Ok(line) => Outcome::structured(json!({"notebook": notebook, "line": line})),
        Err(error @ Error::Unconfirmed(_)) => Outcome::Unknown(Fault::from(error).told().to_owned()),
        Err(error) => database(&error.into()).into(),
    }
}

fn within_bounds(input: Input) -> Result<Input, ToolError> {
    for (member, text, chars_max) in
        [("notebook", &input.notebook, NOTEBOOK_CHARS_MAX), ("text", &input.text, TEXT_CHARS_MAX)]
    {
        let chars = text.chars().count();
        if !(1..=chars_max).contains(&chars) {
            return Err(invalid(member, format!("it has {chars} characters; expected 1 to {chars_max}")));
        }
        // PostgreSQL cannot keep it.
        if text.contains('\0') {
            return Err(invalid(member, "it holds the character U+0000; leave it out"));
        }
    }
    Ok(input)
}
