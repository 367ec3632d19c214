//! `toolgate agent run` and `toolgate run resume`: an agent at work, told on standard error, and what it answered.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::run::{events, limits_of};
use crate::args::AgentRun;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, clean, is_nothing, note, print, text_of};

pub async fn start(new: AgentRun, client: &Client, output: &Output) -> Done {
    let AgentRun { agent, prompt, variables, title, parent, limits, request_id, detach } = new;
    if detach && client.is_local() {
        return Err(Failure::usage(
            "--detach needs a server, which goes on when this command has ended",
            "start one with `toolgate serve`, or leave --detach out",
        ));
    }
    let mut body = json!({"prompt": input::text_or_file(&prompt)?, "limits": limits_of(limits)?});
    if !variables.is_empty() {
        body["variables"] = Value::Object(variables_of(&variables)?);
    }
    for (member, value) in [("title", title), ("parent_run_id", parent), ("request_id", request_id)] {
        if let Some(value) = value {
            body[member] = value.into();
        }
    }
    let begun = client.post(&["agents", &agent, "runs"], body).await?;
    if detach {
        return output.show(&begun, |run, _| text_of(run, "id"));
    }
    attend(&text_of(&begun, "id"), client, output).await
}

pub async fn resume(run: &str, client: &Client, output: &Output) -> Done {
    client.post(&["runs", run, "resume"], json!({})).await?;
    attend(run, client, output).await
}

fn variables_of(variables: &[String]) -> Result<Map<String, Value>, Failure> {
    let named = variables.iter().map(|text| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok((name.to_owned(), value))
        }
        _ => Err(Failure::usage(format!("`{text}` is no variable"), "write --var NAME=VALUE")),
    });
    named.collect()
}

/// Tells what happens until the run has ended or waits for a person.
async fn attend(run: &str, client: &Client, output: &Output) -> Done {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| {
        Failure::failed(format!("cannot listen for signals: {error}"), "check the limits of the process")
    })?;
    let mut follower = client.follow(run)?;
    let mut told = BTreeSet::new();
    let mut words = events::Told::default();
    let mut is_told = true;
    loop {
        if is_told {
            let seen = client.get(&["runs", run, "outputs"], &[]).await?;
            if is_left(&seen) {
                // Much may have happened between the last event that came and the end.
                if !output.is_json() {
                    tell_rest(run, (&mut told, &mut words), client, output).await?;
                }
                return end(&seen, client, output);
            }
        }
        let event = tokio::select! {
            event = follower.next() => event?,
            _ = interrupt.recv() => {
                let how = if client.is_local() { "It stands still" } else { "It goes on" };
                note(&format!("{how}; `toolgate run resume {run}` follows it, `toolgate run cancel {run}` ends it."));
                return Ok(Exit::Waiting);
            }
        };
        if !output.is_json() && told.insert(events::key(&event)) {
            words.hear(&event, output.paint()).iter().for_each(|line| note(line));
        }
        is_told = event["type"].as_str().is_some_and(|kind| kind.starts_with("run."));
    }
}

/// What the log says and was not told yet.
async fn tell_rest(
    run: &str,
    (told, words): (&mut BTreeSet<events::Key>, &mut events::Told),
    client: &Client,
    output: &Output,
) -> Result<(), Failure> {
    for event in events::all(run, client).await? {
        if told.insert(events::key(&event)) {
            words.hear(&event, output.paint()).iter().for_each(|line| note(line));
        }
    }
    words.rest().iter().for_each(|line| note(line));
    Ok(())
}

fn is_left(run: &Value) -> bool {
    match run["state"].as_str() {
        Some("waiting_human") => true,
        Some("completed" | "failed" | "cancelled") => !run["outputs"].is_null(),
        _ => false,
    }
}

fn end(run: &Value, client: &Client, output: &Output) -> Done {
    let id = text_of(run, "id");
    if output.is_json() {
        output.json(run)?;
    }
    let response = clean(&text_of(&run["outputs"], "response"));
    match run["state"].as_str() {
        Some("waiting_human") => {
            if !output.is_json() {
                let then = if client.is_local() { format!("; then `toolgate run resume {id}`") } else { String::new() };
                note(&format!("The run {id} waits for a person: see `toolgate approvals`{then}."));
            }
            Ok(Exit::Waiting)
        }
        Some("completed") => {
            if !output.is_json() {
                print(&response)?;
                note(&used(run));
            }
            Ok(Exit::Done)
        }
        _ => {
            if !output.is_json() {
                if !response.is_empty() {
                    print(&response)?;
                }
                note(&used(run));
                let reason = text_of(run, "reason");
                let reason = if reason.is_empty() { format!("the run is {}", text_of(run, "state")) } else { reason };
                output.complain(&reason, &[], &format!("`toolgate run show {id} --events` says what happened"));
            }
            Ok(Exit::Failed)
        }
    }
}

/// What it took, in one line.
fn used(run: &Value) -> String {
    let model_use = &run["model_use"];
    let [turns, read, wrote, cost] =
        ["turns", "input_tokens", "output_tokens", "cost"].map(|member| text_of(model_use, member));
    let calls = run["outputs"]["tool_order"].as_array().map_or(0, Vec::len);
    // What the limit of calls refused was not made.
    let of_calls = run["outputs"]["tools_by_id"].as_object().into_iter().flatten();
    let refused = of_calls.filter(|(_, call)| call["error"]["details"]["reason"] == "max_tool_calls").count();
    let calls = calls.saturating_sub(refused);
    let refused = if refused == 0 { String::new() } else { format!(" ({refused} more refused)") };
    let cost = if is_nothing(&cost) { String::new() } else { format!(", {cost}") };
    let scripted = if model_use["scripted"] == true { " (scripted: no model was asked)" } else { "" };
    let questions = if turns == "1" { "question" } else { "questions" };
    let times = if calls == 1 { "call" } else { "calls" };
    format!(
        "{turns} {questions}, {calls} {times}{refused}, {read} tokens read, {wrote} written{cost}{scripted}; run {}",
        text_of(run, "id")
    )
}
