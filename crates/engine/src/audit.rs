//! The audit log as a service: leaves get their place, heads are signed, entries are proved.
//!
//! The log's arithmetic is in `ledger`, its rows are in `store`; here is when and by whom. Leaves themselves are written
//! by whoever does what they record, in the same change. Deliberately absent: who may read what (the server's routes),
//! and witnesses (whoever follows a log countersigns it, see the command line).
//!
//! Invariant: a signature covers only leaves on the disk, and no two signed heads of one log contradict each other.

mod head;
mod pins;
mod proof;
mod sequencer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, MutexGuard, Notify};
use toolgate_contracts::{Clock, Fault, FaultKind, Rng, TenantId};
use toolgate_ledger::{Frontier, Head, Origin, Plan, Trust};
use toolgate_store::Store;
use toolgate_store::audit::sequence::Progress;
use toolgate_vault::Keyring;

pub use head::{SignedHead, VerifierKeys};
pub use pins::Pinned;
pub use proof::{Proved, Which};
pub use sequencer::Sequencer;

use head::Signing;
use pins::Pins;

/// How long somebody who asks for the whole log waits for others' open transactions.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(10);

/// Called with every new head, in the order in which one log's are signed.
type Publish = Box<dyn Fn(TenantId, &Head) + Send + Sync>;

/// The logs of all tenants of a database. Clones share it.
#[derive(Clone)]
pub struct Audit(Arc<Inner>);

struct Inner {
    store: Store,
    keyring: Keyring,
    clock: Clock,
    rng: Rng,
    /// Where heads are written down beside the database, if anywhere.
    pins: Option<Pins>,
    /// Which log the database holds; another after a restore.
    number: AtomicI64,
    logs: Mutex<HashMap<TenantId, Arc<AsyncMutex<Log>>>>,
    wake: Notify,
    /// This process, among those that share a database.
    holder: String,
    publish: OnceLock<Publish>,
}

/// What this process knows of one tenant's log. Everything in it can be read again.
#[derive(Default)]
struct Log {
    /// The tree's right edge, as far as it was followed here.
    grown: Option<(Progress, Frontier)>,
    signing: Option<Signing>,
    /// The pinned head was compared with the database.
    pin_checked: bool,
    signed_at: Option<tokio::time::Instant>,
    /// The size of the newest head that was signed here and is not yet in the system's log.
    unnoted: Option<Head>,
    noted_at: Option<tokio::time::Instant>,
    leased_until: Option<tokio::time::Instant>,
}

impl Audit {
    /// `data` is the folder beside which heads are pinned; without one nothing is.
    pub async fn open(
        store: Store,
        keyring: Keyring,
        data: Option<&Path>,
        clock: Clock,
        rng: Rng,
    ) -> Result<Self, Fault> {
        let number = AtomicI64::new(store.audit_log(&rng).await?);
        let holder = format!("{:016x}", u64::from_be_bytes(rng.bytes()));
        Ok(Self(Arc::new(Inner {
            store,
            keyring,
            clock,
            rng,
            pins: data.map(Pins::in_folder),
            number,
            logs: Mutex::default(),
            wake: Notify::new(),
            holder,
            publish: OnceLock::new(),
        })))
    }

    /// Has every new head told to `publish`, which must not take long. The first that is set stays.
    pub fn on_checkpoint(&self, publish: impl Fn(TenantId, &Head) + Send + Sync + 'static) {
        let _ = self.0.publish.set(Box::new(publish));
    }

    /// Says that a leaf was committed, so that the sequencer does not sleep its second out.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// The name of a tenant's log: it stays when tenants are renamed, and changes when a database is restored.
    pub fn origin(&self, tenant: TenantId) -> Result<Origin, Fault> {
        origin_of(self.0.number.load(Ordering::Acquire), tenant)
    }

    /// A number that another one takes the place of when a database is restored: what was given out before is void. Of
    /// the log's own number as much as JSON holds exactly.
    pub fn epoch(&self) -> u64 {
        self.0.number.load(Ordering::Acquire).unsigned_abs() & ((1 << 53) - 1)
    }

