//! Registering a tool: what a file would change, and, when told to, the change.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use toolgate_contracts::definition::{Origin, Visibility};
use toolgate_contracts::{
    Caller, Definition, Digest, Fault, FaultKind, Permission, Plugin, Runner, TenantId, ToolId, ToolRef,
};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::catalog::{self, Classification, Guarded, Lifecycle};
use toolgate_store::workflows::HeldWorkflow;
use utoipa::ToSchema;

use super::{Builtins, CodeTool, LentRight, Registry, operator_only};
use crate::classification;
use crate::diff::{self, Difference};
use crate::finding::{Finding, Severity};
use crate::floor::{self, Floor, Known, plugin_of};
use crate::lint;
use crate::snapshot::{Snapshot, TenantRegistry, TenantTool};
use crate::tool_md::{self, Authored};
use crate::toolset::View;

/// Replicas that start together race to publish the tools they ship; each race has a winner.
const PUBLISH_TRIES: u32 = 8;

/// A definition as it arrives.
#[derive(Clone, Debug)]
pub enum Submitted {
    ToolMd(Vec<u8>),
    Json(Vec<u8>),
}

impl Submitted {
    pub fn parse(&self) -> Result<Authored, Vec<Finding>> {
        match self {
            Self::ToolMd(text) => tool_md::parse(text),
            Self::Json(bytes) => tool_md::parse_json(bytes),
        }
    }

    /// As it was written, so that nothing of it is lost.
    fn source(&self) -> Option<String> {
        let (Self::ToolMd(text) | Self::Json(text)) = self;
        String::from_utf8(text.clone()).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationAction {
    Create,
    Update,
    Unchanged,
}

/// What registering a definition does, or would do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Registration {
    pub name: String,
    pub action: RegistrationAction,
    /// The newest version before.
    pub current: Option<String>,
    pub version: String,
    pub difference: Difference,
    /// Warnings and notes; errors refuse the registration.
    pub findings: Vec<Finding>,
    pub applied: bool,
    /// The registry's revision that has it.
    pub revision: Option<i64>,
}

/// A version on its way into the registry.
pub(super) struct Publication<'a> {
    /// Absent: a new tool.
    pub tool: Option<ToolId>,
    /// What the operator says of the tool.
    pub said: Option<Arc<Classification>>,
    pub origin: Origin,
    pub definition: Definition,
    pub version: semver::Version,
    pub source: Option<String>,
    pub by: &'a str,
}

impl Registry {
    /// Checks a definition and says what registering it would change; writes only with `apply`.
    pub async fn register(&self, caller: &Caller, submitted: &Submitted, apply: bool) -> Result<Registration, Fault> {
        self.register_lent(caller, None, submitted, apply).await
    }

    /// The same within a call to which people may have lent the right.
    pub async fn register_lent(
        &self,
        caller: &Caller,
        lent: Option<&LentRight<'_>>,
        submitted: &Submitted,
        apply: bool,
    ) -> Result<Registration, Fault> {
        let caller = &*LentRight::added_to(lent, caller);
        let Authored { mut definition, lines, notes, .. } = submitted.parse().map_err(refused)?;
        let snapshot = self.snapshot();
        pin(&mut definition, &snapshot, caller.tenant, &self.now().day());
        let existing = self.may_register(&snapshot, caller, &definition)?;
        let mut findings = self.judge(&snapshot, caller.tenant, &definition, lint::check)?;
        let mut refusals = self.judge(&snapshot, caller.tenant, &definition, |definition, context| {
            lint::refusals(definition, context.known)
        })?;
        if !refusals.is_empty() {
            lines.locate(&mut refusals);
            return Err(refused(refusals));
        }
        findings.extend(notes);
        // What fails `tool test` and still may be registered is advice here.
        for finding in &mut findings {
            finding.severity = finding.severity.max(Severity::Warning);
        }
        lines.locate(&mut findings);
        let used = self.store().tombstones(caller.tenant, &definition.name.folded()).await?;
        if let Some(notice) = existing.and_then(|tool| lapsing(&definition, tool)) {
            findings.push(notice);
        }
        let mut plan = plan(&definition, existing, &used, findings)?;
        if plan.action == RegistrationAction::Unchanged || !apply {
            return Ok(plan);
        }
        let version: semver::Version = plan.version.parse().map_err(Fault::internal)?;
        let details = json!({
            "version": plan.version, "class": plan.difference.class, "definition_digest": definition.definition_digest(),
        });
        let details = LentRight::noted(lent, details);
        let mut change = self.begin(caller, caller.tenant, "tool.register", definition.name.as_str(), details);
        let (tool, said) =
            (existing.map(|tool| tool.tool.id), existing.and_then(|tool| tool.tool.classification.clone()));
        let (source, by) = (submitted.source(), caller.principal.to_string());
        let origin = Origin::Tenant;
        self.publish(&mut change, Publication { tool, said, origin, definition, version, source, by: &by });
        plan.revision = Some(self.finish(change).await?);
        plan.applied = true;
        Ok(plan)
    }

