//! One tool whole: what it takes, what it gives, what it does and whether a person is asked.

use std::future::{Ready, ready};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ToolError, ToolRef};
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input, invalid};
use crate::catalog::{line, with_view};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    ready(described(tools, call).map_or_else(Outcome::Failed, Outcome::structured))
}

fn described(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let Input { name } = input(call)?;
    let reference: ToolRef = name.parse().map_err(|error| invalid("name", error))?;
    with_view(tools, call, |view, _| {
        let (tool, _) = view.resolve(&reference)?;
        let definition = &tool.definition;
        let mut described = line(call, &tool);
        described["version"] = tool.version.version.to_string().into();
        described["state"] = json!(tool.state());
        described["risk"] = json!(definition.effective_risk());
        described["input_schema"] = definition.input_schema.clone();
        for (member, value) in [
            ("output_schema", json!(definition.output_schema)),
            ("examples", json!(definition.examples)),
            ("docs", Some(&definition.docs).filter(|docs| !docs.is_empty()).map_or(Value::Null, |docs| json!(docs))),
            ("tags", json!(definition.tags)),
        ] {
            if !value.is_null() && value != json!([]) {
                described[member] = value;
            }
        }
        Ok(described)
    })
}
