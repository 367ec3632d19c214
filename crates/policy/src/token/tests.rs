//! `security.md` §11, tests 1 to 6, as far as they are pure: revocation and counters are the store's.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use semver::Version;
use sha2::{Digest as _, Sha256};
use toolgate_contracts::definition::Label;
use url::Url;
use uuid::Uuid;

use super::*;

const NOW_S: u64 = 1_794_652_800;
const ISSUER: &str = "https://gate.test";

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seconds).unwrap() * 1000 + 999)
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn keys() -> Keys {
    Keys::new([("new".to_owned(), key(1).verifying_key()), ("old".to_owned(), key(2).verifying_key())])
}

fn expected(now: u64) -> Expected<'static> {
    Expected { issuer: ISSUER, audience: ISSUER, now: at(now), epoch: 3 }
}

fn root() -> Root {
    Root {
        issuer: ISSUER.to_owned(),
        audience: ISSUER.to_owned(),
        principal: Principal::Local(7),
        agent: Some(AgentId::from_uuid(Uuid::from_u128(9))),
        tenant: TenantId::from_uuid(Uuid::from_u128(1)),
        epoch: 3,
        not_after: None,
    }
}

fn jti(number: u128) -> TokenId {
    TokenId::from_uuid(Uuid::from_u128(number))
}

fn request(value: Value) -> MintRequest {
    strict::decode(value).unwrap()
}

fn claims() -> Claims {
    mint(&request(json!({"scope": ["tool:find_note", "tool:http_get@^1.2"]})), &root(), jti(1), at(NOW_S)).unwrap()
}

fn claims_json() -> Value {
    serde_json::to_value(claims()).unwrap()
}

fn verdict(text: &str) -> Result<Claims, TokenError> {
    verify(text, &keys(), &expected(NOW_S + 1))
}

/// A well-signed token with any header and any payload.
fn forge(header: &Value, payload: &str, key: &SigningKey) -> String {
    jose::sign(header, payload.as_bytes(), key)
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "new", "typ": TYPE})
}

fn with(mut value: Value, member: &str, to: Value) -> Value {
    value[member] = to;
    value
}

fn without(mut value: Value, member: &str) -> Value {
    value.as_object_mut().unwrap().shift_remove(member);
    value
}

/// Scope, then constraints: why a call is not allowed.
fn check(claims: &Claims, names: &[&FoldedName], version: &Version, input: &Value) -> Result<(), String> {
    let token = claims.held(vec![claims.chained()], String::new());
    if !token.covers(names, version) {
        return Err("scope".to_owned());
    }
    check_arguments(&token, names, input).map_err(|error| error.reason().to_owned())
}

#[test]
fn a_token_of_either_key_says_what_was_signed() {
    for (kid, seed) in [("new", 1), ("old", 2)] {
        assert_eq!(verdict(&sign(&claims(), kid, &key(seed))), Ok(claims()));
    }
    let renamed = forge(&with(header(), "alg", json!("Ed25519")), &strict::canonical(&claims_json()), &key(1));
    assert_eq!(verdict(&renamed), Ok(claims()), "RFC 9864's name for the same algorithm");
}

#[test]
fn test_1_no_algorithm_but_the_pinned_one_is_accepted() {
    let payload = strict::canonical(&claims_json());
    for alg in ["none", "None", "NONE", "", "HS256", "RS256", "ES256", "PS512", "eddsa", "EDDSA", "Ed448", "EdDSA "] {
        let text = forge(&with(header(), "alg", json!(alg)), &payload, &key(1));
        assert_eq!(verdict(&text), Err(TokenError::Algorithm), "{alg}");
    }
    for header in
        [without(header(), "alg"), with(header(), "alg", json!(["EdDSA"])), with(header(), "alg", json!(null))]
    {
        assert_eq!(verdict(&forge(&header, &payload, &key(1))), Err(TokenError::Header), "{header}");
    }
    // HS256 with the public key as its secret, and no signature at all.
    let hs = with(header(), "alg", json!("HS256"));
    let signed =
        [strict::canonical(&hs), payload.clone()].map(|part| BASE64URL_NOPAD.encode(part.as_bytes())).join(".");
    for secret in
        [key(1).verifying_key().to_bytes().to_vec(), BASE64.encode(key(1).verifying_key().as_bytes()).into_bytes()]
    {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(signed.as_bytes());
        let text = format!("{signed}.{}", BASE64URL_NOPAD.encode(&mac.finalize().into_bytes()));
        assert_eq!(verdict(&text), Err(TokenError::Algorithm));
    }
    let unsigned = sign(&claims(), "new", &key(1));
    let unsigned = &unsigned[..=unsigned.rfind('.').unwrap()];
    assert_eq!(verdict(unsigned), Err(TokenError::Signature));
}

