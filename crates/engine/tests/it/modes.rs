//! How a call that runs is ended by somebody else: by its time, by a cancel, by a caller who leaves, by a runner that
//! breaks; and the mode in which nothing runs at all.

use serde_json::json;
use toolgate_contracts::{CallRequest, ErrorCode, FaultKind, Mode, Source, Status};

use crate::world::{World, error, eventually, every_world, request};

async fn timed_out(world: &World, tool: &str, act: &str) -> (Status, Option<(ErrorCode, String)>) {
    let call = request(tool, json!({"act": act, "key": format!("{tool}-{act}")}), |call| call.timeout_ms = Some(60));
    let envelope = world.send(&world.owner(), call).await.unwrap();
    world.check_record(&envelope).await;
    let types = world.event_types(envelope.run_id).await;
    let last = match envelope.status {
        Status::Completed => "tool.completed",
        Status::Cancelled => "tool.cancelled",
        _ => "tool.failed",
    };
    assert_eq!(types, ["tool.started", last]);
    (envelope.status, envelope.error.map(|error| (error.code, error.reason().to_owned())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_when_its_time_is_over_or_somebody_says_so() {
    // At once: a tool that ignores both is waited for.
    every_world(async |world| {
        tokio::join!(Box::pin(check_timeouts(&world)), Box::pin(check_cancels(&world)));
    })
    .await;
}

async fn check_timeouts(world: &World) {
    let unknown = Some((ErrorCode::ProviderError, "outcome_unknown".to_owned()));
    let (free, stops, finishes, ignores) = tokio::join!(
        timed_out(world, "script", "hang"),
        timed_out(world, "note", "obey"),
        timed_out(world, "note", "finish"),
        timed_out(world, "note", "hang"),
    );
    assert_eq!(free, (Status::Failed, Some((ErrorCode::Timeout, "timeout".to_owned()))));
    assert_eq!(stops.0, Status::Cancelled, "it says that nothing was changed");
    assert_eq!(finishes, (Status::Completed, None), "told to stop, it said that it is done");
    assert_eq!(ignores, (Status::OutcomeUnknown, unknown));
    for key in ["script-hang", "note-obey", "note-finish", "note-hang"] {
        assert_eq!(world.runner.runs(key), 1, "{key}");
    }
    // A caller shortens the tool's own time and never lengthens it.
    let long = request("script", json!({}), |call| call.timeout_ms = Some(u64::MAX));
    assert_eq!(world.send(&world.owner(), long).await.unwrap().status, Status::Completed);
}

async fn check_cancels(world: &World) {
    world.limits(json!({"max_budget": "1"})).await;
    let owner = world.owner();
    let mut calls = Vec::new();
    for (tool, act) in [("script", "hang"), ("note", "obey"), ("priced", "hang"), ("priced_note", "hang")] {
        let input = json!({"act": act, "key": format!("cancel-{tool}-{act}")});
        calls.push(world.begin(&owner, CallRequest::new(tool, input)).await);
    }
    assert_eq!(world.balance("tenant:2026-11").await, (20_000, 0));
    let cancels = calls.iter().map(async |id| world.engine.cancel(&owner, &id.to_string()).await.unwrap());
    let answers = futures_util::future::join_all(cancels).await;
    assert_eq!(answers[0].status, Status::Cancelled);
    assert_eq!(error(&answers[0]), (ErrorCode::PolicyDenied, "cancelled"));
    let ends = [Status::Cancelled, Status::Cancelled, Status::Cancelled, Status::OutcomeUnknown];
    for (id, end) in calls.iter().zip(ends) {
        let record = world.ended(*id).await;
        assert_eq!((record.status, record.cancel_requested_by), (end, Some(owner.principal.to_string())));
        world.check_record(&world.engine.answer(world.tenant, *id).await.unwrap()).await;
    }
    let fault = world.engine.cancel(&owner, &calls[0].to_string()).await.unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Conflict, "there is nothing to cancel");
    let (reserved, _) = world.balance("tenant:2026-11").await;
    assert_eq!(reserved, 10_000, "what nobody knows of is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_can_cancel() {
    every_world(async |world| {
        let other = world.replica().await;
        let owner = world.owner();
        let id = world.begin(&owner, CallRequest::new("script", json!({"act": "hang"}))).await;
        let text = id.to_string();
        let (answer, ()) = tokio::join!(
            other.engine.cancel(&owner, &text),
            world.in_background_until("it hears of it", async || world.record(id).await.status == Status::Cancelled),
        );
        assert!(answer.is_ok());
        assert_eq!(world.ended(id).await.status, Status::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_goes_away_does_not_take_the_call_along() {
    every_world(async |world| {
        for tool in ["note", "script", "priced_note"] {
            let call = CallRequest::new(tool, json!({"act": "slow", "key": tool}));
            let owner = world.owner();
            let engine = world.engine.clone();
            let submitted = tokio::spawn(async move { engine.submit(&owner, Source::Api, call).await });
            eventually("it runs", async || world.runner.runs(tool) == 1).await;
            submitted.abort();
            assert!(submitted.await.unwrap_err().is_cancelled());
        }
        let filter = toolgate_store::calls::CallFilter { status: Some(Status::Completed), ..Default::default() };
        eventually("all are recorded", async || {
            world.engine.list_calls(&world.owner(), &filter, None, 10).await.unwrap().items.len() == 3
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_wait_is_told_how_the_call_stands() {
    every_world(async |world| {
        for tool in ["script", "note"] {
            let call = request(tool, json!({"act": "hang"}), |call| {
                call.wait = Some(0);
                call.request_id = Some(tool.to_owned());
            });
            let owner = world.owner();
            let envelope = world.send(&owner, call.clone()).await.unwrap();
            assert_eq!((envelope.status, envelope.output), (Status::Running, None), "{tool}");
            let again = world.send(&owner, call).await.unwrap();
            assert_eq!((again.id, again.status), (envelope.id, Status::Running));
        }
        world.runner.release();
        let call = request("note", json!({"act": "hang"}), |call| call.request_id = Some("note".to_owned()));
        let ended = world.send(&world.owner(), call).await;
        assert_eq!(ended.unwrap().status, Status::Completed, "the same request waits for its end");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_panics_ends_its_call_and_nothing_else() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "1", "max_parallel": 1})).await;
        for (tool, status, reason) in [
            ("script", Status::Failed, "interrupted"),
            ("cached", Status::Failed, "interrupted"),
            ("priced", Status::Failed, "interrupted"),
            ("note", Status::OutcomeUnknown, "outcome_unknown"),
            ("priced_note", Status::OutcomeUnknown, "outcome_unknown"),
        ] {
            let envelope = world.call(tool, json!({"act": "panic", "key": tool})).await;
            assert_eq!((envelope.status, error(&envelope).1), (status, reason), "{tool}");
            world.check_record(&envelope).await;
            assert_eq!(world.runner.runs(tool), 1, "{tool}");
            assert_eq!(world.call("script", json!({})).await.status, Status::Completed, "the process lives");
        }
        assert_eq!(world.balance("tenant:2026-11").await, (10_000, 10_000), "charged, and held");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_decides_everything_and_runs_nothing() {
    every_world(async |world| {
        world.limits(json!({"max_budget": "0.001"})).await;
        let owner = world.owner();
        let dry = |tool: &str| request(tool, json!({"key": "dry"}), |call| call.mode = Mode::DryRun);
        for tool in ["script", "note", "writes", "asking", "risky", "priced", "priced_note", "cached"] {
            let envelope = world.send(&owner, dry(tool)).await.unwrap();
            assert_eq!(envelope.status, Status::Completed, "{tool}: {envelope:?}");
            assert_eq!(envelope.output, Some(json!({"would": {"key": "dry"}})), "{tool}");
            let record = world.check_record(&envelope).await;
            assert_eq!((record.mode, record.cost, record.reserved), (Mode::DryRun, None, None), "{tool}");
            assert_eq!(world.actions(envelope.id).await, ["call.completed"], "no intent: {tool}");
            assert_eq!(world.event_types(envelope.run_id).await, ["tool.started", "tool.completed"]);
        }
        assert_eq!((world.runner.runs("dry"), world.runner.plans()), (0, 8));
        assert_eq!(world.balance("tenant:2026-11").await, (0, 0));
        // What would be refused is.
        let invalid = request("strict", json!({}), |call| call.mode = Mode::DryRun);
        assert_eq!(error(&world.send(&owner, invalid).await.unwrap()), (ErrorCode::ValidationError, "schema"));
        assert_eq!(world.send(&owner, dry("hidden")).await.unwrap_err().kind(), FaultKind::NotFound);
        assert_eq!(world.runner.plans(), 8);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_refuses_new_calls_and_ends_the_old() {
    every_world(async |world| {
        let owner = world.owner();
        let free = world.begin(&owner, CallRequest::new("script", json!({"act": "hang", "key": "free"}))).await;
        let note = world.begin(&owner, CallRequest::new("note", json!({"act": "obey", "key": "note"}))).await;
        world.engine.drain(std::time::Duration::from_millis(10)).await;
        let fault = world.send(&owner, CallRequest::new("script", json!({}))).await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Unavailable);
        for id in [free, note] {
            assert_eq!(world.ended(id).await.status, Status::Cancelled);
        }
    })
    .await;
}
