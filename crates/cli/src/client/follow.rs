//! Events as they happen. A dropped connection to a run is taken up again behind the last event that came; one to the
//! whole tenant begins anew, and is told to whoever listens, who then looks at what there is.
//!
//! Output as it comes has no number of its own, so that it may come again with the event it stands behind: what was
//! given already is not given twice.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use reqwest::Response;
use serde_json::Value;

use super::{ANSWER_BYTES_MAX, Client, answer, local};
use crate::failure::Failure;

/// A server says every few seconds that it is alive.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const RETRY: Duration = Duration::from_millis(300);
const RETRIES_MAX: u32 = 30;

pub struct Follower<'a> {
    client: &'a Client,
    target: String,
    /// Absent: the whole tenant.
    run: Option<String>,
    /// The number of the last event.
    last: u64,
    /// The parts of output behind that event that came: of which call, and which.
    parts: BTreeSet<(u64, String, u64)>,
    source: Option<Source>,
    lines: Lines,
    failures: u32,
}

enum Source {
    Remote(Response),
    Local(Body),
}

impl<'a> Follower<'a> {
    pub(super) fn of_run(client: &'a Client, run: &str, target: String) -> Self {
        Self::new(client, Some(run.to_owned()), target)
    }

    pub(super) fn of_tenant(client: &'a Client, target: String) -> Self {
        Self::new(client, None, target)
    }

    fn new(client: &'a Client, run: Option<String>, target: String) -> Self {
        Self {
            client,
            target,
            run,
            last: 0,
            parts: BTreeSet::new(),
            source: None,
            lines: Lines::default(),
            failures: 0,
        }
    }

    /// The next event; of the whole tenant also `null`, where a connection begins and something may have been missed.
    /// A failure means that there is no way to it any more.
    pub async fn next(&mut self) -> Result<Value, Failure> {
        loop {
            while let Some(event) = self.lines.next() {
                if self.is_new(&event) {
                    return Ok(event);
                }
            }
            let Some(source) = &mut self.source else {
                self.connect().await?;
                if self.run.is_none() && self.source.is_some() {
                    return Ok(Value::Null);
                }
                continue;
            };
            if let Ok(Some(bytes)) = tokio::time::timeout(SILENCE_MAX, source.chunk()).await {
                self.failures = 0;
                self.lines.push(&bytes);
            } else {
                self.source = None;
                self.lines = Lines::default();
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        if self.failures > 0 {
            tokio::time::sleep(RETRY * self.failures.min(10)).await;
        }
        self.failures += 1;
        let after = self.run.as_ref().filter(|_| self.last > 0).map(|run| format!("{run}:{}", self.last));
        let opened = match self.client {
            Client::Remote(remote) => remote.stream(&self.target, after.as_deref()).await.map(|response| {
                let status = response.status().as_u16();
                (status, Source::Remote(response))
            }),
            Client::Local(local) => {
                local.stream(&self.target, after.as_deref()).await.map(|(status, body)| (status, Source::Local(body)))
            }
        };
        match opened {
            Ok((200, source)) => self.source = Some(source),
            // It is there, and does not let us; or it is about to end.
            Ok((status, source)) => match (answer(status, &source.read(self.client).await?), status) {
                (Err(_), 502..=504) if self.failures < RETRIES_MAX => {}
                (Err(failure), _) => return Err(failure),
                (Ok(_), _) => return Err(Failure::unreachable("the answer is no stream", "check the server")),
            },
            Err(failure) if self.failures >= RETRIES_MAX || self.client.is_local() => return Err(failure),
            Err(_) => {}
        }
        Ok(())
    }

    fn is_new(&mut self, event: &Value) -> bool {
        if self.run.is_none() {
            return true;
        }
        if let Some(seq) = event["seq"].as_u64() {
            let new = seq > self.last;
            if new {
                self.last = seq;
                self.parts.retain(|(after, ..)| *after >= seq);
            }
            return new;
        }
        let number = |member: &str| event[member].as_u64().unwrap_or_default();
        let call = event["call_id"].as_str().unwrap_or_default().to_owned();
        self.parts.insert((number("after_seq"), call, number("part")))
    }
}

impl Source {
    /// `None` at the end, also where it ends badly: the follower asks again.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Remote(response) => response.chunk().await.ok().flatten().map(|bytes| bytes.to_vec()),
            Self::Local(body) => loop {
                let frame = body.frame().await?.ok()?;
                if let Ok(bytes) = frame.into_data() {
                    return Some(bytes.to_vec());
                }
            },
        }
    }

    async fn read(self, client: &Client) -> Result<Vec<u8>, Failure> {
        match (self, client) {
            (Self::Remote(response), Client::Remote(remote)) => remote.read(response).await,
            (Self::Local(body), _) => local::read(body).await,
            (Self::Remote(_), Client::Local(_)) => Ok(Vec::new()),
        }
    }
}

/// Server-sent events out of bytes, as far as this API uses them: one line of JSON each.
/// The messages of an answer: of a stream of events as they come, or the one of a body in JSON.
pub struct Sse {
    response: reqwest::Response,
    is_stream: bool,
    lines: Lines,
    ended: bool,
}

impl Sse {
    pub fn of(response: reqwest::Response) -> Self {
        let kind = response.headers().get(axum::http::header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        Self { response, is_stream, lines: Lines::default(), ended: false }
    }

    /// `None` at its end, and where the connection was lost.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if self.is_stream
                && let Some(message) = self.lines.next()
            {
                return Some(message);
            }
            if self.ended {
                return None;
            }
            if let Ok(Some(bytes)) = self.response.chunk().await {
                self.lines.push(&bytes);
                continue;
            }
            self.ended = true;
            if !self.is_stream {
                return serde_json::from_slice(&self.lines.bytes).ok();
            }
        }
    }
}

#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > ANSWER_BYTES_MAX {
            // Not one of ours; the next line begins anew.
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Value> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let data = line.strip_prefix(b"data:").and_then(|data| serde_json::from_slice(data).ok());
            if data.is_some() {
                return data;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_across_borders_of_chunks() {
        let mut lines = Lines::default();
        let text = ":\n\nevent: tool.started\ndata: {\"seq\":1}\nid: r:1\n\ndata: {\"seq\":2}\n\ndata: {\"se";
        let mut found = Vec::new();
        for byte in text.bytes() {
            lines.push(&[byte]);
            found.extend(lines.next());
        }
        assert_eq!(found, [json!({"seq": 1}), json!({"seq": 2})]);
    }
}
