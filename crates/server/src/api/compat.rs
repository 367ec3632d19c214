//! The specifications' lists and functions over REST: `tool_invocations` and its view, `ToolRun`, `executeTool`,
//! `CapabilityEntry`, and the audit events of the invocation protocol. Shapes are made in [`crate::compat`].

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::{
    CallId, CallRequest, Caller, Fault, Page, Permission, RunId, Source, Status, TenantId, Timestamp,
};
use toolgate_policy::audit_event::{event_key, sign_event};
use toolgate_store::calls::{CallFilter, CallRecord};
use toolgate_store::cursor::ListOf;
use toolgate_vault::{Key, Purpose};
use utoipa::{IntoParams, ToSchema};

use super::calls::{CallQuery, filter_of, moment, source_of};
use super::paging::{NoQuery, page_limit};
use super::search::{SearchQuery, found};
use crate::app::App;
use crate::compat::capability::CapabilityEntry;
use crate::compat::execution::{ExecuteRequest, Execution};
use crate::compat::invocation::{Invocation, InvocationStatus, JoinedInvocation};
use crate::compat::tool_layer::{AuditEvent, SignedAuditEvent};
use crate::compat::tool_run::{ToolRun, ToolRunSource};
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct InvocationQuery {
    /// One of the six.
    status: Option<InvocationStatus>,
    /// A name or an id.
    agent: Option<String>,
    /// A run: with those under it, if it is a root.
    team_run: Option<RunId>,
    /// A name, an old name, or an id.
    tool: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
    #[serde(skip_serializing)]
    limit: Option<u32>,
}

/// Seed 000's `tool_invocations`, newest first: seventeen columns.
#[utoipa::path(get, path = "/api/v1/compat/tool_invocations", tag = "compat", params(InvocationQuery), responses((status = 200, body = Page<Invocation>)))]
pub async fn tool_invocations(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<InvocationQuery>,
) -> Result<Json<Page<Invocation>>, Problem> {
    let page = invocations(&app, &caller, &query, "tool_invocations").await?;
    Ok(Json(page.map(|record| Invocation::of(&record))))
}

/// Seed 000's view `tool_invocations_v`, newest first: the seventeen columns and four joined ones.
#[utoipa::path(get, path = "/api/v1/compat/tool_invocations_v", tag = "compat", params(InvocationQuery), responses((status = 200, body = Page<JoinedInvocation>)))]
pub async fn tool_invocations_v(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<InvocationQuery>,
) -> Result<Json<Page<JoinedInvocation>>, Problem> {
    let page = invocations(&app, &caller, &query, "tool_invocations_v").await?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    Ok(Json(page.map(|record| {
        let newest = registry.tool_by_id(record.tool).and_then(|tool| tool.tool.newest().cloned());
        let title = newest.map(|version| version.definition.effective_title().to_owned());
        Invocation::joined(&record, title.as_deref().unwrap_or(&record.tool_name))
    })))
}

async fn invocations(
    app: &App,
    caller: &Caller,
    query: &InvocationQuery,
    list: &str,
) -> Result<Page<CallRecord>, Fault> {
    let asked =
        CallQuery { tool: query.tool.clone(), agent: query.agent.clone(), run: query.team_run, ..CallQuery::default() };
    let filter = filter_of(app, caller, &asked).await?;
    let statuses = query.status.map(InvocationStatus::ours).unwrap_or_default();
    let described = serde_json::to_string(query).unwrap_or_default();
    let list = ListOf { tenant: caller.tenant, list, filter: &described };
    records(app, caller, (&filter, &statuses), &list, query.cursor.as_deref(), query.limit).await
}

/// One page of calls, whole.
async fn records(
    app: &App,
    caller: &Caller,
    (filter, statuses): (&CallFilter, &[Status]),
    list: &ListOf<'_>,
    cursor: Option<&str>,
    limit: Option<u32>,
) -> Result<Page<CallRecord>, Fault> {
    let limit = page_limit(limit)?;
    let before = cursor.map(|cursor| list.key(cursor)).transpose()?.and_then(|key| key.parse::<CallId>().ok());
    let mut items = app.engine.list_records(caller, filter, statuses, before, limit + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
    Ok(Page { items, next_cursor })
}

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ToolRunQuery {
    /// A name, an old name, or an id.
    tool: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
    #[serde(skip_serializing)]
    limit: Option<u32>,
}

/// Seed 001's `ToolRun`, newest first: calls that ended.
#[utoipa::path(get, path = "/api/v1/compat/tool-runs", tag = "compat", params(ToolRunQuery), responses((status = 200, body = Page<ToolRun>)))]
pub async fn tool_runs(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<ToolRunQuery>,
) -> Result<Json<Page<ToolRun>>, Problem> {
    let asked = CallQuery { tool: query.tool.clone(), ..CallQuery::default() };
    let filter = filter_of(&app, &caller, &asked).await?;
    let described = serde_json::to_string(&query).unwrap_or_default();
    let list = ListOf { tenant: caller.tenant, list: "tool-runs", filter: &described };
    let ended = [Status::Completed, Status::Failed, Status::Rejected, Status::Cancelled];
    let page = records(&app, &caller, (&filter, &ended), &list, query.cursor.as_deref(), query.limit).await?;
    let Page { items, next_cursor } = page;
    let items = items.iter().filter_map(|record| ToolRun::of(caller.tenant, record)).collect();
    Ok(Json(Page { items, next_cursor }))
}

/// Seed 001's `executeTool(slug, input, source, options)`: calls a tool by the one path.
#[utoipa::path(post, path = "/api/v1/compat/execute", tag = "compat", request_body = ExecuteRequest, responses((status = 200, body = Execution)))]
pub async fn execute(
    State(app): State<App>,
    By(caller): By,
    headers: HeaderMap,
    Body(request): Body<ExecuteRequest>,
) -> Result<Json<Execution>, Problem> {
    let ExecuteRequest { slug, input, source, options } = request;
    let shown = source_of(&caller, &headers);
    let source = if source == Some(ToolRunSource::Agent) { Source::Agent } else { shown };
    let call =
        CallRequest { metadata: options, wait: Some(WAIT_S_MAX), ..CallRequest::new(slug, Value::Object(input)) };
    Ok(Json(Execution::of(&app.engine.submit(&caller, source, call).await?)))
}

/// Seed 004's `registry.search(words)`: capabilities in four members.
#[utoipa::path(get, path = "/api/v1/compat/capabilities", tag = "compat", params(SearchQuery), responses((status = 200, body = Page<CapabilityEntry>)))]
pub async fn capabilities(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<SearchQuery>,
) -> Result<Json<Page<CapabilityEntry>>, Problem> {
    let found = found(&app, &caller, &query)?;
    let entry = |found: super::search::Capability| CapabilityEntry {
        name: found.name,
        description: found.description,
        kind: found.kind,
        tags: found.tags,
    };
    Ok(Json(Page::whole(found.into_iter().map(entry).collect())))
}

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// RFC 3339, or a day.
    since: Option<String>,
    until: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
    #[serde(skip_serializing)]
    limit: Option<u32>,
}

