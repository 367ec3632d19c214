//! draft-07 becomes 2020-12 (`compat.md` D8), so that one dialect is stored, validated and compared.
//!
//! What means the same under another name is renamed, what draft-07 ignores is dropped, references follow what
//! moved. What draft-07 ignores and 2020-12 obeys is refused: the author meant one of the two, and only the
//! author knows which.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toolgate_contracts::json::{self, escape};

use super::walk::{NAME_BYTES_MAX, SUBSCHEMAS_MAX, for_each_mut, fragment};
use super::{DRAFT_07, DRAFT_2020_12, Dialect};
use crate::finding::{Finding, shown};

/// A schema in 2020-12 that was written in draft-07.
#[derive(Clone, Debug)]
pub struct Converted {
    pub schema: Value,
    /// Pointers of subschemas: (now, as written).
    pub moves: Vec<(String, String)>,
    pub notes: Vec<Finding>,
}

/// Assertions that draft-07 does not know.
const LATER_KEYWORDS: [&str; 11] = [
    "prefixItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentRequired",
    "dependentSchemas",
    "minContains",
    "maxContains",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
];

/// Converts a schema where it needs it; `None` when it is 2020-12 already. `at` is where the schema stands in
/// the definition. A `$schema` in the text wins over `default`.
pub fn convert(schema: &Value, default: Dialect, at: &str) -> Result<Option<Converted>, Vec<Finding>> {
    match Dialect::of(schema, default) {
        Ok(Dialect::Draft202012) => return Ok(None),
        Ok(Dialect::Draft07) => {}
        Err(name) => {
            let message = format!("`{}` is not a dialect that can be read here", shown(&name));
            let fix = format!("use `{DRAFT_2020_12}` (the default) or `{DRAFT_07}`");
            return Err(vec![Finding::error("schema.dialect", format!("{at}/$schema"), message, fix)]);
        }
    }
    let mut upgrade = Upgrade { at, moves: Vec::new(), findings: Vec::new(), changes: Vec::new() };
    let mut converted = upgrade.schema(schema, String::new(), String::new());
    if !upgrade.findings.is_empty() {
        return Err(upgrade.findings);
    }
    let moved: HashMap<&str, &str> = upgrade.moves.iter().map(|(now, then)| (then.as_str(), now.as_str())).collect();
    rewrite_references(&mut converted, &moved);
    unfold_root(&mut converted);
    if let Value::Object(keywords) = &mut converted {
        keywords.insert("$schema".into(), DRAFT_2020_12.into());
    }
    upgrade.changes.sort_unstable();
    upgrade.changes.dedup();
    let changes =
        if upgrade.changes.is_empty() { "nothing had to change".to_owned() } else { upgrade.changes.join("; ") };
    let message = format!("the schema is draft-07 and was converted to 2020-12: {changes}");
    let notes = vec![Finding::note(
        "schema.converted",
        at,
        message,
        "nothing to do; the original is kept and rendered back where draft-07 is asked for",
    )];
    let moves = upgrade.moves.into_iter().map(|(now, then)| (format!("{at}{now}"), format!("{at}{then}"))).collect();
    Ok(Some(Converted { schema: converted, moves, notes }))
}

struct Upgrade<'a> {
    at: &'a str,
    moves: Vec<(String, String)>,
    findings: Vec<Finding>,
    changes: Vec<&'static str>,
}

