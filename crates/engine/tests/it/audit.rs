//! The log as a service, on both databases: whatever is committed when, and whoever sequences, there is one tree.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Clock, FaultKind, Id, LeafId, Rng, TenantId, Timestamp};
use toolgate_engine::audit::{Audit, Sequencer, Which};
use toolgate_ledger::tree::Tree;
use toolgate_ledger::{Frontier, Plan, Proof, leaf_hash};
use toolgate_store::audit::Entry;
use toolgate_store::people::Tenant;
use toolgate_store::testing::{Database, every_migrated};
use toolgate_store::{Change, Durability, MIGRATIONS, Store};
use toolgate_vault::{Keyring, MasterKey};

const MASTER: &str = "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a";

/// One process on a database.
struct World {
    store: Store,
    audit: Audit,
    clock: Clock,
    rng: Rng,
    folder: TempDir,
}

impl World {
    async fn open(store: Store) -> Self {
        Self::in_folder(store, TempDir::new().unwrap()).await
    }

    async fn in_folder(store: Store, folder: TempDir) -> Self {
        let (clock, rng) = (Clock::System, Rng::System);
        let master = MasterKey::parse(MASTER).unwrap();
        if store.tenants().await.unwrap().is_empty() {
            insert_tenant(&store, TenantId::SYSTEM, "system").await;
        }
        let keyring = Keyring::open(store.clone(), master, None, clock.clone(), rng.clone()).await.unwrap();
        let audit = Audit::open(store.clone(), keyring, Some(folder.path()), clock.clone(), rng.clone()).await.unwrap();
        Self { store, audit, clock, rng, folder }
    }

    async fn tenant(&self) -> TenantId {
        let tenant = TenantId::new(&self.clock, &self.rng);
        insert_tenant(&self.store, tenant, &format!("t{:016x}", u64::from_be_bytes(self.rng.bytes()))).await;
        tenant
    }

    fn entry(&self, tenant: TenantId, what: &str) -> Entry {
        Entry {
            id: Id::new(&self.clock, &self.rng),
            at: Timestamp::from_millis(1_794_700_000_000),
            tenant,
            actor: "user:x".into(),
            action: "test.done".into(),
            object: what.into(),
            details: Map::new(),
        }
    }

    /// Commits `leaves` entries in one change.
    async fn commit(&self, tenant: TenantId, leaves: usize) -> Vec<LeafId> {
        let mut change = Change::new(tenant).durability(Durability::Process);
        let entries: Vec<_> = (0..leaves).map(|n| self.entry(tenant, &n.to_string())).collect();
        for entry in &entries {
            change.audit(entry);
        }
        self.store.commit(change).await.unwrap();
        entries.iter().map(|entry| entry.id).collect()
    }

    /// The tree that the ledger grows from the entries' own texts; every leaf is in it once.
    async fn oracle(&self, tenant: TenantId, committed: &[LeafId]) -> Tree {
        let entries = self.store.entries_from(tenant, 0, 1 << 40, 1 << 30).await.unwrap();
        let ids: BTreeSet<_> = entries.iter().map(|entry| entry.id).collect();
        assert!(ids == committed.iter().copied().collect(), "{} of {} leaves", ids.len(), committed.len());
        let mut frontier = Frontier::default();
        for (expected, entry) in entries.iter().enumerate() {
            assert_eq!(entry.index, expected as u64);
            frontier.append(leaf_hash(&entry.text));
        }
        assert_eq!(frontier.size(), committed.len() as u64);
        frontier.tree()
    }

