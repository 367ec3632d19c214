//! Whoever hosts agents, as workflows need them.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use toolgate_agents::{Host, NewAgentRun};
use toolgate_contracts::{AgentOutputs, Caller, Fault, Limits, RunId, TenantId, ToolError};

/// What an agent is given.
#[derive(Clone, Debug)]
pub struct AgentStart {
    /// By name.
    pub agent: String,
    /// A template over `variables`.
    pub prompt: String,
    pub variables: Map<String, Value>,
    /// They only tighten what the agent's own say; the tools that it may use here are among them.
    pub limits: Limits,
    /// The run of the workflow.
    pub parent_run: RunId,
}

pub trait AgentHost: Send + Sync {
    /// Begins a run of an agent below another. It goes on by itself.
    fn start<'a>(&'a self, caller: &'a Caller, start: AgentStart) -> BoxFuture<'a, Result<RunId, Fault>>;

    /// What became of a run; absent as long as it is not over.
    fn outcome(&self, tenant: TenantId, run: RunId) -> BoxFuture<'_, Result<Option<AgentOutcome>, Fault>>;
}

pub type AgentOutcome = Result<AgentOutputs, ToolError>;

impl AgentHost for Host {
    fn start<'a>(&'a self, caller: &'a Caller, start: AgentStart) -> BoxFuture<'a, Result<RunId, Fault>> {
        let AgentStart { agent, prompt, variables, limits, parent_run } = start;
        Box::pin(async move {
            let variables = Some(variables);
            let new =
                NewAgentRun { prompt, variables, limits, parent_run_id: Some(parent_run), ..NewAgentRun::default() };
            Self::start(self, caller, &agent, new).await
        })
    }

    fn outcome(&self, tenant: TenantId, run: RunId) -> BoxFuture<'_, Result<Option<AgentOutcome>, Fault>> {
        Box::pin(Self::outcome(self, tenant, run))
    }
}
