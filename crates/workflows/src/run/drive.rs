//! One run from where it stands to its end, or to where it waits: nodes that can begin do, what they give is kept, and
//! what waits for people or for other runs waits as rows, with nobody in memory.
//!
//! Invariant: a node's row is committed before anything is asked for it, with the place of its call in the run, or the id
//! of its question or of its agent's run. Whoever takes the run up asks for the same again, and finds what is there.
//! Nothing is written about a run that another replica took: each change says whose the run must be.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::workflow::{self, Node, NodeKind, NodeState, Workflow};
use toolgate_contracts::{Caller, ErrorCode, Fault, FaultKind, RunId, TenantId, ToolError};
use toolgate_store::workflow_runs::{WorkflowNode, WorkflowRun};
use toolgate_store::{Change, Error};

use super::asking::Asking;
use super::held::{Held, weight};
use super::next::{Given, Next, Whole, arrived, next, place_of, whole};
use super::settle::{Came, shortened};
use crate::Workflows;

/// How often it is looked whether what waits goes on, and whether somebody ended the run, while others are at it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Of what is asked for at once in one run. Past it a node begins when another has its answer, and one at least is asked.
const ASKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Nodes whose values are read at once when a run is taken up.
const READ_AT_ONCE: usize = 50;

/// A run that this replica is at.
pub(super) struct Driven<'w> {
    pub workflows: &'w Workflows,
    pub tenant: TenantId,
    pub caller: Caller,
    pub kept: WorkflowRun,
    pub graph: Workflow,
    pub held: Held,
    pub(super) next_seq: u32,
}

/// The path of a node, how many bytes it was given along, and what came.
type Answered = (String, usize, Result<Came, Fault>);

/// What is asked for, and how much of it was given along.
#[derive(Default)]
struct Flying {
    asked: FuturesUnordered<BoxFuture<'static, Answered>>,
    bytes: usize,
}

impl Workflows {
    pub(super) async fn drive(&self, tenant: TenantId, run: RunId) -> Result<Left, Fault> {
        let store = self.registry().store();
        let Some(kept) = store.workflow_run(tenant, run).await?.filter(|kept| kept.is_open) else {
            return Ok(Left::Done);
        };
        let graph = workflow::read(kept.graph.clone()).map_err(|error| Fault::internal(error.message))?;
        let all = store.workflow_node_states(tenant, run).await?;
        let next_seq = all.iter().filter_map(|node| node.seq).max().map_or(0, |seq| seq + 1);
        let mut held = Held::new(&graph, all);
        for some in held.still_read(&graph).chunks(READ_AT_ONCE) {
            for node in store.workflow_nodes_at(tenant, run, some).await? {
                held.put(&graph, node);
            }
        }
        if self.is_over(tenant, run).await? {
            return self.close(tenant, &kept, &graph, &held).await.map(|()| Left::Done);
        }
        let caller = match self.engine().acting_again(tenant, &kept.asker).await {
            Ok(caller) => caller,
            // Nobody is left in whose name it could go on.
            Err(fault) if matches!(fault.kind(), FaultKind::Forbidden | FaultKind::NotFound) => {
                if self.hold(tenant, run).await? {
                    self.engine().end_for_good(tenant, run, fault.told()).await?;
                }
                return self.close(tenant, &kept, &graph, &held).await.map(|()| Left::Done);
            }
            Err(fault) => return Err(fault),
        };
        let driven = Driven { workflows: self, tenant, caller, kept, graph, held, next_seq };
        match Box::pin(driven.go()).await {
            Err(Stop::Fault(fault)) => Err(fault),
            // Another replica has it, or it is done.
            Err(Stop::Lost) => Ok(Left::Done),
            Ok(left) => Ok(left),
        }
    }

    async fn is_over(&self, tenant: TenantId, run: RunId) -> Result<bool, Fault> {
        Ok(self.engine().run_state(tenant, run).await?.is_none_or(RunState::is_final))
    }

