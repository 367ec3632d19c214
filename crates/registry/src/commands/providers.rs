//! A tenant's model providers: kept, listed, removed.
//!
//! Those of the system tenant are offered to all; a tenant's own of the same name stands in front of it. What a provider
//! names as its key is looked for among the secrets of whoever asks, never among the system tenant's.
//! Deliberately absent: reading addresses and scripts. Whoever can speak to a provider checks it before it is kept.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contracts::{Caller, Fault, FoldedName, ModelRef, Permission, ProviderSpec, Slug};
use toolgate_store::providers::StoredProvider;
use utoipa::ToSchema;

use super::Registry;
use crate::snapshot::TenantRegistry;

/// Of one tenant.
const PROVIDERS_MAX: usize = 200;
/// How many agents a refusal names.
const NAMED_MAX: usize = 10;

/// What keeping a provider did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderAction {
    Created,
    Replaced,
    Unchanged,
}

#[derive(Debug)]
pub struct KeptProvider {
    pub provider: Arc<StoredProvider>,
    pub action: ProviderAction,
    /// Absent where nothing changed.
    pub revision: Option<i64>,
}

/// What becomes of agents whose model is the provider's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// While there are any, it stays.
    Unused,
    /// They fail until they have another model.
    Forced,
}

impl TenantRegistry {
    /// The agents whose model is this provider's, by name.
    pub fn agents_asking(&self, provider: &Slug) -> Vec<Slug> {
        let asks = |model: &str| model.parse::<ModelRef>().is_ok_and(|model| model.provider == *provider);
        let agents = self.agents.values().filter(|agent| asks(&agent.spec.model));
        let mut names: Vec<Slug> = agents.map(|agent| agent.spec.name.clone()).collect();
        names.sort();
        names
    }
}

impl Registry {
    /// The tenant's own and those that it is offered, by name.
    pub fn providers(&self, caller: &Caller) -> Result<Vec<Arc<StoredProvider>>, Fault> {
        caller.require(&Permission::AGENTS_READ)?;
        Ok(self.snapshot().tenant(caller.tenant)?.providers.values().cloned().collect())
    }

    pub fn provider(&self, caller: &Caller, name: &str) -> Result<Arc<StoredProvider>, Fault> {
        caller.require(&Permission::AGENTS_READ)?;
        let snapshot = self.snapshot();
        let mut providers = snapshot.tenant(caller.tenant)?.providers.values();
        let found = providers.find(|provider| provider.spec.name.as_str() == name);
        found.cloned().ok_or_else(|| Fault::not_found("provider", name))
    }

    /// Creates the provider of that name, or replaces it; with `expected` only what has that revision.
    pub async fn put_provider(
        &self,
        caller: &Caller,
        spec: ProviderSpec,
        expected: Option<u32>,
    ) -> Result<KeptProvider, Fault> {
        caller.require(&Permission::AGENTS_MANAGE)?;
        spec.check()?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let own = |provider: &&Arc<StoredProvider>| provider.tenant == caller.tenant;
        let before = registry.providers.get(&spec.name).filter(own);
        if expected.is_some_and(|expected| before.is_none_or(|before| before.revision != expected)) {
            return Err(otherwise(registry, &spec.name));
        }
        if let Some(same) = before.filter(|before| before.spec == spec) {
            let provider = Arc::clone(same);
            return Ok(KeptProvider { provider, action: ProviderAction::Unchanged, revision: None });
        }
        if before.is_none() {
            check_new(registry, &spec.name)?;
        }
        let now = self.now();
        let provider = StoredProvider {
            tenant: caller.tenant,
            spec,
            revision: before.map_or(1, |before| before.revision + 1),
            saved_by: caller.principal.to_string(),
            created_at: before.map_or(now, |before| before.created_at),
            updated_at: now,
        };
        let ProviderSpec { name, kind, base_url, secret, script: _, prices } = &provider.spec;
        let details = json!({
            "revision": provider.revision, "kind": kind, "base_url": base_url, "secret": secret, "prices": prices,
        });
        let mut change = self.begin(caller, caller.tenant, "provider.set", name.as_str(), details);
        change.put_provider(&provider);
        let revision = Some(self.finish(change).await?);
        let action = if before.is_some() { ProviderAction::Replaced } else { ProviderAction::Created };
        Ok(KeptProvider { provider: Arc::new(provider), action, revision })
    }

    /// One of the tenant's own.
    pub async fn remove_provider(&self, caller: &Caller, name: &str, removal: Removal) -> Result<i64, Fault> {
        caller.require(&Permission::AGENTS_MANAGE)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let found = registry.providers.values().find(|provider| provider.spec.name.as_str() == name);
        let provider = found.ok_or_else(|| Fault::not_found("provider", name))?;
        if provider.tenant != caller.tenant {
            return Err(offered(name));
        }
        let asking = registry.agents_asking(&provider.spec.name);
        if removal == Removal::Unused && !asking.is_empty() {
            return Err(in_use(name, &asking));
        }
        let details = json!({"revision": provider.revision, "asked_by": asking});
        let mut change = self.begin(caller, caller.tenant, "provider.delete", name, details);
        change.delete_provider(&provider.spec.name);
        self.finish(change).await
    }
}

/// Why a provider does not have the revision that somebody saw.
fn otherwise(registry: &TenantRegistry, name: &Slug) -> Fault {
    match registry.providers.get(name) {
        None => Fault::not_found("provider", name),
        Some(provider) if provider.tenant != registry.tenant.id => offered(name.as_str()),
        Some(provider) => {
            let told = format!("the provider `{name}` was changed meanwhile and has revision {}", provider.revision);
            Fault::conflict(told, "look at it and change it again")
        }
    }
}

fn offered(name: &str) -> Fault {
    let told = format!("the provider `{name}` is offered by the operator to all tenants");
    Fault::conflict(told, "add one of the same name to stand in front of it")
}

fn in_use(name: &str, asking: &[Slug]) -> Fault {
    let shown: Vec<String> = asking.iter().take(NAMED_MAX).map(|agent| format!("`{agent}`")).collect();
    let more = asking.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let agents = if asking.len() == 1 { "the agent" } else { "the agents" };
    let asks = if asking.len() == 1 { "asks" } else { "ask" };
    let told = format!("{agents} {}{more} {asks} models of `{name}`", shown.join(", "));
    Fault::conflict(told, "give them another model first, or force it: they fail until they have one")
        .with_details(json!({"agents": asking}))
}

fn check_new(registry: &TenantRegistry, name: &Slug) -> Result<(), Fault> {
    let own = || registry.providers.values().filter(|provider| provider.tenant == registry.tenant.id);
    if own().count() >= PROVIDERS_MAX {
        let told = format!("there are {PROVIDERS_MAX} providers already");
        return Err(Fault::conflict(told, "remove one with `toolgate provider remove`"));
    }
    let folded = FoldedName::of(name.as_str());
    match own().find(|known| FoldedName::of(known.spec.name.as_str()) == folded) {
        None => Ok(()),
        Some(known) => {
            let told = format!("there is a provider `{}`, which `{name}` could be mistaken for", known.spec.name);
            Err(Fault::conflict(told, "choose another name, or replace that one").at("/name"))
        }
    }
}
