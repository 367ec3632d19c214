//! Capability tokens: EdDSA JWTs that the server alone mints, narrows and checks.
//!
//! What a token allows is in its claims and only shrinks from parent to child. Deliberately absent: revocation, counters
//! and remembered proofs, which live in rows of the store; and offline narrowing by the holder, which would need logic
//! at every verifier to tell narrower from wider.

pub mod dpop;
mod jose;
mod mint;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::token::ChainedToken;
use toolgate_contracts::{
    AgentId, Amount, ErrorCode, Fault, FaultKind, FoldedName, HeldToken, Principal, RunId, TenantId, Timestamp,
    TokenId, ToolError, json as strict,
};

pub use ed25519_dalek::{SigningKey, VerifyingKey};
pub use jose::thumbprint;
pub use mint::{MintRequest, Root, mint, narrow};
pub use toolgate_contracts::token::{DEPTH_MAX, Scope, ScopeError};

use crate::constraint::Constraints;
use crate::labels::Labels;

/// `typ` of the header: a token for anything else is none of ours.
pub const TYPE: &str = "tg-cap+jwt";
/// What we write; RFC 9864 calls the same thing `Ed25519`, which is read too.
const ALGORITHM: &str = "EdDSA";
const ALGORITHMS: [&str; 2] = [ALGORITHM, "Ed25519"];

/// It travels in a header.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
pub const LIFETIME_S_DEFAULT: u32 = 5 * 60;
pub const LIFETIME_S_MAX: u32 = 15 * 60;
pub const SCOPES_MAX: usize = 64;

/// What a token says. Times are whole seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = TokenClaims)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    pub iss: String,
    pub aud: String,
    /// Who is answerable.
    #[schema(value_type = String)]
    pub sub: Principal,
    /// The agent that acts for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Act>,
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[schema(value_type = Vec<String>)]
    pub scope: Vec<Scope>,
    pub constraints: Constraints,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_max: Option<Labels>,
    pub iat: u64,
    pub nbf: u64,
    pub exp: u64,
    pub jti: TokenId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TokenId>,
    pub depth: u32,
    /// Raised when an older state of the database is restored: what was minted before is void.
    pub epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cnf: Option<Confirmation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Act {
    pub sub: AgentId,
}

/// RFC 9449: whoever shows the token proves that they hold the key with this thumbprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    pub jkt: String,
}

/// The keys that may have signed: the one that signs now, and older ones until the last token of theirs has expired.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<(String, VerifyingKey)>);

impl Keys {
    pub fn new(keys: impl IntoIterator<Item = (String, VerifyingKey)>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// Those of a set as [`Keys::jwks`] writes it; keys of other kinds are left out.
    pub fn from_jwks(set: &Value) -> Self {
        let keys = set["keys"].as_array().into_iter().flatten();
        let named = keys.filter_map(|jwk| Some((jwk["kid"].as_str()?.to_owned(), jose::ed25519_of(jwk)?)));
        Self(named.collect())
    }

    fn get(&self, kid: &str) -> Option<&VerifyingKey> {
        self.0.iter().find(|(known, _)| known == kid).map(|(_, key)| key)
    }

    /// RFC 7517, for `/.well-known/jwks.json`.
    pub fn jwks(&self) -> Value {
        let keys = self.0.iter().map(|(kid, key)| {
            let mut jwk = jose::ed25519_jwk(key);
            jwk.extend(
                [("kid", kid.as_str()), ("alg", ALGORITHM), ("use", "sig")].map(|(k, v)| (k.to_owned(), v.into())),
            );
            Value::Object(jwk)
        });
        json!({"keys": keys.collect::<Vec<_>>()})
    }
}

/// What a token must say to be one for here and now.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
    pub now: Timestamp,
    pub epoch: u64,
}

/// Why a token is not accepted. The text is for the log: a stranger is told less, by [`TokenError::fault`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is not a compact JWT: {0}")]
    Unreadable(&'static str),
    #[error("its header says more or less than `alg`, `typ` and `kid`")]
    Header,
    #[error("its `alg` is not {ALGORITHM}")]
    Algorithm,
    #[error("its `typ` is not {TYPE}")]
    Type,
    #[error("its `kid` is no key of ours")]
    Key,
    #[error("its signature does not fit")]
    Signature,
    #[error("its claims are not ours: {0}")]
    Claims(String),
    #[error("its `iss` is not this server")]
    Issuer,
    #[error("its `aud` is not this server")]
    Audience,
    #[error("it is not valid yet")]
    NotYet,
    #[error("it has expired")]
    Expired,
    #[error("it was minted before the database was restored")]
    Epoch,
}

impl TokenError {
    /// The word of `AUTH_REQUIRED`, where there is one for it.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Expired => Some("token_expired"),
            Self::Epoch => Some("token_revoked"),
            _ => None,
        }
    }

    /// 401. Why a forged token failed is nobody's business but the log's.
    pub fn fault(&self) -> Fault {
        let told = match self {
            Self::Expired => "the token has expired",
            Self::Epoch => "the token was revoked",
            Self::NotYet => "the token is not valid yet",
            _ => "the token is not valid here",
        };
        let fault = Fault::new(
            FaultKind::Unauthenticated,
            told,
            "ask for a new one with `toolgate token mint` or `POST /api/v1/tokens`",
        )
        .with_log(format_args!("a token was refused: {self}"));
        match self.reason() {
            Some(reason) => fault.with_details(json!({"reason": reason})),
            None => fault,
        }
    }
}

