//! One call as its row has it, and the few look-ups that find one.

use std::ops::Range;

use serde_json::Value as Json;
use toolgate_contracts::call::Attachment;
use toolgate_contracts::definition::{EgressClass, Label};
use toolgate_contracts::{
    AgentId, Amount, ApprovalId, CallId, Digest, GrantId, Mode, Principal, RunId, Source, StepId, TenantId, Timestamp,
    TokenId, ToolError, ToolId, WorkspaceId,
};

use super::{ApprovalStatus, RequestKey, Status};
use crate::change::{Change, Durability};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// Everything that is kept of a call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub id: CallId,
    pub call_id: String,
    pub run: RunId,
    pub root_run: RunId,
    /// Whether the run has a row of its own.
    pub in_run: bool,
    pub step: Option<StepId>,
    pub step_title: Option<String>,
    pub seq: u32,
    pub tool: ToolId,
    pub tool_name: String,
    pub tool_version: String,
    pub agent: Option<AgentId>,
    pub workspace: Option<WorkspaceId>,
    pub principal: Principal,
    pub source: Source,
    pub mode: Mode,
    pub class: EgressClass,
    pub effect_free: bool,
    pub status: Status,
    pub approval_status: ApprovalStatus,
    pub approval_required: bool,
    pub approval: Option<ApprovalId>,
    pub approval_decided_by: Option<String>,
    pub approval_reason: Option<String>,
    pub cost_estimate: Option<Amount>,
    pub cost: Option<Amount>,
    pub reported_cost: Option<Amount>,
    /// What is held of which budgets: `[{scope, micros}]`.
    pub reserved: Option<Json>,
    pub usage: Option<Json>,
    pub attempts: u32,
    pub cached: bool,
    pub truncated: bool,
    pub holder: Option<String>,
    pub cancel_requested_by: Option<String>,
    pub definition_digest: Digest,
    pub policy_revision: i64,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub labels: Vec<Label>,
    pub metadata: Option<Json>,
    pub decision: Json,
    /// Payloads are gone once they were erased.
    pub input: Option<Json>,
    pub proposed_input: Option<Json>,
    pub output: Option<Json>,
    pub error: Option<ToolError>,
    pub attachments: Vec<Attachment>,
    pub salt: Option<Vec<u8>>,
    /// Only a person's decision lets it run.
    pub person_required: bool,
    pub grant: Option<GrantId>,
    pub token: Option<TokenId>,
    /// Which secrets it was given: `[{name, scope, version}]`.
    pub secrets: Option<Json>,
}

impl CallRecord {
    /// What whoever called gave, before a person changed it.
    pub fn asked_input(&self) -> Option<&Json> {
        self.proposed_input.as_ref().or(self.input.as_ref())
    }
}

/// A call that was running when its replica went away.
#[derive(Clone, Debug)]
pub struct Interrupted {
    pub tenant: TenantId,
    pub id: CallId,
}

/// A call by its place in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    pub seq: u32,
    pub id: CallId,
    pub call_id: String,
    pub tool: String,
    pub status: Status,
    pub approval: Option<ApprovalId>,
    pub is_edited: bool,
    pub error: Option<ToolError>,
}

const COLUMNS: &str = "c.id, c.call_id, c.run_id, c.root_run_id, c.step_id, s.title, c.seq, c.tool_id, t.name, c.tool_version,
    c.agent_id, c.workspace_id, c.principal, c.source, c.mode, c.egress_class, c.effect_free, c.status, c.approval_status,
    c.approval_required, c.approval_id, c.approval_decided_by, c.approval_reason, c.cost_estimate, c.cost, c.reported_cost,
    c.reserved, c.usage, c.attempts, c.cached, c.truncated, c.holder, c.cancel_requested_by, c.definition_digest,
    c.policy_revision, c.created_at, c.started_at, c.completed_at, c.labels, c.metadata, c.decision, c.input,
    c.proposed_input, c.output, c.error, c.attachments, c.salt, c.person_required, c.grant_id, c.token_id, c.secrets";

