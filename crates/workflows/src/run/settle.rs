//! A node begins, and what becomes of it is kept: each in one commit, with what the run's log tells of it.

use serde_json::{Map, Value, json};
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::workflow::{Node, NodeKind, NodeState, OnError};
use toolgate_contracts::{CallId, Fault, InputRequestId, RunId, ToolError};
use toolgate_store::events::Place;
use toolgate_store::runs::Step;
use toolgate_store::workflow_runs::WorkflowNode;
use toolgate_store::{Change, Error};

use super::drive::{Driven, Stop, lost};
use super::instant;
use super::next::{ItemError, Items, joined, place_of, worked_through};
use crate::handles::{ERROR, ERRORS, ITEMS};

/// Of a title, or a reason.
const WORDS_BYTES_MAX: usize = 280;

/// What became of what a node asked for.
#[derive(Debug)]
pub(super) enum Came {
    /// What it gives, by the names of its outputs.
    Gave(Gave),
    /// It failed, and gives this beside the error where errors are data.
    Failed(ToolError, Gave),
    /// Somebody else has to go on first.
    Waits(Waits),
}

/// Values by the names of outputs, and what they carry.
#[derive(Debug, Default)]
pub(super) struct Gave {
    pub outputs: Map<String, Value>,
    /// Beside what the node's inputs carry.
    pub labels: Vec<Label>,
    /// Of the value at `output`, where that carries less.
    pub of_output: Option<Vec<Label>>,
}

