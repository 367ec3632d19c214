//! How a tenant works, and what the operator opened to the connector.

use axum::Json;
use axum::extract::{Path, State};
use toolgate_contracts::{Fault, Opening, OpeningSpec, Page, Permission, TenantSettings};
use toolgate_egress::HostList;
use toolgate_store::cursor::ListOf;

use super::paging::{NoQuery, PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// The tenant's settings, defaults included.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings", responses((status = 200, body = TenantSettings)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<TenantSettings>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    Ok(Json(snapshot.tenant(caller.tenant)?.tenant.settings.clone()))
}

/// Replaces the tenant's settings; what is left out has its default.
#[utoipa::path(put, path = "/api/v1/settings", tag = "settings", request_body = TenantSettings, responses((status = 200, body = TenantSettings)))]
pub async fn replace(
    State(app): State<App>,
    By(caller): By,
    Body(settings): Body<TenantSettings>,
) -> Result<Changed<TenantSettings>, Problem> {
    caller.require(&Permission::POLICIES_EDIT)?;
    for (place, host) in settings.hosts.iter().flatten().enumerate() {
        HostList::parse(&[host]).map_err(|fault| fault.at(format!("/hosts/{place}")))?;
    }
    let (settings, revision) = app.registry.set_settings(&caller, settings).await?;
    Ok(Changed(settings, revision))
}

/// What the operator opened: hosts that are closed to everybody otherwise.
#[utoipa::path(get, path = "/api/v1/egress/openings", tag = "egress", params(PageQuery), responses((status = 200, body = Page<Opening>)))]
pub async fn openings(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Opening>>, Problem> {
    let openings = app.registry.openings(&caller)?;
    let list = ListOf { tenant: caller.tenant, list: "openings", filter: "" };
    Ok(Json(page_of(openings, |opening| opening.id.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

/// Opens a host and port. Metadata services and this server's own ports cannot be opened.
#[utoipa::path(post, path = "/api/v1/egress/openings", tag = "egress", request_body = OpeningSpec, responses((status = 200, body = Opening)))]
pub async fn open(
    State(app): State<App>,
    By(caller): By,
    Body(spec): Body<OpeningSpec>,
) -> Result<Changed<Opening>, Problem> {
    caller.require(&Permission::EGRESS_OPEN)?;
    app.outside.check_opening(&spec)?;
    let (opening, revision) = app.registry.open_host(&caller, spec).await?;
    Ok(Changed(opening, revision))
}

/// Closes an opening, at once.
#[utoipa::path(delete, path = "/api/v1/egress/openings/{opening}", tag = "egress", params(("opening" = String, Path)), responses((status = 200, body = Opening), (status = 404)))]
pub async fn close(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Changed<Opening>, Problem> {
    let known = id.parse().map_err(|_| Fault::not_found("opening", &id))?;
    let (opening, revision) = app.registry.close_host(&caller, known).await?;
    Ok(Changed(opening, revision))
}