#[test]
fn test_2_no_other_type_audience_issuer_or_key_is_accepted() {
    let payload = strict::canonical(&claims_json());
    let with_header = |header: Value| verdict(&forge(&header, &payload, &key(1)));
    for typ in ["JWT", "at+jwt", "dpop+jwt", "TG-CAP+JWT", "application/tg-cap+jwt", ""] {
        assert_eq!(with_header(with(header(), "typ", json!(typ))), Err(TokenError::Type), "{typ}");
    }
    assert_eq!(with_header(without(header(), "typ")), Err(TokenError::Header));
    assert_eq!(with_header(without(header(), "kid")), Err(TokenError::Header));
    assert_eq!(with_header(with(header(), "kid", json!("other"))), Err(TokenError::Key));
    assert_eq!(with_header(with(header(), "kid", json!("old"))), Err(TokenError::Signature), "another key of ours");

    let stranger = key(9);
    let embedded = json!(jose::ed25519_jwk(&stranger.verifying_key()));
    for (member, value) in [
        ("jwk", embedded),
        ("jku", json!("https://evil.test/jwks.json")),
        ("x5u", json!("https://evil.test/c.pem")),
        ("x5c", json!(["AA=="])),
        ("crit", json!(["exp"])),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
    ] {
        let text = forge(&with(header(), member, value), &payload, &stranger);
        assert_eq!(verdict(&text), Err(TokenError::Header), "{member}");
    }

    let signed = |claims: Value| verdict(&forge(&header(), &strict::canonical(&claims), &key(1)));
    assert_eq!(signed(with(claims_json(), "iss", json!("https://gate.test/"))), Err(TokenError::Issuer));
    assert_eq!(signed(with(claims_json(), "aud", json!("https://other.test"))), Err(TokenError::Audience));
    for claim in ["iss", "aud", "sub", "tenant", "scope", "constraints", "iat", "nbf", "exp", "jti", "depth", "epoch"] {
        assert!(matches!(signed(without(claims_json(), claim)), Err(TokenError::Claims(_))), "{claim} is demanded");
    }
    assert!(matches!(signed(with(claims_json(), "aud", json!([ISSUER]))), Err(TokenError::Claims(_))));
    assert!(matches!(signed(with(claims_json(), "admin", json!(true))), Err(TokenError::Claims(_))));
}

#[test]
fn test_3_a_time_is_a_whole_number_of_seconds_and_nothing_else() {
    let payload = strict::canonical(&claims_json());
    for claim in ["exp", "nbf", "iat"] {
        let value = claims_json()[claim].to_string();
        let spelled = |time: &str| payload.replace(&format!("\"{claim}\":{value}"), &format!("\"{claim}\":{time}"));
        assert_eq!(spelled(&value), payload);
        for time in [
            &format!("\"{value}\""),
            &format!("{value}.0"),
            &format!("{value}.5"),
            &format!("{value}e0"),
            "1e12",
            "-1",
            "9223372036854775808",
            "18446744073709551616",
            "null",
            "[]",
            "true",
        ] {
            let refused = verdict(&forge(&header(), &spelled(time), &key(1)));
            assert!(matches!(refused, Err(TokenError::Claims(_))), "{claim}: {time}: {refused:?}");
        }
    }
    let twice = payload.replacen("\"exp\":", &format!("\"exp\":{},\"exp\":", NOW_S + 900), 1);
    assert!(matches!(verdict(&forge(&header(), &twice, &key(1))), Err(TokenError::Claims(_))), "a key twice");

    let timed = |iat: u64, nbf: u64, exp: u64| {
        let claims = Claims { iat, nbf, exp, ..claims() };
        verify(&sign(&claims, "new", &key(1)), &keys(), &expected(NOW_S)).map(|_| ())
    };
    assert_eq!(timed(NOW_S, NOW_S, NOW_S + 1), Ok(()));
    assert_eq!(timed(NOW_S, NOW_S + 1, NOW_S + 9), Err(TokenError::NotYet));
    assert_eq!(timed(NOW_S + 1, NOW_S + 1, NOW_S + 9), Err(TokenError::NotYet), "minted tomorrow");
    assert_eq!(timed(NOW_S - 9, NOW_S - 9, NOW_S), Err(TokenError::Expired), "not one second longer");
    for (iat, nbf, exp) in [(NOW_S, NOW_S, NOW_S + 901), (NOW_S, NOW_S - 1, NOW_S + 9), (NOW_S, NOW_S, NOW_S)] {
        assert!(matches!(timed(iat, nbf, exp), Err(TokenError::Claims(_))), "{iat} {nbf} {exp}");
    }
}

