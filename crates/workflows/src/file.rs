//! A workflow as it is written by hand, in YAML or JSON, with the line of what is wrong with it.

use serde_json::Value;
use toolgate_contracts::workflow::{self, Workflow};
use toolgate_registry::finding::Finding;
use toolgate_registry::tool_md::{self, LineMap};

/// A workflow that could be read, and where each of its members stands.
#[derive(Clone, Debug)]
pub struct Written {
    pub workflow: Workflow,
    pub lines: LineMap,
    /// What is legal and worth saying.
    pub notes: Vec<Finding>,
}

/// Reads a file, or says why it is no workflow.
pub fn read(file: &[u8]) -> Result<Written, Vec<Finding>> {
    let tool_md::Document { value, lines, mut notes } = tool_md::document(file)?;
    match read_value(value) {
        Ok(workflow) => {
            lines.locate(&mut notes);
            Ok(Written { workflow, lines, notes })
        }
        Err(finding) => {
            let mut findings = vec![finding];
            findings.extend(notes);
            lines.locate(&mut findings);
            Err(findings)
        }
    }
}

/// Reads a workflow that came as a value.
pub fn read_value(mut value: Value) -> Result<Workflow, Finding> {
    spell_null(&mut value);
    workflow::read(value).map_err(|error| {
        let fix = "see `docs/schemas/workflow.json` for what a workflow has";
        Finding::error("workflow.unreadable", error.pointer, error.message, fix)
    })
}

/// `null` without quotes is no word in YAML, and means the word where one is expected.
fn spell_null(graph: &mut Value) {
    fn spell(word: Option<&mut Value>) {
        if let Some(word) = word.filter(|word| word.is_null()) {
            *word = "null".into();
        }
    }
    for node in graph.get_mut("nodes").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(config) = node.get_mut("config") else { continue };
        spell(config.get_mut("on_timeout"));
        for pin in config.get_mut("pins").and_then(Value::as_array_mut).into_iter().flatten() {
            spell(pin.get_mut("on_missing"));
        }
        if let Some(body) = config.get_mut("body") {
            spell_null(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;

    #[test]
    fn null_is_a_word_with_quotes_and_without() {
        let check = |word: &str, is_read: bool| {
            let nodes = format!(
                "- {{id: ask, kind: human, config: {{title: Who?, schema: {{type: object}}, on_timeout: {word}}}}}
- {{id: look, kind: agent, config: {{agent: a, prompt: Go., pins: [{{selector: {{tool: t}}, on_missing: {word}}}]}}}}"
            );
            let body = nodes.replace('\n', "\n      ");
            let each = format!("- id: each\n  kind: map\n  config:\n    body:\n      nodes:\n      {body}");
            let file = format!("version: 1\nname: w\nnodes:\n{nodes}\n{each}\n");
            let graph = match read(file.as_bytes()) {
                Ok(written) => serde_json::to_value(written.workflow).unwrap(),
                Err(findings) => {
                    assert!(!is_read, "{file}{findings:?}");
                    return;
                }
            };
            assert!(is_read, "{file}");
            for at in ["/nodes", "/nodes/2/config/body/nodes"] {
                let word = |place: &str| graph.pointer(&format!("{at}/{place}")).cloned().unwrap_or(Value::Null);
                assert_eq!(word("0/config/on_timeout"), json!("null"), "{graph:#}");
                assert_eq!(word("1/config/pins/0/on_missing"), json!("null"), "{graph:#}");
            }
        };
        check("null", true);
        check("~", true);
        check("\"null\"", true);
        check("nothing", false);
        check("1", false);
    }
}
