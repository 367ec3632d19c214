//! `toolgate audit export`: the log into a folder, as far as it is signed, page by page.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_ledger::{Checkpoint, Note};

use super::folder::{CHECKPOINTS, ENTRIES, LogFolder, Named};
use crate::client::Client;
use crate::commands::counted_of;
use crate::failure::{Done, Failure};
use crate::output::{Output, items_of};

/// Entries in one answer: a page of the largest fits the largest answer.
pub const PAGE_ENTRIES: u64 = 500;

pub async fn run(to: &Path, payloads: bool, client: &Client, output: &Output) -> Done {
    let folder = LogFolder::make(to)?;
    let named = server_log(client).await?;
    match folder.named()? {
        Some(before) if before.origin != named.origin => {
            return Err(Failure::failed(
                format!("{} holds another log: {}", to.display(), before.origin),
                "export into another folder",
            ));
        }
        // A witness's key, and keys that the server no longer shows, stay.
        Some(before) => {
            let keys = named.keys.iter().chain(before.keys.iter().filter(|key| !named.keys.contains(key)));
            folder.name(&Named { origin: named.origin.clone(), keys: keys.cloned().collect() })?;
        }
        None => folder.name(&named)?,
    }
    // What is exported is what this head covers.
    let note = client.text(&["audit", "checkpoint"], &[]).await?;
    let size = unverified(&note)?.size;
    let before = folder.whole_lines(ENTRIES)?;
    let mut next = before;
    while next < size {
        let page = export_page(client, next, PAGE_ENTRIES.min(size - next), payloads).await?;
        next += page.lines().count() as u64;
        if page.is_empty() {
            return Err(Failure::failed(
                format!("the server's log ends after {next} entries, and {size} were signed"),
                "verify it with `toolgate audit verify --live`",
            ));
        }
        folder.append(ENTRIES, page.as_bytes())?;
    }
    let heads = export_checkpoints(&folder, client).await?;
    let added = usize::try_from(next.saturating_sub(before)).unwrap_or(usize::MAX);
    let value = json!({"folder": to.display().to_string(), "log": named.origin, "entries": next, "added": added, "checkpoints": heads});
    let sentence = format!(
        "Wrote {} into {}, which now holds {next}. Verify it with `toolgate audit verify {}`.",
        counted_of(added, "entry").replace("entrys", "entries"),
        to.display(),
        to.display()
    );
    output.say(&value, &sentence)
}

/// The log that the server shows, and the keys it says are the log's.
pub async fn server_log(client: &Client) -> Result<Named, Failure> {
    let value = client.get(&["audit", "key"], &[]).await?;
    let read = || {
        let origin = value["log"].as_str()?.parse().ok()?;
        let keys = value["keys"].as_array()?.iter().map(|key| key.as_str()?.parse().ok()).collect::<Option<_>>()?;
        Some(Named { origin, keys })
    };
    read().ok_or_else(|| not_ours("the log's name and keys are not readable"))
}

/// Lines of entries as the server sends them.
pub async fn export_page(client: &Client, from: u64, limit: u64, payloads: bool) -> Result<String, Failure> {
    let query = [
        ("from", Some(from.to_string())),
        ("limit", Some(limit.to_string())),
        ("payloads", payloads.then(|| "true".to_owned())),
    ];
    let text = client.text(&["audit", "export"], &query).await?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(not_ours("the export ends within a line"));
    }
    Ok(text)
}

/// Heads of more entries than those in the folder, which are only added to.
async fn export_checkpoints(folder: &LogFolder, client: &Client) -> Result<u64, Failure> {
    let mut count = folder.whole_lines(CHECKPOINTS)?;
    let mut last = 0;
    for note in folder.checkpoints()? {
        last = unverified(&String::from_utf8_lossy(&note?))?.size;
    }
    let mut pages = Checkpoints::after(last);
    while let Some(page) = pages.next(client).await? {
        let lines: Vec<String> = page.iter().map(ToString::to_string).chain([String::new()]).collect();
        folder.append(CHECKPOINTS, lines.join("\n").as_bytes())?;
        count += page.len() as u64;
    }
    Ok(count)
}

/// The server's signed heads, a page at a time, smallest first.
pub struct Checkpoints {
    after: u64,
    cursor: Option<String>,
    ended: bool,
}

impl Checkpoints {
    pub fn after(size: u64) -> Self {
        Self { after: size, cursor: None, ended: false }
    }

    pub async fn next(&mut self, client: &Client) -> Result<Option<Vec<Value>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        let query = [
            ("after", Some(self.after.to_string())),
            ("limit", Some(PAGE_ENTRIES.to_string())),
            ("cursor", self.cursor.take()),
        ];
        let page = client.get(&["audit", "checkpoints"], &query).await?;
        self.cursor = page["next_cursor"].as_str().map(str::to_owned);
        self.ended = self.cursor.is_none();
        Ok(Some(items_of(&page).to_vec()))
    }
}

/// What a note says; good for knowing how much to fetch, and for nothing else.
pub fn unverified(note: &str) -> Result<Checkpoint, Failure> {
    let text = Note::parse(note.as_bytes()).map_err(|error| not_ours(&error.to_string()))?;
    Checkpoint::parse(text.unverified_text()).map_err(|broken| not_ours(&broken.to_string()))
}

fn not_ours(what: &str) -> Failure {
    Failure::unreachable(format!("the answer is not one of Toolgate: {what}"), "check the address of the server")
}
