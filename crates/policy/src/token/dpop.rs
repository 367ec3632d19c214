//! Proof of possession (RFC 9449): whoever shows a bound token signs the request with the key it is bound to.
//!
//! Deliberately absent: remembering proofs. The caller keeps each [`Proven::jti`] until [`Proven::forget_after`] and
//! refuses it the second time.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use toolgate_contracts::{Fault, FaultKind, Timestamp, json as strict};
use url::Url;

use super::jose::{self, PublicKey};
use super::{Claims, seconds};

const TYPE: &str = "dpop+jwt";
pub const PROOF_BYTES_MAX: usize = 4 * 1024;
/// How far the prover's clock may be from ours, either way.
pub const CLOCK_S_MAX: u64 = 60;
const JTI_BYTES_MAX: usize = 128;

/// The request that a proof must be made for.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// Where the request was sent, as clients see it; query and fragment do not matter.
    pub uri: &'a Url,
    pub now: Timestamp,
    /// The token that is shown with it. Absent only where a key is introduced: no token is bound to it yet.
    pub token: Option<&'a str>,
}

/// What a proof proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The thumbprint of the key.
    pub jkt: String,
    /// Good once. Ids of different keys have nothing to do with each other: remember it together with `jkt`.
    pub jti: String,
    pub forget_after: Timestamp,
}

/// Why a proof is not accepted; for the log, and for whoever writes a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    #[error("the token is bound to a key and was shown without a proof")]
    Missing,
    #[error("it is not a compact JWT: {0}")]
    Unreadable(&'static str),
    #[error("its header is not that of a proof: {0}")]
    Header(&'static str),
    #[error("its signature does not fit its key")]
    Signature,
    #[error("its claims are not those of a proof: {0}")]
    Claims(&'static str),
    #[error("it was made for another method or address")]
    Request,
    #[error("its `iat` is more than {CLOCK_S_MAX} seconds away")]
    Time,
    #[error("its `ath` is not that of the token")]
    Token,
    #[error("it was made with another key than the token is bound to")]
    Key,
    /// Found by whoever remembers proofs.
    #[error("it was shown before, and each counts once")]
    Replayed,
}

impl ProofError {
    /// 401. A proof holds no secret, so its maker is told what is wrong with it.
    pub fn fault(&self) -> Fault {
        let remedy = "make a new proof for this request with the key that the token is bound to, and send it as `DPoP`";
        Fault::new(FaultKind::Unauthenticated, format!("the proof of possession is not valid: {self}"), remedy)
            .with_details(json!({"error": "invalid_dpop_proof"}))
    }
}

#[derive(Deserialize)]
struct ProofClaims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    #[serde(default)]
    ath: Option<String>,
}

/// What every use of a token must pass: one that is bound is nothing without its proof, and never a plain bearer.
pub fn possession(claims: &Claims, proof: Option<&str>, expected: &Expected<'_>) -> Result<Option<Proven>, ProofError> {
    let Some(bound) = &claims.cnf else { return Ok(None) };
    let proven = check(proof.ok_or(ProofError::Missing)?, expected)?;
    if expected.token.is_none() {
        return Err(ProofError::Token);
    }
    if !same(&proven.jkt, &bound.jkt) {
        return Err(ProofError::Key);
    }
    Ok(Some(proven))
}

/// Checks a proof by itself. Whether its key is the right one is [`possession`]'s question.
pub fn check(proof: &str, expected: &Expected<'_>) -> Result<Proven, ProofError> {
    let parts = jose::split(proof, PROOF_BYTES_MAX).map_err(ProofError::Unreadable)?;
    let member = |name: &str| parts.header.get(name).and_then(Value::as_str).unwrap_or_default();
    if member("typ") != TYPE {
        return Err(ProofError::Header("`typ` is not `dpop+jwt`"));
    }
    if parts.header.get("crit").is_some() {
        return Err(ProofError::Header("`crit` is not understood"));
    }
    let key = parts.header.get("jwk").and_then(PublicKey::from_jwk);
    let key = key.ok_or(ProofError::Header("`jwk` is not a public key of Ed25519 or P-256"))?;
    if !key.is_used_with(member("alg")) {
        return Err(ProofError::Header("`alg` is not EdDSA, Ed25519 or ES256, as the key demands"));
    }
    if !parts.is_signed_by(&key) {
        return Err(ProofError::Signature);
    }
    let value = strict::read(&parts.payload, PROOF_BYTES_MAX).map_err(|_| ProofError::Claims("not strict JSON"))?;
    let ProofClaims { jti, htm, htu, iat, ath } =
        strict::decode(value).map_err(|_| ProofError::Claims("`jti`, `htm`, `htu` and a whole `iat` are needed"))?;
    if jti.is_empty() || jti.len() > JTI_BYTES_MAX {
        return Err(ProofError::Claims("`jti` is empty or too long"));
    }
    if htm != expected.method || !is_address(&htu, expected.uri) {
        return Err(ProofError::Request);
    }
    if seconds(expected.now).abs_diff(iat) > CLOCK_S_MAX {
        return Err(ProofError::Time);
    }
    if let Some(token) = expected.token {
        let wanted = BASE64URL_NOPAD.encode(&Sha256::digest(token));
        if !ath.is_some_and(|ath| same(&ath, &wanted)) {
            return Err(ProofError::Token);
        }
    }
    let forget_after = Timestamp::from_millis(i64::try_from(iat).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
        .plus_seconds(CLOCK_S_MAX.cast_signed() + 1);
    Ok(Proven { jkt: key.thumbprint(), jti, forget_after })
}

/// Written without query and fragment, and after parsing the same as where the request went.
fn is_address(htu: &str, uri: &Url) -> bool {
    let mut went = uri.clone();
    went.set_query(None);
    went.set_fragment(None);
    Url::parse(htu).is_ok_and(|said| said == went)
}

fn same(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}
