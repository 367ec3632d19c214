//! Answers made up in every provider's form, whole and in pieces: both are the turn that was meant.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_agents::{ErrorKind, Kind, Stop, Turn};

use crate::world::{streamed, whole};

const KINDS: [Kind; 5] = [Kind::OpenaiChat, Kind::OpenaiResponses, Kind::Anthropic, Kind::Gemini, Kind::Xml];

/// What a model means to say.
#[derive(Clone, Debug)]
struct Meant {
    text: String,
    calls: Vec<(String, Value)>,
    length: bool,
    input: u64,
    cached: u64,
    output: u64,
}

impl Meant {
    fn stop(&self) -> Stop {
        match (self.length, self.calls.is_empty()) {
            (true, _) => Stop::Length,
            (false, true) => Stop::End,
            (false, false) => Stop::Tool,
        }
    }

    #[track_caller]
    fn check(&self, kind: Kind, turn: &Turn) {
        assert_eq!((turn.kind, turn.stop), (kind, self.stop()));
        assert_eq!((turn.usage.input, turn.usage.cached, turn.usage.output), (self.input, self.cached, self.output));
        // The prompted form has text around its marks.
        assert_eq!(turn.text.trim_end_matches('\n'), self.text.trim_end_matches('\n'));
        let calls: Vec<_> = turn.calls.iter().map(|call| (call.name.clone(), call.input())).collect();
        assert_eq!(calls.len(), self.calls.len());
        let last = calls.len().wrapping_sub(1);
        for (at, ((name, input), (expected_name, expected))) in calls.iter().zip(&self.calls).enumerate() {
            assert_eq!(name, expected_name);
            if self.length && at == last {
                assert!(input.is_err(), "what may be cut off is not read");
            } else {
                assert_eq!(input.as_ref().unwrap(), expected);
            }
        }
    }
}

fn meant() -> impl Strategy<Value = Meant> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        "[a-z<>\"\\\\\u{e9}\u{1f600} \n]{0,8}".prop_map(Value::from),
    ];
    let input = prop::collection::btree_map("[a-z]{1,4}", leaf, 0..4).prop_map(|members| json!(members));
    let calls = prop::collection::vec(("[a-z_]{1,8}", input), 0..4);
    let text = "[a-z<>/_\u{e9}\u{1f600} \n]{0,40}";
    (text, calls, prop::bool::weighted(0.2), 0u64..10_000, 0u64..100, 0u64..10_000).prop_map(
        |(text, calls, length, input, cached, output)| {
            let cached = cached.min(input);
            // Marks that were meant as text are not to be told from others.
            let text = text.replace("<tool_call>", "");
            Meant { text, calls, length, input, cached, output }
        },
    )
}

/// In pieces of a few letters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(size.max(1)).map(|piece| piece.iter().collect()).collect()
}

fn events(list: &[Value]) -> Vec<u8> {
    let mut stream = String::new();
    for event in list {
        let _ = write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"));
    }
    stream.into_bytes()
}

/// Without names.
fn plain_events<'v>(list: impl IntoIterator<Item = &'v Value>, line_end: &str) -> String {
    list.into_iter().map(|event| ["data: ", &event.to_string(), line_end, line_end].concat()).collect()
}

/// The answer whole, and as a stream.
fn rendered(kind: Kind, meant: &Meant, size: usize) -> (Value, Vec<u8>) {
    match kind {
        Kind::OpenaiChat => chat(meant, &meant.text, &meant.calls, size),
        Kind::Xml => {
            let mut text = meant.text.clone();
            for (name, input) in &meant.calls {
                let call = json!({"name": name, "arguments": input});
                let _ = write!(text, "\n<tool_call>\n{call}\n</tool_call>");
            }
            chat(meant, &text, &[], size)
        }
        Kind::OpenaiResponses => responses(meant, size),
        Kind::Anthropic => messages(meant, size),
        Kind::Gemini => contents(meant, size),
        Kind::Scripted => unreachable!(),
    }
}

