//! The server's keys: one of each, the same for all replicas, and none without the right master key.

use std::sync::Arc;

use toolgate_contracts::{Clock, Fault, Rng, TenantId, Timestamp};
use toolgate_store::server_keys::{KeyState, WrappedKey};
use toolgate_store::testing::{Database, every_migrated, every_store};
use toolgate_store::{Change, Store};
use toolgate_vault::{Keyring, MasterKey, Purpose};

fn master(number: u8) -> MasterKey {
    MasterKey::parse(&format!("{number:02x}").repeat(32)).unwrap()
}

async fn open_with(store: &Store, now: u8, previous: Option<u8>) -> Result<Keyring, Fault> {
    let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
    Keyring::open(store.clone(), master(now), previous.map(master), clock, Rng::System).await
}

async fn open(store: &Store) -> Keyring {
    open_with(store, 1, None).await.unwrap()
}

fn tenant() -> TenantId {
    TenantId::new(&Clock::System, &Rng::System)
}

#[tokio::test]
async fn a_key_is_made_once_and_read_by_everyone() {
    every_store(async |store| {
        let (one, other) = (open(&store).await, open(&store).await);
        let acme = tenant();
        assert!(one.loaded(Purpose::Tenant, Some(acme)).is_none());
        let key = one.key(Purpose::Tenant, Some(acme)).await.unwrap();
        let loaded = one.loaded(Purpose::Tenant, Some(acme)).unwrap();
        assert!(Arc::ptr_eq(&key, &loaded), "the second time it comes from memory");
        for keyring in [&other, &open(&store).await] {
            let same = keyring.key(Purpose::Tenant, Some(acme)).await.unwrap();
            assert_eq!((same.kid(), same.seed()), (key.kid(), key.seed()));
        }
        assert_eq!(format!("{key:?}"), format!("Key({})", key.kid()));

        let mut seeds = vec![*key.seed()];
        for (purpose, tenant) in [
            (Purpose::Tenant, Some(tenant())),
            (Purpose::Tenant, None),
            (Purpose::Tenant, Some(TenantId::SYSTEM)),
            (Purpose::DataKey, Some(acme)),
            (Purpose::Seal, None),
        ] {
            seeds.push(*one.key(purpose, tenant).await.unwrap().seed());
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6, "no two purposes or tenants share a key");
    })
    .await;
}