impl From<Map<String, Value>> for Gave {
    fn from(outputs: Map<String, Value>) -> Self {
        Self { outputs, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    Call(CallId),
    Question(InputRequestId),
    Run(RunId),
}

impl Driven<'_> {
    pub(super) fn new_node(&self, path: String, node: &Node, inputs: Value, labels: Vec<Label>) -> WorkflowNode {
        WorkflowNode {
            path,
            kind: node.kind.word().as_str().to_owned(),
            state: NodeState::Running,
            step_id: None,
            seq: None,
            call_id: None,
            question_id: None,
            child_run_id: None,
            inputs,
            outputs: json!({}),
            labels,
            output_labels: None,
            error: None,
            started_at: self.workflows.engine().now(),
            ended_at: None,
        }
    }

    /// Begins a node. What asks nobody is settled here; the rest is asked for, with its row written before.
    pub(super) async fn begin(
        &mut self,
        path: String,
        node: &Node,
        inputs: Value,
        labels: Vec<Label>,
    ) -> Result<Option<WorkflowNode>, Stop> {
        let mut stands = self.new_node(path, node, inputs, labels);
        let none = Map::new();
        let inputs = stands.inputs.as_object().unwrap_or(&none);
        let step = (!matches!(node.kind, NodeKind::Input)).then(|| self.step(node, &stands.path));
        stands.step_id = step.as_ref().map(|step| step.id);
        let registry = self.workflows.registry();
        let settled = match &node.kind {
            NodeKind::Input => Came::Gave(inputs.clone().into()),
            NodeKind::Condition(config) => came(instant::condition(config, inputs)),
            NodeKind::Output(config) => came(instant::output(config, inputs)),
            NodeKind::Map(config) => match instant::items(inputs)
                .and_then(|items| self.held.takes_items(&self.graph, &stands.path, config, items))
            {
                Ok(()) => {
                    self.keep(stands, None, step).await?;
                    return Ok(None);
                }
                Err(error) => Came::Failed(error, Gave::default()),
            },
            NodeKind::Tool(_) => {
                stands.seq = Some(self.next_seq);
                self.next_seq += 1;
                self.keep(stands.clone(), None, step).await?;
                return Ok(Some(stands));
            }
            NodeKind::Agent(_) => {
                stands.child_run_id = Some(registry.new_id());
                self.keep(stands.clone(), None, step).await?;
                return Ok(Some(stands));
            }
            NodeKind::Human(_) => {
                stands.question_id = Some(registry.new_id());
                self.keep(stands.clone(), None, step).await?;
                return Ok(Some(stands));
            }
        };
        self.settled(stands, node, settled, step).await?;
        Ok(None)
    }

    fn step(&self, node: &Node, path: &str) -> Step {
        let seen =
            |title: &str| title.chars().filter(|letter| !toolgate_contracts::unseen::is_unseen(*letter)).collect();
        let title = node.title.as_deref().map(seen).filter(|title: &String| !title.trim().is_empty());
        let title = shortened(title.as_deref().unwrap_or(path));
        Step {
            id: self.workflows.registry().new_id(),
            run_id: self.run(),
            agent_id: self.caller.agent,
            title,
            created_at: self.workflows.engine().now(),
        }
    }

    pub(super) async fn end_map(&mut self, path: &str, node: &Node) -> Result<(), Stop> {
        let NodeKind::Map(config) = &node.kind else {
            return Err(Fault::internal(format!("the node {path} is no map")).into());
        };
        let Items { values, errors, labels } = worked_through(config, path, self.held.nodes());
        let outputs = Map::from_iter([
            (ITEMS.to_owned(), Value::Array(values)),
            (ERRORS.to_owned(), errors.iter().map(ItemError::value).collect()),
        ]);
        let gave = Gave { outputs, labels, of_output: None };
        let settled = match errors.first() {
            Some(first) if node.on_error == OnError::Fail => {
                let error = first.error.clone().with("index", first.index);
                Came::Failed(error, Gave { outputs: Map::new(), ..gave })
            }
            _ => Came::Gave(gave),
        };
        self.settle(path, settled).await
    }

    /// Keeps what became of a node.
    pub(super) async fn settle(&mut self, path: &str, came: Came) -> Result<(), Stop> {
        let node = place_of(&self.graph, path).map(|(_, node)| node.clone());
        let stands = self.held.get(path).map(|stands| WorkflowNode { inputs: json!({}), ..stands.clone() });
        let (Some(stands), Some(node)) = (stands, node) else {
            return Err(Fault::internal(format!("the node {path} is not there any more")).into());
        };
        self.settled(stands, &node, came, None).await
    }

    async fn settled(
        &mut self,
        mut stands: WorkflowNode,
        node: &Node,
        came: Came,
        step: Option<Step>,
    ) -> Result<(), Stop> {
        let is_data = node.on_error == OnError::Data && !matches!(node.kind, NodeKind::Output(_));
        let told = match self.fitting(&stands.path, came) {
            Came::Waits(waits) => {
                stands.state = NodeState::Waiting;
                match waits {
                    Waits::Call(id) => stands.call_id = Some(id),
                    Waits::Question(id) => stands.question_id = Some(id),
                    Waits::Run(id) => stands.child_run_id = Some(id),
                }
                None
            }
            Came::Gave(gave) => {
                stands.state = NodeState::Completed;
                give(&mut stands, gave);
                Some(EventType::StepCompleted)
            }
            Came::Failed(error, mut gave) if is_data => {
                gave.outputs.insert(ERROR.to_owned(), serde_json::to_value(&error).map_err(Fault::internal)?);
                stands.state = NodeState::Completed;
                give(&mut stands, gave);
                stands.error = Some(error);
                Some(EventType::StepFailed)
            }
            Came::Failed(error, gave) => {
                stands.state = NodeState::Failed;
                give(&mut stands, gave);
                stands.error = Some(error);
                Some(EventType::StepFailed)
            }
        };
        if told.is_some() {
            stands.ended_at = Some(self.workflows.engine().now());
        }
        self.keep(stands, told, step).await
    }

    /// What a node gives, unless the run cannot hold it.
    fn fitting(&self, path: &str, came: Came) -> Came {
        let refused = match &came {
            Came::Gave(gave) | Came::Failed(_, gave) => self.held.takes(&self.graph, path, &gave.outputs).err(),
            Came::Waits(_) => None,
        };
        match (refused, came) {
            (None, came) | (Some(_), came @ Came::Waits(_)) => came,
            (Some(too_much), Came::Gave(gave)) => Came::Failed(too_much, Gave { outputs: Map::new(), ..gave }),
            (Some(_), Came::Failed(error, gave)) => Came::Failed(error, Gave { outputs: Map::new(), ..gave }),
        }
    }

    /// Commits how a node stands, and what is told of it; with the step that shows it, where it begins.
    pub(super) async fn keep(
        &mut self,
        stands: WorkflowNode,
        told: Option<EventType>,
        step: Option<Step>,
    ) -> Result<(), Stop> {
        let engine = self.workflows.engine();
        let now = engine.now();
        let mut change = Change::new(self.tenant);
        change.put_workflow_node(self.run(), engine.replica(), &stands, lost());
        // Also what it gave before and gives again, which nobody read in this run.
        if stands.state.is_settled() && !stands.labels.is_empty() {
            change.join_workflow_labels(self.run(), &stands.labels);
        }
        let actor = self.caller.principal.to_string();
        let event = |event_type, data| NewEvent { event_type, call_id: None, at: now, actor: actor.clone(), data };
        let mut events = Vec::new();
        if let Some(step) = &step {
            change.insert_step(step);
            let data = [("step_id", step.id.to_string()), ("title", step.title.clone())];
            let data = data.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            events.push(event(EventType::StepStarted, data));
        }
        if let (Some(event_type), Some(step)) = (told, stands.step_id) {
            let mut data = Map::from_iter([
                ("step_id".to_owned(), step.to_string().into()),
                ("node".to_owned(), stands.path.as_str().into()),
            ]);
            if let Some(error) = &stands.error {
                data.insert("code".to_owned(), serde_json::to_value(error.code).unwrap_or_default());
            }
            events.push(event(event_type, data));
        }
        if !events.is_empty() {
            change.append_events(self.run(), Place::Counted, None, &events, now);
        }
        match self.workflows.registry().store().commit(change).await {
            Ok(_) => {}
            Err(Error::Unmet(_)) => return Err(Stop::Lost),
            Err(error) => return Err(Fault::from(error).into()),
        }
        engine.signal_run(self.tenant, self.run());
        self.held.put(&self.graph, stands);
        Ok(())
    }
}

fn came(outcome: Result<Map<String, Value>, ToolError>) -> Came {
    match outcome {
        Ok(outputs) => Came::Gave(outputs.into()),
        Err(error) => Came::Failed(error, Gave::default()),
    }
}

fn give(stands: &mut WorkflowNode, gave: Gave) {
    let Gave { outputs, labels, of_output } = gave;
    stands.outputs = Value::Object(outputs);
    stands.labels = joined(&stands.labels, &labels);
    stands.output_labels = of_output.filter(|labels| *labels != stands.labels);
}

/// As much of a title or a reason as a run keeps.
pub(super) fn shortened(text: &str) -> String {
    let end = (0..=text.len().min(WORDS_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}
