//! The document: its shape, its digest, its signature.
//!
//! Invariant: a [`Bundle`] that was read is one whose digest fits. Who made it is known only to whoever knows a key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_contracts::agent_outputs::AgentOutputs;
use toolgate_contracts::definition::{EgressClass, Label, Origin, Risk, Sink};
use toolgate_contracts::event::Event;
use toolgate_contracts::{AgentId, Digest, Envelope, Fault, FaultKind, Limits, Role, RunId, Slug, Timestamp, json};
use toolgate_ledger::{VerifierKey, statement};
use utoipa::ToSchema;

use crate::conversation::{BoundBy, Offered, Plan};
use crate::model::{Request, ToolAnswer, Turn, Usage};

/// The version field, and the context of the signature.
pub const FORMAT: &str = "toolgate/replay/1";
/// A whole bundle as text; a run that needs more cannot be exported, and is told so.
pub const BUNDLE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attachments of one run together, and each; what does not fit is named and left out.
pub const BLOBS_BYTES_MAX: u64 = 8 * 1024 * 1024;
pub const BLOB_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The first events of the log; what tools and models said as it came is not among them.
pub const EVENTS_MAX: usize = 20_000;
/// Of the set that a tenant has before it writes any.
pub(super) const DEFAULT_REVISION: i64 = 0;
/// Members of all objects in a bundle.
const KEYS_MAX: usize = 2_000_000;

/// A run as it was: what the agent was given, what its model said, what calls gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// `toolgate/replay/1`.
    pub format: String,
    pub run: BundleRun,
    pub snapshot: Snapshot,
    pub turns: Vec<BundleTurn>,
    pub calls: Vec<BundleCall>,
    pub events: Vec<Event>,
    pub outputs: AgentOutputs,
    /// The run's attachments by their SHA-256, in base64; null: too large, or not kept any more.
    pub blobs: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleRun {
    pub id: RunId,
    pub agent: BundleAgent,
    pub revision: u32,
    pub prompt: String,
    pub limits: Limits,
    pub labels: Vec<Label>,
    /// By which the ids of its calls are checked: base64, of this run alone.
    pub run_key: String,
    pub started_at: Timestamp,
}

/// What the agent was when the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleAgent {
    #[schema(value_type = String)]
    pub name: Slug,
    pub id: AgentId,
    /// `PROVIDER/MODEL`.
    pub model: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub model_params: Map<String, Value>,
    /// Its instructions, with its skills.
    pub system: String,
    pub output_tokens_max: u32,
    /// Its tools were found by search and called by name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_name: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub tools: Vec<SnapshotTool>,
    pub policy: BundlePolicy,
    /// The guardrails that stood when the run began: their names, stages and what they do.
    #[schema(value_type = Vec<Object>)]
    pub guardrails: Vec<Value>,
    /// The agent's profile when the run began, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub profile: Option<Value>,
}

/// A tool that the model was told of, or that was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotTool {
    pub name: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<OfferedAs>,
    /// Of those that were called and are still registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
}

/// In which words the model was told of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferedAs {
    pub wire: String,
    pub description: String,
    #[schema(value_type = Object)]
    pub input: Value,
}

/// A tool as policies see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The canonical name.
    pub name: String,
    pub egress_class: EgressClass,
    pub risk: Risk,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    pub origin: Origin,
    pub sink: Sink,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    pub definition_digest: Digest,
}

/// What the decisions depended on beside the calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundlePolicy {
    /// Absent where whoever asked is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<BundleSubject>,
    /// How many runs are above it.
    pub depth: u32,
    /// The policies that decided, by revision; 0 is the default set and not written out. Only for who may read them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// Calls, by their place, whose decision cannot be made again from what is kept, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

/// Who called, as policies see them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleSubject {
    /// `User`, `Agent` or `Service`.
    pub kind: String,
    pub id: String,
    pub roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A question to the model and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleTurn {
    #[schema(value_type = Object)]
    pub request: Request,
    #[schema(value_type = Object)]
    pub response: Turn,
    #[schema(value_type = Object)]
    pub usage: Usage,
}

/// A call that the model was told the end of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleCall {
    pub seq: u32,
    /// After which answer of the model, counted from 1.
    pub turn: u32,
    pub envelope: Envelope,
    /// As the gate recorded it, with `asked_at`. Absent: no tool of that name, or arguments that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub decision: Option<Value>,
    #[schema(value_type = Object)]
    pub result_for_model: ToolAnswer,
}

