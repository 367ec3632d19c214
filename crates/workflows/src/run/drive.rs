//! One run from where it stands to its end, or to where it waits: nodes that can begin do, what they give is kept, and
//! what waits for people or for other runs waits as rows, with nobody in memory.
//!
//! Invariant: a node's row is committed before anything is asked for it, with the place of its call in the run. Whoever
//! takes the run up asks for the same place again, and the engine answers with the call that is there.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::workflow::{self, Node, NodeKind, NodeState, OnError, Workflow};
use toolgate_contracts::{CallId, Caller, Fault, InputRequestId, RunId, TenantId, ToolError};
use toolgate_store::events::Place;
use toolgate_store::workflow_runs::{WorkflowNode, WorkflowRun};
use toolgate_store::{Change, Error};

use super::instant;
use super::next::{ItemError, Next, Nodes, Whole, next, whole};
use crate::Workflows;
use crate::handles::{ERROR, ERRORS, ITEMS};

/// How often it is looked whether what waits goes on, and whether somebody ended the run, while others are at it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const TITLE_CHARS_MAX: usize = 200;

/// What became of what a node asked for.
#[derive(Debug)]
pub(super) enum Came {
    /// What it gives, by the names of its outputs.
    Gave(Map<String, Value>),
    /// It failed, and gives this beside the error where errors are data.
    Failed(ToolError, Map<String, Value>),
    /// Somebody else has to go on first.
    Waits(Waits),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    Call(CallId),
    Question(InputRequestId),
    Run(RunId),
}

/// A run that this replica is at.
pub(super) struct Driven<'w> {
    pub workflows: &'w Workflows,
    pub tenant: TenantId,
    pub caller: Caller,
    pub kept: WorkflowRun,
    pub graph: Workflow,
    pub nodes: Nodes,
    next_seq: u32,
}

type Flying = FuturesUnordered<BoxFuture<'static, (String, Result<Came, Fault>)>>;

impl Workflows {
    pub(crate) async fn drive(&self, tenant: TenantId, run: RunId) -> Result<(), Fault> {
        let store = self.registry().store();
        let Some(kept) = store.workflow_run(tenant, run).await?.filter(|kept| kept.is_open) else { return Ok(()) };
        let graph = workflow::read(kept.graph.clone()).map_err(|error| Fault::internal(error.message))?;
        let nodes: Nodes =
            store.workflow_nodes(tenant, run).await?.into_iter().map(|node| (node.path.clone(), node)).collect();
        if self.is_over(tenant, run).await? {
            return self.close(tenant, run, &graph, &nodes).await;
        }
        let caller = match self.engine().acting_again(tenant, &kept.asker).await {
            Ok(caller) => caller,
            Err(fault) => {
                // Nobody is left in whose name it could end: what is open in it lapses by itself.
                tracing::info!(%run, "a workflow does not go on: {}", fault.told());
                return self.close(tenant, run, &graph, &nodes).await;
            }
        };
        let next_seq = nodes.values().filter_map(|node| node.seq).max().map_or(0, |seq| seq + 1);
        let driven = Driven { workflows: self, tenant, caller, kept, graph, nodes, next_seq };
        match Box::pin(driven.go()).await {
            Err(Stop::Fault(fault)) => Err(fault),
            // Another replica has it, or it is done.
            Err(Stop::Lost) | Ok(()) => Ok(()),
        }
    }

    async fn is_over(&self, tenant: TenantId, run: RunId) -> Result<bool, Fault> {
        Ok(self.engine().run_state(tenant, run).await?.is_none_or(RunState::is_final))
    }

