//! The registry's rows: tools, versions, overrides, aliases, groups, agents, profiles, assignments.
//!
//! They are read whole, into the snapshot that everything resolves names through, and written one change at a time;
//! each change counts the registry's revision up, by which replicas learn that they must read again.

mod control;
mod deciding;
mod writing;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use toolgate_contracts::agent::{AgentSpec, StoredProfile};
use toolgate_contracts::definition::{Origin, ToolState, Visibility};
use toolgate_contracts::{
    AgentId, AgentState, Definition, Digest, Plugin, ProfileId, TenantId, Timestamp, ToolId, ToolName, UserId,
    VersionId, WorkspaceId, json,
};
use utoipa::ToSchema;

use crate::error::Error;
use crate::people::{self, Tenant, Workspace};
use crate::plugins;
use crate::providers::{self, StoredProvider};
use crate::scope::Scope;
use crate::skills::{self, StoredSkill};
use crate::upstreams::{self, Refusal, StoredUpstream};
use crate::workflows::{self, HeldWorkflow};
use crate::{Row, Store};

#[derive(Clone, Debug)]
pub struct Tool {
    pub tenant: TenantId,
    pub id: ToolId,
    pub name: ToolName,
    pub origin: Origin,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Version {
    pub tenant: TenantId,
    pub id: VersionId,
    pub tool: ToolId,
    pub version: semver::Version,
    pub definition: Definition,
    /// The file as its author wrote it.
    pub source: Option<String>,
    pub definition_digest: Digest,
    pub behaviour_digest: Digest,
    pub lifecycle: Lifecycle,
    pub published_by: String,
    pub created_at: Timestamp,
}

/// Where a version stands in its life, and what to tell its users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    pub state: ToolState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

impl Lifecycle {
    pub const ACTIVE: Self = Self { state: ToolState::Active, message: None, remove_by: None, replaced_by: None };
}

/// A tenant's patch on a global tool; rows of the system tenant hold for all.
#[derive(Clone, Debug)]
pub struct Override {
    pub tenant: TenantId,
    pub tool: ToolId,
    pub enabled: Option<bool>,
    pub patch: Json,
    pub revision: u32,
}

#[derive(Clone, Debug)]
pub struct Alias {
    pub tenant: TenantId,
    pub name: ToolName,
    pub tool: ToolId,
    pub remove_by: Option<String>,
    pub visibility: Visibility,
}

#[derive(Clone, Debug)]
pub struct GroupMember {
    pub tenant: TenantId,
    pub group: String,
    pub tool_folded: String,
}

#[derive(Clone, Debug)]
pub struct StoredAgent {
    pub tenant: TenantId,
    pub id: AgentId,
    pub workspace: WorkspaceId,
    pub owner: Option<UserId>,
    pub profile: Option<ProfileId>,
    pub spec: AgentSpec,
    pub state: AgentState,
    pub revision: u32,
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub tenant: TenantId,
    pub agent: AgentId,
    pub tool: ToolId,
    pub profile: Option<ProfileId>,
    pub created_by: String,
    pub created_at: Timestamp,
}

/// Everything the snapshot is made of, as of one revision.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub revision: i64,
    pub tenants: Vec<Tenant>,
    pub workspaces: Vec<(TenantId, Workspace)>,
    pub tools: Vec<Tool>,
    pub versions: Vec<Version>,
    pub overrides: Vec<Override>,
    pub aliases: Vec<Alias>,
    pub groups: Vec<GroupMember>,
    pub agents: Vec<StoredAgent>,
    pub profiles: Vec<(TenantId, StoredProfile)>,
    pub assignments: Vec<Assignment>,
    pub kill_switches: Vec<KillSwitch>,
    pub classifications: Vec<Classification>,
    /// The active policies of each tenant that has any of its own.
    pub policies: Vec<Spec>,
    pub guardrails: Vec<Spec>,
    pub openings: Vec<Spec>,
    pub plugins: Vec<Plugin>,
    pub upstreams: Vec<StoredUpstream>,
    /// What of theirs stays refused.
    pub refusals: Vec<Refusal>,
    /// Without their texts.
    pub skills: Vec<StoredSkill>,
    pub providers: Vec<StoredProvider>,
    /// Without their graphs.
    pub workflows: Vec<HeldWorkflow>,
    pub acceptances: Vec<Spec>,
    /// Which webhooks are told of which types.
    pub webhooks: Vec<Spec>,
}

pub use control::{Classification, KillSwitch};
pub use deciding::Spec;
pub use writing::Guarded;

