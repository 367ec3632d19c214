//! A policy set as it is read: policies with their annotations, and the rules that they are taken apart into.

use std::collections::{HashMap, HashSet};

use cedar_policy::{PolicyId, PolicySet, pst};
use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::{Approvers, EgressClass, HitlMode};
use utoipa::ToSchema;

use super::annotation::{Annotated, Annotations};
use super::finding::{Gravity, PolicyFinding, shown};
use super::rule::{self, Effect, Rule, Scope};
use super::source::Source;
use super::{Action, POLICIES_MAX, SOURCE_BYTES_MAX};

pub(super) struct Policy {
    pub id: String,
    /// Its place in the text.
    pub place: usize,
    pub effect: Effect,
    pub actions: Vec<Action>,
    pub reason: Option<String>,
    pub mode: Option<HitlMode>,
    pub approvers: Option<Approvers>,
    pub log_only: bool,
    pub line: u32,
    /// As Cedar evaluates it, under its own id.
    pub cedar: cedar_policy::Policy,
    /// For the oracle, which asks Cedar whether a condition comes to read a call.
    pub standing: Option<cedar_policy::Policy>,
    pub template: pst::Template,
}

impl Policy {
    /// `@log_only` never loosens `write`: there the policy is enforced.
    pub fn is_logged_only(&self, class: EgressClass) -> bool {
        self.log_only && class != EgressClass::Write
    }
}

/// A permit of the same scope and the part of the condition that reads no call.
fn standing(template: &pst::Template) -> Option<cedar_policy::Policy> {
    let pst::Template { id, principal, action, resource, .. } = template.clone();
    let conjuncts = rule::conjuncts(template).into_iter().take_while(|expr| !rule::reads(expr).context);
    let template = pst::Template::new(id, pst::Effect::Permit, principal, action, resource)
        .try_with_clauses(conjuncts.map(pst::Clause::When))
        .ok()?;
    let policy = pst::StaticPolicy::try_from(template).ok()?;
    cedar_policy::Policy::from_pst(pst::Policy::Static(policy)).ok()
}

/// One policy, for a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicySummary)]
pub struct Summary {
    pub id: String,
    /// `permit` or `forbid`.
    pub effect: String,
    pub actions: Vec<Action>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub log_only: bool,
    /// Where it begins, counted from one.
    pub line: u32,
}

pub(super) struct Set {
    policies: Vec<Policy>,
    pub rules: Vec<Rule>,
    /// Rules whose scope names one tool, and all others: both in the order of the set.
    by_tool: HashMap<String, Vec<usize>>,
    others: Vec<usize>,
    places: HashMap<PolicyId, usize>,
    /// For the oracle: what is enforced for tools that do not write, and what is only logged for them.
    pub enforced: PolicySet,
    pub logged: PolicySet,
    pub all: PolicySet,
}

impl Set {
    /// Reads a text as far as that goes without knowing which tools there are. Beside the set come findings: with an error
    /// among them the set decides nothing and holds what could be read, for whoever says what else is wrong.
    pub fn read(text: &str) -> Result<(Self, Vec<PolicyFinding>), Vec<PolicyFinding>> {
        let source = Source::read(text);
        let refuse = |code, message: String, remedy: &str| {
            Err(vec![source.finding(Gravity::Error, code, None, 0, message, remedy)])
        };
        if text.len() > SOURCE_BYTES_MAX {
            let message = format!("the policies have {} bytes, the limit is {SOURCE_BYTES_MAX}", text.len());
            return refuse("policy.too-large", message, "join policies that differ only in whom or what they name");
        }
        if let Some((offset, what, most)) = source.too_large() {
            let message = format!("a policy has more than {most} {what}");
            let remedy = "write several policies instead of one";
            return Err(vec![source.finding(Gravity::Error, "policy.too-large", None, offset, message, remedy)]);
        }
        let parsed: PolicySet = text.parse().map_err(|errors| unreadable(&source, &errors))?;
        if parsed.num_of_policies() > POLICIES_MAX {
            let message = format!("there are {} policies, the limit is {POLICIES_MAX}", parsed.num_of_policies());
            return refuse("policy.too-many", message, "join policies that differ only in whom or what they name");
        }
        let mut findings = Vec::new();
        for template in parsed.templates() {
            let place = place_of(template.id());
            findings.push(source.finding(
                Gravity::Error,
                "policy.template",
                None,
                source.start(place),
                "a template with `?principal` or `?resource` is never linked, so it would decide nothing",
                "name the principal and the tool",
            ));
        }
        let mut parsed: Vec<_> = parsed.policies().map(|policy| (place_of(policy.id()), policy.clone())).collect();
        parsed.sort_by_key(|(place, _)| *place);
        let mut set = Self {
            policies: Vec::with_capacity(parsed.len()),
            rules: Vec::new(),
            by_tool: HashMap::new(),
            others: Vec::new(),
            places: HashMap::new(),
            enforced: PolicySet::new(),
            logged: PolicySet::new(),
            all: PolicySet::new(),
        };
        let mut ids = HashSet::new();
        for (place, policy) in parsed {
            // A template was counted too, but the set is refused then.
            let index = set.policies.len();
            match read_policy(place, policy, &source, &mut findings) {
                Ok(policy) => {
                    if !ids.insert(policy.id.clone()) {
                        let offset = source.annotation(place, "id");
                        let message = format!("there are two policies called `{}`", shown(&policy.id));
                        let finding = source.finding(
                            Gravity::Error,
                            "policy.same-id",
                            Some(&policy.id),
                            offset,
                            message,
                            "give each its own `@id`",
                        );
                        findings.push(finding);
                        continue;
                    }
                    set.add(index, policy, &source, place, &mut findings);
                }
                Err(finding) => findings.push(finding),
            }
        }
        Ok((set, findings))
    }

