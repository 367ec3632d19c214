//! The calls of one turn: all through the gate, as many at once as the run may, each with its place in the run.

use futures_util::StreamExt as _;
use serde_json::Value;
use toolgate_contracts::agent::MAX_PARALLEL_DEFAULT;
use toolgate_contracts::{CallId, CallRequest, Envelope, ErrorCode, Fault, FaultKind, ToolError};
use toolgate_engine::Begun;
use toolgate_store::agent_runs::Aside;
use toolgate_store::{Change, Durability};

use super::Host;
use super::drive::{Did, Driven, Left, elsewhere};
use crate::conversation::Proposed;
use crate::told;

/// The reason of a call of a tool that the caller has not got.
const NOT_FOUND: &str = "not_found";

/// What became of one call.
enum Got {
    /// As its record says.
    Recorded(Envelope),
    /// As the model is told, whatever its record says later.
    Aside(Envelope),
    Waits(CallId),
}

impl Host {
    /// `again`: the model asked for them before this replica took the run up, so some may have been made.
    pub(super) async fn call(
        &self,
        driven: &Driven,
        turn: u32,
        proposed: Vec<Proposed>,
        known: &[Aside],
        again: bool,
    ) -> Result<Did<Vec<Envelope>>, Fault> {
        let parallel = driven.plan.limits.max_parallel.unwrap_or(MAX_PARALLEL_DEFAULT).max(1) as usize;
        let got = futures_util::stream::iter(proposed)
            .map(|proposed| async move {
                let seq = proposed.seq;
                match known.iter().find(|aside| aside.seq == seq) {
                    Some(aside) => Ok((seq, Got::Aside(aside.envelope.clone()))),
                    None => Box::pin(self.call_one(driven, proposed, again)).await.map(|got| (seq, got)),
                }
            })
            .buffered(parallel)
            .collect::<Vec<Result<(u32, Got), Fault>>>()
            .await;
        let mut envelopes = Vec::with_capacity(got.len());
        let mut asides = Vec::new();
        let mut waits = None;
        let mut failed = None;
        for one in got {
            match one {
                Ok((_, Got::Recorded(envelope))) => envelopes.push(envelope),
                Ok((seq, Got::Aside(envelope))) => {
                    asides.push(Aside { seq, envelope: envelope.clone() });
                    envelopes.push(envelope);
                }
                Ok((_, Got::Waits(call))) => waits = waits.or(Some(call)),
                Err(fault) => failed = failed.or(Some(fault)),
            }
        }
        // Before anything else, so that nothing that has no record is done twice.
        if asides.len() > known.len() {
            let mut change = Change::new(driven.tenant).durability(Durability::Process);
            change.put_asides((driven.run.id, turn), self.0.engine.replica(), &asides, elsewhere());
            if !self.if_ours(change).await? {
                return Ok(Did::Leaves(Left::Lost));
            }
        }
        Ok(match (failed, waits) {
            (Some(fault), _) => self.failed(driven, fault).await?,
            (None, Some(call)) => Did::Leaves(Left::Waits(call)),
            (None, None) => Did::Done(envelopes),
        })
    }

    async fn call_one(&self, driven: &Driven, proposed: Proposed, again: bool) -> Result<Got, Fault> {
        let engine = &self.0.engine;
        let Proposed { seq, tool, input, .. } = proposed;
        // By its place alone: the tool may have another name by now, and a person may have changed the input.
        if again && let Some(made) = self.0.store.call_at_place(driven.tenant, driven.run.id, seq).await? {
            let envelope = engine.answer(driven.tenant, made).await?;
            return self.stands(driven, envelope).await;
        }
        let input = match input {
            Ok(input) => input,
            Err((text, error)) => return self.unread(driven, seq, &tool, Value::String(text), error).await,
        };
        let request = CallRequest {
            run_id: Some(driven.run.id),
            seq: Some(seq),
            ..CallRequest::new(tool.clone(), input.clone())
        };
        let begun = match engine.begin_hosted(&driven.caller, request).await {
            Ok(begun) => begun,
            // A name that cannot be one.
            Err(fault) if fault.kind() == FaultKind::Invalid && fault.pointer() == Some("/tool") => {
                let error = ToolError::because(ErrorCode::PolicyDenied, NOT_FOUND, fault.told());
                return self.unread(driven, seq, &tool, input, error).await;
            }
            Err(fault) => return Err(fault),
        };
        let envelope = match begun {
            Begun::Ended(envelope) => self.if_gone(driven, &tool, *envelope)?,
            Begun::Parked(id) => engine.answer(driven.tenant, id).await?,
            Begun::AtHand(call) => call.apart().left().await?,
        };
        self.stands(driven, envelope).await
    }

    /// A tool that the model was told of and that is no more: what happened to it is no secret then.
    fn if_gone(&self, driven: &Driven, tool: &str, mut envelope: Envelope) -> Result<Envelope, Fault> {
        let is_unknown = envelope.version.is_empty()
            && envelope.error.as_ref().is_some_and(|error| error.reason() == NOT_FOUND)
            && driven.plan.tools.iter().any(|offered| offered.tool == tool);
        if is_unknown {
            let message = self.gone(driven.tenant, tool)?;
            envelope.error = Some(ToolError::because(ErrorCode::PolicyDenied, NOT_FOUND, message));
        }
        Ok(envelope)
    }

    async fn stands(&self, driven: &Driven, envelope: Envelope) -> Result<Got, Fault> {
        if envelope.version.is_empty() {
            return Ok(Got::Aside(envelope));
        }
        if envelope.status.is_final() {
            return Ok(Got::Recorded(envelope));
        }
        if self.0.engine.goes_on_without(driven.tenant, envelope.id).await? {
            return Ok(Got::Aside(told::pending(envelope)));
        }
        Ok(Got::Waits(envelope.id))
    }

    async fn unread(
        &self,
        driven: &Driven,
        seq: u32,
        tool: &str,
        input: Value,
        error: ToolError,
    ) -> Result<Got, Fault> {
        self.0.engine.refuse_unread(&driven.caller, &driven.run, seq, tool, input, error).await.map(Got::Aside)
    }

    /// The gate did not take a call. Where the run is over or the server is full or stops, that is not the run's fault.
    async fn failed(&self, driven: &Driven, fault: Fault) -> Result<Did<Vec<Envelope>>, Fault> {
        if self.is_ended(driven).await? {
            return Ok(Did::BrokenOff);
        }
        if fault.kind() == FaultKind::Unavailable {
            return Ok(Did::Leaves(Left::Later));
        }
        match fault.kind() {
            FaultKind::Forbidden | FaultKind::NotFound | FaultKind::Conflict | FaultKind::Invalid => {
                Ok(Did::Ends(ToolError::of(&fault)))
            }
            _ => Err(fault),
        }
    }
}
