//! PostgreSQL: a pool that reads, one task that writes, and the owner's own connection for migrations.
//!
//! Invariant: whatever reads or writes tenants' rows runs under a role that row policies bind (see `session`).

mod errors;
mod migration;
mod pipeline;
mod session;
pub(crate) mod tls;
mod values;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Client, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::queue::Queue;
use super::{Options, READ_TIMEOUT, SNAPSHOT_TIMEOUT};
use crate::error::Error;
use crate::migrate::MigrationState;
use crate::row::Row;
use crate::scope::Scope;
use crate::statements::Text;
use crate::url;
use crate::value::Value;

use session::Connector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long `close` waits for the writer.
const CLOSE_TIMEOUT: Duration = Duration::from_mins(1);
/// Prepared statements kept per connection; past it all are forgotten.
const STATEMENTS_MAX: usize = 512;

pub(super) struct Postgres {
    pub queue: Queue,
    connector: Connector,
    pool: Pool,
    to_writer: mpsc::UnboundedSender<writer::Message>,
    task: Mutex<Option<JoinHandle<()>>>,
    options: Options,
}

impl Postgres {
    pub async fn open(target: url::Postgres, options: Options) -> Result<Self, Error> {
        let connector = Connector::new(target)?;
        connector.check().await?;
        let manager = Manager::from_config(
            connector.config.clone(),
            connector.tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let begin = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async move { session::begin(client).await.map_err(|error| HookError::message(error.to_string())) })
        });
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .wait_timeout(Some(options.patience))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(CONNECT_TIMEOUT))
            .runtime(Runtime::Tokio1)
            .post_create(begin)
            .build()
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let (to_writer, messages) = mpsc::unbounded_channel();
        let task = tokio::spawn(writer::Writer::new(connector.clone()).run(messages));
        let jobs = to_writer.clone();
        let send = move |job| match jobs.send(writer::Message::Change(job)) {
            Err(mpsc::error::SendError(writer::Message::Change(job))) => Err(job),
            _ => Ok(()),
        };
        let queue = Queue::new(options.queue, options.patience, Box::new(send));
        Ok(Self { queue, connector, pool, to_writer, task: Mutex::new(Some(task)), options })
    }

    /// A connection that is lost under a query is replaced once: reading twice harms nothing.
    pub async fn query(&self, scope: &Scope, text: &Text, parameters: &[Value]) -> Result<Vec<Row>, Error> {
        match self.query_once(scope, text, parameters).await {
            Ok(rows) => rows,
            Err(Lost) => self.query_once(scope, text, parameters).await.unwrap_or_else(|Lost| Err(lost())),
        }
    }

    async fn query_once(
        &self,
        scope: &Scope,
        text: &Text,
        parameters: &[Value],
    ) -> Result<Result<Vec<Row>, Error>, Lost> {
        let lent = match self.pool.get().await {
            Ok(client) => Lent(Some(client)),
            Err(error) => return Ok(Err(errors::of_pool(error))),
        };
        let Some(client) = &lent.0 else { return Err(Lost) };
        let read = tokio::time::timeout(READ_TIMEOUT, read(client, scope, text, parameters)).await;
        lent.after(read)
    }

    /// All in one transaction, which sees what was committed when its first query began.
    pub async fn query_all(&self, scope: &Scope, queries: &[(Arc<Text>, Vec<Value>)]) -> Result<Vec<Vec<Row>>, Error> {
        match self.query_all_once(scope, queries).await {
            Ok(rows) => rows,
            Err(Lost) => self.query_all_once(scope, queries).await.unwrap_or_else(|Lost| Err(lost())),
        }
    }

    async fn query_all_once(
        &self,
        scope: &Scope,
        queries: &[(Arc<Text>, Vec<Value>)],
    ) -> Result<Result<Vec<Vec<Row>>, Error>, Lost> {
        let lent = match self.pool.get().await {
            Ok(client) => Lent(Some(client)),
            Err(error) => return Ok(Err(errors::of_pool(error))),
        };
        let Some(client) = &lent.0 else { return Err(Lost) };
        let read = tokio::time::timeout(SNAPSHOT_TIMEOUT, read_all(client, scope, queries)).await;
        lent.after(read)
    }

    pub async fn migrate(&self) -> Result<MigrationState, Error> {
        let state = migration::migrate(&self.connector, self.options.migrations, &self.options.clock).await?;
        // Connections that were made before the role was do not stay.
        self.pool.retain(|_, _| false);
        let _ = self.to_writer.send(writer::Message::Reconnect);
        self.connector.check().await?;
        Ok(state)
    }

    pub async fn migration_state(&self) -> Result<MigrationState, Error> {
        migration::state(&self.connector, self.options.migrations).await
    }

    pub async fn close(&self) -> Result<(), Error> {
        self.queue.close();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = match task {
            None => Ok(()),
            Some(task) => {
                // Behind every change that was taken.
                let _ = self.to_writer.send(writer::Message::Stop);
                match tokio::time::timeout(CLOSE_TIMEOUT, task).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(Error::Corrupt(format!("the writer ended: {error}"))),
                    Err(_) => Err(Error::Unavailable("the writer does not end".into())),
                }
            }
        };
        self.pool.close();
        ended
    }
}

