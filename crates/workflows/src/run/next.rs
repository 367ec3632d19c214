//! What a run does next: a function of its graph and of how its nodes stand.
//!
//! No clock, no store, nothing awaited. Whoever took up a run on another replica comes to the same answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::definition::Label;
use toolgate_contracts::workflow::{Body, Edge, MapConfig, Node, NodeKind, NodeState, OnError, Workflow};
use toolgate_store::workflow_runs::WorkflowNode;

use crate::handles::{INDEX, ITEM, ITEMS, OUTPUT};

/// How the nodes of a run stand, by path. One that is not here has not begun.
pub type Nodes = BTreeMap<String, WorkflowNode>;

#[derive(Debug, PartialEq)]
pub enum Next<'g> {
    /// Everything that leads to it is settled, and something arrived, or nothing leads to it. With what: `arrived`.
    Begin { path: String, node: &'g Node },
    /// Everything that leads to it is dead.
    Skip { path: String, node: &'g Node },
    /// Every item of a map is settled. With what: `worked_through`.
    EndMap { path: String, node: &'g Node },
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
pub struct Graph<'g> {
    pub nodes: &'g [Node],
    pub edges: &'g [Edge],
}

/// What a run is begun with, and what that carries.
#[derive(Clone, Copy)]
pub struct Given<'l> {
    pub inputs: &'l Value,
    pub labels: &'l [Label],
}

/// What was done for a map's items.
#[derive(Debug, Default, PartialEq)]
pub struct Items {
    /// What each gave; `null` of one that failed.
    pub values: Vec<Value>,
    pub errors: Vec<ItemError>,
    /// Of everything that was done for them.
    pub labels: Vec<Label>,
}

/// Both, each once, in their order.
pub fn joined(some: &[Label], others: &[Label]) -> Vec<Label> {
    let mut all: Vec<Label> = some.iter().chain(others).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
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

/// The same, with what is there left where it is.
enum Stood<'n> {
    Open,
    Completed(Option<&'n Value>),
    Failed(String, Option<&'n ToolError>),
}

/// What can be done now. Nothing: the run waits for what was begun, or is over.
pub fn next<'g>(workflow: &'g Workflow, nodes: &Nodes) -> Vec<Next<'g>> {
    let mut found = Vec::new();
    of_graph(graph_of(workflow), "", nodes, &mut found);
    found
}

/// How the run stands as a whole.
pub fn whole(workflow: &Workflow, nodes: &Nodes) -> Whole {
    match stood(graph_of(workflow), "", nodes) {
        Stood::Open => Whole::Open,
        Stood::Completed(output) => Whole::Completed(output.cloned().unwrap_or_default()),
        Stood::Failed(path, error) => Whole::Failed(path, error.cloned().unwrap_or_else(ToolError::cancelled)),
    }
}

fn graph_of(workflow: &Workflow) -> Graph<'_> {
    Graph { nodes: &workflow.nodes, edges: &workflow.edges }
}

fn body_of(body: &Body) -> Graph<'_> {
    Graph { nodes: &body.nodes, edges: &body.edges }
}

/// The prefix of a path, which those beside it have as well, and the id of its node.
pub fn split(path: &str) -> (&str, &str) {
    path.rfind('/').map_or(("", path), |end| path.split_at(end + 1))
}

/// The graph that a node is in and the node, through the bodies of maps.
pub fn place_of<'g>(workflow: &'g Workflow, path: &str) -> Option<(Graph<'g>, &'g Node)> {
    let mut graph = graph_of(workflow);
    let mut parts = path.split('/');
    loop {
        let id = parts.next()?;
        let node = graph.nodes.iter().find(|node| node.id == id)?;
        match (&node.kind, parts.next()) {
            (_, None) => return Some((graph, node)),
            (NodeKind::Map(map), Some(_)) => graph = body_of(&map.body),
            _ => return None,
        }
    }
}

