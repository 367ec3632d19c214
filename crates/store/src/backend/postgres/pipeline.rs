//! Sending several requests before the first is answered. PostgreSQL answers in order.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::error::SqlState;

/// A request that is on its way.
pub(super) enum Sent<F: Future> {
    Answered(F::Output),
    Waiting(Pin<Box<F>>),
}

/// Polls once: `tokio-postgres` hands a request to its connection on the first poll.
pub(super) async fn send<F: Future>(request: F) -> Sent<F> {
    let mut request = Box::pin(request);
    match poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await {
        Poll::Ready(answer) => Sent::Answered(answer),
        Poll::Pending => Sent::Waiting(request),
    }
}

impl<F: Future> Sent<F> {
    pub async fn answer(self) -> F::Output {
        match self {
            Self::Answered(answer) => answer,
            Self::Waiting(request) => request.await,
        }
    }
}

/// Whether the connection is gone, so that nothing more will come over it.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(database) => {
            let ending = [
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::IDLE_SESSION_TIMEOUT,
            ];
            ending.contains(database.code()) || database.severity() == "FATAL"
        }
        None => {
            error.is_closed()
                || std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
        }
    }
}
