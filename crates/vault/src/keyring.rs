//! The server's own keys: made when first needed, wrapped by the master key in the database, open in memory.
//!
//! Replicas share the database, so whoever makes a key first wins and the others read it; a unique index decides, no
//! lock. Deliberately absent: signing and sealing themselves; a key is 32 random bytes for whoever has the purpose.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use data_encoding::BASE32_NOPAD;
use tokio::sync::Mutex;
use toolgate_contracts::{Clock, Fault, FaultKind, Rng, TenantId, Timestamp};
use toolgate_store::server_keys::{KeyState, WrappedKey};
use toolgate_store::{Change, Store};
use tracing::info;
use zeroize::Zeroizing;

use crate::envelope;
use crate::master::MasterKey;

const LABEL: &str = "toolgate/server-key/1";

/// What a key is for. A key of one purpose is never used for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Proves that the master key is the one this database was made with; used for nothing else.
    Check,
    /// A tenant's own: run keys come from it.
    Tenant,
    /// Signs heads of the log.
    Checkpoint,
    /// Signs capability tokens.
    Token,
    /// Signs answers.
    Response,
    /// A tenant's own: signatures of audit events come from it.
    AuditEvent,
    Webhook,
    /// Cursors and whatever else travels sealed through clients.
    Seal,
    /// Encrypts a tenant's secrets.
    DataKey,
}

impl Purpose {
    pub const ALL: [Self; 9] = [
        Self::Check,
        Self::Tenant,
        Self::Checkpoint,
        Self::Token,
        Self::Response,
        Self::AuditEvent,
        Self::Webhook,
        Self::Seal,
        Self::DataKey,
    ];

    /// As the column `kind` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Tenant => "tenant",
            Self::Checkpoint => "checkpoint",
            Self::Token => "token",
            Self::Response => "response",
            Self::AuditEvent => "audit_event",
            Self::Webhook => "webhook",
            Self::Seal => "seal",
            Self::DataKey => "data_key",
        }
    }

    /// Whether a new one may take its place. The check has none to take its place, and from a tenant's own key come the
    /// ids of calls that are still to be made.
    pub const fn rotates(self) -> bool {
        !matches!(self, Self::Check | Self::Tenant)
    }

    /// Whether each tenant has its own.
    const fn is_tenants(self) -> bool {
        matches!(self, Self::Tenant | Self::Checkpoint | Self::AuditEvent | Self::Webhook | Self::DataKey)
    }

    /// How long what a key made stays good once another took its place. `None`: as long as it is kept, for the log and
    /// for what lies under a data key.
    const fn life_s(self) -> Option<i64> {
        match self {
            // Fifteen minutes, and clocks that differ.
            Self::Token => Some(20 * 60),
            // Cursors of lists that somebody is reading.
            Self::Seal => Some(24 * 60 * 60),
            // Read and checked, or tried again, days later.
            Self::Response | Self::Webhook => Some(7 * 24 * 60 * 60),
            Self::Check | Self::Tenant | Self::Checkpoint | Self::AuditEvent | Self::DataKey => None,
        }
    }
}

impl std::str::FromStr for Purpose {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == text).ok_or(())
    }
}

/// A key as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub kind: String,
    pub kid: String,
    pub tenant: Option<TenantId>,
    pub state: KeyState,
    pub created_at: Timestamp,
}

pub struct Key {
    kid: String,
    seed: Zeroizing<[u8; 32]>,
    created_at: Timestamp,
}

impl Key {
    pub(crate) fn new(kid: String, seed: Zeroizing<[u8; 32]>, created_at: Timestamp) -> Self {
        Self { kid, seed, created_at }
    }

    /// Since when it makes things.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub fn kid(&self) -> &str {
        &self.kid
    }

    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.kid)
    }
}

type Slot = (Purpose, Option<TenantId>);

/// The open keys of one purpose and tenant.
#[derive(Clone, Default)]
struct Ring {
    active: Option<Arc<Key>>,
    retiring: Vec<Arc<Key>>,
}

/// The first one wraps; all open.
struct Masters(Vec<Arc<MasterKey>>);

struct Inner {
    store: Store,
    clock: Clock,
    rng: Rng,
    masters: ArcSwap<Masters>,
    rings: ArcSwap<HashMap<Slot, Ring>>,
    /// One writer in this process; between processes the database decides.
    writing: Mutex<()>,
}

#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

