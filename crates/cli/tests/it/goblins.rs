//! `toolgate migrate goblins` and `toolgate invoke`: files are rewritten and never run, entries run through the gate.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::commands::Tour;
use crate::program::{Home, Server, both, finish};

const FILE: &str = "# What the goblins do.
build:
  command: cd apps && pnpm build --fast # quickly
sum:
  tool_layer_invoke:
    tool_id: calculator
    args: {expression: 6 * 7}
";

pub fn tour(tour: &mut Tour) {
    let file = tour.home.write("goblins.yaml", FILE);
    let planned = tour.ok(&["migrate", "goblins", &file]);
    let expected = json!({
        "tool_id": "monorepo_cli", "function": "run_script",
        "args": {"script_name": "pnpm:build", "working_dir": "apps"},
    });
    assert_eq!((&planned["rewritten"][0]["tool_layer_invoke"], &planned["left"]), (&expected, &json!([])));
    assert_eq!(planned["entries"]["scripts"]["pnpm:build"]["command"], json!(["pnpm", "build", "--fast"]));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), FILE, "nothing was written");
    let piped = tour.home.write("piped.yaml", "a:\n  command: yes | head\n");
    let left = tour.run(&["migrate", "goblins", &piped], 1);
    assert_eq!((&left["left"][0]["entry"], &left["entries"]), (&json!("a"), &Value::Null));
    tour.run(&["migrate", "goblins", "nowhere.yaml"], 2);

    assert_eq!(tour.ok(&["invoke", &file, "sum"])["output"], json!({"result": 42}));
    assert_eq!(tour.ok(&["invoke", &file, "sum", "--dry-run"])["status"], "completed");
    tour.run(&["invoke", &file, "build"], 2);
    tour.run(&["invoke", &file, "nothing"], 1);
}

#[test]
fn a_file_is_rewritten_where_it_was_said_to_and_nowhere_else() {
    let home = Home::new();
    let file = home.write("goblins.yaml", FILE);
    let (out, entries) = (home.path().join("new.yaml"), home.path().join("scripts.yaml"));
    let (out, entries) = (out.to_str().unwrap(), entries.to_str().unwrap());
    home.ok(&["migrate", "goblins", &file, "--out", out, "--entries", entries]);
    let rewritten = std::fs::read_to_string(out).unwrap();
    assert!(rewritten.contains("# quickly") && !rewritten.contains("command:"), "{rewritten}");
    assert!(std::fs::read_to_string(entries).unwrap().contains("fast"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), FILE);
    let refused = home.run(&["migrate", "goblins", &file, "--out", out]);
    assert_eq!(refused.code, 1, "never over another file: {}", refused.stdout);
    assert_eq!(std::fs::read_to_string(out).unwrap(), rewritten);
    home.ok(&["migrate", "goblins", &file, "--out", &file]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rewritten);
    assert!(home.ok(&["migrate", "goblins", &file]).contains("has no direct commands"));
    let none: Vec<_> = home.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(none.iter().all(|name| !name.to_str().unwrap().contains("migrating")), "{none:?}");
}

#[test]
fn nothing_of_a_file_is_ever_run() {
    let home = Home::new();
    let mark = home.path().join("mark");
    let lines =
        ["touch MARK", "$(touch MARK)", "`touch MARK`", "cd . && touch MARK", "true; touch MARK", "A=$(touch MARK) b"];
    let entry = |(index, line): (usize, &&str)| {
        format!("g{index}:\n  command: '{}'\n", line.replace("MARK", mark.to_str().unwrap()))
    };
    let text = lines.iter().enumerate().map(entry).collect::<Vec<_>>().concat();
    let file = home.write("goblins.yaml", &text);
    let ran = home.run(&["migrate", "goblins", &file, "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (value["rewritten"].as_array().unwrap().len(), value["left"].as_array().unwrap().len()),
        (2, 4),
        "{value}"
    );
    assert!(!mark.exists());
}

#[test]
fn an_entry_that_says_something_else_is_refused_with_its_name() {
    both(|home| {
        let file =
            home.write("goblins.yaml", "a:\n  tool_layer_invoke: {tool_id: calculator, function_name: x}\nb: 1\n");
        let refused = home.fails(&["invoke", &file, "a"]);
        assert!(refused.contains("`function_name` is not known there") && refused.ends_with("exit 2"), "{refused}");
        let refused = home.fails(&["invoke", &file, "c"]);
        assert!(refused.contains("it has: a, b") && refused.ends_with("exit 1"), "{refused}");
        let shared = home.write("shared.yaml", "a: &x\n  command: make\nb: *x\n");
        assert!(home.fails(&["migrate", "goblins", &shared]).ends_with("exit 2"));
    });
}

#[test]
fn a_migrated_entry_runs_through_the_gate_and_ends_as_its_script_did() {
    let home = Home::new();
    home.ok(&["init"]);
    let script = home.write("bin/greet", "#!/bin/sh\necho \"hello $1\"\necho careful >&2\nexit 7\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = home.write("goblins.yaml", "greet:\n  command: cd . && ./bin/greet 'dear reader'\n");
    let entries = home.data().join("entries.yaml");
    home.ok(&["migrate", "goblins", &file, "--out", &file, "--entries", entries.to_str().unwrap()]);
    let rehearsed = home.ok(&["invoke", &file, "greet", "--dry-run", "--json"]);
    assert!(rehearsed.contains("dear reader"), "{rehearsed}");
    let server = Server::start(&home, &[]);
    // Nobody has decided yet.
    assert_eq!(home.run(&["invoke", &file, "greet"]).code, 3);
    let invoked = home.command(&["invoke", &file, "greet", "--wait", "120"]).spawn().unwrap();
    let waiting = || home.json(&["approvals"])["items"].as_array().unwrap().clone();
    let deadline = std::time::Instant::now() + crate::caller::PATIENCE;
    while waiting().len() < 2 {
        assert!(std::time::Instant::now() < deadline, "it does not wait");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for approval in waiting() {
        home.ok(&["approvals", "approve", approval["id"].as_str().unwrap()]);
    }
    let ran = finish(invoked);
    assert_eq!((ran.code, ran.stdout.as_str()), (7, "hello dear reader\n"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("careful\n"), "{}", ran.stderr);
    drop(server);
}
