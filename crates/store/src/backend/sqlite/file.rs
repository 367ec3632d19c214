//! The file: opening it, saying what is wrong with it, copying it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::ffi::ErrorCode;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_TIMEOUT, errors};
use crate::error::Error;

/// Prepared statements kept per connection.
const STATEMENTS_MAX: usize = 256;
/// What remains of the write-ahead log after a checkpoint.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// A call's row is two or three kibibytes, so a page of four holds one and wastes the rest.
const PAGE_BYTES: i64 = 8 * 1024;
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Page cache of the connection that writes, in SQLite's negative kibibytes; and of each that reads, whose pages are void
/// as soon as somebody writes.
const WRITER_CACHE_KIB: i64 = -8 * 1024;
const READER_CACHE_KIB: i64 = -1024;

/// Several who open a new file at once: SQLite refuses all but one at this step, whatever the busy timeout is.
fn turn_log_on(connection: &Connection) -> rusqlite::Result<String> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(TRIED_AGAIN_AFTER);
            }
            ended => return ended,
        }
    }
}

pub(super) fn open_writer(path: &Path) -> Result<Connection, Error> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(path, flags)?;
    let wrong = |error| explain(path, &connection, error);
    // SQLite opens a file that it may not write for reading, without a word.
    if connection.is_readonly(rusqlite::MAIN_DB).map_err(wrong)? {
        return Err(Error::ReadOnly);
    }
    // Of a new file only; another keeps the size it has.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(wrong)?;
    let mode = turn_log_on(&connection).map_err(wrong)?;
    if mode != "wal" {
        return Err(Error::Open {
            message: format!("the file system of `{}` cannot hold SQLite's write-ahead log", path.display()),
            remedy: "put the data folder on a local disk, or use PostgreSQL".into(),
        });
    }
    let set = || {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)
    };
    set().map_err(wrong)?;
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update(None, "query_only", true).map_err(|error| explain(path, &connection, error))?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(path, flags).map_err(|error| Error::Open {
        message: format!("`{}`: {error}", path.display()),
        remedy: "check the file and its folder".into(),
    })?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    let writes = flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
    let set = || {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // A misspelt name in double quotes is an error, as in PostgreSQL, not a text.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // A plan holds whatever is bound: without this a statement is prepared again when a bound number changes.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", if writes { WRITER_CACHE_KIB } else { READER_CACHE_KIB })
    };
    set().map_err(|error| explain(path, &connection, error))?;
    Ok(connection)
}

/// A new file is its owner's alone; SQLite gives the files beside it the same mode.
fn create(path: &Path) -> Result<(), Error> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(_) if path.is_dir() => Err(Error::Open {
            message: format!("`{}` is a folder", path.display()),
            remedy: "name a file in it, such as `toolgate.db`".into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::from_io(&format!("create `{}`", path.display()), &error)),
    }
}

fn explain(path: &Path, connection: &Connection, error: rusqlite::Error) -> Error {
    let shown = path.display();
    let open = |message: String, remedy: &str| Error::Open { message, remedy: remedy.to_owned() };
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => open(
            format!("`{shown}` is not a SQLite database"),
            "name another file, or move this one away; it was not changed",
        ),
        Some(ErrorCode::DatabaseCorrupt) => {
            open(format!("`{shown}` is damaged"), "keep a copy, then restore a backup (`toolgate db restore`)")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            open(format!("`{shown}` is in use by another program"), "stop the other program, then try again")
        }
        // The file is there and may be written, but not the files beside it.
        Some(ErrorCode::CannotOpen) => Error::ReadOnly,
        _ => match errors::map(connection, error) {
            Error::Corrupt(message) | Error::Unavailable(message) => {
                open(format!("`{shown}`: {message}"), "check the file and its disk")
            }
            other => other,
        },
    }
}

/// Copies a consistent state into a new file, which appears under its name only when it is whole.
pub(super) fn backup(from: &Path, to: &Path) -> Result<(), Error> {
    let io = |error: io::Error| Error::from_io(&format!("write `{}`", to.display()), &error);
    if to.exists() {
        return Err(Error::Open {
            message: format!("`{}` exists already", to.display()),
            remedy: "name a file that does not exist; a backup overwrites nothing".into(),
        });
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let copied = copy(from, partial)
        .and_then(|()| File::open(partial).and_then(|file| file.sync_all()).map_err(io))
        .and_then(|()| fs::rename(partial, to).map_err(io));
    if copied.is_err() {
        // What remains of it is removed by the next attempt too.
        let _ = fs::remove_file(partial);
    }
    copied?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

fn copy(from: &Path, partial: &Path) -> Result<(), Error> {
    // What an earlier attempt left behind.
    if partial.exists() {
        fs::remove_file(partial).map_err(|error| Error::from_io("remove an unfinished backup", &error))?;
    }
    create(partial)?;
    let source = open_reader(from)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = open(partial, flags)?;
    // All in one step: a read transaction, so the writer goes on and the copy needs not begin again.
    match Backup::new(&source, &mut target).and_then(|backup| backup.step(-1)) {
        Ok(StepResult::Done) => Ok(()),
        Ok(_) => Err(Error::Unavailable("the database was busy".into())),
        Err(error) => Err(errors::map(&source, error)),
    }
}
