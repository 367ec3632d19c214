//! Calls that wait for a person: they are rows, a person's decision runs the stored bytes, and every other end is an
//! ordinary answer that the agent reads.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::{
    ApprovalState, ApprovalStatus, CallId, CallRequest, Caller, ErrorCode, Fault, FaultKind, Role, RunId, Status,
};
use toolgate_engine::approvals::{Card, Choice, Decided};
use toolgate_store::approvals::Approval;

use crate::world::{World, error, eventually, every_world, request};

pub fn choice(value: Value) -> Choice {
    serde_json::from_value(value).unwrap()
}

impl World {
    /// Sends a call that a person must see, and does not wait.
    pub async fn park(&self, caller: &Caller, tool: &str, input: Value) -> CallId {
        let envelope = self.send(caller, request(tool, input, |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(envelope.status, Status::Pending, "{envelope:?}");
        envelope.id
    }

    pub async fn park_in(&self, caller: &Caller, run: RunId, tool: &str, input: Value) -> CallId {
        let parked = request(tool, input, |call| {
            call.run_id = Some(run);
            call.wait = Some(0);
        });
        let envelope = self.send(caller, parked).await.unwrap();
        assert_eq!(envelope.status, Status::Pending, "{envelope:?}");
        envelope.id
    }

    /// Decides on a call, and waits for what becomes of it.
    pub async fn decide(&self, by: &Caller, call: CallId, what: Value) -> Result<Decided, Fault> {
        Box::pin(self.engine.decide(by, &call.to_string(), choice(what), Duration::from_secs(20))).await
    }

    pub async fn approve(&self, by: &Caller, call: CallId) -> Result<Decided, Fault> {
        self.decide(by, call, json!({"decision": "approve"})).await
    }

    pub async fn reject(&self, by: &Caller, call: CallId, reason: &str) -> Result<Decided, Fault> {
        self.decide(by, call, json!({"decision": "reject", "reason": reason})).await
    }

    pub async fn card(&self, by: &Caller, call: CallId) -> Card {
        self.engine.approval(by, &call.to_string()).await.unwrap()
    }

    pub async fn approval_of(&self, call: CallId) -> Approval {
        self.store.approval_of(self.tenant, call).await.unwrap().unwrap()
    }

    pub async fn run_state(&self, run: RunId) -> RunState {
        self.store.run(self.tenant, run).await.unwrap().unwrap().state
    }

    /// One that asks and one that decides.
    pub async fn two(&self) -> (Caller, Caller) {
        (self.person("ada", &[Role::Member]).await, self.person("ben", &[Role::Approver]).await)
    }
}

#[track_caller]
pub fn kind<T>(result: Result<T, Fault>) -> FaultKind {
    result.err().unwrap_or_else(|| panic!("not refused")).kind()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_waits_and_its_caller_gets_the_result_of_the_stored_bytes() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let input = json!({"key": "w", "value": {"sent": true}});
        let (engine, asking, call) = (world.engine.clone(), ada.clone(), CallRequest::new("writes", input.clone()));
        let waiting = tokio::spawn(async move { engine.submit(&asking, toolgate_contracts::Source::Api, call).await });
        let open = toolgate_store::approvals::ApprovalFilter {
            state: Some(ApprovalState::Open),
            ..toolgate_store::approvals::ApprovalFilter::default()
        };
        let page = async || world.engine.list_approvals(&ben, &open, None, 10).await.unwrap().items;
        eventually("it is asked", async || !page().await.is_empty()).await;
        let card = page().await.remove(0);
        assert_eq!((card.input.as_ref(), card.call_status), (Some(&input), Status::Pending));
        assert_eq!((card.asked_by.as_str(), card.tool.as_str()), ("ada", "writes@1.0.0"));
        let codes: Vec<&str> = card.reasons.iter().map(|reason| reason.code.as_str()).collect();
        assert_eq!(codes, ["write", "critical"]);
        assert_eq!(world.runner.runs("w"), 0);
        let before = world.record(card.call_id).await;
        assert_eq!((before.status, before.approval_status), (Status::Pending, ApprovalStatus::Pending));
        assert!(before.started_at.is_none() && before.approval_required);

        let decided = world.approve(&ben, card.call_id).await.unwrap();
        assert_eq!((decided.card.state, decided.card.call_status), (ApprovalState::Approved, Status::Completed));
        let envelope = waiting.await.unwrap().unwrap();
        assert_eq!((envelope.status, &envelope.output), (Status::Completed, &Some(json!({"sent": true}))));
        assert_eq!(world.runner.runs("w"), 1);
        let record = world.record(card.call_id).await;
        assert_eq!(record.approval_status, ApprovalStatus::Approved);
        assert_eq!(record.approval_decided_by.as_deref(), Some(ben.principal.to_string().as_str()));
        assert!(record.started_at.is_some() && record.completed_at.is_some());
        let types = world.event_types(record.run).await;
        let expected = [
            "tool.needs_approval",
            "approval.requested",
            "approval.decided",
            "tool.approved",
            "tool.started",
            "tool.completed",
        ];
        assert_eq!(types, expected);
        let actions = world.actions(card.call_id).await;
        assert_eq!(actions, ["approval.approved", "approval.requested", "call.completed", "call.intent"]);
        world.check_record(&envelope).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_is_an_answer_that_the_agent_reads() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let run = world.run(&ada, json!({})).await.id;
        let call = world.park_in(&ada, run, "writes", json!({"key": "no"})).await;
        assert_eq!(world.run_state(run).await, RunState::WaitingHuman);
        assert_eq!(kind(world.decide(&ben, call, json!({"decision": "reject"})).await), FaultKind::Invalid);
        let decided = world.reject(&ben, call, "the address is wrong").await.unwrap();
        assert_eq!((decided.card.state, decided.card.call_status), (ApprovalState::Rejected, Status::Rejected));
        let record = world.record(call).await;
        let told = record.error.clone().unwrap();
        assert_eq!((told.code, told.reason()), (ErrorCode::PolicyDenied, "rejected"));
        assert!(told.message.contains("the address is wrong") && told.message.contains("ben"), "{}", told.message);
        assert_eq!(record.approval_reason.as_deref(), Some("the address is wrong"));
        assert_eq!(record.approval_status, ApprovalStatus::Rejected);
        assert_eq!(world.run_state(run).await, RunState::Running);
        let types = world.event_types(run).await;
        let expected = [
            "run.started",
            "tool.needs_approval",
            "approval.requested",
            "run.waiting",
            "approval.rejected",
            "tool.failed",
            "run.resumed",
        ];
        assert_eq!(types, expected);
        // Whoever comes second is told who and when.
        let late = world.approve(&ben, call).await.unwrap_err();
        assert_eq!(late.kind(), FaultKind::Conflict);
        assert!(late.told().contains("rejected by") && late.told().contains("2026-11-15T"), "{}", late.told());
        assert_eq!(world.runner.runs("no"), 0);
        assert_eq!(world.actions(call).await, ["approval.rejected", "approval.requested", "call.rejected"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_decides_expires_after_its_time_and_not_before() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.settings(|settings| settings.approval_expires_s = 600).await;
        let call = world.park(&ada, "writes", json!({"key": "late"})).await;
        world.clock.advance(599);
        let over = toolgate_store::approvals::Due::Over;
        let round = world.store.due_approvals(over, world.clock.now(), None, 10).await.unwrap();
        assert!(round.is_empty());
        world.clock.advance(1);
        // Its time is over, whether or not somebody has looked.
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Conflict);
        world.in_background_until("it expires", async || world.record(call).await.status.is_final()).await;
        let record = world.record(call).await;
        assert_eq!((record.status, record.error.as_ref().unwrap().reason()), (Status::Rejected, "expired"));
        assert_eq!(record.approval_decided_by.as_deref(), Some("system:timeout"));
        assert_eq!(world.approval_of(call).await.state, ApprovalState::Expired);
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("late"), 0);
        assert!(world.event_types(record.run).await.contains(&"approval.expired"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_can_be_taken_back_and_then_nobody_decides_on_it() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let run = world.run(&ada, json!({})).await.id;
        let call = world.park_in(&ada, run, "writes", json!({"key": "back"})).await;
        let envelope = world.engine.cancel(&ada, &call.to_string()).await.unwrap();
        assert_eq!((envelope.status, error(&envelope)), (Status::Cancelled, (ErrorCode::PolicyDenied, "cancelled")));
        assert_eq!(world.approval_of(call).await.state, ApprovalState::Cancelled);
        assert_eq!(world.run_state(run).await, RunState::Running);
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Conflict);
        assert_eq!(kind(world.engine.cancel(&ada, &call.to_string()).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("back"), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_decided_and_run_by_three_processes() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let call = world.park(&ada, "writes", json!({"key": "three", "value": 7})).await;
        let second = world.replica().await;
        second.engine.drain(Duration::ZERO).await;
        // The second decides and stops before it runs anything.
        let decided = second
            .engine
            .decide(&ben, &call.to_string(), choice(json!({"decision": "approve"})), Duration::ZERO)
            .await
            .unwrap();
        assert_eq!((decided.card.state, decided.card.call_status), (ApprovalState::Approved, Status::Approved));
        assert_eq!(world.runner.runs("three"), 0);
        let third = world.replica().await;
        third.in_background_until("it runs", async || third.record(call).await.status.is_final()).await;
        let record = third.record(call).await;
        assert_eq!((record.status, &record.output), (Status::Completed, &Some(json!(7))));
        assert_eq!(world.runner.runs("three"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_each_class_and_cause_those_wait_that_should() {
    every_world(async |world| {
        let (ada, _) = world.two().await;
        let person = world.at_browser(&ada).await;
        // (tool, by key, by a person at a browser)
        let table = [
            ("script", Status::Completed, Status::Completed),
            ("reads", Status::Completed, Status::Completed),
            ("writes", Status::Pending, Status::Pending),
            ("asking", Status::Pending, Status::Pending),
            ("risky", Status::Pending, Status::Pending),
            ("always_asking", Status::Pending, Status::Completed),
        ];
        for (tool, by_key, by_person) in table {
            for (caller, expected) in [(&ada, by_key), (&person, by_person)] {
                let call = request(tool, json!({}), |call| call.wait = Some(0));
                let envelope = world.send(caller, call).await.unwrap();
                assert_eq!(envelope.status, expected, "{tool}");
                let record = world.record(envelope.id).await;
                assert_eq!(record.approval_required, expected == Status::Pending, "{tool}");
                assert_eq!(record.approval.is_some(), expected == Status::Pending, "{tool}");
            }
        }
        let asked = request("writes", json!({}), |call| call.mode = toolgate_contracts::Mode::DryRun);
        let dry = world.send(&ada, asked).await.unwrap();
        assert_eq!(dry.status, Status::Completed);
        assert_eq!(world.runner.runs("writes"), 0);
    })
    .await;
}
