//! What servers say of their tools, kept for a moment: read again when a server says that it changed, and otherwise when
//! what is kept is older than it may be.
//!
//! Invariant: a listing is of one link and of one beginning of it, so it is what the credentials of that link are shown by
//! what runs there now: a process that was started again, a session that was begun again, a server of another version is
//! read again before anything is called there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use toolgate_contracts::upstream::{ServerInfo, TOOLS_MAX};
use toolgate_contracts::{Digest, Slug, TenantId};
use toolgate_egress::Effect;
use toolgate_registry::upstream::digest_of;

use super::beside;
use super::places::Prepared;
use crate::upstream::{Exchange, Found, Key, Link, LinkError, News, Wanted};

/// The oldest that a listing may be when a tool is called by it.
const KEPT: Duration = Duration::from_mins(1);
/// And the least that it is believed for. Servers say as a matter of course that a list may not be kept at all; read for each
/// call it would double what a call costs, and still be older than the call. One that says that it changed is read at once.
const KEPT_MIN: Duration = Duration::from_secs(1);
/// News of a server are heard so long after somebody used it; who listens holds the link.
const LISTENS: Duration = Duration::from_mins(5);
/// How soon it is noticed that a link has ended.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const PAGES_MAX: usize = 100;
const BYTES_MAX: usize = 16 * 1024 * 1024;
const PAGE_WITHIN: Duration = Duration::from_secs(30);
const NEWS_MAX: usize = 256;
/// Links whose listings are kept. Whose was not used the longest goes first.
const SLOTS_MAX: usize = 4096;

pub struct Listed {
    /// What the server said of itself when the list was read; another one is another server.
    pub found: Arc<Found>,
    link: Weak<Link>,
    /// As they came, in the server's order.
    pub all: Vec<Value>,
    /// By name. A name that comes twice is in it once, and refused by whoever takes the listing.
    pub tools: HashMap<String, (Value, Digest)>,
    read: Instant,
    kept: Duration,
}

impl Listed {
    fn is_of(&self, link: &Arc<Link>) -> bool {
        std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link)) && Arc::ptr_eq(&self.found, &link.found())
    }

    pub fn server(&self) -> ServerInfo {
        let text = |member: &str| {
            let said = self.found.server_info.get(member).and_then(Value::as_str)?;
            Some(said.chars().filter(|c| !toolgate_contracts::unseen::is_unseen(*c)).take(200).collect())
        };
        ServerInfo { name: text("name"), version: text("version") }
    }
}

#[derive(Default)]
struct Slot {
    listed: ArcSwapOption<Listed>,
    /// One reader at a time; the others wait for what it reads.
    reading: tokio::sync::Mutex<()>,
    changed: AtomicBool,
    listens: AtomicBool,
    used: Mutex<Option<Instant>>,
}

pub struct Listings {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    news: broadcast::Sender<(TenantId, Slug)>,
}

impl Default for Listings {
    fn default() -> Self {
        Self { slots: Mutex::default(), news: broadcast::Sender::new(NEWS_MAX) }
    }
}

impl Listings {
    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn news(&self) -> broadcast::Receiver<(TenantId, Slug)> {
        self.news.subscribe()
    }

    /// Somebody should read it again.
    pub fn tell(&self, tenant: TenantId, name: &Slug) {
        // Nobody listens where no server runs.
        let _ = self.news.send((tenant, name.clone()));
    }

    pub fn forget(&self, key: &Key) {
        self.slots().remove(key);
    }

    pub fn forget_all(&self, is_it: impl Fn(&Key) -> bool) {
        self.slots().retain(|key, _| !is_it(key));
    }

    pub fn clear(&self) {
        self.slots().clear();
    }

    /// What the server of a link says of its tools, not older than it may be.
    pub async fn fresh(&self, prepared: &Prepared, link: &Arc<Link>) -> Result<Arc<Listed>, LinkError> {
        let slot = self.slot(&prepared.key);
        if let Some(listed) = slot.current(link) {
            return Ok(listed);
        }
        let _one = slot.reading.lock().await;
        if let Some(listed) = slot.current(link) {
            return Ok(listed);
        }
        slot.listed.store(None);
        // News that come from here on are about what is read now.
        slot.changed.store(false, Ordering::Release);
        if !slot.listens.swap(true, Ordering::AcqRel) {
            let (weak, news) = (Arc::downgrade(&slot), self.news.clone());
            tokio::spawn(listen(Arc::clone(link), weak, news, prepared.key.tenant, prepared.spec.name.clone()));
        }
        let listed = Arc::new(read(link).await?);
        slot.listed.store(Some(Arc::clone(&listed)));
        Ok(listed)
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut slots = self.slots();
        let slot = if let Some(slot) = slots.get(key) {
            Arc::clone(slot)
        } else {
            if slots.len() >= SLOTS_MAX {
                let oldest = slots.iter().min_by_key(|(_, slot)| slot.used()).map(|(key, _)| key.clone());
                oldest.and_then(|oldest| slots.remove(&oldest));
            }
            Arc::clone(slots.entry(key.clone()).or_default())
        };
        drop(slots);
        *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        slot
    }
}

