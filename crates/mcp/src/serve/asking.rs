//! A call that waits for a person, told in the best way that the client has. Whatever a client answers decides nothing:
//! the decision is looked up in our own record.
//!
//! | client | told by |
//! | --- | --- |
//! | stateless, opens addresses | the page to open, and a sealed state to come back with |
//! | stateless, takes tasks | a task |
//! | 2025-11-25, opens addresses | a question that sends its user to the page, then waiting |
//! | any other | waiting with progress, then `pending`; the same call again attaches |

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_contracts::{CallId, CallRequest, Digest, Envelope, Status, Timestamp, json as strict};

use super::called::TOLD_EVERY;
use super::session::holder;
use super::stream::new_name;
use super::{Client, Stream, Surface, result};
use crate::wire::RpcError;

const STATE_LASTS_S: i64 = 24 * 3600;
/// The one question of a call.
const QUESTION: &str = "approval";

/// How a client comes to a call that was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Its request began the call: nobody else knows of it.
    First,
    /// With the same request as before.
    Again,
    /// With a state, from where the decision is made.
    Back,
    /// With a state, and the word that its user does not want to look now.
    Declined,
}

impl Came {
    /// From a request that brings a state.
    pub(super) fn with_state(params: &Map<String, Value>) -> Self {
        let said =
            params.get("inputResponses").and_then(|given| given.get(QUESTION)).and_then(|said| said.get("action"));
        match said.and_then(Value::as_str) {
            Some("decline" | "cancel") => Self::Declined,
            _ => Self::Back,
        }
    }

    const fn by_state(self) -> bool {
        matches!(self, Self::Back | Self::Declined)
    }
}

/// What a client brings back. It says which call it asks about, and for what; it decides nothing. It may come back with it
/// as often as it likes while the call waits; the result is handed over once, which the database knows
/// ([`toolgate_engine::Engine::take_told`]).
#[derive(Serialize, Deserialize)]
pub(super) struct State {
    pub call: CallId,
    /// Of tool and arguments: a state belongs to what it was given out for.
    asked: Digest,
    until: Timestamp,
}

impl Surface {
    /// Tells a client how a call stands that was begun before, or that waits: by its result, if it has ended.
    pub(super) async fn ask(
        &self,
        client: &Client,
        call: &CallRequest,
        id: CallId,
        stream: &Stream,
        came: Came,
    ) -> Result<Value, RpcError> {
        // Decided by its mode, or by somebody who was quick.
        let envelope = self.engine.answer(client.caller.tenant, id).await?;
        if envelope.status.is_final() {
            return self.deliver(client, call, &envelope, came).await;
        }
        // Whoever does not want to look now may decide later, elsewhere.
        if came == Came::Declined {
            return if client.takes_tasks() {
                self.task(client, id).await
            } else {
                self.tell_pending(client, call, id, came).await
            };
        }
        let waits = envelope.status == Status::Pending;
        if client.revision.is_stateless() {
            if client.opens_addresses() {
                if came == Came::Back
                    && let Some(ended) = self.wait(client, call, id, stream, came).await?
                {
                    return Ok(ended);
                }
                if client.takes_tasks() && came == Came::Back {
                    return self.task(client, id).await;
                }
                return if waits {
                    self.send_to_page(client, call, &envelope, came).await
                } else {
                    self.tell_pending(client, call, id, came).await
                };
            }
            if client.takes_tasks() {
                return self.task(client, id).await;
            }
        } else if client.opens_addresses() && waits {
            return self.ask_in_band(client, call, &envelope, stream, came).await;
        }
        match self.wait(client, call, id, stream, came).await? {
            Some(ended) => Ok(ended),
            None => self.tell_pending(client, call, id, came).await,
        }
    }

    /// So that whoever goes away meanwhile finds it again. A state does not bring back what was handed over.
    pub(super) async fn remember(
        &self,
        client: &Client,
        call: &CallRequest,
        id: CallId,
        came: Came,
    ) -> Result<(), RpcError> {
        if came.by_state() {
            self.engine.remember_still(&client.caller, call, id).await?;
        } else {
            self.engine.remember_told(&client.caller, call, id).await?;
        }
        Ok(())
    }

    /// Hands over what came of a call: to a state once, whoever brings it and however often. What comes after that is told
    /// how the call ended.
    pub(super) async fn deliver(
        &self,
        client: &Client,
        call: &CallRequest,
        envelope: &Envelope,
        came: Came,
    ) -> Result<Value, RpcError> {
        if came.by_state() {
            if !self.engine.take_told(&client.caller, call, envelope.id).await? {
                return Ok(result::delivered(envelope));
            }
        } else {
            self.engine.forget_told(&client.caller, call, envelope.id).await?;
        }
        self.engine.join_read(&client.caller, &envelope.labels, &envelope.name).await?;
        Ok(result::of(envelope, client.revision))
    }

