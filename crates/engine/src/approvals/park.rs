//! A call is put aside until a person decides: its row, what is asked of whom, its events, its entry in the log and
//! whom to tell, in one commit.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    ApprovalId, ApprovalState, ApprovalStatus, Digest, ErrorCode, Fault, Id, Mode, NoticeType, Status, TenantId,
    Timestamp, ToolError, json as strict,
};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::approvals::Approval;
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::{Change, Error};

use super::judge::Again;
use super::{Asker, Binding};
use crate::admit::Decision;
use crate::again::agent_by;
use crate::asking::Asking;
use crate::engine::Engine;
use crate::entry::{commitment, members};
use crate::notify::News;
use crate::record::{Consent, Prepared, first_row};
use crate::runner::OutputSink;
use crate::submit::{Admission, Asked, Manner};

/// Calls of one caller that may wait for people at the same time.
pub const PENDING_APPROVALS_PER_CALLER_MAX: u32 = 1000;

impl Engine {
    /// Whether somebody consented already: by a standing grant, or by the bypass of a development server.
    pub(crate) async fn consent_to(
        &self,
        asked: &Asked,
        tool: &ResolvedTool,
        input: &Value,
        asking: &Asking,
    ) -> Result<Option<Consent>, Fault> {
        if asked.manner == Manner::Unasked {
            return Ok(Some(Consent::Bypassed));
        }
        self.standing_grant(asked, tool, input, asking).await
    }

    /// People's attention is limited too: a run that asks too often is told so instead, and so is a caller for whom too
    /// much waits already, whatever runs it opens or does not.
    pub(crate) async fn too_many_asks(&self, asked: &Asked, most: u32) -> Result<Option<ToolError>, Fault> {
        let (tenant, principal) = (asked.caller.tenant, asked.caller.principal);
        let waiting = self.store.pending_of(tenant, principal, PENDING_APPROVALS_PER_CALLER_MAX).await?;
        if waiting >= PENDING_APPROVALS_PER_CALLER_MAX {
            let message = format!(
                "{PENDING_APPROVALS_PER_CALLER_MAX} calls of this caller wait for people, and no more may \
                 (PENDING_APPROVALS_PER_CALLER_MAX); have some decided, or take some back with `toolgate calls cancel`"
            );
            let error = ToolError::because(ErrorCode::RateLimit, "asks", message);
            return Ok(Some(error.with("pending_approvals_per_caller_max", PENDING_APPROVALS_PER_CALLER_MAX)));
        }
        let Some(run) = &asked.run else { return Ok(None) };
        let asks = self.store.asks_under(tenant, run.root_run_id).await?;
        Ok((asks >= most).then(|| {
            let message = format!(
                "this run has asked people {asks} times and may ask {most} times; ask for a standing grant, or raise `asks_per_run_max`"
            );
            ToolError::because(ErrorCode::RateLimit, "asks", message).with("asks_per_run_max", most)
        }))
    }

