//! The kind `expression`: one CEL expression over the input. It reaches nothing, so it can be tried on every keystroke.

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_expression::{Expression, ExpressionError};

use crate::compiled::Compiled;

pub struct Expressions {
    known: Compiled<Expression>,
}

impl Default for Expressions {
    fn default() -> Self {
        Self { known: Compiled::new() }
    }
}

impl Expressions {
    async fn evaluate(&self, call: &Call) -> Result<Value, ToolError> {
        let expression = self.known.of(&call.tool, || read(&call.tool.definition))?;
        let input = std::sync::Arc::clone(&call.input);
        // Bounded, and yet long enough to keep others waiting.
        let evaluated = tokio::task::spawn_blocking(move || expression.evaluate(&[("input", input.as_ref())])).await;
        match evaluated {
            Ok(value) => value.map_err(|error| failed(&error)),
            Err(error) => Err(failed(&ExpressionError::Failed(error.to_string()))),
        }
    }
}

impl Runner for Expressions {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.evaluate(permit.call()).await {
                Ok(value) => Outcome::structured(value),
                Err(error) => error.into(),
            }
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(read(definition).map(drop)))
    }
}

fn read(definition: &Definition) -> Result<Expression, ToolError> {
    let toolgate_contracts::Runner::Expression(expression) = &definition.runner else {
        return Err(other_kind(definition, "expression"));
    };
    Expression::parse(&expression.cel).map_err(|error| failed(&error))
}

fn failed(error: &ExpressionError) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, "exception", format!("the tool's expression: {error}"))
}

/// A runner that was wired under another kind: ours to mend, and never a reason to run something else.
pub(crate) fn other_kind(definition: &Definition, expected: &str) -> ToolError {
    let message = format!("a tool of kind `{}` was given to the runner of `{expected}`", definition.runner.kind());
    ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
}
