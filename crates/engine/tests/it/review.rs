//! Ways around a decision that look harmless one by one: two reads in the same moment, a call that could not begin, output
//! as it comes, one's own standing grant, a grant that constrains nothing, one bad row.

use serde_json::{Value, json};
use toolgate_contracts::{CallRequest, Caller, FaultKind, Mode, Role, Status};
use toolgate_engine::approvals::NewStanding;
use toolgate_store::Change;

use crate::approvals::kind;
use crate::world::{World, eventually, every_world, request};

impl World {
    /// A tool that brings private data, one that brings untrusted data, and one whose destination is free text.
    pub async fn with_ways_out(&self) {
        let private = json!({"labels": {"adds": ["private"]}});
        self.publish("papers", private.clone()).await;
        self.publish("web", json!({"labels": {"adds": ["untrusted"]}})).await;
        self.publish("sends", json!({"sink": "open"})).await;
        let mut priced = json!({"cost": {"per_call": "0.01"}, "changes_state": true});
        priced.as_object_mut().unwrap().extend(private.as_object().unwrap().clone());
        self.publish("priced_papers", priced).await;
    }

    async fn stands(
        &self,
        by: &Caller,
        new: Value,
    ) -> Result<toolgate_engine::approvals::StandingGrant, toolgate_contracts::Fault> {
        self.engine.create_standing(by, serde_json::from_value::<NewStanding>(new).unwrap()).await
    }
}

/// Security test 46: both are remembered, whichever ends last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_reads_in_one_moment_lose_no_label() {
    every_world(async |world| {
        world.with_ways_out().await;
        let ada = world.person("ada", &[Role::Member]).await;
        let reads = ["papers", "web"].map(|tool| world.begin(&ada, CallRequest::new(tool, json!({"act": "hang"}))));
        let [papers, web] = reads;
        let (papers, web) = (papers.await, web.await);
        world.runner.release();
        world.ended(papers).await;
        world.ended(web).await;
        let sent = world.send(&ada, request("sends", json!({}), |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(sent.status, Status::Pending, "untrusted and private data are known to the caller");
    })
    .await;
}

/// Security test 46: what was only in memory when a commit failed is not taken for written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_could_not_begin_leaves_no_label_unwritten() {
    every_world(async |world| {
        world.with_ways_out().await;
        world.limits(json!({"max_budget": "0.005"})).await;
        let ada = world.person("ada", &[Role::Member]).await;
        let refused = world.call_as(&ada, "priced_papers", json!({})).await;
        assert_eq!(refused.status, Status::Failed, "{refused:?}");
        world.call_as(&ada, "papers", json!({})).await;
        let other = world.replica().await;
        other.call_as(&ada, "web", json!({})).await;
        let sent = other.send(&ada, request("sends", json!({}), |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(sent.status, Status::Pending, "the private data was read");
    })
    .await;
}

/// Security test 46: whoever follows a call has read what it streams before it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_as_it_comes_is_labelled_before_its_end() {
    every_world(async |world| {
        world.with_ways_out().await;
        let ada = world.person("ada", &[Role::Member]).await;
        world.call_as(&ada, "web", json!({})).await;
        let lines: Vec<String> = (0..400).map(|n| format!("line {n}\n")).collect();
        let id =
            world.begin(&ada, CallRequest::new("papers", json!({"act": "stream", "lines": lines, "ms": 20}))).await;
        let run = world.record(id).await.run;
        eventually("a part can be read", async || {
            let events = world.engine.events(world.tenant, run, 0).await.unwrap();
            events.iter().any(|event| event.part.is_some())
        })
        .await;
        assert!(!world.record(id).await.status.is_final());
        let sent = world.send(&ada, request("sends", json!({}), |call| call.wait = Some(0))).await.unwrap();
        world.engine.cancel(&ada, &id.to_string()).await.unwrap();
        assert_eq!(sent.status, Status::Pending, "the private data was read as it came");
    })
    .await;
}

/// Security test 46: a list that shows outputs is read like the calls themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_with_outputs_is_read_like_the_calls() {
    every_world(async |world| {
        world.with_ways_out().await;
        let ada = world.person("ada", &[Role::Member]).await;
        let second = world.second_key(&ada).await;
        world.call_as(&ada, "papers", json!({})).await;
        world.call_as(&second, "web", json!({})).await;
        let filter = toolgate_store::calls::CallFilter::default();
        let records = world.engine.list_records(&second, &filter, &[], None, 10).await.unwrap();
        assert_eq!(records.len(), 2);
        let sent = world.send(&second, request("sends", json!({}), |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(sent.status, Status::Pending, "the other key's result was in the list");
    })
    .await;
}

/// Security test 12: allowing one's own calls beforehand is approving them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_12_nobody_stands_for_themselves_where_asking_and_deciding_are_separated() {
    every_world(async |world| {
        let (ada, eve) = (world.person("ada", &[Role::Admin]).await, world.person("eve", &[Role::Admin]).await);
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let new = json!({"tool": "fetches", "agent": "robot", "constraints": [{"pointer": "/to", "const": "us"}]});
        world.stands(&ada, new.clone()).await.unwrap();
        assert_eq!(world.sent(&robot, "fetches", json!({"to": "us"})).await.status, Status::Completed);
        world.settings(|settings| settings.separation = true).await;
        assert_eq!(world.sent(&robot, "fetches", json!({"to": "us"})).await.status, Status::Pending);
        world.stands(&eve, new).await.unwrap();
        assert_eq!(world.sent(&robot, "fetches", json!({"to": "us"})).await.status, Status::Completed);
    })
    .await;
}

/// Security test 53: one who grants is not two who approve, nor somebody else who is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standing_grant_is_one_voice() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let new = json!({"tool": "fetches", "agent": "robot", "constraints": [{"pointer": "/to", "const": "us"}]});
        world.stands(&ada, new).await.unwrap();
        for (approvers, expected) in [
            ("1 of role:admin", Status::Completed),
            ("2 of role:admin", Status::Pending),
            ("1 of role:approver", Status::Pending),
        ] {
            world
                .policies(&format!(
                    "@id(\"who\") @approvers(\"{approvers}\")
                     forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"fetches\");"
                ))
                .await;
            let status = world.sent(&robot, "fetches", json!({"to": "us"})).await.status;
            assert_eq!(status, expected, "{approvers}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standing_grant_whose_constraints_are_another_tools_is_refused() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        world.agent_of(&ada, "robot", json!({})).await;
        let constraint = json!({"tool": "reads", "pointer": "/to", "const": "us"});
        let new = json!({"tool": "fetches", "agent": "robot", "constraints": [constraint]});
        assert_eq!(kind(world.stands(&ada, new).await), FaultKind::Invalid);
    })
    .await;
}

