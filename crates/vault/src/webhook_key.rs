//! What webhooks are signed with: a secret that the receiver shares, kept encrypted under the tenant's data key.
//!
//! Deliberately absent: signing, and the key pair of the server, which is a key of the ring like any other.

use toolgate_contracts::{Fault, Rng, TenantId, WebhookId};
use zeroize::Zeroizing;

use crate::envelope;
use crate::keyring::Key;

const LABEL: &str = "toolgate/webhook/1";

/// The shared secret of one webhook.
pub struct WebhookKey(Zeroizing<[u8; 32]>);

impl WebhookKey {
    pub fn generate(rng: &Rng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill(&mut *secret);
        Self(secret)
    }

    /// Opens again for this tenant and this webhook only.
    pub fn seal(&self, data_key: &Key, tenant: TenantId, webhook: WebhookId, rng: &Rng) -> Result<Vec<u8>, Fault> {
        envelope::encrypt(data_key.seed(), context(tenant, webhook).as_bytes(), self.expose(), rng)
            .ok_or_else(|| Fault::internal("the cipher refused to encrypt a webhook's secret"))
    }

    /// `None` if it was sealed under another key or for another webhook, or was changed: one does not learn which.
    pub fn open(data_key: &Key, tenant: TenantId, webhook: WebhookId, sealed: &[u8]) -> Option<Self> {
        let opened = envelope::decrypt(data_key.seed(), context(tenant, webhook).as_bytes(), sealed)?;
        Some(Self(Zeroizing::new(<[u8; 32]>::try_from(opened.as_slice()).ok()?)))
    }

    /// The secret in clear: to sign with, and once for whoever made the webhook.
    pub fn expose(&self) -> &[u8] {
        &*self.0
    }
}

impl std::fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookKey")
    }
}

fn context(tenant: TenantId, webhook: WebhookId) -> String {
    format!("{tenant}|{webhook}|{LABEL}")
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::{Clock, Id, Timestamp};

    use super::*;

    #[test]
    fn a_secret_opens_for_its_webhook_tenant_and_key_alone() {
        let (clock, rng) = (Clock::manual(Timestamp::from_millis(0)), Rng::seeded(1));
        let (tenant, webhook) = (Id::new(&clock, &rng), Id::new(&clock, &rng));
        let key = |byte| Key::new("k".into(), Zeroizing::new([byte; 32]), Timestamp::from_millis(0));
        let secret = WebhookKey::generate(&rng);
        let sealed = secret.seal(&key(1), tenant, webhook, &rng).unwrap();
        let opened = |key: &Key, tenant, webhook, sealed: &[u8]| {
            WebhookKey::open(key, tenant, webhook, sealed).map(|secret| secret.expose().to_vec())
        };
        assert_eq!(opened(&key(1), tenant, webhook, &sealed).as_deref(), Some(secret.expose()));
        assert_eq!(opened(&key(2), tenant, webhook, &sealed), None);
        assert_eq!(opened(&key(1), Id::new(&clock, &rng), webhook, &sealed), None);
        assert_eq!(opened(&key(1), tenant, Id::new(&clock, &rng), &sealed), None);
        assert_eq!(opened(&key(1), tenant, webhook, &sealed[1..]), None);
        assert_eq!(format!("{secret:?}"), "WebhookKey");
    }
}
