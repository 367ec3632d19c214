//! Policies in the path: what errs or cannot be read denies, lists and calls agree, and nothing that a caller writes
//! steps around a rule.

use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    ApprovalState, CallRequest, Caller, ErrorCode, FaultKind, Permission, Permissions, Role, Status,
};
use toolgate_engine::admit::Verdict;
use toolgate_engine::what_if::{Range, WhatIf};
use toolgate_registry::toolset::View;
use toolgate_store::Change;

use crate::world::{World, error, every_world, request};

pub const DEFAULTS: &str = r#"
    permit (principal, action == Action::"call", resource);
    permit (principal, action == Action::"call_unattended", resource);
"#;

impl World {
    /// Lets these policies decide, beside the default ones.
    pub async fn policies(&self, more: &str) -> i64 {
        self.policies_alone(&format!("{DEFAULTS}{more}")).await
    }

    pub async fn policies_alone(&self, text: &str) -> i64 {
        let owner = self.owner();
        let (judged, saved) = self.registry.save_policies(&owner, text, None).await.unwrap();
        let saved = saved.unwrap_or_else(|| panic!("{:?}", judged.findings)).revision;
        self.registry.activate_policies(&owner, saved, None).await.unwrap();
        saved
    }

    /// Somebody changes the database past the product.
    async fn past_the_product(&self, sql: &'static str) {
        let mut change = Change::new(self.tenant);
        change.then(sql, []);
        change.count_revision();
        self.store.commit(change).await.unwrap();
        self.registry.refresh().await.unwrap();
    }

    async fn what_if(&self, text: &str) -> WhatIf {
        let range = Range { since: self.clock.now().plus_seconds(-86_400), until: None, tool: None, agent: None };
        self.engine.what_if(&self.owner(), text, &range).await.unwrap()
    }
}

/// Security test 16, incident 11: a policy that errs, that cannot be read or that is missing denies, with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_errs_or_cannot_be_read_denies() {
    every_world(async |world| {
        let overflow = "when { context.args.n + 9223372036854775807 < 0 };";
        let rules = [
            format!("forbid (principal, action == Action::\"call\", resource == Tool::\"strict\") {overflow}"),
            format!("forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"strict\") {overflow}"),
            format!("permit (principal, action == Action::\"call\", resource == Tool::\"strict\") {overflow}"),
        ];
        for rule in rules {
            world.policies(&format!("@id(\"broken\") {rule}")).await;
            let denied = world.call("strict", json!({"n": 1})).await;
            assert_eq!((denied.status, error(&denied)), (Status::Failed, (ErrorCode::PolicyDenied, "policy_error")));
            assert!(denied.error.as_ref().unwrap().message.contains("broken"), "{:?}", denied.error);
            world.check_record(&denied).await;
            let other = world.call("script", json!({})).await;
            assert_eq!(other.status, Status::Completed, "what it is not about goes on");
            let fine = world.call("strict", json!({"n": 0, "value": {"n": 1}})).await;
            assert_eq!((fine.status, fine.error), (Status::Completed, None));
        }
        assert_eq!(world.runner.runs("strict"), 3);

        world.past_the_product("UPDATE policies SET source = 'forbid (' WHERE tenant_id = $1").await;
        for replica in [&world, &world.replica().await] {
            for tool in ["script", "writes", "reads"] {
                let denied = replica.call(tool, json!({})).await;
                assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "policy_error"), "{tool}");
                assert!(denied.error.unwrap().message.contains("cannot be read"));
            }
        }
        assert_eq!(world.call_as(&world.owner_next_door(), "script", json!({})).await.status, Status::Completed);
        world.past_the_product("DELETE FROM policies WHERE tenant_id = $1").await;
        let denied = world.call("script", json!({})).await;
        assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "policy_error"));
        assert!(denied.error.unwrap().message.contains("missing"));
        assert_eq!((world.runner.runs("script"), world.runner.runs("writes")), (4, 0));
        world.registry.activate_policies(&world.owner(), 0, None).await.unwrap();
        assert_eq!(world.call("script", json!({})).await.status, Status::Completed);

        world
            .past_the_product(
                "INSERT INTO guardrails (tenant_id, name, spec, saved_by, updated_at) VALUES ($1, 'broken', '{', 'x', 0)",
            )
            .await;
        for tool in ["script", "reads"] {
            let denied = world.call(tool, json!({})).await;
            assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "guardrail"));
            assert!(denied.error.unwrap().message.contains("cannot be read"));
        }
    })
    .await;
}

