//! What a request sends before its answer: how far it is, and where the revision lets a server ask, questions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use toolgate_contracts::{Caller, Id as OurId, Principal, TenantId};

use crate::wire::{Answer, Id, Notification, Request, RpcError, bytes_of};

/// Messages that wait until the client takes them. At the bound whoever sends waits.
const WAITING_MAX: usize = 64;
/// And of how many bytes together; one that is larger waits alone.
const WAITING_BYTES_MAX: u32 = 4 * 1024 * 1024;
/// Questions of this replica that nobody has answered yet.
const OPEN_QUESTIONS_MAX: usize = 10_000;

/// The way back to the client of one request.
#[derive(Clone, Debug)]
pub struct Stream {
    out: Option<mpsc::Sender<(Value, OwnedSemaphorePermit)>>,
    room: Arc<Semaphore>,
    progress: Option<Value>,
}

/// Where the messages of a stream come out.
pub struct Messages(mpsc::Receiver<(Value, OwnedSemaphorePermit)>);

impl Messages {
    /// Of a stream on which nothing comes.
    pub fn none() -> Self {
        Self(mpsc::channel(1).1)
    }

    pub async fn recv(&mut self) -> Option<Value> {
        self.0.recv().await.map(|(message, _)| message)
    }

    pub fn try_recv(&mut self) -> Result<Value, TryRecvError> {
        self.0.try_recv().map(|(message, _)| message)
    }
}

impl Stream {
    /// With where its messages come out.
    pub fn new(request: &Request) -> (Self, Messages) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let stream = Self { out: Some(sender), progress: progress_token(&request.params), ..Self::closed() };
        (stream, Messages(receiver))
    }

    /// For a client that takes nothing but the answer.
    pub fn closed() -> Self {
        Self { out: None, room: Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize)), progress: None }
    }

    pub fn is_open(&self) -> bool {
        self.out.as_ref().is_some_and(|out| !out.is_closed())
    }

    pub async fn notify(&self, notification: Notification) {
        // Nobody may be there any more: then there is nobody to tell.
        let _ = self.send(notification.to_value()).await;
    }

    /// Whether somebody is there who takes it; waits until there is a place for it.
    async fn send(&self, message: Value) -> bool {
        let Some(out) = self.out.as_ref().filter(|out| !out.is_closed()) else { return false };
        let bytes = u32::try_from(bytes_of(&message)).unwrap_or(u32::MAX).min(WAITING_BYTES_MAX);
        // What is not taken any more gives its room back.
        match Arc::clone(&self.room).acquire_many_owned(bytes).await {
            Ok(room) => out.send((message, room)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// By which the client knows what is said of its request's progress.
    pub(crate) fn progress_token(&self) -> Option<&Value> {
        self.progress.as_ref()
    }

    /// Whether the client wants to know how far it is.
    pub fn wants_progress(&self) -> bool {
        self.progress.is_some() && self.out.is_some()
    }

    pub async fn progress(&self, done: f64, message: &str) {
        let Some(token) = &self.progress else { return };
        let params = json!({"progressToken": token, "progress": done, "message": message});
        let params = params.as_object().cloned().unwrap_or_default();
        self.notify(Notification::new("notifications/progress", params)).await;
    }
}

pub(crate) fn progress_token(params: &Map<String, Value>) -> Option<Value> {
    let token = params.get("_meta")?.get("progressToken")?;
    (token.is_string() || token.is_i64() || token.is_u64()).then(|| token.clone())
}

/// Questions that were put to clients of older revisions, and wait for an answer that comes by another request.
#[derive(Clone, Default)]
pub struct Questions(Arc<Mutex<HashMap<String, Open>>>);

struct Open {
    tenant: TenantId,
    principal: Principal,
    answered: oneshot::Sender<Result<Value, RpcError>>,
}

impl Questions {
    /// Sends a question along a request's stream. `None`: it cannot be asked. The receiver hears nothing when the stream
    /// ended first.
    pub async fn ask(
        &self,
        stream: &Stream,
        caller: &Caller,
        rng: &toolgate_contracts::Rng,
        method: &str,
        params: Map<String, Value>,
    ) -> Option<Asked> {
        stream.out.as_ref()?;
        let id = format!("toolgate-{}", data_encoding::BASE64URL_NOPAD.encode(&rng.bytes::<18>()));
        let (sender, receiver) = oneshot::channel();
        {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= OPEN_QUESTIONS_MAX {
                return None;
            }
            let (tenant, principal) = (caller.tenant, caller.principal);
            open.insert(id.clone(), Open { tenant, principal, answered: sender });
        }
        let asked = Asked { questions: self.clone(), id: id.clone(), receiver };
        let request = Request { id: Id::Text(id), method: method.to_owned(), params };
        stream.send(request.to_value()).await.then_some(asked)
    }

    /// Takes what a client sent as an answer. One that was not asked for, or was asked of somebody else, goes nowhere.
    pub fn answered(&self, caller: &Caller, answer: Answer) {
        let Some(Id::Text(id)) = answer.id else { return };
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs =
            open.get(&id).is_some_and(|open| (open.tenant, open.principal) == (caller.tenant, caller.principal));
        if theirs && let Some(open) = open.remove(&id) {
            // Whoever asked may have given up.
            let _ = open.answered.send(answer.outcome);
        }
    }
}

/// A question that was sent. Dropped, it is forgotten.
pub struct Asked {
    questions: Questions,
    id: String,
    receiver: oneshot::Receiver<Result<Value, RpcError>>,
}

impl Asked {
    pub async fn answer(&mut self) -> Option<Result<Value, RpcError>> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.questions.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// A name for something that travels through a client and is looked up here again.
pub(crate) fn new_name(clock: &toolgate_contracts::Clock, rng: &toolgate_contracts::Rng) -> String {
    OurId::<()>::new(clock, rng).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_waits_for_a_slow_reader_is_bounded_in_bytes() {
        let request = Request { id: Id::Number(1), method: "tools/call".to_owned(), params: Map::new() };
        let (stream, mut messages) = Stream::new(&request);
        let params = json!({"data": "x".repeat(1024 * 1024)}).as_object().unwrap().clone();
        let tell = || stream.notify(Notification::new("notifications/message", params.clone()));
        let soon = Duration::from_millis(50);
        let mut sent = 0;
        while tokio::time::timeout(soon, tell()).await.is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 3, "of a little more than a MiB each");
        messages.recv().await.unwrap();
        tokio::time::timeout(soon, tell()).await.unwrap();
        // Nobody waits for one who is gone.
        let mut waiting = std::pin::pin!(tell());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(messages);
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
        assert!(!stream.is_open());
    }
}
