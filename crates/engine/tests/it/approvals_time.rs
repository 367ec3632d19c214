//! What time does to calls that wait, by mode and class; and what it does not do while something is stopped.

use serde_json::{Value, json};
use toolgate_contracts::{ApprovalState, Caller, Envelope, FaultKind, Role, Status};
use toolgate_registry::commands::Target;

use crate::approvals::kind;
use crate::world::{World, eventually, every_world, request};

/// What a call of each class becomes in each mode: before its time is over, and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_14_no_mode_profile_or_override_lets_a_write_run_without_a_person() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let classes = ["none", "read_only", "write"];
        let modes = ["blocking", "continue_on_timeout", "fire_and_continue"];
        let mut open: Vec<(String, toolgate_contracts::CallId)> = Vec::new();
        for class in classes {
            for mode in modes {
                let name = format!("{class}_{mode}");
                let hitl = json!({"mode": mode, "timeout_s": 60});
                world
                    .publish(
                        &name,
                        json!({"egress_class": class, "requires_approval": true, "risk": risk(class), "hitl": hitl}),
                    )
                    .await;
                let envelope = world.sent(&ada, &name, json!({})).await;
                if mode == "fire_and_continue" && class != "write" {
                    assert_eq!((envelope.status, world.runner.runs(&name)), (Status::Completed, 1), "{name}");
                    let decided = world.record(envelope.id).await.approval_decided_by;
                    assert_eq!(decided.as_deref(), Some("system:fire_and_continue"), "{name}");
                    continue;
                }
                assert_eq!((envelope.status, world.runner.runs(&name)), (Status::Pending, 0), "{name}");
                open.push((name, envelope.id));
            }
        }
        world.clock.advance(61);
        for (name, call) in open {
            world.in_background_until("its time is over", async || world.record(call).await.status.is_final()).await;
            let record = world.record(call).await;
            let ran = world.runner.runs(&name);
            if name.ends_with("continue_on_timeout") && !name.starts_with("write") {
                assert_eq!((record.status, ran), (Status::Completed, 1), "{name}");
                assert_eq!(record.approval_decided_by.as_deref(), Some("system:timeout"), "{name}");
            } else {
                let reason = record.error.as_ref().unwrap().reason().to_owned();
                let expected = if name.ends_with("continue_on_timeout") { "approval_timeout" } else { "expired" };
                assert_eq!((record.status, ran, reason.as_str()), (Status::Rejected, 0, expected), "{name}");
            }
        }
    })
    .await;
}

fn risk(class: &str) -> &'static str {
    if class == "write" { "critical" } else { "sensitive" }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_14_a_profile_that_asks_more_loosely_loosens_nothing() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let hitl = json!({"mode": "fire_and_continue", "timeout_s": 1});
        world.profile(json!({"name": "loose", "requires_approval": true, "hitl": hitl})).await;
        let (_, acting) = world.agent_of(&ada, "loose", json!({"profile": "loose"})).await;
        // By the profile alone: what it asks for is done in its manner.
        let read = world.sent(&acting, "reads", json!({})).await;
        assert_eq!((read.status, world.runner.runs("reads")), (Status::Completed, 1));
        // The tool's own reason names no mode, so people are waited for; the shorter time holds.
        let write = world.send(&acting, request("writes", json!({}), |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(write.status, Status::Pending);
        world.clock.advance(2);
        world.in_background_until("it expires", async || world.record(write.id).await.status.is_final()).await;
        assert_eq!((world.record(write.id).await.status, world.runner.runs("writes")), (Status::Rejected, 0));
        // The same over an override of the tool for the tenant: one that loosens is refused.
        let tool = "writes".parse().unwrap();
        let patch = serde_json::from_value(json!({"hitl": {"mode": "fire_and_continue"}})).unwrap();
        assert!(world.registry.set_override(&world.owner(), &tool, &patch).await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_14_the_database_itself_refuses_a_write_that_nobody_approved() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        for by in ["system:timeout", "system:fire_and_continue"] {
            let call = world.park(&ada, "writes", json!({})).await;
            let mut change = toolgate_store::Change::new(world.tenant);
            let taken = toolgate_contracts::Fault::conflict("taken", "none");
            change.approve_call(call, by, None, taken);
            assert!(world.store.commit(change).await.is_err(), "{by}");
            assert_eq!(world.record(call).await.status, Status::Pending);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_on_gets_the_pending_call_at_once_and_its_run_does_not_wait() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.publish("later", json!({"egress_class": "write", "hitl": {"mode": "fire_and_continue"}})).await;
        let run = world.run(&ada, json!({})).await.id;
        // It would wait a minute, if it waited.
        let sent = request("later", json!({"value": 3}), |call| {
            call.run_id = Some(run);
            call.wait = Some(60);
        });
        let envelope = world.send(&ada, sent).await.unwrap();
        assert_eq!(envelope.status, Status::Pending);
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::Running);
        assert_eq!(world.approve(&ben, envelope.id).await.unwrap().card.call_status, Status::Completed);
        assert_eq!(world.record(envelope.id).await.output, Some(json!(3)));
        assert!(world.event_types(run).await.ends_with(&["tool.approved", "tool.started", "tool.completed"]));
    })
    .await;
}

