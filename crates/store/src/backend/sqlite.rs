//! SQLite in one file: one thread writes, a few connections read, all of them in this process.
//!
//! Write-ahead log: readers never wait for the writer, and see what was committed before they began.

mod errors;
mod file;
mod migration;
mod reader;
mod values;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Options;
use super::queue::{Queue, closed};
use crate::error::Error;
use crate::migrate::MigrationState;
use crate::row::Row;
use crate::statements::Text;
use crate::value::Value;

use reader::Readers;
use writer::Message;

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `close` waits for the writer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Sqlite {
    pub queue: Queue,
    path: PathBuf,
    readers: Arc<Readers>,
    to_writer: mpsc::Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
    options: Options,
    context_changes: Arc<AtomicU64>,
}

impl Sqlite {
    pub async fn open(path: PathBuf, options: Options) -> Result<Self, Error> {
        let opened = path.clone();
        let connection = blocking(move || file::open_writer(&opened)).await?;
        let (to_writer, messages) = mpsc::channel();
        let database = path.clone();
        let context_changes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&context_changes);
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer::run(&connection, &database, &messages, &counted))
            .map_err(|error| Error::Unavailable(format!("cannot start the writer: {error}")))?;
        let jobs = to_writer.clone();
        let send = move |job| match jobs.send(Message::Change(job)) {
            Err(mpsc::SendError(Message::Change(job))) => Err(job),
            _ => Ok(()),
        };
        Ok(Self {
            queue: Queue::new(options.queue, options.patience, Box::new(send)),
            readers: Arc::new(Readers::new(path.clone(), options.connections, options.patience)),
            path,
            to_writer,
            thread: Mutex::new(Some(thread)),
            options,
            context_changes,
        })
    }

    pub fn context_changes(&self) -> Option<u64> {
        let count = self.context_changes.load(Ordering::Acquire);
        count.is_multiple_of(2).then_some(count)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub async fn query(&self, text: Arc<Text>, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.readers.query(text, parameters).await
    }

    pub async fn query_all(&self, queries: Vec<(Arc<Text>, Vec<Value>)>) -> Result<Vec<Vec<Row>>, Error> {
        self.readers.query_all(queries).await
    }

    /// Runs on the writing connection, between two groups.
    async fn on_writer<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let run = move |connection: &Connection| drop(reply.send(run(connection)));
        self.to_writer.send(Message::Run(Box::new(run))).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    pub async fn migrate(&self) -> Result<MigrationState, Error> {
        let (known, clock) = (self.options.migrations, self.options.clock.clone());
        self.on_writer(move |connection| migration::migrate(connection, known, &clock)).await
    }

    pub async fn migration_state(&self) -> Result<MigrationState, Error> {
        let known = self.options.migrations;
        self.on_writer(move |connection| migration::state(connection, known)).await
    }

    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        let (from, to) = (self.path.clone(), to.to_owned());
        blocking(move || file::backup(&from, &to)).await
    }

    pub async fn close(&self) -> Result<(), Error> {
        self.queue.close();
        self.readers.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        // Behind every change that was taken.
        let _ = self.to_writer.send(Message::Stop);
        let joined = blocking(move || thread.join().map_err(|_| Error::Corrupt("the writer panicked".into())));
        match tokio::time::timeout(CLOSE_TIMEOUT, joined).await {
            Ok(joined) => joined,
            Err(_) => Err(Error::Unavailable("the writer does not end".into())),
        }
    }

    #[cfg(feature = "testing")]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), Error> {
        // SQLite takes 0 as a question; its own limit is 2^32 - 2.
        let pages = if pages == 0 { i64::from(u32::MAX - 1) } else { i64::from(pages) };
        self.on_writer(move |connection| {
            let set = connection.pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0));
            set.map(drop).map_err(|error| errors::map(connection, error))
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(run: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(run).await.map_err(|error| Error::Unavailable(error.to_string()))?
}

#[cfg(feature = "testing")]
pub(super) async fn execute_as_owner(path: PathBuf, sql: String) -> Result<(), Error> {
    blocking(move || {
        let connection = file::open_writer(&path)?;
        connection.execute_batch(&sql).map_err(|error| errors::map(&connection, error))
    })
    .await
}
