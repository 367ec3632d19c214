//! Giving leaves their indexes, in the order in which they were committed.
//!
//! The database numbers commits itself: SQLite has one writer, so that a later row has a larger row id; in PostgreSQL a
//! leaf carries its transaction's id, and only leaves of transactions older than every open one are taken, so that none
//! appears behind those that have their index. Which leaves a stretch of positions holds is therefore settled when it is
//! read, and the insert selects it once more instead of being told every id.
//! Invariant: indexes, nodes and progress move together in one change, from exactly the progress that was read.

use toolgate_contracts::{Digest, Fault, TenantId};
use toolgate_ledger::Node;

use super::tree::{TILE_LEVELS, number};
use crate::backend::Kind;
use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

/// Leaves that get their indexes in one change; a transaction that holds more is still taken whole.
pub const BATCH_LEAVES: usize = 4096;

/// How far a tenant's log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many leaves have an index.
    pub size: u64,
    /// Where in the order of commits the last of them stands.
    pub position: i64,
}

/// The next leaves in the order of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub leaves: Vec<Digest>,
    /// The position of the last.
    pub position: i64,
}

/// A tenant whose log is to be looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub tenant: TenantId,
    /// Leaves wait for their index; in PostgreSQL perhaps for older transactions too.
    pub waiting: bool,
    /// Leaves that have one are not yet covered by a checkpoint.
    pub unsigned: bool,
}

