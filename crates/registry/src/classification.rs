//! What the operator says a tool does, applied to what its author published (`contracts.md` §1, §15).
//!
//! A runner such as `external` tells nothing of what it does, so its floor is `write`; only the operator, who may look,
//! gives such a tool a milder class. That holds for the behaviour the operator looked at: a version that behaves otherwise
//! has its own class again. A stricter word holds for every version.

use toolgate_contracts::definition::{EgressClass, Risk};
use toolgate_contracts::{Definition, Digest};
use toolgate_store::catalog::Classification;

/// The definition as it holds; `None` where the classification changes nothing or is not about this behaviour.
pub fn applied(said: &Classification, published: &Definition, behaviour: Digest) -> Option<Definition> {
    let looked_at = said.behaviour_digest == behaviour;
    let mut definition = published.clone();
    if said.egress_class > published.class() || looked_at {
        definition.egress_class = Some(said.egress_class);
    }
    match said.changes_state {
        Some(true) => definition.changes_state = Some(true),
        Some(false) if looked_at => definition.changes_state = Some(false),
        Some(false) | None => {}
    }
    if definition.class() == EgressClass::Write {
        // As for any other `write`: it changes state, and its risk is at least `sensitive`.
        definition.changes_state = definition.changes_state.filter(|changes| *changes);
        definition.risk = definition.risk.map(|risk| risk.max(Risk::Sensitive));
    }
    (definition != *published).then_some(definition)
}

/// Whether the operator's milder word is about another behaviour than this one.
pub fn lapsed(said: &Classification, published: &Definition, behaviour: Digest) -> bool {
    let milder =
        said.egress_class < published.class() || (said.changes_state == Some(false) && published.changes_state());
    milder && said.behaviour_digest != behaviour
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_contracts::{TenantId, Timestamp, ToolId, json};
    use uuid::Uuid;

    use super::*;

    fn external(extra: Value) -> Definition {
        let mut value = json!({"name": "doIt", "description": "x", "input_schema": {"type": "object"},
            "egress_class": "write", "runner": {"kind": "external"}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json::decode(value).unwrap()
    }

    fn said(class: EgressClass, changes_state: Option<bool>, of: &Definition) -> Classification {
        Classification {
            tenant: TenantId::SYSTEM,
            tool: ToolId::from_uuid(Uuid::nil()),
            egress_class: class,
            changes_state,
            behaviour_digest: of.behaviour_digest(),
            reason: "looked at".into(),
            classified_by: "local:1".into(),
            classified_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_milder_class_asks_no_longer_and_is_another_behaviour() {
        let published = external(json!({}));
        let milder =
            applied(&said(EgressClass::None, None, &published), &published, published.behaviour_digest()).unwrap();
        assert_eq!((milder.class(), milder.asks(), milder.changes_state()), (EgressClass::None, false, false));
        assert_ne!(milder.behaviour_digest(), published.behaviour_digest());
        let state = said(EgressClass::None, Some(true), &published);
        assert!(applied(&state, &published, published.behaviour_digest()).unwrap().changes_state());
        let asks = external(json!({"requires_approval": true}));
        let classified = applied(&said(EgressClass::None, None, &asks), &asks, asks.behaviour_digest()).unwrap();
        assert!(classified.asks(), "what its author asks for stays");
    }

    #[test]
    fn a_milder_class_is_for_what_was_looked_at_and_a_stricter_one_for_all() {
        let published = external(json!({}));
        let changed = external(json!({"hosts": ["elsewhere.example.com"]}));
        let milder = said(EgressClass::ReadOnly, Some(false), &published);
        assert_eq!(applied(&milder, &changed, changed.behaviour_digest()), None);
        assert!(lapsed(&milder, &changed, changed.behaviour_digest()));
        assert!(!lapsed(&milder, &published, published.behaviour_digest()));
        let described = external(json!({"description": "better"}));
        assert!(applied(&milder, &described, described.behaviour_digest()).is_some(), "a reader's change keeps it");

        let harmless = external(json!({"egress_class": "none", "risk": "safe", "changes_state": false}));
        let strict = applied(&said(EgressClass::Write, None, &published), &harmless, harmless.behaviour_digest());
        let strict = strict.unwrap();
        assert!(strict.asks() && strict.changes_state());
        assert_eq!(strict.effective_risk(), Risk::Sensitive);
    }
}
