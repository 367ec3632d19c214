//! What others may do to a call that runs or ran: stop it, settle what nobody knows, report what they did themselves.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    Amount, CallId, Caller, Envelope, ErrorCode, Fault, Id, LeafId, LeaseId, Mode, Permission, Status, TenantId,
    ToolError, ToolResult, json as strict,
};
use toolgate_ledger::Salt;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::budgets::Held;
use toolgate_store::calls::{CallRecord, Ending};
use toolgate_store::events::Place;
use toolgate_store::{Change, Error};
use utoipa::ToSchema;

use crate::engine::Engine;
use crate::entry::{Details, Entry, commitment, members};
use crate::execute::unknown;
use crate::guard::ResultOf;
use crate::notify::End;
use crate::output;
use crate::record::{Ended, attachments_text};
use crate::reserve::taken_of;
use crate::runner::Done;

/// How a settlement may be explained.
const REASON_BYTES_MAX: usize = 1000;

/// What a worker reports of a call it carried out.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// `completed`, `failed`, or `outcome_unknown` where it may have had its effect or not.
    pub status: Status,
    /// What the tool gave back; for more than one value use `result`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    #[serde(default)]
    pub result: Option<ToolResult>,
    #[serde(default)]
    pub error: Option<ToolError>,
    /// The worker's own figure: kept beside the declared one, which counts.
    #[serde(default)]
    pub cost: Option<Amount>,
}

impl Report {
    pub(crate) fn completed(output: Value) -> Self {
        Self { status: Status::Completed, output: Some(output), result: None, error: None, cost: None }
    }
}

/// What a person found out about a call whose outcome was unknown.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// `completed` or `failed`.
    pub status: Status,
    /// How they know.
    pub reason: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
}

/// The end of a call that another process wrote the beginning of.
pub(crate) struct Late {
    pub status: Status,
    pub ended: Ended,
    pub action: &'static str,
    /// Who says so.
    pub actor: String,
    /// What happened just before, and led to it.
    pub before: Vec<NewEvent>,
}

impl Engine {
    /// Asks a call to stop. What has no effect stops at once; what has one is asked, and may still end by itself.
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<Envelope, Fault> {
        let record = self.readable(caller, id).await?;
        caller.require(&Permission::CALLS_CREATE)?;
        let (tenant, id) = (caller.tenant, record.id);
        if record.status.is_final() {
            return Err(Fault::conflict(
                format!("the call is {} already", record.status),
                "there is nothing to cancel",
            ));
        }
        if matches!(record.status, Status::Pending | Status::Approved) {
            self.cancel_parked(tenant, &record, &caller.principal.to_string()).await?;
            return self.answer(tenant, id).await;
        }
        self.ask_to_stop(caller, id).await?;
        Box::pin(self.cancel_handed_over(caller, &record)).await?;
        self.cancel_waiting(tenant, &record, &caller.principal.to_string()).await?;
        let patience = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
        self.when_ended(tenant, id, patience).await
    }

    /// Tells whoever runs a call that it is not wanted any more.
    pub(crate) async fn ask_to_stop(&self, caller: &Caller, id: CallId) -> Result<(), Fault> {
        let mut change = Change::new(caller.tenant);
        change.request_cancel(id, &caller.principal.to_string(), self.clock.now());
        self.store.commit(change).await?;
        if let Some(running) = self.running().get(&id) {
            running.cancel();
        }
        Ok(())
    }

