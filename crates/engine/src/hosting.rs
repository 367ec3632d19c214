//! What whoever hosts runs needs of the engine: to act for whom a run is, to hold and spend money that no call spends,
//! and to end calls that were handed over to a run.
//!
//! Deliberately absent: what is asked of a model, and when. The engine knows calls.

use toolgate_contracts::call::RunState;
use toolgate_contracts::{
    AgentId, Amount, CallId, Caller, Envelope, ErrorCode, Fault, FaultKind, Limits, RunId, Status, TenantId, Timestamp,
    ToolError,
};
use toolgate_registry::toolset::View;
use toolgate_store::approvals::Asker;
use toolgate_store::budgets::Held;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Error};

use crate::control::{Late, Report};
use crate::engine::Engine;
use crate::reserve::{Hold, hold_without_room, no_room, time_over};

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

/// Tokens are counted where money is, each as a millionth.
fn counted(tokens: u64) -> Amount {
    Amount::from_micros(i64::try_from(tokens).unwrap_or(i64::MAX))
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

    /// A run whose time is over, in words.
    pub fn past_wall(&self, run: &Run, most_s: u64) -> Option<ToolError> {
        let now = self.clock.now();
        (now > time_over(run, most_s)).then(|| {
            let message = format!(
                "the run may take {most_s} s and has taken longer; raise `max_wall_s`, or ask for less in one run"
            );
            ToolError::because(ErrorCode::Timeout, "wall", message).with("limit", most_s)
        })
    }

    /// How much longer a run may take.
    pub fn time_left_of(&self, run: &Run, most_s: u64) -> std::time::Duration {
        let left = time_over(run, most_s).millis().saturating_sub(self.clock.now().millis());
        std::time::Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Which budgets a question needs room in: the tenant's, the agent's, those of the run and of the runs above it, and
    /// of the token. `cost` is absent where nobody wrote a price.
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
        let month: String = self.clock.now().day().chars().take(7).collect();
        let mut spending = Spending::default();
        let mut budgets: Vec<(String, Amount, String)> = Vec::new();
        let mut budget = |scope: String, limit: Option<Amount>, what: String| {
            budgets.extend(limit.map(|limit| (scope, limit, what)));
        };
        budget(
            format!("tenant:{month}"),
            registry.tenant.limits.max_budget,
            format!("the tenant's budget for {month}"),
        );
        if let Some(agent) = registry.agents.get(&agent) {
            let what = format!("the budget of agent {} for {month}", agent.spec.name);
            budget(format!("agent:{}:{month}", agent.id), agent.spec.limits.max_budget, what);
        }
        let (run, limits) = run;
        budget(format!("run:{}", run.id), limits.max_budget, "the run's budget".to_owned());
        for run in above {
            budget(format!("run:{}", run.id), run.limits.max_budget, "the budget of a run above".to_owned());
        }
        for token in caller.token.iter().flat_map(|token| &token.chain) {
            budget(format!("token:{}", token.id), token.budget, format!("the budget of token {}", token.id));
        }
        if let (None, Some((_, limit, what))) = (cost, budgets.first()) {
            let message = format!(
                "{what} is {limit}, and nobody wrote what the model costs; write it with `toolgate provider prices`"
            );
            return Ok(Err(ToolError::because(ErrorCode::PolicyDenied, "budget", message)));
        }
        let micros = cost.unwrap_or_default().micros();
        spending.money = budgets
            .into_iter()
            .map(|(scope, limit, what)| Hold { held: Held { scope, micros }, limit, what })
            .collect();
        let held = counted(tokens).micros();
        let mut bound = |run: RunId, most: Option<u64>, what: &str| {
            if let Some(most) = most {
                let held = Held { scope: format!("run:{run}:tokens"), micros: held };
                spending.tokens.push(Hold { held, limit: counted(most), what: what.to_owned() });
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
        Ok(Some(
            ToolError::because(ErrorCode::PolicyDenied, "budget", message).with("limit", limit).with("used", spent),
        ))
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
        match self.end_late(tenant, &record, late, |_| {}).await {
            Err(Error::Unmet(_)) => self.answer(tenant, call).await,
            ended => ended.map_err(Fault::from),
        }
    }

    /// Whether a run is over, whoever ended it.
    pub async fn run_state(&self, tenant: TenantId, run: RunId) -> Result<Option<RunState>, Fault> {
        Ok(self.store.run(tenant, run).await?.map(|run| run.state))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
