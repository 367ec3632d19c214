//! Every command once, on a data folder and against a server, with `--json`: one value, the same exit status.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::{Home, both};

const HELLO: &str = "version: 1
name: hello
inputs:
  type: object
  properties:
    text: { type: string, description: What to say. }
nodes:
  - { id: in, kind: input }
  - { id: say, kind: tool, config: { tool: echo } }
  - id: out
    kind: output
    config:
      schema: { type: object, properties: { said: { type: string, description: What was said. } } }
edges:
  - { from: { node: in, handle: text }, to: { node: say, handle: input/text } }
  - { from: { node: say, handle: output, path: /text }, to: { node: out, handle: said } }
";

const GREET: &str = "---
name: formatGreeting
version: 1.0.0
title: Greeting
description: >-
  Makes a greeting out of a name. Use it when a letter begins. Do not use it for names of companies.
category: communication
tags: [letter]
input_schema:
  type: object
  additionalProperties: false
  required: [name]
  properties:
    name:
      type: string
      description: Whom to greet.
      maxLength: 100
output_schema:
  type: object
  additionalProperties: false
  required: [text]
  properties:
    text:
      type: string
      description: The greeting.
runner:
  kind: expression
  cel: '{\"text\": \"Dear \" + input.name}'
---

Greets.
";

const PETSTORE: &str = include_str!("../../../../examples/openapi/petstore.yaml");

/// A home with a tool, an agent and a profile, and all commands that were used in it.
pub struct Tour<'a> {
    pub home: &'a Home,
    used: BTreeSet<String>,
    known: Vec<String>,
}

impl Tour<'_> {
    #[track_caller]
    pub fn run(&mut self, arguments: &[&str], expected: i32) -> Value {
        let with_json: Vec<_> = arguments.iter().copied().chain(["--json"]).collect();
        let ran = self.home.run(&with_json);
        assert_eq!(ran.code, expected, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        let words = arguments.join(" ");
        let path = self
            .known
            .iter()
            .filter(|path| words == **path || words.starts_with(&format!("{path} ")))
            .max_by_key(|path| path.len());
        self.used.insert(path.unwrap_or_else(|| panic!("{arguments:?} is no command")).clone());
        let value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error} in {:?}", ran.stdout));
        assert_eq!(ran.stdout.lines().count(), 1, "{arguments:?}: one line where no person looks");
        check_list(arguments, &value);
        value
    }

    #[track_caller]
    pub fn ok(&mut self, arguments: &[&str]) -> Value {
        self.run(arguments, 0)
    }
}

/// A list has the shape that REST gives it.
#[track_caller]
fn check_list(arguments: &[&str], value: &Value) {
    if arguments.contains(&"list") {
        let members: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["items", "next_cursor"], "{arguments:?}");
    }
}

#[test]
fn every_command_works_on_a_data_folder_and_against_a_server() {
    both(|home| {
        let known: Vec<String> = home.ok(&["commands"]).lines().map(str::to_owned).collect();
        let mut tour = Tour { home, used: BTreeSet::new(), known };
        begin(&mut tour);
        tools(&mut tour);
        agents(&mut tour);
        control(&mut tour);
        crate::calls::tour(&mut tour);
        crate::notices::tour(&mut tour);
        crate::plugins::tour(&mut tour);
        crate::upstreams::tour(&mut tour);
        crate::imports::tour(&mut tour);
        crate::questions::tour(&mut tour);
        crate::deciding::tour(&mut tour);
        crate::goblins::tour(&mut tour);
        audit(&mut tour);
        people(&mut tour);
        database(&mut tour);
        pages(&mut tour);
        // These need a server of their own, a database that was brought back, or never end.
        let elsewhere = ["serve", "mcp", "audit follow", "audit accept-restore", "approvals watch"];
        let unused = |path: &&String| !tour.used.contains(*path) && !elsewhere.contains(&path.as_str());
        let missed: Vec<_> = tour.known.iter().filter(unused).collect();
        assert!(missed.is_empty(), "never used: {missed:?}");
    });
}

