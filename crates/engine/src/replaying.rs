//! What a replay bundle holds of the gate: the key of a run, and the tool that a recorded call was made of.

use toolgate_contracts::{Fault, RunId, TenantId};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::calls::CallRecord;

use crate::engine::Engine;

impl Engine {
    /// The key from which the ids of a run's calls are made, in base64. It says nothing of the tenant's own key, and who
    /// has it can do no more than confirm what was asked in this one run.
    pub async fn key_of_run(&self, tenant: TenantId, run: RunId) -> Result<String, Fault> {
        Ok(self.run_key(tenant, run).await?.to_base64().to_string())
    }

    /// The version that a recorded call was made of, if it is still there.
    pub fn tool_of(&self, tenant: TenantId, record: &CallRecord) -> Option<ResolvedTool> {
        self.version_of(tenant, record)
    }
}
