//! Calls as whole records, page by page: for those who show them in another shape than ours.

use toolgate_contracts::{CallId, Caller, Fault, Status};
use toolgate_store::calls::{CallFilter, CallRecord};

use crate::engine::Engine;
use crate::read::of_agent;

impl Engine {
    /// Calls that the caller may read, behind `before`, newest first; of these `statuses`, or of all where none is named.
    pub async fn list_records(
        &self,
        caller: &Caller,
        filter: &CallFilter,
        statuses: &[Status],
        before: Option<CallId>,
        limit: u32,
    ) -> Result<Vec<CallRecord>, Fault> {
        let sight = self.sight(caller).await?;
        let Some(filter) = of_agent(caller, filter) else { return Ok(Vec::new()) };
        let wanted: Vec<Option<Status>> =
            if statuses.is_empty() { vec![None] } else { statuses.iter().copied().map(Some).collect() };
        let mut ids = Vec::new();
        for status in wanted {
            let filter = CallFilter { status, ..CallFilter::clone(&filter) };
            ids.extend(self.store.call_ids(caller.tenant, &sight, &filter, before, limit).await?);
        }
        ids.sort_unstable_by(|left, right| right.cmp(left));
        ids.truncate(limit as usize);
        let records = self.store.call_records(caller.tenant, &ids).await?;
        for record in &records {
            self.join_result(caller, record).await?;
        }
        Ok(records)
    }
}
