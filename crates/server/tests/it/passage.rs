//! Servers of others behind the gate: what is called is what was read of what runs there now.

use serde_json::json;

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
