//! Verifying proofs, step by step as RFC 9162 §2.1.3.2 and §2.1.4.2 have it.
//!
//! A proof says nothing about the size: trees of several sizes can have the same shape left of an entry. What binds
//! a size to a root is the signature of the checkpoint that names both.

use toolgate_contracts::Digest;

use super::{Error, Tree, empty_root, node_hash};

impl Tree {
    /// Verifies that the leaf at `index` of this tree is `leaf`.
    pub fn includes(&self, index: u64, leaf: &Digest, path: &[Digest]) -> Result<(), Error> {
        let Self { size, root } = *self;
        if index >= size {
            return Err(Error::Beyond { index, size });
        }
        let mut climb = Climb { node: index, last: size - 1 };
        let mut hash = *leaf;
        for sibling in path {
            hash = match climb.step()? {
                Side::Left => node_hash(sibling, &hash),
                Side::Right => node_hash(&hash, sibling),
            };
        }
        climb.end()?;
        if hash == root { Ok(()) } else { Err(Error::Root) }
    }

    /// Verifies that this tree is `old` with leaves added, or `old` itself.
    pub fn extends(&self, old: &Self, path: &[Digest]) -> Result<(), Error> {
        let Self { size, root } = *self;
        if old.size > size {
            return Err(Error::Shrunk { old: old.size, size });
        }
        if old.size == 0 || old.size == size {
            // The RFC leaves both out. Nothing needs to be proved, so nothing may be given.
            let expected = if old.size == 0 { empty_root() } else { root };
            return match path {
                [] if old.root == expected => Ok(()),
                [] => Err(Error::Root),
                _ => Err(Error::Shape),
            };
        }
        let mut climb = Climb { node: old.size - 1, last: size - 1 };
        while climb.node & 1 == 1 {
            climb.up();
        }
        // An old tree that is one complete subtree is itself where the climb begins; the proof leaves it out.
        let (start, rest) = match path.split_first() {
            Some(_) if old.size.is_power_of_two() => (old.root, path),
            Some((first, rest)) => (*first, rest),
            None => return Err(Error::Shape),
        };
        let (mut was, mut is) = (start, start);
        for sibling in rest {
            match climb.step()? {
                Side::Left => {
                    was = node_hash(sibling, &was);
                    is = node_hash(sibling, &is);
                }
                Side::Right => is = node_hash(&is, sibling),
            }
        }
        climb.end()?;
        if was == old.root && is == root { Ok(()) } else { Err(Error::Root) }
    }
}

/// On which side of the node the next sibling stands.
enum Side {
    Left,
    Right,
}

/// The way from a node to the root: its position and that of the last node, level by level (`fn` and `sn` in the RFC).
struct Climb {
    node: u64,
    last: u64,
}

impl Climb {
    const fn up(&mut self) {
        self.node >>= 1;
        self.last >>= 1;
    }

    fn step(&mut self) -> Result<Side, Error> {
        if self.last == 0 {
            return Err(Error::Shape);
        }
        let side = if self.node & 1 == 1 || self.node == self.last {
            // The last node of a level without a sibling is the same one level higher.
            while self.node & 1 == 0 && self.node != 0 {
                self.up();
            }
            Side::Left
        } else {
            Side::Right
        };
        self.up();
        Ok(side)
    }

    const fn end(&self) -> Result<(), Error> {
        if self.last == 0 { Ok(()) } else { Err(Error::Shape) }
    }
}
