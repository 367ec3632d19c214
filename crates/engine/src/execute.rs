//! Step 8: a permitted call runs. Cache and single flight, attempts, the time it may take, output as it comes, and
//! being told to stop.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep, sleep_until};
use toolgate_contracts::definition::{CachePolicy, CacheScope, OUTPUT_BYTES_DEFAULT};
use toolgate_contracts::{
    Amount, Digest, ErrorCode, Fault, Mode, Permission, Permissions, Status, ToolError, ToolResult, WorkspaceId, json,
};

use crate::call::Call;
use crate::control::Late;
use crate::engine::Engine;
use crate::guard::ResultOf;
use crate::output::{self, Shaped};
use crate::permit::Permit;
use crate::record::{Consent, Ended, Prepared, Written};
use crate::reserve::hold_without_room;
use crate::runner::{Done, NewAttachment, Outcome, Runner};
use crate::secrets::{self, Opened, Secrets};
use crate::shared::{Answer, CacheKey, CacheParts, Cached, Flight, KeptAttachment, Sharing};
use toolgate_contracts::Envelope;
use toolgate_policy::labels::Labels;
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::{Change, Durability, Error};
use toolgate_vault::{Redactor, RedactorStream};

/// An effect-free call that ends within this and streams nothing costs one commit, at its end.
const QUICK: Duration = Duration::from_millis(50);
/// Output as it comes is written this often, or sooner when much of it waits.
const PART_EVERY: Duration = Duration::from_millis(250);
/// How long a runner with effects may take to stop by itself once it was asked to.
pub(crate) const STOPPING_S: u64 = 4;
const ATTEMPTS_MAX: u32 = 3;
const BACKOFF_MS: u64 = 200;
const BACKOFF_MS_MAX: u64 = 5_000;
/// How long the end of a call that may have had an effect is tried to be written while the database is away.
const FINISH_TRIES_MAX: u32 = 60;
const FINISH_EVERY: Duration = Duration::from_secs(2);

/// How the running of a call ended.
struct Ran {
    outcome: Outcome,
    attempts: u32,
    cached: bool,
    /// What others who ask the same may have, once it was looked at.
    share: Option<(CacheKey, Cached, Option<Duration>)>,
}

impl Ran {
    fn new(outcome: impl Into<Outcome>, attempts: u32, cached: bool) -> Self {
        Self { outcome: outcome.into(), attempts, cached, share: None }
    }
}

enum Stop {
    TimedOut,
    Cancelled,
}

impl Engine {
    /// Runs a call to its end and records it. Whoever asked may have gone away: it is finished all the same.
    pub(crate) async fn drive(&self, mut prepared: Prepared) -> Result<Envelope, Fault> {
        if prepared.call.mode == Mode::DryRun {
            return Box::pin(self.plan(prepared)).await;
        }
        // Nobody else's process is offered a call that lacks a secret.
        if matches!(prepared.call.tool.definition.runner, toolgate_contracts::Runner::External(_))
            && matches!(prepared.consent, Consent::NotAsked)
            && let Some(error) = self.wanting_of(&prepared).await?
        {
            prepared.decision.refused_at = Some(crate::admit::Step::Run);
            return self.finish_once(&prepared, Status::Failed, Ended::refused(error)).await;
        }
        let mut written = Written::Nothing;
        let mut listed = Listed::none(self);
        if prepared.needs_row_first() {
            listed = Listed::new(self, &prepared.call);
            match self.begin(&mut prepared, Some(&self.replica)).await {
                Ok(()) => written = Written::Begun,
                Err(error) => return Box::pin(self.could_not_begin(prepared, error)).await,
            }
        }
        let call = Arc::clone(&prepared.call);
        let _running = self.metrics.call_started();
        let deadline = Instant::now() + call.timeout;
        // Set before the runner is asked for anything: nothing can leave that was not known before.
        let opened = OnceLock::new();
        let mut run = pin!(self.execute(&call, prepared.workspace, &opened));
        let mut done = poll_once(run.as_mut()).await;
        if done.is_none() && written == Written::Nothing {
            done = tokio::select! {
                ran = run.as_mut() => Some(ran),
                () = sleep(QUICK.min(call.timeout)) => None,
                () = call.output.arrived() => None,
            };
            if done.is_none() {
                listed = Listed::new(self, &call);
                match self.begin(&mut prepared, Some(&self.replica)).await {
                    Ok(()) => written = Written::Begun,
                    Err(error) => return Box::pin(self.could_not_begin(prepared, error)).await,
                }
            }
        }
        let ran = match done {
            Some(ran) => Ok(ran),
            None => Box::pin(self.attend(&prepared, run.as_mut(), &opened, deadline)).await,
        };
        let (status, ended) = match ran {
            Ok(Ran { outcome: Outcome::HandedOver, .. }) => {
                return Box::pin(self.answer(call.tenant, call.id)).await;
            }
            Ok(ran) => {
                if let Outcome::Done(done) = &ran.outcome {
                    prepared.brings = prepared.brings.join(Labels::from(done.labels.as_slice()));
                }
                self.conclude(&prepared, ran, &redactor(&opened)).await?
            }
            Err(stop) => stopped(&prepared, &stop),
        };
        let finished = match written {
            Written::Nothing => self.finish_once(&prepared, status, ended).await,
            Written::Begun => Box::pin(self.finish_for_certain(&prepared, written, status, ended)).await,
        };
        // Until now it was ours: what is written `running` and no longer listed is taken for lost.
        drop(listed);
        finished
    }

