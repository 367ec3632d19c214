//! Two values beside each other, line by line: what is gone and what is new.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::output::{Paint, clean};

pub fn pretty(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => clean(&serde_json::to_string_pretty(value).unwrap_or_default()),
    }
}

/// Nothing where they are the same. In which order members stand is no difference.
pub fn compared(before: &Value, now: &Value, paint: Paint) -> String {
    let ordered = |value: &Value| {
        let mut value = value.clone();
        value.sort_all_objects();
        pretty(&value)
    };
    let (before, now) = (ordered(before), ordered(now));
    if before == now {
        return String::new();
    }
    let diff = TextDiff::from_lines(&before, &now);
    let lines = diff.iter_all_changes().map(|change| {
        let line = change.value().trim_end_matches('\n');
        match change.tag() {
            ChangeTag::Delete => paint.red(&format!("- {line}")),
            ChangeTag::Insert => paint.green(&format!("+ {line}")),
            ChangeTag::Equal => format!("  {line}"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn in_which_order_members_stand_is_no_difference() {
        let before = json!({"schema": {"type": "object", "properties": {"text": {"type": "string", "title": "T"}}}});
        let now = json!({"schema": {"properties": {"text": {"title": "T", "type": "string"}}, "type": "object"}});
        assert_eq!(compared(&before, &now, Paint::PLAIN), "");
        let mut now = now;
        now["about"] = "Any text.".into();
        let lines = compared(&before, &now, Paint::PLAIN);
        let changed: Vec<&str> = lines.lines().filter(|line| !line.starts_with("  ")).collect();
        assert_eq!(changed, ["+   \"about\": \"Any text.\","], "{lines}");
    }
}
