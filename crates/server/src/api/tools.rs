//! Tools: listing what the caller may call, registering, and everything an administrator does to them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::{EgressClass, Origin, Risk, ToolState, ToolType};
use toolgate_contracts::{Caller, Fault, Page, Permission, ToolName, ToolRef};
use toolgate_registry::commands::{Reach, Registration, Submitted};
use toolgate_registry::diff::{self, Difference};
use toolgate_registry::finding::Finding;
use toolgate_registry::patch::Patch;
use toolgate_registry::render::{Form, Rendered};
use toolgate_registry::search::Kind;
use toolgate_registry::snapshot::{ResolvedTool, Switch, TenantRegistry, Version};
use toolgate_registry::tool_md::Authored;
use toolgate_registry::toolset::{Outside, Standing, View};
use toolgate_store::catalog::Lifecycle;
use toolgate_store::cursor::ListOf;
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_limit, page_of};
use super::search::check_words;
use super::tool_views::{ToolSummary, VersionSummary, whole};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// What is looked for, in words: the tools that fit, best first, on one page.
    q: Option<String>,
    /// A category with all below it: `data` includes `data/visualization`.
    category: Option<String>,
    risk: Option<Risk>,
    class: Option<EgressClass>,
    /// Without it: active tools.
    state: Option<ToolState>,
    /// With the active tools also those that are deprecated.
    deprecated: bool,
    origin: Option<Origin>,
    #[serde(rename = "type")]
    #[param(rename = "type")]
    tool_type: Option<ToolType>,
    group: Option<String>,
    tag: Option<String>,
    /// What this agent has, instead of what the caller has.
    agent: Option<String>,
    /// Also what a kill switch, or a frozen agent, stops for now.
    stopped: bool,
    /// Also what is disabled or not enabled here; for those who may change that.
    all: bool,
    /// `meta` for seed 001's nine fields, or a rendering: `openai`, `anthropic`, `gemini`, `mcp`, `xml`, `base-tool`, `framework`.
    view: Option<String>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 500; 50 without it.
    limit: Option<u32>,
}

impl ListQuery {
    /// All but the place in the list: a cursor belongs to what was asked.
    fn filter(&self) -> String {
        let mut asked = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(members) = &mut asked {
            members.shift_remove("cursor");
            members.shift_remove("limit");
        }
        asked.to_string()
    }

