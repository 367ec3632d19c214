//! `TOOL.md`: YAML front matter with the members of a definition, and a Markdown body that is its `docs`.
//!
//! A definition that comes as JSON over REST goes through the same reader, without lines. Either way the
//! answer is the definition or every reason why it is none. Judging it (lint, floor) is somebody else's.
//! Schemas written in draft-07 leave here as 2020-12, with the original beside them (`compat.md` D8).

mod lines;
mod members;
mod write;
pub(crate) mod yaml;

use serde_json::Value;
use toolgate_contracts::definition::{Definition, OPAQUE_MEMBERS};
use toolgate_contracts::json;

pub use self::lines::LineMap;
pub use self::write::write;
use crate::finding::{self, Finding, has_errors};
use crate::schema::{self, Dialect};

pub const FILE_BYTES_MAX: usize = 256 * 1024;

/// A definition as its author meant it.
#[derive(Clone, Debug)]
pub struct Authored {
    pub definition: Definition,
    pub lines: LineMap,
    pub originals: Originals,
    /// What is legal and worth saying: ambiguous YAML, a schema that was converted.
    pub notes: Vec<Finding>,
}

/// Schemas as they were written, where they were converted to 2020-12.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Originals {
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
}

/// Reads a `TOOL.md`; schemas without `$schema` are 2020-12.
pub fn parse(file: &[u8]) -> Result<Authored, Vec<Finding>> {
    parse_as(file, Dialect::Draft202012)
}

/// The same with another dialect for schemas that do not name theirs (`--dialect`).
pub fn parse_as(file: &[u8], dialect: Dialect) -> Result<Authored, Vec<Finding>> {
    let text = text(file)?;
    let (front, docs) = split(&text)?;
    let yaml::Reading { value, lines, mut findings } = yaml::read(front, 2);
    let docs_line = 3 + u32::try_from(front.matches('\n').count()).unwrap_or(u32::MAX - 3);
    let lines = LineMap { root: Some(lines), docs: Some(docs_line), moved: Vec::new() };
    if has_errors(&findings) {
        finding::sort(&mut findings);
        return Err(findings);
    }
    let mut value = match json::check(&value, FILE_BYTES_MAX) {
        Ok(value) => value,
        Err(error) => return Err(located(vec![unreadable(&error)], &lines)),
    };
    if let Value::Object(members) = &mut value {
        if members.contains_key("docs") {
            let fix = "move the text below the closing `---`: the Markdown body is `docs`";
            let finding = Finding::error("member.docs", "/docs", "`docs` is written in the front matter", fix);
            findings
                .push(finding.on_line(
                    lines.root.as_ref().and_then(|root| root.members.get("docs")).map_or(1, |docs| docs.line),
                ));
            members.remove("docs");
        }
        if !docs.is_empty() {
            members.insert("docs".into(), docs.into());
        }
    }
    authored(value, lines, findings, dialect)
}

/// Reads a definition sent as JSON.
pub fn parse_json(bytes: &[u8]) -> Result<Authored, Vec<Finding>> {
    let value = json::read(bytes, json::SCHEMA_BYTES_MAX).map_err(|error| vec![unreadable(&error)])?;
    parse_value(value, Dialect::Draft202012)
}

/// The same for a value that was already read strictly.
pub fn parse_value(value: Value, dialect: Dialect) -> Result<Authored, Vec<Finding>> {
    authored(value, LineMap::default(), Vec::new(), dialect)
}

