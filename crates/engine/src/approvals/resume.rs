//! A call that was approved is judged again and runs: the stored bytes, with the rights of now.
//!
//! Steps 2 to 6 are asked once more. A denial rejects the call with the reason; whoever would be asked more than was
//! asked is asked; what is equal runs. Invariant: the grant is spent in the commit that begins the run, so of any number
//! of replicas, tries and restarts one begins it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_contracts::definition::{HitlMode, TIMEOUT_MS_DEFAULT};
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    ApprovalState, CallId, Caller, Digest, ErrorCode, Fault, FaultKind, Mode, NoticeType, ResolvedSecret, Status,
    TenantId, ToolError, ToolRef, json as strict,
};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::approvals::Approval;
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::grants::Grant;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Error};

use super::decide::Ending;
use super::park::{deadlines, members};
use super::{Asker, BY_MODE, BY_TIMEOUT, Binding};
use crate::admit::{Admitted, Question, Refusal};
use crate::asking::Asking;
use crate::call::Call;
use crate::control::Late;
use crate::engine::Engine;
use crate::labels::{Seen, within_run};
use crate::notify::News;
use crate::record::{Consent, Ended, Prepared};
use crate::runner::OutputSink;

/// How far the clocks of two replicas may be apart.
const CLOCKS_DIFFER_S: i64 = 60;

/// How a call that waited looks by the rules of now.
pub(super) enum Judged {
    Refused(ToolError),
    Admitted(Box<Admitted>, Option<Asking>),
}

/// The world around a call that waited, as it is now.
struct Around {
    caller: Caller,
    run: Option<Run>,
    above: Vec<Run>,
    seen: Seen,
}

impl Engine {
    /// Runs an approved call in a task of its own; who fails here is tried again by the next round.
    pub(crate) fn resume_soon(&self, tenant: TenantId, call: CallId) {
        let engine = self.clone();
        tokio::spawn(async move {
            if let Err(fault) = Box::pin(engine.resume(tenant, call)).await {
                tracing::warn!(%call, "an approved call does not run yet: {}", fault.logged().unwrap_or(fault.told()));
            }
        });
    }

    /// Every call that was approved and that nobody runs: a decider may have stopped right after deciding.
    pub(crate) async fn resume_approved(&self) -> Result<(), Fault> {
        for (tenant, call) in self.store.approved_calls().await? {
            self.resume_soon(tenant, call);
        }
        Ok(())
    }

    async fn resume(&self, tenant: TenantId, call: CallId) -> Result<(), Fault> {
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
        if let Err(error) = self.holds_still(tenant, &approval, &record, &grant).await? {
            return self.turn_down(tenant, &record, error).await;
        }
        let input = record.input.clone().unwrap_or(Value::Null);
        let (admitted, asking) = match self.judge_again(tenant, &approval, &record, input).await? {
            Judged::Refused(error) => return self.turn_down(tenant, &record, error).await,
            Judged::Admitted(admitted, asking) => (*admitted, asking),
        };
        let binding: Binding = serde_json::from_value(grant.binding.clone()).map_err(Fault::internal)?;
        if let Err(error) = is_bound_to(&binding, &admitted) {
            return self.turn_down(tenant, &record, error).await;
        }
        let before = asked_before(&approval);
        if let Some(asking) = asking.filter(|asking| asking.exceeds(&before)) {
            return self.ask_again(tenant, &approval, &record, &admitted, &asking).await;
        }
        Box::pin(self.run_granted(tenant, approval, record, grant, admitted)).await
    }

    /// What a decision depends on besides the rules: its time, the log it was made in, and who made it.
    async fn holds_still(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        grant: &Grant,
    ) -> Result<Result<(), ToolError>, Fault> {
        let denied = |reason: &str, message: &str| Err(ToolError::because(ErrorCode::PolicyDenied, reason, message));
        if grant.spent_at.is_some() || grant.expires_at <= self.clock.now() {
            return Ok(denied("expired", "the approval was given too long ago; ask again"));
        }
        // Replicas' clocks differ by a little; one that was set back would make old grants young again.
        if grant.created_at > self.clock.now().plus_seconds(CLOCKS_DIFFER_S) {
            return Ok(denied("expired", "the clock was set back since it was approved; ask again"));
        }
        let binding: Binding = serde_json::from_value(grant.binding.clone()).map_err(Fault::internal)?;
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
        match self.counted(tenant, approval, record, &votes).await? {
            Some(_) => Ok(Ok(())),
            None => Ok(denied("approval_required", "who approved it may not decide any more; ask again")),
        }
    }

