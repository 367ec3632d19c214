//! No statement leaves its tenant: the text is judged in both databases, and PostgreSQL's row policies hold besides.

use toolgate_contracts::{Principal, UserId};
use toolgate_store::testing::{Database, every_database};
use toolgate_store::{Change, Error, Kind, Options, Scope, Store};
use uuid::Uuid;

use crate::schema::{MIGRATIONS, bodies, count, tenant, texts, write};

const NOTES: &str = "SELECT body FROM notes WHERE tenant_id = $1 ORDER BY id";

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_and_changes_its_own() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "one").await.unwrap();
        write(&store, tenant(2), 1, "two").await.unwrap();
        assert_eq!(bodies(&store, tenant(1)).await, ["one"]);
        assert_eq!(bodies(&store, tenant(2)).await, ["two"]);
        assert_eq!(bodies(&store, tenant(3)).await, [""; 0]);
        let mut change = Change::new(tenant(2));
        change.then("DELETE FROM notes WHERE tenant_id = $1", []);
        assert_eq!(store.commit(change).await.unwrap().changed, [1]);
        assert_eq!(count(&store).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_forgets_its_tenant_is_refused() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "one").await.unwrap();
        let scope = Scope::Tenant(tenant(2));
        for sql in [
            "SELECT body FROM notes",
            "SELECT body FROM notes WHERE id = $1",
            "SELECT n.body FROM notes n JOIN replies r ON r.note_id = n.id WHERE r.tenant_id = $1",
        ] {
            // Twice: also when the text is known already.
            for _ in 0..2 {
                let error = store.query(&scope, sql, vec![]).await.unwrap_err();
                assert!(matches!(&error, Error::Corrupt(message) if message.contains("tenant")), "{sql}: {error:?}");
            }
        }
        for sql in [
            "DELETE FROM notes",
            "UPDATE notes SET tenant_id = $1",
            "INSERT INTO notes (id, tenant_id, body) VALUES (5, $1, 'x')",
        ] {
            let mut change = Change::new(tenant(2));
            change.then(sql, []);
            let error = store.commit(change).await.unwrap_err();
            assert!(matches!(&error, Error::Corrupt(message) if message.contains("tenant")), "{sql}: {error:?}");
        }
        // Who looks across tenants says why.
        let everyone = Scope::Everyone("a test");
        assert_eq!(store.query(&everyone, "SELECT body FROM notes", vec![]).await.unwrap().len(), 1);
        let marked = "/* no tenant: counters have none */ SELECT value FROM counters WHERE name = $1";
        assert_eq!(store.query(&scope, marked, vec!["all".into()]).await.unwrap().len(), 1);
        assert_eq!(bodies(&store, tenant(1)).await, ["one"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_writes_nothing() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "one").await.unwrap();
        let error =
            store.query(&Scope::Tenant(tenant(1)), "DELETE FROM notes WHERE tenant_id = $1", vec![]).await.unwrap_err();
        assert!(matches!(error, Error::ReadOnly), "{error:?}");
        let error = store.query(&Scope::Everyone("a test"), "SELECT 1; SELECT 2", vec![]).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        assert_eq!(count(&store).await, 1);
    })
    .await;
}

/// Statements that say the right words and mean the wrong thing: the text passes, the row policy does not.
#[tokio::test(flavor = "multi_thread")]
async fn row_policies_hide_what_the_text_does_not() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let store = database.open().await;
    write(&store, tenant(1), 1, "one").await.unwrap();
    write(&store, tenant(2), 2, "two").await.unwrap();
    let leaky = "SELECT body FROM notes WHERE tenant_id = $1 OR TRUE ORDER BY id";
    assert_eq!(texts(&store.query(&Scope::Tenant(tenant(1)), leaky, vec![]).await.unwrap()), ["one"]);
    assert_eq!(texts(&store.query(&Scope::Tenant(tenant(3)), leaky, vec![]).await.unwrap()), [""; 0]);
    assert_eq!(count(&store).await, 2);

    let mut change = Change::new(tenant(1));
    change.then("DELETE FROM notes WHERE tenant_id = $1 OR TRUE", []);
    assert_eq!(store.commit(change).await.unwrap().changed, [1]);
    assert_eq!(count(&store).await, 1);
    let mut change = Change::new(tenant(1));
    change.then("UPDATE notes SET tenant_id = $1 WHERE tenant_id = $1 OR TRUE", []);
    assert_eq!(store.commit(change).await.unwrap().changed, [0]);
    assert_eq!(bodies(&store, tenant(2)).await, ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_policies_know_the_viewer() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let store = database.open().await;
    let viewer = Principal::User(UserId::from_uuid(Uuid::from_u128(5)));
    let mut change = Change::new(tenant(1));
    change.then(
        "INSERT INTO notes (tenant_id, id, body, viewer) VALUES ($1, 1, 'mine', $2), ($1, 2, 'yours', 'user:other')",
        [viewer.to_string().into()],
    );
    store.commit(change).await.unwrap();
    let seen = store.query(&Scope::Viewer { tenant: tenant(1), viewer }, NOTES, vec![]).await.unwrap();
    assert_eq!(texts(&seen), ["mine"]);
    let local = Scope::Viewer { tenant: tenant(1), viewer: Principal::Local(0) };
    assert_eq!(texts(&store.query(&local, NOTES, vec![]).await.unwrap()), [""; 0]);
    assert_eq!(bodies(&store, tenant(1)).await, ["mine", "yours"]);
}

/// A scope lasts for its transaction: the next user of the same connection has none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_scope_does_not_stay_on_a_connection() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    database.open().await;
    let store = Store::open(Options { connections: 1, ..database.options() }).await.unwrap();
    for number in 1..=3 {
        write(&store, tenant(number), 1, &format!("note {number}")).await.unwrap();
    }
    let leaky = "SELECT body FROM notes WHERE tenant_id = $1 OR TRUE ORDER BY id";
    for number in [1, 2, 3, 2, 1] {
        let rows = store.query(&Scope::Tenant(tenant(number)), leaky, vec![]).await.unwrap();
        assert_eq!(texts(&rows), [format!("note {number}")]);
        // Also after a statement that failed in between.
        assert!(store.query(&Scope::Everyone("a test"), "SELECT 1/0", vec![]).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_sees_past_row_policies_does_not_serve() {
    let Some(database) = Database::postgres(&[]).await else { return };
    assert_eq!(database.kind, Kind::Postgres);
    // The role is the cluster's: this test has its own name for a powerful user, and no role to become.
    let role = format!("powerful_{}", database.url.rsplit('_').next().unwrap());
    database
        .execute(&format!("CREATE ROLE {role} LOGIN BYPASSRLS; GRANT ALL ON SCHEMA public TO {role}"))
        .await
        .unwrap();
    let (_, rest) = database.url.split_once('@').unwrap();
    let store = Store::open(Options { migrations: &[], ..Options::new(format!("postgres://{role}@{rest}")) }).await;
    let error = match store {
        Ok(store) => store.ping().await.unwrap_err(),
        Err(error) => error,
    };
    database.execute(&format!("REVOKE ALL ON SCHEMA public FROM {role}; DROP ROLE {role}")).await.unwrap();
    let text = format!("{error:?}");
    assert!(text.contains("bypass") || text.contains("may not act as"), "{text}");
}
