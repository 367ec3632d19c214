//! Agents, their limits, and the profiles that may only tighten.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::amount::Amount;
use crate::definition::{EgressClass, Hitl, words};
use crate::fault::Fault;
use crate::id::{AgentId, ProfileId, UserId};
use crate::name::{Slug, ToolName};

words! {
    /// `open`: every user-facing tool of class `none` or `read_only`; `assigned`: only what is assigned.
    Toolset { Open = "open", Assigned = "assigned" }
}
words! { AgentState { Active = "active", Frozen = "frozen" } }

pub const MAX_ITERATIONS_DEFAULT: u32 = 10;
pub const MAX_TOOL_CALLS_DEFAULT: u32 = 25;
pub const MAX_WALL_S_DEFAULT: u64 = 600;
pub const MAX_PARALLEL_DEFAULT: u32 = 16;
pub const MAX_DEPTH_DEFAULT: u32 = 5;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub version: u32,
    #[schema(value_type = String)]
    pub id: AgentId,
    pub name: Slug,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The user who answers for it; absent when made on the local data folder.
    #[schema(value_type = Option<String>)]
    pub owner: Option<UserId>,
    pub workspace: Option<Slug>,
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub model_params: Option<Map<String, Value>>,
    pub instructions: String,
    pub toolset: Toolset,
    pub tool_groups: Vec<String>,
    pub custom_tools: Vec<String>,
    pub skills: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Slug>,
    /// As written.
    pub limits: Limits,
    /// With every default filled in.
    pub effective_limits: Limits,
    pub state: AgentState,
    pub revision: u32,
}

/// What an author writes of an agent; seed 001's camelCase is accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    #[serde(default = "first_version")]
    pub version: u32,
    pub name: Slug,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Slug>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(default, alias = "modelParams", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub model_params: Option<Map<String, Value>>,
    #[serde(default)]
    pub instructions: String,
    #[serde(default = "open")]
    pub toolset: Toolset,
    #[serde(default, alias = "toolGroups")]
    pub tool_groups: Vec<String>,
    #[serde(default, alias = "customTools")]
    pub custom_tools: Vec<String>,
    #[serde(default)]
    pub skills: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Slug>,
    #[serde(default)]
    pub limits: Limits,
}

const fn first_version() -> u32 {
    1
}

const fn open() -> Toolset {
    Toolset::Open
}

/// Absent means the default; of several the strictest wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(default, alias = "enabledTools", skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    /// `none`, `reads` or `writes`.
    #[serde(default, alias = "sideEffects", skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    #[serde(default, alias = "maxIterations", skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(default, alias = "maxToolCalls", skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// A decimal amount in the tenant's currency.
    #[serde(default, alias = "maxBudget", skip_serializing_if = "Option::is_none")]
    pub max_budget: Option<Amount>,
    #[serde(default, alias = "maxTokens", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, alias = "maxWallS", skip_serializing_if = "Option::is_none")]
    pub max_wall_s: Option<u64>,
    #[serde(default, alias = "maxParallel", skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    #[serde(default, alias = "maxDepth", skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    #[serde(default, alias = "maxOutputBytes", skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    #[serde(default, alias = "rateLimit", skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

words! {
    /// The ceiling on effects, mildest first.
    SideEffects { None = "none", Reads = "reads", Writes = "writes" }
}

impl Limits {
    /// With every default filled in, as a reader wants to see them.
    #[must_use]
    pub fn effective(&self) -> Self {
        Self {
            max_iterations: self.max_iterations.or(Some(MAX_ITERATIONS_DEFAULT)),
            max_tool_calls: self.max_tool_calls.or(Some(MAX_TOOL_CALLS_DEFAULT)),
            max_wall_s: self.max_wall_s.or(Some(MAX_WALL_S_DEFAULT)),
            max_parallel: self.max_parallel.or(Some(MAX_PARALLEL_DEFAULT)),
            max_depth: self.max_depth.or(Some(MAX_DEPTH_DEFAULT)),
            ..self.clone()
        }
    }

    /// None of them is one with which nothing could ever happen. `at` is where they stand.
    pub fn check(&self, at: &str) -> Result<(), Fault> {
        let zero = [
            ("max_iterations", self.max_iterations == Some(0), "no question could be asked"),
            ("max_tokens", self.max_tokens == Some(0), "no question could be asked"),
            ("max_wall_s", self.max_wall_s == Some(0), "nothing could begin"),
            ("max_parallel", self.max_parallel == Some(0), "no call could begin"),
        ];
        match zero.into_iter().find(|(_, is_zero, _)| *is_zero) {
            None => Ok(()),
            Some((name, _, what)) => {
                let told = format!("`{name}` is 0, with which {what}");
                Err(Fault::invalid(told, "leave it out, or give at least 1").at(format!("{at}/{name}")))
            }
        }
    }
}

