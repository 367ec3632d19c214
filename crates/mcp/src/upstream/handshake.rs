//! The first words: which revision is spoken, and what the server says about itself.
//!
//! A server is asked in the newest manner first; what it answers decides. Refused credentials and a network that fails
//! are no evidence. Judging is without input or output, so that every answer can be tried.

use serde_json::{Map, Value, json};

use super::error::{LinkError, shown};
use crate::wire::{Meta, Revision, RpcError, SERVER_INFO, code};

pub const CLIENT_NAME: &str = "toolgate";

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub revision: Revision,
    /// As the server names it: a first revision that is spoken like its successor has another name.
    pub named: String,
    pub server_info: Map<String, Value>,
    pub capabilities: Map<String, Value>,
    pub instructions: Option<String>,
}

/// What an answer to the first question says about the era.
#[derive(Debug)]
pub enum Verdict {
    Stateless(Box<Found>),
    /// It wants a handshake.
    Handshake,
    /// It says nothing about it.
    Unknown(LinkError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    ByPipe,
    ByHttp,
}

pub fn client_info() -> Map<String, Value> {
    let mut info = Map::new();
    info.insert("name".into(), CLIENT_NAME.into());
    info.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    info
}

/// Judges the answer to `server/discover`.
pub fn judge(answer: Result<Value, LinkError>, carried: Carried) -> Verdict {
    let error = match answer {
        Ok(result) => {
            return match discovered(&result) {
                Some(found) => Verdict::Stateless(Box::new(found)),
                None => Verdict::Handshake,
            };
        }
        Err(error) => error,
    };
    match (&error, carried) {
        (LinkError::Rpc(RpcError { code: code::UNSUPPORTED_VERSION, data, .. }), _) => {
            let named = data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
            let Some(named) = named else { return Verdict::Handshake };
            let spoken = named.iter().filter_map(Value::as_str);
            if spoken.clone().any(|name| older(name).is_some()) {
                return Verdict::Handshake;
            }
            let spoken = spoken.take(10).map(shown).collect::<Vec<_>>().join(", ");
            Verdict::Unknown(LinkError::Revision { spoken })
        }
        // It knows the newest manner, and dislikes something else.
        (LinkError::Rpc(RpcError { code: code::HEADER_MISMATCH | code::MISSING_CAPABILITY, .. }), _) => {
            Verdict::Unknown(error)
        }
        (LinkError::Rpc(_), _)
        | (LinkError::Refused { .. }, Carried::ByHttp)
        // A process may fall silent, or fall, over a question that it does not know.
        | (
            LinkError::Timeout { .. }
            | LinkError::Closed { .. }
            | LinkError::Unreadable { .. }
            | LinkError::TooLarge { .. },
            Carried::ByPipe,
        ) => Verdict::Handshake,
        _ => Verdict::Unknown(error),
    }
}

fn discovered(result: &Value) -> Option<Found> {
    let versions = result.get("supportedVersions")?.as_array()?;
    let spoken = Revision::ALL.into_iter().rev().filter(|revision| revision.is_stateless());
    let revision = spoken.into_iter().find(|revision| versions.iter().any(|name| name == revision.as_str()))?;
    let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    Some(Found {
        revision,
        named: revision.to_string(),
        server_info: object(result.get("_meta").and_then(|meta| meta.get(SERVER_INFO))),
        capabilities: object(result.get("capabilities")),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
    })
}

/// Of a server that is configured to stand for itself and does not tell about itself.
pub fn untold(revision: Revision) -> Found {
    let named = revision.to_string();
    Found { revision, named, server_info: Map::new(), capabilities: Map::new(), instructions: None }
}

/// A revision that begins with a handshake. The first one of all is spoken like the second, which added to it.
fn older(name: &str) -> Option<Revision> {
    match name {
        "2024-11-05" => Some(Revision::V20250326),
        name => name.parse().ok().filter(|revision: &Revision| !revision.is_stateless()),
    }
}

/// The parameters of `initialize`.
pub fn initialize(revision: Revision, declared: &Map<String, Value>) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("protocolVersion".into(), revision.as_str().into());
    params.insert("capabilities".into(), capabilities_in(revision, declared).into());
    params.insert("clientInfo".into(), client_info().into());
    params
}

/// What the answer to `initialize` says.
pub fn initialized(result: &Value) -> Result<Found, LinkError> {
    let named = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let Some(revision) = older(named) else { return Err(LinkError::Revision { spoken: shown(named) }) };
    let object = |name: &str| result.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(Found {
        revision,
        named: named.to_owned(),
        server_info: object("serverInfo"),
        capabilities: object("capabilities"),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
    })
}

/// What is declared in a revision: what it does not know is left out, and what it spells differently is spelt its way.
pub fn capabilities_in(revision: Revision, declared: &Map<String, Value>) -> Map<String, Value> {
    let known = |(name, value): (&String, &Value)| {
        let value = match name.as_str() {
            "roots" if revision.is_stateless() => json!({}),
            "roots" | "sampling" | "experimental" => value.clone(),
            "elicitation" if revision.opens_addresses() => value.clone(),
            // Forms are all that there is; who only opens addresses cannot be asked.
            "elicitation" if revision.has_forms() => {
                let forms = value.get("form").is_some() || value.get("url").is_none();
                forms.then(|| json!({}))?
            }
            "extensions" if revision.is_stateless() => value.clone(),
            _ => return None,
        };
        Some((name.clone(), value))
    };
    declared.iter().filter_map(known).collect()
}

