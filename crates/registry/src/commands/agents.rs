//! Agents, profiles and assignments.

use serde_json::json;
use toolgate_contracts::agent::{AgentSpec, StoredProfile};
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{
    Agent, AgentState, Caller, Fault, FaultKind, KillScope, ModelRef, Permission, Profile, Slug, ToolName, ToolRef,
    UserId, WorkspaceId, unseen,
};
use toolgate_policy::constraint::Constraints;
use toolgate_store::catalog::{Assignment, StoredAgent};

use super::guardrails::check_demanded;
use super::limits::check_rate;
use super::{Registry, no_details};
use crate::finding::Finding;
use crate::snapshot::TenantRegistry;

/// The workspace every tenant begins with.
/// Whom keys and agents belong to that the owner of the data folder makes.
pub const FIRST_USER: &str = "admin";
pub const FIRST_WORKSPACE: &str = "main";

/// What is written of an agent, with who will answer for it.
#[derive(Clone, Debug)]
pub struct AgentDraft {
    pub spec: AgentSpec,
    pub state: AgentState,
}

/// As long as the title of a tool.
const TITLE_CHARS_MAX: usize = 120;

impl Registry {
    /// Creates the agent of that name, or replaces its definition.
    pub async fn put_agent(&self, caller: &Caller, draft: AgentDraft) -> Result<(Agent, i64), Fault> {
        caller.require(&Permission::AGENTS_MANAGE)?;
        let AgentDraft { mut spec, state } = draft;
        if let Some(title) = spec.title.as_deref().filter(|title| !title.is_empty()) {
            unseen::check_name(title, TITLE_CHARS_MAX).map_err(|fault| fault.at("/title"))?;
        }
        if let Some(description) = &spec.description {
            unseen::check_text("description", description)?;
        }
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let existing = registry.agent(spec.name.as_str());
        if let Some(existing) = existing {
            self.require_management(caller, existing).await?;
            require_right_to_loosen(caller, existing, &spec, state)?;
        }
        self.settle_references(registry, &mut spec)?;
        let profile = match &spec.profile {
            Some(name) => Some(
                registry.profile(name.as_str()).ok_or_else(|| Fault::not_found("profile", name).at("/profile"))?.id,
            ),
            None => None,
        };
        let workspace = workspace_of(registry, spec.workspace.as_ref(), existing.map(|agent| agent.workspace))?;
        self.require_membership(caller, workspace, existing.map(|agent| agent.workspace)).await?;
        let owner = match existing {
            Some(agent) => agent.owner,
            None => self.owner_to_be(caller).await?,
        };
        let agent = StoredAgent {
            tenant: caller.tenant,
            id: existing.map_or_else(|| self.new_id(), |agent| agent.id),
            workspace,
            owner,
            profile,
            spec,
            state,
            revision: existing.map_or(1, |agent| agent.revision + 1),
        };
        let action = match existing.map(|agent| (agent.state, state)) {
            None => "agent.create",
            Some((AgentState::Active, AgentState::Frozen)) => "agent.freeze",
            Some((AgentState::Frozen, AgentState::Active)) => "agent.unfreeze",
            Some(_) => "agent.update",
        };
        let details = json!({"id": agent.id, "revision": agent.revision});
        let mut change = self.begin(caller, caller.tenant, action, agent.spec.name.as_str(), details);
        change.upsert_agent(&agent, self.now());
        let revision = self.finish(change).await?;
        Ok((shown(&agent, registry), revision))
    }

    pub async fn delete_agent(&self, caller: &Caller, name: &str) -> Result<i64, Fault> {
        caller.require(&Permission::AGENTS_MANAGE)?;
        let snapshot = self.snapshot();
        let agent = snapshot.tenant(caller.tenant)?.agent(name).ok_or_else(|| Fault::not_found("agent", name))?;
        self.require_management(caller, agent).await?;
        let stopped = snapshot.tenant(caller.tenant)?.switched_off(KillScope::Agent, agent.id.uuid()).is_some();
        if agent.state == AgentState::Frozen || stopped {
            // Deleted and made anew, it would go on under the same name.
            caller.require(&Permission::KILLSWITCH)?;
        }
        let mut change = self.begin(caller, caller.tenant, "agent.delete", agent.spec.name.as_str(), no_details());
        change.forget_kill_switch(KillScope::Agent, agent.id.uuid());
        change.delete_agent(agent.id);
        self.finish(change).await
    }

