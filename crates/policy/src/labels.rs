//! Information-flow labels: where data came from, and where it must not go unseen.
//!
//! Three bits that only join. A tool's result adds what its source is worth (`source.rs`); the rules L1–L6 judge what a
//! tool could do with what its run has seen (`rules.rs`). Deliberately absent: looking into values; a label says where
//! data came from, never what it looks like, so an ordinary id is not suspicious.

mod endorsement;
mod origins;
mod rules;
mod source;

use std::fmt;

use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::Label;

pub use endorsement::has_free_text;
pub use origins::{ORIGINS_MAX, Origins};
pub use rules::{Acceptance, Rule, RuleHit, SinkFacts, Verdict, accepted, excess, judge, refuse_excess, verdict};
pub use source::{Authority, along_edge, sources};

/// A set of labels. Written as `["untrusted", "private", "sensitive"]`, always in this order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(from = "Vec<Label>", into = "Vec<Label>")]
#[schema(value_type = Vec<Label>)]
pub struct Labels(u8);

const fn bit(label: Label) -> u8 {
    match label {
        Label::Untrusted => 1,
        Label::Private => 2,
        Label::Sensitive => 4,
    }
}

impl Labels {
    pub const NONE: Self = Self(0);
    pub const UNTRUSTED: Self = Self(bit(Label::Untrusted));
    pub const PRIVATE: Self = Self(bit(Label::Private));
    pub const SENSITIVE: Self = Self(bit(Label::Sensitive));
    pub const ALL: Self = Self(7);

    #[must_use]
    pub const fn join(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn meet(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn contains(self, label: Label) -> bool {
        self.0 & bit(label) != 0
    }

    pub const fn is_within(self, other: Self) -> bool {
        self.without(other).is_empty()
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Label> {
        Label::ALL.iter().copied().filter(move |label| self.contains(*label))
    }

    pub fn to_vec(self) -> Vec<Label> {
        self.iter().collect()
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        labels.into_iter().fold(Self::NONE, |joined, label| joined.join(Self(bit(label))))
    }
}

impl From<&[Label]> for Labels {
    fn from(labels: &[Label]) -> Self {
        labels.iter().copied().collect()
    }
}

impl From<Vec<Label>> for Labels {
    fn from(labels: Vec<Label>) -> Self {
        labels.into_iter().collect()
    }
}

impl From<Labels> for Vec<Label> {
    fn from(labels: Labels) -> Self {
        labels.to_vec()
    }
}

impl From<Label> for Labels {
    fn from(label: Label) -> Self {
        Self(bit(label))
    }
}

/// For people: `untrusted and private`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(Label::as_str).collect();
        match words.as_slice() {
            [] => f.write_str("unlabelled"),
            [word] => f.write_str(word),
            [words @ .., last] => write!(f, "{} and {last}", words.join(", ")),
        }
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
