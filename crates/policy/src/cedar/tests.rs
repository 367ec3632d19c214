//! What policies say, as tables; what is told about wrong ones, as snapshots.

mod saving;

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_contracts::caller::Source;
use toolgate_contracts::definition::{EgressClass, HitlMode, Label, Origin, Risk, Sink};
use toolgate_contracts::{Digest, Role, Timestamp};

use super::*;

/// A small company: what it has that policies may name.
pub(super) struct World {
    pub schemas: Vec<(&'static str, EgressClass, Option<&'static str>, Value)>,
}

impl World {
    pub fn new() -> Self {
        let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
        let pay = object(
            json!({
                "amount": {"type": "number"}, "currency": {"type": "string"}, "note": {"type": ["string", "null"]},
                "to": {"type": "array", "items": {"type": "string"}}, "urgent": {"type": "boolean"},
                "customer": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                "lines": {"type": "array", "items": {"type": "object"}}, "any": {},
            }),
            &["amount", "currency", "to", "customer"],
        );
        let transfer = object(json!({"amount": {"type": "integer"}, "account": {"type": "string"}}), &["amount"]);
        let search = object(json!({"query": {"type": "string"}, "limit": {"type": "integer"}}), &["query"]);
        Self {
            schemas: vec![
                ("pay", EgressClass::Write, Some("money"), pay),
                ("transfer", EgressClass::Write, Some("money"), transfer),
                ("webSearch", EgressClass::ReadOnly, Some("web"), search),
                ("tidy", EgressClass::None, None, json!({"type": "object"})),
            ],
        }
    }

    pub fn vocabulary(&self) -> Vocabulary<'_> {
        Vocabulary {
            tools: self
                .schemas
                .iter()
                .map(|(name, egress_class, group, schema)| KnownTool {
                    name,
                    aliases: if *name == "webSearch" { vec!["find_pages"] } else { Vec::new() },
                    egress_class: *egress_class,
                    group: *group,
                    input_schemas: vec![schema],
                })
                .collect(),
            groups: vec!["spare"],
            agents: Some(vec!["clerk", "crawler"]),
            workspaces: Some(vec!["finance", "research"]),
            people: Some(vec![
                KnownPerson { id: "0199c1c0-0000-7000-8000-000000000001".to_owned(), roles: &[Role::Approver] },
                KnownPerson {
                    id: "0199c1c0-0000-7000-8000-000000000002".to_owned(),
                    roles: &[Role::Admin, Role::Approver],
                },
            ]),
        }
    }

    pub fn tool(&self, name: &str) -> ToolFacts<'_> {
        let (name, class, group, schema) = self.schemas.iter().find(|(known, ..)| *known == name).unwrap();
        ToolFacts {
            name,
            version: "1.0.0",
            egress_class: *class,
            risk: class.default_risk(),
            category: Some("data"),
            group: *group,
            tags: &[],
            origin: Origin::Tenant,
            sink: Sink::None,
            input_schema: schema,
            key: Digest::of(name.as_bytes()),
        }
    }
}

pub(super) const CLERK: Subject<'static> = Subject {
    kind: SubjectKind::Agent,
    id: "clerk",
    roles: &[Role::Member],
    workspace: Some("finance"),
    owner: Some("user:anna"),
};
pub(super) const ANNA: Subject<'static> = Subject {
    kind: SubjectKind::User,
    id: "user:anna",
    roles: &[Role::Admin, Role::Approver],
    workspace: None,
    owner: None,
};

pub(super) fn circumstances(args: &Value) -> Circumstances<'_> {
    Circumstances {
        labels: &[Label::Private],
        source: Source::Mcp,
        depth: 1,
        now: Timestamp::from_millis(1_794_762_000_000),
        args,
    }
}

