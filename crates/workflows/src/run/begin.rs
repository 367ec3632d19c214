//! A run of a workflow begins, and is looked at.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_contracts::call::RunState;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{CallId, Caller, Fault, FaultKind, Limits, Permission, RunId, Workflow};
use toolgate_engine::runs::NewRun;
use toolgate_registry::schema::{Validator, fill_defaults};
use toolgate_store::approvals::Asker;
use toolgate_store::audit::Entry;
use toolgate_store::workflow_runs::{WorkflowNode, WorkflowRun, WorkflowStands};
use utoipa::ToSchema;

use super::next::{Whole, whole};
use crate::Workflows;

/// Calls of one run, in all of its nodes.
const RUN_CALLS_MAX: u32 = 5000;
/// Time that is its own; what people take does not count.
const RUN_WALL_S_MAX: u64 = 24 * 60 * 60;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often whoever waits for a run looks whether it could go on and nobody is at it.
const TAKE_UP_EVERY: Duration = Duration::from_secs(1);

/// What a run of a workflow is begun with.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewWorkflowRun {
    #[schema(value_type = Object)]
    pub input: Map<String, Value>,
    /// Another than the one that holds.
    pub revision: Option<u32>,
    /// They only tighten.
    pub limits: Limits,
}

/// A run of a workflow as it stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkflowRunView {
    #[schema(value_type = String)]
    pub run_id: RunId,
    pub workflow: String,
    pub revision: u32,
    pub state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[schema(value_type = Object)]
    pub input: Value,
    /// What it gave, once it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    pub nodes: Vec<WorkflowNode>,
}

/// The call that a run answers.
#[derive(Debug)]
pub(crate) struct Within {
    /// The run that the call is in.
    pub parent: Option<RunId>,
    pub call: CallId,
    /// The label context of whoever reads the answer.
    pub reader: String,
    /// What the call's arguments carry.
    pub labels: Vec<Label>,
}

impl Workflows {
    /// Begins a run of a saved workflow. It goes on by itself, here or wherever it is taken up.
    pub async fn run(&self, caller: &Caller, name: &str, new: NewWorkflowRun) -> Result<RunId, Fault> {
        caller.require(&Permission::WORKFLOWS_RUN)?;
        if caller.token.is_some() {
            let told = "a token is for tools, and workflows are none";
            return Err(Fault::new(FaultKind::Forbidden, told, "use a key or a session"));
        }
        self.run_for(caller, name, new, None).await
    }

    /// The same for a call of a tool that the workflow was published as: whoever may call that tool runs it, and each of
    /// its nodes goes the whole path as theirs.
    pub(crate) async fn run_for(
        &self,
        caller: &Caller,
        name: &str,
        new: NewWorkflowRun,
        within: Option<Within>,
    ) -> Result<RunId, Fault> {
        // In a task of its own: whoever asked may hang up, and what is committed is driven all the same.
        let (workflows, caller, name) = (self.clone(), caller.clone(), name.to_owned());
        let begun = tokio::spawn(async move { Box::pin(workflows.begin_run(&caller, &name, new, within)).await });
        begun.await.map_err(|_| Fault::internal("beginning the run panicked"))?
    }

    async fn begin_run(
        &self,
        caller: &Caller,
        name: &str,
        new: NewWorkflowRun,
        within: Option<Within>,
    ) -> Result<RunId, Fault> {
        let NewWorkflowRun { input, revision, limits } = new;
        let (_, workflow) = self.load(caller, name, revision).await?;
        let input = checked(&workflow, input)?;
        let limits = Limits {
            max_tool_calls: limits.max_tool_calls.into_iter().chain([RUN_CALLS_MAX]).min(),
            max_wall_s: limits.max_wall_s.into_iter().chain([RUN_WALL_S_MAX]).min(),
            ..limits
        };
        let title = format!("Workflow {} (revision {})", workflow.name, workflow.revision);
        let (parent_run_id, for_call, reader, labels) = match within {
            None => (None, None, None, Vec::new()),
            Some(Within { parent, call, reader, labels }) => (parent, Some(call), Some(reader), labels),
        };
        let agent = caller.agent.map(|agent| agent.to_string());
        let opening = NewRun { title: Some(title), agent, parent_run_id, limits, labels, ..NewRun::default() };
        let graph = serde_json::to_value(&workflow).map_err(Fault::internal)?;
        let asker = Asker::of(caller, None);
        let entry = self.entry(caller, "workflow.run", &workflow);
        let replica = self.engine().replica().to_owned();
        let opener = super::opener(caller);
        let opened = self.engine().open_run_with(&opener, opening, move |change, run| {
            change.insert_workflow_run(&WorkflowRun {
                run: run.id,
                workflow: workflow.name.to_string(),
                revision: workflow.revision,
                graph,
                inputs: input,
                asker,
                holder: Some(replica),
                for_call,
                reader,
                labels: run.labels.clone(),
                outputs: None,
                is_open: true,
                created_at: run.created_at,
            });
            let mut entry = entry;
            entry.details.insert("run".to_owned(), run.id.to_string().into());
            change.audit(&entry);
        });
        let run = Box::pin(opened).await?;
        self.drive_soon(caller.tenant, run.id);
        Ok(run.id)
    }

