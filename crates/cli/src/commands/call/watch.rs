//! Watching a call from its submission to its end: what it says meanwhile, how long it takes, and Ctrl-C.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;

use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Duration, Instant, MissedTickBehavior};
use toolgate_contracts::Envelope;

use super::outcome::is_final;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{clean, note, text_of};

/// How long one request waits; shorter than connections are kept.
const ASK: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(1);
/// What was said last may come a moment after the end.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub enum Patience {
    ToTheEnd,
    Until(Instant),
}

/// Ctrl-C, counted. From here on it does not end the program.
pub struct Interrupts {
    signal: Signal,
    count: u32,
}

impl Interrupts {
    pub fn new() -> Result<Self, Failure> {
        let signal = signal(SignalKind::interrupt()).map_err(|error| {
            Failure::failed(format!("cannot listen for signals: {error}"), "check the limits of the process")
        })?;
        Ok(Self { signal, count: 0 })
    }

    pub async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.count += 1;
    }
}

/// Submits; whoever presses Ctrl-C meanwhile has the call stopped as soon as it has a name.
pub async fn submit(client: &Client, body: Value, interrupts: &mut Interrupts) -> Result<Value, Failure> {
    let mut asked = pin!(client.post(&["calls"], body));
    loop {
        tokio::select! {
            answer = &mut asked => return answer,
            () = interrupts.next() => {
                if interrupts.count > 1 {
                    return Err(Failure::failed(
                        "left before the call was answered: it may run or have run",
                        "look for it with `toolgate calls list`",
                    ));
                }
            }
        }
    }
}

/// Waits until the call has ended, or patience has; shows what it says, and asks it to stop on Ctrl-C.
pub async fn to_the_end(
    client: &Client,
    first: Value,
    patience: Patience,
    interrupts: &mut Interrupts,
) -> Result<Value, Failure> {
    let (id, run) = (text_of(&first, "id"), text_of(&first, "run_id"));
    let live = RefCell::new(Live::new(&first));
    let mut follower = client.follow(&run)?;
    let follow = async {
        while let Ok(event) = follower.next().await {
            match event["type"].as_str().filter(|_| event["call_id"] == id.as_str()) {
                Some("tool.output_appended") => live.borrow_mut().say(&text_of(&event["data"], "text")),
                Some("tool.completed" | "tool.failed" | "tool.cancelled") => return,
                _ => {}
            }
        }
        // Nothing more to show: how the call ends is asked for by itself.
        std::future::pending::<()>().await;
    };
    let mut follow = pin!(follow);
    let (mut followed, mut asked_to_stop) = (false, false);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut last = first.clone();
    while !is_final(&last) {
        if interrupts.count > 1 {
            break;
        }
        if interrupts.count == 1 && !asked_to_stop {
            asked_to_stop = true;
            live.borrow_mut().clear();
            note("Asking the call to stop. Ctrl-C once more leaves it alone.");
            match client.post(&["calls", &id, "cancel"], Value::Object(serde_json::Map::new())).await {
                Ok(answer) => last = answer,
                // It ended meanwhile, or cannot be stopped by this caller.
                Err(failure) => note(&format!("It was not stopped: {}", failure.told())),
            }
            continue;
        }
        let wait = match patience {
            Patience::ToTheEnd => ASK,
            Patience::Until(until) => ASK.min(until.saturating_duration_since(Instant::now())),
        };
        if wait.is_zero() {
            break;
        }
        let seconds = wait.as_millis().div_ceil(1000);
        let query = [("wait", Some(seconds.to_string()))];
        let path = ["calls", id.as_str()];
        let mut asked = pin!(client.get(&path, &query));
        loop {
            tokio::select! {
                answer = &mut asked => {
                    last = answer.map_err(|failure| failure.hint(format!("the call goes on; see `toolgate calls show {id}`")))?;
                    break;
                }
                () = &mut follow, if !followed => followed = true,
                _ = ticks.tick() => live.borrow_mut().tick(),
                () = interrupts.next() => break,
            }
        }
    }
    if is_final(&last) && !followed {
        let _ = tokio::time::timeout(LAST_WORDS, &mut follow).await;
    }
    live.borrow_mut().clear();
    Ok(envelope(last, &first))
}

/// The envelope of a call that was read with more than that; what only its submission tells is kept.
fn envelope(read: Value, first: &Value) -> Value {
    let Ok(mut envelope) = serde_json::from_value::<Envelope>(read.clone()) else { return read };
    if let Ok(first) = serde_json::from_value::<Envelope>(first.clone()) {
        envelope.warnings = first.warnings;
    }
    serde_json::to_value(envelope).unwrap_or(read)
}

/// What a person sees of a call while it runs, on standard error.
struct Live {
    /// Only there a line can be taken back.
    terminal: bool,
    name: String,
    begun: Instant,
    shown: bool,
    /// Whether what was said last ended with its line.
    line_ended: bool,
}

impl Live {
    fn new(envelope: &Value) -> Self {
        let name = clean(&format!("{}@{}", text_of(envelope, "name"), text_of(envelope, "version")));
        Self { terminal: io::stderr().is_terminal(), name, begun: Instant::now(), shown: false, line_ended: true }
    }

    fn tick(&mut self) {
        if self.terminal && self.line_ended {
            // It was submitted a second before.
            let seconds = self.begun.elapsed().as_secs() + super::SHORT;
            let _ = write!(io::stderr().lock(), "\r\x1b[K{} is running, {seconds} s", self.name);
            self.shown = true;
        }
    }

    fn say(&mut self, text: &str) {
        self.clear();
        if !text.is_empty() {
            self.line_ended = text.ends_with('\n');
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "{}", clean(text)).and_then(|()| stderr.flush());
        }
    }

    /// Leaves an empty line for whatever comes.
    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
        if !self.line_ended {
            let _ = writeln!(io::stderr().lock());
        }
    }
}
