//! A statement of the caller's own that changes a database of the operator's, where its entry is `writable`. It is read and
//! sent like one of `database_read`, which may only read.

use serde_json::Value;
use toolgate_contracts::ToolError;
use toolgate_contracts::sql::judge::Effect;
use toolgate_engine::{Call, Outcome};

use crate::builtin::Tools;
use crate::database_read::{planned, sent};

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    sent(tools, call, Effect::Writes).await
}

pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    planned(tools, call, Effect::Writes).await
}
