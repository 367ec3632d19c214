//! Tools that run in somebody else's process: leased, kept alive, completed once; and calls that are only recorded.

use serde_json::{Value, json};
use toolgate_contracts::{
    CallRequest, Caller, Envelope, ErrorCode, Fault, FaultKind, LeaseId, Mode, Status, ToolError,
};
use toolgate_engine::control::Report;
use toolgate_engine::external::{
    BEAT_OUTPUT_BYTES_MAX, Heartbeat, LEASE_S, LeaseRequest, Leased, RECORDED_S, ToolEvent,
};

use crate::world::{World, error, eventually, every_world, request};

fn lease_of(tool: &str) -> LeaseRequest {
    LeaseRequest { tools: vec![tool.to_owned()], wait: None }
}

fn report(report: Value) -> Report {
    serde_json::from_value(report).unwrap()
}

fn done(output: Value) -> Report {
    report(json!({"status": "completed", "output": output}))
}

/// Submits without waiting for a worker.
async fn offer(world: &World, caller: &Caller, tool: &str, input: Value) -> Envelope {
    let envelope = world.send(caller, request(tool, input, |call| call.wait = Some(0))).await.unwrap();
    assert_eq!(envelope.status, Status::Running, "{envelope:?}");
    eventually("it is offered", async || {
        let work = world.store.expired_work(world.clock.now().plus_seconds(1_000_000)).await.unwrap();
        work.iter().any(|work| work.call == envelope.id)
    })
    .await;
    envelope
}

async fn take(world: &World, worker: &Caller, tool: &str) -> Option<Leased> {
    world.engine.lease(worker, lease_of(tool)).await.unwrap()
}

