//! Anthropic's messages. What the model thought comes with signatures and goes back as it came.

use serde_json::{Map, Value, json};
use toolgate_egress::Url;

use super::openai_chat::say;
use super::{Dialect, Reader, arguments, below, count, object, text};
use crate::error::ModelError;
use crate::fold::{Delta, End};
use crate::model::{Asked, Message, Request, Said, Stop, Usage};
use crate::provider::Kind;
use crate::reading::document;
use crate::refusal;
use crate::wire::Form;

/// It has to be said; this is said where nobody says more or less.
const OUTPUT_TOKENS_DEFAULT: u32 = 8192;

pub struct Anthropic;

impl Dialect for Anthropic {
    fn kind(&self) -> Kind {
        Kind::Anthropic
    }

    fn base(&self) -> Option<&'static str> {
        Some("https://api.anthropic.com/v1")
    }

    fn key(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    /// The vendor's own clients leave the version out of the base, and so do people who copy it from there.
    fn url(&self, base: &Url, _: &Request, _: Form) -> Result<Url, ModelError> {
        if base.path().trim_end_matches('/').ends_with("/v1") {
            return below(base, &["messages"]);
        }
        below(base, &["v1", "messages"])
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["messages", "model", "stream", "system", "tools"]
    }

    fn body(&self, _: &Url, request: &Request, form: Form) -> Result<Map<String, Value>, ModelError> {
        let mut body = Map::new();
        body.insert("model".into(), json!(request.model));
        // An author's own limit stands where the run has none.
        if let Some(most) = request.output_tokens_max {
            body.insert("max_tokens".into(), json!(most));
        } else if !request.params.contains_key("max_tokens") {
            body.insert("max_tokens".into(), json!(OUTPUT_TOKENS_DEFAULT));
        }
        let mut tools: Vec<Value> = request
            .sorted_tools()
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input}))
            .collect();
        // Two marks: behind what never changes, and behind the last message, from where the next turn goes on.
        if request.system.is_empty() {
            tools.last_mut().map(mark);
        }
        if !tools.is_empty() {
            body.insert("tools".into(), Value::Array(tools));
        }
        if !request.system.is_empty() {
            let mut system = json!({"type": "text", "text": request.system});
            mark(&mut system);
            body.insert("system".into(), json!([system]));
        }
        let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
        // Not within what the model said, which goes back as it came.
        let last = messages.last_mut().filter(|last| text(last, "/role") == "user");
        if let Some(last) = last.and_then(|last| last.get_mut("content")?.as_array_mut()?.last_mut()) {
            mark(last);
        }
        body.insert("messages".into(), Value::Array(messages));
        if form == Form::Streamed {
            body.insert("stream".into(), json!(true));
        }
        Ok(body)
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        Box::new(Messages { asked: request.asked(), ..Messages::default() })
    }
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        Message::Model(said) => json!({"role": "assistant", "content": back(said)}),
        Message::Tools { answers } => {
            let results: Vec<Value> = answers
                .iter()
                .map(|answer| {
                    let mut result = json!({"type": "tool_result", "tool_use_id": answer.call_id});
                    // No text is said by leaving it out: an empty block is refused.
                    if !answer.text.is_empty() {
                        result["content"] = json!([{"type": "text", "text": answer.text}]);
                    }
                    if answer.is_error {
                        result["is_error"] = json!(true);
                    }
                    result
                })
                .collect();
            json!({"role": "user", "content": results})
        }
    }
}

fn back(said: &Said) -> Value {
    if let Some(Value::Array(own)) = said.own(Kind::Anthropic) {
        // They send empty texts, and take none.
        let is_empty = |block: &&Value| text(block, "/type") == "text" && text(block, "/text").is_empty();
        let blocks: Vec<Value> = own.iter().filter(|block| !is_empty(block)).cloned().collect();
        if !blocks.is_empty() {
            return Value::Array(blocks);
        }
    }
    let mut blocks = Vec::new();
    if !said.text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": said.text}));
    }
    blocks.extend(
        said.calls.iter().map(
            |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": object(&call.arguments)}),
        ),
    );
    if blocks.is_empty() {
        blocks.push(json!({"type": "text", "text": "(no answer)"}));
    }
    Value::Array(blocks)
}

#[derive(Default)]
struct Messages {
    asked: Asked,
    model: String,
    blocks: Vec<Block>,
    calls: usize,
    stop: Option<String>,
    reported: Map<String, Value>,
}

struct Block {
    own: Map<String, Value>,
    call: Option<usize>,
    /// Of a call, or of one that runs over there: its input as it is written.
    written: String,
    done: bool,
}

impl Messages {
    fn begin(&mut self, content: &Value, deltas: &mut Vec<Delta>) {
        let own = content.as_object().cloned().unwrap_or_default();
        let mut call = None;
        if text(content, "/type") == "tool_use" {
            let index = self.calls;
            self.calls += 1;
            let id = match text(content, "/id") {
                "" => self.asked.call_id(index),
                id => id.to_owned(),
            };
            deltas.push(Delta::Call { index, id, name: text(content, "/name").to_owned() });
            call = Some(index);
        }
        if text(content, "/type") == "text" {
            say(text(content, "/text"), deltas);
        }
        self.blocks.push(Block { own, call, written: String::new(), done: false });
    }

