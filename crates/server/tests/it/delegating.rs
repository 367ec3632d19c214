//! Prompts and tasks as tools, and agents that ask agents: what they give, what bounds them, and how they wait, end and go
//! on together. The models are scripts.

use serde_json::{Value, json};
use toolgate_store::testing::every_migrated;

use crate::world::{self, As, World, attend, every_world};

async fn provider(world: &World, name: &str, turns: Value, more: Value) {
    let mut spec = json!({"name": name, "kind": "scripted", "script": {"version": 1, "turns": turns}});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    world.send(&As::Owner, "PUT", &format!("/api/v1/providers/{name}"), spec).await.ok();
}

/// An agent whose model, its provider's only one, says these turns.
async fn agent(world: &World, name: &str, turns: Value, more: Value) {
    provider(world, name, turns, json!({})).await;
    let mut spec =
        json!({"name": name, "model": format!("{name}/any"), "instructions": "Be brief.", "toolset": "open"});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
}

async fn call(world: &World, tool: &str, input: Value) -> Value {
    let request = json!({"tool": tool, "input": input, "wait": 30});
    world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok()
}

async fn run(world: &World, agent: &str, body: Value) -> Value {
    world.send(&As::Owner, "POST", &format!("/api/v1/agents/{agent}/runs?wait=30"), body).await.ok()
}

