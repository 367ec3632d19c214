//! Step 5: why a person is asked, and how. Reasons come from the definition, profiles, policies, labels and guardrails;
//! the strictest word of all of them holds.
//!
//! Invariant: nothing here can take a reason away. A `write`, and what a label rule asks for, needs a person's decision
//! whatever mode, profile or log-only switch is set.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{Approvers, EgressClass, Hitl, HitlMode, PermissionPolicy, Risk};
use toolgate_contracts::{AskCode, AskReason, ErrorCode, Mode, Permission, Runner, ToolError};
use toolgate_policy::cedar::{Ask, Call, Circumstances, Unattended};
use toolgate_policy::labels::{self, RuleHit, SinkFacts};
use toolgate_registry::snapshot::ResolvedTool;

use toolgate_registry::subject::facts;
use toolgate_registry::toolset::View;

use crate::admit::{Decision, Question, Verdict};

/// How a person is asked, and why: all reasons, the strictest mode, the shortest time, everybody's demands on who decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asking {
    pub reasons: Vec<AskReason>,
    pub mode: HitlMode,
    /// Absent: as long as the tenant waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Each of them must be met; none: one person who may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Approvers>,
    /// Only a person's decision lets it run.
    pub person_required: bool,
    /// Whether a standing grant may answer.
    pub standing: bool,
    /// The right that whoever approves lends to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrows: Option<Permission>,
}

/// Reasons as they are gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    reasons: Vec<AskReason>,
    mode: Option<HitlMode>,
    timeout_s: Option<u64>,
    approvers: Vec<Approvers>,
    by_label: bool,
    no_standing: bool,
}

impl Asks {
    /// A reason with what it says about the manner; where it names no mode, people are waited for.
    pub fn add(&mut self, code: AskCode, text: impl Into<String>, by: Option<String>, hitl: Option<&Hitl>) {
        self.reasons.push(AskReason { code, text: text.into(), by });
        let mode = hitl.and_then(|hitl| hitl.mode).unwrap_or(HitlMode::Blocking);
        self.mode = Some(self.mode.map_or(mode, |before| stricter(before, mode)));
        if let Some(timeout) = hitl.and_then(|hitl| hitl.timeout_s) {
            self.timeout_s = Some(self.timeout_s.map_or(timeout, |before| before.min(timeout)));
        }
        if let Some(approvers) = hitl.and_then(|hitl| hitl.approvers.as_ref())
            && !self.approvers.contains(approvers)
        {
            self.approvers.push(approvers.clone());
        }
    }

    fn add_label(&mut self, hit: &RuleHit) {
        self.add(AskCode::Label, &hit.reason, Some(hit.rule.as_str().to_owned()), None);
        self.by_label |= hit.blocking;
        self.no_standing |= !hit.standing_grants;
    }

    /// Adds later reasons to a decision that was made without them.
    pub fn join_into(self, decision: &mut Decision, tool: &ResolvedTool, mode: Mode) {
        let Some(more) = self.finish(tool, mode) else { return };
        decision.verdict = Verdict::Ask;
        decision.asking = Some(match decision.asking.take() {
            None => more,
            Some(mut before) => {
                before.reasons.extend(more.reasons);
                before.mode = stricter(before.mode, more.mode);
                before.person_required |= more.person_required;
                before.standing &= more.standing;
                before
            }
        });
    }

    pub fn finish(self, tool: &ResolvedTool, mode: Mode) -> Option<Asking> {
        if self.reasons.is_empty() {
            return None;
        }
        let writes = tool.definition.class() == EgressClass::Write;
        Some(Asking {
            reasons: self.reasons,
            mode: self.mode.unwrap_or(HitlMode::Blocking),
            timeout_s: self.timeout_s,
            approvers: self.approvers,
            person_required: mode != Mode::DryRun && (writes || self.by_label),
            standing: !self.no_standing,
            borrows: None,
        })
    }
}

impl Asking {
    /// What has been asked before and is asked now: whether now is more.
    pub fn exceeds(&self, before: &Self) -> bool {
        let new_reason = self
            .reasons
            .iter()
            .any(|reason| !before.reasons.iter().any(|known| (known.code, &known.by) == (reason.code, &reason.by)));
        let new_demand = self.approvers.iter().any(|demand| !before.approvers.contains(demand));
        new_reason
            || new_demand
            || strictness(self.mode) > strictness(before.mode)
            || (self.person_required && !before.person_required)
            || (self.borrows.is_some() && self.borrows != before.borrows)
    }

