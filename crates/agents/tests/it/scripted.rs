//! Scripts: the turn that fits, in pieces, with failures, and the same again from the conversation alone.

use serde_json::{Value, json};
use toolgate_agents::{
    Answer, Asking, Bounds, Delta, ErrorKind, Form, Kind, Message, ModelError, Provider, ProviderSpec, Request, Stop,
    ToolAnswer,
};
use toolgate_contracts::{ErrorCode, Rng, json};

use crate::world::{request, spec, way_to};

fn scripted(turns: Value) -> Provider {
    let script = Some(json::decode(json!({"version": 1, "turns": turns})).unwrap());
    Provider::open(ProviderSpec { script, ..spec(Kind::Scripted) }).unwrap()
}

async fn ask(provider: &Provider, request: &Request) -> (Vec<Delta>, Result<Answer, ModelError>) {
    let outlet = way_to("127.0.0.1:1".parse().unwrap());
    let mut heard = Vec::new();
    let rng = Rng::seeded(1);
    let asking = Asking { outlet: &outlet, key: None, rng: &rng, bounds: Bounds::default(), form: Form::Streamed };
    let answer = provider.ask(&asking, request, &mut |delta| heard.push(delta.clone())).await;
    (heard, answer)
}

async fn said(provider: &Provider, request: &Request) -> String {
    ask(provider, request).await.1.unwrap().turn.text
}

/// Puts an answer into the conversation, and what its calls gave.
fn go_on(request: &mut Request, answer: &Answer, given: &[(&str, bool)]) {
    request.messages.push(Message::Model(answer.turn.said()));
    let answers = answer.turn.calls.iter().zip(given).map(|(call, (text, is_error))| ToolAnswer {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: (*text).to_owned(),
        is_error: *is_error,
    });
    let answers: Vec<_> = answers.collect();
    if !answers.is_empty() {
        request.messages.push(Message::Tools { answers });
    }
}

#[tokio::test]
async fn turns_are_played_in_their_order_each_as_often_as_it_says() {
    let provider = scripted(json!([{"say": "one"}, {"say": "two", "repeat": 2}]));
    let mut request = request();
    for expected in ["one", "two", "two"] {
        let answer = ask(&provider, &request).await.1.unwrap();
        assert_eq!((answer.turn.text.as_str(), answer.turn.kind), (expected, Kind::Scripted));
        assert_eq!(answer.turn.model, "scripted/provider");
        go_on(&mut request, &answer, &[]);
    }
    let error = ask(&provider, &request).await.1.unwrap_err();
    assert_eq!((error.kind(), error.error().reason()), (ErrorKind::ScriptExhausted, "script_exhausted"));
    // What was played stands in the conversation: asked anew without it, it begins anew.
    request.messages.truncate(1);
    assert_eq!(said(&provider, &request).await, "one");
}

#[tokio::test]
async fn a_turn_answers_only_when_all_it_asks_for_holds() {
    #[track_caller]
    fn check(when: Value, request: &Request, expected: bool) -> impl Future<Output = ()> {
        let provider = scripted(json!([{"when": when, "say": "yes"}, {"say": "no"}]));
        let request = request.clone();
        async move {
            assert_eq!(said(&provider, &request).await == "yes", expected, "{when}");
        }
    }
    let first = request();
    check(json!({}), &first, true).await;
    check(json!({"turn": 1}), &first, true).await;
    check(json!({"turn": 2}), &first, false).await;
    check(json!({"last_user_contains": "ell"}), &first, true).await;
    check(json!({"last_user_contains": "goodbye"}), &first, false).await;
    check(json!({"last_tool": "t"}), &first, false).await;
    check(json!({"last_error": false}), &first, true).await;
    let calling = scripted(json!([{"call": [{"tool": "t"}]}]));
    let mut second = first.clone();
    let answer = ask(&calling, &first).await.1.unwrap();
    go_on(&mut second, &answer, &[("POLICY_DENIED: no", true)]);
    // That turn was another script's; ours are all unused.
    if let Some(Message::Model(said)) = second.messages.get_mut(1) {
        said.own = None;
    }
    check(json!({"turn": 2, "last_tool": "t", "last_error": true}), &second, true).await;
    check(json!({"last_error": "POLICY_DENIED"}), &second, true).await;
    check(json!({"last_error": "TIMEOUT"}), &second, false).await;
    check(json!({"last_tool": "u"}), &second, false).await;
}

