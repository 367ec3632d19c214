//! Just as much of JOSE as is needed: compact JWS in strict base64url, Ed25519 keys, and ES256 for proofs that browsers
//! make. Algorithms are chosen by the key that is expected, never by what the text asks for.

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use p256::ecdsa::signature::Verifier as _;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolgate_contracts::json;

/// A compact JWS, taken apart. Nothing in it is believed yet.
pub struct Parts<'a> {
    pub header: Value,
    pub payload: Vec<u8>,
    signature: Vec<u8>,
    signed: &'a [u8],
}

pub fn split(text: &str, bytes_max: usize) -> Result<Parts<'_>, &'static str> {
    if text.len() > bytes_max {
        return Err("it is too long");
    }
    let (signed, signature) = text.rsplit_once('.').ok_or("it has no three parts")?;
    let (header, payload) = signed.split_once('.').ok_or("it has no three parts")?;
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| "a part is not base64url");
    let header = json::read(&decode(header)?, bytes_max).map_err(|_| "the header is not strict JSON")?;
    Ok(Parts { header, payload: decode(payload)?, signature: decode(signature)?, signed: signed.as_bytes() })
}

pub fn sign(header: &Value, payload: &[u8], key: &SigningKey) -> String {
    let header = json::canonical(header);
    let signed = format!("{}.{}", BASE64URL_NOPAD.encode(header.as_bytes()), BASE64URL_NOPAD.encode(payload));
    let signature = key.sign(signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature.to_bytes()))
}

impl Parts<'_> {
    /// Strict: a key of small order, or a signature that other verifiers read differently, is refused.
    pub fn is_signed_by_ed25519(&self, key: &VerifyingKey) -> bool {
        Signature::from_slice(&self.signature).is_ok_and(|signature| key.verify_strict(self.signed, &signature).is_ok())
    }

    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        match key {
            PublicKey::Ed25519(key) => self.is_signed_by_ed25519(key),
            PublicKey::P256(key) => p256::ecdsa::Signature::from_slice(&self.signature)
                .is_ok_and(|signature| key.verify(self.signed, &signature).is_ok()),
        }
    }
}

/// The kinds of key that a proof may be made with.
pub enum PublicKey {
    Ed25519(VerifyingKey),
    P256(p256::ecdsa::VerifyingKey),
}

impl PublicKey {
    /// Reads a JWK that holds a public key and nothing secret.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let member = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let decoded = member(name).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
            decoded.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        };
        if ["d", "k", "p", "q"].iter().any(|secret| jwk.get(secret).is_some()) {
            return None;
        }
        match (member("kty")?, member("crv")?) {
            ("OKP", "Ed25519") => {
                let key = VerifyingKey::from_bytes(&bytes("x")?).ok()?;
                (!key.is_weak()).then_some(Self::Ed25519(key))
            }
            ("EC", "P-256") => {
                let point = [[4].as_slice(), &bytes("x")?, &bytes("y")?].concat();
                p256::ecdsa::VerifyingKey::from_sec1_bytes(&point).ok().map(Self::P256)
            }
            _ => None,
        }
    }

    /// The `alg` that goes with the key.
    pub fn is_used_with(&self, algorithm: &str) -> bool {
        match self {
            Self::Ed25519(_) => matches!(algorithm, "EdDSA" | "Ed25519"),
            Self::P256(_) => algorithm == "ES256",
        }
    }

    pub fn thumbprint(&self) -> String {
        let jwk = match self {
            Self::Ed25519(key) => ed25519_jwk(key),
            Self::P256(key) => {
                let point = key.to_sec1_point(false);
                let coordinate = |bytes: Option<&[u8]>| BASE64URL_NOPAD.encode(bytes.unwrap_or_default()).into();
                let (x, y) = (point.x().map(AsRef::as_ref), point.y().map(AsRef::as_ref));
                [("kty", "EC".into()), ("crv", "P-256".into()), ("x", coordinate(x)), ("y", coordinate(y))]
                    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
                    .into_iter()
                    .collect()
            }
        };
        BASE64URL_NOPAD.encode(&Sha256::digest(json::canonical(&Value::Object(jwk))))
    }
}

/// RFC 8037.
pub fn ed25519_jwk(key: &VerifyingKey) -> Map<String, Value> {
    [("kty", "OKP".to_owned()), ("crv", "Ed25519".to_owned()), ("x", BASE64URL_NOPAD.encode(key.as_bytes()))]
        .map(|(name, value)| (name.to_owned(), value.into()))
        .into_iter()
        .collect()
}

/// The key of a JWK, if it is of this kind.
pub fn ed25519_of(jwk: &Value) -> Option<VerifyingKey> {
    match PublicKey::from_jwk(jwk)? {
        PublicKey::Ed25519(key) => Some(key),
        PublicKey::P256(_) => None,
    }
}

/// RFC 7638: what `cnf.jkt` of a token bound to this key says.
pub fn thumbprint(key: &VerifyingKey) -> String {
    PublicKey::Ed25519(*key).thumbprint()
}
