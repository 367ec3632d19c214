//! Questions over a wire: keys, tries, and servers that break off, never stop, or say too much.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use toolgate_agents::{
    Answer, Asking, Bounds, Delta, ErrorKind, Form, Kind, ModelError, Outlet, Provider, ProviderSpec,
};
use toolgate_contracts::{ErrorCode, Rng, SecretAllowed, json};
use toolgate_vault::Secret;

use crate::world::{EVENTS, JSON, Server, answer, request, spec, way_to};

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n";
const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn good() -> Vec<u8> {
    answer("200 OK", &[EVENTS], [TEXT, END].concat().as_bytes())
}

/// The head of a stream that ends with its connection.
fn open_stream() -> String {
    format!("HTTP/1.1 200 OK\r\n{}: {}\r\ntransfer-encoding: chunked\r\n\r\n", EVENTS.0, EVENTS.1)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

struct Asked {
    heard: Vec<Delta>,
    answer: Result<Answer, ModelError>,
}

async fn ask_as(provider: &Provider, outlet: &dyn Outlet, key: Option<&Secret>, bounds: Bounds, form: Form) -> Asked {
    let mut heard = Vec::new();
    let asking = Asking { outlet, key, rng: &Rng::seeded(1), bounds, form };
    let answer = provider.ask(&asking, &request(), &mut |delta| heard.push(delta.clone())).await;
    Asked { heard, answer }
}

/// One question in the chat form, streamed.
async fn ask(server: &Server, bounds: Bounds) -> Asked {
    let (provider, outlet) = server.provider(Kind::OpenaiChat);
    ask_as(&provider, &outlet, None, bounds, Form::Streamed).await
}

#[tokio::test]
async fn an_answer_is_heard_as_it_comes() {
    let server = Server::saying(vec![good()]).await;
    let Asked { heard, answer } = ask(&server, Bounds::default()).await;
    assert_eq!(heard, [Delta::Text { text: "hello".into() }]);
    let answer = answer.unwrap();
    assert_eq!((answer.turn.text.as_str(), answer.tries), ("hello", 1));
    let sent = server.requests().pop().unwrap().to_ascii_lowercase();
    assert!(sent.starts_with("post /v1/chat/completions http/1.1\r\n"), "{sent}");
    assert!(!sent.contains("authorization"), "there is no key");
    assert_eq!(server.body()["stream"], json!(true));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_all_the_same() {
    let body = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).to_string();
    let server = Server::saying(vec![answer("200 OK", &[JSON], body.as_bytes())]).await;
    assert_eq!(ask(&server, Bounds::default()).await.answer.unwrap().turn.text, "hi");
}

#[tokio::test]
async fn the_key_goes_out_as_the_provider_wants_it_to_the_hosts_its_owner_named_and_is_never_told() {
    for (kind, header, path) in [
        (Kind::OpenaiChat, "authorization: Bearer k3y-value\r\n", "/v1/chat/completions "),
        (Kind::OpenaiResponses, "authorization: Bearer k3y-value\r\n", "/v1/responses "),
        (Kind::Anthropic, "x-api-key: k3y-value\r\n", "/v1/messages "),
        (Kind::Gemini, "x-goog-api-key: k3y-value\r\n", "/v1/models/model:streamGenerateContent?alt=sse "),
    ] {
        let refused = json!({"error": {"message": "Incorrect API key provided: k3y-value"}}).to_string();
        let server = Server::saying(vec![answer("401 X", &[JSON], refused.as_bytes())]).await;
        let (provider, outlet) = server.provider(kind);
        let key = Secret::new("MODEL_KEY", b"k3y-value\n".to_vec());
        let error = ask_as(&provider, &outlet, Some(&key), Bounds::default(), Form::Streamed).await.answer.unwrap_err();
        assert_eq!(error.error().reason(), "secret_not_allowed", "{kind}");
        assert_eq!(server.requests().len(), 0, "nothing was sent");
        let hosts = vec!["127.0.0.1".parse().unwrap()];
        let key = key.allowing(SecretAllowed { hosts, ..SecretAllowed::default() });
        let error = ask_as(&provider, &outlet, Some(&key), Bounds::default(), Form::Streamed).await.answer.unwrap_err();
        let sent = server.requests().pop().unwrap();
        assert!(sent.contains(header), "{kind}: {sent}");
        assert!(sent.starts_with(&format!("POST {path}")), "{kind}: {sent}");
        assert_eq!((error.error().code, server.requests().len()), (ErrorCode::AuthRequired, 1));
        let told = serde_json::to_string(error.error()).unwrap();
        assert!(!told.contains("k3y-value") && told.contains("[secret:MODEL_KEY]"), "{told}");
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_until_an_answer_begins() {
    let busy = answer("529 X", &[JSON], b"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}");
    let limited = answer("429 X", &[JSON, ("retry-after", "0")], b"{}");
    let server = Server::saying(vec![busy, limited, Vec::new(), good()]).await;
    let Asked { heard, answer } = ask(&server, Bounds::default()).await;
    assert_eq!((answer.unwrap().tries, heard.len()), (4, 1));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_provider_that_is_busy_for_long_is_told_on_with_its_own_word_for_how_long() {
    // Longer than we wait at all: not asked again.
    let server = Server::saying(vec![answer("429 X", &[JSON, ("retry-after", "3600")], b"{}")]).await;
    let error = ask(&server, Bounds::default()).await.answer.unwrap_err();
    assert_eq!((error.error().code, error.error().reason()), (ErrorCode::RateLimit, "upstream"));
    assert_eq!((error.retry_after_s(), server.requests().len()), (Some(3600), 1));
    // Short, and each time again: asked as often as may be.
    let server = Server::saying(vec![answer("429 X", &[JSON, ("retry-after", "0")], b"{}")]).await;
    let error = ask(&server, Bounds { tries_max: 2, ..Bounds::default() }).await.answer.unwrap_err();
    assert_eq!((error.kind(), server.requests().len()), (ErrorKind::RateLimited, 2));
    // No longer than the whole may take.
    let server = Server::saying(vec![answer("429 X", &[JSON, ("retry-after", "50")], b"{}")]).await;
    let bounds = Bounds { wall: Duration::from_secs(20), ..Bounds::default() };
    let error = ask(&server, bounds).await.answer.unwrap_err();
    assert_eq!((error.kind(), error.retry_after_s(), server.requests().len()), (ErrorKind::RateLimited, Some(50), 1));
}

#[tokio::test]
async fn what_is_wrong_with_the_request_is_not_tried_again() {
    for (status, kind) in [
        ("400 X", ErrorKind::Rejected),
        ("404 X", ErrorKind::Rejected),
        ("413 X", ErrorKind::Window),
        ("307 X", ErrorKind::Rejected),
    ] {
        let server = Server::saying(vec![answer(status, &[JSON, ("location", "/elsewhere")], b"{}")]).await;
        let error = ask(&server, Bounds::default()).await.answer.unwrap_err();
        assert_eq!((error.kind(), server.requests().len()), (kind, 1), "{status}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_within_an_answer_is_an_interrupted_one_and_not_tried_again() {
    for rest in ["", "data: {\"choi", "data: [DO"] {
        let said = [open_stream(), chunk(&[TEXT, rest].concat())].concat();
        let server = Server::saying(vec![said.into_bytes()]).await;
        let Asked { heard, answer } = ask(&server, Bounds::default()).await;
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.error().reason()), (ErrorKind::Interrupted, "interrupted"), "{rest}");
        assert_eq!((heard.len(), server.requests().len()), (1, 1));
        // The same where the stream ends as if nothing were wrong.
        let said = [open_stream(), chunk(&[TEXT, rest].concat()), "0\r\n\r\n".to_owned()].concat();
        let server = Server::saying(vec![said.into_bytes()]).await;
        assert_eq!(ask(&server, Bounds::default()).await.answer.unwrap_err().kind(), ErrorKind::Interrupted, "{rest}");
    }
}

/// Gemini finishes in several events; that there was more is known from the connection alone.
#[tokio::test]
async fn a_connection_that_breaks_behind_an_event_that_finishes_is_an_interrupted_one_too() {
    let finished = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]});
    let said = |rest: &str| [open_stream(), chunk(&format!("data: {finished}\r\n\r\n")), rest.to_owned()].concat();
    for (rest, expected) in [("", Some(ErrorKind::Interrupted)), ("0\r\n\r\n", None)] {
        let server = Server::saying(vec![said(rest).into_bytes()]).await;
        let (provider, outlet) = server.provider(Kind::Gemini);
        let asked = ask_as(&provider, &outlet, None, Bounds::default(), Form::Streamed).await;
        assert_eq!(asked.answer.err().map(|error| error.kind()), expected);
    }
}

#[tokio::test]
async fn what_comes_behind_the_end_is_not_waited_for() {
    let server = Server::start(|_, _, mut stream| {
        Box::pin(async move {
            let said = [open_stream(), chunk(&[TEXT, END].concat())].concat();
            let _ = stream.write_all(said.as_bytes()).await;
            // Held open, for good.
            std::future::pending::<()>().await;
        })
    })
    .await;
    assert_eq!(ask(&server, Bounds::default()).await.answer.unwrap().turn.text, "hello");
}

/// A server that goes on for ever with one piece.
async fn endless(piece: String, pause: Duration) -> Server {
    Server::start(move |_, _, mut stream| {
        let piece = piece.clone();
        Box::pin(async move {
            let _ = stream.write_all(open_stream().as_bytes()).await;
            while stream.write_all(chunk(&piece).as_bytes()).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        })
    })
    .await
}

#[tokio::test]
async fn an_answer_that_never_stops_is_stopped() {
    // By what was said.
    let server = endless(TEXT.repeat(100), Duration::ZERO).await;
    let Asked { heard, answer } = ask(&server, Bounds { said_bytes_max: 10_000, ..Bounds::default() }).await;
    assert_eq!((answer.unwrap_err().kind(), heard.len()), (ErrorKind::TooLarge, 2000));
    // By the bytes around it, of which none is said.
    let server = endless(": nothing\n\n".repeat(1000), Duration::ZERO).await;
    let error = ask(&server, Bounds { stream_bytes_max: 100_000, ..Bounds::default() }).await.answer.unwrap_err();
    assert_eq!((error.kind(), error.error().reason()), (ErrorKind::TooLarge, "interrupted"));
    // By the size of one event.
    let server = endless("x".repeat(10_000), Duration::ZERO).await;
    let error = ask(&server, Bounds { event_bytes_max: 50_000, ..Bounds::default() }).await.answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    // By time.
    let server = endless(TEXT.to_owned(), Duration::from_millis(20)).await;
    let error =
        ask(&server, Bounds { wall: Duration::from_millis(300), ..Bounds::default() }).await.answer.unwrap_err();
    assert_eq!((error.kind(), error.error().code), (ErrorKind::Late, ErrorCode::Timeout));
    // And one that falls silent.
    let server = endless(TEXT.to_owned(), Duration::from_hours(1)).await;
    let error =
        ask(&server, Bounds { idle: Duration::from_millis(200), ..Bounds::default() }).await.answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong);
}

