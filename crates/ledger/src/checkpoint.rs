//! Checkpoints: how large a log is and what its root is, signed (C2SP tlog-checkpoint).
//!
//! Signing looks at the checkpoint signed before, so that a log never tells two stories; that nobody else signs in
//! between is the store's promise, which keeps one head per log by compare-and-set.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toolgate_contracts::Digest;

use crate::broken::Broken;
use crate::note::{self, KeyName, Kind, Note, Signer, VerifierKey};
use crate::spelling;
use crate::tree::{SIZE_MAX, Tree, empty_root};

pub const ORIGIN_BYTES_MAX: usize = 255;

/// Which log it is: one line, by custom a URL without its scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String)]
pub struct Origin(String);

impl Origin {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.len() > ORIGIN_BYTES_MAX || text.contains(char::is_control) {
            return Err("an origin is one line of 1 to 255 bytes");
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Origin {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of a log. On its own a claim; signed by a believed key, a [`Head`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub origin: Origin,
    pub size: u64,
    pub root: Digest,
}

/// What a log has signed before.
#[derive(Clone, Copy, Debug)]
pub enum Before<'a> {
    Nothing,
    /// The last checkpoint, and the proof that the next one extends it.
    Signed {
        checkpoint: &'a Checkpoint,
        proof: &'a [Digest],
    },
}

impl Checkpoint {
    pub const fn tree(&self) -> Tree {
        Tree { size: self.size, root: self.root }
    }

    /// Reads the text of a note. Lines after the third are passed over; C2SP allows them and advises against them.
    pub fn parse(text: &str) -> Result<Self, Broken> {
        let mut lines =
            text.strip_suffix('\n').ok_or(Broken::Checkpoint("it does not end with a newline"))?.split('\n');
        let mut next = || lines.next().unwrap_or_default();
        let (origin, size, root) = (next(), next(), next());
        let origin = origin.parse().map_err(Broken::Checkpoint)?;
        let size = spelling::decimal(size).ok_or(Broken::Checkpoint("the second line is not a size"))?;
        let root = spelling::hash(root).ok_or(Broken::Checkpoint("the third line is not a hash"))?;
        if size == 0 && root != empty_root() {
            return Err(Broken::Checkpoint("an empty log has another root"));
        }
        if lines.any(str::is_empty) {
            return Err(Broken::Checkpoint("it has an empty line"));
        }
        Ok(Self { origin, size, root })
    }

    /// Signs this checkpoint, unless it contradicts the one before.
    pub fn sign(&self, before: Before<'_>, signer: &Signer) -> Result<Note, Broken> {
        if let Before::Signed { checkpoint, proof } = before {
            self.follows(checkpoint, proof)?;
        }
        self.is_of(signer.verifier().name())?;
        if self.size > SIZE_MAX || (self.size == 0 && self.root != empty_root()) {
            return Err(Broken::Checkpoint("no tree has this size and root"));
        }
        let text = self.to_string();
        let signature = signer.sign(&text);
        Ok(Note::new(text, signature)?)
    }

    /// Verifies that this is the log of `before`, with entries added or as it was.
    pub fn follows(&self, before: &Self, proof: &[Digest]) -> Result<(), Broken> {
        if self.origin != before.origin {
            return Err(Broken::Origin { expected: before.origin.clone(), found: self.origin.clone() });
        }
        if self.size < before.size {
            return Err(Broken::Truncated { kept: before.size, size: self.size });
        }
        if self.size == before.size && self.root != before.root {
            return Err(Broken::Fork { size: self.size });
        }
        Ok(self.tree().extends(&before.tree(), proof)?)
    }

    /// A log signs under its own name, so that one log's key says nothing about another log.
    fn is_of(&self, name: &KeyName) -> Result<(), Broken> {
        if self.origin.as_str() == name.as_str() {
            return Ok(());
        }
        let expected = name.as_str().parse().map_err(Broken::Checkpoint)?;
        Err(Broken::Origin { expected, found: self.origin.clone() })
    }
}

/// The text that is signed.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, size, root } = self;
        writeln!(f, "{origin}\n{size}\n{}", spelling::base64(root.as_bytes()))
    }
}

