//! A declared request, read once, and what it becomes with a call's arguments.

use std::fmt::Write as _;
use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Map, Value};
use toolgate_contracts::runner::{Http, HttpAuth};
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_egress::{Bytes, HeaderName, HeaderValue, Method, Redirects, Request, Template, Url, header};
use toolgate_engine::Call;
use toolgate_engine::secrets::Secrets;
use toolgate_expression::{Expression, ExpressionError, JsonTemplate, Text};
use toolgate_vault::Secret;

use super::pages::Pages;
use crate::expression::other_kind;
use crate::openapi::Operation;

const FORM: &str = "application/x-www-form-urlencoded";

/// INVARIANT: every template and expression in it was read.
pub(super) struct Declared {
    method: Method,
    made: Made,
    auth: Option<HttpAuth>,
    pub pages: Option<Pages>,
    pub response: Option<Arc<Expression>>,
}

/// What the request is made of.
enum Made {
    Templates(Templates),
    Operation(Operation),
}

struct Templates {
    url: Template,
    query: Vec<(String, Text)>,
    headers: Vec<(HeaderName, Text)>,
    body: Option<JsonTemplate>,
}

impl Declared {
    pub fn read(definition: &Definition) -> Result<Self, ToolError> {
        let method = |method: toolgate_contracts::runner::Method| {
            method.as_str().parse::<Method>().map_err(|_| wrong("`method` is none"))
        };
        match &definition.runner {
            toolgate_contracts::Runner::Http(http) => Self::read_http(http, method(http.method)?),
            toolgate_contracts::Runner::Openapi(operation) => Ok(Self {
                method: method(operation.method)?,
                made: Made::Operation(Operation::read(operation)?),
                auth: operation.auth.clone(),
                pages: None,
                response: None,
            }),
            _ => Err(other_kind(definition, "http")),
        }
    }

    fn read_http(http: &Http, method: Method) -> Result<Self, ToolError> {
        let Http { method: _, url, query, headers, body, auth, pagination, response } = http;
        let named = |member: &str, error: &dyn std::fmt::Display| wrong(&format!("`{member}`: {error}"));
        let text = |member: &str, text: &str| Text::parse(text).map_err(|error| named(member, &error));
        let made = Templates {
            url: Template::parse(url).map_err(|error| named("url", &error))?,
            query: query
                .iter()
                .map(|(name, value)| Ok((name.clone(), text("query", value)?)))
                .collect::<Result<_, ToolError>>()?,
            headers: headers
                .iter()
                .map(|(name, value)| {
                    // The value stands for itself once more when it is filled in.
                    let (name, _) = header(name, "").map_err(|error| named("headers", &error))?;
                    Ok((name, text("headers", value)?))
                })
                .collect::<Result<_, ToolError>>()?,
            body: body
                .as_ref()
                .map(|body| JsonTemplate::parse(body).map_err(|error| named("body", &error)))
                .transpose()?,
        };
        Ok(Self {
            made: Made::Templates(made),
            auth: auth.clone(),
            pages: pagination.as_ref().map(|pages| Pages::read(&method, pages)).transpose()?,
            method,
            response: response
                .as_ref()
                .map(|cel| Expression::parse(cel).map(Arc::new).map_err(|error| named("response", &error)))
                .transpose()?,
        })
    }

    /// The parameter of the address that carries the secret, where one does.
    pub fn key_parameter(&self) -> Option<&str> {
        self.auth.as_ref().and_then(|auth| auth.query.as_deref())
    }

    /// With its secret, for the host that its owner lets it go to.
    pub fn request(&self, call: &Call, secrets: &Secrets) -> Result<Request, ToolError> {
        let request = self.planned(call)?;
        let Some(auth) = &self.auth else { return Ok(request) };
        // A secret that is not required and that nobody has: the request goes without.
        let Some(secret) = secrets.get(&auth.secret) else { return Ok(request) };
        match &auth.query {
            Some(parameter) if auth.header.is_none() => with_secret_in_query(request, secret, parameter),
            _ => with_secret(request, secret, auth.header.as_deref(), auth.scheme.as_deref()),
        }
    }

