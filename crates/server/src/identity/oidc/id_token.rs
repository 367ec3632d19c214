//! What a provider signed, checked: the signature by a key of its own, and the claims that make it an answer to us.
//!
//! The algorithm is one of a short list and must be that of the key; a key that a token brings along is not looked at.
//! Deliberately absent: encrypted tokens, and secrets shared with the provider as keys (HS256).

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use toolgate_contracts::{Timestamp, json};

pub const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// How far the provider's clock may be from ours, either way.
pub const SKEW_S: i64 = 60;
/// A token that was made longer ago is no answer to a sign-in of now.
const AGE_S_MAX: i64 = 10 * 60;
const SUBJECT_BYTES_MAX: usize = 255;
const KEYS_MAX: usize = 64;

/// A public key that the provider publishes.
#[derive(Clone, Debug)]
pub struct Key {
    id: Option<String>,
    /// The one algorithm it is for, where the provider says so.
    only: Option<String>,
    kind: KeyKind,
}

#[derive(Clone, Debug)]
enum KeyKind {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The keys of a set that can be used here; others are left out.
pub fn keys(set: &Value) -> Vec<Key> {
    let listed = set.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    listed.iter().take(KEYS_MAX).filter_map(key).collect()
}

fn key(jwk: &Value) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let bytes = |name: &str| text(name).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let point = |length: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        (x.len() == length && y.len() == length).then(|| [[4].as_slice(), &x, &y].concat())
    };
    let whole = |mut number: Vec<u8>| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.drain(..zeros);
        number
    };
    let kind = match (text("kty")?, text("crv")) {
        ("RSA", _) => KeyKind::Rsa { n: whole(bytes("n")?), e: whole(bytes("e")?) },
        ("EC", Some("P-256")) => KeyKind::P256(point(32)?),
        ("EC", Some("P-384")) => KeyKind::P384(point(48)?),
        ("OKP", Some("Ed25519")) => KeyKind::Ed25519(bytes("x").filter(|key| key.len() == 32)?),
        _ => return None,
    };
    Some(Key { id: text("kid").map(str::to_owned), only: text("alg").map(str::to_owned), kind })
}

impl Key {
    /// Whether it signed a text, by an algorithm that goes with it.
    fn signed(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        if self.only.as_deref().is_some_and(|only| only != algorithm) {
            return false;
        }
        let rsa = |parameters: &RsaParameters, n: &[u8], e: &[u8]| {
            RsaPublicKeyComponents { n, e }.verify(parameters, text, signature).is_ok()
        };
        let other = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(text, signature).is_ok()
        };
        match (algorithm, &self.kind) {
            ("RS256", KeyKind::Rsa { n, e }) => rsa(&RSA_PKCS1_2048_8192_SHA256, n, e),
            ("RS384", KeyKind::Rsa { n, e }) => rsa(&RSA_PKCS1_2048_8192_SHA384, n, e),
            ("RS512", KeyKind::Rsa { n, e }) => rsa(&RSA_PKCS1_2048_8192_SHA512, n, e),
            ("PS256", KeyKind::Rsa { n, e }) => rsa(&RSA_PSS_2048_8192_SHA256, n, e),
            ("ES256", KeyKind::P256(key)) => other(&ECDSA_P256_SHA256_FIXED, key),
            ("ES384", KeyKind::P384(key)) => other(&ECDSA_P384_SHA384_FIXED, key),
            ("EdDSA" | "Ed25519", KeyKind::Ed25519(key)) => other(&ED25519, key),
            _ => false,
        }
    }
}

/// What a token must say to be an answer to us.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No key that is known signed it; the provider may have new ones.
    Signature,
    Other(&'static str),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Signature => f.write_str("the ID token is signed by no key of the provider"),
            Self::Other(what) => write!(f, "the ID token {what}"),
        }
    }
}

/// What is believed of whoever signed in.
#[derive(Clone, Debug)]
pub struct Said {
    pub subject: String,
    /// When they last showed the provider who they are, where it says so.
    pub proved_at: Option<Timestamp>,
    pub claims: Value,
}

