//! A task that has ended, once more.

use toolgate_contracts::ToolError;
use toolgate_engine::hosting::Look;
use toolgate_engine::{Outcome, Permit};

use crate::builtin::Tools;
use crate::get_task_status::{looked, task_of};

pub(crate) async fn run(_tools: &Tools, permit: &Permit) -> Outcome {
    looked(again(permit).await)
}

async fn again(permit: &Permit) -> Result<Look, ToolError> {
    let task = task_of(permit)?;
    permit.hosting()?.retry(permit.call(), task).await
}
