//! A capability token at the door: its text is checked, its proof where it is bound to a key, and whom it stands for.
//!
//! Deliberately absent: reading a token from an address. Only a header, and the body of `/invoke`, carry one.

use std::sync::Arc;

use axum::http::request::Parts;
use toolgate_contracts::{Caller, Digest, Fault, FaultKind};
use toolgate_policy::token::dpop::{self, ProofError};
use toolgate_policy::token::{Claims, Expected, Keys, SigningKey, TokenError, key_id, verify};
use toolgate_vault::Purpose;

use super::header_text;
use crate::app::App;
use crate::proxies;

/// The header in which a proof of possession comes (RFC 9449).
const PROOF_HEADER: &str = "dpop";

/// A token that was let in a moment ago.
pub struct KnownToken {
    claims: Claims,
    caller: Caller,
}

/// The path that was asked for, where it is another name of the one that answers: proofs are made for that one.
#[derive(Clone, Debug)]
pub struct AskedFor(pub String);

/// How a token was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// `Authorization: Bearer`: whoever has the text has the token.
    Bearer,
    /// `Authorization: DPoP`, or in a body: with a proof, where the token is bound to a key.
    Proven,
    /// As it was shown before, for a stream that stays open: the proof has been spent.
    Again,
}

/// Whether a credential looks like a token. No key does.
pub fn is_token(text: &str) -> bool {
    text.split('.').count() == 3
}

pub async fn token_caller(app: &App, text: &str, manner: Manner, request: &Parts) -> Result<Caller, Fault> {
    let fingerprint = Digest::of(text.as_bytes());
    let known = if let Some(known) = app.tokens.get(&fingerprint) {
        known
    } else {
        let known = Arc::new(believed(app, text).await?);
        app.tokens.insert(fingerprint, Arc::clone(&known));
        known
    };
    if known.claims.expires_at() <= app.clock.now() {
        return Err(TokenError::Expired.fault());
    }
    if manner != Manner::Again {
        require_possession(app, text, &known.claims, manner, request).await?;
    }
    Ok(known.caller.clone())
}

/// The signature first: nothing that a stranger writes is looked up in the database but the key's id.
async fn believed(app: &App, text: &str) -> Result<KnownToken, Fault> {
    let kid = key_id(text).map_err(|error| error.fault())?;
    let key = app.keyring.by_kid(Purpose::Token, None, &kid).await?;
    let keys = Keys::new(key.map(|key| (kid, SigningKey::from_bytes(key.seed()).verifying_key())));
    let issuer = app.issuer()?;
    let expected =
        Expected { issuer: &issuer, audience: &issuer, now: app.clock.now(), epoch: app.engine.audit().epoch() };
    let claims = verify(text, &keys, &expected).map_err(|error| error.fault())?;
    let caller = app.engine.caller_by_token(claims.tenant, claims.jti).await?;
    Ok(KnownToken { claims, caller })
}

async fn require_possession(
    app: &App,
    text: &str,
    claims: &Claims,
    manner: Manner,
    request: &Parts,
) -> Result<(), Fault> {
    if claims.cnf.is_none() {
        return Ok(());
    }
    if manner == Manner::Bearer {
        return Err(ProofError::Missing.fault());
    }
    let mut proofs = request.headers.get_all(PROOF_HEADER).iter();
    let proof =
        header_text(&request.headers, PROOF_HEADER).filter(|_| proofs.next().is_some() && proofs.next().is_none());
    let address = address_of(app, request).ok_or_else(|| ProofError::Request.fault())?;
    let expected =
        dpop::Expected { method: request.method.as_str(), uri: &address, now: app.clock.now(), token: Some(text) };
    let Some(proven) = dpop::possession(claims, proof, &expected).map_err(|error| error.fault())? else {
        return Ok(());
    };
    let spent = Digest::of(format!("{}.{}", proven.jkt, proven.jti).as_bytes());
    let first = app.store.spend_proof(claims.tenant, spent, proven.forget_after).await?;
    if first { Ok(()) } else { Err(ProofError::Replayed.fault()) }
}

/// Where the request was sent, as whoever sent it knows it.
fn address_of(app: &App, request: &Parts) -> Option<reqwest::Url> {
    let origin = match app.config.get("public_url") {
        "" => proxies::own_origin(&request.headers, request.extensions.get())?,
        url => url.to_owned(),
    };
    let path = request.extensions.get::<AskedFor>().map_or(request.uri.path(), |asked| &asked.0);
    format!("{origin}{path}").parse().ok()
}

impl App {
    /// Who signs tokens, and for whom: how people reach this installation, else a name that all its replicas share.
    pub fn issuer(&self) -> Result<String, Fault> {
        match self.config.get("public_url") {
            "" => self.audit.origin(toolgate_contracts::TenantId::SYSTEM).map(|origin| origin.to_string()),
            url => Ok(url.to_owned()),
        }
    }

    /// Whom a capability token stands for that came in a body, if it is good here and now.
    pub(crate) async fn token_caller(&self, token: &str, request: &Parts) -> Result<Caller, Fault> {
        if !is_token(token) {
            let told = "`capability_token` is no capability token";
            let remedy = "send one that `toolgate token mint` or `POST /api/v1/tokens` made; a key is not taken here";
            return Err(Fault::new(FaultKind::Unauthenticated, told, remedy).at("/capability_token"));
        }
        token_caller(self, token, Manner::Proven, request).await
    }
}
