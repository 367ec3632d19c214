//! Google's generateContent. Calls have no ids there, or had none for long; results are matched by name and order.
//! Signatures of thoughts stand at the parts they belong to, and go back there.

use serde_json::{Map, Value, json};
use toolgate_egress::Url;

use super::openai_chat::say;
use super::{Dialect, Reader, arguments, below, count, object, text};
use crate::error::ModelError;
use crate::fold::{Delta, End};
use crate::model::{Asked, Message, Request, Said, Stop, ToolAnswer, Usage};
use crate::provider::Kind;
use crate::reading::document;
use crate::refusal;
use crate::wire::Form;

pub struct Gemini;

impl Dialect for Gemini {
    fn kind(&self) -> Kind {
        Kind::Gemini
    }

    fn base(&self) -> Option<&'static str> {
        Some("https://generativelanguage.googleapis.com/v1beta")
    }

    fn key(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn url(&self, base: &Url, request: &Request, form: Form) -> Result<Url, ModelError> {
        let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
        match form {
            Form::Whole => below(base, &["models", &format!("{model}:generateContent")]),
            Form::Streamed => {
                let mut url = below(base, &["models", &format!("{model}:streamGenerateContent")])?;
                url.set_query(Some("alt=sse"));
                Ok(url)
            }
        }
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["contents", "model", "systemInstruction", "system_instruction", "tools"]
    }

    fn body(&self, _: &Url, request: &Request, _: Form) -> Result<Map<String, Value>, ModelError> {
        let mut body = Map::new();
        if !request.system.is_empty() {
            body.insert("systemInstruction".into(), json!({"parts": [{"text": request.system}]}));
        }
        let tools: Vec<Value> = request
            .sorted_tools()
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input}))
            .collect();
        if !tools.is_empty() {
            body.insert("tools".into(), json!([{"functionDeclarations": tools}]));
        }
        let mut own_ids = Vec::new();
        let mut contents = Vec::new();
        for message in &request.messages {
            contents.push(match message {
                Message::User { text } => json!({"role": "user", "parts": [{"text": text}]}),
                Message::Model(said) => {
                    let content = back(said);
                    own_ids = ids(&content);
                    content
                }
                Message::Tools { answers } => {
                    let parts: Vec<Value> = answers.iter().map(|answer| result(answer, &own_ids)).collect();
                    json!({"role": "user", "parts": parts})
                }
            });
        }
        body.insert("contents".into(), Value::Array(contents));
        if let Some(most) = request.output_tokens_max {
            body.insert("generationConfig".into(), json!({"maxOutputTokens": most}));
        }
        Ok(body)
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        Box::new(Contents { asked: request.asked(), ..Contents::default() })
    }
}

fn back(said: &Said) -> Value {
    if let Some(own) = said.own(Kind::Gemini)
        && own.get("parts").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty())
    {
        return own.clone();
    }
    let mut parts = Vec::new();
    if !said.text.is_empty() || said.calls.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    parts.extend(
        said.calls.iter().map(|call| json!({"functionCall": {"name": call.name, "args": object(&call.arguments)}})),
    );
    json!({"role": "model", "parts": parts})
}

/// The ids that calls were given over there: only these are known there.
fn ids(content: &Value) -> Vec<String> {
    let parts = content.get("parts").and_then(Value::as_array);
    let given = parts.into_iter().flatten().map(|part| text(part, "/functionCall/id"));
    given.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

fn result(answer: &ToolAnswer, own_ids: &[String]) -> Value {
    let member = if answer.is_error { "error" } else { "output" };
    let mut response = json!({"name": answer.name, "response": {member: answer.text}});
    if own_ids.contains(&answer.call_id) {
        response["id"] = json!(answer.call_id);
    }
    json!({"functionResponse": response})
}

#[derive(Default)]
struct Contents {
    asked: Asked,
    model: String,
    parts: Vec<Value>,
    calls: usize,
    finish: Option<String>,
    /// Why not even the question was let through.
    blocked: bool,
    reported: Value,
}

impl Contents {
    fn take(&mut self, document: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let document = document.as_array().and_then(|list| list.first()).unwrap_or(document);
        if document.get("error").is_some() {
            return Err(refusal::told(document, &self.asked));
        }
        if let Some(model) = document.get("modelVersion").and_then(Value::as_str) {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = document.get("usageMetadata") {
            self.reported = usage.clone();
        }
        self.blocked |= document.pointer("/promptFeedback/blockReason").is_some();
        let Some(candidate) = document.pointer("/candidates/0") else { return Ok(()) };
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.part(part, deltas);
        }
        if let Some(finish) = candidate.get("finishReason").and_then(Value::as_str) {
            if matches!(finish, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") {
                let said = text(candidate, "/finishMessage");
                return Err(ModelError::unreadable(format!(
                    "the model made a call that nobody can read; ask again: {said}"
                )));
            }
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) {
        let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
        if !is_thought {
            say(text(part, "/text"), deltas);
        }
        if let Some(call) = part.get("functionCall") {
            let index = self.calls;
            self.calls += 1;
            let id = match text(call, "/id") {
                "" => self.asked.call_id(index),
                id => id.to_owned(),
            };
            deltas.push(Delta::Call { index, id, name: text(call, "/name").to_owned() });
            let text = call.get("args").map(arguments).unwrap_or_default();
            if !text.is_empty() {
                deltas.push(Delta::Arguments { index, text });
            }
        }
        // Pieces of one text are one part again, unless something else is said of one.
        match (self.parts.last_mut(), joined(part)) {
            (Some(last), Some(more)) if joined(last).is_some() && last.get("thought") == part.get("thought") => {
                if let Some(Value::String(known)) = last.get_mut("text") {
                    known.push_str(more);
                }
            }
            _ => self.parts.push(part.clone()),
        }
    }

    fn end(&mut self) -> Option<End> {
        let finish = match self.finish.take() {
            Some(finish) => finish,
            None if self.blocked => "SAFETY".to_owned(),
            None => return None,
        };
        let stop = match finish.as_str() {
            "STOP" | "FINISH_REASON_UNSPECIFIED" | "OTHER" => Stop::End,
            "MAX_TOKENS" => Stop::Length,
            _ => Stop::Refusal,
        };
        let reported = std::mem::take(&mut self.reported);
        let sum = |one: &str, other: &str| count(&reported, one).saturating_add(count(&reported, other));
        let usage = Usage {
            input: sum("/promptTokenCount", "/toolUsePromptTokenCount"),
            cached: count(&reported, "/cachedContentTokenCount"),
            output: sum("/candidatesTokenCount", "/thoughtsTokenCount"),
        };
        let own = json!({"role": "model", "parts": std::mem::take(&mut self.parts)});
        Some(End { model: std::mem::take(&mut self.model), stop, usage, reported, own })
    }
}

/// The text of a part that is nothing but text.
fn joined(part: &Value) -> Option<&str> {
    let members = part.as_object()?;
    let plain = members.keys().all(|name| matches!(name.as_str(), "text" | "thought"));
    members.get("text").and_then(Value::as_str).filter(|_| plain)
}

impl Reader for Contents {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError> {
        self.take(&document, deltas)?;
        self.end().ok_or_else(|| ModelError::unreadable("it has no candidate that came to its end"))
    }

    /// Nothing says which event is the last: some count, and finish, in each.
    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        self.take(&document(data)?, deltas)?;
        Ok(None)
    }

    fn close(&mut self, _: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        Ok(self.end())
    }
}
