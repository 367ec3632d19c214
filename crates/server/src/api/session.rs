//! Signing in and out in a browser, by each of the ways there are, and who one is.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{AgentId, Caller, Fault, Permissions, Role, SessionId, Slug, Timestamp};
use toolgate_store::invitations::Invitation;
use toolgate_store::sign_in::How;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{self, SessionFacts};
use crate::extract::{Body, By};
use crate::identity::oidc::{self, Refusal, Returned};
use crate::identity::{Begun, FRESH_S, Proof, Whence};
use crate::problem::Problem;
use crate::proxies::ClientAddress;

/// Where a request comes from.
pub struct From(pub Whence);

impl FromRequestParts<App> for From {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let address = parts.extensions.get::<ClientAddress>().map(|client| client.0);
        let present = auth::session_of(app, &parts.headers).await.map(|(caller, _)| caller);
        Ok(Self(Whence { address, user_agent: agent.map(str::to_owned), present }))
    }
}

#[derive(Serialize, ToSchema)]
pub struct Me {
    pub principal: String,
    pub name: String,
    pub tenant: Slug,
    pub agent: Option<AgentId>,
    /// `browser`, `key`, `token`, `database` or `local`.
    pub signed_in_by: &'static str,
    pub roles: Vec<Role>,
    pub permissions: Permissions,
}

impl std::convert::From<Caller> for Me {
    fn from(caller: Caller) -> Self {
        let signed_in_by = match caller.credential {
            Credential::BrowserSession(_) => "browser",
            Credential::ApiKey(_) => "key",
            Credential::Token(_) => "token",
            Credential::DatabaseRole => "database",
            Credential::LocalFolder => "local",
        };
        Self {
            principal: caller.principal.to_string(),
            name: caller.display_name,
            tenant: caller.tenant_slug,
            agent: caller.agent,
            signed_in_by,
            roles: caller.roles.to_vec(),
            permissions: caller.permissions,
        }
    }
}

/// Who the caller is and what they may do.
#[utoipa::path(get, path = "/api/v1/me", tag = "session", responses((status = 200, body = Me)))]
pub async fn me(By(caller): By) -> Json<Me> {
    Json(caller.into())
}

#[derive(Serialize, ToSchema)]
pub struct OidcWay {
    /// What the button says.
    label: String,
}

#[derive(Serialize, ToSchema)]
pub struct Ways {
    password: bool,
    /// Absent when no provider of identities is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    oidc: Option<OidcWay>,
    /// Whether a link for a new password goes out by mail; absent where no relay is configured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mail: bool,
}

/// The ways to sign in here, for the sign-in page.
#[utoipa::path(get, path = "/api/v1/session/ways", tag = "session", responses((status = 200, body = Ways)))]
pub async fn ways(State(app): State<App>) -> Json<Ways> {
    let oidc = app.oidc.as_ref().map(|oidc| OidcWay { label: oidc.label.clone() });
    Json(Ways { password: app.has_passwords(), oidc, mail: app.mailer.is_some() })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The part of the link behind `#sign-in=`.
    token: String,
}

/// A tenant that one may work in.
#[derive(Serialize, ToSchema)]
pub struct TenantName {
    slug: Slug,
    name: String,
}

#[derive(Serialize, ToSchema)]
pub struct PresentSession {
    id: SessionId,
    how: How,
    began_at: Timestamp,
    /// At the latest.
    ends_at: Timestamp,
    /// Unless something is asked before.
    idle_ends_at: Timestamp,
    /// What wants a fresh sign-in is done without asking until then; absent when it asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh_until: Option<Timestamp>,
    /// What this person can confirm with.
    step_up_by: Vec<Proof>,
}

#[derive(Default, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "as it is called on the wire")]
pub struct Session {
    /// Absent when nobody is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    me: Option<Me>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<PresentSession>,
    /// Where this session may go; see `POST /api/v1/session/tenant`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenants: Option<Vec<TenantName>>,
    /// Whether this server shows examples and nobody's real work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    demonstration: bool,
}