fn authored(
    mut value: Value,
    mut lines: LineMap,
    mut notes: Vec<Finding>,
    dialect: Dialect,
) -> Result<Authored, Vec<Finding>> {
    json::drop_nulls(&mut value, &OPAQUE_MEMBERS);
    let Value::Object(members) = value else {
        let fix = "write one `member: value` per line, beginning with `name:`";
        notes.push(Finding::error("file.empty", "", "the definition is not a mapping of members", fix));
        return Err(located(notes, &lines));
    };
    let mut definition = match members::definition(members) {
        Ok(definition) if !has_errors(&notes) => definition,
        Ok(_) => return Err(located(notes, &lines)),
        Err(findings) => {
            notes.extend(findings);
            return Err(located(notes, &lines));
        }
    };
    let mut originals = Originals::default();
    let input = (&mut definition.input_schema, &mut originals.input_schema, "/input_schema");
    let output =
        definition.output_schema.as_mut().map(|schema| (schema, &mut originals.output_schema, "/output_schema"));
    for (written, original, at) in std::iter::once(input).chain(output) {
        match schema::convert(written, dialect, at) {
            Ok(None) => {}
            Ok(Some(converted)) => {
                lines.remember_moves(converted.moves);
                notes.extend(converted.notes);
                *original = Some(std::mem::replace(written, converted.schema));
            }
            Err(findings) => notes.extend(findings),
        }
    }
    lines.locate(&mut notes);
    finding::sort(&mut notes);
    if has_errors(&notes) { Err(notes) } else { Ok(Authored { definition, lines, originals, notes }) }
}

/// A whole file that is one YAML or JSON document, and where each of its members stands.
pub struct Document {
    pub value: Value,
    pub lines: LineMap,
    /// What is legal and worth saying.
    pub notes: Vec<Finding>,
}

/// Reads a file that is nothing but a document. What begins with a brace is JSON.
pub fn document(file: &[u8]) -> Result<Document, Vec<Finding>> {
    let text = text(file)?;
    if text.trim_start().starts_with('{') {
        let value = json::read(text.as_bytes(), FILE_BYTES_MAX).map_err(|error| {
            vec![Finding::error("file.unreadable", error.pointer, error.message, "correct the value named here")]
        })?;
        return Ok(Document { value, lines: LineMap::default(), notes: Vec::new() });
    }
    let yaml::Reading { value, lines, mut findings } = yaml::read(&text, 1);
    let lines = LineMap::of(lines);
    if let Err(error) = json::check(&value, FILE_BYTES_MAX) {
        let fix = "correct the value named here";
        findings.push(Finding::error("file.unreadable", error.pointer, error.message, fix));
    }
    lines.locate(&mut findings);
    finding::sort(&mut findings);
    if has_errors(&findings) { Err(findings) } else { Ok(Document { value, lines, notes: findings }) }
}

/// UTF-8, within the limit, with line ends as Unix writes them.
pub(crate) fn text(file: &[u8]) -> Result<String, Vec<Finding>> {
    if file.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than the limit of {FILE_BYTES_MAX} bytes (256 KiB)");
        let fix = "shorten the text, or serve large data from a tool instead of writing it into the definition";
        return Err(vec![Finding::error("file.too-large", "", message, fix)]);
    }
    let text = std::str::from_utf8(file).map_err(|error| {
        let before = &file[..error.valid_up_to()];
        let line = 1 + before.split(|byte| *byte == b'\n').count().saturating_sub(1);
        let finding = Finding::error("file.utf8", "", "the file is not UTF-8 text", "save it as UTF-8");
        vec![finding.on_line(u32::try_from(line).unwrap_or(u32::MAX))]
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n"))
}

/// Front matter and body. The front matter is what stands between the first line and the next `---`.
pub(crate) fn split(text: &str) -> Result<(&str, String), Vec<Finding>> {
    let is_fence = |line: &str| line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty());
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if !is_fence(first.trim_end_matches('\n')) {
        let fix = "begin the file with a line `---`, then the members, then another `---`, then the documentation";
        return Err(vec![Finding::error("file.front-matter", "", "the first line is not `---`", fix).on_line(1)]);
    }
    let mut end = first.len();
    for line in lines {
        if is_fence(line.trim_end_matches('\n')) {
            let docs = text[end + line.len()..].trim().to_owned();
            return Ok((&text[first.len()..end], docs));
        }
        end += line.len();
    }
    let fix = "end the front matter with a line `---`, at the beginning of the line";
    Err(vec![
        Finding::error("file.front-matter", "", "the front matter that begins on line 1 has no end", fix).on_line(1),
    ])
}

fn unreadable(error: &json::Error) -> Finding {
    Finding::error("file.unreadable", error.pointer.clone(), error.message.clone(), "correct the value named here")
}

fn located(mut findings: Vec<Finding>, lines: &LineMap) -> Vec<Finding> {
    lines.locate(&mut findings);
    finding::sort(&mut findings);
    findings
}
