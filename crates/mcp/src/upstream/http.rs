//! Requests over HTTP: one POST for each, answered by a body or by a stream of its own.
//!
//! Everything leaves by an [`Outlet`]; nothing here decides where a request may go. A session of the older revisions is
//! kept here and sent with each request, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::fmt::rfc2822;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolgate_egress::{
    Bytes, Effect, HeaderMap, HeaderName, HeaderValue, Limits, Method, Packing, Redirects, Request, Response, Url,
};

use super::desk::{Back, Desk, Ticket, closed};
use super::error::{Challenge, LinkError};
use super::events::Events;
use super::exchange::{Exchange, Outlet};
use super::place::{Bounds, Given};
use super::read;
use crate::wire::{
    ASKED_VERSION_HEADER, METHOD_HEADER, Message, Revision, RpcError, SESSION_HEADER, code, headers_of, param_headers,
};

/// Of an answer that refuses.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const SESSION_BYTES_MAX: usize = 1024;
/// For what is told without an answer: that something is cancelled, what a server asked, the end of a session.
const ASIDE: Duration = Duration::from_secs(10);
/// A stream without a word for so long is opened again.
const SILENT: Duration = Duration::from_mins(15);
const RESUME: Duration = Duration::from_secs(1);
const RESUME_MIN: Duration = Duration::from_millis(50);
const SPARE: Duration = Duration::from_secs(1);
/// How long the end of a stream is waited for once its answer is there, so that the connection can be kept.
const DRAIN: Duration = Duration::from_millis(250);

pub struct Core {
    pub url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    pub outlet: Arc<dyn Outlet>,
    pub session: ArcSwapOption<String>,
    pub bounds: Bounds,
}

/// What goes out beside the message.
pub struct Sending<'a> {
    pub outlet: Option<&'a Arc<dyn Outlet>>,
    pub until: Instant,
    pub effect: Effect,
    pub headers: Vec<(String, String)>,
    pub session: Option<Arc<String>>,
}

impl Core {
    pub fn new(url: &Url, given: &[Given], outlet: Arc<dyn Outlet>, bounds: &Bounds) -> Result<Arc<Self>, LinkError> {
        let headers = given.iter().map(|Given { name, value }| toolgate_egress::header(name, value));
        let headers = headers.collect::<Result<_, _>>().map_err(|error| LinkError::Place { why: error.to_string() })?;
        let session = ArcSwapOption::empty();
        Ok(Arc::new(Self { url: url.clone(), headers, outlet, session, bounds: bounds.clone() }))
    }

    fn request(&self, method: Method, url: Url, sending: &Sending<'_>) -> Result<Request, LinkError> {
        let mut request = Request::new(method, url);
        for (name, value) in &self.headers {
            request = request.with_secret(name.clone(), value.clone());
        }
        for (name, value) in &sending.headers {
            let (name, value) = toolgate_egress::header(name, value).map_err(LinkError::Egress)?;
            request.headers.insert(name, value);
        }
        if let Some(session) = &sending.session {
            let (name, value) = toolgate_egress::header(SESSION_HEADER, session).map_err(LinkError::Egress)?;
            request = request.with_secret(name, value);
        }
        // Whoever waits here for the answer gives up first, and knows better why.
        let left = sending.until.saturating_duration_since(Instant::now()) + SPARE;
        request.packing = Packing::Plain;
        request.effect = sending.effect;
        request.timeout = left;
        // Its own waits are bounded by the whole: a tool may take its time.
        request.limits = Limits {
            headers: left,
            idle: left.min(SILENT),
            rate_after: left,
            wire_bytes_max: self.bounds.stream_bytes_max,
            inflated_bytes_max: self.bounds.stream_bytes_max,
            ..Limits::default()
        };
        Ok(request)
    }

    /// Posts one message and gives back what was answered, unless it is a refusal.
    pub async fn post(&self, url: &Url, message: &Value, sending: &Sending<'_>) -> Result<Response, LinkError> {
        let mut request = self.request(Method::POST, url.clone(), sending)?;
        request.redirects = Redirects::Follow;
        request.headers.insert("content-type", HeaderValue::from_static("application/json"));
        request.headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        request.body = Bytes::from(message.to_string());
        self.send(request, sending).await
    }