    async fn check(&self, tenant: TenantId, committed: &[LeafId]) {
        let tree = {
            let head = self.audit.checkpoint(tenant).await.unwrap();
            let tree = self.oracle(tenant, committed).await;
            assert_eq!(head.checkpoint().tree(), tree);
            tree
        };
        // Nodes are computed from what is kept: every size has the root that it had.
        let mut frontier = Frontier::default();
        let entries = self.store.entries_from(tenant, 0, tree.size, 1 << 30).await.unwrap();
        for entry in &entries {
            frontier.append(leaf_hash(&entry.text));
            let size = frontier.size();
            if size % 37 == 1 || size == tree.size {
                let nodes = self.store.audit_nodes(tenant, Plan::root(size).nodes()).await.unwrap();
                let root = toolgate_ledger::tree::root(size, |place| nodes.get(&place).copied());
                assert_eq!(root, Ok(frontier.tree().root), "{size} of {}", tree.size);
                let proof = self.audit.consistency(tenant, size, tree.size).await.unwrap();
                tree.extends(&frontier.tree(), &proof).unwrap();
            }
        }
        let (heads, _) = self.audit.heads(tenant, 0, 500).await.unwrap();
        for pair in heads.windows(2) {
            let (old, new) = (pair[0].head.checkpoint(), pair[1].head.checkpoint());
            let proof = self.audit.consistency(tenant, old.size, new.size).await.unwrap();
            new.follows(old, &proof).unwrap();
        }
    }
}

async fn insert_tenant(store: &Store, id: TenantId, slug: &str) {
    let mut change = Change::new(id);
    let tenant = json!({"id": id, "slug": slug, "name": slug, "currency": "USD", "open_write": false,
        "limits": {}, "settings": {}, "policy_revision": 0, "created_at": "2026-11-15T10:00:00.000Z"});
    change.insert_tenant(&serde_json::from_value::<Tenant>(tenant).unwrap());
    store.commit(change).await.unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Commit(usize),
    CommitAtOnce(Vec<usize>),
    Sequence,
    Checkpoint,
    /// Begins to sequence and gives up after so many polls.
    GiveUp(usize),
    /// Forgets everything that is in memory.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_usize..40).prop_map(Step::Commit),
        1 => (200_usize..400).prop_map(Step::Commit),
        2 => prop::collection::vec(1_usize..5, 1..12).prop_map(Step::CommitAtOnce),
        3 => Just(Step::Sequence),
        2 => Just(Step::Checkpoint),
        3 => (0_usize..6).prop_map(Step::GiveUp),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..14)
}

/// Polls a future so many times and drops it.
async fn give_up<F: Future>(future: F, polls: usize) {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 || future.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
    .await;
}

#[test]
fn any_order_of_commits_and_rounds_makes_one_tree() {
    let runtime = runtime();
    runtime.block_on(every_migrated(async |database: &Database| {
        let store = database.open().await;
        // The strategy's runner is not async: it asks for one case after the other.
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<Vec<Step>>();
        let cases = std::thread::spawn(move || {
            let mut runner = TestRunner::new(Config { cases: 16, failure_persistence: None, ..Config::default() });
            runner.run(&steps(), |steps| ask.send(steps).map_err(|_| TestCaseError::fail("nobody asks"))).unwrap();
        });
        while let Some(steps) = asked.recv().await {
            eprintln!("{steps:?}");
            let mut world = World::open(store.clone()).await;
            let tenant = world.tenant().await;
            let mut committed = Vec::new();
            for step in steps {
                match step {
                    Step::Commit(leaves) => committed.extend(world.commit(tenant, leaves).await),
                    Step::CommitAtOnce(changes) => {
                        let all = changes.into_iter().map(|leaves| world.commit(tenant, leaves));
                        committed.extend(futures_util::future::join_all(all).await.concat());
                    }
                    Step::Sequence => drop(world.audit.sequence_now(tenant).await.unwrap()),
                    Step::Checkpoint => drop(world.audit.checkpoint(tenant).await.unwrap()),
                    Step::GiveUp(polls) => give_up(world.audit.checkpoint(tenant), polls).await,
                    Step::Restart => world = World::in_folder(store.clone(), world.folder).await,
                }
            }
            world.check(tenant, &committed).await;
        }
        cases.join().unwrap();
    }));
}

