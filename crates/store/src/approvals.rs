//! Calls that wait for people: what is asked of whom, and the votes.
//!
//! Invariant: an approval moves once out of `open`, in the same commit as its call.

// As a macro, because the text of a change is one literal.
macro_rules! columns {
    () => {
        "id, call_id, tool_id, agent_id, workspace_id, mode, state, person_required, reasons, need, approvers, separation, round,
        input_digest, edited_by, asker, binding, preview, timeout_ms, expires_at, remind_at, frozen_at, decided_at, decided_by,
        decision_reason, created_at"
    };
}

mod bound;
mod due;
mod list;

use serde::Serialize;
use toolgate_contracts::definition::{Approvers, HitlMode, Label};
use toolgate_contracts::{
    AgentId, ApprovalId, ApprovalState, AskReason, CallId, Digest, Fault, Principal, RunId, TenantId, Timestamp,
    ToolId, Vote, WorkspaceId,
};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

pub use bound::{AgentBy, Asker, Binding, Preview, Shown};
pub use due::{DUE_MAX, Due, DueApproval};
pub use list::{ApprovalFilter, SeenBy};

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
    pub approvers: Vec<Approvers>,
    pub separation: bool,
    pub round: u32,
    pub input_digest: Digest,
    pub edited_by: Option<String>,
    pub asker: Asker,
    pub binding: Binding,
    /// What it would do, as far as its runner could say when people were asked.
    pub preview: Option<Preview>,
    /// What the request itself gave it to run in, where that is less than the tool's own.
    pub timeout_ms: Option<u64>,
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

/// Another input to decide on, as it was judged.
#[derive(Clone, Debug)]
pub struct Edited<'a> {
    pub input: &'a str,
    pub decision: &'a str,
    /// Of the call: of what it is given now, and of what it brings.
    pub labels: Vec<Label>,
}

/// How an approval ended.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    pub state: ApprovalState,
    pub by: &'a str,
    pub reason: Option<&'a str>,
    pub at: Timestamp,
}

macro_rules! insert_vote {
    () => {
        "INSERT INTO approval_votes (tenant_id, approval_id, round, voter, vote, input_digest, reason, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
    };
}

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
            preview,
            timeout_ms,
            expires_at,
            remind_at,
            frozen_at,
            decided_at,
            decided_by,
            decision_reason,
            created_at,
        } = approval;
        let timeout_ms = timeout_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        self.then(
            concat!(
                "INSERT INTO approvals (tenant_id, ",
                columns!(),
                ")
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                    $23, $24, $25, $26, $27)"
            ),
            [
                (*id).into(),
                (*call).into(),
                (*tool).into(),
                (*agent).into(),
                (*workspace).into(),
                mode.as_str().into(),
                state.as_str().into(),
                (*person_required).into(),
                text(reasons).into(),
                (*need).into(),
                text(approvers).into(),
                (*separation).into(),
                (*round).into(),
                (*input_digest).into(),
                edited_by.clone().into(),
                text(asker).into(),
                text(binding).into(),
                preview.as_ref().map(text).into(),
                timeout_ms.into(),
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
        self.then(insert_vote!(), values)
    }

    /// A vote to reject stands in for one to approve of the same person: they have thought better of it.
    pub fn cast_rejection(&mut self, approval: ApprovalId, round: u32, digest: Digest, vote: &CastVote) -> &mut Self {
        let CastVote { voter, vote, reason, at } = vote;
        self.then(
            concat!(
                insert_vote!(),
                " ON CONFLICT (tenant_id, approval_id, round, voter) DO UPDATE SET vote = excluded.vote,
                    reason = excluded.reason, created_at = excluded.created_at"
            ),
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
                person_required = $8, binding = $9, expires_at = $10, remind_at = $11, separation = $12, preview = $13,
                decided_at = NULL, decided_by = NULL, decision_reason = NULL
             WHERE tenant_id = $1 AND id = $2 AND state = 'approved'",
            [
                approval.id.into(),
                approval.round.into(),
                text(&approval.reasons).into(),
                approval.need.into(),
                text(&approval.approvers).into(),
                approval.mode.as_str().into(),
                approval.person_required.into(),
                text(&approval.binding).into(),
                approval.expires_at.into(),
                approval.remind_at.into(),
                approval.separation.into(),
                approval.preview.as_ref().map(text).into(),
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
    pub fn edit_call(&mut self, approval: &Approval, edited: &Edited<'_>, taken: Fault) -> &mut Self {
        let Edited { input, decision, labels } = edited;
        self.expecting(
            Expect::Rows(1, taken.clone()),
            "UPDATE approvals SET round = $3, input_digest = $4, edited_by = $5, binding = $6, reasons = $7, need = $8,
                approvers = $9, mode = $10, person_required = $11, preview = $12
             WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND round = $3 - 1",
            [
                approval.id.into(),
                approval.round.into(),
                approval.input_digest.into(),
                approval.edited_by.clone().into(),
                text(&approval.binding).into(),
                text(&approval.reasons).into(),
                approval.need.into(),
                text(&approval.approvers).into(),
                approval.mode.as_str().into(),
                approval.person_required.into(),
                approval.preview.as_ref().map(text).into(),
            ],
        );
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET proposed_input = coalesce(proposed_input, input), input = $3, decision = $4, labels = $5,
                policy_revision = $6, person_required = (person_required OR $7)
             WHERE tenant_id = $1 AND id = $2 AND status = 'pending'",
            [
                approval.call.into(),
                (*input).into(),
                (*decision).into(),
                text(labels).into(),
                approval.binding.policy_revision.into(),
                approval.person_required.into(),
            ],
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
        let sql = concat!("SELECT ", columns!(), " FROM approvals WHERE tenant_id = $1 AND id = $2");
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![id.into()]).await?;
        rows.first().map(approval).transpose()
    }

    pub async fn approval_of(&self, tenant: TenantId, call: CallId) -> Result<Option<Approval>, Error> {
        let sql = concat!("SELECT ", columns!(), " FROM approvals WHERE tenant_id = $1 AND call_id = $2");
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![call.into()]).await?;
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

    /// How often the runs under a root have asked people.
    pub async fn asks_under(&self, tenant: TenantId, root: RunId) -> Result<u32, Error> {
        let sql = "SELECT count(*) FROM calls WHERE tenant_id = $1 AND root_run_id = $2 AND approval_id IS NOT NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![root.into()]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// How many calls of a caller wait for people, counted no further than `most`.
    pub async fn pending_of(&self, tenant: TenantId, caller: Principal, most: u32) -> Result<u32, Error> {
        let sql = "SELECT count(*) FROM (SELECT c.id FROM calls c
            WHERE c.tenant_id = $1 AND c.principal = $2 AND c.approval_status = 'pending' LIMIT $3) waiting";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![caller.to_string().into(), most.into()]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
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
        preview: row.get::<Option<String>>(17)?.and_then(|text| serde_json::from_str(&text).ok()),
        timeout_ms: row.get::<Option<i64>>(18)?.and_then(|ms| u64::try_from(ms).ok()),
        expires_at: row.get(19)?,
        remind_at: row.get(20)?,
        frozen_at: row.get(21)?,
        decided_at: row.get(22)?,
        decided_by: row.get(23)?,
        decision_reason: row.get(24)?,
        created_at: row.get(25)?,
    })
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
