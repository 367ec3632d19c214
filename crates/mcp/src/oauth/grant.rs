//! How a token comes to be: by a person's yes in a browser (a code with PKCE), by our own secret, or by the one before.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::{Digest, Rng, Timestamp};
use toolgate_egress::Url;
use zeroize::Zeroize as _;

use super::asked::{form, posted};
use super::{Authority, Client, OauthError, TEXT_BYTES_MAX, Tokens, shown, wrong};
use crate::upstream::{Challenge, Outlet};

const FORM: &str = "application/x-www-form-urlencoded";
/// How long somebody may take in the browser.
pub const ATTEMPT_S: i64 = 10 * 60;
/// An end that is further off is taken for none. A token without one is sent until the server refuses it, and is renewed then
/// where it can be.
const LIFE_S_MAX: i64 = 366 * 24 * 60 * 60;
const OFFLINE: &str = "offline_access";

/// A sign-in under way: what has to be known again when the browser comes back. It holds secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub state: String,
    verifier: String,
    pub issuer: String,
    token_endpoint: String,
    names_itself: bool,
    pub resource: String,
    pub address: String,
    pub redirect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub client: Client,
    pub expires_at: Timestamp,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({} for {})", self.issuer, self.resource)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.verifier.zeroize();
    }
}

/// What a token is asked for.
#[derive(Clone, Debug)]
pub struct Wanting<'a> {
    pub client: Client,
    pub redirect: &'a str,
    pub scope: Option<String>,
}

/// What the browser brings back.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub state: String,
    pub code: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

impl Answer {
    /// From the address that the browser came back to.
    pub fn of(address: &Url) -> Self {
        let mut answer = Self::default();
        for (name, value) in address.query_pairs() {
            let place = match &*name {
                "state" => {
                    answer.state = value.into_owned();
                    continue;
                }
                "code" => &mut answer.code,
                "iss" => &mut answer.iss,
                "error" => &mut answer.error,
                _ => continue,
            };
            *place = Some(value.into_owned());
        }
        answer
    }
}

/// What to ask for: what the operator wrote, else what the server's refusal names, else what the server says that it takes;
/// and to be let in while nobody is there, where the authorisation server knows that.
pub fn scope_for(authority: &Authority, challenge: &Challenge, written: Option<&str>) -> Option<String> {
    let of_server = || (!authority.scopes.is_empty()).then(|| authority.scopes.join(" "));
    let wanted = written.map(str::to_owned).or_else(|| challenge.scope.clone()).or_else(of_server);
    if authority.offers_offline {
        return Some(with_more(wanted.as_deref(), OFFLINE));
    }
    wanted
}

/// Both, each word once and in their order.
pub fn with_more(had: Option<&str>, more: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in had.unwrap_or_default().split_ascii_whitespace().chain(more.split_ascii_whitespace()) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Where a person is sent, and what has to be kept until they come back.
pub fn begin(
    authority: &Authority,
    wanting: Wanting<'_>,
    rng: &Rng,
    now: Timestamp,
) -> Result<(Url, Attempt), OauthError> {
    let Wanting { client, redirect, scope } = wanting;
    let no_page = || wrong(format!("`{}` has no page where somebody could say yes", authority.issuer));
    let mut at = authority.authorization_endpoint.clone().ok_or_else(no_page)?;
    if !authority.takes_challenges {
        return Err(wrong(format!(
            "`{}` does not say that it takes PKCE with S256, and nothing weaker is used",
            authority.issuer
        )));
    }
    let random = || BASE64URL_NOPAD.encode(&rng.bytes::<32>());
    let (state, verifier) = (random(), random());
    let challenge = BASE64URL_NOPAD.encode(Digest::of(verifier.as_bytes()).as_bytes());
    {
        let mut query = at.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &state)
            .append_pair("resource", &authority.resource);
        if let Some(scope) = &scope {
            query.append_pair("scope", scope);
            // A yes to be let in while nobody is there has to be given by somebody.
            if scope.split(' ').any(|word| word == OFFLINE) {
                query.append_pair("prompt", "consent");
            }
        }
    }
    let attempt = Attempt {
        state,
        verifier,
        issuer: authority.issuer.clone(),
        token_endpoint: authority.token_endpoint.to_string(),
        names_itself: authority.names_itself,
        resource: authority.resource.clone(),
        address: authority.address.to_string(),
        redirect: redirect.to_owned(),
        scope,
        client,
        expires_at: now.plus_seconds(ATTEMPT_S),
    };
    Ok((at, attempt))
}

