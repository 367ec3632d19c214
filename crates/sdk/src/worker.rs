//! Serving tools: a process of one's own that leases calls, carries them out and reports.
//!
//! A lease is never let go of by accident: a request for work is always waited for, since the server may have answered
//! it already; and a report that nobody acknowledged is sent again until the lease is surely over.
//!
//! Deliberately absent: a way to give work back. What was leased is carried out, or ends as an error of the tool.

mod gate;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Definition, ErrorCode, Fault, FaultKind, ToolError, ToolResult};

use self::gate::{Answer, Backoff, Gate, Leased};
use crate::context::{SAID_BYTES_MAX, Said, ToolContext};
use crate::tool::{Erased, Tool};

/// Long enough to cost little, short enough that a worker that is told to end does so soon.
const LEASE_WAIT_S: u64 = 5;
/// A lease holds for a minute; so often the server also hears what the tool says, and tells who wants it stopped.
const BEAT_EVERY: Duration = Duration::from_secs(5);
const SAID_EVERY: Duration = Duration::from_millis(250);
const PARALLEL_DEFAULT: usize = 4;

/// A process that carries out calls.
///
/// ```no_run
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolgate_sdk::{NoInput, Tool, ToolContext, ToolError, ToolResult};
/// # #[derive(Serialize, JsonSchema)]
/// # struct Rung { rung: bool }
/// # struct RingBell;
/// # impl Tool for RingBell {
/// #     type Input = NoInput;
/// #     type Output = Rung;
/// #     const NAME: &'static str = "ringBell";
/// #     const DESCRIPTION: &'static str = "Rings. Use it when somebody should come. Do not use it at night.";
/// #     async fn execute(&self, _: NoInput, _: &ToolContext) -> Result<ToolResult, ToolError> {
/// #         Self::done(&Rung { rung: true })
/// #     }
/// # }
/// use toolgate_sdk::worker::Worker;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     Worker::from_env()?.tool(RingBell)?.serve().await?;
///     Ok(())
/// }
/// ```
pub struct Worker {
    url: String,
    key: String,
    parallel: usize,
    tools: HashMap<String, Served>,
}

struct Served {
    definition: Definition,
    tool: Arc<dyn Erased>,
}

/// Why a worker could not go on: what is wrong, and what to do.
#[derive(Debug)]
pub struct Error(Fault);

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.0.told(), self.0.remedy())
    }
}

impl std::error::Error for Error {}

impl Worker {
    /// `key` has the permission `work.lease`, as keys of the role `service` have.
    pub fn new(url: impl Into<String>, key: impl Into<String>) -> Self {
        let url = url.into().trim_end_matches('/').to_owned();
        Self { url, key: key.into().trim().to_owned(), parallel: PARALLEL_DEFAULT, tools: HashMap::new() }
    }

    /// Takes the address from `TOOLGATE_SERVER` and the key from `TOOLGATE_KEY`.
    #[expect(clippy::disallowed_methods, reason = "a worker has no configuration but its environment")]
    pub fn from_env() -> Result<Self, Error> {
        let read = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| {
                Fault::invalid(format!("{name} is not set"), "set TOOLGATE_SERVER and TOOLGATE_KEY, as for `toolgate`")
            })
        };
        Ok(Self::new(read("TOOLGATE_SERVER")?, read("TOOLGATE_KEY")?))
    }

    /// Adds a tool to those that this process carries out.
    pub fn tool<T: Tool>(mut self, tool: T) -> Result<Self, Error> {
        let definition = T::definition()?;
        self.tools.insert(definition.name.to_string(), Served { definition, tool: Arc::new(tool) });
        Ok(self)
    }

    /// How many calls run at the same time; 4 without it.
    #[must_use]
    pub fn parallel(mut self, calls: usize) -> Self {
        self.parallel = calls.max(1);
        self
    }

    /// Serves until the process is told to end (SIGINT, SIGTERM), then finishes what it has taken.
    pub async fn serve(self) -> Result<(), Error> {
        self.serve_until(told_to_end()).await
    }

    /// Serves until `stop`, then finishes what it has taken.
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let gate = Arc::new(Gate::new(&self.url, &self.key)?);
        let stopping = CancellationToken::new();
        let work = self.work(gate, stopping.clone());
        tokio::pin!(stop, work);
        tokio::select! {
            ended = &mut work => return ended,
            () = &mut stop => stopping.cancel(),
        }
        work.await
    }

    async fn work(self, gate: Arc<Gate>, stopping: CancellationToken) -> Result<(), Error> {
        for served in self.tools.values() {
            register(&gate, &served.definition, &stopping).await?;
        }
        let mut names: Vec<&String> = self.tools.keys().collect();
        names.sort();
        let body = json!({"tools": names, "wait": LEASE_WAIT_S});
        tracing::info!("serving {names:?} for {}", self.url);
        let places = Arc::new(Semaphore::new(self.parallel));
        let mut running = JoinSet::new();
        let mut backoff = Backoff::default();
        while !stopping.is_cancelled() {
            while running.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
            match gate.post("work/lease", &body).await {
                Answer::Nothing => backoff = Backoff::default(),
                Answer::Value(value) => {
                    backoff = Backoff::default();
                    let leased: Leased = toolgate_contracts::json::decode(value).map_err(Fault::from)?;
                    let Some(served) = self.tools.get(&leased.call.name) else {
                        return Err(Fault::internal(format!("work of `{}`, not asked for", leased.call.name)).into());
                    };
                    let (gate, tool) = (Arc::clone(&gate), Arc::clone(&served.tool));
                    running.spawn(async move {
                        carry_out(&gate, tool, leased).await;
                        drop(place);
                    });
                }
                Answer::Refused(fault) if !may_change(fault.kind()) => return Err(fault.into()),
                Answer::Refused(fault) | Answer::Unreached(fault) => {
                    tracing::warn!("no work: {}; {}", fault.told(), fault.remedy());
                    backoff.wait(&stopping).await;
                }
            }
        }
        while running.join_next().await.is_some() {}
        Ok(())
    }
}

