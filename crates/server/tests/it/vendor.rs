//! A provider of models on loopback that a test answers for, byte by byte, and the agent that asks it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{As, World};

/// What it says to one question.
#[derive(Clone, Debug)]
pub enum Said {
    /// Events of a stream that comes to its end.
    Events(Vec<String>),
    /// The same, and then the connection is gone.
    Dropped(Vec<String>),
    /// This event, for ever.
    Endless(String),
    /// A document of this many megabytes.
    Large(usize),
    /// A refusal, with the seconds to wait.
    Limited(u64),
    /// Not a provider's: of this kind, with this text.
    Page(&'static str, String),
}

#[derive(Clone)]
pub struct Vendor {
    pub address: SocketAddr,
    said: Arc<Mutex<Vec<Said>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let vendor = Self { address: listener.local_addr().unwrap(), said: Arc::default(), requests: Arc::default() };
        let kept = vendor.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(kept.clone().attend(stream));
            }
        });
        vendor
    }

    /// From now on; the last of them again and again.
    pub fn says(&self, said: Vec<Said>) {
        *self.said.lock().unwrap() = said;
        self.requests.lock().unwrap().clear();
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    async fn attend(self, mut stream: TcpStream) {
        let mut read = Vec::new();
        while !is_whole(&read) {
            if stream.read_buf(&mut read).await.is_ok_and(|read| read == 0) {
                return;
            }
        }
        let said = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(String::from_utf8(read).unwrap());
            let said = self.said.lock().unwrap();
            said[(requests.len() - 1).min(said.len() - 1)].clone()
        };
        // Whoever asked may have heard enough.
        let _ = say(&mut stream, said).await;
    }

    /// A provider of this kind, opened by the operator, and an agent that asks it; with a key if there is one.
    pub async fn asked_by_an_agent(&self, world: &World, kind: &str, key: Option<&str>, tools: &[&str]) {
        let port = self.address.port();
        let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "a model here"});
        world.send(&As::Owner, "POST", "/api/v1/egress/openings", opening).await.ok();
        let mut spec = json!({"name": "vendor", "kind": kind, "base_url": format!("http://{}/v1", self.address)});
        if key.is_some() {
            spec["secret"] = json!("MODEL_KEY");
        }
        world.send(&As::Owner, "PUT", "/api/v1/providers/vendor", spec).await.ok();
        if let Some(key) = key {
            let secret = json!({"value": key, "providers": ["vendor"], "hosts": ["127.0.0.1"]});
            world.send(&As::Owner, "PUT", "/api/v1/secrets/org/MODEL_KEY", secret).await.ok();
        }
        let agent = json!({"name": "helper", "model": "vendor/any", "toolset": "assigned", "custom_tools": tools});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
    }
}

async fn say(stream: &mut TcpStream, said: Said) -> std::io::Result<()> {
    let head = |media: &str| format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    match said {
        Said::Events(events) => {
            stream.write_all(head("text/event-stream").as_bytes()).await?;
            for event in events {
                stream.write_all(chunk(&event).as_bytes()).await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Said::Dropped(events) => {
            stream.write_all(head("text/event-stream").as_bytes()).await?;
            for event in events {
                stream.write_all(chunk(&event).as_bytes()).await?;
            }
            Ok(())
        }
        Said::Endless(event) => {
            stream.write_all(head("text/event-stream").as_bytes()).await?;
            loop {
                stream.write_all(chunk(&event).as_bytes()).await?;
            }
        }
        Said::Large(megabytes) => {
            stream.write_all(head("application/json").as_bytes()).await?;
            stream.write_all(chunk("{\"choices\":[{\"message\":{\"content\":\"").as_bytes()).await?;
            let piece = chunk(&"x".repeat(1 << 20));
            for _ in 0..megabytes {
                stream.write_all(piece.as_bytes()).await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Said::Page(media, text) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n", text.len());
            stream.write_all((head + &text).as_bytes()).await
        }
        Said::Limited(seconds) => {
            let body = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
            let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\nretry-after: {seconds}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await
        }
    }
}

fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|length| length.trim().parse()))
        .unwrap_or(Ok(0_usize));
    body.len() >= length.unwrap()
}

fn event(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// A piece of text in the form of OpenAI's chat.
pub fn text(said: &str) -> String {
    event(&json!({"content": said}), None)
}

/// A piece of a call; the name is in the first one.
pub fn call(index: usize, name: Option<&str>, arguments: &str) -> String {
    let mut call = json!({"index": index, "function": {"arguments": arguments}});
    if let Some(name) = name {
        call["id"] = json!(format!("c{index}"));
        call["function"]["name"] = json!(name);
    }
    event(&json!({"tool_calls": [call]}), None)
}

pub fn ending(finish: &str) -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 10}});
    format!("{}data: {usage}\n\ndata: [DONE]\n\n", event(&json!({}), Some(finish)))
}

/// These calls, each whole.
pub fn calling(calls: &[(&str, &str)]) -> Said {
    let calls = calls.iter().enumerate().map(|(index, (name, arguments))| call(index, Some(name), arguments));
    Said::Events(calls.chain([ending("tool_calls")]).collect())
}

pub fn saying(said: &str) -> Said {
    Said::Events(vec![text(said), ending("stop")])
}
