//! Steps 2 to 5: from what was asked to a verdict.
//!
//! Invariant: no I/O and no clock. The same snapshot and the same request always give the same verdict, so listing, dry
//! run, the check after an approval and the call itself cannot differ.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::agent::{Profile, StoredProfile};
use toolgate_contracts::definition::ToolState;
use toolgate_contracts::{Caller, ErrorCode, Fault, LeafId, Mode, Runner, Source, Timestamp, ToolError, ToolRef};
use toolgate_policy::labels::{Labels, Origins};
use toolgate_registry::schema::{Violation, fill_defaults};
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::{Member, Outside, View};
use toolgate_store::catalog::StoredAgent;

use crate::asking::Asking;
use crate::submit::step;

/// Mildest first, so that `max` is the rule: the strictest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = DecisionVerdict)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// The steps of the path that a decision tells about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Resolve,
    Validate,
    Authorize,
    Decide,
    Reserve,
    Run,
}

/// What each step said and why. It is kept with the call and never empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Of the registry that was asked.
    pub revision: i64,
    pub verdict: Verdict,
    /// Why the tool is in the caller's set.
    pub member: String,
    /// Of the tenant's policies; 0 is the default set.
    #[serde(default)]
    pub policy: i64,
    /// Why and how a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
    /// Which policies permitted or asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// What was only to be logged: policies and guardrails that would have asked or denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logged: Vec<String>,
    /// What the run or the caller had seen before.
    #[serde(default, skip_serializing_if = "none_seen")]
    pub labels: Labels,
    /// Where that came from, for people.
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origins: Origins,
    /// Where it ended, if it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Step>,
    /// What was held of which limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The log's entry of the intent, for a call that changes something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<LeafId>,
    /// Microseconds that each step took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<(Step, u64)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn none_seen(labels: &Labels) -> bool {
    labels.is_empty()
}

/// What is asked, with everything that a verdict depends on.
pub struct Question<'a> {
    pub registry: &'a TenantRegistry,
    pub revision: i64,
    pub caller: &'a Caller,
    pub agent: Option<&'a StoredAgent>,
    pub run: Option<&'a toolgate_contracts::Limits>,
    pub today: &'a str,
    pub tool: &'a ToolRef,
    pub mode: Mode,
    pub source: Source,
    pub now: Timestamp,
    /// How many runs are above it.
    pub depth: u32,
    /// What the run, or a caller without one, has seen; and what the request adds.
    pub labels: Labels,
    /// Asked by a guardrail about another call: no detector looks at it in turn.
    pub examining: bool,
}

/// A call that may go on: the tool, its input as it will run, and the verdict.
#[derive(Debug)]
pub struct Admitted {
    pub tool: ResolvedTool,
    pub input: Value,
    pub decision: Decision,
}

/// A call that ends here.
#[derive(Debug)]
pub enum Refusal {
    /// No such tool, as far as this caller is concerned: nothing is recorded, and nothing is told.
    NotFound(Fault, Value),
    /// The tool is known to the caller, so that the refusal is a call with a record.
    Refused(Box<Refused>),
}

#[derive(Debug)]
pub struct Refused {
    pub tool: ResolvedTool,
    pub input: Value,
    pub decision: Decision,
    pub error: ToolError,
}

