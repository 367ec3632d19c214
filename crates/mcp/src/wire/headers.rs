//! The headers that repeat what a body says, so that others on the way can route by them. The gate decides on the body
//! alone; a header that says something else is refused, because somebody between may have believed it.

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::error::RpcError;
use super::message::Request;
use super::revision::Revision;

pub const ASKED_VERSION_HEADER: &str = "mcp-protocol-version";
pub const METHOD_HEADER: &str = "mcp-method";
pub const NAME_HEADER: &str = "mcp-name";
pub const SESSION_HEADER: &str = "mcp-session-id";
pub const PARAM_PREFIX: &str = "mcp-param-";

const BEGINS: &str = "=?base64?";
const ENDS: &str = "?=";

/// Compares the headers of a stateless request with its body. `header` gives a header's one value; a header that came
/// twice, or is not text, is `Err`. `annotated` are the arguments that a tool's schema wants repeated: the header's name
/// and where the argument is.
pub fn check_headers<'h>(
    request: &Request,
    header: impl Fn(&str) -> Result<Option<&'h str>, ()>,
    annotated: &[(String, String)],
) -> Result<(), RpcError> {
    let read = |name: &str| {
        let twice = || RpcError::header_mismatch(format!("the header `{name}` came twice, or is not text"));
        header(name).map_err(|()| twice())
    };
    let version = read(ASKED_VERSION_HEADER)?;
    let named = super::Meta::named(&request.params).and_then(Value::as_str);
    same(ASKED_VERSION_HEADER, version, named)?;
    same(METHOD_HEADER, read(METHOD_HEADER)?, Some(&request.method))?;
    if let Some(member) = named_by(&request.method) {
        let name = request.params.get(member).and_then(Value::as_str);
        let shown = read(NAME_HEADER)?.map(|text| decoded(NAME_HEADER, text)).transpose()?;
        same(NAME_HEADER, shown.as_deref(), name)?;
    }
    let arguments = request.params.get("arguments");
    for (header_name, pointer) in annotated {
        let header_name = format!("{PARAM_PREFIX}{}", header_name.to_ascii_lowercase());
        let argument = arguments.and_then(|arguments| arguments.pointer(pointer)).and_then(header_value);
        let shown = read(&header_name)?.map(|text| decoded(&header_name, text)).transpose()?;
        same(&header_name, shown.as_deref(), argument.as_deref())?;
    }
    Ok(())
}

/// Which member of a method's parameters stands in `Mcp-Name`.
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

fn same(header: &str, shown: Option<&str>, said: Option<&str>) -> Result<(), RpcError> {
    if shown == said {
        return Ok(());
    }
    Err(RpcError::header_mismatch(match (shown, said) {
        (None, _) => format!("the header `{header}` is missing"),
        (Some(_), None) => format!("the header `{header}` names what the body does not have"),
        (Some(_), Some(_)) => format!("the header `{header}` says something else than the body"),
    }))
}

/// A value as it stands in a header: what is not plain text is encoded.
fn decoded(header: &str, text: &str) -> Result<String, RpcError> {
    let Some(encoded) = text.strip_prefix(BEGINS).and_then(|text| text.strip_suffix(ENDS)) else {
        return Ok(text.to_owned());
    };
    let bytes = BASE64.decode(encoded.as_bytes()).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| RpcError::header_mismatch(format!("the header `{header}` holds no readable base64")))
}

