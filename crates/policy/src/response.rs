//! The signature of an answer of the invocation protocol: base64 of Ed25519 over a context line and the canonical body.

use data_encoding::BASE64;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde_json::{Map, Value};
use toolgate_contracts::json;

/// What is signed begins with it, so that a signature made for anything else says nothing here.
const CONTEXT: &str = "toolgate/response/v1\n";
const MEMBER: &str = "signature";

/// Sets `signature`; one that was there is replaced.
pub fn sign_response(body: &mut Map<String, Value>, key: &SigningKey) {
    body.shift_remove(MEMBER);
    let signature = key.sign(&text(body));
    body.insert(MEMBER.to_owned(), BASE64.encode(&signature.to_bytes()).into());
}

/// Whether one of these keys signed the body, as it is.
pub fn verify_response(body: &Value, keys: &[VerifyingKey]) -> bool {
    let Some(mut body) = body.as_object().cloned() else { return false };
    let signature = body
        .shift_remove(MEMBER)
        .as_ref()
        .and_then(Value::as_str)
        .and_then(|text| Signature::from_slice(&BASE64.decode(text.as_bytes()).ok()?).ok());
    let text = text(&body);
    signature.is_some_and(|signature| keys.iter().any(|key| key.verify_strict(&text, &signature).is_ok()))
}

fn text(body: &Map<String, Value>) -> Vec<u8> {
    [CONTEXT, &json::canonical(&Value::Object(body.clone()))].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Map<String, Value> {
        let value = json!({"request_id": "r", "status": "ok", "code": 0, "output": {"b": 1.5, "a": "é"}});
        value.as_object().cloned().unwrap()
    }

    fn signed(key: &SigningKey) -> Value {
        let mut body = body();
        sign_response(&mut body, key);
        Value::Object(body)
    }

    #[test]
    fn a_body_verifies_under_its_key_in_any_order_of_members_and_under_no_other() {
        let (ours, other) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let body = signed(&ours);
        assert!(verify_response(&body, &[other.verifying_key(), ours.verifying_key()]));
        assert!(!verify_response(&body, &[other.verifying_key()]));
        assert!(!verify_response(&body, &[]));
        let reordered: Map<_, _> = body.as_object().unwrap().clone().into_iter().rev().collect();
        assert!(verify_response(&Value::Object(reordered), &[ours.verifying_key()]));
        let mut again = body.as_object().unwrap().clone();
        sign_response(&mut again, &ours);
        assert_eq!(Value::Object(again), body, "signing twice signs the same");
    }

    #[test]
    fn no_changed_body_and_no_signature_for_something_else_verifies() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let keys = [key.verifying_key()];
        for (member, value) in [
            ("code", json!(1)),
            ("status", json!("denied")),
            ("output", json!({"b": 1.5})),
            ("added", json!(null)),
            ("signature", json!(null)),
            ("signature", json!("")),
            ("signature", json!("AAAA")),
        ] {
            let mut body = signed(&key);
            body[member] = value;
            assert!(!verify_response(&body, &keys), "{member}");
        }
        assert!(!verify_response(&json!([]), &keys));
        let mut bare = body();
        let signature = key.sign(json::canonical(&Value::Object(bare.clone())).as_bytes());
        bare.insert(MEMBER.to_owned(), BASE64.encode(&signature.to_bytes()).into());
        assert!(!verify_response(&Value::Object(bare), &keys), "without its context line");
    }
}
