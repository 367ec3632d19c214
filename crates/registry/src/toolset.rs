//! Which tools a caller has: one function for listing, search, MCP, the agent loop and the call itself.
//!
//! `toolset = (assigned ∪ custom ∪ groups ∪ user-facing when open) ∩ visible ∩ permitted ∩ the run's enabled tools`.
//! Silence denies: a caller without `tools.read` has an empty set.

use std::fmt;

use toolgate_contracts::agent::{Limits, SideEffects, Toolset};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{EgressClass, ToolState, Visibility};
use toolgate_contracts::runner::Builtin;
use toolgate_contracts::{
    AgentState, Caller, ErrorCode, Fault, FaultKind, FoldedName, HeldToken, KillScope, Permission, Profile, Runner,
    Slug, ToolError, ToolRef,
};
use toolgate_store::catalog::StoredAgent;

use crate::snapshot::{ResolvedTool, Switch, TenantRegistry, TenantTool};
use crate::subject::facts;

/// The function by which a long result is read on.
const READ_RESULT: &str = "read_result";

/// Why a tool is in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Assigned {
        profile: Option<Slug>,
    },
    Custom,
    Group(String),
    /// The agent's tool set is open, and the tool is user-facing.
    Open,
    /// It reads what the agent's own calls gave, in the run that made them.
    OwnResults,
    /// No agent acts: a person or a key has every user-facing tool they are permitted.
    UserFacing,
}

/// Why a tool is not in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    NoToolRights,
    OtherTenants,
    NotEnabled,
    Disabled,
    Internal,
    MissingPermission(Permission),
    NotAssigned,
    /// An open set holds no `write` unless the tenant opens it or it is assigned.
    WriteNotAssigned,
    DeniedByProfile(Slug),
    /// No policy permits it, whatever the arguments.
    DeniedByPolicy,
    NotEnabledInRun,
    /// The scope of the caller's token does not name it in this version.
    BeyondToken,
    AboveCeiling(SideEffects),
    /// In the set, were nothing stopped.
    Stopped(Stop),
    /// Every version is blocked: it is refused whoever calls.
    Blocked,
}

impl Outside {
    /// Whether even the name is kept from those who may not administer tools.
    pub fn hides_the_name(&self) -> bool {
        match self {
            Self::NoToolRights
            | Self::OtherTenants
            | Self::NotEnabled
            | Self::Disabled
            | Self::Internal
            | Self::MissingPermission(_)
            | Self::BeyondToken => true,
            Self::NotAssigned
            | Self::WriteNotAssigned
            | Self::DeniedByProfile(_)
            | Self::DeniedByPolicy
            | Self::NotEnabledInRun
            | Self::AboveCeiling(_)
            | Self::Stopped(_)
            | Self::Blocked => false,
        }
    }
}

pub type Standing = Result<Member, Outside>;

/// Why nothing runs for now, for whoever has the tool: the name is not hidden, and the reason is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    AgentFrozen(Slug),
    KillSwitch { scope: KillScope, object: String, reason: String },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentFrozen(agent) => write!(f, "the agent `{agent}` is frozen"),
            Self::KillSwitch { scope: KillScope::Tenant, object: _, reason } => {
                write!(f, "everything is stopped by a kill switch: {reason}")
            }
            Self::KillSwitch { scope, object, reason } => {
                write!(f, "the {scope} `{object}` is stopped by a kill switch: {reason}")
            }
        }
    }
}

