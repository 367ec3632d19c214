//! Events as they are followed: from the start, from where one was, live; by many, by slow ones, and by those who may not
//! any more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::caller::{Caller, PATIENCE, Sent, gap_free, text};
use crate::program::{Home, Server};

/// Calls of one run, several at once; each leaves two events.
async fn calls(caller: &Caller, run: &str, count: usize) {
    for chunk in 0..count.div_ceil(100) {
        let calls: Vec<_> = (0..100.min(count - chunk * 100))
            .map(|n| json!({"tool": "calculator", "input": {"expression": format!("{n} + 1")}, "run_id": run}))
            .collect();
        let batch = caller.post("/calls", json!({"calls": calls})).await.ok();
        for call in batch["calls"].as_array().unwrap() {
            assert_eq!(call["status"], "completed", "{call}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_where_it_was_cut_off() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let run = caller.new_run(json!({"limits": {"max_tool_calls": 10_000}})).await;
    let path = format!("/runs/{run}/events");
    calls(&caller, &run, 100).await;
    // Replayed from the start and from a number, whether followed or not.
    let mut stream = caller.stream(&path, None).await.unwrap();
    let replayed = stream.until(201).await;
    assert_eq!(gap_free(1, replayed.iter().filter_map(Sent::seq)), 201);
    assert_eq!(replayed.iter().map(|sent| sent.event.clone()).collect::<Vec<_>>(), caller.events(&run).await);
    let mut later = caller.stream(&format!("{path}?after=200"), None).await.unwrap();
    assert_eq!(later.next().await.unwrap(), replayed[200]);

    // Cut off again and again while others work: nothing is missed, nothing comes twice.
    let working = {
        let (caller, run) = (caller.clone(), run.clone());
        tokio::spawn(async move { calls(&caller, &run, 900).await })
    };
    let mut events = replayed;
    while events.len() < 2001 {
        let last = events.last().unwrap().id.clone().unwrap();
        let mut stream = caller.stream(&path, Some(&last)).await.unwrap();
        for _ in 0..37.min(2001 - events.len()) {
            events.push(stream.next().await.unwrap());
        }
    }
    working.await.unwrap();
    assert_eq!(gap_free(1, events.iter().filter_map(Sent::seq)), 2001);
    // Live: what happens now comes now.
    let mut live = caller.stream(&path, events.last().unwrap().id.as_deref()).await.unwrap();
    caller.post(&format!("/runs/{run}/steps"), json!({"title": "a step"})).await.ok();
    assert_eq!(live.next().await.unwrap().event["type"], "step.started");
    caller.send("PUT", &format!("/runs/{run}/state"), json!({"state": "completed"})).await.ok();
    assert_eq!(live.next().await.unwrap().event["type"], "run.completed");

    // A place that is none of this stream's.
    let other = caller.new_run(json!({})).await;
    for wrong in [format!("{other}:1"), "1".to_owned(), format!("{run}:x"), format!("{run}:-1"), "x".repeat(300)] {
        let Err(refused) = caller.stream(&path, Some(&wrong)).await else { panic!("{wrong} was taken") };
        refused.refused(400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_call_comes_while_it_runs() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let call = caller.post("/calls", json!({"tool": "wait", "input": {"seconds": 30}, "wait": 0})).await.ok();
    let id = text(&call["id"]);
    let mut stream = caller.stream(&format!("/runs/{id}/events"), None).await.unwrap();
    assert_eq!(stream.next().await.unwrap().event["type"], "tool.started");
    let part = stream.next().await.unwrap().event;
    assert_eq!((&part["type"], &part["data"]["text"]), (&json!("tool.output_appended"), &json!("1 of 30 s\n")));
    caller.post(&format!("/calls/{id}/cancel"), json!({})).await.ok();
    while stream.next().await.unwrap().event["type"] != "tool.cancelled" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_tenant_holds_all_its_runs_and_no_others() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let owner = Caller::owner(&server);
    let (left, right) = (owner.new_tenant("left").await, owner.new_tenant("right").await);
    let mut stream = left.stream("/events", None).await.unwrap();
    let limits = json!({"limits": {"max_tool_calls": 1000}});
    let runs = [left.new_run(limits.clone()).await, left.new_run(limits.clone()).await];
    let foreign = right.new_run(limits).await;
    tokio::join!(calls(&left, &runs[0], 100), calls(&left, &runs[1], 100), calls(&right, &foreign, 100));
    let mut numbers = [Vec::new(), Vec::new()];
    let (mut count, mut last) = (0, None);
    while count < 402 {
        // Cut off in between.
        if count % 150 == 149 {
            stream = left.stream("/events", last.as_deref()).await.unwrap();
        }
        let Sent { id, event } = stream.next().await.unwrap();
        let of = runs.iter().position(|run| event["run_id"] == run.as_str());
        numbers[of.unwrap_or_else(|| panic!("of another tenant: {event}"))].push(event["seq"].as_u64().unwrap());
        (count, last) = (count + 1, id);
    }
    for numbers in numbers {
        assert_eq!(gap_free(1, numbers), 201);
    }
    let Err(refused) = right.stream("/events", last.as_deref()).await else { panic!("a place of another tenant") };
    refused.refused(400);
    // Only for those who may read everything.
    let member = left.user("mia", "member").await;
    let Err(refused) = member.stream("/events", None).await else { panic!("a member follows everything") };
    refused.refused(403);
}

/// A reader that asks for a stream and then takes nothing, with little room on its way.
async fn idle_reader(caller: &Caller, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = caller.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!(
        "GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer {}\r\n\r\n",
        caller.key
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_holds_no_memory() {
    const READERS: usize = 10;
    const EVENTS: u64 = 20_001;
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let run = caller.new_run(json!({"limits": {"max_tool_calls": 1_000_000}})).await;
    let path = format!("/runs/{run}/events");
    calls(&caller, &run, 100).await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(idle_reader(&caller, &path).await);
    }
    calls(&caller, &run, 900).await;
    let before = server.resident();
    let working: JoinSet<()> = (0..9)
        .map(|_| {
            let (caller, run) = (caller.clone(), run.clone());
            async move { calls(&caller, &run, 1000).await }
        })
        .collect();
    working.join_all().await;
    let after = server.resident();
    eprintln!("{before} KiB before, {after} KiB after");
    // Kept as events for each reader it would be more; the threads that read for them have their share.
    assert!(after < before + 128 * 1024, "{before} KiB before, {after} KiB after");

    // What was on its way is still there, in order, though the server may have given the reader up; the rest is had by
    // asking again.
    let mut reader = readers.pop().unwrap();
    let mut text = String::new();
    let mut bytes = vec![0; 64 * 1024];
    while text.matches("\n\n").count() < 5 {
        match tokio::time::timeout(PATIENCE, reader.read(&mut bytes)).await.unwrap() {
            Ok(0) | Err(_) => break,
            Ok(count) => text.push_str(std::str::from_utf8(&bytes[..count]).unwrap()),
        }
    }
    let blocks: Vec<&str> = text.split("\n\n").collect();
    let events: Vec<Sent> = blocks[..blocks.len() - 1].iter().filter_map(|block| Sent::parse(block)).collect();
    let last = gap_free(1, events.iter().filter_map(Sent::seq));
    drop((reader, readers));
    let mut stream = caller.stream(&path, events.last().and_then(|last| last.id.as_deref())).await.unwrap();
    let rest = stream.until(EVENTS).await;
    assert_eq!(gap_free(last + 1, rest.iter().filter_map(Sent::seq)), EVENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_read_any_more_is_cut_off_also_while_much_happens() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let owner = Caller::owner(&server);
    let reader = owner.user("rita", "admin").await;
    let run = owner.new_run(json!({"limits": {"max_tool_calls": 1_000_000}})).await;
    let quiet = owner.new_run(json!({})).await;
    let mut streams = Vec::new();
    for path in [format!("/runs/{run}/events"), format!("/runs/{quiet}/events"), "/events".to_owned()] {
        streams.push(reader.stream(&path, None).await.unwrap());
    }
    let key = owner.all("/keys").await.into_iter().find(|key| key["name"] == "rita-key").unwrap();
    let working = {
        let (owner, run) = (owner.clone(), run.clone());
        tokio::spawn(async move {
            loop {
                calls(&owner, &run, 1).await;
            }
        })
    };
    owner.send("DELETE", &format!("/keys/{}", text(&key["id"])), Value::Null).await.ok();
    reader.get("/me").await.refused(401);
    let ended: JoinSet<()> = streams
        .into_iter()
        .map(|mut stream| async move {
            let ending = async { while stream.next().await.is_some() {} };
            tokio::time::timeout(PATIENCE, ending).await.expect("a revoked key reads on");
        })
        .collect();
    ended.join_all().await;
    working.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_open_streams_are_no_burden() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let run = caller.new_run(json!({})).await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(caller.stream(&format!("/runs/{run}/events"), None).await.unwrap());
    }
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().event["type"], "run.started");
    }
    assert_eq!(caller.call("echo", json!({"text": "still there"})).await["status"], "completed");
    caller.post(&format!("/runs/{run}/steps"), json!({"title": "for all"})).await.ok();
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().event["data"]["title"], "for all");
    }
    drop(streams);
    // Who went away is noticed, and the places are free again.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(caller.call("echo", json!({"text": "and still"})).await["status"], "completed");
}
