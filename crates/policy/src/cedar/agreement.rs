//! The short way and Cedar's own authorizer agree, whatever the policies, callers, tools and arguments: same answer, same
//! reasons. Sets are only read here, not checked, so that conditions which err are among them.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use toolgate_contracts::caller::Source;
use toolgate_contracts::definition::{EgressClass, Label, Origin, Risk, Sink};
use toolgate_contracts::{Digest, Role, Timestamp};

use super::tests::words;
use super::*;

const STANDING: &[&str] = &[
    "true",
    "false",
    "principal is User",
    "principal in Role::\"admin\"",
    "principal.roles.contains(\"member\")",
    "principal in Workspace::\"finance\"",
    "principal has owner",
    "principal.owner == \"o\"",
    "resource.risk == \"safe\"",
    "resource.tags.containsAny([\"x\", \"y\"])",
    "resource in Group::\"web\"",
    "resource in [Tool::\"a\", Tool::\"b\"]",
    "resource.version like \"1.*\"",
    "resource.category == \"data\"",
    "action == Action::\"call\"",
    "principal.gone",
    "1 + 9223372036854775807 > 0",
    "(if principal is Agent then resource has group else principal.gone)",
];
const OF_A_CALL: &[&str] = &[
    "context.labels.contains(\"private\")",
    "context.labels.isEmpty()",
    "context.source == \"mcp\"",
    "context.depth > 1",
    "context.now > datetime(\"2026-06-01\")",
    "context.args.n > 5",
    "context.args.n * 9223372036854775807 > 1",
    "context.args has n",
    "(context.args has n && context.args.n == 3)",
    "context.args.amount.greaterThan(decimal(\"2.5\"))",
    "context.args has amount",
    "context.args.amount == decimal(\"1.5\")",
    "context.args.text like \"a*\"",
    "context.args.text == \"{\\\"__entity\\\":1}\"",
    "context.args.list.len > 1",
    "context.args.list.items.contains(\"a\")",
    "context.args.list.items.containsAll([1, 2])",
    "context.args.deep.id == 3",
    "context.args has deep.id",
    "context.args.deep.inner == context.args.n",
    "context.args.flag",
    "context.args.whole == context.args.deep.id",
    "(if context.depth > 0 then context.args has text else action == Action::\"call\")",
    "context.gone == 1",
    "[principal.id, \"o\"].contains(context.args.text)",
];

fn condition() -> impl Strategy<Value = String> {
    let atom = prop_oneof![3 => select(STANDING), 2 => select(OF_A_CALL)].prop_map(str::to_owned);
    atom.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            4 => (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left}) && ({right})")),
            2 => (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            1 => inner.prop_map(|inner| format!("!({inner})")),
        ]
    })
}

