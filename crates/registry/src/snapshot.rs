//! One immutable picture of the registry, and the one function that everything reads names through.
//!
//! Three layers meet here: code-defined tools and the operator's own (rows of the system tenant, global), a tenant's
//! overrides on them, and what a tenant made itself. Invariant: no I/O, so listing, searching and calling cannot differ.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use toolgate_contracts::agent::StoredProfile;
use toolgate_contracts::definition::{Origin, ToolState, Visibility};
use toolgate_contracts::{
    AgentId, Definition, Digest, Fault, FoldedName, KillScope, Plugin, ProfileId, Slug, TenantId, Timestamp, ToolId,
    ToolName, ToolRef, VersionId, WorkspaceId,
};
use toolgate_policy::constraint::Constraints;
use toolgate_store::catalog::{
    self, Alias, Assignment, Catalog, Classification, GroupMember, KillSwitch, Lifecycle, Override, StoredAgent,
};
use toolgate_store::people::{Tenant, Workspace};
use toolgate_store::providers::StoredProvider;
use toolgate_store::skills::StoredSkill;
use toolgate_store::upstreams::StoredUpstream;
use toolgate_store::workflows::HeldWorkflow;

use uuid::Uuid;

use crate::classification;
use crate::deciding::{Deciding, Specs};
use crate::finding::Finding;
use crate::patch::Patch;
use crate::render::{self, Form, Rendered};
use crate::schema::Validator;
use crate::search::{Entry as SearchEntry, Index, Kind};
use crate::tool_md::{self, Originals};

/// A tool with all its versions, newest first.
#[derive(Debug)]
pub struct Tool {
    pub id: ToolId,
    pub tenant: TenantId,
    pub name: ToolName,
    pub origin: Origin,
    pub created_at: Timestamp,
    pub versions: Vec<Arc<Version>>,
    /// What the operator says of its class.
    pub classification: Option<Arc<Classification>>,
}

#[derive(Debug)]
pub struct Version {
    pub id: VersionId,
    pub version: semver::Version,
    /// As it holds: with the operator's classification.
    pub definition: Arc<Definition>,
    pub source: Option<String>,
    pub definition_digest: Digest,
    pub behaviour_digest: Digest,
    /// As it was published, which never changes.
    pub published: Published,
    pub lifecycle: Lifecycle,
    pub published_by: String,
    pub created_at: Timestamp,
    /// Made when first asked for; a version never changes.
    renderings: [OnceLock<Rendered>; Form::ALL.len()],
    /// Compiled when first called; an override never changes a schema.
    input: OnceLock<Result<Validator, Finding>>,
    output: OnceLock<Result<Validator, Finding>>,
}

/// A definition as its author published it.
#[derive(Clone, Debug)]
pub struct Published {
    pub definition: Arc<Definition>,
    pub definition_digest: Digest,
    pub behaviour_digest: Digest,
}

impl Version {
    /// What the tool's input is judged by.
    pub fn input_validator(&self) -> Result<&Validator, &Finding> {
        self.input.get_or_init(|| Validator::new(&self.definition.input_schema)).as_ref()
    }

    /// What its output is judged by, if it says so.
    pub fn output_validator(&self) -> Option<Result<&Validator, &Finding>> {
        let schema = self.definition.output_schema.as_ref()?;
        Some(self.output.get_or_init(|| Validator::new(schema)).as_ref())
    }

    fn build(row: catalog::Version, classification: Option<&Classification>) -> Self {
        let published = Published {
            definition: Arc::new(row.definition),
            definition_digest: row.definition_digest,
            behaviour_digest: row.behaviour_digest,
        };
        let said = classification
            .and_then(|said| classification::applied(said, &published.definition, published.behaviour_digest));
        let (definition, definition_digest, behaviour_digest) = match said {
            None => (Arc::clone(&published.definition), published.definition_digest, published.behaviour_digest),
            Some(definition) => {
                let (whole, behaviour) = (definition.definition_digest(), definition.behaviour_digest());
                (Arc::new(definition), whole, behaviour)
            }
        };
        Self {
            id: row.id,
            version: row.version,
            definition,
            source: row.source,
            definition_digest,
            behaviour_digest,
            published,
            lifecycle: row.lifecycle,
            published_by: row.published_by,
            created_at: row.created_at,
            renderings: std::array::from_fn(|_| OnceLock::new()),
            input: OnceLock::new(),
            output: OnceLock::new(),
        }
    }

