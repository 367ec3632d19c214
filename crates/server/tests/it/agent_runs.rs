//! Runs of agents: what they give, what ends them, what they wait for, and how they go on. The model is a script.

use serde_json::{Value, json};
use toolgate_store::testing::every_migrated;
use toolgate_store::{Change, Kind};

use crate::world::{self, As, World, attend, every_world, two_replicas};

async fn provider(world: &World, turns: Value, more: Value) {
    let mut spec = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    world.send(&As::Owner, "PUT", "/api/v1/providers/play", spec).await.ok();
}

/// An agent whose model says these turns.
async fn agent(world: &World, turns: Value, more: Value) {
    provider(world, turns, json!({})).await;
    let mut spec = json!({"name": "helper", "model": "play/any", "instructions": "Be brief.", "toolset": "assigned", "custom_tools": ["calculator", "echo"]});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
}

/// Runs it to where it ends or waits for somebody.
async fn run(world: &World, body: Value) -> Value {
    world.send(&As::Owner, "POST", "/api/v1/agents/helper/runs?wait=30", body).await.ok()
}

async fn events(world: &World, run: &Value) -> Vec<(String, Value)> {
    let path = format!("/api/v1/runs/{}/events", run["id"].as_str().unwrap());
    let page = world.get(&As::Owner, &path).await.ok();
    let told = |event: &Value| (event["type"].as_str().unwrap().to_owned(), event["data"].clone());
    page["items"].as_array().unwrap().iter().filter(|event| event["seq"].is_u64()).map(told).collect()
}

fn calls(names: &[(&str, Value)]) -> Value {
    names.iter().map(|(tool, input)| json!({"tool": tool, "input": input})).collect()
}

fn sum(text: &str) -> (&'static str, Value) {
    ("calculator", json!({"expression": text}))
}

