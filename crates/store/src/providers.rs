//! Model providers as they are kept.
//!
//! Deliberately absent: listing. They are read with the catalog, so that they and the agents of a snapshot are of one time;
//! and keys, which are secrets and named here alone.

use toolgate_contracts::{Fault, FoldedName, ProviderSpec, Slug, TenantId, Timestamp};

use crate::Row;
use crate::change::{Change, Expect};
use crate::error::Error;
use crate::value::json_text;

/// A provider as it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredProvider {
    /// Whose it is: the system tenant's are offered to all.
    pub tenant: TenantId,
    pub spec: ProviderSpec,
    /// Counts up with every change.
    pub revision: u32,
    pub saved_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Change {
    /// Creates the provider of that name, or replaces the one whose revision is the one before.
    pub fn put_provider(&mut self, provider: &StoredProvider) -> &mut Self {
        let StoredProvider { tenant: _, spec, revision, saved_by, created_at, updated_at } = provider;
        let told = format!("the provider `{}` was changed by others at the same time", spec.name);
        let parameters = [
            spec.name.as_str().into(),
            FoldedName::of(spec.name.as_str()).as_str().into(),
            json_text(spec),
            (*revision).into(),
            saved_by.into(),
            (*created_at).into(),
            (*updated_at).into(),
        ];
        self.expecting(
            Expect::Rows(1, Fault::conflict(told, "look at it and change it again")),
            "INSERT INTO providers (tenant_id, name, folded, spec, revision, saved_by, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, name) DO UPDATE SET spec = excluded.spec, revision = excluded.revision,
                saved_by = excluded.saved_by, updated_at = excluded.updated_at
             WHERE providers.revision = excluded.revision - 1",
            parameters,
        )
    }

    pub fn delete_provider(&mut self, name: &Slug) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("provider", name)),
            "DELETE FROM providers WHERE tenant_id = $1 AND name = $2",
            [name.as_str().into()],
        )
    }
}

pub(crate) fn stored(row: &Row) -> Result<StoredProvider, Error> {
    Ok(StoredProvider {
        tenant: row.get(0)?,
        spec: row.json(1)?,
        revision: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}