pub fn check(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Said, Wrong> {
    said(opened(token, keys)?.1, expected)
}

/// The head and the claims of what one of these keys signed. What they say is not judged yet.
pub fn opened(token: &str, keys: &[Key]) -> Result<(Value, Value), Wrong> {
    let no = |what| Err(Wrong::Other(what));
    if token.len() > TOKEN_BYTES_MAX {
        return no("is too long");
    }
    let mut parts = token.split('.');
    let (Some(header), Some(payload), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return no("has no three parts");
    };
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| Wrong::Other("is not base64url"));
    let read = |bytes: &[u8]| json::read(bytes, TOKEN_BYTES_MAX).map_err(|_| Wrong::Other("is not strict JSON"));
    let head = read(&decode(header)?)?;
    let signature = decode(signature)?;
    let member = |name: &str| head.get(name).and_then(Value::as_str);
    if head.get("crit").is_some() {
        return no("has a `crit` that is not understood");
    }
    let algorithm = member("alg").unwrap_or_default();
    let signed = &token.as_bytes()[..header.len() + 1 + payload.len()];
    let mut candidates = keys.iter().filter(|key| match (member("kid"), &key.id) {
        (Some(wanted), Some(id)) => wanted == id,
        (Some(_), None) => false,
        (None, _) => true,
    });
    if !candidates.any(|key| key.signed(algorithm, signed, &signature)) {
        return Err(Wrong::Signature);
    }
    let claims = read(&decode(payload)?)?;
    Ok((head, claims))
}

