//! Capability tokens at the edge: what must not be possible with them (`security.md` §11, tests 1 to 6, 17, 48, 58).

use axum::body::Body;
use axum::http::{Request, header};
use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_contracts::{Clock, Timestamp, TokenId};
use toolgate_policy::token::thumbprint;
use toolgate_store::testing::Database;
use toolgate_store::{Change, MIGRATIONS};
use toolgate_vault::Purpose;
use tower::ServiceExt as _;

use crate::world::{Answer, As, World, answer, every_world, open, send, tool, with_settings, write_tool};

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

/// What a token would allow, as the API answers: each of these calls is tried without effect.
async fn admitted(router: &axum::Router, who: &As) -> Vec<bool> {
    let mut admitted = Vec::new();
    for tool in ["echo", "calculator", "now"] {
        let inputs = [
            json!({}),
            json!({"text": "a"}),
            json!({"text": "b"}),
            json!({"expression": "1+1"}),
            json!({"expression": "2*3"}),
        ];
        for input in inputs {
            let body = json!({"tool": tool, "input": input, "mode": "dry_run"});
            let answer = send(router.clone(), who, "POST", "/api/v1/calls", body).await;
            admitted.push(answer.status == 200 && answer.body["status"] == "completed");
        }
    }
    admitted
}

fn any_request() -> impl Strategy<Value = Value> {
    let scopes = ["tool:*", "tool:echo", "tool:calculator@^1", "tool:calculator@>=2", "tool:now", "tool:echo@=1.0.0"];
    let constraints = [
        json!({"tool": "calculator", "pointer": "/expression", "const": "1+1"}),
        json!({"tool": "calculator", "pointer": "/expression", "enum": ["1+1", "2*3"]}),
        json!({"pointer": "/expression", "prefix": "2"}),
        json!({"tool": "echo", "pointer": "/text", "enum": ["b", "c"]}),
        json!({"tool": "now", "pointer": "/zone", "const": "UTC"}),
    ];
    (
        prop::sample::subsequence(scopes.to_vec(), 1..=3),
        prop::sample::subsequence(constraints.to_vec(), 0..=2),
        prop::option::of(0..4_u32),
        prop::option::of(0..4_u32),
        prop::option::of(1..=900_u32),
        prop::option::of(prop::sample::subsequence(vec!["untrusted", "private", "sensitive"], 0..=3)),
    )
        .prop_map(|(scope, constraints, max_calls, budget, expires_s, labels)| {
            let mut wanted = json!({"scope": scope, "constraints": constraints});
            let mut set = |member: &str, value: Option<Value>| {
                if let Some(value) = value {
                    wanted[member] = value;
                }
            };
            set("max_calls", max_calls.map(Into::into));
            set("budget", budget.map(|units| json!(units.to_string())));
            set("expires_s", expires_s.map(Into::into));
            set("labels_max", labels.map(|labels| json!(labels)));
            wanted
        })
}

