//! The tier `wasm`: Python as a WebAssembly program, for machines without user namespaces and for tools that demand it.
//!
//! The interpreter is a file that the operator names together with its digest; nothing is fetched, and nothing else is run.
//! Invariant: a fresh machine for each run, which has no folder, no socket, no process and no thread to give.
//! Deliberately absent: a pool, because an interpreter that has begun cannot be copied; a scratch folder, because nothing
//! here could bound one.

mod guest;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Mutex, oneshot};
use toolgate_contracts::Digest;
use wasmtime::{Config, Engine, InstancePre, Module, Store, UpdateDeadline};

use guest::Guest;

use super::kept::Kept;
use super::run::{Clockwork, Work, broke, metered};
use super::said;
use super::streams::Captured;
use crate::dialogue;
use crate::error::SandboxError;
use crate::process::check;
use crate::request::{PythonFile, SandboxRequest, Settings, Tier};
use crate::result::{Ended, LimitKind, SandboxResult, Usage};

const BOOT: &str = concat!("CHANNEL = 0\n", include_str!("../instance.py"), "\n\n", include_str!("python/boot.py"));
/// More than this is no interpreter.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// What Python's own calls may take of the stack, and what its host's may on top.
const STACK_BYTES: usize = 8 * 1024 * 1024;
const WHOLE_STACK_BYTES: usize = 10 * 1024 * 1024;
/// What waits on its way between an instance and us.
const CHANNEL_BYTES: usize = 64 * 1024;
/// What the interpreter may use before it is ready.
const STARTING: Duration = Duration::from_secs(30);

pub struct PythonTier {
    python: PythonFile,
    concurrent: usize,
    has_libraries: bool,
    started: Mutex<Option<Arc<Started>>>,
}

struct Started {
    engine: Engine,
    clockwork: Clockwork,
    interpreter: InstancePre<Guest>,
    version: String,
}

impl PythonTier {
    pub fn new(python: PythonFile, settings: &Settings) -> Self {
        let has_libraries = !settings.libraries.is_empty();
        Self { python, concurrent: settings.concurrent, has_libraries, started: Mutex::default() }
    }

    pub async fn run(&self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        check(&request.limits)?;
        self.started().await?.run(request).await
    }

    /// Finds out what there is, and says it.
    pub async fn about(&self) -> Result<Vec<String>, SandboxError> {
        let started = self.started().await?;
        let mut about = vec![
            format!("Python {} as WebAssembly, `{}`", started.version, self.python.file.display()),
            "no files and no threads".to_owned(),
        ];
        if self.has_libraries {
            about.push("the folders of `libraries` are not seen in it".to_owned());
        }
        Ok(about)
    }

    async fn started(&self) -> Result<Arc<Started>, SandboxError> {
        let mut started = self.started.lock().await;
        if let Some(started) = started.as_ref() {
            return Ok(Arc::clone(started));
        }
        let (python, concurrent) = (self.python.clone(), self.concurrent);
        let loaded = tokio::task::spawn_blocking(move || Started::load(&python, concurrent)).await;
        let refused = |why: String| SandboxError::Start { why };
        let mut found = loaded.map_err(|error| refused(format!("loading ended: {error}")))?.map_err(refused)?;
        found.version = found.asked().await?;
        let found = Arc::new(found);
        *started = Some(Arc::clone(&found));
        Ok(found)
    }
}

impl Started {
    /// Reads the file, and compiles it unless that was done before.
    fn load(python: &PythonFile, concurrent: usize) -> Result<Self, String> {
        let PythonFile { file, sha256, cache } = python;
        let expected: Digest = sha256.parse().map_err(|why| format!("`sha256` of `{}`: {why}", file.display()))?;
        let bytes = read(file)?;
        let digest = Digest::of(&bytes);
        if digest != expected {
            return Err(format!(
                "`{}` is another file than the one that was named: its digest is {digest}",
                file.display()
            ));
        }
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(WHOLE_STACK_BYTES)
            .generate_address_map(false);
        let unfit = |error: wasmtime::Error| format!("`{}` is no Python for us: {}", file.display(), said(&error));
        let engine = Engine::new(&config).map_err(unfit)?;
        let kept = Kept::new(cache.clone(), engine.clone());
        let module = if let Some(module) = kept.module(digest) {
            module
        } else {
            tracing::info!(file = %file.display(), "compiling Python for the tier `wasm`, which takes a while");
            let module = Module::new(&engine, &bytes).map_err(unfit)?;
            kept.keep_module(digest, &module);
            module
        };
        let interpreter = guest::linker(&engine).and_then(|linker| linker.instantiate_pre(&module)).map_err(unfit)?;
        let clockwork = Clockwork::new(engine.clone(), concurrent);
        Ok(Self { engine, clockwork, interpreter, version: String::new() })
    }