/// Both ways agree, and the answer in few words: `allow`, `deny ID,ID`, `no permit`, `error ID`, then `ask ID,ID`, then
/// `log ID`.
#[track_caller]
fn said(policies: &Policies, subject: &Subject<'_>, tool: &ToolFacts<'_>, args: &Value) -> String {
    let circumstances = circumstances(args);
    let judgement = policies.decide(subject, tool, &circumstances);
    let plainly = policies.decide_plainly(subject, tool, &circumstances);
    assert_eq!(words(&judgement), words(&plainly), "the two ways differ");
    assert_eq!(words(&judgement), words(&policies.decide(subject, tool, &circumstances)), "asked again");
    let never = policies.never_allows(subject, tool);
    assert!(!(never && judgement.call == Call::Allowed), "listed as never allowed");
    words(&judgement)
}

pub(super) fn words(judgement: &Judgement) -> String {
    let Judgement { call, unattended, logged, permitted_by } = judgement;
    let ids = |hits: &[PolicyHit]| hits.iter().map(|hit| hit.policy.as_str()).collect::<Vec<_>>().join(",");
    let mut words = match call {
        Call::Allowed => "allow".to_owned(),
        Call::Denied { policies } => format!("deny {}", ids(policies)),
        Call::NoPermit => "no permit".to_owned(),
        Call::Errored { errors } => {
            let one =
                |fault: &PolicyFault| format!("{}{}", fault.policy, fault.argument.as_deref().unwrap_or_default());
            format!("error {}", errors.iter().map(one).collect::<Vec<_>>().join(","))
        }
    };
    assert_eq!(permitted_by.is_some(), *call == Call::Allowed, "{words}");
    if let Unattended::Asks(asks) = unattended {
        let ids: Vec<_> = asks.iter().map(|ask| ask.policy.as_str()).collect();
        let _ = write!(words, "; ask {}", ids.join(","));
    }
    if !logged.is_empty() {
        let _ = write!(words, "; log {}", ids(logged));
    }
    words
}

const BOTH: &str = "@id(\"all\") permit (principal, action, resource);\n";

fn compiled(rest: &str) -> Policies {
    let world = World::new();
    let text = format!("{BOTH}{rest}");
    match Policies::compile(&text, &world.vocabulary()) {
        Ok(compiled) => compiled.policies,
        Err(findings) => panic!("{}", findings.iter().map(|finding| finding.show("x")).collect::<String>()),
    }
}

#[test]
fn the_default_set_permits_and_asks_nobody() {
    let world = World::new();
    let compiled = Policies::compile(DEFAULT, &world.vocabulary()).unwrap();
    assert!(compiled.warnings.is_empty() && !compiled.uses_log_only);
    let judgement = compiled.policies.decide(&CLERK, &world.tool("tidy"), &circumstances(&json!({})));
    assert_eq!(words(&judgement), "allow");
    assert_eq!(judgement.permitted_by.as_deref(), Some("default-call"));
    assert_eq!(compiled.policies.summaries().len(), 2);
    assert_eq!(compiled.policies.summaries()[1].line, 6);
}

#[test]
fn no_policy_at_all_denies() {
    let policies = Policies::load("").unwrap();
    let world = World::new();
    assert_eq!(said(&policies, &CLERK, &world.tool("tidy"), &json!({})), "no permit; ask no permit");
    assert!(policies.never_allows(&CLERK, &world.tool("tidy")));
}

/// `security.md` test 16, incident 11: what cannot be had denies.
#[test]
fn a_set_that_does_not_load_denies_everything() {
    let policies = Policies::broken("revision 7 is gone");
    let world = World::new();
    assert_eq!(said(&policies, &ANNA, &world.tool("tidy"), &json!({})), "error policies; ask no permit");
    assert!(policies.never_allows(&ANNA, &world.tool("tidy")));
    assert_eq!(policies.needs(&ANNA, &world.tool("tidy")), Needs::default());
}

