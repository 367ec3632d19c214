//! `/mcp`: the protocol of agents' tools over HTTP, one endpoint for all revisions. What a request means is decided on
//! its body; the headers have to say the same.
//!
//! An answer is JSON where there is nothing to say before it, and a stream of events from the first word on that comes
//! earlier. Deliberately absent: browser sessions. A page can send a cookie and an agent has none.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use toolgate_contracts::json::{self as strict, CALL_BYTES_MAX};
use toolgate_contracts::{Caller, Fault, FaultKind, Permission};
use toolgate_mcp::serve::{Again, Client, Heard, Messages, Narrowed, Session, Stream};
use toolgate_mcp::wire::{
    ASKED_VERSION_HEADER, Answer, Message, Meta, Notification, Request, Revision, RpcError, SESSION_HEADER,
    check_headers, code, messages_of,
};
use tracing::Instrument as _;
use utoipa_axum::router::UtoipaMethodRouter;

use crate::api::decides;
use crate::app::App;
use crate::auth;
use crate::oauth;
use crate::problem::Problem;
use crate::telemetry;

/// After this long without a word the answer becomes a stream, so that nobody between takes it for dead.
const QUIET_MAX: Duration = Duration::from_secs(5);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
const EVENT_STREAM: &str = "text/event-stream";
/// Of all answers to a batch. What is asked for behind that is not done.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The protocol of agents' tools: JSON-RPC messages of the Model Context Protocol.
#[utoipa::path(post, path = "/mcp", tag = "mcp", request_body = Object, responses((status = 200, body = Object), (status = 202), (status = 400), (status = 401), (status = 404)))]
pub async fn post(State(app): State<App>, request: Parts, body: Bytes) -> Response {
    answered(&app, &request, None, body).await
}

/// The same for one agent, one group of tools, or one server of others by its own names.
#[utoipa::path(post, path = "/mcp/{agent}", tag = "mcp", params(("agent" = String, Path, description = "An agent, a group of tools, or a server of others.")), request_body = Object, responses((status = 200, body = Object), (status = 202), (status = 400), (status = 401), (status = 404)))]
pub async fn post_narrowed(State(app): State<App>, Path(name): Path<String>, request: Parts, body: Bytes) -> Response {
    answered(&app, &request, Some(&name), body).await
}

/// What changed, live, for clients of older revisions.
#[utoipa::path(get, path = "/mcp", tag = "mcp", responses((status = 200, body = String, content_type = "text/event-stream"), (status = 405)))]
pub async fn get(State(app): State<App>, request: Parts) -> Response {
    heard(&app, &request, None).await.unwrap_or_else(|Refused(response)| *response)
}

/// The same for one agent, one group of tools, or one server of others by its own names.
#[utoipa::path(get, path = "/mcp/{agent}", tag = "mcp", params(("agent" = String, Path, description = "An agent, a group of tools, or a server of others.")), responses((status = 200, body = String, content_type = "text/event-stream"), (status = 405)))]
pub async fn get_narrowed(State(app): State<App>, Path(name): Path<String>, request: Parts) -> Response {
    heard(&app, &request, Some(&name)).await.unwrap_or_else(|Refused(response)| *response)
}

/// What clients end a session with, and try out, is not here; 404 would tell them that their session is gone.
pub fn only_here((schemas, paths, methods): UtoipaMethodRouter<App>) -> UtoipaMethodRouter<App> {
    (schemas, paths, methods.fallback(async || not_here()))
}

fn not_here() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response()
}

/// An answer that was given instead; large, so that it is carried beside.
struct Refused(Box<Response>);

