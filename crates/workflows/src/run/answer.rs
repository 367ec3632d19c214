//! A run that answers a call: what it gave, or why not, as the call of the tool that it was published as.

use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::{ErrorCode, Fault, Status, TenantId, ToolError};
use toolgate_engine::control::Report;
use toolgate_store::runs::Run;
use toolgate_store::workflow_runs::WorkflowRun;

use super::next::Whole;
use crate::Workflows;

impl Workflows {
    /// Ends the call that a run answers, where there is one. One that has ended meanwhile is as it is.
    pub(super) async fn answer(&self, tenant: TenantId, kept: &WorkflowRun, stands: &Whole) -> Result<(), Fault> {
        let Some(call) = kept.for_call else { return Ok(()) };
        let Some(run) = self.registry().store().run(tenant, kept.run).await? else { return Ok(()) };
        let report = report(&run, stands);
        let actor = run.principal.to_string();
        let answered = self.engine().end_handed_over(tenant, call, report, &actor).await?;
        // Whoever waits for it may go on, also where nobody attends to what could.
        self.look_at(answered.run_id);
        Ok(())
    }
}

fn report(run: &Run, stands: &Whole) -> Report {
    let error = match (run.state, stands) {
        (RunState::Cancelled, _) => ToolError::cancelled(),
        (_, Whole::Completed(output)) => {
            // A workflow without an output gives nothing, which is an object all the same.
            let output = if output.is_null() { json!({}) } else { output.clone() };
            return reported(Status::Completed, Some(output), None);
        }
        (_, Whole::Failed(path, error)) => {
            let message = format!("the node `{path}`: {}", error.message);
            ToolError { message, ..error.clone() }.with("node", path.as_str())
        }
        (_, Whole::Open) => {
            let message = run.reason.as_deref().unwrap_or("the run of the workflow has ended");
            ToolError::because(ErrorCode::PolicyDenied, "permission", message)
        }
    };
    reported(Status::Failed, None, Some(error.with("run_id", run.id.to_string())))
}

fn reported(status: Status, output: Option<Value>, error: Option<ToolError>) -> Report {
    Report { status, output, result: None, error, cost: None }
}
