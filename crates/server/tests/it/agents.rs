//! An agent's tool set is one function: the list of its key, the explanation and the look-up agree.

use serde_json::{Value, json};

use crate::world::{As, World, every_world, tool, write_tool};

async fn explained(world: &World, agent: &str) -> Vec<(String, bool, String)> {
    let list = world.get(&As::Owner, &format!("/api/v1/agents/{agent}/tools")).await.ok();
    let row = |row: &Value| {
        (
            row["name"].as_str().unwrap().to_owned(),
            row["has"].as_bool().unwrap(),
            row["why"].as_str().unwrap().to_owned(),
        )
    };
    list["items"].as_array().unwrap().iter().map(row).collect()
}

async fn key_of(world: &World, agent: &str) -> As {
    let made = world
        .send(&As::Owner, "POST", "/api/v1/keys", json!({"name": format!("{agent}-key"), "agent": agent}))
        .await
        .ok();
    As::Key(made["secret"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_set_is_the_same_wherever_it_is_asked_for() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        world.register(&As::Owner, write_tool("changeRecord")).await.ok();
        world.register(&As::Owner, write_tool("archiveRecord")).await.ok();
        world.register(&As::Owner, tool("webRecord", json!({"group": "web"}))).await.ok();
        let create = async |spec| world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
        create(json!({"name": "open"})).await;
        create(
            json!({"name": "closed", "toolset": "assigned", "custom_tools": ["readRecord"], "tool_groups": ["web"]}),
        )
        .await;
        world.send(&As::Owner, "PUT", "/api/v1/agents/open/tools/changeRecord", json!({})).await.ok();

        for agent in ["open", "closed"] {
            let key = key_of(&world, agent).await;
            let listed = world.names(&key, "").await;
            let explained = explained(&world, agent).await;
            for (name, has, why) in &explained {
                assert_eq!(listed.contains(name), *has, "{agent}: {name}: {why}");
                let status = world.get(&key, &format!("/api/v1/tools/{name}")).await.status;
                assert_eq!(status == 200, *has, "{agent}: {name}: {why}");
                assert!(!why.is_empty());
            }
            assert_eq!(world.names(&As::Owner, &format!("agent={agent}")).await, listed);
        }
        let why = |rows: &[(String, bool, String)], name: &str| {
            rows.iter().find(|row| row.0 == name).map(|row| (row.1, row.2.clone())).unwrap()
        };
        let open = explained(&world, "open").await;
        assert_eq!(why(&open, "readRecord"), (true, "open tool set".into()));
        assert_eq!(why(&open, "changeRecord"), (true, "assigned".into()));
        assert!(!why(&open, "archiveRecord").0);
        let closed = explained(&world, "closed").await;
        assert_eq!(why(&closed, "readRecord"), (true, "in custom_tools".into()));
        assert_eq!(why(&closed, "webRecord"), (true, "in tool group web".into()));
        assert!(!why(&closed, "calculator").0);

        world.send(&As::Owner, "PATCH", "/api/v1/tenants/default", json!({"open_write": true})).await.ok();
        assert!(why(&explained(&world, "open").await, "archiveRecord").0, "the tenant-wide switch");
    })
    .await;
}

#[tokio::test]
async fn profiles_limits_and_freezing_only_take_away() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        let put = async |path: &str, body| world.send(&As::Owner, "PUT", path, body).await;
        put("/api/v1/profiles/inside", json!({"name": "inside", "allowed_egress": ["none"]})).await.ok();
        put("/api/v1/profiles/loose", json!({"name": "loose", "requires_approval": false})).await.refused(400);
        put("/api/v1/profiles/odd", json!({"name": "odd", "max_cost_per_day": "ten"})).await.refused(400);
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob", "profile": "inside"})).await.ok();
        assert!(!world.names(&As::Owner, "agent=bob").await.contains(&"readRecord".to_owned()));
        world.send(&As::Owner, "DELETE", "/api/v1/profiles/inside", json!(null)).await.refused(409);

        put(
            "/api/v1/agents/bob",
            json!({"name": "bob", "limits": {"enabled_tools": ["calculator", "append_note"], "side_effects": "none"}}),
        )
        .await
        .ok();
        assert_eq!(world.names(&As::Owner, "agent=bob").await, ["calculator"], "the ceiling takes append_note away");
        put("/api/v1/agents/bob/state", json!({"state": "frozen"})).await.ok();
        assert_eq!(world.names(&As::Owner, "agent=bob").await, [""; 0]);
        put("/api/v1/agents/bob/state", json!({"state": "active"})).await.ok();
        let shown = world.get(&As::Owner, "/api/v1/agents/bob").await.ok();
        assert_eq!(
            (
                shown["effective_limits"]["max_iterations"].as_i64(),
                shown["effective_limits"]["max_tool_calls"].as_i64()
            ),
            (Some(10), Some(25))
        );
        assert_eq!(shown["revision"], 4);
    })
    .await;
}

