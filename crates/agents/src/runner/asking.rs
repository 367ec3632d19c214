//! One question to a model, with nothing but a text: the modes `direct` and `skill`.
//!
//! What it may take is held by the gate before it runs, and settled with the call's record. What is asked and answered is
//! told in the log of the call's run, as of a hosted agent's questions; what is said is not, before the gate has seen it
//! whole.

use serde_json::{Map, Value, json};
use tokio::select;
use toolgate_contracts::event::EventType;
use toolgate_contracts::runner::{Prompt, PromptMode};
use toolgate_contracts::skill::Skill;
use toolgate_contracts::{Amount, Definition, ErrorCode, ProviderKind, TenantId, ToolError, ToolResult};
use toolgate_engine::runner::{Done, Foreseen};
use toolgate_engine::{Call, Outcome};

use super::answer::Wanted;
use super::{is_scripted, rendered};
use crate::bounds::Bounds;
use crate::error::ModelError;
use crate::host::{BYTES_PER_TOKEN, Host, again_of};
use crate::model::{Message, Request, Stop, Turn, Usage};
use crate::models::{Answered, Asker, Known};

/// What a model may write in one answer.
const OUTPUT_TOKENS_MAX: u32 = 8_192;
/// Held for a skill beside the text, whose length is known when it is filled in.
const SKILL_BYTES_HELD: u64 = 16 * 1024;
/// An answer that is not what was asked for is asked for once more, with what is wrong with it.
const QUESTIONS_MAX: usize = 2;

/// What the questions of one call took so far.
#[derive(Default)]
struct Taken {
    cost: Option<Amount>,
    tokens: u64,
}

impl Taken {
    fn add(&mut self, cost: Option<Amount>, usage: Usage) {
        self.cost = match (self.cost, cost) {
            (sum, None) => sum,
            (sum, Some(cost)) => Some(sum.unwrap_or_default() + cost),
        };
        self.tokens += usage.input + usage.output;
    }

    fn failed(self, error: ToolError) -> Outcome {
        Outcome::Spent { error, cost: Some(self.cost.unwrap_or_default()), units: self.tokens }
    }
}

pub(super) async fn ask(host: &Host, call: &Call, prompt: &Prompt) -> Outcome {
    let mut taken = Taken::default();
    let known = match model(host, call.tenant, prompt) {
        Ok(known) => known,
        Err(error) => return taken.failed(error),
    };
    let wanted = Wanted::of(call.tool.definition.output_schema.as_ref());
    let mut request = match request(host, call, prompt, &known, &wanted).await {
        Ok(request) => request,
        Err(error) => return taken.failed(error),
    };
    let mut wrong = None;
    for number in 0..QUESTIONS_MAX {
        let turn = match answered(host, call, &known, &request, &mut taken, number).await {
            Ok(turn) => turn,
            Err(error) => return taken.failed(error),
        };
        match wanted.read(&turn.text, call.tool.version.output_validator().and_then(Result::ok)) {
            Ok(value) => return done(value, &known, &turn, &taken),
            Err(problem) => {
                let again = format!(
                    "That is not what was asked for: {problem}. Answer again with the whole JSON value and nothing else."
                );
                request.messages.push(Message::Model(turn.said()));
                request.messages.push(Message::User { text: again });
                wrong = Some(problem);
            }
        }
    }
    let message = format!(
        "the model's answer is not what the tool promises, twice: {}; a stronger model or a simpler `output_schema` may help",
        wrong.unwrap_or_default()
    );
    taken.failed(ToolError::because(ErrorCode::ProviderError, "output_schema", message))
}

fn done(value: Value, known: &Known, turn: &Turn, taken: &Taken) -> Outcome {
    let mut result = ToolResult::structured(value);
    result.app_data = Some(json!({
        "model": known.model.to_string(), "scripted": is_scripted(known.kind), "answered_by": turn.model,
        "tokens": taken.tokens,
    }));
    Outcome::Done(Done { result, cost: taken.cost, units: Some(taken.tokens), ..Done::default() })
}

