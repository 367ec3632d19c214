//! PostgreSQL: a few connections that are made when they are needed and closed when they are not, and one statement in a
//! transaction of its own, by the extended protocol.
//!
//! Invariant: a statement that reads runs in a transaction that only reads and is rolled back; one that writes is
//! committed once everything that it gave back was read. So nothing is kept of what failed, and only a commit whose
//! answer was lost is unknown.
//! Invariant: a connection is used again only after everything that a statement may have left in it was cleared.

mod connection;
mod errors;
mod parameters;
mod values;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_postgres::Transaction;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::ToolError;
use toolgate_contracts::sql::judge::Effect;
use toolgate_store::address::PostgresAddress;

use self::connection::{Canceller, Connector, Session};
use super::databases::Work;
use super::table::{Room, Table};
use super::{Failure, busy, timed_out};

/// Connections to one database.
const CONNECTIONS_MAX: usize = 4;
/// A connection that nobody used for this long is closed.
const IDLE_MAX: Duration = Duration::from_mins(1);
/// How long a statement that was told to stop may take to say how it ended.
const STOPPING: Duration = Duration::from_secs(2);
/// What the server may send beyond twice the output. More ends the connection: one value can be larger than the memory.
const BEYOND_OUTPUT_BYTES: usize = 32 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct Postgres(Arc<Inner>);

struct Inner {
    connector: Arc<Connector>,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<(Session, Instant)>>,
}

impl Postgres {
    pub fn new(address: PostgresAddress, password_file: Option<PathBuf>, timeout: Duration) -> Self {
        let connector = Arc::new(Connector::new(address, password_file, timeout));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self(Arc::new(Inner { connector, places, idle: Mutex::default() }))
    }

    pub async fn run(&self, work: &Work, cancel: &CancellationToken) -> Result<Value, Failure> {
        let deadline = Instant::now() + work.timeout;
        let lease = tokio::select! {
            lease = self.lease(work.timeout) => lease?,
            () = cancel.cancelled() => return Err(ToolError::cancelled().into()),
            () = tokio::time::sleep_until(deadline) => return Err(timed_out(work.timeout).into()),
        };
        let mut canceller = lease.canceller();
        let committing = AtomicBool::new(false);
        let mut running = pin!(run_in(lease, work, &committing));
        let stop = tokio::select! {
            ended = running.as_mut() => {
                canceller.is_needed = false;
                return ended;
            }
            () = cancel.cancelled() => ToolError::cancelled(),
            () = tokio::time::sleep_until(deadline) => timed_out(work.timeout),
        };
        // A commit is not stopped: it is soon over, and then it is known how it went.
        if !committing.load(Ordering::SeqCst) {
            canceller.cancel().await;
        }
        match tokio::time::timeout(STOPPING, running).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Unknown(why))) => Err(Failure::Unknown(why)),
            Err(_) if committing.load(Ordering::SeqCst) => {
                Err(Failure::Unknown("the database did not confirm the change in time".to_owned()))
            }
            Ok(Err(Failure::Told(_))) | Err(_) => Err(stop.into()),
        }
    }

    pub async fn explain(&self, work: Work, cancel: &CancellationToken) -> Result<Vec<Value>, Failure> {
        let statement = format!("EXPLAIN {}", work.statement);
        let explained = self.run(&Work { statement, ..work }, cancel).await?;
        let rows = explained["rows"].as_array().into_iter().flatten();
        Ok(rows.filter_map(|row| row.as_object()?.values().next().cloned()).collect())
    }

    /// Whether it answers, and lets us in as somebody who may do little.
    pub async fn ready(&self) -> Result<(), ToolError> {
        let lease = self.lease(connection::CONNECT_TIMEOUT).await?;
        lease.give_back();
        Ok(())
    }

    async fn lease(&self, patience: Duration) -> Result<Lease, ToolError> {
        let place = tokio::time::timeout(patience, Arc::clone(&self.0.places).acquire_owned());
        let Ok(Ok(place)) = place.await else { return Err(busy()) };
        while let Some(session) = self.take_idle() {
            // One that the server closed meanwhile is not the caller's concern.
            if session.client.check_connection().await.is_ok() {
                return Ok(Lease { postgres: self.clone(), session, _place: place });
            }
        }
        let session = self.0.connector.connect().await?;
        Ok(Lease { postgres: self.clone(), session, _place: place })
    }

    fn take_idle(&self) -> Option<Session> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().map(|(session, _)| session)
    }

    fn put_idle(&self, session: Session) {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).push((session, Instant::now()));
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE_MAX).await;
            if let Some(inner) = inner.upgrade() {
                let mut idle = inner.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
            }
        });
    }
}

