//! A question on its way: the key put in, sent through the outlet, tried again until an answer begins, read as it comes.
//!
//! Invariant: once a byte of an answer has come, the request is not sent again: whoever listens has heard a part of it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use toolgate_contracts::{Rng, Slug};
use toolgate_egress::{
    Bytes, Connector, Effect, EgressError, HeaderValue, Limits, Method, Packing, Redirects, Request as Outgoing,
    Response, Url, Way,
};
use toolgate_vault::Secret;

use crate::bounds::Bounds;
use crate::error::{ErrorKind, ModelError};
use crate::fold::Delta;
use crate::model::{Request, Turn};
use crate::providers::scripted::{Played, Script};
use crate::providers::{self, Dialect};
use crate::reading::Reading;
use crate::refusal;
use crate::retry::Retries;

/// Of an answer that refuses.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// The connector's own limits are a little behind ours, which know better why.
const SPARE: Duration = Duration::from_secs(1);

/// How long the end of a stream is waited for once its answer is whole.
const DRAIN: Duration = Duration::from_millis(250);

/// How requests leave. Whoever makes one judges where they may go and notes which openings were used.
pub trait Outlet: Send + Sync {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Response, EgressError>>;
}

/// The connector by one way, nothing noted.
pub struct Direct {
    pub connector: Connector,
    pub way: Way,
}

impl Outlet for Direct {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(self.connector.send(&self.way, request))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    Streamed,
}

/// What a question needs beside itself.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub outlet: &'a dyn Outlet,
    /// In clear only within this; the provider's secret, found for whoever asks.
    pub key: Option<&'a Secret>,
    pub rng: &'a Rng,
    pub bounds: Bounds,
    pub form: Form,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub turn: Turn,
    /// How often it was sent.
    pub tries: u32,
}

pub(crate) async fn ask(
    dialect: &dyn Dialect,
    base: &Url,
    asking: &Asking<'_>,
    request: &Request,
    heard: &mut (dyn FnMut(&Delta) + Send),
) -> Result<Answer, ModelError> {
    let deadline = Instant::now() + asking.bounds.wall;
    let outgoing = outgoing(dialect, base, asking, request)?;
    let mut retries = Retries::new(&asking.bounds);
    let mut tries = 1;
    loop {
        let mut outgoing = outgoing.clone();
        outgoing.timeout = deadline.saturating_duration_since(Instant::now()) + SPARE;
        let response = match timeout_at(deadline, asking.outlet.send(outgoing)).await {
            Ok(Ok(response)) if response.status.is_success() => response,
            Ok(Ok(response)) => {
                let error = shown(refused(response, base, request, deadline).await, asking.key);
                wait(&mut retries, error, asking.rng, deadline).await?;
                tries += 1;
                continue;
            }
            Ok(Err(error)) => {
                wait(&mut retries, ModelError::of(error, false), asking.rng, deadline).await?;
                tries += 1;
                continue;
            }
            Err(_) => return Err(late(&asking.bounds)),
        };
        let reading = Reading::new(dialect, request, &asking.bounds);
        let read = match timeout_at(deadline, read(response, reading, asking, heard)).await {
            Ok(read) => read,
            Err(_) => Err(late(&asking.bounds)),
        };
        let turn = read.map_err(|error| shown(error, asking.key))?;
        return Ok(Answer { turn, tries });
    }
}

/// Plays a script as if it were asked over a wire: in pieces, with waits, failures and tries.
pub(crate) async fn play(
    script: &Script,
    name: &Slug,
    asking: &Asking<'_>,
    request: &Request,
    heard: &mut (dyn FnMut(&Delta) + Send),
) -> Result<Answer, ModelError> {
    let deadline = Instant::now() + asking.bounds.wall;
    let mut retries = Retries::new(&asking.bounds);
    let mut used = Script::used(request);
    let mut tries = 1;
    loop {
        let Played { pieces, delay, end, begun } = script.play(name, request, &mut used)?;
        let mut fold = crate::fold::Fold::new(&asking.bounds);
        for piece in &pieces {
            if !delay.is_zero() && timeout_at(deadline, sleep(delay)).await.is_err() {
                return Err(late(&asking.bounds));
            }
            for delta in piece {
                fold.push(delta)?;
                heard(delta);
            }
        }
        match end {
            Ok(end) => return Ok(Answer { turn: fold.end(crate::Kind::Scripted, end), tries }),
            Err(error) if begun => return Err(error),
            Err(error) => wait(&mut retries, error, asking.rng, deadline).await?,
        }
        tries += 1;
    }
}

/// Waits for the next try, or gives the error back where there is none.
async fn wait(retries: &mut Retries, error: ModelError, rng: &Rng, deadline: Instant) -> Result<(), ModelError> {
    let Some(wait) = retries.after(&error, rng).filter(|wait| Instant::now() + *wait < deadline) else {
        return Err(error);
    };
    tracing::debug!(kind = ?error.kind(), wait = ?wait, "a model is asked again");
    sleep(wait).await;
    Ok(())
}

