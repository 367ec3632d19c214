//! Where labelled data came from, for the card: a few names, then "and others".
//!
//! Only for eyes. No rule reads it, so that a forgotten name loosens nothing.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

pub const ORIGINS_MAX: usize = 16;
const ORIGIN_CHARS_MAX: usize = 120;

/// INVARIANT: the first [`ORIGINS_MAX`] of all names by their order, so that it does not matter who joined whom when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Origins {
    #[serde(default)]
    names: BTreeSet<String>,
    /// There were more.
    #[serde(default)]
    others: bool,
}

impl Origins {
    pub fn add(&mut self, origin: &str) {
        let name: String = origin.chars().take(ORIGIN_CHARS_MAX).flat_map(char::escape_debug).collect();
        self.names.insert(name);
        self.bound();
    }

    #[must_use]
    pub fn join(mut self, other: &Self) -> Self {
        self.names.extend(other.names.iter().cloned());
        self.others |= other.others;
        self.bound();
        self
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub fn has_others(&self) -> bool {
        self.others
    }

    fn bound(&mut self) {
        while self.names.len() > ORIGINS_MAX {
            self.names.pop_last();
            self.others = true;
        }
    }
}

/// `http_get, mail.read and others`.
impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))?;
        if self.others { f.write_str(" and others") } else { Ok(()) }
    }
}
