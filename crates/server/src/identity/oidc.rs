//! Signing in with a provider of identities (OpenID Connect): by code and PKCE, with everything that goes to the
//! provider through the one connector.
//!
//! INVARIANT: who somebody is, is the provider's word for them (`iss` and `sub`); an e-mail address never decides it.
//! What a sign-in under way needs is in the browser that began it: `state`, `nonce` and the verifier are derived from one
//! random secret in a cookie, so nobody else's browser can finish it, and nothing is stored here for whoever never comes
//! back. What beginning and coming back cost is bounded: one network waits after [`NETWORK_FREE`] that came to nothing,
//! and the provider is asked about itself by one at a time, whose answer those who waited share. Deliberately absent:
//! refresh tokens, the provider's access token, and signing out at the provider.

pub mod id_token;
mod people;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Digest, Fault, FaultKind, Id, OpeningId, TenantId, Timestamp, json as strict};
use toolgate_egress::{Bytes, HeaderValue, Method, Purpose, Request, Response, Url};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::sign_in::Delay;

pub use self::settings::{Oidc, check_roles, check_tenants};
use super::sessions::FRESH_S;
use super::sign_in::{counted, too_many};
use super::{Begun, Whence};
use crate::app::App;

pub const CALLBACK: &str = "/oidc/callback";
/// How long somebody may take at the provider.
pub const FLOW_S: i64 = 10 * 60;
/// How long what the provider says of itself is believed.
const KNOWN_FOR_S: i64 = 3600;
/// New keys are not looked for more often: whoever shows made-up tokens makes us ask.
const KEYS_EVERY_S: i64 = 60;
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;
const OPENING_NOTED_EVERY_S: i64 = 3600;
/// Sign-ins of one network that were begun, or came back, and let nobody in: so many before it waits, and how long at
/// most. A whole office begins its day behind one address, and those who get in take back what they counted.
const NETWORK_FREE: u32 = 120;
const NETWORK_MS_MAX: i64 = 60_000;

/// What the provider says of itself.
#[derive(Debug)]
struct Provider {
    authorization: Url,
    token: Url,
    keys_at: Url,
    /// Whether its answers name it (RFC 9207).
    names_itself: bool,
    takes_basic: bool,
    keys: Vec<id_token::Key>,
    known_at: Timestamp,
    keys_known_at: Timestamp,
}

/// What is remembered of the provider.
#[derive(Default)]
pub struct Memory {
    provider: ArcSwapOption<Provider>,
    /// Whose turn it is to ask the provider about itself, and what was wrong the last time.
    asking: tokio::sync::Mutex<String>,
    /// How often asking failed.
    failures: AtomicU64,
    /// When an opening was last written into the log.
    noted: Mutex<HashMap<OpeningId, Timestamp>>,
}

/// Why nobody is signed in. Each has a word that the sign-in page knows.
#[derive(Debug)]
pub enum Refusal {
    /// The provider or the person said no.
    Denied,
    /// Took too long, or another browser began it.
    Expired,
    NoRole,
    Disabled,
    AnotherPerson,
    NotFresh,
    /// Too many came back from this network and did not get in: told is when to try again.
    TooMany(Fault),
    /// The provider could not be reached, or what it says is not valid; why is for the log.
    Provider(String),
    Fault(Fault),
}

impl Refusal {
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::NoRole => "no_role",
            Self::Disabled => "disabled",
            Self::AnotherPerson => "another_person",
            Self::NotFresh => "not_fresh",
            Self::TooMany(_) => "too_many",
            Self::Provider(_) | Self::Fault(_) => "provider",
        }
    }
}

impl<E: Into<Fault>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// What the provider sends a browser back with.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Returned {
    pub code: Option<String>,
    pub state: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

/// A sign-in under way, as the browser's cookie holds it: `SECRET.MILLIS.STEP.PATH`.
struct Flow {
    secret: String,
    began_at: Timestamp,
    step_up: bool,
    return_to: String,
}

