//! Runs of workflows: begun, driven node by node, left where they wait, taken up by whoever finds them.

mod answer;
mod asking;
mod begin;
mod drive;
mod due;
mod held;
mod instant;
mod next;
mod settle;
mod view;

use toolgate_contracts::Caller;

pub use begin::NewWorkflowRun;
pub(crate) use begin::Within;
pub(crate) use due::{PutOff, RUNS_AT_ONCE_MAX};
pub use view::{NodesWanted, WorkflowRunView};

/// Whoever shows a token for one run opens and ends what is below it all the same: the run is ours, not theirs.
fn opener(caller: &Caller) -> Caller {
    Caller { token: None, ..caller.clone() }
}
