//! HMAC-SHA-256 over parts, with the server's keys of 32 bytes.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The parts are simply one after the other: whoever calls sees to it that they cannot be read in two ways.
pub(crate) fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    // One block, as the standard pads a key to: so there is no length that could be refused.
    let mut block = Zeroizing::new([0_u8; 64]);
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}
