//! Signing in by a one-time link, signing out, and who one is.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{AgentId, Caller, Permissions, Slug};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth;
use crate::extract::{Body, By};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct Me {
    pub principal: String,
    pub name: String,
    pub tenant: Slug,
    pub agent: Option<AgentId>,
    /// `browser`, `key`, `token`, `database` or `local`.
    pub signed_in_by: &'static str,
    pub permissions: Permissions,
}

impl From<Caller> for Me {
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
            permissions: caller.permissions,
        }
    }
}

/// Who the caller is and what they may do.
#[utoipa::path(get, path = "/api/v1/me", tag = "session", responses((status = 200, body = Me)))]
pub async fn me(By(caller): By) -> Json<Me> {
    Json(caller.into())
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The part of the link behind `#sign-in=`.
    token: String,
}

#[derive(Serialize, ToSchema)]
pub struct Session {
    /// Absent when nobody is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    me: Option<Me>,
}

/// Spends a one-time link for a browser session.
#[utoipa::path(post, path = "/api/v1/sign-in", tag = "session", request_body = SignIn, responses((status = 204), (status = 401)))]
pub async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    Body(SignIn { token }): Body<SignIn>,
) -> Result<Response, Problem> {
    auth::refuse_other_sites(&headers)?;
    let (session, expires_at) = app.sign_in(&token).await?;
    let seconds = (expires_at.millis() - app.clock.now().millis()) / 1000;
    Ok(with_cookie(&app, &session, seconds))
}

/// Ends the browser session.
#[utoipa::path(post, path = "/api/v1/sign-out", tag = "session", responses((status = 204)))]
pub async fn sign_out(State(app): State<App>, By(caller): By) -> Result<Response, Problem> {
    app.sign_out(&caller).await?;
    Ok(with_cookie(&app, "", 0))
}

/// Who is signed in in this browser, if anyone; never an error.
#[utoipa::path(get, path = "/api/v1/session", tag = "session", responses((status = 200, body = Session)))]
pub async fn session(State(app): State<App>, headers: HeaderMap) -> Json<Session> {
    Json(Session { me: auth::session_of(&app, &headers).await.map(Me::from) })
}

fn with_cookie(app: &App, value: &str, seconds: i64) -> Response {
    let secure = auth::is_secure(app);
    let name = auth::cookie_name(secure);
    let flag = if secure { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{flag}");
    (axum::http::StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
