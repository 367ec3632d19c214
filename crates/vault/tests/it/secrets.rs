//! Secrets on both databases: which one is found, that it opens nowhere else, and that rotation may be cut anywhere.

use toolgate_contracts::secret::VALUE_BYTES_MAX;
use toolgate_contracts::{
    Clock, Fault, Principal, ResolvedSecret, Rng, SecretAllowed, SecretPlace, SecretScope, TenantId, Timestamp, UserId,
    WorkspaceId,
};
use toolgate_store::server_keys::KeyState;
use toolgate_store::testing::{Database, every_migrated, every_store, tenant};
use toolgate_store::{Change, Kind, Store};
use toolgate_vault::{Keyring, MasterKey, NewValue, Purpose, Reach, Secret, Stored, Vault};

struct World {
    store: Store,
    keyring: Keyring,
    vault: Vault,
    clock: Clock,
    acme: TenantId,
    other: TenantId,
    ada: UserId,
    team: WorkspaceId,
}

impl World {
    async fn open(store: Store) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
        let rng = Rng::System;
        let master = MasterKey::parse(&"01".repeat(32)).unwrap();
        let keyring = Keyring::open(store.clone(), master, None, clock.clone(), rng.clone()).await.unwrap();
        let (acme, other) = (TenantId::new(&clock, &rng), TenantId::new(&clock, &rng));
        for (id, slug) in [(acme, "acme"), (other, "other")] {
            let mut change = Change::new(id);
            change.insert_tenant(&tenant(id, slug, clock.now()));
            store.commit(change).await.unwrap();
        }
        let vault = Vault::new(store.clone(), keyring.clone(), clock.clone(), rng.clone());
        let (ada, team) = (UserId::new(&clock, &rng), WorkspaceId::new(&clock, &rng));
        Self { store, keyring, vault, clock, acme, other, ada, team }
    }

    /// Another process on the same database.
    async fn replica(&self) -> Vault {
        let master = MasterKey::parse(&"01".repeat(32)).unwrap();
        let keyring = Keyring::open(self.store.clone(), master, None, self.clock.clone(), Rng::System).await.unwrap();
        Vault::new(self.store.clone(), keyring, self.clock.clone(), Rng::System)
    }

    async fn try_put(&self, tenant: TenantId, place: SecretPlace, name: &str, value: &str) -> Result<Stored, Fault> {
        let secret = Secret::new(name, value.as_bytes().to_vec());
        let new = NewValue { place, secret: &secret, allowed: None, by: "user:ada" };
        self.vault.put(tenant, new, |_| Change::new(tenant)).await
    }

    async fn put(&self, tenant: TenantId, place: SecretPlace, name: &str, value: &str) -> ResolvedSecret {
        let info = self.try_put(tenant, place, name, value).await.unwrap().info;
        ResolvedSecret { name: info.name, scope: info.scope, scope_id: info.scope_id, version: info.version }
    }

    fn places(&self) -> [SecretPlace; 3] {
        [SecretPlace::user(self.ada), SecretPlace::workspace(self.team), SecretPlace::org(self.acme)]
    }

    fn reach(&self) -> Reach {
        Reach { tenant: self.acme, principal: Some(Principal::User(self.ada)), workspace: Some(self.team) }
    }

    /// The value that this reach has, and from where.
    async fn value(&self, reach: Reach, name: &str) -> Option<(SecretScope, String)> {
        let sealed = self.vault.resolve(reach, &[name]).await.unwrap().pop()?;
        let secret = self.vault.open(reach.tenant, &sealed).await.unwrap();
        Some((sealed.found.scope, secret.expose_text().unwrap().to_owned()))
    }
}

