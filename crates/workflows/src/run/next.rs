//! What a run does next: a function of its graph and of how its nodes stand.
//!
//! No clock, no store, nothing awaited. Whoever took up a run on another replica comes to the same answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::workflow::{Body, Edge, MapConfig, Node, NodeKind, NodeState, OnError, Workflow};
use toolgate_store::workflow_runs::WorkflowNode;

use crate::handles::{INDEX, ITEM, ITEMS};

/// How the nodes of a run stand, by path. One that is not here has not begun.
pub type Nodes = BTreeMap<String, WorkflowNode>;

#[derive(Debug, PartialEq)]
pub enum Next<'g> {
    /// Everything that leads to it is settled, and something arrived, or nothing leads to it.
    Begin { path: String, node: &'g Node, inputs: Map<String, Value> },
    /// Everything that leads to it is dead.
    Skip { path: String, node: &'g Node },
    /// Every item of a map is settled.
    EndMap { path: String, node: &'g Node, items: Vec<Value>, errors: Vec<ItemError> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ItemError {
    pub index: usize,
    pub error: ToolError,
}

impl ItemError {
    pub fn value(&self) -> Value {
        json!({"index": self.index, "error": self.error})
    }
}

/// One graph of a run: the workflow, or a body for one item.
#[derive(Clone, Copy)]
struct Graph<'g> {
    nodes: &'g [Node],
    edges: &'g [Edge],
}

/// How a graph stands as a whole.
#[derive(Debug, PartialEq)]
pub enum Whole {
    Open,
    /// What its output received; `null` where it has none or nothing reached it.
    Completed(Value),
    /// By the first of its nodes that failed.
    Failed(String, ToolError),
}

/// What can be done now. Nothing: the run waits for what was begun, or is over.
pub fn next<'g>(workflow: &'g Workflow, inputs: &Value, nodes: &Nodes) -> Vec<Next<'g>> {
    let mut found = Vec::new();
    let given = inputs.as_object().cloned().unwrap_or_default();
    of_graph(graph_of(workflow), "", &given, nodes, &mut found);
    found
}

/// How the run stands as a whole.
pub fn whole(workflow: &Workflow, nodes: &Nodes) -> Whole {
    whole_of(graph_of(workflow), "", nodes)
}

fn graph_of(workflow: &Workflow) -> Graph<'_> {
    Graph { nodes: &workflow.nodes, edges: &workflow.edges }
}

fn body_of(body: &Body) -> Graph<'_> {
    Graph { nodes: &body.nodes, edges: &body.edges }
}

fn of_graph<'g>(graph: Graph<'g>, prefix: &str, given: &Map<String, Value>, nodes: &Nodes, found: &mut Vec<Next<'g>>) {
    // What failed ends the graph: nothing new is begun.
    if matches!(whole_of(graph, prefix, nodes), Whole::Failed(..)) {
        return;
    }
    for node in graph.nodes {
        let path = format!("{prefix}{}", node.id);
        match (nodes.get(&path), &node.kind) {
            (None, NodeKind::Input) => found.push(Next::Begin { path, node, inputs: given.clone() }),
            (None, _) => found.extend(begun(graph, prefix, path, node, nodes)),
            (Some(stands), NodeKind::Map(config)) if stands.state == NodeState::Running => {
                of_map(config, path, node, stands, nodes, found);
            }
            (Some(_), _) => {}
        }
    }
}

/// Whether a node can begin, and with what.
fn begun<'g>(graph: Graph<'g>, prefix: &str, path: String, node: &'g Node, nodes: &Nodes) -> Option<Next<'g>> {
    let mut inputs = Map::new();
    let (mut edges, mut live) = (0, 0);
    for edge in graph.edges.iter().filter(|edge| edge.to.node == node.id) {
        edges += 1;
        let source = nodes.get(&format!("{prefix}{}", edge.from.node)).filter(|source| source.state.is_settled())?;
        let Some(value) = source.outputs.get(&edge.from.handle) else { continue };
        live += 1;
        // Of several that lead to one place the first that is live counts, in the order in which they are written.
        if !inputs.contains_key(&edge.to.handle) {
            let value = match &edge.from.path {
                Some(path) => value.pointer(path).cloned().unwrap_or_default(),
                None => value.clone(),
            };
            inputs.insert(edge.to.handle.clone(), value);
        }
    }
    Some(if edges > 0 && live == 0 { Next::Skip { path, node } } else { Next::Begin { path, node, inputs } })
}

fn of_map<'g>(
    config: &'g MapConfig,
    path: String,
    node: &'g Node,
    stands: &WorkflowNode,
    nodes: &Nodes,
    found: &mut Vec<Next<'g>>,
) {
    let body = body_of(&config.body);
    let items = stands.inputs.get(ITEMS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (mut results, mut errors, mut open) = (Vec::with_capacity(items.len()), Vec::new(), 0);
    let mut waiting = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let prefix = format!("{path}/{index}/");
        match whole_of(body, &prefix, nodes) {
            Whole::Completed(value) => results.push(value),
            Whole::Failed(_, error) => {
                results.push(Value::Null);
                errors.push(ItemError { index, error });
            }
            Whole::Open => {
                let is_begun = config.body.nodes.iter().any(|node| nodes.contains_key(&format!("{prefix}{}", node.id)));
                if is_begun {
                    open += 1;
                    let given = given(index, item);
                    of_graph(body, &prefix, &given, nodes, found);
                } else {
                    waiting.push((index, item, prefix));
                }
            }
        }
    }
    let gives_up = node.on_error == OnError::Fail && !errors.is_empty();
    if open == 0 && (waiting.is_empty() || gives_up) {
        found.push(Next::EndMap { path, node, items: results, errors });
        return;
    }
    if gives_up {
        return;
    }
    let places = usize::try_from(config.max_parallel).unwrap_or(1).saturating_sub(open);
    for (index, item, prefix) in waiting.into_iter().take(places) {
        of_graph(body, &prefix, &given(index, item), nodes, found);
    }
}

fn given(index: usize, item: &Value) -> Map<String, Value> {
    Map::from_iter([(ITEM.to_owned(), item.clone()), (INDEX.to_owned(), index.into())])
}

fn whole_of(graph: Graph<'_>, prefix: &str, nodes: &Nodes) -> Whole {
    let mut output = Value::Null;
    let mut all = true;
    for node in graph.nodes {
        let path = format!("{prefix}{}", node.id);
        match nodes.get(&path) {
            Some(stands) if stands.state == NodeState::Failed => {
                return Whole::Failed(path, stands.error.clone().unwrap_or_else(ToolError::cancelled));
            }
            Some(stands) if stands.state.is_settled() => {
                if matches!(node.kind, NodeKind::Output(_)) && stands.state == NodeState::Completed {
                    output = stands.outputs.clone();
                }
            }
            Some(_) | None => all = false,
        }
    }
    if all { Whole::Completed(output) } else { Whole::Open }
}
