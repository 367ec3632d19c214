//! The agents that the caller may ask, in the order of names.

use std::future::{Ready, ready};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{AgentState, Permission, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_store::catalog::StoredAgent;

use crate::builtin::{Tools, input, invalid};
use crate::catalog::with_view;

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
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
    let Input { limit, after } = input(call)?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LIMIT_MAX}")));
    }
    with_view(tools, call, |view, registry| {
        // As beginning a run asks; whoever may not begin one has nobody to ask.
        let may_ask = view.caller.may(&Permission::AGENTS_RUN);
        let mut found: Vec<&StoredAgent> = registry
            .agents
            .values()
            .filter(|agent| may_ask && agent.tenant == call.tenant)
            .filter(|agent| agent.state == AgentState::Active && !agent.spec.model.is_empty())
            .filter(|agent| after.as_deref().is_none_or(|after| agent.spec.name.as_str() > after))
            .collect();
        found.sort_by(|left, right| left.spec.name.as_str().cmp(right.spec.name.as_str()));
        let more = found.len() > limit;
        found.truncate(limit);
        let mut output = json!({"agents": found.iter().map(|agent| line(agent)).collect::<Vec<_>>()});
        if let Some(last) = found.last().filter(|_| more) {
            output["next"] = last.spec.name.as_str().into();
        }
        Ok(output)
    })
}

fn line(agent: &StoredAgent) -> Value {
    let spec = &agent.spec;
    json!({
        "name": spec.name,
        "title": spec.title.as_deref().unwrap_or(spec.name.as_str()),
        "description": spec.description.as_deref().unwrap_or_default(),
    })
}
