//! How much of an answer is taken, and how long it is waited for.

use std::time::Duration;

/// Of one question to a model, all its tries together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// From the first try to the end of the answer.
    pub wall: Duration,
    /// Until an answer begins. One that comes whole begins when the model has thought it to its end.
    pub first: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// On the wire, of an answer in pieces: most of it is wrapping, some hundred bytes around each word.
    pub stream_bytes_max: usize,
    /// Of an answer that comes whole, and of one event.
    pub event_bytes_max: usize,
    /// What the model said: its text and the arguments of its calls.
    pub said_bytes_max: usize,
    pub calls_max: usize,
    /// The first one counted in.
    pub tries_max: u32,
    /// The longest wait before another try; a provider that asks for more is told on.
    pub wait_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            wall: Duration::from_mins(10),
            first: Duration::from_mins(5),
            idle: Duration::from_mins(2),
            stream_bytes_max: 32 * 1024 * 1024,
            event_bytes_max: 8 * 1024 * 1024,
            said_bytes_max: 4 * 1024 * 1024,
            calls_max: 1024,
            tries_max: 4,
            wait_max: Duration::from_mins(1),
        }
    }
}
