//! Function declarations of OpenAI, Anthropic and Gemini, and MCP's `Tool`.

use serde_json::{Map, Value, json};
use toolgate_contracts::definition::Definition;

use crate::schema::walk::for_each_mut;

/// What `parametersJsonSchema` documents; others are left out.
const GEMINI_KEYWORDS: [&str; 20] = [
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
    "propertyOrdering",
];
const GEMINI_FORMATS: [&str; 3] = ["date", "date-time", "time"];

pub(super) fn openai(definition: &Definition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": definition.name.wire(),
            "description": definition.description,
            "parameters": for_models(&definition.input_schema),
        },
    })
}

pub(super) fn anthropic(definition: &Definition) -> Value {
    json!({
        "name": definition.name.wire(),
        "description": definition.description,
        "input_schema": for_models(&definition.input_schema),
    })
}

/// An entry of `functionDeclarations`.
pub(super) fn gemini(definition: &Definition) -> Value {
    let mut declaration = json!({"name": definition.name.wire(), "description": definition.description});
    let members = definition.input_schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    if members > 0 {
        // An object without members is refused; a function without parameters is not.
        declaration["parametersJsonSchema"] = for_gemini(&definition.input_schema);
    }
    declaration
}

pub(super) fn mcp(definition: &Definition) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), definition.name.wire().into());
    tool.insert("title".into(), definition.effective_title().into());
    tool.insert("description".into(), definition.description.clone().into());
    tool.insert("inputSchema".into(), definition.input_schema.clone());
    if let Some(output) = &definition.output_schema {
        tool.insert("outputSchema".into(), output.clone());
    }
    tool.insert("annotations".into(), json!(definition.effective_annotations()));
    Value::Object(tool)
}

/// Without what is for us alone or costs tokens and tells a model nothing.
pub(super) fn for_models(schema: &Value) -> Value {
    let mut schema = schema.clone();
    for_each_mut(&mut schema, &mut |keywords| {
        keywords.retain(|keyword, _| {
            !keyword.starts_with("x-") && !matches!(keyword.as_str(), "$schema" | "$id" | "$comment")
        });
    });
    schema
}

fn for_gemini(schema: &Value) -> Value {
    let mut schema = for_models(schema);
    for_each_mut(&mut schema, &mut |keywords| {
        if let Some(old) = keywords.shift_remove("definitions") {
            let there = keywords.entry("$defs").or_insert_with(|| json!({}));
            if let (Value::Object(there), Value::Object(old)) = (there, old) {
                there.extend(old);
            }
        }
        if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
            *reference = reference.replacen("#/definitions/", "#/$defs/", 1);
            keywords.retain(|keyword, _| keyword.starts_with('$'));
        }
        if let Some(value) = keywords.shift_remove("const") {
            keywords.entry("enum").or_insert_with(|| json!([value]));
        }
        if let Some(alternatives) = keywords.shift_remove("oneOf") {
            keywords.entry("anyOf").or_insert(alternatives);
        }
        keywords.retain(|keyword, value| match keyword.as_str() {
            "enum" => value
                .as_array()
                .is_some_and(|options| options.iter().all(|option| option.is_string() || option.is_number())),
            "format" => value.as_str().is_some_and(|name| GEMINI_FORMATS.contains(&name)),
            "items" => value.is_object(),
            keyword => GEMINI_KEYWORDS.contains(&keyword),
        });
        if let Some(Value::Object(members)) = keywords.get_mut("properties") {
            members.values_mut().filter(|member| member.is_boolean()).for_each(|member| *member = json!({}));
        }
    });
    schema
}