    /// How many people at least.
    pub fn need(&self) -> u32 {
        self.approvers.iter().map(|approvers| approvers.need).max().unwrap_or(1).max(1)
    }
}

const fn strictness(mode: HitlMode) -> u8 {
    match mode {
        HitlMode::FireAndContinue => 0,
        HitlMode::ContinueOnTimeout => 1,
        HitlMode::Blocking => 2,
    }
}

fn stricter(left: HitlMode, right: HitlMode) -> HitlMode {
    if strictness(left) >= strictness(right) { left } else { right }
}

impl Question<'_> {
    /// What definition and profiles ask, whatever the arguments are.
    pub(crate) fn standing_asks(&self, tool: &ResolvedTool) -> Asks {
        let definition = &tool.definition;
        let hitl = definition.hitl.as_ref();
        let mut asks = Asks::default();
        if definition.class() == EgressClass::Write {
            asks.add(AskCode::Write, "the tool writes (egress_class: write)", None, hitl);
        }
        if definition.requires_approval == Some(true) {
            asks.add(AskCode::RequiresApproval, "the tool requires approval", None, hitl);
        }
        if definition.effective_risk() == Risk::Critical {
            asks.add(AskCode::Critical, "the tool's risk is critical", None, hitl);
        }
        if definition.policy() == PermissionPolicy::AlwaysAsk && !self.is_by_a_person() {
            let text = "the tool asks whenever an agent calls (permission_policy: always_ask)";
            asks.add(AskCode::AlwaysAsk, text, None, hitl);
        }
        for profile in self.profiles(tool).filter(|profile| profile.requires_approval.is_some()) {
            let text = format!("the profile {} requires approval", profile.name);
            asks.add(AskCode::Profile, text, Some(profile.name.to_string()), profile.hitl.as_ref());
        }
        asks
    }

    /// Every caller but a signed-in browser counts as an agent.
    pub(crate) fn is_by_a_person(&self) -> bool {
        matches!(self.caller.credential, Credential::BrowserSession(_)) && self.agent.is_none()
    }

    /// Step 5: policies, labels and guardrails, on top of what definition and profiles say.
    pub(crate) fn decide(&self, tool: &ResolvedTool, input: &Value, decision: &mut Decision) -> Result<(), ToolError> {
        let mut asks = self.standing_asks(tool);
        self.judge_policies(tool, input, &mut asks, decision)?;
        self.judge_labels(tool, input, &mut asks)?;
        self.examine_input(tool, input, &mut asks, decision)?;
        decision.asking = asks.finish(tool, self.mode);
        decision.verdict = if decision.asking.is_none() { Verdict::Allow } else { Verdict::Ask };
        Ok(())
    }

    /// What the policies say of a call whose arguments are not known yet; where they read them, that they do.
    pub(crate) fn foresee_policies(
        &self,
        tool: &ResolvedTool,
        decision: &mut Decision,
    ) -> Result<Vec<String>, ToolError> {
        let Some(policies) = self.registry.deciding.policies() else { return Ok(Vec::new()) };
        let policies = policies.map_err(policy_error)?;
        let view =
            View { registry: self.registry, caller: self.caller, agent: self.agent, run: self.run, today: self.today };
        let (who, version) = (view.who(), tool.version.version.to_string());
        let needs = policies.needs(&who.subject(), &facts(tool, &version));
        if !needs.args.is_empty() {
            return Ok(vec![format!("policies read {}: they may ask or deny", needs.args.join(", "))]);
        }
        let mut asks = Asks::default();
        self.judge_policies(tool, &Value::Object(serde_json::Map::new()), &mut asks, decision)?;
        Ok(asks.reasons.into_iter().map(|reason| reason.text).collect())
    }

    /// What the tenant's policies say; the default set says nothing.
    fn judge_policies(
        &self,
        tool: &ResolvedTool,
        input: &Value,
        asks: &mut Asks,
        decision: &mut Decision,
    ) -> Result<(), ToolError> {
        let policies = match self.registry.deciding.policies() {
            None => return Ok(()),
            Some(Ok(policies)) => policies,
            Some(Err(why)) => return Err(policy_error(why)),
        };
        let view =
            View { registry: self.registry, caller: self.caller, agent: self.agent, run: self.run, today: self.today };
        let (who, version) = (view.who(), tool.version.version.to_string());
        let labels = self.labels.to_vec();
        let circumstances =
            Circumstances { labels: &labels, source: self.source, depth: self.depth, now: self.now, args: input };
        let judgement = policies.decide(&who.subject(), &facts(tool, &version), &circumstances);
        for hit in judgement.logged {
            decision.logged.push(format!(
                "policy {}: {}",
                hit.policy,
                hit.reason.unwrap_or(hit.action.as_str().to_owned())
            ));
        }
        match judgement.call {
            Call::Allowed => decision.policies.extend(judgement.permitted_by),
            Call::NoPermit => return Err(denied_by_policy(tool, None, None)),
            Call::Denied { policies } => {
                let first = policies.first();
                return Err(denied_by_policy(
                    tool,
                    first.map(|hit| hit.policy.as_str()),
                    first.and_then(|hit| hit.reason.as_deref()),
                ));
            }
            Call::Errored { errors } => {
                let why = errors.first().map(|error| format!("policy `{}`: {}", error.policy, error.message));
                return Err(policy_error(&why.unwrap_or_default()));
            }
        }
        if let Unattended::Asks(reasons) = judgement.unattended {
            for Ask { policy, reason, mode, approvers } in reasons {
                let text = reason.unwrap_or_else(|| format!("the policy {policy} asks"));
                decision.policies.push(policy.clone());
                asks.add(AskCode::Policy, text, Some(policy), Some(&Hitl { mode, timeout_s: None, approvers }));
            }
        }
        Ok(())
    }

    fn judge_labels(&self, tool: &ResolvedTool, input: &Value, asks: &mut Asks) -> Result<(), ToolError> {
        // Who has seen nothing can carry nothing away; that a write asks is said by the definition.
        if self.labels.is_empty() {
            return Ok(());
        }
        let host = destination(tool, input);
        let names = [&tool.tool.name.folded(), &tool.name.folded()];
        let accepted = labels::accepted(self.registry.deciding.accepted(), &names, host.as_ref());
        let of_token =
            self.caller.token.as_ref().and_then(|token| token.labels_max.as_deref()).map(labels::Labels::from);
        labels::refuse_excess(self.labels, &tool.definition, of_token)?;
        for hit in labels::judge(self.labels, &SinkFacts::of(&tool.definition, administers(tool), accepted)) {
            match hit.verdict {
                labels::Verdict::Allow => {}
                // A write asks anyway, in the definition's own words.
                labels::Verdict::Ask if hit.rule == labels::Rule::L1 => {}
                labels::Verdict::Ask => asks.add_label(&hit),
                labels::Verdict::Deny => return Err(hit.denial()),
            }
        }
        Ok(())
    }
}

