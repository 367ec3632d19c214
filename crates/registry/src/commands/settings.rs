//! How a tenant works: its settings, replaced as a whole.

use toolgate_contracts::{Caller, Fault, ModelRef, Permission, TenantSettings};

use super::Registry;

const DAY_S: u64 = 24 * 60 * 60;
/// An approval that nobody gave in a month is wanted by nobody.
const EXPIRES_S_MAX: u64 = 31 * DAY_S;
const HOSTS_MAX: usize = 1000;

impl Registry {
    /// Whoever edits policies: `separation` and the limits on asking are part of how calls are decided.
    pub async fn set_settings(
        &self,
        caller: &Caller,
        settings: TenantSettings,
    ) -> Result<(TenantSettings, i64), Fault> {
        caller.require(&Permission::POLICIES_EDIT)?;
        check(&settings)?;
        let details = serde_json::to_value(&settings).unwrap_or_default();
        let mut change = self.begin(caller, caller.tenant, "settings.set", caller.tenant_slug.as_str(), details);
        change.set_settings(&settings);
        let revision = self.finish(change).await?;
        Ok((settings, revision))
    }
}

fn check(settings: &TenantSettings) -> Result<(), Fault> {
    let TenantSettings { approval_expires_s, remind_before_s, asks_per_run_max, hosts, default_model, .. } = settings;
    if !(1..=EXPIRES_S_MAX).contains(approval_expires_s) {
        let told = format!("`approval_expires_s` is {approval_expires_s}");
        return Err(Fault::invalid(told, format!("give 1 to {EXPIRES_S_MAX} seconds")).at("/approval_expires_s"));
    }
    if *remind_before_s > EXPIRES_S_MAX {
        let told = format!("`remind_before_s` is {remind_before_s}");
        return Err(Fault::invalid(told, format!("give at most {EXPIRES_S_MAX} seconds")).at("/remind_before_s"));
    }
    if *asks_per_run_max == 0 {
        let told = "`asks_per_run_max` is 0, so every call that asks would be refused";
        return Err(Fault::invalid(told, "give at least 1").at("/asks_per_run_max"));
    }
    if let Some(model) = default_model {
        model.parse::<ModelRef>().map_err(|fault| fault.at("/default_model"))?;
    }
    if let Some(hosts) = hosts
        && hosts.len() > HOSTS_MAX
    {
        let told = format!("`hosts` has {} entries", hosts.len());
        return Err(
            Fault::invalid(told, format!("name at most {HOSTS_MAX}, or whole domains as `*.example.com`")).at("/hosts")
        );
    }
    Ok(())
}
