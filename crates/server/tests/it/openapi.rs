//! The OpenAPI document: complete in every operation, and the same as the committed one.

use std::collections::BTreeSet;

use serde_json::Value;
use similar::TextDiff;

/// Lines of a difference that are shown; whoever sees more runs the command.
const LINES_SHOWN: usize = 40;

fn document() -> Value {
    serde_json::to_value(toolgate_server::api::document()).unwrap()
}

fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    })
}

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let served = toolgate_server::api::document_text();
    if committed == served {
        return;
    }
    let difference = TextDiff::from_lines(&committed, &served).unified_diff().context_radius(1).to_string();
    let shown: Vec<_> = difference.lines().take(LINES_SHOWN).collect();
    panic!("docs/openapi.json is not what the server serves: run `make openapi`\n{}\n…", shown.join("\n"));
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let published = toolgate_server::api::schemas::published().unwrap();
    for (name, text) in &published {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *text, "docs/schemas/{name} is not what the types say: run `make openapi`");
        // Everything it refers to is in it, and it is a schema.
        let schema: Value = serde_json::from_str(text).unwrap();
        assert!(toolgate_registry::schema::Validator::new(&schema).is_ok(), "{name}");
        for reference in text.match_indices("\"$ref\": \"").map(|(at, mark)| &text[at + mark.len()..]) {
            let reference = reference.split('"').next().unwrap();
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {reference}"));
            assert!(schema.pointer(pointer).is_some(), "{name}: {reference}");
        }
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let known = |file: &String| file == "index.md" || published.iter().any(|(name, _)| name == file);
    let others: Vec<String> = files.filter(|file| !known(file)).collect();
    assert!(others.is_empty(), "nothing makes these: {others:?}");
}

#[test]
fn every_operation_says_what_a_client_needs() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let tags: BTreeSet<_> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{name} has no id"));
        assert!(ids.insert(id), "{name}: another has the id {id}");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
        let tag = operation["tags"][0].as_str().unwrap_or_else(|| panic!("{name} has no tag"));
        assert!(tags.contains(tag), "{name}: describe the tag `{tag}` in crates/server/src/api/document.rs");
        assert_eq!(operation["responses"]["default"]["$ref"], "#/components/responses/Problem", "{name}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let told =
                response["$ref"].is_string() || response["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(told, "{name} {status}");
        }
    }
    assert!(ids.len() > 40, "{}", ids.len());
}

#[test]
fn who_may_call_is_said_for_every_operation() {
    let document = document();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    assert_eq!((&schemes["key"]["scheme"], &schemes["session"]["in"]), (&"bearer".into(), &"cookie".into()));
    assert_eq!(document["security"].as_array().unwrap().len(), 2);
    let open: BTreeSet<_> =
        operations(&document).filter(|(_, operation)| operation["security"].is_array()).map(|(name, _)| name).collect();
    let expected = [
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "POST /api/v1/sign-in",
        "GET /api/v1/session",
        "GET /api/v1/session/ways",
        "POST /api/v1/session/password",
        "POST /api/v1/session/oidc",
        "GET /oidc/callback",
        "POST /api/v1/session/reset",
        "POST /api/v1/session/reset/finish",
        "POST /api/v1/session/invitation",
        "POST /api/v1/session/invitation/accept",
        "POST /api/v1/session/link",
        "POST /invoke",
        "GET /.well-known/jwks.json",
        "GET /.well-known/oauth-authorization-server",
        "GET /.well-known/oauth-protected-resource",
        "GET /.well-known/oauth-protected-resource/mcp",
        "GET /.well-known/oauth-protected-resource/mcp/{agent}",
        "GET /oauth/client.json",
        "POST /oauth/register",
        "POST /oauth/token",
        "POST /oauth/revoke",
        // Keys and tokens, and no cookie.
        "GET /mcp",
        "POST /mcp",
        "GET /mcp/{agent}",
        "POST /mcp/{agent}",
    ];
    assert_eq!(open, expected.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}");
                }
                members.values().for_each(|member| walk(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
}
