//! The kind `workflow`: a saved workflow as a tool, whose run answers the call.
//!
//! Invariant: calling it gives nobody a tool. Each node goes the whole path as whoever called.
//! Deliberately absent: waiting for the run in memory. The call is handed over to it, and ended when it ends, on whichever
//! replica that is.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::runner::WorkflowRunner;
use toolgate_contracts::{
    Amount, Caller, Definition, ErrorCode, Fault, FaultKind, Limits, Mode, Runner as Kind, Slug, ToolError, ToolRef,
};
use toolgate_engine::runs::TOO_DEEP;
use toolgate_engine::{Call, Engine, Outcome, Permit, Runner};
use toolgate_registry::toolset::View;

use crate::run::Within;
use crate::{NewWorkflowRun, WeakWorkflows, Workflows};

/// Runs tools that are workflows, once it knows who has those.
#[derive(Clone, Default)]
pub struct PublishedWorkflows(Arc<OnceLock<WeakWorkflows>>);

impl PublishedWorkflows {
    /// Who runs workflows here. Said once; they are not kept by this.
    pub fn run_by(&self, workflows: &Workflows) {
        let _ = self.0.set(workflows.weak());
    }

    fn workflows(&self) -> Result<Workflows, ToolError> {
        self.0.get().and_then(WeakWorkflows::get).ok_or_else(|| {
            let message = "no workflow runs in this program; call the tool through a server";
            ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
        })
    }

    /// What its nodes may call, the strongest first: whoever decides on the call decides on no less.
    async fn planned(&self, call: &Call) -> Result<Value, ToolError> {
        let WorkflowRunner { workflow: name, revision } = runner_of(&call.tool.definition)?;
        let workflows = self.workflows()?;
        let loaded = workflows.load(&call.caller, name, *revision).await;
        let (_, workflow) = loaded.map_err(|fault| refused(name, &fault))?;
        let uses = workflow.uses();
        let snapshot = workflows.registry().snapshot();
        let registry = snapshot.tenant(call.tenant).map_err(|fault| ToolError::of(&fault))?;
        let today = workflows.registry().now().day();
        // Whoever decides sees all of it; whoever only asks learns of no tool by it that they do not have.
        let view = match call.mode {
            Mode::DryRun => Some(View::of(registry, &call.caller, &today).map_err(|fault| ToolError::of(&fault))?),
            Mode::Execute | Mode::Record => None,
        };
        let mut hidden = 0;
        let mut tools = Vec::with_capacity(uses.tools.len());
        for tool in &uses.tools {
            let reference = tool.parse::<ToolRef>().ok();
            if let (Some(view), Some(reference)) = (&view, &reference)
                && view.resolve(reference).is_err()
            {
                hidden += 1;
                continue;
            }
            let found = reference.and_then(|reference| registry.resolve(&reference, &today));
            tools.push(match found {
                Some(found) => {
                    let (class, risk) = (found.definition.class(), found.definition.effective_risk());
                    (Some((class, risk)), format!("{} ({class}, risk {risk})", found.tool.name))
                }
                None => (None, format!("{tool} (not there)")),
            });
        }
        tools.sort_by(|(one, by), (other, than)| other.cmp(one).then_with(|| by.cmp(than)));
        tools.dedup();
        let mut tools: Vec<String> = tools.into_iter().map(|(_, tool)| tool).collect();
        if hidden > 0 {
            tools.push(format!("{hidden} more that you do not have"));
        }
        let would_run = json!({"workflow": name, "revision": workflow.revision, "input": *call.input});
        let mut plan = json!({"would_run": would_run, "workflow": name, "calls": tools});
        if uses.agents {
            plan["asks"] = "agents, which call what they have".into();
        }
        Ok(plan)
    }

    async fn hand_over(&self, call: &Call) -> Result<(), ToolError> {
        let workflows = self.workflows()?;
        let WorkflowRunner { workflow, revision } = runner_of(&call.tool.definition)?;
        let record = workflows.registry().store().call(call.tenant, call.id).await;
        let record = record.map_err(|error| ToolError::of(&error.into()))?;
        let stated = call.tool.definition.timeout_ms.is_some();
        let limits = Limits { max_wall_s: stated.then(|| call.timeout.as_secs().max(1)), ..Limits::default() };
        let input = call.input.as_object().cloned().unwrap_or_default();
        let new = NewWorkflowRun { input, revision: *revision, limits, request_id: None };
        let within = Within {
            parent: call.in_run.then_some(call.run),
            call: call.id,
            reader: Engine::reader_of(call),
            labels: record.map(|record| record.labels).unwrap_or_default(),
        };
        let caller = Caller { agent: call.agent, ..call.caller.clone() };
        let begun = Box::pin(workflows.run_for(&caller, workflow, new, Some(within))).await;
        begun.map(drop).map_err(|fault| refused(workflow, &fault))
    }
}

impl Runner for PublishedWorkflows {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.hand_over(permit.call()).await {
                Ok(()) => Outcome::HandedOver,
                // No run was begun, so nothing was taken, and it is not tried again by itself.
                Err(error) => Outcome::Spent { error, cost: Some(Amount::ZERO), units: 0 },
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(self.planned(call))
    }

    fn refuses(&self, _definition: &Definition) -> Option<ToolError> {
        self.workflows().err()
    }

    fn ready<'a>(&'a self, _definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(self.workflows().map(drop)))
    }

    /// Whether this tenant has the workflow.
    fn ready_for<'a>(&'a self, tenant: &'a Slug, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        let ready = self.workflows().and_then(|workflows| {
            let runner = runner_of(definition)?;
            let snapshot = workflows.registry().snapshot();
            let known = snapshot.tenants().find(|registry| registry.tenant.slug == *tenant);
            let is_there = known.is_none_or(|registry| registry.workflow(&runner.workflow).is_some());
            if is_there { Ok(()) } else { Err(gone(&runner.workflow)) }
        });
        Box::pin(std::future::ready(ready))
    }
}

fn runner_of(definition: &Definition) -> Result<&WorkflowRunner, ToolError> {
    match &definition.runner {
        Kind::Workflow(runner) => Ok(runner),
        other => {
            let message = format!("the tool is of kind `{}`, which is no workflow", other.kind());
            Err(ToolError::because(ErrorCode::SandboxError, "exception", message))
        }
    }
}

fn gone(workflow: &str) -> ToolError {
    let message = format!("there is no workflow `{workflow}` any more; save it again, or call another tool");
    ToolError::because(ErrorCode::PolicyDenied, "not_found", message)
}

fn refused(workflow: &str, fault: &Fault) -> ToolError {
    if fault.broken_rule() == Some(TOO_DEEP) {
        let message = format!("{}; {}", fault.told(), fault.remedy());
        return ToolError::because(ErrorCode::PolicyDenied, "max_depth", message);
    }
    if fault.kind() == FaultKind::NotFound {
        return gone(workflow);
    }
    ToolError::of(fault)
}
