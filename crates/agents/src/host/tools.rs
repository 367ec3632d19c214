//! Which tools a model is told of, and in which words.

use serde_json::Value;
use toolgate_contracts::{Caller, Fault, Limits, TenantId, ToolRef};
use toolgate_registry::render::{Form, Rendered};
use toolgate_registry::snapshot::{ResolvedTool, Switch};
use toolgate_registry::toolset::View;
use toolgate_store::catalog::StoredAgent;

use super::Host;
use crate::conversation::Offered;

/// With more, a model is given the tools by which it finds the others, and calls those by name.
pub const OFFERED_TOOLS_MAX: usize = 48;

/// By which tools are found, and long results read, when there are too many to be shown each.
const FINDING: [&str; 4] = ["searchTools", "describeTool", "listTools", "readResult"];

impl Host {
    /// The agent's tools as the gate would let it call them, by name; and whether they are found by search.
    pub(super) fn offered(
        &self,
        acting: &Caller,
        agent: &StoredAgent,
        limits: &Limits,
    ) -> Result<(Vec<Offered>, bool), Fault> {
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(acting.tenant)?;
        let today = self.0.engine.now().day();
        let view = View { agent: Some(agent), run: Some(limits), ..View::of(registry, acting, &today)? };
        let mut tools: Vec<ResolvedTool> = view.tools().map(|(tool, _)| tool).collect();
        let by_name = tools.len() > OFFERED_TOOLS_MAX;
        if by_name {
            tools.retain(|tool| FINDING.contains(&tool.name.as_str()));
        }
        let mut offered: Vec<Offered> = tools.iter().map(offered).collect();
        offered.sort_by(|one, other| one.wire.cmp(&other.wire));
        Ok((offered, by_name))
    }

    /// What became of a tool that an agent was given when its run began, and has no more.
    pub(super) fn gone(&self, tenant: TenantId, tool: &str) -> Result<String, Fault> {
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let today = self.0.engine.now().day();
        let found = tool.parse::<ToolRef>().ok().and_then(|name| registry.resolve(&name, &today));
        Ok(match found.map(|found| found.switch) {
            Some(Switch::Disabled) => format!("`{tool}` was disabled since the run began; go on without it"),
            _ => format!("`{tool}` was taken away since the run began; go on without it"),
        })
    }
}

fn offered(tool: &ResolvedTool) -> Offered {
    let rendered = match tool.rendered(Form::Openai) {
        Rendered::Json(value) => value,
        Rendered::Text(_) => Value::Null,
    };
    let function = rendered.get("function").unwrap_or(&rendered);
    let text = |member: &str| function.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    Offered {
        wire: text("name"),
        tool: tool.name.to_string(),
        version: tool.version.version.to_string(),
        description: text("description"),
        input: function.get("parameters").cloned().unwrap_or_else(|| serde_json::json!({"type": "object"})),
    }
}
