//! The connections that read. A query runs on a thread of its own; whoever stops waiting for it stops it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;

use super::super::queue::closed;
use super::super::{READ_TIMEOUT, SNAPSHOT_TIMEOUT};
use super::{blocking, errors, file, values};
use crate::error::Error;
use crate::row::Row;
use crate::statements::Text;
use crate::value::Value;

pub(super) struct Readers {
    path: PathBuf,
    patience: Duration,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub fn new(path: PathBuf, connections: usize, patience: Duration) -> Self {
        Self { path, patience, places: Arc::new(Semaphore::new(connections)), idle: Mutex::new(Vec::new()) }
    }

    pub async fn query(self: &Arc<Self>, text: Arc<Text>, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        let run = move |connection: &Connection| values::run(connection, &text.sqlite, &parameters);
        self.on_reader(READ_TIMEOUT, run).await.map(|(_, rows)| rows)
    }

    /// All in one transaction, which sees what was committed when its first query began.
    pub async fn query_all(self: &Arc<Self>, queries: Vec<(Arc<Text>, Vec<Value>)>) -> Result<Vec<Vec<Row>>, Error> {
        let run = move |connection: &Connection| {
            // Undone when it is dropped, which is as good as committed: nothing was written.
            let _reading = connection.unchecked_transaction().map_err(|error| errors::map(connection, error))?;
            let read = |(text, parameters): &(Arc<Text>, Vec<Value>)| {
                values::run(connection, &text.sqlite, parameters).map(|(_, rows)| rows)
            };
            queries.iter().map(read).collect()
        };
        self.on_reader(SNAPSHOT_TIMEOUT, run).await
    }

    async fn on_reader<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        run: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let place = match tokio::time::timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(Error::Unavailable("all connections for reading are busy".into())),
        };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = if let Some(connection) = idle {
            connection
        } else {
            let path = self.path.clone();
            blocking(move || file::open_reader(&path)).await?
        };
        let running = Arc::new(Mutex::new(Some(connection.get_interrupt_handle())));
        let _stop = StopOnDrop(Arc::clone(&running));
        let readers = Arc::clone(self);
        let query = blocking(move || {
            let result = run(&connection);
            // From here on nobody interrupts this connection: it may already serve another query.
            running.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A connection that could not leave its transaction would read the past for ever.
            if !readers.places.is_closed() && connection.is_autocommit() {
                readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(place);
            result
        });
        match tokio::time::timeout(limit, query).await {
            Ok(result) => result,
            Err(_) => Err(Error::Unavailable("a query took too long".into())),
        }
    }

    pub fn close(&self) {
        self.places.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Interrupts the query when its caller is gone, by timeout or otherwise; a finished query is left alone.
struct StopOnDrop(Arc<Mutex<Option<InterruptHandle>>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            handle.interrupt();
        }
    }
}
