//! What a call would do, as its runner worked it out when people were asked: a command as one would type it, a
//! difference by its lines, the rest as it is.

use serde_json::Value;

use crate::output::{Paint, clean, clean_line, text_of, time_of};

pub(super) fn shown(preview: &Value, paint: Paint) -> String {
    if preview.is_null() {
        return String::new();
    }
    let mut parts =
        vec![format!("worked out {}, when it was asked; it may have changed since", time_of(preview, "at"))];
    let stale = text_of(preview, "stale");
    if !stale.is_empty() {
        parts.push(paint.red(&format!("out of date: {}", clean_line(&stale))));
    }
    let failed = text_of(preview, "failed");
    if !failed.is_empty() {
        parts.push(format!("it could not be worked out: {}", clean_line(&failed)));
    }
    let mut rest = preview["plan"].clone();
    if let Value::Object(members) = &mut rest {
        members.shift_remove("would_run");
        if let Some(Value::Array(words)) = members.get("command")
            && let Some(words) = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
        {
            let typed: Vec<String> = words.into_iter().map(typed).collect();
            // On one line, and with every blank that is in it.
            parts.push(format!("$ {}", clean(&typed.join(" ")).replace('\n', "\\n")));
            members.shift_remove("command");
        }
        if let Some(Value::String(text)) = members.get("difference") {
            parts.push(difference(text, paint));
            members.shift_remove("difference");
        }
    }
    if !rest.is_null() && rest.as_object().is_none_or(|members| !members.is_empty()) {
        parts.push(clean(&serde_json::to_string_pretty(&rest).unwrap_or_default()));
    }
    if preview["truncated"] == true {
        parts.push("it is longer; the rest is not kept".to_owned());
    }
    parts.join("\n")
}

/// Cleaned by the line: a text that moves the cursor would show other lines than there are.
fn difference(text: &str, paint: Paint) -> String {
    let lines = text.lines().map(|line| match (line.chars().next(), clean(line)) {
        (Some('-'), line) if !line.starts_with("---") => paint.red(&line),
        (Some('+'), line) if !line.starts_with("+++") => paint.green(&line),
        (_, line) => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A word as one would type it, so that where it ends is seen.
fn typed(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "@%+=:,./-_".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_shown_as_one_would_do_it() {
        let preview = json!({
            "at": "2026-11-15T10:00:00Z", "truncated": false, "stale": "the tool has changed since",
            "plan": {"would_run": true, "command": ["/bin/run", "two  words", "it's"], "working_dir": "/srv"},
        });
        let text = shown(&preview, Paint::PLAIN);
        assert!(text.contains("$ /bin/run 'two  words' 'it'\\''s'"), "{text}");
        assert!(text.contains("\"working_dir\": \"/srv\"") && text.contains("out of date: the tool"), "{text}");
        let changed = json!({"at": "2026-11-15T10:00:00Z", "plan": {"difference": "--- a\n+++ a\n@@ -1 +1 @@\n-  x: 1\n+  x: \u{1b}[2K2\n"}});
        let text = shown(&changed, Paint::PLAIN);
        assert!(text.contains("-  x: 1\n+  x: ") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(shown(&Value::Null, Paint::PLAIN), "");
    }
}
