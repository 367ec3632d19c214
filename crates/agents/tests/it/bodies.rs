//! What is sent: the same bytes for the same tools, what a provider said back to it unchanged, nothing an author may not
//! set.

use serde_json::{Value, json};
use toolgate_agents::{ErrorKind, Form, Kind, Message, Own, Request, Said, ToolAnswer, ToolCall, ToolSchema};

use crate::world::{provider, request};

fn tool(name: &str) -> ToolSchema {
    ToolSchema { name: name.into(), description: format!("does {name}"), input: json!({"type": "object"}) }
}

/// A conversation with a call, as a provider of this kind said it.
fn conversation(own: Option<Own>) -> Request {
    let call = ToolCall { id: "c1".into(), name: "b".into(), arguments: "{\"x\":1}".into(), cut: false };
    Request {
        system: "be brief".into(),
        tools: vec![tool("b"), tool("a")],
        messages: vec![
            Message::User { text: "hello".into() },
            Message::Model(Said { text: "well".into(), calls: vec![call], own }),
            Message::Tools {
                answers: vec![ToolAnswer { call_id: "c1".into(), name: "b".into(), text: "no".into(), is_error: true }],
            },
        ],
        output_tokens_max: Some(77),
        cache_key: Some("agent-1".into()),
        ..request()
    }
}

fn body(kind: Kind, request: &Request) -> Value {
    provider(kind).body(request, Form::Streamed).unwrap().unwrap()
}

const KINDS: [Kind; 5] = [Kind::OpenaiChat, Kind::OpenaiResponses, Kind::Anthropic, Kind::Gemini, Kind::Xml];

#[test]
fn the_same_tools_in_another_order_are_the_same_bytes() {
    for kind in KINDS {
        let one = conversation(None);
        let mut other = one.clone();
        other.tools.reverse();
        assert_eq!(body(kind, &one).to_string(), body(kind, &other).to_string(), "{kind}");
    }
}

#[test]
fn a_conversation_is_told_in_each_provider_s_words() {
    #[track_caller]
    fn check(kind: Kind, pointer: &str, expected: Value) {
        let body = body(kind, &conversation(None));
        assert_eq!(body.pointer(pointer), Some(&expected), "{kind} {pointer} in {body}");
    }
    check(Kind::OpenaiChat, "/tools/0/function/name", json!("a"));
    check(Kind::OpenaiChat, "/messages/0", json!({"role": "system", "content": "be brief"}));
    check(Kind::OpenaiChat, "/messages/2/tool_calls/0/function/arguments", json!("{\"x\":1}"));
    check(Kind::OpenaiChat, "/messages/3", json!({"role": "tool", "tool_call_id": "c1", "content": "no"}));
    check(Kind::OpenaiChat, "/max_completion_tokens", json!(77));
    check(Kind::OpenaiChat, "/stream_options/include_usage", json!(true));
    check(Kind::OpenaiChat, "/prompt_cache_key", json!("agent-1"));
    check(Kind::OpenaiResponses, "/instructions", json!("be brief"));
    check(Kind::OpenaiResponses, "/store", json!(false));
    check(Kind::OpenaiResponses, "/input/2/call_id", json!("c1"));
    check(Kind::OpenaiResponses, "/input/3", json!({"type": "function_call_output", "call_id": "c1", "output": "no"}));
    check(Kind::Anthropic, "/system/0/cache_control", json!({"type": "ephemeral"}));
    check(
        Kind::Anthropic,
        "/tools/1",
        json!({"name": "b", "description": "does b", "input_schema": {"type": "object"}}),
    );
    check(Kind::Anthropic, "/messages/1/content/1/input", json!({"x": 1}));
    check(Kind::Anthropic, "/messages/2/content/0/is_error", json!(true));
    check(Kind::Anthropic, "/messages/2/content/0/cache_control", json!({"type": "ephemeral"}));
    check(Kind::Anthropic, "/max_tokens", json!(77));
    check(Kind::Gemini, "/tools/0/functionDeclarations/0/parametersJsonSchema", json!({"type": "object"}));
    check(Kind::Gemini, "/contents/1/parts/1", json!({"functionCall": {"name": "b", "args": {"x": 1}}}));
    check(Kind::Gemini, "/contents/2/parts/0", json!({"functionResponse": {"name": "b", "response": {"error": "no"}}}));
    check(Kind::Gemini, "/generationConfig/maxOutputTokens", json!(77));
    check(
        Kind::Xml,
        "/messages/2/content",
        json!("well\n<tool_call>\n{\"name\":\"b\",\"arguments\":{\"x\":1}}\n</tool_call>"),
    );
    check(
        Kind::Xml,
        "/messages/3/content",
        json!("<tool_response>\n{\"name\":\"b\",\"error\":\"no\"}\n</tool_response>"),
    );
    check(Kind::Xml, "/max_tokens", json!(77));
    assert!(body(Kind::Xml, &conversation(None)).get("tools").is_none());
    let system = body(Kind::Xml, &conversation(None))["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.starts_with("be brief\n\n") && system.contains("{\"name\":\"a\""), "{system}");
}

