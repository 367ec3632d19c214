//! A tenant's override of a global tool. INVARIANT: it renames or tightens; nothing in it can loosen.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::agent::OnlyTrue;
use toolgate_contracts::definition::{Definition, Hitl, HitlMode, PermissionPolicy, Risk, Visibility};
use toolgate_contracts::{Fault, Permission, ToolName, json};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// What the tenant calls it; the canonical name still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub name: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `true`; approval cannot be switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    pub requires_approval: Option<OnlyTrue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_policy: Option<PermissionPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<Hitl>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_permission: Option<Permission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// The only hosts it may reach; where the definition has a list, those on both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

impl Patch {
    /// A stored patch was checked when it was set; one that cannot be read hides nothing and loosens nothing.
    pub fn read(stored: &Value) -> Self {
        json::decode(stored.clone()).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both patches: where both speak, the stricter word, and for names the first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            title: self.title.or(other.title),
            requires_approval: self.requires_approval.or(other.requires_approval),
            permission_policy: self.permission_policy.max(other.permission_policy),
            risk: self.risk.max(other.risk),
            hitl: self.hitl.or(other.hitl),
            visibility: self.visibility.max(other.visibility),
            required_permission: self.required_permission.or(other.required_permission),
            timeout_ms: least(self.timeout_ms, other.timeout_ms),
            max_output_bytes: least(self.max_output_bytes, other.max_output_bytes),
            hosts: self.hosts.or(other.hosts),
        }
    }

    /// Refuses what would loosen the definition it is set on.
    pub fn check(&self, definition: &Definition) -> Result<(), Fault> {
        let loosens = |field: &str, is: String| {
            Fault::invalid(
                format!("an override may only tighten: `{field}` is already {is}"),
                "give a stricter value, or leave it out",
            )
            .at(format!("/{field}"))
        };
        if self.risk.is_some_and(|risk| risk < definition.effective_risk()) {
            return Err(loosens("risk", definition.effective_risk().to_string()));
        }
        if self.permission_policy.is_some_and(|policy| policy < definition.policy()) {
            return Err(loosens("permission_policy", definition.policy().to_string()));
        }
        if self.visibility.is_some_and(|visibility| visibility < definition.effective_visibility()) {
            return Err(loosens("visibility", definition.effective_visibility().to_string()));
        }
        let mode = self.hitl.as_ref().and_then(|hitl| hitl.mode).unwrap_or(HitlMode::Blocking);
        if mode > definition.hitl_mode() {
            return Err(loosens("hitl/mode", definition.hitl_mode().to_string()));
        }
        let timeout = definition.timeout_ms.unwrap_or(toolgate_contracts::definition::TIMEOUT_MS_DEFAULT);
        if self.timeout_ms.is_some_and(|wanted| wanted > timeout) {
            return Err(loosens("timeout_ms", timeout.to_string()));
        }
        let bytes = definition.max_output_bytes.unwrap_or(toolgate_contracts::definition::OUTPUT_BYTES_DEFAULT);
        if self.max_output_bytes.is_some_and(|wanted| wanted > bytes) {
            return Err(loosens("max_output_bytes", bytes.to_string()));
        }
        if self.required_permission.is_some()
            && definition.required_permission.as_ref().is_some_and(|is| Some(is) != self.required_permission.as_ref())
        {
            let is = definition.required_permission.as_ref().map(ToString::to_string).unwrap_or_default();
            return Err(loosens("required_permission", is));
        }
        Ok(())
    }

    #[must_use]
    pub fn apply(&self, definition: &Definition) -> Definition {
        let Self {
            name,
            title,
            requires_approval,
            permission_policy,
            risk,
            hitl,
            visibility,
            required_permission,
            timeout_ms,
            max_output_bytes,
            hosts,
        } = self.clone();
        let mut patched = definition.clone();
        patched.name = name.unwrap_or(patched.name);
        patched.title = title.or(patched.title);
        patched.requires_approval = requires_approval.map(bool::from).or(patched.requires_approval);
        patched.permission_policy = permission_policy.max(patched.permission_policy);
        patched.risk = risk.map(|risk| risk.max(definition.effective_risk())).or(patched.risk);
        patched.hitl = hitl.or(patched.hitl);
        patched.visibility = visibility.max(patched.visibility);
        patched.required_permission = required_permission.or(patched.required_permission);
        patched.timeout_ms = least(timeout_ms, patched.timeout_ms);
        patched.max_output_bytes = least(max_output_bytes, patched.max_output_bytes);
        if let Some(hosts) = hosts {
            let both = |host: &String| definition.hosts.is_empty() || definition.hosts.contains(host);
            patched.hosts = hosts.into_iter().filter(both).collect();
        }
        patched
    }
}

fn least(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Definition {
        json::decode(json!({
            "name": "http_get", "description": "d", "input_schema": {"type": "object"}, "egress_class": "read_only",
            "timeout_ms": 5000, "hosts": ["a.test", "b.test"], "runner": {"kind": "builtin", "function": "http_get"},
        }))
        .unwrap()
    }

    #[track_caller]
    fn refused(patch: Value, pointer: &str) {
        let patch: Patch = json::decode(patch).unwrap();
        assert_eq!(patch.check(&definition()).unwrap_err().pointer(), Some(pointer));
    }

    #[test]
    fn an_override_cannot_loosen() {
        refused(json!({"risk": "safe"}), "/risk");
        refused(json!({"timeout_ms": 6000}), "/timeout_ms");
        refused(json!({"max_output_bytes": 99_000_000}), "/max_output_bytes");
        refused(json!({"hitl": {"mode": "fire_and_continue"}}), "/hitl/mode");
        assert!(json::decode::<Patch>(json!({"requires_approval": false})).is_err());
        assert!(json::decode::<Patch>(json!({"egress_class": "none"})).is_err());
    }

    #[test]
    fn applied_it_is_never_milder_than_the_definition() {
        let patch: Patch = json::decode(json!({
            "name": "fetch", "risk": "critical", "timeout_ms": 100, "hosts": ["b.test", "c.test"], "requires_approval": true
        }))
        .unwrap();
        patch.check(&definition()).unwrap();
        let patched = patch.apply(&definition());
        assert_eq!(
            (patched.name.as_str(), patched.timeout_ms, patched.hosts.as_slice()),
            ("fetch", Some(100), &["b.test".to_owned()][..])
        );
        assert!(patched.asks());
        assert_ne!(patched.behaviour_digest(), definition().behaviour_digest());
    }
}