#[tokio::test]
async fn the_nearest_place_wins_and_nobody_else_s_is_found() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [user, team, org] = world.places();
        for (place, value) in [(org, "of the org"), (team, "of the team"), (user, "of the user")] {
            world.put(world.acme, place, "KEY", value).await;
        }
        world.put(world.acme, org, "ONLY_ORG", "of the org alone").await;
        let whole = world.reach();
        let somebody = UserId::new(&world.clock, &Rng::System);
        let elsewhere = WorkspaceId::new(&world.clock, &Rng::System);
        for (reach, expected) in [
            (whole, Some((SecretScope::User, "of the user"))),
            // An agent without a user.
            (Reach { principal: None, ..whole }, Some((SecretScope::Workspace, "of the team"))),
            (
                Reach { principal: Some(Principal::User(somebody)), ..whole },
                Some((SecretScope::Workspace, "of the team")),
            ),
            (Reach { principal: Some(Principal::Local(1000)), ..whole }, Some((SecretScope::Workspace, "of the team"))),
            (Reach { principal: None, workspace: Some(elsewhere), ..whole }, Some((SecretScope::Org, "of the org"))),
            (Reach { principal: None, workspace: None, ..whole }, Some((SecretScope::Org, "of the org"))),
            (Reach { tenant: world.other, ..whole }, None),
        ] {
            let found = world.value(reach, "KEY").await;
            assert_eq!(found.as_ref().map(|(scope, value)| (*scope, value.as_str())), expected, "{reach:?}");
        }
        assert_eq!(world.value(whole, "ONLY_ORG").await.unwrap().0, SecretScope::Org);
        assert_eq!(world.value(whole, "key").await, None, "names are as they are spelled");
        let found = world.vault.resolve(whole, &["ONLY_ORG", "NONE", "KEY"]).await.unwrap();
        let names: Vec<&str> = found.iter().map(|sealed| sealed.found.name.as_str()).collect();
        assert_eq!(names, ["ONLY_ORG", "KEY"], "in the order of the question");

        let listed = world.store.secrets(world.acme).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.scope)).collect();
        let expected = ["user", "workspace", "org", "org"].map(|scope| scope.parse::<SecretScope>().unwrap());
        assert_eq!(listed.iter().map(|(_, scope)| *scope).collect::<Vec<_>>(), expected);
        assert_eq!(listed.last().unwrap().0, "ONLY_ORG");
        assert!(world.store.secrets(world.other).await.unwrap().is_empty());
    })
    .await;
}

/// Test 43 of the rules: what a grant was given for is this version and no other.
#[tokio::test]
async fn a_version_never_comes_twice() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        let first = world.put(world.acme, org, "KEY", "first value").await;
        let second = world.put(world.acme, org, "KEY", "second value").await;
        assert_eq!((first.version, second.version), (1, 2));
        assert!(world.vault.at_version(world.acme, &first).await.unwrap().is_none(), "the old value is gone");
        assert!(world.vault.at_version(world.acme, &second).await.unwrap().is_some());

        let mut change = Change::new(world.acme);
        change.delete_secret(org, "KEY");
        world.store.commit(change).await.unwrap();
        assert!(world.vault.at_version(world.acme, &second).await.unwrap().is_none());
        assert!(world.store.secrets(world.acme).await.unwrap().is_empty());
        let mut change = Change::new(world.acme);
        change.delete_secret(org, "KEY");
        assert!(world.store.commit(change).await.is_err(), "there is nothing to take away");
        assert_eq!(world.put(world.acme, org, "KEY", "third value").await.version, 3);
    })
    .await;
}

#[tokio::test]
async fn many_who_put_at_once_leave_one_whole_value() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        let values: Vec<String> = (0..4).map(|number| format!("value number {number}")).collect();
        let putting = |number: usize| Box::pin(world.try_put(world.acme, org, "KEY", &values[number]));
        let (first, second, third, fourth) = tokio::join!(putting(0), putting(1), putting(2), putting(3));
        let put = [first, second, third, fourth];
        let done = put.iter().filter(|put| put.is_ok()).count();
        let sealed = world.vault.resolve(world.reach(), &["KEY"]).await.unwrap().pop().unwrap();
        assert_eq!(usize::try_from(sealed.found.version).unwrap(), done);
        let secret = world.vault.open(world.acme, &sealed).await.unwrap();
        assert!(values.iter().any(|value| value.as_bytes() == secret.expose()));
    })
    .await;
}