    /// Whether the run is still this replica's.
    async fn hold(&self, tenant: TenantId, run: RunId) -> Result<bool, Fault> {
        let mut change = Change::new(tenant);
        change.hold_workflow_run(run, self.engine().replica(), lost());
        match self.registry().store().commit(change).await {
            Ok(_) => Ok(true),
            Err(Error::Unmet(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Nobody takes a run up any more that is over. What it gave follows from how its nodes stand, whoever closes it; the
    /// call that it answers comes first, so that whoever finds it open does that again.
    async fn close(&self, tenant: TenantId, kept: &WorkflowRun, graph: &Workflow, held: &Held) -> Result<(), Fault> {
        let stands = whole(graph, held.nodes());
        if !self.hold(tenant, kept.run).await? {
            return Ok(());
        }
        self.answer(tenant, kept, &stands).await?;
        let mut change = Change::new(tenant);
        change.close_workflow_run(kept.run, self.engine().replica(), &given(&stands), lost());
        change.cut_off_workflow_nodes(kept.run, &cut_off(), self.engine().now());
        match self.registry().store().commit(change).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn lost() -> Fault {
    Fault::conflict("another replica took the run", "there is nothing to do")
}

fn given(stands: &Whole) -> Value {
    match stands {
        Whole::Completed(outputs) => outputs.clone(),
        Whole::Open | Whole::Failed(..) => Value::Null,
    }
}

/// What became of a node that the end of its run came before.
fn cut_off() -> ToolError {
    ToolError::because(ErrorCode::PolicyDenied, "cancelled", "the run ended before this did")
}

/// Why nobody is at a run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is over, or another replica has it, or whoever comes next takes it up.
    Done,
    /// It goes on when something that it waits for has ended.
    Waits,
}

pub(super) enum Stop {
    Lost,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Driven<'_> {
    pub(super) fn run(&self) -> RunId {
        self.kept.run
    }

    async fn go(mut self) -> Result<Left, Stop> {
        let graph = self.graph.clone();
        let workflows = self.workflows;
        let mut flying = Flying::default();
        let unsettled = self.held.nodes().values().filter(|node| !node.state.is_settled());
        for stands in unsettled {
            if let Some((_, node)) = place_of(&graph, &stands.path)
                && !matches!(node.kind, NodeKind::Map(_))
            {
                flying.asked.push(self.asked_again(node.clone(), stands.path.clone()));
            }
        }
        loop {
            if workflows.stopping().is_cancelled() {
                return self.give_up().await;
            }
            let mut moved = false;
            for step in next(&graph, self.held.nodes()) {
                match step {
                    Next::Skip { path, node } => {
                        moved = true;
                        let skipped = self.new_node(path, node, json!({}), Vec::new());
                        let ended_at = Some(workflows.engine().now());
                        let skipped = WorkflowNode { state: NodeState::Skipped, ended_at, ..skipped };
                        self.keep(skipped, None, None).await?;
                    }
                    Next::EndMap { path, node } => {
                        moved = true;
                        self.end_map(&path, node).await?;
                        if self.held.has_failed(&path) {
                            break;
                        }
                    }
                    Next::Begin { path, node } => {
                        let given = Given { inputs: &self.kept.inputs, labels: &self.kept.labels };
                        let (inputs, labels) = arrived(&graph, given, self.held.nodes(), &path);
                        let inputs = Value::Object(inputs);
                        let bytes = weight(&inputs);
                        if asks(node) && !flying.asked.is_empty() && flying.bytes + bytes > ASKED_BYTES_MAX {
                            continue;
                        }
                        moved = true;
                        if path == node.id && matches!(node.kind, NodeKind::Input) {
                            // It has them from here on, and nobody else reads them.
                            self.kept.inputs = json!({});
                        }
                        if let Some(stands) = self.begin(path.clone(), node, inputs, labels).await? {
                            flying.bytes += bytes;
                            flying.asked.push(self.asked(node.clone(), stands, bytes));
                        }
                        // What can be done is another list now: nothing begins beside what failed, and what those
                        // beside it would have read is gone.
                        if self.held.has_failed(&path) {
                            break;
                        }
                    }
                }
            }
            if moved {
                continue;
            }
            if flying.asked.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                () = workflows.stopping().cancelled() => return self.give_up().await,
                Some((path, bytes, came)) = flying.asked.next() => {
                    flying.bytes -= bytes;
                    let came = came?;
                    self.settle(&path, came).await?;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if workflows.is_over(self.tenant, self.run()).await? {
                        break;
                    }
                    for (node, stands) in self.gone_on(&graph).await? {
                        let path = stands.path.clone();
                        self.keep(WorkflowNode { state: NodeState::Running, ..stands }, None, None).await?;
                        flying.asked.push(self.asked_again(node, path));
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
        for stands in self.held.nodes().values().filter(|node| node.state == NodeState::Waiting) {
            let Some((_, node)) = place_of(graph, &stands.path) else { continue };
            if self.is_ready(stands).await? {
                found.push((node.clone(), stands.clone()));
            }
        }
        Ok(found)
    }

    /// Nothing more can be done here: the run is over, or it waits.
    async fn end(self, graph: &Workflow) -> Result<Left, Stop> {
        let (workflows, tenant, run) = (self.workflows, self.tenant, self.run());
        if workflows.is_over(tenant, run).await? {
            workflows.close(tenant, &self.kept, graph, &self.held).await?;
            return Ok(Left::Done);
        }
        let stands = whole(graph, self.held.nodes());
        let (state, reason) = match &stands {
            Whole::Open => return self.leave().await,
            Whole::Completed(_) => (RunState::Completed, None),
            Whole::Failed(path, error) => (RunState::Failed, Some(shortened(&format!("{path}: {}", error.message)))),
        };
        if !workflows.hold(tenant, run).await? {
            return Err(Stop::Lost);
        }
        workflows.answer(tenant, &self.kept, &stands).await?;
        let (replica, now) = (workflows.engine().replica(), workflows.engine().now());
        let close = |change: &mut Change| {
            change.close_workflow_run(run, replica, &given(&stands), lost());
            change.cut_off_workflow_nodes(run, &cut_off(), now);
        };
        let opener = super::opener(&self.caller);
        let ended = workflows.engine().end_run_with(&opener, run, state, reason.as_deref(), close);
        match Box::pin(ended).await {
            Ok(_) => Ok(Left::Done),
            // Somebody ended it, or took it, in this very moment.
            Err(fault) if fault.kind() == FaultKind::Conflict => {
                workflows.close(tenant, &self.kept, graph, &self.held).await?;
                Ok(Left::Done)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Lets go of the run until what it waits for has ended.
    async fn leave(&self) -> Result<Left, Stop> {
        let mut change = Change::new(self.tenant);
        change.leave_workflow_run(self.run(), self.workflows.engine().replica());
        let waiting = self.held.nodes().values().filter(|node| node.state == NodeState::Waiting);
        let waits_for: Vec<RunId> = waiting.filter_map(|node| node.child_run_id).chain([self.run()]).collect();
        self.workflows.listen_for(self.run(), waits_for);
        self.workflows.registry().store().commit(change).await.map_err(Fault::from)?;
        Ok(Left::Waits)
    }

    /// Lets go of it on the way, because the program ends.
    async fn give_up(&self) -> Result<Left, Stop> {
        let mut change = Change::new(self.tenant);
        change.give_up_workflow_run(self.run(), self.workflows.engine().replica());
        self.workflows.registry().store().commit(change).await.map_err(Fault::from)?;
        Ok(Left::Done)
    }

    fn asking(&self) -> Asking {
        Asking {
            workflows: self.workflows.clone(),
            caller: self.caller.clone(),
            run: self.run(),
            workflow: self.kept.workflow.clone(),
        }
    }

    /// For the first time, with what is in memory anyway.
    fn asked(&self, node: Node, stands: WorkflowNode, bytes: usize) -> BoxFuture<'static, Answered> {
        let asking = self.asking();
        Box::pin(async move {
            let path = stands.path.clone();
            (path, bytes, asking.ask(&node, stands, Manner::First).await)
        })
    }

    /// Once more, with what was noted of it.
    fn asked_again(&self, node: Node, path: String) -> BoxFuture<'static, Answered> {
        let asking = self.asking();
        Box::pin(async move {
            let came = asking.ask_again(&node, &path).await;
            (path, 0, came)
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
            // Over, and whoever hosted it has said what it gave.
            Some(run) => Ok(store.agent_run(self.tenant, run).await?.is_none_or(|agent| !agent.is_open)),
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

/// Whether a node asks others, and is waited for.
fn asks(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Tool(_) | NodeKind::Agent(_) | NodeKind::Human(_))
}