    /// Whether the operator's word changes what was published.
    pub fn is_classified(&self) -> bool {
        self.definition_digest != self.published.definition_digest
    }

    fn rendered(&self, form: Form) -> Rendered {
        let render = || render::one(&self.definition, form, &self.originals());
        match Form::ALL.iter().position(|known| *known == form).and_then(|index| self.renderings.get(index)) {
            Some(kept) => kept.get_or_init(render).clone(),
            None => render(),
        }
    }

    /// The schemas as their author wrote them.
    fn originals(&self) -> Originals {
        let source = self.source.as_deref().unwrap_or_default().as_bytes();
        let parsed = if source.starts_with(b"{") { tool_md::parse_json(source) } else { tool_md::parse(source) };
        parsed.map(|authored| authored.originals).unwrap_or_default()
    }
}

impl Tool {
    /// What a bare name means: the highest active version, else the highest deprecated, else the highest blocked.
    /// Pre-releases count only when named.
    pub fn current(&self) -> Option<&Arc<Version>> {
        let released = || self.versions.iter().filter(|version| version.version.pre.is_empty());
        let in_state = |state| released().find(|version| version.lifecycle.state == state);
        in_state(ToolState::Active).or_else(|| in_state(ToolState::Deprecated)).or_else(|| in_state(ToolState::Blocked))
    }

    pub fn version(&self, wanted: &semver::Version) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.version == *wanted)
    }

    pub fn newest(&self) -> Option<&Arc<Version>> {
        self.versions.first()
    }

    /// The highest version that is no pre-release, which the next one must exceed; else the highest there is.
    pub fn newest_released(&self) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.version.pre.is_empty()).or_else(|| self.newest())
    }
}

/// Whether a tenant has switched a tool on or off, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    /// A system tool that must be enabled first.
    NotEnabled,
    Disabled,
    /// The definition names the tenants it is for, and this is none of them.
    OtherTenants,
}

/// A tool as one tenant has it.
#[derive(Debug)]
pub struct TenantTool {
    pub tool: Arc<Tool>,
    /// Canonical, or what the tenant renamed it to.
    pub name: ToolName,
    pub switch: Switch,
    pub patch: Arc<Patch>,
}

/// A tool at one version, with the tenant's override applied: what runs, what is listed, what a grant binds.
#[derive(Clone, Debug)]
pub struct ResolvedTool {
    pub tool: Arc<Tool>,
    pub name: ToolName,
    pub version: Arc<Version>,
    pub definition: Arc<Definition>,
    pub definition_digest: Digest,
    pub behaviour_digest: Digest,
    pub switch: Switch,
    pub overridden: bool,
    pub patch: Arc<Patch>,
    /// Set when it was asked for under an old name.
    pub alias: Option<AliasUse>,
}

impl ResolvedTool {
    pub fn state(&self) -> ToolState {
        self.version.lifecycle.state
    }