#[test]
fn test_4_no_child_is_wider_than_its_parent() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let (app, _folder) = runtime.block_on(with_settings(&[]));
    let router = app.router();
    let mint = async |who: &As, body: &Value| send(router.clone(), who, "POST", "/api/v1/tokens", body.clone()).await;
    runtime.block_on(async {
        let all = mint(&As::Owner, &json!({"scope": ["tool:*"]})).await.ok();
        assert!(
            admitted(&router, &shown(&all)).await.iter().filter(|may| **may).count() >= 5,
            "there is something to narrow"
        );
    });
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    runner
        .run(&prop::collection::vec(any_request(), 2..5), |requests| {
            runtime.block_on(async {
                let mut parent = mint(&As::Owner, &requests[0]).await.ok();
                for request in &requests[1..] {
                    let child = mint(&shown(&parent), request).await;
                    if child.status == 403 {
                        continue;
                    }
                    let child = child.ok();
                    let pairs = admitted(&router, &shown(&child)).await.into_iter();
                    for (child_may, parent_may) in pairs.zip(admitted(&router, &shown(&parent)).await) {
                        prop_assert!(!child_may || parent_may, "{child:#}\nis wider than\n{parent:#}");
                    }
                    let no_more = |member: &str| match (&child[member], &parent[member]) {
                        (_, Value::Null) => true,
                        (Value::Number(has), Value::Number(most)) => has.as_u64() <= most.as_u64(),
                        (Value::String(has), Value::String(most)) => {
                            has.parse::<f64>().unwrap() <= most.parse::<f64>().unwrap()
                        }
                        _ => false,
                    };
                    prop_assert!(no_more("max_calls") && no_more("budget"), "{child:#}\n{parent:#}");
                    let at = |token: &Value| token["expires_at"].as_str().unwrap().to_owned();
                    prop_assert!(at(&child) <= at(&parent));
                    prop_assert_eq!(child["depth"].as_u64(), parent["depth"].as_u64().map(|depth| depth + 1));
                    prop_assert_eq!(&child["principal"], &parent["principal"]);
                    let listed = |token: &Value| token["constraints"].as_array().unwrap().clone();
                    prop_assert!(
                        listed(&parent).iter().all(|one| listed(&child).contains(one)),
                        "constraints only grow"
                    );
                    parent = child;
                }
                Ok(())
            })
        })
        .unwrap();
    runtime.block_on(app.close());
}

#[tokio::test]
async fn test_4_narrowing_is_for_holders_and_ends_at_its_depth() {
    every_world(async |world| {
        let root = world.mint(&As::Owner, json!({"scope": ["tool:echo"], "max_calls": 3})).await;
        let refused = |body: Value| {
            let world = &world;
            let root = shown(&root);
            async move { world.send(&root, "POST", "/api/v1/tokens", body).await }
        };
        let wider = [
            (json!({"scope": ["tool:calculator"]}), "/scope"),
            (json!({"scope": ["tool:echo"], "max_calls": 4}), "/max_calls"),
            (json!({"scope": ["tool:echo"], "expires_s": 901}), "/expires_s"),
            (json!({"scope": ["tool:echo"], "parent": TokenId::new(&world.clock, &world.app.rng)}), "/parent"),
            (json!({"scope": ["tool:echo"], "agent": "nobody"}), "/agent"),
            (json!({"scope": ["echo"]}), "/scope/0"),
            (json!({"scope": []}), "/scope"),
        ];
        for (body, pointer) in wider {
            let answer = refused(body.clone()).await;
            assert!((400..500).contains(&answer.status), "{body}");
            assert_eq!(answer.body["pointer"], pointer, "{:#}", answer.body);
        }
        let by_owner = json!({"scope": ["tool:echo"], "parent": root["id"]});
        world.send(&As::Owner, "POST", "/api/v1/tokens", by_owner).await.refused(403);
        let mut last = root;
        for depth in 1..=8 {
            last = world.mint(&shown(&last), json!({"scope": ["tool:*"], "parent": last["id"]})).await;
            assert_eq!((&last["depth"], &last["scope"]), (&json!(depth), &json!(["tool:echo"])));
        }
        world.send(&shown(&last), "POST", "/api/v1/tokens", json!({"scope": ["tool:*"]})).await.refused(403);
        // The whole chain counts.
        for left in [true, true, true, false] {
            let answer = world.call(&shown(&last), "echo", json!({"text": "t"})).await.ok();
            assert_eq!(answer["status"], if left { "completed" } else { "failed" }, "{answer:#}");
        }
    })
    .await;
}