/// How an argument is written in a header; what is neither text, whole number nor truth value has none.
pub fn header_value(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// A value as it is sent in a header.
pub fn encoded(text: &str) -> String {
    let plain = !text.is_empty()
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.starts_with(BEGINS);
    if plain { text.to_owned() } else { format!("{BEGINS}{}{ENDS}", BASE64.encode(text.as_bytes())) }
}

/// The headers of a request that we send ourselves.
pub fn headers_of(method: &str, params: &Map<String, Value>, revision: Revision) -> Vec<(&'static str, String)> {
    let mut headers = vec![(ASKED_VERSION_HEADER, revision.as_str().to_owned())];
    if revision.is_stateless() {
        headers.push((METHOD_HEADER, method.to_owned()));
        if let Some(name) = named_by(method).and_then(|member| params.get(member)).and_then(Value::as_str) {
            headers.push((NAME_HEADER, encoded(name)));
        }
    }
    headers
}

/// The headers that repeat arguments, for a call that we send ourselves.
pub fn param_headers(arguments: Option<&Value>, annotated: &[(String, String)]) -> Vec<(String, String)> {
    let value = |pointer: &str| arguments.and_then(|arguments| arguments.pointer(pointer)).and_then(header_value);
    let header = |(name, pointer): &(String, String)| {
        value(pointer).map(|text| (format!("{PARAM_PREFIX}{}", name.to_ascii_lowercase()), encoded(&text)))
    };
    annotated.iter().filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::annotated;
    use crate::wire::{Id, code};

    fn call(name: &str, arguments: Value) -> Request {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        Request { id: Id::Number(1), method: "tools/call".to_owned(), params: params.as_object().unwrap().clone() }
    }

    fn checked(headers: &[(&str, &str)], request: &Request) -> Result<(), RpcError> {
        let header = |name: &str| Ok(headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value));
        check_headers(request, header, &[("Region".to_owned(), "/region".to_owned())])
    }

    #[test]
    fn a_header_that_says_something_else_than_the_body_is_refused() {
        let request = call("mail.send", json!({"region": "eu"}));
        let right = [
            (ASKED_VERSION_HEADER, "2026-07-28"),
            (METHOD_HEADER, "tools/call"),
            (NAME_HEADER, "mail.send"),
            ("mcp-param-region", "eu"),
        ];
        checked(&right, &request).unwrap();
        for (header, wrong) in [
            (ASKED_VERSION_HEADER, "2025-11-25"),
            (METHOD_HEADER, "tools/list"),
            (METHOD_HEADER, "Tools/call"),
            (NAME_HEADER, "mail.read"),
            (NAME_HEADER, "=?base64?%%%?="),
            (NAME_HEADER, "=?base64?bWFpbC5yZWFk?="),
            ("mcp-param-region", "us"),
        ] {
            let changed = right.map(|(name, value)| (name, if name == header { wrong } else { value }));
            assert_eq!(checked(&changed, &request).unwrap_err().code, code::HEADER_MISMATCH, "{header}: {wrong}");
        }
        for left_out in 0..right.len() {
            let fewer: Vec<_> = right.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, h)| *h).collect();
            assert_eq!(checked(&fewer, &request).unwrap_err().code, code::HEADER_MISMATCH, "{left_out}");
        }
        let encoded_name =
            right.map(|(name, value)| (name, if name == NAME_HEADER { "=?base64?bWFpbC5zZW5k?=" } else { value }));
        checked(&encoded_name, &request).unwrap();
        checked(&right[..3], &call("mail.send", json!({}))).unwrap();
        checked(&right, &call("mail.send", json!({}))).unwrap_err();
    }

    #[test]
    fn a_schema_names_headers_plainly_or_not_at_all() {
        let of = |member: Value| annotated(&json!({"type": "object", "properties": {"a": member}}));
        assert_eq!(of(json!({"type": "string"})), Some(vec![]));
        let pairs = Some(vec![("R".to_owned(), "/a".to_owned())]);
        assert_eq!(of(json!({"type": "string", "x-mcp-header": "R"})), pairs);
        for wrong in [
            json!({"type": "object", "x-mcp-header": "R"}),
            json!({"type": "string", "x-mcp-header": ""}),
            json!({"type": "string", "x-mcp-header": "a b"}),
            json!({"type": "string", "x-mcp-header": 3}),
            json!({"type": "number", "x-mcp-header": "R"}),
        ] {
            assert_eq!(of(wrong.clone()), None, "{wrong}");
        }
        let twice = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "R"}, "b": {"type": "string", "x-mcp-header": "r"}}});
        assert_eq!(annotated(&twice), None);
    }

    proptest! {
        #[test]
        fn any_text_survives_a_header(text in ".{0,40}") {
            let sent = encoded(&text);
            prop_assert!(sent.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(decoded("h", &sent).unwrap(), text);
        }
    }
}