    /// Parks a call. Its caller waits elsewhere: a wait holds no place that a call could run in.
    pub(crate) async fn park(
        &self,
        asked: Asked,
        tool: ResolvedTool,
        input: Value,
        decision: Decision,
        asking: Asking,
        seq: u32,
    ) -> Result<Admission, Fault> {
        let (asker, wait) = (Asker::of(&asked.caller, agent_by(&asked)), asked.wait);
        let timeout_ms = asked.request.timeout_ms;
        let mut prepared = self.prepare(asked, tool, input, decision, seq).await?;
        if let Some(call) = Arc::get_mut(&mut prepared.call) {
            // Nobody listens while it is only planned.
            call.output = OutputSink::default();
        }
        let (tenant, id) = (prepared.call.tenant, prepared.call.id);
        // Nobody is asked about a call that could not run.
        if let Some(error) = self.wanting_of(&prepared).await? {
            return self.refuse_prepared(prepared, error).await;
        }
        let preview = match Box::pin(self.foresee(&prepared.call)).await {
            Ok(preview) => preview,
            Err(error) => return self.refuse_prepared(prepared, error).await,
        };
        let approval = Approval { preview, ..self.approval_for(&prepared, &asking, asker, timeout_ms)? };
        if let Err(error) = self.write_parked(&prepared, &approval, &asking).await {
            return match self.taken(&prepared, &error).await? {
                Some(envelope) => Ok(Admission::Answered(Box::new(envelope))),
                None => Err(error.into()),
            };
        }
        if asking.mode == HitlMode::FireAndContinue && !asking.person_required {
            self.approve_by_mode(tenant, approval.id, super::BY_MODE).await?;
        }
        let goes_on = asking.mode == HitlMode::FireAndContinue && asking.person_required;
        let recorded = prepared.call.mode == Mode::Record;
        let until = tokio::time::Instant::now() + if goes_on || recorded { std::time::Duration::ZERO } else { wait };
        Ok(Admission::Parked(id, until))
    }

    /// What is asked, and what a decision will hold for.
    fn approval_for(
        &self,
        prepared: &Prepared,
        asking: &Asking,
        asker: Asker,
        timeout_ms: Option<u64>,
    ) -> Result<Approval, Fault> {
        let call = &prepared.call;
        let now = call.created_at;
        let snapshot = self.registry.snapshot();
        let settings = &snapshot.tenant(call.tenant)?.tenant.settings;
        let (expires_at, remind_at) = deadlines(asking, settings, now);
        let input_digest = Digest::of(prepared.input.as_bytes());
        let binding = Binding {
            call: call.id,
            tenant: call.tenant,
            principal: call.principal,
            agent: call.agent,
            run: call.run,
            seq: call.seq,
            tool: format!("{}@{}", call.tool.tool.name, call.tool.version.version),
            behaviour_digest: call.tool.behaviour_digest,
            input_digest,
            secrets: prepared.secrets.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            labels: prepared.seen.labels.to_vec(),
            policy_revision: prepared.decision.policy,
            mode: asking.mode,
            borrows: asking.borrows.clone(),
            epoch: self.log_of(call.tenant),
            approvers: Vec::new(),
            not_after: None,
            nonce: None,
        };
        Ok(Approval {
            id: ApprovalId::new(&self.clock, &self.rng),
            call: call.id,
            tool: call.tool.tool.id,
            agent: call.agent,
            workspace: prepared.workspace,
            mode: asking.mode,
            state: ApprovalState::Open,
            person_required: asking.person_required,
            reasons: asking.reasons.clone(),
            need: asking.need(),
            approvers: asking.approvers.clone(),
            separation: settings.separation,
            round: 1,
            input_digest,
            edited_by: None,
            asker,
            binding,
            preview: None,
            timeout_ms,
            expires_at,
            remind_at,
            frozen_at: None,
            decided_at: None,
            decided_by: None,
            decision_reason: None,
            created_at: now,
        })
    }

