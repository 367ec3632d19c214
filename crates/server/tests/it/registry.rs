//! Registering, versions, states, overrides, search: what holds for every tool.

use serde_json::json;

use crate::world::{As, every_world, tool, write_tool};

#[tokio::test]
async fn a_registered_tool_is_there_at_once_and_a_dry_run_writes_nothing() {
    every_world(async |world| {
        let dry = world
            .send(&As::Owner, "POST", "/api/v1/tools", json!({"definition": tool("readRecord", json!({}))}))
            .await
            .ok();
        assert_eq!(
            (dry["action"].as_str(), dry["applied"].as_bool(), dry["version"].as_str()),
            (Some("create"), Some(false), Some("1.0.0"))
        );
        world.get(&As::Owner, "/api/v1/tools/readRecord").await.refused(404);

        let answer = world.register(&As::Owner, tool("readRecord", json!({}))).await;
        assert!(answer.headers.contains_key("toolgate-revision"));
        assert_eq!(answer.ok()["applied"], true);
        let shown = world.get(&As::Owner, "/api/v1/tools/readRecord").await.ok();
        assert_eq!(
            (shown["key"].as_str(), shown["risk"].as_str(), shown["requires_approval"].as_bool()),
            (Some("readRecord"), Some("sensitive"), Some(false))
        );
        assert_eq!(
            (shown["side_effects"].as_str(), shown["type"].as_str(), shown["sink"].as_str()),
            (Some("reads"), Some("api"), Some("fixed"))
        );
        for spelling in ["read_record", "READRECORD", "read-record"] {
            assert_eq!(world.get(&As::Owner, &format!("/api/v1/tools/{spelling}")).await.ok()["name"], "readRecord");
        }
        assert!(world.names(&As::Owner, "").await.contains(&"readRecord".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_tool_without_a_runner_here_says_so_in_the_list_and_by_itself() {
    every_world(async |world| {
        let external = json!({"egress_class": "write", "runner": {"kind": "external"}});
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        world.register(&As::Owner, tool("askWorker", external)).await.ok();
        let told = "tools of kind `http` cannot run on this server: it has no runner for them";
        let listed = world.get(&As::Owner, "/api/v1/tools").await.ok();
        for (name, why_not) in [("readRecord", json!(told)), ("askWorker", json!(null))] {
            let shown = world.get(&As::Owner, &format!("/api/v1/tools/{name}")).await.ok();
            let row = listed["items"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
            for one in [&shown, row] {
                assert_eq!((&one["runnable"], &one["why_not"]), (&json!(why_not.is_null()), &why_not), "{one:#}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn versions_are_counted_by_the_class_of_the_change_and_never_change() {
    every_world(async |world| {
        let register = async |extra| world.register(&As::Owner, tool("readRecord", extra)).await;
        register(json!({})).await.ok();
        let same = register(json!({})).await.ok();
        assert_eq!((same["action"].as_str(), same["applied"].as_bool()), (Some("unchanged"), Some(false)));

        let words = register(json!({"description": "Reads a record by its number. Use it when the number is known. Do not use it to search for one."})).await.ok();
        assert_eq!((words["version"].as_str(), words["difference"]["class"].as_str()), (Some("1.0.1"), Some("description")));
        let wider = register(json!({"input_schema": {
            "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": {
                "id": {"type": "string", "description": "The record's number.", "maxLength": 40},
                "part": {"type": "string", "description": "Only this part."},
            },
        }})).await.ok();
        assert_eq!((wider["version"].as_str(), wider["difference"]["class"].as_str()), (Some("1.1.0"), Some("widening")), "{wider:#}");
        let breaking = register(json!({})).await.ok();
        assert_eq!(breaking["version"], "2.0.0", "{breaking:#}");

        register(json!({"version": "1.0.1"})).await.ok();
        let lower = register(json!({"version": "1.5.0", "timeout_ms": 1000})).await.refused(409);
        assert_eq!(lower["pointer"], "/version");
        let taken = register(json!({"version": "2.0.0", "timeout_ms": 1000})).await.refused(409);
        assert!(taken["detail"].as_str().unwrap().contains("cannot change"), "{taken:#}");

        let versions = world.get(&As::Owner, "/api/v1/tools/readRecord/versions").await.ok();
        let numbers: Vec<_> = versions["items"].as_array().unwrap().iter().map(|row| row["version"].as_str().unwrap()).collect();
        assert_eq!(numbers, ["2.0.0", "1.1.0", "1.0.1", "1.0.0"]);
        let digests: std::collections::BTreeSet<_> = versions["items"].as_array().unwrap().iter().map(|row| row["input_schema_digest"].to_string()).collect();
        assert_eq!(digests.len(), 2, "schemas are kept by content");
        assert_eq!(world.get(&As::Owner, "/api/v1/tools/readRecord@1.0.0").await.ok()["version"], "1.0.0");
        world.get(&As::Owner, "/api/v1/tools/readRecord@9.0.0").await.refused(404);
        let diff = world.get(&As::Owner, "/api/v1/tools/readRecord/diff?from=1.0.1&to=1.1.0").await.ok();
        assert_eq!(diff["class"], "widening");
        assert!(diff["text"].as_str().unwrap().contains("part"));
    })
    .await;
}

#[tokio::test]
async fn names_that_look_alike_are_one_name() {
    every_world(async |world| {
        world
            .register(
                &As::Owner,
                tool("readRecord", json!({"aliases": [{"name": "fetchRecord", "remove_by": "2099-01-01"}]})),
            )
            .await
            .ok();
        for taken in ["read_record", "ReadRecord", "readRec0rd", "Calculator", "ca1culator", "fetch_record"] {
            let refused = world.register(&As::Owner, tool(taken, json!({}))).await.refused(409);
            assert_eq!(refused["pointer"], "/name", "{taken}");
        }
        let by_alias = world.get(&As::Owner, "/api/v1/tools/fetchRecord").await.ok();
        assert_eq!(
            (by_alias["name"].as_str(), by_alias["alias_used"]["name"].as_str()),
            (Some("readRecord"), Some("fetchRecord"))
        );
        world.register(&As::Owner, tool("other", json!({"aliases": [{"name": "calculator"}]}))).await.refused(409);
    })
    .await;
}

#[tokio::test]
async fn an_old_name_works_until_its_day() {
    every_world(async |world| {
        world
            .register(
                &As::Owner,
                tool("readRecord", json!({"aliases": [{"name": "oldRecord", "remove_by": "2026-11-20"}]})),
            )
            .await
            .ok();
        world.get(&As::Owner, "/api/v1/tools/oldRecord").await.ok();
        world.clock.advance(10 * 86_400);
        world.get(&As::Owner, "/api/v1/tools/oldRecord").await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn what_understates_its_effects_is_refused() {
    every_world(async |world| {
        let post = json!({"kind": "http", "method": "POST", "url": "https://records.example.com/"});
        let refuse = async |extra, pointer: &str| {
            let refused = world.register(&As::Owner, tool("changeRecord", extra)).await.refused(400);
            let findings = refused["details"]["findings"].as_array().unwrap();
            assert!(
                findings.iter().any(|finding| finding["pointer"].as_str().unwrap().starts_with(pointer)),
                "{refused:#}"
            );
        };
        refuse(json!({"runner": post}), "/egress_class").await;
        refuse(json!({"runner": post, "egress_class": "write", "risk": "safe"}), "/risk").await;
        refuse(json!({"runner": post, "egress_class": "write", "cache": "forever"}), "/cache").await;
        refuse(
            json!({"input_schema": {"type": "object", "properties": {"a": {"$ref": "https://evil.test/s.json"}}}}),
            "/input_schema",
        )
        .await;
        refuse(
            json!({"input_schema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}}),
            "/input_schema",
        )
        .await;
        refuse(json!({"input_schema": {"type": "array"}}), "/input_schema").await;
        world
            .register(&As::Owner, tool("useFunction", json!({"runner": {"kind": "builtin", "function": "echo"}})))
            .await
            .refused(403);
        let unknown = world.register(&As::Owner, tool("odd", json!({"egres_class": "none"}))).await.refused(400);
        assert!(unknown.to_string().contains("egress_class"), "a suggestion: {unknown:#}");
    })
    .await;
}

#[tokio::test]
async fn a_write_tool_always_asks_whatever_its_author_says() {
    every_world(async |world| {
        let mut definition = write_tool("changeRecord");
        definition["requires_approval"] = json!(false);
        world.register(&As::Owner, definition).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/changeRecord").await.ok();
        assert_eq!(
            (shown["requires_approval"].as_bool(), shown["risk"].as_str(), shown["hitl"]["mode"].as_str()),
            (Some(true), Some("critical"), Some("blocking"))
        );
    })
    .await;
}

#[tokio::test]
async fn states_hide_deprecate_and_block() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        world.register(&As::Owner, tool("readRecord", json!({"timeout_ms": 500}))).await.ok();
        let put = async |path: &str, body| world.send(&As::Owner, "PUT", path, body).await;
        put("/api/v1/tools/readRecord@2.0.0/state", json!({"state": "blocked", "message": "leaks"})).await.ok();
        assert_eq!(
            world.get(&As::Owner, "/api/v1/tools/readRecord").await.ok()["version"],
            "1.0.0",
            "the highest active one"
        );

        put(
            "/api/v1/tools/readRecord@1.0.0/state",
            json!({"state": "deprecated", "replaced_by": "fetchRecord", "remove_by": "2027-01-31"}),
        )
        .await
        .ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/readRecord").await.ok();
        assert_eq!((shown["state"].as_str(), shown["replaced_by"].as_str()), (Some("deprecated"), Some("fetchRecord")));
        assert!(!world.names(&As::Owner, "").await.contains(&"readRecord".to_owned()), "hidden from selectors");
        assert!(world.names(&As::Owner, "state=deprecated").await.contains(&"readRecord".to_owned()));

        put("/api/v1/tools/readRecord/state", json!({"state": "blocked"})).await.ok();
        assert!(world.names(&As::Owner, "state=blocked").await.contains(&"readRecord".to_owned()));
        put("/api/v1/tools/readRecord/state", json!({"state": "active"})).await.ok();
        assert!(world.names(&As::Owner, "").await.contains(&"readRecord".to_owned()));
        put("/api/v1/tools/readRecord/state", json!({"state": "deprecated", "remove_by": "soon"})).await.refused(400);
    })
    .await;
}

#[tokio::test]
async fn overrides_tighten_and_rename_and_never_loosen() {
    every_world(async |world| {
        let set = async |body| world.send(&As::Owner, "PUT", "/api/v1/tools/calculator/override", body).await;
        set(json!({"name": "reckon", "requires_approval": true, "timeout_ms": 100})).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/reckon").await.ok();
        assert_eq!(
            (shown["name"].as_str(), shown["requires_approval"].as_bool(), shown["timeout_ms"].as_i64()),
            (Some("reckon"), Some(true), Some(100))
        );
        assert_eq!(
            world.get(&As::Owner, "/api/v1/tools/calculator").await.ok()["name"],
            "reckon",
            "the canonical name still works"
        );
        set(json!({"requires_approval": false})).await.refused(400);
        set(json!({"timeout_ms": 99_999})).await.refused(400);
        set(json!({"name": "echo"})).await.refused(409);
        world.send(&As::Owner, "DELETE", "/api/v1/tools/calculator/override", json!(null)).await.ok();
        assert_eq!(world.get(&As::Owner, "/api/v1/tools/calculator").await.ok()["requires_approval"], false);
        world.register(&As::Owner, tool("own", json!({}))).await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/tools/own/override", json!({"title": "x"})).await.refused(400);
    })
    .await;
}

#[tokio::test]
async fn a_tool_in_use_cannot_be_deleted() {
    every_world(async |world| {
        world.send(&As::Owner, "DELETE", "/api/v1/tools/calculator", json!(null)).await.refused(409);
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        let composed = tool(
            "twice",
            json!({"sink": "fixed", "runner": {"kind": "composition", "steps": [{"id": "a", "tool": "readRecord", "input": {"id": "7"}}]}}),
        );
        world.register(&As::Owner, composed).await.ok();
        let refused = world.send(&As::Owner, "DELETE", "/api/v1/tools/readRecord", json!(null)).await.refused(409);
        assert!(refused["detail"].as_str().unwrap().contains("twice"), "{refused:#}");
        world.send(&As::Owner, "DELETE", "/api/v1/tools/twice", json!(null)).await.ok();
        world.send(&As::Owner, "DELETE", "/api/v1/tools/readRecord", json!(null)).await.ok();
        world.get(&As::Owner, "/api/v1/tools/readRecord").await.refused(404);
        let missing = tool(
            "twice",
            json!({"sink": "fixed", "runner": {"kind": "composition", "steps": [{"id": "a", "tool": "readRecord", "input": {"id": "7"}}]}}),
        );
        world.register(&As::Owner, missing).await.refused(400);
    })
    .await;
}

#[tokio::test]
async fn search_finds_what_is_meant_and_only_what_one_has() {
    every_world(async |world| {
        world
            .send(
                &As::Owner,
                "POST",
                "/api/v1/agents",
                json!({"name": "mailer", "description": "Writes and sends messages"}),
            )
            .await
            .ok();
        let search =
            async |query: &str| world.get(&As::Owner, &format!("/api/v1/search?{query}")).await.ok()["items"].clone();
        let hits = search("q=send%20a%20notification").await;
        assert_eq!(
            (hits[0]["name"].as_str(), hits[0]["kind"].as_str(), hits[0]["risk"].as_str()),
            (Some("send_email"), Some("tool"), Some("critical"))
        );
        assert_eq!(search("q=calcluator").await[0]["name"], "calculator");
        assert_eq!(search("q=mailer&kind=agent").await[0]["kind"], "agent");
        world.get(&As::Owner, "/api/v1/search?q=").await.refused(400);
        world.send(&As::Owner, "PUT", "/api/v1/tools/send_email/enabled", json!({"enabled": false})).await.ok();
        assert!(
            search("q=send_email&kind=tool").await.as_array().unwrap().iter().all(|hit| hit["name"] != "send_email")
        );
    })
    .await;
}

#[tokio::test]
async fn lists_filter_and_page_and_cursors_belong_to_their_list() {
    every_world(async |world| {
        for number in 0..12 {
            world
                .register(&As::Owner, tool(&format!("readRecord{number:02}"), json!({"category": "creative/prints"})))
                .await
                .ok();
        }
        assert_eq!(world.names(&As::Owner, "category=creative").await.len(), 12, "a category holds those below it");
        assert_eq!(world.names(&As::Owner, "origin=code").await.len(), toolgate_toolbox::TOOLS.len());
        let critical = world.names(&As::Owner, "risk=critical").await;
        assert!(
            critical.iter().any(|name| name == "write_file") && !critical.iter().any(|name| name == "echo"),
            "{critical:?}"
        );
        let first = world.get(&As::Owner, "/api/v1/tools?category=creative&limit=5").await.ok();
        let cursor = first["next_cursor"].as_str().unwrap();
        let second =
            world.get(&As::Owner, &format!("/api/v1/tools?category=creative&limit=5&cursor={cursor}")).await.ok();
        assert_eq!(second["items"][0]["name"], "readRecord05");
        world.get(&As::Owner, &format!("/api/v1/tools?category=system&cursor={cursor}")).await.refused(400);
        world.tenant("other").await;
        world
            .get(&As::OwnerOf("other"), &format!("/api/v1/tools?category=creative&cursor={cursor}"))
            .await
            .refused(400);
        world.get(&As::Owner, "/api/v1/tools?limit=0").await.refused(400);
        world.get(&As::Owner, "/api/v1/tools?colour=red").await.refused(400);
        let categories = world.get(&As::Owner, "/api/v1/categories").await.ok();
        let built_in = categories["items"].as_array().unwrap().iter().filter(|row| row["built_in"] == true).count();
        assert_eq!(built_in, 13);
    })
    .await;
}

#[tokio::test]
async fn a_list_by_words_is_best_first_and_says_what_a_call_would_meet() {
    every_world(async |world| {
        assert_eq!(world.names(&As::Owner, "q=wait%20some%20seconds").await[0], "wait");
        assert!(!world.names(&As::Owner, "q=wait&risk=critical").await.contains(&"wait".to_owned()), "filters hold");
        world.get(&As::Owner, "/api/v1/tools?q=%20").await.refused(400);

        let row = async |who: &As, name: &str| {
            let list = world.get(who, "/api/v1/tools?limit=500&stopped=true").await.ok();
            list["items"].as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned().unwrap()
        };
        let lacks = json!([{"name": "SIGNING_KEY", "required": true, "purpose": "The key that both sides hold.",
            "scope": null, "given": false}]);
        assert_eq!(row(&As::Owner, "signText").await["secrets"], lacks);
        let key = json!({"value": "a key for the example", "tools": ["signText"]});
        world.send(&As::Owner, "PUT", "/api/v1/secrets/org/SIGNING_KEY", key).await.ok();
        let standing = row(&As::Owner, "signText").await["secrets"][0].clone();
        assert_eq!((standing["scope"].as_str(), standing["given"].as_bool()), (Some("org"), Some(true)));
        let viewer = world.user("default", "eve", &["viewer"]).await;
        assert_eq!(row(&viewer, "signText").await["secrets"], json!([]), "who may not call is told nothing");

        let stop = json!({"scope": "tool", "name": "echo", "on": true, "reason": "It repeats itself"});
        world.send(&As::Owner, "PUT", "/api/v1/kill-switches", stop).await.ok();
        assert!(!world.names(&As::Owner, "").await.contains(&"echo".to_owned()));
        assert!(row(&As::Owner, "echo").await["stopped"].as_str().unwrap().contains("It repeats itself"));
        assert_eq!(row(&As::Owner, "wait").await["stopped"], json!(null));

        world.send(&As::Owner, "PUT", "/api/v1/tools/now/state", json!({"state": "deprecated"})).await.ok();
        assert!(!world.names(&As::Owner, "").await.contains(&"now".to_owned()));
        let both = world.names(&As::Owner, "deprecated=true").await;
        assert!(both.contains(&"now".to_owned()) && both.contains(&"wait".to_owned()), "{both:?}");
    })
    .await;
}

#[tokio::test]
async fn renderings_come_from_the_same_definition() {
    every_world(async |world| {
        let openai = world.get(&As::Owner, "/api/v1/tools/calculator?as=openai").await.ok();
        assert_eq!(openai["function"]["name"], "calculator");
        let base = world.get(&As::Owner, "/api/v1/tools/append_note?as=base-tool").await.ok();
        assert_eq!(base["metadata"]["side_effects"], "writes");
        let meta = world.get(&As::Owner, "/api/v1/tools?view=meta").await.ok();
        let members: Vec<_> = meta["items"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            members,
            ["slug", "name", "description", "category", "icon", "collaborative", "outputSections", "tenantSlugs"],
            "nine, of which one is absent"
        );
        world.get(&As::Owner, "/api/v1/tools/calculator?as=cobol").await.refused(400);
        let draft = tool(
            "oldSchema",
            json!({"input_schema": {
                "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
                "properties": {"id": {"$ref": "#/definitions/id"}}, "required": ["id"],
                "definitions": {"id": {"type": "string", "description": "Its number."}},
            }}),
        );
        world.register(&As::Owner, draft).await.ok();
        let converted = world.get(&As::Owner, "/api/v1/tools/oldSchema").await.ok();
        assert!(converted["input_schema"]["$defs"].is_object(), "{converted:#}");
        let base = world.get(&As::Owner, "/api/v1/tools/oldSchema?as=base-tool").await.ok();
        assert!(base["input_schema"]["definitions"].is_object(), "{base:#}");
    })
    .await;
}

#[tokio::test]
async fn a_blocked_version_stays_blocked_and_a_pre_release_holds_nothing_up() {
    every_world(async |world| {
        let register = async |extra| world.register(&As::Owner, tool("readRecord", extra)).await;
        register(json!({})).await.ok();
        register(json!({"timeout_ms": 500})).await.ok();
        let state = async |path: &str, body| world.send(&As::Owner, "PUT", &format!("/api/v1/tools/{path}/state"), body).await.ok();
        state("readRecord@1.0.0", json!({"state": "blocked", "message": "leaks"})).await;
        let activated = state("readRecord", json!({"state": "active"})).await;
        assert_eq!(activated["changed_versions"], json!(["2.0.0"]));
        assert_eq!(world.get(&As::Owner, "/api/v1/tools/readRecord@1.0.0").await.ok()["message"], "leaks");
        state("readRecord", json!({"state": "blocked"})).await;
        assert_eq!(state("readRecord", json!({"state": "active"})).await["changed_versions"], json!(["2.0.0", "1.0.0"]));

        register(json!({"timeout_ms": 400, "version": "3.0.0-rc.1"})).await.ok();
        let words = register(json!({"timeout_ms": 500, "description": "Reads a record by its number. Use it when the number is known. Do not search with it."})).await.ok();
        assert_eq!((words["current"].as_str(), words["version"].as_str()), (Some("2.0.0"), Some("2.0.1")), "{words:#}");
        assert_eq!(world.get(&As::Owner, "/api/v1/tools/readRecord").await.ok()["version"], "2.0.1");
        register(json!({"timeout_ms": 300, "version": "3.0.0-rc.1"})).await.refused(409);
    })
    .await;
}

#[tokio::test]
async fn who_else_may_have_a_tool_is_said_only_of_shared_ones() {
    every_world(async |world| {
        let refused = world.register(&As::Owner, tool("mine", json!({"tenants": ["default"]}))).await.refused(400);
        assert_eq!(refused["pointer"], "/tenants");
        world.register(&As::Owner, tool("mine", json!({"opt_in": true}))).await.refused(400);
        world.register(&As::OwnerOf("system"), tool("ours", json!({"tenants": ["default"]}))).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/tools/ours").await.ok();
        assert_eq!(
            (shown["shared"].as_bool(), shown["collaborative"].as_bool(), shown["aggregate"].is_null()),
            (Some(true), Some(false), true)
        );
    })
    .await;
}

#[tokio::test]
async fn every_list_is_paged_and_knows_its_parameters() {
    every_world(async |world| {
        for number in 0..3 {
            world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": format!("a{number}")})).await.ok();
            world.send(&As::Owner, "PUT", &format!("/api/v1/agents/a{number}/tools/echo"), json!({})).await.ok();
            world
                .send(&As::Owner, "PUT", &format!("/api/v1/profiles/p{number}"), json!({"name": format!("p{number}")}))
                .await
                .ok();
            world.send(&As::Owner, "POST", "/api/v1/workspaces", json!({"slug": format!("w{number}")})).await.ok();
            world.send(&As::Owner, "POST", "/api/v1/users", json!({"name": format!("u{number}")})).await.ok();
            world.send(&As::Owner, "POST", "/api/v1/keys", json!({"name": format!("k{number}")})).await.ok();
            world.tenant(&format!("t{number}")).await;
        }
        for list in ["agents", "profiles", "workspaces", "users", "keys", "tenants", "assignments", "tools"] {
            let first = world.get(&As::Owner, &format!("/api/v1/{list}?limit=2")).await.ok();
            assert_eq!(first["items"].as_array().unwrap().len(), 2, "{list}");
            let cursor = first["next_cursor"].as_str().unwrap_or_else(|| panic!("{list} has no next page"));
            let second = world.get(&As::Owner, &format!("/api/v1/{list}?limit=2&cursor={cursor}")).await.ok();
            assert_ne!(first["items"][1], second["items"][0], "{list}");
            world.get(&As::Owner, &format!("/api/v1/{list}?bogus=1")).await.refused(400);
            world.get(&As::Owner, &format!("/api/v1/{list}?cursor=AAAA")).await.refused(400);
            world.get(&As::Owner, &format!("/api/v1/{list}?limit=501")).await.refused(400);
        }
        world.get(&As::Owner, "/api/v1/categories?bogus=1").await.refused(400);
        world.send(&As::Owner, "PATCH", "/api/v1/categories", json!({})).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_rename_takes_a_name_like_any_other() {
    every_world(async |world| {
        let rename = async |tool: &str, name: &str| {
            world.send(&As::Owner, "PUT", &format!("/api/v1/tools/{tool}/override"), json!({"name": name})).await
        };
        rename("echo", "mailOut").await.ok();
        rename("now", "mail_out").await.refused(409);
        world.register(&As::Owner, tool("mailout", json!({}))).await.refused(409);
        world.register(&As::Owner, tool("collectMail", json!({"aliases": [{"name": "mailOut"}]}))).await.refused(409);
        assert_eq!(
            world.get(&As::Owner, "/api/v1/tools/mailOut").await.ok()["id"],
            world.get(&As::Owner, "/api/v1/tools/echo").await.ok()["id"]
        );
        let (left, right) = tokio::join!(rename("wait", "same"), world.register(&As::Owner, tool("same", json!({}))));
        let mut statuses = [left.status, right.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    })
    .await;
}

#[tokio::test]
async fn an_override_meets_later_versions_and_never_loosens_them() {
    every_world(async |world| {
        let system = As::OwnerOf("system");
        world.register(&system, tool("payroll", json!({"hosts": ["records.example.com"]}))).await.ok();
        let set = async |body| world.send(&As::Owner, "PUT", "/api/v1/tools/payroll/override", body).await;
        set(json!({"hosts": []})).await.refused(400);
        set(json!({"hosts": ["evil.test"]})).await.refused(400);
        set(json!({"required_permission": "tools.read"})).await.ok();
        world
            .register(
                &system,
                tool("payroll", json!({"hosts": ["records.example.com"], "required_permission": "payroll.read"})),
            )
            .await
            .ok();
        let viewer = world.user("default", "vera", &["viewer"]).await;
        world.get(&viewer, "/api/v1/tools/payroll").await.refused(404);
    })
    .await;
}
