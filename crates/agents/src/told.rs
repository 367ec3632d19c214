//! What a model gets to read of a call: its output or its error, as text, and of a long one the beginning with the way
//! to the rest.
//!
//! Invariant: `app_data` is not in an envelope, so nothing of it can be said here.

use serde_json::Value;
use toolgate_contracts::{Envelope, ErrorCode, Status, ToolError, json};

use crate::model::ToolAnswer;

/// Of one output; the rest is read by `readResult`.
pub const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// Of a changed input, beside the output.
const INPUT_BYTES_MAX: usize = 2 * 1024;
/// What stands before what a call gave that a person approved with another input.
const EDITED: &str = "A person changed the input of this call before approving it. What ran:";
/// Of an error's details: what whoever is told may do.
const REMEDY: &str = "remedy";

/// The reason of a call that the model goes on without.
const PENDING: &str = "approval_pending";

/// A call that waits for a person and that the model does not wait for.
pub fn pending(mut envelope: Envelope) -> Envelope {
    let message = format!(
        "pending: the call {} waits for a person's approval and runs when it is approved; go on without its result",
        envelope.call_id
    );
    envelope.error = Some(ToolError::because(ErrorCode::PolicyDenied, PENDING, message));
    envelope
}

pub fn answer(call_id: String, name: String, envelope: &Envelope) -> ToolAnswer {
    let (text, is_error) = text(envelope);
    ToolAnswer { call_id, name, text, is_error }
}

fn text(envelope: &Envelope) -> (String, bool) {
    let (text, is_error) = outcome(envelope);
    if !envelope.edited || envelope.status == Status::Rejected {
        return (text, is_error);
    }
    // The model asked for something else, and would take this for what came of that.
    let mut ran = json::canonical(&envelope.input);
    if ran.len() > INPUT_BYTES_MAX {
        ran.truncate(ran.floor_char_boundary(INPUT_BYTES_MAX));
        ran.push('…');
    }
    (format!("{EDITED} {ran}\n\n{text}"), is_error)
}

fn outcome(envelope: &Envelope) -> (String, bool) {
    if let Some(error) = &envelope.error {
        // Nothing went wrong: it is not there yet.
        if error.reason() == PENDING {
            return (error.message.clone(), false);
        }
        let code = serde_json::to_value(error.code).ok().and_then(|code| code.as_str().map(str::to_owned));
        let mut text = format!("{}: {}", code.unwrap_or_default(), without_commands(&error.message));
        // What a model can act on: where it was wrong, and when to try again.
        if let Some(details) = &error.details {
            let mut details = details.clone();
            if let Value::Object(members) = &mut details {
                members.retain(|name, value| name != REMEDY || !value.as_str().is_some_and(is_command));
            }
            text = format!("{text}\n{}", json::canonical(&details));
        }
        if let Some(seconds) = error.retry_after_s {
            text = format!("{text}\nretry after {seconds} s");
        }
        return (shortened(&text, envelope), true);
    }
    if envelope.status != Status::Completed {
        return (format!("{}: there is no result", envelope.status), true);
    }
    (shortened(&whole(envelope), envelope), false)
}

/// A message without the parts that tell people what to type: a model has no command line.
fn without_commands(message: &str) -> String {
    let parts: Vec<&str> = message.split("; ").collect();
    let kept: Vec<&str> = parts.iter().copied().filter(|part| !is_command(part)).collect();
    // One that is nothing else says at least that.
    if kept.is_empty() { message.to_owned() } else { kept.join("; ") }
}

fn is_command(text: &str) -> bool {
    text.contains("`toolgate ")
}

/// An output as one text: what `readResult` pages through. Its members are sorted: an output that was read back says what
/// it said when it was fresh, and providers find it in their caches.
pub fn whole(envelope: &Envelope) -> String {
    match &envelope.output {
        None | Some(Value::Null) => "done, without output".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => json::canonical(value),
    }
}

fn shortened(text: &str, envelope: &Envelope) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let shown = text.get(..end).unwrap_or_default();
    format!(
        "{shown}\n[the first {end} of {} bytes; read on with readResult {{\"call_id\": \"{}\", \"offset\": {end}}}]",
        text.len(),
        envelope.call_id
    )
}
