//! The kind `openapi`, from a document to a request on the wire: what is imported is what is sent.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::Requests;
use toolgate_vault::Secret;

use crate::world::{Server, World, answer, done, echo_of, every_world, failed, to_hosts};

async fn run(world: &World, runner: &Value, input: Value) -> Outcome {
    Requests::new(world.outside.clone()).run(testing::permit(world.call(runner, input))).await
}

fn operation(server: &Server, method: &str, path: &str, extra: Value) -> Value {
    let mut runner = json!({
        "kind": "openapi", "document": "test", "operation": "op", "method": method,
        "server": server.url("/v1"), "path": path,
    });
    runner.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    runner
}

#[tokio::test]
async fn parameters_are_written_as_the_document_says() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        for (parameter, value, expected) in [
            (json!({"name": "q", "in": "query"}), json!("a b&c"), "/v1/x?q=a%20b%26c"),
            (json!({"name": "q", "in": "query"}), json!(["a", "b"]), "/v1/x?q=a&q=b"),
            (json!({"name": "q", "in": "query", "explode": false}), json!(["a,b", "c"]), "/v1/x?q=a%2Cb,c"),
            (json!({"name": "q", "in": "query"}), json!({"r": 1, "g": 2}), "/v1/x?r=1&g=2"),
            (json!({"name": "q", "in": "query", "explode": false}), json!({"r": 1, "g": 2}), "/v1/x?q=r,1,g,2"),
            (json!({"name": "q", "in": "query", "style": "pipeDelimited"}), json!(["a", "b"]), "/v1/x?q=a%7Cb"),
            (json!({"name": "q", "in": "query", "style": "spaceDelimited"}), json!(["a", "b"]), "/v1/x?q=a%20b"),
            (
                json!({"name": "q", "in": "query", "style": "deepObject"}),
                json!({"owner": {"name": "Ada"}, "ids": [1, 2], "none": null}),
                "/v1/x?q%5Bowner%5D%5Bname%5D=Ada&q%5Bids%5D=1&q%5Bids%5D=2",
            ),
            (
                json!({"name": "q", "in": "query", "style": "json"}),
                json!({"a": [1]}),
                "/v1/x?q=%7B%22a%22%3A%5B1%5D%7D",
            ),
            (json!({"name": "q", "in": "query"}), json!(null), "/v1/x"),
            (json!({"name": "q", "in": "query"}), json!([]), "/v1/x"),
            (json!({"name": "q", "in": "query"}), json!(true), "/v1/x?q=true"),
        ] {
            let runner = operation(&server, "GET", "/x", json!({"parameters": [parameter]}));
            let output = done(run(&world, &runner, json!({"q": value})).await).result.structured.unwrap();
            assert_eq!(output["path"], expected, "{parameter} {value}");
        }
        let parameters = json!([
            {"name": "id", "in": "path"}, {"name": "X-Ids", "in": "header", "argument": "ids"},
            {"name": "filter[name]", "in": "query", "argument": "filter_name"},
        ]);
        let runner =
            operation(&server, "GET", "/x/{id}/y", json!({"parameters": parameters, "accept": "application/json"}));
        let input = json!({"id": ["a/b", "c"], "ids": [1, 2], "filter_name": "n", "X-Ids": "not this"});
        let output = done(run(&world, &runner, input).await).result.structured.unwrap();
        assert_eq!(output["path"], "/v1/x/a%2Fb%2Cc/y?filter%5Bname%5D=n");
        assert_eq!(output["headers"]["x-ids"], "1,2");
        assert_eq!(output["headers"]["accept"], "application/json");
    })
    .await;
}

#[tokio::test]
async fn a_path_has_labels_and_matrices_where_the_document_says_so() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let asked = async |style: &str, explode: bool, value: &Value| {
            let parameter = json!({"name": "id", "in": "path", "style": style, "explode": explode});
            let runner = operation(&server, "GET", "/x/{id}/y", json!({"parameters": [parameter]}));
            run(&world, &runner, json!({"id": value})).await
        };
        let (list, object) = (json!(["a", "b/c"]), json!({"r": 1, "g;": "=2"}));
        for (style, explode, value, expected) in [
            ("label", false, &json!(5), ".5"),
            ("label", false, &list, ".a,b%2Fc"),
            ("label", true, &list, ".a.b%2Fc"),
            ("label", false, &object, ".r,1,g%3B,%3D2"),
            ("label", true, &object, ".r=1.g%3B=%3D2"),
            ("matrix", false, &json!("a;b"), ";id=a%3Bb"),
            ("matrix", false, &json!(""), ";id"),
            ("matrix", false, &list, ";id=a,b%2Fc"),
            ("matrix", true, &list, ";id=a;id=b%2Fc"),
            ("matrix", false, &object, ";id=r,1,g%3B,%3D2"),
            ("matrix", true, &object, ";r=1;g%3B=%3D2"),
        ] {
            let output = done(asked(style, explode, value).await).result.structured.unwrap();
            assert_eq!(output["path"], format!("/v1/x/{expected}/y"), "{style} {explode} {value}");
        }
        // A dot before a dot, or before nothing, would be another folder.
        let sent = server.requests().len();
        for (style, explode, value) in [
            ("label", false, json!("")),
            ("label", false, json!(".")),
            ("label", false, json!([])),
            ("label", true, json!(["", ""])),
            ("label", false, json!("a\r\nb")),
            ("matrix", true, json!([])),
            ("matrix", true, json!({})),
        ] {
            let error = failed(asked(style, explode, &value).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{style} {value}");
        }
        assert_eq!(server.requests().len(), sent);
    })
    .await;
}

