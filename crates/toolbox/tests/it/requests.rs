//! `http_get` and `http_request`: any address through the one way out, and what comes back.

use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{
    self, AuthRequired, NetworkError, PolicyDenied, ProviderError, RateLimit, Timeout, ValidationError,
};
use toolgate_engine::runner::Done;
use toolgate_engine::{Outcome, Runner as _};

use crate::services::{Server, answer, json_answer, open_port, target};
use crate::world::{World, error, every_world, output};

#[track_caller]
fn done(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

async fn get(world: &World, url: &str) -> Outcome {
    world.run(world.call("http_get", json!({"url": url}))).await
}

async fn opened(world: &World, reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let server = Server::start(reply).await;
    open_port(world, server.address.port()).await;
    server
}

#[tokio::test]
async fn an_answer_is_json_text_or_an_attachment_with_a_preview() {
    every_world(async |world| {
        let server = opened(&world, |request| match target(request) {
            "GET /json" => answer(
                "200 OK",
                &[("content-type", "application/json"), ("etag", "\"7\""), ("set-cookie", "a=b")],
                br#"{"USD": 1.08}"#,
            ),
            "GET /moved" => answer("302 Found", &[("location", "/json")], b""),
            "GET /page" => answer("200 OK", &[("content-type", "text/html")], b"<p>hello</p>"),
            "GET /long" => answer("200 OK", &[("content-type", "text/plain")], "ä".repeat(70_000).as_bytes()),
            "GET /pdf" => answer("200 OK", &[("content-type", "application/pdf")], b"%PDF-1.7\n\xff\xfe 1 0 obj"),
            "GET /latin" => answer("200 OK", &[("content-type", "text/plain")], b"caf\xe9"),
            _ => answer("204 No Content", &[], b""),
        })
        .await;
        let told = |path: &str, more: Value| {
            let mut told = json!({"status": 200, "url": server.url(path), "headers": {}});
            told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            told
        };
        let length = json!({"content-length": "13", "etag": "\"7\""});
        let json = json!({"headers": length, "content_type": "application/json", "json": {"USD": 1.08}});
        world.check("http_get", json!({"url": server.url("/json#part")}), told("/json", json.clone())).await;
        world.check("http_get", json!({"url": server.url("/moved")}), told("/json", json)).await;
        let page = json!({"headers": {"content-length": "12"}, "content_type": "text/html", "bytes": 12, "text": "<p>hello</p>"});
        world.check("http_get", json!({"url": server.url("/page")}), told("/page", page)).await;
        let nothing = json!({"status": 204, "url": server.url("/none"), "headers": {"content-length": "0"}});
        world.check("http_get", json!({"url": server.url("/none")}), nothing).await;

        let long = done(get(&world, &server.url("/long")).await);
        let cut = long.result.structured.unwrap();
        assert_eq!((cut["text"].as_str().unwrap().chars().count(), &cut["truncated"]), (65_536, &json!(true)));
        assert_eq!(long.attachments[0].bytes.len(), 140_000);

        let pdf = done(get(&world, &server.url("/pdf")).await);
        let shown = pdf.result.structured.unwrap();
        assert_eq!((&shown["preview"], &shown["bytes"]), (&json!("%PDF-1.7··· 1 0 obj"), &json!(19)));
        assert_eq!(pdf.attachments[0].content_type, "application/pdf");
        let latin = done(get(&world, &server.url("/latin")).await);
        assert_eq!(latin.attachments[0].bytes, b"caf\xe9", "what is no UTF-8 is kept byte by byte");
    })
    .await;
}

#[tokio::test]
async fn no_spelling_of_a_local_address_passes_this_door() {
    every_world(async |world| {
        let server = Server::start(|_| json_answer(&json!({"secret": true}))).await;
        let port = server.address.port();
        // Only the first hop is open.
        let first = opened(&world, move |request| {
            let to = target(request).strip_prefix("GET /to?").unwrap_or("http://127.0.0.1:1/").to_owned();
            answer("302 Found", &[("location", &to.replace("PORT", &port.to_string()))], b"")
        })
        .await;
        let hosts = [
            "127.0.0.1",
            "localhost",
            "localhost.",
            "2130706433",
            "0177.0.0.1",
            "0x7f.1",
            "127.1",
            "①②⑦.⓪.⓪.①",
            "127。0。0。1",
            "%31%32%37.0.0.1",
            "127.0.0.1.",
            "0",
            "0.0.0.0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::]",
            "[64:ff9b::7f00:1]",
            "169.254.169.254",
            "metadata.google.internal",
            "[fd00:ec2::254]",
            "10.0.0.1",
            "user@127.0.0.1",
            "x&@127.0.0.1",
        ];
        for host in hosts {
            for url in [
                format!("http://{host}:{port}/"),
                format!("https://{host}/"),
                first.url(&format!("/to?http://{host}:PORT/")),
            ] {
                let refused = error(get(&world, &url).await);
                assert!(matches!(refused.code, PolicyDenied | ValidationError | NetworkError), "{url}: {refused:?}");
                assert_ne!(refused.reason(), "connect", "{url}: nothing was connected to");
            }
        }
        for url in [
            "file:///etc/passwd",
            "ftp://a.test/",
            "gopher://127.0.0.1/",
            "data:text/plain,x",
            "unix:/run/x",
            "http:\\\\127.0.0.1\\",
        ] {
            let refused = error(get(&world, url).await);
            assert!(matches!(refused.code, PolicyDenied | ValidationError), "{url}: {refused:?}");
        }
        assert_eq!(server.requests().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_an_upstream_does_wrong_ends_in_the_taxonomy() {
    every_world(async |world| {
        let server = opened(&world, |request| match target(request).strip_prefix("GET ").unwrap() {
            "/bomb" => {
                let mut packed = GzEncoder::new(Vec::new(), Compression::best());
                std::io::Write::write_all(&mut packed, &vec![0; 20 * 1024 * 1024]).unwrap();
                answer("200 OK", &[("content-encoding", "gzip")], &packed.finish().unwrap())
            }
            "/breaks" => Vec::new(),
            "/garbage" => b"what?".to_vec(),
            "/401" => answer("401 Unauthorized", &[], b"who are you"),
            "/404" => answer("404 Not Found", &[], b"nothing here"),
            "/429" => answer("429 Too Many Requests", &[("retry-after", "7")], b""),
            "/spent" => answer(
                "403 Forbidden",
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1794736860"),
                    ("date", "Sun, 15 Nov 2026 10:00:00 GMT"),
                ],
                b"",
            ),
            "/503" => answer("503 Service Unavailable", &[], b""),
            round => answer("302 Found", &[("location", &format!("{round}x"))], b""),
        })
        .await;
        for (path, code, reason, message) in [
            ("/bomb", NetworkError, "reset", "inflate"),
            ("/breaks", NetworkError, "reset", ""),
            ("/garbage", NetworkError, "reset", ""),
            ("/round", NetworkError, "redirects", ""),
            (
                "/401",
                AuthRequired,
                "upstream",
                "it wants credentials, and this tool has none; use a tool with a secret for it",
            ),
            ("/404", ProviderError, "upstream_4xx", "answers 404"),
            ("/429", RateLimit, "upstream", "wait and try again"),
            ("/spent", RateLimit, "upstream", "wait and try again"),
            ("/503", ProviderError, "upstream_5xx", "answers 503"),
        ] {
            let failed: toolgate_contracts::ToolError = error(get(&world, &server.url(path)).await);
            assert_eq!((failed.code, failed.reason()), (code, reason), "{path}: {}", failed.message);
            assert!(failed.message.contains(message), "{path}: {}", failed.message);
            let waits = match path {
                "/429" => Some(7),
                "/spent" => Some(60),
                _ => None,
            };
            assert_eq!(failed.retry_after_s, waits, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_never_answers_ends_with_the_call() {
    every_world(async |world| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        open_port(&world, address.port()).await;
        let mut call = world.call("http_get", json!({"url": format!("http://{address}/")}));
        call.timeout = Duration::from_millis(200);
        let failed = error(world.run(call).await);
        assert_eq!((failed.code, failed.reason()), (Timeout, "timeout"), "{}", failed.message);

        let call = world.call("http_get", json!({"url": format!("http://{address}/")}));
        call.cancel.cancel();
        let cancelled = error(world.run(call).await);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"));
        // A write that is on its way may have arrived.
        let call =
            world.call("http_request", json!({"method": "POST", "url": format!("http://{address}/"), "body": "x"}));
        let cancel = call.cancel.clone();
        let (outcome, ()) = tokio::join!(world.run(call), async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            cancel.cancel();
        });
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn arguments_stay_in_their_place() {
    every_world(async |world| {
        let server = opened(&world, |_| json_answer(&json!({}))).await;
        let url = server.url("/");
        for (tool, input, part) in [
            ("http_get", json!({"url": "a b"}), "percent-encode"),
            ("http_get", json!({"url": "https://a.test/\r\nHost: b"}), "line break"),
            ("http_get", json!({"url": "https://a.test/".repeat(700)}), "the limit is 8192"),
            ("http_get", json!({"url": "//a.test"}), "is no address"),
            ("http_get", json!({"url": "https://a:b@a.test/"}), "a user or a password"),
            ("http_get", json!({"url": url, "headers": {"X-A": "b\r\nX-C: d"}}), "line break"),
            ("http_get", json!({"url": url, "headers": {"X A": "b"}}), "is no name of a header"),
            ("http_get", json!({"url": url, "headers": {"Host": "b.test"}}), "`host` is not the caller's to set"),
            ("http_get", json!({"url": url, "headers": {"Cookie": "a"}}), "`cookie` is not the caller's to set"),
            ("http_get", json!({"url": url, "headers": {"Content-Length": "0"}}), "`content-length`"),
            ("http_get", json!({"url": url, "headers": {"Proxy-Authorization": "x"}}), "`proxy-authorization`"),
            ("http_request", json!({"method": "TRACE", "url": url}), "`TRACE` is none of GET"),
            ("http_request", json!({"method": "get", "url": url}), "`get` is none of GET"),
            ("http_request", json!({"method": "GET", "url": url, "body": {}}), "a `GET` has no body"),
        ] {
            let refused = error(world.run(world.call(tool, input.clone())).await);
            assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"), "{input}: {}", refused.message);
            assert!(refused.message.contains(part), "{input}: {}", refused.message);
        }
        assert_eq!(server.requests().len(), 0, "nothing was sent");
    })
    .await;
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_planned() {
    every_world(async |world| {
        let server = opened(&world, |request| {
            let created = request.starts_with("POST /json");
            if created {
                answer("201 Created", &[("content-type", "application/json")], br#"{"id":7}"#)
            } else {
                answer("200 OK", &[], b"")
            }
        })
        .await;
        let check = async |method: &str, path: &str, body: Value, content_type: &str, sent: &str| {
            let input = json!({"method": method, "url": server.url(path), "headers": {"X-Kind": "test"}, "body": body});
            let call = world.call("http_request", input);
            let plan = world.runner.plan(&call).await.unwrap();
            assert_eq!(
                (&plan["would_run"], &plan["method"], &plan["url"]),
                (&json!(true), &json!(method), &json!(server.url(path)))
            );
            assert_eq!(plan["headers"], json!({"content-type": content_type, "x-kind": "test"}));
            let before = server.requests().len();
            let output = output(world.run(call).await);
            let request = server.requests()[before].clone();
            assert!(request.starts_with(&format!("{method} {path} HTTP/1.1\r\n")), "{request}");
            assert!(
                request.contains(&format!("content-type: {content_type}\r\n")) && request.contains("x-kind: test\r\n"),
                "{request}"
            );
            assert!(request.ends_with(&format!("\r\n\r\n{sent}")), "{request}");
            output
        };
        let created = check("POST", "/json", json!({"a": [1, "ä"]}), "application/json", r#"{"a":[1,"ä"]}"#).await;
        assert_eq!((&created["status"], &created["json"]), (&json!(201), &json!({"id": 7})));
        check("PUT", "/text", json!("plain words"), "text/plain; charset=utf-8", "plain words").await;
        check("PATCH", "/text", json!("{\"a\": 1}"), "application/json", "{\"a\": 1}").await;

        let closed = world.call("http_request", json!({"method": "DELETE", "url": "http://127.0.0.1:2/x"}));
        let plan = world.runner.plan(&closed).await.unwrap();
        assert_eq!(plan["would_run"], false);
        assert!(plan["refused"].as_str().unwrap().contains("127.0.0.1"), "{plan}");
        let refused = error(world.run(closed).await);
        assert_eq!((refused.code, refused.reason()), (ErrorCode::PolicyDenied, "egress"));
    })
    .await;
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_never_carried_elsewhere() {
    every_world(async |world| {
        let elsewhere = opened(&world, |_| json_answer(&json!({}))).await;
        let to = elsewhere.url("/");
        let server = opened(&world, move |request| match target(request) {
            "POST /away" => answer("307 Temporary Redirect", &[("location", &to)], b""),
            "POST /gateway" => answer("502 Bad Gateway", &[], b""),
            "POST /no" => answer("400 Bad Request", &[], b"no"),
            _ => Vec::new(),
        })
        .await;
        let post = async |path: &str| {
            world.run(world.call("http_request", json!({"method": "POST", "url": server.url(path), "body": "x"}))).await
        };
        for path in ["/breaks", "/gateway"] {
            assert!(matches!(post(path).await, Outcome::Unknown(_)), "{path}");
        }
        let no = error(post("/no").await);
        assert_eq!((no.code, no.reason()), (ProviderError, "upstream_4xx"));
        let away = post("/away").await;
        assert!(matches!(away, Outcome::Failed(_) | Outcome::Unknown(_)), "{away:?}");
        assert_eq!(elsewhere.requests().len(), 0);
        // A method that only reads may be tried again, so that it fails.
        let read = json!({"method": "GET", "url": server.url("/breaks")});
        assert_eq!(error(world.run(world.call("http_request", read)).await).code, NetworkError);
    })
    .await;
}