/// A one-time link, as whoever has it sees it.
#[derive(Serialize, ToSchema)]
pub struct LinkShown {
    /// Whom it signs in.
    name: String,
    tenant: TenantName,
    expires_at: Timestamp,
}

/// Shows whom a one-time link signs in; nothing is spent.
#[utoipa::path(post, path = "/api/v1/session/link", tag = "session", request_body = SignIn, responses((status = 200, body = LinkShown), (status = 401)))]
pub async fn show_link(
    State(app): State<App>,
    Body(SignIn { token }): Body<SignIn>,
) -> Result<Json<LinkShown>, Problem> {
    let (owner, expires_at) = app.link_shown(&token).await?;
    let snapshot = app.registry.snapshot();
    let tenant = &snapshot.tenant(owner.tenant)?.tenant;
    let tenant = TenantName { slug: tenant.slug.clone(), name: tenant.name.clone() };
    Ok(Json(LinkShown { name: owner.name, tenant, expires_at }))
}

/// Spends a one-time link for a browser session.
#[utoipa::path(post, path = "/api/v1/sign-in", tag = "session", request_body = SignIn, responses((status = 204), (status = 401)))]
pub async fn sign_in(
    State(app): State<App>,
    From(whence): From,
    Body(SignIn { token }): Body<SignIn>,
) -> Result<Response, Problem> {
    let begun = app.sign_in_by_link(&token, &whence).await?;
    Ok(signed_in(&app, &begun))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordSignIn {
    /// A name or an e-mail address.
    user: String,
    password: String,
    /// Absent: the tenant `default`; for an e-mail address, the one that the password opens. 409 names them where it
    /// opens several.
    tenant: Option<String>,
}

/// Signs in with a password.
#[utoipa::path(post, path = "/api/v1/session/password", tag = "session", request_body = PasswordSignIn, responses((status = 204), (status = 401), (status = 403), (status = 409), (status = 429)))]
pub async fn sign_in_by_password(
    State(app): State<App>,
    From(whence): From,
    Body(request): Body<PasswordSignIn>,
) -> Result<Response, Problem> {
    let PasswordSignIn { user, password, tenant } = request;
    let begun = app.sign_in_by_password(&user, tenant.as_deref(), &password, &whence).await?;
    Ok(signed_in(&app, &begun))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcSignIn {
    /// Where the browser goes afterwards: a path of this server.
    return_to: Option<String>,
    /// Only confirms who is signed in, by a new sign-in at the provider.
    #[serde(default)]
    step_up: bool,
}

#[derive(Serialize, ToSchema)]
pub struct OidcStart {
    /// Where the browser goes now.
    url: String,
}

/// Begins a sign-in with the provider of identities.
#[utoipa::path(post, path = "/api/v1/session/oidc", tag = "session", request_body = OidcSignIn, responses((status = 200, body = OidcStart), (status = 404), (status = 429), (status = 503)))]
pub async fn begin_oidc(
    State(app): State<App>,
    From(whence): From,
    Body(request): Body<OidcSignIn>,
) -> Result<Response, Problem> {
    let (url, kept) = app.begin_oidc(request.return_to.as_deref(), request.step_up, &whence).await?;
    let cookie = set_cookie(&app, flow_cookie(&app), &kept, oidc::FLOW_S)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(OidcStart { url })).into_response())
}