impl Keyring {
    /// Opens all keys. `previous` is the master key before this one, as long as some keys may still be wrapped by it;
    /// [`Keyring::rewrap`] then finishes what was begun.
    pub async fn open(
        store: Store,
        master: MasterKey,
        previous: Option<MasterKey>,
        clock: Clock,
        rng: Rng,
    ) -> Result<Self, Fault> {
        let masters = std::iter::once(master).chain(previous).map(Arc::new).collect();
        let keyring = Self(Arc::new(Inner {
            store,
            clock,
            rng,
            masters: ArcSwap::from_pointee(Masters(masters)),
            rings: ArcSwap::default(),
            writing: Mutex::default(),
        }));
        keyring.refresh().await?;
        // Another replica may have made it just now, with another master key: then this reads it, and says so.
        keyring.key(Purpose::Check, None).await?;
        Ok(keyring)
    }

    /// Reads all keys again, to see those that other replicas made or rotated. Call it now and then.
    pub async fn refresh(&self) -> Result<(), Fault> {
        let _writing = self.0.writing.lock().await;
        let rows = self.0.store.server_keys().await?;
        let masters = self.0.masters.load_full();
        let closed = rows.iter().filter(|row| masters.unwrap(row).is_none()).count();
        if closed > 0 {
            return Err(not_ours(closed, rows.len()));
        }
        let mut rings: HashMap<Slot, Ring> = HashMap::new();
        for row in &rows {
            // A kind of a newer Toolgate is none of ours.
            let Ok(purpose) = row.kind.parse::<Purpose>() else { continue };
            let slot = rings.entry((purpose, row.tenant)).or_default();
            slot.add(row.state, masters.unwrap(row));
        }
        self.0.rings.store(Arc::new(rings));
        Ok(())
    }

    /// The active key if it is in memory; never waits.
    pub fn loaded(&self, purpose: Purpose, tenant: Option<TenantId>) -> Option<Arc<Key>> {
        self.0.rings.load().get(&(purpose, tenant))?.active.clone()
    }

