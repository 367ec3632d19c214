//! A server that is a trusted child of ours: a message per line on its standard streams.
//!
//! What it prints on the wrong stream (a banner, its own log) is no message and is kept with what it complains about;
//! what looks like a message and cannot be read ends the link, because an answer may have been in it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use toolgate_sandbox::{Child, ChildRequest, Duplex, Spawner};
use toolgate_vault::Redactor;

use super::desk::{Back, Desk, closed};
use super::error::{LinkError, shown};
use super::health::Pulse;
use super::place::{Given, Place, Upstream};
use super::{read, unsaid};

const QUEUE_MAX: usize = 64;
const CHUNK_BYTES: usize = 16 * 1024;
/// The end of what it complained about.
const TAIL_BYTES_MAX: usize = 8 * 1024;
/// Lines that are no messages.
const NOISE_LINES_MAX: usize = 1000;
/// How long its exit status is waited for once it says nothing any more.
const STATUS: Duration = Duration::from_millis(500);

pub struct Piped {
    queue: mpsc::Sender<Outgoing>,
    tail: Arc<Tail>,
    pub pid: i32,
    /// Cancelled when the process has ended.
    pub gone: CancellationToken,
}

/// What is held as long as a process or connection lives: its place among those that may be, and who is told how it went.
#[derive(Clone)]
pub struct Held {
    pub pulse: Arc<Pulse>,
    _place: Arc<OwnedSemaphorePermit>,
}

impl Held {
    pub fn new(place: OwnedSemaphorePermit, pulse: Arc<Pulse>) -> Self {
        Self { pulse, _place: Arc::new(place) }
    }
}

/// A line, and whether the process may have read it: told by whoever writes it.
struct Outgoing {
    line: Vec<u8>,
    went: Arc<AtomicBool>,
}

impl Piped {
    pub async fn start(
        upstream: &Upstream,
        spawner: &Spawner,
        desk: &Arc<Desk>,
        stop: CancellationToken,
        held: Held,
    ) -> Result<Self, LinkError> {
        let request = request(upstream)?;
        let grace = request.limits.grace;
        let duplex = Child::duplex(spawner, request).await;
        let duplex = duplex.map_err(|error| LinkError::Start { why: error.to_string() })?;
        let pid = duplex.child.pid();
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        let tail = Arc::new(Tail { kept: Mutex::default(), redactor: unsaid::of_complaints(upstream)? });
        let keeper = Keeper {
            desk: Arc::clone(desk),
            tail: Arc::clone(&tail),
            // Weak, so that the child's input is closed once nobody else can send to it.
            queue: queue.downgrade(),
            message_bytes_max: upstream.bounds.message_bytes_max,
            grace,
            stop,
        };
        let gone = CancellationToken::new();
        let is_gone = gone.clone().drop_guard();
        tokio::spawn(async move {
            let tail = Arc::clone(&keeper.tail);
            keeper.keep(duplex, queued).await;
            let complaint = tail.text();
            if !complaint.is_empty() {
                held.pulse.complained(complaint);
            }
            drop((held, is_gone));
        });
        Ok(Self { queue, tail, pid, gone })
    }

    /// `went` says from then on whether the process may have read it.
    pub async fn send(&self, message: &Value, went: &Arc<AtomicBool>) -> Result<(), LinkError> {
        let outgoing = Outgoing { line: line(message), went: Arc::clone(went) };
        self.queue.send(outgoing).await.map_err(|_| closed("it no longer reads").unsent())
    }

    pub fn back(&self) -> Back {
        back(self.queue.downgrade())
    }

    /// The last that it complained about, for the operator.
    pub fn tail(&self) -> String {
        self.tail.text()
    }
}

