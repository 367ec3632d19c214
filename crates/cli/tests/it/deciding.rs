//! The commands about decisions, each used once, on a data folder and against a server: approvals and grants, policies,
//! guardrails, labels, tokens, secrets and keys.

use serde_json::json;

use crate::caller::text;
use crate::commands::Tour;

pub fn tour(tour: &mut Tour) {
    approvals(tour);
    policies(tour);
    guardrails_and_labels(tour);
    tokens(tour);
    secrets_and_keys(tour);
}

fn parked(tour: &mut Tour, path: &str) -> String {
    let path = format!("path={path}");
    let call = tour.run(&["call", "write_file", &path, "text=x", "--wait", "0"], 3);
    text(&call["id"]).to_owned()
}

fn approvals(tour: &mut Tour) {
    let ids: Vec<String> = ["tour/a", "tour/b", "tour/c", "tour/d"].iter().map(|path| parked(tour, path)).collect();
    let waiting = tour.ok(&["approvals", "list"]);
    assert!(waiting["items"].as_array().unwrap().len() >= ids.len(), "{waiting}");
    assert_eq!(tour.ok(&["approvals", "show", &ids[0]])["call_id"], ids[0]);
    assert_eq!(tour.ok(&["approvals", "approve", &ids[0]])["approval"]["state"], "approved");
    assert_eq!(tour.ok(&["approvals", "reject", &ids[1], "--reason", "no"])["state"], "rejected");
    assert_eq!(tour.ok(&["tool", "approve", &ids[2]])["approval"]["state"], "approved");
    assert_eq!(tour.ok(&["tool", "reject", &ids[3], "--reason", "no"])["state"], "rejected");

    tour.ok(&["agent", "create", "--name", "decided", "--toolset", "assigned"]);
    tour.ok(&["tool", "assign", "--tool", "write_file", "--agent", "decided"]);
    tour.ok(&["settings", "set", "standing_grants_for_critical=true"]);
    let within = json!({"pointer": "/path", "path_under": "out"}).to_string();
    let granted = tour.ok(&["grant", "create", "--tool", "write_file", "--agent", "decided", "--constraint", &within]);
    assert_eq!(tour.ok(&["grant", "list"])["items"][0]["id"], granted["id"]);
    assert_eq!(tour.ok(&["grant", "revoke", text(&granted["id"])])["holds"], false);
}

fn policies(tour: &mut Tour) {
    let file = tour.home.write("all.cedar", "@id(\"all\") permit (principal, action, resource);\n");
    assert_eq!(tour.ok(&["policy", "check", &file])["ok"], true);
    let saved = tour.ok(&["policy", "save", &file, "--note", "all of it"]);
    let revision = saved["saved"]["revision"].to_string();
    assert_eq!(tour.ok(&["policy", "activate", &revision])["active"].to_string(), revision);
    assert_eq!(tour.ok(&["policy", "show"])["active"], true);
    assert_eq!(tour.ok(&["policy", "list"])["items"][0]["note"], "all of it");
    assert_eq!(tour.ok(&["policy", "test", &file, "--since", "1d"])["newly_denied"], 0);
    assert_eq!(tour.ok(&["policy", "activate", "0"])["active"], 0);
}

fn guardrails_and_labels(tour: &mut Tour) {
    let guardrail = json!({"version": 1, "name": "no-keys", "order": 1, "stage": "TOOL_CALL", "on_match": "tripwire",
        "detector": {"kind": "builtin", "name": "secrets"}});
    let file = tour.home.write("no-keys.json", &guardrail.to_string());
    assert_eq!(tour.ok(&["guardrail", "set", &file])["name"], "no-keys");
    assert_eq!(tour.ok(&["guardrail", "list"])["items"][0]["name"], "no-keys");
    tour.ok(&["guardrail", "test", &file, "{\"text\": \"hello\"}"]);
    tour.ok(&["guardrail", "rm", "no-keys"]);

    tour.ok(&["label", "contexts"]);
    tour.run(&["label", "reset", "somebody"], 5);
    let accepted = tour.ok(&["label", "accept", "write_file", "--label", "private", "--reason", "it stays here"]);
    assert_eq!(tour.ok(&["label", "acceptances"])["items"][0]["id"], accepted["id"]);
    tour.ok(&["label", "withdraw", text(&accepted["id"])]);
    assert!(tour.ok(&["label", "asks"])["asks"].as_u64().unwrap() >= 4);
}

fn tokens(tour: &mut Tour) {
    let minted = tour.ok(&["token", "mint", "--tool", "echo", "--tool", "now", "--max-calls", "5"]);
    let file = tour.home.write("token", text(&minted["token"]));
    let narrowed = tour.ok(&["token", "narrow", "--tool", "echo", "--token-file", &file]);
    assert_eq!(narrowed["scope"], json!(["tool:echo"]));
    assert!(tour.ok(&["token", "list"])["items"].as_array().unwrap().len() >= 2);
    assert_eq!(tour.ok(&["token", "inspect", "--token-file", &file])["claims"]["jti"], minted["id"]);
    tour.ok(&["token", "revoke", text(&minted["id"])]);
}

fn secrets_and_keys(tour: &mut Tour) {
    let value = tour.home.write("value", "a value of the tour");
    tour.ok(&["secret", "set", "SIGNING_KEY", "--from-file", &value, "--tool", "signText"]);
    assert_eq!(tour.ok(&["secret", "list"])["items"][0]["name"], "SIGNING_KEY");
    assert_eq!(tour.ok(&["secret", "which", "SIGNING_KEY"])["found"]["scope"], "user");
    tour.ok(&["secret", "allow", "SIGNING_KEY", "--host", "sign.example"]);
    tour.ok(&["secret", "rotate"]);
    tour.ok(&["secret", "rm", "SIGNING_KEY"]);

    tour.ok(&["keys", "rotate", "response"]);
    assert!(!tour.ok(&["keys", "list"])["items"].as_array().unwrap().is_empty());
    tour.ok(&["keys", "rewrap"]);
    assert!(!tour.ok(&["audit", "event-key"])["keys"].as_array().unwrap().is_empty());
    let unsigned = tour.home.write("answer.json", "{\"status\": \"ok\"}");
    tour.run(&["verify-response", &unsigned], 1);
    // SQLite has no roles to map.
    for arguments in [&["db", "roles"][..], &["db", "map-role", "reports", "admin"], &["db", "unmap-role", "reports"]] {
        tour.run(arguments, 1);
    }
}
