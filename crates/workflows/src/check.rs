//! What is wrong with a graph, what will be, and what to do: in findings, as everything that is judged here.
//!
//! Two parts. What a graph says by itself is judged without anything else, so also offline. What it says of tools and
//! agents is judged by [`Around`]. A tool that is gone, hidden or disabled is a warning: a saved graph never breaks by a
//! change of configuration. A blocked one is an error, which keeps a new revision from being saved and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use toolgate_contracts::agent_outputs::AGENT_OUTPUTS;
use toolgate_contracts::json::escape;
use toolgate_contracts::workflow::{
    AgentConfig, BODIES_DEEP_MAX, ConditionConfig, EDGES_MAX, Edge, HumanConfig, MAP_PARALLEL_MAX, NODE_ID_CHARS_MAX,
    NODES_MAX, Node, NodeKind, OnError, PinStrategy, Source, ToolConfig,
};
use toolgate_contracts::{ToolRef, Workflow};
use toolgate_expression::{Expression, Text};
use toolgate_registry::finding::{Finding, has_errors, nearest, shown, sort};
use toolgate_registry::schema;

use crate::around::{Around, ToolStanding};
use crate::fit;
use crate::handles::{ELSE, ERROR, Handles, ITEMS, VALUE, Within, handles, place_in_input};

