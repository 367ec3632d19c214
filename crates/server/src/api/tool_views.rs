//! A tool as it is shown: the definition with its effective values, and where it stands.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, Origin, Risk, ToolState, ToolType, Visibility};
use toolgate_contracts::{Caller, Digest, TenantId, Timestamp, ToolId};
use toolgate_engine::secrets::SecretStanding;
use toolgate_registry::classification;
use toolgate_registry::snapshot::{ResolvedTool, Switch, Version};
use toolgate_store::catalog::Classification;
use utoipa::ToSchema;

/// A row of a list.
#[derive(Clone, Serialize, ToSchema)]
pub struct ToolSummary {
    pub id: ToolId,
    pub name: String,
    pub version: String,
    pub title: String,
    pub description: String,
    pub icon: Option<String>,
    pub category: String,
    #[serde(rename = "type")]
    pub tool_type: ToolType,
    pub group: Option<String>,
    pub tags: Vec<String>,
    pub egress_class: EgressClass,
    pub risk: Risk,
    pub requires_approval: bool,
    pub visibility: Visibility,
    pub origin: Origin,
    pub state: ToolState,
    pub enabled: bool,
    /// Why it does not run for now, though it is there.
    pub stopped: Option<String>,
    /// Whether this server has a runner of its kind.
    pub runnable: bool,
    /// Why no call of it runs here, where that is so.
    pub why_not: Option<String>,
    /// The secrets that it declares, and where a call by the caller would find them.
    pub secrets: Vec<SecretStanding>,
}

