//! Agents as nodes: the five outputs, pins with every strategy, and what a pin gives without its call. The model is a script.

use serde_json::{Value, json};
use toolgate_contracts::RunId;
use toolgate_store::Change;

use super::taking_up::tenant;
use super::{node_of, run, save};
use crate::world::{As, World, every_world};

/// Three sums of which the second is none, then a word; asked for `nothing` it calls nothing.
async fn helper(world: &World) {
    let sum = |text: &str| json!({"tool": "calculator", "input": {"expression": text}});
    let turns = json!([
        {"when": {"last_user_contains": "nothing"}, "repeat": 100, "say": "I called nothing."},
        {"when": {"last_user_contains": "sums", "turn": 1}, "repeat": 100, "call": [sum("1 + 1"), sum("20 + 1"), sum("1 / 0")]},
        {"when": {"last_tool": "calculator"}, "repeat": 100, "say": "It is 21."},
    ]);
    let spec = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&As::Owner, "PUT", "/api/v1/providers/play", spec).await.ok();
    let spec = json!({"name": "helper", "model": "play/any", "instructions": "Be brief.", "toolset": "assigned",
        "custom_tools": ["calculator", "echo"]});
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
}

fn graph(name: &str, pins: Value, on_error: &str) -> Value {
    json!({
        "version": 1, "name": name,
        "inputs": {"type": "object", "required": ["what"], "properties": {"what": {"type": "string", "description": "It"}}},
        "nodes": [
            {"id": "in", "kind": "input"},
            {"id": "look", "kind": "agent", "on_error": on_error,
             "config": {"agent": "helper", "prompt": "Do {{ what }}.", "pins": pins}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "response": {"type": "string", "description": "Its answer"}}}}}],
        "edges": [
            {"from": {"node": "in", "handle": "what"}, "to": {"node": "look", "handle": "what"}},
            {"from": {"node": "look", "handle": "response"}, "to": {"node": "out", "handle": "response"}}],
    })
}

fn pin(strategy: &str, on_missing: &str) -> Value {
    let mut selector = json!({"tool": "calculator", "strategy": strategy});
    if strategy == "by_call_id" {
        selector["call_id"] = json!("c_of_another_run");
    }
    json!({"name": format!("{strategy}_{on_missing}"), "selector": selector, "on_missing": on_missing})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gives_the_five_outputs_and_its_pins_by_every_strategy() {
    every_world(async |world| {
        helper(&world).await;
        let unnamed = json!({"selector": {"tool": "calculator", "strategy": "first_success"}});
        let pins =
            json!([unnamed, pin("latest", "null"), pin("by_call_id", "null"), pin("by_call_id", "stale_last_success")]);
        save(&world, &As::Owner, &graph("sums", pins, "fail")).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/workflows/sums").await.ok();
        assert_eq!(shown["workflow"]["nodes"][1]["config"]["pins"][0]["name"], "calculator_result", "{shown:#}");
        let ran = run(&world, &As::Owner, "sums", json!({"what": "sums"})).await;
        assert_eq!(
            (&ran["state"], &ran["output"]),
            (&json!("completed"), &json!({"response": "It is 21."})),
            "{ran:#}"
        );
        let look = node_of(&ran, "look");
        let outputs = look["outputs"].as_object().unwrap();
        let order = outputs["tool_order"].as_array().unwrap();
        assert_eq!((order.len(), outputs["tools_by_id"].as_object().unwrap().len()), (3, 3), "{look:#}");
        assert_eq!(outputs["last_tool"]["output"]["result"], 21, "the last that succeeded: {look:#}");
        assert_eq!(outputs["calculator_result"]["result"], 2, "{look:#}");
        // The last call failed, which is as good as none.
        assert_eq!((&outputs["latest_null"], &outputs["by_call_id_null"]), (&Value::Null, &Value::Null), "{look:#}");
        assert_eq!(outputs["by_call_id_stale_last_success"], Value::Null, "{look:#}");
        // The agent's run stands below the workflow's, and is as it says.
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", ran["run_id"].as_str().unwrap())).await.ok();
        assert_eq!(shown["runs"][0]["id"], look["child_run_id"], "{shown:#}");
        let path = format!("/api/v1/runs/{}/outputs", look["child_run_id"].as_str().unwrap());
        let own = world.get(&As::Owner, &path).await.ok();
        assert_eq!(own["outputs"]["tool_order"], outputs["tool_order"], "{own:#}");

        // By its id a call is found in the run that it is of.
        let call = order[1].as_str().unwrap();
        let pin = json!({"selector": {"tool": "calculator", "strategy": "by_call_id", "call_id": call}});
        let path = format!("/api/v1/runs/{}/materialize", look["child_run_id"].as_str().unwrap());
        let node = world.send(&As::Owner, "POST", &path, json!({"pin": pin, "workflow": "sums"})).await.ok();
        assert_eq!(node["config"]["input"], json!({"expression": "20 + 1"}), "{node:#}");
    })
    .await;
}

/// It makes its calls and then reaches a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_failed_as_data_gives_what_it_did() {
    every_world(async |world| {
        helper(&world).await;
        let pins = json!([pin("first_success", "null"), pin("by_call_id", "null"), pin("by_call_id", "error")]);
        let mut graph = graph("cut", pins, "data");
        graph["nodes"][1]["limits"] = json!({"max_iterations": 1});
        save(&world, &As::Owner, &graph).await.ok();
        let ran = run(&world, &As::Owner, "cut", json!({"what": "sums"})).await;
        let outputs = node_of(&ran, "look")["outputs"].clone();
        assert_eq!(outputs["error"]["details"]["reason"], "max_iterations", "{ran:#}");
        assert_eq!(outputs["tool_order"].as_array().map(Vec::len), Some(3), "{outputs:#}");
        assert_eq!(outputs["last_tool"]["output"]["result"], 21, "{outputs:#}");
        let pinned = (&outputs["first_success_null"]["result"], &outputs["by_call_id_null"]);
        assert_eq!(pinned, (&json!(2), &Value::Null), "{outputs:#}");
        assert!(outputs.as_object().unwrap().contains_key("by_call_id_null"), "null is a value: {outputs:#}");
        assert!(!outputs.as_object().unwrap().contains_key("by_call_id_error"), "{outputs:#}");
    })
    .await;
}

