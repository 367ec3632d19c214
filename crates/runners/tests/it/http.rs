//! The kind `http`, end to end with a server: what goes out, what comes back, what is refused.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::Requests;
use toolgate_vault::Secret;

use crate::world::{Server, World, answer, done, echo_of, every_world, failed, json_answer, to_hosts};

async fn run(world: &World, runner: &Value, input: Value) -> Outcome {
    Requests::new(world.outside.clone()).run(testing::permit(world.call(runner, input))).await
}

#[tokio::test]
async fn arguments_fill_places_and_nothing_else() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let runner = json!({
            "kind": "http", "method": "POST", "url": server.url("/users/{id}/notes"),
            "query": {"q": "{{ q }}", "tag": "{{ tags }}", "page": "{{ page }}"},
            "headers": {"X-Note": "n-{{ id }}"},
            "body": {"text": "{{ text }}", "count": "{{ n }}", "absent": "{{ missing }}", "fixed": true, "list": ["{{ id }}", 1]},
        });
        let input = json!({"id": "a/../b?x=1#y", "q": "a&b=c", "tags": ["x", "y z"], "text": "line\n\"two\"", "n": 3});
        let output = done(run(&world, &runner, input).await).result.structured.unwrap();
        assert_eq!(output["method"], "POST");
        assert_eq!(output["path"], "/users/a%2F..%2Fb%3Fx%3D1%23y/notes?q=a%26b%3Dc&tag=x&tag=y+z");
        assert_eq!(output["headers"]["x-note"], "n-a/../b?x=1#y");
        assert_eq!(output["headers"]["content-type"], "application/json");
        let body: Value = serde_json::from_str(output["body"].as_str().unwrap()).unwrap();
        assert_eq!(body, json!({"text": "line\n\"two\"", "count": 3, "fixed": true, "list": ["a/../b?x=1#y", 1]}));
    })
    .await;
}

