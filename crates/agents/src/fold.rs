//! Pieces of an answer, and the turn they make. Answers that come whole are folded from pieces too, so that there is one
//! way to make a [`Turn`] and both kinds end in it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::Bounds;
use crate::error::{ErrorKind, ModelError};
use crate::model::{Stop, ToolCall, Turn, Usage};
use crate::provider::Kind;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    Text {
        text: String,
    },
    /// A call begins. Calls are counted from 0 in the order in which they begin.
    Call {
        index: usize,
        id: String,
        name: String,
    },
    Arguments {
        index: usize,
        text: String,
    },
}

/// What is known only when the answer is whole.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub model: String,
    pub stop: Stop,
    pub usage: Usage,
    pub reported: Value,
    pub own: Value,
}

#[derive(Debug)]
pub struct Fold {
    bytes_left: usize,
    calls_max: usize,
    text: String,
    calls: Vec<ToolCall>,
}

impl Fold {
    pub fn new(bounds: &Bounds) -> Self {
        Self { bytes_left: bounds.said_bytes_max, calls_max: bounds.calls_max, text: String::new(), calls: Vec::new() }
    }

    pub fn push(&mut self, delta: &Delta) -> Result<(), ModelError> {
        let bytes = match delta {
            Delta::Text { text } | Delta::Arguments { index: _, text } => text.len(),
            Delta::Call { index: _, id, name } => id.len() + name.len(),
        };
        let Some(left) = self.bytes_left.checked_sub(bytes) else {
            let message = "the answer has more bytes than are taken; ask for less, or lower `max_tokens`";
            return Err(ModelError::new(ErrorKind::TooLarge, message));
        };
        self.bytes_left = left;
        match delta {
            Delta::Text { text } => self.text.push_str(text),
            Delta::Call { index, id, name } => {
                if self.calls.len() == self.calls_max {
                    let message = format!("the answer has more than {} calls at once; ask for fewer", self.calls_max);
                    return Err(ModelError::new(ErrorKind::TooLarge, message));
                }
                if *index != self.calls.len() {
                    return Err(ModelError::unreadable("a call begins out of order"));
                }
                let (id, name) = (id.clone(), name.clone());
                self.calls.push(ToolCall { id, name, arguments: String::new(), cut: false });
            }
            Delta::Arguments { index, text } => match self.calls.get_mut(*index) {
                Some(call) => call.arguments.push_str(text),
                None => return Err(ModelError::unreadable("arguments of a call that did not begin")),
            },
        }
        Ok(())
    }

    pub fn end(mut self, kind: Kind, end: End) -> Turn {
        let End { model, mut stop, usage, reported, own } = end;
        // Providers differ in what they call it; whether there are calls is what counts.
        match (stop, self.calls.is_empty()) {
            (Stop::End, false) => stop = Stop::Tool,
            (Stop::Tool, true) => stop = Stop::End,
            _ => {}
        }
        // One spelling for what can be read: some providers hand on the model's own spaces, some do not.
        for call in &mut self.calls {
            if let Ok(input) = call.input() {
                call.arguments = input.to_string();
            }
        }
        if let (Stop::Length, Some(last)) = (stop, self.calls.last_mut()) {
            last.cut = true;
        }
        // A refusal of what had begun as a call runs nothing.
        if stop == Stop::Refusal {
            self.calls.clear();
        }
        // Every model reads something; a script says what it wants.
        let usage_unknown = kind != Kind::Scripted && usage == Usage::default();
        Turn { kind, model, text: self.text, calls: self.calls, stop, usage, usage_unknown, reported, own, asked: None }
    }
}
