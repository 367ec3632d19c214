//! The id of a call within its run: the same for the same call, and no way to guess arguments from it.
//!
//! A bare hash would let anyone who sees an id confirm what they think was asked; so it is keyed, by a key that only
//! this run has. Whoever replays a run gets that key and no other.

use data_encoding::{BASE32_NOPAD, BASE64};
use toolgate_contracts::RunId;
use zeroize::Zeroizing;

use crate::keyring::Key;
use crate::mac::hmac;

const RUN_LABEL: &[u8] = b"toolgate/run/1";
const CALL_LABEL: &[u8] = b"toolgate/call/1";
/// 130 bits: no two calls ever share an id by chance.
const ID_CHARS: usize = 26;

pub struct RunKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunKey")
    }
}

impl RunKey {
    /// `HMAC-SHA-256(tenant's key, "toolgate/run/1" ‖ the run's sixteen bytes)`.
    pub fn derive(tenant_key: &Key, run: RunId) -> Self {
        Self(hmac(tenant_key.seed(), &[RUN_LABEL, run.uuid().as_bytes()]))
    }

    /// `"c_"` and the first 26 characters of the lower-case base32 of
    /// `HMAC-SHA-256(run key, "toolgate/call/1" ‖ 0 ‖ name@version ‖ 0 ‖ JCS(input) ‖ 0 ‖ seq in decimal)`.
    ///
    /// A zero byte stands between the parts, so that no two different calls read alike: a name, a version and a decimal
    /// cannot hold one, and JCS escapes it.
    pub fn call_id(&self, tool_at_version: &str, canonical_input: &str, seq: u32) -> String {
        let seq = seq.to_string();
        let parts = [tool_at_version.as_bytes(), canonical_input.as_bytes(), seq.as_bytes()];
        debug_assert!(parts.iter().all(|part| !part.contains(&0)), "a zero byte is between the parts only");
        let [tool, input, seq] = parts;
        let mut id = BASE32_NOPAD.encode(&*hmac(&self.0, &[CALL_LABEL, &[0], tool, &[0], input, &[0], seq]));
        id.truncate(ID_CHARS);
        id.make_ascii_lowercase();
        id.insert_str(0, "c_");
        id
    }

    /// For a replay bundle.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64.encode(&*self.0))
    }

    /// From a replay bundle; `None` if it is not 32 bytes.
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(BASE64.decode(text.as_bytes()).ok()?);
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::Timestamp;

    use super::*;

    #[test]
    fn a_run_key_is_the_one_that_anyone_computes() {
        let key = Key::new(
            "k".into(),
            Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).unwrap())),
            Timestamp::from_millis(0),
        );
        let run: RunId = "01930000-0000-7000-8000-000000000001".parse().unwrap();
        // Computed with Python's `hmac`, `hashlib` and `base64`.
        assert_eq!(*RunKey::derive(&key, run).to_base64(), "jF5/4Smg2TpCkYqs0WBXPV/FasYM1ewYkIV7k2X8GVA=");
    }
}