#[tokio::test]
async fn test_5_a_token_ends_with_itself_its_parent_or_its_grandparent() {
    every_world(async |world| {
        for revoked in 0..3 {
            let grandparent = world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await;
            let parent = world.mint(&shown(&grandparent), json!({"scope": ["tool:*"]})).await;
            let token = world.mint(&shown(&parent), json!({"scope": ["tool:*"]})).await;
            world.call(&shown(&token), "echo", json!({"text": "t"})).await.ok();
            let ends = id([&token, &parent, &grandparent][revoked]);
            let told = world.send(&As::Owner, "DELETE", &format!("/api/v1/tokens/{ends}"), Value::Null).await.ok();
            assert_eq!(told["state"], "revoked");
            let refused = world.check_refused(text(&shown(&token)), "revoked").await;
            assert_eq!(refused["details"]["reason"], "token_revoked", "{refused:#}");
            let now = world.get(&As::Owner, &format!("/api/v1/tokens/{}", id(&token))).await.ok();
            assert_eq!(now["state"], "revoked", "those made of it are shown as what they are");
        }
        // By agent.
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "helper"})).await.ok();
        let own = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let agents = world.holder(&As::Owner, json!({"scope": ["tool:*"], "agent": "helper"})).await;
        let child = world.holder(&agents, json!({"scope": ["tool:*"]})).await;
        let told = world.send(&As::Owner, "DELETE", "/api/v1/tokens?agent=helper", Value::Null).await.ok();
        assert_eq!(told, json!({"revoked": 2}));
        for token in [&agents, &child] {
            world.check_refused(text(token), "its agent's were revoked").await;
        }
        world.get(&own, "/api/v1/tools").await.ok();
        world.send(&own, "DELETE", "/api/v1/tokens?agent=helper", Value::Null).await.refused(404);
        // With its key, and with its person.
        let ada = world.user("default", "ada", &["member"]).await;
        let token = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        world.get(&token, "/api/v1/tools").await.ok();
        world.send(&As::Owner, "DELETE", "/api/v1/keys/ada-key", Value::Null).await.ok();
        world.check_refused(text(&token), "its key was revoked").await;
        let ben = world.user("default", "ben", &["member"]).await;
        let token = world.holder(&ben, json!({"scope": ["tool:*"]})).await;
        world.get(&token, "/api/v1/tools").await.ok();
        world.send(&As::Owner, "PATCH", "/api/v1/users/ben", json!({"disabled": true})).await.ok();
        world.check_refused(text(&token), "its person was disabled").await;
    })
    .await;
}

