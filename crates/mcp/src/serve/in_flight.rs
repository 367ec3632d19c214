//! Which call an older client's request became, so that the client can take it back. In memory of the replica that runs
//! it: a word that arrives elsewhere is lost, as the protocol allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use toolgate_contracts::CallId;

use super::{Client, Surface};
use crate::wire::Id;

type Key = (Arc<str>, Id);

#[derive(Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, CallId>>>);

impl InFlight {
    /// Until it is dropped.
    pub fn note(&self, client: &Client, id: &Id, call: CallId) -> Option<Noted> {
        let key = (client.session.clone()?, id.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), call);
        Some(Noted { all: self.clone(), key })
    }
}

pub(super) struct Noted {
    all: InFlight,
    key: Key,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl Surface {
    /// A client takes back a request that runs. One that waits for a person goes on waiting: clients give up sooner than
    /// people decide, and come back.
    pub fn give_up(&self, client: &Client, params: &Map<String, Value>) {
        let Some(id) = params.get("requestId").and_then(Id::of) else { return };
        let Some(session) = client.session.clone() else { return };
        let found = self.0.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(session, id)).copied();
        let Some(call) = found else { return };
        let (engine, caller) = (self.engine.clone(), client.caller.clone());
        tokio::spawn(async move {
            if let Err(fault) = engine.cancel(&caller, &call.to_string()).await {
                tracing::debug!(%call, "not cancelled: {}", fault.told());
            }
        });
    }
}
