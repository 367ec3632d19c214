//! What holds from above: a tenant's limits, kill switches, and the operator's classification of tools.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{
    Caller, Fault, KillScope, Page, Permission, Slug, TenantId, TenantLimits, Timestamp, ToolName,
};
use toolgate_registry::commands::{Target, Verdict};
use toolgate_registry::snapshot::{TenantRegistry, TenantTool};
use toolgate_registry::toolset::{Outside, View};
use toolgate_store::catalog::KillSwitch;
use toolgate_store::cursor::ListOf;
use utoipa::ToSchema;

use super::paging::{NoQuery, PageQuery, page_of};
use super::tool_views::whole;
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// Whether the caller may know the tool's name: an administrator always, others unless it is hidden from them.
pub(super) fn may_know(registry: &TenantRegistry, caller: &Caller, today: &str, tool: &TenantTool) -> bool {
    if caller.may(&Permission::TOOLS_OVERRIDE) {
        return true;
    }
    let Ok(view) = View::of(registry, caller, today) else { return false };
    let Some(version) = tool.tool.current() else { return false };
    !view.standing(&tool.at(version, None)).as_ref().is_err_and(Outside::hides_the_name)
}

/// The tenant's own limits; the strictest of these, the agent's, its profile's and the run's holds.
#[utoipa::path(get, path = "/api/v1/limits", tag = "limits", responses((status = 200, body = TenantLimits)))]
pub async fn show_limits(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<TenantLimits>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let mut limits = registry.tenant.limits.clone();
    // A limit on a tool that is gone stays for its return, and is shown to those who can take it away.
    limits.tools.retain(|name, _| match registry.find(name, &today) {
        Some((tool, _)) => may_know(registry, &caller, &today, tool),
        None => caller.may(&Permission::LIMITS_EDIT),
    });
    Ok(Json(limits))
}

/// Replaces the tenant's limits; `{}` clears them.
#[utoipa::path(put, path = "/api/v1/limits", tag = "limits", request_body = TenantLimits, responses((status = 200, body = TenantLimits)))]
pub async fn set_limits(
    State(app): State<App>,
    By(caller): By,
    Body(limits): Body<TenantLimits>,
) -> Result<Changed<TenantLimits>, Problem> {
    let (limits, revision) = app.registry.set_limits(&caller, limits).await?;
    Ok(Changed(limits, revision))
}

#[derive(Serialize, ToSchema)]
pub struct KillSwitchView {
    scope: KillScope,
    /// Of the tenant, agent or tool that is stopped.
    name: String,
    reason: String,
    set_by: String,
    set_by_name: Option<String>,
    set_at: Timestamp,
    /// Set by the operator for every tenant.
    everyone: bool,
}

