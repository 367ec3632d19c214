//! What decides a tenant's calls beside the definitions: policies, guardrails, openings, accepted labels, and whom to
//! tell. Each is read from its text once for a snapshot.
//!
//! Invariant: what cannot be read refuses. A guardrail, a policy or an acceptance that is broken never means that there
//! is none.

use toolgate_contracts::TenantId;
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
        }
    }
}
