//! Payload commitments: a leaf holds HMAC-SHA256(salt, canonical payload) in place of the payload.
//!
//! Salt and payload are kept beside the log. Once both are erased the log still verifies, and nobody can find the
//! payload by trying candidates, as they could with a bare hash of, say, a telephone number.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value as Json;
use sha2::Sha256;
use toolgate_contracts::{Digest, json};
use zeroize::{Zeroize as _, ZeroizeOnDrop};

const BLOCK_BYTES: usize = 64;

/// 32 random bytes, one salt for each payload. Cleared when dropped.
pub struct Salt([u8; 32]);

impl Salt {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret, to be kept beside the payload.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What the leaf holds.
    pub fn commit(&self, payload: &Json) -> Digest {
        Digest::from_bytes(self.mac(payload).finalize().into_bytes().into())
    }

    /// The same of a payload whose canonical text is at hand, under a word that says which payload it is: one cannot
    /// stand for another. It is the commitment to the word, a line feed and the text.
    pub fn commit_named(&self, what: &str, text: &str) -> Digest {
        let mut mac = self.mac_of(what);
        mac.update(b"\n");
        mac.update(text.as_bytes());
        Digest::from_bytes(mac.finalize().into_bytes().into())
    }

    /// Whether `commitment` was made of this payload. Takes the same time whatever the answer.
    pub fn opens(&self, commitment: &Digest, payload: &Json) -> bool {
        self.mac(payload).verify_slice(commitment.as_bytes()).is_ok()
    }

    fn mac(&self, payload: &Json) -> Hmac<Sha256> {
        self.mac_of(&json::canonical(payload))
    }

    fn mac_of(&self, text: &str) -> Hmac<Sha256> {
        // HMAC fills a key shorter than a block with zeros; doing it here gives the constructor that cannot fail.
        let mut block = [0; BLOCK_BYTES];
        block[..self.0.len()].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        block.zeroize();
        mac.update(text.as_bytes());
        mac
    }
}

impl Drop for Salt {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Salt {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_commitment_is_the_hmac_that_others_compute() {
        // python3: hmac.new(bytes(range(32)), b'{"a":[1,"\xc3\xa9"],"to":"+49 30 1234567"}', "sha256").hexdigest()
        let salt = Salt::from_bytes(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        let payload = json!({"to": "+49 30 1234567", "a": [1.0, "é"]});
        let commitment = salt.commit(&payload);
        assert_eq!(commitment.to_string(), "a92cf6227d6ba669fa754573f02058bf490d693d4ee4fc14668d337e4f3eb1cf");
        assert!(salt.opens(&commitment, &json!({"a": [1, "é"], "to": "+49 30 1234567"})));
        assert!(!salt.opens(&commitment, &json!({"a": [1, "é"], "to": "+49 30 1234568"})));
        assert!(!Salt::from_bytes([0; 32]).opens(&commitment, &payload));
    }
}
