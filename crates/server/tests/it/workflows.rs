//! Workflows over HTTP: who may keep which, what is refused, what stays, and what a run of one does.

mod agents;
mod bounds;
mod labels;
mod publishing;
mod stable;
mod taking_up;

use serde_json::{Value, json};

use crate::world::{As, World, every_world, tool};

/// One call of a tool, with what it is given.
fn calling(name: &str, tool: &str) -> Value {
    json!({
        "version": 1, "name": name,
        "inputs": {"type": "object", "required": ["text"], "properties": {
            "text": {"type": "string", "description": "What to say"}}},
        "nodes": [
            {"id": "in", "kind": "input"},
            {"id": "say", "kind": "tool", "on_error": "data", "config": {"tool": tool}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "said": {"description": "What was said"}, "code": {"description": "Why not"}}}}}],
        "edges": [
            {"from": {"node": "in", "handle": "text"}, "to": {"node": "say", "handle": "input/text"}},
            {"from": {"node": "say", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "said"}},
            {"from": {"node": "say", "handle": "error", "path": "/code"}, "to": {"node": "out", "handle": "code"}}],
    })
}

async fn save(world: &World, who: &As, graph: &Value) -> crate::world::Answer {
    let path = format!("/api/v1/workflows/{}", graph["name"].as_str().unwrap());
    world.send(who, "PUT", &path, graph.clone()).await
}

/// How a run stands once it is neither running nor waiting for people.
async fn over(world: &World, who: &As, run: &Value) -> Value {
    let path = format!("/api/v1/runs/{}/workflow?wait=60", run.as_str().unwrap());
    let mut view = json!({"state": "running"});
    while view["state"] == "running" || view["state"] == "waiting_human" {
        view = world.get(who, &path).await.ok();
    }
    view
}

fn node_of(view: &Value, path: &str) -> Value {
    let nodes = view["nodes"]["items"].as_array().unwrap();
    nodes.iter().find(|node| node["path"] == path).cloned().unwrap_or_else(|| panic!("no node {path} in {view:#}"))
}

