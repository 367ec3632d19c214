//! All links of this server: opened when they are wanted, shared by who may share them, closed when nobody does.
//!
//! A link is opened apart from whoever wanted it, so that one who gives up takes nothing from the others, and each server
//! apart from the others, so that a slow one delays nobody else. Invariant: links are shared within one key only, and a
//! key names the tenant, the server and whose credentials it is spoken to with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use toolgate_contracts::{Clock, TenantId};
use toolgate_egress::Sent;
use toolgate_sandbox::Spawner;

use super::error::LinkError;
use super::exchange::{Exchange, Outlet};
use super::handshake::Found;
use super::health::{Health, Pulse, Rests};
use super::line::Means;
use super::link::Link;
use super::place::Upstream;
use super::stdio::Held;
use crate::wire::Revision;

/// Servers that are known here, open or not.
const ENTRIES_MAX: usize = 10_000;
/// How long something of a server is remembered that nobody asks for.
const REMEMBERED: Duration = Duration::from_hours(1);
/// How long a place is waited for that another link was closed for.
const FREED: Duration = Duration::from_secs(10);
const CLOSED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub tenant: TenantId,
    pub upstream: String,
    /// Whose they are; none: the server's own, which all of the tenant share.
    pub credentials: Option<String>,
}

#[derive(Clone)]
pub struct Settings {
    pub clock: Clock,
    pub spawner: Option<Spawner>,
    pub processes_max: usize,
    pub connections_max: usize,
    pub links_per_tenant_max: usize,
    /// An unused link is closed after this.
    pub idle: Duration,
    pub rests: Rests,
}

impl Settings {
    pub fn new(clock: Clock, spawner: Option<Spawner>) -> Self {
        Self {
            clock,
            spawner,
            processes_max: 64,
            connections_max: 512,
            links_per_tenant_max: 256,
            idle: Duration::from_mins(10),
            rests: Rests::default(),
        }
    }
}

impl Settings {
    /// What one tenant may have of the processes or connections: three quarters of them, so that there are some for another.
    /// Fewer than four are not divided.
    fn share(&self, is_process: bool) -> (&'static str, usize) {
        let of = |max: usize| (max / 4 * 3 + max % 4).max(1);
        if is_process {
            ("processes of one tenant's servers", of(self.processes_max))
        } else {
            ("connections to one tenant's servers", of(self.connections_max))
        }
    }
}

/// How it stands with one server.
#[derive(Clone, Debug)]
pub struct Standing {
    pub key: Key,
    pub health: Health,
    /// Of an open link.
    pub found: Option<Arc<Found>>,
    pub under_way: usize,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Upstreams(Arc<Inner>);

struct Inner {
    settings: Settings,
    shelf: Mutex<Shelf>,
    processes: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

#[derive(Default)]
struct Shelf {
    entries: HashMap<Key, Entry>,
    is_swept: bool,
}

struct Entry {
    /// As it was configured the last time: how another one did says nothing about this one.
    upstream: Arc<Upstream>,
    pulse: Arc<Pulse>,
    state: State,
    /// What it spoke the last time.
    known: Option<Revision>,
    used: Instant,
}

type Opened = Result<Arc<Link>, LinkError>;

enum State {
    Shut,
    Opening { opened: watch::Receiver<Option<Opened>> },
    Open(Arc<Link>),
}

impl Upstreams {
    pub fn new(settings: Settings) -> Self {
        let processes = Arc::new(Semaphore::new(settings.processes_max));
        let connections = Arc::new(Semaphore::new(settings.connections_max));
        Self(Arc::new(Inner { settings, shelf: Mutex::default(), processes, connections }))
    }

    /// The link to a server: the open one, or a new one where there is none, or where the server is configured
    /// differently now.
    pub async fn link(&self, key: &Key, upstream: &Arc<Upstream>, outlet: &Arc<dyn Outlet>) -> Opened {
        let mut opened = match self.find(key, upstream, outlet)? {
            Wanted::Link(link) => return Ok(link),
            Wanted::Opening(opened) => opened,
        };
        let gone = || LinkError::Closed { why: "it was closed while it was opened".to_owned(), sent: Sent::No };
        let found = opened.wait_for(Option::is_some).await.map_err(|_| gone())?;
        found.clone().unwrap_or_else(|| Err(gone()))
    }

