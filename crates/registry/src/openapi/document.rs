//! An OpenAPI document as it was read: JSON or YAML, 3.0 or 3.1, within bounds, every reference inside it.
//!
//! Deliberately absent: fetching. A reference to another document is told by its name, and never followed.

use serde_json::Value;
use toolgate_contracts::{Digest, json};

use crate::finding::{self, Finding, Severity, has_errors, shown};
use crate::schema::walk::fragment;
use crate::tool_md::LineMap;
use crate::tool_md::yaml;

pub const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
const KEYS_MAX: usize = 400_000;
/// References that lead to references.
const HOPS_MAX: usize = 32;

/// Which language the schemas of a document are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    /// 3.0: a dialect of its own, with `nullable` and boolean bounds.
    Own,
    /// 3.1: JSON Schema 2020-12.
    JsonSchema,
}

#[derive(Debug)]
pub struct Document {
    root: Value,
    pub(super) edition: Edition,
    /// Of the bytes as they came.
    pub digest: Digest,
    pub title: String,
    /// The API's own version.
    pub version: String,
    lines: LineMap,
    /// What is legal and worth saying.
    pub(super) notes: Vec<Finding>,
}

/// A part of the document, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Part<'d> {
    pub value: &'d Value,
    pub pointer: String,
}

impl<'d> Part<'d> {
    pub fn new(value: &'d Value, pointer: impl Into<String>) -> Self {
        Self { value, pointer: pointer.into() }
    }

    pub fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name)?;
        Some(Self { value, pointer: format!("{}/{}", self.pointer, json::escape(name)) })
    }

    pub fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(|(index, value)| Self { value, pointer: format!("{}/{index}", self.pointer) })
    }

    pub fn members(&self) -> impl Iterator<Item = (&'d str, Self)> {
        self.value.as_object().into_iter().flatten().map(|(name, value)| {
            (name.as_str(), Self { value, pointer: format!("{}/{}", self.pointer, json::escape(name)) })
        })
    }

    pub fn text(&self, name: &str) -> Option<&'d str> {
        self.value.get(name).and_then(Value::as_str)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.value.get(name) == Some(&Value::Bool(true))
    }
}

impl Document {
    /// Reads JSON where the text begins like it, else YAML. The findings say why it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Finding>> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            let message = format!("the document has {} bytes, the limit is {DOCUMENT_BYTES_MAX}", bytes.len());
            let fix = "leave out the paths that are not needed, or split the document";
            return Err(vec![Finding::error("openapi.size", "", message, fix)]);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let finding = Finding::error("openapi.text", "", "the document is not UTF-8 text", "save it as UTF-8");
            vec![finding.on_line(u32::try_from(before.split(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX))]
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (root, lines, notes) = if text.trim_start().starts_with('{') { read_json(text)? } else { read_yaml(text)? };
        let mut document = Self {
            root,
            edition: Edition::Own,
            digest: Digest::of(bytes),
            title: String::new(),
            version: String::new(),
            lines,
            notes,
        };
        document.introduce().map_err(|finding| document.located(vec![finding]))?;
        Ok(document)
    }

    fn introduce(&mut self) -> Result<(), Finding> {
        let root = self.root();
        let refuse = |message: String, fix: &str| Err(Finding::error("openapi.version", "", message, fix));
        let edition = match (root.text("openapi"), root.value.get("swagger")) {
            (Some(version), _) if is_version(version, "3.0") => Edition::Own,
            (Some(version), _) if is_version(version, "3.1") => Edition::JsonSchema,
            (Some(version), _) => {
                let message = format!("`openapi: {}` cannot be read here", shown(version));
                return refuse(message, "give a document of version 3.0 or 3.1");
            }
            (None, Some(_)) => {
                let message = "the document is of Swagger 2.0".to_owned();
                return refuse(message, "convert it to OpenAPI 3.0 first; most editors of such documents do it");
            }
            (None, None) => {
                let message = "this is no OpenAPI document: it has no `openapi` member".to_owned();
                return refuse(message, "give the document itself, which begins with `openapi: 3.1.0` or the like");
            }
        };
        if !root.value.get("paths").is_some_and(Value::is_object) {
            let fix = "give a document with `paths`, which are what tools are made of";
            return Err(Finding::error("openapi.paths", "", "the document has no `paths`", fix));
        }
        let info = |member: &str| {
            let text = root.value.get("info").and_then(|info| info.get(member)).and_then(Value::as_str);
            super::prose::line(text.unwrap_or_default(), 120)
        };
        let (title, version) = (info("title"), info("version"));
        self.title = if title.is_empty() { "the API".to_owned() } else { title };
        (self.edition, self.version) = (edition, version);
        Ok(())
    }

