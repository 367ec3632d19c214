//! AES-256-GCM as bytes in, bytes out: `nonce ‖ ciphertext ‖ tag`, with the context that must match.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use toolgate_contracts::Rng;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 12;

/// `None` where the cipher refuses, which it does only past 64 GiB.
pub(crate) fn encrypt(key: &[u8; 32], context: &[u8], plain: &[u8], rng: &Rng) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE_BYTES] = rng.bytes();
    let sealed = Aes256Gcm::new(key.into()).encrypt(&Nonce::from(nonce), Payload { msg: plain, aad: context }).ok()?;
    Some([nonce.as_slice(), &sealed].concat())
}

/// `None` if the key or the context is another, or a bit was changed: one does not learn which.
pub(crate) fn decrypt(key: &[u8; 32], context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let opened = Aes256Gcm::new(key.into()).decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: context });
    opened.ok().map(Zeroizing::new)
}