    /// Steps 2 to 5 with this input, by the rules and rights of now.
    pub(super) async fn judge_again(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        input: Value,
    ) -> Result<Judged, Fault> {
        let around = match self.around(tenant, approval, record).await? {
            Ok(around) => around,
            Err(error) => return Ok(Judged::Refused(error)),
        };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let now = self.clock.now();
        let today = now.day();
        let reference = exact(record)?;
        let question = self.question_again(registry, snapshot.revision, &around, record, &reference, &today);
        if let Some(error) = question.past_its_time(around.run.as_ref(), now) {
            return Ok(Judged::Refused(error));
        }
        Ok(match question.answer(input) {
            Err(Refusal::NotFound(..)) => Judged::Refused(gone(record)),
            Err(Refusal::Refused(refused)) => Judged::Refused(refused.error),
            Ok(mut admitted) => {
                let Admitted { tool, input, decision } = &mut admitted;
                // The input may be another by now, and so may what looks at it.
                if let Err(error) = Box::pin(self.examine_by_tools(&question, tool, input, decision)).await {
                    return Ok(Judged::Refused(error));
                }
                let asking = admitted.decision.asking.clone();
                Judged::Admitted(Box::new(admitted), asking)
            }
        })
    }

    fn question_again<'a>(
        &self,
        registry: &'a toolgate_registry::snapshot::TenantRegistry,
        revision: i64,
        around: &'a Around,
        record: &CallRecord,
        reference: &'a ToolRef,
        today: &'a str,
    ) -> Question<'a> {
        Question {
            registry,
            revision,
            caller: &around.caller,
            agent: record.agent.and_then(|id| registry.agents.get(&id)),
            run: around.run.as_ref().map(|run| &run.limits),
            today,
            tool: reference,
            mode: record.mode,
            source: record.source,
            now: self.clock.now(),
            depth: u32::try_from(around.above.len()).unwrap_or(u32::MAX),
            labels: around.seen.labels,
            examining: false,
        }
    }

    /// Who asked, in which run, having seen what: as of now. `Err` says why it is nothing any more.
    async fn around(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<Result<Around, ToolError>, Fault> {
        let denied = |reason: &str, message: String| ToolError::because(ErrorCode::PolicyDenied, reason, message);
        let asker: Asker = serde_json::from_value(approval.asker.clone()).map_err(Fault::internal)?;
        let caller = match self.caller_again(tenant, &asker).await {
            Ok(caller) => caller,
            Err(fault) if fault.kind() == FaultKind::Forbidden => {
                return Ok(Err(denied("permission", fault.told().to_owned())));
            }
            // A token that was revoked, or whose key was.
            Err(fault) if fault.kind() == FaultKind::Unauthenticated => {
                return Ok(Err(ToolError::because(ErrorCode::AuthRequired, "token_revoked", fault.told())));
            }
            Err(fault) => return Err(fault),
        };
        if !caller.may(&toolgate_contracts::Permission::CALLS_CREATE) {
            return Ok(Err(denied("permission", "whoever asked may not call tools any more".to_owned())));
        }
        // Without its agent it would be another's call, with other tools and no profile.
        if record
            .agent
            .is_some_and(|id| self.registry.snapshot().tenant(tenant).is_ok_and(|of| !of.agents.contains_key(&id)))
        {
            return Ok(Err(denied("permission", "the agent that asked was deleted".to_owned())));
        }
        let run = if record.in_run { self.store.run(tenant, record.run).await? } else { None };
        if run.as_ref().is_some_and(|run| run.state.is_final()) {
            return Ok(Err(denied("cancelled", "its run has ended".to_owned())));
        }
        let above = match &run {
            Some(run) if run.parent_run_id.is_some() => self.runs_above(tenant, run).await?,
            _ => Vec::new(),
        };
        if above.iter().any(|run| run.state.is_final()) {
            return Ok(Err(denied("cancelled", "the run above its own has ended".to_owned())));
        }
        let binding: Binding = serde_json::from_value(approval.binding.clone()).map_err(Fault::internal)?;
        let mut seen = within_run(&*self.seen_just_now(&caller).await?, run.as_ref());
        seen.labels = seen.labels.join(binding.labels);
        Ok(Ok(Around { caller, run, above, seen }))
    }

    /// More is asked by now than was decided on: it waits again, and earlier votes are void.
    async fn ask_again(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        admitted: &Admitted,
        asking: &Asking,
    ) -> Result<(), Fault> {
        // What people look at is what is known now.
        let Ok(around) = self.around(tenant, approval, record).await? else { return Ok(()) };
        let mut binding: Binding = serde_json::from_value(approval.binding.clone()).map_err(Fault::internal)?;
        binding.labels = around.seen.labels;
        binding.policy_revision = admitted.decision.policy;
        binding.mode = asking.mode;
        let now = self.clock.now();
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let (expires_at, remind_at) = deadlines(asking, &registry.tenant.settings, now);
        let again = Approval {
            round: approval.round + 1,
            reasons: asking.reasons.clone(),
            need: asking.need(),
            approvers: serde_json::to_value(&asking.approvers).unwrap_or_default(),
            separation: approval.separation || registry.tenant.settings.separation,
            mode: asking.mode,
            person_required: approval.person_required || asking.person_required,
            binding: binding.value(),
            expires_at,
            remind_at,
            ..approval.clone()
        };
        let mut change = Change::new(tenant);
        let taken = Fault::conflict("it runs or was decided already", "read it again");
        change.ask_again(&again, taken);
        change.void_grants(approval.call, "system", now);
        self.asked_again(&mut change, &again, record, now).await?;
        let told = News::of_approval(
            NoticeType::ApprovalRequested,
            again.id,
            record.id,
            record.run,
            &record.tool_name,
            "pending",
        );
        self.tell(&mut change, registry, told.in_workspace(again.workspace));
        match self.store.commit(change).await {
            Ok(_) => self.signal(tenant, record.run, Some(record.id)),
            Err(Error::Unmet(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The same events and the same entry as when it was asked first, so that whoever follows the run sees it wait.
    async fn asked_again(
        &self,
        change: &mut Change,
        again: &Approval,
        record: &CallRecord,
        now: toolgate_contracts::Timestamp,
    ) -> Result<(), Fault> {
        let codes: Vec<&str> = again.reasons.iter().map(|reason| reason.code.as_str()).collect();
        let event = |event_type, data| NewEvent {
            event_type,
            call_id: Some(record.id),
            at: now,
            actor: "system".to_owned(),
            data: members(data),
        };
        let asked = json!({"tool": record.tool_name, "approval_id": again.id, "mode": again.mode, "reasons": codes});
        let requested =
            json!({"approval_id": again.id, "need": again.need, "expires_at": again.expires_at, "round": again.round});
        let events = [event(EventType::ToolNeedsApproval, asked), event(EventType::ApprovalRequested, requested)];
        let place = self.next_place(change.tenant(), record).await?;
        change.append_events(record.run, place, Some(record.id), &events, now);
        if record.in_run && again.mode != HitlMode::FireAndContinue {
            change.park_run(record.run, &event(EventType::RunWaiting, json!({"approval_id": again.id})), now);
        }
        change.audit(&Entry {
            id: toolgate_contracts::Id::new(&self.clock, &self.rng),
            at: now,
            tenant: change.tenant(),
            actor: "system".to_owned(),
            action: "approval.requested".to_owned(),
            object: again.id.to_string(),
            details: members(json!({
                "call": record.id, "round": again.round, "reasons": codes, "need": again.need,
                "tool": format!("{}@{}", record.tool_name, record.tool_version),
            })),
        });
        Ok(())
    }

    /// It was approved, and may not run by now: that is its end, and the reason is told.
    async fn turn_down(&self, tenant: TenantId, record: &CallRecord, error: ToolError) -> Result<(), Fault> {
        let late = Late {
            status: Status::Rejected,
            ended: Ended::refused(error),
            action: "call.rejected",
            actor: "system".to_owned(),
            before: Vec::new(),
        };
        let now = self.clock.now();
        match self.end_late(tenant, record, late, |change| void(change, record.id, now)).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Step 6 once more, then the run.
    async fn run_granted(
        &self,
        tenant: TenantId,
        approval: Approval,
        record: CallRecord,
        grant: Grant,
        admitted: Admitted,
    ) -> Result<(), Fault> {
        let Ok(around) = self.around(tenant, &approval, &record).await? else { return Ok(()) };
        let Ok(at_once) = Arc::clone(&self.places).try_acquire_owned() else { return Ok(()) };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let now = self.clock.now();
        let today = now.day();
        let reference = exact(&record)?;
        let (places, holds, estimate) = {
            let question = self.question_again(registry, snapshot.revision, &around, &record, &reference, &today);
            let run = record.in_run.then_some(record.run);
            // No place is free: the next round tries again.
            let Ok(places) = self.take_places(&question.parallel_limits(run)) else { return Ok(()) };
            let estimate = Question::estimate(&admitted.tool);
            let holds = match estimate {
                Some(cost) => question.holds(&admitted.tool, run, &around.above, cost, now),
                None => Ok(Vec::new()),
            };
            (places, holds, estimate)
        };
        let holds = match holds {
            Ok(holds) => holds,
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
        let mut prepared = self.prepare_again(&record, &around, admitted, &grant, secrets).await?;
        prepared.holds = holds;
        prepared.estimate = estimate;
        if record.mode == Mode::Record {
            self.begin_recorded(prepared).await?;
            return Ok(());
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let _places = (places, at_once);
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
        record: &CallRecord,
        around: &Around,
        admitted: Admitted,
        grant: &Grant,
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
        let timeout = Duration::from_millis(tool.definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
        let brings = crate::labels::brings(&tool, !secrets.is_empty());
        let kept_secrets = crate::secrets::text(&secrets);
        let call = Call {
            id: record.id,
            call_id: record.call_id.clone(),
            tenant: caller.tenant,
            tenant_slug: caller.tenant_slug.clone(),
            run: record.run,
            step: record.step,
            seq: record.seq,
            principal: record.principal,
            agent: record.agent,
            rights: caller.permissions.clone(),
            mode: record.mode,
            examining: false,
            tool,
            input: Arc::new(input),
            // As they were bound: what is opened is these or none.
            secrets,
            timeout,
            created_at: record.created_at,
            cancel: CancellationToken::new(),
            output: OutputSink::buffered(),
        };
        Ok(Prepared {
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

    /// A granted call whose first commit was refused has not begun: a budget without room ends it, all else is that
    /// somebody was faster.
    pub(crate) async fn granted_but_not_begun(
        &self,
        tenant: TenantId,
        call: CallId,
        no_room: Option<ToolError>,
    ) -> Result<(), Fault> {
        let (Some(error), Some(record)) = (no_room, self.store.call(tenant, call).await?) else { return Ok(()) };
        self.turn_down(tenant, &record, error).await
    }

    /// Takes back a call that waits, or that was approved and does not run yet.
    pub(crate) async fn cancel_parked(&self, tenant: TenantId, record: &CallRecord, by: &str) -> Result<(), Fault> {
        let Some(approval) = self.store.approval_of(tenant, record.id).await? else { return Ok(()) };
        let message = "the call was cancelled while it waited; nothing was changed";
        let error = ToolError::because(ErrorCode::PolicyDenied, "cancelled", message);
        if approval.state == ApprovalState::Open {
            let ending = Ending { state: ApprovalState::Cancelled, by, reason: None, error };
            return self.end_waiting(tenant, &approval, record, ending, |_, _| {}).await;
        }
        let late = Late {
            status: Status::Cancelled,
            ended: Ended::refused(error),
            action: "call.cancelled",
            actor: by.to_owned(),
            before: Vec::new(),
        };
        let now = self.clock.now();
        match self.end_late(tenant, record, late, |change| void(change, record.id, now)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The mode lets it run without a person: its time is over, or it never waited for one.
    pub(crate) async fn approve_by_mode(
        &self,
        tenant: TenantId,
        id: toolgate_contracts::ApprovalId,
        by: &str,
    ) -> Result<(), Fault> {
        let Some(approval) = self.store.approval(tenant, id).await? else { return Ok(()) };
        let Some(record) = self.store.call(tenant, approval.call).await? else { return Ok(()) };
        if approval.state != ApprovalState::Open || approval.person_required || record.person_required {
            return Ok(());
        }
        self.approve(tenant, &approval, &record, vec![by.to_owned()], None).await
    }
}

fn void(change: &mut Change, call: CallId, now: toolgate_contracts::Timestamp) {
    change.void_grants(call, "system", now);
}

/// The very version that was asked for, by its canonical name.
fn exact(record: &CallRecord) -> Result<ToolRef, Fault> {
    format!("{}@{}", record.tool_name, record.tool_version).parse().map_err(Fault::internal)
}

fn gone(record: &CallRecord) -> ToolError {
    let message = format!("`{}` is not there for whoever asked any more", record.tool_name);
    ToolError::because(ErrorCode::PolicyDenied, "not_found", message)
}

/// What was decided on, and what would run: the same tool, the same behaviour, the same bytes.
fn is_bound_to(binding: &Binding, admitted: &Admitted) -> Result<(), ToolError> {
    let Admitted { tool, input, .. } = admitted;
    let changed = |what: &str| {
        let message = format!("{what} changed since it was approved; ask again");
        Err(ToolError::because(ErrorCode::PolicyDenied, "rejected", message))
    };
    let named = format!("{}@{}", tool.tool.name, tool.version.version);
    if binding.tool != named || binding.behaviour_digest != behaviour(tool) {
        return changed("the tool");
    }
    if binding.input_digest != Digest::of(strict::canonical(input).as_bytes()) {
        return changed("the input");
    }
    Ok(())
}

fn behaviour(tool: &ResolvedTool) -> Digest {
    tool.behaviour_digest
}

/// What was asked when it was decided.
fn asked_before(approval: &Approval) -> Asking {
    Asking {
        reasons: approval.reasons.clone(),
        mode: approval.mode,
        timeout_s: None,
        approvers: super::eligible::demands_of(approval),
        person_required: approval.person_required,
        standing: false,
    }
}
