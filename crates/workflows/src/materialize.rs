//! A recorded call, or the call that a pin means, as a node of its own: the same tool at the same version, with the same
//! input and the same secrets by name.
//!
//! Deliberately absent: edges. The node stands for itself until somebody connects it.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_contracts::workflow::{NODE_ID_CHARS_MAX, Node, NodeKind, OnError, PinnedHandle, ToolConfig};
use toolgate_contracts::{AgentOutputs, Fault, ToolEnvelope};

use crate::pins;

/// The node of a call. `secrets` are the names of those that it was made with; `taken` are ids that it cannot have.
pub fn node(call: &ToolEnvelope, secrets: Vec<String>, taken: &BTreeSet<String>) -> Result<Node, Fault> {
    if call.version.is_empty() || !call.input.is_object() {
        let told = format!("the call `{}` never became a call of a tool", call.call_id);
        return Err(Fault::invalid(told, "choose a call whose tool and arguments could be read"));
    }
    let Value::Object(input) = call.input.clone() else { return Err(Fault::internal("an object is none")) };
    let config = ToolConfig { tool: format!("{}@{}", call.name, call.version), input: Value::Object(input), secrets };
    let kind = NodeKind::Tool(config);
    Ok(Node { id: free_id(&call.name, taken), title: None, kind, limits: None, on_error: OnError::Fail })
}

/// The node of the call that a pin means.
pub fn node_of_pin(
    pin: &PinnedHandle,
    outputs: &AgentOutputs,
    secrets: Vec<String>,
    taken: &BTreeSet<String>,
) -> Result<Node, Fault> {
    let call = pins::selected(&pin.selector, outputs).ok_or_else(|| {
        let told = format!("the run has no call that the pin `{}` means", pin.name);
        Fault::invalid(told, "choose a run in which the agent called the tool, or a call itself")
    })?;
    node(call, secrets, taken)
}

/// After the tool, counted where another node has the name.
fn free_id(tool: &str, taken: &BTreeSet<String>) -> String {
    let base: String = tool.replace('.', "_").chars().take(NODE_ID_CHARS_MAX - 8).collect();
    if !taken.contains(&base) {
        return base;
    }
    // One more than are taken is enough to find a free one.
    (2..taken.len() + 3).map(|count| format!("{base}_{count}")).find(|id| !taken.contains(id)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contracts::json;

    use super::*;

    fn call(version: &str) -> ToolEnvelope {
        json::decode(json!({
            "call_id": "c_1", "name": "notes.add", "version": version, "input": {"text": "x"}, "output": {},
            "t_start": "2026-01-01T00:00:00.000Z", "t_end": "2026-01-01T00:00:01.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_call_becomes_a_node_with_its_input_version_and_secrets() {
        let taken = BTreeSet::from(["notes_add".to_owned()]);
        let node = node(&call("1.2.0"), vec!["API_KEY".to_owned()], &taken).unwrap();
        let written = json!({"id": "notes_add_2", "kind": "tool",
            "config": {"tool": "notes.add@1.2.0", "input": {"text": "x"}, "secrets": ["API_KEY"]}});
        assert_eq!(serde_json::to_value(node).unwrap(), written);
    }

    #[test]
    fn a_call_of_no_tool_and_a_pin_without_a_call_are_refused() {
        assert!(node(&call(""), Vec::new(), &BTreeSet::new()).unwrap_err().told().contains("never became"));
        let pin = json!({"name": "p", "selector": {"tool": "notes.add", "strategy": "first_success"}});
        let pin: PinnedHandle = json::decode(pin).unwrap();
        let none = AgentOutputs::of("", [], None);
        let fault = node_of_pin(&pin, &none, Vec::new(), &BTreeSet::new()).unwrap_err();
        assert!(fault.told().contains("pin `p`"));
        let some = AgentOutputs::of("", [call("1.0.0")], None);
        assert_eq!(node_of_pin(&pin, &some, Vec::new(), &BTreeSet::new()).unwrap().id, "notes_add");
    }
}
