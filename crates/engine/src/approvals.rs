//! Calls that wait for a person. A parked call is a row, not a task in memory: the process may stop, another replica may
//! decide, a third may run it.
//!
//! `park` writes down what is asked; `decide` takes votes and turns enough of them into a grant; `resume` judges the call
//! again, spends the grant and runs the stored bytes; `time` ends what nobody decided. Invariant: what a person decides
//! on is the stored input, and what runs is the same bytes, whatever a caller sends meanwhile.

mod card;
mod decide;
mod eligible;
mod park;
mod resume;
mod standing;
mod time;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::{AgentId, CallId, Digest, Principal, RunId, TenantId, Timestamp, json};
use toolgate_policy::labels::Labels;

pub use crate::again::Asker;
pub use card::{Card, CardVote, Earlier};
pub use decide::{BulkAnswer, Choice, Decided};
pub use standing::{NewStanding, StandingGrant};

/// Who decided where nobody did and the mode lets it run.
pub(crate) const BY_TIMEOUT: &str = "system:timeout";
pub(crate) const BY_MODE: &str = "system:fire_and_continue";

/// Everything that a decision is about. A grant holds for exactly this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    pub call: CallId,
    pub tenant: TenantId,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    pub run: RunId,
    pub seq: u32,
    /// `name@version`, canonical.
    pub tool: String,
    pub behaviour_digest: Digest,
    pub input_digest: Digest,
    /// As whom it acts: `[{name, scope, version}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Value>,
    pub labels: Labels,
    pub policy_revision: i64,
    pub mode: HitlMode,
    /// The log in which it was asked: a restored database begins another.
    pub epoch: String,
    /// Set with the decision: who approved, until when it holds, and what makes it unlike any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

impl Binding {
    pub fn digest(&self) -> Digest {
        json::digest(&self.value())
    }

    pub fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
