//! One question to the model: guarded, its money held, asked, and what it took settled in the commit that keeps the
//! answer.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{Amount, Fault, ProviderKind, Timestamp, ToolError};
use toolgate_engine::Engine;
use toolgate_engine::hosting::Spending;
use toolgate_store::agent_runs::{AgentTurn, ModelUsed};
use toolgate_store::events::Place;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Error};

use super::Host;
use super::drive::{Did, Driven, Left, elsewhere};
use crate::bounds::Bounds;
use crate::error::{ErrorKind, ModelError};
use crate::model::{Request, Usage};
use crate::models::{Answered, Asker};

/// Bytes of a question for each token that is held for it: texts have fewer tokens than that.
pub(crate) const BYTES_PER_TOKEN: u64 = 3;

impl Host {
    pub(super) async fn ask(&self, driven: &Driven, turn: u32, request: &Request) -> Result<Did<AgentTurn>, Fault> {
        let engine = &self.0.engine;
        if let Some(stop) = engine.acting_stop(&driven.caller)? {
            tracing::info!(run = %driven.run.id, "a run is held up: {}", stop.message);
            return Ok(Did::Leaves(Left::Later));
        }
        if let Err(error) = self.time_left(driven).await? {
            return Ok(Did::Ends(error));
        }
        let (spending, may_take) = match self.spending(driven, request)? {
            Ok(priced) => priced,
            Err(error) => return Ok(Did::Ends(error)),
        };
        let asked_at = engine.now();
        let mut change = Change::new(driven.tenant);
        change.ask_turn((driven.run.id, turn), engine.replica(), (&spending.held(), &may_take), asked_at, elsewhere());
        spending.reserve(&mut change);
        let data = json!({
            "turn": turn, "model": driven.plan.model, "messages": request.messages.len(), "tools": request.tools.len(),
        });
        append(&mut change, &driven.run, EventType::ModelRequested, data, asked_at);
        match self.0.store.commit(change).await {
            Ok(_) => engine.signal_run(driven.tenant, driven.run.id),
            Err(error) => {
                return Ok(match engine.no_room_for(driven.tenant, &spending, &error).await? {
                    Some(error) => Did::Ends(error),
                    None if !matches!(error, Error::Unmet(_)) => return Err(error.into()),
                    None if self.is_ended(driven).await? => Did::BrokenOff,
                    None => Did::Leaves(Left::Lost),
                });
            }
        }
        let left = self.time_left(driven).await?.unwrap_or(Duration::ZERO);
        let bounds = Bounds::default();
        let is_ours = left < bounds.wall;
        let bounds = Bounds { wall: bounds.wall.min(left), ..bounds };
        let asked = AgentTurn {
            turn,
            holds: spending.held(),
            may_take,
            answer: None,
            asides: Vec::new(),
            cost: None,
            asked_at,
            answered_at: None,
        };
        match self.answer(driven, request, bounds).await {
            None => {
                let ours = self.give_up_turn(driven, &asked).await?;
                Ok(if ours { Did::BrokenOff } else { Did::Leaves(Left::Lost) })
            }
            Some(Ok(answered)) => {
                let kept = self.keep_answer(driven, asked, &spending, answered).await?;
                Ok(kept.map_or(Did::Leaves(Left::Lost), Did::Done))
            }
            Some(Err(error)) => {
                let error = match error.kind() {
                    ErrorKind::Late if is_ours => {
                        ModelError::out_of_time(engine.time_over_of(&driven.run, &driven.above))
                    }
                    _ => error,
                };
                let ours = self.keep_failure(driven, &asked, &spending, &error).await?;
                Ok(if ours { Did::Ends(error.error().clone()) } else { Did::Leaves(Left::Lost) })
            }
        }
    }

