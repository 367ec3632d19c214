//! What happened in a run: all of it, or as it happens.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::super::call::outcome::is_final;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, Paint, clean, clean_line, note, print, text_of};

/// Pages of a log that is shown at once.
const PAGES_MAX: usize = 1000;

/// Every event up to now, in order, with the output that tools gave meanwhile.
pub async fn all(run: &str, client: &Client) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    // Output comes with the event it stands behind, and once more with the page behind that event.
    let mut parts = BTreeSet::new();
    let mut after = 0;
    for _ in 0..PAGES_MAX {
        let page = client.get(&["runs", run, "events"], &[("after", Some(after.to_string()))]).await?;
        let Value::Array(items) = &page["items"] else { break };
        for event in items {
            if event["seq"].is_u64() || parts.insert(key(event)) {
                found.push(event.clone());
            }
        }
        match page["next_after"].as_u64() {
            Some(next) if next > after => after = next,
            _ => break,
        }
    }
    Ok(found)
}

/// What tells an event of a run from every other.
pub type Key = [String; 4];

pub fn key(event: &Value) -> Key {
    ["seq", "after_seq", "call_id", "part"].map(|member| event[member].to_string())
}

/// An event as one line; the text of a tool as its own lines.
pub fn line(event: &Value, paint: Paint) -> String {
    let at = text_of(event, "at");
    let at = at.get(11..23).unwrap_or(&at);
    let kind = text_of(event, "type");
    if matches!(kind.as_str(), "tool.output_appended" | "model.delta") {
        let text = text_of(&event["data"], "text");
        let lines: Vec<String> =
            text.trim_end_matches('\n').lines().map(|line| format!("{at}    │ {}", clean(line))).collect();
        return lines.join("\n");
    }
    let members = event["data"].as_object().into_iter().flatten();
    let words: Vec<String> = members.map(|(name, _)| format!("{name}={}", text_of(&event["data"], name))).collect();
    let number = paint.dim(&format!("{:>3}", text_of(event, "seq")));
    format!("{at} {number} {}", clean_line(&format!("{kind} {}", words.join(" "))))
}

/// Prints what happened and what happens, until the run ends or Ctrl-C.
pub async fn follow(run: &str, client: &Client, output: &Output) -> Done {
    let seen = client.get(&["runs", run], &[]).await?;
    // The run of a lone call has no events of its own: it ends with the call.
    let lone = seen["calls"].as_array().is_some_and(|calls| matches!(&calls[..], [call] if call["id"] == seen["id"]));
    let ended = matches!(seen["state"].as_str(), Some("completed" | "failed" | "cancelled"))
        || (lone && is_final(&seen["calls"][0]));
    if ended {
        for event in all(run, client).await? {
            tell(&event, output)?;
        }
        tell_end(&seen, output);
        return Ok(Exit::Done);
    }
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| {
        Failure::failed(format!("cannot listen for signals: {error}"), "check the limits of the process")
    })?;
    let mut follower = client.follow(&text_of(&seen, "id"))?;
    loop {
        let event = tokio::select! {
            event = follower.next() => event?,
            _ = interrupt.recv() => return Ok(Exit::Done),
        };
        tell(&event, output)?;
        let last = match event["type"].as_str() {
            // A run under this one is told of with its own id.
            Some("run.completed" | "run.failed" | "run.cancelled") => event["data"]["run_id"].is_null(),
            Some("tool.completed" | "tool.failed" | "tool.cancelled") => lone,
            _ => false,
        };
        if last {
            tell_end(&client.get(&["runs", run], &[]).await?, output);
            return Ok(Exit::Done);
        }
    }
}

fn tell_end(run: &Value, output: &Output) {
    if !output.is_json() {
        note(&format!("The run is {}.", text_of(run, "state")));
    }
}

fn tell(event: &Value, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        output.show_line(event, |_, _| String::new())?;
    } else {
        print(&line(event, output.paint()))?;
    }
    let _ = io::stdout().flush();
    Ok(())
}