    /// Waits for a call that takes its time: writes its output as it comes, and ends it when its time is over or
    /// somebody says so.
    async fn attend(
        &self,
        prepared: &Prepared,
        mut run: Pin<&mut impl Future<Output = Ran>>,
        opened: &OnceLock<Opened>,
        deadline: Instant,
    ) -> Result<Ran, Stop> {
        let call = &prepared.call;
        let mut parts = Parts { after: None, number: 0, bytes: 0, redacted: None, withheld: self.withholds(call) };
        let mut writing = tokio::time::interval(PART_EVERY);
        writing.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = loop {
            tokio::select! {
                ran = run.as_mut() => {
                    let rest = parts.take(call, opened);
                    let held_back = parts.redacted.take().filter(|_| !call.output.is_broken_off());
                    let held_back = held_back.map(RedactorStream::finish).unwrap_or_default();
                    self.write_part(prepared, &mut parts, rest + &held_back).await;
                    return Ok(ran);
                }
                () = sleep_until(deadline) => break Stop::TimedOut,
                () = call.cancel.cancelled() => break Stop::Cancelled,
                _ = writing.tick() => {
                    self.write_told(prepared).await;
                    let text = parts.take(call, opened);
                    self.write_part(prepared, &mut parts, text).await;
                }
                () = call.output.crowded() => {
                    let text = parts.take(call, opened);
                    self.write_part(prepared, &mut parts, text).await;
                }
            }
        };
        call.cancel.cancel();
        if call.is_effect_free() {
            return Err(stop);
        }
        // It may be in the middle of its effect: it is told, and then has a moment to say how far it came.
        match tokio::time::timeout(Duration::from_secs(STOPPING_S), run.as_mut()).await {
            Ok(ran) => Ok(ran),
            Err(_) => Err(stop),
        }
    }

    /// What the runner has told so far, behind the call's beginning.
    async fn write_told(&self, prepared: &Prepared) {
        let call = &prepared.call;
        let events = call.telling.take();
        if events.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut change = Change::new(call.tenant).durability(Durability::Process);
        change.append_events(call.run, prepared.place(2), Some(call.id), &events, now);
        match self.store.commit(change).await {
            Ok(_) => {
                call.telling.wrote(events.len());
                self.signal(call.tenant, call.run, Some(call.id));
            }
            // It is written with the call's end, if that is.
            Err(error) => {
                tracing::warn!(call = %call.id, "what a runner tells is not kept for now: {error}");
                call.telling.put_back(events);
            }
        }
    }