/// Whatever stops it: deadlines stand still, nothing is approved, and afterwards they go on where they stood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_stand_still_while_something_is_stopped() {
    every_world(async |world| {
        world.settings(|settings| settings.approval_expires_s = 600).await;
        let (ada, ben) = world.two().await;
        let (agent, acting) = world.agent_of(&ada, "busy", json!({})).await;
        let system = Caller {
            tenant: toolgate_contracts::TenantId::SYSTEM,
            tenant_slug: "system".parse().unwrap(),
            ..world.owner()
        };
        let cases: [(&str, Caller, Target); 4] = [
            ("the tenant", world.owner(), Target::Tenant),
            ("the agent", world.owner(), Target::Agent(agent.name.to_string())),
            ("the tool", world.owner(), Target::Tool("writes".parse().unwrap())),
            ("everything", system, Target::Tenant),
        ];
        for (what, who, target) in cases {
            let call = world.park(&acting, "writes", json!({"key": what})).await;
            let deadline = world.approval_of(call).await.expires_at;
            world.clock.advance(100);
            world.registry.set_kill_switch(&who, &target, true, Some("look into it")).await.unwrap();
            world
                .in_background_until("it stands still", async || world.approval_of(call).await.frozen_at.is_some())
                .await;
            world.clock.advance(100_000);
            let refused = world.approve(&ben, call).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Conflict, "{what}");
            assert!(refused.told().contains("look into it"), "{what}: {}", refused.told());
            // However often somebody looks.
            world.in_background_until("a moment", async || true).await;
            assert_eq!(world.approval_of(call).await.state, ApprovalState::Open, "{what}");
            world.registry.set_kill_switch(&who, &target, false, None).await.unwrap();
            world.in_background_until("it goes on", async || world.approval_of(call).await.frozen_at.is_none()).await;
            assert_eq!(world.approval_of(call).await.expires_at, deadline.plus_seconds(100_000), "{what}");
            assert_eq!(world.approve(&ben, call).await.unwrap().card.call_status, Status::Completed, "{what}");
            assert_eq!(world.runner.runs(what), 1);
        }
    })
    .await;
}

