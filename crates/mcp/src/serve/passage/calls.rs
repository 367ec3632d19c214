//! Calls of a server behind the gate, by its own names: through the one path, with a way back to the client for what the
//! server asks and says meanwhile.

use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_contracts::call::Attachment;
use toolgate_contracts::{BlobId, CallId, CallRequest, Envelope, Source, ToolError};
use toolgate_engine::{Begun, Running};

use super::holding::Held;
use crate::serve::asking::{Came, State};
use crate::serve::called::Gone;
use crate::serve::result::{self, CALL, DELIVERED};
use crate::serve::stream::new_name;
use crate::serve::{Client, Stream, Surface};
use crate::way::{Ear, Question, Way};
use crate::wire::{Level, Notification, Request, RpcError, code};

/// A file that is put into a result, where the protocol has a block for it.
const MEDIA_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// In which form a client wants to know what came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Form {
    /// As a tool's result.
    Tool,
    /// As what the server answered.
    Raw,
}

/// The last that a client was told of how far it is: it only grows.
struct Progress {
    done: f64,
    is_servers: bool,
    /// Its labels are the client's by now.
    is_joined: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { done: f64::NEG_INFINITY, is_servers: false, is_joined: false }
    }
}

/// A call on its way, and what comes from it.
pub(in crate::serve) struct Passing {
    running: Running,
    ear: Ear,
    /// Answers that the client gave before it was asked, by the keys of what is asked.
    early: Map<String, Value>,
}

impl Surface {
    pub(in crate::serve) async fn pass(
        &self,
        client: &Client,
        request: &Request,
        call: CallRequest,
        stream: &Stream,
        form: Form,
    ) -> Result<Value, RpcError> {
        let mut client = client.clone();
        if form == Form::Raw {
            // Only tools are tasks.
            client.capabilities.shift_remove("extensions");
        }
        let client = &client;
        let brought = answers_in(&request.params);
        if let Some(state) = request.params.get("requestState") {
            if let Some(held) = self.held(client, &call, state).await? {
                return self.answered(client, request, &call, held, brought, stream, form).await;
            }
            let State { call: id, .. } = self.open_state(client, &call, state).await?;
            let told = self.ask(client, &call, id, stream, Came::with_state(&request.params)).await?;
            return self.in_form(client, told, form).await;
        }
        if let Some(id) = self.engine.told_before(&client.caller, &call).await? {
            let told = self.ask(client, &call, id, stream, Came::Again).await?;
            return self.in_form(client, told, form).await;
        }
        let (way, ear) = Way::new(client.capabilities.clone(), self.level_of(client));
        match self.engine.begin_call(&client.caller, Source::Mcp, call.clone(), Some(Arc::new(way))).await? {
            Begun::Ended(envelope) => self.shaped(client, &envelope, form).await,
            Begun::AtHand(at_hand) => {
                let passing = Passing { running: at_hand.apart(), ear, early: brought };
                self.follow_passing(client, request, &call, passing, stream, form).await
            }
            Begun::Parked(id) => {
                let told = self.ask(client, &call, id, stream, Came::First).await?;
                self.in_form(client, told, form).await
            }
        }
    }

    /// The mildest level of logs that a client wants.
    fn level_of(&self, client: &Client) -> Option<Level> {
        Level::ALL.into_iter().find(|level| self.hears(client, *level))
    }

    /// A client came back with what was asked of it, or with a part of it.
    #[expect(clippy::too_many_arguments, reason = "what a client brings, and where it goes on")]
    async fn answered(
        &self,
        client: &Client,
        request: &Request,
        call: &CallRequest,
        held: Held,
        brought: Map<String, Value>,
        stream: &Stream,
        form: Form,
    ) -> Result<Value, RpcError> {
        let Held { passing, question, mut given } = held;
        given.extend(brought.into_iter().filter(|(key, _)| question.requests.contains_key(key)));
        if question.requests.keys().any(|key| !given.contains_key(key)) && !question.answers.is_closed() {
            return self.hold(client, call, Held { passing, question, given }).await;
        }
        // The call may have ended meanwhile; then that is told.
        let _ = question.answers.send(given);
        self.follow_passing(client, request, call, passing, stream, form).await
    }

