//! Following a run while it happens, also over a connection that does not last.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ChildStdout;

use serde_json::Value;

use super::text;
use crate::program::{Home, Server, both};

/// Forwards connections, and cuts each stream of events off behind its first bytes.
fn flaky(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.strip_prefix("http://").unwrap().to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            std::thread::spawn(move || forward(client, server));
        }
    });
    format!("http://{address}")
}

fn forward(mut client: TcpStream, mut server: TcpStream) {
    let mut request = vec![0; 64 * 1024];
    let read = client.read(&mut request).unwrap_or_default();
    let streams = String::from_utf8_lossy(&request[..read]).contains("text/event-stream");
    let _ = server.write_all(&request[..read]);
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let mut left = if streams { 700 } else { usize::MAX };
    let mut bytes = [0; 256];
    while left > 0 {
        let Ok(read @ 1..) = server.read(&mut bytes) else { break };
        if client.write_all(&bytes[..read]).is_err() {
            break;
        }
        left = left.saturating_sub(read);
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn next(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
}

#[test]
fn a_run_is_followed_until_it_ends_over_a_connection_that_breaks() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let run = text(&home.json(&["run", "create", "--title", "Followed"]), "id");
    let key = std::fs::read_to_string(&server.key_file).unwrap();
    let url = flaky(&server.url);
    let mut child =
        home.bare(&["run", "show", &run, "--follow", "--json", "--server", &url, "--key", key.trim()]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut seen = vec![next(&mut lines)];
    for n in 0..3 {
        home.ok(&["call", "echo", &format!("text={n}"), "--run", &run]);
    }
    home.ok(&["call", "wait", "seconds=1.1", "--run", &run]);
    home.ok(&["run", "end", &run, "--state", "completed"]);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    seen.extend(rest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    let numbers: Vec<u64> = seen.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each once, in order");
    let said: Vec<&Value> = seen.iter().filter(|event| event["type"] == "tool.output_appended").collect();
    assert_eq!(said.len(), 1, "{seen:?}");
    assert_eq!(seen.last().unwrap()["type"], "run.completed");
}

#[test]
fn what_is_over_is_told_and_the_command_ends() {
    both(|home| {
        let lone = super::envelope(home, &["wait", "seconds=1.1"], 0);
        let followed = home.ok(&["run", "show", &text(&lone, "id"), "--follow"]);
        let kinds: Vec<&str> = followed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        assert_eq!(kinds, ["tool.started", "1", "tool.completed"], "{followed}");
        let run = home.ok(&["run", "create"]);
        home.ok(&["run", "end", run.trim(), "--state", "cancelled"]);
        assert!(home.ok(&["run", "show", run.trim(), "--follow"]).contains("run.cancelled"));
        assert_eq!(home.run(&["run", "show", "nothing", "--follow"]).code, 1);
    });
}
