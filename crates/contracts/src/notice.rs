//! What is told to somebody outside when something happens: the types of webhook events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::definition::words;

words! {
    NoticeType {
        CallCompleted = "call.completed", CallFailed = "call.failed", CallOutcomeUnknown = "call.outcome_unknown",
        ApprovalRequested = "approval.requested", ApprovalReminder = "approval.reminder",
        ApprovalDecided = "approval.decided", ApprovalExpired = "approval.expired",
        InputRequested = "input.requested", LimitReached = "limit.reached", UpstreamDrifted = "upstream.drifted",
        AuditCheckpoint = "audit.checkpoint", ToolRun = "tool_run"
    }
}

words! { WebhookState { Active = "active", Paused = "paused" } }
words! {
    /// `held`: its webhook is paused, and it goes out when that is resumed.
    DeliveryState { Waiting = "waiting", Delivered = "delivered", Failed = "failed", Held = "held" }
}

/// The body of a webhook: ids and a link, never arguments or output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    #[serde(rename = "type")]
    pub notice_type: NoticeType,
    pub id: String,
    pub timestamp: Timestamp,
    pub tenant: String,
    /// `call_id`, `run_id`, `approval_id`, `tool`, `status`, `url`; of a `tool_run` also `source` and `duration_ms`.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}