    /// Whether the caller may register this; the tool of which it would be a version.
    pub(super) fn may_register<'s>(
        &self,
        snapshot: &'s Snapshot,
        caller: &Caller,
        definition: &Definition,
    ) -> Result<Option<&'s TenantTool>, Fault> {
        require_right(caller, definition)?;
        require_place(caller, definition)?;
        let existing = self.own_tool(snapshot, caller, definition)?;
        caller.require(if existing.is_some() {
            &Permission::TOOLS_TENANT_UPDATE
        } else {
            &Permission::TOOLS_TENANT_CREATE
        })?;
        Ok(existing)
    }

    /// Everything that is wrong or could be better with a definition, among the tools it would live with.
    pub fn test(&self, caller: &Caller, submitted: &Submitted) -> Result<Vec<Finding>, Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        let Authored { definition, lines, notes, .. } = match submitted.parse() {
            Ok(authored) => authored,
            Err(findings) => return Ok(findings),
        };
        let mut findings = self.judge(&self.snapshot(), caller.tenant, &definition, lint::check)?;
        findings.extend(notes);
        lines.locate(&mut findings);
        Ok(findings)
    }

    /// The least that a definition must own up to, among the tools it would live with.
    pub fn floor_of(&self, caller: &Caller, definition: &Definition) -> Result<Floor, Fault> {
        let snapshot = self.snapshot();
        let today = self.now().day();
        let registry = snapshot.tenant(caller.tenant)?;
        let known = KnownHere { registry, builtins: self.builtins, plugins: &snapshot.plugins, today: &today };
        let mut findings = Vec::new();
        let floor = floor::of(definition, &known, &mut findings);
        if findings.is_empty() { Ok(floor) } else { Err(refused(findings)) }
    }

    /// Brings the tools compiled into the program into the system tenant. A new version is published; a published one
    /// never changes, so a definition that changed without a new version is reported and not taken.
    pub async fn publish_code_tools(&self, tools: &[CodeTool]) -> Result<(), Fault> {
        for _ in 0..PUBLISH_TRIES {
            match self.publish_missing(tools).await {
                // Another replica, starting at the same moment, was first.
                Err(fault) if fault.kind() == FaultKind::Conflict => self.refresh().await?,
                published => return published,
            }
        }
        self.publish_missing(tools).await
    }

    async fn publish_missing(&self, tools: &[CodeTool]) -> Result<(), Fault> {
        let snapshot = self.snapshot();
        let mut change = Change::new(TenantId::SYSTEM);
        // First of all: its row lock keeps other replicas' changes of names away until this one is committed.
        change.count_revision();
        let mut published: Vec<String> = Vec::new();
        for CodeTool { file, text } in tools {
            let Authored { definition, .. } = tool_md::parse(text).map_err(|findings| {
                let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
                Fault::internal(format!("{file}: {}", messages.join("; ")))
            })?;
            let version = definition.version.clone().ok_or_else(|| Fault::internal(format!("{file}: no version")))?;
            let existing = snapshot.tenant(TenantId::SYSTEM)?.find(&definition.name, "").map(|(tool, _)| tool);
            match existing.and_then(|tool| tool.tool.version(&version)) {
                Some(known) if known.published.definition_digest == definition.definition_digest() => {}
                Some(_) => {
                    tracing::error!(tool = %definition.name, %version, "changed without a new version; the published definition stays");
                }
                None => {
                    let source = String::from_utf8(text.to_vec()).ok();
                    let tool = existing.map(|tool| tool.tool.id);
                    let said = existing.and_then(|tool| tool.tool.classification.clone());
                    published.push(format!("{}@{version}", definition.name));
                    let (origin, by) = (Origin::Code, "system");
                    self.publish(&mut change, Publication { tool, said, origin, definition, version, source, by });
                }
            }
        }
        if published.is_empty() {
            return Ok(());
        }
        change.audit(&Entry {
            id: self.new_id(),
            at: self.now(),
            tenant: TenantId::SYSTEM,
            actor: "system".to_owned(),
            action: "tool.publish".to_owned(),
            object: "shipped tools".to_owned(),
            details: [("tools".to_owned(), published.into())].into_iter().collect(),
        });
        self.finish(change).await.map(drop)
    }

    pub(super) fn publish(&self, change: &mut Change, publication: Publication<'_>) {
        let Publication { tool, said, origin, mut definition, version, source, by } = publication;
        let at = self.now();
        definition.version = Some(version.clone());
        let classified =
            said.and_then(|said| classification::applied(&said, &definition, definition.behaviour_digest()));
        let guarded = Guarded::from(classified.as_ref().unwrap_or(&definition));
        let id = tool.unwrap_or_else(|| self.new_id());
        if tool.is_none() {
            change.insert_tool(
                &catalog::Tool { tenant: change.tenant(), id, name: definition.name.clone(), origin, created_at: at },
                guarded,
            );
        } else {
            change.guard_tool(id, guarded);
        }
        change.delete_aliases(id);
        for alias in &definition.aliases {
            let row = catalog::Alias {
                tenant: change.tenant(),
                name: alias.name.clone(),
                tool: id,
                remove_by: alias.remove_by.clone(),
                visibility: alias.visibility.unwrap_or(Visibility::External),
            };
            change.insert_alias(&row, at);
        }
        change.insert_version(&catalog::Version {
            tenant: change.tenant(),
            id: self.new_id(),
            tool: id,
            version,
            definition_digest: definition.definition_digest(),
            behaviour_digest: definition.behaviour_digest(),
            definition,
            source,
            lifecycle: Lifecycle::ACTIVE,
            published_by: by.to_owned(),
            created_at: at,
        });
    }

    /// The caller's own tool of that name; a shared one of the same name is in the way.
    fn own_tool<'s>(
        &self,
        snapshot: &'s Snapshot,
        caller: &Caller,
        definition: &Definition,
    ) -> Result<Option<&'s TenantTool>, Fault> {
        let today = self.now().day();
        let Some((tool, alias)) = snapshot.tenant(caller.tenant)?.find(&definition.name, &today) else {
            return Ok(None);
        };
        let same = alias.is_none()
            && tool.tool.tenant == caller.tenant
            && tool.tool.origin != Origin::Code
            && tool.tool.name == definition.name;
        if same {
            return Ok(Some(tool));
        }
        // Which tool has it is told only to who may see that tool.
        let view = View::of(snapshot.tenant(caller.tenant)?, caller, &today)?;
        let seen = tool.tool.current().is_some_and(|version| view.sees(&tool.at(version, None)));
        let by = if seen { format!(" by `{}`", tool.tool.name) } else { String::new() };
        Err(Fault::conflict(
            format!("the name `{}` is taken{by}, or looks like one that is", definition.name),
            "choose another name; a shared tool can be adjusted with `toolgate tool override`",
        )
        .at("/name"))
    }

    /// Judges a definition among the tools of a tenant.
    pub(super) fn judge(
        &self,
        snapshot: &Snapshot,
        tenant: TenantId,
        definition: &Definition,
        judge: impl FnOnce(&Definition, &lint::Context<'_>) -> Vec<Finding>,
    ) -> Result<Vec<Finding>, Fault> {
        let registry = snapshot.tenant(tenant)?;
        let today = self.now().day();
        let names = registry.tools().map(|tool| tool.tool.name.to_string()).collect();
        let known = KnownHere { registry, builtins: self.builtins, plugins: &snapshot.plugins, today: &today };
        let context = lint::Context { origin: Origin::Tenant, names: &names, today: Some(&today), known: Some(&known) };
        Ok(judge(definition, &context))
    }
}

