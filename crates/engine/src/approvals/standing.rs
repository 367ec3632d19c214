//! Standing grants: a person allows calls like this one for a while. Bound to a tool's behaviour, to arguments within
//! constraints, to an agent or a caller, to a number of uses and a time. Deliberately absent: "always".

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::definition::{Approvers, Risk};
use toolgate_contracts::{
    AgentId, Caller, Digest, Fault, FaultKind, FoldedName, GrantId, Page, Permission, Principal, RunId, TenantId,
    Timestamp, ToolId, ToolRef, UserId, WorkspaceId, json as strict,
};
use toolgate_policy::constraint::Constraints;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::grants::Grant;
use utoipa::ToSchema;

use super::eligible::{self, is_among};
use crate::asking::Asking;
use crate::engine::Engine;
use crate::entry::members;
use crate::record::Consent;
use crate::submit::Asked;
use crate::tokens::{Unnamed, check_arguments};

const STANDING_S_MAX: u64 = 24 * 60 * 60;
const STANDING_S_DEFAULT: u64 = 60 * 60;
const USES_MAX: u32 = 1000;
const USES_DEFAULT: u32 = 10;

/// What somebody wants to allow.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStanding {
    /// Which tool; not needed with a decision, where it is the call's.
    #[serde(default)]
    pub tool: Option<String>,
    /// Whose calls: an agent by id or name. With a decision it is the call's own.
    #[serde(default)]
    pub agent: Option<String>,
    /// Only in this run, and the runs under it.
    #[serde(default)]
    pub run_id: Option<RunId>,
    /// What must hold of the arguments: `{pointer, const | enum | max | prefix | path_under | url_host}`, at least one.
    #[schema(value_type = Vec<Object>)]
    pub constraints: Vec<Value>,
    /// How often; 10 if nothing is said, at most 1000.
    #[serde(default)]
    pub uses: Option<u32>,
    /// How long; an hour if nothing is said, at most a day.
    #[serde(default)]
    pub expires_s: Option<u64>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// What it holds for, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Bound {
    tool: String,
    behaviour_digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    /// Of a caller without an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    constraints: Vec<Value>,
    epoch: String,
}

/// What was checked and may be granted.
pub(crate) struct Checked {
    tool: ToolId,
    workspace: Option<WorkspaceId>,
    bound: Bound,
    uses: u32,
    expires_s: u64,
    reason: Option<String>,
}

/// A standing grant as people see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StandingGrant {
    #[schema(value_type = String)]
    pub id: GrantId,
    pub tool: String,
    #[schema(value_type = Option<String>)]
    pub agent_id: Option<AgentId>,
    /// The agent's name, as long as there is one.
    pub agent: Option<String>,
    pub principal: Option<String>,
    pub principal_name: Option<String>,
    pub run_id: Option<RunId>,
    #[schema(value_type = Vec<Object>)]
    pub constraints: Vec<Value>,
    pub uses: u32,
    pub uses_max: u32,
    pub issued_by: String,
    pub issued_by_name: Option<String>,
    pub reason: Option<String>,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub revoked_by: Option<String>,
    pub revoked_by_name: Option<String>,
    pub created_at: Timestamp,
    /// Whether it can still be used.
    pub holds: bool,
}

impl Engine {
    /// A standing grant that covers this call.
    pub(crate) async fn standing_grant(
        &self,
        asked: &Asked,
        tool: &ResolvedTool,
        input: &Value,
        asking: &Asking,
    ) -> Result<Option<Consent>, Fault> {
        let tenant = asked.caller.tenant;
        if !asking.standing || !self.may_stand(tenant, tool)? {
            return Ok(None);
        }
        let now = self.clock.now();
        let named = format!("{}@{}", tool.tool.name, tool.version.version);
        let roots =
            asked.run.iter().flat_map(|run| [run.id, run.root_run_id]).chain(asked.above.iter().map(|run| run.id));
        let runs: Vec<RunId> = roots.collect();
        for grant in self.store.standing_grants_of(tenant, tool.tool.id, now).await? {
            let Ok(bound) = serde_json::from_value::<Bound>(grant.binding.clone()) else { continue };
            let by_whom = match (bound.agent, &bound.principal) {
                (Some(agent), _) => asked.agent == Some(agent),
                (None, Some(principal)) => asked.agent.is_none() && *principal == asked.caller.principal.to_string(),
                (None, None) => false,
            };
            let same = bound.tool == named
                && bound.behaviour_digest == tool.behaviour_digest
                && bound.epoch == self.log_of(tenant)
                && strict::digest(&grant.binding) == grant.binding_digest;
            let in_run = bound.run.is_none_or(|run| runs.contains(&run));
            let within = Constraints::parse(&bound.constraints).is_ok_and(|constraints| {
                constraints.check(&[&tool.name.folded(), &tool.tool.name.folded()], input).is_ok()
            });
            if by_whom && same && in_run && within && self.still_grants(asked, tool, asking, &grant).await? {
                return Ok(Some(Consent::Standing { grant: grant.id, issued_by: grant.issued_by }));
            }
        }
        Ok(None)
    }

