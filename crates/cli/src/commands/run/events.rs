//! What happened in a run: all of it, or as it happens.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::super::call::outcome::is_final;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, Paint, clean, clean_line, note, print, text_of};

/// Of what a model or a tool says in a row, what is shown; the run's outputs, and the call, have it whole.
const SAID_BYTES_MAX: usize = 16 * 1024;
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

/// Events as lines. What a model or a tool says comes in pieces of any length, and is told by its own lines.
#[derive(Default)]
pub struct Told {
    /// Whose words they are: the kind of event, and the call.
    whose: Option<(String, String)>,
    at: String,
    words: String,
    /// Bytes of what they have said in a row.
    heard: usize,
}

impl Told {
    /// What this event makes known: nothing yet, where a line goes on.
    pub fn hear(&mut self, event: &Value, paint: Paint) -> Vec<String> {
        let kind = text_of(event, "type");
        if !matches!(kind.as_str(), "tool.output_appended" | "model.delta") {
            let mut lines = self.rest();
            lines.push(line(event, &kind, paint));
            return lines;
        }
        let whose = Some((kind, text_of(event, "call_id")));
        let mut lines = if self.whose == whose { Vec::new() } else { self.rest() };
        self.whose = whose;
        if self.words.is_empty() {
            self.at = time(event);
        }
        self.hear_words(&text_of(&event["data"], "text"));
        while let Some((whole, rest)) = self.words.split_once('\n') {
            lines.push(said(&self.at, whole));
            self.words = rest.to_owned();
            self.at = time(event);
        }
        lines
    }

    /// The line that was not ended.
    pub fn rest(&mut self) -> Vec<String> {
        self.whose = None;
        self.heard = 0;
        let words = std::mem::take(&mut self.words);
        if words.is_empty() { Vec::new() } else { vec![said(&self.at, &words)] }
    }

    /// So much of what one of them says, and then that there is more: megabytes of it show nobody anything.
    fn hear_words(&mut self, text: &str) {
        let left = SAID_BYTES_MAX.saturating_sub(self.heard);
        self.words.push_str(text.get(..text.floor_char_boundary(left)).unwrap_or_default());
        let was_whole = self.heard <= SAID_BYTES_MAX;
        self.heard += text.len();
        if was_whole && self.heard > SAID_BYTES_MAX {
            self.words.push_str("\n… and more, of which no more is shown\n");
        }
    }
}

fn said(at: &str, words: &str) -> String {
    format!("{at}    │ {}", clean(words.trim_end_matches('\r')))
}

fn time(event: &Value) -> String {
    let at = text_of(event, "at");
    at.get(11..23).unwrap_or(&at).to_owned()
}

pub fn lines(events: &[Value], paint: Paint) -> String {
    let mut told = Told::default();
    let mut lines: Vec<String> = events.iter().flat_map(|event| told.hear(event, paint)).collect();
    lines.extend(told.rest());
    lines.join("\n")
}

fn line(event: &Value, kind: &str, paint: Paint) -> String {
    let at = time(event);
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
        let mut told = Told::default();
        for event in all(run, client).await? {
            tell(&mut told, &event, output)?;
        }
        tell_rest(&mut told, output)?;
        tell_end(&seen, output);
        return Ok(Exit::Done);
    }
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| {
        Failure::failed(format!("cannot listen for signals: {error}"), "check the limits of the process")
    })?;
    let mut follower = client.follow(&text_of(&seen, "id"))?;
    let mut told = Told::default();
    loop {
        let event = tokio::select! {
            event = follower.next() => event?,
            _ = interrupt.recv() => {
                tell_rest(&mut told, output)?;
                return Ok(Exit::Done);
            }
        };
        tell(&mut told, &event, output)?;
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

fn tell(told: &mut Told, event: &Value, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        output.show_line(event, |_, _| String::new())?;
    } else {
        for line in told.hear(event, output.paint()) {
            print(&line)?;
        }
    }
    let _ = io::stdout().flush();
    Ok(())
}

fn tell_rest(told: &mut Told, output: &Output) -> Result<(), Failure> {
    if !output.is_json() {
        for line in told.rest() {
            print(&line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_an_answer_of_megabytes_the_beginning_is_shown_and_that_there_is_more() {
        let delta =
            |text: &str| json!({"type": "model.delta", "at": "2026-11-19T10:00:00.000Z", "data": {"text": text}});
        let mut told = Told::default();
        let mut lines: Vec<String> = Vec::new();
        for _ in 0..1000 {
            lines.extend(told.hear(&delta(&"ü".repeat(2_000)), Paint::PLAIN));
        }
        lines.extend(told.hear(&json!({"type": "model.completed", "seq": 3, "data": {}}), Paint::PLAIN));
        assert!(lines.iter().map(String::len).sum::<usize>() < SAID_BYTES_MAX + 500, "{}", lines.len());
        assert!(lines[1].ends_with("… and more, of which no more is shown"), "{lines:?}");
        assert_eq!(lines.len(), 3, "{lines:?}");
        lines = told.hear(&delta("The next.\n"), Paint::PLAIN);
        assert!(lines[0].ends_with("│ The next."), "{lines:?}");
    }
}
