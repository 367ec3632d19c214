//! What is kept of large payloads beside the files that hold them.

use toolgate_contracts::definition::Label;
use toolgate_contracts::{BlobId, CallId, Digest, TenantId, Timestamp};

use crate::change::Change;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

#[derive(Clone, Debug)]
pub struct Blob {
    pub id: BlobId,
    /// Whose readers may read it.
    pub call: Option<CallId>,
    pub sha256: Digest,
    pub content_type: String,
    pub bytes: u64,
    pub location: String,
    pub labels: Vec<Label>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

const COLUMNS: &str =
    "id, call_id, sha256, content_type, size_bytes, location, labels, created_by, created_at, expires_at";

impl Change {
    pub fn insert_blob(&mut self, blob: &Blob) -> &mut Self {
        let Blob { id, call, sha256, content_type, bytes, location, labels, created_by, created_at, expires_at } = blob;
        self.then(
            "INSERT INTO blobs (tenant_id, id, call_id, sha256, content_type, size_bytes, location, labels, created_by, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            [
                (*id).into(),
                (*call).into(),
                (*sha256).into(),
                content_type.into(),
                i64::try_from(*bytes).unwrap_or(i64::MAX).into(),
                location.into(),
                serde_json::to_string(labels).unwrap_or_default().into(),
                created_by.into(),
                (*created_at).into(),
                (*expires_at).into(),
            ],
        )
    }

    pub fn delete_blob(&mut self, id: BlobId) -> &mut Self {
        self.then("DELETE FROM blobs WHERE tenant_id = $1 AND id = $2", [id.into()])
    }
}

impl Store {
    pub async fn blob(&self, tenant: TenantId, id: BlobId) -> Result<Option<Blob>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM blobs WHERE tenant_id = $1 AND id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(|row| blob(row, 0)).transpose()
    }

    /// Blobs whose time is over, whoever's, and those whose call is gone.
    pub async fn expired_blobs(&self, now: Timestamp) -> Result<Vec<(TenantId, Blob)>, Error> {
        let sql = format!(
            "SELECT tenant_id, {COLUMNS} FROM blobs WHERE expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT 100"
        );
        let rows = self.query(&Scope::Everyone("what has expired, whoever's"), &sql, vec![now.into()]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, blob(row, 1)?))).collect()
    }
}

fn blob(row: &Row, first: usize) -> Result<Blob, Error> {
    let bytes: i64 = row.get(first + 4)?;
    Ok(Blob {
        id: row.get(first)?,
        call: row.get(first + 1)?,
        sha256: row.get(first + 2)?,
        content_type: row.get(first + 3)?,
        bytes: u64::try_from(bytes).unwrap_or_default(),
        location: row.get(first + 5)?,
        labels: row.json(first + 6)?,
        created_by: row.get(first + 7)?,
        created_at: row.get(first + 8)?,
        expires_at: row.get(first + 9)?,
    })
}
