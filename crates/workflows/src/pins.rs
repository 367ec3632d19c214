//! What a pin gives: one call of an agent's run, chosen by a person beforehand.
//!
//! A pin never disappears. Without its call it gives what `on_missing` says, whatever became of the tool.

use serde_json::Value;
use toolgate_contracts::workflow::{OnMissing, PinSelector, PinStrategy, PinnedHandle};
use toolgate_contracts::{AgentOutputs, ErrorCode, FoldedName, ToolEnvelope, ToolError};

/// The call that a selector means.
pub fn selected<'o>(selector: &PinSelector, outputs: &'o AgentOutputs) -> Option<&'o ToolEnvelope> {
    let PinSelector { tool, strategy, call_id } = selector;
    let (name, version) = tool.split_once('@').map_or((tool.as_str(), None), |(name, version)| (name, Some(version)));
    let folded = FoldedName::of(name);
    let is_of_tool = |call: &&ToolEnvelope| {
        FoldedName::of(&call.name) == folded && version.is_none_or(|version| version == call.version)
    };
    let mut calls = outputs.calls().filter(is_of_tool);
    match strategy {
        PinStrategy::Latest => calls.next_back(),
        PinStrategy::FirstSuccess => calls.find(|call| call.succeeded()),
        PinStrategy::ByCallId => calls.find(|call| Some(&call.call_id) == call_id.as_ref()),
    }
}

/// A call that failed has no output, and is as good as none.
fn output_of(call: Option<&ToolEnvelope>) -> Option<&Value> {
    call.filter(|call| call.succeeded()).and_then(|call| call.output.as_ref())
}

/// Whether a pin gives what it gave before.
pub fn is_stale(pin: &PinnedHandle, outputs: &AgentOutputs) -> bool {
    pin.on_missing == OnMissing::StaleLastSuccess && output_of(selected(&pin.selector, outputs)).is_none()
}

/// The value of a pin after a run. `last` is what it gave when the same saved graph last succeeded.
pub fn value(pin: &PinnedHandle, outputs: &AgentOutputs, last: Option<&Value>) -> Result<Value, ToolError> {
    let PinnedHandle { name, selector, on_missing } = pin;
    let call = selected(selector, outputs);
    if let Some(output) = output_of(call) {
        return Ok(output.clone());
    }
    match on_missing {
        OnMissing::Null => Ok(Value::Null),
        OnMissing::StaleLastSuccess => Ok(last.cloned().unwrap_or(Value::Null)),
        OnMissing::Error => {
            let tool = &selector.tool;
            let message = match call.map(|call| (&call.call_id, &call.error)) {
                Some((id, Some(error))) => {
                    format!("the pin `{name}` has no value: the call {id} of `{tool}` failed: {}", error.message)
                }
                Some((id, None)) => format!("the pin `{name}` has no value: the call {id} of `{tool}` gave none"),
                None => format!("the pin `{name}` has no value: the agent made no such call of `{tool}`"),
            };
            let error = ToolError { code: ErrorCode::ValidationError, message, details: None, retry_after_s: None };
            Err(error.with("pin", name.as_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contracts::json;

    use super::*;

    fn outputs() -> AgentOutputs {
        let call = |id: &str, name: &str, output: Value| {
            let mut call = json!({
                "call_id": id, "name": name, "version": "1.0.0", "input": {},
                "t_start": "2026-01-01T00:00:00.000Z", "t_end": "2026-01-01T00:00:01.000Z",
            });
            if output.is_null() {
                call["error"] = json!({"code": "TIMEOUT", "message": "too slow"});
            } else {
                call["output"] = output;
            }
            json::decode::<ToolEnvelope>(call).unwrap()
        };
        let calls = [
            call("c_1", "web_search", Value::Null),
            call("c_2", "web_search", json!("first")),
            call("c_3", "http_get", json!("page")),
            call("c_4", "web_search", json!("last")),
            call("c_5", "http_get", Value::Null),
        ];
        AgentOutputs::of("done", calls, None)
    }

    #[test]
    fn three_strategies_give_three_values() {
        let check = |selector: Value, given: Result<Value, &str>| {
            let pin = json!({"name": "p", "selector": selector, "on_missing": "error"});
            let pin: PinnedHandle = json::decode(pin).unwrap();
            match (value(&pin, &outputs(), None), given) {
                (Ok(value), Ok(given)) => assert_eq!(value, given, "{pin:?}"),
                (Err(error), Err(told)) => assert!(error.message.contains(told), "{}", error.message),
                (value, given) => panic!("{value:?} is not {given:?}"),
            }
        };
        check(json!({"tool": "web_search"}), Ok(json!("last")));
        check(json!({"tool": "webSearch", "strategy": "first_success"}), Ok(json!("first")));
        check(json!({"tool": "web_search@1.0.0", "strategy": "by_call_id", "call_id": "c_2"}), Ok(json!("first")));
        check(json!({"tool": "web_search@2.0.0"}), Err("no such call"));
        check(json!({"tool": "web_search", "strategy": "by_call_id"}), Err("no such call"));
        check(json!({"tool": "web_search", "strategy": "by_call_id", "call_id": "c_3"}), Err("no such call"));
        check(json!({"tool": "http_get"}), Err("c_5 of `http_get` failed: too slow"));
        check(json!({"tool": "http_get", "strategy": "first_success"}), Ok(json!("page")));
    }

    #[test]
    fn a_missing_call_gives_what_the_pin_says() {
        let check = |on_missing: &str, last: Option<Value>, given: Option<Value>| {
            let pin = json!({"name": "p", "selector": {"tool": "gone"}, "on_missing": on_missing});
            let pin: PinnedHandle = json::decode(pin).unwrap();
            assert_eq!(value(&pin, &outputs(), last.as_ref()).ok(), given, "{on_missing} {last:?}");
        };
        check("null", Some(json!(1)), Some(Value::Null));
        check("error", Some(json!(1)), None);
        check("stale_last_success", Some(json!(1)), Some(json!(1)));
        check("stale_last_success", None, Some(Value::Null));
    }
}