#[tokio::test]
async fn what_leaves_its_place_is_refused_before_anything_is_sent() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let runner = json!({
            "kind": "http", "method": "GET", "url": server.url("/users/{id}"), "headers": {"X-A": "{{ h }}"},
        });
        for (input, expected) in [
            (json!({"id": "..", "h": "x"}), "leaves its place"),
            (json!({"id": ".", "h": "x"}), "leaves its place"),
            (json!({"id": "", "h": "x"}), "leaves its place"),
            (json!({"h": "x"}), "needs a value for `id`"),
            (json!({"id": "a\r\nHost: b", "h": "x"}), "line break"),
            (json!({"id": "a", "h": "x\r\nX-B: c"}), "line break"),
        ] {
            let error = failed(run(&world, &runner, input.clone()).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{input}");
            assert!(error.message.contains(expected), "{input}: {}", error.message);
        }
        assert_eq!(server.requests().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_answer_is_told_in_the_taxonomy() {
    every_world(async |world| {
        let server = Server::start(|request| {
            let status = request.split(['/', ' ']).nth(2).unwrap();
            let headers = match status {
                "429" => &[("retry-after", "17")][..],
                "503" => &[("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT"), ("date", "Sun, 15 Nov 2026 12:00:00 GMT")],
                _ => &[],
            };
            answer(&format!("{status} Word"), headers, b"why it is so")
        })
        .await;
        world.open_port(server.address.port()).await;
        let runner = |method: &str| json!({"kind": "http", "method": method, "url": server.url("/{status}")});
        for (status, code, reason, retry) in [
            ("401", ErrorCode::AuthRequired, "upstream", None),
            ("403", ErrorCode::AuthRequired, "upstream", None),
            ("429", ErrorCode::RateLimit, "upstream", Some(17)),
            ("404", ErrorCode::ProviderError, "upstream_4xx", None),
            ("500", ErrorCode::ProviderError, "upstream_5xx", None),
            ("503", ErrorCode::ProviderError, "upstream_5xx", Some(30)),
        ] {
            let error = failed(run(&world, &runner("GET"), json!({"status": status})).await);
            assert_eq!((error.code, error.reason()), (code, reason), "{status}");
            assert_eq!(error.retry_after_s, retry, "{status}");
            let details = error.details.unwrap();
            assert_eq!(details["body"], "why it is so", "{status}");
            assert_eq!(details["status"].to_string(), status);
        }
        let error = failed(run(&world, &runner("POST"), json!({"status": "500"})).await);
        assert_eq!(error.details.unwrap()["perhaps_happened"], true);
        for status in ["502", "504"] {
            assert!(matches!(run(&world, &runner("POST"), json!({"status": status})).await, Outcome::Unknown(_)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_a_write_unknown_and_a_read_failed() {
    every_world(async |world| {
        let server = Server::start(|_| Vec::new()).await;
        world.open_port(server.address.port()).await;
        let runner = |method: &str| json!({"kind": "http", "method": method, "url": server.url("/")});
        assert!(matches!(run(&world, &runner("POST"), json!({})).await, Outcome::Unknown(_)));
        assert_eq!(failed(run(&world, &runner("GET"), json!({})).await).code, ErrorCode::NetworkError);
        // Nobody listens there: nothing went out.
        let closed = json!({"kind": "http", "method": "POST", "url": "http://127.0.0.1:1/"});
        world.open_port(1).await;
        assert_eq!(failed(run(&world, &closed, json!({})).await).code, ErrorCode::NetworkError);
        // A host that nobody opened.
        let closed = json!({"kind": "http", "method": "GET", "url": "http://127.0.0.1:2/"});
        let error = failed(run(&world, &closed, json!({})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "egress"));
    })
    .await;
}

#[tokio::test]
async fn a_write_that_was_redirected_into_an_error_is_unknown() {
    every_world(async |world| {
        let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
            "/form" => answer("303 See Other", &[("location", "/done")], b""),
            _ => answer("404 Not Found", &[], b""),
        })
        .await;
        world.open_port(server.address.port()).await;
        let runner = json!({"kind": "http", "method": "POST", "url": server.url("/form")});
        assert!(matches!(run(&world, &runner, json!({})).await, Outcome::Unknown(_)));
    })
    .await;
}

#[tokio::test]
async fn a_secret_goes_where_its_owner_lets_it_and_is_named_in_a_plan() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let requests = Requests::new(world.outside.clone());
        let secret = |hosts: &[&str]| vec![Secret::new("TOKEN", b"ada:lovelace".to_vec()).allowing(to_hosts(hosts))];
        for (auth, header, expected) in [
            (json!({"secret": "TOKEN"}), "authorization", "Bearer ada:lovelace"),
            (json!({"secret": "TOKEN", "header": "X-Key"}), "x-key", "ada:lovelace"),
            (json!({"secret": "TOKEN", "scheme": "Basic"}), "authorization", "Basic YWRhOmxvdmVsYWNl"),
        ] {
            let runner = json!({"kind": "http", "method": "GET", "url": server.url("/"), "auth": auth});
            let call = world.call(&runner, json!({}));
            let plan = requests.plan(&call).await.unwrap();
            assert_eq!(plan["headers"][header], "[secret:TOKEN]");
            let output = done(requests.run(testing::permit_with(call, secret(&["127.0.0.1"]))).await);
            assert_eq!(output.result.structured.unwrap()["headers"][header], expected);
            let sent = server.requests().len();
            let refused = testing::permit_with(world.call(&runner, json!({})), secret(&["b.test"]));
            let error = failed(requests.run(refused).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::AuthRequired, "secret_not_allowed"));
            assert_eq!(server.requests().len(), sent, "nothing is sent without it");
        }
    })
    .await;
}

#[tokio::test]
async fn a_response_is_mapped_kept_as_text_or_attached() {
    every_world(async |world| {
        let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
            "/json" => json_answer(&json!({"rates": {"USD": 1.08}})),
            "/text" => answer("200 OK", &[("content-type", "text/html; charset=utf-8")], b"<p>hello</p>"),
            "/image" => answer("200 OK", &[("content-type", "image/png")], &[0x89, b'P', 0xff]),
            "/latin" => answer("200 OK", &[("content-type", "text/plain")], &[b'a', 0xe9]),
            _ => answer("204 No Content", &[], b""),
        })
        .await;
        world.open_port(server.address.port()).await;
        let at = |path: &str, response: Option<&str>| {
            let mut runner = json!({"kind": "http", "method": "GET", "url": server.url(path)});
            if let Some(response) = response {
                runner["response"] = json!(response);
            }
            runner
        };
        let mapped =
            at("/json", Some("{'rate': body.rates[input.quote], 'status': status, 'type': headers['content-type']}"));
        let output = done(run(&world, &mapped, json!({"quote": "USD"})).await).result.structured.unwrap();
        assert_eq!(output, json!({"rate": 1.08, "status": 200, "type": "application/json"}));
        let error = failed(run(&world, &mapped, json!({"quote": "EUR"})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::ProviderError, "output_schema"));

        // What was taken stays taken, whatever its answer looks like.
        let mut write = at("/none", Some("body.id"));
        write["method"] = json!("POST");
        let taken = done(run(&world, &write, json!({})).await).result.structured.unwrap();
        assert_eq!(taken["status"], 204, "{taken}");

        let text = serde_json::to_value(done(run(&world, &at("/text", None), json!({})).await).result).unwrap();
        assert_eq!(text["content"], json!([{"type": "text", "text": "<p>hello</p>"}]));
        let image = done(run(&world, &at("/image", None), json!({})).await);
        assert_eq!(image.attachments[0].bytes, [0x89, b'P', 0xff]);
        assert_eq!(image.result.structured.unwrap(), json!({"content_type": "image/png", "bytes": 3}));
        let latin = done(run(&world, &at("/latin", None), json!({})).await);
        assert_eq!(latin.attachments[0].content_type, "application/octet-stream");
        let empty = done(run(&world, &at("/none", None), json!({})).await);
        assert_eq!(empty.result.structured.unwrap(), json!({}));
    })
    .await;
}

