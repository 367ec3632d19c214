//! What is wrong with a graph, what will be, and what to do: in findings, as everything that is judged here.
//!
//! Two parts. What a graph says by itself is judged without anything else, so also offline. What it says of tools and
//! agents is judged by [`Around`]. A tool that is gone, hidden or disabled is a warning: a saved graph never breaks by a
//! change of configuration. A blocked one is an error, which keeps a new revision from being saved and nothing else.

mod edges;
mod inputs;
mod nodes;

use std::collections::{BTreeSet, HashMap};

use toolgate_contracts::Workflow;
use toolgate_contracts::workflow::{
    BODIES_DEEP_MAX, EDGES_MAX, Edge, MAP_PARALLEL_MAX, NODE_ID_CHARS_MAX, NODES_MAX, Node, NodeKind,
};
use toolgate_registry::finding::{Finding, has_errors, shown, sort};
use toolgate_registry::schema;

use crate::around::Around;
use crate::handles::{Handles, Within, handles};

/// Everything that is worth saying about a workflow. Without `around` nothing is said of tools and agents.
pub fn check(workflow: &Workflow, around: Option<&dyn Around>) -> Vec<Finding> {
    let mut judge = Judge { workflow: workflow.name.as_str(), around, findings: Vec::new() };
    judge.sizes(&workflow.nodes, &workflow.edges, "", 0);
    judge.findings.extend(schema::check(&workflow.inputs, "/inputs"));
    if judge.findings.is_empty() || !has_errors(&judge.findings) {
        let graph = Graph {
            nodes: &workflow.nodes,
            edges: &workflow.edges,
            within: Within::Workflow { inputs: &workflow.inputs },
            at: String::new(),
        };
        judge.graph(&graph);
    }
    if around.is_none() && uses_others(&workflow.nodes) {
        let message = "tools and agents cannot be looked up offline";
        let fix = "check it against a server or a data folder: `toolgate workflow check`";
        judge.findings.push(Finding::note("workflow.offline", "", message, fix));
    }
    sort(&mut judge.findings);
    judge.findings
}

fn uses_others(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.kind {
        NodeKind::Agent(_) | NodeKind::Tool(_) => true,
        NodeKind::Map(map) => uses_others(&map.body.nodes),
        NodeKind::Input | NodeKind::Condition(_) | NodeKind::Human(_) | NodeKind::Output(_) => false,
    })
}

/// One graph: a workflow, or a body in it.
struct Graph<'a> {
    nodes: &'a [Node],
    edges: &'a [Edge],
    within: Within<'a>,
    at: String,
}

