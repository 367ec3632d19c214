//! The host: it runs agents. A run is opened with its plan, driven until it ends or must wait, left as rows, and taken up
//! again by whichever replica finds it.
//!
//! Read [`drive`](Host) first: it asks the [`Conversation`](crate::Conversation) what comes next and does that.
//! Invariant: what happened is committed before what follows from it begins, so a run that was left anywhere is taken up
//! there: an answered question is not asked again, and a call keeps its place, by which the gate knows that it was made.
//! Deliberately absent: a run in memory while it waits.

mod asking;
mod bundle;
mod calling;
mod drive;
mod due;
mod ending;
mod listening;
mod start;
mod tools;
mod turns;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio_util::sync::CancellationToken;
use toolgate_contracts::{RunId, TenantId};
use toolgate_engine::Engine;
use toolgate_registry::commands::Registry;
use toolgate_store::Store;

pub(crate) use asking::{BYTES_PER_TOKEN, again_of};
pub(crate) use bundle::erased;
pub(crate) use start::BegunBy;
pub use start::{NewAgentRun, PROMPT_BYTES_MAX};
pub use turns::{TURN_TEXT_BYTES_MAX, TurnCall, TurnState, TurnView};
pub use view::{AgentOutcome, AgentRunView, ModelUse};

use crate::models::Models;

#[derive(Clone)]
pub struct Host(Arc<Inner>);

/// A host as long as somebody else has it.
#[derive(Clone)]
pub(crate) struct WeakHost(Weak<Inner>);

impl WeakHost {
    pub fn get(&self) -> Option<Host> {
        self.0.upgrade().map(Host)
    }
}

struct Inner {
    engine: Engine,
    store: Store,
    registry: Arc<Registry>,
    models: Models,
    /// Runs that this replica is at, and how to stop them.
    at: Mutex<HashMap<RunId, CancellationToken>>,
    /// Runs that wait for a call, by what this replica knows: looked at as soon as something happens in them.
    left: Mutex<HashMap<RunId, TenantId>>,
    /// Runs that could not go on, and from when on they are tried again.
    put_off: Mutex<HashMap<RunId, due::PutOff>>,
    /// Where a person sees a run, with `{run_id}` in it.
    traces: OnceLock<String>,
    /// No run is taken up any more.
    stopping: CancellationToken,
}

impl Host {
    pub fn new(engine: Engine, registry: Arc<Registry>, models: Models) -> Self {
        Self(Arc::new(Inner {
            store: engine.store().clone(),
            engine,
            registry,
            models,
            at: Mutex::default(),
            left: Mutex::default(),
            put_off: Mutex::default(),
            traces: OnceLock::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// Where a person sees a run: an address with `{run_id}` in it. Said once, when it is known where this server is.
    pub fn show_at(&self, address: String) {
        let _ = self.0.traces.set(address);
    }

    pub fn models(&self) -> &Models {
        &self.0.models
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// For whoever the host must not keep, nor be kept by.
    pub(crate) fn weak(&self) -> WeakHost {
        WeakHost(Arc::downgrade(&self.0))
    }

    pub(crate) fn traces_url(&self, run: RunId) -> Option<String> {
        self.0.traces.get().map(|address| address.replace("{run_id}", &run.to_string()))
    }

    fn at(&self) -> MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.0.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, HashMap<RunId, TenantId>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_off(&self) -> MutexGuard<'_, HashMap<RunId, due::PutOff>> {
        self.0.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
