//! What goes into a node and what comes out of it.
//!
//! INVARIANT: a function of the node's own configuration alone, and of the graph that it stands in. Nothing here can ask
//! for a tool or an agent, so no change of either makes a handle appear or vanish.

use serde_json::{Map, Value, json};
use toolgate_contracts::agent_outputs::AGENT_OUTPUTS;
use toolgate_contracts::workflow::{HumanConfig, Node, NodeKind, OnError, OnTimeout};
use toolgate_expression::Text;

/// Of what a graph is the whole.
#[derive(Clone, Copy, Debug)]
pub enum Within<'a> {
    /// A workflow that is begun with values of this schema.
    Workflow { inputs: &'a Value },
    /// What a `map` does to each item.
    Body,
}

/// A place where edges begin or end.
#[derive(Clone, Debug, PartialEq)]
pub struct Handle {
    pub name: String,
    /// What the node's own configuration says of the values; `true` where it says nothing.
    pub schema: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handles {
    pub inputs: Vec<Handle>,
    pub outputs: Vec<Handle>,
}

/// The whole input of a tool. Followed by a JSON Pointer it is a place within.
pub const INPUT: &str = "input";
pub const OUTPUT: &str = "output";
pub const ERROR: &str = "error";
pub const ENVELOPE: &str = "envelope";
pub const VALUE: &str = "value";
pub const ITEMS: &str = "items";
pub const ERRORS: &str = "errors";
pub const ITEM: &str = "item";
pub const INDEX: &str = "index";
pub const ANSWER: &str = "answer";
pub const ELSE: &str = "else";

impl Handles {
    pub fn output(&self, name: &str) -> Option<&Handle> {
        self.outputs.iter().find(|handle| handle.name == name)
    }

    /// An input by its name; within a tool's `input`, any place of it.
    pub fn input(&self, name: &str) -> Option<&Handle> {
        let whole = place_in_input(name).map_or(name, |_| INPUT);
        self.inputs.iter().find(|handle| handle.name == whole)
    }
}

/// The JSON Pointer of `input/…`.
pub fn place_in_input(handle: &str) -> Option<&str> {
    handle.strip_prefix(INPUT).filter(|rest| rest.starts_with('/'))
}

fn any(name: &str) -> Handle {
    of(name, Value::Bool(true))
}

fn of(name: &str, schema: Value) -> Handle {
    Handle { name: name.to_owned(), schema }
}

fn properties(schema: &Value) -> Vec<Handle> {
    let members = schema.get("properties").and_then(Value::as_object);
    members.into_iter().flatten().map(|(name, schema)| of(name, schema.clone())).collect()
}

fn error() -> Handle {
    of(ERROR, json!({"type": "object", "properties": {"code": {"type": "string"}, "message": {"type": "string"}}}))
}

/// What a node takes and gives.
pub fn handles(node: &Node, within: Within<'_>) -> Handles {
    let (inputs, mut outputs) = match &node.kind {
        NodeKind::Input => {
            let outputs = match within {
                Within::Workflow { inputs } => properties(inputs),
                Within::Body => vec![any(ITEM), of(INDEX, json!({"type": "integer"}))],
            };
            (Vec::new(), outputs)
        }
        NodeKind::Agent(config) => {
            let names = Text::parse(&config.prompt).map(|text| text.variables()).unwrap_or_default();
            let pins = config.pins.iter().map(|pin| any(&pin.name));
            (names.iter().map(|name| any(name)).collect(), agent_outputs().into_iter().chain(pins).collect())
        }
        NodeKind::Tool(_) => {
            let envelope = of(ENVELOPE, json!({"type": "object"}));
            (vec![of(INPUT, json!({"type": "object"}))], vec![any(OUTPUT), error(), envelope])
        }
        NodeKind::Condition(config) => {
            let cases = config.cases.iter().map(|case| any(&case.name)).chain([any(ELSE)]);
            (vec![any(VALUE)], cases.collect())
        }
        NodeKind::Map(_) => {
            let list = json!({"type": "array"});
            (vec![of(ITEMS, list.clone())], vec![of(ITEMS, list.clone()), of(ERRORS, list)])
        }
        NodeKind::Human(config) => (vec![any(VALUE)], vec![of(ANSWER, answer(config))]),
        NodeKind::Output(config) => (properties(&config.schema), Vec::new()),
    };
    if node.on_error == OnError::Data && !outputs.iter().any(|handle| handle.name == ERROR) && can_fail(&node.kind) {
        outputs.push(error());
    }
    Handles { inputs, outputs }
}

/// Whether there is an error that could be an output.
fn can_fail(kind: &NodeKind) -> bool {
    match kind {
        NodeKind::Input | NodeKind::Output(_) | NodeKind::Map(_) => false,
        NodeKind::Agent(_) | NodeKind::Tool(_) | NodeKind::Condition(_) | NodeKind::Human(_) => true,
    }
}

fn answer(config: &HumanConfig) -> Value {
    match config.on_timeout {
        OnTimeout::Fail => config.schema.clone(),
        OnTimeout::Null => json!({"anyOf": [config.schema, {"type": "null"}]}),
    }
}

fn agent_outputs() -> Vec<Handle> {
    let schema = |name: &str| match name {
        "response" | "traces_url" => json!({"type": "string"}),
        "tool_order" => json!({"type": "array", "items": {"type": "string"}}),
        _ => Value::Object(Map::from_iter([("type".to_owned(), "object".into())])),
    };
    AGENT_OUTPUTS.iter().map(|name| of(name, schema(name))).collect()
}