/// Seed 002's audit events of the tenant's calls, newest first, each signed by the tenant's event key.
#[utoipa::path(get, path = "/api/v1/compat/audit-events", tag = "compat", params(EventQuery), responses((status = 200, body = Page<SignedAuditEvent>)))]
pub async fn audit_events(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<EventQuery>,
) -> Result<Json<Page<Value>>, Problem> {
    // They hold what calls were given.
    caller.require(&Permission::AUDIT_READ)?;
    caller.require(&Permission::CALLS_READ_ALL)?;
    let filter = CallFilter {
        since: moment(query.since.as_deref(), "/since")?,
        until: moment(query.until.as_deref(), "/until")?,
        ..CallFilter::default()
    };
    let described = serde_json::to_string(&query).unwrap_or_default();
    let list = ListOf { tenant: caller.tenant, list: "audit-events", filter: &described };
    let page = records(&app, &caller, (&filter, &[]), &list, query.cursor.as_deref(), query.limit).await?;
    // Made when first asked for.
    app.keyring.key(Purpose::AuditEvent, Some(caller.tenant)).await?;
    let keys = SigningKeys::of(app.keyring.all(Purpose::AuditEvent, Some(caller.tenant)).await?, caller.tenant)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    Ok(Json(page.map(|record| {
        let tool = registry.tool_by_id(record.tool);
        let version = tool.as_ref().and_then(|tool| {
            tool.tool.versions.iter().find(|version| version.version.to_string() == record.tool_version)
        });
        let schema = version.map(|version| &version.definition.input_schema);
        let event = AuditEvent::of(&record, schema);
        let mut signed = event.unsigned();
        if let Some(key) = keys.at(event.timestamp) {
            sign_event(&mut signed, key);
        }
        Value::Object(signed)
    })))
}

/// The tenant's keys for events, newest first. An event has no member for a key's id, so its own time says which one signs
/// it: the key of that time, however often keys were rotated since. What was given out once is given out the same again.
struct SigningKeys(Vec<(i64, zeroize::Zeroizing<[u8; 32]>)>);

impl SigningKeys {
    fn of(keys: Vec<Arc<Key>>, tenant: TenantId) -> Result<Self, Fault> {
        let derived = |key: Arc<Key>| Ok((key.created_at().millis(), event_key(key.seed(), tenant)?));
        let mut keys = keys.into_iter().map(derived).collect::<Result<Vec<_>, Fault>>()?;
        keys.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
        Ok(Self(keys))
    }

    /// Of what is older than the first key, the first key.
    fn at(&self, millis: i64) -> Option<&[u8; 32]> {
        let of_then = self.0.iter().find(|(since, _)| *since <= millis);
        of_then.or(self.0.last()).map(|(_, key)| &**key)
    }
}

/// The keys that make the signatures of audit events. Whoever holds one can check them, and make them. They rotate as
/// all keys of the server do.
#[derive(Serialize, ToSchema)]
pub struct EventKeys {
    /// The one that signs now first, then those before it.
    keys: Vec<EventKey>,
}

#[derive(Serialize, ToSchema)]
pub struct EventKey {
    kid: String,
    /// It signs events from then on, until the next one does. The first one also signs what is older.
    since: Timestamp,
    /// Base64 of 32 bytes.
    key: String,
}

/// The tenant's keys for audit events, to check them without this server.
#[utoipa::path(get, path = "/api/v1/compat/audit-event-key", tag = "compat", responses((status = 200, body = EventKeys)))]
pub async fn audit_event_key(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<EventKeys>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    caller.require(&Permission::KEYS_ALL)?;
    // Made when first asked for.
    app.keyring.key(Purpose::AuditEvent, Some(caller.tenant)).await?;
    Ok(Json(event_keys(&app, &caller).await?))
}

async fn event_keys(app: &App, caller: &Caller) -> Result<EventKeys, Fault> {
    let mut keys = app.keyring.all(Purpose::AuditEvent, Some(caller.tenant)).await?;
    keys.sort_by_key(|key| std::cmp::Reverse(key.created_at()));
    let shown = |key: &Arc<Key>| {
        let derived = event_key(key.seed(), caller.tenant)?;
        Ok(EventKey { kid: key.kid().to_owned(), since: key.created_at(), key: BASE64.encode(&*derived) })
    };
    Ok(EventKeys { keys: keys.iter().map(shown).collect::<Result<_, Fault>>()? })
}
