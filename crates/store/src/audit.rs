//! The audit entry of what a change does, committed with it, and what makes a log of the entries.
//!
//! An entry is a leaf without a place until the sequencer has given it an index ([`sequence`]); from then on it stands
//! in its tenant's tree ([`tree`]), which signed checkpoints name ([`checkpoints`]). What keys sign them, and when, is
//! not known here.

pub mod checkpoints;
pub mod reading;
pub mod sequence;
mod tree;

use serde::Serialize;
use serde_json::{Map, Value as Json};
use toolgate_contracts::{Digest, Fault, LeafId, TenantId, Timestamp, json};
use toolgate_ledger::leaf_hash;

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// One entry of a tenant's log. Payloads never enter it: `details` holds names, numbers and digests.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub id: LeafId,
    pub at: Timestamp,
    pub tenant: TenantId,
    /// Who is answerable, as `user:…` or `local:…`.
    pub actor: String,
    /// What was done, as `noun.verb`.
    pub action: String,
    /// What it was done to.
    pub object: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Json>,
}

impl Entry {
    /// The canonical text whose hash is the leaf.
    pub fn text(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["v"] = 1.into();
        json::canonical(&value)
    }
}

impl Change {
    /// Adds the entry of what this change does.
    pub fn audit(&mut self, entry: &Entry) -> &mut Self {
        self.leaf(entry.id, entry.text(), entry.at);
        self
    }

    /// Adds an entry by its canonical text, and tells the hash of its leaf.
    pub fn leaf(&mut self, id: LeafId, text: String, at: Timestamp) -> Digest {
        let digest = leaf_hash(&text);
        let lost = Fault::internal(format!("the audit entry {id} of {} bytes was not kept", text.len()));
        self.expecting(
            Expect::Rows(1, lost),
            "INSERT INTO audit_leaves (tenant_id, id, entry, digest, created_at) VALUES ($1, $2, $3, $4, $5)",
            [id.into(), text.into(), digest.into(), at.into()],
        );
        digest
    }
}

impl Store {
    /// The newest entries of a tenant's log, newest first, whether they have an index yet or not.
    pub async fn audit_entries(&self, tenant: TenantId, limit: u32) -> Result<Vec<Json>, Error> {
        let sql = "SELECT entry FROM audit_leaves WHERE tenant_id = $1 ORDER BY id DESC LIMIT $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![limit.into()]).await?;
        rows.iter().map(|row: &Row| row.json(0)).collect()
    }
}
