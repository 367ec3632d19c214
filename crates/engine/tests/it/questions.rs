//! Questions to people: who asks, who answers, what waits meanwhile, and that one answer counts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_contracts::call::RunState;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::input_request::{QUESTION_S_MAX, QUESTIONS_OPEN_MAX};
use toolgate_contracts::token::HeldToken;
use toolgate_contracts::{
    Caller, Fault, FaultKind, Id, InputRequest, InputRequestId, InputRequestState as State, NewQuestion, Permissions,
    Role, RunId, Status,
};
use toolgate_engine::runs::NewRun;
use toolgate_registry::commands::Target;
use toolgate_store::waits::OpenWaits;

use crate::world::{World, all, eventually, every_world, request};

fn question(more: Value) -> NewQuestion {
    let mut question = json!({
        "title": "Which lamp?",
        "instructions": "The customer has two.",
        "schema": {
            "type": "object", "additionalProperties": false, "required": ["lamp"],
            "properties": {
                "lamp": {"type": "string", "enum": ["hall", "desk"]},
                "count": {"type": "integer", "minimum": 1, "default": 1},
            },
        },
    });
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(question).unwrap()
}

impl World {
    async fn ask(&self, caller: &Caller, run: RunId) -> InputRequest {
        self.engine.ask(caller, run, question(json!({}))).await.unwrap()
    }

    async fn answer(&self, caller: &Caller, id: InputRequestId, answer: Value) -> Result<InputRequest, Fault> {
        self.engine.answer_question(caller, id, answer).await
    }

    async fn state(&self, run: RunId) -> RunState {
        self.store.run(self.tenant, run).await.unwrap().unwrap().state
    }

    async fn closed(&self, id: InputRequestId) -> InputRequest {
        self.store.question(self.tenant, id).await.unwrap().unwrap().request
    }
}

