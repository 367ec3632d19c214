//! Switching tools on and off, deprecating, blocking, overriding and deleting them.

use std::sync::Arc;

use serde_json::json;
use toolgate_contracts::definition::{Origin, ToolState};
use toolgate_contracts::{Caller, Fault, FoldedName, KillScope, Permission, Runner, TenantId, ToolName, ToolRef};
use toolgate_store::catalog::{Lifecycle, StoredAgent};

use super::{LentRight, Registry, no_details, operator_only};
use crate::patch::Patch;
use crate::snapshot::{TenantTool, Tool, Version};

/// For whom a switch is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    ThisTenant,
    /// A row of the system tenant: holds wherever a tenant has not said otherwise.
    Everyone,
}

impl Registry {
    pub async fn set_enabled(
        &self,
        caller: &Caller,
        name: &ToolName,
        enabled: bool,
        reach: Reach,
    ) -> Result<i64, Fault> {
        let tenant = match reach {
            Reach::ThisTenant => {
                caller.require(&Permission::TOOLS_OVERRIDE)?;
                caller.tenant
            }
            Reach::Everyone => {
                caller.require(&Permission::TENANTS_MANAGE)?;
                TenantId::SYSTEM
            }
        };
        let snapshot = self.snapshot();
        let tool = self.manageable(&snapshot, caller, name)?;
        let action = if enabled { "tool.enable" } else { "tool.disable" };
        let mut change = self.begin(caller, tenant, action, tool.tool.name.as_str(), no_details());
        change.set_enabled(tool.tool.id, enabled, &caller.principal.to_string(), self.now());
        self.finish(change).await
    }

    /// Sets the state of one version, or of all when the reference names none.
    pub async fn set_lifecycle(
        &self,
        caller: &Caller,
        reference: &ToolRef,
        lifecycle: &Lifecycle,
    ) -> Result<(Vec<String>, i64), Fault> {
        let snapshot = self.snapshot();
        let tool = self.manageable(&snapshot, caller, &reference.name)?;
        require_ownership(
            caller,
            tool,
            &Permission::TOOLS_TENANT_UPDATE,
            "changing a shared tool's state",
            "switch it off for your tenant with `toolgate tool disable`",
        )?;
        check_lifecycle(lifecycle)?;
        let versions: Vec<_> = match &reference.version {
            Some(wanted) => vec![tool.tool.version(wanted).ok_or_else(|| Fault::not_found("tool", reference))?],
            None => whole_tool(&tool.tool, lifecycle.state),
        };
        let unblocks = |version: &&Arc<Version>| version.lifecycle.state == ToolState::Blocked;
        if lifecycle.state != ToolState::Blocked && versions.iter().any(unblocks) {
            // Who blocked it may have been an administrator, in an emergency.
            caller.require(&Permission::TOOLS_OVERRIDE)?;
        }
        let action = match lifecycle.state {
            ToolState::Active => "tool.activate",
            ToolState::Deprecated => "tool.deprecate",
            ToolState::Blocked => "tool.block",
        };
        let names: Vec<_> = versions.iter().map(|version| version.version.to_string()).collect();
        let details = json!({"versions": names, "message": lifecycle.message});
        let mut change = self.begin(caller, tool.tool.tenant, action, tool.tool.name.as_str(), details);
        for version in versions {
            change.set_lifecycle(version.id, lifecycle);
        }
        Ok((names, self.finish(change).await?))
    }