impl Slot {
    /// What is kept, where it is of this link, not too old, and nobody said that it changed.
    fn current(&self, link: &Arc<Link>) -> Option<Arc<Listed>> {
        // First: whoever reads anew takes away what is kept before it says that nothing changed since.
        if self.changed.load(Ordering::Acquire) {
            return None;
        }
        let kept = self.listed.load();
        kept.as_ref().filter(|listed| listed.read.elapsed() < listed.kept && listed.is_of(link)).cloned()
    }

    fn used(&self) -> Option<Instant> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears that a server changed, as long as somebody uses it.
async fn listen(
    link: Arc<Link>,
    slot: Weak<Slot>,
    news: broadcast::Sender<(TenantId, Slug)>,
    tenant: TenantId,
    name: Slug,
) {
    let mut listening = link.listen(Wanted { tools: true, ..Wanted::default() });
    loop {
        let heard = tokio::time::timeout(LOOK_EVERY, listening.next()).await;
        let Some(slot) = slot.upgrade() else { return };
        match heard {
            Ok(Ok(News::ToolsChanged) | Err(RecvError::Lagged(_))) => {
                slot.changed.store(true, Ordering::Release);
                let _ = news.send((tenant, name.clone()));
            }
            Ok(Ok(_)) => {}
            Ok(Err(RecvError::Closed)) => break,
            Err(_) => {
                if link.ended().is_some() || slot.used().is_none_or(|used| used.elapsed() >= LISTENS) {
                    break;
                }
            }
        }
    }
    if let Some(slot) = slot.upgrade() {
        slot.listens.store(false, Ordering::Release);
        // Whoever comes next cannot know what was missed.
        slot.changed.store(true, Ordering::Release);
    }
}

/// How long a list may be believed that a server gives so long.
fn believed(so_far: Duration, ttl_ms: Option<u64>) -> Duration {
    ttl_ms.map_or(so_far, |ttl| so_far.min(Duration::from_millis(ttl)).max(KEPT_MIN))
}

/// All pages of one kind of list, and how long they may be believed.
pub async fn pages(
    link: &Link,
    method: &str,
    member: &str,
    items_max: usize,
) -> Result<(Vec<Value>, Duration), LinkError> {
    let too_much = |why: String| LinkError::Unreadable { why };
    let mut all: Vec<Value> = Vec::new();
    let (mut cursor, mut pages, mut bytes) = (None::<String>, 0, 0);
    let mut kept = KEPT;
    loop {
        pages += 1;
        if pages > PAGES_MAX {
            return Err(too_much(format!("its list of tools has more than {PAGES_MAX} pages")));
        }
        let mut params = Map::new();
        params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), Value::from(cursor))));
        let exchange = Exchange { effect: Effect::Read, ..Exchange::within(PAGE_WITHIN) };
        let mut page = link.request(method, params, exchange).await?;
        bytes += page.to_string().len();
        if bytes > BYTES_MAX {
            return Err(too_much(format!("its list of {member} has more than {BYTES_MAX} bytes")));
        }
        let items = page.get_mut(member).map(Value::take);
        let Some(Value::Array(items)) = items else {
            return Err(too_much(format!("its list of {member} is no list")));
        };
        all.extend(items);
        if all.len() > items_max {
            return Err(too_much(format!("it lists more than {items_max} {member}")));
        }
        kept = believed(kept, page.get("ttlMs").and_then(Value::as_u64));
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok((all, kept))
}

/// What a server offers as tools.
async fn read(link: &Arc<Link>) -> Result<Listed, LinkError> {
    let found = link.found();
    let (mut all, kept) = pages(link, "tools/list", "tools", TOOLS_MAX).await?;
    let named = |tool: &Value| {
        let name = tool.get("name").and_then(Value::as_str)?;
        Some((name.to_owned(), (tool.clone(), digest_of(tool))))
    };
    // Of these names only we speak.
    all.retain(|tool| tool.get("name").and_then(Value::as_str).is_none_or(|name| !beside::is_beside(name)));
    all.extend(beside::offered(&found));
    let tools = all.iter().filter_map(named).collect();
    let link = Arc::downgrade(link);
    Ok(Listed { found, link, all, tools, read: Instant::now(), kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_believed_as_long_as_its_server_says_within_bounds() {
        for (said, expected) in [
            (None, KEPT),
            (Some(0), KEPT_MIN),
            (Some(1), KEPT_MIN),
            (Some(20_000), Duration::from_secs(20)),
            (Some(u64::MAX), KEPT),
        ] {
            assert_eq!(believed(KEPT, said), expected, "{said:?}");
        }
        assert_eq!(
            believed(Duration::from_secs(20), Some(30_000)),
            Duration::from_secs(20),
            "the shortest of all pages"
        );
    }

    #[test]
    fn at_the_bound_the_listing_goes_that_nobody_used_for_the_longest() {
        let listings = Listings::default();
        let key = |at: usize| Key { tenant: TenantId::SYSTEM, upstream: format!("s{at}"), credentials: None };
        for at in 0..SLOTS_MAX {
            listings.slot(&key(at));
        }
        listings.slot(&key(0));
        listings.slot(&key(SLOTS_MAX));
        let has = |at: usize| listings.slots().contains_key(&key(at));
        assert_eq!(listings.slots().len(), SLOTS_MAX);
        assert_eq!((has(0), has(1), has(2), has(SLOTS_MAX)), (true, false, true, true));
    }
}
