//! Receipts, and proofs that an entry is in the log.

use toolgate_contracts::{Fault, FaultKind, LeafId, TenantId};
use toolgate_ledger::{Head, Plan, Proof, Receipt};
use toolgate_store::audit::reading::{Leaf, Placed};

use super::{Audit, damaged};

/// Which entry is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// By its id; that of a call's outcome is the call's own.
    Leaf(LeafId),
    Index(u64),
}

/// An entry, its receipt, and the proof that makes it checkable without this server.
#[derive(Clone, Debug)]
pub struct Proved {
    pub receipt: Receipt,
    /// The canonical text whose hash is the receipt's digest.
    pub entry: String,
    pub proof: Proof,
    pub head: Head,
}

impl Audit {
    /// That an entry is recorded; its index is absent until the sequencer has given one.
    pub async fn receipt(&self, tenant: TenantId, leaf: LeafId) -> Result<Receipt, Fault> {
        let found = self.0.store.leaf(tenant, leaf).await?.ok_or_else(|| no_entry(Which::Leaf(leaf)))?;
        Ok(Receipt { entry_digest: found.digest, log: self.origin(tenant)?, index: found.index })
    }

    /// Proves an entry against the newest head, or against a new one where it is not yet covered.
    pub async fn prove(&self, tenant: TenantId, which: Which) -> Result<Proved, Fault> {
        let log = self.log(tenant);
        let mut log = log.lock().await;
        let size = self.catch_up(tenant, &mut log).await?.size;
        let (index, text, digest) = match which {
            Which::Leaf(id) => match self.0.store.leaf(tenant, id).await? {
                Some(Leaf { index: Some(index), text, digest, .. }) => (index, text, digest),
                // Committed while another transaction was open; it has its index in a moment.
                Some(_) => return Err(not_yet()),
                None => return Err(no_entry(which)),
            },
            Which::Index(index) if index < size => {
                let found = self.0.store.entries_from(tenant, index, index + 1, 1).await?;
                let Some(Placed { text, digest, .. }) = found.into_iter().next() else {
                    return Err(damaged(tenant, &format!("entry {index} is gone")));
                };
                (index, text, digest)
            }
            Which::Index(_) => return Err(no_entry(which)),
        };
        let newest = self.newest_signed(tenant, &mut log).await?;
        let head = match newest.filter(|head| head.checkpoint().size > index) {
            Some(head) => head,
            None => self.sign(tenant, &mut log).await?,
        };
        let tree = head.checkpoint().tree();
        let plan = Plan::inclusion(index, tree.size).map_err(|error| damaged(tenant, &error))?;
        let nodes = self.0.store.audit_nodes(tenant, plan.nodes()).await?;
        let path = plan.read(|place| nodes.get(&place).copied()).map_err(|error| damaged(tenant, &error))?;
        // What would not convince others is not handed out.
        if toolgate_ledger::leaf_hash(&text) != digest {
            return Err(damaged(tenant, &format!("entry {index} does not have its digest")));
        }
        tree.includes(index, &digest, &path).map_err(|error| damaged(tenant, &error))?;
        let receipt = Receipt { entry_digest: digest, log: head.checkpoint().origin.clone(), index: Some(index) };
        Ok(Proved { receipt, entry: text, proof: Proof::new(index, path, &head), head })
    }
}

fn no_entry(which: Which) -> Fault {
    let told = match which {
        Which::Leaf(id) => format!("the log has no entry `{id}`"),
        Which::Index(index) => format!("the log has no entry {index}"),
    };
    Fault::new(FaultKind::NotFound, told, "list what there is with `toolgate audit list`")
}

fn not_yet() -> Fault {
    Fault::new(FaultKind::Unavailable, "the entry has no index yet", "ask again in a second")
}
