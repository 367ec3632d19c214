//! C2SP signed notes: a text and, after an empty line, one line for each signature.
//!
//! Reading is strict, so that a note has one spelling: UTF-8, no control character but the newline, canonical base64.
//! A text is handed out only together with the keys that signed it, or under a name that says that nobody checked.

mod key;

use std::fmt;

use data_encoding::BASE64;

pub use key::{Cosigner, KEY_NAME_BYTES_MAX, KeyId, KeyName, Kind, Signer, VerifierKey};

/// Room for the signatures that a note must be allowed to have, of any kind in use.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;
/// C2SP demands at least 16.
pub const SIGNATURES_MAX: usize = 64;

const DASH: &str = "— ";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the note has {bytes} bytes, the limit is {NOTE_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("the note is not UTF-8")]
    Encoding,
    #[error("the note holds a control character")]
    Control,
    #[error("the text of the note does not end with a newline")]
    Text,
    #[error("no signature lines follow the text of the note after an empty line")]
    Unsigned,
    #[error("signature line {line} is not `{DASH}NAME SIGNATURE`")]
    Line { line: usize },
    #[error("the note has more than {SIGNATURES_MAX} signatures")]
    Signatures,
    #[error("a key name is 1 to {KEY_NAME_BYTES_MAX} bytes without space, plus or control character")]
    KeyName,
    #[error("a verifier key is `NAME+ID+BASE64`, with the id of a known kind of key")]
    VerifierKey,
    #[error("the signature of `{name}+{id}` does not fit the text")]
    Invalid { name: KeyName, id: KeyId },
    #[error("two different keys are called `{name}+{id}`")]
    Ambiguous { name: KeyName, id: KeyId },
    #[error("no known key signed the note")]
    NoKnownKey,
}

/// One signature line: by whom, and the bytes after the key id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: KeyName,
    id: KeyId,
    bytes: Vec<u8>,
}

impl Signature {
    fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = BASE64.decode(encoded.as_bytes()).ok()?;
        let (id, bytes) = bytes.split_first_chunk().filter(|(_, bytes)| !bytes.is_empty())?;
        Some(Self { name: name.parse().ok()?, id: KeyId(*id), bytes: bytes.to_vec() })
    }

    fn is_by_same_key(&self, other: &Self) -> bool {
        self.name == other.name && self.id == other.id
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.id.0.as_slice(), &self.bytes].concat();
        write!(f, "{DASH}{} {}", self.name, BASE64.encode(&bytes))
    }
}

/// A note as it is written. Nothing in it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    // INVARIANT: ends with a newline, holds no other control character.
    text: String,
    // INVARIANT: 1 to `SIGNATURES_MAX`.
    signatures: Vec<Signature>,
}

/// A signature that fits, and the key that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<'k> {
    pub by: &'k VerifierKey,
    /// When a witness saw it, in seconds since 1970. A log's signature has no time.
    pub at: Option<u64>,
}

impl Note {
    pub(crate) fn new(text: String, signature: Signature) -> Result<Self, Error> {
        check_text(&text)?;
        Ok(Self { text, signatures: vec![signature] })
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(Error::TooLarge { bytes: bytes.len() });
        }
        let whole = std::str::from_utf8(bytes).map_err(|_| Error::Encoding)?;
        // A text may hold empty lines; the last one in the note is the border.
        let border = whole.rfind("\n\n").ok_or(Error::Unsigned)?;
        let (text, lines) = whole.split_at(border + 1);
        check_text(text)?;
        check_characters(lines)?;
        let lines = lines.strip_prefix('\n').and_then(|lines| lines.strip_suffix('\n')).ok_or(Error::Unsigned)?;
        let mut signatures = Vec::new();
        for (index, line) in lines.split('\n').enumerate() {
            if index == SIGNATURES_MAX {
                return Err(Error::Signatures);
            }
            signatures.push(Signature::parse(line).ok_or(Error::Line { line: index + 1 })?);
        }
        Ok(Self { text: text.to_owned(), signatures })
    }

    /// Adds a signature, in place of an older one by the same key.
    pub fn add(&mut self, signature: Signature) -> Result<(), Error> {
        if let Some(older) = self.signatures.iter_mut().find(|other| other.is_by_same_key(&signature)) {
            *older = signature;
        } else if self.signatures.len() == SIGNATURES_MAX {
            return Err(Error::Signatures);
        } else {
            self.signatures.push(signature);
        }
        Ok(())
    }

    /// Checks every signature by a known key; others are passed over. Returns the text and who signed it, each key
    /// once. One bad signature by a known key spoils the note, and so does having none.
    pub fn open<'n, 'k>(&'n self, known: &'k [VerifierKey]) -> Result<(&'n str, Vec<Signed<'k>>), Error> {
        let mut signed: Vec<Signed<'k>> = Vec::new();
        for Signature { name, id, bytes } in &self.signatures {
            let mut matching = known.iter().filter(|key| key.name() == name && key.id() == *id);
            let Some(key) = matching.next() else { continue };
            if matching.any(|other| other != key) {
                return Err(Error::Ambiguous { name: name.clone(), id: *id });
            }
            let at = key.verify(&self.text, bytes)?;
            if !signed.iter().any(|earlier| earlier.by == key) {
                signed.push(Signed { by: key, at });
            }
        }
        if signed.is_empty() { Err(Error::NoKnownKey) } else { Ok((&self.text, signed)) }
    }

    /// The text, which anybody may have written. Good for choosing the keys to open it with, and for nothing else.
    pub fn unverified_text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| writeln!(f, "{signature}"))
    }
}

fn check_text(text: &str) -> Result<(), Error> {
    check_characters(text)?;
    if text.ends_with('\n') { Ok(()) } else { Err(Error::Text) }
}

fn check_characters(text: &str) -> Result<(), Error> {
    let control = text.contains(|letter: char| letter.is_control() && letter != '\n');
    if control { Err(Error::Control) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
