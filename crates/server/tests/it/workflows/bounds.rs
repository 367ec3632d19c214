//! What bounds a run of a workflow, how its many nodes are looked at, and what is told of what is refused.

use serde_json::{Value, json};

use super::{node_of, run, save};
use crate::world::{As, World, attend, every_world};

/// Says a text for each item of a list.
fn each(name: &str, text: &str) -> Value {
    json!({
        "version": 1, "name": name,
        "inputs": {"type": "object", "properties": {"many": {"type": "array", "description": "Anything"}}},
        "nodes": [
            {"id": "in", "kind": "input"},
            {"id": "each", "kind": "map", "config": {"max_parallel": 4, "body": {
                "nodes": [
                    {"id": "say", "kind": "tool", "config": {"tool": "echo", "input": {"text": text}}},
                    {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                        "said": {"type": "string", "description": "What was said"}}}}}],
                "edges": [{"from": {"node": "say", "handle": "output", "path": "/text"},
                    "to": {"node": "out", "handle": "said"}}]}}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "all": {"type": "array", "description": "Of each"}}}}}],
        "edges": [
            {"from": {"node": "in", "handle": "many"}, "to": {"node": "each", "handle": "items"}},
            {"from": {"node": "each", "handle": "items"}, "to": {"node": "out", "handle": "all"}}],
    })
}

fn asks(on_timeout: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "description": "So many"}}});
    let config = json!({"title": "How many?", "schema": schema, "timeout_s": 60, "on_timeout": on_timeout});
    json!({"version": 1, "name": "asks", "nodes": [{"id": "ask", "kind": "human", "config": config}]})
}