    pub async fn put_profile(&self, caller: &Caller, profile: Profile) -> Result<(StoredProfile, i64), Fault> {
        caller.require(&Permission::LIMITS_EDIT)?;
        check_rate(profile.rate_limit, "/rate_limit")?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let mut profile = profile;
        profile.deny_tools = self.canonical(registry, &profile.deny_tools, "deny_tools")?;
        if let Some(allowed) = &profile.allow_tools {
            profile.allow_tools = Some(self.canonical(registry, allowed, "allow_tools")?);
        }
        check_demanded(registry, &profile.guardrails, "/guardrails")?;
        self.check_constraints(registry, &profile)?;
        let existing = registry.profile(profile.name.as_str());
        let id = existing.map_or_else(|| self.new_id(), |stored| stored.id);
        let revision = existing.map_or(1, |stored| stored.revision + 1);
        let action = if existing.is_some() { "profile.update" } else { "profile.create" };
        let details = serde_json::to_value(&profile).unwrap_or_default();
        let mut change = self.begin(caller, caller.tenant, action, profile.name.as_str(), details);
        change.upsert_profile(id, &profile, revision, self.now());
        let registry_revision = self.finish(change).await?;
        Ok((StoredProfile { id, profile, revision }, registry_revision))
    }

    /// A constraint is on a tool by its own name: by an old one it would bind nothing.
    fn check_constraints(&self, registry: &TenantRegistry, profile: &Profile) -> Result<(), Fault> {
        let today = self.now().day();
        for name in Constraints::parse(&profile.constraints)?.tools() {
            let unknown = || Fault::not_found("tool", name).at("/constraints");
            let written: ToolName = name.parse().map_err(|_| unknown())?;
            let (tool, _) = registry.find(&written, &today).ok_or_else(unknown)?;
            let own = [tool.tool.name.folded(), tool.name.folded()];
            if !own.contains(&written.folded()) {
                let told = format!("`{name}` is an old name of `{}`", tool.name);
                return Err(Fault::invalid(told, format!("write `{}`", tool.name)).at("/constraints"));
            }
        }
        Ok(())
    }

    pub async fn delete_profile(&self, caller: &Caller, name: &str) -> Result<i64, Fault> {
        caller.require(&Permission::LIMITS_EDIT)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let stored = registry.profile(name).ok_or_else(|| Fault::not_found("profile", name))?;
        let of_agent = registry
            .agents
            .values()
            .find(|agent| agent.profile == Some(stored.id))
            .map(|agent| agent.spec.name.to_string());
        let of_assignment = || {
            let row = registry.assignments.values().find(|row| row.profile == Some(stored.id))?;
            registry.agents.get(&row.agent).map(|agent| agent.spec.name.to_string())
        };
        if let Some(agent) = of_agent.or_else(of_assignment) {
            return Err(Fault::conflict(
                format!("the profile `{name}` is used by agent `{agent}`"),
                "take it away there first",
            ));
        }
        let mut change =
            self.begin(caller, caller.tenant, "profile.delete", stored.profile.name.as_str(), no_details());
        change.delete_profile(stored.id);
        self.finish(change).await
    }

