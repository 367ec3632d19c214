//! A tenant's guardrails, and what the operator accepts labels for.
//!
//! What could not look is refused here already, so that nobody finds out by being denied: a detector that is not there,
//! that changes something itself, or that would have to ask a person.

use serde_json::{Value, json};
use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::definition::{PermissionPolicy, Risk};
use toolgate_contracts::guardrail::{DetectorKind, DetectorUse, Guardrail};
use toolgate_contracts::{Caller, Fault, Permission, Runner, Slug, ToolRef, json as strict};
use toolgate_policy::detect::Detector;

use super::{Registry, no_details};
use crate::snapshot::TenantRegistry;

/// The form that is written by now.
const VERSION: u32 = 1;
/// Of one tenant: each of them looks at every call.
const GUARDRAILS_MAX: usize = 100;

/// A guardrail as it is kept. One that cannot be read is listed all the same: it stops every call.
#[derive(Clone, Debug)]
pub struct KeptGuardrail {
    pub name: String,
    pub guardrail: Result<Guardrail, String>,
}

impl Registry {
    /// All of the tenant's, in the order in which they look.
    pub fn guardrails(&self, caller: &Caller) -> Result<Vec<KeptGuardrail>, Fault> {
        if !caller.may(&Permission::GUARDRAILS_EDIT) {
            caller.require(&Permission::APPROVALS_READ)?;
        }
        let snapshot = self.snapshot();
        let rows = &snapshot.tenant(caller.tenant)?.deciding.guardrails;
        let mut kept: Vec<KeptGuardrail> = rows
            .iter()
            .map(|row| KeptGuardrail {
                name: row.name.clone(),
                guardrail: serde_json::from_str(&row.text).map_err(|error| strict::spoken(&error.to_string())),
            })
            .collect();
        kept.sort_by_cached_key(|kept| (kept.guardrail.as_ref().map_or(i32::MIN, |one| one.order), kept.name.clone()));
        Ok(kept)
    }

    /// Creates the guardrail of that name, or replaces it.
    pub async fn put_guardrail(&self, caller: &Caller, guardrail: Guardrail) -> Result<(Guardrail, i64), Fault> {
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let guardrail = self.checked_guardrail(caller, registry, guardrail)?;
        let known = registry.deciding.guardrails.iter().any(|row| row.name == guardrail.name.as_str());
        if !known && registry.deciding.guardrails.len() >= GUARDRAILS_MAX {
            let told = format!("there are {GUARDRAILS_MAX} guardrails already");
            return Err(Fault::conflict(told, "replace one, or remove one with `toolgate guardrail rm`"));
        }
        let details = serde_json::to_value(&guardrail).unwrap_or_default();
        let mut change = self.begin(caller, caller.tenant, "guardrail.set", guardrail.name.as_str(), details);
        change.put_guardrail(&guardrail, &caller.principal.to_string(), self.now());
        let revision = self.finish(change).await?;
        Ok((guardrail, revision))
    }

    /// One that nothing demands; what demands it would be stopped for good.
    pub async fn delete_guardrail(&self, caller: &Caller, name: &str) -> Result<i64, Fault> {
        caller.require(&Permission::GUARDRAILS_EDIT)?;
        let unknown = || Fault::not_found("guardrail", name);
        let name: Slug = name.parse().map_err(|_| unknown())?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        if !registry.deciding.guardrails.iter().any(|row| row.name == name.as_str()) {
            return Err(unknown());
        }
        if let Some(who) = demands(registry, name.as_str()) {
            return Err(Fault::conflict(format!("{who} demands the guardrail `{name}`"), "take it away there first"));
        }
        let mut change = self.begin(caller, caller.tenant, "guardrail.delete", name.as_str(), no_details());
        change.delete_guardrail(&name);
        self.finish(change).await
    }

    /// A guardrail as it would be kept, whether or not it is.
    pub fn check_guardrail(&self, caller: &Caller, guardrail: Guardrail) -> Result<Guardrail, Fault> {
        let snapshot = self.snapshot();
        self.checked_guardrail(caller, snapshot.tenant(caller.tenant)?, guardrail)
    }

