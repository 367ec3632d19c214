//! Openings: the operator lets the connector reach hosts that are closed to everybody otherwise.
//!
//! Deliberately absent: what can never be opened. Whoever holds the connector checks that before.

use serde_json::json;
use toolgate_contracts::{Caller, Fault, Opening, OpeningId, OpeningSpec, Permission, TenantId};

use super::Registry;

impl Registry {
    /// Everything that is open, for whomever.
    pub fn openings(&self, caller: &Caller) -> Result<Vec<Opening>, Fault> {
        caller.require(&Permission::EGRESS_OPEN)?;
        Ok(self.snapshot().tenant(TenantId::SYSTEM)?.deciding.opened())
    }

    pub async fn open_host(&self, caller: &Caller, spec: OpeningSpec) -> Result<(Opening, i64), Fault> {
        caller.require(&Permission::EGRESS_OPEN)?;
        let snapshot = self.snapshot();
        for (place, slug) in spec.tenants.iter().flatten().enumerate() {
            snapshot.tenant_by_slug(slug.as_str()).map_err(|fault| fault.at(format!("/tenants/{place}")))?;
        }
        if spec.expires_at.is_some_and(|at| at <= self.now()) {
            let told = "`expires_at` is in the past";
            return Err(Fault::invalid(told, "name a time to come, or leave it out").at("/expires_at"));
        }
        toolgate_contracts::unseen::check_text("reason", &spec.reason)?;
        let opening = Opening { id: self.new_id(), spec };
        let details = serde_json::to_value(&opening.spec).unwrap_or_default();
        let mut change = self.begin(caller, TenantId::SYSTEM, "egress.open", &opening.id.to_string(), details);
        change.insert_opening(&opening, &caller.principal.to_string(), self.now());
        let revision = self.finish(change).await?;
        Ok((opening, revision))
    }

    pub async fn close_host(&self, caller: &Caller, id: OpeningId) -> Result<(Opening, i64), Fault> {
        let closed = self.openings(caller)?.into_iter().find(|opening| opening.id == id);
        let closed = closed.ok_or_else(|| Fault::not_found("opening", id))?;
        let OpeningSpec { host, port, .. } = &closed.spec;
        let details = json!({"host": host, "port": port});
        let mut change = self.begin(caller, TenantId::SYSTEM, "egress.close", &id.to_string(), details);
        change.delete_opening(id);
        let revision = self.finish(change).await?;
        Ok((closed, revision))
    }
}
