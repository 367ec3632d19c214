//! From the result of `tools/call` to a tool's result here: blocks with a form of their own have it, the others stay as
//! they came.

use serde_json::{Map, Value};
use toolgate_contracts::call::Content;
use toolgate_contracts::{ErrorCode, ToolError, ToolResult};
use toolgate_engine::Outcome;
use toolgate_engine::runner::Done;
use toolgate_vault::Redactor;

/// Blocks of one result.
const BLOCKS_MAX: usize = 10_000;

pub fn outcome(server: &str, result: Value) -> Outcome {
    let Value::Object(mut members) = result else { return unreadable(server, "it is no object") };
    match members.get("resultType").and_then(Value::as_str) {
        Some("input_required") => {
            let message = format!(
                "`{server}` asks for more before it goes on, and the operator lets it ask nobody; nothing was answered"
            );
            return Outcome::Failed(
                ToolError::because(ErrorCode::ProviderError, "refusal", message).with("server", server),
            );
        }
        Some("task") => return unreadable(server, "it is a task, and none was asked for"),
        _ => {}
    }
    let content = match members.shift_remove("content") {
        None => Vec::new(),
        Some(Value::Array(blocks)) if blocks.len() <= BLOCKS_MAX => blocks.into_iter().map(block).collect(),
        Some(Value::Array(_)) => return unreadable(server, "it has too many blocks"),
        Some(_) => return unreadable(server, "its `content` is no list"),
    };
    let is_error = members.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let structured = members.shift_remove("structuredContent").filter(|value| !value.is_null());
    let result = ToolResult { content, structured, is_error, app_data: None };
    Outcome::Done(Done { result, ..Done::default() })
}

/// Without what must not be told.
pub fn redacted(result: ToolResult, redactor: &Redactor) -> ToolResult {
    let ToolResult { content, structured, is_error, app_data } = result;
    let block = |block: Content| {
        let redacted = serde_json::to_value(&block).map(|value| redactor.redact_json(value));
        redacted
            .ok()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or(Content::Text { text: String::new() })
    };
    let redact = |value: Option<Value>| value.map(|value| redactor.redact_json(value));
    let (structured, app_data) = (redact(structured), redact(app_data));
    ToolResult { content: content.into_iter().map(block).collect(), structured, is_error, app_data }
}

fn unreadable(server: &str, why: &str) -> Outcome {
    let message = format!("`{server}` answered with a result that cannot be read: {why}");
    Outcome::Failed(ToolError::because(ErrorCode::ProviderError, "upstream_5xx", message).with("server", server))
}

fn block(block: Value) -> Content {
    let read = |members: &Map<String, Value>| {
        let text = |member: &str| members.get(member).and_then(Value::as_str).map(str::to_owned);
        // What it says beside, of whom it is for and where it came from, stays with it.
        let plain = !members.contains_key("annotations") && !members.contains_key("_meta");
        match members.get("type").and_then(Value::as_str)? {
            "text" if plain => Some(Content::Text { text: text("text")? }),
            "image" => Some(Content::Image { data: text("data")?, mime_type: text("mimeType")? }),
            "audio" => Some(Content::Audio { data: text("data")?, mime_type: text("mimeType")? }),
            _ => None,
        }
    };
    match block.as_object().and_then(read) {
        Some(content) => content,
        None => Content::Mcp { block },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_have_their_form_here_or_stay_as_they_came() {
        #[track_caller]
        fn check(given: Value, expected: Content) {
            assert_eq!(block(given.clone()), expected, "{given}");
        }
        check(json!({"type": "text", "text": "a"}), Content::Text { text: "a".into() });
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        check(image, Content::Image { data: "AA==".into(), mime_type: "image/png".into() });
        for odd in [
            json!({"type": "resource", "resource": {"uri": "a:b", "text": "c"}}),
            json!({"type": "text", "text": "a", "annotations": {"audience": ["nobody-known"]}}),
            json!({"type": "text", "text": 5}),
            json!({"type": "hologram"}),
            json!("text"),
        ] {
            check(odd.clone(), Content::Mcp { block: odd });
        }
    }

    #[test]
    fn a_result_is_read_or_refused_by_what_it_says() {
        let done = |result: Value| match outcome("files", result) {
            Outcome::Done(done) => Some(done.result),
            _ => None,
        };
        let whole = done(json!({"resultType": "complete", "content": [{"type": "text", "text": "{}"}],
            "structuredContent": {"a": 1}}))
        .unwrap();
        assert_eq!((whole.content.len(), whole.structured, whole.is_error), (1, Some(json!({"a": 1})), false));
        assert!(done(json!({"content": [], "isError": true})).unwrap().is_error);
        for wrong in [json!([]), json!({"content": {}}), json!({"resultType": "task", "taskId": "a"})] {
            assert!(done(wrong.clone()).is_none(), "{wrong}");
        }
        let Outcome::Failed(error) = outcome("files", json!({"resultType": "input_required"})) else { panic!() };
        assert_eq!(error.reason(), "refusal");
    }
}
