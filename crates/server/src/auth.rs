//! The door: from a request to the [`Caller`] who is answerable for it.

pub mod tokens;

use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Digest, Fault, FaultKind, Permissions, Principal, Role, Timestamp};
use toolgate_store::Change;
use toolgate_store::credentials::{Holder, KeyHolder};

use crate::app::{App, FIRST_TENANT};
use crate::auth::tokens::Manner;
use crate::oauth::Address;
use crate::problem::Problem;
use crate::{BACKGROUND_HEADER, PRINCIPAL_HEADER, REVISION_HEADER, TENANT_HEADER};
use crate::{proxies, seal};

/// How long the note of a credential's last use may lag behind.
const USE_NOTED_EVERY_S: i64 = 60;

/// Marks a request made in process by the owner of the data folder. Nothing that arrives over a socket can carry it.
#[derive(Clone, Copy, Debug)]
pub struct LocalCaller {
    pub uid: u32,
}

impl LocalCaller {
    /// The owner of the folder that this process serves.
    pub fn this_process() -> Self {
        Self { uid: rustix::process::getuid().as_raw() }
    }
}

/// The scope of the key that lies in the data folder. Whoever can read it owns the folder, so it stands for what the
/// folder itself gives: a command does the same whether a server holds the folder or not. No route hands it out.
pub const FOLDER_OWNER_SCOPE: &str = "folder:owner";

/// How long a key that was looked up is believed without looking again. Whoever revokes one on this replica is obeyed
/// by the next request; on another, within this time.
pub const KNOWN_FOR: std::time::Duration = std::time::Duration::from_secs(1);

/// A key that was let in a moment ago.
pub struct KnownKey {
    secret_hash: Digest,
    expires_at: Option<Timestamp>,
    shown: Shown,
}

/// What a key turned out to be.
#[derive(Clone)]
pub enum Shown {
    Caller(Caller),
    /// What an OAuth client was allowed: good at one address, and nowhere else.
    Client(Caller, String),
    OwnerOfTheFolder,
}

