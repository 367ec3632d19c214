//! Schemas compared by what they accept.
//!
//! For input, accepting more is widening and accepting less narrowing. For output it is the other way round:
//! what readers may rely on must not become less, so a looser output is breaking. What cannot be compared
//! (a changed `not`, a rebuilt `oneOf`) is taken for breaking rather than guessed.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use toolgate_contracts::json::escape;

use super::keywords::{
    DEPTH_MAX, Followed, Keywords, PROSE, alone, follow, has_default, in_words, reference, refers, required, types,
    without_prose,
};
use super::{ChangeClass, Changes};
use crate::finding::shown;

pub(super) fn input(old: &Value, new: &Value, changes: &mut Changes) {
    Comparison { roots: (old, new), side: Side::Input, seen: BTreeSet::new(), changes }.schemas(
        old,
        new,
        "/input_schema",
    );
}

pub(super) fn output(old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
    match (old, new) {
        (Some(old), Some(new)) => Comparison { roots: (old, new), side: Side::Output, seen: BTreeSet::new(), changes }
            .schemas(old, new, "/output_schema"),
        (None, Some(_)) => changes.add("/output_schema", ChangeClass::Widening, "the output is now described"),
        (Some(_), None) => changes.add("/output_schema", ChangeClass::Breaking, "the output is no longer described"),
        (None, None) => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

/// What happened to the set of accepted values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    More,
    Less,
    Other,
}

struct Comparison<'a, 'c> {
    roots: (&'a Value, &'a Value),
    side: Side,
    /// Pairs of references that were compared, so that recursion ends and nothing is told twice.
    seen: BTreeSet<(&'a str, &'a str)>,
    changes: &'c mut Changes,
}

/// Values of an `enum` that one change names.
const LISTED_MAX: usize = 20;

/// Larger is looser.
const UPPER_BOUNDS: [&str; 6] =
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"];
/// Smaller is looser.
const LOWER_BOUNDS: [&str; 6] =
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"];

impl<'a> Comparison<'a, '_> {
    fn schemas(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        if old == new && !refers(old) {
            return;
        }
        if at.matches('/').count() > 2 * DEPTH_MAX {
            self.turn(at, Turn::Other, "the schemas are nested too deep to be compared");
            return;
        }
        let told = match (reference(old), reference(new)) {
            (Some(left), Some(right)) => !self.seen.insert((left, right)),
            _ => false,
        };
        let followed =
            if told { (alone(old), alone(new)) } else { (follow(self.roots.0, old), follow(self.roots.1, new)) };
        match followed {
            (Some(old), Some(new)) => self.resolved(&old, &new, at),
            _ => self.turn(at, Turn::Other, "a reference leads nowhere"),
        }
    }

    fn resolved(&mut self, old: &Followed<'a>, new: &Followed<'a>, at: &str) {
        let (old, new) = match (old, new) {
            (Followed::Boolean(old), Followed::Boolean(new)) => {
                match (old, new) {
                    (false, true) => self.turn(at, Turn::More, "anything is accepted now"),
                    (true, false) => self.turn(at, Turn::Less, "nothing is accepted any more"),
                    _ => {}
                }
                return;
            }
            (Followed::Boolean(true), Followed::Keywords(_)) => {
                return self.turn(at, Turn::Less, "a schema now limits what was open");
            }
            (Followed::Keywords(_), Followed::Boolean(true)) => {
                return self.turn(at, Turn::More, "anything is accepted now");
            }
            (Followed::Boolean(false), Followed::Keywords(_)) => {
                return self.turn(at, Turn::More, "something is accepted now");
            }
            (Followed::Keywords(_), Followed::Boolean(false)) => {
                return self.turn(at, Turn::Less, "nothing is accepted any more");
            }
            (Followed::Keywords(old), Followed::Keywords(new)) => (old, new),
        };
        self.prose(old, new, at);
        self.types(old, new, at);
        self.options(old, new, at);
        self.bounds(old, new, at);
        self.members(old, new, at);
        self.items(old, new, at);
        self.rest(old, new, at);
    }

    fn prose(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        for keyword in PROSE {
            if old.get(keyword) != new.get(keyword) {
                self.changes.add(&format!("{at}/{keyword}"), ChangeClass::Description, format!("`{keyword}` changed"));
            }
        }
        let extension = |keywords: &Keywords<'a>| {
            keywords
                .names()
                .filter(|name| name.starts_with("x-"))
                .map(|name| (name.to_owned(), keywords.get(name).cloned()))
                .collect::<Vec<_>>()
        };
        if extension(old) != extension(new) {
            self.changes.add(at, ChangeClass::Description, "an extension (`x-…`) changed");
        }
        if old.get("default") != new.get("default") && self.side == Side::Input {
            self.changes.add(
                &format!("{at}/default"),
                ChangeClass::Widening,
                "the default changed: calls that leave the member out mean something else",
            );
        }
    }

    fn types(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        let (before, after) = (types(old.get("type")), types(new.get("type")));
        if before == after {
            return;
        }
        let turn = match (after.is_superset(&before), after.is_subset(&before)) {
            (true, _) => Turn::More,
            (_, true) => Turn::Less,
            _ => Turn::Other,
        };
        self.turn(
            &format!("{at}/type"),
            turn,
            format!("the type went from {} to {}", in_words(&before), in_words(&after)),
        );
    }

    fn options(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        let values = |keywords: &Keywords<'a>| match (keywords.get("const"), keywords.get("enum")) {
            (Some(one), _) => Some(vec![one.clone()]),
            (None, Some(Value::Array(several))) => Some(several.clone()),
            _ => None,
        };
        let place = format!("{at}/enum");
        match (values(old), values(new)) {
            (None, None) => {}
            (None, Some(_)) => self.turn(&place, Turn::Less, "only certain values are accepted now"),
            (Some(_), None) => self.turn(&place, Turn::More, "any value is accepted now"),
            (Some(old), Some(new)) => {
                let (earlier, later): (HashSet<&Value>, HashSet<&Value>) = (old.iter().collect(), new.iter().collect());
                let gone: Vec<_> = old.iter().filter(|value| !later.contains(value)).collect();
                let came: Vec<_> = new.iter().filter(|value| !earlier.contains(value)).collect();
                let list = |values: Vec<&Value>| {
                    let more = if values.len() > LISTED_MAX { ", …" } else { "" };
                    let told = values.iter().take(LISTED_MAX).map(|value| shown(&value.to_string()));
                    told.collect::<Vec<_>>().join(", ") + more
                };
                if !came.is_empty() {
                    self.turn(&place, Turn::More, format!("new values: {}", list(came)));
                }
                if !gone.is_empty() {
                    let turn = if gone.len() == old.len() { Turn::Other } else { Turn::Less };
                    self.turn(&place, turn, format!("values no longer accepted: {}", list(gone)));
                }
            }
        }
    }

    fn bounds(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        let bounds = UPPER_BOUNDS
            .iter()
            .map(|keyword| (*keyword, 1.0))
            .chain(LOWER_BOUNDS.iter().map(|keyword| (*keyword, -1.0)));
        for (keyword, direction) in bounds {
            let number = |keywords: &Keywords<'a>| keywords.get(keyword).and_then(Value::as_f64);
            let turn = match (number(old), number(new)) {
                (None, Some(_)) => Turn::Less,
                (Some(_), None) => Turn::More,
                (Some(old), Some(new)) if new * direction > old * direction => Turn::More,
                (Some(old), Some(new)) if new * direction < old * direction => Turn::Less,
                _ => continue,
            };
            let told =
                |keywords: &Keywords<'a>| keywords.get(keyword).map_or_else(|| "none".to_owned(), Value::to_string);
            self.turn(
                &format!("{at}/{keyword}"),
                turn,
                format!("`{keyword}` went from {} to {}", told(old), told(new)),
            );
        }
        for keyword in ["pattern", "format", "multipleOf", "uniqueItems", "contentEncoding", "contentMediaType"] {
            let (before, after) = (
                old.get(keyword).filter(|value| **value != Value::Bool(false)),
                new.get(keyword).filter(|value| **value != Value::Bool(false)),
            );
            let turn = match (before, after) {
                (None, Some(_)) => Turn::Less,
                (Some(_), None) => Turn::More,
                (Some(before), Some(after)) if before != after => Turn::Less,
                _ => continue,
            };
            self.turn(&format!("{at}/{keyword}"), turn, format!("`{keyword}` was added, removed or changed"));
        }
    }

    fn members(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        let (before, after) = (old.map("properties"), new.map("properties"));
        let (was_required, is_required) = (required(old), required(new));
        let removed: Vec<&str> = before
            .iter()
            .flat_map(|map| map.keys())
            .map(String::as_str)
            .filter(|name| !after.is_some_and(|map| map.contains_key(*name)))
            .collect();
        let twins = added_by_schema(before, after);
        for name in &removed {
            let twin = before.and_then(|map| twins.get(map.get(*name)?)).copied();
            let message = match twin {
                Some(twin) => format!("`{}` was removed; perhaps renamed to `{}`", shown(name), shown(twin)),
                None => format!("`{}` was removed", shown(name)),
            };
            self.changes.add(&place(at, name), ChangeClass::Breaking, message);
        }
        for (name, schema) in after.into_iter().flatten() {
            let place = place(at, name);
            let Some(earlier) = before.and_then(|map| map.get(name)) else {
                let demanded = is_required.contains(name.as_str()) && !has_default(self.roots.1, schema);
                match self.side {
                    Side::Input if demanded => self.changes.add(
                        &place,
                        ChangeClass::Breaking,
                        format!("`{}` is new and required", shown(name)),
                    ),
                    Side::Input => self.changes.add(
                        &place,
                        ChangeClass::Widening,
                        format!("`{}` is new and optional", shown(name)),
                    ),
                    Side::Output => self.changes.add(
                        &place,
                        ChangeClass::Widening,
                        format!("`{}` is new in the output", shown(name)),
                    ),
                }
                continue;
            };
            self.requirement(
                name,
                (was_required.contains(name.as_str()), earlier),
                (is_required.contains(name.as_str()), schema),
                &place,
            );
            self.schemas(earlier, schema, &place);
        }
        for name in is_required.symmetric_difference(&was_required).filter(|name| {
            !before.is_some_and(|map| map.contains_key(**name)) && !after.is_some_and(|map| map.contains_key(**name))
        }) {
            let turn = if is_required.contains(name) { Turn::Less } else { Turn::More };
            self.turn(
                &format!("{at}/required"),
                turn,
                format!("`{}` is now {}", shown(name), if turn == Turn::Less { "required" } else { "optional" }),
            );
        }
        self.additional(old, new, at);
    }

    fn requirement(&mut self, name: &str, (was, earlier): (bool, &Value), (is, schema): (bool, &Value), place: &str) {
        // A default is filled in before the schema is asked, so a required member that has one may be left out.
        let optional = |required: bool, root: &Value, schema: &Value| {
            !required || (self.side == Side::Input && has_default(root, schema))
        };
        match (optional(was, self.roots.0, earlier), optional(is, self.roots.1, schema)) {
            (true, false) => self.turn(place, Turn::Less, format!("`{}` is now required", shown(name))),
            (false, true) => self.turn(place, Turn::More, format!("`{}` may now be absent", shown(name))),
            _ => {}
        }
    }

    fn additional(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        const OPEN: &Value = &Value::Bool(true);
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            let (before, after) = (old.get(keyword).unwrap_or(OPEN), new.get(keyword).unwrap_or(OPEN));
            let place = format!("{at}/{keyword}");
            match (self.side, before, after) {
                // More members in an output harm no reader.
                (Side::Output, Value::Bool(false), Value::Bool(true)) => {
                    self.changes.add(&place, ChangeClass::Widening, "the output may have further members");
                }
                _ => self.schemas(before, after, &place),
            }
        }
        self.named(old, new, "patternProperties", at);
        match (old.get("propertyNames"), new.get("propertyNames")) {
            (None, Some(_)) => {
                self.turn(&format!("{at}/propertyNames"), Turn::Less, "names of members are now limited");
            }
            (Some(_), None) => {
                self.turn(&format!("{at}/propertyNames"), Turn::More, "names of members are no longer limited");
            }
            (Some(before), Some(after)) => self.schemas(before, after, &format!("{at}/propertyNames")),
            (None, None) => {}
        }
    }

    fn named(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, keyword: &str, at: &str) {
        let (before, after) = (old.map(keyword), new.map(keyword));
        for (name, schema) in after.into_iter().flatten() {
            let place = format!("{at}/{keyword}/{}", escape(name));
            match before.and_then(|map| map.get(name)) {
                Some(earlier) => self.schemas(earlier, schema, &place),
                None => self.turn(&place, Turn::Less, format!("`{}` is now limited", shown(name))),
            }
        }
        for name in
            before.into_iter().flat_map(Map::keys).filter(|name| !after.is_some_and(|map| map.contains_key(*name)))
        {
            self.turn(
                &format!("{at}/{keyword}/{}", escape(name)),
                Turn::More,
                format!("`{}` is no longer limited", shown(name)),
            );
        }
    }

    fn items(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        const OPEN: &Value = &Value::Bool(true);
        let list = |keywords: &Keywords<'a>| {
            keywords.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
        };
        let (before, after) = (list(old), list(new));
        let (old_rest, new_rest) = (old.get("items").unwrap_or(OPEN), new.get("items").unwrap_or(OPEN));
        for index in 0..before.len().max(after.len()) {
            self.schemas(
                before.get(index).unwrap_or(old_rest),
                after.get(index).unwrap_or(new_rest),
                &format!("{at}/prefixItems/{index}"),
            );
        }
        self.schemas(old_rest, new_rest, &format!("{at}/items"));
    }

    /// Choices can gain or lose an alternative; everything else is equal or incomparable.
    fn rest(&mut self, old: &Keywords<'a>, new: &Keywords<'a>, at: &str) {
        for keyword in ["anyOf", "oneOf"] {
            let list = |keywords: &Keywords<'a>| keywords.get(keyword).and_then(Value::as_array);
            let place = format!("{at}/{keyword}");
            match (list(old), list(new)) {
                (None, None) => {}
                (None, Some(_)) => self.turn(&place, Turn::Less, format!("`{keyword}` was added")),
                (Some(_), None) => self.turn(&place, Turn::More, format!("`{keyword}` was removed")),
                (Some(before), Some(after)) if before.len() == after.len() => {
                    for (index, (before, after)) in before.iter().zip(after).enumerate() {
                        self.schemas(before, after, &format!("{place}/{index}"));
                    }
                }
                (Some(before), Some(after)) => {
                    let counts = (before.len(), after.len());
                    let (before, after): (HashSet<_>, HashSet<_>) =
                        (before.iter().map(without_prose).collect(), after.iter().map(without_prose).collect());
                    let turn = if before.is_subset(&after) {
                        Turn::More
                    } else if after.is_subset(&before) {
                        Turn::Less
                    } else {
                        Turn::Other
                    };
                    self.turn(
                        &place,
                        turn,
                        format!("`{keyword}` has {} alternatives instead of {}", counts.1, counts.0),
                    );
                }
            }
        }
        for keyword in [
            "allOf",
            "not",
            "if",
            "then",
            "else",
            "dependentRequired",
            "dependentSchemas",
            "contains",
            "unevaluatedItems",
        ] {
            let place = format!("{at}/{keyword}");
            // As a schema of its own, so that prose inside is found by the same table.
            let bare =
                |value: &Value| without_prose(&Value::Object(Map::from_iter([(keyword.to_owned(), value.clone())])));
            match (old.get(keyword), new.get(keyword)) {
                (before, after) if before == after => {}
                (None, Some(_)) => self.turn(&place, Turn::Less, format!("`{keyword}` was added")),
                (Some(_), None) => self.turn(&place, Turn::More, format!("`{keyword}` was removed")),
                (Some(before), Some(after)) if bare(before) == bare(after) => {
                    self.changes.add(&place, ChangeClass::Description, format!("texts inside `{keyword}` changed"));
                }
                _ => self.turn(&place, Turn::Other, format!("`{keyword}` changed in a way that cannot be compared")),
            }
        }
    }

    fn turn(&mut self, at: &str, turn: Turn, message: impl Into<String>) {
        let class = match (self.side, turn) {
            (_, Turn::Other) | (Side::Output, Turn::More) => ChangeClass::Breaking,
            (Side::Input, Turn::More) | (Side::Output, Turn::Less) => ChangeClass::Widening,
            (Side::Input, Turn::Less) => ChangeClass::Narrowing,
        };
        self.changes.add(at, class, message);
    }
}

fn place(at: &str, name: &str) -> String {
    format!("{at}/properties/{}", escape(name))
}

/// New members by their schema: one that went and has the very same was perhaps renamed.
fn added_by_schema<'b>(
    before: Option<&Map<String, Value>>,
    after: Option<&'b Map<String, Value>>,
) -> HashMap<&'b Value, &'b str> {
    let mut found = HashMap::new();
    for (name, schema) in after.into_iter().flatten() {
        if !before.is_some_and(|map| map.contains_key(name)) {
            found.entry(schema).or_insert(name.as_str());
        }
    }
    found
}
