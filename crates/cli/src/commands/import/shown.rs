//! What an import says: what became of each server, what the operator must allow, what changes in the file, and how the
//! client finds the gate. No value that may be secret is among it.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_toolbox::yaml;

use super::Kind;
use super::clients::{OWN_NAME, Outcome, Row, shell};
use super::document::{Document, Section};
use super::servers;
use crate::failure::Failure;
use crate::output::{Output, Paint, Table, clean, clean_line, note, text_of};

pub fn difference(before: &Document, after: &Document, sections: &[Section]) -> String {
    let (before, after) = (before.masked(sections, servers::is_plain), after.masked(sections, servers::is_plain));
    // Lines around a change are of no concern here.
    similar::TextDiff::from_lines(&before, &after).unified_diff().context_radius(0).to_string()
}

/// As the whole of a client's file would be.
pub fn snippet(kind: Kind, own: &Value) -> Value {
    let member = if kind == Kind::Vscode { "servers" } else { "mcpServers" };
    json!({member: {OWN_NAME: own}})
}

pub struct Shown<'a> {
    pub kind: Kind,
    pub file: String,
    pub dry: bool,
    pub rows: &'a [Row],
    pub entries: &'a Map<String, Value>,
    pub difference: String,
    pub snippet: Value,
    pub backup: Option<&'a Path>,
}

impl Shown<'_> {
    fn value(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let wanted = row.wanted.as_ref();
                let secrets: Vec<&str> = wanted
                    .map_or_else(Vec::new, |wanted| wanted.secrets.iter().map(|kept| kept.name.as_str()).collect());
                json!({
                    "server": row.found.key, "within": row.found.section, "name": row.name,
                    "outcome": row.outcome.word(), "why": row.why, "secrets": secrets,
                    "transport": wanted.map(|wanted| wanted.spec["transport"].clone()),
                    "notes": wanted.map_or(&[][..], |wanted| &wanted.notes),
                })
            })
            .collect();
        json!({
            "client": self.kind.word(), "file": self.file, "dry_run": self.dry, "servers": rows,
            "entries": self.shown_entries(), "difference": self.difference, "snippet": self.snippet,
            "written": self.backup.is_some(), "backup": self.backup.map(|path| path.display().to_string()),
        })
    }

    fn shown_entries(&self) -> Map<String, Value> {
        self.entries.iter().map(|(name, entry)| (name.clone(), servers::shown_entry(entry))).collect()
    }

    pub fn show(&self, output: &Output) -> Result<(), Failure> {
        output.show(&self.value(), |_, paint| self.text(paint))?;
        let secrets: usize =
            self.rows.iter().filter_map(|row| row.wanted.as_ref()).map(|wanted| wanted.secrets.len()).sum();
        if let Some(backup) = self.backup {
            let with = if secrets == 0 { String::new() } else { ", with the secrets that were in it".to_owned() };
            note(&format!("What was there before is kept in {}{with}.", backup.display()));
            note(&format!("To take it back: toolgate import {} {} --undo", self.kind.word(), shell(&self.file)));
            note(&format!("Start {} again to use what is behind the gate.", self.kind.title()));
        } else if self.dry {
            note("Nothing was written.");
            if self.rows.iter().any(|row| row.outcome == Outcome::New) {
                note(
                    "Whether a server can be reached is tried when it is put behind the gate; one that cannot stays in the file.",
                );
            }
        }
        Ok(())
    }

    fn text(&self, paint: Paint) -> String {
        let mut parts = Vec::new();
        let mut table = Table::new(["SERVER", "NAME", "OUTCOME", "WHERE", "SECRETS"]).cuts("WHERE").drops(["SECRETS"]);
        let mut said = Vec::new();
        for row in self.rows {
            let wanted = row.wanted.as_ref();
            let transport = wanted.map_or(Value::Null, |wanted| wanted.spec["transport"].clone());
            let place = match transport["entry"].as_str() {
                Some(entry) => format!("entry {entry}"),
                None => text_of(&transport, "url"),
            };
            let secrets: Vec<&str> =
                wanted.map_or_else(Vec::new, |wanted| wanted.secrets.iter().map(|kept| kept.name.as_str()).collect());
            table.row([
                row.found.key.clone(),
                row.name.clone(),
                row.outcome.word().to_owned(),
                place,
                secrets.join(", "),
            ]);
            if !row.why.is_empty() {
                said.push(format!("{}: {}", clean_line(&row.found.key), clean_line(&row.why)));
            }
            for told in wanted.map_or(&[][..], |wanted| &wanted.notes) {
                said.push(format!("{}: {}", clean_line(&row.found.key), clean_line(told)));
            }
        }
        parts.push(table.render(paint, "The file has no servers."));
        if !said.is_empty() {
            parts.push(said.join("\n"));
        }
        if !self.entries.is_empty() {
            let text = yaml::set("", "", &json!({"upstreams": self.shown_entries()})).unwrap_or_default();
            parts.push(format!(
                "{}\n{}",
                paint.bold("Processes that the operator's entries.yaml must have:"),
                clean(text.trim_end())
            ));
        }
        if !self.difference.is_empty() {
            let heading = if self.dry { "What would change in the file:" } else { "What changed in the file:" };
            parts.push(format!("{}\n{}", paint.bold(heading), clean(self.difference.trim_end())));
        }
        let snippet = serde_json::to_string_pretty(&self.snippet).unwrap_or_default();
        parts.push(format!(
            "{}\n{}",
            paint.bold(&format!("How {} finds the gate:", self.kind.title())),
            clean(&snippet)
        ));
        parts.join("\n\n")
    }
}