    /// Gives every leaf that is committed its index, now. Returns how many entries the log has.
    pub async fn sequence_now(&self, tenant: TenantId) -> Result<u64, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        Ok(self.catch_up(tenant, &mut log).await?.size)
    }

    fn log(&self, tenant: TenantId) -> Arc<AsyncMutex<Log>> {
        let mut logs = self.0.logs.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(logs.entry(tenant).or_default())
    }

    /// Sequences until every leaf that is committed now has its index. In PostgreSQL that takes until every transaction
    /// that was open before has ended; one that stays open for long is not waited for.
    async fn catch_up(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) -> Result<Progress, Fault> {
        let newest = self.0.store.audit_newest_position(tenant).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let progress = self.sequence(tenant, log).await?;
            if progress.position >= newest {
                return Ok(progress);
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!("leaves wait for their index: a transaction is open in PostgreSQL for long");
                return Ok(progress);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Others may sequence the same log: whoever moves its progress first wins, the other reads what was done.
    async fn sequence(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) -> Result<Progress, Fault> {
        loop {
            // Taken, so that nothing half-done is left where this is given up.
            let (from, frontier) = match log.grown.take() {
                Some(grown) => grown,
                None => self.load(tenant).await?,
            };
            let waiting = self.0.store.audit_waiting(tenant, from.position).await?;
            if waiting.leaves.is_empty() {
                log.grown = Some((from, frontier));
                return Ok(from);
            }
            let mut grown = frontier;
            let nodes: Vec<_> = waiting.leaves.iter().flat_map(|leaf| grown.append(*leaf)).collect();
            if self.0.store.audit_sequence(tenant, from, &waiting, &nodes).await? {
                let next = Progress { size: grown.size(), position: waiting.position };
                log.grown = Some((next, grown));
            }
        }
    }

    async fn load(&self, tenant: TenantId) -> Result<(Progress, Frontier), Fault> {
        let progress = self.0.store.audit_progress(tenant).await?;
        let nodes = self.0.store.audit_nodes(tenant, Plan::root(progress.size).nodes()).await?;
        let frontier = Frontier::load(progress.size, |place| nodes.get(&place).copied())
            .map_err(|error| damaged(tenant, &error))?;
        Ok((progress, frontier))
    }

    /// Compares every pinned head with the database. A server refuses to start where one is ahead or another log.
    pub async fn check_pins(&self) -> Result<(), Fault> {
        let Some(pins) = &self.0.pins else { return Ok(()) };
        for pinned in pins.read().await? {
            self.check_pin(&pinned).await?;
            self.log(pinned.tenant).lock().await.pin_checked = true;
        }
        Ok(())
    }

    /// The heads that are pinned beside the database, whatever it holds now.
    pub async fn pinned(&self) -> Result<Vec<Pinned>, Fault> {
        match &self.0.pins {
            Some(pins) => pins.read().await,
            None => Ok(Vec::new()),
        }
    }

    /// After an older copy of the database was brought back: what was signed since stays true of the log that was, and
    /// what is signed from now on is another log's. Whoever calls has left an entry that says so.
    pub async fn begin_new_log(&self) -> Result<(), Fault> {
        let number = self.0.store.begin_new_log(&self.0.rng).await?;
        self.0.number.store(number, Ordering::Release);
        self.0.logs.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match &self.0.pins {
            Some(pins) => pins.clear().await,
            None => Ok(()),
        }
    }

    async fn check_pin(&self, pinned: &Pinned) -> Result<(), Fault> {
        let Pinned { tenant, checkpoint, file, number } = pinned;
        let current = self.0.number.load(Ordering::Acquire);
        if *number != current {
            // Another replica accepted the restore: this one's heads are of the log before.
            if self.0.store.held_log_before(*number).await? {
                return Ok(());
            }
            return Err(refused(format!(
                "the database holds the log {current:016x}, but {} is a head of the log {number:016x}",
                file.display()
            )));
        }
        let size = self.0.store.audit_progress(*tenant).await?.size;
        if size < checkpoint.size {
            return Err(refused(format!(
                "the database is older than its last signed head: the log of tenant {tenant} has {size} entries, and \
                 {} were signed ({})",
                checkpoint.size,
                file.display()
            )));
        }
        let nodes = self.0.store.audit_nodes(*tenant, Plan::root(checkpoint.size).nodes()).await?;
        let root = toolgate_ledger::tree::root(checkpoint.size, |place| nodes.get(&place).copied());
        if root != Ok(checkpoint.root) {
            return Err(refused(format!(
                "the log of tenant {tenant} is not the one that was signed: its first {} entries are others ({})",
                checkpoint.size,
                file.display()
            )));
        }
        Ok(())
    }
}

fn origin_of(number: i64, tenant: TenantId) -> Result<Origin, Fault> {
    format!("toolgate/{number:016x}/{tenant}").parse().map_err(Fault::internal)
}

/// The log's number and tenant from its name.
fn parts_of(origin: &Origin) -> Option<(i64, TenantId)> {
    let (number, tenant) = origin.as_str().strip_prefix("toolgate/")?.split_once('/')?;
    Some((i64::from_str_radix(number, 16).ok()?, tenant.parse().ok()?))
}

fn refused(told: String) -> Fault {
    Fault::new(
        FaultKind::Conflict,
        told,
        "bring back the newest database; if an older one was restored on purpose, say so with \
         `toolgate audit accept-restore`",
    )
}

/// The rows of a log do not fit together.
fn damaged(tenant: TenantId, what: &dyn std::fmt::Display) -> Fault {
    Fault::new(
        FaultKind::Internal,
        "the log's records do not fit together, so nothing more is signed or proved",
        "find out what is broken with `toolgate audit verify --live`, and keep the database: it is evidence",
    )
    .with_log(format!("the log of {tenant} is damaged: {what}"))
}

/// Whom this server believes about a log: its own keys, those it replaced included.
fn trust_of(origin: Origin, keys: &VerifierKeys) -> Trust {
    Trust::new(origin, keys.iter().cloned())
}
