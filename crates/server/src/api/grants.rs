//! Standing grants: what people have allowed for a while, made, listed, taken back.

use axum::Json;
use axum::extract::{Path, State};
use toolgate_contracts::{Fault, Page};
use toolgate_engine::approvals::{NewStanding, StandingGrant};

use super::paging::{PageQuery, page_limit};
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// Standing grants, newest first, with those that have run out.
#[utoipa::path(get, path = "/api/v1/grants", tag = "grants", params(PageQuery), responses((status = 200, body = Page<StandingGrant>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<StandingGrant>>, Problem> {
    let limit = page_limit(query.limit)?;
    Ok(Json(app.engine.list_standing(&caller, query.cursor.as_deref(), limit).await?))
}

/// Allows an agent's calls of a tool whose arguments stay within constraints, so often and so long.
#[utoipa::path(post, path = "/api/v1/grants", tag = "grants", request_body = NewStanding, responses((status = 200, body = StandingGrant), (status = 403), (status = 404), (status = 409)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(new): Body<NewStanding>,
) -> Result<Json<StandingGrant>, Problem> {
    Ok(Json(app.engine.create_standing(&caller, new).await?))
}

/// Takes a standing grant back, at once.
#[utoipa::path(delete, path = "/api/v1/grants/{grant}", tag = "grants", params(("grant" = String, Path)), responses((status = 200, body = StandingGrant), (status = 404), (status = 409)))]
pub async fn revoke(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<StandingGrant>, Problem> {
    let id = id.parse().map_err(|_| Fault::not_found("grant", &id))?;
    Ok(Json(app.engine.revoke_standing(&caller, id).await?))
}
