//! Step 6: rates, parallel calls and budgets. Everything is taken together or nothing is.
//!
//! Rates and parallel calls are counted in memory or Redis, budgets in the transaction that begins the call.

use std::collections::hash_map::Entry;
use std::sync::PoisonError;
use std::time::Duration;

use toolgate_contracts::agent::MAX_WALL_S_DEFAULT;
use toolgate_contracts::call::RunKind;
use toolgate_contracts::{AgentId, Amount, ErrorCode, Fault, FaultKind, RunId, TenantId, Timestamp, ToolError};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::budgets::Held;
use toolgate_store::runs::Run;

use crate::admit::Question;
use crate::budgets::Spender;
use crate::engine::{CALLS_AT_ONCE_MAX, Engine};
use crate::runner::Foreseen;
use crate::shared::Quota;

/// A part of a budget that a call needs, and what that budget is called in words.
#[derive(Clone, Debug)]
pub struct Hold {
    pub held: Held,
    pub limit: Amount,
    pub what: String,
    /// By which the limit is set.
    pub member: &'static str,
}

/// A budget of tokens, of a run: counted where money is, each as a millionth.
const TOKENS: &str = ":tokens";

pub(crate) fn tokens_of(run: RunId) -> String {
    format!("run:{run}{TOKENS}")
}

pub(crate) fn counted(tokens: u64) -> Amount {
    Amount::from_micros(i64::try_from(tokens).unwrap_or(i64::MAX))
}

/// What a call took of one of its holds. Where nobody counted the tokens of one that took something, all that was held.
pub(crate) fn taken_of(held: &Held, cost: Amount, units: Option<u64>) -> Amount {
    match units {
        _ if !held.scope.ends_with(TOKENS) => cost,
        Some(units) => counted(units),
        None if cost.is_zero() => Amount::ZERO,
        None => Amount::from_micros(held.micros),
    }
}

/// Among whose calls a call counts that run at the same time here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crowd {
    Tenant(TenantId),
    Agent(AgentId),
    Run(RunId),
}

/// Its place among them, given back when dropped.
pub(crate) struct ParallelPlaces(Engine, Vec<Crowd>);

