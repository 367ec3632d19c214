//! What models and their providers can do wrong, at the level of a run: each ends in a recorded outcome that says what it
//! was, within the run's limits. A real provider on loopback says what no script can.

use serde_json::{Value, json};
use toolgate_store::Scope;

use crate::vendor::{Said, Vendor, call, calling, ending, saying, text};
use crate::world::{self, As, World, every_world};

/// In nothing that anybody is told or that is kept in clear.
const KEY: &str = "sk-sentinel-5d1e77c0b2-of-a-provider";

async fn run(world: &World, limits: Value) -> Value {
    let body = json!({"prompt": "Go.", "limits": limits});
    world.send(&As::Owner, "POST", "/api/v1/agents/helper/runs?wait=60", body).await.ok()
}

async fn events(world: &World, run: &Value) -> Vec<(String, Value)> {
    let path = format!("/api/v1/runs/{}/events", run["id"].as_str().unwrap());
    let page = world.get(&As::Owner, &path).await.ok();
    let told = |event: &Value| (event["type"].as_str().unwrap().to_owned(), event["data"].clone());
    page["items"].as_array().unwrap().iter().filter(|event| event["seq"].is_u64()).map(told).collect()
}

/// What became of the run's calls, in their order: what failed by its reason, what went well by its output.
fn became(run: &Value) -> Vec<Value> {
    let of = |id: &Value| &run["outputs"]["tools_by_id"][id.as_str().unwrap()];
    let told = |call: &Value| match &call["error"] {
        Value::Null => call["output"].clone(),
        error => error["details"]["reason"].clone(),
    };
    run["outputs"]["tool_order"].as_array().unwrap().iter().map(|id| told(of(id))).collect()
}

/// The run failed with a question, and its log says so once.
async fn failed_asking(world: &World, name: &str, run: &Value, code: &str, reason: &str) -> Value {
    assert_eq!(run["state"], "failed", "{name}: {run:#}");
    let events = events(world, run).await;
    let failed: Vec<&Value> = events.iter().filter(|(kind, _)| kind == "model.failed").map(|(_, data)| data).collect();
    assert_eq!(failed.len(), 1, "{name}: {events:#?}");
    assert_eq!((&failed[0]["code"], &failed[0]["reason"]), (&json!(code), &json!(reason)), "{name}: {:#}", failed[0]);
    let (last, ended) = events.last().unwrap();
    assert_eq!((last.as_str(), &ended["reason"]), ("run.failed", &json!(reason)), "{name}: {ended:#}");
    assert!(run["reason"].as_str().is_some_and(|why| !why.is_empty()), "{name}: {run:#}");
    failed[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_breaks_off_or_never_ends_fails_the_run_within_its_bounds() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator"]).await;
        let long = text(&"word ".repeat(10_000));
        let half = "data: {\"choices\":[{\"delta\":{\"content\":\"hal".to_owned();
        let begun = call(0, Some("calculator"), "{\"expression\": \"1 +");
        for (name, said) in [
            ("drops within its words", Said::Dropped(vec![text("Let me")])),
            ("drops within an event", Said::Dropped(vec![text("Let me"), half.clone()])),
            ("ends within an event", Said::Events(vec![text("Let me"), half])),
            ("drops within a call", Said::Dropped(vec![begun.clone()])),
            ("ends without an end", Said::Events(vec![text("Let me see."), begun])),
            ("never stops", Said::Endless(long)),
            ("never stops saying nothing", Said::Endless(": nothing\n\n".repeat(5_000))),
            ("never ends an event", Said::Endless("x".repeat(100_000))),
            ("says fifty megabytes", Said::Large(50)),
        ] {
            vendor.says(vec![said]);
            let ended = run(&world, json!({})).await;
            failed_asking(&world, name, &ended, "PROVIDER_ERROR", "interrupted").await;
            assert_eq!(ended["outputs"]["tool_order"], json!([]), "{name}: no call was begun: {ended:#}");
            assert_eq!(vendor.requests().len(), 1, "{name}: what has begun is not asked for again");
        }
        let calls: Vec<(&str, &str)> = vec![("calculator", "{}"); 1025];
        vendor.says(vec![calling(&calls)]);
        let ended = run(&world, json!({})).await;
        failed_asking(&world, "more calls than anybody makes", &ended, "PROVIDER_ERROR", "interrupted").await;
        vendor.says(vec![Said::Events(vec!["data: {\"choices\": 7}\n\n".to_owned(), "data: not JSON\n\n".to_owned()])]);
        let ended = run(&world, json!({})).await;
        failed_asking(&world, "speaks another language", &ended, "PROVIDER_ERROR", "output_schema").await;
    })
    .await;
}

