//! Tokens that this server did not make for here and now (tests 1 to 3 and 48 of `security.md` §11).

use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use toolgate_contracts::TokenId;
use toolgate_vault::Purpose;

use super::{claims_of, forge, header_of, id, part, shown, text, with, without};
use crate::world::{As, every_world};

#[tokio::test]
async fn tests_1_to_3_a_token_that_this_server_did_not_make_for_here_and_now_is_none() {
    every_world(async |world| {
        let (kid, key) = world.signing_key().await;
        let token = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        world.get(&token, "/api/v1/tools").await.ok();
        let claims = claims_of(text(&token));
        let good = forge(&header_of(&kid), &claims, &key);
        world.get(&As::Key(good.clone()), "/api/v1/tools").await.ok();

        // 1: any algorithm but the pinned one.
        for alg in ["none", "NONE", "HS256", "RS256", "ES256", "eddsa", ""] {
            let header = with(header_of(&kid), "alg", json!(alg));
            world.check_refused(&forge(&header, &claims, &key), alg).await;
        }
        let signed = part(with(header_of(&kid), "alg", json!("HS256")).to_string());
        let signed = format!("{signed}.{}", good.split('.').nth(1).unwrap());
        let mut mac = Hmac::<Sha256>::new_from_slice(key.verifying_key().as_bytes()).unwrap();
        mac.update(signed.as_bytes());
        world
            .check_refused(&format!("{signed}.{}", part(mac.finalize().into_bytes())), "the public key as a secret")
            .await;
        let unsigned = part(with(header_of(&kid), "alg", json!("none")).to_string());
        world.check_refused(&format!("{unsigned}.{}.", good.split('.').nth(1).unwrap()), "no signature").await;

        // 2: another type, key, audience or issuer; a key of the sender's own.
        let own = SigningKey::from_bytes(&[9; 32]);
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": part(own.verifying_key().as_bytes())});
        let headers = [
            with(header_of(&kid), "typ", json!("JWT")),
            without(header_of(&kid), "typ"),
            with(header_of(&kid), "kid", json!("unknown")),
            without(header_of(&kid), "kid"),
            with(header_of(&kid), "jwk", jwk.clone()),
            with(header_of(&kid), "jku", json!("https://keys.example.com/")),
            with(header_of(&kid), "x5u", json!("https://keys.example.com/")),
            with(header_of(&kid), "crit", json!(["exp"])),
        ];
        for header in headers {
            for key in [&key, &own] {
                world.check_refused(&forge(&header, &claims, key), &header.to_string()).await;
            }
        }
        world.check_refused(&forge(&header_of(&kid), &claims, &own), "another key").await;
        let response = world.app.keyring.key(Purpose::Response, None).await.unwrap();
        let crossed = SigningKey::from_bytes(response.seed());
        world.check_refused(&forge(&header_of(response.kid()), &claims, &crossed), "the key of answers").await;
        for member in ["iss", "aud"] {
            for other in [json!("https://other.example.com"), json!(""), json!(["a", claims["aud"]]), Value::Null] {
                let claims = with(claims.clone(), member, other);
                world.check_refused(&forge(&header_of(&kid), &claims, &key), &claims.to_string()).await;
            }
            world.check_refused(&forge(&header_of(&kid), &without(claims.clone(), member), &key), member).await;
        }

        // 3: times that are none, and one that has not come.
        for member in ["exp", "nbf", "iat"] {
            let now = claims[member].as_u64().unwrap();
            for time in [json!(now.to_string()), json!(1.5), json!(-1), json!(1_u64 << 63), json!(null), json!([now])] {
                let claims = with(claims.clone(), member, time);
                world.check_refused(&forge(&header_of(&kid), &claims, &key), &claims.to_string()).await;
            }
            world.check_refused(&forge(&header_of(&kid), &without(claims.clone(), member), &key), member).await;
            // A number that is not written as whole ones are.
            let payload = toolgate_contracts::json::canonical(&claims);
            let payload = payload.replace(&format!("\"{member}\":{now}"), &format!("\"{member}\":{now}.0"));
            let signed = format!("{}.{}", part(header_of(&kid).to_string()), part(payload));
            let token = format!("{signed}.{}", part(key.sign(signed.as_bytes()).to_bytes()));
            world.check_refused(&token, member).await;
        }
        let later = claims["nbf"].as_u64().unwrap() + 60;
        world
            .check_refused(&forge(&header_of(&kid), &with(claims.clone(), "nbf", json!(later)), &key), "the future")
            .await;
        let longer = claims["iat"].as_u64().unwrap() + 901;
        world
            .check_refused(&forge(&header_of(&kid), &with(claims.clone(), "exp", json!(longer)), &key), "too long")
            .await;

        // Widened by hand, or of a token that was never minted.
        let claims = with(claims, "jti", json!(TokenId::new(&world.clock, &world.app.rng)));
        world.check_refused(&forge(&header_of(&kid), &claims, &key), "no such token").await;
        world.check_refused(&good.replace('.', ".."), "five parts").await;
        world.check_refused("a.b.c", "no token").await;

        // A token in an address is never read.
        let path = format!("/api/v1/tools?access_token={0}&token={0}&key={0}", text(&token));
        assert_ne!(world.get(&As::Nobody, &path).await.status, 200);

        world.clock.advance(299);
        world.get(&token, "/api/v1/tools").await.ok();
        world.clock.advance(1);
        let expired = world.check_refused(text(&token), "its time is over").await;
        assert_eq!(expired["details"]["reason"], "token_expired", "{expired:#}");
    })
    .await;
}

#[tokio::test]
async fn test_48_unknown_and_foreign_tokens_look_alike() {
    every_world(async |world| {
        world.tenant("left").await;
        world.tenant("right").await;
        let left = world.user("left", "lea", &["admin"]).await;
        let right = world.user("right", "rob", &["admin"]).await;
        let member = world.user("left", "mia", &["member"]).await;
        let foreign = world.mint(&left, json!({"scope": ["tool:*"]})).await;
        let unknown = TokenId::new(&world.clock, &world.app.rng).to_string();
        for who in [&right, &member] {
            for method in ["GET", "DELETE"] {
                let answers = [id(&foreign), unknown.clone()].map(|id| {
                    let world = &world;
                    async move {
                        let answer = world.send(who, method, &format!("/api/v1/tokens/{id}"), Value::Null).await;
                        (answer.status, answer.body.to_string().replace(&id, "ID"))
                    }
                });
                let [there, nowhere] = answers;
                assert_eq!(there.await, nowhere.await);
            }
        }
        world.get(&shown(&foreign), "/api/v1/tools").await.ok();
        // Of its own tenant a list shows what one may see.
        let of = async |who: &As| world.get(who, "/api/v1/tokens").await.ok()["items"].as_array().unwrap().len();
        assert_eq!((of(&left).await, of(&right).await, of(&member).await), (1, 0, 0));
        // A well-signed token for another tenant, or for none, is answered like one that was revoked.
        let (kid, key) = world.signing_key().await;
        let claims = claims_of(text(&shown(&foreign)));
        let other = claims_of(text(&world.holder(&right, json!({"scope": ["tool:*"]})).await));
        let moved = with(claims.clone(), "tenant", other["tenant"].clone());
        let invented = with(claims.clone(), "tenant", json!(TokenId::new(&world.clock, &world.app.rng)));
        let mut answers = Vec::new();
        for claims in [moved, invented, with(claims, "jti", json!(unknown))] {
            answers.push(world.check_refused(&forge(&header_of(&kid), &claims, &key), "nowhere").await);
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    })
    .await;
}
