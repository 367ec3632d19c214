//! What a node asks of others: the engine for a call, people for an answer, an agent for its outputs.

use serde_json::{Map, Value};
use toolgate_contracts::workflow::{AgentConfig, HumanConfig, Node, NodeKind, OnMissing, OnTimeout, ToolConfig};
use toolgate_contracts::{
    CallRequest, Caller, Envelope, ErrorCode, Fault, FaultKind, InputRequest, InputRequestId, InputRequestState,
    Limits, NewQuestion, RunId, Status, ToolEnvelope, ToolError, ToolRef,
};
use toolgate_engine::Begun;
use toolgate_engine::call::is_effect_free;
use toolgate_store::workflow_runs::WorkflowNode;

use super::drive::Manner;
use super::instant;
use super::next::joined;
use super::settle::{Came, Gave, Waits};
use crate::handles::{ANSWER, ENVELOPE, OUTPUT, VALUE};
use crate::{AgentOutcome, AgentStart, Workflows, allowed, pins};

/// Places that a call may be given again, behind the first.
const SEQ_AGAIN: u32 = 500_000;

pub(super) struct Asking {
    pub workflows: Workflows,
    pub caller: Caller,
    pub run: RunId,
    pub workflow: String,
}

impl Asking {
    pub async fn ask(&self, node: &Node, stands: WorkflowNode, manner: Manner) -> Result<Came, Fault> {
        match &node.kind {
            NodeKind::Tool(config) => self.call(node, config, &stands, manner).await,
            NodeKind::Human(config) => self.question(config, &stands, manner).await,
            NodeKind::Agent(config) => self.agent(node, config, &stands, manner).await,
            NodeKind::Input | NodeKind::Condition(_) | NodeKind::Map(_) | NodeKind::Output(_) => {
                Err(Fault::internal(format!("the node {} asks nobody", stands.path)))
            }
        }
    }

