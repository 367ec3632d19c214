//! The load: connections that are kept alive, each with one request under way, from one thread of this process.
//!
//! It reads as much of HTTP as it must to find the end of an answer, so that its own cost does not hide the server's.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Failure;

/// What an answer of either server holds when all went well.
pub struct Request {
    pub bytes: Vec<u8>,
    /// Near the beginning of the answer's body.
    pub expected: &'static [u8],
}

impl Request {
    pub fn post(path: &str, key: Option<&str>, body: &str, expected: &'static [u8]) -> Self {
        Self::of("POST", path, key, "", body, expected)
    }

    /// `headers` are whole lines, each with its end.
    pub fn of(method: &str, path: &str, key: Option<&str>, headers: &str, body: &str, expected: &'static [u8]) -> Self {
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}{headers}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        Self { bytes: format!("{head}{body}").into_bytes(), expected }
    }
}

/// Sends the request over and over on this many connections and says how long each answer took. `begin` is called after
/// the time of warming up, `end` when the time is over.
pub fn run(
    address: &str,
    request: &Request,
    connections: usize,
    time: Duration,
    begin: impl FnOnce(),
    end: impl FnOnce(),
) -> Result<Vec<Duration>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        let from = Instant::now() + super::WARM_UP;
        let until = from + time;
        let request = std::rc::Rc::new(Request { bytes: request.bytes.clone(), expected: request.expected });
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (address, request) = (address.to_owned(), std::rc::Rc::clone(&request));
            tasks.push(local.spawn_local(async move {
                let mut connection = Connection::open(&address).await?;
                let mut walls = Vec::new();
                loop {
                    let start = Instant::now();
                    if start >= until {
                        return Ok::<_, std::io::Error>(walls);
                    }
                    connection.exchange(&request).await?;
                    if start >= from {
                        walls.push(start.elapsed());
                    }
                }
            }));
        }
        let walls = async {
            tokio::time::sleep_until(from.into()).await;
            begin();
            tokio::time::sleep_until(until.into()).await;
            end();
            let mut walls = Vec::new();
            for task in tasks {
                walls.extend(task.await??);
            }
            Ok::<_, Failure>(walls)
        };
        local.run_until(walls).await
    })
}

/// One request, for what is asked but not measured: the body of its answer.
pub fn once(address: &str, request: &Request) -> Result<String, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = Connection::open(address).await?;
        let body = connection.exchange(request).await?;
        Ok(String::from_utf8(body.to_vec())?)
    })
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    async fn exchange(&mut self, request: &Request) -> std::io::Result<&[u8]> {
        self.stream.write_all(&request.bytes).await?;
        self.buffer.clear();
        let mut whole = None;
        loop {
            if let Some((head, end)) = whole
                && self.buffer.len() >= end
            {
                let body = self.buffer.get(head..end).unwrap_or_default();
                let front = body.get(..body.len().min(256)).unwrap_or_default();
                let found = front.windows(request.expected.len()).any(|part| part == request.expected);
                if !self.buffer.starts_with(b"HTTP/1.1 20") || !found {
                    return Err(std::io::Error::other(format!(
                        "an answer that was not expected: {}",
                        String::from_utf8_lossy(&self.buffer)
                    )));
                }
                return Ok(self.buffer.get(head..end).unwrap_or_default());
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if whole.is_none()
                && let Some(head) = self.buffer.windows(4).position(|part| part == b"\r\n\r\n")
            {
                let length = content_length(self.buffer.get(..head).unwrap_or_default());
                whole = Some((head + 4, head + 4 + length));
            }
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let text = String::from_utf8_lossy(head);
    let line = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
