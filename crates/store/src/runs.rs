//! Runs and their steps.

use std::collections::HashMap;

use serde::Serialize;
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::NewEvent;
use toolgate_contracts::{
    AgentId, Amount, Fault, Limits, Page, Principal, RunId, StepId, TenantId, Timestamp, WorkspaceId,
};
use utoipa::ToSchema;

use crate::calls::{Sight, TokenSight};
use crate::change::{Change, Expect};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Kind, Row, Store, Value};

pub use toolgate_contracts::call::{RunKind, RunState};

/// Which runs are listed.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub agent: Option<AgentId>,
    pub kind: Option<RunKind>,
    /// Of this workflow, by its name.
    pub workflow: Option<String>,
}

/// A run as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Run {
    pub id: RunId,
    pub root_run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    #[schema(value_type = String)]
    pub principal: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What drives it.
    pub kind: RunKind,
    pub state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub limits: Limits,
    pub labels: Vec<Label>,
    /// Where its labels came from.
    #[schema(value_type = Object)]
    pub origins: serde_json::Value,
    /// How many calls were counted against `max_tool_calls`.
    pub calls_counted: u32,
    /// How long it waited for people, or stood still: that time does not count against `max_wall_s`.
    pub waited_ms: u64,
    /// Since when a kill switch holds it up, or its agent is frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Step {
    pub id: StepId,
    pub run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    pub title: String,
    pub created_at: Timestamp,
}

/// What a run took, with all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSums {
    /// Of its calls and of its model's answers.
    pub cost: Amount,
    /// Answers of a model that has no price.
    pub unpriced: u32,
}

const COLUMNS: &str =
    "id, root_run_id, parent_run_id, workspace_id, agent_id, principal, title, state, reason, limits, labels,
    origins, calls_counted, waited_ms, created_at, updated_at, kind, frozen_at";