/// What a request of the stateless revision says about us, whatever its sender had written there.
pub fn stamp(
    revision: Revision,
    params: &mut Map<String, Value>,
    declared: &Map<String, Value>,
    log_level: Option<&str>,
) {
    let capabilities = capabilities_in(revision, declared);
    Meta { revision, capabilities, client: client_info(), log_level: log_level.map(str::to_owned) }.write(params);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolgate_egress::Sent;

    use super::*;
    use crate::upstream::Challenge;

    #[derive(Debug, PartialEq)]
    enum Says {
        Stateless,
        Handshake,
        Nothing,
    }

    fn says(answer: Result<Value, LinkError>, carried: Carried) -> Says {
        match judge(answer, carried) {
            Verdict::Stateless(_) => Says::Stateless,
            Verdict::Handshake => Says::Handshake,
            Verdict::Unknown(_) => Says::Nothing,
        }
    }

    #[test]
    fn the_first_answer_decides_the_era_and_only_what_is_evidence_counts() {
        let rpc = |code, data: Value| LinkError::Rpc(RpcError::new(code, "").with(data));
        let both = |answer: Result<Value, LinkError>, pipe: Says, http: Says| {
            let text = format!("{answer:?}");
            assert_eq!(says(answer.clone(), Carried::ByPipe), pipe, "{text}");
            assert_eq!(says(answer, Carried::ByHttp), http, "{text}");
        };
        let closed = LinkError::Closed { why: String::new(), sent: Sent::Perhaps };
        let late = LinkError::Timeout { after: Duration::from_secs(1), sent: Sent::Perhaps };
        both(Ok(json!({"supportedVersions": ["2026-07-28"]})), Says::Stateless, Says::Stateless);
        both(Ok(json!({"supportedVersions": ["2025-11-25"]})), Says::Handshake, Says::Handshake);
        both(Ok(json!({})), Says::Handshake, Says::Handshake);
        both(Err(rpc(-32022, json!({"supported": ["2025-06-18"]}))), Says::Handshake, Says::Handshake);
        both(Err(rpc(-32022, json!({"supported": ["2031-01-01"]}))), Says::Nothing, Says::Nothing);
        both(Err(rpc(-32022, json!({}))), Says::Handshake, Says::Handshake);
        both(Err(rpc(-32020, json!({}))), Says::Nothing, Says::Nothing);
        both(Err(rpc(-32601, json!({}))), Says::Handshake, Says::Handshake);
        both(Err(rpc(-32602, json!({}))), Says::Handshake, Says::Handshake);
        both(Err(rpc(-32000, json!({}))), Says::Handshake, Says::Handshake);
        both(Err(LinkError::Refused { status: 400 }), Says::Nothing, Says::Handshake);
        let challenge = Challenge::default();
        both(Err(LinkError::AuthRequired { status: 401, challenge }), Says::Nothing, Says::Nothing);
        both(Err(LinkError::Unavailable { status: 502, retry_after_s: None }), Says::Nothing, Says::Nothing);
        both(Err(LinkError::Limited { retry_after_s: None }), Says::Nothing, Says::Nothing);
        both(Err(closed), Says::Handshake, Says::Nothing);
        both(Err(late), Says::Handshake, Says::Nothing);
        both(Err(LinkError::Start { why: String::new() }), Says::Nothing, Says::Nothing);
    }

    #[test]
    fn a_revision_is_told_only_what_it_knows() {
        let all = json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {"form": {}, "url": {}},
            "extensions": {"a.test/x": {}}, "tasks": {}});
        let all = all.as_object().unwrap();
        let of = |revision| Value::Object(capabilities_in(revision, all));
        let roots = json!({"listChanged": true});
        assert_eq!(of(Revision::V20250326), json!({"roots": roots, "sampling": {}}));
        assert_eq!(of(Revision::V20250618), json!({"roots": roots, "sampling": {}, "elicitation": {}}));
        let newer = json!({"roots": roots, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
        assert_eq!(of(Revision::V20251125), newer);
        let newest = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}},
            "extensions": {"a.test/x": {}}});
        assert_eq!(of(Revision::V20260728), newest);
        let only_addresses = json!({"elicitation": {"url": {}}});
        let older = capabilities_in(Revision::V20250618, only_addresses.as_object().unwrap());
        assert!(older.is_empty());
    }

    #[test]
    fn a_server_of_the_first_revision_is_spoken_with_like_one_of_the_second() {
        let found = initialized(&json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}})).unwrap();
        assert_eq!((found.revision, found.named.as_str()), (Revision::V20250326, "2024-11-05"));
        for wrong in ["2026-07-28", "2031-01-01", ""] {
            assert!(
                matches!(initialized(&json!({"protocolVersion": wrong})), Err(LinkError::Revision { .. })),
                "{wrong}"
            );
        }
    }
}