    /// The definition as one reader wants it.
    pub fn rendered(&self, form: Form) -> Rendered {
        if self.overridden {
            render::one(&self.definition, form, &self.version.originals())
        } else {
            self.version.rendered(form)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasUse {
    pub name: ToolName,
    pub remove_by: Option<String>,
    pub visibility: Visibility,
}

#[derive(Default)]
pub struct Snapshot {
    pub revision: i64,
    /// Every plug-in that is installed, all versions of each, newest first.
    pub plugins: Vec<Plugin>,
    tenants: HashMap<TenantId, Arc<TenantRegistry>>,
}

impl Snapshot {
    pub fn build(catalog: Catalog) -> Self {
        let Catalog {
            revision,
            tenants,
            workspaces,
            tools,
            versions,
            overrides,
            aliases,
            groups,
            agents,
            profiles,
            assignments,
            kill_switches,
            classifications,
            policies,
            guardrails,
            openings,
            acceptances,
            webhooks,
            plugins,
            upstreams,
            refusals,
            skills,
            providers,
            workflows,
        } = catalog;
        let deciding = Specs { policies, guardrails, openings, acceptances, webhooks };
        let mut versions_of: HashMap<ToolId, Vec<Arc<Version>>> = HashMap::new();
        let said_of: HashMap<ToolId, Arc<Classification>> =
            classifications.into_iter().map(|said| (said.tool, Arc::new(said))).collect();
        for row in versions {
            let said = said_of.get(&row.tool).map(Arc::as_ref);
            versions_of.entry(row.tool).or_default().push(Arc::new(Version::build(row, said)));
        }
        let tools: Vec<Arc<Tool>> = tools
            .into_iter()
            .map(|row| {
                let mut versions = versions_of.remove(&row.id).unwrap_or_default();
                versions.sort_by(|left, right| right.version.cmp(&left.version));
                Arc::new(Tool {
                    id: row.id,
                    tenant: row.tenant,
                    name: row.name,
                    origin: row.origin,
                    created_at: row.created_at,
                    versions,
                    classification: said_of.get(&row.id).cloned(),
                })
            })
            .collect();
        let mut overrides_of: HashMap<ToolId, Vec<Override>> = HashMap::new();
        for row in overrides {
            overrides_of.entry(row.tool).or_default().push(row);
        }
        let shared = Arc::new(Shared { tools, overrides_of, aliases, groups });
        let mut built = HashMap::with_capacity(tenants.len());
        for tenant in tenants {
            let (id, policy_revision) = (tenant.id, tenant.policy_revision);
            built.insert(
                id,
                TenantRegistry {
                    shared: Arc::clone(&shared),
                    tenant,
                    workspaces: workspaces
                        .iter()
                        .filter(|(of, _)| *of == id)
                        .map(|(_, workspace)| (workspace.id, workspace.clone()))
                        .collect(),
                    agents: agents
                        .iter()
                        .filter(|agent| agent.tenant == id)
                        .cloned()
                        .map(|agent| (agent.id, agent))
                        .collect(),
                    profiles: profiles
                        .iter()
                        .filter(|(of, _)| *of == id)
                        .map(|(_, profile)| (profile.id, profile.clone()))
                        .collect(),
                    assignments: assignments
                        .iter()
                        .filter(|assignment| assignment.tenant == id)
                        .map(|assignment| ((assignment.agent, assignment.tool), assignment.clone()))
                        .collect(),
                    kill_switches: kill_switches
                        .iter()
                        .filter(|switch| switch.tenant == id || switch.tenant == TenantId::SYSTEM)
                        .map(|switch| ((switch.tenant, switch.scope, switch.object), switch.clone()))
                        .collect(),
                    deciding: deciding.of(id, policy_revision),
                    upstreams: upstreams
                        .iter()
                        .filter(|upstream| upstream.tenant == id)
                        .map(|upstream| (upstream.spec.name.clone(), Arc::new(upstream.clone())))
                        .collect(),
                    refused: refusals
                        .iter()
                        .filter(|refusal| refusal.tenant == id)
                        .map(|refusal| ((refusal.upstream.clone(), refusal.tool.clone()), refusal.digest))
                        .collect(),
                    skills: skills
                        .iter()
                        .filter(|skill| skill.tenant == id)
                        .map(|skill| (skill.spec.name.clone(), Arc::new(skill.clone())))
                        .collect(),
                    providers: offered(&providers, id),
                    workflows: workflows
                        .iter()
                        .filter(|workflow| workflow.tenant == id)
                        .map(|workflow| (workflow.name.clone(), Arc::new(workflow.clone())))
                        .collect(),
                    constraints: OnceLock::new(),
                    names: OnceLock::new(),
                    index: OnceLock::new(),
                },
            );
        }
        let mut plugins = plugins;
        plugins.sort_by(|left, right| left.name.cmp(&right.name).then(right.version.cmp(&left.version)));
        Self { revision, plugins, tenants: built.into_iter().map(|(id, registry)| (id, Arc::new(registry))).collect() }
    }

    pub fn tenant(&self, tenant: TenantId) -> Result<&Arc<TenantRegistry>, Fault> {
        self.tenants.get(&tenant).ok_or_else(|| Fault::not_found("tenant", tenant))
    }

    pub fn tenants(&self) -> impl Iterator<Item = &Arc<TenantRegistry>> {
        self.tenants.values()
    }

    pub fn tenant_by_slug(&self, slug: &str) -> Result<&Arc<TenantRegistry>, Fault> {
        self.tenants
            .values()
            .find(|registry| registry.tenant.slug.as_str() == slug)
            .ok_or_else(|| Fault::not_found("tenant", slug))
    }
}

/// What all tenants share; each makes its own names of it when first asked.
#[derive(Debug)]
struct Shared {
    tools: Vec<Arc<Tool>>,
    overrides_of: HashMap<ToolId, Vec<Override>>,
    aliases: Vec<Alias>,
    groups: Vec<GroupMember>,
}

pub struct TenantRegistry {
    pub tenant: Tenant,
    pub workspaces: HashMap<WorkspaceId, Workspace>,
    pub agents: HashMap<AgentId, StoredAgent>,
    pub profiles: HashMap<ProfileId, StoredProfile>,
    pub assignments: HashMap<(AgentId, ToolId), Assignment>,
    /// Of this tenant, and of the system tenant, whose hold for all.
    kill_switches: HashMap<(TenantId, KillScope, Uuid), KillSwitch>,
    /// What decides calls beside the definitions.
    pub deciding: Deciding,
    /// Servers of others, by name.
    pub upstreams: BTreeMap<Slug, Arc<StoredUpstream>>,
    /// What somebody said no to: a server's tool by its own name, as it is described there.
    pub refused: BTreeMap<(Slug, String), Digest>,
    /// By name, without their texts.
    pub skills: BTreeMap<Slug, Arc<StoredSkill>>,
    /// Model providers by name, with those of the system tenant, which are offered to all.
    pub providers: BTreeMap<Slug, Arc<StoredProvider>>,
    /// By name, without their graphs.
    pub workflows: BTreeMap<Slug, Arc<HeldWorkflow>>,
    /// The profiles' constraints, read when first asked for.
    constraints: OnceLock<HashMap<ProfileId, Result<Constraints, String>>>,
    shared: Arc<Shared>,
    names: OnceLock<Names>,
    index: OnceLock<Index>,
}

/// The system tenant's providers and the tenant's own, which stand in front of those of the same name.
fn offered(providers: &[StoredProvider], own: TenantId) -> BTreeMap<Slug, Arc<StoredProvider>> {
    let layers = [TenantId::SYSTEM, own].into_iter();
    let of = |layer| providers.iter().filter(move |provider| provider.tenant == layer);
    layers.flat_map(of).map(|provider| (provider.spec.name.clone(), Arc::new(provider.clone()))).collect()
}

#[derive(Debug, Default)]
struct Names {
    /// By folded name; sorted, so that every list is.
    tools: BTreeMap<FoldedName, TenantTool>,
    by_id: HashMap<ToolId, FoldedName>,
    /// What the tenant renamed, by the folded new name.
    renamed: HashMap<FoldedName, FoldedName>,
    aliases: HashMap<FoldedName, (FoldedName, AliasUse)>,
    wire: HashMap<String, FoldedName>,
    /// Group and folded name of its members.
    groups: HashSet<(String, String)>,
}

impl TenantRegistry {
    fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let own = self.tenant.id;
            let mut names = Names::default();
            // The tenant's own rows last: where a later shipped tool takes a name the tenant already had, the tenant's stays.
            for layer in [TenantId::SYSTEM, own] {
                for tool in self.shared.tools.iter().filter(|tool| tool.tenant == layer) {
                    let folded = tool.name.folded();
                    names.by_id.insert(tool.id, folded.clone());
                    names.tools.insert(folded, self.as_overridden(tool));
                }
            }
            for layer in [TenantId::SYSTEM, own] {
                for row in self.shared.aliases.iter().filter(|row| row.tenant == layer) {
                    let Some(target) = names.by_id.get(&row.tool) else { continue };
                    let alias = AliasUse {
                        name: row.name.clone(),
                        remove_by: row.remove_by.clone(),
                        visibility: row.visibility,
                    };
                    names.aliases.insert(row.name.folded(), (target.clone(), alias));
                }
            }
            for (folded, tool) in &names.tools {
                names.wire.insert(tool.name.wire(), folded.clone());
                if tool.name != tool.tool.name {
                    names.renamed.insert(tool.name.folded(), folded.clone());
                }
                if let Some(group) = tool.tool.current().and_then(|version| version.definition.group.clone()) {
                    names.groups.insert((group, folded.as_str().to_owned()));
                }
            }
            names.groups.extend(self.groups().map(|row| (row.group.clone(), row.tool_folded.clone())));
            names
        })
    }