    /// `None`: it has not ended while a client has patience.
    async fn wait(
        &self,
        client: &Client,
        call: &CallRequest,
        id: CallId,
        stream: &Stream,
        came: Came,
    ) -> Result<Option<Value>, RpcError> {
        self.remember(client, call, id, came).await?;
        let mut output = self.output_of(client, id, stream);
        let began = Instant::now();
        while began.elapsed() < self.patience {
            let until = Instant::now() + TOLD_EVERY.min(self.patience.saturating_sub(began.elapsed()));
            let envelope = tokio::select! {
                envelope = self.engine.when_ended(client.caller.tenant, id, until) => envelope?,
                // It tells for ever.
                () = output.tell() => continue,
            };
            if envelope.status.is_final() {
                output.tell_rest().await;
                return self.deliver(client, call, &envelope, came).await.map(Some);
            }
            let passed = began.elapsed();
            stream.progress(passed.as_secs_f64(), &waiting(&envelope, passed, &self.page_of(id))).await;
        }
        Ok(None)
    }

    /// An address to open, and a state to come back with.
    async fn send_to_page(
        &self,
        client: &Client,
        call: &CallRequest,
        envelope: &Envelope,
        came: Came,
    ) -> Result<Value, RpcError> {
        // The client may never come back with it, and ask anew instead.
        self.remember(client, call, envelope.id, came).await?;
        let asked = asked(call);
        let state = State { call: envelope.id, asked, until: self.clock.now().plus_seconds(STATE_LASTS_S) };
        let bytes = serde_json::to_vec(&state).map_err(toolgate_contracts::Fault::internal)?;
        let sealed = self.sealer().await?.seal(&context(client), &bytes);
        Ok(json!({
            "resultType": "input_required",
            "inputRequests": {QUESTION: {
                "method": "elicitation/create",
                "params": {"mode": "url", "url": self.page_of(envelope.id), "message": question(envelope)},
            }},
            "requestState": sealed,
        }))
    }

    /// What a client brought back, if it was given out to this one for this call.
    pub(super) async fn open_state(
        &self,
        client: &Client,
        call: &CallRequest,
        state: &Value,
    ) -> Result<State, RpcError> {
        let refused = || {
            RpcError::invalid_params(
                "`requestState` was not given out for this call, or is too old; call again without it",
            )
        };
        let text = state.as_str().ok_or_else(refused)?;
        let bytes = self.sealer().await?.open(&context(client), text).ok_or_else(refused)?;
        let state: State = serde_json::from_slice(&bytes).map_err(|_| refused())?;
        let holds = state.until > self.clock.now() && state.asked == asked(call);
        if holds { Ok(state) } else { Err(refused()) }
    }

    /// Sends the client's user to the page by a question on the request's own stream, and waits.
    async fn ask_in_band(
        &self,
        client: &Client,
        call: &CallRequest,
        envelope: &Envelope,
        stream: &Stream,
        came: Came,
    ) -> Result<Value, RpcError> {
        let id = envelope.id;
        let params = json!({
            "mode": "url",
            "elicitationId": new_name(&self.clock, &self.rng),
            "url": self.page_of(id),
            "message": question(envelope),
        });
        let params = params.as_object().cloned().unwrap_or_default();
        let mut question = self.questions().ask(stream, &client.caller, &self.rng, "elicitation/create", params).await;
        let refused = async {
            match &mut question {
                Some(question) => match question.answer().await {
                    Some(Ok(answer)) if answer.get("action") == Some(&json!("accept")) => std::future::pending().await,
                    Some(_) => (),
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = self.wait(client, call, id, stream, came) => match ended? {
                Some(ended) => Ok(ended),
                None => self.tell_pending(client, call, id, came).await,
            },
            // Whoever does not want to look now may decide later, elsewhere.
            () = refused => self.tell_pending(client, call, id, came).await,
        }
    }
}

fn waiting(envelope: &Envelope, passed: Duration, page: &str) -> String {
    match envelope.status {
        Status::Pending => format!("waiting {} s for a decision at {page}", passed.as_secs()),
        _ => format!("running for {} s", passed.as_secs()),
    }
}

fn question(envelope: &Envelope) -> String {
    format!("`{}` waits for a person's decision. Open its page to see exactly what would happen.", envelope.name)
}

fn asked(call: &CallRequest) -> Digest {
    strict::digest(&json!({"tool": call.tool, "input": call.input}))
}

fn context(client: &Client) -> String {
    format!("mcp-state/1 {}", holder(&client.caller))
}
