//! `toolgate replay` as people and scripts use it: what it compares, what it says under something else, how it ends.

use serde_json::{Value, json};

use crate::program::Home;

const TURNS: &str = r#"{"version": 1, "turns": [
    {"call": [{"tool": "calculator", "input": {"expression": "3 * 19.90"}}]},
    {"when": {"last_tool": "calculator"}, "say": "Three lamps cost 59.70."}
]}"#;

/// A tool of that name with another schema, as an author would write it.
fn calculator(version: &str, property: &str) -> String {
    format!(
        "---\nname: calculator\nversion: {version}\ndescription: Works out sums. Use it for sums. Do not use it for texts.\n\
         egress_class: none\ninput_schema:\n  type: object\n  additionalProperties: false\n  required: [expression]\n  \
         properties:\n    expression: {{ type: string, description: The sum., maxLength: 2000 }}\n{property}\
         runner: {{ kind: external }}\n---\n\nSums.\n"
    )
}

/// A run of an agent, exported to `run.json`.
fn exported(home: &Home) -> Value {
    let script: Value = serde_json::from_str(TURNS).unwrap();
    home.write("play.json", &json!({"name": "play", "kind": "scripted", "script": script}).to_string());
    home.ok(&["provider", "add", "--file", "play.json"]);
    home.ok(&["agent", "create", "--name", "shop", "--model", "play/lamps", "--instructions", "Be brief."]);
    home.ok(&["agent", "run", "shop", "What do I owe?"]);
    let runs = home.json(&["run", "list"]);
    let run = runs["items"][0]["id"].as_str().unwrap();
    home.ok(&["run", "export", run, "-o", "run.json"]);
    serde_json::from_str(&std::fs::read_to_string(home.path().join("run.json")).unwrap()).unwrap()
}

/// Exit status, and the one JSON value that it prints.
fn replay(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let arguments: Vec<&str> = ["replay", "run.json", "--json"].iter().chain(arguments).copied().collect();
    let ran = home.run(&arguments);
    let value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}{}", ran.stdout, ran.stderr));
    (ran.code, value)
}

#[test]
fn a_replay_ends_with_how_it_compares() {
    let home = Home::new();
    let bundle = exported(&home);
    let (code, same) = replay(&home, &[]);
    assert_eq!((code, &same["equal"], &same["believed"]), (0, &json!(true), &json!(false)), "{same:#}");
    let key = bundle["signature"]["key"].as_str().unwrap();
    let (code, same) = replay(&home, &["--verifier", key]);
    assert_eq!((code, &same["believed"]), (0, &json!(true)), "{same:#}");

    home.write("same.cedar", "permit (principal, action, resource);");
    home.write("strict.cedar", "permit (principal, action, resource);\n@id(\"no-sums\")\nforbid (principal, action == Action::\"call\", resource == Tool::\"calculator\");");
    home.write("same.md", &calculator("1.0.0", ""));
    home.write("wider.md", &calculator("2.0.0", "    digits: { type: integer, description: How many., default: 2 }\n"));
    let shorter = calculator("3.0.0", "").replace("maxLength: 2000", "maxLength: 3");
    home.write("shorter.md", &shorter);
    home.write("same.json", TURNS);
    home.write("other.json", &TURNS.replace("3 *", "4 *"));
    home.write("says.json", &TURNS.replace("59.70", "60"));
    home.write("silent.json", &TURNS.replace("last_tool", "last_user_contains"));
    for (arguments, code, at) in [
        (&["--policy", "same.cedar"][..], 0, Value::Null),
        (&["--policy", "strict.cedar"], 1, json!("/calls/0/decision")),
        (&["--tool", "same.md"], 0, Value::Null),
        (&["--tool", "wider.md"], 1, json!("/calls/0/envelope/input/digits")),
        (&["--tool", "shorter.md"], 1, json!("/calls/0/envelope/error")),
        (&["--script", "same.json"], 0, Value::Null),
        (&["--script", "play.json"], 0, Value::Null),
        (&["--script", "other.json"], 1, json!("/calls")),
        (&["--script", "says.json"], 1, json!("/outputs/response")),
        (&["--script", "silent.json"], 1, json!("/turns/1/response")),
        (&["--policy", "strict.cedar", "--tool", "shorter.md", "--script", "says.json"], 1, json!("/outputs/response")),
    ] {
        let (ended, replayed) = replay(&home, arguments);
        assert_eq!((ended, &replayed["at"]), (code, &at), "{arguments:?}: {replayed:#}");
        assert_eq!(replayed["equal"], code == 0, "{arguments:?}: {replayed:#}");
    }
    let (_, all) = replay(&home, &["--policy", "strict.cedar", "--tool", "shorter.md", "--script", "says.json"]);
    assert_eq!(all["differences"].as_array().unwrap().len(), 3, "each is told: {all:#}");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_status_of_its_own() {
    let home = Home::new();
    let bundle = exported(&home);
    let refused = |arguments: &[&str], code: i32, told: &str| {
        let ran = home.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(told), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    };
    for member in ["run", "snapshot", "turns", "calls", "events", "outputs", "blobs"] {
        let mut changed = bundle.clone();
        changed[member] = match &changed[member] {
            Value::Array(_) => json!([]),
            _ => json!({}),
        };
        if changed[member] == bundle[member] {
            changed[member] = json!({"0": null});
        }
        home.write("changed.json", &changed.to_string());
        refused(&["replay", "changed.json"], 2, "was changed after it was made");
    }
    let mut changed = bundle.clone();
    let note = changed["signature"]["note"].as_str().unwrap().replace("toolgate/replay/1", "toolgate/replay/2");
    changed["signature"]["note"] = json!(note);
    home.write("changed.json", &changed.to_string());
    refused(&["replay", "changed.json"], 2, "the signature does not hold");
    let other = "toolgate/0000000000000001/other+2b41d5b4+ASkLMEWGpCdJEqdxgxLkkUP0S5pPTnCUHNQhgGQeTzBr";
    refused(&["replay", "run.json", "--verifier", other], 2, "");
    home.write("nothing.json", "{}");
    refused(&["replay", "nothing.json"], 2, "this is no replay bundle");
    home.write("broken.cedar", "permit (");
    refused(&["replay", "run.json", "--policy", "broken.cedar"], 2, "the policies cannot be read");
    home.write("broken.md", "no front matter");
    refused(&["replay", "run.json", "--tool", "broken.md"], 2, "broken.md");
    home.write("broken.json", r#"{"version": 1, "turns": [{"sa": "x"}]}"#);
    refused(&["replay", "run.json", "--script", "broken.json"], 2, "unknown field `sa`");
}
