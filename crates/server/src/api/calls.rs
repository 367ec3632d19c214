//! Calls: made, read, listed, cancelled, completed, settled; and the large payloads that belong to them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::json::CALL_BYTES_MAX;
use toolgate_contracts::{
    AgentId, ApprovalStatus, BlobId, CallRequest, Caller, Envelope, ErrorCode, Fault, FaultKind, Page, Permission,
    Principal, RunId, Source, Status, Timestamp,
};
use toolgate_engine::Manner;
use toolgate_engine::control::{Report, Settlement};
use toolgate_engine::preflight::Preflight;
use toolgate_engine::read::CallDetails;
use toolgate_ledger::Receipt;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_registry::toolset::View;
use toolgate_store::calls::{CallFilter, CallSummary};
use utoipa::{IntoParams, ToSchema};

use super::audit::{CallProof, prove_call, receipt_of_call};
use super::paging::page_limit;
use crate::CLIENT_HEADER;
use crate::app::App;
use crate::bypass;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// One call, or several at once.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes the body, which is read as one or the other")]
pub enum Submitted {
    One(Box<CallRequest>),
    Batch(Batch),
}

/// Several calls at once, 1 to 100.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    calls: Vec<CallRequest>,
}

/// One answer of a batch: an envelope, or a problem where there is no call.
#[derive(Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "written out at once")]
enum Answer {
    Envelope(Envelope),
    Problem(Value),
}

/// Through which door a caller came. The word of a client about itself is for the record, never a right.
pub fn source_of(caller: &Caller, headers: &HeaderMap) -> Source {
    let says_cli = headers.get(CLIENT_HEADER).is_some_and(|client| client == "cli");
    match (caller.agent, caller.credential) {
        (Some(_), _) => Source::Agent,
        (None, _) if says_cli => Source::Cli,
        (None, Credential::BrowserSession(_)) => Source::Web,
        (None, Credential::ApiKey(_) | Credential::Token(_) | Credential::DatabaseRole | Credential::LocalFolder) => {
            Source::Api
        }
    }
}

/// An envelope with the status of `contracts.md` §16: 202 while it is open or unknown, else 200.
pub struct Answered(pub Envelope);

impl IntoResponse for Answered {
    fn into_response(self) -> Response {
        let Self(envelope) = self;
        let open = !envelope.status.is_final() || envelope.status == Status::OutcomeUnknown;
        let status = if open { StatusCode::ACCEPTED } else { StatusCode::OK };
        let retry = envelope.error.as_ref().filter(|error| error.code == ErrorCode::RateLimit);
        let retry = retry.and_then(|error| error.retry_after_s).map(HeaderValue::from);
        let mut response = (status, Json(envelope)).into_response();
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

/// Calls a tool, or with `calls` several in parallel.
#[utoipa::path(post, path = "/api/v1/calls", tag = "calls", request_body = Submitted, responses((status = 200, body = Envelope, description = "The envelope; for a batch `{\"calls\": [envelope or problem, …]}` in the order asked"), (status = 202, body = Envelope), (status = 409)))]
pub async fn submit(
    State(app): State<App>,
    By(caller): By,
    headers: HeaderMap,
    Body(mut body): Body<Value>,
) -> Result<Response, Problem> {
    let source = source_of(&caller, &headers);
    check_size(&body, &headers)?;
    let manner = bypass::wanted(&app, &caller, &headers, &mut body).await?;
    if body.get("calls").is_none() {
        let request = toolgate_contracts::json::decode(body).map_err(Fault::from)?;
        let envelope = app.engine.submit_with(&caller, source, request, manner).await?;
        return Ok(Answered(envelope).into_response());
    }
    if manner == Manner::Unasked {
        return Err(Fault::invalid("`bypass_approval` with a batch", "send the calls one by one").into());
    }
    let Batch { calls } = toolgate_contracts::json::decode(body).map_err(Fault::from)?;
    let answers = app.engine.submit_all(&caller, source, calls).await?;
    let answers: Vec<Answer> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(envelope) => Answer::Envelope(envelope),
            Err(fault) => Answer::Problem(fault.problem()),
        })
        .collect();
    Ok(Json(json!({"calls": answers})).into_response())
}

