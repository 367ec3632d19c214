//! Tables of files, and that whatever the words, a rewritten file says the same ones.

use proptest::prelude::*;
use toolgate_contracts::entries::Entries;

use super::*;

const FOLDER: &str = "/repository";

fn migrated(text: &str) -> Migration {
    migrate(text, Path::new(FOLDER)).unwrap()
}

#[track_caller]
fn check(before: &str, after: &str) {
    let migration = migrated(before);
    assert_eq!(migration.text, after);
    assert!(migration.left.is_empty(), "{:?}", migration.left);
    let again = migrated(after);
    assert_eq!((again.text.as_str(), again.rewritten.len()), (after, 0), "a second time changes nothing");
}

#[test]
fn the_seed_s_entry_becomes_the_seed_s_call() {
    let before = "forge-lite-build:\n  command: cd apps/forge-lite && pnpm build\n";
    check(
        before,
        "forge-lite-build:
  tool_layer_invoke:
    tool_id: monorepo_cli
    function: run_script
    args:
      script_name: pnpm:build
      working_dir: apps/forge-lite
",
    );
    let entries = migrated(before).scripts.entries(Path::new(FOLDER));
    assert_eq!(
        entries,
        json!({"scripts": {"pnpm:build": {
            "about": "for forge-lite-build", "command": ["pnpm", "build"], "arguments": [], "folder": FOLDER,
        }}})
    );
    let read: Entries = serde_json::from_value(entries).unwrap();
    assert_eq!(read.scripts["pnpm:build"].command, ["pnpm", "build"]);
}

#[test]
fn comments_order_and_other_members_stay() {
    check(
        "# All goblins.\n\nlint: # quick\n  # before\n  about: Lint\n  command: \"cargo clippy --all\" # all of it\n  owner: ada\n\nold: {tool_layer_invoke: {tool_id: a}}\n",
        "# All goblins.

lint: # quick
  # before
  about: Lint
  tool_layer_invoke: # all of it
    tool_id: monorepo_cli
    function: run_script
    args:
      script_name: cargo:clippy
  owner: ada

old: {tool_layer_invoke: {tool_id: a}}
",
    );
    check(
        "a: {command: make all}\n",
        "a: {tool_layer_invoke: {tool_id: monorepo_cli, function: run_script, args: {script_name: make:all}}}\n",
    );
    check(
        "goblins:\n  - name: a\n    command: ./scripts/run.sh -v\n",
        "goblins:
  - name: a
    tool_layer_invoke:
      tool_id: monorepo_cli
      function: run_script
      args:
        script_name: run.sh
",
    );
}