/// What holds for a whole tenant. Absent means no limit of the tenant's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Of all calls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Of each agent's calls, where the agent sets no stricter one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_rate_limit: Option<RateLimit>,
    /// A decimal amount in the tenant's currency, for a calendar month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget: Option<Amount>,
    /// Calls that run at the same time, on each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// The ceiling on effects of every call: `none`, `reads` or `writes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Of every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Of each run, as are those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wall_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// Of one tool's calls, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub tools: BTreeMap<ToolName, ToolLimits>,
}

impl TenantLimits {
    /// The limits of a run, no looser than those of its tenant.
    #[must_use]
    pub fn within(&self, run: Limits) -> Limits {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Limits {
            side_effects: least(run.side_effects, self.side_effects),
            max_output_bytes: least(run.max_output_bytes, self.max_output_bytes),
            max_iterations: least(run.max_iterations, self.max_iterations),
            max_tool_calls: least(run.max_tool_calls, self.max_tool_calls),
            max_tokens: least(run.max_tokens, self.max_tokens),
            max_wall_s: least(run.max_wall_s, self.max_wall_s),
            max_depth: least(run.max_depth, self.max_depth),
            ..run
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// For a calendar month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget: Option<Amount>,
}

words! {
    /// What a kill switch stops at once.
    KillScope { Tenant = "tenant", Agent = "agent", Tool = "tool" }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    pub count: u32,
    pub per_s: u32,
}

/// A bundle of overrides for an agent. INVARIANT: it can only tighten, so `requires_approval` is `true` or absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default = "first_version")]
    pub version: u32,
    pub name: Slug,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    pub requires_approval: Option<OnlyTrue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<Hitl>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_call: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_run: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_day: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_egress: Option<Vec<EgressClass>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub constraints: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<String>,
}

/// A profile as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoredProfile {
    #[schema(value_type = String)]
    pub id: ProfileId,
    #[serde(flatten)]
    pub profile: Profile,
    pub revision: u32,
}

/// `true`, and nothing else: a profile cannot switch approval off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct OnlyTrue;

impl TryFrom<bool> for OnlyTrue {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Ok(Self) } else { Err("this may only tighten: write `true` or leave it out") }
    }
}

impl From<OnlyTrue> for bool {
    fn from(_: OnlyTrue) -> Self {
        true
    }
}

impl Profile {
    /// Whether the profile leaves a tool in the set; `named` tells whether a list names it, in whatever spelling.
    pub fn admits(&self, named: impl Fn(&[String]) -> bool, class: EgressClass) -> bool {
        self.allow_tools.as_deref().is_none_or(&named)
            && !named(&self.deny_tools)
            && self.allowed_egress.as_ref().is_none_or(|classes| classes.contains(&class))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json;

    #[test]
    fn a_profile_cannot_loosen() {
        let error = json::decode::<Profile>(json!({"name": "p", "requires_approval": false})).unwrap_err();
        assert_eq!(error.pointer, "/requires_approval");
        assert!(error.message.contains("only tighten"));
    }

    #[test]
    fn an_unknown_limit_is_told_the_names_that_there_are_each_once() {
        let error = json::decode::<Limits>(json!({"maxIteration": 1})).unwrap_err();
        assert!(
            error.message.starts_with("unknown field `maxIteration`, expected one of `enabled_tools`, "),
            "{error}"
        );
        assert!(error.message.contains("`max_iterations`") && !error.message.contains("maxIterations"), "{error}");
    }

    #[test]
    fn a_tenant_only_tightens_what_a_run_may() {
        let tenant = TenantLimits { max_iterations: Some(5), max_depth: Some(2), ..TenantLimits::default() };
        let run = Limits { max_iterations: Some(9), max_wall_s: Some(7), ..Limits::default() };
        let expected = Limits { max_iterations: Some(5), max_wall_s: Some(7), max_depth: Some(2), ..Limits::default() };
        assert_eq!(tenant.within(run), expected);
    }

    #[test]
    fn seed_spelling_is_accepted() {
        let spec: AgentSpec = json::decode(
            json!({"name": "a", "toolGroups": ["web"], "customTools": ["x"], "limits": {"maxToolCalls": 3}}),
        )
        .unwrap();
        assert_eq!((spec.tool_groups, spec.custom_tools), (vec!["web".to_owned()], vec!["x".to_owned()]));
        assert_eq!(spec.limits.effective().max_tool_calls, Some(3));
        assert_eq!(spec.limits.effective().max_iterations, Some(10));
    }
}
