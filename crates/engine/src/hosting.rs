//! What whoever hosts runs needs of the engine: to act for whom a run is, to hold and spend money that no call spends,
//! and to end calls that were handed over to a run.
//!
//! Deliberately absent: what is asked of a model, and when. The engine knows calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolgate_contracts::call::RunState;
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::EventType;
use toolgate_contracts::{
    AgentId, Amount, CallId, Caller, Envelope, ErrorCode, Fault, FaultKind, Limits, RunId, Status, TenantId, Timestamp,
    ToolError, ToolRef,
};
use toolgate_policy::labels::{Authority, Labels, Origins, along_edge, has_free_text, sources};
use toolgate_registry::toolset::View;
use toolgate_store::approvals::Asker;
use toolgate_store::budgets::Held;
use toolgate_store::calls::CallRecord;
use toolgate_store::labels::LabelContext;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Error};

use crate::budgets::{Spender, own_profile};
use crate::call::Call;
use crate::control::{Late, Report};
use crate::engine::Engine;
use crate::labels::{CONTEXT_S, context_of};
use crate::permit::Permit;
use crate::reserve::{Hold, TimeOver, counted, hold_without_room, no_room, tokens_of};

const REASON_CHARS_MAX: usize = 280;

/// What one question to a model may take of every budget above it, held until it is known what it took.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    money: Vec<Hold>,
    tokens: Vec<Hold>,
}

impl Spending {
    pub fn held(&self) -> Vec<Held> {
        self.money.iter().chain(&self.tokens).map(|hold| hold.held.clone()).collect()
    }

    pub fn reserve(&self, change: &mut Change) {
        for (index, hold) in self.money.iter().chain(&self.tokens).enumerate() {
            change.reserve(&hold.held, hold.limit, no_room(index));
        }
    }

    pub fn settle(&self, change: &mut Change, cost: Amount, tokens: u64) {
        for hold in &self.money {
            change.settle(&hold.held, cost);
        }
        for hold in &self.tokens {
            change.settle(&hold.held, counted(tokens));
        }
    }
}

/// Whoever hosts runs, for tools that look after them.
pub trait Hosting: Send + Sync {
    /// How a run stands that the caller began, or may read: `{task, status, …}`.
    fn task<'a>(&'a self, call: &'a Call, task: RunId) -> BoxFuture<'a, Result<Look, ToolError>>;

    /// Begins a run anew that has ended, with what it was asked: `{task, status, …}` of the new one.
    fn retry<'a>(&'a self, call: &'a Call, task: RunId) -> BoxFuture<'a, Result<Look, ToolError>>;
}

/// What a tool saw of a run, with what whoever reads it has then seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub value: serde_json::Value,
    pub labels: Vec<Label>,
}

impl Permit {
    /// Whoever hosts runs here.
    pub fn hosting(&self) -> Result<Arc<dyn Hosting>, ToolError> {
        let hosting = self.engine().and_then(|engine| engine.hosting.get().cloned());
        hosting.ok_or_else(|| {
            let message = "no agent runs on this server; ask for it through one that hosts agents";
            ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
        })
    }

    /// A call of the run that this call is in, as it is recorded; of a lone call, one that its caller may read.
    pub async fn call_beside(&self, id: &str) -> Result<Envelope, Fault> {
        let call = self.call();
        let unknown = || Fault::not_found("call", id).at("/call_id");
        let engine = self.engine().ok_or_else(unknown)?;
        let reader = Caller { agent: call.agent, ..call.caller.clone() };
        let record = engine.readable(&reader, id).await.map_err(|fault| fault.at("/call_id"))?;
        if call.in_run && record.run != call.run {
            return Err(unknown());
        }
        engine.envelope_of(call.tenant, record).await
    }
}

/// What the answer of a call that was handed over brings to whoever reads it.
struct Joining {
    labels: Labels,
    origins: Origins,
    /// The call's run and those above it, each with where what it has seen came from.
    runs: Vec<(RunId, Origins)>,
    reader: Option<String>,
}

impl Joining {
    fn join(&self, change: &mut Change, record: &CallRecord, now: Timestamp) {
        let Self { labels, origins, runs, reader } = self;
        let labels = labels.to_vec();
        change.label_call(record.id, &labels);
        for (run, origins) in runs {
            change.join_run_labels(*run, &labels, &serde_json::to_value(origins).unwrap_or_default());
        }
        if let Some(reader) = reader {
            let origins = serde_json::to_value(origins).unwrap_or_default();
            let seen = LabelContext { labels, origins, expires_at: now.plus_seconds(CONTEXT_S) };
            change.join_context(reader, &seen, now);
        }
    }
}

impl Engine {
    /// Who we are among the replicas.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// Tells followers that something new is committed about a run.
    pub fn signal_run(&self, tenant: TenantId, run: RunId) {
        self.signal(tenant, run, None);
    }

