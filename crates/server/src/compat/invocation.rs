//! Seed 000's `tool_invocations`: seventeen columns in their order, and the four that its view joins.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{AgentId, ApprovalStatus, CallId, RunId, Status, StepId, Timestamp, ToolId};
use toolgate_store::calls::CallRecord;
use utoipa::ToSchema;

use super::{failure_text, number, uuid_of};

/// The six states that the specification knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvocationStatus {
    Pending,
    Approved,
    Rejected,
    Running,
    Completed,
    Failed,
}

impl InvocationStatus {
    /// `cancelled` is a failure with words; an unknown outcome stays `running`, so that nobody repeats what may have
    /// happened.
    pub const fn of(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Approved => Self::Approved,
            Status::Rejected => Self::Rejected,
            Status::Running | Status::OutcomeUnknown => Self::Running,
            Status::Completed => Self::Completed,
            Status::Failed | Status::Cancelled => Self::Failed,
        }
    }

    /// The states of ours that look like this one.
    pub fn ours(self) -> Vec<Status> {
        Status::ALL.iter().copied().filter(|status| Self::of(*status) == self).collect()
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Invocation {
    pub id: CallId,
    pub team_run_id: RunId,
    pub agent_run_step_id: Option<StepId>,
    pub tool_id: ToolId,
    pub ai_lenser_id: Option<AgentId>,
    /// `null` once it was erased.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    pub status: InvocationStatus,
    #[schema(value_type = String)]
    pub approval_status: ApprovalStatus,
    pub approval_required: bool,
    /// `null` where no person decided who has a UUID.
    pub approval_decided_by: Option<uuid::Uuid>,
    pub approval_reason: Option<String>,
    pub error: Option<String>,
    /// What the caller reported; else what the server counted, else what the tool declares.
    #[schema(value_type = Option<f64>)]
    pub cost_estimate: Option<Value>,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// A row of the view.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct JoinedInvocation {
    #[serde(flatten)]
    pub invocation: Invocation,
    pub tool_key: String,
    pub tool_name: String,
    #[schema(value_type = String)]
    pub egress_class: EgressClass,
    pub step_title: Option<String>,
}

impl Invocation {
    pub fn of(record: &CallRecord) -> Self {
        let cost = record.reported_cost.or(record.cost).or(record.cost_estimate);
        Self {
            id: record.id,
            team_run_id: record.root_run,
            agent_run_step_id: record.step,
            tool_id: record.tool,
            ai_lenser_id: record.agent,
            input: record.input.clone(),
            output: record.output.clone(),
            status: InvocationStatus::of(record.status),
            approval_status: record.approval_status,
            approval_required: record.approval_required,
            approval_decided_by: record.approval_decided_by.as_deref().and_then(uuid_of),
            approval_reason: record.approval_reason.clone(),
            error: failure_text(record.status, record.error.as_ref()),
            cost_estimate: cost.map(number),
            started_at: record.started_at,
            completed_at: record.completed_at,
            created_at: record.created_at,
        }
    }

    /// `title` is the tool's, which the record does not hold.
    pub fn joined(record: &CallRecord, title: &str) -> JoinedInvocation {
        JoinedInvocation {
            invocation: Self::of(record),
            tool_key: record.tool_name.clone(),
            tool_name: title.to_owned(),
            egress_class: record.class,
            step_title: record.step_title.clone(),
        }
    }
}
