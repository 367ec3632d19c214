//! A run gone through again: the conversation is told what it was told, and what it says is compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toolgate_contracts::{Envelope, Slug};
use toolgate_vault::RunKey;

use super::Change;
use super::bundle::{Bundle, BundleCall, BundleTurn};
use super::difference::{DIFFERENCES_MAX, Difference, Replayed};
use super::judging::{self, Decisions};
use super::schemas;
use crate::bounds::Bounds;
use crate::conversation::{Conversation, Next, Plan, Proposed};
use crate::error::ModelError;
use crate::fold::Fold;
use crate::model::{Request, Turn};
use crate::providers::scripted::{Played, Script};

/// The name under which a script answers in place of the model.
const SCRIPT: &str = "replay";

/// What comes of the run under this change; under none, whether it is what it was.
pub fn replay(bundle: &Bundle, change: &Change) -> Replayed {
    let plan = bundle.plan();
    let own = Gone::through(bundle, &plan);
    let (turns, calls) = (own.turns, own.calls);
    let mut differences = Vec::new();
    let mut notes = Vec::new();
    match &change.script {
        None => differences.extend(own.differences),
        Some(script) => {
            differences.extend(under_script(bundle, &plan, script, &own.proposed));
            notes.push("calls are answered as they were recorded, by tool and input".to_owned());
        }
    }
    differences.extend(ids(bundle, &own.proposed));
    for definition in &change.tools {
        let proposed = |seq: u32| own.proposed.get(&seq).map(|(_, input)| input.clone());
        differences.extend(schemas::differences(bundle, definition, proposed));
        notes.push(format!("the model answers as it did when it was told of the former `{}`", definition.name));
    }
    let Decisions { judged, differences: decided, unknown } = judging::decisions(bundle, change);
    differences.extend(decided);
    if change.policies.is_some() {
        notes.push("definitions, profiles, labels, guardrails and limits say what they said then".to_owned());
        notes.push("where a decision is another one, what the model would do next is not known".to_owned());
    }
    if differences.len() > DIFFERENCES_MAX {
        notes.push(format!("there are {} differences; the first {DIFFERENCES_MAX} are told", differences.len()));
        differences.truncate(DIFFERENCES_MAX);
    }
    let first = differences.first().cloned();
    let (at, recorded, replayed, told) = match first {
        None => (None, None, None, None),
        Some(Difference { at, recorded, replayed, told }) => (Some(at), Some(recorded), Some(replayed), Some(told)),
    };
    Replayed {
        equal: differences.is_empty(),
        run: bundle.run.id,
        agent: bundle.run.agent.name.to_string(),
        turns,
        calls,
        decisions: judged,
        at,
        recorded,
        replayed,
        told,
        differences,
        unknown,
        notes,
    }
}

/// What a model asked for, by its place in the run: the tool, and the input if it could be read.
type Asked = BTreeMap<u32, (String, Value)>;

/// The recorded run, gone through as it was.
struct Gone {
    turns: u32,
    calls: u32,
    proposed: Asked,
    /// At most one: what follows from it is not compared.
    differences: Vec<Difference>,
}

impl Gone {
    fn through(bundle: &Bundle, plan: &Plan) -> Self {
        let mut gone = Self { turns: 0, calls: 0, proposed: Asked::new(), differences: Vec::new() };
        let mut conversation = Conversation::begin(plan);
        let difference = gone.walk(bundle, &mut conversation);
        let difference = difference.or_else(|| gone.is_short(bundle)).or_else(|| outputs(bundle, &conversation));
        gone.differences.extend(difference);
        gone
    }

