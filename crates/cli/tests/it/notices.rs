//! Telling others, with the whole program: what is written before the server is killed is sent by the next.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::commands::Tour;
use crate::program::{Home, Server};

/// Longer than the lease of a server that was killed.
const PATIENCE: Duration = Duration::from_secs(90);

/// Hears what is posted to it, and says that it has it.
fn receiver() -> (u16, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, hears) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The test has ended.
            if hear(stream.unwrap(), &heard).is_none() {
                return;
            }
        }
    });
    (port, hears)
}

fn hear(mut stream: TcpStream, heard: &Sender<Value>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        // Whoever was killed while it sent.
        if reader.read_line(&mut line).ok()? == 0 {
            return Some(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    heard.send(serde_json::from_slice(&body).unwrap()).ok()?;
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    Some(())
}

/// The calls that the receiver heard of, until it has heard of as many as were made.
fn heard(hears: &Receiver<Value>, wanted: usize) -> Vec<String> {
    let mut calls = Vec::new();
    while calls.len() < wanted {
        match hears.recv_timeout(PATIENCE) {
            Ok(notice) => {
                let call = notice["data"]["call_id"].as_str().unwrap().to_owned();
                // At least once: a copy has the same call.
                if !calls.contains(&call) {
                    calls.push(call);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    calls.sort();
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_to_be_told_is_told_after_the_server_was_killed() {
    let home = Home::new();
    let (port, hears) = receiver();
    let mut made = Vec::new();
    for round in 0..3 {
        let server = Server::start(&home, &[]);
        let caller = Caller::owner(&server);
        if round == 0 {
            let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "a test's receiver"});
            caller.send("POST", "/egress/openings", opening).await.ok();
            let webhook = json!({"url": format!("http://127.0.0.1:{port}/"), "types": ["call.completed"]});
            caller.send("POST", "/webhooks", webhook).await.ok();
        }
        for number in 0..5 {
            let call = caller.call("echo", json!({"text": format!("{round} {number}")})).await;
            made.push(call["id"].as_str().unwrap().to_owned());
        }
        server.kill();
    }
    let _server = Server::start(&home, &[]);
    made.sort();
    assert_eq!(heard(&hears, made.len()), made);
}

/// Every command of this page.
pub fn tour(tour: &mut Tour<'_>) {
    let (port, hears) = receiver();
    let port_text = port.to_string();
    let url = format!("http://127.0.0.1:{port}/hook");
    tour.run(&["webhook", "add", &url, "--type", "call.failed"], 5);
    let open = ["egress", "open", "127.0.0.1", "--port", &port_text, "--scheme", "http", "--reason", "a test"];
    let opening = tour.ok(&open);
    assert_eq!(tour.ok(&["egress", "list"])["items"].as_array().unwrap().len(), 1);
    let made = tour.ok(&["webhook", "add", &url, "--type", "upstream.drifted", "--type", "input.requested"]);
    let id = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(tour.ok(&["webhook", "test", id]), json!({"arrived": true}));
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap()["data"]["test"], true);
    assert_ne!(tour.ok(&["webhook", "rotate", id])["secret"], made["secret"]);
    assert_eq!(tour.ok(&["webhook", "list"])["items"].as_array().unwrap().len(), 1);
    assert_eq!(tour.ok(&["webhook", "deliveries", id])["items"], json!([]));
    assert!(tour.ok(&["webhook", "keys"])["keys"][0]["public_key"].as_str().unwrap().starts_with("whpk_"));
    tour.ok(&["webhook", "resume", id]);
    tour.ok(&["egress", "close", opening["id"].as_str().unwrap()]);
    assert_eq!(tour.run(&["webhook", "test", id], 1)["arrived"], false);
    tour.ok(&["webhook", "rm", id]);

    let before = tour.ok(&["settings", "show"]);
    let set = tour.ok(&["settings", "set", "separation=true", "hosts=a.example.com, b.example.com"]);
    assert_eq!((&set["separation"], &set["hosts"]), (&json!(true), &json!(["a.example.com", "b.example.com"])));
    let set = tour.ok(&["settings", "set", "approval_expires_s=60"]);
    assert_eq!((&set["separation"], &set["approval_expires_s"]), (&json!(true), &json!(60)), "what is not named stays");
    tour.run(&["settings", "set", "separation"], 2);
    tour.run(&["settings", "set", "separation=perhaps"], 2);
    assert_eq!(tour.ok(&["settings", "set", "separation=false", "approval_expires_s=none", "hosts=none"]), before);
}
