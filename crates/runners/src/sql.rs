//! The kind `sql`: one statement of the definition, its parameters filled from the input. [`databases`] runs it, and the
//! free statements of `database_read` and `run_sql_write` by the same rules.
//!
//! Invariant: a definition names an entry of the operator's; it never says where a database is or who one is there.
//! Invariant: arguments are parameters of the protocol. No value ever becomes part of the text of a statement.

mod databases;
mod postgres;
mod sqlite;
mod table;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::json::escape;
use toolgate_contracts::runner::Sql;
use toolgate_contracts::sql::judge::Effect;
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_engine::runner::Need;
use toolgate_engine::{Call, Outcome, Permit, Runner};

pub use self::databases::{Databases, Parameter, Query, WrittenBy};
use crate::expression::other_kind;
use crate::failure::Failure;

pub struct Statements {
    databases: Databases,
}

impl Statements {
    pub fn new(databases: Databases) -> Self {
        Self { databases }
    }
}

impl Runner for Statements {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match query(permit.call()) {
                Ok(query) => self.databases.run(permit.call(), query).await,
                Err(error) => error.into(),
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { self.databases.plan(call, query(call)?).await })
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        Box::pin(async move {
            let found = self.databases.found().await.into_iter();
            found
                .map(|(name, answer)| {
                    let is_met = answer.is_ok();
                    let found = answer.map_or_else(|error| error.message, |()| "answers".to_owned());
                    Need { name: "database", found: format!("`{name}`: {found}"), is_met }
                })
                .collect()
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { self.databases.ready(&sql(definition)?.connection).await })
    }
}

fn sql(definition: &Definition) -> Result<&Sql, ToolError> {
    match &definition.runner {
        toolgate_contracts::Runner::Sql(sql) => Ok(sql),
        _ => Err(other_kind(definition, "sql")),
    }
}

fn query(call: &Call) -> Result<Query<'_>, ToolError> {
    let definition = &call.tool.definition;
    let Sql { connection, statement, parameters } = sql(definition)?;
    let parameters = parameters.iter().map(|name| Parameter {
        value: call.input.get(name).cloned().unwrap_or_default(),
        pointer: format!("/{}", escape(name)),
    });
    // Whoever approved a call of a milder class was not asked about a change.
    let effect = if definition.class() == EgressClass::Write { Effect::Writes } else { Effect::Reads };
    Ok(Query {
        database: connection,
        statement,
        parameters: parameters.collect(),
        effect,
        rows_max: None,
        written_by: WrittenBy::Definition,
    })
}

fn unavailable(message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
}

fn denied(message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::PolicyDenied, "permission", message)
}

fn invalid(pointer: &str, message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", pointer)
}

fn too_large(message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "too_large", message)
}

fn timed_out(limit: std::time::Duration) -> ToolError {
    let message = format!("the statement was stopped after {} ms; make it read less, or split it", limit.as_millis());
    ToolError::because(ErrorCode::Timeout, "timeout", message)
}

fn busy() -> ToolError {
    let message = "all connections to the database are busy; try again in a moment";
    ToolError::because(ErrorCode::RateLimit, "rate", message).retry_after(1)
}
