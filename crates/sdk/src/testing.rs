//! A kit for tests of tools: a registry in memory that judges calls by the schemas, as the gate does, and a way to take
//! one tool apart. No server, no approval, no secrets but those that a test hands in.

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_contracts::definition::Risk;
use toolgate_contracts::name::FoldedName;
use toolgate_contracts::{Clock, Definition, ErrorCode, Fault, Rng, TenantId, Timestamp, ToolError, ToolResult};

use crate::context::{Auth, ToolContext};
use crate::tool::{Erased, Tool};

/// A context for a test, with these secrets: the same tenant each time.
pub fn context(secrets: impl IntoIterator<Item = (&'static str, &'static str)>) -> ToolContext {
    let tenant = TenantId::new(&Clock::manual(Timestamp::from_millis(0)), &Rng::seeded(1));
    ToolContext { call_id: "c_test".to_owned(), ..ToolContext::new(tenant, secrets.into_iter().collect::<Auth>()) }
}

/// One tool, taken apart: what it declares, and what it does with an input.
pub struct CapturedTool {
    pub definition: Definition,
    input: jsonschema::Validator,
    output: Option<jsonschema::Validator>,
    tool: Box<dyn Erased>,
}

/// How one call went.
#[derive(Debug)]
pub struct Captured {
    pub result: Result<ToolResult, ToolError>,
    /// What the tool said while it ran.
    pub said: String,
}

impl Captured {
    /// The structured output of a call that went well.
    pub fn output(&self) -> Option<&Value> {
        self.result.as_ref().ok().and_then(|result| result.structured.as_ref())
    }

    /// The code and the finer reason of a call that did not.
    pub fn error(&self) -> Option<(ErrorCode, &str)> {
        self.result.as_ref().err().map(|error| (error.code, error.reason()))
    }
}

