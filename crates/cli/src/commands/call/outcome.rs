//! How a call stands: on standard output for programs, on standard error for people, and as an exit status.

use serde_json::Value;
use toolgate_contracts::Status;

use crate::args::CallFormat;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{Output, clean, note, print, text_of};

fn status(envelope: &Value) -> Option<Status> {
    envelope["status"].as_str().and_then(|word| word.parse().ok())
}

pub fn is_final(envelope: &Value) -> bool {
    status(envelope).is_none_or(Status::is_final)
}

/// The exit status of `contracts.md` §13.
pub fn exit_of(envelope: &Value) -> Exit {
    match status(envelope) {
        Some(Status::Completed) => Exit::Done,
        // Only a person can say how it ended.
        Some(Status::Pending | Status::Approved | Status::Running | Status::OutcomeUnknown) => Exit::Waiting,
        Some(Status::Failed | Status::Rejected | Status::Cancelled) | None => Exit::Failed,
    }
}

pub fn show(envelope: &Value, format: CallFormat, output: &Output) -> Result<(), Failure> {
    let shown = match (format, &envelope["output"]) {
        (CallFormat::ToolResult, _) => &tool_result(envelope)?,
        (CallFormat::Output, Value::String(text)) if !output.is_json() => return print(&clean(text)),
        (CallFormat::Output, found) if envelope["status"] == "completed" && !found.is_null() => found,
        (CallFormat::Output | CallFormat::Envelope, _) => envelope,
    };
    if output.is_json() { output.show_line(shown, |_, _| String::new()).map(drop) } else { output.json(shown) }
}

fn tool_result(envelope: &Value) -> Result<Value, Failure> {
    let read = serde_json::from_value(envelope.clone());
    read.map(|envelope| toolgate_server::compat::tool_result::tool_result(&envelope)).map_err(|error| {
        Failure::unreachable(
            format!("the server's answer is no envelope: {error}"),
            "check that it is a Toolgate server",
        )
    })
}

/// The innermost lines of a traceback say most.
const TRACEBACK_LINES_MAX: usize = 40;

/// What a person should know beside the envelope.
pub async fn tell(envelope: &Value, client: &Client, output: &Output) {
    for warning in envelope["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        note(&format!("warning: {warning}"));
    }
    let id = text_of(envelope, "id");
    if envelope["error"].is_null() {
        match envelope["status"].as_str() {
            Some("running") => {
                let found = client.get(&["calls", &id], &[]).await;
                let waits = found.is_ok_and(|call| call["awaits_worker"] == true);
                let how = if waits { "No worker has taken it yet" } else { "It is running" };
                note(&format!("{how}; see `toolgate calls show {id}`."));
            }
            Some("pending") => note(&format!("It waits for a person; see `toolgate approvals show {id}`.")),
            _ => {}
        }
        return;
    }
    let mut remedy = hint(envelope);
    if envelope["error"]["details"]["reason"] == "not_found"
        && envelope["error"]["details"]["entry"].is_null()
        && let Some(nearest) = super::nearest(&text_of(envelope, "name"), client).await
    {
        remedy = format!("did you mean `{nearest}`? See `toolgate tool list`");
    }
    output.complain(&told(&envelope["error"]), &places(&envelope["error"]), &remedy);
}

/// The error in words, with its code and reason.
pub fn told(error: &Value) -> String {
    let listed = violations(error);
    let message = match listed.len() {
        0 => text_of(error, "message"),
        1 => "the input does not fit the tool's schema".to_owned(),
        count => format!("the input does not fit the tool's schema in {count} places"),
    };
    let marks = [text_of(error, "code"), text_of(&error["details"], "reason")];
    format!("{message} [{}]", marks.into_iter().filter(|mark| !mark.is_empty()).collect::<Vec<_>>().join(", "))
}

/// Where it is wrong: fields of the input, or lines of the tool's code.
pub fn places(error: &Value) -> Vec<String> {
    let mut places = violations(error);
    let traceback = text_of(&error["details"], "traceback");
    let mut lines: Vec<&str> = traceback.lines().collect();
    // The last says what was said already.
    if lines.last().is_some_and(|last| text_of(error, "message").contains(last)) {
        lines.pop();
    }
    let first = lines.len().saturating_sub(TRACEBACK_LINES_MAX);
    places.extend(lines.into_iter().skip(first).map(str::to_owned));
    places
}

/// Each field that is wrong: what was expected, and what came.
pub fn violations(error: &Value) -> Vec<String> {
    let listed = error["details"]["violations"].as_array().into_iter().flatten();
    let line = |violation: &Value| {
        let pointer = text_of(violation, "pointer");
        let field = pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
        let field = if field.is_empty() { "the input".to_owned() } else { field };
        let (expected, found) = (text_of(violation, "expected"), text_of(violation, "found"));
        // Behind a semicolon the message gives advice.
        let message = text_of(violation, "message");
        let unknown = || message.split_once(" is not a known member; ")?.1.split("; ").next();
        let advice = message.split_once(&format!("got {found}; ")).map(|(_, advice)| advice).or_else(unknown);
        let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
        format!("{field}: expected {expected}, got {found}{advice}")
    };
    listed.map(line).collect()
}

