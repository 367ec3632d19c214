//! What a server offers beside its tools, as tools: to read a resource, to get a prompt, to complete an argument. So that
//! each of them is listed, asked about, limited, labelled and logged like every call, and needs no right of its own.
//!
//! Invariant: their names are no names of a server's own tools; one that uses them anyway is not taken.

use serde_json::{Map, Value, json};

use crate::upstream::Found;

pub const READ: &str = "resources/read";
pub const GET: &str = "prompts/get";
pub const COMPLETE: &str = "completion/complete";

/// Whether the name stands for something that is no tool of a server.
pub fn is_beside(tool: &str) -> bool {
    matches!(tool, READ | GET | COMPLETE)
}

/// What can be offered of a server that says this of itself.
pub fn offered(found: &Found) -> Vec<Value> {
    let can = |name: &str| found.capabilities.get(name).is_some_and(Value::is_object);
    let mut tools = Vec::new();
    if can("resources") {
        tools.push(read());
    }
    if can("prompts") {
        tools.push(get());
    }
    if can("completions") && (can("resources") || can("prompts")) {
        tools.push(complete());
    }
    tools
}

fn read() -> Value {
    json!({
        "name": READ,
        "title": "Read a resource",
        "description": "Reads one of the server's resources, by its address. Use it for addresses that the server gave out \
            itself. Do not make addresses up.",
        "inputSchema": {
            "type": "object", "additionalProperties": false, "required": ["uri"],
            "properties": {"uri": {"type": "string", "maxLength": 8192, "description": "The resource's address."}},
        },
        "annotations": {"readOnlyHint": true},
    })
}

fn get() -> Value {
    json!({
        "name": GET,
        "title": "Get a prompt",
        "description": "Gets one of the server's prompts, filled in with arguments. Use it for prompts that the server lists. \
            Do not guess names.",
        "inputSchema": {
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {
                "name": {"type": "string", "maxLength": 256, "description": "The prompt's name."},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"},
                    "description": "What it is filled in with."},
            },
        },
        "annotations": {"readOnlyHint": true},
    })
}

fn complete() -> Value {
    json!({
        "name": COMPLETE,
        "title": "Complete an argument",
        "description": "Suggests values for an argument of a prompt, or of an address of resources, while somebody writes it.",
        "inputSchema": {
            "type": "object", "additionalProperties": false, "required": ["ref", "argument"],
            "properties": {
                "ref": {"type": "object", "description": "The prompt or the address that the argument is of."},
                "argument": {"type": "object", "description": "Its name, and what was written of its value."},
                "context": {"type": "object", "description": "Arguments that are known already."},
            },
        },
        "annotations": {"readOnlyHint": true},
    })
}

/// What the server is asked for a call.
pub fn request(tool: &str, input: &Value) -> (&'static str, Map<String, Value>) {
    let method = match tool {
        READ => READ,
        GET => GET,
        COMPLETE => COMPLETE,
        tool => {
            let mut params = Map::new();
            params.insert("name".into(), tool.into());
            params.insert("arguments".into(), input.clone());
            return ("tools/call", params);
        }
    };
    (method, input.as_object().cloned().unwrap_or_default())
}

/// What was answered, without what is said of the answer and not in it.
pub fn result(mut answered: Map<String, Value>) -> Value {
    for member in ["_meta", "resultType", "ttlMs", "cacheScope"] {
        answered.shift_remove(member);
    }
    Value::Object(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tool_is_asked_for_by_its_own_method() {
        let input = json!({"uri": "a:b"});
        assert_eq!(request(READ, &input), (READ, input.as_object().unwrap().clone()));
        let (method, params) = request("read", &input);
        assert_eq!((method, Value::Object(params)), ("tools/call", json!({"name": "read", "arguments": input})));
    }
}