#[test]
fn a_text_has_one_spelling() {
    let good = sign(&claims(), "new", &key(1));
    assert!(verdict(&good).is_ok());
    let last = good.chars().last().unwrap();
    let padded_bits = char::from(last as u8 + 1);
    for broken in [
        String::new(),
        "..".to_owned(),
        "a.b".to_owned(),
        format!("{good}="),
        format!("{good}."),
        format!(" {good}"),
        format!("{good}\n"),
        good.replace('.', "·"),
        good.replacen('.', "=.", 1),
        format!("{}{padded_bits}", &good[..good.len() - 1]),
        format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX)),
    ] {
        assert!(verdict(&broken).is_err(), "{broken}");
    }
    let spaced = forge(&header(), &claims_json().to_string().replacen(':', ": ", 1), &key(1));
    assert!(matches!(verdict(&spaced), Err(TokenError::Claims(_))));
}

#[test]
fn a_key_of_small_order_signs_nothing() {
    // The identity point verifies any message under lax rules, with R the identity and s zero.
    let mut weak = [0; 32];
    weak[0] = 1;
    let weak_key = VerifyingKey::from_bytes(&weak).unwrap();
    let keys = Keys::new([("new".to_owned(), weak_key)]);
    let text = sign(&claims(), "new", &key(1));
    let (signed, _) = text.rsplit_once('.').unwrap();
    let mut signature = [0; 64];
    signature[0] = 1;
    let text = format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature));
    assert_eq!(verify(&text, &keys, &expected(NOW_S + 1)), Err(TokenError::Signature));
}

#[test]
fn a_restored_database_voids_what_was_minted_before() {
    let text = sign(&claims(), "new", &key(1));
    let later = Expected { epoch: 4, ..expected(NOW_S + 1) };
    let error = verify(&text, &keys(), &later).unwrap_err();
    assert_eq!((error.clone(), error.reason()), (TokenError::Epoch, Some("token_revoked")));
    assert_eq!(TokenError::Expired.fault().details(), Some(&json!({"reason": "token_expired"})));
    assert_eq!(TokenError::Signature.fault().told(), TokenError::Issuer.fault().told(), "a stranger learns nothing");
    assert_eq!(TokenError::Signature.fault().kind(), FaultKind::Unauthenticated);
}

