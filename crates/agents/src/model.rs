//! What a model is asked and what it says, in no provider's words. Both are stored with a run and replayed, so each is
//! plain JSON and reads back as it was written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use toolgate_contracts::provider::{Stop, Usage};
use toolgate_contracts::{Digest, ErrorCode, ProviderKind as Kind, ToolError, json};

use crate::error::{ErrorKind, ModelError};

/// One question: everything the model sees. What stays the same from turn to turn comes first, so that providers find
/// it in their caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// As the provider names it.
    pub model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSchema>,
    pub messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<u32>,
    /// In the provider's own words, beside what is set here and never instead of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The same for requests that begin alike, for providers that keep caches by a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
}

impl Request {
    /// By name, whatever their order was: the same tools are the same bytes.
    pub(crate) fn sorted_tools(&self) -> Vec<&ToolSchema> {
        let mut tools: Vec<&ToolSchema> = self.tools.iter().collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    /// SHA-256 of its canonical form (RFC 8785), by which it is known later whether this was asked.
    pub fn digest(&self) -> Digest {
        json::digest(&serde_json::to_value(self).unwrap_or_default())
    }

    pub(crate) fn asked(&self) -> Asked {
        let tools = self.sorted_tools().iter().map(|tool| tool.name.clone()).collect();
        Asked { messages: self.messages.len(), tools }
    }
}

/// What has to be known of a request to read its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    messages: usize,
    /// By name, as they were sent.
    tools: Vec<String>,
}

impl Asked {
    /// For calls to which the provider gives no id: unique in this conversation, and the same when it is replayed.
    pub(crate) fn call_id(&self, index: usize) -> String {
        format!("call_{}_{index}", self.messages)
    }

    pub(crate) fn tool(&self, index: usize) -> Option<&str> {
        self.tools.get(index).map(String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSchema {
    /// The name on the wire: letters, digits, `_` and `-`.
    pub name: String,
    pub description: String,
    /// JSON Schema of the input.
    pub input: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    User { text: String },
    Model(Said),
    Tools { answers: Vec<ToolAnswer> },
}

/// What the model said in an earlier turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

impl Said {
    /// What a provider of this kind said itself, to be sent back as it came.
    pub(crate) fn own(&self, kind: Kind) -> Option<&Value> {
        self.own.as_ref().filter(|own| own.kind == kind).map(|own| &own.message)
    }
}

/// A message in a provider's own form. It may hold what only that provider can read (signatures, encrypted reasoning),
/// and is sent back to it unchanged; another provider gets the text and the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    pub kind: Kind,
    pub message: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    /// As the model wrote it: perhaps no tool's.
    pub name: String,
    /// JSON, without spaces; or, if it is none, as the model wrote it.
    pub arguments: String,
    /// The answer reached its limit within or right behind this call, so that some of it may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl ToolCall {
    /// The arguments as JSON, or why they cannot be read, to be told to the model.
    pub fn input(&self) -> Result<Value, ToolError> {
        let unreadable =
            |message: String| ToolError::because(ErrorCode::ValidationError, "unreadable", message).with("pointer", "");
        if self.cut {
            let message = "the arguments were cut off at the limit of the answer; use shorter ones, or fewer calls";
            return Err(unreadable(message.to_owned()));
        }
        // Some models write nothing where a tool takes nothing.
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        json::read(self.arguments.as_bytes(), json::CALL_BYTES_MAX).map_err(|error| {
            unreadable(format!("the arguments are no JSON that can be read: {error}; send one JSON object"))
        })
    }
}

/// What a call gave, as the model gets to read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolAnswer {
    pub call_id: String,
    /// The name on the wire.
    pub name: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// One answer of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Which manner it was spoken in; `scripted` for what no model said.
    pub kind: Kind,
    /// As the provider names what answered.
    pub model: String,
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: Stop,
    pub usage: Usage,
    /// The provider did not say what it used: what was held for it counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub usage_unknown: bool,
    /// What the provider itself says of usage and cost. Kept beside, counted with never.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub reported: Value,
    /// The message in the provider's own form; null where it cannot be sent back as it came.
    pub own: Value,
    /// The digest of the question that this answers, taken when it went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Digest>,
}

impl Turn {
    /// As a message of the next request.
    pub fn said(&self) -> Said {
        let own = (!self.own.is_null()).then(|| Own { kind: self.kind, message: self.own.clone() });
        Said { text: self.text.clone(), calls: self.calls.clone(), own }
    }

    /// The failure that a refusal is to whoever wanted an answer.
    pub fn refusal(&self) -> Option<ModelError> {
        (self.stop == Stop::Refusal).then(|| {
            let said: String = self.text.chars().take(crate::error::PREVIEW_CHARS_MAX).collect();
            let message = match said.as_str() {
                "" => "the model or its provider refuses to answer; ask for something else".to_owned(),
                said => format!("the model refuses to answer: {said}"),
            };
            ModelError::new(ErrorKind::Refused, message)
        })
    }
}