    /// Opens a stream of events.
    pub async fn get(&self, url: &Url, last: Option<&str>, sending: &Sending<'_>) -> Result<Response, LinkError> {
        let mut request = self.request(Method::GET, url.clone(), sending)?;
        request.headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            let (name, value) = toolgate_egress::header("last-event-id", last).map_err(LinkError::Egress)?;
            request.headers.insert(name, value);
        }
        let response = self.send(request, sending).await?;
        if is(&response, "text/event-stream") {
            return Ok(response);
        }
        Err(LinkError::Unreadable { why: "it answers with no stream of events where one was asked for".to_owned() })
    }

    async fn send(&self, request: Request, sending: &Sending<'_>) -> Result<Response, LinkError> {
        let outlet = sending.outlet.unwrap_or(&self.outlet);
        let response = outlet.send(request).await.map_err(LinkError::Egress)?;
        if response.status.is_success() {
            return Ok(response);
        }
        Err(refused(response, sending.session.is_some(), sending.effect).await)
    }

    fn aside(&self, revision: Option<Revision>) -> Sending<'_> {
        let version = revision.map(|revision| (ASKED_VERSION_HEADER.to_owned(), revision.to_string()));
        Sending {
            outlet: None,
            until: Instant::now() + ASIDE,
            effect: Effect::Read,
            headers: version.into_iter().collect(),
            session: self.session.load_full(),
        }
    }

    /// Tells something that has no answer.
    pub async fn tell(&self, url: &Url, message: &Value, revision: Option<Revision>) -> Result<(), LinkError> {
        let mut sending = self.aside(revision);
        if let (Some(true), Some(method)) = (revision.map(Revision::is_stateless), message["method"].as_str()) {
            sending.headers.push((METHOD_HEADER.to_owned(), method.to_owned()));
        }
        self.post(url, message, &sending).await.map(drop)
    }

    pub fn back(self: &Arc<Self>, revision: Revision) -> Back {
        let core = Arc::clone(self);
        Arc::new(move |message| {
            let core = Arc::clone(&core);
            Box::pin(async move {
                if let Err(error) = core.tell(&core.url, &message, Some(revision)).await {
                    tracing::debug!("an upstream did not take an answer: {error}");
                }
            })
        })
    }

    /// Ends the session; a server that cannot is left to forget it.
    pub async fn leave(&self, revision: Revision) {
        if self.session.load().is_none() {
            return;
        }
        let sending = self.aside(Some(revision));
        if let Ok(request) = self.request(Method::DELETE, self.url.clone(), &sending) {
            let _ = self.send(request, &sending).await;
        }
    }

    /// One request and its answer.
    pub async fn ask(
        self: &Arc<Self>,
        desk: &Arc<Desk>,
        revision: Revision,
        method: &str,
        params: Map<String, Value>,
        exchange: &Exchange,
        until: Instant,
    ) -> Result<Value, LinkError> {
        let is_first = method == "initialize";
        let back = self.back(revision);
        // Where requests stand for themselves, the end of the stream says it.
        let cancels = (!is_first && !revision.is_stateless()).then(|| Arc::clone(&back));
        let mut headers: Vec<(String, String)> = Vec::new();
        if !is_first {
            headers.extend(
                headers_of(method, &params, revision).into_iter().map(|(name, value)| (name.to_owned(), value)),
            );
        }
        if revision.is_stateless() {
            headers.extend(param_headers(params.get("arguments"), &exchange.annotated));
        }
        let (mut ticket, request) = desk.enter(method, params, exchange, cancels)?;
        let session = self.session.load_full().filter(|_| !is_first && !revision.is_stateless());
        let sending = Sending { outlet: exchange.outlet.as_ref(), until, effect: exchange.effect, headers, session };
        let response = match self.post(&self.url, &request.to_value(), &sending).await {
            Ok(response) => response,
            Err(error) => {
                ticket.forget();
                return Err(error);
            }
        };
        if is_first {
            self.session.store(session_of(&response.headers)?.map(Arc::new));
        }
        if is(&response, "text/event-stream") {
            return self.listen(desk, &mut ticket, response, &sending, revision, &back).await;
        }
        ticket.forget();
        if !is(&response, "application/json") {
            let status = response.status.as_u16();
            let why = format!("it answers a request with status {status} and neither JSON nor a stream of events");
            return Err(LinkError::Unreadable { why });
        }
        for message in read::messages(&whole(response, self.bounds.message_bytes_max).await?, usize::MAX)? {
            desk.hear(message, Some(ticket.id), &back)?;
        }
        ticket.answer_now().unwrap_or_else(|| {
            Err(LinkError::Unreadable { why: "what it answered does not hold the answer to the request".to_owned() })
        })
    }

    /// Reads the stream of one request until its answer came. An older server may break it off and want us to come back.
    async fn listen(
        &self,
        desk: &Arc<Desk>,
        ticket: &mut Ticket,
        mut response: Response,
        sending: &Sending<'_>,
        revision: Revision,
        back: &Back,
    ) -> Result<Value, LinkError> {
        let mut events = Events::new(self.bounds.message_bytes_max);
        loop {
            let lost =
                self.events(desk, &mut response, &mut events, Some(ticket.id), back, || ticket.answer_now()).await?;
            let lost = match lost {
                Streamed::Answered(answer) => {
                    tokio::spawn(tokio::time::timeout(DRAIN, drain(response)));
                    return answer;
                }
                Streamed::Ended(lost) => lost,
            };
            let (false, Some(last)) = (revision.is_stateless(), events.last_id.clone()) else {
                ticket.forget();
                return Err(lost.unwrap_or_else(|| closed("its stream ended before the answer")));
            };
            tokio::time::sleep(events.retry.unwrap_or(RESUME).max(RESUME_MIN)).await;
            let resumed = Sending {
                outlet: sending.outlet,
                until: sending.until,
                effect: Effect::Read,
                headers: vec![(ASKED_VERSION_HEADER.to_owned(), revision.to_string())],
                session: sending.session.clone(),
            };
            response = match self.get(&self.url, Some(&last), &resumed).await {
                Ok(response) => response,
                // It is away for a moment; the caller's time ends this.
                Err(LinkError::Egress(error)) => {
                    tracing::debug!("an upstream's stream could not be taken up again: {error}");
                    continue;
                }
                Err(LinkError::Session) => return Err(closed("the server ended the session within the call")),
                Err(error) => return Err(error),
            };
            events = Events::new(self.bounds.message_bytes_max);
            events.last_id = Some(last);
        }
    }

    /// Hears what comes on a stream, until `done` has something or it ends.
    pub async fn events<T>(
        &self,
        desk: &Arc<Desk>,
        response: &mut Response,
        events: &mut Events,
        of: Option<i64>,
        back: &Back,
        mut done: impl FnMut() -> Option<T>,
    ) -> Result<Streamed<T>, LinkError> {
        let bytes_max = self.bounds.message_bytes_max;
        loop {
            let piece = match response.chunk().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Streamed::Ended(None)),
                Err(error) => return Ok(Streamed::Ended(Some(LinkError::Egress(error)))),
            };
            for event in events.push(&piece).map_err(|_| LinkError::TooLarge { bytes_max })? {
                // The first of a stream may hold nothing but where to go on.
                if event.data.is_empty() || !matches!(event.name.as_str(), "" | "message") {
                    continue;
                }
                for message in read::messages(&event.data, bytes_max)? {
                    desk.hear(message, of, back)?;
                }
            }
            if let Some(done) = done() {
                return Ok(Streamed::Answered(done));
            }
        }
    }

    /// The stream on which an older server tells what belongs to no request, until it ends.
    pub async fn attend(self: &Arc<Self>, desk: &Arc<Desk>, revision: Revision) -> Result<(), LinkError> {
        let mut sending = self.aside(Some(revision));
        sending.until = Instant::now() + Duration::from_hours(24);
        let mut response = self.get(&self.url, None, &sending).await?;
        let mut events = Events::new(self.bounds.message_bytes_max);
        let back = self.back(revision);
        match self.events(desk, &mut response, &mut events, None, &back, || None::<()>).await? {
            Streamed::Answered(()) | Streamed::Ended(None) => Ok(()),
            Streamed::Ended(Some(lost)) => Err(lost),
        }
    }
}

