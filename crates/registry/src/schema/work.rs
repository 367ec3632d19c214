//! How much work it is to judge a value by a schema, counted before the work is done.
//!
//! The library judges without a limit, so the number of its steps is foreseen by walking schema and value
//! together, without judging anything: every alternative is taken to be tried on every value it could meet.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::reference::Graph;
use super::walk::{Place, Step};

/// Text is counted in pieces of this many bytes.
const PIECE_BYTES: usize = 64;
/// Comparing each item with others takes so many steps per item.
const UNIQUE_STEPS: u64 = 16;

/// What is left for judging values; one may be shared by several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub left: u64,
}

impl Budget {
    pub(crate) const fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// `None` once there is nothing left.
    fn spend(&mut self, steps: u64) -> Option<()> {
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            Some(())
        } else {
            self.left = 0;
            None
        }
    }
}

/// A schema reduced to who judges what.
#[derive(Debug)]
pub(super) struct Work {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// Steps for any value.
    own: u64,
    /// What an error of this schema copies of it.
    literals: u64,
    /// Reads the whole of a text.
    reads_text: bool,
    unique: bool,
    /// Judges of the same value.
    same: Vec<usize>,
    members: HashMap<String, usize>,
    each_member: Vec<usize>,
    /// Only of members that are not listed.
    other_members: Vec<usize>,
    prefix: Vec<usize>,
    items: Vec<usize>,
    /// How many schemas judge the name of each member.
    names: u64,
    /// Answers for containers are remembered by the library.
    remembered: bool,
}

