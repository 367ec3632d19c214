//! The kind `openapi`: one operation of a document that was imported. What goes out is made here of the definition and
//! the arguments; it is sent, and its answer read, as that of the kind `http`.
//!
//! Invariant: an argument fills the parameter or the part of the body that the definition names, written as the document
//! says it is. Deliberately absent: the document, of which nothing is read again.

mod multipart;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use toolgate_contracts::runner::{Openapi, OperationBody, OperationParameter, ParameterPlace, ParameterStyle};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::{HeaderName, HeaderValue, Method, Request, Template, URL_BYTES_MAX, header};

use self::multipart::{MULTIPART, Multipart};
use crate::http::request::{encoded, plain, wrong};

/// RFC 3986's unreserved characters stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// INVARIANT: the template and the headers in it were read.
pub(crate) struct Operation {
    url: Template,
    /// The parameter that carries the secret.
    key: Option<String>,
    parameters: Vec<OperationParameter>,
    body: Option<OperationBody>,
    content_type: Option<HeaderValue>,
    accept: Option<HeaderValue>,
}

impl Operation {
    pub fn read(operation: &Openapi) -> Result<Self, ToolError> {
        let Openapi { document: _, digest: _, operation: _, method: _, server, path, parameters, body, auth, accept } =
            operation;
        let url = Template::parse(&format!("{server}{path}")).map_err(|error| wrong(&format!("`path`: {error}")))?;
        for parameter in parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Header) {
            header(&parameter.name, "").map_err(|error| wrong(&format!("`parameters`: {error}")))?;
        }
        let value = |member: &str, text: &str| {
            HeaderValue::from_str(text).map_err(|_| wrong(&format!("`{member}` is no media type")))
        };
        Ok(Self {
            url,
            key: auth.as_ref().and_then(|auth| auth.query.clone()),
            parameters: parameters.clone(),
            content_type: body.as_ref().map(|body| value("content_type", &body.content_type)).transpose()?,
            body: body.clone(),
            accept: accept.as_deref().map(|accept| value("accept", accept)).transpose()?,
        })
    }

    /// An object whose members become parameters of their own names no other parameter, nor the key's: what was decided
    /// about those would be worth nothing.
    fn check_members(&self, parameter: &OperationParameter, value: &Value) -> Result<(), ToolError> {
        let is_spread = parameter.explodes() && parameter.effective_style() == ParameterStyle::Form;
        let Some(members) = value.as_object().filter(|_| is_spread) else { return Ok(()) };
        let taken = |name: &String| {
            let mut others = self.parameters.iter().filter(|other| other.place == ParameterPlace::Query);
            others.any(|other| other.name == *name) || self.key.as_ref() == Some(name)
        };
        match members.keys().find(|name| taken(name)) {
            None => Ok(()),
            Some(name) => {
                let argument = parameter.argument();
                let message =
                    format!("`{argument}`: its member `{name}` is another parameter's name; give that one itself");
                let error = ToolError::because(ErrorCode::ValidationError, "schema", message);
                Err(error.with("pointer", format!("/{argument}/{}", toolgate_contracts::json::escape(name))))
            }
        }
    }

    /// Without its secret.
    pub fn request(&self, method: &Method, input: &Value) -> Result<Request, ToolError> {
        let given =
            |parameter: &OperationParameter| input.get(parameter.argument()).filter(|value| !value.is_null()).cloned();
        let in_path = |name: &str| {
            let mut places = self.parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Path);
            let parameter = places.find(|parameter| parameter.name == name)?;
            in_segment(parameter, &given(parameter)?)
        };
        let mut url = self.url.render_encoded(in_path)?;
        let mut query = Query::default();
        let mut headers = Vec::new();
        for parameter in &self.parameters {
            let Some(value) = given(parameter) else { continue };
            match parameter.place {
                ParameterPlace::Path => {}
                ParameterPlace::Query => {
                    self.check_members(parameter, &value)?;
                    query.parameter(parameter, &value);
                }
                ParameterPlace::Header => {
                    if let Some(text) = written(parameter, &value) {
                        headers.push(header(&parameter.name, &text)?);
                    }
                }
            }
        }
        if !query.0.is_empty() {
            url.set_query(Some(&query.0.join("&")));
        }
        if url.as_str().len() > URL_BYTES_MAX {
            let message = format!("the address has more than {URL_BYTES_MAX} bytes; give shorter arguments");
            return Err(ToolError::because(ErrorCode::ValidationError, "schema", message));
        }
        let mut request = Request::new(method.clone(), url);
        if let Some(accept) = &self.accept {
            request.headers.insert(HeaderName::from_static("accept"), accept.clone());
        }
        request.headers.extend(headers);
        if let (Some(body), Some(content_type)) = (&self.body, &self.content_type)
            && let Some(content) = content(body, input)
        {
            if body.content_type.starts_with(MULTIPART) {
                let Multipart { content_type, bytes } = Multipart::of(body, &content)?;
                request.headers.insert(HeaderName::from_static("content-type"), content_type);
                request.body = bytes.into();
            } else {
                request.headers.insert(HeaderName::from_static("content-type"), content_type.clone());
                request.body = encoded(&mut request, &content)?;
            }
        }
        Ok(request)
    }
}

