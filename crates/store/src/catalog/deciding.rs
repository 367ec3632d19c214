//! What decides calls beside the definitions: the active policies, guardrails, openings, accepted labels, and whom to
//! tell. They are read as text: whoever gives them their meaning must also say what holds when one cannot be read.

use toolgate_contracts::TenantId;

use super::Source;
use crate::Row;
use crate::error::Error;

/// A row whose meaning is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub tenant: TenantId,
    /// Its name, id or revision.
    pub name: String,
    pub text: String,
}

pub(super) const POLICIES: Source = Source {
    table: "policies",
    sql: "SELECT p.tenant_id, CAST(p.revision AS TEXT), p.source FROM policies p
         JOIN tenants t ON t.id = p.tenant_id AND t.policy_revision = p.revision",
    id: 0,
};
pub(super) const GUARDRAILS: Source =
    Source { table: "guardrails", sql: "SELECT tenant_id, name, spec FROM guardrails ORDER BY name", id: 0 };
pub(super) const OPENINGS: Source =
    Source { table: "egress_openings", sql: "SELECT tenant_id, id, spec FROM egress_openings ORDER BY id", id: 1 };
pub(super) const ACCEPTANCES: Source =
    Source { table: "label_acceptances", sql: "SELECT tenant_id, id, spec FROM label_acceptances ORDER BY id", id: 1 };
/// Without what they are signed with.
pub(super) const WEBHOOKS: Source = Source {
    table: "webhooks",
    sql: "SELECT tenant_id, id, types FROM webhooks WHERE state = 'active' ORDER BY id",
    id: 1,
};

pub(super) fn named(row: &Row) -> Result<Spec, Error> {
    Ok(Spec { tenant: row.get(0)?, name: row.get(1)?, text: row.get(2)? })
}

pub(super) fn with_id(row: &Row) -> Result<Spec, Error> {
    Ok(Spec { tenant: row.get(0)?, name: row.get::<uuid::Uuid>(1)?.to_string(), text: row.get(2)? })
}
