//! What a run holds in memory: of each node only what another has yet to read, each value once, within bounds.
//!
//! Everything else is in the database alone. Deliberately absent: what is being asked for right now, which `drive` counts.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_contracts::workflow::{MapConfig, NodeKind, NodeState, Workflow};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_store::workflow_runs::WorkflowNode;

use super::next::{Nodes, place_of, split};

/// Of values that nodes of one run have yet to read, as they are in memory. A node that gives more than is left fails.
pub const RUN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Of one run with all items of its maps. A map that would pass it fails before it begins.
pub const RUN_NODES_MAX: usize = 50_000;

/// How the nodes of a run stand.
#[derive(Debug, Default)]
pub struct Held {
    nodes: Nodes,
    bytes: usize,
    /// Nodes that there were, those below maps that ended too.
    counted: usize,
}

impl Held {
    /// From how all nodes of a run stand, without what arrived there and what they gave.
    pub fn new(graph: &Workflow, all: Vec<WorkflowNode>) -> Self {
        let mut held = Self { counted: all.len(), ..Self::default() };
        held.nodes = all.into_iter().map(|node| (node.path.clone(), node)).collect();
        held.bytes = held.nodes.values().map(weight_of).sum();
        let ended = held.nodes.values().filter(|node| node.state.is_settled() && is_map(graph, &node.path));
        for path in ended.map(|node| node.path.clone()).collect::<Vec<_>>() {
            held.forget_below(&path);
        }
        held
    }

    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub fn get(&self, path: &str) -> Option<&WorkflowNode> {
        self.nodes.get(path)
    }

    pub fn has_failed(&self, path: &str) -> bool {
        self.get(path).is_some_and(|node| node.state == NodeState::Failed)
    }

    /// Nodes of which something has yet to be read.
    pub fn still_read(&self, graph: &Workflow) -> Vec<String> {
        let of_map = |node: &WorkflowNode| node.state == NodeState::Running && is_map(graph, &node.path);
        let is_read = |node: &&WorkflowNode| {
            of_map(node) || !matches!(self.readers(graph, &node.path, node.state, None), Readers::None)
        };
        self.nodes.values().filter(is_read).map(|node| node.path.clone()).collect()
    }

    /// How a node stands now. What it was the last to read is forgotten, and what nobody reads of it is not kept.
    pub fn put(&mut self, graph: &Workflow, mut stands: WorkflowNode) {
        let path = stands.path.clone();
        if stands.state != NodeState::Running || !is_map(graph, &path) {
            stands.inputs = json!({});
        }
        let (state, begins) = (stands.state, !self.nodes.contains_key(&path));
        self.readers(graph, &path, state, None).keep(&mut stands.outputs);
        self.bytes += weight_of(&stands);
        if let Some(before) = self.nodes.insert(path.clone(), stands) {
            self.bytes -= weight_of(&before);
        }
        if begins {
            self.counted += 1;
            for source in sources(graph, &path) {
                self.keep_less(graph, &source);
            }
        }
        if state.is_settled() && is_map(graph, &path) {
            self.forget_below(&path);
        }
        if state == NodeState::Failed {
            // Nothing new begins beside what failed.
            for beside in self.beside(&path) {
                self.keep_less(graph, &beside);
            }
        }
    }

    /// Whether what a node gives, or what a map works through, can be held.
    pub fn takes(&self, graph: &Workflow, path: &str, outputs: &Map<String, Value>) -> Result<(), ToolError> {
        let readers = self.readers(graph, path, NodeState::Completed, None);
        self.has_room(graph, path, readers.weight_of(outputs))
    }

    /// Whether a map can begin with these items.
    pub fn takes_items(&self, graph: &Workflow, path: &str, map: &MapConfig, items: &Value) -> Result<(), ToolError> {
        let more = items.as_array().map_or(0, Vec::len).saturating_mul(map.body.nodes.len());
        if self.counted.saturating_add(more) > RUN_NODES_MAX {
            let message = format!(
                "a run has at most {RUN_NODES_MAX} nodes, with those of each item, and this map would begin {more} more; \
                 split the list over several runs, or have one tool work through it"
            );
            return Err(ToolError::because(ErrorCode::ValidationError, "too_large", message));
        }
        self.has_room(graph, path, weight(items))
    }

