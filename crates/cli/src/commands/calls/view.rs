//! One call in full, for people.

use serde_json::Value;
use toolgate_contracts::Timestamp;

use super::super::call::outcome::{hint, places, told};
use super::duration;
use crate::output::{Detail, Paint, clean, person_and_id, text_of};

/// Longer values are shown with --json.
const VALUE_LINES_MAX: usize = 60;

pub fn whole(call: &Value, paint: Paint) -> String {
    let heading = format!("{}@{} — {}", text_of(call, "name"), text_of(call, "version"), text_of(call, "status"));
    Detail::new(paint, &heading)
        .field("Id", text_of(call, "id"))
        .field("Call", text_of(call, "call_id"))
        .field("Run", run(call))
        .field("Step", text_of(call, "step_title"))
        .field("By", who(call))
        .field("From", text_of(call, "source"))
        .field("Mode", Some(text_of(call, "mode")).filter(|mode| mode != "execute").unwrap_or_default())
        .field("Began", text_of(call, "created_at"))
        .field("Ended", text_of(call, "completed_at"))
        .field("Took", took(call))
        .field("Class", text_of(call, "egress_class"))
        .field("Labels", labels(call))
        .field("Metadata", text_of(call, "metadata"))
        .field("Cost", cost(call))
        .field("Usage", text_of(call, "usage"))
        .field("Approval", approval(call))
        .field(
            "Stop",
            Some(text_of(call, "cancel_requested_by"))
                .filter(|by| !by.is_empty())
                .map_or_else(String::new, |by| format!("asked by {by}")),
        )
        .field("Receipt", receipt(&call["receipt"]))
        .section("Proposed input", &value(&call["proposed_input"]))
        .section("Input", &value(&call["input"]))
        .section("Output", &value(&call["output"]))
        .section("Error", &error(call))
        .section("Attachments", &attachments(call))
        .section("Decision", &decision(call))
        .end()
}

/// What whoever reads its result has seen by then, and where the data before it came from.
fn labels(call: &Value) -> String {
    let labels = text_of(call, "labels");
    let from = super::super::label::origins(&call["decision"]["origins"]);
    if labels.is_empty() || from.is_empty() { labels } else { format!("{labels}; seen before: {from}") }
}

fn run(call: &Value) -> String {
    let (run, root) = (text_of(call, "run_id"), text_of(call, "root_run_id"));
    match (run == text_of(call, "id"), run == root) {
        (true, _) => String::new(),
        (false, true) => format!("{run}, call {}", text_of(call, "seq")),
        (false, false) => format!("{run} under {root}, call {}", text_of(call, "seq")),
    }
}

fn who(call: &Value) -> String {
    let principal = person_and_id(call, "principal");
    match (text_of(call, "agent_name"), text_of(call, "agent_id")) {
        (name, _) if !name.is_empty() => format!("{principal} as agent {name}"),
        (_, id) if !id.is_empty() => format!("{principal} as agent {id}"),
        _ => principal,
    }
}

