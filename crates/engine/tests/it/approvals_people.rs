//! Who decides: several where several are asked, nobody who is too close, and always on what is stored.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_contracts::{ApprovalState, Caller, FaultKind, Permission, Permissions, Role, Status};
use toolgate_engine::approvals::Earlier;
use toolgate_store::Change;

use crate::approvals::kind;
use crate::world::{World, all, every_world, request, user_of};

impl World {
    /// A writing tool that asks so many of these.
    pub async fn careful(&self, need: u32, from: &[&str]) {
        let hitl = json!({"mode": "blocking", "approvers": {"need": need, "from": from}});
        self.publish("careful", json!({"egress_class": "write", "hitl": hitl})).await;
    }

    pub async fn set_roles(&self, caller: &Caller, roles: &[Role]) {
        let mut change = Change::new(self.tenant);
        change.set_roles(user_of(caller), roles);
        self.store.commit(change).await.unwrap();
    }

    async fn disable(&self, caller: &Caller) {
        let mut change = Change::new(self.tenant);
        change.set_disabled(user_of(caller), Some(self.clock.now()));
        self.store.commit(change).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_compares_with_the_very_same_caller_first_and_says_whose_call_it_was() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let eve = world.person("eve", &[Role::Member]).await;
        let (_, robot) = world.agent_of(&ada, "robot", json!({})).await;
        let (_, robot_of_eve) = world.agent_of(&eve, "robot", json!({})).await;
        let park = async |caller: &Caller, key: &str| {
            world.clock.advance(1);
            world.park(caller, "writes", json!({"key": key})).await
        };
        let by_ada = park(&ada, "ada").await;
        let by_robot = park(&robot, "robot").await;
        let by_eve = park(&eve, "eve").await;
        let by_robot_of_eve = park(&robot_of_eve, "robot of eve").await;
        let again_by_ada = park(&ada, "ada again").await;
        let again_by_robot = park(&robot, "robot again").await;
        // (the card, who looks, the call it is compared with: which, of the very same caller, by whom, as which agent)
        for (case, call, looks, before) in [
            ("nothing is there", by_ada, &ben, None),
            ("only the person's own, not as the agent", by_robot, &ben, None),
            ("only somebody else's", by_eve, &ben, None),
            ("the same agent for somebody else", by_robot_of_eve, &ben, Some((by_robot, false, "ada", Some("robot")))),
            ("which is not told to who merely asked", by_robot_of_eve, &eve, None),
            ("the same person, though the agent's is newer", again_by_ada, &ben, Some((by_ada, true, "ada", None))),
            ("both the same", again_by_robot, &ben, Some((by_robot, true, "ada", Some("robot")))),
            ("both the same, to who asked", again_by_ada, &ada, Some((by_ada, true, "ada", None))),
        ] {
            let earlier = world.card(looks, call).await.earlier;
            let found = earlier.as_ref().map(|earlier| {
                let Earlier { call_id, same_caller, principal_name, agent, .. } = earlier;
                (*call_id, *same_caller, principal_name.as_deref().unwrap_or_default(), agent.as_deref())
            });
            assert_eq!(found, before, "{case}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_different_people_as_are_asked_must_approve_and_one_may_reject() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let eve = world.person("eve", &[Role::Approver]).await;
        world.careful(2, &["role:approver"]).await;

        let call = world.park(&ada, "careful", json!({"key": "two"})).await;
        let first = world.approve(&ben, call).await.unwrap();
        assert_eq!((first.card.state, first.card.call_status), (ApprovalState::Open, Status::Pending));
        assert_eq!((first.card.need, first.card.votes.len()), (2, 1));
        // The same person again is one person, whatever key they show.
        let second_key = world.second_key(&ben).await;
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Conflict);
        assert_eq!(kind(world.approve(&second_key, call).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("two"), 0);
        let second = world.approve(&eve, call).await.unwrap();
        assert_eq!((second.card.state, second.card.call_status), (ApprovalState::Approved, Status::Completed));
        assert_eq!(world.runner.runs("two"), 1);

        // One reject rejects, also by somebody who approved and thought better of it.
        let call = world.park(&ada, "careful", json!({"key": "better"})).await;
        world.approve(&ben, call).await.unwrap();
        let rejected = world.reject(&ben, call, "I was wrong").await.unwrap();
        assert_eq!(rejected.card.call_status, Status::Rejected);
        assert_eq!(kind(world.approve(&eve, call).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("better"), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_votes_in_one_moment_are_both_counted() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let (ben, eve) = (world.person("ben", &[Role::Approver]).await, world.person("eve", &[Role::Approver]).await);
        world.careful(2, &[]).await;
        let other = world.replica().await;
        for round in 0..5 {
            let key = format!("both {round}");
            let call = world.park(&ada, "careful", json!({"key": key})).await;
            let engines = [(world.engine.clone(), ben.clone()), (other.engine.clone(), eve.clone())];
            let votes = engines.map(|(engine, voter)| async move {
                let choice = crate::approvals::choice(json!({"decision": "approve"}));
                Box::pin(engine.decide(&voter, &call.to_string(), choice, std::time::Duration::ZERO)).await
            });
            for vote in all(votes).await {
                vote.unwrap();
            }
            assert_eq!(world.ended(call).await.status, Status::Completed);
            assert_eq!(world.runner.runs(&key), 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_53_votes_of_one_person_in_two_roles_before_an_edit_or_of_somebody_gone_do_not_count() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let both = world.person("both", &[Role::Approver, Role::Admin]).await;
        let eve = world.person("eve", &[Role::Approver]).await;
        world.careful(2, &["role:approver", "role:admin"]).await;

        let call = world.park(&ada, "careful", json!({"key": "roles"})).await;
        world.approve(&both, call).await.unwrap();
        assert_eq!(kind(world.approve(&both, call).await), FaultKind::Conflict);
        assert_eq!(world.record(call).await.status, Status::Pending);

        // An edit begins anew: the vote before it was for something else.
        let edited =
            world.decide(&eve, call, json!({"decision": "approve", "input": {"key": "edited"}})).await.unwrap();
        assert_eq!((edited.card.round, edited.card.votes.len(), edited.card.state), (2, 1, ApprovalState::Open));
        assert_eq!(world.runner.runs("edited"), 0);
        // Nor does a decision on what was asked before it.
        let seen = |round: u32| json!({"decision": "approve", "round": round});
        let late = world.decide(&both, call, seen(1)).await.unwrap_err();
        assert_eq!((late.kind(), late.pointer()), (FaultKind::Conflict, Some("/round")));
        world.decide(&both, call, seen(2)).await.unwrap();
        assert_eq!((world.ended(call).await.status, world.runner.runs("edited")), (Status::Completed, 1));

        // Whoever is gone or lost the right has not voted.
        for case in ["gone", "demoted"] {
            let dan = world.person(case, &[Role::Approver]).await;
            let call = world.park(&ada, "careful", json!({"key": case})).await;
            world.approve(&dan, call).await.unwrap();
            match case {
                "gone" => world.disable(&dan).await,
                _ => world.set_roles(&dan, &[Role::Member]).await,
            }
            let after = world.approve(&eve, call).await.unwrap();
            assert_eq!((after.card.state, world.runner.runs(case)), (ApprovalState::Open, 0), "{case}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_decide_who_may() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let (agent, acting) = world.agent_of(&ben, "bens", json!({})).await;
        let viewer = world.person("vera", &[Role::Viewer]).await;
        let call = world.park(&ada, "writes", json!({})).await;
        // A key without the scope is a key without the right, whoever owns it.
        let narrow = Caller {
            permissions: ben
                .permissions
                .iter()
                .filter(|right| **right != Permission::APPROVALS_DECIDE)
                .cloned()
                .collect(),
            ..ben.clone()
        };
        let token = Caller {
            credential: toolgate_contracts::caller::Credential::Token(toolgate_contracts::Id::new(
                &world.clock,
                &world.rng,
            )),
            ..ben.clone()
        };
        let agents = Caller { agent: Some(agent.id), ..ben.clone() };
        for (who, caller, expected) in [
            ("its own caller", &ada, FaultKind::Forbidden),
            ("a narrow key", &narrow, FaultKind::Forbidden),
            ("a token", &token, FaultKind::Forbidden),
            ("an agent's key", &acting, FaultKind::NotFound),
            ("somebody who acts as an agent", &agents, FaultKind::NotFound),
            ("a viewer", &viewer, FaultKind::NotFound),
            ("a neighbour", &world.owner_next_door(), FaultKind::NotFound),
        ] {
            assert_eq!(kind(world.approve(caller, call).await), expected, "{who}");
            assert_eq!(kind(world.reject(caller, call, "no").await), expected, "{who}");
        }
        assert_eq!(world.record(call).await.status, Status::Pending);
        assert_eq!(world.runner.runs("writes"), 0);

        // Named approvers are the only ones.
        world.careful(1, &[&ben.principal.to_string()]).await;
        let eve = world.person("eve", &[Role::Approver, Role::Admin]).await;
        let call = world.park(&ada, "careful", json!({})).await;
        assert_eq!(kind(world.approve(&eve, call).await), FaultKind::Forbidden);
        assert_eq!(world.approve(&ben, call).await.unwrap().card.call_status, Status::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_presses_run_confirms_what_they_looked_at() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let at_browser = world.at_browser(&ada).await;
        let call = world.park(&at_browser, "writes", json!({"key": "own"})).await;
        let digest = world.card(&at_browser, call).await.input_digest;
        assert_eq!(kind(world.approve(&at_browser, call).await), FaultKind::Invalid);
        let other = json!({"decision": "approve", "input_digest": toolgate_contracts::Digest::of(b"other")});
        assert_eq!(kind(world.decide(&at_browser, call, other).await), FaultKind::Conflict);
        let confirm = json!({"decision": "approve", "input_digest": digest});
        // The same person's key is not a browser.
        assert_eq!(kind(world.decide(&ada, call, confirm.clone()).await), FaultKind::Forbidden);
        let decided = world.decide(&at_browser, call, confirm.clone()).await.unwrap();
        assert_eq!((decided.card.call_status, world.runner.runs("own")), (Status::Completed, 1));

        world.settings(|settings| settings.separation = true).await;
        let call = world.park(&at_browser, "writes", json!({"key": "own"})).await;
        assert_eq!(kind(world.decide(&at_browser, call, confirm).await), FaultKind::Forbidden);
        assert_eq!(world.runner.runs("own"), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_12_nobody_approves_what_is_their_own_where_asking_and_deciding_are_separated() {
    every_world(async |world| {
        world.settings(|settings| settings.separation = true).await;
        let (ada, ben) = (world.person("ada", &[Role::Admin]).await, world.person("ben", &[Role::Approver]).await);
        let second_key = world.second_key(&ada).await;
        let at_browser = world.at_browser(&ada).await;
        // Directly, and by one's second key.
        let call = world.park(&ada, "writes", json!({"key": "direct"})).await;
        for caller in [&ada, &second_key, &at_browser] {
            assert_eq!(kind(world.approve(caller, call).await), FaultKind::Forbidden);
        }
        assert_eq!(world.approve(&ben, call).await.unwrap().card.call_status, Status::Completed);

        // By one's own agent: its key is Ada's.
        let (_, acting) = world.agent_of(&ada, "adas", json!({})).await;
        let call = world.park(&acting, "writes", json!({"key": "agent"})).await;
        for caller in [&ada, &second_key, &acting] {
            world.approve(caller, call).await.unwrap_err();
        }
        // By editing, and then approving what one edited.
        let edit = json!({"decision": "approve", "input": {"key": "edited"}});
        let edited = world.decide(&ben, call, edit).await.unwrap();
        assert_eq!((edited.card.state, edited.card.edited_by), (ApprovalState::Open, Some(ben.principal.to_string())));
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Forbidden);
        assert_eq!((world.runner.runs("agent"), world.runner.runs("edited")), (0, 0));
        let eve = world.person("eve", &[Role::Approver]).await;
        assert_eq!(world.approve(&eve, call).await.unwrap().card.call_status, Status::Completed);
        assert_eq!((world.runner.runs("agent"), world.runner.runs("edited")), (0, 1));

        // Switched on while it waits, it holds too.
        world.settings(|settings| settings.separation = false).await;
        let call = world.park(&ada, "writes", json!({"key": "late"})).await;
        world.settings(|settings| settings.separation = true).await;
        assert_eq!(kind(world.approve(&ada, call).await), FaultKind::Forbidden);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wrote_a_tool_does_not_decide_on_its_calls() {
    every_world(async |world| {
        world.settings(|settings| settings.separation = true).await;
        let (ada, ben) = world.two().await;
        let author = world.person("author", &[Role::Admin]).await;
        let definition = json!({
            "name": "theirs", "version": "1.0.0", "egress_class": "write", "runner": {"kind": "external"},
            "description": "Carried out elsewhere. Use it in tests of the path. Do not use it for anything else.",
            "input_schema": {"type": "object"},
        });
        let submitted = toolgate_registry::commands::Submitted::Json(definition.to_string().into_bytes());
        world.registry.register(&author, &submitted, true).await.unwrap();
        let call = world.park(&ada, "theirs", json!({})).await;
        assert_eq!(kind(world.approve(&author, call).await), FaultKind::Forbidden);
        let decided = world
            .engine
            .decide(
                &ben,
                &call.to_string(),
                crate::approvals::choice(json!({"decision": "approve"})),
                std::time::Duration::ZERO,
            )
            .await
            .unwrap();
        assert_eq!(decided.card.state, ApprovalState::Approved);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_keeps_what_was_asked_what_was_decided_and_what_ran_apart() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let asked = json!({"key": "asked", "value": {"to": "all"}, "note": null});
        let call = world.park(&ada, "writes", asked.clone()).await;
        let before = world.record(call).await;
        // Nulls are values: an edit that sets one is not dropped.
        let edited = json!({"key": "edited", "value": {"to": null}});
        let choice = json!({"decision": "approve", "input": edited, "reason": "only them"});
        let decided = world.decide(&ben, call, choice).await.unwrap();
        assert_eq!((decided.card.state, decided.card.call_status), (ApprovalState::Approved, Status::Completed));
        assert_eq!((decided.card.proposed_input, decided.card.input), (Some(asked.clone()), Some(edited.clone())));
        let record = world.record(call).await;
        assert_eq!((&record.proposed_input, &record.input), (&Some(asked), &Some(edited)));
        assert_eq!(record.output, Some(json!({"to": null})));
        assert_eq!(record.call_id, before.call_id, "an edited call keeps the id of the proposal");
        assert_eq!((world.runner.runs("asked"), world.runner.runs("edited")), (0, 1));
        let actions = world.actions(call).await;
        assert!(actions.contains(&"approval.edited".to_owned()), "{actions:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_judged_like_a_new_input_and_cannot_name_another_tool() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["n"],
            "properties": {
                "n": {"type": "integer", "description": "A number.", "minimum": 0},
                "unit": {"type": "string", "description": "Its unit.", "default": "m"},
            },
        });
        world.publish("measured", json!({"egress_class": "write", "input_schema": schema})).await;
        let constraints = json!([{"pointer": "/n", "max": 10}]);
        world.profile(json!({"name": "tight", "constraints": constraints})).await;
        let (_, acting) = world.agent_of(&ada, "tight", json!({"profile": "tight"})).await;
        let call = world.park(&acting, "measured", json!({"n": 1})).await;
        let edits: [(&str, Value); 4] = [
            ("the schema", json!({"n": -1})),
            ("a member of another tool", json!({"n": 1, "to": "all"})),
            ("the profile", json!({"n": 11})),
            ("a number that is not read alike", json!({"n": 9_007_199_254_740_993_i64})),
        ];
        for (what, input) in edits {
            let refused = world.decide(&ben, call, json!({"decision": "approve", "input": input})).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Invalid, "{what}");
            if what == "the schema" {
                // Where it lies, for a form.
                assert_eq!(refused.details().unwrap()["violations"][0]["pointer"], "/n");
            }
            let record = world.record(call).await;
            assert_eq!((record.status, record.proposed_input), (Status::Pending, None), "{what}");
        }
        // There is no word for another tool.
        let forged = json!({"decision": "approve", "tool": "writes", "input": {"n": 2}});
        assert!(serde_json::from_value::<toolgate_engine::approvals::Choice>(forged).is_err());
        // Defaults are filled before it is decided on.
        let decided = world.decide(&ben, call, json!({"decision": "approve", "input": {"n": 2}})).await.unwrap();
        assert_eq!(decided.card.input, Some(json!({"n": 2, "unit": "m"})));
        assert_eq!(decided.card.call_status, Status::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_are_decided_at_once_if_they_are_alike_and_not_critical() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.publish("mild", json!({"egress_class": "read_only", "requires_approval": true})).await;
        let mut ids = Vec::new();
        for n in 0..3 {
            ids.push(world.park(&ada, "mild", json!({"key": format!("bulk {n}")})).await.to_string());
        }
        let other = world.park(&ada, "asking", json!({})).await.to_string();
        let critical = world.park(&ada, "writes", json!({})).await.to_string();
        let approve = crate::approvals::choice(json!({"decision": "approve"}));
        let decide = async |ids: &[String], choice| world.engine.decide_all(&ben, ids, &BTreeMap::new(), choice).await;
        let mixed = [ids[0].clone(), other.clone()];
        assert_eq!(kind(decide(&mixed, &approve).await), FaultKind::Invalid);
        let standing = json!({"decision": "approve", "standing": {"constraints": [{"pointer": "/a", "const": 1}]}});
        let standing = crate::approvals::choice(standing);
        assert_eq!(kind(decide(&ids, &standing).await), FaultKind::Invalid);
        let refused = decide(std::slice::from_ref(&critical), &approve).await.unwrap();
        assert!(refused[0].refused.as_ref().unwrap().contains("critical"), "{refused:?}");

        let unknown = toolgate_contracts::CallId::new(&world.clock, &world.rng).to_string();
        let mut asked = ids.clone();
        asked.push(unknown);
        let answers = decide(&asked, &approve).await.unwrap();
        let approved = answers.iter().filter(|answer| answer.state == Some(ApprovalState::Approved)).count();
        assert_eq!((approved, answers[3].state, answers[3].refused.is_some()), (3, None, true));
        for id in &ids {
            assert_eq!(world.ended(id.parse().unwrap()).await.status, Status::Completed);
        }
        assert_eq!(world.count("grants").await, 3, "one for each call, none that stands");
        // Rejecting is possible across tools.
        let reject = crate::approvals::choice(json!({"decision": "reject", "reason": "not today"}));
        let answers = decide(&[other, critical], &reject).await.unwrap();
        assert!(answers.iter().all(|answer| answer.state == Some(ApprovalState::Rejected)), "{answers:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_critical_needs_a_fresh_sign_in_where_the_tenant_says_so() {
    every_world(async |world| {
        world.settings(|settings| settings.step_up_critical = true).await;
        let (ada, ben) = world.two().await;
        let fresh = world.at_browser(&ben).await;
        let call = world.park(&ada, "writes", json!({})).await;
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Forbidden);
        world.clock.advance(6 * 60);
        assert_eq!(kind(world.approve(&fresh, call).await), FaultKind::Forbidden);
        let fresh = world.at_browser(&ben).await;
        assert_eq!(world.approve(&fresh, call).await.unwrap().card.call_status, Status::Completed);
        let mild = world.park(&ada, "asking", json!({})).await;
        assert_eq!(world.approve(&ben, mild).await.unwrap().card.call_status, Status::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sees_what_concerns_them() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let cat = world.person("cat", &[Role::Member]).await;
        let filter = toolgate_store::approvals::ApprovalFilter::default();
        let ours = world.park(&ada, "writes", json!({})).await;
        let theirs = world.park(&cat, "writes", json!({})).await;
        let (_, acting) = world.agent_of(&ada, "hers", json!({})).await;
        let by_agent = world.park(&acting, "writes", json!({})).await;
        let seen = async |caller: &Caller| {
            let page = world.engine.list_approvals(caller, &filter, None, 50).await.unwrap();
            let mut calls: Vec<_> = page.items.iter().map(|card| card.call_id).collect();
            calls.sort();
            let count = world.engine.count_approvals(caller, &filter).await.unwrap();
            assert_eq!(count as usize, calls.len());
            calls
        };
        let mut everything = vec![ours, theirs, by_agent];
        everything.sort();
        assert_eq!(seen(&ben).await, everything);
        assert_eq!(seen(&world.owner()).await, everything);
        assert_eq!(seen(&cat).await, [theirs]);
        assert_eq!(seen(&acting).await, [by_agent]);
        assert_eq!(seen(&world.owner_next_door()).await, []);
        let nobody = Caller { permissions: Permissions::default(), ..cat };
        assert_eq!(kind(world.engine.list_approvals(&nobody, &filter, None, 50).await), FaultKind::Forbidden);
        // Page by page, each once.
        let mut cursor = None;
        let mut pages = Vec::new();
        loop {
            let page = world.engine.list_approvals(&ben, &filter, cursor.as_deref(), 1).await.unwrap();
            pages.extend(page.items.iter().map(|card| card.call_id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        pages.sort();
        assert_eq!(pages, everything);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_told_outside_when_something_waits_and_when_it_is_decided() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.engine.send_mail(true);
        let before = world.count("deliveries").await;
        let call = world.park(&ada, "writes", json!({"to": "nobody-should-read-this"})).await;
        assert_eq!(world.count("deliveries").await, before + 1);
        world.clock.advance(23 * 60 * 60 + 1);
        world
            .in_background_until("they are reminded", async || world.approval_of(call).await.remind_at.is_none())
            .await;
        assert_eq!(world.count("deliveries").await, before + 2, "reminded once");
        let rows = world
            .store
            .query(
                &toolgate_store::Scope::Tenant(world.tenant),
                "SELECT event_type, body FROM deliveries WHERE tenant_id = $1 ORDER BY id",
                vec![],
            )
            .await
            .unwrap();
        let told: Vec<(String, String)> = rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
        let kinds: Vec<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["approval.requested", "approval.reminder"]);
        assert!(told.iter().all(|(_, body)| !body.contains("nobody-should-read-this")));
        assert_eq!(world.approve(&ben, call).await.unwrap().card.call_status, Status::Completed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_the_last_of_its_people_and_goes_on() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let run = world.run(&ada, json!({})).await.id;
        let first = world.park_in(&ada, run, "writes", json!({"key": "first"})).await;
        let second = world.park_in(&ada, run, "writes", json!({"key": "second"})).await;
        // What needs nobody goes on meanwhile.
        let meanwhile = request("script", json!({}), |call| call.run_id = Some(run));
        assert_eq!(world.send(&ada, meanwhile).await.unwrap().status, Status::Completed);
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::WaitingHuman);
        world.approve(&ben, first).await.unwrap();
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::WaitingHuman);
        world.reject(&ben, second, "one is enough").await.unwrap();
        assert_eq!(world.run_state(run).await, toolgate_contracts::call::RunState::Running);
        let types = world.event_types(run).await;
        assert_eq!(types.iter().filter(|kind| **kind == "run.waiting").count(), 1);
        assert_eq!(types.iter().filter(|kind| **kind == "run.resumed").count(), 1);

        // A batch parks each by itself; one rejection is no failure of the others.
        let batch = (0..3).map(|n| {
            request("writes", json!({"key": format!("batch {n}")}), |call| {
                call.run_id = Some(run);
                call.wait = Some(0);
            })
        });
        let answers = world.engine.submit_all(&ada, toolgate_contracts::Source::Api, batch.collect()).await.unwrap();
        let calls: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().id).collect();
        world.reject(&ben, calls[1], "not this one").await.unwrap();
        world.approve(&ben, calls[2]).await.unwrap();
        world.approve(&ben, calls[0]).await.unwrap();
        let ran: Vec<u32> = (0..3).map(|n| world.runner.runs(&format!("batch {n}"))).collect();
        assert_eq!(ran, [1, 0, 1]);

        // With the run ends what it waits for.
        let last = world.park_in(&ada, run, "writes", json!({"key": "last"})).await;
        world.engine.end_run(&ada, run, toolgate_contracts::call::RunState::Completed, None).await.unwrap();
        assert_eq!(world.record(last).await.status, Status::Cancelled);
        assert_eq!(world.approval_of(last).await.state, ApprovalState::Cancelled);
        assert_eq!(kind(world.approve(&ben, last).await), FaultKind::Conflict);
        assert_eq!(world.runner.runs("last"), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_ask_people_only_so_often() {
    every_world(async |world| {
        let (ada, _) = world.two().await;
        world.settings(|settings| settings.asks_per_run_max = 2).await;
        let run = world.run(&ada, json!({})).await.id;
        for n in 0..2 {
            world.park_in(&ada, run, "writes", json!({"n": n})).await;
        }
        let third = request("writes", json!({"n": 3}), |call| {
            call.run_id = Some(run);
            call.wait = Some(0);
        });
        let refused = world.send(&ada, third).await.unwrap();
        assert_eq!(refused.status, Status::Failed);
        assert_eq!(crate::world::error(&refused), (toolgate_contracts::ErrorCode::RateLimit, "asks"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_call_runs_elsewhere_once_it_is_approved() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.external("outside", false, json!({"requires_approval": true})).await;
        let recorded = request("outside", json!({}), |call| call.mode = toolgate_contracts::Mode::Record);
        let envelope = world.send(&ada, recorded).await.unwrap();
        assert_eq!(envelope.status, Status::Pending);
        let report = || serde_json::from_value(json!({"status": "completed", "output": {"done": true}})).unwrap();
        let id = envelope.id.to_string();
        // Told nothing yet: a completion now is refused.
        assert_eq!(kind(world.engine.complete_recorded(&ada, &id, report()).await), FaultKind::Conflict);
        let decided = world
            .engine
            .decide(
                &ben,
                &id,
                crate::approvals::choice(json!({"decision": "approve"})),
                std::time::Duration::from_millis(1500),
            )
            .await
            .unwrap();
        assert_eq!(decided.card.state, ApprovalState::Approved);
        crate::world::eventually("it is told to go ahead", async || {
            world.record(envelope.id).await.status == Status::Running
        })
        .await;
        assert_eq!(kind(world.engine.complete_recorded(&ben, &id, report()).await), FaultKind::Conflict);
        let done = world.engine.complete_recorded(&ada, &id, report()).await.unwrap();
        assert_eq!((done.status, done.output), (Status::Completed, Some(json!({"done": true}))));
    })
    .await;
}
