//! A hosted run as its readers see it: how it stands, what its model was used for, and what it gave.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::agent_outputs::AgentOutputs;
use toolgate_contracts::call::{RunKind, RunState};
use toolgate_contracts::{Amount, Caller, Fault, Permission, ProviderKind, RunId, TenantId, ToolError};
use toolgate_store::agent_runs::{AgentRun, ModelUsed};
use toolgate_store::runs::Run;
use utoipa::ToSchema;

use super::Host;
use super::bundle::erased;
use super::drive::answer_of;
use crate::model::Usage;

/// What became of a run that is over.
#[derive(Clone, Debug)]
pub enum AgentOutcome {
    Answered(AgentOutputs),
    /// With what it did until then, unless that was erased.
    Failed(ToolError, Option<AgentOutputs>),
}

/// What the model of a run was asked, and what that took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ModelUse {
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// Of a script, which no model said.
    pub scripted: bool,
    /// How often it was asked.
    pub turns: u32,
    /// Of those, how often no answer was heard: broken off, or lost with the program that asked. They count as what was
    /// held for them.
    pub unanswered: u32,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// By the provider's prices; absent where nobody wrote any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cost: Option<Amount>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentRunView {
    #[serde(flatten)]
    pub run: Run,
    pub agent: String,
    /// What the agent was asked; absent where it is erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    pub model_use: ModelUse,
    /// Somebody is at it: one that waits, has ended or was put off is at rest.
    pub attended: bool,
    /// When it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<AgentOutputs>,
    /// Where a person sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
    /// Nothing more comes of it: its outputs are there, or were erased.
    #[serde(skip)]
    pub is_closed: bool,
}

impl Host {
    /// A run of an agent that the caller may read; another kind of run looks like none.
    pub async fn show(&self, caller: &Caller, id: RunId) -> Result<AgentRunView, Fault> {
        let (run, kept) = self.readable(caller, id).await?;
        let text = |member: &str| kept.plan.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut model_use = ModelUse { model: text("model"), ..ModelUse::default() };
        // Also before anything was answered.
        model_use.scripted = self
            .0
            .models
            .known(caller.tenant, &model_use.model)
            .is_ok_and(|known| known.kind == ProviderKind::Scripted);
        for turn in self.0.store.agent_turns(caller.tenant, id).await? {
            model_use.cost = match (model_use.cost, turn.cost) {
                (sum, None) => sum,
                (sum, Some(cost)) => Some(sum.unwrap_or_default() + cost),
            };
            if turn.answer.is_none() {
                continue;
            }
            let said = answer_of(&turn)?;
            model_use.turns += 1;
            model_use.scripted |= said.kind == crate::provider::Kind::Scripted;
            let ModelUsed { input, cached, output, cost: _ } = turn.may_take;
            let usage = if said.usage_unknown { Usage { input, cached, output } } else { said.usage };
            model_use.input_tokens += usage.input;
            model_use.cached_tokens += usage.cached;
            model_use.output_tokens += usage.output;
        }
        let ModelUsed { input, output, cost, cached: _ } = kept.unanswered_use;
        model_use.turns += kept.unanswered;
        model_use.unanswered = kept.unanswered;
        model_use.input_tokens += input;
        model_use.output_tokens += output;
        if let Some(cost) = cost {
            model_use.cost = Some(model_use.cost.unwrap_or_default() + cost);
        }
        let outputs: Option<AgentOutputs> =
            kept.outputs.map(serde_json::from_value).transpose().map_err(Fault::internal)?;
        let traces_url = self.traces_url(id);
        let prompt = Some(text("prompt")).filter(|prompt| !prompt.is_empty());
        let attended = kept.holder.is_some() && matches!(run.state, RunState::Queued | RunState::Running);
        Ok(AgentRunView {
            agent: text("agent"),
            prompt,
            attended,
            traces_url,
            run,
            model_use,
            outputs,
            is_closed: !kept.is_open,
        })
    }

    /// A run of an agent that the caller may read, and what is kept of it; another kind of run looks like none.
    pub(super) async fn readable(&self, caller: &Caller, id: RunId) -> Result<(Run, AgentRun), Fault> {
        let unknown = || Fault::not_found("run", id);
        let run = self.0.engine.whole_run(caller, id).await?.ok_or_else(unknown)?;
        let kept = self.0.store.agent_run(caller.tenant, id).await?.ok_or_else(unknown)?;
        Ok((run, kept))
    }

