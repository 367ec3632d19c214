//! Signing heads, and the keys that do.
//!
//! The order of a signature: every leaf has its index; everything is on the disk; the new head is proved to contain the
//! one signed before; it is signed; it is kept, once for its size; it is pinned beside the database; it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, json};
use tokio::sync::MutexGuard;
use toolgate_contracts::{Digest, Fault, Id, TenantId, Timestamp};
use toolgate_ledger::{Before, Checkpoint, Head, KeyName, Note, Plan, Signer, Trust, VerifierKey};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::audit::checkpoints::Signed;
use toolgate_vault::{Key, Purpose};

use super::sequencer::NOTE_EVERY;
use super::{Audit, Log, damaged, origin_of, parts_of, trust_of};

/// Who writes the entries about heads.
const ACTOR: &str = "server";
/// Heads signed before, as they come from the database in one page.
const PAGE_CHECKPOINTS: u32 = 500;

pub type VerifierKeys = Vec<VerifierKey>;

/// A head and when it was signed.
#[derive(Clone, Debug)]
pub struct SignedHead {
    pub head: Head,
    pub at: Timestamp,
}

/// The keys of a log, as long as the active one is the same.
pub(super) struct Signing {
    key: Arc<Key>,
    signer: Signer,
    keys: VerifierKeys,
    trust: Trust,
}

