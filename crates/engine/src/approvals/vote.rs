//! Votes, and the decision that enough of them make: the approval, the call and the grant move in one commit.

use serde_json::json;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    ApprovalId, ApprovalState, Caller, Fault, FaultKind, GrantId, Id, NoticeType, TenantId, Timestamp, Vote,
};
use toolgate_store::approvals::{Approval, CastVote, Verdict};
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::grants::Grant;
use toolgate_store::{Change, Error};

use super::decide::already;
use crate::engine::Engine;
use crate::entry::members;
use crate::notify::News;

/// How long a grant holds at least: the call runs at once, unless every server is away.
const GRANT_S_MIN: i64 = 60 * 60;

impl Engine {
    /// One vote to approve; with enough of them, the decision.
    pub(super) async fn vote(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
        reason: Option<&str>,
    ) -> Result<(), Fault> {
        let (tenant, now) = (caller.tenant, self.clock.now());
        let voter = caller.principal.to_string();
        let vote = CastVote { voter, vote: Vote::Approve, reason: reason.map(str::to_owned), at: now };
        let mut votes = self.store.votes(tenant, approval.id, approval.round).await?;
        // Who voted before and may decide again counts once more, without another vote.
        let voted = votes.iter().any(|cast| cast.voter == vote.voter);
        if !voted {
            votes.push(vote.clone());
        }
        let counted = self.counted(tenant, approval, record, &votes).await?;
        if counted.enough {
            let vote = (!voted).then_some(vote);
            return self.approve(tenant, approval, record, counted.by, vote.as_ref()).await;
        }
        let mut change = Change::new(tenant);
        change.cast_vote(approval.id, approval.round, approval.input_digest, &vote);
        change.audit(&self.vote_entry(tenant, approval, record, &vote));
        match self.store.commit(change).await {
            Ok(_) => {}
            Err(error) if error.is("approval_votes_pkey") => {
                return Err(Fault::conflict("you have approved it already", "somebody else must approve it too"));
            }
            Err(error) => return Err(error.into()),
        }
        self.signal(tenant, record.run, Some(record.id));
        // Somebody may have voted in the same moment; whoever looks last counts both, and this vote was counted.
        match self.count_votes(tenant, approval.id).await {
            Err(fault) if fault.kind() == FaultKind::Conflict => Ok(()),
            counted => counted,
        }
    }

    /// Turns enough votes into a decision, if they are enough.
    pub(super) async fn count_votes(&self, tenant: TenantId, id: ApprovalId) -> Result<(), Fault> {
        let Some(approval) = self.store.approval(tenant, id).await? else { return Ok(()) };
        let Some(record) = self.store.call(tenant, approval.call).await? else { return Ok(()) };
        if approval.state != ApprovalState::Open {
            return Ok(());
        }
        let votes = self.store.votes(tenant, id, approval.round).await?;
        let counted = self.counted(tenant, &approval, &record, &votes).await?;
        if counted.enough { self.approve(tenant, &approval, &record, counted.by, None).await } else { Ok(()) }
    }

