//! Tools and agents that a test says there are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_contracts::ToolRef;
use toolgate_contracts::definition::ToolState;
use toolgate_store::catalog::Lifecycle;
use toolgate_workflows::around::{AgentTools, Around, KnownTool, ToolStanding};

/// By `name` and by `name@version`.
#[derive(Clone, Default)]
pub struct Surroundings {
    pub tools: BTreeMap<String, ToolStanding>,
    pub agents: BTreeMap<String, Vec<String>>,
}

impl Around for Surroundings {
    fn tool(&self, reference: &ToolRef) -> ToolStanding {
        self.tools.get(&reference.to_string()).cloned().unwrap_or(ToolStanding::Missing)
    }

    fn agent(&self, name: &str) -> Option<AgentTools<'_>> {
        let tools = self.agents.get(name)?;
        Some(AgentTools::new(|tool| tools.iter().any(|one| one == tool)))
    }
}

pub fn lookup() -> KnownTool {
    KnownTool {
        input: json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
            "query": {"type": "string", "minLength": 1}, "limit": {"type": "integer", "default": 3}}}),
        output: Some(
            json!({"type": "object", "properties": {"hits": {"type": "array"}, "count": {"type": "integer"}}}),
        ),
        secrets: vec!["SEARCH_KEY".to_owned()],
    }
}

pub fn told(state: ToolState, message: &str) -> Lifecycle {
    Lifecycle {
        state,
        message: Some(message.to_owned()),
        remove_by: None,
        replaced_by: Some("lookup@2.0.0".to_owned()),
    }
}

/// `lookup` in one version, and an agent that has it.
pub fn usual() -> Surroundings {
    let tools = ["lookup", "lookup@1.0.0"].map(|name| (name.to_owned(), ToolStanding::Active(lookup())));
    let agents = [("helper".to_owned(), vec!["lookup".to_owned()])];
    Surroundings { tools: tools.into(), agents: agents.into() }
}

/// Every kind of node, and nothing wrong with any.
pub fn graph() -> Value {
    json!({
        "version": 1, "name": "triage", "revision": 1,
        "inputs": {"type": "object", "required": ["text"], "properties": {
            "text": {"type": "string", "description": "What came in"},
            "many": {"type": "array", "items": {"type": "string"}, "description": "What to look up"}}},
        "nodes": [
            {"id": "in", "kind": "input"},
            {"id": "look", "kind": "agent", "on_error": "data", "config": {
                "agent": "helper", "prompt": "Find {{ text }} for {{ who }}", "enabled_tools": ["lookup"], "pins": [
                    {"name": "lookup_result", "selector": {"tool": "lookup", "strategy": "latest"}, "on_missing": "null"}]}},
            {"id": "one", "kind": "tool", "on_error": "data",
             "config": {"tool": "lookup@1.0.0", "input": {"limit": 2}, "secrets": ["SEARCH_KEY"]}},
            {"id": "choose", "kind": "condition", "config": {"cases": [
                {"name": "invalid", "when": "value.code == 'VALIDATION_ERROR'"}]}},
            {"id": "ask", "kind": "human", "config": {
                "title": "Which one?", "instructions": "It said {{ value.message }}", "timeout_s": 60, "on_timeout": "null",
                "schema": {"type": "object", "properties": {"query": {"type": "string", "description": "Instead"}}}}},
            {"id": "each", "kind": "map", "config": {"max_parallel": 2, "body": {
                "nodes": [
                    {"id": "in", "kind": "input"},
                    {"id": "look", "kind": "tool", "config": {"tool": "lookup"}},
                    {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                        "hits": {"type": "array", "description": "What was found"}}}}}],
                "edges": [
                    {"from": {"node": "in", "handle": "item"}, "to": {"node": "look", "handle": "input/query"}},
                    {"from": {"node": "look", "handle": "output", "path": "/hits"}, "to": {"node": "out", "handle": "hits"}}]}}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "count": {"type": "integer", "description": "How many"},
                "answer": {"description": "What a person said"},
                "pinned": {"description": "What the agent found"},
                "all": {"type": "array", "description": "Of each"}}}}}],
        "edges": [
            {"from": {"node": "in", "handle": "text"}, "to": {"node": "one", "handle": "input/query"}},
            {"from": {"node": "in", "handle": "text"}, "to": {"node": "look", "handle": "text"}},
            {"from": {"node": "in", "handle": "many"}, "to": {"node": "each", "handle": "items"}},
            {"from": {"node": "one", "handle": "error"}, "to": {"node": "choose", "handle": "value"}},
            {"from": {"node": "choose", "handle": "invalid"}, "to": {"node": "ask", "handle": "value"}},
            {"from": {"node": "one", "handle": "output", "path": "/count"}, "to": {"node": "out", "handle": "count"}},
            {"from": {"node": "ask", "handle": "answer"}, "to": {"node": "out", "handle": "answer"}},
            {"from": {"node": "look", "handle": "lookup_result"}, "to": {"node": "out", "handle": "pinned"}},
            {"from": {"node": "each", "handle": "items"}, "to": {"node": "out", "handle": "all"}},
            {"from": {"node": "in", "handle": "text"}, "to": {"node": "look", "handle": "who"}}],
    })
}