impl Question<'_> {
    /// Steps 2 to 5 for this input.
    pub fn answer(&self, input: Value) -> Result<Admitted, Refusal> {
        let clock = Stopwatch::start();
        let resolving = step("resolve").entered();
        let (tool, mut decision, standing) = match self.standing() {
            Ok(found) => found,
            Err(fault) => return Err(Refusal::NotFound(fault, input)),
        };
        drop(resolving);
        let clock = clock.lap(Step::Resolve, &mut decision.spans);
        let refused = |step: Step, tool: ResolvedTool, input: Value, decision: Decision, error: ToolError| {
            let decision = Decision { verdict: Verdict::Deny, refused_at: Some(step), ..decision };
            Refusal::Refused(Box::new(Refused { tool, input, decision, error }))
        };
        if let Err(error) = standing {
            return Err(refused(Step::Resolve, tool, input, decision, error));
        }
        let mut input = input;
        let validating = step("validate").entered();
        let valid = self.validate(&tool, &mut input);
        drop(validating);
        if let Err(error) = valid {
            return Err(refused(Step::Validate, tool, input, decision, error));
        }
        let clock = clock.lap(Step::Validate, &mut decision.spans);
        let authorizing = step("authorize").entered();
        let authorized = self.authorize(&tool, &input);
        drop(authorizing);
        if let Err(error) = authorized {
            return Err(refused(Step::Authorize, tool, input, decision, error));
        }
        let clock = clock.lap(Step::Authorize, &mut decision.spans);
        let deciding = step("decide").entered();
        let decided = self.decide(&tool, &input, &mut decision);
        drop(deciding);
        if let Err(error) = decided {
            return Err(refused(Step::Decide, tool, input, decision, error));
        }
        let _ = clock.lap(Step::Decide, &mut decision.spans);
        Ok(Admitted { tool, input, decision })
    }

    /// What can be said whatever the arguments are: whether the tool is there for this caller, may be used now, and
    /// which standing reasons there are to ask a person.
    pub fn standing(&self) -> Result<(ResolvedTool, Decision, Result<(), ToolError>), Fault> {
        let (tool, member) = self.resolve()?;
        let asking = self.standing_asks(&tool).finish(&tool, self.mode);
        let decision = Decision {
            revision: self.revision,
            verdict: if asking.is_none() { Verdict::Allow } else { Verdict::Ask },
            member: member.as_ref().map_or_else(ToString::to_string, ToString::to_string),
            policy: self.registry.tenant.policy_revision,
            asking,
            policies: Vec::new(),
            logged: Vec::new(),
            labels: self.labels,
            origins: Origins::default(),
            refused_at: None,
            limits: Vec::new(),
            intent: None,
            spans: Vec::with_capacity(6),
        };
        let standing = match member {
            Err(outside) => Err(outside_error(&tool, &outside)),
            Ok(_) => usable(&tool),
        };
        Ok((tool, decision, standing))
    }

    /// Step 2. What the caller may not know of does not exist; what they know and may not use now is told why.
    fn resolve(&self) -> Result<(ResolvedTool, Result<Member, Outside>), Fault> {
        let Self { registry, caller, agent, run, today, tool: wanted, .. } = self;
        let view = View { registry, caller, agent: *agent, run: *run, today };
        let not_found = || Fault::not_found("tool", wanted);
        let tool = registry.resolve(wanted, today).ok_or_else(not_found)?;
        match view.standing(&tool) {
            Ok(member) => Ok((tool, Ok(member))),
            Err(outside) if tells_why(&outside) => Ok((tool, Err(outside))),
            Err(_) => Err(not_found()),
        }
    }

    /// Step 3. Defaults are filled in before anything is computed from the input.
    fn validate(&self, tool: &ResolvedTool, input: &mut Value) -> Result<(), ToolError> {
        let definition = &tool.definition;
        let external = matches!(definition.runner, Runner::External(_));
        if self.mode == Mode::Record && !external {
            return Err(ToolError::because(
                ErrorCode::ValidationError,
                "mode",
                format!(
                    "`mode: record` is for tools that run in the caller's own process, and `{}` is of kind `{}`; leave `mode` out",
                    tool.name,
                    definition.runner.kind()
                ),
            ));
        }
        let too_many = |_| {
            ToolError::because(ErrorCode::ValidationError, "too_large", "the input has too many places with defaults")
        };
        fill_defaults(&definition.input_schema, input).map_err(too_many)?;
        let validator = tool.version.input_validator().map_err(|finding| {
            ToolError::because(
                ErrorCode::ValidationError,
                "schema",
                format!("the tool's own schema is broken: {}", finding.message),
            )
        })?;
        if validator.is_valid(input) {
            return Ok(());
        }
        Err(invalid_input(&validator.validate(input)))
    }

    /// Step 4: what depends on the arguments.
    fn authorize(&self, tool: &ResolvedTool, input: &Value) -> Result<(), ToolError> {
        if let Some(token) = &self.caller.token {
            let names = [&tool.tool.name.folded(), &tool.name.folded()];
            toolgate_policy::token::check_arguments(token, &names, input)?;
        }
        for StoredProfile { id, profile, .. } in bound_by(self.registry, self.agent, tool) {
            if profile.constraints.is_empty() {
                continue;
            }
            let names = [&tool.tool.name.folded(), &tool.name.folded()];
            // What cannot be read denies.
            let read = self.registry.constraints(*id).map_err(str::to_owned);
            read.and_then(|constraints| constraints.check(&names, input)).map_err(|why| {
                ToolError::because(ErrorCode::PolicyDenied, "constraint", why).with("profile", profile.name.as_str())
            })?;
        }
        Ok(())
    }

    /// The profiles that bind this agent with this tool: its own, and that of the assignment.
    pub fn profiles(&self, tool: &ResolvedTool) -> impl Iterator<Item = &Profile> {
        profiles_of(self.registry, self.agent, tool)
    }
}

