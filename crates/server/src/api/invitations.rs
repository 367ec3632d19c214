//! Invitations, for those who administer a tenant.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{Fault, InvitationId, LoginName, Page, Permission, Permissions, Role, Slug};
use toolgate_store::cursor::ListOf;
use toolgate_store::invitations::Invitation;
use utoipa::ToSchema;

use super::paging::{PageQuery, page_limit};
use super::sessions::LinkRequest;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::identity::{NewInvitation, Sent};
use crate::problem::Problem;

/// Invitations, newest first.
#[utoipa::path(get, path = "/api/v1/invitations", tag = "invitations", params(PageQuery), responses((status = 200, body = Page<Invitation>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Problem> {
    caller.require(&Permission::MEMBERS_MANAGE)?;
    let limit = page_limit(query.limit)?;
    let list = ListOf { tenant: caller.tenant, list: "invitations", filter: "" };
    let before = query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?;
    let before = before.map(|id| id.parse::<InvitationId>().map_err(Fault::internal)).transpose()?;
    let mut items = app.store.invitations(caller.tenant, before, app.clock.now(), limit + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
    Ok(Json(Page { items, next_cursor }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationRequest {
    /// How the new user will be called unless they choose otherwise.
    name: String,
    email: Option<String>,
    /// Absent: `member`.
    roles: Option<Vec<Role>>,
    /// Words that tools demand by `required_permission`.
    #[serde(default)]
    permissions: Permissions,
    /// Absent: `main`.
    workspaces: Option<Vec<Slug>>,
    /// Shows the link even where it could go by mail.
    #[serde(default)]
    show: bool,
}

#[derive(Serialize, ToSchema)]
pub struct InvitationSent {
    invitation: Invitation,
    /// Shown once; absent where it went by mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailed_to: Option<String>,
    /// Why it is shown although it should have gone by mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    mail_failed: Option<String>,
}

impl InvitationSent {
    fn new(invitation: Invitation, sent: Sent) -> Self {
        let Sent { url, mailed_to, mail_failed } = sent;
        Self { invitation, url, mailed_to, mail_failed }
    }
}

/// Invites somebody: by mail where there is a relay and an address, otherwise by a link that is shown once.
#[utoipa::path(post, path = "/api/v1/invitations", tag = "invitations", request_body = InvitationRequest, responses((status = 200, body = InvitationSent)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<InvitationRequest>,
) -> Result<Json<InvitationSent>, Problem> {
    let InvitationRequest { name, email, roles, permissions, workspaces, show } = request;
    let main = toolgate_registry::commands::FIRST_WORKSPACE.parse().map_err(Fault::internal)?;
    let new = NewInvitation {
        name,
        email: email.map(|email| LoginName::of(&email).as_str().to_owned()),
        roles: roles.unwrap_or_else(|| vec![Role::Member]),
        permissions,
        workspaces: workspaces.unwrap_or_else(|| vec![main]),
    };
    let (invitation, sent) = app.invite(&caller, new, show).await?;
    Ok(Json(InvitationSent::new(invitation, sent)))
}

/// Sends a new link for seven more days; the one before stops.
#[utoipa::path(post, path = "/api/v1/invitations/{invitation}/resend", tag = "invitations", params(("invitation" = String, Path)), request_body = LinkRequest, responses((status = 200, body = InvitationSent), (status = 404), (status = 409)))]
pub async fn resend(
    State(app): State<App>,
    By(caller): By,
    Path(invitation): Path<String>,
    Body(LinkRequest { show }): Body<LinkRequest>,
) -> Result<Json<InvitationSent>, Problem> {
    let (invitation, sent) = app.invite_again(&caller, id_of(&invitation)?, show).await?;
    Ok(Json(InvitationSent::new(invitation, sent)))
}

/// Revokes an invitation that is not accepted yet.
#[utoipa::path(delete, path = "/api/v1/invitations/{invitation}", tag = "invitations", params(("invitation" = String, Path)), responses((status = 200, body = Invitation), (status = 404), (status = 409)))]
pub async fn revoke(
    State(app): State<App>,
    By(caller): By,
    Path(invitation): Path<String>,
) -> Result<Json<Invitation>, Problem> {
    Ok(Json(app.revoke_invitation(&caller, id_of(&invitation)?).await?))
}

fn id_of(text: &str) -> Result<InvitationId, Fault> {
    text.parse().map_err(|_| Fault::not_found("invitation", text))
}
