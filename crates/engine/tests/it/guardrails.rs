//! Guardrails in the path: on arguments they ask or stop, on results they withhold, and what cannot look stops.

use serde_json::{Value, json};
use toolgate_contracts::guardrail::Guardrail;
use toolgate_contracts::{Caller, Envelope, ErrorCode, FaultKind, Permission, Status};
use toolgate_registry::commands::Reach;

use crate::world::{World, error, every_world, request};

/// Looks like a key of somebody's, and is nobody's.
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

impl World {
    pub async fn guardrail(&self, guardrail: Value) {
        self.registry.put_guardrail(&self.owner(), read(guardrail)).await.unwrap();
    }

    pub async fn no_guardrails(&self) {
        for kept in self.registry.guardrails(&self.owner()).unwrap() {
            self.registry.delete_guardrail(&self.owner(), &kept.name).await.unwrap();
        }
    }
}

fn read(guardrail: Value) -> Guardrail {
    toolgate_contracts::json::decode(guardrail).unwrap()
}

fn builtin(name: &str, stage: &str, detector: &str, on_match: &str, more: Value) -> Value {
    let mut guardrail = json!({
        "name": name, "stage": stage, "detector": {"kind": "builtin", "name": detector}, "on_match": on_match,
    });
    guardrail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    guardrail
}

fn by_tool(name: &str, stage: &str, on_match: &str, more: Value) -> Value {
    builtin(
        name,
        stage,
        "look",
        on_match,
        json!({"detector": {"kind": "tool", "name": "look"}, "tools": ["script", "note", "writes"]}),
    )
    .as_object()
    .cloned()
    .map(|mut guardrail| {
        guardrail.extend(more.as_object().unwrap().clone());
        Value::Object(guardrail)
    })
    .unwrap()
}

