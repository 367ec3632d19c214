//! Digests of what is not to be guessed: of a file of which somebody may see a part, a bare hash would let them try the
//! rest at home.

use toolgate_contracts::Digest;
use zeroize::Zeroizing;

use crate::keyring::Key;
use crate::mac::hmac;

const LABEL: &[u8] = b"toolgate/digest/1";

pub struct DigestKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey")
    }
}

impl DigestKey {
    /// `HMAC-SHA-256(tenant's key, "toolgate/digest/1" ‖ what)`: two subjects have two keys.
    pub fn derive(tenant_key: &Key, what: &str) -> Self {
        Self(hmac(tenant_key.seed(), &[LABEL, what.as_bytes()]))
    }

    pub fn digest(&self, bytes: &[u8]) -> Digest {
        Digest::from_bytes(*hmac(&self.0, &[bytes]))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::Timestamp;

    use super::*;

    #[test]
    fn a_digest_is_of_one_key_one_subject_and_one_text() {
        let key = |seed: u8| Key::new("k".to_owned(), Zeroizing::new([seed; 32]), Timestamp::from_millis(0));
        let digest = |seed, what, text: &str| DigestKey::derive(&key(seed), what).digest(text.as_bytes());
        let first = digest(1, "files", "a");
        assert_eq!(first, digest(1, "files", "a"));
        let others = [digest(2, "files", "a"), digest(1, "other", "a"), digest(1, "files", "b"), Digest::of(b"a")];
        assert!(others.iter().all(|other| *other != first));
    }
}
