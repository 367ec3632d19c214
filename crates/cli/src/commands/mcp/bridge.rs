//! From standard streams to HTTP and back. A request is a task of its own, so a slow one holds up nobody; what a client
//! takes back is dropped, and with it the connection that carried it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use toolgate_mcp::wire::{
    Answer, Id, Message, Meta, PARAM_PREFIX, Request, Revision, RpcError, SESSION_HEADER, annotated, code, encoded,
    header_value, headers_of,
};

use crate::client::{Remote, Sse};
use crate::failure::{Done, Exit, Failure};

/// One message; a longer line is nobody's request.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long what is under way may take when the input has ended.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Requests under way. At the bound the next line waits.
const AT_ONCE_MAX: usize = 64;

type Headers = Vec<(String, String)>;

#[derive(Clone)]
pub struct Bridge(Arc<Inner>);

struct Inner {
    remote: Remote,
    target: String,
    /// Of a client that began with a handshake.
    session: Mutex<Option<(String, Revision)>>,
    under_way: Mutex<HashMap<Id, AbortHandle>>,
    /// Which arguments of which tool are repeated in headers, as the last list said.
    repeated: Mutex<HashMap<String, Vec<(String, String)>>>,
}

impl Bridge {
    pub fn new(remote: Remote, target: String) -> Self {
        Self(Arc::new(Inner {
            remote,
            target,
            session: Mutex::default(),
            under_way: Mutex::default(),
            repeated: Mutex::default(),
        }))
    }

    /// Until standard input ends.
    pub async fn run(self) -> Done {
        let (out, mut messages) = mpsc::channel::<Value>(AT_ONCE_MAX);
        let writing = tokio::spawn(async move {
            let mut stdout = tokio::io::stdout();
            while let Some(message) = messages.recv().await {
                let line = format!("{message}\n");
                if stdout.write_all(line.as_bytes()).await.is_err() || stdout.flush().await.is_err() {
                    break;
                }
            }
        });
        let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
        let mut lines = BufReader::new(tokio::io::stdin());
        let mut hearing = None;
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
            let read = (&mut lines).take(limit).read_until(b'\n', &mut line).await;
            match read {
                Ok(0) => break,
                Err(error) => {
                    return Err(Failure::failed(format!("standard input cannot be read: {error}"), "start it again"));
                }
                Ok(_) if line.len() >= LINE_BYTES_MAX && !line.ends_with(b"\n") => {
                    let error = RpcError::new(code::PARSE, format!("a line has at most {LINE_BYTES_MAX} bytes"));
                    let _ = out.send(Answer::unreadable(error).to_value()).await;
                    break;
                }
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(_) => {}
            }
            let value = match toolgate_contracts::json::read(&line, LINE_BYTES_MAX) {
                Ok(value) => value,
                Err(error) => {
                    let fault = toolgate_contracts::Fault::from(error);
                    let _ = out.send(Answer::unreadable(RpcError::new(code::PARSE, fault.told())).to_value()).await;
                    continue;
                }
            };
            if self.takes_back(&value) {
                continue;
            }
            if value.get("method").and_then(Value::as_str) == Some("notifications/initialized") && hearing.is_none() {
                let (bridge, out) = (self.clone(), out.clone());
                hearing = Some(tokio::spawn(async move { bridge.hear_changes(&out).await }));
            }
            let place = Arc::clone(&places).acquire_owned().await;
            let id = value.get("id").and_then(Id::of).filter(|_| value.get("method").is_some());
            // The answer to `initialize` has to be there before anything else is sent.
            if value.get("method").and_then(Value::as_str) == Some("initialize") {
                self.relay(value, &out).await;
                continue;
            }
            let (bridge, out, of) = (self.clone(), out.clone(), id.clone());
            let task = tokio::spawn(async move {
                let _place = place;
                bridge.relay(value, &out).await;
                if let Some(id) = of {
                    bridge.under_way().remove(&id);
                }
            });
            if let Some(id) = id.filter(|_| !task.is_finished()) {
                self.under_way().insert(id, task.abort_handle());
            }
        }
        // What was asked before the end is answered, if that does not take long.
        let all = places.acquire_many(u32::try_from(AT_ONCE_MAX).unwrap_or(u32::MAX));
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
        for (_, task) in self.under_way().drain() {
            task.abort();
        }
        if let Some(hearing) = hearing {
            hearing.abort();
        }
        drop(out);
        let _ = tokio::time::timeout(LAST_WORDS, writing).await;
        Ok(Exit::Done)
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<Id, AbortHandle>> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> Option<(String, Revision)> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client of the stateless revision takes a request back: over HTTP that is a closed connection.
    fn takes_back(&self, value: &Value) -> bool {
        let cancels = value.get("method").and_then(Value::as_str) == Some("notifications/cancelled");
        if !cancels || self.session().is_some() {
            return false;
        }
        let id = value.get("params").and_then(|params| params.get("requestId")).and_then(Id::of);
        if let Some(task) = id.and_then(|id| self.under_way().remove(&id)) {
            task.abort();
        }
        true
    }

