//! The engine: what the path needs, opened once and shared by everyone who submits.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use toolgate_contracts::plugin::ReadPlugin;
use toolgate_contracts::{CallId, Clock, Definition, Digest, Fault, Id, Rng, RunId, TenantId, ToolError};
use toolgate_registry::commands::Registry;
use toolgate_store::Store;
use toolgate_vault::{Keyring, Purpose, RunKey, Vault};

use crate::approvals::{Resuming, Rounds};
use crate::audit::Audit;
use crate::blobs::Blobs;
use crate::labels::Seen;
use crate::metrics::Metrics;
use crate::notify::Telling;
use crate::reserve::Crowd;
use crate::runner::Runners;
use crate::shared::Shared;

/// Signals that wait for a follower. One that falls behind looks at the database instead, so nothing is lost.
const SIGNALS_MAX: usize = 1024;

/// Calls that are on their way on this replica. At the bound the next is told to come again; nothing is recorded of it.
pub(crate) const CALLS_AT_ONCE_MAX: usize = 4096;

/// Callers without runs whose labels are remembered, and for how long without looking.
const CONTEXTS_MAX: u64 = 20_000;
const SEEN_FOR: Duration = Duration::from_secs(1);

/// What an engine is made of.
pub struct Parts {
    pub store: Store,
    pub registry: Arc<Registry>,
    pub keyring: Keyring,
    pub runners: Runners,
    pub shared: Shared,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub rng: Rng,
    /// Where large payloads are kept.
    pub blobs: PathBuf,
    pub audit: Audit,
}

/// Something new is committed about a run.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    pub tenant: TenantId,
    pub run: RunId,
    pub call: Option<CallId>,
}

#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

/// Not reachable from outside: its fields are this crate's own.
pub struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) keyring: Keyring,
    pub(crate) vault: Vault,
    pub(crate) runners: Runners,
    pub(crate) shared: Shared,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) blobs: Blobs,
    pub(crate) audit: Audit,
    /// Who we are among the replicas.
    pub(crate) replica: String,
    /// What runs here, and how to stop it.
    running: Mutex<HashMap<CallId, CancellationToken>>,
    /// Places for calls on their way.
    pub(crate) places: Arc<Semaphore>,
    /// How many calls run here at the same time, of whom.
    pub(crate) parallel: Mutex<HashMap<Crowd, u32>>,
    /// What callers without runs have seen, remembered for a moment.
    pub(crate) contexts: moka::sync::Cache<(TenantId, String), Arc<Seen>>,
    /// Whether somebody was told that a call of theirs is pending, remembered for a moment.
    pub(crate) told: moka::sync::Cache<(TenantId, String), bool>,
    /// Approved calls that this replica is at, and where the rounds over what waits stand.
    pub(crate) resuming: Resuming,
    rounds: Mutex<Rounds>,
    signals: broadcast::Sender<Signal>,
    pub(crate) telling: Telling,
    /// Whoever hosts runs here.
    pub(crate) hosting: std::sync::OnceLock<Arc<dyn crate::hosting::Hosting>>,
    /// Ends background work and refuses new calls.
    pub(crate) stopping: CancellationToken,
}

impl std::ops::Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Engine {
    pub fn new(parts: Parts) -> Self {
        let Parts { store, registry, keyring, runners, shared, metrics, clock, rng, blobs, audit } = parts;
        let replica = Id::<()>::new(&clock, &rng).to_string();
        Self(Arc::new(Inner {
            vault: Vault::new(store.clone(), keyring.clone(), clock.clone(), rng.clone()),
            store,
            registry,
            keyring,
            runners,
            shared,
            metrics,
            blobs: Blobs::new(blobs, clock.clone(), rng.clone()),
            clock,
            rng,
            audit,
            replica,
            running: Mutex::default(),
            places: Arc::new(Semaphore::new(CALLS_AT_ONCE_MAX)),
            parallel: Mutex::default(),
            contexts: moka::sync::Cache::builder().max_capacity(CONTEXTS_MAX).time_to_live(SEEN_FOR).build(),
            told: moka::sync::Cache::builder().max_capacity(CONTEXTS_MAX).time_to_live(SEEN_FOR).build(),
            resuming: Resuming::default(),
            rounds: Mutex::default(),
            signals: broadcast::channel(SIGNALS_MAX).0,
            telling: Telling::default(),
            hosting: std::sync::OnceLock::new(),
            stopping: CancellationToken::new(),
        }))
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Hears of everything that this replica commits.
    pub fn signals(&self) -> broadcast::Receiver<Signal> {
        self.0.signals.subscribe()
    }

    pub(crate) fn signal(&self, tenant: TenantId, run: RunId, call: Option<CallId>) {
        self.0.audit.wake();
        // Nobody may be listening.
        let _ = self.0.signals.send(Signal { tenant, run, call });
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, HashMap<CallId, CancellationToken>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.0.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the tenant's log, for receipts.
    pub(crate) fn log_of(&self, tenant: TenantId) -> String {
        self.0.audit.origin(tenant).map(|origin| origin.to_string()).unwrap_or_default()
    }

    /// What the runners of this program need of the machine.
    pub async fn needs(&self) -> Vec<crate::runner::Need> {
        self.runners.needs().await
    }

    /// What only the runner of this definition can find wrong with it. Where it has none here, nothing is found.
    pub async fn examine(&self, definition: &Definition) -> Result<(), ToolError> {
        match self.runners.get(definition) {
            Ok(runner) => runner.examine(definition).await,
            Err(_) => Ok(()),
        }
    }

    /// What a component says of itself, before it is installed.
    pub async fn read_plugin(&self, component: Vec<u8>) -> Result<ReadPlugin, Fault> {
        self.runners.of_plugins()?.read_plugin(component).await
    }

    /// Tells whoever runs plug-ins that one was removed.
    pub async fn forget_plugin(&self, digest: Digest) {
        if let Ok(runner) = self.runners.of_plugins() {
            runner.forget_plugin(digest).await;
        }
    }

    /// Ends what runners started, when the program ends.
    pub async fn close_runners(&self) {
        self.runners.close().await;
    }

    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// The key from which the ids of a run's calls are made.
    pub(crate) async fn run_key(&self, tenant: TenantId, run: RunId) -> Result<RunKey, Fault> {
        let key = match self.0.keyring.loaded(Purpose::Tenant, Some(tenant)) {
            Some(key) => key,
            None => self.0.keyring.key(Purpose::Tenant, Some(tenant)).await?,
        };
        Ok(RunKey::derive(&key, run))
    }
}
