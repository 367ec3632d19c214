//! The queue's bound, and the end of a store.

use std::time::Duration;

use tokio::task::JoinSet;
use toolgate_store::testing::{Database, every_database};
use toolgate_store::{Durability, Error, Options, Store};

use crate::schema::{MIGRATIONS, count, note, tenant, write};

#[tokio::test(flavor = "multi_thread")]
async fn closing_commits_what_was_taken() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let mut running = JoinSet::new();
        for id in 0..500_i64 {
            let store = store.clone();
            let durability = if id % 2 == 0 { Durability::Disk } else { Durability::Process };
            running
                .spawn(async move { store.commit(note(tenant(1), id, &format!("{id}")).durability(durability)).await });
        }
        tokio::task::yield_now().await;
        store.clone().close().await.unwrap();
        let mut kept = 0;
        while let Some(outcome) = running.join_next().await {
            match outcome.unwrap() {
                Ok(_) => kept += 1,
                // Those that came too late know it.
                Err(error) => {
                    assert!(matches!(&error, Error::Unavailable(message) if message.contains("closed")), "{error:?}");
                }
            }
        }
        assert!(matches!(write(&store, tenant(1), 1000, "late").await, Err(Error::Unavailable(_))));
        assert!(matches!(store.ping().await, Err(Error::Unavailable(_))));
        store.close().await.unwrap();
        assert_eq!(count(&database.open().await).await, kept);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_bound_of_the_queue_callers_are_told() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let store = database.open().await;
    store.close().await.unwrap();
    let store =
        Store::open(Options { queue: 4, patience: Duration::from_millis(300), ..database.options() }).await.unwrap();
    // Somebody else holds the write lock, so that nothing moves.
    let path = database.folder().unwrap().join("toolgate.db");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut running = JoinSet::new();
    for id in 0..10_i64 {
        let store = store.clone();
        running.spawn(async move { write(&store, tenant(1), id, &format!("{id}")).await });
    }
    for _ in 0..6 {
        let error = running.join_next().await.unwrap().unwrap().unwrap_err();
        assert!(matches!(&error, Error::Unavailable(message) if message.contains("full")), "{error:?}");
    }
    other.execute_batch("COMMIT").unwrap();
    while let Some(outcome) = running.join_next().await {
        outcome.unwrap().unwrap();
    }
    assert_eq!(count(&store).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_leaves_takes_nothing_along() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        for id in 0..50_i64 {
            let task = tokio::spawn({
                let store = store.clone();
                async move {
                    let _ = write(&store, tenant(1), id, &format!("{id}")).await;
                    let _ = count(&store).await;
                }
            });
            if id % 3 == 0 {
                tokio::task::yield_now().await;
            }
            task.abort();
            let _ = task.await;
        }
        write(&store, tenant(2), 1, "after").await.unwrap();
        assert!(count(&store).await >= 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_dropped_keeps_what_it_answered() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "one").await.unwrap();
        drop(store);
        assert_eq!(count(&database.open().await).await, 1);
    })
    .await;
}