    fn has_room(&self, graph: &Workflow, path: &str, more: usize) -> Result<(), ToolError> {
        let own = self.get(path).map_or(0, weight_of);
        let below: usize = self.below(path).filter(|node| node.state.is_settled()).map(weight_of).sum();
        let sources = if self.nodes.contains_key(path) { BTreeSet::new() } else { sources(graph, path) };
        let read = |source: &WorkflowNode| {
            let left = self.readers(graph, &source.path, source.state, Some(path));
            weight(&source.outputs).saturating_sub(source.outputs.as_object().map_or(0, |all| left.weight_of(all)))
        };
        let read: usize = sources.iter().filter_map(|source| self.get(source)).map(read).sum();
        if self.bytes.saturating_sub(own + below + read).saturating_add(more) <= RUN_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "it does not fit into the run, which holds at most {} MiB of what its nodes have yet to read; \
             lead on less of it with a `path`, write it to a file and lead on its name, or split the work over several runs",
            RUN_BYTES_MAX / 1024 / 1024
        );
        Err(ToolError::because(ErrorCode::ValidationError, "too_large", message))
    }

    fn keep_less(&mut self, graph: &Workflow, path: &str) {
        let Some(state) = self.get(path).map(|source| source.state) else { return };
        let readers = self.readers(graph, path, state, None);
        if let Some(source) = self.nodes.get_mut(path) {
            self.bytes -= weight_of(source);
            readers.keep(&mut source.outputs);
            self.bytes += weight_of(source);
        }
    }

    fn below(&self, path: &str) -> impl Iterator<Item = &WorkflowNode> {
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).take_while(move |(path, _)| path.starts_with(&below)).map(|(_, node)| node)
    }

    /// What a map gives is its own now. What is still asked for stays until it is settled.
    fn forget_below(&mut self, path: &str) {
        let settled = self.below(path).filter(|node| node.state.is_settled()).map(|node| node.path.clone());
        for path in settled.collect::<Vec<_>>() {
            if let Some(gone) = self.nodes.remove(&path) {
                self.bytes -= weight_of(&gone);
            }
        }
    }

    fn beside(&self, path: &str) -> Vec<String> {
        let (prefix, _) = split(path);
        let within = self.nodes.range(prefix.to_owned()..).take_while(|(path, _)| path.starts_with(prefix));
        within.map(|(path, _)| path).filter(|path| split(path).0 == prefix).cloned().collect()
    }

    /// Who has yet to read what a node gave, once `begun` has begun too.
    fn readers<'g>(&self, graph: &'g Workflow, path: &str, state: NodeState, begun: Option<&str>) -> Readers<'g> {
        let Some((around, node)) = place_of(graph, path) else { return Readers::None };
        let (prefix, id) = split(path);
        let failed = |id: &str| self.has_failed(&format!("{prefix}{id}"));
        if state != NodeState::Completed || around.nodes.iter().any(|node| failed(&node.id)) {
            return Readers::None;
        }
        if matches!(node.kind, NodeKind::Output(_)) {
            return Readers::All;
        }
        let has_begun = |id: &str| {
            let path = format!("{prefix}{id}");
            begun == Some(path.as_str()) || self.nodes.contains_key(&path)
        };
        let from_it = around.edges.iter().filter(|edge| edge.from.node == id && !has_begun(&edge.to.node));
        let handles: BTreeSet<&str> = from_it.map(|edge| edge.from.handle.as_str()).collect();
        if handles.is_empty() { Readers::None } else { Readers::Of(handles) }
    }
}

/// What is read of a node's outputs.
enum Readers<'g> {
    None,
    Of(BTreeSet<&'g str>),
    All,
}

impl Readers<'_> {
    /// Of what they read.
    fn weight_of(&self, outputs: &Map<String, Value>) -> usize {
        let of = |(name, value): (&String, &Value)| ENTRY_BYTES + name.len() + weight(value);
        match self {
            Self::None => 0,
            Self::All => outputs.iter().map(of).sum(),
            Self::Of(handles) => outputs.iter().filter(|(name, _)| handles.contains(name.as_str())).map(of).sum(),
        }
    }

    fn keep(&self, outputs: &mut Value) {
        match (self, outputs.as_object_mut()) {
            (Self::Of(handles), Some(outputs)) => outputs.retain(|handle, _| handles.contains(handle.as_str())),
            (Self::None, _) => *outputs = json!({}),
            (Self::All, _) | (Self::Of(_), None) => {}
        }
    }
}

