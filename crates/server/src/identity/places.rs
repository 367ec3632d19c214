//! One address in several tenants: which membership a password opens, and where a provider's word counts.
//!
//! INVARIANT: a password is of one membership (ADR 25), and no tenant speaks for another. Whoever gives an address and no
//! tenant is compared with all memberships of that address alike: none is asked first, and none decides alone. A tenant
//! takes a provider's word only where the operator said so (`oidc_tenant`, `oidc_other_tenants`).

use serde_json::json;
use toolgate_contracts::{AccountId, Fault, LoginName, Slug, TenantId, UserId};
use toolgate_store::sign_in::{Candidate, PLACES_MAX};

use crate::app::{App, FIRST_TENANT};

impl App {
    /// Who gave their password. As many are compared whoever is meant, so that the time tells nobody who is where.
    pub(super) async fn whose_password(
        &self,
        login: &LoginName,
        tenant: Option<&str>,
        password: &str,
    ) -> Result<Option<Candidate>, Fault> {
        let found = self.store.candidates(login, tenant, FIRST_TENANT).await?;
        let anywhere = tenant.is_none() && login.as_str().contains('@');
        let mut opened = Vec::new();
        for place in 0..if anywhere { PLACES_MAX } else { 1 } {
            let person = found.get(place);
            if self.fits(password, person.and_then(|person| person.password_hash.clone())).await? {
                opened.extend(person);
            }
        }
        match opened.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).clone())),
            several => {
                // Only whoever has the password learns this.
                let tenants: Vec<&Slug> = several.iter().map(|person| &person.tenant_slug).collect();
                Err(Fault::conflict("this address and password open several tenants", "say which one, as `tenant`")
                    .at("/tenant")
                    .with_details(json!({"tenants": tenants})))
            }
        }
    }

    /// Whether a provider's word counts in a tenant.
    pub(super) fn takes_provider(&self, tenant: &Slug) -> bool {
        self.oidc.as_ref().is_some_and(|oidc| oidc.takes(tenant))
    }

    /// Where a person whom the provider knows is a member, among the tenants that take its word.
    pub(super) async fn places_by_provider(
        &self,
        account: AccountId,
    ) -> Result<Vec<(TenantId, Slug, String, UserId)>, Fault> {
        let mut places = self.store.memberships(account).await?;
        places.retain(|(_, slug, ..)| self.takes_provider(slug));
        Ok(places)
    }
}
