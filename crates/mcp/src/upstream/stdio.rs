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
use toolgate_vault::{Redactor, RedactorStream};

use super::desk::{Back, Desk, closed};
use super::error::{LinkError, shown};
use super::health::Pulse;
use super::place::{Given, Place, Upstream};
use super::{read, unsaid};

const QUEUE_MAX: usize = 64;
const CHUNK_BYTES: usize = 16 * 1024;
/// The end of what it complained about, of which the last is shown.
const TAIL_BYTES_MAX: usize = 8 * 1024;
const TAIL_CHARS_SHOWN: usize = 500;
/// Lines that are no messages.
const NOISE_LINES_MAX: usize = 1000;
/// How long its exit status, and the end of its complaints, is waited for once it says nothing any more.
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
        let (tail, redactor) = (Arc::<Tail>::default(), unsaid::of_complaints(upstream)?);
        let complaints = || Complaints::new(&redactor, &tail);
        let (noise, complaints) = (complaints(), complaints());
        let keeper = Keeper {
            desk: Arc::clone(desk),
            // Weak, so that the child's input is closed once nobody else can send to it.
            queue: queue.downgrade(),
            message_bytes_max: upstream.bounds.message_bytes_max,
            grace,
            stop,
        };
        let gone = CancellationToken::new();
        let is_gone = gone.clone().drop_guard();
        let said = Arc::clone(&tail);
        tokio::spawn(async move {
            let Duplex { stdin, stdout, stderr, child } = duplex;
            let mut noting = tokio::spawn(note(stderr, complaints));
            keeper.keep(child, stdin, stdout, queued, noise).await;
            // Its last words may still be on their way. Somebody else may hold that stream open, who is not waited for.
            if tokio::time::timeout(STATUS, &mut noting).await.is_err() {
                noting.abort();
            }
            let complaint = said.text();
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
    queue: mpsc::WeakSender<Outgoing>,
    message_bytes_max: usize,
    grace: Duration,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(
        self,
        mut child: Child,
        stdin: pipe::Sender,
        stdout: pipe::Receiver,
        queued: mpsc::Receiver<Outgoing>,
        noise: Complaints,
    ) {
        // Whatever ends first takes the others' streams with it: an input that is closed asks a server to leave.
        let broke = tokio::select! {
            why = self.read(stdout, noise) => Some(why),
            () = write(stdin, queued) => Some(closed("it no longer reads")),
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

    async fn read(&self, mut stdout: pipe::Receiver, mut noise: Complaints) -> LinkError {
        let back = back(self.queue.clone());
        let mut buffer = Vec::with_capacity(CHUNK_BYTES);
        let (mut scanned, mut noise_lines) = (0, 0);
        loop {
            buffer.reserve(CHUNK_BYTES);
            match stdout.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => {
                    noise.end();
                    return closed("it closed its output");
                }
                Ok(_) => {}
            }
            let mut from = 0;
            while let Some(length) = buffer.get(scanned..).and_then(|new| new.iter().position(|byte| *byte == b'\n')) {
                let end = scanned + length;
                let line = buffer.get(from..end).unwrap_or_default().trim_ascii();
                match self.line(line, &back) {
                    Ok(Line::Message) => {}
                    Ok(Line::Noise) => {
                        noise.add(line);
                        noise.add(b"\n");
                        noise_lines += 1;
                        if noise_lines > NOISE_LINES_MAX {
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
}

/// To the end of the stream that it complains on, which it may close long before it ends.
async fn note(mut stderr: pipe::Receiver, mut complaints: Complaints) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        complaints.add(buffer.get(..count).unwrap_or_default());
    }
    complaints.end();
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

/// What comes on one of its streams, on its way to the tail. What may yet become a secret is held back: each stream has
/// its own, or the other's words would stand between the halves.
struct Complaints {
    redactor: RedactorStream,
    /// The beginning of a character whose rest has not come.
    part: Vec<u8>,
    tail: Arc<Tail>,
}

impl Complaints {
    fn new(redactor: &Redactor, tail: &Arc<Tail>) -> Self {
        Self { redactor: redactor.stream(), part: Vec::new(), tail: Arc::clone(tail) }
    }

    fn add(&mut self, new: &[u8]) {
        let Self { redactor, part, tail } = self;
        part.extend_from_slice(new);
        let last = part.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
        let is_begun = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
        let rest = part.split_off(part.len() - if is_begun { last.len() } else { 0 });
        tail.add(&redactor.push(&String::from_utf8_lossy(part)));
        *part = rest;
    }

    /// Nothing more comes.
    fn end(self) {
        let Self { mut redactor, part, tail } = self;
        tail.add(&redactor.push(&String::from_utf8_lossy(&part)));
        tail.add(&redactor.finish());
    }
}

/// The last of what came on both streams, without secrets.
#[derive(Default)]
struct Tail(Mutex<String>);

impl Tail {
    fn add(&self, new: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(new);
        let over = kept.ceil_char_boundary(kept.len().saturating_sub(TAIL_BYTES_MAX));
        kept.drain(..over);
    }

    fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The end says more than the beginning.
        let from = text.char_indices().rev().nth(TAIL_CHARS_SHOWN - 1).map_or(0, |(at, _)| at);
        shown(text.get(from..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "k\u{e9}y-of-the-server-0123456789";

    /// Each piece comes on one of the two streams; what is shown after each of them, and in the end.
    fn shown_of(secret: &str, pieces: &[(usize, &[u8])]) -> Vec<String> {
        let redactor = Redactor::of_values([("KEY", secret.as_bytes())]).unwrap();
        let tail = Arc::<Tail>::default();
        let mut streams = [(); 2].map(|()| Complaints::new(&redactor, &tail));
        let mut shown = Vec::new();
        for (stream, piece) in pieces {
            streams[*stream].add(piece);
            shown.push(tail.text());
        }
        streams.into_iter().for_each(Complaints::end);
        shown.push(tail.text());
        shown
    }

    #[test]
    fn no_part_of_a_secret_is_shown_however_it_comes() {
        let noise = "noise ".repeat(100);
        for cut in 1..SECRET.len() {
            let (begin, rest) = SECRET.as_bytes().split_at(cut);
            let pieces = [(0, &b"I hold "[..]), (0, begin), (1, noise.as_bytes()), (0, rest), (0, b" now")];
            let shown = shown_of(SECRET, &pieces);
            for text in &shown {
                let mut parts = SECRET.as_bytes().windows(5);
                assert!(!parts.any(|part| text.as_bytes().windows(5).any(|of| of == part)), "{cut} {text}");
            }
            assert!(shown.last().unwrap().contains("[secret:KEY]"), "{cut} {shown:?}");
        }
    }

    #[test]
    fn what_is_too_long_to_be_kept_is_cut_after_its_secrets_are_out() {
        let secret = "0123456789".repeat(TAIL_BYTES_MAX / 10);
        let text = format!("{secret}{}", "x".repeat(100));
        let pieces: Vec<(usize, &[u8])> = text.as_bytes().chunks(4096).map(|piece| (0, piece)).collect();
        for shown in shown_of(&secret, &pieces) {
            assert!(!shown.contains("0123"), "{shown}");
        }
    }

    #[test]
    fn what_holds_no_secret_is_shown_as_it_came() {
        let text = "na\u{ef}ve \u{1f980} words, and a byte that is none: ";
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0xff);
        let pieces: Vec<(usize, &[u8])> = bytes.chunks(1).map(|piece| (0, piece)).collect();
        assert_eq!(shown_of(SECRET, &pieces).last().unwrap(), &format!("{text}\u{fffd}"));
    }
}
