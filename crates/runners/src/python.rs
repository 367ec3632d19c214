//! The kind `python`: a tenant's code in the sandbox, its input as the dictionary `input`, its result as JSON.
//!
//! Invariant: code reaches the world and reads secrets only by asking for it, and what it gets `host.rs` decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use moka::sync::Cache;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::runner::Python;
use toolgate_contracts::{Definition, Digest, ErrorCode, ToolError};
use toolgate_engine::runner::Need;
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner};
use toolgate_sandbox::{
    Ended, Frame, LimitKind, Limits, Network, Offer, Raised, Sandbox, SandboxRequest, SandboxResult,
};
use toolgate_vault::Redactor;

use crate::expression::other_kind;
use crate::host::Host;

/// What of standard output goes with a result. Only code that no secret reaches has it there.
const PRINTED_CHARS_MAX: usize = 16 * 1024;

/// Only the interpreter that would run it knows whether code is Python, and it is asked where code belongs.
const EXAMINE: &str = include_str!("python/examine.py");
const EXAMINING: Duration = Duration::from_secs(3);
/// Texts of code that were found to be Python.
const SOUND_MAX: u64 = 1_000;

pub struct Snippets {
    sandbox: Sandbox,
    outside: Outside,
    sound: Cache<Digest, ()>,
}

/// What is wrong with code that is no Python.
#[derive(Deserialize)]
struct Unsound {
    kind: String,
    message: String,
    line: u32,
    text: String,
}

impl Snippets {
    pub fn new(sandbox: Sandbox, outside: Outside) -> Self {
        Self { sandbox, outside, sound: Cache::new(SOUND_MAX) }
    }

    /// Runs code that a call brought with it, which reaches nothing: no hosts, no secrets. What it returns, and what it
    /// printed.
    pub async fn compute(
        &self,
        call: &Call,
        code: &str,
        input: &Value,
        wall: Duration,
    ) -> Result<(Value, String), ToolError> {
        let limits = Limits { wall, cpu: wall.min(Limits::default().cpu), ..Limits::default() };
        let request = SandboxRequest {
            code: code.to_owned(),
            input: serde_json::to_vec(input).unwrap_or_default(),
            limits,
            network: Network::Denied,
            tier: call.tool.definition.sandbox.map(Into::into),
            output: None,
        };
        let result = self.result(call, &request).await?;
        let (value, printed) = finished(call, result, &limits, &Redactor::none()).await?;
        Ok((value, printed.chars().take(PRINTED_CHARS_MAX).collect()))
    }

    /// Whether a sandbox of this machine is enough for a tool.
    pub async fn enough_for(&self, definition: &Definition) -> Result<(), ToolError> {
        self.sandbox.enough(definition.sandbox.map(Into::into)).await?;
        Ok(())
    }

    /// Whether code can be run at all. What cannot be found out is found out by running it.
    async fn compile(&self, definition: &Definition, code: &str) -> Result<(), ToolError> {
        let digest = Digest::of(code.as_bytes());
        if self.sound.contains_key(&digest) {
            return Ok(());
        }
        let mut request = SandboxRequest::new(EXAMINE).input(&json!({"code": code}));
        request.limits = Limits { cpu: EXAMINING, wall: EXAMINING, ..Limits::default() };
        request.tier = definition.sandbox.map(Into::into);
        let said = match self.sandbox.run(&request).await?.ended {
            Ended::Finished(Value::Null) => {
                self.sound.insert(digest, ());
                return Ok(());
            }
            Ended::Finished(said) => said,
            _ => return Ok(()),
        };
        let Ok(Unsound { kind, message, line, text }) = serde_json::from_value(said) else { return Ok(()) };
        let told = match line {
            0 => format!("the tool's code is no Python: {kind}: {message}"),
            line => format!("the tool's code is no Python: line {line}: {kind}: {message}"),
        };
        let error = ToolError::because(ErrorCode::ValidationError, "schema", told).with("pointer", "/runner/code");
        if line == 0 {
            return Err(error);
        }
        let frames = vec![Frame { line, function: "<module>".to_owned(), text }];
        Err(error.with("line", line).with("traceback", Raised { kind, message, frames }.traceback()))
    }