async fn state_becomes(world: &World, run: &Value, wanted: &str) -> Value {
    let path = format!("/api/v1/runs/{}/outputs?wait=1", run["id"].as_str().unwrap());
    for _ in 0..60 {
        let seen = world.get(&As::Owner, &path).await.ok();
        if seen["state"] == wanted {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the run never is {wanted}: {:#}", world.get(&As::Owner, &path).await.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_calls_tools_side_by_side_and_gives_the_five_outputs() {
    every_world(async |world| {
        let turns = json!([
            {"call": calls(&[sum("1 + 1"), sum("1 / 0"), sum("20 + 1")]), "usage": {"input_tokens": 100, "output_tokens": 20}},
            {"when": {"last_tool": "calculator"}, "say": "It is 21.", "usage": {"input_tokens": 200, "cached_tokens": 100, "output_tokens": 5}},
        ]);
        agent(&world, turns, json!({})).await;
        let run = run(&world, json!({"prompt": "How much?"})).await;
        assert_eq!(run["state"], "completed", "{run:#}");
        let outputs = &run["outputs"];
        let members: Vec<&String> = outputs.as_object().unwrap().keys().collect();
        assert_eq!(members, ["response", "tools_by_id", "tool_order", "last_tool"], "no address is known without a server");
        assert_eq!(outputs["response"], "It is 21.");
        let order = outputs["tool_order"].as_array().unwrap();
        let of = |index: usize| &outputs["tools_by_id"][order[index].as_str().unwrap()];
        assert_eq!((of(0)["output"]["result"].clone(), of(2)["output"]["result"].clone()), (json!(2), json!(21)));
        assert_eq!(of(1)["error"]["code"], "VALIDATION_ERROR", "{:#}", of(1));
        assert_eq!(outputs["last_tool"], *of(2));
        let usage = &run["model_use"];
        assert_eq!(
            (&usage["turns"], &usage["input_tokens"], &usage["cached_tokens"], &usage["output_tokens"], &usage["scripted"]),
            (&json!(2), &json!(300), &json!(100), &json!(25), &json!(true))
        );
        let told: Vec<String> = events(&world, &run).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(told.first().unwrap(), "run.started");
        assert_eq!(told.iter().filter(|kind| *kind == "model.completed").count(), 2, "{told:?}");
        assert_eq!(told.last().unwrap(), "run.completed");
        // Every call went through the gate, as the agent's, in this run.
        let made = world.get(&As::Owner, &format!("/api/v1/calls?run={}", run["id"].as_str().unwrap())).await.ok();
        assert_eq!(made["items"].as_array().unwrap().len(), 3);
        assert!(made["items"].as_array().unwrap().iter().all(|call| call["agent_name"] == "helper" && call["source"] == "agent"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_ends_a_run_and_says_which_how_much_was_used_and_what_to_change() {
    every_world(async |world| {
        let again = json!([{"repeat": 1000, "call": calls(&[sum("1 + 1")]), "usage": {"input_tokens": 4000, "output_tokens": 1000}}]);
        agent(&world, again.clone(), json!({})).await;
        let check = async |limits: Value, reason: &str, used: Value, word: &str| {
            let limits_of = limits.clone();
            let run = run(&world, json!({"prompt": "Go on for ever.", "limits": limits})).await;
            assert_eq!(run["state"], "failed", "{run:#}");
            let events = events(&world, &run).await;
            let (_, reached) = events.iter().find(|(kind, _)| kind == "limit.reached").unwrap_or_else(|| panic!("{events:#?}"));
            assert_eq!((&reached["limit"], &reached["used"]), (&json!(reason), &used), "{reached:#}");
            assert_eq!(reached["most"], limits_of[reason], "{reached:#}");
            let why = run["reason"].as_str().unwrap();
            assert!(why.contains(word), "{why}");
            assert_eq!(events.last().unwrap().0, "run.failed");
            run
        };
        check(json!({"max_iterations": 3}), "max_iterations", json!(3), "`max_iterations`").await;
        let stopped = check(json!({"max_tool_calls": 2}), "max_tool_calls", json!(2), "`max_tool_calls`").await;
        assert_eq!(stopped["outputs"]["tool_order"].as_array().unwrap().len(), 3, "the third was refused and is there");
        let tokens = check(json!({"max_tokens": 12_000}), "max_tokens", json!(10_000), "`max_tokens`").await;
        let failed = events(&world, &tokens).await.pop().unwrap().1;
        assert_eq!(failed["reason"], "budget", "the reasons are a closed list: {failed:#}");

        // Without a price nobody can keep to a budget.
        let prices = json!({"prices": {"any": {"input": "100", "output": "100"}}});
        provider(&world, again, prices).await;
        let dear = run_of(&world, json!({"prompt": "Go on.", "limits": {"max_budget": "2.00"}})).await;
        assert!(dear["reason"].as_str().unwrap().starts_with("the run's budget is 2.00, of which"), "{dear:#}");
        assert_eq!(dear["state"], "failed");
        let reached = events(&world, &dear).await.into_iter().find(|(kind, _)| kind == "limit.reached").unwrap().1;
        assert_eq!((&reached["limit"], &reached["most"]), (&json!("max_budget"), &json!("2.00")), "{reached:#}");
        assert!(reached["used"].as_str().unwrap().parse::<f64>().unwrap() <= 2.0, "{reached:#}");
        assert!(dear["model_use"]["cost"].as_str().unwrap().parse::<f64>().unwrap() <= 2.0, "{dear:#}");
    })
    .await;
}

async fn run_of(world: &World, body: Value) -> Value {
    run(world, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_with_which_nothing_could_happen_is_refused_by_its_name() {
    every_world(async |world| {
        agent(&world, json!([{"say": "Hello."}]), json!({})).await;
        for name in ["max_iterations", "max_tokens", "max_wall_s", "max_parallel"] {
            let body = json!({"prompt": "Hello?", "limits": {name: 0}});
            let refused = world.send(&As::Owner, "POST", "/api/v1/agents/helper/runs", body).await;
            assert_eq!(
                (refused.status, &refused.body["pointer"]),
                (400, &json!(format!("/limits/{name}"))),
                "{:#}",
                refused.body
            );
            let spec = json!({"name": "other", "model": "play/any", "limits": {name: 0}});
            let refused = world.send(&As::Owner, "POST", "/api/v1/agents", spec).await;
            assert_eq!(
                (refused.status, &refused.body["pointer"]),
                (400, &json!(format!("/limits/{name}"))),
                "{:#}",
                refused.body
            );
        }
        let body = json!({"prompt": "Hello?", "limits": {"max_iteration": 1}});
        let refused = world.send(&As::Owner, "POST", "/api/v1/agents/helper/runs", body).await.refused(400);
        let told = refused.to_string();
        assert!(told.contains("max_iterations") && !told.contains("maxIterations"), "{told}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_the_run_s_tokens_cut_off_says_so() {
    every_world(async |world| {
        let cut = json!([{"repeat": 9, "say": "It goes on and", "stop": "length"}]);
        agent(&world, cut, json!({"model_params": {"max_tokens": 4_000}})).await;
        let check = async |limits: Value, wanted: &str| {
            let run = run(&world, json!({"prompt": "Tell me.", "limits": limits})).await;
            assert!(run["reason"].as_str().unwrap().contains(wanted), "{run:#}");
        };
        check(json!({"max_tokens": 12_000}), "at 3000 tokens; a quarter of the 12000 that the run may take").await;
        check(json!({"max_tokens": 100_000}), "at 4000 tokens; raise `max_tokens` in the agent's `model_params`").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_tenant_says_of_runs_and_effects_holds_for_every_agent() {
    every_world(async |world| {
        let again = json!([{"repeat": 1000, "call": calls(&[sum("1 + 1")])}]);
        agent(&world, again, json!({"limits": {"max_iterations": 50}})).await;
        let set = async |limits: Value| world.send(&As::Owner, "PUT", "/api/v1/limits", limits).await;
        set(json!({"max_iterations": 2, "max_wall_s": 100})).await.ok();
        let stopped =
            run(&world, json!({"prompt": "Go on.", "limits": {"max_iterations": 40, "max_wall_s": 50}})).await;
        assert_eq!((&stopped["limits"]["max_iterations"], &stopped["limits"]["max_wall_s"]), (&json!(2), &json!(50)));
        let reached = events(&world, &stopped).await.into_iter().find(|(kind, _)| kind == "limit.reached").unwrap().1;
        assert_eq!((&reached["limit"], &reached["most"]), (&json!("max_iterations"), &json!(2)), "{reached:#}");
        // Nobody needs a run to have effects.
        let wait = json!({"tool": "calculator", "input": {"expression": "1"}});
        set(json!({"side_effects": "none"})).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/calls", wait).await.ok();
        world.register(&As::Owner, world::write_tool("fileReport")).await.ok();
        let write = json!({"tool": "fileReport", "input": {"id": "1"}});
        let refused = world.send(&As::Owner, "POST", "/api/v1/calls", write).await.ok();
        assert_eq!(refused["error"]["details"]["reason"], "side_effects", "{refused:#}");
        let refused = set(json!({"max_iterations": 0})).await;
        assert_eq!((refused.status, &refused.body["pointer"]), (400, &json!("/max_iterations")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_calls_at_once_are_as_many_as_are_allowed() {
    every_world(async |world| {
        let many: Vec<_> = (0..500).map(|index| sum(&format!("{index} + 1"))).collect();
        agent(&world, json!([{"call": calls(&many)}]), json!({})).await;
        let run = run(&world, json!({"prompt": "All of them."})).await;
        assert_eq!(run["state"], "failed");
        let why = run["reason"].as_str().unwrap();
        assert!(
            why.contains("may make 25 calls and made 25; its model asked for 500 at once, of which 25 were made"),
            "{why}"
        );
        let order = run["outputs"]["tool_order"].as_array().unwrap();
        assert_eq!(order.len(), 26);
        // Whichever comes last to the gate.
        let calls = run["outputs"]["tools_by_id"].as_object().unwrap();
        let refused = calls.values().filter(|call| call["error"]["details"]["reason"] == "max_tool_calls").count();
        assert_eq!((refused, calls.values().filter(|call| call["error"].is_null()).count()), (1, 25));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_gets_wrong_is_an_answer_that_it_reads() {
    every_world(async |world| {
        let turns = json!([
            {"call": [
                {"tool": "no_such_tool", "input": {}},
                {"tool": "not a name at all!", "input": {}},
                {"tool": "calculator", "input": {"expresion": "1"}},
                {"tool": "write_file", "input": {"path": "x", "content": "y"}},
            ]},
            {"when": {"last_error": true}, "say": "I see."},
        ]);
        agent(&world, turns, json!({})).await;
        let run = run(&world, json!({"prompt": "Try."})).await;
        assert_eq!((&run["state"], &run["outputs"]["response"]), (&json!("completed"), &json!("I see.")), "{run:#}");
        let order = run["outputs"]["tool_order"].as_array().unwrap();
        let reason = |index: usize| {
            let call = &run["outputs"]["tools_by_id"][order[index].as_str().unwrap()];
            (call["version"].as_str().unwrap().is_empty(), call["error"]["details"]["reason"].clone())
        };
        assert_eq!(reason(0), (true, json!("not_found")));
        assert_eq!(reason(1), (true, json!("not_found")));
        assert_eq!(reason(2), (false, json!("schema")));
        assert_eq!(reason(3), (true, json!("not_found")), "it was not given this one");
        assert!(run["outputs"]["last_tool"].is_null());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_fails_ends_the_run_with_what_it_says() {
    every_world(async |world| {
        let check = async |turns: Value, code: &str, reason: &str| {
            provider(&world, turns, json!({})).await;
            let run = run(&world, json!({"prompt": "Hello?"})).await;
            assert_eq!(run["state"], "failed", "{run:#}");
            let events = events(&world, &run).await;
            let (_, failed) = events.iter().find(|(kind, _)| kind == "model.failed").unwrap();
            assert_eq!((&failed["code"], &failed["reason"]), (&json!(code), &json!(reason)), "{failed:#}");
        };
        let silent = json!([{"when": {"turn": 9}, "say": "nothing"}]);
        agent(&world, silent.clone(), json!({})).await;
        check(silent, "PROVIDER_ERROR", "script_exhausted").await;
        check(json!([{"fail": {"status": 400}}]), "PROVIDER_ERROR", "upstream_4xx").await;
        check(json!([{"fail": {"status": 401}}]), "AUTH_REQUIRED", "upstream").await;
        check(
            json!([{"say": "half an answer", "chunks": 3, "fail": {"status": 500, "after_chunks": 1}}]),
            "PROVIDER_ERROR",
            "interrupted",
        )
        .await;
        // What a model refuses is its answer, and not one.
        provider(&world, json!([{"say": "I would rather not.", "stop": "refusal"}]), json!({})).await;
        let refused = run(&world, json!({"prompt": "Do it."})).await;
        assert_eq!(
            (&refused["state"], &refused["outputs"]["response"]),
            (&json!("failed"), &json!("I would rather not."))
        );
    })
    .await;
}

/// A tool that a person is asked about, and that somebody else's process runs.
fn writing(name: &str) -> Value {
    let mut tool = world::write_tool(name);
    tool["runner"] = json!({"kind": "external"});
    tool
}

/// An agent that writes a note and says so, and the run that waits for somebody to allow it.
async fn waiting(world: &World) -> (Value, String) {
    let turns = json!([
        {"call": calls(&[sum("2 * 21"), ("fileReport", json!({"id": "42"}))])},
        {"when": {"last_tool": "fileReport"}, "say": "Filed."},
    ]);
    agent(world, turns, json!({})).await;
    world.register(&As::Owner, writing("fileReport")).await.ok();
    world.send(&As::Owner, "PUT", "/api/v1/agents/helper/tools/fileReport", json!({})).await.ok();
    let run = run(world, json!({"prompt": "File the report."})).await;
    assert_eq!(run["state"], "waiting_human", "{run:#}");
    let asked = world.get(&As::Owner, "/api/v1/approvals").await.ok();
    let approval = asked["items"][0]["id"].as_str().unwrap().to_owned();
    (run, approval)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_as_data_and_a_decision_on_another_replica_takes_it_up() {
    every_migrated(async |database| {
        if database.kind == Kind::Sqlite {
            return;
        }
        let ([first, second], _folders) = two_replicas(database).await;
        let world = World::of(first);
        let (run, approval) = waiting(&world).await;
        let other = World::of(second);
        let stop = attend(&other.app);
        other
            .send(
                &As::Owner,
                "POST",
                &format!("/api/v1/approvals/{approval}/decide"),
                json!({"decision": "reject", "reason": "not today"}),
            )
            .await
            .ok();
        let ended = state_becomes(&other, &run, "completed").await;
        assert_eq!(ended["outputs"]["response"], "Filed.");
        let order = ended["outputs"]["tool_order"].as_array().unwrap();
        let filed = &ended["outputs"]["tools_by_id"][order[1].as_str().unwrap()];
        assert_eq!(filed["error"]["details"]["reason"], "rejected", "{filed:#}");
        let made = other.get(&As::Owner, &format!("/api/v1/calls?run={}", run["id"].as_str().unwrap())).await.ok();
        assert_eq!(made["items"].as_array().unwrap().len(), 2, "no call was made twice: {made:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_is_taken_up_by_the_program_that_starts_next() {
    every_migrated(async |database| {
        let folder = tempfile::tempdir().unwrap();
        let clock = toolgate_contracts::Clock::manual(toolgate_contracts::Timestamp::from_millis(1_794_700_000_000));
        let before = World::of(world::open(database, folder.path(), clock.clone(), 1).await);
        let (run, approval) = waiting(&before).await;
        let made = |world: &World| {
            let path = format!("/api/v1/calls?run={}", run["id"].as_str().unwrap());
            let (router, owner) = (world.router(), As::Owner);
            async move {
                world::send(router, &owner, "GET", &path, Value::Null).await.ok()["items"].as_array().unwrap().clone()
            }
        };
        let ids = |calls: &[Value]| calls.iter().map(|call| call["id"].clone()).collect::<Vec<_>>();
        let earlier = ids(&made(&before).await);
        before.app.close().await;
        drop(before);
        clock.advance(60);
        let after = World::of(world::open(database, folder.path(), clock.clone(), 2).await);
        let stop = attend(&after.app);
        let no = json!({"decision": "reject", "reason": "not today"});
        after.send(&As::Owner, "POST", &format!("/api/v1/approvals/{approval}/decide"), no).await.ok();
        let ended = state_becomes(&after, &run, "completed").await;
        assert_eq!(ended["outputs"]["response"], "Filed.");
        assert_eq!(ended["model_use"]["turns"], 2);
        assert_eq!(ids(&made(&after).await), earlier, "the finished call was not made again");
        stop.cancel();
        after.app.close().await;
    })
    .await;
}

/// The agent asked for this input; a person gave another, and the agent may have lost the tool by the time that they decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_change_while_a_run_waits_does_not_break_it() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let approver = world.user("default", "ben", &["approver"]).await;
        let turns = json!([
            {"call": calls(&[sum("2 * 21"), ("write_file", json!({"path": "a.txt", "text": "hello"}))])},
            {"say": "Written."},
        ]);
        agent(&world, turns, json!({})).await;
        world.send(&As::Owner, "PUT", "/api/v1/agents/helper/tools/write_file", json!({})).await.ok();
        let run = run(&world, json!({"prompt": "Write it."})).await;
        assert_eq!(run["state"], "waiting_human", "{run:#}");
        let asked = world.get(&approver, "/api/v1/approvals?state=open").await.ok();
        let path = format!("/api/v1/approvals/{}/decide", asked["items"][0]["id"].as_str().unwrap());
        let edited = json!({"path": "b.txt", "text": "good day", "overwrite": true});
        world.send(&approver, "POST", &path, json!({"decision": "approve", "input": edited})).await.ok();
        let ended = state_becomes(&world, &run, "completed").await;
        assert_eq!(ended["outputs"]["response"], "Written.");
        let wrote = &ended["outputs"]["last_tool"];
        assert_eq!((&wrote["output"]["bytes"], &wrote["input"]["path"]), (&json!(8), &json!("b.txt")), "{wrote:#}");
        stop.cancel();
    })
    .await;
    every_world(async |world| {
        let (run, approval) = waiting(&world).await;
        world.send(&As::Owner, "DELETE", "/api/v1/agents/helper/tools/fileReport", json!({})).await.ok();
        let stop = attend(&world.app);
        let no = json!({"decision": "reject", "reason": "not today"});
        world.send(&As::Owner, "POST", &format!("/api/v1/approvals/{approval}/decide"), no).await;
        let ended = state_becomes(&world, &run, "completed").await;
        assert_eq!(ended["outputs"]["response"], "Filed.", "{ended:#}");
        stop.cancel();
    })
    .await;
}

type Make<'a> = &'a dyn Fn(&mut Change);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lost_a_run_writes_nothing_into_it() {
    every_world(async |world| {
        let (run, _) = waiting(&world).await;
        let run: toolgate_contracts::RunId = run["id"].as_str().unwrap().parse().unwrap();
        let store = world.app.engine.store();
        let tenant = world.app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let now = world.app.engine.now();
        let lost = || toolgate_contracts::Fault::conflict("another replica has the run", "it goes on there");
        let took = toolgate_store::agent_runs::ModelUsed::default();
        let made = async |make: &dyn Fn(&mut Change)| {
            let mut change = Change::new(tenant);
            make(&mut change);
            store.commit(change).await
        };
        made(&|change| _ = change.take_agent_run(run, None, "slow", lost())).await.unwrap();
        made(&|change| _ = change.ask_turn((run, 2), "slow", (&[], &took), now, lost())).await.unwrap();
        made(&|change| _ = change.take_agent_run(run, Some("slow"), "quick", lost())).await.unwrap();
        let said = json!({"text": "too late"});
        let late: [(&str, Make<'_>); 5] = [
            ("ask", &|change| _ = change.ask_turn((run, 3), "slow", (&[], &took), now, lost())),
            ("answer", &|change| _ = change.answer_turn((run, 2), "slow", &said, None, now, lost())),
            ("drop", &|change| _ = change.drop_turn((run, 2), "slow", lost())),
            ("asides", &|change| _ = change.put_asides((run, 1), "slow", &[], lost())),
            ("close", &|change| _ = change.close_agent_run(run, "slow", &said, lost())),
        ];
        for (what, make) in late {
            assert!(matches!(made(make).await, Err(toolgate_store::Error::Unmet(_))), "{what}");
        }
        made(&|change| _ = change.answer_turn((run, 2), "quick", &said, None, now, lost())).await.unwrap();
        made(&|change| _ = change.close_agent_run(run, "quick", &said, lost())).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_stops_asking() {
    every_world(async |world| {
        agent(&world, json!([{"say": "late", "delay_ms": 60_000}]), json!({})).await;
        let stop = attend(&world.app);
        let begun = world
            .send(&As::Owner, "POST", "/api/v1/agents/helper/runs", json!({"prompt": "Take your time."}))
            .await
            .ok();
        let id = begun["id"].as_str().unwrap();
        let cancel = json!({"state": "cancelled", "reason": "not needed"});
        world.send(&As::Owner, "PUT", &format!("/api/v1/runs/{id}/state"), cancel).await.ok();
        for _ in 0..100 {
            let seen = world.get(&As::Owner, &format!("/api/v1/runs/{id}/outputs")).await.ok();
            if !seen["outputs"].is_null() {
                assert_eq!((&seen["state"], &seen["outputs"]["response"]), (&json!("cancelled"), &json!("")));
                stop.cancel();
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the run is never closed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_the_agent_does_not_wait_for_happens_after_its_answer() {
    every_world(async |world| {
        let turns = json!([
            {"call": calls(&[("tellLater", json!({"id": "7"}))])},
            {"when": {"last_tool": "tellLater"}, "say": "It is on its way."},
        ]);
        agent(&world, turns, json!({})).await;
        let mut tool = writing("tellLater");
        tool["hitl"] = json!({"mode": "fire_and_continue"});
        world.register(&As::Owner, tool).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/helper/tools/tellLater", json!({})).await.ok();
        let run = run(&world, json!({"prompt": "Tell them."})).await;
        assert_eq!(
            (&run["state"], &run["outputs"]["response"]),
            (&json!("completed"), &json!("It is on its way.")),
            "{run:#}"
        );
        let order = run["outputs"]["tool_order"].as_array().unwrap();
        let call = &run["outputs"]["tools_by_id"][order[0].as_str().unwrap()];
        assert_eq!(call["error"]["details"]["reason"], "approval_pending", "{call:#}");
        assert!(run["outputs"]["last_tool"].is_null());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_may_runs_an_agent_and_with_no_more_than_their_rights() {
    every_world(async |world| {
        agent(&world, json!([{"repeat": 1000, "say": "Hello."}]), json!({})).await;
        let path = "/api/v1/agents/helper/runs?wait=20";
        let hello = json!({"prompt": "Hello?"});
        let viewer = world.user("default", "vera", &["viewer"]).await;
        world.send(&viewer, "POST", path, hello.clone()).await.refused(403);
        let member = world.user("default", "mona", &["member"]).await;
        let run = world.send(&member, "POST", path, hello.clone()).await.ok();
        assert_eq!(run["state"], "completed", "{run:#}");
        let other = world.user("default", "otto", &["member"]).await;
        let outputs = format!("/api/v1/runs/{}/outputs", run["id"].as_str().unwrap());
        world.get(&other, &outputs).await.refused(404);
        world.get(&member, &outputs).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/helper/state", json!({"state": "frozen"})).await.ok();
        world.send(&member, "POST", path, hello.clone()).await.refused(409);
        for (body, pointer) in [
            (json!({"prompt": " "}), "/prompt"),
            (json!({"prompt": "{{ x", "variables": {}}), "/prompt"),
            (json!({"prompt": "x", "limits": {"enabled_tools": ["noSuchTool"]}}), "/limits/enabled_tools/0"),
        ] {
            world.send(&As::Owner, "PUT", "/api/v1/agents/helper/state", json!({"state": "active"})).await.ok();
            let refused = world.send(&member, "POST", path, body).await;
            assert!(refused.status == 400 || refused.status == 404, "{:#}", refused.body);
            assert_eq!(refused.body["pointer"], pointer, "{:#}", refused.body);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_output_reaches_the_model_as_its_beginning() {
    every_world(async |world| {
        let long = "0123456789".repeat(9_000);
        let turns = json!([
            {"call": calls(&[("echo", json!({"text": "{{ prompt }}"}))])},
            {"when": {"last_tool": "echo"}, "say": "Long."},
        ]);
        agent(&world, turns, json!({})).await;
        let run = run(&world, json!({"prompt": long})).await;
        assert_eq!(run["outputs"]["response"], "Long.", "{:#}", run["reason"]);
        let order = run["outputs"]["tool_order"].as_array().unwrap();
        let call = &run["outputs"]["tools_by_id"][order[0].as_str().unwrap()];
        assert_eq!(call["output"]["text"].as_str().unwrap().len(), 90_000, "whoever reads the outputs has it whole");
    })
    .await;
}
