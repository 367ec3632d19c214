//! Connections that wait for their next request, apart by tenant, address and revision of the openings.
//!
//! Whether a request may go out is judged before it comes here: a pooled connection saves a handshake, never a check.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use toolgate_contracts::TenantId;

use crate::target::Target;

pub(crate) const IDLE: Duration = Duration::from_secs(15);
const IDLE_MAX: usize = 256;
const IDLE_PER_KEY_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub tenant: Option<TenantId>,
    pub target: Target,
    pub address: SocketAddr,
    pub revision: i64,
}

/// A connection and the task that drives it; dropped, both end.
pub(crate) struct Connection {
    pub sender: SendRequest<Full<Bytes>>,
    pub driver: AbortHandle,
    pub _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Default)]
struct Shelf {
    idle: HashMap<Key, Vec<Idle>>,
    count: usize,
    /// The newest revision seen: older connections are of no use any more.
    revision: i64,
    is_swept: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<Shelf>>);

impl Pool {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, key: &Key) -> Option<Connection> {
        let mut shelf = self.shelf();
        shelf.sweep(key.revision);
        let found = loop {
            let Some(idle) = shelf.idle.get_mut(key).and_then(Vec::pop) else { break None };
            shelf.count -= 1;
            if idle.connection.sender.is_ready() {
                break Some(idle.connection);
            }
        };
        shelf.idle.retain(|_, waiting| !waiting.is_empty());
        found
    }

    pub fn put(&self, key: Key, connection: Connection) {
        let mut shelf = self.shelf();
        shelf.sweep(key.revision);
        if shelf.count >= IDLE_MAX || key.revision < shelf.revision {
            return;
        }
        let waiting = shelf.idle.entry(key).or_default();
        if waiting.len() >= IDLE_PER_KEY_MAX {
            return;
        }
        waiting.push(Idle { connection, since: Instant::now() });
        shelf.count += 1;
        if !shelf.is_swept {
            shelf.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl Shelf {
    fn sweep(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
        let newest = self.revision;
        self.idle.retain(|key, waiting| {
            let is_current = key.revision >= newest;
            waiting.retain(|idle| is_current && idle.since.elapsed() < IDLE && !idle.connection.sender.is_closed());
            !waiting.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}

/// Ends what waited too long, while anything waits.
async fn sweep(shelf: Weak<Mutex<Shelf>>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shelf) = shelf.upgrade() else { return };
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = shelf.revision;
        shelf.sweep(revision);
        if shelf.count == 0 {
            shelf.is_swept = false;
            return;
        }
    }
}
