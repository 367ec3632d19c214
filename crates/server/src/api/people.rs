//! Tenants, workspaces and users.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::page::PAGE_ITEMS_MAX;
use toolgate_contracts::{
    CallId, Fault, InputRequestId, LoginName, Page, Permission, Permissions, Principal, Role, Slug, TenantId,
    Timestamp, TokenId,
};
use toolgate_store::cursor::ListOf;
use toolgate_store::input_requests::Question;
use toolgate_store::people::{Tenant, User, UserKind, Workspace};
use utoipa::ToSchema;

use super::paging::{PageQuery, page_limit, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::identity::{Erased, NewUser, UserEdit};
use crate::problem::Problem;

/// A tenant, without its limits and settings: those name tools and hosts, and are shown where they are asked for.
#[derive(Serialize, ToSchema)]
pub struct TenantView {
    id: TenantId,
    slug: Slug,
    name: String,
    currency: String,
    open_write: bool,
    created_at: Timestamp,
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> Self {
        let Tenant { id, slug, name, currency, open_write, created_at, .. } = tenant;
        Self { id, slug, name, currency, open_write, created_at }
    }
}

/// All tenants for the operator, one's own for everyone else.
#[utoipa::path(get, path = "/api/v1/tenants", tag = "tenants", params(PageQuery), responses((status = 200, body = Page<TenantView>)))]
pub async fn list_tenants(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<TenantView>>, Problem> {
    let snapshot = app.registry.snapshot();
    let seen = |tenant: &Tenant| caller.is_operator() || tenant.id == caller.tenant;
    let tenants = snapshot.tenants().map(|registry| registry.tenant.clone()).filter(seen);
    let tenants: Vec<TenantView> = tenants.map(TenantView::from).collect();
    let list = ListOf { tenant: caller.tenant, list: "tenants", filter: "" };
    Ok(Json(page_of(tenants, |tenant| tenant.slug.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantRequest {
    slug: Slug,
    name: Option<String>,
    currency: Option<String>,
}

/// Creates a tenant.
#[utoipa::path(post, path = "/api/v1/tenants", tag = "tenants", request_body = TenantRequest, responses((status = 200, body = TenantView), (status = 409)))]
pub async fn create_tenant(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<TenantRequest>,
) -> Result<Changed<TenantView>, Problem> {
    let TenantRequest { slug, name, currency } = request;
    let name = name.unwrap_or_else(|| slug.to_string());
    let (tenant, revision) = app.create_tenant(&caller, slug, &name, currency.as_deref().unwrap_or("USD")).await?;
    Ok(Changed(tenant.into(), revision))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantEdit {
    /// Lets agents with an open tool set have `write` tools too; they still ask.
    open_write: bool,
}

/// Changes a setting of one's own tenant.
#[utoipa::path(patch, path = "/api/v1/tenants/{tenant}", tag = "tenants", params(("tenant" = String, Path)), request_body = TenantEdit, responses((status = 200, body = TenantView)))]
pub async fn edit_tenant(
    State(app): State<App>,
    By(caller): By,
    Path(slug): Path<String>,
    Body(edit): Body<TenantEdit>,
) -> Result<Changed<TenantView>, Problem> {
    if slug != caller.tenant_slug.as_str() {
        return Err(Fault::not_found("tenant", slug).into());
    }
    let revision = app.set_open_write(&caller, edit.open_write).await?;
    let snapshot = app.registry.snapshot();
    Ok(Changed(snapshot.tenant(caller.tenant)?.tenant.clone().into(), revision))
}

/// Workspaces in the order of names.
#[utoipa::path(get, path = "/api/v1/workspaces", tag = "users", params(PageQuery), responses((status = 200, body = Page<Workspace>)))]
pub async fn list_workspaces(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Workspace>>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let workspaces = app.store.workspaces(caller.tenant).await?;
    let list = ListOf { tenant: caller.tenant, list: "workspaces", filter: "" };
    Ok(Json(page_of(workspaces, |workspace| workspace.slug.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRequest {
    slug: Slug,
    name: Option<String>,
}

/// Creates a workspace.
#[utoipa::path(post, path = "/api/v1/workspaces", tag = "users", request_body = WorkspaceRequest, responses((status = 200, body = Workspace), (status = 409)))]
pub async fn create_workspace(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<WorkspaceRequest>,
) -> Result<Json<Workspace>, Problem> {
    let name = request.name.unwrap_or_else(|| request.slug.to_string());
    Ok(Json(app.create_workspace(&caller, request.slug, &name).await?))
}

/// Users in the order of names.
#[utoipa::path(get, path = "/api/v1/users", tag = "users", params(PageQuery), responses((status = 200, body = Page<User>)))]
pub async fn list_users(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<User>>, Problem> {
    caller.require(&Permission::MEMBERS_MANAGE)?;
    let limit = page_limit(query.limit)?;
    let list = ListOf { tenant: caller.tenant, list: "users", filter: "" };
    let after = query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?.unwrap_or_default();
    let mut items = app.store.users(caller.tenant, &after, limit + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = if more { items.last().map(|last| list.cursor(&last.name)) } else { None };
    Ok(Json(Page { items, next_cursor }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRequest {
    name: String,
    /// `person` (default) or `service`.
    kind: Option<UserKind>,
    email: Option<String>,
    /// Absent: `member`, for a service `service`.
    roles: Option<Vec<Role>>,
    /// Words that tools demand by `required_permission`.
    #[serde(default)]
    permissions: Permissions,
    /// Absent: `main`.
    workspaces: Option<Vec<Slug>>,
}

/// Creates a user: a person or a service.
#[utoipa::path(post, path = "/api/v1/users", tag = "users", request_body = UserRequest, responses((status = 200, body = User), (status = 409)))]
pub async fn create_user(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<UserRequest>,
) -> Result<Json<User>, Problem> {
    let kind = request.kind.unwrap_or(UserKind::Person);
    let default_role = if kind == UserKind::Service { Role::Service } else { Role::Member };
    let main = toolgate_registry::commands::FIRST_WORKSPACE.parse().map_err(Fault::internal)?;
    let new = NewUser {
        name: request.name,
        kind,
        email: request.email.map(|email| LoginName::of(&email).as_str().to_owned()),
        roles: request.roles.unwrap_or_else(|| vec![default_role]),
        permissions: request.permissions,
        workspaces: request.workspaces.unwrap_or_else(|| vec![main]),
    };
    Ok(Json(app.create_user(&caller, new).await?))
}

/// A user by name, e-mail or id.
#[utoipa::path(get, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path)), responses((status = 200, body = User), (status = 404)))]
pub async fn show_user(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<User>, Problem> {
    caller.require(&Permission::MEMBERS_MANAGE)?;
    Ok(Json(app.store.user(caller.tenant, &name).await?.ok_or_else(|| Fault::not_found("user", &name))?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserEditRequest {
    roles: Option<Vec<Role>>,
    /// Words that tools demand by `required_permission`.
    #[schema(value_type = Option<Vec<String>>)]
    permissions: Option<Permissions>,
    workspaces: Option<Vec<Slug>>,
    /// A disabled user's keys and sessions stop at once.
    disabled: Option<bool>,
}

/// Changes roles or workspaces, or stops a user.
#[utoipa::path(patch, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path)), request_body = UserEditRequest, responses((status = 200, body = User)))]
pub async fn edit_user(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<UserEditRequest>,
) -> Result<Json<User>, Problem> {
    let UserEditRequest { roles, permissions, workspaces, disabled } = request;
    Ok(Json(app.edit_user(&caller, &name, UserEdit { roles, permissions, workspaces, disabled }).await?))
}

#[derive(Serialize, ToSchema)]
pub struct SignInLink {
    /// Opens the console signed in, once.
    url: String,
    expires_at: Timestamp,
}

/// Makes a link that signs a user in, once, within ten minutes.
#[utoipa::path(post, path = "/api/v1/users/{user}/sign-in-link", tag = "users", params(("user" = String, Path)), responses((status = 200, body = SignInLink)))]
pub async fn sign_in_link(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<SignInLink>, Problem> {
    let (token, expires_at) = app.create_link(&caller, &name).await?;
    Ok(Json(SignInLink { url: app.sign_in_url(&token), expires_at }))
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EraseRequest {
    /// Without it nothing is erased: the answer says how much would be.
    apply: bool,
}

/// Erases the payloads of a person's calls and questions; rows and the log stay.
#[utoipa::path(post, path = "/api/v1/users/{user}/erase", tag = "users", params(("user" = String, Path)), request_body = EraseRequest, responses((status = 200, body = Object)))]
pub async fn erase_person(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<EraseRequest>,
) -> Result<Json<Value>, Problem> {
    let Erased { calls, inputs, open_calls, open_inputs } = app.erase_person(&caller, &name, request.apply).await?;
    Ok(Json(json!({
        "user": name, "calls": calls, "inputs": inputs, "open_calls": open_calls, "open_inputs": open_inputs,
        "applied": request.apply,
    })))
}

/// Calls of an export that are in memory at once.
const EXPORTED_AT_ONCE: u32 = 100;

/// Everything that is kept of a person, as lines of JSON: who they are, their keys, their calls with payloads, what they
/// asked people and answered, and their sessions.
#[utoipa::path(get, path = "/api/v1/users/{user}/export", tag = "users", params(("user" = String, Path)), responses((status = 200, body = String, content_type = "application/x-ndjson"), (status = 404)))]
pub async fn export_person(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let user = app.exported_person(&caller, &name).await?;
    let (tenant, principal) = (caller.tenant, Principal::User(user.id));
    let keys = app.store.keys(tenant, Some(user.id), None, PAGE_ITEMS_MAX).await?;
    let mut head = json!({"kind": "user", "user": user}).to_string() + "\n";
    for session in app.store.sessions_of(tenant, user.id, None).await? {
        head.push_str(&(json!({"kind": "session", "session": session}).to_string() + "\n"));
    }
    for key in keys {
        head.push_str(&(json!({"kind": "key", "key": key}).to_string() + "\n"));
    }
    let store = app.store.clone();
    let (of_tokens, exporter) = (app.clone(), caller.clone());
    let tokens = stream::try_unfold(None, move |before: Option<TokenId>| {
        let (app, caller) = (of_tokens.clone(), exporter.clone());
        async move {
            let page = super::tokens::of_person(&app, &caller, principal, before, EXPORTED_AT_ONCE).await?;
            let Some((last, _)) = page.last() else { return Ok::<_, Fault>(None) };
            let last = Some(*last);
            let line = |(_, token)| json!({"kind": "token", "token": token}).to_string() + "\n";
            Ok(Some((Bytes::from(page.into_iter().map(line).collect::<String>()), last)))
        }
    });
    // One page is in memory, whoever reads how slowly.
    let calls = stream::try_unfold(Some(None), move |state: Option<Option<CallId>>| {
        let app = app.clone();
        async move {
            let Some(after) = state else { return Ok::<_, Fault>(None) };
            let page = app.store.calls_of(tenant, principal, after, EXPORTED_AT_ONCE).await?;
            let Some(last) = page.last().map(|call| call.id) else { return Ok(None) };
            let mut text = String::new();
            for record in page {
                let call = app.engine.details(tenant, record).await?;
                text.push_str(&(json!({"kind": "call", "call": call}).to_string() + "\n"));
            }
            Ok(Some((Bytes::from(text), Some(Some(last)))))
        }
    });
    let questions = stream::try_unfold(Some(None), move |state: Option<Option<InputRequestId>>| {
        let store = store.clone();
        async move {
            let Some(after) = state else { return Ok::<_, Fault>(None) };
            let page = store.questions_of(tenant, principal, after, EXPORTED_AT_ONCE).await?;
            let Some(last) = page.last().map(|question| question.request.id) else { return Ok(None) };
            let line = |question: &Question| json!({"kind": "input", "input": question.request}).to_string() + "\n";
            Ok(Some((Bytes::from(page.iter().map(line).collect::<String>()), Some(Some(last)))))
        }
    });
    let lines = stream::once(std::future::ready(Ok(Bytes::from(head)))).chain(tokens).chain(calls).chain(questions);
    let lines = lines.map_err(|fault: Fault| {
        tracing::error!("an export ends early: {}", fault.logged().unwrap_or(fault.told()));
        std::io::Error::other(fault.told().to_owned())
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], axum::body::Body::from_stream(lines)).into_response())
}