    fn keeps(&self, tool: &ResolvedTool, registry: &TenantRegistry) -> bool {
        let definition = &tool.definition;
        let category = definition.effective_category();
        let in_category = |wanted: &String| {
            category == wanted || category.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let in_group = |wanted: &String| registry.group_has(wanted, &tool.tool);
        self.category.as_ref().is_none_or(in_category)
            && self.risk.is_none_or(|risk| definition.effective_risk() == risk)
            && self.class.is_none_or(|class| definition.class() == class)
            && match self.state {
                Some(state) => tool.state() == state,
                None => tool.state() == ToolState::Active || (self.deprecated && tool.state() == ToolState::Deprecated),
            }
            && self.origin.is_none_or(|origin| tool.tool.origin == origin)
            && self.tool_type.is_none_or(|wanted| definition.effective_type() == wanted)
            && self.group.as_ref().is_none_or(in_group)
            && self.tag.as_ref().is_none_or(|tag| definition.tags.contains(tag))
    }
}

/// The tools the caller has, in the order of names.
#[utoipa::path(get, path = "/api/v1/tools", tag = "tools", params(ListQuery), responses((status = 200, body = Page<ToolSummary>)))]
pub async fn list(State(app): State<App>, By(caller): By, Query(query): Query<ListQuery>) -> Result<Response, Problem> {
    caller.require(&Permission::TOOLS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let tools = visible(registry, &caller, &query, &today)?;
    let kept: Vec<ResolvedTool> = tools.into_iter().filter(|tool| query.keeps(tool, registry)).collect();
    let Page { items: page, next_cursor } = if let Some(words) = query.q.as_deref() {
        Page::whole(fitting(registry, kept, words, page_limit(query.limit)?)?)
    } else {
        let filter = query.filter();
        let list = ListOf { tenant: caller.tenant, list: "tools", filter: &filter };
        let by_name = |tool: &ResolvedTool| tool.name.to_string();
        page_of(kept, by_name, &list, query.cursor.as_deref(), query.limit)?
    };
    Ok(match query.view.as_deref() {
        None => {
            let view = View::of(registry, &caller, &today)?;
            let standings = app.engine.secret_standings(&caller, &page).await?;
            let row = |(tool, secrets): (&ResolvedTool, _)| {
                let stopped = view.stop(tool).map(|stop| stop.to_string());
                let why_not = app.engine.why_not_runnable(&tool.definition);
                ToolSummary { stopped, secrets, runnable: why_not.is_none(), why_not, ..ToolSummary::from(tool) }
            };
            Json(Page { items: page.iter().zip(standings).map(row).collect(), next_cursor }).into_response()
        }
        Some(view) => {
            let form: Form = view
                .parse()
                .map_err(|told: String| Fault::invalid(told, "leave `view` out for the ordinary list").at("/view"))?;
            let items: Vec<Value> = page.iter().map(|tool| rendered(tool, form, &caller)).collect();
            Json(Page { items, next_cursor }).into_response()
        }
    })
}

/// Those of the tools that fit the words, best first.
fn fitting(
    registry: &TenantRegistry,
    tools: Vec<ResolvedTool>,
    words: &str,
    limit: u32,
) -> Result<Vec<ResolvedTool>, Fault> {
    check_words(words)?;
    let mut by_name: HashMap<String, ResolvedTool> =
        tools.into_iter().map(|tool| (tool.name.to_string(), tool)).collect();
    let hits = registry
        .index()
        .search(words, limit as usize, |_, entry| entry.kind == Kind::Tool && by_name.contains_key(&entry.name));
    let names: Vec<String> = hits.into_iter().map(|hit| hit.entry.name.clone()).collect();
    Ok(names.into_iter().filter_map(|name| by_name.remove(&name)).collect())
}

fn visible(
    registry: &TenantRegistry,
    caller: &Caller,
    query: &ListQuery,
    today: &str,
) -> Result<Vec<ResolvedTool>, Fault> {
    let mut view = View::of(registry, caller, today)?;
    if let Some(name) = &query.agent {
        caller.require(&Permission::AGENTS_READ)?;
        view.agent = Some(registry.agent(name).ok_or_else(|| Fault::not_found("agent", name))?);
    }
    let hidden_too = query.all || query.state == Some(ToolState::Blocked);
    if !hidden_too {
        let listed = |standing: &Standing| match standing {
            Ok(_) => true,
            Err(outside) => query.stopped && matches!(outside, Outside::Stopped(_)),
        };
        return Ok(view.explain().filter(|(_, standing)| listed(standing)).map(|(tool, _)| tool).collect());
    }
    caller.require(&Permission::TOOLS_OVERRIDE)?;
    let current = registry.tools().filter(|tool| tool.switch != Switch::OtherTenants || caller.is_operator());
    Ok(current.filter_map(|tool| tool.tool.current().map(|version| tool.at(version, None))).collect())
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// The text of a `TOOL.md`.
    tool_md: Option<String>,
    /// Or the definition itself.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
    /// Without it nothing is written: the answer says what would be.
    #[serde(default)]
    apply: bool,
}

impl RegisterRequest {
    fn submitted(&self) -> Result<Submitted, Fault> {
        match (&self.tool_md, &self.definition) {
            (Some(text), None) => Ok(Submitted::ToolMd(text.clone().into_bytes())),
            (None, Some(definition)) => Ok(Submitted::Json(definition.to_string().into_bytes())),
            _ => {
                Err(Fault::invalid("exactly one of `tool_md` and `definition` is needed", "send the one or the other"))
            }
        }
    }
}

/// Registers a tool, or a new version of one; without `apply` it only says what would change.
#[utoipa::path(post, path = "/api/v1/tools", tag = "tools", request_body = RegisterRequest, responses((status = 200, body = Registration)))]
pub async fn register(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<RegisterRequest>,
) -> Result<Response, Problem> {
    let submitted = request.submitted()?;
    // First without writing: whoever may not register it has nothing looked at.
    let mut registration = app.registry.register(&caller, &submitted, false).await?;
    if let Some(found) = unsound(&app, &submitted).await {
        return Err(toolgate_registry::commands::refused(vec![found]).into());
    }
    if request.apply {
        registration = app.registry.register(&caller, &submitted, true).await?;
    }
    let revision = registration.revision;
    Ok(match revision {
        Some(revision) => Changed(registration, revision).into_response(),
        None => Json(registration).into_response(),
    })
}

/// What only the runner finds in a definition that can be read.
async fn unsound(app: &App, submitted: &Submitted) -> Option<Finding> {
    let Authored { definition, lines, .. } = submitted.parse().ok()?;
    let error = app.engine.examine(&definition).await.err()?;
    let mut found = [Finding::error("runner.syntax", "/runner/code", error.message, "mend the code")];
    lines.locate(&mut found);
    let [found] = found;
    Some(found)
}

#[derive(Serialize, ToSchema)]
pub struct LintAnswer {
    /// No finding is an error.
    ok: bool,
    findings: Vec<Finding>,
}

/// Every problem of a definition, among the tools of this tenant.
#[utoipa::path(post, path = "/api/v1/lint", tag = "tools", request_body = RegisterRequest, responses((status = 200, body = LintAnswer)))]
pub async fn lint(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<RegisterRequest>,
) -> Result<Json<LintAnswer>, Problem> {
    let submitted = request.submitted()?;
    // Judging a large definition takes a while, and other requests do not wait for it.
    let _turn = app.judging.acquire().await.map_err(Fault::internal)?;
    let judge = {
        let (app, submitted) = (app.clone(), submitted.clone());
        move || app.registry.test(&caller, &submitted)
    };
    let mut findings = tokio::task::spawn_blocking(judge).await.map_err(Fault::internal)??;
    findings.extend(unsound(&app, &submitted).await);
    let ok = findings.iter().all(|finding| finding.severity != toolgate_registry::finding::Severity::Error);
    Ok(Json(LintAnswer { ok, findings }))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ShowQuery {
    /// A rendering instead of the whole: `openai`, `anthropic`, `gemini`, `mcp`, `xml`, `base-tool`, `framework`, `meta`, `tool-definition`.
    r#as: Option<String>,
    /// Also what is disabled or blocked here; for those who may change that.
    all: bool,
}

/// One tool, `name` or `name@version`.
#[utoipa::path(get, path = "/api/v1/tools/{tool}", tag = "tools", params(("tool" = String, Path), ShowQuery), responses((status = 200, body = Object), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<ShowQuery>,
) -> Result<Json<Value>, Problem> {
    let tool = found(&app, &caller, &name, query.all)?;
    Ok(Json(match query.r#as {
        None => with_stop(whole(&tool, &caller), &app, &caller, &tool)?,
        Some(form) => {
            let form: Form =
                form.parse().map_err(|told: String| Fault::invalid(told, "choose one of those").at("/as"))?;
            rendered(&tool, form, &caller)
        }
    }))
}

/// Says why a tool does not run, for now or on this server, though it is there.
fn with_stop(mut shown: Value, app: &App, caller: &Caller, tool: &ResolvedTool) -> Result<Value, Fault> {
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    if let Some(stop) = View::of(registry, caller, &today)?.stop(tool) {
        shown["stopped"] = stop.to_string().into();
    }
    let why_not = app.engine.why_not_runnable(&tool.definition);
    shown["runnable"] = why_not.is_none().into();
    if let Some(why_not) = why_not {
        shown["why_not"] = why_not.into();
    }
    Ok(shown)
}

/// A rendering that is no JSON (the prompted form) travels as a string.
fn rendered(tool: &ResolvedTool, form: Form, caller: &Caller) -> Value {
    let mut value = match tool.rendered(form) {
        Rendered::Json(value) => value,
        Rendered::Text(text) => return Value::String(text),
    };
    // Which other tenants have a tool is the operator's to know.
    if let (false, Value::Object(members)) = (caller.is_operator(), &mut value) {
        members.shift_remove("tenants");
        if let Some(tenants) = members.get_mut("tenantSlugs") {
            *tenants = Value::Array(Vec::new());
        }
    }
    value
}

/// What the caller has under that name; with `all`, what an administrator may see of it.
pub fn found(app: &App, caller: &Caller, name: &str, all: bool) -> Result<ResolvedTool, Fault> {
    let reference = reference(name)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    if all {
        caller.require(&Permission::TOOLS_OVERRIDE)?;
        let tool = registry
            .resolve(&reference, &today)
            .filter(|tool| tool.switch != Switch::OtherTenants || caller.is_operator());
        return tool.ok_or_else(|| Fault::not_found("tool", &reference));
    }
    View::of(registry, caller, &today)?.resolve(&reference).map(|(tool, _)| tool)
}

/// What does not even look like a name is as unknown as any other.
fn reference(text: &str) -> Result<ToolRef, Fault> {
    text.parse().map_err(|_| Fault::not_found("tool", text))
}

pub fn tool_name(text: &str) -> Result<ToolName, Fault> {
    text.parse().map_err(|_| Fault::not_found("tool", text))
}

/// The versions that the caller could look up one by one.
fn seen_versions(app: &App, caller: &Caller, tool: &ResolvedTool) -> Result<Vec<Arc<Version>>, Fault> {
    if caller.may(&Permission::TOOLS_OVERRIDE) {
        return Ok(tool.tool.versions.clone());
    }
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let view = View::of(registry, caller, &today)?;
    let Some(found) = registry.tool_by_id(tool.tool.id) else { return Ok(Vec::new()) };
    let seen = |version: &&Arc<Version>| view.sees(&found.at(version, None));
    Ok(tool.tool.versions.iter().filter(seen).cloned().collect())
}

/// The versions of a tool, newest first.
#[utoipa::path(get, path = "/api/v1/tools/{tool}/versions", tag = "tools", params(("tool" = String, Path), PageQuery), responses((status = 200, body = Page<VersionSummary>)))]
pub async fn versions(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<VersionSummary>>, Problem> {
    let tool = found(&app, &caller, &name, caller.may(&Permission::TOOLS_OVERRIDE))?;
    let filter = tool.tool.id.to_string();
    let list = ListOf { tenant: caller.tenant, list: "versions", filter: &filter };
    // They stand newest first; their place is their key.
    let rows =
        tool.tool.versions.iter().enumerate().map(|(place, version)| (place, VersionSummary::from(version.as_ref())));
    let page =
        page_of(rows.collect(), |(place, _)| format!("{place:09}"), &list, query.cursor.as_deref(), query.limit)?;
    let mut page = page.map(|(_, version)| version);
    let names = app.engine.names(caller.tenant, page.items.iter().map(|one| one.published_by.as_str())).await?;
    for version in &mut page.items {
        version.published_by_name = names.of(&version.published_by);
    }
    Ok(Json(page))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// Without it: the version before `to`.
    from: Option<String>,
    /// Without it: the newest version.
    to: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct DiffAnswer {
    from: String,
    to: String,
    #[serde(flatten)]
    difference: Difference,
    /// A unified text of both definitions.
    text: String,
}

/// What changed between two versions, by class.
#[utoipa::path(get, path = "/api/v1/tools/{tool}/diff", tag = "tools", params(("tool" = String, Path), DiffQuery), responses((status = 200, body = DiffAnswer)))]
pub async fn diff(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<DiffAnswer>, Problem> {
    let tool = found(&app, &caller, &name, caller.may(&Permission::TOOLS_OVERRIDE))?;
    let versions = seen_versions(&app, &caller, &tool)?;
    let at = |wanted: &str| {
        versions
            .iter()
            .position(|version| version.version.to_string() == wanted)
            .ok_or_else(|| Fault::not_found("tool", format!("{}@{wanted}", tool.name)))
    };
    let released = versions.iter().position(|version| version.version.pre.is_empty()).unwrap_or(0);
    let to = query.to.as_deref().map_or(Ok(released), at)?;
    let from = match &query.from {
        Some(wanted) => at(wanted)?,
        None => (to + 1).min(versions.len().saturating_sub(1)),
    };
    let (old, new) = (&versions[from], &versions[to]);
    Ok(Json(DiffAnswer {
        from: old.version.to_string(),
        to: new.version.to_string(),
        difference: diff::compare(&old.published.definition, &new.published.definition),
        text: diff::text(&old.published.definition, &new.published.definition),
    }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnabledRequest {
    enabled: bool,
    /// For every tenant that has not said otherwise; the operator's.
    #[serde(default)]
    everyone: bool,
}

/// Switches a tool on or off for this tenant, or for all.
#[utoipa::path(put, path = "/api/v1/tools/{tool}/enabled", tag = "tools", params(("tool" = String, Path)), request_body = EnabledRequest, responses((status = 200, body = Object)))]
pub async fn set_enabled(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<EnabledRequest>,
) -> Result<Changed<Value>, Problem> {
    let reach = if request.everyone { Reach::Everyone } else { Reach::ThisTenant };
    let revision = app.registry.set_enabled(&caller, &tool_name(&name)?, request.enabled, reach).await?;
    after(&app, &caller, &name, revision)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateRequest {
    state: ToolState,
    message: Option<String>,
    /// The last day it is promised to be there, `YYYY-MM-DD`.
    remove_by: Option<String>,
    replaced_by: Option<String>,
}

/// Activates, deprecates or blocks one version, or all when no version is named.
#[utoipa::path(put, path = "/api/v1/tools/{tool}/state", tag = "tools", params(("tool" = String, Path)), request_body = StateRequest, responses((status = 200, body = Object)))]
pub async fn set_state(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<StateRequest>,
) -> Result<Changed<Value>, Problem> {
    let StateRequest { state, message, remove_by, replaced_by } = request;
    let lifecycle = Lifecycle { state, message, remove_by, replaced_by };
    let (changed_versions, revision) = app.registry.set_lifecycle(&caller, &reference(&name)?, &lifecycle).await?;
    let Changed(mut tool, revision) = after(&app, &caller, &name, revision)?;
    tool["changed_versions"] = changed_versions.into();
    Ok(Changed(tool, revision))
}

/// Sets this tenant's override of a shared tool: rename or tighten.
#[utoipa::path(put, path = "/api/v1/tools/{tool}/override", tag = "tools", params(("tool" = String, Path)), request_body = Patch, responses((status = 200, body = Object)))]
pub async fn set_override(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(patch): Body<Patch>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.set_override(&caller, &tool_name(&name)?, &patch).await?;
    after(&app, &caller, &name, revision)
}

/// Removes this tenant's override.
#[utoipa::path(delete, path = "/api/v1/tools/{tool}/override", tag = "tools", params(("tool" = String, Path)), responses((status = 200, body = Object)))]
pub async fn clear_override(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.set_override(&caller, &tool_name(&name)?, &Patch::default()).await?;
    after(&app, &caller, &name, revision)
}

/// Deletes a tool that this tenant made and nothing uses.
#[utoipa::path(delete, path = "/api/v1/tools/{tool}", tag = "tools", params(("tool" = String, Path)), responses((status = 200, body = Object)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.delete_tool(&caller, &tool_name(&name)?).await?;
    Ok(Changed(serde_json::json!({"deleted": name}), revision))
}

pub fn after(app: &App, caller: &Caller, name: &str, revision: i64) -> Result<Changed<Value>, Problem> {
    let reference = reference(name)?;
    let snapshot = app.registry.snapshot();
    let tool = snapshot
        .tenant(caller.tenant)?
        .resolve(&reference, &app.registry.now().day())
        .ok_or_else(|| Fault::not_found("tool", name))?;
    Ok(Changed(whole(&tool, caller), revision))
}
