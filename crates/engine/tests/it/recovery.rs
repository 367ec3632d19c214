//! What a process that went away left behind is ended by those that live: without effect as failed, with effect as
//! unknown until somebody knows.

use serde_json::json;
use toolgate_contracts::{CallId, CallRequest, Caller, ErrorCode, FaultKind, Permissions, Role, Status};
use toolgate_engine::control::Settlement;

use crate::world::{World, error, eventually, every_world, request};

/// Longer than a replica is believed to live without a word.
const SILENCE_S: i64 = 16;

fn settlement(status: &str, reason: &str) -> Settlement {
    serde_json::from_value(json!({"status": status, "reason": reason, "output": {"seen": true}})).unwrap()
}

async fn hang(world: &World, tool: &str, key: &str, happened: Option<bool>) -> CallId {
    let input = json!({"act": "hang", "key": key, "happened": happened});
    world.begin(&world.owner(), CallRequest::new(tool, input)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_replica_ran_is_ended_by_another() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1"})).await;
        let free = hang(&world, "script", "free", None).await;
        let priced = hang(&world, "priced", "priced", None).await;
        let note = hang(&world, "priced_note", "note", None).await;
        let run = world.run(&world.owner(), json!({})).await;
        let in_run = request("script", json!({"act": "hang", "key": "run"}), |call| call.run_id = Some(run.id));
        let in_run = world.begin(&world.owner(), in_run).await;
        let other = world.replica().await;
        for id in [free, priced, note, in_run] {
            assert_eq!(world.record(id).await.status, Status::Running, "its replica lives");
        }
        world.clock.advance(SILENCE_S);
        // One that says it lives keeps what it runs.
        world.engine.start(false).await.unwrap();
        other.engine.start(false).await.unwrap();
        assert_eq!(world.record(note).await.status, Status::Running);

        world.clock.advance(SILENCE_S);
        let third = world.replica().await;
        for id in [free, priced, in_run] {
            let envelope = third.engine.answer(world.tenant, id).await.unwrap();
            assert_eq!(
                (envelope.status, error(&envelope)),
                (Status::Failed, (ErrorCode::ProviderError, "interrupted"))
            );
        }
        let unknown = third.engine.answer(world.tenant, note).await.unwrap();
        assert_eq!((unknown.status, error(&unknown).1), (Status::OutcomeUnknown, "outcome_unknown"));
        assert_eq!(world.balance("tenant:2026-11").await, (10_000, 10_000), "the estimate is charged, or held");
        assert_eq!(world.actions(note).await, ["call.intent", "call.outcome_unknown"]);
        assert_eq!(world.actions(free).await, ["call.failed"]);
        let record = world.record(note).await;
        assert_eq!(world.event_types(record.run).await, ["tool.started", "tool.failed"]);
        assert_eq!(world.event_types(run.id).await, ["run.started", "tool.started", "tool.failed"]);

        // The first one was only slow: it runs nothing again, and says what it knows of what was given up.
        world.runner.release();
        for _ in 0..200 {
            if world.record(note).await.status != Status::OutcomeUnknown {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(world.record(note).await.status, Status::Completed);
        assert_eq!(world.record(free).await.status, Status::Failed);
        assert_eq!(world.balance("tenant:2026-11").await, (0, 20_000), "settled, it is charged");
        assert_eq!(world.actions(note).await, ["call.intent", "call.outcome_unknown", "call.settled"]);
        for key in ["free", "priced", "note", "run"] {
            assert_eq!(world.runner.runs(key), 1, "{key}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_alone_waits_for_nobody() {
    every_world(async |world| {
        let note = hang(&world, "note", "note", None).await;
        let other = world.replica().await;
        other.engine.start(true).await.unwrap();
        assert_eq!(world.record(note).await.status, Status::OutcomeUnknown);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_found_and_not_asked_about_is_asked_about_at_the_next_start() {
    every_world(async |world| {
        let happened = hang(&world, "probed_note", "a", Some(true)).await;
        world.clock.advance(SILENCE_S);
        // It finds the call, and stops before the tool's time is over, so before it asks.
        drop(world.replica().await);
        assert_eq!(world.record(happened).await.status, Status::OutcomeUnknown);
        world.clock.advance(3600);
        let other = world.replica().await;
        assert_eq!(other.record(happened).await.status, Status::Completed);
        assert_eq!(world.runner.runs("a"), 1, "nothing ran again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_settles_what_it_knows() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1"})).await;
        let happened = hang(&world, "probed_note", "a", Some(true)).await;
        let did_not = hang(&world, "probed_note", "b", Some(false)).await;
        let nobody_knows = hang(&world, "probed_note", "c", None).await;
        // Longer than the tool may take: whoever ran it is not at it any more.
        world.clock.advance(3600);
        let other = world.replica().await;
        let answer = async |id| other.engine.answer(world.tenant, id).await.unwrap();
        let first = answer(happened).await;
        assert_eq!((first.status, first.output), (Status::Completed, Some(json!({"found": true}))));
        let second = answer(did_not).await;
        assert_eq!((second.status, error(&second)), (Status::Failed, (ErrorCode::ProviderError, "interrupted")));
        assert_eq!(answer(nobody_knows).await.status, Status::OutcomeUnknown);
        assert_eq!(world.balance("tenant:2026-11").await, (10_000, 10_000));
        assert_eq!(world.actions(happened).await, ["call.intent", "call.outcome_unknown", "call.settled"]);
        let entries = world.entries(happened).await;
        let settled = entries.iter().find(|entry| entry["action"] == "call.settled").unwrap();
        assert_eq!((&settled["actor"], &settled["details"]["status"]), (&json!("tool:probe"), &json!("completed")));
        let run = world.record(happened).await.run;
        assert_eq!(world.event_types(run).await, ["tool.started", "tool.failed", "tool.completed"]);
        for key in ["a", "b", "c"] {
            assert_eq!(world.runner.runs(key), 1, "nothing ran again");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_unknown_is_settled_by_who_may_and_says_how_they_know() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1"})).await;
        let owner = world.owner();
        let engine = &world.engine;
        let unknown = world.call("priced_note", json!({"act": "unknown"})).await;
        let id = unknown.id.to_string();
        let refused = async |caller: &Caller, id: &str, status: &str, reason: &str| {
            engine.settle(caller, id, settlement(status, reason)).await.unwrap_err().kind()
        };
        let member = world.member();
        let stranger = world.with_key(
            [toolgate_contracts::Permission::CALLS_SETTLE, toolgate_contracts::Permission::CALLS_READ_OWN]
                .into_iter()
                .collect(),
        );
        assert_eq!(refused(&member, &id, "completed", "looked").await, FaultKind::Forbidden);
        assert_eq!(refused(&stranger, &id, "completed", "looked").await, FaultKind::NotFound);
        assert_eq!(refused(&world.owner_next_door(), &id, "completed", "looked").await, FaultKind::NotFound);
        assert_eq!(refused(&owner, &id, "completed", "  ").await, FaultKind::Invalid);
        for status in ["running", "cancelled", "outcome_unknown", "pending"] {
            assert_eq!(refused(&owner, &id, status, "looked").await, FaultKind::Invalid);
        }
        let completed = world.call("script", json!({})).await;
        assert_eq!(refused(&owner, &completed.id.to_string(), "failed", "looked").await, FaultKind::Conflict);
        assert_eq!(world.balance("tenant:2026-11").await, (10_000, 0));

        // Many at once: one does.
        let approver = world.with_key(Permissions::of([Role::Approver]));
        let many = (0..8).map(|n| {
            let status = if n % 2 == 0 { "completed" } else { "failed" };
            engine.settle(&approver, &id, settlement(status, "the bank says so"))
        });
        let settled: Vec<_> = futures_util::future::join_all(many).await.into_iter().flatten().collect();
        assert_eq!(settled.len(), 1);
        let happened = settled[0].status == Status::Completed;
        assert_eq!(world.balance("tenant:2026-11").await, (0, if happened { 10_000 } else { 0 }));
        assert_eq!(refused(&owner, &id, "completed", "looked").await, FaultKind::Conflict, "once");
        let entries = world.entries(unknown.id).await;
        let entry = entries.iter().find(|entry| entry["action"] == "call.settled").unwrap();
        assert_eq!(entry["actor"], approver.principal.to_string());
        assert_eq!(entry["details"]["attested_by"], approver.principal.to_string());
        assert_eq!(world.record(unknown.id).await.usage, Some(json!({"settled_because": "the bank says so"})));
        assert_eq!(entries.len(), 3);
        let last = if happened { "tool.completed" } else { "tool.failed" };
        assert_eq!(world.event_types(unknown.run_id).await, ["tool.started", "tool.failed", last]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_has_outlives_the_replica_that_offered_it() {
    every_world(async |world| {
        world.external("far", true, json!({})).await;
        let call = request("far", json!({}), |call| call.wait = Some(0));
        let offered = world.send(&world.owner(), call).await.unwrap();
        eventually("it is offered", async || world.count("work").await == 1).await;
        let recorded = request("far", json!({}), |call| call.mode = toolgate_contracts::Mode::Record);
        let recorded = world.send(&world.owner(), recorded).await.unwrap();
        world.clock.advance(SILENCE_S);
        let other = world.replica().await;
        for id in [offered.id, recorded.id] {
            assert_eq!(world.record(id).await.status, Status::Running);
        }
        let worker = world.worker();
        let lease = toolgate_engine::external::LeaseRequest { tools: vec!["far".to_owned()], wait: None };
        let leased = other.engine.lease(&worker, lease).await.unwrap().unwrap();
        let report = serde_json::from_value(json!({"status": "completed", "output": {}})).unwrap();
        assert_eq!(other.engine.complete(&worker, leased.lease_id, report).await.unwrap().status, Status::Completed);
    })
    .await;
}
