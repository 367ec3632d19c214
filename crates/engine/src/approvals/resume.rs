//! A call that was approved is judged again and runs: the stored bytes, with the rights of now.
//!
//! Steps 2 to 6 are asked once more. A denial rejects the call with the reason; whoever would be asked more than was
//! asked is asked; what is equal runs. Invariant: the grant is spent in the commit that begins the run, so of any number
//! of replicas, tries and restarts one begins it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::definition::TIMEOUT_MS_DEFAULT;
use toolgate_contracts::{
    ApprovalState, CallId, Caller, Digest, ErrorCode, Fault, Mode, ResolvedSecret, Status, TenantId, ToolError,
    json as strict,
};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::approvals::{Approval, DUE_MAX};
use toolgate_store::calls::CallRecord;
use toolgate_store::grants::Grant;

use super::judge::{Again, Around, exact};
use super::{BY_MODE, BY_TIMEOUT, Binding};
use crate::admit::Admitted;
use crate::asking::Asking;
use crate::call::{Call, Lent};
use crate::engine::Engine;
use crate::record::{Consent, Prepared};
use crate::reserve::Expected;
use crate::runner::OutputSink;
use crate::telling::Telling;
use crate::uses::Uses;

/// Approved calls that are judged again at the same time on this replica; the rest is left to the next round.
const RESUMED_AT_ONCE_MAX: usize = 32;

/// How far the clocks of two replicas may be apart.
const CLOCKS_DIFFER_S: i64 = 60;

/// Approved calls that this replica is at, from being judged again to their end: nobody takes them up twice.
pub(crate) struct Resuming {
    calls: Arc<Mutex<HashSet<CallId>>>,
    /// For being judged; a call that runs has a place among all that run.
    places: Arc<Semaphore>,
}

/// One of them, as long as somebody is at it.
struct Flight {
    call: CallId,
    calls: Arc<Mutex<HashSet<CallId>>>,
}

impl Default for Resuming {
    fn default() -> Self {
        Self { calls: Arc::default(), places: Arc::new(Semaphore::new(RESUMED_AT_ONCE_MAX)) }
    }
}

impl Resuming {
    /// `None`: somebody is at it.
    fn take_up(&self, call: CallId) -> Option<Flight> {
        let new = self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
        new.then(|| Flight { call, calls: Arc::clone(&self.calls) })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.call);
    }
}

impl Engine {
    /// Runs an approved call in a task of its own; who fails here is tried again by the next round.
    pub(crate) fn resume_soon(&self, tenant: TenantId, call: CallId) {
        let Some(flight) = self.resuming.take_up(call) else { return };
        let (engine, places) = (self.clone(), Arc::clone(&self.resuming.places));
        tokio::spawn(async move {
            if let Ok(_place) = places.acquire_owned().await {
                engine.resume_now(tenant, flight).await;
            }
        });
    }

    /// Every call that was approved and that nobody runs: a decider may have stopped right after deciding.
    pub(crate) async fn resume_approved(&self) -> Result<(), Fault> {
        let after = self.rounds().approved;
        let page = self.store.approved_calls(after, DUE_MAX).await?;
        let mut last = page.last().map(|(_, call)| *call).filter(|_| page.len() == DUE_MAX as usize);
        let mut before = after;
        for (tenant, call) in page {
            // What finds no place is where the next round begins.
            let Ok(place) = Arc::clone(&self.resuming.places).try_acquire_owned() else {
                last = before;
                break;
            };
            before = Some(call);
            let Some(flight) = self.resuming.take_up(call) else { continue };
            let engine = self.clone();
            tokio::spawn(async move {
                let _place = place;
                engine.resume_now(tenant, flight).await;
            });
        }
        self.rounds().approved = last;
        Ok(())
    }

    async fn resume_now(&self, tenant: TenantId, flight: Flight) {
        let call = flight.call;
        if let Err(fault) = Box::pin(self.resume(tenant, flight)).await {
            tracing::warn!(%call, "an approved call does not run yet: {}", fault.logged().unwrap_or(fault.told()));
        }
    }

    async fn resume(&self, tenant: TenantId, flight: Flight) -> Result<(), Fault> {
        let call = flight.call;
        if self.stopping.is_cancelled() {
            return Ok(());
        }
        let Some(record) = self.store.call(tenant, call).await? else { return Ok(()) };
        let Some(approval) = self.store.approval_of(tenant, call).await? else { return Ok(()) };
        if record.status != Status::Approved || approval.state != ApprovalState::Approved {
            return Ok(());
        }
        let Some(grant) = self.store.grant_of(tenant, call).await? else {
            let error = ToolError::because(ErrorCode::PolicyDenied, "expired", "the approval was withdrawn");
            return self.turn_down(tenant, &record, error).await;
        };
        let binding: Binding = serde_json::from_value(grant.binding.clone()).map_err(Fault::internal)?;
        if let Err(error) = self.holds_still(tenant, &approval, &record, &grant, &binding).await? {
            return self.turn_down(tenant, &record, error).await;
        }
        let input = record.input.clone().unwrap_or(Value::Null);
        let again = match self.judge_again(tenant, &approval, &record, input).await? {
            Ok(again) => again,
            Err(error) => return self.turn_down(tenant, &record, error).await,
        };
        if let Err(error) = is_bound_to(&binding, &again.admitted) {
            return self.turn_down(tenant, &record, error).await;
        }
        let before = asked_before(&approval);
        if let Some(asking) = again.admitted.decision.asking.as_ref().filter(|asking| asking.exceeds(&before)) {
            return self.ask_again(tenant, &approval, &record, &again, asking).await;
        }
        Box::pin(self.run_granted(tenant, &approval, record, (grant, binding), again, flight)).await
    }

