//! Whom roles of a PostgreSQL database stand for, when they call seed 000's functions there. The operator's to say.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::{Caller, Fault, FaultKind, Page, Permission, Timestamp, UserId};
use toolgate_store::sql_requests::RoleMapping;
use toolgate_store::{Change, Kind};
use utoipa::ToSchema;

use super::paging::NoQuery;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// PostgreSQL cuts longer names off.
const ROLE_BYTES_MAX: usize = 63;

#[derive(Serialize, ToSchema)]
pub struct DatabaseRole {
    role: String,
    user_id: UserId,
    user: String,
    mapped_by: String,
    created_at: Timestamp,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapRequest {
    /// By name, e-mail or id.
    user: String,
}

fn allowed(app: &App, caller: &Caller) -> Result<(), Fault> {
    caller.require(&Permission::CONFIG_EDIT)?;
    if app.store.kind() == Kind::Postgres {
        return Ok(());
    }
    Err(Fault::conflict("an SQLite database has no roles", "use PostgreSQL, or the REST API"))
}

/// The database's roles that stand for somebody of this tenant.
#[utoipa::path(get, path = "/api/v1/db/roles", tag = "system", responses((status = 200, body = Page<DatabaseRole>), (status = 409)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<Page<DatabaseRole>>, Problem> {
    allowed(&app, &caller)?;
    let shown = |mapping: RoleMapping| DatabaseRole {
        role: mapping.role,
        user_id: mapping.user,
        user: mapping.user_name,
        mapped_by: mapping.mapped_by,
        created_at: mapping.created_at,
    };
    let mappings = app.store.role_mappings(caller.tenant).await?;
    Ok(Json(Page::whole(mappings.into_iter().map(shown).collect())))
}

/// Lets a role of the database stand for a user of this tenant.
#[utoipa::path(put, path = "/api/v1/db/roles/{role}", tag = "system", params(("role" = String, Path)), request_body = MapRequest, responses((status = 200, body = Object), (status = 409)))]
pub async fn map(
    State(app): State<App>,
    By(caller): By,
    Path(role): Path<String>,
    Body(request): Body<MapRequest>,
) -> Result<Json<Value>, Problem> {
    allowed(&app, &caller)?;
    if role.is_empty() || role.len() > ROLE_BYTES_MAX || role.contains('\0') {
        return Err(Fault::invalid("a role's name has 1 to 63 bytes", "name a role of the database")
            .at("/role")
            .into());
    }
    let found = app.store.user(caller.tenant, &request.user).await?;
    let user = found.ok_or_else(|| Fault::not_found("user", &request.user).at("/user"))?;
    let now = app.clock.now();
    let mut change = Change::new(caller.tenant);
    change.map_role(&role, user.id, &caller.principal.to_string(), now);
    change.audit(&app.entry(&caller, caller.tenant, "db.role.map", &role, json!({"user": user.id})));
    app.store.commit(change).await.map_err(|error| {
        if error.is("sql_principals_role") || error.is("sql_principals_pkey") {
            let told = format!("the role `{role}` stands for somebody already");
            return Fault::conflict(told, "take that back first with `toolgate db unmap-role ROLE`").at("/role");
        }
        Fault::from(error)
    })?;
    Ok(Json(json!({"role": role, "user_id": user.id, "user": user.name})))
}

/// Takes a role's rights back; what it asked for and still waits is refused.
#[utoipa::path(delete, path = "/api/v1/db/roles/{role}", tag = "system", params(("role" = String, Path)), responses((status = 200, body = Object), (status = 404)))]
pub async fn unmap(State(app): State<App>, By(caller): By, Path(role): Path<String>) -> Result<Json<Value>, Problem> {
    allowed(&app, &caller)?;
    let unknown = Fault::new(
        FaultKind::NotFound,
        format!("no role `{role}` stands for anybody here"),
        "list them with `toolgate db roles`",
    );
    let mut change = Change::new(caller.tenant);
    change.unmap_role(&role, unknown);
    change.audit(&app.entry(&caller, caller.tenant, "db.role.unmap", &role, json!({})));
    app.store.commit(change).await?;
    Ok(Json(json!({"unmapped": role})))
}