/// Nobody waits here: where a wait is longer than what is left, there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_limits_the_rate_is_given_its_time_or_told_on() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator"]).await;
        vendor.says(vec![Said::Limited(0), Said::Limited(0), saying("Here I am.")]);
        let went = run(&world, json!({})).await;
        assert_eq!(
            (&went["state"], &went["outputs"]["response"]),
            (&json!("completed"), &json!("Here I am.")),
            "{went:#}"
        );
        let told = events(&world, &went).await;
        let (_, completed) = told.iter().find(|(kind, _)| kind == "model.completed").unwrap();
        assert_eq!(completed["tries"], 3, "{completed:#}");
        // Again and again: as often as is tried.
        vendor.says(vec![Said::Limited(0)]);
        let always = run(&world, json!({})).await;
        let failed = failed_asking(&world, "always", &always, "RATE_LIMIT", "upstream").await;
        assert_eq!((vendor.requests().len(), &failed["tries"]), (4, &json!(4)), "{failed:#}");
        assert!(always["reason"].as_str().unwrap().contains("it was asked 4 times"), "{always:#}");
        // For a minute, in a run that has half of one; and for longer than anybody waits.
        for (seconds, limits) in [(60, json!({"max_wall_s": 30})), (61, json!({}))] {
            vendor.says(vec![Said::Limited(seconds)]);
            let ended = run(&world, limits).await;
            let failed = failed_asking(&world, "for a minute", &ended, "RATE_LIMIT", "upstream").await;
            assert_eq!((vendor.requests().len(), &failed["tries"]), (1, &json!(1)), "{failed:#}");
            assert_eq!(failed["retry_after_s"], seconds, "{failed:#}");
            let told = format!("it says to come back in {seconds} s");
            assert!(ended["reason"].as_str().unwrap().contains(&told), "{ended:#}");
            let (_, over) = events(&world, &ended).await.pop().unwrap();
            assert_eq!((&over["retry_after_s"], &over["tries"]), (&json!(seconds), &json!(1)), "{over:#}");
            assert_eq!(ended["model_use"]["turns"], 0, "{ended:#}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_no_answer_says_what_it_is_and_costs_nothing() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", Some(KEY), &["calculator"]).await;
        let page = format!("<!doctype html><title>Sign in</title>{KEY}{}", "x".repeat(9_000));
        for (media, named) in [("text/html; charset=utf-8", "`text/html`"), ("", "no content type")] {
            vendor.says(vec![Said::Page(media, page.clone())]);
            let ended = run(&world, json!({})).await;
            let failed = failed_asking(&world, named, &ended, "PROVIDER_ERROR", "output_schema").await;
            let told = failed["message"].as_str().unwrap();
            assert!(told.contains(named) && told.contains("`base_url`"), "{failed:#}");
            assert!(told.contains("<title>Sign in") && told.len() < 1_000 && !told.contains("sentinel"), "{failed:#}");
            assert_eq!((&ended["model_use"]["turns"], &failed["usage"]), (&json!(0), &Value::Null), "{ended:#}");
            assert_eq!(vendor.requests().len(), 1);
        }
    })
    .await;
}

