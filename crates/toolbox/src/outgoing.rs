//! What the functions that reach services have in common: a request from arguments, the way it goes, and an answer as
//! a result.
//!
//! Invariant: every request goes through `engine::Outside`. A host that the caller chose is judged like any other; one
//! that the operator wrote into an entry is open for the tool of that entry alone.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_contracts::{ErrorCode, Slug, ToolError, ToolResult};
use toolgate_egress::{Endpoint, Redirects, Request, Url, Way, header};
use toolgate_engine::runner::Done;
use toolgate_engine::{Call, Outcome};
use toolgate_runners::http::{Answer, Body, Failure, Trip, attachment, unavailable, unread};

use crate::builtin::{Tools, cancelled, invalid, to_mend};

const URL_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 50;
/// What of a text stands in the result; the whole is attached.
const TEXT_CHARS_MAX: usize = 64 * 1024;
const PREVIEW_BYTES: usize = 256;
/// Told of an answer: what says what it is, how old it is, and where to go on.
const TOLD_HEADERS: [&str; 8] = [
    "cache-control",
    "content-disposition",
    "content-length",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
];

/// An address that the caller gave.
pub(crate) fn url(member: &str, text: &str) -> Result<Url, ToolError> {
    if text.len() > URL_BYTES_MAX {
        let bytes = text.len();
        return Err(invalid(member, format!("it has {bytes} bytes, the limit is {URL_BYTES_MAX}")));
    }
    // The parser drops them without a word, so that two different texts would be one address.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(invalid(member, "it holds a space, a line break or a control character; percent-encode it"));
    }
    let mut url = Url::parse(text)
        .map_err(|error| invalid(member, format!("it is no address ({error}); write `https://host/path`")))?;
    url.set_fragment(None);
    Ok(url)
}

pub(crate) fn set_headers(request: &mut Request, headers: &BTreeMap<String, String>) -> Result<(), ToolError> {
    if headers.len() > HEADERS_MAX {
        return Err(invalid("headers", format!("there are {}, the limit is {HEADERS_MAX}", headers.len())));
    }
    for (name, value) in headers {
        let at = || format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        let (name, value) = header(name, value).map_err(|error| ToolError::from(error).with("pointer", at()))?;
        request.headers.insert(name, value);
    }
    Ok(())
}

/// A request of a call: redirects are followed and judged, and it ends with the call.
pub(crate) fn prepared(mut request: Request, call: &Call) -> Request {
    request.redirects = Redirects::Follow;
    request.timeout = call.timeout;
    request
}

/// The way out for a call whose destination the caller chose.
pub(crate) fn way(tools: &Tools, call: &Call) -> Result<Way, ToolError> {
    tools.outside.way_of(call).map_err(|fault| unavailable(&fault))
}

/// The way to a server that the operator wrote into an entry, which opens it.
pub(crate) fn way_to(tools: &Tools, call: &Call, server: &Url) -> Result<Way, ToolError> {
    let port = server.port_or_known_default().unwrap_or_default();
    let endpoint = Endpoint::parse(server.host_str().unwrap_or_default(), port)?;
    Ok(way(tools, call)?.to_endpoint(endpoint))
}

/// The address of an entry, without a last slash, so that paths are put behind it.
pub(crate) fn server(entry: &str, text: &str) -> Result<Url, ToolError> {
    let wrong =
        |why: &str| not_configured(entry, &format!("its `url` {why}; write `https://host` or `http://host:port`"));
    let mut url = Url::parse(text).map_err(|_| wrong("is no address"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("is neither `http` nor `https`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user or a password, which belong into a secret"));
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// An address below a server's, by the names of its path, each encoded.
pub(crate) fn below(server: &Url, names: &[&str]) -> Url {
    let mut url = server.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(names);
    }
    url
}

/// That the operator has not said, or said wrongly, what a tool uses.
pub(crate) fn not_configured(entry: &str, why: &str) -> ToolError {
    let message = format!("the operator's entry `{entry}` in `entries.yaml` cannot be used: {why}");
    to_mend(ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message), entry, None)
}

