//! Which budgets stand over whoever spends, a call or a question to a model: one list for both.
//!
//! What a run below another spends is spent by everyone above it too: their runs, their agents' months, their agents'
//! profiles. Deliberately absent: what is held of a budget, and prices; `reserve.rs` and `hosting.rs` have those.

use toolgate_contracts::{Amount, Caller, Limits, Profile, RunId, Timestamp};
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::budgets::Held;
use toolgate_store::catalog::StoredAgent;
use toolgate_store::runs::Run;

use crate::reserve::Hold;

/// By which a budget is set, but for profiles and tokens.
const MAX_BUDGET: &str = "max_budget";

/// Who spends, and what stands above.
pub(crate) struct Spender<'a> {
    pub registry: &'a TenantRegistry,
    pub caller: &'a Caller,
    pub agent: Option<&'a StoredAgent>,
    pub run: Option<(RunId, &'a Limits)>,
    pub above: &'a [Run],
    pub now: Timestamp,
}

/// Holds of one amount, each budget once however often it stands above.
struct Holds {
    micros: i64,
    holds: Vec<Hold>,
}

impl Holds {
    fn add(&mut self, scope: String, member: &'static str, limit: Option<Amount>, what: String) {
        let Some(limit) = limit.filter(|_| self.holds.iter().all(|hold| hold.held.scope != scope)) else { return };
        self.holds.push(Hold { held: Held { scope, micros: self.micros }, limit, what, member });
    }

    fn of_agent(&mut self, agent: &StoredAgent, month: &str) {
        let what = format!("the budget of agent {} for {month}", agent.spec.name);
        self.add(format!("agent:{}:{month}", agent.id), MAX_BUDGET, agent.spec.limits.max_budget, what);
    }

    fn of_profile(&mut self, agent: Option<&StoredAgent>, profile: &Profile, run: Option<RunId>, day: &str) {
        let agent = agent.map(|agent| agent.id.to_string()).unwrap_or_default();
        let name = &profile.name;
        let what = format!("the budget of profile {name} for {day}");
        self.add(format!("profile:{agent}:{name}:{day}"), "max_cost_per_day", profile.max_cost_per_day, what);
        if let Some(run) = run {
            let what = format!("the budget of profile {name} for one run");
            self.add(format!("profile:{agent}:{name}:run:{run}"), "max_cost_per_run", profile.max_cost_per_run, what);
        }
    }
}

impl Spender<'_> {
    /// What is held of each. `profiles` bind whoever spends; `special` is a budget of what is spent on alone.
    pub(crate) fn holds<'p>(
        &self,
        cost: Amount,
        special: Option<(String, Amount, String)>,
        profiles: impl Iterator<Item = &'p Profile>,
    ) -> Vec<Hold> {
        let Self { registry, caller, agent, run, above, now } = self;
        let day = now.day();
        let month: String = day.chars().take(7).collect();
        let mut all = Holds { micros: cost.micros(), holds: Vec::new() };
        let what = format!("the tenant's budget for {month}");
        all.add(format!("tenant:{month}"), MAX_BUDGET, registry.tenant.limits.max_budget, what);
        if let Some((scope, limit, what)) = special {
            all.add(scope, MAX_BUDGET, Some(limit), what);
        }
        if let Some(agent) = agent {
            all.of_agent(agent, &month);
        }
        if let Some((run, limits)) = run {
            all.add(format!("run:{run}"), MAX_BUDGET, limits.max_budget, "the run's budget".to_owned());
        }
        for run in *above {
            let what = "the budget of a run above".to_owned();
            all.add(format!("run:{}", run.id), MAX_BUDGET, run.limits.max_budget, what);
        }
        for token in caller.token.iter().flat_map(|token| &token.chain) {
            all.add(format!("token:{}", token.id), "budget", token.budget, format!("the budget of token {}", token.id));
        }
        let id = run.as_ref().map(|(run, _)| *run);
        profiles.for_each(|profile| all.of_profile(*agent, profile, id, &day));
        for run in *above {
            let Some(agent) = run.agent_id.and_then(|agent| registry.agents.get(&agent)) else { continue };
            all.of_agent(agent, &month);
            if let Some(profile) = own_profile(registry, agent) {
                all.of_profile(Some(agent), profile, Some(run.id), &day);
            }
        }
        all.holds
    }
}

/// The profile that binds whatever an agent does, whichever tool it uses.
pub(crate) fn own_profile<'a>(registry: &'a TenantRegistry, agent: &StoredAgent) -> Option<&'a Profile> {
    agent.profile.and_then(|id| registry.profiles.get(&id)).map(|stored| &stored.profile)
}