/// Security test 17: lists, search, `agent show --tools` and calls agree, whatever the policies are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_what_calls_do_not_refuse_for_certain() {
    every_world(async |world| {
        let (agent, key) = world.agent("clerk", json!({})).await;
        let tools = ["script", "strict", "reads", "note", "old", "asking"];
        let forbid = |scope: &str, rest: &str| {
            format!("{DEFAULTS} forbid (principal, action == Action::\"call\", {scope}) {rest};")
        };
        let sets = [
            DEFAULTS.to_owned(),
            forbid("resource == Tool::\"script\"", ""),
            forbid("resource == Tool::\"strict\"", "when { context.args.n > 5 }"),
            forbid("resource", "when { resource.egress_class == \"read_only\" }"),
            forbid("resource", "when { principal is Agent && resource.risk == \"safe\" }"),
            forbid("resource == Tool::\"note\"", "when { context.labels.contains(\"private\") }"),
            "permit (principal, action, resource == Tool::\"old\");".to_owned(),
            "permit (principal is Agent, action == Action::\"call\", resource);".to_owned(),
            "permit (principal, action == Action::\"call_unattended\", resource);".to_owned(),
        ];
        let mut refused = 0;
        for set in &sets {
            world.policies_alone(set).await;
            let snapshot = world.registry.snapshot();
            let registry = snapshot.tenant(world.tenant).unwrap();
            for caller in [world.owner(), key.clone()] {
                let today = world.clock.now().day();
                let view = View::of(registry, &caller, &today).unwrap();
                let listed: Vec<String> = view.tools().map(|(tool, _)| tool.tool.name.to_string()).collect();
                for tool in tools {
                    let answer = world.send(&caller, request(tool, json!({"n": 1}), |call| call.wait = Some(0))).await;
                    let called = match &answer {
                        Err(fault) if fault.kind() == FaultKind::NotFound => false,
                        Err(fault) => panic!("{fault:?}"),
                        Ok(envelope) => {
                            assert!(
                                envelope.error.as_ref().is_none_or(|error| error.reason() != "policy"),
                                "{tool} {set}"
                            );
                            true
                        }
                    };
                    refused += usize::from(!called);
                    assert_eq!(listed.iter().any(|name| name == tool), called, "{tool} {set}");
                    // What a search answers is what the same view sees.
                    let resolved = view.resolve(&tool.parse().unwrap()).is_ok();
                    assert_eq!(resolved, called, "{tool} {set}");
                    let preflight = world.engine.preflight(&caller, tool).await.unwrap();
                    assert_eq!(
                        preflight.state != toolgate_engine::preflight::Readiness::UnknownTool,
                        called,
                        "{tool} {set}"
                    );
                }
            }
            // As its manager sees it.
            let owner = world.owner();
            let today = world.clock.now().day();
            let stored = &registry.agents[&agent.id];
            let of_agent = View { agent: Some(stored), ..View::of(registry, &owner, &today).unwrap() };
            for (tool, standing) in of_agent.explain() {
                if standing.is_ok() && tools.contains(&tool.tool.name.as_str()) {
                    let answer = world
                        .send(&key, request(tool.tool.name.as_str(), json!({"n": 1}), |call| call.wait = Some(0)))
                        .await;
                    assert!(answer.is_ok(), "{} {set}", tool.name);
                }
            }
        }
        assert!(refused > 20, "{refused}");
    })
    .await;
}

