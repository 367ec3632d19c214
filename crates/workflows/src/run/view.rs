//! A run of a workflow is looked at: as a whole, and its nodes page by page.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use toolgate_contracts::call::RunState;
use toolgate_contracts::page::PAGE_ITEMS_DEFAULT;
use toolgate_contracts::workflow::NodeState;
use toolgate_contracts::{Caller, Fault, Page, RunId, Timestamp};
use toolgate_store::cursor::ListOf;
use toolgate_store::runs::Run;
use toolgate_store::workflow_runs::{NodePlace, NodeStanding, WorkflowNode, WorkflowRun, WorkflowStands};
use utoipa::ToSchema;

use crate::Workflows;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often whoever waits for a run looks whether it could go on and nobody is at it.
const TAKE_UP_EVERY: Duration = Duration::from_secs(1);

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
    /// How many nodes stand how, by their places in the graph, whatever is on the page.
    pub standing: Vec<NodeStanding>,
    /// The first page of its nodes, in the order in which they began.
    pub nodes: Page<WorkflowNode>,
}

/// Which nodes of a run are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodesWanted<'q> {
    /// Only those that stand so.
    pub state: Option<NodeState>,
    pub cursor: Option<&'q str>,
    /// Of one page; fewer where they hold much.
    pub limit: Option<u32>,
}

impl Workflows {
    /// How a run stands, to whoever may look at it. On a data folder without a server nobody else would take it up.
    pub async fn view(&self, caller: &Caller, run: RunId) -> Result<WorkflowRunView, Fault> {
        let unknown = || Fault::not_found("run", run);
        self.engine().whole_run(caller, run).await?.ok_or_else(unknown)?;
        let store = self.registry().store();
        let kept = store.workflow_run(caller.tenant, run).await?.ok_or_else(unknown)?;
        if kept.is_open && !self.at().contains(&run) {
            self.take_up_one(run).await?;
        }
        let (kept, nodes, found) = match self.parts(caller, run).await? {
            // It ended while it was read: what it gave and how its nodes stand are of a moment before.
            (kept, _, found) if kept.is_open && found.state.is_final() => self.parts(caller, run).await?,
            parts => parts,
        };
        Ok(WorkflowRunView {
            run_id: run,
            workflow: kept.workflow,
            revision: kept.revision,
            state: found.state,
            reason: found.reason,
            input: kept.inputs,
            output: kept.outputs.filter(|_| found.state == RunState::Completed),
            standing: store.workflow_standing(caller.tenant, run).await?,
            nodes,
        })
    }

    /// What is kept of a run, its first nodes, and the run: last, because its labels are those of all that was read.
    async fn parts(&self, caller: &Caller, run: RunId) -> Result<(WorkflowRun, Page<WorkflowNode>, Run), Fault> {
        let kept = self.registry().store().workflow_run(caller.tenant, run).await?;
        let kept = kept.ok_or_else(|| Fault::not_found("run", run))?;
        let nodes = self.page(caller, run, NodesWanted::default()).await?;
        let found = self.read_by(caller, run).await?;
        Ok((kept, nodes, found))
    }

    /// Nodes of a run, to whoever may look at it.
    pub async fn nodes(
        &self,
        caller: &Caller,
        run: RunId,
        wanted: NodesWanted<'_>,
    ) -> Result<Page<WorkflowNode>, Fault> {
        let unknown = || Fault::not_found("run", run);
        self.engine().whole_run(caller, run).await?.ok_or_else(unknown)?;
        self.stands(caller, run).await?;
        let page = self.page(caller, run, wanted).await?;
        self.read_by(caller, run).await?;
        Ok(page)
    }

    /// Whoever was given what nodes took and gave has read it: with the labels that the run has by now.
    async fn read_by(&self, caller: &Caller, run: RunId) -> Result<Run, Fault> {
        let found = self.registry().store().run(caller.tenant, run).await?;
        let found = found.ok_or_else(|| Fault::not_found("run", run))?;
        self.engine().join_run_read(caller, &found).await?;
        Ok(found)
    }

    async fn page(&self, caller: &Caller, run: RunId, wanted: NodesWanted<'_>) -> Result<Page<WorkflowNode>, Fault> {
        let NodesWanted { state, cursor, limit } = wanted;
        let filter = format!("{run} {}", state.map(NodeState::as_str).unwrap_or_default());
        let list = ListOf { tenant: caller.tenant, list: "workflow_nodes", filter: &filter };
        let after = cursor.map(|cursor| list.key(cursor)).transpose()?.as_deref().and_then(place_in);
        let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT);
        let store = self.registry().store();
        let (items, more) = store.workflow_node_page(caller.tenant, run, state, after.as_ref(), limit).await?;
        let last = items.last().filter(|_| more);
        let next_cursor = last.map(|last| list.cursor(&format!("{} {}", last.started_at.millis(), last.path)));
        Ok(Page { items, next_cursor })
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

/// What a cursor says.
fn place_in(key: &str) -> Option<NodePlace> {
    let (millis, path) = key.split_once(' ')?;
    Some(NodePlace { started_at: Timestamp::from_millis(millis.parse().ok()?), path: path.to_owned() })
}