impl Change {
    pub fn insert_run(&mut self, run: &Run) -> &mut Self {
        let Run {
            id,
            root_run_id,
            parent_run_id,
            workspace_id,
            agent_id,
            principal,
            title,
            kind,
            state,
            reason,
            limits,
            labels,
            origins,
            calls_counted,
            waited_ms: _,
            frozen_at: _,
            created_at,
            updated_at,
        } = run;
        self.then(
            "INSERT INTO runs (tenant_id, id, root_run_id, parent_run_id, workspace_id, agent_id, principal, title, state, reason,
                limits, labels, origins, calls_counted, created_at, updated_at, kind)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
            [
                (*id).into(),
                (*root_run_id).into(),
                (*parent_run_id).into(),
                (*workspace_id).into(),
                (*agent_id).into(),
                principal.to_string().into(),
                title.clone().into(),
                state.as_str().into(),
                reason.clone().into(),
                serde_json::to_string(limits).unwrap_or_default().into(),
                crate::labels::bits(labels).into(),
                origins.to_string().into(),
                (*calls_counted).into(),
                (*created_at).into(),
                (*updated_at).into(),
                kind.as_str().into(),
            ],
        )
    }

    /// Takes `calls` places and counts as many, also those that a limit then refuses. Returned are the first place and
    /// the new count; a run that has ended is refused with `refused`.
    pub fn count_calls(&mut self, run: RunId, calls: u32, now: Timestamp, refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE runs SET next_seq = next_seq + $3, calls_counted = calls_counted + $3, updated_at = $4,
                state = CASE WHEN state = 'queued' THEN 'running' ELSE state END
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')
             RETURNING next_seq - $3, calls_counted",
            [run.into(), i64::from(calls).into(), now.into()],
        )
    }

    /// The same for one call whose caller chose the place: the next one that is given lies behind it.
    pub fn count_call_at(&mut self, run: RunId, seq: u32, now: Timestamp, refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE runs SET next_seq = CASE WHEN next_seq > CAST($3 AS bigint) THEN next_seq ELSE CAST($3 AS bigint) + 1 END,
                calls_counted = calls_counted + 1,
                updated_at = $4, state = CASE WHEN state = 'queued' THEN 'running' ELSE state END
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')
             RETURNING CAST($3 AS bigint), calls_counted",
            [run.into(), i64::from(seq).into(), now.into()],
        )
    }

    /// Counts a call of a run below this one; returned is the new count.
    pub fn count_call_below(&mut self, run: RunId, now: Timestamp, refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE runs SET calls_counted = calls_counted + 1, updated_at = $3
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')
             RETURNING calls_counted",
            [run.into(), now.into()],
        )
    }

    /// Moves a run that has not ended; `ended` tells whoever comes too late.
    pub fn move_run(
        &mut self,
        run: RunId,
        state: RunState,
        reason: Option<&str>,
        now: Timestamp,
        ended: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, ended),
            "UPDATE runs SET state = $3, reason = $4, updated_at = $5
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')",
            [run.into(), state.as_str().into(), reason.into(), now.into()],
        )
    }

    /// Cancels a run that has not ended, because one above it has; `event` is `run.cancelled`. One that has is as it is.
    pub fn cancel_run(&mut self, run: RunId, reason: &str, event: &NewEvent, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE runs SET state = 'cancelled', reason = $3, event_seq = event_seq + 1, updated_at = $4
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')",
            [run.into(), reason.into(), now.into()],
        );
        self.append_taken(run, event, now)
    }

    /// Open runs of this agent, or of none, stand still since then.
    pub fn freeze_runs(&mut self, agent: Option<AgentId>, since: Timestamp) -> &mut Self {
        self.then(
            "UPDATE runs SET frozen_at = CASE WHEN created_at > $4 THEN created_at ELSE $4 END
             WHERE tenant_id = $1 AND state IN ('queued', 'running', 'waiting_human') AND frozen_at IS NULL
                AND (agent_id = $2 OR ($3 AND agent_id IS NULL))",
            [agent.into(), agent.is_none().into(), since.into()],
        )
    }

    /// And go on. The time is not theirs; where they wait for people, the wait has it already.
    pub fn thaw_runs(&mut self, agent: Option<AgentId>, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE runs SET frozen_at = NULL,
                waited_ms = waited_ms + CASE WHEN waiting_since IS NULL THEN CAST($4 AS bigint) - frozen_at ELSE 0 END
             WHERE tenant_id = $1 AND frozen_at IS NOT NULL AND (agent_id = $2 OR ($3 AND agent_id IS NULL))",
            [agent.into(), agent.is_none().into(), now.into()],
        )
    }

    pub fn insert_step(&mut self, step: &Step) -> &mut Self {
        let Step { id, run_id, agent_id, title, created_at } = step;
        self.then(
            "INSERT INTO steps (tenant_id, id, run_id, agent_id, title, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
            [(*id).into(), (*run_id).into(), (*agent_id).into(), title.into(), (*created_at).into()],
        )
    }
}

