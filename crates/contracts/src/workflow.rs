//! Workflows: graphs of nodes whose outputs are other nodes' inputs, as they are written, stored and exchanged.
//!
//! A node's kind holds its configuration and nothing else, so that what a node looks like never depends on a tool or an
//! agent. Deliberately absent: what is wrong with a graph, and running one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::agent::Limits;
use crate::definition::words;
use crate::json::{self, Error};
use crate::name::Slug;

/// Of a workflow as JSON.
pub const WORKFLOW_BYTES_MAX: usize = 256 * 1024;
/// In a workflow with all its bodies.
pub const NODES_MAX: usize = 500;
pub const EDGES_MAX: usize = 2000;
pub const NODE_ID_CHARS_MAX: usize = 64;
/// Bodies within bodies.
pub const BODIES_DEEP_MAX: usize = 4;
pub const MAP_PARALLEL_MAX: u32 = 100;
pub const MAP_PARALLEL_DEFAULT: u32 = 8;

words! {
    /// `fail`: what fails ends the run. `data`: the error is an output like others.
    OnError { Fail = "fail", Data = "data" }
}
words! {
    /// What becomes of a question that nobody answered in time.
    OnTimeout { Fail = "fail", Null = "null" }
}
words! {
    /// Which of several calls a pin takes: the last, the first that succeeded, or one by its `call_id`.
    PinStrategy { Latest = "latest", FirstSuccess = "first_success", ByCallId = "by_call_id" }
}
words! {
    /// What a pin gives without such a call: `null`, an error that fails the node, or what the last run had.
    OnMissing { Null = "null", Error = "error", StaleLastSuccess = "stale_last_success" }
}
words! {
    KindOfNode {
        Input = "input", Agent = "agent", Tool = "tool", Condition = "condition",
        Map = "map", Human = "human", Output = "output"
    }
}

words! {
    /// How a node of a run stands. One that has not begun stands nowhere; one that the end of its run came before is
    /// cancelled.
    NodeState {
        Running = "running", Waiting = "waiting", Completed = "completed", Failed = "failed", Skipped = "skipped",
        Cancelled = "cancelled"
    }
}

impl NodeState {
    /// Whether it is decided what it gives.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled => true,
            Self::Running | Self::Waiting => false,
        }
    }
}

/// A graph as it is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    pub version: FormatVersion,
    #[schema(value_type = String)]
    pub name: Slug,
    /// Counted by the server; what a file says is not read.
    #[serde(default)]
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What a run is begun with: a JSON Schema, an object.
    #[serde(default = "no_inputs")]
    #[schema(value_type = Object)]
    pub inputs: Value,
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub edges: Vec<Edge>,
}

/// What a graph asks of others, by its nodes: the tools that they name, and whether agents are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowUses {
    /// As they are written, each once.
    pub tools: Vec<String>,
    pub agents: bool,
}

impl Workflow {
    /// Of all its nodes, those in bodies too.
    pub fn uses(&self) -> WorkflowUses {
        fn look(nodes: &[Node], uses: &mut WorkflowUses) {
            for node in nodes {
                match &node.kind {
                    NodeKind::Tool(config) if !uses.tools.contains(&config.tool) => {
                        uses.tools.push(config.tool.clone());
                    }
                    NodeKind::Agent(_) => uses.agents = true,
                    NodeKind::Map(map) => look(&map.body.nodes, uses),
                    NodeKind::Tool(_)
                    | NodeKind::Input
                    | NodeKind::Condition(_)
                    | NodeKind::Human(_)
                    | NodeKind::Output(_) => {}
                }
            }
        }
        let mut uses = WorkflowUses::default();
        look(&self.nodes, &mut uses);
        uses
    }

    /// What a run of it gives: the schema of its `output`; any object where there is none.
    pub fn gives(&self) -> Value {
        let output = self.nodes.iter().find_map(|node| match &node.kind {
            NodeKind::Output(config) => Some(config.schema.clone()),
            _ => None,
        });
        output.unwrap_or_else(|| json!({"type": "object"}))
    }
}

/// The form in which a workflow is written. There is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct FormatVersion;

impl TryFrom<u32> for FormatVersion {
    type Error = &'static str;

    fn try_from(version: u32) -> Result<Self, Self::Error> {
        if version == 1 { Ok(Self) } else { Err("this is not version 1, the only one there is") }
    }
}

impl From<FormatVersion> for u32 {
    fn from(_: FormatVersion) -> Self {
        1
    }
}

impl utoipa::PartialSchema for FormatVersion {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Integer)
            .enum_values(Some([1]))
            .into()
    }
}

impl utoipa::ToSchema for FormatVersion {}

