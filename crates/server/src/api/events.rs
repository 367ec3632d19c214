//! Events as they are read: page by page, and live as server-sent events.
//!
//! A stream asks for the next page when its reader took the last, so a slow reader holds a cursor and no memory. Who
//! may no longer read is cut off: rights are asked for again while the stream is open. A stream keeps no session from
//! idling out, and says `session_ended` when it did.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolgate_contracts::event::Event;
use toolgate_contracts::{CallId, Caller, Fault, FaultKind, Permission, RunId};
use toolgate_engine::follow::{RunFollower, TenantFollower};
use toolgate_store::events::Position;
use utoipa::{IntoParams, ToSchema};

use super::runs::run_id;
use crate::app::App;
use crate::auth;
use crate::extract::{By, Query};
use crate::problem::Problem;

/// How often rights are asked for again.
const RECHECK_EVERY: Duration = Duration::from_secs(5);
/// How soon a stream without events sees that the server ends, or that it is time to ask.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The last event of a stream whose credential lets nobody in any more.
const SESSION_ENDED: &str = "session_ended";
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// The number of the last event that is known already.
    after: Option<u64>,
}

#[derive(Serialize, ToSchema)]
pub struct EventPage {
    items: Vec<Event>,
    /// For `after`; `null` where there is no more for now.
    next_after: Option<u64>,
}

/// The events of a run from a place on, in order. With `Accept: text/event-stream` they are followed live, and
/// `Last-Event-ID` says from where.
#[utoipa::path(get, path = "/api/v1/runs/{run}/events", tag = "runs", params(("run" = String, Path), EventQuery), responses((status = 200, body = EventPage), (status = 404)))]
pub async fn of_run(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(query): Query<EventQuery>,
    request: Parts,
) -> Result<Response, Problem> {
    let headers = &request.headers;
    let run = run_id(&run)?;
    may_read(&app, &caller, run).await?;
    if !wants_stream(headers) {
        let mut items = app.engine.events(caller.tenant, run, query.after.unwrap_or(0)).await?;
        let next_after = items.iter().filter_map(|event| event.seq).max();
        let beyond = app.engine.beyond_sight(&caller, &items).await?;
        items.retain(|event| event.call_id.is_none_or(|call| !beyond.contains(&call)));
        app.engine.join_streamed(&caller, &items).await?;
        return Ok(Json(EventPage { items, next_after }).into_response());
    }
    let after = match last_event_id(headers)? {
        None => query.after.unwrap_or(0),
        Some(text) => run_place(&text, run).ok_or_else(|| other_stream(&text))?,
    };
    let follower = app.engine.follow_run(caller.tenant, run, after);
    Ok(live(app, request, caller, Followed::Run(run, Box::new(follower))))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TenantEventQuery {}

/// Everything that happens in the tenant, live; for whoever may read all calls.
#[utoipa::path(get, path = "/api/v1/events", tag = "runs", params(TenantEventQuery), responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn of_tenant(
    State(app): State<App>,
    By(caller): By,
    Query(TenantEventQuery {}): Query<TenantEventQuery>,
    request: Parts,
) -> Result<Response, Problem> {
    let headers = &request.headers;
    may_read_all(&caller)?;
    let after = match last_event_id(headers)? {
        None => None,
        Some(text) => Some(tenant_place(&text, &caller).ok_or_else(|| other_stream(&text))?),
    };
    let follower = app.engine.follow_tenant(caller.tenant, after).await?;
    Ok(live(app, request, caller, Followed::Tenant(Box::new(follower))))
}

enum Followed {
    Run(RunId, Box<RunFollower>),
    Tenant(Box<TenantFollower>),
}

impl Followed {
    /// The next page; each event's id says where the stream goes on. Dropped before it is ready, it has given nothing.
    async fn next(&mut self, caller: &Caller) -> Result<Vec<(Option<String>, Event)>, Fault> {
        match self {
            Self::Run(run, follower) => {
                let page = follower.next().await?;
                let id = |event: &Event| event.seq.map(|seq| format!("{run}:{seq}"));
                Ok(page.into_iter().map(|event| (id(&event), event)).collect())
            }
            Self::Tenant(follower) => {
                let page = follower.next().await?;
                let id = |at: &Position| Some(format!("{}:{}", caller.tenant, at.text()));
                Ok(page.into_iter().map(|(at, event)| (id(&at), event)).collect())
            }
        }
    }
}

fn sent(event: &Event, id: Option<String>) -> Sent {
    let data = serde_json::to_string(event).unwrap_or_default();
    let sent = Sent::default().event(event.event_type.as_str()).data(data);
    match id {
        Some(id) => sent.id(id),
        None => sent,
    }
}

