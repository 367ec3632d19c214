//! Every proof of small trees and every change to it, random large trees against two other implementations.

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use proptest::prelude::*;
use sha2::Sha256;
use toolgate_contracts::Digest;
use toolgate_ledger::{Frontier, Plan, Tree, leaf_hash, tree};

use crate::world::Nodes;

const SMALL: u64 = 64;
const BITS: usize = 256;

fn leaf(index: u64) -> Digest {
    leaf_hash(index.to_be_bytes())
}

fn nodes(size: u64) -> Nodes {
    Nodes::of((0..size).map(leaf))
}

/// RFC 6962 §2.1, word for word.
mod naive {
    use super::{Digest, tree};

    fn split(leaves: &[Digest]) -> (&[Digest], &[Digest]) {
        let mut k = 1;
        while k * 2 < leaves.len() {
            k *= 2;
        }
        leaves.split_at(k)
    }

    pub fn root(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => tree::empty_root(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = split(leaves);
                tree::node_hash(&root(left), &root(right))
            }
        }
    }

    pub fn inclusion(index: usize, leaves: &[Digest]) -> Vec<Digest> {
        if leaves.len() < 2 {
            return Vec::new();
        }
        let (left, right) = split(leaves);
        let (mut path, sibling) = match index.checked_sub(left.len()) {
            None => (inclusion(index, left), root(right)),
            Some(index) => (inclusion(index, right), root(left)),
        };
        path.push(sibling);
        path
    }

    pub fn consistency(old: usize, leaves: &[Digest], whole: bool) -> Vec<Digest> {
        if old == leaves.len() {
            return if whole { Vec::new() } else { vec![root(leaves)] };
        }
        let (left, right) = split(leaves);
        let (mut path, sibling) = match old.checked_sub(left.len()) {
            None | Some(0) => (consistency(old, left, whole), root(right)),
            Some(old) => (consistency(old, right, false), root(left)),
        };
        path.push(sibling);
        path
    }
}

/// On which side each sibling is hashed. Sizes with equal shapes cannot be told apart by a proof, in any implementation
/// of the RFC: it is the signed checkpoint that binds a root to its size.
fn shape_of_inclusion(index: u64, size: u64) -> Vec<bool> {
    let (mut begin, mut end) = (0, size);
    let mut sides = Vec::new();
    while end - begin > 1 {
        let middle = begin + (end - begin).next_power_of_two() / 2;
        sides.push(index < middle);
        if index < middle { end = middle } else { begin = middle }
    }
    sides
}

fn shape_of_consistency(old: u64, size: u64) -> (bool, Vec<bool>) {
    // The climb begins where the old tree ends in a complete subtree.
    let level = old.trailing_zeros();
    (old.is_power_of_two(), shape_of_inclusion((old >> level) - 1, size.div_ceil(1 << level)))
}

fn flipped(hash: &Digest, bit: usize) -> Digest {
    let mut bytes = *hash.as_bytes();
    bytes[bit / 8] ^= 1 << (bit % 8);
    Digest::from_bytes(bytes)
}

/// All paths that differ from this one in a bit, or in one node that is dropped, doubled, swapped, put before or after.
fn mutations(path: &[Digest]) -> Vec<Vec<Digest>> {
    let mut mutated = vec![[path, &[leaf(0)]].concat(), [&[leaf(0)], path].concat()];
    for index in 0..path.len() {
        for bit in 0..BITS {
            let mut path = path.to_vec();
            path[index] = flipped(&path[index], bit);
            mutated.push(path);
        }
        let mut dropped = path.to_vec();
        dropped.remove(index);
        mutated.push(dropped);
        let mut doubled = path.to_vec();
        doubled.insert(index, path[index]);
        mutated.push(doubled);
        for other in index + 1..path.len() {
            let mut swapped = path.to_vec();
            swapped.swap(index, other);
            mutated.push(swapped);
        }
    }
    mutated
}

#[test]
fn every_inclusion_proof_of_small_trees_verifies_and_no_change_of_it_does() {
    let nodes = nodes(SMALL);
    for size in 1..=SMALL {
        let tree = nodes.tree(size);
        for index in 0..size {
            let (hash, path) = (leaf(index), tree::inclusion_proof(index, size, nodes.lookup()).unwrap());
            assert_eq!(tree.includes(index, &hash, &path), Ok(()), "{index} of {size}");
            for path in mutations(&path) {
                assert!(tree.includes(index, &hash, &path).is_err(), "{index} of {size}");
            }
            for bit in 0..BITS {
                assert!(tree.includes(index, &flipped(&hash, bit), &path).is_err(), "{index} of {size}");
                let other = Tree { size, root: flipped(&tree.root, bit) };
                assert!(other.includes(index, &hash, &path).is_err(), "{index} of {size}");
            }
            for other in (0..SMALL * 2).filter(|other| *other != index) {
                assert!(tree.includes(other, &hash, &path).is_err(), "{index} as {other} of {size}");
                assert!(tree.includes(index, &leaf(other), &path).is_err(), "{other} for {index} of {size}");
            }
            for other in (0..SMALL * 2).filter(|other| *other != size) {
                let accepted = Tree { size: other, root: tree.root }.includes(index, &hash, &path).is_ok();
                let alike = index < other && shape_of_inclusion(index, other) == shape_of_inclusion(index, size);
                assert_eq!(accepted, alike, "{index} of {size} in {other}");
            }
        }
    }
}

