//! An input out of the words of a command line, read as the tool's schema says.
//!
//! Nothing is checked here: what does not fit is sent as the text it is, and the server says what was expected.

use std::path::Path;

use serde_json::{Map, Value};
use toolgate_contracts::json;

use crate::failure::Failure;
use crate::input;

/// How far references within a schema are followed.
const REFERENCES_MAX: usize = 16;

/// One word: which field, and what it is given.
enum Given<'a> {
    Text(&'a str),
    File(&'a str),
    Json(&'a str),
}

/// Puts `FIELD=VALUE` words over what `option` gave as a whole.
pub fn over(mut base: Value, words: &[String], schema: &Value, option: &str) -> Result<Value, Failure> {
    let mut given = Vec::new();
    for word in words {
        let (field, value) = parted(word, option)?;
        let path = path_of(field, schema);
        put(&mut base, &path, field, value, (schema, schema), (option, &mut given))?;
    }
    Ok(base)
}

fn parted<'w>(word: &'w str, option: &str) -> Result<(&'w str, Given<'w>), Failure> {
    let wrong = || {
        Failure::usage(
            format!("`{word}` is not FIELD=VALUE"),
            format!("write for example text=hello, or give the whole input with {option}"),
        )
    };
    let (field, value) = word.split_once('=').ok_or_else(wrong)?;
    let (field, given) = match (field.strip_suffix(':'), value.strip_prefix('@')) {
        (Some(field), _) => (field, Given::Json(value)),
        (None, Some(file)) => (field, Given::File(file)),
        (None, None) => (field, Given::Text(value)),
    };
    if field.is_empty() || field.split('.').any(str::is_empty) { Err(wrong()) } else { Ok((field, given)) }
}

/// The members that a field names. A name with a dot in it wins over a member of a member.
fn path_of<'a>(field: &'a str, root: &Value) -> Vec<&'a str> {
    let mut path = Vec::new();
    let (mut rest, mut schema) = (field, root);
    loop {
        let known = |name: &str| !node(schema, name, root).is_null();
        let (name, after) = match rest.split_once('.') {
            Some((name, after)) if !known(rest) => (name, Some(after)),
            _ => (rest, None),
        };
        path.push(name);
        match after {
            Some(after) => (rest, schema) = (after, node(schema, name, root)),
            None => return path,
        }
    }
}

fn put(
    at: &mut Value,
    path: &[&str],
    field: &str,
    value: Given<'_>,
    (schema, root): (&Value, &Value),
    (option, given): (&str, &mut Vec<String>),
) -> Result<(), Failure> {
    let Value::Object(members) = at else {
        return Err(Failure::usage(
            format!("`{field}` is a member of something that is no object"),
            format!("give it in {option}, or leave the other out"),
        ));
    };
    let Some((name, rest)) = path.split_first() else { return Ok(()) };
    let schema = node(schema, name, root);
    if !rest.is_empty() {
        let member = members.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        return put(member, rest, field, value, (schema, root), (option, given));
    }
    let again = given.iter().any(|known| known == field);
    given.push(field.to_owned());
    let value = read(field, value, schema, root)?;
    match members.get_mut(*name) {
        Some(Value::Array(items)) if again => match value {
            Value::Array(more) => items.extend(more),
            one => items.push(one),
        },
        Some(_) if again => {
            return Err(Failure::usage(format!("`{field}` is given twice"), "give it once; only a list takes several"));
        }
        _ => drop(members.insert((*name).to_owned(), value)),
    }
    Ok(())
}

fn read(field: &str, given: Given<'_>, schema: &Value, root: &Value) -> Result<Value, Failure> {
    match given {
        Given::Json(text) => json::read(text.as_bytes(), json::CALL_BYTES_MAX).map_err(|error| {
            Failure::usage(
                format!("`{field}` is given with := and is not JSON: {error}"),
                format!("write {field}=… for text"),
            )
        }),
        Given::File(file) => Ok(typed(&input::read_text(Path::new(file), json::CALL_BYTES_MAX)?, schema, root)),
        Given::Text(text) => Ok(typed(text, schema, root)),
    }
}

/// The value that a text means where the schema expects one of these types.
fn typed(text: &str, schema: &Value, root: &Value) -> Value {
    let types = types_of(schema, root);
    let expects = |name: &str| types.is_empty() || types.contains(&name);
    if types == ["string"] {
        return Value::from(text);
    }
    let parsed = json::read(text.trim().as_bytes(), json::CALL_BYTES_MAX).ok();
    let fits = parsed.filter(|value| match value {
        Value::Number(_) => expects("number") || expects("integer"),
        Value::Bool(_) => expects("boolean"),
        Value::Array(_) => expects("array"),
        Value::Object(_) => expects("object"),
        // A word that is text wherever text is possible.
        Value::Null => expects("null") && !types.contains(&"string"),
        // In quotes: the quotes are part of the text.
        Value::String(_) => false,
    });
    match fits {
        Some(value) => value,
        // One item of a list.
        None if types.contains(&"array") && !types.contains(&"string") => {
            Value::Array(vec![typed(text, &resolved(schema, root)["items"], root)])
        }
        None => Value::from(text),
    }
}

