//! `TOOL.md` files as authors write them, with the lines of what is wrong.

use serde_json::json;
use toolgate_contracts::Definition;
use toolgate_registry::schema::Dialect;
use toolgate_registry::tool_md::{FILE_BYTES_MAX, parse, parse_as, parse_json, write};
use toolgate_registry::{Finding, Severity};

const SEND_EMAIL: &str = "---
name: send_email
version: 1.0.0
description: Send an email to a recipient. Use this when a person must be told; do not use it for drafts.
category: communication
tags: [email, notify]
egress_class: write
input_schema:
  type: object
  required: [to, subject]
  properties:
    to: {type: string, description: Recipient email}
    subject:
      type: string
      description: One line
output_schema: null
hitl:
  mode: blocking
  timeout_s:
examples:
  - title: Short
    input: {to: ada@example.com, subject: null}
runner: {kind: external}
---

# Sending mail

A line of `---` below is part of the text:

---
";

fn show(findings: &[Finding]) -> String {
    findings.iter().map(|finding| finding.show("TOOL.md")).collect::<Vec<_>>().join("\n")
}

fn refused(file: &str) -> String {
    show(&parse(file.as_bytes()).expect_err(file))
}

#[test]
fn a_file_becomes_a_definition() {
    let authored = parse(SEND_EMAIL.as_bytes()).unwrap();
    let Definition { name, version, docs, output_schema, hitl, examples, .. } = authored.definition;
    assert_eq!(name.as_str(), "send_email");
    assert_eq!(version.unwrap().to_string(), "1.0.0");
    assert_eq!(docs, "# Sending mail\n\nA line of `---` below is part of the text:\n\n---");
    assert_eq!(output_schema, None, "null means absent for our own members");
    assert_eq!(hitl.unwrap().timeout_s, None);
    assert_eq!(examples[0].input, json!({"to": "ada@example.com", "subject": null}), "never inside a payload");
    assert!(authored.notes.is_empty());
    for (pointer, line) in [
        ("/name", 2),
        ("/input_schema/properties/subject/type", 14),
        ("/hitl/mode", 18),
        ("/examples/0/input/to", 22),
        ("/docs", 25),
    ] {
        assert_eq!(authored.lines.line(pointer), Some(line), "{pointer}");
    }
}

#[test]
fn the_same_file_from_another_system_is_the_same_definition() {
    let windows = format!("\u{feff}{}", SEND_EMAIL.replace('\n', "\r\n"));
    assert_eq!(parse(windows.as_bytes()).unwrap().definition, parse(SEND_EMAIL.as_bytes()).unwrap().definition);
}

#[test]
fn a_definition_is_written_as_it_is_read() {
    let definition = parse(SEND_EMAIL.as_bytes()).unwrap().definition;
    assert_eq!(parse(write(&definition).as_bytes()).unwrap().definition, definition);
    let json = serde_json::to_vec(&definition).unwrap();
    let again = parse_json(&json).unwrap();
    assert_eq!(again.definition, definition);
    assert_eq!(again.lines.line("/name"), None);
}

