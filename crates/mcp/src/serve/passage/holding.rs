//! Calls that wait for an answer of the client that began them, between two of its requests.
//!
//! They run on this replica, so the answer has to come to it: what the client brings back names what waits here, sealed,
//! for this client and these arguments. It is good once. What nobody comes back for ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::{CallRequest, Digest, Fault, Timestamp, json as strict};

use super::calls::Passing;
use crate::serve::session::holder;
use crate::serve::stream::new_name;
use crate::serve::{Client, Surface};
use crate::way::Question;
use crate::wire::RpcError;

const HELD_FOR: Duration = Duration::from_mins(10);
const HELD_MAX: usize = 1000;
/// Of one caller.
const HELD_EACH_MAX: usize = 32;

/// A call, and what its server wants to know.
pub(in crate::serve) struct Held {
    pub passing: Passing,
    pub question: Question,
    /// What was answered of it so far.
    pub given: Map<String, Value>,
}

struct Entry {
    held: Held,
    holder: String,
}

#[derive(Clone, Default)]
pub(in crate::serve) struct Holding(Arc<Mutex<HashMap<String, Entry>>>);

impl Holding {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false`: too much is held. What is given up tells its server that nobody answers.
    fn keep(&self, name: String, holder: String, held: Held) -> bool {
        {
            let mut all = self.all();
            let of_holder = all.values().filter(|entry| entry.holder == holder).count();
            if all.len() >= HELD_MAX || of_holder >= HELD_EACH_MAX {
                return false;
            }
            all.insert(name.clone(), Entry { held, holder });
        }
        let holding = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(HELD_FOR).await;
            if let Some(all) = holding.upgrade() {
                let ended = all.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                drop(ended);
            }
        });
        true
    }

    fn take(&self, name: &str) -> Option<Held> {
        self.all().remove(name).map(|entry| entry.held)
    }
}

/// What a client brings back.
#[derive(Serialize, Deserialize)]
struct State {
    held: String,
    asked: Digest,
    until: Timestamp,
}

impl Surface {
    /// Puts a call aside until its client has answered, and says what is asked.
    pub(super) async fn hold(&self, client: &Client, call: &CallRequest, held: Held) -> Result<Value, RpcError> {
        let given = &held.given;
        let missing = held.question.requests.iter().filter(|(key, _)| !given.contains_key(*key));
        let missing: Map<String, Value> = missing.map(|(key, asked)| (key.clone(), asked.clone())).collect();
        let name = new_name(&self.clock, &self.rng);
        let lasts = i64::try_from(HELD_FOR.as_secs()).unwrap_or(i64::MAX);
        let state = State { held: name.clone(), asked: asked(call), until: self.clock.now().plus_seconds(lasts) };
        let bytes = serde_json::to_vec(&state).map_err(Fault::internal)?;
        let sealed = self.sealer().await?.seal(&context(client), &bytes);
        if !self.0.holding.keep(name, holder(&client.caller), held) {
            let told = "too many calls wait for answers of their clients; answer some, or call again later";
            return Err(RpcError::new(crate::wire::code::INTERNAL, told));
        }
        Ok(json!({"resultType": "input_required", "inputRequests": missing, "requestState": sealed}))
    }

    /// What was put aside for this client and call; `None`: the state is none of these.
    pub(super) async fn held(
        &self,
        client: &Client,
        call: &CallRequest,
        state: &Value,
    ) -> Result<Option<Held>, RpcError> {
        let Some(text) = state.as_str() else { return Ok(None) };
        let Some(bytes) = self.sealer().await?.open(&context(client), text) else { return Ok(None) };
        let gone = || {
            RpcError::invalid_params(
                "what `requestState` names does not wait here any more, or is of another call; call again without it",
            )
        };
        let State { held, asked: of, until } = serde_json::from_slice(&bytes).map_err(|_| gone())?;
        if until <= self.clock.now() || of != asked(call) {
            return Err(gone());
        }
        self.0.holding.take(&held).map(Some).ok_or_else(gone)
    }
}

fn asked(call: &CallRequest) -> Digest {
    strict::digest(&json!({"tool": call.tool, "input": call.input}))
}

fn context(client: &Client) -> String {
    format!("mcp-held/1 {}", holder(&client.caller))
}
