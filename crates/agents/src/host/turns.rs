//! What was asked of a run's model and what it answered, turn by turn, with the calls that each answer led to.
//!
//! Deliberately absent: the questions themselves. Each is the prompt and all that was said before it; the replay bundle
//! has them whole.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::{
    Amount, ApprovalId, CallId, Caller, Fault, Page, ProviderKind, RunId, Status, TenantId, Timestamp, ToolError,
};
use toolgate_store::agent_runs::{AgentRun, AgentTurn, ModelUsed};
use toolgate_store::calls::Placed;
use toolgate_store::cursor::ListOf;
use utoipa::ToSchema;

use super::Host;
use super::drive::answer_of;
use crate::model::{Stop, Turn, Usage};

/// What is shown of one answer; the replay bundle has the rest.
pub const TURN_TEXT_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// There is no answer: it is on its way, or was lost on it.
    Asked,
    Answered,
    /// What was said is erased.
    Erased,
}

/// One question to the model and its answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TurnView {
    /// From 0 on.
    pub turn: u32,
    pub state: TurnState,
    /// As the provider names what answered; before that, `PROVIDER/MODEL`.
    pub model: String,
    /// Of a script, which no model said.
    pub scripted: bool,
    pub text: String,
    /// There is more of the text than is shown.
    pub is_cut: bool,
    /// Why the answer ended: `end`, `tool`, `length` or `refusal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub stop: Option<Stop>,
    /// What it called, in the order in which it asked for it.
    pub calls: Vec<TurnCall>,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Those are what was held for it: there is no answer yet, or the provider did not say what it took.
    pub is_held: bool,
    /// By the provider's prices; absent where nobody wrote any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cost: Option<Amount>,
    pub asked_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A call that an answer asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TurnCall {
    /// Its place in the run.
    pub seq: u32,
    pub tool: String,
    /// The call's own id; absent where none was made, or has no record: a name that is no tool's, input that is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Absent: it was not made, the run ended before; or its record is not kept any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// A person approved it with another input than the model gave.
    pub edited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
}

impl Host {
    /// The turns of a run that the caller may read, oldest first; another kind of run looks like none.
    pub async fn turns(
        &self,
        caller: &Caller,
        id: RunId,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<TurnView>, Fault> {
        let tenant = caller.tenant;
        let (_, kept) = self.readable(caller, id).await?;
        let filter = id.to_string();
        let list = ListOf { tenant, list: "turns", filter: &filter };
        // Calls have their places by what all answers before asked for, so a cursor says how many those were.
        let key = cursor.map(|cursor| list.key(cursor)).transpose()?.unwrap_or_default();
        let (from, mut first) = key.split_once(' ').map_or((0, 0), |(turn, first)| {
            (turn.parse().unwrap_or_default(), first.parse::<u32>().unwrap_or_default())
        });
        let mut views = Vec::new();
        let mut next_cursor = None;
        for turn in self.0.store.agent_turns_from(tenant, id, from, limit.saturating_add(1)).await? {
            if views.len() == limit as usize {
                next_cursor = Some(list.cursor(&format!("{} {first}", turn.turn)));
                break;
            }
            let said = turn.answer.is_some().then(|| answer_of(&turn)).transpose()?;
            let calls = said.as_ref().map_or(0, |said| u32::try_from(said.calls.len()).unwrap_or(u32::MAX));
            let places = first..first.saturating_add(calls);
            first = places.end;
            views.push(self.turn((tenant, id), &kept, turn, said, places).await?);
        }
        if !views.is_empty() {
            self.read_by(caller, id).await?;
        }
        Ok(Page { items: views, next_cursor })
    }

    async fn turn(
        &self,
        (tenant, run): (TenantId, RunId),
        kept: &AgentRun,
        turn: AgentTurn,
        said: Option<Turn>,
        places: Range<u32>,
    ) -> Result<TurnView, Fault> {
        let state = match (&said, turn.answered_at) {
            (Some(_), _) => TurnState::Answered,
            (None, Some(_)) => TurnState::Erased,
            (None, None) => TurnState::Asked,
        };
        let placed =
            if places.is_empty() { Vec::new() } else { self.0.store.placed_calls(tenant, run, places.clone()).await? };
        let asked = kept.plan.get("model").and_then(Value::as_str).unwrap_or_default();
        let took = turn.answered_at.map(|answered| answered.millis() - turn.asked_at.millis());
        let mut view = TurnView {
            turn: turn.turn,
            state,
            model: asked.to_owned(),
            scripted: false,
            text: String::new(),
            is_cut: false,
            stop: None,
            calls: Vec::new(),
            input_tokens: turn.may_take.input,
            cached_tokens: turn.may_take.cached,
            output_tokens: turn.may_take.output,
            is_held: state != TurnState::Erased,
            cost: turn.cost,
            asked_at: turn.asked_at,
            answered_at: turn.answered_at,
            duration_ms: took.and_then(|took| u64::try_from(took).ok()),
        };
        let Some(said) = said else { return Ok(view) };
        view.is_held = said.usage_unknown;
        // Where the provider said nothing of it, what was held for it counts.
        let ModelUsed { input, cached, output, cost: _ } = turn.may_take;
        let Usage { input, cached, output } =
            if said.usage_unknown { Usage { input, cached, output } } else { said.usage };
        (view.input_tokens, view.cached_tokens, view.output_tokens) = (input, cached, output);
        view.scripted = said.kind == ProviderKind::Scripted;
        view.stop = Some(said.stop);
        let end = said.text.floor_char_boundary(TURN_TEXT_BYTES_MAX);
        view.is_cut = end < said.text.len();
        said.text.get(..end).unwrap_or_default().clone_into(&mut view.text);
        view.calls =
            said.calls.iter().zip(places).map(|(call, seq)| turn_call(&turn, &placed, &call.name, seq)).collect();
        view.model = said.model;
        Ok(view)
    }
}

fn turn_call(turn: &AgentTurn, placed: &[Placed], name: &str, seq: u32) -> TurnCall {
    let bare = TurnCall {
        seq,
        tool: name.to_owned(),
        id: None,
        call_id: None,
        status: None,
        approval_id: None,
        edited: false,
        error: None,
    };
    if let Some(Placed { seq: _, id, call_id, tool, status, approval, is_edited, error }) =
        placed.iter().find(|placed| placed.seq == seq).cloned()
    {
        let (id, call_id, status) = (Some(id), Some(call_id), Some(status));
        return TurnCall { tool, id, call_id, status, approval_id: approval, edited: is_edited, error, ..bare };
    }
    let Some(aside) = turn.asides.iter().find(|aside| aside.seq == seq) else { return bare };
    let envelope = &aside.envelope;
    TurnCall {
        tool: envelope.name.clone(),
        call_id: Some(envelope.call_id.clone()),
        status: Some(envelope.status),
        error: envelope.error.clone(),
        ..bare
    }
}
