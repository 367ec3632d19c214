//! SQLite files: opened for each statement, closed after it, on a thread that may block.
//!
//! Invariant: a file is opened for writing only by a statement that may write, and never made. Invariant: the authorizer
//! sees whatever a statement touches, also inside views and triggers, and lets through tables and pure functions.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Bound, ValueRef};
use rusqlite::{Connection, Error, ErrorCode as Code, OpenFlags, Statement};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::sql::judge::Effect;
use toolgate_contracts::{ErrorCode, ToolError};

use super::databases::{Work, WrittenBy};
use super::table::{Room, Table, base64, float, integer};
use super::{Failure, busy, denied, invalid, timed_out, too_large, unavailable};

/// Statements that run in one file at once.
const CONCURRENT_MAX: usize = 4;
/// How long a statement waits for another program that holds the file.
const LOCKED_MAX: Duration = Duration::from_secs(2);
/// Of one text or row.
const VALUE_BYTES_MAX: i32 = 256 * 1024;
/// Of temporary files, of all statements together: what is sorted or remembered goes there where it is large.
const TEMPORARY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often a running statement looks how large they are.
const BETWEEN_MEASURES: Duration = Duration::from_millis(50);
/// How often a running statement looks whether it should stop, in steps of SQLite's machine.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;

pub(super) struct Sqlite {
    file: File,
    places: Arc<Semaphore>,
}

impl Sqlite {
    pub fn new(path: PathBuf, own: Option<PathBuf>) -> Self {
        Self { file: File { path, own }, places: Arc::new(Semaphore::new(CONCURRENT_MAX)) }
    }

    pub async fn run(&self, work: Work, cancel: &CancellationToken) -> Result<Value, Failure> {
        let writes = work.effect == Effect::Writes;
        let place = Arc::clone(&self.places).acquire_owned();
        let place = tokio::select! {
            place = tokio::time::timeout(work.timeout, place) => place,
            () = cancel.cancelled() => return Err(ToolError::cancelled().into()),
        };
        let Ok(Ok(place)) = place else { return Err(busy().into()) };
        let stop = Stop(Arc::default());
        let refused = Arc::default();
        let job = Job { file: self.file.clone(), work, stop: Arc::clone(&stop.0), full: Arc::default(), refused };
        let mut task = tokio::task::spawn_blocking(move || {
            let _place = place;
            job.run()
        });
        let ended = tokio::select! {
            ended = &mut task => ended,
            () = cancel.cancelled() => {
                stop.0.store(true, Ordering::SeqCst);
                task.await
            }
        };
        match ended {
            Ok(ended) => ended,
            Err(_) if writes => {
                Err(Failure::Unknown("the thread that ran the statement ended before it was done".into()))
            }
            Err(_) => Err(unavailable("the thread that ran the statement ended before it was done").into()),
        }
    }

    pub async fn explain(&self, work: Work, cancel: &CancellationToken) -> Result<Vec<Value>, Failure> {
        let statement = format!("EXPLAIN QUERY PLAN {}", work.statement);
        let explained = self.run(Work { statement, ..work }, cancel).await?;
        let rows = explained["rows"].as_array().into_iter().flatten();
        Ok(rows.map(|row| row["detail"].clone()).collect())
    }

    pub async fn ready(&self) -> Result<(), ToolError> {
        let file = self.file.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let connection = file.open(Effect::Reads)?;
            connection
                .query_one("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
                .map_err(|error| told_of_file(&error))
        });
        opened.await.unwrap_or_else(|_| Err(unavailable("the file could not be looked at")))
    }
}

/// Stops the statement also where nobody waits for it any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct File {
    path: PathBuf,
    /// Where this server keeps everything of its own.
    own: Option<PathBuf>,
}

impl File {
    fn open(&self, effect: Effect) -> Result<Connection, ToolError> {
        // A pipe or a device would keep the thread for ever.
        if !self.path.is_file() {
            return Err(unavailable("its file is not there, or is no file"));
        }
        // By whatever name, or link, the operator came to write it.
        if self.own.as_deref().is_some_and(|own| is_same(own, &self.path)) {
            return Err(unavailable("its file is this server's own database, which no tool reads; name another"));
        }
        let mode = match effect {
            Effect::Reads => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Effect::Writes => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let opened = Connection::open_with_flags(&self.path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        opened.and_then(confine).map_err(|error| told_of_file(&error))
    }
}

fn is_same(left: &Path, right: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(left), identity(right)), (Ok(left), Ok(right)) if left == right)
}