    /// A request on the link to a server; sent again, once, where a link had ended and nothing had gone out.
    pub async fn request(
        &self,
        key: &Key,
        upstream: &Arc<Upstream>,
        outlet: &Arc<dyn Outlet>,
        method: &str,
        params: Map<String, Value>,
        exchange: Exchange,
    ) -> Result<Value, LinkError> {
        let began = Instant::now();
        let late = |sent| LinkError::Timeout { after: exchange.timeout, sent };
        let mut again = Some(params.clone());
        let mut params = params;
        loop {
            let left = exchange.timeout.saturating_sub(began.elapsed());
            let link = tokio::select! {
                link = tokio::time::timeout(left, self.link(key, upstream, outlet)) => link.map_err(|_| late(Sent::No))??,
                () = exchange.cancel.cancelled() => return Err(LinkError::Cancelled { sent: Sent::No }),
            };
            let left = exchange.timeout.saturating_sub(began.elapsed());
            let asked = link.request(method, params, Exchange { timeout: left, ..exchange.clone() }).await;
            match (&asked, again.take()) {
                (Err(LinkError::Closed { sent: Sent::No, .. }), Some(same)) => params = same,
                (Err(LinkError::Timeout { sent, .. }), _) => return Err(late(*sent)),
                _ => return asked,
            }
        }
    }

    fn find(&self, key: &Key, upstream: &Arc<Upstream>, outlet: &Arc<dyn Outlet>) -> Result<Wanted, LinkError> {
        let mut shelf = self.0.shelf();
        let Settings { clock, rests, links_per_tenant_max, .. } = &self.0.settings;
        let pulse = || Arc::new(Pulse::new(clock.clone(), *rests));
        if !shelf.entries.contains_key(key) {
            if shelf.entries.len() >= ENTRIES_MAX {
                return Err(LinkError::Full { what: "servers", max: ENTRIES_MAX });
            }
            let (upstream, used) = (Arc::clone(upstream), Instant::now());
            let entry = Entry { upstream, pulse: pulse(), state: State::Shut, known: None, used };
            shelf.entries.insert(key.clone(), entry);
        }
        let Some(entry) = shelf.entries.get_mut(key) else {
            return Err(LinkError::Full { what: "servers", max: ENTRIES_MAX });
        };
        if same(&entry.upstream, upstream) {
            // The next comparison is of one value with itself.
            entry.upstream = Arc::clone(upstream);
        } else {
            // Whoever still uses the old one does so to its end.
            *entry = Entry {
                upstream: Arc::clone(upstream),
                pulse: pulse(),
                state: State::Shut,
                known: None,
                used: Instant::now(),
            };
        }
        match &entry.state {
            State::Open(link) if link.ended().is_none() => {
                entry.pulse.admit()?;
                entry.used = Instant::now();
                return Ok(Wanted::Link(Arc::clone(link)));
            }
            State::Opening { opened } => return Ok(Wanted::Opening(opened.clone())),
            State::Open(_) | State::Shut => {}
        }
        entry.pulse.admit()?;
        entry.state = State::Shut;
        let is_process = upstream.place.is_process();
        let mut given_up = Vec::new();
        for (what, max, of_kind) in [
            ("links of one tenant", *links_per_tenant_max, None),
            (self.0.settings.share(is_process).0, self.0.settings.share(is_process).1, Some(is_process)),
        ] {
            let is_meant = |of: &Key, of_upstream: &Upstream| {
                of.tenant == key.tenant && of_kind.is_none_or(|kind| of_upstream.place.is_process() == kind)
            };
            let alive = shelf.entries.iter().filter(|(of, entry)| is_meant(of, &entry.upstream) && entry.is_alive());
            if alive.count() >= max {
                match shelf.longest_unused(|of, link| is_meant(of, link.upstream())) {
                    Some(unused) => given_up.extend(shelf.shut(&unused)),
                    None => return Err(LinkError::Full { what, max }),
                }
            }
        }
        let (tell, opened) = watch::channel(None);
        if let Some(entry) = shelf.entries.get_mut(key) {
            entry.used = Instant::now();
            entry.state = State::Opening { opened: opened.clone() };
            let opening = Opening {
                pool: Arc::downgrade(&self.0),
                key: key.clone(),
                upstream: Arc::clone(upstream),
                means: Means { spawner: self.0.settings.spawner.clone(), outlet: Arc::clone(outlet) },
                known: entry.known,
                pulse: Arc::clone(&entry.pulse),
                mine: opened.clone(),
                given_up,
            };
            tokio::spawn(opening.open(tell));
        }
        if !std::mem::replace(&mut shelf.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0), self.0.settings.idle));
        }
        Ok(Wanted::Opening(opened))
    }

    pub fn standing(&self, key: &Key) -> Option<Standing> {
        self.0.shelf().entries.get(key).map(|entry| entry.standing(key))
    }

    pub fn standings(&self, tenant: TenantId) -> Vec<Standing> {
        let shelf = self.0.shelf();
        let of_tenant = shelf.entries.iter().filter(|(key, _)| key.tenant == tenant);
        of_tenant.map(|(key, entry)| entry.standing(key)).collect()
    }

    /// Links that are open or being opened.
    pub fn open_count(&self) -> usize {
        self.0.shelf().entries.values().filter(|entry| entry.is_alive()).count()
    }

    /// Closes those links to a server that no call uses, whosever credentials they have, and forgets what is known of it: who
    /// comes next opens a new one. Whoever listens there hears no more, at once.
    pub async fn forget(&self, is_it: impl Fn(&Key) -> bool) {
        let links: Vec<Arc<Link>> = {
            let mut shelf = self.0.shelf();
            let keys: Vec<Key> = shelf.entries.keys().filter(|key| is_it(key)).cloned().collect();
            let links: Vec<Arc<Link>> = keys.iter().filter_map(|key| shelf.shut(key)).collect();
            for link in &links {
                link.retire();
            }
            // A call that is under way goes on to its end; with the last of them the link closes.
            let links = links.into_iter().filter(|link| !link.is_busy()).collect();
            shelf.entries.retain(|key, _| !is_it(key));
            links
        };
        close(links).await;
    }

    /// Closes everything. Who asks for a link afterwards opens one again.
    pub async fn close(&self) {
        let links: Vec<Arc<Link>> = {
            let mut shelf = self.0.shelf();
            let keys: Vec<Key> = shelf.entries.keys().cloned().collect();
            keys.iter().filter_map(|key| shelf.shut(key)).collect()
        };
        close(links).await;
    }
}