async fn becomes(world: &World, run: &Value, wanted: &str) -> Value {
    let path = format!("/api/v1/runs/{}/outputs?wait=1", run.as_str().unwrap());
    for _ in 0..80 {
        let seen = world.get(&As::Owner, &path).await.ok();
        let is_closed = !["completed", "failed", "cancelled"].contains(&wanted) || seen["outputs"].is_object();
        if seen["state"] == wanted && is_closed {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the run never is {wanted}: {:#}", world.get(&As::Owner, &path).await.body);
}

fn prompt(name: &str, runner: Value, output: Value) -> Value {
    let mut kind = json!({"kind": "prompt", "mode": "direct", "template": "Translate: {{ text }}"});
    kind.as_object_mut().unwrap().extend(runner.as_object().unwrap().clone());
    let mut definition = json!({
        "name": name, "version": "1.0.0", "egress_class": "read_only",
        "description": "Translates a text into plain words. Use it for one text. Do not use it for numbers.",
        "input_schema": {
            "type": "object", "additionalProperties": false, "required": ["text"],
            "properties": {"text": {"type": "string", "description": "The text.", "maxLength": 20000}},
        },
        "runner": kind,
    });
    if !output.is_null() {
        definition["output_schema"] = output;
    }
    definition
}

fn words() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["words"],
        "properties": {"words": {"type": "integer", "description": "How many.", "minimum": 0}},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_one_question_and_its_answer_is_what_the_tool_promises() {
    every_world(async |world| {
        let usage = json!({"input_tokens": 1000, "output_tokens": 500});
        let prices = json!({"prices": {"any": {"input": "2", "output": "4"}}});
        let turns = json!([{"say": "You asked: {{ prompt }}", "usage": usage}]);
        provider(&world, "play", turns, prices.clone()).await;
        world.register(&As::Owner, prompt("translateText", json!({}), Value::Null)).await.ok();

        // Which model, nobody said.
        let unsaid = call(&world, "translateText", json!({"text": "x"})).await;
        assert_eq!(unsaid["error"]["details"]["reason"], "tier_unavailable", "{unsaid:#}");
        assert!(unsaid["error"]["message"].as_str().unwrap().contains("default_model"), "{unsaid:#}");
        let wrong = world.send(&As::Owner, "PUT", "/api/v1/settings", json!({"default_model": "play"})).await;
        assert_eq!(wrong.refused(400)["pointer"], "/default_model");
        world.send(&As::Owner, "PUT", "/api/v1/settings", json!({"default_model": "play/any"})).await.ok();

        // What an argument says is no template.
        for text in ["Guten Tag", "{{ text }}", "{% for i in text %}x{% endfor %}", "${7*7}", "}}{{"] {
            let answer = call(&world, "translateText", json!({"text": text})).await;
            assert_eq!(answer["output"], json!({"text": format!("You asked: Translate: {text}")}), "{answer:#}");
            assert_eq!(answer["cost"], "0.004", "{answer:#}");
        }
        let plan = json!({"tool": "translateText", "input": {"text": "{{ x }}"}, "mode": "dry_run"});
        let plan = world.send(&As::Owner, "POST", "/api/v1/calls", plan).await.ok();
        let asked = json!({"would_ask": {"mode": "direct", "prompt": "Translate: {{ x }}"}});
        assert_eq!(plan["output"], asked, "{plan:#}");

        // JSON is asked for once more, with what is wrong with it.
        let turns = json!([{"say": "About three."}, {"when": {"last_user_contains": "no JSON"}, "say": "```json\n{\"words\": 3}\n```"}]);
        provider(&world, "counts", turns, json!({})).await;
        world.register(&As::Owner, prompt("countText", json!({"model": "counts/any"}), words())).await.ok();
        let counted = call(&world, "countText", json!({"text": "a b c"})).await;
        assert_eq!(counted["output"], json!({"words": 3}), "{counted:#}");
        let turns = json!([{"repeat": 2, "say": "{\"words\": -1}", "usage": usage}]);
        provider(&world, "counts", turns, prices).await;
        let never = call(&world, "countText", json!({"text": "a b c"})).await;
        assert_eq!((&never["status"], &never["error"]["code"]), (&json!("failed"), &json!("PROVIDER_ERROR")), "{never:#}");
        assert_eq!(never["error"]["details"]["reason"], "output_schema", "{never:#}");
        assert!(never["error"]["message"].as_str().unwrap().contains("/words"), "{never:#}");
        assert_eq!(never["cost"], "0.008", "both questions were answered, and are paid: {never:#}");
        // What a provider refuses costs nothing.
        provider(&world, "counts", json!([{"fail": {"status": 401}}]), json!({})).await;
        let refused = call(&world, "countText", json!({"text": "a b c"})).await;
        assert_eq!((&refused["error"]["code"], &refused["cost"]), (&json!("AUTH_REQUIRED"), &json!("0.00")), "{refused:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_holds_its_money_and_its_tokens_before_it_asks() {
    every_world(async |world| {
        let usage = json!({"input_tokens": 1000, "output_tokens": 500});
        let turns = json!([{"repeat": 10, "say": "Hello.", "usage": usage}]);
        provider(&world, "play", turns.clone(), json!({"prices": {"any": {"input": "2", "output": "4"}}})).await;
        world.register(&As::Owner, prompt("translateText", json!({"model": "play/any"}), Value::Null)).await.ok();
        let in_run = async |limits: Value| {
            let opened = world.send(&As::Owner, "POST", "/api/v1/runs", json!({"limits": limits})).await.ok();
            let request = json!({"tool": "translateText", "input": {"text": "x"}, "run_id": opened["id"], "wait": 30});
            let first = world.send(&As::Owner, "POST", "/api/v1/calls", request.clone()).await.ok();
            (first, world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok())
        };
        // One question may cost 0.033: what it did cost leaves room for no second one.
        let (first, second) = in_run(json!({"max_budget": "0.035"})).await;
        assert_eq!((&first["status"], &first["cost"]), (&json!("completed"), &json!("0.004")), "{first:#}");
        assert_eq!(second["error"]["details"]["reason"], "budget", "{second:#}");
        let (first, second) = in_run(json!({"max_tokens": 9000})).await;
        assert_eq!(first["status"], "completed", "{first:#}");
        assert_eq!(second["error"]["details"]["used"], 1500, "{second:#}");
        // Without a price nobody can keep to a budget. A script costs nothing, and says so.
        provider(&world, "play", turns, json!({})).await;
        let (first, second) = in_run(json!({"max_budget": "0.01"})).await;
        assert_eq!((&first["status"], &second["status"]), (&json!("completed"), &json!("completed")), "{second:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_is_what_the_model_is_told_before_it_is_asked() {
    every_world(async |world| {
        let head = "name: plain-words\ndescription: Says things plainly. Use it for texts.\narguments: [{name: text}]";
        let skill = format!("---\n{head}\n---\n\nUse short words for {{{{ text }}}}.\n");
        world.send(&As::Owner, "POST", "/api/v1/skills", json!({"source": skill})).await.ok();
        provider(&world, "play", json!([{"say": "Done: {{ prompt }}"}]), json!({})).await;
        let runner = json!({"mode": "skill", "skill": "plain-words", "model": "play/any"});
        world.register(&As::Owner, prompt("translateText", runner, Value::Null)).await.ok();
        let answer = call(&world, "translateText", json!({"text": "x"})).await;
        assert_eq!(answer["output"], json!({"text": "Done: Translate: x"}), "{answer:#}");
    })
    .await;
}

/// A boss who asks a scribe, who writes a file, which somebody must allow.
async fn waiting_below(world: &World) -> (Value, String) {
    let ask = json!({"tool": "delegateToAgent", "input": {"agent": "scribe", "prompt": "Write it down."}});
    let turns = json!([
        {"call": [ask]},
        {"when": {"last_tool": "delegateToAgent"}, "say": "The scribe says: {{ tools.delegateToAgent.response }}"},
    ]);
    agent(world, "boss", turns, json!({})).await;
    let turns = json!([
        {"call": [{"tool": "list_files", "input": {}}]},
        {"when": {"last_tool": "list_files"}, "call": [{"tool": "write_file", "input": {"path": "it.txt", "text": "it"}}]},
        {"when": {"last_tool": "write_file"}, "say": "Written."},
    ]);
    agent(world, "scribe", turns, json!({})).await;
    world.send(&As::Owner, "PUT", "/api/v1/agents/scribe/tools/write_file", json!({})).await.ok();
    let run = run(world, "boss", json!({"prompt": "Have it written down.", "limits": {"max_wall_s": 60}})).await;
    assert_eq!(run["state"], "waiting_human", "a run waits for whoever a run below waits for: {run:#}");
    let asked = world.get(&As::Owner, "/api/v1/approvals").await.ok();
    (run, asked["items"][0]["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_below_takes_both_runs_up_and_what_was_read_below_was_read_above() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let (boss, approval) = waiting_below(&world).await;
        // The time in which people think is nobody's.
        world.clock.advance(3600);
        world
            .send(&As::Owner, "POST", &format!("/api/v1/approvals/{approval}/decide"), json!({"decision": "approve"}))
            .await
            .ok();
        let ended = becomes(&world, &boss["id"], "completed").await;
        assert_eq!(ended["outputs"]["response"], "The scribe says: Written.", "{ended:#}");
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", boss["id"].as_str().unwrap())).await.ok();
        assert!(shown["labels"].as_array().unwrap().contains(&json!("untrusted")), "{shown:#}");
        assert_eq!((shown["runs"].as_array().unwrap().len(), &shown["runs"][0]["state"]), (1, &json!("completed")));
        let below = shown["runs"][0]["id"].as_str().unwrap();
        let call = &ended["outputs"]["last_tool"];
        assert_eq!((&call["name"], &call["output"]["run_id"]), (&json!("delegateToAgent"), &json!(below)), "{call:#}");
        let record = world.get(&As::Owner, &format!("/api/v1/calls/{}", call["call_id"].as_str().unwrap())).await.ok();
        assert!(record["labels"].as_array().unwrap().contains(&json!("untrusted")), "{record:#}");
        let events = world.get(&As::Owner, &format!("/api/v1/runs/{}/events", boss["id"].as_str().unwrap())).await.ok();
        let told = events["items"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap());
        let told: Vec<&str> = told.filter(|kind| kind.starts_with("run.")).collect();
        assert_eq!(told, ["run.started", "run.started", "run.waiting", "run.resumed", "run.completed"]);
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_dies_while_an_agent_waits_below_leaves_both_to_the_next() {
    every_migrated(async |database| {
        let folder = tempfile::tempdir().unwrap();
        let clock = toolgate_contracts::Clock::manual(toolgate_contracts::Timestamp::from_millis(1_794_700_000_000));
        let before = World::of(world::open(database, folder.path(), clock.clone(), 1).await);
        let stop = attend(&before.app);
        let (boss, approval) = waiting_below(&before).await;
        // Nothing is told to end, and nobody says good-bye.
        stop.cancel();
        drop(before);
        clock.advance(120);
        let after = World::of(world::open(database, folder.path(), clock.clone(), 2).await);
        let stop = attend(&after.app);
        let path = format!("/api/v1/approvals/{approval}/decide");
        after.send(&As::Owner, "POST", &path, json!({"decision": "approve"})).await.ok();
        let ended = becomes(&after, &boss["id"], "completed").await;
        assert_eq!(ended["outputs"]["response"], "The scribe says: Written.", "{ended:#}");
        let asked = after.get(&As::Owner, "/api/v1/calls?tool=delegateToAgent").await.ok();
        assert_eq!(asked["items"].as_array().unwrap().len(), 1, "{asked:#}");
        stop.cancel();
        after.app.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_reaches_what_is_below_from_the_run_and_from_the_call() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let (boss, approval) = waiting_below(&world).await;
        let id = boss["id"].as_str().unwrap();
        world.send(&As::Owner, "PUT", &format!("/api/v1/runs/{id}/state"), json!({"state": "cancelled"})).await.ok();
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{id}")).await.ok();
        assert_eq!(shown["runs"][0]["state"], "cancelled", "{shown:#}");
        becomes(&world, &shown["runs"][0]["id"], "cancelled").await;
        becomes(&world, &boss["id"], "cancelled").await;
        let asked = world.get(&As::Owner, &format!("/api/v1/approvals/{approval}")).await.ok();
        assert_ne!(asked["state"], "open", "{asked:#}");

        // The call of somebody who is in no run.
        let input = json!({"agent": "scribe", "prompt": "Write it down."});
        let request = json!({"tool": "delegateToAgent", "input": input, "wait": 0});
        let called = world.send(&As::Owner, "POST", "/api/v1/calls", request).await.ok();
        let path = format!("/api/v1/calls/{}", called["id"].as_str().unwrap());
        let of_scribe = loop {
            let open = world.get(&As::Owner, "/api/v1/runs?state=waiting_human").await.ok();
            if let Some(run) = open["items"].as_array().unwrap().first() {
                break run["id"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        let cancelled = world.send(&As::Owner, "POST", &format!("{path}/cancel"), Value::Null).await.ok();
        assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
        becomes(&world, &of_scribe, "cancelled").await;
        assert_eq!(world.get(&As::Owner, &path).await.ok()["status"], "cancelled");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_binds_a_run_binds_those_below_it() {
    every_world(async |world| {
        let stop = attend(&world.app);
        let usage = json!({"input_tokens": 1000, "output_tokens": 500});
        let again = |agent: &str| {
            let ask = json!({"tool": "delegateToAgent", "input": {"agent": agent, "prompt": "Ask on."}});
            json!([
                {"call": [ask], "usage": usage},
                {"when": {"last_error": true}, "say": "No: {{ tools.delegateToAgent }}", "usage": usage},
                {"say": "Below: {{ tools.delegateToAgent.response }}", "usage": usage},
            ])
        };
        agent(&world, "echoing", again("echoing"), json!({})).await;
        let deep = run(&world, "echoing", json!({"prompt": "Ask on.", "limits": {"max_depth": 2}})).await;
        let deep = becomes(&world, &deep["id"], "completed").await;
        let said = deep["outputs"]["response"].as_str().unwrap();
        assert!(said.starts_with("Below: Below: No: POLICY_DENIED: runs may stand 2 deep"), "{said}");
        let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", deep["id"].as_str().unwrap())).await.ok();
        assert_eq!(shown["runs"].as_array().unwrap().len(), 2, "{shown:#}");

        // The money of the one above: each question may cost 0.033 and more, and did cost 0.004.
        agent(&world, "boss", again("clerk"), json!({})).await;
        agent(&world, "clerk", json!([{"say": "Here.", "usage": usage}]), json!({})).await;
        let prices = json!({"prices": {"any": {"input": "2", "output": "4"}}});
        provider(&world, "boss", again("clerk"), prices.clone()).await;
        provider(&world, "clerk", json!([{"say": "Here.", "usage": usage}]), prices.clone()).await;
        let enough = run(&world, "boss", json!({"prompt": "Go.", "limits": {"max_budget": "0.2"}})).await;
        let enough = becomes(&world, &enough["id"], "completed").await;
        assert_eq!(enough["outputs"]["response"], "Below: Here.", "{enough:#}");
        let dear = json!({"prices": {"any": {"input": "2", "output": "40"}}});
        provider(&world, "clerk", json!([{"say": "Here.", "usage": usage}]), dear).await;
        let short = run(&world, "boss", json!({"prompt": "Go.", "limits": {"max_budget": "0.2"}})).await;
        let short = becomes(&world, &short["id"], "completed").await;
        let said = short["outputs"]["response"].as_str().unwrap();
        assert!(said.starts_with("No: POLICY_DENIED: the budget of a run above is 0.20"), "{said}");

        let nobody = call(&world, "delegateToAgent", json!({"agent": "nobody", "prompt": "Hello?"})).await;
        assert_eq!(nobody["error"]["details"]["reason"], "not_found", "{nobody:#}");
        stop.cancel();
    })
    .await;
}

fn task(wait: bool) -> Value {
    json!({
        "name": "researchTopic", "version": "1.0.0", "egress_class": "none", "changes_state": true, "risk": "sensitive",
        "description": "Has a topic looked into by an agent. Use it for what takes its time. Do not use it for one fact.",
        "input_schema": {
            "type": "object", "additionalProperties": false, "required": ["topic", "who"],
            "properties": {
                "topic": {"type": "string", "description": "What to look into.", "maxLength": 200},
                "who": {"type": "string", "description": "Who does it.", "maxLength": 100},
            },
        },
        "runner": {"kind": "task", "task": "Look into {{ topic }}.", "agent": "{{ who }}", "wait": wait},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_left_to_an_agent_looked_after_and_begun_anew() {
    every_world(async |world| {
        let stop = attend(&world.app);
        agent(&world, "clerk", json!([{"fail": {"status": 400}}]), json!({"description": "Knows the files."})).await;
        world.register(&As::Owner, task(false)).await.ok();
        let agents = call(&world, "listAgents", json!({})).await;
        let line = json!({"name": "clerk", "title": "clerk", "description": "Knows the files."});
        assert_eq!(agents["output"], json!({"agents": [line]}), "{agents:#}");

        let made = call(&world, "researchTopic", json!({"topic": "tides", "who": "clerk"})).await;
        assert_eq!((&made["status"], &made["output"]["status"]), (&json!("completed"), &json!("running")), "{made:#}");
        let task_id = made["output"]["task"].clone();
        becomes(&world, &task_id, "failed").await;
        let status = call(&world, "getTaskStatus", json!({"task": task_id})).await;
        assert_eq!(
            (&status["output"]["status"], &status["output"]["agent"], &status["output"]["error"]["code"]),
            (&json!("failed"), &json!("clerk"), &json!("PROVIDER_ERROR")),
            "{status:#}"
        );
        provider(&world, "clerk", json!([{"say": "As to '{{ prompt }}': twice a day."}]), json!({})).await;
        let again = call(&world, "retrySession", json!({"task": task_id})).await;
        assert_eq!(again["output"]["retry_of"], task_id, "{again:#}");
        let again = again["output"]["task"].clone();
        becomes(&world, &again, "completed").await;
        let status = call(&world, "getTaskStatus", json!({"task": again})).await;
        assert_eq!(status["output"]["response"], "As to 'Look into tides.': twice a day.", "{status:#}");

        // Somebody else's task is none.
        let other = world.user("default", "ada", &["member"]).await;
        let request = json!({"tool": "getTaskStatus", "input": {"task": again}, "wait": 10});
        let unseen = world.send(&other, "POST", "/api/v1/calls", request).await.ok();
        assert_eq!(unseen["error"]["details"]["reason"], "not_found", "{unseen:#}");

        let mut waits = task(true);
        waits["name"] = "askClerk".into();
        world.register(&As::Owner, waits).await.ok();
        let answered = call(&world, "askClerk", json!({"topic": "tides", "who": "clerk"})).await;
        assert_eq!(answered["output"]["response"], "As to 'Look into tides.': twice a day.", "{answered:#}");
        let nobody = task(false);
        let mut nobody = nobody;
        nobody["runner"].as_object_mut().unwrap().remove("agent");
        let refused = world.register(&As::Owner, nobody).await.refused(400);
        assert_eq!(refused["details"]["findings"][0]["code"], "runner.prompt", "{refused:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_a_long_result_to_its_end_whatever_tools_it_has() {
    every_world(async |world| {
        let long: String = (0..20_000).map(|index| format!("{index:09}")).collect::<Vec<_>>().join("\n") + "\n";
        let file = json!({"path": "long.txt", "text": long});
        let written = world
            .send(&As::Owner, "POST", "/api/v1/calls", json!({"tool": "write_file", "input": file, "wait": 0}))
            .await
            .ok();
        let path = format!("/api/v1/approvals/{}/decide?wait=30", written["id"].as_str().unwrap());
        world.send(&As::Owner, "POST", &path, json!({"decision": "approve"})).await.ok();
        let turns = json!([
            {"call": [{"tool": "read_file", "input": {"path": "long.txt", "limit": 1_048_576}}]},
            {"when": {"last_tool": "read_file"}, "say": "{{ tools.read_file }}"},
        ]);
        agent(&world, "reader", turns, json!({"toolset": "assigned", "custom_tools": ["read_file"]})).await;
        let first = run(&world, "reader", json!({"prompt": "Read it."})).await;
        let shown = first["outputs"]["response"].as_str().unwrap();
        assert!(shown.contains("[the first 16384 of"), "{}", &shown[shown.len().saturating_sub(200)..]);
        // The same in one conversation: each page is asked for where the one before ended.
        let call_id = first["outputs"]["tool_order"][0].as_str().unwrap();
        let whole = &first["outputs"]["tools_by_id"][call_id]["output"];
        let bytes = whole.to_string().len();
        assert!(bytes > 200_000, "{bytes}");
        let mut offset = json!(0);
        let mut text = String::new();
        while !offset.is_null() {
            let input = json!({"call_id": call_id, "offset": offset, "limit": 16384});
            let page = call(&world, "readResult", input).await;
            assert_eq!(page["output"]["bytes"], bytes, "{page:#}");
            text.push_str(page["output"]["text"].as_str().unwrap());
            offset = page["output"]["next"].clone();
        }
        assert_eq!(text.len(), bytes);
        assert!(serde_json::from_str::<Value>(&text).unwrap() == *whole);
        let beyond = call(&world, "readResult", json!({"call_id": call_id, "offset": 9_000_000})).await;
        assert_eq!(beyond["error"]["details"]["pointer"], "/offset", "{beyond:#}");

        // From within: an agent that was assigned nothing but the file reads on, and has then seen what the call had.
        let turns = json!([
            {"call": [{"tool": "read_file", "input": {"path": "long.txt", "limit": 1_048_576}}]},
            {"when": {"last_tool": "read_file"}, "call": [{"tool": "readResult", "input": {"call_id": "c_none"}}]},
            {"when": {"last_tool": "readResult"}, "say": "{{ tools.readResult }}"},
        ]);
        provider(&world, "reader", turns, json!({})).await;
        let within =
            run(&world, "reader", json!({"prompt": "Read on.", "limits": {"enabled_tools": ["read_file"]}})).await;
        let said = within["outputs"]["response"].as_str().unwrap();
        assert!(said.contains("call") && !said.contains("no tool"), "{said}");
        let order = within["outputs"]["tool_order"].as_array().unwrap();
        let read = &within["outputs"]["tools_by_id"][order[1].as_str().unwrap()];
        assert_eq!((&read["name"], &read["version"]), (&json!("readResult"), &json!("1.0.0")), "{read:#}");
    })
    .await;
}