    /// The active key, made if there is none.
    pub async fn key(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<Arc<Key>, Fault> {
        if let Some(key) = self.loaded(purpose, tenant) {
            return Ok(key);
        }
        let _writing = self.0.writing.lock().await;
        if let Some(key) = self.loaded(purpose, tenant) {
            return Ok(key);
        }
        if let Some(key) = self.read(purpose, tenant).await?.active {
            return Ok(key);
        }
        let mut change = Change::new(tenant.unwrap_or(TenantId::SYSTEM));
        change.insert_server_key(&self.make(purpose, tenant)?);
        match self.0.store.commit(change).await {
            Err(error) if !WrappedKey::lost_the_race(&error) => return Err(error.into()),
            // Ours is there now, or the winner's.
            Ok(_) | Err(_) => {}
        }
        let made = self.read(purpose, tenant).await?.active;
        made.ok_or_else(|| Fault::internal(format!("the {} key went away while it was made", purpose.as_str())))
    }

    /// The active key and those it replaced, read from the database: what any of them made is good. The active one
    /// comes first.
    pub async fn all(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<Vec<Arc<Key>>, Fault> {
        let _writing = self.0.writing.lock().await;
        let Ring { active, retiring } = self.read(purpose, tenant).await?;
        Ok(active.into_iter().chain(retiring).collect())
    }

    /// A key by its id, active or retiring: from memory, and from the database if it is not there.
    pub async fn by_kid(
        &self,
        purpose: Purpose,
        tenant: Option<TenantId>,
        kid: &str,
    ) -> Result<Option<Arc<Key>>, Fault> {
        let known = self
            .0
            .rings
            .load()
            .get(&(purpose, tenant))
            .and_then(|ring| ring.active.iter().chain(&ring.retiring).find(|key| key.kid == kid).cloned());
        match known {
            Some(key) => Ok(Some(key)),
            None => Ok(self.all(purpose, tenant).await?.into_iter().find(|key| key.kid == kid)),
        }
    }

    /// Makes a new active key; the one before retires, and what it made stays good.
    pub async fn rotate(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<Arc<Key>, Fault> {
        let _writing = self.0.writing.lock().await;
        let before = self.read(purpose, tenant).await?.active;
        let mut change = Change::new(tenant.unwrap_or(TenantId::SYSTEM));
        if let Some(before) = before {
            change.retire_server_key(purpose.as_str(), &before.kid);
        }
        let row = self.make(purpose, tenant)?;
        change.insert_server_key(&row);
        self.0.store.commit(change).await?;
        let made = self.read(purpose, tenant).await?.active;
        made.ok_or_else(|| Fault::internal(format!("the {} key went away while it was rotated", purpose.as_str())))
    }

    /// Rotates what a server has of a kind: its own key and this tenant's, or the one it would make first.
    pub async fn rotate_kind(&self, purpose: Purpose, tenant: TenantId) -> Result<Vec<Arc<Key>>, Fault> {
        if !purpose.rotates() {
            return Err(Fault::conflict(
                format!("the key `{}` is not rotated: what was made from it must stay as it is", purpose.as_str()),
                "to change what wraps it, see `toolgate keys rewrap`",
            ));
        }
        let mut slots = Vec::new();
        for slot in [None, Some(tenant)] {
            if !self.all(purpose, slot).await?.is_empty() {
                slots.push(slot);
            }
        }
        if slots.is_empty() {
            slots.push(purpose.is_tenants().then_some(tenant));
        }
        let mut made = Vec::with_capacity(slots.len());
        for slot in slots {
            made.push(self.rotate(purpose, slot).await?);
        }
        Ok(made)
    }

    /// Makes a new key and ends those before it at once: nothing that they made is good any more.
    pub async fn replace(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<Arc<Key>, Fault> {
        let made = self.rotate(purpose, tenant).await?;
        for before in self.all(purpose, tenant).await?.iter().filter(|key| key.kid != made.kid) {
            self.end(purpose, tenant, &before.kid).await?;
        }
        self.all(purpose, tenant).await?;
        Ok(made)
    }

    /// Ends keys whose last work has run out. Call it now and then; answers how many it ended.
    pub async fn end_expired(&self) -> Result<usize, Fault> {
        let now = self.0.clock.now();
        let rows = self.0.store.server_keys().await?;
        let mut ended = 0;
        for row in rows.iter().filter(|row| row.state == KeyState::Retiring) {
            let Some(purpose) = row.kind.parse::<Purpose>().ok() else { continue };
            let Some(life_s) = purpose.life_s() else { continue };
            // It made its last when the next one was made.
            let same = rows.iter().filter(|other| other.kind == row.kind && other.tenant == row.tenant);
            let newer = same.filter(|other| other.kid != row.kid && other.created_at >= row.created_at);
            let since = newer.map(|other| other.created_at).min();
            if since.is_some_and(|since| since.plus_seconds(life_s) <= now) {
                self.end(purpose, row.tenant, &row.kid).await?;
                ended += 1;
            }
        }
        Ok(ended)
    }

    async fn end(&self, purpose: Purpose, tenant: Option<TenantId>, kid: &str) -> Result<(), Fault> {
        let mut change = Change::new(tenant.unwrap_or(TenantId::SYSTEM));
        change.end_server_key(purpose.as_str(), kid);
        self.0.store.commit(change).await?;
        info!(kind = purpose.as_str(), kid, "a server key ended");
        Ok(())
    }

    /// Ends the tenant's data keys under which no secret lies any more.
    pub(crate) async fn end_unused_data_keys(&self, tenant: TenantId) -> Result<usize, Fault> {
        let keys = self.all(Purpose::DataKey, Some(tenant)).await?;
        let mut ended = 0;
        for key in keys.iter().skip(1) {
            let mut change = Change::new(tenant);
            change.end_data_key(&key.kid);
            let outcome = self.0.store.commit(change).await?;
            ended += usize::from(outcome.changed.first() == Some(&1));
        }
        self.all(Purpose::DataKey, Some(tenant)).await?;
        Ok(ended)
    }

    /// Every key without its bytes, newest first.
    pub async fn list(&self) -> Result<Vec<KeyInfo>, Fault> {
        let rows = self.0.store.server_keys().await?;
        let info = |row: WrappedKey| {
            let WrappedKey { kind, kid, tenant, wrapped: _, state, created_at } = row;
            KeyInfo { kind, kid, tenant, state, created_at }
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// Puts every key under the present master key: what [`Keyring::rewrap`] does, for whoever was opened with both.
    pub async fn rewrap_all(&self) -> Result<usize, Fault> {
        let masters = self.0.masters.load_full();
        let present = masters.0.first().ok_or_else(|| Fault::internal("the keyring has no master key"))?;
        self.rewrap_under(Arc::clone(present)).await
    }

    /// Puts every key under `new`, row by row, and wraps new ones with it from now on. Cut short it has lost nothing:
    /// open with both keys and call it again. Answers how many keys it wrapped anew.
    pub async fn rewrap(&self, new: MasterKey) -> Result<usize, Fault> {
        self.rewrap_under(Arc::new(new)).await
    }

    async fn rewrap_under(&self, new: Arc<MasterKey>) -> Result<usize, Fault> {
        let _writing = self.0.writing.lock().await;
        let before = self.0.masters.load_full();
        let others = before.0.iter().filter(|master| master.bytes() != new.bytes()).cloned();
        // Before the first row, so that a key made meanwhile is under the new one.
        let masters = Arc::new(Masters(std::iter::once(new.clone()).chain(others).collect()));
        self.0.masters.store(masters.clone());

        let mut rows = self.0.store.server_keys().await?;
        // The check last: while it opens by the old key only, the work is not done.
        rows.sort_by_key(|row| row.kind == Purpose::Check.as_str());
        let (mut rewrapped, of) = (0, rows.len());
        for row in rows {
            if unwrap(&new, &row).is_some() {
                continue;
            }
            let key = masters.unwrap(&row).ok_or_else(|| not_ours(1, of))?;
            let mut change = Change::new(row.tenant.unwrap_or(TenantId::SYSTEM));
            change.rewrap_server_key(&row, wrap(&new, &row, &key.seed, &self.0.rng)?);
            let outcome = self.0.store.commit(change).await?;
            rewrapped += usize::from(outcome.changed.first() == Some(&1));
        }
        // Another replica may have made one with the old key between our reading and now.
        let left = self.0.store.server_keys().await?.iter().filter(|row| unwrap(&new, row).is_none()).count();
        if left > 0 {
            return Err(Fault::conflict(
                format!("{left} keys were wrapped by another master key while all were being rewrapped"),
                "give every replica the new master key and the previous one, then rewrap again",
            ));
        }
        self.0.masters.store(Arc::new(Masters(vec![new])));
        info!(rewrapped, "the server's keys are under the new master key");
        Ok(rewrapped)
    }

    fn make(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<WrappedKey, Fault> {
        let Inner { clock, rng, masters, .. } = &*self.0;
        let mut row = WrappedKey {
            kind: purpose.as_str().to_owned(),
            kid: BASE32_NOPAD.encode(&rng.bytes::<10>()).to_ascii_lowercase(),
            tenant,
            wrapped: Vec::new(),
            state: KeyState::Active,
            created_at: clock.now(),
        };
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill(&mut *seed);
        let masters = masters.load();
        let master = masters.0.first().ok_or_else(|| Fault::internal("the keyring has no master key"))?;
        row.wrapped = wrap(master, &row, &seed, rng)?;
        Ok(row)
    }

    /// Reads one slot into memory. The caller holds `writing`.
    async fn read(&self, purpose: Purpose, tenant: Option<TenantId>) -> Result<Ring, Fault> {
        let rows = self.0.store.server_keys_of(purpose.as_str(), tenant).await?;
        let masters = self.0.masters.load_full();
        let mut ring = Ring::default();
        for row in &rows {
            let key = masters.unwrap(row).ok_or_else(|| not_ours(1, 1))?;
            ring.add(row.state, Some(key));
        }
        self.0.rings.rcu(|rings| {
            let mut rings = HashMap::clone(rings);
            rings.insert((purpose, tenant), ring.clone());
            rings
        });
        Ok(ring)
    }
}

impl Ring {
    fn add(&mut self, state: KeyState, key: Option<Key>) {
        let key = key.map(Arc::new);
        match state {
            KeyState::Active => self.active = key,
            KeyState::Retiring => self.retiring.extend(key),
            KeyState::Retired => {}
        }
    }
}

impl Masters {
    fn unwrap(&self, row: &WrappedKey) -> Option<Key> {
        self.0.iter().find_map(|master| unwrap(master, row))
    }
}

/// A row moved to another kind, id or tenant does not open.
fn context(row: &WrappedKey) -> String {
    let tenant = row.tenant.map_or_else(|| "-".to_owned(), |tenant| tenant.to_string());
    format!("{}|{}|{tenant}|{LABEL}", row.kind, row.kid)
}

fn wrap(master: &MasterKey, row: &WrappedKey, seed: &[u8; 32], rng: &Rng) -> Result<Vec<u8>, Fault> {
    envelope::encrypt(master.bytes(), context(row).as_bytes(), seed, rng)
        .ok_or_else(|| Fault::internal("the cipher refused to wrap a key"))
}

fn unwrap(master: &MasterKey, row: &WrappedKey) -> Option<Key> {
    let opened = envelope::decrypt(master.bytes(), context(row).as_bytes(), &row.wrapped)?;
    let seed = Zeroizing::new(<[u8; 32]>::try_from(opened.as_slice()).ok()?);
    Some(Key::new(row.kid.clone(), seed, row.created_at))
}

fn not_ours(closed: usize, of: usize) -> Fault {
    if closed == of {
        Fault::new(
            FaultKind::Unavailable,
            "this database was made with another master key",
            "restore the master.key of the folder that made it, or set TOOLGATE_MASTER_KEY to that key; all replicas share one",
        )
    } else {
        Fault::new(
            FaultKind::Unavailable,
            format!("{closed} of {of} server keys are wrapped by another master key, or were changed"),
            "if a change of the master key was cut short, start with both, the new and the previous one; else restore a backup",
        )
    }
}
