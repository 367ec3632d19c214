//! A run for people: its steps, the runs under it, its calls, what happened and how long it took.

use serde_json::{Value, json};
use toolgate_contracts::Timestamp;

use super::super::calls;
use super::{events, turns};
use crate::output::{Detail, Paint, Table, clean, person_and_id, text_of, time_of};

pub fn whole(run: &Value, paint: Paint) -> String {
    let title = Some(text_of(run, "title")).filter(|title| !title.is_empty()).unwrap_or_else(|| "Run".to_owned());
    let root = text_of(run, "root_run_id");
    let narrow = paint.narrower(2);
    Detail::new(paint, &format!("{title} — {}", text_of(run, "state")))
        .field("Id", text_of(run, "id"))
        .field("Kind", text_of(run, "kind"))
        .field("Root", if root == text_of(run, "id") { String::new() } else { root })
        .field("Agent", text_of(run, "agent_name"))
        .field("By", person_and_id(run, "principal"))
        .field("Reason", text_of(run, "reason"))
        .field("Waits for", waits_for(run))
        .field("Limits", limits(&run["limits"]))
        .field("Labels", text_of(run, "labels"))
        .field("Data from", super::super::label::origins(&run["origins"]))
        .field("Began", text_of(run, "created_at"))
        .field("Changed", text_of(run, "updated_at"))
        .field("Took", totals(run))
        .section("Prompt", &clean(text_of(run, "prompt").trim()))
        .section("Turns", &turns::lines(members(run, "turns"), paint))
        .section("Steps", &steps(run, narrow))
        .section("Runs under it", &runs(run, narrow))
        .section("Calls", &calls::table(members(run, "calls"), narrow, ""))
        .section("Calls that could not be read", &unread(run, narrow))
        .section("Events", &events::lines(members(run, "events"), paint))
        .section("Spans", &members(run, "spans").iter().map(tree).collect::<Vec<_>>().join("\n"))
        .end()
}

fn members<'a>(run: &'a Value, member: &str) -> &'a [Value] {
    run[member].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What the run took, in one line: turns, calls, tokens, cost, and time without that of people.
fn totals(run: &Value) -> String {
    let model_use = &run["model_use"];
    let counted = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut parts = Vec::new();
    if model_use.is_object() {
        parts.push(counted(number(&model_use["turns"]), "turn"));
    }
    parts.push(counted(number(&run["calls_counted"]), "call"));
    if model_use.is_object() {
        let [read, wrote] = ["input_tokens", "output_tokens"].map(|member| number(&model_use[member]));
        // What was held for a question that nobody answered counts as taken.
        let held = match number(&model_use["unanswered"]) {
            0 => String::new(),
            lost => format!(" (of {} without an answer what was held)", counted(lost, "turn")),
        };
        parts.push(format!("{read} tokens read, {wrote} written{held}"));
        let asked = members(run, "turns").iter().filter(|turn| turn["state"] == "asked").count();
        if asked > 0 {
            parts.push("held for the turn under way and not settled: see its line".to_owned());
        }
    }
    let cost = super::cost_of(run);
    if !cost.is_empty() {
        parts.push(format!("cost {cost}"));
    }
    let millis = |member: &str| text_of(run, member).parse::<Timestamp>().map(Timestamp::millis).ok();
    if let (Some(began), Some(changed)) = (millis("created_at"), millis("updated_at")) {
        let waited = i64::try_from(number(&run["waited_ms"])).unwrap_or_default();
        let people = if waited > 0 { format!(", {} of it waiting", seconds(waited)) } else { String::new() };
        parts.push(format!("{}{people}", seconds((changed - began).max(0))));
    }
    parts.join(", ")
}

fn seconds(millis: i64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

/// Calls without a record: they count, and stand in no list of calls.
fn unread(run: &Value, paint: Paint) -> String {
    let mut table = Table::new(["WHEN", "PLACE", "TOOL", "WHY"]).drops(["WHEN", "PLACE"]);
    for call in members(run, "unread") {
        let [seq, tool, code, reason] = ["seq", "tool", "code", "reason"].map(|member| text_of(call, member));
        table.row([time_of(call, "at"), seq, tool, format!("failed {code} {reason}").trim_end().to_owned()]);
    }
    table.render(paint, "")
}

/// The calls that a person must decide on, each with the way there.
fn waits_for(run: &Value) -> String {
    let waiting =
        members(run, "calls").iter().filter(|call| call["status"] == "pending" && call["approval_id"].is_string());
    let words = waiting.map(|call| {
        format!("{}, see `toolgate approvals show {}`", text_of(call, "tool_key"), text_of(call, "approval_id"))
    });
    words.collect::<Vec<_>>().join("; ")
}

fn limits(limits: &Value) -> String {
    let members = limits.as_object().into_iter().flatten();
    members.map(|(name, _)| format!("{name} {}", text_of(limits, name))).collect::<Vec<_>>().join(", ")
}

fn steps(run: &Value, paint: Paint) -> String {
    let mut table = Table::new(["BEGAN", "ID", "AGENT", "TITLE"]).drops(["BEGAN", "AGENT"]);
    for step in members(run, "steps") {
        let [id, agent, title] = ["id", "agent_name", "title"].map(|member| text_of(step, member));
        table.row([time_of(step, "created_at"), id, agent, title]);
    }
    table.render(paint, "")
}

fn runs(run: &Value, paint: Paint) -> String {
    let mut table = Table::new(["BEGAN", "ID", "KIND", "STATE", "TITLE"]).drops(["BEGAN", "KIND"]);
    for under in members(run, "runs") {
        let [id, kind, state, title] = ["id", "kind", "state", "title"].map(|member| text_of(under, member));
        table.row([time_of(under, "created_at"), id, kind, state, title]);
    }
    table.render(paint, "")
}

/// The steps that a call went through.
pub fn spans_of(call: &Value) -> Value {
    let steps: Vec<Value> =
        calls::spans(call).into_iter().map(|(step, micros)| json!({"step": step, "us": micros})).collect();
    json!({"id": call["id"], "name": call["name"], "version": call["version"], "status": call["status"], "steps": steps})
}

fn tree(call: &Value) -> String {
    let mut lines = vec![format!("{}@{} {}", text_of(call, "name"), text_of(call, "version"), text_of(call, "status"))];
    let steps = members(call, "steps");
    let width = steps.iter().map(|step| text_of(step, "us").len()).max().unwrap_or_default();
    for (index, step) in steps.iter().enumerate() {
        let branch = if index + 1 == steps.len() { "└─" } else { "├─" };
        lines.push(format!("{branch} {:<9}  {:>width$} µs", text_of(step, "step"), text_of(step, "us")));
    }
    clean(&lines.join("\n"))
}
