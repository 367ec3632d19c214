//! How much may come back, and how long it may take.

use std::time::Duration;

use serde_json::json;
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Runner as _, testing};

use super::scene::{Kind, Scene, every_scene, postgres_scene, sqlite_scene};
use crate::world::failed;

const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) select sum(i) from n";

/// A statement that gives many rows of one text each.
fn many(kind: Kind, rows: u32, bytes: u32) -> String {
    match kind {
        Kind::Sqlite => format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
             select i, replace(hex(zeroblob({bytes} / 2)), '0', 'x') as t from n"
        ),
        Kind::Postgres => format!("select i, repeat('x', {bytes}) as t from generate_series(1, {rows}) i"),
    }
}

#[tokio::test]
async fn a_huge_result_is_cut_where_its_bounds_are() {
    every_scene(async |scene| {
        let by_rows = scene.output("ledger", &many(scene.kind, 10_000_000, 10), &[]).await;
        assert_eq!((&by_rows["row_count"], &by_rows["truncated"]), (&json!(50), &json!(true)));
        let by_bytes = scene.output("ledger", &many(scene.kind, 900, 100_000), &[]).await;
        assert_eq!((&by_bytes["row_count"], &by_bytes["truncated"]), (&json!(20), &json!(true)));
        assert!(by_bytes.to_string().len() < 2 * 1024 * 1024);
        let whole = scene.output("ledger", &many(scene.kind, 50, 10), &[]).await;
        assert_eq!((&whole["row_count"], &whole["truncated"]), (&json!(50), &json!(false)));
    })
    .await;
}

#[tokio::test]
async fn a_row_that_is_larger_than_the_output_is_told() {
    every_scene(async |scene| {
        let error = scene.refused("ledger", &many(scene.kind, 1, 3_000_000), &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "too_large"), "{}", error.message);
        assert!(error.message.contains("`substr`"), "{}", error.message);
        // So large that it must not even be read.
        let error = scene.refused("ledger", &many(scene.kind, 1, 200_000_000), &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "too_large"), "{}", error.message);
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn temporary_files_do_not_fill_the_disk() {
    sqlite_scene(&async |scene: &Scene| {
        // Sorting needs all rows, and they do not fit into memory.
        let statement = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
             select i, hex(randomblob(50000)) as t from n order by t";
        let error = scene.refused("ledger", statement, &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "too_large"), "{error:?}");
        assert!(error.message.contains("more than 256 MiB of temporary space"), "{}", error.message);
        let left = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter(|entry| entry.path().read_link().is_ok_and(|file| file.to_string_lossy().starts_with("/var/tmp")));
        assert_eq!(left.count(), 0, "nothing of it is left");
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_stopped() {
    every_scene(async |scene| {
        let statement = if scene.kind == Kind::Postgres { "select pg_sleep(600)" } else { ENDLESS };
        let error = scene.refused("hasty", statement, &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::Timeout, "timeout"), "{error:?}");
        assert!(error.message.contains("after 300 ms"), "{}", error.message);
        scene.is_unharmed().await;
        is_quiet(scene).await;
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_stops_its_statement() {
    every_scene(async |scene| {
        let statement = if scene.kind == Kind::Postgres { "select pg_sleep(600)" } else { ENDLESS };
        let call = scene.call("orders", statement, &[]);
        let cancel = call.cancel.clone();
        let running = scene.statements.run(testing::permit(call));
        let (outcome, ()) = tokio::join!(running, async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.cancel();
        });
        let error = failed(outcome);
        assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "cancelled"), "{error:?}");
        is_quiet(scene).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_cancelled_leaves_nothing() {
    every_scene(async |scene| {
        let statement = match scene.kind {
            Kind::Postgres => "update orders set total = 0 where pg_sleep(600) is not null".to_owned(),
            Kind::Sqlite => format!("update orders set total = ({ENDLESS})"),
        };
        let call = scene.call("orders", &statement, &[]);
        let cancel = call.cancel.clone();
        let running = scene.statements.run(testing::permit(call));
        let (outcome, ()) = tokio::join!(running, async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.cancel();
        });
        assert_eq!(failed(outcome).reason(), "cancelled");
        scene.is_unharmed().await;
        is_quiet(scene).await;
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_nobody_waits_for_is_stopped() {
    every_scene(async |scene| {
        let statement = if scene.kind == Kind::Postgres { "select pg_sleep(600)" } else { ENDLESS };
        let running = scene.run("orders", statement, &[]);
        assert!(tokio::time::timeout(Duration::from_millis(300), running).await.is_err());
        is_quiet(scene).await;
    })
    .await;
}

#[tokio::test]
async fn more_calls_than_connections_wait_for_each_other() {
    postgres_scene(&async |scene: &Scene| {
        let calls = (0..20).map(|number| async move { scene.rows("select $1::int as n", &[json!(number)]).await });
        let rows = futures_util::future::join_all(calls).await;
        for (number, rows) in rows.iter().enumerate() {
            assert_eq!(*rows, json!([{"n": number}]));
        }
        let connections =
            scene.rows("select count(*) as n from pg_stat_activity where usename = current_user", &[]).await;
        assert!(connections[0]["n"].as_u64().unwrap() <= 4, "{connections}");
    })
    .await;
}

/// Nothing of ours runs in the server any more, soon.
async fn is_quiet(scene: &Scene) {
    if scene.kind == Kind::Sqlite {
        // The thread has a place that others need: all of them can be had.
        let calls = (0..8).map(|_| scene.rows("select 1 as one", &[]));
        futures_util::future::join_all(calls).await;
        return;
    }
    let asked = "select count(*) as n from pg_stat_activity where usename = current_user and state <> 'idle' and pid <> pg_backend_pid()";
    for _ in 0..200 {
        if scene.rows(asked, &[]).await == json!([{"n": 0}]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a statement still runs");
}