impl Store {
    pub async fn run(&self, tenant: TenantId, id: RunId) -> Result<Option<Run>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE tenant_id = $1 AND id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(run).transpose()
    }

    /// Whose runs are open and go on.
    pub async fn running_agents(&self, tenant: TenantId) -> Result<Vec<Option<AgentId>>, Error> {
        let sql = "SELECT DISTINCT agent_id FROM runs
            WHERE tenant_id = $1 AND state IN ('queued', 'running', 'waiting_human') AND frozen_at IS NULL";
        self.query(&Scope::Tenant(tenant), sql, vec![]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Whose runs stand still, whoever's.
    pub async fn frozen_runs(&self) -> Result<Vec<(TenantId, Option<AgentId>)>, Error> {
        let sql = "SELECT DISTINCT tenant_id, agent_id FROM runs WHERE frozen_at IS NOT NULL";
        let rows = self.query(&Scope::Everyone("whose runs go on"), sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// The runs under a root, it included, oldest first.
    pub async fn runs_under(&self, tenant: TenantId, root: RunId, limit: u32) -> Result<Vec<Run>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE tenant_id = $1 AND root_run_id = $2 ORDER BY id LIMIT $3");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![root.into(), limit.into()]).await?;
        rows.iter().map(run).collect()
    }

    /// A run and all that were opened below it, however deep.
    pub async fn runs_below(&self, tenant: TenantId, run: &Run) -> Result<Vec<RunId>, Error> {
        let sql = "WITH RECURSIVE below (id) AS (
                SELECT top.id FROM runs top WHERE top.tenant_id = $1 AND top.id = $2
                UNION
                SELECT r.id FROM runs r JOIN below b ON b.id = r.parent_run_id
                WHERE r.tenant_id = $1 AND r.root_run_id = $3
            )
            SELECT id FROM below";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.id.into(), run.root_run_id.into()]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub async fn steps(&self, tenant: TenantId, run: RunId, limit: u32) -> Result<Vec<Step>, Error> {
        let sql = "SELECT id, run_id, agent_id, title, created_at FROM steps
            WHERE tenant_id = $1 AND run_id = $2 ORDER BY id LIMIT $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into(), limit.into()]).await?;
        rows.iter().map(step).collect()
    }

    pub async fn step(&self, tenant: TenantId, run: RunId, id: StepId) -> Result<Option<Step>, Error> {
        let sql = "SELECT id, run_id, agent_id, title, created_at FROM steps
            WHERE tenant_id = $1 AND run_id = $2 AND id = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into(), id.into()]).await?;
        rows.first().map(step).transpose()
    }

    /// What each of these runs took, with all below it.
    pub async fn run_sums(&self, tenant: TenantId, runs: &[RunId]) -> Result<HashMap<RunId, RunSums>, Error> {
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let (from, to) = micros(self.kind());
        let sql = format!(
            "WITH RECURSIVE below (top, id) AS (
                SELECT r.id, r.id FROM runs r WHERE r.tenant_id = $1 AND r.id IN ({})
                UNION ALL
                SELECT b.top, r.id FROM below b JOIN runs r ON r.tenant_id = $1 AND r.parent_run_id = b.id
            ), took (top, cost, unpriced) AS (
                SELECT b.top, {from}c.cost{to}, 0 FROM below b
                JOIN calls c ON c.tenant_id = $1 AND c.run_id = b.id WHERE c.cost IS NOT NULL
                UNION ALL
                SELECT b.top, coalesce({from}t.cost{to}, 0), CASE WHEN t.cost IS NULL THEN 1 ELSE 0 END FROM below b
                JOIN agent_turns t ON t.tenant_id = $1 AND t.run_id = b.id WHERE t.answered_at IS NOT NULL
                UNION ALL
                SELECT b.top, a.unanswered_micros, 0 FROM below b
                JOIN agent_runs a ON a.tenant_id = $1 AND a.run_id = b.id WHERE a.unanswered_micros > 0
            )
            SELECT top, CAST(sum(cost) AS bigint), CAST(sum(unpriced) AS bigint) FROM took GROUP BY top",
            places(runs.len())
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, runs.iter().map(|run| (*run).into()).collect()).await?;
        let sums = |row: &Row| -> Result<_, Error> {
            let unpriced = u32::try_from(row.get::<i64>(2)?).unwrap_or(u32::MAX);
            Ok((row.get(0)?, RunSums { cost: Amount::from_micros(row.get(1)?), unpriced }))
        };
        rows.iter().map(sums).collect()
    }

    /// What the agents of these runs were asked, in one line, with the labels of whoever asked.
    pub async fn asked_of(&self, tenant: TenantId, runs: &[RunId]) -> Result<Vec<(RunId, String, Vec<Label>)>, Error> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT run_id, asked, asked_labels FROM agent_runs
             WHERE tenant_id = $1 AND asked IS NOT NULL AND run_id IN ({})",
            places(runs.len())
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, runs.iter().map(|run| (*run).into()).collect()).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, crate::labels::of_bits(row.get(2)?)))).collect()
    }

    /// Runs with rows of their own, newest first: everyone's, or those of a viewer and the agents they manage.
    pub async fn runs(
        &self,
        tenant: TenantId,
        sight: &Sight,
        RunFilter { state, agent, kind, workflow }: RunFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Run>, Fault> {
        let filter = format!("{state:?} {agent:?} {kind:?} {workflow:?}");
        let list = ListOf { tenant, list: "runs", filter: &filter };
        let before = cursor.map(|cursor| list.key(cursor)).transpose()?;
        let mut condition = String::new();
        let mut parameters: Vec<Value> = Vec::new();
        let bind = |value: Value, parameters: &mut Vec<Value>| {
            parameters.push(value);
            parameters.len() + 1
        };
        if let Some(before) = before.and_then(|key| key.parse::<RunId>().ok()) {
            condition = format!(" AND id < ${}", bind(before.into(), &mut parameters));
        }
        if let Some(state) = state {
            condition = format!("{condition} AND state = ${}", bind(state.as_str().into(), &mut parameters));
        }
        if let Some(agent) = agent {
            condition = format!("{condition} AND agent_id = ${}", bind(agent.into(), &mut parameters));
        }
        if let Some(kind) = kind {
            condition = format!("{condition} AND kind = ${}", bind(kind.as_str().into(), &mut parameters));
        }
        if let Some(workflow) = workflow {
            let name = bind(workflow.into(), &mut parameters);
            condition = format!(
                "{condition} AND id IN (SELECT w.run_id FROM workflow_runs w WHERE w.tenant_id = $1 AND w.workflow = ${name})"
            );
        }
        match sight {
            Sight::Everything => {}
            Sight::OwnAndManaged { viewer, agents } => {
                let mut seen = format!("principal = ${}", bind(viewer.to_string().into(), &mut parameters));
                for agent in agents {
                    seen = format!("{seen} OR agent_id = ${}", bind((*agent).into(), &mut parameters));
                }
                condition = format!("{condition} AND ({seen})");
            }
            Sight::Token(TokenSight { viewer, agent, run, tools: _ }) => {
                let own = bind(viewer.to_string().into(), &mut parameters);
                condition = format!("{condition} AND principal = ${own}");
                condition = match agent {
                    Some(agent) => format!("{condition} AND agent_id = ${}", bind((*agent).into(), &mut parameters)),
                    None => format!("{condition} AND agent_id IS NULL"),
                };
                if let Some(run) = run {
                    condition = format!("{condition} AND id = ${}", bind((*run).into(), &mut parameters));
                }
            }
        }
        let sql =
            format!("SELECT {COLUMNS} FROM runs WHERE tenant_id = $1{condition} ORDER BY id DESC LIMIT {}", limit + 1);
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut items = rows.iter().map(run).collect::<Result<Vec<_>, Error>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }
}