#[test]
fn two_sequencers_never_both_win() {
    runtime().block_on(every_migrated(async |database: &Database| {
        let one = World::open(database.open().await).await;
        // Another process on PostgreSQL; SQLite has one, with two sequencers in it.
        let other = match database.folder() {
            Some(_) => one.store.clone(),
            None => database.open().await,
        };
        let two = World::open(other).await;
        let tenant = one.tenant().await;
        let stop = CancellationToken::new();
        let sequence = async |world: &World| {
            while !stop.is_cancelled() {
                world.audit.sequence_now(tenant).await.unwrap();
                world.audit.checkpoint(tenant).await.unwrap();
            }
        };
        let commit = async {
            let mut committed = Vec::new();
            for round in 0..30 {
                let all =
                    (0..6).map(|n| if (round + n) % 2 == 0 { &one } else { &two }).map(|world| world.commit(tenant, 3));
                committed.extend(futures_util::future::join_all(all).await.concat());
            }
            stop.cancel();
            committed
        };
        let (committed, (), ()) = tokio::join!(commit, sequence(&one), sequence(&two));
        one.check(tenant, &committed).await;
        two.check(tenant, &committed).await;
        assert_eq!(
            one.audit.checkpoint(tenant).await.unwrap().note().to_string(),
            two.audit.checkpoint(tenant).await.unwrap().note().to_string()
        );
    }));
}

#[test]
fn the_background_signs_what_is_committed_and_notes_it_in_the_systems_log() {
    runtime().block_on(every_migrated(async |database: &Database| {
        let world = World::open(database.open().await).await;
        let (told, mut heads) = tokio::sync::mpsc::unbounded_channel();
        world.audit.on_checkpoint(move |tenant, head| told.send((tenant, head.checkpoint().size)).unwrap());
        let tenants = [world.tenant().await, world.tenant().await];
        let stop = CancellationToken::new();
        let running = tokio::spawn(Sequencer::new(world.audit.clone()).run(stop.clone()));
        let mut committed = Vec::new();
        for tenant in tenants {
            committed.push(world.commit(tenant, 5).await);
        }
        world.audit.wake();
        let mut signed = BTreeSet::new();
        while !tenants.iter().all(|tenant| signed.contains(&(*tenant, 5))) {
            signed.insert(heads.recv().await.unwrap());
        }
        stop.cancel();
        running.await.unwrap();
        for (tenant, committed) in tenants.iter().zip(&committed) {
            world.oracle(*tenant, committed).await;
            let pin = world.folder.path().join(format!("audit/heads/{tenant}.checkpoint"));
            let newest = world.audit.newest(*tenant).await.unwrap().unwrap();
            assert_eq!(std::fs::read_to_string(pin).unwrap(), newest.note().to_string());
        }
        // The system's log holds both heads, and its own head covers them.
        let system = world.store.entries_from(TenantId::SYSTEM, 0, 1000, 1000).await.unwrap();
        let noted: Vec<serde_json::Value> =
            system.iter().map(|entry| serde_json::from_str(&entry.text).unwrap()).collect();
        for tenant in tenants {
            assert!(
                noted.iter().any(|entry| entry["action"] == "audit.head"
                    && entry["object"] == json!(tenant)
                    && entry["details"]["size"] == 5),
                "{noted:?}"
            );
        }
        let head = world.audit.newest(TenantId::SYSTEM).await.unwrap().unwrap();
        assert_eq!(head.checkpoint().size, system.len() as u64);
    }));
}

#[test]
fn a_replica_that_holds_no_lease_leaves_the_log_to_the_one_that_does() {
    runtime().block_on(async {
        let Some(database) = Database::postgres(MIGRATIONS).await else { return };
        let (one, two) = (World::open(database.open().await).await, World::open(database.open().await).await);
        let tenant = one.tenant().await;
        one.commit(tenant, 1).await;
        let (first, second) = (Sequencer::new(one.audit.clone()), Sequencer::new(two.audit.clone()));
        // Until no transaction of somebody else in the cluster is older.
        while one.store.audit_progress(tenant).await.unwrap().size < 1 {
            first.round().await.unwrap();
        }
        one.commit(tenant, 1).await;
        second.round().await.unwrap();
        assert_eq!(one.store.audit_progress(tenant).await.unwrap().size, 1);
        // Given back at the end, it is taken by the other.
        let stop = CancellationToken::new();
        stop.cancel();
        first.run(stop).await;
        one.commit(tenant, 1).await;
        while one.store.audit_progress(tenant).await.unwrap().size < 3 {
            second.round().await.unwrap();
        }
    });
}

