//! PostgreSQL's errors as ours.

use std::error::Error as StdError;

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Constraint, Error};

/// Begins the error of a change that stood in a deadlock: it goes through when it is tried again.
pub(super) const IN_THE_WAY: &str = "another transaction was in the way";
/// The error code of a rule that a trigger enforces.
const RULE: &str = "TG001";

/// Why a statement failed, kept whole until it is known what to do about it.
pub(super) struct StatementError(pub tokio_postgres::Error);

impl StatementError {
    pub fn mapped(&self) -> Error {
        map(&self.0)
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(error)
    }
}

pub(super) fn map(error: &tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(database) => of_database(database),
        None if super::pipeline::is_lost(error) => Error::Unavailable(whole(error)),
        // What the driver itself refuses: a value of another type than the parameter's, a column it cannot read.
        None => Error::Corrupt(whole(error)),
    }
}

fn of_database(error: &DbError) -> Error {
    let table = error.table().unwrap_or_default();
    let named = |fallback: &str| {
        let name = error.constraint().unwrap_or(fallback);
        let of_table = name.strip_prefix(table).map(|rest| format!("{}{rest}", parent(table)));
        Error::Constraint(Constraint(of_table.unwrap_or_else(|| name.to_owned())))
    };
    let code = error.code();
    match code.code() {
        RULE => named(Constraint::of_rule(error.message()).unwrap_or("rule")),
        _ if *code == SqlState::FOREIGN_KEY_VIOLATION || *code == SqlState::RESTRICT_VIOLATION => {
            tracing::debug!(constraint = error.constraint(), "a foreign key refused");
            Error::Constraint(Constraint(Constraint::FOREIGN_KEY.to_owned()))
        }
        _ if *code == SqlState::NOT_NULL_VIOLATION => {
            let name = format!("{}_{}_not_null", parent(table), error.column().unwrap_or_default());
            Error::Constraint(Constraint(name))
        }
        _ if [SqlState::UNIQUE_VIOLATION, SqlState::CHECK_VIOLATION, SqlState::EXCLUSION_VIOLATION].contains(code) => {
            named(error.message())
        }
        _ if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code) => {
            Error::Unavailable(format!("{IN_THE_WAY}: {}", error.message()))
        }
        _ if *code == SqlState::DISK_FULL => Error::Full,
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly,
        // Classes: connection, transaction rollback, insufficient resources, operator intervention, system error, and
        // a lock that could not be had.
        state if ["08", "40", "53", "57", "58"].contains(&state.get(..2).unwrap_or_default()) => {
            Error::Unavailable(said(error))
        }
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => Error::Unavailable(said(error)),
        _ => Error::Corrupt(said(error)),
    }
}

/// The table that a partition is of: ours are named by their month, or `default`.
fn parent(table: &str) -> &str {
    match table.rsplit_once('_') {
        Some((parent, "default")) => parent,
        Some((parent, month)) if month.len() == 6 && month.bytes().all(|byte| byte.is_ascii_digit()) => parent,
        _ => table,
    }
}

/// Without `detail`, which repeats values of the row.
pub(super) fn said(error: &DbError) -> String {
    format!("{} ({})", error.message(), error.code().code())
}

/// An error with its causes.
pub(super) fn whole(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(super) fn of_pool(error: PoolError) -> Error {
    Error::Unavailable(match error {
        PoolError::Timeout(TimeoutType::Wait) => "all connections for reading are busy".to_owned(),
        PoolError::Timeout(_) => "no connection within the time allowed".to_owned(),
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => match error.as_db_error() {
            Some(database) => said(database),
            None => whole(&error),
        },
        PoolError::PostCreateHook(HookError::Message(message)) => message.into_owned(),
        PoolError::Closed => return super::super::queue::closed(),
        PoolError::NoRuntimeSpecified => "no runtime".to_owned(),
    })
}
