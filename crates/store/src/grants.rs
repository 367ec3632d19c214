//! Grants: what a decision gives. One for a call is spent once, in the commit that begins the call; a standing one is used
//! until its uses or its time run out.

use serde_json::Value as Json;
use toolgate_contracts::{
    CallId, Digest, Fault, GrantId, Page, Principal, TenantId, Timestamp, ToolId, UserId, WorkspaceId,
};

use crate::change::{Change, Expect};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

/// A grant as it is kept. One for a call is spent once; a standing one until its uses or its time run out.
#[derive(Clone, Debug)]
pub struct Grant {
    pub id: GrantId,
    pub call: Option<CallId>,
    pub tool: ToolId,
    /// Of whose calls it holds for; absent: of no workspace.
    pub workspace: Option<WorkspaceId>,
    pub binding: Json,
    pub binding_digest: Digest,
    pub issued_by: String,
    pub reason: Option<String>,
    pub expires_at: Timestamp,
    pub spent_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub revoked_by: Option<String>,
    pub uses: u32,
    pub uses_max: u32,
    pub created_at: Timestamp,
}

/// A call that begins to run after it waited.
#[derive(Clone, Debug)]
pub struct Started {
    pub at: Timestamp,
    pub holder: Option<String>,
    pub decision: String,
    pub reserved: Option<String>,
    pub secrets: Option<String>,
}

const COLUMNS: &str =
    "id, call_id, tool_id, workspace_id, binding, binding_digest, issued_by, reason, expires_at, spent_at, revoked_at,
    revoked_by, uses, uses_max, created_at";

impl Change {
    pub fn insert_grant(&mut self, grant: &Grant) -> &mut Self {
        let Grant {
            id,
            call,
            tool,
            workspace,
            binding,
            binding_digest,
            issued_by,
            reason,
            expires_at,
            spent_at: _,
            revoked_at: _,
            revoked_by: _,
            uses: _,
            uses_max,
            created_at,
        } = grant;
        self.then(
            "INSERT INTO grants (tenant_id, id, call_id, tool_id, workspace_id, binding, binding_digest, issued_by, reason,
                expires_at, uses_max, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            [
                (*id).into(),
                (*call).into(),
                (*tool).into(),
                (*workspace).into(),
                binding.to_string().into(),
                (*binding_digest).into(),
                issued_by.into(),
                reason.clone().into(),
                (*expires_at).into(),
                (*uses_max).into(),
                (*created_at).into(),
            ],
        )
    }

    /// Spends a call's grant and begins to run it, in one breath: once, in its time, for exactly what it is bound to.
    pub fn spend_grant(
        &mut self,
        grant: GrantId,
        call: CallId,
        digest: Digest,
        started: &Started,
        refused: Fault,
    ) -> &mut Self {
        let Started { at, holder, decision, reserved, secrets } = started;
        self.expecting(
            Expect::Rows(1, refused.clone()),
            "UPDATE grants SET spent_at = $5, uses = 1 WHERE tenant_id = $1 AND id = $2 AND call_id = $3 AND binding_digest = $4
                AND spent_at IS NULL AND revoked_at IS NULL AND expires_at > $5",
            [grant.into(), call.into(), digest.into(), (*at).into()],
        );
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE calls SET status = 'running', started_at = $4, holder = $5, grant_id = $3, decision = $6, reserved = $7,
                secrets = $8
             WHERE tenant_id = $1 AND id = $2 AND status = 'approved'",
            [
                call.into(),
                grant.into(),
                (*at).into(),
                holder.clone().into(),
                decision.into(),
                reserved.clone().into(),
                secrets.clone().into(),
            ],
        )
    }

    /// One use of a standing grant.
    pub fn use_grant(&mut self, grant: GrantId, at: Timestamp, refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE grants SET uses = uses + 1 WHERE tenant_id = $1 AND id = $2 AND call_id IS NULL AND revoked_at IS NULL
                AND expires_at > $3 AND uses < uses_max",
            [grant.into(), at.into()],
        )
    }

    pub fn revoke_grant(&mut self, grant: GrantId, by: &str, at: Timestamp, refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, refused),
            "UPDATE grants SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL
                AND spent_at IS NULL",
            [grant.into(), at.into(), by.into()],
        )
    }

    /// Whatever was granted for a call does not hold any more.
    pub fn void_grants(&mut self, call: CallId, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE grants SET revoked_at = $3, revoked_by = $4
             WHERE tenant_id = $1 AND call_id = $2 AND revoked_at IS NULL AND spent_at IS NULL",
            [call.into(), at.into(), by.into()],
        )
    }
}

impl Store {
    /// The grant of a call that still holds, if there is one.
    pub async fn grant_of(&self, tenant: TenantId, call: CallId) -> Result<Option<Grant>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM grants WHERE tenant_id = $1 AND call_id = $2 AND revoked_at IS NULL ORDER BY id DESC LIMIT 1"
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![call.into()]).await?;
        rows.first().map(grant).transpose()
    }

    /// Standing grants of a tool that may still be used.
    pub async fn standing_grants_of(
        &self,
        tenant: TenantId,
        tool: ToolId,
        now: Timestamp,
    ) -> Result<Vec<Grant>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM grants WHERE tenant_id = $1 AND tool_id = $2 AND call_id IS NULL AND revoked_at IS NULL
                AND expires_at > $3 AND uses < uses_max ORDER BY id LIMIT 100"
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![tool.into(), now.into()]).await?;
        rows.iter().map(grant).collect()
    }

    pub async fn grant(&self, tenant: TenantId, id: GrantId) -> Result<Option<Grant>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM grants WHERE tenant_id = $1 AND id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(grant).transpose()
    }

    /// Standing grants, newest first, with those that have run out: all of them, or those that a member sees, which are
    /// of no workspace, of one of theirs, or their own.
    pub async fn standing_grants(
        &self,
        tenant: TenantId,
        member: Option<UserId>,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Grant>, Fault> {
        let filter = member.map(|user| user.to_string()).unwrap_or_default();
        let list = ListOf { tenant, list: "grants", filter: &filter };
        let before = cursor.map(|cursor| list.key(cursor)).transpose()?.and_then(|key| key.parse::<GrantId>().ok());
        let mut parameters: Vec<Value> = vec![before.into(), before.is_none().into()];
        let mut seen = "";
        if let Some(user) = member {
            parameters.extend([user.into(), Principal::User(user).to_string().into()]);
            seen = "AND (g.workspace_id IS NULL OR g.issued_by = $5 OR g.workspace_id IN
                (SELECT m.workspace_id FROM workspace_members m WHERE m.tenant_id = $1 AND m.user_id = $4))";
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM grants g WHERE g.tenant_id = $1 AND g.call_id IS NULL AND (g.id < $2 OR $3) {seen}
             ORDER BY g.id DESC LIMIT {}",
            limit + 1
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut items = rows.iter().map(grant).collect::<Result<Vec<_>, Error>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }
}

fn grant(row: &Row) -> Result<Grant, Error> {
    Ok(Grant {
        id: row.get(0)?,
        call: row.get(1)?,
        tool: row.get(2)?,
        workspace: row.get(3)?,
        binding: row.json(4)?,
        binding_digest: row.get(5)?,
        issued_by: row.get(6)?,
        reason: row.get(7)?,
        expires_at: row.get(8)?,
        spent_at: row.get(9)?,
        revoked_at: row.get(10)?,
        revoked_by: row.get(11)?,
        uses: row.get(12)?,
        uses_max: row.get(13)?,
        created_at: row.get(14)?,
    })
}
