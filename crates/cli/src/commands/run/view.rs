//! A run for people: its steps, the runs under it, its calls, what happened and how long it took.

use serde_json::{Value, json};

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
        .section("Prompt", &clean(text_of(run, "prompt").trim()))
        .section("Turns", &turns::lines(members(run, "turns"), paint))
        .section("Steps", &steps(run, narrow))
        .section("Runs under it", &runs(run, narrow))
        .section("Calls", &calls::table(members(run, "calls"), narrow, ""))
        .section(
            "Events",
            &members(run, "events").iter().map(|event| events::line(event, paint)).collect::<Vec<_>>().join("\n"),
        )
        .section("Spans", &members(run, "spans").iter().map(tree).collect::<Vec<_>>().join("\n"))
        .end()
}

fn members<'a>(run: &'a Value, member: &str) -> &'a [Value] {
    run[member].as_array().map(Vec::as_slice).unwrap_or_default()
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