#[track_caller]
fn stopped_by(envelope: &Envelope, guardrail: &str) {
    assert_eq!((envelope.status, error(envelope)), (Status::Failed, (ErrorCode::PolicyDenied, "guardrail")));
    let told = envelope.error.as_ref().unwrap();
    assert_eq!(told.details.as_ref().unwrap()["guardrail"], guardrail);
    assert!(!told.message.contains(KEY), "what was found is not told: {}", told.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_stopped_asked_about_or_logged() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let bad = json!({"text": KEY, "key": "g"});
        world.guardrail(builtin("keys", "TOOL_CALL", "secrets", "tripwire", json!({"tools": ["script"]}))).await;
        let stopped = world.call_as(&ada, "script", bad.clone()).await;
        stopped_by(&stopped, "keys");
        assert_eq!(stopped.error.as_ref().unwrap().details.as_ref().unwrap()["paths"], json!(["/text"]));
        world.check_record(&stopped).await;
        assert_eq!(world.call_as(&ada, "reads", bad.clone()).await.status, Status::Completed, "another tool");
        assert_eq!(world.call_as(&ada, "script", json!({"text": "fine"})).await.status, Status::Completed);
        // The arguments of a dry run are looked at too.
        let dry = request("script", bad.clone(), |call| call.mode = toolgate_contracts::Mode::DryRun);
        stopped_by(&world.send(&ada, dry).await.unwrap(), "keys");

        world.guardrail(builtin("keys", "TOOL_CALL", "secrets", "ask", json!({"tools": ["script"]}))).await;
        let runs = world.runner.runs("g");
        let call = world.park(&ada, "script", bad.clone()).await;
        let card = world.card(&ben, call).await;
        assert_eq!((card.reasons[0].code.as_str(), card.reasons[0].by.as_deref()), ("guardrail", Some("keys")));
        world.approve(&ben, call).await.unwrap();
        assert_eq!((world.ended(call).await.status, world.runner.runs("g")), (Status::Completed, runs + 1));

        // Tightened while it waits: it is looked at again when it would run.
        let call = world.park(&ada, "script", bad.clone()).await;
        world.guardrail(builtin("keys", "TOOL_CALL", "secrets", "tripwire", json!({"tools": ["script"]}))).await;
        world.approve(&ben, call).await.unwrap();
        let record = world.ended(call).await;
        assert_eq!((record.status, world.runner.runs("g")), (Status::Rejected, runs + 1));

        // Only logged: recorded, and no effect; of what writes it is enforced all the same.
        world.guardrail(builtin("keys", "TOOL_CALL", "secrets", "tripwire", json!({"log_only": true}))).await;
        let logged = world.call_as(&ada, "script", bad.clone()).await;
        assert_eq!(logged.status, Status::Completed);
        let decision = world.check_record(&logged).await.decision;
        assert!(decision["logged"].to_string().contains("guardrail keys"), "{decision}");
        stopped_by(&world.call_as(&ada, "writes", bad.clone()).await, "keys");
        assert_eq!(world.runner.runs("g"), runs + 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_look_in_their_order_and_where_they_are_demanded() {
    every_world(async |world| {
        world.guardrail(builtin("b-second", "TOOL_CALL", "secrets", "tripwire", json!({"order": 2}))).await;
        world
            .guardrail(builtin(
                "c-first",
                "TOOL_CALL",
                "regex",
                "tripwire",
                json!({"order": 1, "detector": {"kind": "builtin", "name": "regex", "config": {"pattern": "AKIA"}}}),
            ))
            .await;
        let names: Vec<String> =
            world.registry.guardrails(&world.owner()).unwrap().into_iter().map(|kept| kept.name).collect();
        assert_eq!(names, ["c-first", "b-second"]);
        stopped_by(&world.call("script", json!({"text": KEY})).await, "c-first");
        world.registry.delete_guardrail(&world.owner(), "c-first").await.unwrap();
        stopped_by(&world.call("script", json!({"text": KEY})).await, "b-second");
        world.no_guardrails().await;

        // A tool demands one by the name of a builtin detector, and a profile one of the tenant's.
        world.publish("careful", json!({"guardrails": ["secrets"]})).await;
        stopped_by(&world.call("careful", json!({"text": KEY})).await, "secrets");
        assert_eq!(world.call("careful", json!({"text": "fine"})).await.status, Status::Completed);
        assert_eq!(world.call("script", json!({"text": KEY})).await.status, Status::Completed);
        world
            .guardrail(builtin(
                "short",
                "TOOL_CALL",
                "size",
                "tripwire",
                json!({"tools": ["note"], "detector": {"kind": "builtin", "name": "size", "config": {"bytes": 200}}}),
            ))
            .await;
        world.profile(json!({"name": "watched", "guardrails": ["short"]})).await;
        let (_, watched) = world.agent("watched", json!({"profile": "watched"})).await;
        let long = json!({"text": "x".repeat(500)});
        stopped_by(&world.call_as(&watched, "script", long.clone()).await, "short");
        assert_eq!(world.call("script", long.clone()).await.status, Status::Completed, "nobody else is watched there");
        // What demands it keeps it; what is demanded and not there stops.
        let refused = world.registry.delete_guardrail(&world.owner(), "short").await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Conflict);
        let missing = toolgate_contracts::json::decode(json!({"name": "lost", "guardrails": ["nothing"]})).unwrap();
        let refused = world.registry.put_profile(&world.owner(), missing).await.unwrap_err();
        assert_eq!((refused.kind(), refused.pointer()), (FaultKind::Invalid, Some("/guardrails/0")));
        world.publish("lost", json!({"guardrails": ["nothing"]})).await;
        let stopped = world.call("lost", json!({})).await;
        assert_eq!(error(&stopped), (ErrorCode::PolicyDenied, "guardrail"));
        assert!(stopped.error.unwrap().message.contains("nothing"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_look_is_not_saved() {
    every_world(async |world| {
        let owner = world.owner();
        let tool = |name: &str| json!({"detector": {"kind": "tool", "name": name}});
        let cases = [
            (builtin("a", "TOOL_CALL", "secretz", "ask", json!({})), "/detector/name"),
            (
                builtin(
                    "a",
                    "TOOL_CALL",
                    "size",
                    "ask",
                    json!({"detector": {"kind": "builtin", "name": "size", "config": {"most": 1}}}),
                ),
                "/detector/config",
            ),
            (
                builtin("a", "TOOL_CALL", "", "ask", json!({"detector": {"kind": "wasm", "name": "x"}})),
                "/detector/name",
            ),
            (
                // A tool, and no plug-in runs it.
                builtin("a", "TOOL_CALL", "", "ask", json!({"detector": {"kind": "wasm", "name": "note"}})),
                "/detector/name",
            ),
            (builtin("a", "TOOL_CALL", "", "ask", tool("nothing")), "/detector/name"),
            (builtin("a", "TOOL_CALL", "", "ask", tool("note")), "/detector/name"),
            (builtin("a", "TOOL_CALL", "", "ask", tool("writes")), "/detector/name"),
            (builtin("a", "TOOL_CALL", "", "ask", tool("asking")), "/detector/name"),
            (builtin("a", "TOOL_CALL", "", "ask", tool("always_asking")), "/detector/name"),
            (builtin("a", "TOOL_CALL", "secrets", "ask", json!({"tools": ["nothing"]})), "/tools/0"),
            (builtin("a", "TOOL_CALL", "secrets", "ask", json!({"tools": []})), "/tools"),
            (builtin("a", "TOOL_CALL", "secrets", "ask", json!({"version": 2})), "/version"),
        ];
        for (guardrail, pointer) in cases {
            let refused = world.registry.put_guardrail(&owner, read(guardrail.clone())).await.unwrap_err();
            assert!(refused.pointer().is_some_and(|at| at.starts_with(pointer)), "{guardrail}: {refused:?}");
        }
        assert!(world.registry.guardrails(&owner).unwrap().is_empty());
        let fine = builtin("a", "TOOL_CALL", "secrets", "ask", json!({"tools": ["OLDER"]}));
        for who in [world.member(), world.with_key([Permission::POLICIES_EDIT].into_iter().collect())] {
            let refused = world.registry.put_guardrail(&who, read(fine.clone())).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Forbidden);
        }
        let editor = world.with_key([Permission::GUARDRAILS_EDIT].into_iter().collect());
        let logged = builtin("a", "TOOL_CALL", "secrets", "ask", json!({"log_only": true}));
        assert_eq!(world.registry.put_guardrail(&editor, read(logged)).await.unwrap_err().kind(), FaultKind::Forbidden);
        let (kept, _) = world.registry.put_guardrail(&editor, read(fine)).await.unwrap();
        assert_eq!(kept.tools, Some(vec!["old".to_owned()]), "by its own name");
        // Tried out, nothing is stopped.
        let guardrail = read(builtin("a", "TOOL_CALL", "secrets", "tripwire", json!({})));
        let found = world.engine.try_guardrail(&editor, guardrail.clone(), None, json!({"a": [KEY]})).await.unwrap();
        assert_eq!((found.matched, found.paths.as_slice()), (true, &["/a/0".to_owned()][..]));
        assert!(!world.engine.try_guardrail(&editor, guardrail, None, json!({"a": 1})).await.unwrap().matched);
    })
    .await;
}

/// Nothing of a withheld result is left: not in the answer, the record, events, output as it comes, the cache, or blobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withheld_result_is_nowhere() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        for on_match in ["tripwire", "ask"] {
            world.guardrail(builtin("leaks", "TOOL_RESULT", "secrets", on_match, json!({}))).await;
            let secret = json!({"found": KEY});
            let far = json!({"rows": vec!["x".repeat(100); 50], "last": KEY});
            let cases = [
                ("script", json!({"value": secret})),
                ("note", json!({"value": secret})),
                ("small", json!({"value": far})),
                ("script", json!({"act": "attach", "bytes": format!("text {KEY} text"), "value": {}})),
                ("script", json!({"act": "stream", "lines": [KEY, "more"], "value": secret})),
                ("script", json!({"act": "result", "result": {"content": [{"type": "text", "text": KEY}]}})),
                ("cached", json!({"value": secret, "key": on_match})),
            ];
            for (tool, input) in cases {
                let envelope = world.call_as(&ada, tool, input.clone()).await;
                assert_eq!(
                    (envelope.status, error(&envelope)),
                    (Status::Completed, (ErrorCode::PolicyDenied, "result_withheld")),
                    "{tool} {input}"
                );
                nothing_of_it(&world, &envelope).await;
                world.check_record(&envelope).await;
            }
            // From the cache it would be looked at again; it is not even kept there.
            let again = world.call_as(&ada, "cached", json!({"value": secret, "key": on_match})).await;
            assert!(!again.cached, "a withheld result is not cached");
            assert_eq!(world.runner.runs(on_match), 2);
            // A write happened: it stays completed, and nobody is told to repeat it.
            let call = world.park(&ada, "writes", json!({"value": secret, "key": format!("w {on_match}")})).await;
            world.approve(&ben, call).await.unwrap();
            let record = world.ended(call).await;
            assert_eq!((record.status, record.output), (Status::Completed, None));
            assert!(record.error.unwrap().message.contains("do not run it again"));
            assert_eq!(world.runner.runs(&format!("w {on_match}")), 1);
        }
        // The words of a failure are read, too: it stays a failure.
        let fails = json!({"act": "fail", "error": {"code": "PROVIDER_ERROR", "message": format!("no {KEY}"), "details": {"reason": "upstream_4xx"}}});
        for input in [fails, json!({"act": "result", "result": {"content": [{"type": "text", "text": KEY}], "is_error": true}})] {
            let failed = world.call_as(&ada, "script", input).await;
            assert_eq!((failed.status, error(&failed)), (Status::Failed, (ErrorCode::ProviderError, "upstream_4xx")));
            nothing_of_it(&world, &failed).await;
        }
        assert_eq!(world.count("blobs").await, 0);

        world.guardrail(builtin("leaks", "TOOL_RESULT", "secrets", "tripwire", json!({"log_only": true}))).await;
        let logged = world.call_as(&ada, "script", json!({"value": {"found": KEY}})).await;
        assert_eq!((logged.status, logged.error), (Status::Completed, None));
        let call = world.park(&ada, "writes", json!({"value": {"found": KEY}})).await;
        world.approve(&ben, call).await.unwrap();
        let record = world.ended(call).await;
        assert_eq!(record.error.unwrap().reason(), "result_withheld", "only logging never loosens a write");
    })
    .await;
}

async fn nothing_of_it(world: &World, envelope: &Envelope) {
    let mut told = serde_json::to_value(envelope).unwrap();
    // What the caller said is theirs.
    told.as_object_mut().unwrap().remove("input");
    let record = world.record(envelope.id).await;
    let kept = json!([record.output, record.error, record.decision]);
    let events = serde_json::to_value(world.events(envelope.run_id).await).unwrap();
    let entries = Value::Array(world.entries(envelope.id).await);
    for (what, value) in [("answer", &told), ("record", &kept), ("events", &events), ("log", &entries)] {
        assert!(!value.to_string().contains("AKIA"), "{what}: {value}");
    }
    assert!(envelope.attachments.is_empty() && record.attachments.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_reports_is_looked_at() {
    every_world(async |world| {
        let worker = world.worker();
        world.external("elsewhere_note", true, json!({})).await;
        world.guardrail(builtin("leaks", "TOOL_RESULT", "secrets", "tripwire", json!({}))).await;
        let record = request("elsewhere_note", json!({}), |call| call.mode = toolgate_contracts::Mode::Record);
        for (report, status, reason) in [
            (json!({"status": "completed", "output": {"found": KEY}}), Status::Completed, "result_withheld"),
            (json!({"status": "failed", "error": {"code": "PROVIDER_ERROR", "message": KEY, "details": {"reason": "upstream_4xx"}}}), Status::Failed, "upstream_4xx"),
        ] {
            let begun = world.send(&worker, record.clone()).await.unwrap();
            assert_eq!(begun.status, Status::Running);
            let report = toolgate_contracts::json::decode(report).unwrap();
            let ended = world.engine.complete_recorded(&worker, &begun.id.to_string(), report).await.unwrap();
            assert_eq!((ended.status, error(&ended).1), (status, reason));
            assert!(!serde_json::to_string(&ended).unwrap().contains("AKIA"));
        }
    })
    .await;
}

/// A detector that is a tool says what it finds by its output; here that is the very value it was given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_looks_is_asked_and_its_failure_stops() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world.publish("look", json!({})).await;
        let found = json!({"matched": true, "reason": "it is odd", "paths": ["/x"]});
        world.guardrail(by_tool("looks", "TOOL_CALL", "tripwire", json!({}))).await;
        let runs = world.runner.runs("look");
        stopped_by(&world.call_as(&ada, "script", found.clone()).await, "looks");
        assert_eq!(world.call_as(&ada, "script", json!({"matched": false})).await.status, Status::Completed);
        assert_eq!(world.runner.runs("look"), runs + 2);
        assert_eq!(
            world.call_as(&ada, "reads", found.clone()).await.status,
            Status::Completed,
            "it is not about this tool"
        );
        // Whatever is no answer is a match.
        for odd in [json!({}), json!({"matched": "no"}), json!({"matched": false, "more": 1})] {
            let stopped = world.call_as(&ada, "script", odd.clone()).await;
            stopped_by(&stopped, "looks");
            let told = stopped.error.unwrap().message;
            assert!(told.contains("did not answer"), "{odd}");
            // The caller did nothing wrong, and is told who can do something.
            assert!(told.contains("could not run") && told.contains("`guardrails.edit`"), "{told}");
            assert!(!told.contains("change the arguments"), "{told}");
        }
        // Nobody is asked what nobody looked at.
        world.guardrail(by_tool("looks", "TOOL_CALL", "ask", json!({}))).await;
        stopped_by(&world.call_as(&ada, "script", json!({})).await, "looks");
        // It asks.
        world.guardrail(by_tool("looks", "TOOL_CALL", "ask", json!({}))).await;
        let call = world.park(&ada, "script", found.clone()).await;
        assert_eq!(world.card(&ben, call).await.reasons[0].by.as_deref(), Some("looks"));
        world.approve(&ben, call).await.unwrap();
        assert_eq!(world.ended(call).await.status, Status::Completed, "asked before, and nothing new");
        // What a person changed is looked at before it runs.
        let call = world.park(&ada, "asking", json!({"matched": false})).await;
        world.guardrail(by_tool("looks", "TOOL_CALL", "tripwire", json!({"tools": ["asking"]}))).await;
        let edited = json!({"decision": "approve", "input": found, "reason": "so"});
        let _ = world.decide(&ben, call, edited).await;
        crate::world::eventually("it is decided", async || world.record(call).await.status != Status::Approved).await;
        assert_eq!(world.runner.runs("asking"), 0, "{:?}", world.record(call).await.status);

        // On results; detectors do not look at each other.
        world.guardrail(by_tool("looks", "TOOL_RESULT", "tripwire", json!({}))).await;
        world
            .guardrail(builtin(
                "also",
                "TOOL_RESULT",
                "",
                "tripwire",
                json!({"detector": {"kind": "tool", "name": "look"}}),
            ))
            .await;
        world.publish("look_too", json!({})).await;
        world
            .guardrail(builtin(
                "too",
                "TOOL_RESULT",
                "",
                "tripwire",
                json!({"detector": {"kind": "tool", "name": "look_too"}}),
            ))
            .await;
        let withheld = world.call_as(&ada, "script", json!({"value": found})).await;
        assert_eq!(error(&withheld).1, "result_withheld");
        let fine = world.call_as(&ada, "script", json!({"value": {"matched": false}})).await;
        assert_eq!(fine.status, Status::Completed, "{:?}", fine.error);
        let own = world.call_as(&ada, "look", json!({"value": {"matched": false}})).await;
        assert_eq!(own.status, Status::Completed, "a detector can be called like any tool: {:?}", own.error);
        // A builtin one does not look at what a detector is asked.
        world.guardrail(builtin("keys", "TOOL_CALL", "secrets", "ask", json!({"tools": ["look"]}))).await;
        let through = world.call_as(&ada, "script", json!({"value": {"matched": false, "reason": KEY}})).await;
        assert_eq!(through.status, Status::Completed, "{:?}", through.error);

        // Gone, it stops.
        let name = "look".parse().unwrap();
        world.registry.set_enabled(&world.owner(), &name, false, Reach::ThisTenant).await.unwrap();
        let stopped = world.call_as(&ada, "script", json!({"value": {"matched": false}})).await;
        assert_eq!(error(&stopped).1, "result_withheld");
        let told = stopped.error.unwrap().message;
        assert!(told.contains("could not run") && told.contains("`guardrails.edit`"), "{told}");
    })
    .await;
}

/// Whom a detector is asked for sees nothing of what it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detector_labels_nobody() {
    every_world(async |world| {
        world.publish("look", json!({"labels": {"adds": ["untrusted", "private"]}})).await;
        world.guardrail(by_tool("looks", "TOOL_CALL", "tripwire", json!({}))).await;
        let owner: Caller = world.owner();
        let call = world.call_as(&owner, "script", json!({"matched": false})).await;
        assert_eq!((call.status, call.labels), (Status::Completed, vec![]));
        assert_eq!(world.engine.label_contexts(&owner).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detector_that_nothing_here_runs_is_refused() {
    every_world(async |world| {
        let owner = world.owner();
        world.publish("look", json!({})).await;
        world.external("leased", false, json!({})).await;
        world
            .publish(
                "asks_elsewhere",
                json!({"egress_class": "read_only", "runner": {"kind": "http", "method": "GET", "url": "https://a.example/"}}),
            )
            .await;
        for (detector, runs) in [("look", true), ("leased", true), ("asks_elsewhere", false)] {
            let guardrail = json!({
                "name": "g", "stage": "TOOL_CALL", "detector": {"kind": "tool", "name": detector}, "on_match": "ask",
            });
            let checked = world.engine.check_detector_runs(&owner, &read(guardrail));
            assert_eq!(checked.is_ok(), runs, "{detector}");
            if let Err(fault) = checked {
                assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Invalid, Some("/detector/name")));
                assert!(fault.told().contains("tools of kind `http` cannot run on this server"), "{}", fault.told());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_have_been_withheld_is_in_the_log() {
    every_world(async |world| {
        let (ada, _) = world.two().await;
        world
            .guardrail(builtin(
                "tried",
                "TOOL_RESULT",
                "secrets",
                "tripwire",
                json!({"log_only": true, "tools": ["script"]}),
            ))
            .await;
        let shown = world.call_as(&ada, "script", json!({"value": {"text": KEY}})).await;
        assert_eq!(shown.status, Status::Completed, "{:?}", shown.error);
        assert!(shown.output.unwrap().to_string().contains(KEY));
        let entries = world.entries(shown.id).await;
        let outcome = entries.last().unwrap();
        assert_eq!(outcome["details"]["logged"], json!(["tried"]), "{outcome:#}");
        assert!(!outcome.to_string().contains(KEY));
        let fine = world.call_as(&ada, "script", json!({"value": {"text": "fine"}})).await;
        let outcome = world.entries(fine.id).await.pop().unwrap();
        assert_eq!(outcome["details"]["logged"], Value::Null, "{outcome:#}");
    })
    .await;
}
