//! What a run came to. Everything here was said by hostile code or measured by us; each field tells which.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::{ErrorCode, ToolError};

use crate::request::{Limits, Tier};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Cpu,
    Wall,
    Memory,
    Output,
    OpenFiles,
    Processes,
    Scratch,
}

impl LimitKind {
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Wall, Self::Memory, Self::Output, Self::OpenFiles, Self::Processes, Self::Scratch];

    /// The name of the field in [`Limits`].
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::Memory => "memory_bytes",
            Self::Output => "output_bytes",
            Self::OpenFiles => "open_files",
            Self::Processes => "processes",
            Self::Scratch => "scratch_bytes",
        }
    }
}

/// A line of the code that an exception went through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub line: u32,
    pub function: String,
    /// The line itself.
    pub text: String,
}

/// An exception that the code did not catch, in the code's own lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The name of its class.
    pub kind: String,
    pub message: String,
    /// Outermost first; what is not the code's own is left out.
    pub frames: Vec<Frame>,
}

impl Raised {
    /// As Python would print it.
    pub fn traceback(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        if !self.frames.is_empty() {
            text.push_str("Traceback (most recent call last):\n");
        }
        for Frame { line, function, text: source } in &self.frames {
            let _ = writeln!(text, "  line {line}, in {function}");
            if !source.is_empty() {
                let _ = writeln!(text, "    {source}");
            }
        }
        text.push_str(&self.kind);
        if !self.message.is_empty() {
            let _ = write!(text, ": {}", self.message);
        }
        text
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With this value.
    Finished(Value),
    Raised(Raised),
    /// In the code's own words, which are those of our errors.
    Failed(ToolError),
    Limit(LimitKind),
    /// Without an answer: it left by itself, or a signal ended it.
    Died {
        how: String,
    },
    /// With an answer that is none: not a frame, not JSON, not a value that we can keep.
    Unreadable {
        why: String,
    },
}

/// What a run used, as the kernel counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    pub wall: Duration,
    /// The most memory it had at once, what it shares with the interpreter included.
    pub peak_memory_bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SandboxResult {
    pub tier: Tier,
    pub ended: Ended,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub usage: Usage,
}

impl SandboxResult {
    /// The value, or how a call that ran this failed.
    pub fn outcome(self, limits: &Limits) -> Result<Value, ToolError> {
        let failed = |reason: &str, message: String| ToolError::because(ErrorCode::SandboxError, reason, message);
        Err(match self.ended {
            Ended::Finished(value) => return Ok(value),
            Ended::Limit(LimitKind::Wall) => ToolError::because(
                ErrorCode::Timeout,
                "wall",
                format!("the code ran longer than `wall` allows, {:?}", limits.wall),
            ),
            Ended::Limit(LimitKind::Cpu) => {
                failed("cpu", format!("the code used more processor time than `cpu` allows, {:?}", limits.cpu))
            }
            Ended::Limit(LimitKind::Memory) => {
                failed("memory", format!("the code wanted more than `memory_bytes`, {}", limits.memory_bytes))
            }
            Ended::Limit(LimitKind::Output) => failed(
                "output",
                format!("the code wrote or returned more than `output_bytes`, {}", limits.output_bytes),
            ),
            Ended::Limit(LimitKind::OpenFiles) => {
                failed("files", format!("the code opened more files than `open_files`, {}", limits.open_files))
            }
            Ended::Limit(LimitKind::Processes) => {
                failed("processes", format!("the code started more threads than `processes`, {}", limits.processes))
            }
            Ended::Limit(LimitKind::Scratch) => {
                failed("disk", format!("the code wrote more files than `scratch_bytes`, {}", limits.scratch_bytes))
            }
            Ended::Raised(raised) => {
                let line = raised.frames.last().map(|frame| frame.line);
                let mut error = failed("exception", format!("{}: {}", raised.kind, raised.message));
                if let Some(line) = line {
                    error = error.with("line", line);
                }
                error.with("traceback", raised.traceback())
            }
            Ended::Failed(error) => error,
            Ended::Died { how } => failed("exception", format!("the code ended without an answer: {how}")),
            Ended::Unreadable { why } => failed("output", format!("the code's answer cannot be read: {why}")),
        })
    }
}
