//! A recorded decision taken apart, and what other policies say in its place. Pure: replay does it without a database.

use toolgate_contracts::{AskCode, ToolError};
use toolgate_policy::cedar::{Call, Circumstances, Policies, Subject, ToolFacts, Unattended};

use crate::admit::{Decision, Step, Verdict};

/// What the record says was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub by_policy: Verdict,
    /// Everything else.
    pub rest: Verdict,
}

impl Recorded {
    /// `error` is that of the call.
    pub fn of(decision: &Decision, error: Option<&ToolError>) -> Self {
        let asked = |by_policy: bool| {
            let mut reasons = decision.asking.iter().flat_map(|asking| &asking.reasons);
            reasons.any(|reason| (reason.code == AskCode::Policy) == by_policy)
        };
        let verdict = |asked| if asked { Verdict::Ask } else { Verdict::Allow };
        let reason = error.map(ToolError::reason);
        match (decision.refused_at, reason) {
            (Some(Step::Decide), Some("policy" | "policy_error")) => {
                Self { by_policy: Verdict::Deny, rest: verdict(asked(false)) }
            }
            (Some(_), _) => Self { by_policy: Verdict::Allow, rest: Verdict::Deny },
            (None, _) => Self { by_policy: verdict(asked(true)), rest: verdict(asked(false)) },
        }
    }
}

/// What these policies say of a call, and which of them.
pub fn by_policy(
    policies: &Policies,
    subject: &Subject<'_>,
    tool: &ToolFacts<'_>,
    circumstances: &Circumstances<'_>,
) -> (Verdict, Vec<String>) {
    let judgement = policies.decide(subject, tool, circumstances);
    match judgement.call {
        Call::Allowed => match judgement.unattended {
            Unattended::Allowed => (Verdict::Allow, Vec::new()),
            Unattended::Asks(asks) => (Verdict::Ask, asks.into_iter().map(|ask| ask.policy).collect()),
        },
        Call::NoPermit => (Verdict::Deny, Vec::new()),
        Call::Denied { policies } => (Verdict::Deny, policies.into_iter().map(|hit| hit.policy).collect()),
        Call::Errored { errors } => (Verdict::Deny, errors.into_iter().map(|error| error.policy).collect()),
    }
}