/// A connection in use, and the place it takes. Dropped, it is closed.
struct Lease {
    postgres: Postgres,
    session: Session,
    _place: OwnedSemaphorePermit,
}

impl Lease {
    fn canceller(&self) -> Canceller {
        self.session.canceller(Arc::clone(&self.postgres.0.connector))
    }

    fn give_back(self) {
        self.postgres.put_idle(self.session);
    }
}

/// Everything from the beginning of the transaction to a connection that may be used again.
async fn run_in(mut lease: Lease, work: &Work, committing: &AtomicBool) -> Result<Value, Failure> {
    let ended = transact(&mut lease.session, work, committing).await;
    if lease.session.clear().await.is_ok() {
        lease.give_back();
    }
    ended
}

async fn transact(session: &mut Session, work: &Work, committing: &AtomicBool) -> Result<Value, Failure> {
    let Session { client, meter, .. } = session;
    meter.allow(work.bounds.bytes_max.saturating_mul(2).saturating_add(BEYOND_OUTPUT_BYTES));
    let told = |error: tokio_postgres::Error| errors::told(&error, work, meter);
    let reads = work.effect == Effect::Reads;
    let transaction = client.build_transaction().read_only(reads).start().await.map_err(told)?;
    let value = fetch(&transaction, work, &told).await?;
    if reads {
        // Dropped, it is rolled back.
        return Ok(value);
    }
    committing.store(true, Ordering::SeqCst);
    match transaction.commit().await {
        Ok(()) => Ok(value),
        Err(error) if error.as_db_error().is_some() => Err(told(error).into()),
        Err(_) => Err(Failure::Unknown("the connection was lost while the change was being kept".to_owned())),
    }
}

async fn fetch(
    transaction: &Transaction<'_>,
    work: &Work,
    told: &impl Fn(tokio_postgres::Error) -> ToolError,
) -> Result<Value, ToolError> {
    let statement = transaction.prepare(&work.statement).await.map_err(told)?;
    for column in statement.columns() {
        values::check(column)?;
    }
    let given = parameters::encode(&statement, work)?;
    let portal = transaction.bind_raw(&statement, given).await.map_err(told)?;
    let columns = statement.columns();
    let mut table = Table::new(columns.iter().map(tokio_postgres::Column::name), work.bounds);
    let mut affected = 0;
    loop {
        // Without columns nothing comes back, and the statement runs to its end at once.
        let wanted = if columns.is_empty() { 0 } else { i32::try_from(table.wanted()).unwrap_or(1) };
        let mut rows = pin!(transaction.query_portal_raw(&portal, wanted).await.map_err(told)?);
        while let Some(row) = rows.try_next().await.map_err(told)? {
            affected += 1;
            let values = values::of(&row)?;
            if table.push(values.into_iter())? == Room::Full && work.effect == Effect::Reads {
                return Ok(table.finish(None));
            }
        }
        if let Some(rows) = rows.rows_affected() {
            let of_change = (work.effect == Effect::Writes).then_some(rows.max(affected));
            return Ok(table.finish(of_change));
        }
    }
}
