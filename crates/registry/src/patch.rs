//! A tenant's override of a global tool. INVARIANT: it renames or tightens; nothing in it can loosen.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::agent::OnlyTrue;
use toolgate_contracts::definition::{
    APPROVAL_TIMEOUT_S_DEFAULT, Approvers, Definition, Hitl, HitlMode, OUTPUT_BYTES_DEFAULT, PermissionPolicy, Risk,
    TIMEOUT_MS_DEFAULT, Visibility,
};
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
    /// An unreadable patch is an error, and the tool it was set on is switched off: it may have been what protected it.
    pub fn read(stored: &Value) -> Result<Self, json::Error> {
        json::decode(stored.clone())
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
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
        if let Some(hitl) = &self.hitl {
            check_hitl(hitl, definition, &loosens)?;
        }
        if let Some(hosts) = &self.hosts {
            let unknown = hosts.iter().find(|host| !definition.hosts.is_empty() && !definition.hosts.contains(host));
            if hosts.is_empty() || unknown.is_some() {
                let is = if definition.hosts.is_empty() {
                    "open to public hosts".to_owned()
                } else {
                    definition.hosts.join(", ")
                };
                return Err(loosens("hosts", format!("{is}; name at least one host of those")));
            }
        }
        let timeout = definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        if self.timeout_ms.is_some_and(|wanted| wanted > timeout) {
            return Err(loosens("timeout_ms", timeout.to_string()));
        }
        let bytes = definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT);
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

    /// The definition and the patch, whichever is stricter in each member. A patch that was legal on one version meets
    /// every later one too, so nothing here relies on [`Patch::check`].
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
        patched.hitl = match (hitl, &definition.hitl) {
            (Some(hitl), own) => Some(stricter(hitl, own.as_ref())),
            (None, own) => own.clone(),
        };
        patched.visibility = visibility.max(patched.visibility);
        // The definition's own word stays; the patch's is asked for beside it (see `toolset`).
        patched.required_permission = patched.required_permission.or(required_permission);
        patched.timeout_ms = timeout_ms
            .map(|wanted| wanted.min(definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)))
            .or(patched.timeout_ms);
        patched.max_output_bytes = max_output_bytes
            .map(|wanted| wanted.min(definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT)))
            .or(patched.max_output_bytes);
        if let Some(hosts) = hosts {
            let both = |host: &String| definition.hosts.is_empty() || definition.hosts.contains(host);
            patched.hosts = hosts.into_iter().filter(both).collect();
            if patched.hosts.is_empty() {
                // No list would mean any public host; this name exists nowhere (RFC 2606).
                patched.hosts.push(NO_HOST.to_owned());
            }
        }
        patched
    }
}

/// Stands for "no host at all".
pub const NO_HOST: &str = "none.invalid";

fn stricter(patch: Hitl, own: Option<&Hitl>) -> Hitl {
    let own = own.cloned().unwrap_or_default();
    // Of modes the smaller is the stricter; one that nobody named is `blocking`.
    let mode = patch.mode.unwrap_or(HitlMode::Blocking).min(own.mode.unwrap_or(HitlMode::Blocking));
    let approvers = match (patch.approvers, own.approvers) {
        (Some(patch), Some(own)) => {
            let shared: Vec<String> = patch.from.iter().filter(|from| own.from.contains(from)).cloned().collect();
            Some(Approvers { need: patch.need.max(own.need), from: if shared.is_empty() { own.from } else { shared } })
        }
        (patch, own) => own.or(patch),
    };
    Hitl { mode: Some(mode), timeout_s: least(patch.timeout_s, own.timeout_s), approvers }
}

