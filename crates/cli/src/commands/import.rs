//! `toolgate import …`: documents of others as tools, shown first and written when told to; and clients' files.

mod beside;
mod clients;
mod document;
mod entries;
mod servers;
mod shown;

pub use self::clients::shell;

use std::path::Path;

use serde_json::{Value, json};
use toolgate_registry::openapi::DOCUMENT_BYTES_MAX;
use toolgate_registry::{Finding, Severity};

use super::{counted_of, tool_view};
use crate::args::{ImportClient, ImportCommand, ImportOpenapi};
use crate::client::Client;
use crate::connect::Session;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, clean, note, text_of};

/// Findings that are shown to a person; all of them are in the JSON.
const SHOWN_MAX: usize = 40;

/// A client whose file is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
        }
    }

    /// Whether its file takes addresses; the others start programs.
    const fn knows_addresses(self) -> bool {
        match self {
            Self::ClaudeDesktop => false,
            Self::ClaudeCode | Self::Cursor | Self::Vscode => true,
        }
    }
}

/// What is taken back needs no server, unless a key goes with it.
pub fn offline(command: &ImportCommand, output: &Output) -> Option<Done> {
    let (_, wanted) = client_of(command)?;
    (wanted.undo && !clients::has_keys(wanted)).then(|| clients::undo(wanted, output))
}

const fn client_of(command: &ImportCommand) -> Option<(Kind, &ImportClient)> {
    match command {
        ImportCommand::ClaudeDesktop(wanted) => Some((Kind::ClaudeDesktop, wanted)),
        ImportCommand::ClaudeCode(wanted) => Some((Kind::ClaudeCode, wanted)),
        ImportCommand::Cursor(wanted) => Some((Kind::Cursor, wanted)),
        ImportCommand::Vscode(wanted) => Some((Kind::Vscode, wanted)),
        ImportCommand::Openapi(_) => None,
    }
}

pub async fn run(command: ImportCommand, session: &Session) -> Done {
    if let Some((kind, wanted)) = client_of(&command) {
        if wanted.undo {
            return clients::undo_and_revoke(wanted, session).await;
        }
        return clients::run(kind, wanted, session).await;
    }
    let ImportCommand::Openapi(wanted) = command else { return Ok(Exit::Done) };
    let client = session.connect().await?;
    let done = openapi(*wanted, &client, &session.output).await;
    client.close().await;
    done
}

async fn openapi(wanted: ImportOpenapi, client: &Client, output: &Output) -> Done {
    let ImportOpenapi {
        document,
        operations,
        tags,
        paths,
        prefix,
        base_url,
        secret,
        name,
        deprecate_gone,
        apply,
        digest,
        dry_run: _,
    } = wanted;
    let mut body = json!({
        "operations": operations, "tags": tags, "paths": paths, "prefix": prefix, "base_url": base_url,
        "secret": secret, "name": name, "deprecate_gone": deprecate_gone, "apply": apply,
        "expected_digest": digest,
    });
    let about = |failure: Failure| failure.about(document.clone());
    let is_url = document.starts_with("https://") || document.starts_with("http://");
    if is_url && apply && digest.is_none() {
        let told = "what is at a URL may be another document the next time";
        return Err(Failure::usage(told, "look at it without --apply; that prints the --digest to add"));
    }
    if is_url {
        body["url"] = document.as_str().into();
    } else {
        body["document"] = input::read_text(Path::new(&document), DOCUMENT_BYTES_MAX)?.into();
    }
    let import = client.post(&["imports", "openapi"], body).await.map_err(about)?;
    output.show(&import, show)?;
    let rows = operations_of(&import);
    let pending = |row: &&Value| matches!(text_of(row, "outcome").as_str(), "new" | "changed");
    if !apply && rows.iter().any(|row| pending(&row)) {
        // What is at a URL may be another document the next time.
        let shown = if is_url { format!(" --digest {}", text_of(&import, "digest")) } else { String::new() };
        note(&format!("Nothing was written. To write it, add --apply{shown}."));
    }
    let refused = rows.iter().any(|row| row["outcome"] == "refused");
    Ok(if refused { Exit::Failed } else { Exit::Done })
}

fn operations_of(import: &Value) -> &[Value] {
    import["operations"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn show(import: &Value, paint: Paint) -> String {
    let rows = operations_of(import);
    let count = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
    let counted: Vec<String> = ["new", "changed", "unchanged", "gone", "skipped", "refused"]
        .into_iter()
        .filter_map(|outcome| match count(outcome) {
            0 => None,
            count => Some(format!("{count} {outcome}")),
        })
        .collect();
    let heading = format!(
        "{} {}: {}{}",
        text_of(import, "title"),
        text_of(import, "api_version"),
        counted_of(rows.len(), "operation"),
        if counted.is_empty() { String::new() } else { format!(" ({})", counted.join(", ")) }
    );
    let mut lines = vec![paint.bold(&clean(&heading))];
    let mut table =
        Table::new(["TOOL", "CLASS", "OUTCOME", "VERSION", "OPERATION"]).cuts("OPERATION").drops(["VERSION"]);
    for row in rows {
        table.row([
            text_of(row, "name"),
            text_of(row, "egress_class"),
            outcome(row),
            versions(row),
            format!("{} {}", text_of(row, "method"), text_of(row, "path")),
        ]);
    }
    lines.push(table.render(paint, "There are no operations."));
    for row in rows.iter().filter(|row| row["outcome"] == "changed") {
        lines.push(paint.bold(&clean(&text_of(row, "name"))));
        lines.push(tool_view::changes(&row["difference"], paint));
    }
    let (notes, findings): (Vec<(String, Finding)>, Vec<_>) = std::iter::once((String::new(), &import["findings"]))
        .chain(rows.iter().map(|row| (text_of(row, "operation"), &row["findings"])))
        .flat_map(|(operation, found)| {
            let found: Vec<Finding> = serde_json::from_value(found.clone()).unwrap_or_default();
            found.into_iter().map(move |finding| (operation.clone(), finding))
        })
        .partition(|(_, finding)| finding.severity == Severity::Note);
    for (operation, finding) in findings.iter().take(SHOWN_MAX) {
        let place = if operation.is_empty() { text_of(import, "document") } else { operation.clone() };
        lines.push(clean(&finding.show(&place)));
    }
    if findings.len() > SHOWN_MAX {
        lines.push(paint.dim(&format!("{} more: see --json", counted_of(findings.len() - SHOWN_MAX, "finding"))));
    }
    if !notes.is_empty() {
        lines.push(paint.dim(&format!("{}: see --json", counted_of(notes.len(), "note"))));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn outcome(row: &Value) -> String {
    match text_of(row, "outcome").as_str() {
        "changed" => format!("changed ({})", text_of(&row["difference"], "class")),
        "gone" if row["applied"] == true => "gone, deprecated".to_owned(),
        other => other.to_owned(),
    }
}

fn versions(row: &Value) -> String {
    match (text_of(row, "current"), text_of(row, "version")) {
        (current, version) if current.is_empty() || current == version => version,
        (current, version) if version.is_empty() => current,
        (current, version) => format!("{current} → {version}"),
    }
}
