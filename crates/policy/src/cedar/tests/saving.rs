//! What is told when a set is saved: findings as a snapshot, limits, and the examples of the page for users.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_contracts::definition::EgressClass;

use super::{CLERK, World, circumstances};
use crate::cedar::*;

/// What is said about wrong sets; a change is visible in review.
#[test]
fn findings_name_place_and_remedy() {
    let world = World::new();
    let cases = [
        "permit (principal, action, resource",
        "permit (principal, action, resource) when { context.args.amount >< 3 };",
        "permit (principal == ?principal, action, resource);",
        "// fine\n@id(\"a\") permit (principal, action, resource);\n  @id(\"a\") permit (principal, action, resource);",
        "@id(\"\") permit (principal, action, resource);",
        "@id(\"no permit\") permit (principal, action, resource);",
        "@aprovers(\"role:admin\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@approvers(\"3 of user:anna\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@mode(\"sometimes\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@mode(\"blocking\") permit (principal, action == Action::\"call_unattended\", resource);",
        "@mode(\"blocking\") forbid (principal, action, resource);",
        "@mode(\"fire_and_continue\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"pay\");",
        "@log_only(\"true\") permit (principal, action, resource);",
        "@log_only(\"yes\") forbid (principal, action, resource);",
        "forbid (principal, action == Action::\"cal\", resource);",
        "forbid (principal, action, resource == Tool::\"find_pages\");",
        "forbid (principal, action, resource == Tool::\"WEB_SEARCH\");",
        "forbid (principal, action, resource) when {\n  resource in [Tool::\"pay\", Tool::\"webSearch@1.0.0\"]\n};",
        "forbid (principal, action, resource == Tool::\"transfr\");",
        "forbid (principal, action, resource == Tool::\"nothing_like_it\");",
        "forbid (principal in Role::\"aprover\", action, resource in Group::\"mony\");",
        "forbid (principal == Agent::\"clark\", action, resource);",
        "forbid (principal in Workspace::\"sales\", action, resource);",
        "forbid (principal == Rolle::\"r\", action, resource);",
        "forbid (principal, action, resource) when { resource.risk == \"critcal\" };",
        "forbid (principal, action, resource) when { context.labels.containsAny([\"secret\"]) };",
        "forbid (principal, action, resource) when { principal.roles.contains(\"boss\") };",
        "forbid (principal, action, resource) when { principal.name == \"x\" };",
        "forbid (principal, action, resource) when { principal.workspace == \"finance\" };",
        "forbid (principal, action, resource) when { context.args == {amount: 3} };",
        "forbid (principal, action, resource) when { context.args.query == \"x\" };",
        "forbid (principal, action, resource) when { context.args has amount && context.args.amount > 5 };",
        "forbid (principal, action, resource == Tool::\"pay\") when {\n  context.args.amoutn > 500\n};",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.amount > 500 };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.to == \"x\" };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.lines.items.contains(\"x\") };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.customer == \"x\" };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.any == \"x\" };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.note == \"x\" };",
        "forbid (principal, action, resource == Tool::\"pay\") when { context.args.currency.code == \"x\" };",
        "permit (principal, action == Action::\"call\", resource);",
        "",
        "// nothing but a remark\n",
        "@approvers(\"2 of role:approver\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@approvers(\"3 of role:approver, role:admin\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@approvers(\"role:operator\") forbid (principal, action == Action::\"call_unattended\", resource);",
        "@approvers(\"user:0199c1c0-0000-7000-8000-000000000009\")\nforbid (principal, action == Action::\"call_unattended\", resource);",
        "@log_only(\"true\") forbid (principal, action, resource == Tool::\"pay\");",
        "@log_only(\"true\") forbid (principal, action, resource == Tool::\"webSearch\");",
        "@log_only(\"true\") forbid (principal, action, resource);",
        "@log_only(\"true\") forbid (principal, action, resource) when { resource.egress_class != \"write\" };",
        // One error hides no other.
        "@mode(\"sometimes\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"transfr\");\n\
         permit (principal == ?principal, action, resource);\n\
         @id(\"\") forbid (principal in Role::\"aprover\", action, resource);\n\
         forbid (principal, action, resource == Tool::\"pay\") when { context.args.amoutn > 500 };",
    ];
    let mut shown = String::new();
    for case in cases {
        let _ = writeln!(shown, "{case}");
        let (word, findings) = match Policies::compile(case, &world.vocabulary()) {
            Ok(compiled) => ("saved", compiled.warnings),
            Err(findings) => ("refused", findings),
        };
        let _ = writeln!(shown, "=> {word}");
        for finding in findings {
            // Nothing is permitted in most of these, which is not their point.
            if word == "saved" || finding.code != "policy.no-permit" {
                let _ = writeln!(shown, "{}", finding.show("x.cedar"));
            }
        }
        shown.push('\n');
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn limits_are_named() {
    let long = format!("// {}\n", "x".repeat(SOURCE_BYTES_MAX));
    let findings = Policies::load(&long).unwrap_err();
    assert!(findings[0].message.contains("the limit is 524288"), "{}", findings[0].message);
    let many = "permit(principal,action,resource);".repeat(POLICIES_MAX + 1);
    let findings = Policies::load(&many).unwrap_err();
    assert!(findings[0].message.contains("the limit is 2000"), "{}", findings[0].message);
}

/// Every policy in the page for users can be saved.
#[test]
fn the_examples_of_the_page_compile() {
    let page = include_str!("../../../../../docs/policy.md");
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let pay = object(json!({"amount": {"type": "number"}}), &["amount"]);
    let search = object(json!({"query": {"type": "string"}}), &["query"]);
    let mail = object(json!({"to": {"type": "array", "items": {"type": "string"}}}), &["to"]);
    let get = object(json!({"url": {"type": "string"}}), &["url"]);
    let tool = |name, egress_class, group, schema| KnownTool {
        name,
        aliases: Vec::new(),
        egress_class,
        group,
        input_schemas: vec![schema],
    };
    let vocabulary = Vocabulary {
        tools: vec![
            tool("pay_invoice", EgressClass::Write, None, &pay),
            tool("web_search", EgressClass::ReadOnly, Some("web"), &search),
            tool("send_mail", EgressClass::Write, None, &mail),
            tool("http_get", EgressClass::ReadOnly, Some("web"), &get),
        ],
        workspaces: Some(vec!["research", "finance"]),
        ..Vocabulary::default()
    };
    let blocks: Vec<&str> = page.split("```cedar\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 8, "{} examples", blocks.len());
    for block in blocks {
        let set = if block.contains("default-call") { block.to_owned() } else { format!("{DEFAULT}{block}") };
        match Policies::compile(&set, &vocabulary) {
            // That a trial does not hold for what writes is told on the page, and when it is saved.
            Ok(compiled) => {
                assert!(
                    compiled.warnings.iter().all(|it| it.code == "policy.log-only"),
                    "{block}\n{:?}",
                    compiled.warnings
                );
            }
            Err(findings) => panic!("{block}\n{findings:?}"),
        }
    }
    let default = page.split("```cedar\n").nth(1).unwrap_or_default().split("```").next().unwrap_or_default();
    let bare = |text: &str| {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(bare(default), bare(DEFAULT), "the page shows the default set");
}

/// Cedar and what walks its trees here recurse: the deepest that may be written stays within a worker's stack.
#[test]
fn the_largest_policy_fits_a_stack() {
    let chain = |word: &str, words: usize| {
        let members = (words - 40) / 5;
        format!("permit (principal, action, resource) when {{ {} }};", vec!["context.depth > 1"; members].join(word))
    };
    let nested = |open: &str, close: &str, depth: usize| {
        let inside = format!("{}context.depth{}", open.repeat(depth), close.repeat(depth));
        format!("permit (principal, action, resource) when {{ {inside} == 3 }};")
    };
    let check = |text: String| {
        let world = World::new();
        match Policies::load(&text) {
            Ok(policies) => {
                let tool = world.tool("tidy");
                let args = json!({});
                let _ = policies.decide(&CLERK, &tool, &circumstances(&args));
                let _ = policies.decide_plainly(&CLERK, &tool, &circumstances(&args));
                let _ = Policies::compile(&text, &world.vocabulary());
            }
            Err(findings) => assert!(!findings.is_empty()),
        }
    };
    let texts = vec![
        chain(" && ", POLICY_WORDS_MAX),
        chain(" || ", POLICY_WORDS_MAX),
        chain(" && ", 100 * POLICY_WORDS_MAX),
        nested("(", ")", NESTING_MAX - 2),
        nested("[", "]", NESTING_MAX - 2),
        nested("[", "]", 100_000),
        nested("(if true then ", " else 1)", NESTING_MAX - 2),
        nested("if true then ", " else 1", 300),
        nested("!", "", POLICY_WORDS_MAX - 40),
        nested("-", "", POLICY_WORDS_MAX - 40),
        nested("", ".a", POLICY_WORDS_MAX / 2 - 40),
        nested("", " + 1", POLICY_WORDS_MAX / 2 - 40),
        nested("", " * 1", POLICY_WORDS_MAX / 2 - 40),
        nested("\"x\" == \"x\" || ", "", POLICY_WORDS_MAX / 4 - 20),
    ];
    let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    worker.spawn(move || texts.into_iter().for_each(check)).unwrap().join().unwrap();
}
