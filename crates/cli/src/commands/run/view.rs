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
        .section("Calls", &calls_of(run, narrow))
        .section("Calls without a record", &unread(run, narrow))
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
    let of_turns = || members(run, "turns").iter().flat_map(|turn| members(turn, "calls"));
    for call in members(run, "unread") {
        let [seq, code, reason] = ["seq", "code", "reason"].map(|member| text_of(call, member));
        // What its model was told, where that is at hand.
        let told = of_turns().find(|one| one["call_id"] == call["call_id"] && one["call_id"].is_string());
        let told = told.map(|one| text_of(&one["error"], "message")).filter(|told| !told.is_empty());
        let told = told.map(|told| format!(": {told}")).unwrap_or_default();
        let why = format!("failed {code} {reason}").trim_end().to_owned() + &told;
        table.row([time_of(call, "at"), seq, turns::tool_of(call), why]);
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

/// Each below the run that it is under, as deep as it stands there.
fn runs(run: &Value, paint: Paint) -> String {
    let mut table = Table::new(["BEGAN", "ID", "KIND", "STATE", "TITLE"]).drops(["BEGAN", "KIND"]);
    for (depth, under) in in_their_places(run) {
        let [id, kind, state, title] = ["id", "kind", "state", "title"].map(|member| text_of(under, member));
        let branch = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
        table.row([time_of(under, "created_at"), id, kind, state, format!("{branch}{title}")]);
    }
    table.render(paint, "")
}

fn in_their_places(run: &Value) -> Vec<(usize, &Value)> {
    let all = members(run, "runs");
    let top = text_of(run, "id");
    // One whose run above is not shown stands at the top.
    let is_shown = |id: &str| all.iter().any(|one| one["id"] == id);
    let above = |one: &Value| one["parent_run_id"].as_str().filter(|id| is_shown(id)).unwrap_or(&top).to_owned();
    let mut found = Vec::with_capacity(all.len());
    let mut waiting = Vec::new();
    let push_below = |waiting: &mut Vec<_>, id: &str, depth: usize| {
        waiting.extend(all.iter().rev().filter(|one| above(one) == id).map(|one| (depth, one)));
    };
    push_below(&mut waiting, &top, 0);
    while let Some((depth, one)) = waiting.pop() {
        found.push((depth, one));
        push_below(&mut waiting, &text_of(one, "id"), depth + 1);
    }
    found
}

fn calls_of(run: &Value, paint: Paint) -> String {
    let (calls, under, own) = (members(run, "calls"), members(run, "runs"), text_of(run, "id"));
    if under.is_empty() {
        return calls::table(calls, paint, "");
    }
    calls::table_of_runs(calls, paint, |id| {
        if id == own {
            return "this one".to_owned();
        }
        let title = under.iter().find(|one| one["id"] == id).map(|one| text_of(one, "title")).unwrap_or_default();
        format!("{id} {title}").trim_end().to_owned()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_below_stand_below_theirs_and_calls_say_in_which_they_are() {
        let run = json!({
            "id": "top", "title": "Top", "state": "completed",
            "runs": [
                {"id": "b", "parent_run_id": "top", "title": "second"},
                {"id": "a1", "parent_run_id": "a", "title": "deeper"},
                {"id": "a", "parent_run_id": "top", "title": "first"},
                {"id": "lost", "parent_run_id": "not shown", "title": "third"},
            ],
            "calls": [{"id": "c1", "run_id": "a1", "tool_key": "echo"}, {"id": "c2", "run_id": "top", "tool_key": "echo"}],
        });
        let shown = whole(&run, Paint::PLAIN);
        let (_, below) = shown.split_once("Runs under it\n").unwrap();
        let places = ["second", "first", "└ deeper", "third"]
            .map(|title| below.lines().skip(1).take(4).position(|line| line.ends_with(&format!(" {title}"))));
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)], "{shown}");
        let (_, calls) = shown.split_once("Calls\n").unwrap();
        let whose: Vec<&str> =
            calls.lines().skip(1).take(2).map(|line| line.trim_end().rsplit_once("  ").unwrap().1).collect();
        assert_eq!(whose, ["a1 deeper", "this one"], "{calls}");
        assert!(!whole(&json!({"id": "top", "calls": [{"id": "c"}]}), Paint::PLAIN).contains("RUN"));
    }

    #[test]
    fn a_call_without_a_record_says_what_its_model_was_told() {
        let error = json!({"code": "POLICY_DENIED", "message": "there is no such tool"});
        let run = json!({
            "id": "top",
            "turns": [{"turn": 0, "calls": [{"seq": 0, "tool": "", "call_id": "x", "status": "failed", "error": error}]}],
            "unread": [{"seq": 0, "tool": "", "call_id": "x", "code": "POLICY_DENIED", "reason": "not_found"}],
        });
        let shown = whole(&run, Paint::PLAIN);
        assert!(shown.contains("→ (no name) failed POLICY_DENIED: there is no such tool"), "{shown}");
        assert!(shown.contains("failed POLICY_DENIED not_found: there is no such tool"), "{shown}");
    }
}
