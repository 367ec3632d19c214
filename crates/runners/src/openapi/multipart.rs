//! A form with files: `multipart/form-data` as RFC 7578 has it.
//!
//! Invariant: what an argument holds never ends its part. The boundary is made of all parts together, so that none of
//! them can hold it.

use data_encoding::BASE64;
use serde_json::Value;
use toolgate_contracts::json::escape;
use toolgate_contracts::runner::OperationBody;
use toolgate_contracts::{Digest, ErrorCode, ToolError};
use toolgate_egress::HeaderValue;

use crate::http::request::{plain, wrong};

pub(super) const MULTIPART: &str = "multipart/form-data";

pub(super) struct Multipart {
    pub content_type: HeaderValue,
    pub bytes: Vec<u8>,
}

impl Multipart {
    pub fn of(body: &OperationBody, content: &Value) -> Result<Self, ToolError> {
        let members = content.as_object().ok_or_else(|| wrong("the body of a form with files is an object"))?;
        let mut parts = Vec::new();
        for (name, value) in members {
            let is_file = body.files.contains(name);
            match value {
                Value::Null => {}
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                        let pointer = format!("/{}/{index}", escape(name));
                        parts.push(part(name, item, is_file, &pointer)?);
                    }
                }
                value => parts.push(part(name, value, is_file, &format!("/{}", escape(name)))?),
            }
        }
        let boundary = format!("toolgate-{}", Digest::of(&parts.concat()));
        let mut bytes = Vec::new();
        for part in &parts {
            bytes.extend(format!("--{boundary}\r\n").into_bytes());
            bytes.extend(part);
            bytes.extend(b"\r\n");
        }
        bytes.extend(format!("--{boundary}--\r\n").into_bytes());
        let content_type = HeaderValue::from_str(&format!("{MULTIPART}; boundary={boundary}"));
        Ok(Self { content_type: content_type.map_err(|error| wrong(&error.to_string()))?, bytes })
    }
}

/// Its head and what it holds: the bytes of a file, the text of a value, or JSON.
fn part(name: &str, value: &Value, is_file: bool, pointer: &str) -> Result<Vec<u8>, ToolError> {
    let name = quoted(name);
    let (more, bytes) = if is_file {
        let bytes = value.as_str().and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let bytes = bytes.ok_or_else(|| {
            let message = format!("`{}` is a file, and is not given in base64", &pointer[1..]);
            ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", pointer)
        })?;
        (format!("; filename=\"{name}\"\r\ncontent-type: application/octet-stream"), bytes)
    } else if matches!(value, Value::Object(_) | Value::Array(_)) {
        ("\r\ncontent-type: application/json".to_owned(), value.to_string().into_bytes())
    } else {
        (String::new(), plain(value).unwrap_or_default().into_bytes())
    };
    let head = format!("content-disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
    Ok([head.into_bytes(), bytes].concat())
}

/// As browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
