//! Running migrations in PostgreSQL as the owner of the tables, one transaction each, under an advisory lock.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use toolgate_contracts::Clock;

use super::super::{Kind, MIGRATION_TIMEOUT};
use super::errors;
use super::session::Connector;
use crate::error::Error;
use crate::migrate::{self, Applied, Migration, MigrationState};

/// `toolgate` in ASCII: one lock per database.
const LOCK: i64 = 0x746f_6f6c_6761_7465;
/// Roles belong to the whole cluster, which the lock does not cover: two databases may make theirs at once.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn state(connector: &Connector, known: &[Migration]) -> Result<MigrationState, Error> {
    let client = connector.connect().await?;
    let found = applied(&client).await.map_err(Failed::mapped)?;
    migrate::state(&found, known, Kind::Postgres)
}

pub(super) async fn migrate(
    connector: &Connector,
    known: &'static [Migration],
    clock: &Clock,
) -> Result<MigrationState, Error> {
    let client = connector.connect().await?;
    let mut tries = 0;
    loop {
        tries += 1;
        match step(&client, known, clock).await {
            Ok(Step::Done(state)) => {
                make_partitions(&client).await;
                return Ok(state);
            }
            Ok(Step::Ran) => tries = 0,
            Err(failed) => {
                // Nothing of it was kept.
                let _ = tokio::time::timeout(TRY_AGAIN, client.batch_execute("ROLLBACK")).await;
                if tries >= TRIES || !failed.is_a_race() {
                    return Err(failed.mapped());
                }
                tokio::time::sleep(TRY_AGAIN * tries).await;
            }
        }
    }
}

/// The partitions of the coming months. Rows of a month without one go to the default partition, so a failure is told
/// and no more.
async fn make_partitions(client: &ClientWrapper) {
    let sql = "DO $$ BEGIN IF to_regprocedure('make_partitions(date, integer)') IS NOT NULL THEN
        PERFORM make_partitions(current_date, 3); END IF; END $$";
    if let Err(error) = client.batch_execute(sql).await {
        tracing::warn!("cannot make the partitions of the coming months: {error}");
    }
}

enum Step {
    Ran,
    Done(MigrationState),
}

enum Failed {
    Database(tokio_postgres::Error),
    /// The text of a migration.
    Text(&'static Migration, tokio_postgres::Error),
    Ours(Error),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl Failed {
    /// Another migration did the same to the cluster at this moment: try again.
    fn is_a_race(&self) -> bool {
        let (Self::Database(error) | Self::Text(_, error)) = self else { return false };
        let Some(database) = error.as_db_error() else { return false };
        let races = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_OBJECT, SqlState::T_R_DEADLOCK_DETECTED];
        races.contains(database.code()) || database.message().contains("concurrently")
    }

    fn mapped(self) -> Error {
        let (error, migration) = match self {
            Self::Ours(error) => return error,
            Self::Database(error) => (error, None),
            Self::Text(migration, error) => (error, Some(migration)),
        };
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return Error::Open {
                message: format!("the user of the database URL may not change the schema: {}", errors::whole(&error)),
                remedy: "migrate as the owner of the database, with CREATEROLE".into(),
            };
        }
        match (errors::map(&error), migration) {
            (Error::Corrupt(message), Some(migration)) => {
                Error::Corrupt(format!("migration {} ({}): {message}", migration.number, migration.name))
            }
            (other, _) => other,
        }
    }
}

/// Under the lock: looks again, since another process may have run it meanwhile, and runs one.
async fn step(client: &ClientWrapper, known: &'static [Migration], clock: &Clock) -> Result<Step, Failed> {
    let limit = MIGRATION_TIMEOUT.as_secs();
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = '{limit}s'; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})"
    );
    within(client.batch_execute(&begin)).await?;
    let found = migrate::state(&applied(client).await?, known, Kind::Postgres)?;
    let Some(migration) = migrate::next(found, known) else {
        within(client.batch_execute("ROLLBACK")).await?;
        return Ok(Step::Done(found));
    };
    within(client.batch_execute(&migrate::spelled(migrate::TABLE, Kind::Postgres))).await?;
    let sql = migration.sql(Kind::Postgres);
    within(client.batch_execute(&sql)).await.map_err(|failed| match failed {
        Failed::Database(error) => Failed::Text(migration, error),
        other => other,
    })?;
    let remember = "INSERT INTO migrations (number, name, checksum, applied_at) VALUES ($1, $2, $3, $4)";
    let (number, checksum, at) = (i64::from(migration.number), migrate::checksum(&sql), clock.now().millis());
    within(client.execute(remember, &[&number, &migration.name, &checksum, &at])).await?;
    within(client.batch_execute("COMMIT")).await?;
    Ok(Step::Ran)
}

async fn applied(client: &ClientWrapper) -> Result<Vec<Applied>, Failed> {
    let exists = within(client.query_one("SELECT to_regclass('migrations') IS NOT NULL", &[])).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(Vec::new());
    }
    let rows = within(client.query(migrate::APPLIED, &[])).await?;
    let row = |row: &tokio_postgres::Row| -> Result<Applied, Failed> {
        let number: i64 = row.try_get(0)?;
        let number = u32::try_from(number).map_err(|_| Error::Corrupt(format!("a migration numbered {number}")))?;
        Ok(Applied { number, checksum: row.try_get(1)? })
    };
    rows.iter().map(row).collect()
}

async fn within<T>(request: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Failed> {
    match tokio::time::timeout(MIGRATION_TIMEOUT, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Unavailable("a migration took too long".into()).into()),
    }
}