/// The schema of a member: its own, or that of all others; `null` where nothing is said.
fn node<'a>(schema: &'a Value, name: &str, root: &'a Value) -> &'a Value {
    let schema = resolved(schema, root);
    if let Some(own) = schema["properties"].get(name) {
        return own;
    }
    let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema[word].as_array()).flatten();
    let found = parts.map(|part| &resolved(part, root)["properties"][name]).find(|found| !found.is_null());
    found.unwrap_or_else(|| schema.get("additionalProperties").filter(|rest| rest.is_object()).unwrap_or(&Value::Null))
}

/// A schema behind its references within the document.
fn resolved<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..REFERENCES_MAX {
        let Some(pointer) = schema["$ref"].as_str().and_then(|to| to.strip_prefix('#')) else { return schema };
        let Some(meant) = root.pointer(pointer) else { return schema };
        schema = meant;
    }
    schema
}

fn types_of<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a str> {
    fn collect<'a>(schema: &'a Value, root: &'a Value, depth: usize, types: &mut Vec<&'a str>) {
        let schema = resolved(schema, root);
        match &schema["type"] {
            Value::String(one) => types.push(one),
            Value::Array(several) => types.extend(several.iter().filter_map(Value::as_str)),
            _ if schema["enum"].is_array() || !schema["const"].is_null() => {
                let constants = schema["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
                types.extend(constants.iter().chain(schema.get("const")).map(|value| type_of(value)));
            }
            _ if depth > 0 => {
                let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema[word].as_array()).flatten();
                parts.for_each(|part| collect(part, root, depth - 1, types));
            }
            _ => {}
        }
    }
    let mut types = Vec::new();
    collect(schema, root, 4, &mut types);
    types.sort_unstable();
    types.dedup();
    types
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "string"}, "floor": {"type": "integer"}}}},
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "share": {"type": ["number", "null"]},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "numbers": {"type": "array", "items": {"type": "number"}},
                "place": {"$ref": "#/$defs/place"},
                "a.b": {"type": "integer"},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "maybe": {"type": ["string", "null"]},
                "level": {"enum": ["1", "2"]},
                "any": {},
                "rest": {"type": "object", "additionalProperties": {"type": "string"}}
            }
        })
    }

    #[track_caller]
    fn check(words: &[&str], expected: &Value) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let found =
            over(json!({}), &words, &schema(), "--input").unwrap_or_else(|failure| panic!("{}", failure.told()));
        assert_eq!(&found, expected, "{words:?}");
    }

    #[test]
    fn a_value_is_read_as_the_schema_says() {
        check(&["text=12"], &json!({"text": "12"}));
        check(&["text="], &json!({"text": ""}));
        check(&["text=a=b:=c"], &json!({"text": "a=b:=c"}));
        check(&["count=12", "share=0.5", "deep=true"], &json!({"count": 12, "share": 0.5, "deep": true}));
        check(&["share=null", "maybe=null"], &json!({"share": null, "maybe": "null"}));
        check(&["either=5"], &json!({"either": 5}));
        check(&["either=five"], &json!({"either": "five"}));
        check(&["level=1"], &json!({"level": "1"}));
        check(&["any=[1]", "any2=x"], &json!({"any": [1], "any2": "x"}));
    }

    #[test]
    fn what_does_not_fit_is_sent_as_it_is() {
        check(&["count=many", "deep=yes"], &json!({"count": "many", "deep": "yes"}));
        check(&["count=\"5\""], &json!({"count": "\"5\""}));
        check(&["text:=5"], &json!({"text": 5}));
    }

    #[test]
    fn lists_take_their_field_again() {
        check(&["tags=a"], &json!({"tags": ["a"]}));
        check(&["tags=a", "tags=1"], &json!({"tags": ["a", "1"]}));
        check(&["tags=[\"a\",\"b\"]", "tags=c"], &json!({"tags": ["a", "b", "c"]}));
        check(&["numbers=1", "numbers=2.5"], &json!({"numbers": [1, 2.5]}));
        check(&["numbers=one"], &json!({"numbers": ["one"]}));
    }

    #[test]
    fn a_dot_names_a_member_of_a_member() {
        check(&["place.zip=01234", "place.floor=3"], &json!({"place": {"zip": "01234", "floor": 3}}));
        check(&["place={\"zip\":\"9\"}", "place.floor=1"], &json!({"place": {"zip": "9", "floor": 1}}));
        check(&["a.b=1"], &json!({"a.b": 1}));
        check(&["rest.x=1"], &json!({"rest": {"x": "1"}}));
        check(&["new.x=1"], &json!({"new": {"x": 1}}));
    }

    #[test]
    fn fields_stand_over_the_input() {
        let base = json!({"text": "old", "place": {"zip": "1"}});
        let words = ["text=new".to_owned(), "place.floor=2".to_owned()];
        assert_eq!(
            over(base, &words, &schema(), "--input").unwrap(),
            json!({"text": "new", "place": {"zip": "1", "floor": 2}})
        );
    }

    #[test]
    fn mistyped_words_are_refused() {
        for words in [
            &["text"][..],
            &["=x"],
            &["a..b=x"],
            &[".a=x"],
            &["text:=nope"],
            &["text=a", "text=b"],
            &["text=a", "text.b=c"],
            &["text=@/no/such/file"],
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let refused = over(json!({}), &words, &schema(), "--input").unwrap_err();
            assert_eq!(refused.exit(), crate::failure::Exit::Usage, "{words:?}");
        }
    }
}