impl Stop {
    /// What a call is refused with.
    pub fn error(&self) -> ToolError {
        let error = ToolError::because(ErrorCode::PolicyDenied, "frozen", self.to_string());
        match self {
            Self::AgentFrozen(agent) => error.with("scope", "agent").with("name", agent.as_str()),
            Self::KillSwitch { scope, object, reason } => {
                error.with("scope", scope.as_str()).with("name", object.as_str()).with("because", reason.as_str())
            }
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assigned { profile: None } => f.write_str("assigned"),
            Self::Assigned { profile: Some(profile) } => write!(f, "assigned with profile {profile}"),
            Self::Custom => f.write_str("in custom_tools"),
            Self::Group(group) => write!(f, "in tool group {group}"),
            Self::Open => f.write_str("open tool set"),
            Self::OwnResults => f.write_str("reads the results of its own calls"),
            Self::UserFacing => f.write_str("user-facing"),
        }
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToolRights => f.write_str("the caller lacks tools.read"),
            Self::OtherTenants => f.write_str("made for other tenants"),
            Self::NotEnabled => f.write_str("hidden until enabled (toolgate tool enable)"),
            Self::Disabled => f.write_str("disabled in this tenant"),
            Self::Internal => f.write_str("internal: never offered outside"),
            Self::MissingPermission(permission) => write!(f, "needs the permission {permission}"),
            Self::NotAssigned => f.write_str("not assigned (toolgate tool assign)"),
            Self::WriteNotAssigned => f.write_str("class write must be assigned (toolgate tool assign)"),
            Self::DeniedByProfile(profile) => write!(f, "left out by profile {profile}"),
            Self::DeniedByPolicy => f.write_str("no policy permits it, whatever the arguments (toolgate policy show)"),
            Self::NotEnabledInRun => f.write_str("not in enabled_tools"),
            Self::BeyondToken => f.write_str("not in the scope of the token"),
            Self::AboveCeiling(ceiling) => write!(f, "above the side-effect ceiling {ceiling}"),
            Self::Stopped(stop) => write!(f, "{stop}"),
            Self::Blocked => f.write_str("blocked: never runs (toolgate tool activate)"),
        }
    }
}

/// Whose tools are asked for. A key made for an agent acts as that agent.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub registry: &'a TenantRegistry,
    pub caller: &'a Caller,
    pub agent: Option<&'a StoredAgent>,
    pub run: Option<&'a Limits>,
    /// The calendar day, against which old names run out.
    pub today: &'a str,
}

impl<'a> View<'a> {
    /// The view of a caller as they come, an agent's key included. An agent that is gone has no tools.
    pub fn of(registry: &'a TenantRegistry, caller: &'a Caller, today: &'a str) -> Result<Self, Fault> {
        let agent = match caller.agent {
            None => None,
            Some(id) => Some(registry.agents.get(&id).ok_or_else(|| {
                Fault::new(FaultKind::Forbidden, "the agent of this key was deleted", "make a key for another agent")
            })?),
        };
        Ok(Self { registry, caller, agent, run: None, today })
    }

    /// Whether the tool, in its present version, is in the set, and why.
    pub fn standing(&self, tool: &ResolvedTool) -> Standing {
        let definition = &tool.definition;
        if !self.caller.may(&Permission::TOOLS_READ) {
            return Err(Outside::NoToolRights);
        }
        match tool.switch {
            Switch::On => {}
            Switch::NotEnabled => return Err(Outside::NotEnabled),
            Switch::Disabled => return Err(Outside::Disabled),
            Switch::OtherTenants => return Err(Outside::OtherTenants),
        }
        let old_name_hidden = tool.alias.as_ref().is_some_and(|alias| alias.visibility == Visibility::Internal);
        if self.is_outside() && (definition.effective_visibility() == Visibility::Internal || old_name_hidden) {
            return Err(Outside::Internal);
        }
        let beyond =
            |token: &HeldToken| !token.covers(&[&tool.tool.name.folded(), &tool.name.folded()], &tool.version.version);
        if self.caller.token.as_deref().is_some_and(beyond) {
            return Err(Outside::BeyondToken);
        }
        let demanded = [&definition.required_permission, &tool.patch.required_permission];
        if let Some(permission) = demanded.into_iter().flatten().find(|permission| !self.caller.may(permission)) {
            return Err(Outside::MissingPermission(permission.clone()));
        }
        let member = match self.agent {
            None => Member::UserFacing,
            Some(agent) => self.agent_has(agent, tool)?,
        };
        if let Some(limits) = self.run.filter(|_| !self.reads_own(tool)) {
            within(limits, tool)?;
        }
        if !self.reads_own(tool) {
            below_ceiling(self.registry.tenant.limits.side_effects, tool)?;
        }
        // A set that cannot be read refuses too, when it is asked: then the caller is told why.
        if let Some(Ok(policies)) = self.registry.deciding.policies() {
            let version = tool.version.version.to_string();
            if policies.never_allows(&self.who().subject(), &facts(tool, &version)) {
                return Err(Outside::DeniedByPolicy);
            }
        }
        // Last, so that whoever has not got the tool is told so, stopped or not.
        match self.stop(tool) {
            Some(stop) => Err(Outside::Stopped(stop)),
            None => Ok(member),
        }
    }

