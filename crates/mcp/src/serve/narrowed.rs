//! `/mcp/NAME`: a part of the catalogue, for clients that should see less. It only narrows; a name that means nothing is
//! nothing, never the whole.

use toolgate_contracts::{AgentId, Caller, Fault, FaultKind, Permission, ToolId};
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};

use super::passage::Through;
use super::{Client, Surface};

const NAME_CHARS_MAX: usize = 120;

/// What of the catalogue a client came for, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowed {
    /// To a group of tools.
    pub group: Option<String>,
    /// To one server of others, by its own names.
    pub through: Option<Through>,
    /// Instead of all tools, those that find and call them.
    pub by_search: bool,
}

impl Narrowed {
    /// Whether it is less than everything that the caller may call.
    pub(crate) fn is_part(&self) -> bool {
        self.group.is_some() || self.through.is_some()
    }

    pub(crate) fn has(&self, registry: &TenantRegistry, tool: &ResolvedTool) -> bool {
        self.group.as_ref().is_none_or(|group| registry.group_has(group, &tool.tool))
            && self.through.as_ref().is_none_or(|through| through.has(tool))
    }
}

impl Surface {
    /// Whether a tool is of the group or the server that the client came for, if it came for one.
    pub(super) fn is_of_group(&self, client: &Client, tool: ToolId) -> bool {
        if !client.narrowed.is_part() {
            return true;
        }
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(client.caller.tenant) else { return false };
        let resolved = registry.tool_by_id(tool).and_then(|tool| Some(tool.at(tool.tool.current()?, None)));
        resolved.is_some_and(|tool| client.narrowed.has(registry, &tool))
    }

    /// What a name at the end of the address means to this caller, and the caller as it then acts: as the agent, with the
    /// group of tools, or at the server of that name, in this order. `is_client`: a program that its user let in to act as
    /// them, or as one agent: it does not choose another.
    pub async fn narrow(&self, caller: Caller, name: &str, is_client: bool) -> Result<(Caller, Narrowed), Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        if let Some(agent) = registry.agent(name) {
            let own = caller.agent == Some(agent.id);
            if own || (!is_client && caller.agent.is_none() && self.registry.may_manage(&caller, agent).await?) {
                return Ok((as_agent(caller, agent.id), Narrowed::default()));
            }
        }
        if registry.has_group(name) {
            return Ok((caller, Narrowed { group: Some(name.to_owned()), ..Narrowed::default() }));
        }
        if let Some(through) = self.through(&caller, name) {
            return Ok((caller, Narrowed { through: Some(through), ..Narrowed::default() }));
        }
        let name: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
        Err(Fault::new(
            FaultKind::NotFound,
            format!("no agent, group of tools or server `{name}` that is yours to use"),
            "list them with `toolgate agent list`, `toolgate tool list` and `toolgate upstream list`, or use /mcp",
        ))
    }
}

/// What acts as an agent has at most an agent's rights.
fn as_agent(caller: Caller, agent: AgentId) -> Caller {
    let permissions = caller.permissions.iter().filter(|right| Permission::is_for_agents(right)).cloned().collect();
    Caller { agent: Some(agent), permissions, ..caller }
}