/// By key, token or command line a call waits for somebody who may decide; only what was asked at a browser is confirmed
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_key_asked_for_is_not_confirmed_at_a_browser() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let at_browser = world.at_browser(&ada).await;
        let call = world.park(&ada, "writes", json!({"key": "own"})).await;
        let digest = world.card(&at_browser, call).await.input_digest;
        let confirm = json!({"decision": "approve", "input_digest": digest});
        assert_eq!(kind(world.decide(&at_browser, call, confirm).await), FaultKind::Forbidden);
        assert_eq!(world.runner.runs("own"), 0);
    })
    .await;
}

/// Security test 13: what an agent that is gone asked for does not become its owner's call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deleted_agent_asked_for_does_not_run() {
    every_world(async |world| {
        let (ada, ben) = (world.person("ada", &[Role::Admin]).await, world.person("ben", &[Role::Approver]).await);
        world.agent("robot", json!({})).await;
        // By somebody's own key, in the agent's name: the key outlives the agent.
        let asked = request("writes", json!({"key": "orphan"}), |call| {
            call.agent_id = Some("robot".to_owned());
            call.wait = Some(0);
        });
        let call = world.send(&ada, asked).await.unwrap();
        assert_eq!(call.status, Status::Pending);
        world.registry.delete_agent(&world.owner(), "robot").await.unwrap();
        let _ = world.approve(&ben, call.id).await;
        let record = world.ended(call.id).await;
        assert_eq!((record.status, world.runner.runs("orphan")), (Status::Rejected, 0));
    })
    .await;
}

/// One row that cannot be read stops nobody else's deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_row_holds_nobody_up() {
    every_world(async |world| {
        let (ada, _) = world.two().await;
        world.settings(|settings| settings.approval_expires_s = 600).await;
        let bad = world.park(&ada, "writes", json!({"key": "bad"})).await;
        world.clock.advance(1);
        let good = world.park(&ada, "writes", json!({"key": "good"})).await;
        let mut change = Change::new(world.tenant);
        change.then(
            "UPDATE approvals SET binding = '1', asker = '2', reasons = '3' WHERE tenant_id = $1 AND call_id = $2",
            [bad.into()],
        );
        world.store.commit(change).await.unwrap();
        world.clock.advance(1000);
        world.in_background_until("the other expires", async || world.record(good).await.status.is_final()).await;
    })
    .await;
}

/// A dry run of a write asks nobody and changes nothing, whatever mode was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_is_no_way_to_run() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let asked = request("writes", json!({"key": "dry"}), |call| {
            call.mode = Mode::DryRun;
            call.request_id = Some("one".to_owned());
        });
        assert_eq!(world.send(&ada, asked).await.unwrap().status, Status::Completed);
        // The same id for a real one is another body.
        let real = request("writes", json!({"key": "dry"}), |call| call.request_id = Some("one".to_owned()));
        assert_eq!(kind(world.send(&ada, real).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("dry"), 0);
    })
    .await;
}