/// That what the operator said of a service cannot be read: then there is neither it nor what would be there without it.
pub(crate) fn readable(tools: &Tools, entry: &str, tenant: Option<&Slug>) -> Result<(), ToolError> {
    match tools.entries.wrong.told(entry, None, tenant) {
        Some(why) => Err(to_mend(ToolError::because(ErrorCode::SandboxError, "tier_unavailable", why), entry, None)),
        None => Ok(()),
    }
}

/// Sends a request, unless the call is cancelled before it is answered.
pub(crate) async fn ask(tools: &Tools, call: &Call, way: &Way, request: Request) -> Result<Answer, Failure> {
    let trip = Trip { outside: &tools.outside, call, way };
    let writes = request.effect == toolgate_egress::Effect::Write;
    tokio::select! {
        answer = trip.ask(request) => answer,
        () = call.cancel.cancelled() => Err(if writes {
            Failure::Unknown("the call was cancelled while its request was on the way".to_owned())
        } else {
            cancelled().into()
        }),
    }
}

/// The JSON of an answer.
pub(crate) fn json_of(answer: Answer) -> Result<Value, ToolError> {
    let host = answer.url.host_str().unwrap_or_default();
    match answer.body {
        Body::Json(value) => Ok(value),
        Body::Unread { why, .. } => Err(unexpected(host, &format!("answers with {}", unread(&why)))),
        Body::Text(_) | Body::Bytes { .. } | Body::Empty => {
            Err(unexpected(host, "answers with something that is no JSON; is it the right server?"))
        }
    }
}

/// That a server does not speak what is documented of it.
pub(crate) fn unexpected(host: &str, what: &str) -> ToolError {
    ToolError::because(ErrorCode::ProviderError, "output_schema", format!("`{host}` {what}")).with("host", host)
}

/// What the request would be, for a dry run.
pub(crate) fn planned(tools: &Tools, call: &Call, way: &Way, request: &Request) -> Value {
    let headers: Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), Value::String(String::from_utf8_lossy(value.as_bytes()).into_owned())))
        .collect();
    Trip { outside: &tools.outside, call, way }.plan(request, headers)
}

/// What a caller gets of an answer that it asked for by address.
pub(crate) fn told(answer: Result<Answer, Failure>) -> Outcome {
    let Answer { status, headers, url, body } = match answer {
        Ok(answer) => answer,
        Err(Failure::Told(error)) => return Outcome::Failed(without_credentials(error)),
        Err(unknown) => return unknown.into(),
    };
    let value = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let told_headers: Map<String, Value> =
        TOLD_HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), Value::String(value(name)?)))).collect();
    let mut output = json!({"status": status.as_u16(), "url": url.as_str(), "headers": told_headers});
    if let Some(content_type) = value("content-type") {
        output["content_type"] = Value::String(content_type);
    }
    let mut attachments = Vec::new();
    match body {
        Body::Empty => {}
        Body::Json(json) => output["json"] = json,
        // Whoever asks by address reads whatever comes; beside it stands what the server calls it.
        Body::Text(text) | Body::Unread { text, .. } => {
            output["bytes"] = json!(text.len());
            let end = text.char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| at);
            output["text"] = Value::String(text[..end.unwrap_or(text.len())].to_owned());
            if end.is_some() {
                output["truncated"] = Value::Bool(true);
                attachments.push(attachment("text/plain; charset=utf-8".to_owned(), text.into_bytes()));
            }
        }
        Body::Bytes { content_type, bytes } => {
            output["bytes"] = json!(bytes.len());
            output["preview"] = Value::String(preview(&bytes));
            attachments.push(attachment(content_type, bytes));
        }
    }
    Outcome::Done(Done { result: ToolResult::structured(output), attachments, ..Done::default() })
}

/// The first bytes, as far as they can be read: `%PDF-1.7·…`.
fn preview(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '·' };
    bytes.iter().take(PREVIEW_BYTES).map(shown).collect()
}

/// These functions have no secret that one could look at.
fn without_credentials(mut error: ToolError) -> ToolError {
    if error.code == ErrorCode::AuthRequired
        && let Some((said, _)) = error.message.split_once(": it does not accept")
    {
        error.message =
            format!("{said}: it wants credentials, and this tool has none; use a tool with a secret for it");
    }
    error
}
