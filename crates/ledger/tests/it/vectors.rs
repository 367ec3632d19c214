//! Vectors of Certificate Transparency's reference tests, as transparency-dev/merkle has them (`proof/verify_test.go`,
//! from which its `testdata` is generated), and the same corruptions of them that must be refused.

use toolgate_contracts::Digest;
use toolgate_ledger::{Tree, leaf_hash, tree};

use crate::world::Nodes;

const LEAVES: [&[u8]; 8] = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
];

const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

const A: &str = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
const B: &str = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const CD: &str = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const AB: &str = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125";
const E: &str = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const EF: &str = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const G: &str = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f";
const GH: &str = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";
const ABCD: &str = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7";
const EFGH: &str = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";
const SOME: &str = "abacaba000000000000000000000000000000000000000000060061e00123456";

/// Index, size, path.
const INCLUSION: [(u64, u64, &[&str]); 5] =
    [(0, 1, &[]), (0, 8, &[B, CD, EFGH]), (5, 8, &[E, GH, ABCD]), (2, 3, &[AB]), (1, 5, &[A, CD, E])];

/// Old size, size, path.
const CONSISTENCY: [(u64, u64, &[&str]); 5] =
    [(1, 1, &[]), (1, 8, &[B, CD, EFGH]), (6, 8, &[EF, GH, ABCD]), (2, 5, &[CD, E]), (6, 7, &[EF, G, ABCD])];

fn hash(text: &str) -> Digest {
    text.parse().unwrap()
}

fn hashes(texts: &[&str]) -> Vec<Digest> {
    texts.iter().map(|text| hash(text)).collect()
}

fn at(size: u64) -> Tree {
    Tree { size, root: hash(ROOTS[usize::try_from(size).unwrap()]) }
}

fn nodes() -> Nodes {
    Nodes::of(LEAVES.map(leaf_hash))
}

/// What is wrong with a path in any case: nodes too many, too few, changed.
fn corruptions(path: &[Digest], roots: &[Digest]) -> Vec<Vec<Digest>> {
    let mut corrupt = Vec::new();
    for extra in roots.iter().chain(path.first()).chain(&[hash(SOME)]) {
        corrupt.push([path, &[*extra]].concat());
        corrupt.push([&[*extra], path].concat());
    }
    for index in 0..path.len() {
        let mut without = path.to_vec();
        without.remove(index);
        corrupt.push(without);
        for bit in [0x08, 0x10] {
            let mut flipped = path.to_vec();
            let mut bytes = *flipped[index].as_bytes();
            bytes[0] ^= bit;
            flipped[index] = Digest::from_bytes(bytes);
            corrupt.push(flipped);
        }
    }
    if path.len() > 1 {
        let mut inserted = path.to_vec();
        inserted.insert(1, hash(SOME));
        corrupt.push(inserted);
        let mut turned = path.to_vec();
        turned.reverse();
        corrupt.push(turned);
    }
    corrupt
}

#[test]
fn the_roots_are_those_of_certificate_transparency() {
    let nodes = nodes();
    for (size, root) in (0..).zip(ROOTS) {
        assert_eq!(nodes.root(size), hash(root), "of {size} leaves");
    }
    assert_eq!(nodes.frontier.tree(), at(8));
    assert_eq!(tree::empty_root(), hash(ROOTS[0]));
}