#[test]
fn scopes_and_conditions_decide() {
    #[track_caller]
    fn check(policy: &str, subject: &Subject<'_>, tool: &str, args: Value, expected: &str) {
        let world = World::new();
        let policies = compiled(policy);
        assert_eq!(said(&policies, subject, &world.tool(tool), &args), expected);
    }
    let pay = |amount: f64| json!({"amount": amount, "currency": "EUR", "to": ["a"], "customer": {"id": 7}});
    let over = r#"@id("over") forbid (principal, action == Action::"call_unattended", resource == Tool::"pay")
        when { context.args.amount.greaterThan(decimal("500.0")) };"#;
    check(over, &CLERK, "pay", pay(500.0), "allow");
    check(over, &CLERK, "pay", pay(500.01), "allow; ask over");
    check(over, &CLERK, "pay", pay(600.0), "allow; ask over");
    check(over, &CLERK, "transfer", json!({"amount": 900}), "allow");
    let whole = r#"@id("whole") forbid (principal, action == Action::"call", resource == Tool::"transfer")
        when { context.args.amount > 500 };"#;
    check(whole, &CLERK, "transfer", json!({"amount": 500}), "allow");
    check(whole, &CLERK, "transfer", json!({"amount": 501}), "deny whole");
    check(whole, &CLERK, "transfer", json!({"amount": 501.0}), "deny whole");
    let space = r#"@id("space") forbid (principal in Workspace::"finance", action == Action::"call", resource in Group::"web");"#;
    check(space, &CLERK, "webSearch", json!({"query": "x"}), "deny space");
    check(space, &ANNA, "webSearch", json!({"query": "x"}), "allow");
    check(space, &CLERK, "tidy", json!({}), "allow");
    let role = r#"@id("role") forbid (principal, action == Action::"call", resource)
        unless { principal in Role::"admin" || principal.roles.contains("member") };"#;
    check(role, &CLERK, "tidy", json!({}), "allow");
    check(role, &Subject { roles: &[], ..CLERK }, "tidy", json!({}), "deny role");
    let kind = r#"@id("kind") forbid (principal is Agent, action, resource) when { resource.risk == "safe" };"#;
    check(kind, &CLERK, "tidy", json!({}), "deny kind; ask kind");
    check(kind, &ANNA, "tidy", json!({}), "allow");
    let label = r#"@id("label") forbid (principal, action, resource) when { context.labels.contains("private") && context.depth > 0 };"#;
    check(label, &CLERK, "tidy", json!({}), "deny label; ask label");
    let door = r#"@id("door") forbid (principal, action == Action::"call", resource) unless { ["mcp", "web"].contains(context.source) };"#;
    check(door, &CLERK, "tidy", json!({}), "allow");
    let late = r#"@id("late") forbid (principal, action == Action::"call", resource)
        when { context.now > datetime("2026-11-01") && context.now.toTime() >= duration("8h") };"#;
    check(late, &CLERK, "tidy", json!({}), "deny late");
    let list = r#"@id("list") forbid (principal, action == Action::"call", resource == Tool::"pay")
        when { context.args.to.len > 1 || !["a", "b"].containsAll(context.args.to.items) };"#;
    check(list, &CLERK, "pay", pay(1.0), "allow");
    check(list, &CLERK, "pay", json!({"amount": 1, "to": ["a", "a"], "customer": {"id": 1}}), "deny list");
    check(list, &CLERK, "pay", json!({"amount": 1, "to": ["z"], "customer": {"id": 1}}), "deny list");
    let inner = r#"@id("inner") forbid (principal, action == Action::"call", resource == Tool::"pay")
        when { context.args.customer.id == 7 };"#;
    check(inner, &CLERK, "pay", pay(1.0), "deny inner");
    let has = r#"@id("has") forbid (principal, action == Action::"call", resource) when { context.args has note };"#;
    check(has, &CLERK, "pay", json!({"note": "x"}), "deny has");
    check(has, &CLERK, "pay", json!({"note": null}), "allow");
    check(has, &CLERK, "tidy", json!({}), "allow");
    let which = r#"@id("which") forbid (principal, action, resource == Tool::"tidy") when { action == Action::"call_unattended" };"#;
    check(which, &CLERK, "tidy", json!({}), "allow; ask which");
    let which = r#"@id("which") forbid (principal, action, resource == Tool::"transfer")
        when { context.args.amount > 1 && action == Action::"call" };"#;
    check(which, &CLERK, "transfer", json!({"amount": 2}), "deny which");
    check(which, &CLERK, "transfer", json!({"amount": 1}), "allow");
    let open = r#"@id("open") forbid (principal, action == Action::"call", resource) when { context.args has query && context.args.query like "*secret*" };"#;
    check(open, &CLERK, "webSearch", json!({"query": "a secret b"}), "deny open");
    check(open, &CLERK, "tidy", json!({}), "allow");
}