fn check_hitl(patch: &Hitl, definition: &Definition, loosens: &impl Fn(&str, String) -> Fault) -> Result<(), Fault> {
    if patch.mode.unwrap_or(HitlMode::Blocking) > definition.hitl_mode() {
        return Err(loosens("hitl/mode", definition.hitl_mode().to_string()));
    }
    let own = definition.hitl.clone().unwrap_or_default();
    let timeout = own.timeout_s.unwrap_or(APPROVAL_TIMEOUT_S_DEFAULT);
    if patch.timeout_s.is_some_and(|wanted| wanted > timeout) {
        return Err(loosens("hitl/timeout_s", timeout.to_string()));
    }
    if let (Some(patch), Some(own)) = (&patch.approvers, &own.approvers)
        && (patch.need < own.need || patch.from.iter().any(|from| !own.from.contains(from)))
    {
        return Err(loosens("hitl/approvers", format!("{} of {}", own.need, own.from.join(", "))));
    }
    Ok(())
}

fn least(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
            "name": "fetch", "risk": "critical", "timeout_ms": 100, "hosts": ["b.test"], "requires_approval": true
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

    fn any_hitl() -> impl Strategy<Value = Value> {
        let mode = prop_oneof![Just("blocking"), Just("continue_on_timeout"), Just("fire_and_continue")];
        let from = prop::collection::vec(prop_oneof![Just("role:approver"), Just("user:a"), Just("user:b")], 1..3);
        (mode, 1_u64..200_000, 1_u32..4, from).prop_map(|(mode, timeout_s, need, from)| {
            json!({"mode": mode, "timeout_s": timeout_s, "approvers": {"need": need, "from": from}})
        })
    }

    fn any_members() -> impl Strategy<Value = Value> {
        let hosts = prop::collection::vec(prop_oneof![Just("a.test"), Just("b.test"), Just("c.test")], 0..3);
        let risk = prop_oneof![Just("safe"), Just("sensitive"), Just("critical")];
        let permission = prop_oneof![Just("tools.read"), Just("payroll.read")];
        (
            prop::option::of(hosts),
            prop::option::of(risk),
            prop::option::of(any_hitl()),
            prop::option::of(1_u64..90_000),
            prop::option::of(permission),
            prop::option::of(prop_oneof![Just("external"), Just("internal")]),
            prop::option::of(prop_oneof![Just("auto"), Just("always_ask")]),
        )
            .prop_map(|(hosts, risk, hitl, timeout_ms, required_permission, visibility, permission_policy)| {
                let mut members = json!({
                    "hosts": hosts, "risk": risk, "hitl": hitl, "timeout_ms": timeout_ms,
                    "required_permission": required_permission, "visibility": visibility, "permission_policy": permission_policy,
                });
                json::drop_nulls(&mut members, &[]);
                members
            })
    }

    proptest! {
        /// Checked against one version, applied to any other: the result is never milder in any member.
        #[test]
        fn no_patch_loosens_any_definition(own in any_members(), patch in any_members()) {
            let mut value = serde_json::to_value(definition()).unwrap();
            value.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let definition: Definition = json::decode(value).unwrap();
            let patch: Patch = json::decode(patch).unwrap();
            let patched = patch.apply(&definition);
            prop_assert!(patched.effective_risk() >= definition.effective_risk());
            prop_assert!(patched.asks() || !definition.asks());
            prop_assert!(patched.policy() >= definition.policy());
            prop_assert!(patched.effective_visibility() >= definition.effective_visibility());
            prop_assert!(patched.hitl_mode() <= definition.hitl_mode());
            prop_assert!(patched.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT) <= definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
            prop_assert!(definition.required_permission.is_none() || patched.required_permission == definition.required_permission);
            let open = |definition: &Definition| definition.hosts.is_empty();
            prop_assert!(!open(&patched) || open(&definition));
            prop_assert!(open(&definition) || patched.hosts.iter().all(|host| definition.hosts.contains(host) || host == NO_HOST));
            let approvers = |definition: &Definition| definition.hitl.as_ref().and_then(|hitl| hitl.approvers.clone());
            if let Some(own) = approvers(&definition) {
                let now = approvers(&patched).unwrap();
                prop_assert!(now.need >= own.need && now.from.iter().all(|from| own.from.contains(from)));
            }
            let timeout = |definition: &Definition| definition.hitl.as_ref().and_then(|hitl| hitl.timeout_s);
            prop_assert!(timeout(&definition).is_none() || timeout(&patched) <= timeout(&definition));
        }
    }
}