/// Whom somebody believes about a log: its own keys, older ones included, and witnesses.
#[derive(Clone, Debug)]
pub struct Trust {
    origin: Origin,
    keys: Vec<VerifierKey>,
    witnesses_min: usize,
}

impl Trust {
    /// Keys of other logs among `keys` are left out.
    pub fn new(origin: Origin, keys: impl IntoIterator<Item = VerifierKey>) -> Self {
        let concerns = |key: &VerifierKey| key.kind() == Kind::Witness || key.name().as_str() == origin.as_str();
        let keys = keys.into_iter().filter(concerns).collect();
        Self { origin, keys, witnesses_min: 0 }
    }

    /// Demands that at least so many of the known witnesses have countersigned.
    #[must_use]
    pub const fn witnessed_by(mut self, witnesses_min: usize) -> Self {
        self.witnesses_min = witnesses_min;
        self
    }

    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Reads a signed checkpoint and checks who signed it.
    pub fn open(&self, note: &[u8]) -> Result<Head, Broken> {
        self.accept(Note::parse(note)?)
    }

    pub(crate) fn accept(&self, note: Note) -> Result<Head, Broken> {
        let (text, signed) = note.open(&self.keys)?;
        let checkpoint = Checkpoint::parse(text)?;
        if checkpoint.origin != self.origin {
            return Err(Broken::Origin { expected: self.origin.clone(), found: checkpoint.origin });
        }
        if !signed.iter().any(|signed| signed.by.kind() == Kind::Log) {
            return Err(note::Error::NoKnownKey.into());
        }
        let mut witnesses: Vec<Witness> = Vec::new();
        for signed in signed.iter().filter(|signed| signed.by.kind() == Kind::Witness) {
            // One witness under two names is one.
            if witnesses.iter().all(|other| other.public != *signed.by.public()) {
                let at = signed.at.unwrap_or_default();
                witnesses.push(Witness { name: signed.by.name().clone(), at, public: *signed.by.public() });
            }
        }
        if witnesses.len() < self.witnesses_min {
            return Err(Broken::Witnesses { needed: self.witnesses_min, found: witnesses.len() });
        }
        Ok(Head { checkpoint, note, witnesses })
    }
}

/// A witness that countersigned, and when, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    pub name: KeyName,
    pub at: u64,
    public: [u8; 32],
}

/// A checkpoint that a believed key has signed. Made by [`Trust::open`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    checkpoint: Checkpoint,
    note: Note,
    witnesses: Vec<Witness>,
}

impl Head {
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    pub const fn note(&self) -> &Note {
        &self.note
    }

    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// Everything that was signed, lines that we do not know included.
    pub(crate) fn text(&self) -> &str {
        self.note.unverified_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer::from_seed("example.com/log".parse().unwrap(), &[1; 32])
    }

    #[test]
    fn a_key_speaks_for_its_own_log_alone() {
        // What our signer refuses to sign, signed nevertheless.
        let text = "example.com/other\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
        let note = Note::new(text.into(), signer().sign(text)).unwrap();
        let trust = Trust::new("example.com/log".parse().unwrap(), [signer().verifier().clone()]);
        let (expected, found) = (trust.origin().clone(), "example.com/other".parse().unwrap());
        assert_eq!(trust.accept(note), Err(Broken::Origin { expected, found }));
    }

    #[test]
    fn an_impossible_tree_is_not_signed() {
        #[track_caller]
        fn check(size: u64, root: Digest, signed: bool) {
            let checkpoint = Checkpoint { origin: "example.com/log".parse().unwrap(), size, root };
            assert_eq!(checkpoint.sign(Before::Nothing, &signer()).is_ok(), signed);
        }
        check(0, empty_root(), true);
        check(0, Digest::of(b"other"), false);
        check(SIZE_MAX, Digest::of(b"other"), true);
        check(SIZE_MAX + 1, Digest::of(b"other"), false);
    }
}