/// Identifies the caller of every API route, and serves no snapshot older than the caller was promised.
pub async fn identify(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = caller_of(&app, &parts).await?;
    if wants_fresh(&parts) {
        app.require_fresh(&caller).await?;
    }
    if let Some(promised) = header_text(&parts.headers, REVISION_HEADER) {
        let revision = promised.parse().map_err(|_| {
            Fault::invalid(
                format!("the header {REVISION_HEADER} is no number"),
                "send back what a change answered, or leave it out",
            )
        })?;
        app.registry.at_least(revision).await?;
    }
    parts.extensions.insert(caller);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// What decides over others or opens doors for long: in a browser it wants a sign-in of the last minutes.
const FRESH: [(Method, &str); 24] = [
    (Method::POST, "/api/v1/policies"),
    (Method::POST, "/api/v1/policies/{revision}/activate"),
    (Method::POST, "/api/v1/keys"),
    (Method::PUT, "/api/v1/secrets/{scope}/{name}"),
    (Method::DELETE, "/api/v1/secrets/{scope}/{name}"),
    (Method::POST, "/api/v1/secrets/{scope}/{name}/allow"),
    (Method::POST, "/api/v1/secrets/rotate"),
    (Method::POST, "/api/v1/server-keys/{kind}/rotate"),
    (Method::POST, "/api/v1/server-keys/rewrap"),
    // Whoever lets others in, or changes what they may, could let themselves in anew.
    (Method::POST, "/api/v1/users"),
    (Method::PATCH, "/api/v1/users/{user}"),
    (Method::POST, "/api/v1/users/{user}/reset"),
    (Method::POST, "/api/v1/users/{user}/sign-in-link"),
    (Method::POST, "/api/v1/invitations"),
    (Method::POST, "/api/v1/invitations/{invitation}/resend"),
    // What asks, what examines, and what leaves the server.
    (Method::PUT, "/api/v1/settings"),
    (Method::POST, "/api/v1/grants"),
    (Method::PUT, "/api/v1/guardrails/{guardrail}"),
    (Method::DELETE, "/api/v1/guardrails/{guardrail}"),
    (Method::PUT, "/api/v1/limits"),
    (Method::POST, "/api/v1/webhooks"),
    (Method::PUT, "/api/v1/webhooks/{webhook}"),
    (Method::POST, "/api/v1/webhooks/{webhook}/rotate"),
    (Method::POST, "/api/v1/egress/openings"),
];

/// By the route that was matched, never by the address.
fn wants_fresh(request: &Parts) -> bool {
    let matched = request.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    FRESH.iter().any(|(method, path)| request.method == *method && matched == Some(path))
}

pub async fn caller_of(app: &App, request: &Parts) -> Result<Caller, Fault> {
    identified(app, request, false, None).await.map(|admitted| admitted.caller)
}

/// Whoever was let in where OAuth access tokens are taken as well.
pub struct Admitted {
    pub caller: Caller,
    /// By an access token: a program that a person let in, as themselves or as one agent.
    pub is_client: bool,
}

impl From<Caller> for Admitted {
    fn from(caller: Caller) -> Self {
        Self { caller, is_client: false }
    }
}

/// The same where OAuth access tokens are taken as well, if they are for this address. `seen_before`: for streams that
/// stay open after the request, with the rights that there are now.
pub async fn caller_at(app: &App, request: &Parts, address: &Address, seen_before: bool) -> Result<Admitted, Fault> {
    identified(app, request, seen_before, Some(address)).await
}

/// `seen_before`: the same request came in already, so a proof that it carries was spent then. `address`: where OAuth
/// access tokens are taken, and for which one.
async fn identified(
    app: &App,
    request: &Parts,
    seen_before: bool,
    address: Option<&Address>,
) -> Result<Admitted, Fault> {
    let wanted = header_text(&request.headers, TENANT_HEADER);
    if let Some(local) = request.extensions.get::<LocalCaller>() {
        return local_caller(app, *local, wanted.unwrap_or(FIRST_TENANT)).map(Admitted::from);
    }
    let mut is_client = false;
    let caller = match authorization(&request.headers).transpose()? {
        Some((manner, text)) if manner == Manner::Proven || tokens::is_token(text) => {
            let outside = address.filter(|_| manner == Manner::Bearer).zip(app.named_issuer(text));
            if let Some((address, issuer)) = outside {
                is_client = true;
                app.outside_caller(issuer, text, address).await?
            } else {
                let manner = if seen_before { Manner::Again } else { manner };
                tokens::token_caller(app, text, manner, request).await?
            }
        }
        Some((_, key)) => match key_caller(app, key).await? {
            Shown::Caller(caller) => caller,
            Shown::Client(caller, allowed) if address.is_some_and(|address| address.admits(&allowed)) => {
                is_client = true;
                caller
            }
            Shown::Client(_, allowed) => return Err(elsewhere(&allowed)),
            Shown::OwnerOfTheFolder => {
                let tenant = wanted.unwrap_or(FIRST_TENANT);
                return local_caller(app, LocalCaller::this_process(), tenant).map(Admitted::from);
            }
        },
        None => match session_cookie(app, &request.headers) {
            Some(token) => {
                require_same_site(app, request)?;
                let by_person = !seen_before && is_by_a_person(&request.method, &request.headers);
                let (caller, _) = session_behind(app, token, by_person).await?;
                // A page that was opened in one tenant and by one person does nothing in another or as another.
                if wanted.is_some_and(|slug| slug != caller.tenant_slug.as_str()) {
                    return Err(went_on(&caller, "switched to"));
                }
                let meant = header_text(&request.headers, PRINCIPAL_HEADER);
                if meant.is_some_and(|principal| principal != caller.principal.to_string()) {
                    return Err(went_on(&caller, "are signed in as somebody else in"));
                }
                return Ok(caller.into());
            }
            None => return Err(unauthenticated("this needs a key or a signed-in browser")),
        },
    };
    match wanted {
        Some(slug) if slug != caller.tenant_slug.as_str() => Err(Fault::not_found("tenant", slug)),
        _ => Ok(Admitted { caller, is_client }),
    }
}

pub fn local_caller(app: &App, local: LocalCaller, slug: &str) -> Result<Caller, Fault> {
    let snapshot = app.registry.snapshot();
    let tenant = &snapshot.tenant_by_slug(slug)?.tenant;
    Ok(Caller {
        tenant: tenant.id,
        tenant_slug: tenant.slug.clone(),
        principal: Principal::Local(local.uid),
        display_name: format!("local user {}", local.uid),
        permissions: Permissions::of([Role::Admin, Role::Operator]),
        roles: [Role::Admin, Role::Operator].into(),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
    })
}

async fn key_caller(app: &App, key: &str) -> Result<Shown, Fault> {
    let refused = || unauthenticated("the key is unknown, revoked or expired");
    let (id, shown) = seal::parse_key(key).ok_or_else(refused)?;
    let now = app.clock.now();
    let lets_in = |secret_hash: &_, expires_at: Option<Timestamp>| {
        seal::same(secret_hash, &shown) && expires_at.is_none_or(|at| at > now)
    };
    if let Some(known) = app.callers.get(&id) {
        if lets_in(&known.secret_hash, known.expires_at) {
            return Ok(known.shown.clone());
        }
        // What a client holds may have another secret since, by another replica.
        if !matches!(known.shown, Shown::Client(..)) {
            return Err(refused());
        }
    }
    let found = app.store.key_holder(id).await?.ok_or_else(refused)?;
    if !lets_in(&found.secret_hash, found.expires_at) {
        return Err(refused());
    }
    let (secret_hash, expires_at) = (found.secret_hash, found.expires_at);
    let shown = of_key(app, found, now).await?;
    app.callers.insert(id, std::sync::Arc::new(KnownKey { secret_hash, expires_at, shown: shown.clone() }));
    Ok(shown)
}

/// What the holder of a key may do.
async fn of_key(app: &App, found: KeyHolder, now: Timestamp) -> Result<Shown, Fault> {
    if found.last_used_at.is_none_or(|at| at.plus_seconds(USE_NOTED_EVERY_S) <= now) {
        let mut change = Change::new(found.holder.tenant);
        change.touch_key(found.key, now);
        app.note_use(change).await;
    }
    if found.scopes.iter().any(|scope| scope == FOLDER_OWNER_SCOPE) {
        return Ok(Shown::OwnerOfTheFolder);
    }
    let scopes = Permissions::from_scopes(found.scopes.iter().map(String::as_str)).map_err(Fault::internal)?;
    // A key holds at most its owner's set, whatever it was made with.
    let mut permissions = found.holder.permissions.intersection(&scopes);
    if found.agent.is_some() {
        permissions = permissions.iter().filter(|permission| permission.is_for_agents()).cloned().collect();
    }
    let held = Caller { agent: found.agent, ..caller(found.holder, permissions, Credential::ApiKey(found.key)) };
    Ok(match found.resource {
        Some(resource) => Shown::Client(crate::oauth::as_client(held), resource),
        None => Shown::Caller(held),
    })
}

/// Whom a row stands for that another issuer's token was checked for.
pub async fn client_caller(app: &App, key: toolgate_contracts::KeyId) -> Result<Caller, Fault> {
    let gone = || unauthenticated("whom the access token stands for was disabled or revoked here");
    let found = app.store.key_holder(key).await?.ok_or_else(gone)?;
    match of_key(app, found, app.clock.now()).await? {
        Shown::Client(caller, _) => Ok(caller),
        Shown::Caller(_) | Shown::OwnerOfTheFolder => Err(gone()),
    }
}

/// An access token that was shown where it is not for.
fn elsewhere(allowed: &str) -> Fault {
    Fault::new(
        FaultKind::Unauthenticated,
        format!("this access token is for `{allowed}` and good nowhere else"),
        "use it there; for the API make a key with `toolgate key create`",
    )
}

/// Whether somebody did something: only that keeps a session from idling out. Streams, and what a page asks by itself and
/// says so, go on without anybody there.
fn is_by_a_person(method: &Method, headers: &HeaderMap) -> bool {
    let asks = matches!(*method, Method::GET | Method::HEAD);
    let by_itself = headers.contains_key(BACKGROUND_HEADER)
        || header_text(headers, "accept").is_some_and(|accept| accept.contains("text/event-stream"));
    !(asks && by_itself)
}

/// That another tab of the browser changed what its session is, after this page was opened.
fn went_on(caller: &Caller, how: &str) -> Fault {
    Fault::conflict(
        format!("you {how} `{}` in another tab", caller.tenant_slug),
        "reload the page, and do it again where it belongs",
    )
    .with_details(serde_json::json!({"tenant": caller.tenant_slug}))
}

/// What is known of a browser session besides whom it stands for.
pub struct SessionFacts {
    pub id: toolgate_contracts::SessionId,
    pub how: toolgate_store::sign_in::How,
    pub began_at: Timestamp,
    pub ends_at: Timestamp,
    /// Unless something is asked before.
    pub idle_ends_at: Timestamp,
    pub proved_at: Option<Timestamp>,
}

async fn session_behind(app: &App, token: &str, by_person: bool) -> Result<(Caller, SessionFacts), Fault> {
    let ended = || unauthenticated("the session has ended");
    let found = app.store.session_holder(seal::token_hash(token)).await?.ok_or_else(ended)?;
    let now = app.clock.now();
    if found.expires_at <= now || idle_until(app, found.last_seen_at) <= now {
        return Err(ended());
    }
    if by_person && found.last_seen_at.plus_seconds(USE_NOTED_EVERY_S) <= now {
        let mut change = Change::new(found.holder.tenant);
        change.touch_session(found.session, now);
        app.note_use(change).await;
    }
    let facts = SessionFacts {
        id: found.session,
        how: found.how,
        began_at: found.began_at,
        ends_at: found.expires_at,
        idle_ends_at: idle_until(app, if by_person { now } else { found.last_seen_at }),
        proved_at: found.proved_at,
    };
    let permissions = found.holder.permissions.clone();
    Ok((caller(found.holder, permissions, Credential::BrowserSession(found.session)), facts))
}

fn caller(holder: Holder, permissions: Permissions, credential: Credential) -> Caller {
    let Holder { tenant, tenant_slug, user, user_name, roles, permissions: _ } = holder;
    Caller {
        tenant,
        tenant_slug,
        principal: Principal::User(user),
        display_name: user_name,
        permissions,
        roles: roles.into(),
        agent: None,
        credential,
        token: None,
    }
}

fn idle_until(app: &App, seen: Timestamp) -> Timestamp {
    seen.plus_seconds(i64::from(app.config.number("session_idle_minutes")) * 60)
}

/// A browser sends its cookie with any page's request, so what changes something must come from our own pages.
fn require_same_site(app: &App, request: &Parts) -> Result<(), Fault> {
    if matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    match sent_from(app, request) {
        Site::Own => Ok(()),
        Site::Nowhere | Site::Other | Site::Unsaid => Err(other_site()),
    }
}

/// For what is asked before anybody is signed in: no page of another site signs a browser in, spends a link or reads what
/// one says. Whatever is no browser says nothing of where it comes from, and carries nobody's cookies.
pub async fn own_pages(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let asks = matches!(parts.method, Method::GET | Method::HEAD);
    if !asks && sent_from(&app, &parts) == Site::Other {
        return Err(other_site().into());
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Whose page sent a request, by its own word: pages cannot choose these headers, browsers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Site {
    Own,
    /// By the person: an address that was typed, a bookmark.
    Nowhere,
    Other,
    /// Not a browser, or one that is very old.
    Unsaid,
}

/// Whether a page of another site sent it, by the word of its browser.
pub(crate) fn is_of_another_site(app: &App, request: &Parts) -> bool {
    sent_from(app, request) == Site::Other
}

fn sent_from(app: &App, request: &Parts) -> Site {
    let own = |origin| if is_own_origin(app, origin, request) { Site::Own } else { Site::Other };
    match request.headers.get("sec-fetch-site") {
        Some(site) if site == "same-origin" => Site::Own,
        Some(site) if site == "none" => Site::Nowhere,
        Some(_) => Site::Other,
        // What cannot be read is nobody's own.
        None => match request.headers.get(header::ORIGIN) {
            Some(origin) => own(origin.to_str().unwrap_or_default()),
            None => Site::Unsaid,
        },
    }
}

pub(crate) fn other_site() -> Fault {
    Fault::new(FaultKind::Forbidden, "this request comes from another site", "open the console itself and try there")
}

fn is_own_origin(app: &App, origin: &str, request: &Parts) -> bool {
    let public = app.config.get("public_url");
    let own = proxies::own_origin(&request.headers, request.extensions.get());
    if public.is_empty() { own.as_deref() == Some(origin) } else { origin == public }
}

/// What was shown in the header, and how.
fn authorization(headers: &HeaderMap) -> Option<Result<(Manner, &str), Fault>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, another) = (values.next()?, values.next());
    let shown = value.to_str().ok().filter(|_| another.is_none()).and_then(|text| text.split_once(' '));
    let shown = shown.and_then(|(scheme, text)| {
        let bearer = scheme.eq_ignore_ascii_case("bearer").then_some(Manner::Bearer);
        let manner = bearer.or_else(|| scheme.eq_ignore_ascii_case("dpop").then_some(Manner::Proven))?;
        Some((manner, text.trim()))
    });
    Some(shown.ok_or_else(|| unauthenticated("the Authorization header is neither `Bearer KEY` nor `DPoP TOKEN`")))
}

/// The `__Host-` name binds the cookie to HTTPS and this host; plain loopback HTTP cannot have it.
pub fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-tg" } else { "tg" }
}

