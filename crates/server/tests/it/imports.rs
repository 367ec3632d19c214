//! Imports: what a document would be here, what it becomes, and what it is when it comes again.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{As, World, every_world};

const PETSTORE: &str = include_str!("../../../../examples/openapi/petstore.yaml");

async fn import(world: &World, who: &As, document: &str, extra: Value) -> Value {
    let mut body = json!({"document": document});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    world.send(who, "POST", "/api/v1/imports/openapi", body).await.ok()
}

/// `name outcome version class`, for each operation.
fn told(import: &Value) -> Vec<String> {
    let rows = import["operations"].as_array().unwrap().iter();
    rows.map(|row| {
        let word = |member: &Value| member.as_str().unwrap_or("-").to_owned();
        [&row["name"], &row["outcome"], &row["version"], &row["difference"]["class"]].map(word).join(" ")
    })
    .collect()
}

fn document(paths: &Value) -> String {
    json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "https://shop.test"}], "paths": paths})
        .to_string()
}

#[tokio::test]
async fn a_document_is_shown_then_registered_then_known() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let shown = import(&world, &author, PETSTORE, json!({})).await;
        assert_eq!(
            told(&shown),
            [
                "listPets new 1.0.0 none",
                "createPet new 1.0.0 none",
                "getPet new 1.0.0 none",
                "deletePet new 1.0.0 none",
                "placeOrder new 1.0.0 none",
                "findPetsByTags skipped - none",
            ]
        );
        assert_eq!((&shown["applied"], &shown["document"]), (&json!(false), &json!("Pet Store")));
        assert_eq!(shown["operations"][0]["egress_class"], "read_only");
        assert!(!world.names(&As::Owner, "all=true").await.contains(&"getPet".to_owned()), "nothing was written");

        let done = import(&world, &author, PETSTORE, json!({"tags": ["pets"], "apply": true})).await;
        assert_eq!((&done["applied"], done["revision"].is_i64()), (&json!(true), true));
        let names = world.names(&As::Owner, "all=true&origin=openapi").await;
        assert_eq!(names, ["createPet", "deletePet", "getPet", "listPets"]);
        let tool = world.get(&As::Owner, "/api/v1/tools/listPets").await.ok();
        assert_eq!((&tool["origin"], &tool["runner"]["kind"]), (&json!("openapi"), &json!("openapi")));
        assert_eq!(tool["runner"]["digest"], done["digest"]);

        let again = import(&world, &author, PETSTORE, json!({"apply": true})).await;
        assert_eq!(told(&again)[0], "listPets unchanged 1.0.0 none");
        assert_eq!(told(&again)[4], "placeOrder new 1.0.0 none");
        let entries = world.get(&As::Owner, "/api/v1/audit/entries?limit=500").await.ok();
        let imports =
            entries["items"].as_array().unwrap().iter().filter(|entry| entry["entry"]["action"] == "tool.import");
        assert_eq!(imports.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn drift_is_told_by_its_class_and_counted_in_versions() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let with = |method: &str, summary: &str, parameters: &[&Value]| {
            json!({method: {"operationId": "getPet", "summary": summary, "parameters": parameters}})
        };
        let name = json!({"name": "name", "in": "query", "schema": {"type": "string"}});
        let needed = json!({"name": "name", "in": "query", "required": true, "schema": {"type": "string"}});
        let age = json!({"name": "age", "in": "query", "schema": {"type": "integer"}});
        let first = with("get", "Look", &[&name]);
        for (paths, expected) in [
            (json!({"/pet": first}), "getPet new 1.0.0 none"),
            (json!({"/pet": first, "/more": {"get": {}}}), "getPet unchanged 1.0.0 none"),
            (json!({"/pet": with("get", "Look at it", &[&name])}), "getPet changed 1.0.1 description"),
            (json!({"/pet": with("get", "Look at it", &[&name, &age])}), "getPet changed 1.1.0 widening"),
            (json!({"/pet": with("get", "Look at it", &[&needed, &age])}), "getPet changed 2.0.0 narrowing"),
            (json!({"/pet": with("get", "Look at it", &[&needed])}), "getPet changed 3.0.0 breaking"),
            (json!({"/v2/pet": with("get", "Look at it", &[&needed])}), "getPet changed 4.0.0 breaking"),
            (json!({"/v2/pet": with("put", "Look at it", &[&needed])}), "getPet changed 5.0.0 breaking"),
            (json!({"/v2/pet": with("delete", "Look at it", &[&needed])}), "getPet changed 6.0.0 breaking"),
        ] {
            let text = document(&paths);
            let shown = import(&world, &author, &text, json!({"paths": ["/**pet"]})).await;
            let shown: Vec<String> = told(&shown).into_iter().filter(|row| row.starts_with("getPet ")).collect();
            assert_eq!(shown, [expected]);
            import(&world, &author, &text, json!({"paths": ["/**pet"], "apply": true})).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_gone_is_told_and_never_taken_away() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let both = document(&json!({"/a": {"get": {"operationId": "getA"}}, "/b": {"get": {"operationId": "getB"}}}));
        import(&world, &author, &both, json!({"apply": true})).await;
        let fewer = document(&json!({"/a": {"get": {"operationId": "getA", "deprecated": true}}, "/c": {"get": {"operationId": "getC"}}}));
        let shown = import(&world, &author, &fewer, json!({"apply": true})).await;
        assert_eq!(told(&shown), ["getC new 1.0.0 none", "getA gone - none", "getB gone - none"]);
        let state = async |name: &str| world.get(&As::Owner, &format!("/api/v1/tools/{name}")).await.ok()["state"].clone();
        assert_eq!((state("getA").await, state("getB").await), (json!("active"), json!("active")));
        // What was not chosen is not gone.
        let chosen = import(&world, &author, &both, json!({"operations": ["getA"]})).await;
        assert_eq!(told(&chosen), ["getA unchanged 1.0.0 none", "getC gone - none"]);
        let done = import(&world, &author, &fewer, json!({"apply": true, "deprecate_gone": true})).await;
        assert_eq!(told(&done), ["getC unchanged 1.0.0 none", "getA gone - none", "getB gone - none"]);
        assert_eq!((state("getA").await, state("getB").await), (json!("deprecated"), json!("deprecated")));
        // Under a prefix it is another set of tools.
        let other = import(&world, &author, &fewer, json!({"prefix": "staging"})).await;
        assert_eq!(told(&other), ["staging.getA skipped - none", "staging.getC new 1.0.0 none"]);
    })
    .await;
}

