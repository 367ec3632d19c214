//! Calls, runs and work from the command line: what is sent, what is printed, how it ends.

mod following;
mod shown;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::commands::Tour;
use crate::program::{Home, Server, both, finish};

/// Carried out by whoever leases it.
const VIEW_TICKET: &str = "---
name: viewTicket
description: >-
  Reads one ticket by its number. Use it when the number is known. Do not use it to search.
egress_class: write
input_schema:
  type: object
  additionalProperties: false
  required: [number]
  properties:
    number: {type: string, description: The ticket's number., maxLength: 40}
output_schema:
  type: object
  additionalProperties: false
  required: [title]
  properties:
    title: {type: string, description: Its title.}
runner: {kind: external}
---
";

fn register_view_ticket(home: &Home) {
    let file = home.write("viewTicket/TOOL.md", VIEW_TICKET);
    home.ok(&["tool", "register", "--file", &file, "--apply"]);
    home.ok(&["tool", "classify", "viewTicket", "--class", "read_only", "--reason", "only reads"]);
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}")).to_owned()
}

/// The envelope that a call printed, however it ended.
#[track_caller]
fn envelope(home: &Home, arguments: &[&str], exit: i32) -> Value {
    let ran = home.run(&[&["call"], arguments].concat());
    assert_eq!(ran.code, exit, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error} in {:?}", ran.stdout))
}

/// Every command of this part once, with `--json`.
pub fn tour(tour: &mut Tour<'_>) {
    register_view_ticket(tour.home);
    let called = tour.ok(&["call", "calculator", "expression=2 * 21", "--meta", "pr_id=42"]);
    assert_eq!((&called["status"], &called["output"]), (&json!("completed"), &json!({"result": 42})));
    let id = text(&called, "id");
    let listed = tour.ok(&["calls", "list", "--meta", "pr_id=42", "--source", "cli", "--tool", "calculator"]);
    assert_eq!(listed["items"][0]["id"], called["id"], "{listed}");
    let shown = tour.ok(&["calls", "show", &id]);
    assert_eq!((&shown["source"], &shown["approval_status"]), (&json!("cli"), &json!("not_required")));
    assert_eq!(tour.ok(&["calls", "show", &text(&called, "call_id")])["id"], called["id"]);
    assert_eq!(
        tour.ok(&["tool", "invocations", "--status", "completed", "--limit", "1"])["items"][0]["id"],
        called["id"]
    );
    tour.run(&["calls", "cancel", &id], 1);
    tour.run(&["calls", "settle", &id, "--failed", "--reason", "it is not there"], 1);

    let run = text(&tour.ok(&["run", "create", "--title", "Ticket 42", "--max-calls", "2", "--budget", "1"]), "id");
    let step = text(&tour.ok(&["run", "step", &run, "--title", "Look"]), "id");
    let in_run = tour.ok(&["call", "echo", "text=hello", "--run", &run, "--step", &step]);
    assert_eq!(in_run["run_id"], run.as_str());
    let recorded = tour.run(&["call", "viewTicket", "number=42", "--record", "--run", &run], 0);
    assert_eq!(recorded["status"], "running");
    let report = json!({"title": "Broken lamp"}).to_string();
    let ended = tour.ok(&["calls", "complete", &text(&recorded, "id"), "--output", &report]);
    assert_eq!((&ended["status"], &ended["output"]["title"]), (&json!("completed"), &json!("Broken lamp")));
    let refused = tour.run(&["call", "echo", "text=again", "--run", &run], 1);
    assert_eq!(refused["error"]["details"]["reason"], "max_tool_calls", "{refused}");
    assert_eq!(tour.ok(&["run", "end", &run, "--state", "failed", "--reason", "enough"])["state"], "failed");
    let shown = tour.ok(&["run", "show", &run, "--events", "--spans"]);
    assert_eq!((&shown["steps"][0]["title"], &shown["calls"][2]["step_title"]), (&json!("Look"), &json!("Look")));
    let kinds: Vec<String> = shown["events"].as_array().unwrap().iter().map(|event| text(event, "type")).collect();
    assert_eq!(kinds[..3], ["run.started", "step.started", "tool.started"], "{kinds:?}");
    assert_eq!(kinds.last().unwrap(), "run.failed");
    assert_eq!(shown["spans"][0]["steps"][0]["step"], "resolve", "{shown}");
    assert_eq!(tour.ok(&["run", "list", "--state", "failed"])["items"][0]["id"], run.as_str());

    assert_eq!(tour.ok(&["tool", "preflight", "echo"])["state"], "ready");
    // Carrying out others' calls is for services, not for people.
    tour.run(&["work", "lease", "--tool", "viewTicket"], 5);
    tour.run(&["work", "heartbeat", &id], 1);
    tour.run(&["work", "complete", &id, "--error", "no"], 1);
}