#[tokio::test]
async fn test_5_a_token_revoked_here_is_revoked_on_every_replica() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    std::fs::write(folders[0].path().join("master.key"), "11".repeat(32)).unwrap();
    std::fs::set_permissions(folders[0].path().join("master.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    std::fs::copy(folders[0].path().join("master.key"), folders[1].path().join("master.key")).unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
    let (first, second) = tokio::join!(
        open(&database, folders[0].path(), clock.clone(), 1),
        open(&database, folders[1].path(), clock, 2)
    );
    let mint = async |who: &As, body: Value| send(first.router(), who, "POST", "/api/v1/tokens", body).await.ok();
    let note = json!({"tool": "append_note", "input": {"notebook": "n", "text": "t"}});
    let echo = json!({"tool": "echo", "input": {"text": "t"}});
    for ends in 0..3 {
        let grandparent = mint(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let parent = mint(&shown(&grandparent), json!({"scope": ["tool:*"]})).await;
        let token = mint(&shown(&parent), json!({"scope": ["tool:*"]})).await;
        // The other replica has let it in, and remembers that.
        let there = send(second.router(), &shown(&token), "POST", "/api/v1/calls", note.clone()).await.ok();
        assert_eq!(there["status"], "completed", "{there:#}");
        let ends = format!("/api/v1/tokens/{}", id([&token, &parent, &grandparent][ends]));
        send(first.router(), &As::Owner, "DELETE", &ends, Value::Null).await.ok();
        // What changes something does not run, not even in the second in which it is remembered.
        let there = send(second.router(), &shown(&token), "POST", "/api/v1/calls", note.clone()).await;
        let refused = there.status == 401
            || (there.body["error"]["code"] == "AUTH_REQUIRED"
                && there.body["error"]["details"]["reason"] == "token_revoked");
        assert!(refused, "{} {:#}", there.status, there.body);
        let mut tries = 0;
        while send(second.router(), &shown(&token), "POST", "/api/v1/calls", echo.clone()).await.status != 401 {
            tries += 1;
            assert!(tries < 600, "it is still believed");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    first.close().await;
    second.close().await;
}

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

#[tokio::test]
async fn test_17_lists_search_and_calls_agree_under_a_token() {
    every_world(async |world| {
        world.register(&As::Owner, tool("readRecord", json!({}))).await.ok();
        world.register(&As::Owner, write_tool("writeRecord")).await.ok();
        let all = world.names(&As::Owner, "").await;
        let scopes = [
            json!(["tool:echo"]),
            json!(["tool:echo@^2"]),
            json!(["tool:read_record", "tool:calculator@^1"]),
            json!(["tool:*"]),
        ];
        for scope in scopes {
            let token = world.holder(&As::Owner, json!({"scope": scope})).await;
            let listed = world.names(&token, "").await;
            for name in &all {
                let called = world
                    .send(&token, "POST", "/api/v1/calls", json!({"tool": name, "input": {}, "mode": "dry_run"}))
                    .await;
                assert_eq!(listed.contains(name), called.status != 404, "{scope} {name} {:#}", called.body);
                let page = world.get(&token, &format!("/api/v1/tools/{name}")).await.status;
                assert_eq!(listed.contains(name), page == 200, "{scope} {name}");
                let found = world.get(&token, &format!("/api/v1/search?q={name}&kind=tool&limit=50")).await.ok();
                assert_eq!(listed.contains(name), found.to_string().contains(&format!("\"{name}\"")), "{scope} {name}");
            }
        }
        let one = world.holder(&As::Owner, json!({"scope": ["tool:echo"]})).await;
        assert_eq!(world.names(&one, "").await, ["echo"]);
        world.get(&one, "/api/v1/tools?all=true").await.refused(403);
    })
    .await;
}

#[tokio::test]
async fn a_token_decides_nothing_manages_nothing_and_reads_nobody_else() {
    every_world(async |world| {
        let admin = world.user("default", "ada", &["admin"]).await;
        let token = world.holder(&admin, json!({"scope": ["tool:*"]})).await;
        let refused = [
            ("GET", "/api/v1/users", Value::Null),
            ("GET", "/api/v1/keys", Value::Null),
            ("POST", "/api/v1/keys", json!({"name": "k"})),
            ("POST", "/api/v1/users", json!({"name": "u"})),
            ("POST", "/api/v1/agents", json!({"name": "a"})),
            ("GET", "/api/v1/agents", Value::Null),
            ("PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})),
            ("POST", "/api/v1/tools", json!({"definition": tool("mine", json!({})), "apply": true})),
            ("GET", "/api/v1/secrets", Value::Null),
            ("GET", "/api/v1/server-keys", Value::Null),
            ("GET", "/api/v1/audit/entries", Value::Null),
            ("GET", "/api/v1/config", Value::Null),
            ("GET", "/api/v1/usage", Value::Null),
            ("POST", "/api/v1/kill-switches", json!({"scope": "tenant", "on": true, "reason": "r"})),
        ];
        for (method, path, body) in refused {
            let answer = world.send(&token, method, path, body).await;
            assert!([403, 404, 405].contains(&answer.status), "{method} {path}: {} {:#}", answer.status, answer.body);
        }
        let me = world.get(&token, "/api/v1/me").await.ok();
        assert_eq!(me["signed_in_by"], "token");
        assert_eq!(me["permissions"], json!(["calls.create", "calls.read.own", "tokens.mint", "tools.read"]));
        // What its key may not do, it may not do.
        let key = json!({"name": "mints", "scopes": ["tokens.mint", "tools.read"]});
        let key = world.send(&admin, "POST", "/api/v1/keys", key).await.ok();
        let minted =
            world.holder(&As::Key(key["secret"].as_str().unwrap().to_owned()), json!({"scope": ["tool:*"]})).await;
        world.call(&minted, "echo", json!({})).await.refused(403);
        // Another tenant's name changes nothing.
        let request = Request::get("/api/v1/tools")
            .header(header::AUTHORIZATION, format!("Bearer {}", text(&token)))
            .header(toolgate_server::TENANT_HEADER, "system")
            .body(Body::empty())
            .unwrap();
        assert_eq!(world.router().oneshot(request).await.unwrap().status(), 404);
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

#[tokio::test]
async fn test_58_a_restored_database_brings_no_token_back() {
    every_world(async |world| {
        let (revoked, good) = (
            world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await,
            world.mint(&As::Owner, json!({"scope": ["tool:*"]})).await,
        );
        let (old_kid, old_key) = world.signing_key().await;
        world.send(&As::Owner, "DELETE", &format!("/api/v1/tokens/{}", id(&revoked)), Value::Null).await.ok();
        // Last night's state: the token is not revoked there.
        let unrevoke = async || {
            for tenant in world.app.store.tenants().await.unwrap() {
                let mut change = Change::new(tenant.id);
                change.then("UPDATE tokens SET revoked_at = NULL WHERE tenant_id = $1", []);
                world.app.store.commit(change).await.unwrap();
            }
        };
        unrevoke().await;
        world.app.note_restored("backup.db").await.unwrap();
        unrevoke().await;
        let (kid, key) = world.signing_key().await;
        assert_ne!(kid, old_kid);
        for token in [&revoked, &good] {
            let token = text(&shown(token)).to_owned();
            world.app.tokens.invalidate_all();
            world.check_refused(&token, "minted before").await;
            let claims = claims_of(&token);
            // Not even signed anew: the epoch in it is over.
            let refused = world.check_refused(&forge(&header_of(&kid), &claims, &key), "its epoch").await;
            assert!(refused["detail"].is_string());
            world.check_refused(&forge(&header_of(&old_kid), &claims, &old_key), "the key before").await;
        }
        let new = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        world.get(&new, "/api/v1/tools").await.ok();
    })
    .await;
}

#[tokio::test]
async fn keys_rotate_and_both_are_published_until_the_last_token_has_expired() {
    every_world(async |world| {
        let before = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        world.send(&As::Owner, "POST", "/api/v1/server-keys/token/rotate", json!({})).await.ok();
        let after = world.holder(&As::Owner, json!({"scope": ["tool:*"]})).await;
        let kid = |token: &As| {
            let header = BASE64URL_NOPAD.decode(text(token).split('.').next().unwrap().as_bytes()).unwrap();
            serde_json::from_slice::<Value>(&header).unwrap()["kid"].as_str().unwrap().to_owned()
        };
        assert_ne!(kid(&before), kid(&after));
        let published = world.get(&As::Nobody, "/.well-known/jwks.json").await.ok();
        for token in [&before, &after] {
            assert!(published.to_string().contains(&kid(token)), "{published:#}");
            world.app.tokens.invalidate_all();
            world.get(token, "/api/v1/tools").await.ok();
        }
        for secret in ["\"d\"", "seed"] {
            assert!(!published.to_string().contains(secret));
        }
    })
    .await;
}

#[tokio::test]
async fn invoke_takes_a_token_for_whom_it_was_made() {
    every_world(async |world| {
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "helper"})).await.ok();
        let own = world.mint(&As::Owner, json!({"scope": ["tool:calculator"]})).await;
        let agents = world.mint(&As::Owner, json!({"scope": ["tool:calculator"], "agent": "helper"})).await;
        let invoke = async |token: &Value, caller: &str| {
            let body = json!({
                "request_id": TokenId::new(&world.clock, &world.app.rng).to_string(), "caller_id": caller, "capability_token": token["token"],
                "tool_id": "calculator", "function_name": "", "args": {"expression": "6*7"}, "metadata": {},
            });
            world.send(&As::Nobody, "POST", "/invoke", body).await.ok()
        };
        let agent = agents["agent_id"].as_str().unwrap().to_owned();
        let principal = own["principal"].as_str().unwrap().to_owned();
        for (token, caller) in [(&own, &principal), (&agents, &agent)] {
            let answer = invoke(token, caller).await;
            assert_eq!(answer["status"], "ok", "{answer:#}");
        }
        for (token, caller) in [(&own, &agent), (&agents, &principal), (&own, &"me".to_owned())] {
            let answer = invoke(token, caller).await;
            assert_eq!(answer["status"], "denied", "{answer:#}");
            assert!(answer.to_string().contains("AUTH_REQUIRED"), "{answer:#}");
        }
    })
    .await;
}