/// `security.md` test 16: Cedar skips a `forbid` that errs, and would allow.
#[test]
fn a_policy_that_errs_denies() {
    #[track_caller]
    fn check(policy: &str, args: Value, expected: &str) {
        let world = World::new();
        let policies = Policies::load(&format!("{BOTH}{policy}")).unwrap();
        assert_eq!(said(&policies, &CLERK, &world.tool("transfer"), &args), expected);
    }
    for action in ["call", "call_unattended"] {
        for effect in ["permit", "forbid"] {
            let missing = format!(
                "@id(\"m\") {effect} (principal, action == Action::\"{action}\", resource) when {{ context.args.gone > 1 }};"
            );
            let ask = if action == "call" { "" } else { "; ask m" };
            check(&missing, json!({"amount": 1}), &format!("error m{ask}"));
            let standing = format!(
                "@id(\"m\") {effect} (principal, action == Action::\"{action}\", resource) when {{ principal.gone }};"
            );
            check(&standing, json!({"amount": 1}), &format!("error m{ask}"));
        }
    }
    let overflow =
        r#"@id("o") forbid (principal, action, resource) when { context.args.amount * 9223372036854775807 > 1 };"#;
    check(overflow, json!({"amount": 3}), "error o; ask o");
    check(overflow, json!({"amount": 0}), "allow");
    // A reached forbid beside an error is still told as the error.
    let beside = r#"@id("f") forbid (principal, action == Action::"call", resource);
        @id("e") forbid (principal, action == Action::"call", resource) when { context.args.gone };"#;
    check(beside, json!({}), "error e");
    // What is not reached does not err.
    let behind =
        r#"@id("b") forbid (principal, action, resource) when { principal is User && context.args.gone > 1 };"#;
    check(behind, json!({}), "allow");
}

#[test]
fn a_number_that_does_not_fit_denies_and_is_named() {
    let world = World::new();
    let policy = r#"@id("over") forbid (principal, action == Action::"call_unattended", resource == Tool::"pay")
        when { context.args.amount.greaterThan(decimal("500.0")) };
        @id("there") forbid (principal, action == Action::"call", resource == Tool::"pay") unless { context.args has amount };"#;
    let policies = compiled(policy);
    let pay = world.tool("pay");
    assert_eq!(said(&policies, &CLERK, &pay, &json!({"amount": 0.00001})), "error over/amount; ask over");
    assert_eq!(said(&policies, &CLERK, &pay, &json!({"amount": 1e20})), "error over/amount; ask over");
    assert_eq!(said(&policies, &CLERK, &pay, &json!({"amount": 0.0001})), "allow");
    let Call::Errored { errors } = policies.decide(&CLERK, &pay, &circumstances(&json!({"amount": 1e-5}))).call else {
        panic!("an error");
    };
    assert_eq!(errors[0].argument.as_deref(), Some("/amount"));
    assert!(errors[0].message.contains("`/amount`") && errors[0].message.contains("4 places"), "{}", errors[0].message);
    // Who does not come to read it is not stopped by it.
    let guarded = compiled(
        r#"@id("g") forbid (principal, action, resource == Tool::"pay")
           when { principal is User && context.args.amount.greaterThan(decimal("5.0")) };"#,
    );
    assert_eq!(said(&guarded, &CLERK, &pay, &json!({"amount": 1e-5})), "allow");
    assert_eq!(said(&guarded, &ANNA, &pay, &json!({"amount": 1e-5})), "error g/amount; ask g");
}

