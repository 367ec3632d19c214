//! OpenAI's chat completions, and every server that speaks like it: Ollama, vLLM, llama.cpp, gateways.
//!
//! They differ in what they leave out. So an id that is missing is made up, an index that is used twice is not believed,
//! and arguments may be an object. Deliberately absent: the older `function_call`.

use serde_json::{Map, Value, json};
use toolgate_egress::Url;

use super::{Dialect, Reader, arguments, below, count, text};
use crate::error::{ErrorKind, ModelError};
use crate::fold::{Delta, End};
use crate::model::{Asked, Message, Request, Said, Stop, Usage};
use crate::provider::Kind;
use crate::reading::document;
use crate::refusal;
use crate::wire::Form;

const HOST: &str = "api.openai.com";
/// How many are kept until whoever asked says that it is too many.
const CALLS_MAX: usize = 4096;

pub struct OpenaiChat;

impl Dialect for OpenaiChat {
    fn kind(&self) -> Kind {
        Kind::OpenaiChat
    }

    fn base(&self) -> Option<&'static str> {
        Some("https://api.openai.com/v1")
    }

    fn url(&self, base: &Url, _: &Request, _: Form) -> Result<Url, ModelError> {
        below(base, &["chat", "completions"])
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["messages", "model", "n", "prompt_cache_key", "stream", "stream_options", "tools"]
    }

    fn body(&self, base: &Url, request: &Request, form: Form) -> Result<Map<String, Value>, ModelError> {
        let tools: Vec<Value> = request
            .sorted_tools()
            .iter()
            .map(|tool| {
                let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.input});
                json!({"type": "function", "function": function})
            })
            .collect();
        let mut messages = Vec::new();
        if !request.system.is_empty() {
            messages.push(json!({"role": "system", "content": request.system}));
        }
        for message in &request.messages {
            match message {
                Message::User { text } => messages.push(json!({"role": "user", "content": text})),
                Message::Model(said) => messages.push(back(said)),
                Message::Tools { answers } => messages.extend(
                    answers
                        .iter()
                        .map(|answer| json!({"role": "tool", "tool_call_id": answer.call_id, "content": answer.text})),
                ),
            }
        }
        Ok(common(base, request, form, tools, messages))
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        Box::new(Chat::new(request))
    }
}

/// What the chat form has in common with the prompted one.
pub(super) fn common(
    base: &Url,
    request: &Request,
    form: Form,
    tools: Vec<Value>,
    messages: Vec<Value>,
) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    body.insert("messages".into(), Value::Array(messages));
    // The vendor's newer models know only the one name, other servers only the other.
    let is_vendor = base.host_str() == Some(HOST);
    if let Some(most) = request.output_tokens_max {
        body.insert(if is_vendor { "max_completion_tokens" } else { "max_tokens" }.into(), json!(most));
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| is_vendor) {
        body.insert("prompt_cache_key".into(), json!(key));
    }
    if form == Form::Streamed {
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    body
}

/// An earlier answer as it goes back: what the server has to see again, unchanged, and nothing that it only told us.
fn back(said: &Said) -> Value {
    let Some(own) = said.own(Kind::OpenaiChat) else { return rebuilt(said) };
    let mut message = json!({"role": "assistant", "content": own.get("content").cloned().unwrap_or_default()});
    let calls = own.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    // Servers that turn a conversation into text themselves fail for good on arguments that are no JSON.
    if let Some(calls) = calls {
        let mut calls = calls.clone();
        for call in &mut calls {
            if let Some(written @ Value::String(_)) = call.pointer_mut("/function/arguments")
                && serde_json::from_str::<Value>(written.as_str().unwrap_or_default()).is_err()
            {
                *written = json!("{}");
            }
        }
        message["tool_calls"] = Value::Array(calls);
        // Thought before a call, and wanted back with its result.
        if let Some(thought) = own.get("reasoning_content") {
            message["reasoning_content"] = thought.clone();
        }
    }
    if let Some(state) = own.get("reasoning_details") {
        message["reasoning_details"] = state.clone();
    }
    message
}

