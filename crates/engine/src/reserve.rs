//! Step 6: rates, parallel calls and budgets. Everything is taken together or nothing is.
//!
//! Rates and parallel calls are counted in memory or Redis, budgets in the transaction that begins the call.

use std::sync::PoisonError;

use toolgate_contracts::{Amount, ErrorCode, Fault, FaultKind, RunId, TenantId, Timestamp, ToolError};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::budgets::Held;

use crate::admit::Question;
use crate::engine::Engine;
use crate::shared::Quota;

/// A part of a budget that a call needs, and what that budget is called in words.
#[derive(Clone, Debug)]
pub struct Hold {
    pub held: Held,
    pub limit: Amount,
    pub what: String,
}

/// How many calls of the tenant run here, one less when dropped.
pub(crate) struct ParallelPlace(Option<(Engine, TenantId)>);

impl Drop for ParallelPlace {
    fn drop(&mut self) {
        if let Some((engine, tenant)) = &self.0 {
            let mut parallel = engine.parallel.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = parallel.get_mut(tenant) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

impl Question<'_> {
    /// Which rates this call counts against: the tenant's, the agent's, the tool's, and those of the profiles.
    pub(crate) fn quotas(&self, tool: &ResolvedTool) -> Vec<Quota> {
        let limits = &self.registry.tenant.limits;
        let tenant = self.registry.tenant.id;
        let mut quotas = Vec::new();
        if let Some(limit) = limits.rate_limit {
            quotas.push(Quota { key: format!("tenant:{tenant}"), limit });
        }
        if let Some(limit) = limits.tools.get(&tool.tool.name).and_then(|tool| tool.rate_limit) {
            quotas.push(Quota { key: format!("tool:{tenant}:{}", tool.tool.id), limit });
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
        cost: Amount,
        now: Timestamp,
    ) -> Result<Vec<Hold>, ToolError> {
        let day = now.day();
        let month: String = day.chars().take(7).collect();
        let limits = &self.registry.tenant.limits;
        let mut holds = Vec::new();
        let mut hold = |scope: String, limit: Option<Amount>, what: String| {
            if let Some(limit) = limit {
                holds.push(Hold { held: Held { scope, micros: cost.micros() }, limit, what });
            }
        };
        hold(format!("tenant:{month}"), limits.max_budget, format!("the tenant's budget for {month}"));
        hold(
            format!("tool:{}:{month}", tool.tool.id),
            limits.tools.get(&tool.tool.name).and_then(|tool| tool.max_budget),
            format!("the budget of `{}` for {month}", tool.name),
        );
        if let Some(agent) = self.agent {
            let name = &agent.spec.name;
            hold(
                format!("agent:{}:{month}", agent.id),
                agent.spec.limits.max_budget,
                format!("the budget of agent {name} for {month}"),
            );
        }
        if let (Some(run), Some(limits)) = (run, self.run) {
            hold(format!("run:{run}"), limits.max_budget, "the run's budget".to_owned());
        }
        for profile in self.profiles(tool) {
            let name = &profile.name;
            if let Some(max) = profile.max_cost_per_call.filter(|max| cost > *max) {
                return Err(ToolError::because(
                    ErrorCode::PolicyDenied,
                    "budget",
                    format!(
                        "a call of `{}` costs {cost}, more than the {max} that profile {name} allows per call",
                        tool.name
                    ),
                ));
            }
            let agent = self.agent.map(|agent| agent.id.to_string()).unwrap_or_default();
            hold(
                format!("profile:{agent}:{name}:{day}"),
                profile.max_cost_per_day,
                format!("the budget of profile {name} for {day}"),
            );
            if let Some(run) = run {
                hold(
                    format!("profile:{agent}:{name}:run:{run}"),
                    profile.max_cost_per_run,
                    format!("the budget of profile {name} for one run"),
                );
            }
        }
        Ok(holds)
    }
}

impl Engine {
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

    /// A place among the tenant's parallel calls on this replica.
    pub(crate) fn take_place(&self, tenant: TenantId, max: Option<u32>) -> Result<ParallelPlace, ToolError> {
        let Some(max) = max else { return Ok(ParallelPlace(None)) };
        let mut parallel = self.parallel.lock().unwrap_or_else(PoisonError::into_inner);
        let count = parallel.entry(tenant).or_default();
        if *count >= max {
            let message = format!(
                "{max} calls of this tenant run already, which is its `max_parallel`; try again when one has ended"
            );
            return Err(ToolError::because(ErrorCode::RateLimit, "rate", message).retry_after(1));
        }
        *count += 1;
        Ok(ParallelPlace(Some((self.clone(), tenant))))
    }

    /// The refusal of a change in whose way a budget stood, in words: which, how much is left, what to change.
    pub(crate) async fn budget_error(&self, tenant: TenantId, hold: &Hold) -> Result<ToolError, Fault> {
        let balance = self.store.balance(tenant, &hold.held.scope).await?;
        let Hold { held, limit, what } = hold;
        let needed = Amount::from_micros(held.micros);
        let message = format!(
            "{what} is {limit}, of which {} is spent and {} held by calls that run; this call needs {needed}; raise the limit or wait",
            balance.spent, balance.reserved
        );
        Ok(ToolError::because(ErrorCode::PolicyDenied, "budget", message)
            .with("limit", limit.to_string())
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
