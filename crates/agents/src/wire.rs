//! A question on its way: the key put in, sent through the outlet, tried again until an answer begins, read as it comes.
//!
//! Invariant: once a word or a call of an answer was heard, the request is not sent again: whoever listens has a part of it.

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

/// Of an answer that is none, what is kept to be shown, and what is shown of it.
const FOREIGN_BYTES_MAX: usize = 4 * 1024;
const FOREIGN_CHARS_MAX: usize = 160;
const MEDIA_CHARS_MAX: usize = 80;

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
    let mut tries = 1;
    let asked = ask_until_heard((dialect, base), asking, request, heard, &mut tries).await;
    asked.map(|turn| Answer { turn, tries }).map_err(|error| error.after(tries))
}

async fn ask_until_heard(
    (dialect, base): (&dyn Dialect, &Url),
    asking: &Asking<'_>,
    request: &Request,
    heard: &mut (dyn FnMut(&Delta) + Send),
    tries: &mut u32,
) -> Result<Turn, ModelError> {
    let deadline = Instant::now() + asking.bounds.wall;
    let outgoing = outgoing(dialect, base, asking, request)?;
    let mut retries = Retries::new(&asking.bounds);
    loop {
        let mut outgoing = outgoing.clone();
        outgoing.timeout = deadline.saturating_duration_since(Instant::now()) + SPARE;
        let response = match timeout_at(deadline, asking.outlet.send(outgoing)).await {
            Ok(Ok(response)) if response.status.is_success() => response,
            Ok(Ok(response)) => {
                let error = shown(refused(response, base, request, deadline).await, asking.key);
                wait(&mut retries, error, asking.rng, deadline).await?;
                *tries += 1;
                continue;
            }
            Ok(Err(error)) => {
                wait(&mut retries, ModelError::of(error, false), asking.rng, deadline).await?;
                *tries += 1;
                continue;
            }
            Err(_) => return Err(late(&asking.bounds)),
        };
        let reading = Reading::new(dialect, request, &asking.bounds);
        let mut has_begun = false;
        let mut hear = |delta: &Delta| {
            has_begun = true;
            heard(delta);
        };
        let read = match timeout_at(deadline, read(response, reading, asking, &mut hear)).await {
            Ok(read) => read,
            Err(_) => Err(late(&asking.bounds)),
        };
        match read.map_err(|error| shown(error, asking.key)) {
            // Some say only behind the first event that they have too much to do.
            Err(error) if !has_begun => wait(&mut retries, error, asking.rng, deadline).await?,
            read => return read,
        }
        *tries += 1;
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
    let mut tries = 1;
    let played = play_until_heard(script, name, asking, request, heard, &mut tries).await;
    played.map(|turn| Answer { turn, tries }).map_err(|error| error.after(tries))
}

async fn play_until_heard(
    script: &Script,
    name: &Slug,
    asking: &Asking<'_>,
    request: &Request,
    heard: &mut (dyn FnMut(&Delta) + Send),
    tries: &mut u32,
) -> Result<Turn, ModelError> {
    let deadline = Instant::now() + asking.bounds.wall;
    let mut retries = Retries::new(&asking.bounds);
    let mut used = Script::used(request);
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
            Ok(end) => return Ok(fold.end(crate::Kind::Scripted, end)),
            Err(error) if begun => return Err(error),
            Err(error) => wait(&mut retries, error, asking.rng, deadline).await?,
        }
        *tries += 1;
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
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (streamed, is_known) = match media.as_str() {
        "text/event-stream" => (true, true),
        // Some do not stream, whatever they are asked.
        "application/json" => (false, true),
        _ => (asking.form == Form::Streamed, false),
    };
    if !streamed {
        let bytes_max = asking.bounds.event_bytes_max;
        let body = response.bytes_max(bytes_max).await.map_err(|error| ModelError::of(error, true))?;
        let read = reading.whole(&body, heard);
        return read.map_err(|error| if is_known { error } else { foreign(&media, &body, asking.key) });
    }
    let mut beginning = Vec::new();
    while !reading.is_whole() {
        match response.chunk().await.map_err(|error| ModelError::of(error, true))? {
            Some(piece) => {
                beginning.extend(piece.iter().take(FOREIGN_BYTES_MAX.saturating_sub(beginning.len())));
                reading.push(&piece, heard)?;
            }
            None => break,
        }
    }
    if !is_known && !reading.has_begun() {
        return Err(foreign(&media, &beginning, asking.key));
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

/// A page of somebody who is no provider, as a rule: a proxy, a sign-in, a site at the wrong path. Its beginning is shown
/// without the key, which is taken out before it can be cut in two.
fn foreign(media: &str, body: &[u8], key: Option<&Secret>) -> ModelError {
    let media: String = media.chars().take(MEDIA_CHARS_MAX).flat_map(char::escape_debug).collect();
    let named = if media.is_empty() { "no content type".to_owned() } else { format!("`{media}`") };
    let text = String::from_utf8_lossy(body);
    let text = match key.and_then(|key| plain(key).filter(|text| !text.is_empty()).map(|text| (text, key.name()))) {
        Some((secret, name)) => text.replace(secret, &format!("[secret:{name}]")),
        None => text.into_owned(),
    };
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let beginning: String = words.chars().take(FOREIGN_CHARS_MAX).collect();
    let message = format!(
        "the provider answers with {named}, which is neither a stream of events nor JSON; look at its `base_url`; it begins: {beginning}"
    );
    ModelError::new(ErrorKind::Foreign, message).with("content_type", media)
}