/// What SQLite holds in temporary files for all of this process. They have no names any more, or never had one, so that
/// nothing of them stays behind a crash; the descriptors still tell.
fn temporary_bytes() -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_temporary = |path: &PathBuf| {
        let file = path.read_link().unwrap_or_default();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        (name.starts_with("etilqs_") || name.starts_with('#')) && name.ends_with(" (deleted)")
    };
    let bytes = |path: PathBuf| path.metadata().map(|file| file.len()).ok();
    open.map(|entry| entry.path()).filter(is_temporary).filter_map(bytes).sum()
}

fn confine(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(LOCKED_MAX)?;
    // In files, whose size can be bounded, and not in our memory.
    connection.execute_batch("PRAGMA temp_store = FILE")?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 100),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    Ok(connection)
}

struct Job {
    file: File,
    work: Work,
    stop: Arc<AtomicBool>,
    /// It was stopped because temporary files had grown too large.
    full: Arc<AtomicBool>,
    /// What the authorizer refused.
    refused: Arc<Mutex<Option<String>>>,
}

impl Job {
    fn run(&self) -> Result<Value, Failure> {
        let mut connection = self.file.open(self.work.effect)?;
        match self.work.effect {
            Effect::Reads => {
                connection.execute_batch("PRAGMA query_only = ON").map_err(|error| told_of_file(&error))?;
                Ok(self.watched(&mut connection)?)
            }
            Effect::Writes => {
                connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| told_of_file(&error))?;
                let value = self.watched(&mut connection)?;
                if self.is_stopped() {
                    return Err(ToolError::cancelled().into());
                }
                // Closing the connection undoes whatever is not committed.
                connection.execute_batch("COMMIT").map_err(|error| self.uncommitted(&error))?;
                Ok(value)
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn uncommitted(&self, error: &Error) -> Failure {
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::ConstraintViolation) => self.told(error).into(),
            _ => Failure::Unknown(format!("SQLite did not confirm the change: {error}")),
        }
    }

    /// Runs the statement under the authorizer and the clock; whatever comes after it is ours again.
    fn watched(&self, connection: &mut Connection) -> Result<Value, ToolError> {
        let (stop, full) = (Arc::clone(&self.stop), Arc::clone(&self.full));
        let deadline = Instant::now() + self.work.timeout;
        let mut measure_at = Instant::now() + BETWEEN_MEASURES;
        let is_over = move || {
            let now = Instant::now();
            if now >= measure_at {
                measure_at = now + BETWEEN_MEASURES;
                full.store(temporary_bytes() > TEMPORARY_BYTES_MAX, Ordering::SeqCst);
            }
            stop.load(Ordering::SeqCst) || full.load(Ordering::SeqCst) || now >= deadline
        };
        let (named, refused) = (self.work.named, Arc::clone(&self.refused));
        let authorize = move |context: AuthContext<'_>| match refusal(&context.action, named) {
            None => Authorization::Allow,
            Some(what) => {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                Authorization::Deny
            }
        };
        let told = |error: Error| self.told(&error);
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over)).map_err(told)?;
        connection.authorizer(Some(authorize)).map_err(told)?;
        let value = self.rows(connection)?;
        connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(told)?;
        connection.progress_handler(0, None::<fn() -> bool>).map_err(told)?;
        Ok(value)
    }

    fn rows(&self, connection: &Connection) -> Result<Value, ToolError> {
        let told = |error: Error| self.told(&error);
        let mut statement = connection.prepare(&self.work.statement).map_err(told)?;
        self.bind(&mut statement).map_err(told)?;
        let columns = statement.column_count();
        let mut table = Table::new(statement.column_names(), self.work.bounds);
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(told)? {
            let values = (0..columns).map(|index| row.get_ref(index).map(value));
            let values: Vec<Value> = values.collect::<Result<_, _>>().map_err(told)?;
            // A change goes to its end; what it gives back beyond the bounds is left out.
            if table.push(values.into_iter())? == Room::Full && self.work.effect == Effect::Reads {
                break;
            }
        }
        drop(rows);
        let affected = (self.work.effect == Effect::Writes).then(|| connection.changes());
        Ok(table.finish(affected))
    }

    /// `$2` is a name to SQLite, counted where it first stands: each is looked up by what it is called.
    fn bind(&self, statement: &mut Statement<'_>) -> Result<(), Error> {
        for index in 1..=statement.parameter_count() {
            let number = statement.parameter_name(index).and_then(|name| name.get(1..)?.parse().ok()).unwrap_or(index);
            let given = number.checked_sub(1).and_then(|place| self.work.parameters.get(place));
            statement.raw_bind_parameter(index, given.map_or(Bound::Null, |parameter| bound(&parameter.value)))?;
        }
        Ok(())
    }

    fn told(&self, error: &Error) -> ToolError {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (error.sqlite_error_code(), refused) {
            (Some(Code::OperationInterrupted), _) if self.is_stopped() => ToolError::cancelled(),
            (Some(Code::OperationInterrupted), _) if self.full.load(Ordering::SeqCst) => {
                let most = TEMPORARY_BYTES_MAX / 1024 / 1024;
                too_large(format!("it needs more than {most} MiB of temporary space; sort, group or join fewer rows"))
            }
            (Some(Code::OperationInterrupted), _) => timed_out(self.work.timeout),
            (_, Some(what)) => denied(format!("{what} is not allowed in this statement; leave it out")),
            (Some(Code::ReadOnly | Code::AuthorizationForStatementDenied), _) => {
                denied("the statement would change the database, and this only reads")
            }
            (Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::CannotOpen | Code::NotADatabase), _) => {
                told_of_file(error)
            }
            (Some(Code::TooBig), _) => {
                too_large(format!("a value or row has more than {VALUE_BYTES_MAX} bytes; select parts with `substr`"))
            }
            (Some(Code::ConstraintViolation), _) => said(ErrorCode::ProviderError, "upstream_4xx", error),
            (Some(Code::DiskFull | Code::SystemIoFailure | Code::DatabaseCorrupt | Code::OutOfMemory), _) => {
                said(ErrorCode::ProviderError, "upstream_5xx", error)
            }
            _ => match self.work.written_by {
                WrittenBy::Caller(pointer) => invalid(pointer, spoken(error)),
                WrittenBy::Definition => said(ErrorCode::ProviderError, "upstream_4xx", error),
            },
        }
    }
}

