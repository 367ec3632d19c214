//! OpenAI's responses. Nothing is kept over there: each request carries the conversation, with reasoning that only they
//! can read where the model gave any.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_egress::Url;

use super::openai_chat::say;
use super::{Dialect, Reader, below, count, object, text};
use crate::error::ModelError;
use crate::fold::{Delta, End};
use crate::model::{Asked, Message, Request, Said, Stop, Usage};
use crate::provider::Kind;
use crate::reading::document;
use crate::refusal;
use crate::wire::Form;

pub struct OpenaiResponses;

impl Dialect for OpenaiResponses {
    fn kind(&self) -> Kind {
        Kind::OpenaiResponses
    }

    fn base(&self) -> Option<&'static str> {
        Some("https://api.openai.com/v1")
    }

    fn url(&self, base: &Url, _: &Request, _: Form) -> Result<Url, ModelError> {
        below(base, &["responses"])
    }

    fn reserved(&self) -> &'static [&'static str] {
        &[
            "background",
            "conversation",
            "include",
            "input",
            "instructions",
            "model",
            "previous_response_id",
            "prompt_cache_key",
            "store",
            "stream",
            "tools",
        ]
    }

    fn body(&self, _: &Url, request: &Request, form: Form) -> Result<Map<String, Value>, ModelError> {
        let mut body = Map::new();
        body.insert("model".into(), json!(request.model));
        if !request.system.is_empty() {
            body.insert("instructions".into(), json!(request.system));
        }
        let tools: Vec<Value> = request
            .sorted_tools()
            .iter()
            .map(|tool| {
                json!({"type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.input, "strict": false})
            })
            .collect();
        if !tools.is_empty() {
            body.insert("tools".into(), Value::Array(tools));
        }
        let mut input = Vec::new();
        for message in &request.messages {
            match message {
                Message::User { text } => input.push(json!({"role": "user", "content": text})),
                Message::Model(said) => input.extend(back(said)),
                Message::Tools { answers } => input.extend(answers.iter().map(
                    |answer| json!({"type": "function_call_output", "call_id": answer.call_id, "output": answer.text}),
                )),
            }
        }
        body.insert("input".into(), Value::Array(input));
        body.insert("store".into(), json!(false));
        // Models that do not reason refuse to be asked for it.
        if request.params.contains_key("reasoning") {
            body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        if let Some(most) = request.output_tokens_max {
            body.insert("max_output_tokens".into(), json!(most));
        }
        if let Some(key) = &request.cache_key {
            body.insert("prompt_cache_key".into(), json!(key));
        }
        if form == Form::Streamed {
            body.insert("stream".into(), json!(true));
        }
        Ok(body)
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        Box::new(Responses { asked: request.asked(), ..Responses::default() })
    }
}

/// The items of an earlier answer, as they came. Reasoning that cannot be read without what they keep over there is left
/// out, and with it the ids by which it would be looked for.
fn back(said: &Said) -> Vec<Value> {
    let Some(Value::Array(items)) = said.own(Kind::OpenaiResponses) else { return rebuilt(said) };
    let is_lost =
        |item: &Value| text(item, "/type") == "reasoning" && item.get("encrypted_content").is_none_or(Value::is_null);
    if !items.iter().any(is_lost) {
        return items.clone();
    }
    let mut kept: Vec<Value> = items.iter().filter(|item| !is_lost(item)).cloned().collect();
    for item in kept.iter_mut().filter_map(Value::as_object_mut) {
        item.shift_remove("id");
    }
    kept
}

fn rebuilt(said: &Said) -> Vec<Value> {
    let mut items = Vec::new();
    if !said.text.is_empty() {
        items.push(json!({"role": "assistant", "content": said.text}));
    }
    items.extend(said.calls.iter().map(|call| {
        let arguments = object(&call.arguments).to_string();
        json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
    }));
    items
}

#[derive(Default)]
struct Responses {
    asked: Asked,
    /// By their place among the output.
    items: BTreeMap<u64, Item>,
    calls: usize,
}

#[derive(Default)]
struct Item {
    /// What was told of it so far.
    told: String,
    /// Of a call, which one it is.
    call: Option<usize>,
    /// As it came, once it was whole.
    done: Option<Value>,
}

impl Responses {
    fn call(&mut self, at: u64, item: &Value, deltas: &mut Vec<Delta>) -> usize {
        let slot = self.items.entry(at).or_default();
        *slot.call.get_or_insert_with(|| {
            let index = self.calls;
            self.calls += 1;
            let id = match text(item, "/call_id") {
                "" => self.asked.call_id(index),
                id => id.to_owned(),
            };
            deltas.push(Delta::Call { index, id, name: text(item, "/name").to_owned() });
            index
        })
    }

    fn tell(&mut self, at: u64, piece: &str, deltas: &mut Vec<Delta>) {
        let slot = self.items.entry(at).or_default();
        slot.told.push_str(piece);
        match slot.call {
            Some(_) if piece.is_empty() => {}
            Some(index) => deltas.push(Delta::Arguments { index, text: piece.to_owned() }),
            None => say(piece, deltas),
        }
    }

    /// An item that is whole. What was told in pieces must be how it begins; the rest is told now.
    fn settle(&mut self, at: u64, item: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let whole = match text(item, "/type") {
            "function_call" => {
                self.call(at, item, deltas);
                text(item, "/arguments").to_owned()
            }
            "message" => spoken(item),
            _ => String::new(),
        };
        let told = self.items.entry(at).or_default().told.clone();
        let Some(rest) = whole.strip_prefix(&told) else {
            return Err(ModelError::unreadable("its pieces and its whole do not say the same"));
        };
        self.tell(at, rest, deltas);
        if let Some(slot) = self.items.get_mut(&at) {
            slot.done = Some(item.clone());
        }
        Ok(())
    }

    /// `response` is the answer as it stands at its end.
    fn end(&mut self, response: &Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        if text(response, "/status") == "failed" || response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(refusal::told(response, &self.asked));
        }
        let output = match response.get("output").and_then(Value::as_array) {
            Some(output) if !output.is_empty() => output.clone(),
            // Some servers say it only once.
            _ => self.items.values().filter_map(|item| item.done.clone()).collect(),
        };
        for (at, item) in (0..).zip(&output) {
            self.settle(at, item, deltas)?;
        }
        if self.items.len() > output.len() {
            return Err(ModelError::unreadable("its end leaves out what was said before"));
        }
        let refused = output.iter().any(|item| {
            let parts = item.get("content").and_then(Value::as_array);
            parts.into_iter().flatten().any(|part| text(part, "/type") == "refusal")
        });
        let stop = match (text(response, "/status"), text(response, "/incomplete_details/reason")) {
            _ if refused => Stop::Refusal,
            ("incomplete", "content_filter") => Stop::Refusal,
            ("incomplete", _) => Stop::Length,
            _ => Stop::End,
        };
        let reported = response.get("usage").cloned().unwrap_or_default();
        let usage = Usage {
            input: count(&reported, "/input_tokens"),
            cached: count(&reported, "/input_tokens_details/cached_tokens"),
            output: count(&reported, "/output_tokens"),
        };
        Ok(End { model: text(response, "/model").to_owned(), stop, usage, reported, own: Value::Array(output) })
    }
}

impl Reader for Responses {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        if !document.get("output").is_some_and(Value::is_array) && document.get("error").is_none() {
            return Err(ModelError::unreadable("it has no `output`"));
        }
        self.end(&document, deltas)
    }

    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        // Some servers end this form like the other.
        if data.trim_ascii() == b"[DONE]" {
            return Ok(None);
        }
        let event = document(data)?;
        let at = count(&event, "/output_index");
        match text(&event, "/type") {
            "response.output_item.added" => {
                if let Some(item) = event.get("item").filter(|item| text(item, "/type") == "function_call") {
                    self.call(at, item, deltas);
                }
            }
            "response.output_text.delta" | "response.refusal.delta" | "response.function_call_arguments.delta" => {
                self.tell(at, text(&event, "/delta"), deltas);
            }
            "response.output_item.done" => {
                if let Some(item) = event.get("item") {
                    self.settle(at, item, deltas)?;
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.get("response").unwrap_or(&Value::Null);
                return self.end(response, deltas).map(Some);
            }
            "error" => return Err(refusal::told(&event, &self.asked)),
            _ => {}
        }
        Ok(None)
    }
}

/// The text of a message, a refusal included.
fn spoken(item: &Value) -> String {
    let parts = item.get("content").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .map(|part| if text(part, "/type") == "refusal" { text(part, "/refusal") } else { text(part, "/text") })
        .collect()
}
