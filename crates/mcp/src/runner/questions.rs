//! What a server asks while a call is under way: refused, put to a person here, or passed on to the client that waits,
//! as the operator said of that server.
//!
//! Invariant: nothing is answered in anybody's name, and whoever is asked reads which server asks.
//! Invariant: a client is asked only what it said it can be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::input_request::{QUESTION_INSTRUCTIONS_BYTES_MAX, QUESTION_TITLE_BYTES_MAX};
use toolgate_contracts::unseen::{is_unseen, is_unseen_in_text};
use toolgate_contracts::upstream::{ElicitationPolicy, SamplingPolicy, UpstreamAsks};
use toolgate_contracts::{ErrorCode, InputRequest, InputRequestState, NewQuestion, ToolError};
use toolgate_egress::Url;
use toolgate_engine::Permit;
use toolgate_vault::Redactor;

use super::keeper::SentTokens;
use crate::upstream::{Asked, Asker};
use crate::way::Way;
use crate::wire::{RpcError, code};

/// Questions of one call, however it asks them.
const ASKED_MAX: u32 = 32;
const REQUESTS_MAX: usize = 16;
const BYTES_MAX: usize = 256 * 1024;
const MESSAGE_CHARS_MAX: usize = 4000;

/// What is declared to a server: what it may ask, and of a client that waits only what that one can be asked.
pub fn declared(asks: UpstreamAsks, way: Option<&Way>) -> Map<String, Value> {
    let mut declared = Map::new();
    let of_client = |name: &str| way.and_then(|way| way.capabilities.get(name)).filter(|value| value.is_object());
    match asks.elicitation {
        ElicitationPolicy::Refuse => {}
        ElicitationPolicy::Person => {
            declared.insert("elicitation".into(), json!({"form": {}, "url": {}}));
        }
        ElicitationPolicy::Pass => {
            declared.extend(of_client("elicitation").map(|value| ("elicitation".to_owned(), value.clone())));
        }
    }
    for (name, policy) in [("sampling", asks.sampling), ("roots", asks.roots)] {
        if policy == SamplingPolicy::Pass {
            declared.extend(of_client(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    declared
}

/// What is declared where that is said once for everybody: whatever the operator lets the server ask.
pub fn declared_to_all(asks: UpstreamAsks) -> Map<String, Value> {
    let mut declared = Map::new();
    if asks.elicitation != ElicitationPolicy::Refuse {
        declared.insert("elicitation".into(), json!({"form": {}, "url": {}}));
    }
    for (name, policy) in [("sampling", asks.sampling), ("roots", asks.roots)] {
        if policy == SamplingPolicy::Pass {
            declared.insert(name.into(), json!({}));
        }
    }
    declared
}

/// Whom the server of one call may ask.
pub struct Questions {
    pub server: String,
    pub asks: UpstreamAsks,
    pub permit: Arc<Permit>,
    pub way: Option<Arc<Way>>,
    /// What went to the server beside the call's secrets.
    pub tokens: Option<SentTokens>,
    asked: AtomicU32,
}

enum Route {
    Person,
    Client,
}

impl Questions {
    pub fn new(
        server: &str,
        asks: UpstreamAsks,
        permit: Arc<Permit>,
        way: Option<Arc<Way>>,
        tokens: Option<SentTokens>,
    ) -> Self {
        Self { server: server.to_owned(), asks, permit, way, tokens, asked: AtomicU32::new(0) }
    }

    /// Of all that the server was given so far and may say back: the call's secrets, and tokens.
    pub fn redactor(&self) -> Result<Redactor, ToolError> {
        let tokens = self.tokens.as_ref().map(SentTokens::all).unwrap_or_default();
        let secrets = self.permit.secrets().iter().map(|secret| (secret.name(), secret.expose()));
        let all = secrets.chain(tokens.iter().map(|token| ("token", token.as_bytes())));
        Redactor::of_values(all).map_err(|_| self.refusal("what it says could not be kept apart from secrets"))
    }

    /// Answers to what a result asks for, by the server's keys.
    pub async fn answers(&self, requests: &Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        if requests.len() > REQUESTS_MAX {
            return Err(self.refusal(&format!("it asks more than {REQUESTS_MAX} things at once")));
        }
        let mut of_client = Map::new();
        let mut of_person = Vec::new();
        let redactor = self.redactor()?;
        for (key, request) in requests {
            if redactor.redact_text(key) != key.as_str() {
                return Err(self.refusal("it names what it asks by a secret"));
            }
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
            let params = match redactor.redact_json(Value::Object(params)) {
                Value::Object(params) => self.named(method, params)?,
                _ => Map::new(),
            };
            match self.route(method, &params)? {
                Route::Person => of_person.push((key.clone(), params)),
                Route::Client => {
                    of_client.insert(key.clone(), json!({"method": method, "params": params}));
                }
            }
        }
        let mut answers = Map::new();
        for (key, params) in of_person {
            answers.insert(key, self.ask_person(&params).await?);
        }
        if !of_client.is_empty() {
            let gone = || self.refusal("whoever called cannot be asked any more");
            let way = self.way.as_ref().ok_or_else(gone)?;
            answers.extend(way.ask(of_client).await.ok_or_else(gone)?);
        }
        Ok(answers)
    }

    fn route(&self, method: &str, params: &Map<String, Value>) -> Result<Route, ToolError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= ASKED_MAX {
            return Err(self.refusal(&format!("it asks more than {ASKED_MAX} things in one call")));
        }
        let may_pass = match method {
            "elicitation/create" => match self.asks.elicitation {
                ElicitationPolicy::Person => return Ok(Route::Person),
                ElicitationPolicy::Pass => true,
                ElicitationPolicy::Refuse => false,
            },
            "sampling/createMessage" => self.asks.sampling == SamplingPolicy::Pass,
            "roots/list" => self.asks.roots == SamplingPolicy::Pass,
            other => return Err(self.refusal(&format!("`{}` is nothing that can be asked", shown(other, 100)))),
        };
        if !may_pass {
            return Err(self.refusal("the operator lets it ask nobody"));
        }
        match &self.way {
            None => Err(self.refusal("no program waits for this call that could be asked")),
            Some(way) if !way.takes(method, params) => {
                Err(self.refusal(&format!("whoever called cannot be asked by `{method}`")))
            }
            Some(_) => Ok(Route::Client),
        }
    }

    /// What is asked, under the server's name, and nothing in it that nobody sees.
    fn named(&self, method: &str, mut params: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        if Value::Object(params.clone()).to_string().len() > BYTES_MAX {
            return Err(self.refusal(&format!("what it asks has more than {BYTES_MAX} bytes")));
        }
        // What it says of itself beside is for nobody here.
        params.shift_remove("_meta");
        let mut params = match seen(Value::Object(params)) {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        if method == "elicitation/create" {
            let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
            let message = format!("The server `{}` asks: {}", self.server, shown(message, MESSAGE_CHARS_MAX));
            params.insert("message".into(), message.into());
            if params.get("mode").and_then(Value::as_str) == Some("url") {
                let url = params.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
                let is_plain = |url: &Url| {
                    matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
                };
                let Some(url) = url.filter(is_plain) else {
                    return Err(self.refusal("the address that it wants opened is none of the web"));
                };
                // As it was understood, which is what a browser would open.
                params.insert("url".into(), url.to_string().into());
            } else {
                params.shift_remove("url");
            }
        }
        Ok(params)
    }

    async fn ask_person(&self, params: &Map<String, Value>) -> Result<Value, ToolError> {
        let fault = |fault: toolgate_contracts::Fault| self.refusal(fault.told());
        let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
        let url = params.get("url").and_then(Value::as_str);
        let (schema, instructions) = if let Some(url) = url {
            let schema = json!({"type": "object", "additionalProperties": false, "required": ["done"],
                "properties": {"done": {"type": "boolean", "description": "Whether you did what it wants there."}}});
            (schema, format!("{message}\n\nIt wants you to open this address. Look at where it leads first:\n{url}"))
        } else {
            let empty = || json!({"type": "object", "properties": {}});
            (params.get("requestedSchema").cloned().unwrap_or_else(empty), message.to_owned())
        };
        let question = NewQuestion {
            title: cut(&format!("The server `{}` asks", self.server), QUESTION_TITLE_BYTES_MAX),
            instructions: Some(cut(&instructions, QUESTION_INSTRUCTIONS_BYTES_MAX)),
            schema,
            expires_s: None,
            call_id: None,
        };
        let within = self.permit.within(&format!("A question of {}", self.server)).await.map_err(fault)?;
        let asked = within.ask(question).await;
        within.end(RunState::Completed, None).await;
        let InputRequest { state, answer, .. } = asked.map_err(fault)?;
        match state {
            InputRequestState::Answered if url.is_some() => {
                let done = answer.as_ref().and_then(|answer| answer.get("done")) == Some(&Value::Bool(true));
                Ok(json!({"action": if done { "accept" } else { "decline" }}))
            }
            InputRequestState::Answered => Ok(json!({"action": "accept", "content": answer.unwrap_or_default()})),
            InputRequestState::Cancelled => Ok(json!({"action": "cancel"})),
            InputRequestState::Open | InputRequestState::Expired => {
                Err(self.refusal("nobody answered in the time that the call has"))
            }
        }
    }

    pub fn refusal(&self, why: &str) -> ToolError {
        let message =
            format!("`{}` asks for more before it goes on, and {why}; nothing was answered in its place", self.server);
        ToolError::because(ErrorCode::ProviderError, "refusal", message).with("server", self.server.as_str())
    }
}

impl Asker for Questions {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Result<Value, RpcError>> {
        Box::pin(async move {
            let Asked { method, params } = asked;
            let key = format!("question-{}", self.asked.load(Ordering::Relaxed) + 1);
            let mut requests = Map::new();
            requests.insert(key.clone(), json!({"method": method, "params": params}));
            let refused = |error: ToolError| RpcError::new(code::REFUSED, error.message);
            let mut answers = self.answers(&requests).await.map_err(refused)?;
            answers.shift_remove(&key).ok_or_else(|| RpcError::new(code::REFUSED, "nobody answered"))
        })
    }
}

/// A value without characters that nobody sees, in names too.
pub fn seen(value: Value) -> Value {
    let plain = |text: String| {
        if text.chars().any(is_unseen_in_text) {
            text.chars().filter(|c| !is_unseen_in_text(*c)).collect()
        } else {
            text
        }
    };
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(items) => items.into_iter().map(seen).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, member)| (plain(name), seen(member))).collect())
        }
        other => other,
    }
}

/// What a server says, without what nobody sees.
fn shown(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| *c == '\n' || !is_unseen(*c)).take(chars_max).collect()
}

fn cut(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}
