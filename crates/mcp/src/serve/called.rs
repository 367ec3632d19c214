//! `tools/call`: through the one path, and what is said while it runs.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_contracts::runner::Runner;
use toolgate_contracts::{CallId, CallRequest, Caller, Fault, Source, ToolRef};
use toolgate_engine::{AT_HAND, AtHand, Begun, Engine, Running, Soon};
use toolgate_registry::toolset::View;

use super::asking::{Came, State};
use super::logging::Output;
use super::passage::Form;
use super::tools::CALL_TOOL;
use super::{Client, Stream, Surface, result, tasks, text};
use crate::wire::{Request, RpcError};

pub(super) const TOLD_EVERY: Duration = Duration::from_secs(5);
/// From when on a call that runs is handed over as a task, to a client that takes tasks.
const TASK_AFTER: Duration = Duration::from_secs(10);

impl Surface {
    pub(super) async fn call_tool(
        &self,
        client: &Client,
        request: &Request,
        stream: &Stream,
    ) -> Result<Value, RpcError> {
        if let Some(found) = self.find(client, &request.params)? {
            return Ok(found);
        }
        let call = self.call_of(client, &request.params)?;
        if self.is_of_server(client, &call.tool) {
            return Box::pin(self.pass(client, request, call, stream, Form::Tool)).await;
        }
        if let Some(state) = request.params.get("requestState") {
            let State { call: id, .. } = self.open_state(client, &call, state).await?;
            return self.ask(client, &call, id, stream, Came::with_state(&request.params)).await;
        }
        if let Some(id) = self.engine.told_before(&client.caller, &call).await? {
            return self.ask(client, &call, id, stream, Came::Again).await;
        }
        match self.engine.begin_call(&client.caller, Source::Mcp, call.clone(), None).await? {
            Begun::Ended(envelope) => {
                self.output_of(client, envelope.id, stream).tell_rest().await;
                Ok(result::of(&envelope, client.revision))
            }
            Begun::AtHand(at_hand) => {
                let _noted = self.0.in_flight.note(client, &request.id, at_hand.id());
                self.follow(client, &call, at_hand, stream).await
            }
            Begun::Parked(id) => self.ask(client, &call, id, stream, Came::First).await,
        }
    }

    /// Whether a server of others answers it, which may want to ask its client something meanwhile.
    fn is_of_server(&self, client: &Client, name: &str) -> bool {
        let found = || {
            let reference: ToolRef = name.parse().ok()?;
            let snapshot = self.registry.snapshot();
            let registry = snapshot.tenant(client.caller.tenant).ok()?;
            let tool = registry.resolve(&reference, &self.clock.now().day())?;
            Some(matches!(tool.definition.runner, Runner::Mcp(_)))
        };
        found().unwrap_or_default()
    }

    fn call_of(&self, client: &Client, params: &Map<String, Value>) -> Result<CallRequest, RpcError> {
        let (mut name, mut arguments) = named(params)?;
        if client.narrowed.by_search && name == CALL_TOOL {
            let Value::Object(inner) = &arguments else {
                return Err(RpcError::invalid_params("`arguments` is needed"));
            };
            // Under its own name: nothing is decided, asked about or recorded under the name of what called it.
            (name, arguments) = named(inner)?;
        }
        let name = self.meant(client, &name);
        self.is_in_sight(client, &name)?;
        Ok(client.request(name, arguments))
    }

    /// Outside the part of the catalogue that the client came for there is nothing.
    fn is_in_sight(&self, client: &Client, name: &str) -> Result<(), RpcError> {
        if client.narrowed.group.is_none() {
            return Ok(());
        }
        let unknown = || Fault::not_found("tool", name);
        let reference: ToolRef = name.parse().map_err(|_| unknown())?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(client.caller.tenant)?;
        let today = self.clock.now().day();
        let (tool, _) = View::of(registry, &client.caller, &today)?.resolve(&reference)?;
        if client.narrowed.has(registry, &tool) { Ok(()) } else { Err(unknown().into()) }
    }

