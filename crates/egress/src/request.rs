//! What is sent, and what of it only the connector may set.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use url::Url;

use crate::error::{EgressError, Rule};
use crate::limits::{Limits, REQUEST_BYTES_MAX, REQUEST_HEADER_BYTES_MAX, REQUEST_TIMEOUT_DEFAULT};
use crate::target::Target;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// The answer is handed back as it is.
    Return,
    /// At most [`crate::limits::HOPS_MAX`] are followed, each judged like a first request.
    Follow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    /// It changes something on the other side: never repeated on its own, never carried to another origin.
    Write,
}

/// How an answer may be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    /// For streams that are read while they come: what inflates holds back until it has enough.
    Plain,
}

/// No `Debug`: headers hold secrets.
#[derive(Clone)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub redirects: Redirects,
    pub packing: Packing,
    pub effect: Effect,
    /// Headers whose values are secrets: another origin never gets them. Only a `Cookie` that is named here may be set.
    pub secret_headers: Vec<HeaderName>,
    /// For everything, the reading of the answer included.
    pub timeout: Duration,
    pub limits: Limits,
}

impl Request {
    pub fn new(method: Method, url: Url) -> Self {
        let effect = if is_safe(&method) { Effect::Read } else { Effect::Write };
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            redirects: Redirects::Return,
            packing: Packing::Gzip,
            effect,
            secret_headers: Vec::new(),
            timeout: REQUEST_TIMEOUT_DEFAULT,
            limits: Limits::default(),
        }
    }

    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Adds a header whose value is a secret.
    #[must_use]
    pub fn with_secret(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.insert(name.clone(), value);
        self.secret_headers.push(name);
        self
    }

    pub(crate) fn check(&self) -> Result<(), EgressError> {
        if matches!(self.method, Method::CONNECT | Method::TRACE) {
            let told = format!("the method `{}` is not sent", self.method);
            return Err(EgressError::new(Rule::Header, told, "use GET, HEAD, POST, PUT, PATCH or DELETE"));
        }
        if self.body.len() > REQUEST_BYTES_MAX {
            let told = format!("the body has {} bytes, {REQUEST_BYTES_MAX} at most are sent", self.body.len());
            return Err(EgressError::new(Rule::Header, told, "send less, or in parts"));
        }
        for name in self.headers.keys() {
            let is_secret_cookie = name == header::COOKIE && self.secret_headers.contains(name);
            if !may_set(name) && !is_secret_cookie {
                let told = format!("the header `{name}` is not the caller's to set");
                return Err(EgressError::new(Rule::Header, told, "leave it out: the connector sets what is needed"));
            }
        }
        let bytes: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if bytes > REQUEST_HEADER_BYTES_MAX {
            let told = format!("the headers have {bytes} bytes, {REQUEST_HEADER_BYTES_MAX} at most are sent");
            return Err(EgressError::new(Rule::Header, told, "send less, or in the body"));
        }
        Ok(())
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// What frames the message, names the host or steers what is in between is set by the connector alone.
fn may_set(name: &HeaderName) -> bool {
    const KEPT: [&str; 13] = [
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    ];
    !name.as_str().starts_with("proxy-") && !KEPT.contains(&name.as_str())
}

/// A header from text that somebody wrote: a name and a value that cannot end early and begin another.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), EgressError> {
    let shown = |text: &str| text.chars().take(80).flat_map(char::escape_debug).collect::<String>();
    let Ok(parsed) = HeaderName::try_from(name) else {
        let told = format!("`{}` is no name of a header", shown(name));
        return Err(EgressError::new(Rule::Header, told, "use letters, digits and `-`"));
    };
    if !may_set(&parsed) {
        let told = format!("the header `{parsed}` is not the caller's to set");
        return Err(EgressError::new(Rule::Header, told, "leave it out: the connector sets what is needed"));
    }
    let Ok(value) = HeaderValue::from_str(value) else {
        let told = format!("the value of the header `{parsed}` holds a line break or a character that is not ASCII");
        return Err(EgressError::new(Rule::Header, told, "give one line of printable ASCII characters"));
    };
    Ok((parsed, value))
}

/// What the next hop is sent, or `None` where the answer is no redirect.
pub(crate) fn redirected(
    request: &Request,
    from: &Target,
    status: StatusCode,
    answer: &HeaderMap,
) -> Result<Option<Request>, EgressError> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = answer.get(header::LOCATION).filter(|_| is_redirect) else { return Ok(None) };
    let next = location.to_str().ok().and_then(|location| request.url.join(location).ok());
    let Some(mut url) = next else {
        let told = format!("`{from}` redirects to something that is no URL");
        return Err(EgressError::new(Rule::Redirects, told, "ask the host's owner").of(from));
    };
    url.set_fragment(None);
    let to = Target::of(&url)?;
    let mut next = request.clone();
    next.url = url;

    // As browsers do it: a 303 asks for another thing, and a POST became a GET on 301 and 302 before there was a 307.
    let becomes_get = match status.as_u16() {
        303 => request.method != Method::HEAD,
        301 | 302 => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        next.method = Method::GET;
        next.body = Bytes::new();
        next.effect = Effect::Read;
        let contents: Vec<HeaderName> =
            next.headers.keys().filter(|name| name.as_str().starts_with("content-")).cloned().collect();
        for name in contents {
            next.headers.remove(name);
        }
    }
    if from.scheme == toolgate_contracts::Scheme::Https && to.scheme == toolgate_contracts::Scheme::Http {
        let told = format!("`{from}` redirects from `https` to `http`");
        return Err(EgressError::new(Rule::Redirect, told, "name the final URL, if it has `https`").of(&to));
    }
    if from.origin() != to.origin() {
        if next.effect == Effect::Write || !is_safe(&next.method) {
            let told = format!("`{from}` redirects a write to `{}`", to.authority());
            return Err(EgressError::new(Rule::Redirect, told, "name the final URL, if it is meant").of(&to));
        }
        next.headers.remove(header::AUTHORIZATION);
        next.headers.remove(header::COOKIE);
        for name in std::mem::take(&mut next.secret_headers) {
            next.headers.remove(name);
        }
    }
    Ok(Some(next))
}
