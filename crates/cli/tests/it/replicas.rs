//! Two processes on one PostgreSQL, and for some of it one Redis: what one allows, counts, stops or tells, the other does.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolgate_contracts::Rng;
use toolgate_server::REVISION_HEADER;
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;

use crate::caller::{Caller, Sent, answer, chance, gap_free, text};
use crate::program::{Home, Server};

/// Two servers on one database.
pub struct Replicas {
    pub one: Server,
    pub two: Server,
    _homes: [Home; 2],
    _database: Database,
}

impl Replicas {
    /// `None` where there is no PostgreSQL.
    pub async fn start(redis: Option<&str>) -> Option<Self> {
        let database = Database::postgres(MIGRATIONS).await?;
        let mut homes = [Home::new(), Home::new()];
        let digits = data_encoding::HEXLOWER.encode(&Rng::System.bytes::<32>());
        let key = homes[0].write("master.key", &digits);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        for home in &mut homes {
            home.set("TOOLGATE_DATABASE", &database.url);
            home.set("TOOLGATE_MASTER_KEY_FILE", &key);
            if let Some(redis) = redis {
                home.set("TOOLGATE_REDIS", redis);
            }
        }
        let (one, two) = (Server::start(&homes[0], &[]), Server::start(&homes[1], &[]));
        Some(Self { one, two, _homes: homes, _database: database })
    }

    /// One caller at both.
    async fn caller(&self, role: &str) -> [Caller; 2] {
        let caller = Caller::owner(&self.one).user(&format!("{role}-{}", chance(u64::MAX)), role).await;
        [caller.clone(), caller.at(&self.two)]
    }
}

/// Waits until a server has seen a change that another was asked for.
async fn seen(caller: &Caller, revision: &str) {
    answer(caller.request("GET", "/me").header(REVISION_HEADER, revision)).await.unwrap().ok();
}

