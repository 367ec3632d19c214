//! The session of an older client. It is nothing that the server remembers: what the client said when it began travels
//! sealed with it, bound to whoever began it, so any replica knows it and a restart forgets nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Fault, Timestamp};

use super::{Client, Narrowed, Surface, text};
use crate::wire::{Revision, RpcError};

/// Of what a client can do only these are of use here; a session has to fit into a header.
const USEFUL: [&str; 3] = ["elicitation", "sampling", "roots"];
const INFO_CHARS_MAX: usize = 100;
const LASTS_S: i64 = 7 * 24 * 3600;

#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub revision: Revision,
    pub capabilities: Map<String, Value>,
    pub info: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    revision: String,
    capabilities: Map<String, Value>,
    info: Map<String, Value>,
    began_at: Timestamp,
}

impl Session {
    /// From the parameters of `initialize`. A revision that is not spoken here, or that knows no handshake, is answered
    /// with the newest that does.
    pub(super) fn of(params: &Map<String, Value>) -> Result<Self, RpcError> {
        let asked = text(params, "protocolVersion")?.parse::<Revision>().ok();
        let revision = asked.filter(|revision| !revision.is_stateless()).unwrap_or(Revision::NEWEST_WITH_HANDSHAKE);
        let declared = params.get("capabilities").and_then(Value::as_object);
        let mut capabilities = Map::new();
        for name in USEFUL {
            if let Some(Value::Object(members)) = declared.and_then(|declared| declared.get(name)) {
                // Only that something is there: what stands in it may be long and is read by nobody.
                let kept = members.iter().filter(|(_, value)| value.is_object()).take(8);
                let kept: Map<String, Value> =
                    kept.map(|(name, _)| (name.clone(), Value::Object(Map::new()))).collect();
                capabilities.insert(name.to_owned(), Value::Object(kept));
            }
        }
        let mut info = Map::new();
        for name in ["name", "version"] {
            if let Some(Value::String(text)) = params.get("clientInfo").and_then(|info| info.get(name)) {
                info.insert(name.to_owned(), text.chars().take(INFO_CHARS_MAX).collect::<String>().into());
            }
        }
        Ok(Self { revision, capabilities, info })
    }

    /// Of a client that named none: an old one, that can do nothing beside.
    pub fn unnamed(revision: Revision) -> Self {
        Self { revision, capabilities: Map::new(), info: Map::new() }
    }

    /// `name` is by what the client says which session it is in, where it has one.
    pub fn client(self, caller: Caller, narrowed: Narrowed, name: Option<&str>) -> Client {
        let Self { revision, capabilities, info } = self;
        Client { caller, revision, capabilities, info, narrowed, session: name.map(Into::into), log_level: None }
    }
}

impl Surface {
    /// The session as a client keeps it.
    pub async fn seal_session(&self, caller: &Caller, session: &Session) -> Result<String, Fault> {
        let Session { revision, capabilities, info } = session.clone();
        let sealed = Sealed { revision: revision.to_string(), capabilities, info, began_at: self.clock.now() };
        let bytes = serde_json::to_vec(&sealed).map_err(Fault::internal)?;
        Ok(self.sealer().await?.seal(&context(caller), &bytes))
    }

    /// `None`: never begun, begun by another, changed, or too old. One does not learn which.
    pub async fn open_session(&self, caller: &Caller, text: &str) -> Result<Option<Session>, Fault> {
        let Some(bytes) = self.sealer().await?.open(&context(caller), text) else { return Ok(None) };
        let Ok(Sealed { revision, capabilities, info, began_at }) = serde_json::from_slice(&bytes) else {
            return Ok(None);
        };
        let Ok(revision) = revision.parse() else { return Ok(None) };
        let holds = began_at.plus_seconds(LASTS_S) > self.clock.now();
        Ok(holds.then_some(Session { revision, capabilities, info }))
    }
}

fn context(caller: &Caller) -> String {
    format!("mcp-session/1 {}", holder(caller))
}

/// To whom something sealed is given: the program that holds the key, where there is one, and not only its person.
pub(super) fn holder(caller: &Caller) -> String {
    let agent = caller.agent.map(|agent| agent.to_string()).unwrap_or_default();
    let key = match caller.credential {
        Credential::ApiKey(key) => key.to_string(),
        _ => String::new(),
    };
    format!("{} {} {agent} {key}", caller.tenant, caller.principal)
}
