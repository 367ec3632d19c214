//! The Merkle tree of RFC 6962 (RFC 9162 §2.1): hashing, growing, and the root at any size.
//!
//! Only complete subtrees are kept. The node at (level, position) covers the 2^level leaves from position · 2^level
//! on, and never changes once it is there; everything else is computed. Nothing here keeps them.

mod plan;
mod proof;

use sha2::{Digest as _, Sha256};
use toolgate_contracts::Digest;

pub use plan::{Plan, consistency_proof, inclusion_proof, root};

/// Sizes and indexes fit a signed 64-bit column, in every database and every other implementation.
pub const SIZE_MAX: u64 = i64::MAX.unsigned_abs();

/// No tree of at most `SIZE_MAX` leaves has a longer inclusion proof.
pub const PATH_NODES_MAX: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("entry {index} is beyond the {size} entries of the log")]
    Beyond { index: u64, size: u64 },
    #[error("a log of {size} entries does not contain one of {old}")]
    Shrunk { old: u64, size: u64 },
    #[error("the tree has no node at level {}, position {}", .0.level, .0.position)]
    Missing(Place),
    #[error("the proof has too few or too many nodes")]
    Shape,
    #[error("the proof leads to another root")]
    Root,
}

/// RFC 6962: a leaf is hashed with a zero byte before it, so that it can never pass for a node.
pub fn leaf_hash(entry: impl AsRef<[u8]>) -> Digest {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(entry.as_ref());
    Digest::from_bytes(hash.finalize().into())
}

/// The hash of a node from those of its children, with a one byte before them.
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut hash = Sha256::new();
    hash.update([1]);
    hash.update(left.as_bytes());
    hash.update(right.as_bytes());
    Digest::from_bytes(hash.finalize().into())
}

/// The root of a tree without leaves.
pub fn empty_root() -> Digest {
    Digest::of(b"")
}

/// Where a complete subtree stands: it covers the leaves from `position << level` on, `1 << level` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub level: u8,
    pub position: u64,
}

impl Place {
    const fn parent(self) -> Self {
        Self { level: self.level + 1, position: self.position >> 1 }
    }
}

/// A complete subtree, to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub place: Place,
    pub hash: Digest,
}

/// A tree as far as a checkpoint names it. What it contains is shown by proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub size: u64,
    pub root: Digest,
}

/// The right edge of a growing tree: the roots of the complete subtrees it consists of, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    // INVARIANT: one for each bit that is set in `size`.
    peaks: Vec<Digest>,
}

impl Frontier {
    /// The edge of a kept tree. [`Plan::root`] names the nodes that are looked up.
    pub fn load(size: u64, lookup: impl Fn(Place) -> Option<Digest>) -> Result<Self, Error> {
        let found = |place| lookup(place).ok_or(Error::Missing(place));
        Ok(Self { size, peaks: Plan::root(size).nodes().map(found).collect::<Result<_, _>>()? })
    }

    pub const fn size(&self) -> u64 {
        self.size
    }

    pub fn tree(&self) -> Tree {
        Tree { size: self.size, root: bag(&self.peaks) }
    }

    /// Adds a leaf. Returns the subtrees that it completes, all of them to be kept; the first is the leaf itself, which
    /// a store that finds leaves in another way may leave out.
    pub fn append(&mut self, leaf: Digest) -> Vec<Node> {
        let mut node = Node { place: Place { level: 0, position: self.size }, hash: leaf };
        let mut completed = vec![node];
        // Each trailing one bit of the size is a subtree as large as the one just completed: together they are one.
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.peaks.pop() else { break };
            node = Node { place: node.place.parent(), hash: node_hash(&left, &node.hash) };
            completed.push(node);
        }
        self.peaks.push(node.hash);
        self.size += 1;
        completed
    }
}

/// The root over neighbouring complete subtrees, largest first.
fn bag(peaks: &[Digest]) -> Digest {
    let Some((last, before)) = peaks.split_last() else { return empty_root() };
    before.iter().rev().fold(*last, |right, left| node_hash(left, &right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_returns_what_it_completes() {
        let mut frontier = Frontier::default();
        let mut places = Vec::new();
        for leaf in ["a", "b", "c", "d", "e"] {
            places.extend(frontier.append(leaf_hash(leaf)).iter().map(|node| (node.place.level, node.place.position)));
        }
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (2, 0), (0, 4)]);
    }

    #[test]
    fn a_leaf_cannot_pass_for_a_node() {
        let (left, right) = (leaf_hash("left"), leaf_hash("right"));
        let forged = [left.as_bytes().as_slice(), right.as_bytes()].concat();
        assert_ne!(leaf_hash(&forged), node_hash(&left, &right));
        assert_ne!(leaf_hash(""), empty_root());
    }
}
