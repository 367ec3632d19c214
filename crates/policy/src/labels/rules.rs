//! The rules L1–L6: what a tool could do, held against what its run has seen.
//!
//! At most two of untrusted content, private data, and a way out go without a person. Invariant: more labels never
//! loosen the verdict; a property test holds it.

use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::{EgressClass, Label, Sink};
use toolgate_contracts::{Definition, ErrorCode, FoldedName, ToolError, ToolName};
use url::Host;

use super::Labels;

/// Mildest first, so that `max` is the verdict of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Rule {
    /// A write always asks.
    L1,
    /// Untrusted content alone may go anywhere.
    L2,
    /// Private data alone may go anywhere, unless it is sensitive.
    L3,
    /// Untrusted content and private data together go nowhere without a person.
    L4,
    /// Who has read untrusted content does not administer.
    L5,
    /// Sensitive data goes only where the operator accepts it.
    L6,
}

impl Rule {
    pub const ALL: [Self; 6] = [Self::L1, Self::L2, Self::L3, Self::L4, Self::L5, Self::L6];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::L4 => "L4",
            Self::L5 => "L5",
            Self::L6 => "L6",
        }
    }

    /// The call waits for a person whatever mode was chosen: neither a timeout nor "continue" runs it.
    pub const fn blocks(self) -> bool {
        matches!(self, Self::L4)
    }

    /// Whether a standing grant may answer instead of a person.
    pub const fn allows_standing_grants(self) -> bool {
        !matches!(self, Self::L4)
    }
}

/// What a call could do with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkFacts {
    pub class: EgressClass,
    pub sink: Sink,
    /// It changes policies, tools, secrets or members.
    pub administers: bool,
    /// What the operator accepts for this tool and destination, by [`accepted`].
    pub accepted: Labels,
}

impl SinkFacts {
    pub fn of(definition: &Definition, administers: bool, accepted: Labels) -> Self {
        Self { class: definition.class(), sink: definition.effective_sink(), administers, accepted }
    }
}

/// A rule that has something to say about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RuleHit {
    pub rule: Rule,
    pub verdict: Verdict,
    pub reason: String,
    /// What a model or a person can do about it.
    pub remedy: String,
    /// As [`Rule::blocks`].
    pub blocking: bool,
    /// As [`Rule::allows_standing_grants`].
    pub standing_grants: bool,
}

impl RuleHit {
    fn new(rule: Rule, verdict: Verdict, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            rule,
            verdict,
            reason: reason.into(),
            remedy: remedy.into(),
            blocking: rule.blocks(),
            standing_grants: rule.allows_standing_grants(),
        }
    }

    /// How the call ends when the rule denies it.
    pub fn denial(&self) -> ToolError {
        ToolError::because(ErrorCode::PolicyDenied, "label", &self.reason)
            .with("rule", self.rule.as_str())
            .with("remedy", self.remedy.as_str())
    }
}

/// All rules that speak of this call, also those that allow it.
pub fn judge(labels: Labels, facts: &SinkFacts) -> Vec<RuleHit> {
    let SinkFacts { class, sink, administers, accepted } = *facts;
    let (writes, open) = (class == EgressClass::Write, sink == Sink::Open);
    // What the operator accepts here counts as not seen, except where the rule is not about where data goes.
    let flowing = labels.without(accepted);
    let untrusted = flowing.contains(Label::Untrusted);
    let sensitive = flowing.contains(Label::Sensitive);
    // Sensitive data is private data of the strictest kind, whether or not somebody said both.
    let private = sensitive || flowing.contains(Label::Private);

    let mut hits = Vec::new();
    if writes {
        let remedy = "a person approves it; standing grants by an administrator cover what repeats";
        hits.push(RuleHit::new(Rule::L1, Verdict::Ask, "the tool changes something outside", remedy));
    }
    if open && untrusted && !private {
        let reason = "the run has read untrusted content and no private data";
        hits.push(RuleHit::new(Rule::L2, Verdict::Allow, reason, "nothing is needed"));
    }
    if open && private && !untrusted && !sensitive {
        let reason = "the run has read private data and no untrusted content";
        hits.push(RuleHit::new(Rule::L3, Verdict::Allow, reason, "nothing is needed"));
    }
    if (open || writes) && untrusted && private {
        let way = if writes { "the tool changes something outside" } else { "the destination or query is free text" };
        let reason = format!("the run has read untrusted content and private data, and {way}");
        let remedy = "a person approves this one call; what the operator accepts for this tool and host is not asked \
                      again, and work that needs no private data can go on in a run of its own";
        hits.push(RuleHit::new(Rule::L4, Verdict::Ask, reason, remedy));
    }
    if administers && labels.contains(Label::Untrusted) {
        let reason = "the run has read untrusted content, and the tool changes policies, tools, secrets or members";
        hits.push(RuleHit::new(
            Rule::L5,
            Verdict::Deny,
            reason,
            "a person does it in the console or on the command line",
        ));
    }
    if open && sensitive {
        let reason = "the run has read sensitive data, and the destination or query is free text";
        let remedy = "use a tool with a fixed destination, or ask the operator to accept sensitive data for this tool \
                      and host";
        hits.push(RuleHit::new(Rule::L6, Verdict::Deny, reason, remedy));
    }
    hits
}

