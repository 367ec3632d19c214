//! Calls that were handed over to a run, which answers them when it ends: an agent's, or a workflow's.

use toolgate_contracts::{CallId, RunId, TenantId};

use crate::Store;
use crate::error::Error;
use crate::scope::Scope;

/// The run that a call was handed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    pub run: RunId,
    pub is_open: bool,
    /// The label context of whoever reads the answer.
    pub reader: Option<String>,
}

impl Store {
    /// The run that a call was handed to.
    pub async fn handed_over(&self, tenant: TenantId, call: CallId) -> Result<Option<HandedOver>, Error> {
        let sql = "SELECT run_id, is_open, reader FROM agent_runs WHERE tenant_id = $1 AND for_call = $2
            UNION ALL SELECT run_id, is_open, reader FROM workflow_runs WHERE tenant_id = $1 AND for_call = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![call.into()]).await?;
        let of = |row: &crate::Row| {
            Ok(HandedOver { run: row.get(0)?, is_open: row.get::<i64>(1)? != 0, reader: row.get(2)? })
        };
        rows.first().map(of).transpose()
    }
}
