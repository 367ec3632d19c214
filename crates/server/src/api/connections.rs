//! Connecting with servers of others that want tokens: begun here, said yes to in a browser, ended here. A token goes in
//! and never comes out.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::{Fault, SecretScope, Slug};
use toolgate_engine::runner::Connection;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// The document about this server as a client of authorisation servers.
const DOCUMENT: &str = "/oauth/client.json";
/// Where it lets browsers come back to: the computer that they are on, at whichever port.
const REDIRECT: &str = "http://127.0.0.1/callback";

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectUpstream {
    /// Whose connection: `user` is the caller's own, `org` all callers'. Absent: as its calls are made.
    #[serde(default)]
    scope: Option<SecretScope>,
    /// Where the browser comes back to: an address of the computer that it is on, such as
    /// `http://127.0.0.1:PORT/callback`.
    redirect: String,
}

#[derive(Serialize, ToSchema)]
pub struct ConnectingUpstream {
    /// For a person to open in a browser.
    address: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectedUpstream {
    #[serde(default)]
    scope: Option<SecretScope>,
    /// The whole address that the browser came back to.
    answer: String,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DisconnectQuery {
    /// Whose connection. Absent: as its calls are made.
    scope: Option<SecretScope>,
}

#[derive(Serialize, ToSchema)]
pub struct DisconnectedUpstream {
    #[schema(value_type = String)]
    name: Slug,
    scope: SecretScope,
}

fn named(name: &str) -> Result<Slug, Fault> {
    name.parse().map_err(|_| Fault::not_found("upstream", name))
}

/// Begins to connect somebody with a server: answers where a person goes with a browser.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/connect", tag = "upstreams", params(("upstream" = String, Path)), request_body = ConnectUpstream, responses((status = 200, body = ConnectingUpstream), (status = 404), (status = 409)))]
pub async fn connect(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(ConnectUpstream { scope, redirect }): Body<ConnectUpstream>,
) -> Result<Json<ConnectingUpstream>, Problem> {
    let document = document_address(&app);
    let address = app.engine.connect_upstream(&caller, &named(&name)?, scope, redirect, document).await?;
    Ok(Json(ConnectingUpstream { address }))
}

/// Ends it with what the browser came back with.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/connected", tag = "upstreams", params(("upstream" = String, Path)), request_body = ConnectedUpstream, responses((status = 200, body = Connection), (status = 404), (status = 409)))]
pub async fn connected(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(ConnectedUpstream { scope, answer }): Body<ConnectedUpstream>,
) -> Result<Json<Connection>, Problem> {
    let name = named(&name)?;
    let connection = app.engine.connected_upstream(&caller, &name, scope, answer).await?;
    // Perhaps it could not be read before.
    if connection.scope == SecretScope::Org {
        let _ = app.engine.read_upstream(&caller.principal.to_string(), caller.tenant, &name, true).await;
    }
    Ok(Json(connection))
}

/// Takes the tokens of a connection away. Calls that need it ask for a new one.
#[utoipa::path(delete, path = "/api/v1/upstreams/{upstream}/connection", tag = "upstreams", params(("upstream" = String, Path), DisconnectQuery), responses((status = 200, body = DisconnectedUpstream), (status = 404)))]
pub async fn disconnect(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(DisconnectQuery { scope }): Query<DisconnectQuery>,
) -> Result<Json<DisconnectedUpstream>, Problem> {
    let name = named(&name)?;
    let scope = app.engine.disconnect_upstream(&caller, &name, scope).await?;
    Ok(Json(DisconnectedUpstream { name, scope }))
}

/// Who this server is where it gets tokens for servers of others, for authorisation servers that read such a document.
#[utoipa::path(get, path = "/oauth/client.json", tag = "oauth", responses((status = 200, body = Object)))]
pub async fn document(State(app): State<App>) -> Json<Value> {
    let address = document_address(&app).unwrap_or_else(|| format!("{}{DOCUMENT}", app.base_url()));
    Json(json!({
        "client_id": address,
        "client_name": "Toolgate",
        "client_uri": app.base_url(),
        "application_type": "native",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }))
}

/// Others fetch it only where they can reach this server, and believe it only by `https`.
fn document_address(app: &App) -> Option<String> {
    let public = app.shared_url().filter(|url| url.starts_with("https://"))?;
    Some(format!("{}{DOCUMENT}", public.trim_end_matches('/')))
}
