//! Neighbours: two tenants, two agents, people of different roles. Nobody learns of what is not theirs, and what is listed
//! is what can be called.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::caller::{Answer, Caller, text};
use crate::hostile::every_server;
use crate::program::{Home, Server};

/// What a tenant has that another must not learn of.
struct Belongings {
    owner: Caller,
    paths: Vec<(&'static str, String, Value)>,
    lists: Vec<&'static str>,
    /// Words that must be nowhere else.
    words: Vec<String>,
    run: String,
    other_run: String,
}

const UNKNOWN: &str = "01936f2a-0000-7000-8000-000000000000";

async fn belongings(owner: &Caller, slug: &str) -> Belongings {
    let tenant = owner.new_tenant(slug).await;
    tenant.register_mirror("mirror", json!({"max_output_bytes": 300})).await;
    let person = tenant.user("paula", "admin").await;
    let worker = tenant.user("willi", "service").await;
    let secret = format!("only-in-{slug}");
    let run = person.new_run(json!({"title": secret})).await;
    let other_run = person.new_run(json!({"title": secret})).await;
    let step = person.post(&format!("/runs/{run}/steps"), json!({"title": secret})).await.ok();
    let call = person.call("echo", json!({"text": secret})).await;
    let in_run = person.post("/calls", json!({"tool": "echo", "input": {"text": secret}, "run_id": run})).await.ok();
    let large = person.recorded("mirror", &json!({"v": secret}), &json!({"v": secret.repeat(100)})).await;
    let blob = text(&large["attachments"][0]["url"]).trim_start_matches("/api/v1").to_owned();
    assert!(person.get(&blob).await.text.contains(&secret));
    let waiting = person.post("/calls", json!({"tool": "mirror", "input": {"v": secret}, "wait": 0})).await.ok();
    let leased = worker.post(concat!("/work", "/lease"), json!({"tools": ["mirror"], "wait": 30})).await.ok();
    person.call("echo", json!({"text": "another"})).await;
    tenant.post("/agents", json!({"name": format!("agent-{slug}")})).await.ok();
    tenant.post("/agents", json!({"name": format!("agent-{slug}-too")})).await.ok();
    let (id, name) = (text(&call["id"]).to_owned(), text(&call["call_id"]).to_owned());
    let lease = text(&leased["lease_id"]).to_owned();
    let report = json!({"status": "completed", "output": {}});
    let null = Value::Null;
    let words = [&id, &name, &run, &lease, &secret, text(&step["id"]), text(&in_run["id"]), text(&waiting["id"])];
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let paths = vec![
        ("GET", format!("/calls/{id}"), null.clone()),
        ("GET", format!("/calls/{id}?wait=1"), null.clone()),
        ("GET", format!("/calls/{name}"), null.clone()),
        ("GET", format!("/calls/{id}/receipt"), null.clone()),
        ("GET", format!("/calls/{id}/proof"), null.clone()),
        ("GET", format!("/calls?run={run}"), null.clone()),
        ("POST", format!("/calls/{}/cancel", text(&waiting["id"])), json!({})),
        ("POST", format!("/calls/{}/complete", text(&waiting["id"])), report.clone()),
        ("POST", format!("/calls/{id}/settle"), json!({"status": "failed", "reason": "x"})),
        ("GET", blob, null.clone()),
        ("GET", format!("/runs/{run}"), null.clone()),
        ("GET", format!("/runs/{id}"), null.clone()),
        ("GET", format!("/runs/{run}/events"), null.clone()),
        ("POST", format!("/runs/{run}/steps"), json!({"title": "x"})),
        ("PUT", format!("/runs/{run}/state"), json!({"state": "failed"})),
        (
            "POST",
            format!("/runs/{run}/tool-events"),
            json!({"type": "tool_invocation_started", "call_id": "1", "tool": "mirror"}),
        ),
        ("POST", "/calls".to_owned(), json!({"tool": "echo", "input": {"text": "x"}, "run_id": run})),
        ("POST", "/runs".to_owned(), json!({"parent_run_id": run})),
        (
            "POST",
            "/calls".to_owned(),
            json!({"tool": "echo", "input": {"text": "x"}, "agent_id": format!("agent-{slug}")}),
        ),
        ("POST", format!("/work/{lease}/heartbeat"), json!({})),
        ("POST", format!("/work/{lease}/complete"), report),
        ("GET", format!("/audit/entries/{id}/proof"), null.clone()),
        ("GET", format!("/agents/agent-{slug}"), null.clone()),
        ("GET", format!("/calls?agent=agent-{slug}"), null.clone()),
        ("GET", format!("/usage?agent=agent-{slug}"), null),
    ];
    let lists = vec!["/calls", "/runs", "/agents", "/keys", "/users", "/audit/entries", "/tools"];
    Belongings { owner: person, paths, lists, words, run, other_run }
}

/// An answer without the name that was asked for, whatever it was.
fn without_names(answer: &Answer, names: &[&str]) -> (u16, String) {
    let text = names.iter().fold(answer.text.clone(), |text, name| text.replace(name, "NAME"));
    (answer.status, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_do_not_meet_in_anything_that_calls_leave() {
    every_server(async |server| {
        let operator = Caller::owner(server);
        let mine = belongings(&operator, "left").await;
        let theirs = belongings(&operator, "right").await;
        let (me, them) = (&mine.owner, &theirs.owner);
        // Nothing of theirs is in what I see.
        for path in mine.lists.iter().chain(&[
            "/usage?by=tool",
            "/tenants",
            "/audit/export",
            "/audit/heads",
            "/search?q=mirror",
        ]) {
            let seen = me.get(path).await;
            for word in theirs.words.iter().chain([&"right".to_owned()]) {
                assert!(!seen.text.contains(word.as_str()), "{path} shows {word}: {}", seen.text);
            }
        }
        for (method, path, body) in &theirs.paths {
            // Theirs look to me like what is not there, word for word.
            let id = theirs
                .words
                .iter()
                .find(|word| path.contains(word.as_str()) || body.to_string().contains(word.as_str()));
            let name = id.cloned().unwrap_or_else(|| {
                if path.starts_with("/blobs") { path[7..].to_owned() } else { "agent-right".to_owned() }
            });
            let unknown = match name.as_str() {
                name if name.starts_with("c_") => format!("c_{}", "a".repeat(26)),
                name if name.starts_with("agent-") => "agent-nobody".to_owned(),
                _ => UNKNOWN.to_owned(),
            };
            let foreign = me.send(method, path, body.clone()).await;
            let other_body = serde_json::from_str(&body.to_string().replace(&name, &unknown)).unwrap();
            let nothing = me.send(method, &path.replace(&name, &unknown), other_body).await;
            assert!(matches!(foreign.status, 404 | 409), "{method} {path}: {} {}", foreign.status, foreign.text);
            assert_eq!(without_names(&foreign, &[&name]), without_names(&nothing, &[&unknown]), "{method} {path}");
        }
        // And what they have is as it was.
        let waiting = &theirs.words[7];
        assert_eq!(them.get(&format!("/calls/{waiting}")).await.ok()["status"], "running");
        assert_eq!(them.get(&format!("/runs/{}", theirs.run)).await.ok()["state"], "running");
        // Where a list goes on is mine alone, and so is where a stream goes on.
        for path in &mine.lists {
            let joint = if path.contains('?') { '&' } else { '?' };
            let page = me.get(&format!("{path}{joint}limit=1")).await.ok();
            let cursor = text(&page["next_cursor"]).to_owned();
            me.get(&format!("{path}{joint}limit=1&cursor={cursor}")).await.ok();
            them.get(&format!("{path}{joint}limit=1&cursor={cursor}")).await.refused(400);
        }
        let filtered = text(&me.get("/calls?limit=1").await.ok()["next_cursor"]).to_owned();
        me.get(&format!("/calls?limit=1&status=completed&cursor={filtered}")).await.refused(400);
        for wrong in [format!("{}:1", theirs.run), format!("{}:1", mine.other_run)] {
            let Err(refused) = me.stream(&format!("/runs/{}/events", mine.run), Some(&wrong)).await else {
                panic!("{wrong}")
            };
            refused.refused(400);
        }
        let Err(refused) = me.stream(&format!("/runs/{}/events", theirs.run), None).await else { panic!("followed") };
        refused.refused(404);
        // The same word for a request is another request.
        let call = json!({"tool": "echo", "input": {"text": "same"}, "request_id": "same"});
        let (one, two) = (me.post("/calls", call.clone()).await.ok(), them.post("/calls", call.clone()).await.ok());
        assert_ne!(one["id"], two["id"]);
        assert_ne!(one["call_id"], two["call_id"], "an id is no digest of what was asked");
        assert_eq!(me.post("/calls", call).await.ok()["id"], one["id"]);
        let sum = json!({"expression": "6 * 7"});
        me.call("calculator", sum.clone()).await;
        assert_eq!(me.call("calculator", sum.clone()).await["cached"], true);
        assert_eq!(them.call("calculator", sum).await["cached"], Value::Null, "a result of another tenant");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_agent_sees_that_agents_calls() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let owner = Caller::owner(&server);
    let person = owner.user("paul", "admin").await;
    let mut keys = Vec::new();
    for agent in ["left", "right"] {
        person.post("/agents", json!({"name": agent})).await.ok();
        let key = json!({"name": agent, "agent": agent, "scopes": ["tools:execute", "calls.read.own"]});
        keys.push(person.key_of(key).await);
    }
    let mut calls = Vec::new();
    for caller in [&keys[0], &keys[1], &person] {
        let run = caller.new_run(json!({"title": "its own"})).await;
        let call = json!({"tool": "echo", "input": {"text": "a"}, "run_id": run});
        calls.push((text(&caller.post("/calls", call).await.ok()["id"]).to_owned(), run));
    }
    for (index, key) in keys.iter().enumerate() {
        let seen: Vec<_> = key.all("/calls").await.iter().map(|call| text(&call["id"]).to_owned()).collect();
        assert_eq!(seen, [calls[index].0.clone()]);
        for (other, (call, run)) in calls.iter().enumerate().filter(|(other, _)| *other != index && *other < 2) {
            for path in [
                format!("/calls/{call}"),
                format!("/calls/{call}/proof"),
                format!("/runs/{run}"),
                format!("/runs/{run}/events"),
            ] {
                let answer = key.get(&path).await;
                assert_eq!(answer.status, 404, "{index} reads {path} of {other}: {}", answer.text);
            }
        }
        let own = key.get(&format!("/calls/{}", calls[2].0)).await;
        assert_eq!(own.status, 404, "an agent reads what its owner called: {}", own.text);
        let Err(refused) = key.stream("/events", None).await else { panic!("an agent follows everything") };
        refused.refused(403);
        let other = ["right", "left"][index];
        let call = json!({"tool": "echo", "input": {"text": "a"}, "agent_id": other});
        key.post("/calls", call).await.refused(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_what_a_call_would_not_refuse_and_nothing_else() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let owner = Caller::owner(&server);
    let put = async |path: &str, body: Value| owner.send("PUT", path, body).await.ok();
    for (name, extra) in [
        ("plain", json!({})),
        ("demanding", json!({"required_permission": "entities.team.read"})),
        ("inner", json!({"visibility": "internal"})),
        ("offered", json!({})),
        ("switched", json!({})),
        ("halted", json!({})),
        ("barred", json!({})),
    ] {
        owner.register_mirror(name, extra).await;
    }
    owner.in_tenant("system").register_mirror("optional", json!({"opt_in": true})).await;
    put("/tools/switched/enabled", json!({"enabled": false})).await;
    put("/kill-switches", json!({"scope": "tool", "name": "halted", "on": true, "reason": "a test"})).await;
    put("/tools/barred/state", json!({"state": "blocked", "message": "a test"})).await;
    put("/profiles/narrow", json!({"name": "narrow", "deny_tools": ["echo"]})).await;
    let person = owner.user("ada", "admin").await;
    let mut callers = vec![("the owner", owner.clone()), ("an administrator", person.clone())];
    for role in ["member", "author", "approver", "service"] {
        callers.push((role, owner.user(role, role).await));
    }
    for (agent, spec) in [
        ("open", json!({})),
        ("assigned", json!({"toolset": "assigned"})),
        ("custom", json!({"toolset": "assigned", "custom_tools": ["plain", "calculator", "write_file"]})),
        ("profiled", json!({"profile": "narrow"})),
        ("listed", json!({"limits": {"enabled_tools": ["plain", "echo"]}})),
        ("capped", json!({"limits": {"side_effects": "none"}})),
        ("frozen", json!({})),
    ] {
        let mut spec = spec;
        spec["name"] = agent.into();
        person.post("/agents", spec).await.ok();
        callers.push((agent, person.key_of(json!({"name": agent, "agent": agent})).await));
    }
    put("/agents/assigned/tools/offered", json!({})).await;
    put("/agents/assigned/tools/write_file", json!({})).await;
    put("/agents/frozen/state", json!({"state": "frozen"})).await;
    let all: Vec<String> =
        owner.all("/tools?all=true").await.iter().map(|tool| text(&tool["name"]).to_owned()).collect();
    for name in ["plain", "inner", "halted", "switched", "write_file"] {
        assert!(all.iter().any(|known| known == name), "{name} is not in {all:?}");
    }
    let mut different = BTreeSet::new();
    for (who, caller) in &callers {
        let listed: BTreeSet<String> =
            caller.all("/tools").await.iter().map(|tool| text(&tool["name"]).to_owned()).collect();
        different.insert(listed.clone());
        for name in all.iter().map(String::as_str).chain(["barred", "nothing"]) {
            let call = caller.post("/calls", json!({"tool": name, "mode": "dry_run"})).await;
            let reason = call.body["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned();
            let refused =
                call.status == 404 || matches!(reason.as_str(), "frozen" | "blocked" | "side_effects" | "not_found");
            assert!(matches!(call.status, 200 | 202 | 404), "{who} calls {name}: {}", call.text);
            assert_eq!(listed.contains(name), !refused, "{who} and {name}: {} {}", call.status, call.text);
            let shown = caller.get(&format!("/tools/{name}")).await.status;
            assert!(shown != 200 || call.status != 404, "{who} looks at {name} and may not call it");
            assert!(shown == 200 || !listed.contains(name), "{who} has {name} and may not look at it: {shown}");
            let state = caller.get(&format!("/tools/{name}/preflight")).await.ok()["state"].clone();
            assert_eq!(state == "unknown_tool", call.status == 404, "{who} asks whether {name} is ready: {state}");
            let found = caller.get(&format!("/search?q={name}&kind=tool&limit=50")).await.ok();
            let found = found["items"].as_array().unwrap().iter().any(|item| item["name"] == name);
            assert!(!found || call.status != 404, "{who} finds {name} and may not call it");
            assert!(found || !listed.contains(name), "{who} has {name} and does not find it");
        }
    }
    assert!(different.len() > 4, "the callers do not differ: {different:?}");
    // Who may not call at all is told so, whatever there is to see.
    let viewer = owner.user("vera", "viewer").await;
    for name in ["plain", "nothing"] {
        viewer.post("/calls", json!({"tool": name, "mode": "dry_run"})).await.refused(403);
    }
}
