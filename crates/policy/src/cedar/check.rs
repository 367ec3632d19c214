//! The strict check of a set against what there is, when it is saved: names, words, arguments and types.
//!
//! Cedar has one context for both actions, and arguments differ from tool to tool. So each policy is validated against a
//! schema of its own: with the arguments that it names, typed as the tools of its scope declare them.

mod names;
mod schema;

use std::collections::{BTreeMap, HashMap};

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use serde_json::Value;
use toolgate_contracts::definition::{EgressClass, HitlMode};

use super::finding::{Gravity, PolicyFinding, shown};
use super::rule::Effect;
use super::set::{Policy, Set};
use super::source::Source;
use super::vocabulary::{KnownPerson, Lexicon, Vocabulary};
use super::{Action, SubjectKind};
use schema::{Reach, Typed};

/// `whole`: the set holds all that is in the text.
pub(super) fn check(text: &str, set: &Set, whole: bool, vocabulary: &Vocabulary<'_>) -> Vec<PolicyFinding> {
    let source = Source::read(text);
    let lexicon = Lexicon::new(vocabulary);
    let mut findings = if whole { unpermitted(&source, set) } else { Vec::new() };
    let mut groups: BTreeMap<String, (Value, Vec<&Policy>)> = BTreeMap::new();
    let mut numbers: HashMap<&str, Vec<String>> = HashMap::new();
    for policy in set.policies() {
        let place = policy.place;
        let subject = Checked { place, policy, source: &source };
        let before = findings.len();
        names::check(&subject, &lexicon, &mut findings);
        let reach = Reach::of(&policy.template, &lexicon);
        ignored_mode(&subject, &reach, &mut findings);
        ignored_trial(&subject, &reach, &mut findings);
        too_few_approvers(&subject, vocabulary, &mut findings);
        let Typed { record, decimals, problems } = schema::arguments(&policy.template, &reach);
        for (named, message, remedy) in problems {
            subject.find(&mut findings, "policy.argument", source.said(place, &named), message, remedy);
        }
        numbers.insert(&policy.id, decimals);
        if findings[before..].iter().all(|finding| finding.gravity != Gravity::Error) {
            groups.entry(record.to_string()).or_insert_with(|| (record, Vec::new())).1.push(policy);
        }
    }
    for (_, (record, policies)) in groups {
        findings.extend(validate(&source, set, record, &policies, &numbers));
    }
    findings
}

/// One policy with its place in the text.
struct Checked<'a> {
    place: usize,
    policy: &'a Policy,
    source: &'a Source<'a>,
}

impl Checked<'_> {
    fn find(
        &self,
        findings: &mut Vec<PolicyFinding>,
        code: &'static str,
        offset: usize,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        findings.push(self.source.finding(Gravity::Error, code, Some(&self.policy.id), offset, message, remedy));
    }
}

/// A set that permits nothing is legal, and rarely meant.
fn unpermitted(source: &Source<'_>, set: &Set) -> Vec<PolicyFinding> {
    if set.len() == 0 {
        let message = "there is no policy in it, and no policy means that every call is denied";
        let remedy = "begin with the default set: `toolgate policy show default`";
        return vec![source.finding(Gravity::Warning, "policy.empty", None, 0, message, remedy)];
    }
    let permits = |action: Action| {
        set.policies().iter().any(|policy| policy.effect == Effect::Permit && policy.actions.contains(&action))
    };
    let missing = |action: Action, so: &str| {
        let message = format!("nothing permits `{}`, so {so}", action.as_str());
        let remedy = format!("add `permit (principal, action == Action::\"{}\", resource);`", action.as_str());
        source.finding(Gravity::Warning, "policy.no-permit", None, 0, message, remedy)
    };
    let all = [(Action::Call, "every call is denied"), (Action::CallUnattended, "every call waits for a person")];
    all.into_iter().filter(|(action, _)| !permits(*action)).map(|(action, so)| missing(action, so)).collect()
}

/// A mode that lets a call run by itself says something else of a tool that writes.
fn ignored_mode(subject: &Checked<'_>, reach: &Reach<'_>, findings: &mut Vec<PolicyFinding>) {
    let Checked { place, policy, source } = subject;
    let Some(mode @ (HitlMode::ContinueOnTimeout | HitlMode::FireAndContinue)) = policy.mode else { return };
    let Reach::Named(tools) = reach else { return };
    for tool in tools.iter().filter(|tool| tool.egress_class == EgressClass::Write) {
        let offset = source.annotation(*place, "mode");
        let message = format!(
            "`{}` writes: with `{mode}` the run goes on, and the call still waits for a person",
            shown(tool.name)
        );
        let remedy = "leave it if that is meant, or choose `blocking`";
        let finding = source.finding(Gravity::Warning, "policy.mode", Some(&policy.id), offset, message, remedy);
        findings.push(finding);
    }
}

/// Trying a policy out never loosens what writes: there it decides at once.
fn ignored_trial(subject: &Checked<'_>, reach: &Reach<'_>, findings: &mut Vec<PolicyFinding>) {
    let Checked { place, policy, source } = subject;
    let asks_for_class = || policy.cedar.to_string().contains("egress_class");
    let tried = policy.log_only && policy.effect == Effect::Forbid;
    if !tried || (reach.is_open() && asks_for_class()) {
        return;
    }
    let mut writing: Vec<&str> =
        reach.tools().iter().filter(|tool| tool.egress_class == EgressClass::Write).map(|tool| tool.name).collect();
    writing.sort_unstable();
    let Some(first) = writing.first() else { return };
    let others = match writing.len() - 1 {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {more} others"),
    };
    let verb = if writing.len() == 1 { "writes" } else { "write" };
    let message = format!("`{}`{others} {verb}: there `@log_only` is not heeded, and the policy decides", shown(first));
    let remedy = "leave it if that is meant, or narrow the policy: `when { resource.egress_class != \"write\" }`";
    let offset = source.annotation(*place, "log_only");
    findings.push(source.finding(Gravity::Warning, "policy.log-only", Some(&policy.id), offset, message, remedy));
}

