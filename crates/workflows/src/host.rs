//! Whoever hosts agents, as workflows need them.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use toolgate_agents::{AgentOutcome, Host, NewAgentRun};
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Caller, Fault, Limits, RunId, TenantId};

/// What an agent is given.
#[derive(Clone, Debug)]
pub struct AgentStart {
    /// Of the agent's run, noted beforehand: whoever is cut off finds it again by this.
    pub run: RunId,
    /// By name.
    pub agent: String,
    /// A template over `variables`.
    pub prompt: String,
    pub variables: Map<String, Value>,
    /// They only tighten what the agent's own say; the tools that it may use here are among them.
    pub limits: Limits,
    /// The run of the workflow.
    pub parent_run: RunId,
    /// What its variables carry.
    pub labels: Vec<Label>,
}

pub trait AgentHost: Send + Sync {
    /// Begins a run of an agent below another. It goes on by itself.
    fn start<'a>(&'a self, caller: &'a Caller, start: AgentStart) -> BoxFuture<'a, Result<(), Fault>>;

    /// What became of a run; absent as long as it is not over.
    fn outcome(&self, tenant: TenantId, run: RunId) -> BoxFuture<'_, Result<Option<AgentOutcome>, Fault>>;
}

impl AgentHost for Host {
    fn start<'a>(&'a self, caller: &'a Caller, start: AgentStart) -> BoxFuture<'a, Result<(), Fault>> {
        let AgentStart { run, agent, prompt, variables, limits, parent_run, labels } = start;
        Box::pin(async move {
            let new = NewAgentRun {
                id: Some(run),
                prompt,
                variables: Some(variables),
                limits,
                parent_run_id: Some(parent_run),
                labels,
                ..NewAgentRun::default()
            };
            Self::start(self, caller, &agent, new).await.map(drop)
        })
    }

    fn outcome(&self, tenant: TenantId, run: RunId) -> BoxFuture<'_, Result<Option<AgentOutcome>, Fault>> {
        Box::pin(Self::outcome(self, tenant, run))
    }
}
