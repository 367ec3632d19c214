//! A token that is bound to a key, and the proofs that go with it (test 6 of `security.md` §11).

use axum::body::Body;
use axum::http::{Request, header};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_policy::token::thumbprint;
use tower::ServiceExt as _;

use super::{part, shown, text, with, without};
use crate::world::{As, answer, every_world};

/// A proof for a request, and what is changed in it.
fn proof(key: &SigningKey, claims: &Value, header: impl FnOnce(&mut Value)) -> String {
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": part(key.verifying_key().as_bytes())});
    let mut head = json!({"typ": "dpop+jwt", "alg": "EdDSA", "jwk": jwk});
    header(&mut head);
    let signed = format!("{}.{}", part(head.to_string()), part(claims.to_string()));
    format!("{signed}.{}", part(key.sign(signed.as_bytes()).to_bytes()))
}

#[tokio::test]
async fn test_6_a_bound_token_is_nothing_without_a_fresh_proof_for_this_very_request() {
    every_world(async |world| {
        let key = SigningKey::from_bytes(&[5; 32]);
        let jkt = thumbprint(&key.verifying_key());
        let token = world.mint(&As::Owner, json!({"scope": ["tool:*"], "jkt": jkt})).await;
        let other = world.mint(&As::Owner, json!({"scope": ["tool:*"], "jkt": jkt})).await;
        let (token, other) = (text(&shown(&token)).to_owned(), text(&shown(&other)).to_owned());
        let now = world.clock.now().millis() / 1000;
        let ath = |token: &str| part(Sha256::digest(token));
        let claims = |jti: &str| {
            json!({"jti": jti, "htm": "GET", "htu": "http://localhost/api/v1/tools", "iat": now, "ath": ath(&token)})
        };
        let ask = async |scheme: &str, token: &str, proofs: &[String]| {
            let mut request = Request::get("/api/v1/tools?limit=1")
                .header(header::HOST, "localhost")
                .header(header::AUTHORIZATION, format!("{scheme} {token}"));
            for proof in proofs {
                request = request.header("dpop", proof);
            }
            answer(world.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()).await.status
        };
        let good = proof(&key, &claims("1"), |_| {});
        assert_eq!(ask("Bearer", &token, &[]).await, 401, "never a plain bearer");
        assert_eq!(ask("Bearer", &token, std::slice::from_ref(&good)).await, 401, "nor with a proof beside it");
        assert_eq!(ask("DPoP", &token, &[]).await, 401, "no proof");
        assert_eq!(ask("DPoP", &token, &[good.clone(), good.clone()]).await, 401, "two proofs");
        assert_eq!(ask("DPoP", &token, std::slice::from_ref(&good)).await, 200);
        assert_eq!(ask("DPoP", &token, std::slice::from_ref(&good)).await, 401, "replayed");
        assert_eq!(ask("DPoP", &other, &[proof(&key, &claims("2"), |_| {})]).await, 401, "another token's ath");
        let stranger = SigningKey::from_bytes(&[6; 32]);
        assert_eq!(ask("DPoP", &token, &[proof(&stranger, &claims("3"), |_| {})]).await, 401, "another key");
        let wrong = [
            with(claims("4"), "htm", json!("POST")),
            with(claims("5"), "htu", json!("http://localhost/api/v1/calls")),
            with(claims("6"), "htu", json!("https://localhost/api/v1/tools")),
            with(claims("7"), "htu", json!("http://elsewhere/api/v1/tools")),
            with(claims("8"), "iat", json!(now - 61)),
            with(claims("9"), "iat", json!(now + 61)),
            with(claims("10"), "iat", json!(now.to_string())),
            without(claims("11"), "ath"),
            without(claims("12"), "jti"),
            with(claims("13"), "ath", json!(ath(&other))),
        ];
        for claims in wrong {
            assert_eq!(ask("DPoP", &token, &[proof(&key, &claims, |_| {})]).await, 401, "{claims}");
        }
        let headers: [fn(&mut Value); 4] = [
            |head| head["typ"] = json!("JWT"),
            |head| head["alg"] = json!("none"),
            |head| head["alg"] = json!("HS256"),
            |head| head["jwk"]["d"] = json!("AAAA"),
        ];
        for (index, change) in headers.into_iter().enumerate() {
            let made = proof(&key, &claims(&format!("h{index}")), change);
            assert_eq!(ask("DPoP", &token, &[made]).await, 401, "header {index}");
        }
        // A child stays bound.
        let child = {
            let claims = with(with(claims("child"), "htm", json!("POST")), "htu", json!("http://localhost/api/v1/tokens"));
            let request = Request::post("/api/v1/tokens")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::AUTHORIZATION, format!("DPoP {token}"))
                .header("dpop", proof(&key, &claims, |_| {}));
            let body = Body::from(json!({"scope": ["tool:echo"]}).to_string());
            answer(world.router().oneshot(request.body(body).unwrap()).await.unwrap()).await.ok()
        };
        assert_eq!(child["bound"], true);
        assert_eq!(ask("Bearer", text(&shown(&child)), &[]).await, 401);
    })
    .await;
}
