//! How changes reach the one writer, and how their callers are answered.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use toolgate_contracts::TenantId;

use crate::change::{Durability, Expect, Outcome};
use crate::error::Error;
use crate::statements::Text;
use crate::value::Value;

/// Changes in one transaction. The writer takes what is queued when it becomes free and waits for no more.
pub(super) const GROUP_CHANGES_MAX: usize = 256;

pub(super) struct Ready {
    pub text: Arc<Text>,
    pub parameters: Vec<Value>,
    pub expect: Expect,
}

pub(super) struct Work {
    pub tenant: TenantId,
    pub others: Vec<TenantId>,
    pub durability: Durability,
    pub statements: Vec<Ready>,
    /// Whether it changes what callers have seen.
    pub touches_contexts: bool,
}

pub(super) type Answer = Result<Outcome, Error>;

pub(super) struct Job {
    pub work: Work,
    reply: oneshot::Sender<(Answer, Vec<Ready>)>,
    /// The job's place in the queue, free when it is answered.
    _place: OwnedSemaphorePermit,
}

impl Job {
    /// A caller that went away does not hear it. What it wrote goes back to it: memory is cheapest to free where it was
    /// taken, and it is the one writer's time that everybody waits for.
    pub fn answer(self, answer: Answer) {
        let _ = self.reply.send((answer, self.work.statements));
    }
}

/// Hands a job to the writer, or back when there is no writer any more.
type Send = Box<dyn Fn(Job) -> Result<(), Job> + std::marker::Send + Sync>;

pub(super) struct Queue {
    places: Arc<Semaphore>,
    patience: Duration,
    send: Send,
    /// Held while a job is handed over, so that nothing comes behind the stop that follows [`Queue::close`].
    open: RwLock<bool>,
}

impl Queue {
    pub fn new(places: usize, patience: Duration, send: Send) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), patience, send, open: RwLock::new(true) }
    }

    pub async fn submit(&self, work: Work) -> Answer {
        let place = match tokio::time::timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(Error::Unavailable("the queue of changes is full".into())),
        };
        let (reply, answer) = oneshot::channel();
        if !self.hand_over(Job { work, reply, _place: place }) {
            return Err(closed());
        }
        match tokio::time::timeout(super::ANSWER_TIMEOUT, answer).await {
            Ok(Ok((answer, _written))) => answer,
            // The writer ended with the job in its hands.
            Ok(Err(_)) => Err(Error::Unconfirmed("the writer ended".into())),
            Err(_) => Err(Error::Unconfirmed("the writer does not answer".into())),
        }
    }

    fn hand_over(&self, job: Job) -> bool {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        *open && (self.send)(job).is_ok()
    }

    /// From now on nothing is taken.
    pub fn close(&self) {
        self.places.close();
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

pub(super) fn closed() -> Error {
    Error::Unavailable("the store was closed".into())
}
