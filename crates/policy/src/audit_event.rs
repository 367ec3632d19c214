//! The signature of an audit event of the invocation protocol: base64 of HMAC-SHA-256 over the canonical event.
//!
//! A convenience for holders of the key; the evidence is the log. Deliberately absent: redaction, which comes before.

use data_encoding::BASE64;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;
use toolgate_contracts::{Fault, TenantId, json};
use zeroize::Zeroizing;

const PURPOSE: &[u8] = b"audit-event/v1";
const MEMBER: &str = "signature";

/// A tenant's key, from the server's.
pub fn event_key(master: &[u8; 32], tenant: TenantId) -> Result<Zeroizing<[u8; 32]>, Fault> {
    let mut key = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(tenant.uuid().as_bytes()), master).expand(PURPOSE, &mut *key).map_err(Fault::internal)?;
    Ok(key)
}

/// Sets `signature`; one that was there is replaced.
pub fn sign_event(event: &mut Map<String, Value>, key: &[u8; 32]) {
    event.shift_remove(MEMBER);
    let signature = mac(event, key).finalize().into_bytes();
    event.insert(MEMBER.to_owned(), BASE64.encode(&signature).into());
}

pub fn verify_event(event: &Value, key: &[u8; 32]) -> bool {
    let Some(mut event) = event.as_object().cloned() else { return false };
    let signature = event.shift_remove(MEMBER);
    let signature = signature.as_ref().and_then(Value::as_str).and_then(|text| BASE64.decode(text.as_bytes()).ok());
    signature.is_some_and(|signature| mac(&event, key).verify_slice(&signature).is_ok())
}

fn mac(event: &Map<String, Value>, key: &[u8; 32]) -> Hmac<Sha256> {
    // One block, as the standard pads a key to: so there is no length that could be refused.
    let mut block = Zeroizing::new([0_u8; 64]);
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    mac.update(json::canonical(&Value::Object(event.clone())).as_bytes());
    mac
}
