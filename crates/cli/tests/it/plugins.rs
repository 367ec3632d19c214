//! `toolgate plugin …`: installed once, used by name, and removed when nothing names it.

use std::path::Path;

use serde_json::json;

use crate::commands::Tour;
use crate::program::Home;

fn built(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/build").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing; build it with `scripts/plugins`", path.display());
    path.to_str().unwrap().to_owned()
}

pub fn tour(tour: &mut Tour) {
    let file = built("analyzeText");
    let made = tour.ok(&["plugin", "install", &file, "--register"]);
    assert_eq!((&made["installed"], &made["registration"]["action"]), (&json!(true), &json!("create")), "{made}");
    assert_eq!(tour.ok(&["plugin", "install", &file])["installed"], false);
    assert_eq!(tour.ok(&["plugin", "list"])["items"][0]["name"], "analyzeText");
    assert_eq!(tour.ok(&["plugin", "show", "analyzeText@1.0.0"])["tools"], json!(["default/analyzeText@1.0.0"]));
    tour.run(&["plugin", "remove", "analyzeText"], 1);
    tour.run(&["plugin", "show", "nothing"], 1);
    tour.ok(&["tool", "delete", "analyzeText"]);
    assert_eq!(tour.ok(&["plugin", "remove", "analyzeText"])["version"], "1.0.0");
    let broken = tour.home.write("broken.wasm", "nothing");
    tour.run(&["plugin", "install", &broken], 2);
}

#[test]
fn what_a_plug_in_asks_for_is_listed_before_it_is_granted() {
    let home = Home::new();
    home.ok(&["init"]);
    let asked = home.run(&["plugin", "install", &built("probe"), "--register"]);
    assert_eq!(asked.code, 1, "{}", asked.stderr);
    assert!(asked.stdout.contains("It asks for:\n  to send GET to api.test"), "{}", asked.stdout);
    assert!(asked.stderr.contains("nothing was registered") && asked.stderr.contains("--grant"), "{}", asked.stderr);
    assert!(home.ok(&["plugin", "show", "probe"]).contains("no tool"));
    let granted = home.ok(&["plugin", "install", &built("probe"), "--register", "--grant"]);
    assert!(granted.contains("is registered."), "{granted}");
    assert!(home.fails(&["plugin", "install", &built("probe"), "--grant"]).ends_with("exit 2"), "a grant of nothing");
}

#[test]
fn what_is_printed_can_be_kept_and_registered() {
    let home = Home::new();
    home.ok(&["init"]);
    let printed = home.ok(&["plugin", "install", &built("findCardNumbers")]);
    assert!(printed.starts_with("---\nname: \"findCardNumbers\"\n"), "{printed}");
    let file = home.write("TOOL.md", &printed);
    home.ok(&["tool", "register", "--file", &file, "--apply"]);
    assert!(home.ok(&["plugin", "show", "findCardNumbers"]).contains("default/findCardNumbers@1.0.0"));
}
