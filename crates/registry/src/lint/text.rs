//! Characters that a person does not see and a model reads.

use serde_json::Value;
use toolgate_contracts::definition::Definition;
use toolgate_contracts::json::escape;
use toolgate_contracts::unseen::is_unseen;

use crate::finding::{FINDINGS_MAX, Finding, shown};

/// In any string of the definition, names of members included: an invisible instruction in a description is
/// the cheapest way to steer a model past the person who approved the tool.
pub(super) fn check(definition: &Definition, findings: &mut Vec<Finding>) {
    let value = serde_json::to_value(definition).unwrap_or(Value::Null);
    let mut told = Vec::new();
    walk(&value, "", &mut told);
    findings.append(&mut told);
}

pub(crate) fn walk(value: &Value, pointer: &str, findings: &mut Vec<Finding>) {
    if findings.len() >= FINDINGS_MAX {
        return;
    }
    match value {
        Value::String(text) => judge(text, pointer, findings),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{pointer}/{index}"), findings));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let inner = format!("{pointer}/{}", escape(&shown(name)));
                judge(name, &inner, findings);
                walk(member, &inner, findings);
            }
        }
        _ => {}
    }
}

fn judge(text: &str, pointer: &str, findings: &mut Vec<Finding>) {
    let mut before = None;
    let mut characters = text.chars().enumerate().peekable();
    while let Some((index, c)) = characters.next() {
        let after = characters.peek().map(|(_, next)| *next);
        if is_concealed(c, before, after) {
            let message = format!("an invisible character, U+{:04X}, after {index} characters", u32::from(c));
            findings.push(Finding::error(
                "text.hidden",
                pointer,
                message,
                "delete it: people do not see it, models read it",
            ));
            return;
        }
        before = Some(c);
    }
}

fn is_concealed(c: char, before: Option<char>, after: Option<char>) -> bool {
    let script =
        |neighbour: Option<char>| neighbour.is_some_and(|neighbour| !neighbour.is_ascii() && !is_unseen(neighbour));
    match c {
        '\n' | '\t' => false,
        // Presentation of the symbol before it (`⚠️`), and joiners that emoji and many scripts need.
        '\u{fe0e}' | '\u{fe0f}' => {
            !script(before) && !before.is_some_and(|before| before.is_ascii_digit() || before == '#' || before == '*')
        }
        '\u{200c}' | '\u{200d}' => !((script(before) || before == Some('\u{fe0f}')) && script(after)),
        _ => is_unseen(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_sees_is_refused() {
        let found = |text: &str| {
            let mut findings = Vec::new();
            judge(text, "", &mut findings);
            findings.len()
        };
        for fine in ["plain", "two\nlines\tand a tab", "⚠️ careful", "👩‍💻", "1️⃣", "می‌خواهم", "naïve 日本語 ñ"]
        {
            assert_eq!(found(fine), 0, "{fine}");
        }
        for hidden in [
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{e0041}",
            "a\u{fe0f}",
            "a\u{200d}b",
            "\u{7}",
            "x\u{feff}",
            "a\u{2066}b",
            "é\u{fe0f}\u{fe0f}",
            "a\rb",
        ] {
            assert_eq!(found(hidden), 1, "{hidden:?}");
        }
    }
}
