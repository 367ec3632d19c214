//! Plug-ins: the operator installs components that tools may name.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_contracts::plugin::COMPONENT_BYTES_MAX;
use toolgate_contracts::{Fault, FaultKind, Page, Permission, Plugin, ToolName};
use toolgate_registry::commands::{Registration, Submitted, plugin_tool_md};
use toolgate_store::cursor::ListOf;
use utoipa::{IntoParams, ToSchema};

use super::paging::{NoQuery, PageQuery, page_of};
use crate::app::App;
use crate::extract::{By, Changed, Query};
use crate::problem::Problem;

const KIND: &str = "application/wasm";

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct InstallQuery {
    /// What definitions name it by; without it, the name that it gives itself.
    #[param(value_type = Option<String>)]
    name: Option<ToolName>,
    /// Registers the tool that the plug-in describes, in the caller's tenant. One that asks for hosts or secrets is only
    /// registered with `grant`.
    register: bool,
    /// Gives the tool the hosts and secrets that the plug-in asks for.
    grant: bool,
}

#[derive(Serialize, ToSchema)]
pub struct InstalledPlugin {
    #[serde(flatten)]
    plugin: Plugin,
    /// Without it, it was there already.
    installed: bool,
    /// The definition of the tool that it describes, as a `TOOL.md`.
    tool_md: String,
    /// What registering it did, if that was asked for and everything that it asks for was granted.
    registration: Option<Registration>,
}

#[derive(Serialize, ToSchema)]
pub struct ShownPlugin {
    #[serde(flatten)]
    plugin: Plugin,
    /// The tools that it runs, as `tenant/name@version`.
    tools: Vec<String>,
    /// The definition of the tool that it describes, as a `TOOL.md`.
    tool_md: String,
}

/// What is installed, all versions of each.
#[utoipa::path(get, path = "/api/v1/plugins", tag = "plugins", params(PageQuery), responses((status = 200, body = Page<Plugin>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Plugin>>, Problem> {
    let plugins = app.registry.plugins(&caller)?;
    let list = ListOf { tenant: caller.tenant, list: "plugins", filter: "" };
    let key = |plugin: &Plugin| format!("{}@{}", plugin.name, plugin.version);
    Ok(Json(page_of(plugins, key, &list, query.cursor.as_deref(), query.limit)?))
}

/// Installs a component: the body is its bytes. It is run once, to ask it what it is.
#[utoipa::path(post, path = "/api/v1/plugins", tag = "plugins", params(InstallQuery), request_body(content = Vec<u8>, content_type = "application/wasm"), responses((status = 200, body = InstalledPlugin), (status = 409), (status = 413)))]
pub async fn install(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<InstallQuery>,
    request: Request,
) -> Result<Response, Problem> {
    caller.require(&Permission::PLUGINS_INSTALL)?;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind != KIND {
        let told = format!("the body is `{}`", kind.escape_debug());
        return Err(Fault::invalid(told, format!("send a component, with `Content-Type: {KIND}`")).into());
    }
    let component = axum::body::to_bytes(request.into_body(), COMPONENT_BYTES_MAX).await.map_err(|_| {
        let told = format!("the component is larger than {COMPONENT_BYTES_MAX} bytes, or it did not come whole");
        Fault::new(FaultKind::TooLarge, told, "leave out what it does not need, or send it again")
    })?;
    let read = app.engine.read_plugin(component.to_vec()).await?;
    let (plugin, mut revision) = app.registry.install_plugin(&caller, query.name, read, component.to_vec()).await?;
    let installed = revision.is_some();
    let tool_md = plugin_tool_md(&plugin);
    let mut registration = None;
    let asks = !plugin.description.hosts.is_empty() || !plugin.description.secrets.is_empty();
    if query.register && (query.grant || !asks) {
        let submitted = Submitted::ToolMd(tool_md.clone().into_bytes());
        let registered = app.registry.register(&caller, &submitted, true).await?;
        revision = registered.revision.or(revision);
        registration = Some(registered);
    }
    let answer = InstalledPlugin { plugin, installed, tool_md, registration };
    Ok(match revision {
        Some(revision) => Changed(answer, revision).into_response(),
        None => Json(answer).into_response(),
    })
}

/// One plug-in, by `name` (the newest version), `name@version` or digest.
#[utoipa::path(get, path = "/api/v1/plugins/{plugin}", tag = "plugins", params(("plugin" = String, Path)), responses((status = 200, body = ShownPlugin), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(plugin): Path<String>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<ShownPlugin>, Problem> {
    let plugin = app.registry.plugin(&caller, &plugin)?;
    let tools = app.registry.plugin_uses(&caller, plugin.digest)?;
    let tool_md = plugin_tool_md(&plugin);
    Ok(Json(ShownPlugin { plugin, tools, tool_md }))
}

/// Removes one version; refused while a tool names it.
#[utoipa::path(delete, path = "/api/v1/plugins/{plugin}", tag = "plugins", params(("plugin" = String, Path)), responses((status = 200, body = Plugin), (status = 404), (status = 409)))]
pub async fn remove(
    State(app): State<App>,
    By(caller): By,
    Path(plugin): Path<String>,
) -> Result<Changed<Plugin>, Problem> {
    let (plugin, revision) = app.registry.remove_plugin(&caller, &plugin).await?;
    app.engine.forget_plugin(plugin.digest).await;
    Ok(Changed(plugin, revision))
}