    /// Nobody takes it up any more. What it gave follows from how its nodes stand, whoever closes it.
    async fn close(&self, tenant: TenantId, run: RunId, graph: &Workflow, nodes: &Nodes) -> Result<(), Fault> {
        let outputs = match whole(graph, nodes) {
            Whole::Completed(outputs) => outputs,
            Whole::Open | Whole::Failed(..) => Value::Null,
        };
        let mut change = Change::new(tenant);
        let closed = Fault::conflict("the run is closed already", "there is nothing to do");
        change.close_workflow_run(run, &outputs, closed);
        match self.registry().store().commit(change).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

enum Stop {
    Lost,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Driven<'_> {
    fn run(&self) -> RunId {
        self.kept.run
    }

    async fn go(mut self) -> Result<(), Stop> {
        let graph = self.graph.clone();
        let workflows = self.workflows;
        let mut flying: Flying = FuturesUnordered::new();
        let unsettled: Vec<WorkflowNode> =
            self.nodes.values().filter(|node| !node.state.is_settled()).cloned().collect();
        for stands in unsettled {
            if let Some(node) = node_at(&graph, &stands.path)
                && !matches!(node.kind, NodeKind::Map(_))
            {
                flying.push(self.asked(node.clone(), stands, Manner::Again));
            }
        }
        loop {
            if workflows.stopping().is_cancelled() {
                return self.give_up().await;
            }
            let mut moved = false;
            for step in next(&graph, &self.kept.inputs, &self.nodes) {
                moved = true;
                match step {
                    Next::Skip { path, node } => {
                        let skipped =
                            WorkflowNode { state: NodeState::Skipped, ..self.new_node(path, node, Map::new()) };
                        let ended_at = Some(workflows.engine().now());
                        self.keep(WorkflowNode { ended_at, ..skipped }, None).await?;
                    }
                    Next::EndMap { path, node, items, errors } => self.end_map(&path, node, items, &errors).await?,
                    Next::Begin { path, node, inputs } => {
                        if let Some(stands) = self.begin(path, node, inputs).await? {
                            flying.push(self.asked(node.clone(), stands, Manner::First));
                        }
                    }
                }
            }
            if moved {
                continue;
            }
            if flying.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                () = workflows.stopping().cancelled() => return self.give_up().await,
                Some((path, came)) = flying.next() => {
                    let came = came?;
                    self.settle(&path, came).await?;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if workflows.is_over(self.tenant, self.run()).await? {
                        break;
                    }
                    for (node, stands) in self.gone_on(&graph).await? {
                        let running = WorkflowNode { state: NodeState::Running, ..stands };
                        self.keep(running.clone(), None).await?;
                        flying.push(self.asked(node, running, Manner::Again));
                    }
                }
            }
        }
        drop(flying);
        self.end(&graph).await
    }

    /// Waiting nodes whose wait is over.
    async fn gone_on(&self, graph: &Workflow) -> Result<Vec<(Node, WorkflowNode)>, Fault> {
        let mut found = Vec::new();
        for stands in self.nodes.values().filter(|node| node.state == NodeState::Waiting) {
            let Some(node) = node_at(graph, &stands.path) else { continue };
            if self.is_ready(stands).await? {
                found.push((node.clone(), stands.clone()));
            }
        }
        Ok(found)
    }

    fn new_node(&self, path: String, node: &Node, inputs: Map<String, Value>) -> WorkflowNode {
        WorkflowNode {
            path,
            kind: node.kind.word().as_str().to_owned(),
            state: NodeState::Running,
            step_id: None,
            seq: None,
            call_id: None,
            question_id: None,
            child_run_id: None,
            inputs: Value::Object(inputs),
            outputs: json!({}),
            error: None,
            started_at: self.workflows.engine().now(),
            ended_at: None,
        }
    }

    /// Begins a node. What asks nobody is settled here; the rest is asked for, with its row written before.
    async fn begin(
        &mut self,
        path: String,
        node: &Node,
        inputs: Map<String, Value>,
    ) -> Result<Option<WorkflowNode>, Stop> {
        let mut stands = self.new_node(path, node, inputs.clone());
        if !matches!(node.kind, NodeKind::Input) {
            let title = node.title.as_deref().unwrap_or(&stands.path);
            let title: String = title.chars().take(TITLE_CHARS_MAX).collect();
            stands.step_id = Some(self.workflows.engine().add_step(&self.caller, self.run(), &title).await?.id);
        }
        let settled = match &node.kind {
            NodeKind::Input => Came::Gave(inputs),
            NodeKind::Condition(config) => came(instant::condition(config, &inputs)),
            NodeKind::Output(config) => came(instant::output(config, &inputs)),
            NodeKind::Map(_) => match instant::items(&inputs) {
                Ok(()) => {
                    self.keep(stands, None).await?;
                    return Ok(None);
                }
                Err(error) => Came::Failed(error, Map::new()),
            },
            NodeKind::Tool(_) => {
                stands.seq = Some(self.next_seq);
                self.next_seq += 1;
                self.keep(stands.clone(), None).await?;
                return Ok(Some(stands));
            }
            NodeKind::Agent(_) | NodeKind::Human(_) => {
                self.keep(stands.clone(), None).await?;
                return Ok(Some(stands));
            }
        };
        let path = stands.path.clone();
        self.nodes.insert(path.clone(), stands);
        self.settle(&path, settled).await?;
        Ok(None)
    }

    async fn end_map(&mut self, path: &str, node: &Node, items: Vec<Value>, errors: &[ItemError]) -> Result<(), Stop> {
        let gave = Map::from_iter([
            (ITEMS.to_owned(), Value::Array(items)),
            (ERRORS.to_owned(), errors.iter().map(ItemError::value).collect()),
        ]);
        let settled = match errors.first() {
            Some(first) if node.on_error == OnError::Fail => {
                let error = first.error.clone().with("index", first.index);
                Came::Failed(error, Map::new())
            }
            _ => Came::Gave(gave),
        };
        self.settle(path, settled).await
    }

    /// Keeps what became of a node.
    async fn settle(&mut self, path: &str, came: Came) -> Result<(), Stop> {
        let graph = &self.graph;
        let (Some(mut stands), Some(node)) = (self.nodes.get(path).cloned(), node_at(graph, path)) else {
            return Err(Fault::internal(format!("the node {path} is not there any more")).into());
        };
        let is_data = node.on_error == OnError::Data && !matches!(node.kind, NodeKind::Output(_));
        let told = match came {
            Came::Waits(waits) => {
                stands.state = NodeState::Waiting;
                match waits {
                    Waits::Call(id) => stands.call_id = Some(id),
                    Waits::Question(id) => stands.question_id = Some(id),
                    Waits::Run(id) => stands.child_run_id = Some(id),
                }
                None
            }
            Came::Gave(outputs) => {
                stands.state = NodeState::Completed;
                stands.outputs = Value::Object(outputs);
                Some(EventType::StepCompleted)
            }
            Came::Failed(error, mut beside) if is_data => {
                beside.insert(ERROR.to_owned(), serde_json::to_value(&error).map_err(Fault::internal)?);
                stands.state = NodeState::Completed;
                stands.outputs = Value::Object(beside);
                stands.error = Some(error);
                Some(EventType::StepFailed)
            }
            Came::Failed(error, beside) => {
                stands.state = NodeState::Failed;
                stands.outputs = Value::Object(beside);
                stands.error = Some(error);
                Some(EventType::StepFailed)
            }
        };
        if told.is_some() {
            stands.ended_at = Some(self.workflows.engine().now());
        }
        self.keep(stands, told).await
    }

    /// Commits how a node stands, and what is told of it.
    async fn keep(&mut self, stands: WorkflowNode, told: Option<EventType>) -> Result<(), Stop> {
        let engine = self.workflows.engine();
        let now = engine.now();
        let mut change = Change::new(self.tenant);
        let lost = Fault::conflict("another replica took the run", "there is nothing to do");
        change.put_workflow_node(self.run(), engine.replica(), &stands, lost);
        if let (Some(event_type), Some(step)) = (told, stands.step_id) {
            let mut data = Map::from_iter([
                ("step_id".to_owned(), step.to_string().into()),
                ("node".to_owned(), stands.path.as_str().into()),
            ]);
            if let Some(error) = &stands.error {
                data.insert("code".to_owned(), serde_json::to_value(error.code).unwrap_or_default());
            }
            let actor = self.caller.principal.to_string();
            let event = NewEvent { event_type, call_id: None, at: now, actor, data };
            change.append_events(self.run(), Place::Counted, None, &[event], now);
        }
        match self.workflows.registry().store().commit(change).await {
            Ok(_) => {}
            Err(Error::Unmet(_)) => return Err(Stop::Lost),
            Err(error) => return Err(Fault::from(error).into()),
        }
        engine.signal_run(self.tenant, self.run());
        self.nodes.insert(stands.path.clone(), stands);
        Ok(())
    }

    /// Nothing more can be done here: the run is over, or it waits.
    async fn end(self, graph: &Workflow) -> Result<(), Stop> {
        let (workflows, tenant, run) = (self.workflows, self.tenant, self.run());
        if !workflows.is_over(tenant, run).await? {
            let (state, reason) = match whole(graph, &self.nodes) {
                Whole::Open => return self.leave().await,
                Whole::Completed(_) => (RunState::Completed, None),
                Whole::Failed(path, error) => {
                    let reason = format!("{path}: {}", error.message);
                    (RunState::Failed, Some(reason.chars().take(TITLE_CHARS_MAX).collect::<String>()))
                }
            };
            // Closed afterwards: whoever finds a run that is over and open closes it.
            Box::pin(workflows.engine().end_run(&self.caller, run, state, reason.as_deref())).await?;
        }
        Ok(workflows.close(tenant, run, graph, &self.nodes).await?)
    }

    /// Lets go of the run until what it waits for has ended.
    async fn leave(&self) -> Result<(), Stop> {
        let mut change = Change::new(self.tenant);
        change.leave_workflow_run(self.run(), self.workflows.engine().replica());
        self.workflows.registry().store().commit(change).await.map_err(Fault::from)?;
        Ok(())
    }

    /// Lets go of it on the way, because the program ends.
    async fn give_up(&self) -> Result<(), Stop> {
        let mut change = Change::new(self.tenant);
        change.give_up_workflow_run(self.run(), self.workflows.engine().replica());
        self.workflows.registry().store().commit(change).await.map_err(Fault::from)?;
        Ok(())
    }

    fn asked(
        &self,
        node: Node,
        stands: WorkflowNode,
        manner: Manner,
    ) -> BoxFuture<'static, (String, Result<Came, Fault>)> {
        let asking = super::asking::Asking {
            workflows: self.workflows.clone(),
            caller: self.caller.clone(),
            run: self.run(),
            workflow: self.kept.workflow.clone(),
            taken: self.nodes.values().filter_map(|node| node.question_id).collect(),
        };
        Box::pin(async move {
            let path = stands.path.clone();
            (path, asking.ask(&node, stands, manner).await)
        })
    }

