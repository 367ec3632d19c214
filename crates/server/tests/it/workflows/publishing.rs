//! Workflows that are tools: what they own up to, how they are called, how they wait, end and fail.

use serde_json::{Value, json};

use super::{calling, over, run, save};
use crate::mcp::{Modern, member};
use crate::world::{As, World, attend, every_world};

async fn publish(world: &World, name: &str, how: Value) -> crate::world::Answer {
    world.send(&As::Owner, "POST", &format!("/api/v1/workflows/{name}/publish"), how).await
}

async fn call(world: &World, who: &As, tool: &str, input: Value) -> Value {
    world.send(who, "POST", "/api/v1/calls", json!({"tool": tool, "input": input, "wait": 30})).await.ok()
}

async fn ended(world: &World, call: &Value) -> Value {
    let path = format!("/api/v1/calls/{}", call["id"].as_str().unwrap());
    for _ in 0..100 {
        let seen = world.get(&As::Owner, &path).await.ok();
        if seen["status"] != "running" {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the call does not end: {:#}", world.get(&As::Owner, &path).await.body);
}

/// A question, and what was answered.
fn asking(name: &str) -> Value {
    json!({
        "version": 1, "name": name,
        "nodes": [
            {"id": "ask", "kind": "human", "config": {"title": "How many?", "schema": {"type": "object", "required": ["n"],
                "properties": {"n": {"type": "integer", "description": "So many"}}}}},
            {"id": "out", "kind": "output", "config": {"schema": {"type": "object", "properties": {
                "n": {"type": "integer", "description": "So many"}}}}}],
        "edges": [{"from": {"node": "ask", "handle": "answer", "path": "/n"}, "to": {"node": "out", "handle": "n"}}],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_workflow_is_a_tool_like_others_in_one_revision_for_good() {
    every_world(async |world| {
        let owner = As::Owner;
        save(&world, &owner, &calling("say-it", "echo")).await.ok();
        let planned = publish(&world, "say-it", json!({"dry_run": true})).await.ok();
        assert_eq!((&planned["name"], &planned["applied"]), (&json!("sayIt"), &json!(false)), "{planned:#}");
        let made = publish(&world, "say-it", json!({"title": "Say it"})).await.ok();
        assert_eq!((&made["action"], &made["version"]), (&json!("create"), &json!("1.0.0")), "{made:#}");
        let shown = world.get(&owner, "/api/v1/workflows/say-it").await.ok();
        assert_eq!(shown["published_as"], "sayIt", "{shown:#}");
        let tool = world.get(&owner, "/api/v1/tools/sayIt").await.ok();
        assert_eq!(tool["runner"], json!({"kind": "workflow", "workflow": "say-it", "revision": 1}), "{tool:#}");
        assert_eq!(tool["input_schema"]["required"], json!(["text"]), "{tool:#}");
        assert_eq!(tool["egress_class"], "none", "{tool:#}");
        let said = call(&world, &owner, "sayIt", json!({"text": "hi"})).await;
        assert_eq!((&said["status"], &said["output"]), (&json!("completed"), &json!({"said": "hi"})), "{said:#}");
        let runs =
            async |name: &str| world.get(&owner, &format!("/api/v1/runs?workflow={name}")).await.ok()["items"].clone();
        assert_eq!((runs("say-it").await.as_array().unwrap().len(), runs("other").await), (1, json!([])));
        let wrong = call(&world, &owner, "sayIt", json!({"texts": "hi"})).await;
        assert_eq!(wrong["error"]["code"], "VALIDATION_ERROR", "{wrong:#}");
        let dry = json!({"tool": "sayIt", "input": {"text": "hi"}, "mode": "dry_run"});
        let dry = world.send(&owner, "POST", "/api/v1/calls", dry).await.ok();
        assert_eq!(dry["output"]["would_run"]["workflow"], "say-it", "{dry:#}");
        assert_eq!(dry["output"]["calls"], json!(["echo (none, risk safe)"]), "{dry:#}");
        // An agent that has the workflow alone learns no other names by it.
        let agent = json!({"name": "sayer", "toolset": "assigned", "custom_tools": ["sayIt"]});
        let agent = world.send(&owner, "POST", "/api/v1/agents", agent).await.ok();
        let key = json!({"name": "sayer", "agent": agent["name"]});
        let key = world.send(&owner, "POST", "/api/v1/keys", key).await.ok();
        let sayer = As::Key(key["secret"].as_str().unwrap().to_owned());
        let dry = json!({"tool": "sayIt", "input": {"text": "hi"}, "mode": "dry_run"});
        let dry = world.send(&sayer, "POST", "/api/v1/calls", dry).await.ok();
        assert_eq!(dry["output"]["calls"], json!(["1 more that you do not have"]), "{dry:#}");
        assert_eq!(publish(&world, "say-it", json!({"title": "Say it"})).await.ok()["action"], "unchanged");

        // What is saved later is another version; the one that is there stays what it is.
        let mut next = calling("say-it", "echo");
        next["nodes"][1]["config"]["input"] = json!({"text": "always this"});
        next["edges"].as_array_mut().unwrap().remove(0);
        save(&world, &owner, &next).await.ok();
        assert_eq!(call(&world, &owner, "sayIt", json!({"text": "hi"})).await["output"], json!({"said": "hi"}));
        let second = publish(&world, "say-it", json!({"title": "Say it"})).await.ok();
        assert_eq!((&second["action"], &second["current"]), (&json!("update"), &json!("1.0.0")), "{second:#}");
        let now = call(&world, &owner, "sayIt", json!({"text": "hi"})).await;
        assert_eq!(now["output"], json!({"said": "always this"}), "{now:#}");
        let before = call(&world, &owner, "sayIt@1.0.0", json!({"text": "hi"})).await;
        assert_eq!(before["output"], json!({"said": "hi"}), "{before:#}");

        // Over the protocol of agents' tools, by somebody who may call tools.
        let client = Modern::new(&member(&world).await);
        let said = client.call(&world, "sayIt", json!({"text": "ho"})).await;
        assert_eq!(said.result()["structuredContent"], json!({"said": "always this"}), "{:#}", said.answer());
        // In a run it stands below it.
        let opened = world.send(&owner, "POST", "/api/v1/runs", json!({"title": "Above"})).await.ok();
        let request = json!({"tool": "sayIt", "input": {"text": "hi"}, "run_id": opened["id"], "wait": 30});
        world.send(&owner, "POST", "/api/v1/calls", request).await.ok();
        // Its run is closed a moment after its call.
        let path = format!("/api/v1/runs/{}", opened["id"].as_str().unwrap());
        let mut shown = world.get(&owner, &path).await.ok();
        for _ in 0..100 {
            if shown["runs"][0]["state"] == "completed" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            shown = world.get(&owner, &path).await.ok();
        }
        assert_eq!(shown["runs"][0]["state"], "completed", "{shown:#}");

        // Nobody pulls it away from below.
        let kept = world.send(&owner, "DELETE", "/api/v1/workflows/say-it", Value::Null).await.refused(409);
        assert!(kept["detail"].as_str().unwrap().contains("`sayIt`"), "{kept:#}");
        let reader = world.user("default", "ben", &["member"]).await;
        world.send(&reader, "POST", "/api/v1/workflows/say-it/publish", json!({})).await.refused(403);
        let found = world.get(&reader, "/api/v1/search?q=say-it&kind=workflow").await.ok();
        assert_eq!((&found["items"][0]["kind"], &found["items"][0]["name"]), (&json!("workflow"), &json!("say-it")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_owns_up_to_its_strongest_node_and_never_calls_itself() {
    every_world(async |world| {
        let owner = As::Owner;
        let mut writing = calling("keep", "write_file");
        writing["nodes"][1]["config"]["input"] = json!({"path": "a.txt"});
        writing["edges"][1]["from"]["path"] = json!("/path");
        writing["nodes"]
            .as_array_mut()
            .unwrap()
            .push(json!({"id": "aside", "kind": "tool", "config": {"tool": "echo", "input": {"text": "a"}}}));
        save(&world, &owner, &writing).await.ok();
        publish(&world, "keep", json!({"tool": "keepIt"})).await.ok();
        let tool = world.get(&owner, "/api/v1/tools/keepIt").await.ok();
        let inner = world.get(&owner, "/api/v1/tools/write_file").await.ok();
        for member in ["egress_class", "risk"] {
            assert_eq!(tool[member], inner[member], "{member}");
        }
        let request = json!({"tool": "keepIt", "input": {"text": "x"}, "wait": 0});
        let asked = world.send(&owner, "POST", "/api/v1/calls", request).await.body;
        assert_eq!(asked["status"], "pending", "{asked:#}");
        // Whoever decides is shown what it will call, the strongest first.
        let cards = world.get(&owner, "/api/v1/approvals?state=open").await.ok();
        let calls = cards["items"][0]["preview"]["plan"]["calls"].clone();
        let risk = inner["risk"].as_str().unwrap();
        assert_eq!(calls, json!([format!("write_file (write, risk {risk})"), "echo (none, risk safe)"]), "{cards:#}");
        // A file that says less is refused, as is one of a graph that is not there.
        let mut weak = json!({"name": "keepLess", "egress_class": "none", "risk": "safe", "sink": "none"});
        for member in ["description", "input_schema", "output_schema", "runner"] {
            weak[member] = tool[member].clone();
        }
        let refused = world.register(&owner, weak.clone()).await.refused(400);
        assert!(refused.to_string().contains("has a node that is at least `write`"), "{refused:#}");
        weak["runner"] = json!({"kind": "workflow", "workflow": "nothing"});
        assert!(world.register(&owner, weak.clone()).await.refused(400).to_string().contains("floor.workflow"));
        weak["runner"] = json!({"kind": "workflow", "workflow": "keep", "revision": 7});
        assert!(world.register(&owner, weak).await.refused(400).to_string().contains("revision 7"));

        // Directly, and through another workflow.
        save(&world, &owner, &calling("one", "echo")).await.ok();
        publish(&world, "one", json!({"tool": "toolOne"})).await.ok();
        let itself = save(&world, &owner, &calling("one", "toolOne")).await.refused(400);
        assert_eq!(itself["details"]["findings"][0]["code"], "workflow.circle", "{itself:#}");
        save(&world, &owner, &calling("two", "toolOne")).await.ok();
        publish(&world, "two", json!({"tool": "toolTwo"})).await.ok();
        let around = save(&world, &owner, &calling("one", "toolTwo")).await.refused(400);
        assert!(around.to_string().contains("one → toolTwo → toolOne → one"), "{around:#}");
        save(&world, &owner, &calling("three", "toolThree")).await.ok();
        let itself = publish(&world, "three", json!({"tool": "toolThree"})).await.refused(400);
        assert!(itself.to_string().contains("floor.circle"), "{itself:#}");

        // What an earlier revision does cannot be seen beforehand, and ends where runs stand too deep.
        save(&world, &owner, &calling("two", "echo")).await.ok();
        save(&world, &owner, &calling("one", "toolTwo")).await.ok();
        publish(&world, "one", json!({"tool": "toolOne"})).await.ok();
        let deep = call(&world, &owner, "toolTwo", json!({"text": "x"})).await;
        let deep = ended(&world, &deep).await;
        // Each of them takes errors for data, so that only the innermost tells why.
        assert_eq!((&deep["status"], &deep["output"]), (&json!("completed"), &json!({"said": null})), "{deep:#}");
        let made = world.get(&owner, "/api/v1/calls?limit=100").await.ok();
        let made = made["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["tool_key"].as_str().unwrap().starts_with("tool"));
        let codes: Vec<&Value> = made.map(|call| &call["error_code"]).collect();
        assert_eq!(
            codes.len(),
            7,
            "one for each run that may stand under another, and the one that is refused: {codes:?}"
        );
        assert_eq!(codes.iter().filter(|code| **code == "POLICY_DENIED").count(), 1, "{codes:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_call_waits_fails_and_is_cancelled_with_its_run() {
    every_world(async |world| {
        let owner = As::Owner;
        let stop = attend(&world.app);
        save(&world, &owner, &asking("count")).await.ok();
        publish(&world, "count", json!({"tool": "askHowMany"})).await.ok();
        let waiting = async || {
            let begun = json!({"tool": "askHowMany", "input": {}, "wait": 0});
            let begun = world.send(&owner, "POST", "/api/v1/calls", begun).await.body;
            assert_eq!(begun["status"], "running", "{begun:#}");
            loop {
                let open = world.get(&owner, "/api/v1/inputs?state=open").await.ok();
                if let Some(asked) = open["items"].as_array().unwrap().first() {
                    return (begun, asked["id"].as_str().unwrap().to_owned(), asked["run_id"].clone());
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        // Nobody takes it for lost, however long people think.
        let (begun, question, run) = waiting().await;
        world.clock.advance(3600);
        world.app.engine.start(false).await.unwrap();
        let answer = json!({"answer": {"n": 3}});
        world.send(&owner, "POST", &format!("/api/v1/inputs/{question}/answer"), answer).await.ok();
        let done = ended(&world, &begun).await;
        assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!({"n": 3})), "{done:#}");
        assert_eq!(over(&world, &owner, &run).await["state"], "completed");

        let (begun, _, run) = waiting().await;
        let path = format!("/api/v1/calls/{}/cancel", begun["id"].as_str().unwrap());
        world.send(&owner, "POST", &path, json!({})).await.ok();
        let cancelled = ended(&world, &begun).await;
        assert_eq!(cancelled["error"]["details"]["reason"], "cancelled", "{cancelled:#}");
        assert_eq!(over(&world, &owner, &run).await["state"], "cancelled");

        let (begun, _, run) = waiting().await;
        let path = format!("/api/v1/runs/{}/state", run.as_str().unwrap());
        world.send(&owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        let cancelled = ended(&world, &begun).await;
        assert_eq!(cancelled["error"]["details"]["reason"], "cancelled", "{cancelled:#}");

        // A node that fails is told as the call's error, with its place.
        let mut failing = calling("fails", "calculator");
        failing["nodes"][1].as_object_mut().unwrap().remove("on_error");
        failing["nodes"][1]["config"]["input"] = json!({"expression": "1 / 0"});
        failing["edges"] = json!([failing["edges"][1]]);
        failing["edges"][0]["from"]["path"] = json!("/result");
        save(&world, &owner, &failing).await.ok();
        publish(&world, "fails", json!({})).await.ok();
        let failed = call(&world, &owner, "fails", json!({"text": "x"})).await;
        let (code, node) = (&failed["error"]["code"], &failed["error"]["details"]["node"]);
        assert_eq!((code, node), (&json!("VALIDATION_ERROR"), &json!("say")), "{failed:#}");
        assert!(failed["error"]["details"]["run_id"].is_string(), "{failed:#}");
        let direct = run_of(&world, "fails").await;
        assert_eq!(direct["state"], "failed", "{direct:#}");
        stop.cancel();
    })
    .await;
}

async fn run_of(world: &World, name: &str) -> Value {
    run(world, &As::Owner, name, json!({"text": "x"})).await
}
