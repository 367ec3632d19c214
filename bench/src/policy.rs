//! What the policies cost a call: the decision with its standing part kept, beside Cedar's authorizer over all policies.
//!
//! Sets of 5 to 500 policies: the two that permit, policies about other tools, policies about who calls and what the tool
//! is, and none, one or two that read an argument of the tool that is called.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_contracts::caller::Source;
use toolgate_contracts::definition::{EgressClass, Label, Origin, Risk, Sink};
use toolgate_contracts::{Digest, Role, Timestamp};
use toolgate_policy::cedar::{
    Circumstances, DEFAULT, KnownTool, Policies, Subject, SubjectKind, ToolFacts, Vocabulary,
};

use crate::Failure;
use crate::report::{Goal, Report, time};

const DECISIONS: usize = 20_000;
const PLAIN_DECISIONS: usize = 1_000;
const PAIRS: usize = 500;

/// Which actions have a policy that reads an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Residue {
    None,
    One,
    Both,
    Decimal,
}

impl Residue {
    const ALL: [Self; 4] = [Self::None, Self::One, Self::Both, Self::Decimal];

    const fn about(self) -> &'static str {
        match self {
            Self::None => "no argument is read",
            Self::One => "one action reads an argument",
            Self::Both => "both actions read an argument",
            Self::Decimal => "one action reads a decimal argument",
        }
    }

    const fn policies(self) -> &'static [&'static str] {
        const ASKS: &str = "@id(\"asks\") forbid (principal, action == Action::\"call_unattended\", resource == \
                            Tool::\"pay\") when { context.args.amount > 500 };\n";
        const DENIES: &str = "@id(\"denies\") forbid (principal, action == Action::\"call\", resource == Tool::\"pay\") \
                              when { context.args.account like \"XX*\" };\n";
        const DECIMAL: &str = "@id(\"decimal\") forbid (principal, action == Action::\"call_unattended\", resource == \
                               Tool::\"pay\") when { context.args.rate.greaterThan(decimal(\"1.5\")) };\n";
        match self {
            Self::None => &[],
            Self::One => &[ASKS],
            Self::Both => &[ASKS, DENIES],
            Self::Decimal => &[DECIMAL],
        }
    }
}

pub fn run(report: &mut Report) -> Result<(), Failure> {
    let schema = json!({"type": "object", "required": ["amount", "account", "rate"], "properties": {
        "amount": {"type": "integer"}, "account": {"type": "string"}, "rate": {"type": "number"},
        "note": {"type": "string"}}});
    let args = json!({"amount": 120, "account": "DE02120300000000202051", "rate": 1.25, "note": "x"});
    for count in [5, 20, 100, 500] {
        for residue in Residue::ALL {
            let policies = policies(count, residue, &schema)?;
            measure(report, count, residue, &policies, &schema, &args);
        }
    }
    Ok(())
}

fn measure(report: &mut Report, count: usize, residue: Residue, policies: &Policies, schema: &Value, args: &Value) {
    let subject = Subject {
        kind: SubjectKind::Agent,
        id: "0192f0c1-7b1e-7c3a-8a55-1c2d3e4f5a6b",
        roles: &[Role::Member],
        workspace: Some("finance"),
        owner: Some("user:0192f0c1-7b1e-7c3a-8a55-1c2d3e4f5a6c"),
    };
    let tags = ["money".to_owned(), "out".to_owned()];
    let tool = ToolFacts {
        name: "pay",
        version: "1.4.2",
        egress_class: EgressClass::ReadOnly,
        risk: Risk::Sensitive,
        category: Some("data/management"),
        group: Some("money"),
        tags: &tags,
        origin: Origin::Tenant,
        sink: Sink::Fixed,
        input_schema: schema,
        key: Digest::of(b"pay@1.4.2"),
    };
    let circumstances = Circumstances {
        labels: &[Label::Private],
        source: Source::Mcp,
        depth: 1,
        now: Timestamp::from_millis(1_794_762_000_000),
        args,
    };
    let about = residue.about();
    let _ = policies.decide(&subject, &tool, &circumstances);
    let short = time(DECISIONS, || policies.decide(&subject, &tool, &circumstances));
    let plain = time(PLAIN_DECISIONS, || policies.decide_plainly(&subject, &tool, &circumstances));
    let metric = format!("{count} policies, {about}: CPU of a decision");
    match (count, residue) {
        (20, Residue::One | Residue::Decimal) => report.goal(&metric, "us", short.cpu, Goal::AtMost(9.0), None),
        (20, Residue::Both) => report.goal(&metric, "us", short.cpu, Goal::AtMost(12.0), None),
        (500, _) => report.goal(&metric, "us", short.cpu, Goal::AtMost(15.0), None),
        _ => {}
    }
    report.line(format!("{metric} (baseline: plain Cedar)"), "us", short.cpu, Some(plain.cpu));
    if residue == Residue::Both {
        let names: Vec<String> = (0..PAIRS).map(|number| format!("agent-{number}")).collect();
        let mut names = names.iter();
        let first = time(PAIRS, || {
            let id = names.next().map_or("last", String::as_str);
            policies.never_allows(&Subject { id, ..subject }, &tool)
        });
        report.line(
            format!("{count} policies: CPU of the first decision about a caller and a tool"),
            "us",
            first.cpu,
            None,
        );
    }
}

fn policies(count: usize, residue: Residue, schema: &Value) -> Result<Policies, Failure> {
    let names: Vec<String> = (0..count).map(|number| format!("tool{number}")).collect();
    let mut text = DEFAULT.to_owned();
    for policy in residue.policies() {
        text.push_str(policy);
    }
    for number in 0..count.saturating_sub(2 + residue.policies().len()) {
        let _ = match number % 3 {
            0 => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal, action, resource == Tool::\"tool{number}\") when {{ \
                 context.args.amount > {number} }};"
            ),
            1 => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal is User, action == Action::\"call\", resource) when {{ \
                 resource.risk == \"critical\" && resource.tags.contains(\"t{number}\") }};"
            ),
            _ => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal, action == Action::\"call_unattended\", resource) when {{ \
                 principal.id == \"agent {number}\" && context.depth > 2 }};"
            ),
        };
    }
    let known = |name| KnownTool {
        name,
        aliases: Vec::new(),
        egress_class: EgressClass::ReadOnly,
        group: Some("money"),
        input_schemas: vec![schema],
    };
    let tools = names.iter().map(|name| known(name.as_str())).chain([known("pay")]).collect();
    let vocabulary = Vocabulary { tools, ..Vocabulary::default() };
    let compiled = Policies::compile(&text, &vocabulary)
        .map_err(|findings| findings.iter().map(|finding| finding.show("bench")).collect::<Vec<_>>().join("\n"))?;
    Ok(compiled.policies)
}
