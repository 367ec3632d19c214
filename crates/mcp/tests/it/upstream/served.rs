//! A server over HTTP for tests, of any revision, good or bad by what it is asked.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use toolgate_egress::Url;
use toolgate_mcp::upstream::{Place, Upstream};
use toolgate_mcp::wire::Revision;

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// How the server is, beyond its revision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Answers are streams, not bodies.
    pub streams: bool,
    /// What an older server says to the first question of the newest revision.
    pub to_the_unknown: Option<(u16, &'static str)>,
    /// It closes the connection instead of every n-th answer.
    pub drops: Option<usize>,
    /// What it says of a session that it has forgotten, where it says it in words.
    pub forgets_in_words: bool,
}

#[derive(Clone)]
pub struct Server {
    pub port: u16,
    revision: Revision,
    manners: Manners,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    asked: Mutex<Vec<Asked>>,
    sessions: Mutex<Vec<String>>,
    begun: AtomicUsize,
    answers: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    open: AtomicUsize,
    closed_early: AtomicUsize,
}

pub struct Wire(pub TcpStream);

impl Wire {
    pub async fn answer(mut self, status: u16, headers: &[(&str, &str)], body: &str) -> Option<Self> {
        let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        self.0.write_all(format!("{head}\r\n{body}").as_bytes()).await.ok()?;
        Some(self)
    }

    pub async fn json(self, headers: &[(&str, &str)], body: &Value) -> Option<Self> {
        let mut all = vec![("content-type", "application/json; charset=utf-8")];
        all.extend(headers);
        self.answer(200, &all, &body.to_string()).await
    }

    pub async fn stream(&mut self) -> Option<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.0.write_all(head.as_bytes()).await.ok()
    }

    pub async fn text(&mut self, text: &str) -> Option<()> {
        self.0.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()
    }

    pub async fn event(&mut self, message: &Value) -> Option<()> {
        self.text(&format!("event: message\ndata: {message}\n\n")).await
    }

    pub async fn end(mut self) -> Option<Self> {
        self.0.write_all(b"0\r\n\r\n").await.ok()?;
        Some(self)
    }

    /// Returns when the other side closes.
    pub async fn closed(&mut self) {
        let _ = self.0.read(&mut [0; 1]).await;
    }

    pub async fn read(&mut self) -> Option<Asked> {
        let mut read = Vec::new();
        loop {
            let head = read.windows(4).position(|end| end == b"\r\n\r\n");
            if let Some(at) = head {
                let head = String::from_utf8_lossy(&read[..at]).into_owned();
                let mut lines = head.lines();
                let mut first = lines.next()?.split(' ');
                let headers: BTreeMap<String, String> = lines
                    .filter_map(|line| line.split_once(": "))
                    .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                    .collect();
                let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
                let body = &read[at + 4..];
                if body.len() >= length {
                    let body = serde_json::from_slice(&body[..length]).unwrap_or(Value::Null);
                    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
                    return Some(Asked { method, path, headers, body });
                }
            }
            match self.0.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return None,
            }
        }
    }
}

