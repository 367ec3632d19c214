//! What runs of agents cost: which budgets a question to a model needs room in, what one without an answer counts for,
//! where what was used is summed, and that a request that is repeated begins nothing anew. The models are scripts with
//! prices.

use serde_json::{Value, json};

use crate::vendor::{Said, Vendor, text};
use crate::world::{As, World, attend, every_world};

/// A question may take 8192 tokens of output, 0.032768, and its own size; it does take 0.004.
const PRICES: &str = r#"{"any": {"input": "2", "output": "4"}}"#;

async fn agent(world: &World, name: &str, turns: Value, more: Value) {
    let prices: Value = serde_json::from_str(PRICES).unwrap();
    let script = json!({"version": 1, "turns": turns});
    let spec = json!({"name": name, "kind": "scripted", "script": script, "prices": prices});
    world.send(&As::Owner, "PUT", &format!("/api/v1/providers/{name}"), spec).await.ok();
    let mut spec = json!({
        "name": name, "model": format!("{name}/any"), "toolset": "assigned",
        "custom_tools": ["calculator", "delegateToAgent"],
    });
    for (member, value) in more.as_object().unwrap() {
        spec[member] = value.clone();
    }
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
}

fn usage() -> Value {
    json!({"input_tokens": 1000, "output_tokens": 500})
}

async fn run(world: &World, agent: &str) -> Value {
    let path = format!("/api/v1/agents/{agent}/runs?wait=30");
    world.send(&As::Owner, "POST", &path, json!({"prompt": "Go."})).await.ok()
}

