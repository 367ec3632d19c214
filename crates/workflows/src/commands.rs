//! Workflows as they are kept: saved with a revision that the server counts, listed, shown, checked, removed.
//!
//! Every command takes the caller and checks the right itself. Whoever may see tools sees workflows; a token is for tools
//! and sees none.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::workflow::{self, Node, PinnedHandle};
use toolgate_contracts::{
    AgentOutputs, Caller, Digest, Fault, FaultKind, FoldedName, Permission, RunId, Slug, ToolEnvelope, Workflow,
    json as strict,
};
use toolgate_registry::finding::{Finding, Severity, has_errors};
use toolgate_store::calls::CallFilter;
use toolgate_store::workflows::{StoredWorkflow, WorkflowRevision};
use utoipa::ToSchema;

use crate::Workflows;
use crate::around::OfCaller;
use crate::check::check;
use crate::materialize;

/// Of one tenant.
const WORKFLOWS_MAX: usize = 1000;
/// Calls of a run in which a pin's is looked for.
const RUN_CALLS_MAX: u32 = 200;

/// What saving a workflow did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkflowAction {
    Created,
    Replaced,
    Unchanged,
}

#[derive(Debug)]
pub struct Saved {
    pub kept: StoredWorkflow,
    pub workflow: Workflow,
    pub action: WorkflowAction,
    /// What is worth saying.
    pub findings: Vec<Finding>,
    /// Of the configuration; absent where nothing changed.
    pub revision: Option<i64>,
}

/// A workflow with one of its graphs.
#[derive(Debug)]
pub struct Shown {
    pub kept: StoredWorkflow,
    pub workflow: Workflow,
    pub revisions: Vec<WorkflowRevision>,
}