/// A body may be as large as a definition's; one call may not.
fn check_size(body: &Value, headers: &HeaderMap) -> Result<(), Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length <= CALL_BYTES_MAX) {
        return Ok(());
    }
    let alone = std::slice::from_ref(body);
    let calls = body.get("calls").and_then(Value::as_array).map_or(alone, Vec::as_slice);
    let largest = calls.iter().map(|call| call.to_string().len()).max().unwrap_or(0);
    if largest <= CALL_BYTES_MAX {
        return Ok(());
    }
    let told = format!("a call of {largest} bytes");
    Err(Fault::new(FaultKind::TooLarge, told, format!("keep each call under {CALL_BYTES_MAX} bytes")))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CallQuery {
    pub status: Option<Status>,
    /// A name, an old name, or an id.
    pub tool: Option<String>,
    /// A name or an id.
    pub agent: Option<String>,
    /// A run: with those under it, if it is a root.
    pub run: Option<RunId>,
    pub source: Option<Source>,
    /// Whether somebody was asked, and what they said.
    pub approval: Option<ApprovalStatus>,
    /// Why it failed.
    pub error: Option<ErrorCode>,
    /// Who asked for it, such as `user:ID`.
    pub principal: Option<String>,
    /// RFC 3339, or a day.
    pub since: Option<String>,
    pub until: Option<String>,
    /// `KEY=VALUE` of `metadata`.
    pub meta: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// Calls, newest first: the caller's own, those of agents they manage, or all.
#[utoipa::path(get, path = "/api/v1/calls", tag = "calls", params(CallQuery), responses((status = 200, body = Page<CallSummary>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<CallQuery>,
) -> Result<Json<Page<CallSummary>>, Problem> {
    let limit = page_limit(query.limit)?;
    let filter = filter_of(&app, &caller, &query).await?;
    Ok(Json(app.engine.list_calls(&caller, &filter, query.cursor.as_deref(), limit).await?))
}

pub async fn filter_of(app: &App, caller: &Caller, query: &CallQuery) -> Result<CallFilter, Fault> {
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let tool = match &query.tool {
        None => None,
        Some(text) => {
            // What the caller does not have looks like what is not there; who sees all calls sees their tools.
            let view = View::of(registry, caller, &today)?;
            let all = caller.agent.is_none() && caller.may(&Permission::CALLS_READ_ALL);
            let known = |tool: &ResolvedTool| all || view.sees(tool);
            let by_id = text.parse().ok().and_then(|id| registry.tool_by_id(id));
            let by_id = by_id.and_then(|tool| Some(tool.at(tool.tool.current()?, None)));
            let by_id = by_id.filter(known).map(|tool| tool.tool.id);
            let by_name = || {
                let reference = text.parse().ok()?;
                registry.resolve(&reference, &today).filter(known).map(|tool| tool.tool.id)
            };
            Some(by_id.or_else(by_name).ok_or_else(|| Fault::not_found("tool", text).at("/tool"))?)
        }
    };
    let agent = match &query.agent {
        None => None,
        Some(name) => Some(named_agent(app, caller, name)?),
    };
    let metadata = match query.meta.as_deref().map(|text| text.split_once('=')) {
        None => None,
        Some(Some((key, _))) if key.contains('"') => {
            return Err(Fault::invalid("`meta` names a member with a quote", "look for another member").at("/meta"));
        }
        Some(Some((key, value))) if !key.is_empty() => Some((key.to_owned(), value.to_owned())),
        Some(_) => {
            return Err(Fault::invalid("`meta` is not KEY=VALUE", "write for example `meta=pr_id=42`").at("/meta"));
        }
    };
    let (root_run, run) = match query.run {
        None => (None, None),
        Some(id) => match app.engine.readable_run(caller, id).await? {
            Some(run) if run.root_run_id == run.id => (Some(id), None),
            Some(_) => (None, Some(id)),
            None => return Err(Fault::not_found("run", id).at("/run")),
        },
    };
    Ok(CallFilter {
        status: query.status,
        tool,
        agent,
        root_run,
        run,
        source: query.source,
        since: moment(query.since.as_deref(), "/since")?,
        until: moment(query.until.as_deref(), "/until")?,
        metadata,
        pending_approval: false,
        approval: query.approval,
        error: query.error,
        principal: query.principal.as_deref().map(principal).transpose()?,
    })
}

/// An agent by name or id, for a filter.
pub fn named_agent(app: &App, caller: &Caller, name: &str) -> Result<AgentId, Fault> {
    let snapshot = app.registry.snapshot();
    let found = snapshot.tenant(caller.tenant)?.agent(name).map(|agent| agent.id);
    found.ok_or_else(|| Fault::not_found("agent", name).at("/agent"))
}

