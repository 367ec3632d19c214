//! Finding tools: by words, and one whole. By the tools that ship for it and where a list is searched instead of read, so
//! that both know the same and show nobody what they do not have.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{PermissionPolicy, ToolState};
use toolgate_contracts::{Caller, ErrorCode, Fault, ToolError, ToolRef};

use crate::search::{Entry, Kind};
use crate::snapshot::{ResolvedTool, TenantRegistry};
use crate::toolset::View;

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;
const QUERY_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Describe {
    name: String,
}

/// The caller's tools that fit some words, best first, of those that `shows` lets through.
pub fn search(
    registry: &TenantRegistry,
    caller: &Caller,
    today: &str,
    shows: impl Fn(&ResolvedTool) -> bool,
    input: &Value,
) -> Result<Value, ToolError> {
    let Search { query, limit } = read(input)?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LIMIT_MAX}")));
    }
    let chars = query.chars().count();
    if query.trim().is_empty() || chars > QUERY_CHARS_MAX {
        return Err(invalid("query", format!("it has {chars} characters; expected words, {QUERY_CHARS_MAX} at most")));
    }
    let view = View::of(registry, caller, today).map_err(|fault| ToolError::of(&fault))?;
    let own: HashMap<String, ResolvedTool> = view
        .tools()
        .map(|(tool, _)| tool)
        .filter(|tool| tool.state() == ToolState::Active && shows(tool))
        .map(|tool| (tool.name.to_string(), tool))
        .collect();
    let is_own = |_, entry: &Entry| entry.kind == Kind::Tool && own.contains_key(&entry.name);
    let hits = registry.index().search(&query, limit, is_own);
    let lines = hits.iter().filter_map(|hit| own.get(&hit.entry.name)).map(|tool| line(caller, tool));
    Ok(json!({"tools": lines.collect::<Vec<_>>()}))
}

/// One of the caller's tools whole, if `shows` lets it through: what it takes, what it gives, what it does and whether a
/// person is asked.
pub fn describe(
    registry: &TenantRegistry,
    caller: &Caller,
    today: &str,
    shows: impl Fn(&ResolvedTool) -> bool,
    input: &Value,
) -> Result<Value, ToolError> {
    let Describe { name } = read(input)?;
    let reference: ToolRef = name.parse().map_err(|error| invalid("name", error))?;
    let found = View::of(registry, caller, today).and_then(|view| view.resolve(&reference));
    let found =
        found.and_then(|(tool, _)| if shows(&tool) { Ok(tool) } else { Err(Fault::not_found("tool", &reference)) });
    let tool = found.map_err(|fault| ToolError::of(&fault))?;
    let definition = &tool.definition;
    let mut described = line(caller, &tool);
    described["version"] = tool.version.version.to_string().into();
    described["state"] = json!(tool.state());
    described["risk"] = json!(definition.effective_risk());
    described["input_schema"] = definition.input_schema.clone();
    for (member, value) in [
        ("output_schema", json!(definition.output_schema)),
        ("examples", json!(definition.examples)),
        ("docs", Some(&definition.docs).filter(|docs| !docs.is_empty()).map_or(Value::Null, |docs| json!(docs))),
        ("tags", json!(definition.tags)),
    ] {
        if !value.is_null() && value != json!([]) {
            described[member] = value;
        }
    }
    Ok(described)
}

/// What one needs to choose a tool.
pub fn line(caller: &Caller, tool: &ResolvedTool) -> Value {
    let definition = &tool.definition;
    // As the gate asks: whoever is not a person at a browser counts as an agent.
    let is_person = matches!(caller.credential, Credential::BrowserSession(_)) && caller.agent.is_none();
    let asks = definition.asks() || (definition.policy() == PermissionPolicy::AlwaysAsk && !is_person);
    json!({
        "name": tool.name,
        "title": definition.title.as_deref().unwrap_or(tool.name.as_str()),
        "description": definition.description,
        "category": definition.effective_category(),
        "egress_class": definition.class(),
        "requires_approval": asks,
    })
}

fn read<T: DeserializeOwned>(input: &Value) -> Result<T, ToolError> {
    toolgate_contracts::json::decode(input.clone()).map_err(|error| {
        let message = format!("the input is not what the function takes: {error}");
        ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", error.pointer)
    })
}

fn invalid(member: &str, message: impl std::fmt::Display) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "schema", format!("`{member}`: {message}"))
        .with("pointer", format!("/{member}"))
}
