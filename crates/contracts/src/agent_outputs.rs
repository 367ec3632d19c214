//! What an agent's run gives back (seed 003's `AgentOutputs`, exact), whatever it was configured with.
//!
//! Deliberately absent: ids, labels, costs and receipts. Those are Toolgate's own and are read with the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::{Attachment, Envelope};
use crate::clock::Timestamp;
use crate::fault::ToolError;

/// The names of the outputs that every agent has, in the order of the seed.
pub const AGENT_OUTPUTS: [&str; 5] = ["response", "tools_by_id", "tool_order", "last_tool", "traces_url"];

/// Five outputs, the same for every agent. Optional ones are left out, never `null`; readers take `null` too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentOutputs {
    /// The last text of the model.
    pub response: String,
    /// Every call by its `call_id`.
    pub tools_by_id: BTreeMap<String, ToolEnvelope>,
    /// `call_id`s in the order of start, ties by the order in which they were asked for.
    pub tool_order: Vec<String>,
    /// The last one in `tool_order` that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<ToolEnvelope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
}

impl AgentOutputs {
    /// `calls` are in the order of start. A `call_id` that comes twice keeps its first place and its last state.
    pub fn of(
        response: impl Into<String>,
        calls: impl IntoIterator<Item = ToolEnvelope>,
        traces_url: Option<String>,
    ) -> Self {
        let mut outputs = Self { response: response.into(), traces_url, ..Self::default() };
        for call in calls {
            if !outputs.tools_by_id.contains_key(&call.call_id) {
                outputs.tool_order.push(call.call_id.clone());
            }
            outputs.tools_by_id.insert(call.call_id.clone(), call);
        }
        let last = outputs.calls().rev().find(|call| call.succeeded()).cloned();
        Self { last_tool: last, ..outputs }
    }

    /// The calls in the order of start.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ToolEnvelope> {
        self.tool_order.iter().filter_map(|id| self.tools_by_id.get(id))
    }
}

/// One call as seed 003 spells it: its eleven members and no others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEnvelope {
    pub call_id: String,
    pub name: String,
    pub version: String,
    #[schema(value_type = Value)]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    pub t_start: Timestamp,
    pub t_end: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_nothing")]
    pub cached: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_nothing")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_nothing")]
    pub attachments: Vec<Attachment>,
}

impl ToolEnvelope {
    pub const fn succeeded(&self) -> bool {
        self.error.is_none()
    }
}

impl From<&Envelope> for ToolEnvelope {
    fn from(envelope: &Envelope) -> Self {
        let Envelope { call_id, name, version, input, output, error, t_start, t_end, .. } = envelope.clone();
        let Envelope { cached, truncated, attachments, .. } = envelope;
        Self {
            call_id,
            name,
            version,
            input,
            output,
            error,
            t_start,
            t_end,
            cached: *cached,
            truncated: *truncated,
            attachments: attachments.clone(),
        }
    }
}

/// The seed's comments say `null` where its types say absent: both are read.
fn or_nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json;

    fn call(id: &str, failed: bool) -> Value {
        let mut call = json!({
            "call_id": id, "name": "web_search", "version": "1.2.0", "input": {"q": "x"},
            "t_start": "2026-01-01T00:00:00.000Z", "t_end": "2026-01-01T00:00:01.000Z",
        });
        if failed {
            call["error"] = json!({"code": "TIMEOUT", "message": "too slow"});
        } else {
            call["output"] = json!({"hits": []});
        }
        call
    }

    fn read(call: Value) -> ToolEnvelope {
        json::decode(call).unwrap()
    }

    #[test]
    fn the_last_tool_is_the_last_that_succeeded() {
        let calls = [call("c_1", false), call("c_2", false), call("c_3", true)].map(read);
        let outputs = AgentOutputs::of("done", calls, None);
        assert_eq!(outputs.tool_order, ["c_1", "c_2", "c_3"]);
        assert_eq!(outputs.last_tool.unwrap().call_id, "c_2");
    }

    #[test]
    fn members_stand_in_the_order_of_the_seed_and_absent_ones_are_left_out() {
        let outputs = AgentOutputs::of("done", [read(call("c_1", true))], None);
        let text = serde_json::to_string(&outputs).unwrap();
        assert_eq!(
            text,
            r#"{"response":"done","tools_by_id":{"c_1":{"call_id":"c_1","name":"web_search","version":"1.2.0","input":{"q":"x"},"error":{"code":"TIMEOUT","message":"too slow"},"t_start":"2026-01-01T00:00:00.000Z","t_end":"2026-01-01T00:00:01.000Z"}},"tool_order":["c_1"]}"#
        );
        assert_eq!(json::decode::<AgentOutputs>(serde_json::from_str(&text).unwrap()).unwrap(), outputs);
    }

    #[test]
    fn null_is_read_as_absent_and_an_unknown_member_is_refused() {
        let mut written = call("c_1", false);
        for member in ["error", "cached", "truncated", "attachments"] {
            written[member] = Value::Null;
        }
        assert_eq!(read(written.clone()), read(call("c_1", false)));
        written["cost"] = json!("1.00");
        assert!(json::decode::<ToolEnvelope>(written).unwrap_err().message.contains("cost"));
    }
}
