//! Runs of workflows, and how each of their nodes stands.
//!
//! A run is at most one replica's at a time: whoever takes it says whom they take it from, and whoever lost it can write
//! nothing more about it. Deliberately absent: what the texts mean.

use serde::Serialize;
use toolgate_contracts::call::RunState;
use toolgate_contracts::definition::Label;
use toolgate_contracts::workflow::NodeState;
use toolgate_contracts::{CallId, Fault, InputRequestId, RunId, StepId, TenantId, Timestamp, ToolError};
use utoipa::ToSchema;

use crate::approvals::Asker;
use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// Runs that are looked at in one round.
pub const DUE_WORKFLOWS_MAX: u32 = 100;
/// Nodes that one statement reads by their paths.
const NODES_AT_ONCE: usize = 50;
/// Of what the nodes of one page hold, as text; the rest is on the next.
pub const NODE_PAGE_BYTES_MAX: i64 = 4 * 1024 * 1024;

/// A run of a workflow, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRun {
    pub run: RunId,
    pub workflow: String,
    pub revision: u32,
    /// As it was when the run began.
    pub graph: serde_json::Value,
    pub inputs: serde_json::Value,
    pub asker: Asker,
    /// The replica that is at it.
    pub holder: Option<String>,
    /// The call that it answers when it ends.
    pub for_call: Option<CallId>,
    /// The label context of whoever reads that answer.
    pub reader: Option<String>,
    /// Of its inputs: what whoever began it had seen.
    pub labels: Vec<Label>,
    pub outputs: Option<serde_json::Value>,
    pub is_open: bool,
    pub created_at: Timestamp,
}

/// A node of a run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct WorkflowNode {
    /// Ids and, below a map, indices: `each/0/look`.
    pub path: String,
    pub kind: String,
    pub state: NodeState,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub step_id: Option<StepId>,
    /// The place of its call in the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub question_id: Option<InputRequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub child_run_id: Option<RunId>,
    /// What arrived, by the names of the inputs.
    #[schema(value_type = Object)]
    pub inputs: serde_json::Value,
    /// What it gave, by the names of the outputs; those that are not here are dead.
    #[schema(value_type = Object)]
    pub outputs: serde_json::Value,
    /// Of what arrived and, once it is settled, of what it gives.
    pub labels: Vec<Label>,
    /// Of what it gives at `output`, where that carries less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_labels: Option<Vec<Label>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Where a node is in the order in which those of a run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    pub started_at: Timestamp,
    pub path: String,
}

/// How many nodes of a run stand alike at one place of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NodeStanding {
    /// Ids alone: `each/look` for those of all items.
    pub node: String,
    pub state: NodeState,
    pub count: u32,
}

/// The place in the graph of a node in a run: every other part of a path is the number of an item.
fn in_graph(path: &str) -> String {
    path.split('/').step_by(2).collect::<Vec<_>>().join("/")
}

/// How a run stands as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowStands {
    pub state: RunState,
    pub is_open: bool,
    /// Whether a replica is at it.
    pub is_held: bool,
}

impl WorkflowStands {
    pub fn waits_for_people(&self) -> bool {
        self.state == RunState::WaitingHuman && !self.is_held
    }
}

/// What a node gave before, and what that carries.
#[derive(Clone, Debug, PartialEq)]
pub struct LastOutputs {
    pub outputs: serde_json::Value,
    pub labels: Vec<Label>,
    /// Where what that run has seen came from.
    pub origins: serde_json::Value,
}

/// A run that somebody should take up, and whom they take it from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueWorkflow {
    pub tenant: TenantId,
    pub run: RunId,
    pub holder: Option<String>,
}

const COLUMNS: &str =
    "run_id, workflow, revision, graph, inputs, asker, holder, for_call, outputs, is_open, created_at, reader, labels";

const NODE_COLUMNS: &str =
    "path, kind, state, step_id, seq, call_id, question_id, child_run_id, inputs, outputs, error,
    started_at, ended_at, labels, output_labels";