    /// What a decision depends on besides the rules: its time, the log it was made in, and who made it.
    async fn holds_still(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        grant: &Grant,
        binding: &Binding,
    ) -> Result<Result<(), ToolError>, Fault> {
        let denied = |reason: &str, message: &str| Err(ToolError::because(ErrorCode::PolicyDenied, reason, message));
        if grant.spent_at.is_some() || grant.expires_at <= self.clock.now() {
            return Ok(denied("expired", "the approval was given too long ago; ask again"));
        }
        // Replicas' clocks differ by a little; one that was set back would make old grants young again.
        if grant.created_at > self.clock.now().plus_seconds(CLOCKS_DIFFER_S) {
            return Ok(denied("expired", "the clock was set back since it was approved; ask again"));
        }
        if binding.digest() != grant.binding_digest || binding.call != record.id || binding.tenant != tenant {
            return Ok(denied("rejected", "the grant is not for this call"));
        }
        if binding.epoch != self.log_of(tenant) {
            return Ok(denied("expired", "the approval was given before the database was restored; ask again"));
        }
        if [BY_TIMEOUT, BY_MODE].contains(&grant.issued_by.as_str()) {
            let forbidden = approval.person_required || record.person_required;
            return Ok(if forbidden { denied("approval_required", "only a person may let it run") } else { Ok(()) });
        }
        let votes = self.store.votes(tenant, approval.id, approval.round).await?;
        if self.counted(tenant, approval, record, &votes).await?.enough {
            return Ok(Ok(()));
        }
        Ok(denied("approval_required", "who approved it may not decide any more; ask again"))
    }

    /// Step 6 once more, then the run.
    async fn run_granted(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: CallRecord,
        (grant, binding): (Grant, Binding),
        again: Again,
        flight: Flight,
    ) -> Result<(), Fault> {
        let Again { around, admitted } = again;
        let Ok(at_once) = Arc::clone(&self.places).try_acquire_owned() else { return Ok(()) };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let now = self.clock.now();
        let today = now.day();
        let reference = exact(&record)?;
        let (places, expected) = {
            let question = self.question_again(registry, snapshot.revision, &around, &record, &reference, &today);
            let run = record.in_run.then_some(record.run);
            // No place is free: the next round tries again.
            let Ok(places) = self.take_places(&question.parallel_limits(run)) else { return Ok(()) };
            (places, self.expected(&question, (&admitted.tool, &admitted.input), run, &around.above, now))
        };
        let Expected { estimate, holds } = match expected {
            Ok(expected) => expected,
            Err(error) => return self.turn_down(tenant, &record, error).await,
        };
        let secrets = self.secrets_of(tenant, record.principal, record.workspace, record.mode, &admitted.tool).await?;
        // As whom it acts is part of what was decided: neither a newer value nor a wider scope steps in.
        let resolved = crate::secrets::text(&secrets).and_then(|text| serde_json::from_str::<Value>(&text).ok());
        if resolved != record.secrets {
            let message = "a secret that it uses changed since it was approved; ask again";
            let error = ToolError::because(ErrorCode::AuthRequired, "secret_missing", message);
            return self.turn_down(tenant, &record, error).await;
        }
        let mut prepared =
            self.prepare_again(approval, &record, &around, admitted, (&grant, &binding), secrets).await?;
        prepared.holds = holds;
        prepared.estimate = estimate;
        if record.mode == Mode::Record {
            self.begin_recorded(prepared).await?;
            return Ok(());
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let _places = (places, at_once, flight);
            let call = prepared.call.id;
            if let Err(fault) = engine.drive(prepared).await {
                tracing::warn!(%call, "an approved call: {}", fault.logged().unwrap_or(fault.told()));
            }
        });
        Ok(())
    }

    /// The record of a call that waited, as it goes on.
    async fn prepare_again(
        &self,
        approval: &Approval,
        record: &CallRecord,
        around: &Around,
        admitted: Admitted,
        (grant, binding): (&Grant, &Binding),
        secrets: Vec<ResolvedSecret>,
    ) -> Result<Prepared, Fault> {
        let Admitted { tool, input, mut decision } = admitted;
        let Around { caller, run, above, seen } = around;
        let text = strict::canonical(&input);
        let was: Option<i64> = record.decision.get("policy").and_then(Value::as_i64);
        if let Some(was) = was.filter(|was| *was != decision.policy) {
            decision.logged.push(format!("approved under policy revision {was}, run under {}", decision.policy));
        }
        decision.origins = seen.origins.clone();
        let brings = crate::labels::brings(&tool, !secrets.is_empty());
        let kept_secrets = crate::secrets::text(&secrets);
        // Only what people approved: what a mode let run has nobody's right but its caller's.
        let is_by_people = ![BY_TIMEOUT, BY_MODE].contains(&grant.issued_by.as_str());
        let wanted =
            binding.borrows.as_ref().filter(|right| is_by_people && !caller.may(right) && caller.token.is_none());
        let lent =
            wanted.map(|right| Lent { right: right.clone(), approval: approval.id, by: binding.approvers.clone() });
        // As they were bound: what is opened is these or none.
        let call = Call {
            secrets,
            lent,
            output: OutputSink::buffered(),
            ..waiting_call(approval, record, caller, tool, input)
        };
        let of_agent = (caller.tenant, record.agent);
        let timeout = self.within_time_of(call.timeout, run.as_ref(), above, of_agent);
        let call = Call { timeout, ..call };
        Ok(Prepared {
            began: self.clock.now(),
            call: Arc::new(call),
            source: record.source,
            workspace: record.workspace,
            decision,
            input: text,
            metadata: None,
            seen: seen.clone(),
            brings,
            context: crate::labels::context_of(caller),
            consent: Consent::Granted { grant: grant.id, digest: grant.binding_digest },
            token: caller.token.clone(),
            secrets: kept_secrets,
            events_before: if record.in_run { 0 } else { self.store.last_event(caller.tenant, record.run).await? },
            request: None,
            root_run: record.in_run.then_some(record.root_run),
            above: above.iter().map(|run| run.id).collect(),
            output_bytes_max: run.as_ref().and_then(|run| run.limits.max_output_bytes),
            holds: Vec::new(),
            estimate: None,
            salt: self.salt_of(record),
            warnings: Vec::new(),
        })
    }
}

