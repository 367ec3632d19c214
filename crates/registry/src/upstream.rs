//! What a server of others offers, as definitions: one for each tool that can be one, and for each other one the reasons.
//!
//! Nothing that such a server says of itself is believed further than it harms: its tools are of class `write` until the
//! operator says otherwise, hints stay hints, and a name is only taken if nobody could mistake it for another.
//! Deliberately absent: asking a server, and what becomes of the definitions.

mod headers;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::definition::{Annotations, EgressClass};
use toolgate_contracts::name::{FoldedName, PART_CHARS_MAX};
use toolgate_contracts::unseen::is_unseen_in_text;
use toolgate_contracts::upstream::{DriftClass, TOOLS_MAX, Transport};
use toolgate_contracts::{Definition, Digest, ToolName, Upstream, json as strict};
use utoipa::ToSchema;

pub use self::headers::annotated;
use crate::diff::{self, ChangeClass, Difference};
use crate::finding::{Finding, Severity, has_errors, shown};
use crate::lint;
use crate::schema::Dialect;
use crate::tool_md;

/// Members of a tool that say nothing about what it does.
const BESIDE: [&str; 2] = ["_meta", "icons"];
/// Hexadecimal digits behind a name that had to be shortened.
const TAIL_CHARS: usize = 8;
/// How many of their pairs of letters two texts share at least that say much the same.
const ALIKE_MIN: f64 = 0.6;

/// A tool that can be registered.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The server's own name.
    pub tool: String,
    pub digest: Digest,
    pub definition: Definition,
    /// Warnings.
    pub findings: Vec<Finding>,
}

/// A tool that cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedTool {
    /// The server's own name, made safe to show.
    pub tool: String,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, Default)]
pub struct Read {
    pub taken: Vec<Taken>,
    pub refused: Vec<RefusedTool>,
    /// The names that it offers, taken or not.
    pub offered: BTreeSet<String>,
}

