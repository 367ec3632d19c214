//! What a node asks of others: the engine for a call, people for an answer, an agent for its outputs.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolgate_contracts::workflow::{AgentConfig, HumanConfig, Node, NodeKind, OnTimeout, ToolConfig};
use toolgate_contracts::{
    CallRequest, Caller, Envelope, ErrorCode, Fault, FaultKind, InputRequest, InputRequestId, InputRequestState,
    Limits, NewQuestion, RunId, Source, Status, ToolEnvelope, ToolError, ToolRef,
};
use toolgate_engine::Begun;
use toolgate_engine::call::is_effect_free;
use toolgate_store::workflow_runs::WorkflowNode;

use super::drive::{Came, Manner, Waits};
use super::instant;
use crate::handles::{ANSWER, ENVELOPE, OUTPUT, VALUE};
use crate::{AgentStart, Workflows, pins};

/// Questions of a run among which one that was asked before is looked for.
const QUESTIONS_SEEN_MAX: u32 = 100;
/// Places that a call may be given again, behind the first.
const SEQ_AGAIN: u32 = 500_000;

pub(super) struct Asking {
    pub workflows: Workflows,
    pub caller: Caller,
    pub run: RunId,
    pub workflow: String,
    /// Questions that other nodes wait for.
    pub taken: HashSet<InputRequestId>,
}

impl Asking {
    pub async fn ask(&self, node: &Node, stands: WorkflowNode, manner: Manner) -> Result<Came, Fault> {
        match &node.kind {
            NodeKind::Tool(config) => self.call(node, config, &stands, manner).await,
            NodeKind::Human(config) => self.question(config, &stands, manner).await,
            NodeKind::Agent(config) => self.agent(node, config, &stands).await,
            NodeKind::Input | NodeKind::Condition(_) | NodeKind::Map(_) | NodeKind::Output(_) => {
                Err(Fault::internal(format!("the node {} asks nobody", stands.path)))
            }
        }
    }

    /// A call at its place in the run. One that is there already answers for itself.
    async fn call(
        &self,
        node: &Node,
        config: &ToolConfig,
        stands: &WorkflowNode,
        manner: Manner,
    ) -> Result<Came, Fault> {
        if let Some(id) = stands.call_id {
            let envelope = self.workflows.engine().answer(self.caller.tenant, id).await?;
            return if envelope.status.is_final() { came_of(&envelope) } else { Ok(Came::Waits(Waits::Call(id))) };
        }
        let input = match instant::tool_input(config, inputs_of(stands)) {
            Ok(input) => input,
            Err(error) => return Ok(Came::Failed(error, Map::new())),
        };
        let mut seq = stands.seq.unwrap_or_default();
        loop {
            let request = CallRequest {
                run_id: Some(self.run),
                step_id: stands.step_id,
                seq: Some(seq),
                timeout_ms: node.limits.as_ref().and_then(|limits| limits.max_wall_s).map(|most| most * 1000),
                ..CallRequest::new(config.tool.clone(), input.clone())
            };
            let begun = Box::pin(self.workflows.engine().begin_call(&self.caller, Source::Workflow, request, None));
            let envelope = match begun.await {
                Ok(Begun::Ended(envelope)) => *envelope,
                Ok(Begun::Parked(id)) => return Ok(Came::Waits(Waits::Call(id))),
                Ok(Begun::Running(mut running)) => running.left().await?,
                // Nothing was recorded; whoever takes the run up tries again.
                Err(fault) if fault.kind() == FaultKind::Unavailable => return Err(fault),
                Err(fault) => return Ok(Came::Failed(ToolError::of(&fault), Map::new())),
            };
            if !envelope.status.is_final() {
                return Ok(Came::Waits(Waits::Call(envelope.id)));
            }
            // A process ended under a call without effects: it is made again, at another place.
            let is_cut_off = envelope.status == Status::Cancelled
                || envelope.error.as_ref().is_some_and(|error| error.reason() == "interrupted");
            if manner == Manner::Again && is_cut_off && seq < SEQ_AGAIN && self.is_effect_free(&config.tool) {
                seq += SEQ_AGAIN;
                continue;
            }
            return came_of(&envelope);
        }
    }

    fn is_effect_free(&self, tool: &str) -> bool {
        let registry = self.workflows.registry();
        let snapshot = registry.snapshot();
        let (Ok(reference), Ok(known)) = (tool.parse::<ToolRef>(), snapshot.tenant(self.caller.tenant)) else {
            return false;
        };
        known.resolve(&reference, &registry.now().day()).is_some_and(|tool| is_effect_free(&tool))
    }

    async fn question(&self, config: &HumanConfig, stands: &WorkflowNode, manner: Manner) -> Result<Came, Fault> {
        let asked = match stands.question_id {
            Some(id) => Ok(self.found(id).await?),
            None => self.put(config, stands, manner).await?,
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return Ok(Came::Failed(error, Map::new())),
        };
        let gave = |answer: Value| Came::Gave(Map::from_iter([(ANSWER.to_owned(), answer)]));
        Ok(match (asked.state, config.on_timeout) {
            (InputRequestState::Open, _) => Came::Waits(Waits::Question(asked.id)),
            (InputRequestState::Answered, _) => gave(asked.answer.unwrap_or_default()),
            (InputRequestState::Expired, OnTimeout::Null) => gave(Value::Null),
            (InputRequestState::Expired, OnTimeout::Fail) => {
                let message = "nobody answered the question in time";
                Came::Failed(ToolError::because(ErrorCode::Timeout, "timeout", message), Map::new())
            }
            (InputRequestState::Cancelled, _) => {
                let message = "the question was taken back";
                Came::Failed(ToolError::because(ErrorCode::PolicyDenied, "cancelled", message), Map::new())
            }
        })
    }

