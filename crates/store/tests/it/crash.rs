//! `kill -9` at any moment loses nothing that was answered.

#![expect(
    clippy::disallowed_methods,
    reason = "a test that kills a process must start one, and tell it where to write"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use tokio::task::JoinSet;
use toolgate_contracts::Rng;
use toolgate_store::testing::every_database;
use toolgate_store::{Durability, Options, Scope, Store};

use crate::schema::{MIGRATIONS, note, tenant};

const URL: &str = "TOOLGATE_TEST_CRASH_URL";
const ANSWERED: &str = "answered ";

/// The process that is killed. Does nothing when it is run with the other tests.
#[tokio::test(flavor = "multi_thread")]
async fn the_child_writes_until_it_is_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = Store::open(Options { migrations: MIGRATIONS, ..Options::new(url) }).await.unwrap();
    let mut running = JoinSet::new();
    for writer in 0..8_i64 {
        let store = store.clone();
        running.spawn(async move {
            for number in 0.. {
                let id = number * 8 + writer;
                let durability = if id % 5 == 0 { Durability::Disk } else { Durability::Process };
                store.commit(note(tenant(1), id, &format!("note {id}")).durability(durability)).await.unwrap();
                println!("{ANSWERED}{id}");
            }
        });
    }
    running.join_next().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_kill_9() {
    every_database(MIGRATIONS, async |database| {
        database.open().await.close().await.unwrap();
        let mut answered = Vec::new();
        for round in 0..4 {
            if round > 0 {
                // Each round writes anew under another tenant's nose: the ids of the rounds before are in the way.
                database.execute("DELETE FROM notes").await.unwrap();
                answered.clear();
            }
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "crash::the_child_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
                .env(URL, &database.url)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let enough = 50 + usize::from(Rng::System.bytes::<1>()[0]);
            let note_of = |line: String| line.rsplit_once(ANSWERED).and_then(|(_, id)| id.parse::<i64>().ok());
            while answered.len() < enough {
                answered.extend(note_of(lines.next().expect("the child ended by itself").unwrap()));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            // What it had printed before it died counts too; its last line may be cut.
            answered.extend(lines.map_while(Result::ok).filter_map(note_of));
            answered.pop();

            let store = database.open().await;
            let sql = "SELECT id FROM notes WHERE tenant_id = $1";
            let rows = store.query(&Scope::Tenant(tenant(1)), sql, vec![]).await.unwrap();
            let kept: std::collections::HashSet<i64> = rows.iter().map(|row| row.get(0).unwrap()).collect();
            let lost: Vec<_> = answered.iter().filter(|id| !kept.contains(id)).collect();
            assert!(lost.is_empty(), "{lost:?} of {} were lost", answered.len());
            store.close().await.unwrap();
        }
    })
    .await;
}