impl From<&ResolvedTool> for ToolSummary {
    fn from(tool: &ResolvedTool) -> Self {
        let definition = &tool.definition;
        Self {
            id: tool.tool.id,
            name: tool.name.to_string(),
            version: tool.version.version.to_string(),
            title: definition.effective_title().to_owned(),
            description: definition.description.clone(),
            icon: definition.icon.clone(),
            category: definition.effective_category().to_owned(),
            tool_type: definition.effective_type(),
            group: definition.group.clone(),
            tags: definition.tags.clone(),
            egress_class: definition.class(),
            risk: definition.effective_risk(),
            requires_approval: definition.asks(),
            visibility: definition.effective_visibility(),
            origin: tool.tool.origin,
            state: tool.state(),
            enabled: tool.switch == Switch::On,
            stopped: None,
            runnable: true,
            why_not: None,
            secrets: Vec::new(),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct VersionSummary {
    pub version: String,
    pub state: ToolState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    pub definition_digest: Digest,
    pub behaviour_digest: Digest,
    pub input_schema_digest: Digest,
    pub published_by: String,
    pub published_by_name: Option<String>,
    pub created_at: Timestamp,
}

impl From<&Version> for VersionSummary {
    fn from(version: &Version) -> Self {
        let lifecycle = version.lifecycle.clone();
        Self {
            version: version.version.to_string(),
            state: lifecycle.state,
            message: lifecycle.message,
            remove_by: lifecycle.remove_by,
            replaced_by: lifecycle.replaced_by,
            definition_digest: version.published.definition_digest,
            behaviour_digest: version.published.behaviour_digest,
            input_schema_digest: toolgate_contracts::json::digest(&version.definition.input_schema),
            published_by: version.published_by.clone(),
            published_by_name: None,
            created_at: version.created_at,
        }
    }
}

/// What the members of a definition mean that nobody wrote.
const UNSET: &[(&str, &str)] = &[
    ("aggregate", "null"),
    ("aliases", "[]"),
    ("cache", "\"none\""),
    ("collaborative", "false"),
    ("cost", "null"),
    ("docs", "\"\""),
    ("examples", "[]"),
    ("form", "null"),
    ("group", "null"),
    ("guardrails", "[]"),
    ("hosts", "[]"),
    ("icon", "null"),
    ("idempotent", "false"),
    ("input_less", "false"),
    ("labels", "null"),
    ("opt_in", "false"),
    ("output_schema", "null"),
    ("output_sections", "[]"),
    ("required_permission", "null"),
    ("sandbox", "null"),
    ("secrets", "[]"),
    ("tags", "[]"),
    ("tenants", "[]"),
    ("verify", "null"),
    ("view", "null"),
];

/// Whether the operator's word is about this version: a milder class is for the behaviour that was looked at.
fn holds(tool: &ResolvedTool, said: &Classification) -> bool {
    let published = &tool.version.published;
    !classification::lapsed(said, &published.definition, published.behaviour_digest)
}

/// Everything about one tool: what was written, what holds, and what follows from it.
pub fn whole(tool: &ResolvedTool, caller: &Caller) -> Value {
    let definition = &tool.definition;
    let lifecycle = &tool.version.lifecycle;
    let mut value = serde_json::to_value(definition.as_ref()).unwrap_or_default();
    let effective = json!({
        "id": tool.tool.id,
        "key": tool.name,
        "version": tool.version.version,
        "title": definition.effective_title(),
        "category": definition.effective_category(),
        "type": definition.effective_type(),
        "egress_class": definition.class(),
        "side_effects": definition.side_effects(),
        "changes_state": definition.changes_state(),
        "risk": definition.effective_risk(),
        "requires_approval": definition.asks(),
        "permission_policy": definition.policy(),
        "sink": definition.effective_sink(),
        "visibility": definition.effective_visibility(),
        "annotations": definition.effective_annotations(),
        "timeout_ms": definition.timeout_ms.unwrap_or(toolgate_contracts::definition::TIMEOUT_MS_DEFAULT),
        "max_output_bytes": definition.max_output_bytes.unwrap_or(toolgate_contracts::definition::OUTPUT_BYTES_DEFAULT),
        "wire_name": tool.name.wire(),
        "origin": tool.tool.origin,
        "state": lifecycle.state,
        "message": lifecycle.message,
        "remove_by": lifecycle.remove_by,
        "replaced_by": lifecycle.replaced_by,
        "enabled": tool.switch == Switch::On,
        "shared": tool.tool.tenant == TenantId::SYSTEM,
        "overridden": tool.overridden,
        "override": tool.overridden.then(|| tool.patch.as_ref()),
        "classification": tool.tool.classification.as_deref().map(|said| json!({
            "egress_class": said.egress_class, "changes_state": said.changes_state, "reason": said.reason,
            "classified_by": said.classified_by, "classified_at": said.classified_at,
            "declared": tool.version.published.definition.class(), "floor": definition.runner.class_floor(),
            "holds": holds(tool, said),
        })),
        "definition_digest": tool.definition_digest,
        "behaviour_digest": tool.behaviour_digest,
        "published_by": tool.version.published_by,
        "created_at": tool.version.created_at,
        "alias_used": tool.alias.as_ref().map(|alias| json!({"name": alias.name, "remove_by": alias.remove_by})),
        "hitl": definition.asks().then(|| json!({
            "declared": definition.hitl, "mode": definition.hitl_mode(),
            "timeout_s": definition.hitl.as_ref().and_then(|hitl| hitl.timeout_s).unwrap_or(toolgate_contracts::definition::APPROVAL_TIMEOUT_S_DEFAULT),
            "approvers": definition.hitl.as_ref().and_then(|hitl| hitl.approvers.clone()),
        })),
    });
    if let (Value::Object(members), Value::Object(effective)) = (&mut value, effective) {
        members.extend(effective.into_iter().filter(|(_, member)| !member.is_null()));
        // Every member of the contract is there, so that a reader need not know which are written only when set.
        // Which other tenants have a tool is the operator's to know.
        if !caller.is_operator() {
            members.shift_remove("tenants");
        }
        for (name, unset) in UNSET {
            members.entry(*name).or_insert_with(|| serde_json::from_str(unset).unwrap_or_default());
        }
    }
    value
}