async fn kind(answer: impl Future<Output = Result<Envelope, Fault>>) -> FaultKind {
    answer.await.unwrap_err().kind()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_takes_a_call_and_reports_once() {
    every_world(async |world| {
        world.external("far", false, json!({"cost": {"per_call": "0.01"}})).await;
        world.external("far_note", true, json!({"cost": {"per_call": "0.01"}})).await;
        world.limits(json!({"max_budget": "1"})).await;
        let (owner, worker, another) = (world.owner(), world.worker(), world.worker());
        for tool in ["far", "far_note"] {
            let call = offer(&world, &owner, tool, json!({"n": 1})).await;
            let leased = take(&world, &worker, tool).await.unwrap();
            assert_eq!((leased.call.id, &leased.call.input), (call.id, &json!({"n": 1})));
            assert_eq!((leased.context.tenant_id, leased.context.principal), (world.tenant, owner.principal));
            assert_eq!(leased.expires_at, world.clock.now().plus_seconds(LEASE_S));
            assert!(take(&world, &another, tool).await.is_none(), "it is taken");
            let engine = &world.engine;
            assert_eq!(kind(engine.complete(&another, leased.lease_id, done(json!(1)))).await, FaultKind::Conflict);
            assert_eq!(
                engine.keep_alive(&another, leased.lease_id, Heartbeat::default()).await.unwrap_err().kind(),
                FaultKind::Conflict
            );
            for wrong in [
                json!({"status": "running"}),
                json!({"status": "completed", "error": {"code": "UNKNOWN", "message": "x"}}),
            ] {
                assert_eq!(kind(engine.complete(&worker, leased.lease_id, report(wrong))).await, FaultKind::Invalid);
            }
            let told = report(json!({"status": "completed", "output": {"m": 2}, "cost": "0.5"}));
            let envelope = engine.complete(&worker, leased.lease_id, told).await.unwrap();
            assert_eq!((envelope.status, &envelope.output), (Status::Completed, &Some(json!({"m": 2}))));
            assert_eq!(kind(engine.complete(&worker, leased.lease_id, done(json!(1)))).await, FaultKind::Conflict);
            let record = world.record(call.id).await;
            assert_eq!((record.cost, record.reported_cost), ("0.01".parse().ok(), "0.5".parse().ok()));
            assert_eq!(world.event_types(call.run_id).await, ["tool.started", "tool.completed"]);
            let entries = world.entries(call.id).await;
            let outcome = entries.iter().find(|entry| entry["action"] == "call.completed").unwrap();
            assert_eq!(outcome["details"]["attested_by"], worker.principal.to_string(), "it is the worker's word");
            assert_eq!(entries.len(), if tool == "far" { 1 } else { 2 });
        }
        assert_eq!(world.balance("tenant:2026-11").await, (0, 20_000));
        let refused = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        let refused = refused.iter().filter(|entry| entry["action"] == "work.refused").count();
        assert_eq!(refused, 4, "who reports without a lease is on record");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_leased_by_those_who_may() {
    every_world(async |world| {
        world.external("far", false, json!({})).await;
        let (worker, member) = (world.worker(), world.member());
        let engine = &world.engine;
        let refused = async |caller: &Caller, tools: &[&str]| {
            let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            engine.lease(caller, LeaseRequest { tools, wait: None }).await.unwrap_err().kind()
        };
        assert_eq!(refused(&member, &["far"]).await, FaultKind::Forbidden);
        assert_eq!(refused(&worker, &[]).await, FaultKind::Invalid);
        assert_eq!(refused(&worker, &["far", "nothing"]).await, FaultKind::NotFound);
        assert_eq!(refused(&worker, &["hidden"]).await, FaultKind::NotFound);
        assert_eq!(refused(&worker, &["script"]).await, FaultKind::Invalid);
        assert!(take(&world, &worker, "far").await.is_none());
        // A worker that waits hears of what comes.
        let waiting = LeaseRequest { wait: Some(30), ..lease_of("far") };
        let owner = world.owner();
        let (leased, call) = tokio::join!(engine.lease(&worker, waiting), offer(&world, &owner, "far", json!({})));
        assert_eq!(leased.unwrap().unwrap().call.id, call.id);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_workers_one_gets_a_call_and_its_caller_hears_of_the_end() {
    every_world(async |world| {
        world.external("far", true, json!({})).await;
        let other = world.replica().await;
        let owner = world.owner();
        let call = CallRequest::new("far", json!({}));
        let waiting = world.at_once(&owner, 10, &call);
        let working = async {
            let mut taken = Vec::new();
            while taken.len() < 10 {
                let workers: Vec<Caller> = (0..6).map(|_| world.worker()).collect();
                let asked = workers.iter().enumerate().map(|(n, worker)| {
                    let engine = if n % 2 == 0 { &world.engine } else { &other.engine };
                    async move { engine.lease(worker, lease_of("far")).await.unwrap().map(|leased| (worker, leased)) }
                });
                for (worker, leased) in futures_util::future::join_all(asked).await.into_iter().flatten() {
                    taken.push(leased.call.id);
                    let number = taken.len();
                    other.engine.complete(worker, leased.lease_id, done(json!({"n": number}))).await.unwrap();
                }
            }
            taken
        };
        let (answers, mut taken) = tokio::join!(waiting, working);
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 10, "each was leased once");
        for answer in answers {
            assert_eq!(answer.unwrap().status, Status::Completed);
        }
        assert_eq!(world.count("work").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_loses_its_call() {
    every_world(async |world| {
        world.external("far", false, json!({"cost": {"per_call": "0.01"}})).await;
        world.external("far_note", true, json!({"cost": {"per_call": "0.01"}})).await;
        world.external("untaken", true, json!({"cost": {"per_call": "0.01"}, "timeout_ms": 40_000})).await;
        world.limits(json!({"max_budget": "1"})).await;
        let (owner, worker) = (world.owner(), world.worker());
        let far = offer(&world, &owner, "far", json!({})).await;
        let far_note = offer(&world, &owner, "far_note", json!({})).await;
        let alive = offer(&world, &owner, "far", json!({"alive": true})).await;
        let untaken = offer(&world, &owner, "untaken", json!({})).await;
        let mut leases = Vec::new();
        for tool in ["far", "far_note", "far"] {
            leases.push(take(&world, &worker, tool).await.unwrap());
        }
        let kept = leases.iter().find(|leased| leased.call.id == alive.id).unwrap().lease_id;
        assert_eq!(world.balance("tenant:2026-11").await, (40_000, 0));
        world.clock.advance(LEASE_S - 1);
        let until = world.engine.keep_alive(&worker, kept, Heartbeat::default()).await.unwrap();
        assert_eq!((until.expires_at, until.cancel_requested), (world.clock.now().plus_seconds(LEASE_S), false));
        world.clock.advance(1);
        let over =
            async || world.record(far.id).await.status.is_final() && world.record(far_note.id).await.status.is_final();
        let over = async || over().await && world.record(untaken.id).await.status.is_final();
        world.in_background_until("the lost are ended", over).await;

        let far = world.engine.answer(world.tenant, far.id).await.unwrap();
        assert_eq!((far.status, error(&far)), (Status::Failed, (ErrorCode::Timeout, "lease_lost")));
        let note = world.engine.answer(world.tenant, far_note.id).await.unwrap();
        assert_eq!((note.status, error(&note).1), (Status::OutcomeUnknown, "outcome_unknown"));
        let untaken = world.engine.answer(world.tenant, untaken.id).await.unwrap();
        assert_eq!((untaken.status, error(&untaken)), (Status::Failed, (ErrorCode::Timeout, "timeout")));
        assert_eq!(world.record(alive.id).await.status, Status::Running, "who says that they live keeps it");
        assert_eq!(world.balance("tenant:2026-11").await, (20_000, 10_000), "one charged, one unknown, one running");
        for leased in leases.iter().filter(|leased| leased.lease_id != kept) {
            let late = world.engine.complete(&worker, leased.lease_id, done(json!({})));
            assert_eq!(kind(late).await, FaultKind::Conflict, "too late");
        }
        let entries = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        assert_eq!(entries.iter().filter(|entry| entry["action"] == "work.refused").count(), 2);
        world.engine.complete(&worker, kept, done(json!({}))).await.unwrap();
        assert_eq!(world.balance("tenant:2026-11").await, (10_000, 20_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_is_taken_back_and_a_worker_is_told_of_a_cancel() {
    every_world(async |world| {
        world.external("far", true, json!({})).await;
        let (owner, worker) = (world.owner(), world.worker());
        let waiting = offer(&world, &owner, "far", json!({})).await;
        let envelope = world.engine.cancel(&owner, &waiting.id.to_string()).await.unwrap();
        assert_eq!((envelope.status, error(&envelope).1), (Status::Cancelled, "cancelled"));
        assert!(take(&world, &worker, "far").await.is_none());

        let call = offer(&world, &owner, "far", json!({})).await;
        let leased = take(&world, &worker, "far").await.unwrap();
        let asked = world.engine.cancel(&owner, &call.id.to_string()).await.unwrap();
        assert_eq!(asked.status, Status::Running, "a worker has it");
        assert!(world.engine.keep_alive(&worker, leased.lease_id, Heartbeat::default()).await.unwrap().cancel_requested);
        let stopped = json!({"status": "failed", "error": {"code": "POLICY_DENIED", "message": "stopped", "details": {"reason": "cancelled"}}});
        let envelope = world.engine.complete(&worker, leased.lease_id, report(stopped)).await.unwrap();
        assert_eq!(envelope.status, Status::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_reports_is_judged_like_what_a_runner_gives() {
    every_world(async |world| {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "description": "N."}}});
        let more = json!({"output_schema": schema, "max_output_bytes": 1000});
        world.external("far", false, more.clone()).await;
        world.external("far_note", true, more).await;
        let (owner, worker) = (world.owner(), world.worker());
        let long = "x".repeat(5000);
        let failed = json!({"status": "failed", "error": {"code": "NETWORK_ERROR", "message": "down", "details": {"reason": "dns"}}});
        let cases = [
            ("far", json!({"status": "completed", "output": {"n": 1}}), Status::Completed, ""),
            ("far", json!({"status": "completed", "output": {"n": "one"}}), Status::Failed, "output_schema"),
            ("far_note", json!({"status": "completed", "output": {"n": "one"}}), Status::Completed, "output_schema"),
            ("far", json!({"status": "completed", "output": {"n": 1, "long": long}}), Status::Completed, ""),
            ("far_note", failed, Status::Failed, "dns"),
            ("far_note", json!({"status": "failed"}), Status::Failed, "upstream_4xx"),
        ];
        for (tool, told, status, reason) in cases {
            let call = offer(&world, &owner, tool, json!({})).await;
            let leased = take(&world, &worker, tool).await.unwrap();
            let envelope = world.engine.complete(&worker, leased.lease_id, report(told.clone())).await.unwrap();
            let found = envelope.error.as_ref().map_or("", ToolError::reason);
            assert_eq!((envelope.status, found), (status, reason), "{tool} {told}");
            assert_eq!(envelope.truncated, told["output"]["long"].is_string());
            assert_eq!(envelope.attachments.len(), usize::from(envelope.truncated));
            assert_eq!(world.record(call.id).await.status, status);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_call_is_completed_once_by_whoever_submitted_it() {
    every_world(async |world| {
        world.external("far", false, json!({"cost": {"per_call": "0.01"}})).await;
        world.external("far_note", true, json!({"cost": {"per_call": "0.01"}})).await;
        world.limits(json!({"max_budget": "0.03"})).await;
        let (caller, engine) = (world.member(), &world.engine);
        let recorded = async |tool: &str| {
            let call = request(tool, json!({"x": 1}), |call| call.mode = Mode::Record);
            world.send(&caller, call).await.unwrap()
        };
        let call = recorded("far_note").await;
        assert_eq!(call.status, Status::Running);
        let id = call.id.to_string();
        assert!(take(&world, &world.worker(), "far_note").await.is_none(), "it is not offered to others");
        assert_eq!(kind(engine.complete_recorded(&world.owner(), &id, done(json!({})))).await, FaultKind::Conflict);
        assert_eq!(kind(engine.complete_recorded(&world.member(), &id, done(json!({})))).await, FaultKind::NotFound);
        assert_eq!(world.record(call.id).await.status, Status::Running);
        let envelope = engine.complete_recorded(&caller, &id, done(json!({"y": 2}))).await.unwrap();
        assert_eq!((envelope.status, &envelope.output), (Status::Completed, &Some(json!({"y": 2}))));
        assert_eq!(kind(engine.complete_recorded(&caller, &id, done(json!({})))).await, FaultKind::Conflict);
        assert_eq!(world.actions(call.id).await, ["call.completed", "call.intent"]);
        // A refused one is never `running`, and cannot be completed.
        let (first, second) = (recorded("far").await, recorded("far_note").await);
        let dear = recorded("far").await;
        assert_eq!(error(&dear), (ErrorCode::PolicyDenied, "budget"));
        assert_eq!(
            kind(engine.complete_recorded(&caller, &dear.id.to_string(), done(json!({})))).await,
            FaultKind::Conflict
        );
        let executed = world.call("script", json!({})).await;
        assert_eq!(
            kind(engine.complete_recorded(&world.owner(), &executed.id.to_string(), done(json!({})))).await,
            FaultKind::Conflict
        );
        // Its day is over, unless somebody says that it goes on.
        world.clock.advance(RECORDED_S - 1);
        engine.keep_alive(&caller, LeaseId::from(second.id), Heartbeat::default()).await.unwrap();
        world.clock.advance(1);
        world.in_background_until("its day is over", async || world.record(first.id).await.status.is_final()).await;
        let first = engine.answer(world.tenant, first.id).await.unwrap();
        assert_eq!((first.status, error(&first)), (Status::Failed, (ErrorCode::Timeout, "lease_lost")));
        assert_eq!(world.record(second.id).await.status, Status::Running);
        world.clock.advance(RECORDED_S);
        world.in_background_until("its day is over", async || world.record(second.id).await.status.is_final()).await;
        assert_eq!(world.record(second.id).await.status, Status::OutcomeUnknown);
        assert_eq!(
            kind(engine.complete_recorded(&caller, &second.id.to_string(), done(json!({})))).await,
            FaultKind::Conflict
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_only_reports_is_recorded() {
    every_world(async |world| {
        world.external("far", true, json!({})).await;
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await;
        let event = |event: Value| serde_json::from_value::<ToolEvent>(event).unwrap();
        let ingest = |told: Value| world.engine.ingest(&owner, run.id, event(told));
        let started = json!({"type": "tool_invocation_started", "callId": "c1", "tool": "far", "input": {"a": 1}});
        let first = ingest(started.clone()).await.unwrap();
        assert_eq!(first.status, Status::Running);
        assert_eq!(ingest(started).await.unwrap().id, first.id, "told twice it is one call");
        let ended = json!({"type": "tool_invocation_completed", "call_id": "c1", "output": {"b": 2}});
        assert_eq!(ingest(ended.clone()).await.unwrap().output, Some(json!({"b": 2})));
        assert_eq!(kind(ingest(ended)).await, FaultKind::Conflict);
        let unknown = json!({"type": "tool_invocation_failed", "call_id": "c2", "error": "x"});
        assert_eq!(kind(ingest(unknown)).await, FaultKind::Conflict);
        ingest(json!({"type": "tool_invocation_started", "call_id": "c3", "tool": "far"})).await.unwrap();
        let failed = ingest(json!({"type": "tool_invocation_failed", "call_id": "c3", "error": "no"})).await.unwrap();
        assert_eq!((failed.status, failed.error.unwrap().message.as_str()), (Status::Failed, "no"));
        let stranger = world.member();
        let told = event(json!({"type": "tool_invocation_started", "call_id": "c4", "tool": "far"}));
        assert_eq!(kind(world.engine.ingest(&stranger, run.id, told)).await, FaultKind::NotFound);
        assert_eq!(
            world.event_types(run.id).await,
            ["run.started", "tool.started", "tool.completed", "tool.started", "tool.failed"]
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_says_meanwhile_is_output_of_the_call() {
    every_world(async |world| {
        world.external("far", false, json!({"max_output_bytes": 1024})).await;
        let (owner, worker) = (world.owner(), world.worker());
        let beat = |text: &str| Heartbeat { output: Some(text.to_owned()) };
        let call = offer(&world, &owner, "far", json!({})).await;
        let leased = take(&world, &worker, "far").await.unwrap();
        let say = async |text: &str| world.engine.keep_alive(&worker, leased.lease_id, beat(text)).await;
        for text in ["1 of 2\n", "", "2 of 2\n"] {
            say(text).await.unwrap();
        }
        let told = async || -> Vec<String> {
            let events = world.store.parts(world.tenant, call.run_id, (0, None, 0)).await.unwrap();
            events.iter().map(|event| event.data["text"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(told().await, ["1 of 2\n", "2 of 2\n"]);
        assert_eq!(say(&"x".repeat(BEAT_OUTPUT_BYTES_MAX + 1)).await.unwrap_err().kind(), FaultKind::TooLarge);
        // Past the tool's own bound nothing more is kept, and the lease holds all the same.
        say(&"x".repeat(2000)).await.unwrap();
        say("too much\n").await.unwrap();
        assert_eq!(told().await.len(), 3);
        world.engine.complete(&worker, leased.lease_id, done(json!({}))).await.unwrap();
        assert_eq!(say("late\n").await.unwrap_err().kind(), FaultKind::Conflict);
        assert_eq!(told().await.len(), 3);
    })
    .await;
}