async fn over(world: &World, run: &Value) -> Value {
    let path = format!("/api/v1/runs/{}/workflow?wait=60", run["run_id"].as_str().unwrap());
    let mut view = world.get(&As::Owner, &path).await.ok();
    while view["state"] == "running" {
        view = world.get(&As::Owner, &path).await.ok();
    }
    view
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_would_hold_too_much_fails_and_says_the_bound() {
    every_world(async |world| {
        save(&world, &As::Owner, &each("heavy", &"x".repeat(99_000))).await.ok();
        let many: Vec<u32> = (0..400).collect();
        let begun = run(&world, &As::Owner, "heavy", json!({"many": many})).await;
        let view = over(&world, &begun).await;
        assert_eq!(view["state"], "failed", "{}", view["standing"]);
        assert!(view["reason"].as_str().unwrap().contains("32 MiB"), "{}", view["reason"]);
        let path = format!("/api/v1/runs/{}/workflow/nodes?state=failed", view["run_id"].as_str().unwrap());
        let failed = world.get(&As::Owner, &path).await.ok();
        let error = &failed["items"][0]["error"];
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("VALIDATION_ERROR"), &json!("too_large")));
        // A page holds as many as it may, and one at least.
        let path = format!("/api/v1/runs/{}/workflow/nodes?limit=500", view["run_id"].as_str().unwrap());
        let page = world.get(&As::Owner, &path).await.ok();
        let count = page["items"].as_array().unwrap().len();
        assert!((1..60).contains(&count) && page["next_cursor"].is_string(), "{count}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_run_are_looked_at_page_by_page() {
    every_world(async |world| {
        save(&world, &As::Owner, &each("light", "hi")).await.ok();
        let many: Vec<u32> = (0..40).collect();
        let view = over(&world, &run(&world, &As::Owner, "light", json!({"many": many})).await).await;
        assert_eq!(view["state"], "completed", "{view:#}");
        assert_eq!(view["output"]["all"].as_array().unwrap().len(), 40);
        let say = json!({"node": "each/say", "state": "completed", "count": 40});
        assert!(view["standing"].as_array().unwrap().contains(&say), "{:#}", view["standing"]);
        assert_eq!(view["nodes"]["items"].as_array().unwrap().len(), 50);
        let id = view["run_id"].as_str().unwrap();
        let (mut paths, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/runs/{id}/workflow/nodes?limit=7{cursor}");
            let page = world.get(&As::Owner, &path).await.ok();
            paths.extend(page["items"].as_array().unwrap().iter().map(|node| node["path"].to_string()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let count = paths.len();
        paths.sort();
        paths.dedup();
        assert_eq!((count, paths.len()), (83, 83));
        let none = world.get(&As::Owner, &format!("/api/v1/runs/{id}/workflow/nodes?state=waiting")).await.ok();
        assert_eq!(none, json!({"items": [], "next_cursor": null}));
        world.get(&As::Owner, &format!("/api/v1/runs/{id}/workflow/nodes?state=asleep")).await.refused(400);
        let stranger = world.user("default", "eve", &["member"]).await;
        world.get(&stranger, &format!("/api/v1/runs/{id}/workflow/nodes")).await.refused(404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_its_nodes_calls_in_the_run_of_a_workflow() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks(json!("fail"))).await.ok();
        let waits = run(&world, &As::Owner, "asks", json!({})).await;
        assert_eq!(waits["state"], "waiting_human", "{waits:#}");
        let call = json!({"tool": "echo", "input": {"text": "me too"}, "run_id": waits["run_id"]});
        let refused = world.send(&As::Owner, "POST", "/api/v1/calls", call).await.refused(409);
        assert_eq!(refused["pointer"], "/run_id", "{refused:#}");
        assert!(refused["remedy"].as_str().unwrap().contains("parent_run_id"), "{refused:#}");
        // Nor does anybody else take steps in it, or ask.
        let own = format!("/api/v1/runs/{}", waits["run_id"].as_str().unwrap());
        let check = async |what: &str, body: Value| {
            let refused = world.send(&As::Owner, "POST", &format!("{own}/{what}"), body).await.refused(409);
            assert!(refused["detail"].as_str().unwrap().contains("from its nodes alone"), "{refused:#}");
            assert!(refused["remedy"].as_str().unwrap().contains("parent_run_id"), "{refused:#}");
        };
        check("steps", json!({"title": "Mine"})).await;
        check("inputs", json!({"title": "Well?", "schema": {"type": "object"}})).await;
        let below =
            world.send(&As::Owner, "POST", "/api/v1/runs", json!({"parent_run_id": waits["run_id"]})).await.ok();
        let call = json!({"tool": "echo", "input": {"text": "me too"}, "run_id": below["id"]});
        assert_eq!(world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok()["status"], "completed");
        // There is no bundle of it, and it is said why.
        let path = format!("/api/v1/runs/{}/bundle", waits["run_id"].as_str().unwrap());
        let refused = world.get(&As::Owner, &path).await.refused(409);
        assert!(refused["detail"].as_str().unwrap().contains("a workflow's"), "{refused:#}");
        assert!(refused["remedy"].as_str().unwrap().contains("toolgate workflow nodes"), "{refused:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_begins_one_run_of_a_workflow_and_opens_one_run() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks(json!("fail"))).await.ok();
        let check = async |path: &str, body: Value, other: Value, id: &str| {
            let first = world.send(&As::Owner, "POST", path, body.clone()).await.ok();
            for _ in 0..2 {
                assert_eq!(world.send(&As::Owner, "POST", path, body.clone()).await.ok()[id], first[id], "{path}");
            }
            let refused = world.send(&As::Owner, "POST", path, other).await.refused(409);
            assert_eq!(refused["pointer"], "/request_id", "{refused:#}");
            let own = json!({"request_id": "another"});
            assert_ne!(world.send(&As::Owner, "POST", path, own).await.ok()[id], first[id]);
            world.clock.advance(86_401);
            assert_ne!(
                world.send(&As::Owner, "POST", path, body).await.ok()[id],
                first[id],
                "a day later it is another"
            );
        };
        let begin = json!({"input": {}, "request_id": "order-1"});
        let other = json!({"input": {}, "limits": {"max_tool_calls": 3}, "request_id": "order-1"});
        check("/api/v1/workflows/asks/runs", begin, other, "run_id").await;
        world.clock.advance(86_401);
        let open = json!({"title": "Mine", "request_id": "order-2"});
        check("/api/v1/runs", open, json!({"title": "Yours", "request_id": "order-2"}), "id").await;
        world.send(&As::Owner, "POST", "/api/v1/runs", json!({"request_id": ""})).await.refused(400);

        // Also where many send it at once.
        let body = json!({"title": "At once", "request_id": "order-3"});
        let all = (0..6).map(|_| world.send(&As::Owner, "POST", "/api/v1/runs", body.clone()));
        let ids: Vec<Value> =
            futures_util::future::join_all(all).await.into_iter().map(|one| one.ok()["id"].clone()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_is_a_word_over_rest_as_in_a_file() {
    every_world(async |world| {
        for word in [json!(null), json!("null")] {
            save(&world, &As::Owner, &asks(word.clone())).await.ok();
            let shown = world.get(&As::Owner, "/api/v1/workflows/asks").await.ok();
            assert_eq!(shown["workflow"]["nodes"][0]["config"]["on_timeout"], "null", "{word}");
            let body = json!({"workflow": asks(word)});
            let checked = world.send(&As::Owner, "POST", "/api/v1/workflows/asks/check", body).await.ok();
            assert_eq!(checked["passed"], true, "{checked:#}");
        }
        let refused = save(&world, &As::Owner, &asks(json!(3))).await.refused(400);
        assert_eq!(refused["pointer"], "/nodes/0/config/on_timeout", "{refused:#}");
        let body = json!({"workflow": asks(json!(3))});
        let refused = world.send(&As::Owner, "POST", "/api/v1/workflows/asks/check", body).await.refused(400);
        assert_eq!(refused["pointer"], "/workflow/nodes/0/config/on_timeout", "{refused:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_says_what_to_do_about_it() {
    every_world(async |world| {
        save(&world, &As::Owner, &each("light", "hi")).await.ok();
        let check = async |body: Value, status: u16, told: &str, remedy: &str| {
            let refused = world.send(&As::Owner, "POST", "/api/v1/workflows/light/runs", body).await.refused(status);
            assert!(refused["detail"].as_str().unwrap().contains(told), "{refused:#}");
            assert!(refused["remedy"].as_str().unwrap().contains(remedy), "{refused:#}");
        };
        let show = "`toolgate workflow show light`";
        check(json!({"revision": 9}), 404, "has no revision 9; the one that holds is 1", show).await;
        check(json!({"input": {"many": 1}}), 400, "", show).await;
        check(json!({"limits": {"max_parallel": 0}}), 400, "`max_parallel` is 0", "at least 1").await;
        let mut typo = each("typo", "hi");
        typo["nodes"][1]["config"]["body"]["nodes"][0]["config"]["tool"] = json!("ehco");
        let saved = save(&world, &As::Owner, &typo).await.ok();
        let fix = saved["findings"][0]["fix"].as_str().unwrap();
        assert!(fix.contains("did you mean `echo`?"), "{saved:#}");
        let mut none = each("none", "hi");
        none["nodes"][1]["config"]["max_parallel"] = json!(0);
        let refused = save(&world, &As::Owner, &none).await.refused(400);
        assert_eq!(refused["pointer"], "/nodes/1/config/max_parallel", "{refused:#}");
        let view = over(&world, &run(&world, &As::Owner, "light", json!({"many": [1]})).await).await;
        assert_eq!(node_of(&view, "each/0/say")["state"], "completed");
    })
    .await;
}

/// What fails at once takes nothing from those that could begin with it: they do not begin, least of all with nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_begins_with_less_than_arrived_beside_what_failed() {
    every_world(async |world| {
        let when = json!({"cases": [{"name": "much", "when": "value.total > 10"}]});
        let edge = |from: &str, to: (&str, &str)| {
            json!({"from": {"node": "in", "handle": from}, "to": {"node": to.0, "handle": to.1}})
        };
        let text = json!({"tool": "echo", "input": {"text": "DEFAULT"}});
        for first in [true, false] {
            let mut nodes = vec![
                json!({"id": "choose", "kind": "condition", "config": when}),
                json!({"id": "say", "kind": "tool", "config": text}),
            ];
            if !first {
                nodes.reverse();
            }
            nodes.insert(0, json!({"id": "in", "kind": "input"}));
            let inputs = json!({"type": "object", "properties": {
                "doc": {"type": "object", "description": "Anything"}, "to": {"type": "string", "description": "A text"}}});
            let graph = json!({"version": 1, "name": "beside", "inputs": inputs, "nodes": nodes,
                "edges": [edge("doc", ("choose", "value")), edge("to", ("say", "input/text"))]});
            save(&world, &As::Owner, &graph).await.ok();
            let input = json!({"doc": {"no": 1}, "to": "what was meant"});
            let view = over(&world, &run(&world, &As::Owner, "beside", input).await).await;
            assert_eq!((&view["state"], &node_of(&view, "choose")["state"]), (&json!("failed"), &json!("failed")));
            let said = view["nodes"]["items"].as_array().unwrap().iter().find(|node| node["path"] == "say");
            match said {
                None => assert!(first, "{view:#}"),
                Some(said) => assert_eq!(said["inputs"]["input/text"], "what was meant", "{view:#}"),
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cancelled_under_a_kill_switch_is_closed() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks(json!("fail"))).await.ok();
        let waits = run(&world, &As::Owner, "asks", json!({})).await;
        let id = waits["run_id"].as_str().unwrap().to_owned();
        let stop = json!({"scope": "tenant", "on": true, "reason": "drill"});
        world.send(&As::Owner, "PUT", "/api/v1/kill-switches", stop).await.ok();
        let stop = attend(&world.app);
        while !world.get(&As::Owner, &format!("/api/v1/runs/{id}")).await.ok()["frozen_at"].is_string() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let path = format!("/api/v1/runs/{id}/state");
        for state in ["completed", "failed"] {
            // How it ends is its nodes' to say.
            world.send(&As::Owner, "PUT", &path, json!({"state": state})).await.refused(409);
        }
        world.send(&As::Owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        let view = world.get(&As::Owner, &format!("/api/v1/runs/{id}/workflow?wait=60")).await.ok();
        assert_eq!((&view["state"], &node_of(&view, "ask")["state"]), (&json!("cancelled"), &json!("cancelled")));
        stop.cancel();
    })
    .await;
}