async fn close(links: Vec<Arc<Link>>) {
    let closing = join_all(links.iter().map(|link| link.close()));
    let _ = tokio::time::timeout(CLOSED_WITHIN, closing).await;
}

enum Wanted {
    Link(Arc<Link>),
    Opening(watch::Receiver<Option<Opened>>),
}

fn same(left: &Arc<Upstream>, right: &Arc<Upstream>) -> bool {
    Arc::ptr_eq(left, right) || left == right
}

impl Inner {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among the processes or the connections. If there is none, the link that was unused the longest gives up
    /// its own.
    async fn place(&self, is_process: bool) -> Result<OwnedSemaphorePermit, LinkError> {
        let Settings { processes_max, connections_max, .. } = self.settings;
        let (places, what, max) = if is_process {
            (&self.processes, "processes of servers", processes_max)
        } else {
            (&self.connections, "connections to servers", connections_max)
        };
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        let unused = {
            let mut shelf = self.shelf();
            let unused = shelf.longest_unused(|_, link| link.upstream().place.is_process() == is_process);
            unused.and_then(|key| shelf.shut(&key))
        };
        let full = LinkError::Full { what, max };
        let Some(unused) = unused else { return Err(full) };
        unused.close().await;
        drop(unused);
        match tokio::time::timeout(FREED, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(full),
        }
    }
}

impl Shelf {
    /// Of the links that nobody uses.
    fn longest_unused(&self, is_meant: impl Fn(&Key, &Link) -> bool) -> Option<Key> {
        let unused = self.entries.iter().filter_map(|(key, entry)| match &entry.state {
            State::Open(link) if entry.is_unused() && is_meant(key, link) => Some((entry.used, key)),
            _ => None,
        });
        unused.min_by_key(|(used, _)| *used).map(|(_, key)| key.clone())
    }

