//! The seeds' own forms. Exact: no member more, optional ones left out rather than null (`compat.md` part C).

use serde_json::{Map, Value, json};
use toolgate_contracts::definition::{CachePolicy, Definition};

use crate::schema::to_draft_07;
use crate::tool_md::Originals;

/// Seed 001 wants an icon on every card.
const ICON_DEFAULT: &str = "wrench";

/// C9. A schema that was written in draft-07 comes back as it was written.
pub(super) fn base_tool(definition: &Definition, originals: &Originals) -> Value {
    let draft_07 = |original: &Option<Value>, schema: Option<&Value>| match (original, schema) {
        (Some(original), _) => original.clone(),
        (None, Some(schema)) => to_draft_07(schema),
        // The member is not optional; a schema without conditions says that nothing is promised.
        (None, None) => json!({}),
    };
    let mut metadata = json!({
        "category": definition.effective_type(),
        "side_effects": definition.side_effects(),
        "cache": definition.cache_policy(),
    });
    if definition.cache_policy() == CachePolicy::Ttl
        && let Some(seconds) = definition.cache_ttl_s
    {
        metadata["cache_ttl_s"] = seconds.into();
    }
    json!({
        "name": definition.name,
        "version": definition.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        "input_schema": draft_07(&originals.input_schema, Some(&definition.input_schema)),
        "output_schema": draft_07(&originals.output_schema, definition.output_schema.as_ref()),
        "metadata": metadata,
    })
}

/// C15: nine members, `requiredPermission` only where there is one.
pub(super) fn meta(definition: &Definition) -> Value {
    let mut meta = identity(definition);
    meta.extend(optional(definition));
    Value::Object(meta)
}

/// C15, without the function that a JSON text cannot hold.
pub(super) fn tool_definition(definition: &Definition) -> Value {
    let mut tool = identity(definition);
    tool.insert("inputSchema".into(), definition.input_schema.clone());
    let mut optional = optional(definition);
    tool.extend(optional.shift_remove_entry("collaborative"));
    if let Some(aggregate) = &definition.aggregate {
        tool.insert("aggregate".into(), aggregate.clone());
    }
    tool.extend(optional);
    tool.insert("permissionPolicy".into(), json!(definition.policy()));
    Value::Object(tool)
}

fn identity(definition: &Definition) -> Map<String, Value> {
    [
        ("slug", definition.name.as_str()),
        ("name", definition.effective_title()),
        ("description", &definition.description),
        ("category", definition.effective_category()),
        ("icon", definition.icon.as_deref().unwrap_or(ICON_DEFAULT)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect()
}

fn optional(definition: &Definition) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("collaborative".into(), definition.collaborative.into());
    members.insert("outputSections".into(), json!(definition.output_sections));
    if let Some(permission) = &definition.required_permission {
        members.insert("requiredPermission".into(), json!(permission));
    }
    members.insert("tenantSlugs".into(), json!(definition.tenants));
    members
}