    /// A tool with what the tenant, and the operator for all, said of it; the tenant's own word first.
    fn as_overridden(&self, tool: &Arc<Tool>) -> TenantTool {
        let rows = self.shared.overrides_of.get(&tool.id).map_or(&[][..], Vec::as_slice);
        let own = rows.iter().find(|row| row.tenant == self.tenant.id);
        let for_all = rows.iter().find(|row| row.tenant == TenantId::SYSTEM);
        let enabled = [own, for_all].into_iter().flatten().find_map(|row| row.enabled);
        let (patch, switch) = match own.map(|row| Patch::read(&row.patch)).transpose() {
            Ok(patch) => (patch.unwrap_or_default(), switch_of(tool, enabled, &self.tenant)),
            Err(error) => {
                tracing::error!(tool = %tool.name, tenant = %self.tenant.slug, "switched off: its override cannot be read: {error}");
                (Patch::default(), Switch::Disabled)
            }
        };
        let name = patch.name.clone().unwrap_or_else(|| tool.name.clone());
        TenantTool { tool: Arc::clone(tool), name, switch, patch: Arc::new(patch) }
    }

    /// Every tool the tenant could have, switched on or not, in the order of names.
    pub fn tools(&self) -> impl Iterator<Item = &TenantTool> {
        self.names().tools.values()
    }

