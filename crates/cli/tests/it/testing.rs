//! `toolgate tool test`: offline, with every problem by file and line.

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{Home, root};

const GOOD: &str = "---
name: formatTotal
title: Total
description: Adds up a list. Use it for sums. Do not use it for dates.
input_schema:
  type: object
  additionalProperties: false
  required: [numbers]
  properties:
    numbers: {type: array, description: What to add., maxItems: 10, items: {type: number, description: One of them.}}
output_schema:
  type: object
  additionalProperties: false
  required: [sum]
  properties:
    sum: {type: number, description: The sum.}
runner: {kind: expression, cel: 'size(input.numbers)'}
---

Adds.
";

#[test]
fn a_good_file_is_good() {
    let home = Home::new();
    home.write("TOOL.md", GOOD);
    assert_snapshot!(home.ok(&["tool", "test", "TOOL.md"]), @r"
    TOOL.md: ok
    TOOL.md:2: note[class.unsaid]: `egress_class` is not written; it is taken for `none`
      fix: write `egress_class: none`, `read_only` or `write`, so that nobody has to know the default
    TOOL.md:2: note[example.missing]: there are no examples (at /examples)
      fix: add one or two under `examples`: people see them, and `tool test` checks them
    1 file: 0 errors, 0 warnings, 2 notes
    ");
    assert_snapshot!(home.ok(&["tool", "test", "."]), @r"
    ./TOOL.md: ok
    ./TOOL.md:2: note[class.unsaid]: `egress_class` is not written; it is taken for `none`
      fix: write `egress_class: none`, `read_only` or `write`, so that nobody has to know the default
    ./TOOL.md:2: note[example.missing]: there are no examples (at /examples)
      fix: add one or two under `examples`: people see them, and `tool test` checks them
    1 file: 0 errors, 0 warnings, 2 notes
    ");
}

#[test]
fn every_problem_is_told_with_its_line_and_its_remedy() {
    let home = Home::new();
    home.write(
        "a/TOOL.md",
        &GOOD
            .replace("kind: expression, cel: 'size(input.numbers)'", "kind: external")
            .replace("title: Total", "titel: Total"),
    );
    home.write(
        "b/TOOL.md",
        &GOOD
            .replace("formatTotal", "formatSum")
            .replace("kind: expression, cel: 'size(input.numbers)'", "kind: external"),
    );
    home.write("c/TOOL.md", "no front matter");
    let ran = home.run(&["tool", "test", "."]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.stdout, @r"
    ./a/TOOL.md: has errors
    ./a/TOOL.md:3: error[member.unknown]: `titel` is not a known member (at /titel)
      fix: did you mean `title`?
    ./b/TOOL.md: has errors
    ./b/TOOL.md:2: error[floor.class]: `egress_class` is not set, which means `none`, but the `external` runner is at least `write` (at /egress_class)
      fix: write `egress_class: write`
    ./b/TOOL.md:2: note[class.unsaid]: `egress_class` is not written; it is taken for `none`
      fix: write `egress_class: none`, `read_only` or `write`, so that nobody has to know the default
    ./b/TOOL.md:2: note[example.missing]: there are no examples (at /examples)
      fix: add one or two under `examples`: people see them, and `tool test` checks them
    ./c/TOOL.md: has errors
    ./c/TOOL.md:1: error[file.front-matter]: the first line is not `---`
      fix: begin the file with a line `---`, then the members, then another `---`, then the documentation
    3 files: 3 errors, 0 warnings, 2 notes
    ");

    let ran = home.run(&["tool", "test", ".", "--json"]);
    assert_eq!(ran.code, 1);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let files = value["files"].as_array().unwrap();
    assert_eq!(files.len(), 3);
    assert!(files.iter().all(|file| file["ok"] == false && file["findings"][0]["line"].is_number()), "{value}");
}

#[test]
fn draft_07_is_converted_and_shown() {
    let home = Home::new();
    let schema = "input_schema:\n  $schema: http://json-schema.org/draft-07/schema#\n  definitions: {n: {type: number, description: One of them.}}\n";
    let text = GOOD
        .replace("input_schema:\n", schema)
        .replace("items: {type: number, description: One of them.}", "items: {$ref: '#/definitions/n'}");
    home.write("TOOL.md", &text);
    assert_snapshot!(home.ok(&["tool", "test", "TOOL.md"]), @r##"
    TOOL.md: ok
    TOOL.md:2: note[class.unsaid]: `egress_class` is not written; it is taken for `none`
      fix: write `egress_class: none`, `read_only` or `write`, so that nobody has to know the default
    TOOL.md:2: note[example.missing]: there are no examples (at /examples)
      fix: add one or two under `examples`: people see them, and `tool test` checks them
    TOOL.md:5: note[schema.converted]: the schema is draft-07 and was converted to 2020-12: `definitions` became `$defs` (at /input_schema)
      fix: nothing to do; the original is kept and rendered back where draft-07 is asked for
    --- input_schema (draft-07)
    +++ input_schema (2020-12)
    @@ -1,6 +1,6 @@
     {
    -  "$schema": "http://json-schema.org/draft-07/schema#",
    -  "definitions": {
    +  "$schema": "https://json-schema.org/draft/2020-12/schema",
    +  "$defs": {
         "n": {
           "type": "number",
           "description": "One of them."
    @@ -17,7 +17,7 @@
           "description": "What to add.",
           "maxItems": 10,
           "items": {
    -        "$ref": "#/definitions/n"
    +        "$ref": "#/$defs/n"
           }
         }
       }
    1 file: 0 errors, 0 warnings, 3 notes
    "##);
    let value = home.json(&["tool", "test", "TOOL.md"]);
    assert!(value["files"][0]["converted"]["input_schema"]["$defs"].is_object(), "{value}");
}

#[test]
fn steps_are_looked_up_among_the_files_and_else_taken_on_trust() {
    let home = Home::new();
    let composition = |name: &str, tool: &str| {
        GOOD.replace("formatTotal", name).replace(
            "{kind: expression, cel: 'size(input.numbers)'}",
            &format!("{{kind: composition, steps: [{{id: one, tool: {tool}}}]}}"),
        )
    };
    home.write("a/TOOL.md", &composition("formatA", "formatB"));
    home.write("b/TOOL.md", &composition("formatB", "formatA"));
    let ran = home.run(&["tool", "test", "."]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("error[floor.circle]"), "{}", ran.stdout);
    let alone = home.run(&["tool", "test", "a"]);
    assert!(alone.stdout.contains("note[floor.offline]") && alone.stdout.contains("formatB"), "{}", alone.stdout);
    assert_eq!(alone.code, 0, "{}", alone.stdout);
    home.write("c/TOOL.md", &composition("formatC", "now"));
    home.ok(&["tool", "test", "c"]);
}

#[test]
fn the_examples_are_good() {
    let examples = root().join("examples/tools").display().to_string();
    Home::new().ok(&["tool", "test", &examples]);
}

#[test]
fn what_is_no_file_is_told() {
    let home = Home::new();
    home.write("folder/notes.txt", "");
    assert_snapshot!(home.fails(&["tool", "test", "gone"]), @r"
    error: cannot read gone: there is no such file
      hint: check the path and its mode
    exit 2
    ");
    assert_snapshot!(home.fails(&["tool", "test", "folder"]), @r"
    error: there is no TOOL.md in folder
      hint: name a TOOL.md, or a folder that holds some
    exit 2
    ");
    home.write("large/TOOL.md", &"x".repeat(50 * 1024 * 1024));
    let ran = home.run(&["tool", "test", "large"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("file.too-large"), "{}", ran.stdout);
}