/// What is stopped, and why.
#[utoipa::path(get, path = "/api/v1/kill-switches", tag = "limits", params(PageQuery), responses((status = 200, body = Page<KillSwitchView>)))]
pub async fn kill_switches(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<KillSwitchView>>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let view = |switch: &KillSwitch| {
        let name = match switch.scope {
            KillScope::Tenant if switch.tenant == TenantId::SYSTEM => "system".to_owned(),
            KillScope::Tenant => registry.tenant.slug.to_string(),
            KillScope::Agent => {
                registry.agents.values().find(|agent| agent.id.uuid() == switch.object)?.spec.name.to_string()
            }
            KillScope::Tool => {
                let tool = registry.tool_by_id(toolgate_contracts::ToolId::from_uuid(switch.object))?;
                may_know(registry, &caller, &today, tool).then(|| tool.name.to_string())?
            }
        };
        let KillSwitch { tenant, scope, object: _, reason, set_by, set_at } = switch.clone();
        let everyone = tenant == TenantId::SYSTEM;
        Some(KillSwitchView { scope, name, reason, set_by, set_by_name: None, set_at, everyone })
    };
    let rows = registry.kill_switches().filter_map(view).collect();
    let list = ListOf { tenant: caller.tenant, list: "kill-switches", filter: "" };
    let by_scope_and_name = |row: &KillSwitchView| format!("{} {} {}", row.scope, row.name, row.everyone);
    let mut page = page_of(rows, by_scope_and_name, &list, query.cursor.as_deref(), query.limit)?;
    let names = app.engine.names(caller.tenant, page.items.iter().map(|row| row.set_by.as_str())).await?;
    for row in &mut page.items {
        row.set_by_name = names.of(&row.set_by);
    }
    Ok(Json(page))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KillSwitchRequest {
    scope: KillScope,
    /// The agent or the tool; left out for the tenant.
    name: Option<String>,
    on: bool,
    /// Needed to stop; every caller who is refused reads it.
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct KillSwitchAnswer {
    scope: KillScope,
    name: String,
    on: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Stops the tenant, an agent or a tool at once, or lets it go on.
#[utoipa::path(put, path = "/api/v1/kill-switches", tag = "limits", request_body = KillSwitchRequest, responses((status = 200, body = KillSwitchAnswer)))]
pub async fn set_kill_switch(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<KillSwitchRequest>,
) -> Result<Changed<KillSwitchAnswer>, Problem> {
    let KillSwitchRequest { scope, name, on, reason } = request;
    let target = target(scope, name.as_deref())?;
    let revision = app.registry.set_kill_switch(&caller, &target, on, reason.as_deref()).await?;
    let name = name.unwrap_or_else(|| caller.tenant_slug.to_string());
    Ok(Changed(KillSwitchAnswer { scope, name, on, reason: reason.filter(|_| on) }, revision))
}

fn target(scope: KillScope, name: Option<&str>) -> Result<Target, Fault> {
    match (scope, name) {
        (KillScope::Tenant, None) => Ok(Target::Tenant),
        (KillScope::Tenant, Some(_)) => {
            Err(Fault::invalid("the tenant is the caller's own, and is not named", "leave `name` out").at("/name"))
        }
        (KillScope::Agent, Some(name)) => Ok(Target::Agent(name.to_owned())),
        (KillScope::Tool, Some(name)) => {
            Ok(Target::Tool(name.parse().map_err(|_| Fault::not_found("tool", name).at("/name"))?))
        }
        (scope, None) => {
            Err(Fault::invalid(format!("which {scope} is meant is not said"), "name it with `name`").at("/name"))
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassificationRequest {
    egress_class: EgressClass,
    /// Left out: as the definition says, or as follows from the class.
    changes_state: Option<bool>,
    /// What was looked at.
    reason: String,
    /// Whose tool it is, where that is another tenant than the operator's own.
    tenant: Option<Slug>,
}

/// Gives a tool the class that the operator found it to have.
#[utoipa::path(put, path = "/api/v1/tools/{tool}/classification", tag = "tools", params(("tool" = String, Path)), request_body = ClassificationRequest, responses((status = 200, body = Object)))]
pub async fn classify(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<ClassificationRequest>,
) -> Result<Changed<Value>, Problem> {
    let ClassificationRequest { egress_class, changes_state, reason, tenant } = request;
    let name = tool_name(&name)?;
    let verdict = Verdict { egress_class, changes_state, reason };
    let revision = app.registry.classify(&caller, tenant.as_ref(), &name, Some(verdict)).await?;
    classified(&app, &caller, tenant.as_ref(), &name, revision)
}

#[derive(Deserialize, Default, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct OfTenant {
    /// Whose tool it is, where that is another tenant than the operator's own.
    tenant: Option<String>,
}

/// Takes the operator's classification back: the tool has the class of its definition again.
#[utoipa::path(delete, path = "/api/v1/tools/{tool}/classification", tag = "tools", params(("tool" = String, Path), OfTenant), responses((status = 200, body = Object)))]
pub async fn declassify(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(OfTenant { tenant }): Query<OfTenant>,
) -> Result<Changed<Value>, Problem> {
    let name = tool_name(&name)?;
    let slug = tenant.map(|slug| slug.parse::<Slug>().map_err(|_| Fault::not_found("tenant", slug))).transpose()?;
    let revision = app.registry.classify(&caller, slug.as_ref(), &name, None).await?;
    classified(&app, &caller, slug.as_ref(), &name, revision)
}

fn tool_name(text: &str) -> Result<ToolName, Fault> {
    text.parse().map_err(|_| Fault::not_found("tool", text))
}

fn classified(
    app: &App,
    caller: &Caller,
    tenant: Option<&Slug>,
    name: &ToolName,
    revision: i64,
) -> Result<Changed<Value>, Problem> {
    let snapshot = app.registry.snapshot();
    let registry = match tenant {
        Some(slug) => snapshot.tenant_by_slug(slug.as_str())?,
        None => snapshot.tenant(caller.tenant)?,
    };
    let (tool, _) = registry.find(name, &app.registry.now().day()).ok_or_else(|| Fault::not_found("tool", name))?;
    let version = tool.tool.current().or_else(|| tool.tool.newest());
    let version = version.ok_or_else(|| Fault::not_found("tool", name))?;
    Ok(Changed(whole(&tool.at(version, None), caller), revision))
}
