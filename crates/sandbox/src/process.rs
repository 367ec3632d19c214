//! The tier `process`: instances forked from a prepared interpreter, some of them waiting ready.

pub mod filter;
pub mod group;
mod instance;
pub mod interpreter;
mod ruleset;
mod zygote;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use instance::Instance;
use interpreter::Interpreter;
use zygote::{Made, Zygote};

use crate::error::SandboxError;
use crate::request::{Limits, SandboxRequest, Settings};
use crate::result::SandboxResult;
use crate::spawner::Spawner;

/// The run that took an instance goes first, and then who waited for it: most runs are shorter than this.
const REFILL_AFTER: Duration = Duration::from_millis(2);

/// From where an instance is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// From those that wait ready, if there is one.
    Ready,
    /// Forked when it is asked for.
    Fresh,
}

pub struct ProcessTier {
    shared: Arc<Shared>,
}

struct Shared {
    spawner: Spawner,
    settings: Settings,
    running: Semaphore,
    started: AsyncMutex<Started>,
    ready: Mutex<Ready>,
}

/// The interpreter, found and started when first needed.
#[derive(Default)]
struct Started {
    interpreter: Option<Interpreter>,
    zygote: Option<Arc<Zygote>>,
}

#[derive(Default)]
struct Ready {
    instances: VecDeque<Instance>,
    /// How many are on their way.
    coming: usize,
}

impl ProcessTier {
    pub fn new(spawner: Spawner, settings: Settings) -> Self {
        let running = Semaphore::new(settings.concurrent.max(1));
        let shared = Shared { spawner, settings, running, started: AsyncMutex::default(), ready: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    pub async fn run(&self, request: &SandboxRequest, warmth: Warmth) -> Result<SandboxResult, SandboxError> {
        let shared = &self.shared;
        check(&request.limits)?;
        let gone = |_| SandboxError::Start { why: "the sandbox is closed".to_owned() };
        let _place = shared.running.acquire().await.map_err(gone)?;
        let scratch_bytes = request.limits.scratch_bytes;
        let kept = warmth == Warmth::Ready && scratch_bytes == shared.settings.limits.scratch_bytes;
        let waiting = if kept { shared.take_ready() } else { None };
        let instance = match waiting {
            Some(instance) => instance,
            None => shared.prepare(scratch_bytes, Made::Asked).await?,
        };
        // A new one is made when this run is over or takes longer than most: until then it has the machine for itself.
        let refill = kept.then(|| Refill(shared));
        let run = instance.run(request);
        tokio::pin!(run);
        let Ok(result) = tokio::time::timeout(REFILL_AFTER, &mut run).await else {
            drop(refill);
            return run.await;
        };
        result
    }

    /// Starts the interpreter, and says which one it is and what it is under.
    pub async fn about(&self) -> Result<Vec<String>, SandboxError> {
        let zygote = self.shared.zygote().await?;
        let started = self.shared.started.lock().await;
        let mut about = Vec::new();
        if let Some(interpreter) = &started.interpreter {
            about.push(format!("Python {} at `{}`", interpreter.version, interpreter.executable.display()));
        }
        about.push(match zygote.landlock {
            version if version >= 6 => format!("Landlock version {version}"),
            0 => "without Landlock: the kernel has none, files are kept by mounts alone".to_owned(),
            version => format!("Landlock version {version}, which knows nothing of signals yet"),
        });
        Ok(about)
    }

    /// Waits until as many instances are ready as are kept.
    pub async fn warm_up(&self) -> Result<(), SandboxError> {
        while self.shared.ready().instances.len() < self.shared.settings.warm {
            let instance = self.shared.prepare(self.shared.settings.limits.scratch_bytes, Made::Ahead).await?;
            self.shared.ready().instances.push_back(instance);
        }
        Ok(())
    }
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_ready(&self) -> Option<Instance> {
        loop {
            let mut instance = self.ready().instances.pop_front()?;
            if instance.is_alive() {
                return Some(instance);
            }
        }
    }

    /// The interpreter; a new one if the last has ended.
    async fn zygote(&self) -> Result<Arc<Zygote>, SandboxError> {
        let mut started = self.started.lock().await;
        if let Some(zygote) = started.zygote.as_ref().filter(|zygote| !zygote.is_over()) {
            return Ok(Arc::clone(zygote));
        }
        let interpreter = match started.interpreter.take() {
            Some(interpreter) => interpreter,
            None => Interpreter::find(&self.spawner, &self.settings).await?,
        };
        let zygote = Zygote::start(&self.spawner, &self.settings, &interpreter).await;
        started.interpreter = Some(interpreter);
        let zygote = zygote?;
        started.zygote = Some(Arc::clone(&zygote));
        Ok(zygote)
    }

    async fn prepare(&self, scratch_bytes: u64, made: Made) -> Result<Instance, SandboxError> {
        let zygote = self.zygote().await?;
        Instance::prepare(zygote, scratch_bytes, made).await
    }
}

/// Puts as many instances on their way as are missing when it is dropped, however the run ended that took one.
struct Refill<'a>(&'a Arc<Shared>);

impl Drop for Refill<'_> {
    fn drop(&mut self) {
        // Outside of a runtime nobody will ask for an instance any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            refill(self.0, &runtime);
        }
    }
}

fn refill(shared: &Arc<Shared>, runtime: &tokio::runtime::Handle) {
    let missing = {
        let mut ready = shared.ready();
        let missing = shared.settings.warm.saturating_sub(ready.instances.len() + ready.coming);
        ready.coming += missing;
        missing
    };
    for _ in 0..missing {
        let shared: Weak<Shared> = Arc::downgrade(shared);
        runtime.spawn(async move {
            // Who had the answer goes on first.
            tokio::time::sleep(REFILL_AFTER).await;
            let Some(shared) = shared.upgrade() else { return };
            let prepared = shared.prepare(shared.settings.limits.scratch_bytes, Made::Ahead).await;
            let mut ready = shared.ready();
            ready.coming -= 1;
            match prepared {
                Ok(instance) => ready.instances.push_back(instance),
                Err(error) => tracing::warn!(%error, "no instance of the sandbox could be made ready"),
            }
        });
    }
}

/// What no run can have, or no kernel can count.
pub fn check(limits: &Limits) -> Result<(), SandboxError> {
    let Limits { cpu, wall, memory_bytes, output_bytes, open_files, processes, scratch_bytes } = *limits;
    let refused = |limit, value: String, why| Err(SandboxError::Limit { limit, value, why });
    if cpu.is_zero() || cpu.as_secs() > 24 * 3600 {
        return refused("cpu", format!("{cpu:?}"), "between a moment and a day are possible");
    }
    if wall.is_zero() || wall.as_secs() > 24 * 3600 {
        return refused("wall", format!("{wall:?}"), "between a moment and a day are possible");
    }
    for (limit, value, least, most) in [
        ("memory_bytes", memory_bytes, 8 << 20, 1 << 40),
        ("output_bytes", output_bytes, 64, 1 << 30),
        ("open_files", open_files, 1, 1 << 16),
        ("processes", processes, 1, 1 << 10),
        ("scratch_bytes", scratch_bytes, 4096, 1 << 40),
    ] {
        if value < least {
            return refused(limit, value.to_string(), "it is too little to run at all");
        }
        if value > most {
            return refused(limit, value.to_string(), "it is more than a limit can be");
        }
    }
    Ok(())
}
