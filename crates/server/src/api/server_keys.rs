//! The server's own keys, for its operator: which there are, a new one of a kind, and all under another master key.
//! Deliberately absent: the keys themselves.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::json;
use toolgate_contracts::{Caller, Fault, Page, Permission, TenantId, Timestamp};
use toolgate_store::Change;
use toolgate_store::cursor::ListOf;
use toolgate_vault::{KeyInfo, Purpose};
use utoipa::ToSchema;

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{By, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct ServerKey {
    /// What it is for.
    kind: String,
    kid: String,
    /// Absent: the server's own, for all tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<TenantId>,
    /// The tenant's short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// `active`: makes things. `retiring`: what it made is still good. `retired`: no longer.
    state: String,
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub struct RotatedKeys {
    kind: String,
    /// The keys that are active from now on.
    kids: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub struct Rewrapped {
    /// Keys that lay under the previous master key until now.
    rewrapped: usize,
}

/// The server's own keys without their bytes, the active ones of a kind first.
#[utoipa::path(get, path = "/api/v1/server-keys", tag = "server-keys", params(PageQuery), responses((status = 200, body = Page<ServerKey>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ServerKey>>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    let keys = app.keyring.list().await?;
    let count = keys.len();
    let tenants = app.store.tenants().await.map_err(Fault::from)?;
    let slugs: HashMap<TenantId, String> = tenants.into_iter().map(|one| (one.id, one.slug.to_string())).collect();
    let shown = |(index, key): (usize, KeyInfo)| {
        let KeyInfo { kind, kid, tenant, state, created_at } = key;
        let state = state.as_str().to_owned();
        let order = u8::from(state != "active");
        let slug = tenant.and_then(|id| slugs.get(&id).cloned());
        let place = format!("{kind} {order} {index:08} {count}");
        (place, ServerKey { kind, kid, tenant_id: tenant, tenant: slug, state, created_at })
    };
    let items: Vec<(String, ServerKey)> = keys.into_iter().enumerate().map(shown).collect();
    let list = ListOf { tenant: caller.tenant, list: "server_keys", filter: "" };
    let page = page_of(items, |(key, _)| key.clone(), &list, query.cursor.as_deref(), query.limit)?;
    let items = page.items.into_iter().map(|(_, key)| key).collect();
    Ok(Json(Page { items, next_cursor: page.next_cursor }))
}

/// Makes a new key of a kind; what the one before made stays good until it has run out.
#[utoipa::path(post, path = "/api/v1/server-keys/{kind}/rotate", tag = "server-keys", params(("kind" = String, Path)), responses((status = 200, body = RotatedKeys), (status = 404)))]
pub async fn rotate(
    State(app): State<App>,
    By(caller): By,
    Path(kind): Path<String>,
) -> Result<Json<RotatedKeys>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    let purpose: Purpose = kind.parse().map_err(|()| {
        let kinds: Vec<&str> = Purpose::ALL.into_iter().filter(|one| one.rotates()).map(Purpose::as_str).collect();
        Fault::invalid(format!("there are no keys of the kind `{kind}`"), format!("name one of {}", kinds.join(", ")))
            .at("/kind")
    })?;
    let made = app.keyring.rotate_kind(purpose, caller.tenant).await?;
    let kids: Vec<String> = made.iter().map(|key| key.kid().to_owned()).collect();
    note(&app, &caller, "server_key.rotated", &kind, json!({"kids": kids})).await?;
    Ok(Json(RotatedKeys { kind, kids }))
}

/// Puts every key under the present master key. Needed once after the master key was changed, with the previous one
/// still configured; cut off, it goes on when asked again.
#[utoipa::path(post, path = "/api/v1/server-keys/rewrap", tag = "server-keys", responses((status = 200, body = Rewrapped)))]
pub async fn rewrap(State(app): State<App>, By(caller): By) -> Result<Json<Rewrapped>, Problem> {
    caller.require(&Permission::CONFIG_EDIT)?;
    let rewrapped = app.keyring.rewrap_all().await?;
    note(&app, &caller, "server_keys.rewrapped", "master_key", json!({"keys": rewrapped})).await?;
    Ok(Json(Rewrapped { rewrapped }))
}

async fn note(app: &App, caller: &Caller, action: &str, object: &str, details: serde_json::Value) -> Result<(), Fault> {
    let mut change = Change::new(caller.tenant);
    change.audit(&app.entry(caller, caller.tenant, action, object, details));
    app.store.commit(change).await?;
    Ok(())
}
