//! Errors of JSON-RPC and of the protocol, and the HTTP status that each travels with.

use serde_json::{Map, Value, json};
use toolgate_contracts::{Fault, FaultKind};

use super::revision::Revision;

pub mod code {
    pub const PARSE: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    /// What older revisions say of a resource that is not there.
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    pub const HEADER_MISMATCH: i32 = -32020;
    pub const MISSING_CAPABILITY: i32 = -32021;
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// Whoever was asked did not answer. The protocol leaves the code open.
    pub const REFUSED: i32 = -1;
    /// Of revision 2025-11-25: an address has to be opened first.
    pub const OPEN_ADDRESS: i32 = -32042;
}

#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(100).flat_map(char::escape_debug).collect();
        Self::new(code::METHOD_NOT_FOUND, format!("there is no method `{shown}` here"))
    }

    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(code::HEADER_MISMATCH, message)
    }

    /// `required` is the capabilities object that the client would have to declare.
    pub fn missing_capability(message: impl Into<String>, required: &Value) -> Self {
        Self::new(code::MISSING_CAPABILITY, message).with(json!({"requiredCapabilities": required}))
    }

    pub fn unsupported_version(requested: &str) -> Self {
        let supported: Vec<&str> =
            Revision::ALL.iter().filter(|revision| revision.is_stateless()).map(|revision| revision.as_str()).collect();
        let shown: String = requested.chars().take(40).collect();
        Self::new(code::UNSUPPORTED_VERSION, "the revision of the protocol is not spoken here")
            .with(json!({"supported": supported, "requested": shown}))
    }

    /// What an HTTP client is told beside it. In the older revisions an error of a request is a body like any other.
    pub fn http_status(&self, revision: Revision) -> u16 {
        match self.code {
            code::PARSE | code::INVALID_REQUEST | code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION => 400,
            code::MISSING_CAPABILITY if revision.is_stateless() => 400,
            code::METHOD_NOT_FOUND if revision.is_stateless() => 404,
            _ => 200,
        }
    }

    pub fn to_value(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code.into());
        error.insert("message".into(), self.message.clone().into());
        if let Some(data) = &self.data {
            error.insert("data".into(), data.clone());
        }
        Value::Object(error)
    }
}

/// What the gate refuses without a record. What is logged of it stays here.
impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        if let Some(logged) = fault.logged() {
            tracing::warn!(told = fault.told(), "{logged}");
        }
        let code = match fault.kind() {
            FaultKind::Internal | FaultKind::Unavailable => code::INTERNAL,
            _ => code::INVALID_PARAMS,
        };
        Self::new(code, fault.told()).with(fault.problem())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_follows_the_code_and_the_revision() {
        let of = |code| RpcError::new(code, "");
        for (code, modern, older) in [
            (code::PARSE, 400, 400),
            (code::INVALID_REQUEST, 400, 400),
            (code::HEADER_MISMATCH, 400, 400),
            (code::MISSING_CAPABILITY, 400, 200),
            (code::INVALID_PARAMS, 200, 200),
            (code::METHOD_NOT_FOUND, 404, 200),
            (code::INTERNAL, 200, 200),
        ] {
            assert_eq!(of(code).http_status(Revision::V20260728), modern, "{code}");
            assert_eq!(of(code).http_status(Revision::V20250618), older, "{code}");
        }
    }
}
