//! AES-256-GCM as bytes in, bytes out: `salt ‖ nonce ‖ ciphertext ‖ tag`, with the context that must match.
//!
//! Each text has a key of its own, derived from the salt: 96 bits of nonce alone would run out of luck after a few billion
//! texts under one key. A context names the key's id, because the cipher alone does not commit to a key.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use toolgate_contracts::Rng;
use zeroize::Zeroizing;

use crate::mac::hmac;

const LABEL: &[u8] = b"toolgate/envelope/1";
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

/// `None` where the cipher refuses, which it does only past 64 GiB.
pub(crate) fn encrypt(key: &[u8; 32], context: &[u8], plain: &[u8], rng: &Rng) -> Option<Vec<u8>> {
    let (salt, nonce): ([u8; SALT_BYTES], [u8; NONCE_BYTES]) = (rng.bytes(), rng.bytes());
    let own = hmac(key, &[LABEL, &salt]);
    let sealed =
        Aes256Gcm::new((&*own).into()).encrypt(&Nonce::from(nonce), Payload { msg: plain, aad: context }).ok()?;
    Some([salt.as_slice(), &nonce, &sealed].concat())
}

/// `None` if the key or the context is another, or a bit was changed: one does not learn which.
pub(crate) fn decrypt(key: &[u8; 32], context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (salt, sealed) = sealed.split_first_chunk::<SALT_BYTES>()?;
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let own = hmac(key, &[LABEL, salt]);
    let opened = Aes256Gcm::new((&*own).into()).decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: context });
    opened.ok().map(Zeroizing::new)
}
