//! What can be wrong with a log, a checkpoint, a receipt or a proof. Each names the first thing that is.

use crate::checkpoint::Origin;
use crate::{note, tree};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("entry {index} {why}")]
    Entry { index: u64, why: EntryFault },
    #[error("entry {expected} is missing: entry {found} stands in its place")]
    Order { expected: u64, found: u64 },
    #[error("some of the entries from {after} up to {size} are not those that were signed")]
    Changed { after: u64, size: u64 },
    #[error("two different logs of {size} entries were signed")]
    Fork { size: u64 },
    #[error("the log ends after {size} entries, but {kept} were signed")]
    Truncated { kept: u64, size: u64 },
    #[error("no checkpoint was signed, so that nothing proves the entries")]
    Unsigned,
    #[error("a checkpoint of {size} entries comes after one of {before}")]
    CheckpointOrder { before: u64, size: u64 },
    #[error("a checkpoint is not readable: {0}")]
    Checkpoint(&'static str),
    #[error("a checkpoint has no valid signature: {0}")]
    Signature(#[from] note::Error),
    #[error("{0}")]
    Statement(&'static str),
    #[error("{0}")]
    StatementSignature(note::Error),
    #[error("{found} witnesses countersigned a checkpoint, {needed} are demanded")]
    Witnesses { needed: usize, found: usize },
    #[error("the log is `{found}`, not `{expected}`")]
    Origin { expected: Origin, found: Origin },
    #[error("the proof is not readable: {0}")]
    ProofText(&'static str),
    #[error("nothing is proved: {0}")]
    Proof(#[from] tree::Error),
    #[error("the receipt is for entry {receipt}, the proof for entry {proof}")]
    Index { receipt: u64, proof: u64 },
}

/// What is wrong with one entry by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    #[error("has {0} bytes, the limit is {max}", max = crate::ENTRY_BYTES_MAX)]
    TooLarge(usize),
    #[error("is not canonical JSON, so that two readers may read it differently")]
    NotCanonical,
    #[error("does not have the digest that was recorded for it")]
    Digest,
}

impl Broken {
    /// What to do now.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Entry { .. } | Self::Order { .. } | Self::Changed { .. } => {
                "compare with a copy from elsewhere, and keep this one: it is evidence"
            }
            Self::Fork { .. } => {
                "keep both checkpoints: together they prove that the log, or whoever holds its key, told two stories"
            }
            Self::Truncated { .. } => {
                "get the newest export; if it is the newest, entries were removed or an old backup is in use"
            }
            Self::Unsigned => "wait a second for the next checkpoint, or ask for one",
            Self::CheckpointOrder { .. } => "give checkpoints by size, smallest first",
            Self::Checkpoint(_) | Self::Statement(_) | Self::ProofText(_) => {
                "check that the file is whole and unchanged"
            }
            Self::Signature(_) | Self::StatementSignature(_) => {
                "check that the verifier key is this log's, from a source you trust"
            }
            Self::Witnesses { .. } => "wait until enough witnesses have seen it, or ask for fewer",
            Self::Origin { .. } => "use the key and the kept checkpoint of this very log",
            Self::Proof(_) | Self::Index { .. } => {
                "get a new proof for this entry; if it fails too, the entry is not in the log"
            }
        }
    }
}
