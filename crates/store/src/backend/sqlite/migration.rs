//! Running migrations in SQLite, one transaction each, on the writing connection.

use rusqlite::Connection;
use toolgate_contracts::Clock;

use super::super::{Kind, MIGRATION_TIMEOUT};
use super::{BUSY_TIMEOUT, errors};
use crate::error::Error;
use crate::migrate::{self, Applied, Migration, MigrationState};

pub(super) fn state(connection: &Connection, known: &[Migration]) -> Result<MigrationState, Error> {
    migrate::state(&applied(connection)?, known, Kind::Sqlite)
}

pub(super) fn migrate(
    connection: &Connection,
    known: &'static [Migration],
    clock: &Clock,
) -> Result<MigrationState, Error> {
    let mapped = |error| errors::map(connection, error);
    connection.busy_timeout(MIGRATION_TIMEOUT).map_err(mapped)?;
    let result = loop {
        match step(connection, known, clock) {
            Ok(Step::Done(state)) => break Ok(state),
            Ok(Step::Ran) => {}
            Err(error) => break Err(error),
        }
    };
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").map_err(mapped)?;
    }
    connection.busy_timeout(BUSY_TIMEOUT).map_err(mapped)?;
    result
}

enum Step {
    Ran,
    Done(MigrationState),
}

/// Under the write lock: looks again, since another process may have run it meanwhile, and runs one.
fn step(connection: &Connection, known: &'static [Migration], clock: &Clock) -> Result<Step, Error> {
    let mapped = |error| errors::map(connection, error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(mapped)?;
    let found = state(connection, known)?;
    let Some(migration) = migrate::next(found, known) else {
        connection.execute_batch("ROLLBACK").map_err(mapped)?;
        return Ok(Step::Done(found));
    };
    if found.applied == 0 {
        refuse_foreign(connection)?;
        connection.execute_batch(&migrate::spelled(migrate::TABLE, Kind::Sqlite)).map_err(mapped)?;
    }
    let sql = migration.sql(Kind::Sqlite);
    connection.execute_batch(&sql).map_err(|error| match mapped(error) {
        Error::Corrupt(message) => {
            Error::Corrupt(format!("migration {} ({}): {message}", migration.number, migration.name))
        }
        other => other,
    })?;
    let remember = "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)";
    let row = (migration.number, migration.name, migrate::checksum(&sql), clock.now().millis());
    connection.execute(remember, row).map_err(mapped)?;
    connection.execute_batch("COMMIT").map_err(mapped)?;
    Ok(Step::Ran)
}

/// A database that holds tables but no history of ours belongs to another program.
fn refuse_foreign(connection: &Connection) -> Result<(), Error> {
    let sql =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'migrations'";
    let tables: i64 =
        connection.query_row(sql, [], |row| row.get(0)).map_err(|error| errors::map(connection, error))?;
    if tables == 0 {
        return Ok(());
    }
    Err(Error::Open {
        message: "the SQLite file belongs to another program".into(),
        remedy: "name another file; this one was not changed".into(),
    })
}

fn applied(connection: &Connection) -> Result<Vec<Applied>, Error> {
    let mapped = |error| errors::map(connection, error);
    let exists = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'";
    if connection.query_row(exists, [], |row| row.get::<_, i64>(0)).map_err(mapped)? == 0 {
        return Ok(Vec::new());
    }
    let read = || {
        let mut statement = connection.prepare(migrate::APPLIED)?;
        let rows = statement.query_map([], |row| Ok(Applied { number: row.get(0)?, checksum: row.get(1)? }))?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(mapped)
}
