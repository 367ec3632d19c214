//! A model that plays a script, for tests, demonstrations and replay. No model says anything of it: its turns have the
//! kind `scripted`, and whatever shows them says so.
//!
//! Invariant: it keeps nothing. Which turns were played stands in the conversation itself, so that a run that is resumed
//! or replayed elsewhere goes on with the same turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Fault, Slug, json as strict};
use toolgate_egress::HeaderMap;
use toolgate_expression::{ExpressionError, JsonTemplate, Text};

use crate::error::{ErrorKind, ModelError};
use crate::fold::{Delta, End};
use crate::model::{Message, Request, Stop, Usage};
use crate::provider::Kind;
use crate::refusal;

const TURNS_MAX: usize = 1000;
const CHUNKS_MAX: usize = 1000;
const DELAY_MS_MAX: u64 = 60_000;

#[derive(Debug)]
pub struct Script {
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    when: When,
    repeat: u64,
    say: Option<Text>,
    calls: Vec<(Text, JsonTemplate)>,
    usage: Option<Usage>,
    stop: Option<Stop>,
    chunks: usize,
    delay: Duration,
    fail: Option<Fail>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    turns: Vec<WrittenTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTurn {
    #[serde(default)]
    when: When,
    /// How often it may answer.
    #[serde(default)]
    repeat: Option<u64>,
    #[serde(default)]
    say: Option<String>,
    #[serde(default)]
    call: Vec<WrittenCall>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    stop: Option<Stop>,
    #[serde(default)]
    chunks: Option<usize>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    fail: Option<Fail>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    tool: String,
    #[serde(default)]
    input: Value,
}

/// All that is said must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    /// Which answer of the conversation it is, from 1.
    #[serde(default)]
    turn: Option<usize>,
    #[serde(default)]
    last_user_contains: Option<String>,
    /// The tool whose result came last.
    #[serde(default)]
    last_tool: Option<String>,
    /// Whether that was an error, or words within it.
    #[serde(default)]
    last_error: Option<LastError>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum LastError {
    Any(bool),
    Contains(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    /// Of the answer; 0 for a connection that is not made.
    status: u16,
    #[serde(default)]
    retry_after_s: Option<u64>,
    /// It begins to answer and breaks off after so many pieces.
    #[serde(default)]
    after_chunks: Option<usize>,
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
    pub fn read(script: Value) -> Result<Self, Fault> {
        let wrong = |pointer: String, told: String, remedy: &str| Fault::invalid(told, remedy).at(pointer);
        let Written { version, turns } = strict::decode(script).map_err(|error| {
            wrong(format!("/script{}", error.pointer), error.message, "write `version: 1` and the list `turns`")
        })?;
        if version != 1 {
            return Err(wrong(
                "/script/version".into(),
                format!("version {version} is not known"),
                "write `version: 1`",
            ));
        }
        if turns.is_empty() || turns.len() > TURNS_MAX {
            let told = format!("the script has {} turns, between 1 and {TURNS_MAX} are expected", turns.len());
            return Err(wrong("/script/turns".into(), told, "write the turns that it plays"));
        }
        let turns = turns.into_iter().enumerate();
        let read = turns.map(|(at, turn)| {
            turn.read()
                .map_err(|(member, told)| wrong(format!("/script/turns/{at}/{member}"), told, "correct the script"))
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
            .find(|(at, turn)| used.get(at).copied().unwrap_or(0) < turn.repeat && turn.when.holds(request));
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

impl WrittenTurn {
    fn read(self) -> Result<Turn, (&'static str, String)> {
        let Self { when, repeat, say, call, usage, stop, chunks, delay_ms, fail } = self;
        if say.is_none() && call.is_empty() && fail.is_none() && stop.is_none() {
            return Err(("say", "the turn neither says, calls nor fails".to_owned()));
        }
        if chunks.is_some_and(|chunks| !(1..=CHUNKS_MAX).contains(&chunks)) {
            return Err(("chunks", format!("between 1 and {CHUNKS_MAX} are expected")));
        }
        if delay_ms > DELAY_MS_MAX {
            return Err(("delay_ms", format!("at most {DELAY_MS_MAX} are expected")));
        }
        if fail.as_ref().is_some_and(|fail| (1..300).contains(&fail.status) || fail.status > 599) {
            return Err(("fail/status", "it is no status that fails".to_owned()));
        }
        let text = |member, source: &str| Text::parse(source).map_err(|error| (member, error.to_string()));
        let calls = call.iter().map(|WrittenCall { tool, input }| {
            let input = if input.is_null() { json!({}) } else { input.clone() };
            let input = JsonTemplate::parse(&input).map_err(|error| ("call", error.to_string()))?;
            Ok((text("call", tool)?, input))
        });
        Ok(Turn {
            when,
            repeat: repeat.unwrap_or(1),
            say: say.map(|say| text("say", &say)).transpose()?,
            calls: calls.collect::<Result<_, _>>()?,
            usage,
            stop,
            chunks: chunks.unwrap_or(1),
            delay: Duration::from_millis(delay_ms),
            fail,
        })
    }
}

impl When {
    fn holds(&self, request: &Request) -> bool {
        let Self { turn, last_user_contains, last_tool, last_error } = self;
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
            Some(Fail { after_chunks: Some(chunks), .. }) => {
                pieces.truncate(*chunks);
                Err(ModelError::interrupted())
            }
            Some(Fail { status: 0, .. }) => {
                Err(ModelError::new(ErrorKind::Network, "the script makes no connection; try again"))
            }
            Some(Fail { status, retry_after_s, after_chunks: None }) => {
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