impl Change {
    pub fn insert_workflow_run(&mut self, run: &WorkflowRun) -> &mut Self {
        let WorkflowRun { run, workflow, revision, graph, inputs, asker, holder, for_call, reader, labels, .. } = run;
        self.then(
            "INSERT INTO workflow_runs
                (tenant_id, run_id, workflow, revision, graph, inputs, asker, holder, for_call, reader, labels, created_at)
             SELECT $1, $2, $3, CAST($4 AS bigint), $5, $6, $7, $8, $9, $10, $11, created_at FROM runs WHERE tenant_id = $1 AND id = $2",
            [
                (*run).into(),
                workflow.into(),
                (*revision).into(),
                graph.to_string().into(),
                inputs.to_string().into(),
                json_text(asker),
                holder.clone().into(),
                (*for_call).into(),
                reader.clone().into(),
                json_text(labels),
            ],
        )
    }

    /// Takes up a run that nobody holds, or that `from` held, whose replica is gone.
    pub fn take_workflow_run(&mut self, run: RunId, from: Option<&str>, holder: &str, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE workflow_runs SET holder = $3
             WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1 AND coalesce(holder, '') = $4",
            [run.into(), holder.into(), from.unwrap_or_default().into()],
        )
    }

    /// Lets go of a run until something that it waits for has ended.
    pub fn leave_workflow_run(&mut self, run: RunId, holder: &str) -> &mut Self {
        self.then(
            "UPDATE workflow_runs SET holder = NULL WHERE tenant_id = $1 AND run_id = $2 AND holder = $3",
            [run.into(), holder.into()],
        )
    }

    /// Gives up a run on the way, for whoever comes next: held by nobody who lives, it is taken up whatever it waits for.
    pub fn give_up_workflow_run(&mut self, run: RunId, holder: &str) -> &mut Self {
        self.then(
            "UPDATE workflow_runs SET holder = '' WHERE tenant_id = $1 AND run_id = $2 AND holder = $3",
            [run.into(), holder.into()],
        )
    }

    /// Nobody takes it up any more. `lost`: another replica took the run.
    pub fn close_workflow_run(
        &mut self,
        run: RunId,
        holder: &str,
        outputs: &serde_json::Value,
        lost: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE workflow_runs SET is_open = 0, holder = NULL, outputs = $3
             WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1 AND holder = $4",
            [run.into(), outputs.to_string().into(), holder.into()],
        )
    }

    /// Settles what its run ended before. To be said in the change that closes the run.
    pub fn cut_off_workflow_nodes(&mut self, run: RunId, error: &ToolError, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE workflow_nodes SET state = 'cancelled', error = $3, ended_at = CAST($4 AS bigint)
             WHERE tenant_id = $1 AND run_id = $2 AND state IN ('running', 'waiting')",
            [run.into(), json_text(error), at.into()],
        )
    }

    /// What a node of it carries, the run does.
    pub fn join_workflow_labels(&mut self, run: RunId, labels: &[Label]) -> &mut Self {
        self.then(
            "UPDATE runs SET labels = labels | $3 WHERE tenant_id = $1 AND id = $2 AND (labels | $3) <> labels",
            [run.into(), crate::labels::bits(labels).into()],
        )
    }

    /// Whether it is still this replica's. `lost`: another replica took the run.
    pub fn hold_workflow_run(&mut self, run: RunId, holder: &str, lost: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE workflow_runs SET holder = $3
             WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1 AND holder = $3",
            [run.into(), holder.into()],
        )
    }

    /// How a node stands now; what arrived there is what it began with. `lost`: another replica took the run.
    pub fn put_workflow_node(&mut self, run: RunId, holder: &str, node: &WorkflowNode, lost: Fault) -> &mut Self {
        let WorkflowNode {
            path,
            kind,
            state,
            step_id,
            seq,
            call_id,
            question_id,
            child_run_id,
            inputs,
            outputs,
            labels,
            output_labels,
            error,
            started_at,
            ended_at,
        } = node;
        self.expecting(
            Expect::Rows(1, lost),
            "INSERT INTO workflow_nodes (tenant_id, run_id, path, node, kind, state, step_id, seq, call_id, question_id, child_run_id,
                inputs, outputs, error, started_at, ended_at, labels, output_labels)
             SELECT w.tenant_id, w.run_id, $3, $19, $4, $5, $6, CAST($7 AS bigint), $8, $9, $10, $11, $12, $13,
                CAST($14 AS bigint), CAST($15 AS bigint), $17, $18
             FROM workflow_runs w WHERE w.tenant_id = $1 AND w.run_id = $2 AND w.holder = $16 AND w.is_open = 1
             ON CONFLICT (tenant_id, run_id, path) DO UPDATE SET state = excluded.state, step_id = excluded.step_id,
                seq = excluded.seq, call_id = excluded.call_id, question_id = excluded.question_id,
                child_run_id = excluded.child_run_id, outputs = excluded.outputs, error = excluded.error, ended_at = excluded.ended_at, labels = excluded.labels,
                output_labels = excluded.output_labels",
            [
                run.into(),
                path.into(),
                kind.into(),
                state.as_str().into(),
                (*step_id).into(),
                seq.map(i64::from).into(),
                (*call_id).into(),
                (*question_id).into(),
                (*child_run_id).into(),
                inputs.to_string().into(),
                outputs.to_string().into(),
                error.as_ref().map(|error| serde_json::to_string(error).unwrap_or_default()).into(),
                (*started_at).into(),
                (*ended_at).into(),
                holder.into(),
                json_text(labels),
                output_labels.as_ref().map(|labels| serde_json::to_string(labels).unwrap_or_default()).into(),
                in_graph(path).into(),
            ],
        )
    }
}

