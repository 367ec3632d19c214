//! Capability tokens at the edge: what must not be possible with them (`security.md` §11, tests 1 to 6, 17, 48, 58).

mod ending;
mod forged;
mod narrowing;
mod proofs;
mod reach;

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use toolgate_vault::Purpose;

use crate::world::{Answer, As, World};

impl World {
    async fn mint(&self, who: &As, body: Value) -> Value {
        let minted = self.send(who, "POST", "/api/v1/tokens", body).await;
        assert_eq!(minted.status, 201, "{:#}", minted.body);
        minted.body
    }

    /// Whoever shows a token that is minted by this caller.
    async fn holder(&self, who: &As, body: Value) -> As {
        shown(&self.mint(who, body).await)
    }

    async fn signing_key(&self) -> (String, SigningKey) {
        let key = self.app.keyring.key(Purpose::Token, None).await.unwrap();
        (key.kid().to_owned(), SigningKey::from_bytes(key.seed()))
    }

    async fn call(&self, who: &As, tool: &str, input: Value) -> Answer {
        self.send(who, "POST", "/api/v1/calls", json!({"tool": tool, "input": input})).await
    }

    /// Nothing is given for this token, and the answer does not say why more than it must.
    async fn check_refused(&self, token: &str, why: &str) -> Value {
        let refused = self.get(&As::Key(token.to_owned()), "/api/v1/tools").await;
        assert_eq!(refused.status, 401, "{why}: {:#}", refused.body);
        refused.refused(401)
    }
}

fn shown(minted: &Value) -> As {
    As::Key(minted["token"].as_str().unwrap().to_owned())
}

fn text(who: &As) -> &str {
    let As::Key(token) = who else { unreachable!() };
    token
}

fn id(minted: &Value) -> String {
    minted["id"].as_str().unwrap().to_owned()
}

fn part(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

fn header_of(kid: &str) -> Value {
    json!({"alg": "EdDSA", "kid": kid, "typ": "tg-cap+jwt"})
}

/// The claims of a token, as they were signed.
fn claims_of(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64URL_NOPAD.decode(payload.as_bytes()).unwrap()).unwrap()
}

fn forge(header: &Value, claims: &Value, key: &SigningKey) -> String {
    let signed = format!("{}.{}", part(header.to_string()), part(toolgate_contracts::json::canonical(claims)));
    format!("{signed}.{}", part(key.sign(signed.as_bytes()).to_bytes()))
}

fn with(mut value: Value, member: &str, to: Value) -> Value {
    value[member] = to;
    value
}

fn without(mut value: Value, member: &str) -> Value {
    value.as_object_mut().unwrap().shift_remove(member);
    value
}
