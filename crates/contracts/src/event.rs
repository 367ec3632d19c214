//! What happened in a run, numbered without a gap.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::definition::words;
use crate::id::{CallId, RunId};

words! {
    /// Seed 001's seven `tool.*` and no others of that prefix; the rest are ours.
    EventType {
        RunStarted = "run.started", RunWaiting = "run.waiting", RunResumed = "run.resumed",
        RunCompleted = "run.completed", RunFailed = "run.failed", RunCancelled = "run.cancelled",
        ModelRequested = "model.requested", ModelDelta = "model.delta", ModelCompleted = "model.completed",
        ModelFailed = "model.failed",
        ToolStarted = "tool.started", ToolOutputAppended = "tool.output_appended", ToolCompleted = "tool.completed",
        ToolFailed = "tool.failed", ToolCancelled = "tool.cancelled", ToolNeedsApproval = "tool.needs_approval",
        ToolApproved = "tool.approved",
        ApprovalRequested = "approval.requested", ApprovalDecided = "approval.decided",
        ApprovalRejected = "approval.rejected", ApprovalExpired = "approval.expired",
        StepStarted = "step.started", StepCompleted = "step.completed", StepFailed = "step.failed",
        InputRequested = "input.requested", InputSubmitted = "input.submitted",
        InputExpired = "input.expired", InputCancelled = "input.cancelled", LimitReached = "limit.reached"
    }
}

/// An event as it is written; its number and run are those of the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewEvent {
    #[serde(rename = "type")]
    pub event_type: EventType,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call_id: Option<CallId>,
    pub at: Timestamp,
    pub actor: String,
    /// Ids, names, numbers and words; never a payload.
    #[serde(skip_serializing_if = "Map::is_empty", default)]
    pub data: Map<String, Value>,
}

/// An event as it is read. Output as it comes has no number of its own: it stands after `after_seq`, as `part`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u64>,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(rename = "type")]
    pub event_type: EventType,
    pub at: Timestamp,
    pub actor: String,
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}