/// What a definition may call: functions of the program, and tools of the tenant.
pub(super) struct KnownHere<'a> {
    pub registry: &'a TenantRegistry,
    pub builtins: Builtins,
    pub plugins: &'a [Plugin],
    pub today: &'a str,
}

impl Known for KnownHere<'_> {
    fn function(&self, name: &str) -> Option<Floor> {
        (self.builtins.floor)(name)
    }

    fn functions(&self) -> Vec<&str> {
        self.builtins.names.to_vec()
    }

    fn tool(&self, reference: &ToolRef) -> Option<&Definition> {
        self.registry.definition(reference, self.today)
    }

    fn plugins(&self) -> Option<&[Plugin]> {
        Some(self.plugins)
    }

    fn has_skill(&self, name: &str) -> Option<bool> {
        Some(self.registry.skills.keys().any(|known| known.as_str() == name))
    }

    fn workflow(&self, name: &str) -> Option<Option<&HeldWorkflow>> {
        Some(self.registry.workflow(name))
    }
}

/// Writes down which bytes a plug-in's name means now, which versions the names of steps, and which revision a workflow's:
/// from here on they are part of what the tool does, of the class that it is judged by, and of what an approval of it is for.
fn pin(definition: &mut Definition, snapshot: &Snapshot, tenant: TenantId, today: &str) {
    match &mut definition.runner {
        Runner::Wasm(wasm) if wasm.digest.is_none() => {
            wasm.digest = plugin_of(wasm, &snapshot.plugins).map(|plugin| plugin.digest);
        }
        Runner::Workflow(runner) if runner.revision.is_none() => {
            let held = snapshot.tenant(tenant).ok().and_then(|registry| registry.workflow(&runner.workflow));
            runner.revision = held.map(|held| held.revision);
        }
        Runner::Composition(composition) => {
            let Ok(registry) = snapshot.tenant(tenant) else { return };
            for step in &mut composition.steps {
                let bare = step.tool.parse::<ToolRef>().ok().filter(|reference| reference.version.is_none());
                if let Some(tool) = bare.and_then(|reference| registry.resolve(&reference, today)) {
                    step.tool = format!("{}@{}", tool.tool.name, tool.version.version);
                }
            }
        }
        _ => {}
    }
}