/// What the nodes of a run gave came from private data.
async fn is_private(world: &World, run: &Value) {
    let run: RunId = run.as_str().unwrap().parse().unwrap();
    let mut change = Change::new(tenant(world));
    let sql = "UPDATE workflow_nodes SET labels = '[\"private\"]' WHERE tenant_id = $1 AND run_id = $2";
    change.then(sql, [run.into()]);
    let sql = "UPDATE runs SET origins = '{\"names\": [\"lookUpAccount\"]}' WHERE tenant_id = $1 AND id = $2";
    change.then(sql, [run.into()]);
    world.app.store.commit(change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_without_its_call_gives_null_fails_or_gives_what_it_gave_before() {
    every_world(async |world| {
        helper(&world).await;
        let null_and_stale = json!([pin("first_success", "null"), pin("first_success", "stale_last_success")]);
        save(&world, &As::Owner, &graph("soft", null_and_stale, "fail")).await.ok();
        let pinned = |view: &Value| {
            let look = node_of(view, "look");
            let of = |name: &str| look["outputs"][name]["result"].clone();
            (of("first_success_null"), of("first_success_stale_last_success"))
        };
        let none = json!(null);
        let first = run(&world, &As::Owner, "soft", json!({"what": "nothing"})).await;
        assert_eq!((pinned(&first), &first["state"]), ((none.clone(), none.clone()), &json!("completed")), "{first:#}");
        world.clock.advance(1);
        let second = run(&world, &As::Owner, "soft", json!({"what": "sums"})).await;
        assert_eq!(pinned(&second), (json!(2), json!(2)), "{second:#}");
        // Twice: what was given in place of a value is a value as well.
        for _ in 0..2 {
            world.clock.advance(1);
            let third = run(&world, &As::Owner, "soft", json!({"what": "nothing"})).await;
            assert_eq!(pinned(&third), (none.clone(), json!(2)), "{third:#}");
        }
        // What another gave before is theirs.
        let other = world.user("default", "ada", &["author"]).await;
        let theirs = run(&world, &other, "soft", json!({"what": "nothing"})).await;
        assert_eq!(
            (pinned(&theirs), &theirs["state"]),
            ((none.clone(), none.clone()), &json!("completed")),
            "{theirs:#}"
        );
        // What was private when it was given is private when it is given again, and so is the run.
        let labels = |view: &Value| node_of(view, "look")["labels"].clone();
        let third = run(&world, &As::Owner, "soft", json!({"what": "nothing"})).await;
        assert_eq!((pinned(&third).1, labels(&third)), (json!(2), json!([])), "{third:#}");
        is_private(&world, &third["run_id"]).await;
        world.clock.advance(1);
        let fourth = run(&world, &As::Owner, "soft", json!({"what": "nothing"})).await;
        assert_eq!((pinned(&fourth).1, labels(&fourth)), (json!(2), json!(["private"])), "{fourth:#}");
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", fourth["run_id"].as_str().unwrap())).await.ok();
        assert_eq!(shown["labels"], json!(["private"]), "{shown:#}");
        assert_eq!(shown["origins"]["names"], json!(["lookUpAccount"]), "and says where that came from: {shown:#}");
        // Whatever becomes of the tool, the handle stays.
        world.send(&As::Owner, "PUT", "/api/v1/tools/calculator/enabled", json!({"enabled": false})).await.ok();
        world.clock.advance(1);
        let gone = run(&world, &As::Owner, "soft", json!({"what": "nothing"})).await;
        assert_eq!(pinned(&gone), (none.clone(), json!(2)), "{gone:#}");
        world.send(&As::Owner, "PUT", "/api/v1/tools/calculator/enabled", json!({"enabled": true})).await.ok();

        save(&world, &As::Owner, &graph("hard", json!([pin("latest", "error")]), "fail")).await.ok();
        let failed = run(&world, &As::Owner, "hard", json!({"what": "sums"})).await;
        assert_eq!(failed["state"], "failed", "{failed:#}");
        let error = &node_of(&failed, "look")["error"];
        assert_eq!((&error["code"], &error["details"]["pin"]), (&json!("VALIDATION_ERROR"), &json!("latest_error")));
        assert!(error["message"].as_str().unwrap().contains("of `calculator` failed"), "{error:#}");
        save(&world, &As::Owner, &graph("data", json!([pin("by_call_id", "error")]), "data")).await.ok();
        let data = run(&world, &As::Owner, "data", json!({"what": "sums"})).await;
        assert_eq!(data["state"], "completed", "{data:#}");
        assert_eq!(node_of(&data, "look")["outputs"]["error"]["details"]["pin"], "by_call_id_error", "{data:#}");

        // An agent that is not there fails its node, and says so.
        let mut nobody = graph("nobody", json!([]), "data");
        nobody["nodes"][1]["config"]["agent"] = json!("nobody");
        save(&world, &As::Owner, &nobody).await.ok();
        let ran = run(&world, &As::Owner, "nobody", json!({"what": "sums"})).await;
        assert!(node_of(&ran, "look")["error"]["message"].as_str().unwrap().contains("nobody"), "{ran:#}");
    })
    .await;
}