/// `$2, $3, …`: behind the tenant.
fn places(count: usize) -> String {
    (2..count + 2).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

/// Decimal text as whole micros.
const fn micros(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Sqlite => ("CAST(round(CAST(", " AS REAL) * 1000000) AS INTEGER)"),
        Kind::Postgres => ("CAST(CAST(", " AS numeric) * 1000000 AS bigint)"),
    }
}

fn run(row: &Row) -> Result<Run, Error> {
    Ok(Run {
        id: row.get(0)?,
        root_run_id: row.get(1)?,
        parent_run_id: row.get(2)?,
        workspace_id: row.get(3)?,
        agent_id: row.get(4)?,
        principal: row.parse(5)?,
        title: row.get(6)?,
        state: row.parse(7)?,
        reason: row.get(8)?,
        limits: row.json(9)?,
        labels: crate::labels::of_bits(row.get(10)?),
        origins: row.json(11)?,
        calls_counted: row.get(12)?,
        waited_ms: u64::try_from(row.get::<i64>(13)?).unwrap_or(0),
        created_at: row.get(14)?,
        updated_at: row.get(15)?,
        kind: row.parse(16)?,
        frozen_at: row.get(17)?,
    })
}

fn step(row: &Row) -> Result<Step, Error> {
    Ok(Step {
        id: row.get(0)?,
        run_id: row.get(1)?,
        agent_id: row.get(2)?,
        title: row.get(3)?,
        created_at: row.get(4)?,
    })
}
