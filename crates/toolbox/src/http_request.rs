//! Sends any request to any address. Whatever its method, it is a write: nobody knows what an address does.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::ToolError;
use toolgate_egress::{Bytes, Effect, HeaderName, HeaderValue, Method, Request};
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, cancelled, input, invalid};
use crate::outgoing;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    if call.cancel.is_cancelled() {
        return cancelled().into();
    }
    let (request, way) = match request(call).and_then(|request| Ok((request, outgoing::way(tools, call)?))) {
        Ok(ready) => ready,
        Err(error) => return error.into(),
    };
    outgoing::told(outgoing::ask(tools, call, &way, request).await)
}

pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let request = request(call)?;
    Ok(outgoing::planned(tools, call, &outgoing::way(tools, call)?, &request))
}

fn request(call: &Call) -> Result<Request, ToolError> {
    let Input { method, url, headers, body } = input(call)?;
    let known = METHODS.iter().find(|known| **known == method);
    let parsed = known.and_then(|known| known.parse::<Method>().ok());
    let Some(parsed) = parsed else {
        let shown: String = method.chars().take(20).flat_map(char::escape_debug).collect();
        return Err(invalid("method", format!("`{shown}` is none of {}", METHODS.join(", "))));
    };
    let mut request = outgoing::prepared(Request::new(parsed, outgoing::url("url", &url)?), call);
    outgoing::set_headers(&mut request, &headers)?;
    if let Some(body) = body.filter(|body| !body.is_null()) {
        if request.effect == Effect::Read {
            return Err(invalid("body", format!("a `{method}` has no body; put what it asks for into the address")));
        }
        let (bytes, content_type) = encoded(body);
        request
            .headers
            .entry(HeaderName::from_static("content-type"))
            .or_insert(HeaderValue::from_static(content_type));
        request.body = bytes;
    }
    Ok(request)
}

/// A text goes out as it is, everything else as JSON; a text that is JSON is named so.
fn encoded(body: Value) -> (Bytes, &'static str) {
    const JSON: &str = "application/json";
    match body {
        Value::String(text) => {
            let begins = text.trim_start().starts_with(['{', '[']);
            let is_json = begins && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            (text.into(), if is_json { JSON } else { "text/plain; charset=utf-8" })
        }
        value => (value.to_string().into(), JSON),
    }
}
