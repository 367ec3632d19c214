//! The log's entries about calls. They hold names, numbers and commitments, never a payload.

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_contracts::{
    AgentId, CallId, Digest, ErrorCode, GrantId, LeafId, Mode, OpeningId, ResolvedSecret, RunId, Source, Status,
    TenantId, Timestamp, json,
};
use toolgate_ledger::Salt;

/// What an entry says of a call. INVARIANT: members are in the order of their names, here and in [`Details`], so that
/// writing them down in this order gives the canonical text; [`Entry::text`] checks it in debug builds.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    pub action: &'a str,
    /// Who is answerable for what is recorded.
    pub actor: &'a str,
    pub at: Timestamp,
    pub details: Details<'a>,
    pub id: LeafId,
    /// The call's id within its run.
    pub object: &'a str,
    pub tenant: TenantId,
    pub v: u8,
}

#[derive(Debug, Serialize)]
pub struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Set where the effect is the caller's own word: an external tool's, or one that a person settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attested_by: Option<&'a str>,
    pub call: CallId,
    pub definition: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// By which grant it ran, if somebody had to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    pub input: Digest,
    /// Guardrails that would have withheld the result, and were only to be logged: their names.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub logged: &'a [String],
    pub mode: Mode,
    /// What of the operator's openings it went through, where that has no entry of its own.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub openings: &'a [OpeningId],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    pub revision: i64,
    pub run: RunId,
    /// Which it was given, never what they hold.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub secrets: &'a [ResolvedSecret],
    pub source: Source,
    pub status: Status,
    pub tool: &'a str,
}

impl Entry<'_> {
    /// The canonical text whose hash is the leaf.
    pub fn text(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        debug_assert_eq!(text, json::canonical(&serde_json::to_value(self).unwrap_or_default()));
        text
    }
}

/// What an entry commits to of a call's payloads, each under its own word so that one cannot stand for another.
pub fn commitment(salt: &Salt, what: &str, canonical: &str) -> Digest {
    salt.commit_named(what, canonical)
}

/// The members of what is written as an object; of anything else none.
pub fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