    async fn is_ready(&self, stands: &WorkflowNode) -> Result<bool, Fault> {
        let store = self.workflows.registry().store();
        if let Some(call) = stands.call_id {
            return Ok(store.call(self.tenant, call).await?.is_none_or(|call| call.status.is_final()));
        }
        if let Some(question) = stands.question_id {
            let found = store.question(self.tenant, question).await?;
            let open = toolgate_contracts::InputRequestState::Open;
            return Ok(found.is_none_or(|question| question.request.state != open));
        }
        match stands.child_run_id {
            Some(run) => self.workflows.is_over(self.tenant, run).await,
            None => Ok(true),
        }
    }
}

/// Whether a node is asked for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    First,
    /// It was asked for before, here or by a replica that is gone.
    Again,
}

fn came(outcome: Result<Map<String, Value>, ToolError>) -> Came {
    match outcome {
        Ok(outputs) => Came::Gave(outputs),
        Err(error) => Came::Failed(error, Map::new()),
    }
}

/// The node of a path, through the bodies of maps.
fn node_at<'g>(graph: &'g Workflow, path: &str) -> Option<&'g Node> {
    let mut nodes = &graph.nodes;
    let mut parts = path.split('/');
    loop {
        let id = parts.next()?;
        let node = nodes.iter().find(|node| node.id == id)?;
        match (&node.kind, parts.next()) {
            (_, None) => return Some(node),
            (NodeKind::Map(map), Some(_)) => nodes = &map.body.nodes,
            _ => return None,
        }
    }
}
