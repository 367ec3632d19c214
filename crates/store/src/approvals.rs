//! Calls that wait for people: what is asked of whom, and the votes.
//!
//! Invariant: an approval moves once out of `open`, in the same commit as its call.

use serde::Serialize;
use serde_json::Value as Json;
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::{
    AgentId, ApprovalId, ApprovalState, AskReason, CallId, Digest, Fault, Page, Principal, RunId, TenantId, Timestamp,
    ToolId, UserId, Vote, WorkspaceId,
};

use crate::change::{Change, Expect};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

#[derive(Clone, Debug)]
pub struct Approval {
    pub id: ApprovalId,
    pub call: CallId,
    pub tool: ToolId,
    pub agent: Option<AgentId>,
    pub workspace: Option<WorkspaceId>,
    pub mode: HitlMode,
    pub state: ApprovalState,
    pub person_required: bool,
    pub reasons: Vec<AskReason>,
    pub need: u32,
    /// What the votes must fulfil, each of it: `[{need, from}]`.
    pub approvers: Json,
    pub separation: bool,
    pub round: u32,
    pub input_digest: Digest,
    pub edited_by: Option<String>,
    pub asker: Json,
    pub binding: Json,
    pub expires_at: Timestamp,
    pub remind_at: Option<Timestamp>,
    pub frozen_at: Option<Timestamp>,
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<String>,
    pub decision_reason: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CastVote {
    pub voter: String,
    pub vote: Vote,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// Which approvals a list is about.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ApprovalFilter {
    pub state: Option<ApprovalState>,
    pub tool: Option<ToolId>,
    pub agent: Option<AgentId>,
    pub workspace: Option<WorkspaceId>,
    pub seen_by: SeenBy,
}

/// Whose eyes a list is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum SeenBy {
    #[default]
    Everybody,
    /// What belongs to no workspace or to one of this user's, and what they asked for themselves.
    Member { user: UserId, own: Principal },
    /// What this one asked for, or one of these agents did.
    Asker { own: Principal, agents: Vec<AgentId> },
}

/// How an approval ended.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    pub state: ApprovalState,
    pub by: &'a str,
    pub reason: Option<&'a str>,
    pub at: Timestamp,
}

const COLUMNS: &str = "id, call_id, tool_id, agent_id, workspace_id, mode, state, person_required, reasons, need, approvers,
    separation, round, input_digest, edited_by, asker, binding, expires_at, remind_at, frozen_at, decided_at, decided_by,
    decision_reason, created_at";
