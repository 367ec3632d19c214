//! What a model or an agent says, as what a tool promises: a text in its place, or JSON that its schema describes.

use serde_json::{Value, json};
use toolgate_contracts::agent_outputs::AgentOutputs;
use toolgate_contracts::{CallId, ErrorCode, Fault, RunId, TenantId, ToolError, json as strict};
use toolgate_registry::schema::Validator;

use crate::host::Host;

/// Problems of an answer that are told to the model.
const PROBLEMS_MAX: usize = 5;

/// What a tool promises to give.
pub(super) enum Wanted<'a> {
    /// `{"text": …}`: the answer as it is said.
    Text,
    /// `{"response": …}`, and where there is a place for it `run_id`: an agent's answer as it is said.
    Response,
    /// JSON that this schema describes.
    Json(&'a Value),
}

impl<'a> Wanted<'a> {
    pub fn of(schema: Option<&'a Value>) -> Self {
        let Some(schema) = schema else { return Self::Text };
        let is_text = |name: &str| schema.pointer(&format!("/properties/{name}/type")) == Some(&json!("string"));
        let properties = schema.get("properties").and_then(Value::as_object);
        let only = |names: &[&str]| {
            properties.is_none_or(|properties| properties.keys().all(|name| names.contains(&name.as_str())))
        };
        if is_text("response") && only(&["response", "run_id"]) {
            Self::Response
        } else if is_text("text") && only(&["text"]) {
            Self::Text
        } else if properties.is_none_or(serde_json::Map::is_empty) && schema.get("$ref").is_none() {
            // Any object will do.
            Self::Text
        } else {
            Self::Json(schema)
        }
    }

    /// How the model is told what to write.
    pub fn instruction(&self) -> Option<String> {
        match self {
            Self::Text | Self::Response => None,
            Self::Json(schema) => Some(format!(
                "Answer with one JSON value and nothing else: no words around it, no code fence. It matches this JSON Schema:\n{schema}"
            )),
        }
    }

    pub fn may_be_wrong(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// The answer as the tool gives it, or what is wrong with it.
    pub fn read(&self, said: &str, validator: Option<&Validator>) -> Result<Value, String> {
        match self {
            Self::Text => Ok(json!({"text": said})),
            Self::Response => Ok(json!({"response": said})),
            Self::Json(_) => {
                let value = read_json(said)?;
                let violations = validator.map(|validator| validator.validate(&value));
                let violations = violations.unwrap_or_default();
                if violations.is_empty() {
                    return Ok(value);
                }
                let told: Vec<String> = violations
                    .iter()
                    .take(PROBLEMS_MAX)
                    .map(|violation| format!("at `{}`: {}", violation.pointer, violation.message))
                    .collect();
                Err(told.join("; "))
            }
        }
    }
}

/// JSON, in a code fence too: models write one whatever they are told.
fn read_json(said: &str) -> Result<Value, String> {
    let said = said.trim();
    let inner = said.strip_prefix("```json").or_else(|| said.strip_prefix("```"));
    let inner = inner.and_then(|inner| inner.trim_end().strip_suffix("```")).unwrap_or(said);
    strict::read(inner.trim().as_bytes(), strict::CALL_BYTES_MAX).map_err(|error| format!("it is no JSON: {error}"))
}

impl Host {
    /// What an agent's run gives to the call that it answers, as the call's tool promises it.
    pub(crate) async fn output_for(
        &self,
        tenant: TenantId,
        call: CallId,
        run: RunId,
        outputs: &AgentOutputs,
    ) -> Result<Result<Value, ToolError>, Fault> {
        let Some(record) = self.store().call(tenant, call).await? else { return Err(Fault::not_found("call", call)) };
        let snapshot = self.registry().snapshot();
        let tool = snapshot.tenant(tenant)?.tool_by_id(record.tool);
        let version = tool.and_then(|tool| tool.tool.version(&record.tool_version.parse().ok()?).cloned());
        let schema = version.as_ref().and_then(|version| version.definition.output_schema.as_ref());
        let output = match (schema, Wanted::of(schema)) {
            (None, _) | (_, Wanted::Response) => {
                Ok(fitting(schema, json!({"response": outputs.response, "run_id": run})))
            }
            (_, Wanted::Text) => Ok(json!({"text": outputs.response})),
            // The gate looks at it once more, and says what does not match.
            (_, Wanted::Json(_)) => read_json(&outputs.response),
        };
        Ok(output.map_err(|problem| {
            let message = format!("the agent's answer is not what the tool promises: {problem}");
            ToolError::because(ErrorCode::ProviderError, "output_schema", message)
        }))
    }
}

/// Of an answer of ours the members that a closed schema has a place for.
pub(super) fn fitting(schema: Option<&Value>, mut answer: Value) -> Value {
    let Some(schema) = schema.filter(|schema| schema.get("additionalProperties") == Some(&json!(false))) else {
        return answer;
    };
    if let (Value::Object(members), Some(places)) = (&mut answer, schema.get("properties").and_then(Value::as_object)) {
        members.retain(|name, _| places.contains_key(name));
    }
    answer
}