/// The nodes that lead to one, by their paths.
fn sources(graph: &Workflow, path: &str) -> BTreeSet<String> {
    let Some((around, node)) = place_of(graph, path) else { return BTreeSet::new() };
    let (prefix, _) = split(path);
    let to_it = around.edges.iter().filter(|edge| edge.to.node == node.id);
    to_it.map(|edge| format!("{prefix}{}", edge.from.node)).collect()
}

fn is_map(graph: &Workflow, path: &str) -> bool {
    place_of(graph, path).is_some_and(|(_, node)| matches!(node.kind, NodeKind::Map(_)))
}

fn weight_of(node: &WorkflowNode) -> usize {
    weight(&node.inputs) + weight(&node.outputs)
}

/// About the bytes that a value takes in memory.
pub fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| ENTRY_BYTES + name.len() + weight(value)).sum(),
    };
    size_of::<Value>() + inside
}

/// Of a member beside its name and its value.
const ENTRY_BYTES: usize = 48;

#[cfg(test)]
mod tests {
    use toolgate_contracts::definition::Label;
    use toolgate_contracts::{Timestamp, workflow};

    use super::super::next::{Next, next, worked_through};
    use super::*;

    fn graph() -> Workflow {
        let edge = |from: &str, to: &str| {
            let ((node, handle), (to_node, to_handle)) = (from.split_once('.').unwrap(), to.split_once('.').unwrap());
            json!({"from": {"node": node, "handle": handle}, "to": {"node": to_node, "handle": to_handle}})
        };
        let output = |name: &str| {
            let schema = json!({"type": "object", "properties": {name: {}}});
            json!({"id": "out", "kind": "output", "config": {"schema": schema}})
        };
        let tool = |id: &str| json!({"id": id, "kind": "tool", "config": {"tool": "t"}});
        workflow::read(json!({
            "version": 1, "name": "w", "inputs": {"type": "object", "properties": {"list": {}}},
            "nodes": [{"id": "in", "kind": "input"}, tool("a"), tool("b"),
                {"id": "each", "kind": "map", "config": {"body": {
                    "nodes": [{"id": "in", "kind": "input"}, tool("say"), output("said")],
                    "edges": [edge("in.item", "say.input/text"), edge("say.output", "out.said")]}}},
                output("all")],
            "edges": [edge("in.list", "a.input"), edge("in.list", "each.items"), edge("a.output", "b.input"),
                edge("each.items", "out.all")],
        }))
        .unwrap()
    }

    fn node(path: &str, state: NodeState, inputs: Value, outputs: Value) -> WorkflowNode {
        WorkflowNode {
            path: path.to_owned(),
            kind: "tool".to_owned(),
            state,
            step_id: None,
            seq: None,
            call_id: None,
            question_id: None,
            child_run_id: None,
            inputs,
            outputs,
            labels: Vec::<Label>::new(),
            output_labels: None,
            error: None,
            started_at: Timestamp::from_millis(0),
            ended_at: None,
        }
    }

    fn held(held: &Held, path: &str) -> (Value, Value) {
        let node = held.get(path).unwrap_or_else(|| panic!("{path} is not held"));
        (node.inputs.clone(), node.outputs.clone())
    }