    fn entry(&self, caller: &Caller, action: &str, workflow: &Workflow) -> Entry {
        let details = json!({"revision": workflow.revision});
        Entry {
            id: self.registry().new_id(),
            at: self.registry().now(),
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: workflow.name.to_string(),
            details: details.as_object().cloned().unwrap_or_default(),
        }
    }

    /// How a run stands, to whoever may look at it. On a data folder without a server nobody else would take it up.
    pub async fn view(&self, caller: &Caller, run: RunId) -> Result<WorkflowRunView, Fault> {
        let unknown = || Fault::not_found("run", run);
        let found = self.engine().readable_run(caller, run).await?.ok_or_else(unknown)?;
        let store = self.registry().store();
        let kept = store.workflow_run(caller.tenant, run).await?.ok_or_else(unknown)?;
        if kept.is_open && !self.at().contains(&run) {
            self.take_up_one(run).await?;
        }
        let nodes = store.workflow_nodes(caller.tenant, run).await?;
        // Whoever sees the end sees what it gave, also in the moment before that is written down.
        let output = match kept.outputs {
            Some(output) => Some(output),
            None => given(&kept.graph, &nodes)?,
        };
        Ok(WorkflowRunView {
            run_id: run,
            workflow: kept.workflow,
            revision: kept.revision,
            state: found.state,
            reason: found.reason,
            input: kept.inputs,
            output: output.filter(|_| found.state == RunState::Completed),
            nodes,
        })
    }

    /// Waits until a run is over or waits for people, at most until then. Its nodes are read once, at the end.
    pub async fn when_settled(&self, caller: &Caller, run: RunId, until: Instant) -> Result<WorkflowRunView, Fault> {
        let unknown = || Fault::not_found("run", run);
        self.engine().readable_run(caller, run).await?.ok_or_else(unknown)?;
        let mut looked: Option<Instant> = None;
        loop {
            let mut stands = self.stands(caller, run).await?;
            let is_due = looked.is_none_or(|looked| looked.elapsed() >= TAKE_UP_EVERY);
            // Somebody may have answered already; then it goes on in a moment.
            if stands.is_open && (is_due || stands.waits_for_people()) && !self.at().contains(&run) {
                looked = Some(Instant::now());
                self.take_up_one(run).await?;
                stands = self.stands(caller, run).await?;
            }
            let is_over = stands.state.is_final() && !stands.is_open;
            if is_over || stands.waits_for_people() || Instant::now() >= until {
                return self.view(caller, run).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn stands(&self, caller: &Caller, run: RunId) -> Result<WorkflowStands, Fault> {
        let found = self.registry().store().workflow_stands(caller.tenant, run).await?;
        found.ok_or_else(|| Fault::not_found("run", run))
    }
}

/// What a run gave, by how its nodes stand.
fn given(graph: &Value, nodes: &[WorkflowNode]) -> Result<Option<Value>, Fault> {
    let graph = toolgate_contracts::workflow::read(graph.clone()).map_err(|error| Fault::internal(error.message))?;
    let nodes = nodes.iter().map(|node| (node.path.clone(), node.clone())).collect();
    Ok(match whole(&graph, &nodes) {
        Whole::Completed(output) => Some(output),
        Whole::Open | Whole::Failed(..) => None,
    })
}

/// With defaults, as the workflow's own schema says.
fn checked(workflow: &Workflow, input: Map<String, Value>) -> Result<Value, Fault> {
    let mut input = Value::Object(input);
    fill_defaults(&workflow.inputs, &mut input)
        .map_err(|_| Fault::invalid("the input has too many places with defaults", "write them out").at("/input"))?;
    let validator = Validator::new(&workflow.inputs).map_err(|finding| Fault::internal(finding.message))?;
    match validator.validate(&input).into_iter().next() {
        None => Ok(input),
        Some(violation) => {
            let remedy = format!("see what it takes with `toolgate workflow show {}`", workflow.name);
            Err(Fault::invalid(violation.message, remedy).at(format!("/input{}", violation.pointer)))
        }
    }
}
