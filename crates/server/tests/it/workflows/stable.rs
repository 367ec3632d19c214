//! Configuration changes never break a saved graph: after each of them it loads with the same handles, and it runs.

use serde_json::{Value, json};
use toolgate_contracts::workflow;
use toolgate_workflows::handles::{Handles, Within, handles};

use super::{node_of, run, save};
use crate::world::{As, World, every_world, tool};

fn said(runner: &Value, more: &Value) -> Value {
    let text = json!({"type": "string", "description": "What to say.", "maxLength": 100});
    let schema =
        json!({"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": false});
    let mut definition = json!({
        "runner": runner, "egress_class": "none", "risk": "safe", "input_schema": schema, "output_schema": schema,
    });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool("say_it", definition)
}

/// Echoes a text, and gives that, or something made of it.
fn echoes(text: &str, output: Option<&str>) -> Value {
    let mut runner = json!({"kind": "composition", "steps": [{"id": "say", "tool": "echo", "input": {"text": text}}]});
    if let Some(output) = output {
        runner["output"] = output.into();
    }
    runner
}

/// An agent with a pin of the tool, and a tool of every way to name it.
fn graph() -> Value {
    let tool = |id: &str, name: &str| json!({"id": id, "kind": "tool", "on_error": "data", "config": {"tool": name, "input": {"text": "hi"}}});
    json!({
        "version": 1, "name": "saved",
        "nodes": [
            tool("newest", "say_it"), tool("pinned", "say_it@1.0.0"), tool("shared", "echo"),
            {"id": "look", "kind": "agent", "on_error": "data", "config": {"agent": "helper", "prompt": "Say it.",
                "pins": [{"selector": {"tool": "say_it"}}]}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "newest": {"description": "One"}, "pinned": {"description": "Two"}, "by_agent": {"description": "Three"},
                "code": {"description": "Why not"}, "shared": {"description": "Four"}}}}}],
        "edges": [
            {"from": {"node": "newest", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "newest"}},
            {"from": {"node": "pinned", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "pinned"}},
            {"from": {"node": "pinned", "handle": "error", "path": "/code"}, "to": {"node": "out", "handle": "code"}},
            {"from": {"node": "shared", "handle": "output", "path": "/text"}, "to": {"node": "out", "handle": "shared"}},
            {"from": {"node": "look", "handle": "say_it_result"}, "to": {"node": "out", "handle": "by_agent"}}],
    })
}

async fn begin(world: &World) {
    let owner = As::Owner;
    world.register(&owner, said(&echoes("{{ input.text }}", None), &json!({}))).await.ok();
    let turns = json!([
        {"when": {"turn": 1}, "repeat": 9, "call": [{"tool": "say_it", "input": {"text": "ho"}}]},
        {"repeat": 9, "say": "Said."},
    ]);
    let spec = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&owner, "PUT", "/api/v1/providers/play", spec).await.ok();
    let spec = json!({"name": "helper", "model": "play/any", "instructions": "Be brief.", "toolset": "open"});
    world.send(&owner, "POST", "/api/v1/agents", spec).await.ok();
    save(world, &owner, &graph()).await.ok();
}

async fn shape(world: &World) -> Vec<(String, Handles)> {
    let shown = world.get(&As::Owner, "/api/v1/workflows/saved").await.ok();
    let workflow = workflow::read(shown["workflow"].clone()).unwrap();
    let within = Within::Workflow { inputs: &workflow.inputs };
    workflow.nodes.iter().map(|node| (node.id.clone(), handles(node, within))).collect()
}

