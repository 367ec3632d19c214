//! `toolgate run …`: runs, their steps and what happens in them.

pub mod events;
mod turns;
mod view;

use serde_json::{Map, Value, json};

use super::list;
use crate::args::{NewRun, RunCommand, RunLimits, ShowRun};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Table, is_nothing, items_of, text_of, time_of};

/// How many calls of a run are asked for their steps.
const SPANS_MAX: usize = 200;

pub async fn run(command: RunCommand, client: &Client, output: &Output) -> Done {
    match command {
        RunCommand::Create(new) => create(new, client, output).await,
        RunCommand::List { state, kind, workflow, paging } => {
            let query = [("state", state), ("kind", kind), ("workflow", workflow)];
            list::show(&["runs"], &query, paging, (client, output), |runs, paint| {
                let mut table = Table::new(["BEGAN", "ID", "KIND", "STATE", "CALLS", "COST", "TITLE", "PROMPT"])
                    .drops(["BEGAN", "CALLS", "KIND", "COST", "PROMPT"]);
                for run in items_of(runs) {
                    let [id, kind, state, calls, title, prompt] =
                        ["id", "kind", "state", "calls_counted", "title", "prompt"].map(|member| text_of(run, member));
                    table.row([time_of(run, "created_at"), id, kind, state, calls, cost_of(run), title, prompt]);
                }
                table.render(paint, "No runs; open one with `toolgate run create --title TITLE`.")
            })
            .await
        }
        RunCommand::Show(ShowRun { id, follow: true, .. }) => events::follow(&id, client, output).await,
        RunCommand::Show(ShowRun { id, events, spans, .. }) => show(&id, events, spans, client, output).await,
        RunCommand::Step { run, title } => {
            let step = client.post(&["runs", &run, "steps"], json!({"title": title})).await?;
            output.show(&step, |step, _| text_of(step, "id"))
        }
        RunCommand::Cancel { run, reason } => {
            let body = json!({"state": "cancelled", "reason": reason});
            let ended = client.put(&["runs", &run, "state"], body).await?;
            output.say(&ended, &format!("The run {} is cancelled.", text_of(&ended, "id")))
        }
        RunCommand::Resume { run } => super::agent_run::resume(&run, client, output).await,
        RunCommand::Export { run, output: to } => super::replay::export(&run, to.as_deref(), client, output).await,
        RunCommand::End { run, state, reason } => {
            let ended = client.put(&["runs", &run, "state"], json!({"state": state, "reason": reason})).await?;
            output.say(&ended, &format!("The run {} is {}.", text_of(&ended, "id"), text_of(&ended, "state")))
        }
    }
}

/// What a run cost, as far as it is known: a model without a price cost something all the same.
pub fn cost_of(run: &Value) -> String {
    let cost = text_of(run, "cost");
    match (run["unpriced"].as_u64().unwrap_or_default(), is_nothing(&cost)) {
        (0, _) => cost,
        (_, true) => "unknown".to_owned(),
        (_, false) => format!("over {cost}"),
    }
}

/// Prints the id alone, for a script to go on with.
async fn create(new: NewRun, client: &Client, output: &Output) -> Done {
    let NewRun { title, agent, parent, request_id, limits } = new;
    let limits = limits_of(limits)?;
    let body = json!({
        "title": title, "agent": agent, "parent_run_id": parent, "request_id": request_id, "limits": limits,
    });
    let run = client.post(&["runs"], body).await?;
    output.show(&run, |run, _| text_of(run, "id"))
}

/// Limits as the API takes them.
pub fn limits_of(stated: RunLimits) -> Result<Value, Failure> {
    let RunLimits { limits, max_calls, budget } = stated;
    let mut limits = match limits.as_deref() {
        None => Value::Object(Map::new()),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => input::read_document(std::path::Path::new(file))?,
            None => input::json_or_file(text, "--limits")?,
        },
    };
    let Value::Object(members) = &mut limits else {
        return Err(Failure::usage("--limits is not an object", "write for example '{\"max_tool_calls\": 10}'"));
    };
    members.extend(max_calls.map(|calls| ("max_tool_calls".to_owned(), json!(calls))));
    members.extend(budget.map(|budget| ("max_budget".to_owned(), json!(budget))));
    Ok(limits)
}

async fn show(id: &str, with_events: bool, with_spans: bool, client: &Client, output: &Output) -> Done {
    let mut run = client.get(&["runs", id], &[]).await?;
    if run["kind"] == "agent" {
        let hosted = client.get(&["runs", id, "outputs"], &[]).await?;
        for member in ["prompt", "model_use", "outputs", "traces_url"] {
            run[member] = hosted[member].clone();
        }
        run["turns"] = Value::Array(turns::all(id, client).await?);
    }
    if with_events {
        run["events"] = Value::Array(events::all(id, client).await?);
    }
    if with_spans {
        let mut spans = Vec::new();
        let calls = run["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls.iter().take(SPANS_MAX).rev() {
            spans.push(view::spans_of(&client.get(&["calls", &text_of(call, "id")], &[]).await?));
        }
        run["spans"] = Value::Array(spans);
    }
    output.show(&run, view::whole)?;
    Ok(Exit::Done)
}
