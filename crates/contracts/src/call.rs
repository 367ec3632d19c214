//! A call: what is asked, what a runner gives back, and the envelope that everyone sees.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::amount::Amount;
use crate::clock::Timestamp;
use crate::definition::{Label, words};
use crate::digest::Digest;
use crate::fault::ToolError;
use crate::id::{CallId, RunId, StepId};

/// How long an answer may be waited for.
pub const WAIT_S_MAX: u64 = 60;
pub const WAIT_S_DEFAULT: u64 = 30;
/// Calls in one batch.
pub const BATCH_CALLS_MAX: usize = 100;
pub const REQUEST_ID_BYTES_MAX: usize = 200;
/// `metadata` is carried along and searched, not a second input.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;

words! {
    /// `status` moves only along the arrows of `contracts.md` §2; the database holds the same rule.
    Status {
        Pending = "pending", Approved = "approved", Rejected = "rejected", Running = "running",
        Completed = "completed", Failed = "failed", Cancelled = "cancelled", OutcomeUnknown = "outcome_unknown"
    }
}

impl Status {
    /// Nothing moves it any more, or only a person does.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Rejected | Self::Cancelled | Self::OutcomeUnknown => true,
            Self::Pending | Self::Approved | Self::Running => false,
        }
    }
}

words! {
    ApprovalStatus { Pending = "pending", Approved = "approved", Rejected = "rejected", NotRequired = "not_required" }
}
words! {
    /// `execute`: Toolgate runs the tool. `record`: the caller runs it and reports. `dry_run`: everything but the effect.
    Mode { Execute = "execute", Record = "record", DryRun = "dry_run" }
}

words! {
    /// A kill switch sets `frozen_at`, it is not a state.
    RunState {
        Queued = "queued", Running = "running", WaitingHuman = "waiting_human",
        Completed = "completed", Failed = "failed", Cancelled = "cancelled"
    }
}

words! {
    /// What drives a run: an agent's model, a workflow's graph, or whoever makes the calls.
    RunKind { Agent = "agent", Workflow = "workflow", Calls = "calls" }
}

#[expect(clippy::derivable_impls, reason = "words have no place for what is derived")]
impl Default for RunKind {
    fn default() -> Self {
        Self::Calls
    }
}

impl RunState {
    pub const fn is_final(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::WaitingHuman => false,
        }
    }
}

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// `name` or `name@version`.
    pub tool: String,
    #[serde(default = "no_input")]
    #[schema(value_type = Object)]
    pub input: Value,
    /// Idempotency key for 24 hours: the same id and body answer the first call, another body is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// The call's place in its run, counted from 0; absent: the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
    /// By id or name: one that the caller manages. It only narrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default = "execute")]
    pub mode: Mode,
    /// Whole seconds, 0 to 60; past it the answer is the call as it then is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// Only shortens the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Added to those the call has anyway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
}

fn no_input() -> Value {
    Value::Object(Map::new())
}

const fn execute() -> Mode {
    Mode::Execute
}

impl CallRequest {
    pub fn new(tool: impl Into<String>, input: Value) -> Self {
        Self {
            tool: tool.into(),
            input,
            request_id: None,
            run_id: None,
            step_id: None,
            seq: None,
            agent_id: None,
            mode: Mode::Execute,
            wait: None,
            timeout_ms: None,
            metadata: None,
            labels: Vec::new(),
        }
    }
}

/// What a tool gives back (seed 004).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Validated against the tool's `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured: Option<Value>,
    #[serde(default)]
    pub is_error: bool,
    /// For the application; it never reaches a model, a trace or a replay bundle's messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub app_data: Option<Value>,
}

impl ToolResult {
    pub fn structured(value: Value) -> Self {
        Self { structured: Some(value), ..Self::default() }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text { text: text.into() }], ..Self::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    Text {
        text: String,
    },
    /// Base64.
    Image {
        data: String,
        mime_type: String,
    },
    Audio {
        data: String,
        mime_type: String,
    },
    ResourceLink {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Json {
        #[schema(value_type = Object)]
        value: Value,
    },
    /// A block of another protocol that has no form here, as it came.
    Mcp {
        #[schema(value_type = Object)]
        block: Value,
    },
}

words! { AttachmentKind { Blob = "blob", Image = "image", Table = "table" } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    pub kind: AttachmentKind,
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// That an entry of the log records the call. Its index is `null` until the sequencer has given one, within a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    pub entry_digest: Digest,
    pub log: String,
    pub index: Option<u64>,
}

/// How a call stands or ended: seed 003's envelope, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Envelope {
    pub id: CallId,
    pub status: Status,
    pub run_id: RunId,
    pub call_id: String,
    pub name: String,
    pub version: String,
    #[schema(value_type = Object)]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    pub t_start: Timestamp,
    pub t_end: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// Things the caller should know that are no failure: an old name, a deprecated version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// A person approved it with another input than was asked for: `input` is what ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// Seed 003's eleven members and no others.
const SEED_MEMBERS: [&str; 11] = [
    "call_id",
    "name",
    "version",
    "input",
    "output",
    "error",
    "t_start",
    "t_end",
    "cached",
    "truncated",
    "attachments",
];

impl Envelope {
    /// As seed 003 spells it, for `AgentOutputs` and the compatibility views.
    pub fn seed(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(members) = &mut value {
            members.retain(|name, _| SEED_MEMBERS.contains(&name.as_str()));
        }
        value
    }
}