#[tokio::test]
async fn a_form_with_files_has_a_part_for_each() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let body = json!({
            "content_type": "multipart/form-data", "required": true,
            "members": ["title", "count", "about", "tags", "picture", "more", "none"], "files": ["picture", "more"],
        });
        let runner = operation(&server, "POST", "/x", json!({"body": body}));
        let input = json!({
            "title": "a \"b\"\r\n--x", "count": 2, "about": {"by": "Ada"}, "tags": ["x", "y"], "none": null,
            "picture": "iVBORw==", "more": ["YQ==", ""],
        });
        let output = done(run(&world, &runner, input.clone()).await).result.structured.unwrap();
        let content_type = output["headers"]["content-type"].as_str().unwrap().to_owned();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let sent = output["body"].as_str().unwrap().strip_suffix(&format!("--{boundary}--\r\n")).unwrap().to_owned();
        let parts: Vec<&str> = sent.split(&format!("--{boundary}\r\n")).skip(1).collect();
        let plain = |name: &str, value: &str| format!("content-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        let file = |name: &str, value: &str| {
            format!(
                "content-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\
                 content-type: application/octet-stream\r\n\r\n{value}\r\n"
            )
        };
        let mut expected = vec![
            "content-disposition: form-data; name=\"about\"\r\ncontent-type: application/json\r\n\r\n{\"by\":\"Ada\"}\r\n"
                .to_owned(),
            plain("count", "2"),
            file("more", "a"),
            file("more", ""),
            file("picture", "\u{fffd}PNG"),
            plain("tags", "x"),
            plain("tags", "y"),
            plain("title", "a \"b\"\r\n--x"),
        ];
        let mut found: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);

        for (member, value) in [("picture", json!("no base64!")), ("picture", json!(1)), ("more", json!(["YQ==", "?"]))] {
            let mut input = input.clone();
            input[member] = value;
            let error = failed(run(&world, &runner, input).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{}", error.message);
            let pointer = error.details.unwrap()["pointer"].as_str().unwrap().to_owned();
            assert!(pointer.starts_with(&format!("/{member}")), "{pointer}");
        }
        // Names that somebody else chose stay names.
        let whole = json!({"content_type": "multipart/form-data", "argument": "body"});
        let runner = operation(&server, "POST", "/x", json!({"body": whole}));
        let input = json!({"body": {"a\"; filename=\"b\r\nX-A: c": "1"}});
        let output = done(run(&world, &runner, input).await).result.structured.unwrap();
        let sent = output["body"].as_str().unwrap();
        assert!(sent.contains("name=\"a%22; filename=%22b%0D%0AX-A: c\"\r\n\r\n1"), "{sent}");
    })
    .await;
}

#[tokio::test]
async fn an_object_that_is_spread_names_no_other_parameter_and_no_key() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let runner = operation(
            &server,
            "GET",
            "/x",
            json!({
                "parameters": [{"name": "filter", "in": "query"}, {"name": "account", "in": "query"}],
                "auth": {"secret": "TOKEN", "query": "key"},
            }),
        );
        let asked = async |filter: Value| {
            let call = world.call(&runner, json!({"filter": filter, "account": "mine"}));
            let secret = Secret::new("TOKEN", b"k-123456".to_vec()).allowing(to_hosts(&["127.0.0.1"]));
            Requests::new(world.outside.clone()).run(testing::permit_with(call, vec![secret])).await
        };
        let output = done(asked(json!({"color": "red", "size": 2})).await).result.structured.unwrap();
        assert_eq!(output["path"], "/v1/x?color=red&size=2&account=mine&key=k-123456");
        let sent = server.requests().len();
        for name in ["account", "key", "filter"] {
            let error = failed(asked(json!({"color": "red", name: "theirs"})).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{name}");
            assert_eq!(error.details.unwrap()["pointer"], format!("/filter/{name}"));
        }
        assert_eq!(server.requests().len(), sent);
    })
    .await;
}

