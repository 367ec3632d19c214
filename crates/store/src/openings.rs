//! The operator's openings to hosts inside, and a tenant's settings: what the catalog reads, as it is written.
//!
//! Deliberately absent: reading. An opening is read with the catalog, so that it and the rest of a snapshot are of one time.

use toolgate_contracts::{Fault, Opening, OpeningId, TenantSettings, Timestamp};

use crate::change::{Change, Expect};
use crate::value::json_text;

impl Change {
    /// An opening is of the system tenant, whomever it is for.
    pub fn insert_opening(&mut self, opening: &Opening, by: &str, at: Timestamp) -> &mut Self {
        let Opening { id, spec } = opening;
        self.then(
            "INSERT INTO egress_openings (tenant_id, id, spec, opened_by, created_at) VALUES ($1, $2, $3, $4, $5)",
            [(*id).into(), json_text(spec), by.into(), at.into()],
        )
    }

    pub fn delete_opening(&mut self, id: OpeningId) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("opening", id)),
            "DELETE FROM egress_openings WHERE tenant_id = $1 AND id = $2",
            [id.into()],
        )
    }

    pub fn set_settings(&mut self, settings: &TenantSettings) -> &mut Self {
        self.then("UPDATE tenants SET settings = $2 WHERE id = $1", [json_text(settings)])
    }
}
