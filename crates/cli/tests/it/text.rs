//! Text for people: what the commands that are used most look like, and what may never be printed.

use insta::assert_snapshot;

use crate::program::{Home, both};

const RATE: &str = "---
name: getRate
title: Exchange rate
description: >-
  Reads the exchange rate of a currency. Use it before converting money. Do not use it for shares, and ask for one
  currency at a time.
category: data/exploration
tags: [money, currency]
egress_class: read_only
aliases:
  - {name: fetchRate, remove_by: 2030-01-01}
required_permission: rates.read
input_schema:
  type: object
  additionalProperties: false
  required: [currency]
  properties:
    currency: {type: string, description: Three letters., maxLength: 3}
    days: {type: array, description: Which days., maxItems: 9, items: {type: integer, description: A day.}}
output_schema:
  type: object
  additionalProperties: false
  required: [rate]
  properties:
    rate: {type: number, description: The rate.}
examples:
  - {title: The euro, input: {currency: EUR}, output: {rate: 1.5}}
runner: {kind: http, method: GET, url: 'https://rates.example.com/{currency}'}
---

# Rates

From the bank.
";

#[test]
fn lists_and_details_are_readable() {
    let home = Home::new();
    let show = |arguments: &[&str]| home.redact(&home.ok(arguments));
    assert_snapshot!(show(&["init"]), @r"
    Toolgate is ready to use

      Data      [home]/data
      Database  sqlite://[home]/data/toolgate.db, migration [n]
      Tenant    default

    Next
      toolgate serve              start the server and open the link it prints
      toolgate tool test PATH     check a TOOL.md
      toolgate tool register --file PATH --apply
      toolgate doctor             see whether everything is well
    ");
    home.write("TOOL.md", &RATE.replace("required_permission: rates.read\n", ""));
    assert_snapshot!(show(&["tool", "register", "--file", "TOOL.md", "--apply"]), @r#"
    Registered getRate 1.0.0
    1 note: see `toolgate tool test TOOL.md`
    "#);
    assert_snapshot!(show(&["tool", "list", "--origin", "tenant"]), @r"
    NAME     VERSION  CLASS      RISK       CATEGORY          DESCRIPTION
    getRate  1.0.0    read_only  sensitive  data/exploration  Reads the exchange rate of a currency. Use it before converting money. Do not use it for shares, and ask for one currency at a time.
    ");
    assert_snapshot!(show(&["tool", "show", "fetch_rate"]), @r#"
    getRate 1.0.0 — Exchange rate
    Reads the exchange rate of a currency. Use it before converting money. Do not use it for shares, and ask for one currency at a time.

      Class      read_only (reads), risk sensitive, sink fixed
      Approval   not required
      State      active, enabled, origin tenant
      Category   data/exploration
      Type       api
      Tags       money, currency
      Aliases    fetchRate (until 2030-01-01)
      Runner     http
      Limits     30000 ms, 2097152 bytes
      Wire name  getRate
      Digest     [digest]
      Published  [time]           by local:[uid]

    Input
      FIELD     TYPE                        DESCRIPTION
      currency  string            required  Three letters.
      days      array of integer            Which days.

    Output
      FIELD  TYPE              DESCRIPTION
      rate   number  required  The rate.

    Examples
      The euro
        {"currency":"EUR"}
        → {"rate":1.5}

    Documentation
      # Rates

      From the bank.
    "#);
    assert_snapshot!(show(&["search", "exchange rate", "--limit", "1"]), @r"
    KIND  NAME     CLASS      CATEGORY          DESCRIPTION
    tool  getRate  read_only  data/exploration  Reads the exchange rate of a currency. Use it before converting money. Do not use it for shares, and ask for one currency at a time.
    ");
    home.ok(&[
        "agent",
        "create",
        "--name",
        "billing",
        "--title",
        "Billing",
        "--toolset",
        "assigned",
        "--tool",
        "getRate",
    ]);
    assert_snapshot!(show(&["agent", "show", "billing", "--tools"]), @r#"
    billing — Billing

      Id         [id]
      State      active, revision 1
      Tool set   assigned
      Tools      getRate
      Limits     max_iterations 10, max_tool_calls 25, max_wall_s 600, max_parallel 16, max_depth 5
      Owner      [id]
      Workspace  main

    Tools
      TOOL     VERSION  CLASS
      getRate  1.0.0    read_only
    "#);
    let why = show(&["agent", "show", "billing", "--why"]);
    let words: Vec<_> = why.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(words.contains(&"in getRate read_only in custom_tools".to_owned()), "{why}");
    assert!(words.contains(&"out calculator none not assigned (toolgate tool assign)".to_owned()), "{why}");
    assert_snapshot!(show(&["agent", "list"]), @r"
    NAME     MODEL  TOOLS     STATE   PROFILE  TITLE
    billing         assigned  active           Billing
    ");
    assert_snapshot!(show(&["user", "list"]), @r"
    NAME   KIND    ROLES            WORKSPACES  STATE   E-MAIL
    admin  person  admin, operator  main        active
    ");
    assert_snapshot!(show(&["user", "show", "admin"]), @r"
    admin

      Id          [id]
      Kind        person
      State       active
      Roles       admin, operator
      Workspaces  main
      Since       [time]
    ");
    assert_snapshot!(show(&["tenant", "list"]), @r"
    TENANT   CURRENCY  OPEN WRITE  SINCE             ID                                    NAME
    default  USD       off         [time]            [id]                                  Default
    system   USD       off         [time]            00000000-0000-0000-0000-[digest]      System
    ");
    assert_snapshot!(show(&["key", "list"]), @"No keys; make one with `toolgate key create NAME`.");
    // What the sandbox says depends on the machine.
    let doctor = show(&["doctor"]);
    let (sandbox, others): (Vec<&str>, Vec<&str>) = doctor.lines().partition(|line| line.starts_with("ok  sandbox"));
    assert_eq!(sandbox.len(), 1, "{doctor}");
    assert_snapshot!(others.join("\n"), @r"
        CHECK          FOUND
    ok  configuration  every key is known
    ok  place          [home]/data, in this process
    ok  version        0.1.0
    ok  data folder    [home]/data
    ok  database       SQLite answers
    ok  migrations     [n] of [n]
    ok  serving        http://[address]
    ok  tool names     no tenant's tool hides a shared one
    ok  plug-ins       a machine of their own, and nothing of this one
    ok  rows           all can be read
    ok  registry       revision [n], [n] tenants
    ");
}

#[test]
fn a_change_is_shown_before_it_is_made() {
    let home = Home::new();
    let file = home.write("TOOL.md", RATE);
    home.ok(&["tool", "register", "--file", &file, "--apply"]);
    home.write("TOOL.md", &RATE.replace("maxItems: 9", "maxItems: 5"));
    let ran = home.run(&["tool", "register", "--file", "TOOL.md"]);
    assert_snapshot!(ran.stdout, @r#"
    getRate 1.0.0 would become 2.0.0 (narrowing)
    CLASS      AT                                      CHANGE
    narrowing  /input_schema/properties/days/maxItems  `maxItems` went from 9 to 5
    1 note: see `toolgate tool test TOOL.md`
    "#);
    assert_snapshot!(ran.stderr, @"Nothing was written. To write it: toolgate tool register --file TOOL.md --apply");
    home.ok(&["tool", "register", "--file", &file, "--apply"]);
    let ran = home.run(&["tool", "register", "--file", "TOOL.md"]);
    assert!(
        ran.stdout.starts_with("getRate 2.0.0 is registered exactly like this\n") && ran.stderr.is_empty(),
        "{}",
        ran.stdout
    );
    assert_snapshot!(home.ok(&["tool", "diff", "getRate"]), @r#"
    getRate 1.0.0 → 2.0.0: narrowing
    CLASS      AT                                      CHANGE
    narrowing  /input_schema/properties/days/maxItems  `maxItems` went from 9 to 5
    --- getRate@1.0.0
    +++ getRate@2.0.0
    @@ -1,6 +1,6 @@
     ---
     name: getRate
    -version: "1.0.0"
    +version: "2.0.0"
     title: Exchange rate
     description: >-
       Reads the exchange rate of a currency. Use it before converting money. Do not
    @@ -22,7 +22,7 @@
         days:
           type: array
           description: Which days.
    -      maxItems: 9
    +      maxItems: 5
           items:
             type: integer
             description: A day.
    "#);
    let versions = home.redact(&home.ok(&["tool", "versions", "getRate"]));
    // The column of the publisher is as wide as this user's number.
    let versions: Vec<_> = versions.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_snapshot!(versions.join("\n"), @r"
    VERSION STATE PUBLISHED BY DIGEST NOTE
    2.0.0 active [time] local user [uid] [digest]
    1.0.0 active [time] local user [uid] [digest]
    ");
}

#[test]
fn what_others_wrote_cannot_steer_the_terminal() {
    both(|home| {
        let json = home.ok(&["call", "echo", "text=Eve\u{202e}\u{200b}"]);
        assert!(json.contains("Eve\\u202e\\u200b") && !json.contains('\u{202e}'), "{json}");
        let call: serde_json::Value = serde_json::from_str(&json).unwrap();
        let text = home.ok(&["calls", "show", call["id"].as_str().unwrap()]);
        assert!(text.contains("Eve\\u{202e}\\u{200b}") && !text.contains('\u{202e}'), "{text}");
        let refused = home.run(&["user", "show", "\u{1b}]0;x\u{7}"]);
        assert!(!refused.stderr.contains('\u{1b}'), "{:?}", refused.stderr);
    });
}

#[test]
fn a_secret_is_alone_on_standard_output() {
    both(|home| {
        let ran = home.run(&["key", "create", "ci"]);
        assert_eq!(ran.stdout.lines().count(), 1);
        assert!(ran.stdout.starts_with("tg_") && ran.stderr.contains("never again"), "{}", ran.stderr);
        assert!(!home.ok(&["key", "list"]).contains(ran.stdout.trim()));
    });
}

#[test]
fn there_is_no_colour_where_no_person_looks() {
    let home = Home::new();
    for arguments in [&["tool", "list"][..], &["tool", "show", "calculator"], &["doctor"], &["--help"]] {
        assert!(!home.ok(arguments).contains('\u{1b}'), "{arguments:?}");
    }
    assert!(!home.run(&["tool", "show", "gone"]).stderr.contains('\u{1b}'));
}
