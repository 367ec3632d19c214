//! A model that plays a script, for tests, demonstrations and replay. No model says anything of it: its turns have the
//! kind `scripted`, and whatever shows them says so.
//!
//! Invariant: it keeps nothing. Which turns were played stands in the conversation itself, so that a run that is resumed
//! or replayed elsewhere goes on with the same turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_contracts::provider::script::{LastError, ScriptCall, ScriptFail, ScriptTurn, ScriptWhen};
use toolgate_contracts::provider::{self, Stop, Usage};
use toolgate_contracts::{Fault, ProviderKind as Kind, Slug, json as strict};
use toolgate_egress::HeaderMap;
use toolgate_expression::{ExpressionError, JsonTemplate, Text};

use crate::error::{ErrorKind, ModelError};
use crate::fold::{Delta, End};
use crate::model::{Message, Request};
use crate::refusal;

#[derive(Debug)]
pub struct Script {
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    when: ScriptWhen,
    repeat: u64,
    say: Option<Text>,
    calls: Vec<(Text, JsonTemplate)>,
    usage: Option<Usage>,
    stop: Option<Stop>,
    chunks: usize,
    delay: Duration,
    fail: Option<ScriptFail>,
}

/// How often each turn was played.
pub(crate) type Used = BTreeMap<usize, u64>;

/// One turn as it is heard.
pub(crate) struct Played {
    /// With the delay before each.
    pub pieces: Vec<Vec<Delta>>,
    pub delay: Duration,
    pub end: Result<End, ModelError>,
    /// Whether anything was heard before it failed.
    pub begun: bool,
}

impl Script {
    /// Of a script that was checked: its texts are read as templates.
    pub fn read(script: &provider::Script) -> Result<Self, Fault> {
        let read = script.turns.iter().enumerate().map(|(at, turn)| {
            Turn::read(turn).map_err(|(member, told)| {
                Fault::invalid(told, "correct the template").at(format!("/script/turns/{at}/{member}"))
            })
        });
        Ok(Self { turns: read.collect::<Result<_, _>>()? })
    }

    /// What the conversation says was played.
    pub(crate) fn used(request: &Request) -> Used {
        let mut used = Used::new();
        for message in &request.messages {
            let Message::Model(said) = message else { continue };
            let played = said.own(Kind::Scripted).and_then(|own| own.get("played")).and_then(Value::as_array);
            for at in played.into_iter().flatten().filter_map(Value::as_u64) {
                *used.entry(usize::try_from(at).unwrap_or(usize::MAX)).or_default() += 1;
            }
        }
        used
    }

    /// The first turn that fits and is not used up.
    pub(crate) fn play(&self, name: &Slug, request: &Request, used: &mut Used) -> Result<Played, ModelError> {
        let before = Self::used(request);
        let found = self
            .turns
            .iter()
            .enumerate()
            .find(|(at, turn)| used.get(at).copied().unwrap_or(0) < turn.repeat && holds(&turn.when, request));
        let Some((at, turn)) = found else {
            let message = format!("the script of `{name}` has no turn left that fits; add one, or a `repeat`");
            return Err(ModelError::new(ErrorKind::ScriptExhausted, message));
        };
        *used.entry(at).or_default() += 1;
        // Those that failed before this one were played for this answer too.
        let played: Vec<usize> = used
            .iter()
            .flat_map(|(at, times)| {
                let new = times - before.get(at).copied().unwrap_or(0);
                std::iter::repeat_n(*at, usize::try_from(new).unwrap_or(0))
            })
            .collect();
        turn.play(name, request, played).map_err(|error| {
            ModelError::new(ErrorKind::Invalid, format!("turn {at} of the script of `{name}`: {error}"))
        })
    }
}

impl Turn {
    fn read(written: &ScriptTurn) -> Result<Self, (String, String)> {
        let ScriptTurn { when, repeat, say, call, usage, stop, chunks, delay_ms, fail } = written;
        let text = |member: String, source: &str| Text::parse(source).map_err(|error| (member, error.to_string()));
        let calls = call.iter().enumerate().map(|(at, ScriptCall { tool, input })| {
            let input = if input.is_null() { json!({}) } else { input.clone() };
            let input = JsonTemplate::parse(&input).map_err(|error| (format!("call/{at}/input"), error.to_string()))?;
            Ok::<_, (String, String)>((text(format!("call/{at}/tool"), tool)?, input))
        });
        Ok(Self {
            when: when.clone(),
            repeat: repeat.unwrap_or(1),
            say: say.as_ref().map(|say| text("say".to_owned(), say)).transpose()?,
            calls: calls.collect::<Result<_, _>>()?,
            usage: *usage,
            stop: *stop,
            chunks: chunks.unwrap_or(1),
            delay: Duration::from_millis(*delay_ms),
            fail: fail.clone(),
        })
    }
}