#[test]
fn every_consistency_proof_of_small_trees_verifies_and_no_change_of_it_does() {
    let nodes = nodes(SMALL);
    for size in 1..=SMALL {
        let tree = nodes.tree(size);
        for old in 1..=size {
            let (before, path) = (nodes.tree(old), tree::consistency_proof(old, size, nodes.lookup()).unwrap());
            assert_eq!(tree.extends(&before, &path), Ok(()), "{old} to {size}");
            for path in mutations(&path) {
                assert!(tree.extends(&before, &path).is_err(), "{old} to {size}");
            }
            for bit in 0..BITS {
                let other = Tree { size: old, root: flipped(&before.root, bit) };
                assert!(tree.extends(&other, &path).is_err(), "{old} to {size}");
                let other = Tree { size, root: flipped(&tree.root, bit) };
                assert!(other.extends(&before, &path).is_err(), "{old} to {size}");
            }
            let alike = |other_old: u64, other: u64| {
                let proved = |old, size| old > 0 && old < size;
                if !proved(old, size) || !proved(other_old, other) {
                    return old == size && other_old == other;
                }
                shape_of_consistency(other_old, other) == shape_of_consistency(old, size)
            };
            for other in (0..SMALL * 2).filter(|other| *other != size) {
                let accepted = Tree { size: other, root: tree.root }.extends(&before, &path).is_ok();
                assert_eq!(accepted, alike(old, other), "{old} to {size} as {other}");
            }
            for other in (0..SMALL * 2).filter(|other| *other != old) {
                let accepted = tree.extends(&Tree { size: other, root: before.root }, &path).is_ok();
                assert_eq!(accepted, alike(other, size), "{old} as {other} to {size}");
                assert!(tree.extends(&Tree { size: other.clamp(1, SMALL), root: leaf(0) }, &path).is_err() || old == 1);
            }
        }
    }
}

#[test]
fn a_frontier_can_be_loaded_at_every_size() {
    let nodes = nodes(SMALL);
    let mut grown = Frontier::default();
    for size in 0..=SMALL {
        assert_eq!(Frontier::load(size, nodes.lookup()), Ok(grown.clone()), "at {size}");
        grown.append(leaf(size));
    }
    let missing = Plan::root(SMALL - 1).nodes().next().unwrap();
    let lookup = |place| if place == missing { None } else { nodes.lookup()(place) };
    assert_eq!(Frontier::load(SMALL - 1, lookup), Err(tree::Error::Missing(missing)));
}

#[test]
fn a_plan_names_what_is_read() {
    let nodes = nodes(SMALL);
    for size in 1..=SMALL {
        for index in 0..size {
            for plan in [Plan::inclusion(index, size), Plan::consistency(index, size), Ok(Plan::root(size))] {
                let plan = plan.unwrap();
                let named: Vec<_> = plan.nodes().collect();
                assert!(plan.read(|place| nodes.lookup()(place).filter(|_| named.contains(&place))).is_ok());
                for left_out in &named {
                    assert!(plan.read(|place| nodes.lookup()(place).filter(|_| place != *left_out)).is_err());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn large_trees_are_those_of_other_implementations(size in 1_u64..10_000, place in any::<prop::sample::Index>()) {
        let leaves: Vec<Digest> = (0..size).map(leaf).collect();
        let nodes = Nodes::of(leaves.iter().copied());
        let tree = nodes.tree(size);
        let at = place.index(leaves.len());
        let index = at as u64;

        prop_assert_eq!(tree.root, naive::root(&leaves));
        let path = tree::inclusion_proof(index, size, nodes.lookup()).unwrap();
        prop_assert_eq!(&path, &naive::inclusion(at, &leaves));
        prop_assert_eq!(tree.includes(index, &leaves[at], &path), Ok(()));
        prop_assert!(tree.includes(index, &leaf(size), &path).is_err());

        let old = index + 1;
        let steps = tree::consistency_proof(old, size, nodes.lookup()).unwrap();
        prop_assert_eq!(&steps, &naive::consistency(at + 1, &leaves, true));
        let before = nodes.tree(old);
        prop_assert_eq!(before.root, naive::root(&leaves[..=at]));
        prop_assert_eq!(tree.extends(&before, &steps), Ok(()));

        let mut other = MemoryBackedTree::<Sha256, _>::new();
        (0..size).for_each(|index| other.push(index.to_be_bytes()));
        prop_assert_eq!(other.root().as_bytes().to_vec(), tree.root.as_bytes().to_vec());
        let joined = |path: &[Digest]| path.iter().flat_map(|hash| *hash.as_bytes()).collect::<Vec<u8>>();
        prop_assert_eq!(other.prove_inclusion(at).as_bytes().to_vec(), joined(&path));
        if old < size {
            let added = leaves.len() - at - 1;
            prop_assert_eq!(other.prove_consistency(added).as_bytes().to_vec(), joined(&steps));
        }
    }

    #[test]
    fn no_claim_makes_the_verifier_panic(
        index in any::<u64>(), size in any::<u64>(), old in any::<u64>(), length in 0_usize..70,
    ) {
        let path: Vec<Digest> = (0..length as u64).map(leaf).collect();
        let tree = Tree { size, root: leaf(1) };
        prop_assert!(tree.includes(index, &leaf(2), &path).is_err());
        let before = Tree { size: old, root: leaf(3) };
        prop_assert!(tree.extends(&before, &path).is_err());
    }
}