    /// The decision: the approval, the call and the grant move in one commit; then the call runs.
    pub(super) async fn approve(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        by: Vec<String>,
        vote: Option<&CastVote>,
    ) -> Result<(), Fault> {
        let now = self.clock.now();
        let decider = by.last().cloned().unwrap_or_default();
        let reason = vote.and_then(|vote| vote.reason.as_deref());
        let not_after = approval.expires_at.max(now.plus_seconds(GRANT_S_MIN));
        let mut binding = approval.binding.clone();
        binding.approvers.clone_from(&by);
        binding.not_after = Some(not_after);
        binding.nonce = Some(data_encoding::BASE32_NOPAD.encode(&self.rng.bytes::<16>()));
        let grant = Grant {
            id: GrantId::new(&self.clock, &self.rng),
            call: Some(record.id),
            tool: record.tool,
            workspace: record.workspace,
            binding_digest: binding.digest(),
            binding: binding.value(),
            issued_by: decider.clone(),
            reason: reason.map(str::to_owned),
            expires_at: not_after,
            spent_at: None,
            revoked_at: None,
            revoked_by: None,
            uses: 0,
            uses_max: 1,
            created_at: now,
        };
        let mut change = Change::new(tenant);
        if let Some(vote) = vote {
            change.cast_vote(approval.id, approval.round, approval.input_digest, vote);
        }
        let verdict = Verdict { state: ApprovalState::Approved, by: &decider, reason, at: now };
        change.decide_approval(approval.id, approval.round, &verdict, already(approval));
        change.approve_call(record.id, &decider, reason, already(approval));
        change.insert_grant(&grant);
        let data = json!({"approval_id": approval.id, "state": "approved", "by": by});
        let approved = json!({"tool": record.tool_name, "approval_id": approval.id});
        let event = |event_type, data| NewEvent {
            event_type,
            call_id: Some(record.id),
            at: now,
            actor: decider.clone(),
            data: members(data),
        };
        let events = [event(EventType::ApprovalDecided, data), event(EventType::ToolApproved, approved)];
        let place = self.next_place(tenant, record).await?;
        change.append_events(record.run, place, Some(record.id), &events, now);
        if record.in_run {
            let resumed = event(EventType::RunResumed, json!({"approval_id": approval.id}));
            change.resume_run(record.run, &resumed, now);
        }
        change.audit(&self.decision_entry(tenant, approval, record, &decider, ApprovalState::Approved, now));
        let snapshot = self.registry.snapshot();
        if let Ok(registry) = snapshot.tenant(tenant) {
            let tool = &record.tool_name;
            let told =
                News::of_approval(NoticeType::ApprovalDecided, approval.id, record.id, record.run, tool, "approved");
            self.tell(&mut change, registry, told.in_workspace(approval.workspace));
        }
        match self.store.commit(change).await {
            Ok(_) => {}
            Err(Error::Unmet(fault)) => return Err(self.decided_meanwhile(tenant, approval.id, fault).await),
            Err(error) if error.is("approval_votes_pkey") => {
                return Err(Fault::conflict("you have approved it already", "somebody else must approve it too"));
            }
            Err(error) => return Err(error.into()),
        }
        self.signal(tenant, record.run, Some(record.id));
        self.resume_soon(tenant, record.id);
        Ok(())
    }

    /// The mode lets it run without a person: its time is over, or it never waited for one.
    pub(crate) async fn approve_by_mode(&self, tenant: TenantId, id: ApprovalId, by: &str) -> Result<(), Fault> {
        let Some(approval) = self.store.approval(tenant, id).await? else { return Ok(()) };
        let Some(record) = self.store.call(tenant, approval.call).await? else { return Ok(()) };
        if approval.state != ApprovalState::Open || approval.person_required || record.person_required {
            return Ok(());
        }
        self.approve(tenant, &approval, &record, vec![by.to_owned()], None).await
    }

    pub(super) fn decision_entry(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        by: &str,
        state: ApprovalState,
        now: Timestamp,
    ) -> Entry {
        Entry {
            id: Id::new(&self.clock, &self.rng),
            at: now,
            tenant,
            actor: by.to_owned(),
            action: format!("approval.{state}"),
            object: approval.id.to_string(),
            details: members(json!({"call": record.id, "round": approval.round, "tool": record.tool_name})),
        }
    }

    fn vote_entry(&self, tenant: TenantId, approval: &Approval, record: &CallRecord, vote: &CastVote) -> Entry {
        Entry {
            id: Id::new(&self.clock, &self.rng),
            at: vote.at,
            tenant,
            actor: vote.voter.clone(),
            action: "approval.vote".to_owned(),
            object: approval.id.to_string(),
            details: members(json!({"call": record.id, "round": approval.round, "vote": vote.vote})),
        }
    }
}
