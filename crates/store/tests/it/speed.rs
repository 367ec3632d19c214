//! Commits a second of one row of 600 bytes with its primary key, printed. Not a test of time: run it by hand, in release, on a quiet machine.
//! `cargo test --release -p toolgate-store -- --ignored --nocapture speed`

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toolgate_store::testing::every_database;
use toolgate_store::{Change, Durability};

use crate::schema::{MIGRATIONS, tenant};

const INSERT: &str = "INSERT INTO days (tenant_id, id, note) VALUES ($1, $2, $3)";
const SPAN: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, asserts nothing"]
async fn commits_a_second() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let body = "x".repeat(600);
        let mut id = 0_i64;
        for durability in [Durability::Disk, Durability::Process] {
            for callers in [1_i64, 8, 64, 256] {
                let begun = Instant::now();
                let mut running = JoinSet::new();
                for caller in 0..callers {
                    let (store, body) = (store.clone(), body.clone());
                    running.spawn(async move {
                        let mut times = Vec::new();
                        while begun.elapsed() < SPAN {
                            let id = id + i64::try_from(times.len()).unwrap() * callers + caller;
                            let started = Instant::now();
                            let mut change = Change::new(tenant(1)).durability(durability);
                            change.then(INSERT, [id.into(), (&body).into()]);
                            store.commit(change).await.unwrap();
                            times.push(started.elapsed());
                        }
                        times
                    });
                }
                let mut times = Vec::new();
                while let Some(done) = running.join_next().await {
                    times.extend(done.unwrap());
                }
                times.sort_unstable();
                let per_second = u128::try_from(times.len()).unwrap() * 1000 / begun.elapsed().as_millis();
                let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
                println!(
                    "{:?} {durability:?} {callers:>3} callers: {per_second:>6} commits/s, p50 {median:?}, p99 {slow:?}",
                    database.kind
                );
                id += 10_000_000;
            }
        }
    })
    .await;
}