/// Who says that a bundle is theirs: the key of the tenant's log, by a C2SP signed note over the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// As `toolgate audit verify --live --json` prints it.
    pub key: String,
    pub note: String,
}

/// A bundle as it is given out.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ReplayBundle)]
pub struct SealedBundle {
    #[serde(flatten)]
    pub bundle: Bundle,
    /// SHA-256 of the canonical form (RFC 8785) of everything but `digest` and `signature`.
    pub digest: Digest,
    pub signature: Signature,
}

impl Bundle {
    /// What the agent was given.
    pub fn plan(&self) -> Plan {
        let BundleRun { agent, revision, prompt, limits, .. } = &self.run;
        let offered = self.snapshot.tools.iter().filter_map(|tool| {
            let OfferedAs { wire, description, input } = tool.offered.clone()?;
            Some(Offered { wire, tool: tool.name.clone(), version: tool.version.clone(), description, input })
        });
        Plan {
            version: 1,
            agent: agent.name.clone(),
            agent_id: agent.id,
            revision: *revision,
            model: agent.model.clone(),
            params: agent.model_params.clone(),
            system: agent.system.clone(),
            prompt: prompt.clone(),
            tools: offered.collect(),
            by_name: agent.by_name,
            limits: limits.clone(),
            output_tokens_max: agent.output_tokens_max,
            bound_by: BoundBy { guardrails: self.snapshot.guardrails.clone(), profile: self.snapshot.profile.clone() },
        }
    }

    pub fn digest(&self) -> Result<Digest, Fault> {
        Ok(json::digest(&serde_json::to_value(self).map_err(Fault::internal)?))
    }
}

/// A bundle that was read: its digest fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub bundle: Bundle,
    pub digest: Digest,
    pub signature: Signature,
}

impl Read {
    /// Reads the text of a bundle. One that is changed, or is no bundle, is refused.
    pub fn from_text(text: &[u8]) -> Result<Self, Fault> {
        let remedy = "export the run again with `toolgate run export`";
        if text.len() > BUNDLE_BYTES_MAX {
            let told = format!("a bundle of {} bytes", text.len());
            return Err(Fault::new(FaultKind::TooLarge, told, format!("give one of at most {BUNDLE_BYTES_MAX} bytes")));
        }
        let value = json::read_document(text, BUNDLE_BYTES_MAX, KEYS_MAX)
            .map_err(|error| Fault::invalid(format!("this is no replay bundle: {error}"), remedy))?;
        let Value::Object(mut members) = value else {
            return Err(Fault::invalid("this is no replay bundle: it is no object", remedy));
        };
        let format = members.get("format").and_then(Value::as_str);
        if format != Some(FORMAT) {
            let told = match format {
                Some(format) => format!("`format` is `{format}`, and this program replays `{FORMAT}`"),
                None => format!("this is no replay bundle: `format` is not `{FORMAT}`"),
            };
            return Err(Fault::invalid(told, remedy).at("/format"));
        }
        let mut taken = |member: &'static str| {
            let missing = || Fault::invalid(format!("the bundle has no `{member}`"), remedy).at(format!("/{member}"));
            members.shift_remove(member).ok_or_else(missing)
        };
        let (stated, signature) = (taken("digest")?, taken("signature")?);
        let rest = Value::Object(members);
        let digest = json::digest(&rest);
        if stated.as_str() != Some(digest.to_string().as_str()) {
            let told = "the bundle was changed after it was made: its content has another digest than it states";
            return Err(Fault::invalid(told, remedy).at("/digest"));
        }
        let signature = json::decode(signature).map_err(Fault::from)?;
        let bundle = json::decode(rest).map_err(Fault::from)?;
        Ok(Self { bundle, digest, signature })
    }

    /// Who signed it: one of these keys, or, where none are given, the one that the bundle itself names.
    pub fn signed_by(&self, believed: &[VerifierKey]) -> Result<VerifierKey, Fault> {
        let refused = |told: String, remedy: &str| Fault::invalid(told, remedy).at("/signature");
        let named: VerifierKey = self.signature.key.parse().map_err(|_| {
            refused("`signature.key` is no key".to_owned(), "export the run again with `toolgate run export`")
        })?;
        let own = [named];
        let keys = if believed.is_empty() { &own[..] } else { believed };
        let signed = statement::verify(self.signature.note.as_bytes(), FORMAT, &self.digest, keys);
        signed.cloned().map_err(|broken| {
            let told = format!("the signature does not hold: {broken}");
            refused(told, "compare the key with what `toolgate audit verify --live --json` prints for the server that made the bundle")
        })
    }
}