#[test]
fn known_answers_of_the_standards_hold() {
    // RFC 8037, appendix A.
    let secret = BASE64URL_NOPAD.decode(b"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
    let key = SigningKey::from_bytes(&secret.try_into().unwrap());
    assert_eq!(jose::ed25519_jwk(&key.verifying_key())["x"], json!("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"));
    assert_eq!(
        jose::sign(&json!({"alg": "EdDSA"}), b"Example of Ed25519 signing", &key),
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    );
    assert_eq!(thumbprint(&key.verifying_key()), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    // RFC 9449, section 4.1: an ES256 key, and its thumbprint in section 6.1.
    let jwk = json!({
        "kty": "EC", "crv": "P-256",
        "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs", "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
    });
    let thumbprint = jose::PublicKey::from_jwk(&jwk).unwrap().thumbprint();
    assert_eq!(thumbprint, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
}

#[test]
fn both_keys_are_published_without_their_secrets() {
    let published = keys().jwks();
    let listed = published["keys"].as_array().unwrap();
    assert_eq!(listed.iter().map(|key| key["kid"].as_str().unwrap()).collect::<Vec<_>>(), ["new", "old"]);
    for key in listed {
        let names: Vec<_> = key.as_object().unwrap().keys().collect();
        assert_eq!(names, ["kty", "crv", "x", "kid", "alg", "use"]);
    }
}

#[test]
fn test_4_what_a_parent_does_not_have_is_refused_or_falls_away() {
    let parent = mint(
        &request(json!({
            "scope": ["tool:a", "tool:b@^1"], "budget": "2.00", "max_calls": 10, "labels_max": ["untrusted", "private"],
            "constraints": [{"pointer": "/n", "max": 5}],
        })),
        &root(),
        jti(1),
        at(NOW_S),
    )
    .unwrap();
    let child = |asked: Value| narrow(&parent, &request(asked), jti(2), at(NOW_S + 10));

    let whole = child(json!({"scope": ["tool:*"], "expires_s": 900})).unwrap();
    assert_eq!((whole.scope, whole.exp, whole.budget), (parent.scope.clone(), parent.exp, parent.budget));
    assert_eq!((whole.max_calls, whole.labels_max, whole.depth), (Some(10), parent.labels_max, 1));
    assert_eq!((whole.parent, whole.act, whole.sub), (Some(parent.jti), parent.act.clone(), parent.sub));

    let less = child(json!({
        "scope": ["tool:B@>=1.2", "tool:c"], "budget": "1.00", "max_calls": 1, "labels_max": ["private", "sensitive"],
        "constraints": [{"pointer": "/n", "max": 50}, {"pointer": "/n", "max": 3}], "expires_s": 20,
    }))
    .unwrap();
    assert_eq!(serde_json::to_value(&less.scope).unwrap(), json!(["tool:b@^1@>=1.2"]));
    assert_eq!((less.exp, less.labels_max), (NOW_S + 30, Some(Labels::from(Label::Private))));
    let names = [&FoldedName::of("b")];
    let version = |text: &str| text.parse::<Version>().unwrap();
    assert!(check(&less, &names, &version("1.3.0"), &json!({"n": 3})).is_ok());
    for (number, n, reason) in [("1.1.0", 3, "scope"), ("2.0.0", 3, "scope"), ("1.3.0", 4, "constraint")] {
        assert_eq!(check(&less, &names, &version(number), &json!({"n": n})).unwrap_err(), reason);
    }

    for (asked, pointer) in [
        (json!({"scope": ["tool:c"]}), "/scope"),
        (json!({"scope": []}), "/scope"),
        (json!({"scope": ["tool:a"], "budget": "2.01"}), "/budget"),
        (json!({"scope": ["tool:a"], "max_calls": 11}), "/max_calls"),
        (json!({"scope": ["tool:a"], "expires_s": 901}), "/expires_s"),
        (json!({"scope": ["tool:a"], "expires_s": 0}), "/expires_s"),
        (json!({"scope": ["tool:a"], "jkt": "short"}), "/jkt"),
    ] {
        assert_eq!(child(asked.clone()).unwrap_err().pointer(), Some(pointer), "{asked}");
    }

    let after = narrow(&parent, &request(json!({"scope": ["tool:a"]})), jti(2), at(parent.exp));
    assert_eq!(after.unwrap_err().kind(), FaultKind::Unauthenticated, "a parent that has ended has no children");
    let bound = Claims { run: Some(RunId::from_uuid(Uuid::from_u128(5))), ..parent };
    let other =
        MintRequest { run: Some(RunId::from_uuid(Uuid::from_u128(6))), ..request(json!({"scope": ["tool:a"]})) };
    assert_eq!(narrow(&bound, &other, jti(2), at(NOW_S)).unwrap_err().pointer(), Some("/run"));
}

#[test]
fn test_4_depth_ends_at_eight() {
    let mut last = claims();
    for depth in 1..=DEPTH_MAX {
        last = narrow(&last, &request(json!({"scope": ["tool:*"]})), jti(depth.into()), at(NOW_S)).unwrap();
        assert_eq!(last.depth, depth);
        assert_eq!(verdict(&sign(&last, "new", &key(1))), Ok(last.clone()));
    }
    let fault = narrow(&last, &request(json!({"scope": ["tool:*"]})), jti(99), at(NOW_S)).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Forbidden);
    let deeper = sign(&Claims { depth: 9, ..last.clone() }, "new", &key(1));
    assert!(matches!(verdict(&deeper), Err(TokenError::Claims(_))));
    let orphan = sign(&Claims { parent: None, ..last }, "new", &key(1));
    assert!(matches!(verdict(&orphan), Err(TokenError::Claims(_))));
}

#[test]
fn a_token_is_never_minted_that_would_be_refused() {
    let many: Vec<_> = (0..64).map(|n| format!("tool:{}{n}.{}", "a".repeat(60), "b".repeat(63))).collect();
    let fault = mint(&request(json!({"scope": many})), &root(), jti(1), at(NOW_S)).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::TooLarge);
    let fitting: Vec<_> = many.iter().take(30).collect();
    let claims = mint(&request(json!({"scope": fitting})), &root(), jti(1), at(NOW_S)).unwrap();
    assert_eq!(verdict(&sign(&claims, "new", &key(1))), Ok(claims));
    let short = Root { not_after: Some(at(NOW_S + 7)), ..root() };
    assert_eq!(mint(&request(json!({"scope": ["tool:*"]})), &short, jti(1), at(NOW_S)).unwrap().exp, NOW_S + 7);
    let over = Root { not_after: Some(at(NOW_S)), ..root() };
    assert!(mint(&request(json!({"scope": ["tool:*"]})), &over, jti(1), at(NOW_S)).is_err());
}

#[test]
fn scopes_are_read_strictly() {
    for text in ["tool:*", "tool:a", "tool:a.b@^1.2", "tool:a@>=1.0.0, <2.0.0", "tool:a@=1.2.3-rc.1"] {
        assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
    }
    for text in
        ["", "a", "tool:", "tool:a@", "tool:a.*", "tool:a@latest", "Tool:a", "calls.create", "tool: a", "tool:**"]
    {
        assert!(text.parse::<Scope>().is_err(), "{text}");
    }
}

// Few names, versions and numbers, so that they meet often.
fn any_scope() -> impl Strategy<Value = String> {
    let requirement = prop_oneof![
        Just(""),
        Just("@^1"),
        Just("@>=1.0.0"),
        Just("@>=1.2.0-rc.1"),
        Just("@=1.2.0"),
        Just("@<2"),
        Just("@*"),
        Just("@1.2.0-rc.1"),
    ];
    prop_oneof![
        1 => Just("tool:*".to_owned()),
        6 => ("[ab]", requirement).prop_map(|(name, requirement)| format!("tool:{name}{requirement}")),
    ]
}

prop_compose! {
    fn any_request()(
        scope in prop::collection::vec(any_scope(), 1..4),
        maxima in prop::collection::vec((0..6_u8, prop::option::of("[ab]")), 0..3),
        budget in prop::option::of(0..4_u8),
        max_calls in prop::option::of(0..4_u32),
        labels_max in prop::option::of(prop::sample::subsequence(Label::ALL.to_vec(), 0..=3)),
        expires_s in prop::option::of(1..=900_u32),
        run in prop::option::of(0..2_u128),
    ) -> MintRequest {
        let constraints: Vec<_> = maxima.iter().map(|(max, tool)| match tool {
            Some(tool) => json!({"tool": tool, "pointer": "/n", "max": max}),
            None => json!({"pointer": "/n", "max": max}),
        }).collect();
        MintRequest {
            scope: scope.iter().map(|text| text.parse().unwrap()).collect(),
            constraints: Constraints::parse(&constraints).unwrap(),
            budget: budget.map(|units| Amount::from_micros(i64::from(units) * 1_000_000)),
            max_calls,
            labels_max: labels_max.map(Labels::from),
            expires_s,
            run: run.map(|run| RunId::from_uuid(Uuid::from_u128(run))),
            jkt: None,
        }
    }
}

proptest! {
    #[test]
    fn test_4_no_child_admits_what_its_parent_refuses(
        requests in prop::collection::vec(any_request(), 2..5),
        steps in prop::collection::vec(0..200_u64, 5),
        names in prop::sample::subsequence(vec!["a", "b", "c"], 1..=2),
        version in prop::sample::select(vec!["0.9.0", "1.0.0", "1.2.0-rc.1", "1.2.0", "1.2.0-rc.2", "1.3.0", "2.0.0-rc.1"]),
        n in prop::option::of(0..7_u8),
        time in 0..1200_u64,
        seen in prop::sample::subsequence(Label::ALL.to_vec(), 0..=3),
    ) {
        let folded: Vec<_> = names.iter().map(|name| FoldedName::of(name)).collect();
        let names: Vec<_> = folded.iter().collect();
        let version: Version = version.parse().unwrap();
        let input = n.map_or_else(|| json!({}), |n| json!({"n": n}));
        let admits = |claims: &Claims| {
            let text = sign(claims, "new", &key(1));
            verify(&text, &keys(), &expected(NOW_S + time)).is_ok()
                && check(claims, &names, &version, &input).is_ok()
                && crate::labels::excess(Labels::from(seen.as_slice()), claims.labels_max).is_empty()
        };
        let no_more = |child: Option<u64>, parent: Option<u64>| parent.is_none_or(|most| child.is_some_and(|has| has <= most));
        let mut now = NOW_S;
        let mut parent = mint(&requests[0], &root(), jti(1), at(now)).unwrap();
        for (index, request) in requests[1..].iter().enumerate() {
            now += steps[index];
            let Ok(child) = narrow(&parent, request, jti(index as u128 + 2), at(now)) else { continue };
            prop_assert!(!admits(&child) || admits(&parent), "{child:?}\nis wider than\n{parent:?}");
            prop_assert!(no_more(child.budget.map(|b| b.micros().unsigned_abs()), parent.budget.map(|b| b.micros().unsigned_abs())));
            prop_assert!(no_more(child.max_calls.map(u64::from), parent.max_calls.map(u64::from)));
            prop_assert!(child.nbf >= parent.nbf && child.exp <= parent.exp && child.depth == parent.depth + 1);
            prop_assert!(parent.run.is_none() || child.run == parent.run);
            let same = |claims: &Claims| (claims.sub, claims.act.clone(), claims.tenant, claims.epoch, claims.aud.clone());
            prop_assert_eq!(same(&child), same(&parent));
            parent = child;
        }
    }

    #[test]
    fn no_text_makes_a_verifier_panic(text in ".{0,80}", cut in 0..400_usize, other in any::<u8>()) {
        prop_assert!(verdict(&text).is_err());
        let mut bytes = sign(&claims(), "new", &key(1)).into_bytes();
        let index = cut % bytes.len();
        bytes[index] ^= other;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            prop_assert!(other == 0 || verdict(text).is_err(), "a changed token is not the token");
        }
    }
}

