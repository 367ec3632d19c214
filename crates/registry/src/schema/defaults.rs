//! Defaults of a schema filled into a value, before it is validated, digested and recorded.

use serde_json::Value;

use super::reference::REF_CHAIN_MAX;
use super::walk::target;

/// How many members one value may gain.
pub const DEFAULTS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema's defaults would add more than {DEFAULTS_MAX} members")]
pub struct TooManyDefaults;

/// Adds what is absent and has a `default`: in objects, in the items of lists, through `$ref` and `allOf`.
/// Not through `anyOf`, `oneOf` or `if`: which of them applies is only known afterwards.
/// Filling twice changes nothing more.
pub fn fill_defaults(schema: &Value, value: &mut Value) -> Result<(), TooManyDefaults> {
    Filler { root: schema, left: DEFAULTS_MAX }.fill(schema, value, 0)
}

/// Whether the default of a schema keeps adding to itself, as `{"default": {}, "$ref": "#"}` does.
pub(super) fn never_ends(root: &Value, schema: &Value) -> bool {
    let Some(default) = schema.get("default") else { return false };
    let mut value = default.clone();
    Filler { root, left: DEFAULTS_MAX }.fill(schema, &mut value, 0).is_err()
}

struct Filler<'a> {
    root: &'a Value,
    left: usize,
}

/// Bounds the way through references, which may recur where the value does not.
const STEPS_MAX: usize = 256;

impl<'a> Filler<'a> {
    fn fill(&mut self, schema: &'a Value, value: &mut Value, steps: usize) -> Result<(), TooManyDefaults> {
        if steps > STEPS_MAX {
            return Err(TooManyDefaults);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        if let Some(referred) = self.referred(schema) {
            self.fill(referred, value, steps + 1)?;
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.fill(part, value, steps + 1)?;
        }
        match value {
            Value::Object(members) => {
                for (name, schema) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
                    if !members.contains_key(name)
                        && let Some(default) = self.default_of(schema)
                    {
                        self.left = self.left.checked_sub(1).ok_or(TooManyDefaults)?;
                        members.insert(name.clone(), default.clone());
                    }
                    if let Some(member) = members.get_mut(name) {
                        self.fill(schema, member, steps + 1)?;
                    }
                }
            }
            Value::Array(items) => {
                let prefix =
                    keywords.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = prefix.get(index).or_else(|| keywords.get("items")) {
                        self.fill(schema, item, steps + 1)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn referred(&self, schema: &'a Value) -> Option<&'a Value> {
        schema.get("$ref").and_then(Value::as_str).and_then(|reference| target(self.root, reference))
    }

    /// A schema's own default, or that of what it refers to.
    fn default_of(&self, schema: &'a Value) -> Option<&'a Value> {
        let mut schema = schema;
        for _ in 0..=REF_CHAIN_MAX {
            if let Some(default) = schema.get("default") {
                return Some(default);
            }
            schema = self.referred(schema)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn fills(schema: Value, value: Value, expected: Value) {
        let mut filled = value;
        fill_defaults(&schema, &mut filled).unwrap();
        assert_eq!(filled, expected);
        fill_defaults(&schema, &mut filled).unwrap();
        assert_eq!(filled, expected, "filling twice changes nothing more");
    }

    #[test]
    fn absent_members_take_their_default() {
        let schema = json!({"properties": {
            "limit": {"default": 10}, "to": {"type": "string"}, "page": {"$ref": "#/$defs/page"},
            "sort": {"default": {"by": "name"}, "properties": {"order": {"default": "asc"}}},
            "rows": {"items": {"properties": {"unit": {"default": "kg"}}}},
            "pair": {"prefixItems": [{"properties": {"x": {"default": 0}}}, {}], "items": {"properties": {"y": {"default": 1}}}},
        }, "allOf": [{"properties": {"trace": {"default": false}}}],
            "$defs": {"page": {"default": 1, "type": "integer"}}});
        fills(
            schema.clone(),
            json!({}),
            json!({"trace": false, "limit": 10, "page": 1, "sort": {"by": "name", "order": "asc"}}),
        );
        fills(
            schema.clone(),
            json!({"limit": null, "rows": [{}, {"unit": "g"}], "pair": [{}, {}, {}]}),
            json!({
                "limit": null, "rows": [{"unit": "kg"}, {"unit": "g"}], "pair": [{"x": 0}, {}, {"y": 1}],
                "trace": false, "page": 1, "sort": {"by": "name", "order": "asc"},
            }),
        );
        fills(schema, json!("no object"), json!("no object"));
    }

    #[test]
    fn alternatives_fill_nothing() {
        for keyword in ["anyOf", "oneOf"] {
            fills(json!({keyword: [{"properties": {"a": {"default": 1}}}]}), json!({}), json!({}));
        }
        fills(json!({"if": {}, "then": {"properties": {"a": {"default": 1}}}}), json!({}), json!({}));
        fills(json!({"properties": {"nested": {"properties": {"a": {"default": 1}}}}}), json!({}), json!({}));
    }

    #[test]
    fn a_default_that_never_ends_is_noticed() {
        let endless = json!({"properties": {"a": {"default": {}, "$ref": "#"}, "b": {"default": {}, "$ref": "#"}}});
        assert_eq!(fill_defaults(&endless, &mut json!({})), Err(TooManyDefaults));
        assert!(never_ends(&endless, &endless["properties"]["a"]));
        let ending = json!({"properties": {"a": {"default": {}, "$ref": "#/$defs/x"}}, "$defs": {"x": {"properties": {"y": {"default": 1}}}}});
        assert!(!never_ends(&ending, &ending["properties"]["a"]));
    }
}