#[tokio::test]
async fn assignments_are_bound_listed_and_revoked() {
    every_world(async |world| {
        world.register(&As::Owner, write_tool("changeRecord")).await.ok();
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob"})).await.ok();
        world
            .send(&As::Owner, "PUT", "/api/v1/profiles/strict", json!({"name": "strict", "requires_approval": true}))
            .await
            .ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/bob/tools/changeRecord", json!({"profile": "strict"})).await.ok();
        let list = world.get(&As::Owner, "/api/v1/assignments?agent=bob").await.ok();
        assert_eq!(
            (list["items"][0]["tool"].as_str(), list["items"][0]["profile"].as_str()),
            (Some("changeRecord"), Some("strict"))
        );
        world.send(&As::Owner, "DELETE", "/api/v1/tools/changeRecord", json!(null)).await.refused(409);
        let id = list["items"][0]["tool_id"].as_str().unwrap();
        world.send(&As::Owner, "DELETE", &format!("/api/v1/agents/bob/tools/{id}"), json!(null)).await.ok();
        assert_eq!(world.get(&As::Owner, "/api/v1/assignments?agent=bob").await.ok()["items"], json!([]));
        world.send(&As::Owner, "DELETE", "/api/v1/agents/bob/tools/changeRecord", json!(null)).await.refused(404);
        world.send(&As::Owner, "PUT", "/api/v1/agents/bob/tools/nothing", json!({})).await.refused(404);
        world.send(&As::Owner, "PUT", "/api/v1/agents/bob/tools/echo", json!({"profile": "none"})).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn an_agent_is_changed_only_by_who_manages_it() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/workspaces", json!({"slug": "north"})).await.ok();
        let north = world.user("default", "nora", &["author"]).await;
        let south = world.user("default", "sam", &["author"]).await;
        world.send(&As::Owner, "PATCH", "/api/v1/users/nora", json!({"workspaces": ["north"]})).await.ok();
        world.send(&As::Owner, "PATCH", "/api/v1/users/sam", json!({"workspaces": ["main"]})).await.ok();
        world.send(&north, "POST", "/api/v1/agents", json!({"name": "polar", "workspace": "north"})).await.ok();
        world
            .send(&south, "PUT", "/api/v1/agents/polar", json!({"name": "polar", "instructions": "mine now"}))
            .await
            .refused(404);
        world.send(&south, "DELETE", "/api/v1/agents/polar", json!(null)).await.refused(404);
        world.send(&As::Owner, "PATCH", "/api/v1/users/sam", json!({"workspaces": ["main", "north"]})).await.ok();
        world.send(&south, "PUT", "/api/v1/agents/polar", json!({"name": "polar", "instructions": "ours"})).await.ok();
        world.send(&north, "POST", "/api/v1/agents", json!({"name": "x", "workspace": "nowhere"})).await.refused(404);
        world
            .send(&north, "POST", "/api/v1/agents", json!({"name": "x", "custom_tools": ["nothing"]}))
            .await
            .refused(404);
        world.send(&north, "POST", "/api/v1/agents", json!({"name": "x", "modle": "y"})).await.refused(400);
    })
    .await;
}

#[tokio::test]
async fn a_profile_denies_a_tool_in_whatever_spelling() {
    every_world(async |world| {
        let put = async |path: &str, body| world.send(&As::Owner, "PUT", path, body).await;
        put("/api/v1/tools/echo/override", json!({"name": "parrot"})).await.ok();
        put("/api/v1/profiles/quiet", json!({"name": "quiet", "deny_tools": ["Append-Note", "WAIT", "parrot"]}))
            .await
            .ok();
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob", "profile": "quiet"})).await.ok();
        let has = world.names(&As::Owner, "agent=bob").await;
        assert!(["calculator", "now", "signText"].iter().all(|name| has.iter().any(|has| has == name)), "{has:?}");
        assert!(
            !["append_note", "wait", "echo", "parrot"].iter().any(|name| has.iter().any(|has| has == name)),
            "{has:?}"
        );
        let misspelt =
            put("/api/v1/profiles/quiet", json!({"name": "quiet", "deny_tools": ["wiat"]})).await.refused(404);
        assert_eq!(misspelt["pointer"], "/deny_tools/0");
    })
    .await;
}