    /// Whoever began something as an agent, with the rights that they have now.
    pub async fn acting_again(&self, tenant: TenantId, asker: &Asker) -> Result<Caller, Fault> {
        let caller = self.caller_again(tenant, asker).await?;
        match asker.agent {
            Some(agent) if caller.agent != Some(agent) => Err(Fault::new(
                FaultKind::Forbidden,
                "whoever asked may not act as the agent any more",
                "ask again with rights that hold",
            )),
            _ => Ok(caller),
        }
    }

    /// A caller as an agent that they run: no right but theirs, and of those no more than an agent may have.
    pub fn acting_as(caller: &Caller, agent: AgentId) -> Caller {
        let permissions = caller.permissions.iter().filter(|permission| permission.is_for_agents()).cloned().collect();
        Caller { agent: Some(agent), permissions, ..caller.clone() }
    }

    /// Why whoever acts as an agent may do nothing for now.
    pub fn acting_stop(&self, acting: &Caller) -> Result<Option<ToolError>, Fault> {
        let snapshot = self.registry.snapshot();
        let today = self.clock.now().day();
        let view = View::of(snapshot.tenant(acting.tenant)?, acting, &today)?;
        Ok(view.agent_stop().map(|stop| stop.error()))
    }

    /// How much longer a run may take, by its own time and that of the runs above it.
    pub fn time_left_of(&self, run: &Run, above: &[Run]) -> Duration {
        TimeOver::of(run, above, None).map_or(Duration::MAX, |over| over.left(self.clock.now()))
    }

    /// That its time is over, in words.
    pub fn time_over_of(&self, run: &Run, above: &[Run]) -> ToolError {
        let late = || ToolError::because(ErrorCode::Timeout, "wall", "the run has taken longer than it may");
        TimeOver::of(run, above, None).map_or_else(late, |over| over.error(self.clock.now()))
    }