const ALL: Scope = Scope::Everyone("the snapshot serves every tenant");

/// A table of the catalog: its name, its query, and which column holds the id by which an unreadable row is named.
struct Source {
    table: &'static str,
    sql: &'static str,
    id: usize,
}

const REVISION: &str = "SELECT value FROM counters WHERE name = 'registry'";
const TENANTS: Source = Source {
    table: "tenants",
    sql: "SELECT id, slug, name, currency, open_write, created_at, limits, settings, policy_revision FROM tenants ORDER BY slug",
    id: 0,
};
const WORKSPACES: Source =
    Source { table: "workspaces", sql: "SELECT tenant_id, id, slug, name, created_at FROM workspaces", id: 1 };
const TOOLS: Source =
    Source { table: "tools", sql: "SELECT tenant_id, id, name, origin, created_at FROM tools", id: 1 };
const VERSIONS: Source = Source {
    table: "tool_versions",
    sql: "SELECT v.tenant_id, v.id, v.tool_id, v.version, v.definition, i.schema_text, o.schema_text, v.source,
            v.definition_digest, v.behaviour_digest, v.state, v.message, v.remove_by, v.replaced_by, v.published_by, v.created_at,
            v.output_schema
         FROM tool_versions v
         LEFT JOIN schema_versions i ON i.tenant_id = v.tenant_id AND i.digest = v.input_schema
         LEFT JOIN schema_versions o ON o.tenant_id = v.tenant_id AND o.digest = v.output_schema",
    id: 1,
};
const OVERRIDES: Source = Source {
    table: "tool_overrides",
    sql: "SELECT tenant_id, tool_id, enabled, patch, revision FROM tool_overrides",
    id: 1,
};
const ALIASES: Source = Source {
    table: "tool_aliases",
    sql: "SELECT tenant_id, name, tool_id, remove_by, visibility FROM tool_aliases",
    id: 2,
};
const GROUPS: Source =
    Source { table: "tool_groups", sql: "SELECT tenant_id, name, tool_folded FROM tool_groups", id: 0 };
const AGENTS: Source = Source {
    table: "agents",
    sql: "SELECT tenant_id, id, workspace_id, owner_id, profile_id, spec, state, revision FROM agents",
    id: 1,
};
const PROFILES: Source = Source { table: "profiles", sql: "SELECT tenant_id, id, spec, revision FROM profiles", id: 1 };
const ASSIGNMENTS: Source = Source {
    table: "assignments",
    sql: "SELECT tenant_id, agent_id, tool_id, profile_id, created_by, created_at FROM assignments",
    id: 1,
};
/// Without the components. None has an id: one that cannot be read is named by its tenant.
const PLUGINS: Source = Source {
    table: "plugins",
    sql: "SELECT tenant_id, digest, name, version, world, description, size_bytes, installed_by, created_at FROM plugins ORDER BY name",
    id: 0,
};

/// None has an id: one that cannot be read is named by its tenant.
const UPSTREAMS: Source = Source {
    table: "upstreams",
    sql: "SELECT tenant_id, spec, place, saved_by, created_at, updated_at FROM upstreams ORDER BY name",
    id: 0,
};

/// None has an id: one that cannot be read is named by its tenant.
const REFUSALS: Source = Source {
    table: "upstream_offers",
    sql: "SELECT tenant_id, upstream, tool, digest FROM upstream_offers WHERE refused_by IS NOT NULL",
    id: 0,
};

/// None has an id: one that cannot be read is named by its tenant.
const SKILLS: Source = Source {
    table: "skills",
    sql: "SELECT s.tenant_id, v.spec, s.digest, v.saved_by, s.created_at, v.created_at FROM skills s
         JOIN skill_versions v ON v.tenant_id = s.tenant_id AND v.skill = s.name AND v.digest = s.digest ORDER BY s.name",
    id: 0,
};

/// None has an id: one that cannot be read is named by its tenant.
const PROVIDERS: Source = Source {
    table: "providers",
    sql: "SELECT tenant_id, spec, revision, saved_by, created_at, updated_at FROM providers ORDER BY name",
    id: 0,
};

/// None has an id: one that cannot be read is named by its tenant.
const WORKFLOWS: Source = Source {
    table: "workflows",
    sql: "SELECT w.tenant_id, w.name, w.description, w.revision, v.uses FROM workflows w
         JOIN workflow_revisions v ON v.tenant_id = w.tenant_id AND v.workflow = w.name AND v.revision = w.revision ORDER BY w.name",
    id: 0,
};

