//! Servers that are addresses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_egress::Sent;
use toolgate_mcp::upstream::{Era, Exchange, Given, LinkError, News, Place, Upstreams, Wanted};
use toolgate_mcp::wire::Revision;

use super::served::{Manners, Server};
use super::world::{Answering, LONG, call, key, nowhere, object, open_at, outlet, settings, structured, until};

#[tokio::test]
async fn every_revision_is_spoken_over_bodies_and_streams() {
    for revision in Revision::ALL {
        for streams in [false, true] {
            for era in [Era::Auto, Era::Only(revision)] {
                let server = Server::start(revision, Manners { streams, ..Manners::default() }).await;
                let mut upstream = server.upstream();
                upstream.era = era;
                let link = open_at(upstream, server.port).await.unwrap();
                assert_eq!(link.found().revision, revision);
                assert_eq!(link.found().server_info["name"], "served");
                let given = json!({"a": "é"});
                assert_eq!(structured(&link, "echo", given.clone()).await.unwrap(), given);
                let expected: &[&str] = match (revision.is_stateless(), era) {
                    (true, _) => &["server/discover", "tools/call"],
                    (false, Era::Auto) => &["server/discover", "initialize", "notifications/initialized", "tools/call"],
                    (false, _) => &["initialize", "notifications/initialized", "tools/call"],
                };
                assert_eq!(server.methods(), expected, "{revision}");
                link.close().await;
                assert_eq!(server.sessions(), 0, "a session is given up");
            }
        }
    }
}

#[tokio::test]
async fn headers_repeat_what_the_body_says_and_carry_what_is_given() {
    let server = Server::start(Revision::V20260728, Manners::default()).await;
    let mut upstream = server.upstream();
    upstream.place = Place::Http { url: server.url(), headers: vec![Given::new("Authorization", "Bearer s3cret")] };
    let link = open_at(upstream, server.port).await.unwrap();
    let annotated = vec![
        ("Region".to_owned(), "/region".to_owned()),
        ("Count".to_owned(), "/deep/count".to_owned()),
        ("Absent".to_owned(), "/absent".to_owned()),
    ];
    let exchange = Exchange { annotated, ..Exchange::within(LONG) };
    let arguments = json!({"region": "süd", "deep": {"count": 7}});
    let result = link.request("tools/call", call("headers", arguments), exchange).await.unwrap();
    let headers = &result["structuredContent"];
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "headers"),
        ("mcp-param-region", "=?base64?c8O8ZA==?="),
        ("mcp-param-count", "7"),
        ("authorization", "Bearer s3cret"),
        ("accept", "application/json, text/event-stream"),
        ("accept-encoding", "identity"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers.get("mcp-param-absent").is_none() && headers.get("mcp-session-id").is_none());

    let server = Server::start(Revision::V20250618, Manners::default()).await;
    let link = open_at(server.upstream(), server.port).await.unwrap();
    let headers = structured(&link, "headers", json!({})).await.unwrap();
    assert_eq!(
        (&headers["mcp-session-id"], &headers["mcp-protocol-version"]),
        (&json!("session-0"), &json!("2025-06-18"))
    );
    assert!(headers.get("mcp-method").is_none());
    let first = server.asked().into_iter().find(|asked| asked.body["method"] == "initialize").unwrap();
    assert!(!first.headers.contains_key("mcp-session-id") && !first.headers.contains_key("mcp-protocol-version"));
}

#[tokio::test]
async fn what_is_no_evidence_decides_no_era() {
    let unknown = |status, body| Manners { to_the_unknown: Some((status, body)), ..Manners::default() };
    let rpc = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Missing session ID"}}"#;
    let older = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2025-06-18"]}}}"#;
    let newer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2031-01-01"]}}}"#;
    for (status, body, expected) in [
        (400, rpc, Ok(())),
        (400, older, Ok(())),
        (404, "", Ok(())),
        (405, "", Ok(())),
        (400, newer, Err("revision")),
        (401, "", Err("auth_required")),
        (403, "", Err("auth_required")),
        (429, "", Err("limited")),
        (503, "", Err("unavailable")),
    ] {
        let server = Server::start(Revision::V20250618, unknown(status, body)).await;
        let opened = open_at(server.upstream(), server.port).await;
        assert_eq!(opened.as_ref().map(drop).map_err(LinkError::name), expected, "{status} {body}");
        let has_begun = server.methods().contains(&"initialize".to_owned());
        assert_eq!(has_begun, expected.is_ok(), "{status} {body}");
    }
}

