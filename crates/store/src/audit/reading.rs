//! Reading a log: entries by index, one entry by its id, and the payloads that entries commit to.

use toolgate_contracts::{Digest, LeafId, TenantId};

use super::sequence::column;
use super::tree::number;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// An entry in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub index: u64,
    pub id: LeafId,
    /// The canonical text whose hash is the leaf.
    pub text: String,
    pub digest: Digest,
}

/// What the entry of a call's outcome commits to, and the salt that opens the commitments; texts as they were hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub salt: Vec<u8>,
    pub input: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
}

/// A leaf, whether it has an index yet or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub index: Option<u64>,
    pub id: LeafId,
    pub text: String,
    pub digest: Digest,
}

impl Store {
    /// Entries below `before`, the last first.
    pub async fn entries_before(&self, tenant: TenantId, before: u64, limit: u32) -> Result<Vec<Placed>, Error> {
        let sql = "SELECT s.leaf_index, s.leaf_id, l.entry, l.digest FROM audit_sequence s
            JOIN audit_leaves l ON l.tenant_id = s.tenant_id AND l.id = s.leaf_id
            WHERE s.tenant_id = $1 AND s.leaf_index < $2 ORDER BY s.leaf_index DESC LIMIT $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![column(before)?.into(), limit.into()]).await?;
        rows.iter().map(placed).collect()
    }

    /// Entries from `from` on and below `to`, the first first.
    pub async fn entries_from(&self, tenant: TenantId, from: u64, to: u64, limit: u32) -> Result<Vec<Placed>, Error> {
        let sql = "SELECT s.leaf_index, s.leaf_id, l.entry, l.digest FROM audit_sequence s
            JOIN audit_leaves l ON l.tenant_id = s.tenant_id AND l.id = s.leaf_id
            WHERE s.tenant_id = $1 AND s.leaf_index >= $2 AND s.leaf_index < $3 ORDER BY s.leaf_index LIMIT $4";
        let parameters = vec![column(from)?.into(), column(to)?.into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        rows.iter().map(placed).collect()
    }

    /// The payloads that are kept of the entries from `from` on and below `to`, by index.
    pub async fn payloads_from(&self, tenant: TenantId, from: u64, to: u64) -> Result<Vec<(u64, Payload)>, Error> {
        let sql = "SELECT s.leaf_index, c.salt, c.input, c.output, c.error FROM audit_sequence s
            JOIN calls c ON c.tenant_id = s.tenant_id AND c.id = s.leaf_id
            WHERE s.tenant_id = $1 AND s.leaf_index >= $2 AND s.leaf_index < $3 AND c.salt IS NOT NULL
            ORDER BY s.leaf_index";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![column(from)?.into(), column(to)?.into()]).await?;
        let payload = |row: &Row| {
            let payload = Payload { salt: row.get(1)?, input: row.get(2)?, output: row.get(3)?, error: row.get(4)? };
            Ok((number(row.get(0)?)?, payload))
        };
        rows.iter().map(payload).collect()
    }

    pub async fn leaf(&self, tenant: TenantId, id: LeafId) -> Result<Option<Leaf>, Error> {
        let sql = "SELECT s.leaf_index, l.id, l.entry, l.digest FROM audit_leaves l
            LEFT JOIN audit_sequence s ON s.tenant_id = l.tenant_id AND s.leaf_id = l.id
            WHERE l.tenant_id = $1 AND l.id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![id.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let index = row.get::<Option<i64>>(0)?.map(number).transpose()?;
        Ok(Some(Leaf { index, id: row.get(1)?, text: row.get(2)?, digest: row.get(3)? }))
    }
}

fn placed(row: &Row) -> Result<Placed, Error> {
    Ok(Placed { index: number(row.get(0)?)?, id: row.get(1)?, text: row.get(2)?, digest: row.get(3)? })
}
