//! 2020-12 told in draft-07, for readers of seed 003's `BaseTool` whose tool was not written in it.
//!
//! What draft-07 cannot say is left out with a `$comment`: the rendering then accepts more than the tool does,
//! and the gate still checks the schema that is stored.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolgate_contracts::json::escape;

use super::DRAFT_07;
use super::upgrade::rewrite_references;

const UNSAYABLE: [&str; 8] = [
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$dynamicAnchor",
    "$vocabulary",
    "contentSchema",
];

pub fn to_draft_07(schema: &Value) -> Value {
    let mut moves = Vec::new();
    let mut converted = downgrade(schema, "", "", &mut moves);
    let moved: HashMap<&str, &str> = moves.iter().map(|(now, then)| (then.as_str(), now.as_str())).collect();
    rewrite_references(&mut converted, &moved);
    if let Value::Object(keywords) = &mut converted {
        keywords.shift_remove("$schema");
        keywords.shift_insert(0, "$schema".into(), DRAFT_07.into());
    }
    converted
}

fn downgrade(schema: &Value, now: &str, then: &str, moves: &mut Vec<(String, String)>) -> Value {
    moves.push((now.to_owned(), then.to_owned()));
    let Value::Object(old) = schema else { return schema.clone() };
    let mut new = Map::new();
    // draft-07 ignores what stands beside `$ref`, so a reference with company moves into `allOf`.
    let alone =
        old.keys().all(|keyword| matches!(keyword.as_str(), "$ref" | "$defs" | "definitions" | "$schema" | "$comment"));
    let mut lost = Vec::new();
    for (keyword, value) in old {
        match keyword.as_str() {
            "$ref" if !alone => {
                let all = new.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    all.push(json!({"$ref": value}));
                }
            }
            "allOf" => {
                let all = new.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        let place = format!("{now}/allOf/{}", all.len());
                        all.push(downgrade(item, &place, &format!("{then}/allOf/{index}"), moves));
                    }
                }
            }
            "$defs" | "definitions" => {
                let named = named(value, &format!("{now}/definitions"), &format!("{then}/{keyword}"), moves);
                if let Value::Object(there) = new.entry("definitions").or_insert_with(|| json!({})) {
                    there.extend(named);
                }
            }
            "$anchor" => drop(new.insert("$id".into(), format!("#{}", value.as_str().unwrap_or_default()).into())),
            "prefixItems" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                let items = items.map(|(index, item)| {
                    downgrade(item, &format!("{now}/items/{index}"), &format!("{then}/prefixItems/{index}"), moves)
                });
                let items: Vec<_> = items.collect();
                new.insert("items".into(), items.into());
                if let Some(rest) = old.get("items") {
                    let rest = downgrade(rest, &format!("{now}/additionalItems"), &format!("{then}/items"), moves);
                    new.insert("additionalItems".into(), rest);
                }
            }
            "items" if old.contains_key("prefixItems") => {}
            "dependentRequired" | "dependentSchemas" => dependencies(keyword, value, &mut new, now, then, moves),
            keyword if UNSAYABLE.contains(&keyword) => lost.push(keyword),
            "additionalProperties" | "propertyNames" | "contains" | "items" | "not" | "if" | "then" | "else" => {
                let inner = downgrade(value, &format!("{now}/{keyword}"), &format!("{then}/{keyword}"), moves);
                new.insert(keyword.clone(), inner);
            }
            "properties" | "patternProperties" => {
                let named = named(value, &format!("{now}/{keyword}"), &format!("{then}/{keyword}"), moves);
                new.insert(keyword.clone(), Value::Object(named));
            }
            "anyOf" | "oneOf" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                let items = items.map(|(index, item)| {
                    downgrade(item, &format!("{now}/{keyword}/{index}"), &format!("{then}/{keyword}/{index}"), moves)
                });
                let items: Vec<_> = items.collect();
                new.insert(keyword.clone(), items.into());
            }
            _ => drop(new.insert(keyword.clone(), value.clone())),
        }
    }
    if !lost.is_empty() {
        let comment = format!("checked by the server, beyond draft-07: {}", lost.join(", "));
        new.insert("$comment".into(), comment.into());
    }
    Value::Object(new)
}

fn named(value: &Value, now: &str, then: &str, moves: &mut Vec<(String, String)>) -> Map<String, Value> {
    let schemas = value.as_object().into_iter().flatten();
    schemas
        .map(|(name, schema)| {
            let token = escape(name);
            (name.clone(), downgrade(schema, &format!("{now}/{token}"), &format!("{then}/{token}"), moves))
        })
        .collect()
}

/// Both kinds share one keyword in draft-07; a name in both keeps its schema with `required` inside.
fn dependencies(
    keyword: &str,
    value: &Value,
    new: &mut Map<String, Value>,
    now: &str,
    then: &str,
    moves: &mut Vec<(String, String)>,
) {
    let Value::Object(all) = new.entry("dependencies").or_insert_with(|| json!({})) else { return };
    for (name, value) in value.as_object().into_iter().flatten() {
        let token = escape(name);
        let entry = if keyword == "dependentRequired" {
            value.clone()
        } else {
            downgrade(value, &format!("{now}/dependencies/{token}"), &format!("{then}/dependentSchemas/{token}"), moves)
        };
        let merged = match all.remove(name) {
            None => entry,
            Some(Value::Array(names)) => json!({"allOf": [{"required": names}, entry]}),
            Some(schema) => json!({"allOf": [schema, {"required": entry}]}),
        };
        all.insert(name.clone(), merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_draft_07_can_say_is_said() {
        let schema = json!({"type": "object", "$defs": {"pair": {"prefixItems": [{"type": "string"}], "items": false}},
            "properties": {"p": {"$ref": "#/$defs/pair", "description": "kept"}, "q": {"$ref": "#/$defs/pair/prefixItems/0"}},
            "dependentRequired": {"a": ["b"], "c": ["d"]}, "dependentSchemas": {"a": {"minProperties": 2}},
            "unevaluatedProperties": false});
        assert_eq!(
            to_draft_07(&schema),
            json!({"$schema": DRAFT_07, "type": "object",
            "definitions": {"pair": {"items": [{"type": "string"}], "additionalItems": false}},
            "properties": {"p": {"allOf": [{"$ref": "#/definitions/pair"}], "description": "kept"}, "q": {"$ref": "#/definitions/pair/items/0"}},
            "dependencies": {"c": ["d"], "a": {"allOf": [{"required": ["b"]}, {"minProperties": 2}]}},
            "$comment": "checked by the server, beyond draft-07: unevaluatedProperties"})
        );
    }
}
