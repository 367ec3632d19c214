//! Runs of workflows: begun, driven node by node, left where they wait, taken up by whoever finds them.

mod asking;
mod begin;
mod drive;
mod instant;
mod next;

pub(crate) use begin::RUNS_AT_ONCE_MAX;
pub use begin::{NewWorkflowRun, WorkflowRunView};
