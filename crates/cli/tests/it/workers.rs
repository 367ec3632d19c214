//! Tools of one's own: workers in Rust, Python and JavaScript, each with the same two tools, against a real server.
//!
//! Between a worker and the server stands a gateway that the test holds: it is away when the worker starts, and it
//! loses one answer to a report.

#![expect(clippy::disallowed_methods, reason = "a test starts workers as a person would")]

mod rust;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::caller::{Caller, PATIENCE, text};
use crate::program::{Home, Server, root};

const SECRET: &str = "sentinel-of-a-worker";

/// A worker that runs: nothing is left of it, however its test ends.
enum Worker {
    Process(Process, std::sync::mpsc::Receiver<String>),
    Here(std::thread::JoinHandle<()>, tokio::sync::oneshot::Sender<()>),
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    fn process(mut command: Command, url: &str, key: &str) -> Self {
        command.env("TOOLGATE_SERVER", url).env("TOOLGATE_KEY", key);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (line, lines) = std::sync::mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for said in stderr.lines().map_while(Result::ok) {
                eprintln!("worker: {said}");
                let _ = line.send(said);
            }
        });
        Self::Process(Process(child), lines)
    }

    /// Waits until it has said that nobody answers.
    fn is_without_server(&self) {
        if let Self::Process(_, lines) = self {
            let unreached = |line: String| line.contains("cannot be reached");
            while !unreached(lines.recv_timeout(PATIENCE).expect("it says nothing of a server that is away")) {}
        }
    }

    /// Told to end, it ends well.
    fn stop(self) {
        match self {
            Self::Process(mut process, _) => {
                let child = &mut process.0;
                kill_process(Pid::from_child(child), Signal::TERM).unwrap();
                let deadline = Instant::now() + PATIENCE;
                let status = loop {
                    match child.try_wait().unwrap() {
                        Some(status) => break status,
                        None if Instant::now() > deadline => panic!("the worker does not end"),
                        None => std::thread::sleep(std::time::Duration::from_millis(20)),
                    }
                };
                assert!(status.success(), "{status}");
            }
            Self::Here(thread, stop) => {
                stop.send(()).unwrap();
                thread.join().unwrap();
            }
        }
    }
}

struct Gateway {
    http: reqwest::Client,
    server: String,
    /// The next answer to a report is lost.
    loses: AtomicBool,
}

