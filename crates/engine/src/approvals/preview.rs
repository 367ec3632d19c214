//! What a call would do, for the people who are asked about it: its runner's own dry run, worked out once, before they
//! are asked.
//!
//! Deliberately absent: secrets, of which a plan is given none, and a second look when somebody reads it. It says of when
//! it is and of which input, so that whoever reads it knows what it cannot know.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::timeout;
use toolgate_contracts::{Digest, ErrorCode, Mode, ToolError, json as strict};
use toolgate_store::approvals::Preview;

use crate::call::Call;
use crate::engine::Engine;
use crate::output;

/// Whoever asks waits for it.
const PREVIEW_WAIT: Duration = Duration::from_secs(5);
/// A card is for reading.
const PREVIEW_BYTES_MAX: u64 = 32 * 1024;

impl Engine {
    /// What this call would do. `Err`: it could not run at all, so that nobody need be asked. A plan that cannot be made
    /// for another reason is told, and stops nothing.
    pub(super) async fn foresee(&self, call: &Call) -> Result<Option<Preview>, ToolError> {
        if call.mode != Mode::Execute {
            return Ok(None);
        }
        let runner = self.runners.get(&call.tool.definition)?;
        let looked = async {
            if let Err(error) = runner.ready_for(&call.tenant_slug, &call.tool.definition).await
                && is_for_good(&error)
            {
                return Err(error);
            }
            runner.plan(call).await
        };
        // What breaks down here would break down when it runs; whether it runs is for people to say.
        let looked = timeout(PREVIEW_WAIT, AssertUnwindSafe(looked).catch_unwind()).await;
        let planned = match looked {
            Ok(Ok(planned)) => planned,
            Ok(Err(_)) => {
                tracing::error!(call = %call.id, tool = %call.tool.name, "the runner panicked while it planned");
                Err(failed("what runs it broke down"))
            }
            Err(_) => {
                call.cancel.cancel();
                Err(failed(&format!("it was not worked out within {} s", PREVIEW_WAIT.as_secs())))
            }
        };
        let shaped = match planned {
            Err(error) if is_for_good(&error) => return Err(error),
            Err(error) => output::Shaped::refused(error),
            Ok(plan) if plan["would_run"] == false => return Err(would_not_go_out(&plan)),
            Ok(plan) if says_nothing(&plan) => return Ok(None),
            Ok(plan) => output::shape_plan(&call.tool, plan, Some(PREVIEW_BYTES_MAX)),
        };
        let shaped = self.examined(call, shaped).await;
        Ok(Some(Preview {
            at: self.clock.now(),
            input_digest: Digest::of(strict::canonical(&call.input).as_bytes()),
            behaviour_digest: call.tool.behaviour_digest,
            failed: shaped.error.map(|error| error.message),
            plan: shaped.output,
            truncated: shaped.truncated,
        }))
    }
}

/// Whether the same call would be refused however often it was approved, until somebody changes it or the server.
fn is_for_good(error: &ToolError) -> bool {
    match error.code {
        ErrorCode::ValidationError => true,
        ErrorCode::PolicyDenied => error.reason() != "cancelled",
        ErrorCode::SandboxError => error.reason() == "tier_unavailable",
        _ => false,
    }
}

/// What would be refused on its way out.
fn would_not_go_out(plan: &Value) -> ToolError {
    let why = plan["refused"].as_str().unwrap_or("it would be refused on its way out");
    let error = ToolError::because(ErrorCode::PolicyDenied, "egress", why);
    // As if it had been sent and refused there.
    ["rule", "host"].into_iter().fold(error, |error, member| match plan.get(member) {
        Some(told) => error.with(member, told.clone()),
        None => error,
    })
}

/// A runner that has no plan says only that it would run.
fn says_nothing(plan: &Value) -> bool {
    plan.as_object().is_some_and(|plan| plan.keys().all(|key| key == "would_run"))
}

fn failed(message: &str) -> ToolError {
    ToolError::because(ErrorCode::Timeout, "timeout", message)
}
