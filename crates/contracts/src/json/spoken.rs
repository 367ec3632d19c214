//! What serde says, in words that whoever wrote a document knows: expected this, got that.
//!
//! serde speaks of the program's types (`u64`, a struct, a sequence). Every message of it that reaches people passes here.
//! Deliberately absent: where the value stands, which the reader knows.

/// How much of a text that was written is quoted.
const QUOTED_CHARS_MAX: usize = 40;

/// A message of serde in plain words; one that is none of its own is left as it is.
pub fn spoken(message: &str) -> String {
    let message = without_place(message);
    if let Some((got, expected)) = split(message, "invalid type: ").or_else(|| split(message, "invalid value: ")) {
        return format!("expected {}, got {}", wanted(expected), written(got));
    }
    if let Some((length, expected)) = split(message, "invalid length ") {
        let wanted = wanted(expected);
        // A list is read as an object's members in their order, as far as it goes.
        let got = if wanted == "an object" { "a list".to_owned() } else { format!("{length} of them") };
        return format!("expected {wanted}, got {got}");
    }
    if let Some(rest) = message.strip_prefix("unknown variant `") {
        let (word, known) = rest.split_once('`').unwrap_or((rest, ""));
        let word: String = word.chars().take(QUOTED_CHARS_MAX).flat_map(char::escape_debug).collect();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return match known.as_slice() {
            [] => format!("`{word}` is not allowed here"),
            [one] => format!("`{word}` is not `{one}`"),
            several => format!("`{word}` is not one of `{}`", several.join("`, `")),
        };
    }
    if let Some(told) = without_aliases(message) {
        return told;
    }
    if message.starts_with("data did not match any variant of untagged enum") {
        return "it has none of the forms that are allowed here".to_owned();
    }
    message.to_owned()
}

/// Of an unknown member, the names that there are without those that are only another spelling of one of them.
fn without_aliases(message: &str) -> Option<String> {
    let (unknown, known) = message.strip_prefix("unknown field ")?.rsplit_once(", expected one of ")?;
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let snake = |name: &str| -> String {
        let parts = name.chars().map(|letter| match letter {
            upper if upper.is_ascii_uppercase() => format!("_{}", upper.to_ascii_lowercase()),
            other => other.to_string(),
        });
        parts.collect()
    };
    let is_alias = |name: &str| name != snake(name) && names.contains(&snake(name).as_str());
    let own: Vec<&str> = names.iter().copied().filter(|name| !is_alias(name)).collect();
    (own.len() < names.len()).then(|| format!("unknown field {unknown}, expected one of `{}`", own.join("`, `")))
}

fn split<'m>(message: &'m str, prefix: &str) -> Option<(&'m str, &'m str)> {
    // What was written may hold the words too; the last ones are serde's.
    message.strip_prefix(prefix)?.rsplit_once(", expected ")
}

/// Readers of text append the line and column of what they read, which is not the author's.
fn without_place(message: &str) -> &str {
    let Some((rest, column)) = message.rsplit_once(" column ") else { return message };
    let Some((before, line)) = rest.rsplit_once(" at line ") else { return message };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(column) && is_number(line) { before } else { message }
}

fn wanted(expected: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" | "u128" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" | "bool" => "`true` or `false`".to_owned(),
        "a string" | "string" | "str" | "a borrowed string" | "a character" | "an enum" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" | "map" => "an object".to_owned(),
        "string or map" => "a text or an object".to_owned(),
        "unit" | "null" => "`null`".to_owned(),
        _ if expected.starts_with("a nonzero ") => "a whole number from 1".to_owned(),
        _ if expected.starts_with("struct ") || expected.contains("tagged enum ") => "an object".to_owned(),
        _ if expected.starts_with("enum ") || expected.starts_with("variant ") => "a text".to_owned(),
        _ if expected.starts_with("tuple ") || expected.starts_with("a tuple ") => "a list".to_owned(),
        _ if expected.starts_with("an array of length ") => expected.replacen("an array of length", "a list of", 1),
        other => other.to_owned(),
    }
}

