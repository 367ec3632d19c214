//! Seed 002's invocation protocol: the request, the signed answer, and the audit event.
//!
//! The specification shows an answer that went well and is silent on the rest; the codes here fill that, and stay. Signing
//! is `toolgate_policy`'s. Deliberately absent: an event's key id, since an event has nine members and no others; whoever
//! verifies tries the keys they hold.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::{Envelope, ErrorCode, Fault, Status, ToolError};
use toolgate_store::calls::CallRecord;
use utoipa::ToSchema;

use super::{object, waiting};

pub const CODE_OK: u8 = 0;
/// It waits for a person, or has not ended.
pub const CODE_PENDING: u8 = 10;
/// A person said no, or nobody decided in time.
pub const CODE_REJECTED: u8 = 11;
/// Under which member of a call's metadata the protocol's own members are kept.
pub const METADATA: &str = "tool_layer";
const REDACTED: &str = "[redacted]";

/// A request. What is not here is refused.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    pub request_id: String,
    /// The token's agent, or its subject where it has none.
    pub caller_id: String,
    /// The credential.
    pub capability_token: String,
    pub tool_id: String,
    /// Empty for a tool whose name has no dot.
    pub function_name: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub args: Map<String, Value>,
    /// `dry_run` is ours to obey; the rest is carried along.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}

impl Invocation {
    /// `tool_id.function_name`.
    pub fn tool(&self) -> String {
        if self.function_name.is_empty() {
            return self.tool_id.clone();
        }
        format!("{}.{}", self.tool_id, self.function_name)
    }

    pub fn is_dry_run(&self) -> bool {
        self.metadata.get("dry_run") == Some(&Value::Bool(true))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    Ok,
    Error,
    Denied,
    Pending,
}

impl AnswerStatus {
    pub const fn of(code: u8) -> Self {
        match code {
            CODE_OK => Self::Ok,
            4 | 5 | CODE_REJECTED => Self::Denied,
            CODE_PENDING => Self::Pending,
            _ => Self::Error,
        }
    }
}

/// The nine codes in the order in which their specification lists them.
pub const fn number_of(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::ValidationError => 1,
        ErrorCode::Timeout => 2,
        ErrorCode::RateLimit => 3,
        ErrorCode::PolicyDenied => 4,
        ErrorCode::AuthRequired => 5,
        ErrorCode::ProviderError => 6,
        ErrorCode::NetworkError => 7,
        ErrorCode::SandboxError => 8,
        ErrorCode::Unknown => 9,
    }
}

/// How a call stands, as one number.
pub fn result_code(status: Status, error: Option<&ToolError>) -> u8 {
    match (status, error) {
        (Status::Completed, None) => CODE_OK,
        (Status::Rejected, _) => CODE_REJECTED,
        (Status::Pending | Status::Approved | Status::Running, _) => CODE_PENDING,
        (_, Some(error)) => number_of(error.code),
        (Status::Cancelled, None) => number_of(ErrorCode::PolicyDenied),
        (Status::OutcomeUnknown, None) => number_of(ErrorCode::ProviderError),
        (Status::Failed, None) => number_of(ErrorCode::Unknown),
    }
}

/// An answer before it is signed, members in their order.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Answer {
    pub request_id: String,
    pub status: AnswerStatus,
    pub code: u8,
    /// What the tool gave; `{"error": ToolError}` where it gave nothing; `{"id", "status"}` where it waits.
    #[schema(value_type = Object)]
    pub output: Value,
}

/// As it is sent.
#[derive(ToSchema)]
pub struct SignedAnswer {
    pub request_id: String,
    pub status: AnswerStatus,
    /// 0 ok, 1 to 9 the error codes, 10 pending, 11 rejected.
    pub code: u8,
    #[schema(value_type = Object)]
    pub output: Value,
    /// Base64 of Ed25519 over `toolgate/response/v1`, a line feed, and the RFC 8785 form of the other members.
    pub signature: String,
}

