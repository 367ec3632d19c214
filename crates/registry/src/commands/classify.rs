//! Classification: the operator says what a tool does where its runner tells too little (`contracts.md` §1, §15).

use serde_json::json;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Caller, Fault, Permission, Runner, Slug, ToolName};
use toolgate_store::catalog::{Classification, Guarded};

use super::Registry;
use super::register::KnownHere;
use crate::classification;
use crate::floor;
use crate::snapshot::{TenantRegistry, Version};

/// What the operator decided after a look.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub egress_class: EgressClass,
    /// Absent: as the definition says, or as follows from the class.
    pub changes_state: Option<bool>,
    pub reason: String,
}

impl Registry {
    /// Gives a tool its class, or takes a given one back; `tenant` where it is not the caller's own.
    pub async fn classify(
        &self,
        caller: &Caller,
        tenant: Option<&Slug>,
        name: &ToolName,
        verdict: Option<Verdict>,
    ) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_CLASSIFY)?;
        let snapshot = self.snapshot();
        let registry = match tenant {
            Some(slug) => snapshot.tenant_by_slug(slug.as_str()).map_err(|fault| fault.at("/tenant"))?,
            None => snapshot.tenant(caller.tenant)?,
        };
        let found = registry.find(name, &self.now().day()).map(|(tool, _)| tool);
        let tool = &found.ok_or_else(|| Fault::not_found("tool", name))?.tool;
        let current = tool.current().or_else(|| tool.newest()).ok_or_else(|| Fault::not_found("tool", name))?;
        let newest = tool.newest().unwrap_or(current);
        let Some(verdict) = verdict else {
            let change = self.begin(caller, tool.tenant, "tool.classification.clear", tool.name.as_str(), json!({}));
            let mut change = change;
            change.delete_classification(tool.id, Fault::not_found("classification", &tool.name));
            change.guard_tool(tool.id, Guarded::from(newest.published.definition.as_ref()));
            return self.finish(change).await;
        };
        let Verdict { egress_class, changes_state, reason } = verdict;
        if reason.trim().is_empty() {
            let remedy = "say what you looked at: the log and `tool show` keep it";
            return Err(Fault::invalid("a classification needs a reason", remedy).at("/reason"));
        }
        toolgate_contracts::unseen::check_text("reason", &reason)?;
        self.check_floor(registry, current, egress_class, changes_state)?;
        let said = Classification {
            tenant: tool.tenant,
            tool: tool.id,
            egress_class,
            changes_state,
            behaviour_digest: current.published.behaviour_digest,
            reason: reason.trim().to_owned(),
            classified_by: caller.principal.to_string(),
            classified_at: self.now(),
        };
        let details = json!({
            "egress_class": egress_class, "changes_state": changes_state, "reason": said.reason,
            "declared": current.published.definition.class(), "version": current.version.to_string(),
            "behaviour_digest": said.behaviour_digest,
        });
        let mut change = self.begin(caller, tool.tenant, "tool.classify", tool.name.as_str(), details);
        change.upsert_classification(&said);
        let published = &newest.published;
        let holds = classification::applied(&said, &published.definition, published.behaviour_digest);
        change.guard_tool(tool.id, Guarded::from(holds.as_ref().unwrap_or(&published.definition)));
        self.finish(change).await
    }

    /// What Toolgate itself knows of a tool is no matter of opinion: its own functions, and steps that have classes.
    fn check_floor(
        &self,
        registry: &TenantRegistry,
        version: &Version,
        class: EgressClass,
        changes_state: Option<bool>,
    ) -> Result<(), Fault> {
        let definition = &version.published.definition;
        let today = self.now().day();
        let known = KnownHere { registry, builtins: self.builtins, plugins: &[], today: &today };
        let (floor, what) = match &definition.runner {
            Runner::Builtin(builtin) => {
                (floor::of(definition, &known, &mut Vec::new()), format!("the function `{}`", builtin.function))
            }
            Runner::Composition(_) => (floor::of(definition, &known, &mut Vec::new()), "its strongest step".to_owned()),
            Runner::Workflow(_) => (floor::of(definition, &known, &mut Vec::new()), "its strongest node".to_owned()),
            Runner::Record(_) | Runner::Task(_) => {
                let kind = definition.runner.kind();
                (floor::of(definition, &known, &mut Vec::new()), format!("the `{kind}` runner"))
            }
            _ => return require_sense(class, changes_state),
        };
        if class < floor.class {
            let told = format!("`{}` cannot be `{class}`: {what} is `{}`", definition.name, floor.class);
            let remedy = "classify the tools it calls, or choose a stricter class";
            return Err(Fault::invalid(told, remedy).at("/egress_class"));
        }
        if floor.changes_state && changes_state == Some(false) {
            let told = format!("`{}` changes state: {what} does", definition.name);
            return Err(Fault::invalid(told, "leave `changes_state` out").at("/changes_state"));
        }
        require_sense(class, changes_state)
    }
}

fn require_sense(class: EgressClass, changes_state: Option<bool>) -> Result<(), Fault> {
    if class == EgressClass::Write && changes_state == Some(false) {
        let told = "a tool of class `write` changes state";
        return Err(Fault::invalid(told, "leave `changes_state` out, or choose a milder class").at("/changes_state"));
    }
    Ok(())
}
