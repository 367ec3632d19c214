//! A tenant's skills: added from their files, listed for whoever may read them, filled in, removed.
//!
//! Whoever may make tools may make skills: both say what models do. Whoever acts as an agent has the skills that the
//! agent was given; a token is for tools and has none.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::{Caller, Digest, Fault, FoldedName, Permission, Runner, Skill, Slug, TenantId, ToolName};
use toolgate_store::skills::{SkillVersion, StoredSkill};
use utoipa::ToSchema;

use super::Registry;
use crate::finding::{Finding, Severity};
use crate::skill_md::{self, AuthoredSkill};
use crate::snapshot::TenantRegistry;
use crate::toolset::View;

/// Of one tenant.
const SKILLS_MAX: usize = 1000;

/// What adding a skill did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SkillAction {
    Created,
    Replaced,
    Unchanged,
}

#[derive(Debug)]
pub struct AddedSkill {
    pub skill: Arc<StoredSkill>,
    pub action: SkillAction,
    /// What is worth saying.
    pub findings: Vec<Finding>,
    /// Absent where nothing changed.
    pub revision: Option<i64>,
}

/// A skill with its places filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledSkill {
    pub skill: Arc<StoredSkill>,
    pub text: String,
}

impl TenantRegistry {
    /// The skills that this caller has, by name.
    pub fn skills_of<'r>(&'r self, caller: &Caller) -> impl Iterator<Item = &'r Arc<StoredSkill>> {
        let may = caller.may(&Permission::TOOLS_READ) && caller.token.is_none();
        let given = caller.agent.map(|agent| self.agents.get(&agent).map_or(&[][..], |agent| &agent.spec.skills[..]));
        let has = move |name: &Slug| may && given.is_none_or(|given| given.iter().any(|one| one == name.as_str()));
        self.skills.values().filter(move |skill| has(&skill.spec.name))
    }
}

impl Registry {
    pub fn skills(&self, caller: &Caller) -> Result<Vec<Arc<StoredSkill>>, Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        Ok(self.snapshot().tenant(caller.tenant)?.skills_of(caller).cloned().collect())
    }

    /// One that the caller has; another looks like none.
    pub fn skill(&self, caller: &Caller, name: &str) -> Result<Arc<StoredSkill>, Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        let snapshot = self.snapshot();
        let found = snapshot.tenant(caller.tenant)?.skills_of(caller).find(|skill| skill.spec.name.as_str() == name);
        found.cloned().ok_or_else(|| Fault::not_found("skill", name))
    }

    /// The file of a skill as it holds, or as it was under a digest.
    pub async fn skill_source(
        &self,
        tenant: TenantId,
        skill: &StoredSkill,
        digest: Option<Digest>,
    ) -> Result<String, Fault> {
        let digest = digest.unwrap_or(skill.digest);
        let found = self.store().skill_source(tenant, &skill.spec.name, digest).await?;
        found.ok_or_else(|| Fault::not_found("text of the skill", digest))
    }

    pub async fn skill_versions(&self, tenant: TenantId, skill: &StoredSkill) -> Result<Vec<SkillVersion>, Fault> {
        Ok(self.store().skill_versions(tenant, &skill.spec.name).await?)
    }

    /// A skill that the caller has, filled in.
    pub async fn fill_skill(
        &self,
        caller: &Caller,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<FilledSkill, Fault> {
        let skill = self.skill(caller, name)?;
        let source = self.skill_source(caller.tenant, &skill, None).await?;
        let AuthoredSkill { skill: spec, text, .. } = skill_md::parse(source.as_bytes()).map_err(|findings| {
            let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
            Fault::internal(format!("the skill `{name}` cannot be read any more: {first}"))
        })?;
        let text = skill_md::rendered(&spec, &text, arguments)?;
        Ok(FilledSkill { skill, text })
    }

    /// Creates the skill that the file names, or replaces it.
    pub async fn add_skill(&self, caller: &Caller, file: &str) -> Result<AddedSkill, Fault> {
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        // Whoever may not write at all learns nothing by trying.
        if !caller.may(&Permission::TOOLS_TENANT_UPDATE) {
            caller.require(&Permission::TOOLS_TENANT_CREATE)?;
        }
        let AuthoredSkill { skill: spec, source, digest, mut notes, .. } =
            skill_md::parse(file.as_bytes()).map_err(refused)?;
        let today = self.now().day();
        notes.extend(unknown_tools(&View::of(registry, caller, &today)?, registry, &spec, &today));
        let before = registry.skills.get(&spec.name);
        caller.require(if before.is_some() {
            &Permission::TOOLS_TENANT_UPDATE
        } else {
            &Permission::TOOLS_TENANT_CREATE
        })?;
        if let Some(skill) = before.filter(|before| before.digest == digest) {
            let skill = Arc::clone(skill);
            return Ok(AddedSkill { skill, action: SkillAction::Unchanged, findings: notes, revision: None });
        }
        if before.is_none() {
            check_new(registry, &spec.name)?;
        }
        let now = self.now();
        let name = spec.name.clone();
        let skill = StoredSkill {
            tenant: caller.tenant,
            spec,
            digest,
            saved_by: caller.principal.to_string(),
            created_at: before.map_or(now, |before| before.created_at),
            updated_at: now,
        };
        let details = json!({"digest": digest, "before": before.map(|before| before.digest), "skill": skill.spec});
        let mut change = self.begin(caller, caller.tenant, "skill.set", name.as_str(), details);
        change.put_skill(&skill, &source);
        let revision = Some(self.finish(change).await?);
        let action = if before.is_some() { SkillAction::Replaced } else { SkillAction::Created };
        Ok(AddedSkill { skill: Arc::new(skill), action, findings: notes, revision })
    }

    /// One that nothing names.
    pub async fn remove_skill(&self, caller: &Caller, name: &str) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_TENANT_DELETE)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let found = registry.skills.values().find(|skill| skill.spec.name.as_str() == name);
        let skill = found.ok_or_else(|| Fault::not_found("skill", name))?;
        if let Some(who) = named_by(registry, name) {
            return Err(Fault::conflict(format!("{who} names the skill `{name}`"), "take it away there first"));
        }
        let details = json!({"digest": skill.digest});
        let mut change = self.begin(caller, caller.tenant, "skill.delete", name, details);
        change.delete_skill(&skill.spec.name);
        self.finish(change).await
    }
}

