//! The protocol of agents' tools at its endpoint: what each revision says and is answered, who is let in, and calls that
//! wait for a person.

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;
use tower::ServiceExt as _;

use crate::world::{As, World, every_world, tool, two_replicas};

pub const OLDER: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
pub const STATELESS: &str = "2026-07-28";
pub const BOTH: &str = "application/json, text/event-stream";

/// A client that says everything in each request.
#[derive(Clone)]
pub struct Modern {
    who: As,
    path: String,
    capabilities: Value,
}

pub struct Said {
    pub status: u16,
    pub headers: HeaderMap,
    /// One for JSON, several for a stream; the answer is the last.
    pub messages: Vec<Value>,
}

impl Said {
    #[track_caller]
    pub fn answer(&self) -> &Value {
        self.messages.last().unwrap_or_else(|| panic!("{} without a body", self.status))
    }

    #[track_caller]
    pub fn result(&self) -> &Value {
        let answer = self.answer();
        assert!(answer.get("result").is_some(), "{} {answer:#}", self.status);
        &answer["result"]
    }

    #[track_caller]
    pub fn refused(&self, status: u16, code: i64) {
        let answer = self.answer();
        assert_eq!((self.status, &answer["error"]["code"]), (status, &json!(code)), "{answer:#}");
    }
}

pub async fn post(world: &World, who: &As, path: &str, headers: &[(&str, &str)], body: &Value) -> Said {
    let mut request = Request::post(path).header(header::HOST, "localhost").header(header::ACCEPT, BOTH);
    request = match who {
        As::Key(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
        As::Cookie(cookie) => request.header(header::COOKIE, cookie).header("sec-fetch-site", "same-origin"),
        _ => request,
    };
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap();
    said(world.router().oneshot(request).await.unwrap()).await
}

pub async fn said(response: axum::response::Response) -> Said {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let is_stream = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let messages = if is_stream {
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    } else {
        serde_json::from_str(&text).into_iter().collect()
    };
    Said { status: parts.status.as_u16(), headers: parts.headers, messages }
}

pub fn with_meta(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = STATELESS.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "a test", "version": "1"});
    params
}

impl Modern {
    pub fn new(who: &As) -> Self {
        Self { who: who.clone(), path: "/mcp".to_owned(), capabilities: json!({}) }
    }

    pub fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    pub fn can(&self, capabilities: Value) -> Self {
        Self { capabilities, ..self.clone() }
    }

    pub async fn send(&self, world: &World, method: &str, params: Value) -> Said {
        self.send_as(world, 1, method, params).await
    }

    pub async fn send_as(&self, world: &World, id: i64, method: &str, params: Value) -> Said {
        let body =
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": with_meta(params, &self.capabilities)});
        let mut headers = vec![("mcp-protocol-version", STATELESS), ("mcp-method", method)];
        let name = ["name", "uri", "taskId"].iter().find_map(|member| body["params"].get(*member)?.as_str());
        headers.extend(name.map(|name| ("mcp-name", name)));
        post(world, &self.who, &self.path, &headers, &body).await
    }

    pub async fn call(&self, world: &World, name: &str, arguments: Value) -> Said {
        self.send(world, "tools/call", json!({"name": name, "arguments": arguments})).await
    }
}

/// A client that begins with a handshake.
pub struct Older {
    who: As,
    revision: &'static str,
    session: String,
}

impl Older {
    pub async fn begin(world: &World, who: &As, revision: &'static str, capabilities: Value) -> Self {
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "old", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let said = post(world, who, "/mcp", &[], &body).await;
        assert_eq!(said.result()["protocolVersion"], revision, "{:#}", said.answer());
        let session = said.headers["mcp-session-id"].to_str().unwrap().to_owned();
        Self { who: who.clone(), revision, session }
    }

    pub fn headers(&self) -> [(&str, &str); 2] {
        [("mcp-session-id", &self.session), ("mcp-protocol-version", self.revision)]
    }

    pub async fn send(&self, world: &World, method: &str, params: Value) -> Said {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(world, &self.who, "/mcp", &self.headers(), &body).await
    }
}

pub async fn member(world: &World) -> As {
    world.user("default", "ada", &["member"]).await
}