    pub async fn assign(
        &self,
        caller: &Caller,
        agent: &str,
        tool: &ToolName,
        profile: Option<&str>,
    ) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_ASSIGN)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let agent = registry.agent(agent).ok_or_else(|| Fault::not_found("agent", agent))?;
        let tool = self.manageable(&snapshot, caller, tool)?;
        let profile = match profile {
            Some(name) => Some(registry.profile(name).ok_or_else(|| Fault::not_found("profile", name))?),
            None => None,
        };
        let details = json!({"agent": agent.spec.name, "profile": profile.map(|stored| &stored.profile.name)});
        let mut change = self.begin(caller, caller.tenant, "tool.assign", tool.tool.name.as_str(), details);
        change.upsert_assignment(&Assignment {
            tenant: caller.tenant,
            agent: agent.id,
            tool: tool.tool.id,
            profile: profile.map(|stored| stored.id),
            created_by: caller.principal.to_string(),
            created_at: self.now(),
        });
        self.finish(change).await
    }

    pub async fn revoke(&self, caller: &Caller, agent: &str, tool: &ToolName) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_ASSIGN)?;
        let snapshot = self.snapshot();
        let agent = snapshot.tenant(caller.tenant)?.agent(agent).ok_or_else(|| Fault::not_found("agent", agent))?;
        let tool = self.manageable(&snapshot, caller, tool)?;
        let assigned = snapshot.tenant(caller.tenant)?.assignments.contains_key(&(agent.id, tool.tool.id));
        if !assigned {
            return Err(Fault::not_found("assignment", format!("{} of {}", tool.tool.name, agent.spec.name)));
        }
        let mut change = self.begin(
            caller,
            caller.tenant,
            "tool.revoke",
            tool.tool.name.as_str(),
            json!({"agent": agent.spec.name}),
        );
        change.delete_assignment(agent.id, tool.tool.id);
        self.finish(change).await
    }

    /// Who may manage an agent also decides who sees its calls (coverage row 0.16).
    pub async fn may_manage(&self, caller: &Caller, agent: &StoredAgent) -> Result<bool, Fault> {
        // Who holds a token uses tools, whatever its principal manages.
        if caller.token.is_some() {
            return Ok(false);
        }
        if caller.may(&Permission::MEMBERS_MANAGE) {
            return Ok(true);
        }
        let Some(user) = caller.user() else { return Ok(false) };
        if agent.owner == Some(user) {
            return Ok(true);
        }
        Ok(caller.may(&Permission::AGENTS_MANAGE) && self.is_member(caller, user, agent.workspace).await?)
    }

    async fn require_management(&self, caller: &Caller, agent: &StoredAgent) -> Result<(), Fault> {
        if self.may_manage(caller, agent).await? { Ok(()) } else { Err(Fault::not_found("agent", &agent.spec.name)) }
    }

    /// Whose an agent is that a caller makes: as with keys, what the owner of the data folder makes is the first user's.
    async fn owner_to_be(&self, caller: &Caller) -> Result<Option<UserId>, Fault> {
        match caller.user() {
            Some(user) => Ok(Some(user)),
            None => Ok(self.store().user(caller.tenant, FIRST_USER).await?.map(|user| user.id)),
        }
    }

    async fn is_member(&self, caller: &Caller, user: UserId, workspace: WorkspaceId) -> Result<bool, Fault> {
        let Some(user) = self.store().user(caller.tenant, &user.to_string()).await? else { return Ok(false) };
        let snapshot = self.snapshot();
        let workspace = snapshot.tenant(caller.tenant)?.workspaces.get(&workspace);
        Ok(workspace.is_some_and(|workspace| user.workspaces.contains(&workspace.slug)))
    }

    /// The tools of a list by their canonical names, which never change; an unknown one is refused, because a misspelt
    /// name in `deny_tools` would deny nothing and nobody would notice.
    pub(super) fn canonical(
        &self,
        registry: &TenantRegistry,
        names: &[String],
        member: &str,
    ) -> Result<Vec<String>, Fault> {
        let today = self.now().day();
        let canonical = |(index, entry): (usize, &String)| {
            let reference = entry.parse::<ToolRef>().ok();
            let tool = reference.as_ref().and_then(|reference| registry.resolve(reference, &today));
            let (Some(ToolRef { version, .. }), Some(tool)) = (reference, tool) else {
                return Err(Fault::not_found("tool", entry).at(format!("/{member}/{index}")));
            };
            Ok(ToolRef { name: tool.tool.name.clone(), version }.to_string())
        };
        names.iter().enumerate().map(canonical).collect()
    }

    /// An agent is put only where its author belongs.
    async fn require_membership(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        current: Option<WorkspaceId>,
    ) -> Result<(), Fault> {
        let free = caller.may(&Permission::MEMBERS_MANAGE) || current == Some(workspace);
        let member = match caller.user() {
            Some(user) if !free => self.is_member(caller, user, workspace).await?,
            _ => free,
        };
        if member {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            "you are no member of that workspace",
            "name a workspace of yours with `workspace`, or ask an administrator to add you",
        )
        .at("/workspace"))
    }

    fn settle_references(&self, registry: &TenantRegistry, spec: &mut AgentSpec) -> Result<(), Fault> {
        check_rate(spec.limits.rate_limit, "/limits/rate_limit")?;
        spec.limits.check("/limits")?;
        spec.custom_tools = self.canonical(registry, &spec.custom_tools, "custom_tools")?;
        if let Some(enabled) = &spec.limits.enabled_tools {
            spec.limits.enabled_tools = Some(self.canonical(registry, enabled, "limits/enabled_tools")?);
        }
        for (index, group) in spec.tool_groups.iter().enumerate() {
            if !registry.has_group(group) {
                return Err(Fault::not_found("tool group", group).at(format!("/tool_groups/{index}")));
            }
        }
        for (index, skill) in spec.skills.iter().enumerate() {
            if !registry.skills.keys().any(|known| known.as_str() == skill) {
                return Err(Fault::not_found("skill", skill).at(format!("/skills/{index}")));
            }
        }
        if spec.version != 1 {
            return Err(Fault::invalid(
                format!("agent files of version {} are not known", spec.version),
                "write `version: 1`",
            )
            .at("/version"));
        }
        Ok(())
    }
}

