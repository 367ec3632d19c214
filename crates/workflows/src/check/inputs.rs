//! What arrives at a node: whether anything does without which it can do nothing, and what a tool says of its own input.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolgate_contracts::json::escape;
use toolgate_contracts::workflow::{Node, NodeKind};
use toolgate_expression::Text;
use toolgate_registry::finding::{nearest, shown};
use toolgate_registry::schema;

use super::Judge;
use crate::handles::{ITEMS, VALUE, place_in_input};

impl Judge<'_> {
    /// Inputs without which a node cannot do anything, and what a tool says of its own.
    pub(super) fn inputs(&mut self, node: &Node, wired: &BTreeSet<&str>, at: &str) {
        let needed = match &node.kind {
            NodeKind::Condition(_) => Some(VALUE),
            NodeKind::Map(_) => Some(ITEMS),
            _ => None,
        };
        if let Some(handle) = needed.filter(|handle| !wired.contains(handle)) {
            let message = format!("nothing arrives at `{handle}` of `{}`", node.id);
            self.error("workflow.input-missing", at, message, "lead an edge there");
        }
        if let NodeKind::Agent(config) = &node.kind
            && let Ok(prompt) = Text::parse(&config.prompt)
        {
            self.places(&prompt, wired, &node.id, &format!("{at}/config/prompt"));
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

    /// Places in a prompt that nothing arrives at: without a value there is no prompt, unless it says what to do then.
    fn places(&mut self, prompt: &Text, wired: &BTreeSet<&str>, node: &str, at: &str) {
        let every = every_place(prompt);
        let is_whole = prompt.render(&Value::Object(every.clone())).is_ok();
        for name in prompt.variables().iter().filter(|name| !wired.contains(name.as_str())) {
            let mut others = every.clone();
            others.remove(name);
            let is_needed = is_whole && prompt.render(&Value::Object(others)).is_err();
            let message = format!("nothing arrives at `{}` of `{node}`, which its prompt asks for", shown(name));
            let fix = format!("lead an edge to `{}`, or take the place out of the prompt", shown(name));
            if is_needed {
                self.error("workflow.input-missing", at, message, fix);
            } else {
                self.warn("workflow.input-missing", at, message, fix);
            }
        }
    }
}

/// A value at every place that a template asks for, as in `name` and `name.member`.
fn every_place(prompt: &Text) -> Map<String, Value> {
    let mut values = Map::new();
    for path in prompt.paths() {
        let mut parts = path.split('.').peekable();
        let mut within = &mut values;
        while let Some(part) = parts.next() {
            let place = within.entry(part).or_insert_with(|| Value::String(String::new()));
            if parts.peek().is_some() && !place.is_object() {
                *place = Value::Object(Map::new());
            }
            match place.as_object_mut() {
                Some(next) => within = next,
                None => break,
            }
        }
    }
    values
}

/// A part of a schema that refers to the whole cannot be judged by itself.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}