    fn shut(&mut self, key: &Key) -> Option<Arc<Link>> {
        match std::mem::replace(&mut self.entries.get_mut(key)?.state, State::Shut) {
            State::Open(link) => Some(link),
            State::Shut | State::Opening { .. } => None,
        }
    }
}

impl Entry {
    fn is_alive(&self) -> bool {
        match &self.state {
            State::Open(link) => link.ended().is_none(),
            State::Opening { .. } => true,
            State::Shut => false,
        }
    }

    /// Whether only the shelf holds its link.
    fn is_unused(&self) -> bool {
        matches!(&self.state, State::Open(link) if Arc::strong_count(link) == 1 && link.under_way() == 0)
    }

    fn standing(&self, key: &Key) -> Standing {
        let mut standing = Standing { key: key.clone(), health: self.pulse.health(), found: None, under_way: 0 };
        if let State::Open(link) = &self.state
            && link.ended().is_none()
        {
            standing.found = Some(link.found());
            standing.under_way = link.under_way();
            standing.health.complaint = link.tail().or(standing.health.complaint);
        }
        standing
    }
}

struct Opening {
    pool: Weak<Inner>,
    key: Key,
    upstream: Arc<Upstream>,
    means: Means,
    known: Option<Revision>,
    pulse: Arc<Pulse>,
    /// Tells this opening from another of the same key.
    mine: watch::Receiver<Option<Opened>>,
    /// Links whose places it takes.
    given_up: Vec<Arc<Link>>,
}

impl Opening {
    async fn open(mut self, tell: watch::Sender<Option<Opened>>) {
        close(std::mem::take(&mut self.given_up)).await;
        let opened = self.opened().await;
        if let Some(pool) = self.pool.upgrade() {
            let mut shelf = pool.shelf();
            let entry = shelf.entries.get_mut(&self.key);
            let is_mine = |state: &State| matches!(state, State::Opening { opened } if opened.same_channel(&self.mine));
            if let Some(entry) = entry.filter(|entry| is_mine(&entry.state)) {
                entry.used = Instant::now();
                entry.known = opened.as_ref().ok().map(|link| link.found().revision);
                entry.state = opened.as_ref().map_or(State::Shut, |link| State::Open(Arc::clone(link)));
            }
        }
        let _ = tell.send(Some(opened));
    }

    async fn opened(&self) -> Opened {
        let began = Instant::now();
        let gone = || LinkError::Closed { why: "the server is stopping".to_owned(), sent: Sent::No };
        let place = {
            let pool = self.pool.upgrade().ok_or_else(gone)?;
            pool.place(self.upstream.place.is_process()).await?
        };
        let held = Held::new(place, Arc::clone(&self.pulse));
        let link = Link::open(Arc::clone(&self.upstream), &self.means, self.known, held).await;
        match link {
            Ok(link) => {
                self.pulse.opened();
                Ok(Arc::new(link))
            }
            Err(error) => {
                self.pulse.failed(&error, began);
                Err(error)
            }
        }
    }
}

/// Closes what nobody uses, while there is anything.
async fn sweep(pool: Weak<Inner>, idle: Duration) {
    loop {
        tokio::time::sleep((idle / 4).max(Duration::from_millis(5))).await;
        let Some(pool) = pool.upgrade() else { return };
        let closing: Vec<Arc<Link>> = {
            let mut shelf = pool.shelf();
            let keys: Vec<Key> = shelf
                .entries
                .iter()
                .filter_map(|(key, entry)| {
                    let is_over = match &entry.state {
                        State::Open(link) => {
                            link.ended().is_some() || (entry.is_unused() && entry.used.elapsed() >= idle)
                        }
                        State::Opening { .. } | State::Shut => false,
                    };
                    is_over.then(|| key.clone())
                })
                .collect();
            let closing = keys.iter().filter_map(|key| shelf.shut(key)).collect();
            shelf
                .entries
                .retain(|_, entry| !matches!(entry.state, State::Shut) || entry.used.elapsed() < REMEMBERED.max(idle));
            if shelf.entries.is_empty() {
                shelf.is_swept = false;
                return;
            }
            closing
        };
        // Each apart: one that is slow to leave delays nobody.
        for link in closing {
            tokio::spawn(async move { link.close().await });
        }
    }
}
