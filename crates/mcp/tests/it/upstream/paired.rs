//! The transport of the first revisions.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use toolgate_egress::{Sent, Url};
use toolgate_mcp::upstream::{Era, Given, Place, Upstream};
use toolgate_mcp::wire::Revision;

use super::served::Wire;
use super::world::{open_at, structured, until};

/// What came by POST: where, with which authorization, and what.
type Posted = Arc<Mutex<Vec<(String, Option<String>, Value)>>>;

/// A server that names `endpoint` on its stream and answers there.
async fn start(endpoint: &'static str) -> (u16, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let posted = Posted::default();
    let (answers, _) = broadcast::channel::<Value>(100);
    let kept = Arc::clone(&posted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answers, posted) = (answers.clone(), Arc::clone(&kept));
            tokio::spawn(serve(Wire(stream), endpoint, answers, posted));
        }
    });
    (port, posted)
}

async fn serve(mut wire: Wire, endpoint: &str, answers: broadcast::Sender<Value>, posted: Posted) -> Option<()> {
    loop {
        let asked = wire.read().await?;
        if asked.method == "GET" {
            let mut answered = answers.subscribe();
            wire.stream().await?;
            wire.text(&format!("event: endpoint\r\ndata: {endpoint}\r\n\r\n")).await?;
            while let Ok(answer) = answered.recv().await {
                if answer["end"] == true {
                    return None;
                }
                wire.event(&answer).await?;
            }
            return None;
        }
        let authorization = asked.headers.get("authorization").cloned();
        posted.lock().unwrap().push((asked.path.clone(), authorization, asked.body.clone()));
        let (id, method) = (&asked.body["id"], asked.body["method"].as_str().unwrap_or_default());
        let result = match method {
            "initialize" => {
                json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}})
            }
            _ => json!({"structuredContent": asked.body["params"]["arguments"]}),
        };
        if asked.body["params"]["name"] == "end" {
            let _ = answers.send(json!({"end": true}));
        } else if !id.is_null() {
            let _ = answers.send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        wire = wire.answer(202, &[], "").await?;
    }
}

fn upstream(port: u16) -> Upstream {
    let url: Url = format!("http://127.0.0.1:{port}/sse").parse().unwrap();
    Upstream::new(Place::Sse { url, headers: vec![Given::new("authorization", "Bearer s3cret")] })
}

#[tokio::test]
async fn messages_go_where_the_stream_says_and_answers_come_on_it() {
    let (port, posted) = start("/messages?session=1").await;
    let link = open_at(upstream(port), port).await.unwrap();
    assert_eq!((link.found().revision, link.found().named.as_str()), (Revision::V20250326, "2024-11-05"));
    for number in 0..5 {
        let given = json!({ "number": number });
        assert_eq!(structured(&link, "echo", given.clone()).await.unwrap(), given);
    }
    for (path, authorization, _) in posted.lock().unwrap().iter() {
        assert_eq!((path.as_str(), authorization.as_deref()), ("/messages?session=1", Some("Bearer s3cret")));
    }
    let ended = structured(&link, "end", json!({})).await.unwrap_err();
    assert_eq!((ended.name(), ended.sent()), ("closed", Sent::Perhaps), "{ended}");
    until("it is over", || link.ended().is_some()).await;
}

#[tokio::test]
async fn credentials_never_follow_an_address_of_another_origin() {
    let (elsewhere, caught) = start("/unused").await;
    let named: &'static str = Box::leak(format!("http://127.0.0.1:{elsewhere}/steal").into_boxed_str());
    let (port, posted) = start(named).await;
    let refused = open_at(upstream(port), port).await.map(drop).unwrap_err();
    assert_eq!(refused.name(), "unreadable", "{refused}");
    assert!(posted.lock().unwrap().is_empty() && caught.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_newest_revision_is_not_spoken_over_it() {
    let mut upstream = upstream(1);
    upstream.era = Era::Only(Revision::V20260728);
    assert_eq!(open_at(upstream, 1).await.map(drop).unwrap_err().name(), "place");
}
