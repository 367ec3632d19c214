//! The server is killed while it works, again and again, and what callers were told is compared with what is there.
//!
//! Invariant under test: an answer that was given holds. What was answered is in the database and in the log, once; what
//! changes something happened once, whoever asks again; what was cut off is ended, and says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate_contracts::{Amount, CallId, TenantId};
use toolgate_store::testing::Database;
use toolgate_store::{MIGRATIONS, Options, Store};

use crate::caller::{Caller, chance, gap_free, text};
use crate::program::{Home, Server};

const LOADERS: u64 = 6;

/// A request, and its answer if there was one.
#[derive(Clone, Debug)]
struct Told {
    request: Value,
    answer: Option<Value>,
}

/// What the log says of a call.
#[derive(Default)]
struct Logged {
    tool: String,
    run: String,
    intents: usize,
    /// Entries that have the call's own id.
    outcomes: usize,
    settled: usize,
    /// As it was last said.
    status: String,
    text: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_answered_is_lost_and_nothing_happens_twice() {
    let home = Home::new();
    let database = format!("sqlite://{}", home.data().join("toolgate.db").display());
    check(&home, &database, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_repeated_with_postgres_either() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let mut home = Home::new();
    home.set("TOOLGATE_DATABASE", &database.url);
    check(&home, &database.url, 2).await;
}

async fn check(home: &Home, database: &str, rounds: u64) {
    let mut told = Vec::new();
    for round in 0..rounds {
        let server = start(home, round).await;
        let caller = Caller::owner(&server);
        if round == 0 {
            caller.register_mirror("priced", json!({"cost": {"per_call": "0.01"}})).await;
            caller.send("PUT", "/limits", json!({"max_budget": "100000"})).await.ok();
        }
        ask_again(&caller, &mut told).await;
        let loading = load(&caller, round);
        tokio::time::sleep(Duration::from_millis(chance(600))).await;
        let head = caller.get("/audit/checkpoint").await;
        assert_eq!(head.status, 200, "{}", head.text);
        home.write(&format!("head-{round}.txt"), &head.text);
        tokio::time::sleep(Duration::from_millis(100 + chance(900))).await;
        server.kill();
        told.extend(loading.join_all().await.into_iter().flatten());
    }
    let server = start(home, 1).await;
    let caller = Caller::owner(&server);
    ask_again(&caller, &mut told).await;
    for call in caller.all("/calls?status=running&tool=priced").await {
        complete(&caller, text(&call["id"])).await.unwrap();
    }
    // What another process began is over when that process is known to be gone.
    caller.until("/calls?status=running", |answer| answer.body["items"] == json!([])).await;
    let last = caller.call("append_note", json!({"text": "the last line"})).await;
    let answered = told.iter().filter(|told| told.answer.is_some()).count();
    eprintln!("{answered} of {} requests were answered", told.len());
    assert!(answered > told.len() / 2 && answered as u64 > LOADERS * rounds, "too little was answered to say anything");
    for told in &told {
        as_told(&caller, told).await;
    }
    let costs: Amount =
        caller.all("/calls?tool=priced").await.iter().fold(Amount::ZERO, |sum, call| {
            sum + call["cost"].as_str().map_or(Amount::ZERO, |cost| cost.parse().unwrap())
        });

    home.ok(&["audit", "verify", "--live"]);
    for round in 0..rounds {
        home.ok(&["audit", "verify", "--live", "--checkpoint", &format!("head-{round}.txt")]);
    }
    home.ok(&["audit", "export", "--to", "copy", "--payloads"]);
    home.ok(&["audit", "verify", "copy"]);
    let (tenant, logged) = logged(home);
    let mut runs: BTreeSet<&str> = logged.values().map(|call| call.run.as_str()).collect();
    runs.extend(told.iter().filter_map(|told| told.request["run_id"].as_str()));
    for run in runs {
        let events = caller.events(run).await;
        gap_free(1, events.iter().filter_map(|event| event["seq"].as_u64()));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    let store = Store::open(Options { migrations: MIGRATIONS, ..Options::new(database) }).await.unwrap();
    notes(&store, tenant, &told, &logged, last["output"]["line"].as_u64().unwrap()).await;
    let month = last["t_start"].as_str().unwrap()[..7].to_owned();
    let balance = store.balance(tenant, &format!("tenant:{month}")).await.unwrap();
    assert_eq!((balance.reserved, balance.spent), (Amount::ZERO, costs), "held by nobody, or spent by nobody");
    store.close().await.unwrap();
}

/// Every second start is killed on the way, and then tried again.
async fn start(home: &Home, round: u64) -> Server {
    if round % 2 == 1 {
        let mut child = Server::command(home, &[]).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(chance(400))).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    Server::start(home, &[])
}

/// Callers who ask one thing after the other, until nobody answers.
fn load(caller: &Caller, round: u64) -> JoinSet<Vec<Told>> {
    (0..LOADERS)
        .map(|loader| {
            let caller = caller.clone();
            async move {
                let mut told = Vec::new();
                let limits = json!({"limits": {"max_tool_calls": 1_000_000}});
                let Ok(run) = caller.try_send("POST", "/runs", &limits).await else { return told };
                let run = run.ok()["id"].clone();
                for number in 0.. {
                    let name = format!("{round}-{loader}-{number}");
                    let request = match (number + loader) % 6 {
                        0 => json!({"tool": "calculator", "input": {"expression": format!("{number} * 7 + {round}")}}),
                        1 => json!({"tool": "append_note", "input": {"text": name}, "request_id": name}),
                        2 => json!({"tool": "wait", "input": {"seconds": 0.01}}),
                        3 => json!({"tool": "append_note", "input": {"text": name}, "request_id": name, "run_id": run}),
                        4 => json!({"tool": "priced", "input": {"n": number}, "request_id": name, "mode": "record"}),
                        _ => json!({"tool": "wait", "input": {"seconds": 0.1}, "run_id": run, "request_id": name}),
                    };
                    let answer = caller.try_send("POST", "/calls", &request).await.ok();
                    let gone = answer.is_none();
                    let mut answer = answer.map(|answer| {
                        let expected = if request["mode"] == "record" { 202 } else { 200 };
                        assert_eq!(answer.status, expected, "{request}: {}", answer.text);
                        answer.body
                    });
                    if let Some(running) = answer.as_ref().filter(|_| request["mode"] == "record") {
                        let report = complete(&caller, text(&running["id"])).await;
                        answer = report.or(answer);
                    }
                    told.push(Told { request, answer });
                    if gone {
                        break;
                    }
                }
                told
            }
        })
        .collect()
}

/// Reports a call that this caller ran itself; `None` where nobody answers.
async fn complete(caller: &Caller, id: &str) -> Option<Value> {
    let report = json!({"status": "completed", "output": {"done": true}});
    let answer = caller.try_send("POST", &format!("/calls/{id}/complete"), &report).await.ok()?;
    Some(answer.ok())
}

/// Whoever got no answer asks again with the same words, several times at once, and so does one who got one.
async fn ask_again(caller: &Caller, told: &mut [Told]) {
    let named = |told: &&mut Told| told.request["request_id"].is_string();
    let mut again = 0;
    for told in told.iter_mut().filter(named) {
        if told.answer.is_some() {
            again += 1;
            if again % 20 != 0 {
                continue;
            }
        }
        let asking: JoinSet<_> = (0..3)
            .map(|_| {
                let (caller, request) = (caller.clone(), told.request.clone());
                async move { caller.post("/calls", request).await.ok() }
            })
            .collect();
        let answers = asking.join_all().await;
        let before = told.answer.as_ref().unwrap_or(&answers[0]);
        for answer in &answers {
            assert_eq!(answer["id"], before["id"], "one request is one call: {}", told.request);
        }
        told.answer = Some(before.clone());
    }
}

/// A call is as its caller was told, or it has ended since.
async fn as_told(caller: &Caller, told: &Told) {
    let Some(answer) = &told.answer else { return };
    let id = answer["id"].as_str().unwrap();
    let now = caller.get(&format!("/calls/{id}")).await.ok();
    match answer["status"].as_str().unwrap() {
        "completed" => {
            for member in ["status", "output", "input", "run_id", "call_id", "t_end", "cost"] {
                assert_eq!(now[member], answer[member], "{member} of {id} was told otherwise: {}", told.request);
            }
            assert_eq!(now["receipt"]["entry_digest"], answer["receipt"]["entry_digest"], "{id}");
        }
        "failed" => assert_eq!(answer["error"]["details"]["reason"], "interrupted", "{answer}"),
        // Of what may have happened nobody knows, until somebody looks: the probe, or after a second crash a person.
        "running" | "outcome_unknown" => {
            assert!(matches!(text(&now["status"]), "completed" | "failed" | "outcome_unknown"), "{now}");
        }
        other => panic!("{id} is {other}: {answer}"),
    }
}

/// The exported log, by calls.
fn logged(home: &Home) -> (TenantId, BTreeMap<String, Logged>) {
    let lines = std::fs::read_to_string(home.path().join("copy/entries.jsonl")).unwrap();
    let mut calls = BTreeMap::<String, Logged>::new();
    let mut tenant = None;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let entry: Value = serde_json::from_str(line["entry"].as_str().unwrap()).unwrap();
        tenant = Some(entry["tenant"].as_str().unwrap().parse().unwrap());
        let action = entry["action"].as_str().unwrap();
        let Some(id) = entry["details"]["call"].as_str().filter(|_| action.starts_with("call.")) else { continue };
        let call = calls.entry(id.to_owned()).or_default();
        text(&entry["details"]["tool"]).clone_into(&mut call.tool);
        text(&entry["details"]["run"]).clone_into(&mut call.run);
        match action {
            "call.intent" => call.intents += 1,
            "call.settled" => call.settled += 1,
            _ => {
                assert_eq!(entry["id"], id, "the entry of an outcome has the call's id");
                call.outcomes += 1;
            }
        }
        entry["details"]["status"].as_str().unwrap().clone_into(&mut call.status);
        let input = &line["payload"]["input"];
        let input = input.as_str().map_or_else(|| input.clone(), |text| serde_json::from_str(text).unwrap());
        if let Some(text) = input["text"].as_str() {
            call.text = Some(text.to_owned());
        }
    }
    for (id, call) in &calls {
        let changes = call.tool.starts_with("append_note@");
        assert_eq!((call.intents, call.outcomes), (usize::from(changes), 1), "{id} of {} in the log", call.tool);
        assert!(call.settled <= 1, "{id} was settled {} times", call.settled);
        let ended = matches!(call.status.as_str(), "completed" | "failed");
        assert!(ended || changes && call.status == "outcome_unknown", "{id} of {} is {}", call.tool, call.status);
    }
    (tenant.unwrap(), calls)
}

/// One line for each note that was answered, at most one for any other, and none that nobody asked for.
async fn notes(store: &Store, tenant: TenantId, told: &[Told], logged: &BTreeMap<String, Logged>, last: u64) {
    let mut lines = BTreeMap::<String, Vec<u32>>::new();
    for (id, call) in logged.iter().filter(|(_, call)| call.tool.starts_with("append_note@")) {
        let id: CallId = id.parse().unwrap();
        let note = store.note_of_call(tenant, id).await.unwrap();
        if call.status != "outcome_unknown" {
            assert_eq!(note.is_some(), call.status == "completed", "{id} is {} in the log", call.status);
        }
        if let Some(note) = note {
            assert_eq!(Some(&note.text), call.text.as_ref());
            lines.entry(note.text).or_default().push(note.line);
        }
    }
    let all: BTreeSet<u32> = lines.values().flatten().copied().collect();
    assert_eq!(all.len() as u64, last, "a line without a call");
    for told in told.iter().filter(|told| told.request["tool"] == "append_note") {
        let text = told.request["input"]["text"].as_str().unwrap();
        let line = told.answer.as_ref().and_then(|answer| answer["output"]["line"].as_u64());
        let there = lines.remove(text).unwrap_or_default();
        assert!(there.len() <= 1, "`{text}` was written {} times", there.len());
        if let Some(line) = line {
            assert_eq!(there.first().copied().map(u64::from), Some(line), "`{text}` was answered");
        }
    }
    let unasked: Vec<_> = lines.keys().collect();
    assert_eq!(unasked, ["the last line"]);
}
