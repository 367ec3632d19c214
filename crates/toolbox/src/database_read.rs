//! A query of the caller's own in a database of the operator's. It only reads, whatever the statement says: the
//! transaction does, or the file was opened so.

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::ToolError;
use toolgate_contracts::sql::judge::Effect;
use toolgate_engine::{Call, Outcome};
use toolgate_runners::{Parameter, Query, WrittenBy};

use crate::builtin::{Tools, input};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    database: String,
    sql: String,
    #[serde(default)]
    parameters: Vec<Value>,
    #[serde(default)]
    rows_max: Option<usize>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    sent(tools, call, Effect::Reads).await
}

pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    planned(tools, call, Effect::Reads).await
}

pub(crate) async fn sent(tools: &Tools, call: &Call, effect: Effect) -> Outcome {
    match input::<Input>(call) {
        Ok(input) => tools.databases.run(call, query(&input, effect)).await,
        Err(error) => error.into(),
    }
}

pub(crate) async fn planned(tools: &Tools, call: &Call, effect: Effect) -> Result<Value, ToolError> {
    tools.databases.plan(call, query(&input::<Input>(call)?, effect)).await
}

fn query(Input { database, sql, parameters, rows_max }: &Input, effect: Effect) -> Query<'_> {
    Query {
        database,
        statement: sql,
        parameters: parameters_of(parameters),
        effect,
        rows_max: *rows_max,
        written_by: WrittenBy::Caller("/sql"),
    }
}

fn parameters_of(values: &[Value]) -> Vec<Parameter> {
    let place =
        |(index, value): (usize, &Value)| Parameter { value: value.clone(), pointer: format!("/parameters/{index}") };
    values.iter().enumerate().map(place).collect()
}