/// One row of what was used.
async fn used(world: &World, query: &str) -> Value {
    world.get(&As::Owner, &format!("/api/v1/usage?{query}")).await.ok()["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_s_budgets_bind_questions_to_models() {
    every_world(async |world| {
        let check = async |name: &str, member: &str, runs: usize, tight: &str, word: &str| {
            let profile = json!({"name": name, member: "0.05"});
            world.send(&As::Owner, "PUT", &format!("/api/v1/profiles/{name}"), profile).await.ok();
            let sum = json!({"tool": "calculator", "input": {"expression": "1 + 1"}});
            let turns = json!([{"call": [sum], "usage": usage()}, {"say": "Two.", "usage": usage()}]);
            agent(&world, name, turns, json!({"profile": name})).await;
            let first = run(&world, name).await;
            assert_eq!(first["state"], "completed", "{name}: {first:#}");
            assert_eq!(first["model_use"]["cost"], "0.008", "{name}: {first:#}");
            for _ in 1..runs {
                assert_eq!(run(&world, name).await["state"], "completed", "{name}: each run has its own");
            }
            let profile = json!({"name": name, member: tight});
            world.send(&As::Owner, "PUT", &format!("/api/v1/profiles/{name}"), profile).await.ok();
            let refused = run(&world, name).await;
            let why = refused["reason"].as_str().unwrap_or_default();
            assert!(why.starts_with(word), "{name}: {refused:#}");
            assert_eq!(refused["model_use"]["turns"], 0, "{name}: nobody was asked");
        };
        check("per-run", "max_cost_per_run", 3, "0.03", "the budget of profile per-run for one run is 0.03").await;
        // One question has room in 0.04, and none beside the 0.008 that are spent.
        check("per-day", "max_cost_per_day", 1, "0.04", "the budget of profile per-day for 20").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_below_spends_is_spent_by_the_agent_that_asked_it() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let ask = json!({"tool": "delegateToAgent", "input": {"agent": "clerk", "prompt": "Do it."}});
        let turns = json!([
            {"call": [ask], "usage": usage()},
            {"when": {"last_error": true}, "say": "No: {{ tools.delegateToAgent }}", "usage": usage()},
            {"say": "Below: {{ tools.delegateToAgent.response }}", "usage": usage()},
        ]);
        agent(&world, "clerk", json!([{"repeat": 9, "say": "Here.", "usage": usage()}]), json!({})).await;
        world
            .send(&As::Owner, "PUT", "/api/v1/profiles/thrifty", json!({"name": "thrifty", "max_cost_per_day": "9"}))
            .await
            .ok();
        let limits = json!({"profile": "thrifty", "limits": {"max_budget": "0.09"}});
        agent(&world, "boss", turns, limits).await;

        let begun = run(&world, "boss").await;
        let path = format!("/api/v1/runs/{}/outputs?wait=30", begun["id"].as_str().unwrap());
        let done = world.get(&As::Owner, &path).await.ok();
        assert_eq!(done["outputs"]["response"], "Below: Here.", "{done:#}");
        let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let boss = world.get(&As::Owner, "/api/v1/agents/boss").await.ok()["id"].as_str().unwrap().to_owned();
        let day = world.app.engine.now().day();
        let month = &day[..7];
        for scope in [format!("agent:{boss}:{month}"), format!("profile:{boss}:thrifty:{day}")] {
            let balance = world.app.store.balance(tenant, &scope).await.unwrap();
            let spent = (balance.reserved.to_string(), balance.spent.to_string());
            assert_eq!(spent, ("0.00".to_owned(), "0.012".to_owned()), "{scope}: its two questions, and one below");
        }
        // Its own questions alone would fit a while longer.
        let mut last = Value::Null;
        for _ in 0..5 {
            let begun = run(&world, "boss").await;
            let path = format!("/api/v1/runs/{}/outputs?wait=30", begun["id"].as_str().unwrap());
            last = world.get(&As::Owner, &path).await.ok();
            if last["state"] == "failed" {
                break;
            }
        }
        let why = last["reason"].as_str().unwrap_or_default();
        assert!(why.starts_with(&format!("the budget of agent boss for {month} is 0.09")), "{last:#}");

        // What both asked is counted once each, of no tool, and beside the calls.
        let (boss, clerk) = (used(&world, "by=agent&agent=boss").await, used(&world, "by=agent&agent=clerk").await);
        let price = |row: &Value| row["cost"].as_str().unwrap().parse::<f64>().unwrap();
        for row in [&boss, &clerk] {
            let asked = row["questions"].as_f64().unwrap();
            assert!(asked >= 2.0 && (price(row) - asked * 0.004).abs() < 1e-9, "{row:#}");
            assert_eq!(row["input_tokens"].as_f64(), Some(asked * 1000.0), "{row:#}");
        }
        let all = used(&world, "by=tenant").await;
        assert!((price(&all) - price(&boss) - price(&clerk)).abs() < 1e-9, "{all:#}");
        assert_eq!(all["questions"], boss["questions"].as_i64().unwrap() + clerk["questions"].as_i64().unwrap());
        let by_tool = world.get(&As::Owner, "/api/v1/usage?by=tool").await.ok();
        let nameless = by_tool["items"].as_array().unwrap().iter().find(|row| row["key"].is_null()).unwrap();
        assert_eq!((&nameless["questions"], &nameless["cost"]), (&all["questions"], &all["cost"]), "{by_tool:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_broken_off_counts_as_one_and_as_what_was_held_for_it() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let check = async |name: &str, ended: &Value, asker: &str| {
            let used_by = &ended["model_use"];
            assert_eq!((&used_by["turns"], &used_by["unanswered"]), (&json!(1), &json!(1)), "{name}: {ended:#}");
            assert_eq!(used_by["output_tokens"], 8192, "{name}: {ended:#}");
            let row = used(&world, &format!("by=agent&agent={asker}")).await;
            assert_eq!((&row["questions"], &row["cost"]), (&json!(1), &used_by["cost"]), "{name}: {row:#}");
            let path = format!("/api/v1/runs/{}/events", ended["id"].as_str().unwrap());
            let events = world.get(&As::Owner, &path).await.ok().to_string();
            assert!(events.contains("model.failed"), "{name}: {events}");
        };
        agent(&world, "slow", json!([{"say": "late", "delay_ms": 60_000}]), json!({})).await;
        let begun = world.send(&As::Owner, "POST", "/api/v1/agents/slow/runs", json!({"prompt": "Go."})).await.ok();
        let id = begun["id"].as_str().unwrap();
        let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        while world.app.store.agent_turns(tenant, id.parse().unwrap()).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let cancel = json!({"state": "cancelled"});
        world.send(&As::Owner, "PUT", &format!("/api/v1/runs/{id}/state"), cancel).await.ok();
        let mut ended = Value::Null;
        while ended["outputs"].is_null() {
            ended = world.get(&As::Owner, &format!("/api/v1/runs/{id}/outputs?wait=1")).await.ok();
        }
        assert!(ended["model_use"]["cost"].as_str().unwrap().parse::<f64>().unwrap() > 0.032, "{ended:#}");
        check("cancelled", &ended, "slow").await;

        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator"]).await;
        let base = format!("http://{}/v1", vendor.address);
        let prices: Value = serde_json::from_str(PRICES).unwrap();
        let spec = json!({"name": "vendor", "kind": "openai_chat", "base_url": base, "prices": prices});
        world.send(&As::Owner, "PUT", "/api/v1/providers/vendor", spec).await.ok();
        vendor.says(vec![Said::Dropped(vec![text("Let me")])]);
        let ended = run(&world, "helper").await;
        assert_eq!(ended["state"], "failed", "{ended:#}");
        check("dropped", &ended, "helper").await;
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_repeated_with_its_key_is_the_same_run() {
    every_world(async |world| {
        agent(&world, "helper", json!([{"repeat": 9, "say": "Hello."}]), json!({})).await;
        agent(&world, "other", json!([{"repeat": 9, "say": "Hello."}]), json!({})).await;
        let path = "/api/v1/agents/helper/runs?wait=30";
        let body = json!({"prompt": "Hello?", "request_id": "order-42"});
        let first = world.send(&As::Owner, "POST", path, body.clone()).await.ok();
        assert_eq!(first["state"], "completed", "{first:#}");
        let again = world.send(&As::Owner, "POST", path, body.clone()).await.ok();
        assert_eq!((&again["id"], &again["model_use"]["turns"]), (&first["id"], &json!(1)), "{again:#}");
        let at_once = futures_util::future::join_all((0..8).map(|_| {
            let body = json!({"prompt": "All at once.", "request_id": "order-43"});
            world.send(&As::Owner, "POST", path, body)
        }));
        let at_once: Vec<Value> = at_once.await.into_iter().map(|answer| answer.ok()["id"].clone()).collect();
        assert!(at_once.iter().all(|id| id == &at_once[0]), "{at_once:?}");

        let another = json!({"prompt": "Goodbye.", "request_id": "order-42"});
        let refused = world.send(&As::Owner, "POST", path, another).await.refused(409);
        assert_eq!(refused["pointer"], "/request_id", "{refused:#}");
        world.send(&As::Owner, "POST", "/api/v1/agents/other/runs", body.clone()).await.refused(409);
        let empty = json!({"prompt": "Hello?", "request_id": ""});
        world.send(&As::Owner, "POST", path, empty).await.refused(400);
        // A key is its caller's, and one of a call is another one.
        let mona = world.user("default", "mona", &["member"]).await;
        let hers = world.send(&mona, "POST", path, body.clone()).await.ok();
        assert_ne!(hers["id"], first["id"]);
        let call = json!({"tool": "calculator", "input": {"expression": "1"}, "request_id": "order-42"});
        assert_eq!(world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok()["status"], "completed");
        let all = world.get(&As::Owner, "/api/v1/runs?agent=helper").await.ok();
        assert_eq!(all["items"].as_array().unwrap().len(), 3, "{all:#}");
        world.clock.advance(25 * 3600);
        let later = world.send(&As::Owner, "POST", path, body).await.ok();
        assert_ne!(later["id"], first["id"], "a day later it is another one");
    })
    .await;
}