/// Trades what the browser brought for tokens, if it is the answer to this attempt and of whom it was asked.
pub async fn finish(
    outlet: &dyn Outlet,
    attempt: &Attempt,
    answer: &Answer,
    now: Timestamp,
) -> Result<Tokens, OauthError> {
    let code = checked(attempt, answer, now)?;
    let mut pairs = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", attempt.redirect.as_str()),
        ("code_verifier", attempt.verifier.as_str()),
        ("resource", attempt.resource.as_str()),
    ];
    let asked = token(outlet, &attempt.token_endpoint, &attempt.client, &mut pairs).await?;
    let of = Of {
        issuer: &attempt.issuer,
        token_endpoint: &attempt.token_endpoint,
        resource: &attempt.resource,
        address: &attempt.address,
        scope: attempt.scope.as_deref(),
        client: &attempt.client,
    };
    tokens(&asked, &of, None, now)
}

/// The code that an answer holds.
fn checked<'a>(attempt: &Attempt, answer: &'a Answer, now: Timestamp) -> Result<&'a str, OauthError> {
    if answer.state != attempt.state {
        return Err(wrong("what came back is not the answer to what was asked"));
    }
    if attempt.expires_at <= now {
        return Err(wrong("it took too long"));
    }
    // Before anything else of it is believed; by the very text (RFC 9207).
    match &answer.iss {
        Some(iss) if *iss != attempt.issuer => {
            return Err(wrong(format!("the answer is of `{}`, which was not asked", shown(iss))));
        }
        None if attempt.names_itself => return Err(wrong("the answer does not say of whom it is, as it has to")),
        Some(_) | None => {}
    }
    if let Some(error) = &answer.error {
        return Err(OauthError::Refused { error: shown(error), description: None });
    }
    let fitting = |code: &&str| (1..=TEXT_BYTES_MAX).contains(&code.len());
    answer.code.as_deref().filter(fitting).ok_or_else(|| wrong("the answer holds no code"))
}

/// A token for ourselves, by our own secret.
pub async fn by_secret(
    outlet: &dyn Outlet,
    authority: &Authority,
    client: &Client,
    scope: Option<&str>,
    now: Timestamp,
) -> Result<Tokens, OauthError> {
    let mut pairs = vec![("grant_type", "client_credentials"), ("resource", authority.resource.as_str())];
    pairs.extend(scope.map(|scope| ("scope", scope)));
    let endpoint = authority.token_endpoint.to_string();
    let asked = token(outlet, &endpoint, client, &mut pairs).await?;
    let address = authority.address.to_string();
    let of = Of {
        issuer: &authority.issuer,
        token_endpoint: &endpoint,
        resource: &authority.resource,
        address: &address,
        scope,
        client,
    };
    let mut tokens = tokens(&asked, &of, None, now)?;
    // There is nobody to be absent: another one is asked for in the same way.
    tokens.refresh_token = None;
    Ok(tokens)
}

/// The next token by the one before, or `None` where that cannot be renewed.
pub async fn refresh(outlet: &dyn Outlet, before: &Tokens, now: Timestamp) -> Result<Option<Tokens>, OauthError> {
    let Some(refresh_token) = &before.refresh_token else { return Ok(None) };
    let mut pairs = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh_token.as_str()),
        ("resource", before.resource.as_str()),
    ];
    let asked = token(outlet, &before.token_endpoint, &before.client, &mut pairs).await?;
    let of = Of {
        issuer: &before.issuer,
        token_endpoint: &before.token_endpoint,
        resource: &before.resource,
        address: &before.address,
        scope: before.scope.as_deref(),
        client: &before.client,
    };
    tokens(&asked, &of, Some(refresh_token), now).map(Some)
}

