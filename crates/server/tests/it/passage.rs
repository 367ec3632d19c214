//! Servers of others behind the gate: what is called is what was read of what runs there now.

use serde_json::json;

use crate::mcp::{Modern, member};
use crate::upstreams::{every_world, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_started_again_is_read_before_anything_is_called() {
    every_world(async |world| {
        world.offer(&[tool("echo", json!({})), tool("die", json!({}))]);
        world.save(json!({})).await.ok();
        world.trust("files.echo").await;
        world.trust("files.die").await;
        let said = world.call("files.echo", json!({"text": "hello"})).await;
        assert_eq!(said["status"], json!("completed"), "{said:#}");
        let other = json!({"inputSchema": {"type": "object", "required": ["path"],
            "properties": {"path": {"type": "string"}}, "additionalProperties": false}});
        world.offer(&[tool("echo", other), tool("die", json!({}))]);
        world.call("files.die", json!({})).await;
        let refused = world.call("files.echo", json!({"text": "hello"})).await;
        assert_eq!(refused["error"]["details"]["reason"], json!("blocked"), "{refused:#}");
        assert_eq!(refused["error"]["details"]["class"], json!("breaking"), "{refused:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_s_question_is_passed_on_at_every_address() {
    every_world(async |world| {
        world.offer(&[tool("ask", json!({}))]);
        world.save(json!({"asks": {"elicitation": "pass"}})).await.ok();
        world.trust("files.ask").await;
        let door = world.door();
        let who = member(&door).await;
        let able = Modern::new(&who).can(json!({"elicitation": {"form": {}}}));
        let search = able.at("/mcp?catalog=search");
        for (client, name) in [(&able, "files__ask"), (&able.at("/mcp/files"), "ask"), (&search, "call_tool")] {
            let inner = json!({"name": "files__ask", "arguments": {"text": "x"}});
            let arguments = if name == "call_tool" { inner } else { inner["arguments"].clone() };
            let asked = client.call(&door, name, arguments.clone()).await;
            let asked = asked.result();
            assert_eq!(asked["resultType"], "input_required", "{name}: {asked:#}");
            let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(question["params"]["message"], "The server `files` asks: Which?");
            let answer = json!({"action": "accept", "content": {}});
            let again = json!({"name": name, "arguments": arguments, "requestState": asked["requestState"],
                "inputResponses": {key: answer}});
            let done = client.send(&door, "tools/call", again).await;
            let said = done.result()["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(said).unwrap(), answer, "{name}");
        }
        // Who cannot be asked is not, and a call that nobody's program waits for asks nobody.
        let told = Modern::new(&who).call(&door, "files__ask", json!({"text": "y"})).await;
        let told = told.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(told.contains("-32601") || told.contains("cannot be asked"), "{told}");
    })
    .await;
}
