//! What the policies say of a call, and the one rule that makes it from what each policy says.

use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::{Approvers, EgressClass, HitlMode};
use utoipa::ToSchema;

use super::Action;
use super::annotation::NO_PERMIT;
use super::rule::Effect;
use super::set::{Policy, Set};

#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub call: Call,
    pub unattended: Unattended,
    /// What policies with `@log_only` would have done.
    pub logged: Vec<PolicyHit>,
    /// The first policy that permits the call, where it is allowed.
    pub permitted_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Allowed,
    /// `policy`: these forbid it.
    Denied {
        policies: Vec<PolicyHit>,
    },
    /// `policy`: nothing permits it.
    NoPermit,
    /// `policy_error`: these could not be evaluated, under either action.
    Errored {
        errors: Vec<PolicyFault>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Unattended {
    Allowed,
    Asks(Vec<Ask>),
}

/// A reason to ask a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub policy: String,
    pub reason: Option<String>,
    pub mode: Option<HitlMode>,
    pub approvers: Option<Approvers>,
}

/// A policy whose condition held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyHit {
    pub policy: String,
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It could not be evaluated; only of policies that are logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A policy that could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyFault {
    pub policy: String,
    pub message: String,
    /// JSON Pointer of the argument that Cedar has no value for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

/// What came of a policy under an action. One whose condition does not hold says nothing.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Its place in the set.
    pub policy: usize,
    pub action: Action,
    pub outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Holds,
    Errs { message: String, argument: Option<String> },
}

impl Judgement {
    pub(super) fn broken(why: &str) -> Self {
        let error = PolicyFault { policy: "policies".into(), message: why.to_owned(), argument: None };
        Self {
            call: Call::Errored { errors: vec![error] },
            unattended: Unattended::Asks(vec![no_permit()]),
            logged: Vec::new(),
            permitted_by: None,
        }
    }

    /// The rule. INVARIANT: `events` are in the order of the set.
    pub(super) fn of<'a>(set: &Set, class: EgressClass, events: impl Iterator<Item = &'a Event> + Clone) -> Self {
        let mut logged = Vec::new();
        let mut errors: Vec<PolicyFault> = Vec::new();
        let mut denied = Vec::new();
        let mut asks = Vec::new();
        let (mut call_permit, mut unattended_permit) = (None, false);
        for event in events {
            let Some(policy) = set.policy(event.policy) else { continue };
            if policy.is_logged_only(class) {
                logged.push(hit(policy, event));
                continue;
            }
            match (&event.outcome, policy.effect, event.action) {
                (Outcome::Errs { message, argument }, _, action) => {
                    if action == Action::CallUnattended {
                        asks.push(ask(policy));
                    }
                    // A policy about both actions errs once.
                    if errors.last().is_none_or(|last| last.policy != policy.id) {
                        let (policy, message, argument) = (policy.id.clone(), message.clone(), argument.clone());
                        errors.push(PolicyFault { policy, message, argument });
                    }
                }
                (Outcome::Holds, Effect::Permit, Action::Call) => {
                    call_permit.get_or_insert(policy);
                }
                (Outcome::Holds, Effect::Permit, Action::CallUnattended) => unattended_permit = true,
                (Outcome::Holds, Effect::Forbid, Action::Call) => denied.push(hit(policy, event)),
                (Outcome::Holds, Effect::Forbid, Action::CallUnattended) => asks.push(ask(policy)),
            }
        }
        let permitted = call_permit.is_some();
        let call = match (errors.is_empty(), denied.is_empty(), permitted) {
            (false, ..) => Call::Errored { errors },
            (true, false, _) => Call::Denied { policies: denied },
            (true, true, false) => Call::NoPermit,
            (true, true, true) => Call::Allowed,
        };
        let permitted_by = call_permit.filter(|_| call == Call::Allowed).map(|policy| policy.id.clone());
        let unattended = match (asks.is_empty(), unattended_permit) {
            (false, _) => Unattended::Asks(asks),
            (true, false) => Unattended::Asks(vec![no_permit()]),
            (true, true) => Unattended::Allowed,
        };
        Self { call, unattended, logged, permitted_by }
    }
}

pub(super) fn hit(policy: &Policy, event: &Event) -> PolicyHit {
    let error = match &event.outcome {
        Outcome::Holds => None,
        Outcome::Errs { message, .. } => Some(message.clone()),
    };
    PolicyHit { policy: policy.id.clone(), action: event.action, reason: policy.reason.clone(), error }
}

pub(super) fn ask(policy: &Policy) -> Ask {
    let Policy { id, reason, mode, approvers, .. } = policy;
    Ask { policy: id.clone(), reason: reason.clone(), mode: *mode, approvers: approvers.clone() }
}

pub(super) fn no_permit() -> Ask {
    Ask { policy: NO_PERMIT.into(), reason: None, mode: Some(HitlMode::Blocking), approvers: None }
}