    async fn write_part(&self, prepared: &Prepared, parts: &mut Parts, text: String) {
        let call = &prepared.call;
        let most = call.tool.definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT);
        if text.is_empty() || parts.bytes > most || parts.withheld {
            return;
        }
        parts.bytes += text.len() as u64;
        let after = match (parts.after, prepared.root_run) {
            (Some(after), _) => after,
            (None, None) => 1,
            // Behind its own beginning: who follows knows from there that output may come.
            (None, Some(_)) => self.store.first_event_of(call.tenant, call.run, call.id).await.unwrap_or(0),
        };
        parts.after = Some(after);
        parts.number += 1;
        let mut change = Change::new(call.tenant).durability(Durability::Process);
        change.append_part(call.run, after, call.id, parts.number, &text, self.clock.now());
        match self.store.commit(change).await {
            Ok(_) => self.signal(call.tenant, call.run, Some(call.id)),
            Err(error) => tracing::warn!(call = %call.id, "output as it came is not kept: {error}"),
        }
    }

    /// Secrets, cache, single flight, attempts.
    async fn execute(&self, call: &Arc<Call>, workspace: Option<WorkspaceId>, opened: &OnceLock<Opened>) -> Ran {
        let runner = match self.runners.get(&call.tool.definition) {
            Ok(runner) => Arc::clone(runner),
            Err(error) => return Ran::new(error, 0, false),
        };
        let opened = match self.open_secrets(call, workspace).await {
            Ok(now) => opened.get_or_init(|| now),
            Err(error) => return Ran::new(error, 0, false),
        };
        let Some((key, kept)) = self.cache_key(call) else {
            let (outcome, attempts) = self.attempts(&*runner, call, &opened.secrets).await;
            return Ran::new(outcome, attempts, false);
        };
        if let Some(cached) = self.shared.results.get(&key, self.clock.now()).await {
            self.metrics.cache(true);
            return Ran::new(from_cache(cached), 0, true);
        }
        self.metrics.cache(false);
        loop {
            match self.shared.flights.join(key) {
                Flight::Leader(leader) => {
                    let (outcome, attempts) = self.attempts(&*runner, call, &opened.secrets).await;
                    let mut share = None;
                    if let Some(answer) = self.shareable(call, &outcome, &opened.redactor) {
                        share = answer.as_ref().ok().map(|cached| (key, Cached::clone(cached), kept));
                        leader.publish(answer);
                    }
                    return Ran { outcome, attempts, cached: false, share };
                }
                // Whoever led went away, was told to stop, or has nothing to share: then the next one leads.
                Flight::Follower(follower) => match follower.answer().await {
                    None => {}
                    Some(Ok(cached)) => {
                        return Ran::new(from_cache(Arc::unwrap_or_clone(cached)), 0, true);
                    }
                    Some(Err(error)) => return Ran::new(error, 0, false),
                },
            }
        }
    }

    /// What others who asked the same may have: without secrets, and not the consequence of this call being stopped.
    fn shareable(&self, call: &Call, outcome: &Outcome, redactor: &Redactor) -> Option<Answer> {
        if call.cancel.is_cancelled() {
            return None;
        }
        match outcome {
            Outcome::Done(done) if !done.result.is_error => {
                let attachments = done
                    .attachments
                    .iter()
                    .map(|NewAttachment { kind, content_type, bytes }| KeptAttachment {
                        kind: *kind,
                        content_type: content_type.clone(),
                        bytes: redactor.redact_bytes(bytes).into_owned(),
                    })
                    .collect();
                let ToolResult { content, structured, is_error, app_data } = done.result.clone();
                let content = serde_json::to_value(content).map(|content| redactor.redact_json(content));
                let result = ToolResult {
                    content: content.and_then(serde_json::from_value).unwrap_or_default(),
                    structured: structured.map(|value| redactor.redact_json(value)),
                    is_error,
                    app_data: app_data.map(|value| redactor.redact_json(value)),
                };
                let labels = done.labels.clone();
                Some(Ok(Arc::new(Cached { result, labels, stored_at: self.clock.now(), attachments })))
            }
            Outcome::Failed(error) => Some(Err(output::redacted(error.clone(), redactor))),
            Outcome::Done(_) | Outcome::Spent { .. } | Outcome::Unknown(_) | Outcome::HandedOver => None,
        }
    }

    /// Tries, and where nothing can have happened tries again what failed in passing. All attempts share the `call_id`.
    async fn attempts(&self, runner: &dyn Runner, call: &Arc<Call>, secrets: &Arc<Secrets>) -> (Outcome, u32) {
        let mut attempt = 1;
        loop {
            let Some(permit) = Permit::issue(Arc::clone(call), attempt, secrets, Some(self)) else {
                let error =
                    ToolError::because(ErrorCode::ProviderError, "interrupted", "a call with effects runs once");
                return (error.into(), attempt - 1);
            };
            // A runner that panics ends its own call: caught here, or the call would be running for ever.
            let run = AssertUnwindSafe(async { runner.run(permit).await }).catch_unwind();
            let outcome = run.await.unwrap_or_else(|_| {
                tracing::error!(call = %call.id, tool = %call.tool.name, "the runner panicked");
                Outcome::Unknown("what runs it broke down; the server's log says why".to_owned())
            });
            let again = match &outcome {
                Outcome::Failed(error) if attempt < ATTEMPTS_MAX && call.is_effect_free() => pause(error, attempt),
                _ => None,
            };
            let Some(pause) = again.filter(|pause| *pause < call.timeout) else { return (outcome, attempt) };
            let jitter: [u8; 1] = self.rng.bytes();
            sleep(pause + Duration::from_millis(u64::from(jitter[0]) / 4)).await;
            attempt += 1;
        }
    }

    /// `None` for what is not cached. A cached answer is for the same tool, input, tenant, rights and, unless the tool
    /// says otherwise, the same principal.
    fn cache_key(&self, call: &Call) -> Option<(CacheKey, Option<Duration>)> {
        let definition = &call.tool.definition;
        // What its steps used, and what they may give to whom, only their own calls know.
        if matches!(definition.runner, toolgate_contracts::Runner::Composition(_)) {
            return None;
        }
        let kept = match definition.cache_policy() {
            CachePolicy::None => return None,
            CachePolicy::Ttl => Some(Duration::from_secs(definition.cache_ttl_s.unwrap_or(60))),
            CachePolicy::Forever => None,
        };
        let sharing = match definition.cache_scope.unwrap_or(CacheScope::Principal) {
            CacheScope::Principal => Sharing::Principal { principal: call.principal, agent: call.agent },
            CacheScope::Workspace => Sharing::Workspace(self.workspace_of(call)?),
            CacheScope::Tenant => Sharing::Tenant,
        };
        let parts = CacheParts {
            tool: &call.tool.tool.name,
            version: &call.tool.version.version,
            behaviour: call.tool.behaviour_digest,
            input: json::digest(&call.input),
            tenant: call.tenant,
            secrets: &secrets::used(&call.secrets),
            sharing,
            rights: rights_digest(&call.rights),
        };
        Some((CacheKey::of(&parts), kept))
    }

    fn workspace_of(&self, call: &Call) -> Option<WorkspaceId> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(call.tenant).ok()?;
        registry.agents.get(&call.agent?).map(|agent| agent.workspace)
    }

    /// A result after every guardrail has looked at it, unless it is a guardrail's own question.
    pub(crate) async fn examined(&self, call: &Call, shaped: Shaped) -> Shaped {
        let watched = |registry: &Arc<TenantRegistry>| !registry.deciding.guardrails.is_empty();
        if call.examining || !self.registry.snapshot().tenant(call.tenant).is_ok_and(watched) {
            return shaped;
        }
        Box::pin(self.examine_result(&ResultOf::from(call), shaped)).await
    }

    /// From what a runner gave to what is kept.
    async fn conclude(&self, prepared: &Prepared, ran: Ran, redactor: &Redactor) -> Result<(Status, Ended), Fault> {
        let Ran { outcome, attempts, cached, share } = ran;
        let call = &prepared.call;
        let (status, mut ended) = match outcome {
            Outcome::Done(done) => {
                let cost = cost_of(prepared, &done, cached);
                let units = done.units;
                let limit = self.output_limit(prepared);
                let shaped = self.examined(call, output::shape(&call.tool, done, redactor, limit)).await;
                if let Some((key, cached, kept)) = share.filter(|_| shaped.error.is_none()) {
                    self.shared.results.put(&key, cached, kept).await;
                }
                let (status, mut ended) = self.keep(prepared, shaped).await?;
                ended.cost = cost;
                ended.units = units;
                (status, ended)
            }
            Outcome::Failed(error) => {
                let spent = prepared.estimate.filter(|_| attempts > 0);
                let ended = Ended { cost: spent, ..Ended::default() };
                self.failed(call, error, redactor, ended).await
            }
            Outcome::Spent { error, cost, units } => {
                let ended = Ended { cost, units: Some(units), ..Ended::default() };
                self.failed(call, error, redactor, ended).await
            }
            Outcome::Unknown(why) if call.is_effect_free() => {
                let error = ToolError::because(ErrorCode::ProviderError, "interrupted", why);
                let refused = Ended::refused(output::redacted(error, redactor));
                (Status::Failed, Ended { cost: prepared.estimate, ..refused })
            }
            Outcome::Unknown(why) => (Status::OutcomeUnknown, Ended::refused(unknown(&redactor.redact_text(&why)))),
            Outcome::HandedOver => (Status::Failed, Ended::default()),
        };
        ended.attempts = attempts;
        ended.cached = cached;
        Ok((status, ended))
    }

    async fn failed(&self, call: &Call, error: ToolError, redactor: &Redactor, ended: Ended) -> (Status, Ended) {
        let status = if error.reason() == "cancelled" { Status::Cancelled } else { Status::Failed };
        let error = self.examined(call, Shaped::refused(output::redacted(error, redactor))).await.error;
        (status, Ended { error, ..ended })
    }

    fn output_limit(&self, prepared: &Prepared) -> Option<u64> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(prepared.call.tenant).ok();
        let of_agent = || registry?.agents.get(&prepared.call.agent?)?.spec.limits.max_output_bytes;
        let of_tenant = registry.and_then(|registry| registry.tenant.limits.max_output_bytes);
        prepared.output_bytes_max.into_iter().chain(of_agent()).chain(of_tenant).min()
    }

    /// Writes the attachments of a result. What the tool did is done: an output that does not match the schema fails a
    /// call without effects, and leaves one with effects completed, so that nobody repeats it.
    pub(crate) async fn keep(&self, prepared: &Prepared, shaped: Shaped) -> Result<(Status, Ended), Fault> {
        let Shaped { output, text, error, truncated, attachments, logged, .. } = shaped;
        let call = &prepared.call;
        let (mut kept, mut error, mut lost) = (Vec::with_capacity(attachments.len()), error, false);
        for attachment in attachments {
            let actor = call.principal.to_string();
            match self.blobs.keep(call.tenant, call.id, &actor, attachment).await {
                Ok(attachment) => kept.push(attachment),
                // The call ends all the same: what it did is done, and its row says so.
                Err(fault) => {
                    tracing::error!(call = %call.id, "{}", fault.logged().unwrap_or(fault.told()));
                    lost = error.is_none();
                    error = error.or_else(|| {
                        let message = format!("{}: {}", fault.told(), fault.remedy());
                        Some(ToolError::because(ErrorCode::ProviderError, "interrupted", message))
                    });
                    break;
                }
            }
        }
        let happened = lost || error.as_ref().is_some_and(|error| error.reason() == "output_schema");
        // It ran, and that its result is withheld undoes nothing.
        let withheld = error.as_ref().is_some_and(|error| error.reason() == "result_withheld");
        let status = if error.is_none() || withheld || (happened && !call.is_effect_free()) {
            Status::Completed
        } else {
            Status::Failed
        };
        Ok((
            status,
            Ended { output, output_text: text, error, truncated, attachments: kept, logged, ..Ended::default() },
        ))
    }

    /// What would happen, without it happening.
    async fn plan(&self, prepared: Prepared) -> Result<Envelope, Fault> {
        let call = &prepared.call;
        let planned = match self.runners.get(&call.tool.definition) {
            Ok(runner) => tokio::time::timeout(call.timeout, runner.plan(call)).await.unwrap_or_else(|_| {
                Err(ToolError::because(ErrorCode::Timeout, "timeout", "planning took longer than the tool's timeout"))
            }),
            Err(error) => Err(error),
        };
        // It was given no secrets.
        let redactor = Redactor::none();
        let shaped = match planned {
            Ok(plan) => output::shape_plan(&call.tool, plan, self.output_limit(&prepared)),
            Err(error) => Shaped::refused(output::redacted(error, &redactor)),
        };
        let shaped = self.examined(call, shaped).await;
        let (status, ended) = self.keep(&prepared, shaped).await?;
        self.finish_once(&prepared, status, ended).await
    }

    /// Writes the end of a call that has no row yet, unless the same request has an answer already.
    async fn finish_once(&self, prepared: &Prepared, status: Status, ended: Ended) -> Result<Envelope, Fault> {
        match self.finish(prepared, Written::Nothing, status, ended).await {
            Ok(envelope) => Ok(envelope),
            Err(error) => match Box::pin(self.taken(prepared, &error)).await? {
                Some(answer) => Ok(answer),
                None => Err(error.into()),
            },
        }
    }

    /// A call whose first row was refused did not run.
    pub(crate) async fn could_not_begin(&self, prepared: Prepared, error: Error) -> Result<Envelope, Fault> {
        if matches!(prepared.consent, Consent::Granted { .. }) {
            let (tenant, id) = (prepared.call.tenant, prepared.call.id);
            let full = match hold_without_room(&error).and_then(|index| prepared.holds.get(index)) {
                Some(hold) => Some(self.budget_error(tenant, hold).await?),
                None => self.token_error(&prepared, &error).await?,
            };
            self.granted_but_not_begun(tenant, id, full).await?;
            return self.answer(tenant, id).await;
        }
        if let Some(hold) = hold_without_room(&error).and_then(|index| prepared.holds.get(index).cloned()) {
            let told = self.budget_error(prepared.call.tenant, &hold).await?;
            return self.refuse_for_limit(prepared, hold.what, told).await;
        }
        if let Some(told) = self.token_error(&prepared, &error).await? {
            return self.refuse_for_limit(prepared, "the token's calls".to_owned(), told).await;
        }
        if let Some(answer) = self.taken(&prepared, &error).await? {
            return Ok(answer);
        }
        Err(error.into())
    }

    async fn refuse_for_limit(&self, prepared: Prepared, limit: String, told: ToolError) -> Result<Envelope, Fault> {
        let mut prepared = Prepared { holds: Vec::new(), ..prepared };
        prepared.decision.verdict = crate::admit::Verdict::Deny;
        prepared.decision.refused_at = Some(crate::admit::Step::Reserve);
        prepared.decision.limits.push(limit);
        prepared.decision.intent = None;
        self.finish_once(&prepared, Status::Failed, Ended::refused(told)).await
    }

    /// What may have had an effect is not given up on because the database is away for a moment: what happened is
    /// known only here.
    async fn finish_for_certain(
        &self,
        prepared: &Prepared,
        written: Written,
        status: Status,
        ended: Ended,
    ) -> Result<Envelope, Fault> {
        for _ in 0..FINISH_TRIES_MAX {
            let error = match self.finish(prepared, written, status, ended.clone()).await {
                Ok(envelope) => return Ok(envelope),
                Err(error) => error,
            };
            if let Some(answer) = self.taken(prepared, &error).await? {
                return self.known_after_all(prepared, answer, status, ended).await;
            }
            let passing =
                matches!(error, Error::Unavailable(_) | Error::Unconfirmed(_) | Error::Full | Error::ReadOnly);
            if written == Written::Nothing || !passing || self.stopping.is_cancelled() {
                return Err(error.into());
            }
            tracing::error!(call = %prepared.call.id, "the end of a call is not written yet: {error}");
            sleep(FINISH_EVERY).await;
        }
        Err(Fault::internal(format!("the end of call {} could not be written", prepared.call.id)))
    }
}