/// Test 36 of the rules.
#[tokio::test]
async fn a_row_moved_to_another_tenant_place_name_version_or_key_does_not_open() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [user, team, org] = world.places();
        let found = world.put(world.acme, team, "KEY", "the one value").await;
        world.put(world.other, SecretPlace::org(world.other), "KEY", "the neighbour's").await;
        let there = world.vault.find(world.acme, team, "KEY").await.unwrap().unwrap();
        assert!(world.vault.open(world.acme, &there).await.is_ok());
        let somewhere = WorkspaceId::new(&world.clock, &Rng::System);
        let neighbours = world.keyring.key(Purpose::DataKey, Some(world.other)).await.unwrap();
        let rotated = world.vault.rotate(world.acme).await.unwrap().kid;
        let moved = |change: fn(&mut ResolvedSecret, SecretPlace), place: SecretPlace| {
            let mut there = there.clone();
            change(&mut there.found, place);
            there
        };
        let to = |found: &mut ResolvedSecret, place: SecretPlace| {
            (found.scope, found.scope_id) = (place.scope, place.id);
        };
        let mut other_key = there.clone();
        other_key.key_id = rotated;
        let mut neighbours_key = there.clone();
        neighbours_key.key_id = neighbours.kid().to_owned();
        let mut bent = there.clone();
        bent.ciphertext[20] ^= 1;
        for (what, tenant, row) in [
            ("tenant", world.other, there.clone()),
            ("user", world.acme, moved(to, user)),
            ("org", world.acme, moved(to, org)),
            ("workspace", world.acme, moved(to, SecretPlace::workspace(somewhere))),
            ("same id, other scope", world.acme, moved(|found, _| found.scope = SecretScope::User, team)),
            ("name", world.acme, moved(|found, _| found.name.push('2'), team)),
            ("version", world.acme, moved(|found, _| found.version += 1, team)),
            ("key", world.acme, other_key),
            ("neighbour's key", world.acme, neighbours_key),
            ("a bit", world.acme, bent),
        ] {
            let fault = world.vault.open(tenant, &row).await.expect_err(what);
            assert!(!format!("{fault:?}").contains("the one value"));
        }
        assert_eq!(world.vault.at_version(world.acme, &found).await.unwrap().unwrap(), there);
    })
    .await;
}

#[tokio::test]
async fn a_value_that_cannot_be_kept_is_refused_without_a_word_of_it() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        for (name, value) in [
            ("KEY", ""),
            ("KEY", "   \n"),
            ("KEY", &"sentinel".repeat(VALUE_BYTES_MAX)),
            ("A B", "sentinel value"),
            ("", "sentinel value"),
        ] {
            let fault = world.try_put(world.acme, org, name, value).await.unwrap_err();
            assert!(!format!("{fault:?}").contains("sentinel"), "{fault:?}");
        }
        let short = world.try_put(world.acme, org, "PIN", "1234567").await.unwrap();
        assert!(short.warnings[0].contains("fewer than 8 bytes"), "{:?}", short.warnings);
        let long = world.try_put(world.acme, org, "LONG", "12345678").await.unwrap();
        assert!(!long.warnings.iter().any(|warning| warning.contains("bytes")), "{:?}", long.warnings);
    })
    .await;
}

#[tokio::test]
async fn who_may_have_a_secret_stays_unless_it_is_said_anew() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        let mail: SecretAllowed = serde_json::from_str(r#"{"tools": ["mail"], "hosts": ["mail.test"]}"#).unwrap();
        let put = async |allowed| {
            let secret = Secret::new("KEY", b"some value".to_vec());
            let new = NewValue { place: org, secret: &secret, allowed, by: "user:ada" };
            world.vault.put(world.acme, new, |_| Change::new(world.acme)).await.unwrap().info.allowed
        };
        assert_eq!(put(None).await, SecretAllowed::default(), "nobody");
        assert_eq!(put(Some(mail.clone())).await, mail);
        assert_eq!(put(None).await, mail);
        let sealed = world.vault.find(world.acme, org, "KEY").await.unwrap().unwrap();
        let none = SecretAllowed::default();
        world.vault.allow(world.acme, &sealed, &none, Change::new(world.acme)).await.unwrap();
        let after = world.vault.find(world.acme, org, "KEY").await.unwrap().unwrap();
        assert_eq!((after.allowed, after.found.version), (none, 3));
        let secret = world.vault.open(world.acme, &sealed).await.unwrap();
        assert!(secret.may_go_to("mail.test") && !secret.may_go_to("evil.test"));
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_has_not_heard_of_a_rotation_puts_under_the_new_key() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        world.put(world.acme, org, "KEY", "before").await;
        let other = world.replica().await;
        let rotated = other.rotate_deep(world.acme).await.unwrap();
        assert_eq!((rotated.resealed, rotated.ended), (1, 1));
        // The key that this one still has in memory is ended.
        world.put(world.acme, org, "OTHER", "after it all").await;
        let sealed = world.vault.find(world.acme, org, "OTHER").await.unwrap().unwrap();
        assert_eq!(sealed.key_id, rotated.kid);
        assert_eq!(world.value(world.reach(), "KEY").await.unwrap().1, "before");
        assert_eq!(world.value(world.reach(), "OTHER").await.unwrap().1, "after it all");
    })
    .await;
}