impl Store {
    pub async fn workflow_run(&self, tenant: TenantId, run: RunId) -> Result<Option<WorkflowRun>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM workflow_runs WHERE tenant_id = $1 AND run_id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![run.into()]).await?;
        rows.first().map(workflow_run).transpose()
    }

    /// How a run stands, without its graph and its nodes.
    pub async fn workflow_stands(&self, tenant: TenantId, run: RunId) -> Result<Option<WorkflowStands>, Error> {
        let sql = "SELECT r.state, w.is_open, w.holder FROM workflow_runs w
            JOIN runs r ON r.tenant_id = w.tenant_id AND r.id = w.run_id WHERE w.tenant_id = $1 AND w.run_id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
        let stands = |row: &Row| {
            let holder: Option<String> = row.get(2)?;
            let is_open = row.get::<i64>(1)? != 0;
            Ok(WorkflowStands { state: row.parse(0)?, is_open, is_held: holder.is_some() })
        };
        rows.first().map(stands).transpose()
    }

    /// How all nodes of a run stand, without what arrived there and what they gave.
    pub async fn workflow_node_states(&self, tenant: TenantId, run: RunId) -> Result<Vec<WorkflowNode>, Error> {
        let sql = "SELECT path, kind, state, step_id, seq, call_id, question_id, child_run_id, '{}', '{}', error,
                started_at, ended_at, labels, output_labels FROM workflow_nodes
            WHERE tenant_id = $1 AND run_id = $2 ORDER BY started_at, path";
        self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?.iter().map(node).collect()
    }

    /// Some nodes of a run with all that is known of them, in the order in which they began.
    pub async fn workflow_nodes_at(
        &self,
        tenant: TenantId,
        run: RunId,
        paths: &[String],
    ) -> Result<Vec<WorkflowNode>, Error> {
        let mut found = Vec::with_capacity(paths.len());
        for some in paths.chunks(NODES_AT_ONCE) {
            let places: Vec<String> = (3..some.len() + 3).map(|place| format!("${place}")).collect();
            let sql = format!(
                "SELECT {NODE_COLUMNS} FROM workflow_nodes WHERE tenant_id = $1 AND run_id = $2 AND path IN ({})
                 ORDER BY started_at, path",
                places.join(", ")
            );
            let parameters = std::iter::once(run.into()).chain(some.iter().map(Into::into)).collect();
            for row in self.query(&Scope::Tenant(tenant), &sql, parameters).await? {
                found.push(node(&row)?);
            }
        }
        Ok(found)
    }

    /// Nodes of a run behind another, in the order in which they began: at most so many, and not more than
    /// `NODE_PAGE_BYTES_MAX` of what they hold, but one at least. Whether there are more.
    pub async fn workflow_node_page(
        &self,
        tenant: TenantId,
        run: RunId,
        state: Option<NodeState>,
        after: Option<&NodePlace>,
        limit: u32,
    ) -> Result<(Vec<WorkflowNode>, bool), Error> {
        let sql = "SELECT path,
                CAST(octet_length(inputs) + octet_length(outputs) + coalesce(octet_length(error), 0) AS bigint)
            FROM workflow_nodes
            WHERE tenant_id = $1 AND run_id = $2 AND ($3 = '' OR state = $3)
              AND (started_at > $4 OR (started_at = $4 AND path > $5)) ORDER BY started_at, path LIMIT $6";
        let (started_at, path) = after.map_or((i64::MIN, ""), |after| (after.started_at.millis(), after.path.as_str()));
        let parameters = vec![
            run.into(),
            state.map(NodeState::as_str).unwrap_or_default().into(),
            started_at.into(),
            path.into(),
            i64::from(limit).saturating_add(1).into(),
        ];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        let (mut paths, mut bytes) = (Vec::new(), 0_i64);
        for row in rows.iter().take(limit as usize) {
            bytes = bytes.saturating_add(row.get::<i64>(1)?);
            if bytes > NODE_PAGE_BYTES_MAX && !paths.is_empty() {
                break;
            }
            paths.push(row.get::<String>(0)?);
        }
        let more = rows.len() > paths.len();
        Ok((self.workflow_nodes_at(tenant, run, &paths).await?, more))
    }

    /// How many nodes of a run stand how, by their places in the graph.
    pub async fn workflow_standing(&self, tenant: TenantId, run: RunId) -> Result<Vec<NodeStanding>, Error> {
        let sql = "SELECT node, state, count(*) FROM workflow_nodes WHERE tenant_id = $1 AND run_id = $2
            GROUP BY node, state ORDER BY min(started_at), node, state";
        let standing = |row: &Row| Ok(NodeStanding { node: row.get(0)?, state: row.parse(1)?, count: row.get(2)? });
        self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?.iter().map(standing).collect()
    }

    /// What a node gave when a run of the same workflow last succeeded, among those of whoever this run is of.
    pub async fn last_outputs(
        &self,
        tenant: TenantId,
        run: RunId,
        workflow: &str,
        path: &str,
    ) -> Result<Option<LastOutputs>, Error> {
        let sql = "SELECT n.outputs, n.labels, r.origins FROM workflow_runs w
            JOIN runs r ON r.tenant_id = w.tenant_id AND r.id = w.run_id AND r.state = 'completed'
                AND r.principal = (SELECT own.principal FROM runs own WHERE own.tenant_id = $1 AND own.id = $4)
            JOIN workflow_nodes n ON n.tenant_id = w.tenant_id AND n.run_id = w.run_id AND n.path = $3 AND n.state = 'completed'
            WHERE w.tenant_id = $1 AND w.workflow = $2 ORDER BY w.run_id DESC LIMIT 1";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![workflow.into(), path.into(), run.into()]).await?;
        rows.first()
            .map(|row| Ok(LastOutputs { outputs: row.json(0)?, labels: row.json(1)?, origins: row.json(2)? }))
            .transpose()
    }

    /// Runs that could go on, behind `after`: whoever was at them is gone; or nobody is, and what one of their nodes waited
    /// for has ended, or nothing of theirs waits, or somebody ended them. Those that `own` holds are among them: it knows
    /// itself which of them it is at.
    pub async fn due_workflow_runs(
        &self,
        after: Option<RunId>,
        own: &str,
        now: Timestamp,
    ) -> Result<Vec<DueWorkflow>, Error> {
        self.due_workflows("w.run_id > $1", after, own, now).await
    }

    /// The same of one run alone.
    pub async fn due_workflow_run(&self, run: RunId, own: &str, now: Timestamp) -> Result<Option<DueWorkflow>, Error> {
        Ok(self.due_workflows("w.run_id = $1", Some(run), own, now).await?.pop())
    }

    async fn due_workflows(
        &self,
        which: &str,
        run: Option<RunId>,
        own: &str,
        now: Timestamp,
    ) -> Result<Vec<DueWorkflow>, Error> {
        let sql = format!(
            "SELECT w.tenant_id, w.run_id, w.holder FROM workflow_runs w
            JOIN runs r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
            WHERE w.is_open = 1 AND (r.frozen_at IS NULL OR r.state IN ('completed', 'failed', 'cancelled')) AND {which}
              AND (w.holder = $4 OR (w.holder IS NOT NULL
                  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'replica:' || w.holder AND l.expires_at > $2))
                OR w.holder IS NULL AND (r.state IN ('completed', 'failed', 'cancelled')
                OR NOT EXISTS (SELECT 1 FROM workflow_nodes n
                    WHERE n.tenant_id = w.tenant_id AND n.run_id = w.run_id AND n.state = 'waiting')
                OR EXISTS (SELECT 1 FROM workflow_nodes n
                    LEFT JOIN calls c ON c.tenant_id = n.tenant_id AND c.id = n.call_id
                    LEFT JOIN input_requests q ON q.tenant_id = n.tenant_id AND q.id = n.question_id
                    LEFT JOIN agent_runs s ON s.tenant_id = n.tenant_id AND s.run_id = n.child_run_id
                    WHERE n.tenant_id = w.tenant_id AND n.run_id = w.run_id AND n.state = 'waiting'
                      AND (c.status NOT IN ('pending', 'approved', 'running') OR q.state <> 'open'
                        OR s.is_open = 0
                        OR (c.id IS NULL AND q.id IS NULL AND s.run_id IS NULL)))))
            ORDER BY w.run_id LIMIT $3"
        );
        let run = run.unwrap_or(RunId::from_uuid(uuid::Uuid::nil()));
        let parameters = vec![run.into(), now.into(), DUE_WORKFLOWS_MAX.into(), own.into()];
        let rows = self.query(&Scope::Everyone("runs that go on are anyone's"), &sql, parameters).await?;
        rows.iter().map(|row| Ok(DueWorkflow { tenant: row.get(0)?, run: row.get(1)?, holder: row.get(2)? })).collect()
    }
}