/// Everything that is worth saying about a workflow. Without `around` nothing is said of tools and agents.
pub fn check(workflow: &Workflow, around: Option<&dyn Around>) -> Vec<Finding> {
    let mut judge = Judge { around, findings: Vec::new() };
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

    fn agent(&mut self, node: &Node, config: &AgentConfig, at: &str) {
        self.template(&config.prompt, &format!("{at}/prompt"), None);
        let mut names: HashSet<&str> = AGENT_OUTPUTS.into_iter().collect();
        if node.on_error == OnError::Data {
            names.insert(ERROR);
        }
        for (index, pin) in config.pins.iter().enumerate() {
            let at = format!("{at}/pins/{index}");
            if pin.name.is_empty() || !names.insert(&pin.name) {
                let message = format!("an output `{}` is there already", shown(&pin.name));
                let fix = format!("name it otherwise, as in `{}_result`", pin.selector.tool.replace(['.', '@'], "_"));
                self.error("workflow.pin-name", format!("{at}/name"), message, fix);
            }
            match (pin.selector.strategy, &pin.selector.call_id) {
                (PinStrategy::ByCallId, None) => {
                    let fix = "write the `call_id` of a call, or choose `latest`";
                    let message = "`by_call_id` without a `call_id` means no call";
                    self.error("workflow.pin-call", format!("{at}/selector"), message, fix);
                }
                (PinStrategy::Latest | PinStrategy::FirstSuccess, Some(_)) => {
                    let message = format!("`{}` does not look at `call_id`", pin.selector.strategy);
                    let fix = "choose `by_call_id`, or leave `call_id` out";
                    self.warn("workflow.pin-call", format!("{at}/selector/call_id"), message, fix);
                }
                (PinStrategy::ByCallId, Some(_)) | (_, None) => {}
            }
        }
        let Some(around) = self.around else { return };
        let Some(agent) = around.agent(&config.agent) else {
            let message = format!("there is no agent `{}`", shown(&config.agent));
            let fix = "list them with `toolgate agent list`; until there is one the node fails";
            self.warn("workflow.agent-missing", format!("{at}/agent"), message, fix);
            return;
        };
        for (index, tool) in config.enabled_tools.iter().flatten().enumerate() {
            self.standing(tool, &format!("{at}/enabled_tools/{index}"));
        }
        for (index, pin) in config.pins.iter().enumerate() {
            let tool = &pin.selector.tool;
            let left_out = config.enabled_tools.as_ref().is_some_and(|enabled| !names_it(enabled, tool));
            if left_out || !agent.has(tool) {
                let message = format!("the agent `{}` cannot call `{}` here", config.agent, shown(tool));
                let fix =
                    format!("assign it the tool; until then the pin gives what `on_missing` says: {}", pin.on_missing);
                self.warn("workflow.pin-tool", format!("{at}/pins/{index}/selector/tool"), message, fix);
            }
        }
    }

    fn tool(&mut self, config: &ToolConfig, at: &str) {
        if !config.input.is_object() {
            let message = "what is set of the input is not an object";
            self.error("workflow.input-value", format!("{at}/input"), message, "write members and their values");
        }
        let known = self.standing(&config.tool, &format!("{at}/tool"));
        for (index, secret) in config.secrets.iter().enumerate() {
            if known.as_ref().is_some_and(|tool| !tool.secrets.contains(secret)) {
                let message = format!("the tool declares no secret `{}`", shown(secret));
                let fix = "leave it out: a tool is given the secrets that it declares and no others";
                self.warn("workflow.secret", format!("{at}/secrets/{index}"), message, fix);
            }
        }
    }

    /// How a named tool stands, said where it is not as it should be.
    fn standing(&mut self, tool: &str, at: &str) -> Option<crate::around::KnownTool> {
        let reference: ToolRef = match tool.parse() {
            Ok(reference) => reference,
            Err(why) => {
                let why: toolgate_contracts::name::RefError = why;
                self.error("workflow.tool-name", at, why.to_string(), "name the tool as `name` or `name@version`");
                return None;
            }
        };
        let standing = self.around?.tool(&reference);
        match &standing {
            ToolStanding::Active(_) => {}
            ToolStanding::Deprecated(_, told) => {
                let message = format!("`{reference}` is deprecated{}", because(told.message.as_deref()));
                let fix = match &told.replaced_by {
                    Some(other) => format!("use `{other}`; until then it runs"),
                    None => "use another version or tool; until then it runs".to_owned(),
                };
                self.warn("workflow.tool-deprecated", at, message, fix);
            }
            ToolStanding::Blocked(_, told) => {
                let message = format!("`{reference}` is blocked{}", because(told.message.as_deref()));
                let fix = "use another version or tool; a saved graph loads and runs, and this call is `POLICY_DENIED`";
                self.error("workflow.tool-blocked", at, message, fix);
            }
            ToolStanding::Missing => {
                let message = format!("there is no tool `{reference}` here");
                let fix = "list them with `toolgate tool list`; until there is one the call is `POLICY_DENIED`";
                self.warn("workflow.tool-missing", at, message, fix);
            }
        }
        standing.known()
    }

    fn condition(&mut self, node: &Node, config: &ConditionConfig, at: &str) {
        if config.cases.is_empty() {
            let fix = "write at least one case with `name` and `when`";
            self.error("workflow.case", format!("{at}/cases"), "there are no cases", fix);
        }
        let mut names = BTreeSet::from([ELSE]);
        if node.on_error == OnError::Data {
            names.insert(ERROR);
        }
        for (index, case) in config.cases.iter().enumerate() {
            let at = format!("{at}/cases/{index}");
            if case.name.is_empty() || !names.insert(&case.name) {
                let message = format!("an output `{}` is there already", shown(&case.name));
                self.error("workflow.case", format!("{at}/name"), message, "give each case a name of its own");
            }
            match Expression::parse(&case.when) {
                Err(why) => {
                    let fix = "write a CEL expression over `value` that is true or false";
                    self.error("workflow.expression", format!("{at}/when"), why.to_string(), fix);
                }
                Ok(expression) => {
                    for function in expression.unknown_functions() {
                        let message = format!("there is no function `{}`", shown(function));
                        let fix = "use what CEL has: comparisons, `in`, `size`, `has`, `exists` and the like";
                        self.findings.push(Finding::error("workflow.expression", format!("{at}/when"), message, fix));
                    }
                }
            }
        }
    }

    fn human(&mut self, config: &HumanConfig, at: &str) {
        self.template(&config.title, &format!("{at}/title"), Some(VALUE));
        if let Some(instructions) = &config.instructions {
            self.template(instructions, &format!("{at}/instructions"), Some(VALUE));
        }
        if config
            .timeout_s
            .is_some_and(|seconds| !(1..=toolgate_contracts::input_request::QUESTION_S_MAX).contains(&seconds))
        {
            let fix = format!("choose 1 to {} s", toolgate_contracts::input_request::QUESTION_S_MAX);
            self.error("workflow.timeout", format!("{at}/timeout_s"), "`timeout_s` is out of range", fix);
        }
        self.findings.extend(schema::check(&config.schema, &format!("{at}/schema")));
    }

    fn template(&mut self, text: &str, at: &str, only: Option<&str>) {
        match Text::parse(text) {
            Err(why) => {
                let fix = "write text with places such as `{{ name }}`";
                self.error("workflow.template", at, why.to_string(), fix);
            }
            Ok(text) => {
                let other = text.variables().into_iter().find(|name| only.is_some_and(|only| name != only));
                if let Some(name) = other {
                    let message = format!("there is no `{}` here", shown(&name));
                    self.error("workflow.template", at, message, format!("use `{}`", only.unwrap_or_default()));
                }
            }
        }
    }

    fn edge(&mut self, graph: &Graph<'_>, known: &HashMap<&str, (usize, Handles)>, edge: &Edge, at: &str) {
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

    fn known(&self, tool: &str) -> Option<crate::around::KnownTool> {
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
    fn circles(&mut self, graph: &Graph<'_>, known: &HashMap<&str, (usize, Handles)>) {
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

    /// Inputs without which a node cannot do anything, and what a tool says of its own.
    fn inputs(&mut self, node: &Node, wired: &BTreeSet<&str>, at: &str) {
        let needed = match &node.kind {
            NodeKind::Condition(_) => Some(VALUE),
            NodeKind::Map(_) => Some(ITEMS),
            _ => None,
        };
        if let Some(handle) = needed.filter(|handle| !wired.contains(handle)) {
            let message = format!("nothing arrives at `{handle}` of `{}`", node.id);
            self.error("workflow.input-missing", at, message, "lead an edge there");
        }
        let NodeKind::Tool(config) = &node.kind else { return };
        let (Some(tool), Some(preset)) = (self.known(&config.tool), config.input.as_object()) else { return };
        let members: BTreeSet<String> = wired
            .iter()
            .filter_map(|handle| place_in_input(handle))
            .filter_map(|place| place.split('/').nth(1))
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect();
        let whole = wired.contains(crate::handles::INPUT);
        let properties = tool.input.get("properties").and_then(Value::as_object);
        let closed = tool.input.get("additionalProperties") == Some(&Value::Bool(false));
        for name in tool.input.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            let has_default = properties.and_then(|all| all.get(name)).is_some_and(|one| one.get("default").is_some());
            if !whole && !has_default && !preset.contains_key(name) && !members.contains(name) {
                let message = format!("`{}` needs `{name}`", config.tool);
                let fix = format!("set it in `input`, or lead an edge to `input/{}`", escape(name));
                self.error("workflow.input-missing", format!("{at}/config/input"), message, fix);
            }
        }
        for name in preset
            .keys()
            .chain(&members)
            .filter(|name| closed && !properties.is_some_and(|all| all.contains_key(*name)))
        {
            let message = format!("`{}` takes no `{}`", config.tool, shown(name));
            let fix = match nearest(name, properties.into_iter().flatten().map(|(name, _)| name.as_str())) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "leave it out".to_owned(),
            };
            self.error("workflow.input-unknown", format!("{at}/config/input/{}", escape(name)), message, fix);
        }
        for (name, value) in preset {
            let Some(schema) = properties.and_then(|all| all.get(name)).filter(|schema| !refers(schema)) else {
                continue;
            };
            if members.contains(name) {
                continue;
            }
            let Ok(validator) = schema::Validator::new(schema) else { continue };
            if let Some(violation) = validator.validate(value).into_iter().next() {
                let at = format!("{at}/config/input/{}{}", escape(name), violation.pointer);
                self.error("workflow.input-value", at, violation.message, "correct the value that is set");
            }
        }
    }
}

/// A part of a schema that refers to the whole cannot be judged by itself.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
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

fn because(message: Option<&str>) -> String {
    message.map(|message| format!(": {}", shown(message))).unwrap_or_default()
}

/// Whether a list of `name` or `name@version` names a tool that is named in either way.
fn names_it(list: &[String], tool: &str) -> bool {
    let bare = |name: &str| toolgate_contracts::FoldedName::of(name.split('@').next().unwrap_or(name));
    list.iter().any(|one| bare(one) == bare(tool))
}

fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/')) && !text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']))
}
