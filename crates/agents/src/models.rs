//! The models of a tenant's providers, asked on somebody's behalf: the provider found by its name, its key opened for whoever
//! asks, the question sent by the one way out, and what came back priced.
//!
//! Invariant: a key goes only where its owner lets it go: to a provider that they listed, at a host that they listed.
//! Invariant: each use of a key and of an opening is in the log before an answer is given.
//! Invariant: what is given back has no key in it, also where the model says its own.
//! Deliberately absent: who may ask, and how often. Whoever asks has judged the run; the loop counts its money.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolgate_contracts::provider::Prices;
use toolgate_contracts::{
    Amount, Caller, Clock, Fault, FaultKind, Id, ModelRef, Permission, Principal, ProviderKind, ProviderSpec, Rng,
    Slug, TenantId, WorkspaceId,
};
use toolgate_egress::{EgressError, Purpose, Request as Outgoing, Response, Url};
use toolgate_engine::{Outside, Wiring};
use toolgate_registry::commands::{KeptProvider, Registry};
use toolgate_store::audit::Entry;
use toolgate_store::providers::StoredProvider;
use toolgate_store::{Change, Store};
use toolgate_vault::{Reach, Redactor, Secret, Vault};

use crate::bounds::Bounds;
use crate::error::{ErrorKind, ModelError};
use crate::fold::Delta;
use crate::keyless::{self, Hearing};
use crate::model::{Request, Turn};
use crate::provider::Provider;
use crate::wire::{Answer, Asking, Form, Outlet};

/// On whose behalf a model is asked: whose secrets are looked through, the user's own first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub tenant: TenantId,
    pub principal: Principal,
    /// The agent's; of whoever has only one, that one is meant where none is named.
    pub workspace: Option<WorkspaceId>,
}

/// What a model said, and what it is owed.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub turn: Turn,
    /// How often it was sent.
    pub tries: u32,
    /// By the provider's table of prices; `None` where nobody wrote one, which is not the same as free.
    pub cost: Option<Amount>,
    pub provider: Slug,
    /// `scripted` for what no model said.
    pub kind: ProviderKind,
}

/// What is known of a model before it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub model: ModelRef,
    pub kind: ProviderKind,
    /// `None` where nobody wrote any.
    pub prices: Option<Prices>,
}

#[derive(Clone)]
pub struct Models {
    registry: Arc<Registry>,
    store: Store,
    outside: Outside,
    vault: Vault,
    clock: Clock,
    rng: Rng,
}

impl Models {
    pub fn new(wiring: &Wiring<'_>) -> Self {
        Self {
            registry: Arc::clone(wiring.registry),
            store: wiring.store.clone(),
            outside: wiring.outside.clone(),
            vault: wiring.vault.clone(),
            clock: wiring.clock.clone(),
            rng: wiring.rng.clone(),
        }
    }

    /// Keeps a provider that can be spoken to: its address is one, and its script can be played.
    pub async fn keep(
        &self,
        caller: &Caller,
        spec: ProviderSpec,
        expected: Option<u32>,
    ) -> Result<KeptProvider, Fault> {
        // Whoever may not write at all learns nothing by trying.
        caller.require(&Permission::AGENTS_MANAGE)?;
        Provider::open(spec.clone())?;
        self.registry.put_provider(caller, spec, expected).await
    }

    /// What can be told of `PROVIDER/MODEL` without asking it: whether there is such a provider, and what it would cost.
    pub fn known(&self, tenant: TenantId, model: &str) -> Result<Known, ModelError> {
        let model: ModelRef = model.parse().map_err(|fault| invalid(&fault))?;
        let stored = self.stored(tenant, &model.provider)?;
        let prices = stored.spec.prices.of(&model.model).copied();
        Ok(Known { model, kind: stored.spec.kind, prices })
    }

    /// Asks `PROVIDER/MODEL` once, with as many tries as it takes until an answer begins. `heard` gets each piece as it
    /// comes. The model's name is put into the request, whatever stands there.
    pub async fn ask(
        &self,
        asker: &Asker,
        model: &str,
        request: &Request,
        bounds: Bounds,
        heard: &mut (dyn FnMut(&Delta) + Send),
    ) -> Result<Answered, ModelError> {
        let ModelRef { provider, model } = model.parse().map_err(|fault| invalid(&fault))?;
        let stored = self.stored(asker.tenant, &provider)?;
        let opened = Provider::open(stored.spec.clone()).map_err(|fault| invalid(&fault))?;
        let request = if request.model == model {
            Cow::Borrowed(request)
        } else {
            Cow::Owned(Request { model, ..request.clone() })
        };
        let key = match &opened.secret {
            Some(name) => Some(self.key(asker, &opened, name, &request.model).await?),
            None => None,
        };
        let redactor = Redactor::new(&key).map_err(|fault| broken(&fault))?;
        let outlet = OfModel { outside: &self.outside, asker: *asker };
        let asking = Asking { outlet: &outlet, key: key.as_ref(), rng: &self.rng, bounds, form: Form::Streamed };
        let mut hearing = Hearing::new(&redactor, heard);
        let asked = Box::pin(opened.ask(&asking, &request, &mut |delta| hearing.hear(delta))).await;
        hearing.finish();
        let Answer { turn, tries } = asked.map_err(|error| error.redacted(&redactor))?;
        let mut turn = keyless::turn(turn, &redactor);
        turn.asked = Some(request.digest());
        // Some servers do not say which it was.
        if turn.model.is_empty() {
            turn.model.clone_from(&request.model);
        }
        let cost = opened.prices.cost(&request.model, turn.usage);
        Ok(Answered { turn, tries, cost, provider, kind: opened.kind })
    }