impl Engine {
    /// Somebody gave this call up while it ran: a replica that was silent for too long is taken for dead. What became of
    /// it is known here, so it is settled by that.
    async fn known_after_all(
        &self,
        prepared: &Prepared,
        answer: Envelope,
        status: Status,
        ended: Ended,
    ) -> Result<Envelope, Fault> {
        let call = &prepared.call;
        if answer.status != Status::OutcomeUnknown || status == Status::OutcomeUnknown {
            return Ok(answer);
        }
        let record = self.store.call(call.tenant, call.id).await?.ok_or_else(|| Fault::not_found("call", call.id))?;
        let actor = format!("replica:{}", self.replica);
        let ended = Ended { attested_by: Some(actor.clone()), ..ended };
        let late = Late { status, ended, action: "call.settled", actor, before: Vec::new() };
        self.settle_as(call.tenant, &record, late).await
    }
}

struct Parts {
    /// The event after which the parts stand.
    after: Option<u64>,
    number: u64,
    /// A guardrail looks at the result first.
    withheld: bool,
    /// What was kept so far; of a tool that never stops writing, no more than its output may have.
    bytes: u64,
    /// Made when the first output comes: by then the runner has its secrets, and they are known.
    redacted: Option<RedactorStream>,
}

impl Parts {
    /// What came and may be told.
    fn take(&mut self, call: &Call, opened: &OnceLock<Opened>) -> String {
        let text = call.output.take();
        if text.is_empty() {
            return text;
        }
        self.redacted.get_or_insert_with(|| redactor(opened).stream()).push(&text)
    }
}