/// Where the provider sends the browser back to. Goes on to the console, or to the sign-in page with a word why not.
#[utoipa::path(get, path = "/oidc/callback", tag = "session", responses((status = 303)))]
pub async fn oidc_callback(
    State(app): State<App>,
    headers: HeaderMap,
    From(whence): From,
    returned: Result<axum::extract::Query<Returned>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let returned = returned.map(|axum::extract::Query(returned)| returned).unwrap_or_default();
    let kept = auth::cookie(&headers, flow_cookie(&app));
    let finished = app.finish_oidc(kept, &returned, whence.present.clone(), &whence).await;
    let (to, session) = match finished {
        Ok((begun, to)) => (to, Some(begun)),
        Err(refusal) => {
            match &refusal {
                Refusal::Provider(why) => tracing::warn!("a sign-in with the provider of identities failed: {why}"),
                Refusal::Fault(fault) => {
                    tracing::error!("a sign-in failed: {}", fault.logged().unwrap_or(fault.told()));
                }
                _ => {}
            }
            (format!("/sign-in?failed={}", refusal.word()), None)
        }
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/")));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let cookies = session.map(|begun| session_set(&app, &begun)).into_iter();
    for cookie in cookies.chain([set_cookie(&app, flow_cookie(&app), "", 0)]).flatten() {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetRequest {
    /// A name or an e-mail address.
    user: String,
    tenant: Option<String>,
}

/// Asks for a link to set a new password. The answer is the same whoever is meant.
#[utoipa::path(post, path = "/api/v1/session/reset", tag = "session", request_body = ResetRequest, responses((status = 202), (status = 429)))]
pub async fn ask_for_reset(
    State(app): State<App>,
    From(whence): From,
    Body(request): Body<ResetRequest>,
) -> Result<Response, Problem> {
    app.ask_for_reset(&request.user, request.tenant.as_deref(), &whence).await?;
    Ok((StatusCode::ACCEPTED, Json(serde_json::json!({}))).into_response())
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetFinish {
    /// The part of the link behind `#`.
    token: String,
    password: String,
}

/// Spends a link for a new password; all sessions end.
#[utoipa::path(post, path = "/api/v1/session/reset/finish", tag = "session", request_body = ResetFinish, responses((status = 204), (status = 400), (status = 401)))]
pub async fn finish_reset(
    State(app): State<App>,
    Body(ResetFinish { token, password }): Body<ResetFinish>,
) -> Result<StatusCode, Problem> {
    app.finish_reset(&token, &password).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationToken {
    /// The part of the link behind `#`.
    token: String,
}

/// An invitation, as whoever has its link sees it.
#[derive(Serialize, ToSchema)]
pub struct InvitationShown {
    tenant: TenantName,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    roles: Vec<Role>,
    invited_by: String,
    expires_at: Timestamp,
}

/// Shows an invitation to whoever has its link; nothing is spent.
#[utoipa::path(post, path = "/api/v1/session/invitation", tag = "session", request_body = InvitationToken, responses((status = 200, body = InvitationShown), (status = 401), (status = 403), (status = 429)))]
pub async fn show_invitation(
    State(app): State<App>,
    From(whence): From,
    Body(InvitationToken { token }): Body<InvitationToken>,
) -> Result<Json<InvitationShown>, Problem> {
    let (tenant, invitation) = app.invitation_shown(&token, &whence).await?;
    let Invitation { name, email, roles, invited_by, expires_at, .. } = invitation;
    let tenant = TenantName { slug: tenant.slug, name: tenant.name };
    Ok(Json(InvitationShown { tenant, name, email, roles, invited_by, expires_at }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationAnswer {
    /// The part of the link behind `#`.
    token: String,
    /// Absent: the name in the invitation.
    name: Option<String>,
    password: String,
}

/// Accepts an invitation: the user comes to be, and is signed in.
#[utoipa::path(post, path = "/api/v1/session/invitation/accept", tag = "session", request_body = InvitationAnswer, responses((status = 204), (status = 400), (status = 401), (status = 403), (status = 409), (status = 429)))]
pub async fn accept_invitation(
    State(app): State<App>,
    From(whence): From,
    Body(InvitationAnswer { token, name, password }): Body<InvitationAnswer>,
) -> Result<Response, Problem> {
    let begun = app.accept_invitation(&token, name.as_deref(), &password, &whence).await?;
    Ok(signed_in(&app, &begun))
}

/// Ends the browser session.
#[utoipa::path(post, path = "/api/v1/sign-out", tag = "session", responses((status = 204)))]
pub async fn sign_out(State(app): State<App>, By(caller): By) -> Result<Response, Problem> {
    app.sign_out(&caller).await?;
    Ok(signed_out(&app))
}

/// Who is signed in in this browser, if anyone; never an error because nobody is.
#[utoipa::path(get, path = "/api/v1/session", tag = "session", responses((status = 200, body = Session)))]
pub async fn session(State(app): State<App>, headers: HeaderMap) -> Result<Json<Session>, Problem> {
    let demonstration = app.demonstration.load(std::sync::atomic::Ordering::Relaxed);
    let Some((caller, facts)) = auth::session_of(&app, &headers).await else {
        return Ok(Json(Session { demonstration, ..Session::default() }));
    };
    let SessionFacts { id, how, began_at, ends_at, idle_ends_at, proved_at } = facts;
    let fresh_until = proved_at.map(|at| at.plus_seconds(FRESH_S)).filter(|until| *until >= app.clock.now());
    let step_up_by = app.proofs_of(&caller).await?;
    let tenants = app.tenants_of_session(&caller, how).await?;
    Ok(Json(Session {
        me: Some(caller.into()),
        session: Some(PresentSession {
            id,
            how,
            began_at,
            ends_at,
            idle_ends_at: idle_ends_at.min(ends_at),
            fresh_until,
            step_up_by,
        }),
        tenants: Some(tenants.into_iter().map(|(slug, name)| TenantName { slug, name }).collect()),
        demonstration,
    }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepUp {
    password: String,
}

/// Confirms with the password who is signed in, for what wants a fresh sign-in.
#[utoipa::path(post, path = "/api/v1/session/step-up", tag = "session", request_body = StepUp, responses((status = 204), (status = 401), (status = 409), (status = 429)))]
pub async fn step_up(
    State(app): State<App>,
    By(caller): By,
    From(whence): From,
    Body(StepUp { password }): Body<StepUp>,
) -> Result<Response, Problem> {
    let begun = app.step_up(&caller, &password, &whence).await?;
    Ok(signed_in(&app, &begun))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantChoice {
    /// One of `tenants` of `GET /api/v1/session`.
    tenant: String,
}

/// Goes on in another tenant of the same person.
#[utoipa::path(post, path = "/api/v1/session/tenant", tag = "session", request_body = TenantChoice, responses((status = 204), (status = 404)))]
pub async fn change_tenant(
    State(app): State<App>,
    By(caller): By,
    From(whence): From,
    Body(TenantChoice { tenant }): Body<TenantChoice>,
) -> Result<Response, Problem> {
    let begun = app.change_tenant(&caller, &tenant, &whence).await?;
    Ok(signed_in(&app, &begun))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordChange {
    /// Needed where there is one.
    present: Option<String>,
    password: String,
}

/// Sets one's own password; one's other sessions end.
#[utoipa::path(put, path = "/api/v1/me/password", tag = "session", request_body = PasswordChange, responses((status = 204), (status = 400), (status = 401), (status = 429)))]
pub async fn change_password(
    State(app): State<App>,
    By(caller): By,
    From(whence): From,
    Body(PasswordChange { present, password }): Body<PasswordChange>,
) -> Result<Response, Problem> {
    let begun = app.change_password(&caller, present.as_deref(), &password, &whence).await?;
    Ok(signed_in(&app, &begun))
}

fn signed_in(app: &App, begun: &Begun) -> Response {
    // A session before it may have ended, and what was minted in that one with it.
    app.forget_callers();
    answered(session_set(app, begun))
}

pub fn signed_out(app: &App) -> Response {
    answered(set_cookie(app, auth::cookie_name(auth::is_secure(app)), "", 0))
}

fn answered(cookie: Result<HeaderValue, Fault>) -> Response {
    match cookie {
        Ok(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        Err(fault) => Problem(fault).into_response(),
    }
}

fn session_set(app: &App, begun: &Begun) -> Result<HeaderValue, Fault> {
    let seconds = (begun.expires_at.millis() - app.clock.now().millis()) / 1000;
    set_cookie(app, auth::cookie_name(auth::is_secure(app)), &begun.token, seconds)
}

/// The cookie of a sign-in under way at the provider.
fn flow_cookie(app: &App) -> &'static str {
    if auth::is_secure(app) { "__Host-tg-oidc" } else { "tg-oidc" }
}

fn set_cookie(app: &App, name: &str, value: &str, seconds: i64) -> Result<HeaderValue, Fault> {
    let flag = if auth::is_secure(app) { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{flag}");
    HeaderValue::from_str(&cookie).map_err(Fault::internal)
}
