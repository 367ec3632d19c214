//! Traces to an OpenTelemetry collector: OTLP over HTTP, in batches, from a bounded queue.
//!
//! A collector that is away costs nothing but its traces: what does not fit is dropped, and the log says so once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use toolgate_contracts::Fault;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

/// Spans that wait to be sent; more are dropped.
const QUEUE_SPANS_MAX: usize = 4096;
const BATCH_SPANS_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(2);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// After the last request there is this long for the last batch: SIGTERM ends within ten seconds in all.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// A collector's answer is a word or two.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const PATH: &str = "/v1/traces";

/// Ends the sending of traces; without it the last batch is lost.
pub struct Traces(SdkTracerProvider);

impl Traces {
    pub async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(END_TIMEOUT)).await;
        if let Ok(Err(error)) = ended {
            tracing::debug!("the last traces were not sent: {error}");
        }
    }
}

/// A layer for the log's subscriber, which sends the spans of this program's own crates to `endpoint`.
pub fn layer<S>(endpoint: &str) -> Result<(impl Layer<S> + Send + Sync + use<S>, Traces), Fault>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    // The second of two installations is told that there is one already, which is all we want.
    let _ = Arc::unwrap_or_clone(crate::tls::provider()).install_default();
    let http = reqwest::Client::builder()
        .timeout(SEND_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(Fault::internal)?;
    let endpoint = endpoint.trim_end_matches('/');
    let url = if endpoint.ends_with(PATH) { endpoint.to_owned() } else { format!("{endpoint}{PATH}") };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender { http, runtime: Handle::current(), away: AtomicBool::new(false) })
        .with_endpoint(url)
        .with_timeout(SEND_TIMEOUT)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(Fault::internal)?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_SPANS_MAX)
        .with_max_export_batch_size(BATCH_SPANS_MAX)
        .with_scheduled_delay(SEND_EVERY)
        .build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
        // Who asks for a trace decides whether it is kept; without such a caller all are.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(
            Resource::builder()
                .with_service_name("toolgate")
                .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
                .build(),
        )
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("toolgate"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(ours());
    Ok((layer, Traces(provider)))
}

/// Its own filter, apart from the log's: the steps of a call are spans at `debug`, which nobody makes unless a collector
/// or a log at that level listens. Events stay in the log, but for what went wrong.
fn ours() -> FilterFn<impl Fn(&Metadata<'_>) -> bool + Clone> {
    let wanted = |metadata: &Metadata<'_>| {
        let most = if metadata.is_span() { Level::DEBUG } else { Level::WARN };
        metadata.target().starts_with("toolgate") && *metadata.level() <= most
    };
    filter_fn(wanted).with_max_level_hint(LevelFilter::DEBUG)
}

/// Sends on our own runtime, since the exporter's thread has none.
#[derive(Debug)]
struct Sender {
    http: reqwest::Client,
    runtime: Handle,
    /// Said already; said again when it has been back.
    away: AtomicBool,
}

impl Sender {
    fn note(&self, failure: Option<String>) {
        let was_away = self.away.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(failure) if !was_away => {
                tracing::warn!("the collector at `otlp_endpoint` takes no traces, they are dropped: {failure}");
            }
            None if was_away => tracing::info!("the collector at `otlp_endpoint` takes traces again"),
            _ => {}
        }
    }
}

impl HttpClient for Sender {
    fn send_bytes<'life, 'sent>(
        &'life self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'life: 'sent,
        Self: 'sent,
    {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let mut answer = http.execute(request.try_into()?).await?;
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > ANSWER_BYTES_MAX {
                    return Err("the collector answers without end".into());
                }
            }
            *response.body_mut() = body.into();
            Ok(response)
        });
        Box::pin(async move {
            let answer: Result<Response<Bytes>, HttpError> = sent.await.unwrap_or_else(|error| Err(error.into()));
            self.note(match &answer {
                Ok(answer) if answer.status().is_success() => None,
                Ok(answer) => Some(format!("it answers {}", answer.status())),
                Err(error) => Some(innermost(error.as_ref())),
            });
            answer
        })
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