    /// Waits for the end of a call that runs here, and says how long it takes.
    async fn follow(
        &self,
        client: &Client,
        call: &CallRequest,
        at_hand: AtHand,
        stream: &Stream,
    ) -> Result<Value, RpcError> {
        let id = at_hand.id();
        // In the stateless revision a client that goes away has cancelled; an older one says so.
        let gone = client.revision.is_stateless().then(|| Gone::new(&self.engine, &client.caller, id));
        let mut output = self.output_of(client, id, stream);
        let told = match at_hand.soon(AT_HAND).await {
            Soon::Ended(Ok(ended)) => {
                output.tell_rest().await;
                Ok(result::of(&ended, client.revision))
            }
            Soon::Ended(Err(fault)) => Err(fault.into()),
            Soon::Runs(running) => self.follow_on(client, call, running, &mut output, stream).await,
        };
        if let Some(gone) = gone {
            gone.stay();
        }
        told
    }

    /// The same for one that takes longer.
    async fn follow_on(
        &self,
        client: &Client,
        call: &CallRequest,
        mut running: Running,
        output: &mut Output,
        stream: &Stream,
    ) -> Result<Value, RpcError> {
        let (id, began) = (running.id(), Instant::now());
        loop {
            tokio::select! {
                ended = running.ended() => {
                    let ended = ended?;
                    output.tell_rest().await;
                    return Ok(result::of(&ended, client.revision));
                }
                () = tokio::time::sleep_until(self.next_word(began)) => {}
                () = output.tell() => {}
            }
            let passed = began.elapsed();
            if self.is_for_a_task(client, passed) {
                return self.task(client, id).await;
            }
            if !stream.wants_progress() && passed >= self.patience {
                return self.tell_pending(client, call, id, Came::First).await;
            }
            stream.progress(passed.as_secs_f64(), &format!("running for {} s", passed.as_secs())).await;
        }
    }

    /// When whoever waits is told something next: every few seconds, and when patience ends.
    pub(super) fn next_word(&self, began: Instant) -> Instant {
        let (regular, patience) = (Instant::now() + TOLD_EVERY, began + self.patience);
        if patience > Instant::now() { regular.min(patience) } else { regular }
    }

    /// Whether a call that runs for so long is handed over as a task: before its client would be told to come again.
    pub(super) fn is_for_a_task(&self, client: &Client, passed: Duration) -> bool {
        client.takes_tasks() && passed >= TASK_AFTER.min(self.patience)
    }

    /// Says that it is not over, and remembers to whom.
    pub(super) async fn tell_pending(
        &self,
        client: &Client,
        call: &CallRequest,
        id: CallId,
        came: Came,
    ) -> Result<Value, RpcError> {
        let envelope = self.engine.answer(client.caller.tenant, id).await?;
        if envelope.status.is_final() {
            return self.deliver(client, call, &envelope, came).await;
        }
        self.remember(client, call, id, came).await?;
        Ok(result::pending(&envelope, &self.page_of(id)))
    }

    /// The page on which whoever asked sees how the call stands, and decides if they may.
    pub(super) fn page_of(&self, id: CallId) -> String {
        format!("{}/calls/{id}", (self.address)())
    }

    pub(super) async fn task(&self, client: &Client, id: CallId) -> Result<Value, RpcError> {
        let record = self.engine.readable(&client.caller, &id.to_string()).await?;
        Ok(tasks::created(&record, self.clock.now()))
    }
}

/// A tool, and what it is called with.
pub(super) fn named(params: &Map<String, Value>) -> Result<(String, Value), RpcError> {
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(object @ Value::Object(_)) => object.clone(),
        Some(_) => return Err(RpcError::invalid_params("`arguments` has to be an object")),
    };
    Ok((text(params, "name")?.to_owned(), arguments))
}

/// Cancels a call when nobody waits for it any more.
pub(super) struct Gone {
    engine: Engine,
    caller: Option<Caller>,
    id: CallId,
}

impl Gone {
    pub(super) fn new(engine: &Engine, caller: &Caller, id: CallId) -> Self {
        Self { engine: engine.clone(), caller: Some(caller.clone()), id }
    }

    pub(super) fn stay(mut self) {
        self.caller = None;
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        let (engine, id) = (self.engine.clone(), self.id.to_string());
        tokio::spawn(async move {
            // It may have ended at the same moment.
            if let Err(fault) = engine.cancel(&caller, &id).await {
                tracing::debug!(call = id, "not cancelled: {}", fault.told());
            }
        });
    }
}