async fn run(world: &World, who: &As, name: &str, input: Value) -> Value {
    let path = format!("/api/v1/workflows/{name}/runs?wait=60");
    world.send(who, "POST", &path, json!({"input": input})).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_given_a_part_of_a_value() {
    every_world(async |world| {
        let limit = json!({"max_output_bytes": 1024});
        world.send(&As::Owner, "PUT", "/api/v1/tools/echo/override", limit).await.ok();
        save(&world, &As::Owner, &calling("say", "echo")).await.ok();
        for (letters, outputs) in [(100, json!("x".repeat(100))), (2_000, Value::Null)] {
            let begun = run(&world, &As::Owner, "say", json!({"text": "x".repeat(letters)})).await;
            let view = over(&world, &As::Owner, &begun["run_id"]).await;
            assert_eq!(view["output"]["said"], outputs, "{view:#}");
            if letters > 1024 {
                assert_eq!(view["output"]["code"], "VALIDATION_ERROR", "{view:#}");
                assert!(node_of(&view, "say").to_string().contains(r#""reason":"too_large""#), "{view:#}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workflows_are_saved_shown_checked_and_removed_by_whoever_may() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let reader = world.user("default", "ben", &["member"]).await;
        let first = save(&world, &author, &calling("greet", "echo")).await.ok();
        assert_eq!((&first["action"], &first["revision"]), (&json!("created"), &json!(1)));
        let same = save(&world, &author, &calling("greet", "echo")).await.ok();
        assert_eq!((&same["action"], &same["revision"]), (&json!("unchanged"), &json!(1)));
        let second = save(&world, &author, &calling("greet", "echo@1.0.0")).await.ok();
        assert_eq!((&second["action"], &second["revision"]), (&json!("replaced"), &json!(2)));
        let shown = world.get(&reader, "/api/v1/workflows/greet").await.ok();
        assert_eq!(shown["workflow"]["nodes"][1]["config"]["tool"], "echo@1.0.0");
        assert_eq!(shown["revisions"].as_array().unwrap().len(), 2);
        let before = world.get(&reader, "/api/v1/workflows/greet?revision=1").await.ok();
        assert_eq!(before["workflow"]["nodes"][1]["config"]["tool"], "echo");
        world.get(&reader, "/api/v1/workflows/greet?revision=3").await.refused(404);
        let listed = world.get(&reader, "/api/v1/workflows").await.ok();
        assert_eq!(listed["items"][0]["name"], "greet");
        // What is wrong with one is told with its place; nothing of it is kept.
        let mut wrong = calling("wrong", "echo");
        wrong["edges"][0]["from"]["handle"] = json!("texts");
        let refused = save(&world, &author, &wrong).await.refused(400);
        assert_eq!(refused["pointer"], "/edges/0/from/handle");
        assert_eq!(refused["details"]["findings"][0]["code"], "workflow.edge-handle");
        wrong["colour"] = json!("red");
        assert_eq!(save(&world, &author, &wrong).await.refused(400)["pointer"], "/colour");
        world.get(&reader, "/api/v1/workflows/wrong").await.refused(404);
        let other = world.send(&author, "PUT", "/api/v1/workflows/other", calling("greet", "echo")).await;
        assert_eq!(other.refused(400)["pointer"], "/name");
        save(&world, &author, &calling("gr-eet", "echo")).await.refused(409);
        let unsaved = json!({"workflow": calling("greet", "no_such_tool")});
        let checked = world.send(&reader, "POST", "/api/v1/workflows/greet/check", unsaved).await.ok();
        assert_eq!(
            (&checked["passed"], &checked["findings"][0]["code"]),
            (&json!(true), &json!("workflow.tool-missing"))
        );
        for who in [&reader, &As::Nobody] {
            let status = if matches!(who, As::Nobody) { 401 } else { 403 };
            save(&world, who, &calling("mine", "echo")).await.refused(status);
            world.send(who, "DELETE", "/api/v1/workflows/greet", Value::Null).await.refused(status);
        }
        // Another tenant has none of it.
        world.tenant("acme").await;
        world.get(&As::OwnerOf("acme"), "/api/v1/workflows/greet").await.refused(404);
        world.send(&author, "DELETE", "/api/v1/workflows/greet", Value::Null).await.ok();
        world.get(&reader, "/api/v1/workflows/greet").await.refused(404);
        for (action, times) in [("workflow.set", 2), ("workflow.delete", 1)] {
            let path = format!("/api/v1/audit/entries?limit=500&action={action}");
            let entries = world.get(&As::Owner, &path).await.ok();
            assert_eq!(entries["items"].as_array().unwrap().len(), times, "{entries:#}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_tool_keeps_a_new_revision_out_and_a_saved_one_runs_with_the_refusal_as_data() {
    every_world(async |world| {
        let owner = As::Owner;
        let text = json!({"type": "string", "description": "What to say.", "maxLength": 100});
        let said = json!({"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": false});
        let step = json!({"id": "say", "tool": "echo", "input": {"text": "{{ input.text }}"}});
        let definition = tool(
            "say_it",
            json!({
                "runner": {"kind": "composition", "steps": [step]}, "egress_class": "none",
                "input_schema": said, "output_schema": said,
            }),
        );
        world.register(&owner, definition).await.ok();
        save(&world, &owner, &calling("greet", "say_it")).await.ok();
        let ran = run(&world, &owner, "greet", json!({"text": "hi"})).await;
        assert_eq!((&ran["state"], &ran["output"]), (&json!("completed"), &json!({"said": "hi"})), "{ran:#}");
        let block = json!({"state": "blocked", "message": "it leaks"});
        world.send(&owner, "PUT", "/api/v1/tools/say_it/state", block).await.ok();
        let mut next = calling("greet", "say_it");
        next["description"] = json!("again");
        let refused = save(&world, &owner, &next).await.refused(400);
        assert_eq!(refused["details"]["findings"][0]["code"], "workflow.tool-blocked");
        assert_eq!(world.get(&owner, "/api/v1/workflows/greet").await.ok()["revision"], 1);
        let checked = world.send(&owner, "POST", "/api/v1/workflows/greet/check", json!({})).await.ok();
        assert_eq!(checked["passed"], false);
        let ran = run(&world, &owner, "greet", json!({"text": "hi"})).await;
        assert_eq!((&ran["state"], &ran["output"]), (&json!("completed"), &json!({"code": "POLICY_DENIED"})), "{ran:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_maps_chooses_skips_and_asks_people() {
    every_world(async |world| {
        let owner = As::Owner;
        let graph = json!({
            "version": 1, "name": "triage",
            "inputs": {"type": "object", "required": ["many"], "properties": {
                "many": {"type": "array", "description": "Texts", "items": {}}}},
            "nodes": [
                {"id": "in", "kind": "input"},
                {"id": "each", "kind": "map", "on_error": "data", "config": {"max_parallel": 2, "body": {
                    "nodes": [
                        {"id": "in", "kind": "input"},
                        {"id": "say", "kind": "tool", "config": {"tool": "echo"}},
                        {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                            "said": {"description": "It"}, "at": {"description": "Where"}}}}}],
                    "edges": [
                        {"from": {"node": "in", "handle": "item"}, "to": {"node": "say", "handle": "input/text"}},
                        {"from": {"node": "in", "handle": "index"}, "to": {"node": "out", "handle": "at"}},
                        {"from": {"node": "say", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "said"}}]}}},
                {"id": "bad", "kind": "condition", "config": {"cases": [{"name": "some", "when": "size(value) > 0"}]}},
                {"id": "invalid", "kind": "condition", "config": {"cases": [
                    {"name": "yes", "when": "value[0].error.code == 'VALIDATION_ERROR'"}]}},
                {"id": "ask", "kind": "human", "config": {"title": "What of item {{ value[0].index }}?",
                    "schema": {"type": "object", "properties": {"text": {"type": "string", "description": "Instead"}}}}},
                {"id": "again", "kind": "tool", "config": {"tool": "echo"}},
                {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                    "items": {"type": "array", "description": "All"}, "instead": {"description": "What a person said"}}}}}],
            "edges": [
                {"from": {"node": "in", "handle": "many"}, "to": {"node": "each", "handle": "items"}},
                {"from": {"node": "each", "handle": "errors"}, "to": {"node": "bad", "handle": "value"}},
                {"from": {"node": "bad", "handle": "some"}, "to": {"node": "invalid", "handle": "value"}},
                {"from": {"node": "invalid", "handle": "yes"}, "to": {"node": "ask", "handle": "value"}},
                {"from": {"node": "ask", "handle": "answer"}, "to": {"node": "again", "handle": "input"}},
                {"from": {"node": "again", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "instead"}},
                {"from": {"node": "each", "handle": "items"}, "to": {"node": "out", "handle": "items"}}],
        });
        save(&world, &owner, &graph).await.ok();
        let state_of = |view: &Value, path: &str| {
            let nodes = view["nodes"]["items"].as_array().unwrap();
            nodes.iter().find(|node| node["path"] == path).map_or(json!(null), |node| node["state"].clone())
        };
        let good = run(&world, &owner, "triage", json!({"many": ["a", "b", "c"]})).await;
        let all = json!([{"at": 0, "said": "a"}, {"at": 1, "said": "b"}, {"at": 2, "said": "c"}]);
        assert_eq!((&good["state"], &good["output"]), (&json!("completed"), &json!({"items": all})), "{good:#}");
        assert_eq!((state_of(&good, "ask"), state_of(&good, "each/1/say")), (json!("skipped"), json!("completed")));
        let refused = world.send(&owner, "POST", "/api/v1/workflows/triage/runs", json!({"input": {"many": 3}})).await;
        assert_eq!(refused.refused(400)["pointer"], "/input/many");
        // An item that fails is data; a person says what to do instead, and the run goes on where it stood.
        let bad = run(&world, &owner, "triage", json!({"many": ["a", 7]})).await;
        assert_eq!((&bad["state"], state_of(&bad, "ask")), (&json!("waiting_human"), json!("waiting")), "{bad:#}");
        let run = bad["run_id"].as_str().unwrap();
        let asked = world.get(&owner, &format!("/api/v1/inputs?run={run}")).await.ok();
        assert_eq!(asked["items"][0]["title"], "What of item 1?", "{asked:#}");
        let id = asked["items"][0]["id"].as_str().unwrap();
        world.send(&owner, "POST", &format!("/api/v1/inputs/{id}/answer"), json!({"answer": {"text": "seven"}})).await.ok();
        let mut view = json!({"state": "running"});
        while view["state"] == "running" || view["state"] == "waiting_human" {
            view = world.get(&owner, &format!("/api/v1/runs/{run}/workflow?wait=60")).await.ok();
        }
        let some = json!([{"at": 0, "said": "a"}, null]);
        assert_eq!(view["output"], json!({"items": some, "instead": "seven"}), "{view:#}");
        let calls = world.get(&owner, &format!("/api/v1/runs/{run}")).await.ok();
        assert_eq!(calls["state"], "completed");
        assert!(calls["steps"].as_array().unwrap().iter().any(|step| step["title"] == "each/0/say"), "{calls:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_call_parks_the_workflow_and_a_recorded_one_becomes_a_node() {
    every_world(async |world| {
        let owner = As::Owner;
        let author = world.user("default", "ada", &["author"]).await;
        let mut graph = calling("keep", "write_file");
        graph["nodes"][1]["config"]["input"] = json!({"path": "a.txt"});
        graph["edges"][1]["from"]["path"] = json!("/path");
        save(&world, &owner, &graph).await.ok();
        let parked = run(&world, &author, "keep", json!({"text": "kept"})).await;
        assert_eq!(parked["state"], "waiting_human", "{parked:#}");
        let node =
            parked["nodes"]["items"].as_array().unwrap().iter().find(|node| node["path"] == "say").unwrap().clone();
        let call = node["call_id"].as_str().unwrap();
        let path = format!("/api/v1/approvals/{call}/decide");
        world.send(&owner, "POST", &path, json!({"decision": "reject", "reason": "not now"})).await.ok();
        let run_id = parked["run_id"].as_str().unwrap();
        let mut view = json!({"state": "running"});
        while view["state"] == "running" || view["state"] == "waiting_human" {
            view = world.get(&author, &format!("/api/v1/runs/{run_id}/workflow?wait=60")).await.ok();
        }
        assert_eq!(view["output"], json!({"code": "POLICY_DENIED"}), "{view:#}");
        let said =
            world.send(&owner, "POST", "/api/v1/calls", json!({"tool": "echo", "input": {"text": "hi"}})).await.ok();
        let path = format!("/api/v1/calls/{}/materialize", said["id"].as_str().unwrap());
        let node = world.send(&owner, "POST", &path, json!({"workflow": "keep"})).await.ok();
        let made = json!({"id": "echo", "kind": "tool", "config": {"tool": "echo@1.0.0", "input": {"text": "hi"}}});
        assert_eq!(node, made);
        let pin = json!({"name": "echo_result", "selector": {"tool": "echo", "strategy": "first_success"}});
        let opened = world.send(&owner, "POST", "/api/v1/runs", json!({"title": "Some"})).await.ok();
        let call = json!({"tool": "echo", "input": {"text": "ho"}, "run_id": opened["id"]});
        world.send(&owner, "POST", "/api/v1/calls", call).await.ok();
        let path = format!("/api/v1/runs/{}/materialize", opened["id"].as_str().unwrap());
        let node = world.send(&owner, "POST", &path, json!({"pin": pin})).await.ok();
        assert_eq!(node["config"]["input"], json!({"text": "ho"}));
    })
    .await;
}