#[test]
fn what_a_provider_said_goes_back_unchanged_and_to_nobody_else() {
    #[track_caller]
    fn check(kind: Kind, own: Value, pointer: &str, expected: Value) {
        let said = |kind| conversation(Some(Own { kind, message: own.clone() }));
        assert_eq!(body(kind, &said(kind)).pointer(pointer), Some(&expected), "{kind}");
        for other in KINDS.into_iter().filter(|other| *other != kind) {
            let told = body(other, &said(kind)).to_string();
            assert!(!told.contains("s1g"), "{other} is told what is for {kind}: {told}");
            assert_eq!(told, body(other, &conversation(None)).to_string(), "{other}");
        }
    }
    let blocks = json!([{"type": "thinking", "thinking": "so", "signature": "s1g"}, {"type": "tool_use", "id": "c1", "name": "b", "input": {}}]);
    check(Kind::Anthropic, blocks.clone(), "/messages/1/content", blocks);
    let content = json!({"role": "model", "parts": [{"functionCall": {"name": "b", "args": {}, "id": "c1"}, "thoughtSignature": "s1g"}]});
    check(Kind::Gemini, content.clone(), "/contents/1", content.clone());
    let items = json!([{"type": "reasoning", "id": "r", "encrypted_content": "s1g"}, {"type": "function_call", "id": "f", "call_id": "c1"}]);
    check(Kind::OpenaiResponses, items.clone(), "/input/1", items[0].clone());
    let call = json!({"id": "c1", "type": "function", "function": {"name": "b", "arguments": "{}"}, "extra_content": {"google": "s1g"}});
    check(Kind::OpenaiChat, json!({"content": null, "tool_calls": [call]}), "/messages/2/tool_calls/0", call);
    // Ids that are theirs come back with the result, ours do not.
    let request = conversation(Some(Own { kind: Kind::Gemini, message: content }));
    assert_eq!(body(Kind::Gemini, &request).pointer("/contents/2/parts/0/functionResponse/id"), Some(&json!("c1")));
}

#[test]
fn reasoning_that_is_kept_nowhere_is_not_sent_back() {
    let items = json!([{"type": "reasoning", "id": "r", "encrypted_content": null}, {"type": "function_call", "id": "f", "call_id": "c1"}]);
    let request = conversation(Some(Own { kind: Kind::OpenaiResponses, message: items }));
    assert_eq!(body(Kind::OpenaiResponses, &request)["input"][1], json!({"type": "function_call", "call_id": "c1"}));
}

#[test]
fn broken_arguments_do_not_poison_the_conversation() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "b", "arguments": "{\"x\":"}});
    let own = Own { kind: Kind::OpenaiChat, message: json!({"content": null, "tool_calls": [call]}) };
    let body = body(Kind::OpenaiChat, &conversation(Some(own)));
    assert_eq!(body.pointer("/messages/2/tool_calls/0/function/arguments"), Some(&json!("{}")));
}

#[test]
fn an_author_may_add_parameters_and_replace_none() {
    for kind in KINDS {
        let with = |name: &str, value: Value| {
            let mut request = conversation(None);
            request.params.insert(name.into(), value);
            provider(kind).body(&request, Form::Streamed).unwrap()
        };
        assert_eq!(with("temperature", json!(0.5)).unwrap()["temperature"], json!(0.5), "{kind}");
        for reserved in ["model", "tools"] {
            let error = with(reserved, json!("x")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{kind} {reserved}");
            assert_eq!(error.error().details.as_ref().unwrap()["pointer"], format!("/model_params/{reserved}"));
        }
    }
    let mut request = conversation(None);
    request.params.insert("max_tokens".into(), json!(999_999));
    assert_eq!(body(Kind::Anthropic, &request)["max_tokens"], json!(77), "the run's limit stands");
    request.params.insert("max_tokens".into(), json!(5));
    assert_eq!(body(Kind::Anthropic, &request)["max_tokens"], json!(5), "the author's is stricter");
    let chat = body(Kind::OpenaiChat, &request);
    assert_eq!((&chat["max_completion_tokens"], chat.get("max_tokens")), (&json!(5), None));
    request.params.insert("generationConfig".into(), json!({"temperature": 0, "maxOutputTokens": 999_999}));
    assert_eq!(body(Kind::Gemini, &request)["generationConfig"], json!({"maxOutputTokens": 77, "temperature": 0}));
}

#[test]
fn a_request_reads_back_as_it_was_written() {
    let own = Own { kind: Kind::Anthropic, message: json!([{"type": "text", "text": "x"}]) };
    let request = conversation(Some(own));
    let written = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<Request>(&written).unwrap(), request);
}