#[tokio::test]
async fn texts_are_filled_in_and_a_lone_place_keeps_its_type() {
    let provider = scripted(json!([
        {"call": [{"tool": "search", "input": {"query": "{{ prompt }}!", "limit": 3}}, {"tool": "plain"}],
         "usage": {"input_tokens": 10, "cached_tokens": 4, "output_tokens": 2}},
        {"call": [{"tool": "read", "input": {"ids": "{{ tools.search.ids }}", "first": "{{ tools.search.ids[0] }}"}}]},
        {"say": "{{ prompt }}: {{ tools.plain }}"},
    ]));
    let mut request = request();
    let answer = ask(&provider, &request).await.1.unwrap();
    assert_eq!((answer.turn.stop, answer.turn.usage.cached), (Stop::Tool, 4));
    assert_eq!(answer.turn.calls[0].input().unwrap(), json!({"query": "hello!", "limit": 3}));
    assert_eq!((answer.turn.calls[1].name.as_str(), answer.turn.calls[1].arguments.as_str()), ("plain", "{}"));
    go_on(&mut request, &answer, &[("{\"ids\": [7, 8]}", false), ("just text", false)]);
    let answer = ask(&provider, &request).await.1.unwrap();
    assert_eq!(answer.turn.calls[0].input().unwrap(), json!({"ids": [7, 8], "first": 7}));
    go_on(&mut request, &answer, &[("ok", false)]);
    assert_eq!(said(&provider, &request).await, "hello: just text");
}

#[tokio::test]
async fn a_turn_comes_in_as_many_pieces_as_it_says() {
    let provider =
        scripted(json!([{"say": "abcdef", "chunks": 3, "call": [{"tool": "t", "input": {}}], "delay_ms": 1}]));
    let (heard, answer) = ask(&provider, &request()).await;
    let texts: Vec<_> = heard.iter().filter(|delta| matches!(delta, Delta::Text { .. })).collect();
    assert_eq!((texts.len(), answer.unwrap().turn.text.as_str()), (3, "abcdef"));
}

#[tokio::test]
async fn a_script_fails_as_a_provider_does() {
    // Tried again until an answer begins; what failed counts as played.
    let provider = scripted(json!([{"fail": {"status": 503, "retry_after_s": 0}}, {"say": "well"}, {"say": "next"}]));
    let mut request = request();
    let answer = ask(&provider, &request).await.1.unwrap();
    assert_eq!((answer.turn.text.as_str(), answer.tries), ("well", 2));
    go_on(&mut request, &answer, &[]);
    assert_eq!(said(&provider, &request).await, "next");
    request.messages.truncate(1);

    let check = |fail: Value| {
        let (provider, request) = (scripted(json!([{"say": "abcd", "chunks": 4, "fail": fail}])), request.clone());
        async move {
            let (heard, answer) = ask(&provider, &request).await;
            (heard.len(), answer.unwrap_err())
        }
    };
    let (heard, error) = check(json!({"status": 429, "retry_after_s": 600})).await;
    assert_eq!((heard, error.error().code, error.retry_after_s()), (0, ErrorCode::RateLimit, Some(600)));
    let (heard, error) = check(json!({"status": 500, "after_chunks": 2})).await;
    assert_eq!((heard, error.kind()), (2, ErrorKind::Interrupted));
    let (heard, error) = check(json!({"status": 400})).await;
    assert_eq!((heard, error.kind()), (0, ErrorKind::Rejected));
}

#[tokio::test]
async fn a_refusal_and_a_length_are_as_a_model_s() {
    let provider = scripted(json!([{"say": "no", "stop": "refusal"}]));
    assert!(ask(&provider, &request()).await.1.unwrap().turn.refusal().is_some());
    let provider = scripted(json!([{"call": [{"tool": "t", "input": {"a": 1}}], "stop": "length"}]));
    let turn = ask(&provider, &request()).await.1.unwrap().turn;
    assert!(turn.stop == Stop::Length && turn.calls[0].input().is_err());
}

#[test]
fn a_script_that_cannot_be_played_is_refused_where_it_is_wrong() {
    #[track_caller]
    fn check(script: Value, pointer: &str) {
        let script = Some(json::decode(script).unwrap());
        let fault = Provider::open(ProviderSpec { script, ..spec(Kind::Scripted) }).err().unwrap();
        assert_eq!(fault.pointer(), Some(pointer), "{}", fault.told());
    }
    check(json!({"version": 2, "turns": [{"say": "x"}]}), "/script/version");
    check(json!({"version": 1, "turns": []}), "/script/turns");
    check(json!({"version": 1, "turns": [{}]}), "/script/turns/0/say");
    check(json!({"version": 1, "turns": [{"say": "{{ prompt"}]}), "/script/turns/0/say");
    check(json!({"version": 1, "turns": [{"say": "x", "chunks": 0}]}), "/script/turns/0/chunks");
    check(json!({"version": 1, "turns": [{"fail": {"status": 200}}]}), "/script/turns/0/fail/status");
    let call = json!([{"tool": "a", "input": {"b": "{{ c"}}]);
    check(json!({"version": 1, "turns": [{"call": call}]}), "/script/turns/0/call/0/input");
}
