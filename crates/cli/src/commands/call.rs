//! `toolgate call`: one call, from the words of a command line to an exit status.

pub mod fields;
pub mod outcome;
mod watch;

use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant};

use crate::args::Call;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, items_of, note, text_of};

use outcome::{exit_of, is_final};
use watch::{Interrupts, Patience};

/// What is not over by then is watched.
const SHORT: u64 = 1;

pub async fn run(call: Call, client: &Client, output: &Output) -> Done {
    let (format, record) = (call.format, call.record);
    let envelope = ended(call, client).await?;
    outcome::show(&envelope, format, output)?;
    outcome::tell(&envelope, client, output).await;
    match exit_of(&envelope) {
        // Whoever runs the tool themselves is told to go ahead.
        Exit::Waiting if record && envelope["status"] == "running" => Ok(Exit::Done),
        exit => Ok(exit),
    }
}

/// Makes the call and waits for it, as long as it was said to.
pub async fn ended(call: Call, client: &Client) -> Result<Value, Failure> {
    let record = call.record;
    let patience = match (call.no_wait, call.wait) {
        (true, _) => Patience::Until(Instant::now()),
        (false, Some(seconds)) => Patience::Until(Instant::now() + Duration::from_secs(seconds.into())),
        (false, None) => Patience::ToTheEnd,
    };
    let body = request(call, client).await?;
    let mut interrupts = Interrupts::new()?;
    let tool = text_of(&body, "tool");
    let first = match watch::submit(client, body, &mut interrupts).await {
        Err(failure) if failure.is_not_found() && failure.problem["pointer"].is_null() => {
            return Err(meant(failure, &tool, client).await);
        }
        answered => answered?,
    };
    if record || is_final(&first) {
        return Ok(first);
    }
    let patience = local_patience(patience, &first, client).await;
    watch::to_the_end(client, first, patience, &mut interrupts).await
}

async fn request(call: Call, client: &Client) -> Result<Value, Failure> {
    let Call {
        tool,
        fields: words,
        input: whole,
        dry_run,
        record,
        run,
        step,
        agent,
        request_id,
        wait,
        no_wait,
        force_no_approval,
        timeout_ms,
        meta,
        labels,
        format: _,
    } = call;
    let base = match &whole {
        Some(text) => input::json_or_file(text, "--input")?,
        None => json!({}),
    };
    let input = if words.is_empty() {
        base
    } else {
        let definition = match client.get(&["tools", &tool], &[]).await {
            Err(failure) if failure.is_not_found() => return Err(meant(failure, &tool, client).await),
            found => found?,
        };
        fields::over(base, &words, &definition["input_schema"], "--input")?
    };
    let mode = match (dry_run, record) {
        (true, _) => "dry_run",
        (false, true) => "record",
        (false, false) => "execute",
    };
    let wait = if no_wait { 0 } else { wait.map_or(SHORT, |seconds| SHORT.min(seconds.into())) };
    Ok(json!({
        "tool": tool, "input": input, "mode": mode, "run_id": run, "step_id": step, "agent_id": agent,
        "request_id": request_id, "wait": wait, "timeout_ms": timeout_ms, "metadata": metadata(&meta)?,
        "labels": (!labels.is_empty()).then_some(labels), "bypass_approval": force_no_approval.then_some(true),
    }))
}

fn metadata(words: &[String]) -> Result<Option<Map<String, Value>>, Failure> {
    let mut members = Map::new();
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("`{word}` is not KEY=VALUE"), "write for example --meta pr_id=42"));
        };
        members.insert(key.to_owned(), Value::from(value));
    }
    Ok((!members.is_empty()).then_some(members))
}

/// A tool that runs in this process would be cut off by its end, so that it is waited for. One that a worker carries
/// out goes on without us; and while we hold the data folder, no worker gets at it.
async fn local_patience(patience: Patience, envelope: &Value, client: &Client) -> Patience {
    if !client.is_local() || envelope["status"] != "running" {
        return match (patience, envelope["status"].as_str()) {
            // A person may take days.
            (Patience::ToTheEnd, Some("pending" | "approved")) => Patience::Until(Instant::now()),
            (patience, _) => patience,
        };
    }
    let reference = format!("{}@{}", text_of(envelope, "name"), text_of(envelope, "version"));
    let tool = client.get(&["tools", &reference], &[]).await;
    match (patience, tool.is_ok_and(|tool| tool["runner"]["kind"] == "external")) {
        (Patience::ToTheEnd, true) => {
            let name = text_of(envelope, "name");
            note(&format!("{name} waits for a worker: see `toolgate work lease --tool {name}`."));
            Patience::Until(Instant::now())
        }
        (Patience::Until(until), true) => Patience::Until(until),
        (_, false) => Patience::ToTheEnd,
    }
}

/// An unknown name, with the nearest one that is known.
pub async fn meant(failure: Failure, name: &str, client: &Client) -> Failure {
    match nearest(name, client).await {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`? See `toolgate tool list`")),
        None => failure,
    }
}

pub async fn nearest(name: &str, client: &Client) -> Option<String> {
    let name = name.split('@').next().unwrap_or(name);
    let query = [("q", Some(name.to_owned())), ("kind", Some("tool".to_owned())), ("limit", Some("1".to_owned()))];
    let found = client.get(&["search"], &query).await.ok()?;
    items_of(&found).first().map(|item| text_of(item, "name")).filter(|nearest| is_like(name, nearest))
}

/// Search finds something for every word; only what shares a word or most of its letters was meant.
fn is_like(name: &str, other: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let parted: String = name.chars().flat_map(|c| [c.is_uppercase().then_some(' '), Some(c)]).flatten().collect();
        parted
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.len() > 2)
            .map(str::to_owned)
            .collect()
    };
    let theirs = words(other);
    let ratio = similar::TextDiff::from_chars(&*name.to_lowercase(), &*other.to_lowercase()).ratio();
    name != other && (ratio >= 0.6 || words(name).iter().any(|word| theirs.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suggested_only_where_it_was_meant() {
        for (name, other) in [("calculater", "calculator"), ("mail-send", "send_email"), ("note", "findNote")] {
            assert!(is_like(name, other), "{name} {other}");
        }
        for (name, other) in [("nope", "findNote"), ("echo", "echo"), ("x", "calculator")] {
            assert!(!is_like(name, other), "{name} {other}");
        }
    }
}