fn principal(text: &str) -> Result<Principal, Fault> {
    text.parse().map_err(|_| {
        Fault::invalid(format!("`{text}` is nobody"), "write it as calls name it, for example `user:ID`")
            .at("/principal")
    })
}

/// A moment, or the beginning of a day.
pub fn moment(text: Option<&str>, at: &str) -> Result<Option<Timestamp>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    whole.parse().map(Some).map_err(|_| {
        Fault::invalid(format!("`{text}` is not a time"), "write for example 2026-11-15 or 2026-11-15T12:00:00Z").at(at)
    })
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Whole seconds to wait for the call's end, 0 to 60.
    wait: Option<u64>,
}

/// A call: by its id, or by the id it has in its run.
#[utoipa::path(get, path = "/api/v1/calls/{call}", tag = "calls", params(("call" = String, Path), WaitQuery), responses((status = 200, body = CallDetails), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<CallDetails>, Problem> {
    let mut record = app.engine.readable(&caller, &id).await?;
    if let Some(wait) = query.wait {
        if wait > WAIT_S_MAX {
            return Err(Fault::invalid(format!("`wait` is {wait}"), "wait 0 to 60 whole seconds").at("/wait").into());
        }
        app.engine.when_ended(caller.tenant, record.id, Instant::now() + Duration::from_secs(wait)).await?;
        record = app.engine.readable(&caller, &record.id.to_string()).await?;
    }
    Ok(Json(app.engine.details(caller.tenant, record).await?))
}

/// Asks a call to stop.
#[utoipa::path(post, path = "/api/v1/calls/{call}/cancel", tag = "calls", params(("call" = String, Path)), responses((status = 200, body = Envelope), (status = 202, body = Envelope), (status = 409)))]
pub async fn cancel(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Answered, Problem> {
    Ok(Answered(app.engine.cancel(&caller, &id).await?))
}

/// Reports how a call in `record` mode ended: once, by whoever submitted it.
#[utoipa::path(post, path = "/api/v1/calls/{call}/complete", tag = "calls", params(("call" = String, Path)), request_body = Report, responses((status = 200, body = Envelope), (status = 409)))]
pub async fn complete(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Body(report): Body<Report>,
) -> Result<Answered, Problem> {
    Ok(Answered(app.engine.complete_recorded(&caller, &id, report).await?))
}

/// Says how a call ended of which nobody knew.
#[utoipa::path(post, path = "/api/v1/calls/{call}/settle", tag = "calls", params(("call" = String, Path)), request_body = Settlement, responses((status = 200, body = Envelope), (status = 409)))]
pub async fn settle(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
    Body(settlement): Body<Settlement>,
) -> Result<Answered, Problem> {
    Ok(Answered(app.engine.settle(&caller, &id, settlement).await?))
}

/// That the call is in the log, and where.
#[utoipa::path(get, path = "/api/v1/calls/{call}/receipt", tag = "calls", params(("call" = String, Path)), responses((status = 200, body = Receipt), (status = 404)))]
pub async fn receipt(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<Receipt>, Problem> {
    let record = app.engine.readable(&caller, &id).await?;
    Ok(Json(receipt_of_call(&app, caller.tenant, record.id).await?))
}

/// The proof that the call's entry is in the log, to be checked without this server.
#[utoipa::path(get, path = "/api/v1/calls/{call}/proof", tag = "calls", params(("call" = String, Path)), responses((status = 200, body = CallProof), (status = 404)))]
pub async fn proof(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<CallProof>, Problem> {
    let record = app.engine.readable(&caller, &id).await?;
    Ok(Json(prove_call(&app, caller.tenant, record.id).await?))
}

/// A large payload, for whoever may read its call, as long as it is kept.
#[utoipa::path(get, path = "/api/v1/blobs/{blob}", tag = "calls", params(("blob" = String, Path)), responses((status = 200, body = Vec<u8>), (status = 404)))]
pub async fn blob(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Response, Problem> {
    let id: BlobId = id.parse().map_err(|_| Fault::not_found("blob", &id))?;
    let attached = app.engine.attached(&caller, id).await?;
    let kind = HeaderValue::from_str(&attached.content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    // Whatever a tool made: it is kept as a file, and runs nowhere.
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, attached.bytes).into_response())
}

/// Whether a tool could be called now, without calling it.
#[utoipa::path(get, path = "/api/v1/tools/{tool}/preflight", tag = "tools", params(("tool" = String, Path)), responses((status = 200, body = Preflight)))]
pub async fn preflight(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<Preflight>, Problem> {
    Ok(Json(app.engine.preflight(&caller, &name).await?))
}
