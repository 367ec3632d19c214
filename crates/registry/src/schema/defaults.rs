//! Defaults of a schema filled into a value, before it is validated, digested and recorded.

use std::collections::HashMap;

use serde_json::Value;

use super::reference::REF_CHAIN_MAX;
use super::walk::target;
use super::work::weight;

/// How many members one value may gain.
pub const DEFAULTS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema's defaults would add more than {DEFAULTS_MAX} members")]
pub struct TooManyDefaults;

/// Adds what is absent and has a `default`: in objects, in the items of lists, through `$ref` and `allOf`.
/// Not through `anyOf`, `oneOf` or `if`: which of them applies is only known afterwards.
/// Filling twice changes nothing more.
pub fn fill_defaults(schema: &Value, value: &mut Value) -> Result<(), TooManyDefaults> {
    let mut steps = STEPS_MAX;
    fill_within(schema, value, &mut steps)
}

/// The same for one of several values that share the steps.
pub(crate) fn fill_within(schema: &Value, value: &mut Value, steps: &mut u64) -> Result<(), TooManyDefaults> {
    Filler::new(schema, steps).fill(schema, value, 0)
}

/// How many members filling a schema's own default adds; an error when it keeps adding to itself, as
/// `{"default": {}, "$ref": "#"}` does.
/// What it takes is subtracted from `steps`.
pub(super) fn added_to_own_default(root: &Value, schema: &Value, steps: &mut u64) -> Result<usize, TooManyDefaults> {
    let Some(default) = schema.get("default") else { return Ok(0) };
    let mut filler = Filler::new(root, steps);
    filler.fill(schema, &mut default.clone(), 0)?;
    Ok(DEFAULTS_MAX - filler.left)
}

struct Filler<'a, 's> {
    root: &'a Value,
    left: usize,
    steps: &'s mut u64,
    /// References already followed: an anchor costs a walk through the whole schema, and lists have many items.
    targets: HashMap<&'a str, Option<&'a Value>>,
}

/// Bounds the way through references, which may recur where the value does not.
const LEVELS_MAX: usize = 256;
/// Bounds the work: schemas that meet a value, and what is copied into it.
pub(super) const STEPS_MAX: u64 = 5_000_000;
/// A copied part takes memory until the call ends.
const COPY_STEPS: u64 = 10;

impl<'a, 's> Filler<'a, 's> {
    fn new(root: &'a Value, steps: &'s mut u64) -> Self {
        Self { root, left: DEFAULTS_MAX, steps, targets: HashMap::new() }
    }

    fn spend(&mut self, steps: u64) -> Result<(), TooManyDefaults> {
        *self.steps = self.steps.checked_sub(steps).ok_or(TooManyDefaults)?;
        Ok(())
    }

    fn fill(&mut self, schema: &'a Value, value: &mut Value, level: usize) -> Result<(), TooManyDefaults> {
        if level > LEVELS_MAX {
            return Err(TooManyDefaults);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        let members = keywords.get("properties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        self.spend(1 + if value.is_object() { members as u64 } else { 0 })?;
        if let Some(referred) = self.referred(schema) {
            self.fill(referred, value, level + 1)?;
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.fill(part, value, level + 1)?;
        }
        match value {
            Value::Object(members) => {
                for (name, schema) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
                    if !members.contains_key(name)
                        && let Some(default) = self.default_of(schema)
                    {
                        self.left = self.left.checked_sub(1).ok_or(TooManyDefaults)?;
                        self.spend(COPY_STEPS * weight(default))?;
                        members.insert(name.clone(), default.clone());
                    }
                    if let Some(member) = members.get_mut(name) {
                        self.fill(schema, member, level + 1)?;
                    }
                }
            }
            Value::Array(items) => {
                let prefix =
                    keywords.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = prefix.get(index).or_else(|| keywords.get("items")) {
                        self.fill(schema, item, level + 1)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn referred(&mut self, schema: &'a Value) -> Option<&'a Value> {
        let reference = schema.get("$ref").and_then(Value::as_str)?;
        *self.targets.entry(reference).or_insert_with(|| target(self.root, reference))
    }

    /// A schema's own default, or that of what it refers to.
    fn default_of(&mut self, schema: &'a Value) -> Option<&'a Value> {
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
        assert_eq!(added_to_own_default(&endless, &endless["properties"]["a"], &mut 100_000), Err(TooManyDefaults));
        let ending = json!({"properties": {"a": {"default": {}, "$ref": "#/$defs/x"}}, "$defs": {"x": {"properties": {"y": {"default": 1}}}}});
        assert_eq!(added_to_own_default(&ending, &ending["properties"]["a"], &mut 100_000), Ok(1));
    }
}