    #[test]
    fn what_everybody_has_read_is_not_held() {
        let (graph, mut all) = (graph(), Held::default());
        let done = |path: &str, outputs: Value| node(path, NodeState::Completed, json!({"x": "y"}), outputs);
        let list = json!([1, 2]);
        all.put(&graph, done("in", json!({"list": list, "other": "nobody reads it"})));
        assert_eq!(held(&all, "in"), (json!({}), json!({"list": list})));
        all.put(&graph, done("a", json!({"output": 1, "envelope": {"output": 1}})));
        assert_eq!(held(&all, "a").1, json!({"output": 1}));
        // The map has yet to read the list, and holds it then in its place.
        assert_eq!(held(&all, "in").1, json!({"list": list}));
        all.put(&graph, node("each", NodeState::Running, json!({"items": list}), json!({})));
        assert_eq!((held(&all, "in").1, held(&all, "each").0), (json!({}), json!({"items": list})));
        all.put(&graph, node("b", NodeState::Running, json!({"input": 1}), json!({})));
        assert_eq!((held(&all, "a").1, held(&all, "b").0), (json!({}), json!({})));
        for index in 0..2 {
            all.put(&graph, done(&format!("each/{index}/in"), json!({"item": index, "index": index})));
            all.put(&graph, done(&format!("each/{index}/say"), json!({"output": index, "envelope": {}})));
            all.put(&graph, done(&format!("each/{index}/out"), json!({"said": index})));
            assert_eq!(held(&all, &format!("each/{index}/say")).1, json!({}));
        }
        let [Next::EndMap { path, node }] = &next(&graph, all.nodes())[..] else { panic!("the map is at its end") };
        let NodeKind::Map(config) = &node.kind else { panic!("{path} is a map") };
        let items = worked_through(config, path, all.nodes()).values;
        assert_eq!(items, [json!({"said": 0}), json!({"said": 1})]);
        all.put(&graph, done("each", json!({"items": items, "errors": []})));
        assert_eq!(held(&all, "each"), (json!({}), json!({"items": items})));
        assert!(all.get("each/0/out").is_none());
        all.put(&graph, done("out", json!({"all": items})));
        assert_eq!((held(&all, "each").1, held(&all, "out").1), (json!({}), json!({"all": items})));
        let counted: usize = all.nodes().values().map(weight_of).sum();
        assert_eq!((all.bytes, all.counted), (counted, 11));
    }

    #[test]
    fn a_run_that_is_taken_up_holds_what_it_held() {
        let graph = graph();
        let plain = |path: &str, state| node(path, state, json!({}), json!({}));
        let (done, running) = (NodeState::Completed, NodeState::Running);
        let all = vec![
            plain("in", done),
            plain("a", done),
            plain("each", running),
            plain("each/0/in", done),
            plain("each/0/say", done),
            plain("each/0/out", done),
            plain("each/1/in", done),
        ];
        let read = Held::new(&graph, all.clone()).still_read(&graph);
        assert_eq!(read, ["a", "each", "each/0/out", "each/1/in"]);
        let ended = all.into_iter().map(|node| WorkflowNode { state: done, ..node }).collect();
        let ended = Held::new(&graph, ended);
        assert_eq!(ended.still_read(&graph), ["a", "each"]);
        assert_eq!((ended.nodes().len(), ended.counted), (3, 7));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_takes_the_place_of_another_is_not() {
        let (graph, mut all) = (graph(), Held::default());
        let text = "x".repeat(RUN_BYTES_MAX - 10_000);
        let given = |handle: &str, value: &str| Map::from_iter([(handle.to_owned(), value.into())]);
        assert_eq!(all.takes(&graph, "a", &given("envelope", &"x".repeat(RUN_BYTES_MAX + 1))), Ok(()));
        assert_eq!(all.takes(&graph, "a", &given("output", &text)), Ok(()));
        let items = json!([text]);
        all.put(&graph, node("in", NodeState::Completed, json!({}), json!({"list": items})));
        all.put(&graph, node("a", NodeState::Running, json!({}), json!({})));
        let refused = all.takes(&graph, "a", &given("output", &"x".repeat(20_000))).unwrap_err();
        assert_eq!((refused.code, refused.reason()), (ErrorCode::ValidationError, "too_large"));
        assert!(refused.message.contains("32 MiB"), "{}", refused.message);
        let NodeKind::Map(config) = &place_of(&graph, "each").unwrap().1.kind else { panic!("it is a map") };
        assert_eq!(all.takes_items(&graph, "each", config, &items), Ok(()));
        let many = Value::from(vec![Value::Null; RUN_NODES_MAX / 3 + 1]);
        assert_eq!(all.takes_items(&graph, "each", config, &many).unwrap_err().reason(), "too_large");
    }
}