impl Work {
    pub(super) fn new(places: &[Place<'_>], graph: &Graph) -> Self {
        // A circle has no number of judges; the walk through it ends with the budget.
        let judgements =
            if graph.circle().is_some() { vec![u64::from(u32::MAX); places.len()] } else { graph.judgements() };
        let mut nodes: Vec<Node> = places.iter().map(|place| Node::of(place.schema)).collect();
        for (index, place) in places.iter().enumerate() {
            let Some((parent, step)) = &place.parent else { continue };
            let last = place.pointer.rsplit('/').next().unwrap_or_default();
            let parent = &mut nodes[*parent];
            match step {
                Step::Member(name) => drop(parent.members.insert(name.clone(), index)),
                Step::EachMember if last == "additionalProperties" || last == "unevaluatedProperties" => {
                    parent.other_members.push(index);
                }
                Step::EachMember => parent.each_member.push(index),
                Step::Items if last.parse::<usize>().is_ok() => parent.prefix.push(index),
                Step::Items => parent.items.push(index),
                Step::Names => parent.names = judgements[index],
                Step::Same | Step::Definition => {}
            }
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            node.same = graph.judging_with(index).collect();
            let keywords = places[index].schema;
            if keywords.get("unevaluatedProperties").is_some() || keywords.get("unevaluatedItems").is_some() {
                // Asked once for the answer and once for what they looked at.
                node.same.extend_from_within(..);
            }
        }
        for index in graph.recurring() {
            nodes[index].remembered = true;
        }
        Self { nodes }
    }

    /// Takes from the budget what it costs to learn whether the value is valid; `None` if it does not suffice.
    pub(super) fn judging(&self, value: &Value, budget: &mut Budget) -> Option<()> {
        let mut known = HashSet::new();
        self.walk(value, |index, node, value| {
            let container = value.is_array() || value.is_object();
            if node.remembered && container && !known.insert((index, std::ptr::from_ref(value))) {
                budget.spend(1)?;
                return Some(false);
            }
            budget.spend(node.steps(value))?;
            Some(true)
        })
    }

    /// The same for telling everything that is wrong: nothing is remembered, and errors hold copies.
    pub(super) fn explaining(&self, value: &Value, budget: &mut Budget) -> Option<()> {
        let mut weights = HashMap::new();
        if weigh(value, &mut weights) > budget.left {
            return None;
        }
        self.walk(value, |_, node, value| {
            let weight = weights.get(&std::ptr::from_ref(value)).copied().unwrap_or_else(|| own_weight(value));
            budget.spend(node.steps(value).saturating_add(node.literals).saturating_add(weight))?;
            Some(true)
        })
    }

    /// Visits each pair of a schema and a value that it judges; `visit` says whether to go on below, or to stop.
    fn walk<'v>(&self, value: &'v Value, mut visit: impl FnMut(usize, &Node, &'v Value) -> Option<bool>) -> Option<()> {
        let mut open = vec![(0, value)];
        while let Some((index, value)) = open.pop() {
            let node = &self.nodes[index];
            if !visit(index, node, value)? {
                continue;
            }
            open.extend(node.same.iter().map(|index| (*index, value)));
            match value {
                Value::Object(members) => node.open_members(members, &mut open),
                Value::Array(items) => {
                    // Items are visited in place where a single schema judges them: no list of them is made.
                    for (place, item) in items.iter().enumerate() {
                        open.extend(node.prefix.get(place).map(|index| (*index, item)));
                        for index in &node.items {
                            let inner = &self.nodes[*index];
                            if inner.same.is_empty() && !item.is_array() && !item.is_object() {
                                visit(*index, inner, item)?;
                            } else {
                                open.push((*index, item));
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Some(())
    }
}

impl Node {
    fn of(schema: &Value) -> Self {
        let Value::Object(keywords) = schema else { return Self { own: 1, ..Self::default() } };
        let length = |keyword: &str| match keywords.get(keyword) {
            Some(Value::Array(items)) => items.len() as u64,
            Some(Value::Object(members)) => members.len() as u64,
            _ => 0,
        };
        let dependent = keywords.get("dependentRequired").map_or(0, weight);
        let constant = keywords.get("const").map_or(0, weight);
        let options = keywords.get("enum").map_or(0, weight);
        // Texts are looked up, anything else is compared one by one.
        let words = keywords.get("enum").and_then(Value::as_array).is_some_and(|all| all.iter().all(Value::is_string));
        Self {
            own: 1
                + length("required")
                + length("dependentSchemas")
                + dependent
                + constant
                + if words { 1 } else { options },
            literals: constant + options,
            reads_text: ["pattern", "format", "const", "enum", "minLength", "maxLength", "contentEncoding"]
                .iter()
                .any(|keyword| keywords.contains_key(*keyword)),
            unique: keywords.get("uniqueItems") == Some(&Value::Bool(true)),
            ..Self::default()
        }
    }

    fn steps(&self, value: &Value) -> u64 {
        match value {
            Value::String(text) if self.reads_text => self.own + pieces(text),
            Value::Array(items) if self.unique => self.own + UNIQUE_STEPS * items.len() as u64,
            Value::Object(members) => {
                let names: u64 = if self.names + self.each_member.len() as u64 > 0 {
                    members.keys().map(|name| 1 + pieces(name)).sum()
                } else {
                    members.len() as u64
                };
                names.saturating_mul(1 + self.names + self.each_member.len() as u64).saturating_add(self.own)
            }
            _ => self.own,
        }
    }

    fn open_members<'v>(&self, members: &'v Map<String, Value>, open: &mut Vec<(usize, &'v Value)>) {
        if self.members.is_empty() && self.each_member.is_empty() && self.other_members.is_empty() {
            return;
        }
        for (name, member) in members {
            match self.members.get(name) {
                Some(index) => open.push((*index, member)),
                None => open.extend(self.other_members.iter().map(|index| (*index, member))),
            }
            open.extend(self.each_member.iter().map(|index| (*index, member)));
        }
    }
}

fn pieces(text: &str) -> u64 {
    (text.len() / PIECE_BYTES) as u64
}

/// Without what is inside.
fn own_weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + pieces(text),
        Value::Object(members) => 1 + members.keys().map(|name| pieces(name)).sum::<u64>(),
        _ => 1,
    }
}

/// How large a value is: its parts, and its text in pieces.
pub(super) fn weight(value: &Value) -> u64 {
    own_weight(value)
        + match value {
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members.values().map(weight).sum(),
            _ => 0,
        }
}

/// The weight of each container in it.
fn weigh(value: &Value, weights: &mut HashMap<*const Value, u64>) -> u64 {
    let inner: u64 = match value {
        Value::Array(items) => items.iter().map(|item| weigh(item, weights)).sum(),
        Value::Object(members) => members.values().map(|member| weigh(member, weights)).sum(),
        _ => return own_weight(value),
    };
    let weight = own_weight(value) + inner;
    weights.insert(std::ptr::from_ref(value), weight);
    weight
}
