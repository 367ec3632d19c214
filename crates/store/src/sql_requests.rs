//! What somebody asked for by SQL, and whom a role of the database stands for. PostgreSQL alone has the tables.

use toolgate_contracts::{CallId, Fault, TenantId, Timestamp, UserId};
use uuid::Uuid;

use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Kind, Row, Store};

/// A role of the database, and whom it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMapping {
    pub role: String,
    pub user: UserId,
    pub user_name: String,
    pub mapped_by: String,
    pub created_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Invoke,
    Complete,
    Approve,
    Reject,
}

impl std::str::FromStr for RequestKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "invoke" => Ok(Self::Invoke),
            "complete" => Ok(Self::Complete),
            "approve" => Ok(Self::Approve),
            "reject" => Ok(Self::Reject),
            _ => Err(()),
        }
    }
}

/// One request, as it waits.
#[derive(Clone, Debug)]
pub struct SqlRequest {
    pub tenant: TenantId,
    pub id: Uuid,
    pub role: String,
    pub user: UserId,
    pub kind: RequestKind,
    /// As PostgreSQL writes it down: JSON that others have to read with care.
    pub args: String,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlOutcome {
    Done(Option<CallId>),
    Refused(String),
}

impl Change {
    /// A role that stands for somebody already breaks the rule `sql_principals_role`.
    pub fn map_role(&mut self, role: &str, user: UserId, by: &str, now: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO sql_principals (tenant_id, db_role, user_id, mapped_by, created_at) VALUES ($1, $2, $3, $4, $5)",
            [role.into(), user.into(), by.into(), now.into()],
        )
    }

    pub fn unmap_role(&mut self, role: &str, unknown: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, unknown),
            "DELETE FROM sql_principals WHERE tenant_id = $1 AND db_role = $2",
            [role.into()],
        )
    }

    /// Whoever comes second, from another replica, changes nothing. What was sent is the call's from then on, or nobody's:
    /// of a refused request only ids stay.
    pub fn finish_sql_request(&mut self, id: Uuid, outcome: &SqlOutcome, now: Timestamp) -> &mut Self {
        let (state, call, error) = match outcome {
            SqlOutcome::Done(call) => ("done", *call, None),
            SqlOutcome::Refused(error) => ("refused", None, Some(error.as_str())),
        };
        self.then(
            "UPDATE sql_requests SET state = $3, call_id = $4, error = $5, done_at = $6,
                args = (args::jsonb - 'input' - 'output' - 'error' - 'reason')::text
             WHERE tenant_id = $1 AND id = $2 AND state = 'waiting'",
            [id.into(), state.into(), call.into(), error.into(), now.into()],
        )
    }
}

impl Store {
    pub async fn role_mappings(&self, tenant: TenantId) -> Result<Vec<RoleMapping>, Error> {
        let sql = "SELECT p.db_role, p.user_id, u.name, p.mapped_by, p.created_at FROM sql_principals p
            JOIN users u ON u.tenant_id = p.tenant_id AND u.id = p.user_id WHERE p.tenant_id = $1 ORDER BY p.db_role";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        let mapping = |row: &Row| {
            Ok(RoleMapping {
                role: row.get(0)?,
                user: row.get(1)?,
                user_name: row.get(2)?,
                mapped_by: row.get(3)?,
                created_at: row.get(4)?,
            })
        };
        rows.iter().map(mapping).collect()
    }

    /// What waits, in the order of asking; a role that stands for nobody any more has nothing waiting.
    pub async fn waiting_sql_requests(&self, limit: u32) -> Result<Vec<SqlRequest>, Error> {
        let sql = format!(
            "SELECT r.tenant_id, r.id, r.db_role, r.user_id, r.kind, r.args FROM sql_requests r
             WHERE r.state = 'waiting' ORDER BY r.place LIMIT {limit}"
        );
        let rows = self.query(&Scope::Everyone("whoever asked by SQL"), &sql, vec![]).await?;
        let request = |row: &Row| {
            Ok(SqlRequest {
                tenant: row.get(0)?,
                id: row.get(1)?,
                role: row.get(2)?,
                user: row.get(3)?,
                kind: row.parse(4)?,
                args: row.get(5)?,
            })
        };
        rows.iter().map(request).collect()
    }

    /// The call that a request to invoke became, if `id` is one's.
    pub async fn call_of_sql_request(&self, tenant: TenantId, id: Uuid) -> Result<Option<CallId>, Error> {
        let sql = "SELECT call_id FROM sql_requests WHERE tenant_id = $1 AND id = $2 AND kind = 'invoke' AND call_id IS NOT NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![id.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// Forgets requests that were finished before `moment`. What became a call is known by its request's id in the view
    /// for as long as the call is there. SQLite has none.
    pub async fn forget_sql_requests(&self, moment: Timestamp) -> Result<u64, Error> {
        if self.kind() != Kind::Postgres {
            return Ok(0);
        }
        let everyone = Scope::Everyone("requests that were finished long ago, whoever's");
        let sql = "SELECT DISTINCT r.tenant_id FROM sql_requests r WHERE r.state <> 'waiting' AND r.done_at <= $1
             AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant_id = r.tenant_id AND c.id = r.call_id)";
        let mut forgotten = 0;
        for row in &self.query(&everyone, sql, vec![moment.into()]).await? {
            let mut change = Change::new(row.get(0)?).durability(Durability::Process);
            change.then(
                "DELETE FROM sql_requests r WHERE r.tenant_id = $1 AND r.state <> 'waiting' AND r.done_at <= $2
                 AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant_id = $1 AND c.id = r.call_id)",
                [moment.into()],
            );
            forgotten += self.commit(change).await?.changed.first().copied().unwrap_or_default();
        }
        Ok(forgotten)
    }

    /// Whom the role stands for now; a request of one that was mapped anew is refused.
    pub async fn is_mapped(&self, tenant: TenantId, role: &str, user: UserId) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM sql_principals WHERE tenant_id = $1 AND db_role = $2 AND user_id = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![role.into(), user.into()]).await?;
        Ok(!rows.is_empty())
    }
}
