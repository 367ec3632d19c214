//! The kind `wasm`: a plug-in that the operator installed, in a machine of its own.
//!
//! Invariant: what runs has the digest that the definition was pinned to when it was registered, whatever the name means
//! now and whoever may have written to the database since.
//! A plug-in of the world `detector` is a tool as well: its input is what a guardrail gives a detector, its result what a
//! detector answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use toolgate_contracts::guardrail::Stage;
use toolgate_contracts::plugin::{PluginWorld, ReadPlugin};
use toolgate_contracts::runner::Wasm as Definition;
use toolgate_contracts::{Digest, ErrorCode, Fault, FaultKind, ToolError};
use toolgate_engine::runner::Need;
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner};
use toolgate_sandbox::{
    Act, Examined, Limits, Network, OutputSink, PluginRequest, Prepared, SandboxError, SandboxResult, Wasm,
    WasmSettings,
};
use toolgate_store::Store;

use crate::expression::other_kind;
use crate::host::Host;
use crate::python::finished;

pub struct Plugins {
    wasm: Wasm,
    store: Store,
    outside: Outside,
}

impl Plugins {
    pub fn new(wasm: Wasm, store: Store, outside: Outside) -> Self {
        Self { wasm, store, outside }
    }

    /// With compiled plug-ins kept in the data folder.
    pub fn open(data: &Path, store: Store, outside: Outside) -> Result<Self, ToolError> {
        let wasm = Wasm::new(WasmSettings { cache: Some(data.join("plugins")), ..WasmSettings::default() })?;
        Ok(Self::new(wasm, store, outside))
    }

    async fn execute(&self, permit: Permit) -> Result<Outcome, ToolError> {
        let call = Arc::clone(permit.call());
        let wrote = Arc::new(AtomicUsize::new(0));
        match self.ended(permit, &call, &wrote).await {
            // What it sent may have been acted on: a failure would be tried again.
            Err(error) if wrote.load(Ordering::SeqCst) > 0 => Ok(Outcome::Unknown(error.message)),
            ended => ended,
        }
    }

    async fn ended(&self, permit: Permit, call: &Arc<Call>, wrote: &Arc<AtomicUsize>) -> Result<Outcome, ToolError> {
        let definition = wasm(&call.tool.definition)?;
        let prepared = self.prepared(definition).await?;
        let limits = Limits { wall: call.timeout, cpu: call.timeout.min(Limits::default().cpu), ..Limits::default() };
        let (said, mut saying) = tokio::sync::mpsc::unbounded_channel::<String>();
        // Bounded by `output_bytes`, which ends the plug-in.
        let log: OutputSink = Arc::new(move |_, bytes| {
            let _ = said.send(String::from_utf8_lossy(bytes).into_owned());
        });
        let redactor = permit.secrets().redactor().clone();
        let network = self.network(permit, definition, wrote);
        let request = PluginRequest { act: act(call, prepared.world())?, limits, network, log: Some(log) };
        let mut run = std::pin::pin!(self.wasm.run(&prepared, request));
        // Dropping what runs ends it, so cancelling needs no more than that.
        let result: SandboxResult = loop {
            tokio::select! {
                Some(line) = saying.recv() => call.output.append(line).await,
                result = &mut run => break result?,
                () = call.cancel.cancelled() => return Err(ToolError::cancelled()),
            }
        };
        while let Ok(line) = saying.try_recv() {
            call.output.append(line).await;
        }
        let (value, _) = finished(call, result, &limits, &redactor).await?;
        Ok(Outcome::structured(value))
    }

    fn network(&self, permit: Permit, definition: &Definition, wrote: &Arc<AtomicUsize>) -> Network {
        if definition.hosts.is_empty() && permit.call().tool.definition.secrets.is_empty() {
            return Network::Denied;
        }
        Host::through(self.outside.clone(), permit, definition.hosts.clone(), Arc::clone(wrote))
    }

    /// The very bytes that the definition was pinned to, compiled.
    async fn prepared(&self, definition: &Definition) -> Result<Prepared, ToolError> {
        let unfit = |message: String| ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message);
        let name = &definition.plugin;
        let digest =
            definition.digest.ok_or_else(|| unfit(format!("the tool names no version of plug-in `{name}`")))?;
        if let Some(prepared) = self.wasm.prepared(digest).await? {
            return Ok(prepared);
        }
        let component = self.store.plugin_component(digest).await.map_err(|error| {
            tracing::error!(%error, plugin = %name, "a plug-in cannot be read");
            unfit(format!("the plug-in `{name}` cannot be read from the database; try again"))
        })?;
        let component = component.ok_or_else(|| unfit(format!("the plug-in `{name}` is not installed any more")))?;
        if Digest::of(&component) != digest {
            tracing::error!(plugin = %name, %digest, "the component in the database is not the one that was installed");
            return Err(unfit(format!(
                "the plug-in `{name}` is not what was installed; nothing ran, tell the operator"
            )));
        }
        Ok(self.wasm.prepare(component).await?)
    }
}

impl Runner for Plugins {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.execute(permit).await {
                Ok(outcome) => outcome,
                Err(error) => error.into(),
            }
        })
    }

    fn ready<'a>(&'a self, definition: &'a toolgate_contracts::Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { self.prepared(wasm(definition)?).await.map(drop) })
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        let found = "a machine of their own, and nothing of this one".to_owned();
        Box::pin(std::future::ready(vec![Need { name: "plug-ins", found, is_met: true }]))
    }

    fn read_plugin(&self, component: Vec<u8>) -> BoxFuture<'_, Result<ReadPlugin, Fault>> {
        Box::pin(async move {
            let prepared = self.wasm.prepare(component).await.map_err(|error| refused(&error))?;
            self.wasm.describe(&prepared).await.map_err(|error| refused(&error))
        })
    }

    fn forget_plugin(&self, digest: Digest) -> BoxFuture<'_, ()> {
        Box::pin(self.wasm.forget(digest))
    }
}

fn refused(error: &SandboxError) -> Fault {
    let kind = match error {
        SandboxError::Component { .. } => FaultKind::Invalid,
        SandboxError::TooLarge { .. } => FaultKind::TooLarge,
        _ => FaultKind::Unavailable,
    };
    Fault::new(kind, error.to_string(), error.remedy())
}

fn wasm(definition: &toolgate_contracts::Definition) -> Result<&Definition, ToolError> {
    match &definition.runner {
        toolgate_contracts::Runner::Wasm(wasm) => Ok(wasm),
        _ => Err(other_kind(definition, "wasm")),
    }
}

fn act(call: &Call, world: PluginWorld) -> Result<Act, ToolError> {
    let input = call.input.as_ref();
    match world {
        PluginWorld::Tool => Ok(Act::Run { input: input.to_string(), call: call.id, tenant: call.tenant }),
        PluginWorld::Detector => {
            let unfit = |pointer: &str, what: &str| {
                let message = format!("the plug-in is a detector, and `{}` of its input {what}", &pointer[1..]);
                ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", pointer)
            };
            let value = input.get("value").ok_or_else(|| unfit("/value", "is missing"))?;
            let stage = input.get("stage").and_then(|stage| stage.as_str()?.parse::<Stage>().ok());
            let of = match stage.ok_or_else(|| unfit("/stage", "is neither `TOOL_CALL` nor `TOOL_RESULT`"))? {
                Stage::ToolCall => Examined::Arguments,
                Stage::ToolResult => Examined::Outcome,
            };
            Ok(Act::Examine { text: value.to_string(), of, settings: input.get("config").map(ToString::to_string) })
        }
    }
}