impl Flow {
    fn cookie(&self) -> String {
        let Self { secret, began_at, step_up, return_to } = self;
        let step = u8::from(*step_up);
        format!("{secret}.{}.{step}.{}", began_at.millis(), BASE64URL_NOPAD.encode(return_to.as_bytes()))
    }

    fn parse(cookie: &str) -> Option<Self> {
        let mut parts = cookie.split('.');
        let (secret, millis, step, path) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let return_to = String::from_utf8(BASE64URL_NOPAD.decode(path.as_bytes()).ok()?).ok()?;
        Some(Self {
            secret: Some(secret).filter(|secret| secret.len() == 43)?.to_owned(),
            began_at: Timestamp::from_millis(millis.parse().ok()?),
            step_up: step == "1",
            return_to: Some(return_to).filter(|path| is_own_path(path))?,
        })
    }

    fn derived(&self, what: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("toolgate/oidc/1\n{what}\n"));
        hash.update(&self.secret);
        BASE64URL_NOPAD.encode(&hash.finalize())
    }
}

/// The path travels in a cookie; that of an OAuth client's request is the longest.
const PATH_BYTES_MAX: usize = 2048;

/// Whether a text is a path of this server, and nothing that a browser takes for another host.
pub fn is_own_path(path: &str) -> bool {
    let rest = path.strip_prefix('/');
    rest.is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && path.len() <= PATH_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

impl App {
    /// Begins a sign-in: where the browser goes, and what it keeps until it comes back.
    pub async fn begin_oidc(
        &self,
        return_to: Option<&str>,
        step_up: bool,
        whence: &Whence,
    ) -> Result<(String, String), Fault> {
        let oidc = self.oidc()?;
        let return_to = return_to.unwrap_or("/");
        if !is_own_path(return_to) {
            let told = "`return_to` is no path of this server";
            return Err(Fault::invalid(told, "send a path such as `/approvals`").at("/return_to"));
        }
        self.count_flow(whence).await?;
        let provider = self.provider(oidc).await.map_err(|refusal| unreachable(oidc, &refusal))?;
        let secret = BASE64URL_NOPAD.encode(&self.rng.bytes::<32>());
        let flow = Flow { secret, began_at: self.clock.now(), step_up, return_to: return_to.to_owned() };
        let challenge = BASE64URL_NOPAD.encode(&Sha256::digest(flow.derived("verifier")));
        let mut url = provider.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &oidc.client_id)
            .append_pair("redirect_uri", &self.oidc_redirect())
            .append_pair("scope", &oidc.scopes)
            .append_pair("state", &flow.derived("state"))
            .append_pair("nonce", &flow.derived("nonce"))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if step_up {
            url.query_pairs_mut().append_pair("prompt", "login").append_pair("max_age", "0");
        }
        Ok((url.into(), flow.cookie()))
    }

    /// Ends a sign-in: the session that comes of it, and where the browser goes on.
    pub async fn finish_oidc(
        &self,
        cookie: Option<&str>,
        returned: &Returned,
        present: Option<Caller>,
        whence: &Whence,
    ) -> Result<(Begun, String), Refusal> {
        let oidc = self.oidc()?;
        let flow = cookie.and_then(Flow::parse).ok_or(Refusal::Expired)?;
        let state = returned.state.as_deref().unwrap_or_default();
        let own: bool = state.as_bytes().ct_eq(flow.derived("state").as_bytes()).into();
        let now = self.clock.now();
        if !own || now > flow.began_at.plus_seconds(FLOW_S) || now < flow.began_at {
            return Err(Refusal::Expired);
        }
        let counted = self.count_flow(whence).await.map_err(Refusal::TooMany)?;
        let provider = self.provider(oidc).await?;
        match returned.iss.as_deref() {
            Some(named) if named != oidc.issuer => {
                return Err(Refusal::Provider("the answer is of another issuer (`iss`)".to_owned()));
            }
            None if provider.names_itself => {
                return Err(Refusal::Provider("the answer does not name its issuer (`iss`)".to_owned()));
            }
            Some(_) | None => {}
        }
        if let Some(error) = &returned.error {
            tracing::info!(error = %error.escape_debug(), "the provider of identities refused a sign-in");
            return Err(Refusal::Denied);
        }
        let code = returned.code.as_deref().ok_or_else(|| Refusal::Provider("the answer has no code".to_owned()))?;
        let token = self.exchange(oidc, &provider, code, &flow.derived("verifier")).await?;
        let nonce = flow.derived("nonce");
        let said = self.id_token(oidc, provider, &token, &nonce).await?;
        let begun = if flow.step_up {
            self.step_up_by_provider(oidc, present, &said).await?
        } else {
            self.let_in(oidc, &said, whence).await?
        };
        if let Some(network) = counted {
            // The beginning and the return.
            self.store.network_was_right(network, 2).await?;
        }
        Ok((begun, flow.return_to))
    }

    /// Counts a beginning or a return against the network it comes from, or says when it may try again.
    async fn count_flow(&self, whence: &Whence) -> Result<Option<Digest>, Fault> {
        let Some(network) = whence.network() else { return Ok(None) };
        let key = counted("oidc", &network);
        let delay = Delay { key, free: NETWORK_FREE, most_ms: NETWORK_MS_MAX };
        match self.store.attempt(&[delay], self.clock.now()).await? {
            None => Ok(Some(key)),
            Some(wait_ms) => Err(too_many(wait_ms)),
        }
    }

    async fn step_up_by_provider(
        &self,
        oidc: &Oidc,
        present: Option<Caller>,
        said: &id_token::Said,
    ) -> Result<Begun, Refusal> {
        let caller = present.ok_or(Refusal::Expired)?;
        let Credential::BrowserSession(session) = caller.credential else { return Err(Refusal::Expired) };
        if !oidc.takes(&caller.tenant_slug) {
            return Err(Refusal::AnotherPerson);
        }
        let account = self.store.identity(&oidc.issuer, &said.subject).await?;
        let own = match caller.user() {
            Some(user) => self.store.candidate_by_id(caller.tenant, user).await?.map(|person| person.account),
            None => None,
        };
        if account.is_none() || account != own {
            return Err(Refusal::AnotherPerson);
        }
        let now = self.clock.now();
        // The provider says when it asked the person: from then on the proof counts, as a password's does.
        let proved_at = said.proved_at.filter(|at| now <= at.plus_seconds(FRESH_S)).ok_or(Refusal::NotFresh)?;
        Ok(self.renewed(&caller, session, "oidc", proved_at).await?)
    }

    fn oidc(&self) -> Result<&Oidc, Fault> {
        self.oidc.as_ref().ok_or_else(|| {
            Fault::new(
                FaultKind::NotFound,
                "no provider of identities is configured",
                "sign in another way; see `/api/v1/session/ways`",
            )
        })
    }

    /// The one address that the provider sends browsers back to.
    fn oidc_redirect(&self) -> String {
        format!("{}{CALLBACK}", self.base_url())
    }

    /// The token's claims, once its signature and they were checked. Unknown keys are looked for once.
    async fn id_token(
        &self,
        oidc: &Oidc,
        provider: Arc<Provider>,
        token: &str,
        nonce: &str,
    ) -> Result<id_token::Said, Refusal> {
        let now = self.clock.now();
        let expected = id_token::Expected { issuer: &oidc.issuer, client_id: &oidc.client_id, nonce, now };
        let checked = match id_token::check(token, &provider.keys, &expected) {
            Err(id_token::Wrong::Signature) if now > provider.keys_known_at.plus_seconds(KEYS_EVERY_S) => {
                let keys = id_token::keys(&self.document(provider.keys_at.clone()).await?);
                let checked = id_token::check(token, &keys, &expected);
                let Provider { authorization, token, keys_at, names_itself, takes_basic, known_at, .. } = &*provider;
                oidc.memory.provider.store(Some(Arc::new(Provider {
                    authorization: authorization.clone(),
                    token: token.clone(),
                    keys_at: keys_at.clone(),
                    names_itself: *names_itself,
                    takes_basic: *takes_basic,
                    keys,
                    known_at: *known_at,
                    keys_known_at: now,
                })));
                checked
            }
            checked => checked,
        };
        checked.map_err(|wrong| Refusal::Provider(wrong.to_string()))
    }

    /// What is known of the provider, asked anew from time to time: by one, whose answer those who wait share.
    async fn provider(&self, oidc: &Oidc) -> Result<Arc<Provider>, Refusal> {
        let memory = &oidc.memory;
        let known = || {
            let now = self.clock.now();
            memory.provider.load_full().filter(|known| now <= known.known_at.plus_seconds(KNOWN_FOR_S))
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let failures = memory.failures.load(Ordering::SeqCst);
        let mut wrong = memory.asking.lock().await;
        if let Some(known) = known() {
            return Ok(known);
        }
        if memory.failures.load(Ordering::SeqCst) != failures {
            return Err(Refusal::Provider(wrong.clone()));
        }
        let asked = self.ask_provider(oidc).await;
        if let Err(refusal) = &asked {
            *wrong = why(refusal);
            memory.failures.fetch_add(1, Ordering::SeqCst);
        }
        asked
    }

    async fn ask_provider(&self, oidc: &Oidc) -> Result<Arc<Provider>, Refusal> {
        let now = self.clock.now();
        let issuer = oidc.issuer.trim_end_matches('/');
        let at = format!("{issuer}/.well-known/openid-configuration");
        let at = Url::parse(&at).map_err(|error| Refusal::Provider(format!("the issuer's address: {error}")))?;
        let document = self.document(at.clone()).await?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        if text("issuer") != Some(oidc.issuer.as_str()) {
            return Err(Refusal::Provider("the provider calls itself otherwise than `oidc_issuer`".to_owned()));
        }
        let endpoint = |name: &str| {
            let url = text(name).and_then(|text| Url::parse(text).ok());
            // Not weaker than the issuer itself; whether http may be is the operator's to open.
            url.filter(|url| url.scheme() == "https" || url.scheme() == at.scheme())
                .ok_or_else(|| Refusal::Provider(format!("the provider names no `{name}` that can be used")))
        };
        let keys_at = endpoint("jwks_uri")?;
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let provider = Arc::new(Provider {
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            names_itself: document.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
            takes_basic: methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic")),
            keys: id_token::keys(&self.document(keys_at.clone()).await?),
            keys_at,
            known_at: now,
            keys_known_at: now,
        });
        oidc.memory.provider.store(Some(Arc::clone(&provider)));
        Ok(provider)
    }

    /// Trades the code for an ID token.
    async fn exchange(&self, oidc: &Oidc, provider: &Provider, code: &str, verifier: &str) -> Result<String, Refusal> {
        let redirect = self.oidc_redirect();
        let mut form = form([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", verifier),
        ]);
        let mut request = Request::new(Method::POST, provider.token.clone());
        match &oidc.client_secret {
            Some(secret) if provider.takes_basic => {
                let pair = format!("{}:{}", encoded(&oidc.client_id), encoded(secret));
                let value = format!("Basic {}", BASE64.encode(pair.as_bytes()));
                let value = HeaderValue::from_str(&value).map_err(Fault::internal)?;
                request = request.with_secret(toolgate_egress::HeaderName::from_static("authorization"), value);
            }
            secret => {
                form = format!("{form}&client_id={}", encoded(&oidc.client_id));
                if let Some(secret) = secret {
                    form = format!("{form}&client_secret={}", encoded(secret));
                }
            }
        }
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(toolgate_egress::HeaderName::from_static("content-type"), kind);
        request
            .headers
            .insert(toolgate_egress::HeaderName::from_static("accept"), HeaderValue::from_static("application/json"));
        request.body = Bytes::from(form);
        let answer = self.asked(request).await?;
        let status = answer.status;
        let answer = read(answer).await?;
        if !status.is_success() {
            let error = answer.get("error").and_then(Value::as_str).unwrap_or_default();
            let error: String = error.chars().take(80).collect();
            return Err(Refusal::Provider(format!("the provider refused the code: {status} {}", error.escape_debug())));
        }
        let token = answer.get("id_token").and_then(Value::as_str);
        token.map(str::to_owned).ok_or_else(|| Refusal::Provider("the provider gave no ID token".to_owned()))
    }

    async fn document(&self, url: Url) -> Result<Value, Refusal> {
        let answer = self.asked(Request::get(url)).await?;
        if !answer.status.is_success() {
            return Err(Refusal::Provider(format!("`{}` answers {}", answer.url.path(), answer.status)));
        }
        read(answer).await
    }

    async fn asked(&self, request: Request) -> Result<Response, Refusal> {
        // The operator's, whoever signs in: no tenant closes it or pays for it.
        let way = self.outside.way(Purpose::Discovery, TenantId::SYSTEM, None)?;
        match self.outside.connector.send(&way, request).await {
            Ok(answer) => {
                self.note_openings(&answer.openings).await?;
                Ok(answer)
            }
            Err(error) => Err(Refusal::Provider(format!("{}; {}", error.told(), error.logged().unwrap_or_default()))),
        }
    }

    /// That the provider was reached because the operator opened its host is in the log, once an hour.
    async fn note_openings(&self, openings: &[OpeningId]) -> Result<(), Fault> {
        let Some(oidc) = &self.oidc else { return Ok(()) };
        let now = self.clock.now();
        let mut change = Change::new(TenantId::SYSTEM);
        for opening in openings {
            let mut noted = oidc.memory.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.get(opening).is_some_and(|last| now < last.plus_seconds(OPENING_NOTED_EVERY_S)) {
                continue;
            }
            noted.insert(*opening, now);
            change.audit(&Entry {
                id: Id::new(&self.clock, &self.rng),
                at: now,
                tenant: TenantId::SYSTEM,
                actor: "system:oidc".to_owned(),
                action: "egress.use".to_owned(),
                object: opening.to_string(),
                details: json!({"for": "oidc"}).as_object().cloned().unwrap_or_default(),
            });
        }
        if !change.is_empty() {
            self.store.commit(change).await?;
        }
        Ok(())
    }
}

async fn read(answer: Response) -> Result<Value, Refusal> {
    let bytes =
        answer.bytes_max(DOCUMENT_BYTES_MAX).await.map_err(|error| Refusal::Provider(error.told().to_owned()))?;
    strict::read(&bytes, DOCUMENT_BYTES_MAX)
        .map_err(|_| Refusal::Provider("the provider's answer is not JSON".to_owned()))
}

/// For the log.
fn why(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Provider(why) => why.clone(),
        Refusal::Fault(fault) => fault.logged().unwrap_or(fault.told()).to_owned(),
        other => other.word().to_owned(),
    }
}

