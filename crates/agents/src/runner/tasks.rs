//! What became of a task, and once more: for tools that look after runs which others answer.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::{Caller, Fault, RunId, ToolError};
use toolgate_engine::Call;
use toolgate_engine::hosting::{Hosting, Look};
use toolgate_store::agent_runs::AgentRun;
use toolgate_store::runs::Run;

use super::{Agents, handing, nobody};
use crate::conversation::Plan;
use crate::host::{AgentOutcome, Host, NewAgentRun, erased};

impl Hosting for Agents {
    fn task<'a>(&'a self, call: &'a Call, task: RunId) -> BoxFuture<'a, Result<Look, ToolError>> {
        Box::pin(async move {
            let host = self.host().ok_or_else(|| nobody(&call.tool.definition))?;
            let (run, kept) = seen(&host, call, task).await.map_err(|fault| ToolError::of(&fault))?;
            let value = told(&host, call, &run, &kept).await.map_err(|fault| ToolError::of(&fault))?;
            Ok(Look { value, labels: run.labels })
        })
    }

    fn retry<'a>(&'a self, call: &'a Call, task: RunId) -> BoxFuture<'a, Result<Look, ToolError>> {
        Box::pin(async move {
            let host = self.host().ok_or_else(|| nobody(&call.tool.definition))?;
            let (run, kept) = seen(&host, call, task).await.map_err(|fault| ToolError::of(&fault))?;
            if !run.state.is_final() {
                let told = format!("the task is {}", run.state);
                let fault = Fault::conflict(told, "wait for its end, or cancel it first").at("/task");
                return Err(ToolError::of(&fault));
            }
            if kept.outputs.is_none() && !kept.is_open {
                return Err(ToolError::of(&erased().at("/task")));
            }
            let plan: Plan =
                serde_json::from_value(kept.plan).map_err(|error| ToolError::of(&Fault::internal(error)))?;
            // As it was asked for, with the agent of now: its instructions, tools and model may have been mended.
            let new = NewAgentRun {
                prompt: plan.prompt,
                title: run.title.clone(),
                limits: run.limits.clone(),
                labels: run.labels.clone(),
                ..NewAgentRun::default()
            };
            let again = handing::started(&host, call, plan.agent.as_str(), new, false).await?;
            let mut value = json!({"task": again, "status": "running", "retry_of": task});
            if let Some(url) = host.traces_url(again) {
                value["url"] = url.into();
            }
            Ok(Look { value, labels: run.labels })
        })
    }
}

/// A run that whoever calls may look at: their own, or one that a call of theirs began. Another looks like none.
async fn seen(host: &Host, call: &Call, task: RunId) -> Result<(Run, AgentRun), Fault> {
    let unknown = || Fault::not_found("task", task).at("/task");
    let reader = Caller { agent: call.agent, ..call.caller.clone() };
    let kept = host.store().agent_run(call.tenant, task).await?.ok_or_else(unknown)?;
    if let Some(run) = host.engine().readable_run(&reader, task).await? {
        return Ok((run, kept));
    }
    let begun_by = kept.begun_by.ok_or_else(unknown)?;
    host.engine().readable(&reader, &begun_by.to_string()).await.map_err(|_| unknown())?;
    let run = host.store().run(call.tenant, task).await?.ok_or_else(unknown)?;
    Ok((run, kept))
}

async fn told(host: &Host, call: &Call, run: &Run, kept: &AgentRun) -> Result<Value, Fault> {
    let mut value = json!({"task": run.id, "status": run.state, "agent": kept.plan.get("agent")});
    if let Some(url) = host.traces_url(run.id) {
        value["url"] = url.into();
    }
    match host.outcome(call.tenant, run.id).await? {
        None => {
            // It ended, and is being closed.
            if run.state.is_final() {
                value["status"] = json!(RunState::Running);
            }
        }
        Some(AgentOutcome::Answered(outputs)) => value["response"] = outputs.response.into(),
        Some(AgentOutcome::Failed(error, _)) => value["error"] = json!({"code": error.code, "message": error.message}),
    }
    Ok(value)
}
