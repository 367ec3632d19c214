//! Graphs of tools, agents and questions to people: read, judged, kept and run.
//!
//! `handles`, `fit`, `check`, `pins` and `materialize` are pure: a graph and what is known around it in, values and
//! findings out. Invariant: nothing here starts a tool but through the engine's one path.

pub mod around;
pub mod check;
mod commands;
pub mod file;
pub mod fit;
pub mod handles;
mod host;
pub mod materialize;
pub mod pins;
mod run;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate_engine::Engine;
use toolgate_registry::commands::Registry;

pub use around::{Around, OfCaller};
pub use check::check;
pub use commands::{Saved, Shown, WorkflowAction, refused};
pub use host::{AgentHost, AgentOutcome, AgentStart};
pub use run::{NewWorkflowRun, WorkflowRunView};

/// How long a program that ends waits for what is at hand.
const STOPPING: Duration = Duration::from_secs(2);

/// The workflows of all tenants, and what runs them.
#[derive(Clone)]
pub struct Workflows {
    engine: Engine,
    registry: Arc<Registry>,
    host: Option<Arc<dyn AgentHost>>,
    /// For runs that this replica is at.
    places: Arc<Semaphore>,
    /// Set when the program ends: what is at hand is let go.
    stopping: CancellationToken,
}

impl Workflows {
    pub fn new(engine: Engine, registry: Arc<Registry>, host: Option<Arc<dyn AgentHost>>) -> Self {
        let places = Arc::new(Semaphore::new(run::RUNS_AT_ONCE_MAX));
        Self { engine, registry, host, places, stopping: CancellationToken::new() }
    }

    /// Lets go of every run that is at hand: other replicas, or the next start, take them up. To be called before calls
    /// are told to stop, so that no run takes that for its own failure.
    pub async fn stop(&self) {
        self.stopping.cancel();
        let most = u32::try_from(run::RUNS_AT_ONCE_MAX).unwrap_or(u32::MAX);
        let all = Arc::clone(&self.places).acquire_many_owned(most);
        if tokio::time::timeout(STOPPING, all).await.is_err() {
            tracing::warn!("a workflow does not let go");
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn host(&self) -> Option<&dyn AgentHost> {
        self.host.as_deref()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.places)
    }
}