impl Answer {
    pub fn of(request_id: &str, envelope: &Envelope) -> Self {
        let code = result_code(envelope.status, envelope.error.as_ref());
        let output = match (code, &envelope.error) {
            (CODE_PENDING, _) => json!({"id": envelope.id, "status": envelope.status}),
            (CODE_OK, _) => {
                let millis = (envelope.t_end.millis() - envelope.t_start.millis()).max(0);
                script_first(object(envelope.output.clone().unwrap_or_default()), millis)
            }
            (_, Some(error)) => json!({"error": error}),
            (_, None) => {
                json!({"error": ToolError { message: format!("the call is {}", envelope.status), ..waiting(envelope.status) }})
            }
        };
        Self::new(request_id, code, output)
    }

    /// A request that made no call.
    pub fn refused(request_id: &str, fault: &Fault) -> Self {
        let error = ToolError::of(fault);
        Self::new(request_id, number_of(error.code), json!({"error": error}))
    }

    fn new(request_id: &str, code: u8, output: Value) -> Self {
        Self { request_id: request_id.to_owned(), status: AnswerStatus::of(code), code, output }
    }

    /// Its members, for whoever signs.
    pub fn unsigned(&self) -> Map<String, Value> {
        object(serde_json::to_value(self).unwrap_or_default())
    }
}

/// A script's four members come first and in their order, whatever order they were kept in.
fn script_first(mut output: Map<String, Value>, millis: i64) -> Value {
    let is_script = ["exit_code", "stdout", "stderr"].iter().all(|name| output.contains_key(*name));
    if !is_script {
        return Value::Object(output);
    }
    output.entry("duration_ms").or_insert_with(|| millis.into());
    let first = ["exit_code", "stdout", "stderr", "duration_ms"];
    let mut ordered: Map<String, Value> = first.iter().filter_map(|name| output.shift_remove_entry(*name)).collect();
    ordered.extend(output);
    Value::Object(ordered)
}

/// An audit event before it is signed, members in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEvent {
    /// The id of the log's entry about the same.
    pub event_id: String,
    pub request_id: String,
    pub caller_id: String,
    pub tool_id: String,
    pub function_name: String,
    pub args: Map<String, Value>,
    pub result_code: u8,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// As it is given out.
#[derive(ToSchema)]
pub struct SignedAuditEvent {
    pub event_id: String,
    pub request_id: String,
    pub caller_id: String,
    pub tool_id: String,
    pub function_name: String,
    #[schema(value_type = Object)]
    pub args: Value,
    pub result_code: u8,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Base64 of HMAC-SHA-256 over the RFC 8785 form of the other members.
    pub signature: String,
}

impl AuditEvent {
    /// Of a call by whatever door it came. `schema` is its tool's, which says what must not be shown.
    pub fn of(record: &CallRecord, schema: Option<&Value>) -> Self {
        let said = |member: &str| {
            let kept = record.metadata.as_ref().and_then(|metadata| metadata.get(METADATA)?.get(member)?.as_str());
            kept.map(str::to_owned)
        };
        let caller = || record.agent.map_or_else(|| record.principal.to_string(), |agent| agent.to_string());
        let (tool_id, function_name) = parts_of(&record.tool_name);
        let mut args = record.input.clone().unwrap_or_default();
        if let Some(schema) = schema {
            redact(&mut args, schema);
        }
        Self {
            event_id: record.id.to_string(),
            request_id: said("request_id").unwrap_or_else(|| record.id.to_string()),
            caller_id: said("caller_id").unwrap_or_else(caller),
            tool_id,
            function_name,
            args: object(args),
            result_code: result_code(record.status, record.error.as_ref()),
            timestamp: record.completed_at.unwrap_or(record.created_at).millis(),
        }
    }

    /// Its members, for whoever signs.
    pub fn unsigned(&self) -> Map<String, Value> {
        object(serde_json::to_value(self).unwrap_or_default())
    }
}

