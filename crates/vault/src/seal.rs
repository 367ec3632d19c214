//! Sealed text: what the server hands to a client and wants back unread and unchanged, such as a cursor.
//!
//! Deliberately absent: a time. Whoever seals puts one into the bytes if it matters.

use data_encoding::BASE64URL_NOPAD;
use toolgate_contracts::Rng;
use zeroize::Zeroizing;

use crate::envelope;
use crate::keyring::Key;

/// Seals with one key and opens with that and those it replaced.
pub struct Sealer {
    seal: Zeroizing<[u8; 32]>,
    open: Vec<Zeroizing<[u8; 32]>>,
    rng: Rng,
}

impl Sealer {
    pub fn new(key: &Key, rng: Rng) -> Self {
        Self { seal: Zeroizing::new(*key.seed()), open: Vec::new(), rng }
    }

    /// Also opens what `key` sealed: one that is retiring.
    #[must_use]
    pub fn opening(mut self, key: &Key) -> Self {
        self.open.push(Zeroizing::new(*key.seed()));
        self
    }

    /// Opens again under the same `context` only: say there what it is and whose.
    pub fn seal(&self, context: &str, bytes: &[u8]) -> String {
        // The cipher refuses past 64 GiB: then it is a text that never opens.
        let sealed = envelope::encrypt(&self.seal, context.as_bytes(), bytes, &self.rng).unwrap_or_default();
        BASE64URL_NOPAD.encode(&sealed)
    }

    /// `None` if it was not sealed by us, for this context, or was changed: one does not learn which.
    pub fn open(&self, context: &str, text: &str) -> Option<Vec<u8>> {
        let sealed = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        std::iter::once(&self.seal).chain(&self.open).find_map(|seed| {
            let mut opened = envelope::decrypt(seed, context.as_bytes(), &sealed)?;
            Some(std::mem::take(&mut *opened))
        })
    }
}
