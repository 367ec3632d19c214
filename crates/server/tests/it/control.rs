//! What holds from above: limits, kill switches, classification, and versions that never mean something else.

use serde_json::{Value, json};

use crate::world::{As, World, every_world, tool};

fn external(name: &str, extra: Value) -> Value {
    let mut definition = tool(name, json!({"egress_class": "write", "runner": {"kind": "external"}}));
    definition.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    definition
}

async fn key_of(world: &World, agent: &str) -> As {
    let made = world
        .send(&As::Owner, "POST", "/api/v1/keys", json!({"name": format!("{agent}-key"), "agent": agent}))
        .await
        .ok();
    As::Key(made["secret"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_tenant_s_limits_are_kept_by_canonical_names_and_refused_at_the_field() {
    every_world(async |world| {
        let put = async |who: &As, body| world.send(who, "PUT", "/api/v1/limits", body).await;
        assert_eq!(world.get(&As::Owner, "/api/v1/limits").await.ok(), json!({}));
        let limits = json!({
            "rate_limit": {"count": 100, "per_s": 60}, "agent_rate_limit": {"count": 10, "per_s": 1},
            "max_budget": "50", "max_parallel": 32,
            "tools": {"Append-Note": {"rate_limit": {"count": 5, "per_s": 60}, "max_budget": "1.5"}},
        });
        let set = put(&As::Owner, limits).await.ok();
        assert_eq!(set["max_budget"], "50.00");
        assert_eq!(set["tools"]["append_note"]["max_budget"], "1.50");
        assert_eq!(world.get(&As::Owner, "/api/v1/limits").await.ok(), set);
        for (body, status, pointer, word) in [
            (json!({"rate_limit": {"count": 0, "per_s": 1}}), 400, "/rate_limit", "zero"),
            (
                json!({"tools": {"echo": {"rate_limit": {"count": 1, "per_s": 0}}}}),
                400,
                "/tools/echo/rate_limit",
                "zero",
            ),
            (json!({"max_parallel": 0}), 400, "/max_parallel", "nothing"),
            (json!({"max_budget": "ten"}), 400, "/max_budget", "0.05"),
            (json!({"max_budget": "-1"}), 400, "/max_budget", "0.05"),
            (json!({"tools": {"calculater": {}}}), 404, "/tools/calculater", "did you mean `calculator`?"),
            (json!({"tools": {"echo": {}, "ECHO": {}}}), 400, "/tools/echo", "twice"),
            (json!({"rate": 5}), 400, "/rate", "rate_limit"),
        ] {
            let refused = put(&As::Owner, body).await.refused(status);
            assert_eq!(refused["pointer"], pointer, "{refused:#}");
            assert!(refused.to_string().contains(word), "{refused:#}");
        }
        assert_eq!(world.get(&As::Owner, "/api/v1/limits").await.ok(), set, "what is refused changes nothing");
        let author = world.user("default", "ann", &["author"]).await;
        put(&author, json!({})).await.refused(403);
        assert_eq!(world.get(&author, "/api/v1/limits").await.ok()["max_parallel"], 32);
        put(&As::Owner, json!({})).await.ok();
        assert_eq!(world.get(&As::Owner, "/api/v1/limits").await.ok(), json!({}));
    })
    .await;
}

#[tokio::test]
async fn amounts_of_agents_and_profiles_are_refused_at_the_field() {
    every_world(async |world| {
        let put = async |path: &str, body| world.send(&As::Owner, "PUT", path, body).await;
        world
            .send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob", "limits": {"max_budget": "2"}}))
            .await
            .ok();
        assert_eq!(world.get(&As::Owner, "/api/v1/agents/bob").await.ok()["limits"]["max_budget"], "2.00");
        for (path, body, pointer) in [
            ("/api/v1/agents/bob", json!({"name": "bob", "limits": {"max_budget": "1e9"}}), "/limits/max_budget"),
            (
                "/api/v1/agents/bob",
                json!({"name": "bob", "limits": {"rate_limit": {"count": 0, "per_s": 1}}}),
                "/limits/rate_limit",
            ),
            ("/api/v1/profiles/p", json!({"name": "p", "max_cost_per_call": "0.0000001"}), "/max_cost_per_call"),
            ("/api/v1/profiles/p", json!({"name": "p", "max_cost_per_day": 5}), "/max_cost_per_day"),
            ("/api/v1/profiles/p", json!({"name": "p", "rate_limit": {"count": 1, "per_s": 0}}), "/rate_limit"),
        ] {
            let refused = put(path, body).await.refused(400);
            assert_eq!(refused["pointer"], pointer, "{refused:#}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_kill_switch_takes_tools_away_and_says_why() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob"})).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "eve"})).await.ok();
        let (bob, eve) = (key_of(&world, "bob").await, key_of(&world, "eve").await);
        let put = async |who: &As, body| world.send(who, "PUT", "/api/v1/kill-switches", body).await;
        let all = world.names(&bob, "").await;
        for (switch, keeps, who, told) in [
            (
                json!({"scope": "tool", "name": "ECHO"}),
                all.len() - 1,
                &bob,
                "the tool `echo` is stopped by a kill switch: leaks",
            ),
            (json!({"scope": "agent", "name": "bob"}), 0, &bob, "the agent `bob` is stopped by a kill switch: leaks"),
            (json!({"scope": "tenant"}), 0, &eve, "everything is stopped by a kill switch: leaks"),
        ] {
            let with = |extra: Value| {
                let mut body = switch.clone();
                body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
                body
            };
            put(&As::Owner, with(json!({"on": true}))).await.refused(400);
            put(&As::Owner, with(json!({"on": true, "reason": " "}))).await.refused(400);
            put(&As::Owner, with(json!({"on": false}))).await.refused(404);
            put(&As::Owner, with(json!({"on": true, "reason": "leaks"}))).await.ok();
            assert_eq!(world.names(who, "").await.len(), keeps, "{switch}");
            // The name is no secret, and the reason is told.
            assert_eq!(world.get(who, "/api/v1/tools/echo").await.ok()["stopped"], told);
            let listed = world.get(&As::Owner, "/api/v1/kill-switches").await.ok();
            assert_eq!(
                (&listed["items"][0]["scope"], &listed["items"][0]["reason"]),
                (&switch["scope"], &json!("leaks"))
            );
            if switch["scope"] == "agent" {
                assert_eq!(world.names(&eve, "").await, all, "another agent goes on");
                let why = world.get(&As::Owner, "/api/v1/agents/bob/tools").await.ok();
                assert!(why["items"].as_array().unwrap().iter().all(|tool| tool["has"] == false), "{why:#}");
            }
            put(&As::Owner, with(json!({"on": false}))).await.ok();
            assert_eq!(world.names(&bob, "").await, all);
        }
        // Whoever has not got a tool learns nothing new of it.
        world.send(&As::Owner, "PUT", "/api/v1/agents/eve", json!({"name": "eve", "toolset": "assigned"})).await.ok();
        put(&As::Owner, json!({"scope": "tool", "name": "echo", "on": true, "reason": "leaks"})).await.ok();
        world.get(&eve, "/api/v1/tools/echo").await.refused(404);
        for body in [
            json!({"scope": "tool", "on": true, "reason": "x"}),
            json!({"scope": "tenant", "name": "default", "on": true, "reason": "x"}),
            json!({"scope": "world", "on": true, "reason": "x"}),
        ] {
            put(&As::Owner, body).await.refused(400);
        }
        put(&As::Owner, json!({"scope": "agent", "name": "nobody", "on": true, "reason": "x"})).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn what_an_administrator_stopped_an_author_does_not_start_again() {
    every_world(async |world| {
        let author = world.user("default", "ann", &["author"]).await;
        world.send(&As::Owner, "PATCH", "/api/v1/users/ann", json!({"workspaces": ["main"]})).await.ok();
        world.register(&author, tool("readRecord", json!({}))).await.ok();
        world.send(&author, "POST", "/api/v1/agents", json!({"name": "bob"})).await.ok();
        let put = async |who: &As, body| world.send(who, "PUT", "/api/v1/kill-switches", body).await;
        for (scope, name, path) in
            [("agent", "bob", "/api/v1/agents/bob"), ("tool", "readRecord", "/api/v1/tools/readRecord")]
        {
            let switch = |on: bool| json!({"scope": scope, "name": name, "on": on, "reason": "look at it"});
            put(&author, switch(true)).await.refused(403);
            put(&As::Owner, switch(true)).await.ok();
            put(&author, switch(false)).await.refused(403);
            world.send(&author, "DELETE", path, Value::Null).await.refused(403);
            world.send(&As::Owner, "DELETE", path, Value::Null).await.ok();
        }
        assert_eq!(world.get(&As::Owner, "/api/v1/kill-switches").await.ok()["items"], json!([]));
        world.register(&author, tool("readOther", json!({}))).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/tools/readOther/state", json!({"state": "blocked"})).await.ok();
        world.send(&author, "DELETE", "/api/v1/tools/readOther", Value::Null).await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn the_operator_s_kill_switch_holds_for_every_tenant() {
    every_world(async |world| {
        world.tenant("acme").await;
        let (acme, system) = (As::OwnerOf("acme"), As::OwnerOf("system"));
        let put = async |who: &As, body| world.send(who, "PUT", "/api/v1/kill-switches", body).await;
        put(&system, json!({"scope": "tool", "name": "echo", "on": true, "reason": "patched soon"})).await.ok();
        for who in [&acme, &As::Owner] {
            assert!(!world.names(who, "").await.contains(&"echo".to_owned()));
            let listed = world.get(who, "/api/v1/kill-switches").await.ok();
            assert_eq!(listed["items"][0]["everyone"], true);
            put(who, json!({"scope": "tool", "name": "echo", "on": false})).await.refused(404);
        }
        put(&system, json!({"scope": "tool", "name": "echo", "on": false})).await.ok();
        put(&acme, json!({"scope": "tool", "name": "echo", "on": true, "reason": "ours"})).await.ok();
        assert!(world.names(&As::Owner, "").await.contains(&"echo".to_owned()), "one tenant's is its own");
    })
    .await;
}

#[tokio::test]
async fn only_the_operator_says_that_a_tool_does_less_than_its_runner_might() {
    every_world(async |world| {
        let author = world.user("default", "ann", &["author"]).await;
        let admin = world.user("default", "adam", &["admin"]).await;
        world.tenant("ops").await;
        let operator = world.user("ops", "olga", &["operator"]).await;
        world.register(&author, external("lookUp", json!({}))).await.ok();
        world.register(&author, external("lookUp", json!({"egress_class": "none"}))).await.refused(400);
        let path = "/api/v1/tools/lookUp/classification";
        let body = json!({"egress_class": "none", "reason": "it only computes", "tenant": "default"});
        world.send(&author, "PUT", path, body.clone()).await.refused(403);
        world.send(&admin, "PUT", path, body.clone()).await.refused(403);
        let unfounded = json!({"egress_class": "none", "reason": " ", "tenant": "default"});
        world.send(&operator, "PUT", path, unfounded).await.refused(400);
        let nowhere = json!({"egress_class": "none", "reason": "x", "tenant": "nowhere"});
        world.send(&operator, "PUT", path, nowhere).await.refused(404);
        let before = world.get(&admin, "/api/v1/tools/lookUp").await.ok();
        world.send(&operator, "PUT", path, body.clone()).await.ok();

        let shown = world.get(&admin, "/api/v1/tools/lookUp").await.ok();
        assert_eq!((&shown["egress_class"], &shown["requires_approval"]), (&json!("none"), &json!(false)));
        let said = &shown["classification"];
        assert_eq!((&said["declared"], &said["floor"], &said["holds"]), (&json!("write"), &json!("write"), &json!(true)));
        assert!(said["classified_by"].as_str().unwrap().starts_with("user:"), "{said:#}");
        assert_ne!(before["behaviour_digest"], shown["behaviour_digest"], "grants of before are void");
        assert_eq!(world.get(&admin, "/api/v1/tools/lookUp/versions").await.ok()["items"][0]["behaviour_digest"], before["behaviour_digest"]);
        assert!(world.names(&admin, "class=none").await.contains(&"lookUp".to_owned()));
        // The same file again changes nothing, and a composition may now be as mild as its step.
        assert_eq!(world.register(&author, external("lookUp", json!({}))).await.ok()["action"], "unchanged");
        let steps = json!({"egress_class": "none", "sink": "open", "runner": {"kind": "composition", "steps": [{"id": "one", "tool": "lookUp", "input": {"id": "7"}}]}});
        world.register(&author, tool("lookTwice", steps)).await.ok();

        // Another behaviour has its own class again; a description has not.
        world.register(&author, external("lookUp", json!({"title": "Look it up"}))).await.ok();
        assert_eq!(world.get(&admin, "/api/v1/tools/lookUp").await.ok()["egress_class"], "none");
        let changed = world.register(&author, external("lookUp", json!({"timeout_ms": 100}))).await.ok();
        assert!(changed["findings"].to_string().contains("classification.lapsed"), "{changed:#}");
        let shown = world.get(&admin, "/api/v1/tools/lookUp").await.ok();
        assert_eq!((&shown["egress_class"], &shown["classification"]["holds"]), (&json!("write"), &json!(false)));
        assert!(shown["requires_approval"].as_bool().unwrap());

        world.send(&operator, "PUT", path, body).await.ok();
        assert_eq!(world.get(&admin, "/api/v1/tools/lookUp").await.ok()["egress_class"], "none");
        world.send(&admin, "DELETE", path, Value::Null).await.refused(403);
        world.send(&operator, "DELETE", &format!("{path}?tenant=default"), Value::Null).await.ok();
        assert_eq!(world.get(&admin, "/api/v1/tools/lookUp").await.ok()["egress_class"], "write");
        world.send(&operator, "DELETE", &format!("{path}?tenant=default"), Value::Null).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_class_is_raised_for_every_version_and_never_put_below_what_is_known() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({"risk": "safe"}))).await.ok();
        let classify = async |name: &str, body| {
            world.send(&As::Owner, "PUT", &format!("/api/v1/tools/{name}/classification"), body).await
        };
        classify("readRecord", json!({"egress_class": "write", "reason": "the GET deletes"})).await.ok();
        world.register(&As::Owner, tool("readRecord", json!({"risk": "safe", "timeout_ms": 500}))).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/readRecord").await.ok();
        assert_eq!(
            (&shown["egress_class"], &shown["requires_approval"], &shown["risk"], &shown["version"]),
            (&json!("write"), &json!(true), &json!("sensitive"), &json!("2.0.0"))
        );
        classify("readRecord", json!({"egress_class": "write", "changes_state": false, "reason": "x"})).await.refused(400);
        classify("append_note", json!({"egress_class": "none", "changes_state": false, "reason": "x"})).await.refused(400);
        classify("echo", json!({"egress_class": "write", "reason": "careful"})).await.ok();
        assert_eq!(world.get(&As::Owner, "/api/v1/tools/echo").await.ok()["requires_approval"], true);
        classify("echo", json!({"egress_class": "none", "reason": "never mind"})).await.ok();
        world.register(&As::Owner, external("sendIt", json!({}))).await.ok();
        let steps = json!({"egress_class": "write", "sink": "open", "runner": {"kind": "composition", "steps": [{"id": "one", "tool": "sendIt", "input": {"id": "7"}}]}});
        world.register(&As::Owner, tool("sendTwice", steps)).await.ok();
        let refused = classify("sendTwice", json!({"egress_class": "none", "reason": "x"})).await.refused(400);
        assert_eq!(refused["pointer"], "/egress_class");
        classify("nothing", json!({"egress_class": "none", "reason": "x"})).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_published_version_never_means_something_else() {
    every_world(async |world| {
        let register = async |extra| world.register(&As::Owner, tool("readRecord", extra)).await;
        let delete = async || world.send(&As::Owner, "DELETE", "/api/v1/tools/readRecord", Value::Null).await.ok();
        register(json!({})).await.ok();
        register(json!({"timeout_ms": 500})).await.ok();
        delete().await;
        // Another definition steps over what was used; the old one is what it was.
        assert_eq!(register(json!({"timeout_ms": 900})).await.ok()["version"], "3.0.0");
        delete().await;
        let refused = register(json!({"version": "1.0.0", "timeout_ms": 100})).await.refused(409);
        assert_eq!(refused["pointer"], "/version");
        assert!(refused["remedy"].as_str().unwrap().contains("4.0.0"), "{refused:#}");
        assert_eq!(register(json!({})).await.ok()["version"], "1.0.0", "the same definition as before");
        assert_eq!(register(json!({"timeout_ms": 700})).await.ok()["version"], "4.0.0", "2 and 3 meant others");
        register(json!({"version": "4.0.0", "timeout_ms": 800})).await.refused(409);
        let other = world.register(&As::OwnerOf("system"), tool("readElse", json!({}))).await.ok();
        assert_eq!(other["version"], "1.0.0");
    })
    .await;
}

#[tokio::test]
async fn usage_is_the_tenant_s_own_and_comes_as_json_or_csv() {
    every_world(async |world| {
        let viewer = world.user("default", "vera", &["viewer"]).await;
        let service = world.user("default", "sam", &["service"]).await;
        assert_eq!(world.get(&viewer, "/api/v1/usage").await.ok(), json!({"items": [], "next_cursor": null}));
        world.get(&service, "/api/v1/usage").await.refused(403);
        for (query, pointer) in
            [("from=2026-13-01", "/from"), ("from=2026-11-20&to=2026-11-01", "/from"), ("to=soon", "/to")]
        {
            assert_eq!(world.get(&viewer, &format!("/api/v1/usage?{query}")).await.refused(400)["pointer"], pointer);
        }
        world.get(&viewer, "/api/v1/usage?by=colour").await.refused(400);
        world.get(&viewer, "/api/v1/usage?tool=nothing").await.refused(404);
        world.get(&viewer, "/api/v1/usage?agent=nobody").await.refused(404);
        let csv = world.get(&viewer, "/api/v1/usage?format=csv&by=day").await;
        assert_eq!(csv.status, 200);
        assert!(csv.headers["content-type"].to_str().unwrap().starts_with("text/csv"));
    })
    .await;
}

#[tokio::test]
async fn what_was_called_is_summed_and_what_is_stopped_is_refused_with_the_reason() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob"})).await.ok();
        let bob = key_of(&world, "bob").await;
        let call = async |who: &As, tool: &str, input: Value| {
            world.send(who, "POST", "/api/v1/calls", json!({"tool": tool, "input": input})).await.ok()
        };
        for _ in 0..3 {
            assert_eq!(call(&As::Owner, "echo", json!({"text": "a"})).await["status"], "completed");
        }
        assert_eq!(call(&bob, "echo", json!({"text": "b"})).await["status"], "completed");
        assert_eq!(call(&bob, "calculator", json!({"expression": "1/0"})).await["status"], "failed");
        let stop = json!({"scope": "tool", "name": "echo", "on": true, "reason": "it leaks"});
        world.send(&As::Owner, "PUT", "/api/v1/kill-switches", stop).await.ok();
        let refused = call(&bob, "echo", json!({"text": "c"})).await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["details"]["reason"]),
            (&json!("POLICY_DENIED"), &json!("frozen"))
        );
        assert!(refused["error"]["message"].as_str().unwrap().contains("it leaks"), "{refused:#}");

        let rows = async |query: &str| {
            let page = world.get(&As::Owner, &format!("/api/v1/usage?{query}")).await.ok();
            let row = |row: &Value| {
                (
                    row["key"].as_str().map(str::to_owned),
                    row["calls"].as_i64().unwrap(),
                    row["failed"].as_i64().unwrap(),
                )
            };
            page["items"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
        };
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(rows("by=tool").await, [(key("calculator"), 1, 1), (key("echo"), 5, 1)]);
        assert_eq!(rows("by=agent").await, [(key("bob"), 3, 2), (None, 3, 0)]);
        assert_eq!(rows("by=tenant").await, [(key("default"), 6, 2)]);
        assert_eq!(rows("by=tool&agent=bob&tool=echo").await, [(key("echo"), 2, 1)]);
        assert_eq!(rows("by=tool&from=2020-01-01&to=2020-01-02").await, []);
        // A tool that one may not know of is a sum without a name.
        world
            .send(&As::Owner, "PUT", "/api/v1/tools/calculator/override", json!({"required_permission": "math.do"}))
            .await
            .ok();
        let viewer = world.user("default", "vera", &["viewer"]).await;
        let seen = world.get(&viewer, "/api/v1/usage").await.ok();
        assert_eq!(seen["items"][1]["key"], Value::Null, "{seen:#}");
        world.get(&viewer, "/api/v1/usage?tool=calculator").await.refused(404);
        world.tenant("acme").await;
        assert_eq!(world.get(&As::OwnerOf("acme"), "/api/v1/usage").await.ok()["items"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn a_profile_s_rate_and_a_tenant_s_hold() {
    every_world(async |world| {
        let profile = json!({"name": "slow", "rate_limit": {"count": 1, "per_s": 60}});
        world.send(&As::Owner, "PUT", "/api/v1/profiles/slow", profile).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob", "profile": "slow"})).await.ok();
        let bob = key_of(&world, "bob").await;
        let call = async |who: &As| {
            world.send(who, "POST", "/api/v1/calls", json!({"tool": "echo", "input": {"text": "a"}})).await.ok()
        };
        assert_eq!(call(&bob).await["status"], "completed");
        let refused = call(&bob).await;
        assert_eq!(refused["error"]["code"], "RATE_LIMIT", "{refused:#}");
        assert!(refused["error"]["retry_after_s"].as_u64().is_some_and(|wait| (1..=60).contains(&wait)), "{refused:#}");
        let limits = json!({"tools": {"echo": {"rate_limit": {"count": 2, "per_s": 60}}}});
        world.send(&As::Owner, "PUT", "/api/v1/limits", limits).await.ok();
        let codes: Vec<_> = [call(&As::Owner).await, call(&As::Owner).await, call(&As::Owner).await]
            .map(|answer| answer["error"]["code"].as_str().map(str::to_owned))
            .into();
        assert_eq!(codes, [None, None, Some("RATE_LIMIT".to_owned())]);
    })
    .await;
}
