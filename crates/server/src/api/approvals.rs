//! Calls that wait for a person: listed, shown as the stored bytes say, decided on.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use tokio::time::Duration;
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::{ApprovalState, Caller, Digest, Fault, Page, Vote, WorkspaceId};
use toolgate_engine::approvals::{BulkAnswer, Card, Choice, Decided};
use toolgate_store::approvals::{ApprovalFilter, SeenBy};
use utoipa::{IntoParams, ToSchema};

use super::calls::{CallQuery, filter_of};
use super::paging::page_limit;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// Absent: every state, newest first. The open ones come oldest first, because they wait.
    state: Option<ApprovalState>,
    /// A name, an old name, or an id.
    tool: Option<String>,
    /// A name or an id.
    agent: Option<String>,
    /// A name or an id.
    workspace: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Approvals of the caller's workspaces, and those they asked for themselves.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", params(ApprovalQuery), responses((status = 200, body = Page<Card>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<ApprovalQuery>,
) -> Result<Json<Page<Card>>, Problem> {
    let limit = page_limit(query.limit)?;
    let filter = approvals_filter(&app, &caller, &query).await?;
    Ok(Json(app.engine.list_approvals(&caller, &filter, query.cursor.as_deref(), limit).await?))
}

async fn approvals_filter(app: &App, caller: &Caller, query: &ApprovalQuery) -> Result<ApprovalFilter, Fault> {
    let ApprovalQuery { state, tool, agent, workspace, cursor: _, limit: _ } = query;
    let named = CallQuery { tool: tool.clone(), agent: agent.clone(), ..CallQuery::default() };
    let named = filter_of(app, caller, &named).await?;
    let workspace = match workspace {
        Some(name) => Some(workspace_of(app, caller, name).await?),
        None => None,
    };
    Ok(ApprovalFilter { state: *state, tool: named.tool, agent: named.agent, workspace, seen_by: SeenBy::Everybody })
}

async fn workspace_of(app: &App, caller: &Caller, name: &str) -> Result<WorkspaceId, Fault> {
    let workspaces = app.store.workspaces(caller.tenant).await?;
    let found = workspaces.iter().find(|known| known.slug.as_str() == name || known.id.to_string() == name);
    found.map(|known| known.id).ok_or_else(|| Fault::not_found("workspace", name).at("/workspace"))
}

/// How many approvals there are of a list.
#[derive(Serialize, ToSchema)]
pub struct ApprovalCount {
    count: u32,
}

/// How many there are; of `state=open`, how many wait for somebody like the caller.
#[utoipa::path(get, path = "/api/v1/approvals/count", tag = "approvals", params(ApprovalQuery), responses((status = 200, body = ApprovalCount)))]
pub async fn count(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<ApprovalQuery>,
) -> Result<Json<ApprovalCount>, Problem> {
    let filter = approvals_filter(&app, &caller, &query).await?;
    Ok(Json(ApprovalCount { count: app.engine.count_approvals(&caller, &filter).await? }))
}

/// What somebody who decides looks at: by the approval's id or the call's.
#[utoipa::path(get, path = "/api/v1/approvals/{approval}", tag = "approvals", params(("approval" = String, Path)), responses((status = 200, body = Card), (status = 404)))]
pub async fn show(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<Card>, Problem> {
    Ok(Json(app.engine.approval(&caller, &id).await?))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DecisionWait {
    /// Whole seconds to wait for the end of what was approved, 0 to 60.
    wait: Option<u64>,
}

/// Decides: approve, reject with a reason, or approve another input. What is approved runs at once. The first decision
/// wins; a second one is told who decided and when.
#[utoipa::path(post, path = "/api/v1/approvals/{approval}/decide", tag = "approvals", params(("approval" = String, Path), DecisionWait), request_body = Choice, responses((status = 200, body = Decided), (status = 403), (status = 404), (status = 409)))]
pub async fn decide(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Query(query): Query<DecisionWait>,
    Body(choice): Body<Choice>,
) -> Result<Json<Decided>, Problem> {
    let wait = query.wait.unwrap_or(0);
    if wait > WAIT_S_MAX {
        return Err(Fault::invalid(format!("`wait` is {wait}"), "wait 0 to 60 whole seconds").at("/wait").into());
    }
    Ok(Json(Box::pin(app.engine.decide(&caller, &id, choice, Duration::from_secs(wait))).await?))
}

/// The same decision for several calls of one tool to one destination, none of them critical. None makes a standing grant.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkDecision {
    /// Approvals' ids or calls', 1 to 100.
    ids: Vec<String>,
    /// What was looked at: `input_digest` of the cards, by the ids above. One that was edited since is refused.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    input_digests: BTreeMap<String, Digest>,
    decision: Vote,
    /// Required to reject.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct BulkAnswers {
    items: Vec<BulkAnswer>,
}

/// Decides on several; each is decided by itself, and answered by itself.
#[utoipa::path(post, path = "/api/v1/approvals/decide", tag = "approvals", request_body = BulkDecision, responses((status = 200, body = BulkAnswers)))]
pub async fn decide_all(
    State(app): State<App>,
    By(caller): By,
    Body(bulk): Body<BulkDecision>,
) -> Result<Json<BulkAnswers>, Problem> {
    let BulkDecision { ids, input_digests, decision, reason } = bulk;
    let choice = Choice { decision, reason, input: None, input_digest: None, round: None, standing: None };
    Ok(Json(BulkAnswers { items: Box::pin(app.engine.decide_all(&caller, &ids, &input_digests, &choice)).await? }))
}
