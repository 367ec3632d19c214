//! Health, configuration, and what the operator does to the database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{Fault, Permission};
use utoipa::ToSchema;

use crate::app::App;
use crate::extract::{Body, By};
use crate::problem::Problem;
use crate::proxies::{self, Peer};
use crate::{auth, doctor, exposition};

/// Whoever asks whether we are ready wants to know now.
const READY_PATIENCE: Duration = Duration::from_secs(1);
const RETENTION_DAYS_MAX: u32 = 36_500;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200)))]
pub async fn healthz() -> &'static str {
    "ok"
}

/// The server can do its work: the database answers, and nobody has told it to end.
#[utoipa::path(get, path = "/readyz", tag = "system", responses((status = 200), (status = 503)))]
pub async fn readyz(State(app): State<App>) -> Response {
    let unready = |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    if app.draining.load(Ordering::Relaxed) {
        return unready("the server is ending");
    }
    match tokio::time::timeout(READY_PATIENCE, app.store.ping()).await {
        Ok(Ok(())) => "ready".into_response(),
        Ok(Err(error)) => {
            tracing::warn!("not ready: {error}");
            unready("the database does not answer")
        }
        Err(_) => {
            tracing::warn!("not ready: the database does not answer in time");
            unready("the database does not answer in time")
        }
    }
}

/// What is counted, for Prometheus.
///
/// For clients on this machine, for operators, or for everybody where `metrics_open` says so.
#[utoipa::path(get, path = "/metrics", tag = "system", responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    if app.config.get("metrics_open") != "true" && !is_of_this_machine(&parts) {
        let caller = auth::caller_of(&app, &parts).await?;
        caller.require(&Permission::AUDIT_READ)?;
        // The names of tools are those of all tenants, so the administrator of one does not see them.
        caller.require(&Permission::TENANTS_MANAGE)?;
    }
    Ok(([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], app.exposition.text()).into_response())
}

/// A proxy on this machine speaks for others, so what it passes on does not count, trusted or not.
fn is_of_this_machine(request: &Parts) -> bool {
    let peer = request.extensions.get::<Peer>();
    let host = request.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = request.uri.authority().map_or(host, axum::http::uri::Authority::as_str);
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    peer.is_some_and(|Peer(peer)| peer.ip().to_canonical().is_loopback())
        && matches!(name, "localhost" | "127.0.0.1" | "[::1]")
        && !proxies::is_forwarded(&request.headers)
}

/// Every setting, its value and where it came from; passwords replaced.
#[utoipa::path(get, path = "/api/v1/config", tag = "system", responses((status = 200, body = Object)))]
pub async fn config(State(app): State<App>, By(caller): By) -> Result<Json<Value>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    Ok(Json(serde_json::to_value(app.config.shown()).unwrap_or_default()))
}

/// What works, what does not, and what to do about it.
#[utoipa::path(get, path = "/api/v1/doctor", tag = "system", responses((status = 200, body = Object)))]
pub async fn doctor(State(app): State<App>, By(caller): By) -> Result<Json<Value>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    Ok(Json(json!({"checks": doctor::checks(&app).await})))
}

/// Which database it is and how far it is migrated.
#[utoipa::path(get, path = "/api/v1/db", tag = "system", responses((status = 200, body = Object)))]
pub async fn database(State(app): State<App>, By(caller): By) -> Result<Json<Value>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    let state = app.store.migration_state().await?;
    Ok(Json(json!({
        "kind": app.store.kind().as_str(), "applied": state.applied, "known": state.known,
        "url": crate::config::without_password(&app.config.database_url(&app.data)),
    })))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// A file name; it is written into `backups` of the server's data folder.
    name: String,
}

/// Copies a SQLite database while it is in use.
#[utoipa::path(post, path = "/api/v1/db/backup", tag = "system", request_body = BackupRequest, responses((status = 200, body = Object)))]
pub async fn backup(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<BackupRequest>,
) -> Result<Json<Value>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    let legal = !request.name.is_empty()
        && request.name.len() <= 100
        && !request.name.starts_with('.')
        && request.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    if !legal {
        return Err(Fault::invalid(
            "a backup's name has letters, digits, `.`, `-` and `_` only",
            "choose another, for example today.db",
        )
        .at("/name")
        .into());
    }
    let folder = app.data.join("backups");
    std::fs::create_dir_all(&folder).map_err(|error| Fault::internal(format!("{}: {error}", folder.display())))?;
    let target = folder.join(&request.name);
    if target.exists() {
        return Err(Fault::conflict(format!("there is a backup `{}` already", request.name), "choose another name")
            .at("/name")
            .into());
    }
    app.store.backup(&target).await?;
    let mut change = toolgate_store::Change::new(caller.tenant);
    change.audit(&app.entry(&caller, caller.tenant, "db.backup", &request.name, json!({})));
    app.store.commit(change).await?;
    Ok(Json(json!({"file": target.display().to_string()})))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionRequest {
    /// Finished calls that began longer ago than this go.
    older_than_days: u32,
    /// Without it nothing is deleted: the answer says how much would be.
    #[serde(default)]
    apply: bool,
}

/// Deletes old finished calls and closed questions of this tenant; the log keeps the trace.
#[utoipa::path(post, path = "/api/v1/retention", tag = "system", request_body = RetentionRequest, responses((status = 200, body = Object)))]
pub async fn retention(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<RetentionRequest>,
) -> Result<Json<Value>, Problem> {
    caller.require(&Permission::DATA_RETENTION)?;
    let RetentionRequest { older_than_days, apply } = request;
    if !(1..=RETENTION_DAYS_MAX).contains(&older_than_days) {
        return Err(Fault::invalid(
            format!("`older_than_days` is {older_than_days}"),
            format!("give 1 to {RETENTION_DAYS_MAX} days"),
        )
        .at("/older_than_days")
        .into());
    }
    let (calls, inputs) = app.retain(&caller, older_than_days, apply).await?;
    Ok(Json(json!({"older_than_days": older_than_days, "calls": calls, "inputs": inputs, "applied": apply})))
}
