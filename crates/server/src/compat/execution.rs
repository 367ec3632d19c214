//! Seed 001's `executeTool(slug, input, source, options)` and what it gives back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_contracts::{CallId, Envelope, Status};
use utoipa::ToSchema;

use super::tool_run::ToolRunSource;
use super::{error_text, failure_text, waiting};

/// The arguments, by name.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The tool's name.
    pub slug: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub input: Map<String, Value>,
    /// Only `agent` says something that the credential does not: it makes the call one of an agent's.
    #[serde(default)]
    pub source: Option<ToolRunSource>,
    /// Kept as the call's metadata. Rights come from the credential, never from here.
    #[serde(default, alias = "opts")]
    #[schema(value_type = Option<Object>)]
    pub options: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// A call that waits is an error here too, since there is no third word.
    pub error: Option<String>,
    pub duration_ms: i64,
    pub run_id: CallId,
}

impl Execution {
    pub fn of(envelope: &Envelope) -> Self {
        let error = match envelope.status {
            open @ (Status::Pending | Status::Approved | Status::Running) => Some(error_text(&waiting(open))),
            status => failure_text(status, envelope.error.as_ref()),
        };
        Self {
            output: envelope.output.clone().filter(|_| error.is_none()),
            error,
            duration_ms: (envelope.t_end.millis() - envelope.t_start.millis()).max(0),
            run_id: envelope.id,
        }
    }
}