    fn piece(&mut self, at: u64, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let block = usize::try_from(at).ok().and_then(|at| self.blocks.get_mut(at)).filter(|block| !block.done);
        let Some(block) = block else { return Err(ModelError::unreadable("a piece of a block that is not there")) };
        let grow = |own: &mut Map<String, Value>, name: &str| {
            let more = delta.get(name).and_then(Value::as_str).unwrap_or_default();
            match own.get_mut(name) {
                Some(Value::String(known)) => known.push_str(more),
                _ => drop(own.insert(name.to_owned(), json!(more))),
            }
        };
        match text(delta, "/type") {
            "text_delta" => {
                say(text(delta, "/text"), deltas);
                grow(&mut block.own, "text");
            }
            "thinking_delta" => grow(&mut block.own, "thinking"),
            "signature_delta" => grow(&mut block.own, "signature"),
            "input_json_delta" => {
                let piece = text(delta, "/partial_json");
                block.written.push_str(piece);
                if let (Some(index), false) = (block.call, piece.is_empty()) {
                    deltas.push(Delta::Arguments { index, text: piece.to_owned() });
                }
            }
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or_default();
                match block.own.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => drop(block.own.insert("citations".into(), json!([citation]))),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self, at: u64, deltas: &mut Vec<Delta>) {
        let Some(block) = usize::try_from(at).ok().and_then(|at| self.blocks.get_mut(at)) else { return };
        block.done = true;
        if !block.written.is_empty() {
            block.own.insert("input".into(), object(&block.written));
        } else if let (Some(index), Some(input)) = (block.call, block.own.get("input")) {
            // It was there from the start.
            let text = if input.as_object().is_none_or(Map::is_empty) { String::new() } else { arguments(input) };
            if !text.is_empty() {
                deltas.push(Delta::Arguments { index, text });
            }
        }
    }

    fn usage(&mut self, usage: Option<&Value>) {
        for (name, value) in usage.and_then(Value::as_object).into_iter().flatten() {
            if !value.is_null() {
                self.reported.insert(name.clone(), value.clone());
            }
        }
    }

    fn end(&mut self) -> End {
        let stop = match self.stop.as_deref().unwrap_or_default() {
            "tool_use" => Stop::Tool,
            // A turn that pauses is not at its end either.
            "max_tokens" | "model_context_window_exceeded" | "pause_turn" => Stop::Length,
            "refusal" => Stop::Refusal,
            _ => Stop::End,
        };
        let own = self.blocks.drain(..).map(|block| Value::Object(block.own)).collect();
        let reported = Value::Object(std::mem::take(&mut self.reported));
        let cached = count(&reported, "/cache_read_input_tokens");
        // They count apart what was read from the cache and what was put there.
        let input = count(&reported, "/input_tokens")
            .saturating_add(cached)
            .saturating_add(count(&reported, "/cache_creation_input_tokens"));
        let usage = Usage { input, cached, output: count(&reported, "/output_tokens") };
        End { model: std::mem::take(&mut self.model), stop, usage, reported, own: Value::Array(own) }
    }
}

impl Reader for Messages {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        if text(&document, "/type") == "error" {
            return Err(refusal::told(&document, &self.asked));
        }
        let Some(content) = document.get("content").and_then(Value::as_array) else {
            return Err(ModelError::unreadable("it has no `content`"));
        };
        for (at, block) in (0..).zip(content) {
            self.begin(block, deltas);
            self.done(at, deltas);
        }
        text(&document, "/model").clone_into(&mut self.model);
        self.stop = Some(text(&document, "/stop_reason").to_owned());
        self.usage(document.get("usage"));
        Ok(self.end())
    }

    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        let event = document(data)?;
        let at = count(&event, "/index");
        match text(&event, "/type") {
            "message_start" => {
                text(&event, "/message/model").clone_into(&mut self.model);
                self.usage(event.pointer("/message/usage"));
            }
            "content_block_start" => {
                if at != self.blocks.len() as u64 {
                    return Err(ModelError::unreadable("a block begins out of order"));
                }
                self.begin(event.get("content_block").unwrap_or(&Value::Null), deltas);
            }
            "content_block_delta" => self.piece(at, event.get("delta").unwrap_or(&Value::Null), deltas)?,
            "content_block_stop" => self.done(at, deltas),
            "message_delta" => {
                if let Some(stop) = event.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
                self.usage(event.get("usage"));
            }
            "message_stop" => {
                if self.stop.is_none() || self.blocks.iter().any(|block| !block.done) {
                    return Err(ModelError::interrupted());
                }
                return Ok(Some(self.end()));
            }
            "error" => return Err(refusal::told(&event, &self.asked)),
            _ => {}
        }
        Ok(None)
    }
}