#[tokio::test]
async fn json_that_is_read_in_two_ways_is_named_and_not_taken_for_text() {
    every_world(async |world| {
        let server = Server::start(|request| {
            let body = match request.split(' ').nth(1).unwrap() {
                "/large" => r#"{"rows": [{"id": 9007199254740993}]}"#,
                "/twice" => r#"{"rows": [], "rows": [1]}"#,
                _ => "no JSON at all",
            };
            answer("200 OK", &[("content-type", "application/json")], body.as_bytes())
        })
        .await;
        world.open_port(server.address.port()).await;
        for (path, words) in [("/large", ["9007199254740993", "/rows/0/id"]), ("/twice", ["`rows`", "JSON"])] {
            for extra in
                [json!({}), json!({"response": "body"}), json!({"pagination": {"items": "/rows", "next": "/next"}})]
            {
                let mut runner = json!({"kind": "http", "method": "GET", "url": server.url(path)});
                runner.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
                let error = failed(run(&world, &runner, json!({})).await);
                assert_eq!((error.code, error.reason()), (ErrorCode::ProviderError, "output_schema"), "{runner}");
                assert!(words.iter().all(|word| error.message.contains(word)), "{}", error.message);
            }
            // A write has happened, and says so.
            let runner = json!({"kind": "http", "method": "POST", "url": server.url(path)});
            let taken = done(run(&world, &runner, json!({})).await).result.structured.unwrap();
            assert_eq!(taken["status"], 200);
            assert!(words.iter().all(|word| taken["unmapped"].as_str().unwrap().contains(word)), "{taken}");
        }
        let runner = json!({"kind": "http", "method": "GET", "url": server.url("/text")});
        let text = serde_json::to_value(done(run(&world, &runner, json!({})).await).result).unwrap();
        assert_eq!(text["content"], json!([{"type": "text", "text": "no JSON at all"}]));
    })
    .await;
}

