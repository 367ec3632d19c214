//! A run ends: its outputs are kept, its log says why, and the call that it answers is answered.

use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{Amount, Fault, RunId, Status, TenantId, ToolError};
use toolgate_engine::control::Report;
use toolgate_store::agent_runs::AgentRun;
use toolgate_store::events::Place;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Error};

use super::Host;
use super::asking::again_of;
use super::drive::{Driven, Left, elsewhere, ended_as};
use crate::conversation::Conversation;

const REASON_CHARS_MAX: usize = 280;

impl Host {
    pub(super) async fn end(
        &self,
        driven: &Driven,
        conversation: &Conversation<'_>,
        error: Option<ToolError>,
    ) -> Result<Left, Fault> {
        let Driven { tenant, kept, run, .. } = driven;
        self.close(*tenant, kept, run, conversation, error).await
    }

    /// The same for a run of which no more is known: whoever began it may be gone.
    pub(super) async fn close(
        &self,
        tenant: TenantId,
        kept: &AgentRun,
        run: &Run,
        conversation: &Conversation<'_>,
        error: Option<ToolError>,
    ) -> Result<Left, Fault> {
        let outputs = conversation.outputs(self.traces_url(run.id));
        let state = if run.state.is_final() { run.state } else { ended_as(error.as_ref()) };
        // The call that it answers first: whoever finds the run open afterwards does it again, and finds it done.
        if let Some(call) = kept.for_call {
            let output = self.output_for(tenant, call, run.id, &outputs).await?;
            let cost = self.model_cost(tenant, run.id).await?;
            let report = report(run, state, output, error.as_ref(), cost);
            let actor = run.principal.to_string();
            let answered = self.0.engine.end_handed_over(tenant, call, report, &actor).await?;
            // Whoever waits for it may go on, also where nobody attends to what could.
            self.look_at(tenant, answered.run_id);
        }
        let now = self.0.engine.now();
        let mut change = Change::new(tenant);
        // What was asked and never heard of holds nothing any more.
        let model = kept.plan.get("model").and_then(Value::as_str).unwrap_or_default();
        for lost in self.0.store.agent_turns(tenant, run.id).await?.iter().filter(|turn| turn.answer.is_none()) {
            self.lose(&mut change, run, model, lost);
        }
        // Whoever began it by themselves; of a call, its end says it.
        let reader = kept.reader.as_deref().filter(|_| kept.begun_by.is_none());
        if let Some(reader) = reader
            && let Some(run) = self.0.store.run(tenant, run.id).await?
        {
            self.0.engine.join_back(&mut change, reader, &run);
        }
        if !run.state.is_final() {
            let reason: Option<String> =
                error.as_ref().map(|error| error.message.chars().take(REASON_CHARS_MAX).collect());
            let over = Fault::conflict("the run has ended meanwhile", "read it again");
            change.move_run(run.id, state, reason.as_deref(), now, over);
            let events = ending_events(run, error.as_ref(), now);
            change.append_events(run.id, Place::Counted, None, &events, now);
        }
        let value = serde_json::to_value(&outputs).map_err(Fault::internal)?;
        change.close_agent_run(run.id, self.0.engine.replica(), &value, elsewhere());
        match self.0.store.commit(change).await {
            Ok(_) => {}
            // Somebody else ended or took it in this very moment: it is closed by the next look.
            Err(Error::Unmet(_)) => return Ok(Left::Later),
            Err(error) => return Err(error.into()),
        }
        if let Some(reader) = reader {
            self.0.engine.joined_back(tenant, reader);
        }
        self.0.engine.signal_run(tenant, run.id);
        // Whatever is left below answers nobody any more.
        self.0.engine.cancel_below(tenant, run).await?;
        Ok(Left::Ended)
    }

    /// What the run's own questions cost, with those that have no answer.
    async fn model_cost(&self, tenant: TenantId, run: RunId) -> Result<Option<Amount>, Fault> {
        let turns = self.0.store.agent_turns(tenant, run).await?;
        let costs = turns.into_iter().filter_map(|turn| match turn.answer {
            Some(_) => turn.cost,
            None => turn.may_take.cost,
        });
        let given_up = self.0.store.agent_run(tenant, run).await?.and_then(|kept| kept.unanswered_use.cost);
        Ok(costs.chain(given_up).reduce(|sum, cost| sum + cost))
    }
}

fn ending_events(run: &Run, error: Option<&ToolError>, at: toolgate_contracts::Timestamp) -> Vec<NewEvent> {
    let actor = run.principal.to_string();
    let event = |event_type, data: Value| NewEvent {
        event_type,
        call_id: None,
        at,
        actor: actor.clone(),
        data: data.as_object().cloned().unwrap_or_default(),
    };
    let Some(error) = error else { return vec![event(EventType::RunCompleted, json!({}))] };
    let mut events = Vec::new();
    let reason = error.reason();
    // A limit is told by itself, by the name that it is set by.
    let of = |member: &str| error.details.as_ref().and_then(|details| details.get(member)).cloned();
    if let Some(limit) = of("member") {
        let data = json!({"limit": limit, "most": of("limit"), "used": of("used"), "message": error.message});
        events.push(event(EventType::LimitReached, data));
    }
    let mut data = json!({"code": error.code, "reason": reason, "message": error.message});
    again_of(error, &mut data);
    events.push(event(EventType::RunFailed, data));
    events
}

/// What whoever called the agent as a tool gets.
fn report(
    run: &Run,
    state: RunState,
    output: Result<Value, ToolError>,
    error: Option<&ToolError>,
    cost: Option<Amount>,
) -> Report {
    let failed = |error: ToolError| Report {
        status: Status::Failed,
        output: None,
        result: None,
        error: Some(error.with("run_id", run.id.to_string())),
        cost,
    };
    match (state, error) {
        (RunState::Completed, _) => match output {
            Ok(output) => Report { status: Status::Completed, output: Some(output), result: None, error: None, cost },
            Err(error) => failed(error),
        },
        (_, Some(error)) => failed(error.clone()),
        (_, None) => failed(ToolError::cancelled()),
    }
}