fn chat(meant: &Meant, text: &str, calls: &[(String, Value)], size: usize) -> (Value, Vec<u8>) {
    let usage = json!({"prompt_tokens": meant.input, "completion_tokens": meant.output,
        "prompt_tokens_details": {"cached_tokens": meant.cached}});
    let finish = match (meant.length, calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    let whole_calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, input))| {
            json!({"id": format!("c{at}"), "type": "function", "function": {"name": name, "arguments": input.to_string()}})
        })
        .collect();
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !calls.is_empty() {
        message["tool_calls"] = json!(whole_calls);
    }
    let whole =
        json!({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage});
    let chunk = |delta: Value, finish: Value| json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let first = if text.is_empty() { Value::Null } else { json!("") };
    let mut list = vec![chunk(json!({"role": "assistant", "content": first}), Value::Null)];
    list.extend(pieces(text, size).into_iter().map(|piece| chunk(json!({"content": piece}), Value::Null)));
    for (at, (name, input)) in calls.iter().enumerate() {
        let begin = json!({"index": at, "id": format!("c{at}"), "type": "function", "function": {"name": name, "arguments": ""}});
        list.push(chunk(json!({"tool_calls": [begin]}), Value::Null));
        for piece in pieces(&input.to_string(), size) {
            let piece = json!({"index": at, "function": {"arguments": piece}});
            list.push(chunk(json!({"tool_calls": [piece]}), Value::Null));
        }
    }
    list.push(chunk(json!({}), json!(finish)));
    list.push(json!({"model": "m", "choices": [], "usage": usage}));
    let mut stream = plain_events(&list, "\n");
    stream += "data: [DONE]\n\n";
    (whole, stream.into_bytes())
}

fn responses(meant: &Meant, size: usize) -> (Value, Vec<u8>) {
    let mut output = Vec::new();
    let mut list = vec![json!({"type": "response.created", "response": {}})];
    if !meant.text.is_empty() {
        for piece in pieces(&meant.text, size) {
            list.push(json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}));
        }
        let part = json!({"type": "output_text", "text": meant.text, "annotations": []});
        output.push(json!({"type": "message", "id": "m0", "role": "assistant", "content": [part]}));
        list.push(json!({"type": "response.output_item.done", "output_index": 0, "item": output[0]}));
    }
    for (name, input) in &meant.calls {
        let at = output.len();
        let mut item = json!({"type": "function_call", "id": format!("f{at}"), "call_id": format!("c{at}"), "name": name, "arguments": ""});
        list.push(json!({"type": "response.output_item.added", "output_index": at, "item": item}));
        for piece in pieces(&input.to_string(), size) {
            list.push(json!({"type": "response.function_call_arguments.delta", "output_index": at, "delta": piece}));
        }
        item["arguments"] = json!(input.to_string());
        list.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        output.push(item);
    }
    let status = if meant.length { "incomplete" } else { "completed" };
    let whole = json!({"model": "m", "status": status, "error": null, "output": output,
        "incomplete_details": meant.length.then(|| json!({"reason": "max_output_tokens"})),
        "usage": {"input_tokens": meant.input, "output_tokens": meant.output,
            "input_tokens_details": {"cached_tokens": meant.cached}}});
    list.push(json!({"type": format!("response.{status}"), "response": whole}));
    (whole, events(&list))
}

fn messages(meant: &Meant, size: usize) -> (Value, Vec<u8>) {
    let stop = match (meant.length, meant.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    };
    let usage = json!({"input_tokens": meant.input - meant.cached, "cache_read_input_tokens": meant.cached,
        "cache_creation_input_tokens": 0, "output_tokens": meant.output});
    let mut content = vec![json!({"type": "thinking", "thinking": "so", "signature": "s1g"})];
    let mut list = vec![
        json!({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": meant.input - meant.cached,
            "cache_read_input_tokens": meant.cached, "cache_creation_input_tokens": 0, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "so"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s1g"}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    if !meant.text.is_empty() {
        list.push(json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}));
        for piece in pieces(&meant.text, size) {
            list.push(
                json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": piece}}),
            );
        }
        list.push(json!({"type": "content_block_stop", "index": 1}));
        content.push(json!({"type": "text", "text": meant.text}));
    }
    for (name, input) in &meant.calls {
        let at = content.len();
        let mut block = json!({"type": "tool_use", "id": format!("c{at}"), "name": name, "input": {}});
        list.push(json!({"type": "content_block_start", "index": at, "content_block": block}));
        // A space within, as the model writes it.
        let written = input.to_string().replacen(':', ": ", 1);
        let written = if input.as_object().unwrap().is_empty() { String::new() } else { written };
        for piece in pieces(&written, size) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            list.push(json!({"type": "content_block_delta", "index": at, "delta": delta}));
        }
        list.push(json!({"type": "content_block_stop", "index": at}));
        block["input"] = input.clone();
        content.push(block);
    }
    list.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": meant.output}}),
    );
    list.push(json!({"type": "message_stop"}));
    let whole = json!({"type": "message", "model": "m", "content": content, "stop_reason": stop, "usage": usage});
    (whole, events(&list))
}