/// The claims of a token whose signature was checked.
fn said(claims: Value, expected: &Expected<'_>) -> Result<Said, Wrong> {
    let no = |what| Err(Wrong::Other(what));
    let Expected { issuer, client_id, nonce, now } = *expected;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value
            .as_i64()
            .filter(|at| (0..1 << 40).contains(at))
            .map(Some)
            .ok_or(Wrong::Other("has a time that is none")),
    };
    if text("iss") != Some(issuer) {
        return no("is of another issuer");
    }
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !audience.contains(&client_id) {
        return no("is for another client");
    }
    let party = text("azp");
    if party.is_some_and(|party| party != client_id) || (audience.len() > 1 && party.is_none()) {
        return no("was made for another party");
    }
    let seconds = now.millis().div_euclid(1000);
    let (Some(expires), Some(issued)) = (time("exp")?, time("iat")?) else {
        return no("has no `exp` or no `iat`");
    };
    if expires <= seconds - SKEW_S || time("nbf")?.is_some_and(|from| from > seconds + SKEW_S) {
        return no("has run out, or does not hold yet");
    }
    if issued > seconds + SKEW_S || issued < seconds - AGE_S_MAX - SKEW_S {
        return no("was not made just now");
    }
    let same = text("nonce").is_some_and(|said| said.as_bytes().ct_eq(nonce.as_bytes()).into());
    if !same {
        return no("answers another sign-in (`nonce`)");
    }
    let Some(subject) = text("sub").filter(|sub| (1..=SUBJECT_BYTES_MAX).contains(&sub.len())) else {
        return no("does not say who it is about");
    };
    // A time to come proves nothing.
    let proved = time("auth_time")?.filter(|at| *at <= seconds + SKEW_S).map(|at| at.min(seconds));
    let proved_at = proved.map(|at| Timestamp::from_millis(at * 1000));
    Ok(Said { subject: subject.to_owned(), proved_at, claims })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Signed by another program (OpenSSL), with an RSA key that is gone: `{"alg":"RS256","kid":"r"}`.
    const N: &str = "pE-koZcESrVfpVT1cBP0MxsWHuYnQm6msuOSkejn2WS6kr-17ds35AXV2THPFw4CxWg2KLE5iLiC0QXkfKLSVtIYYBxzVA1tmAh-Q9irun4-uwStw-vi9ZObfhE6M53jC5MyMtdvouRxi3qBZoOCJCSSxpiLqaM35lXBfA0RFSfBlbAncyd331qIe4okEC4VwToLMj2-MpVe7cv_i5vUPLPaMZjO9-4-x_mHqyXjRoZEMW0qm2Yj_usgXh70yoJQURMfOkcxQKrXrY6UQrte6vc0FP9cQmk1NiE29cZUfDf1_tsAgbNkdKvTFJBAgCIBjdnOUfFBifDGel_9xagMbQ";
    const SIGNED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJ1cyIsInN1YiI6InMiLCJub25jZSI6Im4iLCJpYXQiOjE3OTQ3MDAwMDAsImV4cCI6MTc5NDcwMDMwMH0";
    const SIGNATURE: &str = "QdbuRYHyvWXsWRw7xcdbZTyTbS1m8hCmpC7Cw0epp_g9gqt803U9u9aR2UJlb0NLWNlZ8ktkXF9vuGjvTogrWIjLSY-UROdIHEVGjNk09vsmmlzHz87PTltA_TwvfAJkbeh2R5rSRDDfXuElRFAlpbKAkbIJjYaGEsIwwfhmwxZKMYVUfb2lgoECm6P2gbGZ3hS9M9STNvB02Vl9hCOtHl0hT30qSnRpyyVYKApZY3pmS8aRid8DlKbpcbG5gupZUjqligzNrCNiNDbhc7q7wwndkjSeThBVIuU1wrgtvTyyUp7ht3_uH6BHoFepZ1wrL_mubbuy-jv9q2sn7Hgn1Q";

    fn expected(now: i64) -> Expected<'static> {
        Expected { issuer: "https://id.example", client_id: "us", nonce: "n", now: Timestamp::from_millis(now * 1000) }
    }

    #[test]
    fn what_another_program_signed_by_rsa_is_believed_with_its_key_and_algorithm_alone() {
        #[track_caller]
        fn check_key(key: &Value, fits: bool) {
            let token = format!("{SIGNED}.{SIGNATURE}");
            let found = check(&token, &keys(&json!({"keys": [key]})), &expected(1_794_700_010));
            assert_eq!(found.is_ok(), fits, "{key} {found:?}");
        }
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB", "kid": "r"}), true);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB", "kid": "r", "use": "sig", "alg": "RS256"}), true);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB", "kid": "r", "alg": "PS256"}), false);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB", "kid": "r", "use": "enc"}), false);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB", "kid": "other"}), false);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAB"}), false);
        check_key(&json!({"kty": "RSA", "n": N, "e": "AQAC", "kid": "r"}), false);
        check_key(&json!({"kty": "oct", "k": N, "kid": "r"}), false);
    }

    #[test]
    fn a_token_holds_for_its_time_and_a_minute_more() {
        let key = keys(&json!({"keys": [{"kty": "RSA", "n": N, "e": "AQAB", "kid": "r"}]}));
        let token = format!("{SIGNED}.{SIGNATURE}");
        for (now, holds) in [
            (1_794_699_939, false),
            (1_794_699_940, true),
            (1_794_700_300, true),
            (1_794_700_359, true),
            (1_794_700_360, false),
        ] {
            assert_eq!(check(&token, &key, &expected(now)).is_ok(), holds, "{now}");
        }
    }

    #[test]
    fn a_text_that_was_changed_or_is_no_token_is_refused() {
        let key = keys(&json!({"keys": [{"kty": "RSA", "n": N, "e": "AQAB", "kid": "r"}]}));
        let at = expected(1_794_700_010);
        let other = SIGNED.replace("J1cyI", "J2cyI");
        for text in [
            String::new(),
            "..".to_owned(),
            SIGNED.to_owned(),
            format!("{SIGNED}."),
            format!("{SIGNED}.{SIGNATURE}."),
            format!("{SIGNED}.{SIGNATURE}="),
            format!("{other}.{}", &SIGNATURE[1..]),
            format!("{}.{SIGNATURE}", &SIGNED[1..]),
            "x".repeat(TOKEN_BYTES_MAX + 1),
        ] {
            assert!(check(&text, &key, &at).is_err(), "{text}");
        }
    }
}
