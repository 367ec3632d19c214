//! Secrets that travel through people's hands: made once, shown once, kept only as a hash.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use toolgate_contracts::{Digest, KeyId, Rng};

const KEY_PREFIX: &str = "tg_";

/// 256 random bits for a person's hands.
pub fn token(rng: &Rng) -> (String, Digest) {
    let text = BASE64URL_NOPAD.encode(&rng.bytes::<32>());
    let hash = hash("toolgate/token/1", &text);
    (text, hash)
}

pub fn token_hash(text: &str) -> Digest {
    hash("toolgate/token/1", text)
}

/// `tg_` + the key's id + its secret: the id finds the row, the secret is compared in constant time.
pub fn key(id: KeyId, rng: &Rng) -> (String, Digest) {
    let secret = BASE64URL_NOPAD.encode(&rng.bytes::<32>());
    let text = format!("{KEY_PREFIX}{}_{secret}", BASE64URL_NOPAD.encode(id.uuid().as_bytes()));
    (text, hash("toolgate/key/1", &secret))
}

/// Takes a key apart; what does not look like one is no key.
pub fn parse_key(text: &str) -> Option<(KeyId, Digest)> {
    // The id is 22 characters and may hold `_` itself.
    let (id, secret) = text.strip_prefix(KEY_PREFIX)?.split_at_checked(22)?;
    let id = uuid::Uuid::from_slice(&BASE64URL_NOPAD.decode(id.as_bytes()).ok()?).ok()?;
    Some((KeyId::from_uuid(id), hash("toolgate/key/1", secret.strip_prefix('_')?)))
}

pub fn same(left: &Digest, right: &Digest) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

fn hash(context: &str, secret: &str) -> Digest {
    let mut hash = Sha256::new();
    hash.update(context);
    hash.update([0]);
    hash.update(secret);
    Digest::from_bytes(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::Clock;

    use super::*;

    #[test]
    fn a_key_is_found_by_its_id_and_proved_by_its_secret() {
        for seed in 0..200 {
            let rng = Rng::seeded(seed);
            let id = KeyId::new(&Clock::System, &rng);
            let (text, stored) = key(id, &rng);
            let (found, shown) = parse_key(&text).unwrap();
            assert_eq!(found, id);
            assert!(same(&stored, &shown));
            let (_, forged) = parse_key(&format!("{}x", &text[..text.len() - 1])).unwrap();
            assert_eq!(same(&stored, &forged), text.ends_with('x'));
        }
        for broken in ["", "tg_", "tg_x_y", "xx_AAAAAAAAAAAAAAAAAAAAAA_x", "tg_ééééééééééé_x"] {
            assert!(parse_key(broken).is_none(), "{broken}");
        }
    }
}