/// Security test 49: what looks like Cedar's own values in an argument is data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_argument_that_looks_like_an_entity_is_data() {
    every_world(async |world| {
        let schema = json!({
            "type": "object",
            "properties": {"who": {"description": "Anybody."}, "name": {"type": "string", "description": "A name."}},
        });
        world.publish("names", json!({"input_schema": schema})).await;
        world
            .policies(
                "@id(\"no-admin\") forbid (principal, action == Action::\"call\", resource == Tool::\"names\")
                 when { context.args has name && context.args.name == \"admin\" };",
            )
            .await;
        let odd = [
            json!({"__entity": {"type": "Role", "id": "admin"}}),
            json!({"__extn": {"fn": "decimal", "arg": "1.0"}}),
            json!({"__expr": "true"}),
            json!({"$serde_json::private::Number": "1"}),
            json!({"$serde_json::private::RawValue": "{}"}),
        ];
        for value in odd {
            // Whether such a thing can be said at all is decided before, by the one strict reader.
            let text = json!({"who": value, "name": "ada", "value": {"given": value}}).to_string();
            let readable = toolgate_contracts::json::read(text.as_bytes(), 10_000).is_ok();
            assert_eq!(readable, !text.contains("$serde_json"), "{value}");
            let read = world.call("names", json!({"who": value, "name": "ada", "value": {"given": value}})).await;
            if readable {
                assert_eq!((read.status, &read.output), (Status::Completed, &Some(json!({"given": value}))), "{value}");
            } else {
                assert_eq!(error(&read), (ErrorCode::ProviderError, "output_schema"), "{value}");
            }
            let denied = world.call("names", json!({"who": value, "name": "admin"})).await;
            assert_eq!(error(&denied).1, "policy", "{value}");
            let wrong = world.call("names", json!({"name": value})).await;
            assert_eq!(error(&wrong).1, "schema", "{value}");
            // In the caller's own words beside the arguments it changes nothing either.
            let beside = request("names", json!({"name": "admin"}), |call| {
                call.metadata = Some([("x".to_owned(), value.clone())].into_iter().collect());
            });
            assert_eq!(error(&world.send(&world.owner(), beside).await.unwrap()).1, "policy");
        }
    })
    .await;
}

