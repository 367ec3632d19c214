//! Servers that are processes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_egress::Sent;
use toolgate_mcp::upstream::{Era, Exchange, Given, LinkError, News, Place, Upstreams, Wanted};
use toolgate_mcp::wire::{Revision, code};

use super::world::{
    Answering, LONG, call, command, is_alive, key, nowhere, object, open, piped, settings, structured, until,
};

const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

#[tokio::test]
async fn every_revision_is_spoken_and_found_out_by_asking() {
    for era in [true, false] {
        for revision in REVISIONS {
            let mut upstream = piped(revision, &["fragile"]);
            if era {
                upstream.era = Era::Auto;
            }
            let link = open(upstream).await.unwrap();
            let found = link.found();
            assert_eq!((found.revision.as_str(), found.named.as_str()), (revision, revision));
            assert_eq!(found.server_info["name"], "pipe");
            assert_eq!(found.instructions.as_deref(), (!found.revision.is_stateless()).then_some("be kind"));
            assert_eq!(structured(&link, "echo", json!({"a": [1, "x"]})).await.unwrap(), json!({"a": [1, "x"]}));
        }
    }
    let first = open(piped("2024-11-05", &[])).await.unwrap();
    assert_eq!(first.found().revision, Revision::V20250326);
}

#[tokio::test]
async fn what_is_sent_is_of_the_revision() {
    for revision in REVISIONS {
        let mut upstream = piped(revision, &[]);
        upstream.declared = object(json!({"elicitation": {"form": {}}, "extensions": {"a.test/x": {}}}));
        let link = open(upstream).await.unwrap();
        let mut params = call("received", json!({}));
        params.insert("_meta".into(), json!({"traceparent": "00-0-0-00", "progressToken": "mine"}));
        let result = link.request("tools/call", params, Exchange::within(LONG)).await.unwrap();
        let messages = result["structuredContent"]["messages"].as_array().unwrap().clone();
        let of = |message: &Value| message["method"].as_str().unwrap().to_owned();
        let last = messages.last().unwrap();
        let meta = &last["params"]["_meta"];
        assert_eq!(meta["traceparent"], "00-0-0-00");
        assert_eq!(meta["progressToken"], last["id"], "a token of ours stands for the caller's");
        if revision == "2026-07-28" {
            assert_eq!(messages.iter().map(of).collect::<Vec<_>>(), ["server/discover", "tools/call"]);
            for message in &messages {
                let meta = &message["params"]["_meta"];
                assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
                assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolgate");
                let declared = json!({"elicitation": {"form": {}}, "extensions": {"a.test/x": {}}});
                assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared);
            }
        } else {
            let methods = ["initialize", "notifications/initialized", "tools/call"];
            assert_eq!(messages.iter().map(of).collect::<Vec<_>>(), methods);
            assert_eq!(messages[0]["params"]["protocolVersion"], revision);
            let expected = match revision {
                "2025-03-26" => json!({}),
                "2025-06-18" => json!({"elicitation": {}}),
                _ => json!({"elicitation": {"form": {}}}),
            };
            assert_eq!(messages[0]["params"]["capabilities"], expected, "{revision}");
            assert!(meta.get("io.modelcontextprotocol/protocolVersion").is_none());
        }
    }
}

#[tokio::test]
async fn a_server_that_understands_the_first_question_is_started_once() {
    let mut upstream = piped("2026-07-28", &[]);
    upstream.era = Era::Auto;
    let link = open(upstream).await.unwrap();
    let messages = structured(&link, "received", json!({})).await.unwrap();
    assert_eq!(messages["messages"][0]["method"], "server/discover");
}

