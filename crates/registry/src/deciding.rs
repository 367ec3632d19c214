//! What decides a tenant's calls beside the definitions: policies, guardrails, openings, accepted labels, and whom to
//! tell. Each is read from its text once for a snapshot.
//!
//! Invariant: what cannot be read refuses. A guardrail, a policy or an acceptance that is broken never means that there
//! is none.

use std::sync::OnceLock;

use toolgate_contracts::{NoticeType, Opening, TenantId, WebhookId, json};
use toolgate_store::catalog::Spec;

/// The rows of all tenants.
pub(crate) struct Specs {
    pub policies: Vec<Spec>,
    pub guardrails: Vec<Spec>,
    pub openings: Vec<Spec>,
    pub acceptances: Vec<Spec>,
    pub webhooks: Vec<Spec>,
}

/// Those of one tenant.
#[derive(Debug)]
pub struct Deciding {
    /// The active revision's text, where the tenant has one of its own.
    pub policy: Option<String>,
    pub guardrails: Vec<Spec>,
    /// The operator's, for every tenant.
    pub openings: Vec<Spec>,
    pub acceptances: Vec<Spec>,
    pub webhooks: Vec<Spec>,
    /// The webhooks by what they want to be told, in the order of [`NoticeType::ALL`].
    wanted: OnceLock<Vec<Vec<WebhookId>>>,
}

impl Deciding {
    /// The webhooks that want to be told of this. One that cannot be read is told nothing.
    pub fn wants(&self, notice: NoticeType) -> &[WebhookId] {
        if self.webhooks.is_empty() {
            return &[];
        }
        let wanted = self.wanted.get_or_init(|| {
            let all: Vec<(WebhookId, Vec<NoticeType>)> = self.webhooks.iter().filter_map(webhook).collect();
            let wanting = |notice: &NoticeType| {
                all.iter().filter(|(_, types)| types.contains(notice)).map(|(id, _)| *id).collect()
            };
            NoticeType::ALL.iter().map(wanting).collect()
        });
        let at = NoticeType::ALL.iter().position(|known| *known == notice);
        at.and_then(|at| wanted.get(at)).map_or(&[], Vec::as_slice)
    }

    /// What the operator opened. What cannot be read is not open.
    pub fn opened(&self) -> Vec<Opening> {
        let opening = |row: &Spec| {
            let spec = json::read(row.text.as_bytes(), json::SCHEMA_BYTES_MAX).and_then(json::decode);
            match (row.name.parse(), spec) {
                (Ok(id), Ok(spec)) => Some(Opening { id, spec }),
                (_, read) => {
                    tracing::error!(opening = row.name, "not open: it cannot be read: {:?}", read.err());
                    None
                }
            }
        };
        self.openings.iter().filter_map(opening).collect()
    }
}

fn webhook(row: &Spec) -> Option<(WebhookId, Vec<NoticeType>)> {
    let types = serde_json::from_str(&row.text);
    match (row.name.parse(), types) {
        (Ok(id), Ok(types)) => Some((id, types)),
        (_, types) => {
            tracing::error!(webhook = row.name, "is told nothing: its types cannot be read: {:?}", types.err());
            None
        }
    }
}

impl Specs {
    pub fn of(&self, tenant: TenantId) -> Deciding {
        let own = |rows: &[Spec]| rows.iter().filter(|row| row.tenant == tenant).cloned().collect();
        Deciding {
            policy: self.policies.iter().find(|row| row.tenant == tenant).map(|row| row.text.clone()),
            guardrails: own(&self.guardrails),
            openings: self.openings.clone(),
            acceptances: own(&self.acceptances),
            webhooks: own(&self.webhooks),
            wanted: OnceLock::new(),
        }
    }
}
