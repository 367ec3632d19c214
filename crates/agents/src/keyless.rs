//! A model that says the key of its own provider: what it says is heard and kept without it.
//!
//! Deliberately absent: other secrets. A model knows those that it was told, and tools tell it none.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_contracts::json;
use toolgate_vault::{Redactor, RedactorStream};

use crate::fold::Delta;
use crate::model::{ToolCall, Turn};

/// Hands an answer on as it comes, piece by piece; a key that is cut across two pieces is found as well.
pub(crate) struct Hearing<'a> {
    redactor: &'a Redactor,
    heard: &'a mut (dyn FnMut(&Delta) + Send),
    text: RedactorStream,
    /// Of each call that has begun.
    arguments: BTreeMap<usize, RedactorStream>,
}

impl<'a> Hearing<'a> {
    pub fn new(redactor: &'a Redactor, heard: &'a mut (dyn FnMut(&Delta) + Send)) -> Self {
        Self { redactor, heard, text: redactor.stream(), arguments: BTreeMap::new() }
    }

    pub fn hear(&mut self, delta: &Delta) {
        if self.redactor.is_empty() {
            (self.heard)(delta);
            return;
        }
        let clean = |text: &str| self.redactor.redact_text(text).into_owned();
        let delta = match delta {
            Delta::Text { text } => Delta::Text { text: self.text.push(text) },
            Delta::Call { index, id, name } => Delta::Call { index: *index, id: clean(id), name: clean(name) },
            Delta::Arguments { index, text } => {
                let stream = self.arguments.entry(*index).or_insert_with(|| self.redactor.stream());
                Delta::Arguments { index: *index, text: stream.push(text) }
            }
        };
        self.hand_on(&delta);
    }

    /// What was held back, because it could have become a key.
    pub fn finish(mut self) {
        let rest = std::mem::replace(&mut self.text, self.redactor.stream()).finish();
        self.hand_on(&Delta::Text { text: rest });
        for (index, stream) in std::mem::take(&mut self.arguments) {
            self.hand_on(&Delta::Arguments { index, text: stream.finish() });
        }
    }

    fn hand_on(&mut self, delta: &Delta) {
        let is_empty = match delta {
            Delta::Text { text } | Delta::Arguments { index: _, text } => text.is_empty(),
            Delta::Call { .. } => false,
        };
        if !is_empty {
            (self.heard)(delta);
        }
    }
}

/// The answer without the key. Where the provider's own form has it in parts that only together are one, that form is
/// dropped, and the next question has the text and the calls instead.
pub(crate) fn turn(turn: Turn, redactor: &Redactor) -> Turn {
    if redactor.is_empty() {
        return turn;
    }
    let Turn { kind, model, text, calls, stop, usage, usage_unknown, reported, own, asked } = turn;
    let clean = |text: &str| redactor.redact_text(text).into_owned();
    let said = clean(&text);
    let cleaned: Vec<ToolCall> = calls.iter().map(|call| self::call(call, redactor)).collect();
    let was_said = said != text || cleaned != calls;
    let kept = redactor.redact_json(own.clone());
    let own = if was_said && kept == own { Value::Null } else { kept };
    Turn {
        kind,
        model: clean(&model),
        text: said,
        calls: cleaned,
        stop,
        usage,
        usage_unknown,
        reported: redactor.redact_json(reported),
        own,
        asked,
    }
}

fn call(ToolCall { id, name, arguments, cut }: &ToolCall, redactor: &Redactor) -> ToolCall {
    let clean = |text: &str| redactor.redact_text(text).into_owned();
    // As JSON where it is some: a number that is a key becomes a text, and stays readable.
    let arguments = match json::read(arguments.as_bytes(), json::CALL_BYTES_MAX) {
        Ok(value) => match redactor.redact_json(value.clone()) {
            redacted if redacted == value => clean(arguments),
            redacted => clean(&redacted.to_string()),
        },
        Err(_) => clean(arguments),
    };
    ToolCall { id: clean(id), name: clean(name), arguments, cut: *cut }
}
