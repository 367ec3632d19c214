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

/// Nothing where they are the same.
pub fn compared(before: &Value, now: &Value, paint: Paint) -> String {
    let (before, now) = (pretty(before), pretty(now));
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
