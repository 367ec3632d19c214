//! Graphs of tools, agents and questions to people: read, judged, kept and run.
//!
//! `handles`, `fit`, `check`, `pins` and `materialize` are pure: a graph and what is known around it in, values and
//! findings out. Invariant: nothing here starts a tool but through the engine's one path.

mod allowed;
pub mod around;
pub mod check;
mod commands;
pub mod file;
pub mod fit;
pub mod handles;
mod host;
pub mod materialize;
pub mod pins;
mod publish;
mod run;
mod runner;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::RunId;
use toolgate_engine::Engine;
use toolgate_registry::commands::Registry;

pub use around::{Around, OfCaller};
pub use check::check;
pub use commands::{Saved, Shown, WorkflowAction, refused};
pub use host::{AgentHost, AgentStart};
pub use publish::PublishWorkflow;
pub use run::{NewWorkflowRun, NodesWanted, WorkflowRunView};
pub use runner::PublishedWorkflows;
pub use toolgate_agents::AgentOutcome;

/// How long a program that ends waits for what is at hand.
const STOPPING: Duration = Duration::from_secs(2);

/// The workflows of all tenants, and what runs them.
#[derive(Clone)]
pub struct Workflows(Arc<Inner>);

struct Inner {
    engine: Engine,
    registry: Arc<Registry>,
    host: Option<Arc<dyn AgentHost>>,
    /// For runs that this replica is at.
    places: Arc<Semaphore>,
    /// Runs that this process is at, or will be when there is a place. One that is its replica's and not here was lost
    /// on the way, and is taken up again.
    at: Mutex<HashSet<RunId>>,
    /// Runs that wait, by the run in which something happens when they can go on: looked at as soon as it does.
    left: Mutex<HashMap<RunId, RunId>>,
    /// Runs that could not go on, and until when they are left alone.
    put_off: Mutex<HashMap<RunId, run::PutOff>>,
    /// Whether this replica listens to what happens.
    listening: AtomicBool,
    /// Set when the program ends: what is at hand is let go.
    stopping: CancellationToken,
}

/// Workflows as long as somebody else has them.
#[derive(Clone)]
pub(crate) struct WeakWorkflows(Weak<Inner>);

impl WeakWorkflows {
    pub fn get(&self) -> Option<Workflows> {
        self.0.upgrade().map(Workflows)
    }
}

impl Workflows {
    pub fn new(engine: Engine, registry: Arc<Registry>, host: Option<Arc<dyn AgentHost>>) -> Self {
        Self(Arc::new(Inner {
            engine,
            registry,
            host,
            places: Arc::new(Semaphore::new(run::RUNS_AT_ONCE_MAX)),
            at: Mutex::default(),
            left: Mutex::default(),
            put_off: Mutex::default(),
            listening: AtomicBool::new(false),
            stopping: CancellationToken::new(),
        }))
    }

    /// Lets go of every run that is at hand: other replicas, or the next start, take them up. To be called before calls
    /// are told to stop, so that no run takes that for its own failure.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        let most = u32::try_from(run::RUNS_AT_ONCE_MAX).unwrap_or(u32::MAX);
        let all = Arc::clone(&self.0.places).acquire_many_owned(most);
        if tokio::time::timeout(STOPPING, all).await.is_err() {
            tracing::warn!("a workflow does not let go");
        }
    }

    /// For whoever must not keep them, nor be kept by them.
    pub(crate) fn weak(&self) -> WeakWorkflows {
        WeakWorkflows(Arc::downgrade(&self.0))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(crate) fn host(&self) -> Option<&dyn AgentHost> {
        self.0.host.as_deref()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.places)
    }

    pub(crate) fn at(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.0.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn left(&self) -> MutexGuard<'_, HashMap<RunId, RunId>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put_off(&self) -> MutexGuard<'_, HashMap<RunId, run::PutOff>> {
        self.0.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody listened until now.
    pub(crate) fn begins_to_listen(&self) -> bool {
        !self.0.listening.swap(true, Ordering::Relaxed)
    }
}