#[test]
fn everything_wrong_is_told_at_once_with_its_line() {
    let file = "---
nam: send_email
description: 7
egress_class: wirte
idempotent: yes
cost: {per_call: 0.5}
input_schema: {}
runner:
  kind: http
  method: FETCH
  urll: https://a.test
---
";
    insta::assert_snapshot!(refused(file), @r#"
    TOOL.md:2: error[member.missing]: `name` is missing
      fix: add `name: verbNoun`, for example `name: sendEmail`
    TOOL.md:2: error[member.unknown]: `nam` is not a known member (at /nam)
      fix: did you mean `name`?
    TOOL.md:3: error[member.type]: expected a text, got the number 7 (at /description)
      fix: put it in quotes
    TOOL.md:4: error[member.value]: `wirte` is not one of none, read_only, write (at /egress_class)
      fix: did you mean `write`?
    TOOL.md:5: error[member.type]: expected `true` or `false`, got the text `yes` (at /idempotent)
      fix: write `true` or `false`, without quotes
    TOOL.md:5: warning[yaml.ambiguous]: `yes` is read as text, though some YAML readers take it for something else (at /idempotent)
      fix: put it in quotes, or write `true` or `false` if a boolean is meant
    TOOL.md:6: error[member.type]: expected a text, got the number 0.5 (at /cost/per_call)
      fix: put it in quotes
    TOOL.md:8: error[member.missing]: `url` is missing (at /runner)
      fix: add `url:`
    TOOL.md:10: error[member.value]: `FETCH` is not one of GET, HEAD, POST, PUT, PATCH, DELETE (at /runner/method)
      fix: choose one of them
    TOOL.md:11: error[member.unknown]: `urll` is not a known member (at /runner/urll)
      fix: did you mean `url`?
    "#);
}

#[test]
fn files_that_are_none_are_refused_with_a_remedy() {
    let first = |bytes: &[u8]| parse(bytes).expect_err("refused").remove(0);
    assert_eq!(first(b"").code, "file.front-matter");
    assert_eq!(first(b"# Title\n").code, "file.front-matter");
    assert_eq!(first(b"---\nname: x\n").code, "file.front-matter");
    assert_eq!(first(b"---\n---\n").code, "file.empty");
    assert_eq!(first(b"---\n- a\n- b\n---\n").code, "file.empty");
    assert_eq!(
        first(b"---\nname: x\n\xff\n---\n").show("T"),
        "T:3: error[file.utf8]: the file is not UTF-8 text\n  fix: save it as UTF-8"
    );
    let findings = parse(b"---\ndocs: x\nname: y\n---\n").expect_err("refused");
    assert!(
        findings.iter().any(|finding| finding.code == "member.docs" && finding.line == Some(2)),
        "{}",
        show(&findings)
    );
    assert_eq!(first("---\nname: x\ncost: {per_call: 1e400}\n---\n".as_bytes()).code, "yaml.number");
}

#[test]
fn large_files_are_refused_before_they_are_read() {
    let huge = vec![b'['; 50 * 1024 * 1024];
    let finding = parse(&huge).expect_err("refused").remove(0);
    assert_eq!(finding.code, "file.too-large");
    assert!(finding.message.contains(&FILE_BYTES_MAX.to_string()), "{finding:?}");
    assert_eq!(parse_json(&huge).expect_err("refused")[0].code, "file.unreadable");
}

#[test]
fn yaml_tricks_are_refused_with_their_line() {
    let with = |line: &str| format!("---\nname: x\n{line}\n---\n");
    for (line, code, number) in [
        ("tags: &t [a]", "yaml.anchor", 3),
        ("tags: *t", "yaml.alias", 3),
        ("hitl:\n  <<: {mode: blocking}", "yaml.merge", 4),
        ("title: !!str 5", "yaml.tag", 3),
        ("name: y", "yaml.duplicate", 3),
        ("title: \"open", "yaml.syntax", 4),
    ] {
        let findings = parse(with(line).as_bytes()).expect_err(line);
        assert!(findings.iter().any(|f| f.code == code && f.line == Some(number)), "{line}: {}", show(&findings));
    }
}

const DRAFT_07: &str = "---
name: sumPairs
description: Sum pairs of numbers. Use this when there are many; do not use it for one, add it yourself.
egress_class: none
input_schema:
  $schema: http://json-schema.org/draft-07/schema#
  type: object
  properties:
    pairs:
      type: array
      description: The pairs
      items: {$ref: '#/definitions/pair'}
  definitions:
    pair:
      type: array
      items: [{type: number}, {type: numbr}]
      additionalItems: false
runner: {kind: expression, cel: '1'}
---
";

#[test]
fn a_draft_07_schema_is_converted_and_its_findings_keep_their_lines() {
    let authored = parse(DRAFT_07.as_bytes()).unwrap();
    assert_eq!(authored.definition.input_schema["$defs"]["pair"]["prefixItems"][1]["type"], "numbr");
    assert_eq!(authored.originals.input_schema.as_ref().unwrap()["definitions"]["pair"]["additionalItems"], false);
    insta::assert_snapshot!(show(&authored.notes), @r"
    TOOL.md:5: note[schema.converted]: the schema is draft-07 and was converted to 2020-12: `additionalItems` became `items`; `definitions` became `$defs`; a tuple in `items` became `prefixItems` (at /input_schema)
      fix: nothing to do; the original is kept and rendered back where draft-07 is asked for
    ");
    let mut findings = toolgate_registry::schema::check(&authored.definition.input_schema, "/input_schema");
    findings.retain(|finding| finding.severity == Severity::Error);
    authored.lines.locate(&mut findings);
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|finding| finding.line == Some(16)), "{}", show(&findings));
}

#[test]
fn a_dialect_can_be_named_for_schemas_that_do_not_name_theirs() {
    let file = DRAFT_07.replace("  $schema: http://json-schema.org/draft-07/schema#\n", "");
    assert!(parse(file.as_bytes()).unwrap().originals.input_schema.is_none());
    assert!(parse_as(file.as_bytes(), Dialect::Draft07).unwrap().originals.input_schema.is_some());
}