/// The model that the tool names, or the tenant's own for what names none.
pub(super) fn model(host: &Host, tenant: TenantId, prompt: &Prompt) -> Result<Known, ToolError> {
    let usual = || {
        let snapshot = host.registry().snapshot();
        snapshot.tenant(tenant).ok().and_then(|registry| registry.tenant.settings.default_model.clone())
    };
    let Some(model) = prompt.model.clone().or_else(usual) else {
        let message = "the tool names no `model` and the tenant has no `default_model`; set one with `toolgate settings set default_model=PROVIDER/MODEL`";
        return Err(ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message));
    };
    host.models().known(tenant, &model).map_err(|error| error.error().clone())
}

async fn request(
    host: &Host,
    call: &Call,
    prompt: &Prompt,
    known: &Known,
    wanted: &Wanted<'_>,
) -> Result<Request, ToolError> {
    let mut system = match (prompt.mode, &prompt.skill) {
        (PromptMode::Skill, Some(skill)) => {
            let known = host.registry().skill(&call.caller, skill).map_err(|fault| ToolError::of(&fault))?;
            let arguments = arguments(&known.spec, &call.input);
            let filled = host.registry().fill_skill(&call.caller, skill, &arguments).await;
            filled.map_err(|fault| ToolError::of(&fault))?.text
        }
        _ => String::new(),
    };
    if let Some(form) = wanted.instruction() {
        let added = format!("{system}\n\n{form}");
        added.trim().clone_into(&mut system);
    }
    let text = rendered(&prompt.template, &call.input)?;
    Ok(question(known, system, text, &call.tool.definition))
}

/// Of the call's input what the skill has places for; each of those is a text.
fn arguments(skill: &Skill, input: &Value) -> Map<String, Value> {
    let given = skill.arguments.iter().filter_map(|argument| {
        let text = match input.get(&argument.name)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some((argument.name.clone(), Value::String(text)))
    });
    given.collect()
}

fn question(known: &Known, system: String, text: String, definition: &Definition) -> Request {
    Request {
        model: known.model.model.clone(),
        system,
        messages: vec![Message::User { text }],
        output_tokens_max: Some(OUTPUT_TOKENS_MAX),
        cache_key: Some(definition.name.to_string()),
        ..Request::default()
    }
}

/// One answer; what it took is counted whether or not it can be used.
async fn answered(
    host: &Host,
    call: &Call,
    known: &Known,
    request: &Request,
    taken: &mut Taken,
    number: usize,
) -> Result<Turn, ToolError> {
    let workspace = call.agent.and_then(|agent| {
        let snapshot = host.registry().snapshot();
        snapshot.tenant(call.tenant).ok()?.agents.get(&agent).map(|agent| agent.workspace)
    });
    let asker = Asker { tenant: call.tenant, principal: call.principal, workspace };
    let bounds = Bounds::default();
    let bounds = Bounds { wall: bounds.wall.min(call.timeout), ..bounds };
    let name = known.model.to_string();
    let mut unheard = |_: &crate::fold::Delta| {};
    let asked =
        json!({"turn": number, "model": name, "messages": request.messages.len(), "tools": request.tools.len()});
    call.tell(EventType::ModelRequested, asked, host.engine().now());
    let failed = |error: &ToolError| {
        let mut data = json!({
            "turn": number, "model": name, "code": error.code, "reason": error.reason(), "message": error.message,
        });
        again_of(error, &mut data);
        call.tell(EventType::ModelFailed, data, host.engine().now());
    };
    let answered = select! {
        answered = Box::pin(host.models().ask(&asker, &name, request, bounds, &mut unheard)) => answered,
        () = call.cancel.cancelled() => Err(ModelError::interrupted()),
    };
    if call.cancel.is_cancelled() {
        let (cost, usage) = price(known, request);
        taken.add(cost, usage);
        let error = ToolError::cancelled();
        failed(&error);
        return Err(error);
    }
    let turn = match answered {
        Ok(answered) => {
            // What may have been taken at most, where nobody says what was.
            let (cost, usage) =
                if answered.turn.usage_unknown { price(known, request) } else { (answered.cost, answered.turn.usage) };
            taken.add(cost, usage);
            call.tell(EventType::ModelCompleted, told(&answered, number), host.engine().now());
            answered.turn
        }
        Err(error) => {
            // What broke off in the middle was written, and may be charged.
            if error.kind().may_cost() {
                let (cost, usage) = price(known, request);
                taken.add(cost, usage);
            }
            failed(error.error());
            return Err(error.error().clone());
        }
    };
    if let Some(refusal) = turn.refusal() {
        return Err(refusal.error().clone());
    }
    if turn.stop == Stop::Length {
        let message = format!("the answer was cut off at {OUTPUT_TOKENS_MAX} tokens; ask for less");
        return Err(
            ToolError::because(ErrorCode::ProviderError, "interrupted", message).with("limit", OUTPUT_TOKENS_MAX)
        );
    }
    Ok(turn)
}