/// The arguments that are the body; `None` where none was given and none is needed.
fn content(body: &OperationBody, input: &Value) -> Option<Value> {
    if let Some(argument) = &body.argument {
        return input.get(argument).cloned();
    }
    let given = body.members.iter().filter_map(|name| Some((name.clone(), input.get(name)?.clone())));
    let members: Map<String, Value> = given.collect();
    (body.required || !members.is_empty()).then_some(Value::Object(members))
}

/// In a path: one segment, encoded but for the signs between its parts; `None` where there is nothing to write.
fn in_segment(parameter: &OperationParameter, value: &Value) -> Option<String> {
    let (name, explodes) = (encode(&parameter.name), parameter.explodes());
    let texts = |items: &[Value]| items.iter().filter_map(plain).map(|text| encode(&text)).collect::<Vec<_>>();
    let pairs = |members: &Map<String, Value>, between: &str| {
        let pair =
            |(name, value): (&String, &Value)| Some(format!("{}{between}{}", encode(name), encode(&plain(value)?)));
        members.iter().filter_map(pair).collect::<Vec<_>>()
    };
    match (parameter.effective_style(), value) {
        (ParameterStyle::Label, Value::Array(items)) => {
            Some(format!(".{}", texts(items).join(if explodes { "." } else { "," })))
        }
        (ParameterStyle::Label, Value::Object(members)) if explodes => {
            Some(format!(".{}", pairs(members, "=").join(".")))
        }
        (ParameterStyle::Label, Value::Object(members)) => Some(format!(".{}", pairs(members, ",").join(","))),
        (ParameterStyle::Label, value) => Some(format!(".{}", encode(&plain(value)?))),
        (ParameterStyle::Matrix, Value::Array(items)) if explodes => {
            let each: Vec<String> = texts(items).iter().map(|text| format!(";{name}={text}")).collect();
            Some(each.concat())
        }
        (ParameterStyle::Matrix, Value::Array(items)) => Some(format!(";{name}={}", texts(items).join(","))),
        (ParameterStyle::Matrix, Value::Object(members)) if explodes => {
            let each: Vec<String> = pairs(members, "=").iter().map(|pair| format!(";{pair}")).collect();
            Some(each.concat())
        }
        (ParameterStyle::Matrix, Value::Object(members)) => Some(format!(";{name}={}", pairs(members, ",").join(","))),
        (ParameterStyle::Matrix, value) => match plain(value)? {
            empty if empty.is_empty() => Some(format!(";{name}")),
            text => Some(format!(";{name}={}", encode(&text))),
        },
        _ => written(parameter, value).map(|text| encode(&text)),
    }
}

/// In a header, or simply in a path: one text, with commas between what a list or an object holds.
fn written(parameter: &OperationParameter, value: &Value) -> Option<String> {
    match (parameter.effective_style(), value) {
        (ParameterStyle::Json, value) => Some(value.to_string()),
        (_, Value::Array(items)) => Some(items.iter().filter_map(plain).collect::<Vec<_>>().join(",")),
        (_, Value::Object(members)) => {
            let between = if parameter.explodes() { "=" } else { "," };
            let pairs = members.iter().filter_map(|(name, value)| Some(format!("{name}{between}{}", plain(value)?)));
            Some(pairs.collect::<Vec<_>>().join(","))
        }
        (_, value) => plain(value),
    }
}

/// `name=value`, each encoded.
#[derive(Default)]
struct Query(Vec<String>);

impl Query {
    fn parameter(&mut self, parameter: &OperationParameter, value: &Value) {
        let name = parameter.name.as_str();
        let explodes = parameter.explodes();
        let between = match parameter.effective_style() {
            ParameterStyle::Json => return self.pair(name, &value.to_string()),
            ParameterStyle::DeepObject => return self.deep(name, value),
            ParameterStyle::SpaceDelimited => "%20",
            ParameterStyle::PipeDelimited => "%7C",
            ParameterStyle::Form | ParameterStyle::Simple | ParameterStyle::Label | ParameterStyle::Matrix => ",",
        };
        match value {
            Value::Array(items) if explodes => {
                for text in items.iter().filter_map(plain) {
                    self.pair(name, &text);
                }
            }
            Value::Object(members) if explodes => {
                for (name, value) in members {
                    if let Some(text) = plain(value) {
                        self.pair(name, &text);
                    }
                }
            }
            Value::Array(items) => self.listed(name, items.iter().filter_map(plain), between),
            Value::Object(members) => {
                let parts = members.iter().filter_map(|(name, value)| Some([name.clone(), plain(value)?]));
                self.listed(name, parts.flatten(), between);
            }
            value => {
                if let Some(text) = plain(value) {
                    self.pair(name, &text);
                }
            }
        }
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.0.push(format!("{}={}", encode(name), encode(value)));
    }

    fn listed(&mut self, name: &str, parts: impl Iterator<Item = String>, between: &str) {
        let parts: Vec<String> = parts.map(|part| encode(&part)).collect();
        if !parts.is_empty() {
            self.0.push(format!("{}={}", encode(name), parts.join(between)));
        }
    }

    /// `filter[owner][name]=x`; a list is its place several times.
    fn deep(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                for (member, value) in members {
                    self.deep(&format!("{name}[{member}]"), value);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.deep(name, item);
                }
            }
            value => {
                if let Some(text) = plain(value) {
                    self.pair(name, &text);
                }
            }
        }
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}