fn outgoing(dialect: &dyn Dialect, base: &Url, asking: &Asking<'_>, request: &Request) -> Result<Outgoing, ModelError> {
    let Asking { outlet: _, key, rng: _, bounds, form } = asking;
    let mut outgoing = Outgoing::new(Method::POST, dialect.url(base, request, *form)?);
    // It changes nothing over there: a kept connection that turns out to be closed is no reason to fail.
    outgoing.effect = Effect::Read;
    outgoing.redirects = Redirects::Return;
    outgoing.packing = match form {
        Form::Whole => Packing::Gzip,
        Form::Streamed => Packing::Plain,
    };
    let bytes_max = match form {
        Form::Whole => bounds.event_bytes_max,
        Form::Streamed => bounds.stream_bytes_max,
    };
    outgoing.limits = Limits {
        headers: bounds.first.min(bounds.wall + SPARE),
        idle: bounds.idle,
        rate_after: bounds.wall + SPARE,
        wire_bytes_max: bytes_max as u64,
        inflated_bytes_max: bytes_max as u64,
        ..Limits::default()
    };
    let accept = match form {
        Form::Whole => "application/json",
        Form::Streamed => "text/event-stream",
    };
    outgoing.headers.insert("accept", HeaderValue::from_static(accept));
    outgoing.headers.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in dialect.headers() {
        outgoing.headers.insert(*name, HeaderValue::from_static(value));
    }
    let body = providers::body(dialect, base, request, *form)?;
    outgoing.body = Bytes::from(Value::Object(body).to_string());
    match key {
        Some(key) => keyed(outgoing, dialect, key),
        None => Ok(outgoing),
    }
}

/// With the key, if its owner lets it go to the host of the request.
fn keyed(outgoing: Outgoing, dialect: &dyn Dialect, key: &Secret) -> Result<Outgoing, ModelError> {
    let (host, name) = (outgoing.url.host_str().unwrap_or_default(), key.name());
    if !key.may_go_to(host) {
        let message = format!(
            "the secret `{name}` may not go to `{host}`; its owner allows it with `toolgate secret allow {name} --host {host}`"
        );
        return Err(ModelError::secret("secret_not_allowed", message).with("secret", name).with("host", host));
    }
    let unfit = || {
        let message =
            format!("the secret `{name}` cannot stand in a header: it is empty, has a line break or is not text");
        ModelError::secret("secret_not_allowed", message).with("secret", name)
    };
    let text = plain(key).filter(|text| !text.is_empty()).ok_or_else(unfit)?;
    let (header, scheme) = dialect.key();
    let value = HeaderValue::from_str(&format!("{scheme}{text}")).map_err(|_| unfit())?;
    let (header, _) = toolgate_egress::header(header, "").map_err(|error| ModelError::of(error, false))?;
    Ok(outgoing.with_secret(header, value))
}

fn plain(key: &Secret) -> Option<&str> {
    key.expose_text().map(|text| text.trim_end_matches(['\r', '\n']))
}

/// An error without the key, which what providers say of it may quote.
fn shown(error: ModelError, key: Option<&Secret>) -> ModelError {
    match key.and_then(|key| plain(key).map(|text| (text, key.name()))) {
        Some((text, name)) => error.without(text, &format!("[secret:{name}]")),
        None => error,
    }
}

async fn refused(response: Response, base: &Url, request: &Request, deadline: Instant) -> ModelError {
    let (status, headers) = (response.status.as_u16(), response.headers.clone());
    // The status is known; only its words are lost.
    let body = match timeout_at(deadline, response.bytes_max(REFUSAL_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        _ => Bytes::new(),
    };
    refusal::answered(status, &headers, &body, base.host_str().unwrap_or_default(), &request.asked())
}

async fn read(
    mut response: Response,
    mut reading: Reading,
    asking: &Asking<'_>,
    heard: &mut (dyn FnMut(&Delta) + Send),
) -> Result<Turn, ModelError> {
    let media = response.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let streamed = match media.split(';').next().unwrap_or_default().trim() {
        "text/event-stream" => true,
        // Some do not stream, whatever they are asked.
        "application/json" => false,
        _ => asking.form == Form::Streamed,
    };
    if !streamed {
        let bytes_max = asking.bounds.event_bytes_max;
        let body = response.bytes_max(bytes_max).await.map_err(|error| ModelError::of(error, true))?;
        return reading.whole(&body, heard);
    }
    while !reading.is_whole() {
        match response.chunk().await.map_err(|error| ModelError::of(error, true))? {
            Some(piece) => reading.push(&piece, heard)?,
            None => break,
        }
    }
    if reading.is_whole() {
        // Whatever still comes is thrown away; a connection that ends now can be kept.
        let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
        let _ = tokio::time::timeout(DRAIN, rest).await;
    }
    reading.finish(heard)
}

fn late(bounds: &Bounds) -> ModelError {
    let message =
        format!("the model did not end its answer within {} s; allow more time or ask for less", bounds.wall.as_secs());
    ModelError::new(ErrorKind::Late, message)
}
