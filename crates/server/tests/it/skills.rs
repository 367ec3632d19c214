//! Skills over HTTP, and as prompts of the protocol in each revision: who may make, see and fill in which.

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::mcp::{Modern, OLDER, Older, member};
use crate::serving::listening;
use crate::world::{As, World, every_world, tool};

const REVIEW: &str = "---\nname: review\ntitle: Review a text\ndescription: Reviews a text for its readers.\n\
    icon: https://example.com/review.png\narguments:\n  - {name: subject, title: Subject, description: What to review, required: true}\n  \
    - {name: tone, values: [kind, keen, strict]}\n---\nReview {{ subject }}{% if tone is defined %}, {{ tone }}{% endif %}.\n";

async fn add(world: &World, who: &As, source: &str) -> crate::world::Answer {
    world.send(who, "POST", "/api/v1/skills", json!({"source": source})).await
}

fn plain(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Says how {name} is done.\n---\nDo it.\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_are_added_read_filled_in_and_removed_by_whoever_may() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let reader = world.user("default", "ben", &["member"]).await;
        let added = add(&world, &author, REVIEW).await.ok();
        assert_eq!(
            (&added["name"], &added["action"], &added["findings"]),
            (&json!("review"), &json!("created"), &json!([]))
        );
        assert_eq!(add(&world, &author, REVIEW).await.ok()["action"], "unchanged");
        let first = added["digest"].as_str().unwrap();
        let second = add(&world, &author, &REVIEW.replace("Review {{", "Please review {{")).await.ok();
        assert_eq!(second["action"], "replaced");
        assert_ne!(second["digest"], first);
        let shown = world.get(&reader, "/api/v1/skills/review").await.ok();
        assert_eq!(shown["digest"], second["digest"]);
        assert!(shown["source"].as_str().unwrap().contains("Please review"));
        assert_eq!(shown["versions"].as_array().unwrap().len(), 2);
        let before = world.get(&reader, &format!("/api/v1/skills/review?digest={first}")).await.ok();
        assert_eq!(before["source"], REVIEW);
        let other = "0".repeat(64);
        world.get(&reader, &format!("/api/v1/skills/review?digest={other}")).await.refused(404);
        // What it had before holds again.
        assert_eq!(add(&world, &author, REVIEW).await.ok()["digest"], first);
        let fill = async |arguments: Value| {
            world.send(&reader, "POST", "/api/v1/skills/review/fill", json!({"arguments": arguments})).await
        };
        assert_eq!(fill(json!({"subject": "it", "tone": "kind"})).await.ok()["text"], "Review it, kind.");
        assert_eq!(fill(json!({})).await.refused(400)["pointer"], "/arguments/subject");
        fill(json!({"subject": "it", "size": "1"})).await.refused(400);
        // Found by words, like whatever can be used.
        let found = world.get(&reader, "/api/v1/search?q=review%20readers&kind=skill").await.ok();
        assert_eq!(found["items"][0]["name"], "review", "{found:#}");
        for who in [&reader, &As::Nobody] {
            let status = if matches!(who, As::Nobody) { 401 } else { 403 };
            add(&world, who, &plain("other")).await.refused(status);
            world.send(who, "DELETE", "/api/v1/skills/review", Value::Null).await.refused(status);
        }
        add(&world, &author, &plain("revlew")).await.refused(409);
        let refused = add(&world, &author, &REVIEW.replace("{{ subject }}", "{{ subjct }}")).await.refused(400);
        assert_eq!(refused["pointer"], "/text", "{refused:#}");
        assert!(refused["details"]["findings"].to_string().contains("skill.place"), "{refused:#}");
        // What is named stays.
        let agent = json!({"name": "desk", "skills": ["review"], "workspace": "main"});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
        let unknown = json!({"name": "lost", "skills": ["nothing"], "workspace": "main"});
        assert_eq!(
            world.send(&As::Owner, "POST", "/api/v1/agents", unknown).await.refused(404)["pointer"],
            "/skills/0"
        );
        world.send(&author, "DELETE", "/api/v1/skills/review", Value::Null).await.refused(409);
        world.send(&As::Owner, "DELETE", "/api/v1/agents/desk", Value::Null).await.ok();
        let asks = |skill: &str| {
            tool(
                "askIt",
                json!({"runner": {"kind": "prompt", "mode": "skill", "skill": skill, "template": "About {{ id }}"}}),
            )
        };
        let refused = world.register(&As::Owner, asks("nothing")).await.refused(400);
        assert!(refused.to_string().contains("runner.skill"), "{refused:#}");
        world.register(&As::Owner, asks("review")).await.ok();
        world.send(&author, "DELETE", "/api/v1/skills/review", Value::Null).await.refused(409);
        add(&world, &author, &plain("other")).await.ok();
        world.send(&author, "DELETE", "/api/v1/skills/other", Value::Null).await.ok();
        world.get(&author, "/api/v1/skills/other").await.refused(404);
        let logged = world.get(&As::Owner, "/api/v1/audit/entries?limit=500").await.ok().to_string();
        assert!(logged.contains("skill.set") && logged.contains("skill.delete"));
        // Another tenant's are another's.
        world.tenant("acme").await;
        world.get(&As::OwnerOf("acme"), "/api/v1/skills/review").await.refused(404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_offered_the_skills_that_their_caller_has() {
    every_world(async |world| {
        add(&world, &As::Owner, REVIEW).await.ok();
        add(&world, &As::Owner, &plain("deploy")).await.ok();
        let who = member(&world).await;
        let client = Modern::new(&who);
        let listed = client.send(&world, "prompts/list", json!({})).await;
        let result = listed.result();
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"], &result["resultType"]),
            (&json!(0), &json!("private"), &json!("complete"))
        );
        let review = json!({
            "name": "review", "title": "Review a text", "description": "Reviews a text for its readers.",
            "arguments": [
                {"name": "subject", "title": "Subject", "description": "What to review", "required": true},
                {"name": "tone", "required": false},
            ],
            "icons": [{"src": "https://example.com/review.png"}],
        });
        assert_eq!((&result["prompts"][0]["name"], &result["prompts"][1]), (&json!("deploy"), &review));
        let get = async |params: Value| client.send(&world, "prompts/get", params).await;
        let got = get(json!({"name": "review", "arguments": {"subject": "{{ tone }}"}})).await;
        let message = json!([{"role": "user", "content": {"type": "text", "text": "Review {{ tone }}."}}]);
        assert_eq!(got.result()["messages"], message);
        for wrong in [
            json!({"name": "nothing"}),
            json!({"name": "review"}),
            json!({"name": "review", "arguments": {"subject": "x", "more": "y"}}),
            json!({"name": "review", "arguments": {"subject": 1}}),
            json!({"name": "review", "arguments": {"subject": "x", "tone": "rude"}}),
            json!({"name": "review", "arguments": []}),
        ] {
            get(wrong).await.refused(200, -32602);
        }
        client.send(&world, "prompts/list", json!({"cursor": "%"})).await.refused(200, -32602);
        for revision in OLDER {
            let older = Older::begin(&world, &who, revision, json!({})).await;
            let listed = older.send(&world, "prompts/list", json!({})).await;
            let prompt = &listed.result()["prompts"][1];
            let has = |member: &str| prompt.get(member).is_some();
            assert_eq!(
                (has("title"), has("icons")),
                (revision != "2025-03-26", revision == "2025-11-25"),
                "{prompt:#}"
            );
            let got = older.send(&world, "prompts/get", json!({"name": "deploy"})).await;
            assert_eq!(got.result()["messages"][0]["content"]["text"], "Do it.");
        }
        // An agent has what it was given; a group of tools has none.
        let agent = json!({"name": "desk", "skills": ["deploy"], "workspace": "main"});
        world.send(&As::Owner, "POST", "/api/v1/agents", agent).await.ok();
        let key = json!({"name": "desk-key", "agent": "desk", "scopes": ["tools:execute"]});
        let key = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
        let desk = Modern::new(&As::Key(key["secret"].as_str().unwrap().to_owned()));
        assert_eq!(desk.send(&world, "prompts/list", json!({})).await.result()["prompts"].as_array().unwrap().len(), 1);
        desk.send(&world, "prompts/get", json!({"name": "review", "arguments": {"subject": "x"}}))
            .await
            .refused(200, -32602);
        world.register(&As::Owner, tool("webRecord", json!({"group": "web"}))).await.ok();
        let group = client.at("/mcp/web");
        assert_eq!(group.send(&world, "prompts/list", json!({})).await.result()["prompts"], json!([]));
        group.send(&world, "prompts/get", json!({"name": "deploy"})).await.refused(200, -32602);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_of_prompts_comes_in_pages_and_its_changes_are_told() {
    every_world(async |world| {
        let who = member(&world).await;
        let mut heard =
            listening(&world, &who, json!({"promptsListChanged": true, "resourcesListChanged": true})).await;
        let mut text = String::new();
        let mut until = async |word: &str, text: &mut String| {
            while !text.contains(word) {
                text.push_str(std::str::from_utf8(&heard.next().await.unwrap().unwrap()).unwrap());
            }
        };
        until("acknowledged", &mut text).await;
        assert!(text.contains("promptsListChanged") && !text.contains("ourcesListChanged"), "{text}");
        for number in 0..101 {
            add(&world, &As::Owner, &plain(&format!("s{number:03}"))).await.ok();
        }
        until("notifications/prompts/list_changed", &mut text).await;
        assert!(!text.contains("notifications/tools/list_changed"), "{text}");
        let client = Modern::new(&who);
        let first = client.send(&world, "prompts/list", json!({})).await;
        assert_eq!(first.result()["prompts"].as_array().unwrap().len(), 100);
        let cursor = &first.result()["nextCursor"];
        let second = client.send(&world, "prompts/list", json!({"cursor": cursor})).await;
        assert_eq!(second.result()["prompts"][0]["name"], "s100");
        assert!(second.result().get("nextCursor").is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_argument_may_be_is_suggested() {
    every_world(async |world| {
        add(&world, &As::Owner, REVIEW).await.ok();
        let who = member(&world).await;
        let client = Modern::new(&who);
        let called = client.call(&world, "calculator", json!({"expression": "1"})).await;
        let call = crate::mcp::call_of(called.result()).to_owned();
        let complete = async |client: &Modern, about: Value, name: &str, value: &str| {
            client
                .send(&world, "completion/complete", json!({"ref": about, "argument": {"name": name, "value": value}}))
                .await
        };
        let prompt = json!({"type": "ref/prompt", "name": "review"});
        let calls = json!({"type": "ref/resource", "uri": "toolgate://calls/{id}"});
        for (about, name, value, expected) in [
            (&prompt, "tone", "", json!(["kind", "keen", "strict"])),
            (&prompt, "tone", "K", json!(["kind", "keen"])),
            (&prompt, "tone", "x", json!([])),
            (&prompt, "subject", "a", json!([])),
            (&calls, "id", "", json!([call])),
            (&calls, "id", &call[..8], json!([call])),
            (&json!({"type": "ref/resource", "uri": "toolgate://runs/{id}"}), "id", "", json!([])),
        ] {
            let said = complete(&client, about.clone(), name, value).await;
            assert_eq!(said.result()["completion"]["values"], expected, "{about} {name} {value}");
            assert_eq!(said.result()["completion"]["hasMore"], false);
        }
        let other = Modern::new(&world.user("default", "eve", &["member"]).await);
        assert_eq!(complete(&other, calls.clone(), "id", "").await.result()["completion"]["values"], json!([]));
        for (about, name) in [
            (json!({"type": "ref/prompt", "name": "nothing"}), "tone"),
            (prompt, "size"),
            (json!({"type": "ref/resource", "uri": "file:///{path}"}), "path"),
            (calls, "name"),
            (json!({"type": "ref/tool", "name": "x"}), "x"),
        ] {
            complete(&client, about, name, "").await.refused(200, -32602);
        }
        let older = Older::begin(&world, &who, "2025-06-18", json!({})).await;
        let params =
            json!({"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "tone", "value": "s"}});
        let said = older.send(&world, "completion/complete", params).await;
        assert_eq!(said.result()["completion"]["values"], json!(["strict"]));
    })
    .await;
}