    /// The same for a node that was asked for before, by what was noted of it.
    pub async fn ask_again(&self, node: &Node, path: &str) -> Result<Came, Fault> {
        let store = self.workflows.registry().store();
        let noted = store.workflow_nodes_at(self.caller.tenant, self.run, &[path.to_owned()]).await?.pop();
        let gone = || Fault::internal(format!("the node {path} is not there any more"));
        self.ask(node, noted.ok_or_else(gone)?, Manner::Again).await
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
            return if envelope.status.is_final() {
                self.came_of(&envelope, stands)
            } else {
                Ok(Came::Waits(Waits::Call(id)))
            };
        }
        let input = match instant::tool_input(config, inputs_of(stands)) {
            Ok(input) => input,
            Err(error) => return Ok(Came::Failed(error, Gave::default())),
        };
        let mut seq = stands.seq.unwrap_or_default();
        loop {
            let request = CallRequest {
                run_id: Some(self.run),
                step_id: stands.step_id,
                seq: Some(seq),
                timeout_ms: node
                    .limits
                    .as_ref()
                    .and_then(|limits| limits.max_wall_s)
                    .map(|most| most.saturating_mul(1000)),
                ..CallRequest::new(config.tool.clone(), input.clone())
            };
            let begun = Box::pin(self.workflows.engine().begin_node(&self.caller, request, &stands.labels));
            let envelope = match begun.await {
                Ok(Begun::Ended(envelope)) => *envelope,
                Ok(Begun::Parked(id)) => return Ok(Came::Waits(Waits::Call(id))),
                Ok(Begun::AtHand(call)) => call.apart().left().await?,
                // Nothing was recorded; whoever takes the run up tries again.
                Err(fault) if fault.kind() == FaultKind::Unavailable => return Err(fault),
                Err(fault) => return Ok(Came::Failed(ToolError::of(&fault), Gave::default())),
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
            return self.came_of(&envelope, stands);
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
        let Some(id) = stands.question_id else {
            return Err(Fault::internal(format!("the node {} asks no question", stands.path)));
        };
        // A process that is gone may have asked already.
        let before = if manner == Manner::Again { self.found(id).await? } else { None };
        let asked = match before {
            Some(asked) => Ok(asked),
            None => self.put(config, stands, id).await?,
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return Ok(Came::Failed(error, Gave::default())),
        };
        let gave = |answer: Value| Came::Gave(Map::from_iter([(ANSWER.to_owned(), answer)]).into());
        Ok(match (asked.state, config.on_timeout) {
            (InputRequestState::Open, _) => Came::Waits(Waits::Question(asked.id)),
            (InputRequestState::Answered, _) => gave(asked.answer.unwrap_or_default()),
            (InputRequestState::Expired, OnTimeout::Null) => gave(Value::Null),
            (InputRequestState::Expired, OnTimeout::Fail) => {
                let message = "nobody answered the question in time";
                Came::Failed(ToolError::because(ErrorCode::Timeout, "timeout", message), Gave::default())
            }
            (InputRequestState::Cancelled, _) => {
                let message = "the question was taken back";
                Came::Failed(ToolError::because(ErrorCode::PolicyDenied, "cancelled", message), Gave::default())
            }
        })
    }

    /// Asks. What refuses the question is data.
    async fn put(
        &self,
        config: &HumanConfig,
        stands: &WorkflowNode,
        id: InputRequestId,
    ) -> Result<Result<InputRequest, ToolError>, Fault> {
        let inputs = with_value(inputs_of(stands));
        let filled = |text: &String| instant::text(text, &inputs);
        let (title, instructions) = match (filled(&config.title), config.instructions.as_ref().map(filled).transpose())
        {
            (Ok(title), Ok(instructions)) => (title, instructions),
            (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
        };
        let schema = config.schema.clone();
        let question = NewQuestion { title, instructions, schema, expires_s: config.timeout_s, call_id: None };
        let opener = super::opener(&self.caller);
        refused(Box::pin(self.workflows.engine().ask_as(&opener, self.run, id, question)).await)
    }

    async fn found(&self, id: InputRequestId) -> Result<Option<InputRequest>, Fault> {
        let found = self.workflows.registry().store().question(self.caller.tenant, id).await?;
        Ok(found.map(|question| question.request))
    }

    async fn agent(
        &self,
        node: &Node,
        config: &AgentConfig,
        stands: &WorkflowNode,
        manner: Manner,
    ) -> Result<Came, Fault> {
        let Some(host) = self.workflows.host() else {
            let message = "no agents are hosted here; run the workflow on a server that does";
            let error = ToolError::because(ErrorCode::ProviderError, "interrupted", message);
            return Ok(Came::Failed(error, Gave::default()));
        };
        let Some(run) = stands.child_run_id else {
            return Err(Fault::internal(format!("the node {} asks no agent", stands.path)));
        };
        let store = self.workflows.registry().store();
        // A process that is gone may have started it already.
        let is_started = manner == Manner::Again && store.run(self.caller.tenant, run).await?.is_some();
        if !is_started {
            let enabled_tools = allowed::tools(node, config);
            let start = AgentStart {
                run,
                agent: config.agent.clone(),
                prompt: config.prompt.clone(),
                variables: inputs_of(stands).clone(),
                limits: Limits { enabled_tools, ..node.limits.clone().unwrap_or_default() },
                parent_run: self.run,
                labels: stands.labels.clone(),
            };
            if let Err(error) = refused(host.start(&self.caller, start).await)? {
                return Ok(Came::Failed(error, Gave::default()));
            }
        }
        let Some(outcome) = host.outcome(self.caller.tenant, run).await? else {
            return Ok(Came::Waits(Waits::Run(run)));
        };
        // What the agent has seen, its answer carries.
        let mut labels = store.run(self.caller.tenant, run).await?.map(|run| run.labels).unwrap_or_default();
        let gave = |outputs, labels| Gave { outputs, labels, of_output: None };
        // What it did before it failed is done, and its handles say so.
        let (outputs, failed) = match outcome {
            AgentOutcome::Answered(outputs) => (outputs, None),
            AgentOutcome::Failed(error, Some(outputs)) => (outputs, Some(error)),
            AgentOutcome::Failed(error, None) => return Ok(Came::Failed(error, gave(Map::new(), labels))),
        };
        let last = if config.pins.iter().any(|pin| pin.on_missing == OnMissing::StaleLastSuccess) {
            store.last_outputs(self.caller.tenant, self.run, &self.workflow, &stands.path).await?
        } else {
            None
        };
        let Value::Object(mut given) = serde_json::to_value(&outputs).map_err(Fault::internal)? else {
            return Err(Fault::internal("outputs are an object"));
        };
        let mut is_stale = false;
        for pin in &config.pins {
            let before = last.as_ref().and_then(|last| last.outputs.get(&pin.name));
            // What it gave before carries what it carried then.
            if let Some(last) = last.as_ref().filter(|_| before.is_some() && pins::is_stale(pin, &outputs)) {
                labels = joined(&labels, &last.labels);
                is_stale = true;
            }
            match pins::value(pin, &outputs, before) {
                Ok(value) => drop(given.insert(pin.name.clone(), value)),
                // The first thing that went wrong is the reason.
                Err(_) if failed.is_some() => {}
                Err(error) => return Ok(Came::Failed(error, gave(given, labels))),
            }
        }
        if let Some(last) = last.filter(|last| is_stale && !last.labels.is_empty()) {
            self.workflows.engine().join_earlier(self.caller.tenant, self.run, &last.labels, &last.origins).await?;
        }
        Ok(match failed {
            None => Came::Gave(gave(given, labels)),
            Some(error) => Came::Failed(error, gave(given, labels)),
        })
    }

    /// What a call gives: its output or its error, and either way its envelope as the seed spells it.
    fn came_of(&self, envelope: &Envelope, stands: &WorkflowNode) -> Result<Came, Fault> {
        let seed = serde_json::to_value(ToolEnvelope::from(envelope)).map_err(Fault::internal)?;
        let mut outputs = Map::from_iter([(ENVELOPE.to_owned(), seed)]);
        let labels = envelope.labels.clone();
        Ok(match (&envelope.error, envelope.status) {
            // Half of a value is another value, and what comes after it would be made of that.
            (None, Status::Completed) if envelope.truncated => {
                let message = format!(
                    "the output of `{0}` is larger than it may be and was cut; ask it for less, or raise `max_output_bytes` of `{0}`",
                    envelope.name
                );
                let error = ToolError::because(ErrorCode::ValidationError, "too_large", message);
                Came::Failed(error, Gave { outputs, labels, of_output: None })
            }
            (None, Status::Completed) => {
                outputs.insert(OUTPUT.to_owned(), envelope.output.clone().unwrap_or_default());
                let engine = self.workflows.engine();
                let of_output = Some(engine.along_edge(self.caller.tenant, envelope, &stands.labels));
                Came::Gave(Gave { outputs, labels, of_output })
            }
            (Some(error), _) => Came::Failed(error.clone(), Gave { outputs, labels, of_output: None }),
            (None, status) => {
                let message = format!("the call is {status}");
                let error = ToolError::because(ErrorCode::PolicyDenied, "rejected", message);
                Came::Failed(error, Gave { outputs, labels, of_output: None })
            }
        })
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
