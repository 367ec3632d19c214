//! Where a call may end on its way, and what is left of it.

use serde_json::{Value, json};
use toolgate_contracts::{
    CallRequest, Caller, ErrorCode, FaultKind, Mode, Permission, Source, Status, ToolError, ToolRef,
};
use toolgate_engine::external::LeaseRequest;
use toolgate_registry::commands::Target;
use toolgate_store::catalog::Lifecycle;
use toolgate_store::runs::RunFilter;

use crate::world::{World, all, error, every_world, permissions, request};

/// A refusal: one row, one event, one entry of the log.
async fn check_refused(world: &World, caller: &Caller, request: CallRequest, step: &str, told: (ErrorCode, &str)) {
    let tables = ["calls", "events", "audit_leaves"];
    let mut before = Vec::new();
    for table in tables {
        before.push(world.count(table).await);
    }
    let shown = format!("{request:?}");
    let envelope = world.send(caller, request).await.unwrap();
    assert_eq!(envelope.status, Status::Failed, "{shown}");
    assert_eq!(error(&envelope), told, "{shown}: {envelope:?}");
    for (table, before) in tables.into_iter().zip(before) {
        assert_eq!(world.count(table).await, before + 1, "{table}: {shown}");
    }
    let record = world.check_record(&envelope).await;
    assert_eq!(record.decision["refused_at"], step, "{shown}");
    assert_eq!(record.decision["verdict"], "deny");
    assert_eq!((record.attempts, record.started_at), (0, None), "{shown}");
    assert_eq!(world.event_types(envelope.run_id).await, ["tool.failed"]);
    assert_eq!(world.actions(envelope.id).await, ["call.failed"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_refuses_with_its_reason_and_leaves_one_row_one_event_and_one_entry() {
    every_world(async |world| {
        let owner = world.owner();
        let strict: [(Value, &str); 4] = [
            (json!({}), "n"),
            (json!({"n": "1"}), "integer"),
            (json!({"n": -1}), "-1"),
            (json!({"n": 1, "extra": true}), "extra"),
        ];
        for (input, _) in &strict {
            let call = CallRequest::new("strict", input.clone());
            check_refused(&world, &owner, call, "validate", (ErrorCode::ValidationError, "schema")).await;
        }
        for (input, named) in strict {
            let envelope = world.call("strict", input).await;
            let told = envelope.error.unwrap();
            assert!(told.message.contains(named), "{}", told.message);
            assert!(!told.details.unwrap()["violations"].as_array().unwrap().is_empty());
        }
        let record = request("script", json!({}), |call| call.mode = Mode::Record);
        check_refused(&world, &owner, record, "validate", (ErrorCode::ValidationError, "mode")).await;

        let ceiling = json!({"limits": {"side_effects": "none"}});
        let (_, mild) = world.agent("mild", ceiling).await;
        let above = (ErrorCode::PolicyDenied, "side_effects");
        check_refused(&world, &mild, CallRequest::new("reads", json!({})), "resolve", above).await;
        check_refused(&world, &mild, CallRequest::new("note", json!({})), "resolve", above).await;

        world
            .profile(
                json!({"name": "tight", "constraints": [{"pointer": "/n", "max": 10}], "max_cost_per_call": "0.005"}),
            )
            .await;
        let (_, tight) = world.agent("tight", json!({"profile": "tight"})).await;
        let constraint = (ErrorCode::PolicyDenied, "constraint");
        check_refused(&world, &tight, CallRequest::new("script", json!({"n": 11})), "authorize", constraint).await;
        let dear = CallRequest::new("priced", json!({"n": 1}));
        check_refused(&world, &tight, dear, "reserve", (ErrorCode::PolicyDenied, "budget")).await;

        let reference: ToolRef = "old".parse().unwrap();
        let system = Caller {
            tenant: toolgate_contracts::TenantId::SYSTEM,
            tenant_slug: "system".parse().unwrap(),
            ..owner.clone()
        };
        let blocked = Lifecycle {
            state: toolgate_contracts::definition::ToolState::Blocked,
            message: Some("it lied".to_owned()),
            ..Lifecycle::ACTIVE
        };
        world.registry.set_lifecycle(&system, &reference, &blocked).await.unwrap();
        let call = CallRequest::new("old", json!({}));
        check_refused(&world, &owner, call, "resolve", (ErrorCode::PolicyDenied, "blocked")).await;

        world
            .registry
            .set_kill_switch(&owner, &Target::Tool("note".parse().unwrap()), true, Some("smoke"))
            .await
            .unwrap();
        let call = CallRequest::new("note", json!({}));
        check_refused(&world, &owner, call, "resolve", (ErrorCode::PolicyDenied, "frozen")).await;
        assert_eq!(world.runner.call_ids(), [""; 0], "nothing ran");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_without_a_runner_is_an_error_of_the_sandbox() {
    every_world(async |world| {
        let envelope = world.call("unwired", json!({})).await;
        assert_eq!(error(&envelope), (ErrorCode::SandboxError, "tier_unavailable"));
        assert_eq!(world.check_record(&envelope).await.attempts, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_may_not_know_of_leaves_nothing() {
    every_world(async |world| {
        let (_, agent) = world.agent("assigned", json!({"toolset": "assigned"})).await;
        let (_, narrow) = world.agent("narrow", json!({"limits": {"enabled_tools": ["note"]}})).await;
        world.profile(json!({"name": "denies", "deny_tools": ["script"]})).await;
        let (_, denied) = world.agent("denied", json!({"profile": "denies"})).await;
        let blind = world.with_key(permissions(&[Permission::CALLS_CREATE]));
        let tables = ["calls", "events", "audit_leaves", "request_ids"];
        let (owner, member) = (world.owner(), world.member());
        let cases = [
            (&owner, "nothing_like_this"),
            (&owner, "script@9.0.0"),
            (&owner, "hidden"),
            (&owner, "elsewhere"),
            (&member, "for_team"),
            (&agent, "script"),
            (&narrow, "script"),
            (&denied, "script"),
            (&blind, "script"),
        ];
        for (caller, tool) in cases {
            let mut before = Vec::new();
            for table in tables {
                before.push(world.count(table).await);
            }
            let call = request(tool, json!({}), |call| call.request_id = Some("r".to_owned()));
            let fault = world.send(caller, call).await.unwrap_err();
            assert_eq!(fault.kind(), FaultKind::NotFound, "{tool}");
            for (table, before) in tables.into_iter().zip(before) {
                assert_eq!(world.count(table).await, before, "{table}: {tool}");
            }

            let run = match world.engine.open_run(caller, toolgate_engine::runs::NewRun::default()).await {
                Ok(run) => run,
                Err(fault) => panic!("{tool}: {fault:?}"),
            };
            let call = request(tool, json!({"secret": "word"}), |call| call.run_id = Some(run.id));
            let envelope = world.send(caller, call).await.unwrap();
            assert_eq!(error(&envelope), (ErrorCode::PolicyDenied, "not_found"), "{tool}");
            assert_eq!((envelope.version.as_str(), envelope.receipt), ("", None));
            assert_eq!(world.store.call(world.tenant, envelope.id).await.unwrap().map(|call| call.id), None);
            assert_eq!(world.event_types(run.id).await, ["run.started", "tool.failed"]);
            assert_eq!(
                world.store.run(world.tenant, run.id).await.unwrap().unwrap().calls_counted,
                1,
                "it counts as a call"
            );
        }
        // All of these look alike, whatever the reason.
        let unknown = world.send(&owner, CallRequest::new("hidden", json!({}))).await.unwrap_err();
        let nothing = world.send(&owner, CallRequest::new("hiddex", json!({}))).await.unwrap_err();
        assert_eq!(unknown.told().replace("hidden", "hiddex"), nothing.told());
        assert_eq!(world.runner.call_ids(), [""; 0]);
    })
    .await;
}

/// What is told of which member, when the request is changed so.
type Unreadable<'a> = (&'a str, FaultKind, &'a dyn Fn(&mut CallRequest));

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_as_a_call_is_refused_without_a_record() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({})).await;
        let stranger = world.member();
        let cases: [Unreadable<'_>; 13] = [
            ("/tool", FaultKind::Invalid, &|call| call.tool = "not a name!".to_owned()),
            ("/wait", FaultKind::Invalid, &|call| call.wait = Some(61)),
            ("/timeout_ms", FaultKind::Invalid, &|call| call.timeout_ms = Some(0)),
            ("/request_id", FaultKind::Invalid, &|call| call.request_id = Some(String::new())),
            ("/request_id", FaultKind::Invalid, &|call| call.request_id = Some("x".repeat(201))),
            ("/metadata", FaultKind::Invalid, &|call| {
                call.metadata = Some([("a".to_owned(), Value::from("x".repeat(17_000)))].into_iter().collect());
            }),
            ("/seq", FaultKind::Invalid, &|call| call.seq = Some(3)),
            ("/step_id", FaultKind::Invalid, &|call| {
                call.step_id = Some(toolgate_contracts::StepId::from_uuid(run.id.uuid()));
            }),
            ("/step_id", FaultKind::NotFound, &|call| {
                call.run_id = Some(run.id);
                call.step_id = Some(toolgate_contracts::StepId::from_uuid(run.id.uuid()));
            }),
            ("/run_id", FaultKind::NotFound, &|call| {
                call.run_id = Some(toolgate_contracts::RunId::from_uuid(world.tenant.uuid()));
            }),
            ("/agent_id", FaultKind::NotFound, &|call| call.agent_id = Some("nobody".to_owned())),
            ("/tool", FaultKind::Invalid, &|call| call.tool = String::new()),
            ("/wait", FaultKind::Invalid, &|call| call.wait = Some(u64::MAX)),
        ];
        let before = world.count("calls").await;
        for (pointer, kind, change) in cases {
            let mut call = CallRequest::new("script", json!({}));
            change(&mut call);
            let fault = world.send(&owner, call).await.unwrap_err();
            assert_eq!((fault.pointer(), fault.kind()), (Some(pointer), kind), "{fault:?}");
        }
        // Another's run and another's agent look like none.
        let (agent, _) = world.agent("of-the-owner", json!({})).await;
        let in_run = request("script", json!({}), |call| call.run_id = Some(run.id));
        assert_eq!(world.send(&stranger, in_run).await.unwrap_err().kind(), FaultKind::NotFound);
        let as_agent = request("script", json!({}), |call| call.agent_id = Some(agent.id.to_string()));
        assert_eq!(world.send(&stranger, as_agent).await.unwrap_err().kind(), FaultKind::NotFound);
        let viewer = world.with_key(permissions(&[Permission::TOOLS_READ, Permission::CALLS_READ_OWN]));
        let fault = world.send(&viewer, CallRequest::new("script", json!({}))).await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Forbidden);
        assert_eq!(world.count("calls").await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_free_quick_call_costs_one_commit() {
    every_world(async |world| {
        let envelope = world.call("strict", json!({"n": 4, "value": {"n": 7}})).await;
        let record = world.check_record(&envelope).await;
        assert_eq!(record.status, Status::Completed);
        assert_eq!(record.input, Some(json!({"n": 4, "unit": "m", "act": "give", "value": {"n": 7}})), "defaults");
        assert_eq!((record.attempts, record.holder.as_deref()), (1, None), "it was never a running row");
        assert_eq!((world.count("calls").await, world.count("events").await), (1, 1), "one packed row of events");
        assert_eq!(world.event_types(envelope.run_id).await, ["tool.started", "tool.completed"]);
        assert_eq!(world.actions(envelope.id).await, ["call.completed"]);
        assert_eq!(record.run.uuid(), record.id.uuid(), "the run of a lone call has its id");

        let seen = world.call("script", json!({"act": "look"})).await;
        assert_eq!(world.runner.seen().status, None, "no row while it runs: {seen:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_call_is_a_running_row_first() {
    every_world(async |world| {
        let id = world.begin(&world.owner(), CallRequest::new("script", json!({"act": "hang"}))).await;
        let record = world.record(id).await;
        assert_eq!((record.status, record.holder.is_some()), (Status::Running, true));
        assert_eq!(world.event_types(record.run).await, ["tool.started"]);
        assert_eq!(world.actions(id).await, [""; 0], "an effect-free call has no intent");
        world.runner.release();
        let record = world.ended(id).await;
        assert_eq!(record.status, Status::Completed);
        world.check_record(&world.engine.answer(world.tenant, id).await.unwrap()).await;
        assert_eq!(world.event_types(record.run).await, ["tool.started", "tool.completed"]);
        assert_eq!(world.actions(id).await, ["call.completed"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_changes_something_is_on_record_before_it_runs() {
    every_world(async |world| {
        for (act, status, actions) in [
            ("look", Status::Completed, ["call.completed", "call.intent"]),
            ("unknown", Status::OutcomeUnknown, ["call.intent", "call.outcome_unknown"]),
        ] {
            let envelope = world.call("note", json!({"act": act})).await;
            assert_eq!(envelope.status, status, "{envelope:?}");
            let record = world.check_record(&envelope).await;
            let seen = world.runner.seen();
            assert_eq!((seen.status, seen.actions), (Some(Status::Running), vec!["call.intent".to_owned()]));
            assert_eq!(world.actions(envelope.id).await, actions);
            let intents = world.entries(envelope.id).await;
            let intent = intents.iter().find(|entry| entry["action"] == "call.intent").unwrap();
            assert_eq!(record.decision["intent"], intent["id"], "the record names its intent");
            assert_eq!(intent["details"]["status"], "running");
            let outcome = intents.iter().find(|entry| entry["action"] != "call.intent").unwrap();
            assert_eq!(intent["details"]["input"], outcome["details"]["input"], "the same input");
        }
        let failed = world.call("note", json!({"act": "fail", "error": network()})).await;
        assert_eq!(world.check_record(&failed).await.status, Status::Failed);
        assert_eq!(world.actions(failed.id).await, ["call.failed", "call.intent"]);
    })
    .await;
}

fn network() -> Value {
    json!({"code": "NETWORK_ERROR", "message": "reset", "details": {"reason": "reset"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_in_passing_is_tried_again_only_where_nothing_can_have_happened() {
    every_world(async |world| {
        let failing = |code: &str, reason: &str, retry_after_s: Option<u64>| {
            json!({"code": code, "message": "no", "details": {"reason": reason}, "retry_after_s": retry_after_s})
        };
        // tool, error, how often it fails; runs, how it ends
        let cases = [
            ("script", failing("NETWORK_ERROR", "reset", None), 2, 3, Status::Completed),
            ("script", failing("NETWORK_ERROR", "dns", None), 9, 3, Status::Failed),
            ("script", failing("PROVIDER_ERROR", "upstream_5xx", None), 1, 2, Status::Completed),
            ("script", failing("PROVIDER_ERROR", "upstream_4xx", None), 1, 1, Status::Failed),
            ("script", failing("RATE_LIMIT", "upstream", Some(0)), 1, 2, Status::Completed),
            ("script", failing("RATE_LIMIT", "upstream", Some(31)), 1, 1, Status::Failed),
            ("script", failing("VALIDATION_ERROR", "schema", None), 1, 1, Status::Failed),
            ("note", failing("NETWORK_ERROR", "reset", None), 1, 1, Status::Failed),
            ("note", failing("PROVIDER_ERROR", "upstream_5xx", None), 1, 1, Status::Failed),
            ("note", failing("RATE_LIMIT", "upstream", Some(0)), 1, 1, Status::Failed),
        ];
        let checks = cases.into_iter().enumerate().map(|(number, (tool, error, times, runs, status))| {
            let world = &world;
            async move {
                let key = format!("retry-{number}");
                let input = json!({"act": "fail", "key": key, "error": error, "times": times});
                let envelope = world.call(tool, input.clone()).await;
                assert_eq!((world.runner.runs(&key), envelope.status), (runs, status), "{tool} {input}");
                let record = world.check_record(&envelope).await;
                assert_eq!(record.attempts, runs);
                let ran = world.runner.call_ids();
                assert_eq!(ran.iter().filter(|id| **id == envelope.call_id).count(), runs as usize, "one call_id");
                assert_eq!(world.event_types(envelope.run_id).await.len(), 2, "attempts are not events");
            }
        });
        futures_util::future::join_all(checks).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_id_is_the_same_call() {
    every_world(async |world| {
        let owner = world.owner();
        let note =
            |key: &str, id: &str| request("note", json!({"key": key}), |call| call.request_id = Some(id.to_owned()));
        let first = world.send(&owner, note("a", "r1")).await.unwrap();
        let patient = CallRequest { wait: Some(1), ..note("a", "r1") };
        for again in [note("a", "r1"), patient] {
            let again = world.send(&owner, again).await.unwrap();
            assert_eq!((again.id, &again.output), (first.id, &first.output));
            assert_eq!(again.receipt.unwrap().entry_digest, first.receipt.as_ref().unwrap().entry_digest);
        }
        assert_eq!(world.runner.runs("a"), 1);
        let others: [CallRequest; 3] = [
            note("b", "r1"),
            CallRequest { tool: "script".to_owned(), ..note("a", "r1") },
            CallRequest { mode: Mode::DryRun, ..note("a", "r1") },
        ];
        for other in others {
            let fault = world.send(&owner, other).await.unwrap_err();
            assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Conflict, Some("/request_id")));
        }
        // Another principal's, and another tenant's, are their own.
        let member = world.member();
        let theirs = world.send(&member, note("c", "r1")).await.unwrap();
        assert_ne!(theirs.id, first.id);
        let next_door = world.send(&world.owner_next_door(), note("d", "r1")).await.unwrap();
        assert_ne!(next_door.id, first.id);
        // A refusal is an answer too.
        let denied = request("asking", json!({}), |call| {
            call.request_id = Some("r2".to_owned());
            call.wait = Some(0);
        });
        let refused = world.send(&owner, denied.clone()).await.unwrap();
        assert_eq!(world.send(&owner, denied).await.unwrap().id, refused.id);
        // For a day.
        world.clock.advance(24 * 60 * 60 - 1);
        assert_eq!(world.send(&owner, note("a", "r1")).await.unwrap().id, first.id);
        world.clock.advance(1);
        let anew = world.send(&owner, note("e", "r1")).await.unwrap();
        assert_ne!(anew.id, first.id);
        assert_eq!((world.runner.runs("a"), world.runner.runs("e")), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_of_one_request_at_once_run_once_on_two_replicas() {
    every_world(async |world| {
        let other = world.replica().await;
        let owner = world.owner();
        world.limits(json!({"max_budget": "0.01"})).await;
        other.registry.refresh().await.unwrap();
        // A quick one, a slow one, one without effect, one with a budget for one, a plan.
        let cases = [
            ("note", json!({"key": "quick"}), Mode::Execute),
            ("note", json!({"key": "slow", "act": "slow"}), Mode::Execute),
            ("script", json!({"key": "free"}), Mode::Execute),
            ("priced_note", json!({"key": "dear", "act": "slow"}), Mode::Execute),
            ("strict", json!({"n": -1}), Mode::Execute),
            ("writes", json!({"key": "planned"}), Mode::DryRun),
        ];
        for (number, (tool, input, mode)) in cases.into_iter().enumerate() {
            let call = request(tool, input.clone(), |call| {
                call.request_id = Some(format!("r{number}"));
                call.mode = mode;
            });
            let (here, there) = tokio::join!(world.at_once(&owner, 25, &call), other.at_once(&owner, 25, &call));
            let answers: Vec<_> = here.into_iter().chain(there).collect();
            let faults: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
            assert!(faults.is_empty(), "{tool} {input}: {} faults, {:?}", faults.len(), faults.first());
            let first = answers[0].as_ref().unwrap();
            for answer in &answers {
                let answer = answer.as_ref().unwrap();
                assert_eq!((answer.id, answer.status), (first.id, first.status), "{tool} {input}");
                assert_eq!((&answer.output, &answer.error), (&first.output, &first.error));
            }
            if tool != "script" && mode == Mode::Execute && tool != "strict" {
                assert_eq!(world.runner.runs(input["key"].as_str().unwrap()), 1, "{tool} {input}");
            }
            world.check_record(first).await;
        }
        assert_eq!(world.balance("tenant:2026-11").await, (0, 10_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_in_a_run_is_one_call() {
    every_world(async |world| {
        let owner = world.owner();
        let run = world.run(&owner, json!({"max_tool_calls": 1000})).await;
        let at = |seq: u32, key: &str| {
            request("note", json!({"key": key}), |call| (call.run_id, call.seq) = (Some(run.id), Some(seq)))
        };
        let first = world.send(&owner, at(5, "a")).await.unwrap();
        assert_eq!(world.send(&owner, at(5, "a")).await.unwrap().id, first.id);
        assert_eq!(world.runner.runs("a"), 1);
        let fault = world.send(&owner, at(5, "b")).await.unwrap_err();
        assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Conflict, Some("/seq")));
        let next = request("note", json!({"key": "c"}), |call| call.run_id = Some(run.id));
        let next = world.send(&owner, next).await.unwrap();
        assert_eq!(world.record(next.id).await.seq, 6, "the next place lies behind");
        // The same place with the same tool and input has the same call_id, and runs once, whoever asks at once.
        let answers = world.at_once(&owner, 30, &at(9, "once")).await;
        let ids: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(world.runner.runs("once"), 1);
        // call_id is made of tool, input, place and run.
        let other = world.run(&owner, json!({})).await;
        let elsewhere =
            request("note", json!({"key": "a"}), |call| (call.run_id, call.seq) = (Some(other.id), Some(5)));
        assert_ne!(world.send(&owner, elsewhere).await.unwrap().call_id, first.call_id);
        assert!(first.call_id.starts_with("c_") && first.call_id.len() == 28, "{}", first.call_id);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_runs_at_once_and_answers_in_order() {
    every_world(async |world| {
        let owner = world.owner();
        let mut calls: Vec<CallRequest> =
            (0..20).map(|n| CallRequest::new("script", json!({"act": "slow", "value": n}))).collect();
        calls.insert(3, CallRequest::new("no_such_tool", json!({})));
        calls.insert(7, CallRequest::new("strict", json!({})));
        let answers = world.engine.submit_all(&owner, Source::Api, calls).await.unwrap();
        assert_eq!(answers.len(), 22);
        assert_eq!(answers[3].as_ref().unwrap_err().kind(), FaultKind::NotFound);
        assert_eq!(error(answers[7].as_ref().unwrap()), (ErrorCode::ValidationError, "schema"));
        let outputs: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()?.output.clone()).collect();
        assert_eq!(outputs, (0..20).map(Value::from).collect::<Vec<_>>());
        for count in [0, 101] {
            let calls = vec![CallRequest::new("script", json!({})); count];
            let fault = world.engine.submit_all(&owner, Source::Api, calls).await.unwrap_err();
            assert_eq!(fault.pointer(), Some("/calls"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_name_works_and_warns() {
    every_world(async |world| {
        let envelope = world.call("older", json!({})).await;
        assert_eq!((envelope.name.as_str(), envelope.warnings.len()), ("old", 1), "{envelope:?}");
        assert!(envelope.warnings[0].contains("older"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_never_meet() {
    every_world(async |world| {
        let (owner, next_door) = (world.owner(), world.owner_next_door());
        let run = world.run(&owner, json!({})).await;
        let call = request("note", json!({"key": "mine"}), |call| call.run_id = Some(run.id));
        let mine = world.send(&owner, call.clone()).await.unwrap();
        let hanging = world.begin(&owner, CallRequest::new("note", json!({"act": "hang", "key": "h"}))).await;
        world.external("ours", false, json!({})).await;

        assert_eq!(world.send(&next_door, call).await.unwrap_err().kind(), FaultKind::NotFound);
        for id in [mine.id.to_string(), mine.call_id.clone(), hanging.to_string()] {
            assert_eq!(world.engine.readable(&next_door, &id).await.unwrap_err().kind(), FaultKind::NotFound);
            assert_eq!(world.engine.cancel(&next_door, &id).await.unwrap_err().kind(), FaultKind::NotFound);
        }
        assert_eq!(world.engine.show_run(&next_door, run.id).await.unwrap_err().kind(), FaultKind::NotFound);
        let filter = toolgate_store::calls::CallFilter::default();
        assert!(world.engine.list_calls(&next_door, &filter, None, 100).await.unwrap().items.is_empty());
        assert!(world.engine.list_runs(&next_door, RunFilter::default(), None, 100).await.unwrap().items.is_empty());
        assert!(world.engine.events(world.neighbour, run.id, 0).await.unwrap().is_empty());
        let lease = LeaseRequest { tools: vec!["ours".to_owned()], wait: None };
        assert_eq!(world.engine.lease(&next_door, lease).await.unwrap_err().kind(), FaultKind::NotFound);
        // A page's cursor of one tenant means nothing in another.
        world.call("script", json!({})).await;
        let page = world.engine.list_calls(&owner, &filter, None, 1).await.unwrap();
        let cursor = page.next_cursor.unwrap();
        let fault = world.engine.list_calls(&next_door, &filter, Some(&cursor), 1).await;
        assert!(fault.is_err() || fault.unwrap().items.is_empty());
        world.runner.release();
        world.ended(hanging).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_shows_what_a_call_would_not_refuse() {
    every_world(async |world| {
        world.profile(json!({"name": "some", "deny_tools": ["note"]})).await;
        let (agent, key) = world.agent("some", json!({"profile": "some", "limits": {"side_effects": "reads"}})).await;
        let _ = agent;
        let today = world.clock.now().day();
        let snapshot = world.registry.snapshot();
        let registry = snapshot.tenant(world.tenant).unwrap();
        for caller in [world.owner(), world.member(), key] {
            let view = toolgate_registry::toolset::View::of(registry, &caller, &today).unwrap();
            let listed: Vec<String> = view.tools().map(|(tool, _)| tool.name.to_string()).collect();
            let names: Vec<String> = registry.tools().map(|tool| tool.tool.name.to_string()).collect();
            let calls = names.iter().map(|name| {
                let (engine, caller, name) = (world.engine.clone(), caller.clone(), name.clone());
                async move {
                    engine
                        .submit(
                            &caller,
                            Source::Api,
                            request(&name, json!({"n": 1, "value": {"n": 1, "rows": []}}), |call| call.wait = Some(0)),
                        )
                        .await
                }
            });
            for (name, answer) in names.iter().zip(all(calls.collect::<Vec<_>>()).await) {
                let runs = match &answer {
                    Err(fault) => {
                        assert_eq!(fault.kind(), FaultKind::NotFound, "{name}");
                        false
                    }
                    Ok(envelope) => {
                        let reason = envelope.error.as_ref().map_or("", ToolError::reason);
                        !matches!(reason, "side_effects" | "blocked" | "frozen" | "not_found")
                    }
                };
                assert_eq!(listed.contains(name), runs, "{name} for {}: {answer:?}", caller.display_name);
            }
        }
    })
    .await;
}