    /// Whether the caller may know of the tool; a stopped one is seen and does not run.
    pub fn sees(&self, tool: &ResolvedTool) -> bool {
        matches!(self.standing(tool), Ok(_) | Err(Outside::Stopped(_)))
    }

    /// What stops a call of this tool in this view, whoever has it.
    pub fn stop(&self, tool: &ResolvedTool) -> Option<Stop> {
        self.stopped_by(Some(tool))
    }

    /// What stops the agent of this view, whatever it calls.
    pub fn agent_stop(&self) -> Option<Stop> {
        self.stopped_by(None)
    }

    fn stopped_by(&self, tool: Option<&ResolvedTool>) -> Option<Stop> {
        if let Some(switch) = self.registry.stopped(self.agent.map(|agent| agent.id), tool.map(|tool| tool.tool.id)) {
            let object = match switch.scope {
                KillScope::Tenant => self.registry.tenant.slug.to_string(),
                KillScope::Agent => self.agent.map(|agent| agent.spec.name.to_string()).unwrap_or_default(),
                KillScope::Tool => tool.map(|tool| tool.name.to_string()).unwrap_or_default(),
            };
            return Some(Stop::KillSwitch { scope: switch.scope, object, reason: switch.reason.clone() });
        }
        let frozen = self.agent.filter(|agent| agent.state == AgentState::Frozen)?;
        Some(Stop::AgentFrozen(frozen.spec.name.clone()))
    }

    fn agent_has(&self, agent: &StoredAgent, tool: &ResolvedTool) -> Standing {
        let names = |list: &[String]| names_tool(list, tool);
        let assignment = self.registry.assignments.get(&(agent.id, tool.tool.id));
        let group = || agent.spec.tool_groups.iter().find(|group| self.registry.group_has(group, &tool.tool));
        let profile_of = |id| self.registry.profiles.get(id).map(|stored| &stored.profile);
        let member = if let Some(assignment) = assignment {
            let profile = assignment.profile.as_ref().and_then(profile_of);
            admitted(profile, tool)?;
            Member::Assigned { profile: profile.map(|profile| profile.name.clone()) }
        } else if names(&agent.spec.custom_tools) {
            Member::Custom
        } else if let Some(group) = group() {
            Member::Group(group.clone())
        } else if agent.spec.toolset == Toolset::Open {
            Member::Open
        } else if self.reads_own(tool) {
            Member::OwnResults
        } else {
            return Err(Outside::NotAssigned);
        };
        // Who writes an agent's file, or a tool's group, does not thereby hand out effects: that is assigning.
        let assigned = matches!(member, Member::Assigned { .. });
        if tool.definition.class() == EgressClass::Write && !assigned && !self.registry.tenant.open_write {
            return Err(Outside::WriteNotAssigned);
        }
        admitted(agent.profile.as_ref().and_then(profile_of), tool)?;
        if !self.reads_own(tool) {
            within(&agent.spec.limits, tool)?;
        }
        Ok(member)
    }

