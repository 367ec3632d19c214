//! From standard streams to HTTP and back. A request is a task of its own, so a slow one holds up nobody; what a client
//! takes back is dropped, and with it the connection that carried it.
//!
//! Where the server is gone whoever answers now is looked for, and only what never left here is sent again: of anything
//! else nobody knows whether it happened.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use toolgate_mcp::wire::{
    Answer, Id, Message, Meta, Notification, PARAM_PREFIX, Request, Revision, RpcError, SESSION_HEADER, annotated,
    code, encoded, header_value, headers_of,
};

use crate::client::{Remote, Sse, Unanswered};
use crate::failure::{Done, Exit, Failure};

/// One message; a longer line is nobody's request.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long what is under way may take when the input has ended.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Requests under way. At the bound the next line waits.
const AT_ONCE_MAX: usize = 64;
/// Between two attempts to hear of changes; it doubles while nothing is heard.
const HEAR_AGAIN: Duration = Duration::from_millis(500);
const HEAR_AGAIN_MAX: Duration = Duration::from_secs(15);

type Headers = Vec<(String, String)>;

/// Looks for whoever answers now where this one does not any more.
pub type Again =
    Arc<dyn Fn(Arc<Remote>) -> Pin<Box<dyn Future<Output = Result<Remote, Failure>> + Send>> + Send + Sync>;

/// Where messages go.
pub struct Route {
    now: Mutex<Arc<Remote>>,
    again: Option<Again>,
    /// One looks; the others take what it finds.
    looking: tokio::sync::Mutex<()>,
}

impl Route {
    /// To one server, whatever becomes of it.
    pub fn to(remote: Remote) -> Self {
        Self { now: Mutex::new(Arc::new(remote)), again: None, looking: tokio::sync::Mutex::default() }
    }

    #[must_use]
    pub fn or(self, again: Again) -> Self {
        Self { again: Some(again), ..self }
    }

    fn now(&self) -> Arc<Remote> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whoever answers instead of one that is gone.
    async fn after(&self, gone: &Arc<Remote>, failure: Failure) -> Result<Arc<Remote>, Failure> {
        let Some(again) = &self.again else { return Err(failure) };
        let _looking = self.looking.lock().await;
        let now = self.now();
        if !Arc::ptr_eq(&now, gone) {
            return Ok(now);
        }
        // A task of its own: a client that takes its request back does not stop it half-way.
        let found = tokio::spawn(again(now)).await.map_err(toolgate_contracts::Fault::internal)??;
        let found = Arc::new(found);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&found);
        Ok(found)
    }
}

#[derive(Clone)]
pub struct Bridge(Arc<Inner>);

struct Inner {
    route: Route,
    target: String,
    /// Of a client that began with a handshake.
    session: Mutex<Option<(String, Revision)>>,
    /// What it was promised to be told of: the lists that may change.
    promised: Mutex<Vec<&'static str>>,
    under_way: Mutex<HashMap<Id, AbortHandle>>,
    /// Which arguments of which tool are repeated in headers, as the last list said.
    repeated: Mutex<HashMap<String, Vec<(String, String)>>>,
}

