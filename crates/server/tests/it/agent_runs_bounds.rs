//! What bounds runs of agents from outside: what their readers have seen, whose key began them, what stands above them, and
//! what is left of them when they are cut off or erased. The models are scripts, but for one that does not count.

use serde_json::{Value, json};
use toolgate_contracts::{Amount, Fault, RunId, TenantId};
use toolgate_store::Change;
use toolgate_store::agent_runs::ModelUsed;
use toolgate_store::budgets::Held;

use crate::vendor::{Said, Vendor, text};
use crate::world::{self, As, World, attend, every_world};

const RUNS: &str = "/api/v1/agents/helper/runs?wait=30";

/// An agent whose model says these turns, with these tools.
async fn agent(world: &World, name: &str, turns: Value, tools: &[&str]) {
    let spec = json!({"name": name, "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&As::Owner, "PUT", &format!("/api/v1/providers/{name}"), spec).await.ok();
    let model = format!("{name}/any");
    let spec = json!({"name": name, "model": model, "toolset": "assigned", "custom_tools": tools});
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
}

/// One that counts and writes; somebody must allow that it writes.
async fn writer(world: &World) {
    let sum = json!({"tool": "calculator", "input": {"expression": "2 * 21"}});
    let write = json!({"tool": "fileReport", "input": {"id": "42"}});
    let turns = json!([{"call": [sum]}, {"call": [sum, write]}, {"say": "Filed."}]);
    agent(world, "helper", turns, &["calculator", "echo"]).await;
    let mut tool = world::write_tool("fileReport");
    tool["runner"] = json!({"kind": "external"});
    world.register(&As::Owner, tool).await.ok();
    world.send(&As::Owner, "PUT", "/api/v1/agents/helper/tools/fileReport", json!({})).await.ok();
}

async fn waiting(world: &World, who: &As) -> Value {
    writer(world).await;
    let run = world.send(who, "POST", RUNS, json!({"prompt": "File it."})).await.ok();
    assert_eq!(run["state"], "waiting_human", "{run:#}");
    run
}

async fn closed(world: &World, run: &Value) -> Value {
    let path = format!("/api/v1/runs/{}/outputs?wait=1", run["id"].as_str().unwrap());
    for _ in 0..80 {
        let seen = world.get(&As::Owner, &path).await.ok();
        if seen["outputs"].is_object() {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the run is never closed: {:#}", world.get(&As::Owner, &path).await.body);
}

/// The outputs of the calculator that a run gives.
fn sums(run: &Value) -> usize {
    let calls = run["outputs"]["tools_by_id"].as_object().unwrap();
    calls.values().filter(|call| call["name"] == "calculator" && call["output"]["result"] == 42).count()
}

async fn has_seen(world: &World, who: &As) -> Value {
    world.send(who, "POST", "/api/v1/runs", json!({})).await.ok()["labels"].clone()
}

fn place(world: &World, run: &Value) -> (TenantId, RunId) {
    let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
    (tenant, run["id"].as_str().unwrap().parse().unwrap())
}

async fn reject(world: &World) {
    let asked = world.get(&As::Owner, "/api/v1/approvals?state=open").await.ok();
    let path = format!("/api/v1/approvals/{}/decide", asked["items"][0]["id"].as_str().unwrap());
    world.send(&As::Owner, "POST", &path, json!({"decision": "reject", "reason": "not today"})).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_an_agent_washes_nothing_off_in_either_direction() {
    every_world(async |world| {
        agent(&world, "helper", json!([{"say": "Hello."}]), &["echo"]).await;
        let look = json!({"tool": "list_files", "input": {}});
        let turns = json!([{"call": [look.clone()]}, {"say": "Seen."}]);
        agent(&world, "looker", turns, &["list_files"]).await;
        let untrusted = |labels: &Value| labels.as_array().unwrap().contains(&json!("untrusted"));

        let mona = world.user("default", "mona", &["member"]).await;
        assert_eq!(has_seen(&world, &mona).await, json!([]));
        world.send(&mona, "POST", "/api/v1/calls", look).await.ok();
        let run = world.send(&mona, "POST", RUNS, json!({"prompt": "Hello?"})).await.ok();
        assert!(untrusted(&run["labels"]), "what she read goes along: {run:#}");

        let otto = world.user("default", "otto", &["member"]).await;
        let run =
            world.send(&otto, "POST", "/api/v1/agents/looker/runs?wait=30", json!({"prompt": "Look."})).await.ok();
        assert_eq!(run["outputs"]["response"], "Seen.", "{run:#}");
        let labels = has_seen(&world, &otto).await;
        assert!(untrusted(&labels), "what the agent read comes back: {labels:#}");

        let auditor = world.user("default", "ada", &["admin"]).await;
        let labels = has_seen(&world, &auditor).await;
        assert_eq!(labels, json!([]));
        world.get(&auditor, &format!("/api/v1/runs/{}/outputs", run["id"].as_str().unwrap())).await.ok();
        let labels = has_seen(&world, &auditor).await;
        assert!(untrusted(&labels), "and to whoever else reads it: {labels:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_an_agent_begins_runs_of_that_agent_alone() {
    every_world(async |world| {
        agent(&world, "helper", json!([{"say": "Hello."}]), &["echo"]).await;
        agent(&world, "other", json!([{"say": "Hello."}]), &["echo"]).await;
        let scopes = json!(["agents.run", "calls.create", "calls.read.own"]);
        let key = json!({"name": "of-helper", "agent": "helper", "scopes": scopes});
        let key = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
        let key = As::Key(key["secret"].as_str().unwrap().to_owned());
        let hello = json!({"prompt": "Hello?"});
        let refused = world.send(&key, "POST", "/api/v1/agents/other/runs", hello.clone()).await.refused(403);
        assert!(refused["remedy"].as_str().unwrap().contains("delegateToAgent"), "{refused:#}");
        let all = world.get(&As::Owner, "/api/v1/runs").await.ok();
        assert_eq!(all["items"], json!([]), "nothing began");
        let own = world.send(&key, "POST", RUNS, hello).await.ok();
        assert_eq!((&own["state"], &own["title"]), (&json!("completed"), &json!("helper")), "{own:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_begins_an_agent_lends_it_what_agents_may_have_and_no_more() {
    every_world(async |world| {
        let run = waiting(&world, &As::Owner).await;
        let (tenant, id) = place(&world, &run);
        let kept = world.app.store.agent_run(tenant, id).await.unwrap().unwrap();
        let acting = world.app.engine.acting_again(tenant, &kept.asker).await.unwrap();
        assert!(
            acting.permissions.iter().all(toolgate_contracts::Permission::is_for_agents),
            "{:?}",
            acting.permissions
        );
        assert!(acting.permissions.iter().next().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_below_another_follows_the_limits_above_it() {
    every_world(async |world| {
        agent(&world, "helper", json!([{"say": "Hello."}]), &["calculator", "echo"]).await;
        let check = async |above: Value, own: Value, wanted: Value, tools: &[&str]| {
            let parent = world.send(&As::Owner, "POST", "/api/v1/runs", json!({"limits": above})).await.ok();
            let body = json!({"prompt": "Hello?", "parent_run_id": parent["id"], "limits": own});
            let run = world.send(&As::Owner, "POST", RUNS, body).await.ok();
            assert_eq!(run["state"], "completed", "{run:#}");
            let path = format!("/api/v1/runs/{}/bundle", run["id"].as_str().unwrap());
            let bundle = world.get(&As::Owner, &path).await.ok();
            for (limit, value) in wanted.as_object().unwrap() {
                assert_eq!(&run["limits"][limit], value, "{limit} of the run: {run:#}");
                assert_eq!(&bundle["run"]["limits"][limit], value, "{limit} of the plan: {:#}", bundle["run"]);
            }
            let told =
                bundle["snapshot"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
            // By which long results are read, whatever else there is.
            let told: Vec<&str> = told.filter(|name| *name != "readResult").collect();
            assert_eq!(told, tools, "{above} {own}");
        };
        let rate = |count: u32, per_s: u32| json!({"rate_limit": {"count": count, "per_s": per_s}});
        let both = ["calculator", "echo"];
        check(json!({"max_parallel": 2}), json!({}), json!({"max_parallel": 2}), &both).await;
        check(json!({"max_parallel": 2}), json!({"max_parallel": 1}), json!({"max_parallel": 1}), &both).await;
        check(json!({"max_wall_s": 30}), json!({}), json!({"max_wall_s": 30}), &both).await;
        check(rate(5, 60), json!({}), rate(5, 60), &both).await;
        check(rate(5, 60), rate(1, 1), rate(5, 60), &both).await;
        check(rate(5, 60), rate(1, 60), rate(1, 60), &both).await;
        check(json!({"enabled_tools": ["echo", "list_files"]}), json!({}), json!({}), &["echo"]).await;
        let own = json!({"enabled_tools": ["calculator", "echo"]});
        check(json!({"enabled_tools": ["echo"]}), own, json!({"enabled_tools": ["echo"]}), &["echo"]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_or_expired_drives_no_run_and_what_was_done_is_told() {
    every_world(async |world| {
        let stop = attend(&world.app);
        writer(&world).await;
        for (name, word) in [("revoked", "was revoked"), ("expired", "has expired")] {
            world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": name, "roles": ["member"]})).await.ok();
            let key = json!({"name": "short", "owner": name, "scopes": ["member"], "days": 1});
            let made = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
            let key = As::Key(made["secret"].as_str().unwrap().to_owned());
            world.clock.advance(23 * 3600);
            let run = world.send(&key, "POST", RUNS, json!({"prompt": "File it."})).await.ok();
            assert_eq!(run["state"], "waiting_human", "{run:#}");
            if name == "revoked" {
                let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
                world.send(&As::Owner, "DELETE", &path, json!({})).await.ok();
            } else {
                world.clock.advance(2 * 3600);
            }
            reject(&world).await;
            let ended = closed(&world, &run).await;
            assert_eq!(ended["state"], "failed", "{ended:#}");
            assert!(ended["reason"].as_str().unwrap().contains(word), "{ended:#}");
            assert_eq!(sums(&ended), 2, "{ended:#}");
        }
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cancelled_while_a_call_waits_tells_of_those_that_ended() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let run = waiting(&world, &As::Owner).await;
        let id = run["id"].as_str().unwrap();
        world.send(&As::Owner, "PUT", &format!("/api/v1/runs/{id}/state"), json!({"state": "cancelled"})).await.ok();
        let ended = closed(&world, &run).await;
        assert_eq!((&ended["state"], sums(&ended)), (&json!("cancelled"), 2), "{ended:#}");
        let bundle = world.get(&As::Owner, &format!("/api/v1/runs/{id}/bundle")).await.ok();
        let calls = bundle["calls"].as_array().unwrap().len();
        assert_eq!(calls, ended["outputs"]["tool_order"].as_array().unwrap().len(), "{bundle:#}");
        let replayed = world.send(&As::Owner, "POST", "/api/v1/replay", json!({"run": id})).await.ok();
        assert_eq!((&replayed["equal"], &replayed["calls"]), (&json!(true), &json!(calls)), "{replayed:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_its_host_calls_in_a_run_that_is_hosted() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let run = waiting(&world, &As::Owner).await;
        let call = json!({"tool": "echo", "input": {"text": "me too"}, "run_id": run["id"]});
        let refused = world.send(&As::Owner, "POST", "/api/v1/calls", call).await.refused(409);
        assert_eq!(refused["pointer"], "/run_id", "{refused:#}");
        assert!(refused["remedy"].as_str().unwrap().contains("parent_run_id"), "{refused:#}");
        // Nor does anybody else say how it ended.
        for state in ["completed", "failed"] {
            let path = format!("/api/v1/runs/{}/state", run["id"].as_str().unwrap());
            let refused = world.send(&As::Owner, "PUT", &path, json!({"state": state})).await.refused(409);
            assert!(refused["remedy"].as_str().unwrap().contains("`cancelled`"), "{refused:#}");
        }
        // Below it there is room.
        let below = json!({"parent_run_id": run["id"]});
        let below = world.send(&As::Owner, "POST", "/api/v1/runs", below).await.ok();
        let call = json!({"tool": "echo", "input": {"text": "me too"}, "run_id": below["id"]});
        assert_eq!(world.send(&As::Owner, "POST", "/api/v1/calls", call).await.ok()["status"], "completed");
        reject(&world).await;
        let ended = closed(&world, &run).await;
        assert_eq!((&ended["state"], &ended["outputs"]["response"]), (&json!("completed"), &json!("Filed.")));
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_for_a_lost_question_is_settled_when_its_run_is_closed() {
    every_world(async |world| {
        let run = waiting(&world, &As::Owner).await;
        let (tenant, id) = place(&world, &run);
        let store = &world.app.store;
        let no = || Fault::conflict("no", "no");
        // A replica asked, and is gone.
        let held = Held { scope: "agent:lost:2026-11".to_owned(), micros: 700 };
        let took = ModelUsed { input: 300, cached: 0, output: 400, cost: Some(Amount::from_micros(700)) };
        let mut is_asked = false;
        for _ in 0..100 {
            let mut change = Change::new(tenant);
            change.take_agent_run(id, None, "gone", no());
            change.ask_turn((id, 2), "gone", (std::slice::from_ref(&held), &took), world.app.engine.now(), no());
            change.reserve(&held, Amount::from_micros(1000), no());
            is_asked = store.commit(change).await.is_ok();
            if is_asked {
                break;
            }
            // Whoever drove it to here has not let go of it yet.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(is_asked);
        let path = format!("/api/v1/runs/{id}/state");
        world.send(&As::Owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        let stop = attend(&world.app);
        let used = closed(&world, &run).await["model_use"].clone();
        let balance = store.balance(tenant, &held.scope).await.unwrap();
        assert_eq!((balance.reserved.micros(), balance.spent.micros()), (0, 700));
        assert_eq!(store.agent_turns(tenant, id).await.unwrap().len(), 2);
        assert_eq!((&used["turns"], &used["unanswered"]), (&json!(3), &json!(1)), "{used:#}");
        assert_eq!((&used["input_tokens"], &used["output_tokens"]), (&json!(300), &json!(400)), "{used:#}");
        assert_eq!(used["cost"], "0.0007", "{used:#}");
        let usage = world.get(&As::Owner, "/api/v1/usage?by=agent&agent=helper").await.ok()["items"][0].clone();
        assert_eq!((&usage["questions"], &usage["cost"]), (&json!(3), &json!("0.0007")), "{usage:#}");
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(300), &json!(400)), "{usage:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_provider_does_not_count_takes_what_was_held_for_it() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["echo"]).await;
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        // Without a price nobody knows what it cost, and that is what is said.
        vendor.says(vec![Said::Events(vec![text("Hm."), format!("data: {end}\n\ndata: [DONE]\n\n")])]);
        let unpriced = world.send(&As::Owner, "POST", RUNS, json!({"prompt": "Hello?"})).await.ok();
        let usage = world.get(&As::Owner, "/api/v1/usage?by=tool").await.ok();
        let models = usage["items"].as_array().unwrap().iter().find(|row| row["unnamed"] == "models").unwrap().clone();
        assert_eq!((&models["questions"], &models["unpriced"], &models["key"]), (&json!(1), &json!(1), &Value::Null));
        let listed = world.get(&As::Owner, "/api/v1/runs").await.ok();
        assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["unpriced"]), (&unpriced["id"], &json!(1)));
        let prices = json!({"any": {"input": "100", "output": "100"}});
        let base = format!("http://{}/v1", vendor.address);
        let spec = json!({"name": "vendor", "kind": "openai_chat", "base_url": base, "prices": prices});
        world.send(&As::Owner, "PUT", "/api/v1/providers/vendor", spec).await.ok();
        vendor.says(vec![Said::Events(vec![text("Hello."), format!("data: {end}\n\ndata: [DONE]\n\n")])]);
        let body = json!({"prompt": "Hello?", "limits": {"max_budget": "5.00", "max_tokens": 40_000}});
        let run = world.send(&As::Owner, "POST", RUNS, body).await.ok();
        assert_eq!(run["outputs"]["response"], "Hello.", "{run:#}");
        let (tenant, id) = place(&world, &run);
        let balance = world.app.store.balance(tenant, &format!("run:{id}")).await.unwrap();
        assert_eq!(balance.reserved, Amount::ZERO);
        assert!(balance.spent > Amount::ZERO, "{balance:?}");
        assert_eq!(run["model_use"]["cost"], balance.spent.to_string(), "{run:#}");
        let bundle = world.get(&As::Owner, &format!("/api/v1/runs/{id}/bundle")).await.ok();
        assert_eq!(bundle["turns"][0]["response"]["usage_unknown"], true, "{bundle:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erasing_a_person_and_retention_empty_runs_that_have_ended() {
    every_world(async |world| {
        let say = json!({"say": "You said: {{ prompt }}"});
        agent(
            &world,
            "helper",
            json!([{"call": [{"tool": "echo", "input": {"text": "secret plan"}}]}, say]),
            &["echo"],
        )
        .await;
        let check = async |name: &str, path: &str, body: Value| {
            let person = world.user("default", name, &["member"]).await;
            let run = world.send(&person, "POST", RUNS, json!({"prompt": "my secret plan"})).await.ok();
            assert_eq!(run["outputs"]["response"], "You said: my secret plan", "{run:#}");
            world.clock.advance(3 * 86_400);
            world.send(&As::Owner, "POST", path, body).await.ok();
            let (tenant, id) = place(&world, &run);
            let kept = world.app.store.agent_run(tenant, id).await.unwrap().unwrap();
            assert_eq!((kept.plan, kept.outputs), (json!({}), None), "{name}");
            let turns = world.app.store.agent_turns(tenant, id).await.unwrap();
            assert!(turns.len() == 2 && turns.iter().all(|turn| turn.answer.is_none() && turn.asides.is_empty()));
            let seen = world.get(&As::Owner, &format!("/api/v1/runs/{id}/outputs?wait=30")).await.ok();
            assert_eq!((&seen["state"], &seen["outputs"]), (&json!("completed"), &Value::Null), "{seen:#}");
            let events = world.get(&As::Owner, &format!("/api/v1/runs/{id}/events")).await.ok();
            assert!(!events.to_string().contains("secret plan"), "{events:#}");
            let refused = world.get(&As::Owner, &format!("/api/v1/runs/{id}/bundle")).await.refused(409);
            assert!(refused["detail"].as_str().unwrap().contains("erased"), "{refused:#}");
        };
        check("mona", "/api/v1/users/mona/erase", json!({"apply": true})).await;
        check("otto", "/api/v1/retention", json!({"older_than_days": 1, "apply": true})).await;
    })
    .await;
}