fn policy() -> impl Strategy<Value = String> {
    let principal = select(&[
        "principal",
        "principal",
        "principal is Agent",
        "principal == User::\"u\"",
        "principal == Agent::\"u\"",
        "principal in Role::\"member\"",
        "principal is Agent in Workspace::\"finance\"",
        "principal in User::\"u\"",
    ]);
    let action = select(&[
        "action",
        "action == Action::\"call\"",
        "action == Action::\"call_unattended\"",
        "action in [Action::\"call\", Action::\"call_unattended\"]",
        "action in [Action::\"call\"]",
        "action == Action::\"other\"",
    ]);
    let resource = select(&[
        "resource",
        "resource",
        "resource is Tool",
        "resource == Tool::\"a\"",
        "resource == Tool::\"b\"",
        "resource in Group::\"web\"",
        "resource is Tool in Group::\"web\"",
    ]);
    let effect = select(&["permit", "permit", "forbid", "forbid", "@log_only(\"true\") forbid"]);
    let clauses = proptest::collection::vec((select(&["when", "unless"]), condition()), 0..3);
    (effect, principal, action, resource, clauses).prop_map(|(effect, principal, action, resource, clauses)| {
        let clauses: Vec<String> =
            clauses.into_iter().map(|(word, condition)| format!(" {word} {{ {condition} }}")).collect();
        let clauses = clauses.concat();
        format!("@reason(\"r\") {effect} ({principal}, {action}, {resource}){clauses};\n")
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    let value = |all: Vec<Value>| proptest::option::of(select(all));
    let numbers = vec![json!(3), json!(6), json!(-1), json!(2.0), json!(null), json!("3"), json!(0.5), json!(1e-9)];
    let amounts = vec![json!(1.5), json!(3), json!(2.5001), json!(0.000_01), json!(1e30), json!(null)];
    let texts =
        vec![json!("abc"), json!("u"), json!("{\"__entity\":1}"), json!({"__entity": {"type": "Tool", "id": "a"}})];
    let lists =
        vec![json!([]), json!(["a", "b"]), json!([1, 2, 2]), json!([0.000_01]), json!([null, {"x": 1}]), json!("a")];
    let deep =
        vec![json!({"id": 3, "inner": 3}), json!({"id": null}), json!({}), json!(5), json!({"id": 1e-9, "inner": 1})];
    let whole = vec![json!(3), json!({"id": {"a": [1, 1e-9]}}), json!([3]), json!(true)];
    (value(numbers), value(amounts), value(texts), value(lists), value(deep), value(whole)).prop_map(
        |(n, amount, text, list, deep, whole)| {
            let flag = n.as_ref().map(|_| json!(true));
            let named = [
                ("n", n),
                ("amount", amount),
                ("text", text),
                ("list", list),
                ("deep", deep),
                ("whole", whole),
                ("flag", flag),
            ];
            Value::Object(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        },
    )
}

#[derive(Clone, Debug)]
struct Facts {
    kind: SubjectKind,
    roles: Vec<Role>,
    workspace: Option<&'static str>,
    owner: Option<&'static str>,
    tool: &'static str,
    class: EgressClass,
    group: Option<&'static str>,
    tags: Vec<String>,
    typed: bool,
}

fn facts() -> impl Strategy<Value = Facts> {
    let who = (
        select(SubjectKind::ALL.to_vec()),
        subsequence(vec![Role::Member, Role::Admin], 0..=2),
        proptest::option::of(Just("finance")),
        proptest::option::of(select(vec!["o", "p"])),
    );
    let what = (
        select(vec!["a", "b", "c"]),
        select(EgressClass::ALL.to_vec()),
        proptest::option::of(select(vec!["web", "money"])),
        subsequence(vec!["x".to_owned(), "z".to_owned()], 0..=2),
        any::<bool>(),
    );
    (who, what).prop_map(|((kind, roles, workspace, owner), (tool, class, group, tags, typed))| Facts {
        kind,
        roles,
        workspace,
        owner,
        tool,
        class,
        group,
        tags,
        typed,
    })
}

impl Facts {
    fn subject(&self) -> Subject<'_> {
        let Self { kind, roles, workspace, owner, .. } = self;
        Subject { kind: *kind, id: "u", roles, workspace: *workspace, owner: *owner }
    }

    fn tool<'a>(&'a self, input_schema: &'a Value) -> ToolFacts<'a> {
        let Self { tool, class, group, tags, .. } = self;
        ToolFacts {
            name: tool,
            version: "1.2.3",
            egress_class: *class,
            risk: Risk::Safe,
            category: group.map(|_| "data"),
            group: *group,
            tags,
            origin: Origin::Code,
            sink: Sink::None,
            input_schema,
            key: Digest::of(input_schema.to_string().as_bytes()),
        }
    }
}

fn calls() -> impl Strategy<Value = (Vec<Label>, Source, u32, i64, Value)> {
    (
        subsequence(Label::ALL.to_vec(), 0..=3),
        select(vec![Source::Mcp, Source::Web]),
        0..3_u32,
        select(vec![1_780_000_000_000, 1_790_000_000_000]),
        arguments(),
    )
}

/// How Cedar words an error depends on what else is in the context.
fn without_messages(mut judgement: Judgement) -> Judgement {
    if let Call::Errored { errors } = &mut judgement.call {
        for fault in errors {
            fault.message.clear();
        }
    }
    for hit in &mut judgement.logged {
        if let Some(error) = &mut hit.error {
            error.clear();
        }
    }
    judgement
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_short_way_and_plain_cedar_agree(
        policies in proptest::collection::vec(policy(), 0..10),
        permits in any::<bool>(),
        all in proptest::collection::vec((facts(), calls()), 1..6),
    ) {
        let mut text: String = policies.concat();
        if permits {
            text.push_str(DEFAULT);
        }
        let policies = Policies::load(&text)
            .map_err(|findings| TestCaseError::fail(findings.iter().map(|it| it.show(&text)).collect::<String>()))?;
        for (facts, (labels, source, depth, now, args)) in &all {
            let schema = if facts.typed {
                json!({"properties": {
                    "n": {"type": "integer"}, "amount": {"type": "number"},
                    "list": {"type": "array", "items": {"type": "number"}},
                    "deep": {"properties": {"id": {"type": "number"}}},
                }})
            } else {
                json!({})
            };
            let (subject, tool) = (facts.subject(), facts.tool(&schema));
            let now = Timestamp::from_millis(*now);
            let circumstances = Circumstances { labels, source: *source, depth: *depth, now, args };
            let short = policies.decide(&subject, &tool, &circumstances);
            let plain = policies.decide_plainly(&subject, &tool, &circumstances);
            prop_assert_eq!(words(&short), words(&plain), "{}", text);
            prop_assert_eq!(without_messages(short.clone()), without_messages(plain), "{}", text);

            let needs = policies.needs(&subject, &tool);
            if policies.never_allows(&subject, &tool) {
                prop_assert_ne!(&short.call, &Call::Allowed, "hidden and allowed: {}", text);
            } else if needs == Needs::default() && !text.contains("context.gone") {
                prop_assert_eq!(&short.call, &Call::Allowed, "listed and never allowed: {}", text);
            }

            let bare = |pointer: &String| pointer.split('/').nth(1).unwrap_or_default().to_owned();
            let named: Vec<String> = needs.args.iter().map(bare).collect();
            let kept: Map<String, Value> = args
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| named.contains(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let kept = Value::Object(kept);
            let other = Circumstances {
                labels: if needs.labels { labels } else { &[Label::Sensitive] },
                source: if needs.source { *source } else { Source::Schedule },
                depth: if needs.depth { *depth } else { 77 },
                now: if needs.now { now } else { Timestamp::from_millis(0) },
                args: &kept,
            };
            prop_assert_eq!(&policies.decide(&subject, &tool, &other), &short, "more is read than is said: {}", text);
        }
    }
}
