//! Labels in a workflow go along edges: what a node did not read, it has not seen.

use serde_json::{Value, json};

use super::{node_of, run, save};
use crate::world::{As, every_world, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_carries_what_arrived_and_what_it_read_and_nothing_else() {
    every_world(async |world| {
        let owner = As::Owner;
        let whole = json!({"type": "integer", "description": "How many.", "minimum": 0});
        let closed = json!({"type": "object", "properties": {"n": whole}, "required": ["n"], "additionalProperties": false});
        let count = json!({
            "runner": {"kind": "composition", "steps": [{"id": "say", "tool": "echo", "input": {"text": "x"}}], "output": "{'n': 1}"},
            "egress_class": "none", "risk": "safe",
            "input_schema": {"type": "object", "required": ["text"], "additionalProperties": false,
                "properties": {"text": {"description": "Anything."}}},
            "output_schema": closed,
        });
        world.register(&owner, tool("count_it", count)).await.ok();
        let edge = |from: (&str, &str), to: (&str, &str)| {
            json!({"from": {"node": from.0, "handle": from.1}, "to": {"node": to.0, "handle": to.1}})
        };
        let graph = json!({
            "version": 1, "name": "reads",
            "nodes": [
                {"id": "read", "kind": "tool", "config": {"tool": "list_files"}},
                {"id": "apart", "kind": "tool", "config": {"tool": "echo", "input": {"text": "constant"}}},
                {"id": "after", "kind": "tool", "config": {"tool": "echo", "input": {"text": "x"}}, "on_error": "data"},
                {"id": "choose", "kind": "condition", "config": {"cases": [{"name": "any", "when": "true"}]}},
                {"id": "count", "kind": "tool", "config": {"tool": "count_it"}, "on_error": "data"},
                {"id": "counted", "kind": "tool", "config": {"tool": "echo", "input": {"text": "x"}}, "on_error": "data"},
                {"id": "beside", "kind": "condition", "config": {"cases": [{"name": "any", "when": "true"}]}}],
            "edges": [
                edge(("read", "output"), ("choose", "value")),
                edge(("choose", "any"), ("after", "input/meta")),
                edge(("read", "output"), ("count", "input/text")),
                edge(("count", "output"), ("counted", "input/meta")),
                edge(("count", "envelope"), ("beside", "value"))],
        });
        save(&world, &owner, &graph).await.refused(400);
        let mut graph = graph;
        for edge in [1, 3] {
            graph["edges"][edge]["to"]["handle"] = json!("input/text");
        }
        graph["edges"][1]["from"]["path"] = json!("/nothing");
        graph["edges"][3]["from"]["path"] = json!("/nothing");
        save(&world, &owner, &graph).await.ok();
        let ran = run(&world, &owner, "reads", json!({})).await;
        let labels = |path: &str| node_of(&ran, path)["labels"].clone();
        let both = labels("read");
        assert!(both.as_array().unwrap().contains(&json!("untrusted")), "{ran:#}");
        for (path, carried) in [("apart", &json!([])), ("choose", &both), ("after", &both), ("count", &both), ("beside", &both)] {
            assert_eq!(&labels(path), carried, "{path} in {ran:#}");
        }
        // A number is no instruction, whoever says it; where it came from is known all the same.
        let rest: Vec<Value> = both.as_array().unwrap().iter().filter(|label| **label != "untrusted").cloned().collect();
        assert_eq!(node_of(&ran, "count")["output_labels"], json!(rest), "{ran:#}");
        assert_eq!(labels("counted"), json!(rest), "{ran:#}");
        // Each call is judged with what its node carries; the run has seen it all.
        let run = ran["run_id"].as_str().unwrap();
        let shown = world.get(&owner, &format!("/api/v1/runs/{run}")).await.ok();
        assert_eq!(shown["labels"], both, "{shown:#}");
        for call in shown["calls"].as_array().unwrap() {
            let record = world.get(&owner, &format!("/api/v1/calls/{}", call["id"].as_str().unwrap())).await.ok();
            // Steps of the composition have none.
            let Some(path) = call["step_title"].as_str() else { continue };
            assert_eq!(json!(record["labels"].as_array().cloned().unwrap_or_default()), labels(path), "{path}: {record:#}");
        }
    })
    .await;
}

/// Whoever reads what nodes were given by another key has read it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_at_the_nodes_of_another_s_run_has_seen_what_is_there() {
    every_world(async |world| {
        let graph = json!({"version": 1, "name": "lists",
            "nodes": [{"id": "read", "kind": "tool", "config": {"tool": "list_files"}}]});
        save(&world, &As::Owner, &graph).await.ok();
        let ran = run(&world, &As::Owner, "lists", json!({})).await;
        let id = ran["run_id"].as_str().unwrap();
        let known =
            async || world.get(&As::Owner, "/api/v1/labels/contexts").await.ok()["items"].as_array().unwrap().len();
        for (name, path) in [("ann", "/workflow"), ("ben", "/workflow/nodes")] {
            let reader = world.user("default", name, &["approver"]).await;
            let before = known().await;
            world.get(&reader, &format!("/api/v1/runs/{id}{path}")).await.ok();
            assert_eq!(known().await, before + 1, "{path}");
        }
        let token = json!({"scope": ["tool:now"]});
        let token = world.send(&As::Owner, "POST", "/api/v1/tokens", token).await.ok();
        let token = As::Key(token["token"].as_str().unwrap_or_else(|| panic!("{token:#}")).to_owned());
        for path in ["/workflow", "/workflow/nodes"] {
            world.get(&token, &format!("/api/v1/runs/{id}{path}")).await.refused(403);
        }
    })
    .await;
}