    fn walk(&mut self, bundle: &Bundle, conversation: &mut Conversation<'_>) -> Option<Difference> {
        loop {
            match conversation.next() {
                Next::Ask(request) => {
                    // The run was ended from outside before this was asked or answered.
                    let BundleTurn { request: recorded, response, usage: _ } = bundle.turns.get(self.turns as usize)?;
                    let difference = of_request(self.turns, recorded, &request);
                    if let Some(difference) = difference.or_else(|| of_digest(self.turns, response, &request)) {
                        return Some(difference);
                    }
                    self.turns += 1;
                    conversation.heard(response);
                }
                Next::Call(proposed) => {
                    let found: Vec<&BundleCall> =
                        proposed.iter().filter_map(|one| recorded_at(bundle, one.seq)).collect();
                    self.proposed.extend(proposed.iter().map(asked));
                    // The run was ended from outside before all of these had.
                    if found.is_empty() {
                        return None;
                    }
                    let is_whole = found.len() == proposed.len();
                    if is_whole {
                        conversation.took(found.iter().map(|call| call.envelope.clone()).collect());
                    } else {
                        // Only after the last answer, and of the outputs all calls are there.
                        let is_last = self.turns as usize == bundle.turns.len();
                        if !is_last || bundle.outputs.tools_by_id.len() != bundle.calls.len() {
                            let missing = proposed.iter().find(|one| recorded_at(bundle, one.seq).is_none())?;
                            return Some(not_recorded(missing));
                        }
                        conversation.took_some(found.iter().map(|call| (call.seq, call.envelope.clone())).collect());
                    }
                    self.calls += u32::try_from(found.len()).unwrap_or(u32::MAX);
                    let told = conversation.made().iter().rev().take(found.len()).rev();
                    for (made, call) in told.zip(found) {
                        let at = bundle.calls.iter().position(|other| other.seq == call.seq).unwrap_or_default();
                        let words = format!(
                            "the model would be told something else of call {} of `{}`",
                            call.seq, call.envelope.name
                        );
                        let [recorded, replayed] = [&call.result_for_model, &made.told].map(value);
                        let at = format!("/calls/{at}/result_for_model");
                        if let Some(difference) = Difference::between(at, &recorded, &replayed, words) {
                            return Some(difference);
                        }
                    }
                    if !is_whole {
                        return None;
                    }
                }
                Next::Answered | Next::Ended(_) => return None,
            }
        }
    }

    /// What was recorded beyond what is asked for now.
    fn is_short(&self, bundle: &Bundle) -> Option<Difference> {
        if let Some(turn) = bundle.turns.get(self.turns as usize) {
            let words = format!("the model was asked {} times, and would be asked {}", bundle.turns.len(), self.turns);
            let at = format!("/turns/{}", self.turns);
            return Some(Difference::new(at, &value(turn), &Value::Null, words));
        }
        let (at, call) = bundle.calls.iter().enumerate().nth(self.calls as usize)?;
        let words = format!("call {} of `{}` was made, and would not be made", call.seq, call.envelope.name);
        Some(Difference::new(format!("/calls/{at}"), &value(call), &Value::Null, words))
    }
}

fn of_request(turn: u32, recorded: &Request, replayed: &Request) -> Option<Difference> {
    let words = format!("question {} to the model is another one", turn + 1);
    Difference::between(format!("/turns/{turn}/request"), &value(recorded), &value(replayed), words)
}

/// A bundle's questions are put together when it is made. That they are those that were asked is said by what was kept
/// of each when it went out.
fn of_digest(turn: u32, response: &Turn, replayed: &Request) -> Option<Difference> {
    let (asked, replayed) = (response.asked?, replayed.digest());
    let words = format!(
        "question {} went out in other words: the program that asked it puts questions together otherwise than the one that made the bundle",
        turn + 1
    );
    Difference::between(format!("/turns/{turn}/response/asked"), &value(&asked), &value(&replayed), words)
}

fn outputs(bundle: &Bundle, conversation: &Conversation<'_>) -> Option<Difference> {
    let replayed = value(&conversation.outputs(bundle.outputs.traces_url.clone()));
    let recorded = value(&bundle.outputs);
    let mut found = Difference::between("/outputs".to_owned(), &recorded, &replayed, "")?;
    let member = found.at.split('/').nth(2).unwrap_or("outputs");
    found.told = format!("the run would give another `{member}`");
    Some(found)
}

fn recorded_at(bundle: &Bundle, seq: u32) -> Option<&BundleCall> {
    bundle.calls.iter().find(|call| call.seq == seq)
}

fn asked(proposed: &Proposed) -> (u32, (String, Value)) {
    let input = match &proposed.input {
        Ok(input) => input.clone(),
        Err((text, _)) => Value::from(text.as_str()),
    };
    (proposed.seq, (proposed.tool.clone(), input))
}