#[tokio::test]
async fn a_name_that_another_tool_has_is_refused_and_the_rest_comes() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        world.register(&author, crate::world::tool("getRecord", json!({}))).await.ok();
        let text = document(&json!({
            "/a": {"get": {"operationId": "getRecord"}}, "/b": {"get": {"operationId": "calculator"}},
            "/c": {"get": {"operationId": "getOther"}}, "/d": {"post": {"requestBody": {"content": {"multipart/form-data": {}}}}},
        }));
        let done = import(&world, &author, &text, json!({"apply": true})).await;
        assert_eq!(
            told(&done),
            ["getRecord refused - none", "calculator refused - none", "getOther new 1.0.0 none", "createD refused - none"]
        );
        let code = |index: usize| done["operations"][index]["findings"][0]["code"].clone();
        assert_eq!([code(0), code(1), code(3)], ["openapi.name-taken", "openapi.name-taken", "openapi.body"]);
        let kind = world.get(&As::Owner, "/api/v1/tools/getRecord").await.ok()["runner"]["kind"].clone();
        assert_eq!(kind, "http", "what somebody made is not replaced");
        // The same operation from another document is another tool.
        let other = import(&world, &author, &text, json!({"name": "other", "operations": ["getOther"]})).await;
        assert_eq!(told(&other), ["getOther refused - none"]);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_imported_is_told_with_its_place() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let viewer = world.user("default", "vera", &["viewer"]).await;
        let send = async |who: &As, body: Value| world.send(who, "POST", "/api/v1/imports/openapi", body).await;
        send(&viewer, json!({"document": PETSTORE})).await.refused(403);
        send(&author, json!({})).await.refused(400);
        send(&author, json!({"document": PETSTORE, "url": "https://a.test"})).await.refused(400);
        send(&author, json!({"url": "file:///etc/passwd"})).await.refused(400);
        let broken = send(&author, json!({"document": "{\n\"openapi\": 3.0.0"})).await.refused(400);
        assert!(broken["detail"].as_str().unwrap().contains("in line 2"), "{broken}");
        assert_eq!(broken["details"]["findings"][0]["code"], "openapi.json");
        let missing = send(&author, json!({"document": PETSTORE, "tags": ["pet"]})).await.refused(400);
        assert_eq!((&missing["pointer"], &missing["remedy"]), (&json!("/tags/0"), &json!("did you mean `pets`?")));
        let large = format!("openapi: 3.0.0\nx: {}\n", "x".repeat(5 * 1024 * 1024));
        let refused = send(&author, json!({"document": large})).await.refused(400);
        assert!(refused["detail"].as_str().unwrap().contains("`paths`"), "more than other bodies is taken: {refused}");
        let large = "x".repeat(9 * 1024 * 1024);
        let refused = send(&author, json!({"document": large})).await.refused(400);
        assert_eq!(refused["details"]["findings"][0]["code"], "openapi.size");
        let huge = "x".repeat(20 * 1024 * 1024);
        send(&author, json!({"document": huge})).await.refused(413);
        // Nothing of it is read for whoever may not import.
        send(&viewer, json!({"document": huge})).await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn a_document_is_fetched_by_the_one_way_out() {
    every_world(async |world| {
        let author = world.user("default", "ada", &["author"]).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let paths = json!({"/a": {"get": {"operationId": "getA"}}});
            let text = json!({"openapi": "3.0.0", "info": {"title": "T"}, "servers": [{"url": "/v1"}], "paths": paths})
                .to_string();
            let relative = text.replace("/v1", "v1");
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = vec![0; 4096];
                let length = stream.read(&mut read).await.unwrap();
                let (status, body) = match read[..length].split(|byte| *byte == b' ').nth(1).unwrap() {
                    b"/api.json?key=1" => ("200 OK", text.as_str()),
                    b"/stable/api.json" => ("200 OK", relative.as_str()),
                    b"/latest.json" => ("302 Found\r\nlocation: /stable/api.json", ""),
                    _ => ("404 Not Found", ""),
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let url = format!("http://127.0.0.1:{port}/api.json?key=1");
        let send = async |url: &str| world.send(&author, "POST", "/api/v1/imports/openapi", json!({"url": url})).await;
        for closed in [url.as_str(), "http://169.254.169.254/latest", "http://[::1]/", "http://2130706433/"] {
            send(closed).await.refused(403);
        }
        let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "a test"});
        world.send(&As::OwnerOf("system"), "POST", "/api/v1/egress/openings", opening).await.ok();
        let shown = send(&url).await.ok();
        assert_eq!(told(&shown), ["getA new 1.0.0 none"]);
        assert_eq!(shown["document"], format!("http://127.0.0.1:{port}/api.json"), "without what may be a key");
        send(&format!("http://127.0.0.1:{port}/other")).await.refused(400);
        // A relative place is meant of where the document is in the end, whatever led there.
        let moved = format!("http://127.0.0.1:{port}/latest.json");
        let digest = send(&moved).await.ok()["digest"].clone();
        let body = json!({"url": moved, "apply": true, "expected_digest": digest, "prefix": "moved"});
        world.send(&author, "POST", "/api/v1/imports/openapi", body).await.ok();
        let tool = world.get(&author, "/api/v1/tools/moved.getA").await.ok();
        assert_eq!(tool["runner"]["server"], format!("http://127.0.0.1:{port}/stable/v1"));
        // What is written is what was looked at.
        let apply = async |digest: Value| {
            let body = json!({"url": url, "apply": true, "expected_digest": digest});
            world.send(&author, "POST", "/api/v1/imports/openapi", body).await
        };
        assert_eq!(apply(Value::Null).await.refused(400)["pointer"], "/expected_digest");
        apply(json!("0".repeat(64))).await.refused(409);
        assert_eq!(told(&apply(shown["digest"].clone()).await.ok()), ["getA new 1.0.0 none"]);
        let entries = world.get(&As::Owner, "/api/v1/audit/entries?limit=500").await.ok();
        let uses = entries["items"].as_array().unwrap().iter().filter(|entry| entry["entry"]["action"] == "egress.use");
        assert!(uses.count() >= 1);
    })
    .await;
}
