//! Calls that wait for a person. A parked call is a row, not a task in memory: the process may stop, another replica may
//! decide, a third may run it.
//!
//! `park` writes down what is asked; `decide` takes a choice, `vote` counts it and turns enough of them into a grant, `edit`
//! puts another input up; `judge` asks everything once more, and `resume` spends the grant and runs the stored bytes; `time`
//! and `ending` end what does not run. Invariant: what a person decides on is the stored input, and what runs is the same
//! bytes, whatever a caller sends meanwhile.

mod card;
mod decide;
mod edit;
mod eligible;
mod ending;
mod judge;
mod park;
mod preview;
mod resume;
mod standing;
mod time;
mod vote;

pub use card::{Card, CardPreview, CardVote, Earlier};
pub use decide::{BulkAnswer, Choice, Decided};
pub use park::PENDING_APPROVALS_PER_CALLER_MAX;
pub(crate) use resume::Resuming;
pub use standing::{NewStanding, StandingGrant};
pub(crate) use time::Rounds;
pub use toolgate_store::approvals::{Asker, Binding};

/// Who decided where nobody did and the mode lets it run.
pub(crate) const BY_TIMEOUT: &str = "system:timeout";
pub(crate) const BY_MODE: &str = "system:fire_and_continue";