fn begin(tour: &mut Tour) {
    assert_eq!(tour.ok(&["init"])["tenant"], "default");
    assert_eq!(tour.ok(&["init"])["tenant"], "default", "a second time changes nothing");
    let checks = tour.ok(&["doctor"]);
    assert!(checks["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{checks}");
    assert_eq!(tour.ok(&["whoami"])["tenant"], "default");
    assert_eq!(tour.ok(&["config", "show"])["durability"]["value"], "auto");
    assert_eq!(tour.ok(&["config", "check"])["ok"], true);
}

fn tools(tour: &mut Tour) {
    let file = tour.home.write("greet/TOOL.md", GREET);
    let tested = tour.ok(&["tool", "test", &file]);
    assert_eq!(tested["files"][0]["ok"], true, "{tested}");

    let planned = tour.ok(&["tool", "register", "--file", &file]);
    assert_eq!((&planned["action"], &planned["applied"]), (&json!("create"), &json!(false)));
    tour.run(&["tool", "show", "formatGreeting"], 1);
    assert_eq!(tour.ok(&["tool", "register", "--file", &file, "--apply"])["applied"], true);
    assert_eq!(tour.ok(&["tool", "register", "--file", &file, "--apply"])["action"], "unchanged");
    assert_eq!(tour.ok(&["tool", "show", "formatGreeting@1.0.0"])["name"], "formatGreeting");
    assert_eq!(tour.ok(&["tool", "show", "format_greeting", "--as", "openai"])["function"]["name"], "formatGreeting");

    tour.home
        .write("greet/TOOL.md", &GREET.replace("version: 1.0.0\n", "").replace("maxLength: 100", "maxLength: 200"));
    let planned = tour.ok(&["tool", "register", "--file", &file]);
    assert_eq!(
        (&planned["version"], &planned["difference"]["class"]),
        (&json!("1.1.0"), &json!("widening")),
        "{planned}"
    );
    tour.ok(&["tool", "register", "--file", &file, "--apply"]);
    assert_eq!(names(&tour.ok(&["tool", "versions", "formatGreeting"]), "version"), ["1.1.0", "1.0.0"]);
    let diff = tour.ok(&["tool", "diff", "formatGreeting", "--from", "1.0.0", "--to", "1.1.0"]);
    assert_eq!(diff["class"], "widening");

    assert!(
        names(&tour.ok(&["tool", "list", "--category", "communication"]), "name")
            .contains(&"formatGreeting".to_owned())
    );
    assert_eq!(names(&tour.ok(&["search", "greeting for a letter"]), "name")[0], "formatGreeting");
    assert_eq!(tour.ok(&["tool", "search", "greting"])["items"][0]["kind"], "tool");
    let categories = tour.ok(&["tool", "categories"]);
    assert_eq!(
        categories["items"].as_array().unwrap().iter().filter(|category| category["built_in"] == true).count(),
        13
    );

    let file = tour.home.write("petstore.yaml", PETSTORE);
    let shown = tour.ok(&["import", "openapi", &file, "--tag", "pets"]);
    assert_eq!((&shown["operations"][0]["outcome"], &shown["applied"]), (&json!("new"), &json!(false)), "{shown}");
    let done = tour.ok(&["import", "openapi", &file, "--operation", "getPet", "--prefix", "shop", "--apply"]);
    assert_eq!((&done["operations"][0]["name"], &done["applied"]), (&json!("shop.getPet"), &json!(true)), "{done}");
    let again = tour.ok(&["import", "openapi", &file, "--operation", "shop.getPet", "--prefix", "shop", "--yes"]);
    assert_eq!(again["operations"][0]["outcome"], "unchanged", "{again}");
    tour.run(&["import", "openapi", &file, "--tag", "cats"], 1);

    tour.ok(&["tool", "disable", "calculator"]);
    assert!(!names(&tour.ok(&["tool", "list"]), "name").contains(&"calculator".to_owned()));
    assert!(names(&tour.ok(&["tool", "list", "--all"]), "name").contains(&"calculator".to_owned()));
    assert_eq!(tour.ok(&["tool", "enable", "calculator"])["enabled"], true);
    assert_eq!(tour.ok(&["tool", "disable", "echo", "--everyone"])["enabled"], false);
    assert_eq!(tour.ok(&["tool", "enable", "echo", "--global"])["enabled"], true);
    let deprecated = tour.ok(&[
        "tool",
        "deprecate",
        "formatGreeting",
        "--message",
        "old",
        "--remove-by",
        "2030-01-01",
        "--replaced-by",
        "echo",
    ]);
    assert_eq!((&deprecated["state"], &deprecated["message"]), (&json!("deprecated"), &json!("old")));
    assert_eq!(tour.ok(&["tool", "block", "formatGreeting@1.0.0"])["state"], "blocked");
    assert_eq!(tour.ok(&["tool", "activate", "formatGreeting"])["state"], "active");
    let overridden =
        tour.ok(&["tool", "override", "set", "calculator", "title=Sums", "risk=critical", "timeout_ms=1000"]);
    assert_eq!(
        (&overridden["title"], &overridden["risk"], &overridden["timeout_ms"]),
        (&json!("Sums"), &json!("critical"), &json!(1000))
    );
    assert_eq!(tour.ok(&["tool", "override", "clear", "calculator"])["risk"], "safe");
}

fn providers(tour: &mut Tour) {
    let script = "version: 1\nturns:\n  - {say: ready, usage: {input_tokens: 1000, output_tokens: 500}}\n";
    let script = tour.home.write("script.yaml", script);
    let added = tour.ok(&["provider", "add", "rehearsal", "--kind", "scripted", "--script", &script]);
    assert_eq!((&added["action"], &added["scripted"]), (&json!("created"), &json!(true)));
    assert_eq!(names(&tour.ok(&["provider", "list"]), "name"), ["rehearsal"]);
    let prices = ["--input", "2", "--output", "10"];
    tour.ok(&[&["provider", "prices", "rehearsal", "any"][..], &prices].concat());
    assert_eq!(tour.ok(&["provider", "prices", "rehearsal"])["any"]["output"], "10.00");
    assert_eq!(tour.ok(&["provider", "show", "rehearsal"])["revision"], 2);
    let tested = tour.ok(&["provider", "test", "rehearsal", "--model", "any"]);
    assert_eq!((&tested["answer"]["text"], &tested["answer"]["cost"]), (&json!("ready"), &json!("0.007")));
    tour.ok(&["agent", "create", "--name", "actor", "--model", "rehearsal/any"]);
    let played = tour.ok(&["agent", "run", "actor", "Are you there, {{ who }}?", "--var", "who=Ada"]);
    assert_eq!((&played["outputs"]["response"], &played["model_use"]["cost"]), (&json!("ready"), &json!("0.007")));
    let ended = played["id"].as_str().unwrap();
    assert_eq!(tour.ok(&["run", "show", ended])["outputs"]["response"], "ready");
    tour.run(&["run", "resume", ended], 1);
    assert_eq!(tour.ok(&["run", "export", ended])["format"], "toolgate/replay/1");
    let bundle = tour.home.write("removed.json", "");
    std::fs::remove_file(&bundle).unwrap();
    tour.ok(&["run", "export", ended, "--output", &bundle]);
    assert_eq!(tour.ok(&["replay", &bundle])["equal"], true);
    let open = tour.ok(&["run", "create", "--title", "Nothing yet"]);
    assert_eq!(tour.ok(&["run", "cancel", open["id"].as_str().unwrap()])["state"], "cancelled");
    tour.ok(&["agent", "delete", "actor"]);
    tour.ok(&["provider", "remove", "rehearsal"]);
}

fn agents(tour: &mut Tour) {
    let profile = tour.home.write("careful.yaml", "name: careful\nrequires_approval: true\ndeny_tools: [echo]\n");
    assert_eq!(tour.ok(&["profile", "set", "--file", &profile])["revision"], 1);
    assert_eq!(tour.ok(&["profile", "set", "--file", &profile])["revision"], 2);
    assert_eq!(names(&tour.ok(&["profile", "list"]), "name"), ["careful"]);
    assert_eq!(names(&tour.ok(&["tool", "list", "--profiles"]), "name"), ["careful"]);
    assert_eq!(tour.ok(&["profile", "show", "careful"])["requires_approval"], true);

    tour.ok(&[
        "agent",
        "create",
        "--name",
        "billing",
        "--model",
        "openai/gpt-5",
        "--toolset",
        "assigned",
        "--instructions",
        "Be brief.",
    ]);
    let text =
        "---\nname: greet\ndescription: Greets.\narguments: [{name: who, required: true}]\n---\nGreet {{ who }}.\n";
    let skill = tour.home.write("SKILL.md", text);
    assert_eq!(tour.ok(&["skill", "add", &skill])["action"], "created");
    assert_eq!(names(&tour.ok(&["skill", "list"]), "name"), ["greet"]);
    assert_eq!(tour.ok(&["skill", "show", "greet", "who=Ada"])["text"], "Greet Ada.");
    assert_eq!(tour.ok(&["skill", "show", "greet"])["source"], text);
    tour.ok(&["skill", "remove", "greet"]);
    providers(tour);
    let graph = tour.home.write("hello.yaml", HELLO);
    assert_eq!(tour.ok(&["workflow", "check", &graph, "--offline"])["passed"], true);
    assert_eq!(tour.ok(&["workflow", "check", &graph])["findings"], json!([]));
    assert_eq!(tour.ok(&["workflow", "save", &graph])["action"], "created");
    assert_eq!(names(&tour.ok(&["workflow", "list"]), "name"), ["hello"]);
    assert_eq!(tour.ok(&["workflow", "check", "hello"])["passed"], true);
    assert_eq!(tour.ok(&["workflow", "show", "hello", "--revision", "1"])["workflow"]["nodes"][0]["id"], "in");
    let ran = tour.ok(&["workflow", "run", "hello@1", "--input", r#"{"text": "hi"}"#]);
    assert_eq!((&ran["state"], &ran["output"]["said"]), (&json!("completed"), &json!("hi")));
    let run = ran["run_id"].as_str().unwrap();
    assert_eq!(tour.ok(&["workflow", "follow", run])["output"]["said"], "hi");
    assert_eq!(names(&tour.ok(&["workflow", "nodes", run, "--state", "completed", "--limit", "1"]), "path"), ["in"]);
    let call = &tour.ok(&["run", "show", run])["calls"][0]["id"];
    let node = tour.ok(&["workflow", "materialize", call.as_str().unwrap(), "--into", "hello"]);
    assert_eq!(node["config"]["input"]["text"], "hi");
    assert_eq!(tour.ok(&["workflow", "publish", "hello", "--as", "sayHello", "--dry-run"])["applied"], false);
    let made = tour.ok(&[
        "workflow",
        "publish",
        "hello",
        "--as",
        "sayHello",
        "--title",
        "Say hello",
        "--description",
        "Says it.",
    ]);
    assert_eq!((&made["name"], &made["version"]), (&json!("sayHello"), &json!("1.0.0")));
    assert_eq!(tour.ok(&["call", "sayHello", "text=ho"])["output"]["said"], "ho");
    tour.ok(&["tool", "block", "sayHello", "--message", "not any more"]);
    tour.ok(&["workflow", "remove", "hello"]);

    let file = tour.home.write("agent.json", r#"{"name": "other", "toolGroups": ["web"]}"#);
    tour.ok(&["agent", "create", "--file", &file, "--title", "Other"]);
    assert_eq!(names(&tour.ok(&["agent", "list"]), "name"), ["billing", "other"]);
    let updated = tour.ok(&["agent", "update", "billing", "--title", "Billing", "--profile", "careful"]);
    assert_eq!(
        (&updated["title"], &updated["instructions"], &updated["toolset"]),
        (&json!("Billing"), &json!("Be brief."), &json!("assigned"))
    );

    tour.ok(&["tool", "assign", "--tool", "formatGreeting", "--agent", "billing"]);
    assert_eq!(names(&tour.ok(&["tool", "list", "--assignments", "--agent", "billing"]), "tool"), ["formatGreeting"]);
    assert_eq!(names(&tour.ok(&["tool", "list", "--agent", "billing"]), "name"), ["formatGreeting"]);
    let shown = tour.ok(&["agent", "show", "billing", "--tools"]);
    assert_eq!(shown["tools"].as_array().unwrap().len(), 1, "{shown}");
    let why = tour.ok(&["agent", "show", "billing", "--tools", "--why"]);
    assert!(
        why["tools"].as_array().unwrap().iter().any(|tool| tool["has"] == false && tool["why"].as_str().is_some()),
        "{why}"
    );
    tour.ok(&["agent", "freeze", "billing"]);
    assert!(names(&tour.ok(&["tool", "list", "--agent", "billing"]), "name").is_empty());
    assert_eq!(tour.ok(&["agent", "unfreeze", "billing"])["state"], "active");
    tour.run(&["tool", "delete", "formatGreeting"], 1);
    tour.ok(&["tool", "revoke", "--tool", "formatGreeting", "--agent", "billing"]);
    tour.run(&["tool", "revoke", "--tool", "formatGreeting", "--agent", "billing"], 1);
    tour.run(&["profile", "delete", "careful"], 1);
    tour.ok(&["agent", "delete", "billing"]);
    tour.ok(&["profile", "delete", "careful"]);
    tour.ok(&["tool", "delete", "formatGreeting"]);
    tour.run(&["agent", "show", "billing"], 1);
}

fn control(tour: &mut Tour) {
    assert_eq!(tour.ok(&["limits", "show"]), json!({}));
    let set = tour.ok(&["limits", "set", "--rate", "100/60", "--budget", "50", "--max-parallel", "32"]);
    assert_eq!((&set["max_budget"], &set["rate_limit"]), (&json!("50.00"), &json!({"count": 100, "per_s": 60})));
    let set = tour.ok(&["limits", "set", "--tool", "Append-Note", "--tool-rate", "5/60", "--rate", "none"]);
    assert_eq!((&set["max_parallel"], &set["rate_limit"]), (&json!(32), &Value::Null), "what is not named stays");
    let set = tour.ok(&["limits", "set", "--tool", "appendNote", "--tool-budget", "1.5"]);
    assert_eq!(set["tools"], json!({"append_note": {"rate_limit": {"count": 5, "per_s": 60}, "max_budget": "1.50"}}));
    let file = tour.home.write("limits.yaml", "max_budget: \"7\"\n");
    assert_eq!(tour.ok(&["limits", "set", "--file", &file]), json!({"max_budget": "7.00"}));
    tour.run(&["limits", "set", "--rate", "often"], 2);
    tour.run(&["limits", "set", "--rate", "0/1"], 2);
    assert_eq!(tour.ok(&["limits", "clear"]), json!({}));

    assert_eq!(tour.ok(&["killswitch", "on", "--tool", "echo", "--reason", "it leaks"])["on"], true);
    assert_eq!(names(&tour.ok(&["killswitch", "list"]), "reason"), ["it leaks"]);
    let stopped = tour.ok(&["tool", "show", "echo"]);
    assert_eq!(stopped["stopped"], "the tool `echo` is stopped by a kill switch: it leaks");
    let stopped = |tools: &Value| {
        let items = tools["items"].as_array().unwrap();
        items.iter().filter(|tool| tool["stopped"].is_string()).map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(stopped(&tour.ok(&["tool", "list"])), ["echo"], "it is there, and said to be stopped");
    assert_eq!(tour.ok(&["killswitch", "off", "--tool", "echo"])["on"], false);
    tour.run(&["killswitch", "off", "--tool", "echo"], 1);
    assert_eq!(tour.ok(&["killswitch", "on", "--reason", "everything"])["scope"], "tenant");
    let all = tour.ok(&["tool", "list"]);
    assert!(!names(&all, "name").is_empty());
    assert_eq!(stopped(&all).len(), names(&all, "name").len(), "everything is there, and said to be stopped");
    tour.ok(&["killswitch", "off"]);
    assert_eq!(stopped(&tour.ok(&["tool", "list"])), [Value::Null; 0]);

    let classified = tour.ok(&["tool", "classify", "echo", "--class", "write", "--reason", "careful"]);
    assert_eq!((&classified["egress_class"], &classified["requires_approval"]), (&json!("write"), &json!(true)));
    assert_eq!(classified["classification"]["declared"], "none");
    assert_eq!(tour.ok(&["tool", "classify", "echo", "--clear"])["egress_class"], "none");

    for by in ["tool", "agent", "day", "tenant"] {
        assert!(tour.ok(&["usage", "--by", by])["items"].is_array());
    }
    assert!(tour.ok(&["usage", "--format", "csv"])["items"].is_array(), "--json is JSON");
    let csv = tour.home.ok(&["usage", "--format", "csv", "--by", "day"]);
    assert!(csv.starts_with("day,calls,failed,cached,duration_ms,units,cost,reported_cost,currency,"), "{csv}");
    assert!(tour.home.ok(&["usage", "--format", "json"]).starts_with('{'));
    tour.run(&["usage", "--from", "yesterday"], 2);
}

fn audit(tour: &mut Tour) {
    assert!(tour.ok(&["audit", "checkpoint"])["size"].as_u64().unwrap() > 0);
    let entries = tour.ok(&["audit", "list", "--limit", "3"]);
    assert_eq!(entries["items"].as_array().unwrap().len(), 3, "{entries}");
    assert!(tour.ok(&["audit", "show", "0"])["entry"].is_object());
    assert!(tour.ok(&["audit", "prove", "0"])["proof"].is_string());
    let folder = tour.home.path().join("log").display().to_string();
    tour.ok(&["audit", "export", "--to", &folder]);
    tour.ok(&["audit", "verify", &folder]);
}

fn people(tour: &mut Tour) {
    let made = tour.ok(&["key", "create", "ci", "--scope", "tools:execute", "--agent", "other", "--days", "3"]);
    assert!(made["secret"].as_str().unwrap().starts_with("tg_"), "{made}");
    assert!(names(&tour.ok(&["key", "list"]), "name").contains(&"ci".to_owned()));
    assert_eq!(tour.ok(&["key", "revoke", "ci"])["name"], "ci");
    tour.run(&["key", "revoke", "ci"], 1);

    tour.ok(&["tenant", "create", "acme", "--name", "Acme", "--currency", "EUR"]);
    tour.run(&["tenant", "create", "acme"], 1);
    assert!(names(&tour.ok(&["tenant", "list"]), "slug").contains(&"acme".to_owned()));
    assert_eq!(tour.ok(&["tenant", "set", "--open-write", "on"])["open_write"], true);
    assert_eq!(tour.ok(&["tenant", "set", "--open-write", "off"])["open_write"], false);

    tour.ok(&["workspace", "create", "lab", "--name", "Laboratory"]);
    assert_eq!(names(&tour.ok(&["workspace", "list"]), "slug"), ["lab", "main"]);
    tour.ok(&["user", "create", "Ada", "--email", "ada@example.com", "--role", "author", "--workspace", "lab"]);
    assert_eq!(tour.ok(&["user", "create", "deployer", "--service"])["roles"], json!(["service"]));
    assert!(names(&tour.ok(&["user", "list"]), "name").contains(&"Ada".to_owned()));
    let ada = tour.ok(&["user", "show", "ada@example.com"]);
    assert_eq!((&ada["roles"], &ada["workspaces"]), (&json!(["author"]), &json!(["lab"])));
    assert_eq!(
        tour.ok(&["user", "set", "Ada", "--role", "viewer", "--role", "approver"])["roles"].as_array().unwrap().len(),
        2
    );
    assert_eq!(tour.ok(&["user", "set", "Ada", "--disable"])["disabled"], true);
    tour.run(&["user", "sign-in-link", "Ada"], 1);
    assert_eq!(tour.ok(&["user", "set", "Ada", "--enable"])["disabled"], false);
    let link = tour.ok(&["user", "sign-in-link", "Ada"]);
    assert!(link["url"].as_str().unwrap().contains("/#sign-in="), "{link}");
    let link = tour.ok(&["user", "reset", "Ada", "--show"]);
    assert!(link["url"].as_str().unwrap().contains("/reset#"), "{link}");
    sign_in(tour);
    assert!(tour.ok(&["person", "export", "Ada"]).is_object());
    assert_eq!(tour.ok(&["person", "erase", "Ada"])["applied"], false);
    assert_eq!(tour.ok(&["person", "erase", "Ada", "--apply"])["applied"], true);
}

fn sign_in(tour: &mut Tour) {
    let sent = tour.ok(&["invitation", "create", "Ben", "--role", "author", "--workspace", "lab", "--show"]);
    assert!(sent["url"].as_str().unwrap().contains("/invite#"), "{sent}");
    let id = sent["invitation"]["id"].as_str().unwrap();
    let again = tour.ok(&["invitation", "resend", id]);
    assert_ne!(again["url"], sent["url"]);
    assert_eq!(tour.ok(&["invitation", "list"])["items"][0]["state"], "open");
    assert_eq!(tour.ok(&["invitation", "revoke", id])["state"], "revoked");
    tour.run(&["invitation", "revoke", id], 1);

    assert_eq!(tour.ok(&["session", "list", "--user", "Ada"])["items"], json!([]));
    // Whoever owns the folder is nobody who signs in.
    assert_eq!(tour.ok(&["session", "list"])["items"], json!([]));
    tour.run(&["session", "end-all"], 1);
    tour.run(&["session", "end", "01930000-0000-7000-8000-000000000001", "--user", "Ada"], 1);
    assert_eq!(tour.ok(&["session", "end-all", "--user", "Ada"])["ended"], true);
}

fn database(tour: &mut Tour) {
    let status = tour.ok(&["db", "status"]);
    assert_eq!(status["applied"], status["known"]);
    let migrated = tour.ok(&["db", "migrate"]);
    assert_eq!(migrated["from"], migrated["to"]);
    assert_eq!(tour.ok(&["retention", "--older-than-days", "30"])["applied"], false);
    assert_eq!(tour.ok(&["retention", "--older-than-days", "30", "--apply"])["applied"], true);
    let file = tour.home.path().join("copy.db").display().to_string();
    if tour.home.is_local() {
        assert_eq!(tour.ok(&["db", "backup", &file])["file"], json!(file));
        tour.run(&["db", "backup", &file], 1);
        assert!(tour.ok(&["db", "restore", &file])["kept"].is_string());
    } else {
        tour.run(&["db", "backup", &file], 2);
        let written = tour.ok(&["db", "backup", "copy.db"]);
        assert!(written["file"].as_str().unwrap().ends_with("/backups/copy.db"), "{written}");
        tour.run(&["db", "backup", "copy.db"], 1);
        tour.run(&["db", "restore", &file], 2);
    }
}

fn pages(tour: &mut Tour) {
    assert!(tour.ok(&["completions", "bash"])["script"].as_str().unwrap().contains("complete "));
    assert!(tour.ok(&["man"])["page"].as_str().unwrap().contains(".TH toolgate"));
}

fn names(page: &Value, member: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
    items.iter().map(|item| item[member].as_str().unwrap_or_else(|| panic!("{item}")).to_owned()).collect()
}

#[test]
fn a_list_follows_its_pages_and_says_when_there_is_more() {
    both(|home| {
        let all = names(&home.json(&["tool", "list"]), "name");
        let two = home.run(&["tool", "list", "--limit", "2", "--json"]);
        let page: Value = serde_json::from_str(&two.stdout).unwrap();
        assert_eq!(names(&page, "name"), all[..2]);
        assert!(page["next_cursor"].is_string());
        assert!(two.stderr.contains("There are more than these 2"), "{}", two.stderr);
        // More than one page of the API.
        let users: Vec<String> = (0..3).map(|n| format!("user-{n}")).collect();
        for user in &users {
            home.ok(&["user", "create", user]);
        }
        let listed = names(&home.json(&["user", "list", "--limit", "600"]), "name");
        assert!(users.iter().all(|user| listed.contains(user)), "{listed:?}");
    });
}

#[test]
fn a_namespace_alone_lists_its_functions() {
    both(|home| {
        for function in ["check_links", "lint_code"] {
            let text = GREET.replace("name: formatGreeting", &format!("name: monorepo_cli.{function}"));
            let file = home.write(&format!("{function}/TOOL.md"), &text);
            home.ok(&["tool", "register", "--file", &file, "--apply"]);
        }
        assert_eq!(
            names(&home.json(&["tool", "show", "monorepo_cli"]), "name"),
            ["monorepo_cli.check_links", "monorepo_cli.lint_code", "monorepo_cli.run_script"]
        );
        assert_eq!(home.json(&["tool", "show", "monorepo_cli.run_script"])["wire_name"], "monorepo_cli__run_script");
        assert!(home.fails(&["tool", "show", "monorepo"]).ends_with("exit 1"));
    });
}

#[test]
fn the_owner_of_the_folder_works_in_any_tenant() {
    both(|home| {
        home.ok(&["tenant", "create", "acme"]);
        home.ok(&["agent", "create", "--name", "theirs", "--tenant", "acme"]);
        assert_eq!(names(&home.json(&["agent", "list", "--tenant", "acme"]), "name"), ["theirs"]);
        assert!(names(&home.json(&["agent", "list"]), "name").is_empty());
        assert_eq!(home.json(&["tool", "disable", "calculator", "--tenant", "acme"])["enabled"], false);
        assert_eq!(home.json(&["tool", "show", "calculator"])["enabled"], true);
        assert!(home.fails(&["agent", "list", "--tenant", "nobody"]).starts_with("error: no tenant `nobody`"));
    });
}

#[test]
fn a_folder_of_tools_is_registered_in_an_order_that_works() {
    both(|home| {
        let step = |name: &str, tool: &str| {
            let input = "input: {name: Ada}";
            let input = if tool == "now" { "" } else { input };
            let steps = format!("    - id: one\n      tool: {tool}\n      {input}");
            let runner = format!("runner:\n  kind: composition\n  steps:\n{steps}\n---");
            let (front, _) = GREET.split_once("runner:").unwrap();
            home.write(
                &format!("tools/{name}/TOOL.md"),
                &format!("{}{runner}\n", front.replace("formatGreeting", name)),
            );
        };
        step("aFirst", "bSecond");
        step("bSecond", "now");
        let folder = home.path().join("tools").display().to_string();
        let registered = home.json(&["tool", "register", "--file", &folder, "--apply"]);
        assert_eq!(names(&registered, "name"), ["aFirst", "bSecond"], "{registered}");
        assert_eq!(registered["refused"], json!([]));
    });
}

#[test]
fn an_agent_can_be_shown_edited_and_sent_back() {
    both(|home| {
        home.ok(&["agent", "create", "--name", "a", "--instructions", "One."]);
        let shown = home.ok(&["agent", "show", "a", "--tools", "--json"]);
        let ran =
            home.run_with_input(&["agent", "update", "a", "--file", "-", "--json"], &shown.replace("One.", "Two."));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let agent = home.json(&["agent", "show", "a"]);
        assert_eq!((&agent["instructions"], &agent["revision"]), (&json!("Two."), &json!(2)));
        let renamed = home.run_with_input(&["agent", "update", "a", "--file", "-"], "name: b\n");
        assert_eq!(renamed.code, 2, "{}", renamed.stderr);
    });
}

#[test]
fn an_override_keeps_what_is_not_named() {
    both(|home| {
        let set = |words: &[&str]| home.ok(&[&["tool", "override", "set", "echo"], words].concat());
        assert_eq!(set(&["risk=critical"]), "echo is overridden in this tenant: risk=critical.\n");
        assert_eq!(set(&["timeout_ms=1000"]), "echo is overridden in this tenant: risk=critical, timeout_ms=1000.\n");
        let tool = home.json(&["tool", "show", "echo"]);
        assert_eq!((&tool["risk"], &tool["timeout_ms"]), (&json!("critical"), &json!(1000)));
        assert_eq!(set(&["--unset", "timeout_ms"]), "echo is overridden in this tenant: risk=critical.\n");
        assert_eq!(set(&["risk="]), "echo has no override in this tenant.\n");
        assert_eq!(home.json(&["tool", "show", "echo"])["risk"], "safe");
        let file = home.write("override.yaml", "title: Again\n");
        set(&["risk=critical"]);
        assert_eq!(set(&["--file", &file]), "echo is overridden in this tenant: title=Again.\n");
    });
}

#[test]
fn an_assignment_that_gives_nothing_says_so() {
    both(|home| {
        let profile = home.write("careful.yaml", "name: careful\ndeny_tools: [echo]\n");
        home.ok(&["profile", "set", "--file", &profile]);
        home.ok(&["agent", "create", "--name", "billing", "--toolset", "assigned"]);
        let assign =
            |tool: &str| home.ok(&["tool", "assign", "--tool", tool, "--agent", "billing", "--profile", "careful"]);
        assert_eq!(assign("calculator"), "billing has calculator under profile careful.\n");
        let said = assign("Echo");
        assert!(
            said.starts_with("Echo is assigned to billing under profile careful, but billing does not have it: "),
            "{said}"
        );
    });
}

#[test]
fn a_state_says_whom_and_which_versions_it_is_about() {
    both(|home| {
        let file = home.write("greet/TOOL.md", GREET);
        home.ok(&["tool", "register", "--file", &file, "--apply"]);
        let said = home.ok(&["tool", "block", "formatGreeting", "--message", "leaks data"]);
        assert_eq!(said, "formatGreeting is blocked. Version: 1.0.0.\n");
        let shown = home.ok(&["tool", "show", "formatGreeting", "--all"]);
        assert!(shown.contains("blocked: leaks data; enabled, origin tenant"), "{shown}");
        assert_eq!(home.ok(&["tool", "activate", "formatGreeting@1.0.0"]), "formatGreeting@1.0.0 is active.\n");
        let said = home.ok(&["tool", "block", "echo", "--tenant", "system"]);
        assert_eq!(said, "echo is blocked for every tenant (a shared tool). Version: 1.0.0.\n");
    });
}

#[test]
fn every_list_has_a_limit() {
    both(|home| {
        for name in ["one", "two", "three"] {
            home.ok(&["agent", "create", "--name", name, "--toolset", "assigned"]);
            home.ok(&["tool", "assign", "--tool", "echo", "--agent", name]);
            home.ok(&["tenant", "create", name]);
            home.ok(&["workspace", "create", name]);
            let profile = home.write("profile.yaml", &format!("name: {name}\n"));
            home.ok(&["profile", "set", "--file", &profile]);
            home.ok(&["key", "create", name]);
            home.ok(&["user", "create", name]);
        }
        let lists: [&[&str]; 8] = [
            &["agent", "list"],
            &["profile", "list"],
            &["tenant", "list"],
            &["workspace", "list"],
            &["user", "list"],
            &["key", "list"],
            &["tool", "list", "--assignments"],
            &["tool", "list", "--profiles"],
        ];
        for list in lists {
            let ran = home.run(&[list, &["--limit", "2", "--json"]].concat());
            let page: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{list:?}: {}", ran.stderr));
            assert_eq!(page["items"].as_array().unwrap().len(), 2, "{list:?}");
            assert!(ran.stderr.contains("There are more than these 2"), "{list:?}: {}", ran.stderr);
            let all = home.json(list);
            assert!(all["items"].as_array().unwrap().len() >= 3 && all["next_cursor"].is_null(), "{list:?}");
        }
        home.ok(&["tool", "versions", "echo", "--limit", "1"]);
    });
}
