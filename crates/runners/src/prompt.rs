//! The kinds `prompt` and `task`, as far as they can be seen without a model: the text that would be asked, the task
//! that would be made.
//!
//! Deliberately absent: asking. That is the agents' part, and until a server has one such a tool says so and does nothing.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::{Definition, ErrorCode, Runner as Kind, ToolError};
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_expression::{ExpressionError, Text};

use crate::expression::other_kind;

/// Runs neither, and shows both.
#[derive(Default)]
pub struct Unasked(());

impl Runner for Unasked {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        let error = nobody(&permit.call().tool.definition);
        Box::pin(std::future::ready(Outcome::Failed(error)))
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(shown(call)))
    }

    fn refuses(&self, definition: &Definition) -> Option<ToolError> {
        Some(nobody(definition))
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Err(nobody(definition))))
    }
}

fn shown(call: &Call) -> Result<Value, ToolError> {
    let definition = &call.tool.definition;
    match &definition.runner {
        Kind::Prompt(prompt) => {
            let mut plan = json!({"mode": prompt.mode, "prompt": rendered(&prompt.template, call)?});
            let named = [("model", &prompt.model), ("skill", &prompt.skill), ("agent", &prompt.agent)];
            for (member, name) in named {
                if let Some(name) = name {
                    plan[member] = name.as_str().into();
                }
            }
            Ok(json!({"would_ask": plan}))
        }
        Kind::Task(task) => Ok(json!({"would_make": {"task": rendered(&task.task, call)?, "wait": task.wait}})),
        _ => Err(other_kind(definition, "prompt")),
    }
}

fn rendered(template: &str, call: &Call) -> Result<String, ToolError> {
    Text::parse(template).and_then(|text| text.render(&call.input)).map_err(|error| wrong(&error))
}

fn wrong(error: &ExpressionError) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, "exception", format!("the tool's template: {error}"))
}

fn nobody(definition: &Definition) -> ToolError {
    let kind = definition.runner.kind();
    let message = format!(
        "tools of kind `{kind}` cannot run on this server: it asks no model; a dry run shows what it would ask"
    );
    ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
}