/// Before anything was opened there is nothing to look for, and nothing that could hold it.
fn redactor(opened: &OnceLock<Opened>) -> Redactor {
    opened.get().map(|opened| opened.redactor.clone()).unwrap_or_default()
}

/// Keeps a call among those that can be told to stop.
struct Listed<'a>(&'a Engine, Option<toolgate_contracts::CallId>);

impl<'a> Listed<'a> {
    fn none(engine: &'a Engine) -> Self {
        Self(engine, None)
    }

    fn new(engine: &'a Engine, call: &Call) -> Self {
        engine.running().insert(call.id, call.cancel.clone());
        Self(engine, Some(call.id))
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            self.0.running().remove(&id);
        }
    }
}

/// A tool that needs to wait for nothing is done now, and then no timer was needed either.
async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn from_cache(cached: Cached) -> Outcome {
    let attachments = cached
        .attachments
        .into_iter()
        .map(|KeptAttachment { kind, content_type, bytes }| NewAttachment { kind, content_type, bytes })
        .collect();
    Outcome::Done(Done { result: cached.result, attachments, labels: cached.labels, cost: None, units: None })
}

/// How long to wait before trying again what may go better then; `None` for what will not.
fn pause(error: &ToolError, attempt: u32) -> Option<Duration> {
    let passing = match error.code {
        ErrorCode::NetworkError => true,
        ErrorCode::RateLimit => error.reason() == "upstream",
        ErrorCode::ProviderError => matches!(error.reason(), "upstream_5xx" | "interrupted"),
        _ => false,
    };
    let backoff = (BACKOFF_MS << (attempt - 1)).min(BACKOFF_MS_MAX);
    let wanted = error.retry_after_s.map_or(backoff, |seconds| seconds.saturating_mul(1000));
    passing.then(|| Duration::from_millis(wanted))
}