fn uri() -> Url {
    "https://gate.test/api/v1/calls?wait=30".parse().unwrap()
}

fn proof_header(key: &SigningKey) -> Value {
    json!({"typ": "dpop+jwt", "alg": "EdDSA", "jwk": jose::ed25519_jwk(&key.verifying_key())})
}

fn proof_claims(token: &str) -> Value {
    let ath = BASE64URL_NOPAD.encode(&Sha256::digest(token));
    json!({"jti": "p1", "htm": "POST", "htu": "https://gate.test/api/v1/calls", "iat": NOW_S, "ath": ath})
}

fn bound(key: &SigningKey) -> Claims {
    Claims { cnf: Some(Confirmation { jkt: thumbprint(&key.verifying_key()) }), ..claims() }
}

#[track_caller]
fn check_proof(claims: &Claims, token: &str, proof: Option<&str>, wanted: Result<(), ProofErrorKind>) {
    let uri = uri();
    let expected = dpop::Expected { method: "POST", uri: &uri, now: at(NOW_S), token: Some(token) };
    let found = dpop::possession(claims, proof, &expected).map(|proven| {
        assert_eq!(proven.unwrap().jti, "p1");
    });
    assert_eq!(
        found.map_err(|error| std::mem::discriminant(&error)),
        wanted.map_err(|error| std::mem::discriminant(&error))
    );
}

