//! Browser sessions in lists, one's own and other people's, and links for those who cannot sign in.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Fault, Page, SessionId, Timestamp};
use toolgate_store::cursor::ListOf;
use toolgate_store::sign_in::SessionView;
use utoipa::ToSchema;

use super::paging::{PageQuery, page_of};
use super::session::signed_out;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::identity::Sent;
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct ListedSession {
    #[serde(flatten)]
    session: SessionView,
    /// Whether it is the one that asks.
    current: bool,
}

/// One's own browser sessions, newest first.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "session", params(PageQuery), responses((status = 200, body = Page<ListedSession>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ListedSession>>, Problem> {
    Ok(Json(page(&app, &caller, None, &query).await?))
}

/// A page of what a person has few of.
async fn page(app: &App, caller: &Caller, name: Option<&str>, query: &PageQuery) -> Result<Page<ListedSession>, Fault> {
    let present = match caller.credential {
        Credential::BrowserSession(session) => Some(session),
        _ => None,
    };
    let sessions = app.sessions(caller, name).await?;
    let items = sessions.into_iter().map(|session| ListedSession { current: Some(session.id) == present, session });
    let list = ListOf { tenant: caller.tenant, list: "sessions", filter: name.unwrap_or_default() };
    let newest_first =
        |listed: &ListedSession| format!("{:019} {}", i64::MAX - listed.session.began_at.millis(), listed.session.id);
    page_of(items.collect(), newest_first, &list, query.cursor.as_deref(), query.limit)
}

/// Ends all of one's own browser sessions, this one too.
#[utoipa::path(delete, path = "/api/v1/sessions", tag = "session", responses((status = 204)))]
pub async fn end_all(State(app): State<App>, By(caller): By) -> Result<Response, Problem> {
    app.end_sessions(&caller, None).await?;
    Ok(signed_out(&app))
}

/// Ends one of one's own browser sessions.
#[utoipa::path(delete, path = "/api/v1/sessions/{session}", tag = "session", params(("session" = String, Path)), responses((status = 204), (status = 404)))]
pub async fn end(State(app): State<App>, By(caller): By, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    app.end_session(&caller, None, id_of(&session)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A user's browser sessions, newest first.
#[utoipa::path(get, path = "/api/v1/users/{user}/sessions", tag = "users", params(("user" = String, Path), PageQuery), responses((status = 200, body = Page<ListedSession>), (status = 404)))]
pub async fn list_of(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ListedSession>>, Problem> {
    Ok(Json(page(&app, &caller, Some(&name), &query).await?))
}

/// Ends all browser sessions of a user.
#[utoipa::path(delete, path = "/api/v1/users/{user}/sessions", tag = "users", params(("user" = String, Path)), responses((status = 204), (status = 404)))]
pub async fn end_all_of(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    app.end_sessions(&caller, Some(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends one browser session of a user.
#[utoipa::path(delete, path = "/api/v1/users/{user}/sessions/{session}", tag = "users", params(("user" = String, Path), ("session" = String, Path)), responses((status = 204), (status = 404)))]
pub async fn end_of(
    State(app): State<App>,
    By(caller): By,
    Path((name, session)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    app.end_session(&caller, Some(&name), id_of(&session)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn id_of(text: &str) -> Result<SessionId, Fault> {
    text.parse().map_err(|_| Fault::not_found("session", text))
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkRequest {
    /// Shows the link even where it could go by mail.
    pub show: bool,
}

#[derive(Serialize, ToSchema)]
pub struct ResetLink {
    /// Shown once; absent where it went by mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailed_to: Option<String>,
    /// Why it is shown although it should have gone by mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    mail_failed: Option<String>,
    expires_at: Timestamp,
}

/// Makes a link with which a user sets a new password, once, within an hour.
#[utoipa::path(post, path = "/api/v1/users/{user}/reset", tag = "users", params(("user" = String, Path)), request_body = LinkRequest, responses((status = 200, body = ResetLink), (status = 404), (status = 409)))]
pub async fn reset(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(LinkRequest { show }): Body<LinkRequest>,
) -> Result<Json<ResetLink>, Problem> {
    let (Sent { url, mailed_to, mail_failed }, expires_at) = app.create_reset(&caller, &name, show).await?;
    Ok(Json(ResetLink { url, mailed_to, mail_failed, expires_at }))
}
