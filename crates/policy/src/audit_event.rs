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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_verifies_under_its_tenants_key_alone() {
        let tenant = |number| TenantId::from_uuid(uuid::Uuid::from_u128(number));
        let key = event_key(&[7; 32], tenant(1)).unwrap();
        let mut event =
            json!({"event_id": "e", "result_code": 0, "args": {"to": "[redacted]"}}).as_object().cloned().unwrap();
        sign_event(&mut event, &key);
        let event = Value::Object(event);
        assert!(verify_event(&event, &key));
        assert!(!verify_event(&event, &event_key(&[7; 32], tenant(2)).unwrap()), "another tenant");
        assert!(!verify_event(&event, &event_key(&[8; 32], tenant(1)).unwrap()), "another server");
        for (member, value) in [("result_code", json!(1)), ("signature", json!("")), ("more", json!(0))] {
            let mut changed = event.clone();
            changed[member] = value;
            assert!(!verify_event(&changed, &key), "{member}");
        }
    }

    #[test]
    fn a_key_is_what_other_programs_derive() {
        // HKDF-SHA-256 with salt = sixteen bytes of the tenant's UUID, computed elsewhere.
        let key = event_key(&[7; 32], TenantId::from_uuid(uuid::Uuid::from_u128(1))).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&*key),
            "2f908dc5f6736f6ba53dacc6c29b83c9eeb11eae4fc6344a2d7a21b6acaf4586"
        );
        let mut event = json!({"b": 1, "a": "é"}).as_object().cloned().unwrap();
        sign_event(&mut event, &key);
        assert_eq!(event["signature"], json!("Ynhnke8/YmR28WLb9zqG4s4ktSb7SRMLbMbTQzLhjeY="));
    }
}
