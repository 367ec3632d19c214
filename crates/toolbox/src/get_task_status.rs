//! How a task stands that an agent was given.

use serde::Deserialize;
use toolgate_contracts::{RunId, ToolError, ToolResult};
use toolgate_engine::hosting::Look;
use toolgate_engine::runner::Done;
use toolgate_engine::{Outcome, Permit};

use crate::builtin::{Tools, input, invalid};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    task: String,
}

pub(crate) async fn run(_tools: &Tools, permit: &Permit) -> Outcome {
    looked(look(permit).await)
}

async fn look(permit: &Permit) -> Result<Look, ToolError> {
    let task = task_of(permit)?;
    permit.hosting()?.task(permit.call(), task).await
}

pub(crate) fn task_of(permit: &Permit) -> Result<RunId, ToolError> {
    let Input { task } = input(permit.call())?;
    task.parse().map_err(|_| invalid("task", "it is no task's id; take the `task` of the call that made it"))
}

pub(crate) fn looked(look: Result<Look, ToolError>) -> Outcome {
    match look {
        Ok(Look { value, labels }) => {
            Outcome::Done(Done { result: ToolResult::structured(value), labels, ..Done::default() })
        }
        Err(error) => error.into(),
    }
}
