//! Why a call has no result, and whether something may have happened all the same: the same two ends for every kind.

use toolgate_contracts::ToolError;
use toolgate_egress::{Effect, EgressError, Sent};
use toolgate_engine::Outcome;

#[derive(Debug)]
pub enum Failure {
    Told(ToolError),
    /// A write or a change was under way, and no answer came.
    Unknown(String),
}

impl Failure {
    /// Of a request that went wrong on its way.
    pub(crate) fn of(error: EgressError, effect: Effect) -> Self {
        match (effect, error.sent()) {
            (Effect::Write, Sent::Perhaps) => Self::Unknown(error.to_string()),
            (Effect::Read, _) | (_, Sent::No) => Self::Told(error.into()),
        }
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Told(error)
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Told(error) => Self::Failed(error),
            Failure::Unknown(why) => Self::Unknown(why),
        }
    }
}