#[tokio::test]
async fn replicas_that_make_a_key_at_once_end_with_one() {
    every_store(async |store| {
        let acme = tenant();
        for slot in [(Purpose::Seal, None), (Purpose::Tenant, Some(acme))] {
            let mut racing = tokio::task::JoinSet::new();
            for _ in 0..6 {
                let keyring = open(&store).await;
                racing.spawn(async move { keyring.key(slot.0, slot.1).await.unwrap() });
            }
            let keys = racing.join_all().await;
            assert!(keys.iter().all(|key| key.seed() == keys[0].seed()));
            assert_eq!(store.server_keys_of(slot.0.as_str(), slot.1).await.unwrap().len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn the_database_keeps_one_active_key() {
    every_store(async |store| {
        let acme = tenant();
        for (tenant, rule) in [(None, "server_keys_active_global"), (Some(acme), "server_keys_active")] {
            let insert = async |kid: &str, state| {
                let key = WrappedKey {
                    kind: "webhook".into(),
                    kid: format!("{kid}{rule}"),
                    tenant,
                    wrapped: vec![1],
                    state,
                    created_at: Timestamp::from_millis(1),
                };
                let mut change = Change::new(acme);
                change.insert_server_key(&key);
                store.commit(change).await.map(drop)
            };
            insert("a", KeyState::Active).await.unwrap();
            insert("b", KeyState::Retiring).await.unwrap();
            insert("c", KeyState::Retiring).await.unwrap();
            let error = insert("d", KeyState::Active).await.unwrap_err();
            assert!(error.is(rule), "{error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_still_verifies_what_it_made() {
    every_store(async |store| {
        let (one, other) = (open(&store).await, open(&store).await);
        let first = one.key(Purpose::Token, None).await.unwrap();
        other.key(Purpose::Token, None).await.unwrap();
        let second = one.rotate(Purpose::Token, None).await.unwrap();
        assert_ne!(first.seed(), second.seed());
        assert_eq!(one.loaded(Purpose::Token, None).unwrap().kid(), second.kid());

        assert_eq!(other.loaded(Purpose::Token, None).unwrap().kid(), first.kid(), "it has not looked yet");
        let found = other.by_kid(Purpose::Token, None, second.kid()).await.unwrap().unwrap();
        assert_eq!(found.seed(), second.seed(), "an unknown id makes it look");
        let kids: Vec<_> =
            other.all(Purpose::Token, None).await.unwrap().iter().map(|key| key.kid().to_owned()).collect();
        assert_eq!(kids, [second.kid(), first.kid()], "the active one first");
        assert_eq!(other.loaded(Purpose::Token, None).unwrap().kid(), second.kid());
        assert!(other.by_kid(Purpose::Token, None, "unknown").await.unwrap().is_none());

        let third = other.rotate(Purpose::Token, None).await.unwrap();
        one.refresh().await.unwrap();
        assert_eq!(one.loaded(Purpose::Token, None).unwrap().kid(), third.kid());
        let fresh = one.rotate(Purpose::Webhook, Some(tenant())).await.unwrap();
        assert_ne!(fresh.kid(), third.kid(), "rotating what is not there makes it");
    })
    .await;
}

#[tokio::test]
async fn another_master_key_opens_nothing() {
    every_store(async |store| {
        open(&store).await;
        let fault = open_with(&store, 2, None).await.err().unwrap();
        assert_eq!(fault.told(), "this database was made with another master key");
        assert!(fault.remedy().contains("master.key"), "{}", fault.remedy());
        open(&store).await;
    })
    .await;
}

#[tokio::test]
async fn a_wrapped_key_opens_only_where_it_was_put() {
    every_migrated(async |database: &Database| {
        let store = database.open().await;
        let keyring = open(&store).await;
        keyring.key(Purpose::Webhook, None).await.unwrap();
        keyring.key(Purpose::Token, None).await.unwrap();
        for (forgery, undo) in [
            ("SET kind = 'seal' WHERE kind = 'token'", "SET kind = 'token' WHERE kind = 'seal'"),
            ("SET kid = kid || 'x' WHERE kind = 'token'", "SET kid = substr(kid, 1, 16) WHERE kind = 'token'"),
        ] {
            database.execute(&format!("UPDATE server_keys {forgery}")).await.unwrap();
            let fault = open_with(&store, 1, None).await.err().expect(forgery);
            assert!(fault.told().starts_with("1 of 3 server keys"), "{forgery}: {}", fault.told());
            assert!(keyring.refresh().await.is_err());
            database.execute(&format!("UPDATE server_keys {undo}")).await.unwrap();
        }
        open(&store).await;
    })
    .await;
}

#[tokio::test]
async fn all_keys_move_to_a_new_master_key() {
    every_store(async |store| {
        let keyring = open(&store).await;
        let acme = tenant();
        let first = keyring.key(Purpose::Tenant, Some(acme)).await.unwrap();
        keyring.rotate(Purpose::Tenant, Some(acme)).await.unwrap();
        assert_eq!(keyring.rewrap(master(2)).await.unwrap(), 3);
        assert_eq!(keyring.rewrap(master(2)).await.unwrap(), 0, "nothing is left to do");
        keyring.key(Purpose::Seal, None).await.unwrap();

        assert!(open_with(&store, 1, None).await.is_err());
        let after = open_with(&store, 2, None).await.unwrap();
        let found = after.by_kid(Purpose::Tenant, Some(acme), first.kid()).await.unwrap().unwrap();
        assert_eq!(found.seed(), first.seed());
    })
    .await;
}

/// Cut after each row in turn: what is left opens with both keys and with neither alone, and the work can be finished.
#[tokio::test]
async fn a_change_of_the_master_key_may_be_cut_short_anywhere() {
    every_store(async |store| {
        let keyring = open(&store).await;
        let mut seeds = Vec::new();
        for purpose in [Purpose::Seal, Purpose::Token, Purpose::Webhook] {
            seeds.push(*keyring.key(purpose, None).await.unwrap().seed());
        }
        let before = store.server_keys().await.unwrap();
        keyring.rewrap(master(2)).await.unwrap();
        let after = store.server_keys().await.unwrap();
        assert_eq!((before.len(), after.len()), (4, 4));
        // Back to before, then forth one row at a time.
        for (old, new) in before.iter().zip(&after) {
            let mut change = Change::new(TenantId::SYSTEM);
            change.rewrap_server_key(new, old.wrapped.clone());
            store.commit(change).await.unwrap();
        }
        for done in 1..4 {
            let mut change = Change::new(TenantId::SYSTEM);
            change.rewrap_server_key(&before[done - 1], after[done - 1].wrapped.clone());
            store.commit(change).await.unwrap();
            for alone in [1, 2] {
                let fault = open_with(&store, alone, None).await.err().expect("half of the keys are closed");
                assert!(fault.told().contains("of 4 server keys are wrapped by another"), "{}", fault.told());
                assert!(fault.remedy().contains("previous"), "{}", fault.remedy());
            }
            for (now, previous) in [(1, 2), (2, 1)] {
                let both = open_with(&store, now, Some(previous)).await.unwrap();
                assert_eq!(both.key(Purpose::Seal, None).await.unwrap().seed(), &seeds[0]);
            }
        }
        let resumed = open_with(&store, 2, Some(1)).await.unwrap();
        assert_eq!(resumed.rewrap(master(2)).await.unwrap(), 1);
        let finished = open_with(&store, 2, None).await.unwrap();
        assert_eq!(finished.key(Purpose::Webhook, None).await.unwrap().seed(), &seeds[2]);
    })
    .await;
}

/// Both replicas have both keys, as the documentation says; a key made while the other rewraps is not lost.
#[tokio::test]
async fn keys_are_made_while_the_master_key_changes() {
    every_store(async |store| {
        open(&store).await;
        let (one, other) = (open_with(&store, 2, Some(1)).await.unwrap(), open_with(&store, 2, Some(1)).await.unwrap());
        let making = async {
            for _ in 0..10 {
                other.key(Purpose::Tenant, Some(tenant())).await.unwrap();
            }
        };
        let (rewrapped, ()) = tokio::join!(one.rewrap(master(2)), making);
        assert_eq!(rewrapped.unwrap(), 1, "only the check was under the old one");
        let after = open_with(&store, 2, None).await.unwrap();
        assert_eq!(store.server_keys().await.unwrap().len(), 11);
        after.refresh().await.unwrap();
    })
    .await;
}
