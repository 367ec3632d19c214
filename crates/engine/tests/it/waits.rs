//! Calls that wait, at their edges: whose agent acts when the wait is over, what whoever reads them takes on, how many may
//! wait, what an edit binds, and what ends with them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{
    ApprovalState, CallId, CallRequest, Caller, Digest, ErrorCode, FaultKind, Id, Mode, Role, Status,
};
use toolgate_engine::approvals::PENDING_APPROVALS_PER_CALLER_MAX;
use toolgate_engine::runs::NewRun;
use toolgate_store::Change;
use toolgate_store::approvals::{ApprovalFilter, Due};
use toolgate_store::people::Workspace;

use crate::approvals::{choice, kind};
use crate::world::{World, error, every_world, request};

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

fn labels_of(labels: &[Label]) -> Vec<&str> {
    labels.iter().map(|label| label.as_str()).collect()
}

impl World {
    /// A run under another.
    async fn run_below(&self, caller: &Caller, parent: toolgate_contracts::RunId) -> toolgate_contracts::RunId {
        let new = NewRun { parent_run_id: Some(parent), ..NewRun::default() };
        self.engine.open_run(caller, new).await.unwrap().id
    }

    async fn reads_nothing_out(&self, caller: &Caller, expected: Status, how: &str) {
        let sent = self.send(caller, request("sends", json!({}), |call| call.wait = Some(0))).await.unwrap();
        assert_eq!(sent.status, expected, "{how}");
    }
}

/// Security test 13: whoever named an agent must still manage it when the call runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_13_who_lost_the_agent_they_named_does_not_act_as_it_after_the_wait() {
    every_world(async |world| {
        let ben = world.person("ben", &[Role::Approver]).await;
        let ada = world.person("ada", &[Role::Author]).await;
        let (robot, acting) = world.agent_of(&ada, "robot", json!({})).await;
        let run = NewRun { agent: Some("robot".to_owned()), ..NewRun::default() };
        let run = world.engine.open_run(&ada, run).await.unwrap().id;
        let ask = async |caller: &Caller, key: &str, named: bool, in_run: bool| {
            let asked = request("writes", json!({"key": key}), |call| {
                call.agent_id = named.then(|| "robot".to_owned());
                call.run_id = in_run.then_some(run);
                call.wait = Some(0);
            });
            let call = world.send(caller, asked).await.unwrap();
            assert_eq!((call.status, world.record(call.id).await.agent), (Status::Pending, Some(robot.id)), "{key}");
            call.id
        };
        // (case, who asks, whether the agent is named, in its run)
        let cases =
            [("named", &ada, true, false), ("by credential", &acting, false, false), ("by run", &ada, false, true)];
        for (case, caller, named, in_run) in cases {
            let call = ask(caller, case, named, in_run).await;
            world.approve(&ben, call).await.unwrap();
            assert_eq!((world.ended(call).await.status, world.runner.runs(case)), (Status::Completed, 1), "{case}");
        }
        // Without `agents.manage` the name is no right any more; the agent's own key and one's own run still are.
        let mut waiting = Vec::new();
        for (case, caller, named, in_run) in cases {
            waiting.push((case, ask(caller, &format!("{case} later"), named, in_run).await));
        }
        world.set_roles(&ada, &[Role::Member]).await;
        for (case, call) in waiting {
            let _ = world.approve(&ben, call).await;
            let record = world.ended(call).await;
            let runs = world.runner.runs(&format!("{case} later"));
            if case == "named" {
                let told = record.error.unwrap();
                assert_eq!((record.status, told.reason(), runs), (Status::Rejected, "permission", 0), "{case}");
                assert!(told.message.contains("act as the agent robot"), "{}", told.message);
            } else {
                assert_eq!((record.status, runs), (Status::Completed, 1), "{case}");
            }
        }
    })
    .await;
}