    /// Without its secret.
    pub fn planned(&self, call: &Call) -> Result<Request, ToolError> {
        let input = call.input.as_ref();
        let mut request = match &self.made {
            Made::Templates(templates) => templates.request(&self.method, input)?,
            Made::Operation(operation) => operation.request(&self.method, input)?,
        };
        request.redirects = Redirects::Follow;
        request.timeout = call.timeout;
        Ok(request)
    }

    /// The address for a dry run, a secret in it by its name.
    pub fn shown_url(&self, request: &Request) -> String {
        let mut url = request.url.to_string();
        if let Some(auth) = self.auth.as_ref().filter(|auth| auth.header.is_none())
            && let Some(parameter) = &auth.query
        {
            let separator = if request.url.query().is_some() { '&' } else { '?' };
            let _ = write!(url, "{separator}{parameter}=[secret:{}]", auth.secret);
        }
        url
    }

    /// Headers for a dry run, the secret by its name.
    pub fn shown_headers(&self, request: &Request) -> Map<String, Value> {
        let shown = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), Value::String(String::from_utf8_lossy(value.as_bytes()).into_owned()))
        };
        let mut headers: Map<String, Value> = request.headers.iter().map(shown).collect();
        if let Some(auth) = self.auth.as_ref().filter(|auth| auth.query.is_none() || auth.header.is_some()) {
            let name = auth.header.as_deref().unwrap_or("authorization").to_ascii_lowercase();
            headers.insert(name, Value::String(format!("[secret:{}]", auth.secret)));
        }
        headers
    }
}

impl Templates {
    fn request(&self, method: &Method, input: &Value) -> Result<Request, ToolError> {
        let mut url = self.url.render(|name| at_path(input, name).and_then(plain))?;
        for (name, text) in &self.query {
            append(&mut url, name, text.value(input).map_err(|error| filled("query", name, &error))?);
        }
        let mut request = Request::new(method.clone(), url);
        for (name, text) in &self.headers {
            let value = text.value(input).map_err(|error| filled("headers", name.as_str(), &error))?;
            let Some(value) = value.filter(|value| !value.is_null()).as_ref().and_then(plain) else { continue };
            let (name, value) = header(name.as_str(), &value)?;
            request.headers.insert(name, value);
        }
        if let Some(body) = &self.body {
            let body = body.filled(input).map_err(|error| filled("body", "", &error))?.unwrap_or(Value::Null);
            request.body = encoded(&mut request, &body)?;
        }
        Ok(request)
    }
}

/// A request with its secret in a header, `Authorization: Bearer` unless told otherwise, if its owner lets it go to the
/// host of the request.
pub fn with_secret(
    request: Request,
    secret: &Secret,
    header: Option<&str>,
    scheme: Option<&str>,
) -> Result<Request, ToolError> {
    let text = sendable(&request, secret)?;
    let value = match scheme {
        None if header.is_none() => format!("Bearer {text}"),
        None => text.to_owned(),
        // Who writes `user:password` as the secret means what Basic encodes.
        Some(scheme) if scheme.eq_ignore_ascii_case("basic") && text.contains(':') => {
            format!("{scheme} {}", BASE64.encode(text.as_bytes()))
        }
        Some(scheme) => format!("{scheme} {text}"),
    };
    let value = HeaderValue::from_str(&value).map_err(|_| unfit(secret))?;
    Ok(request.with_secret(auth_header(header)?, value))
}

/// The same for an API that takes its key in the address. Redirects often repeat the query, so none is followed.
fn with_secret_in_query(mut request: Request, secret: &Secret, parameter: &str) -> Result<Request, ToolError> {
    let text = sendable(&request, secret)?;
    request.redirects = Redirects::Return;
    request.url.query_pairs_mut().append_pair(parameter, text);
    Ok(request)
}

