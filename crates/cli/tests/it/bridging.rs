//! `toolgate mcp` as clients start it: several on one data folder, each as long as its client, and messages in batches.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{Home, Ran, finish};

const PATIENCE: Duration = Duration::from_mins(2);

struct Bridge {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    ids: i64,
}

impl Bridge {
    fn start(home: &Home, revision: &str) -> Self {
        let mut child = home.command(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for read in stdout.lines() {
                let _ = line.send(serde_json::from_str(&read.unwrap()).unwrap());
            }
        });
        let stdin = child.stdin.take().unwrap();
        let mut bridge = Self { child, stdin, lines, ids: 0 };
        let params =
            json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}});
        let begun = bridge.ask("initialize", params);
        assert_eq!(begun["result"]["protocolVersion"], revision, "{begun:#}");
        bridge.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bridge
    }

    fn write(&mut self, line: &Value) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the bridge says nothing")
    }

    /// The answer; what is told meanwhile is not looked at.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.ids += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}));
        loop {
            let said = self.next();
            if said["id"] == self.ids {
                return said;
            }
        }
    }

    #[track_caller]
    fn calculates(&mut self) {
        let said = self.ask("tools/call", json!({"name": "calculator", "arguments": {"expression": "6*7"}}));
        assert_eq!(said["result"]["structuredContent"], json!({"result": 42}), "{said:#}");
    }

    fn end(self) -> Ran {
        let Self { child, stdin, .. } = self;
        drop(stdin);
        finish(child)
    }
}

/// Where any free port will do, so that no two tests want the same.
fn home() -> Home {
    let mut home = Home::new();
    home.set("TOOLGATE_LISTEN", "127.0.0.1:0");
    home
}

#[test]
fn the_second_of_two_on_one_folder_goes_on_when_the_first_ends() {
    let home = home();
    let mut first = Bridge::start(&home, "2025-11-25");
    let mut second = Bridge::start(&home, "2025-11-25");
    let mut third = Bridge::start(&home, "2025-06-18");
    for bridge in [&mut first, &mut second, &mut third] {
        bridge.calculates();
    }
    let ran = first.end();
    assert_eq!((ran.code, ran.stderr.matches("was not revoked").count()), (0, 0), "{}", ran.stderr);
    // Whoever asks first takes the folder, and the other finds it.
    second.calculates();
    third.calculates();
    // One that is killed tells nobody.
    let Bridge { mut child, .. } = second;
    child.kill().unwrap();
    child.wait().unwrap();
    third.calculates();
    // What changed meanwhile nobody heard, so it is told that all may have.
    home.ok(&["tool", "disable", "now"]);
    loop {
        if third.next()["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    let ran = third.end();
    assert_eq!((ran.code, ran.stderr.matches("was not revoked").count()), (0, 0), "{}", ran.stderr);
    // The one that was killed could not; its key lapses.
    let keys = home.json(&["key", "list"]);
    let left: Vec<&Value> =
        keys["items"].as_array().unwrap().iter().filter(|key| key["revoked_at"].is_null()).collect();
    let own = left.iter().filter(|key| key["name"].as_str().unwrap().starts_with("mcp ")).count();
    assert_eq!(own, 1, "{left:#?}");
}

#[test]
fn a_key_is_revoked_also_where_nobody_has_the_folder_any_more() {
    let home = home();
    let first = Bridge::start(&home, "2025-11-25");
    let second = Bridge::start(&home, "2025-11-25");
    first.end();
    let ran = second.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let keys = home.json(&["key", "list"]);
    let left = keys["items"].as_array().unwrap().iter().filter(|key| key["revoked_at"].is_null());
    assert_eq!(left.filter(|key| key["name"].as_str().unwrap().starts_with("mcp ")).count(), 0, "{keys:#}");
}

#[test]
fn a_batch_is_a_line_and_so_is_its_answer() {
    let home = home();
    let mut bridge = Bridge::start(&home, "2025-03-26");
    let call = |id: i64| {
        let params = json!({"name": "calculator", "arguments": {"expression": "6*7"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    bridge.write(&json!([{"jsonrpc": "2.0", "id": "p", "method": "ping"}, call(7)]));
    let said = bridge.next();
    assert_eq!((&said[0]["id"], &said[0]["result"]), (&json!("p"), &json!({})), "{said:#}");
    assert_eq!((&said[1]["id"], &said[1]["result"]["isError"]), (&json!(7), &json!(false)), "{said:#}");
    // What is refused whole is told to each of them.
    let ids: Vec<Value> =
        home.json(&["key", "list"])["items"].as_array().unwrap().iter().map(|key| key["name"].clone()).collect();
    let own = ids.iter().find(|name| name.as_str().unwrap().starts_with("mcp ")).unwrap();
    home.ok(&["key", "revoke", own.as_str().unwrap()]);
    bridge.write(&json!([call(8), {"jsonrpc": "2.0", "method": "notifications/x"}, call(9)]));
    let said = loop {
        let said = bridge.next();
        if said.is_array() {
            break said;
        }
    };
    assert_eq!((&said[0]["id"], &said[1]["id"]), (&json!(8), &json!(9)), "{said:#}");
    assert_eq!(said[0]["error"]["code"], -32603, "{said:#}");
    bridge.end();
}