fn not_recorded(proposed: &Proposed) -> Difference {
    let (seq, (tool, input)) = asked(proposed);
    let words = format!("the model would make call {seq} of `{tool}`, and no such call was recorded");
    Difference::new("/calls".to_owned(), &Value::Null, &json!({"seq": seq, "tool": tool, "input": input}), words)
}

/// Another model in place of the recorded one: its calls are answered as they were recorded.
fn under_script(bundle: &Bundle, plan: &Plan, script: &Script, recorded: &Asked) -> Option<Difference> {
    let mut conversation = Conversation::begin(plan);
    let mut used: BTreeSet<u32> = BTreeSet::new();
    loop {
        match conversation.next() {
            Next::Ask(request) => match played(script, &request) {
                Ok(turn) => conversation.heard(&turn),
                Err(error) => {
                    let turn = conversation.turns();
                    let words = format!("question {} has no answer: {}", turn + 1, error.error().message);
                    let recorded =
                        bundle.turns.get(turn as usize).map(|turn| value(&turn.response)).unwrap_or_default();
                    let at = format!("/turns/{turn}/response");
                    return Some(Difference::new(at, &recorded, &value(error.error()), words));
                }
            },
            Next::Call(proposed) => {
                let mut envelopes: Vec<Envelope> = Vec::with_capacity(proposed.len());
                for one in &proposed {
                    let (_, wanted) = asked(one);
                    let same = recorded.iter().find(|(seq, asked)| !used.contains(seq) && **asked == wanted);
                    let found = same.and_then(|(seq, _)| recorded_at(bundle, *seq));
                    let Some(call) = found else { return Some(not_recorded(one)) };
                    used.insert(call.seq);
                    envelopes.push(call.envelope.clone());
                }
                conversation.took(envelopes);
            }
            Next::Answered | Next::Ended(_) => return outputs(bundle, &conversation),
        }
    }
}

/// One answer of the script at once: nobody waits, and what may pass has passed as often as it is tried.
fn played(script: &Script, request: &Request) -> Result<Turn, ModelError> {
    let bounds = Bounds::default();
    let name: Slug = SCRIPT.parse().map_err(|_| ModelError::unreadable("the script has no name"))?;
    let mut used = Script::used(request);
    let mut tries = 1;
    loop {
        let Played { pieces, delay: _, end, begun } = script.play(&name, request, &mut used)?;
        let mut fold = Fold::new(&bounds);
        for delta in pieces.iter().flatten() {
            fold.push(delta)?;
        }
        match end {
            Ok(end) => return Ok(fold.end(crate::Kind::Scripted, end)),
            Err(error) if begun || !error.may_pass() || tries >= bounds.tries_max => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

/// Calls whose id is not the one that the run's key makes of their tool, input and place.
fn ids(bundle: &Bundle, proposed: &Asked) -> Vec<Difference> {
    let Some(key) = RunKey::from_base64(&bundle.run.run_key) else {
        let words = "the key of the run is no key";
        let recorded = Value::from(bundle.run.run_key.as_str());
        return vec![Difference::new("/run/run_key".to_owned(), &recorded, &Value::Null, words)];
    };
    let mut differences = Vec::new();
    for (at, call) in bundle.calls.iter().enumerate() {
        let Envelope { name, version, input, .. } = &call.envelope;
        let tool = if version.is_empty() { name.clone() } else { format!("{name}@{version}") };
        let id = |input: &Value| key.call_id(&tool, &toolgate_contracts::json::canonical(input), call.seq);
        let mut replayed = id(input);
        // An edited call keeps the id of what was proposed, with the defaults of its tool.
        if replayed != call.envelope.call_id
            && let Some((_, asked)) = proposed.get(&call.seq)
        {
            let schema = judging::facts_of(bundle, call).map(|facts| &facts.input_schema);
            let filled = schema.and_then(|schema| schemas::taken(schema, asked.clone()).ok());
            replayed = id(&filled.unwrap_or_else(|| asked.clone()));
        }
        if replayed != call.envelope.call_id {
            let words = format!("call {} of `{name}` has an id that its run's key does not make", call.seq);
            let at = format!("/calls/{at}/envelope/call_id");
            differences.push(Difference::new(at, &call.envelope.call_id.as_str().into(), &replayed.into(), words));
        }
    }
    differences
}

fn value<T: serde::Serialize + ?Sized>(of: &T) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