/// More is asked by now than was decided on: it waits again, in front of everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_more_strictly_after_the_decision_waits_again() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let (_, acting) = world.agent_of(&ada, "watched", json!({})).await;
        let run = world.run(&acting, json!({})).await.id;
        let call = world.park_in(&acting, run, "writes", json!({"key": "again"})).await;
        // Decided on a replica that stops before it runs anything.
        let stopping = world.replica().await;
        stopping.engine.drain(std::time::Duration::ZERO).await;
        let approve = || crate::approvals::choice(json!({"decision": "approve"}));
        let none = std::time::Duration::ZERO;
        Box::pin(stopping.engine.decide(&ben, &call.to_string(), approve(), none)).await.unwrap();
        assert_eq!(world.record(call).await.status, Status::Approved);
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::Running);
        let hitl = json!({"mode": "blocking", "approvers": {"need": 2, "from": ["role:approver"]}});
        world.profile(json!({"name": "stricter", "requires_approval": true, "hitl": hitl})).await;
        let stricter = json!({"name": "watched", "model": "scripted/one", "profile": "stricter"});
        let draft = toolgate_registry::commands::AgentDraft {
            spec: toolgate_contracts::json::decode(stricter).unwrap(),
            state: toolgate_contracts::AgentState::Active,
        };
        world.registry.put_agent(&world.owner(), draft).await.unwrap();
        world.in_background_until("it waits again", async || world.record(call).await.status == Status::Pending).await;
        assert_eq!(world.runner.runs("again"), 0);
        let approval = world.approval_of(call).await;
        assert_eq!((approval.state, approval.round, approval.need), (ApprovalState::Open, 2, 2));
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::WaitingHuman);
        let types = world.event_types(run).await;
        assert_eq!(types.iter().filter(|kind| **kind == "approval.requested").count(), 2);
        // The vote before does not count any more.
        world.approve(&ben, call).await.unwrap();
        assert_eq!(world.record(call).await.status, Status::Pending);
        let eve = world.person("eve", &[Role::Approver]).await;
        assert_eq!(world.approve(&eve, call).await.unwrap().card.call_status, Status::Completed);
        assert_eq!(world.runner.runs("again"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_comes_before_the_end_and_of_a_short_wait_at_its_half() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        for (expires, before, at) in [(86_400, 3600, Some(82_800)), (600, 3600, Some(300)), (600, 0, None)] {
            world
                .settings(|settings| {
                    settings.approval_expires_s = expires;
                    settings.remind_before_s = before;
                })
                .await;
            let call = world.park(&ada, "writes", json!({})).await;
            let approval = world.approval_of(call).await;
            assert_eq!(approval.remind_at, at.map(|at| approval.created_at.plus_seconds(at)), "{expires} {before}");
        }
    })
    .await;
}

/// A wait holds no place that calls could run in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_hold_nobody_up() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        world.limits(json!({"max_parallel": 1})).await;
        let (engine, caller) = (world.engine.clone(), ada.clone());
        let batch: Vec<_> = (0..20).map(|n| request("writes", json!({"n": n}), |call| call.wait = Some(60))).collect();
        let waiting =
            tokio::spawn(async move { engine.submit_all(&caller, toolgate_contracts::Source::Api, batch).await });
        let open = toolgate_store::approvals::ApprovalFilter {
            state: Some(ApprovalState::Open),
            ..toolgate_store::approvals::ApprovalFilter::default()
        };
        // All of them are asked, though each is waited for.
        eventually("all are asked", async || world.engine.count_approvals(&world.owner(), &open).await.unwrap() == 20)
            .await;
        let quick: Envelope = world.call("script", json!({})).await;
        assert_eq!(quick.status, Status::Completed);
        for card in world.engine.list_approvals(&world.owner(), &open, None, 50).await.unwrap().items {
            world.reject(&world.owner(), card.call_id, "enough").await.unwrap();
        }
        let answers = waiting.await.unwrap().unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap().status == Status::Rejected));
        let refused: Value = json!(answers[0].as_ref().unwrap().error);
        assert_eq!(refused["details"]["reason"], "rejected");
        assert_eq!(kind(world.approve(&world.owner(), answers[0].as_ref().unwrap().id).await), FaultKind::Conflict);
    })
    .await;
}

impl World {
    /// Sends a call: what waits for a person is left to wait, what runs is waited for.
    pub async fn sent(&self, caller: &Caller, tool: &str, input: Value) -> Envelope {
        let envelope = self.send(caller, request(tool, input, |call| call.wait = Some(0))).await.unwrap();
        if envelope.status == Status::Pending && self.approval_of(envelope.id).await.state == ApprovalState::Open {
            return envelope;
        }
        self.ended(envelope.id).await;
        self.engine.when_ended(self.tenant, envelope.id, tokio::time::Instant::now()).await.unwrap()
    }
}
