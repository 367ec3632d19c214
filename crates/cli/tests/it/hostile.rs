//! What strangers send: nothing of it harms the server, keeps others out, or is read in two ways.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HOST};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;

use crate::caller::{Caller, PATIENCE, answer, text};
use crate::program::{Home, Server};

/// Runs a test with SQLite and, where there is one, with PostgreSQL.
pub async fn every_server(test: impl AsyncFn(&Server)) {
    let home = Home::new();
    test(&Server::start(&home, &[])).await;
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let mut home = Home::new();
    home.set("TOOLGATE_DATABASE", &database.url);
    test(&Server::start(&home, &[])).await;
}

async fn still_answers(caller: &Caller) {
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["output"]["text"], "still here");
}

fn as_json(caller: &Caller, method: &str, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    caller.request(method, path).header(CONTENT_TYPE, "application/json").body(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_readers_could_read_differently_is_refused_on_every_route() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    caller.register_mirror("mirror", json!({})).await;
    let run = caller.new_run(json!({})).await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let keys: Vec<_> = (0..20_000).map(|n| format!("\"k{n}\":0")).collect();
    let long = "9".repeat(1_000_000);
    // What stands for a value somewhere in a body.
    let values: Vec<Vec<u8>> = [
        r#"{"a":1,"a":2}"#.to_owned(),
        r#"{"a":1,"\u0061":1}"#.to_owned(),
        r#"{"x":{"$serde_json::private::RawValue":"[1"}}"#.to_owned(),
        r#"{"$serde_json::private::Number":"1"}"#.to_owned(),
        r#"{"\u0024serde_json::private::Number":"1"}"#.to_owned(),
        deep("[", "]"),
        deep("{\"a\":", "}"),
        "[".repeat(100_000),
        format!("{{{}}}", keys.join(",")),
        "1e400".to_owned(),
        "-1e400".to_owned(),
        "9007199254740993".to_owned(),
        "-9007199254740993".to_owned(),
        "9007199254740993.0".to_owned(),
        "18446744073709551617".to_owned(),
        long.clone(),
        format!("0.{long}e999999999999"),
        r#""\ud800""#.to_owned(),
        r#""\udc00\ud800""#.to_owned(),
        "NaN".to_owned(),
        "Infinity".to_owned(),
        "01".to_owned(),
        "1,".to_owned(),
        "'a'".to_owned(),
        "\"\u{1}\"".to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .chain([b"\"\xff\"".to_vec(), b"\"\xed\xa0\x80\"".to_vec(), b"\"\xc0\xaf\"".to_vec(), b"\0".to_vec()])
    .collect();
    let step = format!("/runs/{run}/steps");
    let routes = [
        ("POST", "/calls", r#"{"tool":"mirror","mode":"record","input":{"v":"#, "}}"),
        ("POST", "/calls", r#"{"tool":"mirror","metadata":{"v":"#, "}}"),
        ("POST", "/calls", r#"{"calls":[{"tool":"mirror","input":"#, "}]}"),
        ("POST", "/runs", r#"{"limits":"#, "}"),
        ("POST", &step, r#"{"title":"#, "}"),
        ("POST", "/tools", r#"{"definition":"#, "}"),
        ("POST", "/lint", r#"{"definition":"#, "}"),
        ("PUT", "/limits", r#"{"max_budget":"#, "}"),
        ("POST", "/agents", r#"{"name":"x","model_params":{"v":"#, "}}"),
    ];
    for (method, path, before, after) in routes {
        for value in &values {
            let body = [before.as_bytes(), value, after.as_bytes()].concat();
            let shown = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
            let answer =
                answer(as_json(&caller, method, path, body)).await.unwrap_or_else(|e| panic!("{shown}: {e:?}"));
            assert_eq!(answer.status, 400, "{method} {path} {shown}: {}", answer.text);
            answer.refused(400);
        }
    }
    for (body, what) in [("", "nothing"), ("null", "null"), ("[]", "a list"), ("1", "a number"), ("{} {}", "two")] {
        let answer = answer(as_json(&caller, "POST", "/calls", body)).await.unwrap();
        assert_eq!(answer.status, 400, "{what}: {}", answer.text);
    }
    assert!(caller.all("/calls").await.is_empty(), "a refused body leaves nothing");
    still_answers(&caller).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_from_our_own_address_changes_anything() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let body = json!({"tool": "append_note", "input": {"text": "forged"}}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""] {
        let request = caller.request("POST", "/calls").header(CONTENT_TYPE, kind).body(body.clone());
        answer(request).await.unwrap().refused(400);
    }
    answer(caller.request("POST", "/calls").body(body.clone())).await.unwrap().refused(400);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "[::2]"] {
        answer(as_json(&caller, "POST", "/calls", body.clone()).header(HOST, host)).await.unwrap().refused(403);
    }
    for method in ["GET", "HEAD", "OPTIONS"] {
        let path = "/calls?tool=append_note";
        let sent = answer(as_json(&caller, method, path, body.clone())).await;
        assert!(sent.is_ok_and(|answer| answer.status < 500));
    }
    assert!(caller.all("/calls").await.is_empty(), "something was called");
}

/// Sends a body that never ends well, and tells what the server says of it, if it still says something.
async fn pour(caller: &Caller, head: &str, piece: &[u8], times: usize) -> String {
    let address = caller.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{head}\r\n\r\n",
        caller.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let pouring = async {
        for _ in 0..times {
            if writing.write_all(piece).await.is_err() {
                break;
            }
        }
    };
    let listening = async {
        let mut said = Vec::new();
        let _ = reading.read_to_end(&mut said).await;
        String::from_utf8_lossy(&said).into_owned()
    };
    // Closed while we write, its last words may be lost on the way.
    let both = async { tokio::join!(pouring, listening).1 };
    tokio::time::timeout(PATIENCE, both).await.expect("the server listens for ever")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_are_not_taken_in() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    still_answers(&caller).await;
    let before = server.resident();
    let megabyte = vec![b'['; 1024 * 1024];
    let chunk = [b"100000\r\n".as_slice(), &megabyte, b"\r\n"].concat();
    for _ in 0..3 {
        for said in [
            pour(&caller, "Content-Length: 104857600", &megabyte, 100).await,
            pour(&caller, "Transfer-Encoding: chunked", &chunk, 100).await,
        ] {
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 413 "), "{said}");
        }
    }
    // Five megabytes are told apart from what is allowed, and told so.
    let large = json!({"tool": "echo", "input": {"text": "x".repeat(5 * 1024 * 1024)}});
    let told =
        pour(&caller, &format!("Content-Length: {}", large.to_string().len()), large.to_string().as_bytes(), 1).await;
    assert!(told.is_empty() || told.contains("the body is larger than"), "{told}");
    let after = server.resident();
    assert!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
    still_answers(&caller).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_silent_connections_do_not_keep_others_out() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let address = caller.url.strip_prefix("http://").unwrap();
    let half_header = "POST /api/v1/calls HTTP/1.1\r\nHost: loc";
    let half_body = format!(
        "POST /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        caller.key
    );
    let mut open = Vec::new();
    for number in 0..150 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let begun = [half_header, &half_body, ""][number % 3];
        stream.write_all(begun.as_bytes()).await.unwrap();
        open.push(stream);
    }
    for _ in 0..20 {
        still_answers(&caller).await;
        for stream in &mut open {
            let _ = stream.write_all(b" ").await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // They are given up one after the other; those who wait for it are not waiting for ever.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, open[0].read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "a half header is waited for without end");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_what_was_checked() {
    every_server(async |server| {
        let owner = Caller::owner(server);
        owner.register_mirror("mirror", json!({})).await;
        let worker = owner.user("willi", "service").await;
        // As it is sent, and as everybody reads it from then on.
        for (sent, read) in [
            ("1", json!(1)),
            ("1.0", json!(1)),
            ("-0", json!(0)),
            ("-0.0", json!(0)),
            ("1e2", json!(100)),
            ("0.1", json!(0.1)),
            ("9007199254740991", json!(9_007_199_254_740_991_i64)),
            (r#""\u00e9""#, json!("\u{e9}")),
            (r#""e\u0301""#, json!("e\u{301}")),
            (r#""\u202e\u200b\ufeff""#, json!("\u{202e}\u{200b}\u{feff}")),
            (r#""a\u0000b""#, json!("a\0b")),
            (r#"{"a\u0000b":null}"#, json!({"a\0b": null})),
            (r#"{"__entity":{"type":"User","id":"root"}}"#, json!({"__entity": {"type": "User", "id": "root"}})),
            (r#"{"__extn":{"fn":"ip","arg":"::1"}}"#, json!({"__extn": {"fn": "ip", "arg": "::1"}})),
            (r#"{"$ref":"file:///etc/passwd","__proto__":{}}"#, json!({"$ref": "file:///etc/passwd", "__proto__": {}})),
            ("null", json!(null)),
            (r#"[null,{"a":null}]"#, json!([null, {"a": null}])),
        ] {
            let input = json!({"v": read});
            // Metadata is searched, and cannot hold the one character that PostgreSQL does not look at.
            let metadata = if sent.contains("u0000") { "null" } else { sent };
            let body = format!(r#"{{"tool":"mirror","input":{{"v":{sent}}},"wait":0,"metadata":{{"v":{metadata}}}}}"#);
            let call = answer(as_json(&owner, "POST", "/calls", body)).await.unwrap();
            assert_eq!(call.status, 202, "{sent}: {}", call.text);
            assert_eq!(call.body["input"], input, "as answered");
            let leased = worker.post(concat!("/work", "/lease"), json!({"tools": ["mirror"], "wait": 30})).await.ok();
            assert_eq!(leased["call"]["input"], input, "as the worker reads it");
            let lease = text(&leased["lease_id"]);
            let report = format!(r#"{{"status":"completed","output":{{"v":{sent}}}}}"#);
            let done = answer(as_json(&worker, "POST", &format!("/work/{lease}/complete"), report)).await.unwrap().ok();
            let id = text(&call.body["id"]);
            let kept = owner.get(&format!("/calls/{id}")).await;
            assert_eq!((&kept.body["input"], &kept.body["output"]), (&input, &input), "{sent}");
            if sent == metadata {
                assert_eq!(kept.body["metadata"], input, "{sent}");
            }
            assert_eq!(done["output"], input);
            // Proved as it was.
            owner.get(&format!("/calls/{id}/proof")).await.ok();
        }
        // One spelling of a number is another of the same request; one of a letter is not.
        let again = |input: &str| format!(r#"{{"tool":"mirror","mode":"record","input":{input},"request_id":"same"}}"#);
        let first = answer(as_json(&owner, "POST", "/calls", again(r#"{"v":1}"#))).await.unwrap().ok();
        let second = answer(as_json(&owner, "POST", "/calls", again(r#"{ "v" : 1.0 }"#))).await.unwrap().ok();
        assert_eq!(first["id"], second["id"]);
        answer(as_json(&owner, "POST", "/calls", again(r#"{"v":"1"}"#))).await.unwrap().refused(409);
        answer(as_json(&owner, "POST", "/calls", again(r#"{"v":1,"w":null}"#))).await.unwrap().refused(409);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zero_byte_is_refused_or_kept_and_never_an_inner_error() {
    every_server(async |server| {
        let owner = Caller::owner(server);
        owner.register_mirror("mirror", json!({})).await;
        let run = owner.new_run(json!({})).await;
        let nul = "a\0b";
        let bodies = [
            ("POST", "/calls".to_owned(), json!({"tool": "echo", "input": {"text": nul}})),
            ("POST", "/calls".to_owned(), json!({"tool": "append_note", "input": {"text": nul}})),
            ("POST", "/calls".to_owned(), json!({"tool": "append_note", "input": {"text": "a", "notebook": nul}})),
            ("POST", "/calls".to_owned(), json!({"tool": nul})),
            ("POST", "/calls".to_owned(), json!({"tool": "echo", "input": {"text": "a"}, "request_id": nul})),
            ("POST", "/calls".to_owned(), json!({"tool": "echo", "input": {"text": "a"}, "metadata": {nul: nul}})),
            ("POST", "/calls".to_owned(), json!({"tool": "echo", "input": {"text": "a"}, "agent_id": nul})),
            ("POST", "/runs".to_owned(), json!({"title": nul})),
            ("POST", "/runs".to_owned(), json!({"agent": nul})),
            ("POST", format!("/runs/{run}/steps"), json!({"title": nul})),
            (
                "POST",
                format!("/runs/{run}/tool-events"),
                json!({"type": "tool_invocation_started", "call_id": nul, "tool": "mirror"}),
            ),
            ("PUT", format!("/runs/{run}/state"), json!({"state": "failed", "reason": nul})),
            ("POST", "/agents".to_owned(), json!({"name": "nul", "title": nul, "instructions": nul})),
            ("POST", "/users".to_owned(), json!({"name": nul, "roles": ["member"]})),
            ("POST", "/users".to_owned(), json!({"name": "x", "email": nul, "roles": ["member"]})),
            ("POST", "/keys".to_owned(), json!({"name": nul})),
            ("POST", "/tenants".to_owned(), json!({"slug": "x", "name": nul})),
            ("PUT", "/kill-switches".to_owned(), json!({"scope": "tool", "name": "now", "on": true, "reason": nul})),
            ("PUT", "/tools/mirror/state".to_owned(), json!({"state": "deprecated", "message": nul})),
            ("POST", concat!("/work", "/lease").to_owned(), json!({"tools": [nul]})),
        ];
        for (method, path, body) in bodies {
            let answer = owner.send(method, &path, body.clone()).await;
            assert!(answer.status < 500, "{method} {path} {body}: {} {}", answer.status, answer.text);
        }
        for path in [
            "/calls?meta=a%00=b",
            "/calls?agent=%00",
            "/calls?tool=%00",
            "/calls?cursor=%00",
            "/calls/%00",
            "/calls/c_%00",
            "/runs/%00",
            "/blobs/%00",
            "/users/%00",
            "/agents/%00",
            "/profiles/%00",
            "/tools/%00",
            "/search?q=%00",
            "/audit/entries?object=%00",
            "/audit/entries/%00/proof",
            "/usage?agent=%00",
            "/keys?cursor=%00",
            "/calls?meta=%ff%fe=b",
            "/users/%ff",
            "/tools/%ff",
        ] {
            let answer = owner.get(path).await;
            assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text);
        }
        still_answers(&owner).await;
    })
    .await;
}