/// What another provider said.
fn rebuilt(said: &Said) -> Value {
    let content = if said.text.is_empty() && !said.calls.is_empty() { Value::Null } else { json!(said.text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !said.calls.is_empty() {
        let calls = said.calls.iter().map(|call| {
            let arguments = super::object(&call.arguments).to_string();
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

struct Chat {
    asked: Asked,
    model: String,
    /// All members of the message, put together.
    own: Map<String, Value>,
    calls: Vec<Call>,
    /// How many of them were announced.
    begun: usize,
    refused: bool,
    finish: Option<String>,
    reported: Value,
}

struct Call {
    /// The server's own count.
    at: Option<u64>,
    id: String,
    /// Arguments that came before the call was announced.
    waiting: String,
    own: Map<String, Value>,
}

impl Chat {
    fn new(request: &Request) -> Self {
        Self {
            asked: request.asked(),
            model: String::new(),
            own: Map::new(),
            calls: Vec::new(),
            begun: 0,
            refused: false,
            finish: None,
            reported: Value::Null,
        }
    }

    fn take(&mut self, document: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        if document.get("error").is_some_and(|error| !error.is_null()) {
            return Err(refusal::told(document, &self.asked));
        }
        if let Some(model) = document.get("model").and_then(Value::as_str).filter(|_| self.model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = document.get("usage").filter(|usage| usage.is_object()) {
            self.reported = usage.clone();
        }
        let Some(choice) = document.pointer("/choices/0") else { return Ok(()) };
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        let Some(message) = choice.get("delta").or_else(|| choice.get("message")).and_then(Value::as_object) else {
            return Ok(());
        };
        match message.get("content") {
            Some(Value::String(text)) => say(text, deltas),
            // Text among other parts.
            Some(Value::Array(parts)) => parts.iter().for_each(|part| say(text(part, "/text"), deltas)),
            _ => {}
        }
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
            self.refused = true;
            say(refusal, deltas);
        }
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, deltas)?;
        }
        for (name, value) in message {
            if name != "tool_calls" {
                merge(&mut self.own, name, value);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let at = call.get("index").and_then(Value::as_u64);
        let id = text(call, "/id");
        let name = text(call, "/function/name");
        // A new id at an old place is a new call: some servers count every call as their first.
        let known = self.calls.iter().rposition(|known| {
            at.is_some() && known.at == at && (id.is_empty() || known.id.is_empty() || known.id == id)
        });
        if known.is_none() && self.calls.len() == CALLS_MAX {
            return Err(ModelError::new(ErrorKind::TooLarge, "the answer has more calls at once than are read"));
        }
        let index = known.unwrap_or_else(|| {
            self.calls.push(Call { at, id: String::new(), waiting: String::new(), own: Map::new() });
            self.calls.len() - 1
        });
        let Some(slot) = self.calls.get_mut(index) else { return Ok(()) };
        if slot.id.is_empty() {
            id.clone_into(&mut slot.id);
        }
        let piece = call.pointer("/function/arguments").map(arguments).unwrap_or_default();
        for (member, value) in call.as_object().into_iter().flatten() {
            match (member.as_str(), value) {
                ("index", _) => {}
                ("id" | "type", value) => {
                    slot.own.entry(member).or_insert_with(|| value.clone());
                }
                ("function", Value::Object(function)) => {
                    let own = slot.own.entry("function").or_insert_with(|| json!({"name": "", "arguments": ""}));
                    if let Some(Value::String(written)) = own.get_mut("arguments") {
                        written.push_str(&piece);
                    }
                    if let Some(known) = own.get_mut("name").filter(|known| *known == "") {
                        *known = json!(name);
                    }
                    let others = function.iter().filter(|(name, _)| !matches!(name.as_str(), "name" | "arguments"));
                    if let Some(own) = own.as_object_mut() {
                        others.for_each(|(name, value)| merge(own, name, value));
                    }
                }
                (name, value) => merge(&mut slot.own, name, value),
            }
        }
        slot.waiting.push_str(&piece);
        if !name.is_empty() {
            self.begin(index, deltas);
        }
        if index < self.begun {
            self.flush(index, deltas);
        }
        Ok(())
    }

    /// Calls begin in their order: what has no name yet when a later one begins is told without one.
    fn begin(&mut self, last: usize, deltas: &mut Vec<Delta>) {
        while let Some(slot) = self.calls.get_mut(self.begun).filter(|_| self.begun <= last) {
            if slot.id.is_empty() {
                slot.id = self.asked.call_id(self.begun);
                slot.own.insert("id".into(), json!(slot.id));
            }
            slot.own.entry("type").or_insert_with(|| json!("function"));
            let name = slot.own.get("function").map(|function| text(function, "/name")).unwrap_or_default();
            deltas.push(Delta::Call { index: self.begun, id: slot.id.clone(), name: name.to_owned() });
            self.begun += 1;
            self.flush(self.begun - 1, deltas);
        }
    }

    fn flush(&mut self, index: usize, deltas: &mut Vec<Delta>) {
        if let Some(slot) = self.calls.get_mut(index).filter(|slot| !slot.waiting.is_empty()) {
            deltas.push(Delta::Arguments { index, text: std::mem::take(&mut slot.waiting) });
        }
    }

    fn end(&mut self, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        let Some(finish) = self.finish.take() else { return Err(ModelError::interrupted()) };
        self.begin(self.calls.len(), deltas);
        let stop = match finish.as_str() {
            _ if self.refused => Stop::Refusal,
            "length" => Stop::Length,
            "content_filter" => Stop::Refusal,
            "tool_calls" | "function_call" => Stop::Tool,
            _ => Stop::End,
        };
        let mut own = std::mem::take(&mut self.own);
        own.retain(|name, value| name == "content" || !is_empty(value));
        own.entry("role").or_insert_with(|| json!("assistant"));
        own.entry("content").or_insert(Value::Null);
        if !self.calls.is_empty() {
            let calls = self.calls.drain(..).map(|call| Value::Object(call.own));
            own.insert("tool_calls".into(), calls.collect());
        }
        let reported = std::mem::take(&mut self.reported);
        Ok(End { model: std::mem::take(&mut self.model), stop, usage: usage(&reported), reported, own: own.into() })
    }
}

impl Reader for Chat {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        self.take(&document, deltas)?;
        if document.pointer("/choices/0").is_none() {
            return Err(ModelError::unreadable("it has no `choices`"));
        }
        // It is whole, whatever it says of why it ends.
        self.finish.get_or_insert_with(|| "stop".to_owned());
        self.end(deltas)
    }

    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        if data.trim_ascii() == b"[DONE]" {
            return self.end(deltas).map(Some);
        }
        self.take(&document(data)?, deltas)?;
        Ok(None)
    }
}

fn usage(reported: &Value) -> Usage {
    // Two of the servers that speak alike have a word of their own for what was cached.
    let cached =
        count(reported, "/prompt_tokens_details/cached_tokens").max(count(reported, "/prompt_cache_hit_tokens"));
    Usage { input: count(reported, "/prompt_tokens"), cached, output: count(reported, "/completion_tokens") }
}

pub(super) fn say(text: &str, deltas: &mut Vec<Delta>) {
    if !text.is_empty() {
        deltas.push(Delta::Text { text: text.to_owned() });
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Puts a piece of a member to what came before: texts and lists grow, items of a list by their `index`.
fn merge(own: &mut Map<String, Value>, name: &str, piece: &Value) {
    if piece.is_null() {
        own.entry(name).or_insert(Value::Null);
        return;
    }
    match (own.get_mut(name), piece) {
        (Some(Value::String(text)), Value::String(more)) if !matches!(name, "role" | "id" | "type" | "format") => {
            text.push_str(more);
        }
        (Some(Value::Array(items)), Value::Array(more)) => {
            for item in more {
                let at = item.get("index").filter(|at| at.is_u64());
                let known = items.iter_mut().find(|known| at.is_some() && known.get("index") == at);
                match (known, item) {
                    (Some(Value::Object(known)), Value::Object(item)) => {
                        item.iter().for_each(|(name, value)| merge(known, name, value));
                    }
                    _ => items.push(item.clone()),
                }
            }
        }
        (Some(Value::Object(known)), Value::Object(more)) => {
            more.iter().for_each(|(name, value)| merge(known, name, value));
        }
        _ => {
            own.insert(name.to_owned(), piece.clone());
        }
    }
}
