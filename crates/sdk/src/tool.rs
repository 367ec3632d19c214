//! A tool as its author writes it.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, HitlMode, Risk};
use toolgate_contracts::{Definition, ErrorCode, Fault, ToolError, ToolResult, json as strict};

use crate::context::ToolContext;
use crate::schema::{Side, schema_for};

/// One tool. Its constants are what a model and the gate know before it runs, so they are set in the type and nowhere
/// else.
///
/// A tool that runs in a process of your own is of the class `write`, since nobody but you knows what it does, and a
/// person is asked about each call; an operator who has read the code lowers it with `toolgate tool classify`.
pub trait Tool: Send + Sync + 'static {
    /// The arguments. `#[serde(deny_unknown_fields)]` closes them, and a comment on each field tells a model what to
    /// put there. A tool without arguments takes [`NoInput`].
    type Input: DeserializeOwned + JsonSchema + Send;
    /// What comes back.
    type Output: Serialize + JsonSchema;

    /// In camelCase, a verb and a noun, such as `sendLetter`.
    const NAME: &'static str;
    /// What it does, when to use it, when not, and what to try first.
    const DESCRIPTION: &'static str;
    /// Without it the server counts the version by what changed.
    const VERSION: Option<&'static str> = None;
    /// Without it the risk follows the class: `critical` for a `write`, less once an operator lowered that. What is
    /// declared stays, and a `write` is never [`Risk::Safe`].
    const RISK: Option<Risk> = None;
    /// How a call waits for a person. For a `write` no mode lets the effect happen without one.
    const HITL: HitlMode = HitlMode::Blocking;
    /// Names of the secrets that it is given in [`ToolContext::auth`].
    const SECRETS: &'static [&'static str] = &[];
    /// Whether repeating a call changes nothing more.
    const IDEMPOTENT: bool = false;

    /// Adds to the definition what has no constant here: a title, examples, a time limit.
    fn describe(definition: &mut Definition) {
        let _ = definition;
    }

    /// What the gate knows of the tool.
    fn definition() -> Result<Definition, Fault> {
        let input_schema = schema_for::<Self::Input>(Side::Input)?;
        let input_less = input_schema["properties"].as_object().is_some_and(serde_json::Map::is_empty);
        let secrets: Vec<Value> = Self::SECRETS.iter().map(|name| json!({"name": name})).collect();
        let mut definition = json!({
            "name": Self::NAME,
            "description": Self::DESCRIPTION,
            "input_schema": input_schema,
            "output_schema": schema_for::<Self::Output>(Side::Output)?,
            "egress_class": EgressClass::Write,
            "hitl": {"mode": Self::HITL},
            "idempotent": Self::IDEMPOTENT,
            "input_less": input_less,
            "secrets": secrets,
            "runner": {"kind": "external"},
        });
        if let Some(risk) = Self::RISK {
            definition["risk"] = risk.as_str().into();
        }
        if let Some(version) = Self::VERSION {
            definition["version"] = version.into();
        }
        let mut definition = strict::decode(definition).map_err(Fault::from)?;
        Self::describe(&mut definition);
        Ok(definition)
    }

    /// Carries out one call. The gate has let it through; what is returned is checked against the schema of
    /// [`Self::Output`], redacted and recorded.
    fn execute(
        &self,
        input: Self::Input,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolResult, ToolError>> + Send;

    /// The result that is this output.
    fn done(output: &Self::Output) -> Result<ToolResult, ToolError> {
        serde_json::to_value(output).map(ToolResult::structured).map_err(|error| {
            let told = format!("the output cannot be written as JSON: {error}");
            ToolError::because(ErrorCode::ProviderError, "output_schema", told)
        })
    }
}

/// The input of a tool that takes none on purpose.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

#[cfg(any(feature = "testing", feature = "worker"))]
pub(crate) use erased::Erased;

#[cfg(any(feature = "testing", feature = "worker"))]
mod erased {
    use std::future::Future;
    use std::pin::Pin;

    use serde_json::Value;
    use toolgate_contracts::{ErrorCode, ToolError, ToolResult, json as strict};

    use super::Tool;
    use crate::context::ToolContext;

    type Running<'a> = Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send + 'a>>;

    /// A tool without its types: many of them in one list.
    pub(crate) trait Erased: Send + Sync {
        fn run<'a>(&'a self, input: Value, ctx: &'a ToolContext) -> Running<'a>;
    }

    impl<T: Tool> Erased for T {
        fn run<'a>(&'a self, input: Value, ctx: &'a ToolContext) -> Running<'a> {
            Box::pin(async move {
                let input = strict::decode(input).map_err(|error| {
                    let strict::Error { pointer, message } = error;
                    ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", pointer)
                })?;
                self.execute(input, ctx).await
            })
        }
    }
}