    /// What is left of the run's time, and of that of the runs above it. `Err`: nothing.
    async fn time_left(&self, driven: &Driven) -> Result<Result<Duration, ToolError>, Fault> {
        let engine = &self.0.engine;
        let left = engine.time_left_of(&driven.run, &driven.above);
        if !left.is_zero() {
            return Ok(Ok(left));
        }
        // Another run below the same one may have waited for people since this one was looked at.
        let run = self.0.store.run(driven.tenant, driven.run.id).await?.unwrap_or_else(|| driven.run.clone());
        let above = engine.runs_above(driven.tenant, &run).await?;
        let left = engine.time_left_of(&run, &above);
        Ok(if left.is_zero() { Err(engine.time_over_of(&run, &above)) } else { Ok(left) })
    }

    /// `None`: somebody stopped it.
    async fn answer(&self, driven: &Driven, request: &Request, bounds: Bounds) -> Option<Result<Answered, ModelError>> {
        let asker =
            Asker { tenant: driven.tenant, principal: driven.caller.principal, workspace: driven.run.workspace_id };
        let mut said = self.listen(driven);
        let mut heard = |delta: &crate::fold::Delta| said.hear(delta);
        let asking = self.0.models.ask(&asker, &driven.plan.model, request, bounds, &mut heard);
        let answered = tokio::select! {
            answered = Box::pin(asking) => Some(answered),
            () = driven.cancel.cancelled() => None,
            () = self.over(driven) => None,
        };
        said.written().await;
        answered
    }

