//! `toolgate calls …`: reading calls, stopping them, and saying how they ended.

mod attachments;
mod view;

use serde_json::{Value, json};
use toolgate_contracts::Timestamp;

use super::call::outcome::exit_of;
use super::list;
use crate::args::{CallsCommand, Invocations, ListCalls, Report, Settle};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, items_of, name_of, person_of, text_of, time_of};

pub use view::spans;

pub async fn run(command: CallsCommand, client: &Client, output: &Output) -> Done {
    match command {
        CallsCommand::List(wanted) => listed(wanted, client, output).await,
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
                Some("cancelled") => format!("{} is cancelled.", tool_of(&envelope)),
                Some("running") => format!("{} was asked to stop and is still running.", tool_of(&envelope)),
                other => format!("{} is {}.", tool_of(&envelope), other.unwrap_or_default()),
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
            output.say(&envelope, &format!("{} is settled: {status}.", tool_of(&envelope)))
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
    output.say(envelope, &format!("{} is {status}.", tool_of(envelope)))?;
    let error = &envelope["error"];
    if error["details"]["reason"] == "output_schema" {
        output.complain(&text_of(error, "message"), &[], "correct what the tool gives back, or its output_schema");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn tool_of(envelope: &Value) -> String {
    format!("{}@{}", text_of(envelope, "name"), text_of(envelope, "version"))
}

async fn listed(wanted: ListCalls, client: &Client, output: &Output) -> Done {
    let ListCalls { status, tool, agent, run, source, since, until, meta, paging } = wanted;
    let query = [
        ("status", status),
        ("tool", tool),
        ("agent", agent),
        ("run", run),
        ("source", source),
        ("since", since.map(|since| since.to_string())),
        ("until", until.map(|until| until.to_string())),
        ("meta", meta),
    ];
    let filtered = query.iter().any(|(_, value)| value.is_some());
    let nothing = if filtered {
        "No such calls; leave a filter out to see more."
    } else {
        "No calls yet; make one with `toolgate call NAME FIELD=VALUE`."
    };
    let shown = |page: &Value, paint: Paint| table(items_of(page), paint, nothing);
    list::show(&["calls"], &query, paging, (client, output), shown).await
}

pub async fn invocations(wanted: Invocations, client: &Client, output: &Output) -> Done {
    let Invocations { status, agent, team_run, paging } = wanted;
    let query = [("status", status), ("agent", agent), ("team_run", team_run)];
    let shown = |page: &Value, paint: Paint| {
        let mut table = Table::new(["CREATED", "ID", "TOOL", "CLASS", "STATUS", "APPROVAL"])
            .drops(["CLASS", "CREATED", "APPROVAL"]);
        for row in items_of(page) {
            let [id, tool, class] = ["id", "tool_key", "egress_class"].map(|member| text_of(row, member));
            let [status, approval] = ["status", "approval_status"].map(|member| text_of(row, member));
            table.row([time_of(row, "created_at"), id, tool, class, status, approval]);
        }
        table.render(paint, "No such invocations.")
    };
    list::show(&["compat", "tool_invocations_v"], &query, paging, (client, output), shown).await
}

pub fn table(calls: &[Value], paint: Paint, nothing: &str) -> String {
    let mut table = Table::new(["WHEN", "ID", "TOOL", "STATUS", "TOOK", "BY"]).drops(["TOOK", "WHEN", "BY"]);
    for call in calls {
        table.row(cells(call));
    }
    table.render(paint, nothing)
}

/// Calls of several runs, each with the run that it is in.
pub fn table_of_runs(calls: &[Value], paint: Paint, run_of: impl Fn(&str) -> String) -> String {
    let mut table =
        Table::new(["WHEN", "ID", "TOOL", "STATUS", "TOOK", "BY", "RUN"]).drops(["TOOK", "WHEN", "BY"]).cuts("RUN");
    for call in calls {
        let [when, id, tool, state, took, by] = cells(call);
        table.row([when, id, tool, state, took, by, run_of(&text_of(call, "run_id"))]);
    }
    table.render(paint, "")
}

fn cells(call: &Value) -> [String; 6] {
    let by = match call["agent_id"].as_str() {
        Some(_) => format!("agent {}", name_of(call, "agent_id", "agent_name")),
        None => person_of(call, "principal"),
    };
    [
        time_of(call, "created_at"),
        text_of(call, "id"),
        format!("{}@{}", text_of(call, "tool_key"), text_of(call, "tool_version")),
        state(call),
        took(call),
        by,
    ]
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