    /// Which budgets a question needs room in: the tenant's, the agent's and its profile's, those of the run, of the runs
    /// above it and of their agents, and of the token. `cost` is absent where nobody wrote a price.
    pub fn spending(
        &self,
        caller: &Caller,
        agent: AgentId,
        run: (&Run, &Limits),
        above: &[Run],
        (cost, tokens): (Option<Amount>, u64),
    ) -> Result<Result<Spending, ToolError>, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let (run, limits) = run;
        let agent = registry.agents.get(&agent);
        let profile = agent.and_then(|agent| own_profile(registry, agent));
        let spender = Spender { registry, caller, agent, run: Some((run.id, limits)), above, now: self.clock.now() };
        let money = spender.holds(cost.unwrap_or_default(), None, profile.into_iter());
        let mut spending = Spending { money, tokens: Vec::new() };
        if let (None, Some(Hold { limit, what, .. })) = (cost, spending.money.first()) {
            let message = format!(
                "{what} is {limit}, and nobody wrote what the model costs; write it with `toolgate provider prices`"
            );
            return Ok(Err(ToolError::because(ErrorCode::PolicyDenied, "budget", message)));
        }
        let held = counted(tokens).micros();
        let mut bound = |run: RunId, most: Option<u64>, what: &str| {
            if let Some(most) = most {
                let held = Held { scope: tokens_of(run), micros: held };
                spending.tokens.push(Hold { held, limit: counted(most), what: what.to_owned(), member: "max_tokens" });
            }
        };
        bound(run.id, limits.max_tokens, "the run");
        for run in above {
            bound(run.id, run.limits.max_tokens, "a run above it");
        }
        Ok(Ok(spending))
    }

    /// Why a change that held `spending` did not go through, if that is why.
    pub async fn no_room_for(
        &self,
        tenant: TenantId,
        spending: &Spending,
        error: &Error,
    ) -> Result<Option<ToolError>, Fault> {
        let Some(index) = hold_without_room(error) else { return Ok(None) };
        if let Some(hold) = spending.money.get(index) {
            let error = self.budget_error(tenant, hold).await?;
            return Ok(Some(error));
        }
        let Some(hold) = spending.tokens.get(index - spending.money.len()) else { return Ok(None) };
        let used = self.store.balance(tenant, &hold.held.scope).await?;
        let (limit, spent, next) = (hold.limit.micros(), used.spent.micros(), hold.held.micros);
        let message = format!(
            "{} may use {limit} tokens, has used {spent}, and the next question may take {next}; raise `max_tokens`, or ask for less",
            hold.what
        );
        Ok(Some(ToolError::because(ErrorCode::PolicyDenied, "budget", message).at_limit(hold.member, limit, spent)))
    }

    /// What was held for a question of which nobody knows whether it was answered: counted as spent.
    pub fn settle_lost(change: &mut Change, holds: &[Held]) {
        for held in holds {
            change.settle(held, Amount::from_micros(held.micros));
        }
    }

    /// A call of a model that cannot be read: it has its place in the run and counts, and has no record.
    pub async fn refuse_unread(
        &self,
        caller: &Caller,
        run: &Run,
        seq: u32,
        tool: &str,
        input: serde_json::Value,
        error: ToolError,
    ) -> Result<Envelope, Fault> {
        let above = self.runs_above(caller.tenant, run).await?;
        self.place_in_run(caller.tenant, Some(run), &above, Some(seq)).await?;
        self.answer_unread(caller, run.id, seq, tool, input, error).await
    }

    /// Whether the caller of a parked call goes on without it.
    pub async fn goes_on_without(&self, tenant: TenantId, call: CallId) -> Result<bool, Fault> {
        let approval = self.store.approval_of(tenant, call).await?;
        Ok(approval.is_some_and(|approval| {
            approval.person_required && approval.mode == toolgate_contracts::definition::HitlMode::FireAndContinue
        }))
    }

    /// Ends a call that was handed over to a run. One that has ended meanwhile is as it is.
    pub async fn end_handed_over(
        &self,
        tenant: TenantId,
        call: CallId,
        report: Report,
        actor: &str,
    ) -> Result<Envelope, Fault> {
        let record = self.store.call(tenant, call).await?.ok_or_else(|| Fault::not_found("call", call))?;
        if record.status.is_final() {
            return self.envelope_of(tenant, record).await;
        }
        let (status, mut ended) = self.judge_report(tenant, &record, report).await?;
        ended.attempts = 1;
        let action = match status {
            Status::Completed => "call.completed",
            Status::Cancelled => "call.cancelled",
            _ => "call.failed",
        };
        let late = Late { status, ended, action, actor: actor.to_owned(), before: Vec::new() };
        let joining = self.joining_of(tenant, &record).await?;
        let now = self.clock.now();
        let join = |change: &mut Change| {
            if let Some(joining) = &joining {
                joining.join(change, &record, now);
            }
        };
        let ended = match self.end_late(tenant, &record, late, join).await {
            Err(Error::Unmet(_)) => return self.answer(tenant, call).await,
            ended => ended.map_err(Fault::from)?,
        };
        if let Some(Joining { reader: Some(reader), .. }) = joining {
            self.contexts.invalidate(&(tenant, reader));
        }
        Ok(ended)
    }

    /// What the run has seen to which a call was handed over, and who sees that with its answer.
    async fn joining_of(&self, tenant: TenantId, record: &CallRecord) -> Result<Option<Joining>, Fault> {
        let Some(kept) = self.store.handed_over(tenant, record.id).await? else { return Ok(None) };
        let Some(run) = self.store.run(tenant, kept.run).await? else { return Ok(None) };
        let origins_of = |run: &Run| serde_json::from_value::<Origins>(run.origins.clone()).unwrap_or_default();
        let (labels, origins) = (Labels::from(run.labels.as_slice()), origins_of(&run));
        if labels.is_empty() {
            return Ok(None);
        }
        let mut runs = Vec::new();
        if record.in_run
            && let Some(own) = self.store.run(tenant, record.run).await?
        {
            runs.extend(self.runs_above(tenant, &own).await?);
            runs.push(own);
        }
        let runs = runs.into_iter().map(|run| (run.id, origins_of(&run).join(&origins))).collect();
        let labels = labels.join(Labels::from(record.labels.as_slice()));
        Ok(Some(Joining { labels, origins, runs, reader: kept.reader }))
    }

    /// Cancels the run to which a call was handed over, and the call with it.
    pub(crate) async fn cancel_handed_over(&self, caller: &Caller, record: &CallRecord) -> Result<(), Fault> {
        let tenant = caller.tenant;
        let kept = self.store.handed_over(tenant, record.id).await?;
        let Some(kept) = kept.filter(|kept| kept.is_open) else { return Ok(()) };
        let run = self.store.run(tenant, kept.run).await?;
        if let Some(run) = run.filter(|run| !run.state.is_final()) {
            let why = Some("the call that it answers was cancelled");
            match self.end_tree(caller, &run, RunState::Cancelled, EventType::RunCancelled, why).await {
                // It ended by itself meanwhile, and answers.
                Err(fault) if fault.kind() == FaultKind::Conflict => {}
                ended => ended?,
            }
        }
        let report = Report {
            status: Status::Failed,
            output: None,
            result: None,
            error: Some(ToolError::cancelled()),
            cost: None,
        };
        self.end_handed_over(tenant, record.id, report, &caller.principal.to_string()).await.map(drop)
    }

    /// Ends a run by the server's own word, because whoever began it has no right any more.
    pub async fn end_for_good(&self, tenant: TenantId, run: RunId, reason: &str) -> Result<(), Fault> {
        let Some(run) = self.store.run(tenant, run).await?.filter(|run| !run.state.is_final()) else { return Ok(()) };
        let slug = self.registry.snapshot().tenant(tenant)?.tenant.slug.clone();
        let server = Self::server_for(tenant, slug, run.principal);
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        match self.end_tree(&server, &run, RunState::Failed, EventType::RunFailed, Some(&reason)).await {
            // It ended by itself meanwhile.
            Err(fault) if fault.kind() == FaultKind::Conflict => Ok(()),
            ended => ended,
        }
    }

    /// What the output of a call carries along an edge of a workflow, whose inputs carried these labels. What has no room
    /// for words can be no instruction, whoever says it.
    pub fn along_edge(&self, tenant: TenantId, call: &Envelope, inputs: &[Label]) -> Vec<Label> {
        let (seen, inputs) = (Labels::from(call.labels.as_slice()), Labels::from(inputs));
        let all = seen.join(inputs);
        let snapshot = self.registry.snapshot();
        let (Ok(registry), Ok(name), Ok(version)) = (snapshot.tenant(tenant), call.name.parse(), call.version.parse())
        else {
            return all.to_vec();
        };
        let reference = ToolRef { name, version: Some(version) };
        let Some(tool) = registry.resolve(&reference, &self.clock.now().day()) else { return all.to_vec() };
        let authority = Authority::of(tool.tool.origin, tool.version.is_classified());
        let with_secret = seen.contains(Label::Private);
        let along = along_edge(&tool.definition, authority, inputs, with_secret);
        // What the calls brought that it was made of.
        let of_others = seen.without(inputs).without(sources(&tool.definition, authority, with_secret));
        let carried = along.join(of_others);
        let is_closed = tool.definition.output_schema.as_ref().is_some_and(|schema| !has_free_text(schema));
        if is_closed && !call.truncated { carried.without(Labels::UNTRUSTED).to_vec() } else { carried.to_vec() }
    }

    /// Says who hosts runs here, once.
    pub fn hosted_by(&self, hosting: Arc<dyn Hosting>) {
        let _ = self.hosting.set(hosting);
    }

    /// The label context in which whoever made a call remembers what its answer has seen.
    pub fn reader_of(call: &Call) -> String {
        context_of(&Caller { agent: call.agent, ..call.caller.clone() })
    }

    /// What somebody has seen who begins a run for another to act in, and where it came from; with the label context in
    /// which they remember what its answer has seen.
    pub async fn seen_of(&self, caller: &Caller) -> Result<(Vec<Label>, Origins, String), Fault> {
        let seen = self.seen_just_now(caller).await?;
        Ok((seen.labels.to_vec(), seen.origins.clone(), context_of(caller)))
    }

    /// Whoever began a run reads what it gives: its labels join back, in the commit that ends it.
    /// [`Self::joined_back`] is said after it.
    pub fn join_back(&self, change: &mut Change, reader: &str, run: &Run) {
        if run.labels.is_empty() {
            return;
        }
        let now = self.clock.now();
        let expires_at = now.plus_seconds(CONTEXT_S);
        let seen = LabelContext { labels: run.labels.clone(), origins: run.origins.clone(), expires_at };
        change.join_context(reader, &seen, now);
    }

    pub fn joined_back(&self, tenant: TenantId, reader: &str) {
        self.contexts.invalidate(&(tenant, reader.to_owned()));
    }

    /// A run takes something from an earlier one: it has its labels, and says where they came from.
    pub async fn join_earlier(
        &self,
        tenant: TenantId,
        run: RunId,
        labels: &[Label],
        origins: &serde_json::Value,
    ) -> Result<(), Fault> {
        let earlier: Origins = serde_json::from_value(origins.clone()).unwrap_or_default();
        let Some(run) = self.store.run(tenant, run).await? else { return Ok(()) };
        let mut change = Change::new(tenant);
        for run in self.runs_above(tenant, &run).await?.into_iter().chain([run]) {
            let own: Origins = serde_json::from_value(run.origins).unwrap_or_default();
            let joined = serde_json::to_value(own.join(&earlier)).unwrap_or_default();
            change.join_run_labels(run.id, labels, &joined);
        }
        self.store.commit(change).await?;
        Ok(())
    }

    /// Whoever reads what a run gave has seen what the run has seen.
    pub async fn join_run_read(&self, caller: &Caller, run: &Run) -> Result<(), Fault> {
        let origins: Origins = serde_json::from_value(run.origins.clone()).unwrap_or_default();
        self.join_seen_by(caller, &run.labels, &origins).await
    }

    /// Whether a run is over, whoever ended it.
    pub async fn run_state(&self, tenant: TenantId, run: RunId) -> Result<Option<RunState>, Fault> {
        Ok(self.store.run(tenant, run).await?.map(|run| run.state))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
