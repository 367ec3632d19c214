//! Traces, against a collector in this process: one trace for each request, below its caller's span.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Request;
use axum::routing::{get, post};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use toolgate_server::{App, otlp, telemetry};
use tower::ServiceExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::world::with_settings;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

async fn collector() -> (String, Received) {
    let received = Received::default();
    let take = async |State(received): State<Received>, body: Bytes| {
        received.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    };
    let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let limits = toolgate_server::listen::Limits::default();
    tokio::spawn(toolgate_server::listen::listen(listener, router, limits, None, std::future::pending()));
    (url, received)
}

/// A route with two steps below it, as the engine has them, and one thing that is not ours.
fn router(app: &App) -> Router {
    let handler = async || {
        let step = tracing::debug_span!(target: "toolgate_engine::submit", "authorize", call_id = "c1", tool = "echo", tenant = "t1");
        step.in_scope(|| tracing::debug_span!(target: "toolgate_engine::submit", "inner").in_scope(|| ()));
        tracing::info_span!(target: "hyper::proto", "not ours").in_scope(|| ());
        tracing::trace_span!(target: "toolgate_engine::submit", "too fine").in_scope(|| ());
        "done"
    };
    let observe = axum::middleware::from_fn_with_state(app.clone(), telemetry::observe);
    Router::new().route("/api/v1/steps/{id}", get(handler)).layer(observe)
}

async fn send(app: &App, traceparent: Option<&str>) -> String {
    let mut request = Request::get("/api/v1/steps/7?secret=hunter2").header("host", "localhost");
    request = traceparent.into_iter().fold(request, |request, parent| request.header("traceparent", parent));
    let response = router(app).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers()["traceparent"].to_str().unwrap().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[tokio::test]
async fn a_request_is_one_trace_with_its_steps_below_the_caller_s_span() {
    let (app, _folder) = with_settings(&[]).await;
    let (url, received) = collector().await;
    let (layer, traces) = otlp::layer(&url).map_err(|fault| format!("{fault:?}")).unwrap();
    let answered = {
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let unsampled = PARENT.replace("-01", "-00").replace("4bf9", "4bf8");
        [send(&app, Some(PARENT)).await, send(&app, None).await, send(&app, Some(&unsampled)).await]
    };
    traces.end().await;

    let received = received.lock().unwrap();
    let resources = received.iter().flat_map(|request| &request.resource_spans);
    let spans: Vec<&Span> = resources.flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans).collect();
    assert_eq!(spans.len(), 6, "three for each that is sampled: {spans:#?}");
    assert!(!format!("{spans:?}").contains("hunter2"));
    for (answered, parent) in [(&answered[0], "00f067aa0ba902b7"), (&answered[1], "")] {
        let (trace, span) = (&answered[3..35], &answered[36..52]);
        let of_trace: Vec<_> = spans.iter().filter(|span| hex(&span.trace_id) == trace).collect();
        assert_eq!(of_trace.len(), 3, "{answered}");
        let request = of_trace.iter().find(|found| hex(&found.span_id) == span).unwrap();
        assert_eq!((request.name.as_str(), hex(&request.parent_span_id).as_str()), ("GET /api/v1/steps/{id}", parent));
        assert_eq!(request.kind, 2, "a server's span");
        let step = of_trace.iter().find(|span| span.name == "authorize").unwrap();
        assert_eq!(step.parent_span_id, request.span_id);
        let fields: Vec<_> = step.attributes.iter().map(|field| field.key.as_str()).collect();
        assert!(["call_id", "tool", "tenant"].iter().all(|name| fields.contains(name)), "{fields:?}");
        let inner = of_trace.iter().find(|span| span.name == "inner").unwrap();
        assert_eq!(inner.parent_span_id, step.span_id);
    }
    assert!(answered[0].starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && answered[0].ends_with("-01"));
    assert!(answered[2].starts_with("00-4bf82f3577b34da6a3ce929d0e0e4736-") && answered[2].ends_with("-00"));
}

#[tokio::test]
async fn without_a_listener_no_step_is_made() {
    let filter = tracing_subscriber::filter::LevelFilter::INFO;
    let lines =
        tracing_subscriber::Layer::with_filter(tracing_subscriber::fmt::layer().with_writer(std::io::sink), filter);
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
    let step = tracing::debug_span!(target: "toolgate_engine::submit", "authorize", call_id = "c1");
    assert!(step.is_disabled());
}

#[tokio::test]
async fn a_collector_that_is_away_or_silent_holds_nothing_up() {
    let (app, _folder) = with_settings(&[]).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [silent.local_addr().unwrap(), closed.local_addr().unwrap()];
    drop(closed);
    for address in addresses {
        let (layer, traces) = otlp::layer(&format!("http://{address}")).map_err(|fault| format!("{fault:?}")).unwrap();
        {
            let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
            for _ in 0..2000 {
                send(&app, None).await;
            }
        }
        tokio::time::timeout(Duration::from_secs(8), traces.end()).await.expect("it ends");
    }
}