#[tokio::test]
async fn a_process_gets_its_environment_and_folder_and_nothing_else() {
    let mut upstream = piped("2025-11-25", &[]);
    if let Place::Stdio { environment, folder, .. } = &mut upstream.place {
        environment.push(Given::new("TOKEN", "s3cret"));
        *folder = Some("/tmp".into());
    }
    assert!(!format!("{upstream:?}").contains("s3cret"));
    let link = open(upstream).await.unwrap();
    let told = structured(&link, "received", json!({})).await.unwrap();
    let names: Vec<&str> = told["environment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // The interpreter itself makes up a locale.
    assert_eq!(names.into_iter().filter(|name| *name != "LC_CTYPE").collect::<Vec<_>>(), ["TOKEN"]);
    assert_eq!(told["folder"], "/tmp");
}

#[tokio::test]
async fn concurrent_requests_get_their_own_answers() {
    for revision in ["2025-06-18", "2026-07-28"] {
        let link = open(piped(revision, &[])).await.unwrap();
        let asked = (0..256).map(|number| {
            let link = Arc::clone(&link);
            async move {
                let seconds = f64::from(number % 7 + 1) / 100.0;
                let tool = if number % 2 == 0 { "slow" } else { "echo" };
                let given = json!({"number": number, "seconds": seconds});
                assert_eq!(structured(&link, tool, given.clone()).await.unwrap(), given);
            }
        });
        join_all(asked).await;
        assert_eq!(link.under_way(), 0);
    }
}

#[tokio::test]
async fn progress_comes_under_the_callers_own_token() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let (heard, mut hears) = mpsc::channel(10);
    let mut params = call("progress", json!({}));
    params.insert("_meta".into(), json!({"progressToken": "mine"}));
    let exchange = Exchange { heard: Some(heard), ..Exchange::within(LONG) };
    link.request("tools/call", params, exchange).await.unwrap();
    for step in 1..=3 {
        let progress = hears.recv().await.unwrap();
        assert_eq!(progress.method, "notifications/progress");
        assert_eq!(progress.params["progressToken"], "mine");
        assert_eq!(progress.params["progress"], step);
    }
    assert_eq!(hears.recv().await.unwrap().params["data"], "half way");
    assert!(hears.recv().await.is_none(), "it hears nothing once it is over");
}

#[tokio::test]
async fn a_question_of_the_server_goes_to_the_one_whom_it_concerns_or_is_refused() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let (asked, mut asks) = mpsc::unbounded_channel();
    let asker = Arc::new(Answering { asked, answer: || Ok(json!({"action": "accept", "content": {}})) });
    let exchange = Exchange { asker: Some(asker.clone()), ..Exchange::within(LONG) };

    let result = link.request("tools/call", call("ask", json!({})), exchange.clone()).await.unwrap();
    assert_eq!(result["structuredContent"]["answered"]["result"]["action"], "accept");
    let question = asks.recv().await.unwrap();
    assert_eq!((question.method.as_str(), &question.params["message"]), ("elicitation/create", &json!("really?")));

    let refused = structured(&link, "ask", json!({})).await.unwrap();
    assert_eq!(refused["answered"]["error"]["code"], code::METHOD_NOT_FOUND, "nobody can be asked");

    let (first, second) = tokio::join!(
        link.request("tools/call", call("slow", json!({"seconds": 1})), exchange.clone()),
        link.request("tools/call", call("ask", json!({})), exchange),
    );
    first.unwrap();
    let refused = second.unwrap();
    assert_eq!(refused["structuredContent"]["answered"]["error"]["code"], code::INTERNAL, "two could be meant");
    assert!(asks.try_recv().is_err());
}

#[tokio::test]
async fn news_reach_who_listens() {
    let uri = "test://one".to_owned();
    let wanted = Wanted { tools: true, uris: vec![uri.clone()], ..Wanted::default() };
    let link = open(piped("2026-07-28", &[])).await.unwrap();
    let mut listening = link.listen(wanted.clone());
    let mut said = listening.news.recv().await.unwrap();
    if let News::Said(acknowledged) = &said {
        assert_eq!(acknowledged.method, "notifications/subscriptions/acknowledged");
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
        assert_eq!(acknowledged.params["notifications"], honoured);
        said = listening.news.recv().await.unwrap();
    }
    assert_eq!(said, News::ToolsChanged);
    drop(listening);
    let mut told = Value::Null;
    for _ in 0..100 {
        let messages = structured(&link, "received", json!({})).await.unwrap()["messages"].clone();
        told = messages.as_array().unwrap().iter().find(|it| it["method"] == "notifications/cancelled").cloned().into();
        if !told.is_null() {
            break;
        }
    }
    assert!(!told.is_null(), "who listens no more says so");

    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let mut listening = link.listen(wanted);
    assert_eq!(listening.news.recv().await.unwrap(), News::ResourceUpdated { uri });
    structured(&link, "batch", json!({})).await.unwrap();
    assert_eq!(listening.news.recv().await.unwrap(), News::ToolsChanged);
}