#[tokio::test]
async fn concurrent_requests_get_their_own_answers() {
    for revision in [Revision::V20251125, Revision::V20260728] {
        let server = Server::start(revision, Manners { streams: true, ..Manners::default() }).await;
        let link = open_at(server.upstream(), server.port).await.unwrap();
        let asked = (0..256_u64).map(|number| {
            let link = Arc::clone(&link);
            async move {
                let tool = if number % 2 == 0 { "slow" } else { "echo" };
                let given = json!({"number": number, "millis": number % 50});
                assert_eq!(structured(&link, tool, given.clone()).await.unwrap(), given);
            }
        });
        join_all(asked).await;
        assert_eq!(link.under_way(), 0);
    }
}

#[tokio::test]
async fn what_happens_meanwhile_reaches_the_one_who_asked() {
    for revision in [Revision::V20250618, Revision::V20260728] {
        let server = Server::start(revision, Manners::default()).await;
        let link = open_at(server.upstream(), server.port).await.unwrap();
        let (heard, mut hears) = mpsc::channel(10);
        let mut params = call("progress", json!({}));
        params.insert("_meta".into(), json!({"progressToken": "mine"}));
        let exchange = Exchange { heard: Some(heard), ..Exchange::within(LONG) };
        link.request("tools/call", params, exchange).await.unwrap();
        for step in [1, 2] {
            let progress = hears.recv().await.unwrap();
            assert_eq!(
                (&progress.params["progressToken"], &progress.params["progress"]),
                (&json!("mine"), &json!(step))
            );
        }
    }

    // Each question comes on the stream of its own call: several at once are no riddle here.
    let server = Server::start(Revision::V20251125, Manners::default()).await;
    let mut upstream = server.upstream();
    upstream.declared = object(json!({"elicitation": {"form": {}}}));
    let link = open_at(upstream, server.port).await.unwrap();
    let asking = |answer| {
        let (asked, asks) = mpsc::unbounded_channel();
        (Exchange { asker: Some(Arc::new(Answering { asked, answer })), ..Exchange::within(LONG) }, asks)
    };
    let (yes, _first) = asking(|| Ok(json!({"action": "accept", "content": {}})));
    let (no, _second) = asking(|| Ok(json!({"action": "decline"})));
    let (yes, no, nobody) = tokio::join!(
        link.request("tools/call", call("ask", json!({})), yes),
        link.request("tools/call", call("ask", json!({})), no),
        link.request("tools/call", call("ask", json!({})), Exchange::within(LONG)),
    );
    assert_eq!(yes.unwrap()["structuredContent"]["result"]["action"], "accept");
    assert_eq!(no.unwrap()["structuredContent"]["result"]["action"], "decline");
    assert_eq!(nobody.unwrap()["structuredContent"]["error"]["code"], -32601);
}

#[tokio::test]
async fn a_stream_that_is_broken_off_is_taken_up_where_it_was() {
    let server = Server::start(Revision::V20251125, Manners::default()).await;
    let link = open_at(server.upstream(), server.port).await.unwrap();
    assert_eq!(structured(&link, "polled", json!({})).await.unwrap(), json!({"polled": "2"}));
    let resumed: Vec<_> =
        server.asked().into_iter().filter_map(|asked| asked.headers.get("last-event-id").cloned()).collect();
    assert_eq!(resumed.len(), 2, "{resumed:?}");
    let lost = structured(&link, "unfinished", json!({})).await.unwrap_err();
    assert_eq!((lost.name(), lost.sent()), ("closed", Sent::Perhaps), "without a place to go on, it is lost");
}

