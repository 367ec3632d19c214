//! Seed 001's `ToolRun`: a call that has ended, in twelve members.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_contracts::{CallId, Principal, RunId, Source, Status, TenantId, UserId};
use toolgate_store::calls::CallRecord;
use utoipa::ToSchema;

use super::{failure_text, object};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolRunStatus {
    Success,
    Error,
}

fn chat_of(record: &CallRecord) -> Option<String> {
    let metadata = record.metadata.as_ref()?;
    let said = metadata.get("chatId").or_else(|| metadata.get("chat_id"));
    said.and_then(Value::as_str).map(str::to_owned)
}

/// The three doors that the specification knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolRunSource {
    Web,
    Agent,
    Api,
}

impl ToolRunSource {
    pub const fn of(source: Source) -> Self {
        match source {
            Source::Web | Source::Embed => Self::Web,
            Source::Agent | Source::Mcp | Source::Workflow | Source::Schedule => Self::Agent,
            Source::Api | Source::Cli => Self::Api,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ToolRun {
    pub id: CallId,
    pub tenant_id: TenantId,
    pub tool_slug: String,
    pub user_id: Option<UserId>,
    #[schema(value_type = Object)]
    pub input: Map<String, Value>,
    #[schema(value_type = Option<Object>)]
    pub output: Option<Map<String, Value>>,
    pub status: ToolRunStatus,
    pub error: Option<String>,
    pub duration_ms: i64,
    pub source: ToolRunSource,
    /// What the caller said in the call's metadata; chats are not Toolgate's.
    pub chat_id: Option<String>,
    /// The run, where the call belongs to one.
    pub session_id: Option<RunId>,
}

impl ToolRun {
    /// `None` while it is open, and where nobody knows how it ended: the specification has no word for either.
    pub fn of(tenant: TenantId, record: &CallRecord) -> Option<Self> {
        let status = match record.status {
            Status::Completed => ToolRunStatus::Success,
            Status::Failed | Status::Rejected | Status::Cancelled => ToolRunStatus::Error,
            Status::Pending | Status::Approved | Status::Running | Status::OutcomeUnknown => return None,
        };
        let began = record.started_at.unwrap_or(record.created_at);
        let ended = record.completed_at.unwrap_or(began);
        Some(Self {
            id: record.id,
            tenant_id: tenant,
            tool_slug: record.tool_name.clone(),
            user_id: match record.principal {
                Principal::User(user) => Some(user),
                Principal::Local(_) => None,
            },
            input: object(record.input.clone().unwrap_or_default()),
            output: record.output.clone().map(object),
            status,
            error: failure_text(record.status, record.error.as_ref()),
            duration_ms: (ended.millis() - began.millis()).max(0),
            source: ToolRunSource::of(record.source),
            chat_id: chat_of(record),
            session_id: record.in_run.then_some(record.run),
        })
    }
}