    pub fn tool_by_id(&self, id: ToolId) -> Option<&TenantTool> {
        let names = self.names();
        names.by_id.get(&id).and_then(|folded| names.tools.get(folded)).filter(|tool| tool.tool.id == id)
    }

    /// The one way from a name to a tool: exact or folded name, the tenant's rename, or an old name that still works.
    pub fn find(&self, name: &ToolName, today: &str) -> Option<(&TenantTool, Option<AliasUse>)> {
        let names = self.names();
        let folded = name.folded();
        if let Some(tool) = names.tools.get(&folded) {
            return Some((tool, None));
        }
        if let Some(tool) = names.renamed.get(&folded).and_then(|canonical| names.tools.get(canonical)) {
            return Some((tool, None));
        }
        if let Some((target, alias)) = names.aliases.get(&folded) {
            let expired = alias.remove_by.as_deref().is_some_and(|day| day < today);
            return if expired { None } else { names.tools.get(target).map(|tool| (tool, Some(alias.clone()))) };
        }
        None
    }

    /// Resolves a reference; whether a caller may see and call it is decided by [`crate::toolset`].
    pub fn resolve(&self, reference: &ToolRef, today: &str) -> Option<ResolvedTool> {
        let (tool, alias) = self.find(&reference.name, today)?;
        let version = match &reference.version {
            Some(wanted) => tool.tool.version(wanted)?,
            None => tool.tool.current()?,
        };
        Some(tool.at(version, alias))
    }

