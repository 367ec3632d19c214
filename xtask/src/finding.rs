//! One thing to fix, as one line: `path:line: what — how to fix`.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth a look; nothing fails.
    Note,
    Error,
}

/// Ordered by weight, then by place, so that what must be fixed stands last, where one looks first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub weight: Weight,
    pub path: String,
    pub line: usize,
    pub what: String,
    pub fix: String,
}

impl Finding {
    pub fn error(path: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { weight: Weight::Error, path: path.to_owned(), line, what: what.into(), fix: fix.into() }
    }

    pub fn note(path: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { weight: Weight::Note, ..Self::error(path, line, what, fix) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weight, path, line, what, fix } = self;
        if *weight == Weight::Note {
            f.write_str("note: ")?;
        }
        write!(f, "{path}:{line}: {what} — {fix}")
    }
}

/// The 1-based number of the first line that `matches`, or 1.
pub fn line_of(text: &str, matches: impl Fn(&str) -> bool) -> usize {
    text.lines().position(matches).map_or(1, |index| index + 1)
}
