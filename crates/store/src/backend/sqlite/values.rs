//! Values into and out of SQLite. A UUID is its sixteen bytes, a boolean 0 or 1.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use super::errors;
use crate::error::Error;
use crate::row::Row;
use crate::value::Value;

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Bool(flag) => ValueRef::Integer((*flag).into()),
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Uuid(uuid) => ValueRef::Blob(uuid.as_bytes()),
        }))
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        // What is no text is not read as one: whoever wants that column is told, the other rows are read.
        ValueRef::Text(text) => {
            String::from_utf8(text.to_vec()).map_or_else(|error| Value::Bytes(error.into_bytes()), Value::from)
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// Runs a statement: the rows it returns, and how many it changed.
pub(super) fn run(connection: &Connection, sql: &str, parameters: &[Value]) -> Result<(u64, Vec<Row>), Error> {
    let mut statement = connection.prepare_cached(sql).map_err(|error| errors::map(connection, error))?;
    run_prepared(connection, &mut statement, sql, parameters)
}

/// The same with a statement that its owner keeps. What was bound stays bound until it is run again, so that SQLite
/// writes the next values into the same memory.
pub(super) fn run_prepared(
    connection: &Connection,
    statement: &mut Statement<'_>,
    sql: &str,
    parameters: &[Value],
) -> Result<(u64, Vec<Row>), Error> {
    let mapped = |error| errors::map(connection, error);
    if statement.parameter_count() != parameters.len() {
        return Err(Error::Corrupt(format!("{} parameters for: {sql}", parameters.len())));
    }
    for (index, parameter) in parameters.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, parameter).map_err(mapped)?;
    }
    if statement.column_count() == 0 {
        let changed = statement.raw_execute().map_err(mapped)?;
        return Ok((u64::try_from(changed).unwrap_or(u64::MAX), Vec::new()));
    }
    let rows = rows(connection, statement)?;
    Ok((u64::try_from(rows.len()).unwrap_or(u64::MAX), rows))
}

fn rows(connection: &Connection, statement: &mut Statement<'_>) -> Result<Vec<Row>, Error> {
    let columns = statement.column_count();
    let mut source = statement.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = source.next().map_err(|error| errors::map(connection, error))? {
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            values.push(value(row.get_ref(column).map_err(|error| errors::map(connection, error))?));
        }
        rows.push(Row(values));
    }
    Ok(rows)
}
