//! Labels: what callers have seen, what the operator accepts, and how often people are asked because of them.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::{Fault, Page, Timestamp, ToolName};
use toolgate_engine::label_views::{Asks, ContextView};
use toolgate_policy::labels::{Acceptance, Labels};
use toolgate_registry::commands::KeptAcceptance;
use toolgate_store::cursor::ListOf;
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// What callers without runs have seen; it is forgotten 12 hours after the last call that brought something.
#[utoipa::path(get, path = "/api/v1/labels/contexts", tag = "labels", params(PageQuery), responses((status = 200, body = Page<ContextView>)))]
pub async fn contexts(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ContextView>>, Problem> {
    let contexts = app.engine.label_contexts(&caller).await?;
    let list = ListOf { tenant: caller.tenant, list: "label-contexts", filter: "" };
    Ok(Json(page_of(contexts, |view| view.context.clone(), &list, query.cursor.as_deref(), query.limit)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelReset {
    /// As `GET /api/v1/labels/contexts` names it.
    context: String,
    /// Why it may be forgotten; the log keeps it.
    #[serde(default)]
    reason: Option<String>,
}

/// Forgets what a caller has seen. Only for a person at a browser; runs keep what they have.
#[utoipa::path(post, path = "/api/v1/labels/reset", tag = "labels", request_body = LabelReset, responses((status = 200, body = ContextView), (status = 404)))]
pub async fn reset(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<LabelReset>,
) -> Result<Json<ContextView>, Problem> {
    Ok(Json(app.engine.reset_labels(&caller, &request.context, request.reason.as_deref()).await?))
}

/// What the operator accepts: which tools may be given data with which labels.
#[utoipa::path(get, path = "/api/v1/labels/acceptances", tag = "labels", params(PageQuery), responses((status = 200, body = Page<KeptAcceptance>)))]
pub async fn acceptances(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<KeptAcceptance>>, Problem> {
    let kept = app.registry.acceptances(&caller)?;
    let list = ListOf { tenant: caller.tenant, list: "acceptances", filter: "" };
    Ok(Json(page_of(kept, |kept| kept.id.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceRequest {
    #[schema(value_type = String)]
    tool: ToolName,
    /// Absent: wherever the tool sends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    accepts: Labels,
    /// Why, for the log.
    #[serde(skip_serializing)]
    reason: String,
}

/// Accepts that a tool, to one host or to any, is given data with these labels: nobody is asked for that any more.
#[utoipa::path(post, path = "/api/v1/labels/acceptances", tag = "labels", request_body = AcceptanceRequest, responses((status = 200, body = KeptAcceptance), (status = 409)))]
pub async fn accept(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<AcceptanceRequest>,
) -> Result<Changed<KeptAcceptance>, Problem> {
    let written = serde_json::to_value(&request).map_err(Fault::internal)?;
    let acceptance: Acceptance = toolgate_contracts::json::decode(written).map_err(|error| {
        Fault::invalid(error.message, "name a tool, a host if one is meant, and labels").at(error.pointer)
    })?;
    let (kept, revision) = app.registry.accept_labels(&caller, acceptance, &request.reason).await?;
    Ok(Changed(kept, revision))
}

/// Takes an acceptance back.
#[utoipa::path(delete, path = "/api/v1/labels/acceptances/{acceptance}", tag = "labels", params(("acceptance" = String, Path)), responses((status = 200, body = Object), (status = 404)))]
pub async fn withdraw(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.withdraw_acceptance(&caller, &id).await?;
    Ok(Changed(json!({"withdrawn": id}), revision))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AsksQuery {
    /// From the day of this moment on; without it the last 7 days.
    since: Option<Timestamp>,
}

/// How often people were asked, by reason and by tool, and what the operator could accept so that they are asked less.
#[utoipa::path(get, path = "/api/v1/labels/asks", tag = "labels", params(AsksQuery), responses((status = 200, body = Asks)))]
pub async fn asks(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<AsksQuery>,
) -> Result<Json<Asks>, Problem> {
    const WEEK_S: i64 = 7 * 24 * 60 * 60;
    let since = query.since.unwrap_or_else(|| app.registry.now().plus_seconds(-WEEK_S));
    app.sum_up_usage(caller.tenant).await?;
    Ok(Json(app.engine.asks(&caller, since).await?))
}
