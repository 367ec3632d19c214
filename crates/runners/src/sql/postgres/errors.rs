//! PostgreSQL's errors in the taxonomy: what the statement's author can mend, what only the operator can, and what may
//! go well the next time. No message repeats an address, and none the values of other rows.

use std::error::Error as StdError;

use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use toolgate_contracts::{ErrorCode, ToolError};

use super::super::databases::{Work, WrittenBy};
use super::super::{denied, invalid, timed_out, too_large, unavailable};
use super::connection::{Meter, network};

pub(super) fn told(error: &tokio_postgres::Error, work: &Work, meter: &Meter) -> ToolError {
    let Some(said) = error.as_db_error() else {
        if meter.is_exhausted() {
            return too_large(
                "the database gave back more than may be read; select fewer rows, or parts of large values",
            );
        }
        return network(
            "reset",
            format!("the connection to the database was lost: {}; nothing was kept", short(error)),
        );
    };
    let code = said.code();
    match code.code().get(..2).unwrap_or_default() {
        _ if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE => timed_out(work.timeout),
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => denied(words(said)),
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            denied(format!("the statement would change the database, and this only reads: {}", said.message()))
        }
        // Values that do not fit their types.
        "22" => of_values(said, work),
        // Constraints, what the database's own functions raise, what it does not offer, limits.
        "23" | "44" | "P0" | "0A" | "54" | "55" | "2F" | "38" | "39" => of_statement(said),
        "42" | "3D" | "3F" | "26" | "34" => match work.written_by {
            WrittenBy::Caller(pointer) => with_code(invalid(pointer, words(said)), said),
            WrittenBy::Definition => of_statement(said),
        },
        "28" => upstream(said),
        // Deadlocks and serialization, resources, an operator's hand, the system.
        _ => with_code(ToolError::because(ErrorCode::ProviderError, "upstream_5xx", words(said)), said),
    }
}

fn of_values(said: &DbError, work: &Work) -> ToolError {
    let error = ToolError::because(ErrorCode::ValidationError, "schema", words(said));
    let error = match work.written_by {
        WrittenBy::Caller(pointer) if work.parameters.is_empty() => error.with("pointer", pointer),
        _ => error,
    };
    with_code(error, said)
}

fn of_statement(said: &DbError) -> ToolError {
    let error = ToolError::because(ErrorCode::ProviderError, "upstream_4xx", words(said));
    match said.constraint() {
        Some(constraint) => with_code(error, said).with("constraint", constraint),
        None => with_code(error, said),
    }
}

fn upstream(said: &DbError) -> ToolError {
    let message = format!("the database does not let the operator's user in: {}", said.message());
    with_code(ToolError::because(ErrorCode::AuthRequired, "upstream", message), said)
}

fn with_code(error: ToolError, said: &DbError) -> ToolError {
    error.with("sqlstate", said.code().code())
}

/// Without `detail`, which repeats values of rows.
fn words(said: &DbError) -> String {
    let place = match said.position() {
        Some(ErrorPosition::Original(place)) => format!(", at character {place}"),
        _ => String::new(),
    };
    let hint = said.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("the database says: {}{place}{hint}", said.message())
}

pub(super) fn of_connecting(error: &tokio_postgres::Error) -> ToolError {
    match error.as_db_error() {
        Some(said) if said.code().code().starts_with("28") => upstream(said),
        Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => {
            let message = "the database has no connection left; try again later";
            ToolError::because(ErrorCode::RateLimit, "upstream", message)
        }
        Some(said) => unavailable(words(said)),
        None if whole(error).starts_with("error performing TLS") => {
            network("tls", format!("the database cannot be trusted: {}", short(error)))
        }
        None if whole(error).starts_with("invalid configuration") => {
            unavailable(format!("its address: {}", short(error)))
        }
        None => network("connect", format!("the database cannot be reached: {}; try again later", short(error))),
    }
}

/// The last cause, which is what happened.
fn short(error: &tokio_postgres::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
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