pub enum Streamed<T> {
    Answered(T),
    Ended(Option<LinkError>),
}

async fn drain(mut response: Response) {
    while let Ok(Some(_)) = response.chunk().await {}
}

pub async fn whole(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, LinkError> {
    let mut whole = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(LinkError::Egress)? {
        if whole.len() + piece.len() > bytes_max {
            return Err(LinkError::TooLarge { bytes_max });
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

fn is(response: &Response, kind: &str) -> bool {
    let named = response.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    named.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

fn session_of(headers: &HeaderMap) -> Result<Option<String>, LinkError> {
    let Some(session) = headers.get(SESSION_HEADER) else { return Ok(None) };
    let text = session.to_str().ok().filter(|text| {
        (1..=SESSION_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| (0x21..0x7f).contains(&byte))
    });
    match text {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(LinkError::Unreadable { why: "its session has no usable name".to_owned() }),
    }
}

/// What a status that is no success means. The body counts where it is an error of the protocol. That a session is gone is
/// believed by its status; by words only where sending again can do no harm, because anybody may use the word.
async fn refused(response: Response, had_session: bool, effect: Effect) -> LinkError {
    let status = response.status.as_u16();
    let retry_after_s = retry_after(&response.headers);
    match status {
        // Not everybody says 429.
        429 => return LinkError::Limited { retry_after_s },
        403 if retry_after_s.is_some() => return LinkError::Limited { retry_after_s },
        401 | 403 => return LinkError::AuthRequired { status, challenge: challenge(&response.headers) },
        404 if had_session => return LinkError::Session,
        500.. => return LinkError::Unavailable { status, retry_after_s },
        _ => {}
    }
    let body = whole(response, REFUSAL_BYTES_MAX).await.ok();
    match body.and_then(|body| error_in(&body)) {
        Some(error) if had_session && effect == Effect::Read && is_about_sessions(&error) => LinkError::Session,
        Some(error) => LinkError::Rpc(error),
        None => LinkError::Refused { status },
    }
}

fn error_in(body: &[u8]) -> Option<RpcError> {
    let mut messages = read::messages(body, REFUSAL_BYTES_MAX).ok()?;
    match messages.pop()? {
        Message::Answer(answer) => answer.outcome.err(),
        _ => None,
    }
}

/// Servers that have forgotten a session are to answer 404; many say it in words.
fn is_about_sessions(error: &RpcError) -> bool {
    matches!(error.code, -32000 | -32001 | code::INVALID_REQUEST)
        && error.message.to_ascii_lowercase().contains("session")
}

/// Seconds or a date, at most a day.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    const DAY_S: u64 = 24 * 60 * 60;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let wait = text("retry-after")?;
    if let Ok(seconds) = wait.parse::<u64>() {
        return Some(seconds.min(DAY_S));
    }
    let seconds = |date: &str| rfc2822::parse(date).ok().map(|date| date.timestamp().as_second());
    let left = seconds(wait)?.saturating_sub(seconds(text("date")?)?);
    Some(u64::try_from(left).unwrap_or(0).min(DAY_S))
}

/// The parameters of `WWW-Authenticate` that say where to go for credentials.
pub fn challenge(headers: &HeaderMap) -> Challenge {
    let mut found = Challenge::default();
    for value in headers.get_all("www-authenticate") {
        let Ok(text) = value.to_str() else { continue };
        for (name, value) in parameters(text) {
            let place = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut found.resource_metadata,
                "scope" => &mut found.scope,
                "error" => &mut found.error,
                _ => continue,
            };
            place.get_or_insert(value);
        }
    }
    found
}

/// `name=value` and `name="value"`, wherever they stand; a quoted value may hold commas and escaped quotes.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((head, after)) = rest.split_once('=') {
        let name = head.rsplit([' ', ',', '\t']).next().unwrap_or_default().to_owned();
        let mut value = String::new();
        let mut letters = after.char_indices();
        let mut end = after.len();
        if after.starts_with('"') {
            letters.next();
            while let Some((at, letter)) = letters.next() {
                match letter {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
                    _ => value.push(letter),
                }
            }
        } else {
            end = after.find([',', ' ']).unwrap_or(after.len());
            value.push_str(after.get(..end).unwrap_or_default());
        }
        if !name.is_empty() {
            found.push((name, value));
        }
        rest = after.get(end..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_where_to_get_credentials() {
        let mut headers = HeaderMap::new();
        let text =
            r#"Basic realm="a, b", Bearer error="invalid_token", resource_metadata="https://a.test/m?x=1", scope=read"#;
        headers.insert("www-authenticate", HeaderValue::from_static(text));
        let found = challenge(&headers);
        assert_eq!(found.resource_metadata.as_deref(), Some("https://a.test/m?x=1"));
        assert_eq!((found.scope.as_deref(), found.error.as_deref()), (Some("read"), Some("invalid_token")));
        assert_eq!(parameters(r#"Bearer a="x\"y", b="#), [("a".into(), "x\"y".into()), ("b".into(), String::new())]);
        assert_eq!(parameters(r#"Bearer a="never closed"#), [("a".into(), "never closed".into())]);
    }

    #[test]
    fn when_to_come_back_is_seconds_or_a_date() {
        let of = |retry: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_static(retry));
            headers.insert("date", HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
            retry_after(&headers)
        };
        assert_eq!(of("7"), Some(7));
        assert_eq!(of("99999999"), Some(86400));
        assert_eq!(of("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(of("soon"), None);
    }
}
