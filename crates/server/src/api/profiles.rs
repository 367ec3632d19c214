//! Profiles: bundles of overrides that may only tighten.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use toolgate_contracts::agent::StoredProfile;
use toolgate_contracts::{Fault, Page, Permission, Profile};
use toolgate_store::cursor::ListOf;

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// Profiles in the order of names.
#[utoipa::path(get, path = "/api/v1/profiles", tag = "profiles", params(PageQuery), responses((status = 200, body = Page<StoredProfile>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<StoredProfile>>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let profiles = snapshot.tenant(caller.tenant)?.profiles.values().cloned().collect();
    let list = ListOf { tenant: caller.tenant, list: "profiles", filter: "" };
    let by_name = |stored: &StoredProfile| stored.profile.name.to_string();
    Ok(Json(page_of(profiles, by_name, &list, query.cursor.as_deref(), query.limit)?))
}

/// Creates a profile.
#[utoipa::path(post, path = "/api/v1/profiles", tag = "profiles", request_body = Profile, responses((status = 200, body = StoredProfile), (status = 409)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(profile): Body<Profile>,
) -> Result<Changed<StoredProfile>, Problem> {
    if app.registry.snapshot().tenant(caller.tenant)?.profile(profile.name.as_str()).is_some() {
        return Err(Fault::conflict(
            format!("there is a profile `{}` already", profile.name),
            "choose another name, or replace it with `toolgate profile set`",
        )
        .at("/name")
        .into());
    }
    let (stored, revision) = app.registry.put_profile(&caller, profile).await?;
    Ok(Changed(stored, revision))
}

/// One profile, by name or id.
#[utoipa::path(get, path = "/api/v1/profiles/{profile}", tag = "profiles", params(("profile" = String, Path)), responses((status = 200, body = StoredProfile), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<StoredProfile>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let stored = snapshot.tenant(caller.tenant)?.profile(&name).ok_or_else(|| Fault::not_found("profile", &name))?;
    Ok(Json(stored.clone()))
}

/// Creates the profile of that name, or replaces it.
#[utoipa::path(put, path = "/api/v1/profiles/{profile}", tag = "profiles", params(("profile" = String, Path)), request_body = Profile, responses((status = 200, body = StoredProfile)))]
pub async fn replace(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(profile): Body<Profile>,
) -> Result<Changed<StoredProfile>, Problem> {
    if profile.name.as_str() != name {
        return Err(Fault::invalid(
            format!("the body names the profile `{}`, the path `{name}`", profile.name),
            "make them the same",
        )
        .at("/name")
        .into());
    }
    let (stored, revision) = app.registry.put_profile(&caller, profile).await?;
    Ok(Changed(stored, revision))
}

/// Deletes a profile that nothing uses.
#[utoipa::path(delete, path = "/api/v1/profiles/{profile}", tag = "profiles", params(("profile" = String, Path)), responses((status = 200, body = Object)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.delete_profile(&caller, &name).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}
