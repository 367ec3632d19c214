//! What is kept with a call that waits, so that it can be judged again: how its caller came in, and what a decision on it
//! is bound to.

use serde::{Deserialize, Serialize};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{HitlMode, Label};
use toolgate_contracts::{
    AgentId, CallId, Caller, Digest, KeyId, Permission, Principal, RunId, SessionId, TenantId, Timestamp, TokenId, json,
};

/// How a caller came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    pub principal: Principal,
    /// Whose the credential is, where it is an agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// By which right the call is an agent's; absent: it is none's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_by: Option<AgentBy>,
    pub credential: Shown,
}

/// By which right somebody acts as an agent. Each is asked for again before the call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentBy {
    /// The credential is the agent's own.
    Credential,
    /// The request named one that the caller manages.
    Management,
    /// The run is the agent's, and the caller's to call in.
    Run,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    Session(SessionId),
    Key(KeyId),
    Token(TokenId),
    DatabaseRole,
    Folder,
}

impl Asker {
    pub fn of(caller: &Caller, agent_by: Option<AgentBy>) -> Self {
        let credential = match caller.credential {
            Credential::BrowserSession(id) => Shown::Session(id),
            Credential::ApiKey(id) => Shown::Key(id),
            Credential::Token(id) => Shown::Token(id),
            Credential::DatabaseRole => Shown::DatabaseRole,
            Credential::LocalFolder => Shown::Folder,
        };
        Self { principal: caller.principal, agent: caller.agent, agent_by, credential }
    }
}

/// Everything that a decision is about. A grant holds for exactly this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    pub call: CallId,
    pub tenant: TenantId,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    pub run: RunId,
    pub seq: u32,
    /// `name@version`, canonical.
    pub tool: String,
    pub behaviour_digest: Digest,
    pub input_digest: Digest,
    /// As whom it acts: `[{name, scope, version}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<serde_json::Value>,
    /// Of what was seen before it.
    pub labels: Vec<Label>,
    pub policy_revision: i64,
    pub mode: HitlMode,
    /// The right that the call needs and its caller lacks: whoever approves holds it and lends it for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrows: Option<Permission>,
    /// The log in which it was asked: a restored database begins another.
    pub epoch: String,
    /// Set with the decision: who approved, until when it holds, and what makes it unlike any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

impl Binding {
    pub fn digest(&self) -> Digest {
        json::digest(&self.value())
    }

    pub fn value(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// What a call would do, worked out once when people were asked about it. It is about one input of one tool at one
/// moment: what the tool works on may have changed since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    pub at: Timestamp,
    pub input_digest: Digest,
    pub behaviour_digest: Digest,
    /// What the runner would do, in its own members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<serde_json::Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// It was longer, and was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