fn no_inputs() -> Value {
    json!({"type": "object", "properties": {}})
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Node {
    /// A letter, then letters, digits, `_` and `-`; no other node beside it has it.
    pub id: String,
    pub title: Option<String>,
    pub kind: NodeKind,
    pub limits: Option<Limits>,
    pub on_error: OnError,
}

/// What a node does, with the configuration of that kind and no other.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// What the workflow is begun with; within a body, `item` and `index`.
    Input,
    Agent(AgentConfig),
    Tool(ToolConfig),
    Condition(ConditionConfig),
    Map(MapConfig),
    Human(HumanConfig),
    Output(OutputConfig),
}

impl NodeKind {
    pub const fn word(&self) -> KindOfNode {
        match self {
            Self::Input => KindOfNode::Input,
            Self::Agent(_) => KindOfNode::Agent,
            Self::Tool(_) => KindOfNode::Tool,
            Self::Condition(_) => KindOfNode::Condition,
            Self::Map(_) => KindOfNode::Map,
            Self::Human(_) => KindOfNode::Human,
            Self::Output(_) => KindOfNode::Output,
        }
    }
}

/// A hosted agent that is given a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// By name.
    pub agent: String,
    /// A template; each name that it asks for is an input of the node.
    pub prompt: String,
    /// The only tools of the agent's that it may use here; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedHandle>,
}

/// An output of an agent's node that a person named. It stays whatever becomes of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, from = "WrittenPin")]
pub struct PinnedHandle {
    /// `<tool>_result` where nobody says.
    #[schema(required = false)]
    pub name: String,
    pub selector: PinSelector,
    #[schema(required = false)]
    pub on_missing: OnMissing,
}

/// A pin as somebody writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPin {
    #[serde(default)]
    name: Option<String>,
    selector: PinSelector,
    #[serde(default = "give_null")]
    on_missing: OnMissing,
}

impl From<WrittenPin> for PinnedHandle {
    fn from(written: WrittenPin) -> Self {
        let WrittenPin { name, selector, on_missing } = written;
        let name = name.unwrap_or_else(|| Self::default_name(&selector.tool));
        Self { name, selector, on_missing }
    }
}

impl PinnedHandle {
    /// What a pin of a tool is called: `web_search@1.0.0` gives `web_search_result`.
    pub fn default_name(tool: &str) -> String {
        let bare = tool.split('@').next().unwrap_or(tool);
        format!("{}_result", bare.replace('.', "_"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinSelector {
    pub tool: String,
    #[serde(default = "latest")]
    pub strategy: PinStrategy,
    /// For `by_call_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

const fn give_null() -> OnMissing {
    OnMissing::Null
}

const fn latest() -> PinStrategy {
    PinStrategy::Latest
}

/// One call of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolConfig {
    /// `name` or `name@version`.
    pub tool: String,
    /// What is set beforehand; what arrives at `input` is laid over it, member by member.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schema(value_type = Object)]
    pub input: Value,
    /// Names of secrets that the call needs; never values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

fn is_nothing(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// The first case that holds is taken, else `else`; the others are dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionConfig {
    pub cases: Vec<Case>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// A CEL expression over `value`.
    pub when: String,
}

/// The body once for each item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapConfig {
    pub body: Body,
    /// Items at the same time.
    #[serde(default = "at_once")]
    pub max_parallel: u32,
}

const fn at_once() -> u32 {
    MAP_PARALLEL_DEFAULT
}

/// What happens to each item: a graph with an `input` (`item`, `index`) and an `output` of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Body {
    #[schema(no_recursion)]
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub edges: Vec<Edge>,
}

/// A question to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HumanConfig {
    /// A template over `value`, as `instructions`.
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What an answer must match.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Whole seconds; a day without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
    #[serde(default = "give_up")]
    pub on_timeout: OnTimeout,
}

const fn give_up() -> OnTimeout {
    OnTimeout::Fail
}

/// What the workflow, or its body, gives back: one input of the node for each property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    #[schema(value_type = Object)]
    pub schema: Value,
}

/// From an output of one node to an input of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    pub from: Source,
    pub to: Target,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = EdgeSource)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub node: String,
    pub handle: String,
    /// A JSON Pointer into what the handle gives; what is not there is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = EdgeTarget)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub node: String,
    pub handle: String,
}

/// A node as it is written: its kind is a word beside its configuration.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    kind: KindOfNode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    config: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    #[serde(default = "fails", skip_serializing_if = "is_fail")]
    on_error: OnError,
}

