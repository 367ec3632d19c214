//! Standing grants: calls like this one, for a while, within constraints; never more than was said.

use serde_json::{Value, json};
use toolgate_contracts::{ApprovalState, Caller, Fault, FaultKind, Role, Status};
use toolgate_engine::approvals::{NewStanding, StandingGrant};
use toolgate_store::Change;

use crate::approvals::kind;
use crate::world::{World, all, every_world, request, user_of};

impl World {
    async fn stand(&self, by: &Caller, more: Value) -> Result<StandingGrant, Fault> {
        let mut new = json!({"tool": "fetches", "agent": "robot", "constraints": [{"pointer": "/to", "const": "us"}]});
        new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.engine.create_standing(by, serde_json::from_value::<NewStanding>(new).unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standing_grant_covers_what_it_says_and_nothing_else() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let (_, other) = world.agent_of(&ada, "other", json!({})).await;
        let grant = world.stand(&ada, json!({"uses": 3, "reason": "every morning"})).await.unwrap();
        assert_eq!((grant.uses, grant.uses_max, grant.holds), (0, 3, true));
        // (whose call, of what, with what) → whether it runs at once.
        let table = [
            (&robot, "fetches", json!({"to": "us"}), Status::Completed),
            (&robot, "fetches", json!({"to": "us", "more": 1}), Status::Completed),
            (&robot, "fetches", json!({"to": "them"}), Status::Pending),
            (&robot, "fetches", json!({"to": ["us"]}), Status::Pending),
            (&robot, "fetches", json!({}), Status::Pending),
            (&robot, "asking", json!({"to": "us"}), Status::Pending),
            (&other, "fetches", json!({"to": "us"}), Status::Pending),
            (&ada, "fetches", json!({"to": "us"}), Status::Pending),
        ];
        for (caller, tool, input, expected) in table {
            let status = world.sent(caller, tool, input.clone()).await.status;
            assert_eq!(status, expected, "{tool} {input}");
        }
        assert_eq!(world.runner.runs("fetches"), 2);
        // The third use is the last.
        assert_eq!(world.sent(&robot, "fetches", json!({"to": "us"})).await.status, Status::Completed);
        assert_eq!(world.sent(&robot, "fetches", json!({"to": "us"})).await.status, Status::Pending);
        let listed = world.engine.list_standing(&ada, None, 10).await.unwrap().items;
        assert_eq!((listed.len(), listed[0].uses, listed[0].holds), (1, 3, false));
        let record = world.record(world.sent(&robot, "script", json!({})).await.id).await;
        assert_eq!(record.approval_decided_by, None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_uses_are_counted_exactly_however_many_come_at_once() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        world.stand(&ada, json!({"uses": 5})).await.unwrap();
        let other = world.replica().await;
        let calls = (0..20).map(|n| {
            let engine = if n % 2 == 0 { world.engine.clone() } else { other.engine.clone() };
            let robot = robot.clone();
            let asked = request("fetches", json!({"to": "us"}), |call| call.wait = Some(0));
            async move { Box::pin(engine.submit(&robot, toolgate_contracts::Source::Api, asked)).await }
        });
        let mut at_once = 0;
        for answer in all(calls).await {
            match answer {
                Ok(envelope) if envelope.status == Status::Pending => {}
                Ok(envelope) => {
                    assert_eq!(world.ended(envelope.id).await.status, Status::Completed);
                    at_once += 1;
                }
                // Used up in the moment between looking and running.
                Err(fault) => assert_eq!(fault.kind(), FaultKind::Conflict),
            }
        }
        assert_eq!((at_once, world.runner.runs("fetches")), (5, 5));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_with_its_time_with_a_word_with_its_issuer_and_with_the_behaviour_it_was_for() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let runs = async || world.sent(&robot, "fetches", json!({"to": "us"})).await.status == Status::Completed;
        world.stand(&ada, json!({"expires_s": 60})).await.unwrap();
        assert!(runs().await);
        world.clock.advance(60);
        assert!(!runs().await, "its time is over");
        let grant = world.stand(&ada, json!({})).await.unwrap();
        assert!(runs().await);
        world.engine.revoke_standing(&ada, grant.id).await.unwrap();
        assert!(!runs().await, "it was taken back");
        assert_eq!(kind(world.engine.revoke_standing(&ada, grant.id).await), FaultKind::Conflict);
        let eve = world.person("eve", &[Role::Admin]).await;
        world.stand(&eve, json!({})).await.unwrap();
        assert!(runs().await);
        let mut change = Change::new(world.tenant);
        change.set_roles(user_of(&eve), &[Role::Member]);
        world.store.commit(change).await.unwrap();
        assert!(!runs().await, "whoever gave it may not any more");
        world.stand(&ada, json!({})).await.unwrap();
        assert!(runs().await);
        let newer =
            json!({"egress_class": "read_only", "requires_approval": true, "version": "1.1.0", "timeout_ms": 5});
        world.publish("fetches", newer).await;
        assert!(!runs().await, "the tool does something else by now");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_granted_is_refused() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        let ben = world.person("ben", &[Role::Approver]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let table = [
            ("by somebody without the right", &ben, json!({}), FaultKind::Forbidden),
            ("by an agent", &robot, json!({}), FaultKind::Forbidden),
            ("without constraints", &ada, json!({"constraints": []}), FaultKind::Invalid),
            (
                "with a constraint on what the tool does not take",
                &ada,
                json!({"tool": "strict_fetches", "constraints": [{"pointer": "/nn", "const": 1}]}),
                FaultKind::Invalid,
            ),
            ("with a constraint that is none", &ada, json!({"constraints": [{"pointer": "/a"}]}), FaultKind::Invalid),
            ("for ever", &ada, json!({"expires_s": 86_401}), FaultKind::Invalid),
            ("too often", &ada, json!({"uses": 1001}), FaultKind::Invalid),
            ("never", &ada, json!({"uses": 0}), FaultKind::Invalid),
            ("of a tool that is critical", &ada, json!({"tool": "writes"}), FaultKind::Conflict),
            ("of an unknown tool", &ada, json!({"tool": "nothing"}), FaultKind::NotFound),
            ("for an unknown agent", &ada, json!({"agent": "nobody"}), FaultKind::NotFound),
        ];
        for (what, by, more, expected) in table {
            assert_eq!(kind(world.stand(by, more).await), expected, "{what}");
        }
        // Where the tenant says so, also of what is critical; no longer when it says otherwise.
        world.settings(|settings| settings.standing_grants_for_critical = true).await;
        world.stand(&ada, json!({"tool": "writes"})).await.unwrap();
        let write = world.sent(&robot, "writes", json!({"to": "us"})).await;
        assert_eq!(write.status, Status::Completed);
        let record = world.record(write.id).await;
        assert_eq!(record.approval_decided_by, Some(ada.principal.to_string()));
        world.settings(|settings| settings.standing_grants_for_critical = false).await;
        assert_eq!(world.sent(&robot, "writes", json!({"to": "us"})).await.status, Status::Pending);
    })
    .await;
}

/// What a label rule stops for a person is not for a standing grant to let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_not_answer_where_labelled_data_could_leave() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Admin]).await;
        world.settings(|settings| settings.standing_grants_for_critical = true).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        world.stand(&ada, json!({"tool": "writes"})).await.unwrap();
        let labelled = |labels: Value| {
            request("writes", json!({"to": "us"}), |call| {
                call.wait = Some(0);
                call.labels = serde_json::from_value(labels).unwrap();
            })
        };
        assert_eq!(world.sent(&robot, "writes", json!({"to": "us"})).await.status, Status::Completed);
        // Untrusted and private together: rule L4.
        let both = world.send(&robot, labelled(json!(["untrusted", "private"]))).await.unwrap();
        assert_eq!(both.status, Status::Pending);
        let card = world.card(&ada, both.id).await;
        assert!(card.reasons.iter().any(|reason| reason.by.as_deref() == Some("L4")), "{:?}", card.reasons);
        assert!(card.person_required);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_may_carry_one_for_calls_like_it() {
    every_world(async |world| {
        let (ada, admin) = (world.person("ada", &[Role::Member]).await, world.person("root", &[Role::Admin]).await);
        let ben = world.person("ben", &[Role::Approver]).await;
        let call = world.park(&ada, "fetches", json!({"to": "us"})).await;
        let with = |more: Value| json!({"decision": "approve", "standing": more});
        let constraints = json!([{"pointer": "/to", "const": "us"}]);
        // Whoever decides may not therefore grant.
        assert_eq!(
            kind(world.decide(&ben, call, with(json!({"constraints": constraints}))).await),
            FaultKind::Forbidden
        );
        let named = json!({"constraints": constraints, "tool": "writes"});
        assert_eq!(kind(world.decide(&admin, call, with(named)).await), FaultKind::Invalid);
        assert_eq!(world.approval_of(call).await.state, ApprovalState::Open);
        let decided = world.decide(&admin, call, with(json!({"constraints": constraints, "uses": 1}))).await.unwrap();
        assert!(decided.standing.is_some());
        assert_eq!(world.sent(&ada, "fetches", json!({"to": "us"})).await.status, Status::Completed);
        assert_eq!(world.sent(&ada, "fetches", json!({"to": "us"})).await.status, Status::Pending);
        let cat = world.person("cat", &[Role::Member]).await;
        assert_eq!(world.sent(&cat, "fetches", json!({"to": "us"})).await.status, Status::Pending);
    })
    .await;
}
