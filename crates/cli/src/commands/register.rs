//! `toolgate tool register`: what a file would change, and the change.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_registry::{Finding, Severity};

use super::{counted_of, tool_view};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, clean, note, text_of};

pub async fn run(path: &Path, apply: bool, client: &Client, output: &Output) -> Done {
    let files = input::tool_files(path)?;
    let one = match files.as_slice() {
        [file] => Some(file.clone()),
        _ => None,
    };
    let Registered { done, refused } = register(files, apply, client).await;
    if let (Some(_), Some((_, failure))) = (&one, refused.first()) {
        return Err(failure.clone());
    }
    let value = match (&one, done.first()) {
        (Some(_), Some((_, registration))) => registration.clone(),
        _ => json!({
            "items": done.iter().map(|(file, registration)| with_file(registration, file)).collect::<Vec<_>>(),
            "refused": refused.iter().map(|(file, failure)| with_file(&failure.problem, file)).collect::<Vec<_>>(),
        }),
    };
    output.show(&value, |_, paint| {
        done.iter().map(|(file, registration)| show(file, registration, paint)).collect::<Vec<_>>().join("\n")
    })?;
    for (_, failure) in &refused {
        output.failure(failure, false);
    }
    if !apply && done.iter().any(|(_, registration)| registration["action"] != "unchanged") {
        note(&format!("Nothing was written. To write it: toolgate tool register --file {} --apply", path.display()));
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::Failed })
}

pub struct Registered {
    pub done: Vec<(PathBuf, Value)>,
    pub refused: Vec<(PathBuf, Failure)>,
}

/// Registers files in an order in which each finds what it is composed of: what is refused is tried again after
/// another was taken.
pub async fn register(files: Vec<PathBuf>, apply: bool, client: &Client) -> Registered {
    let mut registered = Registered { done: Vec::new(), refused: Vec::new() };
    let mut waiting = files;
    loop {
        let before = waiting.len();
        registered.refused.clear();
        for file in std::mem::take(&mut waiting) {
            match send(&file, apply, client).await {
                Ok(registration) => registered.done.push((file, registration)),
                Err(failure) => registered.refused.push((file, failure)),
            }
        }
        let progress = registered.refused.len() < before;
        if !apply || !progress || registered.refused.is_empty() {
            registered.done.sort_by(|left, right| left.0.cmp(&right.0));
            return registered;
        }
        waiting = registered.refused.iter().map(|(file, _)| file.clone()).collect();
    }
}

async fn send(file: &Path, apply: bool, client: &Client) -> Result<Value, Failure> {
    let mut body = input::read_tool(file)?;
    body["apply"] = apply.into();
    client.post(&["tools"], body).await.map_err(|failure| failure.about(file.display().to_string()))
}

fn with_file(value: &Value, file: &Path) -> Value {
    let mut value = value.clone();
    value["file"] = file.display().to_string().into();
    value
}

fn show(file: &Path, registration: &Value, paint: Paint) -> String {
    let (name, version) = (text_of(registration, "name"), text_of(registration, "version"));
    let current = text_of(registration, "current");
    let applied = registration["applied"] == true;
    let class = text_of(&registration["difference"], "class");
    let sentence = match (text_of(registration, "action").as_str(), applied) {
        ("unchanged", _) => format!("{name} {version} is registered exactly like this"),
        ("create", true) => format!("Registered {name} {version}"),
        ("create", false) => format!("{name} {version} would be new"),
        (_, true) => format!("Registered {name} {current} → {version} ({class})"),
        (_, false) => format!("{name} {current} would become {version} ({class})"),
    };
    let mut lines = vec![paint.bold(&clean(&sentence)), tool_view::changes(&registration["difference"], paint)];
    let findings: Vec<Finding> = serde_json::from_value(registration["findings"].clone()).unwrap_or_default();
    let (notes, advice): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.severity == Severity::Note);
    lines.extend(advice.iter().map(|finding| clean(&finding.show(&file.display().to_string()))));
    if !notes.is_empty() {
        let many = if notes.len() == 1 { "1 note".to_owned() } else { format!("{} notes", notes.len()) };
        lines.push(paint.dim(&format!("{many}: see `toolgate tool test {}`", file.display())));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// For `serve --examples`: registers what is there and says what came of it.
pub async fn examples(folder: &Path, client: &Client, output: &Output) {
    let files = match input::tool_files(folder) {
        Ok(files) if folder.is_dir() => files,
        _ => return note(&format!("There are no examples: {} is not a folder with tools.", folder.display())),
    };
    let Registered { done, refused } = register(files, true, client).await;
    let fresh = done.iter().filter(|(_, registration)| registration["applied"] == true).count();
    note(&format!(
        "{} from {}, {fresh} of them registered now.",
        counted_of(done.len(), "example tool"),
        folder.display()
    ));
    for (_, failure) in &refused {
        output.failure(failure, false);
    }
}
