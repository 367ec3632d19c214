//! What is in a folder of the tenant's own files.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::Dir;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::unseen::{is_blank, is_unseen};
use toolgate_contracts::{Timestamp, ToolError};
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input, invalid};
use crate::files::{Doing, FOLDERS_MAX, Found, Place, UNFINISHED, failed, found, missing, open_folder};

const LIMIT_DEFAULT: usize = 200;
const LIMIT_MAX: usize = 1000;
/// Looked at, whatever is told: a folder of any size is walked this far.
const SEEN_MAX: usize = 20_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "here")]
    path: String,
    #[serde(default = "one")]
    depth: usize,
    #[serde(default = "limit_default")]
    limit: usize,
}

fn here() -> String {
    ".".to_owned()
}

const fn one() -> usize {
    1
}

const fn limit_default() -> usize {
    LIMIT_DEFAULT
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    let job = match Job::new(tools, call) {
        Ok(job) => job,
        Err(error) => return error.into(),
    };
    match tokio::task::spawn_blocking(move || job.list()).await {
        Ok(Ok(output)) => Outcome::structured(output),
        Ok(Err(error)) => error.into(),
        Err(_) => failed("disk", "the folder could not be read").into(),
    }
}

struct Job {
    place: Place,
    depth: usize,
    limit: usize,
}

/// One thing in a folder.
struct Entry {
    /// Relative to the tenant's folder; what is no UTF-8 in it has a replacement.
    path: String,
    found: Found,
    note: Option<String>,
}

impl Job {
    fn new(tools: &Tools, call: &Call) -> Result<Self, ToolError> {
        let Input { path, depth, limit } = input(call)?;
        if !(1..=FOLDERS_MAX).contains(&depth) {
            return Err(invalid("depth", format!("{depth} is not between 1 and {FOLDERS_MAX}")));
        }
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(invalid("limit", format!("{limit} is not between 1 and {LIMIT_MAX}; list a folder below")));
        }
        Ok(Self { place: Place::of_folder(tools, call, &path)?, depth, limit })
    }

    fn list(&self) -> Result<Value, ToolError> {
        let path = &self.place.path;
        let mut seen = Vec::new();
        let is_root = path == ".";
        match self.place.itself(Doing::Read)? {
            Some(folder) => self.walk(folder, if is_root { "" } else { path }, 1, &mut seen)?,
            // A tenant that wrote nothing yet has no folder, and nothing in it.
            None if is_root => {}
            None => return Err(missing(path)),
        }
        seen.sort_by(|one: &Entry, other| one.path.cmp(&other.path));
        let is_cut = seen.len() > self.limit || seen.len() >= SEEN_MAX;
        seen.truncate(self.limit);
        let entries: Vec<Value> = seen.into_iter().map(told).collect();
        Ok(json!({"path": path, "entries": entries, "truncated": is_cut}))
    }

    fn walk(&self, folder: OwnedFd, path: &str, level: usize, seen: &mut Vec<Entry>) -> Result<(), ToolError> {
        let shown = if path.is_empty() { "." } else { path };
        let mut names = Dir::read_from(&folder).map_err(|errno| Doing::Read.stopped_by(shown, errno))?;
        while let Some(name) = names.read() {
            if seen.len() >= SEEN_MAX {
                return Ok(());
            }
            let name = name.map_err(|errno| Doing::Read.stopped_by(shown, errno))?;
            let name = name.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || name.to_bytes().starts_with(UNFINISHED.as_bytes()) {
                continue;
            }
            // Gone since it was read.
            let Ok(found) = found(folder.as_fd(), name) else { continue };
            let told = name.to_string_lossy();
            let path = if path.is_empty() { told.to_string() } else { format!("{path}/{told}") };
            if found.is_folder()
                && level < self.depth
                && let Ok(inner) = open_folder(folder.as_fd(), name)
            {
                self.walk(inner, &path, level + 1, seen)?;
            }
            let note = note(name.to_str().ok());
            seen.push(Entry { path, found, note });
        }
        Ok(())
    }
}

/// What a reader of a name would not see.
fn note(name: Option<&str>) -> Option<String> {
    let Some(name) = name else { return Some("the name is no UTF-8, so no tool can give it".to_owned()) };
    let hides = |c: char| is_unseen(c) || is_blank(c);
    let escape = |c: char| if hides(c) { c.escape_unicode().to_string() } else { c.to_string() };
    name.contains(hides).then(|| {
        format!("the name holds characters that cannot be seen: {}", name.chars().map(escape).collect::<String>())
    })
}

fn told(Entry { path, found, note }: Entry) -> Value {
    let mut entry = json!({
        "path": path,
        "kind": found.word(),
        "modified": Timestamp::from_millis(found.modified_millis),
    });
    if found.is_file() {
        entry["bytes"] = json!(found.bytes);
    }
    if let Some(note) = note {
        entry["note"] = Value::String(note);
    }
    entry
}