fn contents(meant: &Meant, size: usize) -> (Value, Vec<u8>) {
    let usage = json!({"promptTokenCount": meant.input, "cachedContentTokenCount": meant.cached,
        "candidatesTokenCount": meant.output});
    let finish = if meant.length { "MAX_TOKENS" } else { "STOP" };
    let mut parts = Vec::new();
    let mut list = Vec::new();
    let chunk =
        |part: &Value| json!({"modelVersion": "m", "candidates": [{"content": {"role": "model", "parts": [part]}}]});
    if !meant.text.is_empty() {
        list.extend(pieces(&meant.text, size).iter().map(|piece| chunk(&json!({"text": piece}))));
        parts.push(json!({"text": meant.text}));
    }
    for (name, input) in &meant.calls {
        let part = json!({"functionCall": {"name": name, "args": input}, "thoughtSignature": "s1g"});
        list.push(chunk(&part));
        parts.push(part);
    }
    let end = json!({"modelVersion": "m", "candidates": [{"finishReason": finish}], "usageMetadata": usage});
    list.push(end);
    let whole = json!({"modelVersion": "m", "usageMetadata": usage,
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]});
    let stream = plain_events(&list, "\r\n");
    (whole, stream.into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whole_or_in_pieces_an_answer_is_the_same_turn(meant in meant(), size in 1usize..12, cut in 1usize..60) {
        for kind in KINDS {
            let (document, stream) = rendered(kind, &meant, size);
            let from_whole = whole(kind, document.to_string().as_bytes()).unwrap();
            meant.check(kind, &from_whole);
            let (_, from_stream) = streamed(kind, stream.chunks(cut));
            prop_assert_eq!(from_stream.unwrap(), from_whole, "{}", kind);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..4000) {
        let meant = Meant { text: "abc".into(), calls: vec![("t".into(), json!({"a": 1}))], length: false, input: 1, cached: 0, output: 1 };
        for kind in KINDS {
            let _ = whole(kind, &bytes);
            // In the middle of something that makes sense, too.
            let (document, mut stream) = rendered(kind, &meant, 2);
            let at = at % stream.len();
            stream.splice(at..at, bytes.iter().copied());
            let _ = streamed(kind, stream.chunks(13));
            let mut document = document.to_string().into_bytes();
            let at = at % document.len();
            document.truncate(at);
            prop_assert!(whole(kind, &document).is_err());
        }
    }
}

#[test]
fn what_is_no_answer_says_so_and_what_is_wrong_in_one_is_told() {
    #[track_caller]
    fn check(kind: Kind, body: Value, expected: ErrorKind) {
        assert_eq!(whole(kind, body.to_string().as_bytes()).unwrap_err().kind(), expected, "{kind} {body}");
    }
    for kind in KINDS {
        check(kind, json!({}), ErrorKind::Unreadable);
        check(kind, json!([]), ErrorKind::Unreadable);
        assert_eq!(whole(kind, b"<html>").unwrap_err().kind(), ErrorKind::Unreadable);
    }
    check(Kind::OpenaiChat, json!({"error": {"code": "rate_limit_exceeded"}}), ErrorKind::RateLimited);
    check(
        Kind::OpenaiResponses,
        json!({"status": "failed", "output": [], "error": {"code": "server_error"}}),
        ErrorKind::Failed,
    );
    check(Kind::Anthropic, json!({"type": "error", "error": {"type": "overloaded_error"}}), ErrorKind::Overloaded);
    let malformed = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call:x{"}]});
    check(Kind::Gemini, malformed, ErrorKind::Unreadable);
}

#[test]
fn an_error_within_a_stream_ends_it_with_its_kind() {
    #[track_caller]
    fn check(kind: Kind, event: Value, expected: ErrorKind) {
        let stream = format!("data: {event}\n\n");
        assert_eq!(streamed(kind, [stream.as_bytes()]).1.unwrap_err().kind(), expected, "{kind} {event}");
    }
    check(Kind::Anthropic, json!({"type": "error", "error": {"type": "overloaded_error"}}), ErrorKind::Overloaded);
    check(Kind::OpenaiChat, json!({"error": {"message": "x", "code": 503}}), ErrorKind::Overloaded);
    check(Kind::OpenaiChat, json!({"error": "x"}), ErrorKind::Failed);
    check(
        Kind::OpenaiResponses,
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "x"}),
        ErrorKind::RateLimited,
    );
    check(Kind::Gemini, json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}), ErrorKind::RateLimited);
}

