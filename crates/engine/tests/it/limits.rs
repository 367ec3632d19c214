//! Limits hold exactly: whoever asks at once, on whichever replica, and whatever crashes.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use toolgate_contracts::{CallRequest, ErrorCode, Source, Status, ToolError};
use toolgate_registry::commands::Target;

use crate::world::{DAY, MONTH, World, all, error, every_world, micros, request, statuses};

fn tenant_month() -> String {
    format!("tenant:{MONTH}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_against_a_budget_for_a_hundred_run_a_hundred() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1"})).await;
        let other = world.replica().await;
        let owner = world.owner();
        let calls = (0..1000).map(|number| {
            let engine = if number % 2 == 0 { world.engine.clone() } else { other.engine.clone() };
            let owner = owner.clone();
            let tool = if number % 3 == 0 { "priced" } else { "priced_note" };
            async move { engine.submit(&owner, Source::Api, CallRequest::new(tool, json!({"key": "all"}))).await }
        });
        let answers = all(calls.collect::<Vec<_>>()).await;
        let counts = statuses(&answers);
        assert_eq!((counts["completed"], counts["failed budget"]), (100, 900), "{counts:?}");
        assert_eq!(world.runner.runs("all"), 100);
        assert_eq!(world.balance(&tenant_month()).await, (0, micros("1")));
        let refused = answers.iter().flatten().find(|answer| answer.status == Status::Failed).unwrap();
        let record = world.check_record(refused).await;
        assert_eq!(record.decision["refused_at"], "reserve");
        assert_eq!(record.decision["limits"][0], "the tenant's budget for 2026-11");
        let details = refused.error.as_ref().unwrap().details.clone().unwrap();
        assert_eq!(details["limit"], "1.00", "which limit, what is spent and what is held: {details}");
        assert_eq!(world.actions(refused.id).await, ["call.failed"], "no intent of what was refused");
        // A new month is a new budget.
        world.clock.advance(17 * 24 * 60 * 60);
        assert_eq!(world.call("priced", json!({})).await.status, Status::Completed);
        assert_eq!(world.balance("tenant:2026-12").await, (0, 10_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_at_one_level_takes_nothing_from_the_others() {
    every_world(async |world| {
        world.profile(json!({"name": "p", "max_cost_per_day": "0.05", "max_cost_per_run": "0.05"})).await;
        let (agent, key) = world.agent("spender", json!({"profile": "p", "limits": {"max_budget": "0.04"}})).await;
        world.limits(json!({"max_budget": "0.05", "tools": {"priced": {"max_budget": "0.05"}}})).await;
        let run = world.run(&key, json!({"max_budget": "0.03"})).await;
        let tool = world.registry.snapshot();
        let tool = tool.tenant(world.tenant).unwrap().resolve(&"priced".parse().unwrap(), DAY).unwrap().tool.id;
        let scopes = [
            tenant_month(),
            format!("tool:{tool}:{MONTH}"),
            format!("agent:{}:{MONTH}", agent.id),
            format!("run:{}", run.id),
            format!("profile:{}:p:{DAY}", agent.id),
            format!("profile:{}:p:run:{}", agent.id, run.id),
        ];
        let balances = async || {
            let mut found = Vec::new();
            for scope in &scopes {
                let (reserved, spent) = world.balance(scope).await;
                assert_eq!(reserved, 0, "{scope}");
                found.push(spent / 10_000);
            }
            found
        };
        let call = |tool: &str| request(tool, json!({}), |call| call.run_id = Some(run.id));
        for _ in 0..3 {
            assert_eq!(world.send(&key, call("priced")).await.unwrap().status, Status::Completed);
        }
        assert_eq!(balances().await, [3, 3, 3, 3, 3, 3]);
        let refused = world.send(&key, call("priced")).await.unwrap();
        assert_eq!(error(&refused), (ErrorCode::PolicyDenied, "budget"));
        assert!(refused.error.unwrap().message.contains("the run's budget"));
        assert_eq!(balances().await, [3, 3, 3, 3, 3, 3], "nothing was taken");
        let alone = world.call_as(&key, "priced", json!({})).await;
        assert_eq!(alone.status, Status::Completed);
        let refused = world.call_as(&key, "priced", json!({})).await.error.unwrap();
        assert!(refused.message.contains("the budget of agent spender"), "{}", refused.message);
        assert_eq!(balances().await, [4, 4, 4, 3, 4, 3]);
        assert_eq!(world.call("priced", json!({})).await.status, Status::Completed);
        assert!(world.call("priced", json!({})).await.error.unwrap().message.contains("the tenant's budget"));
        assert_eq!(balances().await, [5, 5, 4, 3, 4, 3]);
        assert_eq!(world.call("script", json!({})).await.status, Status::Completed, "what costs nothing goes on");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_is_settled_by_what_it_cost() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1"})).await;
        // tool, input; the cost that is kept
        let network = json!({"code": "VALIDATION_ERROR", "message": "no"});
        let cases = [
            ("priced", json!({}), Some("0.01")),
            ("priced", json!({"act": "charge", "cost": "0.003"}), Some("0.003")),
            ("priced_note", json!({"act": "charge", "cost": "0.2"}), Some("0.2")),
            ("priced", json!({"act": "charge", "cost": "0"}), Some("0")),
            ("metered", json!({"act": "charge", "units": 5}), Some("0.02")),
            ("metered", json!({"act": "charge", "units": 0}), Some("0.01")),
            ("priced", json!({"act": "fail", "error": network}), Some("0.01")),
            ("priced_note", json!({"act": "fail", "error": network}), Some("0.01")),
            ("priced", json!({"act": "unknown"}), Some("0.01")),
            ("script", json!({"act": "charge", "cost": "0.5"}), Some("0.5")),
            ("script", json!({}), None),
        ];
        let mut sum = 0;
        for (tool, input, cost) in cases {
            let envelope = world.call(tool, input.clone()).await;
            assert_eq!(envelope.cost, cost.map(|cost| cost.parse().unwrap()), "{tool} {input}");
            world.check_record(&envelope).await;
            if tool != "script" {
                sum += cost.map_or(0, micros);
            }
            assert_eq!(world.balance(&tenant_month()).await, (0, sum), "{tool} {input}");
        }
        // What nobody knows of is held until somebody settles it.
        let unknown = world.call("priced_note", json!({"act": "unknown"})).await;
        assert_eq!(unknown.status, Status::OutcomeUnknown);
        assert_eq!(world.balance(&tenant_month()).await, (10_000, sum));
        let timed_out = request("priced", json!({"act": "hang"}), |call| call.timeout_ms = Some(50));
        assert_eq!(world.send(&world.owner(), timed_out).await.unwrap().cost, "0.01".parse().ok());
        assert_eq!(world.balance(&tenant_month()).await, (10_000, sum + 10_000), "it ran, so it counts");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_makes_as_many_calls_as_it_may() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({"max_tool_calls": 60})).await;
        let call = request("note", json!({"key": "run"}), |call| call.run_id = Some(run.id));
        let other = world.replica().await;
        let (here, there) = tokio::join!(world.at_once(&owner, 100, &call), other.at_once(&owner, 100, &call));
        let counts = statuses(&here.into_iter().chain(there).collect::<Vec<_>>());
        assert_eq!((counts["completed"], counts["failed max_tool_calls"]), (60, 140), "{counts:?}");
        assert_eq!(world.runner.runs("run"), 60);
        // The strictest of the run's and the agent's; a run without either has 25.
        let (_, key) = world.agent("few", json!({"limits": {"max_tool_calls": 2}})).await;
        for (caller, limits, most) in
            [(&key, json!({"max_tool_calls": 60}), 2), (&key, json!({}), 2), (&owner, json!({}), 25)]
        {
            let run = world.run(caller, limits).await;
            let call = request("script", json!({}), |call| call.run_id = Some(run.id));
            let counts = statuses(&world.at_once(caller, 30, &call).await);
            assert_eq!(counts["completed"], most, "{counts:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_says_when_to_come_again() {
    every_world(async |world| {
        world.profile(json!({"name": "p", "rate_limit": {"count": 3, "per_s": 60}})).await;
        let (_, slow) = world.agent("slow", json!({"limits": {"rate_limit": {"count": 2, "per_s": 60}}})).await;
        let (_, profiled) = world.agent("profiled", json!({"profile": "p"})).await;
        let (_, any) = world.agent("any", json!({})).await;
        world
            .limits(json!({
                "rate_limit": {"count": 20, "per_s": 60}, "agent_rate_limit": {"count": 4, "per_s": 60},
                "tools": {"reads": {"rate_limit": {"count": 1, "per_s": 60}}},
            }))
            .await;
        let owner = world.owner();
        let cases = [
            (&slow, "script", 2, "agent", 30),
            (&profiled, "script", 3, "profile", 20),
            (&any, "script", 4, "agent-of-tenant", 15),
            (&owner, "reads", 1, "tool", 60),
            (&owner, "script", 10, "tenant", 3),
        ];
        for (caller, tool, most, whose, retry) in cases {
            let answers = world.at_once(caller, most + 5, &CallRequest::new(tool, json!({}))).await;
            let counts = statuses(&answers);
            assert_eq!((counts["completed"], counts["failed rate"]), (most, 5), "{tool} {whose}: {counts:?}");
            let refused = answers.into_iter().flatten().find(|answer| answer.error.is_some()).unwrap();
            let told = refused.error.unwrap();
            assert_eq!((told.code, told.retry_after_s), (ErrorCode::RateLimit, Some(retry)), "{}", told.message);
            assert_eq!(told.details.unwrap()["limit"]["of"], whose);
        }
        world.clock.advance(3);
        let counts = statuses(&world.at_once(&owner, 3, &CallRequest::new("script", json!({}))).await);
        assert_eq!((counts["completed"], counts["failed rate"]), (1, 2), "one each three seconds");
        // The same request again costs nothing.
        world.clock.advance(3);
        let call = request("note", json!({}), |call| call.request_id = Some("r".to_owned()));
        let counts = statuses(&world.at_once(&owner, 1, &call).await);
        assert_eq!(counts["completed"], 1);
        for _ in 0..3 {
            assert_eq!(world.send(&owner, call.clone()).await.unwrap().status, Status::Completed);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_run_at_the_same_time_and_no_more() {
    every_world(async |world| {
        world.limits(json!({"max_parallel": 3})).await;
        let owner = world.owner();
        let hanging = CallRequest::new("note", json!({"act": "hang", "key": "hanging"}));
        let waiting = world.at_once(&owner, 10, &hanging);
        let release = async {
            crate::world::eventually("three run", async || {
                world.runner.runs("hanging") == 3 && world.count("calls").await == 10
            })
            .await;
            let full = world.call("script", json!({})).await;
            assert_eq!(error(&full), (ErrorCode::RateLimit, "rate"));
            assert!(full.error.unwrap().retry_after_s.is_some());
            let next_door = world.call_as(&world.owner_next_door(), "script", json!({})).await;
            assert_eq!(next_door.status, Status::Completed, "another tenant's are its own");
            world.runner.release();
        };
        let (answers, ()) = tokio::join!(waiting, release);
        let counts = statuses(&answers);
        assert_eq!((counts["completed"], counts["failed rate"]), (3, 7), "{counts:?}");
        assert_eq!(world.call("script", json!({})).await.status, Status::Completed, "places are given back");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_switch_stops_new_calls_on_every_replica() {
    every_world(async |world| {
        let other = world.replica().await;
        let (agent, key) = world.agent("stopped", json!({})).await;
        let owner = world.owner();
        let running = world.begin(&owner, CallRequest::new("note", json!({"act": "hang", "key": "r"}))).await;
        let targets = [Target::Tenant, Target::Agent(agent.name.to_string()), Target::Tool("script".parse().unwrap())];
        for target in targets {
            let caller = if matches!(target, Target::Agent(_)) { &key } else { &owner };
            assert_eq!(other.call_as(caller, "script", json!({})).await.status, Status::Completed);
            world.registry.set_kill_switch(&owner, &target, true, Some("smoke in the room")).await.unwrap();
            other.registry.refresh().await.unwrap();
            for replica in [&world, &other] {
                let refused = replica.call_as(caller, "script", json!({})).await;
                assert_eq!(error(&refused), (ErrorCode::PolicyDenied, "frozen"), "{target:?}");
                assert!(refused.error.unwrap().message.contains("smoke in the room"));
            }
            if !matches!(target, Target::Tenant) {
                assert_eq!(other.call("reads", json!({})).await.status, Status::Completed, "others go on");
            }
            world.registry.set_kill_switch(&owner, &target, false, None).await.unwrap();
            other.registry.refresh().await.unwrap();
        }
        assert_eq!(world.record(running).await.status, Status::Running, "what runs is not cut off");
        world.runner.release();
        assert_eq!(world.ended(running).await.status, Status::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_s_own_limits_narrow_its_calls() {
    every_world(async |world| {
        let owner = world.owner();
        let in_run = async |limits: Value, tool: &str| {
            let run = world.run(&owner, limits).await;
            world.send(&owner, request(tool, json!({}), |call| call.run_id = Some(run.id))).await.unwrap()
        };
        let cases = [
            (json!({"enabled_tools": ["script"]}), "script", None),
            (json!({"enabled_tools": ["script@1.0.0"]}), "script", None),
            (json!({"enabled_tools": ["script"]}), "note", Some("not_found")),
            (json!({"enabled_tools": []}), "script", Some("not_found")),
            (json!({"side_effects": "none"}), "script", None),
            (json!({"side_effects": "none"}), "reads", Some("side_effects")),
            (json!({"side_effects": "reads"}), "reads", None),
            (json!({"side_effects": "reads"}), "note", Some("side_effects")),
            (json!({"side_effects": "writes"}), "note", None),
            (json!({"max_budget": "0.009"}), "priced", Some("budget")),
        ];
        for (limits, tool, refused) in cases {
            let envelope = in_run(limits.clone(), tool).await;
            let reason = envelope.error.as_ref().map(ToolError::reason);
            assert_eq!(reason, refused, "{limits} {tool}");
        }
        let misspelt = toolgate_engine::runs::NewRun {
            limits: serde_json::from_value(json!({"enabled_tools": ["scrip"]})).unwrap(),
            ..Default::default()
        };
        let fault = world.engine.open_run(&owner, misspelt).await.unwrap_err();
        assert_eq!(fault.pointer(), Some("/limits/enabled_tools/0"));
    })
    .await;
}

#[derive(Clone, Debug)]
enum Step {
    /// Calls of this price and outcome, all at once.
    Calls { tool: &'static str, act: &'static str, cost: u32, count: usize, in_run: bool },
    /// Settles one whose outcome is unknown, as if it had happened or not.
    Settle(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tool = prop::sample::select(vec!["priced", "priced_note", "metered"]);
    let act = prop::sample::select(vec!["give", "charge", "fail", "unknown"]);
    let calls = (tool, act, 0_u32..9_000, 1_usize..8, any::<bool>())
        .prop_map(|(tool, act, cost, count, in_run)| Step::Calls { tool, act, cost, count, in_run });
    prop::collection::vec(prop_oneof![4 => calls, 1 => any::<bool>().prop_map(Step::Settle)], 1..12)
}

/// Walks through steps beside a model: what was spent, and what is held by calls of which nobody knows.
async fn check_budgets(world: &World, steps: Vec<Step>) {
    let owner = world.owner();
    let limit = micros("0.1");
    world.clock.advance(31 * 24 * 60 * 60);
    let scope = format!("tenant:{}", world.clock.now().day().chars().take(7).collect::<String>());
    let run = world.run(&owner, json!({"max_budget": "0.04", "max_tool_calls": 1000})).await;
    let run_scope = format!("run:{}", run.id);
    // The tenant's and the run's.
    let (mut spent, mut held) = ([0, 0], [0, 0]);
    let mut unknown: Vec<(toolgate_contracts::CallId, bool, i64)> = Vec::new();
    for step in steps {
        match step {
            Step::Calls { tool, act, cost, count, in_run } => {
                let estimate = if tool == "metered" { 12_000 } else { 10_000 };
                let cost = i64::from(cost);
                let input = json!({
                    "act": act, "cost": toolgate_contracts::Amount::from_micros(cost).to_string(),
                    "error": {"code": "VALIDATION_ERROR", "message": "no"},
                });
                let call = request(tool, input, |call| call.run_id = in_run.then_some(run.id));
                for answer in world.at_once(&owner, count, &call).await {
                    let answer = answer.unwrap();
                    if answer.error.as_ref().is_some_and(|error| error.reason() == "budget") {
                        continue;
                    }
                    if answer.status == Status::OutcomeUnknown {
                        unknown.push((answer.id, in_run, estimate));
                        held[0] += estimate;
                        held[1] += if in_run { estimate } else { 0 };
                        continue;
                    }
                    let expected = match (act, tool) {
                        ("charge", _) => cost,
                        ("give", "metered") => 10_000,
                        _ => estimate,
                    };
                    assert_eq!(answer.cost.unwrap().micros(), expected, "{tool} {act}");
                    spent[0] += expected;
                    spent[1] += if in_run { expected } else { 0 };
                }
            }
            Step::Settle(happened) => {
                let Some((id, in_run, estimate)) = unknown.pop() else { continue };
                let status = if happened { "completed" } else { "failed" };
                let settlement = serde_json::from_value(json!({"status": status, "reason": "looked"})).unwrap();
                world.engine.settle(&owner, &id.to_string(), settlement).await.unwrap();
                for level in 0..=usize::from(in_run) {
                    held[level] -= estimate;
                    spent[level] += if happened { estimate } else { 0 };
                }
            }
        }
        let (found, in_run) = (world.balance(&scope).await, world.balance(&run_scope).await);
        assert_eq!((found, in_run), ((held[0], spent[0]), (held[1], spent[1])));
        assert!(held[0] + spent[0] <= limit && held[1] + spent[1] <= micros("0.04"), "{held:?} {spent:?}");
    }
    for (id, ..) in unknown {
        let settlement = serde_json::from_value(json!({"status": "failed", "reason": "looked"})).unwrap();
        world.engine.settle(&owner, &id.to_string(), settlement).await.unwrap();
    }
    assert_eq!((world.balance(&scope).await.0, world.balance(&run_scope).await.0), (0, 0));
}

#[test]
fn any_sequence_of_calls_keeps_the_budgets() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(every_world(async |world| {
        world.limits(json!({"max_budget": "0.1"})).await;
        // The strategy's runner is not async: it asks for one case after the other.
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<Vec<Step>>();
        let cases = std::thread::spawn(move || {
            let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
            let told = runner.run(&steps(), |steps| {
                ask.send(steps).unwrap();
                Ok(())
            });
            told.unwrap();
        });
        while let Some(steps) = asked.recv().await {
            eprintln!("{steps:?}");
            check_budgets(&world, steps).await;
        }
        cases.join().unwrap();
    }));
}