impl Upgrade<'_> {
    fn schema(&mut self, schema: &Value, now: String, then: String) -> Value {
        if self.moves.len() >= SUBSCHEMAS_MAX || now.matches('/').count() > 2 * json::DEPTH_MAX {
            if self.moves.len() == SUBSCHEMAS_MAX {
                let message = format!("more than {SUBSCHEMAS_MAX} schemas in one");
                self.refuse("schema.too-many", &then, message, "split the tool, or describe the parts more loosely");
            }
            return Value::Bool(true);
        }
        self.moves.push((now.clone(), then.clone()));
        let Value::Object(old) = schema else { return schema.clone() };
        let mut new = Map::new();
        let refers = old.contains_key("$ref");
        for (keyword, value) in old {
            if refers && !matches!(keyword.as_str(), "$ref" | "definitions" | "$defs" | "$schema" | "$comment") {
                self.changes.push("what stood beside `$ref` was dropped, as draft-07 ignores it");
                continue;
            }
            if LATER_KEYWORDS.contains(&keyword.as_str()) {
                let message = format!("`{keyword}` is not draft-07: it would be ignored there and obeyed in 2020-12");
                let fix = format!("remove it, or declare `$schema: {DRAFT_2020_12}` and write the rest in 2020-12");
                self.refuse("schema.dialect-mix", &format!("{then}/{keyword}"), message, fix);
                continue;
            }
            self.keyword(keyword, value, old, &mut new, &now, &then);
        }
        Value::Object(new)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        old: &Map<String, Value>,
        new: &mut Map<String, Value>,
        now: &str,
        then: &str,
    ) {
        match keyword {
            "definitions" | "$defs" => {
                if keyword == "definitions" {
                    self.changes.push("`definitions` became `$defs`");
                }
                let named = self.named(value, &format!("{now}/$defs"), &format!("{then}/{keyword}"));
                let clash = new
                    .get("$defs")
                    .and_then(Value::as_object)
                    .and_then(|there| there.keys().find(|name| named.contains_key(*name)));
                if let Some(name) = clash {
                    let message = format!("`{}` is in `definitions` and in `$defs`", shown(name));
                    self.refuse(
                        "schema.dialect-mix",
                        &format!("{then}/{keyword}"),
                        message,
                        "keep one of the two".to_owned(),
                    );
                } else if let Some(there) =
                    new.entry("$defs").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
                {
                    there.extend(named);
                }
            }
            "items" if value.is_array() => {
                self.changes.push("a tuple in `items` became `prefixItems`");
                let listed = self.list(value, &format!("{now}/prefixItems"), &format!("{then}/items"));
                new.insert("prefixItems".into(), listed);
                if let Some(rest) = old.get("additionalItems") {
                    self.changes.push("`additionalItems` became `items`");
                    let rest = self.schema(rest, format!("{now}/items"), format!("{then}/additionalItems"));
                    new.insert("items".into(), rest);
                }
            }
            // Only a tuple gives it a meaning, and is taken care of above.
            "additionalItems" => {
                if !old.get("items").is_some_and(Value::is_array) {
                    self.changes.push("`additionalItems` without a tuple was dropped, as draft-07 ignores it");
                }
            }
            "dependencies" => self.dependencies(value, new, now, then),
            "$id" => match value.as_str() {
                Some(id) if id.starts_with('#') && id.len() > 1 => {
                    self.changes.push("a fragment in `$id` became `$anchor`");
                    new.insert("$anchor".into(), id[1..].into());
                }
                _ if then.is_empty() => drop(new.insert("$id".into(), value.clone())),
                _ => {
                    let fix = "remove it and refer to the schema as `#/definitions/NAME`".to_owned();
                    self.refuse(
                        "schema.id",
                        &format!("{then}/$id"),
                        "a schema inside has its own `$id`, which changes what `#` means below it".to_owned(),
                        fix,
                    );
                }
            },
            "additionalProperties" | "propertyNames" | "contains" | "items" | "not" | "if" | "then" | "else" => {
                let inner = self.schema(value, format!("{now}/{keyword}"), format!("{then}/{keyword}"));
                new.insert(keyword.into(), inner);
            }
            "properties" | "patternProperties" => {
                let named = self.named(value, &format!("{now}/{keyword}"), &format!("{then}/{keyword}"));
                new.insert(keyword.into(), Value::Object(named));
            }
            "allOf" | "anyOf" | "oneOf" if value.is_array() => {
                let listed = self.list(value, &format!("{now}/{keyword}"), &format!("{then}/{keyword}"));
                new.insert(keyword.into(), listed);
            }
            _ => drop(new.insert(keyword.into(), value.clone())),
        }
    }

    fn named(&mut self, value: &Value, now: &str, then: &str) -> Map<String, Value> {
        let mut converted = Map::new();
        for (name, schema) in value.as_object().into_iter().flatten() {
            if name.len() > NAME_BYTES_MAX {
                let message = format!("the name `{}` has more than {NAME_BYTES_MAX} bytes", shown(name));
                self.refuse("schema.name-length", then, message, "shorten it".to_owned());
                continue;
            }
            let token = escape(name);
            let schema = self.schema(schema, format!("{now}/{token}"), format!("{then}/{token}"));
            converted.insert(name.clone(), schema);
        }
        converted
    }

    fn list(&mut self, value: &Value, now: &str, then: &str) -> Value {
        let items = value.as_array().into_iter().flatten().enumerate();
        Value::Array(
            items.map(|(index, item)| self.schema(item, format!("{now}/{index}"), format!("{then}/{index}"))).collect(),
        )
    }

    fn dependencies(&mut self, value: &Value, new: &mut Map<String, Value>, now: &str, then: &str) {
        let (mut required, mut schemas) = (Map::new(), Map::new());
        for (name, value) in value.as_object().into_iter().flatten() {
            if value.is_array() {
                self.changes.push("`dependencies` became `dependentRequired`");
                required.insert(name.clone(), value.clone());
            } else {
                self.changes.push("`dependencies` became `dependentSchemas`");
                let token = escape(name);
                let schema = self.schema(
                    value,
                    format!("{now}/dependentSchemas/{token}"),
                    format!("{then}/dependencies/{token}"),
                );
                schemas.insert(name.clone(), schema);
            }
        }
        for (keyword, members) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !members.is_empty() {
                new.insert(keyword.into(), Value::Object(members));
            }
        }
    }

    fn refuse(&mut self, code: &'static str, then: &str, message: String, fix: impl Into<String>) {
        self.findings.push(Finding::error(code, format!("{}{then}", self.at), message, fix));
    }
}

