//! Runs of agents as people and models read them: what drives a run, what was asked and answered in it, and what a model is
//! told of what people did meanwhile. The models are scripts.

use serde_json::{Value, json};

use crate::world::{As, World, attend, every_world};

async fn agent(world: &World, turns: Value, tools: &[&str]) {
    let provider = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&As::Owner, "PUT", "/api/v1/providers/play", provider).await.ok();
    let spec = json!({"name": "helper", "model": "play/any", "toolset": "assigned", "custom_tools": ["calculator"]});
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
    for tool in tools {
        world.send(&As::Owner, "PUT", &format!("/api/v1/agents/helper/tools/{tool}"), json!({})).await.ok();
    }
}

async fn run(world: &World, who: &As, prompt: &str) -> Value {
    world.send(who, "POST", "/api/v1/agents/helper/runs?wait=30", json!({"prompt": prompt})).await.ok()
}

async fn of_run(world: &World, run: &Value, rest: &str) -> Value {
    world.get(&As::Owner, &format!("/api/v1/runs/{}{rest}", run["id"].as_str().unwrap())).await.ok()
}

async fn ended(world: &World, run: &Value) -> Value {
    for _ in 0..80 {
        let seen = of_run(world, run, "/outputs?wait=1").await;
        if seen["outputs"].is_object() {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the run never ends: {:#}", of_run(world, run, "/outputs").await);
}

async fn decide(world: &World, who: &As, choice: Value) {
    let asked = world.get(who, "/api/v1/approvals?state=open").await.ok();
    let path = format!("/api/v1/approvals/{}/decide", asked["items"][0]["id"].as_str().unwrap());
    world.send(who, "POST", &path, choice).await.ok();
}

/// What the model was told of each call, in their order.
async fn told(world: &World, run: &Value) -> Vec<String> {
    let bundle = of_run(world, run, "/bundle").await;
    let calls = bundle["calls"].as_array().unwrap().iter();
    calls
        .map(|call| call["result_for_model"]["text"].as_str().unwrap_or_else(|| panic!("{call:#}")).to_owned())
        .collect()
}

fn sum(text: &str) -> Value {
    json!({"tool": "calculator", "input": {"expression": text}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_tells_what_it_was_asked_and_what_each_turn_answered_and_called() {
    every_world(async |world| {
        let mia = world.user("default", "mia", &["member"]).await;
        let turns = json!([
            {"say": "Let me see.", "call": [sum("1 + 1"), {"tool": "no-such", "input": {}}, sum("1 / 0")], "usage": {"input_tokens": 100, "output_tokens": 20}},
            {"say": "ä".repeat(10_000), "call": [sum("2 + 2")], "usage": {"input_tokens": 200, "cached_tokens": 100, "output_tokens": 5}},
            {"say": "It is 4."},
        ]);
        agent(&world, turns, &[]).await;
        let run = run(&world, &mia, "How much is it?").await;
        assert_eq!((&run["state"], &run["prompt"], &run["kind"]), (&json!("completed"), &json!("How much is it?"), &json!("agent")));

        let page = of_run(&world, &run, "/turns").await;
        assert_eq!((page["items"].as_array().unwrap().len(), &page["next_cursor"]), (3, &Value::Null));
        let first = &page["items"][0];
        assert_eq!((&first["turn"], &first["state"], &first["text"]), (&json!(0), &json!("answered"), &json!("Let me see.")));
        assert_eq!((&first["input_tokens"], &first["output_tokens"], &first["scripted"]), (&json!(100), &json!(20), &json!(true)));
        assert!(first["duration_ms"].is_u64(), "{first:#}");
        let calls: Vec<_> = first["calls"].as_array().unwrap().iter().map(|call| (&call["tool"], &call["status"])).collect();
        let [done, failed] = [json!("completed"), json!("failed")];
        assert_eq!(calls, [(&json!("calculator"), &done), (&json!("no-such"), &failed), (&json!("calculator"), &failed)]);
        assert_eq!(first["calls"][1]["error"]["details"]["reason"], "not_found", "it has no record, and says why: {first:#}");
        let second = &page["items"][1];
        assert_eq!((&second["is_cut"], second["text"].as_str().unwrap().len()), (&json!(true), 16 * 1024));
        assert_eq!(second["calls"][0]["seq"], 3, "places go on from turn to turn");
        // Each is the call that it says.
        let call = world.get(&As::Owner, &format!("/api/v1/calls/{}", second["calls"][0]["id"].as_str().unwrap())).await.ok();
        assert_eq!((&call["call_id"], &call["output"]["result"]), (&second["calls"][0]["call_id"], &json!(4)));

        // The run tells of the one without a record too, and counts it.
        let shown = of_run(&world, &run, "").await;
        let unread = &shown["unread"][0];
        assert_eq!((&shown["calls_counted"], shown["calls"].as_array().unwrap().len()), (&json!(4), 3), "{shown:#}");
        assert_eq!((&unread["tool"], &unread["seq"], &unread["reason"]), (&json!("no-such"), &json!(1), &json!("not_found")));
        assert_eq!(unread["call_id"], first["calls"][1]["call_id"], "{shown:#}");
        assert_eq!(shown["unread"].as_array().unwrap().len(), 1, "{shown:#}");
        // Page by page the places go on.
        let mut pages = Vec::new();
        let mut cursor = String::new();
        loop {
            let one = of_run(&world, &run, &format!("/turns?limit=1{cursor}")).await;
            pages.extend(one["items"].as_array().unwrap().iter().cloned());
            match one["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(json!(pages), page["items"]);
        // A list has the beginning of what was asked.
        let listed = world.get(&mia, "/api/v1/runs").await.ok();
        assert_eq!((&listed["items"][0]["prompt"], &listed["items"][0]["unpriced"]), (&json!("How much is it?"), &json!(0)), "{listed:#}");

        let one = of_run(&world, &run, "/turns?limit=1").await;
        let next = of_run(&world, &run, &format!("/turns?limit=2&cursor={}", one["next_cursor"].as_str().unwrap())).await;
        assert_eq!((&one["items"][0], &next["items"]), (first, &json!([second, page["items"][2]])), "page by page");

        // Whoever may not read the run finds none.
        let path = format!("/api/v1/runs/{}/turns", run["id"].as_str().unwrap());
        let eve = world.user("default", "eve", &["member"]).await;
        world.get(&eve, &path).await.refused(404);

        world.send(&As::Owner, "POST", "/api/v1/users/mia/erase", json!({"apply": true})).await.ok();
        let erased = of_run(&world, &run, "/turns").await;
        assert_eq!((&erased["items"][0]["state"], &erased["items"][0]["text"]), (&json!("erased"), &json!("")));
        assert!(!erased.to_string().contains("Let me see"), "{erased:#}");
        assert_eq!(of_run(&world, &run, "/outputs").await["prompt"], Value::Null);
        assert_eq!(world.get(&mia, "/api/v1/runs").await.ok()["items"][0]["prompt"], Value::Null);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_runs_shows_one_line_of_the_prompt_to_whoever_may_read_it_and_what_all_below_cost() {
    every_world(async |world| {
        let mia = world.user("default", "mia", &["member"]).await;
        let usage = json!({"input_tokens": 1000, "output_tokens": 0});
        let turns = json!([{"say": "Yes.", "usage": usage, "repeat": 9}]);
        agent(&world, turns.clone(), &[]).await;
        let spec = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}, "prices": {"any": {"input": "10", "output": "10"}}});
        world.send(&As::Owner, "PUT", "/api/v1/providers/play", spec).await.ok();
        let above = world.send(&mia, "POST", "/api/v1/runs", json!({"title": "Above"})).await.ok();
        let long = format!("One\n  two\tthree {}", "ä".repeat(400));
        let body = json!({"prompt": long, "parent_run_id": above["id"]});
        let below = world.send(&mia, "POST", "/api/v1/agents/helper/runs?wait=30", body).await.ok();
        let listed = world.get(&mia, "/api/v1/runs").await.ok();
        let items = listed["items"].as_array().unwrap();
        let of = |id: &Value| items.iter().find(|run| run["id"] == *id).unwrap();
        let prompt = of(&below["id"])["prompt"].as_str().unwrap();
        assert!(prompt.starts_with("One two three ää") && prompt.ends_with('…'), "{prompt}");
        assert_eq!(prompt.chars().count(), 161);
        assert_eq!((&of(&below["id"])["cost"], &of(&above["id"])["cost"]), (&json!("0.01"), &json!("0.01")), "{listed:#}");
        assert_eq!(of(&above["id"])["prompt"], Value::Null);

        // What would bring a label is not read in passing; whoever has the label reads it.
        let body = json!({"prompt": "Of somebody's account", "labels": ["private"]});
        let run = world.send(&mia, "POST", "/api/v1/agents/helper/runs", body).await.ok();
        let prompt_for = async |who: &As| {
            let listed = world.get(who, "/api/v1/runs?kind=agent").await.ok();
            let items = listed["items"].as_array().unwrap().clone();
            items.into_iter().find(|one| one["id"] == run["id"]).unwrap()["prompt"].clone()
        };
        assert_eq!(prompt_for(&As::Owner).await, Value::Null);
        of_run(&world, &run, "/outputs?wait=30").await;
        assert_eq!(prompt_for(&As::Owner).await, "Of somebody's account", "its outputs were read, and so is the label");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_says_what_drives_it() {
    every_world(async |world| {
        agent(&world, json!([{"say": "Yes."}]), &[]).await;
        let hosted = run(&world, &As::Owner, "Well?").await;
        let plain = world.send(&As::Owner, "POST", "/api/v1/runs", json!({"title": "Mine"})).await.ok();
        let echo = json!({"tool": "echo", "input": {"text": "hello"}});
        let lone = world.send(&As::Owner, "POST", "/api/v1/calls", echo).await.ok();
        let graph = json!({"version": 1, "name": "say", "nodes": [{"id": "a", "kind": "tool", "config": {"tool": "echo", "input": {"text": "hello"}}}]});
        world.send(&As::Owner, "PUT", "/api/v1/workflows/say", graph).await.ok();
        let begun = world.send(&As::Owner, "POST", "/api/v1/workflows/say/runs?wait=10", json!({"input": {}})).await.ok();

        let check = async |id: &Value, kind: &str| {
            let seen = world.get(&As::Owner, &format!("/api/v1/runs/{}", id.as_str().unwrap())).await.ok();
            assert_eq!(seen["kind"], kind, "{seen:#}");
            let list = world.get(&As::Owner, &format!("/api/v1/runs?kind={kind}")).await.ok();
            let items = list["items"].as_array().unwrap();
            assert!(items.iter().all(|run| run["kind"] == kind), "{list:#}");
            items.iter().any(|run| run["id"] == *id)
        };
        assert!(check(&hosted["id"], "agent").await);
        assert!(check(&begun["run_id"], "workflow").await);
        assert!(check(&plain["id"], "calls").await);
        assert!(!check(&lone["run_id"], "calls").await, "a lone call is not listed");
        world.get(&As::Owner, "/api/v1/runs?kind=dance").await.refused(400);
        world.get(&As::Owner, &format!("/api/v1/runs/{}/turns", plain["id"].as_str().unwrap())).await.refused(404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_told_that_a_person_changed_its_input_and_what_ran() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let ben = world.user("default", "ben", &["approver"]).await;
        let write = json!({"tool": "write_file", "input": {"path": "a.txt", "text": "hello"}});
        let turns = json!([{"call": [sum("2 * 21"), write]}, {"say": "Written."}]);
        agent(&world, turns, &["write_file"]).await;
        let waits = run(&world, &As::Owner, "Write it.").await;
        assert_eq!((&waits["state"], &waits["attended"]), (&json!("waiting_human"), &json!(false)), "{waits:#}");
        let asked = of_run(&world, &waits, "").await;
        let approval = asked["calls"].as_array().unwrap().iter().find_map(|call| call["approval_id"].as_str()).unwrap();
        assert_eq!(world.get(&ben, &format!("/api/v1/approvals/{approval}")).await.ok()["state"], "open");
        let edited = json!({"path": "b.txt", "text": "good day", "overwrite": true});
        decide(&world, &ben, json!({"decision": "approve", "input": edited})).await;
        ended(&world, &waits).await;
        let told = told(&world, &waits).await;
        assert!(!told[0].contains("A person"), "{told:?}");
        let ran = r#"A person changed the input of this call before approving it. What ran: {"overwrite":true,"path":"b.txt","text":"good day"}"#;
        assert!(told[1].starts_with(ran) && told[1].contains("\"bytes\":8"), "{told:?}");
        let turns = of_run(&world, &waits, "/turns").await;
        let calls = &turns["items"][0]["calls"];
        assert_eq!((&calls[0]["edited"], &calls[1]["edited"]), (&json!(false), &json!(true)), "{calls:#}");
        assert_eq!(calls[1]["approval_id"], approval);
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_disabled_while_its_agent_runs_is_told_as_disabled() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let write = json!({"tool": "write_file", "input": {"path": "a.txt", "text": "hello"}});
        let turns = json!([{"call": [write]}, {"call": [sum("1 + 1"), {"tool": "never_there", "input": {}}]}, {"say": "Well."}]);
        agent(&world, turns, &["write_file"]).await;
        let waits = run(&world, &As::Owner, "Write it.").await;
        world.send(&As::Owner, "PUT", "/api/v1/tools/calculator/enabled", json!({"enabled": false})).await.ok();
        decide(&world, &As::Owner, json!({"decision": "reject", "reason": "not today"})).await;
        ended(&world, &waits).await;
        let told = told(&world, &waits).await;
        assert!(told[1].starts_with("POLICY_DENIED: `calculator` was disabled since the run began; go on without it"), "{told:?}");
        assert!(told[2].starts_with("POLICY_DENIED: no tool `never_there`"), "what it never had is none: {told:?}");
        assert!(told.iter().all(|text| !text.contains("toolgate ")), "a model has no command line: {told:?}");
        stop.cancel();
    })
    .await;
}
