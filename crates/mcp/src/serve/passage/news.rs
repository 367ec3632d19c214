//! What a server behind the gate says of changes, told to the clients that came for it and want to hear it.
//!
//! An older client says resource by resource what it wants to hear of; that is kept in the memory of the replica that heard
//! it, as the protocol allows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use serde_json::{Map, Value, json};
use toolgate_engine::runner::UpstreamNews;

use super::Through;
use crate::runner::beside::{GET, READ};
use crate::serve::subscriptions::{Again, Heard, RECHECK_EVERY};
use crate::serve::{Client, Stream, Surface};
use crate::wire::{Notification, Request, RpcError, SUBSCRIPTION_ID};

/// Of all sessions of this replica together; whoever was not heard of the longest goes first.
const FOLLOWED_BYTES_MAX: u64 = 64 * 1024 * 1024;
const KEPT_FOR: Duration = Duration::from_hours(24);
/// Resources that one client hears of.
const FOLLOWED_MAX: usize = 200;
/// And the bytes of their addresses.
const OF_ONE_BYTES_MAX: usize = 128 * 1024;
/// What each takes beside its bytes.
const EACH_BYTES: usize = 128;
const URI_BYTES_MAX: usize = 8192;
/// How soon a server is listened to again that could not be, or whose link ended.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// How soon it is seen that an older client wants to hear of something else.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Uris = Arc<Mutex<BTreeSet<String>>>;

/// What older clients want to hear of.
pub(in crate::serve) struct Followed(Cache<Arc<str>, Uris>);

impl Default for Followed {
    fn default() -> Self {
        let weigher = |_: &Arc<str>, uris: &Uris| {
            let bytes = bytes_of(&uris.lock().unwrap_or_else(PoisonError::into_inner));
            u32::try_from(bytes + EACH_BYTES).unwrap_or(u32::MAX)
        };
        // Otherwise a newcomer would give way to what is looked at more often.
        let lru = moka::policy::EvictionPolicy::lru();
        let bounded = Cache::builder().weigher(weigher).max_capacity(FOLLOWED_BYTES_MAX).eviction_policy(lru);
        Self(bounded.time_to_idle(KEPT_FOR).build())
    }
}

/// What a client listens for at a server.
#[derive(Clone, Debug, Default)]
struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<String>,
}

impl Surface {
    pub(super) fn follow_resource(&self, client: &Client, uri: &str, on: bool) -> Result<Value, RpcError> {
        check(uri)?;
        let Some(session) = &client.session else {
            return Err(RpcError::invalid_params(
                "changes of resources are told in a session: begin with `initialize`",
            ));
        };
        let uris = self.0.followed.0.get_with(Arc::clone(session), Uris::default);
        {
            let mut uris = uris.lock().unwrap_or_else(PoisonError::into_inner);
            if !on {
                uris.remove(uri);
            } else if !uris.contains(uri) && !has_room(&uris, uri) {
                return Err(RpcError::invalid_params(format!(
                    "a session hears of at most {FOLLOWED_MAX} resources, whose addresses have {OF_ONE_BYTES_MAX} bytes together"
                )));
            } else {
                uris.insert(uri.to_owned());
            }
        }
        // Weighed anew.
        self.0.followed.0.insert(Arc::clone(session), uris);
        Ok(json!({}))
    }