impl Audit {
    /// A head that covers every entry committed before, signed now if there is none.
    pub async fn checkpoint(&self, tenant: TenantId) -> Result<Head, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        self.catch_up(tenant, &mut log).await?;
        let head = self.sign(tenant, &mut log).await?;
        if log.noted_at.is_none_or(|at| at.elapsed() >= NOTE_EVERY) {
            self.note_head(tenant, &mut log).await;
        }
        Ok(head)
    }

    /// The newest head that was signed, if one was.
    pub async fn newest(&self, tenant: TenantId) -> Result<Option<Head>, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        self.newest_signed(tenant, &mut log).await
    }

    /// Heads of more than `after` entries, smallest first: a page of them, and after which size it goes on.
    pub async fn heads(
        &self,
        tenant: TenantId,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<SignedHead>, Option<u64>), Fault> {
        let trust = self.trust(tenant).await?;
        let limit = limit.min(PAGE_CHECKPOINTS);
        let signed = self.0.store.checkpoints_after(tenant, after, limit).await?;
        let next = signed.last().filter(|_| signed.len() == limit as usize).map(|last| last.size);
        // Those of the log that a restored database held before are not this log's.
        let own = signed.into_iter().filter(|signed| is_of(&signed.note, &trust));
        let open = |signed: Signed| {
            let head = trust.open(signed.note.as_bytes()).map_err(|broken| damaged(tenant, &broken))?;
            Ok(SignedHead { head, at: signed.at })
        };
        Ok((own.map(open).collect::<Result<_, Fault>>()?, next))
    }

    /// The keys that sign and have signed this log, the newest first.
    pub async fn verifier_keys(&self, tenant: TenantId) -> Result<VerifierKeys, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        Ok(self.signing(tenant, &mut log).await?.keys.clone())
    }

    pub async fn trust(&self, tenant: TenantId) -> Result<Trust, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        Ok(self.signing(tenant, &mut log).await?.trust.clone())
    }

    /// Signs a digest with the key of the log, as its word about something that is no head; and by which key.
    pub async fn state(&self, tenant: TenantId, context: &str, digest: &Digest) -> Result<(Note, VerifierKey), Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        let signing = self.signing(tenant, &mut log).await?;
        let note = toolgate_ledger::statement::sign(&signing.signer, context, digest).map_err(Fault::internal)?;
        Ok((note, signing.signer.verifier().clone()))
    }

    /// The proof that the tree of `to` entries begins with the one of `from`.
    pub async fn consistency(&self, tenant: TenantId, from: u64, to: u64) -> Result<Vec<Digest>, Fault> {
        let size = self.sequence_now(tenant).await?;
        let beyond = |what: &str, number: u64| {
            Fault::invalid(format!("`{what}` is {number}, and the log has {size} entries"), "ask within the log")
                .at(format!("/{what}"))
        };
        if to > size {
            return Err(beyond("to", to));
        }
        if from > to {
            return Err(beyond("from", from));
        }
        self.consistency_proof(tenant, from, to).await
    }

    async fn consistency_proof(&self, tenant: TenantId, from: u64, to: u64) -> Result<Vec<Digest>, Fault> {
        let plan = Plan::consistency(from, to).map_err(Fault::internal)?;
        let nodes = self.0.store.audit_nodes(tenant, plan.nodes()).await?;
        plan.read(|place| nodes.get(&place).copied()).map_err(|error| damaged(tenant, &error))
    }

    pub(super) async fn sign(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) -> Result<Head, Fault> {
        self.check_pin_once(tenant, log).await?;
        loop {
            let progress = self.sequence(tenant, log).await?;
            let before = self.newest_signed(tenant, log).await?;
            if let Some(head) = before.as_ref().filter(|head| head.checkpoint().size >= progress.size) {
                return Ok(head.clone());
            }
            // Every leaf that has an index is on the disk after this.
            if progress.size > 0 && !self.0.store.audit_settle(tenant, progress.size).await? {
                log.grown = None;
                continue;
            }
            let Some((_, frontier)) = &log.grown else { continue };
            let tree = frontier.tree();
            let checkpoint = Checkpoint { origin: self.origin(tenant)?, size: tree.size, root: tree.root };
            let proof = match &before {
                Some(before) => self.consistency_proof(tenant, before.checkpoint().size, tree.size).await?,
                None => Vec::new(),
            };
            let after = before
                .as_ref()
                .map_or(Before::Nothing, |before| Before::Signed { checkpoint: before.checkpoint(), proof: &proof });
            let signing = self.signing(tenant, log).await?;
            let note = checkpoint.sign(after, &signing.signer).map_err(|broken| damaged(tenant, &broken))?;
            let note = note.to_string();
            let head = signing.trust.open(note.as_bytes()).map_err(|broken| damaged(tenant, &broken))?;
            let signed = Signed { size: tree.size, root: tree.root, note, at: self.0.clock.now() };
            if !self.0.store.insert_checkpoint(tenant, &signed).await? {
                // Another replica signed this size: the same head, or nothing is signed here any more.
                let other = self.0.store.checkpoint_of(tenant, tree.size).await?;
                if other.is_some_and(|other| other.root != tree.root || !is_of(&other.note, &signing.trust)) {
                    return Err(damaged(tenant, &format!("another head of {} entries was signed", tree.size)));
                }
                continue;
            }
            self.after_signing(tenant, &head, signed.note).await;
            log.signed_at = Some(tokio::time::Instant::now());
            log.unnoted = Some(head.clone());
            return Ok(head);
        }
    }

    async fn after_signing(&self, tenant: TenantId, head: &Head, note: String) {
        if let Some(pins) = &self.0.pins
            && let Err(fault) = pins.write(tenant, note).await
        {
            tracing::error!("{}", fault.logged().unwrap_or(fault.told()));
        }
        if let Some(publish) = self.0.publish.get() {
            publish(tenant, head);
        }
    }

    async fn check_pin_once(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) -> Result<(), Fault> {
        if log.pin_checked {
            return Ok(());
        }
        if let Some(pins) = &self.0.pins
            && let Some(pinned) = pins.read_one(tenant).await?
        {
            self.check_pin(&pinned).await?;
        }
        log.pin_checked = true;
        Ok(())
    }

    /// Writes the newest head into the system's log, so that a tenant's log that is dropped whole is missed there.
    pub(super) async fn note_head(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) {
        let Some(head) = log.unnoted.take().filter(|_| tenant != TenantId::SYSTEM) else { return };
        let Checkpoint { origin, size, root } = head.checkpoint();
        let details = json!({"log": origin, "size": size, "root": root});
        let entry = Entry {
            id: Id::new(&self.0.clock, &self.0.rng),
            at: self.0.clock.now(),
            tenant: TenantId::SYSTEM,
            actor: ACTOR.to_owned(),
            action: "audit.head".to_owned(),
            object: tenant.to_string(),
            details: details.as_object().cloned().unwrap_or_else(Map::new),
        };
        let mut change = Change::new(TenantId::SYSTEM);
        change.audit(&entry);
        if let Err(error) = self.0.store.commit(change).await {
            tracing::error!("a head of {tenant} is not in the system's log: {error}");
            log.unnoted = Some(head);
        }
        log.noted_at = Some(tokio::time::Instant::now());
    }

    pub(super) async fn newest_signed(
        &self,
        tenant: TenantId,
        log: &mut MutexGuard<'_, Log>,
    ) -> Result<Option<Head>, Fault> {
        let Some(signed) = self.0.store.newest_checkpoint(tenant).await? else { return Ok(None) };
        let signing = self.signing(tenant, log).await?;
        if !is_of(&signed.note, &signing.trust) {
            return Ok(None);
        }
        signing.trust.open(signed.note.as_bytes()).map(Some).map_err(|broken| damaged(tenant, &broken))
    }

    async fn signing<'l>(&self, tenant: TenantId, log: &'l mut MutexGuard<'_, Log>) -> Result<&'l Signing, Fault> {
        let key = self.0.keyring.key(Purpose::Checkpoint, Some(tenant)).await?;
        let known = log.signing.take().filter(|signing| signing.key.kid() == key.kid());
        let signing = match known {
            Some(signing) => signing,
            None => self.open_keys(tenant, key).await?,
        };
        Ok(log.signing.insert(signing))
    }

    async fn open_keys(&self, tenant: TenantId, key: Arc<Key>) -> Result<Signing, Fault> {
        let origin = origin_of(self.0.number.load(Ordering::Acquire), tenant)?;
        let name: KeyName = origin.as_str().parse().map_err(Fault::internal)?;
        let signer = |key: &Key| Signer::from_seed(name.clone(), key.seed());
        let mut keys = vec![signer(&key).verifier().clone()];
        for older in self.0.keyring.all(Purpose::Checkpoint, Some(tenant)).await? {
            let verifier = signer(&older).verifier().clone();
            if !keys.contains(&verifier) {
                keys.push(verifier);
            }
        }
        Ok(Signing { signer: signer(&key), trust: trust_of(origin, &keys), keys, key })
    }
}

/// Whether a note speaks of the log in `trust`. A restored database also holds notes of the log it held before.
fn is_of(note: &str, trust: &Trust) -> bool {
    let named = Note::parse(note.as_bytes()).ok().and_then(|note| Checkpoint::parse(note.unverified_text()).ok());
    // What cannot be read is taken for its own, so that it is refused and not passed over.
    named.is_none_or(|checkpoint| checkpoint.origin == *trust.origin() || parts_of(&checkpoint.origin).is_none())
}