impl Change {
    pub fn insert_approval(&mut self, approval: &Approval) -> &mut Self {
        let Approval {
            id,
            call,
            tool,
            agent,
            workspace,
            mode,
            state,
            person_required,
            reasons,
            need,
            approvers,
            separation,
            round,
            input_digest,
            edited_by,
            asker,
            binding,
            expires_at,
            remind_at,
            frozen_at,
            decided_at,
            decided_by,
            decision_reason,
            created_at,
        } = approval;
        self.then(
            "INSERT INTO approvals (tenant_id, id, call_id, tool_id, agent_id, workspace_id, mode, state, person_required, reasons,
                need, approvers, separation, round, input_digest, edited_by, asker, binding, expires_at, remind_at, frozen_at,
                decided_at, decided_by, decision_reason, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                $24, $25)",
            [
                (*id).into(),
                (*call).into(),
                (*tool).into(),
                (*agent).into(),
                (*workspace).into(),
                mode.as_str().into(),
                state.as_str().into(),
                (*person_required).into(),
                serde_json::to_string(reasons).unwrap_or_default().into(),
                (*need).into(),
                approvers.to_string().into(),
                (*separation).into(),
                (*round).into(),
                (*input_digest).into(),
                edited_by.clone().into(),
                asker.to_string().into(),
                binding.to_string().into(),
                (*expires_at).into(),
                (*remind_at).into(),
                (*frozen_at).into(),
                (*decided_at).into(),
                decided_by.clone().into(),
                decision_reason.clone().into(),
                (*created_at).into(),
            ],
        )
    }

    /// One vote for each person and round; a second one breaks the rule `approval_votes_pkey`.
    pub fn cast_vote(&mut self, approval: ApprovalId, round: u32, digest: Digest, vote: &CastVote) -> &mut Self {
        let CastVote { voter, vote, reason, at } = vote;
        let values: [Value; 7] = [
            approval.into(),
            round.into(),
            voter.into(),
            vote.as_str().into(),
            digest.into(),
            reason.clone().into(),
            (*at).into(),
        ];
        self.then(
            "INSERT INTO approval_votes (tenant_id, approval_id, round, voter, vote, input_digest, reason, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            values,
        )
    }

    /// A vote to reject stands in for one to approve of the same person: they have thought better of it.
    pub fn cast_rejection(&mut self, approval: ApprovalId, round: u32, digest: Digest, vote: &CastVote) -> &mut Self {
        let CastVote { voter, vote, reason, at } = vote;
        self.then(
            "INSERT INTO approval_votes (tenant_id, approval_id, round, voter, vote, input_digest, reason, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, approval_id, round, voter) DO UPDATE SET vote = excluded.vote, reason = excluded.reason,
                created_at = excluded.created_at",
            [
                approval.into(),
                round.into(),
                voter.into(),
                vote.as_str().into(),
                digest.into(),
                reason.clone().into(),
                (*at).into(),
            ],
        )
    }

    /// Ends an approval that is open in this round; whoever comes second is refused with `taken`.
    pub fn decide_approval(&mut self, id: ApprovalId, round: u32, verdict: &Verdict<'_>, taken: Fault) -> &mut Self {
        let Verdict { state, by, reason, at } = verdict;
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE approvals SET state = $4, decided_by = $5, decision_reason = $6, decided_at = $7
             WHERE tenant_id = $1 AND id = $2 AND round = $3 AND state = 'open'",
            [
                id.into(),
                round.into(),
                state.as_str().into(),
                (*by).into(),
                reason.map(str::to_owned).into(),
                (*at).into(),
            ],
        )
    }

    /// Ends an approval because its time is over; one that was decided, frozen or given more time meanwhile stays.
    pub fn expire_approval(&mut self, id: ApprovalId, verdict: &Verdict<'_>, taken: Fault) -> &mut Self {
        let Verdict { state, by, reason, at } = verdict;
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE approvals SET state = $3, decided_by = $4, decision_reason = $5, decided_at = $6
             WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND frozen_at IS NULL AND expires_at <= $6",
            [id.into(), state.as_str().into(), (*by).into(), reason.map(str::to_owned).into(), (*at).into()],
        )
    }

    /// The call's own part of an approval: from `pending` to `approved`, by whom.
    pub fn approve_call(&mut self, call: CallId, by: &str, reason: Option<&str>, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET status = 'approved', approval_status = 'approved', approval_decided_by = $3, approval_reason = $4
             WHERE tenant_id = $1 AND id = $2 AND status = 'pending'",
            [call.into(), by.into(), reason.map(str::to_owned).into()],
        )
    }

    /// The call's own part of a rejection, beside its end.
    pub fn note_rejection(&mut self, call: CallId, by: &str, reason: &str) -> &mut Self {
        self.then(
            "UPDATE calls SET approval_status = 'rejected', approval_decided_by = $3, approval_reason = $4
             WHERE tenant_id = $1 AND id = $2",
            [call.into(), by.into(), reason.into()],
        )
    }

    /// More is asked than was: the call waits again, earlier votes are void.
    pub fn ask_again(&mut self, approval: &Approval, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken.clone()),
            "UPDATE approvals SET state = 'open', round = $3, reasons = $4, need = $5, approvers = $6, mode = $7,
                person_required = $8, binding = $9, expires_at = $10, remind_at = $11, separation = $12, decided_at = NULL,
                decided_by = NULL, decision_reason = NULL
             WHERE tenant_id = $1 AND id = $2 AND state = 'approved'",
            [
                approval.id.into(),
                approval.round.into(),
                serde_json::to_string(&approval.reasons).unwrap_or_default().into(),
                approval.need.into(),
                approval.approvers.to_string().into(),
                approval.mode.as_str().into(),
                approval.person_required.into(),
                approval.binding.to_string().into(),
                approval.expires_at.into(),
                approval.remind_at.into(),
                approval.separation.into(),
            ],
        );
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET status = 'pending', approval_status = 'pending', approval_decided_by = NULL, approval_reason = NULL,
                person_required = (person_required OR $3)
             WHERE tenant_id = $1 AND id = $2 AND status = 'approved'",
            [approval.call.into(), approval.person_required.into()],
        )
    }

    /// Another input to decide on: a new round, in which nobody has voted yet. The first proposal is kept.
    pub fn edit_call(&mut self, approval: &Approval, input: &str, decision: &str, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken.clone()),
            "UPDATE approvals SET round = $3, input_digest = $4, edited_by = $5, binding = $6, reasons = $7, need = $8,
                approvers = $9, mode = $10, person_required = $11
             WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND round = $3 - 1",
            [
                approval.id.into(),
                approval.round.into(),
                approval.input_digest.into(),
                approval.edited_by.clone().into(),
                approval.binding.to_string().into(),
                serde_json::to_string(&approval.reasons).unwrap_or_default().into(),
                approval.need.into(),
                approval.approvers.to_string().into(),
                approval.mode.as_str().into(),
                approval.person_required.into(),
            ],
        );
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET proposed_input = coalesce(proposed_input, input), input = $3, decision = $4,
                person_required = (person_required OR $5)
             WHERE tenant_id = $1 AND id = $2 AND status = 'pending'",
            [approval.call.into(), input.into(), decision.into(), approval.person_required.into()],
        )
    }

    pub fn note_reminder(&mut self, id: ApprovalId, at: Timestamp, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE approvals SET remind_at = NULL WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND remind_at <= $3",
            [id.into(), at.into()],
        )
    }

    /// The deadlines of what this agent, or none, asks of this tool stand still since then; what was over before stays
    /// over.
    pub fn freeze_approvals(&mut self, agent: Option<AgentId>, tool: ToolId, since: Timestamp) -> &mut Self {
        self.then(
            "UPDATE approvals SET frozen_at = CASE WHEN created_at > $5 THEN created_at ELSE $5 END
             WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NULL AND expires_at > $5
                AND (agent_id = $2 OR ($3 AND agent_id IS NULL)) AND tool_id = $4",
            [agent.into(), agent.is_none().into(), tool.into(), since.into()],
        )
    }

    /// And go on where they stood.
    pub fn thaw_approvals(&mut self, agent: Option<AgentId>, tool: ToolId, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE approvals SET expires_at = expires_at + ($5 - frozen_at), remind_at = remind_at + ($5 - frozen_at),
                frozen_at = NULL
             WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NOT NULL
                AND (agent_id = $2 OR ($3 AND agent_id IS NULL)) AND tool_id = $4",
            [agent.into(), agent.is_none().into(), tool.into(), now.into()],
        )
    }
}