/// Takes a tool apart, for a test of it alone.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use serde_json::json;
/// use toolgate_sdk::testing::{capture_tool, context};
/// use toolgate_sdk::{ErrorCode, Tool, ToolContext, ToolError, ToolResult};
///
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Words {
///     /// The text to count in.
///     text: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Count {
///     /// How many words there are.
///     words: usize,
/// }
///
/// struct CountWords;
///
/// impl Tool for CountWords {
///     type Input = Words;
///     type Output = Count;
///     const NAME: &'static str = "countWords";
///     const DESCRIPTION: &'static str = "Counts words. Use it when a length matters. Do not use it for letters.";
///
///     async fn execute(&self, input: Words, _: &ToolContext) -> Result<ToolResult, ToolError> {
///         Self::done(&Count { words: input.text.split_whitespace().count() })
///     }
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let tool = capture_tool(CountWords)?;
/// let called = tool.call(json!({"text": "two words"}), &context([])).await;
/// assert_eq!(called.output(), Some(&json!({"words": 2})));
/// let refused = tool.call(json!({"txt": "two words"}), &context([])).await;
/// assert_eq!(refused.error(), Some((ErrorCode::ValidationError, "schema")));
/// # Ok::<(), toolgate_sdk::Fault>(())
/// # }).unwrap();
/// ```
pub fn capture_tool<T: Tool>(tool: T) -> Result<CapturedTool, Fault> {
    let definition = T::definition()?;
    let input = validator(&definition.input_schema, "input_schema")?;
    let output = definition.output_schema.as_ref().map(|schema| validator(schema, "output_schema")).transpose()?;
    Ok(CapturedTool { definition, input, output, tool: Box::new(tool) })
}

fn validator(schema: &Value, member: &str) -> Result<jsonschema::Validator, Fault> {
    jsonschema::draft202012::new(schema).map_err(|error| {
        Fault::invalid(format!("`{member}` is no schema: {error}"), "correct the type that it follows from")
            .at(format!("/{member}{}", error.instance_path()))
    })
}

impl CapturedTool {
    /// Calls it as the gate would: the input is judged before, the output after.
    pub async fn call(&self, input: Value, ctx: &ToolContext) -> Captured {
        let result = self.judged(input, ctx).await;
        Captured { result, said: ctx.said.take() }
    }

    async fn judged(&self, input: Value, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        check(&self.input, &input, ErrorCode::ValidationError, "schema")?;
        let result = self.tool.run(input, ctx).await?;
        if let (Some(validator), Some(output)) = (&self.output, &result.structured) {
            check(validator, output, ErrorCode::ProviderError, "output_schema")?;
        }
        Ok(result)
    }
}

fn check(validator: &jsonschema::Validator, value: &Value, code: ErrorCode, reason: &str) -> Result<(), ToolError> {
    let Some(error) = validator.iter_errors(value).next() else { return Ok(()) };
    let pointer = error.instance_path().to_string();
    Err(ToolError::because(code, reason, error.to_string()).with("pointer", pointer))
}

/// Tools by name, and the calls that were made of them.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use serde_json::json;
/// use toolgate_sdk::testing::{MockRegistry, context};
/// # use toolgate_sdk::{NoInput, Risk, Tool, ToolContext, ToolError, ToolResult};
/// # #[derive(Serialize, JsonSchema)]
/// # struct Rung { /** Whether. */ rung: bool }
/// # struct RingBell;
/// # impl Tool for RingBell {
/// #     type Input = NoInput;
/// #     type Output = Rung;
/// #     const NAME: &'static str = "ringBell";
/// #     const DESCRIPTION: &'static str = "Rings. Use it when somebody should come. Do not use it at night.";
/// #     async fn execute(&self, _: NoInput, _: &ToolContext) -> Result<ToolResult, ToolError> {
/// #         Self::done(&Rung { rung: true })
/// #     }
/// # }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let mut registry = MockRegistry::default();
/// registry.register(RingBell)?;
/// let rung = registry.call("ring_bell", json!({}), &context([])).await;
/// assert_eq!(rung.output(), Some(&json!({"rung": true})));
/// assert_eq!(registry.calls(), [("ringBell".to_owned(), json!({}))]);
/// assert_eq!(registry.by_risk(Risk::Critical), ["ringBell"]);
/// # Ok::<(), toolgate_sdk::Fault>(())
/// # }).unwrap();
/// ```
#[derive(Default)]
pub struct MockRegistry {
    tools: BTreeMap<FoldedName, CapturedTool>,
    calls: std::sync::Mutex<Vec<(String, Value)>>,
}

impl MockRegistry {
    /// Two spellings of one name are one tool, as they are for the gate.
    pub fn register<T: Tool>(&mut self, tool: T) -> Result<(), Fault> {
        let captured = capture_tool(tool)?;
        let name = captured.definition.name.clone();
        if self.tools.insert(name.folded(), captured).is_some() {
            let told = format!("there is a tool `{name}` already, perhaps in another spelling");
            return Err(Fault::conflict(told, "name it otherwise"));
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&CapturedTool> {
        self.tools.get(&FoldedName::of(name))
    }

    /// The names of the tools of this risk, in order.
    pub fn by_risk(&self, risk: Risk) -> Vec<&str> {
        let names = self.tools.values().map(|tool| &tool.definition);
        let mut names: Vec<&str> = names
            .filter(|definition| definition.effective_risk() == risk)
            .map(|definition| definition.name.as_str())
            .collect();
        names.sort_unstable();
        names
    }

    /// Calls a tool by its name; one that is not there answers as the gate does.
    pub async fn call(&self, name: &str, input: Value, ctx: &ToolContext) -> Captured {
        let Some(tool) = self.get(name) else {
            let error = ToolError::because(ErrorCode::PolicyDenied, "not_found", format!("no tool `{name}`"));
            return Captured { result: Err(error), said: String::new() };
        };
        let call = (tool.definition.name.to_string(), input.clone());
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(call);
        tool.call(input, ctx).await
    }

    /// What was called with what, in order.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}
