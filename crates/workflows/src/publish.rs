//! A workflow becomes a tool: what it takes and gives are its own schemas, and it owns up to what its strongest node does.
//!
//! The tool has one revision of the graph for good, as every version of a tool is what it is. A graph that is saved later
//! is published anew, which makes the next version.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, Risk, ToolState};
use toolgate_contracts::{Caller, Fault, Runner, ToolName, Workflow, json as strict};
use toolgate_registry::commands::{Registration, Submitted};
use toolgate_registry::floor::Floor;
use utoipa::ToSchema;

use crate::Workflows;

/// How a workflow is published.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PublishWorkflow {
    /// The tool's name; without it the workflow's own.
    pub tool: Option<String>,
    /// What models read of it: when to use it and when not; without it the workflow's own.
    pub description: Option<String>,
    /// Without it the title of the version before.
    pub title: Option<String>,
    /// Only say what would be registered.
    pub dry_run: bool,
}

impl Workflows {
    /// Registers the tool that a workflow is, in the revision that holds, or its next version.
    pub async fn publish(&self, caller: &Caller, name: &str, how: PublishWorkflow) -> Result<Registration, Fault> {
        let workflow = self.show(caller, name, None).await?.workflow;
        let PublishWorkflow { tool, description, title, dry_run } = how;
        let tool = tool.unwrap_or_else(|| tool_name(workflow.name.as_str()));
        tool.parse::<ToolName>().map_err(|error| {
            Fault::invalid(format!("`{tool}` is no name of a tool: {error}"), "choose another name").at("/tool")
        })?;
        let title = title.or(self.title_of(caller, &tool)?);
        let description = description.or_else(|| workflow.description.clone()).unwrap_or_else(|| {
            format!(
                "Runs the workflow {}. Use it for what that is for. Do not use it for anything else.",
                workflow.name
            )
        });
        let mut definition = definition(&workflow, &tool, &description);
        if let Some(title) = title {
            definition["title"] = title.into();
        }
        let floor = self.registry().floor_of(caller, &strict::decode(definition.clone()).map_err(Fault::from)?)?;
        own_up(&mut definition, floor, workflow.uses().agents);
        let submitted = Submitted::Json(definition.to_string().into_bytes());
        self.registry().register(caller, &submitted, !dry_run).await
    }

    /// What the newest version of a tool made of a workflow is called, if it is there: it stays so until another is said.
    fn title_of(&self, caller: &Caller, tool: &str) -> Result<Option<String>, Fault> {
        let snapshot = self.registry().snapshot();
        let found = snapshot.tenant(caller.tenant)?.tools().find(|known| known.tool.name.as_str() == tool);
        let newest = found.and_then(|known| known.tool.newest());
        Ok(newest
            .filter(|version| matches!(version.definition.runner, Runner::Workflow(_)))
            .and_then(|version| version.definition.title.clone()))
    }

    /// A tool that is made of a workflow and could be called.
    pub fn published_as(&self, caller: &Caller, workflow: &str) -> Result<Option<String>, Fault> {
        let snapshot = self.registry().snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let found = registry.tools().find(|tool| {
            tool.tool.versions.iter().any(|version| {
                let of_it =
                    matches!(&version.definition.runner, Runner::Workflow(runner) if runner.workflow == workflow);
                of_it && version.lifecycle.state != ToolState::Blocked
            })
        });
        Ok(found.map(|tool| tool.tool.name.to_string()))
    }
}

fn definition(workflow: &Workflow, tool: &str, description: &str) -> Value {
    json!({
        "name": tool,
        "description": description,
        "category": "workflow",
        "tags": ["workflow"],
        "input_schema": workflow.inputs,
        "input_less": takes_nothing(&workflow.inputs),
        "output_schema": workflow.gives(),
        "runner": {"kind": "workflow", "workflow": workflow.name, "revision": workflow.revision},
    })
}

fn takes_nothing(schema: &Value) -> bool {
    schema.get("properties").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
}

/// What its nodes do, the strongest of each. What an agent does is not known beforehand.
fn own_up(definition: &mut Value, floor: Floor, asks_agents: bool) {
    let Floor { class, risk, sink, changes_state } = floor;
    let least = if asks_agents { Risk::Sensitive } else { Risk::Safe };
    definition["egress_class"] = json!(class);
    definition["risk"] = json!(risk.max(least));
    definition["sink"] = json!(sink);
    if changes_state && class != EgressClass::Write {
        definition["changes_state"] = true.into();
    }
}

/// `triage-mail` as tools are called: `triageMail`.
fn tool_name(workflow: &str) -> String {
    let mut name = String::with_capacity(workflow.len());
    let mut upper = false;
    for letter in workflow.chars() {
        if letter == '-' || letter == '_' {
            upper = true;
            continue;
        }
        name.extend(if upper { letter.to_uppercase().next() } else { Some(letter) });
        upper = false;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_called_as_tools_are() {
        for (workflow, tool) in [("greet", "greet"), ("triage-mail", "triageMail"), ("a-1-b", "a1B")] {
            assert_eq!(tool_name(workflow), tool);
        }
    }
}