const fn fails() -> OnError {
    OnError::Fail
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_fail(on_error: &OnError) -> bool {
    *on_error == OnError::Fail
}

fn kind_of(word: KindOfNode, config: Value) -> Result<NodeKind, Error> {
    Ok(match word {
        KindOfNode::Input => {
            if !is_nothing(&config) {
                let message = "an `input` has no configuration: its outputs are the properties of `inputs`".to_owned();
                return Err(Error { pointer: String::new(), message });
            }
            NodeKind::Input
        }
        KindOfNode::Agent => NodeKind::Agent(json::decode(config)?),
        KindOfNode::Tool => NodeKind::Tool(json::decode(config)?),
        KindOfNode::Condition => NodeKind::Condition(json::decode(config)?),
        KindOfNode::Map => NodeKind::Map(json::decode(config)?),
        KindOfNode::Human => NodeKind::Human(json::decode(config)?),
        KindOfNode::Output => NodeKind::Output(json::decode(config)?),
    })
}

impl TryFrom<Written> for Node {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { id, kind, title, config, limits, on_error } = written;
        let kind = kind_of(kind, config).map_err(|Error { pointer, message }| format!("config{pointer}: {message}"))?;
        Ok(Self { id, title, kind, limits, on_error })
    }
}

impl From<Node> for Written {
    fn from(node: Node) -> Self {
        let Node { id, title, kind, limits, on_error } = node;
        let word = kind.word();
        let config = match kind {
            NodeKind::Input => Ok(nothing()),
            NodeKind::Agent(config) => serde_json::to_value(config),
            NodeKind::Tool(config) => serde_json::to_value(config),
            NodeKind::Condition(config) => serde_json::to_value(config),
            NodeKind::Map(config) => serde_json::to_value(config),
            NodeKind::Human(config) => serde_json::to_value(config),
            NodeKind::Output(config) => serde_json::to_value(config),
        };
        Self { id, kind: word, title, config: config.unwrap_or_default(), limits, on_error }
    }
}

/// Reads a workflow, and says where in the whole of it something is wrong.
pub fn read(value: Value) -> Result<Workflow, Error> {
    place_configs(&value, "")?;
    json::decode(value)
}

/// A configuration is read when its kind is known; told here, before, is where in it something is wrong.
fn place_configs(graph: &Value, at: &str) -> Result<(), Error> {
    for (index, node) in graph.get("nodes").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = format!("{at}/nodes/{index}");
        let word = node.get("kind").cloned().and_then(|word| json::decode::<KindOfNode>(word).ok());
        let (Some(word), config) = (word, node.get("config")) else { continue };
        if let Some(body) = config.and_then(|config| config.get("body")).filter(|_| word == KindOfNode::Map) {
            place_configs(body, &format!("{at}/config/body"))?;
        }
        kind_of(word, config.cloned().unwrap_or_else(nothing)).map_err(|Error { pointer, message }| {
            let member = if config.is_some() { "/config" } else { "" };
            Error { pointer: format!("{at}{member}{pointer}"), message }
        })?;
    }
    Ok(())
}

