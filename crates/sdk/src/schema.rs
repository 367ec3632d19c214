//! The JSON Schema of a Rust type, as a definition has it: 2020-12, complete in itself, an object at the top.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};
use toolgate_contracts::Fault;

/// Widths of numbers: no format of JSON Schema, and known already from `minimum` and `maximum`.
const WIDTHS: [&str; 16] = [
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "int128",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint128",
    "float",
    "double",
    "char",
    "partial-date-time",
];

/// Which side of a tool a type stands on: what serde reads and what it writes may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

#[derive(Clone)]
struct WithoutWidths;

impl Transform for WithoutWidths {
    fn transform(&mut self, schema: &mut Schema) {
        let width = schema.get("format").and_then(Value::as_str).is_some_and(|format| WIDTHS.contains(&format));
        if width {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}

/// The schema of what is read into a type. Comments of fields become descriptions.
///
/// ```
/// use schemars::JsonSchema;
///
/// #[derive(JsonSchema)]
/// struct Order {
///     /// How many.
///     count: u32,
/// }
///
/// let schema = toolgate_sdk::schema_of::<Order>()?;
/// assert_eq!(schema["properties"]["count"]["description"], "How many.");
/// assert!(toolgate_sdk::schema_of::<Vec<Order>>().is_err(), "arguments have names");
/// # Ok::<(), toolgate_sdk::Fault>(())
/// ```
pub fn schema_of<T: JsonSchema>() -> Result<Value, Fault> {
    schema_for::<T>(Side::Input)
}

pub(crate) fn schema_for<T: JsonSchema>(side: Side) -> Result<Value, Fault> {
    let settings = SchemaSettings::draft2020_12().with_transform(WithoutWidths);
    let settings = match side {
        Side::Input => settings.for_deserialize(),
        Side::Output => settings.for_serialize(),
    };
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // What the type is called is nobody's business but the author's.
    schema.remove("$schema");
    schema.remove("title");
    let mut schema = schema.to_value();
    if schema["type"] != "object" || schema.get("oneOf").or_else(|| schema.get("anyOf")).is_some() {
        let told = format!("`{}` is not a struct with named fields", T::schema_name());
        let remedy = "put it into one: arguments and results have names";
        return Err(Fault::invalid(told, remedy));
    }
    if side == Side::Input && schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    Ok(schema)
}
