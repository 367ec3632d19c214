//! What edges say: that they have two ends, that what they bring could fit, and that none leads back.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolgate_contracts::workflow::{Edge, Node, NodeKind, Source};
use toolgate_registry::finding::{nearest, shown};

use super::{Graph, Judge};
use crate::fit;
use crate::handles::{Handles, place_in_input};

impl Judge<'_> {
    pub(super) fn edge(&mut self, graph: &Graph<'_>, known: &HashMap<&str, (usize, Handles)>, edge: &Edge, at: &str) {
        let Edge { from, to } = edge;
        let mut node = |id: &str, end: &str| {
            let found = known.get(id);
            if found.is_none() {
                let message = format!("there is no node `{}`", shown(id));
                let fix = match nearest(id, known.keys().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "name a node of the same graph".to_owned(),
                };
                self.error("workflow.edge-node", format!("{at}/{end}/node"), message, fix);
            }
            found
        };
        let (source, target) = (node(&from.node, "from"), node(&to.node, "to"));
        let given = source.and_then(|(_, handles)| {
            let found = handles.output(&from.handle);
            if found.is_none() {
                let names: Vec<&str> = handles.outputs.iter().map(|handle| handle.name.as_str()).collect();
                self.no_handle(&from.node, &from.handle, "output", &names, format!("{at}/from/handle"));
            }
            found
        });
        let taken = target.and_then(|(_, handles)| {
            let found = handles.input(&to.handle);
            if found.is_none() {
                let names: Vec<&str> = handles.inputs.iter().map(|handle| handle.name.as_str()).collect();
                self.no_handle(&to.node, &to.handle, "input", &names, format!("{at}/to/handle"));
            }
            found
        });
        if from.path.as_ref().is_some_and(|path| !is_pointer(path)) {
            let message = "`path` is no JSON Pointer";
            let fix = "begin each step with `/`, as in `/items/0/name`";
            self.error("workflow.edge-path", format!("{at}/from/path"), message, fix);
            return;
        }
        if place_in_input(&to.handle).is_some_and(|place| !is_pointer(place)) {
            let fix = "write `input/NAME`, or deeper as a JSON Pointer";
            self.error("workflow.edge-path", format!("{at}/to/handle"), "the place in `input` is no JSON Pointer", fix);
            return;
        }
        let (Some(given), Some(taken), Some((source, _)), Some((target, _))) = (given, taken, source, target) else {
            return;
        };
        let given = self.given(&graph.nodes[*source], from, &given.schema);
        let taken = self.taken(&graph.nodes[*target], &to.handle, &taken.schema);
        if let Some(why) = fit::misfit(&given, &taken) {
            let message = format!("`{}.{}` never fits `{}.{}`: {why}", from.node, from.handle, to.node, to.handle);
            let fix = "choose another output, or a `path` into it";
            self.error("workflow.edge-type", at, message, fix);
        }
    }

    /// What an edge brings: what the tool says of its output, where the node's own configuration says nothing.
    fn given(&self, node: &Node, from: &Source, own: &Value) -> Value {
        let of_tool = match &node.kind {
            NodeKind::Tool(config) if from.handle == crate::handles::OUTPUT => {
                self.known(&config.tool).and_then(|tool| tool.output)
            }
            _ => None,
        };
        fit::at(of_tool.as_ref().unwrap_or(own), from.path.as_deref().unwrap_or_default())
    }

    fn taken(&self, node: &Node, handle: &str, own: &Value) -> Value {
        match (&node.kind, place_in_input(handle)) {
            (NodeKind::Tool(config), Some(place)) => {
                self.known(&config.tool).map_or(Value::Bool(true), |tool| fit::at(&tool.input, place))
            }
            _ => own.clone(),
        }
    }

    pub(super) fn known(&self, tool: &str) -> Option<crate::around::KnownTool> {
        self.around?.tool(&tool.parse().ok()?).known()
    }

    fn no_handle(&mut self, node: &str, handle: &str, what: &str, names: &[&str], at: String) {
        let message = format!("the node `{}` has no {what} `{}`", shown(node), shown(handle));
        let fix = match nearest(handle, names.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if names.is_empty() => format!("it has no {what}s"),
            None => format!("it has `{}`", names.join("`, `")),
        };
        self.error("workflow.edge-handle", at, message, fix);
    }

    /// Edges that lead back to where they came from.
    pub(super) fn circles(&mut self, graph: &Graph<'_>, known: &HashMap<&str, (usize, Handles)>) {
        let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut waits: Vec<usize> = vec![0; graph.nodes.len()];
        for edge in graph.edges {
            if let (Some((from, _)), Some((to, _))) =
                (known.get(edge.from.node.as_str()), known.get(edge.to.node.as_str()))
            {
                after.entry(*from).or_default().push(*to);
                waits[*to] += 1;
            }
        }
        let mut free: Vec<usize> = (0..waits.len()).filter(|index| waits[*index] == 0).collect();
        let mut settled = 0;
        while let Some(index) = free.pop() {
            settled += 1;
            for next in after.get(&index).into_iter().flatten() {
                waits[*next] -= 1;
                if waits[*next] == 0 {
                    free.push(*next);
                }
            }
        }
        if settled < graph.nodes.len() {
            let within: Vec<&str> = (0..waits.len())
                .filter(|index| waits[*index] > 0)
                .map(|index| graph.nodes[index].id.as_str())
                .collect();
            let message = format!("edges lead in a circle through or into `{}`", within.join("`, `"));
            let fix = "take one of the edges away; repeat something for each item with a `map`";
            self.error("workflow.cycle", format!("{}/edges", graph.at), message, fix);
        }
    }
}

fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/')) && !text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']))
}