/// The connection is gone, and must not be used again.
struct Lost;

fn lost() -> Error {
    Error::Unavailable("the connection was lost".into())
}

/// One round trip: the transaction is begun, scoped, read and ended without waiting in between.
async fn read(
    client: &Client,
    scope: &Scope,
    text: &Text,
    parameters: &[Value],
) -> Result<Result<Vec<Row>, Error>, Lost> {
    let statement = match values::prepare(client, &text.postgres).await {
        Ok(statement) => statement,
        Err(error) if pipeline::is_lost(&error) => return Err(Lost),
        Err(error) => return Ok(Err(errors::map(&error))),
    };
    let begin = session::begin_reading(scope);
    let begun = pipeline::send(client.batch_execute(&begin)).await;
    let rows = pipeline::send(values::run(client, &statement, parameters)).await;
    let ended = pipeline::send(client.batch_execute("COMMIT")).await;
    begun.answer().await.map_err(|_| Lost)?;
    let rows = rows.answer().await;
    ended.answer().await.map_err(|_| Lost)?;
    Ok(rows.map(|(_, rows)| rows).map_err(|error| error.mapped()))
}

/// Several queries in one transaction and one snapshot.
async fn read_all(
    client: &Client,
    scope: &Scope,
    queries: &[(Arc<Text>, Vec<Value>)],
) -> Result<Result<Vec<Vec<Row>>, Error>, Lost> {
    client.batch_execute(&session::begin_snapshot(scope)).await.map_err(|_| Lost)?;
    let rows = read_each(client, queries).await;
    client.batch_execute("COMMIT").await.map_err(|_| Lost)?;
    rows
}

async fn read_each(client: &Client, queries: &[(Arc<Text>, Vec<Value>)]) -> Result<Result<Vec<Vec<Row>>, Error>, Lost> {
    let mut all = Vec::with_capacity(queries.len());
    for (text, parameters) in queries {
        let statement = match values::prepare(client, &text.postgres).await {
            Ok(statement) => statement,
            Err(error) if pipeline::is_lost(&error) => return Err(Lost),
            Err(error) => return Ok(Err(errors::map(&error))),
        };
        match values::run(client, &statement, parameters).await {
            Ok((_, rows)) => all.push(rows),
            Err(error) => return Ok(Err(error.mapped())),
        }
    }
    Ok(Ok(all))
}

/// A connection that goes back to the pool only when nothing is under way on it.
struct Lent(Option<Object>);

impl Lent {
    /// Gives it back when its work is done, whatever came of it.
    fn after<T>(
        mut self,
        work: Result<Result<Result<T, Error>, Lost>, tokio::time::error::Elapsed>,
    ) -> Result<Result<T, Error>, Lost> {
        match work {
            Ok(done) => {
                let done = done?;
                drop(self.0.take());
                Ok(done)
            }
            Err(_) => Ok(Err(Error::Unavailable("a query took too long".into()))),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

#[cfg(feature = "testing")]
pub(super) async fn execute_as_owner(target: url::Postgres, sql: &str) -> Result<(), Error> {
    let client = Connector::new(target)?.connect().await?;
    match tokio::time::timeout(READ_TIMEOUT, client.batch_execute(sql)).await {
        Ok(done) => done.map_err(|error| errors::map(&error)),
        Err(_) => Err(Error::Unavailable("a statement took too long".into())),
    }
}
