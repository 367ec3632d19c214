//! What a tool's input schema says of an argument, as far as Cedar has a type for it.
//!
//! Not a validator: the arguments were checked against the schema before a policy sees them. A schema that leaves the
//! type open leaves it open here too, and a policy that names such an argument is told so when it is saved.

use serde_json::{Map, Value};

/// References and combinations that are followed from one place: more are not understood, never a loop.
const STEPS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JsonType {
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl JsonType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn read(word: &str) -> Option<Self> {
        let all = [Self::Boolean, Self::Integer, Self::Number, Self::String, Self::Array, Self::Object];
        all.into_iter().find(|one| one.as_str() == word)
    }

    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        })
    }
}

/// Several types are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Several;

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    root: &'a Value,
    at: &'a Value,
}

impl<'a> Node<'a> {
    pub fn root(schema: &'a Value) -> Self {
        Self { root: schema, at: schema }
    }

    /// The schemas that all hold here: itself, what it refers to, `allOf`, and the one branch of `anyOf` or `oneOf` that
    /// is not `null`.
    fn parts(self) -> Vec<&'a Map<String, Value>> {
        let mut parts = Vec::new();
        let mut open = vec![self.at];
        while let Some(schema) = open.pop() {
            let Value::Object(schema) = schema else { continue };
            if parts.len() >= STEPS_MAX {
                break;
            }
            parts.push(schema);
            let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
            open.extend(target.and_then(|pointer| self.root.pointer(pointer)));
            open.extend(schema.get("allOf").and_then(Value::as_array).into_iter().flatten());
            for word in ["anyOf", "oneOf"] {
                let branches = schema.get(word).and_then(Value::as_array).into_iter().flatten();
                let others: Vec<_> = branches.filter(|branch| branch.get("type") != Some(&"null".into())).collect();
                if let [only] = others[..] {
                    open.push(only);
                }
            }
        }
        parts
    }

    /// Its one type besides `null`; `None` where nothing is said.
    pub fn json_type(self) -> Result<Option<JsonType>, Several> {
        let mut found: Option<JsonType> = None;
        let parts = self.parts();
        for part in &parts {
            let words: Vec<&Value> = match part.get("type") {
                Some(Value::Array(words)) => words.iter().collect(),
                Some(word) => vec![word],
                None => Vec::new(),
            };
            for one in words.into_iter().filter_map(Value::as_str).filter_map(JsonType::read) {
                found = Some(match found {
                    None => one,
                    Some(known) if known == one => one,
                    Some(_) => return Err(Several),
                });
            }
        }
        if found.is_some() {
            return Ok(found);
        }
        for part in &parts {
            let listed = part.get("enum").and_then(Value::as_array).into_iter().flatten().chain(part.get("const"));
            for one in listed.filter_map(JsonType::of) {
                found = Some(match found {
                    None => one,
                    Some(known) if known == one => one,
                    Some(_) => return Err(Several),
                });
            }
        }
        Ok(found)
    }

    /// A member of an object, or `items` of a list.
    pub fn member(self, name: &str) -> Option<Self> {
        let parts = self.parts();
        let of_object = parts.iter().find_map(|part| part.get("properties")?.get(name));
        let of_list = || match self.json_type() {
            Ok(Some(JsonType::Array)) if name == "items" => parts.iter().find_map(|part| part.get("items")),
            _ => None,
        };
        of_object.or_else(of_list).map(|at| Self { root: self.root, at })
    }

    pub fn members(self) -> Vec<&'a str> {
        let mut all = Vec::new();
        for part in self.parts() {
            all.extend(
                part.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| &**name),
            );
        }
        all
    }

    /// Whether a member is always there, and never `null`.
    pub fn always_has(self, name: &str) -> bool {
        let required = self.parts().iter().any(|part| {
            part.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name))
        });
        required && self.member(name).is_some_and(|member| !member.may_be_null())
    }

    fn may_be_null(self) -> bool {
        let is_null = |schema: &Value| match schema.get("type") {
            Some(Value::Array(words)) => words.iter().any(|word| word == "null"),
            Some(word) => word == "null",
            None => true,
        };
        let parts = self.parts();
        let typed = parts.iter().filter(|part| part.contains_key("type"));
        let branches = parts.iter().flat_map(|part| ["anyOf", "oneOf"].into_iter().filter_map(|word| part.get(word)));
        let listed_null = parts.iter().any(|part| {
            part.get("enum").and_then(Value::as_array).is_some_and(|listed| listed.iter().any(Value::is_null))
        });
        let mut typed = typed.peekable();
        if typed.peek().is_none() {
            return parts.iter().all(|part| !part.contains_key("enum") && !part.contains_key("const")) || listed_null;
        }
        typed.all(|part| is_null(&Value::Object((*part).clone())))
            || branches.filter_map(Value::as_array).flatten().any(is_null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_is_found_behind_references_and_combinations() {
        let schema = json!({
            "$defs": {"money": {"type": "number"}, "loop": {"$ref": "#/$defs/loop"}},
            "type": "object", "required": ["a", "b", "c", "d", "to", "word", "any"],
            "properties": {
                "a": {"type": "integer"},
                "b": {"$ref": "#/$defs/money", "description": "x"},
                "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "d": {"type": ["boolean", "null"]},
                "e": {"type": ["string", "integer"]},
                "f": {"allOf": [{"type": "string"}, {"maxLength": 3}]},
                "word": {"enum": ["x", "y"]},
                "any": {},
                "loop": {"$ref": "#/$defs/loop"},
                "to": {"type": "array", "items": {"type": "string"}},
                "who": {"type": "object", "properties": {"id": {"type": "integer"}}},
            },
        });
        let root = Node::root(&schema);
        let check = |name: &str, json_type: Result<Option<JsonType>, Several>, always: bool| {
            assert_eq!(root.member(name).map(Node::json_type), Some(json_type), "{name}");
            assert_eq!(root.always_has(name), always, "{name}");
        };
        check("a", Ok(Some(JsonType::Integer)), true);
        check("b", Ok(Some(JsonType::Number)), true);
        check("c", Ok(Some(JsonType::String)), false);
        check("d", Ok(Some(JsonType::Boolean)), false);
        check("e", Err(Several), false);
        check("f", Ok(Some(JsonType::String)), false);
        check("word", Ok(Some(JsonType::String)), true);
        check("any", Ok(None), false);
        check("loop", Ok(None), false);
        check("to", Ok(Some(JsonType::Array)), true);
        let items = root.member("to").and_then(|to| to.member("items")).unwrap();
        assert_eq!(items.json_type(), Ok(Some(JsonType::String)));
        let id = root.member("who").and_then(|who| who.member("id")).unwrap();
        assert_eq!(id.json_type(), Ok(Some(JsonType::Integer)));
        assert!(root.member("absent").is_none() && root.members().len() == 11);
    }
}