fn refused(findings: Vec<Finding>) -> Fault {
    let mut errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let first = errors.next();
    let told = first.map(|finding| finding.message.clone()).unwrap_or_default();
    let told = match errors.count() {
        0 => format!("the skill is refused: {told}"),
        more => format!("the skill has {} errors; the first: {told}", more + 1),
    };
    let (remedy, pointer) = first.map(|finding| (finding.fix.clone(), finding.pointer.clone())).unwrap_or_default();
    Fault::invalid(told, remedy).at(pointer).with_details(json!({"reason": "schema", "findings": findings}))
}

/// Tools that the skill names and whoever adds it does not see: one that is hidden looks like none.
fn unknown_tools<'a>(
    view: &'a View<'_>,
    registry: &'a TenantRegistry,
    spec: &'a Skill,
    today: &'a str,
) -> impl Iterator<Item = Finding> + 'a {
    let is_known = |name: &ToolName| {
        let tool = name.as_str().parse().ok().and_then(|name| registry.resolve(&name, today));
        tool.is_some_and(|tool| view.sees(&tool))
    };
    spec.tools.iter().enumerate().filter(move |(_, name)| !is_known(name)).map(|(index, name)| {
        let message = format!("there is no tool `{name}`");
        let fix = "list what there is with `toolgate tool list`; the skill is kept as it is";
        Finding::warning("skill.tool-unknown", format!("/tools/{index}"), message, fix)
    })
}

fn check_new(registry: &TenantRegistry, name: &Slug) -> Result<(), Fault> {
    if registry.skills.len() >= SKILLS_MAX {
        let told = format!("there are {SKILLS_MAX} skills already");
        return Err(Fault::conflict(told, "remove one with `toolgate skill remove`"));
    }
    let folded = FoldedName::of(name.as_str());
    let alike = registry.skills.keys().find(|known| FoldedName::of(known.as_str()) == folded);
    match alike {
        None => Ok(()),
        Some(known) => {
            let told = format!("there is a skill `{known}`, which `{name}` could be mistaken for");
            Err(Fault::conflict(told, "choose another name, or replace that one").at("/name"))
        }
    }
}

/// Which agent or tool names a skill.
fn named_by(registry: &TenantRegistry, name: &str) -> Option<String> {
    let agent = registry.agents.values().find(|agent| agent.spec.skills.iter().any(|one| one == name));
    let names = |runner: &Runner| matches!(runner, Runner::Prompt(prompt) if prompt.skill.as_deref() == Some(name));
    let tool =
        || registry.tools().find(|tool| tool.tool.versions.iter().any(|version| names(&version.definition.runner)));
    agent
        .map(|agent| format!("the agent `{}`", agent.spec.name))
        .or_else(|| tool().map(|tool| format!("the tool `{}`", tool.name)))
}