    /// The way back from a provider's wire name.
    pub fn by_wire_name(&self, wire: &str) -> Option<&TenantTool> {
        let names = self.names();
        names.wire.get(wire).and_then(|folded| names.tools.get(folded))
    }

    /// What a tool group stands for: tools that name the group, and the rows that extend it.
    pub fn group_has(&self, group: &str, tool: &Tool) -> bool {
        self.names().groups.contains(&(group.to_owned(), tool.name.folded().as_str().to_owned()))
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.names().groups.iter().any(|(known, _)| known == group)
    }

    /// The groups of this tenant, by name.
    pub fn group_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().groups.iter().map(|(group, _)| group.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Old names that still work, each with the tool it means.
    pub fn old_names(&self) -> impl Iterator<Item = (&FoldedName, &ToolName)> {
        self.names().aliases.values().map(|(tool, alias)| (tool, &alias.name))
    }

    fn groups(&self) -> impl Iterator<Item = &GroupMember> {
        self.shared.groups.iter().filter(|row| row.tenant == self.tenant.id || row.tenant == TenantId::SYSTEM)
    }

    /// What stops a call of this tool, by this agent if one acts: the widest switch that is on. Without a tool, what
    /// stops the agent whatever it calls.
    pub fn stopped(&self, agent: Option<AgentId>, tool: Option<ToolId>) -> Option<&KillSwitch> {
        if self.kill_switches.is_empty() {
            return None;
        }
        let (own, system) = (self.tenant.id, TenantId::SYSTEM);
        let switches = [
            Some((system, KillScope::Tenant, system.uuid())),
            Some((own, KillScope::Tenant, own.uuid())),
            tool.map(|tool| (system, KillScope::Tool, tool.uuid())),
            tool.map(|tool| (own, KillScope::Tool, tool.uuid())),
            agent.map(|agent| (own, KillScope::Agent, agent.uuid())),
        ];
        switches.into_iter().flatten().find_map(|key| self.kill_switches.get(&key))
    }

    /// The tenant's own switch on one object.
    pub fn switched_off(&self, scope: KillScope, object: Uuid) -> Option<&KillSwitch> {
        self.kill_switches.get(&(self.tenant.id, scope, object))
    }

    /// Every switch that holds here, the system tenant's included.
    pub fn kill_switches(&self) -> impl Iterator<Item = &KillSwitch> {
        self.kill_switches.values()
    }

    pub fn agent(&self, id_or_name: &str) -> Option<&StoredAgent> {
        let by_id = id_or_name.parse::<AgentId>().ok().and_then(|id| self.agents.get(&id));
        by_id.or_else(|| self.agents.values().find(|agent| agent.spec.name.as_str() == id_or_name))
    }

    pub fn profile(&self, id_or_name: &str) -> Option<&StoredProfile> {
        let by_id = id_or_name.parse::<ProfileId>().ok().and_then(|id| self.profiles.get(&id));
        by_id.or_else(|| self.profiles.values().find(|stored| stored.profile.name.as_str() == id_or_name))
    }

    /// What a profile demands of arguments. `Err`: it cannot be read, so nothing passes.
    pub fn constraints(&self, profile: ProfileId) -> Result<&Constraints, &str> {
        let read = self.constraints.get_or_init(|| {
            let parse = |stored: &StoredProfile| {
                Constraints::parse(&stored.profile.constraints).map_err(|fault| fault.told().to_owned())
            };
            self.profiles.values().map(|stored| (stored.id, parse(stored))).collect()
        });
        match read.get(&profile) {
            Some(read) => read.as_ref().map_err(String::as_str),
            None => Err("the profile is gone"),
        }
    }

    /// What a tool says of itself by its name, or by name and version, whoever may see it.
    pub fn definition(&self, reference: &ToolRef, today: &str) -> Option<&Definition> {
        let (tool, _) = self.find(&reference.name, today)?;
        let version = match &reference.version {
            Some(wanted) => tool.tool.version(wanted)?,
            None => tool.tool.current()?,
        };
        Some(&version.definition)
    }

    pub fn workflow(&self, name: &str) -> Option<&HeldWorkflow> {
        self.workflows.iter().find(|(known, _)| known.as_str() == name).map(|(_, held)| held.as_ref())
    }

    /// Search over tools, agents, skills and workflows; results are filtered by what the caller may see.
    pub fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let names = self.names();
            let mut aliases_of: HashMap<&FoldedName, Vec<String>> = HashMap::new();
            for (target, alias) in names.aliases.values() {
                aliases_of.entry(target).or_default().push(alias.name.to_string());
            }
            let tools = names.tools.iter().filter_map(|(folded, tool)| {
                let definition = &tool.tool.current()?.definition;
                Some(SearchEntry {
                    kind: Kind::Tool,
                    name: tool.name.to_string(),
                    title: tool.patch.title.clone().or_else(|| definition.title.clone()).unwrap_or_default(),
                    description: definition.description.clone(),
                    tags: definition.tags.clone(),
                    category: definition.effective_category().to_owned(),
                    aliases: aliases_of.get(folded).cloned().unwrap_or_default(),
                })
            });
            let agents = self.agents.values().map(|agent| SearchEntry {
                kind: Kind::Agent,
                name: agent.spec.name.to_string(),
                title: agent.spec.title.clone().unwrap_or_default(),
                description: agent.spec.description.clone().unwrap_or_default(),
                tags: Vec::new(),
                category: "agent".to_owned(),
                aliases: Vec::new(),
            });
            let skills = self.skills.values().map(|skill| SearchEntry {
                kind: Kind::Skill,
                name: skill.spec.name.to_string(),
                title: skill.spec.title.clone().unwrap_or_default(),
                description: skill.spec.description.clone(),
                tags: Vec::new(),
                category: "skill".to_owned(),
                aliases: Vec::new(),
            });
            let workflows = self.workflows.values().map(|workflow| SearchEntry {
                kind: Kind::Workflow,
                name: workflow.name.to_string(),
                title: String::new(),
                description: workflow.description.clone().unwrap_or_default(),
                tags: Vec::new(),
                category: "workflow".to_owned(),
                aliases: Vec::new(),
            });
            Index::build(tools.chain(agents).chain(skills).chain(workflows))
        })
    }
}