/// `tool_id` and `function_name` of a name.
fn parts_of(name: &str) -> (String, String) {
    let (tool, function) = name.split_once('.').unwrap_or((name, ""));
    (tool.to_owned(), function.to_owned())
}

/// How many parts of a schema are looked at for one value: references may go in circles.
const STEPS_MAX: usize = 100_000;

/// Hides what a schema marks as `writeOnly`, or as a `password`; what is too tangled to tell is hidden too.
struct Redaction<'s> {
    root: &'s Value,
    steps: usize,
}

impl Redaction<'_> {
    fn hide(&mut self, value: &mut Value, schema: &Value, depth: usize) {
        self.steps += 1;
        let tangled = self.steps > STEPS_MAX || depth > 2 * toolgate_contracts::json::DEPTH_MAX;
        if tangled || schema["writeOnly"] == true || schema["format"] == "password" {
            *value = REDACTED.into();
            return;
        }
        let root = self.root;
        if let Some(target) = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?)) {
            self.hide(value, target, depth + 1);
        }
        for combined in ["allOf", "anyOf", "oneOf"] {
            for part in schema[combined].as_array().into_iter().flatten() {
                self.hide(value, part, depth + 1);
            }
        }
        for branch in ["if", "then", "else"] {
            if schema[branch].is_object() {
                self.hide(value, &schema[branch], depth + 1);
            }
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let part = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                    if part.is_object() {
                        self.hide(member, part, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let part = schema["prefixItems"].get(index).unwrap_or(&schema["items"]);
                    if part.is_object() {
                        self.hide(item, part, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
}

fn redact(value: &mut Value, schema: &Value) {
    Redaction { root: schema, steps: 0 }.hide(value, schema, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_marks_is_not_shown() {
        let schema = json!({
            "$defs": {"secret": {"type": "string", "writeOnly": true}},
            "properties": {
                "password": {"type": "string", "format": "password"},
                "open": {"type": "string"},
                "list": {"type": "array", "items": {"properties": {"token": {"$ref": "#/$defs/secret"}}}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string", "writeOnly": true}]},
            },
            "additionalProperties": {"writeOnly": true},
        });
        let mut value = json!({
            "password": "hunter2", "open": "here", "list": [{"token": "t", "name": "n"}], "either": "s", "more": {"a": 1},
        });
        redact(&mut value, &schema);
        let hidden = json!({
            "password": REDACTED, "open": "here", "list": [{"token": REDACTED, "name": "n"}], "either": REDACTED,
            "more": REDACTED,
        });
        assert_eq!(value, hidden);
    }

    #[test]
    fn a_schema_in_a_circle_ends_and_shows_nothing() {
        let schema = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
        let mut value = json!({"a": 1});
        redact(&mut value, &schema);
        assert_eq!(value, json!(REDACTED));
    }

    #[test]
    fn every_code_has_its_number_and_its_word() {
        let words = [
            (0, AnswerStatus::Ok),
            (1, AnswerStatus::Error),
            (2, AnswerStatus::Error),
            (3, AnswerStatus::Error),
            (4, AnswerStatus::Denied),
            (5, AnswerStatus::Denied),
            (6, AnswerStatus::Error),
            (7, AnswerStatus::Error),
            (8, AnswerStatus::Error),
            (9, AnswerStatus::Error),
            (10, AnswerStatus::Pending),
            (11, AnswerStatus::Denied),
        ];
        for (code, word) in words {
            assert_eq!(AnswerStatus::of(code), word, "{code}");
        }
        for status in Status::ALL {
            let code = result_code(*status, None);
            assert_eq!(code == CODE_OK, *status == Status::Completed, "{status}");
        }
    }

    #[test]
    fn a_name_without_a_dot_has_no_function() {
        assert_eq!(parts_of("monorepo_cli.run_script"), ("monorepo_cli".to_owned(), "run_script".to_owned()));
        assert_eq!(parts_of("echo"), ("echo".to_owned(), String::new()));
    }
}