/// SHA-256 of what a server says of a tool.
pub fn digest_of(tool: &Value) -> Digest {
    match tool {
        Value::Object(members) => {
            let said = members.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
            strict::digest(&Value::Object(said.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        other => strict::digest(other),
    }
}

/// Everything that a server offers. `known` are the names of its tools that are registered: they keep theirs.
pub fn read(spec: &Upstream, tools: &[Value], known: &BTreeMap<String, ToolName>) -> Read {
    let mut read = Read::default();
    let mut made = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools.iter().take(TOOLS_MAX) {
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            *seen.entry(name).or_default() += 1;
        }
    }
    for (index, tool) in tools.iter().take(TOOLS_MAX).enumerate() {
        let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            let finding = Finding::error("upstream.unreadable", "/name", "a tool has no name", ASK_OWNER);
            read.refused.push(RefusedTool { tool: format!("#{index}"), findings: vec![finding] });
            continue;
        };
        read.offered.insert(name.to_owned());
        if !spec.takes(name) {
            continue;
        }
        if seen.get(name).is_some_and(|count| *count > 1) {
            let message = format!("the server offers `{}` more than once", shown(name));
            let finding = Finding::error("upstream.name-twice", "/name", message, ASK_OWNER);
            if !read.refused.iter().any(|refused| refused.tool == shown(name)) {
                read.refused.push(RefusedTool { tool: shown(name), findings: vec![finding] });
            }
            continue;
        }
        match definition(spec, tool) {
            Ok(taken) => made.push(taken),
            Err(findings) => read.refused.push(RefusedTool { tool: shown(name), findings }),
        }
    }
    if tools.len() > TOOLS_MAX {
        let message =
            format!("the server offers {} tools; those after the first {TOOLS_MAX} are left out", tools.len());
        let finding = Finding::error("upstream.too-many", "", message, "choose some with `tools`");
        read.refused.push(RefusedTool { tool: "…".to_owned(), findings: vec![finding] });
    }
    apart(made, known, &mut read);
    read
}

const ASK_OWNER: &str = "ask the server's owner; its other tools are not concerned";

/// Of tools whose names could be mistaken for each other only the one that was there before is taken.
fn apart(made: Vec<Taken>, known: &BTreeMap<String, ToolName>, read: &mut Read) {
    let mut of: BTreeMap<FoldedName, Vec<String>> = BTreeMap::new();
    for taken in &made {
        of.entry(taken.definition.name.folded()).or_default().push(taken.tool.clone());
    }
    for taken in made {
        let alike = of.get(&taken.definition.name.folded()).map(Vec::as_slice).unwrap_or_default();
        if alike.len() < 2 || known.get(&taken.tool) == Some(&taken.definition.name) {
            read.taken.push(taken);
            continue;
        }
        let others: Vec<String> = alike.iter().filter(|other| **other != taken.tool).map(|name| shown(name)).collect();
        let message = format!(
            "`{}` would have the name of `{}`, or one that looks like it",
            shown(&taken.tool),
            others.join("`, `")
        );
        let finding = Finding::error("upstream.look-alike", "/name", message, "take one of them, with `tools`");
        read.refused.push(RefusedTool { tool: shown(&taken.tool), findings: vec![finding] });
    }
}

/// What one tool of a server is here.
pub fn definition(spec: &Upstream, tool: &Value) -> Result<Taken, Vec<Finding>> {
    let unreadable =
        |pointer: &str, message: String| vec![Finding::error("upstream.unreadable", pointer, message, ASK_OWNER)];
    let said = strict::check(tool, strict::SCHEMA_BYTES_MAX)
        .map_err(|error| unreadable(&error.pointer.clone(), format!("the tool cannot be read: {error}")))?;
    let Value::Object(said) = said else { return Err(unreadable("", "the tool is no object".to_owned())) };
    let text = |member: &str| said.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let original = text("name").ok_or_else(|| unreadable("/name", "the tool has no name".to_owned()))?;
    let name = name(spec, original).map_err(|finding| vec![finding])?;
    let hints = said.get("annotations").and_then(Value::as_object);
    let title = text("title").or_else(|| hints.and_then(|hints| hints.get("title")).and_then(Value::as_str));
    let description = text("description").or(title).unwrap_or(original).replace("\r\n", "\n");
    let digest = digest_of(tool);
    let mut members = Map::new();
    members.insert("name".into(), name.as_str().into());
    members.extend(title.map(|title| ("title".to_owned(), title.into())));
    members.insert("description".into(), description.into());
    let input = said.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let takes_nothing = input.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    if takes_nothing {
        members.insert("input_less".into(), true.into());
    }
    // Over HTTP they would have to be sent, and cannot.
    if !matches!(spec.transport, Transport::Stdio { .. }) && annotated(&input).is_none() {
        let message = "its schema wants an argument repeated in a header that there cannot be (`x-mcp-header`)";
        return Err(vec![Finding::error("upstream.header", "/input_schema", message, ASK_OWNER)]);
    }
    members.insert("input_schema".into(), input);
    members.insert("egress_class".into(), EgressClass::Write.as_str().into());
    let kept: Map<String, Value> = hints
        .into_iter()
        .flatten()
        .filter(|(name, value)| Annotations::NAMES.contains(&name.as_str()) && value.is_boolean())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !kept.is_empty() {
        members.insert("annotations".into(), kept.into());
    }
    let secrets: Vec<Value> = spec
        .secrets()
        .into_iter()
        .map(|name| json!({"name": name, "purpose": format!("for the server {}", spec.name)}))
        .collect();
    if !secrets.is_empty() {
        members.insert("secrets".into(), secrets.into());
    }
    members.extend(spec.timeout_ms.map(|timeout| ("timeout_ms".to_owned(), timeout.into())));
    members.insert("runner".into(), json!({"kind": "mcp", "server": spec.name, "tool": original, "digest": digest}));
    let mut findings = Vec::new();
    let output = said.get("outputSchema").filter(|schema| !schema.is_null());
    let with_output = output.map(|schema| {
        let mut members = members.clone();
        members.insert("output_schema".into(), schema.clone());
        members
    });
    let definition = match with_output.map(checked) {
        Some(Ok(definition)) => definition,
        Some(Err(wrong)) if wrong.iter().all(|finding| finding.pointer.starts_with("/output_schema")) => {
            let first = wrong.first().map(|finding| finding.message.clone()).unwrap_or_default();
            let message = format!("its outputs are not checked, because their schema cannot be used: {first}");
            findings.push(Finding::warning("upstream.output-schema", "/output_schema", message, ASK_OWNER));
            checked(members)?
        }
        Some(Err(wrong)) => return Err(wrong),
        None => checked(members)?,
    };
    let steering = strings(&Value::Object(said.clone())).into_iter().find_map(|text| lint::steering(text));
    if let Some(phrase) = steering {
        let message = format!("a text of the tool says `{phrase}`, which reads like an attempt to steer a model");
        let fix = "read what it says about itself before anybody uses it; leave it out with `tools`";
        findings.push(Finding::warning("upstream.steering", "", message, fix));
    }
    Ok(Taken { tool: original.to_owned(), digest, definition, findings })
}

/// As registration judges it, as far as the definition alone tells.
fn checked(members: Map<String, Value>) -> Result<Definition, Vec<Finding>> {
    let definition = tool_md::parse_value(Value::Object(members), Dialect::Draft202012)?.definition;
    let mut refusals = lint::refusals(&definition, None);
    refusals.retain(|finding| finding.severity == Severity::Error);
    if has_errors(&refusals) { Err(refusals) } else { Ok(definition) }
}

/// What a server tells models beside its tools: nobody here passes it on, and whoever reads it is warned.
pub fn instructions(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if text.chars().any(is_unseen_in_text) {
        let message = "the server's instructions have characters that nobody sees";
        findings.push(Finding::warning("upstream.instructions", "/instructions", message, ASK_OWNER));
    }
    if let Some(phrase) = lint::steering(text) {
        let message = format!("the server's instructions say `{phrase}`, which reads like an attempt to steer a model");
        findings.push(Finding::warning("upstream.instructions", "/instructions", message, ASK_OWNER));
    }
    findings
}

/// Every text in a value, names of members included.
fn strings(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                for (name, member) in members {
                    found.push(name);
                    waiting.push(member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// `server.part`, or the part alone. The part is the server's own name where that is one, else what is left of it.
fn name(spec: &Upstream, original: &str) -> Result<ToolName, Finding> {
    let refused = |why: &str| {
        let message = format!("`{}` cannot be the name of a tool: {why}", shown(original));
        Finding::error("upstream.name", "/name", message, ASK_OWNER)
    };
    if !original.is_ascii() {
        return Err(refused("it has other letters than a to z, which may look like them"));
    }
    if original.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(refused("it has characters that nobody sees"));
    }
    let mut part: String =
        original.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect();
    if !part.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Err(refused("no letter is in it"));
    }
    if !part.starts_with(|first: char| first.is_ascii_alphabetic()) {
        part = format!("x{}{part}", if part.starts_with('_') { "" } else { "_" });
    }
    if part.len() > PART_CHARS_MAX {
        let tail: String = Digest::of(original.as_bytes()).to_string().chars().rev().take(TAIL_CHARS).collect();
        part = format!("{}-{tail}", &part[..PART_CHARS_MAX - TAIL_CHARS - 1]);
    }
    let whole = if spec.unprefixed { part } else { format!("{}.{part}", spec.name) };
    whole.parse().map_err(|_| refused("too little of it can be used"))
}

/// How a tool differs from what was accepted of it. What the operator said meanwhile of the server is no difference.
pub fn drift(accepted: &Definition, offered: &Definition) -> Option<(DriftClass, Difference)> {
    let accepted = as_said_now(accepted, offered);
    let difference = diff::compare(&accepted, offered);
    let class = match difference.class {
        ChangeClass::None => return None,
        ChangeClass::Description if accepted.annotations != offered.annotations => DriftClass::Annotation,
        ChangeClass::Description => DriftClass::Description,
        ChangeClass::Widening => DriftClass::Widening,
        ChangeClass::Narrowing => DriftClass::Narrowing,
        ChangeClass::Breaking => DriftClass::Breaking,
    };
    Some((class, difference))
}

/// What was accepted, with what the operator says now of the server: its secrets and its time.
pub fn as_said_now(accepted: &Definition, offered: &Definition) -> Definition {
    Definition { version: None, secrets: offered.secrets.clone(), timeout_ms: offered.timeout_ms, ..accepted.clone() }
}

/// Whether two tools take and give the same, so that one may be the other under a new name. Tools that take nothing are
/// alike in that; of those, their words or their names tell.
pub fn may_be_renamed(one: &Definition, other: &Definition) -> bool {
    let is_alike =
        |one: &str, other: &str| strsim::sorensen_dice(&one.to_lowercase(), &other.to_lowercase()) >= ALIKE_MIN;
    let own = |definition: &Definition| definition.name.as_str().rsplit('.').next().unwrap_or_default().to_owned();
    one.input_schema == other.input_schema
        && one.output_schema == other.output_schema
        && (!one.input_less || is_alike(&one.description, &other.description) || is_alike(&own(one), &own(other)))
}

#[cfg(test)]
mod tests;
