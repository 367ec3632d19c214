//! The RFC 8785 form of a value, written in one pass: every call's input and output is, and all but numbers that are not
//! whole can be written down as they are. Those are left to the library, which knows how ECMAScript spells them.

use serde_json::{Number, Value};

use super::INTEGER_MAX;

pub(super) fn text(value: &Value) -> String {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    // INVARIANT: each piece is text.
    String::from_utf8(out).unwrap_or_default()
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => plain(value, out),
        Value::Number(number) if is_safe(number) => plain(value, out),
        // INVARIANT: values hold no NaN, so this cannot fail; an empty digest would be caught by every reader.
        Value::Number(_) => {
            out.extend_from_slice(serde_json_canonicalizer::to_string(value).unwrap_or_default().as_bytes());
        }
        Value::Array(items) => {
            let mut separator = b'[';
            for item in items {
                out.push(separator);
                write(item, out);
                separator = b',';
            }
            close(out, separator, b'[', b']');
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let mut separator = b'{';
            for (name, member) in members {
                out.push(separator);
                plain(name, out);
                out.push(b':');
                write(member, out);
                separator = b',';
            }
            close(out, separator, b'{', b'}');
        }
    }
}

/// Ends a list, which an empty one has yet to begin.
fn close(out: &mut Vec<u8>, separator: u8, open: u8, end: u8) {
    if separator == open {
        out.push(open);
    }
    out.push(end);
}

/// What is written as any JSON is: strings are escaped just as RFC 8785 demands. Writing into memory cannot fail.
fn plain(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

/// Whether a number is whole and spelled by its digits; a larger one is spelled as the nearest double.
fn is_safe(number: &Number) -> bool {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole.unsigned_abs() <= INTEGER_MAX,
        (None, whole) => whole.is_some_and(|whole| whole <= INTEGER_MAX),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: &Value) {
        assert_eq!(text(value), serde_json_canonicalizer::to_string(value).unwrap());
    }

    #[test]
    fn what_is_written_is_what_the_library_writes() {
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!([[], {}, [1], {"a": []}]),
            json!({"\u{10000}": 1, "\u{e000}": 2, "b": 3, "a": 4, "": 5, "B": 6, "ä": 7}),
            json!([0, -0.0, 1.0, 1e21, 1e-7, 0.1, 333_333_333.333_333_3, -1, i64::MIN, i64::MAX, u64::MAX]),
            json!([9_007_199_254_740_991_i64, 9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64]),
            json!("\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}\u{80}\u{2028}\u{feff}€😀"),
        ] {
            check(&value);
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1_000_i64..1_000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_written_as_the_library_writes_it(value in values()) {
            check(&value);
        }
    }
}
