//! `toolgate calls …`: reading calls, stopping them, and saying how they ended.

mod attachments;
mod view;

use std::collections::HashMap;

use serde_json::{Value, json};
use toolgate_contracts::Timestamp;

use super::call::outcome::exit_of;
use crate::args::{CallsCommand, Invocations, ListCalls, Report, Settle};
use crate::client::{Client, Parameter};
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, items_of, note, text_of, time_of};

pub use view::spans;

pub async fn run(command: CallsCommand, client: &Client, output: &Output) -> Done {
    match command {
        CallsCommand::List(wanted) => list(wanted, client, output).await,
        CallsCommand::Show { id, save } => {
            let call = client.get(&["calls", &id], &[]).await?;
            match save {
                Some(folder) => attachments::save(&call, &folder, client, output).await,
                None => output.show(&call, view::whole),
            }
        }
        CallsCommand::Cancel { id } => {
            let envelope = client.post(&["calls", &id, "cancel"], json!({})).await?;
            let said = match envelope["status"].as_str() {
                Some("cancelled") => format!("{} is cancelled.", name_of(&envelope)),
                Some("running") => format!("{} was asked to stop and is still running.", name_of(&envelope)),
                other => format!("{} is {}.", name_of(&envelope), other.unwrap_or_default()),
            };
            output.say(&envelope, &said)?;
            // That it was stopped is what was wanted.
            Ok(if exit_of(&envelope) == Exit::Waiting { Exit::Waiting } else { Exit::Done })
        }
        CallsCommand::Settle(Settle { id, completed: _, failed, reason, output: found }) => {
            let found = found.map(|text| input::json_or_file(&text, "--output")).transpose()?;
            let status = if failed { "failed" } else { "completed" };
            let body = json!({"status": status, "reason": reason, "output": found});
            let envelope = client.post(&["calls", &id, "settle"], body).await?;
            output.say(&envelope, &format!("{} is settled: {status}.", name_of(&envelope)))
        }
        CallsCommand::Complete { id, report } => {
            let envelope = client.post(&["calls", &id, "complete"], report_of(report)?).await?;
            reported(&envelope, output)
        }
    }
}

/// What the API takes as the end of something that was done outside.
pub fn report_of(report: Report) -> Result<Value, Failure> {
    let Report { output, error, code, cost } = report;
    let found = output.map(|text| input::json_or_file(&text, "--output")).transpose()?;
    Ok(match error {
        Some(message) => json!({"status": "failed", "error": {"code": code, "message": message}, "cost": cost}),
        None => json!({"status": "completed", "output": found, "cost": cost}),
    })
}

/// A report that was taken is done, also where it tells of a failure.
pub fn reported(envelope: &Value, output: &Output) -> Done {
    let status = text_of(envelope, "status");
    output.say(envelope, &format!("{} is {status}.", name_of(envelope)))?;
    let error = &envelope["error"];
    if error["details"]["reason"] == "output_schema" {
        output.complain(&text_of(error, "message"), &[], "correct what the tool gives back, or its output_schema");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn name_of(envelope: &Value) -> String {
    format!("{}@{}", text_of(envelope, "name"), text_of(envelope, "version"))
}

async fn list(wanted: ListCalls, client: &Client, output: &Output) -> Done {
    let ListCalls { status, tool, agent, run, source, since, until, meta, limit, cursor } = wanted;
    let query = [
        ("status", status),
        ("tool", tool),
        ("agent", agent),
        ("run", run),
        ("source", source),
        ("since", since),
        ("until", until),
        ("meta", meta),
        ("cursor", cursor),
    ];
    show(&query, limit.limit, client, output).await
}

pub async fn invocations(wanted: Invocations, client: &Client, output: &Output) -> Done {
    let Invocations { status, agent, team_run, limit } = wanted;
    let query = [("status", status), ("agent", agent), ("team_run", team_run)];
    let page = client.list(&["compat", "tool_invocations_v"], &query, limit.limit).await?;
    let rows = items_of(&page);
    let done = output.show(&page, |_, paint| {
        let mut table = Table::new(["CREATED", "ID", "TOOL", "CLASS", "STATUS", "APPROVAL"]);
        for row in rows {
            let [id, tool, class] = ["id", "tool_key", "egress_class"].map(|member| text_of(row, member));
            table.row([
                time_of(row, "created_at"),
                id,
                tool,
                class,
                text_of(row, "status"),
                text_of(row, "approval_status"),
            ]);
        }
        table.render(paint, "No such invocations.")
    })?;
    if !page["next_cursor"].is_null() {
        note(&format!("There are more than these {}; ask for more with --limit.", limit.limit));
    }
    Ok(done)
}

async fn show(query: &[Parameter<'_>], limit: u32, client: &Client, output: &Output) -> Done {
    let page = client.list(&["calls"], query, limit).await?;
    let calls = items_of(&page);
    let agents = if output.is_json() { HashMap::new() } else { agents_of(calls, client).await };
    let filtered = query.iter().any(|(_, value)| value.is_some());
    let done = output.show(&page, |_, paint| {
        let nothing = if filtered {
            "No such calls; leave a filter out to see more."
        } else {
            "No calls yet; make one with `toolgate call NAME FIELD=VALUE`."
        };
        table(calls, &agents, paint, nothing)
    })?;
    if let Some(cursor) = page["next_cursor"].as_str() {
        note(&format!("There are more than these {limit}; go on with --cursor {cursor}"));
    }
    Ok(done)
}

/// The names of the agents that made these calls; whoever may not read agents sees ids.
pub async fn agents_of(items: &[Value], client: &Client) -> HashMap<String, String> {
    if items.iter().all(|item| item["agent_id"].is_null()) {
        return HashMap::new();
    }
    let agents = client.list(&["agents"], &[], 1000).await.unwrap_or_default();
    items_of(&agents).iter().map(|agent| (text_of(agent, "id"), text_of(agent, "name"))).collect()
}

pub fn table(calls: &[Value], agents: &HashMap<String, String>, paint: Paint, nothing: &str) -> String {
    let mut table = Table::new(["WHEN", "ID", "TOOL", "STATUS", "TOOK", "BY"]);
    for call in calls {
        let by = match call["agent_id"].as_str() {
            Some(id) => format!("agent {}", agents.get(id).map_or(id, String::as_str)),
            None => text_of(call, "principal"),
        };
        table.row([
            time_of(call, "created_at"),
            text_of(call, "id"),
            format!("{}@{}", text_of(call, "tool_key"), text_of(call, "tool_version")),
            state(call),
            took(call),
            by,
        ]);
    }
    table.render(paint, nothing)
}

/// The status, with the code of the failure and what else is out of the ordinary.
fn state(call: &Value) -> String {
    let mut words = vec![text_of(call, "status"), text_of(call, "error_code")];
    if call["cached"] == true {
        words.push("cached".to_owned());
    }
    if let Some(mode @ ("record" | "dry_run")) = call["mode"].as_str() {
        words.push(mode.to_owned());
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The time and the money.
fn took(call: &Value) -> String {
    let words = [duration(call), text_of(call, "cost")];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// How long it ran, if it did.
pub fn duration(call: &Value) -> String {
    let at = |member: &str| call[member].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match (at("started_at"), at("completed_at")) {
        (Some(begun), Some(ended)) => time_text(ended.millis() - begun.millis()),
        _ => String::new(),
    }
}

fn time_text(millis: i64) -> String {
    match millis {
        ..10_000 => format!("{millis} ms"),
        10_000..600_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min", millis / 60_000),
    }
}
