//! An agent is asked: it gets a run of its own below the caller's, and answers the call when that ends, or is left to it.

use serde_json::json;
use toolgate_contracts::runner::Task;
use toolgate_contracts::{Amount, Caller, ErrorCode, Fault, FaultKind, Limits, RunId, ToolError};
use toolgate_engine::{Call, Engine, Outcome};

use super::answer::{Wanted, fitting};
use super::rendered;
use crate::host::{BegunBy, Host, NewAgentRun};

/// The call ends when the agent's run does.
pub(super) async fn hand_over(host: &Host, call: &Call, agent: &str, template: &str) -> Outcome {
    match start(host, call, agent, template, Waits::UntilDone).await {
        Ok(_) => Outcome::HandedOver,
        Err(error) => nothing_done(error),
    }
}

/// The call says which run it began.
pub(super) async fn begin(host: &Host, call: &Call, task: &Task) -> Outcome {
    let agent = task.agent.as_deref().unwrap_or_default();
    match start(host, call, agent, &task.task, Waits::ForNothing).await {
        Ok(run) => {
            let mut answer = json!({"task": run, "status": "running"});
            if let Some(url) = host.traces_url(run) {
                answer["url"] = url.into();
            }
            Outcome::structured(fitting(call.tool.definition.output_schema.as_ref(), answer))
        }
        Err(error) => nothing_done(error),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    UntilDone,
    ForNothing,
}

async fn start(host: &Host, call: &Call, agent: &str, template: &str, waits: Waits) -> Result<RunId, ToolError> {
    let agent = rendered(agent, &call.input)?;
    let mut prompt = rendered(template, &call.input)?;
    if waits == Waits::UntilDone
        && let Some(form) = Wanted::of(call.tool.definition.output_schema.as_ref()).instruction()
    {
        prompt = format!("{prompt}\n\n{form}");
    }
    let new = NewAgentRun { prompt, limits: time_of(call), ..NewAgentRun::default() };
    started(host, call, &agent, new, waits == Waits::UntilDone).await
}

/// A run for a call, below the call's own where that has one, with what its caller has seen.
pub(super) async fn started(
    host: &Host,
    call: &Call,
    agent: &str,
    mut new: NewAgentRun,
    answers: bool,
) -> Result<RunId, ToolError> {
    let record = host.store().call(call.tenant, call.id).await.map_err(|error| ToolError::of(&error.into()))?;
    new.labels.extend(record.map(|record| record.labels).unwrap_or_default());
    new.parent_run_id = call.in_run.then_some(call.run);
    let caller = Caller { agent: call.agent, ..call.caller.clone() };
    let begun_by = BegunBy { call: call.id, answers, reader: Engine::reader_of(call) };
    Box::pin(host.start_for(&caller, agent, new, Some(begun_by))).await.map_err(|fault| refused(agent, &fault))
}

/// What the tool's author or its caller set; without that the agent has its own time.
fn time_of(call: &Call) -> Limits {
    let stated = call.tool.definition.timeout_ms.is_some();
    Limits { max_wall_s: stated.then(|| call.timeout.as_secs().max(1)), ..Limits::default() }
}

fn refused(agent: &str, fault: &Fault) -> ToolError {
    if fault.broken_rule() == Some(toolgate_engine::runs::TOO_DEEP) {
        let message = format!("{}; {}", fault.told(), fault.remedy());
        return ToolError::because(ErrorCode::PolicyDenied, "max_depth", message);
    }
    if fault.kind() == FaultKind::NotFound && fault.pointer() == Some("/agent") {
        let shown: String = agent.chars().take(64).flat_map(char::escape_debug).collect();
        let message = format!("there is no agent `{shown}`; `listAgents` shows those there are");
        return ToolError::because(ErrorCode::PolicyDenied, "not_found", message);
    }
    ToolError::of(fault)
}

/// No run was begun, so nothing was taken, and it is not tried again by itself: what was not answered may have begun.
fn nothing_done(error: ToolError) -> Outcome {
    Outcome::Spent { error, cost: Some(Amount::ZERO), units: 0 }
}