    fn checked_guardrail(
        &self,
        caller: &Caller,
        registry: &TenantRegistry,
        mut guardrail: Guardrail,
    ) -> Result<Guardrail, Fault> {
        caller.require(&Permission::GUARDRAILS_EDIT)?;
        if guardrail.log_only {
            caller.require(&Permission::POLICIES_LOG_ONLY)?;
        }
        if guardrail.version != VERSION {
            let told = format!("`version` is {}", guardrail.version);
            return Err(Fault::invalid(told, format!("write {VERSION}, or leave it out")).at("/version"));
        }
        if let Some(tools) = &guardrail.tools {
            if tools.is_empty() {
                let told = "`tools` is empty, so it would look at nothing";
                return Err(Fault::invalid(told, "name some, or leave it out for every tool").at("/tools"));
            }
            guardrail.tools = Some(self.canonical(registry, tools, "tools")?);
        }
        match guardrail.detector.kind {
            // Read, and thereby judged: what it knows of its own settings is said with the place.
            DetectorKind::Builtin => drop(Detector::of(&guardrail.detector)?),
            DetectorKind::Tool | DetectorKind::Wasm => {
                guardrail.detector = self.checked_detector(registry, guardrail.detector)?;
            }
        }
        Ok(guardrail)
    }

    /// A tool that looks must be there, change nothing, and ask nobody.
    fn checked_detector(&self, registry: &TenantRegistry, detector: DetectorUse) -> Result<DetectorUse, Fault> {
        let refuse = |told: String, remedy: &str| Fault::invalid(told, remedy).at("/detector/name");
        let unknown = || Fault::not_found("tool", &detector.name).at("/detector/name");
        let reference: ToolRef = detector.name.parse().map_err(|_| unknown())?;
        let tool = registry.resolve(&reference, &self.now().day()).ok_or_else(unknown)?;
        let definition = &tool.definition;
        if detector.kind == DetectorKind::Wasm && !matches!(definition.runner, Runner::Wasm(_)) {
            let told = format!("`{}` is a tool of kind `{}`, not of a plug-in", tool.name, definition.runner.kind());
            return Err(refuse(told, "write `kind: tool`, or name a tool that a plug-in runs"));
        }
        if definition.effects() == SideEffects::Writes {
            let told = format!("`{}` changes something itself", tool.name);
            return Err(refuse(told, "a detector only looks: use a tool without side effects"));
        }
        let asks = definition.requires_approval == Some(true)
            || definition.policy() == PermissionPolicy::AlwaysAsk
            || definition.effective_risk() == Risk::Critical;
        if asks {
            let told = format!("`{}` asks a person, and a detector asks nobody", tool.name);
            return Err(refuse(told, "use a tool that needs no approval"));
        }
        if detector.config.as_ref().is_some_and(|config| !config.is_object()) {
            let told = "`config` is not an object";
            return Err(Fault::invalid(told, "write an object, or leave it out").at("/detector/config"));
        }
        let name = ToolRef { name: tool.tool.name.clone(), version: reference.version }.to_string();
        Ok(DetectorUse { name, ..detector })
    }
}

/// What a profile or a tool may demand: a guardrail of the tenant, or a builtin detector by its name.
pub(super) fn check_demanded(registry: &TenantRegistry, names: &[String], at: &str) -> Result<(), Fault> {
    for (place, name) in names.iter().enumerate() {
        let kept = registry.deciding.guardrails.iter().any(|row| row.name == *name);
        if !kept && Detector::parse(name, &Value::Null).is_err() {
            let told = format!("there is no guardrail `{name}`, and no builtin detector that needs no settings");
            let remedy = "make it first with `toolgate guardrail set`; until then every call would be refused";
            return Err(Fault::invalid(told, remedy).at(format!("{at}/{place}")));
        }
    }
    Ok(())
}

/// Who demands the guardrail of this name, unless a builtin detector takes its place.
fn demands(registry: &TenantRegistry, name: &str) -> Option<String> {
    if Detector::parse(name, &json!(null)).is_ok() {
        return None;
    }
    let of_profile = || {
        let profile =
            registry.profiles.values().find(|stored| stored.profile.guardrails.iter().any(|one| one == name))?;
        Some(format!("the profile `{}`", profile.profile.name))
    };
    let of_tool = || {
        let names = |tool: &&crate::snapshot::TenantTool| {
            tool.tool.versions.iter().any(|version| version.definition.guardrails.iter().any(|one| one == name))
        };
        Some(format!("the tool `{}`", registry.tools().find(names)?.name))
    };
    of_profile().or_else(of_tool)
}