#[tokio::test]
async fn each_refusal_has_its_own_end() {
    let server = Server::start(Revision::V20260728, Manners::default()).await;
    let mut upstream = server.upstream();
    upstream.bounds.message_bytes_max = 10_000;
    let link = open_at(upstream, server.port).await.unwrap();
    let error = |tool: &'static str, given| {
        let link = Arc::clone(&link);
        async move { structured(&link, tool, given).await.unwrap_err() }
    };
    for (status, name) in [(401, "auth_required"), (403, "auth_required")] {
        let LinkError::AuthRequired { challenge, .. } = error("status", json!({"status": status})).await else {
            panic!("{name}")
        };
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a.test/.well-known/x"));
        assert_eq!(challenge.scope.as_deref(), Some("read"));
    }
    let limited = error("status", json!({"status": 429})).await;
    assert!(matches!(limited, LinkError::Limited { retry_after_s: Some(7) }), "{limited}");
    let broken = error("status", json!({"status": 502})).await;
    assert!(matches!(broken, LinkError::Unavailable { status: 502, .. }), "{broken}");
    let refused = error("status", json!({"status": 418})).await;
    assert!(matches!(refused, LinkError::Refused { status: 418 }), "{refused}");
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"","data":{"requiredCapabilities":{}}}}"#;
    let told = error("status", json!({"status": 400, "body": body})).await;
    assert!(matches!(&told, LinkError::Rpc(error) if error.code == -32021), "{told}");
    for (tool, given, name) in [
        ("drop", json!({}), "egress"),
        ("garbage", json!({}), "unreadable"),
        ("page", json!({}), "unreadable"),
        ("accepted", json!({}), "unreadable"),
        ("wrong_id", json!({}), "unreadable"),
        ("unfinished", json!({}), "closed"),
        ("oversized", json!({"bytes": 20_000}), "too_large"),
        ("oversized", json!({"bytes": 20_000, "streamed": true}), "too_large"),
    ] {
        let told = error(tool, given).await;
        assert_eq!((told.name(), told.sent()), (name, Sent::Perhaps), "{tool}: {told}");
    }
    assert_eq!(structured(&link, "echo", json!({"still": 1})).await.unwrap(), json!({"still": 1}));
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_begun_again_and_the_request_sent_again() {
    let server = Server::start(Revision::V20250618, Manners::default()).await;
    let link = open_at(server.upstream(), server.port).await.unwrap();
    structured(&link, "echo", json!({})).await.unwrap();
    server.forget_sessions();
    let asked = (0..20).map(|number| {
        let link = Arc::clone(&link);
        async move {
            let given = json!({ "number": number });
            assert_eq!(structured(&link, "echo", given.clone()).await.unwrap(), given);
        }
    });
    join_all(asked).await;
    let begun = server.methods().iter().filter(|method| *method == "initialize").count();
    assert_eq!(begun, 2, "all of them begin one new session");
}

#[tokio::test]
async fn words_about_sessions_send_again_only_what_can_do_no_harm() {
    let manners = Manners { forgets_in_words: true, ..Manners::default() };
    let server = Server::start(Revision::V20250618, manners).await;
    let link = open_at(server.upstream(), server.port).await.unwrap();
    server.forget_sessions();
    let asked = link.request("tools/call", call("echo", json!({})), Exchange::within(LONG)).await;
    assert_eq!(asked.unwrap_err().name(), "error");
    let calls = || server.methods().iter().filter(|method| *method == "tools/call").count();
    assert_eq!(calls(), 1, "nobody knows what a word means");
    let exchange = Exchange { effect: toolgate_egress::Effect::Read, ..Exchange::within(LONG) };
    link.request("tools/call", call("echo", json!({})), exchange).await.unwrap();
    assert_eq!(calls(), 3);
}

