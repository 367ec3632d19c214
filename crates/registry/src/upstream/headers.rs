//! The arguments of a tool that its schema wants repeated in headers of the request.

use serde_json::Value;

/// The arguments that a schema wants repeated in headers: `(header, pointer)`. Only plain members reached through
/// `properties`, and each header once; a schema that breaks this has none of them.
pub fn annotated(schema: &Value) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    gather(schema, String::new(), &mut found).then_some(())?;
    let mut names: Vec<String> = found.iter().map(|(name, _): &(String, String)| name.to_ascii_lowercase()).collect();
    names.sort();
    names.dedup();
    (names.len() == found.len()).then_some(found)
}

fn gather(schema: &Value, at: String, found: &mut Vec<(String, String)>) -> bool {
    let Some(members) = schema.get("properties").and_then(Value::as_object) else { return true };
    members.iter().all(|(name, member)| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        match member.get("x-mcp-header") {
            None => gather(member, pointer, found),
            Some(Value::String(header)) if is_token(header) && is_plain(member) => {
                found.push((header.clone(), pointer));
                true
            }
            Some(_) => false,
        }
    })
}

fn is_plain(member: &Value) -> bool {
    matches!(member.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean"))
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