    pub(super) fn root(&self) -> Part<'_> {
        Part::new(&self.root, "")
    }

    /// The part itself, or what its reference leads to.
    pub(super) fn resolved<'d>(&'d self, part: &Part<'d>) -> Result<Part<'d>, Finding> {
        let mut part = part.clone();
        for _ in 0..HOPS_MAX {
            let Some(reference) = part.text("$ref") else { return Ok(part) };
            part = self.target(reference, &part.pointer)?;
        }
        let message = format!("more than {HOPS_MAX} references lead from one to the next");
        Err(Finding::error("openapi.ref", part.pointer, message, "refer to the last one directly"))
    }

    /// What a reference means; `at` is where it stands.
    pub(super) fn target(&self, reference: &str, at: &str) -> Result<Part<'_>, Finding> {
        let pointer = format!("{at}/$ref");
        let Some(inside) = fragment(reference) else {
            let message = format!("`{}` refers to another document, which is not fetched", shown(reference));
            let fix = "bundle the document into one file first, so that each reference begins with `#/`";
            return Err(Finding::error("openapi.remote-ref", pointer, message, fix));
        };
        if let Some(value) = self.root.pointer(&inside).filter(|_| inside.starts_with('/')) {
            return Ok(Part::new(value, inside));
        }
        let message = format!("`{}` points at nothing", shown(reference));
        Err(Finding::error("openapi.ref", pointer, message, "correct the reference, or define what it means"))
    }

    /// With their lines, where the document has lines.
    pub(super) fn located(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        self.lines.locate(&mut findings);
        finding::sort(&mut findings);
        findings
    }
}

fn is_version(text: &str, wanted: &str) -> bool {
    text.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

type Read = (Value, LineMap, Vec<Finding>);

fn read_json(text: &str) -> Result<Read, Vec<Finding>> {
    let value = json::read_document(text.as_bytes(), DOCUMENT_BYTES_MAX, KEYS_MAX).map_err(|error| {
        // The reader of the syntax knows the line, our own rules know the place.
        let line = error.message.rsplit_once(" at line ").and_then(|(_, place)| place.split(' ').next()?.parse().ok());
        let finding = Finding::error("openapi.json", error.pointer, error.message, "correct the JSON there");
        vec![match line {
            Some(line) => finding.on_line(line),
            None => finding,
        }]
    })?;
    Ok((value, LineMap::default(), Vec::new()))
}

fn read_yaml(text: &str) -> Result<Read, Vec<Finding>> {
    let yaml::Reading { value, lines, mut findings } = yaml::read_within(&text.replace("\r\n", "\n"), 1, KEYS_MAX);
    for finding in &mut findings {
        // As in JSON: the rest can be used without the one number.
        if finding.code == "yaml.number" {
            finding.severity = Severity::Warning;
            "it is left out; write it in quotes if it is text".clone_into(&mut finding.fix);
        }
    }
    if has_errors(&findings) {
        finding::sort(&mut findings);
        return Err(findings);
    }
    let lines = LineMap::of(lines);
    let checked = serde_json::to_vec(&value)
        .map_err(|error| error.to_string())
        .and_then(|text| {
            json::read_document(&text, 4 * DOCUMENT_BYTES_MAX, KEYS_MAX).map_err(|error| error.to_string())
        })
        .map_err(|message| vec![Finding::error("openapi.yaml", "", message, "correct the value named here")])?;
    if !checked.is_object() {
        let fix = "give the document itself, which begins with `openapi: 3.1.0` or the like";
        return Err(vec![Finding::error("openapi.yaml", "", "the text is no mapping", fix)]);
    }
    Ok((checked, lines, findings))
}
