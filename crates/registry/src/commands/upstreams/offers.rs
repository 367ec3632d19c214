//! What a server offers otherwise than it was accepted, with the words of both.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::definition::Annotations;
use toolgate_contracts::{Definition, Digest, DriftClass, Timestamp, ToolName};
use toolgate_store::upstreams::Offer;
use utoipa::ToSchema;

use crate::diff::Difference;
use crate::snapshot::Version;
use crate::upstream;

/// An offer as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ShownOffer {
    /// The server's own name.
    pub tool: String,
    #[schema(value_type = String)]
    pub name: ToolName,
    pub class: DriftClass,
    /// The tool that is gone and seems to have this name now.
    pub replaces: Option<String>,
    /// The version that it would be a change of.
    pub current: Option<String>,
    pub difference: Difference,
    /// As it was accepted; of the tool that is gone, where it seems to be that one.
    pub before: Option<Described>,
    pub after: Described,
    pub seen_at: Timestamp,
    /// Who refused it.
    pub refused_by: Option<String>,
    pub refused_at: Option<Timestamp>,
}

/// A tool as its server describes it: what models read, and what whoever accepts it should have read.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Described {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

impl Described {
    fn of(definition: &Definition) -> Self {
        let Definition { title, description, input_schema, output_schema, annotations, .. } = definition.clone();
        Self { title, description, input_schema, output_schema, annotations }
    }
}

/// What a server offers and nobody has accepted.
#[derive(Clone, Debug)]
pub struct ShownOffers {
    pub offers: Vec<ShownOffer>,
    /// Names all of what is shown, where the server is included: who accepts says that it was this.
    pub seen: Digest,
}

impl ShownOffer {
    /// Beside what was `accepted` of it, or of the tool that it seems to be.
    pub(super) fn of<'a>(offer: Offer, accepted: impl Fn(&str) -> Option<&'a Arc<Version>>) -> Self {
        let Offer { tool, definition, digest: _, class, replaces, seen_at, refused } = offer;
        let (refused_by, refused_at) = refused.unzip();
        let current = accepted(&tool);
        let before = current.or_else(|| replaces.as_deref().and_then(accepted));
        let drift = current.and_then(|current| upstream::drift(&current.published.definition, &definition));
        Self {
            name: definition.name.clone(),
            class,
            current: current.map(|current| current.version.to_string()),
            difference: drift.map(|(_, difference)| difference).unwrap_or_default(),
            before: before.map(|before| Described::of(&before.published.definition)),
            after: Described::of(&definition),
            tool,
            replaces,
            seen_at,
            refused_by,
            refused_at,
        }
    }
}
