//! A conversation between an agent's model and its tools, as data: it is told what the model said and what calls gave,
//! and says what comes next.
//!
//! Invariant: nothing here waits, reads a clock or rolls dice. The same plan, answers and envelopes make the same
//! questions, calls and outputs, byte for byte; that is what a run is taken up again by, and what replay compares.
//! Deliberately absent: money, time and rights, which the gate and the host judge.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::agent::{MAX_ITERATIONS_DEFAULT, MAX_TOOL_CALLS_DEFAULT};
use toolgate_contracts::agent_outputs::{AgentOutputs, ToolEnvelope};
use toolgate_contracts::{AgentId, Envelope, ErrorCode, Limits, Slug, ToolError};

use crate::model::{Message, Request, Stop, ToolAnswer, ToolCall, ToolSchema, Turn};
use crate::told;

/// All that was said, with what tools gave: more than any model reads. At the bound the run ends and says so.
pub const CONVERSATION_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The name by which a model calls any of its tools when it has too many to be shown each.
pub const CALL_BY_NAME: &str = "call_tool";

/// What an agent is given when a run begins, and keeps to the run's end whatever is changed meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub version: u32,
    pub agent: Slug,
    pub agent_id: AgentId,
    pub revision: u32,
    /// `PROVIDER/MODEL`.
    pub model: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    pub prompt: String,
    /// By their names on the wire.
    pub tools: Vec<Offered>,
    /// Tools are found by search and called by name: there are too many to be shown each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_name: bool,
    pub limits: Limits,
    pub output_tokens_max: u32,
    /// What bound the agent beside its limits, for whoever reads the run later.
    #[serde(default)]
    pub bound_by: BoundBy,
}

/// What stood when a run began. Who decides about a call asks what stands then, and writes that down with the call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoundBy {
    /// Names, stages, and what they do.
    pub guardrails: Vec<Value>,
    pub profile: Option<Value>,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// The name on the wire.
    pub wire: String,
    pub tool: String,
    pub version: String,
    pub description: String,
    pub input: Value,
}

impl Plan {
    fn request(&self, messages: Vec<Message>) -> Request {
        let schema = |offered: &Offered| ToolSchema {
            name: offered.wire.clone(),
            description: offered.description.clone(),
            input: offered.input.clone(),
        };
        let mut tools: Vec<ToolSchema> = self.tools.iter().map(schema).collect();
        if self.by_name {
            tools.push(call_by_name());
        }
        let (_, model) = self.model.split_once('/').unwrap_or(("", &self.model));
        Request {
            model: model.to_owned(),
            system: self.system.clone(),
            tools,
            messages,
            output_tokens_max: Some(self.output_tokens_max),
            params: self.params.clone(),
            cache_key: Some(format!("{}-{}", self.agent_id, self.revision)),
        }
    }

    fn iterations_max(&self) -> u32 {
        self.limits.max_iterations.unwrap_or(MAX_ITERATIONS_DEFAULT)
    }

    fn calls_max(&self) -> u32 {
        self.limits.max_tool_calls.unwrap_or(MAX_TOOL_CALLS_DEFAULT)
    }
}

/// What one answer may have of the tokens of a run: so there is room for the question, and for another one behind it.
pub fn answer_of(run_tokens_max: u64) -> u32 {
    u32::try_from(run_tokens_max / 4).unwrap_or(u32::MAX).max(1)
}

fn call_by_name() -> ToolSchema {
    ToolSchema {
        name: CALL_BY_NAME.to_owned(),
        description: "Calls one of your tools by the name that a search or a description gave.".to_owned(),
        input: json!({
            "type": "object",
            "properties": {
                "tool": {"type": "string", "description": "The tool's name."},
                "input": {"type": "object", "description": "Its input, as its description says."},
            },
            "required": ["tool"],
            "additionalProperties": false,
        }),
    }
}

/// A call that the model wants, with its place in the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    pub seq: u32,
    /// As the gate knows it, or as the model wrote it where it knows none of that name.
    pub tool: String,
    /// `Err`: what the model wrote is no JSON; the text, and what it is told.
    pub input: Result<Value, (String, ToolError)>,
    id: String,
    wire: String,
}

