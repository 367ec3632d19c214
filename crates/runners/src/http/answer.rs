//! What came back: JSON, text or bytes; and what its status means for the caller.

use jiff::fmt::rfc2822;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::{ErrorCode, ToolError, ToolResult, json};
use toolgate_egress::{Effect, HeaderMap, Response, StatusCode, Url};
use toolgate_engine::runner::{Done, NewAttachment};
use toolgate_engine::{Call, Outcome};

use super::Failure;
use super::request::Declared;

/// The wire has a limit of its own; this is for what is kept in memory at once.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// An answer that went well, whole.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where it came from, after all redirects.
    pub url: Url,
    pub body: Body,
}

pub enum Body {
    Json(Value),
    Text(String),
    Bytes {
        content_type: String,
        bytes: Vec<u8>,
    },
    /// JSON that not every reader reads alike: with an integer that some round, with a name twice.
    Unread {
        text: String,
        why: json::Error,
    },
    Empty,
}

/// Reads the answer to its end, or says what its status means.
pub(super) async fn read(response: Response, effect: Effect) -> Result<Answer, Failure> {
    let (status, headers, hops, url) = (response.status, response.headers.clone(), response.hops, response.url.clone());
    let host = url.host_str().unwrap_or_default().to_owned();
    let bytes = match response.bytes_max(BODY_BYTES_MAX).await {
        Ok(bytes) => bytes,
        // The status is known, so for a write it is known what happened: only its words are lost.
        Err(error) if status.is_success() => return Err(Failure::of(error, effect)),
        Err(_) => toolgate_egress::Bytes::new(),
    };
    let body = body(&headers, bytes.to_vec());
    if status.is_success() {
        return Ok(Answer { status, headers, url, body });
    }
    let error = refused(status, &headers, &body, &host, effect);
    // A redirect after a write means that it was taken, and a gateway cannot know what the server behind it did.
    if effect == Effect::Write && (hops > 0 || matches!(status.as_u16(), 502 | 504)) {
        return Err(Failure::Unknown(error.message));
    }
    Err(Failure::Told(error))
}