/// Security test 57: a tool is the tool, by whatever name it is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_spelling_dodges_a_policy_that_names_the_tool() {
    every_world(async |world| {
        world
            .policies(
                "@id(\"not-old\") forbid (principal, action == Action::\"call\", resource == Tool::\"old\")
                 when { context.source == \"api\" };",
            )
            .await;
        let spellings = [
            "old",
            "older",
            "OLD",
            "Old",
            "OLDER",
            "old@1.0.0",
            "older@1.0.0",
            "old@^1",
            "old@1",
            "old@*",
            "old.",
            "old@latest",
            " old",
            "old ",
        ];
        for name in spellings {
            match world.send(&world.owner(), CallRequest::new(name, json!({}))).await {
                Ok(envelope) => assert_eq!(error(&envelope), (ErrorCode::PolicyDenied, "policy"), "{name}"),
                Err(fault) => {
                    assert!(matches!(fault.kind(), FaultKind::Invalid | FaultKind::NotFound), "{name}: {fault:?}");
                }
            }
        }
        assert_eq!(world.runner.runs("old"), 0);
        // The other way round: a policy by an old name or another spelling is refused when it is saved.
        for name in ["older", "OLD", "old@1.0.0", "old."] {
            let text = format!("{DEFAULTS} forbid (principal, action, resource == Tool::\"{name}\");");
            let (judged, saved) = world.registry.save_policies(&world.owner(), &text, None).await.unwrap();
            assert!(saved.is_none() && judged.compiled.is_none(), "{name}");
        }
        // Renamed by the tenant it is still the same.
        let patch = toolgate_contracts::json::decode(json!({"name": "ancient"})).unwrap();
        world.registry.set_override(&world.owner(), &"old".parse().unwrap(), &patch).await.unwrap();
        for name in ["ancient", "old", "ANCIENT", "older"] {
            match world.send(&world.owner(), CallRequest::new(name, json!({}))).await {
                Ok(envelope) => assert_eq!(error(&envelope).1, "policy", "{name}"),
                Err(fault) => assert_eq!(fault.kind(), FaultKind::NotFound, "{name}"),
            }
        }
        assert_eq!(world.runner.runs("old"), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_logged_never_loosens_a_write() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        world
            .policies(
                "@id(\"trial\") @log_only(\"true\") forbid (principal, action == Action::\"call\", resource) when { context.depth == 0 };
                 @id(\"ask-trial\") @log_only(\"true\") forbid (principal, action == Action::\"call_unattended\", resource);",
            )
            .await;
        let logged = world.call_as(&ada, "script", json!({})).await;
        assert_eq!(logged.status, Status::Completed);
        let decision = world.check_record(&logged).await.decision;
        let lines: Vec<&str> = decision["logged"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(lines.iter().any(|line| line.contains("trial")) && lines.len() == 2, "{lines:?}");
        let denied = world.call_as(&ada, "writes", json!({})).await;
        assert_eq!(error(&denied), (ErrorCode::PolicyDenied, "policy"));
        assert_eq!(world.runner.runs("writes"), 0);

        // Editing policies is not the right to switch them off: that is a permission of its own.
        let editor = world.with_key([Permission::TOOLS_READ, Permission::POLICIES_EDIT].into_iter().collect());
        let text = format!("{DEFAULTS} @log_only(\"true\") forbid (principal, action, resource);");
        let refused = world.registry.save_policies(&editor, &text, None).await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Forbidden);
        let member = world.member();
        for who in [&member, &ben] {
            assert_eq!(world.registry.check_policies(who, DEFAULTS, None).unwrap_err().kind(), FaultKind::Forbidden);
            let refused = world.registry.activate_policies(who, 0, None).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Forbidden);
        }
        assert!(world.registry.policy_text(&ben, "active").await.is_ok(), "who decides may read why");
        assert!(world.registry.policy_text(&member, "active").await.is_err());
        // Whoever looked at another revision activates nothing.
        let refused = world.registry.activate_policies(&world.owner(), 0, Some(77)).await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Conflict);
        let refused = world.registry.activate_policies(&world.owner(), 77, None).await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::NotFound);
        let refused = world.registry.activate_policies(&world.owner_next_door(), 1, None).await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::NotFound, "another tenant's revision is none");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_change_while_a_call_waits_hold_when_it_runs() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let first = world.policies("").await;
        // Looser: it runs, and both revisions are in the record.
        let ask = "@id(\"asks\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"script\");";
        let asking = world.policies(ask).await;
        let call = world.park(&ada, "script", json!({"key": "looser"})).await;
        assert_eq!(world.record(call).await.policy_revision, asking);
        let looser = world.policies("").await;
        world.approve(&ben, call).await.unwrap();
        let record = world.ended(call).await;
        assert_eq!((record.status, world.runner.runs("looser")), (Status::Completed, 1));
        let logged = record.decision["logged"].to_string();
        assert!(logged.contains(&format!("revision {asking}")) && logged.contains(&looser.to_string()), "{logged}");

        // Stricter: it waits again, and the vote is void.
        world.registry.activate_policies(&world.owner(), asking, None).await.unwrap();
        let call = world.park(&ada, "script", json!({"key": "stricter"})).await;
        let more = "@id(\"asks\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"script\");
            @id(\"two\") @approvers(\"2 of role:approver\")
            forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"script\");";
        world.policies(more).await;
        // Nobody waits for its end: it has none yet.
        let yes = crate::approvals::choice(json!({"decision": "approve"}));
        world.engine.decide(&ben, &call.to_string(), yes, std::time::Duration::ZERO).await.unwrap();
        crate::world::eventually("it waits again", async || {
            let approval = world.approval_of(call).await;
            approval.state == ApprovalState::Open && approval.round == 2
        })
        .await;
        let approval = world.approval_of(call).await;
        assert_eq!((approval.need, world.runner.runs("stricter")), (2, 0));
        assert_eq!(world.record(call).await.status, Status::Pending);
        let cleo = world.person("cleo", &[Role::Approver]).await;
        world.approve(&ben, call).await.unwrap();
        assert_eq!(world.record(call).await.status, Status::Pending, "one of two");
        world.approve(&cleo, call).await.unwrap();
        assert_eq!((world.ended(call).await.status, world.runner.runs("stricter")), (Status::Completed, 1));

        // Denied: it is rejected, with the reason.
        let call = world.park(&ada, "script", json!({"key": "denied"})).await;
        world
            .policies(
                "@id(\"stop\") @reason(\"not any more\")
                 forbid (principal, action == Action::\"call\", resource == Tool::\"script\") when { context.depth >= 0 };",
            )
            .await;
        for approver in [&ben, &cleo] {
            let _ = world.approve(approver, call).await;
        }
        let record = world.ended(call).await;
        assert_eq!((record.status, world.runner.runs("denied")), (Status::Rejected, 0));
        assert!(record.error.unwrap().message.contains("not any more"));
        assert!(first > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_of_a_policy_says_how_and_whom() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let cleo = world.person("cleo", &[Role::Approver]).await;
        world
            .policies(
                "@id(\"two\") @reason(\"two must look\") @approvers(\"2 of role:approver\") @mode(\"continue_on_timeout\")
                 forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"script\");",
            )
            .await;
        let call = world.park(&ada, "script", json!({"key": "two"})).await;
        let card = world.card(&ben, call).await;
        assert_eq!((card.need, card.mode.as_str()), (2, "continue_on_timeout"));
        assert_eq!(card.reasons.len(), 1);
        assert_eq!((card.reasons[0].text.as_str(), card.reasons[0].by.as_deref()), ("two must look", Some("two")));
        world.approve(&ben, call).await.unwrap();
        let again = world.approve(&ben, call).await;
        assert!(again.is_err() || world.record(call).await.status == Status::Pending, "one person is one vote");
        assert_eq!(world.runner.runs("two"), 0);
        world.approve(&cleo, call).await.unwrap();
        assert_eq!((world.ended(call).await.status, world.runner.runs("two")), (Status::Completed, 1));

        // Without a permit a person is asked, in blocking mode; the tool's own reasons stand beside.
        world.policies_alone("permit (principal, action == Action::\"call\", resource);").await;
        let call = world.park(&ada, "asking", json!({})).await;
        let card = world.card(&ben, call).await;
        let codes: Vec<(&str, Option<&str>)> =
            card.reasons.iter().map(|reason| (reason.code.as_str(), reason.by.as_deref())).collect();
        assert_eq!(codes, [("requires_approval", None), ("policy", Some("no permit"))]);
        assert_eq!(card.mode.as_str(), "blocking");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_calls_are_judged_again_under_proposed_policies() {
    every_world(async |world| {
        let (agent, key) = world.agent("clerk", json!({})).await;
        let ada = world.person("ada", &[Role::Member]).await;
        for n in 0..4 {
            world.call("strict", json!({"n": n, "value": {"n": n}})).await;
        }
        let by_person = world.call_as(&ada, "script", json!({})).await;
        world.policies("@id(\"not-note\") forbid (principal, action == Action::\"call\", resource == Tool::\"note\") when { context.depth == 0 };").await;
        let denied = world.call_as(&ada, "note", json!({})).await;
        assert_eq!(error(&denied).1, "policy");
        let wrong = world.call("strict", json!({"n": "x"})).await;
        assert_eq!(error(&wrong).1, "schema");
        let parked = world.park(&ada, "asking", json!({})).await;
        // Somebody whom nobody knows any more: their roles are not on record.
        world.call_as(&key, "script", json!({})).await;

        let told = world.what_if(DEFAULTS).await;
        assert_eq!((told.calls, told.newly_allowed, told.newly_denied, told.newly_asked), (9, 1, 0, 0), "{told:#?}");
        let change = &told.changes[0];
        assert_eq!((change.tool.as_str(), &change.examples), ("note", &vec![denied.id]));
        assert_eq!((told.unknown, told.unchanged), (1, 7));
        assert!(told.unknowns[0].why.contains("gone"), "{:?}", told.unknowns);
        assert!(told.notes.iter().any(|note| note.contains("roles")));

        let stricter = format!(
            "{DEFAULTS}
             @id(\"few\") forbid (principal, action == Action::\"call\", resource == Tool::\"strict\") when {{ context.args.n > 1 }};
             @id(\"look\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"script\");
             @id(\"also\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"asking\");"
        );
        let told = world.what_if(&stricter).await;
        assert_eq!((told.newly_denied, told.newly_asked, told.newly_allowed), (2, 1, 1), "{told:#?}");
        assert_eq!(told.changes[0].policies, ["few"]);
        assert_eq!((told.changes[0].before, told.changes[0].after), (Verdict::Allow, Verdict::Deny));
        let asked = told.changes.iter().find(|change| change.after == Verdict::Ask).unwrap();
        assert_eq!((&asked.examples, asked.policies.as_slice()), (&vec![by_person.id], &["look".to_owned()][..]));

        // A range, a tool, an agent.
        let range = |tool: Option<&str>, agent: Option<&str>| Range {
            since: world.clock.now().plus_seconds(-60),
            until: None,
            tool: tool.map(str::to_owned),
            agent: agent.map(str::to_owned),
        };
        let owner = world.owner();
        let counted = async |range: Range| world.engine.what_if(&owner, DEFAULTS, &range).await.unwrap().calls;
        assert_eq!(counted(range(Some("strict"), None)).await, 5);
        assert_eq!(counted(range(None, Some(agent.name.as_str()))).await, 1);
        assert!(world.engine.what_if(&owner, DEFAULTS, &range(Some("nothing"), None)).await.is_err());

        // What was erased is unknown where it is asked for, and only there.
        world.past_the_product("UPDATE calls SET input = NULL WHERE tenant_id = $1").await;
        let told = world.what_if(&stricter).await;
        assert_eq!((told.newly_denied, told.newly_asked), (0, 1));
        assert!(told.unknowns.iter().any(|unknown| unknown.why.contains("erased") && unknown.calls == 4), "{told:#?}");

        // A text with errors judges nothing; who may not, learns nothing.
        let told = world.what_if("permit (").await;
        assert!(!told.ok && told.calls == 0 && !told.findings.is_empty());
        for who in [world.member(), key.clone(), world.with_key(Permissions::of([Role::Approver]))] {
            let refused = world.engine.what_if(&who, DEFAULTS, &range(None, None)).await.unwrap_err();
            assert_eq!(refused.kind(), FaultKind::Forbidden);
        }
        assert_eq!(world.record(parked).await.status, Status::Pending, "nothing was changed");
    })
    .await;
}

/// A person at a browser is nobody's agent; everybody else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_who_calls_and_from_where() {
    every_world(async |world| {
        let (agent, key) = world.agent("clerk", json!({})).await;
        let ada = world.person("ada", &[Role::Member]).await;
        world
            .policies(
                "@id(\"agents\") forbid (principal == Agent::\"clerk\", action == Action::\"call\", resource == Tool::\"script\") when { context.source == \"api\" };
                 @id(\"ada\") forbid (principal == User::\"ada\", action == Action::\"call\", resource == Tool::\"note\") when { context.source == \"api\" };
                 @id(\"admins\") forbid (principal in Role::\"admin\", action == Action::\"call\", resource == Tool::\"reads\") when { context.source == \"api\" };",
            )
            .await;
        let policy_of = async |caller: &Caller, tool: &str| {
            let envelope = world.call_as(caller, tool, json!({})).await;
            envelope.error.map(|error| error.details.unwrap()["policy"].as_str().unwrap_or_default().to_owned())
        };
        let at_browser = world.at_browser(&ada).await;
        assert!(matches!(at_browser.credential, Credential::BrowserSession(_)));
        assert_eq!(policy_of(&key, "script").await.as_deref(), Some("agents"));
        assert_eq!(policy_of(&ada, "script").await, None);
        assert_eq!(policy_of(&ada, "note").await.as_deref(), Some("ada"));
        assert_eq!(policy_of(&at_browser, "note").await.as_deref(), Some("ada"));
        assert_eq!(policy_of(&key, "note").await, None);
        assert_eq!(policy_of(&world.owner(), "reads").await.as_deref(), Some("admins"));
        assert_eq!(policy_of(&ada, "reads").await, None);
        assert_eq!(agent.name.as_str(), "clerk");
    })
    .await;
}