fn workflow_run(row: &Row) -> Result<WorkflowRun, Error> {
    let outputs: Option<String> = row.get(8)?;
    Ok(WorkflowRun {
        run: row.get(0)?,
        workflow: row.get(1)?,
        revision: row.get(2)?,
        graph: row.json(3)?,
        inputs: row.json(4)?,
        asker: row.json(5)?,
        holder: row.get(6)?,
        for_call: row.get(7)?,
        outputs: outputs.map(|_| row.json(8)).transpose()?,
        is_open: row.get::<i64>(9)? != 0,
        created_at: row.get(10)?,
        reader: row.get(11)?,
        labels: row.json(12)?,
    })
}

fn node(row: &Row) -> Result<WorkflowNode, Error> {
    let (error, output_labels): (Option<String>, Option<String>) = (row.get(10)?, row.get(14)?);
    Ok(WorkflowNode {
        path: row.get(0)?,
        kind: row.get(1)?,
        state: row.parse(2)?,
        step_id: row.get(3)?,
        seq: row.get(4)?,
        call_id: row.get(5)?,
        question_id: row.get(6)?,
        child_run_id: row.get(7)?,
        inputs: row.json(8)?,
        outputs: row.json(9)?,
        error: error.map(|_| row.json(10)).transpose()?,
        started_at: row.get(11)?,
        ended_at: row.get(12)?,
        labels: row.json(13)?,
        output_labels: output_labels.map(|_| row.json(14)).transpose()?,
    })
}
