//! Between an agent and its owner, a run and the runs under it, a worker and who asked: what is one's is not the other's.

use serde_json::{Value, json};
use toolgate_contracts::{Caller, ErrorCode, FaultKind, LeaseId, Mode, Status};
use toolgate_engine::control::Report;
use toolgate_engine::external::Heartbeat;
use toolgate_engine::runs::NewRun;
use toolgate_store::calls::CallFilter;

use crate::world::{World, error, every_world, request};

/// An agent's key and its owner are the same principal.
async fn agent_and_owner(world: &World) -> (Caller, Caller) {
    let (_, agent) = world.agent("bot", json!({"toolset": "assigned"})).await;
    let owner = Caller { agent: None, ..agent.clone() };
    (agent, owner)
}

fn report(report: Value) -> Report {
    serde_json::from_value(report).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_s_key_gets_no_answer_of_its_owner_s() {
    every_world(async |world| {
        let (agent, owner) = agent_and_owner(&world).await;
        let asked = || request("script", json!({"n": 1}), |call| call.request_id = Some("same".into()));
        world.send(&owner, asked()).await.unwrap();
        assert_eq!(world.send(&agent, asked()).await.unwrap_err().kind(), FaultKind::NotFound, "it has no such tool");

        let run = world.run(&owner, json!({})).await;
        let placed = || {
            request("script", json!({"n": 2}), |call| {
                call.run_id = Some(run.id);
                call.seq = Some(0);
            })
        };
        world.send(&owner, placed()).await.unwrap();
        assert_eq!(world.send(&agent, placed()).await.unwrap_err().kind(), FaultKind::Conflict);
        assert!(world.engine.readable_run(&agent, run.id).await.unwrap().is_none(), "nor its owner's log");
        let listed = world.engine.list_calls(&agent, &CallFilter::default(), None, 50).await.unwrap();
        assert!(listed.items.is_empty(), "{listed:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_call_is_reported_by_whoever_recorded_it() {
    every_world(async |world| {
        world.external("far", false, json!({"cost": {"per_call": "0.01"}})).await;
        world.limits(json!({"max_budget": "0.02"})).await;
        let (agent, owner) = agent_and_owner(&world).await;
        let recorded = || request("far", json!({}), |call| call.mode = Mode::Record);
        let call = world.send(&owner, recorded()).await.unwrap();
        let lease = LeaseId::from(call.id);
        let forged = world.engine.complete(&agent, lease, report(json!({"status": "completed", "output": 1}))).await;
        assert_eq!(forged.unwrap_err().kind(), FaultKind::Conflict);
        assert_eq!(world.engine.keep_alive(&agent, lease, Heartbeat::default()).await.unwrap_err().kind(), FaultKind::Conflict);
        assert_eq!(world.record(call.id).await.status, Status::Running);

        // What was reported as failed was tried, and its price counts.
        let failed = || report(json!({"status": "failed", "error": {"code": "PROVIDER_ERROR", "message": "no", "details": {"reason": "0800 1234"}}}));
        let ended = world.engine.complete_recorded(&owner, &call.id.to_string(), failed()).await.unwrap();
        assert_eq!(error(&ended), (ErrorCode::ProviderError, "upstream_4xx"), "the log holds only words it knows");
        let entries = world.entries(call.id).await;
        assert!(entries.iter().all(|entry| !entry.to_string().contains("0800")), "{entries:?}");
        let second = world.send(&owner, recorded()).await.unwrap();
        world.engine.complete_recorded(&owner, &second.id.to_string(), failed()).await.unwrap();
        let third = world.send(&owner, recorded()).await.unwrap();
        assert_eq!(error(&third), (ErrorCode::PolicyDenied, "budget"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_under_another_does_not_escape_it() {
    every_world(async |world| {
        let owner = world.owner();
        let root = world.run(&owner, json!({"max_tool_calls": 2, "max_budget": "0.015", "side_effects": "none"})).await;
        let under = NewRun { parent_run_id: Some(root.id), ..NewRun::default() };
        let child = world.engine.open_run(&owner, under).await.unwrap();
        assert_eq!(child.limits.side_effects, root.limits.side_effects);
        let call = |tool: &str| request(tool, json!({}), |call| call.run_id = Some(child.id));
        assert_eq!(world.send(&owner, call("priced")).await.unwrap().status, Status::Completed);
        let over = world.send(&owner, call("priced")).await.unwrap();
        assert_eq!(error(&over), (ErrorCode::PolicyDenied, "budget"));
        let third = world.send(&owner, call("script")).await.unwrap();
        assert_eq!(error(&third), (ErrorCode::PolicyDenied, "max_tool_calls"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_says_of_its_time_its_width_and_its_depth_holds() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({"max_wall_s": 5, "max_parallel": 1, "max_depth": 1})).await;
        let in_run = |input: Value| request("script", input, |call| call.run_id = Some(run.id));
        let hanging = world.begin(&owner, in_run(json!({"act": "hang", "key": "a"}))).await;
        let second = world.send(&owner, in_run(json!({}))).await.unwrap();
        assert_eq!(error(&second), (ErrorCode::RateLimit, "rate"));
        world.engine.cancel(&owner, &hanging.to_string()).await.unwrap();
        world.clock.advance(6);
        let late = world.send(&owner, in_run(json!({}))).await.unwrap();
        assert_eq!(error(&late), (ErrorCode::Timeout, "wall"));
        let told = late.error.unwrap().details.unwrap();
        assert_eq!((&told["member"], &told["limit"], &told["used"]), (&json!("max_wall_s"), &json!(5), &json!(6)));

        // A call that runs is cut off with its run, and with the run above that.
        let brief = world.run(&owner, json!({"max_wall_s": 1})).await;
        let below = NewRun { parent_run_id: Some(brief.id), ..NewRun::default() };
        let below = world.engine.open_run(&owner, below).await.unwrap();
        for run in [brief.id, below.id] {
            let hang = request("script", json!({"act": "hang", "key": run}), |call| call.run_id = Some(run));
            assert_eq!(error(&world.send(&owner, hang).await.unwrap()), (ErrorCode::Timeout, "timeout"));
        }

        let below = |parent| NewRun { parent_run_id: Some(parent), ..NewRun::default() };
        let child = world.engine.open_run(&owner, below(run.id)).await.unwrap();
        let grandchild = world.engine.open_run(&owner, below(child.id)).await;
        assert_eq!(grandchild.unwrap_err().kind(), FaultKind::Conflict);

        let huge = request("script", json!({}), |call| {
            call.run_id = Some(run.id);
            call.seq = Some(u32::MAX);
        });
        assert_eq!(world.send(&owner, huge).await.unwrap_err().kind(), FaultKind::Invalid);
    })
    .await;
}
