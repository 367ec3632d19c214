//! The oracle: every policy evaluated by Cedar's own authorizer, with everything that any policy names in the context.
//! Slow and without cleverness, so that the short way has something to agree with.

use std::borrow::Cow;
use std::collections::BTreeSet;

use cedar_policy::{Authorizer, Context, Decision, Diagnostics, PolicySet, Request, Response};
use toolgate_contracts::definition::EgressClass;

use super::arguments::{Plan, Unfit};
use super::judgement::{Ask, Call, Event, Judgement, Outcome, PolicyFault, PolicyHit, Unattended, ask, hit, no_permit};
use super::pair::unfit_outcome;
use super::rule::Reads;
use super::set::{Policy, Set};
use super::words::{self, Parties};
use super::{Action, Circumstances, Subject, ToolFacts};

pub(super) fn decide(
    set: &Set,
    subject: &Subject<'_>,
    tool: &ToolFacts<'_>,
    circumstances: &Circumstances<'_>,
) -> Judgement {
    Plain::new(set, subject, tool, circumstances).map_or_else(|why| Judgement::broken(&why), |plain| plain.judgement())
}

struct Plain<'a> {
    set: &'a Set,
    class: EgressClass,
    authorizer: Authorizer,
    parties: Parties,
    context: Context,
    unfit: Vec<Unfit>,
}

