//! A log in memory: entries, kept nodes and signed checkpoints, as a store would have them.

use std::collections::HashMap;

use toolgate_contracts::Digest;
use toolgate_ledger::{
    Before, Broken, Checkpoint, Cosigner, Exported, Frontier, Head, Node, Note, Origin, Place, Signer, Summary, Trust,
    Verifier, VerifierKey, leaf_hash, tree,
};

pub const ORIGIN: &str = "gate.example/audit/acme";

pub fn origin() -> Origin {
    ORIGIN.parse().unwrap()
}

pub fn signer() -> Signer {
    Signer::from_seed(ORIGIN.parse().unwrap(), &[1; 32])
}

pub fn witness(number: u8) -> Cosigner {
    Cosigner::from_seed(format!("witness.example/w{number}").parse().unwrap(), &[100 + number; 32])
}

pub fn trust() -> Trust {
    trust_of(vec![signer().verifier().clone()])
}

pub fn trust_of(keys: Vec<VerifierKey>) -> Trust {
    Trust::new(origin(), keys)
}

pub fn text(index: u64) -> String {
    format!(r#"{{"action":"tool.enable","actor":"user:ada","object":"tool:{index}","v":1}}"#)
}

/// Kept nodes, of leaves that are different from each other.
#[derive(Clone, Default)]
pub struct Nodes {
    pub frontier: Frontier,
    kept: HashMap<Place, Digest>,
}

impl Nodes {
    pub fn of(leaves: impl IntoIterator<Item = Digest>) -> Self {
        let mut nodes = Self::default();
        leaves.into_iter().for_each(|leaf| nodes.append(leaf));
        nodes
    }

    pub fn append(&mut self, leaf: Digest) {
        for Node { place, hash } in self.frontier.append(leaf) {
            assert_eq!(self.kept.insert(place, hash), None, "a node never changes");
        }
    }

    pub fn lookup(&self) -> impl Fn(Place) -> Option<Digest> + '_ {
        |place| self.kept.get(&place).copied()
    }

    pub fn root(&self, size: u64) -> Digest {
        tree::root(size, self.lookup()).unwrap()
    }

    pub fn tree(&self, size: u64) -> tree::Tree {
        tree::Tree { size, root: self.root(size) }
    }
}

/// A log with its export.
#[derive(Clone, Default)]
pub struct Log {
    pub nodes: Nodes,
    pub entries: Vec<Exported>,
    pub notes: Vec<Vec<u8>>,
    last: Option<Checkpoint>,
}

impl Log {
    /// A log of `size` entries with a checkpoint at each of `signed`.
    pub fn new(size: u64, signed: &[u64]) -> Self {
        let mut log = Self::default();
        for index in 0..=size {
            if signed.contains(&index) {
                log.checkpoint();
            }
            if index < size {
                log.append(&text(index));
            }
        }
        log
    }

    pub fn append(&mut self, text: &str) {
        let index = self.nodes.frontier.size();
        self.nodes.append(leaf_hash(text));
        self.entries.push(Exported { index, text: text.to_owned(), digest: None });
    }

    pub fn checkpoint(&mut self) -> Head {
        let note = self.sign(self.current()).unwrap().to_string().into_bytes();
        self.last = Some(self.current());
        self.notes.push(note.clone());
        trust().open(&note).unwrap()
    }

    pub fn current(&self) -> Checkpoint {
        self.at(self.nodes.frontier.size())
    }

    pub fn at(&self, size: u64) -> Checkpoint {
        Checkpoint { origin: origin(), size, root: self.nodes.root(size) }
    }

    /// Signs as the sequencer does: after what was signed last.
    pub fn sign(&self, next: Checkpoint) -> Result<Note, Broken> {
        let Some(last) = &self.last else { return next.sign(Before::Nothing, &signer()) };
        let proof = tree::consistency_proof(last.size, next.size, self.nodes.lookup()).unwrap_or_default();
        next.sign(Before::Signed { checkpoint: last, proof: &proof }, &signer())
    }

    pub fn verify(&self, verifier: Verifier) -> Result<Summary, Broken> {
        verifier.run(self.entries.iter().cloned().map(Ok), self.notes.iter().cloned().map(Ok))
    }
}