async fn changed(caller: &Caller, path: &str, body: Value) -> String {
    let answer = caller.send("PUT", path, body).await;
    let revision = answer.headers.get(REVISION_HEADER).map(|revision| revision.to_str().unwrap().to_owned());
    answer.ok();
    revision.expect("a change has a revision")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_spend_a_budget_to_the_last_cent_and_no_further() {
    let Some(replicas) = Replicas::start(None).await else { return };
    let owner = Caller::owner(&replicas.one);
    owner.register_mirror("priced", json!({"cost": {"per_call": "0.01"}})).await;
    let revision = changed(&owner, "/limits", json!({"max_budget": "1.00"})).await;
    let callers = [owner.clone(), Caller::owner(&replicas.two)];
    seen(&callers[1], &revision).await;

    let asked: JoinSet<Vec<Value>> = (0..10_usize)
        .map(|number| {
            let caller = callers[number % 2].clone();
            async move {
                let call = |n: usize| json!({"tool": "priced", "input": {"n": n}, "mode": "record"});
                let calls: Vec<_> = (0..100).map(|n| call(number * 100 + n)).collect();
                let batch = caller.post("/calls", json!({"calls": calls})).await.ok();
                batch["calls"].as_array().unwrap().clone()
            }
        })
        .collect();
    let answers: Vec<Value> = asked.join_all().await.into_iter().flatten().collect();
    assert_eq!(answers.len(), 1000);
    let (running, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["status"] == "running");
    assert_eq!(running.len(), 100, "{:?}", answers.iter().map(|answer| &answer["status"]).collect::<Vec<_>>());
    for refused in refused {
        assert_eq!(refused["error"]["details"]["reason"], "budget", "{refused}");
    }
    // Reported at once, some of them twice: each is spent once.
    let reports: JoinSet<u16> = running
        .iter()
        .flat_map(|call| [call, call])
        .enumerate()
        .map(|(number, call)| {
            let (caller, id) = (callers[number % 2].clone(), text(&call["id"]).to_owned());
            let report = json!({"status": "completed", "output": {}, "cost": "9.99"});
            async move {
                loop {
                    // Two replicas that report the same calls may stand in each other's way: then nothing was changed.
                    match caller.post(&format!("/calls/{id}/complete"), report.clone()).await.status {
                        503 => {}
                        status => return status,
                    }
                }
            }
        })
        .collect();
    let statuses = reports.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 100, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 409)), "{statuses:?}");
    for caller in &callers {
        let refused = caller.post("/calls", json!({"tool": "priced", "mode": "record"})).await.ok();
        let details = &refused["error"]["details"];
        assert_eq!((&details["spent"], &details["reserved"]), (&json!("1.00"), &json!("0.00")), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_revoked_or_cancelled_on_one_is_so_on_the_other() {
    let Some(replicas) = Replicas::start(None).await else { return };
    let owner = Caller::owner(&replicas.one);
    let [one, two] = replicas.caller("member").await;

    // A kill switch.
    assert_eq!(two.call("echo", json!({"text": "a"})).await["status"], "completed");
    changed(&owner, "/kill-switches", json!({"scope": "tool", "name": "echo", "on": true, "reason": "a test"})).await;
    assert_eq!(one.call("echo", json!({"text": "a"})).await["error"]["details"]["reason"], "frozen");
    let stopped = async || two.call("echo", json!({"text": "a"})).await["error"]["details"]["reason"] == "frozen";
    while !stopped().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        assert!(stopped().await, "stopped, and then not");
    }

    // A call that runs over there.
    let running = one.post("/calls", json!({"tool": "wait", "input": {"seconds": 60}, "wait": 0})).await;
    assert_eq!(running.status, 202, "{}", running.text);
    let id = text(&running.body["id"]).to_owned();
    two.post(&format!("/calls/{id}/cancel"), json!({})).await.ok();
    for caller in [&one, &two] {
        let ended = caller.until(&format!("/calls/{id}"), |call| call.body["status"] != "running").await;
        assert_eq!(ended.body["status"], "cancelled", "{}", ended.text);
    }
    two.post(&format!("/calls/{id}/cancel"), json!({})).await.refused(409);

    // A key.
    two.get("/me").await.ok();
    let name = owner.all("/keys").await.into_iter().find(|key| text(&key["name"]).starts_with("member-")).unwrap();
    owner.send("DELETE", &format!("/keys/{}", text(&name["id"])), Value::Null).await.ok();
    one.get("/me").await.refused(401);
    two.until("/me", |answer| answer.status == 401).await;
    for _ in 0..5 {
        two.post("/calls", json!({"tool": "now"})).await.refused(401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_on_one_shows_without_a_gap_what_happens_on_the_other() {
    let Some(replicas) = Replicas::start(None).await else { return };
    let [one, two] = replicas.caller("admin").await;
    let run = one.new_run(json!({"limits": {"max_tool_calls": 1000}})).await;
    let mut of_run = two.stream(&format!("/runs/{run}/events"), None).await.unwrap();
    let mut of_tenant = two.stream("/events", None).await.unwrap();
    // From both at once, so that commits of two processes interleave.
    let calling: JoinSet<()> = (0..8_usize)
        .map(|number| {
            let (caller, run) = ([&one, &two][number % 2].clone(), run.clone());
            async move {
                for n in 0..10 {
                    let call = json!({"tool": "calculator", "input": {"expression": format!("{n}")}, "run_id": run});
                    assert_eq!(caller.post("/calls", call).await.ok()["status"], "completed");
                }
            }
        })
        .collect();
    let events = of_run.until(161).await;
    assert_eq!(gap_free(1, events.iter().filter_map(Sent::seq)), 161);
    let mut numbers = Vec::new();
    while numbers.len() < 160 {
        let sent = of_tenant.next().await.unwrap();
        if sent.event["run_id"] == run.as_str() {
            numbers.extend(sent.seq().filter(|seq| *seq > 1));
        }
    }
    // In the order of transactions, which under PostgreSQL is not quite that of a run; nothing is missing or comes twice.
    numbers.sort_unstable();
    gap_free(2, numbers);
    calling.join_all().await;
}

/// `scripts/with-services` sets it.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn redis_url() -> Option<String> {
    let url = std::env::var("TOOLGATE_TEST_REDIS").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        assert!(std::env::var("CI").is_err(), "TOOLGATE_TEST_REDIS is not set, and CI is");
        eprintln!("TOOLGATE_TEST_REDIS is not set: not tested with Redis");
    }
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_rates_are_shared_through_redis() {
    let Some(redis) = redis_url() else { return };
    let Some(replicas) = Replicas::start(Some(&redis)).await else { return };
    let owner = Caller::owner(&replicas.one);
    let [one, two] = replicas.caller("member").await;
    let sum = json!({"expression": "20 + 22"});
    let first = one.call("calculator", sum.clone()).await;
    assert_eq!((&first["cached"], &first["output"]["result"]), (&Value::Null, &json!(42)));
    let second = two.call("calculator", sum.clone()).await;
    assert_eq!((&second["cached"], &second["output"]), (&json!(true), &first["output"]), "{second}");
    assert_ne!(second["id"], first["id"], "what is cached is a call of its own");
    // Not for somebody else.
    let [_, other] = replicas.caller("member").await;
    assert_eq!(other.call("calculator", sum.clone()).await["cached"], Value::Null);

    let revision = changed(&owner, "/limits", json!({"rate_limit": {"count": 20, "per_s": 86_400}})).await;
    seen(&two, &revision).await;
    let mut completed = 0;
    for number in 0..60 {
        // What is cached counts like any other.
        let caller = [&one, &two][number % 2];
        let call = caller.post("/calls", json!({"tool": "calculator", "input": sum})).await;
        let ended = call.clone().ok();
        if ended["status"] == "completed" {
            completed += 1;
        } else {
            assert_eq!(ended["error"]["code"], "RATE_LIMIT", "{ended}");
            assert!(call.headers.contains_key("retry-after"), "{:?}", call.headers);
        }
    }
    assert_eq!(completed, 20, "together, not each");
}