    /// A call that waits for a worker has not begun: it is simply taken back.
    async fn cancel_waiting(&self, tenant: TenantId, record: &CallRecord, by: &str) -> Result<(), Fault> {
        let taken = Fault::conflict("a worker has it", "wait for the worker");
        let late = Late {
            status: Status::Cancelled,
            ended: Ended::refused(ToolError::because(
                ErrorCode::PolicyDenied,
                "cancelled",
                "the call was cancelled before a worker took it; nothing was changed",
            )),
            action: "call.cancelled",
            actor: by.to_owned(),
            before: Vec::new(),
        };
        let withdraw = |change: &mut Change| {
            change.withdraw_work(record.id, taken.clone());
        };
        match self.end_late(tenant, record, late, withdraw).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Settles a call whose outcome was unknown, by the word of a person.
    pub async fn settle(&self, caller: &Caller, id: &str, settlement: Settlement) -> Result<Envelope, Fault> {
        caller.require(&Permission::CALLS_SETTLE)?;
        let record = self.readable(caller, id).await?;
        let Settlement { status, reason, mut output } = settlement;
        if !matches!(status, Status::Completed | Status::Failed) {
            return Err(
                Fault::invalid(format!("`status` is {status}"), "settle as `completed` or `failed`").at("/status")
            );
        }
        if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
            let told = format!("`reason` has {} bytes", reason.len());
            return Err(Fault::invalid(told, format!("say how you know, in at most {REASON_BYTES_MAX}")).at("/reason"));
        }
        toolgate_contracts::unseen::check_text("reason", &reason)?;
        let redactor = self.redactor_of(caller.tenant, &record).await?;
        if let Some(output) = &mut output {
            strict::normalize(output).map_err(Fault::from)?;
            self.check_settled_output(caller.tenant, &record, output)?;
            let Some(redactor) = &redactor else {
                let told =
                    "a secret that the call was given has changed, so nobody can tell whether the output holds it";
                return Err(Fault::conflict(told, "leave `output` out").at("/output"));
            };
            *output = redactor.redact_json(output.take());
        }
        let reason = redactor.unwrap_or_default().redact_text(&reason).into_owned();
        let error = (status == Status::Failed).then(|| {
            ToolError::because(
                ErrorCode::ProviderError,
                "interrupted",
                format!("it did not happen, by the word of {}: {reason}", caller.display_name),
            )
        });
        let text = output.as_ref().map(strict::canonical);
        let cost = if status == Status::Completed { record.cost_estimate } else { None };
        let ended = Ended {
            output,
            output_text: text,
            error,
            cost,
            attempts: record.attempts,
            attested_by: Some(caller.principal.to_string()),
            settled_because: Some(reason),
            ..Ended::default()
        };
        let late =
            Late { status, ended, action: "call.settled", actor: caller.principal.to_string(), before: Vec::new() };
        self.settle_as(caller.tenant, &record, late).await
    }

