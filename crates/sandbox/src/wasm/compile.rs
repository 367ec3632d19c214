//! Compiling plug-ins, and keeping what came of it: in memory, and on the disk for the next start.

use std::path::PathBuf;
use std::sync::Arc;

use moka::sync::Cache;
use tokio::sync::Mutex;
use toolgate_contracts::Digest;
use toolgate_contracts::plugin::COMPONENT_BYTES_MAX;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine};

use super::host::State;
use super::kept::Kept;
use super::{Prepared, bindings, said};
use crate::error::SandboxError;

/// Compiled plug-ins in memory.
const KEPT_MAX: u64 = 64;
/// What a plug-in's own calls may take of the stack, and what its host's may on top.
const STACK_BYTES: usize = 1024 * 1024;
const WHOLE_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Clones share everything.
#[derive(Clone)]
pub struct Compiler(Arc<Inner>);

struct Inner {
    engine: Engine,
    linker: Linker<State>,
    known: Cache<Digest, Prepared>,
    kept: Kept,
    /// Compiling takes a processor and a lot of memory: one at a time.
    one: Arc<Mutex<()>>,
}

impl Compiler {
    pub fn new(folder: Option<PathBuf>) -> Result<Self, SandboxError> {
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(WHOLE_STACK_BYTES)
            .generate_address_map(false);
        let start = |error: wasmtime::Error| SandboxError::Start { why: error.to_string() };
        let engine = Engine::new(&config).map_err(start)?;
        let linker = bindings::linker(&engine).map_err(start)?;
        let kept = Kept::new(folder, engine.clone());
        Ok(Self(Arc::new(Inner { engine, linker, known: Cache::new(KEPT_MAX), kept, one: Arc::default() })))
    }

    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub async fn prepared(&self, digest: Digest) -> Result<Option<Prepared>, SandboxError> {
        if let Some(known) = self.0.known.get(&digest) {
            return Ok(Some(known));
        }
        self.on_thread(move |inner| Ok(inner.kept(digest))).await
    }

    pub async fn prepare(&self, component: Vec<u8>) -> Result<Prepared, SandboxError> {
        if component.len() > COMPONENT_BYTES_MAX {
            let (what, bytes, max) = ("the component", component.len(), COMPONENT_BYTES_MAX);
            return Err(SandboxError::TooLarge { what, bytes, max });
        }
        // Held by the work itself, which goes on when whoever asked for it has gone.
        let one = Arc::clone(&self.0.one).lock_owned().await;
        self.on_thread(move |inner| {
            let _one = one;
            let digest = Digest::of(&component);
            match inner.kept(digest) {
                Some(kept) => Ok(kept),
                None => inner.compile(digest, &component),
            }
        })
        .await
    }

    pub async fn forget(&self, digest: Digest) {
        self.0.known.invalidate(&digest);
        let forgotten = self.on_thread(move |inner| {
            inner.kept.forget(digest);
            Ok(())
        });
        if let Err(error) = forgotten.await {
            tracing::warn!(%digest, %error, "a compiled plug-in could not be forgotten");
        }
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(SandboxError::Start { why: format!("compiling ended: {error}") }))
    }
}

impl Inner {
    /// What was compiled before.
    fn kept(&self, digest: Digest) -> Option<Prepared> {
        if let Some(known) = self.known.get(&digest) {
            return Some(known);
        }
        let component = self.kept.component(digest)?;
        self.keep(digest, &component).ok()
    }

    fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<Prepared, SandboxError> {
        let unfit = |why: String| SandboxError::Component { why };
        match bytes {
            [b'\0', b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => {}
            [b'\0', b'a', b's', b'm', ..] => {
                return Err(unfit("it is a WebAssembly module, which is not a component yet".to_owned()));
            }
            _ => return Err(unfit("it is no WebAssembly component, by its first bytes".to_owned())),
        }
        let component = Component::new(&self.engine, bytes).map_err(|error| unfit(said(&error)))?;
        let prepared = self.keep(digest, &component).map_err(unfit)?;
        self.kept.keep_component(digest, &component);
        Ok(prepared)
    }

    fn keep(&self, digest: Digest, component: &Component) -> Result<Prepared, String> {
        let kind = bindings::ready(component, &self.linker)?;
        let prepared = Prepared { digest, kind: Arc::new(kind) };
        self.known.insert(digest, prepared.clone());
        Ok(prepared)
    }
}