/// The measured price, else the declared one; what came from the cache cost nothing.
fn cost_of(prepared: &Prepared, done: &Done, cached: bool) -> Option<Amount> {
    if cached {
        return prepared.estimate.map(|_| Amount::ZERO);
    }
    let declared = prepared.call.tool.definition.cost.as_ref();
    done.cost.or_else(|| {
        let cost = declared?;
        let per_unit = cost.per_unit.unwrap_or_default().times(done.units.unwrap_or(0));
        Some(cost.per_call.unwrap_or_default() + per_unit)
    })
}

fn stopped(prepared: &Prepared, stop: &Stop) -> (Status, Ended) {
    let call = &prepared.call;
    let ms = call.timeout.as_millis();
    let why = match stop {
        Stop::TimedOut => format!("it did not end within {ms} ms"),
        Stop::Cancelled => "it was cancelled while it ran".to_owned(),
    };
    let (status, error) = match stop {
        _ if !call.is_effect_free() => (Status::OutcomeUnknown, unknown(&why)),
        Stop::TimedOut => {
            let message = format!("`{}` did not end within {ms} ms; nothing was changed", call.tool.name);
            let error = ToolError::because(ErrorCode::Timeout, "timeout", message);
            (Status::Failed, error.with("timeout_ms", u64::try_from(ms).unwrap_or(u64::MAX)))
        }
        Stop::Cancelled => {
            let message = "the call was cancelled; nothing was changed";
            (Status::Cancelled, ToolError::because(ErrorCode::PolicyDenied, "cancelled", message))
        }
    };
    // It ran: what it may have cost is counted, as it is of one that failed.
    let cost = prepared.estimate.filter(|_| call.is_effect_free());
    (status, Ended { attempts: 1, cost, ..Ended::refused(error) })
}

/// Nobody knows whether it happened.
pub(crate) fn unknown(why: &str) -> ToolError {
    let message = format!(
        "it is not known whether this happened: {why}; find out, then settle it with `toolgate calls settle`; do not repeat it unseen"
    );
    ToolError::because(ErrorCode::ProviderError, "outcome_unknown", message)
}

fn rights_digest(rights: &Permissions) -> Digest {
    let words: Vec<&str> = rights.iter().map(Permission::as_str).collect();
    Digest::of(words.join(" ").as_bytes())
}
