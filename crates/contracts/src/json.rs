//! The one strict reader for JSON from outside, and the canonical form of RFC 8785.
//!
//! What two readers could read differently is refused here: duplicate keys, integers that a double cannot
//! hold, keys with a meaning inside `serde_json`. After it, a value and its canonical bytes say the same.

mod canonical;
mod spoken;

use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

use crate::digest::Digest;

pub use spoken::spoken;

pub const DEPTH_MAX: usize = 64;
pub const KEYS_MAX: usize = 10_000;
pub const CALL_BYTES_MAX: usize = 1024 * 1024;
pub const SCHEMA_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The largest integer that every JSON reader agrees on: 2^53 − 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

const PRIVATE_PREFIX: &str = "$serde_json::private::";

/// Why a text is not acceptable JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(.pointer))]
pub struct Error {
    /// JSON Pointer of the innermost value that was being read.
    pub pointer: String,
    pub message: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at `{pointer}`") }
}

/// Reads JSON bytes of at most `bytes_max`.
pub fn read(bytes: &[u8], bytes_max: usize) -> Result<Value, Error> {
    read_within(bytes, bytes_max, KEYS_MAX, Beyond::Refused)
}

/// Reads a document that others wrote for other readers: as strictly, with more members, and with `null` for each number
/// that not every reader holds, so that the rest can be used.
pub fn read_document(bytes: &[u8], bytes_max: usize, keys_max: usize) -> Result<Value, Error> {
    read_within(bytes, bytes_max, keys_max, Beyond::Null)
}

/// Reads a message of another program's protocol: as strictly, with more members, and with the text of each number that
/// not every reader holds in its place. So the digits of a whole number of 64 bits stay as they are, and who expects a
/// number is told by its schema that there is none; one message with such a number does not cost the connection.
pub fn read_message(bytes: &[u8], bytes_max: usize, keys_max: usize) -> Result<Value, Error> {
    read_within(bytes, bytes_max, keys_max, Beyond::Text)
}

fn read_within(bytes: &[u8], bytes_max: usize, keys_max: usize, beyond: Beyond) -> Result<Value, Error> {
    if bytes.len() > bytes_max {
        return Err(Error {
            pointer: String::new(),
            message: format!("the document has {} bytes, the limit is {bytes_max}", bytes.len()),
        });
    }
    let mut limits = Limits { path: Vec::new(), keys: 0, keys_max, beyond, refused: None };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { limits: &mut limits }.deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    value.map_err(|error| {
        let message = limits.refused.take().unwrap_or_else(|| error.to_string());
        Error { pointer: pointer(&limits.path), message }
    })
}

/// Checks a value that came through another parser (YAML) by the same rules.
pub fn check(value: &Value, bytes_max: usize) -> Result<Value, Error> {
    let text =
        serde_json::to_vec(value).map_err(|error| Error { pointer: String::new(), message: error.to_string() })?;
    read(&text, bytes_max)
}

