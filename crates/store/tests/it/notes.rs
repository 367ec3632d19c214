//! Lines of notebooks: numbered without gaps whoever writes, one for each call, seen by their tenant alone.

use std::collections::BTreeSet;

use toolgate_contracts::{CallId, Clock, Rng, TenantId, Timestamp};
use toolgate_store::MIGRATIONS;
use toolgate_store::notes::{NewNote, Note};
use toolgate_store::testing::{every_database, every_store};

use crate::product::Product;

const AT: Timestamp = Timestamp::from_millis(1_794_700_000_000);

fn new_call() -> CallId {
    CallId::new(&Clock::System, &Rng::System)
}

#[tokio::test]
async fn lines_are_numbered_in_each_notebook_and_found_by_their_call() {
    every_store(async |store| {
        let product = Product::with(store, 31).await;
        let (store, tenant) = (&product.store, product.tenant);
        let calls = [new_call(), new_call(), new_call()];
        for (call, notebook, expected) in [(calls[0], "main", 1), (calls[1], "main", 2), (calls[2], "other", 1)] {
            let note = NewNote { notebook, text: "a line\nof two", call, created_at: AT };
            assert_eq!(store.append_note(tenant, &note).await.unwrap(), expected, "{notebook}");
        }
        let found = store.note_of_call(tenant, calls[1]).await.unwrap();
        let text = "a line\nof two".to_owned();
        assert_eq!(found, Some(Note { notebook: "main".to_owned(), line: 2, text, created_at: AT }));
        assert_eq!(store.note_of_call(tenant, new_call()).await.unwrap(), None);
        assert_eq!(store.note_of_call(TenantId::SYSTEM, calls[1]).await.unwrap(), None, "another tenant's");

        let again = NewNote { notebook: "third", text: "x", call: calls[0], created_at: AT };
        let refused = store.append_note(tenant, &again).await.unwrap_err();
        assert!(refused.is("notes_call"), "one call, one line: {refused:?}");
    })
    .await;
}

#[tokio::test]
async fn replicas_that_write_at_once_neither_share_nor_skip_a_number() {
    every_database(MIGRATIONS, async |database| {
        let product = Product::with(database.open().await, 32).await;
        let tenant = product.tenant;
        let other = match product.store.kind() {
            toolgate_store::Kind::Postgres => database.open().await,
            // One process owns the file.
            toolgate_store::Kind::Sqlite => product.store.clone(),
        };
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..24 {
            let store = if number % 2 == 0 { product.store.clone() } else { other.clone() };
            tasks.spawn(async move {
                let note = NewNote { notebook: "main", text: "x", call: new_call(), created_at: AT };
                store.append_note(tenant, &note).await.unwrap()
            });
        }
        let lines: BTreeSet<u32> = tasks.join_all().await.into_iter().collect();
        assert_eq!(lines, (1..=24).collect());
    })
    .await;
}