/// What an administrator tightened, an author does not loosen: the profile that was set, the freeze.
fn require_right_to_loosen(
    caller: &Caller,
    existing: &StoredAgent,
    spec: &AgentSpec,
    state: AgentState,
) -> Result<(), Fault> {
    if existing.spec.profile.is_some() && existing.spec.profile != spec.profile {
        caller.require(&Permission::LIMITS_EDIT)?;
    }
    if existing.state == AgentState::Frozen && state == AgentState::Active {
        caller.require(&Permission::KILLSWITCH)?;
    }
    Ok(())
}

/// The workspace that was named; else where the agent is; else the first there is.
fn workspace_of(
    registry: &TenantRegistry,
    wanted: Option<&Slug>,
    current: Option<WorkspaceId>,
) -> Result<WorkspaceId, Fault> {
    let named = |slug: &str| {
        registry.workspaces.values().find(|workspace| workspace.slug.as_str() == slug).map(|found| found.id)
    };
    match (wanted, current) {
        (Some(slug), _) => named(slug.as_str()).ok_or_else(|| Fault::not_found("workspace", slug).at("/workspace")),
        (None, Some(current)) => Ok(current),
        (None, None) => named(FIRST_WORKSPACE)
            .or_else(|| registry.workspaces.keys().min().copied())
            .ok_or_else(|| Fault::not_found("workspace", FIRST_WORKSPACE)),
    }
}

/// What is worth saying of an agent that is kept all the same: what its model is asked through may come later.
pub fn agent_findings(agent: &Agent, registry: &TenantRegistry, today: &str) -> Vec<Finding> {
    let model = agent.model.as_str();
    let finding = match model.parse::<ModelRef>() {
        // An agent that others run has no model here.
        _ if model.is_empty() => None,
        Err(fault) => Some(Finding::warning("agent.model", "/model", fault.told(), fault.remedy())),
        Ok(ModelRef { provider, .. }) if registry.providers.contains_key(&provider) => None,
        Ok(ModelRef { provider, .. }) => {
            let message = format!("there is no model provider `{provider}`, so the agent cannot be run here");
            let fix = format!("add it with `toolgate provider add {provider}`, or name another");
            Some(Finding::warning("agent.provider", "/model", message, fix))
        }
    };
    finding.into_iter().chain(unassigned(agent, registry, today)).collect()
}

/// Writing an agent's file hands out no effects: tools of the class `write` that it names are not among its tools.
fn unassigned<'a>(
    agent: &'a Agent,
    registry: &'a TenantRegistry,
    today: &'a str,
) -> impl Iterator<Item = Finding> + 'a {
    agent.custom_tools.iter().enumerate().filter_map(move |(index, name)| {
        let tool = registry.resolve(&name.parse().ok()?, today)?;
        let is_assigned = registry.assignments.contains_key(&(agent.id, tool.tool.id));
        if tool.definition.class() != EgressClass::Write || is_assigned || registry.tenant.open_write {
            return None;
        }
        let message = format!("`{name}` is of the class `write`: the agent has it once it is assigned");
        let fix = format!("assign it with `toolgate tool assign --tool {name} --agent {}`", agent.name);
        Some(Finding::warning("agent.unassigned", format!("/custom_tools/{index}"), message, fix))
    })
}

/// An agent as it is shown.
pub fn shown(agent: &StoredAgent, registry: &TenantRegistry) -> Agent {
    let AgentSpec {
        version,
        name,
        title,
        description,
        workspace: _,
        model,
        model_params,
        instructions,
        toolset,
        tool_groups,
        custom_tools,
        skills,
        profile: _,
        limits,
    } = agent.spec.clone();
    let profile = agent.profile.and_then(|id| registry.profiles.get(&id)).map(|stored| stored.profile.name.clone());
    Agent {
        version,
        id: agent.id,
        name,
        title,
        description,
        owner: agent.owner,
        workspace: registry.workspaces.get(&agent.workspace).map(|workspace| workspace.slug.clone()),
        model,
        model_params,
        instructions,
        toolset,
        tool_groups,
        custom_tools,
        skills,
        profile,
        effective_limits: limits.effective(),
        limits,
        state: agent.state,
        revision: agent.revision,
    }
}