    /// Dropping what runs kills it, so cancelling needs no more than that.
    async fn result(&self, call: &Call, request: &SandboxRequest) -> Result<SandboxResult, ToolError> {
        tokio::select! {
            result = self.sandbox.run(request) => Ok(result?),
            () = call.cancel.cancelled() => Err(ToolError::cancelled()),
        }
    }

    async fn execute(&self, permit: Permit) -> Result<Outcome, ToolError> {
        let call = Arc::clone(permit.call());
        let wrote = Arc::new(AtomicUsize::new(0));
        let ended = self.ended(permit, &call, &wrote).await;
        match ended {
            // What it sent may have been acted on: a failure would be tried again.
            Err(error) if wrote.load(Ordering::SeqCst) > 0 => Ok(Outcome::Unknown(error.message)),
            ended => ended,
        }
    }

    async fn ended(&self, permit: Permit, call: &Arc<Call>, wrote: &Arc<AtomicUsize>) -> Result<Outcome, ToolError> {
        let python = python(&call.tool.definition)?;
        let limits = Limits { wall: call.timeout, cpu: call.timeout.min(Limits::default().cpu), ..Limits::default() };
        let redactor = permit.secrets().redactor().clone();
        let request = SandboxRequest {
            code: python.code.clone(),
            input: serde_json::to_vec(call.input.as_ref()).unwrap_or_default(),
            limits,
            network: self.network(permit, python, wrote),
            tier: call.tool.definition.sandbox.map(Into::into),
            output: None,
        };
        let (value, _) = finished(call, self.result(call, &request).await?, &limits, &redactor).await?;
        Ok(Outcome::structured(value))
    }

    fn network(&self, permit: Permit, python: &Python, wrote: &Arc<AtomicUsize>) -> Network {
        if python.hosts.is_empty() && permit.call().tool.definition.secrets.is_empty() {
            return Network::Denied;
        }
        Host::through(self.outside.clone(), permit, python.hosts.clone(), Arc::clone(wrote))
    }
}

impl Runner for Snippets {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.execute(permit).await {
                Ok(outcome) => outcome,
                Err(error) => error.into(),
            }
        })
    }

    /// A machine without a sandbox is well all the same: it refuses what would need one.
    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        Box::pin(async move {
            let told = |offer: &Offer| match &offer.refused {
                None => {
                    let notes = offer.notes.join(", ");
                    format!("`{}` held {} attempts to get out ({notes})", offer.tier, offer.proofs.len())
                }
                Some(why) => format!("`{}`: {why}", offer.tier),
            };
            let offers = self.sandbox.offers().await;
            let found: Vec<String> = offers.iter().map(told).collect();
            // Where code of others can run in none of them, tools of kind `python` do not run at all.
            let is_met = offers.iter().any(|offer| offer.refused.is_none());
            vec![Need { name: "sandbox", found: found.join("; "), is_met }]
        })
    }

    fn examine<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let found = self.compile(definition, &python(definition)?.code).await;
            // Where no code runs it is not looked at, and whoever calls it is told that.
            found.or_else(|error| if error.code == ErrorCode::ValidationError { Err(error) } else { Ok(()) })
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let python = python(definition)?;
            self.enough_for(definition).await?;
            self.compile(definition, &python.code).await
        })
    }
}

fn python(definition: &Definition) -> Result<&Python, ToolError> {
    match &definition.runner {
        toolgate_contracts::Runner::Python(python) => Ok(python),
        _ => Err(other_kind(definition, "python")),
    }
}

/// The value that it returned and what it printed, which is shown as output too. Whole, since the code may have printed a
/// secret: what is too long is cut where the secrets are taken out of it.
pub(crate) async fn finished(
    call: &Call,
    result: SandboxResult,
    limits: &Limits,
    redactor: &Redactor,
) -> Result<(Value, String), ToolError> {
    let is_cut = matches!(result.ended, Ended::Limit(LimitKind::Output));
    let text = |bytes: &[u8]| match String::from_utf8_lossy(bytes) {
        text if is_cut => redactor.redact_beginning(&text),
        text => text.into_owned(),
    };
    let printed = text(&result.stdout) + &text(&result.stderr);
    if !printed.is_empty() {
        call.output.append(&printed).await;
    }
    if is_cut {
        call.output.break_off();
    }
    match result.outcome(limits) {
        Ok(value) => Ok((value, printed)),
        Err(error) if printed.is_empty() => Err(error),
        Err(error) => Err(error.with("printed", printed)),
    }
}