impl TenantTool {
    pub fn at(&self, version: &Arc<Version>, alias: Option<AliasUse>) -> ResolvedTool {
        let overridden = !self.patch.is_empty();
        let definition =
            if overridden { Arc::new(self.patch.apply(&version.definition)) } else { Arc::clone(&version.definition) };
        let (definition_digest, behaviour_digest) = if overridden {
            (definition.definition_digest(), definition.behaviour_digest())
        } else {
            (version.definition_digest, version.behaviour_digest)
        };
        ResolvedTool {
            tool: Arc::clone(&self.tool),
            name: self.name.clone(),
            version: Arc::clone(version),
            definition,
            definition_digest,
            behaviour_digest,
            switch: self.switch,
            overridden,
            patch: Arc::clone(&self.patch),
            alias,
        }
    }
}

fn switch_of(tool: &Tool, enabled: Option<bool>, tenant: &Tenant) -> Switch {
    let Some(version) = tool.current().or_else(|| tool.newest()) else { return Switch::Disabled };
    let definition = &version.definition;
    if !definition.tenants.is_empty() && !definition.tenants.contains(&tenant.slug) {
        return Switch::OtherTenants;
    }
    match enabled {
        Some(false) => Switch::Disabled,
        None if definition.opt_in => Switch::NotEnabled,
        Some(true) | None => Switch::On,
    }
}
