//! Runs of workflows: begun, driven node by node, left where they wait, taken up by whoever finds them.

mod answer;
mod asking;
mod begin;
mod drive;
mod due;
mod instant;
mod next;
mod settle;

use toolgate_contracts::Caller;

pub(crate) use begin::Within;
pub use begin::{NewWorkflowRun, WorkflowRunView};
pub(crate) use due::RUNS_AT_ONCE_MAX;

/// Whoever shows a token for one run opens and ends what is below it all the same: the run is ours, not theirs.
fn opener(caller: &Caller) -> Caller {
    Caller { token: None, ..caller.clone() }
}
