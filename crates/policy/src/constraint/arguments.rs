//! Whether a tool has the argument that a constraint is about.
//!
//! A constraint on an argument that no call has refuses every call, and a misspelt one looks like a rule that holds. A schema
//! that leaves members open has them all: what cannot be told is not refused.

use serde_json::{Map, Value};
use toolgate_contracts::{Fault, FoldedName, json};

use super::Constraints;
use crate::cedar::nearest;

/// Schemas that are looked at for one place: references may go in circles.
const PARTS_MAX: usize = 64;

/// The tool that constraints are held against.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// As it is told.
    pub tool: &'a str,
    /// All names that it goes by.
    pub names: &'a [&'a FoldedName],
    /// Of every version that may be called.
    pub schemas: &'a [&'a Value],
}

/// Why an argument is not there.
struct Absent {
    known: Vec<String>,
}

impl Constraints {
    /// Refuses constraints on this tool, by its name, that are about an argument it does not have. The fault points below
    /// `/constraints`.
    pub fn check_named(&self, arguments: &Arguments<'_>) -> Result<(), Fault> {
        for (index, constraint) in self.0.iter().enumerate() {
            let named = constraint.tool.as_ref().is_some_and(|(_, folded)| arguments.names.contains(&folded));
            if named && let Err(absent) = arguments.find(&constraint.pointer) {
                return Err(arguments.refused(index, &constraint.pointer, &absent));
            }
        }
        Ok(())
    }

    /// Refuses constraints that name no tool and are about an argument that none of these has.
    pub fn check_unnamed(&self, tools: &[Arguments<'_>]) -> Result<(), Fault> {
        let Some(first) = tools.first() else { return Ok(()) };
        for (index, constraint) in self.0.iter().enumerate().filter(|(_, constraint)| constraint.tool.is_none()) {
            let found = tools.iter().map(|tool| tool.find(&constraint.pointer)).collect::<Vec<_>>();
            if found.iter().all(Result::is_err)
                && let Some(Err(absent)) = found.first()
            {
                return Err(first.refused(index, &constraint.pointer, absent));
            }
        }
        Ok(())
    }
}

impl Arguments<'_> {
    fn find(&self, pointer: &str) -> Result<(), Absent> {
        let mut absent = Absent { known: Vec::new() };
        for schema in self.schemas {
            match has(schema, pointer) {
                Ok(()) => return Ok(()),
                Err(known) => absent.known.extend(known),
            }
        }
        absent.known.sort_unstable();
        absent.known.dedup();
        if self.schemas.is_empty() { Ok(()) } else { Err(absent) }
    }

