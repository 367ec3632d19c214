//! One CEL expression, read once and evaluated often.

use std::sync::{Arc, LazyLock};

use cel::{Context, Env, IdedExpr};
use serde_json::Value;

use crate::budget::{self, EXHAUSTED};
use crate::names::{Names, Path};
use crate::value::{of_json, to_json};
use crate::{ExpressionError, shortened};

pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
const DEPTH_MAX: usize = 100;
/// The parser recurses as deep as the text is nested; a text of the largest size fits.
const READ_STACK_BYTES: usize = 128 * 1024 * 1024;
/// Evaluating recurses as deep as [`DEPTH_MAX`].
const EVALUATE_STACK_BYTES: usize = 4 * 1024 * 1024;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// INVARIANT: rewritten so that it counts what it walks and builds.
#[derive(Clone, Debug)]
pub struct Expression {
    metered: Arc<IdedExpr>,
    names: Arc<Names>,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let message = format!("it has {} bytes, {EXPRESSION_BYTES_MAX} at most are read", text.len());
            return Err(ExpressionError::Failed(message));
        }
        // What is refused is dropped in here too, as deep as it is.
        stacker::grow(READ_STACK_BYTES, || {
            let mut read = ENVIRONMENT.parser().parse(text).map_err(|errors| unreadable(&errors))?;
            if budget::depth(&read) > DEPTH_MAX {
                return Err(too_deep());
            }
            let names = Arc::new(Names::of(&read, &ENVIRONMENT));
            budget::metered(&mut read);
            Ok(Self { metered: Arc::new(read), names })
        })
    }

    /// What it asks for by name, each as far as it is written out.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.names.paths.iter()
    }

    /// Functions that it calls and that there are none of.
    pub fn unknown_functions(&self) -> impl Iterator<Item = &str> {
        self.names.no_functions.iter().map(String::as_str)
    }

    /// The value for these variables. A variable that is not given does not exist.
    pub fn evaluate(&self, variables: &[(&str, &Value)]) -> Result<Value, ExpressionError> {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        let exhausted = budget::budgeted(&mut context);
        for (name, value) in variables {
            context.add_variable_from_value(*name, of_json(value));
        }
        match stacker::maybe_grow(EVALUATE_STACK_BYTES / 2, EVALUATE_STACK_BYTES, || context.resolve(&self.metered)) {
            // Macros swallow errors where a later element decides: what ran out has no result, whatever came out.
            _ if exhausted() => Err(ExpressionError::Exhausted(EXHAUSTED)),
            Ok(value) => to_json(&value),
            Err(error) => Err(ExpressionError::Failed(shortened(&error.to_string()))),
        }
    }

    /// A condition's value: nothing but `true` and `false` counts.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, ExpressionError> {
        match self.evaluate(variables)? {
            Value::Bool(holds) => Ok(holds),
            other => {
                let gave = shortened(&other.to_string());
                Err(ExpressionError::Failed(format!("a condition gives `true` or `false`, this one gave `{gave}`")))
            }
        }
    }
}

fn too_deep() -> ExpressionError {
    ExpressionError::Failed(format!("it is nested too deep, {DEPTH_MAX} levels at most are read"))
}

fn unreadable(errors: &cel::ParseErrors) -> ExpressionError {
    match errors.errors.first() {
        Some(first) if first.msg.contains("Recursion limit") => too_deep(),
        Some(first) => ExpressionError::Unreadable {
            line: usize::try_from(first.pos.0).unwrap_or(1).max(1),
            column: usize::try_from(first.pos.1).unwrap_or(1).max(1),
            message: shortened(&first.msg),
        },
        None => ExpressionError::Failed("it cannot be read".to_owned()),
    }
}