#[tokio::test]
async fn pages_are_put_together_and_never_lead_elsewhere() {
    every_world(async |world| {
        let server = Server::start(|request| match request.split(' ').nth(1).unwrap() {
            "/list?size=2" => json_answer(&json!({"items": [1, 2], "next": "b"})),
            "/list?size=2&cursor=b" => json_answer(&json!({"items": [3], "next": null})),
            "/three" => json_answer(&json!({"items": [1], "next": "/three?p=2"})),
            "/three?p=2" => json_answer(&json!({"items": [2], "next": "/three?p=3"})),
            "/three?p=3" => json_answer(&json!({"items": [3]})),
            "/linked" => json_answer(&json!({"items": [1], "next": "/linked?p=2"})),
            "/linked?p=2" => json_answer(&json!({"items": [2], "next": "/linked?p=2"})),
            "/away" => json_answer(&json!({"items": [1], "next": "http://evil.test/x"})),
            _ => json_answer(&json!({"no": true})),
        })
        .await;
        world.open_port(server.address.port()).await;
        let at = |path: &str, parameter: Option<&str>| {
            let mut pagination = json!({"items": "/items", "next": "/next"});
            if let Some(parameter) = parameter {
                pagination["parameter"] = json!(parameter);
            }
            json!({"kind": "http", "method": "GET", "url": server.url(path), "pagination": pagination, "response": "body.items"})
        };
        let items = async |runner: Value| done(run(&world, &runner, json!({})).await).result.structured.unwrap();
        assert_eq!(items(at("/list?size=2", Some("cursor"))).await, json!([1, 2, 3]));
        // A page that names itself as the next ends the list.
        assert_eq!(items(at("/linked", None)).await, json!([1, 2]));
        // The result says where to go on: behind the last page that was read, or nowhere.
        for (path, parameter, max, next) in [
            ("/list?size=2", Some("cursor"), 1, Some("b")),
            ("/list?size=2", Some("cursor"), 2, None),
            ("/linked", None, 1, Some("/linked?p=2")),
            ("/linked", None, 5, None),
            ("/three", None, 2, Some("/three?p=3")),
            ("/three", None, 3, None),
        ] {
            let mut runner = at(path, parameter);
            runner.as_object_mut().unwrap().shift_remove("response");
            runner["pagination"]["max_pages"] = json!(max);
            let whole = items(runner).await;
            assert_eq!(whole.get("next").and_then(Value::as_str), next, "{path}, {max}: {whole}");
        }
        let mut acts = at("/list?size=2", Some("cursor"));
        acts["method"] = json!("POST");
        assert!(failed(run(&world, &acts, json!({})).await).message.contains("only `GET`"));
        for path in ["/away", "/other"] {
            let error = failed(run(&world, &at(path, None), json!({})).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::ProviderError, "output_schema"), "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_in_the_query_goes_to_every_page_and_along_no_redirect() {
    every_world(async |world| {
        let elsewhere = Server::start(echo_of).await;
        let away = elsewhere.url("/taken");
        let server = Server::start(move |request| {
            let path = request.split(' ').nth(1).unwrap();
            if path.starts_with("/moved") {
                let location = format!("{away}?{}", path.split_once('?').unwrap().1);
                return answer("302 Found", &[("location", location.as_str())], b"");
            }
            let next = path.starts_with("/first").then_some("/second");
            json_answer(&json!({"items": [path], "next": next}))
        })
        .await;
        world.open_port(server.address.port()).await;
        world.open_port(elsewhere.address.port()).await;
        let requests = Requests::new(world.outside.clone());
        let asked = async |path: &str, pages: bool| {
            let mut runner = json!({
                "kind": "http", "method": "GET", "url": server.url(path), "auth": {"secret": "TOKEN", "query": "key"},
            });
            if pages {
                runner["pagination"] = json!({"items": "/items", "next": "/next"});
            }
            let secret = Secret::new("TOKEN", b"k-123456".to_vec()).allowing(to_hosts(&["127.0.0.1"]));
            requests.run(testing::permit_with(world.call(&runner, json!({})), vec![secret])).await
        };
        let pages = done(asked("/first", true).await).result.structured.unwrap();
        assert_eq!(pages["items"], json!(["/first?key=k-123456", "/second?key=k-123456"]));
        failed(asked("/moved", false).await);
        assert_eq!(elsewhere.requests().len(), 0, "the address that it was sent to had the key in it");
    })
    .await;
}
