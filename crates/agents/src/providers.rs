//! One file for each manner of speaking to a model. Each makes the body of a request and reads what comes back, whole or
//! event by event; none sends anything.

pub(crate) mod anthropic;
pub(crate) mod gemini;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
pub mod scripted;
pub(crate) mod xml;

use serde_json::{Map, Value};
use toolgate_egress::Url;

use crate::error::{ErrorKind, ModelError};
use crate::fold::{Delta, End};
use crate::model::Request;
use crate::provider::Kind;
use crate::wire::Form;

pub(crate) trait Dialect: Send + Sync {
    fn kind(&self) -> Kind;

    /// Where the vendor is, if there is one.
    fn base(&self) -> Option<&'static str>;

    /// The header that carries the key, and what stands before it.
    fn key(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn url(&self, base: &Url, request: &Request, form: Form) -> Result<Url, ModelError>;

    /// All but the author's own parameters.
    fn body(&self, base: &Url, request: &Request, form: Form) -> Result<Map<String, Value>, ModelError>;

    /// Parameters that are set here, whether a request has them or not.
    fn reserved(&self) -> &'static [&'static str];

    fn reader(&self, request: &Request) -> Box<dyn Reader>;
}

/// Of one answer, which comes whole or as events.
pub(crate) trait Reader: Send {
    fn whole(&mut self, document: Value, deltas: &mut Vec<Delta>) -> Result<End, ModelError>;

    /// `Some` where the event says that the answer is whole.
    fn event(&mut self, data: &[u8], deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError>;

    /// The events are over. `None` where that means that some are missing.
    fn close(&mut self, deltas: &mut Vec<Delta>) -> Result<Option<End>, ModelError> {
        let _ = deltas;
        Ok(None)
    }
}

pub(crate) fn dialect(kind: Kind) -> Option<&'static dyn Dialect> {
    match kind {
        Kind::OpenaiChat => Some(&openai_chat::OpenaiChat),
        Kind::OpenaiResponses => Some(&openai_responses::OpenaiResponses),
        Kind::Anthropic => Some(&anthropic::Anthropic),
        Kind::Gemini => Some(&gemini::Gemini),
        Kind::Xml => Some(&xml::Xml),
        Kind::Scripted => None,
    }
}

/// The body with the author's parameters, which may add and never replace.
pub(crate) fn body(
    dialect: &dyn Dialect,
    base: &Url,
    request: &Request,
    form: Form,
) -> Result<Map<String, Value>, ModelError> {
    let mut body = dialect.body(base, request, form)?;
    let mut params: Vec<_> = request.params.iter().collect();
    params.sort_by_key(|(name, _)| *name);
    for (name, value) in params {
        if dialect.reserved().contains(&name.as_str()) {
            let message =
                format!("the parameter `{name}` of the model is set by Toolgate; leave it out of `model_params`");
            return Err(ModelError::new(ErrorKind::Invalid, message).with("pointer", format!("/model_params/{name}")));
        }
        // Two names for one limit; the newer is ours where it is known.
        let name = if name == "max_tokens" && body.contains_key("max_completion_tokens") {
            "max_completion_tokens"
        } else {
            name.as_str()
        };
        match body.get_mut(name) {
            Some(ours) => tighten(ours, value),
            None => {
                body.insert(name.to_owned(), value.clone());
            }
        }
    }
    Ok(body)
}

/// Of two limits the stricter holds, members of objects are put together, and else what is ours stands.
fn tighten(ours: &mut Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in theirs {
                match ours.get_mut(name) {
                    Some(ours) => tighten(ours, value),
                    None => {
                        ours.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (ours, theirs) => {
            if let (Some(most), Some(less)) = (ours.as_u64(), theirs.as_u64())
                && less < most
            {
                *ours = theirs.clone();
            }
        }
    }
}

/// The base with segments of a path behind it, each escaped.
pub(crate) fn below(base: &Url, segments: &[&str]) -> Result<Url, ModelError> {
    let mut url = base.clone();
    url.path_segments_mut()
        .map_err(|()| ModelError::new(ErrorKind::Invalid, "the provider's `base_url` can have no path"))?
        .pop_if_empty()
        .extend(segments);
    Ok(url)
}

/// A member that is text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A member that counts something; what is none counts nothing.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Arguments that came as JSON and not as text.
pub(crate) fn arguments(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Arguments for a provider that wants an object: what the model wrote, or nothing if it wrote none.
pub(crate) fn object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(members)) => Value::Object(members),
        _ => Value::Object(Map::new()),
    }
}
