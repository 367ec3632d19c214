//! Webhooks: who outside is told of what, and what became of it.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{DeliveryId, NoticeType, Page};
use toolgate_store::cursor::ListOf;
use toolgate_store::notices::{Delivery, Webhook};
use utoipa::ToSchema;

use super::paging::{NoQuery, PageQuery, page_limit, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;
use crate::webhooks::{MadeWebhook, Trial};

/// The tenant's webhooks, oldest first.
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "webhooks", params(PageQuery), responses((status = 200, body = Page<Webhook>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Webhook>>, Problem> {
    let webhooks = app.webhooks(&caller).await?;
    let list = ListOf { tenant: caller.tenant, list: "webhooks", filter: "" };
    Ok(Json(page_of(webhooks, |webhook| webhook.id.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// Where notices are posted to: `https`, unless the operator opened the host for `http`.
    url: String,
    /// What it is told of.
    #[serde(default)]
    types: Vec<NoticeType>,
}

/// Makes a webhook; the secret that signs what it is told is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/webhooks", tag = "webhooks", request_body = WebhookRequest, responses((status = 200, body = MadeWebhook)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<WebhookRequest>,
) -> Result<Changed<MadeWebhook>, Problem> {
    let WebhookRequest { url, types } = request;
    let (made, revision) = app.create_webhook(&caller, &url, types).await?;
    Ok(Changed(made, revision))
}

/// One webhook; a paused one says why.
#[utoipa::path(get, path = "/api/v1/webhooks/{webhook}", tag = "webhooks", params(("webhook" = String, Path)), responses((status = 200, body = Webhook), (status = 404)))]
pub async fn show(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<Webhook>, Problem> {
    Ok(Json(app.webhook(&caller, &id).await?))
}

/// Changes where it is and what it is told of; its secret stays.
#[utoipa::path(put, path = "/api/v1/webhooks/{webhook}", tag = "webhooks", params(("webhook" = String, Path)), request_body = WebhookRequest, responses((status = 200, body = Webhook), (status = 404)))]
pub async fn replace(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Body(request): Body<WebhookRequest>,
) -> Result<Changed<Webhook>, Problem> {
    let WebhookRequest { url, types } = request;
    let (webhook, revision) = app.edit_webhook(&caller, &id, &url, types).await?;
    Ok(Changed(webhook, revision))
}

/// Removes a webhook with everything that it was to be told.
#[utoipa::path(delete, path = "/api/v1/webhooks/{webhook}", tag = "webhooks", params(("webhook" = String, Path)), responses((status = 200, body = Webhook), (status = 404)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Changed<Webhook>, Problem> {
    let (webhook, revision) = app.delete_webhook(&caller, &id).await?;
    Ok(Changed(webhook, revision))
}

/// Sends one notice at once, with `test` in its data, and says whether it arrived.
#[utoipa::path(post, path = "/api/v1/webhooks/{webhook}/test", tag = "webhooks", params(("webhook" = String, Path)), responses((status = 200, body = Trial), (status = 404)))]
pub async fn test(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<Trial>, Problem> {
    Ok(Json(app.test_webhook(&caller, &id).await?))
}

/// Goes on with a paused webhook: what was held or given up is sent.
#[utoipa::path(post, path = "/api/v1/webhooks/{webhook}/resume", tag = "webhooks", params(("webhook" = String, Path)), responses((status = 200, body = Webhook), (status = 404)))]
pub async fn resume(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Changed<Webhook>, Problem> {
    let (webhook, revision) = app.resume_webhook(&caller, &id).await?;
    Ok(Changed(webhook, revision))
}

/// Gives a webhook a new secret; for a day notices are signed with the one before, too.
#[utoipa::path(post, path = "/api/v1/webhooks/{webhook}/rotate", tag = "webhooks", params(("webhook" = String, Path)), responses((status = 200, body = MadeWebhook), (status = 404)))]
pub async fn rotate(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Changed<MadeWebhook>, Problem> {
    let (made, revision) = app.rotate_webhook(&caller, &id).await?;
    Ok(Changed(made, revision))
}

/// What a webhook was and is to be told, newest first; kept for 30 days.
#[utoipa::path(get, path = "/api/v1/webhooks/{webhook}/deliveries", tag = "webhooks", params(("webhook" = String, Path), PageQuery), responses((status = 200, body = Page<Delivery>), (status = 404)))]
pub async fn deliveries(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Delivery>>, Problem> {
    let webhook = app.webhook(&caller, &id).await?;
    let limit = page_limit(query.limit)?;
    let list = ListOf { tenant: caller.tenant, list: "deliveries", filter: &webhook.id.to_string() };
    let before = query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?;
    let before = before.and_then(|key| key.parse::<DeliveryId>().ok());
    let mut items = app.store.deliveries(caller.tenant, webhook.id, before, limit + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
    Ok(Json(Page { items, next_cursor }))
}

#[derive(Serialize, ToSchema)]
pub struct WebhookKeys {
    /// The first one signs; the others did, and what they signed is good for a week.
    keys: Vec<PublicKey>,
}

#[derive(Serialize, ToSchema)]
pub struct PublicKey {
    kid: String,
    /// `whpk_` and the Ed25519 key in base64.
    public_key: String,
}

/// The public keys that check the `v1a` signatures of this tenant's notices.
#[utoipa::path(get, path = "/api/v1/webhooks/keys", tag = "webhooks", responses((status = 200, body = WebhookKeys)))]
pub async fn keys(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<WebhookKeys>, Problem> {
    let keys = app.webhook_keys(&caller).await?;
    Ok(Json(WebhookKeys { keys: keys.into_iter().map(|(kid, public_key)| PublicKey { kid, public_key }).collect() }))
}
