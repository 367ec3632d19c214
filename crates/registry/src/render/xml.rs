//! Tools as text, for models that were never taught to call them.
//!
//! Everything from a definition is escaped: a description cannot close its element and pose as another tool.

use std::fmt::Write as _;

use serde_json::Value;
use toolgate_contracts::definition::Definition;

use super::provider::for_models;
use crate::schema::walk::target;

pub(super) fn tool(definition: &Definition) -> String {
    let schema = &definition.input_schema;
    let mut text = String::from("<tool>\n");
    let _ = writeln!(text, "<name>{}</name>", definition.name.wire());
    let _ = writeln!(text, "<description>{}</description>", escaped(definition.description.trim()));
    text.push_str("<parameters>\n");
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let _ = writeln!(text, "{}", parameter(schema, name, member, required.contains(&name.as_str())));
    }
    text.push_str("</parameters>\n");
    if is_nested(schema) {
        let _ = writeln!(text, "<schema>{}</schema>", escaped(&for_models(schema).to_string()));
    }
    text.push_str("</tool>\n");
    text
}

fn parameter(root: &Value, name: &str, member: &Value, required: bool) -> String {
    let referred = member.get("$ref").and_then(Value::as_str).and_then(|reference| target(root, reference));
    let look = |keyword: &str| member.get(keyword).or_else(|| referred?.get(keyword));
    let kind = match look("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    let mut text = format!(
        "<parameter><name>{}</name><type>{}</type><required>{required}</required>",
        escaped(name),
        escaped(&kind)
    );
    if let Some(options) = look("enum").and_then(Value::as_array) {
        let options: Vec<_> = options.iter().map(Value::to_string).collect();
        let _ = write!(text, "<values>{}</values>", escaped(&options.join(", ")));
    }
    if let Some(default) = look("default") {
        let _ = write!(text, "<default>{}</default>", escaped(&default.to_string()));
    }
    if let Some(description) = look("description").and_then(Value::as_str) {
        let _ = write!(text, "<description>{}</description>", escaped(description.trim()));
    }
    text + "</parameter>"
}

/// Whether a flat list of parameters leaves something out.
fn is_nested(schema: &Value) -> bool {
    let flat = [
        "type",
        "properties",
        "required",
        "description",
        "title",
        "additionalProperties",
        "$schema",
        "$id",
        "$comment",
    ];
    let flat_member = |member: &Value| {
        member.as_object().is_some_and(|keywords| {
            keywords.keys().all(|keyword| {
                keyword.starts_with("x-")
                    || matches!(
                        keyword.as_str(),
                        "type" | "enum" | "default" | "description" | "title" | "format" | "examples"
                    )
            })
        })
    };
    let members = schema.get("properties").and_then(Value::as_object);
    schema.as_object().is_some_and(|keywords| keywords.keys().any(|keyword| !flat.contains(&keyword.as_str())))
        || members.into_iter().flatten().any(|(_, member)| !flat_member(member))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' | '\t' => out.push(c),
            // XML has no way to write these.
            c if c.is_control() || matches!(u32::from(c), 0xFFFE | 0xFFFF) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
