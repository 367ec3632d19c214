//! Changes of files: begun before they are made, ended once, seen by their tenant alone, the text of old ones let go.

use toolgate_contracts::{CallId, Clock, Digest, Rng, TenantId, Timestamp};
use toolgate_store::files::{EARLIER_KEPT_MAX, NewFileChange};
use toolgate_store::testing::every_store;

use crate::product::Product;

const AT: i64 = 1_794_700_000_000;

fn new_change(entry: &str, minute: i64) -> NewFileChange<'_> {
    NewFileChange {
        call: CallId::new(&Clock::System, &Rng::System),
        entry,
        operation: "set",
        reverts: None,
        changed_by: "local:0",
        before: Digest::of(b"before"),
        after: Digest::of(b"after"),
        difference: "-a\n+b\n",
        earlier: "a: 1\n",
        created_at: Timestamp::from_millis(AT + minute * 60_000),
    }
}

#[tokio::test]
async fn a_change_is_begun_once_and_ended_once() {
    every_store(async |store| {
        let product = Product::with(store, 41).await;
        let (store, tenant) = (&product.store, product.tenant);
        let first = new_change("app", 0);
        store.begin_file_change(tenant, &first).await.unwrap();
        let again = store.begin_file_change(tenant, &first).await.unwrap_err();
        assert!(again.is("file_changes_pkey"), "one call, one change: {again:?}");
        let (found, earlier) = store.file_change(tenant, first.call).await.unwrap().unwrap();
        assert_eq!((found.state.as_str(), earlier.as_deref()), ("begun", Some("a: 1\n")));

        store.end_file_change(tenant, first.call, true).await.unwrap();
        assert!(store.end_file_change(tenant, first.call, false).await.is_err(), "it has ended");
        let second = NewFileChange { reverts: Some(first.call), ..new_change("app", 1) };
        store.begin_file_change(tenant, &second).await.unwrap();
        store.end_file_change(tenant, second.call, false).await.unwrap();
        store.begin_file_change(tenant, &new_change("other", 2)).await.unwrap();

        let found = store.file_changes(tenant, "app", 10).await.unwrap();
        let states: Vec<_> = found.iter().map(|change| (change.call, change.state.as_str(), change.reverts)).collect();
        assert_eq!(states, [(second.call, "failed", Some(first.call)), (first.call, "done", None)]);
        assert_eq!(store.file_changes(tenant, "app", 1).await.unwrap().len(), 1);
        assert_eq!(store.file_changes(TenantId::SYSTEM, "app", 10).await.unwrap(), []);
        assert_eq!(store.file_change(TenantId::SYSTEM, first.call).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn old_changes_keep_their_difference_and_not_the_file() {
    every_store(async |store| {
        let product = Product::with(store, 42).await;
        let (store, tenant) = (&product.store, product.tenant);
        let other = new_change("other", 0);
        store.begin_file_change(tenant, &other).await.unwrap();
        let mut calls = Vec::new();
        for minute in 0..=i64::from(EARLIER_KEPT_MAX) {
            let change = new_change("app", minute);
            store.begin_file_change(tenant, &change).await.unwrap();
            calls.push(change.call);
        }
        let earlier = async |call| store.file_change(tenant, call).await.unwrap().unwrap().1;
        assert_eq!(earlier(calls[0]).await, None);
        assert!(earlier(calls[1]).await.is_some());
        assert!(earlier(other.call).await.is_some(), "each entry has its own");
    })
    .await;
}