/// By hand: a kind stands beside its configuration, which the derive of an enum cannot say of a struct's members.
impl utoipa::PartialSchema for Node {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Ref, Type};
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let of = |kind: KindOfNode, config: Option<&str>| {
            let node = ObjectBuilder::new()
                .schema_type(Type::Object)
                .property("id", text().pattern(Some(r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")))
                .property("kind", text().enum_values(Some([kind.as_str()])))
                .property("title", text())
                .property("limits", Ref::from_schema_name("Limits"))
                .property("on_error", Ref::from_schema_name("OnError"))
                .required("id")
                .required("kind")
                .additional_properties(Some(AdditionalProperties::FreeForm(false)));
            match config {
                Some(name) => node.property("config", Ref::from_schema_name(name)).required("config"),
                None => node,
            }
        };
        OneOfBuilder::new()
            .description(Some("One thing that happens."))
            .item(of(KindOfNode::Input, None))
            .item(of(KindOfNode::Agent, Some("AgentConfig")))
            .item(of(KindOfNode::Tool, Some("ToolConfig")))
            .item(of(KindOfNode::Condition, Some("ConditionConfig")))
            .item(of(KindOfNode::Map, Some("MapConfig")))
            .item(of(KindOfNode::Human, Some("HumanConfig")))
            .item(of(KindOfNode::Output, Some("OutputConfig")))
            .into()
    }
}

impl utoipa::ToSchema for Node {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
        fn with<T: ToSchema>(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
            schemas.push((T::name().into_owned(), T::schema()));
            T::schemas(schemas);
        }
        with::<AgentConfig>(schemas);
        with::<ToolConfig>(schemas);
        with::<ConditionConfig>(schemas);
        // Its body's nodes are these again.
        schemas.push((MapConfig::name().into_owned(), <MapConfig as utoipa::PartialSchema>::schema()));
        schemas.push((Body::name().into_owned(), <Body as utoipa::PartialSchema>::schema()));
        with::<Edge>(schemas);
        with::<HumanConfig>(schemas);
        with::<OutputConfig>(schemas);
        with::<Limits>(schemas);
        with::<OnError>(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Value {
        json!({
            "version": 1, "name": "triage", "revision": 3,
            "inputs": {"type": "object", "properties": {"text": {"type": "string"}}},
            "nodes": [
                {"id": "in", "kind": "input"},
                {"id": "look", "kind": "agent", "title": "Look it up", "on_error": "data",
                 "limits": {"max_tool_calls": 3},
                 "config": {"agent": "helper", "prompt": "Find {{ text }}", "enabled_tools": ["web_search"], "pins": [
                    {"name": "web_search_result", "selector": {"tool": "web_search", "strategy": "latest"}, "on_missing": "null"},
                    {"name": "that", "selector": {"tool": "web_search", "strategy": "by_call_id", "call_id": "c_1"},
                     "on_missing": "stale_last_success"}]}},
                {"id": "each", "kind": "map", "config": {"max_parallel": 2, "body": {
                    "nodes": [{"id": "in", "kind": "input"},
                              {"id": "say", "kind": "tool", "config": {"tool": "echo@1.0.0", "input": {"a": 1}}}],
                    "edges": [{"from": {"node": "in", "handle": "item"}, "to": {"node": "say", "handle": "input/text"}}]}}},
                {"id": "choose", "kind": "condition", "config": {"cases": [{"name": "none", "when": "value == null"}]}},
                {"id": "ask", "kind": "human",
                 "config": {"title": "Which?", "schema": {"type": "object"}, "timeout_s": 60, "on_timeout": "null"}},
                {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {"a": {}}}}},
            ],
            "edges": [{"from": {"node": "look", "handle": "web_search_result", "path": "/hits"},
                       "to": {"node": "choose", "handle": "value"}}],
        })
    }

    #[test]
    fn a_workflow_reads_back_as_it_is_written() {
        let read = read(graph()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), graph());
        assert!(
            matches!(&read.nodes[1].kind, NodeKind::Agent(agent) if agent.pins[1].on_missing == OnMissing::StaleLastSuccess)
        );
    }

    #[test]
    fn the_defaults_of_a_pin_are_the_seed_s() {
        let pin: PinnedHandle = json::decode(json!({"name": "a", "selector": {"tool": "t"}})).unwrap();
        let text = r#"{"name":"a","selector":{"tool":"t","strategy":"latest"},"on_missing":"null"}"#;
        assert_eq!(serde_json::to_string(&pin).unwrap(), text);
        let pin: PinnedHandle = json::decode(json!({"selector": {"tool": "notes.add@1.0.0"}})).unwrap();
        assert_eq!(pin.name, "notes_add_result");
    }

    #[test]
    fn what_a_workflow_asks_of_others_is_found_in_bodies_too() {
        let read = read(graph()).unwrap();
        assert_eq!(read.uses(), WorkflowUses { tools: vec!["echo@1.0.0".to_owned()], agents: true });
        assert_eq!(read.gives(), json!({"type": "object", "properties": {"a": {}}}));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let check = |pointer: &str, value: Value, at: &str, told: &str| {
            let mut graph = graph();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            graph.pointer_mut(parent).unwrap()[member] = value;
            let error = read(graph).unwrap_err();
            assert_eq!(error.pointer, at, "{}", error.message);
            assert!(error.message.contains(told), "{}", error.message);
        };
        check("/version", json!(2), "/version", "not version 1");
        check("/colour", json!("red"), "/colour", "colour");
        check("/nodes/0/config", json!({"a": 1}), "/nodes/0/config", "no configuration");
        check("/nodes/1/config/colour", json!(1), "/nodes/1/config/colour", "colour");
        check("/nodes/1/config/pins", json!([{"name": "a"}]), "/nodes/1/config/pins/0", "selector");
        let pins = json!([{"name": "a", "selector": {"tool": "t"}, "on_missing": null}]);
        check("/nodes/1/config/pins", pins, "/nodes/1/config/pins/0/on_missing", "");
        check(
            "/nodes/2/config/body/nodes",
            json!([{"id": "a", "kind": "tool", "config": {}}]),
            "/nodes/2/config/body/nodes/0/config",
            "tool",
        );
        check("/nodes/0/kind", json!("loop"), "/nodes/0/kind", "loop");
    }
}
