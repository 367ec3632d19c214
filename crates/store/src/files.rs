//! What was changed in the operator's files, by which call: each change is here before it is in the file.

use toolgate_contracts::{CallId, Digest, Fault, TenantId, Timestamp};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// How many changes of an entry keep the file as it was before them; older ones keep the difference alone.
pub const EARLIER_KEPT_MAX: u32 = 100;

/// A change that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFileChange<'a> {
    pub call: CallId,
    pub entry: &'a str,
    pub operation: &'a str,
    pub reverts: Option<CallId>,
    pub changed_by: &'a str,
    pub before: Digest,
    pub after: Digest,
    pub difference: &'a str,
    /// The file as it was.
    pub earlier: &'a str,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub call: CallId,
    pub entry: String,
    pub operation: String,
    pub reverts: Option<CallId>,
    pub changed_by: String,
    pub before: Digest,
    pub after: Digest,
    pub difference: String,
    /// `begun`, `done` or `failed`.
    pub state: String,
    pub created_at: Timestamp,
}

const COLUMNS: &str =
    "call_id, entry, operation, reverts, changed_by, before_digest, after_digest, difference, state, created_at";

impl Store {
    /// Notes a change before the file is touched.
    pub async fn begin_file_change(&self, tenant: TenantId, new: &NewFileChange<'_>) -> Result<(), Error> {
        let NewFileChange {
            call,
            entry,
            operation,
            reverts,
            changed_by,
            before,
            after,
            difference,
            earlier,
            created_at,
        } = new;
        let mut change = Change::new(tenant);
        change
            .then(
                "INSERT INTO file_changes (tenant_id, call_id, entry, operation, reverts, changed_by, before_digest,
                    after_digest, difference, earlier, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                [
                    (*call).into(),
                    (*entry).into(),
                    (*operation).into(),
                    (*reverts).into(),
                    (*changed_by).into(),
                    (*before).into(),
                    (*after).into(),
                    (*difference).into(),
                    earlier.as_bytes().to_vec().into(),
                    (*created_at).into(),
                ],
            )
            .then(
                "UPDATE file_changes SET earlier = NULL WHERE tenant_id = $1 AND entry = $2 AND earlier IS NOT NULL
                    AND call_id NOT IN (SELECT call_id FROM file_changes WHERE tenant_id = $1 AND entry = $2
                        ORDER BY created_at DESC, call_id DESC LIMIT $3)",
                [(*entry).into(), EARLIER_KEPT_MAX.into()],
            );
        self.commit(change).await.map(drop)
    }

    /// Notes how a change ended that was begun.
    pub async fn end_file_change(&self, tenant: TenantId, call: CallId, done: bool) -> Result<(), Error> {
        let mut change = Change::new(tenant);
        change.expecting(
            Expect::Rows(1, Fault::not_found("change", call)),
            "UPDATE file_changes SET state = $3 WHERE tenant_id = $1 AND call_id = $2 AND state = 'begun'",
            [call.into(), (if done { "done" } else { "failed" }).into()],
        );
        self.commit(change).await.map(drop)
    }

    /// The newest changes of an entry, newest first.
    pub async fn file_changes(&self, tenant: TenantId, entry: &str, limit: u32) -> Result<Vec<FileChange>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file_changes WHERE tenant_id = $1 AND entry = $2
                ORDER BY created_at DESC, call_id DESC LIMIT $3"
        );
        let values = vec![entry.into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), &sql, values).await?;
        rows.iter().map(file_change).collect()
    }

    /// One change and, while it is kept, the file as it was before.
    pub async fn file_change(
        &self,
        tenant: TenantId,
        call: CallId,
    ) -> Result<Option<(FileChange, Option<String>)>, Error> {
        let sql = format!("SELECT {COLUMNS}, earlier FROM file_changes WHERE tenant_id = $1 AND call_id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![call.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let earlier: Option<Vec<u8>> = row.get(10)?;
        let corrupt = |_| Error::Corrupt(format!("the file before the change {call} is no text"));
        let earlier = earlier.map(String::from_utf8).transpose().map_err(corrupt)?;
        Ok(Some((file_change(row)?, earlier)))
    }
}

fn file_change(row: &Row) -> Result<FileChange, Error> {
    Ok(FileChange {
        call: row.get(0)?,
        entry: row.get(1)?,
        operation: row.get(2)?,
        reverts: row.get(3)?,
        changed_by: row.get(4)?,
        before: row.get(5)?,
        after: row.get(6)?,
        difference: row.get(7)?,
        state: row.get(8)?,
        created_at: row.get(9)?,
    })
}
