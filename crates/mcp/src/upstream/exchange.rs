//! What happens around one request while it is under way: who hears its progress, who answers what the server asks
//! meanwhile, how long it may take, and how it goes out.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_egress::{Connector, Effect, EgressError, Request, Response, Way};
use zeroize::Zeroizing;

use crate::wire::{Notification, RpcError};

/// How requests leave. Whoever makes one judges where they may go, adds what is secret and short-lived (a bearer token),
/// and notes which openings were used.
pub trait Outlet: Send + Sync {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>>;

    /// What it added in secret so far, for whoever tells what came back.
    fn bore(&self) -> Vec<Zeroizing<String>> {
        Vec::new()
    }
}

/// The connector by one way, nothing added and nothing noted.
pub struct Direct {
    pub connector: Connector,
    pub way: Way,
}

impl Outlet for Direct {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(self.connector.send(&self.way, request))
    }
}

/// What a server of the older revisions asks while it works: `elicitation/create`, `sampling/createMessage`,
/// `roots/list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub method: String,
    pub params: Map<String, Value>,
}

pub trait Asker: Send + Sync {
    /// An answer or a refusal. Dropped when nobody waits for it any more.
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Result<Value, RpcError>>;
}

#[derive(Clone)]
pub struct Exchange {
    /// For everything, the wait for a place on the link included.
    pub timeout: Duration,
    pub cancel: CancellationToken,
    /// A read may be sent again if a kept connection turns out to be closed; a write goes out on a new one.
    pub effect: Effect,
    /// Progress under the caller's own token, and logs. What does not fit is left out: nobody here waits for a reader.
    pub heard: Option<mpsc::Sender<Notification>>,
    /// Without one, whatever is asked is refused.
    pub asker: Option<Arc<dyn Asker>>,
    /// Of this request, where the revision declares them with each; otherwise what the link declares.
    pub capabilities: Option<Map<String, Value>>,
    /// From which level on logs are wanted, where the revision says so with each request.
    pub log_level: Option<String>,
    /// The arguments that the tool's schema wants repeated in headers: [`crate::wire::annotated`].
    pub annotated: Vec<(String, String)>,
    /// Otherwise the link's own.
    pub outlet: Option<Arc<dyn Outlet>>,
}

impl Exchange {
    pub fn within(timeout: Duration) -> Self {
        Self {
            timeout,
            cancel: CancellationToken::new(),
            effect: Effect::Write,
            heard: None,
            asker: None,
            capabilities: None,
            log_level: None,
            annotated: Vec::new(),
            outlet: None,
        }
    }
}
