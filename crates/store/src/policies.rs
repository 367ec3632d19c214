//! A tenant's policies: every revision whole and for ever, and which one decides.

use serde::Serialize;
use toolgate_contracts::{Fault, TenantId, Timestamp};
use utoipa::ToSchema;

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// A revision without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyRevision {
    pub revision: i64,
    pub note: Option<String>,
    pub uses_log_only: bool,
    pub saved_by: String,
    pub created_at: Timestamp,
    /// Last; a revision may be activated again.
    pub activated_by: Option<String>,
    pub activated_at: Option<Timestamp>,
}

impl Change {
    /// Returned is the revision it got; who saves at the same time gets the next one or is refused, and tries again.
    pub fn insert_policy(
        &mut self,
        source: &str,
        note: Option<&str>,
        log_only: bool,
        by: &str,
        at: Timestamp,
    ) -> &mut Self {
        self.then(
            "INSERT INTO policies (tenant_id, revision, source, note, uses_log_only, saved_by, created_at)
             SELECT $1, coalesce(max(p.revision), 0) + 1, $2, $3, $4, $5, CAST($6 AS bigint) FROM policies p WHERE p.tenant_id = $1
             RETURNING revision",
            [source.into(), note.map(str::to_owned).into(), log_only.into(), by.into(), at.into()],
        )
    }

    /// Lets a revision decide; `moved` tells whoever looked at another one that decides by now.
    pub fn activate_policy(&mut self, revision: i64, before: i64, by: &str, at: Timestamp, moved: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, moved),
            "UPDATE tenants SET policy_revision = $2 WHERE id = $1 AND policy_revision = $3",
            [revision.into(), before.into()],
        );
        self.then(
            "UPDATE policies SET activated_by = $3, activated_at = $4 WHERE tenant_id = $1 AND revision = $2",
            [revision.into(), by.into(), at.into()],
        )
    }
}

const COLUMNS: &str = "revision, note, uses_log_only, saved_by, created_at, activated_by, activated_at";

impl Store {
    /// Revisions, newest first, before this one.
    pub async fn policy_revisions(
        &self,
        tenant: TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<PolicyRevision>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM policies WHERE tenant_id = $1 AND (revision < $2 OR $3) ORDER BY revision DESC LIMIT $4"
        );
        let parameters = vec![before.into(), before.is_none().into(), limit.into()];
        self.query(&Scope::Tenant(tenant), &sql, parameters).await?.iter().map(revision).collect()
    }

    /// One revision with its text.
    pub async fn policy(&self, tenant: TenantId, number: i64) -> Result<Option<(PolicyRevision, String)>, Error> {
        let sql = format!("SELECT {COLUMNS}, source FROM policies WHERE tenant_id = $1 AND revision = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![number.into()]).await?;
        rows.first().map(|row| Ok((revision(row)?, row.get(7)?))).transpose()
    }
}

fn revision(row: &Row) -> Result<PolicyRevision, Error> {
    Ok(PolicyRevision {
        revision: row.get(0)?,
        note: row.get(1)?,
        uses_log_only: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
        activated_by: row.get(5)?,
        activated_at: row.get(6)?,
    })
}