#[tokio::test]
async fn who_gives_up_says_so_and_keeps_the_link() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let cancel = CancellationToken::new();
    let exchange = Exchange { cancel: cancel.clone(), ..Exchange::within(LONG) };
    let asked = link.request("tools/call", call("silent", json!({})), exchange);
    let (asked, ()) = tokio::join!(asked, async {
        until("it is under way", || link.under_way() == 1).await;
        cancel.cancel();
    });
    assert!(matches!(asked, Err(LinkError::Cancelled { sent: Sent::Perhaps })), "{asked:?}");

    let short = Exchange::within(Duration::from_millis(50));
    let late = link.request("tools/call", call("silent", json!({})), short).await;
    assert!(matches!(late, Err(LinkError::Timeout { sent: Sent::Perhaps, .. })), "{late:?}");

    let dropped = link.request("tools/call", call("silent", json!({})), Exchange::within(LONG));
    tokio::time::timeout(Duration::from_millis(50), dropped).await.unwrap_err();

    let mut cancelled = Vec::new();
    for _ in 0..100 {
        let messages = structured(&link, "received", json!({})).await.unwrap()["messages"].clone();
        let all = messages.as_array().unwrap().clone();
        cancelled = all.into_iter().filter(|message| message["method"] == "notifications/cancelled").collect();
        if cancelled.len() == 3 {
            break;
        }
    }
    let ids: Vec<i64> = cancelled.iter().filter_map(|message| message["params"]["requestId"].as_i64()).collect();
    assert_eq!(ids, [2, 3, 4]);
}

#[tokio::test]
async fn a_bad_answer_has_its_own_end_and_a_worse_one_ends_the_link() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let wrong = structured(&link, "failing", json!({})).await;
    assert!(
        matches!(&wrong, Err(LinkError::Rpc(error)) if error.code == -32602 && error.data == Some(json!({"x": 1})))
    );
    assert_eq!(structured(&link, "twice", json!({})).await.unwrap(), json!({"first": true}));
    assert_eq!(structured(&link, "large", json!({})).await.unwrap(), json!({"id": "9007199254740993"}));
    assert_eq!(structured(&link, "noise", json!({})).await.unwrap(), json!({}));
    let short = Exchange::within(Duration::from_millis(300));
    let lost = link.request("tools/call", call("wrong_id", json!({})), short).await;
    assert!(matches!(lost, Err(LinkError::Timeout { .. })), "{lost:?}");
    assert_eq!(structured(&link, "echo", json!({"still": "here"})).await.unwrap(), json!({"still": "here"}));

    for (tool, name) in [("die", "closed"), ("garbage", "unreadable"), ("oversized", "too_large")] {
        let mut upstream = piped("2025-11-25", &[]);
        upstream.bounds.message_bytes_max = 100_000;
        let link = open(upstream).await.unwrap();
        let bystander = Arc::clone(&link);
        let bystander = tokio::spawn(async move { structured(&bystander, "silent", json!({})).await });
        until("both are under way", || link.under_way() == 1).await;
        let error = structured(&link, tool, json!({"bytes": 200_000})).await.unwrap_err();
        assert_eq!(error.name(), name, "{error}");
        assert_eq!(error.sent(), Sent::Perhaps, "{error}");
        assert_eq!(bystander.await.unwrap().unwrap_err().name(), name);
        let after = structured(&link, "echo", json!({})).await.unwrap_err();
        assert_eq!(after.sent(), Sent::No, "{after}");
        if tool == "die" {
            assert!(error.to_string().contains("status 3"), "{error}");
        }
        let pid = link.pid().unwrap();
        until("its process is gone", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn an_answer_of_an_unknown_kind_is_no_answer() {
    let link = open(piped("2026-07-28", &[])).await.unwrap();
    for (kind, is_read) in [("complete", true), ("input_required", true), ("task", true), ("surprise", false)] {
        let answer = structured(&link, "echo", json!({"resultType": kind})).await;
        assert_eq!(answer.is_ok(), is_read, "{kind}: {answer:?}");
    }
}

#[tokio::test]
async fn a_flood_drowns_nobody() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let mut listening = link.listen(Wanted::default());
    let (heard, hears) = mpsc::channel(4);
    let mut params = call("flood", json!({"count": 5000}));
    params.insert("_meta".into(), json!({"progressToken": 1}));
    let exchange = Exchange { heard: Some(heard), ..Exchange::within(LONG) };
    let (flooded, echoed) =
        tokio::join!(link.request("tools/call", params, exchange), structured(&link, "echo", json!({"other": true})));
    flooded.unwrap();
    assert_eq!(echoed.unwrap(), json!({"other": true}));
    assert_eq!(hears.len(), 4, "who does not read loses the rest, and holds up nobody");
    assert!(listening.news.recv().await.is_err(), "so it is with news");
}

#[tokio::test]
async fn a_server_that_never_answers_the_first_words_is_given_up() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut upstream = piped(revision, &["mute"]);
        upstream.bounds.open = Duration::from_millis(700);
        let late = open(upstream).await.map(drop).unwrap_err();
        assert_eq!(late.name(), "timeout", "{late}");
    }
    let missing = open(command(&["/nowhere/server"])).await.map(drop).unwrap_err();
    assert_eq!(missing.name(), "start", "{missing}");
    let relative = open(command(&["server"])).await.map(drop).unwrap_err();
    assert_eq!(relative.name(), "start", "{relative}");
    let nothing = open(command(&[])).await.map(drop).unwrap_err();
    assert_eq!(nothing.name(), "place", "{nothing}");
}

