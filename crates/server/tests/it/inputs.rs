//! Questions over HTTP: the shape, the order of the checks, who may, and that answers are forgotten with a person.

use serde_json::{Value, json};

use crate::world::{As, World, every_world};

async fn run(world: &World, who: &As) -> String {
    let run = world.send(who, "POST", "/api/v1/runs", json!({"title": "Ticket 42"})).await.ok();
    run["id"].as_str().unwrap().to_owned()
}

fn question() -> Value {
    json!({
        "title": "Which lamp?",
        "schema": {
            "type": "object", "additionalProperties": false, "required": ["lamp"],
            "properties": {"lamp": {"type": ["string", "null"]}, "note": {"type": "string", "default": "none"}},
        },
    })
}

async fn ask(world: &World, who: &As, run: &str) -> Value {
    world.send(who, "POST", &format!("/api/v1/runs/{run}/inputs"), question()).await.ok()
}

fn path(question: &Value, more: &str) -> String {
    format!("/api/v1/inputs/{}{more}", question["id"].as_str().unwrap())
}

fn members(value: &Value) -> Vec<&str> {
    let mut members: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}

#[tokio::test]
async fn a_question_has_the_shape_of_the_contract() {
    every_world(async |world| {
        let run = run(&world, &As::Owner).await;
        let asked = ask(&world, &As::Owner, &run).await;
        // Beside the contract: the name of who asked.
        let open = ["asked_by", "asked_by_name", "expires_at", "id", "run_id", "schema", "state", "title"];
        assert_eq!(members(&asked), open);
        assert_eq!((&asked["state"], &asked["asked_by"]), (&json!("open"), &json!("local:1000")));
        assert_eq!(asked["schema"], question()["schema"], "a null in a schema is a value");
        let list = world.get(&As::Owner, &format!("/api/v1/inputs?state=open&run={run}")).await.ok();
        assert_eq!(list["items"], json!([asked]));
        assert_eq!(world.get(&As::Owner, &format!("/api/v1/runs/{run}")).await.ok()["state"], "waiting_human");
        assert_eq!(world.get(&As::Owner, &path(&asked, "?wait=0")).await.ok(), asked);
        world.get(&As::Owner, &path(&asked, "?wait=61")).await.refused(400);

        let answer = async |answer: Value| world.send(&As::Owner, "POST", &path(&asked, "/answer"), answer).await;
        assert_eq!(answer(json!({"answer": {"lamp": 5}})).await.refused(400)["pointer"], "/answer/lamp");
        assert_eq!(answer(json!({"value": {}})).await.refused(400)["pointer"], "/value");
        answer(json!({})).await.refused(400);
        let answered = answer(json!({"answer": {"lamp": null}})).await.ok();
        assert_eq!(answered["answer"], json!({"lamp": null, "note": "none"}), "a null in an answer is a value");
        let mut closed = open.to_vec();
        closed.extend(["answer", "answered_by", "answered_by_name"]);
        closed.sort_unstable();
        assert_eq!(members(&answered), closed);
        assert_eq!(answer(json!({"answer": {"lamp": null}})).await.ok(), answered, "the same again");
        let late = answer(json!({"answer": {"lamp": "hall"}})).await.refused(409);
        assert_eq!(late["details"]["answered_by"], "local:1000");
        assert_eq!(
            world.get(&As::Owner, &path(&asked, "?wait=60")).await.ok(),
            answered,
            "nobody waits for what is there"
        );
        assert_eq!(world.get(&As::Owner, &format!("/api/v1/runs/{run}")).await.ok()["state"], "running");
        world.send(&As::Owner, "POST", &path(&asked, "/cancel"), json!({})).await.refused(409);
        world.get(&As::Owner, "/api/v1/inputs/nonsense").await.refused(404);
        world.get(&As::Owner, "/api/v1/inputs?state=closed").await.refused(400);

        world.clock.advance(1);
        let taken_back = ask(&world, &As::Owner, &run).await;
        let cancelled = world.send(&As::Owner, "POST", &path(&taken_back, "/cancel"), json!({})).await.ok();
        assert_eq!(cancelled["state"], "cancelled");
        let all = world.get(&As::Owner, "/api/v1/inputs").await.ok();
        assert_eq!(all["items"], json!([cancelled, answered]), "newest first");
    })
    .await;
}

