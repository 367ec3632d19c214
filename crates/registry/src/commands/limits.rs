//! The limits of a whole tenant.

use std::collections::BTreeMap;

use toolgate_contracts::{Caller, Fault, Limits, Permission, RateLimit, TenantLimits};

use super::Registry;
use crate::finding::nearest;
use crate::snapshot::{Snapshot, Switch};

impl Registry {
    /// Replaces the tenant's limits; none at all clears them.
    pub async fn set_limits(&self, caller: &Caller, limits: TenantLimits) -> Result<(TenantLimits, i64), Fault> {
        caller.require(&Permission::LIMITS_EDIT)?;
        let snapshot = self.snapshot();
        let limits = self.checked(&snapshot, caller, limits)?;
        let details = serde_json::to_value(&limits).unwrap_or_default();
        let mut change = self.begin(caller, caller.tenant, "limits.set", caller.tenant_slug.as_str(), details);
        change.set_limits(&limits);
        let revision = self.finish(change).await?;
        Ok((limits, revision))
    }

    /// With tools by their canonical names, which never change.
    fn checked(&self, snapshot: &Snapshot, caller: &Caller, limits: TenantLimits) -> Result<TenantLimits, Fault> {
        let registry = snapshot.tenant(caller.tenant)?;
        check_rate(limits.rate_limit, "/rate_limit")?;
        check_rate(limits.agent_rate_limit, "/agent_rate_limit")?;
        if limits.max_parallel == Some(0) {
            let told = "a limit of no calls at the same time lets nothing through";
            let remedy = "give at least 1; to stop everything use `toolgate killswitch on`";
            return Err(Fault::invalid(told, remedy).at("/max_parallel"));
        }
        limits.within(Limits::default()).check("")?;
        let mut tools = BTreeMap::new();
        for (name, limit) in limits.tools {
            let at = format!("/tools/{name}");
            let tool = self.manageable(snapshot, caller, &name).map_err(|fault| {
                let known = registry.tools().filter(|tool| tool.switch == Switch::On);
                let known: Vec<&str> = known.map(|tool| tool.name.as_str()).collect();
                match nearest(name.as_str(), known) {
                    Some(meant) => {
                        Fault::new(fault.kind(), fault.told(), format!("did you mean `{meant}`?")).at(at.as_str())
                    }
                    None => fault.at(at.as_str()),
                }
            })?;
            check_rate(limit.rate_limit, &format!("{at}/rate_limit"))?;
            if tools.insert(tool.tool.name.clone(), limit).is_some() {
                let told = format!("`{}` is named twice, in two spellings", tool.tool.name);
                return Err(Fault::invalid(told, "name it once").at(at));
            }
        }
        Ok(TenantLimits { tools, ..limits })
    }
}

/// A rate says how many in how long, and neither is nothing.
pub(super) fn check_rate(limit: Option<RateLimit>, at: &str) -> Result<(), Fault> {
    match limit {
        Some(RateLimit { count, per_s }) if count == 0 || per_s == 0 => Err(Fault::invalid(
            "a rate of zero lets nothing through",
            "give a count and a number of seconds of at least 1",
        )
        .at(at)),
        _ => Ok(()),
    }
}
