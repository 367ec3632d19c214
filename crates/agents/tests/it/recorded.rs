//! What real providers sent, against what their own clients read in it (tests/recorded), cut at every byte.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_agents::{Bounds, Delta, ErrorKind, Fold, Kind, ModelError, Stop, Turn};

use crate::world::{Server, answer, request, streamed, whole};

struct Recording {
    name: String,
    kind: Kind,
    stream: bool,
    status: u16,
    expected: Value,
    body: Vec<u8>,
}

fn recordings() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let about: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        found.push(Recording {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            kind: serde_json::from_value(about["kind"].clone()).unwrap(),
            stream: about["stream"] == true,
            status: u16::try_from(about["status"].as_u64().unwrap()).unwrap(),
            body: fs::read(path.with_extension("body")).unwrap(),
            expected: about,
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn streams() -> impl Iterator<Item = Recording> {
    recordings().into_iter().filter(|recording| recording.stream && recording.expected.get("turn").is_some())
}

/// Every byte. Of the two long ones those around the ends of lines: what was read of a line changes nothing until it ends,
/// which the others show, and reading all of it for each byte is what takes long.
fn cuts(body: &[u8]) -> impl Iterator<Item = usize> {
    let is_long = body.len() > 8_000;
    let ends = |at: usize| body[at.saturating_sub(2)..(at + 2).min(body.len())].contains(&b'\n');
    (0..body.len()).filter(move |at| !is_long || ends(*at))
}

/// A turn in the words of the goldens.
fn told(turn: &Turn, expected: &Value) -> Value {
    let calls: Vec<Value> = turn
        .calls
        .iter()
        .zip(expected["calls"].as_array().unwrap().iter().chain(std::iter::repeat(&Value::Null)))
        .map(|(call, expected)| {
            // Where the provider gives no id, ours is not theirs to know.
            let id = if expected["id"].is_null() { Value::Null } else { json!(call.id) };
            json!({"id": id, "name": call.name, "input": call.input().unwrap()})
        })
        .collect();
    let mut told =
        json!({"model": turn.model, "text": turn.text, "calls": calls, "stop": turn.stop, "usage": turn.usage});
    if expected.get("state").is_some() {
        let mut state = Vec::new();
        states(&turn.own, &mut state);
        told["state"] = json!(state);
    }
    told
}

/// What only the provider can read, wherever it stands.
fn states(own: &Value, found: &mut Vec<String>) {
    match own {
        Value::Array(items) => items.iter().for_each(|item| states(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                let is_state = matches!(name.as_str(), "signature" | "thoughtSignature" | "data" | "encrypted_content");
                match value {
                    Value::String(state) if is_state && !state.is_empty() => found.push(state.clone()),
                    other => states(other, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn a_turn_is_what_the_vendor_s_own_client_reads() {
    let mut seen = 0;
    for Recording { name, kind, stream, status, expected, body } in recordings() {
        let Some(expected) = expected.get("turn") else { continue };
        assert_eq!(status, 200);
        let turn = if stream { streamed(kind, [body.as_slice()]).1 } else { whole(kind, &body) };
        let turn = turn.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(told(&turn, expected), *expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 37, "{seen}");
}

#[test]
fn a_stream_is_the_same_wherever_it_is_cut() {
    for Recording { name, kind, body, .. } in streams() {
        let (_, turn) = streamed(kind, [body.as_slice()]);
        let turn = turn.unwrap();
        for size in [1, 2, 3, 5, 64] {
            assert_eq!(streamed(kind, body.chunks(size)).1.unwrap(), turn, "{name} in pieces of {size}");
        }
        for at in (0..body.len()).step_by(body.len().div_ceil(400)) {
            let (one, other) = body.split_at(at);
            assert_eq!(streamed(kind, [one, other]).1.unwrap(), turn, "{name} cut at {at}");
        }
    }
}

#[test]
fn a_stream_that_ends_early_is_interrupted_and_never_a_turn() {
    for Recording { name, kind, body, .. } in streams() {
        let turn = streamed(kind, [body.as_slice()]).1.unwrap();
        // Some of Gemini's finish more than once; behind such an event only the connection says that there was more.
        let finishes = kind == Kind::Gemini && String::from_utf8_lossy(&body).matches("finishReason").count() > 1;
        // What stands behind the last thing that counts may be missing: ends of lines, and words behind the end.
        let mut whole_from = None;
        for at in cuts(&body) {
            match streamed(kind, [&body[..at]]).1 {
                Ok(_) if finishes => assert!(String::from_utf8_lossy(&body[..at]).contains("finishReason")),
                Ok(early) => {
                    assert_eq!(early, turn, "{name} ended at {at}");
                    whole_from.get_or_insert(at);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Interrupted, "{name} ended at {at}: {error}");
                    assert_eq!(whole_from, None, "{name} ended at {at}, whole before");
                }
            }
        }
        if let Some(at) = whole_from {
            let rest = String::from_utf8_lossy(&body[at..]);
            assert!(rest.trim().is_empty() || rest.trim() == "data: [DONE]", "{name} is whole without {rest:?}");
        }
    }
}

#[test]
fn what_is_heard_folds_into_the_turn() {
    for Recording { name, kind, body, .. } in streams() {
        let (heard, turn) = streamed(kind, body.chunks(7));
        let turn = turn.unwrap();
        let mut fold = Fold::new(&Bounds::default());
        for delta in &heard {
            fold.push(delta).unwrap();
        }
        let end = toolgate_agents::End {
            model: turn.model.clone(),
            stop: turn.stop,
            usage: turn.usage,
            reported: turn.reported.clone(),
            own: turn.own.clone(),
        };
        assert_eq!(fold.end(kind, end), turn, "{name}");
        let texts = heard.iter().filter(|delta| matches!(delta, Delta::Text { .. })).count();
        assert!(turn.text.len() < 40 || texts > 1, "{name}: its text was not heard in pieces");
    }
}

/// A call whose arguments are not whole can be read by nobody, however far it came.
#[test]
fn half_a_call_is_never_read_as_a_whole_one() {
    for Recording { name, kind, body, .. } in streams() {
        let turn = streamed(kind, [body.as_slice()]).1.unwrap();
        for at in cuts(&body).step_by(3) {
            let (heard, ended) = streamed(kind, [&body[..at]]);
            if ended.is_ok() {
                continue;
            }
            let mut fold = Fold::new(&Bounds::default());
            for delta in &heard {
                fold.push(delta).unwrap();
            }
            let end = toolgate_agents::End {
                model: String::new(),
                stop: Stop::Length,
                usage: turn.usage,
                reported: Value::Null,
                own: Value::Null,
            };
            let cut = fold.end(kind, end);
            if let Some(last) = cut.calls.last() {
                assert!(last.input().is_err(), "{name} cut at {at}: {last:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_is_of_the_kind_that_the_vendor_s_own_client_says() {
    let mut seen = 0;
    for Recording { name, kind, stream, status, expected, body } in recordings() {
        let Some(raised) = expected.get("error").and_then(Value::as_str) else { continue };
        let error: ModelError = if stream {
            streamed(kind, [body.as_slice()]).1.unwrap_err()
        } else {
            let server = Server::saying(vec![answer(&format!("{status} X"), &[crate::world::JSON], &body)]).await;
            let (provider, outlet) = server.provider(kind);
            let asking = toolgate_agents::Asking {
                outlet: &outlet,
                key: None,
                rng: &toolgate_contracts::Rng::seeded(1),
                bounds: Bounds { tries_max: 1, ..Bounds::default() },
                form: toolgate_agents::Form::Whole,
            };
            provider.ask(&asking, &request(), &mut |_| {}).await.unwrap_err()
        };
        let expected = match raised {
            "BadRequestError" | "NotFoundError" | "APIError" => ErrorKind::Rejected,
            "AuthenticationError" => ErrorKind::Unauthorized,
            "RateLimitError" => ErrorKind::RateLimited,
            other => panic!("{name}: {other}"),
        };
        assert_eq!(error.kind(), expected, "{name}: {error:?}");
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}
