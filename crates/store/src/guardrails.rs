//! A tenant's guardrails and the operator's word on labels: what the catalog reads, as it is written; and how often people
//! were asked, and why.
//!
//! Deliberately absent: reading guardrails and acceptances. They are read with the catalog, so that they and the rest of a
//! snapshot are of one time.

use toolgate_contracts::guardrail::Guardrail;
use toolgate_contracts::{AcceptanceId, ApprovalId, AskReason, CallId, Fault, Slug, TenantId, Timestamp, ToolId};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

impl Change {
    /// Creates the guardrail of that name, or replaces it.
    pub fn put_guardrail(&mut self, guardrail: &Guardrail, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO guardrails (tenant_id, name, spec, saved_by, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant_id, name) DO UPDATE SET spec = excluded.spec, saved_by = excluded.saved_by,
                updated_at = excluded.updated_at",
            [guardrail.name.as_str().into(), json_text(guardrail), by.into(), at.into()],
        )
    }

    pub fn delete_guardrail(&mut self, name: &Slug) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("guardrail", name)),
            "DELETE FROM guardrails WHERE tenant_id = $1 AND name = $2",
            [name.as_str().into()],
        )
    }

    /// `spec` is the acceptance as JSON.
    pub fn insert_acceptance(&mut self, id: AcceptanceId, spec: &str, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO label_acceptances (tenant_id, id, spec, saved_by, created_at) VALUES ($1, $2, $3, $4, $5)",
            [id.into(), spec.into(), by.into(), at.into()],
        )
    }

    pub fn delete_acceptance(&mut self, id: AcceptanceId) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("acceptance", id)),
            "DELETE FROM label_acceptances WHERE tenant_id = $1 AND id = $2",
            [id.into()],
        )
    }
}

/// One time that people were asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub id: ApprovalId,
    pub call: CallId,
    pub tool: ToolId,
    pub reasons: Vec<AskReason>,
}

impl Store {
    /// When and why people were asked, newest first, before this one.
    pub async fn asked(
        &self,
        tenant: TenantId,
        since: Timestamp,
        before: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<Asked>, Error> {
        let sql = "SELECT id, call_id, tool_id, reasons FROM approvals
            WHERE tenant_id = $1 AND created_at >= $2 AND (id < $3 OR $4) ORDER BY id DESC LIMIT $5";
        let parameters = vec![since.into(), before.into(), before.is_none().into(), limit.into()];
        self.query(&Scope::Tenant(tenant), sql, parameters).await?.iter().map(asked).collect()
    }
}

fn asked(row: &Row) -> Result<Asked, Error> {
    Ok(Asked { id: row.get(0)?, call: row.get(1)?, tool: row.get(2)?, reasons: row.json(3)? })
}
