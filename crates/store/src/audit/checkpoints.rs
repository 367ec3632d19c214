//! Signed checkpoints as they are kept, one for a size, and which log this database holds.
//!
//! A database that was brought back from an older copy may grow into another log than the one that was signed before.
//! So a restored database holds a new log: its number changes, and with it every origin (`engine::audit`).

use toolgate_contracts::{Digest, Rng, TenantId, Timestamp};

use super::sequence::column;
use super::tree::number;
use crate::change::{Change, Durability};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// A checkpoint as it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub size: u64,
    pub root: Digest,
    pub note: String,
    pub at: Timestamp,
}

/// The name of the counter that holds the number of this database's log.
const LOG: &str = "audit_log";
/// The beginning of the names of counters that hold numbers it had before.
const LOG_BEFORE: &str = "audit_log_before_";

impl Store {
    /// Keeps a signed checkpoint, on the disk when this returns. `false` where there is one of that size.
    pub async fn insert_checkpoint(&self, tenant: TenantId, signed: &Signed) -> Result<bool, Error> {
        let mut change = Change::new(tenant).durability(Durability::Disk);
        change.then(
            "INSERT INTO audit_checkpoints (tenant_id, size, root, note, created_at) VALUES ($1, $2, $3, $4, $5)",
            [column(signed.size)?.into(), signed.root.into(), (&signed.note).into(), signed.at.into()],
        );
        match self.commit(change).await {
            Ok(_) => Ok(true),
            Err(error) if error.is("audit_checkpoints_pkey") => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn newest_checkpoint(&self, tenant: TenantId) -> Result<Option<Signed>, Error> {
        let sql = "SELECT size, root, note, created_at FROM audit_checkpoints WHERE tenant_id = $1
            ORDER BY size DESC LIMIT 1";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        rows.first().map(signed).transpose()
    }

    pub async fn checkpoint_of(&self, tenant: TenantId, size: u64) -> Result<Option<Signed>, Error> {
        let sql = "SELECT size, root, note, created_at FROM audit_checkpoints WHERE tenant_id = $1 AND size = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![column(size)?.into()]).await?;
        rows.first().map(signed).transpose()
    }

    /// Checkpoints of more than `after` entries, smallest first.
    pub async fn checkpoints_after(&self, tenant: TenantId, after: u64, limit: u32) -> Result<Vec<Signed>, Error> {
        let sql = "SELECT size, root, note, created_at FROM audit_checkpoints WHERE tenant_id = $1 AND size > $2
            ORDER BY size LIMIT $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![column(after)?.into(), limit.into()]).await?;
        rows.iter().map(signed).collect()
    }

    /// The number of the log that this database holds, drawn when it is first asked for.
    pub async fn audit_log(&self, rng: &Rng) -> Result<i64, Error> {
        if let Some(number) = self.audit_counter(LOG).await? {
            return Ok(number);
        }
        let mut change = Change::new(TenantId::SYSTEM);
        change.then(
            "/* no tenant: the database's own */ INSERT INTO counters (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO NOTHING",
            [LOG.into(), drawn(rng).into()],
        );
        self.commit(change).await?;
        let number = self.audit_counter(LOG).await?;
        number.ok_or_else(|| Error::Corrupt("the log's number is gone".into()))
    }

    /// Whether this database held the log of that number before it was restored.
    pub async fn held_log_before(&self, number: i64) -> Result<bool, Error> {
        Ok(self.audit_counter(&format!("{LOG_BEFORE}{number:016x}")).await?.is_some())
    }

    /// Begins a new log with what is there, after an older copy was brought back.
    pub async fn begin_new_log(&self, rng: &Rng) -> Result<i64, Error> {
        let before = self.audit_log(rng).await?;
        let next = drawn(rng);
        let mut change = Change::new(TenantId::SYSTEM);
        change.then(
            "/* no tenant: the database's own */ INSERT INTO counters (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO NOTHING",
            [format!("{LOG_BEFORE}{before:016x}").into(), before.into()],
        );
        change.then(
            "/* no tenant: the database's own */ UPDATE counters SET value = $2 WHERE name = $1 AND value = $3",
            [LOG.into(), next.into(), before.into()],
        );
        self.commit(change).await?;
        self.audit_log(rng).await
    }

    async fn audit_counter(&self, name: &str) -> Result<Option<i64>, Error> {
        let sql = "SELECT value FROM counters WHERE name = $1";
        let rows = self.query(&Scope::Everyone("the database's own"), sql, vec![name.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }
}

/// Positive, so that it has one spelling in hexadecimal.
fn drawn(rng: &Rng) -> i64 {
    i64::from_be_bytes(rng.bytes()) & i64::MAX
}

fn signed(row: &Row) -> Result<Signed, Error> {
    Ok(Signed { size: number(row.get(0)?)?, root: row.get(1)?, note: row.get(2)?, at: row.get(3)? })
}