#[test]
fn a_receipt_has_its_index_once_it_is_sequenced_and_its_proof_convinces_others() {
    runtime().block_on(every_migrated(async |database: &Database| {
        let world = World::open(database.open().await).await;
        let tenant = world.tenant().await;
        let ids = world.commit(tenant, 300).await;
        let receipt = world.audit.receipt(tenant, ids[7]).await.unwrap();
        assert_eq!(receipt.index, None);
        let trust = world.audit.trust(tenant).await.unwrap();
        for which in [Which::Leaf(ids[7]), Which::Leaf(ids[299]), Which::Index(0), Which::Index(299)] {
            let proved = world.audit.prove(tenant, which).await.unwrap();
            assert!(proved.receipt.is_for(&proved.entry));
            let text = proved.proof.to_string();
            proved.receipt.verify(&Proof::parse(text.as_bytes()).unwrap(), &trust).unwrap();
        }
        assert!(world.audit.receipt(tenant, ids[7]).await.unwrap().index.is_some());
        for which in [Which::Index(300), Which::Leaf(Id::new(&world.clock, &world.rng))] {
            assert_eq!(world.audit.prove(tenant, which).await.unwrap_err().kind(), FaultKind::NotFound);
        }
        // Another tenant's entry is no entry.
        let other = world.tenant().await;
        assert_eq!(world.audit.prove(other, Which::Leaf(ids[7])).await.unwrap_err().kind(), FaultKind::NotFound);
    }));
}

#[test]
fn an_older_database_is_refused_until_somebody_says_that_it_was_meant() {
    runtime().block_on(async {
        let folder = TempDir::new().unwrap();
        let open = async |name: &str| {
            let url = format!("sqlite://{}", folder.path().join(name).display());
            let store = Store::open(toolgate_store::Options::new(url)).await.unwrap();
            store.migrate().await.unwrap();
            store
        };
        let store = open("toolgate.db").await;
        let world = World::open(store.clone()).await;
        let tenant = world.tenant().await;
        let mut committed = world.commit(tenant, 3).await;
        world.audit.checkpoint(tenant).await.unwrap();
        store.backup(&folder.path().join("older.db")).await.unwrap();
        world.commit(tenant, 3).await;
        let lost = world.audit.checkpoint(tenant).await.unwrap();
        world.audit.check_pins().await.unwrap();
        let origin = world.audit.origin(tenant).unwrap();
        let pins = world.folder;

        let world = World::in_folder(open("older.db").await, pins).await;
        let refused = world.audit.check_pins().await.unwrap_err();
        assert!(refused.told().contains("6 were signed") && refused.remedy().contains("accept-restore"), "{refused:?}");
        committed.extend(world.commit(tenant, 3).await);
        // Neither is anything signed: the same size would have two heads.
        assert_eq!(world.audit.checkpoint(tenant).await.unwrap_err().kind(), FaultKind::Conflict);

        // Large enough, it is still another log.
        let refused = {
            world.audit.sequence_now(tenant).await.unwrap();
            world.audit.check_pins().await.unwrap_err()
        };
        assert!(refused.told().contains("not the one that was signed"), "{refused:?}");

        assert_eq!(world.audit.pinned().await.unwrap()[0].checkpoint, *lost.checkpoint());
        world.audit.begin_new_log().await.unwrap();
        world.audit.check_pins().await.unwrap();
        assert_ne!(world.audit.origin(tenant).unwrap(), origin);
        world.check(tenant, &committed).await;
        // A replica whose folder still has a head of the log before goes on.
        std::fs::write(world.folder.path().join(format!("audit/heads/{tenant}.checkpoint")), lost.note().to_string())
            .unwrap();
        World::in_folder(world.store.clone(), world.folder).await.audit.check_pins().await.unwrap();
    });
}

#[test]
fn a_database_of_another_log_is_refused() {
    runtime().block_on(async {
        let (one, two) = (Database::sqlite(MIGRATIONS).unwrap(), Database::sqlite(MIGRATIONS).unwrap());
        let world = World::open(one.open().await).await;
        let tenant = world.tenant().await;
        world.commit(tenant, 1).await;
        world.audit.checkpoint(tenant).await.unwrap();
        let world = World::in_folder(two.open().await, world.folder).await;
        let refused = world.audit.check_pins().await.unwrap_err();
        assert!(refused.told().contains("is a head of the log"), "{refused:?}");
    });
}
