//! Audit events of the invocation protocol: exported, and checked with the tenant's event keys.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolgate_contracts::json::SCHEMA_BYTES_MAX;
use toolgate_policy::audit_event::verify_event;

use super::folder;
use crate::args::Export;
use crate::client::Client;
use crate::commands::counted_of;
use crate::connect::Session;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, items_of, print};

const PAGE_EVENTS: &str = "500";
const FILE_BYTES_MAX: usize = 64 * SCHEMA_BYTES_MAX;

/// One event on a line, page by page: nobody needs all of them in memory.
pub async fn export(wanted: &Export, client: &Client, output: &Output) -> Done {
    let mut cursor: Option<String> = None;
    let mut written = 0;
    if let Some(to) = &wanted.to {
        fs::write(to, "").map_err(|error| folder::unwritten(to, &error))?;
    }
    loop {
        let query = [
            ("since", wanted.since.map(|since| since.to_string())),
            ("until", wanted.until.map(|until| until.to_string())),
            ("limit", Some(PAGE_EVENTS.to_owned())),
            ("cursor", cursor.take()),
        ];
        let page = client.get(&["compat", "audit-events"], &query).await?;
        let mut lines = String::new();
        for event in items_of(&page) {
            let _ = writeln!(lines, "{event}");
            written += 1;
        }
        match &wanted.to {
            None => print(&lines)?,
            Some(to) => {
                let mut file =
                    fs::OpenOptions::new().append(true).open(to).map_err(|error| folder::unwritten(to, &error))?;
                std::io::Write::write_all(&mut file, lines.as_bytes())
                    .map_err(|error| folder::unwritten(to, &error))?;
            }
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    match &wanted.to {
        None => Ok(crate::failure::Exit::Done),
        Some(to) => {
            let value = json!({"file": to, "events": written});
            output.say(&value, &format!("Wrote {} into {}.", counted_of(written, "event"), to.display()))
        }
    }
}

/// As JSON whoever asks: it is for a file.
pub async fn keys(client: &Client, output: &Output) -> Done {
    let keys = client.get(&["compat", "audit-event-key"], &[]).await?;
    output.json(&keys)?;
    Ok(crate::failure::Exit::Done)
}

pub fn verify_offline(file: &Path, keys: &Path, session: &Session) -> Done {
    let keys = input::read_file(keys, SCHEMA_BYTES_MAX)?;
    let keys: Value = serde_json::from_slice(&keys).map_err(|error| {
        Failure::usage(format!("the keys are not readable: {error}"), "give what `toolgate audit event-key` printed")
    })?;
    check(file, &keys, session)
}

pub async fn verify(file: &Path, client: &Client, session: &Session) -> Done {
    check(file, &client.get(&["compat", "audit-event-key"], &[]).await?, session)
}

/// One event, or one on each line.
fn check(file: &Path, keys: &Value, session: &Session) -> Done {
    let named = |key: &Value| {
        let bytes = BASE64.decode(key["key"].as_str()?.as_bytes()).ok()?;
        Some((key["kid"].as_str().unwrap_or_default().to_owned(), <[u8; 32]>::try_from(bytes).ok()?))
    };
    let keys: Vec<(String, [u8; 32])> = keys["keys"].as_array().into_iter().flatten().filter_map(named).collect();
    let text = input::read_file(file, FILE_BYTES_MAX)?;
    let unreadable = |line: usize, why: &dyn std::fmt::Display| {
        Failure::failed(format!("{}:{line}: {why}", file.display()), "give events as they were exported")
    };
    let whole: Option<Value> = serde_json::from_slice(&text).ok().filter(Value::is_object);
    let mut events = Vec::new();
    if let Some(event) = whole {
        events.push((1, event));
    } else {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            let event =
                toolgate_contracts::json::read(line, SCHEMA_BYTES_MAX).map_err(|why| unreadable(index + 1, &why))?;
            events.push((index + 1, event));
        }
    }
    if events.is_empty() {
        return Err(Failure::failed(format!("{} holds no event", file.display()), "give events as they were exported"));
    }
    let mut by = std::collections::BTreeMap::<&str, usize>::new();
    for (line, event) in &events {
        let Some((kid, _)) = keys.iter().find(|(_, key)| verify_event(event, key)) else {
            let told = format!(
                "invalid: {}:{line} is not signed by any of {} keys, or was changed",
                file.display(),
                keys.len()
            );
            return Err(Failure::failed(told, "the log itself tells what happened: `toolgate audit show EVENT_ID`"));
        };
        *by.entry(kid).or_default() += 1;
    }
    let value = json!({"valid": true, "events": events.len(), "keys": by});
    session.output.say(&value, &format!("valid: {} unchanged.", counted_of(events.len(), "event")))
}
