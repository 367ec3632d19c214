//! Ways from one tool to another through workflows and compositions, so that none leads back to where it began.
//!
//! A workflow is looked at in the revision that holds. What an earlier one does, and what somebody changes afterwards, is
//! bounded when it runs: runs stand only so deep under each other.

use std::collections::HashSet;

use toolgate_contracts::name::{ToolName, ToolRef};
use toolgate_contracts::runner::Runner;
use toolgate_contracts::{Definition, Plugin};
use toolgate_store::workflows::HeldWorkflow;

use crate::floor::{Floor, Known};
use crate::snapshot::TenantRegistry;

/// The way from a tool to a workflow, or to another tool, in words; absent where none leads there.
pub fn way(known: &dyn Known, from: &ToolRef, workflow: &str, tool: &ToolName) -> Option<String> {
    let mut walk = Walk { known, workflow, tool: Some(tool), seen: HashSet::new(), path: Vec::new() };
    walk.leads_there(from).then(|| walk.path.join(" → "))
}

/// The way from a tool of this tenant to a workflow.
pub fn way_to(registry: &TenantRegistry, today: &str, from: &ToolRef, workflow: &str) -> Option<String> {
    let known = Kept { registry, today };
    let mut walk = Walk { known: &known, workflow, tool: None, seen: HashSet::new(), path: Vec::new() };
    walk.leads_there(from).then(|| walk.path.join(" → "))
}

struct Walk<'a> {
    known: &'a dyn Known,
    workflow: &'a str,
    tool: Option<&'a ToolName>,
    /// Tools that lead nowhere, or are on the way: none is looked at twice.
    seen: HashSet<String>,
    path: Vec<String>,
}

impl Walk<'_> {
    fn leads_there(&mut self, reference: &ToolRef) -> bool {
        let name = reference.to_string();
        if !self.seen.insert(name.clone()) {
            return false;
        }
        self.path.push(name);
        if self.path.len() > 1 && self.tool.is_some_and(|tool| tool.folded() == reference.name.folded()) {
            return true;
        }
        let known = self.known;
        let found = known.tool(reference).is_some_and(|tool| match &tool.runner {
            Runner::Workflow(runner) if runner.workflow == self.workflow => {
                self.path.push(runner.workflow.clone());
                true
            }
            Runner::Workflow(runner) => known
                .workflow(&runner.workflow)
                .flatten()
                .is_some_and(|held| held.uses.tools.iter().any(|tool| self.any_leads_there(tool))),
            Runner::Composition(composition) => composition.steps.iter().any(|step| self.any_leads_there(&step.tool)),
            _ => false,
        });
        if !found {
            self.path.pop();
        }
        found
    }

    fn any_leads_there(&mut self, tool: &str) -> bool {
        tool.parse().is_ok_and(|reference| self.leads_there(&reference))
    }
}

/// Tools and workflows of a tenant, and nothing else.
struct Kept<'a> {
    registry: &'a TenantRegistry,
    today: &'a str,
}

impl Known for Kept<'_> {
    fn function(&self, _name: &str) -> Option<Floor> {
        None
    }

    fn functions(&self) -> Vec<&str> {
        Vec::new()
    }

    fn tool(&self, reference: &ToolRef) -> Option<&Definition> {
        self.registry.definition(reference, self.today)
    }

    fn plugins(&self) -> Option<&[Plugin]> {
        None
    }

    fn workflow(&self, name: &str) -> Option<Option<&HeldWorkflow>> {
        Some(self.registry.workflow(name))
    }
}
