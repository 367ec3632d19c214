//! Deciding: approve, reject with a reason, approve with another input. One reject rejects; the first decision wins.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    ApprovalId, ApprovalState, AskReason, CallId, Caller, Digest, ErrorCode, Fault, FaultKind, GrantId, Id, NoticeType,
    Status, TenantId, Timestamp, ToolError, Vote, json as strict,
};
use toolgate_store::approvals::{Approval, CastVote, Verdict};
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::grants::Grant;
use toolgate_store::{Change, Error};
use utoipa::ToSchema;

use super::eligible::As;
use super::park::{digest_of, members};
use super::standing::NewStanding;
use super::{Binding, Card};
use crate::control::Late;
use crate::engine::Engine;
use crate::notify::News;
use crate::record::Ended;

const REASON_BYTES_MAX: usize = 1000;
/// How long a grant holds at least: the call runs at once, unless every server is away.
const GRANT_S_MIN: i64 = 60 * 60;
/// Decisions in one request.
const BULK_MAX: usize = 100;

/// What somebody decides.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// `approve` or `reject`.
    pub decision: Vote,
    /// Required to reject; the agent reads it.
    #[serde(default)]
    pub reason: Option<String>,
    /// Another input to approve instead of the one that was asked for.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// Of the input that was looked at: another one is refused. Required of whoever confirms their own call.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub input_digest: Option<Digest>,
    /// Allow calls like it from now on, within limits.
    #[serde(default)]
    pub standing: Option<NewStanding>,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Decided {
    #[serde(flatten)]
    pub card: Card,
    /// The standing grant that was made with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub standing: Option<GrantId>,
}