    /// Whoever issued it must be one who may now: grant, and decide on this call by themselves.
    async fn still_grants(
        &self,
        asked: &Asked,
        tool: &ResolvedTool,
        asking: &Asking,
        grant: &Grant,
    ) -> Result<bool, Fault> {
        let tenant = asked.caller.tenant;
        let Some(issuer) = self.person(tenant, &grant.issued_by).await? else { return Ok(false) };
        let named = |demand: &Approvers| demand.from.is_empty() || is_among(&issuer, demand);
        let alone = asking.approvers.iter().all(|demand| demand.need <= 1 && named(demand));
        if !alone || !issuer.permissions.contains(&Permission::GRANTS_STANDING) {
            return Ok(false);
        }
        if !self.registry.snapshot().tenant(tenant)?.tenant.settings.separation {
            return Ok(true);
        }
        let version = tool.version.version.to_string();
        let asked = eligible::Asked {
            principal: asked.caller.principal,
            agent: asked.agent,
            tool: tool.tool.id,
            version: &version,
            edited_by: None,
        };
        Ok(self.conflict_of_interest(tenant, &issuer, &asked)?.is_none())
    }

    fn may_stand(&self, tenant: toolgate_contracts::TenantId, tool: &ResolvedTool) -> Result<bool, Fault> {
        let snapshot = self.registry.snapshot();
        let settings = &snapshot.tenant(tenant)?.tenant.settings;
        Ok(tool.definition.effective_risk() != Risk::Critical || settings.standing_grants_for_critical)
    }

    /// For the calls like one that is decided on.
    pub(super) fn check_standing(
        &self,
        caller: &Caller,
        record: &CallRecord,
        new: &NewStanding,
    ) -> Result<Checked, Fault> {
        if new.tool.is_some() || new.agent.is_some() {
            let told = "`tool` and `agent` of a standing grant that is made with a decision";
            return Err(Fault::invalid(told, "leave them out: they are the call's own").at("/standing"));
        }
        let reference: ToolRef =
            format!("{}@{}", record.tool_name, record.tool_version).parse().map_err(Fault::internal)?;
        let checked = self.check_new(caller, &reference, record.agent, Some(record.principal.to_string()), new);
        let checked = checked.map_err(|fault| fault.at("/standing"))?;
        Ok(Checked { workspace: checked.workspace.or(record.workspace), ..checked })
    }

    /// Grants without a call that asks.
    pub async fn create_standing(&self, caller: &Caller, new: NewStanding) -> Result<StandingGrant, Fault> {
        let wanted = new.tool.clone().ok_or_else(|| Fault::invalid("`tool` is missing", "name it").at("/tool"))?;
        let reference: ToolRef = wanted.parse().map_err(|why: toolgate_contracts::name::RefError| {
            Fault::invalid(why.to_string(), "name the tool as `name` or `name@version`").at("/tool")
        })?;
        let named = new.agent.clone().ok_or_else(|| {
            Fault::invalid("`agent` is missing", "a standing grant is for one agent's calls; name it").at("/agent")
        })?;
        let snapshot = self.registry.snapshot();
        let agent = snapshot.tenant(caller.tenant)?.agent(&named).map(|agent| agent.id);
        let agent = agent.ok_or_else(|| Fault::not_found("agent", &named).at("/agent"))?;
        let checked = self.check_new(caller, &reference, Some(agent), None, &new)?;
        let grant = self.grant_standing(caller, checked).await?;
        self.shown_one(caller.tenant, grant).await
    }

