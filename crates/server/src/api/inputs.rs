//! Questions to people: asked by a run, listed, waited for, answered, taken back.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Duration, Instant};
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::{Caller, Fault, InputRequest, InputRequestId, InputRequestState, NewQuestion, Page, RunId};
use utoipa::{IntoParams, ToSchema};

use super::paging::page_limit;
use super::runs::run_id;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// A question with the names of those who asked and answered.
#[derive(Serialize, ToSchema)]
pub struct Question {
    #[serde(flatten)]
    request: InputRequest,
    asked_by_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by_name: Option<String>,
}

async fn named(app: &App, caller: &Caller, questions: Vec<InputRequest>) -> Result<Vec<Question>, Fault> {
    let people: Vec<String> = questions
        .iter()
        .flat_map(|one| [Some(one.asked_by), one.answered_by])
        .flatten()
        .map(|who| who.to_string())
        .collect();
    let names = app.engine.names(caller.tenant, people.iter().map(String::as_str)).await?;
    let view = |request: InputRequest| Question {
        asked_by_name: names.of_principal(request.asked_by),
        answered_by_name: request.answered_by.and_then(|by| names.of_principal(by)),
        request,
    };
    Ok(questions.into_iter().map(view).collect())
}

async fn one(app: &App, caller: &Caller, question: InputRequest) -> Result<Json<Question>, Problem> {
    let unknown = Fault::not_found("question", question.id);
    Ok(Json(named(app, caller, vec![question]).await?.pop().ok_or(unknown)?))
}

/// Asks people on behalf of a run, which waits until they have answered.
#[utoipa::path(post, path = "/api/v1/runs/{run}/inputs", tag = "inputs", params(("run" = String, Path)), request_body = NewQuestion, responses((status = 200, body = Question), (status = 404), (status = 409), (status = 429)))]
pub async fn ask(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Body(question): Body<NewQuestion>,
) -> Result<Json<Question>, Problem> {
    let question = app.engine.ask(&caller, run_id(&run)?, question).await?;
    one(&app, &caller, question).await
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct InputQuery {
    state: Option<InputRequestState>,
    /// Of this run.
    run: Option<RunId>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Questions of the caller's own runs, of agents they manage, or all: newest first, the open ones oldest first.
#[utoipa::path(get, path = "/api/v1/inputs", tag = "inputs", params(InputQuery), responses((status = 200, body = Page<Question>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<InputQuery>,
) -> Result<Json<Page<Question>>, Problem> {
    let InputQuery { state, run, cursor, limit } = query;
    let limit = page_limit(limit)?;
    let page = app.engine.list_questions(&caller, state, run, cursor.as_deref(), limit).await?;
    Ok(Json(Page { items: named(&app, &caller, page.items).await?, next_cursor: page.next_cursor }))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AnswerWait {
    /// Whole seconds to wait for the answer, 0 to 60.
    wait: Option<u64>,
}

/// A question, with its answer once there is one.
#[utoipa::path(get, path = "/api/v1/inputs/{input}", tag = "inputs", params(("input" = String, Path), AnswerWait), responses((status = 200, body = Question), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Query(query): Query<AnswerWait>,
) -> Result<Json<Question>, Problem> {
    let id = input_id(&id)?;
    let wait = query.wait.unwrap_or(0);
    if wait > WAIT_S_MAX {
        return Err(Fault::invalid(format!("`wait` is {wait}"), "wait 0 to 60 whole seconds").at("/wait").into());
    }
    let question = app.engine.when_answered(&caller, id, Instant::now() + Duration::from_secs(wait)).await?;
    one(&app, &caller, question).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAnswer {
    /// What the question's schema accepts.
    #[schema(value_type = Object)]
    answer: Value,
}

/// Answers a question, once. The same answer again is the same result.
#[utoipa::path(post, path = "/api/v1/inputs/{input}/answer", tag = "inputs", params(("input" = String, Path)), request_body = NewAnswer, responses((status = 200, body = Question), (status = 403), (status = 404), (status = 409)))]
pub async fn answer(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Body(NewAnswer { answer }): Body<NewAnswer>,
) -> Result<Json<Question>, Problem> {
    let question = app.engine.answer_question(&caller, input_id(&id)?, answer).await?;
    one(&app, &caller, question).await
}

/// Takes a question back.
#[utoipa::path(post, path = "/api/v1/inputs/{input}/cancel", tag = "inputs", params(("input" = String, Path)), responses((status = 200, body = Question), (status = 404), (status = 409)))]
pub async fn cancel(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<Question>, Problem> {
    let question = app.engine.cancel_question(&caller, input_id(&id)?).await?;
    one(&app, &caller, question).await
}

fn input_id(text: &str) -> Result<InputRequestId, Fault> {
    text.parse().map_err(|_| Fault::not_found("question", text))
}