/// What of an action is not allowed, in words; `None` where it is.
fn refusal(action: &AuthAction<'_>, effect: Effect) -> Option<String> {
    match action {
        AuthAction::Function { function_name: name @ ("load_extension" | "fts3_tokenizer") } => {
            Some(format!("the function `{name}`"))
        }
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive | AuthAction::Function { .. } => None,
        AuthAction::Attach { .. } => Some("ATTACH".to_owned()),
        AuthAction::Detach { .. } => Some("DETACH".to_owned()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("PRAGMA {pragma_name}")),
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => Some("a transaction of its own".to_owned()),
        AuthAction::CreateVtable { .. } | AuthAction::DropVtable { .. } => Some("a virtual table".to_owned()),
        AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::DropTempIndex { .. }
        | AuthAction::DropTempTable { .. }
        | AuthAction::DropTempTrigger { .. }
        | AuthAction::DropTempView { .. } => Some("a temporary table".to_owned()),
        AuthAction::Insert { .. }
        | AuthAction::Update { .. }
        | AuthAction::Delete { .. }
        | AuthAction::CreateIndex { .. }
        | AuthAction::CreateTable { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::DropView { .. }
        | AuthAction::AlterTable { .. }
        | AuthAction::Reindex { .. }
        | AuthAction::Analyze { .. } => (effect == Effect::Reads).then(|| "a change".to_owned()),
        _ => Some("what this build does not know".to_owned()),
    }
}

fn bound(value: &Value) -> Bound {
    match value {
        Value::Null => Bound::Null,
        Value::Bool(value) => Bound::Integer((*value).into()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Bound::Integer(whole),
            None => number.as_f64().map_or(Bound::Null, Bound::Real),
        },
        Value::String(text) => Bound::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Bound::Text(value.to_string()),
    }
}

/// SQLite does not check that a text is UTF-8: what is not is replaced, sign by sign.
fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => integer(whole),
        ValueRef::Real(number) => float(number),
        ValueRef::Text(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => base64(bytes),
    }
}

fn told_of_file(error: &Error) -> ToolError {
    match error.sqlite_error_code() {
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
            let message = "another program holds the database; try again in a moment";
            ToolError::because(ErrorCode::ProviderError, "upstream_5xx", message)
        }
        Some(Code::ReadOnly) => denied("the operator's file cannot be written by this server"),
        _ => unavailable(format!("its file cannot be opened: {}", spoken(error))),
    }
}

fn said(code: ErrorCode, reason: &str, error: &Error) -> ToolError {
    ToolError::because(code, reason, format!("the database says: {}", spoken(error)))
}

/// What SQLite said, without the statement, which the caller has.
fn spoken(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::MultipleStatement => "more than one statement; send one".to_owned(),
        other => other.to_string(),
    }
}