/// Who may define what (`contracts.md` §15).
fn require_right(caller: &Caller, definition: &Definition) -> Result<(), Fault> {
    if !caller.may(&Permission::TOOLS_TENANT_UPDATE) {
        caller.require(&Permission::TOOLS_TENANT_CREATE)?;
    }
    match &definition.runner {
        Runner::Builtin(_) => Err(operator_only(
            "the runner `builtin`, which names a function compiled into Toolgate, is not for registered tools; defining one",
            "choose another runner, for example `http`, `python` or `external`",
        )),
        Runner::Wasm(_) => caller.require(&Permission::PLUGINS_INSTALL),
        Runner::Mcp(_) => caller.require(&Permission::UPSTREAMS_EDIT),
        // They name entries of the operator's configuration, which is the operator's to hand out.
        Runner::Script(_) | Runner::Sql(_) => caller.require(&Permission::CONFIG_EDIT),
        _ => Ok(()),
    }
}

/// Who else may have a tool is a question only of shared ones.
fn require_place(caller: &Caller, definition: &Definition) -> Result<(), Fault> {
    let member = match definition {
        _ if caller.tenant == TenantId::SYSTEM => return Ok(()),
        Definition { tenants, .. } if !tenants.is_empty() => "tenants",
        Definition { opt_in: true, .. } => "opt_in",
        _ => return Ok(()),
    };
    Err(Fault::invalid(
        format!("`{member}` is for shared tools, and a tool registered here belongs to this tenant alone"),
        "leave it out; the operator registers shared tools with `--tenant system`",
    )
    .at(format!("/{member}")))
}

/// A definition's versions that were published before, with the digests they had: of the tool, and of deleted ones.
pub(super) type Used = [(semver::Version, Digest)];