/// Brings a value that a program made, not a parser, under the same rules: numbers that every reader reads alike, one
/// spelling of whole ones, bounded depth, no private keys. Its size is for the caller to bound.
pub fn normalize(value: &mut Value) -> Result<(), Error> {
    normalize_at(value, &mut Vec::new()).map_err(|(path, message)| Error { pointer: pointer(&path), message })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked first")]
fn normalize_at(value: &mut Value, path: &mut Vec<String>) -> Result<(), (Vec<String>, String)> {
    if path.len() > DEPTH_MAX {
        return Err((path.clone(), format!("nested deeper than {DEPTH_MAX} levels")));
    }
    match value {
        Value::Number(number) => {
            let whole =
                number.as_u64().map(|_| number.as_u64()).or_else(|| number.as_i64().map(|n| Some(n.unsigned_abs())));
            let float = number.as_f64().unwrap_or(f64::INFINITY);
            let beyond =
                whole.flatten().map_or(float.fract() == 0.0 && float.abs() > INTEGER_MAX as f64, |n| n > INTEGER_MAX);
            if beyond || !float.is_finite() {
                return Err((path.clone(), too_large(&number.to_string())));
            }
            if whole.is_none() && float.fract() == 0.0 {
                *value = Value::Number((float as i64).into());
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(index.to_string());
                normalize_at(item, path)?;
                path.pop();
            }
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                path.push(name.clone());
                if name.starts_with(PRIVATE_PREFIX) {
                    return Err((path.clone(), "a key of this name is not allowed".to_owned()));
                }
                normalize_at(member, path)?;
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Turns a strictly read value into a type; the error names the field, in plain words.
pub fn decode<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let tokens = error.path().iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let pointer = pointer(&tokens.collect::<Vec<_>>());
        Error { pointer, message: spoken(&error.into_inner().to_string()) }
    })
}

/// The RFC 8785 form.
pub fn canonical(value: &Value) -> String {
    canonical::text(value)
}

pub fn digest(value: &Value) -> Digest {
    Digest::of(canonical(value).as_bytes())
}

/// Escapes one reference token of a JSON Pointer.
pub fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Drops members that are `null`, which for our own members means the same as absent.
/// Values under a key in `opaque` (payloads, schemas) are left as they are.
pub fn drop_nulls(value: &mut Value, opaque: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            for (key, member) in map.iter_mut() {
                if !opaque.contains(&key.as_str()) {
                    drop_nulls(member, opaque);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, opaque)),
        _ => {}
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().fold(String::new(), |mut text, token| {
        text.push('/');
        text.push_str(&escape(token));
        text
    })
}

/// What becomes of a number that a double does not hold.
#[derive(Clone, Copy)]
enum Beyond {
    Refused,
    Null,
    Text,
}

struct Limits {
    path: Vec<String>,
    keys: usize,
    keys_max: usize,
    beyond: Beyond,
    /// The message without serde's line and column, which we replace by a pointer.
    refused: Option<String>,
}

impl Limits {
    fn refuse<E: de::Error>(&mut self, message: String) -> E {
        let error = E::custom(&message);
        self.refused = Some(message);
        error
    }

    fn number_beyond<E: de::Error>(&mut self, number: &str) -> Result<Value, E> {
        match self.beyond {
            Beyond::Refused => Err(self.refuse(too_large(number))),
            Beyond::Null => Ok(Value::Null),
            Beyond::Text => Ok(Value::String(number.to_owned())),
        }
    }

    fn enter<E: de::Error>(&mut self, token: String) -> Result<(), E> {
        self.path.push(token);
        if self.path.len() > DEPTH_MAX {
            return Err(self.refuse(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        Ok(())
    }
}

struct Strict<'a> {
    limits: &'a mut Limits,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        if value > INTEGER_MAX {
            return self.limits.number_beyond(&value.to_string());
        }
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > INTEGER_MAX {
            return self.limits.number_beyond(&value.to_string());
        }
        Ok(Value::Number(value.into()))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked first")]
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        if value.fract() == 0.0 {
            // `1.0`, `1` and `-0` are one value in the canonical form, so they are one value here.
            if value.abs() > INTEGER_MAX as f64 {
                if matches!(self.limits.beyond, Beyond::Text) {
                    return Ok(Value::String(format!("{value:e}")));
                }
                return self.limits.number_beyond(&value.to_string());
            }
            return Ok(Value::Number((value as i64).into()));
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| self.limits.refuse("a number must be finite".to_owned()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        self.limits.enter(items.len().to_string())?;
        while let Some(item) = seq.next_element_seed(Strict { limits: self.limits })? {
            items.push(item);
            if let Some(last) = self.limits.path.last_mut() {
                *last = items.len().to_string();
            }
        }
        self.limits.path.pop();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.limits.enter(key.clone())?;
            self.limits.keys += 1;
            if self.limits.keys > self.limits.keys_max {
                let message = format!("more than {} object members", self.limits.keys_max);
                return Err(self.limits.refuse(message));
            }
            if key.starts_with(PRIVATE_PREFIX) {
                return Err(self.limits.refuse(format!("the key `{key}` is reserved")));
            }
            if map.contains_key(&key) {
                return Err(self.limits.refuse(format!("the key `{key}` appears twice")));
            }
            let value = access.next_value_seed(Strict { limits: self.limits })?;
            self.limits.path.pop();
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

fn too_large(number: &str) -> String {
    format!("the integer {number} is beyond ±{INTEGER_MAX}; send it as a string")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refuses(text: &str, pointer: &str, message: &str) {
        let error = read(text.as_bytes(), CALL_BYTES_MAX).expect_err(text);
        assert_eq!(error.pointer, pointer, "{error}");
        assert!(error.message.contains(message), "{error}");
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        refuses(r#"{"a":{"b":1,"b":2}}"#, "/a/b", "appears twice");
        refuses(r#"{"a":1,"\u0061":2}"#, "/a", "appears twice");
        refuses("[0,9007199254740993]", "/1", "send it as a string");
        refuses("-9007199254740992", "", "send it as a string");
        refuses("18446744073709551616", "", "send it as a string");
        refuses("1e20", "", "send it as a string");
        refuses("1e400", "", "out of range");
        refuses(r#"{"$serde_json::private::Number":"1"}"#, "/$serde_json::private::Number", "reserved");
        refuses(r#"{"x":{"$serde_json::private::RawValue":"1"}}"#, "/x/$serde_json::private::RawValue", "reserved");
        refuses(r#"["\ud800"]"#, "/0", "hex escape");
        refuses("[1] 2", "", "trailing");
        refuses("{\"a\":1,}", "", "trailing comma");
    }

    #[test]
    fn sizes_and_depths_are_bounded() {
        refuses(&"[".repeat(100_000), &"/0".repeat(65), "nested deeper");
        let wide = format!("{{{}}}", (0..=KEYS_MAX).map(|key| format!("\"k{key}\":0")).collect::<Vec<_>>().join(","));
        refuses(&wide, &format!("/k{KEYS_MAX}"), "members");
        let long = format!("\"{}\"", "x".repeat(CALL_BYTES_MAX));
        refuses(&long, "", "the limit is");
        assert!(read(b"\"\xff\"", 99).is_err());
    }

    #[test]
    fn a_document_of_others_loses_only_the_numbers_that_nobody_agrees_on() {
        let text = r#"{"maximum": 9223372036854775807, "minimum": -1e300, "a": [1.0, 2.5]}"#;
        let value = read_document(text.as_bytes(), 99, 4).unwrap();
        assert_eq!(value, json!({"maximum": null, "minimum": null, "a": [1, 2.5]}));
        assert!(read_document(text.as_bytes(), 99, 2).unwrap_err().message.contains("more than 2"));
        assert!(read_document(br#"{"a":1,"a":2}"#, 99, 4).is_err());
    }

    #[test]
    fn a_message_of_others_keeps_the_digits_of_numbers_that_nobody_agrees_on() {
        let text = r#"{"id": 9007199254740993, "least": -9223372036854775808, "huge": 1e300, "a": [1.0, 2.5]}"#;
        let value = read_message(text.as_bytes(), 199, 4).unwrap();
        let kept = json!({"id": "9007199254740993", "least": "-9223372036854775808", "huge": "1e300", "a": [1, 2.5]});
        assert_eq!(value, kept);
        assert!(read_message(br#"{"a":1,"a":2}"#, 99, 4).is_err());
        assert!(read_message(b"1e400", 99, 4).is_err());
    }

    #[test]
    fn equal_canonical_forms_are_equal_values() {
        for (text, value) in
            [("1.0", json!(1)), ("-0", json!(0)), ("-0.0", json!(0)), ("1e2", json!(100)), ("0.5", json!(0.5))]
        {
            assert_eq!(read(text.as_bytes(), 99).unwrap(), value, "{text}");
        }
        assert_eq!(canonical(&json!({"b": 1, "a": [1.5, "é\u{1}"]})), r#"{"a":[1.5,"é\u0001"],"b":1}"#);
    }

    #[test]
    fn a_pointer_keeps_the_dots_and_slashes_of_keys() {
        type Deep = std::collections::BTreeMap<String, Vec<u8>>;
        let error = decode::<Deep>(json!({"a.b/c[0]": [1, "x"]})).unwrap_err();
        assert_eq!(error.pointer, "/a.b~1c[0]/1");
    }

    #[test]
    fn nulls_of_our_own_members_are_absent() {
        let mut value = json!({"title": null, "input": {"a": null}, "limits": {"rate": null, "calls": 1}});
        drop_nulls(&mut value, &["input"]);
        assert_eq!(value, json!({"input": {"a": null}, "limits": {"calls": 1}}));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(|n| json!(n)),
            (-1e15..1e15_f64).prop_map(|n| json!(n)),
            ".{0,12}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_form_is_a_fixed_point(value in any_json()) {
            let text = canonical(&value);
            let again = read(text.as_bytes(), CALL_BYTES_MAX).unwrap();
            prop_assert_eq!(canonical(&again), text);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, CALL_BYTES_MAX);
        }
    }

    #[test]
    fn what_a_program_made_is_brought_under_the_same_rules() {
        let mut value = json!({"a": [1.0, -0.0, 1.5, 9_007_199_254_740_991_i64], "b": null});
        normalize(&mut value).unwrap();
        assert_eq!(value.to_string(), r#"{"a":[1,0,1.5,9007199254740991],"b":null}"#);
        for (mut value, pointer) in [
            (json!({"a": {"b": [9_007_199_254_740_992_u64]}}), "/a/b/0"),
            (json!([-9_007_199_254_740_993_i64]), "/0"),
            (json!([1e300]), "/0"),
            (json!({"$serde_json::private::Number": "1"}), "/$serde_json::private::Number"),
        ] {
            assert_eq!(normalize(&mut value).unwrap_err().pointer, pointer);
        }
        let mut deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
        assert!(normalize(&mut deep).is_err());
    }
}
