//! A definition written out again as a `TOOL.md`, for `tool show`, for export, and for the text of a diff.

use serde_json::Value;
use toolgate_contracts::definition::Definition;

/// INVARIANT: `parse(write(definition))` gives the same definition, save for blank space around `docs`.
pub fn write(definition: &Definition) -> String {
    let mut value = serde_json::to_value(definition).unwrap_or(Value::Null);
    if let Value::Object(members) = &mut value {
        members.shift_remove("docs");
    }
    // Long texts stay on one line: folding them is prettier and would make a diff of one word span a paragraph.
    let options = serde_saphyr::ser_options! { min_fold_chars: usize::MAX };
    // A definition holds no value that YAML lacks, so the writer does not fail.
    let front = serde_saphyr::to_string_with_options(&value, options).unwrap_or_default();
    let docs = definition.docs.trim();
    let body = if docs.is_empty() { String::new() } else { format!("\n{docs}\n") };
    format!("---\n{}\n---\n{body}", front.trim_end_matches('\n'))
}
