//! Files of clients: what is put behind the gate leaves them, what is secret is never shown, and all of it can be taken
//! back to the byte.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::commands::Tour;
use crate::program::{Home, finish, root};

const SECRET: &str = "hunter2-and-more-of-it";

/// A server that ends unless it has its variable.
fn notes(home: &Home) -> String {
    let notes = root().join("examples/upstreams/notes.py").display().to_string();
    let text = format!(
        "import os, runpy\nassert os.environ['NOTES_TOKEN'] == '{SECRET}'\nrunpy.run_path({notes:?}, run_name='__main__')\n"
    );
    home.write("notes.py", &text)
}

fn desktop(home: &Home) -> String {
    let notes = notes(home);
    let text = format!(
        "{{\n  \"theme\": \"dark\", // mine\n  \"mcpServers\": {{\n    \"My Notes\": {{\n      \"command\": \"python3\",\n      \"args\": [{notes:?}],\n      \"env\": {{\"NOTES_TOKEN\": \"{SECRET}\", \"LEVEL\": \"debug\"}}\n    }},\n    \"off\": {{\"command\": \"python3\", \"disabled\": true}}\n  }}\n}}\n"
    );
    home.write("desktop.json", &text)
}

pub fn tour(tour: &mut Tour) {
    let text = "{\"mcpServers\": {\"docs\": {\"url\": \"https://docs.example.com/mcp\"}}}";
    for client in ["claude-desktop", "claude-code", "cursor", "vscode"] {
        let text = if client == "vscode" { text.replace("mcpServers", "servers") } else { text.to_owned() };
        let file = tour.home.write(&format!("{client}.json"), &text);
        let planned = tour.ok(&["import", client, &file, "--dry-run", "--with-key"]);
        assert_eq!(planned["servers"][0]["outcome"], "new", "{planned}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        tour.run(&["import", client, &file, "--undo"], 1);
    }

    // A client that knows addresses gets the server's, where there is one.
    let file = tour.home.write("empty.json", "{}");
    assert_eq!(tour.ok(&["import", "cursor", &file])["written"], true);
    let own = servers(&file)["toolgate"].clone();
    assert_eq!(own["url"].is_string(), !tour.home.is_local(), "{own}");
    assert_eq!(tour.ok(&["import", "cursor", &file, "--undo"])["restored"], true);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
    // One that knows none starts us, and needs a key for a server elsewhere, which nobody is shown.
    if !tour.home.is_local() {
        tour.run(&["import", "claude-desktop", &file], 2);
        let done = tour.ok(&["import", "claude-desktop", &file, "--with-key"]).to_string();
        let key = servers(&file)["toolgate"]["env"]["TOOLGATE_KEY"].as_str().unwrap().to_owned();
        assert!(key.starts_with("tg_") && !done.contains(&key), "{done}");
        let mine =
            finish(tour.home.bare(&["whoami", "--server", tour.home.url().unwrap(), "--key", &key]).spawn().unwrap());
        assert!(mine.stdout.contains("calls.create") && !mine.stdout.contains("approvals.decide"), "{}", mine.stdout);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others read the key");
        let undone = tour.ok(&["import", "claude-desktop", &file, "--undo"]);
        assert_eq!(
            (undone["keys"].as_array().map(Vec::len), &undone["keys"]),
            (Some(1), &undone["revoked"]),
            "{undone}"
        );
        let gone = tour.home.bare(&["whoami", "--server", tour.home.url().unwrap(), "--key", &key]).spawn().unwrap();
        assert_ne!(finish(gone).code, 0, "its key is revoked");
    }
}

fn servers(file: &str) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<Value>(&text.replace(" // mine", "")).unwrap()["mcpServers"].clone()
}

