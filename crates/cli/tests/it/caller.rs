//! A caller over HTTP: what a program does that has a key and the address of a server.
//!
//! It waits for states with deadlines, and never says how long something may take.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};
use toolgate_contracts::Rng;
use toolgate_server::{TENANT_HEADER, tls};

use crate::program::Server;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    pub url: String,
    pub key: String,
    tenant: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    pub body: Value,
    pub headers: HeaderMap,
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        self.body
    }

    /// A refusal is a problem that says what to do.
    #[track_caller]
    pub fn refused(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.body["status"], status, "a refusal is a problem: {}", self.text);
        for member in ["type", "title", "detail", "code", "remedy"] {
            assert!(self.body[member].as_str().is_some_and(|text| !text.is_empty()), "no {member}: {}", self.text);
        }
        self.body
    }
}

impl Caller {
    /// The owner of a server's data folder.
    pub fn owner(server: &Server) -> Self {
        let key = std::fs::read_to_string(&server.key_file).unwrap();
        // The second of two installations is told that there is one already.
        let _ = std::sync::Arc::unwrap_or_clone(tls::provider()).install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { http, url: server.url.clone(), key: key.trim().to_owned(), tenant: None }
    }

    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), tenant: None, ..self.clone() }
    }

    pub fn in_tenant(&self, slug: &str) -> Self {
        Self { tenant: Some(slug.to_owned()), ..self.clone() }
    }

    /// The same caller at another server.
    pub fn at(&self, server: &Server) -> Self {
        Self { url: server.url.clone(), ..self.clone() }
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.http.request(method, format!("{}/api/v1{path}", self.url));
        let request = request.header(AUTHORIZATION, format!("Bearer {}", self.key));
        match &self.tenant {
            Some(tenant) => request.header(TENANT_HEADER, tenant),
            None => request,
        }
    }

    /// `Err` where nobody answers.
    pub async fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Answer, reqwest::Error> {
        let mut request = self.request(method, path);
        if !body.is_null() {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        answer(request).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.try_send(method, path, &body).await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, body).await
    }

    /// The envelope of a call, however it ended.
    pub async fn call(&self, tool: &str, input: Value) -> Value {
        self.post("/calls", json!({"tool": tool, "input": input})).await.ok()
    }

    /// Every item of a list.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}{joint}limit=500{cursor}")).await.ok();
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }

    /// Asks until the answer is as wanted.
    #[track_caller]
    pub fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> impl Future<Output = Answer> {
        let (caller, path) = (self.clone(), path.to_owned());
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let answer = caller.get(&path).await;
                if wanted(&answer) {
                    return answer;
                }
                assert!(tokio::time::Instant::now() < deadline, "{path} stays {}", answer.text);
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    pub async fn register(&self, definition: Value) -> Answer {
        self.post("/tools", json!({"definition": definition, "apply": true})).await
    }

    /// A tool of any input that callers and workers carry out themselves, and that the operator found to be harmless.
    pub async fn register_mirror(&self, name: &str, extra: Value) {
        let any = json!({"type": "object", "additionalProperties": true, "properties": {}});
        let mut definition = json!({
            "name": name,
            "description": "Gives back what it is given. Use it to see what arrives. Do not use it to keep anything.",
            "input_schema": any,
            "output_schema": any,
            "egress_class": "write",
            "runner": {"kind": "external"},
        });
        definition.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.register(definition).await.ok();
        let harmless = json!({"egress_class": "none", "changes_state": false, "reason": "it gives back its input"});
        self.send("PUT", &format!("/tools/{name}/classification"), harmless).await.ok();
    }

    /// Runs such a tool ourselves: told of before, reported after.
    pub async fn recorded(&self, tool: &str, input: &Value, output: &Value) -> Value {
        let call = self.post("/calls", json!({"tool": tool, "input": input, "mode": "record"})).await.ok();
        assert_eq!(call["status"], "running", "{call}");
        let report = json!({"status": "completed", "output": output});
        self.post(&format!("/calls/{}/complete", text(&call["id"])), report).await.ok()
    }

    pub async fn new_tenant(&self, slug: &str) -> Self {
        self.post("/tenants", json!({"slug": slug})).await.ok();
        self.in_tenant(slug)
    }

    /// A user with this role, and a key that has as much of it as this caller can give.
    pub async fn user(&self, name: &str, role: &str) -> Self {
        let kind = if role == "service" { "service" } else { "person" };
        self.post("/users", json!({"name": name, "roles": [role], "kind": kind})).await.ok();
        let working = json!(["work.lease", "tools:execute", "calls.read.own"]);
        let scopes = if role == "service" { working } else { json!([role]) };
        self.key_of(json!({"name": format!("{name}-key"), "owner": name, "scopes": scopes})).await
    }

    pub async fn key_of(&self, key: Value) -> Self {
        let made = self.post("/keys", key).await.ok();
        self.with_key(made["secret"].as_str().unwrap())
    }

    pub async fn new_run(&self, run: Value) -> String {
        self.post("/runs", run).await.ok()["id"].as_str().unwrap().to_owned()
    }

    /// The events of a run, all pages.
    pub async fn events(&self, run: &str) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let page = self.get(&format!("/runs/{run}/events?after={after}")).await.ok();
            events.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_after"].as_u64() {
                Some(next) => after = next,
                None => return events,
            }
        }
    }

    pub async fn stream(&self, path: &str, last_event_id: Option<&str>) -> Result<Stream, Answer> {
        let mut request = self.request("GET", path).header(ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        if response.status() != 200 {
            return Err(read(response).await.unwrap());
        }
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Ok(Stream { response, read: String::new() })
    }
}