impl Drop for ParallelPlaces {
    fn drop(&mut self) {
        let mut parallel = self.0.parallel.lock().unwrap_or_else(PoisonError::into_inner);
        for crowd in &self.1 {
            if let Entry::Occupied(mut count) = parallel.entry(*crowd) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

impl Question<'_> {
    /// Which rates this call counts against: the tenant's, the agent's, the tool's, and those of the profiles.
    pub(crate) fn quotas(&self, tool: &ResolvedTool, run: Option<RunId>) -> Vec<Quota> {
        let limits = &self.registry.tenant.limits;
        let tenant = self.registry.tenant.id;
        let mut quotas = Vec::new();
        if let Some(limit) = limits.rate_limit {
            quotas.push(Quota { key: format!("tenant:{tenant}"), limit });
        }
        if let Some(limit) = limits.tools.get(&tool.tool.name).and_then(|tool| tool.rate_limit) {
            quotas.push(Quota { key: format!("tool:{tenant}:{}", tool.tool.id), limit });
        }
        if let (Some(run), Some(limit)) = (run, self.run.and_then(|limits| limits.rate_limit)) {
            quotas.push(Quota { key: format!("run:{tenant}:{run}"), limit });
        }
        let Some(agent) = self.agent else { return quotas };
        if let Some(limit) = limits.agent_rate_limit {
            quotas.push(Quota { key: format!("agent-of-tenant:{tenant}:{}", agent.id), limit });
        }
        if let Some(limit) = agent.spec.limits.rate_limit {
            quotas.push(Quota { key: format!("agent:{tenant}:{}", agent.id), limit });
        }
        for profile in self.profiles(tool) {
            if let Some(limit) = profile.rate_limit {
                quotas.push(Quota { key: format!("profile:{tenant}:{}:{}", agent.id, profile.name), limit });
            }
        }
        quotas
    }

    /// How many may run at the same time on this replica: of a tenant at most half of all, so that nobody takes every
    /// place; of an agent and a run as they say.
    pub(crate) fn parallel_limits(&self, run: Option<RunId>) -> Vec<(Crowd, u32)> {
        let share = u32::try_from(CALLS_AT_ONCE_MAX / 2).unwrap_or(u32::MAX);
        let of_tenant = self.registry.tenant.limits.max_parallel.unwrap_or(share).min(share);
        let mut limits = vec![(Crowd::Tenant(self.registry.tenant.id), of_tenant)];
        if let Some((agent, max)) = self.agent.and_then(|agent| Some((agent.id, agent.spec.limits.max_parallel?))) {
            limits.push((Crowd::Agent(agent), max));
        }
        if let (Some(run), Some(max)) = (run, self.run.and_then(|limits| limits.max_parallel)) {
            limits.push((Crowd::Run(run), max));
        }
        limits
    }

    /// A run that has taken as long as it, its agent or a run above it may.
    pub(crate) fn past_its_time(&self, run: Option<&Run>, above: &[Run], now: Timestamp) -> Option<ToolError> {
        let of_agent = self.agent.and_then(|agent| agent.spec.limits.max_wall_s);
        TimeOver::of(run?, above, of_agent).filter(|over| over.left(now).is_zero()).map(|over| over.error(now))
    }

    /// The price as declared, which is what is held until the real one is known; per unit, one unit is held.
    pub(crate) fn estimate(tool: &ResolvedTool) -> Option<Amount> {
        let cost = tool.definition.cost.as_ref()?;
        let sum = cost.per_call.unwrap_or_default() + cost.per_unit.unwrap_or_default();
        (!sum.is_zero()).then_some(sum)
    }

    /// Which budgets this call needs room in. `Err` where the price alone is too high.
    pub(crate) fn holds(
        &self,
        tool: &ResolvedTool,
        run: Option<RunId>,
        above: &[Run],
        cost: Amount,
        now: Timestamp,
    ) -> Result<Vec<Hold>, ToolError> {
        for profile in self.profiles(tool) {
            let too_much = |max: Amount, per: &str| {
                let (tool, name) = (&tool.name, &profile.name);
                let message = format!(
                    "a call of `{tool}` costs {cost}, more than the {max} that profile {name} allows per {per}"
                );
                ToolError::because(ErrorCode::PolicyDenied, "budget", message)
            };
            if let Some(max) = profile.max_cost_per_call.filter(|max| cost > *max) {
                return Err(too_much(max, "call"));
            }
            // A lone call is a run of one call.
            if let Some(max) = profile.max_cost_per_run.filter(|max| run.is_none() && cost > *max) {
                return Err(too_much(max, "run"));
            }
        }
        let month: String = now.day().chars().take(7).collect();
        let of_tool = self.registry.tenant.limits.tools.get(&tool.tool.name).and_then(|tool| tool.max_budget);
        let of_tool = of_tool.map(|limit| {
            let scope = format!("tool:{}:{month}", tool.tool.id);
            (scope, limit, format!("the budget of `{}` for {month}", tool.name))
        });
        let (registry, caller, agent) = (self.registry, self.caller, self.agent);
        let spender = Spender { registry, caller, agent, run: run.zip(self.run), above, now };
        Ok(spender.holds(cost, of_tool, self.profiles(tool)))
    }
}

/// When the time of a run is over: its own or that of a run above it, whichever is first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeOver {
    until: Timestamp,
    most_s: u64,
    whose: &'static str,
}

impl TimeOver {
    /// `None`: nobody said how long it may take.
    pub(crate) fn of(run: &Run, above: &[Run], of_agent: Option<u64>) -> Option<Self> {
        // An agent's run has a default; of a run of single calls nobody knows how long it is used.
        let stated = |run: &Run| run.limits.max_wall_s.or((run.kind == RunKind::Agent).then_some(MAX_WALL_S_DEFAULT));
        let own = stated(run).into_iter().chain(of_agent).min().map(|most| Self::new(run, most, "the run"));
        let of_above = above.iter().filter_map(|run| Some(Self::new(run, stated(run)?, "the run above it")));
        own.into_iter().chain(of_above).min_by_key(|over| over.until)
    }

    /// The time in which it waited for people is theirs.
    fn new(run: &Run, most_s: u64, whose: &'static str) -> Self {
        let waited = i64::try_from(run.waited_ms).unwrap_or(i64::MAX);
        let until = run.created_at.plus_seconds(i64::try_from(most_s).unwrap_or(i64::MAX));
        Self { until: Timestamp::from_millis(until.millis().saturating_add(waited)), most_s, whose }
    }

    pub(crate) fn left(&self, now: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.until.millis().saturating_sub(now.millis())).unwrap_or(0))
    }

    pub(crate) fn error(&self, now: Timestamp) -> ToolError {
        let Self { until, most_s, whose } = self;
        let over = u64::try_from(now.millis().saturating_sub(until.millis())).unwrap_or(0);
        let used = most_s.saturating_add(over / 1000);
        let message = format!(
            "{whose} may take {most_s} s and has taken {used} s; raise `max_wall_s`, or ask for less in one run"
        );
        ToolError::because(ErrorCode::Timeout, "wall", message).at_limit("max_wall_s", *most_s, used)
    }
}

/// What a call is expected to take, and what is held of that.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub estimate: Option<Amount>,
    pub holds: Vec<Hold>,
}