/// Security test 46: an input is read like a result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_an_input_that_waits_takes_on_its_labels() {
    every_world(async |world| {
        world.with_ways_out().await;
        let ada = world.person("ada", &[Role::Admin]).await;
        world.call_as(&ada, "papers", json!({})).await;
        let labelled = world.park(&ada, "asking", json!({"text": "of private papers"})).await;
        world.clock.advance(1);
        let clean = world.second_key(&ada).await;
        let later = world.park(&clean, "asking", json!({"text": "of nothing"})).await;
        assert_eq!(labels_of(&world.card(&world.at_browser(&ada).await, labelled).await.labels), ["private"]);
        let open = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
        for (how, expected) in [
            ("nothing", Status::Completed),
            ("a card without labels", Status::Completed),
            ("the card", Status::Pending),
            ("the list", Status::Pending),
            ("the pending call", Status::Pending),
            ("the records", Status::Pending),
            ("the call before", Status::Pending),
        ] {
            let reader = world.second_key(&ada).await;
            world.call_as(&reader, "web", json!({})).await;
            let engine = &world.engine;
            match how {
                "the card" => drop(world.card(&reader, labelled).await),
                "the list" => drop(engine.list_approvals(&reader, &open, None, 10).await.unwrap()),
                "the pending call" => drop(engine.readable(&reader, &labelled.to_string()).await.unwrap()),
                "the records" => {
                    let filter = toolgate_store::calls::CallFilter::default();
                    drop(engine.list_records(&reader, &filter, &[Status::Pending], None, 10).await.unwrap());
                }
                "the call before" => {
                    let card = world.card(&reader, later).await;
                    assert!(card.labels.is_empty() && card.earlier.unwrap().call_id == labelled);
                }
                "a card without labels" => {
                    drop(engine.readable(&reader, &later.to_string()).await.unwrap());
                }
                _ => {}
            }
            world.reads_nothing_out(&reader, expected, how).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_goes_on_behind_the_last_and_begins_anew() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        world.settings(|settings| settings.approval_expires_s = 600).await;
        let mut calls = Vec::new();
        for n in 0..5 {
            calls.push(world.park(&ada, "writes", json!({"key": format!("due {n}")})).await);
            // Some in the same moment.
            world.clock.advance(n % 2);
        }
        world.clock.advance(1000);
        let now = world.clock.now();
        for due in [Due::Over, Due::Reminder] {
            let mut taken = Vec::new();
            let mut after = None;
            for (round, expected) in [2, 2, 1, 0].into_iter().enumerate() {
                let page = world.store.due_approvals(due, now, after, 2).await.unwrap();
                assert_eq!(page.len(), expected, "{due:?} {round}");
                after = page.last().copied().or(after);
                taken.extend(page.into_iter().map(|due| due.id));
            }
            let mut expected = Vec::new();
            for call in &calls {
                expected.push(world.approval_of(*call).await.id);
            }
            taken.sort_unstable();
            expected.sort_unstable();
            assert_eq!(taken, expected, "each of them once");
            assert_eq!(world.store.due_approvals(due, now, None, 2).await.unwrap().len(), 2, "it begins anew");
        }
        let mut change = Change::new(world.tenant);
        change.then(
            "UPDATE calls SET status = 'approved', approval_status = 'approved', approval_decided_by = 'user:x'
             WHERE tenant_id = $1 AND status = 'pending'",
            [],
        );
        world.store.commit(change).await.unwrap();
        let mut after = None;
        for call in &calls {
            let page = world.store.approved_calls(after, 1).await.unwrap();
            assert_eq!(page, [(world.tenant, *call)]);
            after = Some(*call);
        }
        assert!(world.store.approved_calls(after, 1).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_below_a_run_ends_with_it() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        for (ended, expected) in [(1, [false, true, true, false]), (0, [true, true, true, true])] {
            let root = world.run(&ada, json!({"max_depth": 5})).await.id;
            let middle = world.run_below(&ada, root).await;
            let low = world.run_below(&ada, middle).await;
            let beside = world.run_below(&ada, root).await;
            let runs = [root, middle, low, beside];
            let mut calls = Vec::new();
            for run in runs {
                calls.push(world.park_in(&ada, run, "writes", json!({})).await);
            }
            world.engine.end_run(&ada, runs[ended], RunState::Completed, None).await.unwrap();
            for ((place, call), cancelled) in calls.iter().enumerate().zip(expected) {
                let status = if cancelled { Status::Cancelled } else { Status::Pending };
                assert_eq!(world.record(*call).await.status, status, "ended {ended}, looked at {place}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_are_approved_at_once_only_to_one_destination() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let url = json!({"type": "string", "format": "uri", "description": "Where to."});
        let schema = json!({"type": "object", "properties": {"url": url}});
        let posts = json!({"egress_class": "read_only", "requires_approval": true, "input_schema": schema});
        world.publish("posts", posts).await;
        let park = async |input: Value| world.park(&ada, "posts", input).await.to_string();
        let here =
            [park(json!({"url": "https://a.example/1"})).await, park(json!({"url": "https://a.example/2"})).await];
        let there = park(json!({"url": "https://b.example/"})).await;
        let nowhere = park(json!({})).await;
        let approve = choice(json!({"decision": "approve"}));
        for (other, told) in [(&there, "a.example, b.example"), (&nowhere, "somewhere unknown, a.example")] {
            let ids = [here[0].clone(), other.clone()];
            let fault = world.engine.decide_all(&ben, &ids, &BTreeMap::new(), &approve).await.unwrap_err();
            assert_eq!(fault.kind(), FaultKind::Invalid);
            assert!(
                fault.told().contains("2 different destinations") && fault.told().contains(told),
                "{}",
                fault.told()
            );
        }
        // What somebody looked at, and what it is by now.
        let other = BTreeMap::from([(here[0].clone(), Digest::of(b"another input"))]);
        let answers = world.engine.decide_all(&ben, &here[..1], &other, &approve).await.unwrap();
        assert!(answers[0].refused.as_deref().is_some_and(|told| told.contains("another one by now")), "{answers:?}");
        let answers = world.engine.decide_all(&ben, &here, &BTreeMap::new(), &approve).await.unwrap();
        assert!(answers.iter().all(|answer| answer.state == Some(ApprovalState::Approved)), "{answers:?}");
        // Rejecting them together harms nobody.
        let reject = choice(json!({"decision": "reject", "reason": "no"}));
        let answers = world.engine.decide_all(&ben, &[there, nowhere], &BTreeMap::new(), &reject).await.unwrap();
        assert!(answers.iter().all(|answer| answer.state == Some(ApprovalState::Rejected)), "{answers:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_request_gave_holds_after_the_wait() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let asked = request("asking", json!({"act": "hang"}), |call| {
            call.timeout_ms = Some(60);
            call.wait = Some(0);
        });
        let call = world.send(&ada, asked).await.unwrap().id;
        world.approve(&ben, call).await.unwrap();
        let told = world.ended(call).await.error.unwrap();
        assert_eq!((told.code, told.reason()), (ErrorCode::Timeout, "timeout"));
        assert_eq!(told.details.unwrap()["timeout_ms"], 60);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_binds_what_was_judged_and_waits_for_another_where_deciding_is_separated() {
    every_world(async |world| {
        world.with_ways_out().await;
        let (ada, ben) = world.two().await;
        let eve = world.person("eve", &[Role::Approver]).await;
        world.settings(|settings| settings.separation = true).await;
        let call = world.park(&ada, "asking", json!({"key": "before"})).await;
        let before = world.approval_of(call).await.binding;
        assert!(before.labels.is_empty());
        // What is known and what holds has changed since it was asked.
        world.call_as(&ada, "papers", json!({})).await;
        let revision = world.policies("").await;
        let edited = world.decide(&ben, call, json!({"decision": "approve", "input": {"key": "after"}})).await.unwrap();
        assert_eq!((edited.card.state, edited.card.round, edited.card.approved), (ApprovalState::Open, 2, 0));
        assert!(edited.wanted.as_deref().unwrap().contains("another person"), "{:?}", edited.wanted);
        assert_eq!(labels_of(&edited.card.labels), ["private"]);
        let binding = world.approval_of(call).await.binding;
        assert_eq!((labels_of(&binding.labels), binding.policy_revision), (vec!["private"], revision));
        assert_ne!(binding.input_digest, before.input_digest);
        let record = world.record(call).await;
        assert_eq!((labels_of(&record.labels), record.policy_revision), (vec!["private"], revision));
        // Whoever edited does not approve it; somebody else does, and then nothing more is wanted.
        assert_eq!(kind(world.approve(&ben, call).await), FaultKind::Forbidden);
        let decided = world.approve(&eve, call).await.unwrap();
        assert_eq!((decided.card.call_status, decided.wanted), (Status::Completed, None));
        assert_eq!((world.runner.runs("before"), world.runner.runs("after")), (0, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_counts_the_votes_of_those_who_may_still_decide() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let eve = world.person("eve", &[Role::Approver]).await;
        world.careful(3, &["role:approver"]).await;
        let call = world.park(&ada, "careful", json!({})).await;
        for voter in [&ben, &eve] {
            world.approve(voter, call).await.unwrap();
        }
        assert_eq!(world.card(&ben, call).await.approved, 2);
        world.set_roles(&eve, &[Role::Member]).await;
        let card = world.card(&ben, call).await;
        let counts: Vec<_> = card.votes.iter().map(|vote| (vote.voter.clone(), vote.counts)).collect();
        assert_eq!(card.approved, 1);
        assert!(counts.contains(&(ben.principal.to_string(), true)), "{counts:?}");
        assert!(counts.contains(&(eve.principal.to_string(), false)), "{counts:?}");
    })
    .await;
}

/// What would happen, and what a probe says has happened, is read like any output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_and_the_answers_of_probes_are_looked_at_and_capped() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let dry = async |tool: &str, input: Value| {
            world.send(&ada, request(tool, input, |call| call.mode = Mode::DryRun)).await.unwrap()
        };
        let long = "x".repeat(5000);
        let capped = dry("small", json!({"text": long})).await;
        assert_eq!((capped.status, capped.truncated, capped.attachments.len()), (Status::Completed, true, 1));
        assert!(capped.output.unwrap().to_string().len() <= 1000);
        assert!(!dry("small", json!({"text": "x"})).await.truncated);

        // As it is said, (what is kept, whether it was cut).
        let probed = async |output: Value| {
            let input = json!({"act": "unknown", "happened": true, "probed": output});
            let call = world.call("small_probed", input).await;
            assert_eq!(call.status, Status::OutcomeUnknown);
            world.engine.probe(world.tenant, &world.record(call.id).await).await.unwrap();
            world.ended(call.id).await
        };
        world
            .publish("small_probed", json!({"changes_state": true, "verify": "probe", "max_output_bytes": 1000}))
            .await;
        let found = probed(json!({"found": 1})).await;
        assert_eq!(
            (found.status, found.output, found.truncated),
            (Status::Completed, Some(json!({"found": 1})), false)
        );
        let cut = probed(json!({"found": long})).await;
        assert_eq!((cut.status, cut.truncated, cut.attachments.len()), (Status::Completed, true, 1));

        let look = json!({"kind": "builtin", "name": "secrets"});
        let guardrail = json!({
            "name": "leaks", "stage": "TOOL_RESULT", "detector": look, "on_match": "tripwire",
            "tools": ["script", "small_probed"],
        });
        world.guardrail(guardrail).await;
        let planned = dry("script", json!({"text": KEY})).await;
        assert_eq!(error(&planned), (ErrorCode::PolicyDenied, "result_withheld"));
        assert_eq!(planned.output, None);
        let withheld = probed(json!({"found": KEY})).await;
        assert_eq!((withheld.status, withheld.output), (Status::Completed, None));
        assert_eq!(withheld.error.unwrap().reason(), "result_withheld");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_runs_may_not_ask_without_end() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let ask = request("asking", json!({}), |call| call.wait = Some(0));
        let most = PENDING_APPROVALS_PER_CALLER_MAX as usize;
        let mut last = None;
        for _ in 0..most / 100 {
            for answer in world.at_once(&ada, 100, &ask).await {
                let answer = answer.unwrap();
                assert_eq!(answer.status, Status::Pending);
                last = Some(answer.id);
            }
        }
        let run = world.run(&ada, json!({})).await.id;
        for in_run in [None, Some(run)] {
            let refused = world.send(&ada, CallRequest { run_id: in_run, ..ask.clone() }).await.unwrap();
            assert_eq!(error(&refused), (ErrorCode::RateLimit, "asks"));
            let told = refused.error.unwrap();
            assert!(told.message.contains("PENDING_APPROVALS_PER_CALLER_MAX"), "{}", told.message);
            assert!(told.message.contains("toolgate calls cancel"), "{}", told.message);
        }
        // It is hers, and there is a place again when one is gone.
        world.park(&ben, "asking", json!({})).await;
        world.engine.cancel(&ada, &last.unwrap().to_string()).await.unwrap();
        world.park(&ada, "asking", json!({})).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standing_grants_are_seen_in_their_workspace() {
    every_world(async |world| {
        let (admin, ben) = (world.person("ada", &[Role::Admin]).await, world.person("ben", &[Role::Approver]).await);
        world.agent_of(&admin, "robot", json!({})).await;
        let new = json!({"tool": "fetches", "agent": "robot", "constraints": [{"pointer": "/to", "const": "us"}]});
        let here = world.engine.create_standing(&admin, serde_json::from_value(new).unwrap()).await.unwrap().id;
        let kept = world.store.grant(world.tenant, here).await.unwrap().unwrap();
        let elsewhere = Workspace {
            id: Id::new(&world.clock, &world.rng),
            slug: "elsewhere".parse().unwrap(),
            name: "Elsewhere".to_owned(),
            created_at: world.clock.now(),
        };
        let mut change = Change::new(world.tenant);
        change.insert_workspace(&elsewhere);
        let mut insert = |workspace, issued_by: &Caller| {
            let id = Id::new(&world.clock, &world.rng);
            let issued_by = issued_by.principal.to_string();
            change.insert_grant(&toolgate_store::grants::Grant { id, workspace, issued_by, ..kept.clone() });
            id
        };
        let there = insert(Some(elsewhere.id), &admin);
        let (everywhere, own) = (insert(None, &admin), insert(Some(elsewhere.id), &ben));
        world.store.commit(change).await.unwrap();
        for (who, caller, expected) in
            [("a member", &ben, vec![here, everywhere, own]), ("an admin", &admin, vec![here, there, everywhere, own])]
        {
            let mut seen = Vec::new();
            let mut cursor = None;
            loop {
                let page = world.engine.list_standing(caller, cursor.as_deref(), 2).await.unwrap();
                seen.extend(page.items.iter().map(|grant| grant.id));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            seen.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(seen, expected, "{who}");
        }
        // Nor is one taken back that is not seen.
        let mut rights = ben.clone();
        rights.permissions =
            [ben.permissions.clone(), std::iter::once(toolgate_contracts::Permission::GRANTS_STANDING).collect()]
                .iter()
                .flat_map(|rights| rights.iter().cloned())
                .collect();
        assert_eq!(kind(world.engine.revoke_standing(&rights, there).await), FaultKind::NotFound);
        world.engine.revoke_standing(&rights, here).await.unwrap();
    })
    .await;
}

/// An approver is named by id: a name can be given to somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approver_is_named_by_id() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let call = async |tool: &str, from: &str| -> CallId {
            let hitl = json!({"mode": "blocking", "approvers": {"need": 1, "from": [from]}});
            world.publish(tool, json!({"egress_class": "write", "hitl": hitl})).await;
            world.park(&ada, tool, json!({})).await
        };
        let by_name = call("by_name", "user:ben").await;
        assert_eq!(kind(world.approve(&ben, by_name).await), FaultKind::Forbidden);
        // Somebody is called like the id of another.
        let id = ben.principal.to_string();
        let alike = world.person(id.strip_prefix("user:").unwrap(), &[Role::Approver]).await;
        let by_id = call("by_id", &id).await;
        assert_eq!(kind(world.approve(&alike, by_id).await), FaultKind::Forbidden);
        assert_eq!(world.approve(&ben, by_id).await.unwrap().card.call_status, Status::Completed);
    })
    .await;
}
