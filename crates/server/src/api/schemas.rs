//! JSON Schemas of what is stored or exchanged, as `docs/schemas` publishes them: made from the types themselves, so that a
//! schema cannot say anything else than the program reads and writes.

use serde_json::{Map, Value, json};
use toolgate_agents::replay::SealedBundle;
use toolgate_contracts::guardrail::Guardrail;
use toolgate_contracts::input_request::InputRequest;
use toolgate_contracts::notice::Notice;
use toolgate_contracts::{Agent, AgentOutputs, Fault, Profile, ProviderSpec, Workflow};
use toolgate_engine::approvals::{Card, StandingGrant};
use toolgate_policy::token::Claims;
use utoipa::{PartialSchema, ToSchema};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const COMPONENTS: &str = "#/components/schemas/";

/// Each file's name and text.
pub fn published() -> Result<Vec<(&'static str, String)>, Fault> {
    Ok(vec![
        ("agent.json", text::<Agent>("An agent as it is shown")?),
        ("agent-outputs.json", text::<AgentOutputs>("What an agent's run gives back")?),
        ("approval-card.json", text::<Card>("An approval as it is shown")?),
        ("guardrail.json", text::<Guardrail>("A guardrail")?),
        ("input-request.json", text::<InputRequest>("A question to people")?),
        ("profile.json", text::<Profile>("A profile")?),
        ("provider.json", text::<ProviderSpec>("A model provider")?),
        ("replay-bundle.json", text::<SealedBundle>("A replay bundle")?),
        ("standing-grant.json", text::<StandingGrant>("A standing grant")?),
        ("token-claims.json", text::<Claims>("The claims of a capability token")?),
        ("webhook-event.json", text::<Notice>("The body of a webhook")?),
        ("workflow.json", text::<Workflow>("A workflow")?),
    ])
}

fn text<T: ToSchema + PartialSchema>(title: &str) -> Result<String, Fault> {
    let mut others = Vec::new();
    T::schemas(&mut others);
    let own = T::name();
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), DIALECT.into());
    schema.insert("title".to_owned(), title.into());
    if let Value::Object(members) = serde_json::to_value(T::schema()).map_err(Fault::internal)? {
        schema.extend(members);
    }
    let mut definitions = Map::new();
    others.sort_by(|(left, _), (right, _)| left.cmp(right));
    for (name, other) in others.into_iter().filter(|(name, _)| *name != own) {
        definitions.insert(name, serde_json::to_value(other).map_err(Fault::internal)?);
    }
    let mut schema = joined(schema, &mut definitions);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let mut schema = Value::Object(schema);
    refer_within(&mut schema);
    let text = serde_json::to_string_pretty(&schema).map_err(Fault::internal)?;
    Ok(format!("{text}\n"))
}

/// A type with another one flattened into it is one object: of parts that are closed each, one would refuse the other's
/// members.
fn joined(mut schema: Map<String, Value>, definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(parts)) = schema.shift_remove("allOf") else { return schema };
    let (mut required, mut properties) = (Vec::new(), Map::new());
    for part in parts {
        let name = part.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(COMPONENTS));
        let part = name.and_then(|name| definitions.shift_remove(name)).unwrap_or(part);
        required.extend(part.get("required").and_then(Value::as_array).cloned().unwrap_or_default());
        properties.extend(part.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("required".to_owned(), Value::Array(required));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

/// What refers to the API's document refers to the schema's own definitions instead.
fn refer_within(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get_mut("$ref")
                && let Some(name) = reference.as_str().and_then(|text| text.strip_prefix(COMPONENTS))
            {
                *reference = json!(format!("#/$defs/{name}"));
            }
            members.values_mut().for_each(refer_within);
        }
        Value::Array(items) => items.iter_mut().for_each(refer_within),
        _ => {}
    }
}