impl Store {
    pub async fn approval(&self, tenant: TenantId, id: ApprovalId) -> Result<Option<Approval>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM approvals WHERE tenant_id = $1 AND id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(approval).transpose()
    }

    pub async fn approval_of(&self, tenant: TenantId, call: CallId) -> Result<Option<Approval>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM approvals WHERE tenant_id = $1 AND call_id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![call.into()]).await?;
        rows.first().map(approval).transpose()
    }

    /// The votes of one round, in their order.
    pub async fn votes(&self, tenant: TenantId, id: ApprovalId, round: u32) -> Result<Vec<CastVote>, Error> {
        let sql = "SELECT voter, vote, reason, created_at FROM approval_votes
            WHERE tenant_id = $1 AND approval_id = $2 AND round = $3 ORDER BY created_at, voter";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![id.into(), round.into()]).await?;
        rows.iter()
            .map(|row| Ok(CastVote { voter: row.get(0)?, vote: row.parse(1)?, reason: row.get(2)?, at: row.get(3)? }))
            .collect()
    }

    /// Approvals, newest first; the open ones oldest first, because they wait.
    pub async fn approvals(
        &self,
        tenant: TenantId,
        filter: &ApprovalFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Approval>, Fault> {
        let text = serde_json::to_string(filter).unwrap_or_default();
        let list = ListOf { tenant, list: "approvals", filter: &text };
        let after = cursor.map(|cursor| list.key(cursor)).transpose()?;
        let open = filter.state == Some(ApprovalState::Open);
        let (mut condition, mut parameters) = conditions(filter);
        if let Some(after) = after.and_then(|key| key.parse::<ApprovalId>().ok()) {
            parameters.push(after.into());
            let beyond = if open { "id >" } else { "id <" };
            condition = format!("{condition} AND {beyond} ${}", parameters.len() + 1);
        }
        let order = if open { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT {COLUMNS} FROM approvals WHERE tenant_id = $1{condition} ORDER BY id {order} LIMIT {}",
            limit + 1
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut items = rows.iter().map(approval).collect::<Result<Vec<_>, Error>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }

    /// How many of a list there are.
    pub async fn count_approvals(&self, tenant: TenantId, filter: &ApprovalFilter) -> Result<u32, Error> {
        let (condition, parameters) = conditions(filter);
        let sql = format!("SELECT count(*) FROM approvals WHERE tenant_id = $1{condition}");
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// How often the runs under a root have asked people.
    pub async fn asks_under(&self, tenant: TenantId, root: RunId) -> Result<u32, Error> {
        let sql = "SELECT count(*) FROM calls WHERE tenant_id = $1 AND root_run_id = $2 AND approval_id IS NOT NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![root.into()]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Approvals whose time is over, whoever's.
    pub async fn overdue_approvals(&self, now: Timestamp) -> Result<Vec<(TenantId, ApprovalId)>, Error> {
        let sql = "SELECT tenant_id, id FROM approvals
            WHERE state = 'open' AND frozen_at IS NULL AND expires_at <= $1 ORDER BY expires_at LIMIT 500";
        self.whoevers(sql, vec![now.into()]).await
    }

    /// Approvals that people are to be reminded of, whoever's.
    pub async fn approvals_to_remind(&self, now: Timestamp) -> Result<Vec<(TenantId, ApprovalId)>, Error> {
        let sql =
            "SELECT tenant_id, id FROM approvals WHERE state = 'open' AND frozen_at IS NULL AND remind_at IS NOT NULL
            AND remind_at <= $1 ORDER BY remind_at LIMIT 500";
        self.whoevers(sql, vec![now.into()]).await
    }

    async fn whoevers(&self, sql: &str, parameters: Vec<Value>) -> Result<Vec<(TenantId, ApprovalId)>, Error> {
        let rows = self.query(&Scope::Everyone("what is due, whoever's"), sql, parameters).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Who asks of which tool, of what is open and whose deadline runs.
    pub async fn asked_pairs(&self, tenant: TenantId) -> Result<Vec<(Option<AgentId>, ToolId)>, Error> {
        let sql = "SELECT DISTINCT agent_id, tool_id FROM approvals
            WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Who asks of which tool, of what stands still, whoever's.
    pub async fn frozen_pairs(&self) -> Result<Vec<(TenantId, Option<AgentId>, ToolId)>, Error> {
        let sql = "SELECT DISTINCT tenant_id, agent_id, tool_id FROM approvals
            WHERE state = 'open' AND frozen_at IS NOT NULL";
        let rows = self.query(&Scope::Everyone("whose deadline goes on"), sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
    }

    /// Calls that were approved and that nobody has begun to run, whoever's, oldest first.
    pub async fn approved_calls(&self) -> Result<Vec<(TenantId, CallId)>, Error> {
        let sql =
            "SELECT tenant_id, id FROM calls WHERE status = 'approved' AND status <> 'completed' ORDER BY id LIMIT 500";
        let rows = self.query(&Scope::Everyone("what is approved is anyone's to run"), sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Calls of a run that wait for a person, or were approved and do not run yet.
    pub async fn parked_calls_of(&self, tenant: TenantId, run: RunId) -> Result<Vec<CallId>, Error> {
        let sql = "SELECT id FROM calls WHERE tenant_id = $1 AND run_id = $2 AND status IN ('pending', 'approved') ORDER BY id";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// A filter as a condition behind `tenant_id = $1`, with its parameters from `$2` on.
fn conditions(filter: &ApprovalFilter) -> (String, Vec<Value>) {
    let ApprovalFilter { state, tool, agent, workspace, seen_by } = filter;
    let mut parts = Vec::new();
    let mut parameters: Vec<Value> = Vec::new();
    let mut bind = |value: Value| {
        parameters.push(value);
        format!("${}", parameters.len() + 1)
    };
    match state {
        // A literal, so that the partial index is seen to fit.
        Some(ApprovalState::Open) => parts.push(" AND state = 'open'".to_owned()),
        Some(state) => parts.push(format!(" AND state = {}", bind(state.as_str().into()))),
        None => {}
    }
    if let Some(tool) = tool {
        parts.push(format!(" AND tool_id = {}", bind((*tool).into())));
    }
    if let Some(agent) = agent {
        parts.push(format!(" AND agent_id = {}", bind((*agent).into())));
    }
    if let Some(workspace) = workspace {
        parts.push(format!(" AND workspace_id = {}", bind((*workspace).into())));
    }
    let asked_by = |own: &str| {
        format!(
            "call_id IN (SELECT c.id FROM calls c WHERE c.tenant_id = $1 AND c.id = approvals.call_id AND c.principal = {own})"
        )
    };
    match seen_by {
        SeenBy::Everybody => {}
        SeenBy::Member { user, own } => {
            let (user, own) = (bind((*user).into()), bind(own.to_string().into()));
            let member =
                format!("SELECT m.workspace_id FROM workspace_members m WHERE m.tenant_id = $1 AND m.user_id = {user}");
            let own = asked_by(&own);
            parts.push(format!(" AND (workspace_id IS NULL OR workspace_id IN ({member}) OR {own})"));
        }
        SeenBy::Asker { own, agents } => {
            let own = asked_by(&bind(own.to_string().into()));
            let agents: Vec<String> = agents.iter().map(|agent| bind((*agent).into())).collect();
            let managed =
                if agents.is_empty() { String::new() } else { format!(" OR agent_id IN ({})", agents.join(", ")) };
            parts.push(format!(" AND ({own}{managed})"));
        }
    }
    (parts.concat(), parameters)
}

fn approval(row: &Row) -> Result<Approval, Error> {
    Ok(Approval {
        id: row.get(0)?,
        call: row.get(1)?,
        tool: row.get(2)?,
        agent: row.get(3)?,
        workspace: row.get(4)?,
        mode: row.parse(5)?,
        state: row.parse(6)?,
        person_required: row.get(7)?,
        reasons: row.json(8)?,
        need: row.get(9)?,
        approvers: row.json(10)?,
        separation: row.get(11)?,
        round: row.get(12)?,
        input_digest: row.get(13)?,
        edited_by: row.get(14)?,
        asker: row.json(15)?,
        binding: row.json(16)?,
        expires_at: row.get(17)?,
        remind_at: row.get(18)?,
        frozen_at: row.get(19)?,
        decided_at: row.get(20)?,
        decided_by: row.get(21)?,
        decision_reason: row.get(22)?,
        created_at: row.get(23)?,
    })
}