    fn add(
        &mut self,
        index: usize,
        policy: Policy,
        source: &Source<'_>,
        place: usize,
        findings: &mut Vec<PolicyFinding>,
    ) {
        let internal = |why: String| {
            let remedy = "write the condition in another way";
            source.finding(Gravity::Error, "policy.unknown-form", Some(&policy.id), source.start(place), why, remedy)
        };
        let rules = match rule::rules(index, &policy.template) {
            Ok(rules) => rules,
            Err(why) => return findings.push(internal(why)),
        };
        let sets = [&mut self.all, if policy.log_only { &mut self.logged } else { &mut self.enforced }];
        for set in sets {
            if let Err(error) = set.add(policy.cedar.clone()) {
                return findings.push(internal(error.to_string()));
            }
        }
        for rule in rules {
            let list = match &rule.resource {
                Scope::Eq(name) if name.kind == "Tool" => self.by_tool.entry(name.id.clone()).or_default(),
                _ => &mut self.others,
            };
            list.push(self.rules.len());
            self.rules.push(rule);
        }
        self.places.insert(policy.cedar.id().clone(), index);
        self.policies.push(policy);
    }

    pub fn len(&self) -> usize {
        self.policies.len()
    }

    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    pub fn policy(&self, place: usize) -> Option<&Policy> {
        self.policies.get(place)
    }

    pub fn place(&self, id: &PolicyId) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// The rules that may be about a tool, in the order of the set.
    pub fn about<'a>(&'a self, tool: &str) -> impl Iterator<Item = (usize, &'a Rule)> + use<'a> {
        let mut places: Vec<usize> = self.others.clone();
        places.extend(self.by_tool.get(tool).into_iter().flatten());
        places.sort_unstable();
        places.into_iter().filter_map(|place| self.rules.get(place).map(|rule| (place, rule)))
    }

    pub fn uses_log_only(&self) -> bool {
        self.policies.iter().any(|policy| policy.log_only)
    }

    pub fn summaries(&self) -> Vec<Summary> {
        let summary = |policy: &Policy| Summary {
            id: policy.id.clone(),
            effect: match policy.effect {
                Effect::Permit => "permit".into(),
                Effect::Forbid => "forbid".into(),
            },
            actions: policy.actions.clone(),
            reason: policy.reason.clone(),
            log_only: policy.log_only,
            line: policy.line,
        };
        self.policies.iter().map(summary).collect()
    }
}

/// Cedar names the policies of a text by their place: `policy0` is the first.
fn place_of(id: &PolicyId) -> usize {
    let id: &str = id.as_ref();
    id.trim_start_matches("policy").parse().unwrap_or(usize::MAX)
}

fn read_policy(
    place: usize,
    policy: cedar_policy::Policy,
    source: &Source<'_>,
    findings: &mut Vec<PolicyFinding>,
) -> Result<Policy, PolicyFinding> {
    let offset = source.start(place);
    let template = policy
        .to_pst()
        .map_err(|error| {
            let remedy = "write the policy in another way";
            source.finding(Gravity::Error, "policy.unknown-form", None, offset, error.to_string(), remedy)
        })?
        .body()
        .clone();
    let effect = match template.effect {
        pst::Effect::Permit => Effect::Permit,
        pst::Effect::Forbid => Effect::Forbid,
    };
    let actions = rule::actions(&template);
    let said = template.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let annotated = Annotated { place, effect, actions: &actions, said };
    let Annotations { id, reason, mode, approvers, log_only } = Annotations::read(&annotated, source, findings);
    let conjuncts = rule::conjuncts(&template);
    if !conjuncts.iter().all(|expr| rule::is_known(expr)) {
        return Err(source.finding(
            Gravity::Error,
            "policy.unknown-form",
            Some(&id),
            offset,
            "its condition has a form that is not known here",
            "write the condition in another way",
        ));
    }
    if conjuncts.iter().any(|expr| rule::reads(expr).whole) {
        return Err(source.finding(
            Gravity::Error,
            "policy.whole-context",
            Some(&id),
            source.said(place, "context"),
            "a policy sees only the arguments that it names, and this one takes all of them as one value",
            "name each argument: `context.args.amount`",
        ));
    }
    Ok(Policy {
        place,
        cedar: policy.new_id(PolicyId::new(&id)),
        id,
        effect,
        actions,
        reason,
        mode,
        approvers,
        log_only,
        line: source.place(offset).0,
        standing: standing(&template),
        template,
    })
}

/// Cedar's own words for a text that it cannot read.
fn unreadable(source: &Source<'_>, errors: &cedar_policy::ParseErrors) -> Vec<PolicyFinding> {
    let finding = |error: &dyn miette::Diagnostic| {
        let label = error.labels().and_then(|mut labels| labels.next());
        let offset = label.as_ref().map_or(0, miette::LabeledSpan::offset);
        let expected = label.and_then(|label| label.label().map(str::to_owned));
        let help = error.help().map(|help| help.to_string());
        let remedy = help.or(expected).unwrap_or_else(|| "see the examples in docs/policy.md".into());
        source.finding(Gravity::Error, "policy.syntax", None, offset, error.to_string(), remedy)
    };
    let mut findings: Vec<_> = errors.iter().map(|error| finding(error)).collect();
    super::finding::sort(&mut findings);
    findings
}