fn unreachable(oidc: &Oidc, refusal: &Refusal) -> Fault {
    let why = why(refusal);
    Fault::new(
        FaultKind::Unavailable,
        "the provider of identities cannot be used now",
        "try again later, or sign in another way; an operator finds the reason in the server's log",
    )
    .with_log(format!("{}: {why}", oidc.issuer))
}

fn form<const N: usize>(pairs: [(&str, &str); N]) -> String {
    pairs.map(|(name, value)| format!("{name}={}", encoded(value))).join("&")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_are_returned_to() {
        for (path, own) in [
            ("/", true),
            ("/approvals/1?x=y#z", true),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("https://evil.example", false),
            ("", false),
            ("/a b", false),
            ("/a\r\nset-cookie:x", false),
        ] {
            assert_eq!(is_own_path(path), own, "{path:?}");
        }
    }

    #[test]
    fn a_sign_in_under_way_reads_back_what_it_wrote() {
        let flow = Flow {
            secret: "s".repeat(43),
            began_at: Timestamp::from_millis(7),
            step_up: true,
            return_to: "/approvals".to_owned(),
        };
        let again = Flow::parse(&flow.cookie()).unwrap();
        assert_eq!(
            (again.derived("state"), again.step_up, again.return_to),
            (flow.derived("state"), true, flow.return_to)
        );
        assert_ne!(flow.secret, "x");
        assert!(Flow::parse("").is_none() && Flow::parse("a.b.c.d").is_none());
    }
}