fn of_graph<'g>(graph: Graph<'g>, prefix: &str, nodes: &Nodes, found: &mut Vec<Next<'g>>) {
    // What failed ends the graph: nothing new is begun.
    if matches!(stood(graph, prefix, nodes), Stood::Failed(..)) {
        return;
    }
    for node in graph.nodes {
        let path = format!("{prefix}{}", node.id);
        match (nodes.get(&path), &node.kind) {
            (None, NodeKind::Input) => found.push(Next::Begin { path, node }),
            (None, _) => found.extend(begun(graph, prefix, path, node, nodes)),
            (Some(stands), NodeKind::Map(config)) if stands.state == NodeState::Running => {
                of_map(config, path, node, stands, nodes, found);
            }
            (Some(_), _) => {}
        }
    }
}

/// Whether a node can begin.
fn begun<'g>(graph: Graph<'g>, prefix: &str, path: String, node: &'g Node, nodes: &Nodes) -> Option<Next<'g>> {
    let (mut edges, mut live) = (0, 0);
    for edge in graph.edges.iter().filter(|edge| edge.to.node == node.id) {
        edges += 1;
        let source = nodes.get(&format!("{prefix}{}", edge.from.node)).filter(|source| source.state.is_settled())?;
        live += usize::from(source.outputs.get(&edge.from.handle).is_some());
    }
    Some(if edges > 0 && live == 0 { Next::Skip { path, node } } else { Next::Begin { path, node } })
}

/// What a node begins with that can begin, and what that carries.
pub fn arrived(workflow: &Workflow, given: Given<'_>, nodes: &Nodes, path: &str) -> (Map<String, Value>, Vec<Label>) {
    let (mut inputs, mut labels) = (Map::new(), Vec::new());
    let Some((graph, node)) = place_of(workflow, path) else { return (inputs, labels) };
    let (prefix, _) = split(path);
    if matches!(node.kind, NodeKind::Input) {
        return begins_with(given, nodes, prefix);
    }
    for edge in graph.edges.iter().filter(|edge| edge.to.node == node.id) {
        let Some(source) = nodes.get(&format!("{prefix}{}", edge.from.node)) else { continue };
        let Some(value) = source.outputs.get(&edge.from.handle) else { continue };
        labels = joined(&labels, carried(source, &edge.from.handle));
        // Of several that lead to one place the first that is live counts, in the order in which they are written.
        if !inputs.contains_key(&edge.to.handle) {
            let value = match &edge.from.path {
                Some(path) => value.pointer(path).cloned().unwrap_or_default(),
                None => value.clone(),
            };
            inputs.insert(edge.to.handle.clone(), value);
        }
    }
    (inputs, labels)
}

/// What the graph with this prefix is begun with: the run's inputs, or an item of a map.
fn begins_with(given: Given<'_>, nodes: &Nodes, prefix: &str) -> (Map<String, Value>, Vec<Label>) {
    let of_item = prefix.strip_suffix('/').and_then(|prefix| prefix.rsplit_once('/'));
    let Some((map, index)) = of_item else {
        return (given.inputs.as_object().cloned().unwrap_or_default(), given.labels.to_vec());
    };
    let index = index.parse::<usize>().unwrap_or_default();
    let map = nodes.get(map);
    let item = map.and_then(|map| items_of(map).get(index)).cloned().unwrap_or_default();
    let values = Map::from_iter([(ITEM.to_owned(), item), (INDEX.to_owned(), index.into())]);
    (values, map.map(|map| map.labels.clone()).unwrap_or_default())
}

/// What a value that leaves a node carries.
fn carried<'n>(source: &'n WorkflowNode, handle: &str) -> &'n [Label] {
    source.output_labels.as_deref().filter(|_| handle == OUTPUT).unwrap_or(&source.labels)
}