#[tokio::test]
async fn fifty_megabytes_are_not_read() {
    for form in [Form::Whole, Form::Streamed] {
        let server = Server::start(|_, _, mut stream| {
            Box::pin(async move {
                let head = format!("HTTP/1.1 200 OK\r\n{}: {}\r\ntransfer-encoding: chunked\r\n\r\n", JSON.0, JSON.1);
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(chunk("{\"choices\":[{\"message\":{\"content\":\"").as_bytes()).await;
                let piece = chunk(&"x".repeat(1 << 20));
                for _ in 0..50 {
                    if stream.write_all(piece.as_bytes()).await.is_err() {
                        return;
                    }
                }
                let _ = stream.write_all(b"0\r\n\r\n").await;
            })
        })
        .await;
        let (provider, outlet) = server.provider(Kind::OpenaiChat);
        let error = ask_as(&provider, &outlet, None, Bounds::default(), form).await.answer.unwrap_err();
        assert_eq!((error.kind(), error.error().reason()), (ErrorKind::TooLarge, "interrupted"), "{form:?}");
    }
}

#[tokio::test]
async fn five_hundred_calls_at_once_are_handed_on_and_more_than_may_be_are_not() {
    let calls = |count: usize| {
        let calls: Vec<_> = (0..count)
            .map(|at| json!({"index": at, "id": format!("c{at}"), "function": {"name": "t", "arguments": "{}"}}))
            .collect();
        let event = json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
        answer("200 OK", &[EVENTS], format!("data: {event}\n\ndata: [DONE]\n\n").as_bytes())
    };
    let server = Server::saying(vec![calls(500)]).await;
    assert_eq!(ask(&server, Bounds::default()).await.answer.unwrap().turn.calls.len(), 500);
    let server = Server::saying(vec![calls(1025)]).await;
    assert_eq!(ask(&server, Bounds::default()).await.answer.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn nothing_goes_where_nothing_may_go_and_nobody_listens_where_nobody_is() {
    let server = Server::saying(vec![good()]).await;
    let closed = way_to("127.0.0.1:1".parse().unwrap());
    let (provider, _) = server.provider(Kind::OpenaiChat);
    let error = ask_as(&provider, &closed, None, Bounds::default(), Form::Streamed).await.answer.unwrap_err();
    assert_eq!((error.kind(), error.error().reason()), (ErrorKind::Denied, "egress"));
    assert_eq!(server.requests().len(), 0);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let base_url = Some(format!("http://{address}/v1"));
    let provider = Provider::open(ProviderSpec { base_url, ..spec(Kind::OpenaiChat) }).unwrap();
    let bounds = Bounds { tries_max: 2, ..Bounds::default() };
    let error = ask_as(&provider, &way_to(address), None, bounds, Form::Streamed).await.answer.unwrap_err();
    assert_eq!((error.kind(), error.error().reason()), (ErrorKind::Network, "connect"));
}

#[test]
fn a_provider_that_cannot_be_is_refused_when_it_is_written() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut ProviderSpec), pointer: &str) {
        let mut spec = spec(Kind::OpenaiChat);
        change(&mut spec);
        let fault = Provider::open(spec).err().unwrap();
        assert_eq!(fault.pointer(), Some(pointer), "{}", fault.told());
    }
    check(|spec| spec.base_url = Some("ftp://example.com".into()), "/base_url");
    check(|spec| spec.base_url = Some("https://me:secret@example.com/v1".into()), "/base_url");
    check(|spec| spec.base_url = Some("https://example.com/v1?key=1".into()), "/base_url");
    check(|spec| spec.base_url = Some("example.com".into()), "/base_url");
    check(|spec| spec.secret = Some("sk-this is a key".into()), "/secret");
    check(|spec| spec.script = json::decode(json!({"version": 1, "turns": [{"say": "x"}]})).ok(), "/script");
    check(|spec| (spec.kind, spec.base_url) = (Kind::Xml, None), "/base_url");
    check(|spec| spec.kind = Kind::Scripted, "/script");
}