/// The secret as text, if its owner lets it go to the host of the request.
fn sendable<'s>(request: &Request, secret: &'s Secret) -> Result<&'s str, ToolError> {
    let host = request.url.host_str().unwrap_or_default();
    let name = secret.name();
    if !secret.may_go_to(host) {
        let message = format!(
            "the secret `{name}` may not go to `{host}`; its owner allows it with `toolgate secret allow {name} --host {host}`"
        );
        return Err(not_allowed(secret, message).with("host", host));
    }
    let text = secret.expose_text().map(|text| text.trim_end_matches(['\r', '\n']));
    text.filter(|text| !text.is_empty()).ok_or_else(|| unfit(secret))
}

fn unfit(secret: &Secret) -> ToolError {
    let name = secret.name();
    not_allowed(
        secret,
        format!("the secret `{name}` cannot stand in a header: it is empty, has a line break or is not text"),
    )
}

fn not_allowed(secret: &Secret, message: String) -> ToolError {
    ToolError::because(ErrorCode::AuthRequired, "secret_not_allowed", message).with("secret", secret.name())
}

fn auth_header(name: Option<&str>) -> Result<HeaderName, ToolError> {
    let name = name.unwrap_or("authorization");
    match header(name, "") {
        Ok((name, _)) => Ok(name),
        // The one header that only a secret may set.
        Err(_) if name.eq_ignore_ascii_case("cookie") => Ok(HeaderName::from_static("cookie")),
        Err(error) => Err(wrong(&format!("`auth`: {error}"))),
    }
}

/// JSON, unless the definition says by its own `Content-Type` that it is a form or text.
pub(crate) fn encoded(request: &mut Request, body: &Value) -> Result<Bytes, ToolError> {
    let content_type = HeaderName::from_static("content-type");
    let declared = request.headers.get(&content_type).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match body {
        Value::Object(members) if declared.starts_with(FORM) => Ok(form(members).into()),
        Value::String(text) if !declared.is_empty() && !declared.contains("json") => Ok(text.clone().into()),
        _ => {
            if declared.is_empty() {
                request.headers.insert(content_type, HeaderValue::from_static("application/json"));
            }
            serde_json::to_vec(body).map(Bytes::from).map_err(|error| wrong(&error.to_string()))
        }
    }
}

/// A list is the parameter several times; what is absent or null is left out.
fn append(url: &mut Url, name: &str, value: Option<Value>) {
    match value {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for item in &items {
                append(url, name, Some(item.clone()));
            }
        }
        Some(value) => {
            if let Some(text) = plain(&value) {
                url.query_pairs_mut().append_pair(name, &text);
            }
        }
    }
}

fn form(members: &Map<String, Value>) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in members {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                form.extend_pairs(items.iter().filter_map(|item| plain(item).map(|text| (name.as_str(), text))));
            }
            value => {
                form.extend_pairs(plain(value).map(|text| (name.as_str(), text)));
            }
        }
    }
    form.finish()
}

/// As it stands in a URL or a header; an object is JSON.
pub(crate) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// `address.city` is the member of a member.
fn at_path<'a>(input: &'a Value, path: &str) -> Option<&'a Value> {
    // A member whose own name has a dot comes first.
    input.get(path).or_else(|| path.split('.').try_fold(input, |value, step| value.get(step)))
}

fn filled(member: &str, name: &str, error: &ExpressionError) -> ToolError {
    let place = if name.is_empty() { member.to_owned() } else { format!("{member}.{name}") };
    let message = format!("the request's `{place}` cannot be filled in: {error}");
    ToolError::because(ErrorCode::ValidationError, "schema", message)
}

/// What the definition itself has wrong: registration refuses it, so it is of an older time or was not linted.
pub(crate) fn wrong(why: &str) -> ToolError {
    let message = format!("the tool's definition of its request cannot be used: {why}");
    ToolError::because(ErrorCode::SandboxError, "exception", message)
}
