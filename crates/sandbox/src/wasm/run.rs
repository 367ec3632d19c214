//! One call of a plug-in: an instance, its limits, and what it came to.
//!
//! An instance runs on a thread that may block, in slices: the engine's clock makes it give way every few milliseconds, and
//! then its processor time is counted and whoever waits for it may have gone.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Semaphore, oneshot};
use toolgate_contracts::guardrail::Finding;
use toolgate_contracts::{ErrorCode, ToolError, json};
use wasmtime::{Engine, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use super::bindings::{Kind, types};
use super::host::State;
use super::streams::{Captured, TooMuch};
use super::{Act, Examined, PluginRequest, Prepared};
use crate::error::SandboxError;
use crate::request::{Limits, Tier};
use crate::result::{Ended, LimitKind, SandboxResult, Usage};

/// How long an instance runs before it gives way.
const SLICE: Duration = Duration::from_millis(5);
/// What one call of the host may carry, whatever else is allowed: a request's body among it.
const CARRIED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How the engine says that it carried more; it has no type for it.
const CARRIED_TOO_MUCH: &str = "fuel allocated for hostcalls";
/// Words of the engine that are passed on. Those of a plug-in are passed on whole, and cut where secrets are taken out of
/// them.
const WORDS_MAX: usize = 2_000;

pub struct Clockwork {
    engine: Engine,
    places: Arc<Semaphore>,
    ticks: Arc<Ticks>,
}

impl Clockwork {
    pub fn new(engine: Engine, concurrent: usize) -> Self {
        let ticks = Arc::new(Ticks { engine: engine.clone(), running: AtomicUsize::new(0), thread: OnceLock::new() });
        Self { engine, places: Arc::new(Semaphore::new(concurrent.max(1))), ticks }
    }

    /// Runs an act in a fresh instance.
    pub async fn run(&self, prepared: &Prepared, request: PluginRequest) -> Result<SandboxResult, SandboxError> {
        let PluginRequest { act, limits, network, log } = request;
        let captured = Arc::new(Captured::new(limits.output_bytes, log));
        let state = State::new(&limits, network, captured);
        let kind = Arc::clone(&prepared.kind);
        self.with_instance(limits, state, move |store| Box::pin(perform(store, kind, act, limits))).await
    }

    /// Gives an instance's store to `work`, on a thread of its own and within the limits.
    pub async fn with_instance(
        &self,
        limits: Limits,
        state: State,
        work: impl FnOnce(&mut Store<State>) -> Work<'_> + Send + 'static,
    ) -> Result<SandboxResult, SandboxError> {
        let engine = self.engine.clone();
        self.on_thread(move |abandoned| async move { within(&engine, limits, state, work, abandoned).await }).await
    }

    /// Gives a place, a thread and the engine's clock to `work`, which is told when nobody waits for it any more.
    pub async fn on_thread<T: Send + 'static, W: Future<Output = T>>(
        &self,
        work: impl FnOnce(oneshot::Receiver<()>) -> W + Send + 'static,
    ) -> Result<T, SandboxError> {
        let gone = |why: String| SandboxError::Start { why };
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|error| gone(error.to_string()))?;
        let running = self.ticks.start()?;
        let (alive, abandoned) = oneshot::channel();
        let handle = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || {
            let _held = (place, running);
            handle.block_on(work(abandoned))
        });
        let result = done.await.map_err(|error| gone(format!("the machine broke: {error}")));
        // Whoever stops waiting drops it before, and what runs ends.
        drop::<oneshot::Sender<()>>(alive);
        result
    }
}

pub type Work<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<Ended>> + Send + 'a>>;

async fn within(
    engine: &Engine,
    limits: Limits,
    state: State,
    work: impl FnOnce(&mut Store<State>) -> Work<'_>,
    abandoned: oneshot::Receiver<()>,
) -> SandboxResult {
    let started = Instant::now();
    let captured = Arc::clone(&state.captured);
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(CARRIED_BYTES_MAX);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));
    let mut cpu = Duration::ZERO;
    let ended = {
        let mut work = pin!(work(&mut store));
        let metered = poll_fn(|context| metered(work.as_mut(), context, &mut cpu, limits.cpu));
        tokio::select! {
            biased;
            ended = metered => ended,
            () = tokio::time::sleep(limits.wall) => Ok(Ended::Limit(LimitKind::Wall)),
            _ = abandoned => Ok(Ended::Died { how: "nobody waited for it".to_owned() }),
        }
    };
    let limiter = &store.data().limiter;
    let ended = ended.unwrap_or_else(|error| broke(&error, limiter.refused));
    let (stdout, stderr) = captured.take();
    let usage = Usage { cpu, wall: started.elapsed(), peak_memory_bytes: limiter.peak };
    SandboxResult { tier: Tier::Wasm, ended, stdout, stderr, usage }
}