/// What the log says of an answer: what it took, and not what was said.
fn told(Answered { turn, tries, cost, provider: _, kind: _ }: &Answered, number: usize) -> Value {
    let Usage { input, cached, output } = turn.usage;
    let mut data = json!({
        "turn": number, "model": turn.model, "kind": turn.kind, "stop": turn.stop, "calls": turn.calls.len(),
        "usage": {"input_tokens": input, "cached_tokens": cached, "output_tokens": output}, "tries": tries,
    });
    if turn.usage_unknown {
        data["usage_unknown"] = true.into();
    }
    if let Some(cost) = cost.filter(|_| !turn.usage_unknown) {
        data["cost"] = cost.to_string().into();
    }
    data
}

/// What a question may take at most.
fn price(known: &Known, request: &Request) -> (Option<Amount>, Usage) {
    let bytes = serde_json::to_string(request).map_or(0, |text| text.len()) as u64;
    priced(known, bytes)
}

fn priced(known: &Known, bytes: u64) -> (Option<Amount>, Usage) {
    let usage = Usage { input: bytes.div_ceil(BYTES_PER_TOKEN), cached: 0, output: u64::from(OUTPUT_TOKENS_MAX) };
    let cost = match (known.prices, known.kind) {
        (Some(prices), _) => Some(prices.cost(usage)),
        // Nobody is owed anything for what is read from a file.
        (None, ProviderKind::Scripted) => Some(Amount::ZERO),
        (None, _) => None,
    };
    (cost, usage)
}

/// Both questions, where an answer may have to be asked for again.
pub(super) fn foreseen(
    host: &Host,
    tenant: TenantId,
    definition: &Definition,
    prompt: &Prompt,
    input: &Value,
) -> Option<Foreseen> {
    let known = model(host, tenant, prompt).ok()?;
    let wanted = Wanted::of(definition.output_schema.as_ref());
    let text = rendered(&prompt.template, input).ok()?;
    let request = question(&known, wanted.instruction().unwrap_or_default(), text, definition);
    let skill = if prompt.mode == PromptMode::Skill { SKILL_BYTES_HELD } else { 0 };
    let bytes = serde_json::to_string(&request).map_or(0, |text| text.len()) as u64 + skill;
    let (cost, usage) = priced(&known, bytes);
    let mut foreseen = Foreseen { cost, tokens: usage.input + usage.output };
    if wanted.may_be_wrong() {
        let (again, usage) = priced(&known, bytes + u64::from(OUTPUT_TOKENS_MAX) * BYTES_PER_TOKEN);
        foreseen.cost = foreseen.cost.zip(again).map(|(once, again)| once + again);
        foreseen.tokens += usage.input + usage.output;
    }
    Some(foreseen)
}
