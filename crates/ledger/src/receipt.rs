//! Receipts: what a caller is given for an entry, and the proof that makes one checkable without the log.
//!
//! A proof is a `c2sp.org/tlog-proof@v1` text: index, path and signed checkpoint. Its `extra` line is not covered by
//! any signature; we write none, and what others write there is never used.

use std::fmt;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use toolgate_contracts::Digest;

use crate::broken::Broken;
use crate::checkpoint::{Head, Origin, Trust};
use crate::note::{NOTE_BYTES_MAX, Note};
use crate::spelling;
use crate::tree::{PATH_NODES_MAX, leaf_hash};

/// A whole checkpoint, a path, and as much again for an `extra` line.
pub const PROOF_BYTES_MAX: usize = 2 * NOTE_BYTES_MAX;

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// That an entry is recorded. Its index is `null` until the sequencer has given one, within a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The hash of the leaf: SHA-256 over a zero byte and the entry's canonical text.
    pub entry_digest: Digest,
    pub log: Origin,
    pub index: Option<u64>,
}

impl Receipt {
    /// Whether this is the receipt of an entry with this text.
    pub fn is_for(&self, entry: &str) -> bool {
        self.entry_digest == leaf_hash(entry)
    }

    /// Verifies that the entry is in the log, as far as those in `trust` say.
    pub fn verify(&self, proof: &Proof, trust: &Trust) -> Result<Head, Broken> {
        let Self { entry_digest, log, index } = self;
        if log != trust.origin() {
            return Err(Broken::Origin { expected: trust.origin().clone(), found: log.clone() });
        }
        if let Some(receipt) = index.filter(|index| *index != proof.index) {
            return Err(Broken::Index { receipt, proof: proof.index });
        }
        proof.verify(entry_digest, trust)
    }
}

/// Where an entry stands under a signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    index: u64,
    path: Vec<Digest>,
    checkpoint: Note,
    extra: Option<Vec<u8>>,
}

impl Proof {
    pub fn new(index: u64, path: Vec<Digest>, head: &Head) -> Self {
        Self { index, path, checkpoint: head.note().clone(), extra: None }
    }

    pub const fn index(&self) -> u64 {
        self.index
    }

    /// What somebody put into the `extra` line. Anybody can have changed it.
    pub fn unauthenticated_extra(&self) -> Option<&[u8]> {
        self.extra.as_deref()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, Broken> {
        let broken = Broken::ProofText;
        if bytes.len() > PROOF_BYTES_MAX {
            return Err(broken("it is too large"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| broken("it is not UTF-8"))?;
        let (head, checkpoint) = text.split_once("\n\n").ok_or(broken("it has no empty line"))?;
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(HEADER) {
            return Err(broken("its first line is not `c2sp.org/tlog-proof@v1`"));
        }
        let extra = match lines.next_if(|line| line.starts_with("extra ")) {
            Some(line) => Some(decode_extra(line).ok_or(broken("its extra line is not base64"))?),
            None => None,
        };
        let index = lines.next().and_then(|line| line.strip_prefix("index ")).and_then(spelling::decimal);
        let index = index.ok_or(broken("it has no index"))?;
        let mut path = Vec::new();
        for line in lines {
            if path.len() == PATH_NODES_MAX {
                return Err(broken("its path is too long"));
            }
            path.push(spelling::hash(line).ok_or(broken("a line of its path is not a hash"))?);
        }
        Ok(Self { index, path, checkpoint: Note::parse(checkpoint.as_bytes())?, extra })
    }

    /// Verifies that the entry with this leaf hash is in the log, as far as those in `trust` say.
    pub fn verify(&self, leaf: &Digest, trust: &Trust) -> Result<Head, Broken> {
        let Self { index, path, checkpoint, extra: _ } = self;
        let head = trust.accept(checkpoint.clone())?;
        head.checkpoint().tree().includes(*index, leaf, path)?;
        Ok(head)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, path, checkpoint, extra } = self;
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = extra {
            writeln!(f, "extra {}", BASE64.encode(extra))?;
        }
        writeln!(f, "index {index}")?;
        for hash in path {
            writeln!(f, "{}", spelling::base64(hash.as_bytes()))?;
        }
        write!(f, "\n{checkpoint}")
    }
}

fn decode_extra(line: &str) -> Option<Vec<u8>> {
    let encoded = line.strip_prefix("extra ").filter(|encoded| !encoded.is_empty())?;
    BASE64.decode(encoded.as_bytes()).ok()
}
