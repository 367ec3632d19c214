//! The catalogue as a tool sees it: what whoever made the call has, and nothing else. One set with the lists of REST and
//! of the other surfaces, because it is made by the same function.

use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::PermissionPolicy;
use toolgate_contracts::{Caller, Fault, ToolError};
use toolgate_engine::Call;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::View;

use crate::builtin::Tools;

/// Works with the tools of whoever made the call, as the agent that acts.
pub(crate) fn with_view<T>(
    tools: &Tools,
    call: &Call,
    look: impl FnOnce(&View<'_>, &TenantRegistry) -> Result<T, Fault>,
) -> Result<T, ToolError> {
    let snapshot = tools.registry.snapshot();
    let caller = Caller { agent: call.agent, ..call.caller.clone() };
    let today = tools.clock.now().day();
    let looked = snapshot
        .tenant(call.tenant)
        .and_then(|registry| View::of(registry, &caller, &today).and_then(|view| look(&view, registry)));
    looked.map_err(|fault| ToolError::of(&fault))
}

/// What one needs to choose a tool.
pub(crate) fn line(call: &Call, tool: &ResolvedTool) -> Value {
    let definition = &tool.definition;
    // As the gate asks: whoever is not a person at a browser counts as an agent.
    let is_person = matches!(call.caller.credential, Credential::BrowserSession(_)) && call.agent.is_none();
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
