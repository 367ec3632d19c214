//! A saved graph never breaks: whatever becomes of tools, its nodes keep their handles, and it loads.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_contracts::definition::ToolState;
use toolgate_contracts::workflow::{self, Node, NodeKind, Workflow};
use toolgate_registry::Severity;
use toolgate_workflows::around::{KnownTool, ToolStanding};
use toolgate_workflows::handles::{Handles, Within, handles};
use toolgate_workflows::{check, file};

use crate::surroundings::{Surroundings, graph, lookup, told, usual};

fn shape(workflow: &Workflow) -> Vec<(String, Handles)> {
    fn of(nodes: &[Node], within: Within<'_>, into: &mut Vec<(String, Handles)>) {
        for node in nodes {
            into.push((node.id.clone(), handles(node, within)));
            if let NodeKind::Map(map) = &node.kind {
                of(&map.body.nodes, Within::Body, into);
            }
        }
    }
    let mut shape = Vec::new();
    of(&workflow.nodes, Within::Workflow { inputs: &workflow.inputs }, &mut shape);
    shape
}

/// Every change of configuration, by what is left of it around a graph.
fn changes() -> Vec<(&'static str, Surroundings, Severity)> {
    let with = |standing: ToolStanding| {
        let mut around = usual();
        for name in ["lookup", "lookup@1.0.0"] {
            around.tools.insert(name.to_owned(), standing.clone());
        }
        around
    };
    let renamed = Surroundings {
        tools: [("find".to_owned(), ToolStanding::Active(lookup()))].into(),
        agents: [("helper".to_owned(), vec!["find".to_owned()])].into(),
    };
    let mut yanked = usual();
    yanked.tools.remove("lookup@1.0.0");
    let mut unassigned = usual();
    unassigned.agents.insert("helper".to_owned(), Vec::new());
    let mut no_agent = usual();
    no_agent.agents.clear();
    let changed = KnownTool { input: json!({"type": "object"}), output: None, secrets: Vec::new() };
    let deprecated = ToolStanding::Deprecated(lookup(), told(ToolState::Deprecated, "old"));
    let blocked = ToolStanding::Blocked(lookup(), told(ToolState::Blocked, "bad"));
    vec![
        ("tool disabled", with(ToolStanding::Missing), Severity::Warning),
        ("tool removed", Surroundings { tools: [].into(), ..usual() }, Severity::Warning),
        ("tool renamed", renamed, Severity::Warning),
        ("tool deprecated", with(deprecated), Severity::Warning),
        ("tool blocked", with(blocked), Severity::Error),
        ("version yanked", yanked, Severity::Warning),
        ("tool unassigned", unassigned, Severity::Warning),
        ("agent removed", no_agent, Severity::Warning),
        ("schema replaced", with(ToolStanding::Active(changed)), Severity::Warning),
        ("everything gone", Surroundings::default(), Severity::Warning),
    ]
}

#[test]
fn no_change_of_configuration_changes_a_handle_or_breaks_a_saved_graph() {
    let saved = serde_json::to_value(workflow::read(graph()).unwrap()).unwrap();
    let before = shape(&workflow::read(saved.clone()).unwrap());
    for (what, around, gravest) in changes() {
        let loaded = workflow::read(saved.clone()).unwrap();
        let findings = check(&loaded, Some(&around));
        assert_eq!(findings.iter().map(|finding| finding.severity).min(), Some(gravest), "{what}: {findings:?}");
        assert_eq!(shape(&loaded), before, "{what}");
        assert!(
            findings.iter().all(|finding| !matches!(&*finding.code, "workflow.edge-handle" | "workflow.edge-node")),
            "{what}: {findings:?}"
        );
    }
    let look = &before.iter().find(|(id, _)| id == "look").unwrap().1;
    let names: Vec<&str> = look.outputs.iter().map(|handle| handle.name.as_str()).collect();
    let expected = ["response", "tools_by_id", "tool_order", "last_tool", "traces_url", "lookup_result", "error"];
    assert_eq!(names, expected);
    assert_eq!(look.inputs.iter().map(|handle| handle.name.as_str()).collect::<Vec<_>>(), ["text", "who"]);
}

#[test]
fn yaml_and_json_are_the_same_workflow_and_errors_have_lines() {
    let yaml = "version: 1\nname: hello\nnodes:\n  - id: say\n    kind: tool\n    config:\n      tool: echo\n      input: {text: hi}\n";
    let json = json!({"version": 1, "name": "hello", "nodes": [
        {"id": "say", "kind": "tool", "config": {"tool": "echo", "input": {"text": "hi"}}}]});
    let by_hand = file::read(yaml.as_bytes()).unwrap();
    assert_eq!(by_hand.workflow, file::read(json.to_string().as_bytes()).unwrap().workflow);
    let findings = file::read(yaml.replace("tool: echo", "tol: echo").as_bytes()).unwrap_err();
    assert_eq!((findings[0].line, &*findings[0].code), (Some(7), "workflow.unreadable"), "{findings:?}");
}

/// Any JSON, as what somebody sends.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}|/~ ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z$]{1,6}", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

/// One member of the graph, by what leads to it.
fn places(value: &Value, at: String, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let place = format!("{at}/{}", toolgate_contracts::json::escape(name));
                places(value, place.clone(), into);
                into.push(place);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn whatever_stands_in_a_graph_it_is_refused_or_judged_and_reads_back(index: prop::sample::Index, value in anything()) {
        let mut graph = graph();
        let mut all = Vec::new();
        places(&graph, String::new(), &mut all);
        *graph.pointer_mut(&all[index.index(all.len())]).unwrap() = value;
        if let Ok(read) = workflow::read(graph) {
            let _ = check(&read, Some(&usual()));
            let again = workflow::read(serde_json::to_value(&read).unwrap()).unwrap();
            prop_assert_eq!(shape(&again), shape(&read));
            prop_assert_eq!(again, read);
        }
    }
}
