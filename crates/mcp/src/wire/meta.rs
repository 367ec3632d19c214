//! What a request says about its sender in the stateless revision: version, capabilities, name. Nothing is inferred from
//! a connection.

use serde_json::{Map, Value};

use super::error::RpcError;
use super::level::Level;
use super::revision::Revision;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    pub revision: Revision,
    pub capabilities: Map<String, Value>,
    pub client: Map<String, Value>,
    /// From which level on the client wants to read logs of this request.
    pub log_level: Option<String>,
}

impl Meta {
    /// Writes it over whatever `_meta` said about its sender; what else is there stays.
    pub fn write(self, params: &mut Map<String, Value>) {
        let Self { revision, capabilities, client, log_level } = self;
        let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if !meta.is_object() {
            *meta = Value::Object(Map::new());
        }
        if let Value::Object(meta) = meta {
            meta.insert(VERSION.into(), revision.as_str().into());
            meta.insert(CAPABILITIES.into(), capabilities.into());
            meta.insert(CLIENT.into(), client.into());
            match log_level {
                Some(level) => meta.insert(LOG_LEVEL.into(), level.into()),
                None => meta.shift_remove(LOG_LEVEL),
            };
        }
    }

    /// What the request names as its revision; none: an older one, which names it when it begins.
    pub fn named(params: &Map<String, Value>) -> Option<&Value> {
        params.get("_meta")?.get(VERSION)
    }

    pub fn of(params: &Map<String, Value>) -> Result<Self, RpcError> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let member = |name: &str| meta.and_then(|meta| meta.get(name));
        let Some(version) = member(VERSION).and_then(Value::as_str) else {
            return Err(RpcError::invalid_params(format!("`_meta` needs `{VERSION}`, a text")));
        };
        let revision = version.parse::<Revision>().ok().filter(|revision| revision.is_stateless());
        let revision = revision.ok_or_else(|| RpcError::unsupported_version(version))?;
        let Some(capabilities) = member(CAPABILITIES).and_then(Value::as_object) else {
            return Err(RpcError::invalid_params(format!("`_meta` needs `{CAPABILITIES}`, an object")));
        };
        let log_level = member(LOG_LEVEL).and_then(Value::as_str);
        if member(LOG_LEVEL).is_some() && log_level.and_then(|level| level.parse::<Level>().ok()).is_none() {
            let known: Vec<&str> = Level::ALL.iter().map(|level| level.as_str()).collect();
            return Err(RpcError::invalid_params(format!("`{LOG_LEVEL}` is one of `{}`", known.join("`, `"))));
        }
        Ok(Self {
            revision,
            capabilities: capabilities.clone(),
            client: member(CLIENT).and_then(Value::as_object).cloned().unwrap_or_default(),
            log_level: log_level.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::code;

    #[test]
    fn a_stateless_request_says_its_version_and_what_its_client_can() {
        let read = |meta: Value| {
            let params = json!({ "_meta": meta });
            Meta::of(params.as_object().unwrap())
        };
        let whole =
            read(json!({VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {}}, LOG_LEVEL: "debug"})).unwrap();
        assert_eq!(whole.revision, Revision::V20260728);
        assert_eq!(whole.log_level.as_deref(), Some("debug"));
        for (meta, expected) in [
            (json!({}), code::INVALID_PARAMS),
            (json!({VERSION: "2026-07-28"}), code::INVALID_PARAMS),
            (json!({VERSION: 5, CAPABILITIES: {}}), code::INVALID_PARAMS),
            (json!({VERSION: "2026-07-28", CAPABILITIES: []}), code::INVALID_PARAMS),
            (json!({VERSION: "2026-07-28", CAPABILITIES: {}, LOG_LEVEL: "loud"}), code::INVALID_PARAMS),
            (json!({VERSION: "2031-01-01", CAPABILITIES: {}}), code::UNSUPPORTED_VERSION),
            (json!({VERSION: "2025-11-25", CAPABILITIES: {}}), code::UNSUPPORTED_VERSION),
        ] {
            assert_eq!(read(meta.clone()).unwrap_err().code, expected, "{meta}");
        }
    }
}