fn took(call: &Value) -> String {
    let mut words = vec![duration(call)];
    match call["attempts"].as_u64().unwrap_or_default() {
        0 | 1 => {}
        attempts => words.push(format!("{attempts} attempts")),
    }
    if call["cached"] == true {
        words.push("answered from the cache".to_owned());
    }
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

fn cost(call: &Value) -> String {
    let part = |member: &str, word: &str| {
        let amount = text_of(call, member);
        (!amount.is_empty()).then(|| format!("{amount} {word}"))
    };
    let parts = [part("cost_estimate", "estimated"), part("cost", "counted"), part("reported_cost", "reported")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn approval(call: &Value) -> String {
    let with = |before: &str, member: &str| {
        let text = text_of(call, member);
        if text.is_empty() { text } else { format!("{before}{text}") }
    };
    let status = text_of(call, "approval_status").replace('_', " ");
    let by = person_and_id(call, "approval_decided_by");
    let by = if by.is_empty() { by } else { format!(" by {by}") };
    format!("{status}{by}{}", with(": ", "approval_reason"))
}

fn receipt(receipt: &Value) -> String {
    if receipt.is_null() {
        return String::new();
    }
    let index =
        receipt["index"].as_u64().map_or_else(|| "not numbered yet".to_owned(), |index| format!("entry {index}"));
    format!("{index} of {}, digest {}", text_of(receipt, "log"), text_of(receipt, "entry_digest"))
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => clean(text),
        other => clean(&serde_json::to_string_pretty(other).unwrap_or_default()),
    };
    let lines: Vec<&str> = text.lines().collect();
    match lines.get(..VALUE_LINES_MAX) {
        Some(shown) if lines.len() > VALUE_LINES_MAX => {
            format!("{}\n… {} more lines; see all with --json", shown.join("\n"), lines.len() - VALUE_LINES_MAX)
        }
        _ => text,
    }
}

fn error(call: &Value) -> String {
    let error = &call["error"];
    if error.is_null() {
        return String::new();
    }
    let mut lines = vec![told(error)];
    lines.extend(places(error));
    lines.extend(error["retry_after_s"].as_u64().map(|seconds| format!("retry after {seconds} s")));
    let hint = hint(call);
    // The page that it sends to is this one.
    if !hint.is_empty() && !hint.contains("calls show") {
        lines.push(format!("hint: {hint}"));
    }
    clean(&lines.join("\n"))
}

fn attachments(call: &Value) -> String {
    let listed = call["attachments"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = listed
        .map(|attachment| {
            let words = ["kind", "content_type"].map(|member| text_of(attachment, member));
            let bytes = attachment["bytes"].as_u64().map(|bytes| format!("{bytes} bytes")).unwrap_or_default();
            format!("{}  {}  {bytes}  {}", words[0], words[1], text_of(attachment, "url"))
        })
        .collect();
    if call["truncated"] == true {
        lines.push("The output above is cut; the blob holds all of it.".to_owned());
    }
    if !lines.is_empty() {
        lines.push(format!("Save them with `toolgate calls show {} --save DIR`.", text_of(call, "id")));
    }
    clean(&lines.join("\n"))
}

fn decision(call: &Value) -> String {
    let decision = &call["decision"];
    let refused = decision["refused_at"].as_str().map(|step| format!(" at {step}")).unwrap_or_default();
    let mut lines = vec![format!(
        "{}{refused}: {} (registry revision {})",
        text_of(decision, "verdict"),
        text_of(decision, "member"),
        text_of(decision, "revision")
    )];
    for reason in decision["asking"]["reasons"].as_array().into_iter().flatten() {
        lines.push(format!("asks: {}", text_of(reason, "text")));
    }
    for (member, word) in [("policies", "policy"), ("logged", "only logged"), ("limits", "limit")] {
        let listed = decision[member].as_array().into_iter().flatten().filter_map(Value::as_str);
        lines.extend(listed.map(|text| format!("{word}: {text}")));
    }
    if let Some(intent) = decision["intent"].as_str() {
        lines.push(format!("intent: entry {intent}"));
    }
    let steps = spans(call);
    let width = steps.iter().map(|(_, micros)| micros.to_string().len()).max().unwrap_or_default();
    lines.extend(steps.iter().map(|(step, micros)| format!("{step:<9}  {micros:>width$} µs")));
    clean(&lines.join("\n"))
}

/// The steps that a call went through, and how many microseconds each took.
pub fn spans(call: &Value) -> Vec<(String, u64)> {
    let measured = call["decision"]["spans"].as_array().into_iter().flatten();
    let mut spans: Vec<(String, u64)> =
        measured.filter_map(|span| Some((span[0].as_str()?.to_owned(), span[1].as_u64()?))).collect();
    let at = |member: &str| call[member].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    // How long it ran is in the call's own times, which are kept to the millisecond.
    if let (Some(begun), Some(ended)) = (at("started_at"), at("completed_at"))
        && !spans.iter().any(|(step, _)| step == "run")
    {
        spans.push(("run".to_owned(), u64::try_from(ended.millis() - begun.millis()).unwrap_or_default() * 1000));
    }
    spans
}
