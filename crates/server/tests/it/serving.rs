//! The protocol's endpoint held to its bounds: groups, batches, streams whose reader lost the right, output as it comes.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, header};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::mcp::{BOTH, Modern, Older, STATELESS, call_of, member, post, with_meta};
use crate::world::{As, World, every_world, tool};

fn key(who: &As) -> &str {
    let As::Key(key) = who else { panic!("no key") };
    key
}

/// A stream of what is told to whoever listens.
pub async fn listening(world: &World, who: &As, wanted: Value) -> BodyDataStream {
    let params = with_meta(json!({"notifications": wanted}), &json!({}));
    let body = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    let request = Request::post("/mcp")
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, BOTH)
        .header("mcp-protocol-version", STATELESS)
        .header("mcp-method", "subscriptions/listen")
        .header(header::AUTHORIZATION, format!("Bearer {}", key(who)))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    world.router().oneshot(request).await.unwrap().into_body().into_data_stream()
}

async fn older_stream(world: &World, who: &As) -> axum::response::Response {
    let older = Older::begin(world, who, "2025-11-25", json!({})).await;
    let [(name, session), _] = older.headers();
    let request = Request::get("/mcp")
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, "text/event-stream")
        .header(header::AUTHORIZATION, format!("Bearer {}", key(who)))
        .header(name, session)
        .body(Body::empty())
        .unwrap();
    world.router().oneshot(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_tools_is_all_that_its_address_shows() {
    every_world(async |world| {
        let who = member(&world).await;
        world
            .register(
                &As::Owner,
                tool("webRecord", json!({"group": "web", "egress_class": "write", "runner": {"kind": "external"}})),
            )
            .await
            .ok();
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let client = Modern::new(&who).can(tasks);
        let group = client.at("/mcp/web");
        let id_of = |said: &crate::mcp::Said| said.result()["taskId"].as_str().unwrap().to_owned();
        let within = id_of(&client.call(&world, "webRecord", json!({"id": "1"})).await);
        let outside = id_of(&client.call(&world, "write_file", json!({"path": "a.txt", "text": "x"})).await);
        let lone = client.call(&world, "calculator", json!({"expression": "1"})).await;
        let lone = call_of(lone.result()).to_owned();
        let read =
            async |client: &Modern, uri: String| client.send(&world, "resources/read", json!({"uri": uri})).await;
        for kind in ["calls", "runs"] {
            read(&client, format!("toolgate://{kind}/{lone}")).await.result();
            for id in [&lone, &outside] {
                read(&group, format!("toolgate://{kind}/{id}")).await.refused(200, -32602);
            }
            read(&group, format!("toolgate://{kind}/{within}")).await.result();
        }
        let task = async |client: &Modern, method: &str, id: &str| {
            client.send(&world, method, json!({"taskId": id, "inputResponses": {}})).await
        };
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            task(&group, method, &outside).await.refused(200, -32602);
        }
        assert_eq!(task(&client, "tasks/get", &outside).await.result()["status"], "working");
        assert_eq!(task(&group, "tasks/get", &within).await.result()["status"], "working");
        let about = json!({"type": "ref/resource", "uri": "toolgate://calls/{id}"});
        let params = json!({"ref": about, "argument": {"name": "id", "value": ""}});
        let said = group.send(&world, "completion/complete", params).await;
        assert_eq!(said.result()["completion"]["values"], json!([within]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_searches_instead_of_reading_has_what_it_takes() {
    every_world(async |world| {
        let agent = json!({"name": "desk", "toolset": "assigned", "instructions": "Help.", "model": "scripted/one", "workspace": "main"});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/desk/tools/calculator", json!({})).await.ok();
        // As the documents say: the owner of the data folder makes both.
        let made = world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": "my-client"})).await.ok();
        let client = Modern::new(&As::Key(made["secret"].as_str().unwrap().to_owned()));
        let desk = client.at("/mcp/desk?catalog=search");
        let shown = desk.send(&world, "tools/list", json!({})).await;
        let shown: Vec<&str> =
            shown.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(shown, ["call_tool", "describeTool", "searchTools"]);
        let found = async |client: &Modern, query: &str| {
            let said = client.call(&world, "searchTools", json!({"query": query})).await;
            let tools = said.result()["structuredContent"]["tools"].as_array().unwrap().clone();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&desk, "arithmetic expression").await, ["calculator"]);
        assert!(!found(&desk, "what time is it now").await.contains(&"now".to_owned()), "only what the agent has");
        let described = desk.call(&world, "describeTool", json!({"name": "calculator"})).await;
        assert!(described.result()["structuredContent"]["input_schema"].is_object(), "{:#}", described.answer());
        for (name, arguments) in
            [("describeTool", json!({"name": "now"})), ("searchTools", json!({"query": ""})), ("searchTools", json!({}))]
        {
            assert_eq!(desk.call(&world, name, arguments).await.result()["isError"], true, "{name}");
        }
        let inner = json!({"name": "calculator", "arguments": {"expression": "6*7"}});
        assert_eq!(desk.call(&world, "call_tool", inner).await.result()["structuredContent"], json!({"result": 42}));
        // Of a group nothing beside it is found either.
        assert!(found(&client.at("/mcp?catalog=search"), "what time is it now").await.contains(&"now".to_owned()));
        assert!(!found(&client.at("/mcp/web?catalog=search"), "what time is it now").await.contains(&"now".to_owned()));
        // The tools of these names leave no files behind.
        let said = client.call(&world, "searchTools", json!({"query": "calculator"})).await;
        let kinds: Vec<&Value> = said.result()["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["text"], "{:#}", said.answer());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_tasks_has_one_when_patience_ends() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Modern::new(&who).can(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
        // The clock stands, so it waits for ever.
        let created = client.call(&world, "wait", json!({"seconds": 60})).await;
        let task = created.result();
        assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task:#}");
        client.send(&world, "tasks/cancel", json!({"taskId": task["taskId"]})).await.result();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_done_in_its_order_and_within_one_bound() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Older::begin(&world, &who, "2025-03-26", json!({})).await;
        let call = |id: usize, name: &str, arguments: Value| {
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        };
        let batch = json!([call(1, "calculator", json!({"expression": "1"})), call(2, "now", json!({})), {"id": 3}]);
        let said = post(&world, &who, "/mcp", &client.headers(), &batch).await;
        let ids: Vec<&Value> = said.answer().as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&json!(3), &json!(1), &json!(2)]);
        let large = client.send(&world, "tools/call", json!({"name": "echo", "arguments": {"text": "x".repeat(90_000)}})).await;
        let uri = format!("toolgate://calls/{}", call_of(large.result()));
        let read = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": uri}});
        let batch: Vec<Value> = (0..100).map(read).collect();
        let said = post(&world, &who, "/mcp", &client.headers(), &json!(batch)).await;
        let answers = said.answer().as_array().unwrap();
        let done = answers.iter().take_while(|answer| answer.get("result").is_some()).count();
        assert!(done > 1 && done < 100, "{done}");
        let rest = answers.iter().skip(done);
        assert!(rest.clone().all(|answer| answer["error"]["message"].as_str().unwrap().contains("batch")));
        assert_eq!(rest.count(), 100 - done, "each is answered");
        let many: Vec<Value> = (0..101).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).collect();
        post(&world, &who, "/mcp", &client.headers(), &json!(many)).await.refused(400, -32600);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_when_its_reader_may_not_listen_any_more() {
    every_world(async |world| {
        let who = member(&world).await;
        let mut newer = listening(&world, &who, json!({"toolsListChanged": true})).await;
        let mut older = older_stream(&world, &who).await.into_body().into_data_stream();
        newer.next().await.unwrap().unwrap();
        let keys = world.get(&As::Owner, "/api/v1/keys?limit=100").await.ok();
        let theirs = keys["items"].as_array().unwrap().iter().find(|one| one["name"] == "ada-key").unwrap();
        let path = format!("/api/v1/keys/{}", theirs["id"].as_str().unwrap());
        world.send(&As::Owner, "DELETE", &path, Value::Null).await.ok();
        let ended = async |stream: &mut BodyDataStream| while stream.next().await.is_some() {};
        let both = async { tokio::join!(ended(&mut newer), ended(&mut older)) };
        tokio::time::timeout(Duration::from_mins(1), both).await.expect("the streams end");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_told_on_the_request_s_stream_to_whoever_asked_for_it() {
    every_world(async |world| {
        let admin = world.user("default", "boss", &["admin"]).await;
        world.send(&admin, "POST", "/api/v1/users", json!({"name": "bot", "kind": "service"})).await.ok();
        let key = async |key: Value| {
            let key = world.send(&admin, "POST", "/api/v1/keys", key).await.ok();
            As::Key(key["secret"].as_str().unwrap().to_owned())
        };
        let worker = key(json!({"name": "bot", "owner": "bot", "scopes": ["service"]})).await;
        let definition = tool("slowRecord", json!({"runner": {"kind": "external"}, "egress_class": "write", "risk": "sensitive"}));
        world.register(&As::Owner, definition).await.ok();
        world.send(&admin, "POST", "/api/v1/agents", json!({"name": "desk", "toolset": "assigned"})).await.ok();
        world.send(&admin, "PUT", "/api/v1/agents/desk/tools/slowRecord", json!({})).await.ok();
        let who = key(json!({"name": "desk", "agent": "desk", "scopes": ["tools:execute", "calls.read.own"]})).await;
        // So that nobody has to be asked; whoever answers for the agent does not decide on its calls.
        let chief = world.user("default", "chief", &["admin"]).await;
        let often = json!({"tool": "slowRecord", "agent": "desk", "constraints": [{"pointer": "/id", "const": "1"}], "reason": "often"});
        world.send(&chief, "POST", "/api/v1/grants", often).await.ok();
        let work = async || {
            let lease = json!({"tools": ["slowRecord"], "wait": 10});
            let leased = world.send(&worker, "POST", "/api/v1/work/lease", lease).await;
            let Some(lease) = leased.body["lease_id"].as_str() else { return false };
            for line in ["first\n", "second\n"] {
                let path = format!("/api/v1/work/{lease}/heartbeat");
                world.send(&worker, "POST", &path, json!({"output": line})).await.ok();
            }
            let report = json!({"status": "completed", "output": {"title": "done"}});
            world.send(&worker, "POST", &format!("/api/v1/work/{lease}/complete"), report).await.ok();
            true
        };
        let params = |level: Option<&str>| {
            let mut params = json!({"name": "slowRecord", "arguments": {"id": "1"}});
            if let Some(level) = level {
                params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
            }
            params
        };
        let told = |said: &crate::mcp::Said| -> Vec<Value> {
            let logs = said.messages.iter().filter(|message| message["method"] == "notifications/message");
            logs.map(|message| message["params"].clone()).collect()
        };
        let client = Modern::new(&who);
        for (level, heard) in [(Some("debug"), true), (Some("info"), true), (Some("warning"), false), (None, false)] {
            let (said, worked) = tokio::join!(client.send(&world, "tools/call", params(level)), work());
            assert!(worked, "{:#}", said.answer());
            assert_eq!(said.result()["structuredContent"]["title"], "done", "{:#}", said.answer());
            let logs = told(&said);
            let text: String = logs.iter().map(|log| log["data"].as_str().unwrap()).collect();
            assert_eq!(text, if heard { "first\nsecond\n" } else { "" }, "{level:?}");
            assert!(logs.iter().all(|log| log["level"] == "info" && log["logger"] == "slowRecord"), "{logs:?}");
        }
        client.send(&world, "tools/call", params(Some("loud"))).await.refused(400, -32602);
        client.send(&world, "logging/setLevel", json!({"level": "info"})).await.refused(404, -32601);
        let older = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        let other = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        assert_eq!(older.send(&world, "logging/setLevel", json!({"level": "info"})).await.result(), &json!({}));
        older.send(&world, "logging/setLevel", json!({"level": "loud"})).await.refused(200, -32602);
        for (client, heard) in [(&older, true), (&other, false)] {
            let (said, worked) = tokio::join!(client.send(&world, "tools/call", params(None)), work());
            assert!(worked, "{:#}", said.answer());
            assert_eq!(!told(&said).is_empty(), heard, "{:?}", said.messages);
        }
    })
    .await;
}