/// An input that the tool's schema does not accept, in words.
pub fn invalid_input(violations: &[Violation]) -> ToolError {
    let first = violations.first().map_or_else(|| "the input is not valid".to_owned(), |first| first.message.clone());
    let more = match violations.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let listed: Vec<Value> = violations
        .iter()
        .map(|Violation { pointer, expected, found, message }| {
            json!({"pointer": pointer, "expected": expected, "found": found, "message": message})
        })
        .collect();
    ToolError::because(ErrorCode::ValidationError, "schema", format!("{first}{more}")).with("violations", listed)
}

pub(crate) fn profiles_of<'a>(
    registry: &'a TenantRegistry,
    agent: Option<&StoredAgent>,
    tool: &ResolvedTool,
) -> impl Iterator<Item = &'a Profile> + use<'a> {
    bound_by(registry, agent, tool).map(|stored| &stored.profile)
}

fn bound_by<'a>(
    registry: &'a TenantRegistry,
    agent: Option<&StoredAgent>,
    tool: &ResolvedTool,
) -> impl Iterator<Item = &'a StoredProfile> + use<'a> {
    let own = agent.and_then(|agent| agent.profile);
    let assigned = agent
        .and_then(|agent| registry.assignments.get(&(agent.id, tool.tool.id)))
        .and_then(|assignment| assignment.profile)
        .filter(|assigned| Some(*assigned) != own);
    let ids = own.into_iter().chain(assigned);
    ids.filter_map(|id| registry.profiles.get(&id))
}

/// A caller who has the tool and may not use it now is told so; everything else looks like an unknown name.
fn tells_why(outside: &Outside) -> bool {
    match outside {
        Outside::Stopped(_) | Outside::AboveCeiling(_) | Outside::Blocked => true,
        Outside::NoToolRights
        | Outside::OtherTenants
        | Outside::NotEnabled
        | Outside::Disabled
        | Outside::Internal
        | Outside::MissingPermission(_)
        | Outside::NotAssigned
        | Outside::WriteNotAssigned
        | Outside::DeniedByProfile(_)
        | Outside::DeniedByPolicy
        | Outside::NotEnabledInRun
        | Outside::BeyondToken => false,
    }
}

fn outside_error(tool: &ResolvedTool, outside: &Outside) -> ToolError {
    let denied = |reason: &str, message: String| ToolError::because(ErrorCode::PolicyDenied, reason, message);
    match outside {
        Outside::AboveCeiling(ceiling) => denied(
            "side_effects",
            format!(
                "`{}` has side effects `{}`, above the ceiling `{ceiling}`; use a tool that does less, or raise `side_effects`",
                tool.name,
                tool.definition.side_effects()
            ),
        ),
        Outside::Blocked => blocked(tool),
        Outside::Stopped(stop) => stop.error(),
        other => denied("not_found", other.to_string()),
    }
}

fn usable(tool: &ResolvedTool) -> Result<(), ToolError> {
    if tool.state() == ToolState::Blocked { Err(blocked(tool)) } else { Ok(()) }
}

fn blocked(tool: &ResolvedTool) -> ToolError {
    let lifecycle = &tool.version.lifecycle;
    let why = lifecycle.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let instead = lifecycle.replaced_by.as_ref().map(|name| format!("; use `{name}` instead")).unwrap_or_default();
    let message = format!("`{}@{}` is blocked{why}{instead}", tool.name, tool.version.version);
    ToolError::because(ErrorCode::PolicyDenied, "blocked", message)
}

/// Measures steps; what it measures is shown, never decided on.
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub fn lap(self, step: Step, spans: &mut Vec<(Step, u64)>) -> Self {
        let now = std::time::Instant::now();
        spans.push((step, u64::try_from((now - self.0).as_micros()).unwrap_or(u64::MAX)));
        Self(now)
    }
}