    /// In a run, an agent that was shown the beginning of a result may read the rest: it is the answer to a call that it was
    /// allowed, so no list of tools that leaves this one out takes it away.
    fn reads_own(&self, tool: &ResolvedTool) -> bool {
        let reads = |builtin: &Builtin| builtin.function == READ_RESULT;
        self.agent.is_some()
            && self.run.is_some()
            && matches!(&tool.definition.runner, Runner::Builtin(builtin) if reads(builtin))
    }

    /// Whoever comes with a key is outside, and so is an agent, whoever asks what it has; a browser session and the
    /// local folder are inside.
    fn is_outside(&self) -> bool {
        self.agent.is_some()
            || matches!(self.caller.credential, Credential::ApiKey(_) | Credential::Token(_) | Credential::DatabaseRole)
    }

    /// The set, in the order of names: what a call would not refuse for rights. Blocked versions are refused for certain.
    pub fn tools(&self) -> impl Iterator<Item = (ResolvedTool, Member)> + use<'a> {
        self.explain().filter_map(|(tool, standing)| standing.ok().map(|member| (tool, member)))
    }

    /// Every tool of the tenant with its standing, for `agent show --tools --why`.
    pub fn explain(&self) -> impl Iterator<Item = (ResolvedTool, Standing)> + use<'a> {
        let view = *self;
        let current = view.registry.tools().filter_map(|tool: &TenantTool| Some(tool.at(tool.tool.current()?, None)));
        current.map(move |tool| {
            let blocked = tool.state() == ToolState::Blocked;
            let standing =
                view.standing(&tool).and_then(|member| if blocked { Err(Outside::Blocked) } else { Ok(member) });
            (tool, standing)
        })
    }

    /// Resolves what a caller wrote. Unknown, hidden and not permitted look alike. A blocked version is found, and so is
    /// a tool that is stopped for now; both are refused when they are called, the latter with [`Stop::error`].
    pub fn resolve(&self, reference: &ToolRef) -> Result<(ResolvedTool, Result<Member, Stop>), Fault> {
        let not_found = || Fault::not_found("tool", reference);
        let tool = self.registry.resolve(reference, self.today).ok_or_else(not_found)?;
        match self.standing(&tool) {
            Ok(member) => Ok((tool, Ok(member))),
            Err(Outside::Stopped(stop)) => Ok((tool, Err(stop))),
            Err(_) => Err(not_found()),
        }
    }
}

fn admitted(profile: Option<&Profile>, tool: &ResolvedTool) -> Result<(), Outside> {
    match profile {
        Some(profile) if !profile.admits(|list| names_tool(list, tool), tool.definition.class()) => {
            Err(Outside::DeniedByProfile(profile.name.clone()))
        }
        _ => Ok(()),
    }
}

fn within(limits: &Limits, tool: &ResolvedTool) -> Result<(), Outside> {
    if limits.enabled_tools.as_ref().is_some_and(|enabled| !names_tool(enabled, tool)) {
        return Err(Outside::NotEnabledInRun);
    }
    below_ceiling(limits.side_effects, tool)
}

fn below_ceiling(ceiling: Option<SideEffects>, tool: &ResolvedTool) -> Result<(), Outside> {
    let effects = tool.definition.effects();
    match ceiling {
        Some(ceiling) if effects > ceiling => Err(Outside::AboveCeiling(ceiling)),
        _ => Ok(()),
    }
}

/// Whether a list of `name` or `name@version` names this tool.
pub fn names_tool(list: &[String], tool: &ResolvedTool) -> bool {
    let (canonical, shown) = (tool.tool.name.folded(), tool.name.folded());
    list.iter().any(|entry| {
        let (name, version) =
            entry.split_once('@').map_or((entry.as_str(), None), |(name, version)| (name, Some(version)));
        let folded = FoldedName::of(name);
        (folded == canonical || folded == shown)
            && version.is_none_or(|version| version == tool.version.version.to_string())
    })
}
