//! Approvals with the whole program: killed between any two steps, decided on another replica, and from the command line
//! with a server and without.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::caller::{Caller, text};
use crate::program::{Home, Server, both, finish};
use crate::replicas::Replicas;

async fn park(caller: &Caller, path: &str) -> String {
    let call = json!({"tool": "write_file", "input": {"path": path, "text": path}, "wait": 0, "request_id": path});
    let parked = caller.post("/calls", call).await.ok();
    assert_eq!(parked["status"], "pending", "{parked}");
    text(&parked["id"]).to_owned()
}

async fn ended(caller: &Caller, call: &str) -> Value {
    let over = |answer: &crate::caller::Answer| {
        matches!(answer.body["status"].as_str(), Some("completed" | "failed" | "rejected" | "outcome_unknown"))
    };
    caller.until(&format!("/calls/{call}"), over).await.ok()
}

/// What is written to a file is written once: a second time the tool refuses, because the file is there.
#[tokio::test(flavor = "multi_thread")]
async fn parked_calls_survive_kill_9_and_what_was_decided_runs_once() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let mut parked = Vec::new();
    for n in 0..12 {
        parked.push(park(&caller, &format!("{n}.txt")).await);
    }
    server.kill();
    let mut told = Vec::new();
    for chunk in parked.chunks(4) {
        let server = Server::start(&home, &[]);
        let caller = Caller::owner(&server);
        for call in chunk {
            let card = caller.get(&format!("/approvals/{call}")).await.ok();
            assert_eq!((&card["state"], &card["call_status"]), (&json!("open"), &json!("pending")), "{card}");
            let decided = caller.post(&format!("/approvals/{call}/decide"), json!({"decision": "approve"})).await.ok();
            assert_eq!(decided["state"], "approved");
            told.push(call.clone());
        }
        // Right after deciding: what was answered holds.
        server.kill();
    }
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    for call in &told {
        let record = ended(&caller, call).await;
        assert_eq!(record["approval_status"], "approved", "{record}");
        assert!(matches!(text(&record["status"]), "completed" | "outcome_unknown"), "{record}");
        let second = caller.post(&format!("/approvals/{call}/decide"), json!({"decision": "approve"})).await;
        assert_eq!(second.status, 409, "{}", second.text);
    }
    assert_eq!(caller.all("/approvals?state=open").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_on_one_replica_decided_on_another_run_once_and_answered_to_whoever_waits() {
    let Some(replicas) = Replicas::start(None).await else { return };
    let (asks, decides) = (Caller::owner(&replicas.one), Caller::owner(&replicas.two));
    let waiting = {
        let asks = asks.clone();
        let call = json!({"tool": "write_file", "input": {"path": "a.txt", "text": "x"}, "wait": 60});
        tokio::spawn(async move { asks.post("/calls", call).await })
    };
    let open = decides
        .until("/approvals?state=open", |answer| answer.body["items"].as_array().is_some_and(|items| items.len() == 1))
        .await
        .ok();
    let id = text(&open["items"][0]["id"]).to_owned();
    // Both at once, on both: one decides.
    let approve = json!({"decision": "approve"});
    let path = format!("/approvals/{id}/decide?wait=30");
    let (first, second) = tokio::join!(asks.post(&path, approve.clone()), decides.post(&path, approve));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", first.text, second.text);
    let answered = waiting.await.unwrap();
    assert_eq!((answered.status, &answered.body["status"]), (200, &json!("completed")), "{}", answered.text);
    let calls = asks.all("/calls?tool=write_file").await;
    assert_eq!(calls.len(), 1);
}

#[test]
fn a_decision_may_allow_calls_like_it_and_says_which() {
    both(|home| {
        let park = |name: &str| {
            let ran = home.run(&["call", "write_file", &format!("path={name}"), "text=hello", "--json"]);
            let envelope: Value = serde_json::from_str(&ran.stdout).unwrap();
            (ran.code, envelope["id"].as_str().unwrap().to_owned())
        };
        home.ok(&["settings", "set", "standing_grants_for_critical=true"]);
        let (_, call) = park("out/one.txt");
        let unsaid = home.fails(&["tool", "approve", &call, "--standing"]);
        assert!(unsaid.contains("--constraint '/path const \"out/one.txt\"'"), "{unsaid}");
        assert!(
            home.fails(&["tool", "approve", &call, "--standing", "--constraint", "path out"]).contains("/amount max")
        );
        let within = ["--standing", "--constraint", "/path path_under out", "--uses", "1", "--expires", "600"];
        let told = home.ok(&[&["tool", "approve", &call], &within[..]].concat());
        for part in
            ["nobody is asked for up to 1 more call of write_file@1.0.0", "/path path_under \"out\"", "grant revoke"]
        {
            assert!(told.contains(part), "{told}");
        }
        let grants = home.json(&["grant", "list"]);
        assert_eq!(grants["items"][0]["constraints"], json!([{"pointer": "/path", "path_under": "out"}]), "{grants}");
        assert_eq!(grants["items"][0]["issued_by_name"], grants["items"][0]["principal_name"], "{grants}");
        assert_eq!([park("out/two.txt").0, park("out/three.txt").0, park("else.txt").0], [0, 3, 3]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_watches_is_shown_each_call_that_begins_to_wait_and_ends_it_with_ctrl_c() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    park(&caller, "before.txt").await;
    let mut watch = home.command(&["approvals", "watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["input"]["path"], "before.txt");
    park(&caller, "after.txt").await;
    assert_eq!(next()["input"]["path"], "after.txt");
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    assert_eq!(finish(watch).code, 0);
}

#[test]
fn the_command_line_parks_shows_approves_and_rejects_with_a_server_and_without() {
    both(|home| {
        let park = |name: &str| {
            let ran = home.run(&["call", "write_file", &format!("path={name}"), "text=hello", "--json"]);
            assert_eq!(ran.code, 3, "{} {}", ran.stdout, ran.stderr);
            let envelope: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(envelope["status"], "pending");
            envelope["id"].as_str().unwrap().to_owned()
        };
        let (one, two) = (park("one.txt"), park("two.txt"));
        let listed = home.json(&["approvals"]);
        assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
        assert_eq!(home.json(&["approvals", "list", "--tool", "write_file"])["items"].as_array().unwrap().len(), 2);
        let card = home.ok(&["approvals", "show", &one]);
        for part in ["Why a person is asked", "What will run", "\"path\": \"one.txt\"", "risk critical"] {
            assert!(card.contains(part), "{card}");
        }
        let approved = home.json(&["tool", "approve", &one, "--reason", "looks right"]);
        assert_eq!(approved["call"]["status"], "completed", "{approved}");
        assert_eq!(home.json(&["calls", "show", &one])["approval_status"], "approved");
        let edited = home.run(&["approvals", "approve", &two, "--input", r#"{"path": "three.txt", "text": "other"}"#]);
        assert_eq!(edited.code, 0, "{}", edited.stderr);
        let shown = home.json(&["calls", "show", &two]);
        assert_eq!(shown["input"]["path"], "three.txt", "{shown}");
        let three = park("four.txt");
        assert_eq!(home.run(&["tool", "reject", &three]).code, 2, "a rejection needs a reason");
        home.ok(&["tool", "reject", &three, "--reason", "unsafe egress target"]);
        let rejected = home.json(&["calls", "show", &three]);
        assert_eq!(
            (&rejected["status"], &rejected["approval_reason"]),
            (&json!("rejected"), &json!("unsafe egress target"))
        );
        assert_eq!(home.run(&["approvals", "approve", &three]).code, 1);
        let several = [park("5.txt"), park("6.txt")];
        let answers = home.json(&["approvals", "reject", &several[0], &several[1], "--reason", "no"]);
        assert!(answers["items"].as_array().unwrap().iter().all(|answer| answer["state"] == "rejected"), "{answers}");
        assert_eq!(home.json(&["approvals"])["items"], json!([]));
        let bypass = home.run(&["call", "write_file", "path=7.txt", "text=x", "--force-no-approval"]);
        assert_eq!(bypass.code, 5, "{}", bypass.stderr);
    });
}
