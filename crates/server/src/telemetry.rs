//! What is noted of every request: an id, its place in a trace, one line in the log, and numbers.
//!
//! Deliberately absent: the raw path (it holds names and ids), the query, headers and bodies. A route is noted as it was
//! registered, `/api/v1/tools/{tool}`.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use data_encoding::HEXLOWER;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use toolgate_contracts::Rng;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::app::App;
use crate::proxies::{self, ClientAddress};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: &str = "tracestate";

/// A caller's own id may be this long; a longer one is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;
const TRACESTATE_BYTES_MAX: usize = 512;
/// The length of version 00 of a `traceparent`.
const TRACEPARENT_BYTES: usize = 55;
/// What no route took.
pub const UNMATCHED: &str = "unmatched";

/// A place in a trace: W3C Trace Context. On a request it is the span of that request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub sampled: bool,
}

impl Trace {
    /// Strictly: one header, lower-case digits, no zero ids. A version after ours is read by its first four parts, as
    /// the standard asks.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Self::parse(value.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(TRACEPARENT_BYTES)?;
        let mut parts = head.split('-');
        let [version] = digits(parts.next()?)?;
        let trace_id = digits(parts.next()?)?;
        let span_id = digits(parts.next()?)?;
        let [flags] = digits(parts.next()?)?;
        let longer = rest.is_empty() || (version > 0 && rest.starts_with('-'));
        let legal = version != 0xff && longer && trace_id != [0; 16] && span_id != [0; 8] && parts.next().is_none();
        legal.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// A new span below this one, or in a trace of its own.
    fn below(parent: Option<Self>, rng: &Rng) -> Self {
        let trace_id = parent.map_or_else(|| rng.bytes(), |parent| parent.trace_id);
        Self { trace_id, span_id: rng.bytes(), sampled: parent.is_some_and(|parent| parent.sampled) }
    }

    fn of_span(context: &SpanContext) -> Option<Self> {
        context.is_valid().then(|| Self {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            sampled: context.is_sampled(),
        })
    }

    fn remote(self, state: TraceState) -> opentelemetry::Context {
        let flags = if self.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let ids = (TraceId::from_bytes(self.trace_id), SpanId::from_bytes(self.span_id));
        opentelemetry::Context::new().with_remote_span_context(SpanContext::new(ids.0, ids.1, flags, true, state))
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = (HEXLOWER.encode(&self.trace_id), HEXLOWER.encode(&self.span_id));
        write!(f, "00-{}-{}-{:02x}", ids.0, ids.1, u8::from(self.sampled))
    }
}

/// Exactly `N` bytes in lower-case hexadecimal.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// What the sender's own tools wrote; carried on if it can be read, else left behind.
fn state(headers: &HeaderMap) -> TraceState {
    let values: Vec<&str> = headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let text = values.join(",");
    if text.len() > TRACESTATE_BYTES_MAX {
        return TraceState::default();
    }
    text.parse().unwrap_or_default()
}

/// The caller's id if it is one: it goes into logs, so it holds nothing that could be read as more than an id.
fn request_id(headers: &HeaderMap, rng: &Rng) -> String {
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'/' | b'=' | b'+');
    let mut values = headers.get_all(REQUEST_ID).iter();
    let given = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    };
    let given = given.filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(legal));
    given.map_or_else(|| HEXLOWER.encode(&rng.bytes::<16>()), str::to_owned)
}

/// A span below the place in a trace that a message names itself, where it names one.
pub fn below(parent: &str, state: &str) -> Option<Span> {
    let parent = Trace::parse(parent)?;
    let state = if state.len() > TRACESTATE_BYTES_MAX { "" } else { state };
    let span = tracing::info_span!(target: "toolgate::http", "message", otel.kind = "server");
    // Nobody may be listening, and then there is nothing to join.
    let _ = span.set_parent(parent.remote(state.parse().unwrap_or_default()));
    Some(span)
}

/// The id of a request, for whoever wants to name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub String);