/// `security.md` test 49.
#[test]
fn an_argument_is_only_ever_data() {
    let world = World::new();
    let policies = Policies::load(&format!(
        "{BOTH}@id(\"tool\") forbid (principal, action == Action::\"call\", resource) when {{ context.args has account && \
         context.args.account == Tool::\"pay\" }};
         @id(\"date\") forbid (principal, action == Action::\"call\", resource) when {{ context.args has account && \
         context.args.account == decimal(\"1.0\") }};
         @id(\"text\") forbid (principal, action == Action::\"call\", resource) when {{ context.args has account && \
         context.args.account == \"plain\" }};"
    ))
    .unwrap();
    let transfer = world.tool("transfer");
    for account in [
        json!({"__entity": {"type": "Tool", "id": "pay"}}),
        json!({"__extn": {"fn": "decimal", "arg": "1.0"}}),
        json!({"__expr": "Tool::\"pay\""}),
        json!({"type": "Tool", "id": "pay"}),
        json!("Tool::\"pay\""),
        json!("{\"__entity\":{\"type\":\"Tool\",\"id\":\"pay\"}}"),
        json!("decimal(\"1.0\")"),
        json!({"$serde_json::private::Number": "1.0"}),
    ] {
        assert_eq!(said(&policies, &CLERK, &transfer, &json!({"account": account})), "allow", "{account}");
    }
    assert_eq!(said(&policies, &CLERK, &transfer, &json!({"account": "plain"})), "deny text");
    assert_eq!(said(&policies, &CLERK, &transfer, &json!({"account": 1.0})), "allow");
}

#[test]
fn an_ask_says_how() {
    let policies = compiled(
        r#"@id("two") @reason("large sums need two") @mode("blocking") @approvers("2 of role:approver")
           forbid (principal, action == Action::"call_unattended", resource) when { resource.risk == "critical" };
           @id("plain") forbid (principal, action == Action::"call_unattended", resource == Tool::"pay");"#,
    );
    let world = World::new();
    let judgement = policies.decide(&CLERK, &world.tool("pay"), &circumstances(&json!({})));
    let Unattended::Asks(asks) = judgement.unattended else { panic!("asks") };
    assert_eq!(asks[0].reason.as_deref(), Some("large sums need two"));
    assert_eq!(asks[0].mode, Some(HitlMode::Blocking));
    assert_eq!(asks[0].approvers.as_ref().map(|who| (who.need, who.from.join(","))), Some((2, "role:approver".into())));
    assert_eq!((asks[1].policy.as_str(), asks[1].mode, &asks[1].reason), ("plain", None, &None));
    let nobody = Policies::load(r#"permit (principal, action == Action::"call", resource);"#).unwrap();
    let judgement = nobody.decide(&CLERK, &world.tool("tidy"), &circumstances(&json!({})));
    let no_permit = Ask { policy: "no permit".into(), reason: None, mode: Some(HitlMode::Blocking), approvers: None };
    assert_eq!(judgement.unattended, Unattended::Asks(vec![no_permit]));
}

#[test]
fn log_only_has_no_effect_but_on_write() {
    let world = World::new();
    let text = format!(
        "{BOTH}@id(\"l\") @reason(\"why\") @log_only(\"true\") forbid (principal, action, resource);
         @id(\"e\") @log_only(\"true\") forbid (principal, action == Action::\"call\", resource) when {{ context.args has limit && context.args.limit * 9223372036854775807 > 1 }};"
    );
    let compiled = Policies::compile(&text, &world.vocabulary()).unwrap();
    assert!(compiled.uses_log_only);
    let policies = compiled.policies;
    assert_eq!(said(&policies, &CLERK, &world.tool("tidy"), &json!({})), "allow; log l,l");
    assert_eq!(said(&policies, &CLERK, &world.tool("webSearch"), &json!({"limit": 3})), "allow; log l,l,e");
    assert_eq!(said(&policies, &CLERK, &world.tool("pay"), &json!({})), "deny l; ask l");
    assert!(!policies.never_allows(&CLERK, &world.tool("tidy")) && policies.never_allows(&CLERK, &world.tool("pay")));
    let logged = policies.decide(&CLERK, &world.tool("webSearch"), &circumstances(&json!({"limit": 3}))).logged;
    assert_eq!((logged[0].action, logged[0].reason.as_deref()), (Action::Call, Some("why")));
    assert_eq!(logged[1].action, Action::CallUnattended);
    assert!(logged[0].error.is_none() && logged[2].error.is_some());
}

/// `security.md` test 17: hidden only where refusal is certain.
#[test]
fn a_tool_is_hidden_only_where_refusal_is_certain() {
    #[track_caller]
    fn check(text: &str, tool: &str, expected: bool) {
        let world = World::new();
        let policies = Policies::load(text).unwrap();
        assert_eq!(policies.never_allows(&CLERK, &world.tool(tool)), expected, "{text}");
    }
    let forbid = |rest: &str| format!("{BOTH}forbid (principal, action == Action::\"call\", resource{rest};");
    check(BOTH, "pay", false);
    check(&forbid(")"), "pay", true);
    check(&forbid(" == Tool::\"pay\")"), "pay", true);
    check(&forbid(" == Tool::\"pay\")"), "tidy", false);
    check(&forbid(") when { context.args.amount > 5 }"), "transfer", false);
    check(&forbid(") when { principal is Agent }"), "pay", true);
    check(&forbid(") when { principal.gone }"), "pay", true);
    check(&forbid(") when { principal is User && context.depth > 5 }"), "pay", false);
    check("permit (principal, action == Action::\"call\", resource) when { context.depth > 5 };", "pay", false);
    check("permit (principal, action == Action::\"call_unattended\", resource);", "pay", true);
    let unattended = format!("{BOTH}forbid (principal, action == Action::\"call_unattended\", resource);");
    check(&unattended, "pay", false);
    let erring =
        format!("{BOTH}forbid (principal, action == Action::\"call_unattended\", resource) when {{ principal.gone }};");
    check(&erring, "pay", true);
}

#[test]
fn what_is_needed_is_what_is_read() {
    let world = World::new();
    let policies = compiled(
        r#"forbid (principal, action == Action::"call", resource == Tool::"pay")
             when { context.args.to.len > 3 || context.args.customer.id == 4 || context.now < datetime("2020-01-01") };
           forbid (principal is User, action == Action::"call", resource) when { context.labels.contains("untrusted") };"#,
    );
    let needs = policies.needs(&CLERK, &world.tool("pay"));
    assert_eq!(needs.args, ["/customer/id", "/to/len"]);
    assert!(needs.now && !needs.labels && !needs.depth && !needs.source);
    assert_eq!(policies.needs(&CLERK, &world.tool("tidy")), Needs::default());
    assert!(policies.needs(&ANNA, &world.tool("tidy")).labels);
}

#[test]
fn a_pair_is_judged_by_all_that_it_is() {
    let policies = Policies::load(&format!(
        "{BOTH}@id(\"x\") forbid (principal, action == Action::\"call\", resource) when {{ resource.tags.contains(\"x\") || \
         principal.roles.contains(\"viewer\") || (principal has owner && principal.owner == \"o\") || resource.version == \"2\" }};"
    ))
    .unwrap();
    let world = World::new();
    let tool = world.tool("tidy");
    let tags = ["x".to_owned()];
    let check = |subject: &Subject<'_>, tool: &ToolFacts<'_>, expected: &str| {
        assert_eq!(said(&policies, subject, tool, &json!({})), expected);
    };
    check(&CLERK, &tool, "allow");
    check(&CLERK, &ToolFacts { tags: &tags, ..tool }, "deny x");
    check(&CLERK, &tool, "allow");
    check(&Subject { roles: &[Role::Viewer], ..CLERK }, &tool, "deny x");
    check(&Subject { owner: Some("o"), ..CLERK }, &tool, "deny x");
    check(&Subject { owner: None, ..CLERK }, &tool, "allow");
    check(&CLERK, &ToolFacts { version: "2", risk: Risk::Critical, ..tool }, "deny x");
    check(&CLERK, &tool, "allow");
}