/// A call that waited, as it stands: nothing was opened for it and nobody has lent it anything.
pub(super) fn waiting_call(
    approval: &Approval,
    record: &CallRecord,
    caller: &Caller,
    tool: ResolvedTool,
    input: Value,
) -> Call {
    let declared = tool.definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
    let timeout = Duration::from_millis(approval.timeout_ms.map_or(declared, |asked| asked.min(declared)));
    Call {
        id: record.id,
        call_id: record.call_id.clone(),
        tenant: caller.tenant,
        tenant_slug: caller.tenant_slug.clone(),
        run: record.run,
        in_run: record.in_run,
        step: record.step,
        seq: record.seq,
        principal: record.principal,
        agent: record.agent,
        rights: caller.permissions.clone(),
        caller: caller.clone(),
        source: record.source,
        mode: record.mode,
        examining: false,
        tool,
        input: Arc::new(input),
        lent: None,
        beside: None,
        secrets: Vec::new(),
        timeout,
        created_at: record.created_at,
        cancel: CancellationToken::new(),
        output: OutputSink::default(),
        uses: Uses::default(),
        telling: Telling::default(),
    }
}

/// What was decided on, and what would run: the same tool, the same behaviour, the same bytes.
fn is_bound_to(binding: &Binding, admitted: &Admitted) -> Result<(), ToolError> {
    let Admitted { tool, input, .. } = admitted;
    let changed = |what: &str| {
        let message = format!("{what} changed since it was approved; ask again");
        Err(ToolError::because(ErrorCode::PolicyDenied, "rejected", message))
    };
    let named = format!("{}@{}", tool.tool.name, tool.version.version);
    if binding.tool != named || binding.behaviour_digest != tool.behaviour_digest {
        return changed("the tool");
    }
    if binding.input_digest != Digest::of(strict::canonical(input).as_bytes()) {
        return changed("the input");
    }
    Ok(())
}

/// What was asked when it was decided.
fn asked_before(approval: &Approval) -> Asking {
    Asking {
        reasons: approval.reasons.clone(),
        mode: approval.mode,
        timeout_s: None,
        approvers: approval.approvers.clone(),
        person_required: approval.person_required,
        standing: false,
        borrows: approval.binding.borrows.clone(),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::{Clock, Rng, Timestamp};

    use super::*;

    #[test]
    fn a_call_is_taken_up_by_one_until_they_let_go_of_it() {
        let (clock, rng) = (Clock::manual(Timestamp::from_millis(0)), Rng::seeded(1));
        let resuming = Resuming::default();
        let (one, other) = (CallId::new(&clock, &rng), CallId::new(&clock, &rng));
        let first = resuming.take_up(one);
        assert!(first.is_some() && resuming.take_up(one).is_none() && resuming.take_up(other).is_some());
        drop(first);
        assert!(resuming.take_up(one).is_some());
    }
}
