//! Values as YAML that every reader reads alike: whatever some reader could take for something else stands in quotes.

use std::fmt::Write as _;

use serde_json::Value;

use super::Style;

/// How much deeper a block is than what it belongs to.
pub(super) const STEP: usize = 2;

/// On one line. A text keeps the quotes that were there before.
pub(super) fn inline(value: &Value, before: Option<Style>) -> String {
    match value {
        Value::String(text) => match before {
            Some(Style::SingleQuoted) if text.chars().all(|c| !c.is_control()) => {
                format!("'{}'", text.replace('\'', "''"))
            }
            Some(Style::DoubleQuoted) => quoted(text),
            _ => word(text),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| inline(item, None)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{}: {}", word(key), inline(value, None))).collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether it is written on lines of its own where there is room for that.
pub(super) fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

/// On lines of its own, all but the first behind `column` spaces.
pub(super) fn block(value: &Value, column: usize, newline: &str) -> String {
    let mut lines = Vec::new();
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                lines.push(format!("- {}", block(item, column + STEP, newline)));
            }
        }
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                lines.push(member(key, value, column, newline));
            }
        }
        other => lines.push(inline(other, None)),
    }
    lines.join(&format!("{newline}{}", " ".repeat(column)))
}

/// `key: value`, as a member of a mapping that stands at `column`.
pub(super) fn member(key: &str, value: &Value, column: usize, newline: &str) -> String {
    let key = word(key);
    if is_block(value) {
        let inner = column + STEP;
        format!("{key}:{newline}{}{}", " ".repeat(inner), block(value, inner, newline))
    } else {
        format!("{key}: {}", inline(value, None))
    }
}

/// A text without quotes where no reader can take it for anything else.
pub(super) fn word(text: &str) -> String {
    if is_word(text) { text.to_owned() } else { quoted(text) }
}

fn is_word(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let begins = chars.first().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '/'));
    let ends = chars.last().is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '/'));
    let within = chars.iter().enumerate().all(|(at, c)| match c {
        ':' => chars.get(at + 1).is_some_and(|next| next.is_ascii_alphanumeric() || *next == '/'),
        ' ' => chars.get(at + 1).is_some_and(char::is_ascii_alphanumeric),
        _ => c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '+'),
    });
    let lower = text.to_ascii_lowercase();
    let is_other = matches!(lower.as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    begins && ends && within && !is_other
}

/// In double quotes, with nothing in them that cannot be seen.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