    async fn follow_passing(
        &self,
        client: &Client,
        request: &Request,
        call: &CallRequest,
        mut passing: Passing,
        stream: &Stream,
        form: Form,
    ) -> Result<Value, RpcError> {
        let id = passing.running.id();
        let _noted = self.0.in_flight.note(client, &request.id, id);
        // In the stateless revision a client that goes away has cancelled; an older one says so.
        let gone = client.revision.is_stateless().then(|| Gone::new(&self.engine, &client.caller, id));
        let began = Instant::now();
        let mut progress = Progress::default();
        let mut tick = self.next_word(began);
        let told = loop {
            tokio::select! {
                biased;
                Some(notification) = passing.ear.told.recv() => {
                    self.pass_back(client, &passing.running, call, stream, notification, &mut progress).await;
                }
                Some(question) = passing.ear.asked.recv() => {
                    match self.put(client, &mut passing.early, question, stream) {
                        None => {}
                        Some(question) => {
                            break self.hold(client, call, Held { passing, question, given: Map::new() }).await;
                        }
                    }
                }
                ended = passing.running.ended() => {
                    let ended = ended?;
                    while let Some(notification) = passing.ear.told.try_recv() {
                        self.pass_back(client, &passing.running, call, stream, notification, &mut progress).await;
                    }
                    break self.shaped(client, &ended, form).await;
                }
                () = tokio::time::sleep_until(tick) => {
                    tick = self.next_word(began);
                    let passed = began.elapsed();
                    if self.is_for_a_task(client, passed) {
                        break self.task(client, id).await;
                    }
                    if !stream.wants_progress() && passed >= self.patience {
                        let told = self.tell_pending(client, call, id, Came::First).await?;
                        break self.in_form(client, told, form).await;
                    }
                    // The server's own word on how far it is counts; ours only says that it lives.
                    if !progress.is_servers {
                        progress.done = passed.as_secs_f64() / 1e6;
                        stream.progress(progress.done, &format!("running for {} s", passed.as_secs())).await;
                    }
                }
            }
        };
        if let Some(gone) = gone {
            gone.stay();
        }
        told
    }

    /// Puts a question to the client: at once where the revision lets a server ask. What is given back has to be put to it
    /// by an answer.
    fn put(
        &self,
        client: &Client,
        early: &mut Map<String, Value>,
        question: Question,
        stream: &Stream,
    ) -> Option<Question> {
        if client.revision.is_stateless() {
            if question.requests.keys().all(|key| early.contains_key(key)) {
                let given = question.requests.keys().filter_map(|key| Some((key.clone(), early.shift_remove(key)?)));
                let _ = question.answers.send(given.collect());
                return None;
            }
            let mut question = question;
            for asked in question.requests.values_mut() {
                if let Some(Value::Object(params)) = asked.get_mut("params") {
                    params.shift_remove("elicitationId");
                }
            }
            return Some(question);
        }
        let (surface, client, stream) = (self.clone(), client.clone(), stream.clone());
        tokio::spawn(async move {
            let Question { requests, mut answers } = question;
            tokio::select! {
                given = surface.ask_each(&client, requests, &stream) => {
                    if let Some(given) = given {
                        let _ = answers.send(given);
                    }
                }
                () = answers.closed() => {}
            }
        });
        None
    }

    /// Asks an older client on its request's stream. `None`: it did not answer one of them.
    async fn ask_each(
        &self,
        client: &Client,
        requests: Map<String, Value>,
        stream: &Stream,
    ) -> Option<Map<String, Value>> {
        let mut open = Vec::new();
        for (key, request) in requests {
            let method = request.get("method").and_then(Value::as_str)?.to_owned();
            let mut params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
            if method == "elicitation/create" {
                if params.get("mode").and_then(Value::as_str) == Some("url") {
                    params.entry("elicitationId").or_insert_with(|| new_name(&self.clock, &self.rng).into());
                } else if !client.revision.opens_addresses() {
                    params.shift_remove("mode");
                }
            }
            let asked = self.questions().ask(stream, &client.caller, &self.rng, &method, params).await?;
            open.push((key, asked));
        }
        let mut given = Map::new();
        for (key, mut asked) in open {
            match asked.answer().await {
                Some(Ok(answer)) if answer.is_object() => given.insert(key, answer),
                _ => return None,
            };
        }
        Some(given)
    }

    /// What a server says meanwhile, as far as its client wants to hear it.
    async fn pass_back(
        &self,
        client: &Client,
        running: &Running,
        call: &CallRequest,
        stream: &Stream,
        mut notification: Notification,
        progress: &mut Progress,
    ) {
        // Whoever hears it has seen what is in it.
        if !progress.is_joined {
            let joined = self.engine.join_read(&client.caller, &running.labels(), &call.tool).await;
            if joined.is_err() {
                return;
            }
            progress.is_joined = true;
        }
        match notification.method.as_str() {
            "notifications/progress" => {
                let done = notification.params.get("progress").and_then(Value::as_f64);
                let (Some(done), Some(token)) = (done, stream.progress_token()) else { return };
                if done > progress.done {
                    (progress.done, progress.is_servers) = (done, true);
                    notification.params.shift_remove("_meta");
                    notification.params.insert("progressToken".into(), token.clone());
                    stream.notify(notification).await;
                }
            }
            "notifications/message" => {
                let level = notification.params.get("level").and_then(Value::as_str);
                let wanted = level.and_then(|level| level.parse().ok()).is_some_and(|level| self.hears(client, level));
                if wanted {
                    notification.params.shift_remove("_meta");
                    stream.notify(notification).await;
                }
            }
            _ => {}
        }
    }

