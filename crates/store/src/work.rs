//! Calls in somebody else's hands: offered, leased to one worker at a time, and lost when the worker falls silent.

use toolgate_contracts::{CallId, Fault, LeaseId, Principal, TenantId, Timestamp, ToolId};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

/// A call that a worker holds, or that waits for one.
#[derive(Clone, Debug)]
pub struct Work {
    pub tenant: TenantId,
    pub call: CallId,
    pub lease: Option<LeaseId>,
    pub worker: Option<Principal>,
    pub expires_at: Timestamp,
}

impl Change {
    /// Offers a call to workers until `expires_at`, or leaves it in the hands of one.
    pub fn offer_work(
        &mut self,
        call: CallId,
        tool: ToolId,
        lease: Option<(LeaseId, Principal)>,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> &mut Self {
        let (lease, worker) = lease.map_or((None, None), |(lease, worker)| (Some(lease), Some(worker.to_string())));
        self.then(
            "INSERT INTO work (tenant_id, call_id, tool_id, lease_id, worker, expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [call.into(), tool.into(), lease.into(), worker.into(), expires_at.into(), now.into()],
        )
    }

    /// Takes the oldest waiting call of a tool; without one nothing is returned.
    pub fn lease_work(
        &mut self,
        tool: ToolId,
        lease: LeaseId,
        worker: Principal,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> &mut Self {
        let values: [Value; 5] = [tool.into(), lease.into(), worker.to_string().into(), expires_at.into(), now.into()];
        self.then(
            "UPDATE work SET lease_id = $3, worker = $4, expires_at = $5
             WHERE tenant_id = $1 AND lease_id IS NULL AND call_id = (SELECT w.call_id FROM work w
                WHERE w.tenant_id = $1 AND w.tool_id = $2 AND w.lease_id IS NULL AND w.expires_at > $6 ORDER BY w.call_id LIMIT 1)
             RETURNING call_id",
            values,
        )
    }

    /// Keeps a lease alive; a lost one, or another's, is refused with `lost`.
    pub fn keep_lease(
        &mut self,
        lease: LeaseId,
        worker: Principal,
        until: Timestamp,
        now: Timestamp,
        lost: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE work SET expires_at = $4 WHERE tenant_id = $1 AND lease_id = $2 AND worker = $3 AND expires_at > $5",
            [lease.into(), worker.to_string().into(), until.into(), now.into()],
        )
    }

    /// Ends a lease for good: with it goes the right to report.
    pub fn end_lease(&mut self, lease: LeaseId, worker: Principal, now: Timestamp, lost: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "DELETE FROM work WHERE tenant_id = $1 AND lease_id = $2 AND worker = $3 AND expires_at > $4",
            [lease.into(), worker.to_string().into(), now.into()],
        )
    }

    /// Takes back a call that nobody has leased; one that was taken meanwhile is refused with `taken`.
    pub fn withdraw_work(&mut self, call: CallId, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "DELETE FROM work WHERE tenant_id = $1 AND call_id = $2 AND lease_id IS NULL",
            [call.into()],
        )
    }

    /// The call has ended here: whoever looks for it finds nothing any more.
    pub fn forget_work(&mut self, call: CallId) -> &mut Self {
        self.then("DELETE FROM work WHERE tenant_id = $1 AND call_id = $2", [call.into()])
    }

    /// Gives up a call whose time ran out; one that was kept alive meanwhile is refused with `kept`.
    pub fn expire_work(&mut self, call: CallId, now: Timestamp, kept: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, kept),
            "DELETE FROM work WHERE tenant_id = $1 AND call_id = $2 AND expires_at <= $3",
            [call.into(), now.into()],
        )
    }
}

impl Store {
    pub async fn expired_work(&self, now: Timestamp) -> Result<Vec<Work>, Error> {
        let sql = "SELECT tenant_id, call_id, lease_id, worker, expires_at FROM work WHERE expires_at <= $1 ORDER BY expires_at LIMIT 500";
        let scope = Scope::Everyone("work that ran out of time, whoever's");
        let rows = self.query(&scope, sql, vec![now.into()]).await?;
        rows.iter()
            .map(|row| {
                let worker: Option<String> = row.get(3)?;
                Ok(Work {
                    tenant: row.get(0)?,
                    call: row.get(1)?,
                    lease: row.get(2)?,
                    worker: worker.and_then(|worker| worker.parse().ok()),
                    expires_at: row.get(4)?,
                })
            })
            .collect()
    }

    /// Whether a call is offered and nobody has taken it.
    pub async fn awaits_worker(&self, tenant: TenantId, call: CallId) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM work WHERE tenant_id = $1 AND call_id = $2 AND lease_id IS NULL";
        Ok(!self.query(&Scope::Tenant(tenant), sql, vec![call.into()]).await?.is_empty())
    }

    /// Which call a lease is about.
    pub async fn leased(&self, tenant: TenantId, lease: LeaseId, worker: Principal) -> Result<Option<CallId>, Error> {
        let sql = "SELECT call_id FROM work WHERE tenant_id = $1 AND lease_id = $2 AND worker = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![lease.into(), worker.to_string().into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }
}