/// Whether a tool changes policies, tools, secrets or members.
pub(crate) fn administers(tool: &ResolvedTool) -> bool {
    tool.definition.group.as_deref() == Some("admin")
}

/// Where a call goes, if that is known: the host of the tool's own address, or of the one argument that its schema says
/// is an address. An address anywhere else in the arguments says nothing about where data goes.
pub(crate) fn destination(tool: &ResolvedTool, input: &Value) -> Option<url::Host> {
    let host = |text: &str| {
        let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        url.host().map(|host| host.to_owned())
    };
    if let Runner::Http(http) = &tool.definition.runner {
        return host(&http.url);
    }
    let properties = tool.definition.input_schema.get("properties")?.as_object()?;
    let is_address = |schema: &Value| matches!(schema.get("format").and_then(Value::as_str), Some("uri" | "url"));
    let mut addresses = properties.iter().filter(|(_, schema)| is_address(schema)).map(|(name, _)| name);
    let (Some(only), None) = (addresses.next(), addresses.next()) else { return None };
    host(input.get(only)?.as_str()?)
}

fn denied_by_policy(tool: &ResolvedTool, policy: Option<&str>, reason: Option<&str>) -> ToolError {
    let message = match (policy, reason) {
        (Some(policy), Some(reason)) => {
            format!("the policy `{policy}` forbids `{}` with these arguments: {reason}", tool.name)
        }
        (Some(policy), None) => format!("the policy `{policy}` forbids `{}` with these arguments", tool.name),
        (None, _) => format!("no policy permits `{}` with these arguments", tool.name),
    };
    let error = ToolError::because(ErrorCode::PolicyDenied, "policy", message)
        .with("remedy", "change the arguments, use another tool, or ask who edits policies (`policies.edit`)");
    match policy {
        Some(policy) => error.with("policy", policy),
        None => error,
    }
}

fn policy_error(why: &str) -> ToolError {
    let message = format!("the policies could not be evaluated, so nothing is allowed: {why}");
    ToolError::because(ErrorCode::PolicyDenied, "policy_error", message)
        .with("remedy", "who edits policies mends them: `toolgate policy check`")
}
