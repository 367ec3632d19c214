//! OAuth for clients of `/mcp`: who this server is, what somebody decides, and what a client takes.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contracts::json as strict;
use utoipa::ToSchema;

use crate::app::App;
use crate::extract::{Body, By};
use crate::oauth::{self, Asked, Decision, Granted, REQUEST_BYTES_MAX, Refused, Registered};
use crate::problem::Problem;

/// What a client needs to know of `/mcp` to get a token for it (RFC 9728).
#[utoipa::path(get, path = "/.well-known/oauth-protected-resource", tag = "oauth", responses((status = 200, body = Object)))]
pub async fn resource(State(app): State<App>, request: Parts) -> Json<Value> {
    Json(oauth::resource_document(&app, &oauth::origin_of(&app, &request), None))
}

/// The same, at the address that clients look for it.
#[utoipa::path(get, path = "/.well-known/oauth-protected-resource/mcp", tag = "oauth", responses((status = 200, body = Object)))]
pub async fn resource_root(State(app): State<App>, request: Parts) -> Json<Value> {
    Json(oauth::resource_document(&app, &oauth::origin_of(&app, &request), None))
}

/// The same for one agent, or one group of tools. Whether there is one is not told here.
#[utoipa::path(get, path = "/.well-known/oauth-protected-resource/mcp/{agent}", tag = "oauth", params(("agent" = String, Path, description = "An agent, or a group of tools.")), responses((status = 200, body = Object)))]
pub async fn resource_narrowed(State(app): State<App>, Path(name): Path<String>, request: Parts) -> Json<Value> {
    Json(oauth::resource_document(&app, &oauth::origin_of(&app, &request), Some(&name)))
}

/// What a client needs to know of this server as an authorisation server (RFC 8414).
#[utoipa::path(get, path = "/.well-known/oauth-authorization-server", tag = "oauth", responses((status = 200, body = Object)))]
pub async fn server(State(app): State<App>, request: Parts) -> Json<Value> {
    Json(oauth::server_document(&oauth::origin_of(&app, &request)))
}

/// Registers a client that has no document of its own (RFC 7591). Nothing is stored.
#[utoipa::path(post, path = "/oauth/register", tag = "oauth", request_body = Object, responses((status = 201, body = Object), (status = 400, body = Object)))]
pub async fn register(State(app): State<App>, body: Bytes) -> Response {
    let metadata = strict::read(&body, REQUEST_BYTES_MAX);
    let metadata = metadata.map_err(|_| {
        Refused::new("invalid_client_metadata", format!("send a JSON object of at most {REQUEST_BYTES_MAX} bytes"))
    });
    let registered = match metadata {
        Ok(metadata) => app.register_client(&metadata).await,
        Err(refused) => Err(refused),
    };
    match registered {
        Ok(Registered(answer)) => (StatusCode::CREATED, Json(answer)).into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// Takes what somebody allowed, or renews it.
#[utoipa::path(post, path = "/oauth/token", tag = "oauth", request_body(content = Object, content_type = "application/x-www-form-urlencoded"), responses((status = 200, body = Object), (status = 400, body = Object)))]
pub async fn token(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response {
    let granted = match form(&headers, &body) {
        Ok(form) => app.oauth_token(form).await,
        Err(refused) => Err(refused),
    };
    match granted {
        Ok(Granted { access, refresh, scopes }) => Json(json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": oauth::ACCESS_S,
            "refresh_token": refresh,
            "scope": scopes.join(" "),
        }))
        .into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// Gives a token back (RFC 7009), and with it all that the client was allowed.
#[utoipa::path(post, path = "/oauth/revoke", tag = "oauth", request_body(content = Object, content_type = "application/x-www-form-urlencoded"), responses((status = 200), (status = 400, body = Object)))]
pub async fn revoke(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response {
    let revoked = match form(&headers, &body) {
        Ok(form) => app.oauth_revoke(form).await,
        Err(refused) => Err(refused),
    };
    match revoked {
        Ok(()) => StatusCode::OK.into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// What a client wants that sent the browser here; the query is the one that it came with.
#[utoipa::path(get, path = "/api/v1/oauth/request", tag = "oauth", params(("client_id" = String, Query), ("redirect_uri" = String, Query), ("response_type" = String, Query), ("code_challenge" = String, Query), ("code_challenge_method" = String, Query), ("resource" = Option<String>, Query), ("scope" = Option<String>, Query), ("state" = Option<String>, Query)), responses((status = 200, body = Asked), (status = 400), (status = 403), (status = 404)))]
pub async fn asked(
    State(app): State<App>,
    By(caller): By,
    RawQuery(query): RawQuery,
    request: Parts,
) -> Result<Json<Asked>, Problem> {
    let origin = oauth::origin_of(&app, &request);
    Ok(Json(app.oauth_asked(&caller, &origin, &query.unwrap_or_default()).await?))
}

/// Where the browser goes now.
#[derive(Serialize, ToSchema)]
#[schema(as = OauthDecided)]
pub struct Decided {
    redirect: String,
}

/// Lets the client in, or does not.
#[utoipa::path(post, path = "/api/v1/oauth/decision", tag = "oauth", request_body = Decision, responses((status = 200, body = Decided), (status = 400), (status = 403), (status = 404)))]
pub async fn decide(
    State(app): State<App>,
    By(caller): By,
    request: Parts,
    Body(decision): Body<Decision>,
) -> Result<Json<Decided>, Problem> {
    let origin = oauth::origin_of(&app, &request);
    Ok(Json(Decided { redirect: app.oauth_decide(&caller, &origin, decision).await? }))
}

fn form<'b>(headers: &HeaderMap, body: &'b Bytes) -> Result<&'b str, Refused> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Refused::new("invalid_request", "send a form: `application/x-www-form-urlencoded`"));
    }
    std::str::from_utf8(body).map_err(|_| Refused::new("invalid_request", "the form is not text"))
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { error, told, fault } = self;
        let mut status = StatusCode::BAD_REQUEST;
        if let Some(fault) = fault {
            let own = StatusCode::from_u16(fault.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            status = if own.is_server_error() { own } else { StatusCode::INTERNAL_SERVER_ERROR };
            tracing::error!(told = fault.told(), "{}", fault.logged().unwrap_or_default());
        }
        let mut response = (status, Json(json!({"error": error, "error_description": told}))).into_response();
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