/// Whoever listens has heard nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_overloaded_behind_its_first_event_is_asked_again() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "anthropic", None, &["calculator"]).await;
        let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
        let start =
            event(json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
            "model": "any", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}));
        let busy = event(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
        let block =
            event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
        let said =
            event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Here."}}));
        let end = [
            event(json!({"type": "content_block_stop", "index": 0})),
            event(
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
            ),
            event(json!({"type": "message_stop"})),
        ]
        .concat();
        let busy_at_once = Said::Events(vec![start.clone(), busy.clone()]);
        vendor.says(vec![busy_at_once, Said::Events(vec![start.clone(), block.clone(), said.clone(), end])]);
        let went = run(&world, json!({})).await;
        assert_eq!((&went["state"], &went["outputs"]["response"]), (&json!("completed"), &json!("Here.")), "{went:#}");
        assert_eq!(vendor.requests().len(), 2);
        vendor.says(vec![Said::Events(vec![start, block, said, busy])]);
        let ended = run(&world, json!({})).await;
        failed_asking(&world, "within its words", &ended, "PROVIDER_ERROR", "upstream_5xx").await;
        assert_eq!(vendor.requests().len(), 1, "what has begun is not asked for again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_no_json_are_told_to_the_model_and_count() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator"]).await;
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let twice = r#"{"expression": "1", "expression": "2"}"#;
        let broken = ["{\"expression\": ", "nonsense", "{'expression': '1'}", "{} {}", twice, deep.as_str(), "\u{0}"];
        let calls: Vec<(&str, &str)> = broken.iter().map(|text| ("calculator", *text)).collect();
        vendor.says(vec![calling(&calls), calling(&[("calculator", "[1]"), ("calculator", "")]), saying("I see.")]);
        let went = run(&world, json!({})).await;
        assert_eq!((&went["state"], &went["outputs"]["response"]), (&json!("completed"), &json!("I see.")), "{went:#}");
        let mut reasons = vec![json!("unreadable"); broken.len()];
        reasons.extend([json!("schema"), json!("schema")]);
        assert_eq!(became(&went), reasons);
        // Each is told to the model, so that it can do better.
        let asked = vendor.requests()[1].clone();
        assert_eq!(asked.matches("VALIDATION_ERROR").count(), broken.len(), "{asked}");
        // And each is a call: who never does better comes to an end.
        vendor.says(vec![calling(&calls)]);
        let ended = run(&world, json!({"max_tool_calls": 10, "max_iterations": 100})).await;
        assert_eq!((&ended["state"], became(&ended).len()), (&json!("failed"), 11), "{ended:#}");
        let (_, reached) = events(&world, &ended).await.into_iter().find(|(kind, _)| kind == "limit.reached").unwrap();
        assert_eq!(reached["limit"], "max_tool_calls", "{reached:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_or_not_theirs_is_refused_whatever_the_model_writes() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator", "echo", "readResult"]).await;
        let others = json!({"tool": "echo", "input": {"text": "of somebody else"}});
        let others = world.send(&As::Owner, "POST", "/api/v1/calls", others).await.ok();
        let others = json!({"call_id": others["id"]}).to_string();
        world.send(&As::Owner, "PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})).await.ok();
        vendor.says(vec![
            calling(&[
                ("echo", r#"{"text": "disabled"}"#),
                ("readResult", r#"{"call_id": "c_that_never_was"}"#),
                ("readResult", r#"{"call_id": "01930000-0000-7000-8000-000000000000"}"#),
                ("readResult", &others),
                // Rights are nothing that a model can write.
                ("write_file", r#"{"path": "a.txt", "text": "x"}"#),
                ("manageTools", r#"{"action": "list"}"#),
                ("calculator", r#"{"expression": "1", "approved": true}"#),
                ("calculator", r#"{"expression": "1", "limits": {"max_tool_calls": 1000}}"#),
                ("calculator", r#"{"expression": "1", "_meta": {"roles": ["admin"]}}"#),
                ("calculator@9.9.9", r#"{"expression": "1"}"#),
                ("approve", r#"{"decision": "approve"}"#),
                ("calculator", r#"{"expression": "6 * 7"}"#),
            ]),
            saying("I see."),
        ]);
        let went = run(&world, json!({})).await;
        assert_eq!((&went["state"], &went["outputs"]["response"]), (&json!("completed"), &json!("I see.")), "{went:#}");
        let mut became = became(&went);
        assert_eq!(became.pop().unwrap()["result"], 42, "{became:?}");
        let reasons = [
            "not_found",
            "not_found",
            "not_found",
            "not_found",
            "not_found",
            "not_found",
            "schema",
            "schema",
            "schema",
            "not_found",
            "not_found",
        ];
        assert_eq!(became, reasons.map(Value::from), "{:#}", went["outputs"]);
    })
    .await;
}

/// A person who decides is the only one who can lend a right, and they see what for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_gives_itself_tools_waits_for_a_person_and_has_none_meanwhile() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", None, &["calculator"]).await;
        world.send(&As::Owner, "PUT", "/api/v1/agents/helper/tools/manageTools", json!({})).await.ok();
        let member = world.user("default", "mona", &["member"]).await;
        let definition = json!({
            "action": "create", "slug": "openDoors", "egressClass": "read_only", "permissionPolicy": "auto",
            "description": "Opens doors. Use it for doors. Do not use it for windows.",
            "inputSchema": {"type": "object", "additionalProperties": false, "properties": {}},
            "runner": {"kind": "http", "method": "GET", "url": "https://doors.example.com/"},
        });
        vendor.says(vec![calling(&[("manageTools", &definition.to_string())]), saying("It is made.")]);
        let body = json!({"prompt": "Make yourself a tool."});
        let waits = world.send(&member, "POST", "/api/v1/agents/helper/runs?wait=30", body).await.ok();
        assert_eq!(waits["state"], "waiting_human", "{waits:#}");
        world.get(&As::Owner, "/api/v1/tools/openDoors").await.refused(404);
        // Whoever began the run cannot lend what they do not have.
        let approvals = world.get(&As::Owner, "/api/v1/approvals?state=open").await.ok();
        let path = format!("/api/v1/approvals/{}/decide", approvals["items"][0]["id"].as_str().unwrap());
        let decided = world.send(&member, "POST", &path, json!({"decision": "approve"})).await;
        assert!((400..500).contains(&decided.status), "{:#}", decided.body);
        world.get(&As::Owner, "/api/v1/tools/openDoors").await.refused(404);
    })
    .await;
}

/// All that the database has in clear: no column is left out.
async fn kept(world: &World) -> String {
    let mut all = String::new();
    for sql in [
        "SELECT answer FROM agent_turns WHERE answer IS NOT NULL",
        "SELECT outputs FROM agent_runs WHERE outputs IS NOT NULL",
        "SELECT events FROM events",
        "SELECT text FROM event_parts",
        "SELECT input FROM calls WHERE input IS NOT NULL",
        "SELECT output FROM calls WHERE output IS NOT NULL",
        "SELECT error FROM calls WHERE error IS NOT NULL",
        "SELECT reason FROM runs WHERE reason IS NOT NULL",
        "SELECT entry FROM audit_leaves",
    ] {
        let rows = world.app.store.query(&Scope::Everyone("a test looks for a key"), sql, vec![]).await.unwrap();
        for row in rows {
            all.push_str(&row.get::<String>(0).unwrap());
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_says_its_provider_s_key_says_it_to_nobody() {
    every_world(async |world| {
        let vendor = Vendor::start().await;
        vendor.asked_by_an_agent(&world, "openai_chat", Some(KEY), &["echo"]).await;
        let (start, rest) = KEY.split_at(11);
        let spelled = KEY.chars().map(|letter| text(&letter.to_string()));
        let cut_call = [
            call(0, Some("echo"), "{\"text\": \"the key is "),
            call(0, None, start),
            call(0, None, &format!("{rest}\"}}")),
            call(1, Some(&format!("say_{KEY}")), "{}"),
            ending("tool_calls"),
        ];
        vendor.says(vec![
            Said::Events([text("My key: "), text(start), text(rest)].into_iter().chain(cut_call).collect()),
            Said::Events([text("Letter by letter: ")].into_iter().chain(spelled).chain([ending("stop")]).collect()),
        ]);
        let went = run(&world, json!({})).await;
        assert_eq!(went["outputs"]["response"], "Letter by letter: [secret:MODEL_KEY]", "{went:#}");
        let order = went["outputs"]["tool_order"].as_array().unwrap();
        let echoed = &went["outputs"]["tools_by_id"][order[0].as_str().unwrap()];
        assert_eq!(echoed["input"]["text"], "the key is [secret:MODEL_KEY]", "{echoed:#}");
        // Where it belongs it went out; what it was told of itself it is told without it.
        let asked = vendor.requests();
        assert!(asked.iter().all(|request| request.matches("sentinel").count() == 1), "{asked:?}");
        assert!(asked[1].contains("My key: [secret:MODEL_KEY]"), "{}", asked[1]);
        // The words as they came are written a moment behind.
        let path = format!("/api/v1/runs/{}/bundle", went["id"].as_str().unwrap());
        let bundle = world.get(&As::Owner, &path).await.ok();
        let replayed = json!({"bundle": bundle.to_string()});
        let replayed = world.send(&As::Owner, "POST", "/api/v1/replay", replayed).await.ok();
        assert_eq!(replayed["equal"], true, "{replayed:#}");
        let mut told = String::new();
        for _ in 0..100 {
            told = kept(&world).await;
            if told.contains("Letter by letter: ") && told.contains("My key: ") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(!format!("{told}{bundle}{went}").contains("sentinel"), "{told}");

        // In thoughts, which are kept in the provider's own form; and in what it says of an error.
        let thought = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": text}});
        let stream = [
            json!({"type": "message_start", "message": {"model": "any", "role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            thought("I was given "),
            thought(start),
            thought(rest),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I keep it."}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ];
        let stream = stream.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
        vendor.says(vec![Said::Events(stream.collect())]);
        let spec = json!({"name": "vendor", "kind": "anthropic", "base_url": format!("http://{}", vendor.address), "secret": "MODEL_KEY"});
        world.send(&As::Owner, "PUT", "/api/v1/providers/vendor", spec).await.ok();
        let went = run(&world, json!({})).await;
        assert_eq!(went["outputs"]["response"], "I keep it.", "{went:#}");
        let told = kept(&world).await;
        assert!(told.contains("I was given [secret:MODEL_KEY]") && !told.contains("sentinel"), "{told}");
    })
    .await;
}

/// A question that a tool asks is told in the log as one that an agent asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_tells_of_its_questions_in_the_run_of_its_call() {
    every_world(async |world| {
        let usage = json!({"input_tokens": 10, "output_tokens": 5});
        let turns = json!([{"say": "About three.", "usage": usage}, {"say": "{\"words\": 3}", "usage": usage}]);
        let script = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
        world.send(&As::Owner, "PUT", "/api/v1/providers/play", script).await.ok();
        let mut tool = world::tool("countText", json!({"version": "1.0.0"}));
        tool["runner"] =
            json!({"kind": "prompt", "mode": "direct", "template": "Count: {{ id }}", "model": "play/any"});
        tool["output_schema"] = json!({
            "type": "object", "additionalProperties": false, "required": ["words"],
            "properties": {"words": {"type": "integer", "description": "How many.", "minimum": 0}},
        });
        world.register(&As::Owner, tool).await.ok();
        let opened = world.send(&As::Owner, "POST", "/api/v1/runs", json!({})).await.ok();
        for run_id in [Value::Null, opened["id"].clone()] {
            let mut request = json!({"tool": "countText", "input": {"id": "a b c"}, "wait": 30});
            if !run_id.is_null() {
                request["run_id"] = run_id;
            }
            let counted = world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok();
            assert_eq!(counted["output"], json!({"words": 3}), "{counted:#}");
            let path = format!("/api/v1/runs/{}/events", counted["run_id"].as_str().unwrap());
            let page = world.get(&As::Owner, &path).await.ok();
            let told: Vec<&Value> =
                page["items"].as_array().unwrap().iter().filter(|event| event["call_id"] == counted["id"]).collect();
            let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
            let wanted = [
                "tool.started",
                "model.requested",
                "model.completed",
                "model.requested",
                "model.completed",
                "tool.completed",
            ];
            assert_eq!(kinds, wanted, "{page:#}");
            let first = told[0]["seq"].as_u64().unwrap();
            let seqs: Vec<u64> = told.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
            assert_eq!(seqs, (first..first + 6).collect::<Vec<_>>(), "without a gap");
            assert_eq!(
                (&told[2]["data"]["usage"]["input_tokens"], &told[3]["data"]["messages"]),
                (&json!(10), &json!(3))
            );
        }
        // One that fails; and one that takes its time is told of before it ends.
        let turns = json!([{"fail": {"status": 401}}]);
        let script = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
        world.send(&As::Owner, "PUT", "/api/v1/providers/play", script).await.ok();
        let request = json!({"tool": "countText", "input": {"id": "d"}, "wait": 30});
        let failed = world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok();
        let told = events(&world, &json!({"id": failed["run_id"]})).await;
        let kinds: Vec<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["tool.started", "model.requested", "model.failed", "tool.failed"], "{told:#?}");
        assert_eq!(told[2].1["code"], "AUTH_REQUIRED");
        let turns = json!([{"say": "late", "delay_ms": 60_000}]);
        let script = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
        world.send(&As::Owner, "PUT", "/api/v1/providers/play", script).await.ok();
        let request = json!({"tool": "countText", "input": {"id": "e"}, "wait": 0});
        let slow = world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok();
        for _ in 0..100 {
            let told = events(&world, &json!({"id": slow["run_id"]})).await;
            if told.len() == 2 {
                assert_eq!(told[1].0, "model.requested");
                let path = format!("/api/v1/calls/{}/cancel", slow["id"].as_str().unwrap());
                world.send(&As::Owner, "POST", &path, Value::Null).await.ok();
                let told = events(&world, &json!({"id": slow["run_id"]})).await;
                assert!(told.last().unwrap().0.starts_with("tool."), "{told:#?}");
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("a question that is asked is not told of");
    })
    .await;
}