/// A change of configuration: what is sent, and what the run gives afterwards for the three ways to the tool.
struct Change {
    what: &'static str,
    sent: Vec<(&'static str, String, Value)>,
    /// Whether `check` passes.
    passes: bool,
    gives: Value,
}

fn changes() -> Vec<Change> {
    let path = |rest: &str| format!("/api/v1/tools/say_it{rest}");
    let all = json!({"newest": "hi", "pinned": "hi", "by_agent": {"text": "ho"}});
    let none = json!({"code": "POLICY_DENIED", "by_agent": null});
    let other =
        |definition: Value| ("POST", "/api/v1/tools".to_owned(), json!({"definition": definition, "apply": true}));
    let louder = said(&echoes("{{ input.text }}!", None), &json!({}));
    let whole = json!({"type": "object", "required": ["loud"], "additionalProperties": false,
        "properties": {"loud": {"type": "boolean", "description": "How.", "default": true}}});
    let renamed_members = said(
        &echoes("hm", Some("{'words': steps.say.text}")),
        &json!({"input_schema": whole, "output_schema": {"type": "object", "additionalProperties": false, "required": ["words"],
            "properties": {"words": {"type": "string", "description": "It.", "maxLength": 100}}}}),
    );
    let state = |state: &str| ("PUT", path("/state"), json!({"state": state, "message": "for some reason"}));
    vec![
        Change { what: "nothing", sent: vec![], passes: true, gives: all.clone() },
        Change {
            what: "disabled",
            sent: vec![("PUT", path("/enabled"), json!({"enabled": false}))],
            passes: true,
            gives: none.clone(),
        },
        Change { what: "deprecated", sent: vec![state("deprecated")], passes: true, gives: all.clone() },
        Change { what: "blocked", sent: vec![state("blocked")], passes: false, gives: none.clone() },
        Change {
            what: "a new version",
            sent: vec![other(louder)],
            passes: true,
            gives: json!({"newest": "hi!", "pinned": "hi", "by_agent": {"text": "ho!"}}),
        },
        Change {
            what: "a new version with another schema",
            sent: vec![other(renamed_members)],
            passes: false,
            gives: json!({"pinned": "hi", "by_agent": null}),
        },
        Change {
            what: "renamed",
            sent: vec![("PUT", "/api/v1/tools/echo/override".to_owned(), json!({"name": "say_other"}))],
            passes: true,
            gives: all.clone(),
        },
        Change {
            what: "the agent removed",
            sent: vec![("DELETE", "/api/v1/agents/helper".to_owned(), Value::Null)],
            passes: true,
            gives: json!({"newest": "hi", "pinned": "hi"}),
        },
        Change { what: "the tool removed", sent: vec![("DELETE", path(""), Value::Null)], passes: true, gives: none },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_configuration_changes_a_handle_and_the_graph_runs_after_each() {
    for Change { what, sent, passes, mut gives } in changes() {
        // Nothing of it is about the shared one, or its own name goes on working.
        gives["shared"] = json!("hi");
        every_world(async |world| {
            begin(&world).await;
            let before = shape(&world).await;
            let graph = world.get(&As::Owner, "/api/v1/workflows/saved").await.ok()["workflow"].clone();
            for (method, path, body) in &sent {
                world.send(&As::Owner, method, path, body.clone()).await.ok();
            }
            assert_eq!(shape(&world).await, before, "{what}");
            let shown = world.get(&As::Owner, "/api/v1/workflows/saved").await.ok();
            assert_eq!((&shown["workflow"], &shown["revision"]), (&graph, &json!(1)), "{what}");
            let checked = world.send(&As::Owner, "POST", "/api/v1/workflows/saved/check", json!({})).await.ok();
            assert_eq!(checked["passed"], passes, "{what}: {checked:#}");
            let dangling = |finding: &Value| finding["code"].as_str().unwrap().starts_with("workflow.edge-handle");
            assert!(!checked["findings"].as_array().unwrap().iter().any(dangling), "{what}: {checked:#}");
            let ran = run(&world, &As::Owner, "saved", json!({})).await;
            assert_eq!((&ran["state"], &ran["output"]), (&json!("completed"), &gives), "{what}: {ran:#}");
            // Its agent's outputs have the five names and the pin, or the error where nobody answered.
            let look = node_of(&ran, "look");
            let has_pin = look["outputs"].as_object().unwrap().contains_key("say_it_result");
            assert_eq!(has_pin, gives.as_object().unwrap().contains_key("by_agent"), "{what}: {look:#}");
        })
        .await;
    }
}