    fn stored(&self, tenant: TenantId, name: &Slug) -> Result<Arc<StoredProvider>, ModelError> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant).map_err(|fault| invalid(&fault))?;
        registry.providers.get(name).cloned().ok_or_else(|| {
            let message = format!(
                "there is no model provider `{name}`; `toolgate provider list` shows those there are, `toolgate provider add` adds one"
            );
            ModelError::new(ErrorKind::Invalid, message).with("provider", name.as_str())
        })
    }

    /// The key, opened for whoever asks and noted as used. Those of the tenant that asks alone are looked through, whoever
    /// wrote the provider.
    async fn key(&self, asker: &Asker, provider: &Provider, secret: &str, model: &str) -> Result<Secret, ModelError> {
        let Asker { tenant, principal, workspace } = *asker;
        let name = &provider.name;
        let host = provider.base().and_then(Url::host_str).unwrap_or_default();
        let workspace = match workspace {
            Some(workspace) => Some(workspace),
            None => self.store.only_workspace(tenant, principal).await.map_err(|error| broken(&error.into()))?,
        };
        let reach = Reach { tenant, principal: Some(principal), workspace };
        let found = self.vault.resolve(reach, &[secret]).await.map_err(|fault| broken(&fault))?.pop();
        let Some(sealed) = found else {
            let message = format!(
                "the provider `{name}` needs the secret `{secret}`, which neither the caller nor the workspace nor the organisation has; set it with `toolgate secret set {secret} --provider {name} --host {host}`"
            );
            return Err(ModelError::secret("secret_missing", message).with("secret", secret));
        };
        let scope = sealed.found.scope;
        if !sealed.allowed.providers.contains(name) {
            let message = format!(
                "the secret `{secret}` of the scope `{scope}` is not given to the provider `{name}`; its owner gives it with `toolgate secret allow {secret} --scope {scope} --provider {name}`"
            );
            let error = ModelError::secret("secret_not_allowed", message);
            return Err(error.with("secret", secret).with("scope", scope.as_str()));
        }
        if !sealed.allowed.has_host(host) {
            let message = format!(
                "the secret `{secret}` of the scope `{scope}` may not go to `{host}`; its owner allows it with `toolgate secret allow {secret} --scope {scope} --host {host}`"
            );
            let error = ModelError::secret("secret_not_allowed", message);
            return Err(error.with("secret", secret).with("scope", scope.as_str()).with("host", host));
        }
        let opened = self.vault.open(tenant, &sealed).await.map_err(|fault| broken(&fault))?;
        let details = json!({
            "for": Purpose::Model.as_str(), "provider": name, "model": model,
            "scope": scope, "version": sealed.found.version,
        });
        let mut change = Change::new(tenant);
        change.audit(&Entry {
            id: Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant,
            actor: principal.to_string(),
            action: "secret.use".to_owned(),
            object: secret.to_owned(),
            details: details.as_object().cloned().unwrap_or_default(),
        });
        self.store.commit(change).await.map_err(|error| broken(&error.into()))?;
        Ok(opened)
    }
}

/// The way out of one question: the tenant's, with what the operator opened.
struct OfModel<'a> {
    outside: &'a Outside,
    asker: Asker,
}

impl Outlet for OfModel<'_> {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(async move {
            let Asker { tenant, principal, workspace: _ } = self.asker;
            let way = self.outside.way(Purpose::Model, tenant, None).map_err(|fault| EgressError::no_way(&fault))?;
            let answer = self.outside.connector.send(&way, request).await;
            let openings = match &answer {
                Ok(answer) => answer.openings.as_slice(),
                Err(error) => error.openings(),
            };
            let noted = self.outside.note_use_of(tenant, &principal.to_string(), Purpose::Model, openings).await;
            if let Err(fault) = noted {
                tracing::error!(
                    "an opening was used for a model and not noted: {}",
                    fault.logged().unwrap_or(fault.told())
                );
            }
            answer
        })
    }
}

fn invalid(fault: &Fault) -> ModelError {
    ModelError::new(ErrorKind::Invalid, format!("{}; {}", fault.told(), fault.remedy()))
}

/// What a caller is told where the vault or the database failed.
fn broken(fault: &Fault) -> ModelError {
    tracing::error!("a model's key: {}", fault.logged().unwrap_or(fault.told()));
    let message = format!("{}; {}", fault.told(), fault.remedy());
    match fault.kind() {
        FaultKind::Unavailable if fault.logged().is_some() => ModelError::secret("secret_missing", message),
        _ => ModelError::new(ErrorKind::Interrupted, message),
    }
}
