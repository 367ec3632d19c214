//! Guardrails: what a tenant has arguments and results examined for, and what a detector answers.
//!
//! Deliberately absent: what a builtin detector accepts as `config`; the detectors themselves know it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::definition::words;
use crate::name::{Slug, ToolName};

words! {
    /// When it looks: at the arguments before anything runs, or at the result before anybody reads it.
    Stage { ToolCall = "TOOL_CALL", ToolResult = "TOOL_RESULT" }
}
words! { DetectorKind { Builtin = "builtin", Tool = "tool", Wasm = "wasm" } }
words! {
    /// Mildest first. On a result the effect has happened: `ask` then withholds it until a person has looked.
    OnMatch { Ask = "ask", Tripwire = "tripwire" }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Guardrail {
    #[serde(default = "first_version")]
    pub version: u32,
    #[schema(value_type = String)]
    pub name: Slug,
    /// The lowest looks first; equal ones by name.
    #[serde(default)]
    pub order: i32,
    pub stage: Stage,
    /// Names or `name@version`; absent: every tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    pub detector: DetectorUse,
    pub on_match: OnMatch,
    /// A match is recorded and stops nothing.
    #[serde(default)]
    pub log_only: bool,
}

const fn first_version() -> u32 {
    1
}

/// Which detector looks, and with which settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DetectorUse {
    pub kind: DetectorKind,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
}

/// What a detector that is a tool or a plug-in is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Examined {
    pub stage: Stage,
    #[schema(value_type = String)]
    pub tool: ToolName,
    #[schema(value_type = Object)]
    pub value: Value,
}

/// What a detector answers. INVARIANT of ours, and asked of others: `reason` never quotes the value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DetectorFinding)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub matched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON Pointers of what matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json;

    #[test]
    fn a_guardrail_reads_back_as_it_is_written() {
        let written = json!({
            "version": 1, "name": "no-keys", "order": 10, "stage": "TOOL_CALL", "tools": ["http_get"],
            "detector": {"kind": "builtin", "name": "secrets", "config": {"kinds": ["aws"]}},
            "on_match": "tripwire", "log_only": false,
        });
        let guardrail: Guardrail = json::decode(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(guardrail).unwrap(), written);
    }

    #[test]
    fn a_member_that_is_not_known_is_refused() {
        let detector = json!({"kind": "builtin", "name": "size"});
        let written =
            json!({"name": "a", "stage": "TOOL_RESULT", "detector": detector, "on_match": "ask", "severity": "high"});
        assert!(json::decode::<Guardrail>(written).unwrap_err().message.contains("severity"));
    }
}
