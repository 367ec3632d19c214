//! Agents, the tools they have and why, and assignments.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::agent::AgentSpec;
use toolgate_contracts::definition::{EgressClass, Risk};
use toolgate_contracts::{
    Agent, AgentState, Caller, Fault, Page, Permission, Slug, Timestamp, ToolId, ToolName, ToolRef,
};
use toolgate_registry::Finding;
use toolgate_registry::commands::{AgentDraft, agent_findings, shown};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_registry::toolset::{Outside, Standing, View};
use toolgate_store::cursor::ListOf;
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_of};

use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// Agents in the order of names.
#[utoipa::path(get, path = "/api/v1/agents", tag = "agents", params(PageQuery), responses((status = 200, body = Page<Agent>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Agent>>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let agents = registry.agents.values().map(|agent| shown(agent, registry)).collect();
    let list = ListOf { tenant: caller.tenant, list: "agents", filter: "" };
    Ok(Json(page_of(agents, |agent: &Agent| agent.name.to_string(), &list, query.cursor.as_deref(), query.limit)?))
}

/// An agent as it was saved, with what is worth saying of it.
#[derive(Serialize, ToSchema)]
pub struct SavedAgent {
    #[serde(flatten)]
    agent: Agent,
    findings: Vec<Finding>,
}

async fn saved(app: &App, caller: &Caller, draft: AgentDraft) -> Result<Changed<SavedAgent>, Problem> {
    let (agent, revision) = app.registry.put_agent(caller, draft).await?;
    let today = app.engine.now().day();
    let findings = agent_findings(&agent, app.registry.snapshot().tenant(caller.tenant)?, &today);
    Ok(Changed(SavedAgent { agent, findings }, revision))
}

/// Creates an agent.
#[utoipa::path(post, path = "/api/v1/agents", tag = "agents", request_body = AgentSpec, responses((status = 200, body = SavedAgent), (status = 409)))]
pub async fn create(
    State(app): State<App>,
    By(caller): By,
    Body(spec): Body<AgentSpec>,
) -> Result<Changed<SavedAgent>, Problem> {
    if app.registry.snapshot().tenant(caller.tenant)?.agent(spec.name.as_str()).is_some() {
        return Err(Fault::conflict(
            format!("there is an agent `{}` already", spec.name),
            "choose another name, or replace it with `toolgate agent update`",
        )
        .at("/name")
        .into());
    }
    saved(&app, &caller, AgentDraft { spec, state: AgentState::Active }).await
}

/// One agent, by name or id.
#[utoipa::path(get, path = "/api/v1/agents/{agent}", tag = "agents", params(("agent" = String, Path)), responses((status = 200, body = Agent), (status = 404)))]
pub async fn show(State(app): State<App>, By(caller): By, Path(name): Path<String>) -> Result<Json<Agent>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let agent = registry.agent(&name).ok_or_else(|| Fault::not_found("agent", &name))?;
    Ok(Json(shown(agent, registry)))
}