/// What to do about it.
pub fn hint(envelope: &Value) -> String {
    let error = &envelope["error"];
    let (name, id) = (text_of(envelope, "name"), text_of(envelope, "id"));
    let reason = error["details"]["reason"].as_str().unwrap_or_default();
    // Of an entry that is missing, whoever names it has said what to write.
    if let (Some(_), Some(remedy)) = (error["details"]["entry"].as_str(), error["details"]["remedy"].as_str()) {
        return remedy.to_owned();
    }
    match (error["code"].as_str().unwrap_or_default(), reason) {
        (_, "schema") => format!("see its fields with `toolgate tool show {name}`"),
        (_, "mode") => "leave --record out".to_owned(),
        (_, "approval_required" | "approval_timeout" | "expired") => {
            "send it again, and have somebody decide in time: `toolgate approvals`".to_owned()
        }
        (_, "frozen") => "see what is stopped with `toolgate killswitch list`".to_owned(),
        (_, "budget") => {
            "see the limits with `toolgate limits show`, and what was spent with `toolgate usage`".to_owned()
        }
        (_, "max_tool_calls") => "open another run with `toolgate run create --max-calls N`".to_owned(),
        (_, "blocked" | "not_found") => "see what there is with `toolgate tool list`".to_owned(),
        (_, "outcome_unknown" | "lease_lost") => {
            format!("look whether it happened, then say so with `toolgate calls settle {id}`")
        }
        ("RATE_LIMIT", _) => match error["retry_after_s"].as_u64() {
            Some(seconds) => format!("try again in {seconds} s"),
            None => "try again later".to_owned(),
        },
        ("TIMEOUT", _) => format!("its time limit is in `toolgate tool show {name}`"),
        ("POLICY_DENIED", "cancelled") => String::new(),
        _ => match error["details"]["remedy"].as_str() {
            Some(remedy) => remedy.to_owned(),
            None => format!("see more with `toolgate calls show {id}`"),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_status_has_an_exit_status() {
        let expected = [
            ("pending", Exit::Waiting),
            ("approved", Exit::Waiting),
            ("rejected", Exit::Failed),
            ("running", Exit::Waiting),
            ("completed", Exit::Done),
            ("failed", Exit::Failed),
            ("cancelled", Exit::Failed),
            ("outcome_unknown", Exit::Waiting),
        ];
        assert_eq!(expected.len(), Status::ALL.len());
        for (status, exit) in expected {
            assert_eq!(exit_of(&json!({"status": status})), exit, "{status}");
        }
    }

    #[test]
    fn an_exception_of_a_tools_code_is_told_with_its_lines() {
        let traceback = "Traceback (most recent call last):\n  line 4, in main\n    return helper()\n  line 2, in helper\n    \
                         1 / 0\nZeroDivisionError: division by zero";
        let details = json!({"reason": "exception", "line": 2, "traceback": traceback});
        let error =
            json!({"code": "SANDBOX_ERROR", "message": "ZeroDivisionError: division by zero", "details": details});
        assert_eq!(told(&error), "ZeroDivisionError: division by zero [SANDBOX_ERROR, exception]");
        let expected = [
            "Traceback (most recent call last):",
            "  line 4, in main",
            "    return helper()",
            "  line 2, in helper",
            "    1 / 0",
        ];
        assert_eq!(places(&error), expected);
        assert!(places(&json!({"message": "x"})).is_empty());
    }

    #[test]
    fn a_wrong_field_is_told_with_what_was_expected() {
        let violation = |pointer: &str, expected: &str, found: &str, message: &str| json!({"pointer": pointer, "expected": expected, "found": found, "message": message});
        let error = json!({"code": "VALIDATION_ERROR", "message": "…", "details": {"reason": "schema", "violations": [
            violation("/a/b~1c", "a number", "\"x\"", "`/a/b~1c` must be a number, got \"x\"; write it without quotes"),
            violation("/to", "text", "nothing", "`/to` is missing; it must be text"),
            violation("", "an object", "a list", "the value must be an object, got a list"),
        ]}});
        assert_eq!(told(&error), "the input does not fit the tool's schema in 3 places [VALIDATION_ERROR, schema]");
        assert_eq!(
            violations(&error),
            [
                "a.b/c: expected a number, got \"x\"; write it without quotes",
                "to: expected text, got nothing",
                "the input: expected an object, got a list"
            ]
        );
    }
}
