//! What is found wrong with a graph: the code, the place, the words and what to do.

use serde_json::{Value, json};
use toolgate_contracts::definition::ToolState;
use toolgate_contracts::workflow;
use toolgate_registry::Severity;
use toolgate_workflows::around::ToolStanding;
use toolgate_workflows::{Around, check};

use crate::surroundings::{Surroundings, graph, lookup, told, usual};

fn with(pointer: &str, value: Value) -> Value {
    let mut graph = graph();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    match graph.pointer_mut(parent).unwrap() {
        Value::Array(items) if member == "-" => items.push(value),
        Value::Array(items) => items[member.parse::<usize>().unwrap()] = value,
        other => other[member] = value,
    }
    graph
}

fn found(graph: Value, around: Option<&Surroundings>) -> Vec<(Severity, String, String)> {
    let workflow = workflow::read(graph).unwrap();
    let findings = check(&workflow, around.map(|around| around as &dyn Around));
    for finding in &findings {
        assert!(!finding.fix.is_empty(), "{finding:?} says nothing to do");
    }
    findings.into_iter().map(|finding| (finding.severity, finding.code.into_owned(), finding.pointer)).collect()
}

#[test]
fn a_graph_with_every_kind_of_node_passes() {
    assert_eq!(found(graph(), Some(&usual())), []);
    let offline = found(graph(), None);
    assert_eq!(offline, [(Severity::Note, "workflow.offline".to_owned(), String::new())]);
}

#[test]
fn what_is_wrong_is_found_with_its_place() {
    let check = |pointer: &str, value: Value, code: &str, at: &str| {
        let found = found(with(pointer, value), Some(&usual()));
        assert!(found.iter().any(|(_, found, place)| found == code && place == at), "{code} at {at}: {found:?}");
    };
    check("/nodes/0/id", json!("1st"), "workflow.node-id", "/nodes/0/id");
    check("/nodes/0/id", json!("one"), "workflow.node-id", "/nodes/2/id");
    check("/nodes/-", json!({"id": "in2", "kind": "input"}), "workflow.input-node", "/nodes/7");
    check("/nodes", json!([]), "workflow.size", "/nodes");
    let other = json!({"id": "out", "kind": "tool", "config": {"tool": "lookup", "input": {"query": "x"}}});
    check("/nodes/5/config/body/nodes/2", other, "workflow.output-node", "/nodes/5/config/body/nodes");
    check("/nodes/5/config/max_parallel", json!(0), "workflow.parallel", "/nodes/5/config/max_parallel");
    check("/nodes/1/config/prompt", json!("{{ text"), "workflow.template", "/nodes/1/config/prompt");
    check("/nodes/4/config/title", json!("{{ other }}"), "workflow.template", "/nodes/4/config/title");
    check("/nodes/4/config/timeout_s", json!(0), "workflow.timeout", "/nodes/4/config/timeout_s");
    check("/nodes/4/config/schema", json!({"type": "string"}), "schema.top-level", "/nodes/4/config/schema");
    check("/nodes/3/config/cases/0/when", json!("value =="), "workflow.expression", "/nodes/3/config/cases/0/when");
    check("/nodes/3/config/cases/0/when", json!("fetch(value)"), "workflow.expression", "/nodes/3/config/cases/0/when");
    check("/nodes/3/config/cases/0/name", json!("else"), "workflow.case", "/nodes/3/config/cases/0/name");
    check("/nodes/3/config/cases", json!([]), "workflow.case", "/nodes/3/config/cases");
    check("/nodes/1/config/pins/0/name", json!("response"), "workflow.pin-name", "/nodes/1/config/pins/0/name");
    check("/nodes/1/config/pins/0/name", json!("error"), "workflow.pin-name", "/nodes/1/config/pins/0/name");
    let dangling = json!({"tool": "lookup", "strategy": "by_call_id"});
    check("/nodes/1/config/pins/0/selector", dangling, "workflow.pin-call", "/nodes/1/config/pins/0/selector");
    let unread = json!({"tool": "lookup", "strategy": "latest", "call_id": "c_1"});
    check("/nodes/1/config/pins/0/selector", unread, "workflow.pin-call", "/nodes/1/config/pins/0/selector/call_id");
    let other = json!({"tool": "http_get", "strategy": "latest"});
    check("/nodes/1/config/pins/0/selector", other, "workflow.pin-tool", "/nodes/1/config/pins/0/selector/tool");
    check("/nodes/1/config/agent", json!("nobody"), "workflow.agent-missing", "/nodes/1/config/agent");
    check("/nodes/2/config/tool", json!("no tool"), "workflow.tool-name", "/nodes/2/config/tool");
    check("/nodes/2/config/tool", json!("lookup@9.0.0"), "workflow.tool-missing", "/nodes/2/config/tool");
    check("/nodes/2/config/secrets/0", json!("OTHER"), "workflow.secret", "/nodes/2/config/secrets/0");
    check("/nodes/2/config/input", json!({"limit": "two"}), "workflow.input-value", "/nodes/2/config/input/limit");
    check("/nodes/2/config/input", json!({"limits": 2}), "workflow.input-unknown", "/nodes/2/config/input/limits");
    check("/nodes/2/config/input", json!([]), "workflow.input-value", "/nodes/2/config/input");
    check("/edges/0/to/handle", json!("input/limit"), "workflow.input-missing", "/nodes/2/config/input");
    check("/edges/0/to/handle", json!("input/limit"), "workflow.edge-type", "/edges/0");
    check("/edges/2/to/handle", json!("item"), "workflow.edge-handle", "/edges/2/to/handle");
    check("/edges/2/to/node", json!("out"), "workflow.input-missing", "/nodes/5");
    check("/edges/0/from/node", json!("inn"), "workflow.edge-node", "/edges/0/from/node");
    check("/edges/0/from/handle", json!("texts"), "workflow.edge-handle", "/edges/0/from/handle");
    check("/edges/5/from/path", json!("count"), "workflow.edge-path", "/edges/5/from/path");
    check("/edges/5/from/path", json!("/hits"), "workflow.edge-type", "/edges/5");
    // A limit that nobody would hold.
    for (limits, member) in [
        (json!({"side_effects": "none"}), "side_effects"),
        (json!({"enabled_tools": ["lookup"]}), "enabled_tools"),
        (json!({"max_wall_s": 5, "max_output_bytes": 10}), "max_output_bytes"),
    ] {
        check("/nodes/2/limits", limits, "workflow.limit", &format!("/nodes/2/limits/{member}"));
    }
    check("/nodes/4/limits", json!({"max_wall_s": 5}), "workflow.limit", "/nodes/4/limits/max_wall_s");
    let unknown = json!({"enabled_tools": ["nothing"]});
    check("/nodes/1/limits", unknown.clone(), "workflow.tool-missing", "/nodes/1/limits/enabled_tools/0");
    check("/nodes/1/limits", unknown, "workflow.pin-tool", "/nodes/1/config/pins/0/selector/tool");
    let back = json!({"from": {"node": "ask", "handle": "answer"}, "to": {"node": "one", "handle": "input"}});
    check("/edges/-", back, "workflow.cycle", "/edges");
}