/// Whether all that a turn asks for holds.
fn holds(when: &ScriptWhen, request: &Request) -> bool {
    let ScriptWhen { turn, last_user_contains, last_tool, last_error } = when;
    let said = request.messages.iter().filter(|message| matches!(message, Message::Model(_))).count();
    let user = request.messages.iter().rev().find_map(|message| match message {
        Message::User { text } => Some(text.as_str()),
        _ => None,
    });
    let answer = request.messages.last().and_then(|message| match message {
        Message::Tools { answers } => answers.last(),
        _ => None,
    });
    turn.is_none_or(|turn| turn == said + 1)
        && last_user_contains.as_ref().is_none_or(|words| user.is_some_and(|user| user.contains(words.as_str())))
        && last_tool.as_ref().is_none_or(|tool| answer.is_some_and(|answer| answer.name == *tool))
        && match last_error {
            None => true,
            Some(LastError::Any(wanted)) => answer.is_some_and(|answer| answer.is_error) == *wanted,
            Some(LastError::Contains(words)) => {
                answer.is_some_and(|answer| answer.is_error && answer.text.contains(words.as_str()))
            }
        }
}

impl Turn {
    fn play(&self, name: &Slug, request: &Request, played: Vec<usize>) -> Result<Played, ExpressionError> {
        let values = values(request);
        let said = self.say.as_ref().map(|say| say.render(&values)).transpose()?.unwrap_or_default();
        let mut deltas: Vec<Delta> = pieces(&said, self.chunks);
        for (index, (tool, input)) in self.calls.iter().enumerate() {
            let id = request.asked().call_id(index);
            deltas.push(Delta::Call { index, id, name: tool.render(&values)? });
            let text = input.filled(&values)?.unwrap_or_else(|| json!({})).to_string();
            deltas.push(Delta::Arguments { index, text });
        }
        let mut pieces = gathered(deltas, self.chunks);
        let end = match &self.fail {
            None => {
                let usage = self.usage.unwrap_or_default();
                let default = if self.calls.is_empty() { Stop::End } else { Stop::Tool };
                let own = json!({"scripted": name, "played": played});
                let stop = self.stop.unwrap_or(default);
                Ok(End { model: format!("scripted/{name}"), stop, usage, reported: Value::Null, own })
            }
            Some(ScriptFail { after_chunks: Some(chunks), .. }) => {
                pieces.truncate(*chunks);
                Err(ModelError::interrupted())
            }
            Some(ScriptFail { status: 0, .. }) => {
                Err(ModelError::new(ErrorKind::Network, "the script makes no connection; try again"))
            }
            Some(ScriptFail { status, retry_after_s, after_chunks: None }) => {
                let error = refusal::answered(*status, &HeaderMap::new(), b"", "scripted", &request.asked());
                Err(error.retry_after(*retry_after_s))
            }
        };
        let begun = end.is_ok() || self.fail.as_ref().is_some_and(|fail| fail.after_chunks.is_some());
        if !begun {
            pieces.clear();
        }
        Ok(Played { pieces, delay: self.delay, end, begun })
    }
}

/// `prompt` is what the conversation began with, `tools` what each tool gave last, by its name.
fn values(request: &Request) -> Value {
    let prompt = request.messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text.as_str()),
        _ => None,
    });
    let mut tools = Map::new();
    for message in &request.messages {
        let Message::Tools { answers } = message else { continue };
        for answer in answers {
            let read = strict::read(answer.text.as_bytes(), strict::CALL_BYTES_MAX);
            tools.insert(answer.name.clone(), read.unwrap_or_else(|_| json!(answer.text)));
        }
    }
    json!({"prompt": prompt.unwrap_or_default(), "tools": tools})
}

fn pieces(said: &str, chunks: usize) -> Vec<Delta> {
    let letters: Vec<char> = said.chars().collect();
    let each = letters.len().div_ceil(chunks).max(1);
    letters.chunks(each).map(|piece| Delta::Text { text: piece.iter().collect() }).collect()
}

/// As many pieces as asked for, or as many as there are.
fn gathered(deltas: Vec<Delta>, chunks: usize) -> Vec<Vec<Delta>> {
    let mut pieces: Vec<Vec<Delta>> = Vec::new();
    for delta in deltas {
        match pieces.last_mut() {
            Some(last) if pieces_full(last, &delta) || chunks == 1 => last.push(delta),
            _ => pieces.push(vec![delta]),
        }
    }
    if pieces.is_empty() {
        pieces.push(Vec::new());
    }
    pieces
}

/// A call and its arguments are heard at once.
fn pieces_full(last: &[Delta], delta: &Delta) -> bool {
    matches!((last.last(), delta), (Some(Delta::Call { .. }), Delta::Arguments { .. }))
}
