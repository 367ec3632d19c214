//! Clients that want to hear of changes: `subscriptions/listen`, and the older GET stream. What is told is that a list
//! changed; the list itself is asked for with the rights that the caller then has.
//!
//! INVARIANT: a stream ends when whoever opened it may not have it any more. It is asked again while it is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_contracts::{Caller, Digest, Fault, FaultKind};

use super::session::holder;
use super::{Client, Narrowed, Stream, Surface};
use crate::wire::{Notification, Request, RpcError, SUBSCRIPTION_ID};

/// How soon a change is heard of.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often rights are asked for again.
pub(super) const RECHECK_EVERY: Duration = Duration::from_secs(5);
/// Open at once for one program of one person. Clients open one; some forget to close them.
const STREAMS_MAX: usize = 100;

/// Asks again who a caller is and what they came for, with the rights that they have now.
pub type Again = Arc<dyn Fn() -> BoxFuture<'static, Result<(Caller, Narrowed), Fault>> + Send + Sync>;

/// What somebody listens for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub tools: bool,
    pub prompts: bool,
}

impl Heard {
    pub const ALL: Self = Self { tools: true, prompts: true };

    fn of(params: &Map<String, Value>) -> Result<Self, RpcError> {
        let wanted = params.get("notifications").and_then(Value::as_object);
        let wanted = wanted.ok_or_else(|| RpcError::invalid_params("`notifications` is needed, an object"))?;
        let is = |name: &str| wanted.get(name) == Some(&Value::Bool(true));
        Ok(Self { tools: is("toolsListChanged"), prompts: is("promptsListChanged") })
    }

    fn acknowledged(self) -> Value {
        let mut honoured = Map::new();
        for (heard, name) in [(self.tools, "toolsListChanged"), (self.prompts, "promptsListChanged")] {
            if heard {
                honoured.insert(name.into(), true.into());
            }
        }
        Value::Object(honoured)
    }
}

/// The streams that are open on this replica, by whose they are.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

/// Counts as open until it is dropped.
pub struct OpenStream {
    all: Streams,
    holder: String,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.holder);
            }
        }
    }
}

impl Streams {
    fn open(&self, caller: &Caller, most: usize) -> Result<OpenStream, Fault> {
        let holder = holder(caller);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(holder.clone()).or_default();
        if *count >= most {
            let told = format!("{most} streams are open already for this key or person, which is the limit");
            return Err(Fault::new(FaultKind::RateLimited, told, "close one; a client needs one to hear of changes"));
        }
        *count += 1;
        Ok(OpenStream { all: self.clone(), holder })
    }
}

impl Surface {
    /// Counts a stream of this caller, or refuses it.
    pub fn open_stream(&self, caller: &Caller) -> Result<OpenStream, Fault> {
        self.0.streams.open(caller, STREAMS_MAX)
    }

    /// Listens until nobody hears any more: first which changes are told, then each of them.
    pub async fn listen(
        &self,
        client: &Client,
        request: &Request,
        stream: &Stream,
        again: &Again,
    ) -> Result<Value, RpcError> {
        if let Some(through) = &client.narrowed.through {
            return Box::pin(self.listen_through(client, through, request, stream, again)).await;
        }
        let heard = Heard::of(&request.params)?;
        let _open = self.open_stream(&client.caller)?;
        let about = json!({SUBSCRIPTION_ID: request.id.to_value()});
        let params = json!({"notifications": heard.acknowledged(), "_meta": about});
        let params = params.as_object().cloned().unwrap_or_default();
        stream.notify(Notification::new("notifications/subscriptions/acknowledged", params)).await;
        self.tell_changes(client.clone(), heard, stream, &about, again).await;
        Ok(json!({"resultType": "complete", "_meta": about}))
    }

    /// Tells of changes as long as somebody is there who may hear of them.
    pub async fn tell_changes(&self, mut client: Client, heard: Heard, stream: &Stream, about: &Value, again: &Again) {
        if let (Some(through), Heard::ALL) = (&client.narrowed.through, heard) {
            return Box::pin(self.tell_through(&client, through, stream, again)).await;
        }
        let mut revision = self.registry.snapshot().revision;
        let mut known = self.seen(&client, heard);
        let mut asked = Instant::now();
        while stream.is_open() {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut changed = self.registry.snapshot().revision != revision;
            if asked.elapsed() >= RECHECK_EVERY {
                asked = Instant::now();
                match again().await {
                    // The name means another thing now.
                    Ok((_, narrowed)) if narrowed.through != client.narrowed.through => return,
                    Ok((caller, narrowed)) => {
                        changed |= caller.permissions != client.caller.permissions;
                        client = Client {
                            caller,
                            narrowed: Narrowed { by_search: client.narrowed.by_search, ..narrowed },
                            ..client
                        };
                    }
                    // Nobody was refused: it cannot be asked now.
                    Err(fault) if matches!(fault.kind(), FaultKind::Unavailable | FaultKind::Internal) => {}
                    Err(fault) => {
                        tracing::debug!("a stream ends: {}", fault.told());
                        return;
                    }
                }
            }
            if !changed {
                continue;
            }
            revision = self.registry.snapshot().revision;
            let seen = self.seen(&client, heard);
            for (index, method) in [(0, "notifications/tools/list_changed"), (1, "notifications/prompts/list_changed")]
            {
                if seen.get(index) != known.get(index) {
                    let mut params = Map::new();
                    if about.as_object().is_some_and(|members| !members.is_empty()) {
                        params.insert("_meta".into(), about.clone());
                    }
                    stream.notify(Notification::new(method, params)).await;
                }
            }
            known = seen;
        }
    }

    /// What this caller's lists say, in short: tools, prompts.
    fn seen(&self, client: &Client, heard: Heard) -> [Option<Digest>; 2] {
        [heard.tools.then(|| self.digest_of_tools(client)).flatten(), heard.prompts.then(|| self.all_prompts(client))]
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::caller::Credential;
    use toolgate_contracts::{KeyId, Permissions, Principal, TenantId};

    use super::*;

    fn caller(key: u128) -> Caller {
        Caller {
            tenant: TenantId::SYSTEM,
            tenant_slug: "default".parse().unwrap(),
            principal: Principal::Local(1),
            display_name: String::new(),
            permissions: Permissions::default(),
            roles: Arc::new([]),
            agent: None,
            credential: Credential::ApiKey(KeyId::from_uuid(uuid::Uuid::from_u128(key))),
            token: None,
        }
    }

    #[test]
    fn a_program_has_so_many_streams_and_another_has_its_own() {
        let streams = Streams::default();
        let mut open: Vec<OpenStream> = (0..3).map(|_| streams.open(&caller(1), 3).unwrap()).collect();
        let refused = streams.open(&caller(1), 3).err().unwrap();
        assert!(refused.told().contains('3') && refused.kind() == FaultKind::RateLimited, "{}", refused.told());
        drop(streams.open(&caller(2), 3).unwrap());
        open.pop();
        drop(streams.open(&caller(1), 3).unwrap());
        open.clear();
        assert!(streams.0.lock().unwrap().is_empty());
    }
}
