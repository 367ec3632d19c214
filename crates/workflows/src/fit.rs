//! Whether values of one schema can be values of another, as far as that is certain.
//!
//! Only what can never fit is told. What a `$ref` or a combination says is not looked into: it may fit.

use serde_json::Value;

/// Deeper differences are left to the run.
const DEPTH_MAX: usize = 16;

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// The schema of what stands at a JSON Pointer in values of a schema; `true` where it is not said.
pub fn at(schema: &Value, pointer: &str) -> Value {
    let mut place = schema;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let member = place.get("properties").and_then(|members| members.get(&token));
        let item = || place.get("items").filter(|_| token.parse::<usize>().is_ok());
        match member.or_else(item) {
            Some(next) => place = next,
            None => return Value::Bool(true),
        }
    }
    place.clone()
}

/// Why no value of `from` is one of `to`; `None` where one may be.
pub fn misfit(from: &Value, to: &Value) -> Option<String> {
    misfit_within(from, to, DEPTH_MAX)
}

fn misfit_within(from: &Value, to: &Value, depth: usize) -> Option<String> {
    let (given, taken) = (types(from), types(to));
    if !given.iter().any(|given| taken.contains(given)) {
        return Some(format!("it gives {}, and {} is taken", words(&declared(from)), words(&declared(to))));
    }
    let depth = depth.checked_sub(1)?;
    if given == ["object"] {
        for name in to.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let closed = from.get("additionalProperties") == Some(&Value::Bool(false));
            match (from.pointer("/properties").and_then(|members| members.get(name)), closed) {
                (None, true) => return Some(format!("it never has the member `{name}`, which is required")),
                (Some(given), _) => {
                    let taken = to.pointer("/properties").and_then(|members| members.get(name));
                    let why = taken.and_then(|taken| misfit_within(given, taken, depth));
                    if let Some(why) = why {
                        return Some(format!("in the member `{name}`: {why}"));
                    }
                }
                (None, false) => {}
            }
        }
    }
    None
}

/// The types that a schema allows; all where it does not say.
fn types(schema: &Value) -> Vec<&'static str> {
    let mut types: Vec<&'static str> = TYPES.into_iter().filter(|name| allows(schema, name)).collect();
    // An integer is a number to whoever takes numbers.
    if types.contains(&"number") && !types.contains(&"integer") {
        types.push("integer");
    }
    types
}

fn allows(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => *schema != Value::Bool(false),
    }
}

fn declared(schema: &Value) -> Vec<&'static str> {
    TYPES.into_iter().filter(|name| allows(schema, name)).collect()
}

fn words(types: &[&str]) -> String {
    match types {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        several => several.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_never_fits_is_told() {
        let check = |from: Value, to: Value, told: Option<&str>| {
            let why = misfit(&from, &to);
            assert_eq!(why.is_some(), told.is_some(), "{from} to {to}: {why:?}");
            assert!(why.unwrap_or_default().contains(told.unwrap_or_default()), "{from} to {to}");
        };
        check(json!(true), json!({"type": "string"}), None);
        check(json!({"type": "string"}), json!({"type": "string"}), None);
        check(json!({"type": "string"}), json!({"type": "integer"}), Some("`string`, and `integer`"));
        check(json!({"type": "integer"}), json!({"type": "number"}), None);
        check(json!({"type": "number"}), json!({"type": "integer"}), None);
        check(json!({"type": ["string", "null"]}), json!({"type": "string"}), None);
        check(json!({"anyOf": [{"type": "string"}]}), json!({"type": "integer"}), None);
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        check(closed.clone(), json!({"type": "object", "required": ["b"]}), Some("member `b`"));
        let wants = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "array"}}});
        check(closed, wants, Some("in the member `a`"));
    }

    #[test]
    fn a_path_is_followed_as_far_as_it_is_said() {
        let schema = json!({"type": "object", "properties": {"a/b": {"items": {"type": "integer"}}}});
        assert_eq!(at(&schema, "/a~1b/0"), json!({"type": "integer"}));
        assert_eq!(at(&schema, "/nowhere/0"), json!(true));
        assert_eq!(at(&schema, ""), schema);
    }
}
