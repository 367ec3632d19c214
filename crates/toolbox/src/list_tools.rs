//! The tools that the caller has, in the order of names.

use std::future::{Ready, ready};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::definition::ToolState;
use toolgate_engine::{Call, Outcome};
use toolgate_registry::snapshot::ResolvedTool;

use crate::builtin::{Tools, input, invalid};
use crate::catalog::{line, with_view};

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    /// The last name of the page before.
    #[serde(default)]
    after: Option<String>,
}

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    ready(listed(tools, call).map_or_else(Outcome::Failed, Outcome::structured))
}

fn listed(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let Input { category, limit, after } = input(call)?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LIMIT_MAX}")));
    }
    let in_category =
        |wanted: &str, own: &str| own == wanted || own.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'));
    with_view(tools, call, |view, _| {
        let mut found: Vec<ResolvedTool> = view
            .tools()
            .map(|(tool, _)| tool)
            .filter(|tool| tool.state() == ToolState::Active)
            .filter(|tool| after.as_deref().is_none_or(|after| tool.name.as_str() > after))
            .filter(|tool| {
                category.as_deref().is_none_or(|wanted| in_category(wanted, tool.definition.effective_category()))
            })
            .collect();
        found.sort_by(|left, right| left.name.as_str().cmp(right.name.as_str()));
        let more = found.len() > limit;
        found.truncate(limit);
        let mut output = json!({"tools": found.iter().map(|tool| line(call, tool)).collect::<Vec<_>>()});
        if let Some(last) = found.last().filter(|_| more) {
            output["next"] = last.name.as_str().into();
        }
        Ok(output)
    })
}