#[test]
fn exit_statuses_are_those_of_the_contract() {
    both(|home| {
        register_view_ticket(home);
        let table: [(&[&str], i32); 16] = [
            (&["call", "echo", "text=hello"], 0),
            (&["call", "write_file", "path=a", "text=b", "--dry-run"], 0),
            (&["call", "echo"], 1),
            (&["call", "echo", "txt=hello"], 1),
            (&["call", "write_file", "path=a", "text=b"], 3),
            (&["call", "nothing", "text=hello"], 1),
            (&["call", "echo", "text"], 2),
            (&["call", "echo", "--input", "{"], 2),
            (&["call", "echo", "--label", "secret"], 2),
            (&["call", "echo", "text=x", "--run", "nonsense"], 2),
            (&["call", "echo", "text=x", "--run", "01a1dfb5-a561-7fbf-a75a-add2d4028173"], 1),
            (&["call", "viewTicket", "number=1", "--no-wait"], 3),
            (&["tool", "preflight", "echo"], 0),
            (&["tool", "preflight", "write_file"], 11),
            (&["tool", "preflight", "nothing"], 12),
            (&["calls", "show", "nothing"], 1),
        ];
        for (arguments, expected) in table {
            let ran = home.run(arguments);
            assert_eq!(ran.code, expected, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        }
    });
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let weak = home.json(&["key", "create", "reader", "--scope", "tools.read"]);
    let as_reader =
        home.bare(&["call", "echo", "text=x", "--server", &server.url, "--key", &text(&weak, "secret")]).spawn();
    assert_eq!(finish(as_reader.unwrap()).code, 5);
    let url = server.url.clone();
    server.kill();
    let unreachable = home.bare(&["call", "echo", "text=x", "--server", &url, "--key", "tg_x"]).spawn();
    assert_eq!(finish(unreachable.unwrap()).code, 4);
}

#[test]
fn an_input_comes_from_fields_files_and_standard_input() {
    both(|home| {
        home.write("note.txt", "from a file");
        home.write("input.json", r#"{"text": "from JSON"}"#);
        let given = |arguments: &[&str]| envelope(home, &[&["echo"], arguments].concat(), 0)["output"]["text"].clone();
        assert_eq!(given(&["text=12"]), "12", "the schema says text");
        assert_eq!(given(&["text=@note.txt"]), "from a file");
        assert_eq!(given(&["--input", "@input.json"]), "from JSON");
        assert_eq!(given(&["--input", "@input.json", "text=over it"]), "over it");
        let ran = home.run_with_input(&["call", "echo", "--input", "-", "--format", "output"], r#"{"text": "piped"}"#);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"text\":\"piped\"}\n"), "{}", ran.stderr);
        assert_eq!(envelope(home, &["wait", "seconds=0"], 0)["output"]["waited_seconds"], 0);
        let again = |text: &str| envelope(home, &["echo", text, "--request-id", "r1"], 0)["id"].clone();
        assert_eq!(again("text=once"), again("text=once"), "the same request is the same call");
        assert_eq!(home.run(&["call", "echo", "text=other", "--request-id", "r1"]).code, 1);
    });
}

#[test]
fn a_call_is_waited_for_and_heard() {
    both(|home| {
        let ran = home.run(&["call", "wait", "seconds=2.2"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.stderr, "1 of 2.2 s\n2 of 2.2 s\n");
        let envelope: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&envelope["status"], &envelope["output"]["waited_seconds"]), (&json!("completed"), &json!(2.2)));
        assert!(envelope.get("decision").is_none(), "an envelope and no more: {envelope}");
        // In process the end of the program would cut it off; a server goes on.
        let (exit, status) = if home.is_local() { (0, "completed") } else { (3, "running") };
        let ran = home.run(&["call", "wait", "seconds=1.5", "--no-wait", "--json"]);
        assert_eq!(ran.code, exit, "{}", ran.stderr);
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["status"], status);
    });
}

/// Starts a long call and waits until it runs.
fn start_waiting(home: &Home) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = home.command(&["call", "wait", "seconds=50"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "1 of 50 s\n");
    (child, stderr)
}

#[test]
fn ctrl_c_asks_the_call_to_stop() {
    both(|home| {
        let (mut child, mut stderr) = start_waiting(home);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let mut told = String::new();
        stderr.read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{printed}{told}");
        let envelope: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{told}"));
        assert_eq!(envelope["status"], "cancelled", "{envelope}");
        assert!(told.contains("Asking the call to stop."), "{told}");
        let shown = home.json(&["calls", "show", &text(&envelope, "id")]);
        assert!(shown["cancel_requested_by"].is_string(), "{shown}");
    });
}

#[test]
fn another_command_stops_a_call() {
    let home = Home::new();
    let _server = Server::start(&home, &[]);
    let (child, _stderr) = start_waiting(&home);
    let running = home.json(&["calls", "list", "--status", "running"]);
    let id = text(&running["items"][0], "id");
    assert_eq!(home.ok(&["calls", "cancel", &id]), "wait@1.0.0 is cancelled.\n");
    let mut child = child;
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_worker_carries_out_what_waits() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    register_view_ticket(&home);
    home.ok(&["user", "create", "desk", "--service"]);
    let key = text(&home.json(&["key", "create", "desk", "--owner", "desk", "--scope", "service"]), "secret");
    let work = |arguments: &[&str], exit: i32| -> String {
        let place = ["--server", &server.url, "--key", &key, "--json"];
        let ran = finish(home.bare(&[&["work"], arguments, &place[..]].concat()).spawn().unwrap());
        assert_eq!(ran.code, exit, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    assert_eq!(work(&["lease", "--tool", "viewTicket"], 1), "null\n", "nothing waits");
    let called = envelope(&home, &["viewTicket", "number=42", "--no-wait"], 3);
    let leased = json(work(&["lease", "--tool", "viewTicket", "--wait", "30"], 0));
    assert_eq!((&leased["call"]["id"], &leased["call"]["input"]), (&called["id"], &json!({"number": "42"})));
    let lease = text(&leased, "lease_id");
    assert_eq!(json(work(&["heartbeat", &lease], 0))["cancel_requested"], false);
    let done = json(work(&["complete", &lease, "--output", r#"{"title": "Broken lamp"}"#, "--cost", "0.05"], 0));
    assert_eq!(done["status"], "completed", "{done}");
    work(&["complete", &lease, "--output", r#"{"title": "Again"}"#], 1);
    let shown = home.json(&["calls", "show", &text(&called, "id")]);
    assert_eq!((&shown["output"]["title"], &shown["reported_cost"]), (&json!("Broken lamp"), &json!("0.05")));
    // A failure in the worker's own words.
    envelope(&home, &["viewTicket", "number=7", "--no-wait"], 3);
    let lease = text(&json(work(&["lease", "--tool", "viewTicket"], 0)), "lease_id");
    let failed = json(work(&["complete", &lease, "--error", "no ticket 7", "--code", "VALIDATION_ERROR"], 0));
    assert_eq!((&failed["status"], &failed["error"]["message"]), (&json!("failed"), &json!("no ticket 7")));
}

#[test]
fn attachments_are_saved_as_files() {
    both(|home| {
        home.ok(&["tool", "override", "set", "echo", "max_output_bytes=1024"]);
        let long = "0123456789".repeat(500);
        home.write("long.txt", &long);
        let called = envelope(home, &["echo", "text=@long.txt"], 0);
        assert_eq!(called["truncated"], true, "{called}");
        let id = text(&called, "id");
        assert!(home.ok(&["calls", "show", &id]).contains("/api/v1/blobs/"));
        let saved = home.json(&["calls", "show", &id, "--save", "out"]);
        let file = home.path().join(text(&saved["files"][0], "file"));
        let whole: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(whole["text"], long.as_str());
        assert_eq!(home.run(&["calls", "show", &id, "--save", "out"]).code, 1, "never over another file");
        let short = envelope(home, &["echo", "text=short"], 0);
        assert_eq!(home.run(&["calls", "show", &text(&short, "id"), "--save", "out"]).code, 1);
    });
}

#[test]
fn a_list_of_calls_goes_on_where_it_ended() {
    both(|home| {
        let mut ids: Vec<String> =
            (0..3).map(|n| text(&envelope(home, &["echo", &format!("text={n}")], 0), "id")).collect();
        ids.reverse();
        let two = home.run(&["calls", "list", "--limit", "2", "--json"]);
        let page: Value = serde_json::from_str(&two.stdout).unwrap();
        let cursor = text(&page, "next_cursor");
        assert!(two.stderr.contains(&format!("--cursor {cursor}")), "{}", two.stderr);
        let rest = home.json(&["calls", "list", "--cursor", &cursor]);
        let listed: Vec<String> = [&page, &rest]
            .iter()
            .flat_map(|page| page["items"].as_array().unwrap())
            .map(|call| text(call, "id"))
            .collect();
        assert_eq!(listed, ids);
    });
}