impl Store {
    pub async fn registry_revision(&self) -> Result<i64, Error> {
        revision(&self.query(&ALL, REVISION, vec![]).await?)
    }

    /// Reads the catalog as of one moment. A row that cannot be read is left out and logged, so that it harms nobody but
    /// those it is of; a tool whose override cannot be read is disabled, because the override may be what guards it.
    pub async fn catalog(&self) -> Result<Catalog, Error> {
        let (catalog, unreadable) = self.read_catalog().await?;
        for row in unreadable {
            tracing::error!("left out of the registry, because it cannot be read: {row}");
        }
        Ok(catalog)
    }

    /// The rows that [`Store::catalog`] leaves out: table, id, and what is wrong, without what they hold.
    pub async fn unreadable_rows(&self) -> Result<Vec<String>, Error> {
        Ok(self.read_catalog().await?.1)
    }

    async fn read_catalog(&self) -> Result<(Catalog, Vec<String>), Error> {
        let sources = [
            &TENANTS,
            &WORKSPACES,
            &TOOLS,
            &VERSIONS,
            &OVERRIDES,
            &ALIASES,
            &GROUPS,
            &AGENTS,
            &PROFILES,
            &ASSIGNMENTS,
            &control::KILL_SWITCHES,
            &control::CLASSIFICATIONS,
            &deciding::POLICIES,
            &deciding::GUARDRAILS,
            &deciding::OPENINGS,
            &PLUGINS,
            &UPSTREAMS,
            &REFUSALS,
            &SKILLS,
            &PROVIDERS,
            &WORKFLOWS,
            &deciding::ACCEPTANCES,
            &deciding::WEBHOOKS,
        ];
        let sql: Vec<&str> = std::iter::once(REVISION).chain(sources.iter().map(|source| source.sql)).collect();
        let mut results = self.query_all(&ALL, &sql).await?.into_iter();
        let mut next = || results.next().unwrap_or_default();
        let mut unreadable = Vec::new();
        let catalog = Catalog {
            revision: revision(&next())?,
            tenants: readable(&TENANTS, &next(), people::tenant, &mut unreadable),
            workspaces: readable(&WORKSPACES, &next(), workspace, &mut unreadable),
            tools: readable(&TOOLS, &next(), tool, &mut unreadable),
            versions: readable(&VERSIONS, &next(), version, &mut unreadable),
            overrides: overrides(&next(), &mut unreadable),
            aliases: readable(&ALIASES, &next(), alias, &mut unreadable),
            groups: readable(&GROUPS, &next(), group, &mut unreadable),
            agents: readable(&AGENTS, &next(), agent, &mut unreadable),
            profiles: readable(&PROFILES, &next(), profile, &mut unreadable),
            assignments: readable(&ASSIGNMENTS, &next(), assignment, &mut unreadable),
            kill_switches: readable(&control::KILL_SWITCHES, &next(), control::kill_switch, &mut unreadable),
            classifications: readable(&control::CLASSIFICATIONS, &next(), control::classification, &mut unreadable),
            policies: readable(&deciding::POLICIES, &next(), deciding::named, &mut unreadable),
            guardrails: readable(&deciding::GUARDRAILS, &next(), deciding::named, &mut unreadable),
            openings: readable(&deciding::OPENINGS, &next(), deciding::with_id, &mut unreadable),
            plugins: readable(&PLUGINS, &next(), plugins::plugin, &mut unreadable),
            upstreams: readable(&UPSTREAMS, &next(), upstreams::stored, &mut unreadable),
            refusals: readable(&REFUSALS, &next(), upstreams::refusal, &mut unreadable),
            skills: readable(&SKILLS, &next(), skills::stored, &mut unreadable),
            providers: readable(&PROVIDERS, &next(), providers::stored, &mut unreadable),
            workflows: readable(&WORKFLOWS, &next(), workflows::held, &mut unreadable),
            acceptances: readable(&deciding::ACCEPTANCES, &next(), deciding::with_id, &mut unreadable),
            webhooks: readable(&deciding::WEBHOOKS, &next(), deciding::with_id, &mut unreadable),
        };
        Ok((catalog, unreadable))
    }
}

fn revision(rows: &[Row]) -> Result<i64, Error> {
    rows.first().map_or(Err(Error::Corrupt("no registry counter".into())), |row| row.get(0))
}