    fn followed(&self, client: &Client) -> BTreeSet<String> {
        let uris = client.session.as_ref().and_then(|session| self.0.followed.0.get(session));
        uris.map(|uris| uris.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// `subscriptions/listen` at a server.
    pub(in crate::serve) async fn listen_through(
        &self,
        client: &Client,
        through: &Through,
        request: &Request,
        stream: &Stream,
        again: &Again,
    ) -> Result<Value, RpcError> {
        let asked = request.params.get("notifications").and_then(Value::as_object);
        let asked = asked.ok_or_else(|| RpcError::invalid_params("`notifications` is needed, an object"))?;
        let is = |name: &str| asked.get(name) == Some(&Value::Bool(true));
        let (reads, gets) = (self.has(client, through, READ), self.has(client, through, GET));
        let mut uris = BTreeSet::new();
        for uri in asked.get("resourceSubscriptions").and_then(Value::as_array).into_iter().flatten() {
            let uri =
                uri.as_str().ok_or_else(|| RpcError::invalid_params("`resourceSubscriptions` is a list of texts"))?;
            check(uri)?;
            if reads && has_room(&uris, uri) {
                uris.insert(uri.to_owned());
            }
        }
        let wanted = Wanted {
            tools: is("toolsListChanged"),
            prompts: gets && is("promptsListChanged"),
            resources: reads && is("resourcesListChanged"),
            uris,
        };
        let _open = self.open_stream(&client.caller)?;
        // Looked at before it is acknowledged, too: from then on it is heard by this connection.
        let connection = self.connection(client, through).await;
        let about = json!({SUBSCRIPTION_ID: request.id.to_value()});
        // Listened to before it is acknowledged: what changes from then on is told.
        let news = self.news_of(client, through, &wanted.uris).await;
        let params = json!({"notifications": wanted.acknowledged(), "_meta": about});
        let params = params.as_object().cloned().unwrap_or_default();
        stream.notify(Notification::new("notifications/subscriptions/acknowledged", params)).await;
        self.tell_of(client, through, wanted, (connection, news), stream, &about, again).await;
        Ok(json!({"resultType": "complete", "_meta": about}))
    }

    /// The stream of an older client at a server.
    pub(in crate::serve) async fn tell_through(
        &self,
        client: &Client,
        through: &Through,
        stream: &Stream,
        again: &Again,
    ) {
        let wanted = Wanted { tools: true, prompts: true, resources: true, uris: self.followed(client) };
        let connection = self.connection(client, through).await;
        let news = self.news_of(client, through, &wanted.uris).await;
        self.tell_of(client, through, wanted, (connection, news), stream, &Value::Null, again).await;
    }

    #[expect(clippy::too_many_arguments, reason = "who hears what, where, and until when")]
    async fn tell_of(
        &self,
        client: &Client,
        through: &Through,
        wanted: Wanted,
        (connection, news): (Option<String>, Option<News>),
        stream: &Stream,
        about: &Value,
        again: &Again,
    ) {
        // What is accepted of its tools changes here, and rights end here.
        let here = Heard { tools: wanted.tools, prompts: false };
        let here = Box::pin(self.tell_changes(client.clone(), here, stream, about, again));
        tokio::select! {
            () = here => {}
            () = self.until_disconnected(client, through, connection) => {}
            () = self.tell_news(client, through, wanted, news, stream, about) => {}
        }
    }

    /// Until the connection is gone that there was: what was open by its tokens is over, here and at every replica, also
    /// where somebody connected anew meanwhile.
    async fn until_disconnected(&self, client: &Client, through: &Through, mut before: Option<String>) {
        loop {
            tokio::time::sleep(RECHECK_EVERY).await;
            let asking = self.engine.upstream_connection(through.owner, &through.name, client.caller.principal);
            match asking.await {
                Ok(now) if before.is_none() => before = now,
                Ok(now) if now != before => return,
                // It is gone itself, which is noticed with the rights; or it cannot be asked now.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The connection by which a client hears a server, if it can be known.
    async fn connection(&self, client: &Client, through: &Through) -> Option<String> {
        let asking = self.engine.upstream_connection(through.owner, &through.name, client.caller.principal);
        asking.await.ok().flatten()
    }

    async fn news_of(&self, client: &Client, through: &Through, uris: &BTreeSet<String>) -> Option<News> {
        let uris = uris.iter().cloned().collect();
        let hearing = self.engine.hear_upstream(through.owner, &through.name, client.caller.principal, uris);
        match tokio::time::timeout(super::ASKED_WITHIN, hearing).await {
            Ok(Ok(news)) => Some(news),
            Ok(Err(fault)) => {
                tracing::debug!(upstream = %through.name, "a server is not listened to: {}", fault.told());
                None
            }
            Err(_) => None,
        }
    }

    async fn tell_news(
        &self,
        client: &Client,
        through: &Through,
        mut wanted: Wanted,
        mut news: Option<News>,
        stream: &Stream,
        about: &Value,
    ) {
        let older = !client.revision.is_stateless();
        loop {
            let Some(hearing) = &mut news else {
                tokio::time::sleep(AGAIN_AFTER).await;
                news = self.news_of(client, through, &wanted.uris).await;
                continue;
            };
            let heard = tokio::select! {
                heard = hearing.recv() => heard,
                () = tokio::time::sleep(LOOK_EVERY), if older => {
                    let uris = self.followed(client);
                    if uris != wanted.uris {
                        wanted.uris = uris;
                        news = self.news_of(client, through, &wanted.uris).await;
                    }
                    continue;
                }
            };
            let Some(heard) = heard else {
                news = None;
                continue;
            };
            let mut params = Map::new();
            if about.is_object() {
                params.insert("_meta".into(), about.clone());
            }
            // What the caller has may have changed since it began to listen.
            let prompts = || wanted.prompts && self.shows(client, through, GET);
            let resources = || self.shows(client, through, READ);
            let method = match heard {
                UpstreamNews::Tools if wanted.tools => "notifications/tools/list_changed",
                UpstreamNews::Prompts if prompts() => "notifications/prompts/list_changed",
                UpstreamNews::Resources if wanted.resources && resources() => "notifications/resources/list_changed",
                UpstreamNews::Resource(uri) if wanted.uris.contains(&uri) && resources() => {
                    params.insert("uri".into(), uri.into());
                    "notifications/resources/updated"
                }
                _ => continue,
            };
            stream.notify(Notification::new(method, params)).await;
        }
    }
}

fn bytes_of(uris: &BTreeSet<String>) -> usize {
    uris.iter().map(|uri| uri.len() + EACH_BYTES).sum()
}

fn has_room(uris: &BTreeSet<String>, uri: &str) -> bool {
    uris.len() < FOLLOWED_MAX && bytes_of(uris) + uri.len() + EACH_BYTES <= OF_ONE_BYTES_MAX
}

type News = tokio::sync::mpsc::Receiver<UpstreamNews>;

impl Wanted {
    fn acknowledged(&self) -> Value {
        let Self { tools, prompts, resources, uris } = self;
        let mut honoured = Map::new();
        for (heard, name) in
            [(tools, "toolsListChanged"), (prompts, "promptsListChanged"), (resources, "resourcesListChanged")]
        {
            if *heard {
                honoured.insert(name.into(), true.into());
            }
        }
        if !uris.is_empty() {
            honoured.insert("resourceSubscriptions".into(), json!(uris));
        }
        Value::Object(honoured)
    }
}

fn check(uri: &str) -> Result<(), RpcError> {
    if uri.is_empty() || uri.len() > URI_BYTES_MAX {
        return Err(RpcError::invalid_params(format!("an address of a resource has 1 to {URI_BYTES_MAX} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_client_hears_of_is_bounded_in_number_and_in_bytes() {
        let fill = |bytes: usize| {
            let mut uris = BTreeSet::new();
            loop {
                let uri = format!("{:0>bytes$}", uris.len());
                if !has_room(&uris, &uri) {
                    return (uris.len(), bytes_of(&uris));
                }
                uris.insert(uri);
            }
        };
        assert_eq!(fill(20).0, FOLLOWED_MAX);
        let (count, bytes) = fill(URI_BYTES_MAX);
        assert!(
            count < FOLLOWED_MAX && bytes <= OF_ONE_BYTES_MAX && bytes + URI_BYTES_MAX + EACH_BYTES > OF_ONE_BYTES_MAX
        );
    }

    #[test]
    fn all_clients_together_are_bounded_in_bytes() {
        let followed = Followed::default();
        for session in 0..2000 {
            let uris: BTreeSet<String> = (0..15).map(|at| format!("{at:0>8192}")).collect();
            followed.0.insert(Arc::from(session.to_string()), Arc::new(Mutex::new(uris)));
        }
        followed.0.run_pending_tasks();
        assert!(followed.0.weighted_size() <= FOLLOWED_BYTES_MAX && followed.0.entry_count() < 1000);
    }
}
