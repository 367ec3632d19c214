//! API keys: shown once when made, afterwards only by name.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{KeyId, Page, Permission};
use toolgate_store::credentials::ApiKey;
use toolgate_store::cursor::ListOf;
use utoipa::ToSchema;

use super::paging::{PageQuery, page_limit};
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::identity::NewKey;
use crate::problem::Problem;

/// One's own keys, or all with `keys.all`; newest first.
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys", params(PageQuery), responses((status = 200, body = Page<ApiKey>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Problem> {
    let all = caller.may(&Permission::KEYS_ALL);
    if !all {
        caller.require(&Permission::KEYS_OWN)?;
    }
    let owner = if all { None } else { caller.user() };
    let limit = page_limit(query.limit)?;
    let list = ListOf { tenant: caller.tenant, list: "keys", filter: &format!("{owner:?}") };
    let before =
        query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?.and_then(|key| key.parse::<KeyId>().ok());
    let mut items = app.store.keys(caller.tenant, owner, before, limit + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
    Ok(Json(Page { items, next_cursor }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    name: String,
    /// A user's name or id; absent: one's own.
    owner: Option<String>,
    /// Whoever holds the key acts as this agent.
    agent: Option<String>,
    /// Permissions, roles or `tools:execute`; absent: `tools:execute` and `calls.read.own`.
    #[serde(default)]
    scopes: Vec<String>,
    /// How long it lasts; absent: until it is revoked.
    days: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub struct MadeKey {
    #[serde(flatten)]
    key: ApiKey,
    /// Shown now and never again.
    secret: String,
}

/// Makes a key; its text is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/keys", tag = "keys", request_body = KeyRequest, responses((status = 200, body = MadeKey)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<KeyRequest>,
) -> Result<Json<MadeKey>, Problem> {
    let KeyRequest { name, owner, agent, scopes, days } = request;
    let (key, secret) = app.create_key(&caller, NewKey { name, owner, agent, scopes, days }).await?;
    Ok(Json(MadeKey { key, secret }))
}

/// Revokes a key by id or name, at once.
#[utoipa::path(delete, path = "/api/v1/keys/{key}", tag = "keys", params(("key" = String, Path)), responses((status = 200, body = ApiKey), (status = 404)))]
pub async fn revoke(State(app): State<App>, By(caller): By, Path(name): Path<String>) -> Result<Json<ApiKey>, Problem> {
    Ok(Json(app.revoke_key(&caller, &name).await?))
}
