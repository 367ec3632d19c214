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

use tokio::sync::Semaphore;
use toolgate_engine::Engine;
use toolgate_registry::commands::Registry;

pub use around::{Around, OfCaller};
pub use check::check;
pub use commands::{Saved, Shown, WorkflowAction, refused};
pub use host::{AgentHost, AgentOutcome, AgentStart};
pub use run::{NewWorkflowRun, WorkflowRunView};

/// The workflows of all tenants, and what runs them.
#[derive(Clone)]
pub struct Workflows {
    engine: Engine,
    registry: Arc<Registry>,
    host: Option<Arc<dyn AgentHost>>,
    /// For runs that this replica is at.
    places: Arc<Semaphore>,
}

impl Workflows {
    pub fn new(engine: Engine, registry: Arc<Registry>, host: Option<Arc<dyn AgentHost>>) -> Self {
        Self { engine, registry, host, places: Arc::new(Semaphore::new(run::RUNS_AT_ONCE_MAX)) }
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

    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.places)
    }
}
