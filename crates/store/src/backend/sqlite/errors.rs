//! SQLite's errors as ours. Constraints get the names that PostgreSQL gives them, so that callers know one.

use rusqlite::ffi::{self, ErrorCode};
use rusqlite::{Connection, Error as Sqlite};

use crate::error::{Constraint, Error};

pub(super) fn map(connection: &Connection, error: Sqlite) -> Error {
    match error {
        Sqlite::SqliteFailure(failure, message) => {
            let message = message.unwrap_or_else(|| failure.to_string());
            match failure.code {
                ErrorCode::ConstraintViolation => constraint(connection, failure.extended_code, &message),
                ErrorCode::DiskFull => Error::Full,
                // The file of the write-ahead log's index could not grow.
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Error::Full,
                ErrorCode::ReadOnly => Error::ReadOnly,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    Error::Unavailable(format!("another program is writing to the database: {message}"))
                }
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed => {
                    Error::Unavailable(format!("{message} ({})", failure.extended_code))
                }
                _ => Error::Corrupt(message),
            }
        }
        Sqlite::SqlInputError { msg, sql, .. } => Error::Corrupt(format!("{msg} in: {sql}")),
        other => Error::Corrupt(other.to_string()),
    }
}

fn constraint(connection: &Connection, code: i32, message: &str) -> Error {
    let (_, subject) = message.split_once(": ").unwrap_or(("", message));
    let name = match code {
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => {
            let (table, _) = columns(subject);
            format!("{table}_pkey")
        }
        ffi::SQLITE_CONSTRAINT_UNIQUE => unique(connection, subject),
        ffi::SQLITE_CONSTRAINT_NOTNULL => format!("{}_not_null", subject.replace('.', "_")),
        ffi::SQLITE_CONSTRAINT_CHECK => subject.to_owned(),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Constraint::FOREIGN_KEY.to_owned(),
        ffi::SQLITE_CONSTRAINT_TRIGGER => match Constraint::of_rule(message) {
            Some(rule) => rule.to_owned(),
            None => return Error::Corrupt(message.to_owned()),
        },
        _ => return Error::Corrupt(message.to_owned()),
    };
    Error::Constraint(Constraint(name))
}

/// `t.a, t.b` as `t` and `[a, b]`.
fn columns(subject: &str) -> (&str, Vec<&str>) {
    let table = subject.split('.').next().unwrap_or(subject);
    let columns = subject.split(", ").filter_map(|column| column.split_once('.').map(|(_, column)| column)).collect();
    (table, columns)
}

/// SQLite names the columns; the index over just these has the name. Two unique indexes over the same columns cannot
/// be told apart, so the migrations have none.
fn unique(connection: &Connection, subject: &str) -> String {
    if let Some(name) = subject.strip_prefix("index '") {
        return name.trim_end_matches('\'').to_owned();
    }
    let (table, columns) = columns(subject);
    let sql =
        "SELECT i.name, i.origin, (SELECT group_concat(c.name, ',' ORDER BY c.seqno) FROM pragma_index_info(i.name) c)
        FROM pragma_index_list(?1) i WHERE i.\"unique\" = 1 ORDER BY i.name";
    let found: rusqlite::Result<Vec<(String, String, String)>> = connection.prepare(sql).and_then(|mut statement| {
        let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    });
    let wanted = columns.join(",");
    match found.unwrap_or_default().into_iter().find(|(_, _, columns)| *columns == wanted) {
        // Made by `CREATE UNIQUE INDEX name`.
        Some((name, origin, _)) if origin == "c" => name,
        // Made by `UNIQUE (a, b)` in the table, which PostgreSQL names so.
        _ => format!("{table}_{}_key", columns.join("_")),
    }
}
