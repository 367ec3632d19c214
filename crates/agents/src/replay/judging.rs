//! Decisions made again, by the code that the gate decides by.
//!
//! Only what policies say is judged anew; what definitions, profiles, labels, guardrails and limits said stands as it is
//! recorded.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_contracts::definition::Sink;
use toolgate_contracts::{Source, Timestamp};
use toolgate_engine::admit::{Decision, Verdict};
use toolgate_engine::what_if::{Recorded, by_policy};
use toolgate_policy::cedar::{Circumstances, Policies, Subject, SubjectKind, ToolFacts};

use super::bundle::{Bundle, BundleCall, Facts};
use super::difference::{Difference, UnknownDecision};
use super::{Change, bundle};

/// What the gate decided of a call, and what it would decide under these policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub recorded: Verdict,
    pub replayed: Verdict,
    /// Those that say so; none: nothing permits it, or nothing forbids it.
    pub policies: Vec<String>,
}

/// Judges a recorded call again. `Err`: why nobody can tell.
pub fn judged(bundle: &Bundle, call: &BundleCall, policies: &Policies) -> Result<Judged, String> {
    let said = call.decision.clone().unwrap_or_default();
    let asked_at: Option<Timestamp> = said.get("asked_at").cloned().and_then(|at| serde_json::from_value(at).ok());
    let unread = || "its decision cannot be read".to_owned();
    let decision: Decision = serde_json::from_value(said).map_err(|_| unread())?;
    let recorded = Recorded::of(&decision, call.envelope.error.as_ref());
    // Denied whatever policies say.
    if recorded.rest == Verdict::Deny {
        return Ok(Judged { recorded: Verdict::Deny, replayed: Verdict::Deny, policies: Vec::new() });
    }
    let policy = &bundle.snapshot.policy;
    if let Some(why) = policy.unknown.get(&call.seq.to_string()) {
        return Err(why.clone());
    }
    let subject = policy.subject.as_ref().ok_or("whoever asked is gone, and with them their roles")?;
    let kind = SubjectKind::ALL.into_iter().find(|kind| kind.as_str() == subject.kind).ok_or_else(unread)?;
    let subject = Subject {
        kind,
        id: &subject.id,
        roles: &subject.roles,
        workspace: subject.workspace.as_deref(),
        owner: subject.owner.as_deref(),
    };
    let tool = facts_of(bundle, call).ok_or("the version is gone")?;
    let facts = ToolFacts {
        name: &tool.name,
        version: &call.envelope.version,
        egress_class: tool.egress_class,
        risk: tool.risk,
        category: tool.category.as_deref(),
        group: tool.group.as_deref(),
        tags: &tool.tags,
        origin: tool.origin,
        sink: tool.sink,
        input_schema: &tool.input_schema,
        key: tool.definition_digest,
    };
    let labels = decision.labels.to_vec();
    let circumstances = Circumstances {
        labels: &labels,
        source: Source::Agent,
        depth: policy.depth,
        now: asked_at.ok_or_else(unread)?,
        args: &call.envelope.input,
    };
    let (now, policies) = by_policy(policies, &subject, &facts, &circumstances);
    // Where policies denied, nobody looked for labels and guardrails.
    let unseen = recorded.by_policy == Verdict::Deny && !labels.is_empty() && tool.sink == Sink::Open;
    if unseen && now != Verdict::Deny {
        return Err("it was denied before its labels were judged".to_owned());
    }
    Ok(Judged { recorded: recorded.by_policy.max(recorded.rest), replayed: now.max(recorded.rest), policies })
}

pub(super) fn facts_of<'b>(bundle: &'b Bundle, call: &BundleCall) -> Option<&'b Facts> {
    let of_call = |facts: &&Facts| facts.name == call.envelope.name;
    let tools = bundle.snapshot.tools.iter().filter(|tool| tool.version == call.envelope.version);
    tools.filter_map(|tool| tool.facts.as_ref()).find(of_call)
}

/// All decisions, under the policies that made them or under those of the change.
pub(super) struct Decisions {
    pub judged: u32,
    pub differences: Vec<Difference>,
    pub unknown: Vec<UnknownDecision>,
}

pub(super) fn decisions(bundle: &Bundle, change: &Change) -> Decisions {
    let mut told = Decisions { judged: 0, differences: Vec::new(), unknown: Vec::new() };
    let mut own = OwnPolicies { bundle, read: BTreeMap::new() };
    for (at, call) in bundle.calls.iter().enumerate() {
        // There was none: no tool of that name, or arguments that cannot be read.
        let Some(decision) = &call.decision else { continue };
        let found = match &change.policies {
            Some(policies) => judged(bundle, call, policies),
            None => match own.of(decision) {
                Some(policies) => judged(bundle, call, policies),
                None => Err("the policies that decided are not in the bundle".to_owned()),
            },
        };
        match found {
            Err(why) => {
                told.unknown.push(UnknownDecision { seq: call.seq, tool: call.envelope.name.clone(), why });
            }
            Ok(Judged { recorded, replayed, policies }) => {
                told.judged += 1;
                if recorded == replayed {
                    continue;
                }
                let by = match policies.as_slice() {
                    [] if replayed == Verdict::Deny => ": no policy permits it".to_owned(),
                    [] => String::new(),
                    [one] => format!(" by the policy `{one}`"),
                    more => format!(" by the policies `{}`", more.join("`, `")),
                };
                let words = format!(
                    "call {} of `{}` was {}, and would be {}{by}",
                    call.seq,
                    call.envelope.name,
                    word(recorded),
                    word(replayed)
                );
                let replayed = json!({"verdict": replayed, "policies": policies});
                let recorded = json!({"verdict": recorded, "policies": decision.get("policies")});
                told.differences.push(Difference::new(format!("/calls/{at}/decision"), &recorded, &replayed, words));
            }
        }
    }
    told
}

/// Calls, by their place, whose decision comes out otherwise from what the bundle holds: roles, policies or overrides of
/// tools are not what they were. What other policies would say of them is unknown.
pub fn unsettled(bundle: &Bundle) -> BTreeMap<String, String> {
    let mut own = OwnPolicies { bundle, read: BTreeMap::new() };
    let mut unsettled = BTreeMap::new();
    for call in &bundle.calls {
        let Some(policies) = call.decision.as_ref().and_then(|decision| own.of(decision)) else { continue };
        if judged(bundle, call, policies).is_ok_and(|Judged { recorded, replayed, .. }| recorded != replayed) {
            let why = "roles or tools have changed between the call and the bundle";
            unsettled.insert(call.seq.to_string(), why.to_owned());
        }
    }
    unsettled
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allowed",
        Verdict::Ask => "put to a person",
        Verdict::Deny => "denied",
    }
}

/// The policies that decided, each read once.
struct OwnPolicies<'b> {
    bundle: &'b Bundle,
    read: BTreeMap<i64, Option<Policies>>,
}

impl OwnPolicies<'_> {
    fn of(&mut self, decision: &Value) -> Option<&Policies> {
        let revision = decision.get("policy").and_then(Value::as_i64).unwrap_or(0);
        let texts = &self.bundle.snapshot.policy.texts;
        let read = self.read.entry(revision).or_insert_with(|| match (texts.get(&revision.to_string()), revision) {
            (Some(text), _) => Change::read_policies(text).ok(),
            (None, bundle::DEFAULT_REVISION) => Change::default_policies().ok(),
            (None, _) => None,
        });
        read.as_ref()
    }
}
