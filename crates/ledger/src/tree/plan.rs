//! Which kept nodes a root or a proof is made of, and its making from them.
//!
//! A plan is arithmetic alone: a store asks it for the places, fetches them all at once, and then has it read.

use std::ops::Range;

use toolgate_contracts::Digest;

use super::{Error, Place, bag};

/// The stretches of leaves whose roots are wanted, in the order of the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    // INVARIANT: each begins at a multiple of the smallest power of two that is not less than its length.
    stretches: Vec<Range<u64>>,
}

impl Plan {
    pub fn root(size: u64) -> Self {
        Self { stretches: Vec::from([Range { start: 0, end: size }]) }
    }

    /// RFC 9162 §2.1.3.1: from the sibling of the leaf up to the child of the root.
    pub fn inclusion(index: u64, size: u64) -> Result<Self, Error> {
        if index >= size {
            return Err(Error::Beyond { index, size });
        }
        let (mut begin, mut end) = (0, size);
        let mut stretches = Vec::new();
        while end - begin > 1 {
            let middle = begin + left_of(end - begin);
            if index < middle {
                stretches.push(middle..end);
                end = middle;
            } else {
                stretches.push(begin..middle);
                begin = middle;
            }
        }
        stretches.reverse();
        Ok(Self { stretches })
    }

    /// RFC 9162 §2.1.4.1: that the tree of `size` begins with the one of `old`. Empty for nothing and for itself.
    pub fn consistency(old: u64, size: u64) -> Result<Self, Error> {
        if old > size {
            return Err(Error::Shrunk { old, size });
        }
        let mut stretches = Vec::new();
        if old == 0 {
            return Ok(Self { stretches });
        }
        let (mut begin, mut end) = (0, size);
        while old < end {
            let middle = begin + left_of(end - begin);
            if old <= middle {
                stretches.push(middle..end);
                end = middle;
            } else {
                stretches.push(begin..middle);
                begin = middle;
            }
        }
        // Where the old tree is a whole subtree from the first leaf on, whoever verifies has its root already.
        if begin > 0 {
            stretches.push(begin..end);
        }
        stretches.reverse();
        Ok(Self { stretches })
    }

    /// Every place that is read, each once.
    pub fn nodes(&self) -> impl Iterator<Item = Place> {
        self.stretches.iter().flat_map(|stretch| subtrees(stretch.clone()))
    }

    /// The roots of the stretches, from the nodes that `lookup` finds.
    pub fn read(&self, lookup: impl Fn(Place) -> Option<Digest>) -> Result<Vec<Digest>, Error> {
        let root_of = |stretch: &Range<u64>| {
            let peaks = subtrees(stretch.clone()).map(|place| lookup(place).ok_or(Error::Missing(place)));
            Ok(bag(&peaks.collect::<Result<Vec<_>, _>>()?))
        };
        self.stretches.iter().map(root_of).collect()
    }
}

/// The root of the tree as it was at `size`.
pub fn root(size: u64, lookup: impl Fn(Place) -> Option<Digest>) -> Result<Digest, Error> {
    Ok(super::Frontier::load(size, lookup)?.tree().root)
}

/// That the leaf at `index` is in the tree of `size`.
pub fn inclusion_proof(index: u64, size: u64, lookup: impl Fn(Place) -> Option<Digest>) -> Result<Vec<Digest>, Error> {
    Plan::inclusion(index, size)?.read(lookup)
}

/// That the tree of `size` is the one of `old` with leaves added.
pub fn consistency_proof(old: u64, size: u64, lookup: impl Fn(Place) -> Option<Digest>) -> Result<Vec<Digest>, Error> {
    Plan::consistency(old, size)?.read(lookup)
}

/// How many of `leaves`, at least two, are in the left child: the largest power of two below.
const fn left_of(leaves: u64) -> u64 {
    1 << (leaves - 1).ilog2()
}

/// The complete subtrees that a stretch consists of, largest first.
fn subtrees(stretch: Range<u64>) -> impl Iterator<Item = Place> {
    let Range { start: mut begin, end } = stretch;
    std::iter::from_fn(move || {
        let rest = end.checked_sub(begin).filter(|rest| *rest > 0)?;
        #[expect(clippy::cast_possible_truncation, reason = "the logarithm of 64 bits is below 64")]
        let level = rest.ilog2() as u8;
        let place = Place { level, position: begin >> level };
        begin += 1 << level;
        Some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(plan: Result<Plan, Error>, expected: &[(u8, u64)]) {
        let places: Vec<_> = plan.unwrap().nodes().map(|place| (place.level, place.position)).collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn a_plan_reads_what_the_examples_of_the_rfc_read() {
        // RFC 9162 §2.1.5, the tree of seven leaves.
        check(Plan::inclusion(0, 7), &[(0, 1), (1, 1), (1, 2), (0, 6)]);
        check(Plan::inclusion(3, 7), &[(0, 2), (1, 0), (1, 2), (0, 6)]);
        check(Plan::inclusion(4, 7), &[(0, 5), (0, 6), (2, 0)]);
        check(Plan::inclusion(6, 7), &[(1, 2), (2, 0)]);
        check(Plan::consistency(3, 7), &[(0, 2), (0, 3), (1, 0), (1, 2), (0, 6)]);
        check(Plan::consistency(4, 7), &[(1, 2), (0, 6)]);
        check(Plan::consistency(6, 7), &[(1, 2), (0, 6), (2, 0)]);
        check(Ok(Plan::root(7)), &[(2, 0), (1, 2), (0, 6)]);
    }

    #[test]
    fn what_cannot_be_proved_is_refused() {
        assert_eq!(Plan::inclusion(7, 7), Err(Error::Beyond { index: 7, size: 7 }));
        assert_eq!(Plan::inclusion(0, 0), Err(Error::Beyond { index: 0, size: 0 }));
        assert_eq!(Plan::consistency(8, 7), Err(Error::Shrunk { old: 8, size: 7 }));
        check(Plan::consistency(0, 7), &[]);
        check(Plan::consistency(7, 7), &[]);
        let place = Place { level: 2, position: 0 };
        assert_eq!(root(4, |_| None), Err(Error::Missing(place)));
    }

    #[test]
    fn the_largest_sizes_do_not_overflow() {
        for size in [super::super::SIZE_MAX, u64::MAX] {
            assert!(Plan::root(size).nodes().count() <= 64);
            assert!(Plan::inclusion(size - 1, size).unwrap().nodes().count() <= 64);
            assert!(Plan::consistency(size - 1, size).unwrap().nodes().count() <= 128);
        }
    }
}
