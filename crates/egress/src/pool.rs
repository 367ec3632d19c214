//! Connections that wait for their next request, apart by tenant, address and revision of the openings.
//!
//! Whether a request may go out is judged before it comes here: a pooled connection saves a handshake, never a check.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolgate_contracts::TenantId;

use crate::target::Target;

pub(crate) const IDLE: Duration = Duration::from_secs(15);
/// At the bound whoever has the most of them gives up one, so that a busy place takes none from the others.
const IDLE_MAX: usize = 512;
/// As many as call one place at once; what comes back above it is closed.
const IDLE_PER_KEY_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub tenant: Option<TenantId>,
    pub target: Target,
    pub address: SocketAddr,
    pub revision: i64,
}

pub(crate) struct Connection {
    pub sender: SendRequest<Full<Bytes>>,
    pub driver: Driver,
    pub _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Whether the next request can go out on it. While it waited nobody drove it, so that it was closed is seen now.
    fn is_open(&mut self) -> bool {
        self.driver.poll(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready() && !self.sender.is_closed()
    }
}

/// What moves the bytes of a connection: driven by whoever waits for them, so that no other task is woken for each. None:
/// it has ended, and why is told to whoever waits for an answer.
pub(crate) struct Driver(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Driver {
    pub fn new(driving: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(driving)))
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if let Some(driving) = &mut self.0
            && driving.as_mut().poll(context).is_ready()
        {
            self.0 = None;
        }
    }

    /// Waits for what comes by its connection.
    pub async fn bring<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        poll_fn(|context| {
            // First it says what it wants, then that is fetched.
            if let Poll::Ready(brought) = wanted.as_mut().poll(context) {
                return Poll::Ready(brought);
            }
            self.poll(context);
            wanted.as_mut().poll(context)
        })
        .await
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Idle {
    fn is_over(&self) -> bool {
        self.since.elapsed() >= IDLE || self.connection.sender.is_closed()
    }
}

#[derive(Default)]
struct Shelf {
    /// Each in the order in which they came back. No list is empty.
    idle: HashMap<Key, VecDeque<Idle>>,
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
        shelf.see(key.revision);
        let waiting = shelf.idle.get_mut(key)?;
        let before = waiting.len();
        // What came back last is the likeliest to be open still.
        let found = std::iter::from_fn(|| waiting.pop_back())
            .find_map(|mut idle| (!idle.is_over() && idle.connection.is_open()).then_some(idle.connection));
        let left = waiting.len();
        shelf.count -= before - left;
        if left == 0 {
            shelf.idle.remove(key);
        }
        found
    }

    pub fn put(&self, key: Key, connection: Connection) {
        let mut shelf = self.shelf();
        shelf.see(key.revision);
        let own = shelf.idle.get(&key).map_or(0, VecDeque::len);
        if key.revision < shelf.revision || own >= IDLE_PER_KEY_MAX || !shelf.makes_room(own) {
            return;
        }
        shelf.idle.entry(key).or_default().push_back(Idle { connection, since: Instant::now() });
        shelf.count += 1;
        if !shelf.is_swept {
            shelf.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    /// Closes one that waits, for somebody who wants another.
    pub fn give_one_up(&self) {
        self.shelf().shorten(0);
    }
}

impl Shelf {
    fn see(&mut self, revision: i64) {
        if revision > self.revision {
            self.revision = revision;
            self.sweep();
        }
    }

    /// Looks at all of them: not for each request, but when what is open changed, at the bound, and every now and then.
    fn sweep(&mut self) {
        let newest = self.revision;
        self.idle.retain(|key, waiting| {
            waiting.retain(|idle| key.revision >= newest && !idle.is_over());
            !waiting.is_empty()
        });
        self.count = self.idle.values().map(VecDeque::len).sum();
    }

    /// Whether there is a place for one more, of somebody who has `own` already.
    fn makes_room(&mut self, own: usize) -> bool {
        if self.count >= IDLE_MAX {
            self.sweep();
        }
        self.count < IDLE_MAX || self.shorten(own)
    }

    /// Whoever has the most, and more than this, gives up the one that waits the longest.
    fn shorten(&mut self, more_than: usize) -> bool {
        let longest = self.idle.iter().max_by_key(|(_, waiting)| waiting.len());
        let Some(key) = longest.filter(|(_, waiting)| waiting.len() > more_than).map(|(key, _)| key.clone()) else {
            return false;
        };
        if let Some(waiting) = self.idle.get_mut(&key) {
            waiting.pop_front();
            self.count -= 1;
            if waiting.is_empty() {
                self.idle.remove(&key);
            }
        }
        true
    }
}

/// Ends what waited too long, while anything waits.
async fn sweep(shelf: Weak<Mutex<Shelf>>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shelf) = shelf.upgrade() else { return };
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.sweep();
        if shelf.count == 0 {
            shelf.is_swept = false;
            return;
        }
    }
}