    /// What came of a call that has ended here.
    async fn shaped(&self, client: &Client, envelope: &Envelope, form: Form) -> Result<Value, RpcError> {
        if let Some(error) = envelope.error.as_ref().and_then(missing_capability) {
            return Err(error);
        }
        if form == Form::Raw {
            return raw(client, envelope);
        }
        let mut told = result::of(envelope, client.revision);
        let links = envelope.attachments.len();
        if links > 0
            && let Some(Value::Array(content)) = told.get_mut("content")
        {
            let from = content.len().saturating_sub(links);
            for (block, attachment) in content.iter_mut().skip(from).zip(&envelope.attachments) {
                if let Some(media) = self.media(client, attachment).await {
                    *block = media;
                }
            }
        }
        Ok(told)
    }

    /// A picture or a sound as a block, as the server had sent it.
    async fn media(&self, client: &Client, attachment: &Attachment) -> Option<Value> {
        let mime_type = attachment.content_type.as_deref()?;
        let kind = ["image", "audio"].into_iter().find(|kind| mime_type.starts_with(&format!("{kind}/")))?;
        if attachment.bytes.is_none_or(|bytes| bytes > MEDIA_BYTES_MAX) {
            return None;
        }
        let id: BlobId = attachment.url.rsplit('/').next()?.parse().ok()?;
        let attached = self.engine.attached(&client.caller, id).await.ok()?;
        Some(json!({"type": kind, "data": BASE64.encode(&attached.bytes), "mimeType": mime_type}))
    }

    /// What was told of a call as of a tool, in the form that was asked for.
    async fn in_form(&self, client: &Client, told: Value, form: Form) -> Result<Value, RpcError> {
        let is_complete = told.get("resultType").is_none_or(|kind| kind == "complete");
        let id = told.get("_meta").and_then(|meta| meta.get(CALL)).and_then(|about| about.get("id"));
        let id = id.and_then(Value::as_str).and_then(|id| id.parse::<CallId>().ok());
        let Some(id) = id.filter(|_| is_complete) else { return Ok(told) };
        let envelope = self.engine.answer(client.caller.tenant, id).await?;
        let is_delivered = told.get("_meta").is_some_and(|meta| meta.get(DELIVERED).is_some());
        match form {
            _ if envelope.status.is_final() && !is_delivered => self.shaped(client, &envelope, form).await,
            Form::Tool => Ok(told),
            Form::Raw => {
                let words = told.get("content").and_then(|content| content.pointer("/0/text")).and_then(Value::as_str);
                let about = told.get("_meta").cloned().unwrap_or_default();
                Err(RpcError::new(code::INTERNAL, words.unwrap_or("pending")).with(about))
            }
        }
    }
}

/// What a client says to what it was asked: objects only, because every answer is one.
fn answers_in(params: &Map<String, Value>) -> Map<String, Value> {
    let given = params.get("inputResponses").and_then(Value::as_object);
    let given = given.into_iter().flatten().filter(|(_, answer)| answer.is_object());
    given.map(|(key, answer)| (key.clone(), answer.clone())).collect()
}

/// What the server answered, or its error.
fn raw(client: &Client, envelope: &Envelope) -> Result<Value, RpcError> {
    let about = || json!({CALL: {"id": envelope.id, "status": envelope.status, "labels": envelope.labels}});
    if let Some(error) = &envelope.error {
        return Err(told(client, error).with(about()));
    }
    match &envelope.output {
        _ if envelope.truncated => {
            let words = format!("what `{}` answers is larger than it may be", envelope.name);
            Err(RpcError::new(code::INTERNAL, words).with(about()))
        }
        Some(Value::Object(members)) => {
            let mut result = members.clone();
            result.insert("_meta".into(), about());
            if client.revision.is_stateless() && result.contains_key("contents") {
                result.insert("ttlMs".into(), crate::serve::LIST_TTL_MS.into());
                result.insert("cacheScope".into(), "private".into());
            }
            Ok(Value::Object(result))
        }
        _ => Err(RpcError::new(code::INTERNAL, format!("`{}` has no result", envelope.name)).with(about())),
    }
}

/// An error in the words of the client's revision: of a resource that is not there the older ones have a code of their
/// own.
fn told(client: &Client, error: &ToolError) -> RpcError {
    let said = error.details.as_ref().and_then(|details| details.get("code")).and_then(Value::as_i64);
    let said = said.and_then(|said| i32::try_from(said).ok());
    let code = match said {
        Some(code::RESOURCE_NOT_FOUND) if client.revision.is_stateless() => code::INVALID_PARAMS,
        Some(code @ (code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS | code::METHOD_NOT_FOUND)) => code,
        Some(_) | None => match error.code {
            toolgate_contracts::ErrorCode::ValidationError => code::INVALID_PARAMS,
            _ => code::INTERNAL,
        },
    };
    RpcError::new(code, error.message.clone())
}

/// A server that needs more of its client says so to the client.
fn missing_capability(error: &ToolError) -> Option<RpcError> {
    let required = error.details.as_ref()?.get("required_capabilities")?;
    required.is_object().then(|| RpcError::missing_capability(error.message.clone(), required))
}
