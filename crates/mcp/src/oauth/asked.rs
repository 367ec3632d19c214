//! One request and its answer as JSON: documents and forms.

use std::time::Duration;

use serde_json::Value;
use toolgate_contracts::json as strict;
use toolgate_egress::{Bytes, HeaderValue, Method, Request, StatusCode, Url};

use super::{DOCUMENT_BYTES_MAX, OauthError, shown, wrong};
use crate::upstream::Outlet;

const PATIENCE: Duration = Duration::from_secs(20);

/// A document, or `None` where there is none.
pub async fn document(outlet: &dyn Outlet, at: Url) -> Result<Option<Value>, OauthError> {
    let mut request = Request::get(at.clone());
    request.timeout = PATIENCE;
    request.headers.insert("accept", HeaderValue::from_static("application/json"));
    let answer = outlet.send(request).await.map_err(OauthError::Egress)?;
    if answer.status.is_server_error() {
        return Err(wrong(format!("`{at}` answers {}", answer.status)));
    }
    if answer.status != StatusCode::OK {
        return Ok(None);
    }
    let bytes = answer.bytes_max(DOCUMENT_BYTES_MAX).await.map_err(OauthError::Egress)?;
    let read = strict::read(&bytes, DOCUMENT_BYTES_MAX).ok().filter(Value::is_object);
    read.map(Some).ok_or_else(|| wrong(format!("`{at}` answers with no JSON object")))
}

/// Posts something and reads the object that is answered; a refusal is told in the words of the other side.
pub async fn posted(
    outlet: &dyn Outlet,
    at: &Url,
    kind: &'static str,
    body: String,
    authorization: Option<HeaderValue>,
) -> Result<Value, OauthError> {
    let mut request = Request::new(Method::POST, at.clone());
    request.timeout = PATIENCE;
    request.headers.insert("accept", HeaderValue::from_static("application/json"));
    request.headers.insert("content-type", HeaderValue::from_static(kind));
    if let Some(value) = authorization {
        request = request.with_secret(toolgate_egress::HeaderName::from_static("authorization"), value);
    }
    request.body = Bytes::from(body);
    let answer = outlet.send(request).await.map_err(OauthError::Egress)?;
    let status = answer.status;
    let bytes = answer.bytes_max(DOCUMENT_BYTES_MAX).await.map_err(OauthError::Egress)?;
    let read = strict::read(&bytes, DOCUMENT_BYTES_MAX).ok().filter(Value::is_object);
    match read {
        Some(object) if status.is_success() && object.get("error").is_none() => Ok(object),
        None if status.is_success() => Err(wrong(format!("`{at}` answers with no JSON object"))),
        read => {
            let text = |member: &str| read.as_ref()?.get(member)?.as_str().map(shown);
            let error = text("error").unwrap_or_else(|| format!("status {}", status.as_u16()));
            Err(OauthError::Refused { error, description: text("error_description") })
        }
    }
}

/// Names and values as a form or the query of an address has them.
pub fn form<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let Ok(mut url) = Url::parse("https://form.invalid/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

/// One text as a form has it.
pub fn encoded(text: &str) -> String {
    form([("", text)]).trim_start_matches('=').to_owned()
}