    /// What a person says the tool gave must be something that the tool gives.
    fn check_settled_output(&self, tenant: TenantId, record: &CallRecord, output: &Value) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let version = record.tool_version.parse().map_err(Fault::internal)?;
        let tool = snapshot.tenant(tenant)?.tool_by_id(record.tool);
        let Some(version) = tool.and_then(|tool| tool.tool.version(&version)) else { return Ok(()) };
        let violations = version.output_validator().and_then(Result::ok).map(|validator| validator.validate(output));
        match violations.unwrap_or_default().first() {
            Some(first) => Err(Fault::invalid(
                format!("the output does not match the tool's schema: {}", first.message),
                "correct it, or leave it out",
            )
            .at("/output")),
            None => Ok(()),
        }
    }

    pub(crate) async fn settle_as(&self, tenant: TenantId, record: &CallRecord, late: Late) -> Result<Envelope, Fault> {
        if record.status != Status::OutcomeUnknown {
            return Err(Fault::conflict(
                format!("the call is {}; only `outcome_unknown` is settled", record.status),
                "read it again with `toolgate calls show`",
            ));
        }
        self.end_late(tenant, record, late, |_| {}).await.map_err(Fault::from)
    }

    /// A worker reports. Once, by the same principal, while the lease holds.
    pub async fn complete(&self, caller: &Caller, lease: LeaseId, report: Report) -> Result<Envelope, Fault> {
        let lost = || {
            Fault::conflict(
                "the lease is not yours, has run out, or was completed already",
                "lease work again; what was reported is in the log",
            )
        };
        let Some(record) = self.held_by(caller, lease).await? else {
            self.note_refused_report(caller, lease).await?;
            return Err(lost());
        };
        let (status, mut ended) = self.judge_report(caller.tenant, &record, report).await?;
        ended.attempts = 1;
        ended.attested_by = Some(caller.principal.to_string());
        let action = match status {
            Status::Completed => "call.completed",
            Status::Cancelled => "call.cancelled",
            _ => "call.failed",
        };
        let late = Late { status, ended, action, actor: caller.principal.to_string(), before: Vec::new() };
        let now = self.clock.now();
        let end_lease = |change: &mut Change| {
            change.end_lease(lease, caller.principal, now, lost());
        };
        match self.end_late(caller.tenant, &record, late, end_lease).await {
            Err(Error::Unmet(fault)) => {
                self.note_refused_report(caller, lease).await?;
                Err(fault)
            }
            ended => ended.map_err(Fault::from),
        }
    }

    /// The call that this caller holds by a lease: as a worker, or because they recorded it themselves.
    pub(crate) async fn held_by(&self, caller: &Caller, lease: LeaseId) -> Result<Option<CallRecord>, Fault> {
        let may_work = caller.may(&Permission::WORK_LEASE);
        if !may_work {
            caller.require(&Permission::CALLS_CREATE)?;
        }
        let Some(call) = self.store.leased(caller.tenant, lease, caller.principal).await? else { return Ok(None) };
        let record = self.store.call(caller.tenant, call).await?;
        Ok(record.filter(|record| match record.mode {
            // Whoever asked as an agent that they manage reports as themselves.
            Mode::Record => caller.agent.is_none() || record.agent == caller.agent,
            Mode::Execute | Mode::DryRun => may_work,
        }))
    }

    /// A report without a lease is refused, and that somebody tried is worth knowing.
    pub(crate) async fn note_refused_report(&self, caller: &Caller, lease: LeaseId) -> Result<(), Fault> {
        let mut change = Change::new(caller.tenant);
        change.audit(&toolgate_store::audit::Entry {
            id: Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: "work.refused".to_owned(),
            object: lease.to_string(),
            details: serde_json::Map::new(),
        });
        self.store.commit(change).await?;
        Ok(())
    }

    /// The tool of a call in the version that was called, if it is still there.
    pub(crate) fn version_of(&self, tenant: TenantId, record: &CallRecord) -> Option<ResolvedTool> {
        let snapshot = self.registry.snapshot();
        let tool = snapshot.tenant(tenant).ok()?.tool_by_id(record.tool)?;
        let version = tool.tool.version(&record.tool_version.parse().ok()?)?;
        Some(tool.at(version, None))
    }

    /// What a worker says is treated like what a runner gives: validated, redacted, looked at, capped.
    pub(crate) async fn judge_report(
        &self,
        tenant: TenantId,
        record: &CallRecord,
        report: Report,
    ) -> Result<(Status, Ended), Fault> {
        let Report { status, output, result, error, cost } = report;
        let Some(redactor) = self.redactor_of(tenant, record).await? else {
            return withheld(record, status);
        };
        let (status, mut ended) = match status {
            Status::Completed => {
                if error.is_some() {
                    let told = "`error` in a report of `completed`";
                    return Err(Fault::invalid(told, "report `failed`, or leave `error` out").at("/error"));
                }
                if output.is_some() && result.is_some() {
                    return Err(Fault::invalid("both `output` and `result`", "send one of them").at("/result"));
                }
                let result = result.unwrap_or_else(|| ToolResult { structured: output, ..ToolResult::default() });
                let Some(resolved) = self.version_of(tenant, record) else {
                    return Err(Fault::conflict("the tool's version is gone", "settle the call by hand"));
                };
                let shaped = output::shape(&resolved, Done { result, ..Done::default() }, &redactor, None);
                let shaped = Box::pin(self.examine_result(&result_of(tenant, record, &resolved), shaped)).await;
                let mut attachments = Vec::new();
                for attachment in shaped.attachments {
                    let actor = record.principal.to_string();
                    attachments.push(self.blobs.keep(tenant, record.id, &actor, attachment).await?);
                }
                // An output that does not match its schema, or that nobody may read, does not undo what was done.
                let done = shaped.error.as_ref().is_none_or(|error| match error.reason() {
                    "output_schema" => !record.effect_free,
                    reason => reason == "result_withheld",
                });
                let status = if done { Status::Completed } else { Status::Failed };
                let ended = Ended {
                    output: shaped.output,
                    output_text: shaped.text,
                    error: shaped.error,
                    truncated: shaped.truncated,
                    attachments,
                    cost: record.cost_estimate,
                    logged: shaped.logged,
                    ..Ended::default()
                };
                (status, ended)
            }
            Status::Failed => {
                let error = error.unwrap_or_else(|| {
                    ToolError::because(
                        ErrorCode::ProviderError,
                        "upstream_4xx",
                        "the worker reported a failure without words",
                    )
                });
                let status = if error.reason() == "cancelled" { Status::Cancelled } else { Status::Failed };
                // What a worker took may have cost its price, whatever the worker says.
                let error = output::redacted(error, &redactor);
                let error = match self.version_of(tenant, record) {
                    Some(resolved) => Box::pin(self.examine_error(&result_of(tenant, record, &resolved), error)).await,
                    None => error,
                };
                (status, Ended { cost: record.cost_estimate, ..Ended::refused(error) })
            }
            Status::OutcomeUnknown => {
                let error = error.unwrap_or_else(|| {
                    let message = "the worker does not know how it ended";
                    ToolError::because(ErrorCode::ProviderError, "interrupted", message)
                });
                let error = output::redacted(error, &redactor);
                // What has no effect has none to be unsure of.
                if record.effect_free {
                    (Status::Failed, Ended { cost: record.cost_estimate, ..Ended::refused(error) })
                } else {
                    (Status::OutcomeUnknown, Ended::refused(unknown(&error.message)))
                }
            }
            other => {
                let remedy = "report `completed`, `failed` or `outcome_unknown`";
                return Err(Fault::invalid(format!("`status` is {other}"), remedy).at("/status"));
            }
        };
        ended.reported_cost = cost;
        Ok((status, ended))
    }

    /// Ends a call that this process did not begin, or no longer runs; `more` joins what else must hold in that commit.
    pub(crate) async fn end_late(
        &self,
        tenant: TenantId,
        record: &CallRecord,
        late: Late,
        more: impl FnOnce(&mut Change),
    ) -> Result<Envelope, Error> {
        let Late { status, ended, action, actor, before } = late;
        let now = self.clock.now();
        let mut change = Change::new(tenant);
        more(&mut change);
        let error_text = ended.error.as_ref().map(|error| serde_json::to_string(error).unwrap_or_default());
        let taken = Fault::conflict("the call has ended already", "read it again with `toolgate calls show`");
        if status == Status::OutcomeUnknown {
            change.lose_call(record.id, error_text.clone().unwrap_or_default(), record.attempts.max(1), taken);
        } else {
            let ending = Ending {
                output: ended.output_text.clone(),
                error: error_text.clone(),
                attachments: attachments_text(&ended.attachments),
                cost: ended.cost.map(|cost| cost.to_string()),
                reported_cost: ended.reported_cost.map(|cost| cost.to_string()),
                // The words are for people, and can be erased; the log has who said it.
                usage: ended.settled_because.as_ref().map(|reason| json!({"settled_because": reason}).to_string()),
                attempts: ended.attempts,
                cached: false,
                truncated: ended.truncated,
                at: Some(now),
            };
            change.finish_call(record.id, record.status, status, ending, taken);
            let held: Vec<Held> =
                record.reserved.clone().and_then(|held| serde_json::from_value(held).ok()).unwrap_or_default();
            for held in &held {
                change.settle(held, taken_of(held, ended.cost.unwrap_or_default(), ended.units));
            }
        }
        for (blob, _) in &ended.attachments {
            change.insert_blob(blob);
        }
        let waited = !before.is_empty();
        let mut events = before;
        events.push(late_event(record, status, &ended, &actor, now));
        let place = self.next_place(tenant, record).await?;
        change.append_events(record.run, place, Some(record.id), &events, now);
        if waited && record.in_run {
            let data = serde_json::Map::new();
            let resumed = NewEvent {
                event_type: EventType::RunResumed,
                call_id: Some(record.id),
                at: now,
                actor: actor.clone(),
                data,
            };
            change.resume_run(record.run, &resumed, now);
        }
        self.late_leaf(&mut change, tenant, record, status, &ended, error_text.as_deref(), action, &actor);
        self.tell_of_end(&mut change, &told(record, status, &ended), now);
        self.store.commit(change).await?;
        self.signal(tenant, record.run, Some(record.id));
        self.metrics.call_finished(
            &record.tool_name,
            status,
            ended.error.as_ref().map(|error| error.code),
            record.source,
            crate::record::seconds_between(record.created_at, now),
        );
        self.answer(tenant, record.id).await.map_err(|fault| Error::Corrupt(fault.told().to_owned()))
    }

    /// Where the next event of a call goes. Of a lone call's run its status arrow lets one writer through, so nobody
    /// else counts.
    pub(crate) async fn next_place(&self, tenant: TenantId, record: &CallRecord) -> Result<Place, Error> {
        if record.in_run {
            return Ok(Place::Counted);
        }
        Ok(Place::At(self.store.last_event(tenant, record.run).await? + 1))
    }

    /// With which the log commits to the call's payloads. Erased with them: then nobody is to open the commitment, and
    /// nobody to guess it.
    pub(crate) fn salt_of(&self, record: &CallRecord) -> Salt {
        let salt = record.salt.as_deref().and_then(|salt| <[u8; 32]>::try_from(salt).ok());
        Salt::from_bytes(salt.unwrap_or_else(|| self.rng.bytes()))
    }

    #[expect(clippy::too_many_arguments, reason = "an entry says all of it")]
    fn late_leaf(
        &self,
        change: &mut Change,
        tenant: TenantId,
        record: &CallRecord,
        status: Status,
        ended: &Ended,
        error_text: Option<&str>,
        action: &str,
        actor: &str,
    ) {
        let now = self.clock.now();
        // Who was unknown before has the call's own entry already.
        let id = if record.status == Status::OutcomeUnknown {
            Id::new(&self.clock, &self.rng)
        } else {
            LeafId::from(record.id)
        };
        let salt = self.salt_of(record);
        let input = record.input.as_ref().map(strict::canonical).unwrap_or_default();
        let tool = format!("{}@{}", record.tool_name, record.tool_version);
        let reason = ended.error.as_ref().map(ToolError::reason).filter(|reason| !reason.is_empty());
        let secrets = crate::secrets::bound(record);
        let entry = Entry {
            action,
            actor,
            at: now,
            details: Details {
                agent: record.agent,
                attested_by: ended.attested_by.as_deref(),
                call: record.id,
                definition: record.definition_digest,
                error: error_text.map(|text| commitment(&salt, "error", text)),
                error_code: ended.error.as_ref().map(|error| error.code),
                grant: record.grant,
                input: commitment(&salt, "input", &input),
                logged: &ended.logged,
                mode: record.mode,
                openings: &[],
                output: ended.output_text.as_ref().map(|text| commitment(&salt, "output", text)),
                reason,
                revision: record.decision.get("revision").and_then(Value::as_i64).unwrap_or_default(),
                run: record.run,
                secrets: &secrets,
                source: record.source,
                status,
                tool: &tool,
            },
            id,
            object: &record.call_id,
            tenant,
            v: 1,
        };
        change.leaf(id, entry.text(), now);
    }

    /// Nobody will report any more: what had no effect failed, of the rest nobody knows.
    pub(crate) fn lost(record: &CallRecord, code: ErrorCode, reason: &str, why: &str) -> Late {
        if record.effect_free {
            let error =
                ToolError::because(code, reason, format!("{why}; nothing was changed, so it can be called again"));
            let ended = Ended { cost: record.cost_estimate, attempts: record.attempts.max(1), ..Ended::refused(error) };
            Late {
                status: Status::Failed,
                ended,
                action: "call.failed",
                actor: "system".to_owned(),
                before: Vec::new(),
            }
        } else {
            let ended = Ended { attempts: record.attempts.max(1), ..Ended::refused(unknown(why)) };
            Late {
                status: Status::OutcomeUnknown,
                ended,
                action: "call.outcome_unknown",
                actor: "system".to_owned(),
                before: Vec::new(),
            }
        }
    }
}