/// After `left` more writes every further one fails, as if the process had ended there.
async fn light_fuse(database: &Database, left: i64) {
    let tables = ["secrets", "server_keys"];
    if left < 0 {
        database.execute("UPDATE fuse SET n = 1000000").await.unwrap();
        return;
    }
    if database.execute("SELECT n FROM fuse").await.is_ok() {
        database.execute(&format!("UPDATE fuse SET n = {left}")).await.unwrap();
        return;
    }
    database.execute("CREATE TABLE fuse (n BIGINT)").await.unwrap();
    database.execute(&format!("INSERT INTO fuse VALUES ({left})")).await.unwrap();
    if database.kind == Kind::Postgres {
        database.execute("GRANT ALL ON fuse TO toolgate_app").await.unwrap();
        let blow = "CREATE FUNCTION blow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT n FROM fuse) = 0 THEN RAISE EXCEPTION 'the process ended'; END IF;
            UPDATE fuse SET n = n - 1; RETURN NEW; END $$";
        database.execute(blow).await.unwrap();
    }
    for table in tables {
        for when in ["INSERT", "UPDATE"] {
            let trigger = match database.kind {
                Kind::Postgres => format!(
                    "CREATE TRIGGER fuse_{table}_{when} BEFORE {when} ON {table} FOR EACH ROW EXECUTE FUNCTION blow()"
                ),
                Kind::Sqlite => format!(
                    "CREATE TRIGGER fuse_{table}_{when} BEFORE {when} ON {table} BEGIN
                     SELECT RAISE(ABORT, 'the process ended') WHERE (SELECT n FROM fuse) = 0;
                     UPDATE fuse SET n = n - 1; END"
                ),
            };
            database.execute(&trigger).await.unwrap();
        }
    }
}

/// A rotation that ends at any of its writes leaves every value readable, and the next one finishes it.
#[tokio::test]
async fn a_deep_rotation_may_be_cut_short_anywhere() {
    every_migrated(async |database: &Database| {
        let world = World::open(database.open().await).await;
        let [user, team, org] = world.places();
        let kept = [(user, "A"), (team, "A"), (org, "A"), (org, "B")];
        for (place, name) in kept {
            world.put(world.acme, place, name, &format!("value of {name} in {}", place.scope)).await;
        }
        world.put(world.other, SecretPlace::org(world.other), "A", "the neighbour's value").await;
        let neighbours = world.keyring.key(Purpose::DataKey, Some(world.other)).await.unwrap();
        let all_open = async |step: i64| {
            let vault = world.replica().await;
            for (place, name) in kept {
                let sealed = vault.find(world.acme, place, name).await.unwrap().unwrap();
                let secret = vault.open(world.acme, &sealed).await.unwrap_or_else(|fault| panic!("{step}: {fault:?}"));
                assert_eq!(secret.expose_text().unwrap(), format!("value of {name} in {}", place.scope));
                assert_eq!(sealed.found.version, 1, "the same value is the same version");
            }
        };
        let mut cuts = 0;
        for step in 0.. {
            light_fuse(database, step).await;
            let done = world.replica().await.rotate_deep(world.acme).await;
            all_open(step).await;
            light_fuse(database, -1).await;
            if done.is_ok() {
                break;
            }
            cuts += 1;
            let finished = world.replica().await.rotate_deep(world.acme).await.unwrap();
            all_open(step).await;
            assert!(world.store.secrets_not_under(world.acme, &finished.kid, 10).await.unwrap().is_empty());
            let keys = world.store.server_keys_of("data_key", Some(world.acme)).await.unwrap();
            let good = keys.iter().filter(|key| key.state != KeyState::Retired).count();
            assert_eq!(good, 1, "step {step}: nothing is left under an older key");
        }
        // Rotation of the key (2), four values (2 each), the end of the old key.
        assert_eq!(cuts, 11);
        let after = world.keyring.all(Purpose::DataKey, Some(world.other)).await.unwrap();
        assert_eq!(after[0].kid(), neighbours.kid(), "the neighbour's key is as it was");
    })
    .await;
}