/// What an operator or the time may change while a worker runs; a wrong key stays wrong.
fn may_change(kind: FaultKind) -> bool {
    !matches!(kind, FaultKind::Unauthenticated | FaultKind::Forbidden | FaultKind::Invalid)
}

/// Registers the definition where the key may; elsewhere somebody else has done so.
async fn register(gate: &Gate, definition: &Definition, stopping: &CancellationToken) -> Result<(), Error> {
    let body = json!({"definition": definition, "apply": true});
    let mut backoff = Backoff::default();
    loop {
        match gate.post("tools", &body).await {
            Answer::Value(registered) => {
                tracing::info!("{} {}: {}", definition.name, registered["version"], registered["action"]);
                return Ok(());
            }
            Answer::Nothing => return Ok(()),
            Answer::Refused(fault) if fault.kind() == FaultKind::Forbidden => {
                tracing::info!("{} is taken as it is registered: the key may not register tools", definition.name);
                return Ok(());
            }
            Answer::Refused(fault) if !matches!(fault.kind(), FaultKind::Unavailable | FaultKind::RateLimited) => {
                return Err(fault.into());
            }
            Answer::Refused(fault) | Answer::Unreached(fault) => {
                tracing::warn!("cannot register: {}; {}", fault.told(), fault.remedy());
                backoff.wait(stopping).await;
                if stopping.is_cancelled() {
                    return Ok(());
                }
            }
        }
    }
}

/// Runs one call, says meanwhile that it is alive, and reports.
async fn carry_out(gate: &Gate, tool: Arc<dyn Erased>, leased: Leased) {
    let Leased { lease_id, call, context } = leased;
    let ctx = ToolContext {
        auth: context.secrets.into_iter().collect(),
        tenant_id: context.tenant_id,
        call_id: call.call_id,
        principal: context.principal,
        agent_id: context.agent_id,
        cancel: CancellationToken::new(),
        said: Said::default(),
    };
    let mut run = {
        let ctx = ctx.clone();
        // In a task of its own: a tool that panics ends its call, not the worker.
        tokio::spawn(async move { tool.run(call.input, &ctx).await })
    };
    let beat = format!("work/{lease_id}/heartbeat");
    let mut last = tokio::time::Instant::now();
    let ended = loop {
        let said = tokio::select! {
            ended = &mut run => break ended,
            () = tokio::time::sleep(SAID_EVERY) => ctx.said.take(),
        };
        if said.is_empty() && last.elapsed() < BEAT_EVERY {
            continue;
        }
        last = tokio::time::Instant::now();
        match gate.post(&beat, &beat_of(&said)).await {
            Answer::Value(kept) if kept["cancel_requested"] == true => ctx.cancel(),
            Answer::Refused(fault) if fault.kind() == FaultKind::Conflict => {
                // Nobody waits for it any more, and nobody would take its report.
                tracing::warn!("{} was lost: {}", call.name, fault.told());
                ctx.cancel();
                let _ = run.await;
                return;
            }
            Answer::Value(_) | Answer::Nothing => {}
            Answer::Refused(fault) | Answer::Unreached(fault) => {
                tracing::warn!("a heartbeat was not heard: {}", fault.told());
            }
        }
    };
    let rest = ctx.said.take();
    if !rest.is_empty() {
        let _ = gate.post(&beat, &beat_of(&rest)).await;
    }
    let report = match ended {
        Ok(ended) => report_of(ended),
        // Where the tool writes, nobody knows how far it came.
        Err(panicked) => {
            let told = format!("the tool stopped unexpectedly: {panicked}");
            let error = ToolError::because(ErrorCode::SandboxError, "exception", told);
            json!({"status": "outcome_unknown", "error": error})
        }
    };
    gate.report(&format!("work/{lease_id}/complete"), &report).await;
}

fn beat_of(said: &str) -> serde_json::Value {
    debug_assert!(said.len() <= SAID_BYTES_MAX);
    if said.is_empty() { json!({}) } else { json!({"output": said}) }
}

fn report_of(ended: Result<ToolResult, ToolError>) -> serde_json::Value {
    match ended {
        Ok(result) => json!({"status": "completed", "result": result}),
        Err(error) => json!({"status": "failed", "error": error}),
    }
}

/// Resolves when the process is told to end.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
