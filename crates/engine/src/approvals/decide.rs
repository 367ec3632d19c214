//! Deciding: approve, reject with a reason, approve with another input. One reject rejects; the first decision wins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::{
    ApprovalId, ApprovalState, AskReason, CallId, Caller, Digest, ErrorCode, Fault, FaultKind, GrantId, Status,
    TenantId, ToolError, Vote, json as strict,
};
use toolgate_store::approvals::{Approval, CastVote};
use toolgate_store::calls::CallRecord;
use utoipa::ToSchema;

use super::Card;
use super::edit::Edit;
use super::eligible::As;
use super::ending::Ending;
use super::park::digest_of;
use super::standing::NewStanding;
use crate::asking::destination;
use crate::engine::Engine;
use crate::lending::may_lend;

const REASON_BYTES_MAX: usize = 1000;
/// What an edit comes to where asking and deciding are separated.
const NEEDS_ANOTHER: &str = "the edited input waits for another person: whoever edits it does not approve it";
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
    /// Of the card that was looked at: where more is asked by now than it said, the decision is refused.
    #[serde(default)]
    pub round: Option<u32>,
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
    /// What is still wanted, where the decision alone does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
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
        if choice.round.is_some_and(|seen| seen != approval.round) {
            return Err(Fault::conflict("more is asked by now than when you looked", "look at it again").at("/round"));
        }
        let mut edited = choice.input.clone();
        if let Some(input) = &mut edited {
            // Before it is compared: two numbers may look alike only after they were cut.
            strict::normalize(input).map_err(|error| Fault::from(error).at("/input"))?;
        }
        let mut wanted = None;
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
                        let edited = Box::pin(self.edit(caller, &approval, &record, input, &choice)).await?;
                        wanted = (edited == Edit::NeedsAnother).then(|| NEEDS_ANOTHER.to_owned());
                    }
                    _ => {
                        may_lend(&caller.permissions, &approval)?;
                        Box::pin(self.vote(caller, &approval, &record, choice.reason.as_deref())).await?;
                    }
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
        Ok(Decided { card: self.card(caller, approval, record).await?, standing, wanted })
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

    /// The same choice for several; each is decided by itself, and none makes a standing grant. Only calls of one tool to
    /// one destination, and nothing critical or that lends a right: these are looked at one by one. `shown` has the digests of what
    /// the person looked at, by the same ids; one that has changed since is refused.
    pub async fn decide_all(
        &self,
        caller: &Caller,
        ids: &[String],
        shown: &BTreeMap<String, Digest>,
        choice: &Choice,
    ) -> Result<Vec<BulkAnswer>, Fault> {
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
        let tools: BTreeSet<_> = found.iter().flatten().map(|(approval, _)| approval.tool.to_string()).collect();
        if choice.decision == Vote::Approve && tools.len() > 1 {
            let told = format!("approvals of {} different tools", tools.len());
            return Err(Fault::invalid(told, "approve those of one tool at a time").at("/ids"));
        }
        let destinations: BTreeSet<_> =
            found.iter().flatten().map(|(_, record)| self.destination_of(caller.tenant, record)).collect();
        if choice.decision == Vote::Approve && destinations.len() > 1 {
            let names: Vec<&str> =
                destinations.iter().map(|host| host.as_deref().unwrap_or("somewhere unknown")).collect();
            let told = format!("approvals of calls to {} different destinations: {}", names.len(), names.join(", "));
            return Err(Fault::invalid(told, "approve those to one destination at a time").at("/ids"));
        }
        let mut answers = Vec::with_capacity(ids.len());
        for (id, found) in ids.iter().zip(found) {
            let decided = match found {
                Ok((approval, _)) if choice.decision == Vote::Approve && is_critical(&approval.reasons) => {
                    Err(Fault::conflict("the tool is critical", "look at it by itself"))
                }
                Ok((approval, _)) if choice.decision == Vote::Approve && approval.binding.borrows.is_some() => {
                    Err(Fault::conflict("whoever approves it lends a right", "look at it by itself"))
                }
                Ok(_) => {
                    let choice = Choice { input_digest: shown.get(id).copied(), ..choice.clone() };
                    Box::pin(self.decide(caller, id, choice, Duration::ZERO)).await
                }
                Err(fault) => Err(fault),
            };
            answers.push(match decided {
                Ok(decided) => BulkAnswer { id: id.clone(), state: Some(decided.card.state), refused: None },
                Err(fault) => BulkAnswer { id: id.clone(), state: None, refused: Some(fault.told().to_owned()) },
            });
        }
        Ok(answers)
    }

    /// Where a call goes, if that is known before it runs.
    fn destination_of(&self, tenant: TenantId, record: &CallRecord) -> Option<String> {
        let tool = self.version_of(tenant, record)?;
        destination(&tool, record.input.as_ref()?).map(|host| host.to_string())
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

    pub(super) async fn decided_meanwhile(&self, tenant: TenantId, id: ApprovalId, fault: Fault) -> Fault {
        match self.store.approval(tenant, id).await {
            Ok(Some(approval)) if approval.state != ApprovalState::Open => still_open(&approval).err().unwrap_or(fault),
            _ => fault,
        }
    }
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
    toolgate_contracts::unseen::check_text("reason", reason)?;
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

pub(super) fn already(approval: &Approval) -> Fault {
    Fault::conflict(format!("the approval {} was decided or edited meanwhile", approval.id), "look at it again")
}