fn request(upstream: &Upstream) -> Result<ChildRequest, LinkError> {
    let wrong = |why: &str| LinkError::Place { why: why.to_owned() };
    let Place::Stdio { command, environment, folder } = &upstream.place else {
        return Err(wrong("it is no process"));
    };
    let Some((program, arguments)) = command.split_first() else { return Err(wrong("its command is empty")) };
    let mut request = ChildRequest::new(program);
    request.arguments = arguments.iter().map(Into::into).collect();
    request.environment =
        environment.iter().map(|Given { name, value }| (name.into(), value.as_str().into())).collect();
    request.folder.clone_from(folder);
    request.limits = upstream.child;
    Ok(request)
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn back(queue: mpsc::WeakSender<Outgoing>) -> Back {
    Arc::new(move |message| {
        let queue = queue.clone();
        Box::pin(async move {
            if let Some(queue) = queue.upgrade() {
                let _ = queue.send(Outgoing { line: line(&message), went: Arc::default() }).await;
            }
        })
    })
}

struct Keeper {
    desk: Arc<Desk>,
    tail: Arc<Tail>,
    queue: mpsc::WeakSender<Outgoing>,
    message_bytes_max: usize,
    grace: Duration,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self, duplex: Duplex, queued: mpsc::Receiver<Outgoing>) {
        let Duplex { stdin, stdout, stderr, mut child } = duplex;
        // Whatever ends first takes the others' streams with it: an input that is closed asks a server to leave.
        let broke = tokio::select! {
            why = self.read(stdout) => Some(why),
            () = write(stdin, queued) => Some(closed("it no longer reads")),
            () = self.note(stderr) => None,
            () = self.stop.cancelled() => None,
        };
        let why = match broke {
            Some(LinkError::Closed { why, sent }) => {
                let status = tokio::time::timeout(STATUS, child.wait()).await;
                let why = match status {
                    Ok(Ok(status)) => ended_by(status),
                    _ => why,
                };
                LinkError::Closed { why, sent }
            }
            Some(why) => why,
            None => {
                self.desk.end(&closed("it was closed here"));
                self.leave(&mut child).await;
                return;
            }
        };
        self.desk.end(&why);
        // Dropped, it is killed with everything in its group.
        drop(child);
    }

    /// First its input is closed, then it is asked, then it is killed.
    async fn leave(&self, child: &mut Child) {
        if tokio::time::timeout(self.grace, child.wait()).await.is_ok() {
            return;
        }
        child.ask_to_end();
        let _ = tokio::time::timeout(self.grace, child.wait()).await;
    }

    async fn read(&self, mut stdout: pipe::Receiver) -> LinkError {
        let back = back(self.queue.clone());
        let mut buffer = Vec::with_capacity(CHUNK_BYTES);
        let (mut scanned, mut noise) = (0, 0);
        loop {
            buffer.reserve(CHUNK_BYTES);
            match stdout.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return closed("it closed its output"),
                Ok(_) => {}
            }
            let mut from = 0;
            while let Some(length) = buffer.get(scanned..).and_then(|new| new.iter().position(|byte| *byte == b'\n')) {
                let end = scanned + length;
                let line = buffer.get(from..end).unwrap_or_default().trim_ascii();
                match self.line(line, &back) {
                    Ok(Line::Message) => {}
                    Ok(Line::Noise) => {
                        self.tail.add(line);
                        self.tail.add(b"\n");
                        noise += 1;
                        if noise > NOISE_LINES_MAX {
                            let why = format!("it printed more than {NOISE_LINES_MAX} lines that are no messages");
                            return LinkError::Unreadable { why };
                        }
                    }
                    Err(why) => return why,
                }
                (from, scanned) = (end + 1, end + 1);
            }
            buffer.drain(..from);
            scanned = buffer.len();
            if scanned > self.message_bytes_max {
                return LinkError::TooLarge { bytes_max: self.message_bytes_max };
            }
            if scanned == 0 && buffer.capacity() > 1024 * 1024 {
                buffer = Vec::with_capacity(CHUNK_BYTES);
            }
        }
    }

    fn line(&self, line: &[u8], back: &Back) -> Result<Line, LinkError> {
        if line.is_empty() {
            return Ok(Line::Message);
        }
        if !matches!(line.first(), Some(b'{' | b'[')) {
            return Ok(Line::Noise);
        }
        let value = read::value(line, self.message_bytes_max)?;
        // A log in JSON is no message either.
        if value.as_object().is_some_and(|members| !members.contains_key("jsonrpc")) {
            return Ok(Line::Noise);
        }
        for message in read::messages_in(value)? {
            self.desk.hear(message, None, back)?;
        }
        Ok(Line::Message)
    }

    /// Never returns: a server may close the stream that it complains on.
    async fn note(&self, mut stderr: pipe::Receiver) {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            self.tail.add(buffer.get(..count).unwrap_or_default());
        }
        std::future::pending::<()>().await;
    }
}

enum Line {
    Message,
    Noise,
}

/// Returns when the child does not read any more.
async fn write(mut stdin: pipe::Sender, mut queued: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, went }) = queued.recv().await {
        went.store(true, Ordering::Relaxed);
        if stdin.write_all(&line).await.is_err() {
            // It got no end of it, so it was no message yet.
            went.store(false, Ordering::Relaxed);
            return;
        }
    }
    // Nobody holds the link any more; whoever dropped it stops us.
    std::future::pending::<()>().await;
}

fn ended_by(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with status {code}"),
        (None, Some(signal)) => format!("its process was ended by signal {signal}"),
        (None, None) => "its process ended".to_owned(),
    }
}

struct Tail {
    kept: Mutex<Vec<u8>>,
    redactor: Redactor,
}

impl Tail {
    fn add(&self, new: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(new.get(new.len().saturating_sub(TAIL_BYTES_MAX)..).unwrap_or_default());
        let over = kept.len().saturating_sub(TAIL_BYTES_MAX);
        kept.drain(..over);
    }

    fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let text = self.redactor.redact_text(&text);
        // The end says more than the beginning.
        let from = text.char_indices().rev().nth(499).map_or(0, |(at, _)| at);
        shown(text.get(from..).unwrap_or_default())
    }
}
