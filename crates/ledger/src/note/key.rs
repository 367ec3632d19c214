//! Names and keys of those who sign notes: the log itself, and witnesses who countersign what they saw.
//!
//! A key says what kind of signature it makes, and its id depends on that, so that a witness's statement never counts
//! as the log's. Secrets are cleared when they are dropped, and nothing here writes one out but `seed`.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{Error, Signature};
use crate::checkpoint::Head;

pub const KEY_NAME_BYTES_MAX: usize = 255;

/// Who signs: a word without space, plus or control character, by custom a URL without its scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unfit = |letter: char| letter == '+' || letter.is_whitespace() || letter.is_control();
        if text.is_empty() || text.len() > KEY_NAME_BYTES_MAX || text.contains(unfit) {
            return Err(Error::KeyName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A short hint which of a name's keys it is. Not a proof: anybody can make a key with a given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(super) [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// What a signature by a key states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Type 0x01: this is my text.
    Log,
    /// Type 0x04, `cosignature/v1`: at this time it was the largest tree I had seen of this log, and it only grew.
    Witness,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Log => 0x01,
            Self::Witness => 0x04,
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            0x01 => Some(Self::Log),
            0x04 => Some(Self::Witness),
            _ => None,
        }
    }
}

/// A key to verify with, written `NAME+ID+BASE64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: KeyName,
    id: KeyId,
    kind: Kind,
    key: VerifyingKey,
}

impl VerifierKey {
    fn new(name: KeyName, kind: Kind, key: VerifyingKey) -> Self {
        let mut hash = Sha256::new();
        hash.update(name.as_str());
        hash.update([b'\n', kind.byte()]);
        hash.update(key.as_bytes());
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        Self { name, id: KeyId([a, b, c, d]), kind, key }
    }

    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    pub const fn id(&self) -> KeyId {
        self.id
    }

    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The public key alone, by which one witness under two names is still one.
    pub fn public(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Verifies a signature of this key over a text; for a witness, the seconds since 1970 at which it was made.
    pub(super) fn verify(&self, text: &str, signature: &[u8]) -> Result<Option<u64>, Error> {
        let invalid = || Error::Invalid { name: self.name.clone(), id: self.id };
        let (at, fits) = match self.kind {
            Kind::Log => (None, self.fits(text.as_bytes(), signature)),
            Kind::Witness => {
                let (time, signature) = signature.split_first_chunk().ok_or_else(invalid)?;
                let seconds = u64::from_be_bytes(*time);
                let message = cosigned(text, seconds);
                (Some(seconds), seconds <= SECONDS_MAX && self.fits(message.as_bytes(), signature))
            }
        };
        if fits { Ok(at) } else { Err(invalid()) }
    }

    fn fits(&self, message: &[u8], signature: &[u8]) -> bool {
        // Strictly: no weak key and no second spelling of a signature is accepted.
        ed25519_dalek::Signature::from_slice(signature)
            .is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }
}

impl FromStr for VerifierKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = || {
            let (name, rest) = text.split_once('+')?;
            let (id, encoded) = rest.split_once('+')?;
            let bytes = BASE64.decode(encoded.as_bytes()).ok()?;
            let (kind, public) = bytes.split_first()?;
            let key = VerifyingKey::from_bytes(public.try_into().ok()?).ok().filter(|key| !key.is_weak())?;
            let key = Self::new(name.parse().ok()?, Kind::of(*kind)?, key);
            (key.id.to_string() == id).then_some(key)
        };
        parts().ok_or(Error::VerifierKey)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut encoded = vec![self.kind.byte()];
        encoded.extend_from_slice(self.public());
        write!(f, "{}+{}+{}", self.name, self.id, BASE64.encode(&encoded))
    }
}

/// The key with which a log signs its checkpoints.
pub struct Signer(Secret);

/// The key with which a witness countersigns. A type of its own, so that one key is never used for both.
pub struct Cosigner(Secret);

impl Signer {
    pub fn from_seed(name: KeyName, seed: &[u8; 32]) -> Self {
        Self(Secret::new(name, Kind::Log, seed))
    }

    pub const fn verifier(&self) -> &VerifierKey {
        &self.0.public
    }

    /// The secret, to be wrapped and kept.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.key.to_bytes())
    }

    /// Signs any text. Checkpoints are signed by [`crate::Checkpoint::sign`], which looks at the one before.
    pub(crate) fn sign(&self, text: &str) -> Signature {
        self.0.signature(self.0.key.sign(text.as_bytes()).to_bytes().to_vec())
    }
}

