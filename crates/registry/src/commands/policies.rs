//! Saving and activating a tenant's policies. A text is checked strictly against what there is before it is saved, and
//! again before it decides; what decides is replaced in one commit, for every replica.

use serde_json::json;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Caller, Fault, Permission, Permissions};
use toolgate_policy::cedar::{self, Compiled, KnownPerson, KnownTool, Policies, PolicyFinding, Vocabulary};
use toolgate_store::people::{User, UserKind};
use toolgate_store::policies::PolicyRevision;

use super::Registry;
use crate::snapshot::TenantRegistry;

/// What is said of a text that was not saved, or was.
#[derive(Debug)]
pub struct Judged {
    pub findings: Vec<PolicyFinding>,
    /// Absent where it has errors.
    pub compiled: Option<Compiled>,
}

/// The set that every tenant begins with.
pub const DEFAULT_REVISION: i64 = 0;
const NOTE_BYTES_MAX: usize = 500;
/// In a tenant with more people numbers of approvers are not looked at: there are enough.
const PEOPLE_COUNTED_MAX: u32 = 1000;

/// Those who may decide on approvals.
#[derive(Debug)]
pub struct Approvers(Vec<User>);

impl TenantRegistry {
    /// Checks a text against this tenant's tools, groups, agents, workspaces and people; without them, numbers of
    /// approvers are not looked at.
    pub fn judge_policies(&self, source: &str, people: Option<&Approvers>) -> Judged {
        let tools = self
            .tools()
            .map(|tool| KnownTool {
                name: tool.tool.name.as_str(),
                aliases: self
                    .old_names()
                    .filter(|(of, _)| **of == tool.tool.name.folded())
                    .map(|(_, name)| name.as_str())
                    .chain((tool.name != tool.tool.name).then_some(tool.name.as_str()))
                    .collect(),
                egress_class: tool.tool.current().map_or(EgressClass::Write, |version| version.definition.class()),
                group: tool.tool.current().and_then(|version| version.definition.group.as_deref()),
                input_schemas: tool.tool.versions.iter().map(|version| &version.definition.input_schema).collect(),
            })
            .collect();
        let vocabulary = Vocabulary {
            tools,
            groups: self.group_names(),
            agents: Some(self.agents.values().map(|agent| agent.spec.name.as_str()).collect()),
            workspaces: Some(self.workspaces.values().map(|workspace| workspace.slug.as_str()).collect()),
            people: people.map(|Approvers(people)| {
                people.iter().map(|user| KnownPerson { id: user.id.to_string(), roles: &user.roles }).collect()
            }),
        };
        match Policies::compile(source, &vocabulary) {
            Ok(compiled) => Judged { findings: compiled.warnings.clone(), compiled: Some(compiled) },
            Err(findings) => Judged { findings, compiled: None },
        }
    }
}

impl Registry {
    /// Checks a text and saves nothing.
    pub fn check_policies(&self, caller: &Caller, source: &str, people: Option<&Approvers>) -> Result<Judged, Fault> {
        caller.require(&Permission::POLICIES_EDIT)?;
        Ok(self.snapshot().tenant(caller.tenant)?.judge_policies(source, people))
    }

    /// Those who may decide on approvals in the caller's tenant; `None` where they are more than anybody would ask for.
    pub async fn approvers(&self, caller: &Caller) -> Result<Option<Approvers>, Fault> {
        caller.require(&Permission::POLICIES_EDIT)?;
        let users = self.store.users(caller.tenant, "", PEOPLE_COUNTED_MAX).await?;
        if users.len() >= PEOPLE_COUNTED_MAX as usize {
            return Ok(None);
        }
        let may_decide = |user: &User| {
            user.kind == UserKind::Person
                && !user.disabled
                && Permissions::of(user.roles.iter().copied()).contains(&Permission::APPROVALS_DECIDE)
        };
        Ok(Some(Approvers(users.into_iter().filter(may_decide).collect())))
    }