    /// When another replica ended the run.
    async fn over(&self, driven: &Driven) {
        const LOOK_EVERY: Duration = Duration::from_secs(2);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.is_ended(driven).await.unwrap_or(false) {
                return;
            }
        }
    }

    pub(super) async fn is_ended(&self, driven: &Driven) -> Result<bool, Fault> {
        let state = self.0.engine.run_state(driven.tenant, driven.run.id).await?;
        Ok(state.is_none_or(RunState::is_final))
    }

    /// What is held: the price of everything that is sent, and of everything that may be written.
    fn spending(&self, driven: &Driven, request: &Request) -> Result<Result<(Spending, ModelUsed), ToolError>, Fault> {
        let known = match self.0.models.known(driven.tenant, &driven.plan.model) {
            Ok(known) => known,
            Err(error) => return Ok(Err(error.error().clone())),
        };
        let bytes = serde_json::to_string(request).map_or(0, |text| text.len()) as u64;
        let usage = Usage {
            input: bytes.div_ceil(BYTES_PER_TOKEN),
            cached: 0,
            output: u64::from(driven.plan.output_tokens_max),
        };
        let cost = match (known.prices, known.kind) {
            (Some(prices), _) => Some(prices.cost(usage)),
            // Nobody is owed anything for what is read from a file.
            (None, ProviderKind::Scripted) => Some(Amount::ZERO),
            (None, _) => None,
        };
        let tokens = usage.input + usage.output;
        let run = (&driven.run, &driven.plan.limits);
        let held = self.0.engine.spending(&driven.caller, driven.plan.agent_id, run, &driven.above, (cost, tokens))?;
        let Usage { input, cached, output } = usage;
        Ok(held.map(|spending| (spending, ModelUsed { input, cached, output, cost })))
    }

    /// `None`: another replica took the run meanwhile, and asks again.
    async fn keep_answer(
        &self,
        driven: &Driven,
        asked: AgentTurn,
        spending: &Spending,
        answered: Answered,
    ) -> Result<Option<AgentTurn>, Fault> {
        let now = self.0.engine.now();
        let turn = asked.turn;
        let Answered { turn: said, tries, cost, provider: _, kind } = answered;
        // Nobody is owed anything for what is read from a file.
        let cost = cost.or((kind == ProviderKind::Scripted).then_some(Amount::ZERO));
        let Usage { input, cached, output } = said.usage;
        // What may have been taken at most, where nobody says what was.
        let used = if said.usage_unknown { asked.may_take } else { ModelUsed { input, cached, output, cost } };
        let cost = used.cost;
        let answer = serde_json::to_value(&said).map_err(Fault::internal)?;
        let mut change = Change::new(driven.tenant);
        change.answer_turn((driven.run.id, turn), self.0.engine.replica(), &answer, cost, now, elsewhere());
        if said.usage_unknown {
            Engine::settle_lost(&mut change, &spending.held());
        } else {
            spending.settle(&mut change, cost.unwrap_or_default(), input + output);
        }
        change.count_question(driven.run.agent_id, asked.asked_at, &used);
        let data = json!({
            "turn": turn, "model": said.model, "usage_unknown": said.usage_unknown.then_some(true), "kind": said.kind, "stop": said.stop, "calls": said.calls.len(),
            "usage": {"input_tokens": input, "cached_tokens": cached, "output_tokens": output},
            "cost": cost.map(|cost| cost.to_string()), "tries": tries,
        });
        append(&mut change, &driven.run, EventType::ModelCompleted, data, now);
        if !self.if_ours(change).await? {
            return Ok(None);
        }
        self.0.engine.signal_run(driven.tenant, driven.run.id);
        Ok(Some(AgentTurn { holds: Vec::new(), answer: Some(answer), cost, answered_at: Some(now), ..asked }))
    }

    /// A question that went out and has no answer: nobody knows whether there was one, so it counts as what was held for
    /// it, in every budget, in its run and in what was used.
    pub(super) fn lose(&self, change: &mut Change, run: &Run, model: &str, lost: &AgentTurn) {
        let told = ModelError::interrupted();
        let told = told.error();
        let data = json!({
            "turn": lost.turn, "model": model, "code": told.code, "reason": told.reason(),
            "message": "the question was broken off before its answer was heard",
        });
        self.count_lost(change, run, lost, data);
    }

    fn count_lost(&self, change: &mut Change, run: &Run, lost: &AgentTurn, mut told: Value) {
        let ModelUsed { input, cached, output, cost } = lost.may_take;
        Engine::settle_lost(change, &lost.holds);
        change.lose_turn((run.id, lost.turn), self.0.engine.replica(), &lost.may_take, elsewhere());
        change.count_question(run.agent_id, lost.asked_at, &lost.may_take);
        told["usage_unknown"] = true.into();
        told["usage"] = json!({"input_tokens": input, "cached_tokens": cached, "output_tokens": output});
        told["cost"] = cost.map(|cost| cost.to_string()).into();
        append(change, run, EventType::ModelFailed, told, self.0.engine.now());
    }

    async fn keep_failure(
        &self,
        driven: &Driven,
        asked: &AgentTurn,
        spending: &Spending,
        error: &ModelError,
    ) -> Result<bool, Fault> {
        let mut change = Change::new(driven.tenant);
        let told = error.error();
        let mut data = json!({
            "turn": asked.turn, "model": driven.plan.model, "code": told.code, "reason": told.reason(),
            "message": told.message,
        });
        again_of(told, &mut data);
        if error.kind().may_cost() {
            self.count_lost(&mut change, &driven.run, asked, data);
        } else {
            spending.settle(&mut change, Amount::ZERO, 0);
            change.drop_turn((driven.run.id, asked.turn), self.0.engine.replica(), elsewhere());
            append(&mut change, &driven.run, EventType::ModelFailed, data, self.0.engine.now());
        }
        let ours = self.if_ours(change).await?;
        self.0.engine.signal_run(driven.tenant, driven.run.id);
        Ok(ours)
    }
}

/// How often it was asked, and when it may be again: beside what the log says of a question without an answer.
pub(crate) fn again_of(error: &ToolError, data: &mut Value) {
    if let Some(tries) = error.details.as_ref().and_then(|details| details.get("tries")) {
        data["tries"] = tries.clone();
    }
    if let Some(seconds) = error.retry_after_s {
        data["retry_after_s"] = seconds.into();
    }
}

fn append(change: &mut Change, run: &Run, event_type: EventType, data: Value, at: Timestamp) {
    let data = match data {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    };
    let actor = run.principal.to_string();
    let event = NewEvent { event_type, call_id: None, at, actor, data };
    change.append_events(run.id, Place::Counted, None, &[event], at);
}
