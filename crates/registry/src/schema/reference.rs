//! `$ref`: only inside the document, only to schemas, and never in circles that read no input.
//!
//! A schema is a graph once its references are followed. Recursion through members or items is fine, because
//! an instance ends; a circle of schemas that judge the same value is not. Neither are references that
//! multiply: forty `allOf` of two references each would be judged 2^40 times.

use std::collections::HashMap;

use serde_json::Value;

use super::walk::{Place, Step, fragment};
use crate::finding::{Finding, shown};

pub const REF_CHAIN_MAX: usize = 64;
/// How many schemas may judge one and the same value.
pub const JUDGEMENTS_MAX: u64 = 2_000;

pub(super) struct Graph {
    /// For each schema, those that judge the same value, and whether a reference leads there.
    same: Vec<Vec<(usize, bool)>>,
    /// For each schema, those that judge a member or item of it.
    inner: Vec<Vec<usize>>,
}

/// What following the references costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Schemas that judge one value, at most.
    pub judgements: u64,
    /// How often a recursive schema comes back to itself from one value; 0 where nothing recurs.
    pub branching: u64,
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
        if let Some((index, count)) = judgements.iter().copied().enumerate().max_by_key(|(_, count)| *count)
            && count > JUDGEMENTS_MAX
        {
            let message = format!(
                "one value would be judged by more than {JUDGEMENTS_MAX} schemas, because references are multiplied"
            );
            let fix = "refer to each definition once, not several times in `allOf`, `anyOf` or `oneOf` of each other";
            findings.push(Finding::error("schema.explodes", format!("{at}{}", places[index].pointer), message, fix));
        }
        findings
    }

    pub(super) fn cost(&self) -> Cost {
        if self.circle().is_some() {
            return Cost { judgements: u64::MAX, branching: u64::MAX };
        }
        let judgements = self.judgements().into_iter().max().unwrap_or(1);
        Cost { judgements, branching: self.branching() }
    }

    /// A circle over schemas that judge the same value, by depth-first search with an explicit stack.
    fn circle(&self) -> Option<Vec<usize>> {
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

    fn judgements(&self) -> Vec<u64> {
        let mut count = vec![1_u64; self.same.len()];
        for index in self.bottom_up() {
            count[index] = self.same[index].iter().fold(1, |sum: u64, (target, _)| sum.saturating_add(count[*target]));
        }
        count
    }

    /// From one value to its members or items and back into the same recursion: in how many ways, at most.
    fn branching(&self) -> u64 {
        let component = self.components();
        let mut sizes = HashMap::new();
        for id in &component {
            *sizes.entry(*id).or_insert(0) += 1;
        }
        let order = self.bottom_up();
        let recursive = sizes.into_iter().filter(|(id, size)| {
            *size > 1
                || self.inner.get(*id).is_some_and(|inner| inner.contains(id))
                || self.same.get(*id).is_some_and(|same| same.iter().any(|(target, _)| target == id))
        });
        let mut most = 0;
        for (id, _) in recursive {
            let mut ways = vec![0_u64; self.same.len()];
            for index in &order {
                let inside = self.inner[*index].iter().filter(|target| component[**target] == id).count() as u64;
                ways[*index] =
                    self.same[*index].iter().fold(inside, |sum, (target, _)| sum.saturating_add(ways[*target]));
            }
            most = most.max(
                (0..ways.len()).filter(|index| component[*index] == id).map(|index| ways[index]).max().unwrap_or(0),
            );
        }
        most
    }

    /// Strongly connected components over all edges, each named by one of its schemas (Kosaraju, without recursion).
    fn components(&self) -> Vec<usize> {
        let count = self.same.len();
        let next = |index: usize| {
            self.same[index]
                .iter()
                .map(|(target, _)| *target)
                .chain(self.inner[index].iter().copied())
                .collect::<Vec<_>>()
        };
        let mut back = vec![Vec::new(); count];
        for index in 0..count {
            for target in next(index) {
                back[target].push(index);
            }
        }
        let mut order = Vec::with_capacity(count);
        let mut seen = vec![false; count];
        for start in 0..count {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            let mut path = vec![(start, next(start))];
            while let Some((index, targets)) = path.last_mut() {
                match targets.pop() {
                    Some(target) if !seen[target] => {
                        seen[target] = true;
                        path.push((target, next(target)));
                    }
                    Some(_) => {}
                    None => {
                        order.push(*index);
                        path.pop();
                    }
                }
            }
        }
        let mut component = vec![usize::MAX; count];
        for start in order.into_iter().rev() {
            let mut open = vec![start];
            while let Some(index) = open.pop() {
                if component[index] == usize::MAX {
                    component[index] = start;
                    open.extend(back[index].iter().copied().filter(|source| component[*source] == usize::MAX));
                }
            }
        }
        component
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
        check(&chain(8, |next| json!({"allOf": [{"$ref": next}, {"$ref": next}]})), &[]);
        check(&chain(40, |next| json!({"allOf": [{"$ref": next}, {"$ref": next}]})), &["schema.explodes"]);
    }

    #[test]
    fn the_cost_of_recursion_is_known() {
        let cost = |schema: &Value| graph(&places(schema), "").0.cost().branching;
        assert_eq!(cost(&json!({"properties": {"a": {"type": "string"}}})), 0);
        assert_eq!(cost(&json!({"properties": {"next": {"$ref": "#"}}})), 1);
        assert_eq!(cost(&json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})), 2);
        let variants = json!({"anyOf": [
            {"properties": {"args": {"items": {"$ref": "#"}}}}, {"properties": {"arg": {"$ref": "#"}}}, {"type": "string"},
        ]});
        assert_eq!(cost(&variants), 2);
    }
}
