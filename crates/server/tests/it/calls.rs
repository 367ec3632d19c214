//! Calls and runs as the console reads them: every filter of the lists, and a proof with what it takes to check it.

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolgate_ledger::{Salt, leaf_hash};

use crate::world::{As, every_world};

/// The tools of a list, by name: the clock of these worlds stands still, so no call is the newer one.
fn tools(page: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|call| call["tool_key"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn by_whom<'p>(page: &'p Value, tool: &str) -> &'p str {
    let found = page["items"].as_array().unwrap().iter().find(|call| call["tool_key"] == tool);
    found.unwrap()["principal"].as_str().unwrap()
}

#[tokio::test]
async fn calls_are_found_by_approval_error_and_person() {
    every_world(async |world| {
        let mia = world.user("default", "mia", &["member"]).await;
        let call = |tool: &str, input: Value| json!({"tool": tool, "input": input, "wait": 0});
        world.send(&As::Owner, "POST", "/api/v1/calls", call("echo", json!({"text": "hello"}))).await.ok();
        world.send(&mia, "POST", "/api/v1/calls", call("now", json!({}))).await.ok();
        let wrong =
            world.send(&As::Owner, "POST", "/api/v1/calls", call("calculator", json!({"expression": 1}))).await.ok();
        assert_eq!(wrong["error"]["code"], "VALIDATION_ERROR");

        let all = world.get(&As::Owner, "/api/v1/calls").await.ok();
        assert_eq!(tools(&all), ["calculator", "echo", "now"]);
        let person = by_whom(&all, "now");
        for (filter, found) in [
            ("error=VALIDATION_ERROR".to_owned(), &["calculator"][..]),
            ("error=TIMEOUT".to_owned(), &[]),
            ("approval=not_required".to_owned(), &["calculator", "echo", "now"]),
            ("approval=pending".to_owned(), &[]),
            (format!("principal={person}"), &["now"]),
            (format!("principal={person}&error=VALIDATION_ERROR"), &[]),
        ] {
            let page = world.get(&As::Owner, &format!("/api/v1/calls?{filter}")).await.ok();
            assert_eq!(tools(&page), found, "{filter}");
        }
        // A filter widens nothing.
        let others = by_whom(&all, "echo");
        assert!(tools(&world.get(&mia, &format!("/api/v1/calls?principal={others}")).await.ok()).is_empty());
        for wrong in ["error=NOPE", "approval=maybe", "principal=nobody"] {
            world.get(&As::Owner, &format!("/api/v1/calls?{wrong}")).await.refused(400);
        }
    })
    .await;
}

#[tokio::test]
async fn runs_are_found_by_agent_and_name_whom_they_are_of() {
    every_world(async |world| {
        for agent in ["sorter", "writer"] {
            world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": agent})).await.ok();
            let title = format!("of {agent}");
            world.send(&As::Owner, "POST", "/api/v1/runs", json!({"title": title, "agent": agent})).await.ok();
        }
        let found = world.get(&As::Owner, "/api/v1/runs?agent=sorter&state=running").await.ok();
        let [run] = found["items"].as_array().unwrap().as_slice() else { panic!("{found:#}") };
        assert_eq!((&run["title"], &run["agent_name"]), (&json!("of sorter"), &json!("sorter")));
        assert!(run["principal_name"].is_string(), "{run:#}");
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await.ok();
        assert_eq!(shown["principal_name"], run["principal_name"]);
        world.get(&As::Owner, "/api/v1/runs?agent=nobody").await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_call_s_proof_opens_what_its_entry_commits_to() {
    every_world(async |world| {
        let mia = world.user("default", "mia", &["member"]).await;
        let body = json!({"tool": "echo", "input": {"text": "hello"}});
        let call = world.send(&mia, "POST", "/api/v1/calls", body).await.ok();
        let path = format!("/api/v1/calls/{}/proof", call["id"].as_str().unwrap());
        // Whoever may read the call may prove it: the right to the whole log is not needed.
        let proof = world.get(&mia, &path).await.ok();
        let entry = proof["entry"].as_str().unwrap();
        assert_eq!(proof["receipt"]["entry_digest"], json!(leaf_hash(entry)));
        let keys = world.get(&As::Owner, "/api/v1/audit/key").await.ok();
        assert_eq!(proof["keys"], keys["keys"]);
        let salt = BASE64.decode(proof["payload"]["salt"].as_str().unwrap().as_bytes()).unwrap();
        let salt = Salt::from_bytes(salt.try_into().unwrap());
        let details = &serde_json::from_str::<Value>(entry).unwrap()["details"];
        for what in ["input", "output"] {
            let text = proof["payload"][what].as_str().unwrap();
            assert_eq!(details[what], json!(salt.commit_named(what, text)), "{what}");
        }
        world.get(&world.user("default", "ben", &["member"]).await, &path).await.refused(404);
        // The proof of an entry of the log, which needs only the right to read the log, opens nothing.
        let index = proof["receipt"]["index"].as_u64().unwrap();
        let of_log = world.get(&As::Owner, &format!("/api/v1/audit/entries/{index}/proof")).await.ok();
        assert_eq!((of_log.get("payload"), &of_log["entry"]), (None, &proof["entry"]));
    })
    .await;
}
