//! What rounds in the background take up, whoever's it is. A round goes on behind the last one it took and begins anew at
//! the end: what cannot be finished is looked at once in each, and holds nobody else up.

use toolgate_contracts::{ApprovalId, CallId, RunId, TenantId, Timestamp};

use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

/// Taken up at once. Fewer than this many: the round is at its end.
pub const DUE_MAX: u32 = 500;

/// An approval whose moment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueApproval {
    pub tenant: TenantId,
    pub id: ApprovalId,
    /// The moment: behind it and the id the round goes on.
    pub at: Timestamp,
}

/// Which moment of an approval has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Its time is over.
    Over,
    /// People are to be reminded of it.
    Reminder,
}

impl Store {
    /// Approvals that are due, behind `after` in the order of their moments.
    pub async fn due_approvals(
        &self,
        due: Due,
        now: Timestamp,
        after: Option<DueApproval>,
        limit: u32,
    ) -> Result<Vec<DueApproval>, Error> {
        let moment = match due {
            Due::Over => "expires_at",
            Due::Reminder => "remind_at",
        };
        let mut parameters: Vec<Value> = vec![now.into(), limit.into()];
        let mut behind = String::new();
        if let Some(DueApproval { at, id, .. }) = after {
            parameters.extend([at.into(), id.into()]);
            behind = format!("AND {moment} >= $3 AND ({moment} > $3 OR id > $4)");
        }
        // That the moment is there is said in words, so that the partial index is seen to fit.
        let sql = format!(
            "SELECT tenant_id, id, {moment} FROM approvals
             WHERE state = 'open' AND frozen_at IS NULL AND {moment} IS NOT NULL AND {moment} <= $1 {behind}
             ORDER BY {moment}, id LIMIT $2"
        );
        let rows = self.query(&Scope::Everyone("what is due, whoever's"), &sql, parameters).await?;
        rows.iter().map(|row| Ok(DueApproval { tenant: row.get(0)?, id: row.get(1)?, at: row.get(2)? })).collect()
    }

    /// Calls that were approved and that nobody has begun to run, behind `after`, oldest first.
    pub async fn approved_calls(&self, after: Option<CallId>, limit: u32) -> Result<Vec<(TenantId, CallId)>, Error> {
        let parameters: Vec<Value> = std::iter::once(limit.into()).chain(after.map(Value::from)).collect();
        let behind = if after.is_some() { "AND id > $2" } else { "" };
        let sql = format!("SELECT tenant_id, id FROM calls WHERE status = 'approved' {behind} ORDER BY id LIMIT $1");
        let rows = self.query(&Scope::Everyone("what is approved is anyone's to run"), &sql, parameters).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Calls of a run that wait for a person, or were approved and do not run yet.
    pub async fn parked_calls_of(&self, tenant: TenantId, run: RunId) -> Result<Vec<CallId>, Error> {
        let sql = "SELECT id FROM calls WHERE tenant_id = $1 AND run_id = $2 AND status IN ('pending', 'approved') ORDER BY id";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}
