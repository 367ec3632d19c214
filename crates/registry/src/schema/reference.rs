//! `$ref`: only inside the document, only to schemas, and never in circles that read no input.
//!
//! A schema is a graph once its references are followed. Recursion through members or items is fine, because
//! an instance ends; a circle of schemas that judge the same value is not. Neither are references that
//! multiply: forty `allOf` of two references each would be judged 2^40 times.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::walk::{Place, Step, fragment};
use crate::finding::{Finding, shown};

pub const REF_CHAIN_MAX: usize = 64;
/// How many schemas may judge one and the same value.
pub const JUDGEMENTS_MAX: u64 = 500;

pub(super) struct Graph {
    /// For each schema, those that judge the same value, and whether a reference leads there.
    same: Vec<Vec<(usize, bool)>>,
    /// For each schema, those that judge a member or item of it.
    inner: Vec<Vec<usize>>,
}

/// Follows every reference; the findings name those that lead nowhere.
pub(super) fn graph(places: &[Place<'_>], at: &str) -> (Graph, Vec<Finding>) {
    let by_pointer: HashMap<&str, usize> =
        places.iter().enumerate().map(|(index, place)| (place.pointer.as_str(), index)).collect();
    let anchors: HashMap<&str, usize> = places
        .iter()
        .enumerate()
        .filter_map(|(index, place)| Some((place.schema.get("$anchor")?.as_str()?, index)))
        .collect();
    let mut graph = Graph { same: vec![Vec::new(); places.len()], inner: vec![Vec::new(); places.len()] };
    let mut findings = Vec::new();
    for (index, place) in places.iter().enumerate() {
        match &place.parent {
            Some((parent, Step::Same)) => graph.same[*parent].push((index, false)),
            Some((parent, Step::Member(_) | Step::EachMember | Step::Items | Step::Names)) => {
                graph.inner[*parent].push(index);
            }
            Some((_, Step::Definition)) | None => {}
        }
        let Some(reference) = place.schema.get("$ref").and_then(Value::as_str) else { continue };
        let pointer = format!("{at}{}/$ref", place.pointer);
        let found = match fragment(reference) {
            None => Err(elsewhere(reference, &pointer)),
            Some(name) if name.is_empty() || name.starts_with('/') => by_pointer
                .get(name.as_str())
                .copied()
                .ok_or_else(|| nowhere(places[0].schema, reference, &name, &pointer)),
            Some(name) => {
                anchors.get(name.as_str()).copied().ok_or_else(|| nowhere(places[0].schema, reference, &name, &pointer))
            }
        };
        match found {
            Ok(target) => graph.same[index].push((target, true)),
            Err(finding) => findings.push(finding),
        }
    }
    (graph, findings)
}

fn elsewhere(reference: &str, pointer: &str) -> Finding {
    let what = if reference.contains("://") || reference.starts_with("//") || reference.starts_with("urn:") {
        "a document elsewhere"
    } else {
        "another file"
    };
    let told = if reference.starts_with("file:") { "a file" } else { what };
    Finding::error(
        "schema.remote-ref",
        pointer,
        format!("`{}` refers to {told}; a schema must be complete in itself", shown(reference)),
        "copy the schema into `$defs` and refer to it as `#/$defs/NAME`",
    )
}

fn nowhere(root: &Value, reference: &str, name: &str, pointer: &str) -> Finding {
    let exists = name.starts_with('/') && root.pointer(name).is_some();
    let (told, fix) = if exists {
        ("points at something that is not a schema", "move the schema to `$defs` and refer to it as `#/$defs/NAME`")
    } else {
        ("points at nothing", "define it under `$defs`, or correct the reference")
    };
    Finding::error("schema.ref-target", pointer, format!("`{}` {told}", shown(reference)), fix)
}

impl Graph {
    /// Circles, chains that are too long, references that multiply.
    pub(super) fn check(&self, places: &[Place<'_>], at: &str) -> Vec<Finding> {
        if let Some(circle) = self.circle() {
            let names: Vec<_> = circle.iter().map(|index| format!("`#{}`", shown(&places[*index].pointer))).collect();
            let message = format!("the references go in a circle without reading any input: {}", names.join(" → "));
            let fix = "let the recursion go through `properties` or `items`, so that it ends with the input";
            return vec![Finding::error("schema.ref-loop", format!("{at}{}", places[circle[0]].pointer), message, fix)];
        }
        let mut findings = Vec::new();
        let chain = self.longest_chain();
        if let Some((index, length)) = chain.iter().copied().enumerate().max_by_key(|(_, length)| *length)
            && length > REF_CHAIN_MAX
        {
            let message = format!("a chain of {length} references begins here, the limit is {REF_CHAIN_MAX}");
            findings.push(Finding::error(
                "schema.ref-chain",
                format!("{at}{}", places[index].pointer),
                message,
                "refer to the last one directly",
            ));
        }
        let judgements = self.judgements();
        // Patterns for names may all apply to one member.
        let mut each_member = vec![0_u64; places.len()];
        for (place, count) in places.iter().zip(&judgements) {
            if let Some((parent, Step::EachMember)) = place.parent {
                each_member[parent] = each_member[parent].saturating_add(*count);
            }
        }
        let most = judgements.iter().zip(&each_member).map(|(own, each)| *own.max(each)).enumerate();
        if let Some((index, count)) = most.max_by_key(|(_, count)| *count)
            && count > JUDGEMENTS_MAX
        {
            let message = format!("one value would be judged by more than {JUDGEMENTS_MAX} schemas");
            let fix = "write a list of fixed values as one `enum`; refer to each definition once, not several times in `allOf`, `anyOf` or `oneOf` of each other";
            findings.push(Finding::error("schema.explodes", format!("{at}{}", places[index].pointer), message, fix));
        }
        findings
    }

    /// A circle over schemas that judge the same value, by depth-first search with an explicit stack.
    pub(super) fn circle(&self) -> Option<Vec<usize>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut state = vec![NEW; self.same.len()];
        for start in 0..self.same.len() {
            if state[start] != NEW {
                continue;
            }
            let mut path = vec![(start, 0)];
            state[start] = OPEN;
            while let Some((index, next)) = path.last_mut() {
                if let Some((target, _)) = self.same[*index].get(*next).copied() {
                    *next += 1;
                    if state[target] == OPEN {
                        let from = path.iter().position(|(index, _)| *index == target).unwrap_or(0);
                        let mut circle: Vec<_> = path[from..].iter().map(|(index, _)| *index).collect();
                        circle.push(target);
                        return Some(circle);
                    }
                    if state[target] == NEW {
                        state[target] = OPEN;
                        path.push((target, 0));
                    }
                } else {
                    state[*index] = DONE;
                    path.pop();
                }
            }
        }
        None
    }

    /// Schemas such that those judging the same value come before. Only without circles.
    fn bottom_up(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.same.len());
        let mut seen = vec![false; self.same.len()];
        for start in 0..self.same.len() {
            let mut path = vec![(start, 0)];
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            while let Some((index, next)) = path.last_mut() {
                if let Some((target, _)) = self.same[*index].get(*next).copied() {
                    *next += 1;
                    if !std::mem::replace(&mut seen[target], true) {
                        path.push((target, 0));
                    }
                } else {
                    order.push(*index);
                    path.pop();
                }
            }
        }
        order
    }

    fn longest_chain(&self) -> Vec<usize> {
        let mut chain = vec![0; self.same.len()];
        for index in self.bottom_up() {
            chain[index] = self.same[index]
                .iter()
                .map(|(target, by_ref)| chain[*target] + usize::from(*by_ref))
                .max()
                .unwrap_or(0);
        }
        chain
    }

    /// How many schemas judge what each schema judges. Only without circles.
    pub(super) fn judgements(&self) -> Vec<u64> {
        let mut count = vec![1_u64; self.same.len()];
        for index in self.bottom_up() {
            count[index] = self.same[index].iter().fold(1, |sum: u64, (target, _)| sum.saturating_add(count[*target]));
        }
        count
    }

    /// Other judges of the value that a schema judges.
    pub(super) fn judging_with(&self, index: usize) -> impl Iterator<Item = usize> {
        self.same[index].iter().map(|(target, _)| *target)
    }

    /// Schemas at which a recursion begins again: there the library remembers its answers.
    pub(super) fn recurring(&self) -> BTreeSet<usize> {
        let next = |index: usize, nth: usize| {
            let same = &self.same[index];
            same.get(nth).map(|(target, _)| *target).or_else(|| self.inner[index].get(nth - same.len()).copied())
        };
        let mut open = vec![false; self.same.len()];
        let mut seen = vec![false; self.same.len()];
        let mut found = BTreeSet::new();
        for start in 0..self.same.len() {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            open[start] = true;
            let mut path = vec![(start, 0)];
            while let Some((index, nth)) = path.last_mut() {
                if let Some(target) = next(*index, *nth) {
                    *nth += 1;
                    if open[target] {
                        found.insert(target);
                    } else if !std::mem::replace(&mut seen[target], true) {
                        open[target] = true;
                        path.push((target, 0));
                    }
                } else {
                    open[*index] = false;
                    path.pop();
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::walk::places;
    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &[&str]) {
        let places = places(schema);
        let (graph, mut findings) = graph(&places, "");
        findings.extend(graph.check(&places, ""));
        let codes: Vec<_> = findings.iter().map(|finding| finding.code.as_ref()).collect();
        assert_eq!(codes, expected, "{schema}\n{findings:#?}");
    }

    fn chain(length: usize, link: impl Fn(String) -> Value) -> Value {
        let mut defs: Map<String, Value> =
            (0..length).map(|n| (format!("d{n}"), link(format!("#/$defs/d{}", n + 1)))).collect();
        defs.insert(format!("d{length}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn references_stay_inside_the_document() {
        check(&json!({"$ref": "https://a.test/s.json"}), &["schema.remote-ref"]);
        check(&json!({"$ref": "file:///etc/passwd"}), &["schema.remote-ref"]);
        check(&json!({"$ref": "other.json#/x"}), &["schema.remote-ref"]);
        check(
            &json!({"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#name"}}}),
            &["schema.ref-target", "schema.ref-target"],
        );
        check(&json!({"enum": [{"pattern": "("}], "items": {"$ref": "#/enum/0"}}), &["schema.ref-target"]);
        check(
            &json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$anchor": "n"}}, "items": {"$ref": "#n"}}),
            &[],
        );
    }

    #[test]
    fn recursion_must_read_input() {
        check(&json!({"$ref": "#"}), &["schema.ref-loop"]);
        check(
            &json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            &["schema.ref-loop"],
        );
        check(&json!({"properties": {"next": {"$ref": "#"}}}), &[]);
        check(&json!({"anyOf": [{"items": {"$ref": "#"}}, {"type": "string"}]}), &[]);
    }

    #[test]
    fn chains_and_multiplication_are_bounded() {
        check(&chain(63, |next| json!({"$ref": next})), &[]);
        check(&chain(64, |next| json!({"$ref": next})), &["schema.ref-chain"]);
        check(&chain(6, |next| json!({"allOf": [{"$ref": next}, {"$ref": next}]})), &[]);
        check(&chain(40, |next| json!({"allOf": [{"$ref": next}, {"$ref": next}]})), &["schema.explodes"]);
    }

    #[test]
    fn recursion_begins_again_somewhere() {
        let recurring = |schema: &Value| graph(&places(schema), "").0.recurring().len();
        assert_eq!(recurring(&json!({"properties": {"a": {"type": "string"}}})), 0);
        assert_eq!(recurring(&json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})), 1);
    }

    #[test]
    fn one_value_has_few_judges() {
        let choice = |count: usize| json!({"anyOf": (0..count).map(|n| json!({"const": n})).collect::<Vec<_>>()});
        check(&choice(499), &[]);
        check(&choice(500), &["schema.explodes"]);
        let named = |count: usize| {
            let all: Map<String, Value> = (0..count).map(|n| (format!("^a{n}"), json!({}))).collect();
            json!({"patternProperties": all})
        };
        check(&named(500), &[]);
        check(&named(501), &["schema.explodes"]);
    }
}
