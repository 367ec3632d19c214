//! The schema's history: run once, in order, by one; and never under a program that thinks differently of it.

use toolgate_store::testing::{Database, every_database};
use toolgate_store::{Error, Migration, MigrationState, Options, Store};

use crate::schema::{FIRST, MIGRATIONS, SECOND, count, tenant, write};

static BOTH: &[Migration] = &[FIRST, SECOND];
static BROKEN: &[Migration] = &[
    FIRST,
    Migration {
        number: 2,
        name: "broken",
        common: "CREATE TABLE half (a {int}); CREATE TABLE half (a {int});",
        ..SECOND
    },
];

fn with(database: &Database, migrations: &'static [Migration]) -> Options {
    Options { migrations, ..database.options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_run_once_and_keep_what_is_there() {
    every_database(MIGRATIONS, async |database| {
        let store = Store::open(database.options()).await.unwrap();
        assert_eq!(store.migration_state().await.unwrap(), MigrationState { applied: 0, known: 1 });
        assert!(!store.migration_state().await.unwrap().is_current());
        assert_eq!(store.migrate().await.unwrap(), MigrationState { applied: 1, known: 1 });
        assert_eq!(store.migrate().await.unwrap(), MigrationState { applied: 1, known: 1 });
        write(&store, tenant(1), 1, "kept").await.unwrap();
        store.close().await.unwrap();

        let store = Store::open(with(database, BOTH)).await.unwrap();
        assert_eq!(store.migration_state().await.unwrap(), MigrationState { applied: 1, known: 2 });
        assert!(store.migrate().await.unwrap().is_current());
        write(&store, tenant(1), 2, "new").await.unwrap();
        assert_eq!(count(&store).await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_database_is_refused() {
    every_database(BOTH, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "kept").await.unwrap();
        store.close().await.unwrap();
        let old = Store::open(with(database, MIGRATIONS)).await.unwrap();
        for refused in [old.migrate().await, old.migration_state().await] {
            assert!(matches!(refused, Err(Error::Newer { found: 2, known: 1 })), "{refused:?}");
        }
        assert_eq!(count(&database.open().await).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_history_is_refused() {
    every_database(MIGRATIONS, async |database| {
        database.open().await.close().await.unwrap();
        let store = Store::open(database.options()).await.unwrap();
        for damage in [
            "UPDATE migrations SET checksum = 'other'",
            "DELETE FROM migrations; INSERT INTO migrations VALUES (0, 'zero', '', 0), (1, 'one', '', 0)",
        ] {
            database.execute(damage).await.unwrap();
            for refused in [store.migrate().await, store.migration_state().await] {
                assert!(matches!(refused, Err(Error::Altered { number: 1 })), "{refused:?}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_leaves_nothing_behind() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "kept").await.unwrap();
        let broken = Store::open(with(database, BROKEN)).await.unwrap();
        let error = broken.migrate().await.unwrap_err();
        assert!(matches!(&error, Error::Corrupt(message) if message.contains("migration 2 (broken)")), "{error:?}");
        assert_eq!(broken.migration_state().await.unwrap().applied, 1);
        // Neither half of it, and no lock.
        let fixed = Store::open(with(database, BOTH)).await.unwrap();
        assert!(fixed.migrate().await.unwrap().is_current());
        assert!(database.execute("SELECT * FROM half").await.is_err());
        write(&store, tenant(1), 2, "goes on").await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_openers_migrate_at_once() {
    every_database(BOTH, async |database| {
        let mut openers = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let options = database.options();
            openers.spawn(async move {
                let store = Store::open(options).await.unwrap();
                store.migrate().await.unwrap()
            });
        }
        while let Some(state) = openers.join_next().await {
            assert!(state.unwrap().is_current());
        }
        let store = database.open().await;
        let row = crate::schema::one(&store, "SELECT value FROM counters", vec![]).await;
        assert_eq!(row.get::<i64>(0).unwrap(), 0);
    })
    .await;
}

/// Roles belong to the cluster: databases that are migrated at once make the same one.
#[tokio::test(flavor = "multi_thread")]
async fn databases_of_one_cluster_migrate_at_once() {
    let mut databases = Vec::new();
    for _ in 0..4 {
        databases.extend(Database::postgres(MIGRATIONS).await);
    }
    let mut openers = tokio::task::JoinSet::new();
    for database in &databases {
        let options = database.options();
        openers.spawn(async move { Store::open(options).await?.migrate().await });
    }
    while let Some(state) = openers.join_next().await {
        assert!(state.unwrap().unwrap().is_current());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_program_is_left_alone() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    database.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)").await.unwrap();
    let store = Store::open(database.options()).await.unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(matches!(&error, Error::Open { message, .. } if message.contains("another program")), "{error:?}");
    assert!(database.execute("CREATE TABLE notes (a)").await.is_ok(), "nothing was made");
}