type ProofErrorKind = dpop::ProofError;

#[test]
fn test_6_a_bound_token_is_nothing_without_a_fitting_proof() {
    use dpop::ProofError as E;
    let holder = key(5);
    let claims = bound(&holder);
    let token = sign(&claims, "new", &key(1));
    let proof = |header: Value, claims: Value, key: &SigningKey| forge(&header, &claims.to_string(), key);
    let good = proof(proof_header(&holder), proof_claims(&token), &holder);
    check_proof(&claims, &token, Some(&good), Ok(()));
    check_proof(&claims, &token, None, Err(E::Missing));

    let thief = key(6);
    let stolen = proof(proof_header(&thief), proof_claims(&token), &thief);
    check_proof(&claims, &token, Some(&stolen), Err(E::Key));
    let mixed = proof(proof_header(&holder), proof_claims(&token), &thief);
    check_proof(&claims, &token, Some(&mixed), Err(E::Signature));
    let other_token = proof(proof_header(&holder), proof_claims("another"), &holder);
    check_proof(&claims, &token, Some(&other_token), Err(E::Token));
    let no_token = proof(proof_header(&holder), without(proof_claims(&token), "ath"), &holder);
    check_proof(&claims, &token, Some(&no_token), Err(E::Token));

    for (member, value, error) in [
        ("htm", json!("GET"), E::Request),
        ("htm", json!("post"), E::Request),
        ("htu", json!("https://gate.test/api/v1/tokens"), E::Request),
        ("htu", json!("https://gate.test/api/v1/calls?wait=30"), E::Request),
        ("htu", json!("https://evil.test/api/v1/calls"), E::Request),
        ("htu", json!("/api/v1/calls"), E::Request),
        ("iat", json!(NOW_S - 61), E::Time),
        ("iat", json!(NOW_S + 61), E::Time),
        ("iat", json!(NOW_S.to_string()), E::Claims("")),
        ("iat", json!(-1), E::Claims("")),
        ("jti", json!(""), E::Claims("")),
        ("jti", json!("x".repeat(129)), E::Claims("")),
    ] {
        let text = proof(proof_header(&holder), with(proof_claims(&token), member, value), &holder);
        check_proof(&claims, &token, Some(&text), Err(error));
    }
    for iat in [NOW_S - 60, NOW_S + 60] {
        let text = proof(proof_header(&holder), with(proof_claims(&token), "iat", json!(iat)), &holder);
        check_proof(&claims, &token, Some(&text), Ok(()));
    }
    let mut secret = jose::ed25519_jwk(&holder.verifying_key());
    secret.insert("d".to_owned(), json!("AAAA"));
    for (member, value) in [
        ("typ", json!("JWT")),
        ("typ", json!(TYPE)),
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("ES256")),
        ("jwk", json!(null)),
        ("jwk", json!({"kty": "oct", "k": "AAAA"})),
        ("jwk", json!(secret)),
        ("crit", json!(["iat"])),
    ] {
        let text = proof(with(proof_header(&holder), member, value), proof_claims(&token), &holder);
        check_proof(&claims, &token, Some(&text), Err(E::Header("")));
    }
    check_proof(&claims, &token, Some("x"), Err(E::Unreadable("")));
    check_proof(&claims, &token, Some(&token), Err(E::Header("")));
}