/// Replaces an agent's definition; its name cannot change.
#[utoipa::path(put, path = "/api/v1/agents/{agent}", tag = "agents", params(("agent" = String, Path)), request_body = AgentSpec, responses((status = 200, body = SavedAgent)))]
pub async fn replace(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(spec): Body<AgentSpec>,
) -> Result<Changed<SavedAgent>, Problem> {
    let state = app
        .registry
        .snapshot()
        .tenant(caller.tenant)?
        .agent(&name)
        .filter(|agent| agent.spec.name == spec.name)
        .map(|agent| agent.state);
    let state = state.ok_or_else(|| Fault::not_found("agent", &name))?;
    saved(&app, &caller, AgentDraft { spec, state }).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentStateRequest {
    state: AgentState,
}

/// Freezes an agent, or lets it go on: a frozen one has no tools.
#[utoipa::path(put, path = "/api/v1/agents/{agent}/state", tag = "agents", params(("agent" = String, Path)), request_body = AgentStateRequest, responses((status = 200, body = Agent)))]
pub async fn set_state(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(request): Body<AgentStateRequest>,
) -> Result<Changed<Agent>, Problem> {
    let spec = app.registry.snapshot().tenant(caller.tenant)?.agent(&name).map(|agent| agent.spec.clone());
    let spec = spec.ok_or_else(|| Fault::not_found("agent", &name))?;
    let (agent, revision) = app.registry.put_agent(&caller, AgentDraft { spec, state: request.state }).await?;
    Ok(Changed(agent, revision))
}

/// Deletes an agent; what it called stays in the log.
#[utoipa::path(delete, path = "/api/v1/agents/{agent}", tag = "agents", params(("agent" = String, Path)), responses((status = 200, body = Object)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.delete_agent(&caller, &name).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}

#[derive(Serialize, ToSchema)]
pub struct AgentTool {
    name: String,
    version: String,
    title: String,
    egress_class: EgressClass,
    risk: Risk,
    requires_approval: bool,
    /// Whether the agent has it.
    has: bool,
    why: String,
}

/// Every tool, with whether the agent has it and why.
#[utoipa::path(get, path = "/api/v1/agents/{agent}/tools", tag = "agents", params(("agent" = String, Path)), responses((status = 200, body = Page<AgentTool>)))]
pub async fn tools(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<Page<AgentTool>>, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let agent = registry.agent(&name).ok_or_else(|| Fault::not_found("agent", &name))?;
    let view = View { agent: Some(agent), ..View::of(registry, &caller, &today)? };
    let administers = caller.may(&Permission::TOOLS_OVERRIDE);
    let row = |(tool, standing): (ResolvedTool, Standing)| {
        let hidden = !administers && standing.as_ref().is_err_and(Outside::hides_the_name);
        (!hidden).then(|| AgentTool {
            name: tool.name.to_string(),
            version: tool.version.version.to_string(),
            title: tool.definition.effective_title().to_owned(),
            egress_class: tool.definition.class(),
            risk: tool.definition.effective_risk(),
            requires_approval: tool.definition.asks(),
            has: standing.is_ok(),
            why: standing.map_or_else(|outside| outside.to_string(), |member| member.to_string()),
        })
    };
    Ok(Json(Page::whole(view.explain().filter_map(row).collect())))
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AssignRequest {
    profile: Option<Slug>,
}

/// Assigns a tool to an agent, optionally under a profile.
#[utoipa::path(put, path = "/api/v1/agents/{agent}/tools/{tool}", tag = "agents", params(("agent" = String, Path), ("tool" = String, Path)), request_body = AssignRequest, responses((status = 200, body = Object)))]
pub async fn assign(
    State(app): State<App>,
    By(caller): By,
    Path((agent, tool)): Path<(String, String)>,
    Body(request): Body<AssignRequest>,
) -> Result<Changed<Value>, Problem> {
    let profile = request.profile.as_ref().map(Slug::as_str);
    let revision = app.registry.assign(&caller, &agent, &tool_named(&app, &caller, &tool)?, profile).await?;
    Ok(Changed(json!({"agent": agent, "tool": tool, "profile": profile}), revision))
}

/// Takes an assignment back.
#[utoipa::path(delete, path = "/api/v1/agents/{agent}/tools/{tool}", tag = "agents", params(("agent" = String, Path), ("tool" = String, Path)), responses((status = 200, body = Object)))]
pub async fn revoke(
    State(app): State<App>,
    By(caller): By,
    Path((agent, tool)): Path<(String, String)>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.revoke(&caller, &agent, &tool_named(&app, &caller, &tool)?).await?;
    Ok(Changed(json!({"agent": agent, "tool": tool, "revoked": true}), revision))
}

/// Seed 000's command takes a tool's id; both work.
fn tool_named(app: &App, caller: &Caller, text: &str) -> Result<ToolName, Fault> {
    let unknown = || Fault::not_found("tool", text);
    match text.parse::<ToolId>() {
        Ok(id) => app
            .registry
            .snapshot()
            .tenant(caller.tenant)?
            .tool_by_id(id)
            .map(|tool| tool.tool.name.clone())
            .ok_or_else(unknown),
        // A version is accepted and means the tool: an assignment is to all of them.
        Err(_) => text.parse::<ToolRef>().map(|reference| reference.name).map_err(|_| unknown()),
    }
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AssignmentQuery {
    agent: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub struct AssignmentView {
    agent: Slug,
    tool: String,
    tool_id: ToolId,
    profile: Option<Slug>,
    created_by: String,
    created_by_name: Option<String>,
    created_at: Timestamp,
}

/// Which agent has which tool by assignment.
#[utoipa::path(get, path = "/api/v1/assignments", tag = "agents", params(AssignmentQuery), responses((status = 200, body = Page<AssignmentView>)))]
pub async fn assignments(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<AssignmentQuery>,
) -> Result<impl IntoResponse, Problem> {
    caller.require(&Permission::AGENTS_READ)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let view = View::of(registry, &caller, &today)?;
    let wanted = match &query.agent {
        Some(name) => Some(registry.agent(name).ok_or_else(|| Fault::not_found("agent", name))?.id),
        None => None,
    };
    let rows = registry
        .assignments
        .values()
        .filter(|row| wanted.is_none_or(|agent| row.agent == agent))
        .filter_map(|row| {
            let tool = registry.tool_by_id(row.tool)?;
            let seen = || tool.tool.current().is_some_and(|version| view.sees(&tool.at(version, None)));
            if !caller.may(&Permission::TOOLS_OVERRIDE) && !seen() {
                return None;
            }
            Some(AssignmentView {
                agent: registry.agents.get(&row.agent)?.spec.name.clone(),
                tool: tool.name.to_string(),
                tool_id: row.tool,
                profile: row
                    .profile
                    .and_then(|id| registry.profiles.get(&id))
                    .map(|stored| stored.profile.name.clone()),
                created_by: row.created_by.clone(),
                created_by_name: None,
                created_at: row.created_at,
            })
        })
        .collect();
    let filter = format!("{wanted:?}");
    let list = ListOf { tenant: caller.tenant, list: "assignments", filter: &filter };
    let by_agent_and_tool = |row: &AssignmentView| format!("{} {}", row.agent, row.tool);
    let mut page = page_of(rows, by_agent_and_tool, &list, query.cursor.as_deref(), query.limit)?;
    let names = app.engine.names(caller.tenant, page.items.iter().map(|row| row.created_by.as_str())).await?;
    for row in &mut page.items {
        row.created_by_name = names.of(&row.created_by);
    }
    Ok(Json(page))
}