#[test]
fn what_cannot_be_rewritten_stays_and_says_why() {
    let text = "a:\n  command: cat x | wc\nb:\n  command: make\nc:\n  command: ../up.sh\nd:\n  command: |\n    one\n    two\ne:\n  command: x\n  tool_layer_invoke: {tool_id: y}\nf:\n  command: 7\ng:\n  command: [make, all]\nh:\n  command:\n";
    let migration = migrated(text);
    let left: Vec<_> = migration.left.iter().map(|left| left.entry.as_str()).collect();
    assert_eq!(left, ["a", "c", "d", "e", "f", "g", "h"]);
    let no_text = migration.left[4..].iter().map(|left| (left.command.as_str(), left.why.as_str()));
    let why = "it is no text; write it as one line, in quotes";
    assert_eq!(no_text.collect::<Vec<_>>(), [("7", why), (r#"["make","all"]"#, why), ("null", why)]);
    assert_eq!(migration.rewritten.len(), 1);
    assert!(migration.text.contains("  command: cat x | wc\n") && !migration.text.contains("command: make"));
    assert!(migrate("a: &x {command: make}\nb: *x\n", Path::new(FOLDER)).is_err(), "two places in one text");
}

#[test]
fn a_script_is_one_command_line_and_allows_no_other() {
    let text = "a:\n  command: rm -r old new\nb:\n  command: CI=1 rm -r keep\nc:\n  command: CI=0 pnpm run build\nd:\n  command: cd web && bin/go\ne:\n  command: cd old && rm -r old new\n";
    let entries = migrated(text).scripts.entries(Path::new(FOLDER));
    assert_eq!(
        entries,
        json!({"scripts": {
            "rm": {"about": "for a, e", "command": ["rm", "-r", "old", "new"], "arguments": [], "folder": FOLDER},
            "rm-2": {"about": "for b", "command": ["rm", "-r", "keep"], "arguments": [], "set": {"CI": "1"}, "folder": FOLDER},
            "pnpm:build": {"about": "for c", "command": ["pnpm", "run", "build"], "arguments": [], "set": {"CI": "0"}, "folder": FOLDER},
            "go": {"about": "for d", "command": ["/repository/web/bin/go"], "arguments": [], "folder": FOLDER},
        }})
    );
}

#[test]
fn a_variable_that_chooses_what_runs_is_left_to_people() {
    for name in ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "IFS"] {
        let migration = migrated(&format!("a:\n  command: CI=1 {name}=/tmp/x make all\n"));
        assert!(migration.rewritten.is_empty() && migration.scripts.is_empty(), "{name}");
        assert!(migration.left[0].why.starts_with(&format!("`{name}=` chooses what is run")), "{:?}", migration.left);
    }
}

/// What a call says, as words again: with the entries that were made for it.
fn said(migration: &Migration, invoke: &Value) -> CommandLine {
    let args = &invoke["args"];
    let entries: Entries = serde_json::from_value(migration.scripts.entries(Path::new(FOLDER))).unwrap();
    let script = &entries.scripts[args["script_name"].as_str().unwrap()];
    assert!(script.arguments.is_empty() && script.environment.is_empty(), "a caller says no word of it");
    assert!(args.get("args").is_none() && args.get("env").is_none());
    CommandLine {
        folder: args["working_dir"].as_str().map(str::to_owned),
        environment: script.set.clone().into_iter().collect(),
        words: script.command.clone(),
    }
}

fn line() -> impl Strategy<Value = CommandLine> {
    let word = prop_oneof!["[a-z0-9:._-]{1,8}", "[ -~]{0,10}", "\\PC{0,6}"];
    let name = "[A-Z_]{1,5}".prop_filter("it chooses what runs", |name| !toolgate_runners::runs_programs(name));
    let environment = prop::collection::btree_map(name, "[ -~]{0,6}", 0..3);
    let program = "[a-z]{2,6}".prop_filter("the shell's own", |program| command_line::read(program).is_ok());
    let words = (program, prop::collection::vec(word, 0..5));
    (prop::option::of("[a-z]{1,4}(/[a-z]{1,4})?"), environment, words).prop_map(
        |(folder, environment, (program, rest))| CommandLine {
            folder,
            environment: environment.into_iter().collect(),
            words: [vec![program], rest].concat(),
        },
    )
}

/// As somebody would write it for a shell.
fn written(line: &CommandLine) -> String {
    let quote = |word: &str| shlex::try_quote(word).unwrap().into_owned();
    let enter = line.folder.iter().map(|folder| format!("cd {folder} && "));
    let set = line.environment.iter().map(|(name, value)| format!("{name}={} ", quote(value)));
    let words = line.words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    enter.chain(set).chain([words]).collect()
}

proptest! {
    #[test]
    fn a_rewritten_file_says_the_same_words_and_is_rewritten_once(lines in prop::collection::vec(line(), 1..6)) {
        let entries: Map<String, Value> = lines
            .iter()
            .enumerate()
            .map(|(index, line)| (format!("goblin-{index}"), json!({"about": "x", "command": written(line)})))
            .collect();
        let text = yaml::set("", "", &Value::Object(entries)).unwrap();
        let migration = migrated(&text);
        prop_assert!(migration.left.is_empty(), "{:?}", migration.left);
        prop_assert_eq!(migration.rewritten.len(), lines.len());
        let read = yaml::value(&migration.text).unwrap();
        for (index, line) in lines.iter().enumerate() {
            let entry = &read[format!("goblin-{index}")];
            prop_assert_eq!(&entry["about"], "x");
            prop_assert_eq!(&said(&migration, &entry[INVOKE]), line);
        }
        let again = migrated(&migration.text);
        prop_assert_eq!(again.text, migration.text);
        prop_assert!(again.rewritten.is_empty() && again.left.is_empty());
    }
}
