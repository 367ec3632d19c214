//! Runs, their steps, what runtimes report of them, and work for those who run tools themselves.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_contracts::call::{RunKind, RunState};
use toolgate_contracts::{Envelope, Fault, LeaseId, Page, RunId};
use toolgate_engine::control::Report;
use toolgate_engine::external::{Heartbeat, Kept, LeaseRequest, Leased, ToolEvent};
use toolgate_engine::runs::{NewRun, RunSummary, RunView};
use toolgate_store::runs::{Run, RunFilter, Step};
use utoipa::{IntoParams, ToSchema};

use super::calls::{Answered, named_agent};
use super::paging::page_limit;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// Opens a run.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", request_body = NewRun, responses((status = 200, body = Run)))]
pub async fn open(State(app): State<App>, By(caller): By, Body(new): Body<NewRun>) -> Result<Json<Run>, Problem> {
    Ok(Json(app.engine.open_run(&caller, new).await?))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    state: Option<RunState>,
    /// A name or an id.
    agent: Option<String>,
    /// Of agents, of workflows, or of calls that somebody makes by themselves.
    kind: Option<RunKind>,
    /// Of this workflow, by its name.
    workflow: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Runs, newest first: the caller's own, those of agents they manage, or all. A lone call is its own run and not listed.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(RunQuery), responses((status = 200, body = Page<RunSummary>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<RunQuery>,
) -> Result<Json<Page<RunSummary>>, Problem> {
    let limit = page_limit(query.limit)?;
    let agent = match &query.agent {
        None => None,
        Some(name) => Some(named_agent(&app, &caller, name)?),
    };
    let filter = RunFilter { state: query.state, agent, kind: query.kind, workflow: query.workflow };
    Ok(Json(app.engine.list_runs(&caller, filter, query.cursor.as_deref(), limit).await?))
}

/// A run with its steps, the runs under it, and its newest calls.
#[utoipa::path(get, path = "/api/v1/runs/{run}", tag = "runs", params(("run" = String, Path)), responses((status = 200, body = RunView), (status = 404)))]
pub async fn show(State(app): State<App>, By(caller): By, Path(run): Path<String>) -> Result<Json<RunView>, Problem> {
    Ok(Json(app.engine.show_run(&caller, run_id(&run)?).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStep {
    title: String,
}

/// Begins a titled step of a run.
#[utoipa::path(post, path = "/api/v1/runs/{run}/steps", tag = "runs", params(("run" = String, Path)), request_body = NewStep, responses((status = 200, body = Step)))]
pub async fn add_step(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Body(step): Body<NewStep>,
) -> Result<Json<Step>, Problem> {
    Ok(Json(app.engine.add_step(&caller, run_id(&run)?, &step.title).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// `completed`, `failed` or `cancelled`.
    state: RunState,
    #[serde(default)]
    reason: Option<String>,
}

/// Ends a run.
#[utoipa::path(put, path = "/api/v1/runs/{run}/state", tag = "runs", params(("run" = String, Path)), request_body = RunEnd, responses((status = 200, body = Run), (status = 409)))]
pub async fn end(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Body(end): Body<RunEnd>,
) -> Result<Json<Run>, Problem> {
    Ok(Json(app.engine.end_run(&caller, run_id(&run)?, end.state, end.reason.as_deref()).await?))
}

/// Takes a report of a runtime that runs tools itself: `tool_invocation_started`, `_completed` or `_failed`.
#[utoipa::path(post, path = "/api/v1/runs/{run}/tool-events", tag = "runs", params(("run" = String, Path)), request_body = ToolEvent, responses((status = 200, body = Envelope), (status = 202, body = Envelope), (status = 409)))]
pub async fn tool_event(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Body(event): Body<ToolEvent>,
) -> Result<Answered, Problem> {
    Ok(Answered(app.engine.ingest(&caller, run_id(&run)?, event).await?))
}

/// Takes a waiting call of an external tool, or waits for one; 204 where there is none.
#[utoipa::path(post, path = "/api/v1/work/lease", tag = "work", request_body = LeaseRequest, responses((status = 200, body = Leased), (status = 204)))]
pub async fn lease(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<LeaseRequest>,
) -> Result<Response, Problem> {
    Ok(match app.engine.lease(&caller, request).await? {
        Some(leased) => Json(leased).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Says that the worker is alive, and what the tool says meanwhile; the answer tells whether somebody wants the call stopped.
#[utoipa::path(post, path = "/api/v1/work/{lease}/heartbeat", tag = "work", params(("lease" = String, Path)), request_body = Heartbeat, responses((status = 200, body = Kept), (status = 409)))]
pub async fn heartbeat(
    State(app): State<App>,
    By(caller): By,
    Path(lease): Path<String>,
    Body(beat): Body<Heartbeat>,
) -> Result<Json<Kept>, Problem> {
    Ok(Json(app.engine.keep_alive(&caller, lease_id(&lease)?, beat).await?))
}

/// Reports how leased work ended, once.
#[utoipa::path(post, path = "/api/v1/work/{lease}/complete", tag = "work", params(("lease" = String, Path)), request_body = Report, responses((status = 200, body = Envelope), (status = 409)))]
pub async fn complete(
    State(app): State<App>,
    By(caller): By,
    Path(lease): Path<String>,
    Body(report): Body<Report>,
) -> Result<Answered, Problem> {
    Ok(Answered(app.engine.complete(&caller, lease_id(&lease)?, report).await?))
}

pub fn run_id(text: &str) -> Result<RunId, Fault> {
    text.parse().map_err(|_| Fault::not_found("run", text))
}

fn lease_id(text: &str) -> Result<LeaseId, Fault> {
    text.parse().map_err(|_| Fault::conflict(format!("`{text}` is not a lease"), "lease work first"))
}