#[tokio::test]
async fn who_gives_up_closes_the_stream_or_says_so() {
    for revision in [Revision::V20260728, Revision::V20251125] {
        let server = Server::start(revision, Manners::default()).await;
        let link = open_at(server.upstream(), server.port).await.unwrap();
        let cancel = CancellationToken::new();
        let exchange = Exchange { cancel: cancel.clone(), ..Exchange::within(LONG) };
        let hanging = link.request("tools/call", call("hang", json!({})), exchange);
        let (asked, ()) = tokio::join!(hanging, async {
            until("it is asked", || server.methods().contains(&"tools/call".to_owned())).await;
            cancel.cancel();
        });
        assert!(matches!(asked, Err(LinkError::Cancelled { sent: Sent::Perhaps })), "{asked:?}");
        until("its stream is closed", || server.closed_early() == 1).await;
        let told = || server.methods().contains(&"notifications/cancelled".to_owned());
        if revision.is_stateless() {
            assert!(!told(), "the end of the stream says it");
        } else {
            until("it is told", told).await;
        }
        let short = Exchange::within(Duration::from_millis(50));
        let late = link.request("tools/call", call("hang", json!({})), short).await;
        assert!(matches!(late, Err(LinkError::Timeout { .. })), "{late:?}");
    }
}

#[tokio::test]
async fn news_reach_who_listens_and_the_stream_ends_with_them() {
    for revision in [Revision::V20260728, Revision::V20251125] {
        let server = Server::start(revision, Manners::default()).await;
        let link = open_at(server.upstream(), server.port).await.unwrap();
        let mut listening = link.listen(Wanted { tools: true, ..Wanted::default() });
        assert_eq!(listening.news.recv().await.unwrap(), News::ToolsChanged);
        drop(listening);
        if revision.is_stateless() {
            until("its stream is closed", || server.closed_early() == 1).await;
        }
    }
}

#[tokio::test]
async fn who_listens_to_a_server_that_is_forgotten_hears_no_more_and_calls_go_on() {
    for revision in [Revision::V20260728, Revision::V20251125] {
        let server = Server::start(revision, Manners::default()).await;
        let (pool, upstream) = (Upstreams::new(settings()), Arc::new(server.upstream()));
        let link = pool.link(&key("one"), &upstream, &outlet(server.port)).await.unwrap();
        let mut listening = link.listen(Wanted { tools: true, ..Wanted::default() });
        assert_eq!(listening.next().await.unwrap(), News::ToolsChanged);
        let cancel = CancellationToken::new();
        let exchange = Exchange { cancel: cancel.clone(), ..Exchange::within(LONG) };
        let hanging = link.request("tools/call", call("hang", json!({})), exchange);
        let (asked, ()) = tokio::join!(hanging, async {
            until("it is asked", || server.methods().contains(&"tools/call".to_owned())).await;
            pool.forget(|of| *of == key("one")).await;
            assert_eq!(listening.next().await, Err(RecvError::Closed));
            if revision.is_stateless() {
                until("its stream is closed", || server.closed_early() == 1).await;
            }
            assert!(link.ended().is_none(), "the call is under way still");
            cancel.cancel();
        });
        assert!(matches!(asked, Err(LinkError::Cancelled { .. })), "{asked:?}");

        let link = pool.link(&key("one"), &upstream, &outlet(server.port)).await.unwrap();
        let mut listening = link.listen(Wanted { tools: true, ..Wanted::default() });
        assert_eq!(listening.next().await.unwrap(), News::ToolsChanged);
        pool.forget(|of| *of == key("one")).await;
        assert_eq!(listening.next().await, Err(RecvError::Closed));
        assert!(link.ended().is_some(), "nobody calls there");
    }
}

#[tokio::test]
async fn an_address_that_is_not_open_is_not_reached() {
    let server = Server::start(Revision::V20260728, Manners::default()).await;
    let pool = Upstreams::new(settings());
    let refused = pool.link(&key("one"), &Arc::new(server.upstream()), &nowhere()).await.map(drop).unwrap_err();
    assert_eq!(toolgate_contracts::ToolError::from(refused).reason(), "egress");
    assert_eq!(server.open_connections(), 0);
    pool.link(&key("one"), &Arc::new(server.upstream()), &outlet(server.port)).await.unwrap();
}