async fn approve(world: &World, call: &str) {
    let path = format!("/api/v1/approvals/{call}/decide?wait=20");
    world.send(&As::Owner, "POST", &path, json!({"decision": "approve"})).await.ok();
}

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

pub fn call_of(result: &Value) -> &str {
    result["_meta"]["dev.toolgate/call"]["id"].as_str().unwrap_or_else(|| panic!("{result:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stateless_revision_says_what_it_can_lists_and_calls() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Modern::new(&who);
        let discovered = client.send(&world, "server/discover", json!({})).await;
        let result = discovered.result();
        assert_eq!(result["supportedVersions"], json!([STATELESS]));
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolgate");

        let listed = client.send(&world, "tools/list", json!({})).await;
        let mut rest: Vec<String> = world.names(&who, "").await.iter().map(|name| name.replace('.', "__")).collect();
        rest.sort();
        let mut shown = names(listed.result());
        shown.sort_unstable();
        assert_eq!(shown, rest, "a list shows exactly what REST shows");
        assert_eq!(listed.result()["ttlMs"], 0);
        let calculator = &listed.result()["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == "calculator")
            .unwrap()
            .clone();
        assert!(calculator["title"].is_string() && calculator["outputSchema"].is_object(), "{calculator:#}");
        assert_eq!(calculator["annotations"]["readOnlyHint"], true, "{calculator:#}");

        for tool in listed.result()["tools"].as_array().unwrap() {
            let icon = tool["icons"][0]["src"].as_str().unwrap_or_else(|| panic!("no icon of {}", tool["name"]));
            assert!(icon.starts_with("data:image/"), "{icon}");
        }
        let older = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        let listed_older = older.send(&world, "tools/list", json!({})).await;
        assert!(listed_older.result()["tools"].as_array().unwrap().iter().all(|tool| tool.get("icons").is_none()));

        let called = client.call(&world, "calculator", json!({"expression": "6*7"})).await;
        let result = called.result();
        assert_eq!((called.status, &result["isError"]), (200, &json!(false)), "{result:#}");
        assert_eq!(
            serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(),
            result["structuredContent"]
        );
        let recorded = world.get(&who, &format!("/api/v1/calls/{}", call_of(result))).await.ok();
        assert_eq!(
            (&recorded["source"], &recorded["metadata"]["mcp_client"]["name"]),
            (&json!("mcp"), &json!("a test"))
        );

        // Every name that is listed is one that can be called.
        for name in names(listed.result()) {
            let said = client.call(&world, name, json!({"nothing": "such"})).await;
            assert!(said.answer().get("result").is_some(), "{name}: {:#}", said.answer());
        }

        // What a model can correct is a result; what names nothing is an error.
        let wrong = client.call(&world, "calculator", json!({"expresion": "1"})).await;
        assert_eq!(wrong.result()["isError"], true);
        assert!(
            wrong.result()["content"][0]["text"].as_str().unwrap().starts_with("VALIDATION_ERROR"),
            "{:#}",
            wrong.result()
        );
        client.call(&world, "nothing_such", json!({})).await.refused(200, -32602);
        client.call(&world, "calculator", json!([1])).await.refused(200, -32602);
        client.send(&world, "ping", json!({})).await.refused(404, -32601);
        client.send(&world, "tools/list", json!({"cursor": "%"})).await.refused(200, -32602);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_bodies_that_disagree_are_refused() {
    every_world(async |world| {
        let who = member(&world).await;
        let body = |params: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let whole = with_meta(json!({"name": "calculator", "arguments": {"expression": "1"}}), &json!({}));
        let right = [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/call"), ("mcp-name", "calculator")];
        let said = post(&world, &who, "/mcp", &right, &body(whole.clone())).await;
        assert_eq!(said.result()["isError"], false);
        for (name, value) in
            [("mcp-method", "tools/list"), ("mcp-name", "echo"), ("mcp-protocol-version", "2025-11-25")]
        {
            let wrong = right.map(|(header, before)| (header, if header == name { value } else { before }));
            let said = post(&world, &who, "/mcp", &wrong, &body(whole.clone())).await;
            said.refused(400, -32020);
            assert_eq!(said.answer()["id"], 7);
        }
        post(&world, &who, "/mcp", &right[..1], &body(whole.clone())).await.refused(400, -32020);
        let twice = [right[0], right[1], right[2], ("mcp-name", "calculator")];
        post(&world, &who, "/mcp", &twice, &body(whole.clone())).await.refused(400, -32020);
        let mut unknown = whole.clone();
        unknown["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01".into();
        post(&world, &who, "/mcp", &right, &body(unknown.clone())).await.refused(400, -32020);
        let newer = [("mcp-protocol-version", "2031-01-01"), right[1], right[2]];
        let said = post(&world, &who, "/mcp", &newer, &body(unknown)).await;
        said.refused(400, -32022);
        assert_eq!(said.answer()["error"]["data"], json!({"supported": [STATELESS], "requested": "2031-01-01"}));
        let bare = json!({"name": "calculator", "arguments": {}});
        post(&world, &who, "/mcp", &right, &body(bare)).await.refused(400, -32602);
        for unreadable in ["", "{", "[1", "{\"a\":1,\"a\":2}", "nothing"] {
            let request = Request::post("/mcp")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json");
            let As::Key(key) = &who else { panic!() };
            let request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
            let request = request.body(Body::from(unreadable)).unwrap();
            said_of(world.router().oneshot(request).await.unwrap(), 400, -32700).await;
        }
    })
    .await;
}

async fn said_of(response: axum::response::Response, status: u16, code: i64) {
    said(response).await.refused(status, code);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_clients_shake_hands_and_no_replica_has_to_remember_them() {
    every_world(async |world| {
        let who = member(&world).await;
        for revision in OLDER {
            let client = Older::begin(&world, &who, revision, json!({})).await;
            let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(post(&world, &who, "/mcp", &client.headers(), &told).await.status, 202);
            assert_eq!(client.send(&world, "ping", json!({})).await.result(), &json!({}));
            let listed = client.send(&world, "tools/list", json!({})).await;
            let first = &listed.result()["tools"][0];
            assert_eq!(first.get("title").is_some(), revision != "2025-03-26", "{revision}: {first:#}");
            assert!(listed.result().get("resultType").is_none() && listed.result().get("ttlMs").is_none());
            let called = client.send(&world, "tools/call", json!({"name": "calculator", "arguments": {"expression": "2+2"}})).await;
            assert_eq!(called.result().get("structuredContent").is_some(), revision != "2025-03-26", "{revision}");
            let batch = json!([
                {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "now", "arguments": {}}},
            ]);
            let said = post(&world, &who, "/mcp", &client.headers(), &batch).await;
            if revision == "2025-03-26" {
                let answers = said.answer().as_array().unwrap();
                let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
                assert_eq!(ids, [&json!(1), &json!("b")]);
            } else {
                said.refused(400, -32600);
            }
        }
        // What is not spoken here is answered with what is; one that knows no handshake too.
        for asked in ["2024-11-05", "1999-01-01", STATELESS] {
            let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            assert_eq!(post(&world, &who, "/mcp", &[], &body).await.result()["protocolVersion"], "2025-11-25", "{asked}");
        }
        // A session is its beginner's; another's, a changed one and none look alike.
        let client = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        let other = world.user("default", "eve", &["member"]).await;
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        post(&world, &other, "/mcp", &client.headers(), &ping).await.refused(404, -32600);
        post(&world, &who, "/mcp", &[("mcp-session-id", "AAAA")], &ping).await.refused(404, -32600);
        assert_eq!(post(&world, &who, "/mcp", &[], &ping).await.result(), &json!({}));
        post(&world, &who, "/mcp", &[("mcp-protocol-version", "2031-01-01")], &ping).await.refused(400, -32022);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_decides_comes_from_a_page_or_shows_nothing_is_not_let_in() {
    every_world(async |world| {
        let who = member(&world).await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let nobody = post(&world, &As::Nobody, "/mcp", &[], &list).await;
        assert_eq!(nobody.status, 401);
        let challenge = nobody.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp\""), "{challenge}");
        assert_eq!(post(&world, &As::Cookie("tg=x".to_owned()), "/mcp", &[], &list).await.status, 401);
        assert_eq!(post(&world, &As::Key("tg_x".to_owned()), "/mcp", &[], &list).await.status, 401);
        let approver = world.user("default", "ben", &["approver"]).await;
        let refused = post(&world, &approver, "/mcp", &[], &list).await;
        assert_eq!(refused.status, 403);
        assert!(refused.answer()["remedy"].as_str().unwrap().contains("toolgate key create"), "{:#}", refused.answer());
        for origin in ["https://evil.test", "null", "http://localhost.evil.test"] {
            assert_eq!(post(&world, &who, "/mcp", &[("origin", origin)], &list).await.status, 403, "{origin}");
        }
        assert_eq!(post(&world, &who, "/mcp", &[("sec-fetch-site", "cross-site")], &list).await.status, 403);
        let get = Request::get("/mcp").header(header::HOST, "localhost").header(header::ACCEPT, "text/event-stream");
        let As::Key(key) = &who else { panic!() };
        let get = get.header(header::AUTHORIZATION, format!("Bearer {key}")).body(Body::empty()).unwrap();
        assert_eq!(world.router().oneshot(get).await.unwrap().status(), 405, "a GET without a session is not here");
        for (method, path) in [("DELETE", "/mcp"), ("PUT", "/mcp"), ("DELETE", "/mcp/web")] {
            let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
            let response = world.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()[header::ALLOW]),
                (405, &"POST".parse().unwrap())
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_at_the_end_narrows_and_never_widens() {
    every_world(async |world| {
        let who = world.user("default", "ada", &["author"]).await;
        let agent = json!({"name": "desk", "toolset": "assigned", "instructions": "Help.", "model": "scripted/one", "workspace": "main"});
        world.send(&who, "POST", "/api/v1/agents", agent).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/desk/tools/calculator", json!({})).await.ok();
        let client = Modern::new(&who);
        let desk = client.at("/mcp/desk");
        assert_eq!(names(desk.send(&world, "tools/list", json!({})).await.result()), ["calculator"]);
        assert_eq!(desk.call(&world, "calculator", json!({"expression": "1"})).await.result()["isError"], false);
        desk.call(&world, "now", json!({})).await.refused(200, -32602);
        let nobody = client.at("/mcp/nobody").send(&world, "tools/list", json!({})).await;
        assert_eq!(nobody.status, 404);
        assert!(nobody.answer()["remedy"].as_str().unwrap().contains("`toolgate agent list`"), "{:#}", nobody.answer());
        let other = world.user("default", "eve", &["member"]).await;
        assert_eq!(Modern::new(&other).at("/mcp/desk").send(&world, "tools/list", json!({})).await.status, 404, "another's agent");
        let found = client.at("/mcp?catalog=search");
        assert_eq!(names(found.send(&world, "tools/list", json!({})).await.result()), ["call_tool", "describeTool", "searchTools"]);
        let inner = json!({"name": "calculator", "arguments": {"expression": "6*7"}});
        let called = found.call(&world, "call_tool", inner.clone()).await;
        assert_eq!(called.result()["structuredContent"], json!({"result": 42}), "{:#}", called.answer());
        let recorded = world.get(&who, &format!("/api/v1/calls/{}", call_of(called.result()))).await.ok();
        assert_eq!(recorded["name"], "calculator", "the inner tool is what was called");
        client.call(&world, "call_tool", inner).await.refused(200, -32602);
        assert_eq!(client.at("/mcp?key=tg_x").send(&world, "tools/list", json!({})).await.status, 400);
    })
    .await;
}

const WRITE: &str = "write_file";

fn file(name: &str) -> Value {
    json!({"path": name, "text": "hello"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_opens_addresses_is_sent_to_the_page_and_comes_back_for_the_result() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Modern::new(&who).can(json!({"elicitation": {"url": {}}}));
        let asked = client.call(&world, WRITE, file("a.txt")).await;
        let asked = asked.result();
        assert_eq!(asked["resultType"], "input_required", "{asked:#}");
        let question = &asked["inputRequests"]["approval"];
        assert_eq!((&question["method"], &question["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
        let url = question["params"]["url"].as_str().unwrap();
        let call = url.rsplit_once("/calls/").unwrap().1.to_owned();
        assert!(!url.contains(asked["requestState"].as_str().unwrap()), "the address holds no state");
        let state = asked["requestState"].clone();
        let again = |name: &str, state: Value| {
            json!({"name": WRITE, "arguments": file(name), "requestState": state,
                "inputResponses": {"approval": {"action": "accept"}}})
        };
        // What a client says is no decision: nothing has happened, and it is asked again.
        let undecided = client.send(&world, "tools/call", again("a.txt", state.clone())).await;
        assert_eq!(undecided.result()["resultType"], "input_required", "{:#}", undecided.result());
        let row = world.get(&who, &format!("/api/v1/calls/{call}")).await.ok();
        assert_eq!(row["status"], "pending");
        // A state is its client's, for the call that it was given out for, and unchanged.
        client.send(&world, "tools/call", again("b.txt", state.clone())).await.refused(200, -32602);
        let other = world.user("default", "eve", &["member"]).await;
        let eve = Modern::new(&other).can(json!({"elicitation": {"url": {}}}));
        eve.send(&world, "tools/call", again("a.txt", state.clone())).await.refused(200, -32602);
        let mut changed = state.as_str().unwrap().to_owned();
        changed.replace_range(10..11, if &changed[10..11] == "A" { "B" } else { "A" });
        client.send(&world, "tools/call", again("a.txt", json!(changed))).await.refused(200, -32602);

        approve(&world, &call).await;
        let done = client.send(&world, "tools/call", again("a.txt", state.clone())).await;
        assert_eq!(
            (&done.result()["isError"], call_of(done.result())),
            (&json!(false), call.as_str()),
            "{:#}",
            done.result()
        );
        // Any state of the call tells from now on how it ended, without its result, and nothing happens twice.
        for state in [state, undecided.result()["requestState"].clone()] {
            let replayed = client.send(&world, "tools/call", again("a.txt", state)).await;
            let replayed = replayed.result();
            assert_eq!((call_of(replayed), &replayed["isError"]), (call.as_str(), &json!(true)), "{replayed:#}");
            assert_eq!(replayed["_meta"]["dev.toolgate/call"]["status"], "completed");
            let text = replayed["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("delivered:") && text.contains(&format!("toolgate://calls/{call}")), "{text}");
            assert!(replayed.get("structuredContent").is_none(), "{replayed:#}");
        }
        let calls = world.get(&who, "/api/v1/calls?tool=write_file").await.ok();
        assert_eq!(calls["items"].as_array().unwrap().len(), 1, "{calls:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_spent_for_every_replica() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let ([first, second], _folders) = two_replicas(&database).await;
    let worlds = [World::of(first), World::of(second)];
    let who = member(&worlds[0]).await;
    worlds[1].app.registry.refresh().await.unwrap();
    let client = Modern::new(&who).can(json!({"elicitation": {"url": {}}}));
    let asked = client.call(&worlds[0], WRITE, file("a.txt")).await;
    let url = asked.result()["inputRequests"]["approval"]["params"]["url"].as_str().unwrap();
    approve(&worlds[0], url.rsplit_once("/calls/").unwrap().1).await;
    let again = json!({"name": WRITE, "arguments": file("a.txt"), "requestState": asked.result()["requestState"]});
    let resumed = async |world: &World| client.send(world, "tools/call", again.clone()).await;
    let (left, right) = tokio::join!(resumed(&worlds[0]), resumed(&worlds[1]));
    let handed_over = [&left, &right].iter().filter(|said| said.result()["isError"] == false).count();
    assert_eq!(handed_over, 1, "{:#} {:#}", left.answer(), right.answer());
    for world in worlds {
        assert_eq!(resumed(&world).await.result()["isError"], true);
        world.app.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_want_to_look_is_told_pending_at_once() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Modern::new(&who).can(json!({"elicitation": {"url": {}}}));
        for (action, name) in [("decline", "a.txt"), ("cancel", "b.txt")] {
            let asked = client.call(&world, WRITE, file(name)).await;
            let again = json!({"name": WRITE, "arguments": file(name), "requestState": asked.result()["requestState"],
                "inputResponses": {"approval": {"action": action}}});
            let declined = client.send(&world, "tools/call", again.clone()).await;
            let declined = declined.result();
            assert_eq!(declined["_meta"]["dev.toolgate/pending"]["reason"], "approval_pending", "{declined:#}");
            // It decides nothing: the result is there for whoever comes back.
            approve(&world, call_of(declined)).await;
            assert_eq!(client.send(&world, "tools/call", again).await.result()["isError"], false);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_no_better_way_is_told_pending_and_the_same_again_attaches_once() {
    every_world(async |world| {
        let who = member(&world).await;
        let clients = [Modern::new(&who), Modern::new(&who).can(json!({"elicitation": {"form": {}}}))];
        let first = clients[0].call(&world, WRITE, file("a.txt")).await;
        let pending = first.result().clone();
        assert_eq!(pending["isError"], true);
        let text = pending["content"][0]["text"].as_str().unwrap();
        let call = call_of(&pending).to_owned();
        assert!(text.starts_with("pending:") && text.contains(&format!("/calls/{call}")), "{text}");
        for client in &clients {
            let again = client.call(&world, WRITE, file("a.txt")).await;
            assert_eq!(call_of(again.result()), call, "it is not asked about twice");
        }
        let another = clients[0].call(&world, WRITE, file("b.txt")).await;
        assert_ne!(call_of(another.result()), call);
        approve(&world, &call).await;
        let done = clients[0].call(&world, WRITE, file("a.txt")).await;
        assert_eq!(
            (&done.result()["isError"], call_of(done.result())),
            (&json!(false), call.as_str()),
            "{:#}",
            done.result()
        );
        let anew = clients[0].call(&world, WRITE, file("a.txt")).await;
        assert_ne!(call_of(anew.result()), call, "delivered once, then it begins anew");
        // Another's pending call is nobody else's.
        let other = world.user("default", "eve", &["member"]).await;
        let eve = Modern::new(&other).call(&world, WRITE, file("b.txt")).await;
        assert_ne!(call_of(eve.result()), call_of(another.result()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_tasks_gets_one_that_any_replica_knows() {
    every_world(async |world| {
        let who = member(&world).await;
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let client = Modern::new(&who).can(tasks.clone());
        let created = client.call(&world, WRITE, file("a.txt")).await;
        let task = created.result();
        assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task:#}");
        let id = task["taskId"].as_str().unwrap().to_owned();
        let get = async |client: &Modern| client.send(&world, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(get(&client).await.result()["status"], "working");
        get(&Modern::new(&who)).await.refused(400, -32021);
        let other = world.user("default", "eve", &["member"]).await;
        get(&Modern::new(&other).can(tasks.clone())).await.refused(200, -32602);
        client.send(&world, "tasks/get", json!({"taskId": "nothing"})).await.refused(200, -32602);
        client.send(&world, "tasks/update", json!({"taskId": id, "inputResponses": {"x": {}}})).await.result();
        assert_eq!(get(&client).await.result()["status"], "working", "what a client answers decides nothing");
        approve(&world, &id).await;
        let done = get(&client).await;
        assert_eq!((&done.result()["status"], &done.result()["resultType"]), (&json!("completed"), &json!("complete")));
        assert_eq!(done.result()["result"]["isError"], false, "{:#}", done.result());
        let second = client.call(&world, WRITE, file("b.txt")).await;
        let second = second.result()["taskId"].as_str().unwrap();
        client.send(&world, "tasks/cancel", json!({"taskId": second})).await.result();
        let cancelled = client.send(&world, "tasks/get", json!({"taskId": second})).await;
        assert_eq!(cancelled.result()["status"], "cancelled");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_client_is_asked_along_its_own_stream() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Older::begin(&world, &who, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
        let params = json!({"name": WRITE, "arguments": file("a.txt")});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let As::Key(key) = &who else { panic!() };
        let mut request = Request::post("/mcp").header(header::HOST, "localhost").header(header::ACCEPT, BOTH);
        for (name, value) in client.headers() {
            request = request.header(name, value);
        }
        let request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        let request =
            request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap();
        let response = world.router().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let mut frames = response.into_body().into_data_stream();
        let mut text = String::new();
        while !text.contains("elicitation/create") {
            text.push_str(std::str::from_utf8(&frames.next().await.unwrap().unwrap()).unwrap());
        }
        let question: Value =
            serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
        let url = question["params"]["url"].as_str().unwrap();
        assert!(question["params"]["elicitationId"].is_string());
        let call = url.rsplit_once("/calls/").unwrap().1.to_owned();
        let decline = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
        // Somebody else's answer goes nowhere.
        let other = world.user("default", "eve", &["member"]).await;
        assert_eq!(post(&world, &other, "/mcp", &[], &decline).await.status, 202);
        assert_eq!(post(&world, &who, "/mcp", &client.headers(), &decline).await.status, 202);
        let mut rest = String::new();
        while let Some(frame) = frames.next().await {
            rest.push_str(std::str::from_utf8(&frame.unwrap()).unwrap());
        }
        let answer: Value =
            serde_json::from_str(rest.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer:#}");
        assert_eq!(call_of(&answer["result"]), call, "a refusal to look decides nothing: it waits on");
        approve(&world, &call).await;
        let done = client.send(&world, "tools/call", params).await;
        assert_eq!((&done.result()["isError"], call_of(done.result())), (&json!(false), call.as_str()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_use_the_same_ids_never_meet() {
    every_world(async |world| {
        let mut users = Vec::new();
        for index in 0..4 {
            users.push(world.user("default", &format!("user{index}"), &["member"]).await);
        }
        let world = &world;
        let each = (0..256usize).map(|index| {
            let client = Modern::new(&users[index % 4]);
            async move {
                let said = client.call(world, "calculator", json!({"expression": format!("{index}+1000000")})).await;
                assert_eq!(said.answer()["id"], 1, "{} {:#}", said.status, said.answer());
                let text = said.result()["content"][0]["text"].as_str().unwrap().to_owned();
                assert!(text.contains(&format!("{}", index + 1_000_000)), "{index}: {text}");
            }
        });
        futures_util::stream::iter(each).buffer_unordered(32).collect::<Vec<()>>().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_hears_that_their_list_changed() {
    every_world(async |world| {
        let who = member(&world).await;
        let As::Key(key) = &who else { panic!() };
        let params =
            with_meta(json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}}), &json!({}));
        let body = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
        let request = Request::post("/mcp")
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, BOTH)
            .header("mcp-protocol-version", STATELESS)
            .header("mcp-method", "subscriptions/listen")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let mut frames = world.router().oneshot(request).await.unwrap().into_body().into_data_stream();
        let mut text = String::new();
        let mut until = async |word: &str, text: &mut String| {
            while !text.contains(word) {
                text.push_str(std::str::from_utf8(&frames.next().await.unwrap().unwrap()).unwrap());
            }
        };
        until("acknowledged", &mut text).await;
        assert!(
            text.contains("toolsListChanged") && !text.contains("resourcesListChanged"),
            "only what is honoured: {text}"
        );
        world
            .register(
                &As::Owner,
                tool("records.read", json!({"runner": {"kind": "external"}, "egress_class": "write"})),
            )
            .await
            .ok();
        until("notifications/tools/list_changed", &mut text).await;
        assert!(text.contains("\"io.modelcontextprotocol/subscriptionId\":\"l\""), "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_calls_and_runs_are_read_by_whoever_may() {
    every_world(async |world| {
        let who = member(&world).await;
        let client = Modern::new(&who);
        let called = client.call(&world, "calculator", json!({"expression": "1+1"})).await;
        let call = call_of(called.result()).to_owned();
        let uri = format!("toolgate://calls/{call}");
        let read = client.send(&world, "resources/read", json!({"uri": uri})).await;
        let text = read.result()["contents"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Map<String, Value>>(text).unwrap()["id"], json!(call));
        assert_eq!(read.result()["cacheScope"], "private");
        let other = Modern::new(&world.user("default", "eve", &["member"]).await);
        for uri in [uri.as_str(), "toolgate://calls/x", "toolgate://nothing/1", "file:///etc/passwd", "toolgate://"] {
            other.send(&world, "resources/read", json!({"uri": uri})).await.refused(200, -32602);
        }
        let older = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        older.send(&world, "resources/read", json!({"uri": "toolgate://calls/x"})).await.refused(200, -32002);
        let templates = client.send(&world, "resources/templates/list", json!({})).await;
        assert_eq!(templates.result()["resourceTemplates"].as_array().unwrap().len(), 3);
    })
    .await;
}
