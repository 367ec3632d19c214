//! Inputs judged again, by another definition of their tool: defaults and schema, as the gate does it.

use serde_json::{Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::definition::Definition;
use toolgate_engine::admit::invalid_input;
use toolgate_registry::schema::{Validator, fill_defaults};

use super::bundle::{Bundle, BundleCall};
use super::difference::Difference;

/// What a tool would make of an input: as it would run, or why not.
pub(super) fn taken(schema: &Value, mut input: Value) -> Result<Value, ToolError> {
    use toolgate_contracts::ErrorCode::ValidationError;
    fill_defaults(schema, &mut input)
        .map_err(|_| ToolError::because(ValidationError, "too_large", "the input has too many places with defaults"))?;
    let validator = Validator::new(schema).map_err(|finding| {
        let told = format!("the tool's own schema is broken: {}", finding.message);
        ToolError::because(ValidationError, "schema", told)
    })?;
    if validator.is_valid(&input) { Ok(input) } else { Err(invalid_input(&validator.validate(&input))) }
}

/// Where the definition treats what a model asked for in another way. `proposed` is that, by the place of the call.
pub(super) fn differences(
    bundle: &Bundle,
    definition: &Definition,
    proposed: impl Fn(u32) -> Option<Value>,
) -> Vec<Difference> {
    let own = |call: &&BundleCall| {
        call.envelope
            .name
            .parse()
            .is_ok_and(|name: toolgate_contracts::ToolName| name.folded() == definition.name.folded())
    };
    let of_tool = bundle.calls.iter().enumerate().filter(|(_, call)| own(call) && call.decision.is_some());
    of_tool.filter_map(|(at, call)| difference(at, call, definition, proposed(call.seq)?)).collect()
}

fn difference(at: usize, call: &BundleCall, definition: &Definition, proposed: Value) -> Option<Difference> {
    let was_refused = call
        .decision
        .as_ref()
        .is_some_and(|decision| decision.get("refused_at").and_then(Value::as_str) == Some("validate"));
    let (seq, tool) = (call.seq, &call.envelope.name);
    let version = definition.version.as_ref().map_or_else(|| "given".to_owned(), ToString::to_string);
    match (taken(&definition.input_schema, proposed), was_refused) {
        (Err(error), false) => {
            let words = format!(
                "call {seq} of `{tool}` was taken by version {}, and its input is not valid by version {version}: {}",
                call.envelope.version, error.message
            );
            let error = serde_json::to_value(&error).unwrap_or_default();
            Some(Difference::new(format!("/calls/{at}/envelope/error"), &Value::Null, &error, words))
        }
        (Ok(_), true) => {
            let words = format!(
                "call {seq} of `{tool}` was refused by version {}, and its input is valid by version {version}",
                call.envelope.version
            );
            let recorded = serde_json::to_value(&call.envelope.error).unwrap_or_default();
            Some(Difference::new(format!("/calls/{at}/envelope/error"), &recorded, &Value::Null, words))
        }
        (Ok(input), false) if !was_edited(call) => {
            let words = format!("call {seq} of `{tool}` would run with another input by version {version}");
            Difference::between(format!("/calls/{at}/envelope/input"), &call.envelope.input, &input, words)
        }
        (Ok(_) | Err(_), _) => None,
    }
}

/// What a person put in place of what the model asked for is not the definition's doing.
fn was_edited(call: &BundleCall) -> bool {
    call.decision.as_ref().and_then(|decision| decision.get("edited")) == Some(&json!(true))
}