    /// Whoever was given what was said in a run has read it: with the labels that it has by now.
    pub(super) async fn read_by(&self, caller: &Caller, id: RunId) -> Result<(), Fault> {
        match self.0.store.run(caller.tenant, id).await? {
            Some(run) => self.0.engine.join_run_read(caller, &run).await,
            None => Ok(()),
        }
    }

    /// The same, as soon as it has ended or waits for a person, and at the latest after `wait`.
    pub async fn when_left(&self, caller: &Caller, id: RunId, wait: Duration) -> Result<AgentRunView, Fault> {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        let until = tokio::time::Instant::now() + wait;
        let mut signals = self.0.engine.signals();
        loop {
            let view = self.show(caller, id).await?;
            let is_left = match view.run.state {
                RunState::WaitingHuman => true,
                // Its outputs come with the commit that closes it.
                state => state.is_final() && view.is_closed,
            };
            let now = tokio::time::Instant::now();
            if is_left || now >= until {
                self.read_by(caller, id).await?;
                return Ok(view);
            }
            let next = (now + LOOK_EVERY).min(until);
            // Much happens in a run that goes on: all of it is read only when it may have stopped.
            while let Ok(Ok(signal)) = tokio::time::timeout_at(next, signals.recv()).await {
                if signal.run == id && self.0.engine.run_state(caller.tenant, id).await? != Some(RunState::Running) {
                    break;
                }
            }
        }
    }

    /// Takes up a run that nobody is at: whoever began it, or may cancel it, may.
    pub async fn resume(&self, caller: &Caller, id: RunId) -> Result<(), Fault> {
        caller.require(&Permission::AGENTS_RUN)?;
        let run = self.0.engine.own_run(caller, id).await?;
        let kept = self.0.store.agent_run(caller.tenant, id).await?;
        let kept = kept.ok_or_else(|| match run.kind {
            RunKind::Workflow => Fault::conflict(
                "the run is a workflow's, which goes on by itself",
                format!("follow it with `toolgate workflow follow {id}`"),
            ),
            RunKind::Agent | RunKind::Calls => Fault::conflict(
                "no agent is at the run: whoever opened it makes its calls",
                "there is nothing to resume",
            ),
        })?;
        if kept.is_open && run.state.is_final() {
            // Whoever ended it left it to be closed.
            self.look_at(caller.tenant, id);
        }
        if !kept.is_open || run.state.is_final() {
            return Err(Fault::conflict(format!("the run is {} already", run.state), "begin another run"));
        }
        self.put_off().remove(&id);
        self.look_until_taken(caller.tenant, id);
        Ok(())
    }

    /// How a run ended, if it has: for whoever began it and is not a caller any more.
    pub async fn outcome(&self, tenant: TenantId, id: RunId) -> Result<Option<AgentOutcome>, Fault> {
        let Some(kept) = self.0.store.agent_run(tenant, id).await? else { return Err(Fault::not_found("run", id)) };
        let Some(run) = self.0.store.run(tenant, id).await? else { return Err(Fault::not_found("run", id)) };
        if kept.is_open {
            return Ok(None);
        }
        let Some(outputs) = kept.outputs else {
            return Ok(Some(AgentOutcome::Failed(ToolError::of(&erased()), None)));
        };
        let outputs: AgentOutputs = serde_json::from_value(outputs).map_err(Fault::internal)?;
        Ok(Some(match run.state {
            RunState::Completed => AgentOutcome::Answered(outputs),
            RunState::Cancelled => AgentOutcome::Failed(ToolError::cancelled(), Some(outputs)),
            _ => AgentOutcome::Failed(self.why_failed(tenant, &run).await?, Some(outputs)),
        }))
    }

    /// As its log says.
    async fn why_failed(&self, tenant: TenantId, run: &Run) -> Result<ToolError, Fault> {
        use toolgate_contracts::ErrorCode;
        use toolgate_contracts::event::EventType;
        let mut after = 0;
        let mut failed = None;
        loop {
            let page = self.0.store.events(tenant, run.id, after).await?;
            let Some(last) = page.iter().filter_map(|event| event.seq).max() else { break };
            after = last;
            failed = page.into_iter().rfind(|event| event.event_type == EventType::RunFailed).or(failed);
        }
        let message = run.reason.clone().unwrap_or_else(|| "the run failed".to_owned());
        let told = failed.map(|event| event.data).unwrap_or_default();
        let code = told.get("code").cloned().and_then(|code| serde_json::from_value(code).ok());
        let reason = told.get("reason").and_then(Value::as_str).unwrap_or("interrupted");
        Ok(ToolError::because(code.unwrap_or(ErrorCode::Unknown), reason, message))
    }
}