fn items_of(map: &WorkflowNode) -> &[Value] {
    map.inputs.get(ITEMS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
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
    let (mut failed, mut open) = (false, 0);
    let mut waiting = Vec::new();
    for index in 0..items_of(stands).len() {
        let prefix = format!("{path}/{index}/");
        match stood(body, &prefix, nodes) {
            Stood::Completed(_) => {}
            Stood::Failed(..) => failed = true,
            Stood::Open => {
                let is_begun = config.body.nodes.iter().any(|node| nodes.contains_key(&format!("{prefix}{}", node.id)));
                if is_begun {
                    open += 1;
                    of_graph(body, &prefix, nodes, found);
                } else {
                    waiting.push(prefix);
                }
            }
        }
    }
    let gives_up = node.on_error == OnError::Fail && failed;
    if open == 0 && (waiting.is_empty() || gives_up) {
        found.push(Next::EndMap { path, node });
        return;
    }
    if gives_up {
        return;
    }
    let places = usize::try_from(config.max_parallel).unwrap_or(1).saturating_sub(open);
    for prefix in waiting.into_iter().take(places) {
        of_graph(body, &prefix, nodes, found);
    }
}

/// What a map gives whose items are settled.
pub fn worked_through(config: &MapConfig, path: &str, nodes: &Nodes) -> Items {
    let Some(stands) = nodes.get(path) else { return Items::default() };
    let mut done = Items { labels: labels_below(path, stands, nodes), ..Items::default() };
    for index in 0..items_of(stands).len() {
        match stood(body_of(&config.body), &format!("{path}/{index}/"), nodes) {
            Stood::Completed(output) => done.values.push(output.cloned().unwrap_or_default()),
            Stood::Failed(_, error) => {
                done.values.push(Value::Null);
                let error = error.cloned().unwrap_or_else(ToolError::cancelled);
                done.errors.push(ItemError { index, error });
            }
            // Not begun any more, behind one that failed.
            Stood::Open => {}
        }
    }
    done
}

/// What everything carries that was done for a map's items.
fn labels_below(path: &str, stands: &WorkflowNode, nodes: &Nodes) -> Vec<Label> {
    let below = format!("{path}/");
    let inside = nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
    inside.fold(stands.labels.clone(), |labels, (_, node)| joined(&labels, &node.labels))
}

fn stood<'n>(graph: Graph<'_>, prefix: &str, nodes: &'n Nodes) -> Stood<'n> {
    let mut output = None;
    let mut all = true;
    for node in graph.nodes {
        let path = format!("{prefix}{}", node.id);
        match nodes.get(&path) {
            Some(stands) if matches!(stands.state, NodeState::Failed | NodeState::Cancelled) => {
                return Stood::Failed(path, stands.error.as_ref());
            }
            Some(stands) if stands.state.is_settled() => {
                if matches!(node.kind, NodeKind::Output(_)) && stands.state == NodeState::Completed {
                    output = Some(&stands.outputs);
                }
            }
            Some(_) | None => all = false,
        }
    }
    if all { Stood::Completed(output) } else { Stood::Open }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::{ErrorCode, Timestamp, workflow};

    use super::*;

    fn stands(path: &str, kind: &str, state: NodeState, inputs: Value, outputs: Value) -> (String, WorkflowNode) {
        let error = (state == NodeState::Failed)
            .then(|| ToolError::because(ErrorCode::Timeout, "timeout", format!("{path} was too slow")));
        let node = WorkflowNode {
            path: path.to_owned(),
            kind: kind.to_owned(),
            state,
            step_id: None,
            seq: None,
            call_id: None,
            question_id: None,
            child_run_id: None,
            inputs,
            outputs,
            labels: Vec::new(),
            output_labels: None,
            error,
            started_at: Timestamp::from_millis(0),
            ended_at: None,
        };
        (path.to_owned(), node)
    }

    fn done(path: &str, outputs: Value) -> (String, WorkflowNode) {
        stands(path, "tool", NodeState::Completed, json!({}), outputs)
    }

    /// `begin PATH`, `skip PATH` or `end PATH`, and with what.
    fn steps(graph: &Workflow, inputs: &Value, nodes: &Nodes) -> Vec<(String, Value)> {
        let given = Given { inputs, labels: &[] };
        let word = |step: Next<'_>| match step {
            Next::Begin { path, .. } => (format!("begin {path}"), Value::Object(arrived(graph, given, nodes, &path).0)),
            Next::Skip { path, .. } => (format!("skip {path}"), Value::Null),
            Next::EndMap { path, node } => {
                let NodeKind::Map(config) = &node.kind else { panic!("{path} is no map") };
                let Items { values, errors, .. } = worked_through(config, &path, nodes);
                let errors: Vec<usize> = errors.iter().map(|error| error.index).collect();
                (format!("end {path}"), json!({"items": values, "errors": errors}))
            }
        };
        next(graph, nodes).into_iter().map(word).collect()
    }

    fn branching() -> Workflow {
        let tool = |id: &str| json!({"id": id, "kind": "tool", "config": {"tool": "t"}});
        let edge = |from: &str, to: &str| {
            let ((node, handle), (to_node, to_handle)) = (from.split_once('.').unwrap(), to.split_once('.').unwrap());
            json!({"from": {"node": node, "handle": handle}, "to": {"node": to_node, "handle": to_handle}})
        };
        workflow::read(json!({
            "version": 1, "name": "w",
            "nodes": [{"id": "in", "kind": "input"}, tool("a"), tool("left"), tool("right"), tool("join")],
            "edges": [edge("in.x", "a.input/x"), edge("a.output", "left.input"), edge("a.error", "right.input"),
                edge("left.output", "join.input"), edge("right.output", "join.input"), edge("right.error", "join.input/e")],
        }))
        .unwrap()
    }

    #[test]
    fn a_node_begins_when_all_that_leads_to_it_is_settled_and_is_skipped_when_all_of_it_is_dead() {
        let (graph, inputs) = (branching(), json!({"x": 1}));
        let check = |nodes: Vec<(String, WorkflowNode)>, expected: Value| {
            let steps = steps(&graph, &inputs, &nodes.into_iter().collect());
            assert_eq!(json!(steps), expected);
        };
        let start = || done("in", json!({"x": 1}));
        let ran = || done("a", json!({"output": {"y": 2}, "envelope": {}}));
        let skipped = || stands("right", "tool", NodeState::Skipped, json!({}), json!({}));
        check(vec![], json!([["begin in", {"x": 1}]]));
        check(vec![start()], json!([["begin a", {"input/x": 1}]]));
        check(vec![start(), ran()], json!([["begin left", {"input": {"y": 2}}], ["skip right", null]]));
        let running = || stands("left", "tool", NodeState::Running, json!({}), json!({}));
        check(vec![start(), ran(), skipped(), running()], json!([]));
        let left = || done("left", json!({"output": {"z": 3}}));
        check(vec![start(), ran(), skipped(), left()], json!([["begin join", {"input": {"z": 3}}]]));
        // What arrives from neither is not there, and what failed ends it all.
        let failed = || stands("left", "tool", NodeState::Failed, json!({}), json!({}));
        check(vec![start(), ran(), failed()], json!([]));
        let nodes: Nodes = [start(), ran(), skipped(), failed()].into();
        assert!(matches!(whole(&graph, &nodes), Whole::Failed(path, _) if path == "left"));
        let nodes: Nodes = [start(), ran(), skipped(), left(), done("join", json!({}))].into();
        assert_eq!(whole(&graph, &nodes), Whole::Completed(Value::Null));
    }

    #[test]
    fn labels_go_along_edges_and_nowhere_else() {
        let (graph, inputs) = (branching(), json!({"x": 1}));
        let labelled = |(path, node): (String, WorkflowNode), labels: &[Label], of_output: Option<&[Label]>| {
            let output_labels = of_output.map(<[Label]>::to_vec);
            (path, WorkflowNode { labels: labels.to_vec(), output_labels, ..node })
        };
        let check = |own: &[Label], of_output: Option<&[Label]>, of_inputs: &[Label], arrive: &[Label]| {
            let ran = done("a", json!({"output": {"y": 2}}));
            let nodes: Nodes = [done("in", json!({"x": 1})), labelled(ran, own, of_output)].into();
            assert!(next(&graph, &nodes).iter().any(|step| matches!(step, Next::Begin { path, .. } if path == "left")));
            let given = Given { inputs: &inputs, labels: of_inputs };
            assert_eq!(arrived(&graph, given, &nodes, "left").1, arrive);
        };
        let (private, both) = ([Label::Private], [Label::Untrusted, Label::Private]);
        check(&[], None, &both, &[]);
        check(&both, None, &[], &both);
        check(&both, Some(&private), &[], &private);
        let given = |labels| Given { inputs: &inputs, labels };
        assert_eq!(arrived(&graph, given(&private), &Nodes::new(), "in").1, private);
        let nodes: Nodes = [labelled(done("in", json!({"x": 1})), &private, None)].into();
        assert_eq!(arrived(&graph, given(&[]), &nodes, "a").1, private);
    }

    #[test]
    fn a_map_keeps_to_its_places_and_ends_with_every_item() {
        let map = |on_error: &str| {
            workflow::read(json!({
                "version": 1, "name": "w",
                "nodes": [{"id": "m", "kind": "map", "on_error": on_error, "config": {"max_parallel": 2, "body": {
                    "nodes": [{"id": "in", "kind": "input"},
                        {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {"v": {}}}}}],
                    "edges": [{"from": {"node": "in", "handle": "item"}, "to": {"node": "out", "handle": "v"}}]}}}],
            }))
            .unwrap()
        };
        let begun = || stands("m", "map", NodeState::Running, json!({"items": ["a", "b", "c"]}), json!({}));
        let item = |index: usize, value: &str| {
            let out = stands(&format!("m/{index}/out"), "output", NodeState::Completed, json!({}), json!({"v": value}));
            [done(&format!("m/{index}/in"), json!({"item": value, "index": index})), out]
        };
        let failing = |index: usize| {
            let out = stands(&format!("m/{index}/out"), "output", NodeState::Failed, json!({}), json!({}));
            [done(&format!("m/{index}/in"), json!({"item": "x", "index": index})), out]
        };
        let check = |on_error: &str, nodes: Vec<(String, WorkflowNode)>, expected: Value| {
            assert_eq!(json!(steps(&map(on_error), &json!({}), &nodes.into_iter().collect())), expected);
        };
        let first = json!(["begin m/0/in", {"item": "a", "index": 0}]);
        let second = json!(["begin m/1/in", {"item": "b", "index": 1}]);
        let third = json!(["begin m/2/in", {"item": "c", "index": 2}]);
        check("fail", vec![begun()], json!([first, second]));
        let all = |parts: Vec<[(String, WorkflowNode); 2]>| {
            std::iter::once(begun()).chain(parts.into_iter().flatten()).collect()
        };
        check("fail", all(vec![item(0, "a")]), json!([second, third]));
        let ended = json!([["end m", {"items": [{"v": "a"}, {"v": "b"}, {"v": "c"}], "errors": []}]]);
        check("fail", all(vec![item(0, "a"), item(1, "b"), item(2, "c")]), ended);
        // One that fails stops the rest, or is data.
        check("fail", all(vec![failing(0)]), json!([["end m", {"items": [null], "errors": [0]}]]));
        check("data", all(vec![failing(0)]), json!([second, third]));
        let ended = json!([["end m", {"items": [null, {"v": "b"}, {"v": "c"}], "errors": [0]}]]);
        check("data", all(vec![failing(0), item(1, "b"), item(2, "c")]), ended);
    }
}