impl Workflows {
    fn may_read(caller: &Caller) -> Result<(), Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        if caller.token.is_some() {
            let told = "a token is for tools, and workflows are none";
            return Err(Fault::new(FaultKind::Forbidden, told, "use a key or a session"));
        }
        Ok(())
    }

    /// The workflows of the caller's tenant, by name.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<StoredWorkflow>, Fault> {
        Self::may_read(caller)?;
        Ok(self.registry().store().workflows(caller.tenant).await?)
    }

    /// One workflow as it holds, or as it was in a revision.
    pub async fn show(&self, caller: &Caller, name: &str, revision: Option<u32>) -> Result<Shown, Fault> {
        Self::may_read(caller)?;
        let (kept, workflow) = self.load(caller, name, revision).await?;
        let revisions = self.registry().store().workflow_revisions(caller.tenant, name).await?;
        Ok(Shown { kept, workflow, revisions })
    }

    pub(crate) async fn load(
        &self,
        caller: &Caller,
        name: &str,
        revision: Option<u32>,
    ) -> Result<(StoredWorkflow, Workflow), Fault> {
        let store = self.registry().store();
        let unknown = || Fault::not_found("workflow", name);
        let kept = store.workflow(caller.tenant, name).await?.ok_or_else(unknown)?;
        let wanted = revision.unwrap_or(kept.revision);
        let found = store.workflow_revision(caller.tenant, name, wanted).await?;
        let found = found.ok_or_else(|| {
            let told =
                format!("the workflow `{name}` has no revision {wanted}; the one that holds is {}", kept.revision);
            let remedy = format!("list its revisions with `toolgate workflow show {name}`");
            Fault::new(FaultKind::NotFound, told, remedy).at("/revision")
        })?;
        let workflow = workflow::read(found.graph).map_err(|error| {
            Fault::internal(format!("the workflow `{name}@{wanted}` cannot be read any more: {}", error.message))
        })?;
        Ok((kept, workflow))
    }

    /// What is found about a graph, by the tools and agents that the caller has.
    pub fn check(&self, caller: &Caller, workflow: &Workflow) -> Result<Vec<Finding>, Fault> {
        Self::may_read(caller)?;
        let snapshot = self.registry().snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let today = self.registry().now().day();
        let around = OfCaller::new(registry, caller, &today)?;
        Ok(check(workflow, Some(&around)))
    }

    /// Creates the workflow of that name, or has the graph be its next revision. The same graph again changes nothing.
    /// One with an error is refused, and so is a new revision with a blocked tool; what is saved loads whatever happens.
    pub async fn save(&self, caller: &Caller, workflow: Workflow) -> Result<Saved, Fault> {
        caller.require(&Permission::WORKFLOWS_EDIT)?;
        let store = self.registry().store();
        let before = store.workflow(caller.tenant, workflow.name.as_str()).await?;
        let digest = digest_of(&workflow);
        let findings = self.check(caller, &workflow)?;
        if let Some(kept) = &before {
            let held = store.workflow_revision(caller.tenant, kept.name.as_str(), kept.revision).await?;
            if held.is_some_and(|held| held.digest == digest) {
                let workflow = Workflow { revision: kept.revision, ..workflow };
                let action = WorkflowAction::Unchanged;
                return Ok(Saved { kept: kept.clone(), workflow, action, findings, revision: None });
            }
        } else {
            self.check_new(caller, &workflow.name).await?;
        }
        if has_errors(&findings) {
            return Err(refused(&findings));
        }
        let now = self.registry().now();
        let workflow = Workflow { revision: before.as_ref().map_or(1, |kept| kept.revision + 1), ..workflow };
        let kept = StoredWorkflow {
            name: workflow.name.clone(),
            description: workflow.description.clone(),
            revision: workflow.revision,
            saved_by: caller.principal.to_string(),
            created_at: before.as_ref().map_or(now, |kept| kept.created_at),
            updated_at: now,
        };
        let details = json!({"revision": kept.revision, "digest": digest});
        let mut change = self.registry().begin(caller, caller.tenant, "workflow.set", kept.name.as_str(), details);
        let changed = Fault::conflict(
            format!("the workflow `{}` was changed by others at the same time", kept.name),
            "look at it and save yours again",
        );
        let graph = serde_json::to_value(&workflow).unwrap_or_default();
        change.put_workflow(&kept, (&graph, &workflow.uses()), digest, changed);
        let revision = Some(self.registry().finish(change).await?);
        let action = if before.is_some() { WorkflowAction::Replaced } else { WorkflowAction::Created };
        Ok(Saved { kept, workflow, action, findings, revision })
    }

    async fn check_new(&self, caller: &Caller, name: &Slug) -> Result<(), Fault> {
        let known = self.registry().store().workflows(caller.tenant).await?;
        if known.len() >= WORKFLOWS_MAX {
            let told = format!("there are {WORKFLOWS_MAX} workflows already");
            return Err(Fault::conflict(told, "remove one with `toolgate workflow remove`"));
        }
        let folded = FoldedName::of(name.as_str());
        match known.iter().find(|known| FoldedName::of(known.name.as_str()) == folded) {
            None => Ok(()),
            Some(known) => {
                let told = format!("there is a workflow `{}`, which `{name}` could be mistaken for", known.name);
                Err(Fault::conflict(told, "choose another name, or save that one anew").at("/name"))
            }
        }
    }

    /// With all its revisions. Runs that were begun go on. Refused while a tool is made of it that could be called.
    pub async fn remove(&self, caller: &Caller, name: &str) -> Result<i64, Fault> {
        caller.require(&Permission::WORKFLOWS_EDIT)?;
        let kept = self.registry().store().workflow(caller.tenant, name).await?;
        let kept = kept.ok_or_else(|| Fault::not_found("workflow", name))?;
        if let Some(tool) = self.published_as(caller, name)? {
            let told = format!("the workflow `{name}` is published as the tool `{tool}`");
            let remedy = format!("remove that first with `toolgate tool delete {tool}`, or `tool block` it");
            return Err(Fault::conflict(told, remedy));
        }
        let details = json!({"revision": kept.revision});
        let mut change = self.registry().begin(caller, caller.tenant, "workflow.delete", name, details);
        change.delete_workflow(&kept.name);
        self.registry().finish(change).await
    }

    /// A node that does what a recorded call did. `beside` is the workflow whose ids it must not take.
    pub async fn materialize_call(&self, caller: &Caller, call: &str, beside: Option<&str>) -> Result<Node, Fault> {
        Self::may_read(caller)?;
        let taken = self.taken(caller, beside).await?;
        let record = self.engine().readable(caller, call).await?;
        let details = self.engine().details(caller.tenant, record).await?;
        let secrets = details.secrets.as_ref().and_then(Value::as_array).into_iter().flatten();
        let secrets = secrets.filter_map(|secret| secret["name"].as_str().map(str::to_owned)).collect();
        materialize::node(&ToolEnvelope::from(&details.envelope), secrets, &taken)
    }

    /// The same for the call of a run that a pin means.
    pub async fn materialize_pin(
        &self,
        caller: &Caller,
        run: RunId,
        pin: &PinnedHandle,
        beside: Option<&str>,
    ) -> Result<Node, Fault> {
        Self::may_read(caller)?;
        let outputs = self.outputs_of(caller, run).await?;
        match crate::pins::selected(&pin.selector, &outputs) {
            Some(call) => self.materialize_call(caller, &call.call_id, beside).await,
            None => materialize::node_of_pin(pin, &outputs, Vec::new(), &self.taken(caller, beside).await?),
        }
    }

    async fn taken(&self, caller: &Caller, beside: Option<&str>) -> Result<BTreeSet<String>, Fault> {
        let Some(name) = beside else { return Ok(BTreeSet::new()) };
        Ok(self.load(caller, name, None).await?.1.nodes.into_iter().map(|node| node.id).collect())
    }

    /// The calls of a run as its agent's outputs list them.
    async fn outputs_of(&self, caller: &Caller, run: RunId) -> Result<AgentOutputs, Fault> {
        let engine = self.engine();
        engine.readable_run(caller, run).await?.ok_or_else(|| Fault::not_found("run", run).at("/run"))?;
        let filter = CallFilter { run: Some(run), ..CallFilter::default() };
        let page = engine.list_calls(caller, &filter, None, RUN_CALLS_MAX).await?;
        let mut calls = Vec::with_capacity(page.items.len());
        for call in page.items {
            calls.push(ToolEnvelope::from(&engine.answer(caller.tenant, call.id).await?));
        }
        // Listed newest first; equal times keep the order in which they were asked for.
        calls.reverse();
        calls.sort_by_key(|call| call.t_start);
        Ok(AgentOutputs::of("", calls, None))
    }
}

/// Of what it says, whatever its revision.
fn digest_of(workflow: &Workflow) -> Digest {
    let same = Workflow { revision: 0, ..workflow.clone() };
    strict::digest(&serde_json::to_value(&same).unwrap_or_default())
}

/// Findings with errors as a refusal of the whole.
pub fn refused(findings: &[Finding]) -> Fault {
    let mut errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let first = errors.next();
    let told = first.map(|finding| finding.message.clone()).unwrap_or_default();
    let told = match errors.count() {
        0 => format!("the workflow is refused: {told}"),
        more => format!("the workflow has {} errors; the first: {told}", more + 1),
    };
    let (remedy, pointer) = first.map(|finding| (finding.fix.clone(), finding.pointer.clone())).unwrap_or_default();
    Fault::invalid(told, remedy).at(pointer).with_details(json!({"reason": "schema", "findings": findings}))
}