/// One of several decisions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BulkAnswer {
    #[schema(value_type = String)]
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// Why it was not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Engine {
    /// Decides on a call that waits, by the approval's id or the call's. What is approved runs at once; `wait` is how
    /// long its end is waited for.
    pub async fn decide(&self, caller: &Caller, id: &str, choice: Choice, wait: Duration) -> Result<Decided, Fault> {
        let (approval, record) = self.approval_for_decision(caller, id).await?;
        let as_whom = self.may_decide(caller, &approval, &record).await?;
        if choice.decision == Vote::Approve {
            self.check_step_up(caller, &record).await?;
        }
        check_reason(&choice)?;
        let approval = self.in_time(approval, caller.tenant).await?;
        still_open(&approval)?;
        if as_whom == As::Asker && choice.decision == Vote::Approve && choice.input_digest.is_none() {
            let remedy = "send `input_digest` of the input that you looked at";
            return Err(
                Fault::invalid("confirming one's own call needs what was looked at", remedy).at("/input_digest")
            );
        }
        if choice.input_digest.is_some_and(|seen| seen != approval.input_digest) {
            return Err(Fault::conflict("the input is another one by now", "look at it again").at("/input_digest"));
        }
        let mut edited = choice.input.clone();
        if let Some(input) = &mut edited {
            // Before it is compared: two numbers may look alike only after they were cut.
            strict::normalize(input).map_err(|error| Fault::from(error).at("/input"))?;
        }
        let standing = match (choice.decision, edited) {
            (Vote::Reject, _) => {
                Box::pin(self.reject(caller, &approval, &record, choice.reason.as_deref().unwrap_or_default())).await?;
                None
            }
            (Vote::Approve, input) => {
                self.not_stopped(caller, &record)?;
                let standing = match &choice.standing {
                    Some(new) => Some(self.check_standing(caller, &record, new)?),
                    None => None,
                };
                match input {
                    Some(input) if digest_of(&input) != approval.input_digest => {
                        Box::pin(self.edit(caller, &approval, &record, input, &choice)).await?;
                    }
                    _ => Box::pin(self.vote(caller, &approval, &record, choice.reason.as_deref())).await?,
                }
                // Only with a decision: one vote of several, or an edit that somebody else must approve, is none.
                let now = self.store.approval(caller.tenant, approval.id).await?;
                let decided = now.is_some_and(|now| now.state == ApprovalState::Approved);
                match standing.filter(|_| decided) {
                    Some(standing) => Some(self.grant_standing(caller, standing).await?.id),
                    None => None,
                }
            }
        };
        let until = tokio::time::Instant::now() + wait;
        let record = self.after_decision(caller.tenant, record.id, until).await?;
        let approval = self.store.approval(caller.tenant, approval.id).await?;
        let approval = approval.ok_or_else(|| Fault::not_found("approval", id))?;
        Ok(Decided { card: self.card(caller, approval, record).await?, standing })
    }

    /// Its time is over when it is over, whether or not anybody has looked since.
    async fn in_time(&self, approval: Approval, tenant: TenantId) -> Result<Approval, Fault> {
        let over = approval.frozen_at.is_none() && approval.expires_at <= self.clock.now();
        if approval.state != ApprovalState::Open || !over {
            return Ok(approval);
        }
        let id = approval.id;
        match Box::pin(self.expire_approval(tenant, id)).await {
            // Somebody else did so in the same moment.
            Err(fault) if fault.kind() == FaultKind::Conflict => {}
            ended => ended?,
        }
        self.store.approval(tenant, id).await?.ok_or_else(|| Fault::not_found("approval", id))
    }

    /// The same choice for several; each is decided by itself, and none makes a standing grant. Only calls of one tool,
    /// and nothing critical: what is critical is looked at one by one.
    pub async fn decide_all(&self, caller: &Caller, ids: &[String], choice: &Choice) -> Result<Vec<BulkAnswer>, Fault> {
        if ids.is_empty() || ids.len() > BULK_MAX {
            let told = format!("{} approvals at once", ids.len());
            return Err(Fault::invalid(told, format!("decide on 1 to {BULK_MAX}")).at("/ids"));
        }
        if choice.standing.is_some() || choice.input.is_some() || choice.input_digest.is_some() {
            let told = "deciding on several at once edits nothing and makes no standing grant";
            return Err(Fault::invalid(told, "decide on them one by one"));
        }
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.push(self.approval_for_decision(caller, id).await);
        }
        let tools: std::collections::BTreeSet<_> =
            found.iter().flatten().map(|(approval, _)| approval.tool.to_string()).collect();
        if choice.decision == Vote::Approve && tools.len() > 1 {
            let told = format!("approvals of {} different tools", tools.len());
            return Err(Fault::invalid(told, "approve those of one tool at a time").at("/ids"));
        }
        let mut answers = Vec::with_capacity(ids.len());
        for (id, found) in ids.iter().zip(found) {
            let decided = match found {
                Ok((approval, _)) if choice.decision == Vote::Approve && is_critical(&approval.reasons) => {
                    Err(Fault::conflict("the tool is critical", "look at it by itself"))
                }
                Ok(_) => self.decide(caller, id, choice.clone(), Duration::ZERO).await,
                Err(fault) => Err(fault),
            };
            answers.push(match decided {
                Ok(decided) => BulkAnswer { id: id.clone(), state: Some(decided.card.state), refused: None },
                Err(fault) => BulkAnswer { id: id.clone(), state: None, refused: Some(fault.told().to_owned()) },
            });
        }
        Ok(answers)
    }

    /// An approval by its id, its call's, or the call's id within its run; for those who may see it.
    pub(crate) async fn approval_for_decision(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<(Approval, CallRecord), Fault> {
        let unknown = || Fault::not_found("approval", id);
        let by_approval = match id.parse::<ApprovalId>() {
            Ok(id) => self.store.approval(caller.tenant, id).await?,
            Err(_) => None,
        };
        let approval = match (by_approval, id.parse::<CallId>()) {
            (Some(approval), _) => Some(approval),
            (None, Ok(call)) => self.store.approval_of(caller.tenant, call).await?,
            (None, Err(_)) => None,
        };
        let approval = approval.ok_or_else(unknown)?;
        let record = self.store.call(caller.tenant, approval.call).await?.ok_or_else(unknown)?;
        if self.sees_approval(caller, &approval, &record).await? { Ok((approval, record)) } else { Err(unknown()) }
    }

    /// Nothing runs under a kill switch, so nothing is approved under one.
    fn not_stopped(&self, caller: &Caller, record: &CallRecord) -> Result<(), Fault> {
        match self.call_stopped(caller.tenant, record.agent, record.tool)? {
            Some(stopped) => Err(Fault::conflict(stopped.why, "its deadline stands still; let it go on, then approve")),
            None => Ok(()),
        }
    }

    async fn reject(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
        reason: &str,
    ) -> Result<(), Fault> {
        let by = caller.principal.to_string();
        let message = format!("{} rejected the call: {reason}", caller.display_name);
        let error = ToolError::because(ErrorCode::PolicyDenied, "rejected", message)
            .with("rejected_because", reason)
            .with("remedy", "do not send it again as it is; change what was objected to, or ask the person");
        let ended = Ending { state: ApprovalState::Rejected, by: &by, reason: Some(reason), error };
        self.end_waiting(caller.tenant, approval, record, ended, |change, now| {
            let vote = CastVote { voter: by.clone(), vote: Vote::Reject, reason: Some(reason.to_owned()), at: now };
            change.cast_rejection(approval.id, approval.round, approval.input_digest, &vote);
        })
        .await
        .map(drop)
    }

    /// Ends a call that waits without running it, with its approval.
    pub(super) async fn end_waiting(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        ending: Ending<'_>,
        more: impl FnOnce(&mut Change, Timestamp),
    ) -> Result<(), Fault> {
        let Ending { state, by, reason, error } = ending;
        let now = self.clock.now();
        let status = if state == ApprovalState::Cancelled { Status::Cancelled } else { Status::Rejected };
        let (event_type, notice) = match state {
            ApprovalState::Expired => (EventType::ApprovalExpired, NoticeType::ApprovalExpired),
            ApprovalState::Rejected => (EventType::ApprovalRejected, NoticeType::ApprovalDecided),
            _ => (EventType::ApprovalDecided, NoticeType::ApprovalDecided),
        };
        let data = members(json!({"approval_id": approval.id, "state": state, "tool": record.tool_name}));
        let event = NewEvent { event_type, call_id: Some(record.id), at: now, actor: by.to_owned(), data };
        let late = Late {
            status,
            ended: Ended::refused(error),
            action: if status == Status::Cancelled { "call.cancelled" } else { "call.rejected" },
            actor: by.to_owned(),
            before: vec![event],
        };
        let taken = already(approval);
        let verdict = Verdict { state, by, reason, at: now };
        let told = News::of_approval(notice, approval.id, record.id, record.run, &record.tool_name, state.as_str());
        let ended = self
            .end_late(tenant, record, late, |change| {
                more(change, now);
                if state == ApprovalState::Expired {
                    change.expire_approval(approval.id, &verdict, taken);
                } else {
                    change.decide_approval(approval.id, approval.round, &verdict, taken);
                }
                change.note_rejection(record.id, by, reason.unwrap_or_default());
                change.void_grants(record.id, by, now);
                change.audit(&self.decision_entry(tenant, approval, record, by, state, now));
                let snapshot = self.registry.snapshot();
                if let Ok(registry) = snapshot.tenant(tenant) {
                    self.tell(change, registry, told.in_workspace(approval.workspace));
                }
            })
            .await;
        match ended {
            Ok(_) => Ok(()),
            Err(Error::Unmet(fault)) => Err(self.decided_meanwhile(tenant, approval.id, fault).await),
            Err(error) => Err(error.into()),
        }
    }

    /// One vote to approve; with enough of them, the decision.
    async fn vote(
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
        if let Some(by) = self.counted(tenant, approval, record, &votes).await? {
            let vote = (!voted).then_some(vote);
            return self.approve(tenant, approval, record, by, vote.as_ref()).await;
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
        match self.counted(tenant, &approval, &record, &votes).await? {
            Some(by) => self.approve(tenant, &approval, &record, by, None).await,
            None => Ok(()),
        }
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
        let mut binding: Binding = serde_json::from_value(approval.binding.clone()).map_err(Fault::internal)?;
        binding.approvers.clone_from(&by);
        binding.not_after = Some(not_after);
        binding.nonce = Some(data_encoding::BASE32_NOPAD.encode(&self.rng.bytes::<16>()));
        let grant = Grant {
            id: GrantId::new(&self.clock, &self.rng),
            call: Some(record.id),
            tool: record.tool,
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

    /// Another input: judged like a new one, and then decided on. Earlier votes were for something else.
    async fn edit(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
        input: Value,
        choice: &Choice,
    ) -> Result<(), Fault> {
        let tenant = caller.tenant;
        let judged = self.judge_again(tenant, approval, record, input).await?;
        let (admitted, asking) = match judged {
            super::resume::Judged::Refused(error) => {
                let told = format!("the edited input would be refused: {}", error.message);
                return Err(Fault::invalid(told, "correct it, or reject the call").at("/input"));
            }
            super::resume::Judged::Admitted(admitted, asking) => (admitted, asking),
        };
        let text = strict::canonical(&admitted.input);
        let mut binding: Binding = serde_json::from_value(approval.binding.clone()).map_err(Fault::internal)?;
        binding.input_digest = Digest::of(text.as_bytes());
        let by = caller.principal.to_string();
        let mut edited = Approval {
            round: approval.round + 1,
            input_digest: binding.input_digest,
            edited_by: Some(by.clone()),
            binding: binding.value(),
            ..approval.clone()
        };
        if let Some(asking) = asking {
            edited.reasons.clone_from(&asking.reasons);
            edited.need = asking.need();
            edited.approvers = serde_json::to_value(&asking.approvers).unwrap_or_default();
            edited.mode = asking.mode;
            edited.person_required |= asking.person_required;
        }
        let now = self.clock.now();
        let mut change = Change::new(tenant);
        let decision = serde_json::to_string(&admitted.decision).unwrap_or_default();
        change.edit_call(&edited, &text, &decision, already(approval));
        let salt = self.salt_of(record);
        change.audit(&Entry {
            id: Id::new(&self.clock, &self.rng),
            at: now,
            tenant,
            actor: by,
            action: "approval.edited".to_owned(),
            object: approval.id.to_string(),
            details: members(json!({
                "call": record.id, "round": edited.round,
                "input": crate::entry::commitment(&salt, "input", &text),
            })),
        });
        match self.store.commit(change).await {
            Ok(_) => {}
            Err(Error::Unmet(fault)) => return Err(self.decided_meanwhile(tenant, approval.id, fault).await),
            Err(error) => return Err(error.into()),
        }
        let record = self.store.call(tenant, record.id).await?.ok_or_else(|| Fault::not_found("call", record.id))?;
        self.signal(tenant, record.run, Some(record.id));
        // Where asking and deciding are separated, whoever edits has asked; somebody else decides.
        let snapshot = self.registry.snapshot();
        let separated = edited.separation || snapshot.tenant(tenant)?.tenant.settings.separation;
        if separated { Ok(()) } else { self.vote(caller, &edited, &record, choice.reason.as_deref()).await }
    }

    /// Waits until what was decided has run, at most until then; whoever only voted waits for nothing.
    async fn after_decision(
        &self,
        tenant: TenantId,
        call: CallId,
        until: tokio::time::Instant,
    ) -> Result<CallRecord, Fault> {
        let gone = || Fault::not_found("call", call);
        let record = self.store.call(tenant, call).await?.ok_or_else(gone)?;
        if matches!(record.status, Status::Approved | Status::Running) {
            self.when_ended(tenant, call, until).await?;
            return self.store.call(tenant, call).await?.ok_or_else(gone);
        }
        Ok(record)
    }

    async fn decided_meanwhile(&self, tenant: TenantId, id: ApprovalId, fault: Fault) -> Fault {
        match self.store.approval(tenant, id).await {
            Ok(Some(approval)) if approval.state != ApprovalState::Open => still_open(&approval).err().unwrap_or(fault),
            _ => fault,
        }
    }

    fn decision_entry(
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

/// How a wait ends without a run.
pub(super) struct Ending<'a> {
    pub state: ApprovalState,
    pub by: &'a str,
    pub reason: Option<&'a str>,
    pub error: ToolError,
}

fn is_critical(reasons: &[AskReason]) -> bool {
    reasons.iter().any(|reason| reason.code == toolgate_contracts::AskCode::Critical)
}

fn check_reason(choice: &Choice) -> Result<(), Fault> {
    let reason = choice.reason.as_deref().unwrap_or_default();
    if choice.decision == Vote::Reject && reason.trim().is_empty() {
        return Err(Fault::invalid("a rejection without a reason", "say why: the agent reads it").at("/reason"));
    }
    if reason.len() > REASON_BYTES_MAX {
        let told = format!("`reason` has {} bytes", reason.len());
        return Err(Fault::invalid(told, format!("use at most {REASON_BYTES_MAX}")).at("/reason"));
    }
    if choice.decision == Vote::Reject && (choice.input.is_some() || choice.standing.is_some()) {
        return Err(Fault::invalid("a rejection with an input or a standing grant", "leave them out").at("/decision"));
    }
    Ok(())
}

/// First decision wins; the second is told who and when.
fn still_open(approval: &Approval) -> Result<(), Fault> {
    if approval.state == ApprovalState::Open {
        return Ok(());
    }
    let by = approval.decided_by.as_deref().unwrap_or("nobody");
    let at = approval.decided_at.map(|at| at.to_string()).unwrap_or_default();
    let told = format!("it was {} by {by} at {at}", approval.state);
    Err(Fault::conflict(told, "nothing is left to decide; read the call"))
}

fn already(approval: &Approval) -> Fault {
    Fault::conflict(format!("the approval {} was decided or edited meanwhile", approval.id), "look at it again")
}