#[tokio::test]
async fn only_assigning_gives_an_agent_a_write_tool() {
    every_world(async |world| {
        world.register(&As::Owner, write_tool("changeRecord")).await.ok();
        let author = world.user("default", "arno", &["author"]).await;
        let create = async |spec| world.send(&author, "POST", "/api/v1/agents", spec).await;
        create(json!({"name": "a", "toolset": "assigned", "custom_tools": ["change-record", "Calculator"], "tool_groups": ["media"]})).await.ok();
        let mut grouped = write_tool("groupRecord");
        grouped["group"] = json!("media");
        world.register(&author, grouped).await.ok();
        assert_eq!(world.names(&As::Owner, "agent=a").await, ["calculator"]);
        world.send(&author, "PUT", "/api/v1/agents/a/tools/changeRecord", json!({})).await.refused(403);
        world.send(&As::Owner, "PUT", "/api/v1/agents/a/tools/changeRecord", json!({})).await.ok();
        assert_eq!(world.names(&As::Owner, "agent=a").await, ["calculator", "changeRecord"]);
        world.send(&As::Owner, "POST", "/api/v1/workspaces", json!({"slug": "north"})).await.ok();
        create(json!({"name": "b", "workspace": "north"})).await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn what_an_administrator_tightened_an_author_does_not_loosen() {
    every_world(async |world| {
        let author = world.user("default", "arno", &["author"]).await;
        world.send(&author, "POST", "/api/v1/agents", json!({"name": "a"})).await.ok();
        world
            .send(&As::Owner, "PUT", "/api/v1/profiles/strict", json!({"name": "strict", "deny_tools": ["echo"]}))
            .await
            .ok();
        world.send(&As::Owner, "PUT", "/api/v1/agents/a", json!({"name": "a", "profile": "strict"})).await.ok();
        world.send(&author, "PUT", "/api/v1/agents/a", json!({"name": "a"})).await.refused(403);
        world
            .send(&author, "PUT", "/api/v1/agents/a", json!({"name": "a", "profile": "strict", "title": "A"}))
            .await
            .ok();
        world.send(&author, "PUT", "/api/v1/agents/a/state", json!({"state": "frozen"})).await.ok();
        world.send(&author, "PUT", "/api/v1/agents/a/state", json!({"state": "active"})).await.refused(403);
        world.send(&As::Owner, "PUT", "/api/v1/agents/a/state", json!({"state": "active"})).await.ok();

        // Nor does the agent itself, with all that its key may hold.
        let key = |scopes: serde_json::Value| json!({"name": "k", "agent": "a", "scopes": scopes, "days": 1});
        world.send(&As::Owner, "POST", "/api/v1/keys", key(json!(["admin"]))).await.refused(403);
        let all = json!(["agents.read", "agents.run", "calls.create", "calls.read.own", "tokens.mint", "tools.read"]);
        let made = world.send(&As::Owner, "POST", "/api/v1/keys", key(all)).await.ok();
        let agent = As::Key(made["secret"].as_str().unwrap().to_owned());
        world.get(&agent, "/api/v1/tools").await.ok();
        world.send(&agent, "POST", "/api/v1/keys", json!({"name": "free"})).await.refused(403);
        world.send(&agent, "PUT", "/api/v1/agents/a", json!({"name": "a"})).await.refused(403);
        world.send(&agent, "PUT", "/api/v1/tools/echo/enabled", json!({"enabled": true})).await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn lists_name_tools_by_what_never_changes() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({"aliases": [{"name": "oldRead"}]}))).await.ok();
        let put = async |path: &str, body| world.send(&As::Owner, "PUT", path, body).await;
        put("/api/v1/tools/echo/override", json!({"name": "parrot"})).await.ok();
        let stored =
            put("/api/v1/profiles/quiet", json!({"name": "quiet", "deny_tools": ["oldRead", "parrot"]})).await.ok();
        assert_eq!(stored["deny_tools"], json!(["readRecord", "echo"]));
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bob", "profile": "quiet"})).await.ok();
        world.send(&As::Owner, "DELETE", "/api/v1/tools/echo/override", json!(null)).await.ok();
        let has = world.names(&As::Owner, "agent=bob").await;
        assert!(!has.contains(&"echo".to_owned()) && !has.contains(&"readRecord".to_owned()), "{has:?}");
    })
    .await;
}
