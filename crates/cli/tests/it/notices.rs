//! Telling others, with the whole program: what is written before the server is killed is sent by the next.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::Caller;
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

#[test]
fn webhooks_settings_and_openings_are_one_command_each() {
    let home = Home::new();
    let (port, hears) = receiver();
    let port_text = port.to_string();
    let url = format!("http://127.0.0.1:{port}/hook");
    let refused = home.fails(&["webhook", "add", &url, "--type", "call.failed"]);
    assert!(refused.contains("exit"), "{refused}");
    let open = ["egress", "open", "127.0.0.1", "--port", &port_text, "--scheme", "http", "--reason", "a test"];
    let opening = home.json(&open);
    let made = home.json(&["webhook", "add", &url, "--type", "call.failed", "--type", "tool_run"]);
    let id = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(home.ok(&["webhook", "test", id]), "It arrived.\n");
    assert_eq!(hears.recv_timeout(PATIENCE).unwrap()["data"]["test"], true);
    assert_ne!(home.json(&["webhook", "rotate", id])["secret"], made["secret"]);
    assert_eq!(home.json(&["webhook", "list"])["items"].as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["webhook", "deliveries", id])["items"], json!([]));
    assert!(home.ok(&["webhook", "keys"]).contains("whpk_"));
    home.ok(&["webhook", "resume", id]);
    home.ok(&["egress", "close", opening["id"].as_str().unwrap()]);
    let test = home.run(&["webhook", "test", id]);
    assert_eq!(test.code, 1, "{}{}", test.stdout, test.stderr);
    home.ok(&["webhook", "rm", id]);
    assert_eq!(
        home.json(&["settings", "set", "separation=true", "hosts=a.example.com, b.example.com"])["separation"],
        true
    );
    let settings = home.json(&["settings", "set", "approval_expires_s=60"]);
    assert_eq!((&settings["separation"], &settings["approval_expires_s"]), (&json!(true), &json!(60)));
    assert_eq!(settings["hosts"], json!(["a.example.com", "b.example.com"]));
    assert!(home.json(&["settings", "set", "hosts=none"])["hosts"].is_null());
    home.fails(&["settings", "set", "separation"]);
    home.fails(&["settings", "set", "separation=perhaps"]);
}