#[tokio::test]
async fn a_process_that_hangs_is_ended_and_one_that_is_slow_is_not() {
    for (revision, tool, hangs) in
        [("2025-11-25", "silent", false), ("2026-07-28", "silent", false), ("2025-11-25", "deafen", true)]
    {
        let mut upstream = piped(revision, &[]);
        upstream.bounds.probe = Duration::from_secs(if hangs { 1 } else { 20 });
        let link = open(upstream).await.unwrap();
        for _ in 0..3 {
            let second = Exchange::within(Duration::from_secs(1));
            link.request("tools/call", call(tool, json!({})), second).await.unwrap_err();
        }
        if hangs {
            until("it is given up", || link.ended().is_some()).await;
        } else {
            structured(&link, "echo", json!({})).await.unwrap();
            until("it was asked", || link.under_way() == 0).await;
            assert!(link.ended().is_none());
        }
    }
}

#[tokio::test]
async fn a_log_of_one_call_is_not_shown_to_another() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    let mut listening = link.listen(Wanted::default());
    let (heard, mut hears) = mpsc::channel(10);
    let exchange = Exchange { heard: Some(heard), ..Exchange::within(LONG) };
    let mine = json!({"whose": "mine", "seconds": 0.5});
    let (slow, other) = tokio::join!(
        link.request("tools/call", call("slow", mine), exchange.clone()),
        structured(&link, "log", json!({"whose": "another's"})),
    );
    slow.unwrap();
    other.unwrap();
    assert!(hears.try_recv().is_err(), "that one could hear it does not make it its own");
    assert!(
        matches!(listening.news.recv().await.unwrap(), News::Said(said) if said.params["data"]["whose"] == "another's")
    );
    link.request("tools/call", call("log", json!({"whose": "mine"})), exchange).await.unwrap();
    assert_eq!(hears.recv().await.unwrap().params["data"]["whose"], "mine");
}

#[tokio::test]
async fn a_server_that_asks_and_asks_is_answered_as_far_as_it_reads() {
    let link = open(piped("2025-11-25", &[])).await.unwrap();
    structured(&link, "pings", json!({"count": 20_000})).await.unwrap();
    structured(&link, "echo", json!({})).await.unwrap();
    let messages = structured(&link, "received", json!({})).await.unwrap()["messages"].clone();
    let answered = |message: &&Value| message["id"].as_str().is_some_and(|id| id.starts_with('p'));
    assert!(messages.as_array().unwrap().iter().filter(answered).count() > 0);
}

#[tokio::test]
async fn a_closed_link_leaves_no_process_even_a_stubborn_one() {
    for manners in [&[][..], &["stubborn"]] {
        let mut upstream = piped("2025-11-25", manners);
        upstream.child.grace = Duration::from_millis(200);
        let pool = Upstreams::new(settings());
        let link = pool.link(&key("one"), &Arc::new(upstream), &nowhere()).await.unwrap();
        let pid = link.pid().unwrap();
        assert!(is_alive(pid));
        link.close().await;
        assert!(!is_alive(pid), "{manners:?}");
        let after = structured(&link, "echo", json!({})).await.unwrap_err();
        assert_eq!((after.name(), after.sent()), ("closed", Sent::No));
    }
}