impl From<Response> for Refused {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

async fn answered(app: &App, request: &Parts, name: Option<&str>, body: Bytes) -> Response {
    Box::pin(handled(app, request, name, body)).await.unwrap_or_else(|Refused(response)| *response)
}

async fn handled(app: &App, request: &Parts, name: Option<&str>, body: Bytes) -> Result<Response, Refused> {
    let (caller, narrowed) = caller_of(app, request, name).await?;
    let narrowed = Narrowed { by_search: wants_search(request)?, ..narrowed };
    if narrowed.by_search && narrowed.through.is_some() {
        return Err(failed(Fault::invalid(
            "all of a server is shown by its own names, not searched",
            "leave `catalog` out, or search at /mcp",
        )));
    }
    require_json(&request.headers)?;
    let value = strict::read(&body, CALL_BYTES_MAX).map_err(|error| {
        let fault = Fault::from(error);
        refused(400, RpcError::new(code::PARSE, fault.told()).with(fault.problem()))
    })?;
    let named = named_revision(&request.headers, &value)?;
    if let Some(Value::Object(members)) = Some(&value)
        && is_stateless(members, named)
    {
        return stateless(app, request, name, (caller, narrowed), value).await;
    }
    Box::pin(with_handshake(app, request, caller, narrowed, value, named)).await
}

/// Whether a message is one of the revision that says everything in each request.
fn is_stateless(message: &serde_json::Map<String, Value>, named: Option<Revision>) -> bool {
    let params = message.get("params").and_then(Value::as_object);
    let said = params.is_some_and(|params| Meta::named(params).is_some());
    let begins = message.get("method").and_then(Value::as_str) == Some("initialize");
    said || (named.is_some_and(Revision::is_stateless) && !begins)
}

async fn stateless(
    app: &App,
    http: &Parts,
    name: Option<&str>,
    (caller, narrowed): (Caller, Narrowed),
    value: Value,
) -> Result<Response, Refused> {
    let request = match Message::of(value) {
        Ok(Message::Request(request)) => request,
        // Nothing is said by notifications here, and nothing was asked.
        Ok(Message::Notification(_) | Message::Answer(_)) => return Ok(StatusCode::ACCEPTED.into_response()),
        Err(answer) => return Err(json(400, *answer).into()),
    };
    let refuse = |error: RpcError| {
        let status = if error.code == code::METHOD_NOT_FOUND { 404 } else { 400 };
        Refused::from(json(status, Answer::to(&request.id, Err(error))))
    };
    let header = |name: &str| one_header(&http.headers, name);
    let meta = match Meta::of(&request.params) {
        // A header that says something else comes first: somebody between may have believed it.
        Err(error) if error.code == code::UNSUPPORTED_VERSION => {
            check_headers(&request, header, &[]).map_err(refuse)?;
            return Err(refuse(error));
        }
        read => read.map_err(refuse)?,
    };
    let client = Client::of_request(caller, narrowed, meta);
    let repeated = match request.params.get("name").and_then(Value::as_str) {
        Some(name) if request.method == "tools/call" => app.mcp.repeated_in_headers(&client, name),
        _ => Vec::new(),
    };
    check_headers(&request, header, &repeated).map_err(refuse)?;
    let listens = (request.method == "subscriptions/listen").then(|| again(app, http, name));
    Ok(reply(app.clone(), client, request, wants_stream(&http.headers), listens).await)
}

async fn with_handshake(
    app: &App,
    http: &Parts,
    caller: Caller,
    narrowed: Narrowed,
    value: Value,
    named: Option<Revision>,
) -> Result<Response, Refused> {
    if let Value::Object(members) = &value
        && members.get("method").and_then(Value::as_str) == Some("initialize")
    {
        return initialize(app, &caller, &narrowed, value).await;
    }
    let session = session_of(app, &caller, &http.headers, named).await?;
    let revision = session.revision;
    let client = session.client(caller, narrowed, one_header(&http.headers, SESSION_HEADER).ok().flatten());
    let is_batch = value.is_array();
    let mut requests = Vec::new();
    let mut answers = Vec::new();
    for message in messages_of(value, revision).map_err(|error| refused(400, error))? {
        match message {
            Ok(Message::Request(request)) => requests.push(request),
            Ok(Message::Notification(notification)) => app.noted(&client, &notification),
            Ok(Message::Answer(answer)) => app.mcp.questions().answered(&client.caller, answer),
            Err(answer) => answers.push(*answer),
        }
    }
    if !is_batch {
        return Ok(match (requests.pop(), answers.pop()) {
            (Some(request), _) => reply(app.clone(), client, request, wants_stream(&http.headers), None).await,
            (None, Some(answer)) => json(400, answer),
            (None, None) => StatusCode::ACCEPTED.into_response(),
        });
    }
    if requests.is_empty() && answers.is_empty() {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let answers = Box::pin(batch(app, &client, &requests, answers)).await;
    Ok(([(header::CONTENT_TYPE, "application/json")], answers).into_response())
}

/// One after another, so that a batch is no more than its requests would be one by one, and within one bound.
async fn batch(app: &App, client: &Client, requests: &[Request], unreadable: Vec<Answer>) -> String {
    let mut written = String::from("[");
    let add = |answer: Answer, written: &mut String| {
        if written.len() > 1 {
            written.push(',');
        }
        written.push_str(&answer.into_value().to_string());
    };
    for answer in unreadable {
        add(answer, &mut written);
    }
    for request in requests {
        let outcome = if written.len() > BATCH_BYTES_MAX {
            let told = format!("the answers of this batch have {BATCH_BYTES_MAX} bytes already, so this was not done");
            Err(RpcError::invalid_request(told))
        } else {
            app.mcp.answer(client, request, &Stream::closed()).await
        };
        add(Answer::to(&request.id, outcome), &mut written);
    }
    written.push(']');
    written
}

async fn initialize(app: &App, caller: &Caller, narrowed: &Narrowed, value: Value) -> Result<Response, Refused> {
    let request = match Message::of(value) {
        Ok(Message::Request(request)) => request,
        Ok(_) => return Err(refused(400, RpcError::invalid_request("`initialize` is a request: it needs an `id`"))),
        Err(answer) => return Err(json(400, *answer).into()),
    };
    let (result, session) = match app.mcp.initialize_at(caller, narrowed, &request).await {
        Ok(begun) => begun,
        Err(error) => return Ok(json(200, Answer::to(&request.id, Err(error)))),
    };
    let sealed = app.mcp.seal_session(caller, &session).await.map_err(failed)?;
    let mut response = json(200, Answer::to(&request.id, Ok(result)));
    if let Ok(sealed) = HeaderValue::from_str(&sealed) {
        response.headers_mut().insert(SESSION_HEADER, sealed);
    }
    Ok(response)
}

/// The session that a client shows; one that shows none is an old one that can do nothing beside.
async fn session_of(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    named: Option<Revision>,
) -> Result<Session, Refused> {
    let shown = one_header(headers, SESSION_HEADER)
        .map_err(|()| refused(400, RpcError::invalid_request("`Mcp-Session-Id` came twice, or is not text")))?;
    let Some(shown) = shown else { return Ok(Session::unnamed(named.unwrap_or(Revision::UNNAMED))) };
    let session = app.mcp.open_session(caller, shown).await.map_err(failed)?;
    session.ok_or_else(|| refused(404, RpcError::invalid_request("there is no such session: begin with `initialize`")))
}

/// The revision that the header names. One that nobody here speaks is refused, except where the body can be told so.
fn named_revision(headers: &HeaderMap, body: &Value) -> Result<Option<Revision>, Refused> {
    let named = one_header(headers, ASKED_VERSION_HEADER)
        .map_err(|()| refused(400, RpcError::header_mismatch("`MCP-Protocol-Version` came twice, or is not text")))?;
    let Some(named) = named else { return Ok(None) };
    if let Ok(revision) = named.parse() {
        return Ok(Some(revision));
    }
    let says_itself = body.get("params").and_then(Value::as_object).is_some_and(|params| Meta::named(params).is_some());
    let begins = body.get("method").and_then(Value::as_str) == Some("initialize");
    if says_itself || begins { Ok(None) } else { Err(refused(400, RpcError::unsupported_version(named))) }
}

/// Answers one request: in JSON, or from the first word that comes before the answer on as a stream.
async fn reply(app: App, client: Client, request: Request, may_stream: bool, listens: Option<Again>) -> Response {
    let revision = client.revision;
    let (stream, mut messages) = if may_stream {
        let (stream, messages) = Stream::new(&request);
        (stream, Some(messages))
    } else {
        (Stream::closed(), None)
    };
    let id = request.id.clone();
    let span = span_of(&request);
    let answer = async move {
        let outcome = match &listens {
            Some(again) => app.mcp.listen(&client, &request, &stream, again).await,
            None => app.mcp.answer(&client, &request, &stream).await,
        };
        Answer::to(&id, outcome)
    };
    let mut answering: Answering = match span {
        Some(span) => Box::pin(answer.instrument(span)),
        None => Box::pin(answer),
    };
    let Some(messages) = &mut messages else {
        let answer = answering.await;
        return json(status_of(&answer, revision), answer);
    };
    tokio::select! {
        biased;
        answer = &mut answering => match messages.try_recv() {
            Err(_) => json(status_of(&answer, revision), answer),
            // It was said before the answer, in the same moment.
            Ok(first) => events(Some(first), std::mem::replace(messages, Messages::none()), Rest::Answer(Some(answer))),
        },
        Some(first) = messages.recv() => events(Some(first), std::mem::replace(messages, Messages::none()), Rest::Answering(answering)),
        () = tokio::time::sleep(QUIET_MAX) => events(None, std::mem::replace(messages, Messages::none()), Rest::Answering(answering)),
    }
}

/// The place in a trace that a message names; nearer than what its carrier names.
fn span_of(request: &Request) -> Option<tracing::Span> {
    let meta = request.params.get("_meta")?;
    let text = |name: &str| meta.get(name).and_then(Value::as_str).unwrap_or_default();
    telemetry::below(text("traceparent"), text("tracestate"))
}

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What a stream ends with.
enum Rest {
    Answering(Answering),
    Answer(Option<Answer>),
}

/// Messages as they come, and the answer last. Dropped, because its reader is gone, it takes the work along.
fn events(first: Option<Value>, messages: Messages, rest: Rest) -> Response {
    let stream = stream::unfold((first, messages, Some(rest)), |(first, mut messages, rest)| async move {
        if let Some(first) = first {
            return Some((event(&first), (None, messages, rest)));
        }
        match rest? {
            Rest::Answering(mut answering) => tokio::select! {
                biased;
                Some(message) = messages.recv() => Some((event(&message), (None, messages, Some(Rest::Answering(answering))))),
                answer = &mut answering => match messages.try_recv() {
                    Ok(message) => Some((event(&message), (None, messages, Some(Rest::Answer(Some(answer)))))),
                    Err(_) => Some((event(&answer.into_value()), (None, messages, None))),
                },
            },
            Rest::Answer(answer) => match messages.try_recv() {
                Ok(message) => Some((event(&message), (None, messages, Some(Rest::Answer(answer))))),
                Err(_) => answer.map(|answer| (event(&answer.into_value()), (None, messages, None))),
            },
        }
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE_EVERY);
    let mut response = Sse::new(stream.map(Ok::<_, Infallible>)).keep_alive(keep_alive).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(message: &Value) -> Event {
    Event::default().event("message").data(message.to_string())
}

/// The stream on which an older client hears of changes.
async fn heard(app: &App, request: &Parts, name: Option<&str>) -> Result<Response, Refused> {
    let (caller, narrowed) = caller_of(app, request, name).await?;
    if !request.headers.contains_key(SESSION_HEADER) || !wants_stream(&request.headers) {
        return Err(not_here().into());
    }
    let session = session_of(app, &caller, &request.headers, None).await?;
    let open = app.mcp.open_stream(&caller).map_err(failed)?;
    let again = again(app, request, name);
    let client = session.client(caller, narrowed, one_header(&request.headers, SESSION_HEADER).ok().flatten());
    let nobody =
        Request { id: toolgate_mcp::wire::Id::Number(0), method: String::new(), params: serde_json::Map::new() };
    let (stream, messages) = Stream::new(&nobody);
    let app = app.clone();
    let telling: Answering = Box::pin(async move {
        let _open = open;
        app.mcp.tell_changes(client, Heard::ALL, &stream, &Value::Null, &again).await;
        Answer::unreadable(RpcError::invalid_request("the stream has ended"))
    });
    Ok(events(None, messages, Rest::Answering(telling)))
}

impl App {
    /// What a client of an older revision says without wanting an answer.
    fn noted(&self, client: &Client, notification: &Notification) {
        if notification.method == "notifications/cancelled" {
            self.mcp.give_up(client, &notification.params);
        }
    }
}

/// Whoever shows a credential that agents may have, and the part of the catalogue that they came for.
async fn caller_of(app: &App, request: &Parts, name: Option<&str>) -> Result<(Caller, Narrowed), Refused> {
    if auth::is_of_another_site(app, request) {
        return Err(failed(auth::other_site()));
    }
    let local = request.extensions.get::<crate::LocalCaller>().is_some();
    if !local && !request.headers.contains_key(header::AUTHORIZATION) {
        return Err(challenged(app, request, name, auth::unauthenticated("this needs a key or an access token")));
    }
    let admitted = match auth::caller_at(app, request, &oauth::Address::of(app, request, name), false).await {
        Ok(admitted) => admitted,
        Err(fault) if fault.kind() == FaultKind::Unauthenticated || oauth::lacking_scope(&fault).is_some() => {
            return Err(challenged(app, request, name, fault));
        }
        Err(fault) => return Err(failed(fault)),
    };
    came_for(app, admitted, name).await.map_err(failed)
}

async fn came_for(app: &App, admitted: auth::Admitted, name: Option<&str>) -> Result<(Caller, Narrowed), Fault> {
    let auth::Admitted { caller, is_client } = admitted;
    if caller.may(&Permission::APPROVALS_DECIDE) {
        return Err(decides());
    }
    match name {
        None => Ok((caller, Narrowed::default())),
        Some(name) => app.mcp.narrow(caller, name, is_client).await,
    }
}

/// The same for a stream that stays open, with the rights that there are then.
fn again(app: &App, request: &Parts, name: Option<&str>) -> Again {
    let asked = std::sync::Arc::new((app.clone(), request.clone(), name.map(str::to_owned)));
    std::sync::Arc::new(move || {
        let asked = std::sync::Arc::clone(&asked);
        Box::pin(async move {
            let (app, request, name) = &*asked;
            let address = oauth::Address::of(app, request, name.as_deref());
            let admitted = auth::caller_at(app, request, &address, true).await?;
            came_for(app, admitted, name.as_deref()).await
        })
    })
}

/// Where to get what is missing, in the words of RFC 9728.
fn challenged(app: &App, request: &Parts, name: Option<&str>, fault: Fault) -> Refused {
    let challenge = oauth::challenge(app, request, name, &fault);
    let mut response = Problem::from(fault).into_response();
    if let Some(challenge) = challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response.into()
}

fn failed(fault: Fault) -> Refused {
    Problem::from(fault).into_response().into()
}

fn refused(status: u16, error: RpcError) -> Refused {
    json(status, Answer::unreadable(error)).into()
}

fn json(status: u16, answer: Answer) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, Json(answer.into_value())).into_response()
}

fn status_of(answer: &Answer, revision: Revision) -> u16 {
    answer.outcome.as_ref().err().map_or(200, |error| error.http_status(revision))
}

/// A header's one value.
fn one_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepts =
        |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains(EVENT_STREAM) || text.contains("*/*"));
    headers.get_all(header::ACCEPT).iter().any(accepts)
}

/// `?catalog=search`: a few tools that find and call all others, for large catalogues.
fn wants_search(request: &Parts) -> Result<bool, Refused> {
    match request.uri.query() {
        None | Some("" | "catalog=all") => Ok(false),
        Some("catalog=search") => Ok(true),
        Some(_) => {
            let told = "the only parameter of this address is `catalog`, `all` or `search`";
            Err(failed(Fault::invalid(told, "leave the query out, or write `?catalog=search`")))
        }
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Refused> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = RpcError::invalid_request("send JSON with `Content-Type: application/json`");
    Err(json(415, Answer::unreadable(error)).into())
}