fn body(headers: &HeaderMap, bytes: Vec<u8>) -> Body {
    if bytes.is_empty() {
        return Body::Empty;
    }
    let declared = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = media == "application/json" || media.ends_with("+json");
    if is_json || media.is_empty() || media == "text/plain" {
        match json::read(&bytes, BODY_BYTES_MAX) {
            Ok(value) if is_json || value.is_object() || value.is_array() => return Body::Json(value),
            Err(why) if is_json => {
                let text = std::str::from_utf8(&bytes).ok();
                if let Some(text) = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()) {
                    return Body::Unread { text: text.to_owned(), why };
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
    let is_text = is_json || media.is_empty() || media.starts_with("text/") || TEXTUAL.contains(&media.as_str());
    match String::from_utf8(bytes) {
        Ok(text) if is_text => Body::Text(text),
        Ok(text) => Body::Bytes { content_type: media, bytes: text.into_bytes() },
        Err(error) => {
            let content_type = if media.is_empty() || media.starts_with("text/") {
                "application/octet-stream".to_owned()
            } else {
                media
            };
            Body::Bytes { content_type, bytes: error.into_bytes() }
        }
    }
}

const TEXTUAL: [&str; 6] = [
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/x-yaml",
    "application/graphql",
    "application/x-ndjson",
];

/// The result: what `response` makes of it, or the body as it is.
pub(super) async fn outcome(
    declared: &Declared,
    call: &Call,
    answer: Answer,
    effect: Effect,
) -> Result<Outcome, Failure> {
    let Answer { status, headers, url, body } = answer;
    if let Body::Unread { why, .. } = &body {
        let host = url.host_str().unwrap_or_default();
        let error = ToolError::because(
            ErrorCode::ProviderError,
            "output_schema",
            format!("`{host}` answers with {}", unread(why)),
        );
        return unfit(error.with("host", host).with("pointer", why.pointer.as_str()), status, effect);
    }
    let Some(expression) = &declared.response else { return Ok(plain(body)) };
    let (body, attachment) = as_json(body);
    let variables = (json!(status.as_u16()), header_values(&headers), body, call.input.as_ref().clone());
    let expression = std::sync::Arc::clone(expression);
    let mapped = tokio::task::spawn_blocking(move || {
        let (status, headers, body, input) = &variables;
        expression.evaluate(&[("status", status), ("headers", headers), ("body", body), ("input", input)])
    });
    let why = match mapped.await {
        Ok(Ok(value)) => {
            return Ok(Outcome::Done(Done {
                result: ToolResult::structured(value),
                attachments: attachment.into_iter().collect(),
                ..Done::default()
            }));
        }
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    let message =
        format!("the other side answered, and the tool's `response` expression does not fit its answer: {why}");
    unfit(ToolError::because(ErrorCode::ProviderError, "output_schema", message), status, effect)
}

/// Of an answer that cannot be used.
fn unfit(error: ToolError, status: StatusCode, effect: Effect) -> Result<Outcome, Failure> {
    match effect {
        Effect::Read => Err(error.into()),
        // It happened, whatever its answer looks like: a failure would be tried again.
        Effect::Write => Ok(Outcome::structured(json!({"status": status.as_u16(), "unmapped": error.message}))),
    }
}

/// What is wrong with JSON that was not read.
pub fn unread(why: &json::Error) -> String {
    format!("JSON that cannot be used: {why}")
}

fn plain(body: Body) -> Outcome {
    match body {
        Body::Json(value) => Outcome::structured(value),
        // That it was not read was told before.
        Body::Text(text) | Body::Unread { text, .. } => {
            Outcome::Done(Done { result: ToolResult::text(text), ..Done::default() })
        }
        Body::Empty => Outcome::structured(json!({})),
        Body::Bytes { content_type, bytes } => {
            let result = ToolResult::structured(json!({"content_type": content_type, "bytes": bytes.len()}));
            Outcome::Done(Done { result, attachments: vec![attachment(content_type, bytes)], ..Done::default() })
        }
    }
}

fn as_json(body: Body) -> (Value, Option<NewAttachment>) {
    match body {
        Body::Json(value) => (value, None),
        Body::Text(text) | Body::Unread { text, .. } => (Value::String(text), None),
        Body::Empty => (Value::Null, None),
        Body::Bytes { content_type, bytes } => {
            (json!({"content_type": content_type, "bytes": bytes.len()}), Some(attachment(content_type, bytes)))
        }
    }
}

pub fn attachment(content_type: String, bytes: Vec<u8>) -> NewAttachment {
    let kind = if content_type.starts_with("image/") { AttachmentKind::Image } else { AttachmentKind::Blob };
    NewAttachment { kind, content_type, bytes }
}

/// Names in lower case; of a header that comes several times the first counts.
fn header_values(headers: &HeaderMap) -> Value {
    let mut values = Map::new();
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        values.entry(name.as_str()).or_insert(Value::String(text));
    }
    Value::Object(values)
}

fn refused(status: StatusCode, headers: &HeaderMap, body: &Body, host: &str, effect: Effect) -> ToolError {
    let number = status.as_u16();
    let said = match status.canonical_reason() {
        Some(reason) => format!("`{host}` answers {number} {reason}"),
        None => format!("`{host}` answers {number}"),
    };
    let (code, reason, message) = match number {
        // Not everybody says 429.
        403 if headers.contains_key("retry-after") || is_spent(headers) => {
            (ErrorCode::RateLimit, "upstream", format!("{said}: it is asked too often; wait and try again"))
        }
        401 | 403 => (
            ErrorCode::AuthRequired,
            "upstream",
            format!("{said}: it does not accept the credentials of this tool; look at its secret"),
        ),
        429 => (ErrorCode::RateLimit, "upstream", format!("{said}: it is asked too often; wait and try again")),
        300..=499 => (ErrorCode::ProviderError, "upstream_4xx", format!("{said}: it does not accept the request")),
        _ => (ErrorCode::ProviderError, "upstream_5xx", format!("{said}: it has a problem of its own")),
    };
    let mut error = ToolError::because(code, reason, message).with("status", number).with("host", host);
    if let Some(seconds) = retry_after(headers) {
        error = error.retry_after(seconds);
    }
    if effect == Effect::Write && number == 500 {
        error = error.with("perhaps_happened", true);
    }
    // Whole: it is cut where the secrets are taken out of it.
    match body {
        Body::Json(value) => error.with("body", value.to_string()),
        Body::Text(text) | Body::Unread { text, .. } => error.with("body", text.as_str()),
        Body::Bytes { .. } | Body::Empty => error,
    }
}

/// That nothing is left of what it lets one ask, as GitHub and others say it.
fn is_spent(headers: &HeaderMap) -> bool {
    headers.get("x-ratelimit-remaining").is_some_and(|left| left.as_bytes() == b"0")
}

/// Seconds or a date, at most a day; else when there is something left again.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    const DAY_S: u64 = 24 * 60 * 60;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let at = match text("retry-after") {
        Some(wait) => match wait.parse::<u64>() {
            Ok(seconds) => return Some(seconds.min(DAY_S)),
            Err(_) => rfc2822::parse(wait).ok()?.timestamp().as_second(),
        },
        None if is_spent(headers) => text("x-ratelimit-reset")?.parse().ok()?,
        None => return None,
    };
    let answered = rfc2822::parse(text("date")?).ok()?.timestamp().as_second();
    Some(u64::try_from(at.saturating_sub(answered)).unwrap_or(0).min(DAY_S))
}
