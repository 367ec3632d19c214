//! Whose rows a statement may touch.

use toolgate_contracts::{Principal, TenantId};

/// Every statement runs in a scope. In PostgreSQL it sets the row policies' variables for the transaction; in SQLite
/// the same check is made where statements are prepared: a statement in a tenant's scope must say `tenant_id = $1`.
#[derive(Clone, Debug)]
pub enum Scope {
    /// One tenant, whoever acts there. The tenant is bound as `$1`.
    Tenant(TenantId),
    /// One tenant, and of its calls only those that `viewer` may see (own, or of agents they manage).
    Viewer { tenant: TenantId, viewer: Principal },
    /// Rows of many tenants: loading snapshots, looking up a credential before its tenant is known, the operator's
    /// own lists. The reason is for the reader of the code.
    Everyone(&'static str),
}

impl Scope {
    pub fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Tenant(tenant) | Self::Viewer { tenant, .. } => Some(*tenant),
            Self::Everyone(_) => None,
        }
    }
}