impl Cosigner {
    pub fn from_seed(name: KeyName, seed: &[u8; 32]) -> Self {
        Self(Secret::new(name, Kind::Witness, seed))
    }

    pub const fn verifier(&self) -> &VerifierKey {
        &self.0.public
    }

    /// The secret, to be wrapped and kept.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.key.to_bytes())
    }

    /// States that this head is the largest seen of its log, now, in seconds since 1970. Whoever calls has checked with
    /// [`crate::Checkpoint::follows`] that it grew out of the one countersigned before.
    pub fn cosign(&self, head: &Head, now: u64) -> Signature {
        let seconds = now.min(SECONDS_MAX);
        let signature = self.0.key.sign(cosigned(head.text(), seconds).as_bytes());
        self.0.signature([seconds.to_be_bytes().as_slice(), &signature.to_bytes()].concat())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.0.public)
    }
}

impl fmt::Debug for Cosigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cosigner({})", self.0.public)
    }
}

// `SigningKey` clears itself.
impl ZeroizeOnDrop for Signer {}
impl ZeroizeOnDrop for Cosigner {}

struct Secret {
    public: VerifierKey,
    key: SigningKey,
}

impl Secret {
    fn new(name: KeyName, kind: Kind, seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        Self { public: VerifierKey::new(name, kind, key.verifying_key()), key }
    }

    fn signature(&self, bytes: Vec<u8>) -> Signature {
        Signature { name: self.public.name.clone(), id: self.public.id, bytes }
    }
}

/// What tlog-cosignature allows.
const SECONDS_MAX: u64 = i64::MAX.unsigned_abs();

fn cosigned(text: &str, seconds: u64) -> String {
    format!("cosignature/v1\ntime {seconds}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_cleared_and_not_shown() {
        fn cleared<T: ZeroizeOnDrop>() {}
        cleared::<SigningKey>();
        cleared::<Signer>();
        cleared::<Cosigner>();
        let signer = Signer::from_seed("example.com/log".parse().unwrap(), &[7; 32]);
        assert_eq!(format!("{signer:?}"), format!("Signer({})", signer.verifier()));
        assert_eq!(*signer.seed(), [7; 32]);
    }

    #[test]
    fn one_secret_has_two_ids_for_two_kinds() {
        let name: KeyName = "example.com/both".parse().unwrap();
        let log = Signer::from_seed(name.clone(), &[7; 32]);
        let witness = Cosigner::from_seed(name, &[7; 32]);
        assert_eq!(log.verifier().public(), witness.verifier().public());
        assert_ne!(log.verifier().id(), witness.verifier().id());
    }

    #[test]
    fn a_weak_key_is_no_key() {
        // The identity, for which a signature over one text fits every text; its id is right.
        let mut point = [0; 32];
        point[0] = 1;
        let weak = VerifierKey::new("weak".parse().unwrap(), Kind::Log, VerifyingKey::from_bytes(&point).unwrap());
        assert_eq!(weak.to_string().parse::<VerifierKey>(), Err(Error::VerifierKey));
    }

    #[test]
    fn two_keys_under_one_id_are_refused() {
        let [one, two] = [7, 8].map(|seed| Signer::from_seed("example.com/log".parse().unwrap(), &[seed; 32]));
        let note = super::super::Note::new("text\n".into(), one.sign("text\n")).unwrap();
        let mut known = vec![two.verifier().clone(), one.verifier().clone()];
        assert!(note.open(&known).is_ok());
        // Made by trying about 2^32 keys; here we only say so.
        known[0].id = known[1].id;
        let id = known[1].id;
        assert_eq!(note.open(&known), Err(Error::Ambiguous { name: one.verifier().name().clone(), id }));
    }

    #[test]
    fn a_time_beyond_the_format_is_refused() {
        let witness = Cosigner::from_seed("example.com/witness".parse().unwrap(), &[7; 32]);
        let at = |seconds: u64| {
            let signature = witness.0.key.sign(cosigned("text\n", seconds).as_bytes()).to_bytes();
            witness.verifier().verify("text\n", &[seconds.to_be_bytes().as_slice(), &signature].concat())
        };
        assert_eq!(at(SECONDS_MAX), Ok(Some(SECONDS_MAX)));
        assert!(at(SECONDS_MAX + 1).is_err());
        assert!(witness.verifier().verify("text\n", &[0; 7]).is_err());
    }
}