impl<'a> Plain<'a> {
    fn new(
        set: &'a Set,
        subject: &Subject<'_>,
        tool: &ToolFacts<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Result<Self, String> {
        let mut reads = Reads::default();
        set.rules.iter().for_each(|rule| reads.join(&rule.reads));
        let plan = Plan::new(&reads.args, tool.input_schema);
        let (context, unfit) = words::context(&reads, &plan, circumstances)?;
        let parties = Parties::new(subject, tool)?;
        Ok(Self { set, class: tool.egress_class, authorizer: Authorizer::new(), parties, context, unfit })
    }

    fn judgement(&self) -> Judgement {
        let set = self.set;
        let (enforced, logged) = match self.class {
            EgressClass::Write => (&set.all, None),
            EgressClass::None | EgressClass::ReadOnly => (&set.enforced, Some(&set.logged)),
        };
        let call = self.answer(Action::Call, enforced);
        let unattended = self.answer(Action::CallUnattended, enforced);

        let erring: BTreeSet<usize> = call.errors.iter().chain(&unattended.errors).map(|(place, _)| *place).collect();
        let first = |place: &usize| call.errors.iter().chain(&unattended.errors).find(|(at, _)| at == place);
        let errors: Vec<PolicyFault> = erring.iter().filter_map(first).map(|(_, fault)| fault.clone()).collect();
        let allowed = call.decision == Decision::Allow;
        let permitted_by = call.reasons.first().filter(|_| allowed && errors.is_empty());
        let permitted_by = permitted_by.and_then(|place| set.policy(*place)).map(|policy| policy.id.clone());
        let judged = match (errors.is_empty(), allowed, call.reasons.is_empty()) {
            (false, ..) => Call::Errored { errors },
            (true, true, _) => Call::Allowed,
            (true, false, true) => Call::NoPermit,
            (true, false, false) => Call::Denied { policies: self.hits(Action::Call, &call.reasons) },
        };
        let erring = unattended.errors.iter().map(|(place, _)| place);
        let forbidding = unattended.reasons.iter().filter(|_| unattended.decision == Decision::Deny);
        let asking: BTreeSet<usize> = forbidding.chain(erring).copied().collect();
        let asks: Vec<Ask> = asking.into_iter().filter_map(|place| set.policy(place)).map(ask).collect();
        let unattended = match (asks.is_empty(), unattended.decision) {
            (false, _) => Unattended::Asks(asks),
            (true, Decision::Deny) => Unattended::Asks(vec![no_permit()]),
            (true, Decision::Allow) => Unattended::Allowed,
        };
        let logged = logged.map(|logged| self.logged(logged)).unwrap_or_default();
        Judgement { call: judged, unattended, logged, permitted_by }
    }

    fn hits(&self, action: Action, places: &[usize]) -> Vec<PolicyHit> {
        let event = |place: &usize| Event { policy: *place, action, outcome: Outcome::Holds };
        places.iter().filter_map(|place| Some(hit(self.set.policy(*place)?, &event(place)))).collect()
    }

    /// Only forbids are logged, so that the reasons of an answer are all that hold.
    fn logged(&self, policies: &PolicySet) -> Vec<PolicyHit> {
        let mut all = Vec::new();
        for action in Action::ALL {
            let Answer { reasons, errors, .. } = self.answer(action, policies);
            all.extend(reasons.into_iter().map(|policy| Event { policy, action, outcome: Outcome::Holds }));
            all.extend(errors.into_iter().map(|(policy, fault)| {
                let outcome = Outcome::Errs { message: fault.message, argument: fault.argument };
                Event { policy, action, outcome }
            }));
        }
        all.sort_by_key(|event| (event.policy, event.action));
        all.iter().filter_map(|event| Some(hit(self.set.policy(event.policy)?, event))).collect()
    }

    fn ask(&self, action: Action, policies: &PolicySet) -> Option<Response> {
        let Parties { principal, resource, entities } = &self.parties;
        let action = words::action(action).ok()?;
        let request = Request::new(principal.clone(), action, resource.clone(), self.context.clone(), None).ok()?;
        Some(self.authorizer.is_authorized(&request, policies, entities))
    }

    fn answer(&self, action: Action, policies: &PolicySet) -> Answer {
        let unfit = self.unfit(action, policies);
        let mut fitting = Cow::Borrowed(policies);
        for (place, _) in &unfit {
            if let Some(policy) = self.set.policy(*place) {
                let _ = fitting.to_mut().remove_static(policy.cedar.id().clone());
            }
        }
        let Some(response) = self.ask(action, &fitting) else { return Answer::default() };
        let mut answer = Answer { decision: response.decision(), reasons: self.reasons(&response), errors: unfit };
        answer.errors.extend(self.errors(response.diagnostics()));
        answer.errors.sort_by_key(|(place, _)| *place);
        answer
    }

    fn reasons(&self, response: &Response) -> Vec<usize> {
        let mut places: Vec<_> = response.diagnostics().reason().filter_map(|id| self.set.place(id)).collect();
        places.sort_unstable();
        places
    }

    fn errors(&self, diagnostics: &Diagnostics) -> Vec<(usize, PolicyFault)> {
        let fault = |error: &cedar_policy::AuthorizationError| {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            let place = self.set.place(error.policy_id())?;
            let policy = self.set.policy(place)?.id.clone();
            Some((place, PolicyFault { policy, message: error.inner().to_string(), argument: None }))
        };
        diagnostics.errors().filter_map(fault).collect()
    }

    /// Policies about an argument that Cedar has no value for, where Cedar would come to read it: their scope and the
    /// part of their condition that reads no call hold.
    fn unfit(&self, action: Action, policies: &PolicySet) -> Vec<(usize, PolicyFault)> {
        let mut all = Vec::new();
        for rule in self.set.rules.iter().filter(|rule| rule.actions.contains(&action)) {
            let Some(policy) = self.set.policy(rule.policy) else { continue };
            let Some(Outcome::Errs { message, argument }) = unfit_outcome(rule, &self.unfit) else { continue };
            if policies.policy(policy.cedar.id()).is_some() && self.reaches(action, policy) {
                all.push((rule.policy, PolicyFault { policy: policy.id.clone(), message, argument }));
            }
        }
        all
    }

    fn reaches(&self, action: Action, policy: &Policy) -> bool {
        let Some(standing) = policy.standing.clone() else { return true };
        let Ok(policies) = PolicySet::from_policies([standing]) else { return true };
        self.ask(action, &policies).is_none_or(|response| response.decision() == Decision::Allow)
    }
}

struct Answer {
    decision: Decision,
    reasons: Vec<usize>,
    errors: Vec<(usize, PolicyFault)>,
}

impl Default for Answer {
    fn default() -> Self {
        Self { decision: Decision::Deny, reasons: Vec::new(), errors: Vec::new() }
    }
}