#[tokio::test]
async fn a_body_is_json_a_form_or_text() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        for (body, input, content_type, expected) in [
            (
                json!({"content_type": "application/json", "members": ["a", "b", "c"], "required": true}),
                json!({"a": 1, "b": null, "other": 2}),
                json!("application/json"),
                r#"{"a":1,"b":null}"#,
            ),
            (
                json!({"content_type": "application/vnd.api+json", "argument": "body"}),
                json!({"body": ["x"]}),
                json!("application/vnd.api+json"),
                r#"["x"]"#,
            ),
            (
                json!({"content_type": "application/x-www-form-urlencoded", "members": ["a", "b"]}),
                json!({"a": "x y", "b": [1, 2]}),
                json!("application/x-www-form-urlencoded"),
                "a=x+y&b=1&b=2",
            ),
            (
                json!({"content_type": "text/plain", "argument": "body"}),
                json!({"body": "\"hi\""}),
                json!("text/plain"),
                "\"hi\"",
            ),
            (json!({"content_type": "application/json", "members": ["a"]}), json!({}), Value::Null, ""),
            (
                json!({"content_type": "application/json", "members": ["a"], "required": true}),
                json!({}),
                json!("application/json"),
                "{}",
            ),
        ] {
            let runner = operation(&server, "POST", "/x", json!({"body": body}));
            let output = done(run(&world, &runner, input).await).result.structured.unwrap();
            assert_eq!(output["headers"].get("content-type").unwrap_or(&Value::Null), &content_type, "{body}");
            assert_eq!(output["body"], expected, "{body}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_argument_does_not_leave_its_place() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let parameters = json!([{"name": "id", "in": "path"}, {"name": "X-A", "in": "header"}]);
        let runner = operation(&server, "GET", "/x/{id}", json!({"parameters": parameters}));
        for (input, expected) in [
            (json!({"id": ".."}), "leaves its place"),
            (json!({"id": ""}), "leaves its place"),
            (json!({"id": []}), "leaves its place"),
            (json!({}), "needs a value for `id`"),
            (json!({"id": "a", "X-A": "b\r\nX-B: c"}), "line break"),
        ] {
            let error = failed(run(&world, &runner, input.clone()).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{input}");
            assert!(error.message.contains(expected), "{input}: {}", error.message);
        }
        let long = json!([{"name": "q", "in": "query"}]);
        let runner = operation(&server, "GET", "/x", json!({"parameters": long}));
        let error = failed(run(&world, &runner, json!({"q": "x".repeat(20_000)})).await);
        assert_eq!(error.code, ErrorCode::ValidationError);
        assert_eq!(server.requests().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_key_goes_where_the_document_says_if_its_owner_lets_it() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let requests = Requests::new(world.outside.clone());
        let secret = |hosts: &[&str]| Secret::new("KEY", b"k&y".to_vec()).allowing(to_hosts(hosts));
        for (auth, header, path, plan) in [
            (json!({"secret": "KEY"}), ("authorization", json!("Bearer k&y")), "/v1/x?q=1", "/v1/x?q=1"),
            (json!({"secret": "KEY", "header": "X-Key"}), ("x-key", json!("k&y")), "/v1/x?q=1", "/v1/x?q=1"),
            (
                json!({"secret": "KEY", "query": "key"}),
                ("authorization", Value::Null),
                "/v1/x?q=1&key=k%26y",
                "/v1/x?q=1&key=[secret:KEY]",
            ),
        ] {
            let extra = json!({"auth": auth, "parameters": [{"name": "q", "in": "query"}]});
            let runner = operation(&server, "GET", "/x", extra);
            let call = || world.call(&runner, json!({"q": 1}));
            let planned = requests.plan(&call()).await.unwrap();
            assert_eq!(planned["url"], server.url(plan), "{auth}");
            let permit = testing::permit_with(call(), vec![secret(&["127.0.0.1"])]);
            let output = done(requests.run(permit).await).result.structured.unwrap();
            assert_eq!(output["path"], path, "{auth}");
            assert_eq!(output["headers"].get(header.0).unwrap_or(&Value::Null), &header.1, "{auth}");
            let permit = testing::permit_with(call(), vec![secret(&["elsewhere.test"])]);
            let error = failed(requests.run(permit).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::AuthRequired, "secret_not_allowed"), "{auth}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_is_told_in_the_same_words_as_that_of_any_request() {
    every_world(async |world| {
        let server = Server::start(|request| match request.split(' ').next().unwrap() {
            "GET" => answer("429 Too Many", &[("retry-after", "3")], b"slow"),
            _ => answer("504 Gateway Timeout", &[], b""),
        })
        .await;
        world.open_port(server.address.port()).await;
        let error = failed(run(&world, &operation(&server, "GET", "/x", json!({})), json!({})).await);
        assert_eq!((error.code, error.retry_after_s), (ErrorCode::RateLimit, Some(3)));
        let outcome = run(&world, &operation(&server, "POST", "/x", json!({})), json!({})).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    })
    .await;
}