    /// Saves a revision, which decides nothing yet. With errors nothing is saved, and they are answered.
    pub async fn save_policies(
        &self,
        caller: &Caller,
        source: &str,
        note: Option<&str>,
    ) -> Result<(Judged, Option<PolicyRevision>), Fault> {
        let people = self.approvers(caller).await?;
        let judged = self.check_policies(caller, source, people.as_ref())?;
        let Some(compiled) = &judged.compiled else { return Ok((judged, None)) };
        if compiled.uses_log_only {
            caller.require(&Permission::POLICIES_LOG_ONLY)?;
        }
        if note.is_some_and(|note| note.len() > NOTE_BYTES_MAX) {
            return Err(Fault::invalid("`note` is too long", format!("use at most {NOTE_BYTES_MAX} bytes")).at("/note"));
        }
        toolgate_contracts::unseen::check_text("note", note.unwrap_or_default())?;
        let by = caller.principal.to_string();
        let details = json!({"digest": toolgate_contracts::Digest::of(source.as_bytes()), "note": note});
        let mut change = self.begin(caller, caller.tenant, "policy.save", caller.tenant_slug.as_str(), details);
        change.insert_policy(source, note, compiled.uses_log_only, &by, self.now());
        let outcome = self.store.commit(change).await?;
        let number = outcome.returned.iter().rev().find_map(|rows| rows.first()).map(|row| row.get(0)).transpose()?;
        let number: i64 = number.ok_or_else(|| Fault::internal("no revision returned"))?;
        let saved = self.store.policy(caller.tenant, number).await?;
        let (revision, _) = saved.ok_or_else(|| Fault::not_found("policy revision", number))?;
        Ok((judged, Some(revision)))
    }

    /// Lets a revision decide; 0 is the default set. Checked again: what it names may be gone since it was saved.
    pub async fn activate_policies(
        &self,
        caller: &Caller,
        number: i64,
        expected: Option<i64>,
    ) -> Result<(Vec<PolicyFinding>, i64), Fault> {
        caller.require(&Permission::POLICIES_EDIT)?;
        let people = self.approvers(caller).await?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let before = registry.tenant.policy_revision;
        let moved = || Fault::conflict("another revision decides by now", "look at it with `toolgate policy show`");
        if expected.is_some_and(|expected| expected != before) {
            return Err(moved().at("/expected_active"));
        }
        let mut findings = Vec::new();
        if number != DEFAULT_REVISION {
            let saved = self.store.policy(caller.tenant, number).await?;
            let (saved, source) = saved.ok_or_else(|| Fault::not_found("policy revision", number))?;
            if saved.uses_log_only {
                caller.require(&Permission::POLICIES_LOG_ONLY)?;
            }
            let judged = registry.judge_policies(&source, people.as_ref());
            if judged.compiled.is_none() {
                let first = judged.findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                return Err(Fault::conflict(
                    format!("revision {number} does not fit what there is any more: {first}"),
                    "correct it and save it anew; `toolgate policy check` shows all findings",
                ));
            }
            findings = judged.findings;
        }
        let details = json!({"revision": number, "before": before});
        let mut change = self.begin(caller, caller.tenant, "policy.activate", caller.tenant_slug.as_str(), details);
        change.activate_policy(number, before, &caller.principal.to_string(), self.now(), moved());
        let revision = self.finish(change).await?;
        Ok((findings, revision))
    }

    /// Whoever edits policies or decides on what they ask reads them. Answered is the revision that decides.
    pub fn may_read_policies(&self, caller: &Caller) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_READ)?;
        if !caller.may(&Permission::POLICIES_EDIT) {
            caller.require(&Permission::APPROVALS_READ)?;
        }
        Ok(self.snapshot().tenant(caller.tenant)?.tenant.policy_revision)
    }

    /// A revision's text: a number, or `active`, or `default`.
    pub async fn policy_text(
        &self,
        caller: &Caller,
        which: &str,
    ) -> Result<(i64, Option<PolicyRevision>, String), Fault> {
        let active = self.may_read_policies(caller)?;
        let unknown = || Fault::not_found("policy revision", which);
        let number = match which {
            "active" => active,
            "default" => DEFAULT_REVISION,
            number => number.parse().map_err(|_| unknown())?,
        };
        if number == DEFAULT_REVISION {
            return Ok((number, None, cedar::DEFAULT.to_owned()));
        }
        let (revision, source) = self.store.policy(caller.tenant, number).await?.ok_or_else(unknown)?;
        Ok((number, Some(revision), source))
    }
}
