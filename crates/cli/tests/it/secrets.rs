//! Secrets and the master key from the command line: a value is read, never typed as an argument and never printed.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::program::{Home, Ran, both};

const VALUE: &str = "sentinel-value-of-a-test";
const FIRST: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const SECOND: &str = "0202020202020202020202020202020202020202020202020202020202020202";

#[track_caller]
fn quiet(ran: &Ran) {
    assert!(!ran.stdout.contains("sentinel") && !ran.stderr.contains("sentinel"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_secret_is_set_used_shown_without_its_value_and_taken_away() {
    both(|home| {
        let set = home.run_with_input(&["secret", "set", "SIGNING_KEY", "--tool", "signText"], VALUE);
        assert_eq!(set.code, 0, "{}", set.stderr);
        assert_eq!(set.stdout, "Set SIGNING_KEY, version 1, for you alone.\n");
        quiet(&set);
        let file = home.write("value.txt", &format!("{VALUE}\r\n"));
        let signed = |home: &Home| home.ok(&["--json", "call", "signText", "text=hello"]);
        let first: Value = serde_json::from_str(&signed(home)).unwrap();
        home.ok(&["secret", "set", "SIGNING_KEY", "--from-file", &file]);
        let second: Value = serde_json::from_str(&signed(home)).unwrap();
        assert_eq!(first["output"], second["output"], "a line break at the end is not part of the value");
        let listed = home.run(&["secret", "list"]);
        quiet(&listed);
        assert!(listed.stdout.contains("SIGNING_KEY  user   2        signText"), "{}", listed.stdout);
        for arguments in [
            ["secret", "which", "SIGNING_KEY"].as_slice(),
            &["secret", "allow", "SIGNING_KEY", "--host", "api.example.com"],
            &["secret", "rotate"],
            &["secret", "rotate", "--deep"],
            &["calls", "list"],
            &["keys", "list"],
        ] {
            let ran = home.run(arguments);
            assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
            quiet(&ran);
        }
        let third: Value = serde_json::from_str(&signed(home)).unwrap();
        assert_eq!(first["output"], third["output"], "rotation changes no value");
        home.ok(&["secret", "rm", "SIGNING_KEY"]);
        assert_eq!(home.run(&["secret", "which", "SIGNING_KEY"]).code, 1);
        let missing = home.run(&["call", "signText", "text=hello"]);
        assert_eq!(missing.code, 1);
        assert!(missing.stdout.contains("needs the secret `SIGNING_KEY`"), "{}", missing.stdout);
    });
}

#[test]
fn a_value_is_never_an_argument() {
    let home = Home::new();
    let ran = home.run(&["secret", "set", "KEY", VALUE]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    for (input, expected) in [("", "the value is empty"), ("\n", "the value is empty"), ("short", "")] {
        let ran = home.run_with_input(&["secret", "set", "KEY"], input);
        assert_eq!(ran.code, if expected.is_empty() { 0 } else { 2 }, "{input:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let short = home.run_with_input(&["secret", "set", "KEY"], "short");
    assert!(short.stderr.contains("warning: the value has fewer than 8 bytes"), "{}", short.stderr);
}

#[test]
fn a_command_prints_the_master_key_and_a_new_one_takes_its_place() {
    let mut home = Home::new();
    let key = home.write("printed", FIRST);
    home.set("PATH", "/usr/bin:/bin");
    home.set("TOOLGATE_MASTER_KEY_COMMAND", &format!("cat {key}"));
    home.ok(&["init"]);
    assert!(!home.data().join("master.key").exists(), "the key is kept elsewhere");
    let set = home.run_with_input(&["secret", "set", "SIGNING_KEY", "--tool", "signText"], VALUE);
    assert_eq!(set.code, 0, "{}", set.stderr);
    let signed = home.ok(&["--json", "call", "signText", "text=hello"]);

    for (command, says) in [
        ("no-such-program-anywhere", "cannot be started"),
        ("false", "ended with exit status: 1"),
        ("echo not-a-key", "is not 32 bytes"),
        ("true", "is not 32 bytes"),
        (r#"["echo", "a b; cat /etc/passwd"]"#, "is not 32 bytes"),
    ] {
        home.set("TOOLGATE_MASTER_KEY_COMMAND", command);
        let ran = home.run(&["tool", "list"]);
        assert_eq!(ran.code, 4, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{command}: {}", ran.stderr);
    }

    let previous = home.write("previous.key", FIRST);
    std::fs::set_permissions(&previous, std::fs::Permissions::from_mode(0o600)).unwrap();
    home.set("TOOLGATE_MASTER_KEY_COMMAND", "");
    home.set("TOOLGATE_MASTER_KEY", SECOND);
    assert_eq!(home.run(&["tool", "list"]).code, 4, "the new key alone opens nothing");
    home.set("TOOLGATE_MASTER_KEY_PREVIOUS_FILE", &previous);
    let shown = home.ok(&["config", "show"]);
    assert!(!shown.contains(FIRST) && !shown.contains(SECOND), "{shown}");
    home.ok(&["keys", "rewrap"]);
    home.set("TOOLGATE_MASTER_KEY_PREVIOUS_FILE", "");
    let after = home.ok(&["--json", "call", "signText", "text=hello"]);
    let output = |text: &str| serde_json::from_str::<Value>(text).unwrap()["output"].clone();
    assert_eq!(output(&after), output(&signed));
    home.set("TOOLGATE_MASTER_KEY", FIRST);
    assert_eq!(home.run(&["tool", "list"]).code, 4, "the old key opens nothing any more");
}
