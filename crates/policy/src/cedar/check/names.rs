//! Names and words in a policy that match nothing: a policy about a tool that does not exist decides nothing, silently.

use std::collections::BTreeSet;

use cedar_policy::pst::{self, BinaryOp, Expr, Literal, Var};
use toolgate_contracts::Role;
use toolgate_contracts::caller::Source as Door;
use toolgate_contracts::definition::{EgressClass, Label, Origin, Risk, Sink};

use super::Checked;
use crate::cedar::finding::{PolicyFinding, nearest, shown};
use crate::cedar::rule::{self, Name, Rule, Scope};
use crate::cedar::vocabulary::Lexicon;
use crate::cedar::words::{GROUP, ROLE, TOOL, WORKSPACE};

pub(super) fn check(subject: &Checked<'_>, lexicon: &Lexicon<'_>, findings: &mut Vec<PolicyFinding>) {
    for name in names(&subject.policy.template) {
        check_name(subject, lexicon, &name, findings);
    }
    for expr in rule::conjuncts(&subject.policy.template) {
        check_words(subject, lexicon, &expr, findings);
    }
}

/// Everything that a policy names as `Kind::"id"`, once.
fn names(template: &pst::Template) -> Vec<Name> {
    let mut all = Vec::new();
    let rules = rule::rules(0, template).unwrap_or_default();
    for Rule { principal, resource, .. } in rules.into_iter().take(1) {
        for scope in [principal, resource] {
            match scope {
                Scope::Eq(name) | Scope::In(name) | Scope::IsIn(_, name) => all.push(name),
                Scope::Any | Scope::Is(_) | Scope::Unknown => {}
            }
        }
    }
    for expr in rule::conjuncts(template) {
        literals(&expr, &mut all);
    }
    let mut seen = BTreeSet::new();
    all.retain(|name| seen.insert((name.kind.clone(), name.id.clone())));
    all
}

fn literals(expr: &Expr, all: &mut Vec<Name>) {
    if let Expr::Literal(Literal::EntityUID(uid)) = expr {
        all.push(rule::name(uid));
    }
    for child in rule::children(expr) {
        literals(child, all);
    }
}

fn check_name(subject: &Checked<'_>, lexicon: &Lexicon<'_>, name: &Name, findings: &mut Vec<PolicyFinding>) {
    let Name { kind, id } = name;
    let offset = subject.source.entity(subject.place, kind, id);
    let mut unknown = |code, what: &str, remedy: String| {
        subject.find(findings, code, offset, format!("there is no {what} `{}`", shown(id)), remedy);
    };
    let meant = |known: &[&str]| match nearest(id, known.iter().copied()) {
        Some(known) => format!("did you mean `{kind}::\"{known}\"`?"),
        None => format!("known are {}", listed(known)),
    };
    match kind.as_str() {
        TOOL if lexicon.tools.contains_key(id.as_str()) => {}
        TOOL => {
            let known: Vec<&str> = lexicon.tools.keys().copied().collect();
            let remedy = match (lexicon.canonical(id), nearest(id, known.iter().copied())) {
                (Some(own), _) => format!(
                    "policies see a tool by its own name alone: write `Tool::\"{own}\"`, and `resource.version` for one version"
                ),
                (None, Some(known)) => format!("did you mean `Tool::\"{known}\"`?"),
                (None, None) => "`toolgate tool list` shows the names".into(),
            };
            unknown("policy.unknown-tool", "tool", remedy);
        }
        ROLE if Role::ALL.iter().any(|role| role.as_str() == id) => {}
        ROLE => unknown("policy.unknown-name", "role", meant(&Role::ALL.map(Role::as_str))),
        GROUP if lexicon.groups.contains(id.as_str()) => {}
        GROUP => {
            let known: Vec<&str> = lexicon.groups.iter().copied().collect();
            unknown("policy.unknown-name", "group of tools", meant(&known));
        }
        "Agent" => {
            if let Some(known) = lexicon.agents.filter(|known| !known.contains(&id.as_str())) {
                unknown("policy.unknown-name", "agent", meant(known));
            }
        }
        WORKSPACE => {
            if let Some(known) = lexicon.workspaces.filter(|known| !known.contains(&id.as_str())) {
                unknown("policy.unknown-name", "workspace", meant(known));
            }
        }
        // People and services are not listed here; other kinds are Cedar's own finding.
        _ => {}
    }
}

fn listed(known: &[&str]) -> String {
    const SHOWN_MAX: usize = 12;
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    let more = if known.len() > SHOWN_MAX { ", …" } else { "" };
    known.truncate(SHOWN_MAX);
    if known.is_empty() { "none".into() } else { format!("{}{more}", known.join(", ")) }
}

/// `resource.risk == "critcal"` is well typed and never true.
fn check_words(subject: &Checked<'_>, lexicon: &Lexicon<'_>, expr: &Expr, findings: &mut Vec<PolicyFinding>) {
    if let Expr::BinaryOp {
        op: BinaryOp::Eq | BinaryOp::NotEq | BinaryOp::Contains | BinaryOp::ContainsAll | BinaryOp::ContainsAny,
        left,
        right,
    } = expr
    {
        for (attribute, other) in [(left, right), (right, left)] {
            let Some((what, known)) = closed(attribute, lexicon) else { continue };
            for word in strings(other).into_iter().filter(|word| !known.contains(word)) {
                let message = format!("`{}` is never {what}", shown(word));
                let remedy = match nearest(word, known.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("possible are {}", listed(&known)),
                };
                let offset = subject.source.said(subject.place, word);
                subject.find(findings, "policy.unknown-word", offset, message, remedy);
            }
        }
    }
    for child in rule::children(expr) {
        check_words(subject, lexicon, child, findings);
    }
}

fn strings(expr: &Expr) -> Vec<&str> {
    match expr {
        Expr::Literal(Literal::String(text)) => vec![text],
        Expr::Set(members) => members.iter().flat_map(|member| strings(member)).collect(),
        _ => Vec::new(),
    }
}

/// What an attribute can be, where that is a closed list.
fn closed<'a>(expr: &Expr, lexicon: &Lexicon<'a>) -> Option<(&'static str, Vec<&'a str>)> {
    let Expr::GetAttr { expr: of, attr } = expr else { return None };
    let Expr::Var(of) = &**of else { return None };
    Some(match (of, attr.as_str()) {
        (Var::Resource, "risk") => ("a risk", Risk::ALL.iter().map(|word| word.as_str()).collect()),
        (Var::Resource, "egress_class") => ("a class", EgressClass::ALL.iter().map(|word| word.as_str()).collect()),
        (Var::Resource, "origin") => ("an origin", Origin::ALL.iter().map(|word| word.as_str()).collect()),
        (Var::Resource, "sink") => ("a sink", Sink::ALL.iter().map(|word| word.as_str()).collect()),
        (Var::Resource, "group") => ("a group of tools", lexicon.groups.iter().copied().collect()),
        (Var::Principal, "roles") => ("a role", Role::ALL.iter().map(|role| role.as_str()).collect()),
        (Var::Principal, "workspace") => ("a workspace", lexicon.workspaces?.to_vec()),
        (Var::Context, "source") => ("a source", Door::ALL.iter().map(|word| word.as_str()).collect()),
        (Var::Context, "labels") => ("a label", Label::ALL.iter().map(|word| word.as_str()).collect()),
        _ => return None,
    })
}