    fn refused(&self, index: usize, pointer: &str, Absent { known }: &Absent) -> Fault {
        let told = format!("`{}` has no argument `{}`", self.tool, pointer.escape_debug());
        let all = match known.as_slice() {
            [] => "it takes none".to_owned(),
            known => format!("its arguments are `{}`", known.join("`, `")),
        };
        let remedy = match nearest(pointer, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`? {all}"),
            None => all,
        };
        Fault::invalid(told, remedy).at(format!("/constraints/{index}/pointer"))
    }
}

/// Whether a place may exist in what a schema describes; else what may, at the depth where the way ends.
fn has(root: &Value, pointer: &str) -> Result<(), Vec<String>> {
    let mut places = vec![root];
    let mut so_far = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let parts = parts(root, &places);
        let next: Vec<&Value> = parts
            .iter()
            .flat_map(|part| {
                let member = part.get("properties").and_then(|members| members.get(&token));
                let place = token.parse::<usize>().ok();
                let of_place = |place: usize| part.get("prefixItems").and_then(|items| items.get(place));
                let listed = place.and_then(|place| of_place(place).or_else(|| part.get("items")));
                member.into_iter().chain(listed)
            })
            .collect();
        if !next.is_empty() {
            so_far.push('/');
            so_far.push_str(&json::escape(&token));
            places = next;
            continue;
        }
        let is_open = |part: &&Map<String, Value>| {
            part.contains_key("patternProperties")
                || part.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
        };
        let says_members = parts.iter().any(|part| part.contains_key("properties"));
        let is_scalar = parts.iter().any(|part| {
            let scalar = |word: &Value| ["string", "number", "integer", "boolean", "null"].iter().any(|it| word == it);
            match part.get("type") {
                Some(Value::Array(words)) => words.iter().all(scalar),
                Some(word) => scalar(word),
                None => false,
            }
        });
        if parts.iter().any(is_open) || (!says_members && !is_scalar) {
            return Ok(());
        }
        let members = parts.iter().filter_map(|part| part.get("properties")?.as_object()).flatten();
        let mut known: Vec<String> = members.map(|(name, _)| format!("{so_far}/{}", json::escape(name))).collect();
        known.dedup();
        return Err(known);
    }
    Ok(())
}

/// Everything that may say something of a place: itself, what it refers to, and every branch.
fn parts<'s>(root: &'s Value, places: &[&'s Value]) -> Vec<&'s Map<String, Value>> {
    let mut open: Vec<&Value> = places.to_vec();
    let mut parts = Vec::new();
    while let Some(place) = open.pop() {
        let Value::Object(part) = place else { continue };
        if parts.len() >= PARTS_MAX {
            break;
        }
        parts.push(part);
        let target = part.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        open.extend(target.and_then(|pointer| root.pointer(pointer)));
        for word in ["allOf", "anyOf", "oneOf"] {
            open.extend(part.get(word).and_then(Value::as_array).into_iter().flatten());
        }
        open.extend(["if", "then", "else"].iter().filter_map(|word| part.get(*word)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_constraint_is_about_an_argument_that_the_tool_has() {
        let schema = json!({
            "type": "object", "additionalProperties": false,
            "$defs": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
            "properties": {
                "amount": {"type": "number"},
                "to": {"$ref": "#/$defs/address"},
                "free": {"type": "object"},
                "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
                "lines": {"type": "array", "items": {"properties": {"sum": {"type": "number"}}}},
                "either": {"anyOf": [{"type": "null"}, {"properties": {"left": {}}}, {"properties": {"right": {}}}]},
                "a/b": {"type": "string"},
            },
        });
        let name = FoldedName::of("pay");
        let arguments = Arguments { tool: "pay", names: &[&name], schemas: &[&schema] };
        let cases = [
            ("/amount", None),
            ("/to/city", None),
            ("/free/anything/at/all", None),
            ("/open/b", None),
            ("/lines/0/sum", None),
            ("/either/right", None),
            ("/a~1b", None),
            ("/amoutn", Some("did you mean `/amount`?")),
            ("/to/cite", Some("did you mean `/to/city`? its arguments are `/to/city`")),
            ("/lines/0/sun", Some("did you mean `/lines/0/sum`?")),
            ("/either/middle", Some("`/either/left`, `/either/right`")),
            ("/amount/cents", Some("it takes none")),
            ("/nothing_like_it", Some("its arguments are `/amount`, `/a~1b`, `/either`")),
        ];
        for (pointer, hint) in cases {
            for tool in [json!("Pay"), json!(null)] {
                let mut written = json!({"pointer": pointer, "const": 1});
                if !tool.is_null() {
                    written["tool"] = tool.clone();
                }
                let constraints = Constraints::parse(&[json!({"pointer": "/amount", "max": 3}), written]).unwrap();
                let checked = if tool.is_null() {
                    assert!(constraints.check_named(&arguments).is_ok());
                    constraints.check_unnamed(&[arguments])
                } else {
                    assert!(constraints.check_unnamed(&[arguments]).is_ok());
                    constraints.check_named(&arguments)
                };
                match (checked, hint) {
                    (Ok(()), None) => {}
                    (Err(fault), Some(hint)) => {
                        assert_eq!(fault.told(), format!("`pay` has no argument `{pointer}`"));
                        assert!(fault.remedy().contains(hint), "{pointer}: {}", fault.remedy());
                        assert_eq!(fault.pointer(), Some("/constraints/1/pointer"));
                    }
                    (checked, _) => panic!("{pointer}: {checked:?}"),
                }
            }
        }
        let loose = json!({"type": "object"});
        let free = Arguments { schemas: &[&schema, &loose], ..arguments };
        let constraints = Constraints::parse(&[json!({"tool": "pay", "pointer": "/x", "const": 1})]).unwrap();
        assert!(constraints.check_named(&free).is_ok(), "another version takes anything");
        let round = json!({"$ref": "#", "properties": {"a": {"$ref": "#"}}});
        assert_eq!(has(&round, "/a/a/b"), Err(vec!["/a/a/a".to_owned()]));
    }
}