struct Judge<'a> {
    workflow: &'a str,
    around: Option<&'a dyn Around>,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn error(&mut self, code: &'static str, at: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding::error(code, at, message, fix));
    }

    fn warn(&mut self, code: &'static str, at: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding::warning(code, at, message, fix));
    }

    /// Counts before anything else looks at each.
    fn sizes(&mut self, nodes: &[Node], edges: &[Edge], at: &str, deep: usize) {
        let (all_nodes, all_edges) = counted(nodes, edges);
        if deep == 0 && (all_nodes > NODES_MAX || all_edges > EDGES_MAX) {
            let message = format!("the workflow has {all_nodes} nodes and {all_edges} edges");
            let fix = format!("use at most {NODES_MAX} nodes and {EDGES_MAX} edges; publish parts as tools");
            self.error("workflow.size", "/nodes", message, fix);
        }
        if nodes.is_empty() {
            self.error("workflow.size", format!("{at}/nodes"), "there are no nodes", "add one of kind `tool`");
        }
        for (index, node) in nodes.iter().enumerate() {
            let NodeKind::Map(map) = &node.kind else { continue };
            let at = format!("{at}/nodes/{index}/config/body");
            if deep + 1 > BODIES_DEEP_MAX {
                let message = format!("bodies stand more than {BODIES_DEEP_MAX} deep within each other");
                self.error("workflow.size", at, message, "publish the inner part as a tool");
            } else {
                self.sizes(&map.body.nodes, &map.body.edges, &at, deep + 1);
            }
        }
    }

    fn graph(&mut self, graph: &Graph<'_>) {
        let mut known: HashMap<&str, (usize, Handles)> = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let at = format!("{}/nodes/{index}", graph.at);
            self.id(node, &at, known.contains_key(node.id.as_str()));
            known.entry(&node.id).or_insert_with(|| (index, handles(node, graph.within)));
            self.node(node, &at);
        }
        self.ends(graph);
        for (index, edge) in graph.edges.iter().enumerate() {
            self.edge(graph, &known, edge, &format!("{}/edges/{index}", graph.at));
        }
        self.circles(graph, &known);
        for (index, node) in graph.nodes.iter().enumerate() {
            let wired: BTreeSet<&str> =
                graph.edges.iter().filter(|edge| edge.to.node == node.id).map(|edge| edge.to.handle.as_str()).collect();
            self.inputs(node, &wired, &format!("{}/nodes/{index}", graph.at));
        }
    }

    fn id(&mut self, node: &Node, at: &str, taken: bool) {
        let legal = node.id.len() <= NODE_ID_CHARS_MAX
            && node.id.starts_with(|first: char| first.is_ascii_alphabetic())
            && node.id.chars().all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-');
        if !legal {
            let message = format!("`{}` is not the id of a node", shown(&node.id));
            let fix = format!("use a letter, then letters, digits, `_` and `-`, {NODE_ID_CHARS_MAX} at most");
            self.error("workflow.node-id", format!("{at}/id"), message, fix);
        } else if taken {
            let message = format!("there is another node `{}`", node.id);
            self.error("workflow.node-id", format!("{at}/id"), message, "give each node an id of its own");
        }
    }

    fn node(&mut self, node: &Node, at: &str) {
        self.limits(node, &format!("{at}/limits"));
        let at = format!("{at}/config");
        match &node.kind {
            NodeKind::Input => {}
            NodeKind::Agent(config) => self.agent(node, config, &at),
            NodeKind::Tool(config) => self.tool(config, &at),
            NodeKind::Condition(config) => self.condition(node, config, &at),
            NodeKind::Map(config) => {
                if config.max_parallel == 0 || config.max_parallel > MAP_PARALLEL_MAX {
                    let message = format!("`max_parallel` is {}", config.max_parallel);
                    let fix = format!("choose 1 to {MAP_PARALLEL_MAX}");
                    self.error("workflow.parallel", format!("{at}/max_parallel"), message, fix);
                }
                let at = format!("{at}/body");
                let body = &config.body;
                self.graph(&Graph { nodes: &body.nodes, edges: &body.edges, within: Within::Body, at });
            }
            NodeKind::Human(config) => self.human(config, &at),
            NodeKind::Output(config) => {
                self.findings.extend(schema::check(&config.schema, &format!("{at}/schema")));
            }
        }
    }

    /// A graph begins in one place and ends in one.
    fn ends(&mut self, graph: &Graph<'_>) {
        let of = |wanted: fn(&NodeKind) -> bool| {
            graph.nodes.iter().enumerate().filter(move |(_, node)| wanted(&node.kind)).map(|(index, _)| index)
        };
        for index in of(|kind| matches!(kind, NodeKind::Input)).skip(1) {
            let at = format!("{}/nodes/{index}", graph.at);
            self.error("workflow.input-node", at, "there is a second `input`", "use the first; edges may begin there");
        }
        let mut outputs = of(|kind| matches!(kind, NodeKind::Output(_)));
        let first = outputs.next();
        for index in outputs {
            let at = format!("{}/nodes/{index}", graph.at);
            let fix = "give the first one more properties; what was not reached is left out";
            self.error("workflow.output-node", at, "there is a second `output`", fix);
        }
        if first.is_none() {
            let at = format!("{}/nodes", graph.at);
            let fix = "add a node of kind `output` with the schema of what it gives";
            match graph.within {
                Within::Body => self.error("workflow.output-node", at, "the body gives nothing back", fix),
                Within::Workflow { .. } => {
                    self.warn("workflow.output-node", at, "the workflow gives nothing back", fix);
                }
            }
        }
    }
}

fn counted(nodes: &[Node], edges: &[Edge]) -> (usize, usize) {
    let (mut all_nodes, mut all_edges) = (nodes.len(), edges.len());
    for node in nodes {
        if let NodeKind::Map(map) = &node.kind {
            let (nodes, edges) = counted(&map.body.nodes, &map.body.edges);
            all_nodes += nodes;
            all_edges += edges;
        }
    }
    (all_nodes, all_edges)
}
