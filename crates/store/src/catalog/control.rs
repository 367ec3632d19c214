//! What is said over tools and agents from above: kill switches, the operator's classifications, a tenant's limits, and
//! the versions that deleted tools leave behind.

use serde::Serialize;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Digest, Fault, FoldedName, KillScope, TenantId, TenantLimits, Timestamp, ToolId};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Source;
use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// Somebody or something is stopped at once. Rows of the system tenant hold for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillSwitch {
    pub tenant: TenantId,
    pub scope: KillScope,
    /// Of the tenant, the agent or the tool.
    pub object: Uuid,
    pub reason: String,
    pub set_by: String,
    pub set_at: Timestamp,
}

/// The class that the operator gave a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Classification {
    #[serde(skip)]
    pub tenant: TenantId,
    #[serde(skip)]
    pub tool: ToolId,
    pub egress_class: EgressClass,
    /// Absent: as the definition says, or as follows from the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes_state: Option<bool>,
    /// Of the definition that the operator looked at.
    #[schema(value_type = String)]
    pub behaviour_digest: Digest,
    pub reason: String,
    pub classified_by: String,
    pub classified_at: Timestamp,
}

pub(super) const KILL_SWITCHES: Source = Source {
    table: "kill_switches",
    sql: "SELECT tenant_id, scope, object_id, reason, set_by, set_at FROM kill_switches",
    id: 2,
};
pub(super) const CLASSIFICATIONS: Source = Source {
    table: "tool_classifications",
    sql:
        "SELECT tenant_id, tool_id, egress_class, changes_state, behaviour_digest, reason, classified_by, classified_at
         FROM tool_classifications",
    id: 1,
};

pub(super) fn kill_switch(row: &Row) -> Result<KillSwitch, Error> {
    Ok(KillSwitch {
        tenant: row.get(0)?,
        scope: row.parse(1)?,
        object: row.get(2)?,
        reason: row.get(3)?,
        set_by: row.get(4)?,
        set_at: row.get(5)?,
    })
}

pub(super) fn classification(row: &Row) -> Result<Classification, Error> {
    Ok(Classification {
        tenant: row.get(0)?,
        tool: row.get(1)?,
        egress_class: row.parse(2)?,
        changes_state: row.get(3)?,
        behaviour_digest: row.get(4)?,
        reason: row.get(5)?,
        classified_by: row.get(6)?,
        classified_at: row.get(7)?,
    })
}

impl Change {
    /// Switched on again, it has the newer reason.
    pub fn insert_kill_switch(&mut self, switch: &KillSwitch) -> &mut Self {
        let KillSwitch { tenant: _, scope, object, reason, set_by, set_at } = switch;
        self.then(
            "INSERT INTO kill_switches (tenant_id, scope, object_id, reason, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (tenant_id, scope, object_id) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by,
                set_at = excluded.set_at",
            [scope.as_str().into(), (*object).into(), reason.into(), set_by.into(), (*set_at).into()],
        )
    }

    /// Refused with `missing` where it is not on.
    pub fn delete_kill_switch(&mut self, scope: KillScope, object: Uuid, missing: Fault) -> &mut Self {
        self.expecting(
            Expect::Some(missing),
            "DELETE FROM kill_switches WHERE tenant_id = $1 AND scope = $2 AND object_id = $3",
            [scope.as_str().into(), object.into()],
        )
    }

    /// A switch whose agent or tool goes away goes with it.
    pub fn forget_kill_switch(&mut self, scope: KillScope, object: Uuid) -> &mut Self {
        self.then(
            "DELETE FROM kill_switches WHERE tenant_id = $1 AND scope = $2 AND object_id = $3",
            [scope.as_str().into(), object.into()],
        )
    }

    pub fn upsert_classification(&mut self, classification: &Classification) -> &mut Self {
        let Classification {
            tenant: _,
            tool,
            egress_class,
            changes_state,
            behaviour_digest,
            reason,
            classified_by,
            classified_at,
        } = classification;
        self.then(
            "INSERT INTO tool_classifications (tenant_id, tool_id, egress_class, changes_state, behaviour_digest, reason,
                classified_by, classified_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, tool_id) DO UPDATE SET egress_class = excluded.egress_class,
                changes_state = excluded.changes_state, behaviour_digest = excluded.behaviour_digest,
                reason = excluded.reason, classified_by = excluded.classified_by, classified_at = excluded.classified_at",
            [
                (*tool).into(),
                egress_class.as_str().into(),
                (*changes_state).into(),
                (*behaviour_digest).into(),
                reason.into(),
                classified_by.into(),
                (*classified_at).into(),
            ],
        )
    }

    pub fn delete_classification(&mut self, tool: ToolId, missing: Fault) -> &mut Self {
        self.expecting(
            Expect::Some(missing),
            "DELETE FROM tool_classifications WHERE tenant_id = $1 AND tool_id = $2",
            [tool.into()],
        )
    }

    pub fn set_limits(&mut self, limits: &TenantLimits) -> &mut Self {
        self.then("UPDATE tenants SET limits = $2 WHERE id = $1", [json_text(limits)])
    }
}

impl Store {
    /// The versions that deleted tools of this name had, with the digests of their definitions.
    pub async fn tombstones(
        &self,
        tenant: TenantId,
        name: &FoldedName,
    ) -> Result<Vec<(semver::Version, Digest)>, Error> {
        let sql = "SELECT version, definition_digest FROM tool_tombstones WHERE tenant_id = $1 AND folded = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![name.as_str().into()]).await?;
        rows.iter().map(|row| Ok((row.parse(0)?, row.get(1)?))).collect()
    }
}