/// The strictest of all hits.
pub fn verdict(hits: &[RuleHit]) -> Verdict {
    hits.iter().map(|hit| hit.verdict).max().unwrap_or(Verdict::Allow)
}

/// The operator's word that a tool, to one host or to any, may be given data with these labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "WrittenAcceptance", into = "WrittenAcceptance")]
pub struct Acceptance {
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// Absent: wherever the tool sends to.
    #[schema(value_type = Option<String>)]
    pub host: Option<Host>,
    pub accepts: Labels,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAcceptance {
    tool: ToolName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    accepts: Labels,
}

impl TryFrom<WrittenAcceptance> for Acceptance {
    type Error = String;

    fn try_from(written: WrittenAcceptance) -> Result<Self, String> {
        let WrittenAcceptance { tool, host, accepts } = written;
        let parse = |text: String| {
            Host::parse(&text).map_err(|_| format!("`host` is `{}`, which is no host", text.escape_debug()))
        };
        if accepts.is_empty() {
            return Err("`accepts` lists no label".to_owned());
        }
        Ok(Self { tool, host: host.map(parse).transpose()?, accepts })
    }
}

impl From<Acceptance> for WrittenAcceptance {
    fn from(acceptance: Acceptance) -> Self {
        let Acceptance { tool, host, accepts } = acceptance;
        Self { tool, host: host.map(|host| host.to_string()), accepts }
    }
}

/// What is accepted for a call: `names` are the tool's own and never an alias's, `host` is where it goes, if that is
/// known before it runs.
pub fn accepted<'a>(
    acceptances: impl IntoIterator<Item = &'a Acceptance>,
    names: &[&FoldedName],
    host: Option<&Host>,
) -> Labels {
    let applies = |acceptance: &&Acceptance| {
        names.contains(&&acceptance.tool.folded())
            && acceptance.host.as_ref().is_none_or(|listed| host.is_some_and(|host| host == listed))
    };
    acceptances.into_iter().filter(applies).fold(Labels::NONE, |joined, one| joined.join(one.accepts))
}

/// The labels that are too many where at most `max` are taken; absent: any.
pub fn excess(labels: Labels, max: Option<Labels>) -> Labels {
    max.map_or(Labels::NONE, |max| labels.without(max))
}

/// Denies a call whose labels are above what its tool (`labels.max_in`) or its token (`labels_max`) takes.
pub fn refuse_excess(labels: Labels, definition: &Definition, token: Option<Labels>) -> Result<(), ToolError> {
    let by_tool = definition.labels.as_ref().and_then(|rules| rules.max_in.as_deref()).map(Labels::from);
    for (max, who, member) in [(by_tool, "the tool", "labels.max_in"), (token, "the token", "labels_max")] {
        let excess = excess(labels, max);
        if !excess.is_empty() {
            let message = format!("the call carries data that is {excess}, which {who} does not take (`{member}`)");
            return Err(ToolError::because(ErrorCode::PolicyDenied, "label", message)
                .with("labels", serde_json::to_value(excess).unwrap_or_default())
                .with("remedy", "use a caller, or a token, that takes such data; labels are forgotten twelve hours after they were joined"));
        }
    }
    Ok(())
}