impl Server {
    pub async fn start(revision: Revision, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, revision, manners, state: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = serving.clone();
                server.state.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    server.serve(Wire(stream)).await;
                    server.state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    pub fn url(&self) -> Url {
        format!("http://127.0.0.1:{}/mcp", self.port).parse().unwrap()
    }

    pub fn upstream(&self) -> Upstream {
        Upstream::new(Place::Http { url: self.url(), headers: Vec::new() })
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// What it was asked, by method of the protocol.
    pub fn methods(&self) -> Vec<String> {
        let name = |asked: &Asked| asked.body["method"].as_str().unwrap_or(&asked.method).to_owned();
        self.asked().iter().map(name).collect()
    }

    pub fn open_connections(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    pub fn closed_early(&self) -> usize {
        self.state.closed_early.load(Ordering::SeqCst)
    }

    /// As if it had been started anew.
    pub fn forget_sessions(&self) {
        self.state.sessions.lock().unwrap().clear();
    }

    pub fn sessions(&self) -> usize {
        self.state.sessions.lock().unwrap().len()
    }

    async fn serve(&self, mut wire: Wire) {
        while let Some(asked) = wire.read().await {
            let count = {
                let mut all = self.state.asked.lock().unwrap();
                all.push(asked.clone());
                all.len()
            };
            if self.manners.drops.is_some_and(|every| count % every == 0) {
                return;
            }
            match self.take(asked, wire).await {
                Some(again) => wire = again,
                None => return,
            }
        }
    }

    async fn take(&self, asked: Asked, wire: Wire) -> Option<Wire> {
        let session = asked.headers.get("mcp-session-id").cloned();
        match asked.method.as_str() {
            "GET" if !self.revision.is_stateless() => return self.get(&asked, wire).await,
            "DELETE" if !self.revision.is_stateless() => {
                self.state.sessions.lock().unwrap().retain(|known| Some(known) != session.as_ref());
                return wire.answer(204, &[], "").await;
            }
            "POST" => {}
            _ => return wire.answer(405, &[], "").await,
        }
        let (id, method) = (asked.body["id"].clone(), asked.body["method"].as_str().unwrap_or_default());
        if method.is_empty() {
            let waiting = self.state.answers.lock().unwrap().remove(id.as_str().unwrap_or_default());
            if let Some(waiting) = waiting {
                let _ = waiting.send(asked.body.clone());
            }
        }
        if id.is_null() || method.is_empty() {
            return wire.answer(202, &[], "").await;
        }
        let about = json!({"name": "served", "version": "1"});
        if self.revision.is_stateless() {
            let named = &asked.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            let header = asked.headers.get("mcp-protocol-version").cloned();
            if named.as_str() != header.as_deref()
                || asked.headers.get("mcp-method").map(String::as_str) != Some(method)
            {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32020, "message": "headers"}});
                return wire.answer(400, &[("content-type", "application/json")], &error.to_string()).await;
            }
            if method == "server/discover" {
                let result = json!({"resultType": "complete", "supportedVersions": [self.revision.as_str()],
                    "_meta": {"io.modelcontextprotocol/serverInfo": about}, "capabilities": {"tools": {}},
                    "ttlMs": 0, "cacheScope": "private"});
                return wire.json(&[], &json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
            }
        } else if method == "initialize" {
            let name = format!("session-{}", self.state.begun.fetch_add(1, Ordering::SeqCst));
            self.state.sessions.lock().unwrap().push(name.clone());
            let result = json!({"protocolVersion": self.revision.as_str(), "serverInfo": about,
                "capabilities": {"tools": {"listChanged": true}}});
            return wire
                .json(&[("mcp-session-id", &name)], &json!({"jsonrpc": "2.0", "id": id, "result": result}))
                .await;
        } else if method == "server/discover" {
            let (status, body) = self.manners.to_the_unknown.unwrap_or((400, "Bad Request: no session"));
            return wire.answer(status, &[("content-type", "application/json")], body).await;
        } else if !session.is_some_and(|session| self.state.sessions.lock().unwrap().contains(&session)) {
            if self.manners.forgets_in_words {
                let words = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session"}}"#;
                return wire.answer(400, &[("content-type", "application/json")], words).await;
            }
            return wire.answer(404, &[], "").await;
        }
        match method {
            "tools/call" => self.call(&asked, wire).await,
            "subscriptions/listen" => {
                let mut wire = wire;
                wire.stream().await?;
                let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                    "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}});
                wire.event(&told).await?;
                wire.closed().await;
                self.state.closed_early.fetch_add(1, Ordering::SeqCst);
                None
            }
            _ => {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}});
                wire.json(&[], &error).await
            }
        }
    }

    /// News, or what a call had not said when its stream was broken off.
    async fn get(&self, asked: &Asked, mut wire: Wire) -> Option<Wire> {
        let last = asked.headers.get("last-event-id").cloned();
        wire.stream().await?;
        if let Some(last) = last {
            let (id, step) = last.split_once('-')?;
            if step == "1" {
                wire.text(&format!("id: {id}-2\nretry: 50\ndata:\n\n")).await?;
            } else {
                let result = json!({"structuredContent": {"polled": step}});
                wire.event(&json!({"jsonrpc": "2.0", "id": id.parse::<i64>().ok()?, "result": result})).await?;
            }
            return wire.end().await;
        }
        wire.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await?;
        wire.closed().await;
        None
    }

    async fn call(&self, asked: &Asked, mut wire: Wire) -> Option<Wire> {
        let (id, params) = (&asked.body["id"], &asked.body["params"]);
        let given = &params["arguments"];
        let mut result = json!({"content": [], "structuredContent": given});
        if self.revision.is_stateless() {
            result["resultType"] = "complete".into();
        }
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        match params["name"].as_str().unwrap_or_default() {
            "slow" => {
                tokio::time::sleep(Duration::from_millis(given["millis"].as_u64().unwrap_or(0))).await;
                wire.json(&[], &answer).await
            }
            "headers" => {
                let mut answer = answer;
                answer["result"]["structuredContent"] = json!(asked.headers);
                wire.json(&[], &answer).await
            }
            "progress" => {
                wire.stream().await?;
                wire.text(": keep alive\n\n").await?;
                let token = &params["_meta"]["progressToken"];
                for step in [1, 2] {
                    let params = json!({"progressToken": token, "progress": step});
                    wire.event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                        .await?;
                }
                wire.event(&answer).await?;
                wire.end().await
            }
            "ask" => {
                let question = format!("q-{id}");
                let (sender, waiting) = oneshot::channel();
                self.state.answers.lock().unwrap().insert(question.clone(), sender);
                wire.stream().await?;
                let params = json!({"message": "really?", "requestedSchema": {"type": "object", "properties": {}}});
                let ask = json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params});
                wire.event(&ask).await?;
                let mut answer = answer;
                answer["result"]["structuredContent"] = waiting.await.ok()?;
                wire.event(&answer).await?;
                wire.end().await
            }
            "polled" => {
                wire.stream().await?;
                wire.text(&format!("id: {id}-1\nretry: 50\ndata:\n\n")).await?;
                wire.end().await
            }
            "unfinished" => {
                wire.stream().await?;
                wire.end().await
            }
            "hang" => {
                wire.stream().await?;
                wire.closed().await;
                self.state.closed_early.fetch_add(1, Ordering::SeqCst);
                None
            }
            "drop" => None,
            "status" => {
                let challenge = r#"Bearer resource_metadata="https://a.test/.well-known/x", scope="read""#;
                let headers = [("retry-after", "7"), ("www-authenticate", challenge)];
                let status = u16::try_from(given["status"].as_u64()?).ok()?;
                let headers = if status == 403 { &headers[1..] } else { &headers[..] };
                wire.answer(status, headers, given["body"].as_str().unwrap_or_default()).await
            }
            "garbage" => wire.answer(200, &[("content-type", "application/json")], "{\"jsonrpc\": ").await,
            "page" => wire.answer(200, &[("content-type", "text/html")], "<p>hello</p>").await,
            "accepted" => wire.answer(202, &[], "").await,
            "wrong_id" => {
                let answer = json!({"jsonrpc": "2.0", "id": 999_999, "result": result});
                wire.json(&[], &answer).await
            }
            "oversized" => {
                let mut answer = answer;
                answer["result"]["x"] = "x".repeat(usize::try_from(given["bytes"].as_u64()?).ok()?).into();
                if !given["streamed"].is_null() {
                    wire.stream().await?;
                    wire.event(&answer).await?;
                    return wire.end().await;
                }
                wire.json(&[], &answer).await
            }
            _ if self.manners.streams => {
                wire.stream().await?;
                wire.event(&answer).await?;
                wire.end().await
            }
            _ => wire.json(&[], &answer).await,
        }
    }
}