    async fn write_parked(&self, prepared: &Prepared, approval: &Approval, asking: &Asking) -> Result<(), Error> {
        let call = &prepared.call;
        let now = call.created_at;
        let mut change = Change::new(call.tenant);
        let mut row = prepared.row(Status::Pending, None, None);
        row.approval = Some(approval.id);
        row.approval_status = ApprovalStatus::Pending;
        row.person_required = asking.person_required;
        first_row(&mut change, prepared, row, now);
        change.insert_approval(approval);
        let codes: Vec<&str> = asking.reasons.iter().map(|reason| reason.code.as_str()).collect();
        let asked = json!({
            "tool": call.tool.name, "approval_id": approval.id, "mode": asking.mode, "reasons": codes,
        });
        let requested = json!({
            "approval_id": approval.id, "need": approval.need, "expires_at": approval.expires_at,
        });
        let events = [
            prepared.event(EventType::ToolNeedsApproval, now, asked),
            prepared.event(EventType::ApprovalRequested, now, requested),
        ];
        if prepared.root_run.is_some() && asking.mode != HitlMode::FireAndContinue {
            let waiting = prepared.event(EventType::RunWaiting, now, json!({"approval_id": approval.id}));
            change.append_events(call.run, prepared.place(1), Some(call.id), &events, now);
            change.park_run(call.run, &waiting, now);
        } else {
            change.append_events(call.run, prepared.place(1), Some(call.id), &events, now);
        }
        change.audit(&Entry {
            id: Id::new(&self.clock, &self.rng),
            at: now,
            tenant: call.tenant,
            actor: call.principal.to_string(),
            action: "approval.requested".to_owned(),
            object: approval.id.to_string(),
            details: members(json!({
                "call": call.id, "tool": format!("{}@{}", call.tool.tool.name, call.tool.version.version),
                "definition": call.tool.definition_digest, "input": commitment(&prepared.salt, "input", &prepared.input),
                "reasons": codes, "policy": prepared.decision.policy, "need": approval.need,
            })),
        });
        let snapshot = self.registry.snapshot();
        if let Ok(registry) = snapshot.tenant(call.tenant) {
            let tool = call.tool.tool.name.as_str();
            let news =
                News::of_approval(NoticeType::ApprovalRequested, approval.id, call.id, call.run, tool, "pending");
            self.tell(&mut change, registry, news.in_workspace(prepared.workspace));
        }
        self.store.commit(change).await?;
        self.signal(call.tenant, call.run, Some(call.id));
        Ok(())
    }

    /// More is asked by now than was decided on: it waits again, and earlier votes are void.
    pub(super) async fn ask_again(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        again: &Again,
        asking: &Asking,
    ) -> Result<(), Fault> {
        // What people look at is what is known now.
        let mut binding = approval.binding.clone();
        binding.labels = again.around.seen.labels.to_vec();
        binding.policy_revision = again.admitted.decision.policy;
        binding.mode = asking.mode;
        binding.borrows.clone_from(&asking.borrows);
        let Again { around, admitted } = again;
        let planned = super::resume::waiting_call(
            approval,
            record,
            &around.caller,
            admitted.tool.clone(),
            admitted.input.clone(),
        );
        // Nobody is asked once more about what cannot run any more.
        let preview = match Box::pin(self.foresee(&planned)).await {
            Ok(preview) => preview,
            Err(error) => return self.turn_down(tenant, record, error).await,
        };
        let now = self.clock.now();
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let (expires_at, remind_at) = deadlines(asking, &registry.tenant.settings, now);
        let again = Approval {
            round: approval.round + 1,
            reasons: asking.reasons.clone(),
            need: asking.need(),
            approvers: asking.approvers.clone(),
            separation: approval.separation || registry.tenant.settings.separation,
            mode: asking.mode,
            person_required: approval.person_required || asking.person_required,
            binding,
            preview,
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
        now: Timestamp,
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
            id: Id::new(&self.clock, &self.rng),
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
}

/// Until when a decision is waited for, and when people are reminded.
pub(super) fn deadlines(
    asking: &Asking,
    settings: &toolgate_contracts::TenantSettings,
    now: Timestamp,
) -> (Timestamp, Option<Timestamp>) {
    let waits = asking.timeout_s.unwrap_or(settings.approval_expires_s);
    let waits = i64::try_from(waits).unwrap_or(i64::MAX / 2_000);
    let before = i64::try_from(settings.remind_before_s).unwrap_or(0);
    // Of a short wait, half: a reminder at once, or never, would help nobody.
    let remind = if before * 2 < waits { waits - before } else { waits / 2 };
    let remind_at = (before > 0 && remind > 0).then(|| now.plus_seconds(remind));
    (now.plus_seconds(waits), remind_at)
}

/// The input's digest as a decision names it.
pub(super) fn digest_of(input: &Value) -> Digest {
    strict::digest(input)
}