impl Engine {
    /// What a call may take, by its runner where that knows better than the definition, and by its declared price.
    pub(crate) fn expected(
        &self,
        question: &Question<'_>,
        (tool, input): (&ResolvedTool, &serde_json::Value),
        run: Option<RunId>,
        above: &[Run],
        now: Timestamp,
    ) -> Result<Expected, ToolError> {
        let declared = Question::estimate(tool);
        let runner = self.runners.get(&tool.definition).ok();
        let foreseen = runner.and_then(|runner| runner.foresees(question.registry.tenant.id, &tool.definition, input));
        let estimate = foreseen.and_then(|foreseen| foreseen.cost).or(declared);
        let Some(Foreseen { cost: _, tokens }) = foreseen else {
            let holds = match estimate {
                Some(cost) => question.holds(tool, run, above, cost, now)?,
                None => Vec::new(),
            };
            return Ok(Expected { estimate, holds });
        };
        let mut holds = question.holds(tool, run, above, estimate.unwrap_or_default(), now)?;
        if let (None, Some(Hold { limit, what, .. })) = (estimate, holds.first()) {
            let message = format!(
                "{what} is {limit}, and nobody wrote what the model costs; write it with `toolgate provider prices`"
            );
            return Err(ToolError::because(ErrorCode::PolicyDenied, "budget", message));
        }
        let own = run.and_then(|run| Some((run, question.run?.max_tokens?)));
        let of_above = above.iter().filter_map(|run| Some((run.id, run.limits.max_tokens?)));
        for (run, most) in own.into_iter().chain(of_above) {
            let held = Held { scope: tokens_of(run), micros: counted(tokens).micros() };
            holds.push(Hold {
                held,
                limit: counted(most),
                what: "the tokens of the run".to_owned(),
                member: "max_tokens",
            });
        }
        Ok(Expected { estimate, holds })
    }

    pub(crate) async fn take_rates(&self, quotas: &[Quota], now: Timestamp) -> Result<(), ToolError> {
        self.shared.rates.take(quotas, now).await.map_err(|refused| {
            let whose = refused.key.split(':').next().unwrap_or("rate");
            let (count, per_s) = (refused.limit.count, refused.limit.per_s);
            ToolError::because(
                ErrorCode::RateLimit,
                "rate",
                format!(
                    "the {whose}'s limit of {count} calls in {per_s} s is reached; try again in {} s",
                    refused.retry_after_s
                ),
            )
            .with("limit", serde_json::json!({"of": whose, "count": count, "per_s": per_s}))
            .retry_after(refused.retry_after_s)
        })
    }

    /// A place in each crowd, or in none.
    pub(crate) fn take_places(&self, limits: &[(Crowd, u32)]) -> Result<ParallelPlaces, ToolError> {
        let mut parallel = self.parallel.lock().unwrap_or_else(PoisonError::into_inner);
        let full = limits.iter().find(|(crowd, max)| parallel.get(crowd).is_some_and(|count| count >= max));
        if let Some((crowd, max)) = full {
            let whose = match crowd {
                Crowd::Tenant(_) => "tenant",
                Crowd::Agent(_) => "agent",
                Crowd::Run(_) => "run",
            };
            let message = format!(
                "{max} calls of this {whose} run already, which is its `max_parallel`; try again when one has ended"
            );
            return Err(ToolError::because(ErrorCode::RateLimit, "rate", message).retry_after(1));
        }
        for (crowd, _) in limits {
            *parallel.entry(*crowd).or_default() += 1;
        }
        Ok(ParallelPlaces(self.clone(), limits.iter().map(|(crowd, _)| *crowd).collect()))
    }

    /// The refusal of a change in whose way a budget stood, in words: which, how much is left, what to change.
    pub(crate) async fn budget_error(&self, tenant: TenantId, hold: &Hold) -> Result<ToolError, Fault> {
        let balance = self.store.balance(tenant, &hold.held.scope).await?;
        let Hold { held, limit, what, member } = hold;
        if held.scope.ends_with(TOKENS) {
            let (limit, spent, next) = (limit.micros(), balance.spent.micros(), held.micros);
            let message = format!(
                "{what}: it may use {limit}, has used {spent}, and the next question may take {next}; raise `max_tokens`, or ask for less"
            );
            let error = ToolError::because(ErrorCode::PolicyDenied, "budget", message);
            return Ok(error.at_limit(member, limit, spent));
        }
        let needed = Amount::from_micros(held.micros);
        let message = format!(
            "{what} is {limit}, of which {} is spent and {} held by what runs; this needs {needed}; raise the limit or wait",
            balance.spent, balance.reserved
        );
        Ok(ToolError::because(ErrorCode::PolicyDenied, "budget", message)
            .at_limit(member, limit.to_string(), balance.spent.to_string())
            .with("spent", balance.spent.to_string())
            .with("reserved", balance.reserved.to_string()))
    }
}

/// The fault by which a change says that this hold found no room.
pub(crate) fn no_room(index: usize) -> Fault {
    Fault::new(FaultKind::Conflict, "a budget is used up", "raise the limit").by_rule(format!("budget:{index}"))
}

/// Which hold found no room, if it was one.
pub(crate) fn hold_without_room(error: &toolgate_store::Error) -> Option<usize> {
    match error {
        toolgate_store::Error::Unmet(fault) => fault.broken_rule()?.strip_prefix("budget:")?.parse().ok(),
        _ => None,
    }
}