struct Streaming {
    app: App,
    request: Parts,
    caller: Caller,
    followed: Followed,
    waiting: VecDeque<Sent>,
    checked: Instant,
    /// The last word was said.
    over: bool,
}

fn live(app: App, request: Parts, caller: Caller, followed: Followed) -> Response {
    let streaming =
        Streaming { app, request, caller, followed, waiting: VecDeque::new(), checked: Instant::now(), over: false };
    let events = stream::unfold(streaming, |mut streaming| async move {
        let event = streaming.next().await?;
        Some((Ok::<_, Infallible>(event), streaming))
    });
    keep_alive(events)
}

fn keep_alive(events: impl Stream<Item = Result<Sent, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY)).into_response()
}

impl Streaming {
    /// `None` ends the stream: rights are gone, the server stops, or the database does not answer.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            // However much there is to give: a busy stream is one that never waits.
            if self.over {
                return None;
            }
            if self.checked.elapsed() >= RECHECK_EVERY {
                self.checked = Instant::now();
                match self.still_may_read().await {
                    Ok(caller) => self.caller = caller,
                    Err(fault) if fault.kind() == FaultKind::Unauthenticated => {
                        self.over = true;
                        return Some(Sent::default().event(SESSION_ENDED).data("{}"));
                    }
                    Err(_) => return None,
                }
            }
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.app.draining.load(std::sync::atomic::Ordering::Relaxed) {
                return None;
            }
            let page = tokio::select! {
                page = self.followed.next(&self.caller) => page,
                () = tokio::time::sleep(LOOK_EVERY) => continue,
            };
            if let Err(fault) = self.take(page).await {
                tracing::debug!("a stream ends: {}", fault.logged().unwrap_or(fault.told()));
                return None;
            }
        }
    }

    async fn take(&mut self, page: Result<Vec<(Option<String>, Event)>, Fault>) -> Result<(), Fault> {
        let mut page = page?;
        let beyond = self.app.engine.beyond_sight(&self.caller, page.iter().map(|(_, event)| event)).await?;
        page.retain(|(_, event)| event.call_id.is_none_or(|call| !beyond.contains(&call)));
        self.app.engine.join_streamed(&self.caller, page.iter().map(|(_, event)| event)).await?;
        self.waiting.extend(page.into_iter().map(|(id, event)| sent(&event, id)));
        Ok(())
    }

    async fn still_may_read(&self) -> Result<Caller, Fault> {
        let caller = auth::again(&self.app, &self.request).await?;
        match &self.followed {
            Followed::Run(run, _) => may_read(&self.app, &caller, *run).await?,
            Followed::Tenant(_) => may_read_all(&caller)?,
        }
        Ok(caller)
    }
}

/// A run with a row, or the run of a lone call.
async fn may_read(app: &App, caller: &Caller, run: RunId) -> Result<(), Fault> {
    if app.engine.readable_run(caller, run).await?.is_some() {
        return Ok(());
    }
    let call = CallId::from_uuid(run.uuid()).to_string();
    let record = app.engine.readable(caller, &call).await.map_err(|_| Fault::not_found("run", run))?;
    if record.in_run { Err(Fault::not_found("run", run)) } else { Ok(()) }
}

fn may_read_all(caller: &Caller) -> Result<(), Fault> {
    if caller.agent.is_some() {
        return Err(Fault::new(
            FaultKind::Forbidden,
            "an agent's key does not follow the whole tenant",
            "follow a run, or use a person's key",
        ));
    }
    caller.require(&Permission::CALLS_READ_ALL)
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(axum::http::header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/event-stream"))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    match headers.get("last-event-id") {
        None => Ok(None),
        Some(value) => match value.to_str() {
            Ok(text) if text.len() <= 200 => Ok(Some(text.to_owned()).filter(|text| !text.is_empty())),
            _ => Err(other_stream("…")),
        },
    }
}

/// The number in an id of this run's stream.
fn run_place(text: &str, run: RunId) -> Option<u64> {
    let (of, seq) = text.split_once(':')?;
    (of.parse::<RunId>().ok()? == run).then(|| seq.parse().ok()).flatten()
}

fn tenant_place(text: &str, caller: &Caller) -> Option<Position> {
    let (of, place) = text.split_once(':')?;
    (of == caller.tenant.to_string()).then(|| Position::parse(place)).flatten()
}

fn other_stream(text: &str) -> Fault {
    let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    Fault::invalid(format!("the Last-Event-ID `{shown}` is not one of this stream"), "leave it out to start anew")
}