impl Store {
    /// Every tenant whose log has leaves without an index or a checkpoint. One look at an index for each tenant.
    pub async fn audit_unsettled(&self) -> Result<Vec<Unsettled>, Error> {
        // The newest leaf of each tenant, and not whether one is newer than another table says: that is no condition for
        // an index, and all leaves would be read.
        let sql = match self.kind() {
            Kind::Sqlite => {
                "SELECT id, waiting, unsigned FROM (
                    SELECT t.id AS id, coalesce((SELECT l.rowid FROM audit_leaves l WHERE l.tenant_id = t.id
                            ORDER BY l.rowid DESC LIMIT 1), 0) > coalesce(p.position, 0) AS waiting,
                        coalesce(p.size, 0) > coalesce((SELECT max(c.size) FROM audit_checkpoints c
                            WHERE c.tenant_id = t.id), 0) AS unsigned
                    FROM tenants t LEFT JOIN audit_progress p ON p.tenant_id = t.id) AS logs
                 WHERE waiting OR unsigned"
            }
            Kind::Postgres => {
                "SELECT id, waiting, unsigned FROM (
                    SELECT t.id AS id, coalesce((SELECT l.position FROM audit_leaves l WHERE l.tenant_id = t.id
                            ORDER BY l.position DESC LIMIT 1)::text::bigint, 0) > coalesce(p.position, 0) AS waiting,
                        coalesce(p.size, 0) > coalesce((SELECT max(c.size) FROM audit_checkpoints c
                            WHERE c.tenant_id = t.id), 0) AS unsigned
                    FROM tenants t LEFT JOIN audit_progress p ON p.tenant_id = t.id OFFSET 0) AS logs
                 WHERE waiting OR unsigned"
            }
        };
        let rows = self.query(&Scope::Everyone("the sequencer serves all tenants"), sql, vec![]).await?;
        let read =
            |row: &crate::Row| Ok(Unsettled { tenant: row.get(0)?, waiting: row.get(1)?, unsigned: row.get(2)? });
        rows.iter().map(read).collect()
    }

    pub async fn audit_progress(&self, tenant: TenantId) -> Result<Progress, Error> {
        let sql = "SELECT size, position FROM audit_progress WHERE tenant_id = $1";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        rows.first()
            .map_or(Ok(Progress::default()), |row| Ok(Progress { size: number(row.get(0)?)?, position: row.get(1)? }))
    }

    /// The position of the newest leaf that is committed, whether it can have its index yet or not.
    pub async fn audit_newest_position(&self, tenant: TenantId) -> Result<i64, Error> {
        let sql = match self.kind() {
            Kind::Sqlite => "SELECT rowid FROM audit_leaves WHERE tenant_id = $1 ORDER BY rowid DESC LIMIT 1",
            Kind::Postgres => {
                // `l.position`, since `position` alone would be the text in the answer, which no index orders.
                "SELECT l.position::text::bigint FROM audit_leaves l WHERE l.tenant_id = $1
                 ORDER BY l.position DESC LIMIT 1"
            }
        };
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// The leaves after `position`, at most a batch, and in PostgreSQL only whole transactions.
    pub async fn audit_waiting(&self, tenant: TenantId, position: i64) -> Result<Waiting, Error> {
        let (sql, after): (_, Value) = match self.kind() {
            Kind::Sqlite => (
                "SELECT digest, rowid FROM audit_leaves WHERE tenant_id = $1 AND rowid > $2 ORDER BY rowid LIMIT 4096",
                position.into(),
            ),
            Kind::Postgres => (
                "SELECT digest, position::text::bigint FROM (
                    SELECT id, digest, position FROM audit_leaves WHERE tenant_id = $1 AND position > $2::text::xid8
                        AND position < pg_snapshot_xmin(pg_current_snapshot())
                    ORDER BY position FETCH FIRST 4096 ROWS WITH TIES) AS batch
                 ORDER BY position, id",
                position.to_string().into(),
            ),
        };
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![after]).await?;
        let leaves = rows.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
        let position = rows.last().map_or(Ok(position), |row| row.get(1))?;
        Ok(Waiting { leaves, position })
    }

    /// Gives the leaves of `waiting` the indexes from `from.size` on and keeps the tree's nodes. `false` where another
    /// sequencer was faster, and nothing was changed.
    pub async fn audit_sequence(
        &self,
        tenant: TenantId,
        from: Progress,
        waiting: &Waiting,
        nodes: &[Node],
    ) -> Result<bool, Error> {
        let mut change = Change::new(tenant).durability(Durability::Process);
        let added = waiting.leaves.len() as u64;
        let size = column(from.size + added)?;
        let lost = || Expect::Rows(1, lost_race());
        if from == Progress::default() {
            change.expecting(
                lost(),
                "INSERT INTO audit_progress (tenant_id, size, position) VALUES ($1, $2, $3)
                 ON CONFLICT (tenant_id) DO UPDATE SET size = excluded.size, position = excluded.position
                 WHERE audit_progress.size = 0 AND audit_progress.position = 0",
                [size.into(), waiting.position.into()],
            );
        } else {
            change.expecting(
                lost(),
                "UPDATE audit_progress SET size = $2, position = $3 WHERE tenant_id = $1 AND size = $4 AND position = $5",
                [size.into(), waiting.position.into(), column(from.size)?.into(), from.position.into()],
            );
        }
        let all = Expect::Rows(added, Fault::internal(format!("the log of {tenant} changed under the sequencer")));
        let first = column(from.size)?;
        match self.kind() {
            Kind::Sqlite => change.expecting(
                all,
                "INSERT INTO audit_sequence (tenant_id, leaf_index, leaf_id)
                 SELECT tenant_id, $2 - 1 + row_number() OVER (ORDER BY rowid), id FROM audit_leaves
                 WHERE tenant_id = $1 AND rowid > $3 AND rowid <= $4 ORDER BY rowid",
                [first.into(), from.position.into(), waiting.position.into()],
            ),
            Kind::Postgres => change.expecting(
                all,
                "INSERT INTO audit_sequence (tenant_id, leaf_index, leaf_id)
                 SELECT tenant_id, $2::bigint - 1 + row_number() OVER (ORDER BY position, id), id FROM audit_leaves
                 WHERE tenant_id = $1 AND position > $3::text::xid8 AND position <= $4::text::xid8",
                [first.into(), from.position.to_string().into(), waiting.position.to_string().into()],
            ),
        };
        for node in nodes.iter().filter(|node| node.place.level > 0 && node.place.level % TILE_LEVELS == 0) {
            change.then(
                "INSERT INTO audit_nodes (tenant_id, level, position, hash) VALUES ($1, $2, $3, $4)",
                [i64::from(node.place.level).into(), column(node.place.position)?.into(), node.hash.into()],
            );
        }
        match self.commit(change).await {
            Ok(_) => Ok(true),
            Err(Error::Unmet(fault)) if fault.broken_rule() == Some(RACE) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts everything that was committed before on the disk, if the log is still as large as it was.
    pub async fn audit_settle(&self, tenant: TenantId, size: u64) -> Result<bool, Error> {
        let mut change = Change::new(tenant).durability(Durability::Disk);
        change.expecting(
            Expect::Rows(1, lost_race()),
            "UPDATE audit_progress SET size = size WHERE tenant_id = $1 AND size = $2",
            [column(size)?.into()],
        );
        match self.commit(change).await {
            Ok(_) => Ok(true),
            Err(Error::Unmet(fault)) if fault.broken_rule() == Some(RACE) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Tells the one expected refusal from all others.
const RACE: &str = "audit_progress_moved";

fn lost_race() -> Fault {
    Fault::internal("another sequencer was faster").by_rule(RACE)
}

pub(super) fn column(number: u64) -> Result<i64, Error> {
    i64::try_from(number).map_err(|_| Error::Corrupt(format!("{number} is beyond the size of a log")))
}
