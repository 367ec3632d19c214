//! The tasks extension: a call as something to come back for. A task is the call's own row, so it is durable before its
//! client hears of it, and any replica knows it.

use serde_json::{Map, Value, json};
use toolgate_contracts::{CallId, Envelope, Status, Timestamp};
use toolgate_store::calls::CallRecord;

use super::{Client, Surface, result, text};
use crate::wire::RpcError;

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const POLL_EVERY_MS: u64 = 2_000;

/// The handle that a client gets instead of a result.
pub(super) fn created(record: &CallRecord, now: Timestamp) -> Value {
    let mut task = members(record, now);
    task.insert("resultType".into(), "task".into());
    Value::Object(task)
}

fn members(record: &CallRecord, now: Timestamp) -> Map<String, Value> {
    let (status, told) = match record.status {
        Status::Pending => ("working", Some("a person has to decide")),
        Status::Approved | Status::Running => ("working", None),
        Status::Cancelled => ("cancelled", None),
        // Whatever a tool or a person says is a result; a failed task is one of the protocol.
        Status::Completed | Status::Failed | Status::Rejected | Status::OutcomeUnknown => ("completed", None),
    };
    let mut task = Map::new();
    task.insert("taskId".into(), json!(record.id));
    task.insert("status".into(), status.into());
    if let Some(told) = told {
        task.insert("statusMessage".into(), told.into());
    }
    task.insert("createdAt".into(), json!(record.created_at));
    let updated = record.completed_at.or(record.started_at).unwrap_or(record.created_at);
    task.insert("lastUpdatedAt".into(), json!(updated.min(now)));
    // Kept as long as the tenant keeps calls.
    task.insert("ttlMs".into(), Value::Null);
    task.insert("pollIntervalMs".into(), POLL_EVERY_MS.into());
    task
}

impl Surface {
    pub(super) async fn get_task(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let record = self.own_task(client, params).await?;
        let mut task = members(&record, self.clock.now());
        if task.get("status") == Some(&"completed".into()) {
            let envelope: Envelope = self.engine.answer(client.caller.tenant, record.id).await?;
            self.engine.join_read(&client.caller, &envelope.labels, &envelope.name).await?;
            task.insert("result".into(), super::stamped(result::of(&envelope, client.revision), client.revision));
        }
        Ok(Value::Object(task))
    }

    /// Nothing is ever asked of a task: what a person decides they decide on its page.
    pub(super) async fn update_task(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        self.own_task(client, params).await?;
        if !params.get("inputResponses").is_some_and(Value::is_object) {
            return Err(RpcError::invalid_params("`inputResponses` is needed, an object"));
        }
        Ok(json!({}))
    }

    pub(super) async fn cancel_task(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let record = self.own_task(client, params).await?;
        if !record.status.is_final() {
            self.engine.cancel(&client.caller, &record.id.to_string()).await?;
        }
        Ok(json!({}))
    }

    /// A task of this caller; another's looks like none.
    async fn own_task(&self, client: &Client, params: &Map<String, Value>) -> Result<CallRecord, RpcError> {
        if !client.takes_tasks() {
            let required = json!({"extensions": {EXTENSION: {}}});
            return Err(RpcError::missing_capability(
                "tasks need the extension to be declared on the request",
                &required,
            ));
        }
        let id = text(params, "taskId")?;
        let unknown = || RpcError::invalid_params("there is no such task");
        let id: CallId = id.parse().map_err(|_| unknown())?;
        let record = self.engine.readable(&client.caller, &id.to_string()).await.map_err(|_| unknown())?;
        let theirs = record.principal == client.caller.principal && self.is_of_group(client, record.tool);
        if theirs { Ok(record) } else { Err(unknown()) }
    }
}