/// Lets references follow what moved. Others stay as they are; `check` says what is wrong with them.
pub(super) fn rewrite_references(schema: &mut Value, moved: &HashMap<&str, &str>) {
    for_each_mut(schema, &mut |keywords| {
        let target = keywords.get("$ref").and_then(Value::as_str).and_then(fragment);
        if let Some(now) = target.and_then(|then| moved.get(then.as_str()).copied()) {
            keywords.insert("$ref".into(), format!("#{}", encoded(now)).into());
        }
    });
}

/// A pointer as a URI fragment.
fn encoded(pointer: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const UNSAFE: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'<')
        .add(b'>')
        .add(b'`')
        .add(b'#')
        .add(b'%')
        .add(b'{')
        .add(b'}')
        .add(b'|')
        .add(b'\\')
        .add(b'^')
        .add(b'[')
        .add(b']');
    utf8_percent_encode(pointer, UNSAFE).to_string()
}

/// Generators like to write `{"$ref": "#/definitions/Input", "definitions": …}`; the top level must say what it is.
fn unfold_root(schema: &mut Value) {
    let referred = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| super::walk::target(schema, reference))
        .cloned();
    let (Value::Object(keywords), Some(Value::Object(target))) = (schema, referred) else { return };
    if target.contains_key("$ref") {
        return;
    }
    keywords.shift_remove("$ref");
    for (keyword, value) in target {
        keywords.entry(keyword).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn converts(draft_07: Value, expected: Value) {
        let converted = convert(&draft_07, Dialect::Draft07, "").unwrap().unwrap().schema;
        let mut expected = expected;
        expected["$schema"] = json!(DRAFT_2020_12);
        assert_eq!(converted, expected);
        assert!(convert(&converted, Dialect::Draft07, "").unwrap().is_none(), "a converted schema is left alone");
    }

    #[test]
    fn what_means_the_same_is_renamed_and_references_follow() {
        converts(
            json!({"type": "object", "properties": {"p": {"$ref": "#/definitions/pair"}, "first": {"$ref": "#/definitions/pair/items/0"},
                "rest": {"$ref": "#/definitions/pair/additionalItems"}, "definitions": {"type": "string"}},
                "definitions": {"pair": {"type": "array", "items": [{"type": "string"}], "additionalItems": false}},
                "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/pair"}, "first": {"$ref": "#/$defs/pair/prefixItems/0"},
                "rest": {"$ref": "#/$defs/pair/items"}, "definitions": {"type": "string"}},
                "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": false}},
                "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        );
        converts(
            json!({"properties": {"default": {"$ref": "#/definitions/a"}}, "default": {"$ref": "#/definitions/a"}, "definitions": {"a": {}}}),
            json!({"properties": {"default": {"$ref": "#/$defs/a"}}, "default": {"$ref": "#/definitions/a"}, "$defs": {"a": {}}}),
        );
        converts(
            json!({"properties": {"x": {"$id": "#here"}, "y": {"$ref": "#here"}}}),
            json!({"properties": {"x": {"$anchor": "here"}, "y": {"$ref": "#here"}}}),
        );
        converts(
            json!({"properties": {"x": {"$ref": "#/definitions/a%20b~1c"}}, "definitions": {"a b/c": {}}}),
            json!({"properties": {"x": {"$ref": "#/$defs/a%20b~1c"}}, "$defs": {"a b/c": {}}}),
        );
    }

    #[test]
    fn what_draft_07_ignores_is_dropped() {
        converts(
            json!({"properties": {"x": {"$ref": "#", "type": "string", "description": "gone"}}}),
            json!({"properties": {"x": {"$ref": "#"}}}),
        );
        converts(
            json!({"properties": {"x": {"items": {"type": "string"}, "additionalItems": false}}}),
            json!({"properties": {"x": {"items": {"type": "string"}}}}),
        );
    }

    #[test]
    fn a_generator_s_top_level_is_unfolded() {
        converts(
            json!({"$ref": "#/definitions/Input", "definitions": {"Input": {"type": "object", "properties": {"next": {"$ref": "#/definitions/Input"}}}}}),
            json!({"$defs": {"Input": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Input"}}}}, "type": "object", "properties": {"next": {"$ref": "#/$defs/Input"}}}),
        );
    }

    #[test]
    fn what_cannot_be_converted_is_refused() {
        let refuses = |schema: Value, code: &str| {
            let findings = convert(&schema, Dialect::Draft07, "/input_schema").expect_err(code);
            assert_eq!(findings[0].code, code);
            assert!(findings[0].pointer.starts_with("/input_schema"));
        };
        refuses(json!({"unevaluatedProperties": false}), "schema.dialect-mix");
        refuses(json!({"properties": {"a": {"prefixItems": []}}}), "schema.dialect-mix");
        refuses(json!({"definitions": {"a": {}}, "$defs": {"a": {}}}), "schema.dialect-mix");
        refuses(json!({"definitions": {"a": {"$id": "https://a.test/x"}}}), "schema.id");
        refuses(json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "schema.dialect");
        let wide: Map<String, Value> = (0..3000).map(|n| (format!("p{n}"), json!({}))).collect();
        refuses(json!({"properties": wide}), "schema.too-many");
    }
}