/// Stands outermost: what it notes holds for refusals as well.
pub async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    proxies::note_client(&app, &mut request);
    let id = request_id(request.headers(), &app.rng);
    let method = method_name(request.method());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let client = request.extensions().get::<ClientAddress>().map(|client| client.0);

    let parent = Trace::of(request.headers());
    let span = tracing::info_span!(target: "toolgate::http", "request", request_id = id, trace_id = tracing::field::Empty, otel.kind = "server");
    if let Some(parent) = parent {
        // Nobody may be listening, and then there is nothing to join.
        let _ = span.set_parent(parent.remote(state(request.headers())));
    }
    let trace = Trace::of_span(span.context().span().span_context()).unwrap_or_else(|| Trace::below(parent, &app.rng));
    span.record("trace_id", HEXLOWER.encode(&trace.trace_id));
    describe(&span, method, route, client);
    request.extensions_mut().insert(trace);
    request.extensions_mut().insert(RequestId(id.clone()));

    let mut response = next.run(request).instrument(span.clone()).await;

    let status = response.status().as_u16();
    let took = began.elapsed();
    app.exposition.answered(method, route, status, took.as_secs_f64());
    span.set_attribute("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.set_status(opentelemetry::trace::Status::error(""));
    }
    span.in_scope(|| log(method, route, status, took.as_secs_f64() * 1000.0, client));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Ok(trace) = HeaderValue::from_str(&trace.to_string()) {
        response.headers_mut().insert(TRACEPARENT, trace);
    }
    response
}

/// For the collector alone: in the log the same stands in the one line of the request.
fn describe(span: &Span, method: &'static str, route: &str, client: Option<std::net::IpAddr>) {
    if span.is_disabled() {
        return;
    }
    span.context().span().update_name(format!("{method} {route}"));
    span.set_attribute("http.request.method", method);
    span.set_attribute("http.route", route.to_owned());
    if let Some(client) = client {
        span.set_attribute("client.address", client.to_string());
    }
}

fn log(method: &str, route: &str, status: u16, ms: f64, client: Option<std::net::IpAddr>) {
    let client = client.map(tracing::field::display);
    // Probes and files of pages come often and say little.
    let quiet = !["/api/", "/invoke", "/mcp"].iter().any(|prefix| route.starts_with(prefix));
    if status >= 500 {
        tracing::warn!(target: "toolgate::request", method, route, status, ms, client, "failed");
    } else if quiet {
        tracing::debug!(target: "toolgate::request", method, route, status, ms, client, "answered");
    } else {
        tracing::info!(target: "toolgate::request", method, route, status, ms, client, "answered");
    }
}

/// The methods that exist; what a client makes up is one word for all.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_strictly() {
        let read = Trace::parse(TEXT).unwrap();
        assert_eq!(read.to_string(), TEXT);
        assert!(!Trace::parse(&TEXT.replace("-01", "-00")).unwrap().sampled);
        let longer = [format!("{}-later", TEXT.replace("00-4b", "01-4b")), TEXT.replace("00-4b", "cc-4b")];
        assert!(longer.iter().all(|text| Trace::parse(text).is_some()));
        for wrong in [
            String::new(),
            "00".to_owned(),
            TEXT.to_uppercase(),
            format!("{TEXT}-later"),
            format!("{TEXT} "),
            format!(" {TEXT}"),
            TEXT.replace("00-4b", "ff-4b"),
            TEXT.replace("00-4b", "01-4b") + "x",
            TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            TEXT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            TEXT.replace('-', "_"),
            TEXT.replace("4b", "4é"),
            TEXT.replace("-01", "-0g"),
        ] {
            assert_eq!(Trace::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn two_traceparents_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(TEXT));
        assert!(Trace::of(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(TEXT));
        assert_eq!(Trace::of(&headers), None);
    }

    #[test]
    fn only_an_id_is_taken_for_one() {
        let given = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap());
            request_id(&headers, &Rng::seeded(1))
        };
        for kept in ["a", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "Root=1-67891233-abcdef012345678912345678"] {
            assert_eq!(given(kept), kept);
        }
        for replaced in ["", "a b", "a\"b", "a{b}", "é", &"x".repeat(129), "a\u{1b}[31m"] {
            if HeaderValue::from_bytes(replaced.as_bytes()).is_ok() {
                assert_eq!(given(replaced).len(), 32, "{replaced:?}");
            }
        }
    }
}