#[test]
fn refusals_of_every_form_are_refusals_and_run_nothing() {
    #[track_caller]
    fn check(kind: Kind, body: Value, text: &str) {
        let turn = whole(kind, body.to_string().as_bytes()).unwrap();
        assert_eq!((turn.stop, turn.text.as_str(), turn.calls.len()), (Stop::Refusal, text, 0), "{kind}");
        assert_eq!(turn.refusal().unwrap().error().reason(), "refusal");
    }
    check(Kind::OpenaiChat, json!({"choices": [{"message": {"refusal": "no"}, "finish_reason": "stop"}]}), "no");
    check(
        Kind::OpenaiResponses,
        json!({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]}),
        "no",
    );
    check(Kind::Anthropic, json!({"content": [], "stop_reason": "refusal"}), "");
    check(Kind::Gemini, json!({"promptFeedback": {"blockReason": "SAFETY"}}), "");
    let call = json!({"functionCall": {"name": "x", "args": {}}});
    check(Kind::Gemini, json!({"candidates": [{"content": {"parts": [call]}, "finishReason": "SAFETY"}]}), "");
}

#[test]
fn servers_that_speak_almost_alike_are_understood() {
    #[track_caller]
    fn check(calls: &[Value], expected: &[(&str, &str, &str)]) {
        let mut list: Vec<Value> =
            calls.iter().map(|call| json!({"choices": [{"delta": {"tool_calls": [call]}}]})).collect();
        list.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
        let stream = plain_events(&list, "\n") + "data: [DONE]\n\n";
        let turn = streamed(Kind::OpenaiChat, [stream.as_bytes()]).1.unwrap();
        let calls: Vec<_> =
            turn.calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!((calls.as_slice(), turn.stop), (expected, Stop::Tool));
    }
    // Every call counted as the first.
    let call = |id: &str| json!({"index": 0, "id": id, "function": {"name": "t", "arguments": "{}"}});
    check(&[call("a"), call("b")], &[("a", "t", "{}"), ("b", "t", "{}")]);
    // No ids and no count; an object for arguments.
    let bare = json!({"function": {"name": "t", "arguments": {"x": 1}}});
    check(&[bare.clone(), bare], &[("call_1_0", "t", "{\"x\":1}"), ("call_1_1", "t", "{\"x\":1}")]);
    // A name that comes late, and one that never comes.
    let late = [
        json!({"index": 0, "id": "a", "function": {"arguments": "{\"x\""}}),
        json!({"index": 0, "function": {"name": "t", "arguments": ":1}"}}),
        json!({"index": 1, "id": "b", "function": {"arguments": "{}"}}),
    ];
    check(&late, &[("a", "t", "{\"x\":1}"), ("b", "", "{}")]);
    // The name again with each piece.
    let again = |piece: &str| json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": piece}});
    check(&[again("{\"x\":"), again("2}")], &[("a", "t", "{\"x\":2}")]);
}

#[test]
fn arguments_that_are_no_json_are_kept_as_they_were_written_and_say_why() {
    #[track_caller]
    fn check(arguments: &str, why: &str) {
        let call = json!({"id": "a", "function": {"name": "t", "arguments": arguments}});
        let body = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let turn = whole(Kind::OpenaiChat, body.to_string().as_bytes()).unwrap();
        assert_eq!(turn.calls[0].arguments, arguments);
        let error = turn.calls[0].input().unwrap_err();
        assert_eq!(error.reason(), "unreadable");
        assert!(error.message.contains(why), "{}", error.message);
    }
    check("{\"a\": ", "EOF");
    check("{'a': 1}", "no JSON");
    check("{\"a\": 1, \"a\": 2}", "twice");
    check("{} {}", "no JSON");
}

#[test]
fn the_prompted_form_finds_calls_and_holds_back_what_may_be_one() {
    #[track_caller]
    fn check(said: &str, text: &str, calls: &[(&str, &str)]) {
        let body = json!({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]});
        let turn = whole(Kind::Xml, body.to_string().as_bytes()).unwrap();
        let found: Vec<_> = turn.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!((turn.text.as_str(), found.as_slice()), (text, calls), "{said}");
    }
    check("plain <b>text</b> and a <tool_ca", "plain <b>text</b> and a <tool_ca", &[]);
    check("so: <tool_call>{\"name\": \"t\", \"arguments\": {\"a\": 1}}</tool_call>", "so: ", &[("t", "{\"a\":1}")]);
    check(
        "<tool_call>{\"name\": \"t\"}</tool_call><tool_call>\n{\"name\":\"u\",\"arguments\":\"{}\"}\n</tool_call>",
        "",
        &[("t", "{}"), ("u", "{}")],
    );
    // Stopped at the closing mark, and broken off within.
    check("<tool_call>{\"name\": \"t\", \"arguments\": {}}", "", &[("t", "{}")]);
    check("<tool_call>{\"name\": \"t\", \"argu", "", &[("", "{\"name\": \"t\", \"argu")]);
    check("<tool_call>t(1)</tool_call> done", " done", &[("", "t(1)")]);
    check("</tool_call> a", "</tool_call> a", &[]);
}