/// What a worker says of a call whose secrets were changed since: how it ended counts, its words do not leave.
fn withheld(record: &CallRecord, status: Status) -> Result<(Status, Ended), Fault> {
    let message = "what the worker reported is withheld: a secret that it was given has changed since, so nobody can tell whether the report holds it";
    let error = match status {
        Status::Completed => ToolError::because(ErrorCode::PolicyDenied, "result_withheld", message),
        Status::Failed => ToolError::because(ErrorCode::ProviderError, "upstream_4xx", message),
        other => {
            return Err(Fault::invalid(format!("`status` is {other}"), "report `completed` or `failed`").at("/status"));
        }
    };
    Ok((status, Ended { cost: record.cost_estimate, ..Ended::refused(error) }))
}

fn told<'a>(record: &'a CallRecord, status: Status, ended: &'a Ended) -> End<'a> {
    End {
        call: record.id,
        run: record.run,
        tool: &record.tool_name,
        mode: record.mode,
        source: record.source,
        status,
        error: ended.error.as_ref(),
        // What was settled afterwards was told when it was lost.
        ran: ended.attempts > 0 && record.status != Status::OutcomeUnknown,
        began: record.started_at.unwrap_or(record.created_at),
    }
}

fn late_event(
    record: &CallRecord,
    status: Status,
    ended: &Ended,
    actor: &str,
    now: toolgate_contracts::Timestamp,
) -> NewEvent {
    let mut data = json!({"tool": record.tool_name, "status": status});
    if let Some(error) = &ended.error {
        data["code"] = json!(error.code);
        data["reason"] = error.reason().into();
    }
    let event_type = match status {
        Status::Completed => EventType::ToolCompleted,
        Status::Cancelled => EventType::ToolCancelled,
        _ => EventType::ToolFailed,
    };
    NewEvent { event_type, call_id: Some(record.id), at: now, actor: actor.to_owned(), data: members(data) }
}

fn result_of<'a>(tenant: TenantId, record: &CallRecord, tool: &'a ResolvedTool) -> ResultOf<'a> {
    ResultOf { tenant, call: record.id, principal: record.principal, agent: record.agent, tool }
}
