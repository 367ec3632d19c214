//! A result that is given again is a call of its own, and never anybody else's.

use serde_json::{Value, json};
use toolgate_contracts::{CallRequest, Caller, ErrorCode, Permission, Status};

use crate::world::{error, eventually, every_world, permissions, request, statuses};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hit_is_a_call_of_its_own() {
    every_world(async |world| {
        let first = world.call("cached", json!({"key": "a"})).await;
        let hit = world.call("cached", json!({"key": "a"})).await;
        assert_eq!((first.cached, hit.cached, world.runner.runs("a")), (false, true, 1));
        assert_eq!(hit.output, first.output);
        assert_ne!((hit.id, &hit.call_id), (first.id, &first.call_id));
        assert_eq!((hit.labels.clone(), hit.status), (first.labels.clone(), Status::Completed));
        assert_eq!(serde_json::to_value(&hit.labels).unwrap(), json!(["untrusted"]), "labels are kept");
        assert_eq!(world.check_record(&hit).await.attempts, 0);
        assert_eq!(world.event_types(hit.run_id).await, ["tool.started", "tool.completed"]);
        assert_eq!(world.actions(hit.id).await, ["call.completed"]);
        // Its time by the clock.
        world.clock.advance(59);
        assert!(world.call("cached", json!({"key": "a"})).await.cached);
        world.clock.advance(1);
        assert!(!world.call("cached", json!({"key": "a"})).await.cached);
        assert_eq!(world.runner.runs("a"), 2);
        // What was given costs nothing.
        world.limits(json!({"max_budget": "0.02"})).await;
        assert_eq!(world.call("cached_priced", json!({"key": "p"})).await.cost, "0.01".parse().ok());
        for _ in 0..4 {
            let hit = world.call("cached_priced", json!({"key": "p"})).await;
            assert_eq!((hit.cached, hit.cost), (true, "0".parse().ok()));
        }
        assert_eq!(world.balance("tenant:2026-11").await, (0, 10_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_others_never_meet() {
    every_world(async |world| {
        let owner = world.owner();
        let (member, other) = (world.member(), world.member());
        let fewer =
            Caller { permissions: permissions(&[Permission::TOOLS_READ, Permission::CALLS_CREATE]), ..member.clone() };
        let (_, agent) = world.agent("one", json!({})).await;
        let as_agent = Caller { principal: member.principal, permissions: member.permissions.clone(), ..agent };
        let next_door = Caller { permissions: owner.permissions.clone(), ..world.owner_next_door() };
        // Of one principal, whatever else is the same: each of these is the first of its kind.
        let callers = [&owner, &member, &other, &fewer, &as_agent, &next_door];
        for round in [false, true] {
            for (number, caller) in callers.iter().enumerate() {
                let answer = world.call_as(caller, "cached", json!({"key": "x"})).await;
                assert_eq!(answer.cached, round, "caller {number}");
            }
        }
        assert_eq!(world.runner.runs("x"), 6);
        // For a whole tenant: among those of equal rights.
        for (number, (caller, cached)) in
            [(&owner, false), (&member, false), (&other, true), (&fewer, false), (&next_door, false)]
                .into_iter()
                .enumerate()
        {
            let answer = world.call_as(caller, "cached_for_all", json!({"key": "y"})).await;
            assert_eq!(answer.cached, cached, "caller {number}");
        }
        // Another input, another tool; the same input in another order is the same.
        assert!(!world.call("cached", json!({"key": "x", "n": 1})).await.cached);
        assert!(!world.call("cached", json!({"key": "x", "n": 2, "m": 3})).await.cached);
        assert!(world.call("cached", json!({"m": 3, "n": 2, "key": "x"})).await.cached);
        assert!(world.call("cached", json!({"m": 3, "n": 2.0, "key": "x"})).await.cached, "2.0 is 2");
        assert!(!world.call("cached_for_all", json!({"key": "x"})).await.cached);
        // What changes something is never given again, whatever its definition says.
        for _ in 0..2 {
            assert!(!world.call("cached_note", json!({"key": "note"})).await.cached);
        }
        assert_eq!(world.runner.runs("note"), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_version_begins_anew() {
    every_world(async |world| {
        assert!(!world.call("cached_for_all", json!({"key": "v"})).await.cached);
        assert!(world.call("cached_for_all", json!({"key": "v"})).await.cached);
        world
            .publish(
                "cached_for_all",
                json!({"version": "1.1.0", "cache": "forever", "cache_scope": "tenant", "timeout_ms": 9000}),
            )
            .await;
        let newer = world.call("cached_for_all", json!({"key": "v"})).await;
        assert_eq!((newer.cached, newer.version.as_str()), (false, "1.1.0"));
        assert!(world.call("cached_for_all@1.0.0", json!({"key": "v"})).await.cached, "the old one's are its own");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_by_many_at_once_runs_once() {
    every_world(async |world| {
        let owner = world.owner();
        let call = CallRequest::new("cached", json!({"act": "hang", "key": "one"}));
        let release = async {
            eventually("all have begun", async || world.count("calls").await == 100).await;
            world.runner.release();
        };
        let (answers, ()) = tokio::join!(world.at_once(&owner, 100, &call), release);
        assert_eq!(world.runner.runs("one"), 1);
        assert_eq!(statuses(&answers)["completed"], 100);
        let led = answers.iter().filter(|answer| !answer.as_ref().unwrap().cached).count();
        assert_eq!(led, 1);
        assert_eq!(world.count("audit_leaves").await - 100, 0, "each has its own entry");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_leader_is_told_once_and_a_stopped_one_is_followed_by_another() {
    every_world(async |world| {
        let owner = world.owner();
        let failing = json!({"code": "VALIDATION_ERROR", "message": "no", "details": {"reason": "schema"}});
        let input = |act: &str, key: &str| -> Value { json!({"act": act, "key": key, "error": failing}) };
        // Nothing of a failure is kept.
        for _ in 0..2 {
            let failed = world.call("cached", input("fail", "f")).await;
            assert_eq!((error(&failed), failed.cached), ((ErrorCode::ValidationError, "schema"), false));
        }
        assert_eq!(world.runner.runs("f"), 2);
        let is_error = json!({"act": "result", "key": "e", "result": {"content": [{"type": "text", "text": "no"}], "is_error": true}});
        for _ in 0..2 {
            assert_eq!(world.call("cached", is_error.clone()).await.status, Status::Failed);
        }
        assert_eq!(world.runner.runs("e"), 2);
        // The leader runs out of time, the follower has more: it runs itself.
        let short = request("cached", input("hang", "l"), |call| call.timeout_ms = Some(150));
        let leader = world.at_once(&owner, 1, &short);
        let follower = async {
            eventually("one leads", async || world.runner.runs("l") == 1).await;
            world.call("cached", input("hang", "l")).await
        };
        let release = async {
            eventually("another leads", async || world.runner.runs("l") == 2).await;
            world.runner.release();
        };
        let (leader, follower, ()) = tokio::join!(leader, follower, release);
        assert_eq!(statuses(&leader)["failed timeout"], 1);
        assert_eq!((follower.status, follower.cached), (Status::Completed, false));
        world.check_record(&follower).await;
    })
    .await;
}