    /// Asks, unless a process that is gone has asked already. What refuses the question is data.
    async fn put(
        &self,
        config: &HumanConfig,
        stands: &WorkflowNode,
        manner: Manner,
    ) -> Result<Result<InputRequest, ToolError>, Fault> {
        let inputs = with_value(inputs_of(stands));
        let filled = |text: &String| instant::text(text, &inputs);
        let (title, instructions) = match (filled(&config.title), config.instructions.as_ref().map(filled).transpose())
        {
            (Ok(title), Ok(instructions)) => (title, instructions),
            (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
        };
        if manner == Manner::Again
            && let Some(before) = self.asked_before(&title, &config.schema).await?
        {
            return Ok(Ok(before));
        }
        let schema = config.schema.clone();
        let question = NewQuestion { title, instructions, schema, expires_s: config.timeout_s, call_id: None };
        refused(Box::pin(self.workflows.engine().ask(&self.caller, self.run, question)).await)
    }

    async fn found(&self, id: InputRequestId) -> Result<InputRequest, Fault> {
        let found = self.workflows.registry().store().question(self.caller.tenant, id).await?;
        found.map(|question| question.request).ok_or_else(|| Fault::not_found("question", id))
    }

    /// A question that was asked for this node by a process that ended before it wrote that down.
    async fn asked_before(&self, title: &str, schema: &Value) -> Result<Option<InputRequest>, Fault> {
        let engine = self.workflows.engine();
        let page = engine.list_questions(&self.caller, None, Some(self.run), None, QUESTIONS_SEEN_MAX).await?;
        let is_it = |question: &InputRequest| {
            question.title == title && question.schema == *schema && !self.taken.contains(&question.id)
        };
        Ok(page.items.into_iter().find(is_it))
    }

    async fn agent(&self, node: &Node, config: &AgentConfig, stands: &WorkflowNode) -> Result<Came, Fault> {
        let Some(host) = self.workflows.host() else {
            let message = "no agents are hosted here; run the workflow on a server that does";
            let error = ToolError::because(ErrorCode::ProviderError, "interrupted", message);
            return Ok(Came::Failed(error, Map::new()));
        };
        let started = if let Some(run) = stands.child_run_id {
            Ok(run)
        } else {
            let enabled_tools = config.enabled_tools.clone();
            let start = AgentStart {
                agent: config.agent.clone(),
                prompt: config.prompt.clone(),
                variables: inputs_of(stands).clone(),
                limits: Limits { enabled_tools, ..node.limits.clone().unwrap_or_default() },
                parent_run: self.run,
            };
            refused(host.start(&self.caller, start).await)?
        };
        let run = match started {
            Ok(run) => run,
            Err(error) => return Ok(Came::Failed(error, Map::new())),
        };
        let outputs = match host.outcome(self.caller.tenant, run).await? {
            None => return Ok(Came::Waits(Waits::Run(run))),
            Some(Err(error)) => return Ok(Came::Failed(error, Map::new())),
            Some(Ok(outputs)) => outputs,
        };
        let store = self.workflows.registry().store();
        let last = store.last_outputs(self.caller.tenant, &self.workflow, &stands.path).await?;
        let Value::Object(mut gave) = serde_json::to_value(&outputs).map_err(Fault::internal)? else {
            return Err(Fault::internal("outputs are an object"));
        };
        for pin in &config.pins {
            let before = last.as_ref().and_then(|outputs| outputs.get(&pin.name));
            match pins::value(pin, &outputs, before) {
                Ok(value) => gave.insert(pin.name.clone(), value),
                Err(error) => return Ok(Came::Failed(error, gave)),
            };
        }
        Ok(Came::Gave(gave))
    }
}

/// What is refused is data, unless nobody could look at it: then whoever takes the run up tries again.
fn refused<T>(answer: Result<T, Fault>) -> Result<Result<T, ToolError>, Fault> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(fault) if fault.kind() == FaultKind::Unavailable => Err(fault),
        Err(fault) => Ok(Err(ToolError::of(&fault))),
    }
}

fn inputs_of(stands: &WorkflowNode) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    stands.inputs.as_object().unwrap_or(&NONE)
}

/// A text may ask for `value` where nothing arrived.
fn with_value(inputs: &Map<String, Value>) -> Map<String, Value> {
    let mut inputs = inputs.clone();
    inputs.entry(VALUE).or_insert(Value::Null);
    inputs
}

/// What a call gives: its output or its error, and either way its envelope as the seed spells it.
fn came_of(envelope: &Envelope) -> Result<Came, Fault> {
    let seed = serde_json::to_value(ToolEnvelope::from(envelope)).map_err(Fault::internal)?;
    let mut gave = Map::from_iter([(ENVELOPE.to_owned(), seed)]);
    Ok(match (&envelope.error, envelope.status) {
        (None, Status::Completed) => {
            gave.insert(OUTPUT.to_owned(), envelope.output.clone().unwrap_or_default());
            Came::Gave(gave)
        }
        (Some(error), _) => Came::Failed(error.clone(), gave),
        (None, status) => {
            let message = format!("the call is {status}");
            Came::Failed(ToolError::because(ErrorCode::PolicyDenied, "rejected", message), gave)
        }
    })
}
