//! Code in a WebAssembly machine of its own, which makes no system call at all: plug-ins, and Python for the tier `wasm`.
//!
//! Invariant: a fresh instance for each call, so nothing of one call is there in the next.
//! Invariant: of WASI there is what a language's runtime needs to start (clocks, random numbers, its two streams) and
//! nothing that reaches out: no folder, no socket, no environment. What a plug-in reaches, it asks its host for.
//! Deliberately absent: who may install what, and which bytes belong to which name.

mod bindings;
mod compile;
mod describe;
mod host;
mod kept;
mod limiter;
mod python;
mod run;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;

use toolgate_contracts::plugin::{PluginWorld, ReadPlugin};
use toolgate_contracts::{CallId, Digest, TenantId};

use crate::error::SandboxError;
use crate::request::{Limits, Network, OutputSink};
use crate::result::SandboxResult;

use compile::Compiler;
use run::Clockwork;

pub use python::PythonTier;

/// What the operator decides for all plug-ins.
#[derive(Clone, Debug)]
pub struct WasmSettings {
    /// Where compiled plug-ins are kept; without it, they are compiled anew after each start.
    pub cache: Option<PathBuf>,
    /// How many run at once; more wait.
    pub concurrent: usize,
}

impl Default for WasmSettings {
    fn default() -> Self {
        Self { cache: None, concurrent: 8 }
    }
}

/// What a plug-in is asked to do.
#[derive(Clone, Debug)]
pub enum Act {
    /// To run its tool.
    Run {
        /// JSON.
        input: String,
        call: CallId,
        tenant: TenantId,
    },
    /// To examine arguments, or a result.
    Examine {
        /// JSON.
        text: String,
        of: Examined,
        /// JSON, too.
        settings: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    Arguments,
    Outcome,
}

/// One call of a plug-in. Of its limits, those for files and processes say nothing here: there are none.
#[derive(Clone)]
pub struct PluginRequest {
    pub act: Act,
    pub limits: Limits,
    pub network: Network,
    /// Is shown what the plug-in logs, as it comes.
    pub log: Option<OutputSink>,
}

/// A compiled plug-in.
#[derive(Clone)]
pub struct Prepared {
    pub(crate) digest: Digest,
    pub(crate) kind: Arc<bindings::Kind>,
}

impl Prepared {
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn world(&self) -> PluginWorld {
        match *self.kind {
            bindings::Kind::Tool(_) => PluginWorld::Tool,
            bindings::Kind::Detector(_) => PluginWorld::Detector,
        }
    }
}

/// Clones share everything.
#[derive(Clone)]
pub struct Wasm {
    inner: Arc<Inner>,
}

struct Inner {
    compiler: Compiler,
    clockwork: Clockwork,
}

impl Wasm {
    pub fn new(settings: WasmSettings) -> Result<Self, SandboxError> {
        let compiler = Compiler::new(settings.cache)?;
        let clockwork = Clockwork::new(compiler.engine().clone(), settings.concurrent);
        Ok(Self { inner: Arc::new(Inner { compiler, clockwork }) })
    }

    /// A plug-in that was compiled before, by this process or one before it.
    pub async fn prepared(&self, digest: Digest) -> Result<Option<Prepared>, SandboxError> {
        self.inner.compiler.prepared(digest).await
    }

    /// Compiles a plug-in, unless that was done before. One is compiled at a time, the others wait.
    pub async fn prepare(&self, component: Vec<u8>) -> Result<Prepared, SandboxError> {
        self.inner.compiler.prepare(component).await
    }

    /// Forgets a compiled plug-in, on the disk too.
    pub async fn forget(&self, digest: Digest) {
        self.inner.compiler.forget(digest).await;
    }

    /// Asks a plug-in what it is.
    pub async fn describe(&self, prepared: &Prepared) -> Result<ReadPlugin, SandboxError> {
        describe::describe(&self.inner.clockwork, prepared).await
    }

    /// Runs a plug-in. Dropping the future ends what runs.
    pub async fn run(&self, prepared: &Prepared, request: PluginRequest) -> Result<SandboxResult, SandboxError> {
        self.inner.clockwork.run(prepared, request).await
    }
}

/// The whole chain, since the first link alone says little; on one line.
fn said(error: &wasmtime::Error) -> String {
    let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(500).collect()
}