fn written(got: &str) -> String {
    if let Some(text) = got.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"')) {
        let mut quoted: String = text.chars().take(QUOTED_CHARS_MAX).collect();
        if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
            quoted.push('…');
        }
        return format!("the text `{quoted}`");
    }
    let number = got.strip_prefix("integer `").or_else(|| got.strip_prefix("floating point `"));
    if let Some(number) = number.and_then(|rest| rest.strip_suffix('`')) {
        return format!("the number {number}");
    }
    match got {
        "null" | "unit value" | "Option value" => "`null`".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        other => other.strip_prefix("boolean ").unwrap_or(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::super::decode;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is tested")]
    struct Document {
        count: Option<u64>,
        small: Option<u8>,
        signed: Option<i32>,
        share: Option<f64>,
        flag: Option<bool>,
        name: Option<String>,
        list: Option<Vec<String>>,
        inner: Option<Inner>,
        word: Option<Word>,
        either: Option<Either>,
        three: Option<[u8; 3]>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its reading is tested")]
    struct Inner {
        must: String,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Ask,
        Tripwire,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its reading is tested")]
    enum Either {
        Text(String),
        Number(u8),
    }

    #[track_caller]
    fn check<T: DeserializeOwned>(value: Value, pointer: &str, expected: &str) {
        let error = decode::<T>(value).err().unwrap();
        assert_eq!((error.pointer.as_str(), error.message.as_str()), (pointer, expected));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_words_of_the_program() {
        let document = |value| move |pointer: &str, expected: &str| check::<Document>(value, pointer, expected);
        document(json!({"count": "many"}))("/count", "expected a whole number from 0, got the text `many`");
        document(json!({"count": -1}))("/count", "expected a whole number from 0, got the number -1");
        document(json!({"count": 1.5}))("/count", "expected a whole number from 0, got the number 1.5");
        document(json!({"small": 300}))("/small", "expected a whole number from 0 to 255, got the number 300");
        document(json!({"signed": true}))("/signed", "expected a whole number, got `true`");
        document(json!({"share": []}))("/share", "expected a number, got a list");
        document(json!({"flag": "yes"}))("/flag", "expected `true` or `false`, got the text `yes`");
        document(json!({"name": {"a": 1}}))("/name", "expected a text, got an object");
        document(json!({"list": "a"}))("/list", "expected a list, got the text `a`");
        document(json!({"list": ["a", 7]}))("/list/1", "expected a text, got the number 7");
        document(json!({"inner": 3}))("/inner", "expected an object, got the number 3");
        document(json!({"inner": {}}))("/inner", "missing field `must`");
        document(json!({"inner": {"must": null}}))("/inner/must", "expected a text, got `null`");
        document(json!({"word": "aks"}))("/word", "`aks` is not one of `ask`, `tripwire`");
        document(json!({"either": []}))("/either", "it has none of the forms that are allowed here");
        document(json!({"three": [1]}))("/three", "expected a list of 3, got 1 of them");
        document(json!({"name": ["x, expected y"]}))("/name", "expected a text, got a list");
        document(json!({"count": "x, expected y"}))(
            "/count",
            "expected a whole number from 0, got the text `x, expected y`",
        );
        document(json!({"count": "a".repeat(50)}))(
            "/count",
            &format!("expected a whole number from 0, got the text `{}…`", "a".repeat(40)),
        );
        check::<Document>(json!([]), "", "expected an object, got a list");
    }

    #[test]
    fn a_message_of_our_own_stays_and_a_place_in_a_text_goes() {
        let kept = "`x` is not a UUID";
        assert_eq!(super::spoken(kept), kept);
        assert_eq!(
            super::spoken("invalid type: map, expected u64 at line 3 column 14"),
            "expected a whole number from 0, got an object"
        );
        assert_eq!(super::spoken("the column of line 3"), "the column of line 3");
    }
}