async fn token<'c>(
    outlet: &dyn Outlet,
    endpoint: &str,
    client: &'c Client,
    pairs: &mut Vec<(&'static str, &'c str)>,
) -> Result<Value, OauthError> {
    let at = Url::parse(endpoint).map_err(|_| wrong("`token_endpoint` is no address"))?;
    let header = client.show(pairs)?;
    posted(outlet, &at, FORM, form(pairs.iter().copied()), header).await
}

/// Whose a token is, and what for.
struct Of<'a> {
    issuer: &'a str,
    token_endpoint: &'a str,
    resource: &'a str,
    address: &'a str,
    scope: Option<&'a str>,
    client: &'a Client,
}

fn tokens(answer: &Value, of: &Of<'_>, refresh_before: Option<&str>, now: Timestamp) -> Result<Tokens, OauthError> {
    let text = |member: &str| {
        let text = answer.get(member).and_then(Value::as_str);
        text.filter(|text| (1..=TEXT_BYTES_MAX).contains(&text.len())).map(str::to_owned)
    };
    let is_bearer = text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !is_bearer {
        return Err(wrong("it gives a token of another kind than `Bearer`"));
    }
    let access_token = text("access_token").ok_or_else(|| wrong("it gives no `access_token`"))?;
    // It becomes part of a header.
    if !access_token.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Err(wrong("its `access_token` has characters that no header has"));
    }
    let seconds = answer.get("expires_in").and_then(Value::as_i64);
    let Of { issuer, token_endpoint, resource, address, scope, client } = *of;
    Ok(Tokens {
        access_token,
        refresh_token: text("refresh_token").or_else(|| refresh_before.map(str::to_owned)),
        expires_at: seconds
            .filter(|seconds| (0..LIFE_S_MAX).contains(seconds))
            .map(|seconds| now.plus_seconds(seconds)),
        scope: text("scope").or_else(|| scope.map(str::to_owned)),
        wanted: None,
        connection: String::new(),
        issuer: issuer.to_owned(),
        token_endpoint: token_endpoint.to_owned(),
        resource: resource.to_owned(),
        address: address.to_owned(),
        client: client.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oauth::ClientAuth;

    fn authority(names_itself: bool) -> Authority {
        let at = |text: &str| Url::parse(text).unwrap();
        Authority {
            address: at("https://a.test/mcp"),
            resource: "https://a.test/mcp".to_owned(),
            issuer: "https://id.test".to_owned(),
            authorization_endpoint: Some(at("https://id.test/authorize?tenant=1")),
            token_endpoint: at("https://id.test/token"),
            registration_endpoint: None,
            scopes: vec!["read".to_owned(), "write".to_owned()],
            offers_offline: false,
            methods: Vec::new(),
            names_itself,
            takes_documents: false,
            takes_challenges: true,
        }
    }

    fn begun(names_itself: bool) -> (Url, Attempt) {
        let issuer = "https://id.test".to_owned();
        let client = Client { issuer, id: "we".to_owned(), secret: None, auth: ClientAuth::None, redirect: None };
        let wanting = Wanting { client, redirect: "http://127.0.0.1:9/callback", scope: Some("read".to_owned()) };
        begin(&authority(names_itself), wanting, &Rng::seeded(7), Timestamp::from_millis(0)).unwrap()
    }

    #[test]
    fn what_is_asked_for_is_what_was_named_first() {
        let of = |challenge: Option<&str>, written: Option<&str>, offline: bool| {
            let authority = Authority { offers_offline: offline, ..authority(false) };
            let challenge = Challenge { scope: challenge.map(str::to_owned), ..Challenge::default() };
            scope_for(&authority, &challenge, written)
        };
        assert_eq!(of(Some("mail"), None, false).as_deref(), Some("mail"));
        assert_eq!(of(Some("mail"), Some("calendar"), false).as_deref(), Some("calendar"));
        assert_eq!(of(None, None, false).as_deref(), Some("read write"));
        assert_eq!(of(Some("mail"), None, true).as_deref(), Some("mail offline_access"));
        let silent = Authority { scopes: Vec::new(), ..authority(false) };
        assert_eq!(scope_for(&silent, &Challenge::default(), None), None);
        assert_eq!(with_more(Some("a b"), "b c a"), "a b c");
    }

    #[test]
    fn an_answer_counts_only_for_its_attempt_and_from_whom_was_asked() {
        #[track_caller]
        fn check(names_itself: bool, query: &str, late: bool, taken: bool) {
            let (_, attempt) = begun(names_itself);
            let query = query.replace("STATE", &attempt.state);
            let answer = Answer::of(&Url::parse(&format!("http://127.0.0.1:9/callback?{query}")).unwrap());
            let now = Timestamp::from_millis(0).plus_seconds(if late { ATTEMPT_S } else { 1 });
            assert_eq!(checked(&attempt, &answer, now).is_ok(), taken, "{query}");
        }
        check(false, "code=x&state=STATE", false, true);
        check(false, "code=x&state=STATE", true, false);
        check(false, "code=x&state=other", false, false);
        check(false, "code=x", false, false);
        check(false, "state=STATE", false, false);
        check(false, "error=access_denied&state=STATE", false, false);
        check(false, "code=x&state=STATE&iss=https://id.test", false, true);
        check(false, "code=x&state=STATE&iss=https://id.test/", false, false);
        check(false, "code=x&state=STATE&iss=https://other.test", false, false);
        check(true, "code=x&state=STATE", false, false);
        check(true, "code=x&state=STATE&iss=https://id.test", false, true);
    }

    #[test]
    fn a_person_is_sent_with_a_challenge_and_told_what_for() {
        let (at, attempt) = begun(false);
        let get = |name: &str| at.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        assert_eq!(get("tenant").as_deref(), Some("1"), "what was in the address stays");
        assert_eq!(get("resource").as_deref(), Some("https://a.test/mcp"));
        assert_eq!(get("code_challenge_method").as_deref(), Some("S256"));
        let expected = BASE64URL_NOPAD.encode(Digest::of(attempt.verifier.as_bytes()).as_bytes());
        assert_eq!(get("code_challenge"), Some(expected));
        assert!(!at.as_str().contains(&attempt.verifier) && !format!("{attempt:?}").contains(&attempt.verifier));
        let weak = Authority { takes_challenges: false, ..authority(false) };
        let wanting = Wanting { client: attempt.client.clone(), redirect: "http://127.0.0.1:9/", scope: None };
        assert!(begin(&weak, wanting, &Rng::seeded(1), Timestamp::from_millis(0)).is_err());
    }

    #[test]
    fn only_a_token_that_can_be_sent_is_taken() {
        let (_, attempt) = begun(false);
        let of = Of {
            issuer: &attempt.issuer,
            token_endpoint: "https://id.test/token",
            resource: &attempt.resource,
            address: &attempt.address,
            scope: Some("read"),
            client: &attempt.client,
        };
        let now = Timestamp::from_millis(0);
        let take = |answer: Value| tokens(&answer, &of, Some("old"), now);
        let taken = take(json!({"access_token": "abc", "token_type": "bearer", "expires_in": 60})).unwrap();
        assert_eq!((taken.refresh_token.as_deref(), taken.scope.as_deref()), (Some("old"), Some("read")));
        assert!(!taken.is_over(now) && taken.is_over(now.plus_seconds(31)));
        assert!(!format!("{taken:?}").contains("abc"));
        for wrong in [
            json!({"access_token": "a\r\nb"}),
            json!({"access_token": ""}),
            json!({"access_token": 7}),
            json!({"access_token": "abc", "token_type": "DPoP"}),
            json!({}),
        ] {
            assert!(take(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
