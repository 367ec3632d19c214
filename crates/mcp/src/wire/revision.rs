//! The revisions of the protocol that are spoken, and what sets them apart.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V20250326,
    V20250618,
    V20251125,
    V20260728,
}

impl Revision {
    pub const ALL: [Self; 4] = [Self::V20250326, Self::V20250618, Self::V20251125, Self::V20260728];
    /// What somebody gets who begins with `initialize` and asks for something that is not spoken here.
    pub const NEWEST_WITH_HANDSHAKE: Self = Self::V20251125;
    /// What a message means that names no revision.
    pub const UNNAMED: Self = Self::V20250326;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => "2025-11-25",
            Self::V20260728 => "2026-07-28",
        }
    }

    /// Whether every request says all there is to know about its sender, and no connection does.
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V20260728)
    }

    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V20250326)
    }

    /// Structured results, their schemas, links to resources, titles.
    pub fn has_structure(self) -> bool {
        self >= Self::V20250618
    }

    pub fn has_icons(self) -> bool {
        self >= Self::V20251125
    }

    pub fn has_forms(self) -> bool {
        self >= Self::V20250618
    }

    /// Whether a client can be asked to open an address.
    pub fn opens_addresses(self) -> bool {
        self >= Self::V20251125
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Revision {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text).ok_or(())
    }
}