impl Store {
    /// One call, whoever asks: rights are judged on what it holds.
    pub async fn call(&self, tenant: TenantId, id: CallId) -> Result<Option<CallRecord>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM calls c JOIN tools t ON t.id = c.tool_id
             LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
             WHERE c.tenant_id = $1 AND c.id = $2"
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(record).transpose()
    }

    /// Some calls whole, newest first; those that are gone are left out.
    pub async fn call_records(&self, tenant: TenantId, ids: &[CallId]) -> Result<Vec<CallRecord>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<String> = (2..ids.len() + 2).map(|place| format!("${place}")).collect();
        let sql = format!(
            "SELECT {COLUMNS} FROM calls c JOIN tools t ON t.id = c.tool_id
             LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
             WHERE c.tenant_id = $1 AND c.id IN ({}) ORDER BY c.id DESC",
            places.join(", ")
        );
        let parameters = ids.iter().map(|id| (*id).into()).collect();
        self.query(&Scope::Tenant(tenant), &sql, parameters).await?.iter().map(record).collect()
    }

    /// A principal's calls behind `after`, oldest first.
    pub async fn calls_of(
        &self,
        tenant: TenantId,
        principal: Principal,
        after: Option<CallId>,
        limit: u32,
    ) -> Result<Vec<CallRecord>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM calls c JOIN tools t ON t.id = c.tool_id
             LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
             WHERE c.tenant_id = $1 AND c.principal = $2 AND c.id > $3 ORDER BY c.id LIMIT {limit}"
        );
        let after = after.unwrap_or(CallId::from_uuid(uuid::Uuid::nil()));
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![principal.to_string().into(), after.into()]).await?;
        rows.iter().map(record).collect()
    }

    /// By the id that a run gave it, of which there may be several in different runs: the newest.
    pub async fn call_by_call_id(
        &self,
        tenant: TenantId,
        principal: Principal,
        call_id: &str,
    ) -> Result<Option<CallId>, Error> {
        let sql =
            "SELECT id FROM calls WHERE tenant_id = $1 AND principal = $2 AND call_id = $3 ORDER BY id DESC LIMIT 1";
        let parameters = vec![principal.to_string().into(), call_id.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// What was asked under a `request_id` before, and which call it became.
    pub async fn answered_request(
        &self,
        tenant: TenantId,
        request: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<(CallId, Digest)>, Error> {
        let sql = "SELECT call_id, body_digest FROM request_ids
            WHERE tenant_id = $1 AND principal = $2 AND request_id = $3 AND expires_at > $4";
        let parameters = vec![(&request.who).into(), (&request.request_id).into(), now.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        rows.first().map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Whether anything is remembered under keys of theirs.
    pub async fn has_requests(&self, tenant: TenantId, who: &str, now: Timestamp) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM request_ids WHERE tenant_id = $1 AND principal = $2 AND expires_at > $3 LIMIT 1";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![who.into(), now.into()]).await?;
        Ok(!rows.is_empty())
    }

    /// Which call has a place in a run.
    pub async fn call_at_place(&self, tenant: TenantId, run: RunId, seq: u32) -> Result<Option<CallId>, Error> {
        let sql = "SELECT call_id FROM run_calls WHERE tenant_id = $1 AND run_id = $2 AND seq = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into(), seq.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// The calls that have places in a run, by place; `is_edited`: a person gave them another input.
    pub async fn placed_calls(&self, tenant: TenantId, run: RunId, places: Range<u32>) -> Result<Vec<Placed>, Error> {
        let sql =
            "SELECT p.seq, c.id, c.call_id, t.name, c.status, c.approval_id, c.proposed_input IS NOT NULL, c.error
            FROM run_calls p
            JOIN calls c ON c.tenant_id = p.tenant_id AND c.id = p.call_id
            JOIN tools t ON t.id = c.tool_id
            WHERE p.tenant_id = $1 AND p.run_id = $2 AND p.seq >= $3 AND p.seq < $4 ORDER BY p.seq";
        let parameters = vec![run.into(), places.start.into(), places.end.into()];
        let placed = |row: &Row| -> Result<Placed, Error> {
            let error: Option<String> = row.get(7)?;
            Ok(Placed {
                seq: row.get(0)?,
                id: row.get(1)?,
                call_id: row.get(2)?,
                tool: row.get(3)?,
                status: row.parse(4)?,
                approval: row.get(5)?,
                is_edited: row.get(6)?,
                error: error.map(|_| row.json(7)).transpose()?,
            })
        };
        self.query(&Scope::Tenant(tenant), sql, parameters).await?.iter().map(placed).collect()
    }

    /// Calls that run on no living replica and are not in a worker's hands; and those that `own` began before `since`,
    /// of which it knows itself whether it still runs them.
    pub async fn interrupted_calls(
        &self,
        now: Timestamp,
        own: &str,
        since: Timestamp,
    ) -> Result<Vec<Interrupted>, Error> {
        let sql = "SELECT c.tenant_id, c.id FROM calls c
            WHERE c.status = 'running' AND c.holder IS NOT NULL
              AND ((c.holder = $2 AND c.created_at < $3)
                OR NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'replica:' || c.holder AND l.expires_at > $1))
              AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = c.tenant_id AND w.call_id = c.id)
              AND NOT EXISTS (SELECT 1 FROM agent_runs a
                WHERE a.tenant_id = c.tenant_id AND a.for_call = c.id AND a.is_open = 1)
              AND NOT EXISTS (SELECT 1 FROM workflow_runs w
                WHERE w.tenant_id = c.tenant_id AND w.for_call = c.id AND w.is_open = 1)
            ORDER BY c.id LIMIT 500";
        let parameters = vec![now.into(), own.into(), since.into()];
        let rows = self.query(&Scope::Everyone("a dead replica's calls are anyone's"), sql, parameters).await?;
        rows.iter().map(|row| Ok(Interrupted { tenant: row.get(0)?, id: row.get(1)? })).collect()
    }

    /// Calls of a tenant of which nobody knows how they ended, oldest first.
    pub async fn unknown_calls(&self, tenant: TenantId, limit: u32) -> Result<Vec<CallRecord>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM calls c JOIN tools t ON t.id = c.tool_id
             LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
             WHERE c.tenant_id = $1 AND c.status = 'outcome_unknown' AND c.status <> 'completed' ORDER BY c.id LIMIT {limit}"
        );
        self.query(&Scope::Tenant(tenant), &sql, vec![]).await?.iter().map(record).collect()
    }

    /// Nobody else uses this database: whoever said so before is gone.
    pub async fn end_replicas(&self) -> Result<(), Error> {
        let mut change = Change::new(TenantId::SYSTEM);
        change.then("/* no tenant: replicas are processes */ DELETE FROM leases WHERE name LIKE 'replica:%'", []);
        self.commit(change).await.map(drop)
    }

    /// Forgets the keys of requests whose day is over, of every tenant, a batch at a time.
    pub async fn forget_requests(&self, now: Timestamp) -> Result<(), Error> {
        let sql = "SELECT DISTINCT tenant_id FROM request_ids WHERE expires_at <= $1 LIMIT 100";
        let rows = self.query(&Scope::Everyone("what has expired, whoever's"), sql, vec![now.into()]).await?;
        for row in &rows {
            let mut change = Change::new(row.get(0)?).durability(Durability::Process);
            change.then("DELETE FROM request_ids WHERE tenant_id = $1 AND expires_at <= $2", [now.into()]);
            self.commit(change).await?;
        }
        Ok(())
    }

    /// Of the calls that `holder` runs, those that somebody wants stopped.
    pub async fn cancelled_calls(&self, holder: &str) -> Result<Vec<CallId>, Error> {
        let sql = "SELECT id FROM calls WHERE status = 'running' AND holder = $1 AND cancel_requested_at IS NOT NULL LIMIT 500";
        let rows = self.query(&Scope::Everyone("whoever's calls this replica runs"), sql, vec![holder.into()]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

fn record(row: &Row) -> Result<CallRecord, Error> {
    let id: CallId = row.get(0)?;
    let own_run: Option<RunId> = row.get(2)?;
    let run = own_run.unwrap_or(id.into());
    Ok(CallRecord {
        id,
        call_id: row.get(1)?,
        run,
        root_run: row.get::<Option<RunId>>(3)?.unwrap_or(run),
        in_run: own_run.is_some(),
        step: row.get(4)?,
        step_title: row.get(5)?,
        seq: row.get(6)?,
        tool: row.get(7)?,
        tool_name: row.get(8)?,
        tool_version: row.get(9)?,
        agent: row.get(10)?,
        workspace: row.get(11)?,
        principal: row.parse(12)?,
        source: row.parse(13)?,
        mode: row.parse(14)?,
        class: row.parse(15)?,
        effect_free: row.get(16)?,
        status: row.parse(17)?,
        approval_status: row.parse(18)?,
        approval_required: row.get(19)?,
        approval: row.get(20)?,
        approval_decided_by: row.get(21)?,
        approval_reason: row.get(22)?,
        cost_estimate: amount(row, 23)?,
        cost: amount(row, 24)?,
        reported_cost: amount(row, 25)?,
        reserved: maybe_json(row, 26)?,
        usage: maybe_json(row, 27)?,
        attempts: row.get(28)?,
        cached: row.get(29)?,
        truncated: row.get(30)?,
        holder: row.get(31)?,
        cancel_requested_by: row.get(32)?,
        definition_digest: row.get(33)?,
        policy_revision: row.get(34)?,
        created_at: row.get(35)?,
        started_at: row.get(36)?,
        completed_at: row.get(37)?,
        labels: row.json(38)?,
        metadata: maybe_json(row, 39)?,
        decision: row.json(40)?,
        input: maybe_json(row, 41)?,
        proposed_input: maybe_json(row, 42)?,
        output: maybe_json(row, 43)?,
        error: maybe_json(row, 44)?,
        attachments: maybe_json(row, 45)?.unwrap_or_default(),
        salt: row.get(46)?,
        person_required: row.get(47)?,
        grant: row.get(48)?,
        token: row.get(49)?,
        secrets: maybe_json(row, 50)?,
    })
}

fn maybe_json<T: serde::de::DeserializeOwned>(row: &Row, at: usize) -> Result<Option<T>, Error> {
    match row.get::<Option<String>>(at)? {
        None => Ok(None),
        Some(_) => row.json(at).map(Some),
    }
}

fn amount(row: &Row, at: usize) -> Result<Option<Amount>, Error> {
    let text: Option<String> = row.get(at)?;
    text.map(|text| text.parse().map_err(|_| Error::Corrupt(format!("column {at} is not an amount")))).transpose()
}