impl Bridge {
    pub fn new(route: Route, target: String) -> Self {
        Self(Arc::new(Inner {
            route,
            target,
            session: Mutex::default(),
            promised: Mutex::default(),
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

    /// Sends one line and writes what comes back.
    async fn relay(&self, value: Value, out: &mpsc::Sender<Value>) {
        let asked = Asked::of(&value);
        let request = asked.alone();
        let headers = self.headers(request).await;
        let begins = request.is_some_and(|request| request.method == "initialize");
        let response = match self.exchange(&headers, &value).await {
            Ok(response) => response,
            Err(failure) => {
                if !asked.requests.is_empty() {
                    let _ = out.send(asked.failed(failure.told())).await;
                }
                return;
            }
        };
        let session = response.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let mut events = Sse::of(response);
        let mut answered = false;
        while let Some(message) = events.next().await {
            if message.is_object() && message.get("jsonrpc").is_none() {
                // A refusal at the door, in the words of REST.
                let told = message.get("detail").and_then(Value::as_str).unwrap_or("refused");
                let remedy = message.get("remedy").and_then(Value::as_str).unwrap_or_default();
                let _ = out.send(asked.failed(&format!("{told}; {remedy}"))).await;
                answered = true;
                continue;
            }
            if begins && let Some(session) = &session {
                self.begun(session, &message);
            }
            if request.is_some_and(|request| request.method == "tools/list") {
                self.learn(&message);
            }
            answered |= message.get("method").is_none();
            if out.send(message).await.is_err() {
                return;
            }
        }
        if !answered && !asked.requests.is_empty() {
            let told = if status.is_success() {
                "the connection to the server was lost before the answer; what was asked for may have happened"
                    .to_owned()
            } else {
                format!("the server answered {} and nothing else", status.as_u16())
            };
            let _ = out.send(asked.failed(&told)).await;
        }
    }

    async fn exchange(&self, headers: &Headers, message: &Value) -> Result<reqwest::Response, Failure> {
        let Inner { route, target, .. } = &*self.0;
        let remote = route.now();
        let failure = match remote.exchange_mcp(target, headers, Some(message)).await {
            Ok(response) => return Ok(response),
            Err(Unanswered::Lost(failure)) => return Err(failure),
            Err(Unanswered::NeverSent(failure)) => failure,
        };
        let remote = route.after(&remote, failure).await?;
        remote.exchange_mcp(target, headers, Some(message)).await.map_err(|unanswered| match unanswered {
            Unanswered::NeverSent(failure) | Unanswered::Lost(failure) => failure,
        })
    }

    fn begun(&self, session: &str, answer: &Value) {
        let revision = answer["result"]["protocolVersion"].as_str().and_then(|text| text.parse().ok());
        if let Some(revision) = revision {
            *self.0.session.lock().unwrap_or_else(PoisonError::into_inner) = Some((session.to_owned(), revision));
        }
        let changes = |list: &&str| answer["result"]["capabilities"][*list]["listChanged"] == true;
        let promised = ["tools", "prompts", "resources"].into_iter().filter(changes).collect();
        *self.0.promised.lock().unwrap_or_else(PoisonError::into_inner) = promised;
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
        if let Ok(response) = self.exchange(&headers, &list.to_value()).await {
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

    /// What changed, for a client that began with a handshake. It takes up again where the server was restarted or another
    /// one is asked by now; for its sake alone none is looked for.
    async fn hear_changes(&self, out: &mpsc::Sender<Value>) {
        let mut pause = HEAR_AGAIN;
        let mut missed = false;
        loop {
            let headers = self.headers(None).await;
            if let Ok(response) = self.0.route.now().exchange_mcp(&self.0.target, &headers, None).await {
                let status = response.status();
                if status.is_client_error() && status.as_u16() != 429 {
                    return;
                }
                if status.is_success() {
                    if std::mem::replace(&mut missed, true) && self.tell_missed(out).await.is_err() {
                        return;
                    }
                    let mut events = Sse::of(response);
                    while let Some(message) = events.next().await {
                        pause = HEAR_AGAIN;
                        if message.get("method").is_some() && out.send(message).await.is_err() {
                            return;
                        }
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(HEAR_AGAIN_MAX);
        }
    }

    /// Nobody knows what changed while nobody listened, so everything may have.
    async fn tell_missed(&self, out: &mpsc::Sender<Value>) -> Result<(), mpsc::error::SendError<Value>> {
        let promised = self.0.promised.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for list in promised {
            out.send(Notification::new(format!("notifications/{list}/list_changed"), Map::new()).to_value()).await?;
        }
        Ok(())
    }
}

/// What of a line wants an answer.
struct Asked {
    requests: Vec<Request>,
    is_batch: bool,
}

impl Asked {
    fn of(line: &Value) -> Self {
        let messages = line.as_array().map_or(std::slice::from_ref(line), Vec::as_slice);
        let request = |message: &Value| match Message::of(message.clone()) {
            Ok(Message::Request(request)) => Some(request),
            _ => None,
        };
        Self { requests: messages.iter().filter_map(request).collect(), is_batch: line.is_array() }
    }

    /// The request, where the line is one.
    fn alone(&self) -> Option<&Request> {
        self.requests.first().filter(|_| !self.is_batch)
    }

    /// The same error to each of them, in the form in which they came.
    fn failed(&self, told: &str) -> Value {
        let error = || RpcError::new(code::INTERNAL, told);
        let mut answers = self.requests.iter().map(|request| Answer::to(&request.id, Err(error())).to_value());
        if self.is_batch && !self.requests.is_empty() {
            return Value::Array(answers.collect());
        }
        answers.next().unwrap_or_else(|| Answer::unreadable(error()).to_value())
    }
}
