//! The tools that fit some words, best first, among those that the caller has.

use std::collections::HashMap;
use std::future::{Ready, ready};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::definition::ToolState;
use toolgate_engine::{Call, Outcome};
use toolgate_registry::search::Kind;
use toolgate_registry::snapshot::ResolvedTool;

use crate::builtin::{Tools, input, invalid};
use crate::catalog::{line, with_view};

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;
const QUERY_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    ready(found(tools, call).map_or_else(Outcome::Failed, Outcome::structured))
}

fn found(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let Input { query, limit } = input(call)?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LIMIT_MAX}")));
    }
    let chars = query.chars().count();
    if query.trim().is_empty() || chars > QUERY_CHARS_MAX {
        return Err(invalid("query", format!("it has {chars} characters; expected words, {QUERY_CHARS_MAX} at most")));
    }
    with_view(tools, call, |view, registry| {
        let own: HashMap<String, ResolvedTool> = view
            .tools()
            .map(|(tool, _)| tool)
            .filter(|tool| tool.state() == ToolState::Active)
            .map(|tool| (tool.name.to_string(), tool))
            .collect();
        let is_own =
            |_, entry: &toolgate_registry::search::Entry| entry.kind == Kind::Tool && own.contains_key(&entry.name);
        let hits = registry.index().search(&query, limit, is_own);
        let lines: Vec<Value> =
            hits.iter().filter_map(|hit| own.get(&hit.entry.name)).map(|tool| line(call, tool)).collect();
        Ok(json!({"tools": lines}))
    })
}
