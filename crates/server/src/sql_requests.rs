//! Requests that came by SQL (seed 000's four functions): each is done by the one path, as whom its role stands for.
//!
//! The functions only write a row. Here the rows are read in the order of asking, by one replica at a time, and each is
//! told what became of it. Cut off in between, a request is done again: a call is then found by its `request_id`, and what
//! was completed or decided already says so.

use std::sync::Weak;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_contracts::approval::Vote;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    AgentId, Amount, CallId, CallRequest, Caller, ErrorCode, Fault, FaultKind, Mode, Principal, RunId, Source, Status,
    StepId, ToolError, ToolId, json as strict,
};
use toolgate_engine::approvals::Choice;
use toolgate_engine::control::Report;
use toolgate_store::sql_requests::{RequestKind, SqlOutcome, SqlRequest};
use toolgate_store::{Change, Kind};

use crate::app::{App, Inner};

const LOOK_EVERY: Duration = Duration::from_millis(300);
const AT_ONCE: u32 = 100;
const LEASE: &str = "sql-requests";
const LEASE_TTL: Duration = Duration::from_secs(30);

/// Looks for requests for as long as the application is there. SQLite has no functions to ask by.
pub fn keep_answering(app: &App) {
    if app.store.kind() != Kind::Postgres {
        return;
    }
    let holder = app.new_holder();
    tokio::spawn(answering(app.weak(), holder));
}

async fn answering(app: Weak<Inner>, holder: String) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(app) = App::of(&app) else { return };
        if let Err(fault) = round(&app, &holder).await {
            tracing::debug!("requests by SQL wait: {}", fault.logged().unwrap_or(fault.told()));
        }
    }
}

async fn round(app: &App, holder: &str) -> Result<(), Fault> {
    let waiting = app.store.waiting_sql_requests(AT_ONCE).await?;
    if waiting.is_empty() || !app.store.take_lease(LEASE, holder, app.clock.now(), LEASE_TTL).await? {
        return Ok(());
    }
    for request in waiting {
        let outcome = match answer(app, &request).await {
            // Later, in the same order.
            Err(fault) if fault.kind() == FaultKind::Unavailable => return Err(fault),
            Err(fault) => {
                if let Some(logged) = fault.logged() {
                    tracing::warn!(request = %request.id, "{logged}");
                }
                SqlOutcome::Refused(told(&fault))
            }
            Ok(call) => SqlOutcome::Done(call),
        };
        let mut change = Change::new(request.tenant);
        change.finish_sql_request(request.id, &outcome, app.clock.now());
        app.store.commit(change).await?;
    }
    Ok(())
}

fn told(fault: &Fault) -> String {
    format!("{}: {}; {}", crate::compat::code_word(fault.kind().code()), fault.told(), fault.remedy())
}

/// The call, where the request made one.
async fn answer(app: &App, request: &SqlRequest) -> Result<Option<CallId>, Fault> {
    let caller = caller_of(app, request).await?;
    // What PostgreSQL takes for JSON is more than a call may hold: numbers beyond all bounds among it.
    let args = &strict::read(request.args.as_bytes(), strict::CALL_BYTES_MAX)?;
    match request.kind {
        RequestKind::Invoke => invoke(app, &caller, request, args).await.map(Some),
        RequestKind::Complete => {
            let call = named(app, request, args).await?;
            app.engine.complete_recorded(&caller, &call, report_of(args)?).await?;
            Ok(None)
        }
        RequestKind::Approve | RequestKind::Reject => {
            let call = named(app, request, args).await?;
            let decision = if request.kind == RequestKind::Approve { Vote::Approve } else { Vote::Reject };
            let reason = args["reason"].as_str().map(str::to_owned);
            let choice = Choice { decision, reason, input: None, input_digest: None, round: None, standing: None };
            Box::pin(app.engine.decide(&caller, &call, choice, Duration::ZERO)).await?;
            Ok(None)
        }
    }
}

/// Whom the role stands for, with the rights they have now.
async fn caller_of(app: &App, request: &SqlRequest) -> Result<Caller, Fault> {
    let gone = || {
        let told = format!("the database role `{}` no longer stands for whom it did", request.role);
        Fault::new(FaultKind::Forbidden, told, "map it anew with `toolgate db map-role ROLE USER`")
    };
    if !app.store.is_mapped(request.tenant, &request.role, request.user).await? {
        return Err(gone());
    }
    let holder = app.store.user_holder(request.tenant, request.user).await?.ok_or_else(gone)?;
    Ok(Caller {
        tenant: holder.tenant,
        tenant_slug: holder.tenant_slug,
        principal: Principal::User(holder.user),
        display_name: holder.user_name,
        permissions: holder.permissions,
        roles: holder.roles.into(),
        agent: None,
        token: None,
        credential: Credential::DatabaseRole,
    })
}

async fn invoke(app: &App, caller: &Caller, request: &SqlRequest, args: &Value) -> Result<CallId, Fault> {
    let tool: Option<ToolId> = id_of(args, "tool_id");
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let name = tool.and_then(|id| registry.tool_by_id(id)).map(|tool| tool.tool.name.to_string());
    let name = name.ok_or_else(|| Fault::not_found("tool", args["tool_id"].as_str().unwrap_or_default()))?;
    let agent: Option<AgentId> = id_of(args, "ai_lenser_id");
    let input = if args["input"].is_null() { json!({}) } else { args["input"].clone() };
    let call = CallRequest {
        request_id: Some(format!("sql:{}", request.id)),
        run_id: id_of::<RunId>(args, "team_run_id"),
        step_id: id_of::<StepId>(args, "agent_run_step_id"),
        agent_id: agent.map(|agent| agent.to_string()),
        mode: Mode::Record,
        wait: Some(0),
        ..CallRequest::new(name, input)
    };
    let source = if agent.is_some() { Source::Agent } else { Source::Api };
    Ok(app.engine.submit(caller, source, call).await?.id)
}

fn id_of<T: std::str::FromStr>(args: &Value, member: &str) -> Option<T> {
    args[member].as_str().and_then(|text| text.parse().ok())
}

/// By the id that the function returned, or by the call's own.
async fn named(app: &App, request: &SqlRequest, args: &Value) -> Result<String, Fault> {
    let id: uuid::Uuid =
        id_of(args, "invocation_id").ok_or_else(|| Fault::invalid("no invocation is named", "name one"))?;
    let known = app.store.call_of_sql_request(request.tenant, id).await?;
    Ok(known.map_or_else(|| id.to_string(), |call| call.to_string()))
}

fn report_of(args: &Value) -> Result<Report, Fault> {
    let status = match args["status"].as_str() {
        Some("completed") => Status::Completed,
        Some("failed") => Status::Failed,
        other => {
            let told = format!("`p_status` is `{}`", other.unwrap_or("NULL"));
            return Err(Fault::invalid(told, "a call ends `completed` or `failed`"));
        }
    };
    let cost: Option<Amount> = match args["cost"].as_str() {
        None => None,
        Some(text) => Some(text.parse().map_err(|why: String| Fault::invalid(why, "give an amount such as 0.05"))?),
    };
    let error = (status == Status::Failed).then(|| {
        let words = args["error"].as_str().unwrap_or("the runtime reported a failure without words");
        ToolError::because(ErrorCode::ProviderError, "upstream_4xx", words)
    });
    let output = (status == Status::Completed).then(|| args["output"].clone()).filter(|output| !output.is_null());
    Ok(Report { status, output, result: None, error, cost })
}