    /// Replaces the tenant's override of a shared tool; an empty patch clears it.
    pub async fn set_override(&self, caller: &Caller, name: &ToolName, patch: &Patch) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_OVERRIDE)?;
        let snapshot = self.snapshot();
        let tool = self.manageable(&snapshot, caller, name)?;
        if tool.tool.tenant == caller.tenant {
            return Err(Fault::invalid(
                format!("`{}` is this tenant's own tool, so there is nothing to override", tool.tool.name),
                "register a new version of it with `toolgate tool register`",
            ));
        }
        let version = tool.tool.current().ok_or_else(|| Fault::not_found("tool", name))?;
        patch.check(&version.definition)?;
        let value = serde_json::to_value(patch).unwrap_or_default();
        let action = if patch.is_empty() { "tool.override.clear" } else { "tool.override.set" };
        let mut change = self.begin(caller, caller.tenant, action, tool.tool.name.as_str(), json!({"patch": value}));
        change.set_patch(tool.tool.id, &value, patch.name.as_ref(), &caller.principal.to_string(), self.now());
        self.finish(change).await
    }

    /// Deletes a tenant's own tool. Refused while an agent, a composition or a recorded call names it.
    pub async fn delete_tool(&self, caller: &Caller, name: &ToolName) -> Result<i64, Fault> {
        self.delete_tool_lent(caller, None, name).await
    }

    /// The same within a call to which people may have lent the right.
    pub async fn delete_tool_lent(
        &self,
        caller: &Caller,
        lent: Option<&LentRight<'_>>,
        name: &ToolName,
    ) -> Result<i64, Fault> {
        let caller = &*LentRight::added_to(lent, caller);
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let tool = self.manageable(&snapshot, caller, name)?;
        if tool.tool.name.folded() != name.folded() {
            return Err(Fault::conflict(
                format!("`{name}` is another name of `{}`", tool.tool.name),
                "name the tool itself to delete it",
            ));
        }
        if tool.tool.origin == Origin::Code {
            return Err(Fault::conflict(
                format!("`{}` is part of Toolgate and cannot be deleted", tool.tool.name),
                "switch it off with `toolgate tool disable`",
            ));
        }
        require_ownership(
            caller,
            tool,
            &Permission::TOOLS_TENANT_DELETE,
            "deleting a shared tool",
            "switch it off for your tenant with `toolgate tool disable`",
        )?;
        let agents: Vec<_> = registry
            .assignments
            .values()
            .filter(|row| row.tool == tool.tool.id)
            .filter_map(|row| registry.agents.get(&row.agent))
            .map(|agent| agent.spec.name.to_string())
            .collect();
        if !agents.is_empty() {
            return Err(in_use(
                &tool.tool.name,
                &format!("assigned to {}", agents.join(", ")),
                "revoke the assignments first with `toolgate tool revoke`",
            ));
        }
        let named = |agent: &&StoredAgent| agent.spec.custom_tools.iter().any(|name| names_it(name, &tool.tool.name));
        if let Some(agent) = registry.agents.values().find(named) {
            let by = format!("in `custom_tools` of agent `{}`", agent.spec.name);
            return Err(in_use(&tool.tool.name, &by, "take it out there first"));
        }
        if let Some(user) = registry.tools().find(|other| other.uses(&tool.tool.name)) {
            return Err(in_use(
                &tool.tool.name,
                &format!("a step of `{}`", user.tool.name),
                "change or delete that composition first",
            ));
        }
        let stopped = registry.switched_off(KillScope::Tool, tool.tool.id.uuid()).is_some();
        let blocked = tool.tool.versions.iter().any(|version| version.lifecycle.state == ToolState::Blocked);
        if stopped {
            // Deleted and registered anew, it would go on under the same name.
            caller.require(&Permission::KILLSWITCH)?;
        }
        if blocked {
            caller.require(&Permission::TOOLS_OVERRIDE)?;
        }
        let details = LentRight::noted(lent, no_details());
        let mut change = self.begin(caller, tool.tool.tenant, "tool.delete", tool.tool.name.as_str(), details);
        change.forget_kill_switch(KillScope::Tool, tool.tool.id.uuid());
        change.delete_tool(tool.tool.id, self.now());
        self.finish(change).await.map_err(|fault| {
            if fault.broken_rule() == Some("foreign_key") {
                in_use(
                    &tool.tool.name,
                    "named by recorded calls",
                    "block it with `toolgate tool block`, or let retention remove the calls first",
                )
            } else {
                fault
            }
        })
    }

    /// A tool the caller may administer, whatever its state.
    pub(super) fn manageable<'s>(
        &self,
        snapshot: &'s crate::Snapshot,
        caller: &Caller,
        name: &ToolName,
    ) -> Result<&'s TenantTool, Fault> {
        if !caller.is_operator() {
            caller.require(&Permission::TOOLS_READ)?;
        }
        let registry = snapshot.tenant(caller.tenant)?;
        let found = registry.find(name, &self.now().day()).map(|(tool, _)| tool);
        let elsewhere =
            |tool: &&TenantTool| tool.switch != crate::snapshot::Switch::OtherTenants || caller.is_operator();
        found.filter(elsewhere).ok_or_else(|| Fault::not_found("tool", name))
    }
}

impl TenantTool {
    /// Whether a version of this tool has the other as a step.
    fn uses(&self, other: &ToolName) -> bool {
        self.tool.versions.iter().any(|version| match &version.definition.runner {
            Runner::Composition(composition) => composition.steps.iter().any(|step| names_it(&step.tool, other)),
            _ => false,
        })
    }
}

/// Whether `name` or `name@version` is this tool, in whatever spelling.
fn names_it(reference: &str, tool: &ToolName) -> bool {
    reference.split('@').next().is_some_and(|name| FoldedName::of(name) == tool.folded())
}

/// A tenant's own tool by its right, a shared one only by the operator.
fn require_ownership(
    caller: &Caller,
    tool: &TenantTool,
    right: &Permission,
    what: &str,
    instead: &str,
) -> Result<(), Fault> {
    if tool.tool.tenant == caller.tenant {
        return caller.require(right);
    }
    if caller.is_operator() { Ok(()) } else { Err(operator_only(what, instead)) }
}

/// Which versions an act on the whole tool is about. Activating leaves a version alone that was blocked by itself.
fn whole_tool(tool: &Tool, state: ToolState) -> Vec<&Arc<Version>> {
    let blocked = |version: &&Arc<Version>| version.lifecycle.state == ToolState::Blocked;
    let some_are_not = !tool.versions.iter().all(|version| blocked(&version));
    let spared = |version: &&Arc<Version>| state == ToolState::Active && some_are_not && blocked(version);
    tool.versions.iter().filter(|version| !spared(version)).collect()
}

fn in_use(name: &ToolName, by: &str, remedy: &str) -> Fault {
    Fault::conflict(format!("`{name}` cannot be deleted: it is {by}"), remedy)
}

fn check_lifecycle(lifecycle: &Lifecycle) -> Result<(), Fault> {
    if let Some(day) = &lifecycle.remove_by {
        let legal = format!("{day}T00:00:00Z").parse::<toolgate_contracts::Timestamp>().is_ok();
        if !legal {
            return Err(Fault::invalid(format!("`{day}` is not a day"), "write it as YYYY-MM-DD").at("/remove_by"));
        }
    }
    Ok(())
}
