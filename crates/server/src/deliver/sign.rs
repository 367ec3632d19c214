//! Signatures of webhooks, as Standard Webhooks has them: over `id.timestamp.body`, several side by side.
//!
//! `v1` is HMAC-SHA256 with the secret that the receiver shares, `v1a` Ed25519 with the tenant's key, whose public half
//! anybody may have. Whoever rotates a secret is sent signatures by both for a while.

use data_encoding::BASE64;
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use toolgate_contracts::Timestamp;
use toolgate_vault::{Key, WebhookKey};

const SECRET_PREFIX: &str = "whsec_";
const PUBLIC_PREFIX: &str = "whpk_";

/// The text that a person copies into the receiver.
pub fn secret_text(secret: &WebhookKey) -> String {
    format!("{SECRET_PREFIX}{}", BASE64.encode(secret.expose()))
}

/// The public half of a tenant's key.
pub fn public_text(key: &Key) -> String {
    format!("{PUBLIC_PREFIX}{}", BASE64.encode(SigningKey::from_bytes(key.seed()).verifying_key().as_bytes()))
}

/// The value of `webhook-signature`.
pub fn signatures(id: &str, at: Timestamp, body: &str, secrets: &[WebhookKey], key: &Key) -> String {
    let signed = format!("{id}.{}.{body}", seconds(at));
    let mut all: Vec<String> = secrets
        .iter()
        .filter_map(|secret| {
            // It refuses no length.
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).ok()?;
            mac.update(signed.as_bytes());
            Some(format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())))
        })
        .collect();
    let signature = SigningKey::from_bytes(key.seed()).sign(signed.as_bytes());
    all.push(format!("v1a,{}", BASE64.encode(&signature.to_bytes())));
    all.join(" ")
}

/// The value of `webhook-timestamp`.
pub fn seconds(at: Timestamp) -> i64 {
    at.millis().div_euclid(1000)
}
