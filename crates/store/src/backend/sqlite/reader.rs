//! The connections that read. A query runs on a thread of its own; whoever stops waiting for it stops it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;

use super::super::READ_TIMEOUT;
use super::super::queue::closed;
use super::{blocking, file, values};
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
            let result = values::run(&connection, &text.sqlite, &parameters);
            // From here on nobody interrupts this connection: it may already serve another query.
            running.lock().unwrap_or_else(PoisonError::into_inner).take();
            if !readers.places.is_closed() {
                readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(place);
            result.map(|(_, rows)| rows)
        });
        match tokio::time::timeout(READ_TIMEOUT, query).await {
            Ok(rows) => rows,
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
