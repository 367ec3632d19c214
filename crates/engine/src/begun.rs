//! A run that was begun before: whoever sends the same under the same key is answered with that run.
//!
//! The keys are those of calls, in a room of their own: one key for a call and for a run are two.

use serde_json::Value;
use toolgate_contracts::{CallId, Caller, Fault, RunId, TenantId, json};
use toolgate_store::Change;
use toolgate_store::calls::RequestKey;

use crate::engine::Engine;
use crate::identify::{asking, check_request_id};

/// The rule that is broken where somebody was faster with the same key.
const BEGUN_ALREADY: &str = "request_ids_pkey";

impl Engine {
    /// A caller's key for a run that they begin by `body`.
    pub fn key_to_begin(caller: &Caller, request_id: String, body: &Value) -> Result<RequestKey, Fault> {
        check_request_id(&request_id)?;
        Ok(RequestKey { who: format!("run {}", asking(caller)), request_id, body: json::digest(body) })
    }

    /// The run that was begun under this key within a day.
    async fn begun_before(&self, tenant: TenantId, key: &RequestKey) -> Result<Option<RunId>, Fault> {
        let Some((run, body)) = self.store.answered_request(tenant, key, self.clock.now()).await? else {
            return Ok(None);
        };
        if body != key.body {
            return Err(crate::repeat::another_body(key));
        }
        Ok(Some(RunId::from_uuid(run.uuid())))
    }

    /// Begins a run once for one key: who sends the same again gets the run that was begun. `begin` remembers the key in the
    /// commit that begins the run.
    pub async fn begin_once<B>(
        &self,
        tenant: TenantId,
        key: Option<RequestKey>,
        begin: impl FnOnce(Option<RequestKey>) -> B,
    ) -> Result<RunId, Fault>
    where
        B: Future<Output = Result<RunId, Fault>>,
    {
        let Some(key) = key else { return begin(None).await };
        if let Some(run) = self.begun_before(tenant, &key).await? {
            return Ok(run);
        }
        match begin(Some(key.clone())).await {
            // The same request was a moment faster.
            Err(fault) if fault.broken_rule() == Some(BEGUN_ALREADY) => {
                self.begun_before(tenant, &key).await?.ok_or(fault)
            }
            begun => begun,
        }
    }

    /// With the commit that begins it. A taken key breaks the rule [`BEGUN_ALREADY`].
    pub fn remember_begun(&self, change: &mut Change, key: &RequestKey, run: RunId) {
        change.remember_request(key, CallId::from_uuid(run.uuid()), self.clock.now());
    }
}
