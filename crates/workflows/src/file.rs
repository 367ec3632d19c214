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
pub fn read_value(value: Value) -> Result<Workflow, Finding> {
    workflow::read(value).map_err(|error| {
        let fix = "see `docs/schemas/workflow.json` for what a workflow has";
        Finding::error("workflow.unreadable", error.pointer, error.message, fix)
    })
}
