//! Runs of agents that are hosted here: begun, read with what they gave, taken up again.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_agents::{AgentRunView, NewAgentRun, TurnView};
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::{Fault, Page};
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_limit};
use super::runs::run_id;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

#[derive(Deserialize, Default, IntoParams, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Patience {
    /// Whole seconds, 0 to 60, to wait until it has ended or waits for a person.
    wait: u64,
}

/// Begins a run of an agent. It goes on by itself, whether somebody waits or not.
#[utoipa::path(post, path = "/api/v1/agents/{agent}/runs", tag = "agents", params(("agent" = String, Path), Patience), request_body = NewAgentRun, responses((status = 200, body = AgentRunView), (status = 202, body = AgentRunView), (status = 404), (status = 409)))]
pub async fn start(
    State(app): State<App>,
    By(caller): By,
    Path(agent): Path<String>,
    Query(patience): Query<Patience>,
    Body(new): Body<NewAgentRun>,
) -> Result<Response, Problem> {
    let wait = seconds(patience)?;
    let run = app.host.start(&caller, &agent, new).await?;
    Ok(answer(app.host.when_left(&caller, run, wait).await?))
}

/// A run of an agent: how it stands, what its model was used for, and what it gave.
#[utoipa::path(get, path = "/api/v1/runs/{run}/outputs", tag = "agents", params(("run" = String, Path), Patience), responses((status = 200, body = AgentRunView), (status = 202, body = AgentRunView), (status = 404)))]
pub async fn outputs(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(patience): Query<Patience>,
) -> Result<Response, Problem> {
    let wait = seconds(patience)?;
    Ok(answer(app.host.when_left(&caller, run_id(&run)?, wait).await?))
}

/// What was asked of the model of a run and what it answered, oldest first, with the calls that each answer led to.
#[utoipa::path(get, path = "/api/v1/runs/{run}/turns", tag = "agents", params(("run" = String, Path), PageQuery), responses((status = 200, body = Page<TurnView>), (status = 404)))]
pub async fn turns(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(PageQuery { cursor, limit }): Query<PageQuery>,
) -> Result<Json<Page<TurnView>>, Problem> {
    let limit = page_limit(limit)?;
    Ok(Json(app.host.turns(&caller, run_id(&run)?, cursor.as_deref(), limit).await?))
}

/// Takes up a run of an agent that nobody is at, at once.
#[utoipa::path(post, path = "/api/v1/runs/{run}/resume", tag = "agents", params(("run" = String, Path), Patience), responses((status = 200, body = AgentRunView), (status = 202, body = AgentRunView), (status = 404), (status = 409)))]
pub async fn resume(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(patience): Query<Patience>,
) -> Result<Response, Problem> {
    let (run, wait) = (run_id(&run)?, seconds(patience)?);
    app.host.resume(&caller, run).await?;
    Ok(answer(app.host.when_left(&caller, run, wait).await?))
}

fn seconds(Patience { wait }: Patience) -> Result<std::time::Duration, Fault> {
    if wait > WAIT_S_MAX {
        let told = format!("`wait` is {wait}");
        return Err(Fault::invalid(told, format!("wait 0 to {WAIT_S_MAX} whole seconds")).at("/wait"));
    }
    Ok(std::time::Duration::from_secs(wait))
}

fn answer(view: AgentRunView) -> Response {
    let status = if view.run.state.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, Json(view)).into_response()
}