/// The rows that can be read; the others are named.
fn readable<T>(
    source: &Source,
    rows: &[Row],
    read: fn(&Row) -> Result<T, Error>,
    unreadable: &mut Vec<String>,
) -> Vec<T> {
    let read = |row: &Row| read(row).map_err(|error| unreadable.push(named(source, row, &error))).ok();
    rows.iter().filter_map(read).collect()
}

fn overrides(rows: &[Row], unreadable: &mut Vec<String>) -> Vec<Override> {
    let mut read = |row: &Row| {
        over(row).or_else(|error| {
            unreadable.push(named(&OVERRIDES, row, &error));
            // Whose it is must be known to switch anything off.
            let (tenant, tool) = (row.get(0)?, row.get(1)?);
            let revision = row.get(4).unwrap_or_default();
            Ok::<_, Error>(Override { tenant, tool, enabled: Some(false), patch: Json::Object(Map::new()), revision })
        })
    };
    rows.iter().filter_map(|row| read(row).ok()).collect()
}

fn named(source: &Source, row: &Row, error: &Error) -> String {
    let id = row.get::<uuid::Uuid>(source.id).map_or_else(|_| "of unknown id".to_owned(), |id| id.to_string());
    let reason = match error {
        Error::Corrupt(reason) => reason.clone(),
        other => other.to_string(),
    };
    format!("{} {id}: {reason}", source.table)
}

fn workspace(row: &Row) -> Result<(TenantId, Workspace), Error> {
    let workspace = Workspace { id: row.get(1)?, slug: row.parse(2)?, name: row.get(3)?, created_at: row.get(4)? };
    Ok((row.get(0)?, workspace))
}

fn tool(row: &Row) -> Result<Tool, Error> {
    Ok(Tool {
        tenant: row.get(0)?,
        id: row.get(1)?,
        name: row.parse(2)?,
        origin: row.parse(3)?,
        created_at: row.get(4)?,
    })
}

fn version(row: &Row) -> Result<Version, Error> {
    // An object: to put a member into anything else would panic.
    let mut definition: Map<String, Json> = row.json(4)?;
    definition.insert("input_schema".into(), row.json(5)?);
    if row.get::<Option<Digest>>(16)?.is_some() {
        definition.insert("output_schema".into(), row.json(6)?);
    }
    let definition: Definition =
        json::decode(Json::Object(definition)).map_err(|_| Error::Corrupt("column 4 is not a definition".into()))?;
    let lifecycle =
        Lifecycle { state: row.parse(10)?, message: row.get(11)?, remove_by: row.get(12)?, replaced_by: row.get(13)? };
    Ok(Version {
        tenant: row.get(0)?,
        id: row.get(1)?,
        tool: row.get(2)?,
        version: row.parse(3)?,
        definition,
        source: row.get(7)?,
        definition_digest: row.get(8)?,
        behaviour_digest: row.get(9)?,
        lifecycle,
        published_by: row.get(14)?,
        created_at: row.get(15)?,
    })
}

fn over(row: &Row) -> Result<Override, Error> {
    Ok(Override {
        tenant: row.get(0)?,
        tool: row.get(1)?,
        enabled: row.get(2)?,
        patch: row.json(3)?,
        revision: row.get(4)?,
    })
}

fn alias(row: &Row) -> Result<Alias, Error> {
    Ok(Alias {
        tenant: row.get(0)?,
        name: row.parse(1)?,
        tool: row.get(2)?,
        remove_by: row.get(3)?,
        visibility: row.parse(4)?,
    })
}

fn group(row: &Row) -> Result<GroupMember, Error> {
    Ok(GroupMember { tenant: row.get(0)?, group: row.get(1)?, tool_folded: row.get(2)? })
}

fn agent(row: &Row) -> Result<StoredAgent, Error> {
    Ok(StoredAgent {
        tenant: row.get(0)?,
        id: row.get(1)?,
        workspace: row.get(2)?,
        owner: row.get(3)?,
        profile: row.get(4)?,
        spec: row.json(5)?,
        state: row.parse(6)?,
        revision: row.get(7)?,
    })
}

fn profile(row: &Row) -> Result<(TenantId, StoredProfile), Error> {
    Ok((row.get(0)?, StoredProfile { id: row.get(1)?, profile: row.json(2)?, revision: row.get(3)? }))
}

fn assignment(row: &Row) -> Result<Assignment, Error> {
    Ok(Assignment {
        tenant: row.get(0)?,
        agent: row.get(1)?,
        tool: row.get(2)?,
        profile: row.get(3)?,
        created_by: row.get(4)?,
        created_at: row.get(5)?,
    })
}