#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub async fn answer(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    read(request.send().await?).await
}

async fn read(response: reqwest::Response) -> Result<Answer, reqwest::Error> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await?;
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, text, body, headers })
}

/// An event as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub id: Option<String>,
    pub event: Value,
}

impl Sent {
    /// An event in the wire's form: lines of `name: value`.
    pub fn parse(block: &str) -> Option<Self> {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        let event = serde_json::from_str(field("data:")?).unwrap();
        Some(Self { id: field("id:").map(str::to_owned), event })
    }

    pub fn seq(&self) -> Option<u64> {
        self.event["seq"].as_u64()
    }
}

/// Server-sent events as they come.
pub struct Stream {
    response: reqwest::Response,
    read: String,
}

impl Stream {
    /// `None` when the server ended it.
    pub async fn next(&mut self) -> Option<Sent> {
        let waited = async {
            loop {
                while let Some((block, rest)) = self.read.split_once("\n\n") {
                    let (event, rest) = (Sent::parse(block), rest.to_owned());
                    self.read = rest;
                    if event.is_some() {
                        return event;
                    }
                }
                match self.response.chunk().await {
                    Ok(Some(bytes)) => self.read.push_str(std::str::from_utf8(&bytes).unwrap()),
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        tokio::time::timeout(PATIENCE, waited).await.expect("no event came")
    }

    /// The next numbered events up to this number.
    pub async fn until(&mut self, seq: u64) -> Vec<Sent> {
        let mut events = Vec::new();
        while events.last().and_then(Sent::seq).is_none_or(|last| last < seq) {
            let event = self.next().await.expect("the stream ended");
            if event.seq().is_some() {
                events.push(event);
            }
        }
        events
    }
}

/// That these are all the numbers from `first` on, in order.
#[track_caller]
pub fn gap_free(first: u64, numbers: impl IntoIterator<Item = u64>) -> u64 {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let wanted: Vec<u64> = (first..).take(numbers.len()).collect();
    assert_eq!(numbers, wanted, "gaps, repetitions or disorder");
    first + numbers.len() as u64 - 1
}

/// A number below `most`.
pub fn chance(most: u64) -> u64 {
    u64::from_ne_bytes(Rng::System.bytes()) % most
}