/// Polls once, and counts the processor time that it took.
pub fn metered(
    work: Pin<&mut Work<'_>>,
    context: &mut Context<'_>,
    used: &mut Duration,
    most: Duration,
) -> Poll<wasmtime::Result<Ended>> {
    let before = thread_time();
    let polled = work.poll(context);
    *used += thread_time().saturating_sub(before);
    if polled.is_pending() && *used > most {
        return Poll::Ready(Ok(Ended::Limit(LimitKind::Cpu)));
    }
    polled
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

async fn perform(store: &mut Store<State>, kind: Arc<Kind>, act: Act, limits: Limits) -> wasmtime::Result<Ended> {
    let other = |wanted: &str| Ended::Died { how: format!("it is no {wanted}") };
    Ok(match (&*kind, act) {
        (Kind::Tool(tool), Act::Run { input, call, tenant }) => {
            let instance = tool.instantiate_async(&mut *store).await?;
            let context = types::Context { call_id: call.to_string(), tenant_id: tenant.to_string() };
            match instance.call_run(&mut *store, &input, &context).await? {
                Ok(answer) => answered(&answer, &limits),
                Err(error) => Ended::Failed(failed(error)),
            }
        }
        (Kind::Detector(detector), Act::Examine { text, of, settings }) => {
            let instance = detector.instantiate_async(&mut *store).await?;
            let direction = match of {
                Examined::Arguments => types::Direction::Call,
                Examined::Outcome => types::Direction::Outcome,
            };
            let findings = instance.call_examine(&mut *store, &text, direction, settings.as_deref()).await?;
            found(findings)
        }
        (Kind::Tool(_), Act::Examine { .. }) => other("detector"),
        (Kind::Detector(_), Act::Run { .. }) => other("tool"),
    })
}

fn answered(answer: &str, limits: &Limits) -> Ended {
    let most = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX);
    if answer.len() > most {
        return Ended::Limit(LimitKind::Output);
    }
    match json::read(answer.as_bytes(), most) {
        Ok(value) => Ended::Finished(value),
        Err(error) => Ended::Unreadable { why: error.to_string() },
    }
}

fn found(findings: Vec<types::Finding>) -> Ended {
    let reasons: Vec<&str> = findings.iter().map(|finding| finding.reason.as_str()).collect();
    let finding = Finding {
        matched: !findings.is_empty(),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        paths: findings.into_iter().filter_map(|finding| finding.path).take(100).collect(),
    };
    match serde_json::to_value(finding) {
        Ok(value) => Ended::Finished(value),
        Err(error) => Ended::Unreadable { why: error.to_string() },
    }
}

/// What a plug-in says of a failure, as far as it can know.
fn failed(error: types::ToolError) -> ToolError {
    let types::ToolError { code, message, pointer, retry_after_s } = error;
    let (code, reason) = match code {
        types::ErrorCode::ValidationError => (ErrorCode::ValidationError, "schema"),
        types::ErrorCode::Timeout => (ErrorCode::Timeout, "timeout"),
        types::ErrorCode::RateLimit => (ErrorCode::RateLimit, "upstream"),
        types::ErrorCode::AuthRequired => (ErrorCode::AuthRequired, "upstream"),
        types::ErrorCode::ProviderError => (ErrorCode::ProviderError, "upstream_4xx"),
        types::ErrorCode::NetworkError => (ErrorCode::NetworkError, "connect"),
        types::ErrorCode::Exception => (ErrorCode::SandboxError, "exception"),
    };
    let mut error = ToolError::because(code, reason, message);
    error.retry_after_s = retry_after_s.map(u64::from);
    match pointer {
        Some(pointer) => error.with("pointer", pointer),
        None => error,
    }
}

/// How it ended that did not end by itself.
pub fn broke(error: &wasmtime::Error, memory_refused: bool) -> Ended {
    if error.downcast_ref::<TooMuch>().is_some() || error.root_cause().to_string().contains(CARRIED_TOO_MUCH) {
        return Ended::Limit(LimitKind::Output);
    }
    // A runtime that gets no memory gives up in its own way.
    if memory_refused {
        return Ended::Limit(LimitKind::Memory);
    }
    if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        return Ended::Died { how: format!("it left with status {status}") };
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Ended::Died { how: trap.to_string() };
    }
    Ended::Died { how: error.root_cause().to_string().chars().take(WORDS_MAX).collect() }
}

/// The thread that makes instances give way. It sleeps while none runs.
struct Ticks {
    engine: Engine,
    running: AtomicUsize,
    thread: OnceLock<Thread>,
}

/// Something runs as long as this is there.
struct Running(Arc<Ticks>);

impl Ticks {
    fn start(self: &Arc<Self>) -> Result<Running, SandboxError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(self));
        if self.thread.get().is_none() {
            let ticks = Arc::downgrade(self);
            let started = thread::Builder::new().name("wasm-ticks".to_owned()).spawn(move || tick(&ticks));
            let started = started.map_err(SandboxError::broke("starting the clock of plug-ins"))?;
            // Two that start at once are one too many, and do no harm.
            let _ = self.thread.set(started.thread().clone());
        }
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn tick(ticks: &Weak<Ticks>) {
    while let Some(there) = ticks.upgrade() {
        if there.running.load(Ordering::SeqCst) == 0 {
            drop(there);
            thread::park();
        } else {
            there.engine.increment_epoch();
            drop(there);
            thread::sleep(SLICE);
        }
    }
}
