//! Runs and their logs: gap-free whoever writes, the same for every reader, and never another tenant's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_contracts::call::RunState;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::event::{Event, EventType, NewEvent};
use toolgate_contracts::{CallRequest, Caller, FaultKind, HeldToken, KeyId, RunId, Source, Status};
use toolgate_engine::runs::NewRun;
use toolgate_registry::commands::Target;
use toolgate_store::Change;
use toolgate_store::calls::CallFilter;
use toolgate_store::events::{Place, Position, of_model};

use crate::world::{World, all, eventually, every_world, request};

fn text_of(events: &[Event]) -> String {
    let parts = events.iter().filter(|event| event.event_type == EventType::ToolOutputAppended);
    parts.map(|event| event.data["text"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_agents_work_under_one_root() {
    every_world(async |world| {
        let owner = world.owner();
        let title = |title: &str| Some(title.to_owned());
        let root = NewRun { title: title("Plan a trip"), ..NewRun::default() };
        let root = world.engine.open_run(&owner, root).await.unwrap();
        let mut children = Vec::new();
        for name in ["scout", "writer"] {
            let (agent, _) = world.agent(name, json!({})).await;
            let new = NewRun { agent: title(name), parent_run_id: Some(root.id), ..NewRun::default() };
            let child = world.engine.open_run(&owner, new).await.unwrap();
            assert_eq!((child.root_run_id, child.agent_id), (root.id, Some(agent.id)));
            let step = world.engine.add_step(&owner, child.id, &format!("{name} looks")).await.unwrap();
            let call = request("script", json!({"key": name}), |call| {
                (call.run_id, call.step_id) = (Some(child.id), Some(step.id));
            });
            let envelope = world.send(&owner, call).await.unwrap();
            let record = world.check_record(&envelope).await;
            assert_eq!((record.agent, record.root_run, record.step), (Some(agent.id), root.id, Some(step.id)));
            assert_eq!(
                world.event_types(child.id).await,
                ["run.started", "step.started", "tool.started", "tool.completed"]
            );
            children.push((child.id, step.id));
        }
        assert_eq!(
            world.event_types(root.id).await,
            ["run.started", "run.started", "run.started"],
            "the root tells of all"
        );
        let view = world.engine.show_run(&owner, root.id).await.unwrap();
        assert_eq!((view.runs.len(), view.calls.len()), (2, 2));
        let steps: BTreeSet<_> =
            view.steps.iter().map(|step| (step.step.title.clone(), step.agent_name.clone())).collect();
        let expected = ["scout", "writer"].map(|name| (format!("{name} looks"), title(name)));
        assert_eq!(steps, expected.into_iter().collect());
        let titles: BTreeSet<_> = view.calls.iter().filter_map(|call| call.step_title.clone()).collect();
        assert_eq!(titles.len(), 2);
        // A run of one agent is not another's, nor is a step another run's.
        let (first, second) = (children[0], children[1]);
        let mixed = request("script", json!({}), |call| {
            (call.run_id, call.agent_id) = (Some(first.0), title("writer"));
        });
        assert_eq!(world.send(&owner, mixed).await.unwrap_err().kind(), FaultKind::Conflict);
        let mixed = request("script", json!({}), |call| (call.run_id, call.step_id) = (Some(first.0), Some(second.1)));
        assert_eq!(world.send(&owner, mixed).await.unwrap_err().pointer(), Some("/step_id"));
        let stranger = world.member();
        for run in [root.id, first.0] {
            assert_eq!(world.engine.show_run(&stranger, run).await.unwrap_err().kind(), FaultKind::NotFound);
            assert_eq!(world.engine.add_step(&stranger, run, "x").await.unwrap_err().kind(), FaultKind::NotFound);
        }
        // A lone call has a view as well.
        let lone = world.call("script", json!({})).await;
        let view = world.engine.show_run(&owner, lone.run_id).await.unwrap();
        assert_eq!((view.run.run.state, view.calls.len()), (RunState::Completed, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_has_ended_takes_no_more() {
    every_world(async |world| {
        let owner = world.owner();
        for (state, event) in [
            (RunState::Completed, "run.completed"),
            (RunState::Failed, "run.failed"),
            (RunState::Cancelled, "run.cancelled"),
        ] {
            let run = world.run(&owner, json!({})).await;
            let ended = world.engine.end_run(&owner, run.id, state, Some("enough")).await.unwrap();
            assert_eq!((ended.state, ended.reason.as_deref()), (state, Some("enough")));
            assert_eq!(world.event_types(run.id).await, ["run.started", event]);
            let call = request("note", json!({"key": "late"}), |call| call.run_id = Some(run.id));
            let fault = world.send(&owner, call).await.unwrap_err();
            assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Conflict, Some("/run_id")));
            let again = world.engine.end_run(&owner, run.id, RunState::Completed, None).await.unwrap_err();
            assert_eq!(again.kind(), FaultKind::Conflict);
            assert_eq!(world.engine.add_step(&owner, run.id, "x").await.unwrap_err().kind(), FaultKind::Conflict);
            let child = NewRun { parent_run_id: Some(run.id), ..NewRun::default() };
            assert_eq!(world.engine.open_run(&owner, child).await.unwrap_err().kind(), FaultKind::Conflict);
        }
        let run = world.run(&owner, json!({})).await;
        let fault = world.engine.end_run(&owner, run.id, RunState::Running, None).await.unwrap_err();
        assert_eq!(fault.pointer(), Some("/state"));
        assert_eq!(world.runner.runs("late"), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_is_answered_with_its_run_only_where_the_credential_may_name_it() {
    every_world(async |world| {
        let owner = world.owner();
        let key = Credential::ApiKey(KeyId::new(&world.clock, &world.rng));
        let second = Caller { credential: key, ..owner.clone() };
        let held = |run: Option<RunId>| {
            let id = toolgate_contracts::Id::new(&world.clock, &world.rng);
            let held = HeldToken {
                id,
                scope: Vec::new(),
                constraints: Vec::new(),
                labels_max: None,
                run,
                expires_at: world.clock.now().plus_seconds(300),
                context: String::new(),
                chain: Vec::new(),
            };
            Caller { credential: Credential::Token(id), token: Some(Arc::new(held)), ..owner.clone() }
        };
        let other = world.run(&owner, json!({})).await.id;
        let (of_any, of_other) = (held(None), held(Some(other)));
        let request_id = Some("order-42".to_owned());
        let new = NewRun { request_id, title: Some("Mine".to_owned()), ..NewRun::default() };
        let run = world.engine.open_run(&owner, new.clone()).await.unwrap().id;
        for (caller, finds) in [(&owner, true), (&second, true), (&of_any, true), (&of_other, false)] {
            let again = world.engine.open_run(caller, new.clone()).await;
            let again = again.map(|run| run.id).map_err(|fault| (fault.kind(), fault.pointer().map(str::to_owned)));
            let none = Err((FaultKind::NotFound, Some("/request_id".to_owned())));
            assert_eq!(again, if finds { Ok(run) } else { none }, "{caller:?}");
        }
    })
    .await;
}

/// From any event on a reader gets what the one got who read everything.
async fn check_replay(world: &World, run: RunId, whole: &[Event]) {
    let last = whole.iter().filter_map(|event| event.seq).max().unwrap_or(0);
    for after in (0..=last).step_by(usize::try_from(last / 40).unwrap() + 1) {
        let mut follower = world.engine.follow_run(world.tenant, run, after);
        let mut found = Vec::new();
        loop {
            let page = follower.page().await.unwrap();
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        let behind = |event: &&Event| {
            event.seq.is_some_and(|seq| seq > after) || event.after_seq.is_some_and(|seq| seq >= after)
        };
        let expected: Vec<&Event> = whole.iter().filter(behind).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_at_once_leave_a_log_without_gaps() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({"max_tool_calls": 90})).await;
        let other = world.replica().await;
        let calls = (0..100).map(|number| {
            let engine = if number % 2 == 0 { world.engine.clone() } else { other.engine.clone() };
            let (tool, input) = match number % 5 {
                0 => ("note", json!({"key": "n"})),
                1 => ("script", json!({"act": "slow", "ms": 70})),
                2 => ("strict", json!({})),
                3 => ("no_such_tool", json!({})),
                _ => ("script", json!({"n": number})),
            };
            let owner = owner.clone();
            let call = request(tool, input, |call| call.run_id = Some(run.id));
            async move { engine.submit(&owner, Source::Agent, call).await.unwrap() }
        });
        let answers = all(calls.collect::<Vec<_>>()).await;
        let types = world.event_types(run.id).await;
        let refused = answers.iter().filter(|answer| answer.error.is_some()).count();
        assert_eq!(types.len(), 1 + 2 * (100 - refused) + refused);
        let events = world.events(run.id).await;
        for answer in answers.iter().filter(|answer| answer.receipt.is_some()) {
            let own: Vec<_> = events.iter().filter(|event| event.call_id == Some(answer.id)).collect();
            let last = own.last().unwrap().event_type;
            let ends =
                if answer.status == Status::Completed { EventType::ToolCompleted } else { EventType::ToolFailed };
            assert_eq!((last, own.len()), (ends, if answer.error.is_some() { 1 } else { 2 }));
        }
        let places: BTreeSet<u32> = {
            let mut places = BTreeSet::new();
            for answer in answers.iter().filter(|answer| answer.receipt.is_some()) {
                assert!(places.insert(world.record(answer.id).await.seq), "a place is taken once");
            }
            places
        };
        assert!(places.last().is_some_and(|last| *last < 100));
        check_replay(&world, run.id, &events).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_as_it_comes_stands_behind_its_event() {
    every_world(async |world| {
        let owner = world.owner();
        let lines: Vec<String> = (0..6).map(|n| format!("line {n}\n")).collect();
        let input = json!({"act": "stream", "lines": lines, "ms": 60, "value": {"done": true}});
        // A lone call.
        let envelope = world.call("script", input.clone()).await;
        let events = world.events(envelope.run_id).await;
        assert_eq!(text_of(&events), lines.concat());
        let numbers: Vec<_> = events.iter().map(|event| (event.seq, event.after_seq, event.part)).collect();
        assert_eq!((numbers[0], *numbers.last().unwrap()), ((Some(1), None, None), (Some(2), None, None)));
        for (index, part) in numbers[1..numbers.len() - 1].iter().enumerate() {
            assert_eq!(*part, (None, Some(1), Some(index as u64 + 1)), "parts stand after the start, in order");
        }
        assert!(events.len() < 2 + lines.len() + 1, "they are put together");
        check_replay(&world, envelope.run_id, &events).await;

        // Two calls of one run at once, followed while they come.
        let run = world.run(&owner, json!({})).await;
        let mut follower = world.engine.follow_run(world.tenant, run.id, 0);
        let reading = async {
            let mut found: Vec<Event> = Vec::new();
            while found.iter().filter(|event| event.event_type == EventType::ToolCompleted).count() < 3 {
                found.extend(follower.next().await.unwrap());
            }
            found.extend(follower.page().await.unwrap());
            found
        };
        let call = |n: u32| {
            let lines: Vec<String> = (0..8).map(|line| format!("{n}.{line} ")).collect();
            let input = json!({"act": "stream", "lines": lines, "ms": 130, "n": n});
            let (engine, owner) = (world.engine.clone(), owner.clone());
            let call = request("script", input, |call| call.run_id = Some(run.id));
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(n) * 150)).await;
                engine.submit(&owner, Source::Api, call).await.unwrap()
            }
        };
        let (found, first, second, third) = tokio::join!(reading, call(0), call(1), call(2));
        for (n, call) in [first, second, third].into_iter().enumerate() {
            let own: Vec<Event> = found.iter().filter(|event| event.call_id == Some(call.id)).cloned().collect();
            let lines: Vec<String> = (0..8).map(|line| format!("{n}.{line} ")).collect();
            assert_eq!(text_of(&own), lines.concat(), "followed live");
        }
        check_replay(&world, run.id, &world.events(run.id).await).await;
    })
    .await;
}

/// Everything in the tenant from a position on, as often as it takes.
async fn stream(
    world: &World,
    tenant: toolgate_contracts::TenantId,
    from: Position,
    count: usize,
) -> Vec<(Position, Event)> {
    let mut follower = world.engine.follow_tenant(tenant, Some(from)).await.unwrap();
    let mut found: Vec<(Position, Event)> = Vec::new();
    let reading = async {
        while found.len() < count {
            found.extend(follower.next().await.unwrap());
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(30), reading).await;
    assert!(read.is_ok(), "{} of {count} events", found.len());
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_s_stream_has_every_event_once_in_the_order_of_commits() {
    every_world(async |world| {
        let (owner, next_door) = (world.owner(), world.owner_next_door());
        let other = world.replica().await;
        let start = world.store.last_position(world.tenant).await.unwrap();
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(world.run(&owner, json!({"max_tool_calls": 1000})).await.id);
        }
        let calls = 240;
        // One to start each run, two for each call.
        let count = 3 + 2 * calls;
        let writing = all((0..calls)
            .map(|number| {
                let engine = if number % 2 == 0 { world.engine.clone() } else { other.engine.clone() };
                let run = (number % 4 > 0).then(|| runs[number % 3]);
                let (owner, next_door) = (owner.clone(), next_door.clone());
                async move {
                    let tool = if number % 7 == 0 { "note" } else { "script" };
                    let call = request(tool, json!({"n": number}), |call| call.run_id = run);
                    let envelope = engine.submit(&owner, Source::Api, call).await.unwrap();
                    let theirs = CallRequest::new("script", json!({"theirs": number}));
                    engine.submit(&next_door, Source::Api, theirs).await.unwrap();
                    envelope
                }
            })
            .collect::<Vec<_>>());
        let (found, answers) = tokio::join!(stream(&world, world.tenant, start, count), writing);
        assert_eq!(found.len(), count);
        let own: BTreeSet<_> = answers.iter().map(|answer| answer.id).collect();
        let mut last: BTreeMap<RunId, u64> = BTreeMap::new();
        for (position, event) in &found {
            assert!(event.call_id.is_none_or(|call| own.contains(&call)), "another tenant's: {event:?}");
            let seq = event.seq.unwrap();
            assert_eq!(last.insert(event.run_id, seq).unwrap_or(0) + 1, seq, "in order, none twice");
            assert_eq!(Position::parse(&position.text()), Some(*position));
        }
        assert!(found.windows(2).all(|pair| pair[0].0.commit <= pair[1].0.commit), "in the order of commits");
        // From any place on it is the same.
        for at in (0..found.len() - 1).step_by(29) {
            let rest = stream(&world, world.tenant, found[at].0, found.len() - at - 1).await;
            assert_eq!(rest, found[at + 1..], "after {at}");
        }
        let theirs = stream(&world, world.neighbour, Position::default(), 2 * calls).await;
        assert!(theirs.iter().all(|(_, event)| event.call_id.is_some_and(|call| !own.contains(&call))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_commit_does_not_hold_up_the_stream() {
    use toolgate_contracts::event::NewEvent;
    use toolgate_store::Change;
    use toolgate_store::events::Place;
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await;
        let now = world.clock.now();
        let event = NewEvent {
            event_type: EventType::ToolStarted,
            call_id: None,
            at: now,
            actor: "system".to_owned(),
            data: serde_json::Map::new(),
        };
        // As many callers of one run may share a transaction.
        let mut change = Change::new(world.tenant);
        for _ in 0..450 {
            change.append_events(run.id, Place::Counted, None, std::slice::from_ref(&event), now);
        }
        world.store.commit(change).await.unwrap();
        let found = stream(&world, world.tenant, Position::default(), 451).await;
        let numbers: Vec<u64> = found.iter().filter_map(|(_, event)| event.seq).collect();
        assert_eq!(numbers, (1..=451).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_read_by_those_who_may() {
    every_world(async |world| {
        let (member, stranger, owner) = (world.member(), world.member(), world.owner());
        let (agent, key) = world.agent("mine", json!({})).await;
        let call = world.call_as(&member, "script", json!({"n": 1})).await;
        let of_agent = world.call_as(&key, "script", json!({"n": 2})).await;
        let sees = async |caller: &Caller, id: &str| world.engine.readable(caller, id).await.is_ok();
        let other_agent = Caller { agent: Some(agent.id), ..member.clone() };
        for (caller, expected) in
            [(&member, true), (&stranger, false), (&owner, true), (&other_agent, false), (&key, false)]
        {
            assert_eq!(sees(caller, &call.id.to_string()).await, expected);
            let listed = world.engine.list_calls(caller, &CallFilter::default(), None, 50).await.unwrap().items;
            assert_eq!(listed.iter().any(|listed| listed.id == call.id), expected, "list and call agree");
        }
        assert!(sees(&member, &call.call_id).await && !sees(&stranger, &call.call_id).await);
        assert!(sees(&key, &of_agent.id.to_string()).await && sees(&owner, &of_agent.id.to_string()).await);
        assert!(!sees(&member, "not an id").await);
        let record = world.record(call.id).await;
        let details = world.engine.details(world.tenant, record).await.unwrap();
        let shown: Value = serde_json::to_value(&details).unwrap();
        assert_eq!(
            (shown["id"].as_str(), shown["decision"]["verdict"].as_str()),
            (Some(call.id.to_string().as_str()), Some("allow"))
        );
        eventually("nothing runs", async || world.count("work").await == 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stands_still_under_a_kill_switch_and_is_not_charged_the_time() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({"max_wall_s": 60})).await.id;
        let over = world.run(&owner, json!({})).await.id;
        world.engine.end_run(&owner, over, RunState::Completed, None).await.unwrap();
        world.clock.advance(50);
        world.registry.set_kill_switch(&owner, &Target::Tenant, true, Some("drill")).await.unwrap();
        let since = world.clock.now();
        world.clock.advance(3600);
        let kept = async |id| world.store.run(world.tenant, id).await.unwrap().unwrap();
        world.in_background_until("it stands still", async || kept(run).await.frozen_at.is_some()).await;
        let frozen = kept(run).await;
        assert_eq!((frozen.state, frozen.frozen_at), (RunState::Running, Some(since)), "it is no state");
        assert_eq!(kept(over).await.frozen_at, None, "what has ended is as it is");
        world.registry.set_kill_switch(&owner, &Target::Tenant, false, None).await.unwrap();
        world.in_background_until("it goes on", async || kept(run).await.frozen_at.is_none()).await;
        let went_on = kept(run).await;
        assert_eq!((went_on.state, went_on.waited_ms), (RunState::Running, 3_600_000));
    })
    .await;
}

/// What was said in one answer does not hide what is said in the next, however the pages fall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_says_is_followed_from_answer_to_answer() {
    every_world(async |world| {
        let run = world.run(&world.owner(), json!({})).await.id;
        let now = world.clock.now();
        let tell = async |types: &[EventType]| {
            let event = |event_type: &EventType| NewEvent {
                event_type: *event_type,
                call_id: None,
                at: now,
                actor: "local:0".to_owned(),
                data: serde_json::Map::new(),
            };
            let events: Vec<NewEvent> = types.iter().map(event).collect();
            let mut change = Change::new(world.tenant);
            change.append_events(run, Place::Counted, None, &events, now);
            world.store.commit(change).await.unwrap();
        };
        let say = async |after: u64, texts: &[&str]| {
            for (index, text) in texts.iter().enumerate() {
                let mut change = Change::new(world.tenant);
                change.append_part(run, after, of_model(run), index as u64 + 1, text, now);
                world.store.commit(change).await.unwrap();
            }
        };
        let mut follower = world.engine.follow_run(world.tenant, run, 0);
        let mut found: Vec<Event> = Vec::new();
        tell(&[EventType::ModelRequested]).await;
        say(2, &["one ", "two "]).await;
        tell(&[EventType::ModelCompleted, EventType::ModelRequested]).await;
        found.extend(follower.page().await.unwrap());
        say(4, &["three ", "four "]).await;
        found.extend(follower.page().await.unwrap());
        tell(&[EventType::ModelCompleted]).await;
        found.extend(follower.page().await.unwrap());
        let said: String = found.iter().filter_map(|event| event.data.get("text")?.as_str()).collect();
        assert_eq!(said, "one two three four ", "{found:#?}");
    })
    .await;
}
