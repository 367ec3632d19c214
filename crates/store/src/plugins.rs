//! Plug-ins: components by their digest, in the database, so that every replica has what any of them was given.
//!
//! Deliberately absent: listing. What is installed is read with the catalog, without the components.

use toolgate_contracts::plugin::Plugin;
use toolgate_contracts::{Digest, Fault, TenantId};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

impl Change {
    /// A plug-in is of the system tenant, whose tools ever name it.
    pub fn insert_plugin(&mut self, plugin: &Plugin, component: Vec<u8>) -> &mut Self {
        let Plugin { name, version, digest, world, bytes, description, installed_by, created_at } = plugin;
        self.then(
            "INSERT INTO plugins (tenant_id, digest, name, version, world, description, size_bytes, installed_by, created_at, component)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            [
                (*digest).into(),
                name.as_str().into(),
                version.to_string().into(),
                world.as_str().into(),
                json_text(description),
                i64::try_from(*bytes).unwrap_or(i64::MAX).into(),
                installed_by.into(),
                (*created_at).into(),
                component.into(),
            ],
        )
    }

    /// Refused by the database while a version of a tool names it.
    pub fn delete_plugin(&mut self, digest: Digest) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("plug-in", digest)),
            "DELETE FROM plugins WHERE tenant_id = $1 AND digest = $2",
            [digest.into()],
        )
    }
}

impl Store {
    /// The component of an installed plug-in.
    pub async fn plugin_component(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT component FROM plugins WHERE tenant_id = $1 AND digest = $2";
        let rows = self.query(&Scope::Tenant(TenantId::SYSTEM), sql, vec![digest.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }
}

pub(crate) fn plugin(row: &Row) -> Result<Plugin, Error> {
    Ok(Plugin {
        digest: row.get(1)?,
        name: row.parse(2)?,
        version: row.parse(3)?,
        world: row.parse(4)?,
        description: row.json(5)?,
        bytes: row.get::<i64>(6)?.unsigned_abs(),
        installed_by: row.get(7)?,
        created_at: row.get(8)?,
    })
}
