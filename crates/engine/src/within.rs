//! Calls that a running call makes: each goes the whole path, as whoever made the outer one, in a run of their own.
//!
//! Invariant: what is asked here has no right that its caller lacks; being a step of something allowed allows nothing.
//! Deliberately absent: a way to make a call outlive the one that it is a step of. What still waits when the run is ended
//! is taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolgate_contracts::call::{RunState, WAIT_S_MAX};
use toolgate_contracts::{CallRequest, Caller, Envelope, Fault, FaultKind, InputRequest, NewQuestion, RunId};

use crate::call::Call;
use crate::engine::Engine;
use crate::permit::Permit;
use crate::runs::NewRun;
use crate::submit::Manner;

/// Where the calls of one call are made.
pub struct Within<'a> {
    engine: &'a Engine,
    call: &'a Call,
    run: RunId,
    /// Not ended yet.
    is_open: AtomicBool,
    until: Instant,
}

impl Permit {
    /// A place for calls that this one makes.
    pub async fn within(&self, title: &str) -> Result<Within<'_>, Fault> {
        let call = self.call();
        let engine = self.engine().ok_or_else(|| {
            Fault::new(FaultKind::Unavailable, "there is no gate to ask", "run the tool through the server")
        })?;
        let new = NewRun {
            title: Some(title.to_owned()),
            agent: call.agent.map(|agent| agent.to_string()),
            parent_run_id: call.in_run.then_some(call.run),
            ..NewRun::default()
        };
        let run = Box::pin(engine.open_run(&opener(&call.caller), new)).await?.id;
        let until = Instant::now() + call.timeout;
        Ok(Within { engine, call, run, is_open: AtomicBool::new(true), until })
    }
}

impl Within<'_> {
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Calls a tool and waits for its end, for a person too, as long as the outer call has time.
    pub async fn call(&self, tool: &str, input: Value) -> Result<Envelope, Fault> {
        let Self { engine, call, run, until, .. } = *self;
        let left = until.saturating_duration_since(Instant::now());
        let request = CallRequest {
            run_id: Some(run),
            agent_id: call.agent.map(|agent| agent.to_string()),
            wait: Some(left.as_secs().min(WAIT_S_MAX)),
            timeout_ms: Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1)),
            ..CallRequest::new(tool, input)
        };
        let manner = if call.examining { Manner::Examining } else { Manner::Step };
        // Its own type goes through here again where a step has steps.
        let submitted = Box::pin(engine.submit_with(&call.caller, call.source, request, manner));
        let envelope = submitted.await?;
        if envelope.status.is_final() {
            return Ok(envelope);
        }
        // Not to the last moment: somebody has to say what it waited for.
        let until = until.checked_sub(Duration::from_millis(500)).unwrap_or(until);
        engine.when_ended(call.tenant, envelope.id, until).await
    }

    /// Asks people, and waits for their answer as long as the outer call has time. One that nobody answered meanwhile is
    /// as it is then.
    pub async fn ask(&self, question: NewQuestion) -> Result<InputRequest, Fault> {
        let Self { engine, call, run, until, .. } = *self;
        let asker = opener(&call.caller);
        let asked = Box::pin(engine.ask(&asker, run, question)).await?;
        // Not to the last moment: somebody has to say what it waited for.
        let until = until.checked_sub(Duration::from_millis(500)).unwrap_or(until);
        engine.when_answered(&asker, asked.id, until).await
    }

    /// Ends the run of these calls: what waits in it is taken back, and for `cancelled` what runs is asked to stop.
    pub async fn end(&self, state: RunState, reason: Option<&str>) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            end(self.engine, &self.call.caller, self.run, state, reason).await;
        }
    }
}

/// A call that is stopped is dropped where it stands, and what it asked for stops with it.
impl Drop for Within<'_> {
    fn drop(&mut self) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            let (engine, caller, run) = (self.engine.clone(), self.call.caller.clone(), self.run);
            tokio::spawn(async move { end(&engine, &caller, run, RunState::Cancelled, Some("it was stopped")).await });
        }
    }
}

/// Whoever shows a token for one run opens and ends what is below it all the same: the run is ours, not theirs.
fn opener(caller: &Caller) -> Caller {
    Caller { token: None, ..caller.clone() }
}

async fn end(engine: &Engine, caller: &Caller, run: RunId, state: RunState, reason: Option<&str>) {
    let reason = reason.map(|reason| reason.chars().take(200).collect::<String>());
    if let Err(fault) = Box::pin(engine.end_run(&opener(caller), run, state, reason.as_deref())).await {
        tracing::warn!(%run, "the run of a call's calls is not ended: {}", fault.told());
    }
}