fn kind<T>(result: Result<T, Fault>) -> FaultKind {
    result.err().unwrap_or_else(|| panic!("not refused")).kind()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_asks_waits_and_goes_on() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let asked = world.ask(&owner, run).await;
        assert_eq!((asked.state, asked.answer.as_ref(), asked.run_id), (State::Open, None, run));
        assert_eq!(asked.expires_at, world.clock.now().plus_seconds(86_400));
        assert_eq!(world.state(run).await, RunState::WaitingHuman);
        let second = world.ask(&owner, run).await;
        assert_eq!(world.store.open_waits(world.tenant, run).await.unwrap(), OpenWaits { questions: 2, approvals: 0 });

        let answered = world.answer(&owner, asked.id, json!({"lamp": "hall"})).await.unwrap();
        assert_eq!(answered.answer, Some(json!({"lamp": "hall", "count": 1})), "defaults are filled in");
        assert_eq!((answered.state, answered.answered_by), (State::Answered, Some(owner.principal)));
        assert_eq!(world.state(run).await, RunState::WaitingHuman, "the other question is open");
        world.answer(&owner, second.id, json!({"lamp": "desk", "count": 2})).await.unwrap();
        assert_eq!(world.state(run).await, RunState::Running);
        assert!(world.store.open_waits(world.tenant, run).await.unwrap().is_empty());
        let told = [
            "run.started",
            "input.requested",
            "run.waiting",
            "input.requested",
            "input.submitted",
            "input.submitted",
            "run.resumed",
        ];
        assert_eq!(world.event_types(run).await, told);

        let events = serde_json::to_string(&world.events(run).await).unwrap();
        let entries = world.store.audit_entries(world.tenant, 100).await.unwrap();
        let actions: Vec<_> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
        assert_eq!(actions.iter().filter(|action| **action == "input.ask").count(), 2, "{actions:?}");
        assert_eq!(actions.iter().filter(|action| **action == "input.answer").count(), 2, "{actions:?}");
        let log = serde_json::to_string(&entries).unwrap();
        for payload in ["lamp", "desk", "customer"] {
            assert!(!events.contains(payload) && !log.contains(payload), "{payload} is in the log");
        }
        // A run that went on may ask again.
        world.ask(&owner, run).await;
        assert_eq!(world.event_types(run).await.last(), Some(&"run.waiting"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_counts_once() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let asked = world.ask(&owner, run).await.id;
        for (wrong, pointer) in [
            (json!({}), "/answer"),
            (json!({"lamp": "attic"}), "/answer/lamp"),
            (json!({"lamp": "hall", "count": 0}), "/answer/count"),
            (json!({"lamp": "hall", "more": 1}), "/answer"),
            (json!("hall"), "/answer"),
            (Value::Null, "/answer"),
        ] {
            let fault = world.answer(&owner, asked, wrong.clone()).await.unwrap_err();
            assert_eq!(fault.kind(), FaultKind::Invalid, "{wrong}");
            assert!(fault.pointer().unwrap_or_default().starts_with(pointer), "{wrong}: {:?}", fault.pointer());
            assert!(fault.details().unwrap()["violations"][0]["message"].is_string(), "{wrong}");
        }
        let long = world.answer(&owner, asked, json!({"lamp": "x".repeat(300_000)})).await;
        assert_eq!(kind(long), FaultKind::TooLarge);
        assert_eq!(world.closed(asked).await.state, State::Open);

        let first = world.answer(&owner, asked, json!({"lamp": "hall"})).await.unwrap();
        let approver = world.with_key(Permissions::of([Role::Approver]));
        for same in [json!({"lamp": "hall"}), json!({"count": 1, "lamp": "hall"})] {
            assert_eq!(world.answer(&approver, asked, same).await.unwrap(), first, "the same again");
        }
        let other = world.answer(&approver, asked, json!({"lamp": "desk"})).await.unwrap_err();
        assert_eq!(other.kind(), FaultKind::Conflict);
        assert!(other.told().contains(&owner.principal.to_string()), "by whom: {}", other.told());
        // Idempotency is judged before the schema.
        assert_eq!(kind(world.answer(&owner, asked, json!({"lamp": "attic"})).await), FaultKind::Conflict);
        assert_eq!(kind(world.engine.cancel_question(&owner, asked).await), FaultKind::Conflict);
        assert_eq!(world.closed(asked).await, first);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_answers_at_once_one_counts() {
    every_world(async |world| {
        let owner = world.owner();
        let other = world.replica().await;
        let run = world.run(&owner, json!({})).await.id;
        let ask = question(json!({"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}));
        let asked = world.engine.ask(&owner, run, ask).await.unwrap().id;
        let answers = all((0..100).map(|n| {
            let engine = if n % 2 == 0 { world.engine.clone() } else { other.engine.clone() };
            let owner = owner.clone();
            async move { (n / 2, engine.answer_question(&owner, asked, json!({"n": n / 2})).await) }
        }))
        .await;
        let kept = world.closed(asked).await;
        let winner = kept.answer.as_ref().unwrap()["n"].as_i64().unwrap();
        for (n, answer) in answers {
            match answer {
                Ok(told) => assert_eq!((told, n), (kept.clone(), winner)),
                Err(fault) => assert!(fault.kind() == FaultKind::Conflict && n != winner, "{fault:?}"),
            }
        }
        let told = ["run.started", "input.requested", "run.waiting", "input.submitted", "run.resumed"];
        assert_eq!(world.event_types(run).await, told);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_and_answering_at_once_loses_nobody() {
    every_world(async |world| {
        let owner = world.owner();
        let other = world.replica().await;
        let run = world.run(&owner, json!({})).await.id;
        let rounds = all((0..16).map(|n| {
            let (here, there) = (world.engine.clone(), other.engine.clone());
            let owner = owner.clone();
            async move {
                for _ in 0..3 {
                    let asked = here.ask(&owner, run, question(json!({}))).await.unwrap().id;
                    let lamp = if n % 2 == 0 { "hall" } else { "desk" };
                    there.answer_question(&owner, asked, json!({"lamp": lamp})).await.unwrap();
                }
            }
        }));
        rounds.await;
        assert_eq!(world.state(run).await, RunState::Running);
        let types = world.event_types(run).await;
        let count = |wanted: &str| types.iter().filter(|told| **told == wanted).count();
        assert_eq!((count("input.requested"), count("input.submitted")), (48, 48));
        assert_eq!(count("run.waiting"), count("run.resumed"));
        let mut open = 0;
        for told in &types {
            match *told {
                "input.requested" => open += 1,
                "input.submitted" => open -= 1,
                "run.resumed" => assert_eq!(open, 0, "it goes on only when nobody is waited for"),
                _ => {}
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_answer_what_they_may_see_and_agents_never() {
    every_world(async |world| {
        let (agent, key) = world.agent("mine", json!({})).await;
        let (_, other_agent) = world.agent("other", json!({})).await;
        let run = world.engine.open_run(&key, NewRun::default()).await.unwrap().id;
        let of_agent = world.ask(&key, run).await.id;
        let its_owner = Caller { agent: None, ..key.clone() };
        let member = world.member();
        let members_run = world.run(&member, json!({})).await.id;
        let of_member = world.ask(&member, members_run).await.id;
        let with = |roles: &[Role]| world.with_key(Permissions::of(roles.iter().copied()));
        let stranger = world.member();
        let sibling = Caller { agent: Some(agent.id), ..member.clone() };
        let held = |caller: &Caller| {
            let id = Id::new(&world.clock, &world.rng);
            let held = HeldToken {
                id,
                scope: Vec::new(),
                constraints: Vec::new(),
                labels_max: None,
                run: None,
                expires_at: world.clock.now().plus_seconds(300),
                context: String::new(),
                chain: Vec::new(),
            };
            Caller { credential: Credential::Token(id), token: Some(Arc::new(held)), ..caller.clone() }
        };
        let (token, owner_s_token) = (held(&member), held(&its_owner));
        let (seen, hidden, refused) = (None, Some(FaultKind::NotFound), Some(FaultKind::Forbidden));
        // Who, of whose question: whether they see it, and how an answer that does not fit is taken.
        for (who, caller, id, sees, answers) in [
            ("the agent", &key, of_agent, seen, refused),
            ("another agent", &other_agent, of_agent, hidden, hidden),
            ("the agent's owner", &its_owner, of_agent, seen, Some(FaultKind::Invalid)),
            ("an administrator", &world.owner(), of_agent, seen, Some(FaultKind::Invalid)),
            ("an approver", &with(&[Role::Approver]), of_agent, seen, Some(FaultKind::Invalid)),
            ("a stranger", &stranger, of_agent, hidden, hidden),
            ("whoever asked", &member, of_member, seen, Some(FaultKind::Invalid)),
            ("a stranger", &stranger, of_member, hidden, hidden),
            ("an agent of whoever asked", &sibling, of_member, hidden, hidden),
            ("a token", &token, of_member, seen, refused),
            ("a token of the agent's owner", &owner_s_token, of_agent, hidden, hidden),
            (
                "a viewer",
                &Caller { permissions: Permissions::of([Role::Viewer]), ..member.clone() },
                of_member,
                seen,
                refused,
            ),
            (
                "a service",
                &Caller { permissions: Permissions::of([Role::Service]), ..member.clone() },
                of_member,
                seen,
                refused,
            ),
            ("next door", &world.owner_next_door(), of_member, hidden, hidden),
        ] {
            let read = world.engine.readable_question(caller, id).await.err().map(|fault| fault.kind());
            assert_eq!(read, sees, "{who}");
            let listed = world.engine.list_questions(caller, Some(State::Open), None, None, 50).await.unwrap().items;
            assert_eq!(listed.iter().any(|listed| listed.id == id), sees.is_none(), "{who}: list and look-up agree");
            let answer = world.answer(caller, id, json!({"lamp": "attic"})).await;
            assert_eq!(answer.err().map(|fault| fault.kind()), answers, "{who}");
            if sees.is_some() {
                assert_eq!(kind(world.engine.cancel_question(caller, id).await), FaultKind::NotFound, "{who}");
            }
        }
        assert_eq!(kind(world.engine.ask(&stranger, members_run, question(json!({}))).await), FaultKind::NotFound);
        assert_eq!(
            kind(world.engine.ask(&world.owner_next_door(), run, question(json!({}))).await),
            FaultKind::NotFound
        );
        let viewer = Caller { permissions: Permissions::of([Role::Viewer]), ..member.clone() };
        assert_eq!(kind(world.engine.ask(&viewer, members_run, question(json!({}))).await), FaultKind::Forbidden);
        // The agent takes back its own.
        assert_eq!(world.engine.cancel_question(&key, of_agent).await.unwrap().state, State::Cancelled);
        assert_eq!(world.event_types(run).await.last(), Some(&"run.resumed"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_must_be_one_that_can_be_answered() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        for (wrong, pointer) in [
            (json!({"title": " "}), "/title"),
            (json!({"title": "x".repeat(301)}), "/title"),
            (json!({"title": "a\u{7}b"}), "/title"),
            (json!({"instructions": "a\u{0}b"}), "/instructions"),
            (json!({"expires_s": 0}), "/expires_s"),
            (json!({"expires_s": QUESTION_S_MAX + 1}), "/expires_s"),
            (json!({"schema": {"type": "string"}}), "/schema"),
            (json!({"schema": {"type": "object", "properties": {"a": {"type": "nothing"}}}}), "/schema"),
            (json!({"schema": {"type": "object", "$ref": "https://example.com/a"}}), "/schema"),
            (json!({"schema": {"type": "object", "description": "x".repeat(70_000)}}), "/schema"),
            (json!({"call_id": "01a1dfb5-a561-7fbf-a75a-add2d4028173"}), "/call_id"),
        ] {
            let fault = world.engine.ask(&owner, run, question(wrong.clone())).await.unwrap_err();
            let shown: String = wrong.to_string().chars().take(80).collect();
            assert!(matches!(fault.kind(), FaultKind::Invalid | FaultKind::NotFound), "{shown}: {fault:?}");
            assert!(fault.pointer().unwrap_or_default().starts_with(pointer), "{shown}: {:?}", fault.pointer());
        }
        // A call asks in its own run.
        let call = world.send(&owner, request("script", json!({}), |call| call.run_id = Some(run))).await.unwrap();
        let elsewhere = world.call("script", json!({})).await;
        let by = |call: toolgate_contracts::CallId| question(json!({"call_id": call}));
        assert_eq!(kind(world.engine.ask(&owner, run, by(elsewhere.id)).await), FaultKind::NotFound);
        assert_eq!(world.engine.ask(&owner, run, by(call.id)).await.unwrap().call_id, Some(call.id));
        // Nobody is asked without end.
        for _ in 1..QUESTIONS_OPEN_MAX {
            world.ask(&owner, run).await;
        }
        assert_eq!(kind(world.engine.ask(&owner, run, question(json!({}))).await), FaultKind::RateLimited);
        let draft_07 = json!({"schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}});
        let next = world.run(&owner, json!({})).await.id;
        let asked = world.engine.ask(&owner, next, question(draft_07)).await.unwrap();
        assert!(asked.schema["properties"]["a"]["prefixItems"].is_array(), "{}", asked.schema);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_ends_a_question_and_its_run_goes_on() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let short = world.engine.ask(&owner, run, question(json!({"expires_s": 60}))).await.unwrap().id;
        let long = world.engine.ask(&owner, run, question(json!({"expires_s": 120}))).await.unwrap().id;
        world.clock.advance(60);
        // Before anybody has looked at the clock, it is too late all the same.
        let late = world.store.question(world.tenant, short).await.unwrap().unwrap();
        assert_eq!(late.request.state, State::Open);
        assert_eq!(kind(world.answer(&owner, short, json!({"lamp": "hall"})).await), FaultKind::Conflict);
        assert_eq!(world.closed(short).await.state, State::Expired);
        assert_eq!(world.state(run).await, RunState::WaitingHuman);
        world.clock.advance(60);
        world.in_background_until("it expires", async || world.closed(long).await.state == State::Expired).await;
        assert_eq!(world.state(run).await, RunState::Running);
        let told = world.event_types(run).await;
        assert_eq!(told[told.len() - 3..], ["input.expired", "input.expired", "run.resumed"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_stands_still_under_a_kill_switch() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let minute = || question(json!({"expires_s": 60}));
        let asked = world.engine.ask(&owner, run, minute()).await.unwrap();
        world.clock.advance(20);
        world.registry.set_kill_switch(&owner, &Target::Tenant, true, Some("drill")).await.unwrap();
        assert_eq!(kind(world.engine.ask(&owner, run, minute()).await), FaultKind::Conflict, "nobody asks meanwhile");
        // Also where nobody looked before the time would have been over.
        world.clock.advance(3600);
        let frozen = async || {
            let question = world.store.question(world.tenant, asked.id).await.unwrap().unwrap();
            question.frozen_at.is_some()
        };
        world.in_background_until("it stands still", frozen).await;
        assert_eq!(world.engine.readable_question(&owner, asked.id).await.unwrap().request.state, State::Open);
        world.registry.set_kill_switch(&owner, &Target::Tenant, false, None).await.unwrap();
        world.in_background_until("it goes on", async || !frozen().await).await;
        let now = world.closed(asked.id).await;
        assert_eq!((now.state, now.expires_at), (State::Open, world.clock.now().plus_seconds(40)));
        world.clock.advance(40);
        world.in_background_until("it is over", async || world.closed(asked.id).await.state == State::Expired).await;

        // One agent is stopped, and one may still answer what it asked.
        let (agent, key) = world.agent("bot", json!({})).await;
        let run = world.engine.open_run(&key, NewRun::default()).await.unwrap().id;
        let of_agent = world.engine.ask(&key, run, minute()).await.unwrap();
        let people = world.run(&owner, json!({})).await.id;
        let of_people = world.engine.ask(&owner, people, minute()).await.unwrap();
        let target = Target::Agent(agent.name.to_string());
        world.registry.set_kill_switch(&owner, &target, true, Some("drill")).await.unwrap();
        world.clock.advance(61);
        world
            .in_background_until("the other's is over", async || {
                world.closed(of_people.id).await.state == State::Expired
            })
            .await;
        assert_eq!(world.closed(of_agent.id).await.state, State::Open);
        let answered = world.answer(&owner, of_agent.id, json!({"lamp": "hall"})).await.unwrap();
        assert_eq!(answered.state, State::Answered);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_takes_its_questions_back() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let (first, second) = (world.ask(&owner, run).await.id, world.ask(&owner, run).await.id);
        world.engine.cancel_question(&owner, first).await.unwrap();
        assert_eq!(world.state(run).await, RunState::WaitingHuman);
        world.engine.end_run(&owner, run, RunState::Cancelled, None).await.unwrap();
        assert_eq!(world.closed(second).await.state, State::Cancelled);
        assert_eq!(kind(world.answer(&owner, second, json!({"lamp": "hall"})).await), FaultKind::Conflict);
        assert_eq!(world.state(run).await, RunState::Cancelled);
        assert_eq!(kind(world.engine.ask(&owner, run, question(json!({}))).await), FaultKind::Conflict);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_told_wherever_the_answer_came() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let asked = world.ask(&owner, run).await.id;
        let soon = world.engine.when_answered(&owner, asked, Instant::now()).await.unwrap();
        assert_eq!(soon.state, State::Open, "past the wait it is as it is");
        let other = world.replica().await;
        let waiting = {
            let (engine, owner) = (other.engine.clone(), owner.clone());
            tokio::spawn(
                async move { engine.when_answered(&owner, asked, Instant::now() + Duration::from_secs(30)).await },
            )
        };
        world.answer(&owner, asked, json!({"lamp": "desk"})).await.unwrap();
        let told = waiting.await.unwrap().unwrap();
        assert_eq!((told.state, told.answer), (State::Answered, Some(json!({"lamp": "desk", "count": 1}))));
        // A process that starts later knows of it.
        let third = world.replica().await;
        let told = third.engine.when_answered(&owner, asked, Instant::now()).await.unwrap();
        assert_eq!(told.state, State::Answered);
        eventually("nothing is left", async || world.store.open_waits(world.tenant, run).await.unwrap().is_empty())
            .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_the_last_of_answer_and_decision() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        for answer_first in [true, false] {
            let run = world.run(&ada, json!({})).await.id;
            let asked = world.ask(&ada, run).await.id;
            let call = world.park_in(&ada, run, "writes", json!({"key": "w"})).await;
            let waits = world.store.open_waits(world.tenant, run).await.unwrap();
            assert_eq!(waits, OpenWaits { questions: 1, approvals: 1 });
            let lamp = || json!({"lamp": "hall"});
            if answer_first {
                world.answer(&ada, asked, lamp()).await.unwrap();
            } else {
                world.reject(&ben, call, "not today").await.unwrap();
            }
            assert_eq!(world.state(run).await, RunState::WaitingHuman, "answer first: {answer_first}");
            if answer_first {
                world.reject(&ben, call, "not today").await.unwrap();
            } else {
                world.answer(&ada, asked, lamp()).await.unwrap();
            }
            assert_eq!(world.state(run).await, RunState::Running, "answer first: {answer_first}");
            let types = world.event_types(run).await;
            let count = |wanted: &str| types.iter().filter(|told| **told == wanted).count();
            assert_eq!((count("run.waiting"), count("run.resumed")), (1, 1), "{types:?}");
        }
        // An answer approves nothing, whatever it says.
        let run = world.run(&ada, json!({})).await.id;
        let call = world.park_in(&ada, run, "writes", json!({"key": "never"})).await;
        let approve = json!({"call_id": call, "title": "Approve?", "schema": {"type": "object", "properties": {"approve": {"type": "boolean"}}}});
        let asked = world.engine.ask(&ada, run, question(approve)).await.unwrap().id;
        world.answer(&ben, asked, json!({"approve": true})).await.unwrap();
        assert_eq!(world.record(call).await.status, Status::Pending);
        assert_eq!((world.runner.runs("never"), world.count("grants").await), (0, 0));
    })
    .await;
}

/// Time in which a run both waits and stands still is taken from it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_answered_under_a_kill_switch_is_not_given_the_time_twice() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await.id;
        let kept = async || world.store.run(world.tenant, run).await.unwrap().unwrap();
        let asked = world.ask(&owner, run).await.id;
        world.clock.advance(10);
        world.registry.set_kill_switch(&owner, &Target::Tenant, true, Some("drill")).await.unwrap();
        world.in_background_until("it stands still", async || kept().await.frozen_at.is_some()).await;
        world.clock.advance(20);
        world.answer(&owner, asked, json!({"lamp": "hall"})).await.unwrap();
        assert_eq!((kept().await.state, kept().await.waited_ms), (RunState::Running, 30_000));
        world.clock.advance(5);
        world.registry.set_kill_switch(&owner, &Target::Tenant, false, None).await.unwrap();
        world.in_background_until("it goes on", async || kept().await.frozen_at.is_none()).await;
        assert_eq!(kept().await.waited_ms, 35_000);
    })
    .await;
}