async fn pass(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let target = format!("{}{}", gateway.server, parts.uri);
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut headers = parts.headers;
    headers.remove("host");
    let sent = gateway.http.request(parts.method, &target).headers(headers).body(body).send().await;
    let Ok(sent) = sent else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (sent.status(), sent.headers().clone());
    let Ok(bytes) = sent.bytes().await else { return StatusCode::BAD_GATEWAY.into_response() };
    if target.ends_with("/complete") && gateway.loses.swap(false, Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    if let Some(kind) = headers.get("content-type") {
        response.headers_mut().insert("content-type", kind.clone());
    }
    response
}

fn error(envelope: &Value) -> (&str, &str) {
    (text(&envelope["error"]["code"]), text(&envelope["error"]["details"]["reason"]))
}

/// The whole life of a worker.
async fn check(start: impl Fn(&Home, &str, &str) -> Worker) {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let owner = Caller::owner(&server);
    home.ok(&["user", "create", "desk", "--service", "--role", "author", "--role", "service"]);
    let key = home.json(&["key", "create", "desk", "--owner", "desk", "--scope", "author", "--scope", "service"]);

    // A server that is away is waited for.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let worker = start(&home, &format!("http://{address}"), text(&key["secret"]));
    let worker = tokio::task::spawn_blocking(move || {
        worker.is_without_server();
        worker
    });
    let worker = worker.await.unwrap();
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let gateway = Arc::new(Gateway { http, server: server.url.clone(), loses: AtomicBool::new(false) });
    let passing = axum::Router::new().fallback(pass).with_state(Arc::clone(&gateway));
    let listener = TcpListener::bind(address).await.unwrap();
    let passing = tokio::spawn(async move { axum::serve(listener, passing).await });

    // It registered its tools by itself, and nothing is to be said against them.
    for name in ["countWords", "checkThings"] {
        owner.until(&format!("/tools/{name}"), |answer| answer.status == 200).await;
        let definition = owner.get(&format!("/tools/{name}?as=framework")).await.ok();
        let judged = owner.post("/lint", json!({"definition": definition})).await.ok();
        let found = judged["findings"].as_array().unwrap();
        let found: Vec<_> = found.iter().filter(|finding| finding["severity"] != "note").collect();
        assert!(found.is_empty(), "{name}: {found:?}");
    }
    let shown = owner.get("/tools/checkThings").await.ok();
    assert_eq!((&shown["egress_class"], &shown["risk"]), (&json!("write"), &json!("sensitive")), "{shown}");

    // Nobody runs it unasked: a person decides, then the worker is handed the call.
    let waiting = json!({"tool": "countWords", "input": {"text": "a call through the gate"}, "wait": 0});
    let asked = owner.post("/calls", waiting).await.ok();
    assert_eq!(asked["status"], "pending", "{asked}");
    let id = text(&asked["id"]);
    home.ok(&["approvals", "approve", id]);
    let ended = owner.until(&format!("/calls/{id}"), |answer| answer.body["status"] == "completed").await.ok();
    assert_eq!(ended["output"], json!({"words": 5}));
    let said = home.ok(&["run", "show", id, "--events", "--json"]);
    assert!(said.contains("counting"), "{said}");

    // An operator has read the code, and the owner of the secret, too.
    for name in ["countWords", "checkThings"] {
        let harmless = json!({"egress_class": "none", "changes_state": false, "reason": "read"});
        owner.send("PUT", &format!("/tools/{name}/classification"), harmless).await.ok();
    }
    let set = home.run_with_input(&["secret", "set", "WORKER_KEY", "--scope", "org"], SECRET);
    assert_eq!(set.code, 0, "{}", set.stderr);
    home.ok(&["secret", "allow", "WORKER_KEY", "--scope", "org", "--code", "checkThings"]);
    // Each with a key of its own: what one has seen would have the next one asked about.
    let called = async |name: &str, tool: &str, input: Value, wait: u64| {
        let key = json!({"name": name, "scopes": ["tools:execute", "calls.read.own"]});
        let call = json!({"tool": tool, "input": input, "wait": wait});
        owner.key_of(key).await.post("/calls", call).await.ok()
    };
    let tried = async |how: &str, wait: u64| called(how, "checkThings", json!({"how": how}), wait).await;
    let context = tried("context", 30).await;
    assert_eq!(context["status"], "completed", "{context}");
    let seen = text(&context["output"]["text"]);
    let tenants = owner.all("/tenants").await;
    let tenant = tenants.iter().find(|tenant| tenant["slug"] == "default").unwrap();
    let tenant = text(&tenant["id"]);
    assert!(seen.starts_with(&format!("{tenant} WORKER_KEY ")), "{context}");
    assert!(!seen.contains("[secret:"), "a context that is printed shows names: {seen}");
    let leaked = tried("leak", 30).await;
    assert_eq!(leaked["output"]["text"], "[secret:WORKER_KEY]", "{leaked}");
    let events = home.ok(&["run", "show", text(&leaked["id"]), "--events", "--json"]);
    assert!(!events.contains(SECRET) && events.contains("[secret:WORKER_KEY]"), "{events}");

    // Errors in the words of the gate.
    let limited = tried("error", 30).await;
    assert_eq!(error(&limited), ("RATE_LIMIT", "upstream"), "{limited}");
    assert_eq!(limited["error"]["retry_after_s"], 7);
    let crashed = tried("crash", 30).await;
    assert_eq!(error(&crashed), ("SANDBOX_ERROR", "exception"), "{crashed}");
    let shapeless = tried("shape", 30).await;
    assert_eq!(error(&shapeless), ("PROVIDER_ERROR", "output_schema"), "{shapeless}");

    // A report whose answer was lost is sent again, and counts once.
    gateway.loses.store(true, Ordering::SeqCst);
    let counted = called("again", "countWords", json!({"text": "one two"}), 30).await;
    assert_eq!(counted["output"], json!({"words": 2}), "{counted}");
    let events = owner.events(text(&counted["id"])).await;
    let ends = events.iter().filter(|event| event["type"] == "tool.completed").count();
    assert_eq!(ends, 1, "{events:?}");

    // Somebody wants it stopped.
    let waiting = tried("wait", 0).await;
    let id = text(&waiting["id"]);
    let mut stream = owner.stream(&format!("/runs/{id}/events"), None).await.unwrap();
    while stream.next().await.unwrap().event["type"] != "tool.output_appended" {}
    owner.post(&format!("/calls/{id}/cancel"), json!({})).await.ok();
    owner.until(&format!("/calls/{id}"), |answer| answer.body["status"] == "cancelled").await;

    // What was taken is finished before the end.
    let last = called("last", "countWords", json!({"text": "x"}), 0).await;
    let id = text(&last["id"]);
    owner.until(&format!("/calls/{id}"), |answer| answer.body["status"] == "completed").await;
    tokio::task::spawn_blocking(move || worker.stop()).await.unwrap();
    passing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_rust_carries_out_calls() {
    check(|_, url, key| rust::start(url, key)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_carries_out_calls() {
    check(|home, url, key| {
        let mut command = Command::new("python3");
        command.arg(source("worker.py")).env("PYTHONPATH", root().join("sdk/python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(home.path());
        Worker::process(command, url, key)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_javascript_carries_out_calls() {
    check(|home, url, key| {
        let mut command = Command::new("node");
        command.arg(source("worker.mjs")).arg(root().join("sdk/typescript/toolgate.js")).current_dir(home.path());
        Worker::process(command, url, key)
    })
    .await;
}

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/workers").join(name)
}

/// What a worker cannot go on with it says, and ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_wrong_key_ends_and_says_why() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let ended = |mut command: Command| {
        command.env("TOOLGATE_SERVER", &server.url).env("TOOLGATE_KEY", "tg_wrong").stdin(Stdio::null());
        let ended = command.output().unwrap();
        assert!(!ended.status.success());
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("the key"), "{said}");
        assert!(!said.contains("tg_wrong"), "{said}");
    };
    let mut python = Command::new("python3");
    python.arg(source("worker.py")).env("PYTHONPATH", root().join("sdk/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    ended(python);
    let mut node = Command::new("node");
    node.arg(source("worker.mjs")).arg(root().join("sdk/typescript/toolgate.js"));
    ended(node);
    let refused = rust::worker(&server.url, "tg_wrong").serve_until(std::future::pending()).await.unwrap_err();
    assert!(refused.to_string().contains("the key") && !refused.to_string().contains("tg_wrong"), "{refused}");
}