pub fn is_secure(app: &App) -> bool {
    app.config.is_https()
}

/// Only the name that this server sets: on HTTPS a neighbour's page could plant the plain one.
fn session_cookie<'h>(app: &App, headers: &'h HeaderMap) -> Option<&'h str> {
    cookie(headers, cookie_name(is_secure(app)))
}

/// The cookie of this name.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let pairs =
        headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(crate) fn unauthenticated(told: &str) -> Fault {
    Fault::new(
        FaultKind::Unauthenticated,
        told,
        "send `Authorization: Bearer KEY` (make a key with `toolgate key create`), or sign in with a link from `toolgate user sign-in-link`",
    )
}

impl App {
    /// When a credential was last used is nice to know and no reason to refuse anybody.
    async fn note_use(&self, change: Change) {
        if let Err(error) = self.store.note_use(change).await {
            tracing::warn!("cannot note the use of a credential: {error}");
        }
    }
}

/// Whoever made a request, with the rights they have now. For streams that stay open after it.
pub async fn again(app: &App, request: &Parts) -> Result<Caller, Fault> {
    identified(app, request, true, None).await.map(|admitted| admitted.caller)
}

/// Whether a key would be let in.
pub async fn key_works(app: &App, key: &str) -> Result<bool, Fault> {
    match key_caller(app, key).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind() == FaultKind::Unauthenticated => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Who is behind a session cookie, if anyone; for the page that must not fail when nobody is.
pub async fn session_of(app: &App, headers: &HeaderMap) -> Option<(Caller, SessionFacts)> {
    let by_person = is_by_a_person(&Method::GET, headers);
    session_behind(app, session_cookie(app, headers)?, by_person).await.ok()
}