#[tokio::test]
async fn a_shallow_rotation_seals_what_comes_and_leaves_what_is_there() {
    every_store(async |store| {
        let world = World::open(store).await;
        let [_, _, org] = world.places();
        world.put(world.acme, org, "OLD", "from before").await;
        let kid = world.vault.rotate(world.acme).await.unwrap().kid;
        world.put(world.acme, org, "NEW", "from after").await;
        let key_of = async |name| world.vault.find(world.acme, org, name).await.unwrap().unwrap().key_id;
        assert_ne!(key_of("OLD").await, kid);
        assert_eq!(key_of("NEW").await, kid);
        assert_eq!(world.value(world.reach(), "OLD").await.unwrap().1, "from before");
        let deep = world.vault.rotate_deep(world.acme).await.unwrap();
        assert_eq!((deep.kid.as_str(), deep.resealed, deep.ended), (kid.as_str(), 1, 1), "it goes on with that key");
    })
    .await;
}

#[tokio::test]
async fn a_key_that_stepped_back_ends_when_what_it_signed_has_run_out() {
    every_store(async |store| {
        let world = World::open(store).await;
        let first = world.keyring.key(Purpose::Token, None).await.unwrap();
        let log = world.keyring.key(Purpose::Checkpoint, Some(world.acme)).await.unwrap();
        world.clock.advance(24 * 60 * 60);
        world.keyring.rotate_kind(Purpose::Token, world.acme).await.unwrap();
        world.keyring.rotate_kind(Purpose::Checkpoint, world.acme).await.unwrap();
        assert_eq!(world.keyring.end_expired().await.unwrap(), 0, "it signed until a moment ago");
        world.clock.advance(16 * 60);
        assert_eq!(world.keyring.end_expired().await.unwrap(), 0);
        assert!(world.keyring.by_kid(Purpose::Token, None, first.kid()).await.unwrap().is_some());
        world.clock.advance(5 * 60);
        assert_eq!(world.keyring.end_expired().await.unwrap(), 1);
        assert_eq!(world.keyring.end_expired().await.unwrap(), 0);
        world.keyring.refresh().await.unwrap();
        assert!(world.keyring.by_kid(Purpose::Token, None, first.kid()).await.unwrap().is_none());
        world.clock.advance(400 * 24 * 60 * 60);
        world.keyring.end_expired().await.unwrap();
        let kept = world.keyring.by_kid(Purpose::Checkpoint, Some(world.acme), log.kid()).await.unwrap();
        assert!(kept.is_some(), "the log's keys are needed for as long as the log");

        let now = world.keyring.key(Purpose::Token, None).await.unwrap();
        let replaced = world.keyring.replace(Purpose::Token, None).await.unwrap();
        assert_ne!(now.kid(), replaced.kid());
        assert!(world.keyring.by_kid(Purpose::Token, None, now.kid()).await.unwrap().is_none(), "at once");
        for purpose in [Purpose::Check, Purpose::Tenant] {
            assert!(world.keyring.rotate_kind(purpose, world.acme).await.is_err());
        }
        let listed = world.keyring.list().await.unwrap();
        assert!(listed.iter().any(|key| key.kid == first.kid() && key.state == KeyState::Retired));
    })
    .await;
}