#[test]
fn test_6_a_proof_names_itself_so_that_it_counts_once() {
    let holder = key(5);
    let uri = uri();
    let expected = dpop::Expected { method: "POST", uri: &uri, now: at(NOW_S), token: None };
    let text = forge(&proof_header(&holder), &without(proof_claims(""), "ath").to_string(), &holder);
    let proven = dpop::check(&text, &expected).unwrap();
    assert_eq!((proven.jkt.clone(), proven.jti.as_str()), (thumbprint(&holder.verifying_key()), "p1"));
    let after = dpop::Expected { now: proven.forget_after, ..expected };
    assert_eq!(dpop::check(&text, &after), Err(dpop::ProofError::Time), "once forgotten, it is too old");
    let bound = bound(&holder);
    assert_eq!(dpop::possession(&bound, Some(&text), &expected), Err(dpop::ProofError::Token), "a token must be named");
}

#[test]
fn a_browsers_key_proves_as_well() {
    use p256::ecdsa::signature::Signer as _;
    let secret = p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    let point = secret.verifying_key().to_sec1_point(false);
    let coordinate = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let jwk = json!({
        "kty": "EC", "crv": "P-256",
        "x": coordinate(point.x().unwrap()), "y": coordinate(point.y().unwrap()), "key_ops": ["verify"], "ext": true,
    });
    let jkt = jose::PublicKey::from_jwk(&jwk).unwrap().thumbprint();
    let claims = Claims { cnf: Some(Confirmation { jkt }), ..claims() };
    let token = sign(&claims, "new", &key(1));
    let make = |alg: &str| {
        let header = json!({"typ": "dpop+jwt", "alg": alg, "jwk": jwk});
        let parts = [header.to_string(), proof_claims(&token).to_string()];
        let signed = parts.map(|part| BASE64URL_NOPAD.encode(part.as_bytes())).join(".");
        let signature: p256::ecdsa::Signature = secret.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature.to_bytes()))
    };
    check_proof(&claims, &token, Some(&make("ES256")), Ok(()));
    check_proof(&claims, &token, Some(&make("EdDSA")), Err(dpop::ProofError::Header("")));
    let off_curve = json!({"kty": "EC", "crv": "P-256", "x": coordinate(&[1; 32]), "y": coordinate(&[1; 32])});
    assert!(jose::PublicKey::from_jwk(&off_curve).is_none());
}
