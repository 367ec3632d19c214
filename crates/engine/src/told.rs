//! A retry that carries no key. A caller that was told "pending" sends the same tool and the same arguments again, and is
//! answered with what came of the first one: once, within a day; what it sends after that is a call of its own.

use toolgate_contracts::caller::Credential;
use toolgate_contracts::{CallId, CallRequest, Caller, Fault, Status};
use toolgate_store::calls::RequestKey;
use toolgate_store::{Change, Durability};

use crate::engine::Engine;
use crate::identify::{asking, body_digest};

impl Engine {
    /// The call about which this caller was told "pending" when it sent the same before.
    pub async fn told_before(&self, caller: &Caller, request: &CallRequest) -> Result<Option<CallId>, Fault> {
        let (tenant, now) = (caller.tenant, self.clock.now());
        // Nearly nobody was told anything, and every call asks: it is believed for a moment.
        let place = (tenant, who(caller));
        let any = if let Some(any) = self.told.get(&place) {
            any
        } else {
            let any = self.store.has_requests(tenant, &place.1, now).await?;
            self.told.insert(place, any);
            any
        };
        if !any {
            return Ok(None);
        }
        let key = key_of(caller, request);
        let Some((call, _)) = self.store.answered_request(tenant, &key, now).await? else { return Ok(None) };
        let Some(record) = self.store.call(tenant, call).await? else { return Ok(None) };
        // The key is this caller's, so the call is: no further right is needed to hear of it.
        if record.status == Status::Cancelled {
            // Nothing came of it: it may be asked for again.
            self.forget_told(caller, request, call).await?;
            return Ok(None);
        }
        Ok(Some(call))
    }

    /// Before its caller is told "pending".
    pub async fn remember_told(&self, caller: &Caller, request: &CallRequest, call: CallId) -> Result<(), Fault> {
        let key = key_of(caller, request);
        let mut change = Change::new(caller.tenant);
        change.replace_request(&key, call, self.clock.now());
        self.store.commit(change).await?;
        self.told.insert((caller.tenant, key.who), true);
        Ok(())
    }

    /// Before whoever was told already is told it again. What was handed over meanwhile stays so.
    pub async fn remember_still(&self, caller: &Caller, request: &CallRequest, call: CallId) -> Result<(), Fault> {
        let mut change = Change::new(caller.tenant);
        change.extend_request(&key_of(caller, request), call, self.clock.now());
        self.store.commit(change).await?;
        Ok(())
    }

    /// The right to hand over the result of a call that its caller was told of: to one, once, whichever replica is asked
    /// and whatever was restarted. `false`: it was handed over, or nothing came of the call and it was given up.
    pub async fn take_told(&self, caller: &Caller, request: &CallRequest, call: CallId) -> Result<bool, Fault> {
        let mut change = Change::new(caller.tenant);
        change.forget_request(&key_of(caller, request), call);
        let outcome = self.store.commit(change).await?;
        Ok(outcome.changed.first().is_some_and(|rows| *rows > 0))
    }

    /// Before its result is handed over.
    pub async fn forget_told(&self, caller: &Caller, request: &CallRequest, call: CallId) -> Result<(), Fault> {
        let mut change = Change::new(caller.tenant).durability(Durability::Process);
        change.forget_request(&key_of(caller, request), call);
        self.store.commit(change).await?;
        Ok(())
    }
}

/// Apart from the keys that callers choose themselves: nobody's own begins so. Two programs of one person do not hear of
/// each other's calls; a short-lived token is another one each time, and is known by whose it is.
fn who(caller: &Caller) -> String {
    match caller.credential {
        Credential::ApiKey(key) => format!("told {} key:{key}", asking(caller)),
        _ => format!("told {}", asking(caller)),
    }
}

fn key_of(caller: &Caller, request: &CallRequest) -> RequestKey {
    let body = body_digest(&CallRequest { metadata: None, ..request.clone() });
    RequestKey { who: who(caller), request_id: body.to_string(), body }
}