/// More approvers than there are people who could be.
fn too_few_approvers(subject: &Checked<'_>, vocabulary: &Vocabulary<'_>, findings: &mut Vec<PolicyFinding>) {
    let Checked { place, policy, source } = subject;
    let (Some(approvers), Some(people)) = (&policy.approvers, &vocabulary.people) else { return };
    let is_meant = |person: &&KnownPerson<'_>| {
        approvers.from.iter().any(|from| match from.split_once(':') {
            Some(("role", role)) => person.roles.iter().any(|held| held.as_str() == role),
            Some(("user", id)) => person.id == id,
            _ => false,
        })
    };
    let there = people.iter().filter(is_meant).count();
    if there >= approvers.need as usize {
        return;
    }
    let are = match there {
        0 => "nobody there is one".to_owned(),
        1 => "1 person is there".to_owned(),
        some => format!("{some} people are there"),
    };
    let message = format!("`@approvers` needs {} and {are}: what it asks for would never be approved", approvers.need);
    let remedy = "name more roles or people, ask for fewer, or give people the role with `toolgate user set`";
    let offset = source.annotation(*place, "approvers");
    findings.push(source.finding(Gravity::Warning, "policy.approvers", Some(&policy.id), offset, message, remedy));
}

fn validate(
    source: &Source<'_>,
    set: &Set,
    record: Value,
    policies: &[&Policy],
    numbers: &HashMap<&str, Vec<String>>,
) -> Vec<PolicyFinding> {
    let inside = |message: String| {
        let remedy = "report it with the policies and the tools' schemas";
        vec![source.finding(Gravity::Error, "policy.schema", None, 0, message, remedy)]
    };
    let schema = match Schema::from_json_value(schema::whole(record)) {
        Ok(schema) => schema,
        Err(error) => return inside(format!("no schema can be made of the tools' arguments: {error}")),
    };
    let policies = match PolicySet::from_policies(policies.iter().map(|policy| policy.cedar.clone())) {
        Ok(policies) => policies,
        Err(error) => return inside(error.to_string()),
    };
    let result = Validator::new(schema).validate(&policies, ValidationMode::Strict);
    let mut findings = Vec::new();
    for error in result.validation_errors() {
        let id: &str = error.policy_id().as_ref();
        let place = place_of(set, error.policy_id());
        let message = spoken(&error.to_string(), id);
        let decimals = numbers.get(id).map(Vec::as_slice).unwrap_or_default();
        let remedy = remedy(&message, decimals, miette::Diagnostic::help(error).map(|help| help.to_string()));
        let offset = offset(error).unwrap_or_else(|| source.start(place));
        findings.push(source.finding(Gravity::Error, "policy.type", Some(id), offset, message, remedy));
    }
    let erring: Vec<String> = findings.iter().filter_map(|finding| finding.policy.clone()).collect();
    // What Cedar remarks about a policy with an error follows from the error.
    for warning in
        result.validation_warnings().filter(|it| !erring.iter().any(|id| id == it.policy_id().as_ref() as &str))
    {
        let id: &str = warning.policy_id().as_ref();
        let place = place_of(set, warning.policy_id());
        let offset = offset(warning).unwrap_or_else(|| source.start(place));
        let help = miette::Diagnostic::help(warning).map(|help| help.to_string());
        let remedy = help.unwrap_or_else(|| "see whether the policy says what is meant".into());
        let message = spoken(&warning.to_string(), id);
        findings.push(source.finding(Gravity::Warning, "policy.warning", Some(id), offset, message, remedy));
    }
    findings
}

fn place_of(set: &Set, id: &cedar_policy::PolicyId) -> usize {
    set.place(id).and_then(|index| set.policy(index)).map_or(0, |policy| policy.place)
}

/// Cedar's message without what a finding has anyway, and without the kind of principal and the action: an error holds
/// for all of them and is told once.
fn spoken(message: &str, policy: &str) -> String {
    let prefix = format!("for policy `{policy}`");
    let message = message.strip_prefix(&prefix).map_or(message, |rest| rest.trim_start_matches([',', ':', ' ']));
    let mut message = message.split(" in context for Action::").next().unwrap_or(message).to_owned();
    for kind in SubjectKind::ALL {
        message = message.replace(&format!("on entity type `{}`", kind.as_str()), "of the principal");
    }
    message
}

fn offset(error: &dyn miette::Diagnostic) -> Option<usize> {
    error.labels()?.next().map(|label| label.offset())
}

fn remedy(message: &str, decimals: &[String], help: Option<String>) -> String {
    if message.contains("optional attribute") {
        let attribute = message.split('`').nth(1).unwrap_or("NAME");
        let (of, attribute) = match attribute.strip_prefix("args.") {
            Some(argument) => ("context.args", argument),
            None if message.contains("of the principal") => ("principal", attribute),
            None => ("resource", attribute),
        };
        return format!("ask first whether it is there: `{of} has {attribute} && …`");
    }
    if let (true, [name, ..]) = (message.contains("decimal"), decimals) {
        return format!(
            "`{name}` is a number with decimals: compare it with `context.args.{name}.greaterThan(decimal(\"1.0\"))` or \
             `lessThan`, `lessThanOrEqual`, `greaterThanOrEqual`"
        );
    }
    help.unwrap_or_else(|| "the words that a policy may use are in docs/policy.md".into())
}