#[tokio::test]
async fn each_check_has_its_own_answer() {
    every_world(async |world| {
        world.tenant("other").await;
        let member = world.user("default", "mia", &["member"]).await;
        let stranger = world.user("default", "sam", &["member"]).await;
        let viewer = world.user("default", "vera", &["viewer"]).await;
        let approver = world.user("default", "ada", &["approver"]).await;
        let foreign = world.user("other", "otto", &["admin"]).await;
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "bot"})).await.ok();
        let key =
            json!({"name": "bot-key", "owner": "mia", "agent": "bot", "scopes": ["tools:execute", "calls.read.own"]});
        let key = world.send(&As::Owner, "POST", "/api/v1/keys", key).await.ok();
        let bot = As::Key(key["secret"].as_str().unwrap().to_owned());
        let execute = json!({"name": "execute", "owner": "mia", "scopes": ["tools:execute", "calls.read.own"]});
        let execute = world.send(&As::Owner, "POST", "/api/v1/keys", execute).await.ok();
        let execute = As::Key(execute["secret"].as_str().unwrap().to_owned());

        let run_of_bot = run(&world, &bot).await;
        let asked = ask(&world, &bot, &run_of_bot).await;
        let wrong = || json!({"answer": {"lamp": 5}});
        for (who, caller, status) in [
            ("nobody", &As::Nobody, 401),
            ("another tenant", &foreign, 404),
            ("a stranger", &stranger, 404),
            ("a viewer who does not see it", &viewer, 404),
            ("the agent that asked", &bot, 403),
            ("a key that only calls tools", &execute, 403),
            ("the agent's owner", &member, 400),
            ("an approver", &approver, 400),
        ] {
            let answer = world.send(caller, "POST", &path(&asked, "/answer"), wrong()).await;
            assert_eq!(answer.status, status, "{who}: {}", answer.body);
            let seen = world.get(caller, &path(&asked, "")).await.status;
            assert_eq!(seen == 200, matches!(status, 400 | 403), "{who}: {seen}");
        }
        let right = json!({"answer": {"lamp": "hall"}});
        world.send(&approver, "POST", &path(&asked, "/answer"), right.clone()).await.ok();
        world.send(&member, "POST", &path(&asked, "/answer"), right).await.ok();
        world.send(&member, "POST", &path(&asked, "/answer"), wrong()).await.refused(409);
        let told = world.get(&bot, &path(&asked, "?wait=5")).await.ok();
        assert_eq!(told["answer"]["lamp"], "hall", "whoever asked reads it");
        let events = world.get(&bot, &format!("/api/v1/runs/{run_of_bot}/events")).await.ok().to_string();
        assert!(events.contains("input.submitted") && !events.contains("hall"), "{events}");
    })
    .await;
}

#[tokio::test]
async fn answers_are_exported_erased_and_forgotten() {
    every_world(async |world| {
        let mia = world.user("default", "mia", &["member"]).await;
        let ada = world.user("default", "ada", &["approver"]).await;
        let run = run(&world, &mia).await;
        let asked = ask(&world, &mia, &run).await;
        let still_open = ask(&world, &mia, &run).await;
        let answer = json!({"answer": {"lamp": "Ada's own lamp"}});
        world.send(&ada, "POST", &path(&asked, "/answer"), answer).await.ok();
        let lines = async |user: &str| {
            let export = axum::http::Request::get(format!("/api/v1/users/{user}/export"))
                .header("host", "localhost")
                .extension(toolgate_server::LocalCaller { uid: 1000 })
                .body(axum::body::Body::empty())
                .unwrap();
            let answer = tower::ServiceExt::oneshot(world.router(), export).await.unwrap();
            let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
            let lines = String::from_utf8(bytes.to_vec()).unwrap();
            lines.lines().filter(|line| line.contains(r#""kind":"input""#)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines("mia").await.len(), 2, "what she asked");
        let answered = lines("ada").await;
        assert!(matches!(answered.as_slice(), [one] if one.contains("Ada's own lamp")), "{answered:?}");

        let erase = async |user: &str, apply: bool| {
            world.send(&As::Owner, "POST", &format!("/api/v1/users/{user}/erase"), json!({"apply": apply})).await.ok()
        };
        assert_eq!(erase("ada", false).await["inputs"], 1);
        assert_eq!(erase("ada", true).await["inputs"], 1);
        let now = world.get(&mia, &path(&asked, "")).await.ok();
        assert_eq!(
            (&now["answer"], &now["title"], &now["state"]),
            (&Value::Null, &json!("Which lamp?"), &json!("answered"))
        );
        let erased = erase("mia", true).await;
        assert_eq!((&erased["inputs"], &erased["open_inputs"]), (&json!(1), &json!(1)), "what waits is erased later");
        let now = world.get(&mia, &path(&asked, "")).await.ok();
        assert_eq!((&now["title"], &now["schema"]), (&json!("[erased]"), &json!({"type": "object"})));
        assert_eq!(erase("mia", false).await["inputs"], 0);
        assert_eq!(world.get(&mia, &path(&still_open, "")).await.ok()["title"], "Which lamp?");

        world.clock.advance(40 * 86_400);
        world.get(&mia, &path(&still_open, "")).await.ok();
        let retain = async |apply: bool| {
            world
                .send(&As::Owner, "POST", "/api/v1/retention", json!({"older_than_days": 30, "apply": apply}))
                .await
                .ok()
        };
        assert_eq!(retain(false).await["inputs"], 2);
        assert_eq!(retain(true).await["inputs"], 2);
        world.get(&mia, &path(&asked, "")).await.refused(404);
        assert_eq!(retain(false).await["inputs"], 0);
    })
    .await;
}
