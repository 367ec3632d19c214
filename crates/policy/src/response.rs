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
