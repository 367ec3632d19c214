//! Kill switches: a tenant, an agent or a tool is stopped at once, on every replica, until it is switched off again.

use serde_json::json;
use toolgate_contracts::{Caller, Fault, KillScope, Permission, ToolName};
use toolgate_store::catalog::KillSwitch;
use uuid::Uuid;

use super::Registry;

/// Longer reasons belong elsewhere; this one is told to every caller who is refused.
const REASON_CHARS_MAX: usize = 500;

/// What is stopped.
#[derive(Clone, Debug)]
pub enum Target {
    /// Every call of the tenant; of every tenant, when said in the system tenant.
    Tenant,
    /// By name or id.
    Agent(String),
    Tool(ToolName),
}

impl Target {
    pub const fn scope(&self) -> KillScope {
        match self {
            Self::Tenant => KillScope::Tenant,
            Self::Agent(_) => KillScope::Agent,
            Self::Tool(_) => KillScope::Tool,
        }
    }
}

impl Registry {
    /// Stops the target with a reason, or lets it go on without one.
    pub async fn set_kill_switch(
        &self,
        caller: &Caller,
        target: &Target,
        on: bool,
        reason: Option<&str>,
    ) -> Result<i64, Fault> {
        caller.require(&Permission::KILLSWITCH)?;
        let (name, object) = self.target(caller, target)?;
        let (scope, reason) = (target.scope(), reason.map(str::trim).filter(|reason| !reason.is_empty()));
        let action = if on { "killswitch.on" } else { "killswitch.off" };
        let details = json!({"scope": scope, "reason": reason});
        let mut change = self.begin(caller, caller.tenant, action, &name, details);
        if on {
            change.insert_kill_switch(&KillSwitch {
                tenant: caller.tenant,
                scope,
                object,
                reason: required(reason)?.to_owned(),
                set_by: caller.principal.to_string(),
                set_at: self.now(),
            });
        } else {
            let missing = Fault::not_found("kill switch", format!("{scope} {name}"));
            change.delete_kill_switch(scope, object, missing);
        }
        self.finish(change).await
    }

    fn target(&self, caller: &Caller, target: &Target) -> Result<(String, Uuid), Fault> {
        let snapshot = self.snapshot();
        match target {
            Target::Tenant => Ok((caller.tenant_slug.to_string(), caller.tenant.uuid())),
            Target::Agent(name) => {
                let agent = snapshot.tenant(caller.tenant)?.agent(name);
                let agent = agent.ok_or_else(|| Fault::not_found("agent", name).at("/name"))?;
                Ok((agent.spec.name.to_string(), agent.id.uuid()))
            }
            Target::Tool(name) => {
                let tool = self.manageable(&snapshot, caller, name).map_err(|fault| fault.at("/name"))?;
                Ok((tool.tool.name.to_string(), tool.tool.id.uuid()))
            }
        }
    }
}

fn required(reason: Option<&str>) -> Result<&str, Fault> {
    let Some(reason) = reason else {
        return Err(Fault::invalid(
            "a kill switch needs a reason",
            "say why: whoever is stopped reads it in the answer to every call",
        )
        .at("/reason"));
    };
    if reason.chars().count() > REASON_CHARS_MAX {
        let told = format!("the reason is longer than {REASON_CHARS_MAX} characters");
        return Err(Fault::invalid(told, "say it shorter, and point to the rest").at("/reason"));
    }
    toolgate_contracts::unseen::check_text("reason", reason)?;
    Ok(reason)
}