#[test]
fn the_servers_of_a_file_go_behind_the_gate_and_come_back() {
    let mut home = Home::new();
    home.set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let file = desktop(&home);
    let before = std::fs::read(&file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();

    let planned = home.run(&["import", "claude-desktop", &file, "--dry-run", "--add-entries"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let shown = home.redact(&planned.stdout).replace(crate::program::PROGRAM, "[program]");
    let shown = shown.replace(&home.path().display().to_string(), "[home]");
    let shown = shown.replace("/usr/local/bin/python3", "/usr/bin/python3");
    insta::assert_snapshot!(shown, @r#"
    SERVER    NAME      OUTCOME  WHERE           SECRETS
    My Notes  my-notes  new      entry my-notes  MY_NOTES_NOTES_TOKEN
    off       off       left

    off: it is switched off

    Processes that the operator's entries.yaml must have:
    upstreams:
      my-notes:
        about: "From Claude Desktop."
        command:
          - /usr/bin/python3
          - [home]/notes.py
        set:
          HOME: [home]
          LEVEL: debug

    What would change in the file:
    @@ -4,6 +4,5 @@
    -    "My Notes": {
    -      "command": "python3",
    -      "args": ["[home]/notes.py"],
    -      "env": {"NOTES_TOKEN": "[hidden]", "LEVEL": "debug"}
    -    },
    -    "off": {"command": "python3", "disabled": true}
    +    "off": {"command": "python3", "disabled": true},
    +    "toolgate": {
    +      "command": "[program]",
    +      "args": ["--data", "[home]/data", "mcp"]
    +    }

    How Claude Desktop finds the gate:
    {
      "mcpServers": {
        "toolgate": {
          "command": "[program]",
          "args": [
            "--data",
            "[home]/data",
            "mcp"
          ]
        }
      }
    }
    "#);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(!home.data().join("entries.yaml").exists());

    let without = home.run(&["import", "claude-desktop", &file, "--add-entries"]);
    assert_eq!((without.code, without.stdout.contains("--take-secrets")), (1, true), "{}", without.stdout);
    assert_eq!(std::fs::read(&file).unwrap(), before, "nothing left the file");

    let done = home.run(&["import", "claude-desktop", &file, "--add-entries", "--take-secrets"]);
    let all = format!("{}{}", done.stdout, done.stderr);
    assert_eq!(done.code, 1, "one stays, because it is switched off: {all}");
    let changed = |said: &str| {
        let (_, after) = said.split_once("in the file:\n").unwrap_or_else(|| panic!("{said}"));
        after.split("\n\n").next().unwrap_or_default().to_owned()
    };
    assert_eq!(changed(&done.stdout), changed(&planned.stdout));
    assert!(planned.stderr.contains("one that cannot stays in the file"), "{}", planned.stderr);
    assert!(done.stderr.contains("with the secrets that were in it"), "{all}");
    let left = servers(&file);
    assert_eq!(left.as_object().unwrap().keys().collect::<Vec<_>>(), ["off", "toolgate"], "{left}");
    assert_eq!(left["toolgate"]["args"][2], "mcp");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"theme\": \"dark\", // mine"), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let entries = std::fs::read_to_string(home.data().join("entries.yaml")).unwrap();
    assert!(
        entries.contains("my-notes:") && entries.contains("LEVEL: debug") && !entries.contains(SECRET),
        "{entries}"
    );

    // It works, with the secret that it had.
    home.ok(&["tool", "classify", "my-notes.count_words", "--class", "none", "--reason", "read"]);
    assert!(home.ok(&["call", "my-notes.count_words", "text=one two"]).contains("\"words\":2"));
    for said in [&all, &planned.stdout, &planned.stderr, &without.stdout, &without.stderr] {
        assert!(!said.contains(SECRET), "{said}");
    }

    // One of the same name that would start otherwise is another server, and stays.
    for (old, new) in [("debug", "trace"), ("notes.py", "notes.py\", \"--all")] {
        let text = std::str::from_utf8(&before).unwrap().replace(old, new);
        assert_ne!(text.as_bytes(), before, "{old}");
        let other = home.write("other.json", &text);
        let left = home.json(&["import", "claude-desktop", &other, "--dry-run"]);
        let row = &left["servers"][0];
        assert_eq!(row["outcome"], "left", "{left}");
        assert!(row["why"].as_str().unwrap().contains("entries.yaml has another"), "{left}");
    }

    // A second time there is nothing to do.
    let again = home.run(&["import", "claude-desktop", &file, "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["written"], &again["servers"][1]["outcome"]), (&json!(false), &json!("itself")), "{again}");

    home.ok(&["import", "claude-desktop", &file, "--undo"]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(beside(&file), 0);

    // What is behind the gate already leaves the file again, and a change of the file is not lost silently.
    let third = home.run(&["import", "claude-desktop", &file]);
    assert!(third.stdout.contains("already"), "{}", third.stdout);
    std::fs::write(&file, "{}").unwrap();
    let refused = home.fails(&["import", "claude-desktop", &file, "--undo"]);
    insta::assert_snapshot!(refused.replace(&home.path().display().to_string(), "[home]"), @r"
    error: [home]/desktop.json changed since it was imported
      hint: add --force to put back what was there before, and lose what came since
    exit 1
    ");
    home.ok(&["import", "claude-desktop", &file, "--undo", "--force"]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

fn beside(file: &str) -> usize {
    let folder = std::fs::read_dir(Path::new(file).parent().unwrap()).unwrap();
    folder.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(".toolgate-")).count()
}

#[test]
fn a_link_stays_a_link_and_what_is_no_file_is_refused() {
    let home = Home::new();
    let real = home.write("real/mcp.json", "{\"mcpServers\": {}}");
    let link = home.path().join("mcp.json");
    symlink(&real, &link).unwrap();
    let link = link.display().to_string();
    home.ok(&["import", "cursor", &link]);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(servers(&real)["toolgate"]["args"][2], "mcp");
    home.ok(&["import", "cursor", &link, "--undo"]);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{\"mcpServers\": {}}");

    let other = home.path().join("other.json");
    std::fs::hard_link(&real, &other).unwrap();
    assert!(home.fails(&["import", "cursor", &real]).contains("hard link"));
    assert!(home.fails(&["import", "cursor", &home.path().display().to_string()]).contains("no ordinary file"));
    assert!(home.fails(&["import", "cursor", "nothing.json"]).contains("no such file"));
    let twice = home.write("twice.json", "{\"mcpServers\": {}, \"mcpServers\": {}}");
    assert!(home.fails(&["import", "cursor", &twice]).contains("twice"));
}

#[test]
fn names_that_meet_are_told_and_can_be_chosen() {
    let home = Home::new();
    let text = json!({"mcpServers": {
        "Docs": {"url": "https://a.example.com/mcp"}, "docs": {"url": "https://b.example.com/mcp"}, "文": {"url": "https://c.example.com/mcp"},
    }});
    let file = home.write("mcp.json", &text.to_string());
    let planned = home.json(&["import", "cursor", &file, "--dry-run"]);
    let outcomes: Vec<&Value> = planned["servers"].as_array().unwrap().iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["new", "left", "left"], "{planned}");
    let planned =
        home.json(&["import", "cursor", &file, "--dry-run", "--rename", "docs=other", "--rename", "文=texts"]);
    let names: Vec<&Value> = planned["servers"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["docs", "other", "texts"], "{planned}");
    let planned = home.json(&["import", "cursor", &file, "--dry-run", "--only", "Docs"]);
    assert_eq!(planned["servers"][1]["outcome"], "not asked for", "{planned}");
}

/// A server that cannot be read stays with its client, who can use it.
#[test]
fn what_cannot_be_used_through_the_gate_stays() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"docs\": {\"url\": \"http://127.0.0.1:9/mcp\"}}}";
    let file = home.write("mcp.json", text);
    let tried = home.run(&["import", "claude-code", &file, "--json"]);
    let said: Value = serde_json::from_str(&tried.stdout).unwrap();
    assert_eq!((tried.code, &said["servers"][0]["outcome"]), (1, &json!("left")), "{said}");
    assert!(said["servers"][0]["why"].as_str().unwrap().contains("cannot be read yet"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

/// JSON as people write it, with comments and any spacing.
fn documents() -> impl Strategy<Value = String> {
    let space =
        prop_oneof![Just(""), Just(" "), Just("\n  "), Just("\r\n\t"), Just(" /* mine */ "), Just(" // mine\n")];
    let word = "[a-zé\\\\u{1F600} -]{0,8}".prop_map(|word| json!(word).to_string());
    let leaf = prop_oneof![Just("null".to_owned()), Just("1.50".to_owned()), Just("[1,2 ,]".to_owned()), word];
    (proptest::collection::btree_map("[a-z]{1,6}", (leaf, space.clone()), 0..5), space, any::<bool>(), any::<bool>())
        .prop_map(|(members, gap, mark, comma)| {
            let mut parts: Vec<String> =
                members.into_iter().map(|(name, (value, gap))| format!("{gap}{name:?}{gap}:{gap}{value}")).collect();
            parts.push(format!("{gap}\"mcpServers\"{gap}:{{{gap}}}"));
            let mark = if mark { "\u{feff}" } else { "" };
            format!("{mark}{gap}{{{}{}{gap}}}{gap}", parts.join(","), if comma { "," } else { "" })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_import_that_is_taken_back_leaves_every_byte(text in documents()) {
        let home = Home::new();
        let file = home.write("mcp.json", &text);
        home.ok(&["import", "cursor", &file]);
        prop_assert_ne!(std::fs::read(&file).unwrap(), text.as_bytes());
        home.ok(&["import", "cursor", &file, "--undo"]);
        prop_assert_eq!(std::fs::read(&file).unwrap(), text.as_bytes());
        prop_assert_eq!(beside(&file), 0);
    }
}