#[test]
fn a_tool_that_is_gone_or_old_warns_and_a_blocked_one_is_an_error() {
    let check = |standing: ToolStanding, severity: Severity, code: &str| {
        let mut around = usual();
        around.tools.insert("lookup@1.0.0".to_owned(), standing);
        let found = found(graph(), Some(&around));
        assert_eq!(found, [(severity, code.to_owned(), "/nodes/2/config/tool".to_owned())]);
    };
    check(ToolStanding::Missing, Severity::Warning, "workflow.tool-missing");
    let old = told(ToolState::Deprecated, "slow");
    check(ToolStanding::Deprecated(lookup(), old), Severity::Warning, "workflow.tool-deprecated");
    let bad = told(ToolState::Blocked, "it leaks");
    check(ToolStanding::Blocked(lookup(), bad), Severity::Error, "workflow.tool-blocked");
}

#[test]
fn limits_that_hold_are_no_finding() {
    let check =
        |pointer: &str, limits: Value| assert_eq!(found(with(pointer, limits), Some(&usual())), [], "{pointer}");
    check("/nodes/2/limits", json!({"max_wall_s": 5}));
    check("/nodes/2/limits", json!({}));
    check("/nodes/1/limits", json!({"max_tool_calls": 2, "side_effects": "reads", "enabled_tools": ["lookup"]}));
}

#[test]
fn a_place_in_a_prompt_that_nothing_arrives_at_is_told() {
    let check = |prompt: &str, expected: Option<Severity>| {
        let prompt = format!("{{{{ text }}}} {{{{ who }}}} {prompt}");
        let workflow = workflow::read(with("/nodes/1/config/prompt", json!(prompt))).unwrap();
        let findings = toolgate_workflows::check(&workflow, Some(&usual() as &dyn Around));
        assert_eq!(findings.iter().map(|finding| finding.severity).next(), expected, "{prompt}: {findings:?}");
        for finding in findings {
            assert_eq!((&*finding.code, &*finding.pointer), ("workflow.input-missing", "/nodes/1/config/prompt"));
            assert!(finding.message.contains("`price`"), "{finding:?}");
        }
    };
    check("", None);
    check("{{ price }}", Some(Severity::Error));
    check("{{ price.net }}", Some(Severity::Error));
    check("{% for one in price %}{{ one }}{% endfor %}", Some(Severity::Error));
    // It says what to do without.
    check("{{ price | default('any') }}", Some(Severity::Warning));
}