/// A call, and what the model was told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub turn: u32,
    pub seq: u32,
    pub envelope: Envelope,
    pub told: ToolAnswer,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Ask(Box<Request>),
    /// All at once; the answers are given in this order.
    Call(Vec<Proposed>),
    Answered,
    /// It ends without an answer, for this reason.
    Ended(ToolError),
}

#[derive(Debug)]
pub struct Conversation<'a> {
    plan: &'a Plan,
    messages: Vec<Message>,
    bytes: usize,
    turns: u32,
    made: Vec<Made>,
    response: String,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Asking,
    Calling {
        proposed: Vec<Proposed>,
        /// How many calls the model wanted, if they are more than it may make.
        wanted: Option<usize>,
    },
    Answered,
    Ended(ToolError),
}

impl<'a> Conversation<'a> {
    pub fn begin(plan: &'a Plan) -> Self {
        Self {
            plan,
            messages: vec![Message::User { text: plan.prompt.clone() }],
            bytes: plan.prompt.len(),
            turns: 0,
            made: Vec::new(),
            response: String::new(),
            phase: Phase::Asking,
        }
    }

    /// How many answers the model gave.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    pub fn made(&self) -> &[Made] {
        &self.made
    }

    pub fn next(&self) -> Next {
        match &self.phase {
            Phase::Asking if self.turns >= self.plan.iterations_max() => Next::Ended(self.too_many_turns()),
            Phase::Asking if self.bytes > CONVERSATION_BYTES_MAX => Next::Ended(self.too_long()),
            Phase::Asking => Next::Ask(Box::new(self.plan.request(self.messages.clone()))),
            Phase::Calling { proposed, .. } => Next::Call(proposed.clone()),
            Phase::Answered => Next::Answered,
            Phase::Ended(error) => Next::Ended(error.clone()),
        }
    }

    /// The model answered the last question.
    pub fn heard(&mut self, turn: &Turn) {
        self.turns += 1;
        self.messages.push(Message::Model(turn.said()));
        self.bytes += turn.text.len() + turn.calls.iter().map(|call| call.arguments.len()).sum::<usize>();
        self.response.clone_from(&turn.text);
        self.phase = if let Some(refusal) = turn.refusal() {
            Phase::Ended(refusal.error().clone())
        } else if turn.calls.is_empty() {
            match turn.stop {
                Stop::Length => Phase::Ended(self.cut_off()),
                Stop::End | Stop::Tool | Stop::Refusal => Phase::Answered,
            }
        } else {
            self.calls_of(turn)
        };
    }

    /// One more than allowed goes to the gate, which refuses it and keeps a record of that.
    fn calls_of(&self, turn: &Turn) -> Phase {
        let first = u32::try_from(self.made.len()).unwrap_or(u32::MAX);
        let left = self.plan.calls_max().saturating_sub(first) as usize;
        let wanted = turn.calls.len();
        let proposed = turn.calls.iter().take(left.saturating_add(1)).zip(first..);
        Phase::Calling {
            proposed: proposed.map(|(call, seq)| self.proposed(call, seq)).collect(),
            wanted: (wanted > left).then_some(wanted),
        }
    }

    fn proposed(&self, call: &ToolCall, seq: u32) -> Proposed {
        let input = call.input().map_err(|error| (call.arguments.clone(), error));
        let (id, wire) = (call.id.clone(), call.name.clone());
        if self.plan.by_name && call.name == CALL_BY_NAME {
            return match input {
                Ok(Value::Object(mut members)) if members.get("tool").is_some_and(Value::is_string) => {
                    let tool = members.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
                    let input = members.remove("input").unwrap_or_else(|| json!({}));
                    Proposed { seq, tool, input: Ok(input), id, wire }
                }
                Ok(_) => {
                    let told = "name the tool: `{\"tool\": …, \"input\": {…}}`";
                    let error = ToolError::because(ErrorCode::ValidationError, "schema", told).with("pointer", "/tool");
                    Proposed { seq, tool: call.name.clone(), input: Err((call.arguments.clone(), error)), id, wire }
                }
                Err(unread) => Proposed { seq, tool: call.name.clone(), input: Err(unread), id, wire },
            };
        }
        let offered = self.plan.tools.iter().find(|offered| offered.wire == call.name);
        let tool = offered.map_or_else(|| call.name.clone(), |offered| offered.tool.clone());
        Proposed { seq, tool, input, id, wire }
    }

    /// What the calls gave that were asked for, in their order.
    pub fn took(&mut self, envelopes: Vec<Envelope>) {
        let Phase::Calling { proposed, wanted } = std::mem::replace(&mut self.phase, Phase::Asking) else { return };
        let turn = self.turns;
        let mut answers = Vec::with_capacity(proposed.len());
        for (proposed, envelope) in proposed.into_iter().zip(envelopes) {
            let told = told::answer(proposed.id, proposed.wire, &envelope);
            self.bytes += told.text.len();
            answers.push(told.clone());
            self.made.push(Made { turn, seq: proposed.seq, envelope, told });
        }
        self.messages.push(Message::Tools { answers });
        if let Some(wanted) = wanted {
            self.phase = Phase::Ended(self.too_many_calls(wanted));
        }
    }

    /// The run was ended from outside before all calls had that were asked for; those that had count, each by its place.
    pub fn took_some(&mut self, ended: Vec<(u32, Envelope)>) {
        let Phase::Calling { proposed, .. } = &self.phase else { return };
        let mut ended = ended;
        for one in proposed {
            let Some(at) = ended.iter().position(|(seq, _)| *seq == one.seq) else { continue };
            let (seq, envelope) = ended.swap_remove(at);
            let told = told::answer(one.id.clone(), one.wire.clone(), &envelope);
            self.made.push(Made { turn: self.turns, seq, envelope, told });
        }
    }

    /// Seed 003's outputs, of what has happened so far.
    pub fn outputs(&self, traces_url: Option<String>) -> AgentOutputs {
        // By start, and where two started together as they were asked for.
        let mut order: Vec<&Made> = self.made.iter().collect();
        order.sort_by_key(|made| (made.envelope.t_start, made.seq));
        let calls = order.into_iter().map(|made| ToolEnvelope::from(&made.envelope));
        AgentOutputs::of(self.response.clone(), calls, traces_url)
    }

    fn too_many_turns(&self) -> ToolError {
        let most = self.plan.iterations_max();
        let message = format!(
            "the model was asked {most} {} and has not come to an answer; raise `max_iterations`, or ask for less",
            if most == 1 { "time" } else { "times" },
        );
        ToolError::because(ErrorCode::PolicyDenied, "max_iterations", message).at_limit(
            "max_iterations",
            most,
            self.turns,
        )
    }

    fn too_many_calls(&self, wanted: usize) -> ToolError {
        // The last one is the one that the gate refused.
        let (most, made) = (self.plan.calls_max(), self.made.len().saturating_sub(1));
        let of_these = self.made.iter().filter(|made| made.turn == self.turns).count().saturating_sub(1);
        let message = format!(
            "the run may make {most} {} and made {made}; its model asked for {wanted}{}{}; raise `max_tool_calls`, or ask for less",
            if most == 1 { "call" } else { "calls" },
            if of_these == 0 { " more" } else { "" },
            match of_these {
                0 if wanted == 1 => String::new(),
                0 => " at once".to_owned(),
                made => format!(" at once, of which {made} {} made", if made == 1 { "was" } else { "were" }),
            },
        );
        ToolError::because(ErrorCode::PolicyDenied, "max_tool_calls", message).at_limit("max_tool_calls", most, made)
    }

    fn too_long(&self) -> ToolError {
        let message = format!(
            "the conversation has {} bytes, more than the {CONVERSATION_BYTES_MAX} that are kept; have tools return less, or ask for less",
            self.bytes
        );
        ToolError::because(ErrorCode::ValidationError, "too_large", message).at_limit(
            "conversation_bytes",
            CONVERSATION_BYTES_MAX,
            self.bytes,
        )
    }

    fn cut_off(&self) -> ToolError {
        let most = self.plan.output_tokens_max;
        let whole = self.plan.limits.max_tokens.filter(|whole| answer_of(*whole) == most);
        let remedy = match whole {
            Some(whole) => format!(
                "a quarter of the {whole} that the run may take; raise `max_tokens` of the run and of the agent's `limits`"
            ),
            None => "raise `max_tokens` in the agent's `model_params`".to_owned(),
        };
        let message = format!("the answer was cut off at {most} tokens; {remedy}, or ask for less");
        ToolError::because(ErrorCode::ProviderError, "interrupted", message).with("limit", most)
    }
}