#[test]
fn inclusion_proofs_are_the_same_and_corrupt_ones_are_refused() {
    for (index, size, path) in INCLUSION {
        let path = hashes(path);
        assert_eq!(tree::inclusion_proof(index, size, nodes().lookup()), Ok(path.clone()), "{index} of {size}");
        let leaf = leaf_hash(LEAVES[usize::try_from(index).unwrap()]);
        let check = |tree: Tree, index, leaf, path: &[Digest]| tree.includes(index, &leaf, path);
        assert_eq!(check(at(size), index, leaf, &path), Ok(()));

        for wrong in [index.wrapping_sub(1), index + 1, index ^ 2, u64::MAX] {
            assert!(check(at(size), wrong, leaf, &path).is_err(), "{index} of {size} as {wrong}");
        }
        for wrong in [size * 2, size / 2, 0, u64::MAX] {
            // With no path at all, index and size 1 are the whole proof: 1 · 2 has another shape, 1 / 2 no entry.
            let tree = Tree { size: wrong, root: at(size).root };
            assert!(check(tree, index, leaf, &path).is_err(), "{index} of {size} in {wrong}");
        }
        assert!(check(at(size), index, hash(SOME), &path).is_err(), "another leaf");
        for root in [hash(ROOTS[0]), hash(SOME)] {
            assert!(check(Tree { size, root }, index, leaf, &path).is_err(), "another root");
        }
        for corrupt in corruptions(&path, &[at(size).root]) {
            assert!(check(at(size), index, leaf, &corrupt).is_err(), "{corrupt:?}");
        }
    }
    for (index, size) in [(0, 0), (0, 1), (1, 0), (2, 1)] {
        for root in [hash(ROOTS[0]), hash(A)] {
            assert!(Tree { size, root }.includes(index, &hash(SOME), &[]).is_err(), "{index} of {size}");
        }
    }
}

#[test]
fn consistency_proofs_are_the_same_and_corrupt_ones_are_refused() {
    for (old, size, path) in CONSISTENCY {
        let path = hashes(path);
        assert_eq!(tree::consistency_proof(old, size, nodes().lookup()), Ok(path.clone()), "{old} to {size}");
        assert_eq!(at(size).extends(&at(old), &path), Ok(()));
        for corrupt in corruptions(&path, &[at(old).root, at(size).root]) {
            assert!(at(size).extends(&at(old), &corrupt).is_err(), "{corrupt:?}");
        }
        if path.is_empty() {
            continue;
        }
        for wrong in [old - 1, old + 1, old ^ 2] {
            let before = Tree { size: wrong, root: at(old).root };
            assert!(at(size).extends(&before, &path).is_err(), "{old} to {size} as {wrong}");
        }
        for wrong in [size * 2, size / 2] {
            let after = Tree { size: wrong, root: at(size).root };
            assert!(after.extends(&at(old), &path).is_err(), "{old} to {size} as {wrong}");
        }
        for (before, after) in [(hash(SOME), at(size).root), (at(old).root, hash(SOME)), (at(size).root, at(old).root)]
        {
            let (before, after) = (Tree { size: old, root: before }, Tree { size, root: after });
            assert!(after.extends(&before, &path).is_err(), "another root");
        }
        assert!(at(size).extends(&at(old), &[]).is_err(), "no proof");
    }
}

#[test]
fn nothing_and_the_same_need_no_proof_and_take_none() {
    #[track_caller]
    fn check(old: (u64, Digest), new: (u64, Digest), path: &[Digest], expected: Result<(), tree::Error>) {
        let tree = |(size, root)| Tree { size, root };
        assert_eq!(tree(new).extends(&tree(old), path), expected);
    }
    let (empty, some) = (tree::empty_root(), hash(SOME));
    check((0, empty), (0, empty), &[], Ok(()));
    check((0, empty), (1, some), &[], Ok(()));
    check((1, some), (1, some), &[], Ok(()));
    check((0, some), (0, empty), &[], Err(tree::Error::Root));
    check((0, some), (1, some), &[], Err(tree::Error::Root));
    check((1, some), (1, empty), &[], Err(tree::Error::Root));
    check((0, empty), (0, empty), &[empty], Err(tree::Error::Shape));
    check((0, empty), (1, some), &[empty], Err(tree::Error::Shape));
    check((1, some), (1, some), &[empty], Err(tree::Error::Shape));
    check((1, some), (2, some), &[], Err(tree::Error::Shape));
    check((1, some), (0, empty), &[], Err(tree::Error::Shrunk { old: 1, size: 0 }));
    check((2, some), (1, some), &[], Err(tree::Error::Shrunk { old: 2, size: 1 }));
}