    async fn asked(&self) -> Result<String, SandboxError> {
        let result = self.run(&SandboxRequest::new("import sys\nresult = sys.version.split()[0]")).await?;
        match result.ended {
            Ended::Finished(serde_json::Value::String(version)) => Ok(version.chars().take(40).collect()),
            other => Err(SandboxError::Start { why: format!("the interpreter does not tell its version: {other:?}") }),
        }
    }

    async fn run(&self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        let (engine, interpreter, request) = (self.engine.clone(), self.interpreter.clone(), request.clone());
        self.clockwork
            .on_thread(move |abandoned| async move { one(&engine, interpreter, &request, abandoned).await })
            .await?
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("`{}` cannot be read: {error}", file.display());
    if std::fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(format!("`{}` has more than {FILE_BYTES_MAX} bytes", file.display()));
    }
    std::fs::read(file).map_err(failed)
}

/// One run in a machine of its own.
async fn one(
    engine: &Engine,
    interpreter: InstancePre<Guest>,
    request: &SandboxRequest,
    mut abandoned: oneshot::Receiver<()>,
) -> Result<SandboxResult, SandboxError> {
    let limits = &request.limits;
    let captured = Arc::new(Captured::new(limits.output_bytes, request.output.clone()));
    let (mut channel, theirs) = tokio::io::duplex(CHANNEL_BYTES);
    let config = json!({"libraries": [], "preload": []}).to_string();
    let arguments = ["python", "-I", "-S", "-B", "-Xutf8", "-c", BOOT, &config];
    let mut store = Store::new(engine, Guest::new(&arguments, limits, theirs, Arc::clone(&captured)));
    store.limiter(|guest| &mut guest.limiter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));

    let mut cpu = Duration::ZERO;
    let (ended, fate, wall) = {
        let mut work = pin!(work(&mut store, interpreter));
        let starting = std::future::poll_fn(|context| metered(work.as_mut(), context, &mut cpu, STARTING));
        // Neither the time nor the memory that an interpreter takes to begin is the code's.
        let ready = tokio::select! {
            biased;
            ready = dialogue::ready(&mut channel) => ready,
            left = starting => Err(format!("the interpreter ended before it was ready: {left:?}")),
            _ = &mut abandoned => Err("nobody waited for it".to_owned()),
        };
        ready.map_err(|why| SandboxError::Start { why })?;
        cpu = Duration::ZERO;
        let started = Instant::now();
        let mut speak = pin!(dialogue::run(&mut channel, request, Duration::ZERO));
        let mut time = pin!(tokio::time::sleep(limits.wall));
        let mut fate = None;
        let ended = loop {
            let running = std::future::poll_fn(|context| metered(work.as_mut(), context, &mut cpu, limits.cpu));
            // An answer counts before a limit that is reached just then; and one that was given before it left, too.
            tokio::select! {
                biased;
                ended = &mut speak => break ended,
                left = running, if fate.is_none() => match left {
                    Ok(limit @ Ended::Limit(_)) => break Some(limit),
                    left => fate = Some(left),
                },
                () = &mut time => break Some(Ended::Limit(LimitKind::Wall)),
                _ = &mut abandoned => break Some(Ended::Died { how: "nobody waited for it".to_owned() }),
            }
        };
        (ended, fate, started.elapsed())
    };
    let limiter = &store.data().limiter;
    let ended = match (ended, fate) {
        (Some(ended), _) | (None, Some(Ok(ended))) => ended,
        (None, Some(Err(error))) => broke(&error, limiter.refused),
        (None, None) => Ended::Died { how: "it closed its channel".to_owned() },
    };
    let usage = Usage { cpu, wall, peak_memory_bytes: limiter.peak };
    let (stdout, stderr) = captured.take();
    Ok(SandboxResult { tier: Tier::Wasm, ended, stdout, stderr, usage })
}

/// The whole life of an interpreter.
fn work(store: &mut Store<Guest>, interpreter: InstancePre<Guest>) -> Work<'_> {
    Box::pin(async move {
        let instance = interpreter.instantiate_async(&mut *store).await?;
        let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
        let left = start.call_async(&mut *store, ()).await;
        store.data_mut().channel = None;
        left?;
        Ok(Ended::Died { how: "it left with status 0".to_owned() })
    })
}