    /// Sends one body and writes what comes back.
    async fn relay(&self, value: Value, out: &mpsc::Sender<Value>) {
        let request = match Message::of(value.clone()) {
            Ok(Message::Request(request)) => Some(request),
            _ => None,
        };
        let headers = self.headers(request.as_ref()).await;
        let begins = request.as_ref().is_some_and(|request| request.method == "initialize");
        let failed = |message: String| {
            let id = request.as_ref().map(|request| request.id.clone());
            Answer { id, outcome: Err(RpcError::new(code::INTERNAL, message)) }.to_value()
        };
        let response = match self.0.remote.exchange_mcp(&self.0.target, &headers, Some(&value)).await {
            Ok(response) => response,
            Err(failure) => {
                if request.is_some() {
                    let _ = out.send(failed(failure.told().to_owned())).await;
                }
                return;
            }
        };
        let session = response.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = response.status().as_u16();
        let mut events = Sse::of(response);
        let mut said = false;
        while let Some(message) = events.next().await {
            if message.get("jsonrpc").is_none() {
                // A refusal at the door, in the words of REST.
                let told = message.get("detail").and_then(Value::as_str).unwrap_or("refused");
                let remedy = message.get("remedy").and_then(Value::as_str).unwrap_or_default();
                let _ = out.send(failed(format!("{told}; {remedy}"))).await;
                said = true;
                continue;
            }
            if begins && let Some(session) = &session {
                self.begun(session, &message);
            }
            if request.as_ref().is_some_and(|request| request.method == "tools/list") {
                self.learn(&message);
            }
            said = true;
            if out.send(message).await.is_err() {
                return;
            }
        }
        if !said && request.is_some() {
            let _ = out.send(failed(format!("the server answered {status} and nothing else"))).await;
        }
    }

    fn begun(&self, session: &str, answer: &Value) {
        let revision = answer["result"]["protocolVersion"].as_str().and_then(|text| text.parse().ok());
        if let Some(revision) = revision {
            *self.0.session.lock().unwrap_or_else(PoisonError::into_inner) = Some((session.to_owned(), revision));
        }
    }

    /// The headers of a message: of the session, or those that repeat what a stateless request says.
    async fn headers(&self, request: Option<&Request>) -> Headers {
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        let stateless = request.filter(|request| Meta::named(&request.params).is_some());
        let Some(request) = stateless else {
            let Some((session, revision)) = self.session() else { return Vec::new() };
            let mut headers: Headers = headers_of("", &Map::new(), revision).into_iter().map(owned).collect();
            headers.push((SESSION_HEADER.to_owned(), session));
            return headers;
        };
        let mut headers: Headers =
            headers_of(&request.method, &request.params, Revision::V20260728).into_iter().map(owned).collect();
        if request.method == "tools/call"
            && let Some(name) = request.params.get("name").and_then(Value::as_str)
        {
            for (header, pointer) in self.repeated_by(name, request).await {
                let argument = request.params.get("arguments").and_then(|arguments| arguments.pointer(&pointer));
                if let Some(value) = argument.and_then(header_value) {
                    headers.push((format!("{PARAM_PREFIX}{}", header.to_ascii_lowercase()), encoded(&value)));
                }
            }
        }
        headers
    }

    /// What the schema of a tool wants repeated; where no list was asked for yet, it is asked for here.
    async fn repeated_by(&self, name: &str, request: &Request) -> Vec<(String, String)> {
        let known = |bridge: &Self| {
            let repeated = bridge.0.repeated.lock().unwrap_or_else(PoisonError::into_inner);
            (!repeated.is_empty()).then(|| repeated.get(name).cloned().unwrap_or_default())
        };
        if let Some(known) = known(self) {
            return known;
        }
        let meta = request.params.get("_meta").cloned().unwrap_or_default();
        let params = json!({ "_meta": meta });
        let params = params.as_object().cloned().unwrap_or_default();
        let headers = headers_of("tools/list", &params, Revision::V20260728);
        let headers: Headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let list = Request { id: Id::Text("toolgate-list".to_owned()), method: "tools/list".to_owned(), params };
        if let Ok(response) = self.0.remote.exchange_mcp(&self.0.target, &headers, Some(&list.to_value())).await {
            let mut events = Sse::of(response);
            while let Some(message) = events.next().await {
                self.learn(&message);
            }
        }
        known(self).unwrap_or_default()
    }

    fn learn(&self, answer: &Value) {
        let Some(tools) = answer["result"]["tools"].as_array() else { return };
        let mut repeated = self.0.repeated.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            if let (Some(name), Some(pairs)) = (tool["name"].as_str(), annotated(&tool["inputSchema"])) {
                repeated.insert(name.to_owned(), pairs);
            }
        }
    }

    /// What changed, for a client that began with a handshake.
    async fn hear_changes(&self, out: &mpsc::Sender<Value>) {
        let headers = self.headers(None).await;
        let Ok(response) = self.0.remote.exchange_mcp(&self.0.target, &headers, None).await else { return };
        if !response.status().is_success() {
            return;
        }
        let mut events = Sse::of(response);
        while let Some(message) = events.next().await {
            if message.get("method").is_some() && out.send(message).await.is_err() {
                return;
            }
        }
    }
}