/// The compact form. Its payload is canonical JSON, the only spelling that [`verify`] reads.
pub fn sign(claims: &Claims, kid: &str, key: &SigningKey) -> String {
    let header = json!({"alg": ALGORITHM, "kid": kid, "typ": TYPE});
    jose::sign(&header, canonical(claims).as_bytes(), key)
}

fn canonical(claims: &Claims) -> String {
    serde_json::to_value(claims).map(|claims| strict::canonical(&claims)).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    typ: String,
    kid: String,
}

/// What a token says that one of the keys has signed: for whom, and whether now, is not looked at. For whoever only
/// shows it.
pub fn read(text: &str, keys: &Keys) -> Result<Claims, TokenError> {
    let parts = jose::split(text, TOKEN_BYTES_MAX).map_err(TokenError::Unreadable)?;
    let header = header_of(&parts)?;
    let key = keys.get(&header.kid).ok_or(TokenError::Key)?;
    if !parts.is_signed_by_ed25519(key) {
        return Err(TokenError::Signature);
    }
    read_claims(&parts.payload)
}

/// Believes a token, or says why not. Whether it was revoked or spent only the store knows, and whether its holder has
/// the key it is bound to, [`dpop::possession`] checks.
pub fn verify(text: &str, keys: &Keys, expected: &Expected<'_>) -> Result<Claims, TokenError> {
    let claims = read(text, keys)?;
    if claims.iss != expected.issuer {
        return Err(TokenError::Issuer);
    }
    if claims.aud != expected.audience {
        return Err(TokenError::Audience);
    }
    let now = seconds(expected.now);
    if now < claims.nbf || now < claims.iat {
        return Err(TokenError::NotYet);
    }
    if now >= claims.exp {
        return Err(TokenError::Expired);
    }
    if claims.epoch != expected.epoch {
        return Err(TokenError::Epoch);
    }
    Ok(claims)
}

fn header_of(parts: &jose::Parts<'_>) -> Result<Header, TokenError> {
    // Whatever else a header may say (`jwk`, `jku`, `x5u`, `crit`) asks us to believe somebody else's key or rules.
    let header: Header = strict::decode(parts.header.clone()).map_err(|_| TokenError::Header)?;
    if !ALGORITHMS.contains(&header.alg.as_str()) {
        return Err(TokenError::Algorithm);
    }
    if header.typ != TYPE {
        return Err(TokenError::Type);
    }
    Ok(header)
}

fn read_claims(payload: &[u8]) -> Result<Claims, TokenError> {
    let refused = |why: &str| TokenError::Claims(why.to_owned());
    let value = strict::read(payload, TOKEN_BYTES_MAX).map_err(|error| refused(&error.to_string()))?;
    // One spelling only, so that a time written `1.0` or `1e9` is as little a time as one written in quotes.
    if strict::canonical(&value).as_bytes() != payload {
        return Err(refused("the payload is not canonical JSON"));
    }
    let claims: Claims = strict::decode(value).map_err(|error| refused(&error.to_string()))?;
    let Claims { scope, constraints, iat, nbf, exp, parent, depth, .. } = &claims;
    let wrong = if nbf < iat || exp <= nbf || exp - iat > u64::from(LIFETIME_S_MAX) {
        Some("`iat`, `nbf` and `exp` do not follow each other within the longest lifetime")
    } else if *depth > DEPTH_MAX || (*depth > 0) != parent.is_some() {
        Some("`depth` and `parent` do not fit each other")
    } else if scope.is_empty() || scope.len() > SCOPES_MAX || constraints.len() > crate::constraint::CONSTRAINTS_MAX {
        Some("`scope` or `constraints` has no usable length")
    } else {
        None
    };
    wrong.map_or(Ok(claims), |why| Err(refused(why)))
}

/// The key that a token says it was signed with, to be looked for. Nothing else in it is believed yet.
pub fn key_id(text: &str) -> Result<String, TokenError> {
    let parts = jose::split(text, TOKEN_BYTES_MAX).map_err(TokenError::Unreadable)?;
    header_of(&parts).map(|header| header.kid)
}

/// Whether the token allows these arguments, which have their defaults. Scope decides before, on whether the tool is
/// there at all.
pub fn check_arguments(token: &HeldToken, names: &[&FoldedName], input: &Value) -> Result<(), ToolError> {
    if token.constraints.is_empty() {
        return Ok(());
    }
    // What cannot be read denies.
    let constraints = Constraints::parse(&token.constraints).map_err(|fault| fault.told().to_owned());
    constraints.and_then(|constraints| constraints.check(names, input)).map_err(|why| {
        ToolError::because(ErrorCode::PolicyDenied, "constraint", why)
            .with("token", token.id.to_string())
            .with("remedy", "keep to what the token allows, or ask for another one")
    })
}

impl Claims {
    /// As every check reads it: with those above it, itself first, and the label context of whoever minted the first.
    pub fn held(&self, chain: Vec<ChainedToken>, context: String) -> HeldToken {
        let constraints = match serde_json::to_value(&self.constraints) {
            Ok(Value::Array(constraints)) => constraints,
            // Unreadable, so that it denies.
            _ => vec![Value::Null],
        };
        HeldToken {
            id: self.jti,
            scope: self.scope.clone(),
            constraints,
            labels_max: self.labels_max.map(Labels::to_vec),
            run: self.run,
            expires_at: self.expires_at(),
            context,
            chain,
        }
    }

    /// What is counted of this one.
    pub fn chained(&self) -> ChainedToken {
        ChainedToken { id: self.jti, budget: self.budget, max_calls: self.max_calls }
    }

    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.exp).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
    }
}

/// Time before 1970 is no time of ours.
fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.millis().div_euclid(1000)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
