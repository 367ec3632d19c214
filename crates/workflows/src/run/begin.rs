//! A run of a workflow begins.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunKind;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{CallId, Caller, Fault, FaultKind, Limits, Permission, RunId, Workflow};
use toolgate_engine::Engine;
use toolgate_engine::runs::NewRun;
use toolgate_registry::schema::{Validator, fill_defaults};
use toolgate_store::approvals::Asker;
use toolgate_store::audit::Entry;
use toolgate_store::calls::RequestKey;
use toolgate_store::workflow_runs::WorkflowRun;
use utoipa::ToSchema;

use crate::Workflows;

/// Calls of one run, in all of its nodes.
const RUN_CALLS_MAX: u32 = 5000;
/// Time that is its own; what people take does not count.
const RUN_WALL_S_MAX: u64 = 24 * 60 * 60;

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
    /// The caller's idempotency key, for 24 hours: the same request again gets the same run.
    pub request_id: Option<String>,
}

impl NewWorkflowRun {
    /// What makes two requests the same.
    fn body(&self, name: &str) -> Value {
        let Self { input, revision, limits, request_id: _ } = self;
        json!({"workflow": name, "input": input, "revision": revision, "limits": limits})
    }
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
        mut new: NewWorkflowRun,
        within: Option<Within>,
    ) -> Result<RunId, Fault> {
        let key = match new.request_id.take() {
            Some(id) => Some(Engine::key_to_begin(caller, id, &new.body(name))?),
            None => None,
        };
        let begin = |key| Box::pin(self.begin_new(caller, name, new, within, key));
        self.engine().begin_once(caller.tenant, key, begin).await
    }

    async fn begin_new(
        &self,
        caller: &Caller,
        name: &str,
        new: NewWorkflowRun,
        within: Option<Within>,
        key: Option<RequestKey>,
    ) -> Result<RunId, Fault> {
        let NewWorkflowRun { input, revision, limits, request_id: _ } = new;
        limits.check("/limits")?;
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
        let kind = RunKind::Workflow;
        let opening = NewRun { kind, title: Some(title), agent, parent_run_id, limits, labels, ..NewRun::default() };
        let graph = serde_json::to_value(&workflow).map_err(Fault::internal)?;
        let asker = Asker::of(caller, None);
        let entry = self.entry(caller, "workflow.run", &workflow);
        let replica = self.engine().replica().to_owned();
        let opener = super::opener(caller);
        let opened = self.engine().open_run_with(&opener, opening, move |change, run| {
            if let Some(key) = &key {
                self.engine().remember_begun(change, key, run.id);
            }
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
            let remedy = format!("see its inputs with `toolgate workflow show {}`", workflow.name);
            Err(Fault::invalid(violation.message, remedy).at(format!("/input{}", violation.pointer)))
        }
    }
}
