//! What a call writes while it runs, told to clients that asked for it: on the request's own stream, and nowhere else.
//!
//! The stateless revision says the level with each request. An older client sets it for its session; that is kept in the
//! memory of the replica that heard it, and on another, or after a restart, nothing is told, as the protocol allows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use serde_json::{Map, Value, json};
use toolgate_contracts::event::Event;
use toolgate_contracts::{CallId, Caller, Fault};
use toolgate_engine::Engine;
use toolgate_engine::follow::RunFollower;

use super::{Client, Stream, Surface, text};
use crate::wire::{Level, Notification, RpcError};

const SESSIONS_MAX: u64 = 10_000;
const KEPT_FOR: Duration = Duration::from_hours(24);
/// What a program writes to its streams says nothing about how grave it is.
const OF_OUTPUT: Level = Level::Info;

/// The levels that older clients set.
pub(super) struct Levels(Cache<Arc<str>, Level>);

impl Default for Levels {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(SESSIONS_MAX).time_to_idle(KEPT_FOR).build())
    }
}

impl Surface {
    pub(super) fn set_level(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let level: Level = text(params, "level")?.parse().map_err(|()| unknown_level())?;
        if let Some(session) = &client.session {
            self.0.levels.0.insert(Arc::clone(session), level);
        }
        Ok(json!({}))
    }

    /// Whether a client asked to be told of what is this grave.
    pub(crate) fn hears(&self, client: &Client, level: Level) -> bool {
        let asked = if client.revision.is_stateless() {
            client.log_level
        } else {
            client.session.as_ref().and_then(|session| self.0.levels.0.get(session))
        };
        asked.is_some_and(|asked| level >= asked)
    }

    /// The output of a call, for a client that asked for it.
    pub(super) fn output_of(&self, client: &Client, call: CallId, stream: &Stream) -> Output {
        let told = stream.is_open() && self.hears(client, OF_OUTPUT);
        let told = told.then(|| Following {
            engine: self.engine.clone(),
            caller: client.caller.clone(),
            stream: stream.clone(),
            call,
            follower: None,
            tool: String::new(),
            taken: VecDeque::new(),
            is_joined: false,
        });
        Output(told)
    }
}

pub(crate) fn unknown_level() -> RpcError {
    let known: Vec<&str> = Level::ALL.iter().map(|level| level.as_str()).collect();
    RpcError::invalid_params(format!("a level of logs is one of `{}`", known.join("`, `")))
}

/// Nothing, where nobody asked.
pub(super) struct Output(Option<Following>);

struct Following {
    engine: Engine,
    caller: Caller,
    stream: Stream,
    call: CallId,
    follower: Option<RunFollower>,
    tool: String,
    /// Read, and not told yet: the follower does not give it twice.
    taken: VecDeque<Event>,
    /// Whether what was taken is known to have been seen.
    is_joined: bool,
}

impl Output {
    /// Tells what comes, for as long as something may come. Dropped in between, it goes on where it was.
    pub async fn tell(&mut self) {
        if let Some(following) = &mut self.0 {
            loop {
                if let Err(fault) = following.tell_next(true).await {
                    tracing::debug!(call = %following.call, "its output is not told: {}", fault.told());
                    break;
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Tells what is there and was not told, before the answer.
    pub async fn tell_rest(&mut self) {
        let Some(following) = &mut self.0 else { return };
        loop {
            match following.tell_next(false).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    tracing::debug!(call = %following.call, "its output is not told: {}", fault.told());
                    return;
                }
            }
        }
    }
}

impl Following {
    /// Whether anything was there. Dropped at any await it loses nothing: what was read waits in `taken` until it is sent.
    async fn tell_next(&mut self, wait: bool) -> Result<bool, Fault> {
        if self.taken.is_empty() && !self.take(wait).await? {
            return Ok(false);
        }
        // Whoever reads output has seen what is in it.
        if !self.is_joined {
            self.engine.join_streamed(&self.caller, self.taken.iter()).await?;
            self.is_joined = true;
        }
        while let Some(part) = self.taken.front() {
            let params = json!({
                "level": OF_OUTPUT.as_str(),
                "logger": self.tool,
                "data": part.data.get("text").cloned().unwrap_or_default(),
            });
            let params = params.as_object().cloned().unwrap_or_default();
            self.stream.notify(Notification::new("notifications/message", params)).await;
            self.taken.pop_front();
        }
        Ok(true)
    }

    /// Reads on. `false`: nothing is there for the moment.
    async fn take(&mut self, wait: bool) -> Result<bool, Fault> {
        if self.follower.is_none() {
            let envelope = self.engine.answer(self.caller.tenant, self.call).await?;
            self.tool = envelope.name;
            self.follower = Some(self.engine.follow_run(self.caller.tenant, envelope.run_id, 0));
        }
        let Some(follower) = &mut self.follower else { return Ok(false) };
        let events = if wait { follower.next().await? } else { follower.page().await? };
        let is_any = !events.is_empty();
        let parts = events.into_iter().filter(|event| event.call_id == Some(self.call) && event.part.is_some());
        self.taken.extend(parts);
        self.is_joined = self.taken.is_empty();
        Ok(is_any)
    }
}