    fn check_new(
        &self,
        caller: &Caller,
        reference: &ToolRef,
        agent: Option<AgentId>,
        principal: Option<String>,
        new: &NewStanding,
    ) -> Result<Checked, Fault> {
        caller.require(&Permission::GRANTS_STANDING)?;
        if caller.agent.is_some() {
            return Err(Fault::new(FaultKind::Forbidden, "an agent grants nothing", "a person does"));
        }
        let NewStanding { tool: _, agent: _, run_id, constraints, uses, expires_s, reason } = new;
        let snapshot = self.registry.snapshot();
        let today = self.clock.now().day();
        let tool = snapshot.tenant(caller.tenant)?.resolve(reference, &today);
        let tool = tool.ok_or_else(|| Fault::not_found("tool", reference).at("/tool"))?;
        if !self.may_stand(caller.tenant, &tool)? {
            let told = format!("`{}` is critical: each call is decided by itself", tool.name);
            return Err(Fault::conflict(told, "approve calls one by one, or set `standing_grants_for_critical`"));
        }
        if constraints.is_empty() {
            let remedy =
                "say at least one thing that must hold, such as {\"pointer\": \"/to\", \"const\": \"a@b.example\"}";
            return Err(Fault::invalid("a standing grant without constraints", remedy).at("/constraints"));
        }
        let parsed = Constraints::parse(constraints).map_err(|fault| fault.at("/constraints"))?;
        let own = [tool.tool.name.folded(), tool.name.folded()];
        if let Some(other) = parsed.tools().find(|name| !own.contains(&FoldedName::of(name))) {
            let told = format!("a constraint on `{}`, which the grant is not for", other.escape_debug());
            return Err(Fault::invalid(told, "leave `tool` out of the constraints").at("/constraints"));
        }
        let registry = snapshot.tenant(caller.tenant)?;
        check_arguments(registry, std::slice::from_ref(&tool), &parsed, Unnamed::OfThese)?;
        let uses = uses.unwrap_or(USES_DEFAULT);
        if uses == 0 || uses > USES_MAX {
            return Err(Fault::invalid(format!("`uses` is {uses}"), format!("use 1 to {USES_MAX}")).at("/uses"));
        }
        let expires_s = expires_s.unwrap_or(STANDING_S_DEFAULT);
        if expires_s == 0 || expires_s > STANDING_S_MAX {
            let told = format!("`expires_s` is {expires_s}");
            return Err(Fault::invalid(told, format!("use 1 to {STANDING_S_MAX} seconds")).at("/expires_s"));
        }
        let bound = Bound {
            tool: format!("{}@{}", tool.tool.name, tool.version.version),
            behaviour_digest: tool.behaviour_digest,
            agent,
            principal: if agent.is_some() { None } else { principal },
            run: *run_id,
            constraints: constraints.clone(),
            epoch: self.log_of(caller.tenant),
        };
        let workspace = agent.and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id));
        let workspace = workspace.map(|agent| agent.workspace);
        Ok(Checked { tool: tool.tool.id, workspace, bound, uses, expires_s, reason: reason.clone() })
    }

    pub(super) async fn grant_standing(&self, caller: &Caller, checked: Checked) -> Result<Grant, Fault> {
        let Checked { tool, workspace, bound, uses, expires_s, reason } = checked;
        let now = self.clock.now();
        let binding = serde_json::to_value(&bound).map_err(Fault::internal)?;
        let grant = Grant {
            id: GrantId::new(&self.clock, &self.rng),
            call: None,
            tool,
            workspace,
            binding_digest: strict::digest(&binding),
            binding,
            issued_by: caller.principal.to_string(),
            reason,
            expires_at: now.plus_seconds(i64::try_from(expires_s).unwrap_or(0)),
            spent_at: None,
            revoked_at: None,
            revoked_by: None,
            uses: 0,
            uses_max: uses,
            created_at: now,
        };
        let mut change = Change::new(caller.tenant);
        change.insert_grant(&grant);
        let details = json!({"tool": bound.tool, "agent": bound.agent, "uses": uses, "expires_at": grant.expires_at});
        change.audit(&self.grant_entry(caller, "grant.standing", grant.id, details, now));
        self.store.commit(change).await?;
        Ok(grant)
    }

    pub async fn revoke_standing(&self, caller: &Caller, id: GrantId) -> Result<StandingGrant, Fault> {
        caller.require(&Permission::GRANTS_STANDING)?;
        let now = self.clock.now();
        let unknown = || Fault::not_found("grant", id);
        let known = self.store.grant(caller.tenant, id).await?.filter(|grant| grant.call.is_none());
        let known = known.ok_or_else(unknown)?;
        if !self.sees_grant(caller, &known).await? {
            return Err(unknown());
        }
        let mut change = Change::new(caller.tenant);
        let refused = Fault::conflict("the grant was revoked already", "nothing is to be done");
        change.revoke_grant(id, &caller.principal.to_string(), now, refused);
        change.audit(&self.grant_entry(caller, "grant.revoked", id, json!({}), now));
        self.store.commit(change).await?;
        let grant = self.store.grant(caller.tenant, id).await?.ok_or_else(unknown)?;
        self.shown_one(caller.tenant, grant).await
    }

    pub async fn list_standing(
        &self,
        caller: &Caller,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<StandingGrant>, Fault> {
        caller.require(&Permission::APPROVALS_READ)?;
        let page = self.store.standing_grants(caller.tenant, sees_of_own(caller), cursor, limit).await?;
        let items = self.shown(caller.tenant, page.items).await?;
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// As [`Engine::list_standing`], for one.
    async fn sees_grant(&self, caller: &Caller, grant: &Grant) -> Result<bool, Fault> {
        let (Some(user), Some(workspace)) = (sees_of_own(caller), grant.workspace) else { return Ok(true) };
        let own = grant.issued_by == caller.principal.to_string();
        Ok(own || self.store.is_member(caller.tenant, user, workspace).await?)
    }

    /// Grants as people see them, with the names of those they are about.
    async fn shown(&self, tenant: TenantId, grants: Vec<Grant>) -> Result<Vec<StandingGrant>, Fault> {
        let now = self.clock.now();
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let mut shown: Vec<StandingGrant> = grants.into_iter().map(|grant| shown(grant, registry, now)).collect();
        let mentioned =
            |grant: &StandingGrant| [grant.principal.clone(), Some(grant.issued_by.clone()), grant.revoked_by.clone()];
        let mentioned: Vec<String> = shown.iter().flat_map(mentioned).flatten().collect();
        let names = self.names(tenant, mentioned.iter().map(String::as_str)).await?;
        for grant in &mut shown {
            grant.principal_name = grant.principal.as_deref().and_then(|who| names.of(who));
            grant.issued_by_name = names.of(&grant.issued_by);
            grant.revoked_by_name = grant.revoked_by.as_deref().and_then(|who| names.of(who));
        }
        Ok(shown)
    }

    async fn shown_one(&self, tenant: TenantId, grant: Grant) -> Result<StandingGrant, Fault> {
        let unknown = Fault::not_found("grant", grant.id);
        self.shown(tenant, vec![grant]).await?.pop().ok_or(unknown)
    }

    fn grant_entry(&self, caller: &Caller, action: &str, id: GrantId, details: Value, at: Timestamp) -> Entry {
        Entry {
            id: toolgate_contracts::Id::new(&self.clock, &self.rng),
            at,
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: id.to_string(),
            details: members(details),
        }
    }
}

/// Whose workspaces bound what is seen; `None`: all of them are.
fn sees_of_own(caller: &Caller) -> Option<UserId> {
    match caller.principal {
        Principal::User(user) if !caller.may(&Permission::MEMBERS_MANAGE) => Some(user),
        _ => None,
    }
}

fn shown(grant: Grant, registry: &TenantRegistry, now: Timestamp) -> StandingGrant {
    let holds = grant.revoked_at.is_none() && grant.expires_at > now && grant.uses < grant.uses_max;
    let bound: Option<Bound> = serde_json::from_value(grant.binding).ok();
    let (tool, agent_id, principal, run_id, constraints) = bound.map_or_else(Default::default, |bound| {
        (bound.tool, bound.agent, bound.principal, bound.run, bound.constraints)
    });
    StandingGrant {
        id: grant.id,
        tool,
        agent: agent_id.and_then(|id| registry.agents.get(&id)).map(|agent| agent.spec.name.to_string()),
        agent_id,
        principal,
        principal_name: None,
        run_id,
        constraints,
        uses: grant.uses,
        uses_max: grant.uses_max,
        issued_by: grant.issued_by,
        issued_by_name: None,
        reason: grant.reason,
        expires_at: grant.expires_at,
        revoked_at: grant.revoked_at,
        revoked_by: grant.revoked_by,
        revoked_by_name: None,
        created_at: grant.created_at,
        holds,
    }
}
