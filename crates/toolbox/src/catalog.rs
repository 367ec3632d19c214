//! The catalogue as a tool sees it: what whoever made the call has, and nothing else. One set with the lists of REST and
//! of the other surfaces, because it is made by the same function.

use serde_json::Value;
use toolgate_contracts::{Caller, Fault, ToolError};
use toolgate_engine::Call;
use toolgate_registry::finders;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::View;

use crate::builtin::Tools;

/// Whoever made the call, as the agent that acts.
fn acting(call: &Call) -> Caller {
    Caller { agent: call.agent, ..call.caller.clone() }
}

/// Works with the catalogue of whoever made the call.
pub(crate) fn with_registry<T>(
    tools: &Tools,
    call: &Call,
    look: impl FnOnce(&TenantRegistry, &Caller, &str) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let snapshot = tools.registry.snapshot();
    let registry = snapshot.tenant(call.tenant).map_err(|fault| ToolError::of(&fault))?;
    look(registry, &acting(call), &tools.clock.now().day())
}

/// Works with the tools of whoever made the call.
pub(crate) fn with_view<T>(
    tools: &Tools,
    call: &Call,
    look: impl FnOnce(&View<'_>, &TenantRegistry) -> Result<T, Fault>,
) -> Result<T, ToolError> {
    with_registry(tools, call, |registry, caller, today| {
        let looked = View::of(registry, caller, today).and_then(|view| look(&view, registry));
        looked.map_err(|fault| ToolError::of(&fault))
    })
}

/// What one needs to choose a tool.
pub(crate) fn line(call: &Call, tool: &ResolvedTool) -> Value {
    finders::line(&acting(call), tool)
}
