//! What the model of a run was asked and what it answered, turn by turn, for people.

use serde_json::Value;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Paint, clean, clean_line, is_nothing, text_of};

/// Pages of turns that are shown at once: far more than any run has.
const PAGES_MAX: usize = 20;
const PAGE_TURNS: &str = "100";

/// Every turn up to now, in order.
pub async fn all(run: &str, client: &Client) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let query = [("limit", Some(PAGE_TURNS.to_owned())), ("cursor", cursor)];
        let page = client.get(&["runs", run, "turns"], &query).await?;
        found.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(found)
}

/// The turns as lines: what each took, what the model said, and below it what it called.
pub fn lines(turns: &[Value], paint: Paint) -> String {
    let width = turns.len().to_string().len();
    let indent = " ".repeat(width + 2);
    let mut lines = Vec::new();
    for turn in turns {
        let number = turn["turn"].as_u64().unwrap_or_default() + 1;
        lines.push(format!("{number:>width$}  {}", paint.dim(&clean_line(&took(turn)))));
        let said = text_of(turn, "text");
        lines.extend(clean(said.trim()).lines().map(|line| format!("{indent}{line}")));
        if turn["is_cut"] == true {
            lines.push(format!("{indent}{}", paint.dim("… `toolgate run export` has the rest")));
        }
        for call in turn["calls"].as_array().into_iter().flatten() {
            lines.push(format!("{indent}→ {}", clean_line(&called(call))));
        }
    }
    lines.join("\n")
}

fn took(turn: &Value) -> String {
    let model = text_of(turn, "model");
    let model = if turn["scripted"] == true { format!("{model} (scripted: no model was asked)") } else { model };
    match turn["state"].as_str() {
        Some("asked") => {
            let [read, wrote] = ["input_tokens", "output_tokens"].map(|member| text_of(turn, member));
            return format!("{model}, no answer yet; held until then: {read} tokens to read, {wrote} to write");
        }
        Some("erased") => return format!("{model}, erased"),
        _ => {}
    }
    let [read, cached, wrote, cost] =
        ["input_tokens", "cached_tokens", "output_tokens", "cost"].map(|member| text_of(turn, member));
    let cached = if cached == "0" { String::new() } else { format!(" ({cached} cached)") };
    let cost = if is_nothing(&cost) { String::new() } else { format!(", cost {cost}") };
    let held = if turn["is_held"] == true { " (what was held: the provider did not say)" } else { "" };
    let stop = match turn["stop"].as_str() {
        Some("length") => ", cut off at its limit",
        Some("refusal") => ", refused",
        _ => "",
    };
    format!(
        "{model}, {read} tokens read{cached}, {wrote} written{held}{cost}, {} ms{stop}",
        text_of(turn, "duration_ms")
    )
}

/// The tool as the model named it, where it did.
pub fn tool_of(call: &Value) -> String {
    match text_of(call, "tool") {
        tool if tool.trim().is_empty() => "(no name)".to_owned(),
        tool => tool,
    }
}

fn called(call: &Value) -> String {
    let [status, id] = ["status", "id"].map(|member| text_of(call, member));
    let tool = tool_of(call);
    let status = if status.is_empty() { "not made".to_owned() } else { status };
    let why = match text_of(&call["error"], "code") {
        code if code.is_empty() => code,
        // Without a record, this is the one place that says what its model was told.
        code if id.is_empty() => format!(" {code}: {}", text_of(&call["error"], "message")),
        code => format!(" {code}"),
    };
    let edited = if call["edited"] == true { ", with an input that a person changed" } else { "" };
    let id = if id.is_empty() { id } else { format!(" {id}") };
    format!("{tool} {status}{why}{edited}{id}")
}