pub(super) fn plan(
    definition: &Definition,
    existing: Option<&TenantTool>,
    used: &Used,
    findings: Vec<Finding>,
) -> Result<Registration, Fault> {
    // A pre-release counts only for those who name it: it does not hold up the released line.
    let newest = existing.and_then(|tool| tool.tool.newest_released());
    let Some(newest) = newest else {
        return Ok(Registration {
            name: definition.name.to_string(),
            action: RegistrationAction::Create,
            current: None,
            version: first_version(definition, used)?.to_string(),
            difference: Difference::default(),
            findings,
            applied: false,
            revision: None,
        });
    };
    let digest = definition.definition_digest();
    let difference = diff::compare(&newest.published.definition, definition);
    let unchanged = newest.published.definition_digest == digest;
    let counted = diff::next_version(&newest.version, difference.class);
    let published = |wanted: &semver::Version| {
        existing.is_some_and(|tool| tool.tool.version(wanted).is_some()) || means_another(wanted, digest, used)
    };
    // Whatever was used up by a deleted tool of the name is stepped over.
    let free = || {
        let steps =
            std::iter::successors(Some(counted.clone()), |last| Some(diff::next_version(last, difference.class)));
        steps.take(used.len() + 3).find(|version| !published(version)).unwrap_or_else(|| counted.clone())
    };
    let version = match &definition.version {
        _ if unchanged => newest.version.clone(),
        None => free(),
        Some(wanted) if *wanted > newest.version && !published(wanted) => wanted.clone(),
        Some(wanted) if *wanted == newest.version || published(wanted) => {
            return Err(Fault::conflict(
                format!("`{}@{wanted}` is published and cannot change", definition.name),
                format!("leave `version` out, or write `{}`", free()),
            )
            .at("/version"));
        }
        Some(wanted) => {
            return Err(Fault::conflict(
                format!("version {wanted} of `{}` is lower than the newest, {}", definition.name, newest.version),
                format!("leave `version` out, or write `{}`", free()),
            )
            .at("/version"));
        }
    };
    let action = if unchanged { RegistrationAction::Unchanged } else { RegistrationAction::Update };
    let difference = if unchanged { Difference::default() } else { difference };
    Ok(Registration {
        name: definition.name.to_string(),
        action,
        current: Some(newest.version.to_string()),
        version: version.to_string(),
        difference,
        findings,
        applied: false,
        revision: None,
    })
}

/// Whether a deleted tool of the name had this version with another definition.
fn means_another(version: &semver::Version, digest: Digest, used: &Used) -> bool {
    used.iter().any(|(known, meant)| known == version && *meant != digest)
}

/// The version of a new tool. A name that was used before goes on where it ended: the same definition has its old
/// version again, another one the next major, since what the callers of the old one knew no longer holds.
fn first_version(definition: &Definition, used: &Used) -> Result<semver::Version, Fault> {
    let digest = definition.definition_digest();
    let highest = used.iter().map(|(version, _)| version).max();
    let next = highest.map_or(semver::Version::new(1, 0, 0), |highest| semver::Version::new(highest.major + 1, 0, 0));
    match &definition.version {
        None => {
            let same = used.iter().filter(|(_, meant)| *meant == digest).map(|(version, _)| version).max();
            Ok(same.cloned().unwrap_or(next))
        }
        Some(wanted) if !means_another(wanted, digest, used) => Ok(wanted.clone()),
        Some(wanted) => Err(Fault::conflict(
            format!("`{}@{wanted}` was published before, with another definition, and cannot change", definition.name),
            format!("leave `version` out, or write `{next}`"),
        )
        .at("/version")),
    }
}

/// A milder class that the operator gave for another behaviour does not hold for this one.
pub(super) fn lapsing(definition: &Definition, tool: &TenantTool) -> Option<Finding> {
    let said = tool.tool.classification.as_ref()?;
    classification::lapsed(said, definition, definition.behaviour_digest()).then(|| {
        let message = format!(
            "the operator's class `{}` was given to another behaviour and does not hold for this version",
            said.egress_class
        );
        Finding::warning("classification.lapsed", "/egress_class", message, "ask the operator to look at it again")
    })
}

/// As it is told to whoever wanted to register it.
pub fn refused(findings: Vec<Finding>) -> Fault {
    let count = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
    let told = if count > 1 {
        format!("the definition has {count} errors; the first: {first}")
    } else {
        format!("the definition is refused: {first}")
    };
    let pointer = findings.first().map(|finding| finding.pointer.clone()).unwrap_or_default();
    let remedy = findings.first().map(|finding| finding.fix.clone()).unwrap_or_default();
    Fault::invalid(told, remedy).at(pointer).with_details(json!({"reason": "schema", "findings": findings}))
}
