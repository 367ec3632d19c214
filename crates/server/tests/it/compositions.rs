//! Compositions through the gate: each step a call of its own, with the caller's rights and asked about by itself.

use serde_json::{Value, json};

use crate::world::{As, World, every_world};

fn composition(name: &str, class: &str, steps: Value, output: Option<&str>) -> Value {
    let mut runner = json!({"kind": "composition", "steps": steps});
    if let Some(output) = output {
        runner["output"] = output.into();
    }
    json!({
        "name": name, "version": "1.0.0", "description": "Does one thing after the other. Use it in tests.",
        "egress_class": class, "timeout_ms": 20_000,
        "input_schema": {
            "type": "object", "additionalProperties": false, "required": ["a", "b"],
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}}
        },
        "output_schema": {"type": "object"},
        "runner": runner
    })
}

async fn call(world: &World, who: &As, tool: &str) -> Value {
    world.send(who, "POST", "/api/v1/calls", json!({"tool": tool, "input": {"a": 2, "b": 3}, "wait": 20})).await.ok()
}

fn chain() -> Value {
    json!([
        {"id": "sum", "tool": "calculator", "input": {"expression": "{{ input.a }} + {{ input.b }}"}},
        {"id": "said", "tool": "echo", "input": {"text": "the sum is {{ steps.sum.result }}"}},
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_step_answers_is_given_to_the_next() {
    every_world(async |world| {
        world.register(&As::Owner, composition("sayTheSum", "none", chain(), None)).await.ok();
        let answer = call(&world, &As::Owner, "sayTheSum").await;
        assert_eq!((&answer["status"], &answer["output"]), (&json!("completed"), &json!({"text": "the sum is 5"})));
        let runs = world.get(&As::Owner, "/api/v1/runs").await.ok();
        assert_eq!(
            (&runs["items"][0]["title"], &runs["items"][0]["state"]),
            (&json!("sayTheSum"), &json!("completed"))
        );
        let run = runs["items"][0]["id"].as_str().unwrap();
        let steps = world.get(&As::Owner, &format!("/api/v1/calls?run={run}")).await.ok();
        let mut tools: Vec<&str> =
            steps["items"].as_array().unwrap().iter().map(|call| call["tool_key"].as_str().unwrap()).collect();
        tools.sort_unstable();
        assert_eq!(tools, ["calculator", "echo"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_wait_for_nothing_run_at_once_and_the_output_is_made_of_all() {
    every_world(async |world| {
        let steps = json!([
            {"id": "left", "tool": "calculator", "input": {"expression": "{{ input.a }} * 10"}},
            {"id": "right", "tool": "calculator", "input": {"expression": "{{ input.b }} * 10"}, "after": []},
            {"id": "both", "tool": "echo", "after": ["left", "right"],
                "input": {"text": "{{ steps.left.result }}/{{ steps.right.result }}"}},
        ]);
        let output = "{'both': steps.both.text, 'asked': input.a}";
        world.register(&As::Owner, composition("joinBoth", "none", steps, Some(output))).await.ok();
        let answer = call(&world, &As::Owner, "joinBoth").await;
        assert_eq!(answer["output"], json!({"both": "20/30", "asked": 2}), "{answer:#}");
        let plan = json!({"tool": "joinBoth", "input": {"a": 2, "b": 3}, "mode": "dry_run"});
        let plan = world.send(&As::Owner, "POST", "/api/v1/calls", plan).await.ok();
        assert_eq!(plan["output"]["would_call"][0]["input"], json!({"expression": "2 * 10"}), "{plan:#}");
        assert_eq!(plan["output"]["would_call"][2]["after"], json!(["left", "right"]), "{plan:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_fails_is_named_and_nothing_follows_it() {
    every_world(async |world| {
        let steps = json!([
            {"id": "broken", "tool": "calculator", "input": {"expression": "{{ input.a }} / 0"}},
            {"id": "never", "tool": "append_note", "input": {"text": "it happened"}},
        ]);
        let mut definition = composition("divide", "none", steps, None);
        definition["changes_state"] = true.into();
        definition["risk"] = "sensitive".into();
        world.register(&As::Owner, definition).await.ok();
        let answer = call(&world, &As::Owner, "divide").await;
        assert_eq!(answer["status"], "failed", "{answer:#}");
        let error = &answer["error"];
        assert!(error["message"].as_str().unwrap().starts_with("the step `broken` (calculator@1.0.0): "), "{error:#}");
        assert_eq!((&error["code"], &error["details"]["step"]), (&json!("VALIDATION_ERROR"), &json!("broken")));
        let run = error["details"]["run_id"].as_str().unwrap();
        assert_eq!(world.get(&As::Owner, &format!("/api/v1/runs/{run}")).await.ok()["state"], "failed");
        let never = world.get(&As::Owner, "/api/v1/calls?tool=append_note").await.ok();
        assert_eq!(never["items"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_is_given_a_part_of_a_value() {
    every_world(async |world| {
        let limit = json!({"max_output_bytes": 1024});
        world.send(&As::Owner, "PUT", "/api/v1/tools/echo/override", limit).await.ok();
        let steps = json!([
            {"id": "long", "tool": "echo", "input": {"text": "x".repeat(2_000)}},
            {"id": "kept", "tool": "append_note", "input": {"text": "{{ steps.long.text }}"}},
        ]);
        let mut definition = composition("keepLong", "none", steps.clone(), None);
        definition["changes_state"] = true.into();
        definition["risk"] = "sensitive".into();
        world.register(&As::Owner, definition).await.ok();
        // The last step's output is the composition's own.
        world.register(&As::Owner, composition("sayLong", "none", json!([steps[0]]), None)).await.ok();
        for tool in ["keepLong", "sayLong"] {
            let answer = call(&world, &As::Owner, tool).await;
            let error = &answer["error"];
            let told = (&error["code"], &error["details"]["reason"], &error["details"]["step"]);
            assert_eq!(told, (&json!("VALIDATION_ERROR"), &json!("too_large"), &json!("long")), "{answer:#}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("raise `max_output_bytes` of `echo"), "{message}");
        }
        let never = world.get(&As::Owner, "/api/v1/calls?tool=append_note").await.ok();
        assert_eq!(never["items"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_when_it_is_saved() {
    every_world(async |world| {
        let refused = async |steps: Value, class: &str, code: &str, pointer: &str| {
            let answer = world.register(&As::Owner, composition("wrong", class, steps, None)).await.refused(400);
            let findings = answer["details"]["findings"].as_array().unwrap().clone();
            let found = findings.iter().any(|finding| finding["code"] == code && finding["pointer"] == pointer);
            assert!(found, "{code} at {pointer}: {findings:#?}");
        };
        let step = |tool: &str, text: &str| json!([{"id": "one", "tool": tool, "input": {"text": text}}]);
        refused(step("noSuchTool", "x"), "none", "floor.step", "/runner/steps/0/tool").await;
        refused(step("wrong", "x"), "none", "floor.circle", "/runner/steps/0/tool").await;
        refused(step("write_file", "x"), "none", "floor.class", "/egress_class").await;
        refused(step("echo", "{{ steps.two.text }}"), "none", "composition.reference", "/runner/steps/0/input/text")
            .await;
        refused(step("echo", "{{ text }}"), "none", "composition.reference", "/runner/steps/0/input/text").await;
        refused(step("echo", "{{ input.c }}"), "none", "runner.place", "/runner/steps/0/input/text").await;
        refused(step("echo", "{{ input.a"), "none", "runner.template", "/runner/steps/0/input/text").await;
    })
    .await;
}

fn writing() -> Value {
    let steps = json!([
        {"id": "sum", "tool": "calculator", "input": {"expression": "{{ input.a }} + {{ input.b }}"}},
        {"id": "kept", "tool": "write_file", "input": {"path": "sum.txt", "text": "{{ steps.sum.result | string }}", "overwrite": true}},
    ]);
    composition("keepTheSum", "write", steps, None)
}

/// The call that waits for somebody, once there is one of this tool.
async fn waiting(world: &World, tool: &str) -> String {
    for _ in 0..200 {
        let open = world.get(&As::Owner, &format!("/api/v1/approvals?state=open&tool={tool}")).await.ok();
        if let Some(call) = open["items"][0]["call_id"].as_str() {
            return call.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let calls = world.get(&As::Owner, "/api/v1/calls").await.ok();
    panic!("nothing of {tool} waits: {calls:#}");
}

async fn ends(world: &World, id: &str) -> Value {
    for _ in 0..400 {
        let call = world.get(&As::Owner, &format!("/api/v1/calls/{id}")).await.ok();
        if !["pending", "approved", "running"].contains(&call["status"].as_str().unwrap()) {
            return call;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("{id} does not end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_writes_is_asked_about_by_itself() {
    every_world(async |world| {
        world.register(&As::Owner, writing()).await.ok();
        let member = world.user("default", "ada", &["member"]).await;
        let approver = world.user("default", "ben", &["approver"]).await;
        let asked = json!({"tool": "keepTheSum", "input": {"a": 2, "b": 3}, "wait": 0});
        let outer = world.send(&member, "POST", "/api/v1/calls", asked.clone()).await.ok();
        let decide = async |call: &str, decision: Value| {
            world.send(&approver, "POST", &format!("/api/v1/approvals/{call}/decide?wait=0"), decision).await.ok()
        };
        decide(outer["id"].as_str().unwrap(), json!({"decision": "approve"})).await;
        let inner = waiting(&world, "write_file").await;
        let card = world.get(&approver, &format!("/api/v1/approvals/{inner}")).await.ok();
        assert_eq!((&card["asked_by"], &card["input"]["text"]), (&json!("ada"), &json!("5")), "{card:#}");
        decide(&inner, json!({"decision": "approve"})).await;
        let ended = ends(&world, outer["id"].as_str().unwrap()).await;
        assert_eq!((&ended["status"], &ended["output"]["path"]), (&json!("completed"), &json!("sum.txt")), "{ended:#}");

        // Refused: the outer call says which step, and what was done before it.
        let outer = world.send(&member, "POST", "/api/v1/calls", asked).await.ok();
        decide(outer["id"].as_str().unwrap(), json!({"decision": "approve"})).await;
        let inner = waiting(&world, "write_file").await;
        decide(&inner, json!({"decision": "reject", "reason": "not today"})).await;
        let ended = ends(&world, outer["id"].as_str().unwrap()).await;
        assert_eq!(
            (&ended["status"], &ended["error"]["details"]["step"]),
            (&json!("failed"), &json!("kept")),
            "{ended:#}"
        );
        assert_eq!(ended["error"]["details"]["done"][0]["step"], "sum", "{ended:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_takes_back_what_waits_below() {
    every_world(async |world| {
        world.register(&As::Owner, writing()).await.ok();
        let asked = json!({"tool": "keepTheSum", "input": {"a": 2, "b": 3}, "wait": 0});
        let outer = world.send(&As::Owner, "POST", "/api/v1/calls", asked).await.ok();
        let outer = outer["id"].as_str().unwrap();
        let approve = json!({"decision": "approve"});
        world.send(&As::Owner, "POST", &format!("/api/v1/approvals/{outer}/decide?wait=0"), approve).await.ok();
        let inner = waiting(&world, "write_file").await;
        world.send(&As::Owner, "POST", &format!("/api/v1/calls/{outer}/cancel"), Value::Null).await.ok();
        assert_eq!(ends(&world, outer).await["status"], "cancelled");
        assert_eq!(ends(&world, &inner).await["status"], "cancelled");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_composition_lends_nobody_a_tool_that_they_may_not_call() {
    every_world(async |world| {
        world.register(&As::Owner, composition("sayTheSum", "none", chain(), None)).await.ok();
        let agent = json!({"name": "narrow", "toolset": "assigned", "custom_tools": ["sayTheSum", "calculator"]});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
        let key = json!({"name": "narrow-key", "agent": "narrow"});
        let key = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
        let key = As::Key(key["secret"].as_str().unwrap().to_owned());
        let answer = call(&world, &key, "sayTheSum").await;
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("not_found")));
        assert_eq!(error["details"]["step"], "said", "{answer:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_stays_the_version_that_it_was_judged_by() {
    every_world(async |world| {
        let own = |version: &str, cel: &str| {
            json!({
                "name": "addOne", "version": version, "description": "Adds one. Use it in tests.", "egress_class": "none",
                "input_schema": {"type": "object", "properties": {"n": {"type": "number"}}},
                "output_schema": {"type": "object"}, "runner": {"kind": "expression", "cel": cel}
            })
        };
        world.register(&As::Owner, own("1.0.0", "{'n': 1}")).await.ok();
        let steps = json!([{"id": "one", "tool": "addOne", "input": {"n": "{{ input.a }}"}}]);
        world.register(&As::Owner, composition("addTwo", "none", steps.clone(), None)).await.ok();
        world.register(&As::Owner, own("2.0.0", "{'n': 2}")).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/addTwo").await.ok();
        assert_eq!(shown["runner"]["steps"][0]["tool"], "addOne@1.0.0", "{shown:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_composition_is_never_answered_from_what_another_call_was_given() {
    every_world(async |world| {
        let mut definition = composition("sayTheSum", "none", chain(), None);
        definition["cache"] = "forever".into();
        definition["cache_scope"] = "tenant".into();
        world.register(&As::Owner, definition).await.ok();
        for _ in 0..2 {
            let answer = call(&world, &As::Owner, "sayTheSum").await;
            assert!(answer.get("cached").is_none_or(|cached| cached == false), "{answer:#}");
        }
        let runs = world.get(&As::Owner, "/api/v1/runs").await.ok();
        assert_eq!(runs["items"].as_array().unwrap().len(), 2, "each went through its steps");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_one_run_takes_the_steps_along_and_leaves_none_behind() {
    every_world(async |world| {
        let mut definition = writing();
        definition["timeout_ms"] = 2_500.into();
        world.register(&As::Owner, definition).await.ok();
        let run = world.send(&As::Owner, "POST", "/api/v1/runs", json!({"title": "t"})).await.ok();
        let token = json!({"scope": ["tool:*"], "run": run["id"]});
        let token = world.send(&As::Owner, "POST", "/api/v1/tokens", token).await.ok();
        let token = token["token"].as_str().unwrap_or_else(|| panic!("{token:#}")).to_owned();
        let asked = json!({"tool": "keepTheSum", "input": {"a": 2, "b": 3}, "wait": 0});
        let outer = world.send(&As::Key(token), "POST", "/api/v1/calls", asked).await.ok();
        let outer = outer["id"].as_str().unwrap();
        let approve = json!({"decision": "approve"});
        world.send(&As::Owner, "POST", &format!("/api/v1/approvals/{outer}/decide?wait=0"), approve).await.ok();
        let inner = waiting(&world, "write_file").await;
        assert_eq!(ends(&world, outer).await["status"], "failed", "nobody decided in time");
        assert_eq!(ends(&world, &inner).await["status"], "cancelled");
    })
    .await;
}
