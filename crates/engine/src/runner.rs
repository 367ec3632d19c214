//! What runs tools, wired once at the start: one runner for each `kind` of `contracts::Runner`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::{Amount, Definition, ErrorCode, ToolError, ToolResult};

use crate::call::Call;
use crate::permit::Permit;

/// Object-safe: runners are wired at start.
pub trait Runner: Send + Sync {
    /// Runs the call. The permit is consumed: one permit, one run. A runner listens to `call.cancel` where it can; one
    /// that does not is dropped, and for a call with effects that means that nobody knows how it ended.
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome>;

    /// What running would do, without doing it: no permit, no secrets.
    fn plan<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(Ok(json!({"would_run": true}))))
    }

    /// Whether it could run this tool now, for `tool preflight`; asks nobody outside for longer than a moment.
    fn ready<'a>(&'a self, _definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// What a runner needs of this machine, and what it found; for `toolgate doctor`.
#[derive(Clone, Debug)]
pub struct Need {
    pub name: &'static str,
    pub found: String,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    Done(Done),
    /// It failed, and for a call with effects: nothing happened, or what happened is told in the error.
    Failed(ToolError),
    /// It may have happened or not. Only for calls with effects; another's counts as failed.
    Unknown(String),
    /// Carried out by somebody else's process, which will report.
    HandedOver,
}

#[derive(Debug, Default)]
pub struct Done {
    pub result: ToolResult,
    pub attachments: Vec<NewAttachment>,
    /// Measured; absent: as declared.
    pub cost: Option<Amount>,
    /// How many of the definition's `cost.unit` were used.
    pub units: Option<u64>,
}

#[derive(Debug)]
pub struct NewAttachment {
    pub kind: AttachmentKind,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

impl Outcome {
    pub fn structured(value: Value) -> Self {
        Self::Done(Done { result: ToolResult::structured(value), ..Done::default() })
    }

    pub fn failed(code: ErrorCode, reason: &str, message: impl Into<String>) -> Self {
        Self::Failed(ToolError::because(code, reason, message))
    }
}

impl From<ToolError> for Outcome {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// Output that waits to be written. At the bound a runner waits.
const PENDING_BYTES_MAX: usize = 64 * 1024;
/// From here on it is written before its time.
const CROWDED_BYTES: usize = 4 * 1024;

/// Where a runner writes output as it comes. Where nobody listens it goes nowhere.
#[derive(Clone, Debug, Default)]
pub struct OutputSink(Option<Arc<Buffer>>);

#[derive(Debug, Default)]
struct Buffer {
    pending: Mutex<String>,
    arrived: Notify,
    crowded: Notify,
    drained: Notify,
}

impl OutputSink {
    pub fn buffered() -> Self {
        Self(Some(Arc::default()))
    }

    /// Waits while too much is pending, so that a chatty tool cannot fill the memory.
    pub async fn append(&self, text: impl AsRef<str>) {
        let Some(buffer) = &self.0 else { return };
        let text = text.as_ref();
        loop {
            let drained = buffer.drained.notified();
            {
                let mut pending = buffer.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if pending.is_empty() || pending.len() + text.len() <= PENDING_BYTES_MAX {
                    pending.push_str(text);
                    break;
                }
            }
            drained.await;
        }
        buffer.arrived.notify_one();
        if buffer.pending.lock().unwrap_or_else(PoisonError::into_inner).len() >= CROWDED_BYTES {
            buffer.crowded.notify_one();
        }
    }

    /// Resolves when so much waits that it should be taken soon.
    pub(crate) async fn crowded(&self) {
        match &self.0 {
            Some(buffer) => buffer.crowded.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when there is output to take.
    pub(crate) async fn arrived(&self) {
        match &self.0 {
            Some(buffer) => buffer.arrived.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn take(&self) -> String {
        let Some(buffer) = &self.0 else { return String::new() };
        let taken = std::mem::take(&mut *buffer.pending.lock().unwrap_or_else(PoisonError::into_inner));
        buffer.drained.notify_waiters();
        taken
    }
}

/// The runners of this program by kind. A kind without one is a tool that cannot run here, and says so.
#[derive(Clone, Default)]
pub struct Runners(HashMap<&'static str, Arc<dyn Runner>>);

impl Runners {
    #[must_use]
    pub fn with(mut self, kind: &'static str, runner: Arc<dyn Runner>) -> Self {
        self.0.insert(kind, runner);
        self
    }

    pub(crate) async fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        for runner in self.0.values() {
            needs.extend(runner.needs().await);
        }
        needs.sort_by_key(|need| need.name);
        needs
    }

    pub fn get(&self, definition: &Definition) -> Result<&Arc<dyn Runner>, ToolError> {
        let kind = definition.runner.kind();
        self.0.get(kind).ok_or_else(|| {
            ToolError::because(
                ErrorCode::SandboxError,
                "tier_unavailable",
                format!("tools of kind `{kind}` cannot run on this server: it has no runner for them"),
            )
        })
    }
}
