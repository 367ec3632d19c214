//! Workflows with the whole program: killed between nodes, and taken up by the next without repeating what was done.

use serde_json::{Value, json};

use crate::caller::{Caller, text};
use crate::program::{Home, Server};

/// So many that there is time to kill the program.
const NOTES_BEFORE: u32 = 3;

/// A note, as many seconds as there are notes then, another note: in between the program is killed.
fn notes() -> Value {
    json!({
        "version": 1, "name": "notes",
        "nodes": [
            {"id": "first", "kind": "tool", "config": {"tool": "append_note", "input": {"text": "first"}}},
            {"id": "while", "kind": "tool", "config": {"tool": "wait"}},
            {"id": "second", "kind": "tool", "config": {"tool": "append_note"}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "line": {"type": "integer", "description": "The number of the last note"}}}}}],
        "edges": [
            {"from": {"node": "first", "handle": "output", "path": "/line"}, "to": {"node": "while", "handle": "input/seconds"}},
            {"from": {"node": "while", "handle": "envelope", "path": "/name"}, "to": {"node": "second", "handle": "input/text"}},
            {"from": {"node": "second", "handle": "output", "path": "/line"}, "to": {"node": "out", "handle": "line"}}],
    })
}

fn state_of<'v>(view: &'v Value, path: &str) -> &'v str {
    let nodes = view["nodes"]["items"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().find(|node| node["path"] == path).map_or("", |node| text(&node["state"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_survives_kill_9_and_repeats_no_node_that_was_finished() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    for _ in 0..NOTES_BEFORE {
        caller.call("append_note", json!({"text": "before"})).await;
    }
    caller.send("PUT", "/workflows/notes", notes()).await.ok();
    let begun = caller.post("/workflows/notes/runs", json!({})).await.ok();
    let path = format!("/runs/{}/workflow", text(&begun["run_id"]));
    caller.until(&path, |answer| state_of(&answer.body, "while") == "running").await.ok();
    server.kill();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let ended = caller.until(&path, |answer| answer.body["state"] != "running").await.ok();
    assert_eq!(ended["state"], "completed", "{ended:#}");
    // The first note is there once: a repeated one would have made this one line more.
    assert_eq!(ended["output"], json!({"line": NOTES_BEFORE + 2}), "{ended:#}");
    assert!(["first", "while", "second", "out"].iter().all(|node| state_of(&ended, node) == "completed"), "{ended:#}");
}
