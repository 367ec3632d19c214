//! Digests that only this server and its replicas can make, for what tools tell of things that may not be read whole.

use toolgate_contracts::{Fault, TenantId};
use toolgate_vault::{DigestKey, Keyring, Purpose};

/// The one thing that tools may have of the ring of keys.
#[derive(Clone)]
pub struct Keyed(Keyring);

impl Keyed {
    pub fn new(keyring: Keyring) -> Self {
        Self(keyring)
    }

    /// The tenant's key for digests of one subject.
    pub async fn digests(&self, tenant: TenantId, what: &str) -> Result<DigestKey, Fault> {
        Ok(DigestKey::derive(&*self.0.key(Purpose::Tenant, Some(tenant)).await?, what))
    }
}
